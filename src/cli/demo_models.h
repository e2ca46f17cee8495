/* The demonstrations with a name: `berth demo conv`. */
#ifndef BTI_CLI_DEMO_MODELS_H
#define BTI_CLI_DEMO_MODELS_H

#include "cli/demo_data.h"
#include "cli/demo_options.h"

/* Trains the one of that name on the default device; an exit code. */
int demo_run_model(char **argv, const demo_options *chosen, const demo_digits *digits);

/* Pictures of 8 x 8 pixels [count, 64] from 0 to 1 side by side, at most 80 columns wide. */
void demo_print_pictures(const float *pixels, int count);

#endif
