/* `berth demo`: trains a classifier of handwritten digits on all accelerators, saves it, loads it again and uses it. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/demo_gpt.h"
#include "cli/demo_gpt2.h"
#include "cli/demo_models.h"
#include "cli/demo_resnet18.h"

#define LEAST_ACCURACY 0.90
enum { SIMULATED_DEVICES = 4, CLASSES = 10, PIXELS = 64, DIGITS_SHOWN = 4, USUAL_EPOCHS = 40 };

/* --- the devices ---------------------------------------------------------------------------------------------------- */

/* A strategy over the TPUs, else the GPUs, else simulated GPUs. NULL with the cause in the error record. */
static bt_strategy *choose_devices(const demo_options *chosen) {
    bt_device *devices[DEMO_MOST_DEVICES];
    const char *names[DEMO_MOST_DEVICES];
    int count = bt_device_list(BT_TPU, devices, DEMO_MOST_DEVICES);
    if (!count) count = bt_device_list(BT_GPU, devices, DEMO_MOST_DEVICES);
    if (!count) {
        char simulated[32];
        int wanted = chosen->devices ? chosen->devices : SIMULATED_DEVICES;
        snprintf(simulated, sizeof simulated, "sim:gpu*%d", wanted);
        if (bt_set_devices(simulated) != BT_OK) return NULL;
        count = bt_device_list(BT_GPU, devices, DEMO_MOST_DEVICES);
        if (!count)
            printf("no accelerator found, and CUDA_VISIBLE_DEVICES hides simulated GPUs: only the CPU is used\n");
        else
            printf("no accelerator found: using %d simulated GPU%s\n", count, count == 1 ? "" : "s");
    }
    if (!count) count = bt_device_list(BT_CPU, devices, DEMO_MOST_DEVICES);
    if (chosen->devices && chosen->devices < count) count = chosen->devices;
    if (count > DEMO_MOST_DEVICES) count = DEMO_MOST_DEVICES;
    if (chosen->devices > count) printf("there are %d devices, not %d\n", count, chosen->devices);
    for (int i = 0; i < count; i++) names[i] = bt_device_name(devices[i]);
    return bt_mirrored(names, count);
}

/* --- the model ------------------------------------------------------------------------------------------------------ */

/* [B, 64] pixels -> [B, 10] logits */
static bt_layer *make_model(int64_t seed) {
    bt_array *keys = bt_split(bt_key(seed), 2);
    return bt_chain(bt_dense(64, 128, bt_relu, bt_split_at(keys, 0)),
                    bt_dense(128, CLASSES, NULL, bt_split_at(keys, 1)));
}

/* Cross-entropy with label smoothing: the target is 0.82 for the digit and 0.02 for each other one. It improves the accuracy on handwriting
 * that is not in the training data (Szegedy et al. 2016). */
static bt_array *smoothed_loss(bt_layer *model, bt_array *x, bt_array *y, void *unused) {
    (void)unused;
    bt_array *targets = bt_add(bt_mul(bt_one_hot(y, CLASSES, BT_F32), bt_num(0.8)), bt_num(0.2 / CLASSES));
    return bt_cross_entropy(bt_apply(model, x), targets);
}

/* Trains in about four rounds, each with a progress bar (on terminals) and a line of output. */
static bt_status train_model(bt_strategy *strategy, bt_layer *model, const demo_digits *digits,
                             const demo_options *chosen) {
    bt_optimizer *optimizer = bt_momentum(0.2, 0.9, NULL);
    bt_fit_report report;
    bt_status status = BT_OK;
    int epochs = chosen->epochs ? chosen->epochs : USUAL_EPOCHS, round = (epochs + 3) / 4;
    for (int done = 0; done < epochs && status == BT_OK; done += round) {
        if (round > epochs - done) round = epochs - done;
        bt_fit_options fit = {BT_FIT_INIT,           .epochs = round,       .batch = 128,
                              .strategy = strategy,  .loss = smoothed_loss, .seed = (uint64_t)done,
                              .quiet = chosen->quiet};
        status = bt_fit(model, optimizer, digits->train_x, digits->train_y, &fit, &report);
        if (status == BT_OK && !chosen->quiet)
            printf("epochs %d to %d: loss %.4f, %.1f s\n", done + 1, done + round, report.last_loss, report.seconds);
        fflush(stdout);
    }
    return status;
}

/* --- output --------------------------------------------------------------------------------------------------------- */

/* A table of the devices of the strategy: bytes copied to and from them, and their memory. */
static void print_devices(bt_strategy *strategy) {
    cli_table table = {.columns = 6, .right = 074};
    cli_table_row(&table, "DEVICE", "DESCRIPTION", "MOVED IN", "MOVED OUT", "MEMORY", "PEAK");
    for (int i = 0; i < bt_strategy_count(strategy); i++) {
        bt_device *device = bt_strategy_device(strategy, i);
        bt_memory_info memory = BT_MEMORY_INFO_INIT;
        if (bt_memory(device, &memory) != BT_OK) continue;
        cli_table_row(&table, bt_device_name(device), bt_device_description(device), cli_bytes(memory.copied_in, "0 B"),
                      cli_bytes(memory.copied_out, "0 B"), cli_bytes(memory.used, "0 B"),
                      cli_bytes(memory.peak, "0 B"));
    }
    cli_table_print(&table);
}

/* The first digits; the last of them is replaced by the first wrong prediction, if there is one. */
static int choose_digits(const demo_digits *digits, const int32_t *guesses, const int32_t *truth,
                         int64_t chosen[DIGITS_SHOWN]) {
    int count = 0;
    for (int64_t i = 0; i < digits->test_count && count < DIGITS_SHOWN; i++) chosen[count++] = i;
    for (int64_t i = DIGITS_SHOWN; count == DIGITS_SHOWN && i < digits->test_count; i++)
        if (guesses[i] != truth[i]) {
            chosen[DIGITS_SHOWN - 1] = i;
            break;
        }
    return count;
}

/* Some held-out digits as text, with the predictions: guesses [M] and truth [M]. */
static bt_status print_digits(const demo_digits *digits, const int32_t *guesses, const int32_t *truth) {
    int64_t chosen[DIGITS_SHOWN];
    int count = choose_digits(digits, guesses, truth, chosen);
    const float *pixels = bt_map(digits->test_x); /* [M, 64] */
    if (!pixels) return bt_error_status();
    float shown[DIGITS_SHOWN * PIXELS];
    for (int i = 0; i < count; i++) memcpy(shown + i * PIXELS, pixels + chosen[i] * PIXELS, PIXELS * sizeof *shown);
    demo_print_pictures(shown, count);
    for (int i = 0; i < count; i++) {
        int guess = guesses[chosen[i]], is = truth[chosen[i]];
        printf("  %spredicted %d%s, is %d ", cli_begin(stdout, guess == is ? CLI_GOOD : CLI_BAD), guess,
               cli_end(stdout), is);
    }
    printf("\n");
    return BT_OK;
}

/* --- the file ------------------------------------------------------------------------------------------------------- */

/* Saves the model. When no path was given and the default cannot be written, it is saved in a new temporary folder. `path` receives where. */
static bt_status save_model(char **argv, const bt_layer *model, const demo_options *chosen, char *path, size_t size) {
    snprintf(path, size, "%s", chosen->save ? chosen->save : "digits.safetensors");
    bt_status status = bt_save_model(path, model);
    if (status == BT_OK || chosen->save) return status;
    char folder[1024];
    if (!cli_temporary_folder(folder, sizeof folder)) return status;
    cli_error(argv, "not saved here");
    snprintf(path, size, "%s/digits.safetensors", folder);
    return bt_save_model(path, model);
}

/* The class that the model predicts for each row of x: [M], freed by the caller; NULL with the cause in the error record. */
static int32_t *classify(bt_layer *model, bt_array *x, int64_t count) {
    size_t bytes = (size_t)count * sizeof(int32_t);
    int32_t *classes = malloc(bytes);
    if (classes && bt_read(bt_argmax(bt_apply(model, x), -1), classes, bytes) == BT_OK) return classes;
    free(classes);
    return NULL;
}

/* A new model on the CPU, loaded from the file, must have the accuracy of the trained one on the held-out digits. */
static int check_saved_model(char **argv, const char *path, const demo_digits *digits, double accuracy, bool quiet) {
    bt_layer *fresh = NULL;
    BT_ON("cpu") fresh = make_model(1);
    if (bt_load_model(path, fresh) != BT_OK) return cli_error(argv, "the saved model cannot be loaded");
    int code = CLI_OK;
    bt_array *x = bt_cpu(digits->test_x), *y = bt_cpu(digits->test_y);
    int32_t *guesses = classify(fresh, x, digits->test_count);
    const int32_t *truth = bt_map(y);
    double again = bt_accuracy(fresh, x, y);
    if (!guesses || !truth || isnan(again))
        code = cli_error(argv, "the loaded model does not work");
    else if (fabs(again - accuracy) > 0.01)
        fprintf(stderr, "%s: the loaded model has an accuracy of %.1f %%, not %.1f %%\n", argv[0], 100 * again,
                100 * accuracy),
            code = CLI_FAILED;
    else if (!quiet && (printf("loaded on the CPU, it predicts for held-out digits:\n\n"),
                        print_digits(digits, guesses, truth) != BT_OK))
        code = cli_error(argv, "the digits cannot be printed");
    free(guesses);
    return code;
}

/* --- all steps ------------------------------------------------------------------------------------------------------ */

static int train_and_save(char **argv, bt_strategy *strategy, bt_layer *model, const demo_digits *digits,
                          const demo_options *chosen) {
    char path[1100];
    if (train_model(strategy, model, digits, chosen) != BT_OK) return cli_error(argv, "training failed");
    double accuracy = bt_accuracy(model, digits->test_x, digits->test_y);
    if (isnan(accuracy)) return cli_error(argv, "the accuracy cannot be computed");
    if (!chosen->quiet) {
        printf("\n");
        print_devices(strategy);
        printf("\n");
    }
    bool good = accuracy >= LEAST_ACCURACY;
    printf("accuracy on %lld held-out digits: %s%.1f %%%s\n", (long long)digits->test_count,
           cli_begin(stdout, good ? CLI_GOOD : CLI_BAD), 100 * accuracy, cli_end(stdout));
    if (save_model(argv, model, chosen, path, sizeof path) != BT_OK)
        return cli_error(argv, "the model could not be saved");
    printf("saved in %s\n", path);
    int code = check_saved_model(argv, path, digits, accuracy, chosen->quiet);
    if (good) return code;
    fflush(stdout);
    fprintf(stderr, "%s: the accuracy is below %.1f %%; more --epochs may help\n", argv[0], 100 * LEAST_ACCURACY);
    return CLI_FAILED;
}

static int run_demo(char **argv, bt_strategy *strategy, const demo_options *chosen) {
    demo_digits digits;
    bt_layer *model = NULL;
    if (!demo_load_digits(argv, chosen->data, &digits)) return CLI_FAILED;
    BT_STRATEGY(strategy) model = make_model(0);
    if (bt_layer_status(model) != BT_OK) return cli_error(argv, "the model cannot be made");
    if (!chosen->quiet) {
        char *summary = bt_summary(model);
        printf("%lld digits for training, %lld held out; %d device%s\n%s\n", (long long)digits.train_count,
               (long long)digits.test_count, bt_strategy_count(strategy), bt_strategy_count(strategy) == 1 ? "" : "s",
               summary ? summary : "");
        bt_free(summary);
        fflush(stdout);
    }
    return train_and_save(argv, strategy, model, &digits, chosen);
}

static int run_model(char **argv, const demo_options *chosen) {
    demo_digits digits;
    return demo_load_digits(argv, chosen->data, &digits) ? demo_run_model(argv, chosen, &digits) : CLI_FAILED;
}

static int run_on_all(char **argv, const demo_options *chosen) {
    bt_strategy *strategy = choose_devices(chosen);
    return strategy && bt_strategy_status(strategy) == BT_OK ? run_demo(argv, strategy, chosen)
                                                             : cli_error(argv, "no devices to train on");
}

static int run_kind(char **argv, const demo_options *chosen) {
    switch (chosen->kind) {
    case DEMO_MODEL: return run_model(argv, chosen);
    case DEMO_GPT: return demo_run_gpt(argv, chosen);
    case DEMO_RESNET18: return demo_run_resnet18(argv, chosen);
    case DEMO_GPT2: return demo_run_gpt2(argv, chosen);
    default: return run_on_all(argv, chosen);
    }
}

int cli_demo(int argc, char **argv) {
    demo_options chosen = {0};
    int code = demo_read_options(argc, argv, &chosen);
    if (code != CLI_OK) return code;
    if (!cli_settings_good(argv)) return CLI_FAILED;
    BT_SCOPE {
        code = run_kind(argv, &chosen);
    }
    return bt_shutdown() == BT_OK ? code : cli_error(argv, "the devices cannot be closed");
}
