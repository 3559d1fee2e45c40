/* rows times a matrix, for one kind of vector. A variant's file defines TILE, PANELS_FOR and the vectors, and
   includes this. See kernels.h for the order of every sum. */

#include "curves.h"

/* The inputs that are decoded before the rows are multiplied with them: four panels of it fill 16 KiB. */
enum { STRIDE = 64, MOST_PANELS = 4 };

typedef struct { Vec scale, offset; } Scale;

INLINE int code_bits(Kind kind) {
    switch (kind) {
    case F32: return 32;
    case F16: case BF16: return 16;
    case N4_HALF: case N4_HALF2: case N4_SUPER: return 4;
    default: return 8;
    }
}

/* Scale and offset of half a unit, of 16 inputs; `at` counts halves from the panel's first input. */
INLINE Scale scale_of(Kind kind, const uint8_t *scales, int64_t at) {
    int64_t unit = at / 2, super = unit / (SUPER / UNIT);
    int in_super = (int)(unit % (SUPER / UNIT)), half = (int)(at % 2);
    const uint8_t *p;
    Vec scale = v_zero(), offset = v_zero();
    switch (kind) {
    case F32: case F16: case BF16: break;
    case I8_HALF:
        scale = v_half(scales + unit * 32);
        break;
    case N4_HALF:
        scale = v_half(scales + unit * 32);
        offset = v_mul(scale, v_all(-8));
        break;
    case I8_HALF2: case N4_HALF2:
        scale = v_half(scales + unit * 64);
        offset = v_half(scales + unit * 64 + 32);
        break;
    case N4_SUPER: case I8_SUPER:
        p = scales + super * (64 + 8 * 32);
        scale = v_mul(v_half(p), v_u8(p + 64 + in_super * 32));
        offset = v_mul(v_half(p + 32), v_mul(v_u8(p + 64 + in_super * 32 + 16), v_all(-1)));
        break;
    case I8_SUPER16:
        p = scales + super * (32 + 8 * 32);
        scale = v_mul(v_half(p), v_i8(p + 32 + in_super * 32 + half * 16));
        break;
    default: break;
    }
    return (Scale){scale, offset};
}

/* Weights of input i of a unit, for a panel's 16 outputs. */
INLINE Vec weight_of(Kind kind, const uint8_t *unit, int i, Scale s) {
    switch (kind) {
    case F32: return v_load((const float *)unit + i * LANES);
    case F16: return v_half(unit + i * 2 * LANES);
    case BF16: return v_bfloat(unit + i * 2 * LANES);
    case N4_HALF: case N4_HALF2: case N4_SUPER:
        return v_fma(v_nibble(w_load(unit + i / 8 * 64), i % 8), s.scale, s.offset);
    default: return v_fma(v_i8(unit + i * LANES), s.scale, s.offset);
    }
}

INLINE void decode_kind(Kind kind, const Matrix *w, int64_t panel, int64_t from, int64_t count,
                        float *restrict out) {
    const uint8_t *codes = w->codes + panel * redline_codes_bytes(kind, w->inputs);
    const uint8_t *scales = w->scales + panel * redline_scales_bytes(kind, w->inputs);
    codes += from * LANES * code_bits(kind) / 8;
    for (int64_t k = 0; k < count; k += 16, out += 16 * LANES) {
        Scale s = scale_of(kind, scales, (from + k) / 16);
        const uint8_t *unit = codes + k / UNIT * (UNIT * LANES * code_bits(kind) / 8);
        if (k % UNIT == 0) {
            UNROLL for (int i = 0; i < 16; i++) v_store(out + i * LANES, weight_of(kind, unit, i, s));
        } else {
            UNROLL for (int i = 0; i < 16; i++) v_store(out + i * LANES, weight_of(kind, unit, 16 + i, s));
        }
    }
}

static void decode(const Matrix *w, int64_t panel, int64_t from, int64_t count, float *restrict out) {
    switch (w->kind) {
#define CASE(kind) case kind: decode_kind(kind, w, panel, from, count, out); break;
        CASE(F32) CASE(F16) CASE(BF16) CASE(I8_HALF) CASE(I8_HALF2) CASE(N4_HALF) CASE(N4_HALF2)
        CASE(N4_SUPER) CASE(I8_SUPER) CASE(I8_SUPER16)
#undef CASE
    }
}

/* One row: nothing to share a decoded weight with, so it stays in its register. */
INLINE void row_kind(Kind kind, int panels, const Matrix *w, int64_t panel, const float *restrict x,
                     float *restrict sums) {
    int64_t codes_bytes = redline_codes_bytes(kind, w->inputs);
    int64_t scales_bytes = redline_scales_bytes(kind, w->inputs);
    const uint8_t *codes = w->codes + panel * codes_bytes, *scales = w->scales + panel * scales_bytes;
    Vec sum[MOST_PANELS];
    UNROLL for (int p = 0; p < panels; p++) sum[p] = v_zero();
    for (int64_t k = 0; k < w->inputs; k += UNIT, codes += UNIT * LANES * code_bits(kind) / 8) {
        Scale s[MOST_PANELS];
        UNROLL for (int half = 0; half < 2; half++) {
            UNROLL for (int p = 0; p < panels; p++)
                if (half == 0 || kind == I8_SUPER16)
                    s[p] = scale_of(kind, scales + p * scales_bytes, k / 16 + half);
            UNROLL for (int i = 16 * half; i < 16 * half + 16; i++) {
                Vec xi = v_all(x[k + i]);
                UNROLL for (int p = 0; p < panels; p++)
                    sum[p] = v_fma(weight_of(kind, codes + p * codes_bytes, i, s[p]), xi, sum[p]);
            }
        }
    }
    UNROLL for (int p = 0; p < panels; p++) v_store(sums + p * LANES, sum[p]);
}

static void row(const Matrix *w, int64_t panel, int panels, const float *restrict x, float *restrict sums) {
    switch (w->kind) {
#define CASE(kind)                                                                     \
    case kind:                                                                         \
        if (panels == MOST_PANELS) row_kind(kind, MOST_PANELS, w, panel, x, sums);     \
        else                                                                           \
            for (int p = 0; p < panels; p++)                                           \
                row_kind(kind, 1, w, panel + p, x, sums + p * LANES);                  \
        break;
        CASE(F32) CASE(F16) CASE(BF16) CASE(I8_HALF) CASE(I8_HALF2) CASE(N4_HALF) CASE(N4_HALF2)
        CASE(N4_SUPER) CASE(I8_SUPER) CASE(I8_SUPER16)
#undef CASE
    }
}

/* Several rows: sums[panel][row][16] grow by `count` inputs' weights[panel][input][16] times x[input][row]. */
INLINE void tile_of(int rows, int panels, const float *restrict weights, int64_t count,
                    const float *restrict x, float *restrict sums, int64_t sums_panel) {
    Vec sum[MOST_PANELS][TILE];
    UNROLL for (int p = 0; p < panels; p++)
        UNROLL for (int r = 0; r < rows; r++) sum[p][r] = v_load(sums + p * sums_panel + r * LANES);
    for (int64_t i = 0; i < count; i++) {
        Vec weight[MOST_PANELS];
        UNROLL for (int p = 0; p < panels; p++) weight[p] = v_load(weights + (p * STRIDE + i) * LANES);
        UNROLL for (int r = 0; r < rows; r++) {
            Vec xr = v_all(x[i * rows + r]);
            UNROLL for (int p = 0; p < panels; p++) sum[p][r] = v_fma(weight[p], xr, sum[p][r]);
        }
    }
    UNROLL for (int p = 0; p < panels; p++)
        UNROLL for (int r = 0; r < rows; r++) v_store(sums + p * sums_panel + r * LANES, sum[p][r]);
}

static void tile(int rows, const float *weights, int64_t count, const float *x, float *sums,
                 int64_t sums_panel) {
    switch (rows) {
#define CASE(rows) \
    case rows: tile_of(rows, PANELS_FOR(rows), weights, count, x, sums, sums_panel); break;
        TILES(CASE)
#undef CASE
    }
}

static void finish_row(const Finish *f, int64_t outputs, int64_t row, int64_t panel, const float *sum) {
    int64_t first = panel * LANES, count = outputs - first < LANES ? outputs - first : LANES;
    Vec y = v_load(sum);
    if (f->bias) y = v_add(y, v_some(f->bias + first, count));
    if (f->after == SWISH) y = v_swish(y);
    if (f->after == TIMES) y = v_mul(y, v_some(f->other + row * f->stride + first, count));
    if (f->after == PLUS) y = v_add(y, v_some(f->other + row * f->stride + first, count));
    v_put(f->out + row * f->stride + first, count, y);
}

static void product(const Matrix *w, const float *packed, int64_t rows, int64_t first, int64_t last,
                    const Finish *finish) {
    float weights[MOST_PANELS * STRIDE * LANES] __attribute__((aligned(64)));
    float sums[MOST_PANELS * MOST_ROWS * LANES] __attribute__((aligned(64)));
    int64_t tiles = (rows + TILE - 1) / TILE;
    int together = rows == 1 ? MOST_PANELS : PANELS_FOR((rows + tiles - 1) / tiles);
    for (int64_t panel = first; panel < last; panel += together) {
        int panels = (int)(last - panel < together ? last - panel : together);
        if (rows == 1) {
            row(w, panel, panels, packed, sums);
            for (int p = 0; p < panels; p++) finish_row(finish, w->outputs, 0, panel + p, sums + p * LANES);
            continue;
        }
        memset(sums, 0, sizeof(float) * together * rows * LANES);
        for (int64_t k = 0; k < w->inputs; k += STRIDE) {
            int64_t count = w->inputs - k < STRIDE ? w->inputs - k : STRIDE;
            for (int p = 0; p < panels; p++) decode(w, panel + p, k, count, weights + p * STRIDE * LANES);
            for (int64_t t = 0; t < tiles; t++) {
                int64_t begin = rows * t / tiles, size = rows * (t + 1) / tiles - begin;
                tile((int)size, weights, count, packed + begin * w->inputs + k * size, sums + begin * LANES,
                     rows * LANES);
            }
        }
        for (int p = 0; p < panels; p++)
            for (int64_t r = 0; r < rows; r++)
                finish_row(finish, w->outputs, r, panel + p, sums + (p * rows + r) * LANES);
    }
}
