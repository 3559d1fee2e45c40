/* A pass through the blocks of a Llama-like model. */

#include <stdlib.h>
#include <string.h>

#include "variants.h"

/* One thread's share of a layer's attention: from qkv (rows, heads + 2 kv_heads, width) into caches and `out`. */
static void see(const Variant *v, const Model *m, const Block *b, int64_t layer, const Row *rows, int64_t count,
                float *qkv, float *memory, int64_t room, float *out) {
    int64_t here = omp_get_thread_num(), of = omp_get_num_threads(), width = m->width, wide = up(width, LANES);
    int64_t turned = m->heads + m->kv_heads, all = turned + m->kv_heads, groups = m->heads / m->kv_heads;
    for (int64_t task = here; task < count * all; task += of) {
        const Row *row = rows + task / all;
        int64_t head = task % all, kv = (head - m->heads) % m->kv_heads;
        float *from = qkv + task * width;
        if (head < turned)
            v->rotate(from, width, row->turn, b->head_norm ? b->head_norm + head * width : NULL, m->eps);
        int64_t at = layer * row->layer + kv * row->head, lane = row->slot % LANES;
        if (head >= turned)
            memcpy(row->values + at + row->slot * wide, from, sizeof(float) * width);
        else if (head >= m->heads)
            for (int64_t d = 0; d < width; d++)
                row->keys[at + (row->slot - lane) * wide + d * LANES + lane] = from[d];
    }
#pragma omp barrier
    int64_t task = 0, last;
    for (int64_t first = 0; first < count; first = last) { /* the rows of a text */
        for (last = first; last < count && rows[last].keys == rows[first].keys;) last++;
        /* A key/value head's queries, as many as fit into a tile, unless that leaves threads without work. */
        int64_t queries = (last - first) * groups, tiles = (queries + v->tile - 1) / v->tile;
        int64_t wanted = (of + m->kv_heads - 1) / m->kv_heads;
        if (tiles < wanted) tiles = wanted < queries ? wanted : queries;
        for (int64_t n = 0; n < m->kv_heads * tiles; n++) {
            if (task++ % of != here) continue;
            int64_t kv = n / tiles, begin = queries * (n % tiles) / tiles, end = queries * (n % tiles + 1) / tiles;
            int64_t at = layer * rows[first].layer + kv * rows[first].head;
            Query own[MOST_QUERIES];
            for (int64_t i = begin; i < end; i++) {
                int64_t row = first + i / groups, head = kv * groups + i % groups;
                own[i - begin] = (Query){rows + row, qkv + (row * all + head) * width,
                                         out + (row * m->heads + head) * width};
            }
            v->attend(own, (int)(end - begin), rows[first].keys + at, rows[first].values + at, width, room,
                      memory + here * attend_floats(v->tile, room, width));
        }
    }
}

/* Rows x (count, hidden) go through the blocks [first, last), in place; keys and values into their caches. With
   `only_store`, the last of them only stores its keys and values. Rows may be at most MOST_ROWS. Returns 0, 1 for
   something that is not good, or 2 where there is no memory. */
int redline_forward(int variant, const Model *m, int64_t first, int64_t last, const Row *rows, int64_t count,
                    float *x, int only_store, int threads) {
    const Variant *v = variant_at(variant);
    if (!v || count < 1 || count > MOST_ROWS || threads < 1 || first < 0 || last > m->blocks) return 1;
    int64_t heads = (m->heads + 2 * m->kv_heads) * m->width, attended = m->heads * m->width, room = 0;
    int64_t widest = m->inner > m->hidden ? m->inner : m->hidden;
    widest = widest > attended ? widest : attended;
    for (int64_t r = 0; r < count; r++) {
        int64_t end = rows[r].settled + (rows[r].nodes ? rows[r].line[rows[r].nodes - 1] + 1 : 0);
        room = end > room ? end : room;
    }
    room = up(room, LANES);
    float *memory = malloc(sizeof(float) * (count * (heads + attended + m->inner) + packed_floats(count, widest) +
                                            threads * attend_floats(v->tile, room, m->width)));
    if (!memory) return 2;
    float *qkv = memory, *seen = qkv + count * heads, *inner = seen + count * attended;
    float *place = inner + count * m->inner, *scores = place + packed_floats(count, widest);
    Packed packed = packed_in(place, count, widest);
#pragma omp parallel num_threads(threads)
    for (int64_t layer = first; layer < last; layer++) {
        const Block *b = m->block + layer;
        pack_rows(v, x, count, m->hidden, b->norm, m->eps, layers_rows(&b->qkv), &packed);
#pragma omp barrier
        multiply(v, &b->qkv, &packed, count, PLAIN, NULL, qkv);
#pragma omp barrier
        see(v, m, b, layer, rows, count, qkv, scores, room, seen);
#pragma omp barrier
        if (only_store && layer == last - 1) continue;
        pack_rows(v, seen, count, attended, NULL, 0, layers_rows(&b->out), &packed);
#pragma omp barrier
        multiply(v, &b->out, &packed, count, PLUS, x, x);
#pragma omp barrier
        pack_rows(v, x, count, m->hidden, b->mlp_norm, m->eps, layers_rows(&b->gate) | layers_rows(&b->up), &packed);
#pragma omp barrier
        multiply(v, &b->gate, &packed, count, SWISH, NULL, inner);
        multiply(v, &b->up, &packed, count, TIMES, inner, inner); /* the same panels are the same thread's */
#pragma omp barrier
        pack_rows(v, inner, count, m->inner, NULL, 0, layers_rows(&b->down), &packed);
#pragma omp barrier
        multiply(v, &b->down, &packed, count, PLUS, x, x);
#pragma omp barrier
    }
    free(memory);
    return 0;
}
