/* The emulator's floating-point arithmetic: each result is the exact one, rounded once. */
#include "fakes/ptx/lanes_test.h"

/* --- rounding -------------------------------------------------------------------------------------------------------- */

static void check_float(const format *f, const ptx_instruction *n, int i) {
    int opcode = n->opcode, sources = opcode == PTX_FMA ? 3 : opcode == PTX_RCP || opcode == PTX_SQRT ? 1 : 2;
    exact x = exact_of(f, A[i]), y = exact_of(f, B[i]), z = exact_of(f, C[i]), zero = {1, 0, 0};
    double p = host_value(f, A[i]), q = host_value(f, B[i]), r = host_value(f, C[i]);
    bool finite =
        finite_bits(f, A[i]) && (sources < 2 || finite_bits(f, B[i])) && (sources < 3 || finite_bits(f, C[i]));
    double host = opcode == PTX_ADD   ? p + q
                  : opcode == PTX_SUB ? p - q
                  : opcode == PTX_MUL ? p * q
                  : opcode == PTX_FMA ? (double)((long double)p * q + r) /* of infinities and zeros */
                  : opcode == PTX_DIV ? p / q
                  : opcode == PTX_RCP ? 1 / p
                                      : sqrt(p);
    bool divides_by_zero = (opcode == PTX_DIV && q == 0) || (opcode == PTX_RCP && p == 0);
    bool ok;
    if (!finite || divides_by_zero || (opcode == PTX_SQRT && p < 0)) {
        ok = host != host ? is_canonical_nan(f, R[i])
                          : host_value(f, R[i]) == host && signbit(host) == negative_bits(f, R[i]);
    } else if (compare_result(opcode, &x, &y, &z, zero) == 0) {
        bool first = opcode == PTX_FMA ? signbit(p) != signbit(q) : signbit(p);
        bool second = opcode == PTX_FMA ? signbit(r) : opcode == PTX_SUB ? !signbit(q) : signbit(q);
        bool negative = opcode == PTX_MUL || opcode == PTX_DIV ? first != second
                        : opcode == PTX_SQRT                   ? first
                        : first == second                      ? first
                                                               : n->round == PTX_RM;
        ok = magnitude_of(f, R[i]) == 0 && negative_bits(f, R[i]) == negative;
    } else {
        ok = is_rounded(f, opcode, n->round, R[i], &x, &y, &z);
    }
    if (!ok)
        fail_msg("opcode %d type %d round %d: %llx %llx %llx (%g %g %g): %llx (%g)", opcode, n->type, n->round,
                 (unsigned long long)A[i], (unsigned long long)B[i], (unsigned long long)C[i], p, q, r,
                 (unsigned long long)R[i], host_value(f, R[i]));
}

static void floats_are_rounded_once(void **state) {
    (void)state;
    static const int opcodes[] = {PTX_ADD, PTX_SUB, PTX_MUL, PTX_FMA, PTX_DIV, PTX_RCP, PTX_SQRT};
    static const format *const formats[] = {&format_f32, &format_f64, &format_f16, &format_bf16};
    for (int f = 0; f < 4; f++)
        for (size_t o = 0; o < 7; o++)
            for (int r = 0; r < 5; r++)
                for (int round = 0; round < 60; round++) {
                    ptx_instruction n = {.opcode = (uint8_t)opcodes[o],
                                         .type = (uint8_t)formats[f]->type,
                                         .round = (uint8_t)roundings[r]};
                    if (f >= 2 && (o >= 4 || r >= 2)) continue;
                    fill_floats(formats[f]);
                    run(&n);
                    for (int i = 0; i < PTX_WARP; i++) check_float(formats[f], &n, i);
                    if (f == 3 || f == 1) continue;
                    /* .ftz and .sat are what they do to operands and results of the form without them */
                    uint64_t *sources[] = {A, B, C}, plain[PTX_WARP];
                    uint64_t sign = UINT64_C(1) << (formats[f]->bits - 1), infinity = infinity_of(formats[f]);
                    for (int s = 0; s < 3; s++)
                        for (int i = 0; i < PTX_WARP; i++)
                            if (!(sources[s][i] & infinity)) sources[s][i] &= sign;
                    run(&n);
                    memcpy(plain, R, sizeof plain);
                    n.ftz = true;
                    run(&n);
                    for (int i = 0; i < PTX_WARP; i++)
                        assert_true(R[i] == (plain[i] & infinity ? plain[i] : plain[i] & sign));
                    n.ftz = false, n.sat = true;
                    run(&n);
                    for (int i = 0; i < PTX_WARP; i++) {
                        double value = host_value(formats[f], plain[i]), want = value > 0 ? (value < 1 ? value : 1) : 0;
                        assert_true(host_value(formats[f], R[i]) == want && !(R[i] & sign));
                    }
                }
}

static void pairs_are_two_halves(void **state) {
    (void)state;
    static const int opcodes[] = {PTX_ADD, PTX_SUB, PTX_MUL, PTX_FMA, PTX_MIN, PTX_MAX, PTX_NEG, PTX_ABS};
    for (int brain = 0; brain < 2; brain++)
        for (size_t o = 0; o < 8; o++)
            for (int round = 0; round < 50; round++) {
                ptx_instruction n = {.opcode = (uint8_t)opcodes[o], .type = brain ? PTX_BF16 : PTX_F16};
                ptx_instruction pair = n;
                pair.type = brain ? PTX_BF16X2 : PTX_F16X2;
                uint64_t low[3][PTX_WARP], *sources[] = {A, B, C}, result[PTX_WARP];
                fill_floats(brain ? &format_bf16 : &format_f16);
                run(&n);
                memcpy(result, R, sizeof result);
                for (int s = 0; s < 3; s++) memcpy(low[s], sources[s], sizeof A);
                fill_floats(brain ? &format_bf16 : &format_f16);
                run(&n);
                for (int i = 0; i < PTX_WARP; i++) result[i] |= R[i] << 16;
                for (int s = 0; s < 3; s++)
                    for (int i = 0; i < PTX_WARP; i++) sources[s][i] = sources[s][i] << 16 | low[s][i];
                run(&pair);
                assert_memory_equal(R, result, sizeof R);
            }
}

static void smallest_and_largest(void **state) {
    (void)state;
    static const format *const formats[] = {&format_f32, &format_f64, &format_f16, &format_bf16};
    for (int f = 0; f < 4; f++)
        for (int k = 0; k < 8; k++)
            for (int round = 0; round < 60; round++) {
                const format *g = formats[f];
                ptx_instruction n = {
                    .opcode = k & 1 ? PTX_MIN : PTX_MAX, .type = (uint8_t)g->type, .nan = k & 2, .xorsign = k & 4};
                uint64_t sign = UINT64_C(1) << (g->bits - 1);
                if (f == 1 && k > 1) continue;
                fill_floats(g);
                run(&n);
                for (int i = 0; i < PTX_WARP; i++) {
                    uint64_t x = A[i], y = B[i], signs = (x ^ y) & sign, want;
                    if (n.xorsign) x &= ~sign, y &= ~sign;
                    bool p = nan_bits(g, x), q = nan_bits(g, y);
                    int64_t order_x = x & sign ? -(int64_t)magnitude_of(g, x) - 1 : (int64_t)x;
                    int64_t order_y = y & sign ? -(int64_t)magnitude_of(g, y) - 1 : (int64_t)y;
                    if ((p && q) || (n.nan && (p || q))) {
                        assert_true(is_canonical_nan(g, R[i]));
                        continue;
                    }
                    want = p ? y : q ? x : (order_x < order_y) == (n.opcode == PTX_MIN) ? x : y;
                    if (n.xorsign) want = magnitude_of(g, want) | signs;
                    assert_true(R[i] == want);
                }
            }
}

static void signs(void **state) {
    (void)state;
    static const format *const formats[] = {&format_f32, &format_f64, &format_f16, &format_bf16};
    for (int f = 0; f < 4; f++) {
        const format *g = formats[f];
        uint64_t sign = UINT64_C(1) << (g->bits - 1);
        fill_floats(g);
        ptx_instruction n = {.opcode = PTX_NEG, .type = (uint8_t)g->type};
        run(&n);
        for (int i = 0; i < PTX_WARP; i++) assert_true(R[i] == (A[i] ^ sign));
        n.opcode = PTX_ABS;
        run(&n);
        for (int i = 0; i < PTX_WARP; i++) assert_true(R[i] == (A[i] & ~sign));
        n.opcode = PTX_COPYSIGN;
        if (f >= 2) continue;
        run(&n);
        for (int i = 0; i < PTX_WARP; i++) assert_true(R[i] == ((A[i] & sign) | (B[i] & ~sign)));
        static const int tests[] = {PTX_FINITE, PTX_INFINITE, PTX_NUM, PTX_NAN, PTX_NORMAL, PTX_SUBNORMAL};
        for (int t = 0; t < 6; t++) {
            n = (ptx_instruction){.opcode = PTX_TESTP, .type = (uint8_t)g->type, .compare = (uint8_t)tests[t]};
            run(&n);
            for (int i = 0; i < PTX_WARP; i++) {
                int class = f ? fpclassify(ptx_f64(A[i])) : fpclassify(ptx_f32(A[i]));
                bool want[] = {
                    class != FP_NAN && class != FP_INFINITE, class == FP_INFINITE, class != FP_NAN, class == FP_NAN,
                    class == FP_NORMAL || class == FP_ZERO,  class == FP_SUBNORMAL};
                assert_true(R[i] == want[t]);
            }
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(floats_are_rounded_once),
        cmocka_unit_test(pairs_are_two_halves),
        cmocka_unit_test(smallest_and_largest),
        cmocka_unit_test(signs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
