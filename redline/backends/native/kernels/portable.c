/* The kernels in plain C, with the same bits and little speed. */
#include "kernels.h"
#include "vec_portable.h"

#define MOST_TILE 4
#define TILES(X, with) X(1, with) X(2, with) X(3, with) X(4, with)
#ifndef UNROLL
#define UNROLL
#endif
#include "product.h"
#include "rows.h"

static int runs_here(void) { return 1; }
const Variant redline_portable = {"portable", runs_here, decode, product, pack, rotate, attend, MOST_TILE};
