// env: BERTH_FLAGS=devices=sim:gpu*1,default_device=cpu
/* Linear algebra: what golden files do not have. Refusals, matrices without a result, batches that broadcast, functions, tangents, batches of bt_vmap,
 * other devices, memory that is short. */
#include <berth/complex.h>

#include <complex.h>

#include "base/alloc.h"
#include "drivers/cpu/product/lapack.h"
#include "drivers/cpu/product/openblas.h"
#include "ops/ops_test.h"

static bt_array *square(void) { return F32((2, 2), 4, 1, 2, 3); }
static bt_array *positive(void) { return F32((2, 2), 4, 2, 2, 5); }

static void expect_near(bt_array *is, bt_array *should, int line) {
    bt_array *same = bt_all(bt_lt(bt_abs(bt_sub(is, should)), bt_num(2e-5)), BT_ALL, false);
    bool near = false;
    if (bt_read(same, &near, 1) != BT_OK || !near) fail_msg("line %d: %s", line, bt_error_text());
}
#define NEAR(is, ...) \
    BT_SCOPE          \
    expect_near(is, __VA_ARGS__, __LINE__)

static void refuses(void **state) {
    BAD(cholesky, bt_cholesky(vector()), "needs two axes");
    BAD(cholesky, bt_cholesky(matrix()), "must be square");
    BAD(inv, bt_inv(matrix()), "must be square");
    BAD(det, bt_det(bt_f32(1)), "needs two axes");
    BAD(solve, bt_solve(square(), vector()), "a row for each row of a");
    BAD(solve, bt_solve(bt_ones(BT_F32, 2, 2, 2), bt_ones(BT_F32, 3, 2, 1)), "must be equal or 1");
    BAD(triangular_solve, bt_triangular_solve(square(), bt_f32(1), false, false, false), "a row for each row of a");
    BAD(lstsq, bt_lstsq(matrix(), vector()), "a row for each row of a");
    BT_SCOPE {
        bt_array *parts[3], *unknown = bt_input(BT_F32, -1, -1);
        assert_int_equal(bt_qr(vector(), parts), BT_INVALID_ARGUMENT);
        assert_int_equal(bt_peek_status(parts[1]), BT_INVALID_ARGUMENT);
        assert_int_equal(bt_eigh(matrix(), parts), BT_INVALID_ARGUMENT);
        assert_int_equal(bt_svd(unknown, parts), BT_UNIMPLEMENTED);
        assert_int_equal(bt_peek_status(parts[2]), BT_UNIMPLEMENTED);
        assert_int_equal(bt_slogdet(square(), NULL), BT_INVALID_ARGUMENT);
    }
}

static void results(void **state) {
    NEAR(bt_det(square()), bt_num(10));
    NEAR(bt_matmul(square(), bt_inv(square())), F32((2, 2), 1, 0, 0, 1));
    NEAR(bt_solve(square(), F32((2), 6, 8)), F32((2), 1, 2));
    NEAR(bt_solve(BT_ARRAY(int32_t, (2, 2), 4, 1, 2, 3), BT_ARRAY(int32_t, (2), 6, 8)), F32((2), 1, 2));
    NEAR(bt_cast(bt_cholesky(bt_cast(positive(), BT_BF16)), BT_F32), F32((2, 2), 2, 0, 1, 2));
    NEAR(bt_lstsq(F32((1, 2), 3, 4), F32((1), 5)), F32((2), 0.6F, 0.8F));
    NEAR(bt_triangular_solve(square(), F32((2, 1), 4, 5), true, false, true), F32((2, 1), -1, 5));
    NEAR(bt_det(bt_zeros(BT_F32, 3, 0, 0)), bt_ones(BT_F32, 3));
    BT_SCOPE {
        bt_array *parts[3];
        assert_int_equal(bt_slogdet(F32((2, 2), 1, 2, 2, 4), parts), BT_OK);
        NEAR(parts[0], bt_num(0));
        assert_true(bt_item(parts[1]) == -INFINITY);
        assert_int_equal(bt_svd(matrix(), parts), BT_OK);
        NEAR(bt_matmul(bt_mul(parts[0], parts[1]), parts[2]), matrix());
        assert_int_equal(bt_eigh(positive(), parts), BT_OK);
        NEAR(bt_matmul(positive(), parts[1]), bt_mul(parts[1], parts[0]));
        assert_int_equal(bt_qr(bt_transpose(matrix()), parts), BT_OK);
        NEAR(bt_matmul(parts[0], parts[1]), bt_transpose(matrix()));
    }
}

/* NaN, and the other matrices of a batch have their results. */
static void without_a_result(void **state) {
    BT_SCOPE {
        bt_array *two = bt_stack(ALL(F32((2, 2), -1, 0, 0, 1), positive()), 2, 0), *l = bt_cholesky(two), *parts[3];
        NEAR(bt_index(l, 0, 1), bt_cholesky(positive()));
        assert_true(isnan(bt_item(bt_at(l, "0, 0, 0"))));
        assert_int_equal(bt_eigh(F32((2, 2), NAN, 0, 0, 1), parts), BT_OK);
        assert_true(isnan(bt_item(bt_index(parts[0], 0, 0))));
        assert_int_equal(bt_svd(F32((1, 2), INFINITY, 1), parts), BT_OK);
        assert_true(isnan(bt_item(bt_index(parts[1], 0, 0))));
        assert_true(!isfinite(bt_item(bt_at(bt_inv(bt_zeros(BT_F32, 2, 2)), "0, 0"))));
    }
}

static bt_array *complex_matrices(uint64_t key, int64_t batch, int64_t m, int64_t n) {
    return bt_complex(bt_normal(bt_key(key), BT_F64, batch, m, n), bt_normal(bt_key(key + 1), BT_F64, batch, m, n));
}
static bt_array *adjoint_of(bt_array *x) { return bt_conj(bt_permute(x, 0, 2, 1)); }

/* Large enough for LAPACK's blocks and workspaces. */
static void of_complex_matrices(void **state) {
    static const int64_t sides[][2] = {{1, 1}, {2, 2}, {70, 70}, {150, 9}, {9, 150}};
    for (size_t i = 0; i < sizeof sides / sizeof *sides; i++)
        BT_SCOPE {
            bt_array *a = complex_matrices(i, 2, sides[i][0], sides[i][1]),
                     *b = complex_matrices(i + 50, 2, sides[i][0], 3);
            bt_array *square = bt_matmul(a, adjoint_of(a)), *parts[3];
            square = bt_add(square, bt_mul(bt_eye(sides[i][0], sides[i][0], BT_F64), 3));
            bt_array *l = bt_cholesky(square);
            NEAR(bt_matmul(l, adjoint_of(l)), square);
            NEAR(bt_matmul(square, bt_solve(square, b)), b);
            NEAR(bt_matmul(l, bt_triangular_solve(l, b, false, false, false)), b);
            NEAR(bt_matmul(bt_permute(l, 0, 2, 1), bt_triangular_solve(l, b, false, true, false)), b);
            assert_int_equal(bt_eigh(square, parts), BT_OK);
            NEAR(bt_matmul(bt_mul(parts[1], bt_expand_dims(parts[0], -2)), adjoint_of(parts[1])), square);
            assert_int_equal(bt_slogdet(square, parts), BT_OK);
            NEAR(parts[0], bt_ones(BT_C128, 2));
            NEAR(bt_mul(parts[1], 0.5), bt_sum(bt_log(bt_real(bt_diagonal(l, 0))), .axes = BT_AXES(1)));
            assert_int_equal(bt_svd(a, parts), BT_OK);
            NEAR(bt_matmul(bt_mul(parts[0], bt_expand_dims(parts[1], -2)), parts[2]), a);
            assert_int_equal(bt_qr(a, parts), BT_OK);
            NEAR(bt_matmul(parts[0], parts[1]), a);
            NEAR(bt_imag(bt_diagonal(parts[1], 0)), bt_num(0));
        }
    BT_SCOPE {
        bt_array *bad = bt_mul(bt_eye(2, 2, BT_C64), bt_num(-1)), *parts[3];
        assert_true(isnan(bt_item(bt_imag(bt_at(bt_cholesky(bad), "0, 0")))));
        bad = bt_mul(bad, bt_num(INFINITY));
        assert_int_equal(bt_svd(bad, parts), BT_OK);
        assert_int_equal(bt_dtype_of(parts[1]), BT_F32);
        assert_true(isnan(bt_item(bt_at(parts[1], "1"))));
        NEAR(bt_solve(bt_eye(2, 2, BT_F32), BT_ARRAY(float _Complex, (2), 1, I)), BT_ARRAY(float _Complex, (2), 1, I));
    }
}

static void complex_tangents(void **state) {
    BT_SCOPE {
        bt_array *a = complex_matrices(7, 1, 3, 3), *d = complex_matrices(9, 1, 3, 3), *step = bt_num(1e-5), *made[2];
        bt_array *moved = bt_add(a, bt_mul(d, step)), *back = bt_sub(a, bt_mul(d, step)), *parts[2], *after[2],
                 *before[2];
#define SLOPE(call, of_moved, of_back)                                      \
    assert_int_equal(bt_jvp(ALL(call), 1, ALL(a), ALL(d), 1, made), BT_OK); \
    expect_near(made[0], bt_div(bt_sub(of_moved, of_back), bt_mul(step, bt_num(2))), __LINE__)
        SLOPE(bt_det(a), bt_det(moved), bt_det(back));
        bt_array *by = bt_add(bt_eye(2, 2, BT_F64), 0.5);
        SLOPE(bt_det(bt_kron(a, by)), bt_det(bt_kron(moved, by)), bt_det(bt_kron(back, by)));
        SLOPE(bt_inv(a), bt_inv(moved), bt_inv(back));
        assert_int_equal(bt_slogdet(a, parts) + bt_slogdet(moved, after) + bt_slogdet(back, before), BT_OK);
        SLOPE(parts[0], after[0], before[0]);
        SLOPE(parts[1], after[1], before[1]);
        bt_array *b = complex_matrices(11, 1, 3, 2);
#define TRIANGLE(of) bt_triangular_solve(of, b, true, true, false)
        SLOPE(TRIANGLE(a), TRIANGLE(moved), TRIANGLE(back));
#define FACTOR(of) bt_cholesky(bt_add(bt_matmul(of, adjoint_of(of)), bt_eye(3, 3, BT_F64)))
        SLOPE(FACTOR(a), FACTOR(moved), FACTOR(back));
    }
}

/* Of a determinant, also where it is 0: the cofactors. */
static void slopes_of_determinants(void **state) {
    BT_SCOPE {
        bt_array *one = bt_zeros(BT_F32, 1, 1), *two = F32((2, 2), 1, 2, 2, 4);
        bt_array *three = F32((2, 3, 3), 1, 2, 3, 4, 5, 6, 7, 8, 9, 2, 0, 1, 1, 3, 0, 0, 1, 4), *tangent;
        NEAR(bt_grad1(bt_det(one), one), bt_ones(BT_F32, 1, 1));
        NEAR(bt_grad1(bt_det(two), two), F32((2, 2), 4, -2, -2, 1));
        NEAR(bt_grad1(bt_sum(bt_det(three)), three),
             F32((2, 3, 3), -3, 6, -3, 6, -12, 6, -3, 6, -3, 12, -4, 1, 1, 8, -2, -3, 1, 6));
        NEAR(bt_hessian(bt_det(two), two), F32((2, 2, 2, 2), 0, 0, 0, 1, 0, 0, -1, 0, 0, -1, 0, 0, 1, 0, 0, 0));
        assert_int_equal(bt_jvp(ALL(bt_det(two)), 1, ALL(two), ALL(F32((2, 2), 1, 0, 1, 1)), 1, &tangent), BT_OK);
        NEAR(tangent, bt_num(3));
        bt_array *z = BT_ARRAY(float _Complex, (2, 2), 1, I, I, -1); /* dL/dx + i dL/dy */
        NEAR(bt_grad1(bt_real(bt_det(z)), z), BT_ARRAY(float _Complex, (2, 2), -1, I, I, 1));
    }
}

static void factors_have_no_tangents(void **state) {
    BT_SCOPE {
        bt_array *a = positive(), *tangent[3], *parts[3];
        assert_int_equal(bt_svd(a, parts), BT_OK);
        assert_int_equal(bt_jvp(&parts[1], 1, &a, &a, 1, tangent), BT_UNIMPLEMENTED);
        assert_non_null(strstr(bt_error_text(), "bt_svd has gradients (bt_grad), but no forward-mode rule"));
        assert_int_equal(bt_eigh(a, parts), BT_OK);
        assert_int_equal(bt_block(bt_hessian(bt_sum(bt_square(parts[0])), a)), BT_UNIMPLEMENTED);
        assert_non_null(strstr(bt_error_text(), "bt_eigh has gradients"));
        bt_array *least = bt_lstsq(a, F32((2), 1, 2));
        assert_int_equal(bt_jvp(&least, 1, &a, &a, 1, tangent), BT_UNIMPLEMENTED);
        assert_non_null(strstr(bt_error_text(), "bt_qr, by which bt_lstsq is computed, has gradients"));
    }
}

/* Against differences: det, solve, cholesky of a direction. */
static void tangents(void **state) {
    BT_SCOPE {
        bt_array *a = positive(), *d = F32((2, 2), 1, 2, 2, -1), *step = bt_num(1e-3), *made[2];
        bt_array *moved = bt_add(a, bt_mul(d, step)), *back = bt_sub(a, bt_mul(d, step));
        bt_array *parts[2];
        assert_int_equal(bt_slogdet(a, parts), BT_OK);
#define DIRECTION(call, of_moved, of_back)                                  \
    assert_int_equal(bt_jvp(ALL(call), 1, ALL(a), ALL(d), 1, made), BT_OK); \
    expect_near(bt_mul(made[0], bt_num(0.01)),                              \
                bt_mul(bt_div(bt_sub(of_moved, of_back), bt_mul(step, bt_num(2))), bt_num(0.01)), __LINE__)
        DIRECTION(bt_det(a), bt_det(moved), bt_det(back));
        DIRECTION(bt_cholesky(a), bt_cholesky(moved), bt_cholesky(back));
        DIRECTION(bt_inv(a), bt_inv(moved), bt_inv(back));
        DIRECTION(parts[1], bt_log(bt_det(moved)), bt_log(bt_det(back)));
        bt_array *b = F32((2, 1), 1, 2);
        DIRECTION(bt_triangular_solve(a, b, false, true, false), bt_triangular_solve(moved, b, false, true, false),
                  bt_triangular_solve(back, b, false, true, false));
    }
}

static void in_functions_and_batches(void **state) {
    BT_SCOPE {
        bt_array *x = bt_input(BT_F32, -1, 2, 2), *made = bt_det(x);
        bt_function *function = bt_function_new(ALL(x), 1, ALL(made), 1, NULL, 0);
        bt_array *three = bt_stack(ALL(square(), positive(), square()), 3, 0);
        NEAR(bt_call1(function, &three, 1), F32((3), 10, 16, 10));
        bt_array *b = F32((3, 2), 6, 8, 1, 2, 3, 4), *each[3], *one[2] = {bt_input(BT_F32, 2, 2), bt_input(BT_F32, 2)};
        for (int i = 0; i < 3; i++) each[i] = bt_solve(bt_index(three, 0, i), bt_index(b, 0, i));
        bt_function *solves = bt_function_new(one, 2, ALL(bt_solve(one[0], one[1])), 1, NULL, 0);
        NEAR(bt_call1(bt_vmap(solves, NULL, NULL), ALL(three, b), 2), bt_stack(each, 3, 0));
        for (int i = 0; i < 3; i++) each[i] = bt_solve(square(), bt_index(b, 0, i));
        NEAR(bt_call1(bt_vmap(solves, (const int[]){BT_NOT_BATCHED, 0}, NULL), ALL(square(), b), 2),
             bt_stack(each, 3, 0));
    }
}

/* Of arrays on another device the host computes too. */
static void of_other_devices(void **state) {
    BT_SCOPE {
        bt_array *far = bt_to(square(), "GPU:0");
        NEAR(bt_to(bt_solve(far, bt_to(F32((2), 6, 8), "GPU:0")), "CPU:0"), F32((2), 1, 2));
    }
}

static void memory_is_short(void **state) {
    float a[8] = {4, 1, 2, 3}, b[4] = {1, 2}, x[8];
    bti_matrices s = {BT_F32, 1, 2, 2};
    int failed = 0;
    assert_int_equal(bti_lapack_svd(s, a, x, b, a + 4), BT_OK);
    for (int at = 1; at < 5; at++) {
        bti_alloc_fail_at((uint64_t)at, false);
        failed += bti_lapack_svd(s, a, x, b, a + 4) == BT_RESOURCE_EXHAUSTED;
        failed += bti_lapack_determinant(s, a, x) == BT_RESOURCE_EXHAUSTED;
        bti_alloc_fail_at(0, false);
    }
    assert_true(failed > 0);
}

static void without_the_library(void **state) {
    bti_openblas_use((const char *const[]){"libnone.so.0", NULL});
    BT_ON("CPU:0")
        BT_SCOPE {
            bt_array *parts[2];
            assert_int_equal(bt_block(bt_inv(square())), BT_UNIMPLEMENTED);
            assert_non_null(strstr(bt_error_text(), "install OpenBLAS"));
            assert_int_equal(bt_qr(square(), parts), BT_OK);
            assert_int_equal(bt_block(parts[0]), BT_UNIMPLEMENTED);
        }
    bti_openblas_use(NULL);
    NEAR(bt_det(square()), bt_num(10));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(refuses),
        cmocka_unit_test(results),
        cmocka_unit_test(without_a_result),
        cmocka_unit_test(of_complex_matrices),
        cmocka_unit_test(complex_tangents),
        cmocka_unit_test(tangents),
        cmocka_unit_test(slopes_of_determinants),
        cmocka_unit_test(factors_have_no_tangents),
        cmocka_unit_test(in_functions_and_batches),
        cmocka_unit_test(of_other_devices),
        cmocka_unit_test(memory_is_short),
        cmocka_unit_test(without_the_library),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
