/* A character GPT: GPT-2 of examples/models, small. It is trained on windows of the text, and writes with a cache of keys and values: each character costs as much as one place. */
#include "cli/demo_gpt.h"

#include <models/gpt2.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "cli/cli.h"
#include "cli/reference.h"

enum { PLACES = 128, WIDTH = 160, HEADS = 5, BLOCKS = 4, BATCH = 16, BYTES = 256, EPOCHS = 6 };
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

/* --- training ------------------------------------------------------------------------------------------------------- */

static bt_array *next_word_loss(bt_layer *model, bt_array *x, bt_array *y, void *unused) {
    (void)unused;
    return bt_cross_entropy(bt_apply(model, x), y);
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

/* --- the demonstration ---------------------------------------------------------------------------------------------- */

/* Reads `start`, then writes until all places are full: text [PLACES + 1]. */
static bt_status write_text(const corpus *c, bt_layer *model, const gpt2_sizes *sizes, const char *start, char *text) {
    int32_t words[PLACES];
    int64_t written = 0, given = (int64_t)strlen(start);
    for (int64_t i = 0; i < given; i++) words[i] = c->word_of[(unsigned char)start[i]];
    gpt2_choice choice = {.temperature = temperature, .key = bt_key(5)};
    gpt2_reader *reader = gpt2_reader_new(model, sizes);
    if (!reader) return BT_RESOURCE_EXHAUSTED;
    bt_status status = gpt2_write(reader, &choice, words, given, PLACES, NULL, NULL, &written);
    gpt2_reader_free(reader);
    for (int64_t i = 0; i < written; i++) text[i] = c->of_word[words[i]];
    text[written] = '\0';
    return status;
}

static int run_gpt(char **argv, const demo_options *chosen, corpus *c) {
    static const char start[] = "bt_array *";
    char text[PLACES + 1];
    bt_fit_report report;
    number_characters(c);
    if (!cut_windows(c)) return cli_error(argv, "the text cannot be prepared");
    gpt2_sizes sizes = {c->words, PLACES, WIDTH, HEADS, BLOCKS};
    bt_layer *model = gpt2_new(&sizes, bt_key(0));
    if (bt_layer_status(model) != BT_OK) return cli_error(argv, "the model cannot be made");
    if (!chosen->quiet)
        printf("%lld characters of berth's reference, %d different ones; a GPT of %d blocks, %lld parameters\n",
               (long long)c->length, c->words, BLOCKS, (long long)bt_parameter_count(model));
    fflush(stdout);
    if (train_gpt(c, model, chosen, &report) != BT_OK) return cli_error(argv, "training failed");
    printf("%lld steps, loss %.4f, %.1f s\n", (long long)report.steps, report.last_loss, report.seconds);
    if (chosen->save && bt_save_model(chosen->save, model) != BT_OK)
        return cli_error(argv, "the model could not be saved");
    double begun = bti_now_seconds();
    if (write_text(c, model, &sizes, start, text) != BT_OK) return cli_error(argv, "no text can be written");
    printf("it writes, %.0f characters a second:\n\n%s\n",
           (PLACES - (double)strlen(start)) / (bti_now_seconds() - begun), text);
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
