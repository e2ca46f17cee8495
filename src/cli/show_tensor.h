/* Tensors of files, and texts of theirs, as berth show has them. */
#ifndef BTI_CLI_SHOW_TENSOR_H
#define BTI_CLI_SHOW_TENSOR_H

#include "cli/cli.h"

/* A text of the file, made fit for a terminal; cut to `most` bytes (0: not at all). The caller frees it. */
char *cli_printable(const char *text, size_t most);

typedef struct cli_totals {
    int64_t elements;
    uint64_t bytes;
    int unknown; /* tensors of dtypes or ranks that berth has not: their bytes are not counted */
} cli_totals;

typedef struct cli_tensor {
    bt_tensor_info info;
    int64_t elements; /* -1: not known */
    uint64_t bytes;
    char shape[200];
} cli_tensor;

/* Of `info`, the rest; adds it to the totals. */
void cli_tensor_measure(cli_tensor *tensor, cli_totals *all);
json_t *cli_tensor_json(const cli_tensor *tensor);

#endif
