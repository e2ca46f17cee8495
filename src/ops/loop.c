/* Loops as operations: bt_scan, bt_while. */
#include "array/place.h"
#include "base/alloc.h"
#include "ir/op_rules.h"
#include "ops/body.h"
#include "ops/primitive.h"

/* --- scan ------------------------------------------------------------------------------------------------------------- */

typedef struct scan {
    const char *name;
    int64_t length;
    bool reverse;
    int carry_count, x_count, y_count;
    bt_array **arguments; /* carry, then xs */
    int device;
    bti_body body;
} scan;

static bt_status check_rows(scan *s, bt_array *const *xs) {
    for (int i = 0; i < s->x_count; i++) {
        const bti_node *x = bti_node_of(xs[i]);
        if (x->rank == 0)
            return bti_fail(BT_INVALID_ARGUMENT, "xs[%d] is a scalar; it has no rows to be given one by one", i);
        if (s->length == BT_ALL_ROWS) s->length = x->shape[0];
        if (bti_may_equal(x->shape[0], s->length)) continue;
        return bti_fail(BT_INVALID_ARGUMENT, "xs[%d] has %lld rows, but the scan has %lld steps", i,
                        (long long)x->shape[0], (long long)s->length);
    }
    if (s->length >= 0 || bti_size_exists(s->length)) return BT_OK;
    return s->length == BT_ALL_ROWS
               ? bti_fail(BT_INVALID_ARGUMENT, "without xs the number of steps must be given (it is BT_ALL_ROWS)")
               : bti_fail(BT_INVALID_ARGUMENT, "%lld steps", (long long)s->length);
}

static bool is_weak(const bt_array *given, const bt_array *argument) {
    return bti_node_of(given)->weak && bti_dtype(given) == bti_dtype(argument);
}

static bt_status begin_body(scan *s, bt_array *const *carry) {
    int arguments = s->carry_count + s->x_count;
    BTI_TRY(bti_body_begin(&s->body, "the body", arguments, s->carry_count + s->y_count));
    for (int i = 0; i < arguments; i++) {
        const bti_node *node = bti_node_of(s->arguments[i]);
        bool carried = i < s->carry_count;
        bti_type type = carried ? bti_type_of(node) : bti_type_of_row(node);
        BTI_TRY(bti_body_input(&s->body, i, &type, s->device, carried && is_weak(carry[i], s->arguments[i])));
    }
    for (int i = 0; i < s->carry_count; i++) s->body.outputs[i] = s->body.inputs[i];
    return BT_OK;
}

static bt_status begin_scan(scan *s, bt_scan_fn *fn, bt_array **carry, bt_array *const *xs, bt_array **ys) {
    BTI_CALL(s->name);
    int arguments = s->carry_count + s->x_count;
    BTI_TRY(bti_check_list(carry, s->carry_count, "carry"));
    BTI_TRY(bti_check_list(xs, s->x_count, "xs"));
    if (!fn) return bti_fail(BT_INVALID_ARGUMENT, "the body is NULL");
    BTI_TRY(bti_check_list(ys, s->y_count, "ys"));
    if (!(s->arguments = bti_calloc((size_t)arguments + 1, sizeof *s->arguments))) return bti_no_memory();
    BTI_TRY(bti_body_arguments(carry, s->carry_count, "carry", s->arguments));
    BTI_TRY(bti_body_arguments(xs, s->x_count, "xs", s->arguments + s->carry_count));
    BTI_TRY(check_rows(s, s->arguments + s->carry_count));
    bti_placement placement;
    bt_array *poison = bti_choose_device(s->arguments, arguments, &placement);
    if (poison) return bti_fail_with(bti_array_error(poison));
    s->device = placement.device;
    return begin_body(s, carry);
}

/* Whether the body is recorded once more, for the dtypes that it gave to weak scalars. */
static bool begin_scan_again(scan *s, bt_array **carry, bt_status *status) {
    BTI_CALL(s->name);
    bool again;
    *status = bti_body_promote(&s->body, carry, s->arguments, s->carry_count, &again);
    if (*status != BT_OK || !again) return false;
    bti_body_end(&s->body);
    *status = begin_body(s, carry);
    return *status == BT_OK;
}

static bt_status check_outputs(scan *s) {
    for (int i = 0; i < s->carry_count; i++) {
        bti_type type = bti_type_of(bti_node_of(s->arguments[i]));
        BTI_TRY(bti_body_output_like(&s->body, i, &type, "carry", i, "it was given"));
    }
    for (int j = 0; j < s->y_count; j++) {
        BTI_TRY(bti_body_output(&s->body, s->carry_count + j, "y", j));
        if (s->body.made[s->carry_count + j]->rank == BTI_MAX_RANK)
            return bti_fail(BT_INVALID_ARGUMENT, "y[%d] has %d axes, so rows of it cannot be put along another one", j,
                            BTI_MAX_RANK);
    }
    return BT_OK;
}

static bt_status record_scan(scan *s, int carried, bt_array **results) {
    int count = carried + s->y_count;
    bti_type *types = bti_alloc(((size_t)count + 1) * sizeof *types);
    bti_attr attr = {.scan = {.length = s->length, .reverse = s->reverse, .carried = carried, .by_row = s->x_count}};
    if (!types) return bti_no_memory();
    for (int i = 0; i < count; i++)
        types[i] =
            i < carried ? bti_type_of(bti_node_of(s->arguments[i])) : bti_type_of_rows(s->body.made[i], s->length);
    bti_body_operation of = {.op = BTI_OP_scan,
                             .bodies = (bti_body *[]){&s->body},
                             .body_count = 1,
                             .arguments = s->arguments,
                             .argument_count = s->carry_count + s->x_count,
                             .attr = &attr,
                             .types = types,
                             .result_count = count};
    bt_status status = bti_body_record(&of, results);
    bti_free(types);
    return status;
}

static bt_status finish_scan(scan *s, bt_array **results) {
    BTI_PUBLIC(s->name);
    int count = s->carry_count + s->y_count;
    bti_unchanged unchanged = {.carried = s->carry_count};
    bt_status status = check_outputs(s);
    if (status == BT_OK)
        status = bti_body_set_aside((bti_body *[]){&s->body}, 1, s->arguments, s->device, 0, &unchanged);
    if (status == BT_OK && count > unchanged.count) status = record_scan(s, s->carry_count - unchanged.count, results);
    if (status == BT_OK)
        status = bti_body_put_back(&unchanged, s->arguments, s->carry_count + s->x_count, results, count);
    for (int i = 0; i < count && status == BT_OK; i++) bti_public_keep(&bti_public_, results[i]);
    bti_free(unchanged.is);
    return status;
}

/* No public call around the body: what it calls is the user's own, with its own places. */
static bt_status run_scan(scan *s, bt_scan_fn *fn, void *data, bt_array **carry, bt_array *const *xs, bt_array **ys) {
    int count = s->carry_count + s->y_count;
    bool lists = s->carry_count >= 0 && s->y_count >= 0;
    bt_array **results = lists ? bti_calloc((size_t)count + 1, sizeof *results) : NULL;
    bt_status status = BT_OK;
    BT_SCOPE {
        status = begin_scan(s, fn, carry, xs, ys);
        if (status == BT_OK && !results) status = bti_no_memory();
        if (status == BT_OK) {
            do fn(s->body.outputs, s->body.inputs + s->carry_count, s->body.outputs + s->carry_count, data);
            while (begin_scan_again(s, carry, &status));
            if (status == BT_OK) status = finish_scan(s, results);
        }
        for (int i = 0; i < count && status == BT_OK; i++)
            *(i < s->carry_count ? &carry[i] : &ys[i - s->carry_count]) = bt_keep(results[i]);
    }
    if (status != BT_OK) {
        (void)bti_body_poison(status, carry, s->carry_count);
        (void)bti_body_poison(status, ys, s->y_count);
    }
    bti_body_end(&s->body);
    bti_free(s->arguments);
    bti_free(results);
    return status;
}

bt_status bt_scan(bt_scan_fn *body, void *data, int64_t length, bt_array **carry, int carry_count, bt_array *const *xs,
                  int x_count, bt_array **ys, int y_count) {
    scan s = {"bt_scan", length, false, carry_count, x_count, y_count, .device = 0};
    return run_scan(&s, body, data, carry, xs, ys);
}

bt_status bt_scan_reverse(bt_scan_fn *body, void *data, int64_t length, bt_array **carry, int carry_count,
                          bt_array *const *xs, int x_count, bt_array **ys, int y_count) {
    scan s = {"bt_scan_reverse", length, true, carry_count, x_count, y_count, .device = 0};
    return run_scan(&s, body, data, carry, xs, ys);
}

/* --- while ------------------------------------------------------------------------------------------------------------ */

typedef struct loop {
    int64_t most_steps;
    int count;
    bt_array **arguments;
    int device;
    bti_body test, body;
} loop;

static bt_status begin_bodies(loop *w, bt_array *const *carry) {
    BTI_TRY(bti_body_begin(&w->test, "the test", w->count, 1));
    BTI_TRY(bti_body_begin(&w->body, "the body", w->count, w->count));
    for (int i = 0; i < w->count; i++) {
        bti_type type = bti_type_of(bti_node_of(w->arguments[i]));
        bool weak = is_weak(carry[i], w->arguments[i]);
        BTI_TRY(bti_body_input(&w->test, i, &type, w->device, weak));
        BTI_TRY(bti_body_input(&w->body, i, &type, w->device, weak));
        w->body.outputs[i] = w->body.inputs[i];
    }
    return BT_OK;
}

static bt_status begin_while(loop *w, bt_array **carry, bool called) {
    BTI_CALL("bt_while");
    if (!called) return bti_fail(BT_INVALID_ARGUMENT, "the test or the body is NULL");
    if (w->most_steps < 0) return bti_fail(BT_INVALID_ARGUMENT, "at most %lld steps", (long long)w->most_steps);
    if (w->count == 0) return bti_fail(BT_INVALID_ARGUMENT, "nothing is carried, so the loop could not end");
    BTI_TRY(bti_check_list(carry, w->count, "carry"));
    if (!(w->arguments = bti_calloc((size_t)w->count, sizeof *w->arguments))) return bti_no_memory();
    BTI_TRY(bti_body_arguments(carry, w->count, "carry", w->arguments));
    bti_placement placement;
    bt_array *poison = bti_choose_device(w->arguments, w->count, &placement);
    if (poison) return bti_fail_with(bti_array_error(poison));
    w->device = placement.device;
    return begin_bodies(w, carry);
}

/* As begin_scan_again. */
static bool begin_while_again(loop *w, bt_array **carry, bt_status *status) {
    BTI_CALL("bt_while");
    bool again;
    *status = bti_body_promote(&w->body, carry, w->arguments, w->count, &again);
    if (*status != BT_OK || !again) return false;
    bti_body_end(&w->test);
    bti_body_end(&w->body);
    *status = begin_bodies(w, carry);
    return *status == BT_OK;
}

static bt_status check_while(loop *w) {
    bti_type truth = {.dtype = BT_BOOL};
    BTI_TRY(bti_body_output_like(&w->test, 0, &truth, "result", 0, "a test is"));
    for (int i = 0; i < w->count; i++) {
        bti_type type = bti_type_of(bti_node_of(w->arguments[i]));
        BTI_TRY(bti_body_output_like(&w->body, i, &type, "carry", i, "it was given"));
    }
    return BT_OK;
}

static bt_status record_while(loop *w, int carried, bt_array **results) {
    bti_type *types = bti_alloc((size_t)carried * sizeof *types);
    bti_attr attr = {.loop = {.most = w->most_steps, .carried = carried}};
    if (!types) return bti_no_memory();
    for (int i = 0; i < carried; i++) types[i] = bti_type_of(bti_node_of(w->arguments[i]));
    bti_body_operation of = {.op = BTI_OP_while,
                             .bodies = (bti_body *[]){&w->test, &w->body},
                             .body_count = 2,
                             .arguments = w->arguments,
                             .argument_count = w->count,
                             .attr = &attr,
                             .types = types,
                             .result_count = carried};
    bt_status status = bti_body_record(&of, results);
    bti_free(types);
    return status;
}

static bt_status finish_while(loop *w, bt_array **results) {
    BTI_PUBLIC("bt_while");
    bti_unchanged unchanged = {.carried = w->count};
    bt_status status = check_while(w);
    if (status == BT_OK)
        status = bti_body_set_aside((bti_body *[]){&w->test, &w->body}, 2, w->arguments, w->device, 1, &unchanged);
    if (status == BT_OK) status = record_while(w, w->count - unchanged.count, results);
    if (status == BT_OK) status = bti_body_put_back(&unchanged, w->arguments, w->count, results, w->count);
    for (int i = 0; i < w->count && status == BT_OK; i++) bti_public_keep(&bti_public_, results[i]);
    bti_free(unchanged.is);
    return status;
}

bt_status bt_while(bt_while_test_fn *test, bt_while_body_fn *body, void *data, int64_t most_steps, bt_array **carry,
                   int carry_count) {
    loop w = {most_steps, carry_count, .device = 0};
    bt_array **results = carry_count > 0 ? bti_calloc((size_t)carry_count, sizeof *results) : NULL;
    bt_status status = BT_OK;
    BT_SCOPE {
        status = begin_while(&w, carry, test && body);
        if (status == BT_OK && !results) status = bti_no_memory();
        if (status == BT_OK) {
            do {
                w.test.outputs[0] = test(w.test.inputs, data);
                body(w.body.outputs, data);
            } while (begin_while_again(&w, carry, &status));
            if (status == BT_OK) status = finish_while(&w, results);
        }
        for (int i = 0; i < carry_count && status == BT_OK; i++) carry[i] = bt_keep(results[i]);
    }
    if (status != BT_OK) (void)bti_body_poison(status, carry, carry_count);
    bti_body_end(&w.test);
    bti_body_end(&w.body);
    bti_free(w.arguments);
    bti_free(results);
    return status;
}
