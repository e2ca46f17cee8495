/* transfers=error: a table of operations and of ways in which a copy between devices would be inserted. Each is refused, with
 * both places and the call that mends it, and nothing crosses; what asks for a copy is free. */
#include <unistd.h>

#include "support/support.h"

static uint64_t crossed(void) {
    uint64_t bytes = 0;
    for (int i = 0; i < 4; i++) {
        char name[24];
        snprintf(name, sizeof name, "gpu:%d", i);
        bytes += memory(name).copied_in;
    }
    return bytes;
}

/* --- operations ----------------------------------------------------------------------------------------------------------- */

typedef bt_array *operation(bt_array *x, bt_array *y); /* both float32 [2, 2] */

static bt_array *indices(bt_array *y) { return bt_cast(bt_squeeze(bt_slice_axis(y, 0, 0, 1, 1), 0), BT_I32); }
static bt_array *row(bt_array *y) { return bt_squeeze(bt_slice_axis(y, 0, 0, 1, 1), 0); }
static bt_array *image(bt_array *x) { return bt_reshape(x, 1, 1, 2, 2); }
static bt_array *key(bt_array *y) { return bt_cast(row(y), BT_U32); }

#define PAIR(name) \
    static bt_array *call_##name(bt_array *x, bt_array *y) { return bt_##name(x, y); }
#define CASE(name, expression) \
    static bt_array *call_##name(bt_array *x, bt_array *y) { return expression; }
PAIR(add)
PAIR(sub)
PAIR(mul)
PAIR(div)
PAIR(floor_div)
PAIR(mod)
PAIR(pow)
PAIR(atan2)
PAIR(maximum)
PAIR(minimum)
PAIR(eq)
PAIR(lt)
PAIR(logical_and)
PAIR(matmul)
PAIR(mse)
PAIR(mae)
PAIR(cross_entropy)
PAIR(binary_cross_entropy)
CASE(huber, bt_huber(x, y, 1))
CASE(matmul_t, bt_matmul_t(x, y, true, false))
CASE(bit_and, bt_bit_and(bt_cast(x, BT_I32), bt_cast(y, BT_I32)))
CASE(where, bt_where(bt_gt(x, bt_num(0)), x, y))
CASE(where_condition, bt_where(bt_gt(x, bt_num(0)), y, y))
CASE(add_n, bt_add_n(((bt_array *[]){x, x, y}), 3))
CASE(concat, bt_concat(((bt_array *[]){x, y}), 2, 0))
CASE(stack, bt_stack(((bt_array *[]){x, y}), 2, 0))
CASE(einsum, bt_einsum("ij,jk->ik", ((bt_array *[]){x, y}), 2))
CASE(take, bt_take(x, indices(y), 0))
CASE(take_along_axis, bt_take_along_axis(x, bt_cast(y, BT_I32), 0))
CASE(searchsorted, bt_searchsorted(bt_sort(bt_reshape(x, -1), 0), y, false))
CASE(scatter_add, bt_scatter_add(x, bt_zeros(BT_I32, 2), y, 0))
CASE(dynamic_slice, bt_dynamic_slice_axis(x, bt_slice_axis(bt_reshape(indices(y), -1), 0, 0, 1, 1), 1, 0))
CASE(update_slice, bt_update_slice_axis(x, bt_slice_axis(y, 0, 0, 1, 1), bt_i32(1), 0))
CASE(scatter_set, bt_scatter_set(x, bt_zeros(BT_I32, 2), y, 0))
CASE(scatter_max_along_axis, bt_scatter_max_along_axis(x, bt_zeros(BT_I32, 2, 2), y, 0))
CASE(scatter_indices, bt_scatter_add(x, indices(y), x, 0))
CASE(scatter_add_along_axis, bt_scatter_add_along_axis(x, bt_zeros(BT_I32, 2, 2), y, 0))
CASE(layer_norm, bt_layer_norm(x, row(y), NULL, 1e-5))
CASE(layer_norm_bias, bt_layer_norm(x, row(x), row(y), 1e-5))
CASE(conv2d, bt_conv2d(image(x), image(y), NULL, NULL, NULL, 1))
CASE(bernoulli, bt_bernoulli(key(x), row(y), 2))
CASE(categorical, bt_categorical(key(x), row(y), 2))
CASE(shuffle, bt_shuffle(key(x), y, 0))

/* Of one array: they can only be sent elsewhere as a whole. */
CASE(relu, ((void)y, bt_relu(x)))
CASE(sum, ((void)y, bt_sum(x, BT_ALL, false)))
CASE(softmax, ((void)y, bt_softmax(x, -1)))
CASE(reshape, ((void)y, bt_reshape(x, 4)))
CASE(cast, ((void)y, bt_cast(x, BT_F64)))
CASE(pad, ((void)y, bt_pad(x, ((int64_t[]){1, 0}), ((int64_t[]){0, 0}), 0)))
CASE(sort, ((void)y, bt_sort(x, 0)))
CASE(bincount, ((void)y, bt_bincount(bt_cast(x, BT_I32), 3)))
CASE(histogram, ((void)y, bt_histogram(x, 3, -1, 1)))
CASE(unique, ((void)y, bt_unique(x, 3)))
CASE(one_hot, ((void)y, bt_one_hot(indices(x), 3, BT_F32)))
CASE(uniform, ((void)y, bt_uniform(key(x), BT_F32, 2)))
CASE(apply, ((void)y, bt_apply(bt_lambda("relu", bt_relu), x)))

enum { BOTH = 2, ONE = 1, SLOPE = 4 }; /* how many arrays it takes; whether it has a gradient */
static const struct {
    const char *name;
    operation *call;
    int kind;
} operations[] = {
#define ROW(name, kind) \
    { #name, call_##name, kind }
    ROW(add, BOTH | SLOPE),
    ROW(sub, BOTH | SLOPE),
    ROW(mul, BOTH | SLOPE),
    ROW(div, BOTH | SLOPE),
    ROW(floor_div, BOTH),
    ROW(mod, BOTH),
    ROW(pow, BOTH | SLOPE),
    ROW(atan2, BOTH | SLOPE),
    ROW(maximum, BOTH | SLOPE),
    ROW(minimum, BOTH | SLOPE),
    ROW(eq, BOTH),
    ROW(lt, BOTH),
    ROW(logical_and, BOTH),
    ROW(matmul, BOTH | SLOPE),
    ROW(matmul_t, BOTH | SLOPE),
    ROW(mse, BOTH | SLOPE),
    ROW(mae, BOTH | SLOPE),
    ROW(cross_entropy, BOTH | SLOPE),
    ROW(binary_cross_entropy, BOTH | SLOPE),
    ROW(huber, BOTH | SLOPE),
    ROW(bit_and, BOTH),
    ROW(where, BOTH | SLOPE),
    ROW(where_condition, BOTH),
    ROW(add_n, BOTH | SLOPE),
    ROW(concat, BOTH | SLOPE),
    ROW(stack, BOTH | SLOPE),
    ROW(einsum, BOTH | SLOPE),
    ROW(take, BOTH | SLOPE),
    ROW(take_along_axis, BOTH | SLOPE),
    ROW(searchsorted, BOTH),
    ROW(scatter_add, BOTH | SLOPE),
    ROW(scatter_set, BOTH | SLOPE),
    ROW(scatter_max_along_axis, BOTH | SLOPE),
    ROW(dynamic_slice, BOTH | SLOPE),
    ROW(update_slice, BOTH | SLOPE),
    ROW(scatter_indices, BOTH | SLOPE),
    ROW(scatter_add_along_axis, BOTH | SLOPE),
    ROW(layer_norm, BOTH | SLOPE),
    ROW(layer_norm_bias, BOTH | SLOPE),
    ROW(conv2d, BOTH | SLOPE),
    ROW(bernoulli, BOTH),
    ROW(categorical, BOTH),
    ROW(shuffle, BOTH),
    ROW(relu, ONE | SLOPE),
    ROW(sum, ONE | SLOPE),
    ROW(softmax, ONE | SLOPE),
    ROW(reshape, ONE | SLOPE),
    ROW(cast, ONE | SLOPE),
    ROW(pad, ONE | SLOPE),
    ROW(sort, ONE | SLOPE),
    ROW(bincount, ONE),
    ROW(histogram, ONE),
    ROW(unique, ONE | SLOPE),
    ROW(one_hot, ONE),
    ROW(uniform, ONE),
    ROW(apply, ONE | SLOPE),
};

enum { MADE = __LINE__ + 1 };
static bt_array *on(const char *name) { return bt_to(BT_ARRAY(float, (2, 2), 1, 0, 0, 1), name); }

/* Reading gives the refusal; and nothing crossed. */
static void refused(const char *name, bt_array *result, uint64_t before, const char *mend) {
    bt_status status = bt_block(result);
    if (status != BT_FAILED_PRECONDITION) fail_msg("%s: %s: %s", name, bt_status_name(status), bt_error_text());
    if (!strstr(bt_error_text(), "(made by ")) fail_msg("%s: no line in \"%s\"", name, bt_error_text());
    if (!strstr(bt_error_text(), mend)) fail_msg("%s: no %s in \"%s\"", name, mend, bt_error_text());
    if (crossed() != before) fail_msg("%s: %d bytes crossed", name, (int)(crossed() - before));
    bt_error_clear();
}

static const char *text_of(bt_array *result) {
    (void)!bt_block(result);
    return bt_error_text();
}

static bt_function *function_of(operation *call, bt_array *x, bt_array *y) {
    bt_array *output = call(x, y);
    return bt_function_new(((bt_array *[]){x, y}), 2, &output, 1, NULL, 0);
}

static bt_array *input_on(const char *name) {
    bt_array *input = NULL;
    BT_ON(name) input = bt_input(BT_F32, 2, 2);
    return input;
}

static void every_operation_every_way(void **state) {
    for (int i = 0; i < COUNT(operations); i++) {
        operation *call = operations[i].call;
        const char *name = operations[i].name;
        fresh("devices=sim:gpu*4");
        BT_SCOPE {
            bt_array *x = on("gpu:0"), *y = on("gpu:1"), *near = on("gpu:1"), *result = NULL;
            bool both = operations[i].kind & BOTH;
            OK(bt_eval_all(((bt_array *[]){x, y, near}), 3));
            for (int k = 0; k < 3; k++) OK(bt_block(((bt_array *[]){x, y, near})[k]));
            bt_function *apart = both ? function_of(call, input_on("gpu:0"), input_on("gpu:1")) : NULL;
            bt_function *function = function_of(call, bt_input(BT_F32, 2, 2), bt_input(BT_F32, 2, 2));
            bt_function *placed = function_of(call, input_on("gpu:2"), input_on("gpu:2"));
            if (!function || !placed) fail_msg("%s: %s", name, bt_error_text());
            bt_array *loss = NULL;
            if (operations[i].kind & SLOPE) {
                BT_ON("gpu:2") loss = bt_sum(call(y, near), BT_ALL, false);
                OK(bt_block(loss));
            }
            bt_synchronize();
            uint64_t before = crossed();
            OK(bt_set_flag("transfers", "error"));
            if (both) refused(name, call(x, y), before, "\"GPU:");
            BT_ON("gpu:2") result = call(y, near);
            SAYS(text_of(result), HERE(-1));
            SAYS(text_of(result), place_text(__FILE__, MADE));
            refused(name, result, before, "transfers=error: move it first: bt_to(x, \"GPU:2\")");
            for (int round = 0; round < 2; round++) {
                refused(name, bt_call1(placed, ((bt_array *[]){y, near}), 2), before, "bt_to(x, \"GPU:2\")");
                refused(name, bt_call1(function, ((bt_array *[]){y, near}), 2), before, "bt_to(x, \"GPU:0\")");
                if (both) refused(name, bt_call1(apart, ((bt_array *[]){x, y}), 2), before, "\"GPU:");
            }
            if (loss) refused(name, bt_grad1(loss, y), before, "bt_to(x, \"GPU:2\")");
            OK(bt_set_flag("placement", "tensorflow"));
            refused(name, call(y, near), before, "bt_to(x, \"GPU:0\")");
            BT_ON("gpu:1") result = call(y, near); /* together where they are */
            OK(bt_block(result));
            OK(bt_set_flag("placement", "berth"));
            OK(bt_block(call(y, near)));
            if (both) OK(bt_block(call(bt_to(x, "gpu:1"), y)));
            BT_ON("gpu:2") result = call(bt_to(y, "gpu:2"), bt_to(near, "gpu:2"));
            OK(bt_block(result));
            OK(bt_block(bt_call1(placed, ((bt_array *[]){bt_to(y, "gpu:2"), bt_to(near, "gpu:2")}), 2)));
        }
    }
}

/* --- other calls ---------------------------------------------------------------------------------------------------------- */

static void expect_refusal(bt_status status, uint64_t before, const char *first, const char *second, const char *mend) {
    assert_int_equal(status, BT_FAILED_PRECONDITION);
    SAYS(bt_error_text(), first);
    SAYS(bt_error_text(), second);
    SAYS(bt_error_text(), mend);
    assert_int_equal(crossed(), before);
    bt_error_clear();
}

static void of_two_the_smaller_moves(void **state) {
    fresh("devices=sim:gpu*2,transfers=error");
    BT_SCOPE {
        bt_array *small = bt_to(bt_ones(BT_F32, 2), "gpu:0"), *large = bt_to(bt_ones(BT_F32, 9, 2), "gpu:1");
        const char *line = HERE(-1);
        POISONED(bt_add(small, large), BT_FAILED_PRECONDITION, line, "move the former first: bt_to(x, \"GPU:1\")");
        POISONED(bt_add(large, small), BT_FAILED_PRECONDITION, line, "move the latter first: bt_to(y, \"GPU:1\")");
        POISONED(bt_concat(((bt_array *[]){large, bt_to(large, "gpu:0")}), 2, 0), BT_FAILED_PRECONDITION,
                 "bt_to(y, \"GPU:1\")");
    }
}

static void variables_are_not_set_from_elsewhere(void **state) {
    fresh("devices=sim:gpu*4,transfers=error");
    BT_SCOPE {
        bt_shared *w = bt_shared_new(bt_ones(BT_F32, 2), "gpu:0"), *v = bt_shared_new(bt_ones(BT_F32, 2), "gpu:1");
        const char *line_w = HERE(-1);
        bt_array *x = bt_to(BT_ARRAY(float, (2), 1, 2), "gpu:1");
        const char *line_x = HERE(-1), *mend = "bt_to(value, \"GPU:0\")";
        OK(bt_block(x));
        bt_synchronize();
        uint64_t before = crossed();
        expect_refusal(bt_set(w, x), before, line_w, line_x, mend);
        expect_refusal(bt_set_all(((bt_shared *[]){v, w}), ((bt_array *[]){x, x}), 2), before, line_w, line_x, mend);
        READS(bt_value(v), 1, 1); /* all or none */
        OK(bt_set(w, bt_to(x, "gpu:0")));
        OK(bt_set(w, BT_ARRAY(float, (2), 3, 4))); /* uncommitted */
        bt_optimizer *o = bt_sgd(1);
        bt_synchronize();
        before = crossed();
        expect_refusal(bt_optimizer_step(o, &w, &x, 1), before, line_w, line_x, "bt_to(grad, \"GPU:0\")");
        bt_array *free = bt_ones(BT_F32, 2);
        bt_function *f = bt_function_new(NULL, 0, &free, 1, &(bt_update){w, x}, 1);
        assert_non_null(f);
        for (int round = 0; round < 2; round++)
            expect_refusal(bt_call(f, NULL, 0, &(bt_array *){NULL}, 1), before, line_w, line_x, mend);
        READS(bt_value(w), 3, 4);
    }
}

static void cotangents_and_layers(void **state) {
    fresh("devices=sim:gpu*4,transfers=error");
    BT_SCOPE {
        bt_array *x = on("gpu:0"), *y = bt_mul(x, x), *g = on("gpu:1"), *grad = NULL;
        bt_layer *model = bt_layer_to(bt_dense(2, 2, NULL, bt_key(1)), "gpu:1");
        OK(bt_block(x));
        OK(bt_block(g));
        bt_synchronize();
        uint64_t before = crossed();
        expect_refusal(bt_vjp(y, g, &x, 1, &grad), before, place_text(__FILE__, MADE), "bt_vjp",
                       "bt_to(cotangent, \"GPU:0\")");
        expect_refusal(try_read(bt_apply(model, x)), before, place_text(__FILE__, MADE), HERE(0), "bt_to(");
        OK(bt_vjp(y, bt_to(g, "gpu:0"), &x, 1, &grad));
        OK(bt_block(bt_apply(model, bt_to(x, "gpu:1"))));
    }
}

static void strict_tells_once(bt_status status, const char *text, void *count) { ++*(int *)count; }

static void a_refused_call_is_told_once(void **state) {
    fresh("devices=sim:gpu*2,transfers=error,strict=on");
    int told = 0;
    BT_SCOPE {
        bt_array *x = on("gpu:1");
        OK(bt_block(x));
        bt_function *f = function_of(call_relu, input_on("gpu:0"), input_on("gpu:0"));
        assert_non_null(f);
        bt_set_error_handler(strict_tells_once, &told);
        bt_array *result = bt_call1(f, ((bt_array *[]){x, x}), 2);
        assert_int_equal(told, 1);
        bt_set_error_handler(NULL, NULL);
        assert_int_equal(bt_peek_status(result), BT_FAILED_PRECONDITION);
    }
}

/* --- what is asked for ---------------------------------------------------------------------------------------------------- */

static bt_array *squares(bt_layer *model, bt_array *x, bt_array *y, void *data) {
    return bt_mse(bt_apply(model, x), y);
}

static void asked_for_copies_are_free(void **state) {
    fresh("devices=sim:gpu*4,transfers=error");
    BT_SCOPE {
        bt_array *x = on("gpu:1"), *parts[4], *many[2] = {x, x};
        READS(bt_cpu(bt_gpu(bt_to(x, "gpu:2"))), 1, 0, 0, 1);
        bt_to_all(many, 2, "gpu:3");
        READS(bt_add(many[0], many[1]), 2, 0, 0, 2);
        READS(bt_value(bt_shared_new(x, "gpu:2")), 1, 0, 0, 1);
        bt_layer *model = bt_layer_to(bt_layer_to(bt_dense(2, 2, NULL, bt_key(1)), "gpu:2"), "gpu:3");
        OK(bt_block(bt_apply(model, bt_to(x, "gpu:3"))));
        BT_ON("gpu:2") OK(bt_block(bt_add(bt_ones(BT_F32, 2), bt_num(1))));
        bt_array *free = BT_ARRAY(float, (2, 2), 1, 2, 3, 4), *grad;
        OK(bt_block(free));
        READS(bt_add(free, x), 2, 2, 3, 5);
        bt_array *moved = bt_to(free, "gpu:3"), *loss = bt_sum(bt_mul(moved, moved), BT_ALL, false);
        OK(bt_grad(loss, &free, 1, &grad)); /* back over the move */
        READS(grad, 2, 4, 6, 8);
        BT_ON("gpu:2") loss = bt_sum(bt_mul(free, free), BT_ALL, false);
        OK(bt_grad(loss, &free, 1, &grad)); /* it was free to go there */
        READS(grad, 2, 4, 6, 8);

        bt_strategy *s = bt_mirrored(NULL, 0);
        for (int r = 0; r < 4; r++)
            BT_REPLICA(s, r) parts[r] = bt_full(r, BT_F32, 2);
        bt_all_reduce(s, parts);
        for (int r = 0; r < 4; r++) READS(parts[r], 6, 6);
        for (int exact = 0; exact < 2; exact++) {
            OK(bt_strategy_set_exact(s, exact));
            BT_STRATEGY(s) model = bt_dense(2, 2, NULL, bt_key(1));
            bt_array *rows = bt_concat(((bt_array *[]){x, x, x, x}), 4, 0);
            OK(bt_block(bt_train_step(s, model, bt_sgd(0.1), squares, NULL, rows, rows)));
            bt_shared *weight;
            assert_int_equal(bt_parameters(model, &weight, 1), 2);
            OK(bt_set(weight, on("gpu:2"))); /* to all replicas */
            READS(bt_value(weight), 1, 0, 0, 1);
        }
    }
}

static void a_model_is_loaded_where_it_is(void **state) {
    fresh("devices=sim:gpu*2,transfers=error");
    char path[] = "/tmp/berth_transfers_XXXXXX";
    int file = mkstemp(path);
    assert_true(file >= 0);
    close(file);
    BT_SCOPE {
        bt_layer *model = bt_layer_to(bt_dense(2, 2, NULL, bt_key(1)), "gpu:1");
        OK(bt_save_model(path, model));
        BT_ON("gpu:0") OK(bt_load_model(path, model));
    }
    unlink(path);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_operation_every_way),
        cmocka_unit_test(of_two_the_smaller_moves),
        cmocka_unit_test(variables_are_not_set_from_elsewhere),
        cmocka_unit_test(cotangents_and_layers),
        cmocka_unit_test(a_refused_call_is_told_once),
        cmocka_unit_test(asked_for_copies_are_free),
        cmocka_unit_test(a_model_is_loaded_where_it_is),
    };
    return cmocka_run_group_tests(tests, NULL, fresh_end);
}
