/* The arguments of `berth demo`. */
#ifndef BTI_CLI_DEMO_OPTIONS_H
#define BTI_CLI_DEMO_OPTIONS_H

#include <stdbool.h>

enum { DEMO_MOST_DEVICES = 32 }; /* as many of a kind are simulated */

typedef enum demo_kind {
    DEMO_DIGITS = 1,   /* without a name: on all accelerators (demo.c) */
    DEMO_MODEL = 2,    /* conv, lstm, vae (demo_models.c) */
    DEMO_GPT = 4,      /* gpt (demo_gpt.c) */
    DEMO_RESNET18 = 8, /* resnet18 (demo_resnet18.c) */
    DEMO_GPT2 = 16,    /* gpt2 (demo_gpt2.c) */
} demo_kind;

typedef struct demo_options {
    demo_kind kind;
    const char *model;   /* the name; NULL: none */
    int devices, epochs; /* 0: all; the demonstration's */
    const char *data, *save, *report;
    bool quiet;
    const char *weights, *image, *labels, *prompt; /* NULL: not given */
    int tokens, heads, seed;                       /* 0: not given */
    double temperature;
} demo_options;

/* CLI_OK or CLI_USAGE, which is printed. */
int demo_read_options(int argc, char **argv, demo_options *out);

#endif
