#include "dist/flows.h"

#include "base/log.h"
#include "grad/grad.h"
#include "nn/layer.h"
#include "ops/primitive.h"

enum { NAMED = 6 }; /* parameters in a message */

static const bt_layer *layer_of(const bt_layer *layer, const bt_shared *parameter) {
    for (int i = 0; i < layer->variable_count[BTI_PARAMETERS]; i++)
        if (layer->variables[BTI_PARAMETERS][i].shared == parameter) return layer;
    const bt_layer *found = NULL;
    for (int i = 0; i < layer->child_count && !found; i++) found = layer_of(layer->children[i], parameter);
    return found;
}

static void add_parameter(bti_str *text, const bt_layer *model, const bt_shared *parameter) {
    const bt_layer *layer = layer_of(model, parameter);
    bti_str_add(text, bt_shared_name(parameter));
    if (!layer) return;
    bti_str_add(text, " of ");
    bti_layer_add_text(text, layer);
}

/* Where gradients by those without one end. */
static bt_status add_end(bti_str *text, bt_shared *const *without, int count, bt_array *loss) {
    bti_node *end;
    BTI_TRY(bti_find_gradient_end(loss, without, count, &end));
    if (!end) {
        bti_str_add(text, "the loss is not computed from them; it must apply the model that is trained");
        return BT_OK;
    }
    bti_str_addf(text, "they end at %s:%d: %s, whose result is %s %s", bti_site_file(end->place.site),
                 end->place.site.line, end->place.name ? end->place.name : "?", bt_dtype_name((bt_dtype)end->dtype),
                 bti_sizes_string(end->rank, end->shape).text);
    bti_node_release(end);
    return BT_OK;
}

static bt_status add_missing_gradients(bti_str *text, const bt_layer *model, bt_shared *const *without, int missing,
                                       int count, bt_array *loss) {
    if (!count) {
        int all = bt_parameters(model, NULL, 0);
        if (all)
            bti_str_addf(text, "no step changes anything: all %d parameters are frozen; bt_thaw thaws them", all);
        else
            bti_str_add(text, "no step changes anything: the model has no parameters");
        return text->failed ? bti_no_memory() : BT_OK;
    }
    if (missing == count)
        bti_str_addf(text, "the loss cannot fall: none of the %d parameters has a gradient; ", count);
    else {
        bti_str_addf(text, "%d of %d parameters have no gradient, and keep their values: ", missing, count);
        for (int i = 0; i < missing && i < NAMED; i++) {
            bti_str_add(text, i ? ", " : "");
            add_parameter(text, model, without[i]);
        }
        bti_str_add(text, missing > NAMED ? ", ...; " : "; ");
    }
    BTI_TRY(add_end(text, without, missing, loss));
    if (missing < count) bti_str_add(text, "; bt_freeze says that this is meant");
    return text->failed ? bti_no_memory() : BT_OK;
}

static bt_status tell(bti_gradients mode, const bti_str *text, bool all) {
    if (all || mode == BTI_GRADIENTS_NEEDED) return bti_fail(BT_FAILED_PRECONDITION, "%s", bti_str_text(text));
    bti_place place = bti_call_place();
    bti_log("%s:%d: %s: %s", bti_site_file(place.site), place.site.line, place.name, bti_str_text(text));
    return BT_OK;
}

bt_status bti_check_flows(bt_optimizer *optimizer, const bt_layer *model, bt_shared *const *parameters,
                          const bool *flows, int count, bt_array *loss) {
    const char *call = atomic_load(&optimizer->trained_by);
    BTI_CALL(call ? call : "bt_train_step");
    bti_gradients mode = (bti_gradients)atomic_exchange(&optimizer->gradients, BTI_GRADIENTS_KNOWN);
    int missing = 0;
    bt_shared **without = bti_calloc((size_t)count + 1, sizeof *without);
    bt_status status = without ? BT_OK : bti_no_memory();
    for (int p = 0; p < count && without; p++)
        if (!flows[p]) without[missing++] = parameters[p];
    bti_str text = {0};
    if ((missing || !count) && mode != BTI_GRADIENTS_KNOWN && status == BT_OK) {
        status = add_missing_gradients(&text, model, without, missing, count, loss);
        if (status == BT_OK) status = tell(mode, &text, missing == count);
    }
    if (status != BT_OK) atomic_store(&optimizer->gradients, mode); /* it is told again */
    bti_str_free(&text);
    bti_free(without);
    return status;
}
