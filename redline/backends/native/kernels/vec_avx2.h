/* Sixteen floats at a time with AVX2, FMA and F16C: two vectors of eight. */

#include <immintrin.h>

typedef struct { __m256 a, b; } Vec;
typedef struct { __m256i a, b; } Ints; /* of 32 bits, or pairs of 16 */

static inline Vec v_zero(void) { return (Vec){_mm256_setzero_ps(), _mm256_setzero_ps()}; }
static inline Vec v_all(float x) { return (Vec){_mm256_set1_ps(x), _mm256_set1_ps(x)}; }
static inline Vec v_load(const float *p) { return (Vec){_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)}; }
static inline void v_store(float *p, Vec v) { _mm256_storeu_ps(p, v.a), _mm256_storeu_ps(p + 8, v.b); }
static inline Vec v_fma(Vec x, Vec y, Vec z) {
    return (Vec){_mm256_fmadd_ps(x.a, y.a, z.a), _mm256_fmadd_ps(x.b, y.b, z.b)};
}
static inline Vec v_add(Vec x, Vec y) { return (Vec){_mm256_add_ps(x.a, y.a), _mm256_add_ps(x.b, y.b)}; }
static inline Vec v_mul(Vec x, Vec y) { return (Vec){_mm256_mul_ps(x.a, y.a), _mm256_mul_ps(x.b, y.b)}; }
static inline Vec v_div(Vec x, Vec y) { return (Vec){_mm256_div_ps(x.a, y.a), _mm256_div_ps(x.b, y.b)}; }
static inline Vec v_min(Vec x, Vec y) { return (Vec){_mm256_min_ps(x.a, y.a), _mm256_min_ps(x.b, y.b)}; }
static inline Vec v_max(Vec x, Vec y) { return (Vec){_mm256_max_ps(x.a, y.a), _mm256_max_ps(x.b, y.b)}; }
static inline Vec v_round(Vec x) { return (Vec){_mm256_round_ps(x.a, 8), _mm256_round_ps(x.b, 8)}; }
static inline __m256 pow2_eight(__m256 whole) {
    __m256i e = _mm256_add_epi32(_mm256_cvtps_epi32(whole), _mm256_set1_epi32(127));
    return _mm256_castsi256_ps(_mm256_slli_epi32(e, 23));
}
static inline Vec v_pow2(Vec whole) { return (Vec){pow2_eight(whole.a), pow2_eight(whole.b)}; }
static inline __m256 i8_eight(const void *p) {
    return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64(p)));
}
static inline __m256 u8_eight(const void *p) {
    return _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(_mm_loadl_epi64(p)));
}
static inline __m256 bfloat_eight(const void *p) {
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(_mm_loadu_si128(p)), 16));
}
static inline Vec v_i8(const void *p) { return (Vec){i8_eight(p), i8_eight((const char *)p + 8)}; }
static inline Vec v_u8(const void *p) { return (Vec){u8_eight(p), u8_eight((const char *)p + 8)}; }
static inline Vec v_half(const void *p) {
    return (Vec){_mm256_cvtph_ps(_mm_loadu_si128(p)), _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)p + 1))};
}
static inline Vec v_bfloat(const void *p) { return (Vec){bfloat_eight(p), bfloat_eight((const char *)p + 16)}; }
static inline float v_sum(Vec x) {
    __m256 e = _mm256_add_ps(x.a, x.b);
    __m128 f = _mm_add_ps(_mm256_castps256_ps128(e), _mm256_extractf128_ps(e, 1));
    f = _mm_add_ps(f, _mm_movehl_ps(f, f));
    return _mm_cvtss_f32(_mm_add_ss(f, _mm_shuffle_ps(f, f, 1)));
}
static inline Ints i_all(int32_t x) { return (Ints){_mm256_set1_epi32(x), _mm256_set1_epi32(x)}; }
static inline Ints i_zero(void) { return i_all(0); }
static inline Ints i_load(const void *p) {
    return (Ints){_mm256_loadu_si256(p), _mm256_loadu_si256((const __m256i *)p + 1)};
}
static inline Ints i_bytes(const void *p) {
    return (Ints){_mm256_cvtepi8_epi16(_mm_loadu_si128(p)),
                  _mm256_cvtepi8_epi16(_mm_loadu_si128((const __m128i *)p + 1))};
}
/* Digits `at` and at + 4 of each word. */
static inline Ints i_nibbles(Ints w, int at) {
    __m256i digits = _mm256_set1_epi32(0xf000f);
    return (Ints){_mm256_and_si256(_mm256_srli_epi32(w.a, 4 * at), digits),
                  _mm256_and_si256(_mm256_srli_epi32(w.b, 4 * at), digits)};
}
static inline Ints i_upper(Ints x) { return (Ints){_mm256_srai_epi32(x.a, 16), _mm256_srai_epi32(x.b, 16)}; }
static inline Ints i_lower(Ints x) {
    return i_upper((Ints){_mm256_slli_epi32(x.a, 16), _mm256_slli_epi32(x.b, 16)});
}
static inline __m256i dot_eight(__m256i sum, __m256i x, __m256i y) {
#ifdef VNNI
    return _mm256_dpwssd_avx_epi32(sum, x, y);
#else
    return _mm256_add_epi32(sum, _mm256_madd_epi16(x, y));
#endif
}
/* Of each pair the two products, added to the sum. */
static inline Ints i_dot(Ints sum, Ints x, Ints y) {
    return (Ints){dot_eight(sum.a, x.a, y.a), dot_eight(sum.b, x.b, y.b)};
}
static inline Vec v_int(Ints x) { return (Vec){_mm256_cvtepi32_ps(x.a), _mm256_cvtepi32_ps(x.b)}; }
