/* Moving an array to where it is: nothing is copied, and what was moved stays as it was. */
#include "support/support.h"

typedef bt_array *mover(bt_array *x);

static bt_array *by_to(bt_array *x) { return bt_to(x, "gpu:0"); }
static bt_array *by_gpu(bt_array *x) { return bt_gpu(x); }
static bt_array *by_cpu(bt_array *x) { return bt_cpu(x); }
static bt_array *by_to_all(bt_array *x) {
    bt_to_all(&x, 1, "gpu");
    return x;
}
static bt_array *by_gpu_all(bt_array *x) {
    bt_gpu_all(&x, 1);
    return x;
}
static bt_array *by_cpu_all(bt_array *x) {
    bt_cpu_all(&x, 1);
    return x;
}
static bt_array *by_variable(bt_array *x) { return bt_value(bt_shared_new(x, "gpu:0")); }
static bt_array *by_variable_beside(bt_array *x) {
    return bt_value(bt_shared_new_beside(bt_shared_new(bt_ones(BT_F32, 1), "gpu:0"), x));
}
static bt_array *by_set(bt_array *x) {
    bt_shared *w = bt_shared_new(bt_zeros_like(x), "gpu:0");
    OK(bt_set(w, x));
    return bt_value(w);
}

static const struct {
    const char *name;
    mover *move;
    bool to_cpu, is_array; /* the result stands for x itself, in gradients too */
} movers[] = {
    {"bt_to", by_to, false, true},
    {"bt_gpu", by_gpu, false, true},
    {"bt_to_all", by_to_all, false, true},
    {"bt_gpu_all", by_gpu_all, false, true},
    {"bt_cpu", by_cpu, true, true},
    {"bt_cpu_all", by_cpu_all, true, true},
    {"bt_shared_new", by_variable, false, false},
    {"bt_shared_new_beside", by_variable_beside, false, false},
    {"bt_set", by_set, false, false},
};

/* Uncommitted: an operation with an array of another device goes there. */
static bool is_free(bt_array *x) {
    return bt_device_of(bt_add(x, bt_to(bt_num(1), "gpu:1"))) == bt_device_get(BT_GPU, 1);
}

static bt_array *make(int way) {
    switch (way) {
    case 0: return BT_ARRAY(float, (2, 2), 1, 2, 3, 4);                    /* there */
    case 1: return bt_mul(BT_ARRAY(float, (2, 2), 1, 2, 3, 4), bt_num(1)); /* not yet computed */
    case 2: return bt_transpose(BT_ARRAY(float, (2, 2), 1, 3, 2, 4));      /* a view */
    default: {
        bt_array *x = bt_exp(bt_log(BT_ARRAY(float, (2, 2), 1, 2, 3, 4)));
        OK(bt_block(x));
        return x;
    }
    }
}

static void nothing_changes_but_the_result(void **state) {
    for (int i = 0; i < COUNT(movers) * 4; i++) {
        bool to_cpu = movers[i / 4].to_cpu;
        fresh("devices=sim:gpu*2,transfers=error");
        if (to_cpu) OK(bt_set_default_device("cpu"));
        BT_SCOPE {
            bt_array *x = make(i % 4), *result = movers[i / 4].move(x);
            if (!is_free(x) || is_free(result)) fail_msg("%s, %d: committed", movers[i / 4].name, i % 4);
            if (bt_device_of(result) != bt_device_of(x)) fail_msg("%s went elsewhere", movers[i / 4].name);
            READS(result, 1, 2, 3, 4);
            READS(x, 1, 2, 3, 4);
            if (movers[i / 4].is_array) {
                assert_ptr_not_equal(result, x);
                assert_ptr_equal(movers[i / 4].move(result), result);
                READS(bt_grad1(bt_sum(bt_square(result), BT_ALL, false), x), 2, 4, 6, 8);
            }
        }
    }
}

static void nothing_is_copied(void **state) {
    fresh("devices=sim:gpu*2");
    BT_SCOPE {
        bt_array *x = bt_normal(bt_key(0), BT_F32, 1000, 1000), *there = NULL;
        OK(bt_block(x));
        bt_memory_info before = memory("gpu:0");
        there = bt_gpu(x);
        OK(bt_block(there));
        bt_shared *w = bt_shared_new(x, "gpu:0");
        OK(bt_block(bt_value(w)));
        bt_memory_info after = memory("gpu:0");
        assert_int_equal(after.used, before.used);
        assert_int_equal(after.copied_in, before.copied_in);
        assert_int_equal(after.copied_out, before.copied_out);
    }
}

static void the_log_has_no_line(void **state) {
    fresh("devices=sim:gpu*2,log_device_placement=on");
    BT_SCOPE {
        bt_array *x = BT_ARRAY(float, (2), 1, 2), *moved = bt_gpu(bt_add(x, x));
        OK(bt_block(moved));
        assert_string_equal(log_text(), "Executing op AddV2 in device /job:localhost/replica:0/task:0/device:GPU:0\n");
        log_forget();
        OK(bt_block(bt_to(moved, "gpu:1")));
        assert_string_equal(log_text(),
                            "Executing op Identity in device /job:localhost/replica:0/task:0/device:GPU:1\n");
    }
}

static void inputs_of_functions(void **state) {
    fresh("devices=sim:gpu*2");
    BT_SCOPE {
        bt_array *input = bt_input(BT_F32, -1, 2), *moved = bt_gpu(input), *sum = bt_add(moved, bt_num(1));
        assert_true(is_free(input));
        bt_function *f = bt_function_new(&input, 1, &sum, 1, NULL, 0);
        bt_array *x = BT_ARRAY(float, (2, 2), 1, 2, 3, 4), *turned = bt_transpose(x), *away = bt_to(x, "gpu:1");
        OK(bt_block(away));
        OK(bt_set_flag("transfers", "error"));
        for (int round = 0; round < 2; round++) {
            READS(bt_call1(f, &x, 1), 2, 3, 4, 5);
            READS(bt_call1(f, &turned, 1), 2, 4, 3, 5);
            READS(bt_call1(f, &away, 1), 2, 3, 4, 5); /* bt_gpu asks for it */
            assert_ptr_equal(bt_device_of(bt_call1(f, &away, 1)), bt_device_get(BT_GPU, 0));
        }
        assert_true(is_free(x));
    }
}

static void layers(void **state) {
    fresh("devices=sim:gpu*2");
    BT_SCOPE {
        bt_layer *model = bt_dense(2, 2, NULL, bt_key(1));
        bt_shared *weight[2], *moved[2];
        bt_parameters(model, weight, 2);
        bt_parameters(bt_layer_gpu(model), moved, 2);
        for (int p = 0; p < 2; p++) {
            assert_true(is_free(bt_value(weight[p])));
            assert_false(is_free(bt_value(moved[p])));
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_changes_but_the_result),
        cmocka_unit_test(nothing_is_copied),
        cmocka_unit_test(the_log_has_no_line),
        cmocka_unit_test(inputs_of_functions),
        cmocka_unit_test(layers),
    };
    return cmocka_run_group_tests(tests, NULL, fresh_end);
}
