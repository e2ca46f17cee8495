// labels: valgrind
/* Operations of the program's: shapes, runs on devices with and without host memory, functions, loops, batches, derivatives, misuse. */
#include "support/support.h"

#include <stdatomic.h>

/* --- an operation: the sum of each row of x [n, m], times attributes[0] -------------------------------------------------- */

static atomic_int runs, released;

static bt_status row_sums(const bt_elements *inputs, int count, const bt_elements *output, const bt_custom_args *args) {
    const bt_elements *x = inputs;
    int64_t columns = x->shape.size[1];
    if (count != 1 || args->attribute_count != 1) return BT_INTERNAL;
    for (int64_t i = 0; i < output->shape.size[0]; i++) {
        double sum = 0, factor = (double)args->attributes[0];
        for (int64_t j = i * columns; j < (i + 1) * columns; j++)
            sum += x->dtype == BT_F64 ? ((const double *)x->data)[j] : (double)((const float *)x->data)[j];
        if (output->dtype == BT_F64)
            ((double *)output->data)[i] = sum * factor;
        else
            ((float *)output->data)[i] = (float)(sum * factor);
    }
    atomic_fetch_add(&runs, 1);
    return BT_OK;
}

static bt_status row_sums_shape(const bt_elements *inputs, int count, bt_elements *output, const bt_custom_args *args) {
    (void)args;
    if (count != 1 || inputs[0].shape.rank != 2 || inputs[0].data) return BT_INVALID_ARGUMENT;
    if (inputs[0].dtype != BT_F32 && inputs[0].dtype != BT_F64) return BT_INVALID_ARGUMENT;
    output->shape.rank = 1;
    return BT_OK;
}

static void row_sums_gradient(bt_array *const *inputs, int count, bt_array *const *outputs, bt_array *const *cotangents,
                              bt_array **gradients, const bt_custom_args *args) {
    (void)count, (void)outputs;
    bt_array *g = bt_expand_dims(bt_mul(cotangents[0], bt_num((double)args->attributes[0])), 1);
    gradients[0] = bt_broadcast_shape(g, bt_shape_of(inputs[0]));
}

static void row_sums_tangent(bt_array *const *inputs, int count, bt_array *const *outputs, bt_array *const *tangents,
                             bt_array **made, const bt_custom_args *args) {
    (void)inputs, (void)count, (void)outputs;
    made[0] = bt_mul(bt_sum(tangents[0], BT_AXES(1), false), bt_num((double)args->attributes[0]));
}

static void note_release(void *data) {
    (void)data;
    atomic_fetch_add(&released, 1);
}

static bt_custom *new_row_sums(bool impure) {
    return bt_custom_new(BT_CUSTOM(.name = "row_sums", .run = row_sums, .shape = row_sums_shape,
                                   .gradient = row_sums_gradient, .tangent = row_sums_tangent, .release = note_release,
                                   .impure = impure));
}
static bt_array *times(bt_custom *op, bt_array *x, int64_t factor) { return bt_custom_call(op, &x, 1, &factor, 1); }

static bt_array *numbers(void) { return BT_ARRAY(float, (2, 3), 1, 2, 3, 4, 5, 6); }

/* --- values ---------------------------------------------------------------------------------------------------------------- */

static void computes(const char *settings) {
    fresh(settings);
    BT_SCOPE {
        bt_custom *op = new_row_sums(false);
        OK(bt_custom_status(op));
        bt_array *x = numbers();
        atomic_store(&runs, 0);
        bt_array *y = times(op, x, 2), *same = times(op, x, 2), *other = times(op, x, -3);
        assert_int_equal(atomic_load(&runs), 0); /* recorded, not run */
        OK(bt_eval_all((bt_array *[]){y, same, other}, 3));
        READS(y, 12, 30);
        READS(same, 12, 30);
        READS(other, -18, -45);
        assert_int_equal(atomic_load(&runs), 2); /* equal calls once */
        READS(times(op, bt_transpose(bt_exp(bt_zeros(BT_F32, 2, 3))), 1), 2, 2, 2);
        READS(bt_add(times(op, bt_neg(x), INT64_MIN), times(op, x, INT64_MIN)), 0, 0); /* no size is so small */
        assert_int_equal(bt_count(times(op, bt_zeros(BT_F32, 0, 3), 1)), 0);
        OK(bt_block(times(op, bt_zeros(BT_F32, 0, 3), 1)));
    }
}
static void on_the_cpu(void **state) { computes(""); }
static void on_a_device(void **state) { computes("devices=sim:gpu*2"); }

static void impure_calls_are_apart(void **state) {
    fresh("");
    BT_SCOPE {
        bt_custom *op = new_row_sums(true);
        bt_array *x = numbers();
        atomic_store(&runs, 0);
        bt_array *y = bt_add(times(op, x, 1), times(op, x, 1));
        READS(y, 12, 30);
        assert_int_equal(atomic_load(&runs), 2);
        bt_custom *twin = new_row_sums(false), *second = new_row_sums(false); /* of one name: other operations */
        READS(bt_add(times(twin, x, 1), times(second, x, 1)), 12, 30);
        assert_int_equal(atomic_load(&runs), 4);
    }
}

static bt_status above(const bt_elements *inputs, int count, const bt_elements *output, const bt_custom_args *args) {
    (void)count, (void)args;
    for (int64_t i = 0; i < output->shape.size[0]; i++)
        ((unsigned char *)output->data)[i] = ((const float *)inputs[0].data)[i] > 0 ? 0x80 : 0;
    return BT_OK;
}
static bt_status bools(const bt_elements *inputs, int count, bt_elements *output, const bt_custom_args *args) {
    (void)inputs, (void)count, (void)args;
    output->dtype = BT_BOOL;
    return BT_OK;
}

static void bools_are_0_or_1(const char *settings) {
    fresh(settings);
    BT_SCOPE {
        bt_custom *op = bt_custom_new(BT_CUSTOM(.name = "above", .run = above, .shape = bools));
        bt_array *x = BT_ARRAY(float, (3), 1, -1, 2), *y = bt_custom_call(op, &x, 1, NULL, 0);
        READS(bt_cast(y, BT_I32), 1, 0, 1);
        READS(bt_sum(bt_cast(y, BT_F32), BT_ALL, false), 2);
    }
}
static void bools_on_both(void **state) {
    bools_are_0_or_1("");
    bools_are_0_or_1("devices=sim:gpu*1");
}

/* --- functions, loops, batches ------------------------------------------------------------------------------------------- */

static void in_functions(const char *settings) {
    fresh(settings);
    BT_SCOPE {
        bt_custom *op = new_row_sums(false);
        bt_array *x = bt_input(BT_F32, -1, -1), *y = times(op, bt_mul(x, x), 2), *gradient;
        OK(bt_grad(bt_sum(y, BT_ALL, false), &x, 1, &gradient));
        bt_function *f = bt_function_new(&x, 1, (bt_array *[]){y, gradient}, 2, NULL, 0);
        bt_custom_release(op); /* the function has it */
        for (int n = 1; n <= 3; n++) {
            bt_array *arg = bt_full(n, BT_F32, 1, n), *results[2];
            OK(bt_call(f, &arg, 1, results, 2));
            READS(results[0], 2.0 * n * n * n);
            READS(bt_max(results[1], BT_ALL, false), 4.0 * n);
        }
    }
}
static void in_functions_of_both(void **state) {
    atomic_store(&released, 0);
    in_functions("");
    in_functions("devices=sim:gpu*1");
    fresh("");
    assert_int_equal(atomic_load(&released), 2);
}

/* Of unknown sizes: one that only equal ones fit. */
static bt_status square_shape(const bt_elements *inputs, int count, bt_elements *output, const bt_custom_args *args) {
    (void)count, (void)args;
    const int64_t *size = inputs[0].shape.size;
    if (size[0] >= 0 && size[1] >= 0 && size[0] != size[1]) return BT_OUT_OF_RANGE;
    output->shape.rank = 1;
    return BT_OK;
}

static void a_call_asks_for_the_shape_again(void **state) {
    fresh("");
    BT_SCOPE {
        bt_custom *op = bt_custom_new(BT_CUSTOM(.name = "trace", .run = row_sums, .shape = square_shape));
        bt_array *x = bt_input(BT_F32, -1, -1), *y = times(op, x, 1), *result;
        bt_function *f = bt_function_new(&x, 1, &y, 1, NULL, 0);
        bt_array *arg = bt_ones(BT_F32, 2, 2);
        OK(bt_call(f, &arg, 1, &result, 1));
        READS(result, 2, 2);
        arg = numbers();
        FAILS(bt_call(f, &arg, 1, &result, 1), BT_INVALID_ARGUMENT, "the sizes do not fit", "trace", "(2, 3)");
        POISONED(times(op, numbers(), 1), BT_OUT_OF_RANGE, "the shape rule of the operation \"trace\" refuses",
                 "float32 (2, 3)");
    }
}

static void add_sums(bt_array **carry, bt_array *const *x, bt_array **y, void *op) {
    (void)y;
    carry[0] = bt_add(carry[0], times(op, x[0], 2));
}

static bt_array *scanned(bt_array *const *x, int count, void *op) {
    (void)count;
    bt_array *carry = bt_zeros(BT_F32, 2);
    (void)!bt_scan(add_sums, op, BT_ALL_ROWS, &carry, 1, x, 1, NULL, 0);
    return bt_sum(bt_mul(carry, carry), BT_ALL, false);
}

static void in_a_scan(const char *settings) {
    fresh(settings);
    BT_SCOPE {
        bt_custom *op = new_row_sums(false);
        bt_array *x = bt_reshape(bt_arange(0, 12, 1, BT_F32), 2, 2, 3), *y = scanned(&x, 1, op);
        READS(y, 48 * 48 + 84 * 84);
        bt_array *gradient = bt_grad1(y, x);
        READS(bt_max(gradient, BT_ALL, false), 2 * 2 * 84);
        READS(bt_min(gradient, BT_ALL, false), 2 * 2 * 48);
    }
}
static void in_a_scan_of_both(void **state) {
    in_a_scan("");
    in_a_scan("devices=sim:gpu*1");
}

static bt_function *function_of_rows(bt_custom *op) {
    bt_array *x = bt_input(BT_F32, 2, 3), *y = times(op, x, 1);
    return bt_function_new(&x, 1, &y, 1, NULL, 0);
}

static void in_batches(const char *settings) {
    fresh(settings);
    BT_SCOPE {
        bt_custom *op = new_row_sums(false);
        bt_function *f = bt_vmap(function_of_rows(op), NULL, NULL);
        bt_array *x = bt_reshape(bt_arange(0, 24, 1, BT_F32), 4, 2, 3), *y;
        OK(bt_call(f, &x, 1, &y, 1));
        READS(y, 3, 12, 21, 30, 39, 48, 57, 66);
        READS(bt_max(bt_grad1(bt_sum(bt_mul(y, y), BT_ALL, false), x), BT_ALL, false), 2 * 66);
        bt_function *twice = bt_vmap(f, NULL, NULL);
        x = bt_reshape(x, 2, 2, 2, 3);
        OK(bt_call(twice, &x, 1, &y, 1));
        READS(y, 3, 12, 21, 30, 39, 48, 57, 66);
    }
}
static void in_batches_of_both(void **state) {
    in_batches("");
    in_batches("devices=sim:gpu*1");
}

/* --- derivatives ---------------------------------------------------------------------------------------------------------- */

static bt_array *loss_of(bt_array *const *x, int count, void *op) {
    (void)count;
    bt_array *y = times(op, bt_sin(x[0]), 3);
    return bt_sum(bt_mul(y, y), BT_ALL, false);
}

static void derivatives(void **state) {
    fresh("");
    BT_SCOPE {
        bt_custom *op = new_row_sums(false);
        bt_array *x = bt_div(numbers(), bt_num(10)), *t = bt_ones(BT_F32, 2, 3), *made, *y = times(op, x, 2);
        double worst = 1;
        bt_array *fine = bt_cast(x, BT_F64);
        OK(bt_check_grad(loss_of, op, &fine, 1, 0, &worst));
        assert_true(worst < 1e-5);
        OK(bt_jvp(&y, 1, &x, &t, 1, &made));
        READS(made, 6, 6);
    }
}

static void wrong_gradient(bt_array *const *inputs, int count, bt_array *const *outputs, bt_array *const *cotangents,
                           bt_array **gradients, const bt_custom_args *args) {
    (void)inputs, (void)count, (void)outputs, (void)args;
    gradients[0] = cotangents[0];
}

static void missing_and_wrong_rules(void **state) {
    fresh("");
    BT_SCOPE {
        bt_custom *op = bt_custom_new(BT_CUSTOM(.name = "bare", .run = row_sums, .shape = row_sums_shape));
        bt_array *x = numbers(), *y = times(op, x, 1), *made;
        POISONED(bt_grad1(bt_sum(y, BT_ALL, false), x), BT_UNIMPLEMENTED,
                 "the operation \"bare\" has no gradient rule (.gradient of its options)");
        FAILS(bt_jvp(&y, 1, &x, &x, 1, &made), BT_UNIMPLEMENTED, "\"bare\" has no tangent rule");
        bt_custom *wrong = bt_custom_new(
            BT_CUSTOM(.name = "wrong", .run = row_sums, .shape = row_sums_shape, .gradient = wrong_gradient));
        POISONED(bt_grad1(bt_sum(times(wrong, x, 1), BT_ALL, false), x), BT_INVALID_ARGUMENT,
                 "the gradient rule of the operation \"wrong\" hands back float32 (2,), not float32 (2, 3)");
    }
}

static void no_batch(bt_array *const *inputs, const bool *batched, int count, bt_array **outputs,
                     const bt_custom_args *args) {
    if (args->data) outputs[0] = inputs[0];
}

static void wrong_batches(void **state) {
    fresh("");
    for (int i = 0; i < 2; i++)
        BT_SCOPE {
            bt_custom *op = bt_custom_new(BT_CUSTOM(.name = "flat", .run = row_sums, .shape = row_sums_shape,
                                                    .batch = no_batch, .data = i ? &runs : NULL));
            bt_array *x = bt_zeros(BT_F32, 4, 2, 3), *y;
            bt_function *f = bt_vmap(function_of_rows(op), NULL, NULL);
            FAILS(bt_call(f, &x, 1, &y, 1), BT_INVALID_ARGUMENT,
                  i ? "the batching rule of the operation \"flat\" hands back float32 (" : "\"flat\" hands back NULL");
        }
}

/* What a block computes again calls it again. */
static void in_blocks_that_are_computed_again(void **state) {
    fresh("");
    BT_SCOPE {
        bt_custom *op = new_row_sums(false);
        bt_array *x = numbers(), *y = NULL, *sums;
        BT_CHECKPOINT {
            sums = times(op, x, 2);
            y = bt_mul(sums, sums);
        }
        atomic_store(&runs, 0);
        READS(bt_grad1(bt_sum(y, BT_ALL, false), x), 48, 48, 48, 120, 120, 120);
        assert_true(atomic_load(&runs) >= 1);
    }
}

/* --- misuse --------------------------------------------------------------------------------------------------------------- */

#define UNMADE(text, ...)                                                           \
    do {                                                                            \
        bt_custom *bad_ = bt_custom_new(BT_CUSTOM(__VA_ARGS__));                    \
        FAILS(bt_custom_status(bad_), BT_INVALID_ARGUMENT, text);                   \
        bt_array *x_ = numbers();                                                   \
        POISONED(bt_custom_call(bad_, &x_, 1, NULL, 0), BT_INVALID_ARGUMENT, text); \
    } while (0)

static void operations_that_cannot_be_made(void **state) {
    fresh("");
    atomic_store(&released, 0);
    BT_SCOPE {
        UNMADE("the name is NULL", .run = row_sums, .shape = row_sums_shape, .release = note_release);
        assert_int_equal(atomic_load(&released), 1);
        UNMADE("the name is \"a b\"", .name = "a b", .run = row_sums, .shape = row_sums_shape);
        UNMADE("the name is \"\"", .name = "", .run = row_sums, .shape = row_sums_shape);
        UNMADE("\"f\" has no .run function, and no kernel", .name = "f", .shape = row_sums_shape);
        UNMADE("\"f\" has no .shape rule", .name = "f", .run = row_sums);
        FAILS(bt_custom_status(bt_custom_new(NULL)), BT_INVALID_ARGUMENT, "the options are NULL");
        FAILS(bt_custom_status(NULL), BT_INVALID_ARGUMENT);
        bt_custom *op = new_row_sums(false);
        bt_array *x = numbers(), *bad = bt_reshape(x, 5);
        int64_t many[BT_MAX_CUSTOM_ATTRIBUTES + 1] = {0};
        POISONED(bt_custom_call(op, &x, -1, NULL, 0), BT_INVALID_ARGUMENT, "-1 inputs");
        POISONED(bt_custom_call(op, NULL, 1, NULL, 0), BT_INVALID_ARGUMENT, "a list that is NULL");
        POISONED(bt_custom_call(op, &x, 1, many, COUNT(many)), BT_INVALID_ARGUMENT, "17 attributes");
        POISONED(bt_custom_call(op, &x, 1, NULL, 1), BT_INVALID_ARGUMENT, "a list that is NULL");
        POISONED(times(op, bad, 1), BT_INVALID_ARGUMENT, "bt_reshape");
        bt_custom_release(op);
        POISONED(times(op, x, 1), BT_INVALID_ARGUMENT, "bt_custom_release");
    }
}

static bt_status shape_of_data(const bt_elements *inputs, int count, bt_elements *output, const bt_custom_args *args) {
    (void)inputs, (void)count;
    *output = *(const bt_elements *)args->data;
    return BT_OK;
}

static void bad_shapes(void **state) {
    fresh("");
    BT_SCOPE {
        bt_elements out = {NULL, BT_F32, {1, {-7}}};
        bt_custom *op = bt_custom_new(BT_CUSTOM(.name = "odd", .run = row_sums, .shape = shape_of_data, .data = &out));
        bt_array *x = numbers();
        POISONED(times(op, x, 1), BT_INVALID_ARGUMENT, "\"odd\" gives axis 0 the size -7", "passed on");
        out = (bt_elements){NULL, (bt_dtype)99, {1, {2}}};
        POISONED(times(op, x, 1), BT_INVALID_ARGUMENT, "gives what no array can be", "99 is not a dtype");
        out = (bt_elements){NULL, BT_F32, {BT_MAX_RANK + 1, {0}}};
        POISONED(times(op, x, 1), BT_INVALID_ARGUMENT, "9 dimensions");
        out = (bt_elements){NULL, BT_F32, {2, {INT64_MAX, INT64_MAX}}};
        POISONED(times(op, x, 1), BT_INVALID_ARGUMENT, "63 bits");
    }
}

static bt_status fails(const bt_elements *inputs, int count, const bt_elements *output, const bt_custom_args *args) {
    (void)inputs, (void)count, (void)output, (void)args;
    return BT_DATA_LOSS;
}
static bt_status waits(const bt_elements *inputs, int count, const bt_elements *output, const bt_custom_args *args) {
    (void)inputs, (void)count, (void)output, (void)args;
    bt_array *x = bt_add(numbers(), bt_num(1));
    return bt_block(x);
}
static bt_status as_it_is(const bt_elements *inputs, int count, bt_elements *output, const bt_custom_args *args) {
    (void)inputs, (void)count, (void)output, (void)args;
    return BT_OK;
}

static void runs_that_fail(const char *settings) {
    fresh(settings);
    BT_SCOPE {
        bt_custom *bad = bt_custom_new(BT_CUSTOM(.name = "bad", .run = fails, .shape = as_it_is));
        bt_custom *waiting = bt_custom_new(BT_CUSTOM(.name = "waiting", .run = waits, .shape = as_it_is));
        bt_array *x = numbers(), *y = bt_custom_call(bad, &x, 1, NULL, 0);
        const char *here = HERE(-1);
        POISONED(bt_add(y, x), BT_DATA_LOSS, here, "the function of the operation \"bad\" fails with DATA_LOSS");
        POISONED(bt_custom_call(waiting, &x, 1, NULL, 0), BT_FAILED_PRECONDITION, "\"waiting\" fails",
                 "cannot wait for work");
        READS(bt_sum(x, BT_ALL, false), 21); /* the device goes on */
    }
}
static void runs_that_fail_on_both(void **state) {
    runs_that_fail("");
    runs_that_fail("devices=sim:gpu*1");
}

/* --- life, logs ------------------------------------------------------------------------------------------------------------ */

static void lives_as_long_as_calls(void **state) {
    fresh("");
    atomic_store(&released, 0);
    bt_array *y;
    BT_SCOPE
        y = bt_retain(times(new_row_sums(false), numbers(), 1));
    assert_int_equal(atomic_load(&released), 0);
    READS(y, 6, 15);
    bt_release(y);
    bt_synchronize();
    fresh("");
    assert_int_equal(atomic_load(&released), 1);
}

static void logs_know_its_name(void **state) {
    fresh("log_device_placement=on");
    BT_SCOPE {
        bt_array *x = numbers();
        OK(bt_block(times(new_row_sums(false), x, 1)));
        assert_int_equal(log_count("Executing op row_sums in device"), 1);
        bt_profile *profile = bt_profile_start();
        OK(bt_block(times(new_row_sums(false), x, 2)));
        char *table;
        OK(bt_profile_stop(profile, NULL, &table));
        SAYS(table, "row_sums");
        bt_free(table);
        char *text = bt_explain(times(new_row_sums(false), x, 5));
        SAYS(text, "row_sums");
        bt_free(text);
    }
}

/* --- what is not written ------------------------------------------------------------------------------------------------ */

static bt_status writes_nothing(const bt_elements *inputs, int count, const bt_elements *output,
                                const bt_custom_args *args) {
    (void)inputs, (void)count, (void)output, (void)args;
    return BT_OK;
}
static bt_status like_the_input(const bt_elements *inputs, int count, bt_elements *output, const bt_custom_args *args) {
    (void)args;
    *output = (bt_elements){.dtype = inputs[0].dtype, .shape = inputs[0].shape};
    return count == 1 ? BT_OK : BT_INVALID_ARGUMENT;
}

static void unwritten_memory_is_filled(void **state) {
    fresh("devices=sim:gpu*1,default_device=cpu:0,memory_fill=on");
    BT_SCOPE {
        bt_custom *op = bt_custom_new(BT_CUSTOM(.name = "nothing", .run = writes_nothing, .shape = like_the_input));
        bt_array *x = bt_ones(BT_F32, 4);
        READS(bt_isnan(bt_custom_call(op, &x, 1, NULL, 0)), 1, 1, 1, 1);
        READS(bt_add(x, bt_num(1)), 2, 2, 2, 2);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(on_the_cpu),
        cmocka_unit_test(on_a_device),
        cmocka_unit_test(impure_calls_are_apart),
        cmocka_unit_test(unwritten_memory_is_filled),
        cmocka_unit_test(bools_on_both),
        cmocka_unit_test(in_functions_of_both),
        cmocka_unit_test(a_call_asks_for_the_shape_again),
        cmocka_unit_test(in_a_scan_of_both),
        cmocka_unit_test(in_batches_of_both),
        cmocka_unit_test(derivatives),
        cmocka_unit_test(missing_and_wrong_rules),
        cmocka_unit_test(wrong_batches),
        cmocka_unit_test(in_blocks_that_are_computed_again),
        cmocka_unit_test(operations_that_cannot_be_made),
        cmocka_unit_test(bad_shapes),
        cmocka_unit_test(runs_that_fail_on_both),
        cmocka_unit_test(lives_as_long_as_calls),
        cmocka_unit_test(logs_know_its_name),
    };
    return cmocka_run_group_tests(tests, NULL, fresh_end);
}
