/* A function for each number of words that are read at once: words, their place and the caches to the logits of the next word and the caches, which are written over. */
#include <stdlib.h>

#include "gpt2_parts.h"

enum { WORDS, PLACE, CACHES }; /* inputs; of each block two caches */
enum { LOGITS };               /* outputs; behind it the caches */

struct gpt2_reader {
    bt_layer *model;
    gpt2_sizes sizes;
    bt_function *next;  /* for one word */
    bt_array **inputs;  /* CACHES + 2 * blocks; the caches are kept */
    bt_array **outputs; /* 1 + 2 * blocks */
    gpt2_cache *caches; /* by block, for recording */
    int64_t place;      /* so many words were read */
};

static int cache_count(const gpt2_reader *r) { return 2 * (int)r->sizes.blocks; }

gpt2_reader *gpt2_reader_new(bt_layer *model, const gpt2_sizes *s) {
    gpt2_reader *r = calloc(1, sizeof *r);
    if (!r) return NULL;
    *r = (gpt2_reader){.model = bt_layer_retain(model), .sizes = *s};
    size_t room = (size_t)cache_count(r) + CACHES;
    r->inputs = calloc(room, sizeof *r->inputs);
    r->outputs = calloc(room, sizeof *r->outputs);
    r->caches = calloc(room, sizeof *r->caches);
    bt_shared *first;
    bool good = r->model && r->inputs && r->outputs && r->caches && bt_parameters(model, &first, 1) > 0;
    for (int c = 0; good && c < cache_count(r); c++)
        BT_SCOPE {
            bt_array *empty = NULL;
            BT_ON(bt_device_of(bt_value(first))) empty = bt_zeros(BT_F32, 1, s->heads, s->places, s->width / s->heads);
            r->inputs[CACHES + c] = bt_retain(empty);
            good = bt_block(empty) == BT_OK;
        }
    if (good) return r;
    gpt2_reader_free(r);
    return NULL;
}

void gpt2_reader_free(gpt2_reader *r) {
    if (!r) return;
    for (int c = 0; r->inputs && c < cache_count(r); c++) bt_release(r->inputs[CACHES + c]);
    bt_function_release(r->next);
    bt_layer_release(r->model);
    free(r->inputs);
    free(r->outputs);
    free(r->caches);
    free(r);
}

void gpt2_reader_forget(gpt2_reader *r, int64_t from) {
    if (from >= 0 && from < r->place) r->place = from; /* what stands in the caches behind it is not read */
}

static bt_function *make_function(gpt2_reader *r, int64_t count) {
    const gpt2_sizes *s = &r->sizes;
    bt_array **inputs = calloc((size_t)cache_count(r) + CACHES, sizeof *inputs);
    if (!inputs) return NULL;
    inputs[WORDS] = bt_input(BT_I32, 1, count);
    inputs[PLACE] = bt_input(BT_I32, );
    for (int c = 0; c < cache_count(r); c++)
        inputs[CACHES + c] = bt_input(BT_F32, 1, s->heads, s->places, s->width / s->heads);
    for (int64_t b = 0; b < s->blocks; b++)
        r->caches[b] = (gpt2_cache){inputs[CACHES + 2 * b], inputs[CACHES + 2 * b + 1], inputs[PLACE]};
    bt_array *last = bt_index(gpt2_blocks(r->model, inputs[WORDS], r->caches), 1, -1); /* [1, width] */
    r->outputs[LOGITS] = bt_flatten(gpt2_logits(r->model, last), 0);
    for (int64_t b = 0; b < s->blocks; b++)
        r->outputs[1 + 2 * b] = r->caches[b].keys, r->outputs[2 + 2 * b] = r->caches[b].values;
    bt_function *f = bt_function_new(inputs, CACHES + cache_count(r), r->outputs, 1 + cache_count(r), NULL, 0);
    for (int c = 0; c < cache_count(r); c++) (void)!bt_function_donate(f, CACHES + c);
    free(inputs);
    return f;
}

static bt_status read_words(gpt2_reader *r, const int32_t *words, int64_t count, bt_array **logits) {
    if (count == 1 && !r->next) r->next = bt_function_retain(make_function(r, 1));
    bt_function *f = count == 1 ? r->next : make_function(r, count);
    if (!f) return BT_RESOURCE_EXHAUSTED;
    r->inputs[WORDS] = bt_from(words, BT_I32, BT_SHAPE(1, count));
    r->inputs[PLACE] = bt_i32((int32_t)r->place);
    bt_status status = bt_call(f, r->inputs, CACHES + cache_count(r), r->outputs, 1 + cache_count(r));
    if (status != BT_OK) return status;
    for (int c = 0; c < cache_count(r); c++) bt_assign(&r->inputs[CACHES + c], r->outputs[1 + c]);
    r->place += count;
    *logits = bt_keep(r->outputs[LOGITS]);
    return BT_OK;
}

bt_status gpt2_read(gpt2_reader *r, const int32_t *words, int64_t count, bt_array **logits) {
    bt_status status = BT_OK;
    if (count < 1 || count > r->sizes.places - r->place) return BT_OUT_OF_RANGE;
    for (int64_t i = 0; i < count; i++)
        if (words[i] < 0 || words[i] >= r->sizes.words) return BT_INVALID_ARGUMENT;
    BT_SCOPE
        status = read_words(r, words, count, logits);
    return status;
}

/* --- writing -------------------------------------------------------------------------------------------------------- */

static bt_status choose(const gpt2_choice *how, bt_array *logits, int64_t place, int32_t *word) {
    bt_array *chosen;
    if (how->temperature > 0) {
        bt_array *key = bt_fold_in(how->key, (uint32_t)place), *best = NULL;
        int64_t count = bt_size(logits, 0);
        if (how->best > 0 && how->best < count) { /* among the best, by their numbers */
            best = bt_top_k_indices(logits, how->best);
            logits = bt_top_k(logits, how->best);
        }
        chosen = bt_categorical(key, bt_div(logits, how->temperature), );
        if (best) chosen = bt_take(best, chosen, 0);
    } else
        chosen = bt_argmax(logits, 0);
    return bt_read(bt_cast(chosen, BT_I32), word, sizeof *word);
}

bt_status gpt2_write(gpt2_reader *r, const gpt2_choice *choice, int32_t *words, int64_t count, int64_t end,
                     bool (*seen)(int32_t word, void *data), void *data, int64_t *written) {
    bt_status status = BT_OK;
    int64_t read = 0;
    bool more = true;
    for (*written = count; *written < end && more && status == BT_OK;)
        BT_SCOPE {
            bt_array *logits = NULL;
            status = gpt2_read(r, words + read, *written - read, &logits);
            if (status == BT_OK) status = choose(choice, logits, r->place, &words[*written]);
            if (status != BT_OK) continue;
            read = *written;
            more = !seen || seen(words[*written], data);
            ++*written;
        }
    return status;
}
