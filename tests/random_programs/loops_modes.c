/* Random loops as the flags then say. */
#include <string.h>

#include "random_programs/loops.h"

enum { GRADIENTS = LOOP_RESULTS, TANGENTS = GRADIENTS + LOOP_INPUTS, MADE = LOOP_MADE };

void make_loop_inputs(const loop_program *p, uint64_t seed, bt_array **inputs) {
    double numbers[33 * 33];
    chance c = {seed * 31337 + 5};
    for (int i = 0; i < 2 * LOOP_INPUTS; i++) {
        int64_t count = 1;
        for (int k = 0; k < p->shape.rank; k++) count *= p->shape.size[k];
        for (int64_t k = 0; k < count; k++) numbers[k] = (double)(draw(&c) >> 11) * 0x1p-52 - 1;
        inputs[i] = bt_cast(bt_from(numbers, BT_F64, p->shape), p->dtype);
    }
}

void record_loop_results(const loop_program *p, const bool *skip, bt_array *const *in, bool evaluate, bt_array **made) {
    record_loops(p, AS_LOOPS, skip, in, made);
    if (evaluate) (void)!bt_eval_all(made, LOOP_RESULTS);
    bt_array *loss = bt_sum(bt_mul(bt_sin(made[0]), bt_add(made[1], bt_num(1))), BT_ALL, false);
    (void)bt_grad(loss, in, LOOP_INPUTS, made + GRADIENTS);
    (void)bt_jvp(made, LOOP_RESULTS, in, in + LOOP_INPUTS, LOOP_INPUTS, made + TANGENTS);
}

/* The same by a function, which is called twice: its plan is kept. */
static void call_all(const loop_program *p, const bool *skip, bt_array *const *in, bt_array **made) {
    bt_array *symbols[2 * LOOP_INPUTS], *outputs[MADE];
    for (int i = 0; i < 2 * LOOP_INPUTS; i++) symbols[i] = bt_input_shape(p->dtype, p->shape);
    record_loop_results(p, skip, symbols, false, outputs);
    bt_function *f = bt_function_new(symbols, 2 * LOOP_INPUTS, outputs, MADE, NULL, 0);
    for (int i = 0; i < 2; i++) (void)bt_call(f, in, 2 * LOOP_INPUTS, made, MADE);
}

void run_loops(uint64_t seed, const bool *skip, FILE *print, const char *perturb, outcomes *out) {
    static const bool exact[2 * MADE];
    loop_program p;
    draw_loops(seed, false, &p);
    p.perturbed = perturb && !strcmp(perturb, "scan");
    if (print) print_loops(&p, skip, print);
    BT_SCOPE {
        bt_array *inputs[2 * LOOP_INPUTS], *made[2 * MADE];
        make_loop_inputs(&p, seed, inputs);
        record_loop_results(&p, skip, inputs, p.evaluated_first, made);
        call_all(&p, skip, inputs, made + MADE);
        keep_results(made, exact, 2 * MADE, out);
    }
    bt_error_clear();
}
