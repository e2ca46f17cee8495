/* What the checks of models ask for, one command a line of arguments:
 *   models resnet18 WEIGHTS IMAGES.npy LOGITS.npy [SAVED]     SAVED: the model again, under torchvision's names
 *   models gpt2 WEIGHTS HEADS WORDS.npy LOGITS.npy [SAVED]    WORDS: int32 [B, T]; HEADS 0: by the width
 *   models write WEIGHTS HEADS END WORDS.npy WRITTEN.npy      the likeliest words behind WORDS [1, T], END in all, with a cache
 *   models tokens FOLDER                                      texts of standard input, each with a NUL behind it: a line of numbers each
 * Errors go to standard error. */
#include <models/bpe.h>
#include <models/gpt2.h>
#include <models/resnet18.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int failed(const char *why) {
    fprintf(stderr, "%s\n", why);
    return 1;
}

static int save_logits(bt_layer *model, bt_array *x, const char *path) {
    return bt_save_npy(path, bt_apply(model, x)) == BT_OK ? 0 : failed(bt_error_text());
}

static int run_resnet18(int count, char **args) {
    bt_layer *model;
    if (resnet18_open(args[0], &model) != BT_OK) return failed(bt_error_text());
    if (count > 3 && resnet18_save(args[3], model) != BT_OK) return failed(bt_error_text());
    return save_logits(bt_fold_norms(model), bt_load_npy(args[1]), args[2]);
}

static bool open_gpt2(const char *path, const char *heads, gpt2_sizes *sizes, bt_layer **model) {
    if (gpt2_sizes_in(path, sizes) != BT_OK) return false;
    if (atoi(heads)) sizes->heads = atoi(heads);
    return gpt2_open(path, sizes, model) == BT_OK;
}

static int run_gpt2(int count, char **args) {
    gpt2_sizes sizes;
    bt_layer *model;
    if (!open_gpt2(args[0], args[1], &sizes, &model)) return failed(bt_error_text());
    if (count > 4 && gpt2_save(args[4], model) != BT_OK) return failed(bt_error_text());
    return save_logits(model, bt_load_npy(args[2]), args[3]);
}

static int run_write(int count, char **args) {
    gpt2_sizes sizes;
    gpt2_choice likely = {0};
    bt_layer *model;
    if (!open_gpt2(args[0], args[1], &sizes, &model)) return failed(bt_error_text());
    bt_array *given = bt_load_npy(args[3]);
    int64_t end = atoi(args[2]), written = 0;
    int32_t *words = calloc((size_t)end, sizeof *words);
    gpt2_reader *reader = gpt2_reader_new(model, &sizes);
    bt_status status =
        words && reader ? bt_read(given, words, (size_t)bt_count(given) * sizeof *words) : BT_RESOURCE_EXHAUSTED;
    if (status == BT_OK) status = gpt2_write(reader, &likely, words, bt_count(given), end, NULL, NULL, &written);
    if (status == BT_OK) status = bt_save_npy(args[4], bt_from(words, BT_I32, BT_SHAPE(1, written)));
    gpt2_reader_free(reader);
    free(words);
    return status == BT_OK ? 0 : failed(bt_error_text());
}

static int run_tokens(int count, char **args) {
    char why[BPE_WHY], *text = NULL;
    size_t room = 0;
    bpe *tokenizer = bpe_open(args[0], why);
    if (!tokenizer) return failed(why);
    for (ssize_t length; (length = getdelim(&text, &room, 0, stdin)) > 0;) {
        int32_t *words;
        size_t found, at = 0;
        if (!text[length - 1]) length--;
        if (!bpe_encode(tokenizer, text, (size_t)length, &words, &found)) return failed("out of memory");
        for (size_t i = 0; i < found; i++) {
            size_t bytes;
            const char *word = bpe_word(tokenizer, words[i], &bytes);
            if (memcmp(word, text + at, bytes)) return failed("the words are not the text");
            at += bytes;
            printf("%d ", words[i]);
        }
        if (at != (size_t)length) return failed("the words are not all of the text");
        printf("\n");
        free(words);
    }
    free(text);
    bpe_free(tokenizer);
    return 0;
}

static const struct {
    const char *name;
    int (*run)(int count, char **args);
    int least;
} commands[] = {
    {"resnet18", run_resnet18, 3}, {"gpt2", run_gpt2, 4}, {"write", run_write, 5}, {"tokens", run_tokens, 1}};

int main(int argc, char **argv) {
    int code = 2;
    for (size_t i = 0; argc > 1 && i < sizeof commands / sizeof *commands; i++)
        if (!strcmp(argv[1], commands[i].name) && argc - 2 >= commands[i].least)
            BT_SCOPE
                code = commands[i].run(argc - 2, argv + 2);
    if (bt_live_arrays() && !code) return failed("arrays are left");
    return bt_shutdown() == BT_OK || code ? code : 1;
}
