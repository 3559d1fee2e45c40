/* Rows times a matrix, for one kind of vector. A variant's file defines the vectors and these, and includes this.
   MOST_TILE    most rows of a tile; TILES lists all sizes
   PANELS_FOR   panels side by side in a tile of so many rows
   See kernels.h for the order of every sum. */

#include "curves.h"

enum {
    MOST_PANELS = 4, /* of a tile */
    STEP = 8,        /* inputs of a loop's body, a word of half bytes */
    AHEAD = 2048     /* bytes of codes that are asked for before they are wanted */
};

#define EACH_KIND(X) EACH_PLAIN(X) EACH_WHOLE(X)
#define EACH_PLAIN(X) X(F32) X(F16) X(BF16)
#define EACH_WHOLE(X) X(I8_HALF) X(I8_HALF2) X(N4_HALF) X(N4_HALF2) X(N4_SUPER) X(I8_SUPER) X(I8_SUPER16)

/* Rows are spread evenly over so many tiles. */
INLINE int64_t tiles_of(int64_t rows) { return (rows + MOST_TILE - 1) / MOST_TILE; }

typedef struct { int64_t begin, size; } TileRows;

INLINE TileRows tile_rows(int64_t rows, int64_t tiles, int64_t t) {
    int64_t begin = rows * t / tiles;
    return (TileRows){begin, rows * (t + 1) / tiles - begin};
}

INLINE int code_bits(Kind kind) {
    switch (kind) {
    case F32: return 32;
    case F16: case BF16: return 16;
    case N4_HALF: case N4_HALF2: case N4_SUPER: return 4;
    default: return 8;
    }
}

INLINE int has_offset(Kind kind) { return kind != I8_HALF && kind != I8_SUPER16; }

typedef struct { Vec scale, offset; } Scale;

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

/* A panel's weights of input i. */
INLINE Vec plain_of(Kind kind, const uint8_t *codes, int i) {
    switch (kind) {
    case F32: return v_load((const float *)codes + i * LANES);
    case F16: return v_half(codes + i * 2 * LANES);
    default: return v_bfloat(codes + i * 2 * LANES);
    }
}

/* A panel's codes of inputs i and i + 4 of the next 8. */
INLINE Ints pair_of(Kind kind, const uint8_t *codes, int i) {
    return code_bits(kind) == 4 ? i_nibbles(i_load(codes), i) : i_bytes(codes + i * 2 * LANES);
}

INLINE void decode_kind(Kind kind, const Matrix *w, int64_t panel, int64_t unit, float *restrict out) {
    int bytes = STEP * LANES * code_bits(kind) / 8;
    const uint8_t *codes = w->codes + panel * redline_codes_bytes(kind, w->inputs) + unit * (UNIT / STEP) * bytes;
    const uint8_t *scales = w->scales + panel * redline_scales_bytes(kind, w->inputs);
    for (int k = 0; k < UNIT; k += STEP, codes += bytes, out += STEP * LANES) {
        Scale s = scale_of(kind, scales, unit * 2 + k / 16);
        for (int i = 0; i < STEP && kind <= BF16; i++) v_store(out + i * LANES, plain_of(kind, codes, i));
        for (int i = 0; i < STEP / 2 && kind > BF16; i++) {
            Ints pair = pair_of(kind, codes, i);
            v_store(out + i * LANES, v_fma(v_int(i_lower(pair)), s.scale, s.offset));
            v_store(out + (i + 4) * LANES, v_fma(v_int(i_upper(pair)), s.scale, s.offset));
        }
    }
}

static void decode(const Matrix *w, int64_t panel, int64_t unit, float *restrict out) {
    switch (w->kind) {
#define CASE(kind) case kind: decode_kind(kind, w, panel, unit, out); break;
        EACH_KIND(CASE)
#undef CASE
    }
}

INLINE void ask_for(const uint8_t *codes, int bytes) {
    UNROLL for (int at = 0; at < bytes; at += 64) __builtin_prefetch(codes + AHEAD + at);
}

/* A tile: what is decoded of some panels stays in registers while the rows are multiplied with it.
   sums[panel][row][16] = all inputs' weights times x. */
INLINE void plain_tile(Kind kind, int rows, int panels, const Matrix *w, int64_t panel, Packed x,
                       float *restrict sums, int64_t sums_panel) {
    int64_t codes_bytes = redline_codes_bytes(kind, w->inputs);
    int bytes = STEP * LANES * code_bits(kind) / 8;
    const uint8_t *codes = w->codes + panel * codes_bytes;
    const float *restrict inputs = x.plain;
    Vec sum[MOST_PANELS][MOST_TILE];
    UNROLL for (int p = 0; p < panels; p++)
        UNROLL for (int r = 0; r < rows; r++) sum[p][r] = v_zero();
    for (int64_t k = 0; k < w->inputs; k += STEP, codes += bytes, inputs += STEP * rows) {
        UNROLL for (int p = 0; p < panels; p++) ask_for(codes + p * codes_bytes, bytes);
        UNROLL for (int i = 0; i < STEP; i++) {
            Vec weight[MOST_PANELS];
            UNROLL for (int p = 0; p < panels; p++) weight[p] = plain_of(kind, codes + p * codes_bytes, i);
            UNROLL for (int r = 0; r < rows; r++) {
                Vec xr = v_all(inputs[i * rows + r]);
                UNROLL for (int p = 0; p < panels; p++) sum[p][r] = v_fma(weight[p], xr, sum[p][r]);
            }
        }
    }
    UNROLL for (int p = 0; p < panels; p++)
        UNROLL for (int r = 0; r < rows; r++) v_store(sums + p * sums_panel + r * LANES, sum[p][r]);
}

INLINE void whole_tile(Kind kind, int rows, int panels, const Matrix *w, int64_t panel, Packed x,
                       float *restrict sums, int64_t sums_panel) {
    int64_t codes_bytes = redline_codes_bytes(kind, w->inputs);
    int64_t scales_bytes = redline_scales_bytes(kind, w->inputs);
    int bytes = STEP * LANES * code_bits(kind) / 8, span = kind == I8_SUPER16 ? 16 : UNIT;
    const uint8_t *codes = w->codes + panel * codes_bytes, *scales = w->scales + panel * scales_bytes;
    const int32_t *restrict pairs = x.pairs;
    Vec sum[MOST_PANELS][MOST_TILE];
    UNROLL for (int p = 0; p < panels; p++)
        UNROLL for (int r = 0; r < rows; r++) sum[p][r] = v_zero();
    for (int64_t k = 0; k < w->inputs; k += span) {
        Ints dot[MOST_PANELS][MOST_TILE];
        UNROLL for (int p = 0; p < panels; p++)
            UNROLL for (int r = 0; r < rows; r++) dot[p][r] = i_zero();
        for (int step = 0; step < span; step += STEP, codes += bytes, pairs += STEP / 2 * rows) {
            UNROLL for (int p = 0; p < panels; p++) ask_for(codes + p * codes_bytes, bytes);
            UNROLL for (int i = 0; i < STEP / 2; i++) {
                Ints pair[MOST_PANELS];
                UNROLL for (int p = 0; p < panels; p++) pair[p] = pair_of(kind, codes + p * codes_bytes, i);
                UNROLL for (int r = 0; r < rows; r++) {
                    Ints xr = i_all(pairs[i * rows + r]);
                    UNROLL for (int p = 0; p < panels; p++) dot[p][r] = i_dot(dot[p][r], pair[p], xr);
                }
            }
        }
        UNROLL for (int p = 0; p < panels; p++) {
            Scale s = scale_of(kind, scales + p * scales_bytes, k / 16);
            UNROLL for (int r = 0; r < rows; r++) {
                int64_t at = k / UNIT * rows + r;
                Vec scale = v_mul(s.scale, v_all(x.scale[at]));
                sum[p][r] = v_fma(v_int(dot[p][r]), scale, sum[p][r]);
                if (has_offset(kind)) sum[p][r] = v_fma(s.offset, v_all(x.sum[at]), sum[p][r]);
            }
        }
    }
    UNROLL for (int p = 0; p < panels; p++)
        UNROLL for (int r = 0; r < rows; r++) v_store(sums + p * sums_panel + r * LANES, sum[p][r]);
}

INLINE void tile_of(Kind kind, int rows, int panels, const Matrix *w, int64_t panel, Packed x, float *sums,
                    int64_t sums_panel) {
    if (rows_for(kind) == PLAIN_ROWS) plain_tile(kind, rows, panels, w, panel, x, sums, sums_panel);
    else whole_tile(kind, rows, panels, w, panel, x, sums, sums_panel);
}

INLINE void tile_kind(Kind kind, int rows, int panels, const Matrix *w, int64_t panel, Packed x, float *sums,
                      int64_t sums_panel) {
    switch (rows) {
#define CASE(rows)                                                                         \
    case rows:                                                                             \
        if (panels == PANELS_FOR(rows))                                                    \
            tile_of(kind, rows, PANELS_FOR(rows), w, panel, x, sums, sums_panel);          \
        else                                                                               \
            for (int p = 0; p < panels; p++)                                               \
                tile_of(kind, rows, 1, w, panel + p, x, sums + p * sums_panel, sums_panel); \
        break;
        TILES(CASE)
#undef CASE
    }
}

/* One function a kind: a compiler takes long for all of them in one. */
#define TILE_KIND(kind)                                                                                        \
    static __attribute__((noinline)) void tile_##kind(int rows, int panels, const Matrix *w, int64_t panel,    \
                                                      Packed x, float *sums, int64_t sums_panel) {             \
        tile_kind(kind, rows, panels, w, panel, x, sums, sums_panel);                                          \
    }
EACH_KIND(TILE_KIND)
#undef TILE_KIND

static void tile(const Matrix *w, int rows, int panels, int64_t panel, Packed x, float *sums, int64_t sums_panel) {
    switch (w->kind) {
#define CASE(kind) case kind: tile_##kind(rows, panels, w, panel, x, sums, sums_panel); break;
        EACH_KIND(CASE)
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

/* Where a tile's rows begin that has so many before it. */
INLINE Packed behind(Packed x, int64_t rows, int64_t inputs) {
    x.plain += rows * inputs, x.pairs += rows * inputs / 2;
    x.scale += rows * inputs / UNIT, x.sum += rows * inputs / UNIT;
    return x;
}

static void product(const Matrix *w, const Packed *x, int64_t rows, int64_t first, int64_t last,
                    const Finish *finish) {
    float sums[MOST_PANELS * MOST_ROWS * LANES] __attribute__((aligned(64)));
    int64_t tiles = tiles_of(rows);
    int together = PANELS_FOR((rows + tiles - 1) / tiles);
    for (int64_t panel = first; panel < last; panel += together) {
        int panels = (int)(last - panel < together ? last - panel : together);
        for (int64_t t = 0; t < tiles; t++) {
            TileRows own = tile_rows(rows, tiles, t);
            tile(w, (int)own.size, panels, panel, behind(*x, own.begin, w->inputs), sums + own.begin * LANES,
                 rows * LANES);
        }
        for (int p = 0; p < panels; p++)
            for (int64_t r = 0; r < rows; r++)
                finish_row(finish, w->outputs, r, panel + p, sums + (p * rows + r) * LANES);
    }
}
