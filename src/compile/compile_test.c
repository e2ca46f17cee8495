/* Plans as data: what is computed, what moves and what lives how long, without a device. */
#include "compile/compile_test.h"

/* --- values are computed once --------------------------------------------------------------------------------------------- */

static void equal_operations_are_one_on_each_device(void **state) {
    bti_node *x = leaf(0, SHAPE(4)), *y = leaf(1, SHAPE(4));
    bti_node *a = OP(exp, 0, SHAPE(4), NO_ATTR, x), *b = OP(exp, 0, SHAPE(4), NO_ATTR, x);
    bti_node *c = OP(add, 0, SHAPE(4), NO_ATTR, a, x), *d = OP(add, 0, SHAPE(4), NO_ATTR, b, x);
    bti_node *e = OP(exp, 1, SHAPE(4), NO_ATTR, x), *f = OP(exp, 1, SHAPE(4), NO_ATTR, y);
    PLAN(c, d, e, f);
    assert_int_equal(kernels(BTI_OP_exp, 0), 1);
    assert_int_equal(kernels(BTI_OP_add, 0), 1);
    assert_int_equal(kernels(BTI_OP_exp, 1), 2); /* of x there, and of y: never merged with GPU:0's */
    assert_int_equal(value_of(c)->storage, value_of(d)->storage);
    assert_int_not_equal(value_of(e)->storage, value_of(f)->storage);
}

static void operations_that_differ_stay_apart(void **state) {
    bti_node *x = leaf(0, SHAPE(4, 4));
    bti_node *rows = OP(sum, 0, SHAPE(1, 4), ATTR(1), x), *columns = OP(sum, 0, SHAPE(4, 1), ATTR(2), x);
    bti_node *down = OP(cumsum, 0, SHAPE(4, 4), ATTR(0, 0), x), *up = OP(cumsum, 0, SHAPE(4, 4), ATTR(0, 1), x);
    bti_node *a = OP(sub, 0, SHAPE(4, 4), NO_ATTR, down, up), *b = OP(sub, 0, SHAPE(4, 4), NO_ATTR, up, down);
    PLAN(rows, columns, down, up, a, b);
    assert_int_equal(kernels(BTI_OP_sum, 0), 2);
    assert_int_equal(kernels(BTI_OP_cumsum, 0), 2);
    assert_int_equal(kernels(BTI_OP_sub, 0), 2);
}

static void dead_work_is_absent(void **state) {
    bti_node *x = leaf(0, SHAPE(4)), *wanted = OP(neg, 0, SHAPE(4), NO_ATTR, x);
    bti_node *dead = OP(exp, 0, SHAPE(4), NO_ATTR, wanted);
    (void)OP(copy, 1, SHAPE(4), NO_ATTR, dead);
    PLAN(wanted);
    assert_int_equal(plan.steps.count, 1);
    assert_int_equal(plan.results.count, 1);
    bti_node *empty = OP(add, 0, SHAPE(0, 4), NO_ATTR, leaf(0, SHAPE(0, 4)), leaf(1, SHAPE(0, 4)));
    PLAN(empty);
    assert_int_equal(plan.steps.count, 0); /* nothing has no elements to compute or to copy */
    PLAN(x);
    assert_int_equal(plan.steps.count + plan.results.count, 0); /* it is there */
}

static void what_is_done_is_not_done_again(void **state) {
    bti_node *x = leaf(0, SHAPE(4)), *y = OP(exp, 0, SHAPE(4), NO_ATTR, x), *z = OP(neg, 0, SHAPE(4), NO_ATTR, y);
    static char memory;
    y->buffer = (bti_buffer *)&memory;
    y->layout = x->layout;
    atomic_store(&y->state, BTI_DONE);
    PLAN(z);
    assert_int_equal(plan.steps.count, 1);
    y->buffer = NULL;
}

/* --- views ---------------------------------------------------------------------------------------------------------------- */

static void views_move_nothing(void **state) {
    bti_node *x = leaf(0, SHAPE(4, 6));
    bti_node *turned = OP(permute, 0, SHAPE(6, 4), ATTR(1, 0), x);
    bti_node *part = OP(slice, 0, SHAPE(3, 4), ATTR(5, 0, -2, 1), turned); /* rows 5, 3, 1 */
    bti_node *new_axis = OP(reshape, 0, SHAPE(3, 1, 4), NO_ATTR, part);
    bti_node *repeated = OP(expand, 0, SHAPE(3, 9, 4), NO_ATTR, new_axis);
    PLAN(repeated);
    assert_int_equal(plan.steps.count, 0);
    const bti_value *value = value_of(repeated);
    assert_ptr_equal(storage_of(repeated)->external, x->buffer);
    assert_int_equal(value->layout.offset, 5);
    assert_int_equal(value->layout.stride[0], -2);
    assert_int_equal(value->layout.stride[1], 0);
    assert_int_equal(value->layout.stride[2], 6);
}

static void only_a_reshape_that_strides_cannot_say_copies(void **state) {
    bti_node *x = leaf(0, SHAPE(4, 6)), *turned = OP(permute, 0, SHAPE(6, 4), ATTR(1, 0), x);
    bti_node *flat = OP(reshape, 0, SHAPE(24), NO_ATTR, turned), *again = OP(reshape, 0, SHAPE(2, 12), NO_ATTR, turned);
    PLAN(flat, again);
    assert_int_equal(plan.steps.count, 1); /* made dense once */
    assert_int_equal(kernels(BTI_OP_copy, 0), 1);
    assert_int_equal(value_of(flat)->storage, value_of(again)->storage);
    PLAN(OP(reshape, 0, SHAPE(2, 12), NO_ATTR, x));
    assert_int_equal(plan.steps.count, 0);
}

/* --- copies --------------------------------------------------------------------------------------------------------------- */

static void a_value_travels_once_to_each_device(void **state) {
    bti_node *x = leaf(0, SHAPE(8));
    bti_node *a = OP(exp, 1, SHAPE(8), NO_ATTR, x), *b = OP(neg, 1, SHAPE(8), NO_ATTR, x),
             *c = OP(sin, 2, SHAPE(8), NO_ATTR, x);
    bti_node *d = OP(copy, 1, SHAPE(8), NO_ATTR, x);
    PLAN(a, b, c, d);
    EXPECT_COPIES(2, 64);
}

static void nothing_makes_a_round_trip(void **state) {
    bti_node *x = leaf(0, SHAPE(8)), *there = OP(copy, 1, SHAPE(8), NO_ATTR, x),
             *back = OP(copy, 0, SHAPE(8), NO_ATTR, there);
    bti_node *sum = OP(add, 0, SHAPE(8), NO_ATTR, back, x);
    PLAN(sum);
    count_copies();
    assert_true(copies <= 1);
    assert_int_equal(plan.steps.items[plan.steps.count - 1].op, BTI_OP_add);
    int32_t first = plan.steps.items[plan.steps.count - 1].first_operand;
    assert_int_equal(plan.values.items[plan.operands.items[first]].storage,
                     plan.values.items[plan.operands.items[first + 1]].storage); /* x itself, twice */
}

static void repeated_axes_travel_once(void **state) {
    bti_node *x = leaf(0, SHAPE(1, 8)), *wide = OP(expand, 0, SHAPE(1000, 8), NO_ATTR, x);
    bti_node *y = OP(exp, 1, SHAPE(1000, 8), NO_ATTR, wide);
    PLAN(y);
    EXPECT_COPIES(1, 32);
    const bti_value *input = &plan.values.items[plan.operands.items[plan.steps.items[1].first_operand]];
    assert_int_equal(input->shape[0], 1000);
    assert_int_equal(input->layout.stride[0], 0);
}

static void a_part_travels_alone(void **state) {
    bti_node *x = leaf(0, SHAPE(1000, 8)), *part = OP(slice, 0, SHAPE(10, 8), ATTR(0, 0, 100, 1), x);
    PLAN(OP(exp, 1, SHAPE(10, 8), NO_ATTR, part));
    EXPECT_COPIES(1, 320);
    assert_int_equal(kernels(BTI_OP_copy, 0), 1); /* made dense where it is */
}

static void constants_are_made_where_they_are_needed(void **state) {
    bti_node *x = leaf(1, SHAPE(8)), *one = constant(0, 1),
             *all = OP(expand, 0, SHAPE(8), NO_ATTR, OP(reshape, 0, SHAPE(1), NO_ATTR, one));
    bti_node *numbers = op(BTI_OP_iota, 0, SHAPE(8), NO_ATTR, 0, NULL);
    bti_node *y = OP(add, 1, SHAPE(8), NO_ATTR, x, all), *z = OP(mul, 1, SHAPE(8), NO_ATTR, y, numbers);
    PLAN(z);
    EXPECT_COPIES(0, 0);
    assert_int_equal(kernels(BTI_OP_const, 1), 1);
    assert_int_equal(kernels(BTI_OP_iota, 1), 1);
}

static void a_choice_between_equals_is_none(void **state) {
    bti_node *x = leaf(0, SHAPE(8)), *stopped = OP(stop, 0, SHAPE(8), NO_ATTR, x);
    PLAN(OP(neg, 0, SHAPE(8), NO_ATTR, OP(where, 0, SHAPE(8), NO_ATTR, leaf(0, SHAPE(8)), x, stopped)));
    assert_int_equal(kernels(BTI_OP_where, 0), 0);
    assert_int_equal(plan.steps.count, 1);
}

/* --- memory --------------------------------------------------------------------------------------------------------------- */

static bti_node *number(double value) {
    int64_t bits;
    memcpy(&bits, &value, sizeof bits);
    return constant(0, bits);
}

/* To the bit: -0 + 0 is not -0. */
static void numbers_that_change_nothing(void **state) {
    bti_node *x = leaf(0, SHAPE(6)), *one = OP(expand, 0, SHAPE(6), NO_ATTR, number(1)),
             *zero = OP(expand, 0, SHAPE(6), NO_ATTR, number(0));
    PLAN(OP(mul, 0, SHAPE(6), NO_ATTR, x, one), OP(mul, 0, SHAPE(6), NO_ATTR, one, x),
         OP(div, 0, SHAPE(6), NO_ATTR, x, one), OP(sub, 0, SHAPE(6), NO_ATTR, x, zero));
    assert_int_equal(kernels(BTI_OP_mul, 0) + kernels(BTI_OP_div, 0) + kernels(BTI_OP_sub, 0), 0);
    PLAN(OP(mul, 0, SHAPE(6), NO_ATTR, x, OP(expand, 0, SHAPE(6), NO_ATTR, number(2))),
         OP(div, 0, SHAPE(6), NO_ATTR, one, x), OP(sub, 0, SHAPE(6), NO_ATTR, zero, x),
         OP(add, 0, SHAPE(6), NO_ATTR, x, zero),
         OP(sub, 0, SHAPE(6), NO_ATTR, x, OP(expand, 0, SHAPE(6), NO_ATTR, number(-0.0))));
    assert_int_equal(kernels(BTI_OP_mul, 0) + kernels(BTI_OP_div, 0), 2);
    assert_int_equal(kernels(BTI_OP_sub, 0) + kernels(BTI_OP_add, 0), 3);
}

static void storages_end_with_their_last_reader(void **state) {
    bti_node *x = leaf(0, SHAPE(8)), *a = OP(exp, 0, SHAPE(8), NO_ATTR, x), *b = OP(neg, 0, SHAPE(8), NO_ATTR, a);
    bti_node *view = OP(reshape, 0, SHAPE(2, 4), NO_ATTR, a), *c = OP(sum, 0, SHAPE(1, 4), ATTR(1), view);
    bti_node *d = OP(mul, 0, SHAPE(8), NO_ATTR, b, b);
    PLAN(c, d); /* exp, neg, sum, mul */
    assert_int_equal(plan.steps.count, 4);
    int32_t of_a = bti_plan_output(&plan, &plan.steps.items[0], 0)->storage,
            of_b = bti_plan_output(&plan, &plan.steps.items[1], 0)->storage;
    assert_int_equal(plan.storages.items[of_a].first_step, 0);
    assert_int_equal(plan.storages.items[of_a].last_step, 2); /* its view is read there */
    assert_int_equal(plan.storages.items[of_b].first_step, 1);
    assert_int_equal(plan.storages.items[of_b].last_step, 3);
    assert_int_equal(storage_of(c)->last_step, 4); /* kept */
    assert_int_equal(storage_of(d)->last_step, 4);
}

static void what_the_program_holds_is_kept(void **state) {
    bti_node *x = leaf(0, SHAPE(8)), *held = OP(exp, 0, SHAPE(8), NO_ATTR, x),
             *wanted = OP(neg, 0, SHAPE(8), NO_ATTR, held);
    atomic_fetch_add(&held->handles, 1);
    PLAN(wanted);
    assert_int_equal(plan.results.count, 2);
    assert_int_equal(storage_of(held)->last_step, 2);
    atomic_fetch_sub(&held->handles, 1);
    PLAN(wanted);
    assert_int_equal(plan.results.count, 1);
    assert_int_equal(atomic_load(&wanted->handles), 0); /* planning left no mark */
}

/* --- order ---------------------------------------------------------------------------------------------------------------- */

static void inputs_come_before_their_readers(void **state) {
    bti_node *layer[8][8];
    for (int i = 0; i < 8; i++) layer[0][i] = leaf(i % 2, SHAPE(4));
    for (int l = 1; l < 8; l++)
        for (int i = 0; i < 8; i++)
            layer[l][i] = OP(add, (l + i) % 2, SHAPE(4), NO_ATTR, layer[l - 1][i], layer[l - 1][(i + 3) % 8]);
    PLAN(layer[7][0], layer[7][5]);
    for (size_t s = 0; s < plan.steps.count; s++)
        for (int i = 0; i < plan.steps.items[s].input_count; i++) {
            int32_t value = plan.operands.items[plan.steps.items[s].first_operand + i];
            const bti_storage *read = &plan.storages.items[plan.values.items[value].storage];
            assert_true(read->external || (read->first_step >= 0 && read->first_step < (int32_t)s));
            assert_int_equal(read->device, plan.steps.items[s].device);
        }
}

/* --- texts ---------------------------------------------------------------------------------------------------------------- */

static void text_of_a_product_on_two_devices(void **state) {
    bti_node *a = leaf(0, SHAPE(2, 3)), *b = leaf(0, SHAPE(3, 2)), *c[2];
    for (int i = 0; i < 2; i++) c[i] = OP(matmul, i, SHAPE(2, 2), NO_ATTR, a, b);
    PLAN(OP(add, 2, SHAPE(2, 2), NO_ATTR, c[0], c[1]));
    expect_text("   1  matmul      GPU:0  float32 (2, 2)  (default device)  for bt_made at graph.c:3\n"
                "   2  copy        GPU:0 -> GPU:1  float32 (2, 3)  24 bytes  for bt_made at graph.c:1\n"
                "   3  copy        GPU:0 -> GPU:1  float32 (3, 2)  24 bytes  for bt_made at graph.c:2\n"
                "   4  matmul      GPU:1  float32 (2, 2)  (default device)  for bt_made at graph.c:4\n"
                "   5  copy        GPU:0 -> CPU:0  float32 (2, 2)  16 bytes  for bt_made at graph.c:3\n"
                "   6  copy        GPU:1 -> CPU:0  float32 (2, 2)  16 bytes  for bt_made at graph.c:4\n"
                "   7  add         CPU:0  float32 (2, 2)  (default device)  for bt_made at graph.c:5\n"
                "      7 steps; 4 copies between devices, 80 bytes\n"
                "      computes 52 operations, reads 128 bytes and writes 48 bytes; what is given and what is kept "
                "alone are 64 bytes\n"
                "      GPU:0: 1 kernels, at most 64 bytes for results and temporaries\n"
                "      GPU:1: 1 kernels, at most 112 bytes for results and temporaries\n"
                "      CPU:0: 1 kernels, at most 48 bytes for results and temporaries\n");
}

static void text_of_views_and_reductions(void **state) {
    bti_node *x = leaf(0, SHAPE(4, 6)), *turned = OP(permute, 0, SHAPE(6, 4), ATTR(1, 0), x);
    bti_node *flat = OP(reshape, 0, SHAPE(24), NO_ATTR, turned), *sum = OP(sum, 0, SHAPE(1), ATTR(1), flat);
    sum->rule = BTI_RULE_EXPLICIT;
    PLAN(OP(mul, 0, SHAPE(1), NO_ATTR, sum, sum));
    expect_text("   1  make dense  GPU:0  float32 (6, 4)  (default device)  for bt_made at graph.c:3\n"
                "   2  sum         GPU:0  float32 (1,)  (named by the program)  for bt_made at graph.c:4\n"
                "   3  mul         GPU:0  float32 (1,)  (default device)  for bt_made at graph.c:5\n"
                "      3 steps; 0 copies between devices, 0 bytes\n"
                "      computes 25 operations, reads 200 bytes and writes 104 bytes; what is given and what is kept "
                "alone are 100 bytes\n"
                "      GPU:0: 3 kernels, at most 196 bytes for results and temporaries\n");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(equal_operations_are_one_on_each_device),
        TEST(operations_that_differ_stay_apart),
        TEST(dead_work_is_absent),
        TEST(what_is_done_is_not_done_again),
        TEST(views_move_nothing),
        TEST(only_a_reshape_that_strides_cannot_say_copies),
        TEST(a_value_travels_once_to_each_device),
        TEST(nothing_makes_a_round_trip),
        TEST(repeated_axes_travel_once),
        TEST(a_part_travels_alone),
        TEST(constants_are_made_where_they_are_needed),
        TEST(a_choice_between_equals_is_none),
        TEST(numbers_that_change_nothing),
        TEST(storages_end_with_their_last_reader),
        TEST(what_the_program_holds_is_kept),
        TEST(inputs_come_before_their_readers),
        TEST(text_of_a_product_on_two_devices),
        TEST(text_of_views_and_reductions),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
