/* `berth demo gpt2`: GPT-2 with Hugging Face's weights. */
#ifndef BTI_CLI_DEMO_GPT2_H
#define BTI_CLI_DEMO_GPT2_H

#include "cli/demo_options.h"

/* Writes behind a prompt by the weights of a file, and the tokenizer beside it; without a file, a small model with random weights is saved and loaded. An exit code. */
int demo_run_gpt2(char **argv, const demo_options *chosen);

#endif
