/* Small models with random weights, which demonstrations save and load where they are given no weights. */
#ifndef BTI_CLI_DEMO_SMALL_H
#define BTI_CLI_DEMO_SMALL_H

#include "cli/demo_options.h"

/* Saves a model to the file, loads it, and shows that both are the same. An exit code. */
typedef int demo_save_and_load(char **argv, const char *path, bool quiet);
/* To the file of --save; without it, to NAME.safetensors in a folder that is gone afterwards. An exit code. */
int demo_small_model(char **argv, const demo_options *chosen, const char *name, demo_save_and_load *save_and_load);

#endif
