#include "cli/demo_options.h"

#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"

enum { OF_FILES = DEMO_RESNET18 | DEMO_GPT2, TRAINED = DEMO_DIGITS | DEMO_MODEL | DEMO_GPT };
enum {
    BEGIN = 256,
    DEVICES = BEGIN,
    EPOCHS,
    DATA,
    SAVE,
    QUIET,
    REPORT,
    WEIGHTS,
    IMAGE,
    LABELS,
    PROMPT,
    TOKENS,
    HEADS,
    TEMPERATURE,
    SEED,
    END
};

static const struct option known[] = {{"devices", required_argument, NULL, DEVICES},
                                      {"epochs", required_argument, NULL, EPOCHS},
                                      {"data", required_argument, NULL, DATA},
                                      {"save", required_argument, NULL, SAVE},
                                      {"quiet", no_argument, NULL, QUIET},
                                      {"report", required_argument, NULL, REPORT},
                                      {"weights", required_argument, NULL, WEIGHTS},
                                      {"image", required_argument, NULL, IMAGE},
                                      {"labels", required_argument, NULL, LABELS},
                                      {"prompt", required_argument, NULL, PROMPT},
                                      {"tokens", required_argument, NULL, TOKENS},
                                      {"heads", required_argument, NULL, HEADS},
                                      {"temperature", required_argument, NULL, TEMPERATURE},
                                      {"seed", required_argument, NULL, SEED},
                                      {0}};

/* By option: the kinds that take it. */
static const int takers[END - BEGIN] = {[DEVICES - BEGIN] = DEMO_DIGITS,
                                        [EPOCHS - BEGIN] = TRAINED,
                                        [DATA - BEGIN] = DEMO_DIGITS | DEMO_MODEL,
                                        [SAVE - BEGIN] = TRAINED | OF_FILES,
                                        [QUIET - BEGIN] = TRAINED | OF_FILES,
                                        [REPORT - BEGIN] = DEMO_MODEL | DEMO_GPT,
                                        [WEIGHTS - BEGIN] = OF_FILES,
                                        [IMAGE - BEGIN] = DEMO_RESNET18,
                                        [LABELS - BEGIN] = DEMO_RESNET18,
                                        [PROMPT - BEGIN] = DEMO_GPT2,
                                        [TOKENS - BEGIN] = DEMO_GPT2,
                                        [HEADS - BEGIN] = DEMO_GPT2,
                                        [TEMPERATURE - BEGIN] = DEMO_GPT2,
                                        [SEED - BEGIN] = DEMO_GPT2};

static const struct {
    demo_kind kind;
    const char *name;
} kinds[] = {
    {DEMO_DIGITS, "without a name"}, {DEMO_MODEL, "conv"}, {DEMO_MODEL, "lstm"}, {DEMO_MODEL, "vae"}, {DEMO_GPT, "gpt"},
    {DEMO_RESNET18, "resnet18"},     {DEMO_GPT2, "gpt2"}};
enum { KINDS = sizeof kinds / sizeof *kinds };

static bool read_temperature(char **argv, double *temperature) {
    char *end;
    *temperature = strtod(optarg, &end);
    if (end != optarg && !*end && *temperature >= 0 && *temperature <= 1000) return true;
    fprintf(stderr, "%s: --temperature takes a number from 0 to 1000, not \"%s\"\n", argv[0], optarg);
    return false;
}

static bool read_option(char **argv, int option, demo_options *out) {
    switch (option) {
    case DEVICES: return cli_number(argv, "--devices", optarg, 1, DEMO_MOST_DEVICES, &out->devices);
    case EPOCHS: return cli_number(argv, "--epochs", optarg, 1, 10000, &out->epochs);
    case TOKENS: return cli_number(argv, "--tokens", optarg, 1, 1000000, &out->tokens);
    case HEADS: return cli_number(argv, "--heads", optarg, 1, 1000, &out->heads);
    case SEED: return cli_number(argv, "--seed", optarg, 0, INT32_MAX, &out->seed);
    case TEMPERATURE: return read_temperature(argv, &out->temperature);
    case DATA: out->data = optarg; break;
    case SAVE: out->save = optarg; break;
    case REPORT: out->report = optarg; break;
    case QUIET: out->quiet = true; break;
    case WEIGHTS: out->weights = optarg; break;
    case IMAGE: out->image = optarg; break;
    case LABELS: out->labels = optarg; break;
    case PROMPT: out->prompt = optarg; break;
    default: return false;
    }
    return true;
}

/* False: there is no demonstration of that name. */
static bool find_kind(demo_options *out) {
    out->kind = out->model ? 0 : DEMO_DIGITS;
    for (int i = 1; i < KINDS && !out->kind; i++)
        if (!strcmp(out->model, kinds[i].name)) out->kind = kinds[i].kind;
    return out->kind;
}

static bool taken(char **argv, const demo_options *out, const bool given[END - BEGIN]) {
    for (int o = 0; o < END - BEGIN; o++) {
        if (!given[o] || takers[o] & out->kind) continue;
        const char *between = "";
        fprintf(stderr, "%s: --%s is for the demonstrations: ", argv[0], known[o].name);
        for (int i = 0; i < KINDS; i++)
            if (takers[o] & kinds[i].kind) fprintf(stderr, "%s%s", between, kinds[i].name), between = ", ";
        fprintf(stderr, "\n");
        return false;
    }
    return true;
}

int demo_read_options(int argc, char **argv, demo_options *out) {
    bool given[END - BEGIN] = {false};
    for (int option; (option = cli_option(argc, argv, known)) != -1;) {
        if (!read_option(argv, option, out)) return CLI_USAGE;
        given[option - BEGIN] = true;
    }
    if (optind < argc) out->model = argv[optind];
    if (find_kind(out)) optind += out->model != NULL;
    return cli_no_more(argc, argv) && taken(argv, out, given) ? CLI_OK : CLI_USAGE;
}
