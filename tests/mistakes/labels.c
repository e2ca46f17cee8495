/* Labels and indices out of range. */
#include "mistake.h"

static bt_array *loss_of_words(bt_layer *model, bt_array *x, bt_array *y, void *data) {
    (void)data;
    return bt_cross_entropy(bt_mean(bt_apply(model, x), .axes = BT_AXES(1)), y);
}

int main(void) {
    BT_SCOPED;
    bt_array *x = some_x(64), *y = some_classes(64);
    SECTION("labels");
    bt_layer *model = some_model(8); /* 3 classes: 0, 1 and 2 */
    TELL(bt_fit(model, bt_adam(0.01), x, bt_add(y, 1), BT_FIT_OPTIONS(.batch = 8, .quiet = true), NULL));
    SECTION("missing");
    bt_array *some = bt_where(bt_eq(y, 2), -1, y); /* -1: not labelled */
    TELL(bt_fit(model, bt_adam(0.01), x, some, BT_FIT_OPTIONS(.batch = 8, .quiet = true), NULL));
    SECTION("words");
    bt_layer *words = bt_chain(bt_embedding_layer(50, 8, bt_key(0)), bt_dense(8, 3, NULL, bt_key(1)));
    bt_array *text = bt_randint(bt_key(4), 0, 51, BT_I32, 64, 6); /* the words 0 to 50: one too many */
    TELL(bt_fit(words, bt_adam(0.01), text, y, BT_FIT_OPTIONS(.batch = 8, .quiet = true, .loss = loss_of_words), NULL));
    return 0;
}
