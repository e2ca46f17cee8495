#include "golden/export.h"

#include <string.h>

bt_array *golden_input(golden_program *p, bt_array *argument) {
    if (p->input_count == GOLDEN_MAX_VALUES) return NULL;
    p->arguments[p->input_count] = argument;
    return p->inputs[p->input_count++] = bt_input_shape(bt_dtype_of(argument), bt_shape_of(argument));
}

bool golden_outputs(golden_program *p, bt_array *const *outputs, int count) {
    if (p->output_count + count > GOLDEN_MAX_VALUES) return false;
    memcpy(p->outputs + p->output_count, outputs, (size_t)count * sizeof *outputs);
    p->output_count += count;
    return true;
}

bool golden_updates(golden_program *p, const bt_update *updates, int count) {
    if (p->update_count + count > GOLDEN_MAX_VALUES) return false;
    memcpy(p->updates + p->update_count, updates, (size_t)count * sizeof *updates);
    p->update_count += count;
    return true;
}

/* --- what is saved ----------------------------------------------------------------------------------------------------- */

typedef struct saved {
    char names[4 * GOLDEN_MAX_VALUES][160];
    const char *listed[4 * GOLDEN_MAX_VALUES];
    bt_array *arrays[4 * GOLDEN_MAX_VALUES];
    int count;
} saved;

/* safetensors has no complex numbers and 8-bit floats of ours: pairs, and bytes. */
static void add_saved(saved *s, bt_array *x, const char *kind, const char *name, int number) {
    bt_dtype dtype = bt_dtype_of(x);
    int at = s->count++;
    if (dtype == BT_C64 || dtype == BT_C128) x = golden_pairs_of(x);
    if (dtype == BT_F8E4M3 || dtype == BT_F8E5M2) x = bt_bitcast(x, BT_U8);
    if (name)
        snprintf(s->names[at], sizeof *s->names, "%s.%s", kind, name);
    else
        snprintf(s->names[at], sizeof *s->names, "%s.%d", kind, number);
    s->listed[at] = s->names[at];
    s->arrays[at] = x;
}

/* Names of variables that are all different, by which the module's arguments are found. */
static void name_variables(const golden_program *p) {
    for (int i = 0; i < p->update_count; i++) {
        char name[32];
        snprintf(name, sizeof name, "v%d", i);
        bt_shared_set_name(p->updates[i].shared, name);
    }
}

bool golden_export_program(const char *stem, const golden_program *p, char *why, size_t why_size) {
    static saved s;
    char path[512];
    bt_array *results[GOLDEN_MAX_VALUES];
    s.count = 0;
    name_variables(p);
    bt_function *function =
        bt_function_new(p->inputs, p->input_count, p->outputs, p->output_count, p->updates, p->update_count);
    for (int i = 0; i < p->input_count; i++) add_saved(&s, p->arguments[i], "argument", NULL, i);
    for (int i = 0; i < p->update_count; i++)
        add_saved(&s, bt_value(p->updates[i].shared), "before", bt_shared_name(p->updates[i].shared), 0);
    if (p->read_name) add_saved(&s, p->read_value, "before", p->read_name, 0);
    snprintf(path, sizeof path, "%s.mlir", stem);
    bool done = bt_function_status(function) == BT_OK && bt_function_export(function, path) == BT_OK &&
                bt_call(function, p->arguments, p->input_count, results, p->output_count) == BT_OK;
    for (int i = 0; i < p->output_count && done; i++) add_saved(&s, results[i], "result", NULL, i);
    for (int i = 0; i < p->update_count && done; i++)
        add_saved(&s, bt_value(p->updates[i].shared), "after", bt_shared_name(p->updates[i].shared), 0);
    snprintf(path, sizeof path, "%s.safetensors", stem);
    done = done && bt_save(path, s.listed, s.arrays, s.count, NULL) == BT_OK;
    if (!done) snprintf(why, why_size, "%s", bt_error_text());
    return done;
}

/* --- reference cases --------------------------------------------------------------------------------------------------- */

bool golden_export_case(const char *stem, const char *op, call *made, bt_array *const *in, int in_count,
                        const golden_gradient *gradient, bool gives_pairs, const json_t *pairs, char *why,
                        size_t why_size) {
    static golden_program p;
    bt_array *numbers[GOLDEN_MAX_TENSORS], *wrt[GOLDEN_MAX_TENSORS], *grads[GOLDEN_MAX_TENSORS];
    p = (golden_program){.name = op};
    for (int i = 0; i < in_count; i++) (void)golden_input(&p, in[i]);
    if (!golden_numbers_of(pairs, p.inputs, in_count, numbers))
        return snprintf(why, why_size, "`pairs` does not name inputs"), false;
    call again = *made;
    again.in = numbers;
    bt_array *output = golden_call(op, &again);
    if (!output) return snprintf(why, why_size, "it cannot be recorded"), false;
    if (gives_pairs) output = golden_pairs_of(output);
    bool room = golden_outputs(&p, &output, 1);
    if (gradient->count) {
        for (int i = 0; i < gradient->count; i++) wrt[i] = p.inputs[gradient->of[i]];
        if (bt_vjp(output, golden_input(&p, gradient->cotangent), wrt, gradient->count, grads) != BT_OK)
            return snprintf(why, why_size, "bt_vjp: %s", bt_error_text()), false;
        room = room && golden_outputs(&p, grads, gradient->count);
    }
    return room && golden_export_program(stem, &p, why, why_size);
}
