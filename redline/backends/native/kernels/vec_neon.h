/* Sixteen floats at a time with NEON: four vectors of four. */

#include <arm_neon.h>

typedef struct { float32x4_t v[4]; } Vec;
typedef struct { int32x4_t v[4]; } Ints; /* of 32 bits, or pairs of 16 */

#define EACH(expression)        \
    Vec r;                      \
    for (int i = 0; i < 4; i++) \
        r.v[i] = (expression);  \
    return r

static inline Vec v_all(float x) { EACH(vdupq_n_f32(x)); }
static inline Vec v_zero(void) { return v_all(0); }
static inline Vec v_load(const float *p) { EACH(vld1q_f32(p + 4 * i)); }
static inline void v_store(float *p, Vec a) {
    for (int i = 0; i < 4; i++)
        vst1q_f32(p + 4 * i, a.v[i]);
}
static inline Vec v_fma(Vec a, Vec b, Vec c) { EACH(vfmaq_f32(c.v[i], a.v[i], b.v[i])); }
static inline Vec v_add(Vec a, Vec b) { EACH(vaddq_f32(a.v[i], b.v[i])); }
static inline Vec v_mul(Vec a, Vec b) { EACH(vmulq_f32(a.v[i], b.v[i])); }
static inline Vec v_div(Vec a, Vec b) { EACH(vdivq_f32(a.v[i], b.v[i])); }
static inline Vec v_min(Vec a, Vec b) { EACH(vbslq_f32(vcltq_f32(a.v[i], b.v[i]), a.v[i], b.v[i])); }
static inline Vec v_max(Vec a, Vec b) { EACH(vbslq_f32(vcgtq_f32(a.v[i], b.v[i]), a.v[i], b.v[i])); }
static inline Vec v_round(Vec a) { EACH(vrndnq_f32(a.v[i])); }
static inline Vec v_pow2(Vec whole) {
    EACH(vreinterpretq_f32_s32(vshlq_n_s32(vaddq_s32(vcvtq_s32_f32(whole.v[i]), vdupq_n_s32(127)), 23)));
}
static inline Vec v_i8(const void *p) {
    int8x16_t c = vld1q_s8(p);
    int16x8_t low = vmovl_s8(vget_low_s8(c)), high = vmovl_s8(vget_high_s8(c));
    return (Vec){{vcvtq_f32_s32(vmovl_s16(vget_low_s16(low))), vcvtq_f32_s32(vmovl_s16(vget_high_s16(low))),
                  vcvtq_f32_s32(vmovl_s16(vget_low_s16(high))), vcvtq_f32_s32(vmovl_s16(vget_high_s16(high)))}};
}
static inline Vec v_u8(const void *p) {
    uint8x16_t c = vld1q_u8(p);
    uint16x8_t low = vmovl_u8(vget_low_u8(c)), high = vmovl_u8(vget_high_u8(c));
    return (Vec){{vcvtq_f32_u32(vmovl_u16(vget_low_u16(low))), vcvtq_f32_u32(vmovl_u16(vget_high_u16(low))),
                  vcvtq_f32_u32(vmovl_u16(vget_low_u16(high))), vcvtq_f32_u32(vmovl_u16(vget_high_u16(high)))}};
}
static inline Vec v_half(const void *p) {
    EACH(vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16((const uint16_t *)p + 4 * i))));
}
static inline Vec v_bfloat(const void *p) {
    EACH(vreinterpretq_f32_u32(vshll_n_u16(vld1_u16((const uint16_t *)p + 4 * i), 16)));
}
static inline float v_sum(Vec a) {
    float32x4_t f = vaddq_f32(vaddq_f32(a.v[0], a.v[2]), vaddq_f32(a.v[1], a.v[3]));
    float32x2_t g = vadd_f32(vget_low_f32(f), vget_high_f32(f));
    return vget_lane_f32(g, 0) + vget_lane_f32(g, 1);
}
static inline Vec v_int(Ints a) { EACH(vcvtq_f32_s32(a.v[i])); }
#undef EACH

#define EACH(expression)        \
    Ints r;                     \
    for (int i = 0; i < 4; i++) \
        r.v[i] = (expression);  \
    return r

static inline Ints i_all(int32_t x) { EACH(vdupq_n_s32(x)); }
static inline Ints i_zero(void) { return i_all(0); }
static inline Ints i_load(const void *p) { EACH(vld1q_s32((const int32_t *)p + 4 * i)); }
static inline Ints i_bytes(const void *p) { EACH(vreinterpretq_s32_s16(vmovl_s8(vld1_s8((const int8_t *)p + 8 * i)))); }
/* Digits `at` and at + 4 of each word. */
static inline Ints i_nibbles(Ints w, int at) {
    int32x4_t down = vdupq_n_s32(-4 * at);
    EACH(vandq_s32(vreinterpretq_s32_u32(vshlq_u32(vreinterpretq_u32_s32(w.v[i]), down)), vdupq_n_s32(0xf000f)));
}
static inline Ints i_lower(Ints a) { EACH(vshrq_n_s32(vshlq_n_s32(a.v[i], 16), 16)); }
static inline Ints i_upper(Ints a) { EACH(vshrq_n_s32(a.v[i], 16)); }
static inline int32x4_t dot_four(int32x4_t sum, int16x8_t a, int16x8_t b) {
    int32x4_t low = vmull_s16(vget_low_s16(a), vget_low_s16(b)), high = vmull_high_s16(a, b);
    return vaddq_s32(sum, vpaddq_s32(low, high));
}
/* Of each pair the two products, added to the sum. */
static inline Ints i_dot(Ints sum, Ints a, Ints b) {
    EACH(dot_four(sum.v[i], vreinterpretq_s16_s32(a.v[i]), vreinterpretq_s16_s32(b.v[i])));
}
#undef EACH
