/* Rows times a matrix, for one kind of vector. A variant's file defines the vectors and these, and includes this.
   MOST_FUSED   up to so many rows, weights are decoded in registers, else into memory
   FUSED, TILE  most rows of a tile in these two cases; as lists, FUSED_TILES and TILES
   PANELS_FOR   panels side by side in a tile of so many rows, of the first case
   See kernels.h for the order of every sum. */

#include "curves.h"

enum {
    MOST_PANELS = 4, /* of a tile */
    STRIDE = 256,    /* inputs that are decoded into memory at a time, 16 KiB */
    STEP = 8,        /* inputs of a loop's body, a word of half bytes */
    AHEAD = 2048     /* bytes of codes that are asked for before they are wanted */
};

#define EACH_KIND(X) \
    X(F32) X(F16) X(BF16) X(I8_HALF) X(I8_HALF2) X(N4_HALF) X(N4_HALF2) X(N4_SUPER) X(I8_SUPER) X(I8_SUPER16)

/* Rows are spread evenly over so many tiles. */
INLINE int64_t tiles_of(int64_t rows) {
    int64_t most = rows <= MOST_FUSED ? FUSED : TILE;
    return (rows + most - 1) / most;
}

typedef struct { int64_t begin, size; } TileRows;

INLINE TileRows tile_rows(int64_t rows, int64_t tiles, int64_t t) {
    int64_t begin = rows * t / tiles;
    return (TileRows){begin, rows * (t + 1) / tiles - begin};
}

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
        EACH_KIND(CASE)
#undef CASE
    }
}

/* Few rows: a decoded weight stays in its register while they are multiplied with it.
   sums[panel][row][16] = all inputs' weights times x[input][row]. */
INLINE void fused_of(Kind kind, int rows, int panels, const Matrix *w, int64_t panel, const float *restrict x,
                     float *restrict sums, int64_t sums_panel) {
    int span = kind == I8_SUPER16 ? 16 : UNIT, step_bytes = STEP * LANES * code_bits(kind) / 8;
    int64_t codes_bytes = redline_codes_bytes(kind, w->inputs);
    int64_t scales_bytes = redline_scales_bytes(kind, w->inputs);
    const uint8_t *codes = w->codes + panel * codes_bytes, *scales = w->scales + panel * scales_bytes;
    Vec sum[MOST_PANELS][FUSED];
    Scale s[MOST_PANELS];
    UNROLL for (int p = 0; p < panels; p++)
        UNROLL for (int r = 0; r < rows; r++) sum[p][r] = v_zero();
    for (int64_t k = 0; k < w->inputs; k += span) {
        UNROLL for (int p = 0; p < panels; p++) s[p] = scale_of(kind, scales + p * scales_bytes, k / 16);
        for (int step = 0; step < span; step += STEP, codes += step_bytes, x += STEP * rows) {
            UNROLL for (int p = 0; p < panels; p++)
                UNROLL for (int at = 0; at < step_bytes; at += 64)
                    __builtin_prefetch(codes + p * codes_bytes + AHEAD + at);
            UNROLL for (int i = 0; i < STEP; i++) {
                Vec weight[MOST_PANELS];
                UNROLL for (int p = 0; p < panels; p++)
                    weight[p] = weight_of(kind, codes + p * codes_bytes, i, s[p]);
                UNROLL for (int r = 0; r < rows; r++) {
                    Vec xr = v_all(x[i * rows + r]);
                    UNROLL for (int p = 0; p < panels; p++) sum[p][r] = v_fma(weight[p], xr, sum[p][r]);
                }
            }
        }
    }
    UNROLL for (int p = 0; p < panels; p++)
        UNROLL for (int r = 0; r < rows; r++) v_store(sums + p * sums_panel + r * LANES, sum[p][r]);
}

INLINE void fused_kind(Kind kind, int rows, const Matrix *w, int64_t panel, int panels, const float *x,
                       float *sums, int64_t sums_panel) {
    switch (rows) {
#define CASE(rows)                                                                           \
    case rows:                                                                               \
        if (panels == PANELS_FOR(rows))                                                      \
            fused_of(kind, rows, PANELS_FOR(rows), w, panel, x, sums, sums_panel);           \
        else                                                                                 \
            for (int p = 0; p < panels; p++)                                                 \
                fused_of(kind, rows, 1, w, panel + p, x, sums + p * sums_panel, sums_panel); \
        break;
        FUSED_TILES(CASE)
#undef CASE
    }
}

/* One function a kind: a compiler takes long for all of them in one. */
#define FUSED_KIND(kind)                                                                                   \
    static __attribute__((noinline)) void fused_##kind(const Matrix *w, int rows, int64_t panel, int panels, \
                                                       const float *x, float *sums, int64_t sums_panel) {  \
        fused_kind(kind, rows, w, panel, panels, x, sums, sums_panel);                                     \
    }
EACH_KIND(FUSED_KIND)
#undef FUSED_KIND

static void fused(const Matrix *w, int rows, int64_t panel, int panels, const float *x, float *sums,
                  int64_t sums_panel) {
    switch (w->kind) {
#define CASE(kind) case kind: fused_##kind(w, rows, panel, panels, x, sums, sums_panel); break;
        EACH_KIND(CASE)
#undef CASE
    }
}

/* More rows, in turns: some inputs' weights are decoded, and multiplied with all rows.
   sums[row][16] grow by `count` inputs' weights[input][16] times x[input][row]. */
INLINE void tile_of(int rows, const float *restrict weights, int64_t count, const float *restrict x,
                    float *restrict sums) {
    Vec sum[TILE];
    UNROLL for (int r = 0; r < rows; r++) sum[r] = v_load(sums + r * LANES);
    for (int64_t i = 0; i < count; i++) {
        Vec weight = v_load(weights + i * LANES);
        UNROLL for (int r = 0; r < rows; r++) sum[r] = v_fma(weight, v_all(x[i * rows + r]), sum[r]);
    }
    UNROLL for (int r = 0; r < rows; r++) v_store(sums + r * LANES, sum[r]);
}

static void decoded(const Matrix *w, const float *packed, int64_t rows, int64_t panel, float *sums) {
    float weights[STRIDE * LANES] __attribute__((aligned(64)));
    int64_t tiles = tiles_of(rows);
    memset(sums, 0, sizeof(float) * rows * LANES);
    for (int64_t k = 0; k < w->inputs; k += STRIDE) {
        int64_t count = w->inputs - k < STRIDE ? w->inputs - k : STRIDE;
        decode(w, panel, k, count, weights);
        for (int64_t t = 0; t < tiles; t++) {
            TileRows own = tile_rows(rows, tiles, t);
            const float *x = packed + own.begin * w->inputs + k * own.size;
            switch (own.size) {
#define CASE(rows) case rows: tile_of(rows, weights, count, x, sums + own.begin * LANES); break;
                TILES(CASE)
#undef CASE
            }
        }
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
    float sums[MOST_PANELS * MOST_ROWS * LANES] __attribute__((aligned(64)));
    int64_t tiles = tiles_of(rows);
    int together = rows <= MOST_FUSED ? PANELS_FOR((rows + tiles - 1) / tiles) : 1;
    for (int64_t panel = first; panel < last; panel += together) {
        int panels = (int)(last - panel < together ? last - panel : together);
        for (int64_t t = 0; rows <= MOST_FUSED && t < tiles; t++) {
            TileRows own = tile_rows(rows, tiles, t);
            fused(w, (int)own.size, panel, panels, packed + own.begin * w->inputs, sums + own.begin * LANES,
                  rows * LANES);
        }
        if (rows > MOST_FUSED) decoded(w, packed, rows, panel, sums);
        for (int p = 0; p < panels; p++)
            for (int64_t r = 0; r < rows; r++)
                finish_row(finish, w->outputs, r, panel + p, sums + (p * rows + r) * LANES);
    }
}
