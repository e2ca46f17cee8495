/* What is no number. */
#include "mistake.h"

static bt_array *own_entropy(bt_layer *model, bt_array *x, bt_array *y, void *data) {
    (void)data;
    bt_array *shares = bt_softmax(bt_apply(model, x), 1); /* 0 where a logit is far below the others */
    return bt_neg(bt_mean(bt_sum(bt_mul(bt_one_hot(y, 3, BT_F32), bt_log(shares)), .axes = BT_AXES(1))));
}

static bt_array *distance(bt_layer *model, bt_array *x, bt_array *y, void *data) {
    (void)data, (void)y;
    bt_array *first = bt_apply(model, x), *second = bt_apply(model, x);
    return bt_mean(
        bt_sqrt(bt_sum(bt_square(bt_sub(first, second)), .axes = BT_AXES(1)))); /* the slope of a root at 0 */
}

static void step(bt_array **carry, bt_array *const *x, bt_array **y, void *data) {
    (void)data;
    carry[0] = bt_sub(carry[0], x[0]);
    y[0] = bt_log(carry[0]);
}

int main(void) {
    BT_SCOPED;
    bt_array *x = some_x(64), *y = some_classes(64);
    bt_array *far = bt_mul(x, 300);
    SECTION("entropy");
    TELL(bt_fit(some_model(8), bt_sgd(0.1), far, y, BT_FIT_OPTIONS(.batch = 16, .quiet = true, .loss = own_entropy),
                NULL));
    SECTION("distance");
    TELL(bt_fit(some_model(8), bt_sgd(0.1), x, y, BT_FIT_OPTIONS(.batch = 16, .quiet = true, .loss = distance), NULL));
    SECTION("data");
    bt_array *holes = bt_at(BT_ARRAY(float, (4), 1, 2, NAN, 4), ":, None");
    TELL(bt_eval(bt_matmul(holes, bt_ones(BT_F32, 1, 3))));
    SECTION("rows");
    float rows[64 * 4];
    BT_CHECK(bt_read(x, rows, sizeof rows));
    rows[4 * 20 + 3] = NAN; /* a field that was empty */
    bt_array *read = bt_from(rows, BT_F32, BT_SHAPE(64, 4));
    TELL(bt_fit(some_model(8), bt_sgd(0.1), read, y, BT_FIT_OPTIONS(.batch = 16, .quiet = true), NULL));
    SECTION("loop");
    bt_array *left = BT_ARRAY(float, (), 2), *taken = bt_ones(BT_F32, 5), *logs;
    BT_CHECK(bt_scan(step, NULL, BT_ALL_ROWS, &left, 1, &taken, 1, &logs, 1));
    BT_NAMED("logs of what is left") logs = bt_mul(logs, 2);
    TELL(bt_eval(logs));
    SECTION("overflow");
    TELL(bt_eval(bt_exp(BT_ARRAY(float, (2), 1, 100))));
    return 0;
}
