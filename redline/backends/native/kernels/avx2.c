/* The kernels with AVX2: 16 registers of 8 floats, so half as many sums at a time. */
#if defined(__x86_64__)
#pragma GCC target("avx2,fma,f16c")
#include "kernels.h"
#include "vec_avx2.h"

#define MOST_FUSED 8
#define FUSED 4
#define FUSED_TILES(X) X(1) X(2) X(3) X(4)
#define PANELS_FOR(rows) ((rows) <= 1 ? 2 : 1)
#define TILE 6
#define TILES(X) X(1) X(2) X(3) X(4) X(5) X(6)
#ifndef UNROLL
#define UNROLL _Pragma("GCC unroll 16")
#endif
#include "product.h"
#include "rows.h"

static int runs_here(void) {
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("f16c");
}
const Variant redline_avx2 = {"avx2", runs_here, decode, product, pack, rotate, attend};
#endif
