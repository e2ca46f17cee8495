/* berth/grad.h: reverse-mode gradients.
 *
 * A gradient is recorded like any other work, so gradients of gradients work where the rules allow. Each of its operations
 * runs on the device of the operation it belongs to.
 */
#ifndef BERTH_GRAD_H
#define BERTH_GRAD_H

#include <berth/function.h>

#ifdef __cplusplus
extern "C" {
#endif

/* d loss / d wrt[i] for each i, of wrt's shapes and dtypes, into grads[] (arrays of the innermost scope). `loss` is a floating
 * scalar. What loss does not depend on has gradient zero. Ends at shared variables' values and where bt_stop_gradient says so. Where it
 * ends at an array that has forgotten how it was made (bt_retain, bt_assign), and that may have been made of a wrt which loss does not
 * depend on otherwise: FAILED_PRECONDITION, with the line of that call. On errors (that one, loss not a floating scalar, an operation
 * without a gradient) the grads are poisoned and the status says so. */
BT_API bt_status bt_grad(bt_array *loss, bt_array *const *wrt, int count, bt_array **grads);
#define bt_grad(...) BTI_AT_STATUS(bt_grad(__VA_ARGS__))
/* The same for shared variables (of the calling thread's replica). */
BT_API bt_status bt_grad_shared(bt_array *loss, bt_shared *const *wrt, int count, bt_array **grads);
#define bt_grad_shared(...) BTI_AT_STATUS(bt_grad_shared(__VA_ARGS__))
/* The same with the gradient that flows into y (of y's shape) given: a vector-Jacobian product. */
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
/* Calls fn(args), returns its value, fills grads[] with the gradients by args. Where fn, args, count or grads cannot be used, fn is not
 * called and the value is poisoned. */
BT_API bt_array *bt_value_and_grad(bt_loss_fn *fn, void *data, bt_array *const *args, int count, bt_array **grads);
#define bt_value_and_grad(...) BTI_AT(bt_array *, bt_value_and_grad(__VA_ARGS__))
/* Compares the gradients of fn at args (float64) with central differences of step `eps` (0: 1e-6); the largest difference,
 * relative to max(1, |difference quotient|), goes to *worst. Blocks. */
BT_API BT_MUST_USE bt_status bt_check_grad(bt_loss_fn *fn, void *data, bt_array *const *args, int count, double eps,
                                           double *worst);
#define bt_check_grad(...) BTI_AT_MUST(bt_check_grad(__VA_ARGS__))

#ifdef __cplusplus
}
#endif
#endif
