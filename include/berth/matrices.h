/* berth/matrices.h: products, triangles and diagonals of matrices. */
#ifndef BERTH_MATRICES_H
#define BERTH_MATRICES_H

#include <berth/ops.h>

#ifdef __cplusplus
extern "C" {
#endif

/* --- matrix products ------------------------------------------------------------------------------------------------- */

/* The matrix product [..., M, K] x [..., K, N] -> [..., M, N]; leading axes broadcast. An operand may be a vector [K], whose axis the
 * result lacks, as for NumPy's @. float16 and bfloat16 are summed in float32. */
BT_API bt_array *bt_matmul(bt_array *a, bt_array *b);
#define bt_matmul(...) BTI_AT(bt_array *, bt_matmul(__VA_ARGS__))
/* bt_matmul with products and sums in a dtype, which a and b are cast to first: bt_matmul_as(a, b, BT_I32) of int8 and uint8 (JAX's preferred_element_type, PyTorch's
 * _int_mm), whose products are exact; a sum beyond int32 wraps around. Bytes are read as bytes, not cast in memory; on the CPU, where oneDNN has them (AVX512 with
 * VNNI), and on NVIDIA GPUs (int8 with b transposed, sizes that are multiples of 4), by instructions for bytes. BT_F32 of bfloat16: not rounded at the end. */
BT_API bt_array *bt_matmul_as(bt_array *a, bt_array *b, bt_dtype dtype);
#define bt_matmul_as(...) BTI_AT(bt_array *, bt_matmul_as(__VA_ARGS__))
/* bt_matmul; transpose_a and transpose_b swap the last two axes of an operand first. */
BT_API bt_array *bt_matmul_t(bt_array *a, bt_array *b, bool transpose_a, bool transpose_b);
#define bt_matmul_t(...) BTI_AT(bt_array *, bt_matmul_t(__VA_ARGS__))
/* Einstein's sums, "bik,bkj->bij": letters stand for axes; those that the result lacks are summed over. Up to 64 operands, contracted two at a time, those first whose product
 * is smallest beside what they are. A letter twice in one operand is its diagonal (its sizes must be known). "..." stands for the axes that have
 * no letters, which broadcast (sizes that are not known are taken as equal); they come first in the result if there is no "->", before the letters that stand once, in
 * alphabetical order, and are summed over if a result with "->" lacks them. Numbers, not bool. */
BT_API bt_array *bt_einsum(const char *spec, bt_array *const *arrays, int count);
#define bt_einsum(...) BTI_AT(bt_array *, bt_einsum(__VA_ARGS__))

/* The lower triangle of the last two axes: elements [i, j] with j <= i + k; the others are 0. */
BT_API bt_array *bt_tril(bt_array *x, int64_t k);
#define bt_tril(...) BTI_AT(bt_array *, bt_tril(__VA_ARGS__))
/* The upper triangle of the last two axes: elements [i, j] with j >= i + k; the others are 0. */
BT_API bt_array *bt_triu(bt_array *x, int64_t k);
#define bt_triu(...) BTI_AT(bt_array *, bt_triu(__VA_ARGS__))
/* The diagonal k, [..., M, N] -> [..., L]: the elements [i, i + k]. */
BT_API bt_array *bt_diagonal(bt_array *x, int64_t k);
#define bt_diagonal(...) BTI_AT(bt_array *, bt_diagonal(__VA_ARGS__))
/* A matrix of its diagonal, [..., N] -> [..., N + |k|, N + |k|]: zeros, and x as the diagonal k. */
BT_API bt_array *bt_diag(bt_array *x, int64_t k);
#define bt_diag(...) BTI_AT(bt_array *, bt_diag(__VA_ARGS__))
/* The sum of the diagonal, as bt_sum's: [..., M, N] -> [...]. */
BT_API bt_array *bt_trace(bt_array *x);
#define bt_trace(...) BTI_AT(bt_array *, bt_trace(__VA_ARGS__))
/* The outer product [M, N] of all elements of a and b: a[i] * b[j]. */
BT_API bt_array *bt_outer(bt_array *a, bt_array *b);
#define bt_outer(a, b) BTI_AT(bt_array *, bt_outer(BTI_OPERAND(a), BTI_OPERAND(b)))
/* Kronecker's product: each element of a times all of b. Up to four axes; the one with fewer gets axes of size 1 in front. */
BT_API bt_array *bt_kron(bt_array *a, bt_array *b);
#define bt_kron(a, b) BTI_AT(bt_array *, bt_kron(BTI_OPERAND(a), BTI_OPERAND(b)))
/* Sums products over axes_a of a and axes_b of b, pair by pair; the result has a's other axes, then b's:
 * `bt_tensordot(a, b, BT_AXES(1, 2), BT_AXES(0, 1))`. */
BT_API bt_array *bt_tensordot(bt_array *a, bt_array *b, bt_axes axes_a, bt_axes axes_b);
#define bt_tensordot(...) BTI_AT(bt_array *, bt_tensordot(__VA_ARGS__))

#ifdef __cplusplus
}
#endif
#endif
