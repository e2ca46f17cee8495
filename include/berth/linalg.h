/* berth/linalg.h: linear algebra. */
#ifndef BERTH_LINALG_H
#define BERTH_LINALG_H

#include <berth/matrices.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Matrices are the last two axes [..., M, N] of an array, the axes before them a batch; each is taken by itself. Floats (integers become floats) and complex numbers: float32, float64, complex64
 * and complex128; float16 and bfloat16 are computed in float32. The host computes them by LAPACK, which is in OpenBLAS (libopenblas0-openmp): arrays of other devices are copied to
 * it and back; without it they are UNIMPLEMENTED. On NVIDIA's GPUs cuSOLVER computes those of matrices that are not small, where it is found (flag cusolver_rows); TPUs and other devices of PJRT plugins compute Cholesky's factor and triangular systems, which StableHLO has. One matrix is one core's, so that results do not depend on the number of threads. The last two axes have known sizes. What has no result
 * (a matrix that is not positive definite, elements that are not finite) is NaN. Gradients are JAX's, those of symmetric matrices symmetric; bt_jvp, and bt_hessian and bt_hvp by it, have
 * no rule for qr, eigh, svd and lstsq, whose gradients have gradients. Of complex matrices they are those of berth/complex.h: dL/dx + i dL/dy. The adjoint a^H, the conjugate of the transpose,
 * takes the place of the transpose; eigenvalues, singular values and the logarithm of a determinant are real. */

/* Cholesky's factor: l of a = l l^H [..., N, N], a lower triangle with a positive diagonal, of the lower half of a. */
BT_API bt_array *bt_cholesky(bt_array *a);
#define bt_cholesky(...) BTI_AT(bt_array *, bt_cholesky(__VA_ARGS__))
/* The solution x of a x = b: a [..., N, N], b [..., N, M] or a vector [N], whose axis alone x has; the batches broadcast. A singular a gives inf and NaN. */
BT_API bt_array *bt_solve(bt_array *a, bt_array *b);
#define bt_solve(...) BTI_AT(bt_array *, bt_solve(__VA_ARGS__))
/* bt_solve of a triangle: the upper half of a if `upper`, else the lower one; of its transpose, which is not the adjoint, if `transposed`; with ones on its diagonal if `unit`. */
BT_API bt_array *bt_triangular_solve(bt_array *a, bt_array *b, bool upper, bool transposed, bool unit);
#define bt_triangular_solve(...) BTI_AT(bt_array *, bt_triangular_solve(__VA_ARGS__))
/* The inverse of a [..., N, N]; of a singular one inf and NaN. */
BT_API bt_array *bt_inv(bt_array *a);
#define bt_inv(...) BTI_AT(bt_array *, bt_inv(__VA_ARGS__))
/* The determinant, [..., N, N] -> [...]. The gradient at a singular matrix is NaN if N is greater than 3. */
BT_API bt_array *bt_det(bt_array *a);
#define bt_det(...) BTI_AT(bt_array *, bt_det(__VA_ARGS__))
/* The determinant's logarithm; parts: the sign of the determinant, of complex ones a number of size 1, which is 0 of a singular matrix, and the logarithm of its absolute value. An error poisons the parts. */
BT_API bt_status bt_slogdet(bt_array *a, bt_array *parts[2]);
#define bt_slogdet(...) BTI_AT_STATUS(bt_slogdet(__VA_ARGS__))
/* a = q r; parts: q [..., M, K] with orthonormal columns, r [..., K, N] an upper triangle, whose diagonal is real; K = min(M, N). Gradients for M >= N. */
BT_API bt_status bt_qr(bt_array *a, bt_array *parts[2]);
#define bt_qr(...) BTI_AT_STATUS(bt_qr(__VA_ARGS__))
/* Eigenvalues and eigenvectors of a symmetric matrix (a complex one is Hermitian), whose lower half is read; parts: eigenvalues [..., N], ascending, and eigenvectors [..., N, N] in columns, whose signs (factors of size 1) are
 * LAPACK's, or cuSOLVER's. A loss that depends on these factors has no gradient. */
BT_API bt_status bt_eigh(bt_array *a, bt_array *parts[2]);
#define bt_eigh(...) BTI_AT_STATUS(bt_eigh(__VA_ARGS__))
/* The singular value decomposition a = u diag(s) vt; parts: u [..., M, K], s [..., K], descending, vt [..., K, N], the adjoint of the right vectors; K = min(M, N). Signs as of bt_eigh. */
BT_API bt_status bt_svd(bt_array *a, bt_array *parts[3]);
#define bt_svd(...) BTI_AT_STATUS(bt_svd(__VA_ARGS__))
/* Least squares: x with the least |a x - b|, and of these the shortest: a [..., M, N] of full rank, b [..., M, L] or a vector [M]. By QR. */
BT_API bt_array *bt_lstsq(bt_array *a, bt_array *b);
#define bt_lstsq(...) BTI_AT(bt_array *, bt_lstsq(__VA_ARGS__))

#ifdef __cplusplus
}
#endif
#endif
