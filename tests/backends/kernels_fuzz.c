/* Random matrices, rows and small models of odd shapes through every variant, each array in memory of exactly its
   size. */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "variants.h"

int32_t redline_kind(int32_t type);
int64_t redline_row_bytes(int32_t type, int64_t inputs);
void redline_pack(int32_t type, const uint8_t *raw, int64_t outputs, int64_t inputs, int64_t first, int64_t last,
                  uint8_t *codes, uint8_t *scales);
const char *redline_variant(int at, int *runs);
int redline_linear(int variant, const Layers *w, const float *x, int64_t rows, const float *norm, float eps,
                   int after, const float *other, float *out, int threads);
int redline_rows(int variant, const Matrix *w, const int64_t *outputs, int64_t count, float *out);
int redline_forward(int variant, const Model *m, int64_t first, int64_t last, const Row *rows, int64_t count,
                    float *x, int only_store, int threads);

static uint64_t state = 88172645463325252u;
static uint64_t draw(uint64_t below) {
    state ^= state << 13, state ^= state >> 7, state ^= state << 17;
    return state % below;
}
static float *floats(int64_t count) { /* of exactly this size, and at an address that is odd for a vector */
    float *p = malloc(sizeof(float) * count);
    for (int64_t i = 0; i < count; i++) p[i] = (float)draw(2001) / 1000 - 1;
    return p;
}

static const int TYPES[] = {0, 1, 2, 3, 6, 7, 8, 12, 13, 14, 30};
enum { TYPE_COUNT = sizeof TYPES / sizeof *TYPES };

/* Any bytes, but no infinities: in floats, or in the halves of a block's scale and offset. */
static void fill(int type, uint8_t *raw, int64_t bytes) {
    static const int BLOCK[] = {[2] = 18, [3] = 20, [6] = 22, [7] = 24, [8] = 34, [12] = 144, [13] = 176, [14] = 210};
    int whole = type >= 2 && type <= 14, first = type == 14 ? 208 : 0;
    int halves = type == 3 || type == 7 || type == 12 || type == 13 ? 2 : 1;
    for (int64_t i = 0; i < bytes; i++) {
        int in_half = whole && i % BLOCK[type] >= first && i % BLOCK[type] < first + 2 * halves;
        raw[i] = (uint8_t)draw(256) & (whole && !in_half ? 0xff : 0xbb);
    }
}

static Matrix matrix(int type, int64_t outputs, int64_t inputs, uint8_t **own) {
    int64_t bytes = redline_row_bytes(type, inputs) * outputs, panels = up(outputs, LANES) / LANES;
    int32_t kind = redline_kind(type);
    uint8_t *raw = malloc(bytes);
    fill(type, raw, bytes);
    own[0] = calloc(1, panels * redline_codes_bytes(kind, inputs));
    own[1] = calloc(1, panels * redline_scales_bytes(kind, inputs) + 1);
    redline_pack(type, raw, outputs, inputs, 0, panels, own[0], own[1]);
    free(raw);
    return (Matrix){kind, outputs, inputs, own[0], own[1]};
}

static void *copy(const void *p, size_t bytes) { return memcpy(malloc(bytes), p, bytes); }

/* A layer of floats, halves or bytes that reads rows of any width, and what there is to free of it. */
static Layers layer(int64_t outputs, int64_t inputs, uint8_t **own) {
    int type = TYPES[draw(inputs % 32 ? 2 : 7)];
    return (Layers){1, {matrix(type, outputs, inputs, own)}, NULL};
}

enum { CHAIN = 5, NODES = 4, COUNT = CHAIN + NODES, BLOCKS = 2, PER_BLOCK = 5 };

/* A text with a chain of rows and one with a tree, through a model of two blocks in one pass or two. Slots that no
   row sees hold no numbers. Returns how many variants agreed, or less than none. */
static int model(int round) {
    static const int32_t lines[NODES][3] = {{0}, {0, 1}, {0, 2}, {0, 1, 3}};
    static const int lengths[NODES] = {1, 2, 2, 3};
    int64_t groups = 1 + (int64_t)draw(3), kv = 1 + (int64_t)draw(3), width = 2 * (1 + (int64_t)draw(20));
    int64_t heads = kv * groups, wide = up(width, LANES), hidden = 1 + (int64_t)draw(60), inner = 1 + (int64_t)draw(90);
    if (round % 2) width = wide = 32, hidden = 64, inner = 96;
    uint8_t *own[BLOCKS][PER_BLOCK][2];
    float *norm[BLOCKS][3];
    Block block[BLOCKS];
    for (int b = 0; b < BLOCKS; b++) {
        for (int n = 0; n < 3; n++) norm[b][n] = floats(n == 2 ? (heads + kv) * width : hidden);
        block[b] = (Block){norm[b][0], norm[b][1], round % 3 ? NULL : norm[b][2],
                           layer((heads + 2 * kv) * width, hidden, own[b][0]), layer(hidden, heads * width, own[b][1]),
                           layer(inner, hidden, own[b][2]), layer(inner, hidden, own[b][3]),
                           layer(hidden, inner, own[b][4])};
    }
    Model m = {hidden, heads, kv, width, inner, BLOCKS, 1e-5f, block};
    int64_t start[2] = {(int64_t)draw(40), (int64_t)draw(40)}, apart[2], floats_of[2];
    float *before[2], *turn = floats(COUNT * 2 * width), *x = floats(COUNT * hidden), *first[3] = {NULL};
    for (int t = 0; t < 2; t++) {
        int64_t capacity = up(start[t] + (t ? NODES : CHAIN), LANES), in_head = capacity * wide;
        apart[t] = in_head, floats_of[t] = 2 * BLOCKS * kv * in_head;
        before[t] = floats(floats_of[t]);
        for (int64_t i = 0; i < floats_of[t]; i++) { /* keys lie in blocks of slots, values slot by slot */
            int64_t place = i % in_head, slot = i < floats_of[t] / 2 ? place / (LANES * wide) * LANES + place % LANES : place / wide;
            if (slot >= start[t]) before[t][i] = float_of(0x7fc00000);
        }
    }
    int runs, agreed = 0;
    for (int v = 0; redline_variant(v, &runs) && agreed >= 0; v++) {
        if (!runs) continue;
        float *after[3] = {copy(before[0], sizeof(float) * floats_of[0]), copy(before[1], sizeof(float) * floats_of[1]),
                           copy(x, sizeof(float) * COUNT * hidden)};
        int64_t sizes[3] = {floats_of[0], floats_of[1], COUNT * hidden};
        Row rows[COUNT];
        for (int r = 0; r < COUNT; r++) {
            int t = r >= CHAIN, node = r - CHAIN;
            int64_t slot = start[t] + (t ? node : r);
            rows[r] = (Row){after[t], after[t] + floats_of[t] / 2, kv * apart[t], apart[t], slot,
                            t ? start[t] : slot + 1, t ? lengths[node] : 0, t ? lines[node] : NULL, turn + r * 2 * width};
        }
        int64_t left = (int64_t)draw(BLOCKS); /* where a pass ends and another goes on with what it left */
        if (left && redline_forward(v, &m, 0, left, rows, COUNT, after[2], 0, 1 + (int)draw(8))) return -1;
        if (redline_forward(v, &m, left, BLOCKS, rows, COUNT, after[2], round % 5 == 4, 1 + (int)draw(8))) return -1;
        for (int64_t i = 0; i < sizes[2]; i++)
            if (after[2][i] != after[2][i]) agreed = -2;
        for (int a = 0; a < 3; a++) {
            if (!first[a]) first[a] = copy(after[a], sizeof(float) * sizes[a]);
            if (agreed >= 0 && memcmp(first[a], after[a], sizeof(float) * sizes[a])) agreed = -3;
            free(after[a]);
        }
        if (agreed < 0) fprintf(stderr, "%s: a model of round %d, %d\n", redline_variant(v, &runs), round, agreed);
        agreed += agreed >= 0;
    }
    for (int b = 0; b < BLOCKS; b++) {
        for (int n = 0; n < 3; n++) free(norm[b][n]);
        for (int p = 0; p < PER_BLOCK; p++) free(own[b][p][0]), free(own[b][p][1]);
    }
    for (int a = 0; a < 3; a++) free(first[a]);
    free(before[0]), free(before[1]), free(turn), free(x);
    return agreed;
}

int main(void) {
    int shapes = 0;
    for (int round = 0; round < 60; round++) {
        int agreed = model(round);
        if (agreed < 0) return 4;
        shapes += agreed;
    }
    for (int round = 0; round < 220; round++) {
        int type = TYPES[round % TYPE_COUNT], free_size = type < 2 || type == 30;
        int64_t inputs = free_size ? 1 + (int64_t)draw(300) : type >= 12 ? 256 * (1 + (int64_t)draw(2))
                                                                         : 32 * (1 + (int64_t)draw(9));
        int64_t rows = 1 + (int64_t)draw(round % 20 ? 20 : 150), sizes[2] = {1 + (int64_t)draw(70), 1 + (int64_t)draw(40)};
        uint8_t *own[2][2];
        Layers w = {2, {matrix(type, sizes[0], inputs, own[0]), matrix(type, sizes[1], inputs, own[1])}, NULL};
        int64_t outputs = sizes[0] + sizes[1];
        float *x = floats(rows * inputs), *bias = floats(outputs), *other = floats(rows * outputs);
        float *out = floats(rows * outputs), *first = NULL, *norm = floats(inputs);
        float *row = floats(inputs), *first_row = floats(inputs);
        int64_t which = (int64_t)draw(sizes[1]);
        w.bias = bias;
        int runs;
        for (int v = 0; redline_variant(v, &runs); v++) {
            if (!runs) continue;
            int threads = 1 + (int)draw(8);
            if (redline_linear(v, &w, x, rows, round % 3 ? NULL : norm, 1e-5f, round % 4, other, out, threads)) return 2;
            if (redline_rows(v, &w.parts[1], &which, 1, row)) return 3;
            if (!first) {
                first = memcpy(floats(rows * outputs), out, sizeof(float) * rows * outputs);
                memcpy(first_row, row, sizeof(float) * inputs);
            }
            if (memcmp(first, out, sizeof(float) * rows * outputs) || memcmp(first_row, row, sizeof(float) * inputs)) {
                fprintf(stderr, "%s differs: type %d, %d rows\n", redline_variant(v, &runs), type, (int)rows);
                return 1;
            }
            shapes++;
        }
        for (int p = 0; p < 2; p++) free(own[p][0]), free(own[p][1]);
        free(x), free(bias), free(other), free(out), free(first), free(row), free(first_row), free(norm);
    }
    printf("%d shapes\n", shapes);
    return 0;
}
