/* Evaluations with loops and branches that come again: each is recorded anew, and with plans kept by their keys, in turns with others that differ inside
 * of bodies, in what these read, or in how results are asked for, each gives the bits that it gives when everything is planned anew. */
#include <stdlib.h>

#include "array/plan_cache.h"
#include "random_programs/loops.h"

enum { ROUNDS = 3, EACH_RESULT_ALONE = 5, LOOP_VARIANTS = 9 };

static void change_scalars(instruction *i) { i->by += 0.125; }
static void change_steps(instruction *i) { i->steps += i->steps < MOST_STEPS ? 1 : -1; }
static void change_directions(instruction *i) { i->reverse = !i->reverse; }
static void change_axes(instruction *i) { i->flag = i->kind == PLAIN ? !i->flag : i->flag; }

static void swap(int *a, int *b) {
    int before = *a;
    *a = *b;
    *b = before;
}
static void swap_operands(instruction *i) {
    if (i->kind == PLAIN) swap(&i->operand[0], &i->operand[1]);
}
static void swap_results(loop_program *p) {
    for (int b = 0; b < p->block_count; b++)
        if (p->blocks[b].result_count > 1) swap(&p->blocks[b].result[0], &p->blocks[b].result[1]);
}

static void for_each(loop_program *p, void (*change)(instruction *i)) {
    for (int b = 0; b < p->block_count; b++)
        for (int k = 0; k < p->blocks[b].count; k++) change(&p->blocks[b].of[k]);
}

static bt_array *doubled(bt_array *x, int index) { return index % 2 ? x : bt_mul(x, bt_num(2)); }
static bt_array *moved(bt_array *x, int index) { return move_in_memory(x, 1 + index % 7); }

/* What differs from run to run. */
static const struct {
    void (*instructions)(instruction *i);
    bt_array *(*inputs)(bt_array *x, int index);
    void (*program)(loop_program *p);
} variants[LOOP_VARIANTS] = {
    {NULL, NULL, NULL},         {change_scalars, NULL, NULL},
    {change_steps, NULL, NULL}, {change_directions, NULL, NULL},
    {NULL, doubled, NULL},      [EACH_RESULT_ALONE] = {NULL, moved, NULL},
    {change_axes, NULL, NULL},  {swap_operands, NULL, NULL},
    {NULL, NULL, swap_results},
};

static void run_loop_variant(uint64_t seed, int v, outcomes *out) {
    static const bool exact[LOOP_MADE];
    loop_program p;
    draw_loops(seed, false, &p);
    if (variants[v].instructions) for_each(&p, variants[v].instructions);
    if (variants[v].program) variants[v].program(&p);
    BT_SCOPE {
        bt_array *inputs[2 * LOOP_INPUTS], *made[LOOP_MADE];
        make_loop_inputs(&p, seed, inputs);
        for (int i = 0; i < LOOP_INPUTS && variants[v].inputs; i++) inputs[i] = variants[v].inputs(inputs[i], i);
        (void)!bt_eval_all(inputs, 2 * LOOP_INPUTS);
        record_loop_results(&p, NULL, inputs, p.evaluated_first, made);
        for (int i = 0; i < LOOP_MADE && v == EACH_RESULT_ALONE; i++) (void)!bt_eval(made[i]);
        keep_results(made, exact, LOOP_MADE, out);
    }
    bt_error_clear();
}

static uint64_t never_found, seeds; /* in which a plan was made in the last round */

const char *check_loop_plans(uint64_t seed) {
    outcomes *kept = calloc((size_t)ROUNDS * LOOP_VARIANTS, sizeof *kept), *wanted = calloc(1, sizeof *wanted);
    const char *what = NULL;
    uint64_t before = 0;
    for (int i = 0; i < ROUNDS * LOOP_VARIANTS; i++) {
        if (i == (ROUNDS - 1) * LOOP_VARIANTS) before = bti_plan_cache_count().made;
        run_loop_variant(seed, i % LOOP_VARIANTS, &kept[i]);
    }
    seeds++;
    never_found += bti_plan_cache_count().made > before;
    if (bt_set_flag("plan_cache", "0") != BT_OK) what = "the flag plan_cache is refused";
    for (int v = 0; v < LOOP_VARIANTS; v++) {
        run_loop_variant(seed, v, wanted);
        for (int r = 0; r < ROUNDS && !what; r++) what = differ(wanted, &kept[r * LOOP_VARIANTS + v], true);
        free_outcomes(wanted);
    }
    for (int i = 0; i < ROUNDS * LOOP_VARIANTS; i++) free_outcomes(&kept[i]);
    if (bt_set_flag("plan_cache", "64M") != BT_OK) what = "the flag plan_cache is refused";
    if (seeds >= 10 && never_found * 2 > seeds) what = "most loops are planned anew when they come again";
    free(kept);
    free(wanted);
    return what;
}
