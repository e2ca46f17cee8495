/* The texts of attention (render/c/attention.h), one function each, and the tiles that they are written for. */
#ifndef BTI_LAUNCH_ATTENTION_TILE_H
#define BTI_LAUNCH_ATTENTION_TILE_H

#include "ir/dtype.h"
#include "launch/functions.h"

/* Of `attention` the first five, of `attention_gradient` the others. */
typedef enum bti_attention_text {
    BTI_ATTEND,         /* many queries of a head */
    BTI_ATTEND_PAIR,    /* 2 queries, at least, of the heads that share keys, by parts of the keys */
    BTI_ATTEND_FEW,     /* 4, at least */
    BTI_ATTEND_SEVERAL, /* 8, at least, and more of them in blocks */
    BTI_ATTEND_JOIN,    /* of the parts of the keys */
    BTI_ATTEND_MEANS,
    BTI_ATTEND_QUERIES,
    BTI_ATTEND_KEYS,
    BTI_ATTEND_TEXTS
} bti_attention_text;

/* By local memory, from the most to the least that a group may have: for depths beyond 64; for depths up to that; where there are few groups; for any device. */
typedef enum bti_attention_size {
    BTI_TILE_WIDE,
    BTI_TILE_LARGE,
    BTI_TILE_MIDDLE,
    BTI_TILE_SMALL,
    BTI_TILE_SIZES
} bti_attention_size;

typedef struct bti_attention_tile {
    int threads, across;         /* of a group; of a row, which step together */
    int each_rows, each_columns; /* of a thread */
    int span, width;             /* elements of a depth in local memory; columns that a group makes */
    int rows, columns;           /* of a group */
    size_t local_bytes;          /* of a group */
} bti_attention_tile;

/* Of BTI_ATTEND_JOIN and BTI_ATTEND_MEANS, which have none, groups of BTI_GROUP threads alone. dtype: float32 or float64. */
bti_attention_tile bti_attention_tile_of(bti_attention_text text, bti_attention_size size, bt_dtype dtype);

/* The text and its tile as one number (bti_text_wanted.variant). */
enum { BTI_ATTENTION_VARIANTS = BTI_ATTEND_TEXTS * BTI_TILE_SIZES };
static inline int bti_attention_variant(bti_attention_text text, bti_attention_size size) {
    return (int)text * BTI_TILE_SIZES + (int)size;
}
static inline bti_attention_text bti_attention_text_of(int variant) { return variant / BTI_TILE_SIZES; }
static inline bti_attention_size bti_attention_size_of(int variant) { return variant % BTI_TILE_SIZES; }

#endif
