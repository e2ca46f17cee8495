/* Moves, logic, shifts, fields of bits (PTX ISA, "Logic and Shift Instructions", "Integer Arithmetic Instructions" from popc on). */
#include "fakes/ptx/integer.h"

EACH(move, X)
EACH(and, X &Y)
EACH(or, X | Y)
EACH(xor, X ^ Y)
EACH(not, ~X)
EACH(cnot, X == 0)
/* Amounts above the width count as the width. */
#define AMOUNT ((uint32_t)b[i])
EACH(left, AMOUNT < BITS ? X << AMOUNT % BITS : 0)
EACH(right_u, AMOUNT < BITS ? X >> AMOUNT % BITS : 0)
EACH(right_s, (uint64_t)(SX >> (AMOUNT < BITS ? AMOUNT % BITS : BITS - 1)))

/* Predicates are 0 or 1. */
PTX_COMPUTE(move_pred) { PTX_EACH_LANE(to[i] = a[i] & 1); }
PTX_COMPUTE(and_pred) { PTX_EACH_LANE(to[i] = a[i] & b[i] & 1); }
PTX_COMPUTE(or_pred) { PTX_EACH_LANE(to[i] = (a[i] | b[i]) & 1); }
PTX_COMPUTE(xor_pred) { PTX_EACH_LANE(to[i] = (a[i] ^ b[i]) & 1); }
PTX_COMPUTE(not_pred) { PTX_EACH_LANE(to[i] = ~a[i] & 1); }

/* Bit 4 x + 2 y + z of the table is the result for the bits x, y, z. */
PTX_COMPUTE(lop3) {
    uint64_t term[8];
    for (int k = 0; k < 8; k++) term[k] = (instruction->from[3].value >> k & 1) ? UINT32_MAX : 0;
    PTX_EACH_LANE(uint64_t x = a[i]; uint64_t y = b[i]; uint64_t z = c[i];
                  to[i] = (term[0] & ~x & ~y & ~z) | (term[1] & ~x & ~y & z) | (term[2] & ~x & y & ~z) |
                          (term[3] & ~x & y & z) | (term[4] & x & ~y & ~z) | (term[5] & x & ~y & z) |
                          (term[6] & x & y & ~z) | (term[7] & x & y & z));
}

/* Funnel shifts of the 64 bits b:a. */
PTX_COMPUTE(funnel_left) {
    bool clamp = instruction->clamp == PTX_CLAMP;
    PTX_EACH_LANE(uint32_t n = (uint32_t)c[i]; n = clamp ? (n > 32 ? 32 : n) : (n & 31);
                  uint64_t both = b[i] << 32 | (uint32_t)a[i]; to[i] = (uint32_t)(both << n >> 32));
}
PTX_COMPUTE(funnel_right) {
    bool clamp = instruction->clamp == PTX_CLAMP;
    PTX_EACH_LANE(uint32_t n = (uint32_t)c[i]; n = clamp ? (n > 32 ? 32 : n) : (n & 31);
                  uint64_t both = b[i] << 32 | (uint32_t)a[i]; to[i] = (uint32_t)(both >> n));
}

/* The selectors of prmt's modes, by the lowest bits of the selection (PTX ISA, "prmt"). */
static uint32_t permutation(int mode, uint32_t selection) {
    static const uint16_t f4e[4] = {0x3210, 0x4321, 0x5432, 0x6543}, b4e[4] = {0x5670, 0x6701, 0x7012, 0x0123},
                          rc8[4] = {0x0000, 0x1111, 0x2222, 0x3333}, ecl[4] = {0x3210, 0x3211, 0x3222, 0x3333},
                          ecr[4] = {0x0000, 0x1110, 0x2210, 0x3210}, rc16[4] = {0x1010, 0x3232, 0x1010, 0x3232};
    switch (mode) {
    case PTX_PRMT_F4E: return f4e[selection & 3];
    case PTX_PRMT_B4E: return b4e[selection & 3];
    case PTX_PRMT_RC8: return rc8[selection & 3];
    case PTX_PRMT_ECL: return ecl[selection & 3];
    case PTX_PRMT_ECR: return ecr[selection & 3];
    case PTX_PRMT_RC16: return rc16[selection & 3];
    default: return selection;
    }
}
static uint32_t permute(uint64_t bytes, uint32_t selectors) {
    uint32_t result = 0;
    for (int n = 0; n < 4; n++) {
        uint32_t selector = selectors >> (4 * n) & 15, byte = (uint32_t)(bytes >> (8 * (selector & 7))) & 255;
        if (selector & 8) byte = byte & 128 ? 255 : 0; /* its sign, eight times */
        result |= byte << (8 * n);
    }
    return result;
}
PTX_COMPUTE(prmt) {
    PTX_EACH_LANE(to[i] = permute(b[i] << 32 | (uint32_t)a[i], permutation(instruction->mode, (uint32_t)c[i])));
}

/* --- fields ------------------------------------------------------------------------------------------------------------ */

static inline uint64_t ones(uint32_t count) { return count >= 64 ? UINT64_MAX : (UINT64_C(1) << count) - 1; }

/* Positions and lengths are 8 bits. */
static inline uint64_t insert(uint64_t field, uint64_t into, uint64_t position, uint64_t length, int bits) {
    uint32_t at = position & 255, count = length & 255;
    if (at >= (uint32_t)bits) return into & ones((uint32_t)bits);
    uint64_t place = ones(count) << at;
    return ((field << at & place) | (into & ~place)) & ones((uint32_t)bits);
}
PTX_COMPUTE(bfi) {
    int bits = ptx_bits(instruction->type);
    PTX_EACH_LANE(to[i] = insert(a[i], b[i], c[i], d[i], bits));
}
/* Bits above the number are its sign, or zero. */
static inline uint64_t extract(uint64_t from, uint64_t position, uint64_t length, int bits, bool is_signed) {
    uint32_t at = position & 255, count = length & 255, top = at + count - 1, width = (uint32_t)bits;
    if (count == 0) return 0;
    if (top > width - 1) top = width - 1;
    bool sign = is_signed && (from >> top & 1);
    uint64_t field = at >= width ? 0 : (from & ones(width)) >> at & ones(count);
    if (sign) field |= at >= width ? UINT64_MAX : ~ones(top - at + 1);
    return field & ones(width);
}
PTX_COMPUTE(bfe) {
    int bits = ptx_bits(instruction->type);
    bool is_signed = ptx_is_signed(instruction->type);
    PTX_EACH_LANE(to[i] = extract(a[i], b[i], c[i], bits, is_signed));
}
PTX_COMPUTE(popc_32) { PTX_EACH_LANE(to[i] = (uint64_t)__builtin_popcount((uint32_t)a[i])); }
PTX_COMPUTE(popc_64) { PTX_EACH_LANE(to[i] = (uint64_t)__builtin_popcountll(a[i])); }
PTX_COMPUTE(clz_32) { PTX_EACH_LANE(to[i] = (uint32_t)a[i] ? (uint64_t)__builtin_clz((uint32_t)a[i]) : 32); }
PTX_COMPUTE(clz_64) { PTX_EACH_LANE(to[i] = a[i] ? (uint64_t)__builtin_clzll(a[i]) : 64); }
static inline uint64_t reversed(uint64_t x) {
    x = (x >> 1 & UINT64_C(0x5555555555555555)) | (x & UINT64_C(0x5555555555555555)) << 1;
    x = (x >> 2 & UINT64_C(0x3333333333333333)) | (x & UINT64_C(0x3333333333333333)) << 2;
    x = (x >> 4 & UINT64_C(0x0f0f0f0f0f0f0f0f)) | (x & UINT64_C(0x0f0f0f0f0f0f0f0f)) << 4;
    return __builtin_bswap64(x);
}
PTX_COMPUTE(brev_32) { PTX_EACH_LANE(to[i] = reversed((uint32_t)a[i]) >> 32); }
PTX_COMPUTE(brev_64) { PTX_EACH_LANE(to[i] = reversed(a[i])); }
/* The place of the highest bit that is not the sign; all ones: none. With .shiftamt the amount that shifts it to the top. */
static inline uint64_t highest(uint64_t x, int bits, bool is_signed, bool amount) {
    if (is_signed && (x >> (bits - 1) & 1)) x = ~x;
    x &= ones((uint32_t)bits);
    if (!x) return UINT32_MAX;
    uint64_t place = 63 - (uint64_t)__builtin_clzll(x);
    return amount ? (uint64_t)bits - 1 - place : place;
}
PTX_COMPUTE(bfind) {
    int bits = ptx_bits(instruction->type);
    bool is_signed = ptx_is_signed(instruction->type), amount = instruction->mode == PTX_SHIFTAMT;
    PTX_EACH_LANE(to[i] = highest(a[i], bits, is_signed, amount));
}

/* --- which ---------------------------------------------------------------------------------------------------------- */

static ptx_compute *predicates_of(int opcode) {
    return opcode == PTX_MOV   ? move_pred
           : opcode == PTX_AND ? and_pred
           : opcode == PTX_OR  ? or_pred
           : opcode == PTX_XOR ? xor_pred
           : opcode == PTX_NOT ? not_pred
                               : NULL;
}

ptx_compute *ptx_bits_of(const ptx_instruction *instruction) {
    int bits = ptx_bits(instruction->type);
    if (instruction->type == PTX_PRED) return predicates_of(instruction->opcode);
    bool wide = bits == 64;
    switch (instruction->opcode) {
    case PTX_MOV: return PICK(move);
    case PTX_AND: return PICK(and);
    case PTX_OR: return PICK(or);
    case PTX_XOR: return PICK(xor);
    case PTX_NOT: return PICK(not );
    case PTX_CNOT: return PICK(cnot);
    case PTX_SHL: return PICK(left);
    case PTX_SHR: return ptx_is_signed(instruction->type) ? PICK(right_s) : PICK(right_u);
    default: break;
    }
    if (bits < 32) return NULL;
    switch (instruction->opcode) {
    case PTX_LOP3: return wide ? NULL : lop3;
    case PTX_SHF: return wide ? NULL : instruction->mode == PTX_SHF_L ? funnel_left : funnel_right;
    case PTX_PRMT: return wide ? NULL : prmt;
    case PTX_BFI: return bfi;
    case PTX_BFE: return bfe;
    case PTX_POPC: return wide ? popc_64 : popc_32;
    case PTX_CLZ: return wide ? clz_64 : clz_32;
    case PTX_BREV: return wide ? brev_64 : brev_32;
    case PTX_BFIND: return bfind;
    default: return NULL;
    }
}
