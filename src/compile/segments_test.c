/* What devices that load graphs run at once. Device 1 is one of them, device 0 is not. */
#include "compile/compile_test.h"
#include "ir/host.h"

static void plan_segments(bti_node *const *wanted, int count) {
    graph_devices = 2;
    fusing = BTI_FUSED;
    make_plan(wanted, count);
    graph_devices = 0;
    for (size_t s = 0; s < plan.steps.count; s++)
        if (plan.steps.items[s].device == 1)
            assert_true(plan.steps.items[s].kind == BTI_STEP_SEGMENT || plan.steps.items[s].kind == BTI_STEP_COPY ||
                        plan.steps.items[s].op == BTI_OP_callback);
    for (size_t i = 0; i < plan.inner.count; i++) assert_int_equal(plan.inner.items[i].device, 1);
}
#define SEGMENTS(...) plan_segments((bti_node *[]){__VA_ARGS__}, COUNT(((bti_node *[]){__VA_ARGS__})))

static bti_node *matrix(int device) { return leaf(device, SHAPE(4, 4)); }
static bti_node *map(int device, bti_node *x) { return OP(exp2, device, SHAPE(4, 4), NO_ATTR, x); }
static bti_node *sum(int device, bti_node *x, bti_node *y) { return OP(add, device, SHAPE(4, 4), NO_ATTR, x, y); }
static const bti_step *step(int s) { return &plan.steps.items[s]; }

static void all_is_one(void **state) {
    bti_node *x = matrix(1), *product = OP(matmul, 1, SHAPE(4, 4), NO_ATTR, x, matrix(1));
    bti_node *turned = OP(permute, 1, SHAPE(4, 4), ATTR(1, 0), product);
    SEGMENTS(sum(1, map(1, turned), x));
    assert_int_equal(plan.steps.count, 1);
    assert_int_equal(step(0)->kind, BTI_STEP_SEGMENT);
    assert_int_equal(step(0)->inner_count, 4);
    assert_int_equal(step(0)->input_count, 2); /* x once */
    assert_int_equal(step(0)->output_count, 1);
    assert_int_equal(plan.arenas.count, 0);
    char text[48];
    bti_step_name(text, sizeof text, &plan, step(0));
    assert_string_equal(text, "matmul+exp2+add");
    assert_true(bti_plan_operations(&plan) == 2 * 4 * 4 * 4 + 2 * 4 * 4);
}

/* There and back again: what comes back is read by a second segment, which finds in memory what the first one left. */
static void what_comes_back_is_read_later(void **state) {
    bti_node *x = map(1, matrix(1)), *elsewhere = map(0, x);
    SEGMENTS(sum(1, map(1, x), elsewhere));
    assert_int_equal(plan.steps.count, 5);
    assert_int_equal(step(0)->kind, BTI_STEP_SEGMENT);
    assert_int_equal(step(0)->inner_count, 2); /* both maps */
    assert_int_equal(step(0)->output_count, 2);
    assert_int_equal(step(1)->kind, BTI_STEP_COPY);
    assert_int_equal(step(2)->device, 0);
    assert_int_equal(step(3)->kind, BTI_STEP_COPY);
    assert_int_equal(step(4)->kind, BTI_STEP_SEGMENT);
    assert_int_equal(step(4)->inner_count, 1);
    for (size_t s = 0; s < plan.storages.count; s++) /* temporaries too are arrays by themselves */
        assert_true(plan.storages.items[s].device == 0 || plan.storages.items[s].offset == -1);
}

/* A segment may need what another one of its level does not: no two wait for each other. */
static void segments_do_not_wait_for_each_other(void **state) {
    bti_node *a = map(1, matrix(1)), *b = map(1, matrix(1));
    bti_node *from_a = map(0, a), *from_b = map(0, b);
    SEGMENTS(sum(1, a, from_b), sum(1, b, from_a));
    int segments = 0;
    for (size_t s = 0; s < plan.steps.count; s++) segments += step((int)s)->kind == BTI_STEP_SEGMENT;
    assert_int_equal(segments, 2);
    assert_int_equal(plan.steps.items[0].kind, BTI_STEP_SEGMENT);
    assert_int_equal(plan.steps.items[plan.steps.count - 1].kind, BTI_STEP_SEGMENT);
}

/* A number is written where it is read, and in memory only for those who find it there. */
static void numbers_are_made_again(void **state) {
    bti_node *two = OP(expand, 1, SHAPE(4, 4), NO_ATTR, OP(reshape, 1, SHAPE(1, 1), NO_ATTR, constant(1, 2)));
    bti_node *x = sum(1, matrix(1), two), *back = map(0, x);
    SEGMENTS(sum(1, two, back));
    const bti_step *last = step((int)plan.steps.count - 1);
    assert_int_equal(last->kind, BTI_STEP_SEGMENT);
    assert_int_equal(last->input_count, 1);
    assert_int_equal(last->inner_count, 4);
    assert_int_equal(step(0)->output_count, 1);

    bti_node *kept = OP(expand, 1, SHAPE(4, 4), NO_ATTR, OP(reshape, 1, SHAPE(1, 1), NO_ATTR, constant(1, 3)));
    SEGMENTS(kept, map(0, kept));
    int written = 0;
    for (size_t s = 0; s < plan.steps.count; s++)
        if (step((int)s)->kind == BTI_STEP_SEGMENT) written += step((int)s)->output_count;
    assert_int_equal(written, 1);
}

static void arrays_without_elements_are_no_operands(void **state) {
    bti_node *nothing = leaf(1, SHAPE(0, 4));
    bti_node *total = OP(sum, 1, SHAPE(1, 4), ATTR(1), OP(exp2, 1, SHAPE(0, 4), NO_ATTR, nothing));
    SEGMENTS(total);
    assert_int_equal(plan.steps.count, 1);
    assert_int_equal(step(0)->input_count, 0);
    SEGMENTS(OP(exp2, 1, SHAPE(0, 4), NO_ATTR, nothing));
    assert_int_equal(plan.steps.count, 0);
}

/* What is given up makes room for an output of its type. */
static void what_is_given_up_makes_room(void **state) {
    bti_node *x = matrix(1), *y = sum(1, x, matrix(1));
    SEGMENTS(y);
    int32_t given = value_of(y)->storage, from = -1;
    for (size_t s = 0; s < plan.storages.count; s++)
        if (plan.storages.items[s].given && plan.storages.items[s].external == x->buffer) from = (int32_t)s;
    assert_true(bti_plan_donate(&plan, from));
    assert_int_equal(plan.donations.count, 1);
    assert_int_equal(plan.donations.items[0].output, given);

    bti_node *small = OP(sum, 1, SHAPE(4, 1), ATTR(2), matrix(1));
    SEGMENTS(small);
    assert_true(bti_plan_donate(&plan, plan.values.items[plan.operands.items[step(0)->first_operand]].storage));
    assert_int_equal(plan.donations.items[0].output, -1);
}

/* An index that a kernel reads beside a segment's output has no memory. */
static void kernels_elsewhere_read_indices(void **state) {
    bti_node *numbers = op(BTI_OP_iota, 0, SHAPE(4), NO_ATTR, 0, NULL);
    bti_node *wide = OP(expand, 0, SHAPE(4, 4), NO_ATTR, OP(reshape, 0, SHAPE(1, 4), NO_ATTR, numbers));
    SEGMENTS(sum(0, map(1, matrix(1)), wide));
    assert_int_equal(plan.steps.count, 3);
    assert_int_equal(step(0)->kind, BTI_STEP_SEGMENT);
    int indices = 0;
    for (int i = 0; i < step(2)->input_count; i++) indices += bti_plan_operand(&plan, step(2), i)->storage == -1;
    assert_int_equal(indices, 1);
}

static bti_node *call(bti_node *x) {
    static bti_host_function host = {.refs = 1}; /* never released */
    bti_node *node = OP(callback, 1, SHAPE(4, 4), NO_ATTR, x);
    node->host = bti_host_retain(&host);
    return node;
}

/* The second one reads what was there a segment earlier, and waits for the first one all the same. */
static void callbacks_keep_their_order(void **state) {
    bti_node *x = map(1, matrix(1)), *y = sum(1, x, map(0, x));
    bti_node *first = call(y), *second = call(x);
    SEGMENTS(first, second);
    int called = 0, segments = 0;
    for (int s = 0; s < (int)plan.steps.count; s++) {
        segments += step(s)->kind == BTI_STEP_SEGMENT;
        if (step(s)->op != BTI_OP_callback || step(s)->kind == BTI_STEP_SEGMENT) continue;
        assert_ptr_equal(step(s)->node, called++ ? second : first);
        assert_int_equal(segments, 2);
    }
    assert_int_equal(called, 2);

    bti_node *through = call(map(1, matrix(1)));
    SEGMENTS(map(1, through)); /* it does not wait for the host */
    assert_int_equal(plan.steps.count, 2);
    assert_int_equal(step(0)->kind, BTI_STEP_SEGMENT);
    assert_int_equal(step(0)->inner_count, 2);
    assert_int_equal(step(1)->op, BTI_OP_callback);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(all_is_one),
        TEST(what_comes_back_is_read_later),
        TEST(segments_do_not_wait_for_each_other),
        TEST(numbers_are_made_again),
        TEST(arrays_without_elements_are_no_operands),
        TEST(what_is_given_up_makes_room),
        TEST(kernels_elsewhere_read_indices),
        TEST(callbacks_keep_their_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
