// timeout: 600
/* Linear algebra by cuSOLVER and cuBLAS on emulated GPUs, beside the host's by LAPACK: matrices of each kind with and without a result, one by one and many by one call. */
#include <math.h>

#include "support/emulated_programs.h"

static void expect_small(bt_array *x, double most, int line) {
    double is = bt_item(bt_max(x, BT_ALL, false));
    if (!(is <= most)) fail_msg("line %d: %g: %s", line, is, bt_error_text());
}

/* Where one has NaN, the other one has; else the numbers are near. */
static void expect_alike(bt_array *here, bt_array *there, int line) {
    bt_array *moved = bt_to(there, "CPU:0");
    bt_array *off = bt_div(bt_abs(bt_sub(here, moved)), bt_mul(bt_add(bt_abs(here), bt_num(1)), bt_num(20)));
    bt_array *same = bt_logical_or(bt_logical_and(bt_ne(here, here), bt_ne(moved, moved)), bt_eq(here, moved));
    expect_small(bt_where(same, bt_num(0), off), 2e-5, line);
}
#define ALIKE(here, there) expect_alike(here, there, __LINE__)

enum {
    FEW = 4,
    MANY = 40
}; /* matrices of a batch, which a library may compute one by one, or by one call where they are small */

/* The second matrix has another diagonal, the others are positive definite. */
static bt_array *with_diagonal(bt_dtype dtype, int64_t batch, int64_t m, int64_t n, double diagonal) {
    double diagonals[MANY] = {0, diagonal};
    bt_array *x = bt_add(bt_normal(bt_key(3), BT_F64, batch, m, n), bt_mul(bt_eye(m, n, BT_F64), 5));
    if (m == n) x = bt_mul(bt_add(x, bt_permute(x, 0, 2, 1)), 0.5);
    bt_array *second = bt_from(diagonals, BT_F64, BT_SHAPE(batch, 1, 1));
    x = bt_where(bt_logical_and(bt_gt(bt_eye(m, n, BT_F64), 0), bt_ne(second, 0)), second, x);
    if (dtype != BT_C64 && dtype != BT_C128) return bt_to(bt_cast(x, dtype), "CPU:0");
    bt_array *skew = bt_mul(bt_sub(bt_triu(x, 0), bt_permute(bt_triu(x, 0), 0, 2, 1)), 0.1);
    return bt_to(bt_cast(bt_complex(x, skew), dtype), "CPU:0");
}

static bt_array *far_of(bt_array *x) { return bt_to(x, "GPU:0"); }

static bt_array *adjoint_of(bt_array *x) { return bt_conj(bt_permute(x, 0, 2, 1)); }

/* The factors' product is the matrix. */
static void factors_fit(bt_array *x) {
    bt_array *parts[3], *far = far_of(x);
    OK(bt_eigh(far, parts));
    ALIKE(x, bt_matmul(bt_mul(parts[1], bt_expand_dims(parts[0], -2)), adjoint_of(parts[1])));
    OK(bt_svd(far, parts));
    ALIKE(x, bt_matmul(bt_mul(parts[0], bt_expand_dims(parts[1], -2)), parts[2]));
    OK(bt_qr(far, parts));
    ALIKE(x, bt_matmul(parts[0], parts[1]));
}

static void parts_are_alike(bt_status (*call)(bt_array *, bt_array **), int count, bt_array *x) {
    bt_array *ours[3], *theirs[3], *far = far_of(x);
    OK(call(x, ours));
    OK(call(far, theirs));
    for (int i = 0; i < count; i++) ALIKE(bt_abs(ours[i]), bt_abs(theirs[i])); /* signs of vectors are free */
    ALIKE(x, far);
}

/* A library of the device's may compute them there. */
static void devices_are_alike(void **state) {
    begin();
    static const bt_dtype dtypes[] = {BT_F32, BT_F64, BT_C64, BT_C128};
    static const double bad[] = {2, NAN, INFINITY};
    for (int i = 0; i < 24; i++)
        for (int64_t n = 1; n < 8; n += 3)
            BT_SCOPE {
                int64_t batch = i < 12 ? FEW : MANY;
                OK(bt_set_flag("cusolver_rows", i < 12 ? "1" : "0"));
                bt_array *x = with_diagonal(dtypes[i / 3 % 4], batch, n, n, -1),
                         *broken = with_diagonal(dtypes[i / 3 % 4], batch, n, n, bad[i % 3]);
                bt_array *far = far_of(x), *far_broken = far_of(broken);
                ALIKE(bt_cholesky(x), bt_cholesky(far));
                ALIKE(bt_det(x), bt_det(far));
                ALIKE(bt_inv(x), bt_inv(far));
                bt_array *b = bt_sum(x, BT_AXES(2), true);
                ALIKE(bt_solve(x, b), bt_solve(far, far_of(b)));
                for (int how = 0; how < 8; how++) {
                    bool upper = how & 1, transposed = how & 2, unit = how & 4;
                    ALIKE(bt_triangular_solve(x, x, upper, transposed, unit),
                          bt_triangular_solve(far, far, upper, transposed, unit));
                }
                parts_are_alike(bt_slogdet, 2, x);
                parts_are_alike(bt_eigh, 2, broken);
                parts_are_alike(bt_svd, 3, broken);
                if (i % 3 < 2) ALIKE(bt_cholesky(broken), bt_cholesky(far_broken));
                if (i % 3 == 0) factors_fit(broken);
                ALIKE(x, far); /* inputs stay */
            }
    OK(bt_set_flag("cusolver_rows", "1"));
    for (int64_t m = 2; m < 6; m += 3)
        BT_SCOPE {
            bt_array *none = bt_zeros(BT_F32, 0, m, m), *no_rows = bt_zeros(BT_F32, 3, 0, 0);
            parts_are_alike(bt_svd, 3, with_diagonal(BT_F32, FEW, m, 7 - m, INFINITY));
            parts_are_alike(bt_qr, 2, with_diagonal(BT_F64, FEW, m, 7 - m, 2));
            OK(bt_block(bt_inv(far_of(none))));
            ALIKE(bt_det(no_rows), bt_det(far_of(no_rows)));
        }
}

/* Of singular matrices nothing is finite, wherever they lie. */
static void singular_matrices(void **state) {
    begin_with("cusolver_rows=1");
    BT_SCOPE {
        bt_array *singular = bt_reshape(bt_arange(0, 16, 1, BT_F32), 4, 4), *parts[2];
        singular = bt_mul(singular, bt_reshape(BT_ARRAY(float, (4), 0, 1, 0, 1), 4, 1));
        for (int i = 0; i < 2; i++) {
            bt_array *x = bt_to(singular, i ? "GPU:0" : "CPU:0");
            assert_true(bt_item(bt_det(x)) == 0);
            OK(bt_slogdet(x, parts));
            assert_true(bt_item(parts[0]) == 0 && bt_item(parts[1]) == -INFINITY);
            assert_true(!isfinite(bt_item(bt_sum(bt_inv(x), BT_ALL, false))));
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(devices_are_alike),
        cmocka_unit_test(singular_matrices),
    };
    return RUN_EMULATED(tests);
}
