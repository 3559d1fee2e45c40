/* The kernels with AVX-512: 32 registers of 16 floats. avx512_vnni.c includes this. */
#if defined(__x86_64__)
#ifndef VNNI
#define VARIANT redline_avx512
#define NAME "avx512"
#define HAS_MORE 1
#endif
#pragma GCC target("avx512f,avx512bw,avx512vl,avx512dq,fma,f16c")
#include "kernels.h"
#include "vec_avx512.h"

#define MOST_TILE 12
#define TILES(X, with) X(1, with) X(2, with) X(3, with) X(4, with) X(5, with) X(6, with) X(7, with) X(8, with) X(9, with) X(10, with) X(11, with) X(12, with)
#ifndef UNROLL
#define UNROLL _Pragma("GCC unroll 16")
#endif
#include "product.h"
#include "rows.h"

static int runs_here(void) {
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq") && HAS_MORE;
}
const Variant VARIANT = {NAME, runs_here, decode, product, pack, rotate, attend, MOST_TILE};
#endif
