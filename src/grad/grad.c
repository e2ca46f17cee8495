/* Gradients: what is asked for, and what comes back. */
#include <berth/grad.h>
#include <berth/ops.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "array/handle.h"
#include "array/place.h"
#include "base/alloc.h"
#include "base/flags.h"
#include "grad/grad.h"
#include "grad/walk.h"
#include "ir/dtype.h"

/* --- targets in, gradients out --------------------------------------------------------------------------------------- */

/* Every gradient is poisoned with the thread's error. */
static bt_status poison_gradients(bti_public *call, bt_status status, int count, bt_array **grads) {
    for (int i = 0; i < count; i++) grads[i] = bti_public_keep(call, bti_poison(bti_error_last()));
    return status;
}

static bt_array *zeros_where(const bti_node *node, bt_array *like) {
    bti_forced before = bti_force((bti_forced){
        .on = true, .device = node->device, .committed = atomic_load(&node->committed), .place = node->place});
    bt_array *zeros = bt_zeros_like(like);
    bti_force(before);
    return zeros;
}

static bt_status cut_off(const bti_node *cut, int index) {
    return bti_fail(
        BT_FAILED_PRECONDITION,
        "the gradient by wrt[%d] is cut off at %s:%d: %s made an array forget that it may depend on it; take the "
        "gradient "
        "before, keep the array in the scope instead (bt_keep), or put bt_stop_gradient around it where that is meant",
        index, bti_site_file(cut->cut.site), cut->cut.site.line, cut->cut.name);
}

/* The gradients by wrt[i], the first `shared` of which are values of shared variables and stand for these, in the caller's scope. */
static bt_status gradients(bti_public *call, bt_array *y, bt_array *cotangent, bt_array *const *wrt, int shared,
                           int count, bt_array **grads, bool *flows) {
    bti_gradient_target *targets = bti_calloc((size_t)count + 1, sizeof *targets);
    if (!targets) return poison_gradients(call, bti_no_memory(), count, grads);
    int distinct = 0;
    for (int i = 0; i < count; i++) targets[i] = bti_target_of(bti_node_of(wrt[i]), i < shared);
    qsort(targets, (size_t)count, sizeof *targets, bti_compare_targets);
    for (int i = 0; i < count; i++)
        if (!distinct || bti_compare_targets(&targets[distinct - 1], &targets[i])) targets[distinct++] = targets[i];

    bt_status status = bti_walk_back(&y, &cotangent, 1, targets, distinct);
    for (int i = 0; i < count && status == BT_OK; i++) {
        const bti_node *node = bti_node_of(wrt[i]);
        bti_gradient_target key = bti_target_of(node, i < shared);
        const bti_gradient_target *found = bsearch(&key, targets, (size_t)distinct, sizeof key, bti_compare_targets);
        if (found->cut && (status = cut_off(found->cut, i)) != BT_OK) break;
        if (flows && i < shared) flows[i] = found->gradient;
        bt_array *gradient = found->gradient ? found->gradient : zeros_where(node, wrt[i]);
        status = bti_fail_with(bti_array_error(gradient));
        grads[i] = bti_public_keep(call, bti_array_on(bti_node_of(gradient)));
        if (status == BT_OK && bti_flag_bool(BTI_FLAG_sync) && !bti_node_of(gradient)->symbolic)
            status = bt_block(grads[i]);
    }
    for (int i = 0; i < distinct; i++) {
        bt_release(targets[i].gradient);
        bti_node_release(targets[i].cut);
    }
    bti_free(targets);
    return status == BT_OK ? BT_OK : poison_gradients(call, status, count, grads);
}

/* name: what the caller calls `wrt`. */
static bt_status check_lists(const void *wrt, const char *name, int count, bt_array **grads) {
    if (count < 0) return bti_fail(BT_INVALID_ARGUMENT, "count is %d", count);
    if (count > 0 && (!wrt || !grads)) return bti_fail(BT_INVALID_ARGUMENT, "%s is NULL", wrt ? "grads" : name);
    return BT_OK;
}

static bt_status check_arrays(bt_array *const *arrays, int count) {
    for (int i = 0; i < count; i++) {
        if (!arrays[i]) return bti_fail(BT_INVALID_ARGUMENT, "wrt[%d] is NULL", i);
        BTI_TRY(bti_fail_with(bti_array_error(arrays[i])));
    }
    return BT_OK;
}

static bt_status check_loss(bt_array *loss) {
    if (!loss) return bti_fail(BT_INVALID_ARGUMENT, "the loss is NULL");
    BTI_TRY(bti_fail_with(bti_array_error(loss)));
    if (bti_dtype_is_float(bt_dtype_of(loss)) && bt_rank(loss) == 0) return BT_OK;
    bti_str shape = {0};
    bti_shape_text(&shape, bt_rank(loss), bti_node_of(loss)->shape);
    bt_status status = bti_fail(
        BT_INVALID_ARGUMENT,
        "the loss is %s %s; it must be a floating scalar (bt_sum, bt_mean; bt_real or bt_abs of complex numbers)",
        bt_dtype_name(bt_dtype_of(loss)), bti_str_text(&shape));
    bti_str_free(&shape);
    return status;
}

static bt_array *ones_where(const bti_node *node, bt_array *like) {
    bti_forced before = bti_force((bti_forced){
        .on = true, .device = node->device, .committed = atomic_load(&node->committed), .place = node->place});
    bt_array *ones = bt_ones_like(like);
    bti_force(before);
    return ones;
}

/* --- gradients ------------------------------------------------------------------------------------------------------- */

bt_status bt_grad(bt_array *loss, bt_array *const *wrt, int count, bt_array **grads) {
    BTI_PUBLIC("bt_grad");
    BTI_TRY(check_lists(wrt, "wrt", count, grads));
    bt_status status = check_loss(loss);
    if (status == BT_OK) status = check_arrays(wrt, count);
    if (status != BT_OK) return poison_gradients(&bti_public_, status, count, grads);
    return gradients(&bti_public_, loss, ones_where(bti_node_of(loss), loss), wrt, 0, count, grads, NULL);
}

bt_status bti_grad_both(bt_array *loss, bt_shared *const *shared, int shared_count, bt_array *const *arrays, int count,
                        bt_array **grads, bool *flows) {
    BTI_PUBLIC("bt_grad_shared");
    int all = shared_count + count;
    bt_status status = check_loss(loss);
    bt_array **values = bti_calloc((size_t)all + 1, sizeof *values);
    if (!values) status = bti_no_memory();
    for (int i = 0; i < all && status == BT_OK; i++) {
        values[i] = i < shared_count ? bt_value(shared[i]) : arrays[i - shared_count];
        status = bti_fail_with(bti_array_error(values[i]));
    }
    if (status == BT_OK)
        status =
            gradients(&bti_public_, loss, ones_where(bti_node_of(loss), loss), values, shared_count, all, grads, flows);
    else
        poison_gradients(&bti_public_, status, all, grads);
    bti_free(values);
    return status;
}

bt_status bt_grad_shared(bt_array *loss, bt_shared *const *wrt, int count, bt_array **grads) {
    BTI_PUBLIC("bt_grad_shared");
    BTI_TRY(check_lists(wrt, "wrt", count, grads));
    bt_status status = bti_grad_both(loss, wrt, count, NULL, 0, grads, NULL);
    for (int i = 0; i < count; i++) grads[i] = bti_public_keep(&bti_public_, grads[i]);
    return status;
}

static bt_status check_cotangent(bt_array *y, bt_array **cotangent) {
    if (!y || !*cotangent) return bti_fail(BT_INVALID_ARGUMENT, "%s is NULL", y ? "the cotangent" : "y");
    BTI_TRY(bti_fail_with(bti_array_error(y)));
    BTI_TRY(bti_fail_with(bti_array_error(*cotangent)));
    const bti_node *of = bti_node_of(y), *given = bti_node_of(*cotangent);
    if (!bti_dtype_has_gradient(bt_dtype_of(y)))
        return bti_fail(BT_INVALID_ARGUMENT, "y is %s; only floats have gradients", bt_dtype_name(bt_dtype_of(y)));
    if (bti_transfer_refused(given, of->device)) {
        bti_error *error = bti_transfer_error(given, of->device, "cotangent", "is the cotangent of y, which is on %s",
                                              bt_device_name(bt_device_of(y)));
        bt_status status = bti_fail_with(error);
        bti_error_release(error);
        return status;
    }
    if (bti_shape_equal(of->rank, of->shape, given->rank, given->shape)) {
        *cotangent = bt_cast(*cotangent, bt_dtype_of(y));
        return bti_fail_with(bti_array_error(*cotangent));
    }
    bti_str is = {0}, has = {0};
    bti_shape_text(&is, of->rank, of->shape);
    bti_shape_text(&has, given->rank, given->shape);
    bt_status status = bti_fail(BT_INVALID_ARGUMENT, "the cotangent has shape %s; it must have that of y, %s",
                                bti_str_text(&has), bti_str_text(&is));
    bti_str_free(&is);
    bti_str_free(&has);
    return status;
}

bt_status bt_vjp(bt_array *y, bt_array *cotangent, bt_array *const *wrt, int count, bt_array **grads) {
    BTI_PUBLIC("bt_vjp");
    BTI_TRY(check_lists(wrt, "wrt", count, grads));
    bt_status status = check_cotangent(y, &cotangent);
    if (status == BT_OK) status = check_arrays(wrt, count);
    if (status != BT_OK) return poison_gradients(&bti_public_, status, count, grads);
    return gradients(&bti_public_, y, cotangent, wrt, 0, count, grads, NULL);
}

/* The one gradient carries the cause when there is one. */
bt_array *bti_grad1_array(bt_array *loss, bt_array *wrt) {
    BTI_PUBLIC("bt_grad1");
    bt_array *gradient;
    (void)bt_grad(loss, &wrt, 1, &gradient);
    return bti_public_keep(&bti_public_, gradient);
}

bt_array *bti_grad1_shared(bt_array *loss, bt_shared *wrt) {
    BTI_PUBLIC("bt_grad1");
    bt_array *gradient;
    (void)bt_grad_shared(loss, &wrt, 1, &gradient);
    return bti_public_keep(&bti_public_, gradient);
}

/* --- of functions ----------------------------------------------------------------------------------------------------- */

/* NULL: there is nothing to refuse. */
static bt_array *refuse_lists(bt_loss_fn *fn, bt_array *const *args, int count, bt_array **grads) {
    BTI_PUBLIC("bt_value_and_grad");
    bt_status status =
        fn ? check_lists(args, "args", count, grads) : bti_fail(BT_INVALID_ARGUMENT, "the function is NULL");
    if (status == BT_OK) return NULL;
    poison_gradients(&bti_public_, status, grads ? count : 0, grads);
    BTI_RETURN(bti_poison(bti_error_last()));
}

/* No public call here: what fn calls is the user's own, with its own places. */
bt_array *bt_value_and_grad(bt_loss_fn *fn, void *data, bt_array *const *args, int count, bt_array **grads) {
    bt_array *value = refuse_lists(fn, args, count, grads);
    if (value) return value;
    BT_SCOPE {
        value = bt_keep(fn(args, count, data));
        (void)bt_grad(value, args, count, grads); /* they carry the cause when there are none */
        for (int i = 0; i < count && grads; i++) bt_keep(grads[i]);
    }
    return value ? value : bti_poisonf(BT_INVALID_ARGUMENT, "bt_value_and_grad: the function gave NULL");
}

static bt_array *refuse_checkpoint(const char *why) {
    BTI_PUBLIC("bt_checkpoint");
    BTI_RETURN(bti_poisonf(BT_INVALID_ARGUMENT, "%s", why));
}

/* No public call here: what fn calls is the user's own, with its own places. */
bt_array *bt_checkpoint(bt_checkpoint_fn *fn, void *data, bt_array *const *args, int count) {
    if (!fn) return refuse_checkpoint("the function is NULL");
    if (count < 0 || (count && !args)) return refuse_checkpoint(count < 0 ? "count is negative" : "args is NULL");
    bt_array *result = NULL;
    BT_SCOPE
        BT_CHECKPOINT
    result = bt_keep(fn(args, count, data));
    return result ? result : refuse_checkpoint("the function gave NULL");
}

/* --- the check -------------------------------------------------------------------------------------------------------- */

typedef struct check {
    bt_loss_fn *fn;
    void *data;
    bt_array **args; /* one of them stands changed */
    int count;
    double eps, worst;
} check;

static bt_status value_at(check *c, int which, const double *elements, double *value) {
    bt_array *original = c->args[which];
    bt_status status = BT_OK;
    BT_SCOPE {
        BT_ON(bt_device_long_name(bt_device_of(original)))
            c->args[which] = bt_from(elements, BT_F64, bt_shape_of(original));
        bt_array *result = c->fn(c->args, c->count, c->data);
        status = bt_read(result, value, sizeof *value);
    }
    c->args[which] = original;
    return status;
}

static bt_status compare_one(check *c, int which, double *elements, const double *gradient, int64_t elements_count) {
    for (int64_t i = 0; i < elements_count; i++) {
        double at = elements[i], high = 0, low = 0;
        elements[i] = at + c->eps;
        BTI_TRY(value_at(c, which, elements, &high));
        elements[i] = at - c->eps;
        BTI_TRY(value_at(c, which, elements, &low));
        elements[i] = at;
        double quotient = (high - low) / (2 * c->eps), away = fabs(gradient[i] - quotient) / fmax(1, fabs(quotient));
        if (!(away <= c->worst)) c->worst = away; /* NaN is the worst */
    }
    return BT_OK;
}

static bt_status check_argument(check *c, int which, bt_array *gradient) {
    int64_t count = bt_count(c->args[which]);
    size_t bytes = (size_t)count * sizeof(double);
    double *elements = bti_alloc(bytes), *slope = bti_alloc(bytes);
    bt_status status = elements && slope ? BT_OK : bti_no_memory();
    if (status == BT_OK) status = bt_read(c->args[which], elements, bytes);
    if (status == BT_OK) status = bt_read(gradient, slope, bytes);
    if (status == BT_OK) status = compare_one(c, which, elements, slope, count);
    bti_free(elements);
    bti_free(slope);
    return status;
}

static bt_status check_of_grad(bt_loss_fn *fn, bt_array *const *args, int count) {
    BTI_CALL("bt_check_grad");
    if (!fn) return bti_fail(BT_INVALID_ARGUMENT, "the function is NULL");
    BTI_TRY(check_lists(args, "args", count, (bt_array **)(uintptr_t)args));
    BTI_TRY(check_arrays(args, count));
    for (int i = 0; i < count; i++)
        if (bt_dtype_of(args[i]) != BT_F64)
            return bti_fail(BT_INVALID_ARGUMENT,
                            "argument %d is %s; only float64 is fine enough for difference quotients", i,
                            bt_dtype_name(bt_dtype_of(args[i])));
    return BT_OK;
}

bt_status bt_check_grad(bt_loss_fn *fn, void *data, bt_array *const *args, int count, double eps, double *worst) {
    BTI_TRY(check_of_grad(fn, args, count));
    bt_array **arrays = bti_alloc(2 * (size_t)count * sizeof *arrays + 1);
    if (!arrays) return bti_no_memory();
    memcpy(arrays, args, (size_t)count * sizeof *arrays);
    check c = {.fn = fn, .data = data, .args = arrays, .count = count, .eps = eps > 0 ? eps : 1e-6};
    bt_status status = BT_OK;
    BT_SCOPE {
        bt_array **grads = arrays + count, *value = bt_value_and_grad(fn, data, args, count, grads);
        status = bti_fail_with(bti_array_error(value));
        for (int i = 0; i < count && status == BT_OK; i++) status = check_argument(&c, i, grads[i]);
    }
    bti_free(arrays);
    if (status == BT_OK && worst) *worst = c.worst;
    return status;
}
