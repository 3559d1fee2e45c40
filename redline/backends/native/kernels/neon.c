/* The kernels with NEON: 32 registers of 4 floats. */
#if defined(__aarch64__)
#include "kernels.h"
#include "vec_neon.h"

#define MOST_TILE 4
#define TILES(X, with) X(1, with) X(2, with) X(3, with) X(4, with)
#ifndef UNROLL
#define UNROLL _Pragma("GCC unroll 16")
#endif
#include "product.h"
#include "rows.h"

static int runs_here(void) { return 1; }
const Variant redline_neon = {"neon", runs_here, decode, product, pack, rotate, attend, MOST_TILE};
#endif
