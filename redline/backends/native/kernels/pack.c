/* From a GGUF file's blocks to panels. The blocks' layouts are ggml's; a weight's value does not change. */

#include <string.h>

#include "kernels.h"

enum { GGML_F32 = 0, GGML_F16 = 1, GGML_Q4_0 = 2, GGML_Q4_1 = 3, GGML_Q5_0 = 6, GGML_Q5_1 = 7, GGML_Q8_0 = 8,
       GGML_Q4_K = 12, GGML_Q5_K = 13, GGML_Q6_K = 14, GGML_BF16 = 30 };

/* How a GGUF type is kept; -1 for one that is not. */
int32_t redline_kind(int32_t type) {
    switch (type) {
    case GGML_F32: return F32;
    case GGML_F16: return F16;
    case GGML_BF16: return BF16;
    case GGML_Q8_0: case GGML_Q5_0: return I8_HALF;
    case GGML_Q5_1: return I8_HALF2;
    case GGML_Q4_0: return N4_HALF;
    case GGML_Q4_1: return N4_HALF2;
    case GGML_Q4_K: return N4_SUPER;
    case GGML_Q5_K: return I8_SUPER;
    case GGML_Q6_K: return I8_SUPER16;
    default: return -1;
    }
}

/* Bytes of a row of so many inputs. */
int64_t redline_row_bytes(int32_t type, int64_t inputs) {
    switch (type) {
    case GGML_F32: return inputs * 4;
    case GGML_F16: case GGML_BF16: return inputs * 2;
    case GGML_Q4_0: return inputs / 32 * 18;
    case GGML_Q4_1: return inputs / 32 * 20;
    case GGML_Q5_0: return inputs / 32 * 22;
    case GGML_Q5_1: return inputs / 32 * 24;
    case GGML_Q8_0: return inputs / 32 * 34;
    case GGML_Q4_K: return inputs / 256 * 144;
    case GGML_Q5_K: return inputs / 256 * 176;
    case GGML_Q6_K: return inputs / 256 * 210;
    default: return -1;
    }
}

/* One output's block: its codes as signed bytes, and what is to be put among the scales. */
typedef struct {
    int8_t codes[SUPER];
    uint8_t halves[2][2]; /* scale, offset */
    uint8_t bytes[2][16]; /* scales, offsets, or 16 scales in the first */
} Block;

static void split_five(const uint8_t *high, const uint8_t *low, int less, int8_t *codes) {
    uint32_t bits;
    memcpy(&bits, high, 4);
    for (int i = 0; i < 16; i++) {
        codes[i] = (int8_t)((int)((low[i] & 15) | (bits >> i & 1) << 4) - less);
        codes[i + 16] = (int8_t)((int)(low[i] >> 4 | (bits >> (i + 16) & 1) << 4) - less);
    }
}

/* Six bits each of eight scales and eight offsets, in twelve bytes. */
static void split_six(const uint8_t *p, uint8_t *scales, uint8_t *offsets) {
    for (int i = 0; i < 4; i++) {
        scales[i] = p[i] & 63;
        offsets[i] = p[i + 4] & 63;
        scales[i + 4] = (uint8_t)((p[i + 8] & 15) | p[i] >> 6 << 4);
        offsets[i + 4] = (uint8_t)(p[i + 8] >> 4 | p[i + 4] >> 6 << 4);
    }
}

static void split_nibbles(const uint8_t *p, int count, int8_t *codes) { /* count lower ones, then the upper */
    for (int i = 0; i < count; i++) {
        codes[i] = (int8_t)(p[i] & 15);
        codes[i + count] = (int8_t)(p[i] >> 4);
    }
}

static void read_block(int32_t type, const uint8_t *p, Block *b) {
    memcpy(b->halves[0], p, 2);
    switch (type) {
    case GGML_Q4_0: split_nibbles(p + 2, 16, b->codes); break;
    case GGML_Q4_1: memcpy(b->halves[1], p + 2, 2), split_nibbles(p + 4, 16, b->codes); break;
    case GGML_Q5_0: split_five(p + 2, p + 6, 16, b->codes); break;
    case GGML_Q5_1: memcpy(b->halves[1], p + 2, 2), split_five(p + 4, p + 8, 0, b->codes); break;
    case GGML_Q8_0: memcpy(b->codes, p + 2, 32); break;
    case GGML_Q4_K: case GGML_Q5_K:
        memcpy(b->halves[1], p + 2, 2);
        split_six(p + 4, b->bytes[0], b->bytes[1]);
        for (int g = 0; g < 4; g++)
            split_nibbles(p + (type == GGML_Q4_K ? 16 : 48) + 32 * g, 32, b->codes + 64 * g);
        for (int i = 0; i < (type == GGML_Q5_K ? SUPER : 0); i++)
            b->codes[i] = (int8_t)(b->codes[i] | (p[16 + i % 32] >> i / 32 & 1) << 4);
        break;
    case GGML_Q6_K:
        for (int i = 0; i < SUPER; i++) { /* 128 inputs at a time: four quarters share 64 bytes and 32 */
            int part = i / 128, quarter = i % 128 / 32, at = i % 32;
            uint8_t low = p[64 * part + 32 * (quarter % 2) + at], high = p[128 + 32 * part + at];
            b->codes[i] = (int8_t)((int)(low >> 4 * (quarter / 2) & 15) + (int)(high >> 2 * quarter & 3) * 16 - 32);
        }
        memcpy(b->bytes[0], p + 192, 16);
        memcpy(b->halves[0], p + 208, 2);
        break;
    default: break;
    }
}

static void put_scales(Kind kind, const Block *b, int64_t block, int lane, uint8_t *scales) {
    int halves = kind == I8_HALF || kind == N4_HALF || kind == I8_SUPER16 ? 1 : 2;
    int bytes = kind == N4_SUPER || kind == I8_SUPER || kind == I8_SUPER16 ? 8 * 32 : 0;
    uint8_t *p = scales + block * (32 * halves + bytes);
    for (int h = 0; h < halves; h++) memcpy(p + 32 * h + 2 * lane, b->halves[h], 2);
    p += 32 * halves + lane;
    for (int i = 0; i < (bytes ? 16 : 0); i++)
        p[16 * i] = kind == I8_SUPER16 ? b->bytes[0][i] : b->bytes[i % 2][i / 2];
}

static void put_codes(Kind kind, const Block *b, int64_t from, int count, int lane, uint8_t *codes) {
    if (kind == N4_HALF || kind == N4_HALF2 || kind == N4_SUPER) {
        for (int i = 0; i < count; i += 2) /* bytes of a little-endian word */
            codes[(from + i) / 8 * 64 + 4 * lane + i % 8 / 2] = (uint8_t)(b->codes[i] | b->codes[i + 1] << 4);
    } else {
        for (int i = 0; i < count; i++) /* pairs of inputs, as words of half bytes have them */
            codes[(from + i) / 8 * 8 * LANES + i % 4 * 2 * LANES + 2 * lane + i % 8 / 4] = (uint8_t)b->codes[i];
    }
}

/* Panels [first, last) of a matrix whose rows lie one after another in `raw`; the rest of a panel is left as it
   is, so codes and scales must be zeroed. */
void redline_pack(int32_t type, const uint8_t *raw, int64_t outputs, int64_t inputs, int64_t first, int64_t last,
                  uint8_t *codes, uint8_t *scales) {
    Kind kind = (Kind)redline_kind(type);
    int64_t row_bytes = redline_row_bytes(type, inputs);
    int size = type >= GGML_Q4_K && type <= GGML_Q6_K ? SUPER : UNIT;
    int wide = kind == F32 ? 4 : kind == F16 || kind == BF16 ? 2 : 0;
    int64_t block_bytes = redline_row_bytes(type, size);
    for (int64_t panel = first; panel < last; panel++) {
        uint8_t *own_codes = codes + panel * redline_codes_bytes(kind, inputs);
        uint8_t *own_scales = scales + panel * redline_scales_bytes(kind, inputs);
        for (int lane = 0; lane < LANES && panel * LANES + lane < outputs; lane++) {
            const uint8_t *p = raw + (panel * LANES + lane) * row_bytes;
            for (int64_t k = 0; wide && k < inputs; k++)
                memcpy(own_codes + (k * LANES + lane) * wide, p + k * wide, wide);
            for (int64_t block = 0; !wide && block < inputs / size; block++) {
                Block b;
                read_block(type, p + block * block_bytes, &b);
                put_codes(kind, &b, block * size, size, lane, own_codes);
                put_scales(kind, &b, block, lane, own_scales);
            }
        }
    }
}
