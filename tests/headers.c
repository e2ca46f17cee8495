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
