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
#define TILES(X) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11) X(12)
#define PANELS_FOR(rows) ((rows) <= 4 ? 4 : (rows) <= 8 ? 2 : 1)
#ifndef UNROLL
#define UNROLL _Pragma("GCC unroll 16")
#endif
#include "product.h"
#include "rows.h"

static int runs_here(void) {
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq") && HAS_MORE;
}
const Variant VARIANT = {NAME, runs_here, decode, product, pack, rotate, attend};
#endif
