/* Which values their readers compute again, by the facts of the device. */
#include "base/alloc.h"
#include "compile/compile_test.h"

enum { N = 64 };

static const bti_target_facts core = {.lanes = 8,
                                      .group_threads = 1,
                                      .units = 16,
                                      .local_bytes = 64 << 10,
                                      .cache_bytes = 1 << 20,
                                      .bandwidth = 200,
                                      .f64_slowdown = 2,
                                      .launch_boxes = 1};

static bti_node *square(bti_op o, bti_node *x, bti_node *y) {
    return op(o, 0, SHAPE(N, N), NO_ATTR, y ? 2 : 1, (bti_node *[]){x, y});
}
static bti_node *given(void) { return leaf(0, SHAPE(N, N)); }
static bti_node *product(bti_node *x) { return square(BTI_OP_matmul, x, given()); }

static bti_node *in_dtype(bti_op o, bt_dtype dtype, bti_node *x, bti_node *y) {
    bti_attr its = attr_of(o, NO_ATTR);
    int64_t shape[] = {N, N};
    return remember(bti_node_new(o, dtype, 2, shape, y ? 2 : 1, (bti_node *[]){x, y}, &its), 0);
}

static void plan_fused(bti_node *const *wanted, int count) {
    fusing = BTI_FUSED;
    make_plan(wanted, count);
    for (size_t k = 0; k < plan.kernels.count; k++) assert_null(bti_kernel_verify(plan.kernels.items[k]));
}
#define FUSE(...) plan_fused((bti_node *[]){__VA_ARGS__}, COUNT(((bti_node *[]){__VA_ARGS__})))

static void expect_kernel(int number, const char *name, int inputs, int outputs) {
    for (size_t s = 0; s < plan.steps.count; s++) {
        const bti_step *step = &plan.steps.items[s];
        if (step->kind != BTI_STEP_KERNEL || number-- > 0) continue;
        char said[48];
        bti_step_name(said, sizeof said, &plan, step);
        assert_string_equal(said, name);
        assert_int_equal(step->input_count, inputs);
        assert_int_equal(step->output_count, outputs);
        return;
    }
    fail_msg("there is no %s", name);
}

/* y = tanh(x), a product of it, and the product by 1 - y * y, which is made of what is in memory: its kernel makes that. */
static void what_costs_little_is_made_by_its_reader(void **state) {
    facts = core;
    bti_node *y = square(BTI_OP_tanh, given(), NULL), *slope = square(BTI_OP_neg, square(BTI_OP_mul, y, y), NULL);
    FUSE(square(BTI_OP_mul, product(y), slope));
    expect_kernel(0, "tanh", 1, 1);
    expect_kernel(1, "mul+neg+mul", 2, 1);
    assert_int_equal(plan.arenas.items[0], 2 * N * N * 4); /* the product lies in no place of a third */
}

/* s = sigmoid(x) and x * s: two more arrays are moved for s, or it is computed twice. */
static void plan_sigmoid(void) {
    bti_node *x = given(), *s = square(BTI_OP_sigmoid, x, NULL);
    FUSE(square(BTI_OP_mul, product(square(BTI_OP_mul, x, s)), s));
}

static void functions_are_repeated_where_memory_is_slow(void **state) {
    facts = core;
    plan_sigmoid();
    expect_kernel(0, "sigmoid+mul", 1, 2);
    expect_kernel(1, "mul", 2, 1);
    facts.bandwidth = 40;
    plan_sigmoid();
    expect_kernel(0, "sigmoid+mul", 1, 1);
    expect_kernel(1, "sigmoid+mul", 2, 1);
    facts = core, facts.lanes = 64;
    plan_sigmoid();
    expect_kernel(0, "sigmoid+mul", 1, 1);
}

/* On a card the function takes half as many instructions. */
static void functions_are_repeated_where_they_are_short(void **state) {
    facts = core, facts.bandwidth = 100;
    plan_sigmoid();
    expect_kernel(0, "sigmoid+mul", 1, 2);
    facts.group_threads = 1024;
    plan_sigmoid();
    expect_kernel(0, "sigmoid+mul", 1, 1);
}

static void plan_quotient(bt_dtype dtype) {
    bti_node *x = in_dtype(BTI_OP_cast, dtype, given(), NULL), *w = in_dtype(BTI_OP_matmul, dtype, x, x);
    bti_node *q = in_dtype(BTI_OP_div, dtype, x, x), *y = in_dtype(BTI_OP_mul, dtype, q, x);
    FUSE(in_dtype(BTI_OP_mul, dtype, in_dtype(BTI_OP_matmul, dtype, y, w), q));
}

static void float64_is_repeated_where_it_is_fast(void **state) {
    facts = core;
    plan_quotient(BT_F64);
    expect_kernel(1, "div+mul", 2, 1);
    facts.f64_slowdown = 16;
    plan_quotient(BT_F64);
    expect_kernel(1, "mul", 2, 1);
    plan_quotient(BT_F32);
    expect_kernel(1, "div+mul", 2, 1);
}

/* t = p + b of a product p is read by t * t, and with its product. */
static bti_node *biased(void) {
    bti_node *bias = OP(expand, 0, SHAPE(N, N), NO_ATTR, leaf(0, SHAPE(1, N)));
    bti_node *t = square(BTI_OP_add, product(given()), bias);
    return square(BTI_OP_mul, product(square(BTI_OP_mul, t, t)), t);
}

static void a_product_that_its_epilogue_reads_is_in_no_memory(void **state) {
    facts = core;
    FUSE(biased());
    expect_kernel(0, "add+mul", 2, 1);
    expect_kernel(1, "add+mul", 3, 1);
    facts.epilogues = true;
    FUSE(biased());
    int outputs = 0;
    for (size_t s = 0; s < plan.steps.count; s++)
        if (plan.steps.items[s].kind == BTI_STEP_PRODUCT) outputs += plan.steps.items[s].output_count;
    assert_int_equal(outputs, 3); /* t, its square, and the result */
}

/* Of the input of an activation: two functions are read by the result and by a later kernel. */
static void one_value_may_stand_for_several(void **state) {
    facts = core, facts.epilogues = true, facts.group_threads = 1024, facts.bandwidth = 50;
    bti_node *bias = OP(expand, 0, SHAPE(N, N), NO_ATTR, leaf(0, SHAPE(1, N)));
    bti_node *t = square(BTI_OP_add, product(given()), bias);
    bti_node *power = square(BTI_OP_exp, t, NULL), *root = square(BTI_OP_sqrt, t, NULL);
    bti_node *later = product(square(BTI_OP_sub, power, root));
    FUSE(square(BTI_OP_sub, square(BTI_OP_mul, later, power), root));
    assert_int_equal(plan.steps.count, 2);
    for (int s = 0; s < 2; s++) assert_int_equal(plan.steps.items[s].kind, BTI_STEP_PRODUCT);
    assert_int_equal(plan.steps.items[0].output_count, 2); /* t, and what is multiplied */
    char said[48];
    bti_step_name(said, sizeof said, &plan, &plan.steps.items[1]);
    assert_string_equal(said, "matmul+exp+sqrt+mul+sub");
}

/* Rows without their mean: the mean is stored, for less than the rows. */
static void values_of_rows_are_stored_for_it(void **state) {
    facts = core;
    bti_node *x = given(), *sum = OP(sum, 0, SHAPE(N, 1), ATTR(2), x), *mean = OP(neg, 0, SHAPE(N, 1), NO_ATTR, sum);
    bti_node *rest = square(BTI_OP_add, x, OP(expand, 0, SHAPE(N, N), NO_ATTR, mean));
    bti_node *y = square(BTI_OP_abs, rest, NULL);
    FUSE(square(BTI_OP_mul, product(y), rest));
    expect_kernel(0, "sum+neg+add+abs", 1, 2);
    expect_kernel(1, "add+mul", 3, 1);
    for (size_t s = 0; s < plan.storages.count; s++)
        if (plan.storages.items[s].why == BTI_WHY_SHAPE && plan.storages.items[s].first_step >= 0)
            assert_int_equal(plan.storages.items[s].bytes, N * 4);
}

/* What two kernels read leaves the kernel that made it; it then stores one of them alone. */
static void two_readers_make_it_each(void **state) {
    facts = core;
    bti_node *x = given(), *t = square(BTI_OP_neg, x, NULL), *y = square(BTI_OP_abs, t, NULL), *w = product(y);
    bti_node *one = square(BTI_OP_add, w, t), *two = square(BTI_OP_sub, product(one), t);
    FUSE(two);
    expect_kernel(0, "neg+abs", 1, 1);
    expect_kernel(1, "neg+add", 2, 1);
    expect_kernel(2, "neg+sub", 2, 1);
}

static void what_is_in_memory_anyway_is_read(void **state) {
    facts = core;
    bti_node *x = given(), *t = square(BTI_OP_neg, x, NULL), *y = square(BTI_OP_abs, t, NULL);
    bti_node *late = square(BTI_OP_mul, product(y), t);
    FUSE(late, t); /* a result */
    expect_kernel(0, "neg+abs", 1, 2);
    expect_kernel(1, "mul", 2, 1);
    FUSE(late, product(t)); /* read by a product */
    expect_kernel(1, "mul", 2, 1);
    bti_node *mask =
        in_dtype(BTI_OP_lt, BT_BOOL, x, square(BTI_OP_neg, y, NULL)); /* a byte, made of four that are not read */
    FUSE(op(BTI_OP_where, 0, SHAPE(N, N), NO_ATTR, 3, (bti_node *[]){mask, product(y), given()}));
    expect_kernel(1, "where", 3, 1);
}

static void memory_may_be_short(void **state) {
    facts = core;
    bti_node *wanted = biased(), *busy;
    bti_planning how = {.fusing = BTI_FUSED, .share = true, .target = target_of};
    bt_status status = BT_RESOURCE_EXHAUSTED;
    for (uint64_t n = 1; status != BT_OK; n++) {
        forget_plan();
        assert_int_equal(bti_reach(&wanted, 1, &order, &busy), BT_OK);
        bti_alloc_fail_at(n, false);
        status = bti_compile(&order, &wanted, 1, &how, &plan);
        bti_alloc_fail_at(0, false);
        assert_true(status == BT_OK || status == BT_RESOURCE_EXHAUSTED);
    }
    expect_kernel(1, "add+mul", 3, 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(what_costs_little_is_made_by_its_reader),
        TEST(functions_are_repeated_where_memory_is_slow),
        TEST(functions_are_repeated_where_they_are_short),
        TEST(float64_is_repeated_where_it_is_fast),
        TEST(a_product_that_its_epilogue_reads_is_in_no_memory),
        TEST(one_value_may_stand_for_several),
        TEST(values_of_rows_are_stored_for_it),
        TEST(two_readers_make_it_each),
        TEST(what_is_in_memory_anyway_is_read),
        TEST(memory_may_be_short),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
