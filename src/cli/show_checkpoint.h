/* Checkpoints of bt_fit, as berth show has them. */
#ifndef BTI_CLI_SHOW_CHECKPOINT_H
#define BTI_CLI_SHOW_CHECKPOINT_H

#include "cli/cli.h"

/* Prints where the run is, its parameters with the optimiser's states of each, and its epochs. False: the file is no checkpoint, and nothing is
 * printed. */
bool cli_checkpoint_print(bt_tensors *file, const char *path);
/* The same as an object; null. */
json_t *cli_checkpoint_json(bt_tensors *file);

#endif
