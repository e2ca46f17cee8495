/* Public calls inside of a callback: each works, or fails at once and says why; none waits, whatever thread runs the callback and however much
 * work is ahead. */
#include "support/support.h"

#include <unistd.h>

/* What the calls are made on. */
typedef struct world {
    bt_array *pending, *done, *column;
    bt_shared *variable, *other;
    bt_function *plain, *updating;
    bt_layer *model;
    bt_optimizer *optimizer;
    bt_strategy *strategy;
    bt_profile *profile;
    bt_custom *negative;
} world;

/* --- the calls ---------------------------------------------------------------------------------------------------------- */

static const char file[] = "callback_calls_test.npy", tensors[] = "callback_calls_test.safetensors";

static bt_status text_status(char *text) {
    bt_free(text);
    return text ? BT_OK : bt_error_status();
}
static bt_array *square_of(bt_array *const *args, int count, void *data) {
    (void)count, (void)data;
    return bt_sum(bt_square(args[0]), BT_ALL, false);
}
static bt_array *loss_of(bt_layer *model, bt_array *x, bt_array *y, void *data) {
    (void)data;
    return bt_mean(bt_square(bt_sub(bt_apply(model, x), y)), BT_ALL, false);
}
static void nothing(void *data) { (void)data; }
static void add_one(bt_array **carry, bt_array *const *x, bt_array **y, void *data) {
    (void)x, (void)y, (void)data;
    carry[0] = bt_add(carry[0], bt_num(1));
}
static bt_status negate(const bt_elements *inputs, int count, const bt_elements *outputs, const bt_custom_args *args) {
    (void)count, (void)args;
    for (int64_t i = 0; i < outputs->shape.size[0]; i++)
        ((float *)outputs->data)[i] = -((const float *)inputs->data)[i];
    return BT_OK;
}
static bt_status same_shape(const bt_elements *inputs, int count, bt_elements *outputs, const bt_custom_args *args) {
    (void)inputs, (void)count, (void)outputs, (void)args;
    return BT_OK;
}

#define CALL(name) static bt_status name(world *w)
#define LAST(call) ((void)(call), bt_error_status())

CALL(evaluate) { return bt_eval(w->pending); }
CALL(evaluate_all) { return bt_eval_all(&w->pending, 1); }
CALL(block) { return bt_block(w->pending); }
CALL(read_elements) { return bt_read(w->pending, (float[4]){0}, 4 * sizeof(float)); }
CALL(item) { return LAST(bt_item(bt_sum(w->pending, BT_ALL, false))); }
CALL(item_at) { return bt_item_at(bt_sum(w->pending, BT_ALL, false), NULL, &(double){0}); }
CALL(map) { return bt_map(w->pending) ? BT_OK : bt_error_status(); }
CALL(to_text) { return text_status(bt_to_text(w->pending)); }
CALL(repr) { return text_status(bt_repr(w->pending)); }
CALL(from) { return bt_peek_status(bt_from((float[]){1}, BT_F32, BT_SHAPE(1))); }
CALL(write_elements) { return bt_write(w->done, (float[4]){0}, 4 * sizeof(float)); }
CALL(new_variable) { return bt_shared_status(bt_shared_new(w->pending, NULL)); }
CALL(new_variable_beside) { return bt_shared_status(bt_shared_new_beside(w->variable, w->pending)); }
CALL(set) { return bt_set(w->variable, w->pending); }
CALL(set_done) { return bt_set(w->other, w->done); }
CALL(set_all) { return bt_set_all((bt_shared *[]){w->variable, w->other}, (bt_array *[]){w->done, w->done}, 2); }
CALL(call_updating) {
    bt_array *result;
    return bt_call(w->updating, &w->done, 1, &result, 1);
}
CALL(call1_updating) { return bt_peek_status(bt_call1(w->updating, &w->done, 1)); }
CALL(step_optimizer) { return bt_optimizer_step(w->optimizer, &w->variable, &w->done, 1); }
CALL(train_step) {
    return bt_peek_status(bt_train_step(NULL, w->model, w->optimizer, loss_of, NULL, w->column, w->column));
}
CALL(train_step_mirrored) {
    return bt_peek_status(bt_train_step(w->strategy, w->model, w->optimizer, loss_of, NULL, w->column, w->column));
}
CALL(fit) {
    return bt_fit(w->model, w->optimizer, w->column, w->column,
                  BT_FIT_OPTIONS(.epochs = 1, .batch = 2, .loss = loss_of, .quiet = true), NULL);
}
CALL(accuracy) { return LAST(bt_accuracy(w->model, w->column, bt_zeros(BT_I32, 4))); }
CALL(check_gradient) { return bt_check_grad(square_of, NULL, (bt_array *[]){bt_ones(BT_F64, 2)}, 1, 0, &(double){0}); }
CALL(trim) { return LAST(bt_memory_trim(bt_device_of(w->done))); }
CALL(time_function) { return LAST(bt_time(nothing, NULL)); }
CALL(timeit) { return text_status(bt_timeit(nothing, NULL, 1, 1, NULL)); }
CALL(start_profile) { return bt_profile_start() ? BT_OK : bt_error_status(); }
CALL(stop_profile) { return bt_profile_stop(w->profile, NULL, NULL); }
CALL(shut_down) { return bt_shutdown(); }
CALL(explain) { return text_status(bt_explain(w->pending)); }
CALL(peak) { return bt_peak_all(&w->pending, 1, (bt_peak[4]){0}, &(int){4}); }
CALL(save) { return bt_save(tensors, (const char *[]){"x"}, &w->pending, 1, NULL); }
CALL(save_npy) { return bt_save_npy(file, w->pending); }
CALL(save_npz) { return bt_save_npz(file, (const char *[]){"x"}, &w->pending, 1, false); }
CALL(to_dlpack) { return bt_to_dlpack(w->pending, true, &(struct DLManagedTensorVersioned *){NULL}); }
CALL(load_npy) { return bt_peek_status(bt_load_npy(file)); }
CALL(load_model) { return bt_load_model(tensors, w->model); }
CALL(model_open) { return bt_layer_status(bt_model_open(tensors)); }
CALL(save_bson) {
    bt_status status = bt_save_bson("callback_calls_test.bson", "m", w->model);
    remove("callback_calls_test.bson");
    return status;
}

CALL(explain_function) { return text_status(bt_explain_function(w->plain, &w->done, 1)); }
CALL(peak_of_call) { return bt_peak_call(w->plain, &w->done, NULL, 1, (bt_peak[4]){0}, &(int){4}); }
CALL(cost) { return bt_function_cost(w->plain, &w->done, NULL, 1, &(bt_cost)BT_COST_INIT); }
CALL(from_lent) {
    static const float one[64];
    return bt_peek_status(bt_from_lent(one, BT_F32, BT_SHAPE(64), NULL, NULL));
}
CALL(save_model) { return bt_save_model(tensors, w->model); }
CALL(print) { return LAST(bt_print(w->done)); }

CALL(record_much) { /* more than is evaluated behind the caller otherwise */
    bt_array *x = w->pending;
    for (int i = 0; i < 300; i++)
        BT_SCOPE
            x = bt_keep(bt_add(x, bt_mul(bt_num(i), bt_full(i, BT_F32, 4))));
    return bt_peek_status(x);
}
CALL(call_plain) { return bt_peek_status(bt_call1(w->plain, &w->done, 1)); }
CALL(value) { return bt_peek_status(bt_value(w->variable)); }
CALL(apply) { return bt_peek_status(bt_apply(w->model, w->column)); }
CALL(gradient) { return bt_peek_status(bt_grad1(bt_sum(bt_square(w->pending), BT_ALL, false), w->pending)); }
CALL(scan) { return bt_scan(add_one, NULL, 3, &(bt_array *){w->pending}, 1, NULL, 0, NULL, 0); }
CALL(define) {
    bt_array *x = bt_input(BT_F32, 4), *y = bt_exp(x);
    return bt_function_status(bt_vmap(bt_function_new(&x, 1, &y, 1, NULL, 0), NULL, NULL));
}
CALL(own_operation) { return bt_peek_status(bt_custom_call(w->negative, &w->pending, 1, NULL, 0)); }
CALL(sum_over_devices) {
    bt_array *parts[1] = {w->pending};
    bt_all_reduce(w->strategy, parts);
    return bt_peek_status(parts[0]);
}
CALL(move) { return bt_peek_status(bt_to(w->pending, "cpu")); }
CALL(synchronize) { return LAST(bt_synchronize()); }
CALL(memory_of) { return bt_memory(bt_device_of(w->done), &(bt_memory_info)BT_MEMORY_INFO_INIT); }
CALL(pinned) {
    void *memory = bt_pinned(bt_device_of(w->done), 4096);
    bt_pinned_free(memory);
    return memory ? BT_OK : bt_error_status();
}
CALL(reset_peak) { return LAST(bt_memory_reset_peak(bt_device_of(w->done))); }
CALL(flag) { return bt_set_flag("print_device", "on"); }
CALL(hold) {
    bt_release(bt_retain(w->pending));
    bt_function_release(bt_function_retain(w->updating));
    bt_shared_release(bt_shared_retain(w->variable));
    return BT_OK;
}

enum { REFUSED, WORKS, EITHER /* where the elements lie decides */ };
static const struct {
    const char *name; /* of the call that fails */
    bt_status (*call)(world *w);
    int outcome;
} calls[] = {
    {"bt_eval", evaluate, REFUSED},
    {"bt_eval_all", evaluate_all, REFUSED},
    {"bt_block", block, REFUSED},
    {"bt_read", read_elements, REFUSED},
    {"bt_item", item, REFUSED},
    {"bt_item_at", item_at, REFUSED},
    {"bt_map", map, REFUSED},
    {"bt_to_text", to_text, REFUSED},
    {"bt_repr", repr, REFUSED},
    {"bt_from", from, REFUSED},
    {"bt_write", write_elements, REFUSED},
    {"bt_shared_new", new_variable, REFUSED},
    {"bt_shared_new_beside", new_variable_beside, REFUSED},
    {"bt_set", set, REFUSED},
    {"bt_set", set_done, REFUSED},
    {"bt_set_all", set_all, REFUSED},
    {"bt_call", call_updating, REFUSED},
    {"bt_call1", call1_updating, REFUSED},
    {"bt_optimizer_step", step_optimizer, REFUSED},
    {"bt_optimizer_step", train_step, REFUSED},
    {"bt_optimizer_step", train_step_mirrored, REFUSED},
    {"bt_loader_next", fit, REFUSED},
    {"bt_item", accuracy, REFUSED},
    {"bt_read", check_gradient, REFUSED},
    {"bt_memory_trim", trim, REFUSED},
    {"bt_time", time_function, REFUSED},
    {"bt_timeit", timeit, REFUSED},
    {"bt_profile_start", start_profile, REFUSED},
    {"bt_profile_stop", stop_profile, REFUSED},
    {"bt_shutdown", shut_down, REFUSED},
    {"bt_explain", explain, REFUSED},
    {"bt_peak_all", peak, REFUSED},
    {"bt_save", save, REFUSED},
    {"bt_save_npy", save_npy, REFUSED},
    {"bt_save_npz", save_npz, REFUSED},
    {"bt_to_dlpack", to_dlpack, REFUSED},
    {"bt_load_npy", load_npy, REFUSED},
    {"bt_load_model", load_model, REFUSED},
    {"bt_model_open", model_open, REFUSED},
    {"bt_save_bson", save_bson, EITHER},
    {"bt_explain_function", explain_function, EITHER},
    {"bt_peak_call", peak_of_call, EITHER},
    {"bt_function_cost", cost, EITHER},
    {"bt_from_lent", from_lent, EITHER},
    {"bt_save_model", save_model, EITHER},
    {"bt_print", print, EITHER},
    {"record", record_much, WORKS},
    {"bt_call1", call_plain, WORKS},
    {"bt_value", value, WORKS},
    {"bt_apply", apply, WORKS},
    {"bt_grad1", gradient, WORKS},
    {"bt_scan", scan, WORKS},
    {"bt_vmap", define, WORKS},
    {"bt_custom_call", own_operation, WORKS},
    {"bt_all_reduce", sum_over_devices, WORKS},
    {"bt_to", move, WORKS},
    {"bt_synchronize", synchronize, REFUSED},
    {"bt_memory", memory_of, WORKS},
    {"bt_pinned", pinned, WORKS},
    {"bt_memory_reset_peak", reset_peak, WORKS},
    {"bt_set_flag", flag, WORKS},
    {"bt_retain", hold, WORKS},
};

/* --- inside ------------------------------------------------------------------------------------------------------------- */

static int made; /* calls */
static char failed[256][400];
static int failures;

static void expect_outcome(int c, bt_status status) {
    const char *text = bt_error_text();
    bool says = strstr(text, calls[c].name) && strstr(text, "cannot wait for work, submit any or set variables") &&
                strstr(text, "take what it needs as inputs");
    bool fine = status == BT_OK ? calls[c].outcome != REFUSED : calls[c].outcome != WORKS;
    if (fine && status != BT_OK) fine = status == BT_FAILED_PRECONDITION && says;
    if (!fine && failures < COUNT(failed))
        snprintf(failed[failures++], sizeof *failed, "%s: %s %s", calls[c].name, bt_status_name(status), text);
}

static void make_each_call(const bt_elements *value, void *data) {
    (void)value;
    if (made) return; /* a function with updates tells once per call */
    for (int c = 0; c < COUNT(calls); c++)
        BT_SCOPE {
            bt_error_clear();
            expect_outcome(c, calls[c].call(data));
            made++;
        }
    bt_error_clear();
}

static bt_status make_each_call_in_run(const bt_elements *inputs, int count, const bt_elements *outputs,
                                       const bt_custom_args *args) {
    make_each_call(inputs, args->data);
    return negate(inputs, count, outputs, args);
}

static void expect_all_made(void) {
    assert_int_equal(made, COUNT(calls));
    for (int i = 0; i < failures; i++) fprintf(stderr, "%s\n", failed[i]);
    assert_int_equal(failures, 0);
    made = 0;
}

/* --- the worlds --------------------------------------------------------------------------------------------------------- */

static void make_world(world *w) {
    w->done = bt_ones(BT_F32, 4);
    w->column = bt_ones(BT_F32, 4, 1);
    OK(bt_eval_all((bt_array *[]){w->done, w->column}, 2));
    w->variable = bt_shared_new(bt_zeros(BT_F32, 4), NULL);
    w->other = bt_shared_new(bt_zeros(BT_F32, 4), NULL);
    bt_array *x = bt_input(BT_F32, 4), *y = bt_exp(bt_add(x, bt_value(w->other)));
    w->plain = bt_function_new(&x, 1, &y, 1, NULL, 0);
    w->model = bt_dense_from(bt_ones(BT_F32, 1, 1), NULL, NULL);
    w->optimizer = bt_sgd(0.5);
    w->strategy = bt_mirrored((const char *[]){"cpu"}, 1);
    w->negative = bt_custom_new(BT_CUSTOM(.name = "negative", .run = negate, .shape = same_shape));
    OK(bt_save_npy(file, w->done));
    OK(bt_save_model(tensors, w->model));
    w->profile = bt_profile_start();
}

/* Anew: what callbacks recorded on this thread may have made it evaluate the one before. */
static void make_pending(world *w) { w->pending = bt_sin(w->done); }

/* Calls of a function that sets a variable, whose callback makes the calls: by a thread that waits, or by the queue's own. */
static void in_a_step(world *w, bool waits) {
    bt_array *x = bt_input(BT_F32, 4), *y = bt_debug_callback(make_each_call, w, bt_add(x, bt_value(w->variable)));
    bt_update update = {w->variable, bt_add(bt_value(w->variable), bt_add(bt_mul(y, bt_num(0)), bt_num(1)))};
    w->updating = bt_function_new(&x, 1, &y, 1, &update, 1);
    make_pending(w);
    bt_array *result = NULL;
    for (int i = 0; i < 4; i++) {
        OK(bt_call(w->updating, &w->done, 1, &result, 1));
        if (waits) OK(bt_block(result));
    }
    READS(result, 4, 4, 4, 4);
    expect_all_made();
    READS(bt_value(w->variable), 4, 4, 4, 4); /* what was refused changed nothing */
    READS(bt_value(w->other), 0, 0, 0, 0);
}

static void in_an_operation(world *w, bool waits) {
    bt_custom *op = bt_custom_new(
        BT_CUSTOM(.name = "calls", .run = make_each_call_in_run, .shape = same_shape, .data = w, .impure = true));
    make_pending(w);
    bt_array *x = bt_custom_call(op, &w->done, 1, NULL, 0);
    OK(bt_eval(x));
    if (!waits) sleep_ms(1); /* the queue's thread may be first */
    READS(x, -1, -1, -1, -1);
    expect_all_made();
}

static void inside(const char *settings, bool waits) {
    world w = {0};
    fresh(settings);
    OK(bt_set_flag("flush_nodes", "200"));
    alarm(SOON);
    BT_SCOPE {
        make_world(&w);
        in_a_step(&w, waits);
        in_an_operation(&w, waits);
        READS(w.pending, 0.8414709568023682, 0.8414709568023682, 0.8414709568023682, 0.8414709568023682);
        OK(bt_profile_stop(w.profile, NULL, NULL)); /* it went on */
    }
    alarm(0);
    unlink(file), unlink(tensors);
}

static void on_the_cpu(void **state) { inside("", true); }
static void on_the_cpu_behind(void **state) { inside("", false); }
static void with_nothing_ahead(void **state) { inside("ahead_bytes=0", false); }
static void on_a_gpu(void **state) { inside("devices=sim:gpu*1", true); }
static void on_a_gpu_with_nothing_ahead(void **state) { inside("devices=sim:gpu*1,ahead_bytes=0", false); }
static void on_a_card(void **state) { inside("devices=sim:h200*1", false); }

/* The place that an error names is that of the call inside. */
static char text_inside[400];
static const char *here_inside;
static void note_text(const bt_elements *value, void *data) {
    (void)value;
    bt_error_clear();
    here_inside = HERE(1);
    assert_int_equal(bt_set(data, bt_ones(BT_F32, 4)), BT_FAILED_PRECONDITION);
    snprintf(text_inside, sizeof text_inside, "%s", bt_error_text());
    bt_error_clear();
}

static void errors_name_the_call(void **state) {
    for (int waits = 0; waits < 2; waits++) {
        fresh("");
        BT_SCOPE {
            bt_shared *variable = bt_shared_new(bt_zeros(BT_F32, 4), NULL);
            bt_array *x = bt_debug_callback(note_text, variable, bt_ones(BT_F32, 4));
            if (waits) OK(bt_block(x));
            OK(bt_eval(x));
            bt_synchronize();
            SAYS(text_inside, here_inside);
            SAYS(text_inside, "bt_set: ");
            READS(bt_value(variable), 0, 0, 0, 0);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(on_the_cpu),
        cmocka_unit_test(on_the_cpu_behind),
        cmocka_unit_test(with_nothing_ahead),
        cmocka_unit_test(on_a_gpu),
        cmocka_unit_test(on_a_gpu_with_nothing_ahead),
        cmocka_unit_test(on_a_card),
        cmocka_unit_test(errors_name_the_call),
    };
    return cmocka_run_group_tests(tests, NULL, fresh_end);
}
