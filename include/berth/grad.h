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

/* --- computing again instead of keeping ------------------------------------------------------------------------------ */

typedef struct bti_checkpoint_guard {
    bool marked;
} bti_checkpoint_guard;
BT_API bti_checkpoint_guard bti_checkpoint_begin(void);
BT_API void bti_checkpoint_end(bti_checkpoint_guard *guard);

/* `BT_CHECKPOINT { h = bt_tanh(bt_matmul(h, w)); h = ...; }`: a gradient does not keep what this thread records inside,
 * but computes it again, from the values that the block reads from outside, when the backward pass gets there. That
 * takes about one more forward pass, and less memory: what is kept of a block are the values that enter it and those
 * that operations outside read. A chain of n layers in sqrt(n) blocks needs memory for about 2 sqrt(n) layers instead
 * of n.
 *
 * Results and gradients have the same bits as without the block; random numbers are drawn again from the same keys. Two kinds of gradients
 * agree to rounding, because their parts are added in another order: second-order gradients and, of a block in the body of a bt_scan, the
 * gradients of what the body reads from outside (weights): the part of each step is added at once, so that a step keeps nothing for it.
 * Works in functions (where it matters most: bt_peak_call shows the memory) and outside of them; there a result that
 * the program holds, or that is in memory already, is used as it is. Blocks nest: an inner block is computed again each
 * time the backward pass of the outer one gets there. Blocks of a function that is called inside of a block count as
 * nested in it. A block around a loop computes the loop again once, as a whole; one in the body of a loop computes each step again.
 * What bt_vmap makes of a function has its blocks; tangents of bt_jvp belong to the blocks of what they are tangents of. A gradient of a gradient keeps what the inner
 * one computes.
 * The block has no effect on work without gradients. Leaving it in any way ends it, as with BT_SCOPE. */
#define BT_CHECKPOINT BTI_BLOCK(checkpoint, bti_checkpoint_begin())

/* The result of fn(args, count, data), called once, now, in a block and a scope of its own. Arrays that fn reads other than by
 * args may be used too, and have gradients. A NULL fn or args (unless count is 0), a negative count, or an fn that returns NULL poisons the result. */
typedef bt_array *bt_checkpoint_fn(bt_array *const *args, int count, void *data);
BT_API bt_array *bt_checkpoint(bt_checkpoint_fn *fn, void *data, bt_array *const *args, int count);
#define bt_checkpoint(...) BTI_AT(bt_array *, bt_checkpoint(__VA_ARGS__))

#ifdef __cplusplus
}
#endif
#endif
