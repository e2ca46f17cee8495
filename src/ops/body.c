#include "ops/body.h"

#include <string.h>

#include "array/place.h"
#include "array/record.h"
#include "base/alloc.h"
#include "ir/op_rules.h"
#include "ir/sequence.h"
#include "ops/primitive.h"

bt_status bti_body_begin(bti_body *body, const char *called, int input_count, int output_count) {
    *body = (bti_body){
        .called = called, .input_count = input_count, .output_count = output_count, .since = bti_sequence_mark()};
    body->inputs = bti_calloc((size_t)input_count + 1, sizeof *body->inputs);
    body->outputs = bti_calloc((size_t)output_count + 1, sizeof *body->outputs);
    body->given = bti_calloc((size_t)input_count + 1, sizeof *body->given);
    body->made = bti_calloc((size_t)output_count + 1, sizeof *body->made);
    return body->inputs && body->outputs && body->given && body->made ? BT_OK : bti_no_memory();
}

void bti_body_end(bti_body *body) {
    for (int i = 0; i < body->input_count && body->given; i++) bti_node_release(body->given[i]);
    bti_free(body->inputs);
    bti_free(body->outputs);
    bti_free(body->given);
    bti_free(body->made);
    *body = (bti_body){0}; /* it may be begun again, or ended */
}

bt_status bti_body_input(bti_body *body, int i, const bti_type *type, int device, bool weak) {
    body->inputs[i] = bti_array_new(bti_region_leaf(type, device, bti_call_place()));
    BTI_TRY(bti_fail_with(bti_array_error(body->inputs[i])));
    body->given[i] = bti_node_retain(bti_node_of(body->inputs[i]));
    body->given[i]->weak = weak;
    return BT_OK;
}

bt_status bti_body_promote(const bti_body *body, bt_array *const *carry, bt_array **arguments, int count, bool *again) {
    *again = false;
    for (int i = 0; i < count; i++) {
        bt_array *x = body->outputs[i];
        if (!body->given[i]->weak || !x || bti_array_error(x) || bti_node_of(x)->weak) continue;
        bt_dtype dtype = bti_dtype(x);
        if (dtype == bti_dtype(arguments[i]) || !bti_dtype_is_float(dtype)) continue;
        arguments[i] = bti_cast(carry[i], dtype);
        BTI_TRY(bti_fail_with(bti_array_error(arguments[i])));
        *again = true;
    }
    return BT_OK;
}

static bt_array *strong(bt_array *x) { return bti_node_of(x)->weak ? bti_cast(x, bti_dtype(x)) : x; }

bt_status bti_body_output(bti_body *body, int i, const char *name, int index) {
    bt_array *x = body->outputs[i];
    if (!x) return bti_fail(BT_INVALID_ARGUMENT, "%s did not fill in %s[%d]", body->called, name, index);
    BTI_TRY(bti_fail_with(bti_array_error(x)));
    x = body->outputs[i] = strong(x);
    BTI_TRY(bti_fail_with(bti_array_error(x)));
    body->made[i] = bti_node_of(x);
    return BT_OK;
}

static void add_type(bti_str *text, const bti_type *type) {
    bti_str_addf(text, "%s ", bt_dtype_name(type->dtype));
    bti_shape_text(text, type->rank, type->shape);
}

bt_status bti_body_output_like(bti_body *body, int i, const bti_type *type, const char *name, int index,
                               const char *as) {
    bt_array *x = body->outputs[i];
    if (x && !bti_array_error(x) && bti_node_of(x)->weak && bti_takes_weak(bti_dtype(x), type->dtype))
        body->outputs[i] = bti_cast(x, type->dtype);
    BTI_TRY(bti_body_output(body, i, name, index));
    bti_type made = bti_type_of(body->made[i]);
    if (made.dtype == type->dtype && bti_shapes_may_equal(made.rank, made.shape, type->rank, type->shape)) return BT_OK;
    bti_str is = {0}, wants = {0};
    add_type(&is, &made);
    add_type(&wants, type);
    bt_status status = bti_fail(BT_INVALID_ARGUMENT, "%s hands back %s[%d] as %s, but %s %s", body->called, name, index,
                                bti_str_text(&is), as, bti_str_text(&wants));
    bti_str_free(&is);
    bti_str_free(&wants);
    return status;
}

static bti_cutting cutting_of(const bti_body *body) {
    return (bti_cutting){body->given, body->input_count, body->made, body->output_count, body->since,
                         false,       body->whole};
}

/* The region whose inputs are the body's, then the captures. */
static bt_status cut_body(const bti_body *body, const bti_node_vec *captures, int device, bti_region **region) {
    size_t declared = (size_t)body->input_count;
    bti_node **given = bti_alloc((declared + captures->count) * sizeof *given);
    if (!given) return bti_no_memory();
    for (size_t i = 0; i < declared; i++) given[i] = body->given[i];
    for (size_t i = 0; i < captures->count; i++) given[declared + i] = captures->items[i];
    bti_cutting cutting = cutting_of(body);
    cutting.given = given;
    cutting.given_count = (int)(declared + captures->count);
    bt_status status = bti_region_cut(&cutting, device, region);
    bti_free(given);
    return status;
}

/* All that the operation is given: its arguments, then the captures. */
static bt_array **inputs_of(const bti_body_operation *of, const bti_node_vec *captures) {
    bt_array **inputs = bti_alloc(((size_t)of->argument_count + captures->count + 1) * sizeof *inputs);
    for (int i = 0; i < of->argument_count && inputs; i++) inputs[i] = of->arguments[i];
    for (size_t i = 0; i < captures->count && inputs; i++)
        inputs[of->argument_count + (int)i] = bti_array_on(captures->items[i]);
    return inputs;
}

/* Where all of it would be done one by one: what the bodies read from outside has a say. All regions take the captures of all. */
static bt_status record_with(const bti_body_operation *of, const bti_node_vec *captures, bt_array **results) {
    int count = of->argument_count + (int)captures->count;
    bt_array **inputs = inputs_of(of, captures);
    bti_region *regions[BTI_MAX_REGIONS] = {NULL};
    bti_placement placement = {0};
    bt_array *poison = inputs ? bti_choose_device(inputs, count, &placement) : NULL;
    bt_status status = !inputs ? bti_no_memory() : poison ? bti_fail_with(bti_array_error(poison)) : BT_OK;
    for (int b = 0; b < of->body_count && status == BT_OK; b++)
        status = cut_body(of->bodies[b], captures, placement.device, &regions[b]);
    if (status == BT_OK)
        status = bti_record_tuple(of->op, inputs, count, of->attr, of->types, of->result_count, regions, of->body_count,
                                  results);
    for (int b = 0; b < BTI_MAX_REGIONS; b++) bti_region_release(regions[b]);
    bti_free(inputs);
    return status;
}

bt_status bti_body_record(const bti_body_operation *of, bt_array **results) {
    bti_node_vec captures = {0};
    bt_status status = BT_OK;
    for (int b = 0; b < of->body_count && status == BT_OK; b++) {
        bti_cutting cutting = cutting_of(of->bodies[b]);
        status = bti_region_captures(&cutting, &captures);
    }
    if (status == BT_OK) status = record_with(of, &captures, results);
    bti_node_vec_release(&captures);
    return status;
}

/* --- what no step changes --------------------------------------------------------------------------------------------- */

/* Item i of pointers becomes the last of `count`. */
static void move_to_end(void *pointers, int i, int count) {
    char *at = (char *)pointers + (size_t)i * sizeof(void *);
    size_t behind = (size_t)(count - 1 - i) * sizeof(void *);
    void *item;
    memcpy(&item, at, sizeof item);
    memmove(at, at + sizeof item, behind);
    memcpy(at + behind, &item, sizeof item);
}

/* On another device it is copied by the loop. */
static void find_unchanged(const bti_body *body, bt_array *const *arguments, int device, int least,
                           bti_unchanged *unchanged) {
    for (int i = unchanged->carried; i-- > 0 && unchanged->carried - unchanged->count > least;) {
        unchanged->is[i] = body->made[i] == body->given[i] && bti_node_of(arguments[i])->device == device;
        unchanged->count += unchanged->is[i];
    }
}

bt_status bti_body_set_aside(bti_body *const *bodies, int body_count, bt_array **arguments, int device, int least,
                             bti_unchanged *unchanged) {
    bti_body *last = bodies[body_count - 1];
    unchanged->is = bti_calloc((size_t)unchanged->carried + 1, sizeof *unchanged->is);
    if (!unchanged->is) return bti_no_memory();
    find_unchanged(last, arguments, device, least, unchanged);
    for (int i = unchanged->carried, end = last->input_count; i-- > 0;) {
        if (!unchanged->is[i]) continue;
        for (int b = 0; b < body_count; b++) move_to_end(bodies[b]->given, i, end);
        move_to_end(arguments, i, end--);
        move_to_end(last->made, i, last->output_count--);
    }
    return BT_OK;
}

bt_status bti_body_put_back(const bti_unchanged *unchanged, bt_array *const *arguments, int argument_count,
                            bt_array **results, int result_count) {
    int recorded = result_count - unchanged->count;
    for (int i = result_count; i-- > 0;) {
        bool is = i < unchanged->carried && unchanged->is[i];
        results[i] = is ? bti_array_on(bti_node_of(arguments[--argument_count])) : results[--recorded];
        BTI_TRY(bti_fail_with(bti_array_error(results[i])));
    }
    return BT_OK;
}

/* --- arguments -------------------------------------------------------------------------------------------------------- */

bt_status bti_body_arguments(bt_array *const *arrays, int count, const char *what, bt_array **made) {
    BTI_TRY(bti_check_list(arrays, count, what));
    for (int i = 0; i < count; i++) {
        if (!arrays[i]) return bti_fail(BT_INVALID_ARGUMENT, "%s[%d] is NULL", what, i);
        BTI_TRY(bti_fail_with(bti_array_error(arrays[i])));
        made[i] = strong(arrays[i]);
        BTI_TRY(bti_fail_with(bti_array_error(made[i])));
    }
    return BT_OK;
}

bt_status bti_body_poison(bt_status status, bt_array **arrays, int count) {
    for (int i = 0; i < count && arrays; i++) arrays[i] = bti_poison(bti_error_last());
    return status;
}
