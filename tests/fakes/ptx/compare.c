/* Comparisons and selections (PTX ISA, "Comparison and Selection Instructions", "testp"). */
#include "fakes/ptx/lanes.h"

enum { LESS = 1, EQUAL = 2, GREATER = 4, UNORDERED = 8 };

/* The relations that a comparison accepts. */
static int accepted(int compare) {
    switch (compare) {
    case PTX_EQ: return EQUAL;
    case PTX_NE: return LESS | GREATER;
    case PTX_LO:
    case PTX_LT: return LESS;
    case PTX_LS:
    case PTX_LE: return LESS | EQUAL;
    case PTX_HI:
    case PTX_GT: return GREATER;
    case PTX_HS:
    case PTX_GE: return GREATER | EQUAL;
    case PTX_EQU: return EQUAL | UNORDERED;
    case PTX_NEU: return LESS | GREATER | UNORDERED;
    case PTX_LTU: return LESS | UNORDERED;
    case PTX_LEU: return LESS | EQUAL | UNORDERED;
    case PTX_GTU: return GREATER | UNORDERED;
    case PTX_GEU: return GREATER | EQUAL | UNORDERED;
    case PTX_NUM: return LESS | EQUAL | GREATER;
    case PTX_NAN: return UNORDERED;
    default: return 0;
    }
}

/* Writes 0 or 1 for all lanes. */
typedef void relate(const ptx_instruction *instruction, uint64_t *to, const uint64_t *a, const uint64_t *b);
#define RELATE(name, type, load)                                                                     \
    static void name(PTX_UNUSED const ptx_instruction *instruction, uint64_t *to, const uint64_t *a, \
                     const uint64_t *b) {                                                            \
        const int accept = accepted(instruction->compare);                                           \
        PTX_VECTOR                                                                                   \
        for (int i = 0; i < PTX_WARP; i++) {                                                         \
            const type x = load(a[i]), y = load(b[i]);                                               \
            const int relation = (x < y) * LESS | (x == y) * EQUAL | (x > y) * GREATER;              \
            to[i] = ((relation ? relation : UNORDERED) & accept) != 0;                               \
        }                                                                                            \
    }
static inline float load_f32_ftz(uint64_t bits) { return ptx_f32(ptx_flush_f32(bits)); }
static inline float load_f16_ftz(uint64_t bits) { return ptx_f16(bits & 0x7c00 ? bits : bits & 0x8000); }
RELATE(relate_u16, uint16_t, (uint16_t))
RELATE(relate_u32, uint32_t, (uint32_t))
RELATE(relate_u64, uint64_t, )
RELATE(relate_s16, int16_t, (int16_t))
RELATE(relate_s32, int32_t, (int32_t))
RELATE(relate_s64, int64_t, (int64_t))
RELATE(relate_f32, float, ptx_f32)
RELATE(relate_f32_ftz, float, load_f32_ftz)
RELATE(relate_f64, double, ptx_f64)
RELATE(relate_f16, float, ptx_f16)
RELATE(relate_f16_ftz, float, load_f16_ftz)
RELATE(relate_bf16, float, ptx_bf16)

static relate *relation_of(int type, bool ftz, int compare) {
    bool is_signed =
        ptx_is_signed(type) && compare != PTX_LO && compare != PTX_LS && compare != PTX_HI && compare != PTX_HS;
    switch (type) {
    case PTX_F32: return ftz ? relate_f32_ftz : relate_f32;
    case PTX_F64: return relate_f64;
    case PTX_F16:
    case PTX_F16X2: return ftz ? relate_f16_ftz : relate_f16;
    case PTX_BF16:
    case PTX_BF16X2: return relate_bf16;
    default: break;
    }
    switch (ptx_bits(type)) {
    case 16: return is_signed ? relate_s16 : relate_u16;
    case 32: return is_signed ? relate_s32 : relate_u32;
    case 64: return is_signed ? relate_s64 : relate_u64;
    default: return NULL;
    }
}

static inline uint64_t combined(int combine, uint64_t x, uint64_t y) {
    return combine == PTX_DO_AND ? x & y : combine == PTX_DO_OR ? x | y : combine == PTX_DO_XOR ? x ^ y : x;
}

/* --- setp, set ------------------------------------------------------------------------------------------------------- */

PTX_COMPUTE(setp) {
    uint64_t result[PTX_WARP];
    const int combine = instruction->combine;
    relation_of(instruction->type, instruction->ftz, instruction->compare)(instruction, result, a, b);
    if (!combine && mask == UINT32_MAX && to && !to2) {
        memcpy(to, result, sizeof result);
        return;
    }
    PTX_EACH_LANE(const uint64_t third = combine ? c[i] & 1 : 0; if (to) to[i] = combined(combine, result[i], third);
                  if (to2) to2[i] = combined(combine, !result[i], third));
}
/* Both halves of pairs: a predicate each. */
PTX_COMPUTE(setp_pair) {
    uint64_t low[PTX_WARP], high[PTX_WARP], x[PTX_WARP], y[PTX_WARP];
    relate *relation = relation_of(instruction->type, instruction->ftz, instruction->compare);
    relation(instruction, low, a, b);
    for (int i = 0; i < PTX_WARP; i++) x[i] = a[i] >> 16, y[i] = b[i] >> 16;
    relation(instruction, high, x, y);
    const int combine = instruction->combine;
    PTX_EACH_LANE(const uint64_t third = combine ? c[i] & 1 : 0; if (to) to[i] = combined(combine, low[i], third);
                  if (to2) to2[i] = combined(combine, high[i], third));
}

static inline uint64_t true_of(int type) {
    return type == PTX_F32        ? 0x3f800000
           : type == PTX_F16      ? 0x3c00
           : type == PTX_BF16     ? 0x3f80
           : ptx_bits(type) == 16 ? 0xffff
                                  : 0xffffffff;
}
PTX_COMPUTE(set) {
    uint64_t result[PTX_WARP];
    const int combine = instruction->combine;
    const uint64_t yes = true_of(instruction->type);
    int source = instruction->type2 ? instruction->type2 : instruction->type;
    relation_of(source, instruction->ftz, instruction->compare)(instruction, result, a, b);
    PTX_EACH_LANE(const uint64_t third = combine ? c[i] & 1 : 0; to[i] = combined(combine, result[i], third) ? yes : 0);
}

/* --- selp, slct ------------------------------------------------------------------------------------------------------- */

PTX_COMPUTE(selp_16) { PTX_EACH_LANE(to[i] = (uint16_t)(c[i] & 1 ? a[i] : b[i])); }
PTX_COMPUTE(selp_32) { PTX_EACH_LANE(to[i] = (uint32_t)(c[i] & 1 ? a[i] : b[i])); }
PTX_COMPUTE(selp_64) { PTX_EACH_LANE(to[i] = c[i] & 1 ? a[i] : b[i]); }
PTX_COMPUTE(slct) { /* a where c >= 0, -0 too; a NaN is not */
    const uint64_t cut = ptx_bits(instruction->type) == 64   ? UINT64_MAX
                         : ptx_bits(instruction->type) == 32 ? UINT32_MAX
                                                             : UINT16_MAX;
    const bool is_float = instruction->type2 == PTX_F32;
    PTX_EACH_LANE(to[i] =
                      ((is_float ? (instruction->ftz ? load_f32_ftz(c[i]) : ptx_f32(c[i])) >= 0 : (int32_t)c[i] >= 0)
                           ? a[i]
                           : b[i]) &
                      cut);
}

/* --- testp ------------------------------------------------------------------------------------------------------------ */

static inline bool tested(int test, uint64_t magnitude, uint64_t infinity, uint64_t least_normal) {
    switch (test) {
    case PTX_FINITE: return magnitude < infinity;
    case PTX_INFINITE: return magnitude == infinity;
    case PTX_NUM: return magnitude <= infinity;
    case PTX_NAN: return magnitude > infinity;
    case PTX_NORMAL:
        return magnitude < infinity && (magnitude >= least_normal || !magnitude); /* zero counts as normal */
    default: return magnitude < least_normal && magnitude;
    }
}
PTX_COMPUTE(testp_f32) {
    PTX_EACH_LANE(to[i] = tested(instruction->compare, a[i] & 0x7fffffff, 0x7f800000, 0x00800000));
}
PTX_COMPUTE(testp_f64) {
    PTX_EACH_LANE(to[i] = tested(instruction->compare, a[i] & INT64_MAX, UINT64_C(0x7ff) << 52, UINT64_C(1) << 52));
}

/* --- which ---------------------------------------------------------------------------------------------------------- */

ptx_compute *ptx_compare_of(const ptx_instruction *instruction) {
    int type = instruction->type, bits = ptx_bits(type), source = instruction->type2 ? instruction->type2 : type;
    bool known = accepted(instruction->compare) != 0;
    switch (instruction->opcode) {
    case PTX_SETP:
        if (!known || !relation_of(type, false, PTX_EQ)) return NULL;
        return type == PTX_F16X2 || type == PTX_BF16X2 ? setp_pair : setp;
    case PTX_SET:
        if (!known || !relation_of(source, false, PTX_EQ) || source == PTX_F16X2 || source == PTX_BF16X2) return NULL;
        return bits == 32 || bits == 16 ? set : NULL;
    case PTX_SELP: return bits == 16 ? selp_16 : bits == 32 ? selp_32 : bits == 64 ? selp_64 : NULL;
    case PTX_SLCT: return bits >= 16 && (source == PTX_S32 || source == PTX_F32) ? slct : NULL;
    case PTX_TESTP:
        if (instruction->compare < PTX_NUM) return NULL;
        return type == PTX_F32 ? testp_f32 : type == PTX_F64 ? testp_f64 : NULL;
    default: return NULL;
    }
}
