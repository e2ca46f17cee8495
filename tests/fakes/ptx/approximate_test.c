/* The emulator's approximate instructions, for many seeds: their documented bounds and special operands. */
#include "fakes/ptx/lanes_test.h"

/* --- approximate instructions ---------------------------------------------------------------------------------------- */

static long double exactly(int opcode, long double x, long double y) {
    switch (opcode) {
    case PTX_RCP: return 1 / x;
    case PTX_SQRT: return sqrtl(x);
    case PTX_RSQRT: return 1 / sqrtl(x);
    case PTX_SIN: return sinl(x);
    case PTX_COS: return cosl(x);
    case PTX_LG2: return log2l(x);
    case PTX_EX2: return exp2l(x);
    case PTX_TANH: return tanhl(x);
    default: return x / y;
    }
}
/* The distance between a number and the next larger one in its format. */
static long double unit_of(const format *f, long double x) {
    int exponent;
    frexpl(x, &exponent);
    exponent = exponent - 1 < f->least ? f->least : exponent - 1;
    return ldexpl(1, exponent - f->digits);
}
/* The largest error that is documented; negative: none is. */
static long double bound_of(const format *f, int opcode, int round, long double x, long double y, long double result) {
    long double pi = 3.14159265358979323846L, unit = unit_of(f, result);
    bool brain = f->type == PTX_BF16;
    if (f->bits == 16) {
        long double least = unit_of(f, 0) / 2; /* below the least normal number rounding alone */
        if (opcode == PTX_EX2) return result * (brain ? 0x1p-7L : exp2l(-9.9L)) + least;
        return (brain ? 0x1p-8L : exp2l(-10.987L)) + least;
    }
    switch (opcode) {
    case PTX_RCP: return unit;
    case PTX_SQRT: return result * 0x1p-23L;
    case PTX_RSQRT: return result * exp2l(-22.9L);
    case PTX_SIN:
    case PTX_COS: return fabsl(x) <= 2 * pi ? exp2l(-20.5L) : fabsl(x) <= 100 * pi ? exp2l(-14.7L) : -1;
    case PTX_LG2: return x > 0.5L && x < 2 ? 0x1p-22L : fabsl(result) * 0x1p-22L;
    case PTX_EX2:
        return 2 * unit_of(f, (float)result) + fabsl(result - (float)result); /* from the correctly rounded one */
    case PTX_TANH: return fabsl(result) * 0x1p-11L;
    default: return round == PTX_FULL || (fabsl(y) >= 0x1p-126L && fabsl(y) <= 0x1p126L) ? 2 * unit : -1;
    }
}

static int check_bounds(const format *f, const ptx_instruction *n) {
    int differ = 0;
    run(n);
    for (int i = 0; i < PTX_WARP; i++) {
        uint64_t p = A[i], q = B[i], sign = UINT64_C(1) << (f->bits - 1);
        if (n->ftz && !(p & infinity_of(f))) p &= sign;
        if (n->ftz && !(q & infinity_of(f))) q &= sign;
        long double x = host_value(f, p), y = host_value(f, q), got = host_value(f, R[i]),
                    want = exactly(n->opcode, x, y);
        long double bound = bound_of(f, n->opcode, n->round, x, y, fabsl(want));
        long double most = host_value(f, infinity_of(f) - 1);
        if (want != want) {
            assert_true(is_canonical_nan(f, R[i]));
        } else if (bound >= 0 && fabsl(want) <= most && want != 0 && x != 0) {
            bool flushed = n->ftz && got == 0 && fabsl(want) < ldexpl(1, f->least) + bound;
            if (!(fabsl(got - want) <= bound) && !flushed && !(isinf(got) && fabsl(want) > most - 4 * unit_of(f, most)))
                fail_msg("opcode %d type %d round %d: %Lg %Lg: %Lg, not %Lg +- %Lg", n->opcode, n->type, n->round, x, y,
                         got, want, bound);
            differ += f->type == PTX_F32 ? got != (float)want : fabsl(got - want) > 0;
        } else if (bound >= 0 && (x == 0 || x - x != 0 || (n->opcode == PTX_DIV && (y == 0 || y - y != 0)))) {
            assert_true(got == want && !signbit(got) == !signbit(want));
        }
    }
    uint64_t again[PTX_WARP];
    memcpy(again, R, sizeof R);
    run(n);
    assert_memory_equal(again, R, sizeof R);
    return differ;
}

static void approximate_results_stay_within_their_bounds(void **state) {
    (void)state;
    static const int opcodes[] = {PTX_RCP, PTX_SQRT, PTX_RSQRT, PTX_SIN, PTX_COS,
                                  PTX_LG2, PTX_EX2,  PTX_TANH,  PTX_DIV, PTX_DIV};
    static const format *const formats[] = {&format_f32, &format_f16, &format_bf16};
    for (int f = 0; f < 3; f++)
        for (int o = 0; o < 10; o++)
            for (int ftz = 0; ftz < 2; ftz++) {
                ptx_instruction n = {.opcode = (uint8_t)opcodes[o],
                                     .type = (uint8_t)formats[f]->type,
                                     .round = o == 9 ? PTX_FULL : PTX_APPROX,
                                     .ftz = ftz};
                int differ = 0;
                if (f && opcodes[o] != PTX_EX2 && opcodes[o] != PTX_TANH) continue;
                if ((opcodes[o] == PTX_TANH || f) && ftz != (f == 2 && opcodes[o] == PTX_EX2)) continue;
                for (seed = 1; seed < 150; seed++) {
                    fill_floats(formats[f]);
                    for (int i = 0; i < PTX_WARP && f == 0; i += 2)
                        A[i] = ptx_f32_bits((float)((double)(int64_t)draw() * 0x1p-63 * (double)(1 << draw() % 9)));
                    differ += check_bounds(formats[f], &n);
                }
                assert_true(differ > 100);
            }
}
/* The tables of special operands. */
static void special_operands(void **state) {
    (void)state;
    static const float inputs[] = {-INFINITY, -1e-40f, -0.0f, 0.0f, 1e-40f, INFINITY, NAN};
    static const struct {
        int opcode;
        bool ftz;
        float results[7]; /* 9: not special */
    } rows[] = {
        {PTX_RCP, true, {-0.0f, -INFINITY, -INFINITY, INFINITY, INFINITY, 0, NAN}},
        {PTX_RCP, false, {-0.0f, -INFINITY, -INFINITY, INFINITY, INFINITY, 0, NAN}},
        {PTX_SQRT, true, {NAN, -0.0f, -0.0f, 0, 0, INFINITY, NAN}},
        {PTX_SQRT, false, {NAN, NAN, -0.0f, 0, 9, INFINITY, NAN}},
        {PTX_RSQRT, true, {NAN, -INFINITY, -INFINITY, INFINITY, INFINITY, 0, NAN}},
        {PTX_RSQRT, false, {NAN, NAN, -INFINITY, INFINITY, 9, 0, NAN}},
        {PTX_SIN, true, {NAN, -0.0f, -0.0f, 0, 0, NAN, NAN}},
        {PTX_COS, true, {NAN, 1, 1, 1, 1, NAN, NAN}},
        {PTX_LG2, true, {NAN, -INFINITY, -INFINITY, -INFINITY, -INFINITY, INFINITY, NAN}},
        {PTX_LG2, false, {NAN, NAN, -INFINITY, -INFINITY, 9, INFINITY, NAN}},
        {PTX_EX2, true, {0, 1, 1, 1, 1, INFINITY, NAN}},
        {PTX_EX2, false, {0, 9, 1, 1, 9, INFINITY, NAN}},
        {PTX_TANH, false, {-1, -1e-40f, -0.0f, 0, 1e-40f, 1, NAN}},
    };
    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
        ptx_instruction n = {
            .opcode = (uint8_t)rows[r].opcode, .type = PTX_F32, .round = PTX_APPROX, .ftz = rows[r].ftz};
        for (int i = 0; i < PTX_WARP; i++) A[i] = ptx_f32_bits(inputs[i % 7]);
        for (seed = 1; seed < 20; seed++) {
            run(&n);
            for (int i = 0; i < 7; i++)
                if (rows[r].results[i] != 9 && R[i] != ptx_from_f32(rows[r].results[i]))
                    fail_msg("opcode %d ftz %d: %g: %g", n.opcode, n.ftz, (double)inputs[i], (double)ptx_f32(R[i]));
        }
    }
    static const struct {
        float x, y, result;
    } divisions[] = {{1, 0x1p127f, 0},
                     {-1, 0x1.8p126f, -0.0f},
                     {INFINITY, 0x1p127f, NAN},
                     {1, 0, INFINITY},
                     {-1, 0, -INFINITY},
                     {0, 0, NAN},
                     {0, 3, 0},
                     {0, -3, -0.0f},
                     {1, INFINITY, 0},
                     {INFINITY, INFINITY, NAN},
                     {INFINITY, 2, INFINITY},
                     {NAN, 1, NAN},
                     {1, NAN, NAN}};
    for (int i = 0; i < PTX_WARP; i++)
        A[i] = ptx_f32_bits(divisions[i % 13].x), B[i] = ptx_f32_bits(divisions[i % 13].y);
    ptx_instruction n = {.opcode = PTX_DIV, .type = PTX_F32, .round = PTX_APPROX, .ftz = true};
    run(&n);
    for (int i = 0; i < 13; i++) assert_true(R[i] == ptx_from_f32(divisions[i].result));
    for (int i = 0; i < PTX_WARP; i++) A[i] = ptx_f64_bits((i & 1 ? 1 : -1) * (double)inputs[i % 7]), B[i] = 0;
    n = (ptx_instruction){.opcode = PTX_RCP, .type = PTX_F64, .round = PTX_APPROX, .ftz = true};
    for (int i = 0; i < 8; i++) A[i] = ptx_f64_bits(3 + i);
    run(&n);
    for (int i = 0; i < PTX_WARP; i++) {
        double x = ptx_f64(A[i] >> 32 << 32);
        assert_true((uint32_t)R[i] == 0);
        if (x != x) assert_true(R[i] == UINT64_C(0x7fffffff00000000));
        if (i < 8) assert_true(fabs(ptx_f64(R[i]) * x - 1) < 0x1p-18);
    }
}

static void unknown_forms_have_no_function(void **state) {
    (void)state;
    static const ptx_instruction forms[] = {
        {.opcode = PTX_BRA},
        {.opcode = PTX_ADD, .type = PTX_PRED},
        {.opcode = PTX_ADD, .type = PTX_U8},
        {.opcode = PTX_ADD, .type = PTX_U32, .sat = true},
        {.opcode = PTX_MUL, .type = PTX_U64, .mode = PTX_WIDE},
        {.opcode = PTX_EX2, .type = PTX_F64, .round = PTX_APPROX},
        {.opcode = PTX_CVT, .type = PTX_S32, .type2 = PTX_F32},
        {.opcode = PTX_CVT, .type = PTX_F32},
        {.opcode = PTX_SETP, .type = PTX_S32},
        {.opcode = PTX_LOP3, .type = PTX_B64},
        {.opcode = PTX_REM, .type = PTX_F32},
    };
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) assert_null(ptx_compute_of(&forms[i]));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(approximate_results_stay_within_their_bounds),
        cmocka_unit_test(special_operands),
        cmocka_unit_test(unknown_forms_have_no_function),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
