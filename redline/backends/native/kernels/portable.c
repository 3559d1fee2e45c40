/* The kernels in plain C, with the same bits and little speed. */
#include "kernels.h"
#include "vec_portable.h"

#define MOST_FUSED 1
#define FUSED 1
#define FUSED_TILES(X) X(1)
#define PANELS_FOR(rows) 1
#define TILE 6
#define TILES(X) X(1) X(2) X(3) X(4) X(5) X(6)
#ifndef UNROLL
#define UNROLL
#endif
#include "product.h"
#include "rows.h"

static int runs_here(void) { return 1; }
const Variant redline_portable = {"portable", runs_here, decode, product, pack, rotate, attend};
