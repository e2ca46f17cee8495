// env: BERTH_FLAGS=devices=sim:gpu*1,default_device=cpu
/* Complex numbers: what golden files do not have. Dtypes and their promotion, numbers as operands, refusals, corners, kernels, functions, loops, other devices. */
#include "ops/ops_test.h"

#include <complex.h>
#include <stdio.h>
#include <unistd.h>

#define C64(shape, ...) BT_ARRAY(float _Complex, shape, __VA_ARGS__)
#define C128(shape, ...) BT_ARRAY(double _Complex, shape, __VA_ARGS__)

static bt_array *numbers(void) { return C64((3), 1 + 2 * I, 3 - 1 * I, -0.5F + 0.25F * I); }

static void expect_near(bt_array *is, bt_array *should, int line) {
    bool near = false, shaped = bt_rank(is) == bt_rank(should) && bt_count(is) == bt_count(should);
    bt_array *same = bt_all(bt_lt(bt_abs(bt_sub(is, should)), bt_num(2e-5)), BT_ALL, false);
    if (!shaped || bt_read(same, &near, 1) != BT_OK || !near) fail_msg("line %d: %s", line, bt_error_text());
}
#define NEAR(is, ...) \
    BT_SCOPE          \
    expect_near(is, __VA_ARGS__, __LINE__)

static void dtypes(void **state) {
    assert_string_equal(bt_dtype_name(BT_C64), "complex64");
    assert_int_equal(bt_dtype_named("c128"), BT_C128);
    assert_int_equal(bt_dtype_size(BT_C128), 16);
    for (int d = 0; d < BT_F64; d++) assert_int_equal(bt_promote((bt_dtype)d, BT_C64), BT_C64);
    assert_int_equal(bt_promote(BT_F64, BT_C64), BT_C128);
    assert_int_equal(bt_promote(BT_C64, BT_C128), BT_C128);
    assert_int_equal(bt_promote(BT_F8E4M3, BT_C64), BT_DTYPE_COUNT);
    BT_SCOPE {
        assert_int_equal(bt_dtype_of(bt_mul(numbers(), 2.5)), BT_C64);
        assert_int_equal(bt_dtype_of(bt_mul(vector(), 1 + 2 * I)), BT_C64);
        assert_int_equal(bt_dtype_of(bt_mul(bt_cast(vector(), BT_F16), 1 + 2 * I)), BT_C64);
        assert_int_equal(bt_dtype_of(bt_mul(bt_cast(vector(), BT_F64), 1 + 2 * I)), BT_C128);
        assert_int_equal(bt_dtype_of(bt_mul(I32((1), 1), 1 + 2 * I)), BT_C128);
        assert_int_equal(bt_dtype_of(bt_complex(vector(), I32((1), 1))), BT_C64);
        assert_int_equal(bt_dtype_of(bt_complex(vector(), bt_f64(1))), BT_C128);
        assert_int_equal(bt_dtype_of(bt_abs(numbers())), BT_F32);
        NEAR(bt_mul(vector(), 1 + 2 * I), C64((3), 1 + 2 * I, 2 + 4 * I, 3 + 6 * I));
        NEAR(bt_cast(numbers(), BT_F32), F32((3), 1, 3, -0.5F));
        NEAR(bt_cast(vector(), BT_C128), C128((3), 1, 2, 3));
    }
}

static void read_and_written(void **state) {
    BT_SCOPE {
        bt_array *z = numbers();
        const float _Complex *mapped = bt_map(z), other[3] = {I, 2, 3};
        assert_true(mapped && crealf(mapped[1]) == 3 && cimagf(mapped[1]) == -1);
        assert_int_equal(bt_write(z, other, sizeof other), BT_OK);
        NEAR(bt_imag(z), F32((3), 1, 0, 0));
        char *text = bt_to_text(numbers());
        assert_string_equal(text, "[ 1. +2.j    3. -1.j   -0.5+0.25j]");
        bt_free(text);
        NEAR(bt_full(2, BT_C64, 2), C64((2), 2, 2));
        NEAR(bt_eye(2, 2, BT_C128), C128((2, 2), 1, 0, 0, 1));
        NEAR(bt_arange(0, 3, 1, BT_C64), C64((3), 0, 1, 2));
        double value;
        assert_int_equal(bt_item_at(z, SIZES(0), &value), BT_INVALID_ARGUMENT);
        assert_non_null(strstr(bt_error_text(), "read bt_real and bt_imag"));
    }
}

static void in_files(void **state) {
    char path[64];
    snprintf(path, sizeof path, "/tmp/berth-complex-%d.npy", (int)getpid());
    for (int wide = 0; wide < 2; wide++)
        BT_SCOPE {
            bt_array *z = bt_cast(numbers(), wide ? BT_C128 : BT_C64);
            assert_int_equal(bt_save_npy(path, z), BT_OK);
            assert_int_equal(bt_dtype_of(bt_load_npy(path)), bt_dtype_of(z));
            NEAR(bt_load_npy(path), z);
        }
    remove(path);
}

static void refuses(void **state) {
    const char *why = "takes no complex numbers (complex64)";
    BAD(lt, bt_lt(numbers(), 1), why);
    BAD(max, bt_max(numbers()), why);
    BAD(top_k, bt_top_k(numbers(), 1), why);
    BAD(argmax, bt_argmax(numbers(), 0), why);
    BAD(maximum, bt_maximum(numbers(), 1), why);
    BAD(floor, bt_floor(numbers()), why);
    BAD(mod, bt_mod(numbers(), 2), why);
    BAD(atan2, bt_atan2(numbers(), 2), why);
    BAD(erf, bt_erf(numbers()), why);
    BAD(clamp, bt_clamp(numbers(), 0, 1), why);
    BAD(nan_to_num, bt_nan_to_num(numbers(), 0, 0, 0), why);
    BAD(softmax, bt_softmax(numbers(), 0), why);
    BAD(cummax, bt_cummax(numbers(), 0, false), why);
    BAD(cumprod, bt_cumprod(numbers(), 1, false), "axis 1");
    BAD(cumprod, bt_cumprod(bt_input(BT_C64, -1), 0, false), "no known size");
    BAD(bit_not, bt_bit_not(numbers()), why);
    BAD(conv, bt_conv(bt_reshape(numbers(), 1, 1, 3), bt_ones(BT_F32, 1, 1, 1)), why);
    BAD(scatter_max, bt_scatter_max(numbers(), I32((1), 0), C64((1), 1), 0), why);
    BAD(quantize_scale, bt_quantize_scale(numbers(), BT_ALL, BT_I8), why);
    BAD(quantize, bt_quantize(numbers(), 1, BT_F8E4M3), why);
    BAD(dequantize, bt_dequantize(numbers(), 1), why);
    BAD(linspace, bt_linspace(0, 1, 3, BT_C64), "only floats");
    BAD(bitcast, bt_bitcast(numbers(), BT_U64), "complex numbers with none");
    BAD(complex, bt_complex(numbers(), 1), "must be real");
    BAD(polar, bt_polar(numbers(), 1), "must be real");
    BAD(complex, bt_complex(vector(), F32((2), 1, 2)), "do not broadcast");
    BAD(real, bt_real(NULL), "NULL");
    BAD(scatter_add, bt_scatter_add(vector(), I32((1), 0), C64((1), 1), 0), "");
    BT_SCOPE {
        bt_array *z = numbers(), *grads[1];
        assert_int_equal(bt_grad(bt_sum(z), &z, 1, grads), BT_INVALID_ARGUMENT);
        assert_non_null(strstr(bt_error_text(), "bt_real or bt_abs"));
    }
}

static void in_order(void **state) {
    BT_SCOPE {
        bt_array *z = C64((6), 2 + 1 * I, 1, 2 - 1 * I, NAN, 1 - 3 * I, 2 + 1 * I);
        NEAR(bt_cast(bt_argsort(z, 0), BT_F32), F32((6), 4, 1, 2, 0, 5, 3));
        NEAR(bt_slice(bt_sort(z, 0), (int64_t[]){0}, (int64_t[]){5}, NULL),
             C64((5), 1 - 3 * I, 1, 2 - 1 * I, 2 + 1 * I, 2 + 1 * I));
        NEAR(bt_unique(bt_slice_axis(z, 0, 0, 3, 1), 4), C64((4), 1, 2 - 1 * I, 2 + 1 * I, 1));
        NEAR(bt_unique(C64((4), 2 * I, 1, 2 * I, 1), 3), C64((3), 2 * I, 1, 2 * I));
        NEAR(bt_unique(BT_ARRAY(double _Complex, (3), 3, 2, 1), 3), C64((3), 1, 2, 3));
        NEAR(bt_cast(bt_searchsorted(C64((3), 1, 2, 2 + 1 * I), C64((3), 2, 2 + 2 * I, I), true), BT_F32),
             F32((3), 2, 3, 0));
        bt_array *sorted = bt_unique(C64((3), NAN, 1, NAN), 2);
        NEAR(bt_cast(bt_isnan(sorted), BT_F32), F32((2), 0, 1));
        NEAR(bt_cumprod(C64((3), I, 2, 3 * I), 0, true), C64((3), -6, 6 * I, 3 * I));
        NEAR(bt_cumprod(bt_zeros(BT_C64, 2, 0), 1, false), bt_zeros(BT_C64, 2, 0));
        bt_array *with_zero = C64((3), 0, 2, 3), *products = bt_cumprod(with_zero, 0, false);
        NEAR(bt_grad1(bt_real(bt_sum(products)), with_zero), C64((3), 9, 0, 0));
        NEAR(bt_round(C64((2), 1.5F - 0.5F * I, 2.6F * I)), C64((2), 2, 3 * I));
    }
}

/* At 0, at infinity, on cuts, far from 1. */
static void corners(void **state) {
    BT_SCOPE {
        bt_array *zero = C64((1), 0), *ones = C64((1), 1);
        NEAR(bt_abs(zero), F32((1), 0));
        NEAR(bt_sqrt(zero), zero);
        NEAR(bt_sign(zero), zero);
        NEAR(bt_pow(zero, 2.5), zero);
        NEAR(bt_pow(zero, zero), ones);
        NEAR(bt_angle(zero), F32((1), 0));
        NEAR(bt_grad1(bt_sum(bt_abs(zero)), zero), zero);
        NEAR(bt_sqrt(C64((2), -4, -4 - 1e-30F * I)), C64((2), 2 * I, -2 * I));
        NEAR(bt_log(C64((1), -1)), C64((1), 3.14159265F * I));
        NEAR(bt_angle(F32((2), 2, -2)), F32((2), 0, 3.14159265F));
        NEAR(bt_div(C64((1), 1e30F + 1e30F * I), C64((1), 1e30F + 1e30F * I)), ones);
        NEAR(bt_mul(bt_abs(C64((1), 3e30F + 4e30F * I)), bt_num(1e-30)), F32((1), 5));
        NEAR(bt_tanh(C64((1), 60 + 1 * I)), ones);
        NEAR(bt_imag(bt_exp(C64((2), 100, -100))), F32((2), 0, 0));
        NEAR(bt_cast(bt_isinf(bt_real(bt_exp(C64((2), 100, -100)))), BT_F32), F32((2), 1, 0));
        NEAR(bt_imag(bt_expm1(C64((1), 100))), F32((1), 0));
        NEAR(bt_imag(bt_sinh(C64((1), -100))), F32((1), 0));
        NEAR(bt_real(bt_sin(C64((1), 100 * I))), F32((1), 0));
        NEAR(bt_grad1(bt_sum(bt_imag(bt_exp(zero))), zero), C64((1), 1 * I));
        NEAR(bt_log1p(C64((2), 1e30F, 1e-30F)), C64((2), 69.07755279F, 1e-30F));
        NEAR(bt_grad1(bt_sum(bt_real(bt_log1p(bt_mul(ones, 4096)))), ones), C64((1), 4096 / 4097.F));
        NEAR(bt_sigmoid(C64((3), -200 + 1 * I, 200 + 1 * I, -200)), C64((3), 0, 1, 0));
        bt_array *infinite = F32((2), INFINITY, -INFINITY), *root = bt_sqrt(bt_complex(F32((2), 1, -1), infinite));
        NEAR(bt_cast(bt_eq(bt_imag(root), infinite), BT_F32), F32((2), 1, 1));
        NEAR(bt_cast(bt_isinf(C64((3), INFINITY, 1, NAN)), BT_F32), F32((3), 1, 0, 0));
        NEAR(bt_cast(bt_isnan(C64((2), NAN, 1)), BT_F32), F32((2), 1, 0));
        NEAR(bt_cast(bt_isfinite(C64((2), 1, INFINITY)), BT_F32), F32((2), 1, 0));
        assert_true(isinf(bt_item(bt_real(bt_mul(C64((1), INFINITY), 2))))); /* and no NaN beside it */
        NEAR(bt_imag(bt_mul(C64((1), INFINITY), 2)), F32((1), 0));
        assert_true(isinf(bt_item(bt_real(bt_div(ones, zero)))));
        NEAR(bt_prod(bt_zeros(BT_C64, 0)), C64((), 1));
        NEAR(bt_sum(bt_zeros(BT_C64, 0)), C64((), 0));
        NEAR(bt_pow(numbers(), -3), bt_reciprocal(bt_mul(numbers(), bt_square(numbers()))));
    }
}

/* By index, complex128 too, whose elements are moved by their parts. */
static void by_index(void **state) {
    for (int wide = 0; wide < 2; wide++)
        BT_SCOPE {
            bt_array *z = bt_cast(numbers(), wide ? BT_C128 : BT_C64);
            NEAR(bt_take(z, I32((3), 2, 0, -1), 0), C64((3), -0.5F + 0.25F * I, 1 + 2 * I, -0.5F + 0.25F * I));
            assert_true(isnan(bt_item(bt_imag(bt_take(z, I32((1), 7), 0)))));
            NEAR(bt_scatter_add(z, I32((3), 0, 0, 9), C64((3), 1, I, 5), 0),
                 C64((3), 2 + 3 * I, 3 - 1 * I, -0.5F + 0.25F * I));
            NEAR(bt_scatter_set(z, I32((1), 1), C64((1), I), 0), C64((3), 1 + 2 * I, I, -0.5F + 0.25F * I));
            NEAR(bt_take_along_axis(z, I32((2), 1, 1), 0), C64((2), 3 - 1 * I, 3 - 1 * I));
            NEAR(bt_dynamic_slice(z, I32((1), 1), BT_SHAPE(1)), C64((1), 3 - 1 * I));
            NEAR(bt_grad1(bt_sum(bt_real(bt_take(z, I32((2), 1, 1), 0))), z), C64((3), 0, 2, 0));
            NEAR(bt_roll(z, 1, 0), C64((3), -0.5F + 0.25F * I, 1 + 2 * I, 3 - 1 * I));
            NEAR(bt_flip(bt_pad(z, SIZES(1), SIZES(0), 7), BT_ALL),
                 C64((4), -0.5F + 0.25F * I, 3 - 1 * I, 1 + 2 * I, 7));
        }
}

/* The gradient of a real loss is dL/dx + i dL/dy. */
static void gradients(void **state) {
    BT_SCOPE {
        bt_array *z = numbers(), *moved = z;
        NEAR(bt_grad1(bt_sum(bt_square(bt_abs(z))), z), bt_mul(z, 2));
        NEAR(bt_grad1(bt_sum(bt_real(z)), z), C64((3), 1, 1, 1));
        NEAR(bt_grad1(bt_sum(bt_imag(z)), z), C64((3), I, I, I));
        NEAR(bt_grad1(bt_sum(bt_real(bt_mul(z, 1 + 2 * I))), z), C64((3), 1 - 2 * I, 1 - 2 * I, 1 - 2 * I));
        for (int i = 0; i < 40; i++)
            moved = bt_sub(moved, bt_mul(bt_grad1(bt_sum(bt_square(bt_abs(bt_sub(moved, 1 - 1 * I)))), moved), 0.2));
        NEAR(moved, C64((3), 1 - 1 * I, 1 - 1 * I, 1 - 1 * I));
        bt_array *tangent, *y = bt_mul(z, z), *u = C64((3), I, 1, 2);
        assert_int_equal(bt_jvp(ALL(y), 1, ALL(z), ALL(u), 1, &tangent), BT_OK);
        NEAR(tangent, bt_mul(bt_mul(z, u), 2));
    }
}

static bt_array *stored_numbers(uint64_t seed) {
    bt_array *x = bt_complex(bt_normal(bt_key(seed), BT_F32, 1000), bt_num(1));
    assert_int_equal(bt_block(x), BT_OK);
    return x;
}

/* One kernel, which reads each number once and writes each once. */
static void one_kernel(void **state) {
    BT_SCOPE {
        bt_array *x = stored_numbers(1), *y = stored_numbers(2), *made = bt_add(bt_mul(x, y), x);
        char *text = bt_explain(made);
        assert_non_null(text);
        assert_non_null(strstr(text, "1 steps"));
        assert_non_null(strstr(text, "reads 15.6 KiB and writes 7.8 KiB"));
        bt_free(text);
    }
}

static void in_functions(void **state) {
    BT_SCOPE {
        bt_array *x = bt_input(BT_C64, -1, 3), *made = bt_sum(bt_mul(x, bt_conj(x)), .axes = BT_AXES(1));
        bt_function *function = bt_function_new(ALL(x), 1, ALL(made), 1, NULL, 0);
        bt_array *two = bt_stack(ALL(numbers(), bt_mul(numbers(), I)), 2, 0);
        NEAR(bt_call1(function, &two, 1), C64((2), 15.3125F, 15.3125F));
        bt_array *one = bt_input(BT_C64, 3), *other = bt_input(BT_C64, 3);
        bt_function *product = bt_function_new(ALL(one, other), 2, ALL(bt_mul(bt_exp(one), other)), 1, NULL, 0);
        NEAR(bt_call1(bt_vmap(product, (const int[]){0, BT_NOT_BATCHED}, NULL), ALL(two, numbers()), 2),
             bt_mul(bt_exp(two), numbers()));
    }
}

static void of_other_devices(void **state) {
    BT_SCOPE {
        bt_array *far = bt_to(numbers(), "GPU:0"), *wide = bt_cast(far, BT_C128);
        NEAR(bt_to(bt_div(bt_exp(far), far), "CPU:0"), bt_div(bt_exp(numbers()), numbers()));
        NEAR(bt_to(bt_mul(wide, wide), "CPU:0"), bt_square(numbers()));
        NEAR(bt_to(bt_matmul(bt_expand_dims(far, 0), bt_expand_dims(far, 1)), "CPU:0"),
             bt_reshape(bt_sum(bt_square(numbers())), 1, 1));
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(dtypes),       cmocka_unit_test(read_and_written), cmocka_unit_test(in_files),
        cmocka_unit_test(refuses),      cmocka_unit_test(in_order),         cmocka_unit_test(corners),
        cmocka_unit_test(by_index),     cmocka_unit_test(gradients),        cmocka_unit_test(one_kernel),
        cmocka_unit_test(in_functions), cmocka_unit_test(of_other_devices),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
