/* The variants, best first. */

#include "variants.h"

#if defined(__x86_64__)
extern const Variant redline_avx512_vnni, redline_avx512, redline_avx2_vnni, redline_avx2;
#elif defined(__aarch64__)
extern const Variant redline_neon;
#endif
extern const Variant redline_portable;

static const Variant *const VARIANTS[] = {
#if defined(__x86_64__)
    &redline_avx512_vnni, &redline_avx512,
#ifdef HAS_AVX_VNNI
    &redline_avx2_vnni,
#endif
    &redline_avx2,
#elif defined(__aarch64__)
    &redline_neon,
#endif
    &redline_portable,
};
enum { COUNT = sizeof VARIANTS / sizeof *VARIANTS };

const Variant *variant_at(int at) { return at < 0 || at >= COUNT ? NULL : VARIANTS[at]; }

/* The name of the variant at a place; NULL behind the last. `*runs`: whether this processor can. */
const char *redline_variant(int at, int *runs) {
    const Variant *v = variant_at(at);
    if (!v) return NULL;
    *runs = v->runs_here();
    return v->name;
}

int64_t redline_codes_bytes(int32_t kind, int64_t inputs) {
    inputs = up(inputs, UNIT);
    switch ((Kind)kind) {
    case F32: return inputs * LANES * 4;
    case F16: case BF16: return inputs * LANES * 2;
    case N4_HALF: case N4_HALF2: case N4_SUPER: return inputs * LANES / 2;
    default: return inputs * LANES;
    }
}

int64_t redline_scales_bytes(int32_t kind, int64_t inputs) {
    switch ((Kind)kind) {
    case I8_HALF: case N4_HALF: return inputs / UNIT * 32;
    case I8_HALF2: case N4_HALF2: return inputs / UNIT * 64;
    case N4_SUPER: case I8_SUPER: return inputs / SUPER * (64 + 8 * 32);
    case I8_SUPER16: return inputs / SUPER * (32 + 8 * 32);
    default: return 0;
    }
}

/* out (count, inputs): the weights of some outputs, as an embedding's rows. Returns 0, or 1 for no such variant. */
int redline_rows(int variant, const Matrix *w, const int64_t *outputs, int64_t count, float *out) {
    const Variant *v = variant_at(variant);
    if (!v) return 1;
    Matrix padded = *w;
    padded.inputs = up(w->inputs, UNIT);
    float unit[UNIT * LANES];
    for (int64_t n = 0; n < count; n++)
        for (int64_t k = 0; k < w->inputs; k += UNIT) {
            v->decode(&padded, outputs[n] / LANES, k / UNIT, unit);
            for (int64_t i = 0; i < UNIT && k + i < w->inputs; i++)
                out[n * w->inputs + k + i] = unit[i * LANES + outputs[n] % LANES];
        }
    return 0;
}
