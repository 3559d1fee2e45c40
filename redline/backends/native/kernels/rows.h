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

/* 32 inputs as whole numbers times a power of two: the largest has 15 bits, and smaller ones are rounded to its
   last bit. pairs[16][stride]. What is below 2^-112 counts as nothing; what is no finite number makes the scale
   none, and so every result. */
static void pack_unit(const float *x, int64_t stride, int32_t *pairs, float *scale, float *sum) {
    uint32_t bits[UNIT], most = 0;
    int32_t whole[UNIT], total = 0;
    memcpy(bits, x, sizeof bits);
    for (int i = 0; i < UNIT; i++) most = (bits[i] & 0x7fffffff) > most ? bits[i] & 0x7fffffff : most;
    uint32_t exponent = most >> 23, finite = exponent < 255, some = exponent > 14;
    float raised = some ? float_of((268 - exponent) << 23) : 0;
    *scale = !finite ? NAN : some ? float_of((exponent - 14) << 23) : 0;
    for (int i = 0; i < UNIT; i++) {
        float rounded = x[i] * raised + 0x1.8p23f; /* to a whole number, which is then in the lowest bits */
        memcpy(bits + i, &rounded, sizeof rounded);
        whole[i] = finite ? (int32_t)(bits[i] - 0x4b400000) : 0;
        whole[i] = whole[i] > 32767 ? 32767 : whole[i] < -32767 ? -32767 : whole[i];
        total += whole[i];
    }
    for (int i = 0; i < UNIT; i += STEP)
        for (int j = 0; j < STEP / 2; j++)
            pairs[(i / 2 + j) * stride] =
                (int32_t)(((uint32_t)whole[i + j] & 0xffff) | (uint32_t)whole[i + j + 4] << 16);
    *sum = (float)total * *scale;
}

/* Rows for `product`; see Variant. */
static void pack(const float *x, int64_t rows, int64_t inputs, const float *norm, float eps, int64_t first,
                 int64_t last, int what, const Packed *packed) {
    int64_t whole = up(inputs, UNIT), tiles = tiles_of(rows);
    for (int64_t t = 0; t < tiles; t++) {
        TileRows own = tile_rows(rows, tiles, t);
        Packed place = behind(*packed, own.begin, whole);
        for (int64_t r = 0; r < own.size; r++) {
            const float *row = x + (own.begin + r) * inputs;
            float scale = norm ? scale_down(row, inputs, eps) : 1;
            for (int64_t unit = first; unit < last; unit++) {
                float v[UNIT];
                int64_t from = unit * UNIT, at = unit * own.size + r;
                int64_t count = inputs - from < UNIT ? inputs - from : UNIT;
                memset(v, 0, sizeof v);
                memcpy(v, row + from, sizeof(float) * count);
                for (int64_t k = 0; norm && k < count; k++) v[k] = v[k] * scale * norm[from + k];
                for (int k = 0; what & PLAIN_ROWS && k < UNIT; k++) place.plain[(from + k) * own.size + r] = v[k];
                if (what & WHOLE_ROWS)
                    pack_unit(v, own.size, place.pairs + from / 2 * own.size + r, place.scale + at, place.sum + at);
            }
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

/* Where the values lie of a slot that a row sees: settled ones in order, then the nodes of its line. */
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

/* Scores are keys times queries, results are values times the scores' shares: both are products with matrices.
   Slots that not all of the queries see come after the others, one query after the other. */
static void attend(const Query *queries, int count, const float *keys, const float *values, int64_t width,
                   int64_t room, float *memory) {
    int64_t wide = up(width, LANES), all = 0, common = room;
    float *scores = memory, *packed = memory + count * room, shrink = 1 / sqrtf((float)width);
    float sums[MOST_TILE * LANES] __attribute__((aligned(64)));
    for (int n = 0; n < count; n++) {
        const Row *row = queries[n].row;
        int64_t end = row->settled + (row->nodes ? row->line[row->nodes - 1] + 1 : 0);
        all = end > all ? end : all;
        common = row->settled < common ? row->settled : common;
        for (int64_t d = 0; d < wide; d++) packed[d * count + n] = d < width ? queries[n].q[d] : 0;
    }
    for (int64_t s = 0; s < all; s += LANES) {
        tile_F32(count, (const uint8_t *)(keys + s * wide), LANES * sizeof(float), wide, packed, sums);
        for (int n = 0; n < count; n++)
            v_store(scores + n * room + s, v_mul(v_load(sums + n * LANES), v_all(shrink)));
    }
    common -= common % STEP;
    for (int n = 0; n < count; n++) {
        const Row *row = queries[n].row;
        float *own = scores + n * room;
        for (int64_t i = 0; i < row->nodes; i++) own[row->settled + i] = own[row->settled + row->line[i]];
        soften(own, row->settled + row->nodes);
        for (int64_t s = 0; s < common; s++) packed[s * count + n] = own[s];
    }
    for (int64_t d = 0; d < width; d += LANES) {
        tile_F32(count, (const uint8_t *)(values + d), wide * sizeof(float), common, packed, sums);
        for (int n = 0; n < count; n++) {
            const Row *row = queries[n].row;
            Vec sum = v_load(sums + n * LANES);
            for (int64_t s = common; s < row->settled + row->nodes; s++)
                sum = v_fma(v_load(slot_of(row, values, s, wide) + d), v_all(scores[n * room + s]), sum);
            v_put(queries[n].out + d, width - d, sum);
        }
    }
}
