/* `berth demo resnet18`: ResNet-18 with torchvision's weights. */
#ifndef BTI_CLI_DEMO_RESNET18_H
#define BTI_CLI_DEMO_RESNET18_H

#include "cli/demo_options.h"

/* Classifies an image by the weights of a file; without a file, a small model with random weights is saved and loaded. An exit code. */
int demo_run_resnet18(char **argv, const demo_options *chosen);

#endif
