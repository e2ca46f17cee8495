/* Sizes that do not fit between layers, and rows that do not fit between arrays. */
#include "mistake.h"

int main(void) {
    BT_SCOPED;
    bt_array *x = some_x(64), *y = some_classes(64);
    SECTION("layers");
    bt_layer *model = bt_chain(bt_dense(4, 128, bt_relu, bt_key(0)), bt_dense(64, 3, NULL, bt_key(1)));
    TELL(bt_fit(model, bt_adam(0.01), x, y, BT_FIT_OPTIONS(.batch = 8, .quiet = true), NULL));
    SECTION("images");
    bt_layer *images =
        bt_chain(bt_conv_layer(1, 8, BT_SHAPE(3, 3), bt_relu, bt_key(0)), bt_dense(8, 3, NULL, bt_key(1)));
    TELL(bt_eval(bt_apply(images, bt_ones(BT_F32, 2, 1, 8, 8)))); /* bt_flatten_layer() is missing */
    SECTION("rows");
    TELL(bt_fit(some_model(8), bt_adam(0.01), x, bt_at(y, ":63"), BT_FIT_OPTIONS(.quiet = true), NULL));
    SECTION("norm");
    bt_layer *norm = bt_chain(bt_dense(4, 8, NULL, bt_key(0)), bt_batch_norm_layer(8), bt_dense(8, 3, NULL, bt_key(1)));
    TELL(bt_fit(norm, bt_adam(0.01), x, y, BT_FIT_OPTIONS(.batch = 1, .quiet = true), NULL));
    return 0;
}
