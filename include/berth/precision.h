/* berth/precision.h: mixed precision.
 *
 * docs/tutorials/mixed-precision.md is the tutorial, with the class of each operation.
 */
#ifndef BERTH_PRECISION_H
#define BERTH_PRECISION_H

#include <berth/ops.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct bti_autocast_guard {
    int before;
} bti_autocast_guard;
BT_API bti_autocast_guard bti_autocast_begin(bt_dtype dtype);
BT_API void bti_autocast_end(bti_autocast_guard *guard);

/* `BT_AUTOCAST(BT_BF16) { y = bt_matmul(x, w); loss = bt_cross_entropy(y, t); }`: what this thread records inside runs in mixed precision, as by
 * PyTorch's autocast. By its class an operation takes
 *     lower    float32, float16 and bfloat16 arrays in this dtype, BT_BF16 or BT_F16; it sums in float32 and gives this dtype: bt_matmul,
 *              bt_matmul_t, bt_einsum, bt_tensordot, bt_conv, bt_conv2d, bt_conv_transposed, bt_attention; layers of bt_dense and of convolutions add their bias in it too
 *     float32  float16 and bfloat16 arrays in float32: exponentials, logarithms, powers, softmax, norms, sums, means, losses, linear algebra
 *     widest   all as they are: they are promoted as outside of blocks
 * float64 arrays and numbers without a dtype (bt_num) are not cast. Arrays outside, variables among them, keep their dtype: a variable of float32 is
 * cast where it is read (once, however many operations read it so), and its gradient is float32. Gradients, wherever they are asked for, are computed in
 * the dtypes of the operations that they are gradients of.
 *
 * Blocks nest: the innermost one decides, and BT_AUTOCAST(BT_F32) switches it off. Any other dtype poisons the operations inside that would cast
 * (INVALID_ARGUMENT). The block is of what is recorded in it: of a function, a loop or a branch, when its body is recorded. A call of a function
 * that was made outside of the block runs as it was recorded, and one made inside runs so wherever it is called. Leaving the block in any way ends
 * it, as with BT_SCOPE. */
#define BT_AUTOCAST(dtype) BTI_BLOCK(autocast, bti_autocast_begin(dtype))

/* The dtype of the thread's innermost block; BT_F32 outside of any: for layers of the program's own that keep to it. */
BT_API bt_dtype bt_autocast_dtype(void);

/* --- 8-bit storage -----------------------------------------------------------------------------------------------------
 * Floats stored as BT_F8E4M3, BT_F8E5M2, BT_I8 or BT_U8: each element is a multiple of a scale, which is a float and broadcasts (of a scalar all of x has one, of
 * [N, 1] each row). No gradient passes through stored elements; x + bt_stop_gradient(stored(x) - x) has that of x. */

/* float32, with the axes kept at size 1: the greatest |x| over the axes, divided by the greatest number of the dtype (448, 57344, 127, 255); 1 where all are 0 or there are none. */
BT_API bt_array *bt_quantize_scale(bt_array *x, bt_axes axes, bt_dtype dtype);
#define bt_quantize_scale(...) BTI_AT(bt_array *, bt_quantize_scale(__VA_ARGS__))
/* x / scale in the dtype: rounded to the nearest, halves to even, and limited to the dtype's range (bt_cast would give NaN or infinity). NaN stays NaN, of integers 0. */
BT_API bt_array *bt_quantize(bt_array *x, bt_array *scale, bt_dtype dtype);
#define bt_quantize(x, scale, dtype) BTI_AT(bt_array *, bt_quantize(x, BTI_OPERAND(scale), dtype))
/* x * scale in float32; x of any dtype: stored elements, or int32 sums of them (bt_matmul_as) with the product of both scales. */
BT_API bt_array *bt_dequantize(bt_array *x, bt_array *scale);
#define bt_dequantize(x, scale) BTI_AT(bt_array *, bt_dequantize(x, BTI_OPERAND(scale)))

#ifdef __cplusplus
}
#endif
#endif
