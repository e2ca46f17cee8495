/* What the tests of arithmetic share: the operands of one instruction, which runs with all lanes, with some, and in place; random operands;
 * whether a result is the exact one, rounded. */
#ifndef BERTH_TESTS_FAKES_PTX_LANES_TEST_H
#define BERTH_TESTS_FAKES_PTX_LANES_TEST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <math.h>
#include <stdio.h>

#include "fakes/ptx/exact.h"
#include "fakes/ptx/lanes.h"

static uint64_t random_state = 1;
static inline uint64_t draw(void) {
    random_state = random_state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    uint64_t x = random_state ^ random_state >> 33;
    return x * UINT64_C(0xff51afd7ed558ccd) ^ x >> 29;
}

/* Sources and results of one instruction. */
static uint64_t A[PTX_WARP], B[PTX_WARP], C[PTX_WARP], D[PTX_WARP], R[PTX_WARP], R2[PTX_WARP];
static uint32_t carry_in, carry_out;
static uint64_t seed = 1;

static inline void run(const ptx_instruction *instruction) {
    ptx_compute *compute = ptx_compute_of(instruction);
    if (!compute)
        fail_msg("no function: opcode %d type %d from %d round %d mode %d", instruction->opcode, instruction->type,
                 instruction->type2, instruction->round, instruction->mode);
    uint64_t some[PTX_WARP], some2[PTX_WARP], place[PTX_WARP];
    uint32_t mask = (uint32_t)draw(), some_carry = carry_in;
    carry_out = carry_in;
    memset(R2, 0, sizeof R2);
    compute(instruction, R, R2, A, B, C, D, UINT32_MAX, &carry_out, seed);
    for (int i = 0; i < PTX_WARP; i++) some[i] = some2[i] = 77;
    compute(instruction, some, some2, A, B, C, D, mask, &some_carry, seed);
    for (int i = 0; i < PTX_WARP; i++) assert_true(some[i] == (mask >> i & 1 ? R[i] : 77));
    assert_true(some_carry == ((carry_in & ~mask) | (carry_out & mask)));
    memcpy(place, A, sizeof A);
    some_carry = carry_in;
    compute(instruction, place, some2, place, B, C, D, UINT32_MAX, &some_carry, seed);
    assert_memory_equal(place, R, sizeof R);
}

/* Edge values often. */
static inline uint64_t draw_integer(int bits) {
    uint64_t cut = bits == 64 ? UINT64_MAX : (UINT64_C(1) << bits) - 1, x = draw(), top = UINT64_C(1) << (bits - 1);
    switch (draw() % 8) {
    case 0: return draw() % 3;
    case 1: return (0 - draw() % 3) & cut;
    case 2: return (top + draw() % 3 - 1) & cut;
    case 3: return x >> draw() % 64 & cut;
    default: return x & cut;
    }
}
static inline uint64_t draw_float(const format *f) {
    uint64_t sign = draw() % 2 << (f->bits - 1), infinity = infinity_of(f), x = magnitude_of(f, draw());
    switch (draw() % 12) {
    case 0: return sign;
    case 1: return sign | infinity;
    case 2: return sign | infinity | (x & 255) | 1;
    case 3: return sign | (infinity - 1 - draw() % 3);
    case 4: return sign | draw() % 4;
    case 5: return sign | ((UINT64_C(1) << f->digits) + draw() % 5 - 2);
    case 6: return sign | (((infinity >> 1 & infinity) + draw() % 5 - 2)); /* near 1 */
    case 7: return sign | ((infinity >> 1 & infinity) + (x & ((UINT64_C(4) << f->digits) - 1)));
    default: return sign | x;
    }
}
static inline void fill(uint64_t *lanes, int bits) {
    for (int i = 0; i < PTX_WARP; i++) lanes[i] = draw_integer(bits);
}
static inline void fill_floats(const format *f) {
    uint64_t *all[] = {A, B, C};
    for (int s = 0; s < 3; s++)
        for (int i = 0; i < PTX_WARP; i++) all[s][i] = draw_float(f);
    for (int i = 0; i < PTX_WARP; i += 5) C[i] = A[i] ^ UINT64_C(1) << (f->bits - 1); /* cancel */
    for (int i = 1; i < PTX_WARP; i += 7) B[i] = A[i] ^ UINT64_C(1) << (f->bits - 1);
}

/* --- whole numbers --- */

static inline __int128 value_of(int type, uint64_t bits) {
    int above = 64 - ptx_bits(type);
    return ptx_is_signed(type) ? (__int128)((int64_t)(bits << above) >> above) : (__int128)(bits << above >> above);
}
static inline uint64_t cut(__int128 value, int bits) {
    return (uint64_t)value & (bits == 64 ? UINT64_MAX : (UINT64_C(1) << bits) - 1);
}

/* --- rounding --- */

PTX_UNUSED static const exact one = {1, 0, 1};

/* The sign of (exact result of the instruction) - t. */
static inline int compare_result(int opcode, const exact *x, const exact *y, const exact *z, exact t) {
    exact minus_t = t, minus_y = *y;
    minus_t.sign = -t.sign, minus_y.sign = -y->sign;
    switch (opcode) {
    case PTX_ADD: return sign_of_sum(3, (exact[]){*x, *y, minus_t}, (exact[]){one, one, one});
    case PTX_SUB: return sign_of_sum(3, (exact[]){*x, minus_y, minus_t}, (exact[]){one, one, one});
    case PTX_MUL: return sign_of_sum(2, (exact[]){*x, minus_t}, (exact[]){*y, one});
    case PTX_FMA: return sign_of_sum(3, (exact[]){*x, *z, minus_t}, (exact[]){*y, one, one});
    case PTX_DIV: return y->sign * sign_of_sum(2, (exact[]){*x, minus_t}, (exact[]){one, *y});
    case PTX_RCP: return x->sign * sign_of_sum(2, (exact[]){one, minus_t}, (exact[]){one, *x});
    case PTX_SQRT: return t.sign < 0 ? 1 : sign_of_sum(2, (exact[]){*x, minus_t}, (exact[]){one, t});
    default: return sign_of_sum(2, (exact[]){*x, minus_t}, (exact[]){one, one}); /* cvt */
    }
}

/* Whether `bits` is the exact result rounded. That is not zero. */
static inline bool is_rounded(const format *f, int opcode, int round, uint64_t bits, const exact *x, const exact *y,
                              const exact *z) {
    exact zero = {1, 0, 0}, lower, upper;
    int sign = compare_result(opcode, x, y, z, zero);
    uint64_t magnitude = magnitude_of(f, bits), infinity = infinity_of(f);
    if (negative_bits(f, bits) != (sign < 0) || magnitude > infinity) return false;
    /* away: the larger of the two neighbours */
    bool away = (round == PTX_RP && sign > 0) || (round == PTX_RM && sign < 0), nearest = round <= PTX_RN;
    if (nearest) {
        lower = magnitude ? halfway(f, magnitude - 1) : zero;
        upper = halfway(f, magnitude);
    } else {
        lower = exact_of(f, magnitude - (magnitude && away)), upper = exact_of(f, magnitude + !away);
    }
    lower.sign = upper.sign = sign;
    int above = sign * compare_result(opcode, x, y, z, lower), below = sign * compare_result(opcode, x, y, z, upper);
    if (magnitude == infinity) return nearest ? above >= 0 : away && above > 0;
    bool unlimited = magnitude == infinity - 1 && !nearest && !away; /* the largest number */
    if (nearest)
        return (above > 0 || (above == 0 && magnitude % 2 == 0)) && (below < 0 || (below == 0 && magnitude % 2 == 0));
    if (away) return above > 0 && below <= 0;
    return above >= 0 && (below < 0 || unlimited);
}

static inline double host_value(const format *f, uint64_t bits) {
    return f->type == PTX_F16    ? (double)ptx_f16(bits)
           : f->type == PTX_BF16 ? (double)ptx_bf16(bits)
           : f->type == PTX_F32  ? (double)ptx_f32(bits)
                                 : ptx_f64(bits);
}
static inline bool is_canonical_nan(const format *f, uint64_t bits) {
    return bits == (f->type == PTX_F64 ? PTX_NAN_F64 : f->type == PTX_F32 ? PTX_NAN_F32 : PTX_NAN_HALF);
}

PTX_UNUSED static const int roundings[] = {PTX_NO_ROUND, PTX_RN, PTX_RZ, PTX_RM, PTX_RP};

#endif
