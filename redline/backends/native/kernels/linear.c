/* Rows times matrices, spread over threads. */

#include <stdlib.h>

#include "variants.h"

typedef struct { int64_t first, last; } Span;

static Span share(int64_t count) {
    int64_t here = omp_get_thread_num(), of = omp_get_num_threads();
    return (Span){count * here / of, count * (here + 1) / of};
}

void pack_rows(const Variant *v, const float *x, int64_t rows, int64_t inputs, const float *norm, float eps,
               float *packed) {
    Span own = share(up(inputs, UNIT));
    v->pack(x, rows, inputs, norm, eps, own.first, own.last, packed);
}

void multiply(const Variant *v, const Layers *w, const float *packed, int64_t rows, After after, const float *other,
              float *out) {
    int64_t panels = 0, stride = 0;
    for (int p = 0; p < w->count; p++) {
        panels += up(w->parts[p].outputs, LANES) / LANES;
        stride += w->parts[p].outputs;
    }
    Span own = share(panels);
    const float *bias = w->bias;
    for (int p = 0; p < w->count; p++) {
        Matrix part = w->parts[p];
        part.inputs = up(part.inputs, UNIT);
        int64_t here = up(part.outputs, LANES) / LANES;
        int64_t first = own.first > 0 ? own.first : 0, last = own.last < here ? own.last : here;
        Finish finish = {bias, after, other, out, stride};
        if (first < last) v->product(&part, packed, rows, first, last, &finish);
        own.first -= here, own.last -= here;
        out += part.outputs;
        if (bias) bias += part.outputs;
        if (other) other += part.outputs;
    }
}

/* out = what follows x wT + bias: x (rows, inputs), RMS-normed before where there is a norm; out, other (rows,
   outputs of all parts). Returns 0, 1 for a variant or number that is not good, or 2 where there is no memory. */
int redline_linear(int variant, const Layers *w, const float *x, int64_t rows, const float *norm, float eps,
                   int after, const float *other, float *out, int threads) {
    const Variant *v = variant_at(variant);
    if (!v || w->count < 1 || w->count > MOST_PARTS || threads < 1) return 1;
    int64_t inputs = w->parts[0].inputs, outputs = 0;
    for (int p = 0; p < w->count; p++) outputs += w->parts[p].outputs;
    float *packed = malloc(sizeof(float) * (rows < MOST_ROWS ? rows : MOST_ROWS) * up(inputs, UNIT));
    if (!packed) return 2;
    for (int64_t begin = 0; begin < rows; begin += MOST_ROWS) {
        int64_t some = rows - begin < MOST_ROWS ? rows - begin : MOST_ROWS;
#pragma omp parallel num_threads(threads)
        {
            pack_rows(v, x + begin * inputs, some, inputs, norm, eps, packed);
#pragma omp barrier
            multiply(v, w, packed, some, (After)after, other ? other + begin * outputs : NULL,
                     out + begin * outputs);
        }
    }
    free(packed);
    return 0;
}
