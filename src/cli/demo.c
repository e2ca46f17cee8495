/* `berth demo`: a classifier of handwritten digits, trained on all accelerators at once, saved, read back, asked. */
#include "cli/demo.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define MUST_REACH 0.90
enum { STAND_INS = 4, MAX_DEVICES = 64, CLASSES = 10 };

typedef struct options {
    int devices, epochs; /* devices 0: all */
    const char *data, *save;
    bool quiet;
} options;

static int read_options(int argc, char **argv, options *out) {
    static const struct option known[] = {
        {"devices", required_argument, NULL, 'd'}, {"epochs", required_argument, NULL, 'e'},
        {"data", required_argument, NULL, 'f'},    {"save", required_argument, NULL, 's'},
        {"quiet", no_argument, NULL, 'q'},         {0}};
    for (int option; (option = cli_option(argc, argv, known)) != -1;) switch (option) {
        case 'd':
            if (!cli_number(argv, "--devices", optarg, 1, MAX_DEVICES, &out->devices)) return CLI_USAGE;
            break;
        case 'e':
            if (!cli_number(argv, "--epochs", optarg, 1, 10000, &out->epochs)) return CLI_USAGE;
            break;
        case 'f': out->data = optarg; break;
        case 's': out->save = optarg; break;
        case 'q': out->quiet = true; break;
        default: return CLI_USAGE;
        }
    return cli_no_more(argc, argv) ? CLI_OK : CLI_USAGE;
}

/* --- the devices ---------------------------------------------------------------------------------------------------- */

/* One model over the TPUs, else the GPUs, else simulated GPUs in their place. NULL with the cause in the error record. */
static bt_strategy *choose_devices(const options *chosen) {
    bt_device *devices[MAX_DEVICES];
    const char *names[MAX_DEVICES];
    int count = bt_device_list(BT_TPU, devices, MAX_DEVICES);
    if (!count) count = bt_device_list(BT_GPU, devices, MAX_DEVICES);
    if (!count) {
        char simulated[32];
        int wanted = chosen->devices ? chosen->devices : STAND_INS;
        snprintf(simulated, sizeof simulated, "sim:gpu*%d", wanted);
        if (bt_set_devices(simulated) != BT_OK) return NULL;
        count = bt_device_list(BT_GPU, devices, MAX_DEVICES);
        if (!count)
            printf("no accelerator here, and CUDA_VISIBLE_DEVICES hides simulated ones: the CPU works alone\n");
        else if (count == STAND_INS)
            printf("no accelerator here: four simulated GPUs stand in\n");
        else
            printf("no accelerator here: %d simulated GPU%s in\n", count, count == 1 ? " stands" : "s stand");
    }
    if (!count) count = bt_device_list(BT_CPU, devices, MAX_DEVICES);
    if (chosen->devices && chosen->devices < count) count = chosen->devices;
    if (count > MAX_DEVICES) count = MAX_DEVICES;
    if (chosen->devices > count) printf("of %d devices wanted there are %d\n", chosen->devices, count);
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

/* Cross-entropy with softened targets, 0.82 for the digit and 0.02 for each other one: helps with the handwriting of people
 * that the model has not seen (Szegedy et al. 2016, label smoothing). */
static bt_array *softened_loss(bt_layer *model, bt_array *x, bt_array *y, void *unused) {
    (void)unused;
    bt_array *targets = bt_add(bt_mul(bt_one_hot(y, CLASSES, BT_F32), bt_num(0.8)), bt_num(0.2 / CLASSES));
    return bt_cross_entropy(bt_apply(model, x), targets);
}

/* In about four rounds, with a progress bar (on terminals) and a line for each. */
static bt_status train(bt_strategy *strategy, bt_layer *model, const demo_digits *digits, const options *chosen) {
    bt_optimizer *optimizer = bt_momentum(0.2, 0.9);
    bt_fit_report report;
    bt_status status = BT_OK;
    int round = (chosen->epochs + 3) / 4;
    for (int done = 0; done < chosen->epochs && status == BT_OK; done += round) {
        if (round > chosen->epochs - done) round = chosen->epochs - done;
        bt_fit_options fit = {BT_FIT_INIT,           .epochs = round,       .batch = 128,
                              .strategy = strategy,  .loss = softened_loss, .seed = (uint64_t)done,
                              .quiet = chosen->quiet};
        status = bt_fit(model, optimizer, digits->train_x, digits->train_y, &fit, &report);
        if (status == BT_OK && !chosen->quiet)
            printf("epochs %d to %d: loss %.4f, %.1f s\n", done + 1, done + round, report.last_loss, report.seconds);
        fflush(stdout);
    }
    return status;
}

/* --- the file ------------------------------------------------------------------------------------------------------- */

/* Where the model is saved: the path wanted, or, when that was only the default and cannot be written, a new folder for
 * temporary files. */
static bt_status save(char **argv, const bt_layer *model, const options *chosen, char *path, size_t size) {
    snprintf(path, size, "%s", chosen->save ? chosen->save : "digits.safetensors");
    bt_status status = bt_save_model(path, model);
    if (status == BT_OK || chosen->save) return status;
    const char *temporary = getenv("TMPDIR");
    char folder[1024];
    snprintf(folder, sizeof folder, "%s/berth-XXXXXX", temporary && *temporary ? temporary : "/tmp");
    if (!mkdtemp(folder)) return status;
    cli_error(argv, "not saved here");
    snprintf(path, size, "%s/digits.safetensors", folder);
    return bt_save_model(path, model);
}

/* What the model takes each row of x for: [M], yours to free; NULL with the cause in the error record. */
static int32_t *classify(bt_layer *model, bt_array *x, int64_t count) {
    size_t bytes = (size_t)count * sizeof(int32_t);
    int32_t *classes = malloc(bytes);
    if (classes && bt_read(bt_argmax(bt_apply(model, x), -1), classes, bytes) == BT_OK) return classes;
    free(classes);
    return NULL;
}

/* A fresh model on the CPU, filled from the file, must read the held-out digits as the trained one did. */
static int read_back(char **argv, const char *path, const demo_digits *digits, double accuracy, bool quiet) {
    bt_layer *fresh = NULL;
    BT_ON("cpu") fresh = make_model(1);
    if (bt_load_model(path, fresh) != BT_OK) return cli_error(argv, "the model could not be read back");
    int code = CLI_OK;
    bt_array *x = bt_cpu(digits->test_x), *y = bt_cpu(digits->test_y);
    int32_t *guesses = classify(fresh, x, digits->test_count);
    const int32_t *truth = bt_map(y);
    double again = bt_accuracy(fresh, x, y);
    if (!guesses || !truth || isnan(again))
        code = cli_error(argv, "the model that was read back does not work");
    else if (fabs(again - accuracy) > 0.01)
        fprintf(stderr, "%s: read back, the model reads %.1f %% right, not %.1f %%\n", argv[0], 100 * again,
                100 * accuracy),
            code = CLI_FAILED;
    else if (!quiet && (printf("read back on the CPU, it says of held-out digits:\n\n"),
                        demo_print_digits(digits, guesses, truth) != BT_OK))
        code = cli_error(argv, "the digits cannot be drawn");
    free(guesses);
    return code;
}

/* --- the whole ------------------------------------------------------------------------------------------------------ */

static int with_model(char **argv, bt_strategy *strategy, bt_layer *model, const demo_digits *digits,
                      const options *chosen) {
    char path[1100];
    if (train(strategy, model, digits, chosen) != BT_OK) return cli_error(argv, "training failed");
    double accuracy = bt_accuracy(model, digits->test_x, digits->test_y);
    if (isnan(accuracy)) return cli_error(argv, "the accuracy cannot be had");
    if (!chosen->quiet) {
        printf("\n");
        demo_print_devices(strategy);
        printf("\n");
    }
    bool good = accuracy >= MUST_REACH;
    printf("accuracy on %lld held-out digits: %s%.1f %%%s\n", (long long)digits->test_count,
           cli_begin(stdout, good ? CLI_GOOD : CLI_BAD), 100 * accuracy, cli_end(stdout));
    if (save(argv, model, chosen, path, sizeof path) != BT_OK) return cli_error(argv, "the model could not be saved");
    printf("saved in %s\n", path);
    int code = read_back(argv, path, digits, accuracy, chosen->quiet);
    if (good) return code;
    fflush(stdout);
    fprintf(stderr, "%s: %.1f %% was to be reached; more --epochs may help\n", argv[0], 100 * MUST_REACH);
    return CLI_FAILED;
}

static int with_devices(char **argv, bt_strategy *strategy, const options *chosen) {
    demo_digits digits;
    bt_layer *model = NULL;
    if (!demo_load_digits(argv, chosen->data, &digits)) return CLI_FAILED;
    BT_STRATEGY(strategy) model = make_model(0);
    if (bt_layer_status(model) != BT_OK) return cli_error(argv, "the model cannot be made");
    if (!chosen->quiet) {
        char *summary = bt_summary(model);
        printf("%lld digits to learn from, %lld held out; %d device%s\n%s\n", (long long)digits.train_count,
               (long long)digits.test_count, bt_strategy_count(strategy), bt_strategy_count(strategy) == 1 ? "" : "s",
               summary ? summary : "");
        bt_free(summary);
        fflush(stdout);
    }
    return with_model(argv, strategy, model, &digits, chosen);
}

int cli_demo(int argc, char **argv) {
    options chosen = {.epochs = 40};
    int code = read_options(argc, argv, &chosen);
    if (code != CLI_OK) return code;
    if (!cli_settings_good(argv)) return CLI_FAILED;
    BT_SCOPE {
        bt_strategy *strategy = choose_devices(&chosen);
        code = strategy && bt_strategy_status(strategy) == BT_OK ? with_devices(argv, strategy, &chosen)
                                                                 : cli_error(argv, "no devices to train on");
    }
    return bt_shutdown() == BT_OK ? code : cli_error(argv, "the devices cannot be closed");
}
