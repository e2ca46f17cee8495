// env: BERTH_FLAGS=devices=sim:gpu*1,default_device=cpu
/* 8-bit floats: what they refuse, what moves them, text and files; scales. Their casts are in tests/golden/mixed.safetensors. */
#include <stdlib.h>
#include <unistd.h>

#include "ir/float8.h"
#include "ops/ops_test.h"

static bt_array *numbers(void) { return F32((2, 3), 0.1F, -1.5F, 44, -0.0F, 0.0625F, 2); }
static bt_array *stored(void) { return bt_cast(numbers(), BT_F8E4M3); }

static void arithmetic_is_refused(void **state) {
    const char *storage = "8-bit floats are storage, without arithmetic; bt_cast to a wider float first",
               *meets = "bt_cast it to a wider float first";
    BAD(add, bt_add(stored(), stored()), storage);
    BAD(exp, bt_exp(stored()), storage);
    BAD(eq, bt_eq(stored(), stored()), storage);
    BAD(matmul, bt_matmul(stored(), bt_transpose(stored())), storage);
    BAD(sort, bt_sort(stored(), 0), storage);
    BAD(max, bt_max(stored(), BT_ALL, false), storage);
    BAD(cumsum, bt_cumsum(stored(), 0, false), storage);
    BAD(scatter_add, bt_scatter_add(stored(), I32((1), 0), bt_slice_axis(stored(), 0, 0, 1, 1), 0), storage);
    BAD(conv, bt_conv(bt_reshape(stored(), 1, 1, 6), bt_reshape(stored(), 1, 1, 6)), storage);
    BAD(attention, bt_attention(stored(), stored(), stored()), "floats");
    BAD(mul, bt_mul(stored(), bt_num(2)), meets);
    BAD(add, bt_add(stored(), numbers()), meets);
    BAD(where, bt_where(bt_gt(numbers(), bt_num(0)), stored(), bt_num(0)), meets);
    BAD(concat, bt_concat(ALL(stored(), numbers()), 2, 0), meets);
    BAD(concat, bt_concat(ALL(stored(), bt_cast(numbers(), BT_F8E5M2)), 2, 0), meets);
    BAD(sum, bt_sum(stored(), BT_ALL, false), meets);
    BAD(softmax, bt_softmax(stored(), 0), meets);
    BAD(mse, bt_mse(stored(), stored()), meets);
    BAD(nan_to_num, bt_nan_to_num(stored(), 0, 0, 0), meets);
    assert_int_equal(bt_promote(BT_F8E4M3, BT_F32), BT_DTYPE_COUNT);
    assert_int_equal(bt_promote(BT_F8E5M2, BT_F8E5M2), BT_F8E5M2);
}

static void expect_text(bt_array *x, const char *expected) {
    BT_TEXT text = bt_to_text(x);
    assert_non_null(text);
    assert_string_equal(text, expected);
}

static void elements_move(void **state) {
    BT_SCOPE {
        bt_array *x = stored();
        expect_text(bt_slice_axis(x, 0, 1, 2, 1), "[[-0.      0.0625  2.    ]]");
        expect_text(bt_concat(ALL(x, x), 2, 1),
                    "[[ 0.1015625 -1.5       44.         0.1015625 -1.5       44.       ]\n"
                    " [-0.         0.0625     2.        -0.         0.0625     2.       ]]");
        expect_text(bt_flip(bt_index(x, 0, 1), BT_AXES(0)), "[ 2.      0.0625 -0.    ]");
        expect_text(bt_take(bt_index(x, 0, 1), I32((2), 2, 9), 0), "[ 2. nan]");
        expect_text(bt_where(bt_gt(numbers(), bt_num(1)), x, bt_full(3, BT_F8E4M3, 2, 3)), "[[ 3.  3. 44.]\n"
                                                                                           " [ 3.  3.  2.]]");
        expect_text(bt_zeros(BT_F8E5M2, 2), "[0. 0.]");
        expect_text(bt_full(-1.7, BT_F8E4M3, 2), "[-1.75 -1.75]");
        expect_text(bt_to(x, "GPU:0"), "[[ 0.1015625 -1.5       44.       ]\n"
                                       " [-0.         0.0625     2.       ]]");
        assert_true(bt_item(bt_index(bt_index(x, 0, 1), 0, 1)) == 0.0625);
        bt_array *in = bt_input(BT_F8E4M3, -1, 3), *out = bt_cast(bt_transpose(in), BT_F32);
        bt_function *f = bt_function_new(&in, 1, &out, 1, NULL, 0), *over = bt_vmap(f, NULL, NULL);
        expect_text(bt_call1(f, &x, 1), "[[ 0.1015625 -0.       ]\n"
                                        " [-1.5        0.0625   ]\n"
                                        " [44.         2.       ]]");
        bt_array *batch = bt_stack(ALL(x, x), 2, 0);
        assert_int_equal(bt_block(bt_call1(over, &batch, 1)), BT_OK);
        bt_array *given = numbers(), *there = bt_cast(bt_cast(given, BT_F8E4M3), BT_F32);
        bt_array *through = bt_add(given, bt_stop_gradient(bt_sub(there, given)));
        expect_text(bt_grad1(bt_sum(bt_mul(there, there), BT_ALL, false), given), "[[0. 0. 0.]\n [0. 0. 0.]]");
        expect_text(bt_grad1(bt_sum(through, BT_ALL, false), given), "[[1. 1. 1.]\n [1. 1. 1.]]");
    }
}

/* By the host as by operations. */
static void numbers_of_the_host(void **state) {
    const bt_dtype dtypes[] = {BT_F8E4M3, BT_F8E5M2};
    for (int d = 0; d < 2; d++)
        BT_SCOPE {
            float values[1024];
            uint8_t made[1024];
            for (int i = 0; i < 1024; i++) values[i] = ldexpf((float)(i % 64 + 1), i / 64 * 2 - 20) * (i % 2 ? -1 : 1);
            bt_array *x = bt_cast(bt_from(values, BT_F32, BT_SHAPE(1024)), dtypes[d]);
            assert_int_equal(bt_read(x, made, sizeof made), BT_OK);
            for (int i = 0; i < 1024; i++) {
                assert_int_equal(bti_f8_from_f32(dtypes[d], values[i]), made[i]);
                float back = bti_f32_from_f8(dtypes[d], made[i]);
                assert_int_equal(isnan(back) ? made[i] | 0x80 : bti_f8_from_f32(dtypes[d], back) | 0x80,
                                 made[i] | 0x80);
            }
        }
}

static void files(void **state) {
    char path[] = "/tmp/berth-float8-XXXXXX";
    int file = mkstemp(path);
    assert_true(file >= 0);
    close(file);
    BT_SCOPE {
        const char *names[2] = {"a", "b"};
        bt_array *given[2] = {stored(), bt_cast(numbers(), BT_F8E5M2)};
        bt_tensors *read;
        assert_int_equal(bt_save(path, names, given, 2, NULL), BT_OK);
        assert_int_equal(bt_tensors_open(path, &read), BT_OK);
        expect_text(bt_tensors_get(read, "a"), "[[ 0.1015625 -1.5       44.       ]\n"
                                               " [-0.         0.0625     2.       ]]");
        assert_string_equal(bt_dtype_name(bt_dtype_of(bt_tensors_get(read, "b"))), "float8_e5m2");
        bt_tensors_close(read);
        assert_true(bt_save_npy(path, given[0]) != BT_OK);
        assert_non_null(strstr(bt_error_text(), "float8_e4m3fn"));
    }
    unlink(path);
}

static void scales(void **state) {
    BT_SCOPE {
        bt_array *x = F32((2, 4), 1, -2, 3, 4, 0, 100, -50, 25);
        bt_array *rows = bt_quantize_scale(x, BT_AXES(1), BT_I8), *all = bt_quantize_scale(x, BT_ALL, BT_F8E4M3);
        expect_text(bt_reshape(rows, 2), "[0.03149606 0.78740156]");
        expect_text(bt_quantize(x, rows, BT_I8), "[[ 32 -64  95 127]\n [  0 127 -64  32]]");
        expect_text(bt_quantize(x, bt_f32(0.25F), BT_U8), "[[  4   0  12  16]\n [  0 255   0 100]]");
        expect_text(bt_quantize(bt_mul(x, bt_num(1000)), bt_f32(1), BT_F8E4M3),
                    "[[ 448. -448.  448.  448.]\n [   0.  448. -448.  448.]]");
        bt_array *back = bt_dequantize(bt_quantize(x, all, BT_F8E4M3), all);
        assert_true(bt_item(bt_max(bt_abs(bt_sub(back, x)), BT_ALL, false)) < 2);
        assert_string_equal(bt_dtype_name(bt_dtype_of(back)), "float32");
        expect_text(bt_quantize_scale(bt_zeros(BT_F32, 3), BT_ALL, BT_I8), "[1.]");
        expect_text(bt_quantize_scale(F32((2), NAN, 1e6F), BT_ALL, BT_I8), "[nan]");
        bt_array *a = bt_quantize(x, rows, BT_I8), *sums = bt_matmul_as(a, bt_transpose(a), BT_I32);
        bt_array *product = bt_dequantize(sums, bt_mul(rows, bt_transpose(rows)));
        assert_true(bt_item(bt_max(bt_abs(bt_sub(product, bt_matmul(x, bt_transpose(x)))), BT_ALL, false)) < 60);
    }
    BAD(quantize, bt_quantize(numbers(), bt_f32(1), BT_F32), "stores BT_F8E4M3");
    BAD(quantize, bt_quantize(numbers(), I32((1), 1), BT_I8), "it must be a float");
    BAD(quantize, bt_quantize(numbers(), vector(), (bt_dtype)-1), "not invalid");
    BAD(quantize_scale, bt_quantize_scale(numbers(), BT_AXES(5), BT_I8), "axis 5");
    BAD(dequantize, bt_dequantize(numbers(), bt_zeros(BT_F32, 5)), "do not broadcast");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(arithmetic_is_refused),
        cmocka_unit_test(elements_move),
        cmocka_unit_test(numbers_of_the_host),
        cmocka_unit_test(files),
        cmocka_unit_test(scales),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
