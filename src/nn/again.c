/* Layers made again of what a file says of them. */
#include <string.h>

#include "base/quote.h"
#include "nn/kinds.h"
#include "nn/registry.h"

static bt_layer *again_registered(const bti_layer_plan *plan) {
    bti_named_maker maker;
    if (!bti_maker_find(plan->record.name, &maker)) {
        (void)!bti_fail(BT_UNIMPLEMENTED,
                        "there is no layer \"%s\"; bt_layer_register(\"%s\", ...) says how a layer of the program is "
                        "made again",
                        bti_quote(plan->record.name).text, bti_quote(plan->record.name).text);
        return bti_layer_own(NULL);
    }
    bt_layer *layer = maker.make(&plan->record, maker.data);
    if (layer) return layer;
    (void)!bti_fail(BT_INVALID_ARGUMENT, "the function that makes layer \"%s\" gave NULL",
                    bti_quote(plan->record.name).text);
    return bti_layer_own(NULL);
}

/* A function as a layer: its option names it. NULL: the layer is no such. */
static bt_layer *again_function(bti_layer_making *a) {
    if (a->plan->option_count != 1 || strcmp(a->plan->options[0].name, "function")) return NULL;
    bti_named_maker maker;
    if (!strcmp(a->plan->options[0].value, "function") && bti_maker_find(a->plan->record.name, &maker)) return NULL;
    bt_activation *function = bti_again_activation(a, "function");
    return a->status == BT_OK ? bt_lambda(a->plan->record.name, function) : bti_layer_own(NULL);
}

bt_layer *bti_layer_again(const bti_layer_plan *plan) {
    bti_layer_making a = {plan, BT_OK};
    bt_layer *layer = again_function(&a); /* first: its name is free */
    if (layer) return layer;
    const bti_layer_kind *kind = bti_layer_kind_find(plan->record.name);
    if (!kind) return again_registered(plan);
    if (kind->children == BTI_NO_CHILDREN && plan->record.child_count)
        a.status = bti_fail(BT_INVALID_ARGUMENT, "layer %s has %d children; it has none", kind->name,
                            plan->record.child_count);
    layer = a.status == BT_OK ? bti_layer_kind_make(kind, &a) : NULL;
    return layer ? layer : bti_layer_own(NULL);
}
