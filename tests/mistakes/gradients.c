/* Parameters that no gradient comes to. */
#include "mistake.h"

static bt_array *errors(bt_layer *model, bt_array *x, bt_array *y, void *data) {
    (void)data;
    bt_array *guess = bt_argmax(bt_apply(model, x), 1);
    return bt_mean(bt_cast(bt_ne(guess, y), BT_F32)); /* the error rate has no slope */
}

static bt_array *rounded(bt_layer *model, bt_array *x, bt_array *y, void *data) {
    (void)data;
    return bt_mse(bt_round(bt_apply(model, x)), bt_one_hot(y, 3, BT_F32));
}

static bt_array *other(bt_layer *model, bt_array *x, bt_array *y, void *data) {
    (void)model;
    return bt_cross_entropy(bt_apply(data, x), y); /* another model than the one that is trained */
}

static bt_array *stopped(bt_layer *model, bt_array *x, bt_array *y, void *data) {
    (void)data;
    bt_array *features = bt_stop_gradient(bt_apply(bt_layer_child(model, 0), x));
    return bt_cross_entropy(bt_apply(bt_layer_child(model, 1), features), y);
}

static bt_array *first_alone(bt_layer *model, bt_array *x, bt_array *y, void *data) {
    (void)data;
    return bt_cross_entropy(bt_at(bt_apply(bt_layer_child(model, 0), x), ":, :3"), y);
}

int main(void) {
    BT_SCOPED;
    bt_array *x = some_x(64), *y = some_classes(64);
    bt_layer *model = some_model(8);
    SECTION("cut");
    TELL(bt_fit(model, bt_adam(0.01), x, y, BT_FIT_OPTIONS(.quiet = true, .loss = errors), NULL));
    TELL(bt_fit(model, bt_adam(0.01), x, y, BT_FIT_OPTIONS(.quiet = true, .loss = rounded), NULL));
    TELL(bt_fit(model, bt_adam(0.01), x, y, BT_FIT_OPTIONS(.quiet = true, .loss = other, .loss_data = some_model(8)),
                NULL));
    SECTION("some");
    TELL(bt_fit(model, bt_adam(0.01), x, y, BT_FIT_OPTIONS(.quiet = true, .loss = stopped), NULL));
    TELL(bt_fit(model, bt_adam(0.01), x, y, BT_FIT_OPTIONS(.quiet = true, .loss = first_alone), NULL));
    TELL(bt_fit(model, bt_adam(0.01), x, y, BT_FIT_OPTIONS(.quiet = true, .loss = stopped, .all_gradients = true),
                NULL));
    SECTION("frozen");
    BT_CHECK(bt_freeze(model));
    TELL(bt_fit(model, bt_adam(0.01), x, y, BT_FIT_OPTIONS(.quiet = true), NULL));
    return 0;
}
