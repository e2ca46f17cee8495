/* berth/grad.h: reverse-mode gradients.
 *
 * A gradient is recorded like any other work, so it can be differentiated again where the operations have gradients of
 * second order. Each operation of a gradient runs on the device of the forward operation that it belongs to.
 */
#ifndef BERTH_GRAD_H
#define BERTH_GRAD_H

#include <berth/function.h>

#ifdef __cplusplus
extern "C" {
#endif

/* d loss / d wrt[i] for each i, with the shape and dtype of wrt[i], written to grads[] (arrays of the innermost scope).
 * `loss` is a floating-point scalar. The gradient by an array that loss does not depend on is zero. Gradients do not
 * pass the values of shared variables and bt_stop_gradient.
 *
 * FAILED_PRECONDITION when a gradient reaches an array that no longer knows how it was made (bt_retain, bt_assign), if
 * that array may have been computed from a wrt that loss does not depend on in another way; the text names the line of
 * that bt_retain or bt_assign. On any error (this one, loss not a floating-point scalar, an operation without a
 * gradient) all grads are poisoned. */
BT_API bt_status bt_grad(bt_array *loss, bt_array *const *wrt, int count, bt_array **grads);
#define bt_grad(...) BTI_AT_STATUS(bt_grad(__VA_ARGS__))
/* The same by shared variables (by the replica of the calling thread). */
BT_API bt_status bt_grad_shared(bt_array *loss, bt_shared *const *wrt, int count, bt_array **grads);
#define bt_grad_shared(...) BTI_AT_STATUS(bt_grad_shared(__VA_ARGS__))
/* A vector-Jacobian product: the same for an array y of any shape, given `cotangent`, the gradient by y (of y's shape). */
BT_API bt_status bt_vjp(bt_array *y, bt_array *cotangent, bt_array *const *wrt, int count, bt_array **grads);
#define bt_vjp(...) BTI_AT_STATUS(bt_vjp(__VA_ARGS__))

/* One gradient; `wrt` is a bt_array * or a bt_shared *. */
BT_API bt_array *bti_grad1_array(bt_array *loss, bt_array *wrt);
BT_API bt_array *bti_grad1_shared(bt_array *loss, bt_shared *wrt);
#ifdef __cplusplus
}
static inline bt_array *bti_grad1(bt_array *loss, bt_array *wrt) { return bti_grad1_array(loss, wrt); }
static inline bt_array *bti_grad1(bt_array *loss, bt_shared *wrt) { return bti_grad1_shared(loss, wrt); }
extern "C" {
#define bt_grad1(loss, wrt) BTI_AT(bt_array *, bti_grad1(loss, wrt))
#else
#define bt_grad1(loss, wrt) \
    BTI_AT(bt_array *, _Generic((wrt), bt_array * : bti_grad1_array, bt_shared * : bti_grad1_shared)(loss, wrt))
#endif

/* A scalar function of arrays, for bt_value_and_grad and bt_check_grad. */
typedef bt_array *bt_loss_fn(bt_array *const *args, int count, void *data);
/* Calls fn(args), returns its value and fills grads[] with the gradients by args. If fn, args, count or grads are
 * invalid, fn is not called and the value is poisoned. */
BT_API bt_array *bt_value_and_grad(bt_loss_fn *fn, void *data, bt_array *const *args, int count, bt_array **grads);
#define bt_value_and_grad(...) BTI_AT(bt_array *, bt_value_and_grad(__VA_ARGS__))
/* Compares the gradients of fn at args (float64) with central differences of step `eps` (0: 1e-6). *worst receives the
 * largest difference, relative to max(1, |difference quotient|). Blocks. */
BT_API BT_MUST_USE bt_status bt_check_grad(bt_loss_fn *fn, void *data, bt_array *const *args, int count, double eps,
                                           double *worst);
#define bt_check_grad(...) BTI_AT_MUST(bt_check_grad(__VA_ARGS__))

#ifdef __cplusplus
}
#endif
#endif
