/* What gpt2.c and gpt2_reader.c share. */
#ifndef MODELS_GPT2_PARTS_H
#define MODELS_GPT2_PARTS_H

#include "gpt2.h"

/* Of one block: keys and values [1, heads, places, depth] of what was read. */
typedef struct gpt2_cache {
    bt_array *keys, *values; /* before; afterwards with the words that are read now */
    bt_array *place;         /* an integer: where these begin */
} gpt2_cache;

/* Words [B, T] -> x [B, T, width] before the last norm; caches: one per block, and B is 1; NULL: the words are all that there is. */
bt_array *gpt2_blocks(bt_layer *model, bt_array *words, gpt2_cache *caches);
/* x [..., width] behind the blocks -> logits [..., words]. */
bt_array *gpt2_logits(bt_layer *model, bt_array *x);

#endif
