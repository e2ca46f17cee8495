/* berth/transform.h: transformations of programs: batches, forward-mode derivatives, Jacobians.
 *
 * What a transformation records is recorded like any other work. So they nest, with each other and with the gradients of
 * grad.h: the batch of a gradient, the gradient of a batch, the derivative of a derivative. Each operation that is
 * recorded runs on the device of the operation that it belongs to.
 *
 * All of them record and return at once. Any thread.
 */
#ifndef BERTH_TRANSFORM_H
#define BERTH_TRANSFORM_H

#include <limits.h>

#include <berth/grad.h>

#ifdef __cplusplus
extern "C" {
#endif

/* --- batches --------------------------------------------------------------------------------------------------------- */

/* In a list of axes: this one has no batch axis, it is the same for the whole batch. */
#define BT_NOT_BATCHED INT_MIN

/* The function of a batch: what calls of `function` with each element of the batch would give, stacked, from one call
 * without a loop. Input i has one axis more than that of `function`, at in_axes[i], and output o one more, at
 * out_axes[o]; [I...] -> [O...] becomes [B, I...] -> [B, O...] where these axes are 0. A list has as many axes as the
 * function has inputs (outputs); NULL: all are 0. Negative axes count from the end of the array with the batch. An input
 * whose axis is BT_NOT_BATCHED is shared by the batch, as shared variables and constants are; an output whose axis is
 * that must not depend on a batched input. B is unknown: each call has its own, which may be 0.
 *
 * Belongs to the innermost scope, like any function, and lives without `function`. Poisoned with INVALID_ARGUMENT when
 * an axis is out of range, no input is batched, a shared output depends on the batch, or an array of `function` has
 * BT_MAX_RANK axes already; with FAILED_PRECONDITION when `function` has updates; with UNIMPLEMENTED when an operation
 * cannot be batched. A call whose arguments disagree about B is INVALID_ARGUMENT.
 *
 * Loops and branches (control.h) are batched as a whole. Where the test of a bt_while differs by element, the loop goes on
 * until the last element is done, and those that are done keep what they carry; the test of all elements is computed once
 * before the first step and once after each. Where the predicate of a bt_cond differs
 * by element, both branches run. What is computed of an element and not used has no part in gradients by batched inputs, even if
 * its derivative is infinite or NaN; in those by what the batch shares, such a derivative is NaN.
 *
 * Random numbers are a function of their key: a shared key gives each element of the batch the same, a batched key its
 * own. */
BT_API bt_function *bt_vmap(bt_function *function, const int *in_axes, const int *out_axes);
#define bt_vmap(...) BTI_AT(bt_function *, bt_vmap(__VA_ARGS__))

/* --- derivatives ----------------------------------------------------------------------------------------------------- */

/* A Jacobian-vector product, forward mode: how each ys[i] changes when all xs[k] move along tangents[k]: the sum over k
 * of (d ys[i] / d xs[k]) * tangents[k], with the shape and dtype of ys[i], written to y_tangents[] (arrays of the
 * innermost scope). It costs about as much as computing ys, however many xs there are; bt_vjp is the product from the
 * other side. tangents[k] has the shape of xs[k] and is cast to its dtype. All arrays are floating-point.
 *
 * Derivatives do not pass integers, the values of shared variables, and bt_stop_gradient; where ys[i] does not depend on
 * xs, the tangent is zero. If two xs are the same array, or one is made of the other, what they give is added.
 *
 * FAILED_PRECONDITION where bt_grad has it: an array on the way no longer knows how it was made. On any error all
 * y_tangents are poisoned. */
BT_API bt_status bt_jvp(bt_array *const *ys, int y_count, bt_array *const *xs, bt_array *const *tangents, int x_count,
                        bt_array **y_tangents);
#define bt_jvp(...) BTI_AT_STATUS(bt_jvp(__VA_ARGS__))

/* The Jacobian d y / d x: y [Y...], x [X...] -> [Y..., X...], of y's dtype in forward mode and x's in reverse. One pass
 * for a batch of unit vectors: in reverse where y has fewer elements than x, else forward. INVALID_ARGUMENT if y and x
 * are not floating-point, have more than BT_MAX_RANK axes together, or have an array between them without room for the axis of the batch; other errors are those of bt_vjp and bt_jvp. */
BT_API bt_array *bt_jacobian(bt_array *y, bt_array *x);
#define bt_jacobian(...) BTI_AT(bt_array *, bt_jacobian(__VA_ARGS__))

/* The Hessian of a floating-point scalar: x [X...] -> [X..., X...]; the Jacobian of its gradient. */
BT_API bt_array *bt_hessian(bt_array *loss, bt_array *x);
#define bt_hessian(...) BTI_AT(bt_array *, bt_hessian(__VA_ARGS__))

/* Hessian-vector products without the Hessian: products[i] is the sum over k of (d2 loss / d wrt[i] d wrt[k]) *
 * vectors[k], with the shape and dtype of wrt[i] (arrays of the innermost scope). `loss` is a floating-point scalar;
 * vectors[k] has the shape of wrt[k]. The forward-mode derivative of the gradient: about twice the cost of bt_grad.
 * Errors are those of bt_grad and bt_jvp; on any error all products are poisoned. */
BT_API bt_status bt_hvp(bt_array *loss, bt_array *const *wrt, bt_array *const *vectors, int count, bt_array **products);
#define bt_hvp(...) BTI_AT_STATUS(bt_hvp(__VA_ARGS__))

#ifdef __cplusplus
}
#endif
#endif
