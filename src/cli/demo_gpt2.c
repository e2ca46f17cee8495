#include "cli/demo_gpt2.h"

#include <libgen.h>
#include <models/bpe.h>
#include <models/gpt2.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "cli/cli.h"
#include "cli/demo_small.h"

enum { USUAL_TOKENS = 40, SMALL_WRITTEN = 16, SMALL_GIVEN = 4 };
static const char usual_prompt[] = "The array is", end_of_text[] = "<|endoftext|>";

/* --- a file of our own ------------------------------------------------------------------------------------------------ */

/* The words that a model finds most likely, each by a forward pass over all words before it: [1, SMALL_WRITTEN]. */
static bt_status write_without_cache(bt_layer *model, int32_t *words) {
    bt_status status = BT_OK;
    for (int64_t i = SMALL_GIVEN; i < SMALL_WRITTEN && status == BT_OK; i++)
        BT_SCOPE {
            bt_array *logits = bt_apply(model, bt_from(words, BT_I32, BT_SHAPE(1, i)));
            bt_array *next = bt_argmax(bt_flatten(bt_index(logits, 1, -1), 0), 0);
            status = bt_read(bt_cast(next, BT_I32), &words[i], sizeof *words);
        }
    return status;
}

static bt_status write_with_cache(bt_layer *model, const gpt2_sizes *sizes, int32_t *words) {
    int64_t written;
    gpt2_choice likely = {0};
    gpt2_reader *reader = gpt2_reader_new(model, sizes);
    if (!reader) return BT_RESOURCE_EXHAUSTED;
    bt_status status = gpt2_write(reader, &likely, words, SMALL_GIVEN, SMALL_WRITTEN, NULL, NULL, &written);
    gpt2_reader_free(reader);
    return status;
}

static int compare_small(char **argv, bt_layer *model, bt_layer *again, const gpt2_sizes *sizes) {
    int32_t words[SMALL_WRITTEN] = {7, 70, 17, 71}, cached[SMALL_WRITTEN] = {7, 70, 17, 71};
    float difference;
    if (write_without_cache(model, words) != BT_OK || write_with_cache(again, sizes, cached) != BT_OK)
        return cli_error(argv, "no words can be written");
    bt_array *read = bt_from(words, BT_I32, BT_SHAPE(1, SMALL_WRITTEN));
    if (bt_read(bt_max(bt_abs(bt_sub(bt_apply(model, read), bt_apply(again, read)))), &difference, sizeof difference) !=
        BT_OK)
        return cli_error(argv, "the saved model does not work");
    bool same = !memcmp(words, cached, sizeof words);
    printf("loaded again: logits of %d words differ by %g\n", SMALL_WRITTEN, (double)difference);
    printf("the %d words that it writes are %s with a cache of keys and values (random weights write no text):\n ",
           SMALL_WRITTEN - SMALL_GIVEN, same ? "the same" : "OTHERS");
    for (int i = 0; i < SMALL_WRITTEN; i++) printf(" %d", cached[i]);
    printf("\n");
    return same && difference == 0 ? CLI_OK : CLI_FAILED;
}

static int save_and_load(char **argv, const char *path, bool quiet) {
    gpt2_sizes sizes = {.words = 512, .places = 64, .width = 64, .heads = 4, .blocks = 3};
    bt_layer *model = gpt2_new(&sizes, bt_key(0)), *again;
    if (gpt2_save(path, model) != BT_OK) return cli_error(argv, "the model could not be saved");
    if (!quiet)
        printf("no --weights: a GPT-2 of random weights, 3 blocks of width 64, %lld parameters\n"
               "saved under Hugging Face's names (transformer.h.0.attn.c_attn.weight, ...) in %s\n",
               (long long)bt_parameter_count(model), path);
    if (gpt2_open(path, &sizes, &again) != BT_OK) return cli_error(argv, "the saved model cannot be loaded");
    return compare_small(argv, model, again, &sizes);
}

static int show_small(char **argv, const demo_options *chosen) {
    if (chosen->prompt || chosen->tokens || chosen->heads)
        return cli_misuse(argv, "--prompt, --tokens and --heads need --weights");
    return demo_small_model(argv, chosen, "gpt2", save_and_load);
}

/* --- weights of a file ------------------------------------------------------------------------------------------------ */

typedef struct writing {
    const bpe *tokenizer;
    int32_t end;               /* of the text; -1: none */
    double begun, first, last; /* seconds */
    int64_t count;
} writing;

static bool print_word(int32_t word, void *data) {
    writing *w = data;
    size_t length;
    const char *bytes = bpe_word(w->tokenizer, word, &length);
    w->last = bti_now_seconds();
    if (!w->count++) w->first = w->last;
    if (word == w->end) return false;
    if (bytes) fwrite(bytes, 1, length, stdout);
    fflush(stdout);
    return true;
}

/* The prompt's words, with room for `more`; NULL: printed. */
static int32_t *take_prompt(char **argv, const demo_options *chosen, const bpe *tokenizer, const gpt2_sizes *sizes,
                            int64_t more, int64_t *count) {
    const char *prompt = chosen->prompt ? chosen->prompt : usual_prompt;
    int32_t *words, *roomy = NULL;
    size_t given;
    if (!*prompt) prompt = end_of_text; /* what texts were divided by in training */
    if (!bpe_encode(tokenizer, prompt, strlen(prompt), &words, &given))
        fprintf(stderr, "%s: out of memory\n", argv[0]);
    else if (given >= (size_t)sizes->places)
        fprintf(stderr, "%s: the prompt has %zu tokens; the model has %lld places, one of which is to be written\n",
                argv[0], given, (long long)sizes->places);
    else if (!(roomy = realloc(words, (given + (size_t)more) * sizeof *words)))
        fprintf(stderr, "%s: out of memory\n", argv[0]);
    if (!roomy) free(words);
    *count = (int64_t)given;
    return roomy;
}

static int write_behind(char **argv, const demo_options *chosen, const bpe *tokenizer, bt_layer *model,
                        const gpt2_sizes *sizes) {
    int64_t more = chosen->tokens ? chosen->tokens : USUAL_TOKENS, given, written = 0;
    int32_t *words = take_prompt(argv, chosen, tokenizer, sizes, more, &given);
    if (!words) return CLI_FAILED;
    writing w = {.tokenizer = tokenizer, .end = bpe_find(tokenizer, end_of_text, sizeof end_of_text - 1)};
    gpt2_choice choice = {.temperature = chosen->temperature, .best = 50, .key = bt_key(chosen->seed)};
    gpt2_reader *reader = gpt2_reader_new(model, sizes);
    int64_t end = given + more < sizes->places ? given + more : sizes->places;
    printf("%s", chosen->prompt ? chosen->prompt : usual_prompt);
    w.begun = bti_now_seconds();
    bt_status status =
        reader ? gpt2_write(reader, &choice, words, given, end, print_word, &w, &written) : BT_RESOURCE_EXHAUSTED;
    printf("\n");
    gpt2_reader_free(reader);
    free(words);
    if (status != BT_OK) return cli_error(argv, "no text can be written");
    if (!chosen->quiet)
        printf("\n%lld tokens read and the first one written in %s, %lld more in %s each%s\n", (long long)given,
               cli_time(w.first - w.begun), (long long)w.count - 1,
               cli_time(w.count > 1 ? (w.last - w.first) / (double)(w.count - 1) : 0),
               given + more > sizes->places && w.count == end - given ? "; all places are full" : "");
    return CLI_OK;
}

static int load_and_write(char **argv, const demo_options *chosen, const bpe *tokenizer, const gpt2_sizes *sizes) {
    bt_layer *model;
    double begun = bti_now_seconds();
    if (gpt2_open(chosen->weights, sizes, &model) != BT_OK) return cli_error(argv, "the weights cannot be loaded");
    if (!chosen->quiet)
        printf("%s: GPT-2 of %lld blocks of width %lld, %lld heads, %lld parameters, loaded in %s\n\n", chosen->weights,
               (long long)sizes->blocks, (long long)sizes->width, (long long)sizes->heads,
               (long long)bt_parameter_count(model), cli_time(bti_now_seconds() - begun));
    if (chosen->save && gpt2_save(chosen->save, model) != BT_OK) return cli_error(argv, "the model could not be saved");
    return write_behind(argv, chosen, tokenizer, model, sizes);
}

/* Whether heads and words are those of the tensors. */
static bool sizes_fit(char **argv, const gpt2_sizes *sizes, const bpe *tokenizer) {
    if (sizes->width % sizes->heads)
        fprintf(stderr, "%s: %lld heads do not divide the width, %lld; --heads says how many there are\n", argv[0],
                (long long)sizes->heads, (long long)sizes->width);
    else if (sizes->words && bpe_count(tokenizer) > sizes->words)
        fprintf(stderr, "%s: the tokenizer has %d tokens, and the model %lld\n", argv[0], bpe_count(tokenizer),
                (long long)sizes->words);
    else
        return true;
    return false;
}

int demo_run_gpt2(char **argv, const demo_options *chosen) {
    char why[BPE_WHY], beside[4096];
    gpt2_sizes sizes;
    if (!chosen->weights) return show_small(argv, chosen);
    if (gpt2_sizes_in(chosen->weights, &sizes) != BT_OK) return cli_error(argv, "the weights cannot be loaded");
    if (chosen->heads) sizes.heads = chosen->heads;
    snprintf(beside, sizeof beside, "%s", chosen->weights);
    bpe *tokenizer = bpe_open(dirname(beside), why);
    if (!tokenizer) {
        fprintf(stderr, "%s: the tokenizer beside the weights (tokenizer.json, or vocab.json and merges.txt): %s\n",
                argv[0], why);
        return CLI_FAILED;
    }
    int code = sizes_fit(argv, &sizes, tokenizer) ? load_and_write(argv, chosen, tokenizer, &sizes) : CLI_FAILED;
    bpe_free(tokenizer);
    return code;
}
