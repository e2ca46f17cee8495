/* bt_explain: what would run, as text, JSON or a graph, without running it. */
#include <berth/view.h>

#include "array/claim.h"
#include "array/eval.h"
#include "array/plan_log.h"
#include "base/flags.h"
#include "function/call.h"
#include "function/function.h"
#include "ir/print.h"

static char *explain_nodes(bti_node *const *nodes, size_t count, bt_explain_form form) {
    bti_order order;
    bti_plan plan = {0};
    bti_str text = {0};
    char *taken = NULL;
    bt_status status = bti_claim(nodes, count, &order);
    for (size_t i = 0; i < order.count && status == BT_OK; i++)
        if (order.items[i]->symbolic)
            status = bti_fail(BT_FAILED_PRECONDITION, "a function's sizes are known at a call: bt_explain_function");
    bti_planning how = bti_planning_with(bti_fusing_now(), form == BT_EXPLAIN_PASSES ? &text : NULL);
    if (status == BT_OK) status = bti_compile(&order, nodes, count, &how, &plan);
    if (status == BT_OK) {
        if (form == BT_EXPLAIN_JSON)
            (void)bti_plan_json(&text, &plan, bti_plan_device_name);
        else if (form == BT_EXPLAIN_DOT)
            bti_plan_dot(&text, &plan, bti_plan_device_name);
        else if (form == BT_EXPLAIN_TEXT) {
            if (!plan.steps.count) bti_str_add(&text, "      nothing to compute\n");
            bti_plan_text(&text, &plan, bti_plan_device_name);
        }
        if (!(taken = bti_str_take(&text))) (void)!bti_no_memory();
    }
    bti_plan_free(&plan);
    bti_claim_end(&order);
    return taken;
}

char *bt_explain_as(bt_array *const *arrays, int count, bt_explain_form form) {
    BTI_PUBLIC("bt_explain_as");
    if ((unsigned)form > BT_EXPLAIN_PASSES) {
        (void)!bti_fail(BT_INVALID_ARGUMENT, "%d is not a format (bt_explain_form)", (int)form);
        return NULL;
    }
    if (bti_check_list(arrays, count, "arrays") != BT_OK) return NULL;
    BTI_VEC(bti_node *) nodes = {0};
    char *text = NULL;
    bt_status status = BT_OK;
    for (int i = 0; i < count && status == BT_OK; i++) {
        status = bti_fail_with(bti_array_error(arrays[i]));
        if (status == BT_OK && !bti_vec_push(&nodes, bti_node_of(arrays[i]))) status = bti_no_memory();
    }
    if (status == BT_OK) text = explain_nodes(nodes.items, nodes.count, form);
    bti_vec_free(&nodes);
    return text;
}

char *bt_explain_all(bt_array *const *arrays, int count) {
    BTI_CALL("bt_explain_all");
    return bt_explain_as(arrays, count, BT_EXPLAIN_TEXT);
}

char *bt_explain(bt_array *x) {
    BTI_CALL("bt_explain");
    return bt_explain_as(&x, 1, BT_EXPLAIN_TEXT);
}

char *bt_explain_function_as(bt_function *function, bt_array *const *arguments, int argument_count,
                             bt_explain_form form) {
    BTI_PUBLIC("bt_explain_function_as");
    if (bti_handle_check(BTI_OWNED_FUNCTION, function, "bt_explain_function_as") != BT_OK) return NULL;
    int count = bti_function_outputs(function);
    bt_array **outputs = bti_calloc((size_t)count, sizeof *outputs);
    if (!outputs) {
        (void)!bti_no_memory();
        return NULL;
    }
    char *text = NULL;
    if (bti_call_record(function, arguments, argument_count, outputs, false) == BT_OK)
        text = bt_explain_as(outputs, count, form);
    bti_free(outputs);
    return text;
}

char *bt_explain_function(bt_function *function, bt_array *const *arguments, int argument_count) {
    BTI_CALL("bt_explain_function");
    return bt_explain_function_as(function, arguments, argument_count, BT_EXPLAIN_TEXT);
}
