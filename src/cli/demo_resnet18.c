#include "cli/demo_resnet18.h"

#include <errno.h>
#include <models/resnet18.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "cli/cli.h"
#include "cli/demo_small.h"
#include "cli/demo_image.h"

enum { SMALL_WIDTH = 8, SMALL_CLASSES = 10, BEST = 5, MOST_LABEL = 60 };

/* --- a file of our own ------------------------------------------------------------------------------------------------ */

/* The largest difference between the results of two models. */
static bt_status compare(bt_layer *a, bt_layer *b, bt_array *x, float *difference) {
    return bt_read(bt_max(bt_abs(bt_sub(bt_apply(a, x), bt_apply(b, x)))), difference, sizeof *difference);
}

static int save_and_load(char **argv, const char *path, bool quiet) {
    bt_layer *model = resnet18_new(SMALL_WIDTH, SMALL_CLASSES, bt_key(0)), *again;
    bt_array *x = bt_normal(bt_key(1), BT_F32, 2, 3, 64, 64);
    float difference;
    if (resnet18_save(path, model) != BT_OK) return cli_error(argv, "the model could not be saved");
    if (!quiet)
        printf("no --weights: a ResNet-18 of random weights and an eighth of the width, %lld parameters\n"
               "saved under torchvision's names (layer1.0.conv1.weight, ...) in %s\n",
               (long long)bt_parameter_count(model), path);
    if (resnet18_open(path, &again) != BT_OK || compare(model, again, x, &difference) != BT_OK)
        return cli_error(argv, "the saved model cannot be loaded");
    printf("loaded again: logits of two random images differ by %g\n", (double)difference);
    return difference == 0 ? CLI_OK : CLI_FAILED;
}

static int show_small(char **argv, const demo_options *chosen) {
    if (chosen->image || chosen->labels) return cli_misuse(argv, "--image and --labels need --weights");
    return demo_small_model(argv, chosen, "resnet18", save_and_load);
}

/* --- weights of a file ------------------------------------------------------------------------------------------------ */

/* Line `number` of the file of labels, from 0; "class 7" where there is none. */
static void label_of(FILE *labels, int number, char text[MOST_LABEL]) {
    snprintf(text, MOST_LABEL, "class %d", number);
    if (!labels) return;
    char *line = NULL;
    size_t room = 0;
    rewind(labels);
    for (int i = 0; i <= number; i++)
        if (getline(&line, &room, labels) < 0) {
            free(line);
            return;
        }
    line[strcspn(line, "\r\n")] = '\0';
    snprintf(text, MOST_LABEL, "%.*s", MOST_LABEL - 1, line);
    free(line);
}

static int print_best(char **argv, const demo_options *chosen, bt_array *logits) {
    int count = bt_size(logits, 1) < BEST ? (int)bt_size(logits, 1) : BEST;
    float shares[BEST];
    int32_t classes[BEST];
    bt_array *share = bt_softmax(bt_flatten(logits, 0), -1);
    if (bt_read(bt_top_k(share, count), shares, (size_t)count * sizeof *shares) != BT_OK ||
        bt_read(bt_top_k_indices(share, count), classes, (size_t)count * sizeof *classes) != BT_OK)
        return cli_error(argv, "the image cannot be classified");
    FILE *labels = chosen->labels ? fopen(chosen->labels, "r") : NULL;
    if (chosen->labels && !labels) return cli_failure(argv, chosen->labels);
    for (int i = 0; i < count; i++) {
        char label[MOST_LABEL];
        label_of(labels, classes[i], label);
        printf("%6.2f %%  %s\n", 100 * (double)shares[i], label);
    }
    if (labels) fclose(labels);
    return CLI_OK;
}

static int classify_image(char **argv, const demo_options *chosen, bt_layer *model) {
    bt_array *image =
        chosen->image ? demo_read_image(argv, chosen->image) : bt_normal(bt_key(0), BT_F32, 1, 3, 224, 224);
    if (!image) return CLI_FAILED;
    bt_layer *folded = bt_fold_norms(model); /* for inference: norms are parts of the convolutions */
    if (bt_block(image) != BT_OK || bt_block(bt_apply(folded, image)) != BT_OK)
        return cli_error(argv, "the image cannot be classified");
    double begun = bti_now_seconds();
    bt_array *logits = bt_apply(folded, image);
    if (bt_block(logits) != BT_OK) return cli_error(argv, "the image cannot be classified");
    if (!chosen->quiet)
        printf("%s of %lld x %lld pixels, forward in %s\n",
               chosen->image ? chosen->image : "no --image: random numbers", (long long)bt_size(image, 3),
               (long long)bt_size(image, 2), cli_time(bti_now_seconds() - begun));
    return print_best(argv, chosen, logits);
}

int demo_run_resnet18(char **argv, const demo_options *chosen) {
    bt_layer *model;
    if (!chosen->weights) return show_small(argv, chosen);
    double begun = bti_now_seconds();
    if (resnet18_open(chosen->weights, &model) != BT_OK) return cli_error(argv, "the weights cannot be loaded");
    if (!chosen->quiet)
        printf("%s: ResNet-18, %lld parameters, loaded in %s\n", chosen->weights, (long long)bt_parameter_count(model),
               cli_time(bti_now_seconds() - begun));
    if (chosen->save && resnet18_save(chosen->save, model) != BT_OK)
        return cli_error(argv, "the model could not be saved");
    return classify_image(argv, chosen, model);
}
