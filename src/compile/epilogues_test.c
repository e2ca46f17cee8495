/* Which maps are epilogues of products, and where both run. */
#include "compile/compile_test.h"

static void plan_joined(bti_node *const *wanted, int count) {
    fusing = BTI_FUSED;
    facts.epilogues = true;
    make_plan(wanted, count);
    facts.epilogues = false;
    for (size_t k = 0; k < plan.kernels.count; k++) assert_null(bti_kernel_verify(plan.kernels.items[k]));
}
#define JOIN(...) plan_joined((bti_node *[]){__VA_ARGS__}, COUNT(((bti_node *[]){__VA_ARGS__})))

static bti_node *matrix(int64_t rows, int64_t columns) { return leaf(0, SHAPE(rows, columns)); }
static bti_node *product(bti_node *a, bti_node *b) {
    return OP(matmul, 0, SHAPE(a->shape[0], b->shape[1]), NO_ATTR, a, b);
}
static bti_node *map_of(bti_node *x) { return OP(exp, 0, SHAPE(x->shape[0], x->shape[1]), NO_ATTR, x); }
static bti_node *sum_of(bti_node *x, bti_node *y) { return OP(add, 0, SHAPE(x->shape[0], x->shape[1]), NO_ATTR, x, y); }

static void a_map_is_an_epilogue(void **state) {
    bti_node *bias = OP(expand, 0, SHAPE(20, 30), NO_ATTR, matrix(1, 30));
    bti_node *y = map_of(sum_of(product(matrix(20, 10), matrix(10, 30)), bias));
    JOIN(y);
    assert_int_equal(plan.steps.count, 1);
    const bti_step *step = &plan.steps.items[0];
    assert_int_equal(step->kind, BTI_STEP_PRODUCT);
    assert_int_equal(step->input_count, 4); /* the product, the bias, two factors */
    assert_int_equal(step->output_count, 1);
    assert_int_equal(step->member_count, 3);
    assert_int_equal(bti_plan_operand(&plan, step, step->made)->storage, -1);
    assert_int_equal(bti_plan_operand(&plan, step, 2)->shape[1], 10);
    assert_int_equal(bti_plan_operand(&plan, step, 3)->shape[0], 10);
    assert_int_equal(bti_plan_numbers(&plan, step, 0)[0], 20);
    assert_int_equal(bti_plan_numbers(&plan, step, 0)[1], 30);
    assert_int_equal(plan.arenas.count, 0);
    char text[48];
    bti_step_name(text, sizeof text, &plan, step);
    assert_string_equal(text, "matmul+add+exp");
    assert_true(bti_plan_operations(&plan) == 2 * 20 * 30 * 10 + 2 * 20 * 30);
    bti_traffic traffic = bti_plan_traffic(&plan);
    assert_int_equal(traffic.read, (20 * 10 + 10 * 30 + 30) * 4);
    assert_int_equal(traffic.written, 20 * 30 * 4);
}

/* One axis of the nest becomes rows and columns. */
static void nests_are_split(void **state) {
    bti_node *y = map_of(product(matrix(1, 10), matrix(10, 30)));
    JOIN(y);
    const bti_step *step = &plan.steps.items[0];
    const bti_kernel *kernel = plan.kernels.items[step->kernel];
    assert_int_equal(step->kind, BTI_STEP_PRODUCT);
    assert_int_equal(bti_kernel_axes(kernel), 2);
    const int64_t numbers[] = {1, 30, 0, 4, 120, 4};
    assert_memory_equal(bti_plan_numbers(&plan, step, 0), numbers, sizeof numbers);

    bti_node *a = leaf(0, SHAPE(3, 4, 10)), *b = leaf(0, SHAPE(3, 10, 16));
    bti_node *batch = OP(exp, 0, SHAPE(3, 4, 16), NO_ATTR, OP(matmul, 0, SHAPE(3, 4, 16), NO_ATTR, a, b));
    JOIN(batch);
    step = &plan.steps.items[0];
    const int64_t of_batch[] = {3, 4, 16, 256, 64, 4, 256, 64, 4};
    assert_int_equal(step->kind, BTI_STEP_PRODUCT);
    assert_memory_equal(bti_plan_numbers(&plan, step, 0), of_batch, sizeof of_batch);
}

static void not_each_reader_is_one(void **state) {
    bti_node *a = matrix(20, 20), *p = product(a, a);
    JOIN(OP(exp, 0, SHAPE(20, 20), NO_ATTR, OP(permute, 0, SHAPE(20, 20), ATTR(1, 0), p))); /* in another order */
    assert_int_equal(plan.steps.count, 2);
    JOIN(OP(sum, 0, SHAPE(20, 1), ATTR(2), map_of(p))); /* a reduction */
    assert_int_equal(plan.steps.count, 2);
    JOIN(map_of(product(a, matrix(20, 3)))); /* few columns */
    assert_int_equal(plan.steps.count, 2);
    bti_node *part = OP(slice, 0, SHAPE(10, 20), ATTR(0, 0, 1, 1), p);
    JOIN(OP(exp, 0, SHAPE(10, 20), NO_ATTR, part));
    assert_int_equal(plan.steps.count, 2);
    bti_node *both = sum_of(p, OP(permute, 0, SHAPE(20, 20), ATTR(1, 0), p)); /* in two orders at once */
    JOIN(both);
    assert_int_equal(plan.steps.count, 2);
    fusing = BTI_SINGLE;
    facts.epilogues = true;
    PLAN(map_of(p));
    assert_int_equal(plan.steps.count, 2);
    fusing = BTI_FUSED;
    facts.epilogues = false;
    PLAN(map_of(p));
    assert_int_equal(plan.steps.count, 2);
}

/* The product is stored by the epilogue for its other readers, which come later. */
static void others_read_it_too(void **state) {
    bti_node *p = product(matrix(20, 10), matrix(10, 30)), *y = map_of(p);
    bti_node *z = OP(sum, 0, SHAPE(20, 1), ATTR(2), OP(permute, 0, SHAPE(20, 30), ATTR(0, 1), p));
    JOIN(y, z, p);
    assert_int_equal(plan.steps.count, 2);
    const bti_step *step = &plan.steps.items[0];
    assert_int_equal(step->kind, BTI_STEP_PRODUCT);
    assert_int_equal(step->output_count, 2);
    assert_int_equal(bti_plan_output(&plan, step, 1)->storage, value_of(p)->storage);
    assert_int_equal(storage_of(p)->last_step, 2);
}

/* A map that waits for another reader of the product is none. */
static void who_waits_for_the_product_is_none(void **state) {
    bti_node *p = product(matrix(20, 10), matrix(10, 20));
    bti_node *q = product(p, matrix(20, 20));
    JOIN(OP(mul, 0, SHAPE(20, 20), NO_ATTR, p, map_of(q)));
    assert_int_equal(plan.steps.count, 2); /* of q alone, which reads p from memory */
    assert_int_equal(plan.steps.items[0].kind, BTI_STEP_WORK);
    assert_int_equal(plan.steps.items[1].kind, BTI_STEP_PRODUCT);
    assert_int_equal(plan.steps.items[1].input_count, 4);
}

/* Of two products the last one; an update moves up to its gradient, and no factor lives longer. */
static void where_both_run(void **state) {
    bti_node *x = matrix(20, 10), *w = matrix(10, 30), *h = map_of(x);
    JOIN(sum_of(product(x, w), product(h, w)));
    assert_int_equal(plan.steps.count, 3);
    assert_int_equal(plan.steps.items[2].kind, BTI_STEP_PRODUCT);

    bti_node *g = product(h, w), *other = product(matrix(20, 30), matrix(30, 10)), *late = sum_of(x, other);
    bti_node *update = sum_of(g, matrix(20, 30));
    JOIN(late, update);
    assert_int_equal(plan.steps.count, 3);
    assert_int_equal(bti_plan_output(&plan, &plan.steps.items[1], 0)->storage, value_of(update)->storage);
    assert_int_equal(bti_plan_output(&plan, &plan.steps.items[2], 0)->storage, value_of(late)->storage);

    bti_node *early = product(map_of(x), w),
             *waits = sum_of(early, map_of(product(other, w))); /* of a temporary factor */
    JOIN(waits);
    assert_int_equal(plan.steps.items[plan.steps.count - 1].kind, BTI_STEP_PRODUCT);
    assert_int_equal(bti_plan_operand(&plan, &plan.steps.items[plan.steps.count - 1], 2)->shape[1], 10);
}

static void a_checkpoint_reads_from_memory(void **state) {
    bti_node *p = product(matrix(20, 10), matrix(10, 30));
    bti_node *again = OP(barrier, 0, SHAPE(20, 30), NO_ATTR, p, matrix(2, 2));
    JOIN(map_of(again), p);
    assert_int_equal(plan.steps.count, 2);
}

static void nothing_runs_in_place_of_what_it_reads(void **state) {
    bti_node *residual = map_of(matrix(20, 30)), *p = product(matrix(20, 10), matrix(10, 30));
    bti_node *a = OP(sum, 0, SHAPE(20, 1), ATTR(2), residual);
    bti_node *y = sum_of(p, residual), *z = product(y, matrix(30, 5));
    JOIN(a, z);
    for (size_t s = 0; s < plan.steps.count; s++)
        if (plan.steps.items[s].kind == BTI_STEP_PRODUCT)
            assert_false(plan.storages.items[bti_plan_output(&plan, &plan.steps.items[s], 0)->storage].in_place);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(a_map_is_an_epilogue),
        TEST(nests_are_split),
        TEST(not_each_reader_is_one),
        TEST(others_read_it_too),
        TEST(who_waits_for_the_product_is_none),
        TEST(where_both_run),
        TEST(a_checkpoint_reads_from_memory),
        TEST(nothing_runs_in_place_of_what_it_reads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
