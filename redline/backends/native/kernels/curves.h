/* Parts of vectors, and exp with what is made of it: the same bits for a number wherever it stands. */

#ifndef REDLINE_CURVES_H
#define REDLINE_CURVES_H

#include "kernels.h"

#define INLINE static inline __attribute__((always_inline))

/* Up to LANES floats, the rest zeros. */
INLINE Vec v_some(const float *p, int64_t count) {
    if (count >= LANES) return v_load(p);
    float whole[LANES] = {0};
    memcpy(whole, p, sizeof(float) * count);
    return v_load(whole);
}
INLINE void v_put(float *p, int64_t count, Vec a) {
    float whole[LANES];
    if (count >= LANES) {
        v_store(p, a);
    } else {
        v_store(whole, a);
        memcpy(p, whole, sizeof(float) * count);
    }
}

/* exp(x) for x in [-87, 88], to about one unit in the last place: 2^n times a Taylor polynomial. */
INLINE Vec v_exp(Vec x) {
    Vec n = v_round(v_mul(x, v_all(0x1.715476p+0f)));
    Vec r = v_fma(n, v_all(-0x1.62e4p-1f), x); /* n ln 2 in two parts, the first one exact */
    r = v_fma(n, v_all(-0x1.7f7d1cp-20f), r);
    Vec e = v_all(1.0f / 5040);
    e = v_fma(e, r, v_all(1.0f / 720));
    e = v_fma(e, r, v_all(1.0f / 120));
    e = v_fma(e, r, v_all(1.0f / 24));
    e = v_fma(e, r, v_all(1.0f / 6));
    e = v_fma(e, r, v_all(0.5f));
    e = v_fma(e, r, v_all(1.0f));
    e = v_fma(e, r, v_all(1.0f));
    return v_mul(e, v_pow2(n));
}

INLINE Vec v_swish(Vec y) {
    Vec exponent = v_min(v_max(v_mul(y, v_all(-1)), v_all(-87)), v_all(87));
    return v_div(y, v_add(v_all(1), v_exp(exponent)));
}

#endif
