/* Sixteen floats at a time in plain C. `fmaf` rounds once by the standard, so the bits are the others'. */

#include <math.h>

typedef struct { float f[LANES]; } Vec;
typedef struct { int32_t w[LANES]; } Ints; /* of 32 bits, or pairs of 16 */

#define EACH(expression)                  \
    Vec r;                                \
    for (int i = 0; i < LANES; i++)       \
        r.f[i] = (expression);            \
    return r

static inline uint16_t u16_at(const void *p, int i) {
    uint16_t h;
    memcpy(&h, (const char *)p + 2 * i, sizeof h);
    return h;
}
static inline float from_half(uint16_t h) {
    uint32_t sign = (uint32_t)(h & 0x8000) << 16, exponent = h >> 10 & 31, mantissa = h & 0x3ff;
    if (exponent == 0) /* zero or subnormal: a multiple of 2^-24 */
        return float_of(sign | 0x3f800000) * ((float)mantissa * 0x1p-24f);
    return float_of(sign | (exponent == 31 ? 255 : exponent + 112) << 23 | mantissa << 13);
}

static inline Vec v_all(float x) { EACH(x); }
static inline Vec v_zero(void) { return v_all(0); }
static inline Vec v_load(const float *p) { Vec r; memcpy(&r, p, sizeof r); return r; }
static inline void v_store(float *p, Vec a) { memcpy(p, &a, sizeof a); }
static inline Vec v_fma(Vec a, Vec b, Vec c) { EACH(fmaf(a.f[i], b.f[i], c.f[i])); }
static inline Vec v_add(Vec a, Vec b) { EACH(a.f[i] + b.f[i]); }
static inline Vec v_mul(Vec a, Vec b) { EACH(a.f[i] * b.f[i]); }
static inline Vec v_div(Vec a, Vec b) { EACH(a.f[i] / b.f[i]); }
/* As the vector instructions: the second where either is not a number. */
static inline Vec v_min(Vec a, Vec b) { EACH(a.f[i] < b.f[i] ? a.f[i] : b.f[i]); }
static inline Vec v_max(Vec a, Vec b) { EACH(a.f[i] > b.f[i] ? a.f[i] : b.f[i]); }
static inline Vec v_round(Vec a) { EACH(nearbyintf(a.f[i])); }
static inline Vec v_pow2(Vec whole) { EACH(float_of((uint32_t)((int32_t)whole.f[i] + 127) << 23)); }
static inline Vec v_i8(const void *p) { EACH(((const int8_t *)p)[i]); }
static inline Vec v_u8(const void *p) { EACH(((const uint8_t *)p)[i]); }
static inline Vec v_half(const void *p) { EACH(from_half(u16_at(p, i))); }
static inline Vec v_bfloat(const void *p) { EACH(float_of((uint32_t)u16_at(p, i) << 16)); }
static inline float v_sum(Vec a) {
    for (int half = LANES / 2; half > 0; half /= 2)
        for (int i = 0; i < half; i++) a.f[i] += a.f[i + half];
    return a.f[0];
}
static inline Vec v_int(Ints a) { EACH((float)a.w[i]); }
#undef EACH

#define EACH(expression)                  \
    Ints r;                               \
    for (int i = 0; i < LANES; i++)       \
        r.w[i] = (int32_t)(expression);   \
    return r

static inline int32_t lower(int32_t pair) { return (int16_t)(pair & 0xffff); }
static inline int32_t upper(int32_t pair) { return (int16_t)((uint32_t)pair >> 16); }
static inline Ints i_all(int32_t x) { EACH(x); }
static inline Ints i_zero(void) { return i_all(0); }
static inline Ints i_load(const void *p) { Ints r; memcpy(&r, p, sizeof r); return r; }
static inline Ints i_bytes(const void *p) {
    const int8_t *bytes = p;
    EACH(((uint32_t)bytes[2 * i] & 0xffff) | (uint32_t)bytes[2 * i + 1] << 16);
}
/* Digits `at` and at + 4 of each word. */
static inline Ints i_nibbles(Ints w, int at) { EACH((uint32_t)w.w[i] >> 4 * at & 0xf000f); }
static inline Ints i_lower(Ints a) { EACH(lower(a.w[i])); }
static inline Ints i_upper(Ints a) { EACH(upper(a.w[i])); }
/* Of each pair the two products, added to the sum. */
static inline Ints i_dot(Ints sum, Ints a, Ints b) {
    EACH(sum.w[i] + lower(a.w[i]) * lower(b.w[i]) + upper(a.w[i]) * upper(b.w[i]));
}
#undef EACH
