/* Which kernels are one launch. */
#include "compile/compile_test.h"

static void plan_combined(bti_node *const *wanted, int count) {
    fusing = BTI_FUSED;
    facts.launch_boxes = 4;
    make_plan(wanted, count);
    facts.launch_boxes = 1;
}
#define COMBINE(...) plan_combined((bti_node *[]){__VA_ARGS__}, COUNT(((bti_node *[]){__VA_ARGS__})))

static bti_node *update(int64_t count) {
    bti_node *p = leaf(0, SHAPE(count)), *g = leaf(0, SHAPE(count));
    return OP(sub, 0, SHAPE(count), NO_ATTR, p, OP(sin, 0, SHAPE(count), NO_ATTR, g));
}

static void updates_are_one_launch(void **state) {
    bti_node *a = update(10), *b = update(2000), *c = update(333);
    COMBINE(a, b, c);
    assert_int_equal(plan.steps.count, 1);
    const bti_step *step = &plan.steps.items[0];
    assert_int_equal(step->box_count, 3);
    assert_int_equal(step->input_count, 6);
    assert_int_equal(step->output_count, 3);
    assert_int_equal(step->member_count, 6);
    const int64_t extents[] = {10, 2000, 333};
    for (int box = 0; box < 3; box++) {
        assert_int_equal(bti_plan_numbers(&plan, step, box)[0], extents[box]);
        assert_int_equal(bti_plan_operand(&plan, step, bti_step_operand(step, box, 1))->shape[0], extents[box]);
        assert_int_equal(bti_plan_operand(&plan, step, bti_step_operand(step, box, 2))->shape[0], extents[box]);
    }
    assert_int_equal(value_of(b)->storage, bti_plan_output(&plan, step, 1)->storage);
}

static void a_launch_has_so_many_boxes(void **state) {
    bti_node *all[9];
    for (int i = 0; i < 9; i++) all[i] = update(8 + i);
    plan_combined(all, 9);
    assert_int_equal(plan.steps.count, 3);
    assert_int_equal(plan.steps.items[0].box_count, 4);
    assert_int_equal(plan.steps.items[1].box_count, 4);
    assert_int_equal(plan.steps.items[2].box_count, 1);
}

/* The same kernel again and again, each time of what it made. */
static void who_waits_is_not_joined(void **state) {
    bti_node *x = leaf(0, SHAPE(8, 8)), *y[3] = {x};
    for (int i = 1; i < 3; i++)
        y[i] = OP(exp, 0, SHAPE(8, 8), NO_ATTR, OP(permute, 0, SHAPE(8, 8), ATTR(1, 0), y[i - 1]));
    COMBINE(y[1], y[2]);
    assert_int_equal(plan.steps.count, 2);
}

/* Between the two updates others that they do not wait for. */
static void steps_move_over_others(void **state) {
    bti_node *x = leaf(0, SHAPE(8, 8)), *a = update(10), *m = OP(matmul, 0, SHAPE(8, 8), NO_ATTR, x, x),
             *b = update(20);
    bti_node *c = OP(sub, 0, SHAPE(8, 8), NO_ATTR, x, OP(sin, 0, SHAPE(8, 8), NO_ATTR, m));
    COMBINE(a, m, b, c);
    assert_int_equal(plan.steps.count, 3);
    assert_int_equal(plan.steps.items[0].box_count, 2); /* c reads the product */
    assert_int_equal(plan.steps.items[1].op, BTI_OP_matmul);
    assert_int_equal(plan.steps.items[2].box_count, 1);
}

static void large_temporaries_do_not_live_longer(void **state) {
    for (int large = 0; large < 2; large++) {
        int64_t side = large ? 512 : 16;
        bti_node *x = leaf(0, SHAPE(side, side)), *all[2];
        for (int i = 0; i < 2; i++) {
            bti_node *t = OP(exp, 0, SHAPE(side, side), NO_ATTR, leaf(0, SHAPE(side, side)));
            all[i] = OP(matmul, 0, SHAPE(side, side), NO_ATTR, t, x);
        }
        plan_combined(all, 2);
        assert_int_equal(plan.steps.count, large ? 4 : 3);
    }
}

static void nothing_passes_a_copy(void **state) {
    bti_node *a = update(10), *sent = OP(copy, 1, SHAPE(10), NO_ATTR, a), *b = update(20);
    COMBINE(a, sent, b);
    assert_int_equal(plan.steps.count, 3);
    assert_int_equal(plan.steps.items[1].kind, BTI_STEP_COPY);
}

/* Each box in the place of what it read for the last time. */
static void boxes_work_in_place(void **state) {
    bti_node *x = leaf(0, SHAPE(16, 16)), *m[2], *all[2];
    for (int i = 0; i < 2; i++) m[i] = OP(matmul, 0, SHAPE(16, 16), NO_ATTR, leaf(0, SHAPE(16, 16)), x);
    for (int i = 0; i < 2; i++)
        all[i] = OP(matmul, 0, SHAPE(16, 16), NO_ATTR, OP(exp, 0, SHAPE(16, 16), NO_ATTR, m[i]), x);
    plan_combined(all, 2);
    assert_int_equal(plan.steps.count, 5);
    const bti_step *step = &plan.steps.items[2];
    assert_int_equal(step->box_count, 2);
    for (int box = 0; box < 2; box++) {
        const bti_storage *read = &plan.storages.items[bti_plan_operand(&plan, step, box)->storage];
        const bti_storage *written = &plan.storages.items[bti_plan_output(&plan, step, box)->storage];
        assert_true(written->in_place);
        assert_int_equal(read->offset, written->offset);
    }
    assert_int_equal(plan.arenas.items[0], 2 * 16 * 16 * 4);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(updates_are_one_launch), TEST(a_launch_has_so_many_boxes),           TEST(who_waits_is_not_joined),
        TEST(steps_move_over_others), TEST(large_temporaries_do_not_live_longer), TEST(nothing_passes_a_copy),
        TEST(boxes_work_in_place),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
