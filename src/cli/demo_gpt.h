/* `berth demo gpt`: a transformer that learns to write berth's reference, character by character. */
#ifndef BTI_CLI_DEMO_GPT_H
#define BTI_CLI_DEMO_GPT_H

#include "cli/demo_options.h"

/* Trains on the default device and writes a text; an exit code. */
int demo_run_gpt(char **argv, const demo_options *chosen);

#endif
