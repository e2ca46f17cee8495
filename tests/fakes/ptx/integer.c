/* Integer arithmetic (PTX ISA, "Integer Arithmetic Instructions", "Extended-Precision Integer Arithmetic Instructions"). */
#include "fakes/ptx/integer.h"

EACH(add, X + Y)
EACH(subtract, X - Y)
EACH(negate, 0 - X)
EACH(absolute, SX < 0 ? 0 - X : X)
EACH(min_u, X < Y ? X : Y)
EACH(max_u, X > Y ? X : Y)
EACH(min_s, SX < SY ? X : Y)
EACH(max_s, SX > SY ? X : Y)
EACH(multiply, X *Y)
EACH(multiply_add, X *Y + Z)
EACH(sad_u, Z + (X > Y ? X - Y : Y - X))
EACH(sad_s, Z + (SX > SY ? X - Y : Y - X))
/* Division by zero is unspecified: all bits are ones, of the remainder too. The least number by -1 is the least number. */
EACH(divide_u, Y ? X / Y : UINT64_MAX)
EACH(rest_u, Y ? X % Y : UINT64_MAX)
EACH(divide_s, SY == 0 ? -1 : SY == -1 ? (int64_t)(0 - X) : SX / SY)
EACH(rest_s, SY == 0 ? -1 : SY == -1 ? 0 : SX % SY)

#define HIGH_U(bits) (bits == 64 ? (uint64_t)(((unsigned __int128)X * Y) >> 64) : (X * Y) >> bits % 64)
#define HIGH_S(bits)                                    \
    (bits == 64 ? (uint64_t)(((__int128)SX * SY) >> 64) \
                : (uint64_t)((int64_t)((uint64_t)SX * (uint64_t)SY) >> bits % 64))
EACH(high_u, HIGH_U(BITS))
EACH(high_s, HIGH_S(BITS))
EACH(high_add_u, HIGH_U(BITS) + Z)
EACH(high_add_s, HIGH_S(BITS) + Z)

/* .wide: the result has twice the bits. */
PTX_COMPUTE(wide_u_16) { PTX_EACH_LANE(to[i] = (uint64_t)(uint16_t)a[i] * (uint16_t)b[i]); }
PTX_COMPUTE(wide_s_16) { PTX_EACH_LANE(to[i] = (uint32_t)((int32_t)(int16_t)a[i] * (int16_t)b[i])); }
PTX_COMPUTE(wide_u_32) { PTX_EACH_LANE(to[i] = (uint64_t)(uint32_t)a[i] * (uint32_t)b[i]); }
PTX_COMPUTE(wide_s_32) { PTX_EACH_LANE(to[i] = (uint64_t)((int64_t)(int32_t)a[i] * (int32_t)b[i])); }
PTX_COMPUTE(wide_add_u_16) { PTX_EACH_LANE(to[i] = (uint32_t)((uint64_t)(uint16_t)a[i] * (uint16_t)b[i] + c[i])); }
PTX_COMPUTE(wide_add_s_16) {
    PTX_EACH_LANE(to[i] = (uint32_t)((uint64_t)((int64_t)(int16_t)a[i] * (int16_t)b[i]) + c[i]));
}
PTX_COMPUTE(wide_add_u_32) { PTX_EACH_LANE(to[i] = (uint64_t)(uint32_t)a[i] * (uint32_t)b[i] + c[i]); }
PTX_COMPUTE(wide_add_s_32) { PTX_EACH_LANE(to[i] = (uint64_t)((int64_t)(int32_t)a[i] * (int32_t)b[i]) + c[i]); }

/* .sat, of s32 alone. */
static inline uint64_t saturate(int64_t value) {
    return (uint32_t)(value > INT32_MAX ? INT32_MAX : value < INT32_MIN ? INT32_MIN : value);
}
PTX_COMPUTE(add_sat) { PTX_EACH_LANE(to[i] = saturate((int64_t)(int32_t)a[i] + (int32_t)b[i])); }
PTX_COMPUTE(subtract_sat) { PTX_EACH_LANE(to[i] = saturate((int64_t)(int32_t)a[i] - (int32_t)b[i])); }
PTX_COMPUTE(high_add_sat) {
    PTX_EACH_LANE(to[i] = saturate((((int64_t)(int32_t)a[i] * (int32_t)b[i]) >> 32) + (int32_t)c[i]));
}

/* --- carry chains ------------------------------------------------------------------------------------------------------ */

/* The flag of subtractions is the borrow. */
static void chain(const ptx_instruction *instruction, uint64_t *to, const uint64_t *a, const uint64_t *b,
                  const uint64_t *c, uint32_t mask, uint32_t *carry) {
    int bits = ptx_bits(instruction->type), opcode = instruction->opcode;
    uint64_t cut = bits == 64 ? UINT64_MAX : UINT32_MAX;
    bool reads = opcode == PTX_ADDC || opcode == PTX_SUBC || opcode == PTX_MADC;
    for (uint32_t left = mask; left; left &= left - 1) {
        int i = __builtin_ctz(left);
        unsigned __int128 x = a[i] & cut, y = b[i] & cut, in = reads ? *carry >> i & 1 : 0, result;
        if (opcode == PTX_MAD || opcode == PTX_MADC) {
            x *= y;
            if (ptx_is_signed(instruction->type) && instruction->mode == PTX_HI_HALF) { /* of the signed product */
                if (a[i] >> (bits - 1) & 1) x -= (unsigned __int128)(b[i] & cut) << bits;
                if (b[i] >> (bits - 1) & 1) x -= (unsigned __int128)(a[i] & cut) << bits;
            }
            x = (instruction->mode == PTX_HI_HALF ? x >> bits : x) & cut;
            y = c[i] & cut;
        }
        result = opcode == PTX_SUB || opcode == PTX_SUBC ? x - y - in : x + y + in;
        to[i] = (uint64_t)result & cut;
        if (instruction->cc) *carry = (*carry & ~(UINT32_C(1) << i)) | (uint32_t)(result >> bits & 1) << i;
    }
}
PTX_COMPUTE(carry_chain) { chain(instruction, to, a, b, c, mask, carry); }

/* --- 24 bits, sums of four products --------------------------------------------------------------------------------- */

static inline uint64_t product24(const ptx_instruction *instruction, uint64_t x, uint64_t y) {
    int64_t product = ptx_is_signed(instruction->type)
                          ? (int64_t)((int32_t)(uint32_t)(x << 8) >> 8) * ((int32_t)(uint32_t)(y << 8) >> 8)
                          : (int64_t)((x & 0xffffff) * (y & 0xffffff));
    return (uint32_t)(instruction->mode == PTX_HI_HALF ? product >> 16 : product);
}
PTX_COMPUTE(multiply24) { PTX_EACH_LANE(to[i] = product24(instruction, a[i], b[i])); }
PTX_COMPUTE(multiply_add24) {
    PTX_EACH_LANE(uint64_t product = product24(instruction, a[i], b[i]);
                  to[i] = instruction->sat ? saturate((int64_t)(int32_t)product + (int32_t)c[i])
                                           : (uint32_t)(product + c[i]));
}
static inline int64_t byte_of(uint64_t word, int number, bool is_signed) {
    uint8_t byte = (uint8_t)(word >> (8 * number));
    return is_signed ? (int8_t)byte : byte;
}
PTX_COMPUTE(four_products) {
    bool x = ptx_is_signed(instruction->type), y = ptx_is_signed(instruction->type2);
    PTX_EACH_LANE(int64_t sum = (int64_t)(uint32_t)c[i];
                  for (int n = 0; n < 4; n++) sum += byte_of(a[i], n, x) * byte_of(b[i], n, y); to[i] = (uint32_t)sum);
}

/* --- which ---------------------------------------------------------------------------------------------------------- */

static ptx_compute *product_of(int mode, int bits, bool is_signed) {
    if (mode == PTX_WIDE && bits == 16) return is_signed ? wide_s_16 : wide_u_16;
    if (mode == PTX_WIDE) return bits != 32 ? NULL : is_signed ? wide_s_32 : wide_u_32;
    if (mode == PTX_HI_HALF) return is_signed ? PICK(high_s) : PICK(high_u);
    return PICK(multiply);
}
static ptx_compute *product_sum_of(int mode, int bits, bool is_signed) {
    if (mode == PTX_WIDE && bits == 16) return is_signed ? wide_add_s_16 : wide_add_u_16;
    if (mode == PTX_WIDE) return bits != 32 ? NULL : is_signed ? wide_add_s_32 : wide_add_u_32;
    if (mode == PTX_HI_HALF) return is_signed ? PICK(high_add_s) : PICK(high_add_u);
    return PICK(multiply_add);
}

ptx_compute *ptx_integer_of(const ptx_instruction *instruction) {
    int bits = ptx_bits(instruction->type), opcode = instruction->opcode, mode = instruction->mode;
    bool is_signed = ptx_is_signed(instruction->type), s32 = instruction->type == PTX_S32;
    if ((instruction->sat && !s32) || instruction->relu) return NULL;
    if (instruction->cc || opcode == PTX_ADDC || opcode == PTX_SUBC || opcode == PTX_MADC)
        return bits >= 32 && mode != PTX_WIDE &&
                       (opcode == PTX_ADD || opcode == PTX_SUB || opcode == PTX_MAD || opcode == PTX_ADDC ||
                        opcode == PTX_SUBC || opcode == PTX_MADC)
                   ? carry_chain
                   : NULL;
    switch (opcode) {
    case PTX_ADD: return instruction->sat ? add_sat : PICK(add);
    case PTX_SUB: return instruction->sat ? subtract_sat : PICK(subtract);
    case PTX_MUL: return product_of(mode, bits, is_signed);
    case PTX_MAD:
        if (instruction->sat) return mode == PTX_HI_HALF ? high_add_sat : NULL;
        return product_sum_of(mode, bits, is_signed);
    case PTX_DIV: return is_signed ? PICK(divide_s) : PICK(divide_u);
    case PTX_REM: return is_signed ? PICK(rest_s) : PICK(rest_u);
    case PTX_NEG: return PICK(negate);
    case PTX_ABS: return PICK(absolute);
    case PTX_MIN: return is_signed ? PICK(min_s) : PICK(min_u);
    case PTX_MAX: return is_signed ? PICK(max_s) : PICK(max_u);
    case PTX_SAD: return is_signed ? PICK(sad_s) : PICK(sad_u);
    case PTX_MUL24: return bits == 32 ? multiply24 : NULL;
    case PTX_MAD24: return bits == 32 ? multiply_add24 : NULL;
    case PTX_DP4A: return bits == 32 ? four_products : NULL;
    default: return NULL;
    }
}
