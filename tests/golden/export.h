/* Functions written as StableHLO, with their arguments and with what berth makes of them: STEM.mlir and STEM.safetensors, which has argument.N and result.N. */
#ifndef BERTH_TESTS_GOLDEN_EXPORT_H
#define BERTH_TESTS_GOLDEN_EXPORT_H

#include "golden/golden.h"

enum { GOLDEN_MAX_VALUES = 128 };

typedef struct golden_program {
    const char *name;
    bt_array *inputs[GOLDEN_MAX_VALUES], *arguments[GOLDEN_MAX_VALUES], *outputs[GOLDEN_MAX_VALUES];
    bt_update updates[GOLDEN_MAX_VALUES];
    const char *read_name; /* of a variable that is read and not updated; NULL: none */
    bt_array *read_value;
    int input_count, output_count, update_count;
} golden_program;

/* An input that is going to be given this argument. */
bt_array *golden_input(golden_program *p, bt_array *argument);
/* False: too many. */
bool golden_outputs(golden_program *p, bt_array *const *outputs, int count);
bool golden_updates(golden_program *p, const bt_update *updates, int count);
/* Calls the function once. False with the reason. */
bool golden_export_program(const char *stem, const golden_program *p, char *why, size_t why_size);
void golden_export_programs(tally *t);

#endif
