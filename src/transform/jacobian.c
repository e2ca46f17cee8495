/* Jacobians: batches of unit vectors through one derivative; and second derivatives. */
#include <berth/transform.h>

#include "array/place.h"
#include "base/alloc.h"
#include "function/function.h"
#include "ops/primitive.h"
#include "transform/batch.h"
#include "transform/jvp.h"

/* --- jacobians -------------------------------------------------------------------------------------------------------- */

/* A vector that is not known yet, of the shape of x. */
static bt_array *unknown_like(const bt_array *x) {
    const bti_node *node = bti_node_of(x);
    bti_placement there = {node->device, atomic_load(&node->committed), (bti_rule)node->rule};
    return bti_input_on(there, (bt_dtype)node->dtype, node->rank, node->shape);
}

/* All unit vectors of the shape of x: [N, X...] */
static bt_array *unit_vectors(bt_array *x, int64_t count) {
    int64_t shape[BTI_MAX_RANK + 1] = {count};
    for (int i = 0; i < bti_rank(x); i++) shape[i + 1] = bti_shape(x)[i];
    bti_recording_context before = bti_enter_context_of(bti_node_of(x), true);
    bt_array *units = bti_reshape(bt_eye(count, count, bti_dtype(x)), bti_rank(x) + 1, shape);
    bti_leave_context(before);
    return units;
}

/* What the derivative, linear in `unknown`, is for each unit vector: [N, ...]; NULL: zero. */
static bt_status derivative_of_units(bt_array *derivative, bt_array *unknown, int64_t count, bt_array **stack) {
    bt_array *units = unit_vectors(unknown, count);
    BTI_TRY(bti_fail_with(bti_array_error(units)));
    return bti_batch(&derivative, 1, &unknown, &units, 1, count, stack);
}

/* Row by row: [N, X...] */
static bt_status rows_of_jacobian(bt_array *y, bt_array *x, bt_array **rows) {
    bt_array *unknown = unknown_like(y), *gradient;
    BTI_TRY(bti_fail_with(bti_array_error(unknown)));
    BTI_TRY(bt_vjp(y, unknown, &x, 1, &gradient));
    return derivative_of_units(gradient, unknown, bti_size_of(y), rows);
}

/* Column by column: [Y..., N] */
static bt_status columns_of_jacobian(bt_array *y, bt_array *x, bt_array **columns) {
    bt_array *unknown = unknown_like(x), *tangent;
    BTI_TRY(bti_fail_with(bti_array_error(unknown)));
    BTI_TRY(bt_jvp(&y, 1, &x, &unknown, 1, &tangent));
    BTI_TRY(derivative_of_units(tangent, unknown, bti_size_of(x), columns));
    if (!*columns) return BT_OK;
    bti_recording_context before = bti_enter_context_of(bti_node_of(y), true);
    *columns = bti_move_axis(*columns, 0, bti_rank(y));
    bti_leave_context(before);
    return BT_OK;
}

static bool is_smaller(int64_t a, int64_t b) {
    return bti_size_is_symbolic(a) || bti_size_is_symbolic(b) ? a == 1 : a < b;
}

static bt_status make_jacobian(bt_array *y, bt_array *x, bt_array **jacobian) {
    int rank = bti_rank(y) + bti_rank(x);
    int64_t shape[2 * BTI_MAX_RANK];
    if (rank > BTI_MAX_RANK)
        return bti_fail(BT_INVALID_ARGUMENT, "y has shape %s and x has %s: their Jacobian has %d axes; the most are %d",
                        bti_shape_string(y).text, bti_shape_string(x).text, rank, BTI_MAX_RANK);
    for (int i = 0; i < rank; i++) shape[i] = i < bti_rank(y) ? bti_shape(y)[i] : bti_shape(x)[i - bti_rank(y)];
    bool by_rows = is_smaller(bti_size_of(y), bti_size_of(x));
    bt_array *made = NULL;
    BTI_TRY(by_rows ? rows_of_jacobian(y, x, &made) : columns_of_jacobian(y, x, &made));
    bti_recording_context before = bti_enter_context_of(bti_node_of(by_rows ? x : y), true);
    *jacobian =
        made ? bti_reshape(made, rank, shape) : bt_full_shape(0, bti_dtype(by_rows ? x : y), bti_shape_of(shape, rank));
    bti_leave_context(before);
    return BT_OK;
}

static bt_array *jacobian_of(bt_array *y, bt_array *x) {
    bt_array *jacobian;
    bt_status status = bti_check_float(y, "y");
    if (status == BT_OK) status = bti_check_float(x, "x");
    if (status == BT_OK) status = make_jacobian(y, x, &jacobian);
    return status == BT_OK ? jacobian : bti_poison(bti_error_last());
}

bt_array *bt_jacobian(bt_array *y, bt_array *x) {
    BTI_PUBLIC("bt_jacobian");
    BTI_RETURN(jacobian_of(y, x));
}

/* --- second derivatives ------------------------------------------------------------------------------------------------ */

bt_array *bt_hessian(bt_array *loss, bt_array *x) {
    BTI_PUBLIC("bt_hessian");
    bt_array *gradient;
    if (bti_check_float(x, "x") != BT_OK || bt_grad(loss, &x, 1, &gradient) != BT_OK)
        BTI_RETURN(bti_poison(bti_error_last()));
    BTI_RETURN(jacobian_of(gradient, x));
}

bt_status bt_hvp(bt_array *loss, bt_array *const *wrt, bt_array *const *vectors, int count, bt_array **products) {
    BTI_PUBLIC("bt_hvp");
    BTI_TRY(bti_check_list(products, count, "products"));
    bt_array **gradients = bti_calloc((size_t)(count > 0 ? count : 0) + 1, sizeof *gradients);
    bt_status status = gradients ? bti_check_tangents(vectors, "vectors", wrt, "wrt", count) : bti_no_memory();
    if (status == BT_OK) status = bt_grad(loss, wrt, count, gradients);
    if (status == BT_OK) status = bt_jvp(gradients, count, wrt, vectors, count, products);
    for (int i = 0; i < count && status == BT_OK; i++) bti_public_keep(&bti_public_, products[i]);
    bti_free(gradients);
    return status == BT_OK ? BT_OK : bti_poison_results(&bti_public_, status, count, products);
}
