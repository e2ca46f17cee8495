/* What bpe.c and bpe_files.c share. */
#ifndef MODELS_BPE_PARTS_H
#define MODELS_BPE_PARTS_H

#include "bpe.h"

typedef struct bpe_bytes {
    char *bytes; /* one or more */
    size_t length;
} bpe_bytes;

typedef struct bpe_merge {
    uint64_t pair; /* of two words */
    int32_t rank;  /* the lowest is merged first */
    int32_t made;  /* the word of both */
} bpe_merge;

struct bpe {
    bpe_bytes *words; /* by number */
    int32_t *sorted;  /* numbers in the order of their bytes */
    int32_t count, of_byte[256];
    bpe_merge *merges; /* in the order of the pairs */
    size_t merge_count;
    int32_t *specials; /* words that are found in the text before all others */
    size_t special_count;
};

static inline uint64_t bpe_pair(int32_t left, int32_t right) { return (uint64_t)left << 32 | (uint32_t)right; }
/* The order of bytes: below 0, 0, above 0. */
int bpe_compare(const char *a, size_t a_length, const char *b, size_t b_length);

#endif
