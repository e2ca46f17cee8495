/* The emulator's whole numbers and bits, against numbers of 128 bits and bits one by one. */
#include "fakes/ptx/lanes_test.h"

/* --- integers -------------------------------------------------------------------------------------------------------- */

static uint64_t expected_integer(const ptx_instruction *n, int i) {
    __int128 x = value_of(n->type, A[i]), y = value_of(n->type, B[i]), z = value_of(n->type, C[i]);
    int bits = ptx_bits(n->type);
    __int128 product = (__int128)((unsigned __int128)x * (unsigned __int128)y);
    bool wide = n->mode == PTX_WIDE;
    if (n->mode == PTX_HI_HALF)
        product = ptx_is_signed(n->type) ? product >> bits : (__int128)((unsigned __int128)product >> bits);
    switch (n->opcode) {
    case PTX_ADD: return cut(x + y, bits);
    case PTX_SUB: return cut(x - y, bits);
    case PTX_MUL: return cut(product, wide ? 2 * bits : bits);
    case PTX_MAD:
        return cut((__int128)((unsigned __int128)product + (wide ? C[i] : (unsigned __int128)z)),
                   wide ? 2 * bits : bits);
    case PTX_DIV: return cut(y ? x / y : -1, bits);
    case PTX_REM: return cut(y ? x % y : -1, bits);
    case PTX_NEG: return cut(-x, bits);
    case PTX_ABS: return cut(x < 0 ? -x : x, bits);
    case PTX_MIN: return cut(x < y ? x : y, bits);
    case PTX_MAX: return cut(x > y ? x : y, bits);
    default: return cut(z + (x > y ? x - y : y - x), bits); /* sad */
    }
}
static void integers(void **state) {
    (void)state;
    static const int opcodes[] = {PTX_ADD, PTX_SUB, PTX_MUL, PTX_MAD, PTX_DIV, PTX_REM,
                                  PTX_NEG, PTX_ABS, PTX_MIN, PTX_MAX, PTX_SAD};
    static const int types[] = {PTX_U16, PTX_U32, PTX_U64, PTX_S16, PTX_S32, PTX_S64};
    for (size_t o = 0; o < sizeof opcodes / sizeof *opcodes; o++)
        for (size_t t = 0; t < 6; t++)
            for (int mode = PTX_NO_MODE; mode <= PTX_WIDE; mode++)
                for (int round = 0; round < 8; round++) {
                    ptx_instruction n = {
                        .opcode = (uint8_t)opcodes[o], .type = (uint8_t)types[t], .mode = (uint8_t)mode};
                    int bits = ptx_bits(n.type);
                    if (mode && n.opcode != PTX_MUL && n.opcode != PTX_MAD) continue;
                    if ((mode == PTX_WIDE && bits == 64) || (n.opcode == PTX_ABS && t < 3)) continue;
                    fill(A, bits), fill(B, bits), fill(C, mode == PTX_WIDE ? 2 * bits : bits);
                    run(&n);
                    for (int i = 0; i < PTX_WARP; i++)
                        if (R[i] != expected_integer(&n, i))
                            fail_msg("opcode %d type %d mode %d: %llx %llx %llx: %llx", n.opcode, n.type, mode,
                                     (unsigned long long)A[i], (unsigned long long)B[i], (unsigned long long)C[i],
                                     (unsigned long long)R[i]);
                }
}
static void saturated_integers(void **state) {
    (void)state;
    const __int128 most = INT32_MAX, least = INT32_MIN;
    for (int round = 0; round < 50; round++)
        for (int o = 0; o < 3; o++) {
            ptx_instruction n = {.opcode = o == 0 ? PTX_ADD : o == 1 ? PTX_SUB : PTX_MAD, .type = PTX_S32, .sat = true};
            if (o == 2) n.mode = PTX_HI_HALF;
            fill(A, 32), fill(B, 32), fill(C, 32);
            run(&n);
            for (int i = 0; i < PTX_WARP; i++) {
                __int128 x = (int32_t)A[i], y = (int32_t)B[i],
                         sum = o == 0   ? x + y
                               : o == 1 ? x - y
                                        : (x * y >> 32) + (int32_t)C[i];
                assert_true(R[i] == cut(sum > most ? most : sum < least ? least : sum, 32));
            }
        }
}
/* Numbers of 128 bits in pieces, added, subtracted and multiplied with the flag between the pieces. */
static void carry_chains(void **state) {
    (void)state;
    for (int round = 0; round < 200; round++)
        for (int bits = 32; bits <= 64; bits *= 2) {
            uint64_t high_a[PTX_WARP], high_b[PTX_WARP], low[PTX_WARP];
            uint8_t type = bits == 32 ? PTX_U32 : PTX_U64;
            for (int subtract = 0; subtract < 2; subtract++) {
                ptx_instruction first = {.opcode = subtract ? PTX_SUB : PTX_ADD, .type = type, .cc = true};
                ptx_instruction then = {.opcode = subtract ? PTX_SUBC : PTX_ADDC, .type = type};
                fill(A, bits), fill(B, bits), fill(high_a, bits), fill(high_b, bits);
                carry_in = (uint32_t)draw();
                run(&first);
                memcpy(low, R, sizeof low);
                unsigned __int128 x[PTX_WARP], y[PTX_WARP];
                for (int i = 0; i < PTX_WARP; i++)
                    x[i] = (unsigned __int128)high_a[i] << bits | A[i],
                    y[i] = (unsigned __int128)high_b[i] << bits | B[i];
                memcpy(A, high_a, sizeof A), memcpy(B, high_b, sizeof B);
                carry_in = carry_out;
                run(&then);
                assert_true(carry_out == carry_in);
                for (int i = 0; i < PTX_WARP; i++) {
                    unsigned __int128 got = (unsigned __int128)R[i] << bits | low[i],
                                      want = subtract ? x[i] - y[i] : x[i] + y[i];
                    if (bits == 32) want = (uint64_t)want;
                    assert_true(got == want);
                }
            }
            ptx_instruction low_sum = {.opcode = PTX_MAD, .type = type, .mode = PTX_LO_HALF, .cc = true};
            ptx_instruction high_sum = {.opcode = PTX_MADC, .type = type, .mode = PTX_HI_HALF, .cc = true};
            if (round & 1) low_sum.type = high_sum.type = bits == 32 ? PTX_S32 : PTX_S64;
            uint64_t above[PTX_WARP];
            fill(A, bits), fill(B, bits), fill(C, bits), fill(above, bits);
            unsigned __int128 want[PTX_WARP];
            for (int i = 0; i < PTX_WARP; i++)
                want[i] = (unsigned __int128)(value_of(low_sum.type, A[i]) * 1) *
                              (unsigned __int128)value_of(low_sum.type, B[i]) +
                          ((unsigned __int128)above[i] << bits | C[i]);
            run(&low_sum);
            memcpy(low, R, sizeof low), memcpy(C, above, sizeof C);
            carry_in = carry_out;
            run(&high_sum);
            for (int i = 0; i < PTX_WARP; i++) {
                unsigned __int128 got = (unsigned __int128)R[i] << bits | low[i];
                if (bits == 32) want[i] = (uint64_t)want[i];
                assert_true(got == want[i]);
            }
        }
}
static void narrow_products(void **state) {
    (void)state;
    for (int round = 0; round < 100; round++)
        for (int is_signed = 0; is_signed < 2; is_signed++) {
            uint8_t type = is_signed ? PTX_S32 : PTX_U32;
            fill(A, 32), fill(B, 32), fill(C, 32);
            for (int high = 0; high < 2; high++) {
                ptx_instruction n = {.opcode = PTX_MUL24, .type = type, .mode = high ? PTX_HI_HALF : PTX_LO_HALF};
                ptx_instruction sum = n;
                uint64_t product[PTX_WARP];
                sum.opcode = PTX_MAD24;
                run(&n);
                for (int i = 0; i < PTX_WARP; i++) {
                    int64_t x = (int64_t)(A[i] & 0xffffff), y = (int64_t)(B[i] & 0xffffff);
                    if (is_signed && x >= 1 << 23) x -= 1 << 24;
                    if (is_signed && y >= 1 << 23) y -= 1 << 24;
                    product[i] = (uint32_t)((uint64_t)(x * y) >> (high ? 16 : 0));
                    assert_true(R[i] == product[i]);
                }
                run(&sum);
                for (int i = 0; i < PTX_WARP; i++) assert_true(R[i] == (uint32_t)(product[i] + C[i]));
            }
            ptx_instruction n = {.opcode = PTX_DP4A, .type = type, .type2 = round & 1 ? PTX_S32 : PTX_U32};
            run(&n);
            for (int i = 0; i < PTX_WARP; i++) {
                int64_t sum = (int64_t)C[i];
                for (int part = 0; part < 4; part++)
                    sum += (int64_t)(value_of(is_signed ? PTX_S8 : PTX_U8, A[i] >> 8 * part) *
                                     value_of(round & 1 ? PTX_S8 : PTX_U8, B[i] >> 8 * part));
                assert_true(R[i] == (uint32_t)sum);
            }
        }
}

/* --- bits ------------------------------------------------------------------------------------------------------------ */

static uint64_t expected_bits(const ptx_instruction *n, int i) {
    int bits = ptx_bits(n->type), position = (int)(B[i] & 255), length = (int)(C[i] & 255), msb = bits - 1;
    bool is_signed = ptx_is_signed(n->type);
    uint64_t result = 0, amount = (uint32_t)B[i];
    for (int k = 0; k < bits; k++) {
        uint64_t x = A[i] >> k & 1, y = B[i] >> k & 1, z = C[i] >> k & 1, bit = 0;
        int at;
        switch (n->opcode) {
        case PTX_MOV: bit = x; break;
        case PTX_AND: bit = x & y; break;
        case PTX_OR: bit = x | y; break;
        case PTX_XOR: bit = x ^ y; break;
        case PTX_NOT: bit = !x; break;
        case PTX_CNOT: bit = k == 0 && cut((__int128)A[i], bits) == 0; break;
        case PTX_LOP3: bit = n->from[3].value >> (x * 4 + y * 2 + z) & 1; break;
        case PTX_SHL: bit = (uint64_t)k >= amount ? A[i] >> ((uint64_t)k - amount) & 1 : 0; break;
        case PTX_SHR:
            bit = (uint64_t)k + amount <= (uint64_t)msb ? A[i] >> ((uint64_t)k + amount) & 1
                                                        : is_signed && (A[i] >> msb & 1);
            break;
        case PTX_BFE:
            at = position + length - 1 < msb ? position + length - 1 : msb;
            bit = k < length && position + k <= msb ? A[i] >> (position + k) & 1
                                                    : is_signed && length && (A[i] >> at & 1);
            break;
        case PTX_BFI:
            position = (int)(C[i] & 255), length = (int)(D[i] & 255);
            bit = k >= position && k < position + length ? A[i] >> (k - position) & 1 : y;
            break;
        case PTX_BREV: bit = A[i] >> (msb - k) & 1; break;
        default: fail();
        }
        result |= bit << k;
    }
    return result;
}
static void logic_and_fields(void **state) {
    (void)state;
    static const int opcodes[] = {PTX_MOV,  PTX_AND, PTX_OR,  PTX_XOR, PTX_NOT, PTX_CNOT,
                                  PTX_LOP3, PTX_SHL, PTX_SHR, PTX_BFE, PTX_BFI, PTX_BREV};
    static const int types[] = {PTX_B16, PTX_U32, PTX_B64, PTX_S16, PTX_S32, PTX_S64};
    for (size_t o = 0; o < sizeof opcodes / sizeof *opcodes; o++)
        for (size_t t = 0; t < 6; t++)
            for (int round = 0; round < 40; round++) {
                ptx_instruction n = {.opcode = (uint8_t)opcodes[o], .type = (uint8_t)types[t]};
                int bits = ptx_bits(n.type);
                if (bits == 16 && (n.opcode >= PTX_SHF || n.opcode == PTX_LOP3)) continue;
                if (bits == 64 && n.opcode == PTX_LOP3) continue;
                n.from[3].value = draw() & 255;
                fill(A, bits), fill(B, bits), fill(C, bits), fill(D, 32);
                for (int i = 0; i < PTX_WARP; i++) {
                    bool shift = n.opcode == PTX_SHL || n.opcode == PTX_SHR;
                    if (shift || n.opcode == PTX_BFE)
                        B[i] = draw() % 8 ? draw() % 70 : shift ? (uint32_t)draw() : draw() % 256;
                    if (n.opcode == PTX_BFE || n.opcode == PTX_BFI) C[i] = draw() % 8 ? draw() % 70 : draw() % 256;
                    if (n.opcode == PTX_BFI) D[i] = draw() % 8 ? draw() % 70 : draw() % 256;
                }
                run(&n);
                for (int i = 0; i < PTX_WARP; i++)
                    if (R[i] != expected_bits(&n, i))
                        fail_msg("opcode %d type %d: %llx %llx %llx %llx: %llx", n.opcode, n.type,
                                 (unsigned long long)A[i], (unsigned long long)B[i], (unsigned long long)C[i],
                                 (unsigned long long)D[i], (unsigned long long)R[i]);
            }
    for (int i = 0; i < PTX_WARP; i++) A[i] = draw() & 1, B[i] = draw() & 1;
    for (size_t o = 0; o < 5; o++) {
        ptx_instruction n = {.opcode = (uint8_t)opcodes[o], .type = PTX_PRED};
        run(&n);
        for (int i = 0; i < PTX_WARP; i++) assert_true(R[i] == (expected_bits(&n, i) & 1));
    }
}
static void funnel_shifts_and_permutations(void **state) {
    (void)state;
    for (int round = 0; round < 200; round++) {
        fill(A, 32), fill(B, 32), fill(C, 32);
        for (int i = 0; i < PTX_WARP; i += 2) C[i] = draw() % 66;
        for (int k = 0; k < 4; k++) {
            ptx_instruction n = {.opcode = PTX_SHF,
                                 .type = PTX_B32,
                                 .mode = k & 1 ? PTX_SHF_L : PTX_SHF_R,
                                 .clamp = k & 2 ? PTX_CLAMP : PTX_WRAP};
            run(&n);
            for (int i = 0; i < PTX_WARP; i++) {
                uint32_t amount = (uint32_t)C[i], by = k & 2 ? (amount < 32 ? amount : 32) : amount % 32, want = 0;
                for (uint32_t bit = 0; bit < 32; bit++) {
                    uint32_t from = k & 1 ? bit + 32 - by : bit + by;
                    want |= (uint32_t)((from < 32 ? A[i] >> from : B[i] >> (from - 32)) & 1) << bit;
                }
                assert_true(R[i] == want);
            }
        }
        for (int mode = PTX_NO_MODE; mode <= PTX_PRMT_RC16; mode = mode ? mode + 1 : PTX_PRMT_F4E) {
            ptx_instruction n = {.opcode = PTX_PRMT, .type = PTX_B32, .mode = (uint8_t)mode};
            run(&n);
            for (int i = 0; i < PTX_WARP; i++)
                for (int byte = 0; byte < 4; byte++) {
                    int s = (int)(C[i] & 3), pick = (int)(C[i] >> 4 * byte & 15);
                    switch (mode) {
                    case PTX_PRMT_F4E: pick = s + byte; break;
                    case PTX_PRMT_B4E: pick = (s - byte) & 7; break;
                    case PTX_PRMT_RC8: pick = s; break;
                    case PTX_PRMT_ECL: pick = byte > s ? byte : s; break;
                    case PTX_PRMT_ECR: pick = byte < s ? byte : s; break;
                    case PTX_PRMT_RC16: pick = (s & 1) * 2 + (byte & 1); break;
                    default: break;
                    }
                    uint64_t from = (pick & 7) < 4 ? A[i] >> 8 * (pick & 7) : B[i] >> 8 * ((pick & 7) - 4);
                    uint64_t want = pick & 8 ? (from & 128 ? 255 : 0) : from & 255;
                    assert_true((R[i] >> 8 * byte & 255) == want && R[i] <= UINT32_MAX);
                }
        }
    }
}
static void counts_of_bits(void **state) {
    (void)state;
    static const int types[] = {PTX_U32, PTX_S32, PTX_U64, PTX_S64};
    for (int round = 0; round < 100; round++)
        for (int t = 0; t < 4; t++) {
            int bits = ptx_bits(types[t]);
            fill(A, bits);
            ptx_instruction n = {.opcode = PTX_POPC, .type = (uint8_t)types[t]};
            run(&n);
            for (int i = 0; i < PTX_WARP; i++) {
                uint64_t count = 0;
                for (int k = 0; k < bits; k++) count += A[i] >> k & 1;
                assert_true(R[i] == count);
            }
            n.opcode = PTX_CLZ;
            run(&n);
            for (int i = 0; i < PTX_WARP; i++) {
                int k = bits;
                while (k && !(A[i] >> (k - 1) & 1)) k--;
                assert_true(R[i] == (uint64_t)(bits - k));
            }
            for (int amount = 0; amount < 2; amount++) {
                n = (ptx_instruction){
                    .opcode = PTX_BFIND, .type = (uint8_t)types[t], .mode = amount ? PTX_SHIFTAMT : 0};
                run(&n);
                for (int i = 0; i < PTX_WARP; i++) {
                    bool sign = ptx_is_signed(types[t]) && (A[i] >> (bits - 1) & 1);
                    int k = bits - 1;
                    while (k >= 0 && (A[i] >> k & 1) == sign) k--;
                    assert_true(R[i] == (k < 0 ? UINT32_MAX : (uint64_t)(amount ? bits - 1 - k : k)));
                }
            }
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(integers),         cmocka_unit_test(saturated_integers),
        cmocka_unit_test(carry_chains),     cmocka_unit_test(narrow_products),
        cmocka_unit_test(logic_and_fields), cmocka_unit_test(funnel_shifts_and_permutations),
        cmocka_unit_test(counts_of_bits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
