#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gpt2_parts.h"
#include "sizes.h"

/* --- the layers: their names are those of Hugging Face's ------------------------------------------------------------- */

enum { WTE, WPE, H, LN_F };     /* children of the model: embeddings of words and places, the blocks, the last norm */
enum { LN_1, ATTN, LN_2, MLP }; /* of a block */
enum { C_ATTN, C_PROJ };        /* of its attention: q, k and v in one; what follows */
enum { C_FC, C_PROJ_OF_MLP };   /* of its MLP */

static bt_array *apply_child(bt_layer *layer, int child, bt_array *x) {
    return bt_apply(bt_layer_child(layer, child), x);
}

/* x [B, T, width] -> [B, T, width]. With a cache x stands at its place, and reads what was there before. */
static bt_array *attend(bt_layer *layer, bt_array *x, int64_t heads, gpt2_cache *cache) {
    int64_t batch = bt_size(x, 0), places = bt_size(x, 1), width = bt_size(x, 2);
    bt_array *all = bt_reshape(apply_child(layer, C_ATTN, x), batch, places, 3, heads, width / heads);
    all = bt_permute(all, 2, 0, 3, 1, 4);
    bt_array *q = bt_index(all, 0, 0), *k = bt_index(all, 0, 1), *v = bt_index(all, 0, 2),
             *y; /* [B, heads, T, depth] */
    if (cache) {
        cache->keys = bt_update_slice_axis(cache->keys, k, cache->place, 2);
        cache->values = bt_update_slice_axis(cache->values, v, cache->place, 2);
        y = bt_attention(q, cache->keys, cache->values, .causal = true, .from_end = true,
                         .lengths = bt_reshape(bt_add(cache->place, places), 1));
    } else
        y = bt_attention(q, k, v, .causal = true);
    return apply_child(layer, C_PROJ, bt_reshape(bt_permute(y, 0, 2, 1, 3), batch, places, width));
}

static bt_array *forward_attention(bt_layer *layer, bt_array *x, void *heads) {
    return attend(layer, x, (int64_t)(intptr_t)heads, NULL);
}

static bt_array *forward_mlp(bt_layer *layer, bt_array *x, void *unused) {
    (void)unused;
    return apply_child(layer, C_PROJ_OF_MLP, apply_child(layer, C_FC, x));
}

static bt_array *pass_block(bt_layer *block, bt_array *x, gpt2_cache *cache) {
    bt_array *h = apply_child(block, LN_1, x);
    bt_layer *attention = bt_layer_child(block, ATTN);
    x = bt_add(x, cache ? attend(attention, h, bt_size(cache->keys, 1), cache) : bt_apply(attention, h));
    return bt_add(x, apply_child(block, MLP, apply_child(block, LN_2, x)));
}

static bt_array *forward_block(bt_layer *layer, bt_array *x, void *unused) {
    (void)unused;
    return pass_block(layer, x, NULL);
}

bt_array *gpt2_blocks(bt_layer *model, bt_array *words, gpt2_cache *caches) {
    bt_array *places = bt_layer_parameter(bt_layer_child(model, WPE), "weight");
    bt_layer *blocks = bt_layer_child(model, H);
    int64_t count = bt_size(words, 1);
    places = caches ? bt_dynamic_slice_axis(places, caches->place, count, 0) : bt_slice_axis(places, 0, 0, count, 1);
    bt_array *x = bt_add(apply_child(model, WTE, words), places);
    if (!caches) return bt_apply(blocks, x);
    for (int b = 0; b < bt_layer_child_count(blocks); b++) x = pass_block(bt_layer_child(blocks, b), x, &caches[b]);
    return x;
}

bt_array *gpt2_logits(bt_layer *model, bt_array *x) {
    bt_array *embedding = bt_layer_parameter(bt_layer_child(model, WTE), "weight");
    return bt_matmul_t(apply_child(model, LN_F, x), embedding, false, true);
}

static bt_array *forward_model(bt_layer *model, bt_array *words, void *unused) {
    (void)unused;
    return gpt2_logits(model, gpt2_blocks(model, words, NULL));
}

/* --- making them ---------------------------------------------------------------------------------------------------- */

static bt_array *init_small(bt_array *key, bt_dtype dtype, bt_shape shape) {
    return bt_mul(bt_normal_shape(key, dtype, shape), 0.02);
}

static bt_layer *make_block(const gpt2_sizes *s, bt_array *key, bt_initializer *init) {
    int64_t width = s->width;
    bt_array *keys = bt_split(key, 4);
    bt_layer *attention =
        bt_layer_new("CausalAttention", forward_attention, .data = (void *)(intptr_t)s->heads,
                     .children = {{"c_attn", bt_dense(width, 3 * width, NULL, bt_split_at(keys, 0), .init = init)},
                                  {"c_proj", bt_dense(width, width, NULL, bt_split_at(keys, 1), .init = init)}});
    bt_layer *mlp = bt_layer_new(
        "MLP", forward_mlp,
        .children = {{"c_fc", bt_dense(width, 4 * width, bt_gelu_tanh, bt_split_at(keys, 2), .init = init)},
                     {"c_proj", bt_dense(4 * width, width, NULL, bt_split_at(keys, 3), .init = init)}});
    return bt_layer_new("Block", forward_block,
                        .children = {{"ln_1", bt_layer_norm_layer(width)},
                                     {"attn", attention},
                                     {"ln_2", bt_layer_norm_layer(width)},
                                     {"mlp", mlp}});
}

static bt_layer *make_model(const gpt2_sizes *s, bt_array *key, bt_initializer *init) {
    bt_array *keys = bt_split(key, 2 + s->blocks);
    bt_layer **blocks = calloc((size_t)s->blocks + 1, sizeof *blocks);
    for (int64_t b = 0; blocks && b < s->blocks; b++) blocks[b] = make_block(s, bt_split_at(keys, 2 + b), init);
    bt_layer *chain = bt_chain_of(blocks, (int)s->blocks);
    free(blocks);
    bt_layer *words = bt_embedding_layer(s->words, s->width, bt_split_at(keys, 0), .init = init);
    bt_layer *places = bt_embedding_layer(s->places, s->width, bt_split_at(keys, 1), .init = init);
    return bt_layer_new(
        "GPT2", forward_model,
        .children = {{"wte", words}, {"wpe", places}, {"h", chain}, {"ln_f", bt_layer_norm_layer(s->width)}});
}

bt_layer *gpt2_new(const gpt2_sizes *sizes, bt_array *key) { return make_model(sizes, key, init_small); }

/* --- files ---------------------------------------------------------------------------------------------------------- */

/* Of a tensor with or without the prefix of GPT2LMHeadModel. */
static bt_shape shape_of(const bt_tensors *file, const char *name) {
    char longer[128];
    bt_shape shape = shape_in_file(file, name);
    snprintf(longer, sizeof longer, "transformer.%s", name);
    return shape.rank < 0 ? shape_in_file(file, longer) : shape;
}

/* Blocks are counted while their largest tensor is as large as it should be, so that no model is made that is larger than the file. */
static void find_sizes(const bt_tensors *file, gpt2_sizes *s) {
    bt_shape words = shape_of(file, "wte.weight"), places = shape_of(file, "wpe.weight"), mlp;
    *s = (gpt2_sizes){0};
    if (words.rank == 2 && words.size[0] > 0) s->words = words.size[0], s->width = words.size[1];
    if (places.rank == 2 && places.size[1] == s->width) s->places = places.size[0];
    s->heads = s->width < 64 ? 1 : s->width / 64;
    do {
        char name[64];
        snprintf(name, sizeof name, "h.%lld.mlp.c_fc.weight", (long long)s->blocks);
        mlp = shape_of(file, name);
    } while (mlp.rank == 2 && mlp.size[0] == s->width && mlp.size[1] / 4 == s->width && ++s->blocks);
}

bt_status gpt2_sizes_in(const char *path, gpt2_sizes *sizes) {
    bt_tensors *file;
    bt_status status = bt_tensors_open(path, &file);
    if (status != BT_OK) return status;
    find_sizes(file, sizes);
    bt_tensors_close(file);
    return BT_OK;
}

/* Whether the weights of the logits are those of the embedding, as they are in GPT-2. */
static bt_status is_tied(const char *path, bool *tied) {
    bt_tensors *file;
    bt_status status = bt_tensors_open(path, &file);
    *tied = true;
    if (status != BT_OK) return status;
    bt_shape head = shape_in_file(file, "lm_head.weight"), words = shape_of(file, "wte.weight");
    if (head.rank == 2 && words.rank == 2 && head.size[0] == words.size[0] && head.size[1] == words.size[1])
        BT_SCOPE {
            bt_array *a = bt_tensors_get(file, "lm_head.weight"),
                     *b = bt_tensors_get(file, shape_in_file(file, "wte.weight").rank < 0 ? "transformer.wte.weight"
                                                                                          : "wte.weight");
            status = bt_read(bt_all(bt_eq(a, b)), tied, sizeof *tied);
        }
    else
        *tied = head.rank < 0;
    bt_tensors_close(file);
    return status;
}

static int64_t at_least_one(int64_t size) { return size < 1 ? 1 : size; }

bt_status gpt2_open(const char *path, const gpt2_sizes *sizes, bt_layer **model) {
    bool tied;
    bt_status status = is_tied(path, &tied);
    if (status != BT_OK) return status;
    gpt2_sizes made = {at_least_one(sizes->words), at_least_one(sizes->places), at_least_one(sizes->width),
                       at_least_one(sizes->heads),
                       at_least_one(sizes->blocks)};      /* of other files: what is missing is said */
    *model = make_model(&made, bt_key(0), bt_init_zeros); /* drawing weights takes longer than reading them */
    return bt_load_model(path, *model, .cast = true,
                         .rename = tied ? "*.attn.bias=;*.attn.masked_bias=;lm_head.weight=;transformer.*=*"
                                        : "*.attn.bias=;*.attn.masked_bias=;transformer.*=*");
}

bt_status gpt2_save(const char *path, const bt_layer *model) {
    return bt_save_model(path, model, .rename = "*=transformer.*");
}
