// timeout: 300
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "drivers/cpu/target.h"
#include "drivers/cpu/vector/vector.h"
#include "ir/half.h"
#include "ir/scalar.h"

enum { BATCH = 256, STEP = 1777 }; /* of 2^32 bit patterns every 1777th is tried */

#define UNARY(name) \
    static double libm_##name(double x, double y) { return name(x); }
#define BINARY(name) \
    static double libm_##name(double x, double y) { return name(x, y); }
#define BTI_VECTOR_FUNCTION(name, arity) ARITY_##arity(name)
#define BTI_SCALAR_FUNCTION(...)
#define ARITY_1 UNARY
#define ARITY_2 BINARY
#include "launch/functions.def"

static const struct {
    const char *name;
    bti_op op;
    int arity;
    double (*libm)(double, double);
} rows[] = {
#define BTI_VECTOR_FUNCTION(name, arity) {#name, BTI_OP_##name, arity, libm_##name},
#define BTI_SCALAR_FUNCTION(...)
#include "launch/functions.def"
};
enum { ROWS = sizeof rows / sizeof *rows };

static const double special[] = {
    0,       -0.0,   1,     -1,     2,        -2,       3,          -3,        0.5,      -0.5,      1.5,     -1.5,
    1e-45,   -1e-45, 1e-40, -1e-40, 3.4e38,   -3.4e38,  1e30,       -1e30,     88.72,    -88.72,    89,      -89,
    -103.97, 104,    128,   -149,   16777216, 16777217, 709.78,     710,       -745.1,   0x1p-24,   0x1p-53, 0x1p-1074,
    1e300,   -1e300, 1e308, -1e308, 9,        -9,       0.99999994, 1.0000001, INFINITY, -INFINITY, NAN};
enum { SPECIAL = sizeof special / sizeof *special };

static uint64_t state;
static uint64_t random_bits(void) {
    state ^= state << 13;
    state ^= state >> 7;
    return state ^= state << 17;
}

/* A pair of inputs of a sample: all pairs of special values, then any bits, then moderate numbers, some of them whole. */
static double sample(int64_t index, bool second, bool f64) {
    if (index < SPECIAL * SPECIAL) return special[second ? index % SPECIAL : index / SPECIAL];
    uint64_t bits = random_bits();
    if (index % 2) return f64 ? bti_f64_of_bits(bits) : (double)bti_f32_of_bits((uint32_t)bits);
    double x = (double)(int64_t)bits * (index % 4 ? 0x1p-61 : 0x1p-57);
    return index % 8 < 4 && second ? rint(x) : x;
}

static bool same_class(double expected, double got) {
    if (expected != expected || got != got) return expected != expected && got != got;
    if (isinf(expected) || isinf(got)) return expected == got;
    return (expected != 0 || got != 0) ? true : signbit(expected) == signbit(got);
}

/* Against libm: exact where the result is no ordinary number, else within the tolerance; below the normal numbers within that
 * of the least of them. */
static void check(int r, double x, double y, double got, double expected, double rounded, double tolerance,
                  double least) {
    bool near = fabs(got - expected) <= tolerance * fmax(fabs(expected), least) && expected != 0;
    if (!near && !(same_class(rounded, got) && (rounded != rounded || rounded == got)))
        fail_msg("%s(%a, %a) is %a instead of %a", rows[r].name, x, y, got, rounded);
}

/* What erfinv of float32 gives carries the rounding of x * x. */
static void check_f32(int r, double x, double y, float got) {
    double wide = rows[r].op == BTI_OP_erfinv ? (double)bti_erfinv_f32((float)x) : rows[r].libm(x, y);
    check(r, x, y, got, wide, (float)wide, bti_op_info(rows[r].op)->tolerance, 0x1p-126);
}

static void check_f64(int r, double x, double y, double got) {
    double expected = rows[r].libm(x, y);
    check(r, x, y, got, expected, expected, 1e-15, 0x1p-1022);
}

static bool same_f32(float a, float b) { return bti_f32_bits(a) == bti_f32_bits(b) || (a != a && b != b); }
static bool same_f64(double a, double b) { return bti_f64_bits(a) == bti_f64_bits(b) || (a != a && b != b); }

/* All widths give what the narrowest gives, for batches of any length. */
static void run_batch(int r, bool f64, const void *x, const void *y, int count, void *out) {
    bool first = true;
    double other[BATCH];
    for (bti_target target = BTI_LLVM_SSE2; target <= BTI_LLVM_NEON; target++) {
        if (!bti_cpu_has(target)) continue;
        void *to = first ? out : (void *)other;
        bti_vector_code_of(target)->elementwise[rows[r].op][f64](count, 0, to, x, y, x, x);
        for (int i = 0; i < count && !first; i++)
            if (f64 ? !same_f64(((double *)out)[i], other[i]) : !same_f32(((float *)out)[i], ((float *)to)[i]))
                fail_msg("%s: %s differs at %a", rows[r].name, bti_target_name(target),
                         f64 ? ((const double *)x)[i] : (double)((const float *)x)[i]);
        first = false;
    }
}

static void every_width_over_all_of_float32(void **unused) {
    for (int r = 0; r < ROWS; r++) {
        float x[BATCH], out[BATCH];
        if (rows[r].arity == 2) continue;
        for (uint64_t bits = 0; bits < (uint64_t)1 << 32;) {
            int count = 1 + (int)(bits / STEP % BATCH);
            for (int i = 0; i < count; i++, bits += STEP) x[i] = bti_f32_of_bits((uint32_t)bits);
            run_batch(r, false, x, x, count, out);
            for (int i = 0; i < count; i++) check_f32(r, x[i], 0, out[i]);
        }
    }
}

static void every_width_over_samples(void **unused) {
    for (int r = 0; r < ROWS; r++) {
        state = 88172645463325252u;
        for (int64_t n = 0; n < 300000; n += BATCH) {
            float x32[BATCH], y32[BATCH], out32[BATCH];
            double x[BATCH], y[BATCH], out[BATCH];
            for (int i = 0; i < BATCH; i++) {
                x[i] = sample(n + i, false, true), y[i] = sample(n + i, true, true);
                x32[i] = (float)sample(n + i, false, false), y32[i] = (float)sample(n + i, true, false);
            }
            run_batch(r, false, x32, y32, BATCH, out32);
            run_batch(r, true, x, y, BATCH, out);
            for (int i = 0; i < BATCH; i++) {
                check_f32(r, x32[i], y32[i], out32[i]);
                check_f64(r, x[i], y[i], out[i]);
            }
        }
    }
}

static void the_table_is_full(void **unused) {
    for (bti_target target = BTI_LLVM_SSE2; target <= BTI_LLVM_NEON; target++)
        for (int f = 0; bti_cpu_has(target) && f < BTI_CALL_COUNT; f++) assert_non_null(bti_functions_of(target)[f]);
}

static void scalar_functions(void **unused) {
    const void *const *table = bti_functions_of(bti_cpu_target());
    assert_true(((float (*)(float, float))table[BTI_CALL_fmod_f32])(7.5f, 2) == 1.5f);
    assert_true(((double (*)(double, double))table[BTI_CALL_fmod_f64])(-7.5, 2) == -1.5);
    assert_true(((uint64_t(*)(uint64_t, uint64_t))table[BTI_CALL_ipow])(3, 5) == 243);
    assert_int_equal(((uint16_t(*)(double))table[BTI_CALL_f16_from_f64])(1.5), 0x3E00);
    assert_int_equal(((uint16_t(*)(float))table[BTI_CALL_f16_from_f32])(-2), 0xC000);
    assert_true(((float (*)(uint16_t))table[BTI_CALL_f32_from_f16])(0x3E00) == 1.5f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_width_over_all_of_float32),
        cmocka_unit_test(every_width_over_samples),
        cmocka_unit_test(the_table_is_full),
        cmocka_unit_test(scalar_functions),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
