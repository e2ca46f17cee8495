// labels: valgrind
/* Who owns an array and when it goes; values that never change; errors that flow with the first cause and the caller's line. */
#include "support/support.h"

/* --- scopes --------------------------------------------------------------------------------------------------------------- */

static bt_array *two_and_two(void) { return bt_add(bt_full(2, BT_F32, 2), bt_num(2)); }

static double left_by_return(void) {
    BT_SCOPE {
        BT_SCOPE {
            bt_array *x = two_and_two();
            return bt_item(bt_sum(x, BT_ALL, false));
        }
    }
    return -1;
}

static void a_scope_releases_however_it_is_left(void **state) {
    fresh("");
    BT_SCOPE {
        (void)two_and_two();
        assert_true(bt_live_arrays() > 0);
    }
    assert_int_equal(bt_live_arrays(), 0);
    assert_true(left_by_return() == 8);
    assert_int_equal(bt_live_arrays(), 0);
    for (int i = 0; i < 3; i++) {
        BT_SCOPE {
            (void)two_and_two();
            if (i == 1) break; /* the scope, not the loop */
            (void)two_and_two();
        }
        assert_int_equal(bt_live_arrays(), 0);
        if (i == 2) goto out;
        BT_SCOPE {
            (void)two_and_two();
            if (i == 1) goto next;
        }
    next:
        assert_int_equal(bt_live_arrays(), 0);
    }
    fail();
out:
    BT_SCOPE
        BT_SCOPE {
            (void)two_and_two();
            goto both;
        }
both:
    assert_int_equal(bt_live_arrays(), 0);
}

static void keep_moves_one_scope_out(void **state) {
    fresh("");
    BT_SCOPE {
        bt_array *x = NULL;
        BT_SCOPE {
            (void)two_and_two();
            BT_SCOPE
                x = bt_keep(two_and_two());
            x = bt_keep(x);
            assert_ptr_equal(bt_keep(x), x); /* it is not here any more: nothing happens */
            (void)two_and_two();
        }
        assert_int_equal(bt_live_arrays(), 1);
        READS(x, 4, 4);
        assert_null(bt_keep(NULL));
    }
    assert_int_equal(bt_live_arrays(), 0);
}

static void retained_arrays_stay_until_released(void **state) {
    fresh("");
    bt_array *x;
    BT_SCOPE
        x = bt_retain(bt_retain(two_and_two()));
    bt_release(x);
    READS(x, 4, 4);
    bt_release(x);
    assert_int_equal(bt_live_arrays(), 0);
    bt_release(NULL);
    assert_null(bt_retain(NULL));
}

static void assign_holds_the_newest(void **state) {
    fresh("");
    bt_array *x = NULL;
    for (int i = 0; i < 5; i++)
        BT_SCOPE
            bt_assign(&x, bt_full(i, BT_F32, 1));
    READS(x, 4);
    bt_assign(&x, x); /* itself */
    READS(x, 4);
    assert_int_equal(bt_live_arrays(), 1);
    bt_assign(&x, NULL);
    assert_null(x);
    assert_int_equal(bt_live_arrays(), 0);
}

static void pending_work_keeps_what_it_needs(void **state) {
    fresh("devices=sim:gpu*2@64M");
    BT_SCOPE {
        bt_array *y = NULL;
        BT_SCOPE {
            bt_array *x = bt_from(((const float[]){1, 2}), BT_F32, BT_SHAPE(2));
            y = bt_keep(bt_to(bt_add(x, x), "gpu:1"));
        }
        assert_int_equal(bt_live_arrays(), 1);
        READS(y, 2, 4);
    }
    assert_int_equal(memory("gpu:0").used + memory("gpu:1").used, 0);
}

static void a_forgotten_scope_is_noticed_once(void **state) {
    fresh("scope_notice=1000");
    BT_SCOPE {
        for (int i = 0; i < 3000; i++) (void)bt_num(i);
        assert_int_equal(log_count("is a BT_SCOPE missing around the body of a loop?"), 1);
        SAYS(log_text(), "1000 arrays are held by one scope, the last made by bt_num at ownership_test.c:");
    }
    log_forget();
    for (int i = 0; i < 3000; i++)
        BT_SCOPE(void) bt_num(i);
    assert_string_equal(log_text(), "");
    fresh("scope_notice=0");
    BT_SCOPE {
        for (int i = 0; i < 3000; i++) (void)bt_num(i);
    }
    assert_string_equal(log_text(), "");
}

/* --- values --------------------------------------------------------------------------------------------------------------- */

static void a_write_makes_a_new_version(void **state) {
    fresh("devices=sim:gpu*2@64M");
    BT_SCOPE {
        bt_array *x = bt_from(((const float[]){1, 2}), BT_F32, BT_SHAPE(2)), *before = bt_add(x, x);
        bt_array *view = bt_flip(x, BT_ALL);
        OK(bt_write(x, ((const float[]){10, 20}), 8));
        bt_array *after = bt_add(x, x);
        READS(after, 20, 40);
        READS(before, 2, 4);
        READS(view, 2, 1);
        READS(x, 10, 20);
        FAILS(bt_write(x, ((const float[]){1}), 4), BT_INVALID_ARGUMENT, HERE(0), "8 bytes", "4");
        FAILS(bt_write(x, NULL, 8), BT_INVALID_ARGUMENT, "NULL");
        FAILS(bt_write(NULL, ((const float[]){1}), 4), BT_INVALID_ARGUMENT, "NULL");
        FAILS(bt_write(bt_input(BT_F32, 2), ((const float[]){1, 2}), 8), BT_FAILED_PRECONDITION);
        READS(x, 10, 20);
        bt_array *there = bt_to(x, "gpu:1"); /* it stays where it is */
        OK(bt_write(there, ((const float[]){7, 8}), 8));
        assert_ptr_equal(bt_device_of(there), device("gpu:1"));
        READS(there, 7, 8);
        READS(x, 10, 20);
    }
}

static void host_data_may_change_after_the_call(void **state) {
    fresh("");
    BT_SCOPE {
        float data[2] = {1, 2};
        bt_array *x = bt_from(data, BT_F32, BT_SHAPE(2));
        data[0] = 9;
        READS(x, 1, 2);
        const float *mapped = bt_map(bt_transpose(x));
        assert_non_null(mapped);
        assert_true(mapped[0] == 1 && mapped[1] == 2);
        assert_ptr_equal(bt_map(x), bt_map(x));
    }
}

static void single_elements_are_read_with_leave_only(void **state) {
    fresh("devices=sim:gpu*2@64M");
    BT_SCOPE {
        bt_array *x = BT_ARRAY(float, (2, 2), 1, 2, 3, 4);
        const int64_t last[] = {-1, 1}, past[] = {0, 2};
        double value;
        FAILS(bt_item_at(x, last, &value), BT_FAILED_PRECONDITION, HERE(0), "GPU:0", "allow_scalar=on");
        OK(bt_item_at(bt_cpu(x), last, &value));
        assert_true(value == 4);
        assert_true(bt_item(bt_sum(x, BT_ALL, false)) == 10); /* one element is no element of many */
        FAILS(bt_item_at(bt_cpu(x), past, &value), BT_OUT_OF_RANGE, "index 2 of axis 1", "2 elements");
        OK(bt_set_flag("allow_scalar", "on"));
        OK(bt_item_at(x, last, &value));
        OK(bt_item_at(x, last, &value));
        assert_int_equal(log_count("single elements"), 1); /* said once, with the line */
        SAYS(log_text(), HERE(-3));
        bt_error_clear();
        assert_true(bt_item(x) != bt_item(x));
        SAYS(bt_error_text(), "(2, 2) is not one element");
    }
}

/* --- poison --------------------------------------------------------------------------------------------------------------- */

static void poison_flows_with_its_first_cause(void **state) {
    fresh("devices=sim:gpu*2@64M");
    BT_SCOPE {
        bt_array *a = bt_ones(BT_F32, 2, 3), *b = bt_ones(BT_F32, 4, 5);
        bt_array *bad = bt_matmul(a, b);
        const char *line = HERE(-1);
        bt_array *worse = bt_add(bt_relu(bad), bt_matmul(b, a));
        for (int i = 0; i < 2; i++) {
            POISONED(worse, BT_INVALID_ARGUMENT, line, "bt_matmul", "(2, 3)", "(4, 5)");
            FAILS(bt_eval(worse), BT_INVALID_ARGUMENT, line);
            FAILS(bt_block(bt_to(worse, "gpu:1")), BT_INVALID_ARGUMENT, line);
        }
        assert_null(bt_map(worse));
        assert_null(bt_to_text(worse));
        assert_null(bt_explain(worse));
        SAYS(bt_error_text(), line);
        assert_null(bt_device_of(worse));
        assert_int_equal(bt_peek_status(worse), BT_INVALID_ARGUMENT);
        assert_int_equal(bt_peek_status(a), BT_OK);
        READS(bt_matmul(bt_transpose(a), a), 2, 2, 2, 2, 2, 2, 2, 2, 2); /* a is as it was */
    }
}

static void asked(const bt_array *x, bt_dtype dtype, int rank, int64_t count) {
    assert_int_equal(bt_dtype_of(x), dtype);
    assert_int_equal(bt_rank(x), rank);
    assert_int_equal(bt_count(x), count);
    assert_int_equal(bt_shape_of(x).rank, rank < 0 ? 0 : rank);
    assert_int_equal(bt_size(x, 0), rank > 0 ? count : -1);
}

static void poison_answers_as_a_scalar(void **state) {
    fresh("");
    BT_SCOPE {
        bt_array *poisoned = bt_reshape(bt_ones(BT_I64, 3), 7);
        asked(poisoned, BT_F32, 0, 1);
        assert_int_equal(bt_peek_status(poisoned), BT_INVALID_ARGUMENT);
        POISONED(bt_cast(bt_add(poisoned, 1), bt_dtype_of(poisoned)), BT_INVALID_ARGUMENT, "bt_reshape");
        asked(NULL, BT_DTYPE_COUNT, -1, -1);
    }
}

static void null_arguments_are_named(void **state) {
    fresh("");
    BT_SCOPE {
        bt_array *x = bt_ones(BT_F32, 2);
        POISONED(bt_add(x, NULL), BT_INVALID_ARGUMENT, HERE(0), "bt_add", "argument 2 is NULL");
        POISONED(bt_relu(NULL), BT_INVALID_ARGUMENT, HERE(0), "NULL");
        POISONED(bt_concat(((bt_array *[]){x, NULL}), 2, 0), BT_INVALID_ARGUMENT, "NULL");
        POISONED(bt_to(NULL, "cpu"), BT_INVALID_ARGUMENT, "NULL");
        POISONED(bt_value(NULL), BT_INVALID_ARGUMENT, "NULL");
        POISONED(bt_from(NULL, BT_F32, BT_SHAPE(2)), BT_INVALID_ARGUMENT, HERE(0), "NULL", "2 elements");
        FAILS(bt_read(NULL, x, 4), BT_INVALID_ARGUMENT, "NULL");
        FAILS(bt_read(x, NULL, 8), BT_INVALID_ARGUMENT, "NULL");
        FAILS(bt_eval(NULL), BT_INVALID_ARGUMENT, "NULL");
        FAILS(bt_block(NULL), BT_INVALID_ARGUMENT, "NULL");
        FAILS(bt_set(NULL, x), BT_INVALID_ARGUMENT, "NULL");
        FAILS(bt_call(NULL, NULL, 0, NULL, 0), BT_INVALID_ARGUMENT, "NULL");
        assert_null(bt_map(NULL));
        assert_int_not_equal(bt_shared_status(bt_shared_new(NULL, NULL)), BT_OK);
        assert_int_equal(bt_error_status(), BT_INVALID_ARGUMENT);
        assert_int_equal(bt_rank(NULL), -1);
        READS(bt_from(NULL, BT_F32, BT_SHAPE(0, 3)), );
    }
}

static void shapes_that_cannot_be_are_refused(void **state) {
    fresh("");
    BT_SCOPE {
        POISONED(bt_zeros(BT_F32, 1, 1, 1, 1, 1, 1, 1, 1, 1), BT_INVALID_ARGUMENT, HERE(0), "9 dimensions",
                 "at most 8");
        POISONED(bt_zeros(BT_F32, 2, -3), BT_INVALID_ARGUMENT, HERE(0), "size -3 of axis 1 is negative");
        POISONED(bt_zeros(BT_F32, 1LL << 40, 1LL << 40), BT_INVALID_ARGUMENT, HERE(0), "63 bits");
        POISONED(bt_zeros(BT_F64, INT64_MAX), BT_INVALID_ARGUMENT, "63 bits");
        POISONED(bt_zeros(BT_F32, 0, INT64_MIN + 123456), BT_INVALID_ARGUMENT);
        POISONED(bt_zeros((bt_dtype)99, 2), BT_INVALID_ARGUMENT, HERE(0), "99 is not a dtype");
        POISONED(bt_from("", (bt_dtype)-1, BT_SHAPE(1)), BT_INVALID_ARGUMENT, "not a dtype");
        POISONED(bt_cast(bt_num(1), BT_DTYPE_COUNT), BT_INVALID_ARGUMENT, "dtype");
        POISONED(BT_ARRAY(float, (2, 2), 1, 2, 3), BT_INVALID_ARGUMENT, HERE(0),
                 "3 elements do not fill the shape (2, 2)");
        bt_array *x = bt_ones(BT_F32, 2, 3), *large = bt_broadcast_to(bt_ones(BT_F32, 1), 1LL << 31, 1LL << 30);
        const int64_t none_such = INT64_MIN + 123456; /* such numbers stand for unknown sizes; nobody made this one */
        POISONED(bt_ones(BT_F32, none_such), BT_INVALID_ARGUMENT, "negative");
        POISONED(bt_reshape(x, none_such), BT_INVALID_ARGUMENT);
        POISONED(bt_broadcast_to(x, none_such, 2, 3), BT_INVALID_ARGUMENT);
        POISONED(bt_tile(x, BT_SHAPE(none_such)), BT_INVALID_ARGUMENT);
        POISONED(bt_uniform(bt_key(0), BT_F32, none_such), BT_INVALID_ARGUMENT);
        POISONED(bt_randint(bt_key(0), 0, 9, BT_I32, none_such), BT_INVALID_ARGUMENT);
        POISONED(bt_split(bt_key(0), none_such), BT_INVALID_ARGUMENT);
        POISONED(bt_permutation(bt_key(0), none_such), BT_INVALID_ARGUMENT);
        POISONED(bt_eye(none_such, 2, BT_F32), BT_INVALID_ARGUMENT);
        POISONED(bt_linspace(0, 1, none_such, BT_F32), BT_INVALID_ARGUMENT);
        POISONED(bt_one_hot(bt_i32(1), none_such, BT_F32), BT_INVALID_ARGUMENT);
        POISONED(bt_pad(x, ((const int64_t[]){none_such, 0}), ((const int64_t[]){0, 0}), 0), BT_INVALID_ARGUMENT);
        POISONED(bt_input(BT_F32, none_such), BT_INVALID_ARGUMENT);
        POISONED(bt_top_k(x, none_such), BT_INVALID_ARGUMENT);
        POISONED(bt_reshape(x, 4, 2), BT_INVALID_ARGUMENT, HERE(0), "(2, 3)");
        POISONED(bt_reshape(x, -1, -1), BT_INVALID_ARGUMENT);
        POISONED(bt_tile(large, BT_SHAPE(1 << 20, 1 << 20)), BT_INVALID_ARGUMENT);
        POISONED(bt_sum(x, BT_AXES(2), false), BT_INVALID_ARGUMENT, "axis 2", "2 dimensions");
        POISONED(bt_sum(x, BT_AXES(0, 0), false), BT_INVALID_ARGUMENT);
        POISONED(bt_arange(0, 1, 0, BT_F32), BT_INVALID_ARGUMENT, "step");
        POISONED(bt_expand_dims(bt_zeros(BT_F32, 1, 1, 1, 1, 1, 1, 1, 1), 0), BT_INVALID_ARGUMENT, "8");
        READS(bt_sum(bt_zeros(BT_F32, 0, 3), BT_AXES(0), false), 0, 0, 0); /* none is no error */
        float host[5];
        FAILS(bt_read(x, host, sizeof host), BT_INVALID_ARGUMENT, HERE(0),
              "float32 (2, 3) has 24 bytes, the destination 20");
    }
}

static int handled;
static char handled_text[256];
static void handler(bt_status status, const char *text, void *data) {
    handled++;
    snprintf(handled_text, sizeof handled_text, "%s %s", bt_status_name(status), text);
    *(int *)data = 1;
}

static void in_strict_mode_the_handler_hears_at_once(void **state) {
    fresh("devices=sim:gpu*2@64M");
    int seen = 0;
    bt_set_error_handler(handler, &seen);
    BT_SCOPE {
        handled = 0;
        (void)bt_add(bt_ones(BT_F32, 2), bt_ones(BT_F32, 3));
        assert_int_equal(handled, 0); /* not without the flag */
        OK(bt_set_flag("strict", "on"));
        bt_array *bad = bt_add(bt_ones(BT_F32, 2), bt_ones(BT_F32, 3));
        const char *line = HERE(-1);
        assert_int_equal(handled, 1);
        assert_int_equal(seen, 1);
        SAYS(handled_text, "INVALID_ARGUMENT");
        SAYS(handled_text, line);
        bad = bt_relu(bad); /* no new error */
        POISONED(bad, BT_INVALID_ARGUMENT, line);
        assert_int_equal(handled, 1);
        OK(bt_set_flag("sim_fault", "launch:1"));
        POISONED(bt_add(bt_ones(BT_F32, 2), bt_num(1)), BT_INTERNAL, "injected fault");
        assert_int_equal(handled, 2); /* of what ran, once */
        bt_set_error_handler(NULL, NULL);
        (void)bt_add(bt_ones(BT_F32, 2), bt_ones(BT_F32, 3));
        assert_int_equal(handled, 2);
    }
}

/* --- variables and functions ---------------------------------------------------------------------------------------------- */

static void a_refused_set_keeps_the_old_value(void **state) {
    fresh("devices=sim:gpu*2@64M");
    BT_SCOPE {
        bt_shared *w = bt_shared_new(bt_ones(BT_F32, 2), "gpu:1"), *v = bt_shared_new(bt_ones(BT_F32, 2), NULL);
        bt_shared_set_name(w, "weights");
        FAILS(bt_set(w, bt_ones(BT_F32, 3)), BT_INVALID_ARGUMENT, HERE(0), "weights", "(2,)", "(3,)",
              "keeps its value");
        FAILS(bt_set(w, bt_ones(BT_F64, 2)), BT_INVALID_ARGUMENT, "float32", "float64");
        FAILS(bt_set(w, bt_add(bt_ones(BT_F32, 2), bt_ones(BT_F32, 3))), BT_INVALID_ARGUMENT, HERE(0), "bt_add");
        FAILS(bt_set(w, NULL), BT_INVALID_ARGUMENT);
        bt_shared *both[] = {v, w};
        bt_array *values[] = {bt_zeros(BT_F32, 2), bt_zeros(BT_F32, 3)};
        FAILS(bt_set_all(both, values, 2), BT_INVALID_ARGUMENT); /* all or none */
        READS(bt_value(w), 1, 1);
        READS(bt_value(v), 1, 1);
        assert_ptr_equal(bt_device_of(bt_value(w)), device("gpu:1"));
        OK(bt_set(w, bt_zeros(BT_F32, 2)));
        READS(bt_value(w), 0, 0);
        assert_string_equal(bt_shared_name(w), "weights");
        bt_shared_release(NULL);
    }
}

static void symbolic_arrays_have_no_value(void **state) {
    fresh("");
    BT_SCOPE {
        bt_array *x = bt_input(BT_F32, -1, 3), *y = bt_add(x, bt_num(1));
        bt_shared *w = bt_shared_new(bt_ones(BT_F32, 2), NULL);
        OK(bt_set(w, bt_add(bt_value(w), bt_num(1))));
        float host[6];
        FAILS(bt_read(y, host, sizeof host), BT_FAILED_PRECONDITION, HERE(0), "function's input");
        FAILS(bt_eval(y), BT_FAILED_PRECONDITION);
        FAILS(bt_block(x), BT_FAILED_PRECONDITION);
        assert_null(bt_map(y));
        assert_null(bt_to_text(y));
        assert_true(bt_item(bt_sum(y, BT_ALL, false)) != 0);
        assert_int_equal(bt_size(y, 0), -1);
        assert_int_equal(bt_size(y, 1), 3);
        assert_int_equal(bt_count(y), -1);
        READS(bt_value(w), 2, 2); /* and what else was pending is done */
        assert_int_not_equal(bt_shared_status(bt_shared_new(y, NULL)), BT_OK);
        assert_int_equal(bt_error_status(), BT_FAILED_PRECONDITION);
    }
}

static void function_arguments_are_checked(void **state) {
    fresh("devices=sim:gpu*2@64M");
    BT_SCOPE {
        bt_array *x = bt_input(BT_F32, -1, 3), *z = bt_input(BT_F32, -1, 3), *outputs[1];
        bt_shared *w = bt_shared_new(bt_zeros(BT_F32, 3), NULL);
        bt_array *inputs[] = {x, z}, *y = bt_add(x, z);
        bt_update update = {w, bt_sum(x, BT_AXES(0), false)};
        assert_int_not_equal(bt_function_status(bt_function_new(inputs, 1, &y, 1, NULL, 0)), BT_OK);
        SAYS(bt_error_text(), "need an input that is not listed");
        assert_int_not_equal(bt_function_status(bt_function_new(&y, 1, &y, 1, NULL, 0)), BT_OK);
        SAYS(bt_error_text(), "input 1 was not made by bt_input");
        bt_function *f = bt_function_new(inputs, 2, &y, 1, &update, 1);
        bt_array *a = bt_ones(BT_F32, 2, 3), *b = bt_ones(BT_F32, 4, 3), *c = bt_ones(BT_F64, 2, 3),
                 *d = bt_ones(BT_F32, 2, 4);
        FAILS(bt_call(f, &a, 1, outputs, 1), BT_INVALID_ARGUMENT, HERE(0), "takes 2 arguments, not 1");
        POISONED(outputs[0], BT_INVALID_ARGUMENT);
        FAILS(bt_call(f, ((bt_array *[]){a, a}), 2, outputs, 0), BT_INVALID_ARGUMENT, "1 outputs, not 0");
        POISONED(bt_call1(f, ((bt_array *[]){a, c}), 2), BT_INVALID_ARGUMENT, "argument 2 is float64 (2, 3)");
        POISONED(bt_call1(f, ((bt_array *[]){d, a}), 2), BT_INVALID_ARGUMENT, "argument 1 is float32 (2, 4)");
        POISONED(bt_call1(f, ((bt_array *[]){a, b}), 2), BT_INVALID_ARGUMENT, "do not fit", "(2, 3)", "(4, 3)");
        POISONED(bt_call1(f, ((bt_array *[]){a, NULL}), 2), BT_INVALID_ARGUMENT, "NULL");
        READS(bt_value(w), 0, 0, 0); /* none of these updated anything */
        READS(bt_call1(f, ((bt_array *[]){a, a}), 2), 2, 2, 2, 2, 2, 2);
        READS(bt_value(w), 2, 2, 2);
        bt_function_release(NULL);
    }
}

/* A step sets both; the second cannot be computed. What failed behind the caller's back, the next set tells, once. */
static void failing_step(const char *fault, bt_array *(*second)(bt_array *)) {
    BT_SCOPE {
        bt_shared *w = bt_shared_new(bt_ones(BT_F32, 2), "gpu:0"), *v = bt_shared_new(bt_ones(BT_F32, 2), "gpu:1");
        bt_array *x = bt_value(w), *y = bt_value(v);
        OK(bt_block(x));
        OK(bt_block(y));
        OK(bt_set_flag("sim_fault", fault));
        OK(bt_set_all(((bt_shared *[]){w, v}), ((bt_array *[]){bt_add(x, bt_num(1)), second(y)}), 2));
        bt_array *after_w = bt_value(w), *after_v = bt_value(v);
        (void)!bt_block(after_w);
        assert_int_not_equal(bt_block(after_v), BT_OK);
        OK(bt_set_flag("sim_fault", ""));
        READS(bt_value(w), 1, 1);
        READS(bt_value(v), 1, 1);
        if (*fault)
            FAILS(bt_set(w, bt_add(bt_value(w), bt_num(5))), BT_INTERNAL, "injected fault", "ownership_test.c:");
        READS(bt_value(w), 1, 1);
        OK(bt_set(w, bt_add(bt_value(w), bt_num(5)))); /* and goes on from there */
        READS(bt_value(w), 6, 6);
    }
}

static bt_array *plus_one(bt_array *x) { return bt_add(x, bt_num(1)); }
static bt_array *by_way_of_much(bt_array *x) {
    return bt_add(x, bt_sum(bt_cumsum(bt_broadcast_to(x, 1 << 22, 2), 0, false), BT_AXES(0), false));
}

static void a_failed_step_leaves_all_variables_as_they_were(void **state) {
    fresh("devices=sim:gpu*2@64M");
    failing_step("gpu1/launch:1+", plus_one);
    fresh("devices=sim:gpu*2@64M");
    failing_step("gpu1/wait:1+", plus_one);
    fresh("devices=sim:gpu*2@64M,memory_limit=4M");
    failing_step("", by_way_of_much);
}

static void one_variable_that_fails_does_not_take_another_with_it(void **state) {
    fresh("devices=sim:gpu*2@64M,memory_limit=4M");
    BT_SCOPE {
        bt_shared *w = bt_shared_new(bt_ones(BT_F32, 2), NULL), *v = bt_shared_new(bt_ones(BT_F32, 2), NULL);
        OK(bt_set(w, bt_add(bt_value(w), bt_num(1)))); /* two steps */
        OK(bt_set(v, by_way_of_much(bt_value(v))));
        POISONED(by_way_of_much(bt_ones(BT_F32, 2)), BT_RESOURCE_EXHAUSTED); /* and a read that fails */
        READS(bt_value(w), 2, 2);
        READS(bt_value(v), 1, 1);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_scope_releases_however_it_is_left),
        cmocka_unit_test(keep_moves_one_scope_out),
        cmocka_unit_test(retained_arrays_stay_until_released),
        cmocka_unit_test(assign_holds_the_newest),
        cmocka_unit_test(pending_work_keeps_what_it_needs),
        cmocka_unit_test(a_forgotten_scope_is_noticed_once),
        cmocka_unit_test(a_write_makes_a_new_version),
        cmocka_unit_test(host_data_may_change_after_the_call),
        cmocka_unit_test(single_elements_are_read_with_leave_only),
        cmocka_unit_test(poison_flows_with_its_first_cause),
        cmocka_unit_test(poison_answers_as_a_scalar),
        cmocka_unit_test(null_arguments_are_named),
        cmocka_unit_test(shapes_that_cannot_be_are_refused),
        cmocka_unit_test(in_strict_mode_the_handler_hears_at_once),
        cmocka_unit_test(a_refused_set_keeps_the_old_value),
        cmocka_unit_test(symbolic_arrays_have_no_value),
        cmocka_unit_test(function_arguments_are_checked),
        cmocka_unit_test(a_failed_step_leaves_all_variables_as_they_were),
        cmocka_unit_test(one_variable_that_fails_does_not_take_another_with_it),
    };
    return cmocka_run_group_tests(tests, NULL, fresh_end);
}
