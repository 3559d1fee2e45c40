/* Random matrices and rows of odd shapes through every variant, each array in memory of exactly its size. */

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

int main(void) {
    int shapes = 0;
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
