/* The smallest GPT-2, 124 million parameters, reads a prompt at once, and words one after the other behind it. */
#include "cli/bench_gpt2.h"

#include <models/gpt2.h>

#include "cli/bench_inputs.h"

enum { PROMPT = 120, STEPS = 8, VARIABLES = 148 };
static const gpt2_sizes sizes = {.words = 50257, .places = 1024, .width = 768, .heads = 12, .blocks = 12};

/* Matrices in a small uniform range; scales of norms 1, biases 0: as in bench_gpt.c. */
static bt_status set_weights(bt_layer *model) {
    bt_shared *variables[VARIABLES];
    bt_status status = BT_OK;
    int count = bt_parameters(model, variables, VARIABLES);
    if (count != VARIABLES) return bt_error_status();
    for (int i = 0; i < count && status == BT_OK; i++)
        BT_SCOPE {
            bt_array *value = bt_value(variables[i]);
            if (bt_rank(value) == 2)
                status = bt_set(variables[i], bench_floats(10 + (uint32_t)i, -0.05f, 0.05f, bt_shape_of(value)));
        }
    return status;
}

static bt_array *read_words(bench_work *work, int32_t first, int64_t count) {
    int32_t words[PROMPT];
    bt_array *logits = NULL;
    for (int64_t i = 0; i < count; i++) words[i] = (int32_t)((first + i) * 1009 % sizes.words);
    (void)!gpt2_read(work->reader, words, count, &logits); /* NULL: it failed, and waiting for that fails too */
    return logits;
}

static bool prepare_prompt(bench_work *work) {
    bt_layer *model = gpt2_new(&sizes, bt_key(0));
    if (bt_layer_status(model) != BT_OK || set_weights(model) != BT_OK) return false;
    work->reader = gpt2_reader_new(model, &sizes);
    return work->reader;
}

static bt_array *run_prompt(bench_work *work) {
    gpt2_reader_forget(work->reader, 0);
    return read_words(work, 0, PROMPT);
}

static bool prepare_token(bench_work *work) {
    return prepare_prompt(work) && bt_block(read_words(work, 0, PROMPT)) == BT_OK;
}

static bt_array *run_token(bench_work *work) {
    bt_array *logits = NULL;
    gpt2_reader_forget(work->reader, PROMPT);
    for (int i = 0; i < STEPS; i++) {
        logits = read_words(work, PROMPT + i, 1);
        if (bt_block(logits) != BT_OK) return logits; /* the next word would follow from it */
    }
    return logits;
}

static void finish(bench_work *work) { gpt2_reader_free(work->reader); }

/* Without the embeddings of words that are read, and with their products for the logits. */
#define WEIGHTS (124.4e6 - 1024 * 768)
const bench_row bench_gpt2_rows[BENCH_GPT2_ROWS] = {
    {"gpt2_prompt", "GPT-2 of 124M parameters reads 120 words", prepare_prompt, run_prompt, NULL, finish,
     .flops = 2 * PROMPT * (WEIGHTS - 38.6e6) + 2 * 38.6e6},
    {"gpt2_token", "GPT-2 of 124M parameters reads a word behind 120, with a cache", prepare_token, run_token, NULL,
     finish, .bytes = 4 * WEIGHTS, .flops = 2 * WEIGHTS, .steps = STEPS},
};
