/* What the kernels share: matrices of the file's own numbers, and the table of what a processor variant does.

   A matrix of N outputs and K inputs is cut into panels of 16 outputs, so that a vector holds one input's
   weights for 16 outputs. Where weights are floats, every result is a sum over the inputs 0, 1, 2, ..., K-1 in
   this order, one fused multiply-add each, in one accumulator that starts at zero. Where they are whole numbers
   times scales, so are the rows: 32 inputs of a row at a time become 16-bit numbers times a power of two. Their
   products are added up exactly, and only a unit's sum is a float: the accumulator then takes the units in order,
   by one fused multiply-add for the scale and one for the offset. Nothing else about a pass - how many rows it
   has, how they are tiled, which thread computes what, how wide the processor's vectors are - can change a bit. */

#ifndef REDLINE_KERNELS_H
#define REDLINE_KERNELS_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum { LANES = 16, UNIT = 32, SUPER = 256, MOST_ROWS = 64 };

/* How weights are kept. A weight is code * scale + offset, all in float32, rounded once. */
typedef enum {
    F32,        /* floats */
    F16,        /* halves */
    BF16,       /* the upper halves of floats */
    I8_HALF,    /* signed bytes; a half scale per 32 inputs: Q8_0, Q5_0 */
    I8_HALF2,   /* the same and a half offset: Q5_1 */
    N4_HALF,    /* half bytes less 8; a half scale per 32: Q4_0 */
    N4_HALF2,   /* half bytes; a half scale and a half offset: Q4_1 */
    N4_SUPER,   /* half bytes; byte scales and offsets per 32, each times a half per 256: Q4_K */
    I8_SUPER,   /* bytes, the same: Q5_K */
    I8_SUPER16, /* signed bytes; signed byte scales per 16, times a half per 256: Q6_K */
    KINDS
} Kind;

/* codes: panel after panel; in each, unit after unit of 32 inputs. Halves and floats lie input by input, 16 outputs
   each. Half bytes are four vectors of 16 words, a word holding an output's next 8 inputs, lowest first. Bytes are
   16 vectors of 16 pairs; of 8 inputs, the pairs are those which lie 16 bits apart in a word of half bytes: 0 and
   4, 1 and 5, 2 and 6, 3 and 7. scales: panel after panel; for SUPER kinds per 256 inputs the halves, then those of
   its units. Inputs are filled up with zeros to whole units, outputs to whole panels. */
typedef struct {
    int32_t kind;
    int64_t outputs, inputs;
    const uint8_t *codes, *scales;
} Matrix;

/* What becomes of a product y before it is stored. */
typedef enum { PLAIN, SWISH, TIMES, PLUS } After;

typedef struct {
    const float *bias;  /* (outputs), or NULL */
    After after;        /* SWISH: y / (1 + exp(-y)); TIMES, PLUS: with the same place of other */
    const float *other; /* (rows, stride), or NULL */
    float *out;         /* (rows, stride) */
    int64_t stride;
} Finish;

/* Rows made ready to be multiplied, a tile of rows after the other. In each, number by number, the tile's rows side
   by side: of `plain` the inputs; of `pairs` two inputs each, as 16-bit numbers, paired as bytes are above; of
   `scale` and `sum` the units of 32 inputs, a power of two that makes them what they are and what they add up to. */
typedef struct {
    float *plain;         /* for kinds that are floats */
    int32_t *pairs;       /* for the others, as are the next two */
    float *scale, *sum;
} Packed;

/* Which of a Packed's arrays a kind needs. */
enum { PLAIN_ROWS = 1, WHOLE_ROWS = 2 };
static inline int rows_for(int32_t kind) { return kind <= BF16 ? PLAIN_ROWS : WHOLE_ROWS; }

static inline float float_of(uint32_t bits) {
    float f;
    memcpy(&f, &bits, sizeof f);
    return f;
}
static inline int64_t up(int64_t n, int64_t whole) { return (n + whole - 1) / whole * whole; }

/* What attention needs to work in, for `room` slots, a number of whole vectors. */
static inline int64_t attend_floats(int64_t queries, int64_t room, int64_t width) {
    int64_t wide = up(width, LANES);
    return queries * (room + (room > wide ? room : wide));
}

/* Bytes of one panel. */
int64_t redline_codes_bytes(int32_t kind, int64_t inputs);
int64_t redline_scales_bytes(int32_t kind, int64_t inputs);

/* A row of a pass as attention needs it: it sees the slots 0 ... settled - 1 of its text's cache, then those of
   its line's nodes, counted from `settled`; the last that it sees is its own. Caches are matrices too: of a head's
   keys the slots are the outputs, (capacity / 16, wide, 16), and of its values the inputs, (capacity, wide), where
   wide is the heads' width in whole vectors. */
typedef struct {
    float *keys, *values;    /* of the text's first layer */
    int64_t layer, head;     /* floats from one layer's to the next one's, and from one head's to the next one's */
    int64_t slot;            /* where its own keys and values go */
    int64_t settled, nodes;
    const int32_t *line;     /* (nodes) */
    const float *turn;       /* its position's cosines, then sines with signs, (2, width) */
} Row;

/* One head's query, (width), and where its result goes. */
typedef struct {
    const Row *row;
    const float *q;
    float *out;
} Query;
enum { MOST_QUERIES = 12 };

/* A processor's way to do it. */
typedef struct {
    const char *name;
    int (*runs_here)(void);
    /* out[input][16] of a unit's inputs. */
    void (*decode)(const Matrix *w, int64_t panel, int64_t unit, float *out);
    /* Panels [first, last) for all rows. */
    void (*product)(const Matrix *w, const Packed *x, int64_t rows, int64_t first, int64_t last,
                    const Finish *finish);
    /* Units [first, last) of rows (rows, inputs), RMS-normed and weighted where there is a norm. `what`: for which
       kinds. Inputs that there are not are zeros. */
    void (*pack)(const float *x, int64_t rows, int64_t inputs, const float *norm, float eps, int64_t first,
                 int64_t last, int what, const Packed *packed);
    void (*rotate)(float *head, int64_t width, const float *turn, const float *norm, float eps);
    /* At most `tile` queries of one text to one head's keys and values. `memory`: see attend_floats. */
    void (*attend)(const Query *queries, int count, const float *keys, const float *values, int64_t width,
                   int64_t room, float *memory);
    int tile;
} Variant;

#endif
