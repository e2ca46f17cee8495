/* The emulator's comparisons and selections, against those of long doubles. */
#include "fakes/ptx/lanes_test.h"

/* --- comparisons ----------------------------------------------------------------------------------------------------- */

static bool holds(int compare, long double x, long double y) {
    bool unordered = x != x || y != y;
    switch (compare) {
    case PTX_EQ: return x == y;
    case PTX_NE: return !unordered && x != y;
    case PTX_LT:
    case PTX_LO: return x < y;
    case PTX_LE:
    case PTX_LS: return x <= y;
    case PTX_GT:
    case PTX_HI: return x > y;
    case PTX_GE:
    case PTX_HS: return x >= y;
    case PTX_EQU: return unordered || x == y;
    case PTX_NEU: return x != y;
    case PTX_LTU: return !(x >= y);
    case PTX_LEU: return !(x > y);
    case PTX_GTU: return !(x <= y);
    case PTX_GEU: return !(x < y);
    case PTX_NUM: return !unordered;
    default: return unordered;
    }
}
static const format *format_of(int type) {
    return type == PTX_F16    ? &format_f16
           : type == PTX_BF16 ? &format_bf16
           : type == PTX_F32  ? &format_f32
                              : &format_f64;
}
static long double number_of(int type, uint64_t bits) {
    return ptx_is_float(type) ? (long double)host_value(format_of(type), bits) : (long double)value_of(type, bits);
}
static void comparisons(void **state) {
    (void)state;
    static const int types[] = {PTX_B16, PTX_U16, PTX_S16, PTX_B32,  PTX_U32, PTX_S32, PTX_B64,
                                PTX_U64, PTX_S64, PTX_F16, PTX_BF16, PTX_F32, PTX_F64};
    for (size_t t = 0; t < sizeof types / sizeof *types; t++)
        for (int compare = PTX_EQ; compare <= PTX_NAN; compare++)
            for (int combine = 0; combine < 4; combine++) {
                static const int combines[] = {0, PTX_DO_AND, PTX_DO_OR, PTX_DO_XOR};
                int type = types[t];
                bool is_unsigned = compare >= PTX_LO && compare <= PTX_HS;
                if ((!ptx_is_float(type) && compare >= PTX_EQU) ||
                    (is_unsigned && (ptx_is_float(type) || ptx_is_signed(type))))
                    continue;
                ptx_instruction n = {.opcode = PTX_SETP,
                                     .type = (uint8_t)type,
                                     .compare = (uint8_t)compare,
                                     .combine = (uint8_t)combines[combine]};
                if (ptx_is_float(type))
                    fill_floats(format_of(type));
                else
                    fill(A, ptx_bits(type)), fill(B, ptx_bits(type));
                for (int i = 0; i < PTX_WARP; i += 3) B[i] = A[i];
                for (int i = 0; i < PTX_WARP; i++) C[i] = draw() & 1;
                run(&n);
                uint64_t want[PTX_WARP];
                for (int i = 0; i < PTX_WARP; i++) {
                    uint64_t is = holds(compare, number_of(type, A[i]), number_of(type, B[i])), third = C[i];
                    want[i] = combine == 0 ? is : combine == 1 ? is & third : combine == 2 ? is | third : is ^ third;
                    uint64_t other = combine == 0   ? !is
                                     : combine == 1 ? !is && third
                                     : combine == 2 ? !is || third
                                                    : is == third;
                    assert_true(R[i] == want[i] && R2[i] == other);
                }
                static const int results[] = {PTX_U32, PTX_S32, PTX_F32, PTX_F16, PTX_BF16};
                static const uint64_t yes[] = {0xffffffff, 0xffffffff, 0x3f800000, 0x3c00, 0x3f80};
                for (int k = 0; k < 5; k++) {
                    n.opcode = PTX_SET, n.type2 = (uint8_t)type, n.type = (uint8_t)results[k];
                    run(&n);
                    for (int i = 0; i < PTX_WARP; i++) assert_true(R[i] == (want[i] ? yes[k] : 0));
                }
            }
}
static void selections(void **state) {
    (void)state;
    static const int types[] = {PTX_B16, PTX_F32, PTX_B64, PTX_S32};
    for (int t = 0; t < 4; t++) {
        int bits = ptx_bits(types[t]);
        fill(A, bits), fill(B, bits);
        for (int i = 0; i < PTX_WARP; i++) C[i] = draw() & 1;
        ptx_instruction n = {.opcode = PTX_SELP, .type = (uint8_t)types[t]};
        run(&n);
        for (int i = 0; i < PTX_WARP; i++) assert_true(R[i] == (C[i] ? A[i] : B[i]));
        n.opcode = PTX_SLCT, n.type2 = PTX_S32;
        fill(C, 32);
        run(&n);
        for (int i = 0; i < PTX_WARP; i++) assert_true(R[i] == ((int32_t)C[i] >= 0 ? A[i] : B[i]));
        n.type2 = PTX_F32;
        for (int i = 0; i < PTX_WARP; i++) C[i] = draw_float(&format_f32);
        run(&n);
        for (int i = 0; i < PTX_WARP; i++) assert_true(R[i] == (ptx_f32(C[i]) >= 0 ? A[i] : B[i]));
    }
    ptx_instruction n = {.opcode = PTX_SETP, .type = PTX_F16X2, .compare = PTX_LT};
    fill_floats(&format_f16);
    for (int i = 0; i < PTX_WARP; i++) A[i] |= draw_float(&format_f16) << 16, B[i] |= draw_float(&format_f16) << 16;
    run(&n);
    for (int i = 0; i < PTX_WARP; i++)
        assert_true(R[i] == (ptx_f16(A[i]) < ptx_f16(B[i])) && R2[i] == (ptx_f16(A[i] >> 16) < ptx_f16(B[i] >> 16)));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(comparisons),
        cmocka_unit_test(selections),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
