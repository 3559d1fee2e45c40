/* Sixteen floats at a time with AVX-512. */

#include <immintrin.h>

typedef __m512 Vec;
typedef __m512i Ints; /* of 32 bits, or pairs of 16 */

static inline Vec v_zero(void) { return _mm512_setzero_ps(); }
static inline Vec v_all(float x) { return _mm512_set1_ps(x); }
static inline Vec v_load(const float *p) { return _mm512_loadu_ps(p); }
static inline void v_store(float *p, Vec a) { _mm512_storeu_ps(p, a); }
static inline Vec v_fma(Vec a, Vec b, Vec c) { return _mm512_fmadd_ps(a, b, c); }
static inline Vec v_add(Vec a, Vec b) { return _mm512_add_ps(a, b); }
static inline Vec v_mul(Vec a, Vec b) { return _mm512_mul_ps(a, b); }
static inline Vec v_div(Vec a, Vec b) { return _mm512_div_ps(a, b); }
static inline Vec v_min(Vec a, Vec b) { return _mm512_min_ps(a, b); }
static inline Vec v_max(Vec a, Vec b) { return _mm512_max_ps(a, b); }
static inline Vec v_round(Vec a) { return _mm512_roundscale_ps(a, 8); }
static inline Vec v_pow2(Vec whole) { /* of whole numbers in [-126, 127] */
    __m512i e = _mm512_add_epi32(_mm512_cvtps_epi32(whole), _mm512_set1_epi32(127));
    return _mm512_castsi512_ps(_mm512_slli_epi32(e, 23));
}
static inline Vec v_i8(const void *p) {
    return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128(p)));
}
static inline Vec v_u8(const void *p) {
    return _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(_mm_loadu_si128(p)));
}
static inline Vec v_half(const void *p) { return _mm512_cvtph_ps(_mm256_loadu_si256(p)); }
static inline Vec v_bfloat(const void *p) {
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm256_loadu_si256(p)), 16));
}
/* Lane i and i + 8, then i + 4, i + 2, i + 1: the order of `v_sum` in every variant. */
static inline float v_sum(Vec a) {
    __m256 e = _mm256_add_ps(_mm512_castps512_ps256(a), _mm512_extractf32x8_ps(a, 1));
    __m128 f = _mm_add_ps(_mm256_castps256_ps128(e), _mm256_extractf128_ps(e, 1));
    f = _mm_add_ps(f, _mm_movehl_ps(f, f));
    return _mm_cvtss_f32(_mm_add_ss(f, _mm_shuffle_ps(f, f, 1)));
}
static inline Ints i_zero(void) { return _mm512_setzero_si512(); }
static inline Ints i_all(int32_t x) { return _mm512_set1_epi32(x); }
static inline Ints i_load(const void *p) { return _mm512_loadu_si512(p); }
static inline Ints i_bytes(const void *p) { return _mm512_cvtepi8_epi16(_mm256_loadu_si256(p)); }
/* Digits `at` and at + 4 of each word. */
static inline Ints i_nibbles(Ints w, int at) {
    return _mm512_and_si512(_mm512_srli_epi32(w, 4 * at), _mm512_set1_epi32(0xf000f));
}
static inline Ints i_lower(Ints a) { return _mm512_srai_epi32(_mm512_slli_epi32(a, 16), 16); }
static inline Ints i_upper(Ints a) { return _mm512_srai_epi32(a, 16); }
/* Of each pair the two products, added to the sum. */
static inline Ints i_dot(Ints sum, Ints a, Ints b) {
#ifdef VNNI
    return _mm512_dpwssd_epi32(sum, a, b);
#else
    return _mm512_add_epi32(sum, _mm512_madd_epi16(a, b));
#endif
}
static inline Vec v_int(Ints a) { return _mm512_cvtepi32_ps(a); }
