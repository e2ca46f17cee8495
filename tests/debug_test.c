/* Printing and callbacks while work runs: when they come, with what, in which order; and what they may not do. */
#include "support/support.h"

#include <unistd.h>

/* --- callbacks -------------------------------------------------------------------------------------------------------- */

/* What callbacks were told: the first element of each. */
typedef struct told {
    int count;
    double first[64];
    bt_elements last;
} told;

static void tell(const bt_elements *value, void *data) {
    told *all = data;
    all->last = *value;
    if (all->count < COUNT(all->first)) all->first[all->count] = value->data ? (double)*(const float *)value->data : -1;
    all->count++;
}

#define EXPECT_TOLD(all, ...) expect_told(&(all), (const double[]){__VA_ARGS__}, COUNT(((const double[]){__VA_ARGS__})))
static void expect_told(told *all, const double *first, int count) {
    assert_int_equal(all->count, count);
    for (int i = 0; i < count; i++) assert_true(all->first[i] == first[i]);
    all->count = 0;
}

static void outside_of_functions(void **state) {
    fresh("");
    told all = {0};
    BT_SCOPE {
        bt_array *x = BT_ARRAY(float, (2, 2), 1, 2, 3, 4), *y = bt_debug_callback(tell, &all, bt_exp(bt_transpose(x)));
        assert_int_equal(all.count, 0); /* recorded, not run */
        bt_array *z = bt_add(y, bt_num(1));
        y = NULL;
        OK(bt_block(z));
        bt_synchronize();
        assert_int_equal(all.count, 1);
        assert_int_equal(all.last.dtype, BT_F32);
        assert_int_equal(all.last.shape.rank, 2);
        OK(bt_block(bt_sin(z)));
        OK(bt_block(bt_grad1(bt_sum(z, BT_ALL, false), x))); /* the history is computed again: told once */
        assert_int_equal(all.count, 1);
        all.count = 0;
        bt_debug_callback(tell, &all, x); /* without use */
        OK(bt_block(bt_add(x, x)));
        assert_int_equal(all.count, 0);
        OK(bt_eval(bt_debug_callback(tell, &all, bt_slice_axis(x, 0, 1, 2, 1))));
        bt_synchronize();
        EXPECT_TOLD(all, 3);
        OK(bt_eval(bt_debug_callback(tell, &all, bt_zeros(BT_F32, 0, 3))));
        bt_synchronize();
        EXPECT_TOLD(all, -1);
    }
}

static void in_functions(const char *settings) {
    fresh(settings);
    static told all;
    all.count = 0;
    BT_SCOPE {
        bt_array *x = bt_input(BT_F32, -1), *w = bt_input(BT_F32, 1);
        bt_array *a = bt_debug_callback(tell, &all, bt_mul(x, w)), *b = bt_debug_callback(tell, &all, bt_add(x, w));
        bt_array *c = bt_debug_callback(tell, &all, bt_add(b, a)), *loss = bt_sum(bt_mul(c, c), BT_ALL, false),
                 *gradient;
        OK(bt_grad(loss, &w, 1, &gradient));
        bt_function *f = bt_function_new((bt_array *[]){x, w}, 2, (bt_array *[]){loss, gradient}, 2, NULL, 0);
        for (int i = 1; i <= 3; i++) {
            bt_array *args[2] = {bt_full(i, BT_F32, i), BT_ARRAY(float, (1), 10)}, *results[2];
            OK(bt_call(f, args, 2, results, 2));
            READS(results[0], i * (11.0 * i + 10) * (11.0 * i + 10));
            READS(results[1], 2 * i * (11.0 * i + 10) * (i + 1));
            bt_synchronize();
            EXPECT_TOLD(all, 10.0 * i, 10.0 + i, 11.0 * i + 10);
            assert_int_equal(all.last.shape.size[0], i);
            OK(bt_block(bt_grad1(results[0], args[1]))); /* its history: told already */
            assert_int_equal(all.count, 0);
        }
    }
}
static void in_functions_on_the_cpu(void **state) { in_functions(""); }
static void in_functions_on_a_gpu(void **state) { in_functions("devices=sim:gpu*1"); }
static void in_functions_not_fused(void **state) { in_functions("fuse=0"); }
static void in_functions_interpreted(void **state) { in_functions("kernels=interpreter"); }

/* In loops once per step; in branches where they are taken. */
static void tell_step(bt_array **carry, bt_array *const *x, bt_array **y, void *data) {
    (void)y;
    carry[0] = bt_debug_callback(tell, data, bt_add(carry[0], x[0]));
}
static bt_array *is_small(bt_array *const *carry, void *data) { return bt_lt(carry[0], bt_f32(20)); }
static void twice(bt_array **carry, void *data) {
    carry[0] = bt_debug_callback(tell, data, bt_mul(carry[0], bt_f32(2)));
}
static void told_way(bt_array *const *args, bt_array **results, void *data) {
    results[0] = bt_debug_callback(tell, data, bt_neg(args[0]));
}
static void silent_way(bt_array *const *args, bt_array **results, void *data) { results[0] = bt_exp(args[0]); }

static void in_control_flow(void **state) {
    static const char *const settings[] = {"", "devices=sim:gpu*1", "kernels=interpreter"};
    static told all;
    for (int i = 0; i < COUNT(settings); i++) {
        fresh(settings[i]);
        all.count = 0;
        BT_SCOPE {
            bt_array *x = BT_ARRAY(float, (3), 1, 2, 3), *carry = bt_f32(0), *results[2];
            OK(bt_scan(tell_step, &all, BT_ALL_ROWS, &carry, 1, &x, 1, NULL, 0));
            bt_array *gradient = bt_grad1(carry, x);
            OK(bt_eval_all((bt_array *[]){carry, gradient}, 2));
            bt_synchronize();
            EXPECT_TOLD(all, 1, 3, 6);
            READS(gradient, 1, 1, 1);
            carry = bt_f32(3);
            OK(bt_while(is_small, twice, &all, 0, &carry, 1));
            READS(carry, 24);
            bt_synchronize();
            EXPECT_TOLD(all, 6, 12, 24);
            for (int way = 0; way < 2; way++)
                OK(bt_cond(bt_lt(bt_f32((float)way), bt_f32(0.5f)), told_way, silent_way, &all, &carry, 1,
                           &results[way], 1));
            OK(bt_eval_all(results, 2));
            bt_synchronize();
            EXPECT_TOLD(all, -24);
        }
    }
}

/* In a batch whose elements leave a loop at different times, the test is told once before the loop and once after each step. */
static bt_array *told_is_small(bt_array *const *carry, void *data) {
    return bt_lt(bt_debug_callback(tell, data, carry[0]), bt_f32(20));
}
static void twice_alone(bt_array **carry, void *data) { carry[0] = bt_mul(carry[0], bt_f32(2)); }

static void in_batches_of_loops(void **state) {
    static const char *const settings[] = {"", "devices=sim:gpu*1", "fuse=0"};
    static told tests, steps;
    for (int i = 0; i < COUNT(settings); i++) {
        fresh(settings[i]);
        tests.count = steps.count = 0;
        BT_SCOPE {
            bt_array *x = bt_input(BT_F32), *by_test = x, *by_step = x;
            OK(bt_while(told_is_small, twice_alone, &tests, 0, &by_test, 1));
            OK(bt_while(is_small, twice, &steps, 0, &by_step, 1));
            bt_function *f = bt_function_new(&x, 1, (bt_array *[]){by_test, by_step}, 2, NULL, 0);
            bt_array *many = BT_ARRAY(float, (3), 3, 30, 11), *results[2];
            OK(bt_call(bt_vmap(f, NULL, NULL), &many, 1, results, 2));
            READS(results[0], 24, 30, 22);
            READS(results[1], 24, 30, 22);
            bt_synchronize();
            EXPECT_TOLD(tests, 3, 6, 12, 24);
            EXPECT_TOLD(steps, 6, 12, 24);
        }
    }
}

/* The results have the same bits; and a checkpoint's second computation is not told. */
static void changes_nothing(void **state) {
    float with[16], without[16];
    told all = {0};
    fresh("devices=sim:gpu*1");
    for (int told_too = 0; told_too < 2; told_too++)
        BT_SCOPE {
            bt_array *x = bt_normal(bt_key(1), BT_F32, 4, 4), *y = NULL;
            BT_CHECKPOINT {
                bt_array *h = bt_softmax(bt_matmul(x, x), 1);
                y = bt_tanh(bt_mul(told_too ? bt_debug_callback(tell, &all, h) : h, h));
            }
            bt_array *gradient = bt_grad1(bt_sum(y, BT_ALL, false), x);
            OK(bt_eval_all((bt_array *[]){y, gradient}, 2));
            OK(bt_read(gradient, told_too ? with : without, sizeof with));
        }
    bt_synchronize();
    assert_int_equal(all.count, 1);
    assert_memory_equal(with, without, sizeof with);
}

/* What has failed is not told. */
static void after_a_failure(void **state) {
    told all = {0};
    fresh("devices=sim:gpu*1,memory_limit=1M");
    BT_SCOPE {
        bt_array *x = bt_ones(BT_F32, 1000), *big = NULL;
        big = bt_matmul(bt_reshape(x, 1000, 1), bt_reshape(x, 1, 1000));
        POISONED(bt_debug_callback(tell, &all, big), BT_RESOURCE_EXHAUSTED);
        POISONED(bt_debug_callback(NULL, NULL, x), BT_INVALID_ARGUMENT, "the function is NULL");
    }
    assert_int_equal(all.count, 0);
}

typedef struct caller {
    bt_array *other, *pending;
    bt_status read, from;
    int rank;
} caller;

static void call_berth(const bt_elements *value, void *data) {
    caller *c = data;
    float out[2];
    c->rank = bt_rank(c->other);
    c->read = bt_read(c->pending, out, sizeof out);
    bt_array *made = BT_ARRAY(float, (2), 1, 2);
    c->from = bt_peek_status(made);
    bt_synchronize();
}

static void waits_are_refused(void **state) {
    for (int gpu = 0; gpu < 2; gpu++) {
        fresh(gpu ? "devices=sim:gpu*1" : "");
        BT_SCOPE {
            caller c = {.other = BT_ARRAY(float, (2), 1, 2)};
            c.pending = bt_exp(c.other);
            OK(bt_eval(bt_debug_callback(call_berth, &c, c.other)));
            bt_synchronize();
            assert_int_equal(c.rank, 1);
            assert_int_equal(c.read, BT_FAILED_PRECONDITION);
            assert_int_equal(c.from, BT_FAILED_PRECONDITION);
            OK(bt_block(c.pending)); /* the call that was refused changed nothing */
        }
    }
}

/* The call that submits returns while the callback waits for it. */
static int gate[2];
static void wait_for_gate(const bt_elements *value, void *data) {
    char byte;
    assert_int_equal(read(gate[0], &byte, 1), 1);
}

static void submitting_does_not_wait(void **state) {
    for (int gpu = 0; gpu < 2; gpu++) {
        fresh(gpu ? "devices=sim:gpu*1" : "");
        assert_int_equal(pipe(gate), 0);
        BT_SCOPE {
            bt_array *x = bt_input(BT_F32, 4), *y = bt_add(bt_debug_callback(wait_for_gate, NULL, bt_exp(x)), x);
            bt_function *f = bt_function_new(&x, 1, &y, 1, NULL, 0);
            bt_array *argument = bt_zeros(BT_F32, 4), *first = bt_call1(f, &argument, 1);
            OK(bt_eval(first));
            assert_int_equal(write(gate[1], "g", 1), 1); /* a thread that waited would never get here */
            READS(first, 1, 1, 1, 1);
        }
        close(gate[0]), close(gate[1]);
    }
}

/* --- printing --------------------------------------------------------------------------------------------------------- */

static void expect_file(const char *path, const char *expected) {
    char text[4096];
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    size_t length = fread(text, 1, sizeof text - 1, file);
    fclose(file);
    text[length] = 0;
    assert_string_equal(text, expected);
}

static void prints(void **state) {
    static const char path[] = "debug_test.txt";
    fresh("devices=sim:gpu*1");
    unlink(path);
    OK(bt_set_flag("debug_file", path));
    BT_SCOPE {
        bt_array *x = bt_input(BT_F32, -1), *y = bt_debug_print("x = {}, again {}.", x);
        y = bt_debug_print("half: {}", bt_cast(bt_debug_print("{}", bt_gt(y, bt_num(1))), BT_BF16));
        bt_function *f = bt_function_new(&x, 1, &y, 1, NULL, 0);
        for (int i = 1; i < 3; i++) {
            bt_array *argument = bt_arange(0, i + 1, 1, BT_F32);
            OK(bt_eval(bt_call1(f, &argument, 1)));
            bt_synchronize();
        }
        OK(bt_eval(bt_debug_print("no marks, 100%", BT_ARRAY(int32_t, (1), 7))));
        bt_synchronize();
        POISONED(bt_debug_print(NULL, BT_ARRAY(int32_t, (1), 7)), BT_INVALID_ARGUMENT, "the format is NULL");
    }
    expect_file(path, "x = [0. 1.], again [0. 1.].\n[False False]\nhalf: [0. 0.]\n"
                      "x = [0. 1. 2.], again [0. 1. 2.].\n[False False  True]\nhalf: [0. 0. 1.]\n"
                      "no marks, 100%\n");
    unlink(path);
    OK(bt_set_flag("debug_file", "/nowhere/at/all"));
    BT_SCOPE
        OK(bt_eval(bt_debug_print("to standard error: {}", bt_f32(3))));
    bt_synchronize();
    assert_int_equal(log_count("flag \"debug_file\": /nowhere/at/all"), 1);
}

static void explained(void **state) {
    fresh("");
    BT_SCOPE {
        BT_TEXT text = bt_explain(bt_exp(bt_debug_print("{}", bt_sin(bt_ones(BT_F32, 3)))));
        SAYS(text, "callback    CPU:0  float32 (3,)");
        SAYS(text, "for bt_debug_print at debug_test.c:");
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(outside_of_functions),
        cmocka_unit_test(in_functions_on_the_cpu),
        cmocka_unit_test(in_functions_on_a_gpu),
        cmocka_unit_test(in_functions_not_fused),
        cmocka_unit_test(in_functions_interpreted),
        cmocka_unit_test(in_control_flow),
        cmocka_unit_test(in_batches_of_loops),
        cmocka_unit_test(changes_nothing),
        cmocka_unit_test(after_a_failure),
        cmocka_unit_test(waits_are_refused),
        cmocka_unit_test(submitting_does_not_wait),
        cmocka_unit_test(prints),
        cmocka_unit_test(explained),
    };
    return cmocka_run_group_tests(tests, NULL, fresh_end);
}
