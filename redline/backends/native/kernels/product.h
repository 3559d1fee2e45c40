/* Rows times a matrix, for one kind of vector. A variant's file defines the vectors and these, and includes this.
   MOST_TILE    most rows of a tile; TILES(X, with) is X(size, with) for all sizes
   See kernels.h for the order of every sum. */

#include "curves.h"

enum {
    STEP = 8,    /* inputs of a loop's body, a word of half bytes */
    AHEAD = 8192 /* bytes of codes that are asked for before they are wanted */
};

_Static_assert(MOST_TILE <= MOST_QUERIES, "a tile of queries must fit");

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

/* A panel's weights of one input. */
INLINE Vec plain_of(Kind kind, const uint8_t *codes) {
    switch (kind) {
    case F32: return v_load((const float *)codes);
    case F16: return v_half(codes);
    default: return v_bfloat(codes);
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
        for (int i = 0; i < STEP && kind <= BF16; i++) v_store(out + i * LANES, plain_of(kind, codes + i * bytes / STEP));
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

/* A tile: what is decoded of a panel stays in registers while the rows are multiplied with it.
   sums[row][16] = all inputs' weights, `apart` bytes from each other, times x. */
INLINE void plain_tile(Kind kind, int rows, const uint8_t *codes, int64_t apart, int64_t inputs,
                       const float *restrict x, float *restrict sums) {
    Vec sum[MOST_TILE];
    UNROLL for (int r = 0; r < rows; r++) sum[r] = v_zero();
    for (int64_t k = 0; k < inputs; k += STEP, codes += STEP * apart, x += STEP * rows) {
        UNROLL for (int i = 0; i < STEP; i++) {
            __builtin_prefetch(codes + AHEAD + i * apart);
            Vec weight = plain_of(kind, codes + i * apart);
            UNROLL for (int r = 0; r < rows; r++) sum[r] = v_fma(weight, v_all(x[i * rows + r]), sum[r]);
        }
    }
    UNROLL for (int r = 0; r < rows; r++) v_store(sums + r * LANES, sum[r]);
}

INLINE void whole_tile(Kind kind, int rows, const Matrix *w, int64_t panel, Packed x, float *restrict sums) {
    int bytes = STEP * LANES * code_bits(kind) / 8, span = kind == I8_SUPER16 ? 16 : UNIT;
    const uint8_t *codes = w->codes + panel * redline_codes_bytes(kind, w->inputs);
    const uint8_t *scales = w->scales + panel * redline_scales_bytes(kind, w->inputs);
    const int32_t *restrict pairs = x.pairs;
    Vec sum[MOST_TILE];
    UNROLL for (int r = 0; r < rows; r++) sum[r] = v_zero();
    for (int64_t k = 0; k < w->inputs; k += span) {
        Ints dot[MOST_TILE];
        UNROLL for (int r = 0; r < rows; r++) dot[r] = i_zero();
        for (int step = 0; step < span; step += STEP, codes += bytes, pairs += STEP / 2 * rows) {
            UNROLL for (int at = 0; at < bytes; at += 64) __builtin_prefetch(codes + AHEAD + at);
            UNROLL for (int i = 0; i < STEP / 2; i++) {
                Ints pair = pair_of(kind, codes, i);
                UNROLL for (int r = 0; r < rows; r++) dot[r] = i_dot(dot[r], pair, i_all(pairs[i * rows + r]));
            }
        }
        Scale s = scale_of(kind, scales, k / 16);
        UNROLL for (int r = 0; r < rows; r++) {
            int64_t at = k / UNIT * rows + r;
            sum[r] = v_fma(v_int(dot[r]), v_mul(s.scale, v_all(x.scale[at])), sum[r]);
            if (has_offset(kind)) sum[r] = v_fma(s.offset, v_all(x.sum[at]), sum[r]);
        }
    }
    UNROLL for (int r = 0; r < rows; r++) v_store(sums + r * LANES, sum[r]);
}

/* One function a kind: a compiler takes long for all of them in one. */
#define TILE_KIND(kind)                                                                                         \
    static __attribute__((noinline)) void tile_##kind(int rows, const uint8_t *codes, int64_t apart,            \
                                                      int64_t inputs, const float *x, float *sums) {            \
        switch (rows) { TILES(TILE_CASE, kind) }                                                                \
    }
#define TILE_CASE(rows, kind) case rows: plain_tile(kind, rows, codes, apart, inputs, x, sums); break;
EACH_PLAIN(TILE_KIND)
#undef TILE_CASE
#undef TILE_KIND

#define TILE_KIND(kind)                                                                                         \
    static __attribute__((noinline)) void tile_##kind(int rows, const Matrix *w, int64_t panel, Packed x,       \
                                                      float *sums) {                                            \
        switch (rows) { TILES(TILE_CASE, kind) }                                                                \
    }
#define TILE_CASE(rows, kind) case rows: whole_tile(kind, rows, w, panel, x, sums); break;
EACH_WHOLE(TILE_KIND)
#undef TILE_CASE
#undef TILE_KIND

static void tile(const Matrix *w, int rows, int64_t panel, Packed x, float *sums) {
    const uint8_t *codes = w->codes + panel * redline_codes_bytes(w->kind, w->inputs);
    switch (w->kind) {
#define CASE(kind) case kind: tile_##kind(rows, codes, LANES * code_bits(kind) / 8, w->inputs, x.plain, sums); break;
        EACH_PLAIN(CASE)
#undef CASE
#define CASE(kind) case kind: tile_##kind(rows, w, panel, x, sums); break;
        EACH_WHOLE(CASE)
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
    float sums[MOST_ROWS * LANES] __attribute__((aligned(64)));
    int64_t tiles = tiles_of(rows);
    for (int64_t panel = first; panel < last; panel++) {
        for (int64_t t = 0; t < tiles; t++) {
            TileRows own = tile_rows(rows, tiles, t);
            tile(w, (int)own.size, panel, behind(*x, own.begin, w->inputs), sums + own.begin * LANES);
        }
        for (int64_t r = 0; r < rows; r++) finish_row(finish, w->outputs, r, panel, sums + r * LANES);
    }
}
