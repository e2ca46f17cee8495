/* A character GPT in the form of GPT-2, made of layers. It is trained on windows of the text, and writes with a cache of keys and values: each character costs as much as one place. */
#include "cli/demo_gpt.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cli/cli.h"
#include "cli/reference.h"

enum { PLACES = 128, WIDTH = 160, HEADS = 5, BLOCKS = 4, DEPTH = WIDTH / HEADS, BATCH = 16, BYTES = 256, EPOCHS = 6 };
static const double temperature = 0.6;

/* --- the text ------------------------------------------------------------------------------------------------------- */

typedef struct corpus {
    char *text;
    int64_t length;
    int words; /* different characters */
    int32_t word_of[BYTES];
    char of_word[BYTES];
    bt_array *train_x, *train_y, *test_x, *test_y; /* [N, PLACES] words, and those that follow */
} corpus;

static void number_characters(corpus *c) {
    bool found[BYTES] = {false};
    for (int64_t i = 0; i < c->length; i++) found[(unsigned char)c->text[i]] = true;
    for (int b = 0; b < BYTES; b++) {
        c->word_of[b] = found[b] ? c->words : 0;
        if (found[b]) c->of_word[c->words++] = (char)b;
    }
}

/* Windows that overlap by half; a tenth of the text, its end, is held out. */
static bool cut_windows(corpus *c) {
    int32_t *words = malloc((size_t)c->length * sizeof *words);
    if (!words) return false;
    for (int64_t i = 0; i < c->length; i++) words[i] = c->word_of[(unsigned char)c->text[i]];
    bt_array *all = bt_from(words, BT_I32, BT_SHAPE(c->length));
    free(words);
    int64_t windows = (c->length - PLACES - 1) / (PLACES / 2), train = windows * 9 / 10;
    bt_array *starts = bt_reshape(bt_mul(bt_arange(0, (double)windows, 1, BT_I32), PLACES / 2), windows, 1);
    bt_array *places = bt_add(starts, bt_arange(0, PLACES, 1, BT_I32));
    bt_array *x = bt_take(all, places, 0), *y = bt_take(all, bt_add(places, 1), 0);
    c->train_x = bt_slice_axis(x, 0, 0, train, 1);
    c->train_y = bt_slice_axis(y, 0, 0, train, 1);
    c->test_x = bt_slice_axis(x, 0, train, windows, 1);
    c->test_y = bt_slice_axis(y, 0, train, windows, 1);
    return bt_eval_all((bt_array *[]){c->train_x, c->train_y, c->test_x, c->test_y}, 4) == BT_OK;
}

/* --- the model ------------------------------------------------------------------------------------------------------ */

/* x [B, L, WIDTH], and what stands for the places 0 to L - 1. */
static bt_array *add_places(bt_layer *layer, bt_array *x, void *unused) {
    (void)unused;
    return bt_add(x, bt_slice_axis(bt_layer_parameter(layer, "places"), 0, 0, bt_size(x, 1), 1));
}

static bt_layer *make_block(bt_array *key) {
    bt_array *keys = bt_split(key, 3);
    bt_layer *attend =
        bt_chain(bt_layer_norm_layer(WIDTH), bt_attention_layer(WIDTH, HEADS, bt_split_at(keys, 0), .causal = true));
    bt_layer *think = bt_chain(bt_layer_norm_layer(WIDTH), bt_dense(WIDTH, 4 * WIDTH, bt_gelu, bt_split_at(keys, 1)),
                               bt_dense(4 * WIDTH, WIDTH, NULL, bt_split_at(keys, 2)));
    return bt_chain(bt_skip(attend, bt_combine_sum), bt_skip(think, bt_combine_sum));
}

static bt_layer *make_gpt(int words) {
    bt_array *keys = bt_split(bt_key(0), BLOCKS + 3), *small = bt_normal(bt_split_at(keys, 0), BT_F32, PLACES, WIDTH);
    bt_layer *layers[BLOCKS + 4] = {
        bt_embedding_layer(words, WIDTH, bt_split_at(keys, 1)),
        bt_layer_new("Places", add_places, .text = "()", .parameters = {{"places", bt_mul(small, 0.02)}})};
    for (int b = 0; b < BLOCKS; b++) layers[2 + b] = make_block(bt_split_at(keys, 3 + b));
    layers[BLOCKS + 2] = bt_layer_norm_layer(WIDTH);
    layers[BLOCKS + 3] = bt_dense(WIDTH, words, NULL, bt_split_at(keys, 2));
    return bt_chain_of(layers, BLOCKS + 4);
}

static bt_array *next_word_loss(bt_layer *model, bt_array *x, bt_array *y, void *unused) {
    (void)unused;
    return bt_cross_entropy(bt_apply(model, x), y);
}

/* --- one place at a time -------------------------------------------------------------------------------------------- */

enum { CACHES = 2 * BLOCKS, INPUTS = 2 + CACHES, OUTPUTS = 1 + CACHES };

static bt_array *one_head_each(bt_layer *projection, bt_array *x) {
    return bt_reshape(bt_apply(projection, x), 1, HEADS, 1, DEPTH);
}

/* The block's output for x [1, 1, WIDTH], and its caches [1, HEADS, PLACES, DEPTH] with the place's key and value. */
static bt_array *decode_block(bt_layer *block, bt_array *x, bt_array *place, bt_array **caches) {
    bt_layer *attend = bt_layer_child(bt_layer_child(block, 0), 0),
             *think = bt_layer_child(bt_layer_child(block, 1), 0);
    bt_layer *attention = bt_layer_child(attend, 1);
    bt_array *h = bt_apply(bt_layer_child(attend, 0), x);
    for (int i = 0; i < 2; i++)
        caches[i] = bt_update_slice_axis(caches[i], one_head_each(bt_layer_child(attention, 1 + i), h), place, 2);
    bt_array *read = bt_attention(one_head_each(bt_layer_child(attention, 0), h), caches[0], caches[1],
                                  .lengths = bt_reshape(bt_add(place, 1), 1));
    x = bt_add(x, bt_apply(bt_layer_child(attention, 3), bt_reshape(read, 1, 1, WIDTH)));
    return bt_add(x, bt_apply(think, x));
}

/* A word [1], its place and the caches to the logits of the next word and the caches, which are written over. */
static bt_function *make_decoder(bt_layer *model) {
    bt_array *inputs[INPUTS] = {bt_input(BT_I32, 1), bt_input(BT_I32, )}, *outputs[OUTPUTS];
    for (int c = 0; c < CACHES; c++) outputs[1 + c] = inputs[2 + c] = bt_input(BT_F32, 1, HEADS, PLACES, DEPTH);
    bt_array *x = bt_reshape(bt_apply(bt_layer_child(model, 0), inputs[0]), 1, 1, WIDTH);
    x = bt_add(x, bt_take(bt_layer_parameter(bt_layer_child(model, 1), "places"), inputs[1], 0));
    for (int b = 0; b < BLOCKS; b++) x = decode_block(bt_layer_child(model, 2 + b), x, inputs[1], outputs + 1 + 2 * b);
    outputs[0] =
        bt_flatten(bt_apply(bt_layer_child(model, BLOCKS + 3), bt_apply(bt_layer_child(model, BLOCKS + 2), x)), 0);
    bt_function *decoder = bt_function_new(inputs, INPUTS, outputs, OUTPUTS, NULL, 0);
    for (int c = 0; c < CACHES; c++) (void)!bt_function_donate(decoder, 2 + c);
    return decoder;
}

/* Reads `start`, then writes until all places are full: text [PLACES + 1], "" when it fails. */
static bt_status write_text(const corpus *c, bt_layer *model, const char *start, char *text) {
    bt_function *decoder = make_decoder(model);
    bt_array *state[INPUTS] = {NULL};
    bt_status status = bt_function_status(decoder);
    snprintf(text, PLACES + 1, "%s", start);
    for (int i = 2; i < INPUTS; i++) state[i] = bt_retain(bt_zeros(BT_F32, 1, HEADS, PLACES, DEPTH));
    for (int i = 0, given = (int)strlen(text); i + 1 < PLACES && status == BT_OK; i++) {
        BT_SCOPE {
            bt_array *outputs[OUTPUTS];
            state[0] = bt_reshape(bt_i32(c->word_of[(unsigned char)text[i]]), 1);
            state[1] = bt_i32(i);
            status = bt_call(decoder, state, INPUTS, outputs, OUTPUTS);
            for (int k = 0; k < CACHES && status == BT_OK; k++) bt_assign(&state[2 + k], outputs[1 + k]);
            int32_t word = 0;
            if (status == BT_OK && i + 1 >= given)
                status = bt_read(
                    bt_cast(bt_categorical(bt_fold_in(bt_key(5), (uint32_t)i), bt_div(outputs[0], temperature), ),
                            BT_I32),
                    &word, sizeof word);
            if (i + 1 >= given) text[i + 1] = c->of_word[word], text[i + 2] = '\0';
        }
    }
    for (int i = 2; i < INPUTS; i++) bt_assign(&state[i], NULL);
    return status;
}

/* --- the demonstration ---------------------------------------------------------------------------------------------- */

static double seconds_now(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static bt_status train_gpt(const corpus *c, bt_layer *model, const demo_options *chosen, bt_fit_report *report) {
    int epochs = chosen->epochs ? chosen->epochs : EPOCHS;
    bt_metric metrics[] = {bt_metric_perplexity()};
    bt_optimizer *optimizer = bt_adamw(2e-3, .decay = 0.05, .clip_norm = 1);
    bt_status status = bt_optimizer_schedule(optimizer, BT_SCHEDULE_COSINE, .last = 0.1, .warmup = 20,
                                             .steps = epochs * ((bt_size(c->train_x, 0) + BATCH - 1) / BATCH) + 21);
    bt_fit_options fit = {BT_FIT_INIT,
                          .epochs = epochs,
                          .batch = BATCH,
                          .loss = next_word_loss,
                          .validation_x = c->test_x,
                          .validation_y = c->test_y,
                          .metrics = metrics,
                          .metric_count = 1,
                          .report = chosen->report,
                          .quiet = chosen->quiet};
    return status == BT_OK ? bt_fit(model, optimizer, c->train_x, c->train_y, &fit, report) : status;
}

static int run_gpt(char **argv, const demo_options *chosen, corpus *c) {
    static const char start[] = "bt_array *";
    char text[PLACES + 1];
    bt_fit_report report;
    number_characters(c);
    if (!cut_windows(c)) return cli_error(argv, "the text cannot be prepared");
    bt_layer *model = make_gpt(c->words);
    if (bt_layer_status(model) != BT_OK) return cli_error(argv, "the model cannot be made");
    if (!chosen->quiet)
        printf("%lld characters of berth's reference, %d different ones; a GPT of %d blocks, %lld parameters\n",
               (long long)c->length, c->words, BLOCKS, (long long)bt_parameter_count(model));
    fflush(stdout);
    if (train_gpt(c, model, chosen, &report) != BT_OK) return cli_error(argv, "training failed");
    printf("%lld steps, loss %.4f, %.1f s\n", (long long)report.steps, report.last_loss, report.seconds);
    if (chosen->save && bt_save_model(chosen->save, model) != BT_OK)
        return cli_error(argv, "the model could not be saved");
    double begun = seconds_now();
    if (write_text(c, model, start, text) != BT_OK) return cli_error(argv, "no text can be written");
    printf("it writes, %.0f characters a second:\n\n%s\n", (PLACES - (double)strlen(start)) / (seconds_now() - begun),
           text);
    return CLI_OK;
}

int demo_run_gpt(char **argv, const demo_options *chosen) {
    corpus c = {.text = cli_pages_text()};
    if (!c.text) return cli_error(argv, "the text cannot be had");
    c.length = (int64_t)strlen(c.text);
    int code = run_gpt(argv, chosen, &c);
    free(c.text);
    return code;
}
