// env: BERTH_FLAGS=devices=sim:gpu*1,default_device=cpu
/* Fourier transforms: what golden files do not have. Refusals, long and odd lines against each other, threads, unaligned memory, functions, tangents, batches, other devices,
 * many plans, memory that is short, no library. */
#include "base/alloc.h"
#include "drivers/cpu/fft/fftw.h"
#include "ops/ops_test.h"

#include <complex.h>
#include <stdlib.h>

#define C64(shape, ...) BT_ARRAY(float _Complex, shape, __VA_ARGS__)

static void expect_near(bt_array *is, bt_array *should, double room, int line) {
    bool near = false;
    bt_array *same = bt_all(bt_lt(bt_abs(bt_sub(is, should)), bt_num(room)), BT_ALL, false);
    if (bt_read(same, &near, 1) != BT_OK || !near) fail_msg("line %d: %s", line, bt_error_text());
}
#define NEAR(is, ...) \
    BT_SCOPE          \
    expect_near(is, __VA_ARGS__, 2e-5, __LINE__)

static bt_array *normal(uint64_t seed, bt_shape shape) { return bt_normal_shape(bt_key(seed), BT_F32, shape); }
static bt_array *numbers(int64_t rows, int64_t columns) {
    return bt_complex(normal(1, BT_SHAPE(rows, columns)), normal(2, BT_SHAPE(rows, columns)));
}

static void refuses(void **state) {
    BAD(fft, bt_fft(NULL), "NULL");
    BAD(fft, bt_fft(bt_f32(1)), "must have 1 axes or more");
    BAD(fft2, bt_fft2(vector()), "must have 2 axes or more");
    BAD(fft, bt_fft(vector(), .axes = BT_AXES(1)), "axis 1 of an array of 1 dimensions");
    BAD(fft, bt_fft(matrix(), .axes = BT_AXES(0, 1)), "2 axes; it transforms 1");
    BAD(fftn, bt_fftn(matrix(), .axes = BT_AXES(0, 0)), "axis 0 is given twice");
    BAD(fftn, bt_fftn(matrix(), .axes = BT_AXES()), "0 axes");
    BAD(fft, bt_fft(vector(), .sizes = {-2}), "size -2 of axis number 0 is negative");
    BAD(fft, bt_fft(vector(), .sizes = {2, 2}), "a size 2 for axis number 1");
    BAD(fft, bt_fft(vector(), .norm = (bt_fft_norm)7), "norm 7");
    BAD(rfft, bt_rfft(C64((1), 1)), "one of real numbers: bt_fft");
    BAD(fft, bt_fft(bt_zeros(BT_F32, 2, 0)), "0 points along axis 1");
    BAD(irfft, bt_irfft(C64((1), 1)), "0 points along axis 0");
    BAD(fftfreq, bt_fftfreq(0, 1, BT_F32), "n must be 1 or more");
    BAD(rfftfreq, bt_rfftfreq(4, 0, BT_F32), "spacing not 0");
    BAD(rfftfreq, bt_rfftfreq(4, 1, BT_I32), "one of floats");
    BAD(fftshift, bt_fftshift(vector(), BT_AXES(2)), "axis 2");
    BT_SCOPE {
        assert_int_equal(bt_peek_status((bt_fft)(vector(), &(bt_fft_options){.sizes = {3}})), BT_INVALID_ARGUMENT);
        assert_non_null(strstr(bt_error_text(), "use BT_FFT("));
        bt_array *unknown = bt_input(BT_F32, -1);
        assert_int_equal(bt_peek_status(bt_fft(unknown)), BT_UNIMPLEMENTED);
        assert_int_equal(bt_peek_status(bt_fftshift(unknown, BT_ALL)), BT_UNIMPLEMENTED);
    }
}

/* What a matrix of roots of 1 gives, in float64. */
static bt_array *by_definition(bt_array *z, int64_t n, double sign) {
    bt_array *place = bt_arange(0, (double)n, 1, BT_F64);
    bt_array *angles = bt_mul(bt_mod(bt_outer(place, place), bt_num((double)n)), bt_num(sign * 2 * M_PI / (double)n));
    return bt_matmul(bt_cast(z, BT_C128), bt_polar(bt_num(1), angles));
}

static void lengths(void **state) {
    const int64_t sizes[] = {1, 2, 3, 5, 8, 13, 30, 64, 101, 210, 251, 360};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        BT_SCOPE {
            int64_t n = sizes[i];
            bt_array *z = numbers(5, n), *x = bt_real(z), *wide = bt_cast(z, BT_C128);
            expect_near(bt_fft(z), by_definition(z, n, -1), 1e-4, __LINE__);
            expect_near(bt_fft(wide), by_definition(z, n, -1), 1e-10, __LINE__);
            NEAR(bt_ifft(bt_fft(z)), z);
            NEAR(bt_fft(bt_ifft(z, .norm = BT_FFT_FORWARD), .norm = BT_FFT_FORWARD), z);
            NEAR(bt_irfft(bt_rfft(x), .sizes = {n}), x);
            expect_near(bt_transpose(bt_fft(bt_transpose(z), .axes = BT_AXES(0))), bt_fft(z), 1e-4, __LINE__);
            NEAR(bt_irfft2(bt_rfft2(x, .norm = BT_FFT_ORTHO), .sizes = {5, n}, .norm = BT_FFT_ORTHO), x);
            NEAR(bt_ifftn(bt_fftn(z)), z);
        }
}

/* Lines that are cut into rows and columns, against all of their columns and rows by hand: a wave has one place. */
static void long_lines(void **state) {
    const int64_t sizes[] = {1 << 16, 72000, 65537, 200 * 331};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        BT_SCOPE {
            int64_t n = sizes[i];
            bt_array *place = bt_arange(0, (double)n, 1, BT_F64), *two[2] = {NULL, NULL};
            for (int w = 0; w < 2; w++) {
                bt_array *angle = bt_mod(bt_mul(place, bt_num(w ? 1021 : 3)), bt_num((double)n));
                two[w] = bt_polar(bt_num(1), bt_mul(angle, bt_num(2 * M_PI / (double)n)));
            }
            bt_array *made = bt_fft(bt_stack(two, 2, 0), .norm = BT_FFT_FORWARD);
            bt_array *should = bt_stack(ALL(bt_eq(place, bt_num(3)), bt_eq(place, bt_num(1021))), 2, 0);
            expect_near(made, bt_cast(should, BT_F64), 1e-14, __LINE__);
            bt_array *z = numbers(2, n);
            NEAR(bt_ifft(bt_fft(z)), z);
            NEAR(bt_ifft(bt_fft(bt_cast(z, BT_C128))), z);
        }
}

static void frequencies(void **state) {
    NEAR(bt_fftfreq(5, 0.5, BT_F32), F32((5), 0, 0.4F, 0.8F, -0.8F, -0.4F));
    NEAR(bt_fftfreq(4, 1, BT_F32), F32((4), 0, 0.25F, -0.5F, -0.25F));
    NEAR(bt_fftfreq(1, 1, BT_F32), F32((1), 0));
    NEAR(bt_rfftfreq(2, 1, BT_F32), F32((2), 0, 0.5F));
    NEAR(bt_rfftfreq(5, 1, BT_F32), F32((3), 0, 0.2F, 0.4F));
    NEAR(bt_fftshift(bt_fftfreq(5, 0.5, BT_F32), BT_ALL), F32((5), -0.8F, -0.4F, 0, 0.4F, 0.8F));
    NEAR(bt_ifftshift(bt_fftshift(matrix(), BT_ALL), BT_ALL), matrix());
}

static void dtypes(void **state) {
    BT_SCOPE {
        assert_int_equal(bt_dtype_of(bt_fft(vector())), BT_C64);
        assert_int_equal(bt_dtype_of(bt_fft(bt_cast(vector(), BT_F64))), BT_C128);
        assert_int_equal(bt_dtype_of(bt_rfft(bt_cast(vector(), BT_F16))), BT_C64);
        assert_int_equal(bt_dtype_of(bt_irfft(vector())), BT_F32);
        NEAR(bt_fft(I32((2), 1, 2)), C64((2), 3, -1));
    }
}

/* The same bits with any number of threads, and in memory that is not aligned. */
static void same_bits(void **state) {
    const bti_fft_lines all[] = {{BTI_FFT_FORWARD, BT_F32, 300, 251, 1},
                                 {BTI_FFT_BACKWARD, BT_F64, 3, 60, 77},
                                 {BTI_FFT_FORWARD, BT_F32, 1, 1 << 18, 1},
                                 {BTI_FFT_BACKWARD, BT_F64, 2, 72000, 1}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        bti_fft_lines l = all[i];
        size_t elements = (size_t)(l.outer * l.n * l.inner) * 2, size = bt_dtype_size(l.part);
        char *in = bti_alloc_aligned(64, elements * size + 64), *out[2];
        for (int o = 0; o < 2; o++) assert_non_null(out[o] = bti_alloc_aligned(64, elements * size + 64));
        for (size_t e = 0; e < elements; e++) {
            double value = (double)(e * 7919 % 1009) / 1009 - 0.5;
            if (size == 8)
                ((double *)(void *)in)[e] = value;
            else
                ((float *)(void *)in)[e] = (float)value;
        }
        assert_int_equal(bt_set_flag("threads", "1"), BT_OK);
        assert_int_equal(bti_fft_run(&l, in, out[0]), BT_OK);
        assert_int_equal(bt_set_flag("threads", "3"), BT_OK);
        assert_int_equal(bti_fft_run(&l, in, out[1]), BT_OK);
        assert_memory_equal(out[0], out[1], elements * size);
        memmove(in + 8, in, elements * size);
        assert_int_equal(bti_fft_run(&l, in + 8, out[1] + 8), BT_OK);
        assert_memory_equal(out[0], out[1] + 8, elements * size);
        assert_int_equal(bti_fft_run(&l, in + 8, in + 8),
                         BT_OK); /* in place: other plans, the same numbers but for rounding */
        bti_free(in), bti_free(out[0]), bti_free(out[1]);
    }
    assert_int_equal(bt_set_flag("threads", "0"), BT_OK);
}

/* Of |X|**2 that of Parseval's sum; and against differences. */
static bt_array *energy(bt_array *const *x, int count, void *data) {
    (void)count, (void)data;
    bt_array *half = bt_rfft(x[0], .norm = BT_FFT_ORTHO), *back = bt_irfft(bt_mul(half, half), .sizes = {6});
    return bt_sum(bt_add(bt_square(bt_abs(half)), bt_mul(bt_slice_axis(back, 1, 0, 4, 1), 0.5)), BT_ALL, false);
}

static void derivatives(void **state) {
    BT_SCOPE {
        bt_array *x = bt_cast(normal(3, BT_SHAPE(2, 7)), BT_F64);
        double worst = NAN;
        assert_int_equal(bt_check_grad(energy, NULL, &x, 1, 0, &worst), BT_OK);
        assert_true(worst < 1e-6);
        bt_array *z = numbers(2, 6), *u = numbers(2, 6), *tangent, *y = bt_fft(bt_mul(z, z));
        NEAR(bt_grad1(bt_sum(bt_square(bt_abs(bt_fft(z, .norm = BT_FFT_ORTHO)))), z), bt_mul(z, bt_num(2)));
        assert_int_equal(bt_jvp(ALL(y), 1, ALL(z), ALL(u), 1, &tangent), BT_OK);
        NEAR(tangent, bt_fft(bt_mul(bt_mul(z, u), bt_num(2))));
    }
}

static void in_functions_and_batches(void **state) {
    BT_SCOPE {
        bt_array *x = bt_input(BT_F32, -1, 8), *made = bt_irfft(bt_mul(bt_rfft(x), bt_num(2)));
        bt_function *function = bt_function_new(ALL(x), 1, ALL(made), 1, NULL, 0);
        bt_array *given = normal(4, BT_SHAPE(3, 8));
        NEAR(bt_call1(function, &given, 1), bt_mul(given, bt_num(2)));
        bt_array *line = bt_input(BT_C64, 8);
        bt_function *one = bt_function_new(ALL(line), 1, ALL(bt_fft(line)), 1, NULL, 0);
        bt_array *z = numbers(8, 3);
        NEAR(bt_call1(bt_vmap(one, (const int[]){1}, (const int[]){1}), &z, 1), bt_fft(z, .axes = BT_AXES(0)));
    }
}

static void of_other_devices(void **state) {
    BT_SCOPE {
        bt_array *z = numbers(3, 10);
        NEAR(bt_to(bt_fft(bt_to(z, "GPU:0")), "CPU:0"), bt_fft(z));
        NEAR(bt_fft(bt_zeros(BT_C64, 0, 4)), bt_zeros(BT_C64, 0, 4));
    }
}

static void many_plans(void **state) {
    for (int64_t n = 1; n < 200; n++)
        BT_SCOPE
            NEAR(bt_ifft(bt_fft(numbers(2, n))), numbers(2, n));
    assert_true(bti_fft_plans() <= 64);
}

static void memory_is_short(void **state) {
    float memory[64] = {0};
    bti_fft_lines lines = {BTI_FFT_FORWARD, BT_F32, 2, 7, 1};
    int failed = 0;
    assert_int_equal(bti_fft_run(&lines, memory + 1, memory + 31), BT_OK);
    for (int at = 1; at < 4; at++) {
        bti_alloc_fail_at((uint64_t)at, false);
        failed += bti_fft_run(&lines, memory + 1, memory + 31) == BT_RESOURCE_EXHAUSTED;
        bti_alloc_fail_at(0, false);
    }
    assert_true(failed > 0);
}

static void without_the_library(void **state) {
    bti_fft_use((const char *const[]){"libnone.so.3", NULL});
    BT_SCOPE {
        assert_int_equal(bt_block(bt_fft(vector())), BT_UNIMPLEMENTED);
        assert_non_null(strstr(bt_error_text(), "install FFTW (on Debian the package libfftw3-single3)"));
        assert_int_equal(bt_block(bt_fft(bt_cast(vector(), BT_F64))), BT_UNIMPLEMENTED);
        assert_non_null(strstr(bt_error_text(), "libfftw3-double3"));
    }
    bti_fft_use(NULL);
    NEAR(bt_fft(F32((2), 1, 2)), C64((2), 3, -1));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(refuses),          cmocka_unit_test(lengths),
        cmocka_unit_test(long_lines),       cmocka_unit_test(frequencies),
        cmocka_unit_test(dtypes),           cmocka_unit_test(same_bits),
        cmocka_unit_test(derivatives),      cmocka_unit_test(in_functions_and_batches),
        cmocka_unit_test(of_other_devices), cmocka_unit_test(many_plans),
        cmocka_unit_test(memory_is_short),  cmocka_unit_test(without_the_library),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
