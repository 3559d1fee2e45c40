/* Rows times matrices, spread over threads. */

#include <stdlib.h>

#include "variants.h"

typedef struct { int64_t first, last; } Span;

static Span share(int64_t count) {
    int64_t here = omp_get_thread_num(), of = omp_get_num_threads();
    return (Span){count * here / of, count * (here + 1) / of};
}

int64_t packed_floats(int64_t rows, int64_t inputs) {
    inputs = up(inputs, UNIT);
    return rows * (inputs + inputs / 2 + 2 * (inputs / UNIT));
}

Packed packed_in(float *memory, int64_t rows, int64_t inputs) {
    inputs = up(inputs, UNIT);
    float *scale = memory + rows * inputs, *sum = scale + rows * (inputs / UNIT);
    return (Packed){memory, (int32_t *)(sum + rows * (inputs / UNIT)), scale, sum};
}

int layers_rows(const Layers *w) {
    int what = 0;
    for (int p = 0; p < w->count; p++) what |= rows_for(w->parts[p].kind);
    return what;
}

void pack_rows(const Variant *v, const float *x, int64_t rows, int64_t inputs, const float *norm, float eps,
               int what, const Packed *packed) {
    Span own = share(up(inputs, UNIT) / UNIT);
    v->pack(x, rows, inputs, norm, eps, own.first, own.last, what, packed);
}

void multiply(const Variant *v, const Layers *w, const Packed *x, int64_t rows, After after, const float *other,
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
        if (first < last) v->product(&part, x, rows, first, last, &finish);
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
    int64_t most = rows < MOST_ROWS ? rows : MOST_ROWS;
    float *memory = malloc(sizeof(float) * packed_floats(most, inputs));
    if (!memory) return 2;
    Packed packed = packed_in(memory, most, inputs);
    for (int64_t begin = 0; begin < rows; begin += MOST_ROWS) {
        int64_t some = rows - begin < MOST_ROWS ? rows - begin : MOST_ROWS;
#pragma omp parallel num_threads(threads)
        {
            pack_rows(v, x + begin * inputs, some, inputs, norm, eps, layers_rows(w), &packed);
#pragma omp barrier
            multiply(v, w, &packed, some, (After)after, other ? other + begin * outputs : NULL,
                     out + begin * outputs);
        }
    }
    free(memory);
    return 0;
}
