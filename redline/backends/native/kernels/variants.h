/* What the files that are no variant's own share: the variants, the threads of a region, and a model's matrices. */

#ifndef REDLINE_VARIANTS_H
#define REDLINE_VARIANTS_H

#include "kernels.h"

#ifdef _OPENMP
#include <omp.h>
#else
static inline int omp_get_thread_num(void) { return 0; }
static inline int omp_get_num_threads(void) { return 1; }
#endif

#if defined(__x86_64__) && (defined(__clang__) ? __clang_major__ >= 12 : __GNUC__ >= 12)
#define HAS_AVX_VNNI /* the compiler knows it */
#endif

const Variant *variant_at(int at); /* NULL for none */

/* Matrices one below the other that read the same rows. */
enum { MOST_PARTS = 4 };
typedef struct {
    int32_t count;
    Matrix parts[MOST_PARTS];
    const float *bias; /* over all outputs, or NULL */
} Layers;

/* A Llama-like model's blocks. */
typedef struct {
    const float *norm, *mlp_norm; /* (hidden) */
    const float *head_norm;       /* (heads + kv_heads, width), or NULL */
    Layers qkv, out, gate, up, down;
} Block;
typedef struct {
    int64_t hidden, heads, kv_heads, width, inner, blocks;
    float eps;
    const Block *block;
} Model;

/* Packed rows in memory of so many floats. */
int64_t packed_floats(int64_t rows, int64_t inputs);
Packed packed_in(float *memory, int64_t rows, int64_t inputs);

/* Which of a Packed's arrays the layers need. */
int layers_rows(const Layers *w);

/* One thread's share of packing rows, normed where there is a norm. */
void pack_rows(const Variant *v, const float *x, int64_t rows, int64_t inputs, const float *norm, float eps,
               int what, const Packed *packed);

/* One thread's share of rows times such matrices; every thread of the region calls it. Nothing in it depends on how
   many there are. */
void multiply(const Variant *v, const Layers *w, const Packed *x, int64_t rows, After after, const float *other,
              float *out);

#endif
