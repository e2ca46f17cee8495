/* Labels on what a program records. */
#include "array/handle.h"
#include "base/label.h"

#include <stdarg.h>
#include <stdio.h>

enum { LONGEST = 200 };

bti_named_guard bti_named_begin(const char *format, ...) {
    char text[LONGEST];
    const char *outer = bti_call_place().label;
    va_list arguments;
    va_start(arguments, format);
    int length = format ? vsnprintf(text, sizeof text, format, arguments) : -1;
    va_end(arguments);
    if (length <= 0)
        (void)!bti_fail(BT_INVALID_ARGUMENT,
                        "BT_NAMED: a label needs a text; what the block records has that of the block outside");
    return (bti_named_guard){bti_call_set_label(length > 0 ? bti_label(outer, text) : outer)};
}

void bti_named_end(bti_named_guard *guard) { bti_call_set_label(guard->before); }

bt_array *bt_name(bt_array *x, const char *name) {
    BTI_PUBLIC("bt_name");
    bt_array *poison = bti_poisoned_by(&x, 1);
    if (poison) BTI_RETURN(poison);
    if (!name || !*name) BTI_RETURN(bti_poisonf(BT_INVALID_ARGUMENT, "a name needs a text: bt_name(x, \"logits\")"));
    bti_node *node = bti_node_of(x);
    node->place.label = bti_label(bti_call_place().label, name);
    if (node->op == BTI_OP_result) node->inputs[0]->place.label = node->place.label;
    return bti_public_keep(&bti_public_, x);
}
