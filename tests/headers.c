// What must compile without a warning: `./go part headers` compiles this, it is not run.
#include <berth.h>

bt_array *a_scope_is_the_whole_body(bt_array *x) {
    BT_SCOPE {
        return bt_keep(bt_neg(x));
    }
}

bt_array *blocks_in_blocks(bt_array *x, int n) {
    BT_SCOPE {
        BT_ON("cpu") {
            if (n > 3)
                BT_SCOPE
                    return bt_keep(bt_keep(x));
            else
                return bt_keep(x);
        }
    }
}

bt_array *set_inside(bt_array *x) {
    bt_array *y;
    BT_ON("cpu") y = bt_neg(x);
    return y;
}

void a_status_that_is_not_wanted(bt_array *x) {
    (void)bt_set_flag("strict", "on");
    (void)bt_eval(x);
    if (x)
        BT_SCOPE
            bt_print(x);
}

// Numbers as operands and options by name, nested and in other macros' arguments.
bt_array *short_forms(bt_array *x, bt_array *w, bool flag, unsigned char byte, long double real) {
    BT_SCOPED;
    x = bt_add(bt_mul(bt_sub(1, bt_div(x, 2.5f)), byte), bt_where(bt_gt(x, 0), real, flag));
    x = bt_scatter_add(x, bt_argmax(x, 0), 1, 0);
    x = bt_scatter_set_along_axis(x, x, real, -1);
    x = bt_quantize(bt_outer(2, bt_kron(x, byte)), 0.5, BT_I8);
    x = bt_dynamic_slice(bt_where(flag, x, bt_bernoulli(x, 0.5, 3)), 1, BT_SHAPE(2));
    x = bt_conv(bt_pow(x, 2), w, .stride = {2, 2}, .pad_low = {1, 1});
    x = bt_max_pool(x, .window = {2, 2});
    bt_print(bt_sum(bt_max(x, BT_AXES(0), true), .axes = BT_AXES(1, -1), .keep = true));
    bt_print(bt_var(x, .ddof = 1));
    bt_print(bt_huber(x, 1, 0.5, .reduction = BT_REDUCE_SUM));
    return bt_keep(BT_CHECK(bt_cross_entropy(x, bt_argmax(x, -1), .label_smoothing = 0.1)));
}

bt_status tried(bt_array *x, bt_device *device) {
    for (int i = 0; i < 3; i++) {
        BT_SCOPED;
        if (i == 1) continue;
        BT_DEFAULT(device) BT_NAMED("round %d", i) BT_TRY(bt_eval(bt_name(bt_to(x, device), "moved")));
        if (i == 2) break;
    }
    return BT_OK;
}
