/* The emulator's conversions: whole numbers by 128 bits, floats by exact numbers and by the compiler. */
#include "fakes/ptx/lanes_test.h"

/* --- conversions ----------------------------------------------------------------------------------------------------- */

static const int integer_types[] = {PTX_U8, PTX_U16, PTX_U32, PTX_U64, PTX_S8, PTX_S16, PTX_S32, PTX_S64};
static const format *const all_formats[] = {&format_f16, &format_bf16, &format_f32, &format_f64};

static void integers_to_integers(void **state) {
    (void)state;
    for (int from = 0; from < 8; from++)
        for (int to = 0; to < 8; to++)
            for (int sat = 0; sat < 2; sat++)
                for (int width = 16; width <= 64; width *= 2)
                    for (int round = 0; round < 4; round++) {
                        int type = integer_types[to], bits = ptx_bits(type);
                        if (width < bits) continue;
                        ptx_instruction n = {.opcode = PTX_CVT,
                                             .type = (uint8_t)type,
                                             .type2 = (uint8_t)integer_types[from],
                                             .sat = sat,
                                             .to_bits = (uint8_t)width};
                        fill(A, 64);
                        if (round & 1) fill(A, ptx_bits(n.type2));
                        run(&n);
                        __int128 most = ((__int128)1 << (ptx_is_signed(type) ? bits - 1 : bits)) - 1;
                        __int128 least = ptx_is_signed(type) ? -most - 1 : 0;
                        for (int i = 0; i < PTX_WARP; i++) {
                            __int128 x = value_of(n.type2, A[i]);
                            if (sat) x = x > most ? most : x < least ? least : x;
                            assert_true(R[i] == cut(value_of(type, cut(x, bits)), width));
                        }
                    }
}
static void integers_to_floats(void **state) {
    (void)state;
    for (int from = 0; from < 8; from++)
        for (int to = 0; to < 4; to++)
            for (int r = 1; r < 5; r++)
                for (int round = 0; round < 30; round++) {
                    const format *f = all_formats[to];
                    ptx_instruction n = {.opcode = PTX_CVT,
                                         .type = (uint8_t)f->type,
                                         .type2 = (uint8_t)integer_types[from],
                                         .round = (uint8_t)roundings[r]};
                    fill(A, ptx_bits(n.type2));
                    run(&n);
                    for (int i = 0; i < PTX_WARP; i++) {
                        __int128 x = value_of(n.type2, A[i]);
                        exact e = {x < 0 ? -1 : 1, 0, (uint64_t)(x < 0 ? -x : x)};
                        assert_true(x ? is_rounded(f, PTX_CVT, n.round, R[i], &e, &one, &one) : R[i] == 0);
                    }
                }
}
static void floats_to_integers(void **state) {
    (void)state;
    static const int modes[] = {PTX_RNI, PTX_RZI, PTX_RMI, PTX_RPI};
    for (int from = 0; from < 4; from++)
        for (int to = 0; to < 8; to++)
            for (int m = 0; m < 4; m++)
                for (int round = 0; round < 30; round++) {
                    const format *f = all_formats[from];
                    int type = integer_types[to], bits = ptx_bits(type);
                    ptx_instruction n = {.opcode = PTX_CVT,
                                         .type = (uint8_t)type,
                                         .type2 = (uint8_t)f->type,
                                         .round = (uint8_t)modes[m],
                                         .to_bits = (uint8_t)(bits < 16 ? 16 : bits)};
                    fill_floats(f);
                    if (f == &format_f32) /* of the size of integers, with halves */
                        for (int i = 0; i < PTX_WARP; i += 2)
                            A[i] = ptx_f32_bits((float)((double)(int64_t)draw() / (double)(INT64_C(1) << draw() % 63)));
                    if (f == &format_f32 && round % 4 == 0)
                        for (int i = 0; i < PTX_WARP; i++) A[i] = ptx_f32_bits((float)(int)(draw() % 64) / 2 - 16);
                    run(&n);
                    __int128 most = ((__int128)1 << (ptx_is_signed(type) ? bits - 1 : bits)) - 1;
                    __int128 least = ptx_is_signed(type) ? -most - 1 : 0;
                    for (int i = 0; i < PTX_WARP; i++) {
                        long double x = host_value(f, A[i]);
                        x = m == 0 ? rintl(x) : m == 1 ? truncl(x) : m == 2 ? floorl(x) : ceill(x);
                        __int128 want = x != x ? (from == 3 || bits == 64 ? (__int128)1 << (bits - 1) : 0)
                                        : x >= (long double)most  ? most
                                        : x <= (long double)least ? least
                                                                  : (__int128)x;
                        assert_true(R[i] == cut(value_of(type, cut(want, bits)), n.to_bits));
                    }
                }
}
static void floats_to_floats(void **state) {
    (void)state;
    for (int from = 0; from < 4; from++)
        for (int to = 0; to < 4; to++)
            for (int r = 0; r < 5; r++)
                for (int round = 0; round < 60; round++) {
                    const format *f = all_formats[from], *g = all_formats[to];
                    ptx_instruction n = {.opcode = PTX_CVT,
                                         .type = (uint8_t)g->type,
                                         .type2 = (uint8_t)f->type,
                                         .round = (uint8_t)roundings[r]};
                    fill_floats(f);
                    if (f == &format_f64 && g->bits < 64) /* what the narrower format has, and the numbers halfway */
                        for (int i = 0; i < PTX_WARP; i += 2) {
                            double x = host_value(g, draw_float(g)), y = (double)ptx_f32(ptx_f32_bits((float)x) ^ 1);
                            if (x - x == 0)
                                A[i] = ptx_f64_bits(i & 2 ? x : x + (y - x) / 2) + (i & 4 ? draw() % 3 - 1 : 0);
                        }
                    run(&n);
                    for (int i = 0; i < PTX_WARP; i++) {
                        exact e = exact_of(f, A[i]);
                        uint64_t sign = negative_bits(f, A[i]) ? UINT64_C(1) << (g->bits - 1) : 0;
                        bool ok = nan_bits(f, A[i])       ? is_canonical_nan(g, R[i])
                                  : !finite_bits(f, A[i]) ? R[i] == (sign | infinity_of(g))
                                  : e.whole == 0          ? R[i] == sign
                                                          : is_rounded(g, PTX_CVT, n.round, R[i], &e, &one, &one);
                        if (!ok)
                            fail_msg("from %d to %d round %d: %llx: %llx", n.type2, n.type, n.round,
                                     (unsigned long long)A[i], (unsigned long long)R[i]);
                    }
                }
    ptx_instruction n = {.opcode = PTX_CVT, .type = PTX_F32, .type2 = PTX_F32, .round = PTX_RNI};
    fill_floats(&format_f32);
    run(&n);
    for (int i = 0; i < PTX_WARP; i++) assert_true(R[i] == ptx_from_f32(rintf(ptx_f32(A[i]))));
    n = (ptx_instruction){.opcode = PTX_CVT, .type = PTX_F32, .type2 = PTX_F32, .sat = true};
    run(&n);
    for (int i = 0; i < PTX_WARP; i++) {
        float x = ptx_f32(A[i]);
        assert_true(R[i] == ptx_f32_bits(x > 0 ? (x < 1 ? x : 1) : 0));
    }
    n = (ptx_instruction){.opcode = PTX_CVT, .type = PTX_F64, .type2 = PTX_F64, .round = PTX_RMI};
    fill_floats(&format_f64);
    run(&n);
    for (int i = 0; i < PTX_WARP; i++) assert_true(R[i] == ptx_from_f64(floor(ptx_f64(A[i]))));
    for (int brain = 0; brain < 2; brain++) {
        uint64_t high[PTX_WARP], low[PTX_WARP];
        n = (ptx_instruction){.opcode = PTX_CVT, .type = brain ? PTX_BF16 : PTX_F16, .type2 = PTX_F32, .round = PTX_RN};
        fill_floats(&format_f32);
        run(&n);
        memcpy(high, R, sizeof R), memcpy(low, A, sizeof A), memcpy(A, B, sizeof A);
        run(&n);
        memcpy(A, low, sizeof A), memcpy(low, R, sizeof R);
        n.type = brain ? PTX_BF16X2 : PTX_F16X2;
        run(&n);
        for (int i = 0; i < PTX_WARP; i++) assert_true(R[i] == (high[i] << 16 | low[i]));
    }
}
/* All numbers of f16 by the compiler's own conversion. */
static void f16_is_the_compilers(void **state) {
    (void)state;
#ifndef __FLT16_MAX__
    skip();
#else
    ptx_instruction to = {.opcode = PTX_CVT, .type = PTX_F32, .type2 = PTX_F16};
    ptx_instruction back = {.opcode = PTX_CVT, .type = PTX_F16, .type2 = PTX_F32, .round = PTX_RN};
    for (uint32_t first = 0; first < 65536; first += PTX_WARP) {
        for (uint32_t i = 0; i < PTX_WARP; i++) A[i] = first + i;
        run(&to);
        for (uint32_t i = 0; i < PTX_WARP; i++) {
            _Float16 x;
            memcpy(&x, &A[i], 2);
            assert_true(R[i] == ptx_from_f32((float)x));
        }
        for (uint32_t i = 0; i < PTX_WARP; i++) A[i] = R[i] + draw() % 16384 - 8192;
        run(&back);
        for (uint32_t i = 0; i < PTX_WARP; i++) {
            _Float16 x = (_Float16)ptx_f32(A[i]);
            uint16_t bits;
            memcpy(&bits, &x, 2);
            assert_true(R[i] == ((bits & 0x7fff) > 0x7c00 ? PTX_NAN_HALF : bits));
        }
    }
#endif
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(integers_to_integers), cmocka_unit_test(integers_to_floats),
        cmocka_unit_test(floats_to_integers),   cmocka_unit_test(floats_to_floats),
        cmocka_unit_test(f16_is_the_compilers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
