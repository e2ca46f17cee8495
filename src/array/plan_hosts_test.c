/* Plans that call functions of the program's, and are run again: callbacks and operations, which are told of each run, and let go of. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "array/plan_test.h"

enum { ROUNDS = 6 };

static bt_array *numbers(float a, float b) { return bt_from(((float[]){a, b}), BT_F32, BT_SHAPE(2)); }

/* --- callbacks ---------------------------------------------------------------------------------------------------------- */

static void add_up(const bt_elements *x, void *sum) { *(double *)sum += (double)((const float *)x->data)[0]; }
static void count_calls(const bt_elements *x, void *count) { (void)x, *(double *)count += 1; }

static void tell(bt_debug_fn *fn, double *data, float first) {
    BT_SCOPE {
        bt_array *y = bt_debug_callback(fn, data, bt_mul(numbers(first, 2), bt_num(3)));
        OK(bt_block(bt_add(y, bt_num(1))));
    }
}

/* With the same function and data a plan is the same; other functions and other data are called by plans of their own. */
static void callbacks_are_called_by_each_run(void **state) {
    (void)state;
    restart("devices=sim:gpu*1@64M");
    double first = 0, second = 0, calls = 0;
    for (int i = 0; i < ROUNDS; i++) {
        uint64_t before = made();
        tell(add_up, &first, (float)i);
        tell(add_up, &second, (float)(10 * i));
        tell(count_calls, &calls, 0);
        bt_synchronize(); /* nothing waits for what a callback is told */
        assert_true(first == 3 * i * (i + 1) / 2 && second == 30 * i * (i + 1) / 2 && calls == i + 1);
        if (i >= 2) assert_int_equal(made(), before);
    }
}

static void tell_of_step(bt_array **carry, bt_array *const *x, bt_array **y, void *sum) {
    (void)x, (void)y;
    carry[0] = bt_debug_callback(add_up, sum, bt_add(carry[0], bt_num(1)));
}

static void callbacks_in_loops(void **state) {
    (void)state;
    restart("devices=sim:gpu*1@64M");
    double sums[2] = {0};
    for (int i = 0; i < ROUNDS; i++) {
        uint64_t before = made();
        for (int which = 0; which < 2; which++) {
            BT_SCOPE {
                bt_array *h = numbers((float)i, 0);
                OK(bt_scan(tell_of_step, &sums[which], 3, &h, 1, NULL, 0, NULL, 0));
                OK(bt_block(h));
            }
        }
        bt_synchronize();
        assert_true(sums[0] == 3 * i * (i + 1) / 2 + 6 * (i + 1) && sums[1] == sums[0]);
        if (i >= 2) assert_int_equal(made(), before);
    }
}

static void prints_of_each_run(void **state) {
    (void)state;
    char path[] = "/tmp/berth_plan_hosts_XXXXXX", flags[100], text[400] = "";
    int file = mkstemp(path);
    assert_true(file >= 0);
    snprintf(flags, sizeof flags, "devices=sim:gpu*1@64M,debug_file=%s", path);
    restart(flags);
    for (int i = 0; i < ROUNDS; i++) {
        uint64_t before = made();
        BT_SCOPE
            OK(bt_block(bt_debug_print(i % 2 ? "odd {}" : "even {}", numbers((float)i, 0))));
        if (i >= 4) assert_int_equal(made(), before);
    }
    bt_synchronize();
    assert_true(read(file, text, sizeof text - 1) > 0);
    assert_string_equal(text, "even [0. 0.]\nodd [1. 0.]\neven [2. 0.]\nodd [3. 0.]\neven [4. 0.]\nodd [5. 0.]\n");
    close(file);
    unlink(path);
}

/* --- operations --------------------------------------------------------------------------------------------------------- */

typedef struct operation {
    float by;
    int calls, released;
} operation;

static bt_status scale(const bt_elements *inputs, int count, const bt_elements *outputs, const bt_custom_args *args) {
    operation *of = args->data;
    (void)count;
    of->calls++;
    for (int i = 0; i < 2; i++)
        ((float *)outputs[0].data)[i] =
            ((const float *)inputs[0].data)[i] * of->by + (float)(args->attribute_count ? args->attributes[0] : 0);
    return BT_OK;
}
static bt_status same_shape(const bt_elements *inputs, int count, bt_elements *outputs, const bt_custom_args *args) {
    (void)count, (void)args;
    outputs[0] = inputs[0];
    return BT_OK;
}
static void note_release(void *data) { ((operation *)data)->released++; }

static bt_custom *operation_of(operation *of) {
    return bt_custom_new(
        BT_CUSTOM(.name = "scale", .run = scale, .shape = same_shape, .data = of, .release = note_release));
}

static void use(bt_custom *op, float x, int64_t more, float wanted) {
    float got[2];
    BT_SCOPE {
        bt_array *in = numbers(x, 0);
        OK(bt_read(bt_neg(bt_custom_call(op, &in, 1, &more, 1)), got, sizeof got));
    }
    if (got[0] != -wanted) fail_msg("%g, not %g", (double)got[0], (double)-wanted);
}

static void scale_step(bt_array **carry, bt_array *const *x, bt_array **y, void *op) {
    (void)x, (void)y;
    carry[0] = bt_custom_call(op, carry, 1, NULL, 0);
}

static void operations_and_their_release(void **state) {
    (void)state;
    restart("devices=sim:gpu*1@64M");
    operation twice = {.by = 2}, thrice = {.by = 3};
    bt_custom *a = NULL, *b = NULL;
    BT_SCOPE {
        a = bt_custom_retain(operation_of(&twice));
        b = bt_custom_retain(operation_of(&thrice));
    }
    for (int i = 0; i < ROUNDS; i++) {
        uint64_t before = made();
        use(a, (float)i, 5, (float)(2 * i + 5));
        use(a, (float)i, 6, (float)(2 * i + 6));
        use(b, (float)i, 5, (float)(3 * i + 5));
        BT_SCOPE {
            float got[2];
            bt_array *h = numbers((float)i, 0);
            OK(bt_scan(scale_step, b, 2, &h, 1, NULL, 0, NULL, 0));
            OK(bt_read(h, got, sizeof got));
            assert_true(got[0] == (float)(9 * i));
        }
        assert_int_equal(twice.calls, 2 * (i + 1));
        assert_int_equal(thrice.calls, 3 * (i + 1));
        if (i >= 2) assert_int_equal(made(), before);
    }
    size_t plans = bti_plan_cache_count().plans;
    bt_custom_release(a);
    bt_synchronize();
    assert_int_equal(twice.released, 1); /* no plan keeps its data */
    assert_true(bti_plan_cache_count().plans < plans);
    assert_int_equal(thrice.released, 0);
    use(b, 1, 5, 8);
    bt_custom_release(b);
    bt_synchronize();
    assert_int_equal(thrice.released, 1);
}

/* What was recorded before is evaluated after it: its plan is not kept. */
static void what_is_left_of_an_operation(void **state) {
    (void)state;
    restart("devices=sim:gpu*1@64M");
    operation of = {.by = 2};
    BT_SCOPE {
        bt_array *later[ROUNDS];
        BT_SCOPE {
            bt_custom *op = operation_of(&of);
            for (int i = 0; i < ROUNDS; i++) {
                bt_array *in = numbers((float)i, 0);
                later[i] = bt_keep(bt_custom_call(op, &in, 1, NULL, 0));
            }
        }
        for (int i = 0; i < ROUNDS; i++) {
            uint64_t before = made();
            float got[2];
            OK(bt_read(later[i], got, sizeof got));
            assert_true(got[0] == (float)(2 * i));
            assert_int_equal(made(), before + 1);
        }
    }
    bt_synchronize();
    assert_int_equal(of.released, 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(callbacks_are_called_by_each_run, finish),
        cmocka_unit_test_teardown(callbacks_in_loops, finish),
        cmocka_unit_test_teardown(prints_of_each_run, finish),
        cmocka_unit_test_teardown(operations_and_their_release, finish),
        cmocka_unit_test_teardown(what_is_left_of_an_operation, finish),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
