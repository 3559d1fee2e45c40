/* The kernels with AVX2: 16 registers of 8 floats, so half as many sums at a time. avx2_vnni.c includes this. */
#if defined(__x86_64__)
#ifndef VNNI
#define VARIANT redline_avx2
#define NAME "avx2"
#define HAS_MORE 1
#endif
#pragma GCC target("avx2,fma,f16c")
#include "kernels.h"
#include "vec_avx2.h"

#define MOST_TILE 4
#define TILES(X, with) X(1, with) X(2, with) X(3, with) X(4, with)
#ifndef UNROLL
#define UNROLL _Pragma("GCC unroll 16")
#endif
#include "product.h"
#include "rows.h"

static int runs_here(void) {
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("f16c") &&
           HAS_MORE;
}
const Variant VARIANT = {NAME, runs_here, decode, product, pack, rotate, attend, MOST_TILE};
#endif
