/* The kernels with AVX2 where one instruction multiplies pairs and adds them to a sum: laptops since 2021. */
#include "variants.h"
#ifdef HAS_AVX_VNNI
#pragma GCC target("avxvnni")
#define VNNI
#define VARIANT redline_avx2_vnni
#define NAME "avx2_vnni"
#define HAS_MORE __builtin_cpu_supports("avxvnni")
#include "avx2.c"
#endif
