/* Calls of operations of the program's: asked for shapes, recorded, run; asked for the grids of kernels. */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "ir/print.h"
#include "ops/custom.h"
#include "ops/primitive.h"

typedef bti_custom_operation operation;

/* --- shapes ------------------------------------------------------------------------------------------------------------- */

static bt_elements described(const bti_node *node) {
    return (bt_elements){.dtype = (bt_dtype)node->dtype, .shape = bti_shape_of(node->shape, node->rank)};
}

/* What the shape rule says of each result. Asked while a call is recorded: no lock is held. */
static bt_status ask_shape(const operation *of, bti_node *const *inputs, int count, const bti_attr *attr,
                           bt_elements *outputs) {
    bt_elements few[8] = {{.data = NULL}}, *of_inputs = few;
    if (count > 8 && !(of_inputs = bti_alloc((size_t)count * sizeof *of_inputs))) return bti_no_memory();
    for (int i = 0; i < count; i++) of_inputs[i] = described(inputs[i]);
    for (int o = 0; o < of->given.results; o++) outputs[o] = of_inputs[0];
    bt_custom_args args = bti_custom_args_of(of, attr);
    bt_status status = of->given.shape(of_inputs, count, outputs, &args);
    if (of_inputs != few) bti_free(of_inputs);
    return status;
}

static bool custom_fits(bti_host_function *function, const bti_node *node) {
    const operation *of = (const operation *)function;
    bt_elements outputs[BT_MAX_CUSTOM_RESULTS];
    bool fits = ask_shape(of, node->inputs, node->input_count, node->attr, outputs) == BT_OK;
    for (int o = 0; o < of->given.results && fits; o++) {
        const bti_type *type = bti_tuple_type(node->tuple, o);
        fits = outputs[o].dtype == type->dtype &&
               bti_shapes_may_equal(outputs[o].shape.rank, outputs[o].shape.size, type->rank, type->shape);
    }
    return fits;
}

static bt_status shape_refused(const operation *of, bt_status status, bti_node *const *inputs, int count) {
    bti_str text = {0};
    for (int i = 0; i < count; i++) {
        bti_str_addf(&text, "%s%s ", i ? ", " : "", bt_dtype_name((bt_dtype)inputs[i]->dtype));
        bti_shape_text(&text, inputs[i]->rank, inputs[i]->shape);
    }
    bt_status refused = bti_fail(bti_is_status(status) ? status : BT_UNKNOWN,
                                 "the shape rule of the operation \"%s\" refuses inputs of %s (%s)", of->head.name,
                                 bti_str_text(&text), bt_status_name(status));
    bti_str_free(&text);
    return refused;
}

static bool is_size_of_inputs(int64_t size, bti_node *const *inputs, int count) {
    for (int i = 0; i < count; i++)
        for (int d = 0; d < inputs[i]->rank; d++)
            if (inputs[i]->shape[d] == size) return true;
    return false;
}

/* " of result 2", where there are several. */
typedef struct whose {
    char text[24];
} whose;
static whose of_result(const operation *of, int result) {
    whose which = {""};
    if (of->given.results > 1) snprintf(which.text, sizeof which.text, " of result %d", result);
    return which;
}

/* Whether an array can be like that. */
static bt_status check_output(const operation *of, int result, const bt_elements *output, bti_node *const *inputs,
                              int count) {
    for (int d = 0; d < output->shape.rank && d < BT_MAX_RANK; d++)
        if (output->shape.size[d] < 0 && !is_size_of_inputs(output->shape.size[d], inputs, count))
            return bti_fail(BT_INVALID_ARGUMENT,
                            "the shape rule of the operation \"%s\" gives axis %d%s the size %lld; a negative size "
                            "stands for one that is not known yet, and can only be passed on from an input",
                            of->head.name, d, of_result(of, result).text, (long long)output->shape.size[d]);
    bt_array *poison = bti_check_shape(output->dtype, output->shape, false);
    if (!poison) return BT_OK;
    return bti_fail(BT_INVALID_ARGUMENT, "the shape rule of the operation \"%s\" gives what no array can be%s: %s",
                    of->head.name, of_result(of, result).text, bti_error_message(bti_array_error(poison)));
}

_Static_assert(BTI_MAX_NUMBERS == BT_MAX_CUSTOM_ATTRIBUTES, "attributes of a call are those of a node");

/* --- calls -------------------------------------------------------------------------------------------------------------- */

static bt_status ask_types(const operation *of, bti_node *const *inputs, int count, const bti_attr *attr,
                           bti_type *types) {
    bt_elements outputs[BT_MAX_CUSTOM_RESULTS];
    bt_status status = ask_shape(of, inputs, count, attr, outputs);
    if (status != BT_OK) return shape_refused(of, status, inputs, count);
    for (int o = 0; o < of->given.results; o++) {
        BTI_TRY(check_output(of, o, &outputs[o], inputs, count));
        types[o] = (bti_type){.dtype = outputs[o].dtype, .rank = outputs[o].shape.rank};
        memcpy(types[o].shape, outputs[o].shape.size, (size_t)types[o].rank * sizeof *types[o].shape);
    }
    return BT_OK;
}

bt_status bti_record_custom(operation *of, bt_array *const *inputs, int count, const bti_attr *attr,
                            bt_array **results) {
    bti_node *few[8] = {NULL}, **nodes = few;
    bti_type types[BT_MAX_CUSTOM_RESULTS];
    bt_status status = count > 8 && !(nodes = bti_alloc((size_t)count * sizeof *nodes)) ? bti_no_memory() : BT_OK;
    for (int i = 0; i < count && status == BT_OK; i++) nodes[i] = bti_node_of(inputs[i]);
    if (status == BT_OK) status = ask_types(of, nodes, count, attr, types);
    if (nodes != few) bti_free(nodes);
    if (status == BT_OK)
        return bti_record_hosted(BTI_OP_custom, &of->head, inputs, count, attr, types, of->given.results, results);
    for (int o = 0; o < of->given.results; o++) results[o] = bti_poison(bti_error_last());
    return status;
}

static bt_status check_counts(const operation *of, bt_array *const *inputs, int count, const int64_t *attributes,
                              int attribute_count, int result_count) {
    if (result_count != of->given.results)
        return bti_fail(
            BT_INVALID_ARGUMENT,
            "the operation \"%s\" has %d results (.results of its options), not %d; bt_custom_call_all gives all",
            of->head.name, of->given.results, result_count);
    if (count < 1 || !inputs)
        return bti_fail(BT_INVALID_ARGUMENT, "%d inputs%s; the operation \"%s\" needs at least one", count,
                        inputs ? "" : " in a list that is NULL", of->head.name);
    if (attribute_count < 0 || attribute_count > BT_MAX_CUSTOM_ATTRIBUTES || (attribute_count && !attributes))
        return bti_fail(BT_INVALID_ARGUMENT, "%d attributes%s; a call can have 0 to %d", attribute_count,
                        attributes ? "" : " in a list that is NULL", BT_MAX_CUSTOM_ATTRIBUTES);
    bt_array *poison = bti_poisoned_by(inputs, count);
    return poison ? bti_fail_with(bti_array_error(poison)) : BT_OK;
}

static bt_status call(const char *called, bt_custom *op, bt_array *const *inputs, int count, const int64_t *attributes,
                      int attribute_count, bt_array **results, int result_count) {
    BTI_PUBLIC(called);
    BTI_TRY(bti_check_list(results, result_count, "results"));
    bt_status status = bti_handle_check(BTI_OWNED_CUSTOM, op, called);
    if (status == BT_OK) status = check_counts(op->of, inputs, count, attributes, attribute_count, result_count);
    if (status == BT_OK) {
        bti_attr attr = {.custom = {attribute_count, {0}}};
        for (int i = 0; i < attribute_count; i++) attr.custom.number[i] = attributes[i];
        status = bti_record_custom(op->of, inputs, count, &attr, results);
    } else
        for (int o = 0; o < result_count; o++) results[o] = bti_poison(bti_error_last());
    bti_public_results(&bti_public_, results, result_count);
    return status;
}

bt_array *bt_custom_call(bt_custom *op, bt_array *const *inputs, int count, const int64_t *attributes,
                         int attribute_count) {
    bt_array *result;
    (void)!call("bt_custom_call", op, inputs, count, attributes, attribute_count, &result, 1);
    return result;
}

bt_status bt_custom_call_all(bt_custom *op, bt_array *const *inputs, int count, const int64_t *attributes,
                             int attribute_count, bt_array **results, int result_count) {
    return call("bt_custom_call_all", op, inputs, count, attributes, attribute_count, results, result_count);
}

static bt_status run_failed(const operation *of, bt_status status, bti_error *before) {
    bti_error *last = bti_error_last();
    bool said = last && last != before && bti_error_code(last) == status;
    bt_status known = bti_is_status(status) ? status : BT_UNKNOWN;
    known = bti_fail(known, "the function of the operation \"%s\" fails with %s%s%s", of->head.name,
                     bt_status_name(status), said ? ": " : "", said ? bti_error_message(last) : "");
    bti_error_release(last);
    return known;
}

static bt_status run_custom(bti_host_function *function, const bt_elements *inputs, int count,
                            const bt_elements *outputs, const bti_attr *attr) {
    const operation *of = (const operation *)function;
    bt_custom_args args = bti_custom_args_of(of, attr);
    bool had_scopes = bti_thread_has_scopes();
    bti_error *before = bti_error_last();
    bt_status status = BT_OK;
    bti_user_calls calls = bti_user_calls_begin();
    BT_SCOPE
        status = of->given.run(inputs, count, outputs, &args);
    bti_user_calls_end(calls);
    if (status != BT_OK) status = run_failed(of, status, before);
    bti_error_release(before);
    if (!had_scopes) bti_leave_thread();
    return status;
}

/* --- grids -------------------------------------------------------------------------------------------------------------- */

#define USUAL_THREADS 256
#define MOST_GROUPS INT32_MAX

static int64_t most_elements(const bt_elements *outputs, int count) {
    int64_t most = 0;
    for (int o = 0; o < count; o++) {
        int64_t elements = 1;
        for (int d = 0; d < outputs[o].shape.rank; d++) elements *= outputs[o].shape.size[d];
        if (elements > most) most = elements;
    }
    return most;
}

static bt_status choose_grid(bti_host_function *function, const bt_elements *inputs, int count,
                             const bt_elements *outputs, const bti_attr *attr, bt_custom_grid *grid) {
    const operation *of = (const operation *)function;
    bt_custom_args args = bti_custom_args_of(of, attr);
    grid->threads = USUAL_THREADS;
    grid->groups = (most_elements(outputs, of->given.results) + USUAL_THREADS - 1) / USUAL_THREADS;
    bt_status status = of->given.grid ? of->given.grid(inputs, count, outputs, grid, &args) : BT_OK;
    if (status != BT_OK)
        return bti_fail(bti_is_status(status) ? status : BT_UNKNOWN,
                        "the grid rule of the operation \"%s\" fails with %s", of->head.name, bt_status_name(status));
    if (grid->groups >= 1 && grid->groups <= MOST_GROUPS && grid->threads >= 1) return BT_OK;
    return bti_fail(
        BT_INVALID_ARGUMENT,
        "the kernel of the operation \"%s\" is to run as %lld groups of %d threads%s; 1 to %d groups of 1 or more can",
        of->head.name, (long long)grid->groups, grid->threads, of->given.grid ? " (.grid of its options)" : "",
        MOST_GROUPS);
}

/* --- what nodes hold ---------------------------------------------------------------------------------------------------- */

void bti_custom_fill(operation *of) {
    of->head.run = of->given.run ? run_custom : NULL;
    of->head.fits = custom_fits;
    of->head.grid = choose_grid;
}
