/* Dropout: what is drawn for an example depends on the layer's key, its steps and the example's place in the batch. */
#include <math.h>
#include <stdio.h>

#include "base/alloc.h"
#include "nn/training.h"
#include "ops/primitive.h"

typedef struct dropout_settings {
    double rate;
} dropout_settings;

/* The place of x's first row in the whole batch; examples may have been cut into several rows each ([B * T, C]). */
static int64_t first_row_of(const bt_array *x) {
    const bti_batch_part *part = bti_part_now();
    if (!part || !part->rows || !bti_rank(x)) return 0;
    int64_t rows = bti_shape(x)[0], each = bti_size_is_symbolic(rows) || rows % part->rows ? 1 : rows / part->rows;
    return part->first_row * each;
}

static bt_array *apply_dropout(bt_layer *layer, bt_array *x, void *data) {
    double rate = ((const dropout_settings *)data)->rate;
    bt_array *poison = bti_poisoned_by(&x, 1);
    if (poison) return poison;
    if (!bt_is_training() || rate == 0) return bt_identity(x);
    if (!bti_dtype_is_float(bti_dtype(x)))
        return bti_poisonf(BT_INVALID_ARGUMENT, "x is %s; %s%s takes floats in training", bti_describe_array(x).text,
                           layer->name, layer->text);
    if (bti_node_of(x)->symbolic && !bti_states_are_collected())
        return bti_poisonf(
            BT_FAILED_PRECONDITION,
            "x depends on a function's input or on what a loop is given, and each call would drop the same "
            "elements; record it in a BT_STATE_UPDATES block, whose updates are the function's, or are set afterwards");
    bt_array *steps = bt_layer_state(layer, "steps"), *key = bt_layer_state(layer, "key");
    bt_array *bits = bti_row_bits(key, steps, first_row_of(x), x);
    if (bt_layer_set_state(layer, "steps", bti_binary(BTI_OP_add, steps, bti_scalar_bits(1, BT_U32))) != BT_OK)
        return bti_poison(bti_error_last());
    if (rate == 1) return bt_zeros_like(x);
    bt_array *kept = bti_binary(BTI_OP_le, bti_scalar_bits((uint64_t)(rate * 0x1p32), BT_U32), bits);
    return bt_where(kept, bt_mul(x, bt_num(1 / (1 - rate))), bt_num(0));
}

bt_layer *bt_dropout_layer(double rate, bt_array *key) {
    BTI_CALL("bt_dropout_layer");
    if (!(rate >= 0 && rate <= 1)) {
        (void)!bti_fail(BT_INVALID_ARGUMENT, "the rate is %g; it must be in [0, 1]", rate);
        return bti_layer_own(NULL);
    }
    if (bti_fail_with(bti_array_error(key)) != BT_OK) return bti_layer_own(NULL);
    if (bti_dtype(key) != BT_U32 || bti_rank(key) != 1 || bti_shape(key)[0] != 2) {
        (void)!bti_fail(BT_INVALID_ARGUMENT, "the key is %s; a key is uint32 (2,), from bt_key or bt_split_at",
                        bti_describe_array(key).text);
        return bti_layer_own(NULL);
    }
    void *copy = bti_layer_settings(&(dropout_settings){rate}, sizeof(dropout_settings));
    if (!copy) return bti_no_settings();
    char text[40];
    snprintf(text, sizeof text, "(%g)", rate);
    bt_layer *layer = NULL;
    BT_SCOPE
        layer = bt_layer_retain(bt_layer_new("Dropout", apply_dropout,
                                             BT_LAYER(.data = copy, .free_data = bti_free, .text = text,
                                                      .state = {{"key", key}, {"steps", bt_zeros(BT_U32, )}})));
    bti_layer_note(layer, "rate", "%.17g", rate);
    return bti_layer_own(layer);
}
