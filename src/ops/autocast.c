/* Mixed precision: the casts that a block asks of the operations in it. */
#include "array/autocast.h"

#include <berth/precision.h>

#include "array/place.h"
#include "ops/primitive.h"

bti_autocast_guard bti_autocast_begin(bt_dtype dtype) {
    return (bti_autocast_guard){.before = bti_autocast_set(bti_autocast_of(dtype))};
}

void bti_autocast_end(bti_autocast_guard *guard) { bti_autocast_set(guard->before); }

/* What is recorded by rules, as gradients are, has the dtypes of what it is recorded for. */
static int state_of(int state) { return bti_forced_now()->on ? BTI_AUTOCAST_OFF : state; }

static bool is_lower(bt_dtype dtype) { return dtype == BT_F16 || dtype == BT_BF16; }

bt_dtype bt_autocast_dtype(void) {
    int state = state_of(bti_autocast_state());
    return state != BTI_AUTOCAST_OFF && is_lower(bti_autocast_dtype(state)) ? bti_autocast_dtype(state) : BT_F32;
}

static bt_array *refuse_block(bt_dtype dtype) {
    return bti_poisonf(BT_INVALID_ARGUMENT,
                       "BT_AUTOCAST(%s): a block takes BT_BF16 or BT_F16, or BT_F32, which switches it off",
                       bt_dtype_name(dtype));
}

/* Neither float64 nor weak numbers are cast: the former was asked for, the latter take the dtype of what they meet. */
static bool is_cast(bti_autocast_class class, const bt_array *x, bt_dtype to) {
    bt_dtype dtype = bti_dtype(x);
    if (bti_node_of(x)->weak || dtype == to) return false;
    return is_lower(dtype) || (class == BTI_AUTOCAST_LOWER && dtype == BT_F32);
}

void bti_autocast(bti_public *guard, bt_array **const *arguments, int count) {
    int state = state_of(guard->autocast);
    bti_autocast_class class = bti_autocast_class_of(guard->name);
    if (class == BTI_AUTOCAST_BODY) return;
    bti_autocast_set(BTI_AUTOCAST_OFF); /* what the operation is made of is its own affair */
    if (state == BTI_AUTOCAST_OFF || class == BTI_AUTOCAST_WIDEST) return;
    bt_dtype lower = bti_autocast_dtype(state), to = class == BTI_AUTOCAST_LOWER ? lower : BT_F32;
    if (!is_lower(lower)) {
        *arguments[0] = refuse_block(lower);
        return;
    }
    for (int i = 0; i < count; i++) {
        bt_array *x = *arguments[i];
        if (!bti_array_error(x) && is_cast(class, x, to)) *arguments[i] = bti_cast(x, to);
    }
}
