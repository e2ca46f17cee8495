/* Forward-mode derivatives: the program of a result, recorded once more for tangents. */
#include "transform/jvp.h"

#include <berth/transform.h>
#include <stdio.h>
#include <stdlib.h>

#include "array/place.h"
#include "base/alloc.h"
#include "base/flags.h"
#include "grad/walk.h"
#include "ir/dtype.h"
#include "ops/rules.h"
#include "transform/retrace.h"

bt_status bti_poison_results(bti_public *call, bt_status status, int count, bt_array **results) {
    for (int i = 0; i < count && results; i++) results[i] = bti_public_keep(call, bti_poison(bti_error_last()));
    return status;
}

/* --- what is asked --------------------------------------------------------------------------------------------------- */

bt_status bti_check_float(const bt_array *x, const char *name) {
    if (!x) return bti_fail(BT_INVALID_ARGUMENT, "%s is NULL", name);
    BTI_TRY(bti_fail_with(bti_array_error(x)));
    if (bti_node_has_gradient(bti_node_of(x))) return BT_OK;
    return bti_fail(BT_INVALID_ARGUMENT, "%s is %s; only floats have derivatives", name,
                    bt_dtype_name((bt_dtype)bti_node_of(x)->dtype));
}

static bt_status check_floats(bt_array *const *arrays, int count, const char *name) {
    char item[32];
    BTI_TRY(bti_check_list(arrays, count, name));
    for (int i = 0; i < count; i++) {
        snprintf(item, sizeof item, "%s[%d]", name, i);
        BTI_TRY(bti_check_float(arrays[i], item));
    }
    return BT_OK;
}

static bt_status check_tangent(bt_array *tangent, const char *name, const bt_array *x, const char *of_name, int index) {
    const bti_node *has = bti_node_of(tangent), *of = bti_node_of(x);
    if (bti_transfer_refused(has, of->device)) {
        bti_error *error = bti_transfer_error(has, of->device, "tangent", "is %s[%d] of an array that is on %s", name,
                                              index, bt_device_name(bt_device_of(x)));
        bt_status status = bti_fail_with(error);
        bti_error_release(error);
        return status;
    }
    if (bti_shape_equal(of->rank, of->shape, has->rank, has->shape)) return BT_OK;
    return bti_fail(BT_INVALID_ARGUMENT, "%s[%d] has shape %s; it must have that of %s[%d], %s", name, index,
                    bti_shape_string(tangent).text, of_name, index, bti_shape_string(x).text);
}

bt_status bti_check_tangents(bt_array *const *tangents, const char *name, bt_array *const *xs, const char *of_name,
                             int count) {
    BTI_TRY(check_floats(xs, count, of_name));
    BTI_TRY(check_floats(tangents, count, name));
    for (int i = 0; i < count; i++) BTI_TRY(check_tangent(tangents[i], name, xs[i], of_name, i));
    return BT_OK;
}

static bt_status check_question(bt_array *const *ys, int y_count, bt_array *const *xs, bt_array *const *tangents,
                                int x_count) {
    BTI_TRY(check_floats(ys, y_count, "ys"));
    return bti_check_tangents(tangents, "tangents", xs, "xs", x_count);
}

/* --- histories that end ---------------------------------------------------------------------------------------------- */

static bt_status is_retained(const bti_node *y, int index) {
    return bti_fail(BT_FAILED_PRECONDITION,
                    "derivatives end at retained arrays, and ys[%d] is one (%s at %s:%d): take the derivative before",
                    index, y->cut.name ? y->cut.name : "bt_retain or bt_assign", bti_site_file(y->cut.site),
                    y->cut.site.line);
}

static bt_status derivative_cut_off(const bti_node *cut, int index) {
    return bti_fail(
        BT_FAILED_PRECONDITION,
        "the derivative of ys[%d] is cut off at %s:%d: %s made an array forget that it may depend on one of xs; take "
        "the derivative before, keep the array in the scope instead (bt_keep), or put bt_stop_gradient around it where "
        "that is meant",
        index, bti_site_file(cut->cut.site), cut->cut.site.line, cut->cut.name);
}

/* Whether something that y was made of and that forgot it may hide one of xs. */
static bt_status check_history(bt_array *y, int index, bt_array *const *xs, int x_count) {
    bti_gradient_target *targets = bti_calloc((size_t)x_count + 1, sizeof *targets);
    if (!targets) return bti_no_memory();
    for (int i = 0; i < x_count; i++) targets[i] = bti_target_of(bti_node_of(xs[i]), false);
    qsort(targets, (size_t)x_count, sizeof *targets, bti_compare_targets);
    int distinct = 0;
    for (int i = 0; i < x_count; i++)
        if (!distinct || bti_compare_targets(&targets[distinct - 1], &targets[i])) targets[distinct++] = targets[i];
    bt_status status = bti_find_targets(y, targets, distinct);
    for (int i = 0; i < distinct; i++) {
        if (status == BT_OK && targets[i].cut) status = derivative_cut_off(targets[i].cut, index);
        bti_node_release(targets[i].cut);
    }
    bti_free(targets);
    return status;
}

/* --- tangents -------------------------------------------------------------------------------------------------------- */

static bt_status apply_tangent_rule(bti_application *a) {
    bti_transform_rule *rule = bti_tangent_rule_of((bti_op)a->node->op);
    if (!rule)
        return bti_fail(BT_UNIMPLEMENTED, "the operation %s has no derivative; bt_stop_gradient ends it there",
                        bti_op_info((bti_op)a->node->op)->name);
    rule(a);
    for (int i = 0; i < a->results; i++)
        if (a->made[i] && a->y) a->made[i] = bti_cast(a->made[i], bti_dtype(a->y));
    return BT_OK;
}

static bti_transformer transform_tangents;

static bti_retrace retrace_of(bt_array *const *leaves, bt_array *const *tangents, int count) {
    return (bti_retrace){.leaves = leaves,
                         .images = tangents,
                         .leaf_count = count,
                         .of_gradient = true,
                         .beside = true,
                         .passes = bti_passes_gradient,
                         .apply = apply_tangent_rule,
                         .transform = transform_tangents};
}

static bt_status transform_tangents(const bti_application *of, bt_array *const *ys, int y_count,
                                    bt_array *const *leaves, bt_array *const *images, int leaf_count, bt_array **made) {
    bti_retrace r = retrace_of(leaves, images, leaf_count);
    (void)of;
    return bti_retrace_all(&r, ys, y_count, made);
}

static bt_array *zero_tangent(bt_array *y) {
    bti_recording_context before = bti_enter_context_of(bti_node_of(y), true);
    bt_array *zeros = bt_zeros_like(y);
    bti_leave_context(before);
    return zeros;
}

/* of: room for the tangents as xs take them. */
static bt_status tangents_of(bt_array *const *ys, int y_count, bt_array *const *xs, bt_array **of, int x_count,
                             bt_array **y_tangents) {
    bti_retrace r = retrace_of(xs, of, x_count);
    for (int i = 0; i < y_count; i++)
        if (atomic_load(&bti_node_of(ys[i])->forget) && x_count) return is_retained(bti_node_of(ys[i]), i);
    BTI_TRY(bti_retrace_all(&r, ys, y_count, y_tangents));
    for (int i = 0; i < y_count && r.forgot; i++) BTI_TRY(check_history(ys[i], i, xs, x_count));
    for (int i = 0; i < y_count; i++)
        if (!y_tangents[i]) y_tangents[i] = zero_tangent(ys[i]);
    return BT_OK;
}

bt_status bt_jvp(bt_array *const *ys, int y_count, bt_array *const *xs, bt_array *const *tangents, int x_count,
                 bt_array **y_tangents) {
    BTI_PUBLIC("bt_jvp");
    BTI_TRY(bti_check_list(y_tangents, y_count, "y_tangents"));
    bt_status status = check_question(ys, y_count, xs, tangents, x_count);
    bt_array **of = bti_alloc((size_t)(x_count > 0 ? x_count : 0) * sizeof *of + 1);
    if (!of) status = bti_no_memory();
    for (int i = 0; i < x_count && status == BT_OK; i++) {
        of[i] = bti_cast(tangents[i], bti_dtype(xs[i]));
        status = bti_fail_with(bti_array_error(of[i]));
    }
    if (status == BT_OK) status = tangents_of(ys, y_count, xs, of, x_count, y_tangents);
    bti_free(of);
    for (int i = 0; i < y_count && status == BT_OK; i++) {
        status = bti_fail_with(bti_array_error(y_tangents[i]));
        bti_public_keep(&bti_public_, y_tangents[i]);
        if (status == BT_OK && bti_flag_bool(BTI_FLAG_sync) && !bti_node_of(y_tangents[i])->symbolic)
            status = bt_block(y_tangents[i]);
    }
    return status == BT_OK ? BT_OK : bti_poison_results(&bti_public_, status, y_count, y_tangents);
}
