/* What a pass does to rows between the products, for one kind of vector. Every row, and every head of it, is
   computed by itself and in one order. */

#include <math.h>

#include "curves.h"

/* 1 / sqrt(mean of squares + eps); a width that is no whole number of vectors is filled up with zeros. */
static float scale_down(const float *x, int64_t width, float eps) {
    Vec squares = v_zero();
    for (int64_t i = 0; i < width; i += LANES) {
        Vec v = v_some(x + i, width - i);
        squares = v_fma(v, v, squares);
    }
    return 1 / sqrtf(v_sum(squares) / (float)width + eps);
}

/* Rows (rows, inputs) for `product`, inputs [from, to) of them: packed[tile][input][row of the tile], with zeros
   for inputs that there are not. With `norm`, rows are RMS-normed and weighted on the way. */
static void pack(const float *x, int64_t rows, int64_t inputs, const float *norm, float eps, int64_t from,
                 int64_t to, float *packed) {
    int64_t whole = up(inputs, UNIT), tiles = tiles_of(rows);
    for (int64_t t = 0; t < tiles; t++) {
        TileRows own = tile_rows(rows, tiles, t);
        for (int64_t r = 0; r < own.size; r++) {
            const float *row = x + (own.begin + r) * inputs;
            float *place = packed + own.begin * whole + r, scale = norm ? scale_down(row, inputs, eps) : 1;
            for (int64_t k = from; k < to; k++)
                place[k * own.size] = k >= inputs ? 0 : norm ? row[k] * scale * norm[k] : row[k];
        }
    }
}

/* Turns one head by its position's angles, after Qwen3's norm where there is one. `turn`: cosines, then sines with
   signs; pairs stand side by side. */
static void rotate(float *head, int64_t width, const float *turn, const float *norm, float eps) {
    if (norm) {
        float scale = scale_down(head, width, eps);
        for (int64_t i = 0; i < width; i++) head[i] = head[i] * scale * norm[i];
    }
    for (int64_t i = 0; i < width; i += 2) {
        float a = head[i], b = head[i + 1];
        head[i] = a * turn[i] + b * turn[width + i];
        head[i + 1] = b * turn[i + 1] + a * turn[width + i + 1];
    }
}

/* Where a row's next slot of keys or values lies: settled ones in order, then the nodes of its line. */
INLINE const float *slot_of(const Row *row, const float *store, int64_t s, int64_t width) {
    return store + width * (s < row->settled ? s : row->settled + row->line[s - row->settled]);
}

/* exp(p - its greatest) over their sum, in place; p has room for whole vectors. */
static void soften(float *p, int64_t count) {
    float most = p[0];
    for (int64_t s = 1; s < count; s++) most = p[s] > most ? p[s] : most;
    for (int64_t s = count; s < up(count, LANES); s++) p[s] = most;
    for (int64_t s = 0; s < count; s += LANES)
        v_store(p + s, v_exp(v_max(v_add(v_load(p + s), v_all(-most)), v_all(-87))));
    for (int64_t s = count; s < up(count, LANES); s++) p[s] = 0;
    Vec sum = v_zero();
    for (int64_t s = 0; s < count; s += LANES) sum = v_add(sum, v_load(p + s));
    Vec share = v_all(1 / v_sum(sum));
    for (int64_t s = 0; s < count; s += LANES) v_store(p + s, v_mul(v_load(p + s), share));
}

/* Some query heads of one row over the slots that it sees, all of one key/value head. q, out: (heads, width);
   `scores` has heads times `room` floats. */
static void attend(const Row *row, const float *keys, const float *values, const float *q, int heads, int64_t width,
                   int64_t room, float *scores, float *out) {
    enum { VECTORS = 4, WIDE = VECTORS * LANES }; /* of a value, in registers while the slots go by */
    int64_t seen = row->settled + row->nodes;
    float shrink = 1 / sqrtf((float)width);
    for (int64_t s = 0; s < seen; s++) {
        const float *key = slot_of(row, keys, s, width);
        for (int h = 0; h < heads; h++) {
            Vec sum = v_zero();
            for (int64_t d = 0; d < width; d += LANES)
                sum = v_fma(v_some(key + d, width - d), v_some(q + h * width + d, width - d), sum);
            scores[h * room + s] = v_sum(sum) * shrink;
        }
    }
    for (int h = 0; h < heads; h++) {
        float *shares = scores + h * room;
        soften(shares, seen);
        for (int64_t d = 0; d < width; d += WIDE) {
            int64_t left = width - d;
            Vec sum[VECTORS];
            UNROLL for (int i = 0; i < VECTORS; i++) sum[i] = v_zero();
            for (int64_t s = 0; s < seen; s++) {
                const float *value = slot_of(row, values, s, width) + d;
                Vec share = v_all(shares[s]);
                UNROLL for (int i = 0; i < VECTORS; i++)
                    if (left > i * LANES) sum[i] = v_fma(share, v_some(value + i * LANES, left - i * LANES), sum[i]);
            }
            UNROLL for (int i = 0; i < VECTORS; i++)
                if (left > i * LANES) v_put(out + h * width + d + i * LANES, left - i * LANES, sum[i]);
        }
    }
}
