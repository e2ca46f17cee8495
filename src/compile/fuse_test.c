/* What becomes one kernel, and what does not. */
#include "compile/compile_test.h"

static int steps_of(bti_step_kind kind) {
    int count = 0;
    for (size_t s = 0; s < plan.steps.count; s++) count += plan.steps.items[s].kind == kind;
    return count;
}

static const bti_kernel *kernel_at(int number) {
    for (size_t s = 0; s < plan.steps.count; s++)
        if (plan.steps.items[s].kind == BTI_STEP_KERNEL && number-- == 0)
            return plan.kernels.items[plan.steps.items[s].kernel];
    fail_msg("no such kernel");
    return NULL;
}

/* Every kernel is a valid one, and every storage is written before it is read. */
static void check_plan(void) {
    for (size_t k = 0; k < plan.kernels.count; k++) {
        const char *wrong = bti_kernel_verify(plan.kernels.items[k]);
        bti_str text = {0};
        bti_kernel_text(&text, plan.kernels.items[k]);
        if (wrong) fail_msg("%s:\n%s", wrong, bti_str_text(&text));
        bti_str_free(&text);
    }
    for (size_t s = 0; s < plan.steps.count; s++)
        for (int i = 0; i < plan.steps.items[s].input_count; i++) {
            int32_t storage = bti_plan_operand(&plan, &plan.steps.items[s], i)->storage;
            if (storage < 0 || plan.storages.items[storage].external) continue;
            assert_true(plan.storages.items[storage].first_step >= 0);
            assert_true(plan.storages.items[storage].first_step < (int32_t)s);
        }
}

static void plan_fused(bti_node *const *wanted, int count) {
    fusing = BTI_FUSED;
    make_plan(wanted, count);
    check_plan();
}
#define FUSE(...) plan_fused((bti_node *[]){__VA_ARGS__}, COUNT(((bti_node *[]){__VA_ARGS__})))
#define EXPECT_STEPS(kernels, works)                          \
    do {                                                      \
        assert_int_equal(steps_of(BTI_STEP_KERNEL), kernels); \
        assert_int_equal(steps_of(BTI_STEP_WORK), works);     \
    } while (0)

static bti_node *scalar(double value) {
    int64_t bits;
    memcpy(&bits, &value, sizeof bits);
    return constant(0, bits);
}

static void a_chain_is_one_kernel(void **state) {
    bti_node *x = leaf(0, SHAPE(4, 6)), *row = leaf(0, SHAPE(1, 6)), *half = scalar(0.5);
    bti_node *wide = OP(expand, 0, SHAPE(4, 6), NO_ATTR, row);
    bti_node *all = OP(expand, 0, SHAPE(4, 6), NO_ATTR, OP(reshape, 0, SHAPE(1, 1), NO_ATTR, half));
    bti_node *y = OP(mul, 0, SHAPE(4, 6), NO_ATTR,
                     OP(add, 0, SHAPE(4, 6), NO_ATTR, OP(exp, 0, SHAPE(4, 6), NO_ATTR, x), wide), all);
    FUSE(y);
    EXPECT_STEPS(1, 0);
    const bti_kernel *kernel = kernel_at(0);
    assert_int_equal(kernel->input_count, 2);
    assert_int_equal(kernel->output_count, 1);
    assert_int_equal(kernel->scalar_count, 1);
    assert_int_equal(kernel->outer, 1); /* the row is not one axis with the rest */
}

static void what_is_dense_is_one_axis(void **state) {
    bti_node *x = leaf(0, SHAPE(2, 3, 4)),
             *flat = OP(reshape, 0, SHAPE(24), NO_ATTR, OP(neg, 0, SHAPE(2, 3, 4), NO_ATTR, x));
    FUSE(OP(exp, 0, SHAPE(24), NO_ATTR, flat),
         OP(abs, 0, SHAPE(6, 4), NO_ATTR, OP(reshape, 0, SHAPE(6, 4), NO_ATTR, flat)));
    EXPECT_STEPS(1, 0);
    assert_int_equal(bti_kernel_axes(kernel_at(0)), 1);
    assert_int_equal(kernel_at(0)->output_count, 2);
}

/* x -> exp(x - max) / sum, over the last axis. */
static bti_node *softmax(bti_node *x, int64_t rows, int64_t columns) {
    bti_node *top = OP(expand, 0, SHAPE(rows, columns), NO_ATTR, OP(max, 0, SHAPE(rows, 1), ATTR(2), x));
    bti_node *power = OP(exp, 0, SHAPE(rows, columns), NO_ATTR, OP(sub, 0, SHAPE(rows, columns), NO_ATTR, x, top));
    bti_node *sum = OP(reshape, 0, SHAPE(rows), NO_ATTR, OP(sum, 0, SHAPE(rows, 1), ATTR(2), power));
    bti_node *wide = OP(expand, 0, SHAPE(rows, columns), NO_ATTR, OP(reshape, 0, SHAPE(rows, 1), NO_ATTR, sum));
    return OP(div, 0, SHAPE(rows, columns), NO_ATTR, power, wide);
}

static void softmax_is_one_kernel(void **state) {
    FUSE(softmax(OP(neg, 0, SHAPE(64, 1000), NO_ATTR, leaf(0, SHAPE(64, 1000))), 64, 1000));
    EXPECT_STEPS(1, 0);
    assert_int_equal(kernel_at(0)->reduced, 1);
    assert_int_equal(kernel_at(0)->inner, 0);
    assert_int_equal(bti_kernel_sweeps(kernel_at(0)), 3);
}

static void few_long_rows_are_not_gone_over_again(void **state) {
    FUSE(softmax(leaf(0, SHAPE(2, 1000000)), 2, 1000000));
    EXPECT_STEPS(3, 0);
}

/* By the facts of the device: fewer rows than it has units, or than its caches hold, are split over the units. */
static void rows_are_gone_over_again_where_they_stay(void **state) {
    const bti_target_facts before = facts;
    FUSE(softmax(leaf(0, SHAPE(20, 100000)), 20, 100000));
    EXPECT_STEPS(1, 0);
    facts.units = 100;
    FUSE(softmax(leaf(0, SHAPE(20, 100000)), 20, 100000));
    EXPECT_STEPS(3, 0);
    facts.local_bytes = 400000;
    FUSE(softmax(leaf(0, SHAPE(20, 100000)), 20, 100000));
    EXPECT_STEPS(1, 0);
    facts.cache_bytes = 1 << 16;
    FUSE(softmax(leaf(0, SHAPE(20, 100000)), 20, 100000));
    EXPECT_STEPS(3, 0);
    facts = before;
}

static void columns_are_folded_once(void **state) {
    bti_node *x = leaf(0, SHAPE(100, 32)), *y = OP(mul, 0, SHAPE(100, 32), NO_ATTR, x, x);
    bti_node *sum = OP(sum, 0, SHAPE(1, 32), ATTR(1), y), *root = OP(sqrt, 0, SHAPE(1, 32), NO_ATTR, sum);
    bti_node *wide = OP(expand, 0, SHAPE(100, 32), NO_ATTR, root);
    FUSE(OP(div, 0, SHAPE(100, 32), NO_ATTR, x, wide));
    EXPECT_STEPS(2, 0);
    assert_int_equal(kernel_at(0)->inner, 1);
    assert_int_equal(kernel_at(0)->reduced, 1);
    assert_int_equal(kernel_at(1)->reduced, 0);
}

static void all_axes_fold_as_one_line(void **state) {
    bti_node *x = leaf(0, SHAPE(10, 20, 30));
    FUSE(OP(sum, 0, SHAPE(1, 1, 1), ATTR(7), OP(exp, 0, SHAPE(10, 20, 30), NO_ATTR, x)));
    EXPECT_STEPS(1, 0);
    assert_int_equal(bti_kernel_axes(kernel_at(0)), 1);
    bti_node *row = leaf(0, SHAPE(1, 1, 30)); /* does not lie in that line: the product is made first */
    FUSE(OP(sum, 0, SHAPE(1, 1, 1), ATTR(7),
            OP(mul, 0, SHAPE(10, 20, 30), NO_ATTR, x, OP(expand, 0, SHAPE(10, 20, 30), NO_ATTR, row))));
    EXPECT_STEPS(2, 0);
    assert_int_equal(bti_kernel_axes(kernel_at(1)), 1);
}

static void products_stand_between(void **state) {
    bti_node *x = leaf(0, SHAPE(8, 8)), *a = OP(exp, 0, SHAPE(8, 8), NO_ATTR, x),
             *m = OP(matmul, 0, SHAPE(8, 8), NO_ATTR, a, x);
    bti_node *late = OP(add, 0, SHAPE(8, 8), NO_ATTR, a, m), *beside = OP(neg, 0, SHAPE(8, 8), NO_ATTR, a);
    FUSE(late, beside); /* exp with neg; matmul; add */
    EXPECT_STEPS(2, 1);
    assert_int_equal(kernel_at(0)->output_count, 2);
}

static void views_of_what_is_made_are_read_from_memory(void **state) {
    bti_node *x = leaf(0, SHAPE(8, 8)), *a = OP(exp, 0, SHAPE(8, 8), NO_ATTR, x);
    bti_node *turned = OP(permute, 0, SHAPE(8, 8), ATTR(1, 0), a);
    FUSE(OP(add, 0, SHAPE(8, 8), NO_ATTR, a, turned));
    EXPECT_STEPS(2, 0);
}

/* Two ways from a to d, one through a kernel that cannot be joined: no kernel may wait for itself. */
static void no_kernel_waits_for_itself(void **state) {
    bti_node *x = leaf(0, SHAPE(8, 8)), *a = OP(exp, 0, SHAPE(8, 8), NO_ATTR, x);
    bti_node *t = OP(permute, 0, SHAPE(8, 8), ATTR(1, 0), a), *b = OP(neg, 0, SHAPE(8, 8), NO_ATTR, t);
    bti_node *t2 = OP(permute, 0, SHAPE(8, 8), ATTR(1, 0), b), *c = OP(abs, 0, SHAPE(8, 8), NO_ATTR, t2);
    FUSE(OP(mul, 0, SHAPE(8, 8), NO_ATTR, OP(add, 0, SHAPE(8, 8), NO_ATTR, a, c), a));
    EXPECT_STEPS(3, 0);
}

static void long_chains_are_cut(void **state) {
    bti_node *x = leaf(0, SHAPE(4)), *y = x;
    for (int i = 0; i < 1000; i++) y = OP(add, 0, SHAPE(4), NO_ATTR, y, x);
    FUSE(y);
    assert_true(plan.steps.count >= 7 && plan.steps.count <= 20);
    assert_true(plan.kernels.count <= 3); /* the same one again and again, but for the first and the last */
}

static void more_than_64_inputs_are_split(void **state) {
    bti_node *sum = leaf(0, SHAPE(4));
    for (int i = 0; i < 200; i++) sum = OP(add, 0, SHAPE(4), NO_ATTR, sum, leaf(0, SHAPE(4)));
    FUSE(sum);
    assert_true(plan.steps.count >= 4);
}

static void more_than_64_results_are_split(void **state) {
    bti_node *x = leaf(0, SHAPE(4)), *y = x, *kept[150];
    for (int i = 0; i < 150; i++) kept[i] = y = OP(exp, 0, SHAPE(4), NO_ATTR, y);
    plan_fused(kept, 150);
    assert_true(plan.steps.count >= 3);
    bti_node *late[150]; /* read from memory by others that come later */
    end(state);
    x = leaf(0, SHAPE(8, 8)), y = x;
    for (int i = 0; i < 150; i++) kept[i] = y = OP(exp, 0, SHAPE(8, 8), NO_ATTR, y);
    for (int i = 0; i < 150; i++) late[i] = OP(matmul, 0, SHAPE(8, 8), NO_ATTR, kept[i], x);
    plan_fused(late, 150);
}

static void numbers_need_no_memory(void **state) {
    bti_node *numbers = op(BTI_OP_iota, 0, SHAPE(12), NO_ATTR, 0, NULL);
    bti_node *table = OP(reshape, 0, SHAPE(3, 4), NO_ATTR, numbers),
             *turned = OP(permute, 0, SHAPE(4, 3), ATTR(1, 0), table);
    FUSE(OP(neg, 0, SHAPE(4, 3), NO_ATTR, turned));
    EXPECT_STEPS(1, 0);
    assert_int_equal(kernel_at(0)->operands[0].index, 1);
    assert_int_equal(plan.numbers.items[plan.steps.items[0].first_number + 2], 1); /* along the columns of the table */
    FUSE(numbers, OP(exp, 0, SHAPE(12), NO_ATTR, numbers));                        /* as a result it is made */
    EXPECT_STEPS(2, 0);
}

static void constants_are_computed_while_planning(void **state) {
    bti_node *x = leaf(0, SHAPE(8)), *sum = OP(add, 0, SCALAR, NO_ATTR, scalar(1), scalar(2));
    FUSE(OP(mul, 0, SHAPE(8), NO_ATTR, x, OP(expand, 0, SHAPE(8), NO_ATTR, OP(reshape, 0, SHAPE(1), NO_ATTR, sum))));
    EXPECT_STEPS(1, 0);
    double three;
    memcpy(&three, &plan.scalars.items[plan.steps.items[0].first_scalar], sizeof three);
    assert_true(three == 3);
}

static void temporaries_share_an_arena(void **state) {
    bti_node *x = leaf(0, SHAPE(16, 16)), *y = x;
    for (int i = 0; i < 10; i++) y = OP(matmul, 0, SHAPE(16, 16), NO_ATTR, y, x);
    FUSE(y);
    assert_int_equal(plan.arenas.items[0], 2 * 16 * 16 * 4); /* one is read while the next is written */
    arenas = false;
    FUSE(y);
    assert_int_equal(plan.arenas.count, 0);
    int64_t bytes;
    bti_plan_memory(&plan, NULL, &bytes, 1);
    assert_int_equal(bytes, 10 * 16 * 16 * 4); /* each for itself */
    arenas = true;
}

static void kernels_work_in_place_of_what_they_read_last(void **state) {
    bti_node *x = leaf(0, SHAPE(16, 16)), *m = OP(matmul, 0, SHAPE(16, 16), NO_ATTR, x, x);
    bti_node *y = OP(exp, 0, SHAPE(16, 16), NO_ATTR, m);
    FUSE(OP(matmul, 0, SHAPE(16, 16), NO_ATTR, y, x));
    assert_int_equal(plan.arenas.items[0], 16 * 16 * 4);
}

static int step_of(bti_op op) {
    for (size_t s = 0; s < plan.steps.count; s++) {
        const bti_step *step = &plan.steps.items[s];
        for (int m = 0; m < step->member_count; m++)
            if (plan.members.items[step->first_member + m]->op == op) return (int)s;
        if (step->kind == BTI_STEP_WORK && step->op == op) return (int)s;
    }
    return -1;
}

/* What is read through a barrier is computed again: from memory, and only when the other value is there. */
static void barriers_keep_apart(void **state) {
    bti_node *x = leaf(0, SHAPE(4, 4)), *y = OP(neg, 0, SHAPE(4, 4), NO_ATTR, x);
    bti_node *kept = OP(exp, 0, SHAPE(4, 4), NO_ATTR, y), *after = OP(sin, 0, SHAPE(4, 4), NO_ATTR, x);
    bti_node *read = OP(barrier, 0, SHAPE(4, 4), NO_ATTR, y, after);
    bti_node *again = OP(exp, 0, SHAPE(4, 4), NO_ATTR, read);
    bti_node *work = OP(matmul, 0, SHAPE(4, 4), NO_ATTR, again, x);
    bti_node *flat = OP(exp, 0, SHAPE(16), NO_ATTR, OP(reshape, 0, SHAPE(16), NO_ATTR, read));
    bti_node *both = OP(add, 0, SHAPE(4, 4), NO_ATTR, kept, read);
    FUSE(kept, again);
    EXPECT_STEPS(2, 0);
    FUSE(kept, flat);
    EXPECT_STEPS(2, 0);
    FUSE(both);
    EXPECT_STEPS(2, 0);
    FUSE(work, OP(cos, 0, SHAPE(4, 4), NO_ATTR, after)); /* the kernel of `after` has the last operation of all */
    assert_true(step_of(BTI_OP_sin) < step_of(BTI_OP_exp));
    assert_int_equal(step_of(BTI_OP_sin), step_of(BTI_OP_cos));
    FUSE(work, OP(barrier, 0, SHAPE(4, 4), NO_ATTR, after, x));
    assert_true(step_of(BTI_OP_sin) < step_of(BTI_OP_exp));
}

/* --- rows that are taken by number ------------------------------------------------------------------------------------ */

static bti_node *numbers_leaf(int rank, const int64_t *shape) {
    bti_node *numbers = leaf(0, rank, shape);
    numbers->dtype = BT_I32;
    return numbers;
}

static void rows_are_taken_by_the_kernels_of_their_readers(void **state) {
    bti_node *x = leaf(0, SHAPE(1000, 64)), *y = numbers_leaf(SHAPE(100)), *position = leaf(0, SHAPE(100, 64));
    bti_node *rows = OP(take, 0, SHAPE(100, 64), ATTR(0), x, y);
    bti_node *sum = OP(add, 0, SHAPE(100, 64), NO_ATTR, rows, position);
    FUSE(sum);
    EXPECT_STEPS(1, 0);
    const bti_kernel *kernel = kernel_at(0);
    assert_int_equal(kernel->input_count, 3);
    assert_int_equal(kernel->operands[0].taken + kernel->operands[1].taken + kernel->operands[2].taken, 1);
    assert_int_equal(plan.scalars.items[plan.steps.items[0].first_scalar], 1000);    /* rows */
    assert_int_equal(plan.scalars.items[plan.steps.items[0].first_scalar + 1], 256); /* bytes of one */
    bti_traffic traffic = bti_plan_traffic(&plan);
    assert_int_equal(traffic.read, 4 * (100 * 64 + 100 + 100 * 64)); /* not the whole table */
    assert_int_equal(traffic.written, 4 * 100 * 64);
    FUSE(rows); /* nothing is gained by a kernel */
    EXPECT_STEPS(0, 1);
    traffic = bti_plan_traffic(&plan);
    assert_int_equal(traffic.read, 4 * (100 * 64 + 100));
    FUSE(OP(sub, 0, SHAPE(100, 64), NO_ATTR, sum, OP(mul, 0, SHAPE(100, 64), NO_ATTR, rows, rows)));
    EXPECT_STEPS(1, 0); /* two readers */
    FUSE(sum, rows);
    EXPECT_STEPS(1, 0); /* and the program */
    assert_int_equal(kernel_at(0)->output_count, 2);
    FUSE(sum, OP(matmul, 0, SHAPE(100, 100), NO_ATTR, rows, OP(permute, 0, SHAPE(64, 100), ATTR(1, 0), position)));
    EXPECT_STEPS(1, 1); /* a product reads them from memory */
}

static void rows_are_taken_again_where_they_stay(void **state) {
    bti_node *x = leaf(0, SHAPE(1000, 64)), *y = numbers_leaf(SHAPE(100)), *table = leaf(0, SHAPE(1000));
    bti_node *rows = OP(take, 0, SHAPE(100, 64), ATTR(0), x, y);
    bti_node *most = OP(max, 0, SHAPE(100, 1), ATTR(2), rows);
    bti_node *wide = OP(expand, 0, SHAPE(100, 64), NO_ATTR, most);
    FUSE(OP(sub, 0, SHAPE(100, 64), NO_ATTR, rows, wide));
    EXPECT_STEPS(1, 0);
    assert_int_equal(bti_kernel_sweeps(kernel_at(0)), 2);
    FUSE(OP(sum, 0, SHAPE(1, 64), ATTR(1), rows));
    EXPECT_STEPS(1, 0);
    assert_int_equal(kernel_at(0)->inner, 1);
    bti_node *elements = OP(take, 0, SHAPE(100), ATTR(0), table, y);
    bti_node *top = OP(max, 0, SHAPE(1), ATTR(1), elements);
    FUSE(top);
    EXPECT_STEPS(1, 0);
    FUSE(OP(sub, 0, SHAPE(100), NO_ATTR, elements, OP(expand, 0, SHAPE(100), NO_ATTR, top)));
    EXPECT_STEPS(2, 0); /* elements from anywhere are taken once */
    assert_int_equal(kernel_at(0)->output_count, 2);
    bti_node *chosen = OP(gather_axis, 0, SHAPE(100, 1), ATTR(1), leaf(0, SHAPE(100, 7)), numbers_leaf(SHAPE(100, 1)));
    FUSE(OP(neg, 0, SHAPE(100, 1), NO_ATTR, chosen));
    EXPECT_STEPS(1, 0);
}

static void takes_that_stay_steps(void **state) {
    bti_node *x = leaf(0, SHAPE(1000, 3)), *y = numbers_leaf(SHAPE(100));
    bti_node *read = OP(neg, 0, SHAPE(100, 3), NO_ATTR, OP(take, 0, SHAPE(100, 3), ATTR(0), x, y));
    facts.lanes = 8;
    FUSE(read);
    EXPECT_STEPS(1, 1); /* rows that are shorter than a vector */
    facts.group_threads = 256;
    FUSE(read);
    EXPECT_STEPS(1, 0); /* which threads do not mind */
    facts.lanes = facts.group_threads = 0;
    bti_node *computed = OP(exp, 0, SHAPE(1000, 3), NO_ATTR, x);
    bti_node *taken = OP(take, 0, SHAPE(100, 3), ATTR(0), computed, y);
    FUSE(OP(neg, 0, SHAPE(100, 3), NO_ATTR, taken));
    EXPECT_STEPS(2, 0); /* what is taken from is in memory */
    bti_node *one = leaf(0, SHAPE(1, 3)), *first = OP(exp, 0, SHAPE(1, 3), NO_ATTR, one);
    taken = OP(take, 0, SHAPE(1, 3), ATTR(0), first, numbers_leaf(SHAPE(1)));
    FUSE(OP(neg, 0, SHAPE(1, 3), NO_ATTR, OP(add, 0, SHAPE(1, 3), NO_ATTR, taken, first)));
    EXPECT_STEPS(2, 0); /* even a single row */
    taken = OP(take, 0, SHAPE(1, 3), ATTR(0), one, numbers_leaf(SHAPE(1)));
    FUSE(OP(add, 0, SHAPE(1, 3), NO_ATTR, taken, one)); /* which is another operand than the array */
    EXPECT_STEPS(1, 0);
    assert_int_equal(kernel_at(0)->input_count, 3);
    FUSE(OP(take, 0, SHAPE(1, 3), ATTR(0), x, OP(reshape, 0, SHAPE(1), NO_ATTR, scalar(2))));
    EXPECT_STEPS(1, 1); /* a number that no kernel makes for itself is put in memory */
}

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(a_chain_is_one_kernel),
        TEST(what_is_dense_is_one_axis),
        TEST(softmax_is_one_kernel),
        TEST(few_long_rows_are_not_gone_over_again),
        TEST(rows_are_gone_over_again_where_they_stay),
        TEST(columns_are_folded_once),
        TEST(all_axes_fold_as_one_line),
        TEST(products_stand_between),
        TEST(views_of_what_is_made_are_read_from_memory),
        TEST(no_kernel_waits_for_itself),
        TEST(long_chains_are_cut),
        TEST(more_than_64_inputs_are_split),
        TEST(more_than_64_results_are_split),
        TEST(numbers_need_no_memory),
        TEST(constants_are_computed_while_planning),
        TEST(barriers_keep_apart),
        TEST(temporaries_share_an_arena),
        TEST(kernels_work_in_place_of_what_they_read_last),
        TEST(rows_are_taken_by_the_kernels_of_their_readers),
        TEST(rows_are_taken_again_where_they_stay),
        TEST(takes_that_stay_steps),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
