#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/alloc.h"
#include "base/error.h"
#include "ir/half.h"
#include "reference/interp.h"
#include "reference/operand.h"
#include "ir/scalar.h"
#include "support/attr.h"

/* --- operands from C arrays --------------------------------------------------------------------------------------- */

static bti_operand strided(bt_dtype dtype, void *first, int rank, const int64_t *shape, const int64_t *stride) {
    bti_operand o = {.address = (uint64_t)(uintptr_t)first, .dtype = dtype, .rank = rank};
    bti_layout dense;
    bti_layout_dense(rank, shape, &dense);
    for (int axis = 0; axis < rank; axis++) {
        o.shape[axis] = shape[axis];
        o.stride[axis] = stride ? stride[axis] : dense.stride[axis];
    }
    return o;
}

#define DIMS(...) \
    (int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), (int64_t[]) { __VA_ARGS__ }
#define DENSE(dtype, data, ...) strided(dtype, data, DIMS(__VA_ARGS__), NULL)
#define STRIDES(...) ((int64_t[]){__VA_ARGS__})
#define COUNT(array) ((int)(sizeof(array) / sizeof *(array)))

static void run(bti_op op, bti_operand out, int count, const bti_operand *inputs, int64_t attr0, int64_t attr1) {
    bti_attr attr = attr_of(op, 2, (int64_t[]){attr0, attr1});
    bti_work work = {.op = op, .input_count = count, .inputs = inputs, .output = out, .attr = &attr};
    assert_int_equal(bti_interpret(&work), BT_OK);
}
#define RUN(op, out, attr0, ...) \
    run(BTI_OP_##op, out, COUNT(((bti_operand[]){__VA_ARGS__})), (bti_operand[]){__VA_ARGS__}, attr0, 0)

#define ASSERT_ALL(type, got, ...)                                                                                  \
    do {                                                                                                            \
        const type expected_[] = {__VA_ARGS__};                                                                     \
        for (int i_ = 0; i_ < COUNT(expected_); i_++) {                                                             \
            if ((got)[i_] == expected_[i_] || ((got)[i_] != (got)[i_] && expected_[i_] != expected_[i_])) continue; \
            fail_msg("%s[%d] is %.17g instead of %.17g", #got, i_, (double)(got)[i_], (double)expected_[i_]);       \
        }                                                                                                           \
    } while (0)

/* --- sources ------------------------------------------------------------------------------------------------------ */

static int64_t bits_of(double x) { return (int64_t)bti_f64_bits(x); }

static void constants(void **state) {
    float f = 0;
    run(BTI_OP_const, strided(BT_F32, &f, 0, NULL, NULL), 0, NULL, bits_of(0.1), 0);
    assert_true(f == 0.1f);
    uint16_t h = 0;
    run(BTI_OP_const, strided(BT_F16, &h, 0, NULL, NULL), 0, NULL, bits_of(-2), 0);
    assert_int_equal(h, 0xC000);
    int8_t i = 0;
    run(BTI_OP_const, strided(BT_I8, &i, 0, NULL, NULL), 0, NULL, -5, 0);
    assert_int_equal(i, -5);
    uint64_t u = 0;
    run(BTI_OP_const, strided(BT_U64, &u, 0, NULL, NULL), 0, NULL, -1, 0);
    assert_true(u == UINT64_MAX);
    uint8_t b = 9;
    run(BTI_OP_const, strided(BT_BOOL, &b, 0, NULL, NULL), 0, NULL, 1, 0);
    assert_int_equal(b, 1);
    run(BTI_OP_size, strided(BT_F32, &f, 0, NULL, NULL), 0, NULL, 12, 0);
    assert_true(f == 12);
}

static void iota_counts(void **state) {
    int16_t whole[600];
    float real[5];
    run(BTI_OP_iota, DENSE(BT_I16, whole, 600), 0, NULL, 0, 0);
    for (int i = 0; i < 600; i++) assert_int_equal(whole[i], i);
    run(BTI_OP_iota, strided(BT_F32, real + 4, DIMS(5), STRIDES(-1)), 0, NULL, 0, 0);
    ASSERT_ALL(float, real, 4, 3, 2, 1, 0);
}

static void a_leaf_is_refused(void **state) {
    float f;
    bti_work work = {.op = BTI_OP_leaf, .output = DENSE(BT_F32, &f, 1)};
    assert_int_equal(bti_interpret(&work), BT_INTERNAL);
    int32_t i = 1;
    bti_operand in = DENSE(BT_I32, &i, 1);
    assert_int_equal(bti_interpret(&(bti_work){.op = BTI_OP_exp, .input_count = 1, .inputs = &in, .output = in}),
                     BT_INTERNAL);
}

/* --- elementwise -------------------------------------------------------------------------------------------------- */

static void strides_of_any_sign(void **state) {
    float x[] = {1, 2, 3, 4, 5, 6}, row[] = {10, 20, 30}, out[12];
    RUN(add, DENSE(BT_F32, out, 2, 3), 0, DENSE(BT_F32, x, 2, 3), strided(BT_F32, row, DIMS(2, 3), STRIDES(0, 1)));
    ASSERT_ALL(float, out, 11, 22, 33, 14, 25, 36);
    RUN(add, DENSE(BT_F32, out, 2, 3), 0, DENSE(BT_F32, x, 2, 3), strided(BT_F32, row + 2, DIMS(2, 3), STRIDES(0, -1)));
    ASSERT_ALL(float, out, 31, 22, 13, 34, 25, 16);
    RUN(sub, DENSE(BT_F32, out, 2, 3), 0, strided(BT_F32, x + 5, DIMS(2, 3), STRIDES(-3, -1)),
        strided(BT_F32, x, DIMS(2, 3), STRIDES(1, 2)));
    ASSERT_ALL(float, out, 5, 2, -1, 1, -2, -5);
    for (int i = 0; i < 12; i++) out[i] = -1;
    RUN(neg, strided(BT_F32, out + 1, DIMS(2, 3), STRIDES(6, 2)), 0, DENSE(BT_F32, x, 2, 3));
    ASSERT_ALL(float, out, -1, -1, -1, -2, -1, -3, -1, -4, -1, -5, -1, -6);
    RUN(mul, DENSE(BT_F32, x, 2, 3), 0, DENSE(BT_F32, x, 2, 3), DENSE(BT_F32, x, 2, 3)); /* in place */
    ASSERT_ALL(float, x, 1, 4, 9, 16, 25, 36);
    RUN(neg, DENSE(BT_F32, NULL, 0, 3), 0, DENSE(BT_F32, NULL, 0, 3));
}

/* Every length around the block's, so that bodies, tails and transitions are met. */
static void lengths_around_a_block(void **state) {
    enum { MOST = 2 * BTI_BLOCK + 3 };
    int32_t x[MOST], out[MOST + 1];
    for (int i = 0; i < MOST; i++) x[i] = i * 7 - 300;
    for (int n = 1; n <= MOST; n++) {
        for (int i = 0; i <= MOST; i++) out[i] = 12345;
        RUN(mul, DENSE(BT_I32, out, n), 0, DENSE(BT_I32, x, n), strided(BT_I32, x + n - 1, DIMS(n), STRIDES(-1)));
        for (int i = 0; i < n; i++) assert_int_equal(out[i], x[i] * x[n - 1 - i]);
        assert_int_equal(out[n], 12345);
    }
}

static void integers_wrap(void **state) {
    int8_t x[] = {127, -128, -128, -1, 100}, y[] = {1, -1, -128, -1, 100}, out[5];
    RUN(add, DENSE(BT_I8, out, 5), 0, DENSE(BT_I8, x, 5), DENSE(BT_I8, y, 5));
    ASSERT_ALL(int8_t, out, -128, 127, 0, -2, -56);
    RUN(mul, DENSE(BT_I8, out, 5), 0, DENSE(BT_I8, x, 5), DENSE(BT_I8, y, 5));
    ASSERT_ALL(int8_t, out, 127, -128, 0, 1, 16);
    RUN(neg, DENSE(BT_I8, out, 5), 0, DENSE(BT_I8, x, 5));
    ASSERT_ALL(int8_t, out, -127, -128, -128, 1, -100);
    RUN(abs, DENSE(BT_I8, out, 5), 0, DENSE(BT_I8, x, 5));
    ASSERT_ALL(int8_t, out, 127, -128, -128, 1, 100);
    int64_t big[] = {INT64_MIN, INT64_MAX}, by[] = {INT64_MIN, INT64_MAX}, product[2];
    RUN(mul, DENSE(BT_I64, product, 2), 0, DENSE(BT_I64, big, 2), DENSE(BT_I64, by, 2));
    ASSERT_ALL(int64_t, product, 0, 1);
    RUN(neg, DENSE(BT_I64, product, 2), 0, DENSE(BT_I64, big, 2));
    ASSERT_ALL(int64_t, product, INT64_MIN, -INT64_MAX);
}

static void integer_division_never_traps(void **state) {
    int64_t x[] = {7, -7, 7, -7, 5, INT64_MIN, INT64_MIN, 0}, y[] = {2, 2, -2, -2, 0, -1, 0, -3}, out[8];
    RUN(floor_div, DENSE(BT_I64, out, 8), 0, DENSE(BT_I64, x, 8), DENSE(BT_I64, y, 8));
    ASSERT_ALL(int64_t, out, 3, -4, -4, 3, 0, INT64_MIN, 0, 0);
    RUN(mod, DENSE(BT_I64, out, 8), 0, DENSE(BT_I64, x, 8), DENSE(BT_I64, y, 8));
    ASSERT_ALL(int64_t, out, 1, 1, -1, -1, 0, 0, 0, 0);
    uint32_t a[] = {7, UINT32_MAX, 3}, b[] = {2, 0, 5}, c[3];
    RUN(floor_div, DENSE(BT_U32, c, 3), 0, DENSE(BT_U32, a, 3), DENSE(BT_U32, b, 3));
    ASSERT_ALL(uint32_t, c, 3, 0, 0);
    RUN(mod, DENSE(BT_U32, c, 3), 0, DENSE(BT_U32, a, 3), DENSE(BT_U32, b, 3));
    ASSERT_ALL(uint32_t, c, 1, 0, 3);
}

static void shifts_past_the_width(void **state) {
    int32_t x[] = {-8, -8, -8, 9, 9, 1, -1, 1}, y[] = {1, 31, 32, 2, 40, 31, -1, 32}, out[8];
    RUN(shr, DENSE(BT_I32, out, 8), 0, DENSE(BT_I32, x, 8), DENSE(BT_I32, y, 8));
    ASSERT_ALL(int32_t, out, -4, -1, -1, 2, 0, 0, -1, 0);
    RUN(shl, DENSE(BT_I32, out, 8), 0, DENSE(BT_I32, x, 8), DENSE(BT_I32, y, 8));
    ASSERT_ALL(int32_t, out, -16, 0, 0, 36, 0, INT32_MIN, 0, 0);
    uint8_t a[] = {255, 255, 1}, b[] = {7, 8, 200}, c[3];
    RUN(shr, DENSE(BT_U8, c, 3), 0, DENSE(BT_U8, a, 3), DENSE(BT_U8, b, 3));
    ASSERT_ALL(uint8_t, c, 1, 0, 0);
    RUN(shl, DENSE(BT_U8, c, 3), 0, DENSE(BT_U8, a, 3), DENSE(BT_U8, b, 3));
    ASSERT_ALL(uint8_t, c, 128, 0, 0);
}

static void integer_powers(void **state) {
    int32_t x[] = {3, -2, 2, 0, 0, 1, -1, -1, 5}, y[] = {4, 3, 33, 0, -1, -7, -7, -8, -1}, out[9];
    RUN(pow, DENSE(BT_I32, out, 9), 0, DENSE(BT_I32, x, 9), DENSE(BT_I32, y, 9));
    ASSERT_ALL(int32_t, out, 81, -8, 0, 1, 0, 1, -1, 1, 0);
}

static void floats_divide_like_python(void **state) {
    double x[] = {7, -7, 1, -1, 0.25, -1, 1, 5}, y[] = {2, 2, 0.1, (double)INFINITY, 1, -0.5, 0, -3}, out[8];
    RUN(floor_div, DENSE(BT_F64, out, 8), 0, DENSE(BT_F64, x, 8), DENSE(BT_F64, y, 8));
    ASSERT_ALL(double, out, 3, -4, 9, -1, 0, 2, (double)INFINITY, -2);
    RUN(mod, DENSE(BT_F64, out, 8), 0, DENSE(BT_F64, x, 8), DENSE(BT_F64, y, 8));
    ASSERT_ALL(double, out, 1, 1, fmod(1, 0.1), (double)INFINITY, 0.25, 0, (double)NAN, -1);
}

static void edges_of_floats(void **state) {
    float x[] = {NAN, 1, -0.f, -3, 2}, y[] = {1, NAN, 3, -4, 2}, out[5];
    RUN(maximum, DENSE(BT_F32, out, 5), 0, DENSE(BT_F32, x, 5), DENSE(BT_F32, y, 5));
    ASSERT_ALL(float, out, NAN, NAN, 3, -3, 2);
    RUN(minimum, DENSE(BT_F32, out, 5), 0, DENSE(BT_F32, x, 5), DENSE(BT_F32, y, 5));
    ASSERT_ALL(float, out, NAN, NAN, 0, -4, 2);
    RUN(sign, DENSE(BT_F32, out, 5), 0, DENSE(BT_F32, x, 5));
    ASSERT_ALL(float, out, NAN, 1, 0, -1, 1);
    assert_true(signbit(out[2]));
    uint8_t less[5];
    RUN(lt, DENSE(BT_BOOL, less, 5), 0, DENSE(BT_F32, x, 5), DENSE(BT_F32, y, 5));
    ASSERT_ALL(uint8_t, less, 0, 0, 1, 0, 0);
    RUN(ne, DENSE(BT_BOOL, less, 5), 0, DENSE(BT_F32, x, 5), DENSE(BT_F32, x, 5));
    ASSERT_ALL(uint8_t, less, 1, 0, 0, 0, 0);
    float halves[] = {-2.5f, -1.5f, -0.5f, 0.5f, 2.5f};
    RUN(round, DENSE(BT_F32, out, 5), 0, DENSE(BT_F32, halves, 5));
    ASSERT_ALL(float, out, -2, -2, 0, 0, 2);
}

static void bools(void **state) {
    uint8_t x[] = {0, 0, 1, 1}, y[] = {0, 1, 0, 1}, out[4];
    RUN(add, DENSE(BT_BOOL, out, 4), 0, DENSE(BT_BOOL, x, 4), DENSE(BT_BOOL, y, 4));
    ASSERT_ALL(uint8_t, out, 0, 1, 1, 1);
    RUN(xor, DENSE(BT_BOOL, out, 4), 0, DENSE(BT_BOOL, x, 4), DENSE(BT_BOOL, y, 4));
    ASSERT_ALL(uint8_t, out, 0, 1, 1, 0);
    RUN(not, DENSE(BT_BOOL, out, 4), 0, DENSE(BT_BOOL, x, 4));
    ASSERT_ALL(uint8_t, out, 1, 1, 0, 0);
    RUN(shl, DENSE(BT_BOOL, out, 4), 0, DENSE(BT_BOOL, x, 4), DENSE(BT_BOOL, y, 4));
    ASSERT_ALL(uint8_t, out, 0, 0, 1, 0);
    int16_t a[] = {1, 2, 3, 4}, b[] = {-1}, chosen[4];
    RUN(where, DENSE(BT_I16, chosen, 4), 0, DENSE(BT_BOOL, y, 4), DENSE(BT_I16, a, 4),
        strided(BT_I16, b, DIMS(4), STRIDES(0)));
    ASSERT_ALL(int16_t, chosen, -1, 2, -1, 4);
}

/* --- casts -------------------------------------------------------------------------------------------------------- */

static void casts_saturate(void **state) {
    float x[] = {1e20f, -1e20f, NAN, INFINITY, -INFINITY, -2.7f, 100.9f, -0.5f};
    int32_t i32[8];
    RUN(cast, DENSE(BT_I32, i32, 8), 0, DENSE(BT_F32, x, 8));
    ASSERT_ALL(int32_t, i32, INT32_MAX, INT32_MIN, 0, INT32_MAX, INT32_MIN, -2, 100, 0);
    int64_t i64[8];
    RUN(cast, DENSE(BT_I64, i64, 8), 0, DENSE(BT_F32, x, 8));
    ASSERT_ALL(int64_t, i64, INT64_MAX, INT64_MIN, 0, INT64_MAX, INT64_MIN, -2, 100, 0);
    uint64_t u64[8];
    RUN(cast, DENSE(BT_U64, u64, 8), 0, DENSE(BT_F32, x, 8));
    ASSERT_ALL(uint64_t, u64, UINT64_MAX, 0, 0, UINT64_MAX, 0, 0, 100, 0);
    uint8_t u8[8];
    RUN(cast, DENSE(BT_U8, u8, 8), 0, DENSE(BT_F32, x, 8));
    ASSERT_ALL(uint8_t, u8, 255, 0, 0, 255, 0, 0, 100, 0);
    RUN(cast, DENSE(BT_BOOL, u8, 8), 0, DENSE(BT_F32, x, 8));
    ASSERT_ALL(uint8_t, u8, 1, 1, 1, 1, 1, 1, 1, 1);
    double edges[] = {0x1p63, -0x1p63, 0x1p63 - 1024, 2147483647.5, -2147483648.5, -2147483649, 127.9, -128.9};
    RUN(cast, DENSE(BT_I64, i64, 8), 0, DENSE(BT_F64, edges, 8));
    ASSERT_ALL(int64_t, i64, INT64_MAX, INT64_MIN, INT64_MAX - 1023, 2147483647, -2147483648, -2147483649, 127, -128);
    RUN(cast, DENSE(BT_I32, i32, 8), 0, DENSE(BT_F64, edges, 8));
    ASSERT_ALL(int32_t, i32, INT32_MAX, INT32_MIN, INT32_MAX, INT32_MAX, INT32_MIN, INT32_MIN, 127, -128);
    int8_t i8[8];
    RUN(cast, DENSE(BT_I8, i8, 8), 0, DENSE(BT_F64, edges, 8));
    ASSERT_ALL(int8_t, i8, 127, -128, 127, 127, -128, -128, 127, -128);
}

static void casts_of_integers_wrap(void **state) {
    int64_t x[] = {300, -1, INT64_MIN, 65536, 0};
    uint8_t u8[5];
    RUN(cast, DENSE(BT_U8, u8, 5), 0, DENSE(BT_I64, x, 5));
    ASSERT_ALL(uint8_t, u8, 44, 255, 0, 0, 0);
    RUN(cast, DENSE(BT_BOOL, u8, 5), 0, DENSE(BT_I64, x, 5));
    ASSERT_ALL(uint8_t, u8, 1, 1, 1, 1, 0);
    uint64_t u64[5];
    RUN(cast, DENSE(BT_U64, u64, 5), 0, DENSE(BT_I64, x, 5));
    ASSERT_ALL(uint64_t, u64, 300, UINT64_MAX, UINT64_C(1) << 63, 65536, 0);
    float f[5];
    RUN(cast, DENSE(BT_F32, f, 5), 0, DENSE(BT_U64, u64, 5));
    ASSERT_ALL(float, f, 300, 0x1p64f, 0x1p63f, 65536, 0);
}

/* Through a wider float the first would round twice, to the even neighbour below. */
static void casts_round_once(void **state) {
    int64_t x[] = {(INT64_C(1) << 60) + (INT64_C(1) << 52) + 1, -((INT64_C(1) << 60) + (INT64_C(1) << 52)), 257,
                   INT64_MAX};
    uint16_t half[4];
    RUN(cast, DENSE(BT_BF16, half, 4), 0, DENSE(BT_I64, x, 4));
    ASSERT_ALL(uint16_t, half, 0x5D81, 0xDD80, 0x4380, 0x5F00);
    RUN(cast, DENSE(BT_F16, half, 4), 0, DENSE(BT_I64, x, 4));
    ASSERT_ALL(uint16_t, half, 0x7C00, 0xFC00, 0x5C04, 0x7C00);
    double y[] = {1 + 0x1p-11 + 0x1p-40, 65519.999, 65520, 0x1p-25 + 0x1p-60};
    RUN(cast, DENSE(BT_F16, half, 4), 0, DENSE(BT_F64, y, 4));
    ASSERT_ALL(uint16_t, half, 0x3C01, 0x7BFF, 0x7C00, 1);
    float z[4];
    RUN(cast, strided(BT_F32, z + 3, DIMS(4), STRIDES(-1)), 0, DENSE(BT_F16, half, 4));
    ASSERT_ALL(float, z, 0x1p-24f, INFINITY, 65504, 1 + 0x1p-10f);
    uint32_t bits[4];
    RUN(bitcast, DENSE(BT_U32, bits, 4), 0, DENSE(BT_F32, z, 4));
    assert_int_equal(bits[1], 0x7F800000);
}

/* --- random and special functions --------------------------------------------------------------------------------- */

static void threefry_known_answers(void **state) {
    uint32_t k0[] = {0, UINT32_MAX, 0x13198a2e}, k1[] = {0, UINT32_MAX, 0x03707344};
    uint32_t c0[] = {0, UINT32_MAX, 0x243f6a88}, c1[] = {0, UINT32_MAX, 0x85a308d3}, out[3];
    RUN(threefry, DENSE(BT_U32, out, 3), 0, DENSE(BT_U32, k0, 3), DENSE(BT_U32, k1, 3), DENSE(BT_U32, c0, 3),
        DENSE(BT_U32, c1, 3));
    ASSERT_ALL(uint32_t, out, 0x6b200159, 0x1cb996fc, 0xc4923a9c);
    RUN(threefry, DENSE(BT_U32, out, 3), 1, DENSE(BT_U32, k0, 3), DENSE(BT_U32, k1, 3), DENSE(BT_U32, c0, 3),
        DENSE(BT_U32, c1, 3));
    ASSERT_ALL(uint32_t, out, 0x99ba4efe, 0xbb002be7, 0x483df7a0);
}

static void erfinv_undoes_erf(void **state) {
    for (double x = -0.999; x < 1; x += 0.001) {
        double y = bti_erfinv_f64(x);
        assert_true(fabs(erf(y) - x) <= 4e-16 + 4e-16 * fabs(x));
        assert_true(fabs((double)bti_erfinv_f32((float)x) - bti_erfinv_f64((double)(float)x)) <=
                    1e-6 * fabs(y) + 1e-12);
    }
    for (double tail = 1e-3; tail > 1e-15; tail /= 3) /* 1 - x is exact there */
        assert_true(fabs(erfc(bti_erfinv_f64(1 - tail)) / (1 - (1 - tail)) - 1) < 1e-12);
    assert_true(bti_erfinv_f32(1) == INFINITY && bti_erfinv_f32(-1) == -INFINITY && isnan(bti_erfinv_f32(2)));
    assert_true(isinf(bti_erfinv_f64(-1)) && isnan(bti_erfinv_f64(-1.5)) && bti_erfinv_f64(0) == 0);
}

/* --- reductions --------------------------------------------------------------------------------------------------- */

static void reductions_over_any_axes(void **state) {
    int32_t x[24], out[24];
    for (int i = 0; i < 24; i++) x[i] = i;
    RUN(sum, DENSE(BT_I32, out, 1, 1, 1), 7, DENSE(BT_I32, x, 2, 3, 4));
    ASSERT_ALL(int32_t, out, 276);
    RUN(sum, DENSE(BT_I32, out, 2, 1, 4), 2, DENSE(BT_I32, x, 2, 3, 4));
    ASSERT_ALL(int32_t, out, 12, 15, 18, 21, 48, 51, 54, 57);
    RUN(sum, DENSE(BT_I32, out, 1, 3, 1), 5, DENSE(BT_I32, x, 2, 3, 4));
    ASSERT_ALL(int32_t, out, 60, 92, 124);
    RUN(max, DENSE(BT_I32, out, 2, 3, 1), 4, strided(BT_I32, x + 3, DIMS(2, 3, 4), STRIDES(12, 4, -1)));
    ASSERT_ALL(int32_t, out, 3, 7, 11, 15, 19, 23);
    RUN(min, DENSE(BT_I32, out, 1, 3, 4), 1, strided(BT_I32, x + 12, DIMS(2, 3, 4), STRIDES(-12, 4, 1)));
    ASSERT_ALL(int32_t, out, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11);
    RUN(sum, strided(BT_I32, out, DIMS(2, 1), STRIDES(2, 9)), 2, strided(BT_I32, x + 5, DIMS(2, 10), STRIDES(1, 0)));
    assert_true(out[0] == 50 && out[2] == 60);
    RUN(sum, DENSE(BT_I32, out, 2, 3), 0, DENSE(BT_I32, x, 2, 3)); /* no axis */
    ASSERT_ALL(int32_t, out, 0, 1, 2, 3, 4, 5);
}

static void folds_of_nothing(void **state) {
    float out[3];
    RUN(sum, DENSE(BT_F32, out, 1, 3), 1, DENSE(BT_F32, NULL, 0, 3));
    ASSERT_ALL(float, out, 0, 0, 0);
    RUN(prod, DENSE(BT_F32, out, 3, 1), 2, DENSE(BT_F32, NULL, 3, 0));
    ASSERT_ALL(float, out, 1, 1, 1);
    RUN(max, DENSE(BT_F32, out, 3, 1), 2, DENSE(BT_F32, NULL, 3, 0));
    ASSERT_ALL(float, out, -INFINITY, -INFINITY, -INFINITY);
    int8_t low[1];
    RUN(max, DENSE(BT_I8, low, 1), 1, DENSE(BT_I8, NULL, 0));
    assert_int_equal(low[0], -128);
}

static void sums_are_wide(void **state) {
    enum { N = 100000 };
    float *x = malloc(N * sizeof *x), out[1];
    uint16_t *h = malloc(N * sizeof *h), half[1];
    assert_true(x && h);
    for (int i = 0; i < N; i++) x[i] = i == 0 ? 0x1p24f : 1, h[i] = 0x2C00; /* 1/16 */
    RUN(sum, DENSE(BT_F32, out, 1), 1, DENSE(BT_F32, x, N));
    ASSERT_ALL(float, out, 0x1p24f + N);
    RUN(sum, DENSE(BT_F16, half, 1), 1, DENSE(BT_F16, h, N));
    assert_true(bti_f32_from_f16(half[0]) == 6248); /* 6250 to a step of 4, even */
    int8_t tens[30], wrapped[1];
    memset(tens, 10, sizeof tens);
    RUN(sum, DENSE(BT_I8, wrapped, 1), 1, DENSE(BT_I8, tens, 30));
    assert_int_equal(wrapped[0], 300 - 256);
    double y[] = {1e16, 1, -1e16, 1}, total[1];
    RUN(sum, DENSE(BT_F64, total, 1), 1, DENSE(BT_F64, y, 4));
    ASSERT_ALL(double, total, 2);
    free(x), free(h);
}

static void nan_wins(void **state) {
    float x[] = {1, NAN, 3, -5, 2, 9}, out[3];
    RUN(max, DENSE(BT_F32, out, 2, 1), 2, DENSE(BT_F32, x, 2, 3));
    ASSERT_ALL(float, out, NAN, 9);
    RUN(min, DENSE(BT_F32, out, 1, 3), 1, DENSE(BT_F32, x, 2, 3));
    ASSERT_ALL(float, out, -5, NAN, 3);
}

static void running_sums(void **state) {
    int32_t x[] = {1, 2, 3, 4, 5, 6}, out[6];
    RUN(cumsum, DENSE(BT_I32, out, 2, 3), 1, DENSE(BT_I32, x, 2, 3));
    ASSERT_ALL(int32_t, out, 1, 3, 6, 4, 9, 15);
    run(BTI_OP_cumsum, DENSE(BT_I32, out, 2, 3), 1, (bti_operand[]){DENSE(BT_I32, x, 2, 3)}, 0, 1);
    ASSERT_ALL(int32_t, out, 5, 7, 9, 4, 5, 6);
    RUN(cumprod, DENSE(BT_I32, out, 2, 3), 1, DENSE(BT_I32, x, 2, 3));
    ASSERT_ALL(int32_t, out, 1, 2, 6, 4, 20, 120);
    float seen[] = {2, 3, NAN, 1}, most[4];
    RUN(cummax, DENSE(BT_F32, most, 4), 0, DENSE(BT_F32, seen, 4));
    ASSERT_ALL(float, most, 2, 3, NAN, NAN);
    run(BTI_OP_cummin, DENSE(BT_F32, most, 4), 1, (bti_operand[]){DENSE(BT_F32, seen, 4)}, 0, 1);
    ASSERT_ALL(float, most, NAN, NAN, NAN, 1);
    float ones[1000], sums[1000];
    for (int i = 0; i < 1000; i++) ones[i] = 1;
    RUN(cumsum, DENSE(BT_F32, sums, 1000), 0, DENSE(BT_F32, ones, 1000));
    for (int i = 0; i < 1000; i++) assert_true(sums[i] == (float)(i + 1));
    RUN(cumsum, DENSE(BT_F32, NULL, 0), 0, DENSE(BT_F32, NULL, 0));
}

/* --- movement and gathering --------------------------------------------------------------------------------------- */

static void movement_copies_views(void **state) {
    int16_t x[] = {0, 1, 2, 3, 4, 5}, out[12];
    RUN(permute, DENSE(BT_I16, out, 3, 2), 0, strided(BT_I16, x, DIMS(3, 2), STRIDES(1, 3)));
    ASSERT_ALL(int16_t, out, 0, 3, 1, 4, 2, 5);
    RUN(reshape, DENSE(BT_I16, out, 2, 3), 0, strided(BT_I16, x, DIMS(3, 2), STRIDES(1, 3)));
    ASSERT_ALL(int16_t, out, 0, 3, 1, 4, 2, 5);
    RUN(reshape, strided(BT_I16, out + 5, DIMS(6), STRIDES(-1)), 0, strided(BT_I16, x, DIMS(3, 2), STRIDES(1, 3)));
    ASSERT_ALL(int16_t, out, 5, 2, 4, 1, 3, 0);
    RUN(expand, DENSE(BT_I16, out, 2, 2, 3), 0, strided(BT_I16, x, DIMS(2, 2, 3), STRIDES(0, 3, 1)));
    ASSERT_ALL(int16_t, out, 0, 1, 2, 3, 4, 5, 0, 1, 2, 3, 4, 5);
    RUN(copy, strided(BT_I16, out, 0, NULL, NULL), 0, DENSE(BT_I16, x + 4, 1, 1));
    ASSERT_ALL(int16_t, out, 4);
    RUN(reshape, DENSE(BT_I16, NULL, 0, 2), 0, DENSE(BT_I16, NULL, 3, 0));
}

static void padding_and_joining(void **state) {
    float x[] = {1, 2, 3, 4}, value = 9, out[12];
    run(BTI_OP_pad, DENSE(BT_F32, out, 3, 4), 2,
        (bti_operand[]){DENSE(BT_F32, x, 2, 2), strided(BT_F32, &value, 0, NULL, NULL)}, 1, 1);
    ASSERT_ALL(float, out, 9, 9, 9, 9, 9, 1, 2, 9, 9, 3, 4, 9);
    float y[] = {5, 6};
    RUN(concat, DENSE(BT_F32, out, 2, 3), 1, DENSE(BT_F32, x, 2, 2), DENSE(BT_F32, y, 2, 1));
    ASSERT_ALL(float, out, 1, 2, 5, 3, 4, 6);
    RUN(concat, DENSE(BT_F32, out, 3, 2), 0, DENSE(BT_F32, y, 1, 2), DENSE(BT_F32, NULL, 0, 2),
        strided(BT_F32, x + 2, DIMS(2, 2), STRIDES(-2, 1)));
    ASSERT_ALL(float, out, 5, 6, 3, 4, 1, 2);
}

static void taking_out_of_range(void **state) {
    float x[] = {1, 2, 3, 4, 5, 6}, out[12];
    int32_t at[] = {-1, 3, 0, -4};
    RUN(take, DENSE(BT_F32, out, 4, 2), 0, DENSE(BT_F32, x, 3, 2), DENSE(BT_I32, at, 4));
    ASSERT_ALL(float, out, 5, 6, NAN, NAN, 1, 2, NAN, NAN);
    int64_t wide[] = {1, INT64_MIN, INT64_MAX};
    RUN(take, DENSE(BT_F32, out, 3, 3), 1, DENSE(BT_F32, x, 3, 2), DENSE(BT_I64, wide, 3));
    ASSERT_ALL(float, out, 2, NAN, NAN, 4, NAN, NAN, 6, NAN, NAN);
    int16_t whole[] = {7, 8}, got[4];
    RUN(take, DENSE(BT_I16, got, 4), 0, DENSE(BT_I16, whole, 2), DENSE(BT_I32, at, 4));
    ASSERT_ALL(int16_t, got, 8, 0, 7, 0);
    uint16_t half[] = {0x3C00}, halves[4];
    RUN(take, DENSE(BT_BF16, halves, 4), 0, DENSE(BT_BF16, half, 1), DENSE(BT_I32, at, 4));
    assert_true(isnan(bti_f32_from_bf16(halves[1])) && halves[2] == 0x3C00);
}

static void scattering_drops(void **state) {
    float x[] = {0, 10, 20, 30}, z[] = {1, 2, 3, 4, 5}, out[4];
    int32_t at[] = {1, 1, 4, -1, -5};
    RUN(scatter_add, DENSE(BT_F32, out, 4), 0, DENSE(BT_F32, x, 4), DENSE(BT_I32, at, 5), DENSE(BT_F32, z, 5));
    ASSERT_ALL(float, out, 0, 13, 20, 34);
    int8_t wrap[] = {120, 0}, by[] = {10, 5, 7, 7}, sums[2];
    int64_t rows[] = {0, 1};
    RUN(scatter_add, DENSE(BT_I8, sums, 1, 2), 1, DENSE(BT_I8, wrap, 1, 2), DENSE(BT_I64, rows, 2),
        DENSE(BT_I8, by, 1, 2));
    ASSERT_ALL(int8_t, sums, -126, 5);
}

static void gathering_along_an_axis(void **state) {
    int32_t x[] = {10, 11, 12, 20, 21, 22}, order[] = {2, 0, 1, 1, -1, 9}, out[6];
    RUN(gather_axis, DENSE(BT_I32, out, 2, 3), 1, DENSE(BT_I32, x, 2, 3), DENSE(BT_I32, order, 2, 3));
    ASSERT_ALL(int32_t, out, 12, 10, 11, 21, 22, 0);
    int64_t rows[] = {1, 1, 0};
    RUN(gather_axis, DENSE(BT_I32, out, 1, 3), 0, DENSE(BT_I32, x, 2, 3), DENSE(BT_I64, rows, 1, 3));
    ASSERT_ALL(int32_t, out, 20, 21, 12);
    int32_t zero = 0, z[] = {1, 2, 3};
    RUN(scatter_axis, DENSE(BT_I32, out, 2, 3), 0, strided(BT_I32, &zero, DIMS(2, 3), STRIDES(0, 0)),
        DENSE(BT_I64, rows, 1, 3), DENSE(BT_I32, z, 1, 3));
    ASSERT_ALL(int32_t, out, 0, 0, 3, 1, 2, 0);
    int64_t often[] = {0, 1, 0, 9};
    int32_t four[] = {5, 6, 7, 8}, here[] = {6, 0}, two[2];
    RUN(scatter_set, DENSE(BT_I32, two, 2), 0, DENSE(BT_I32, here, 2), DENSE(BT_I64, often, 4), DENSE(BT_I32, four, 4));
    ASSERT_ALL(int32_t, two, 7, 6);
    RUN(scatter_min, DENSE(BT_I32, two, 2), 0, DENSE(BT_I32, here, 2), DENSE(BT_I64, often, 4), DENSE(BT_I32, four, 4));
    ASSERT_ALL(int32_t, two, 5, 0);
}

/* Both results of an order of one input. */
static bt_status run_order(bti_op op, bti_operand values, bti_operand indices, bti_operand x, int64_t axis, int64_t k) {
    bti_attr attr = attr_of(op, 2, (int64_t[]){axis, k});
    return bti_interpret(&(bti_work){.op = op,
                                     .input_count = 1,
                                     .inputs = &x,
                                     .output = values,
                                     .others = &indices,
                                     .other_count = 1,
                                     .attr = &attr});
}
#define ORDER(op, values, indices, x, k) assert_int_equal(run_order(BTI_OP_##op, values, indices, x, 0, k), BT_OK)
static const bti_operand unread = {.dtype = BT_U8, .rank = 1, .stride = {1}};

static void sorting_is_stable(void **state) {
    float x[] = {3, NAN, -0.f, 1, 0, -INFINITY, 1, NAN, INFINITY, -2}, values[10];
    int32_t at[10];
    ORDER(sort, DENSE(BT_F32, values, 10), DENSE(BT_I32, at, 10), DENSE(BT_F32, x, 10), 0);
    ASSERT_ALL(int32_t, at, 5, 9, 2, 4, 3, 6, 0, 8, 1, 7);
    for (int i = 0; i < 10; i++) assert_memory_equal(&values[i], &x[at[i]], sizeof *x);
    int64_t whole[] = {5, INT64_MIN, INT64_MAX, -1, 0, 5};
    ORDER(sort, unread, DENSE(BT_I32, at, 6), DENSE(BT_I64, whole, 6), 0);
    ASSERT_ALL(int32_t, at, 1, 3, 4, 0, 5, 2);
    uint16_t bits[] = {0xBC00, 0x3C00, 0x8000, 0x0000}; /* -1, 1, -0, 0 down the columns of [2, 2] */
    ORDER(sort, unread, DENSE(BT_I32, at, 2, 2), DENSE(BT_F16, bits, 2, 2), 0);
    ASSERT_ALL(int32_t, at, 0, 1, 1, 0);
    enum { N = 1000 };
    uint8_t many[N], ordered[N];
    int32_t order[N];
    for (int i = 0; i < N; i++) many[i] = (uint8_t)(i * 37 % 5);
    ORDER(sort, DENSE(BT_U8, ordered, N), DENSE(BT_I32, order, N), DENSE(BT_U8, many, N), 0);
    for (int i = 1; i < N; i++) {
        int a = order[i - 1], b = order[i];
        assert_true(many[a] < many[b] || (many[a] == many[b] && a < b));
        assert_int_equal(ordered[i], many[b]);
    }
}

/* Of equals the first; NaN is the greatest. */
static void the_greatest_are_selected(void **state) {
    float x[] = {3, -0.f, 1, NAN, 0, -INFINITY, 3, NAN}, values[7];
    int32_t at[7];
    ORDER(top_k, DENSE(BT_F32, values, 7), DENSE(BT_I32, at, 7), DENSE(BT_F32, x, 8), 7);
    ASSERT_ALL(int32_t, at, 3, 7, 0, 6, 2, 1, 4);
    for (int i = 0; i < 7; i++) assert_memory_equal(&values[i], &x[at[i]], sizeof *x);
    int64_t whole[] = {5, INT64_MIN, INT64_MAX, -1, 5}, greatest[2];
    ORDER(top_k, DENSE(BT_I64, greatest, 2), unread, DENSE(BT_I64, whole, 5), 2);
    ASSERT_ALL(int64_t, greatest, INT64_MAX, 5);
}

static void sorting_needs_memory(void **state) {
    float x[] = {2, 1};
    int32_t at[2];
    bti_alloc_fail_at(1, false);
    bt_status status = run_order(BTI_OP_sort, unread, DENSE(BT_I32, at, 2), DENSE(BT_F32, x, 2), 0, 0);
    bti_alloc_fail_at(0, false);
    assert_int_equal(status, BT_RESOURCE_EXHAUSTED);
}

/* --- matmul ------------------------------------------------------------------------------------------------------- */

static double at_f64(bt_dtype dtype, const void *data, int64_t i) {
    if (dtype == BT_F64) return ((const double *)data)[i];
    if (dtype == BT_F32) return (double)((const float *)data)[i];
    uint16_t half = ((const uint16_t *)data)[i];
    return (double)(dtype == BT_F16 ? bti_f32_from_f16(half) : bti_f32_from_bf16(half));
}

static void fill(bt_dtype dtype, void *data, int64_t count, unsigned seed) {
    for (int64_t i = 0; i < count; i++) {
        seed = seed * 1664525 + 1013904223;
        double x = (double)(seed >> 8) / 0x1p23 - 1;
        bti_lane_block_write(BTI_LANE_F64, &x, dtype, (char *)data + i * (int64_t)bt_dtype_size(dtype), 0, 1);
    }
}

static void check_product(bt_dtype dtype, int64_t m, int64_t k, int64_t n, double tolerance) {
    void *a = malloc((size_t)(m * k) * 8 + 8), *b = malloc((size_t)(k * n) * 8 + 8), *out = malloc((size_t)(m * n) * 8);
    assert_true(a && b && out);
    fill(dtype, a, m * k, 1), fill(dtype, b, k * n, 2);
    RUN(matmul, strided(dtype, out, DIMS(m, n), STRIDES(1, m)), 0, DENSE(dtype, a, m, k), /* all but A transposed */
        strided(dtype, b, DIMS(k, n), STRIDES(1, k)));
    for (int64_t i = 0; i < m; i++)
        for (int64_t j = 0; j < n; j++) {
            double sum = 0, size = 0;
            for (int64_t p = 0; p < k; p++) {
                double term = at_f64(dtype, a, i * k + p) * at_f64(dtype, b, p + j * k);
                sum += term, size += fabs(term);
            }
            assert_true(fabs(at_f64(dtype, out, i + j * m) - sum) <= tolerance * size);
        }
    free(a), free(b), free(out);
}

static void products_match_double(void **state) {
    const int64_t sizes[][3] = {{1, 1, 1},     {2, 3, 4},   {17, 33, 5}, {16, 32, 256},
                                {18, 70, 300}, {1, 100, 1}, {3, 0, 2}};
    for (int i = 0; i < COUNT(sizes); i++) {
        check_product(BT_F32, sizes[i][0], sizes[i][1], sizes[i][2], 1e-6);
        check_product(BT_F64, sizes[i][0], sizes[i][1], sizes[i][2], 1e-14);
        check_product(BT_F16, sizes[i][0], sizes[i][1], sizes[i][2], 0x1p-11 + 1e-6);
        check_product(BT_BF16, sizes[i][0], sizes[i][1], sizes[i][2], 0x1p-8 + 1e-6);
    }
}

static void products_in_batches(void **state) {
    int32_t a[] = {1, 2, 3, 4, 5, 6, 7, 8}, b[] = {1, 0, 0, -1}, out[8];
    RUN(matmul, DENSE(BT_I32, out, 2, 2, 2), 0, DENSE(BT_I32, a, 2, 2, 2),
        strided(BT_I32, b, DIMS(2, 2, 2), STRIDES(0, 2, 1)));
    ASSERT_ALL(int32_t, out, 1, -2, 3, -4, 5, -6, 7, -8);
    int8_t x[] = {100, 100}, y[] = {2, 1}, product[1];
    RUN(matmul, DENSE(BT_I8, product, 1, 1), 0, DENSE(BT_I8, x, 1, 2), DENSE(BT_I8, y, 2, 1));
    assert_int_equal(product[0], 300 - 256);
    float inf[] = {0, INFINITY}, zero[] = {1, 0}, nan[1];
    RUN(matmul, DENSE(BT_F32, nan, 1, 1), 0, DENSE(BT_F32, inf, 1, 2), DENSE(BT_F32, zero, 2, 1));
    assert_true(isnan(nan[0]));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(constants),
        cmocka_unit_test(iota_counts),
        cmocka_unit_test(a_leaf_is_refused),
        cmocka_unit_test(strides_of_any_sign),
        cmocka_unit_test(lengths_around_a_block),
        cmocka_unit_test(integers_wrap),
        cmocka_unit_test(integer_division_never_traps),
        cmocka_unit_test(shifts_past_the_width),
        cmocka_unit_test(integer_powers),
        cmocka_unit_test(floats_divide_like_python),
        cmocka_unit_test(edges_of_floats),
        cmocka_unit_test(bools),
        cmocka_unit_test(casts_saturate),
        cmocka_unit_test(casts_of_integers_wrap),
        cmocka_unit_test(casts_round_once),
        cmocka_unit_test(threefry_known_answers),
        cmocka_unit_test(erfinv_undoes_erf),
        cmocka_unit_test(reductions_over_any_axes),
        cmocka_unit_test(folds_of_nothing),
        cmocka_unit_test(sums_are_wide),
        cmocka_unit_test(nan_wins),
        cmocka_unit_test(running_sums),
        cmocka_unit_test(movement_copies_views),
        cmocka_unit_test(padding_and_joining),
        cmocka_unit_test(taking_out_of_range),
        cmocka_unit_test(scattering_drops),
        cmocka_unit_test(gathering_along_an_axis),
        cmocka_unit_test(sorting_is_stable),
        cmocka_unit_test(the_greatest_are_selected),
        cmocka_unit_test(sorting_needs_memory),
        cmocka_unit_test(products_match_double),
        cmocka_unit_test(products_in_batches),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
