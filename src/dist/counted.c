#include "dist/counted.h"

#include "array/handle.h"
#include "base/error.h"
#include "function/shared.h"

/* Elements, not a constant, which would be a part of the plan. */
static bt_array *number_on_host(int64_t number) {
    bt_array *count = NULL;
    BT_ON("cpu") count = bt_from(&number, BT_I64, (bt_shape){0});
    return count;
}

static bt_shared *new_on_host(bt_array *value) {
    bt_shared *made = bt_shared_retain(bt_shared_new(value, "cpu"));
    return made;
}

static bt_status begin_counting(bti_counted *c, int64_t done, bt_array *sum) {
    if (c->count) return BT_OK;
    c->count = new_on_host(number_on_host(done));
    c->sum = new_on_host(sum);
    BTI_TRY(bt_shared_status(c->count));
    return bt_shared_status(c->sum);
}

static bt_status set_with_step(bti_counted *c, const bti_counted_call *call, bt_array *loss, bt_array *before,
                               bt_array **next) {
    BTI_TRY(bti_fail_with(bti_array_error(loss)));
    BT_ON("cpu") {
        bt_array *weighted = bt_mul(bt_to(loss, "cpu"), bt_num((double)bt_size(call->x, 0)));
        before = before ? bt_to(before, "cpu") : NULL;
        *next = before ? bt_add(before, weighted) : weighted;
    }
    BTI_TRY(begin_counting(c, call->number - 1, before ? before : bt_zeros_like(*next)));
    BTI_TRY(bt_set(c->sum, *next));
    return bt_set(c->count, number_on_host(call->number));
}

bt_status bti_counted_step(bti_counted *c, const bti_counted_call *call, bt_array **loss, bt_array **sum) {
    bt_array *next = NULL;
    bti_sets_begin();
    *loss = bt_train_step(call->strategy, call->model, call->optimizer, call->loss, call->data, call->x, call->y);
    bt_status status = set_with_step(c, call, *loss, *sum, &next);
    bt_status committed = bti_sets_end(status == BT_OK);
    if (status == BT_OK) status = committed;
    if (status == BT_OK) bt_assign(sum, next);
    return status;
}

bt_status bti_counted_settle(bti_counted *c, int64_t *done, bt_array **sum) {
    *done = 0;
    if (!c->count) return BT_OK;
    bti_error *before = bti_error_last();
    (void)!bti_shared_settle(c->count);
    (void)!bti_shared_settle(c->sum);
    bti_error_put_back(before);
    BT_SCOPE
        bt_assign(sum, bt_value(c->sum));
    bt_status status = BT_OK;
    BT_SCOPE
        status = bt_read(bt_value(c->count), done, sizeof *done);
    return status;
}

void bti_counted_end(bti_counted *c) {
    bt_shared_release(c->count);
    bt_shared_release(c->sum);
    *c = (bti_counted){NULL, NULL};
}
