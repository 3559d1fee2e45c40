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

static Matrix matrix(int type, int64_t outputs, int64_t inputs, uint8_t **own) {
    int64_t bytes = redline_row_bytes(type, inputs) * outputs, panels = up(outputs, LANES) / LANES;
    int32_t kind = redline_kind(type);
    uint8_t *raw = malloc(bytes);
    for (int64_t i = 0; i < bytes; i++) raw[i] = (uint8_t)draw(256) & 0x3b; /* no infinities in any float */
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
        float *out = floats(rows * outputs), *first = NULL, *row = floats(inputs), *norm = floats(inputs);
        w.bias = bias;
        int runs;
        for (int v = 0; redline_variant(v, &runs); v++) {
            if (!runs) continue;
            int threads = 1 + (int)draw(8);
            if (redline_linear(v, &w, x, rows, round % 3 ? NULL : norm, 1e-5f, round % 4, other, out, threads)) return 2;
            int64_t which = (int64_t)draw(sizes[1]);
            if (redline_rows(v, &w.parts[1], &which, 1, row)) return 3;
            if (!first) first = memcpy(floats(rows * outputs), out, sizeof(float) * rows * outputs);
            if (memcmp(first, out, sizeof(float) * rows * outputs)) {
                fprintf(stderr, "%s differs: type %d, %d rows\n", redline_variant(v, &runs), type, (int)rows);
                return 1;
            }
            shapes++;
        }
        for (int p = 0; p < 2; p++) free(own[p][0]), free(own[p][1]);
        free(x), free(bias), free(other), free(out), free(first), free(row), free(norm);
    }
    printf("%d shapes\n", shapes);
    return 0;
}
