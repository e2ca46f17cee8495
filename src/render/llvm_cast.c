/* Conversions between dtypes: the rules of ir/half.h and of `cast` (reference/operand.c) on vectors. */
#include "ir/dtype.h"
#include "ir/half.h"
#include "render/llvm_writer.h"

#define OP(operation, type, x, y) bti_llvm_op(w, operation, type, x, y)
#define INT(operation, type, x, y) bti_llvm_op_int(w, operation, type, x, (int64_t)(y))
#define SELECT(type, condition, x, y) bti_llvm_select(w, type, condition, x, y)
#define BITS(from, x, to) bti_llvm_convert(w, "bitcast", from, x, to)

static bool halves_in_hardware(bti_target target) { return target != BTI_LLVM_SSE2; }

/* --- small floats ------------------------------------------------------------------------------------------------- */

static bti_temp f32_of_bf16(bti_llvm *w, bti_temp bits) {
    bti_temp whole = bti_llvm_convert(w, "zext", BTI_LLVM_I16, bits, BTI_LLVM_I32);
    return BITS(BTI_LLVM_I32, INT("shl", BTI_LLVM_I32, whole, 16), BTI_LLVM_F32);
}

static bti_temp f32_of_f16(bti_llvm *w, bti_temp bits) {
    const bti_llvm_type i32 = BTI_LLVM_I32, f32 = BTI_LLVM_F32;
    bti_temp all = bti_llvm_convert(w, "zext", BTI_LLVM_I16, bits, i32);
    bti_temp sign = INT("shl", i32, INT("and", i32, all, 0x8000), 16), rest = INT("and", i32, all, 0x7FFF);
    bti_temp mantissa = INT("shl", i32, rest, 13);
    bti_temp normal = INT("add", i32, mantissa, (127 - 15) << 23);
    bti_temp special = INT("add", i32, mantissa, (255 - 31) << 23);
    bti_temp tiny = bti_llvm_op_real(w, "fmul", f32, bti_llvm_convert(w, "sitofp", i32, rest, f32), 0x1p-24);
    bti_temp quiet = SELECT(i32, INT("icmp ugt", i32, rest, 0x7C00), INT("or", i32, special, 0x400000), special);
    bti_temp large = SELECT(i32, INT("icmp uge", i32, rest, 0x7C00), quiet, normal);
    bti_temp magnitude = SELECT(i32, INT("icmp ult", i32, rest, 0x0400), BITS(f32, tiny, i32), large);
    return BITS(i32, OP("or", i32, sign, magnitude), f32);
}

bti_temp bti_llvm_f32_of(bti_llvm *w, bt_dtype small, bti_temp bits) {
    if (small == BT_BF16) return f32_of_bf16(w, bits);
    if (!halves_in_hardware(w->target)) return f32_of_f16(w, bits);
    return bti_llvm_convert(w, "fpext", BTI_LLVM_HALF, BITS(BTI_LLVM_I16, bits, BTI_LLVM_HALF), BTI_LLVM_F32);
}

/* The numbers of ir/half.h for one small float and the wider float it is made from. */
typedef struct narrowing {
    int dropped;              /* bits of the mantissa that are dropped */
    uint64_t infinite, least; /* bits of the first value past the range, and of the least normal one */
    uint64_t unit;            /* bits of the number whose addition rounds a subnormal result */
    uint64_t bias;            /* difference of the exponents' biases, at the position of the wider exponent */
    uint64_t infinity, quiet, payload;
} narrowing;

static narrowing narrowing_of(bt_dtype small, bool from_f64) {
    narrowing n;
    bool half = small == BT_F16;
    int fraction = half ? 10 : 7, bias = half ? 15 : 127;
    n.infinity = half ? 0x7C00 : 0x7F80, n.quiet = half ? 0x7E00 : 0x7FC0, n.payload = half ? 0x3FF : 0x7F;
    if (from_f64) {
        n.dropped = 52 - fraction;
        n.infinite = bti_f64_bits(half ? 0x1p16 : 0x1p128), n.least = bti_f64_bits(half ? 0x1p-14 : 0x1p-126);
        n.unit = bti_f64_bits(half ? 0x1p28 : 0x1p-81), n.bias = (uint64_t)(1023 - bias) << 52;
    } else {
        n.dropped = 23 - fraction;
        n.infinite = bti_f32_bits(0x1p16f), n.least = bti_f32_bits(0x1p-14f);
        n.unit = bti_f32_bits(0x1p-1f), n.bias = (uint64_t)(127 - bias) << 23;
    }
    return n;
}

static bti_temp narrowed(bti_llvm *w, bt_dtype small, bti_llvm_type from, bti_temp x) {
    bool wide = from == BTI_LLVM_F64;
    const bti_llvm_type whole = wide ? BTI_LLVM_I64 : BTI_LLVM_I32;
    const narrowing n = narrowing_of(small, wide);
    bti_temp bits = BITS(from, x, whole), sign = INT("lshr", whole, bits, wide ? 48 : 16);
    bti_temp rest = INT("and", whole, bits, wide ? INT64_MAX : INT32_MAX),
             shifted = INT("lshr", whole, rest, n.dropped);
    bti_temp up = OP("add", whole, rest, INT("and", whole, shifted, 1));
    up = INT("add", whole, up, (UINT64_C(1) << (n.dropped - 1)) - 1 - n.bias);
    bti_temp normal = INT("lshr", whole, up, n.dropped);
    bti_temp unit = BITS(whole, bti_llvm_int(w, whole, (int64_t)n.unit), from);
    bti_temp sum = OP("fadd", from, BITS(whole, rest, from), unit);
    bti_temp tiny = INT("sub", whole, BITS(from, sum, whole), n.unit);
    bti_temp nan = INT("or", whole, INT("and", whole, shifted, n.payload), n.quiet);
    bti_temp result = SELECT(whole, INT("icmp ult", whole, rest, n.least), tiny, normal);
    result =
        SELECT(whole, INT("icmp uge", whole, rest, n.infinite), bti_llvm_int(w, whole, (int64_t)n.infinity), result);
    result = SELECT(whole, OP("fcmp uno", from, x, x), nan, result);
    result = OP("or", whole, result, INT("and", whole, sign, 0x8000));
    return bti_llvm_convert(w, "trunc", whole, result, BTI_LLVM_I16);
}

static bti_temp bf16_of_f32(bti_llvm *w, bti_temp x) {
    const bti_llvm_type i32 = BTI_LLVM_I32;
    bti_temp bits = BITS(BTI_LLVM_F32, x, i32), high = INT("lshr", i32, bits, 16);
    bti_temp up = OP("add", i32, INT("add", i32, bits, 0x7FFF), INT("and", i32, high, 1));
    bti_temp nan = INT("or", i32, high, 0x40);
    bti_temp result = SELECT(i32, OP("fcmp uno", BTI_LLVM_F32, x, x), nan, INT("lshr", i32, up, 16));
    return bti_llvm_convert(w, "trunc", i32, result, BTI_LLVM_I16);
}

bti_temp bti_llvm_small_of(bti_llvm *w, bt_dtype small, bti_llvm_type from, bti_temp x) {
    if (from == BTI_LLVM_F64) return narrowed(w, small, from, x);
    if (small == BT_BF16) return bf16_of_f32(w, x);
    if (!halves_in_hardware(w->target)) return narrowed(w, small, from, x);
    return BITS(BTI_LLVM_HALF, bti_llvm_convert(w, "fptrunc", from, x, BTI_LLVM_HALF), BTI_LLVM_I16);
}

bti_temp bti_llvm_rounded(bti_llvm *w, bti_temp x, bt_dtype to) {
    if (to == BT_F64) return x;
    if (to == BT_F32) return bti_llvm_convert(w, "fptrunc", BTI_LLVM_F64, x, BTI_LLVM_F32);
    return bti_llvm_small_of(w, to, BTI_LLVM_F64, x);
}

/* --- casts -------------------------------------------------------------------------------------------------------- */

static double power_of_two(int exponent) { return bti_f64_of_bits((uint64_t)(1023 + exponent) << 52); }

/* Toward zero, saturating, NaN to 0. Values out of range are replaced before the conversion, where they would be undefined. */
static bti_temp whole_of_float(bti_llvm *w, bti_llvm_type from, bti_temp x, bt_dtype to) {
    bti_llvm_type type = bti_llvm_own(to), whole = bti_llvm_bits(type) < 32 ? BTI_LLVM_I32 : type;
    bool is_signed = bti_dtype_is_signed(to);
    int bits = bti_llvm_bits(type) - is_signed;
    int64_t greatest = (int64_t)(UINT64_MAX >> (64 - bits)), least = is_signed ? -greatest - 1 : 0;
    bti_temp low = bti_llvm_real(w, from, is_signed ? -power_of_two(bits) : 0), zero = bti_llvm_real(w, from, 0);
    bti_temp above = bti_llvm_op_real(w, "fcmp oge", from, x, power_of_two(bits));
    bti_temp inside = SELECT(from, OP("fcmp ogt", from, x, low), x, low);
    inside = SELECT(from, OP("fcmp uno", from, x, x), zero, SELECT(from, above, zero, inside));
    bool unsigned_op = !is_signed && bits >= 32;
    bti_temp result = bti_llvm_convert(w, unsigned_op ? "fptoui" : "fptosi", from, inside, whole);
    (void)least;
    result = SELECT(whole, above, bti_llvm_int(w, whole, greatest), result);
    return bti_llvm_resize(w, whole, result, type, false);
}

/* An integer of 64 bits as a float64 that rounds to the same bfloat16 (as odd_f64 in reference/operand.c). */
static bti_temp f64_for_bf16(bti_llvm *w, bti_temp x, bool is_signed) {
    const bti_llvm_type i64 = BTI_LLVM_I64, f64 = BTI_LLVM_F64;
    bti_temp zero = bti_llvm_int(w, i64, 0), negative = BTI_NO_TEMP, magnitude = x;
    if (is_signed) {
        negative = OP("icmp slt", i64, x, zero);
        magnitude = SELECT(i64, negative, OP("sub", i64, zero, x), x);
    }
    bti_temp lost = OP("icmp ne", i64, INT("and", i64, magnitude, 0x7FF), zero);
    bti_temp kept = INT("and", i64, magnitude, ~INT64_C(0x7FF));
    bti_temp marked = OP("or", i64, kept, INT("shl", i64, bti_llvm_convert(w, "zext", BTI_LLVM_I1, lost, i64), 11));
    bti_temp large = OP("icmp ne", i64, INT("lshr", i64, magnitude, 53), zero);
    bti_temp result = bti_llvm_convert(w, "uitofp", i64, SELECT(i64, large, marked, magnitude), f64);
    if (!is_signed) return result;
    return SELECT(f64, negative, bti_llvm_op(w, "fsub", f64, bti_llvm_real(w, f64, -0.0), result), result);
}

static bti_temp float_of_whole(bti_llvm *w, bt_dtype from, bti_temp x, bt_dtype to) {
    bti_llvm_type type = bti_llvm_own(from);
    bool is_signed = bti_dtype_is_signed(from);
    const char *operation = is_signed ? "sitofp" : "uitofp";
    if (!bti_llvm_is_small(to)) return bti_llvm_convert(w, operation, type, x, bti_llvm_own(to));
    if (bti_llvm_bits(type) <= 16)
        return bti_llvm_small_of(w, to, BTI_LLVM_F32, bti_llvm_convert(w, operation, type, x, BTI_LLVM_F32));
    bti_temp wide = type == BTI_LLVM_I64 && to == BT_BF16 ? f64_for_bf16(w, x, is_signed)
                                                          : bti_llvm_convert(w, operation, type, x, BTI_LLVM_F64);
    return bti_llvm_small_of(w, to, BTI_LLVM_F64, wide);
}

static bti_temp float_of_float(bti_llvm *w, bti_llvm_type from, bti_temp x, bt_dtype to) {
    if (bti_llvm_is_small(to)) return bti_llvm_small_of(w, to, from, x);
    if (bti_llvm_own(to) == from) return x;
    return bti_llvm_convert(w, to == BT_F64 ? "fpext" : "fptrunc", from, x, bti_llvm_own(to));
}

bti_temp bti_llvm_cast(bti_llvm *w, bt_dtype from, bti_temp x, bt_dtype to) {
    bti_llvm_type type = bti_llvm_wide(from);
    if (bti_llvm_is_float(type)) {
        if (to == BT_BOOL) return bti_llvm_op_real(w, "fcmp une", type, x, 0);
        return bti_dtype_is_float(to) ? float_of_float(w, type, x, to) : whole_of_float(w, type, x, to);
    }
    if (to == BT_BOOL) return from == BT_BOOL ? x : INT("icmp ne", type, x, 0);
    if (bti_dtype_is_float(to)) return float_of_whole(w, from, x, to);
    return bti_llvm_resize(w, type, x, bti_llvm_own(to), bti_dtype_is_signed(from));
}
