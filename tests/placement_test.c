/* Which device an operation goes to, what moves and what is said about it. */
#include "support/support.h"

#define LONG(name) "/job:localhost/replica:0/task:0/device:" name
#define ON(x, name) assert_string_equal(bt_device_name(bt_device_of(x)), name)

static bt_array *pair_on(const char *name) { return bt_to(BT_ARRAY(float, (2), 1, 2), name); }

/* --- the rules ------------------------------------------------------------------------------------------------------------ */

static void the_default_is_the_lowest_tpu_gpu_or_cpu(void **state) {
    fresh("");
    BT_SCOPE
        ON(bt_ones(BT_F32, 2), bt_device_count(BT_GPU) ? "GPU:0" : "CPU:0");
    fresh("devices=sim:gpu*2");
    BT_SCOPE
        ON(bt_ones(BT_F32, 2), "GPU:0");
    fresh("devices=sim:gpu*2;sim:tpu*2");
    BT_SCOPE
        ON(bt_ones(BT_F32, 2), "TPU:0");
    OK(bt_set_default_device("gpu:1"));
    BT_SCOPE {
        ON(bt_ones(BT_F32, 2), "GPU:1");
        ON(BT_ARRAY(float, (1), 1), "GPU:1");
        ON(bt_num(1), "GPU:1");
    }
    OK(bt_set_default_device(NULL));
    BT_SCOPE
        ON(bt_ones(BT_F32, 2), "TPU:0");
    FAILS(bt_set_default_device("gpu:7"), BT_NOT_FOUND, "gpu:7");
}

static void blocks_nest(void **state) {
    fresh("devices=sim:gpu*4");
    BT_SCOPE {
        BT_ON("/device:GPU:2") {
            ON(bt_ones(BT_F32, 2), "GPU:2");
            BT_ON("gpu:3") {
                ON(bt_ones(BT_F32, 2), "GPU:3");
                BT_ON("cpu") ON(bt_ones(BT_F32, 2), "CPU:0");
                ON(bt_ones(BT_F32, 2), "GPU:3");
            }
            ON(bt_ones(BT_F32, 2), "GPU:2");
        }
        ON(bt_ones(BT_F32, 2), "GPU:0");
    }
}

static bt_array *return_from_blocks(void) {
    BT_ON("gpu:2")
        BT_ON("gpu:3") return bt_ones(BT_F32, 2);
    return NULL;
}

static void blocks_end_however_they_are_left(void **state) {
    fresh("devices=sim:gpu*4");
    BT_SCOPE {
        ON(return_from_blocks(), "GPU:3");
        ON(bt_ones(BT_F32, 2), "GPU:0");
        int rounds = 0;
        for (int i = 0; i < 3; i++) {
            BT_ON("gpu:1") {
                ON(bt_ones(BT_F32, 2), "GPU:1");
                if (i < 2) break; /* the block, not the loop */
                rounds = i;
            }
            ON(bt_ones(BT_F32, 2), "GPU:0");
        }
        assert_int_equal(rounds, 2);
        BT_ON("gpu:1")
            BT_ON("gpu:2") goto out;
    out:
        ON(bt_ones(BT_F32, 2), "GPU:0");
    }
}

static void committed_inputs_draw_operations_to_them(void **state) {
    fresh("devices=sim:gpu*4");
    BT_SCOPE {
        bt_array *free = bt_ones(BT_F32, 2), *made = NULL, *moved = pair_on("gpu:3");
        BT_ON("gpu:2") made = bt_ones(BT_F32, 2);
        ON(bt_add(free, made), "GPU:2");
        ON(bt_add(moved, free), "GPU:3");
        ON(bt_relu(bt_add(free, bt_relu(moved))), "GPU:3"); /* what is derived is committed too */
        ON(bt_add(free, free), "GPU:0");
        ON(bt_to(free, "gpu:0"), "GPU:0");
    }
}

static void of_several_devices_the_one_with_most_bytes_has_it(void **state) {
    fresh("devices=sim:gpu*4");
    BT_SCOPE {
        bt_array *small = pair_on("gpu:1"), *large = bt_to(bt_ones(BT_F32, 100, 2), "gpu:3"), *other = pair_on("gpu:2");
        ON(bt_add(small, large), "GPU:3");
        ON(bt_add(large, small), "GPU:3");
        ON(bt_add(small, other), "GPU:1"); /* a tie: the first */
        ON(bt_add(other, small), "GPU:2");
        BT_ON("gpu:0") ON(bt_add(large, other), "GPU:0"); /* a block goes before all inputs */
        READS(bt_add(small, other), 2, 4);
    }
}

static void as_tensorflow_only_blocks_and_the_default_place(void **state) {
    fresh("devices=sim:gpu*4,placement=tensorflow");
    BT_SCOPE {
        bt_array *a = pair_on("gpu:2"), *b = pair_on("gpu:3"), *c = bt_add(a, b);
        ON(a, "GPU:2");
        ON(c, "GPU:0");
        BT_ON("gpu:1") ON(bt_add(a, b), "GPU:1");
        READS(c, 2, 4);
        assert_int_equal(memory("gpu:0").copied_in, 8 + 8); /* both literals; what came from there need not come back */
    }
}

/* --- unknown devices ------------------------------------------------------------------------------------------------------ */

static void an_unknown_device_is_named_as_tensorflow_does(void **state) {
    fresh("devices=sim:gpu*2");
    static const char text[] = "Error copying tensor to device: " LONG("GPU:2") ". " LONG("GPU:2") " unknown device.";
    BT_SCOPE {
        bt_array *c = NULL;
        BT_ON("/device:GPU:2") c = bt_ones(BT_F32, 2);
        POISONED(c, BT_NOT_FOUND, text, HERE(-1));
        POISONED(bt_to(bt_ones(BT_F32, 2), "gpu:2"), BT_NOT_FOUND, text, HERE(0), "bt_to");
        assert_int_not_equal(bt_shared_status(bt_shared_new(bt_ones(BT_F32, 2), "cuda2")), BT_OK);
        SAYS(bt_error_text(), text);
        POISONED(bt_to(bt_ones(BT_F32, 2), "tpu"), BT_NOT_FOUND, LONG("TPU:0") " unknown device.");
        POISONED(bt_to(bt_ones(BT_F32, 2), "gpu:x"), BT_INVALID_ARGUMENT);
        POISONED(bt_to(bt_ones(BT_F32, 2), NULL), BT_INVALID_ARGUMENT);
        BT_ON("nowhere:") POISONED(bt_ones(BT_F32, 2), BT_INVALID_ARGUMENT);
        READS(bt_ones(BT_F32, 1), 1); /* the block is over */
    }
}

static void soft_placement_gives_way(void **state) {
    fresh("devices=sim:gpu*2,soft_placement=on");
    BT_SCOPE {
        bt_array *c = NULL;
        BT_ON("/device:GPU:7") c = bt_sqrt(bt_ones(BT_F32, 2));
        ON(c, "GPU:0");
        assert_string_equal(log_text(), "Soft placement: " LONG("GPU:7") " unknown device; using " LONG("GPU:0") "\n");
        log_forget();
        ON(bt_to(c, "tpu:1"), "CPU:0");
        assert_string_equal(log_text(), "Soft placement: " LONG("TPU:1") " unknown device; using " LONG("CPU:0") "\n");
        log_forget();
        BT_ON("gpu:1") ON(bt_ones(BT_F32, 2), "GPU:1");
        assert_string_equal(log_text(), "");
        BT_TEXT plan = bt_explain(bt_add(bt_to(c, "gpu:9"), bt_num(1)));
        SAYS(plan, "soft placement");
        READS(c, 1, 1);
    }
}

/* --- moving --------------------------------------------------------------------------------------------------------------- */

static void moving_to_where_it_is_gives_the_same_array(void **state) {
    fresh("devices=sim:gpu*2");
    BT_SCOPE {
        bt_array *x = pair_on("gpu:1");
        assert_ptr_equal(bt_to(x, "/GPU:1"), x);
        bt_array *here = bt_cpu(x);
        assert_ptr_equal(bt_to(bt_cpu(here), "/physical_device:CPU:0"), here);
        READS(here, 1, 2);
        uint64_t copied = memory("gpu:1").copied_out;
        READS(bt_to(here, "cpu"), 1, 2);
        assert_int_equal(memory("gpu:1").copied_out, copied);
    }
}

static void gpu_and_cpu_never_fail(void **state) {
    fresh("devices=sim:gpu*2");
    BT_SCOPE {
        bt_array *x = BT_ARRAY(float, (2), 1, 2), *here = bt_cpu(x);
        ON(here, "CPU:0");
        assert_ptr_equal(bt_cpu(here), here);
        ON(bt_gpu(here), "GPU:0");
        bt_array *there = bt_gpu(x); /* x is uncommitted */
        assert_ptr_equal(bt_gpu(there), there);
        READS(bt_gpu(here), 1, 2);
        BT_TEXT text = bt_devices_text(bt_gpu(here));
        assert_string_equal(text, "{GpuDevice(id=0)}");
        bt_array *symbolic = bt_input(BT_F32, -1), *back = bt_cpu(bt_add(bt_to(symbolic, "gpu:1"), bt_num(1)));
        ON(back, "CPU:0");
        bt_function *f = bt_function_new(&symbolic, 1, &back, 1, NULL, 0);
        READS(bt_call1(f, &x, 1), 2, 3);
        assert_int_equal(memory("gpu:1").copied_in, 8);
    }
    fresh("devices=sim:gpu*0");
    BT_SCOPE {
        bt_array *x = BT_ARRAY(float, (2), 1, 2);
        assert_ptr_equal(bt_gpu(x), x);
        ON(x, "CPU:0");
        assert_int_equal(bt_error_status(), BT_OK);
    }
}

/* --- transfers ------------------------------------------------------------------------------------------------------------ */

static void copies_are_made_once(void **state) {
    fresh("devices=sim:gpu*2");
    BT_SCOPE {
        bt_array *x = pair_on("gpu:0"), *sum = NULL;
        OK(bt_block(x));
        BT_ON("gpu:1") {
            bt_array *a = bt_add(x, bt_num(1)), *b = bt_mul(x, bt_num(2)), *back = bt_add(bt_add(a, b), x);
            sum = back;
        }
        READS(sum, 5, 9);
        assert_int_equal(memory("gpu:1").copied_in, 8); /* x, once; constants are made there */
    }
}

static void under_log_each_copy_is_a_line(void **state) {
    fresh("devices=sim:gpu*2");
    BT_SCOPE {
        bt_array *x = bt_to(bt_ones(BT_F32, 2, 3), "gpu:0"), *y = NULL;
        BT_TRANSFERS(BT_TRANSFERS_LOG)
            BT_ON("gpu:1") {
                y = bt_add(x, x);
                OK(bt_block(y));
            }
        assert_string_equal(log_text(), ""); /* a constant is made anew, not copied */
        x = bt_to(BT_ARRAY(float, (2), 1, 2), "gpu:0");
        BT_TRANSFERS(BT_TRANSFERS_LOG)
            BT_ON("gpu:1") {
                y = bt_add(x, x);
                OK(bt_block(y));
            }
        assert_int_equal(
            log_count("Copying float32 (2,) from GPU:0 to GPU:1, 8 bytes, for bt_add at placement_test.c:226\n"), 1);
        log_forget();
        BT_ON("gpu:1") OK(bt_block(bt_mul(x, x)));
        assert_string_equal(log_text(), ""); /* outside of the block the flag holds */
        OK(bt_set_flag("transfers", "log"));
        BT_ON("gpu:1") OK(bt_block(bt_sub(x, x)));
        assert_int_equal(
            log_count("Copying float32 (2,) from GPU:0 to GPU:1, 8 bytes, for bt_sub at placement_test.c:"), 1);
    }
}

static void a_log_block_covers_what_is_recorded_in_it(void **state) {
    fresh("devices=sim:gpu*2");
    BT_SCOPE {
        bt_array *x = pair_on("gpu:0"), *y = NULL;
        BT_TRANSFERS(BT_TRANSFERS_LOG)
            BT_ON("gpu:1") y = bt_add(x, x);
        READS(y, 2, 4); /* read outside */
        assert_int_equal(log_count("Copying float32 (2,) from GPU:0 to GPU:1, 8 bytes"), 1);
    }
}

static void under_error_mixed_devices_are_refused(void **state) {
    fresh("devices=sim:gpu*2");
    BT_SCOPE {
        bt_array *x = bt_to(BT_ARRAY(float, (2), 1, 2), "gpu:0"), *free = bt_ones(BT_F32, 2), *y = NULL, *bad = NULL;
        const char *line_x = HERE(-1);
        BT_ON("gpu:1") y = bt_ones(BT_F32, 1, 2);
        const char *line_y = HERE(-1);
        BT_TRANSFERS(BT_TRANSFERS_ERROR) {
            bad = bt_add(x, y);
            POISONED(bad, BT_FAILED_PRECONDITION, HERE(-1), "bt_add", "float32 (2,) on GPU:0",
                     "float32 (1, 2) on GPU:1", line_y, line_x, "bt_to(y, \"GPU:0\")");
            READS(bt_add(bt_add(x, free), bt_num(1)), 3, 4); /* uncommitted ones may go anywhere */
            READS(bt_add(x, bt_to(y, "gpu:0")), 2, 3);       /* as the error says */
            BT_TRANSFERS(BT_TRANSFERS_COPY) READS(bt_add(x, y), 2, 3);
            POISONED(bt_add(y, x), BT_FAILED_PRECONDITION, "bt_to(y, \"GPU:1\")");
            float host[2];
            OK(bt_read(x, host, sizeof host)); /* the host may read what it likes */
        }
        READS(bt_add(x, y), 2, 3);
        OK(bt_set_flag("transfers", "error"));
        POISONED(bt_add(x, y), BT_FAILED_PRECONDITION);
        BT_TRANSFERS(BT_TRANSFERS_COPY) READS(bt_add(x, y), 2, 3);
    }
}

static bt_status leave_transfers_by_return(void) {
    BT_TRANSFERS(BT_TRANSFERS_ERROR) return BT_OK;
    return BT_UNKNOWN;
}

static void transfer_blocks_end_however_they_are_left(void **state) {
    fresh("devices=sim:gpu*2");
    BT_SCOPE {
        bt_array *x = pair_on("gpu:0"), *y = pair_on("gpu:1");
        OK(leave_transfers_by_return());
        READS(bt_add(x, y), 2, 4);
        for (int i = 0; i < 2; i++)
            BT_TRANSFERS(BT_TRANSFERS_ERROR)
                BT_TRANSFERS(BT_TRANSFERS_ERROR) break;
        READS(bt_add(x, y), 2, 4);
    }
}

/* --- the placement log ---------------------------------------------------------------------------------------------------- */

static void each_executed_operation_is_one_line_in_recorded_order(void **state) {
    fresh("devices=sim:gpu*2,log_device_placement=on");
    BT_SCOPE {
        bt_array *a = BT_ARRAY(float, (2, 2), 1, 2, 3, 4), *b = BT_ARRAY(float, (2, 2), 1, 2, 3, 4), *c[2];
        bt_array *never = bt_exp(a);
        (void)never;
        for (int i = 0; i < 2; i++)
            BT_ON(i ? "gpu:1" : "gpu:0") c[i] = bt_matmul(a, b);
        bt_array *sum = NULL;
        BT_ON("/cpu:0") sum = bt_relu(bt_add_n(c, 2));
        bt_array *soft = bt_softmax(sum, -1), *again = bt_softmax(sum, -1); /* composed; and shared */
        assert_string_equal(log_text(), "");
        OK(bt_eval_all(((bt_array *[]){again, soft}), 2));
        assert_string_equal(
            log_text(),
            "Executing op MatMul in device " LONG(
                "GPU:0") "\n"
                         "Executing op MatMul in device " LONG(
                             "GPU:1") "\n"
                                      "Executing op AddN in device " LONG(
                                          "CPU:0") "\n"
                                                   "Executing op Relu in device " LONG(
                                                       "CPU:0") "\n"
                                                                "Executing op Softmax in device " LONG(
                                                                    "CPU:0") "\n"
                                                                             "Executing op Softmax in device " LONG(
                                                                                 "CPU:0") "\n");
        log_forget();
        OK(bt_block(soft));
        assert_string_equal(log_text(), ""); /* it was executed */
        OK(bt_block(bt_mean(bt_reshape(sum, 4), BT_ALL, false)));
        assert_string_equal(log_text(), "Executing op Reshape in device " LONG(
                                            "CPU:0") "\n"
                                                     "Executing op Mean in device " LONG("CPU:0") "\n");
    }
}

static void at_once_with_sync(void **state) {
    fresh("devices=sim:gpu*2,log_device_placement=on,sync=on");
    BT_SCOPE {
        bt_array *a = BT_ARRAY(float, (2), 1, 2);
        bt_array *b = bt_add(a, a);
        assert_string_equal(log_text(), "Executing op AddV2 in device " LONG("GPU:0") "\n");
        READS(b, 2, 4);
    }
}

static void step_of_log(bt_array **carry, bt_array *const *x, bt_array **y, void *data) {
    (void)x, (void)y, (void)data;
    carry[0] = bt_tanh(bt_add(carry[0], bt_num(1)));
}
static void then_of_log(bt_array *const *x, bt_array **y, void *data) {
    (void)data;
    y[0] = bt_cos(x[0]);
    bt_scan(step_of_log, NULL, 2, y, 1, NULL, 0, NULL, 0);
}
static void else_of_log(bt_array *const *x, bt_array **y, void *data) {
    (void)data;
    y[0] = bt_sin(x[0]);
}

static void bodies_have_lines(void **state) {
    fresh("devices=sim:gpu*1,log_device_placement=on");
    BT_SCOPE
        BT_ON("gpu:0") {
            bt_array *x = bt_to(BT_ARRAY(float, (2), 1, 2), "gpu:0"), *y;
            log_forget();
            bt_cond(bt_to(BT_ARRAY(bool, (), true), "gpu:0"), then_of_log, else_of_log, NULL, &x, 1, &y, 1);
            OK(bt_block(y));
            static const char *const names[] = {"If", "Cos", "Scan", "AddV2", "Tanh", "Sin"};
            for (int i = 0; i < COUNT(names); i++) {
                char line[120];
                snprintf(line, sizeof line, "Executing op %s in device " LONG("GPU:0") "\n", names[i]);
                assert_int_equal(log_count(line), 1);
            }
        }
}

static void constants_have_no_line(void **state) {
    fresh("devices=sim:gpu*2,log_device_placement=on");
    BT_SCOPE {
        bt_array *made[] = {bt_num(1), bt_f32(1), bt_f64(1), bt_i32(1), bt_i64(1), BT_ARRAY(float, (2), 1, 2),
                            bt_key(0)};
        OK(bt_eval_all(made, COUNT(made)));
        bt_shared *w = bt_shared_new(made[5], NULL);
        OK(bt_block(bt_value(w)));
        OK(bt_set(w, made[5]));
        OK(bt_block(bt_value(w)));
        if (log_count("Executing op StatelessRandomKey")) log_forget(); /* a key is drawn up by operations */
        assert_string_equal(log_text(), "");
        OK(bt_block(bt_add(made[5], bt_num(2))));
        assert_string_equal(log_text(), "Executing op AddV2 in device " LONG("GPU:0") "\n");
    }
}

static void gradients_have_lines_with_a_flag(void **state) {
    for (int with = 0; with < 2; with++) {
        fresh("devices=sim:gpu*2,log_device_placement=on");
        if (with) OK(bt_set_flag("log_gradients", "on"));
        BT_SCOPE {
            bt_array *x = pair_on("gpu:1"), *a = bt_reshape(x, 1, 2), *b = bt_reshape(x, 2, 1);
            bt_array *loss = bt_sum(bt_matmul(a, b), BT_ALL, false), *grads[2];
            OK(bt_grad(loss, ((bt_array *[]){a, b}), 2, grads));
            OK(bt_eval_all(grads, 2));
            assert_int_equal(log_count("Executing op MatMul (gradient of MatMul) in device " LONG("GPU:1") "\n"),
                             2 * with);
            assert_int_equal(log_count("gradient of") > 0, with);
            READS(bt_grad1(loss, a), 1, 2);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_default_is_the_lowest_tpu_gpu_or_cpu),
        cmocka_unit_test(blocks_nest),
        cmocka_unit_test(blocks_end_however_they_are_left),
        cmocka_unit_test(committed_inputs_draw_operations_to_them),
        cmocka_unit_test(of_several_devices_the_one_with_most_bytes_has_it),
        cmocka_unit_test(as_tensorflow_only_blocks_and_the_default_place),
        cmocka_unit_test(an_unknown_device_is_named_as_tensorflow_does),
        cmocka_unit_test(soft_placement_gives_way),
        cmocka_unit_test(moving_to_where_it_is_gives_the_same_array),
        cmocka_unit_test(gpu_and_cpu_never_fail),
        cmocka_unit_test(copies_are_made_once),
        cmocka_unit_test(under_log_each_copy_is_a_line),
        cmocka_unit_test(a_log_block_covers_what_is_recorded_in_it),
        cmocka_unit_test(under_error_mixed_devices_are_refused),
        cmocka_unit_test(transfer_blocks_end_however_they_are_left),
        cmocka_unit_test(each_executed_operation_is_one_line_in_recorded_order),
        cmocka_unit_test(at_once_with_sync),
        cmocka_unit_test(constants_have_no_line),
        cmocka_unit_test(bodies_have_lines),
        cmocka_unit_test(gradients_have_lines_with_a_flag),
    };
    return cmocka_run_group_tests(tests, NULL, fresh_end);
}
