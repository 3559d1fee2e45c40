/* The kernels with AVX-512 where one instruction multiplies pairs and adds them to a sum. */
#if defined(__x86_64__)
#pragma GCC target("avx512vnni")
#define VNNI
#define VARIANT redline_avx512_vnni
#define NAME "avx512_vnni"
#define HAS_MORE __builtin_cpu_supports("avx512vnni")
#include "avx512.c"
#endif
