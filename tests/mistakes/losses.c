/* Losses that are given something else than they take; rates that are none. */
#include "mistake.h"

static bt_array *column(bt_layer *model, bt_array *x, bt_array *y, void *data) {
    (void)data;
    return bt_mse(bt_apply(model, x), y); /* [N, 1] and [N] */
}

static bt_array *twice(bt_layer *model, bt_array *x, bt_array *y, void *data) {
    (void)data;
    return bt_cross_entropy(bt_softmax(bt_apply(model, x), 1), y);
}

static bt_array *by_row(bt_layer *model, bt_array *x, bt_array *y, void *data) {
    (void)data;
    return bt_cross_entropy(bt_apply(model, x), y, .reduction = BT_REDUCE_NONE);
}

int main(void) {
    BT_SCOPED;
    bt_array *x = some_x(64), *y = some_classes(64);
    bt_layer *model = some_model(8);
    SECTION("pairs");
    bt_layer *one = bt_dense(4, 1, NULL, bt_key(0));
    TELL(bt_fit(one, bt_adam(0.01), x, bt_sum(x, .axes = BT_AXES(1)), BT_FIT_OPTIONS(.quiet = true, .loss = column),
                NULL));
    SECTION("targets");
    TELL(bt_fit(model, bt_adam(0.01), x, bt_cast(y, BT_F32), BT_FIT_OPTIONS(.quiet = true), NULL));
    TELL(bt_fit(model, bt_adam(0.01), x, bt_at(y, ":, None"), BT_FIT_OPTIONS(.quiet = true), NULL));
    SECTION("twice");
    TELL(bt_fit(model, bt_adam(0.01), x, y, BT_FIT_OPTIONS(.quiet = true, .loss = twice), NULL));
    SECTION("by_row");
    TELL(bt_fit(model, bt_adam(0.01), x, y, BT_FIT_OPTIONS(.quiet = true, .loss = by_row), NULL));
    SECTION("rates");
    TELL(bt_fit(model, bt_sgd(NAN), x, y, BT_FIT_OPTIONS(.quiet = true), NULL));
    TELL(bt_fit(model, bt_sgd(-0.01), x, y, BT_FIT_OPTIONS(.quiet = true), NULL));
    return 0;
}
