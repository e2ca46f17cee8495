/* The float32 functions of c/accurate.h, compiled for this CPU, against those of the C library in long double: within 1.5 units in the last
 * place (exp: 1.6, sigmoid: 3). Their operations are rounded alike on every device: sums, products, fma, division and square roots of IEEE 754. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <tgmath.h>
#include <cmocka.h>

#include "base/test_depth.h"

typedef float f32;
typedef double f64;
typedef int32_t i32;
typedef uint32_t u32;
#define FUNCTION static

static u32 bits_of_f32(f32 x) {
    u32 bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}
static f32 f32_of_bits(u32 bits) {
    f32 x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

#include "render/c/accurate.h"

#define MOST 1.5 /* units in the last place */

static double error_of(f32 got, long double expected) {
    int exponent;
    if ((isnan(got) && isnan((f64)expected)) || got == (f32)expected)
        return !signbit(got) == !signbit(expected) || got != 0 ? 0 : 99;
    if (isinf(got) || isnan(got) || isinf((f64)expected)) return 99;
    frexp(fmax(fabs((f64)expected), 0x1p-126), &exponent);
    return (f64)(fabsl((long double)got - expected) / ldexpl(1, exponent - 24));
}

typedef struct function {
    const char *name;
    f32 (*ours)(f32 x);
    long double (*exact)(long double x);
    f32 most;
    double units;
} function;

static long double exact_sigmoid(long double x) { return 1 / (1 + expl(-x)); }

static const function functions[] = {
    {"exp", exp_accurate, expl, INFINITY, 1.6},     {"sigmoid", sigmoid_accurate, exact_sigmoid, INFINITY, 3},
    {"tanh", tanh_accurate, tanhl, INFINITY, MOST}, {"tan", tan_accurate, tanl, INFINITY, MOST},
    {"asin", asin_accurate, asinl, 2, MOST},        {"erfc", erfc_accurate, erfcl, 9, MOST}};

static void of_one_number(void **state) {
    u32 step = test_is_long() ? 173 : 100003;
    for (size_t f = 0; f < sizeof functions / sizeof *functions; f++)
        for (u32 bits = 0; bits <= bits_of_f32(functions[f].most); bits += step)
            for (int sign = 0; sign < 2; sign++) {
                f32 x = f32_of_bits(bits | (u32)sign << 31), got = functions[f].ours(x);
                if (error_of(got, functions[f].exact(x)) > functions[f].units)
                    fail_msg("%s(%a) is %a, not %La", functions[f].name, (f64)x, (f64)got, functions[f].exact(x));
            }
}

static void check_power(f32 x, f32 y) {
    f32 got = pow_accurate(x, y);
    if (error_of(got, powl(x, y)) > MOST) fail_msg("pow(%a, %a) is %a, not %La", (f64)x, (f64)y, (f64)got, powl(x, y));
}

static void powers(void **state) {
    static const f32 special[] = {0,      1,       2,       0.5f,    3,        2.5f,     INFINITY, NAN,
                                  1e-45f, 3.4e38f, 8388608, 8388609, 16777216, 16777218, 1e10f,    33554432};
    enum { SPECIAL = sizeof special / sizeof *special };
    uint64_t random = 7;
    for (int i = 0; i < 4 * SPECIAL * SPECIAL; i++)
        check_power(i & 1 ? -special[i / 4 % SPECIAL] : special[i / 4 % SPECIAL],
                    i & 2 ? -special[i / 4 / SPECIAL] : special[i / 4 / SPECIAL]);
    for (int i = 0; i < (test_is_long() ? 5000000 : 100000); i++) {
        random = random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        f32 x = f32_of_bits((u32)(random >> 32) & 0x7fffffff), share = (f32)(random >> 8 & 0xffff) / 65536;
        if (i & 1) x = 0.5f + share * 2.5f;
        f64 log = log2((f64)x);
        check_power(x, i % 3 ? (f32)((share * 300 - 160) / (log == 0 ? 1 : log)) : share * 8 - 4);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(of_one_number), cmocka_unit_test(powers)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
