/* Elementwise instructions: ir/scalar.def as LLVM instructions, for the current lanes. */
#include <math.h>

#include "ir/dtype.h"
#include "ir/half.h"
#include "render/llvm_writer.h"

#define OP(operation, x, y) bti_llvm_op(w, operation, type, x, y)
#define REAL(operation, x, y) bti_llvm_op_real(w, operation, type, x, y)
#define INT(operation, x, y) bti_llvm_op_int(w, operation, type, x, y)
#define SELECT(condition, x, y) bti_llvm_select(w, type, condition, x, y)
#define WHOLE(number) bti_llvm_int(w, type, number)
#define INTRINSIC(name, ...)                                                                     \
    bti_llvm_intrinsic(w, name, type, (int)(sizeof(bti_temp[]){__VA_ARGS__} / sizeof(bti_temp)), \
                       (bti_temp[]){__VA_ARGS__})

bti_temp bti_llvm_held(const bti_llvm *w, int instr) { return w->value[instr].own[w->lanes > 1]; }

bti_temp bti_llvm_operand(const bti_llvm *w, int instr) {
    const bti_llvm_value *value = &w->value[instr];
    return (bti_llvm_is_small((bt_dtype)w->kernel->instrs[instr].dtype) ? value->wide : value->own)[w->lanes > 1];
}

void bti_llvm_set(bti_llvm *w, int instr, bti_temp held) {
    bt_dtype dtype = (bt_dtype)w->kernel->instrs[instr].dtype;
    bti_llvm_value *value = &w->value[instr];
    value->own[w->lanes > 1] = held;
    if (bti_llvm_is_small(dtype)) value->wide[w->lanes > 1] = bti_llvm_f32_of(w, dtype, held);
    if (w->lanes > 1 || !w->splat[instr]) return;
    value->own[1] = bti_llvm_splat(w, bti_llvm_own(dtype), held, w->vector);
    if (bti_llvm_is_small(dtype)) value->wide[1] = bti_llvm_splat(w, BTI_LLVM_F32, value->wide[0], w->vector);
}

void bti_llvm_set_wide(bti_llvm *w, int instr, bti_temp wide) {
    bt_dtype dtype = (bt_dtype)w->kernel->instrs[instr].dtype;
    bti_llvm_set(w, instr, bti_llvm_is_small(dtype) ? bti_llvm_small_of(w, dtype, BTI_LLVM_F32, wide) : wide);
}

/* --- floats ------------------------------------------------------------------------------------------------------- */

/* For targets without an instruction: adding the power of two whose unit is 1 rounds; larger numbers are whole. */
static bti_temp rounded_by_adding(bti_llvm *w, bti_llvm_type type, bti_op op, bti_temp x) {
    bool wide = type == BTI_LLVM_F64;
    double unit = wide ? 0x1p52 : 0x1p23;
    bti_temp magnitude = INTRINSIC("fabs", x), from = op == BTI_OP_trunc ? magnitude : INTRINSIC("copysign", x, x);
    bti_temp near = REAL("fsub", REAL("fadd", magnitude, unit), unit);
    if (op != BTI_OP_trunc) near = INTRINSIC("copysign", near, x);
    if (op == BTI_OP_floor || op == BTI_OP_trunc)
        near = SELECT(OP("fcmp ogt", near, from), REAL("fsub", near, 1), near);
    if (op == BTI_OP_ceil) near = SELECT(OP("fcmp olt", near, from), REAL("fadd", near, 1), near);
    near = INTRINSIC("copysign", near, x);
    return SELECT(REAL("fcmp olt", magnitude, unit), near, x);
}

static bti_temp to_whole(bti_llvm *w, bti_llvm_type type, bti_op op, bti_temp x) {
    if (w->target == BTI_LLVM_SSE2) return rounded_by_adding(w, type, op, x);
    return INTRINSIC(op == BTI_OP_floor   ? "floor"
                     : op == BTI_OP_ceil  ? "ceil"
                     : op == BTI_OP_trunc ? "trunc"
                                          : "rint",
                     x);
}

static bti_temp float_sign(bti_llvm *w, bti_llvm_type type, bti_temp x) {
    bti_temp zero = bti_llvm_real(w, type, 0);
    bti_temp negative = SELECT(OP("fcmp olt", x, zero), bti_llvm_real(w, type, -1), x);
    return SELECT(OP("fcmp ogt", x, zero), bti_llvm_real(w, type, 1), negative);
}

/* As in Python: see bti_floor_div_f32 and _f64 in ir/scalar.h. */
static bti_temp float_modulus(bti_llvm *w, bti_llvm_type type, bti_temp x, bti_temp y, bool divide) {
    int fmod = type == BTI_LLVM_F64 ? BTI_CALL_fmod_f64 : BTI_CALL_fmod_f32;
    bti_temp rest = bti_llvm_call_scalar(w, fmod, type, 2, (bti_temp[]){x, y}), zero = bti_llvm_real(w, type, 0);
    bti_temp negative_rest = OP("fcmp olt", rest, zero), negative_y = OP("fcmp olt", y, zero);
    bti_temp differ = bti_llvm_op(w, "xor", BTI_LLVM_I1, negative_rest, negative_y);
    if (!divide) {
        bti_temp moved = SELECT(differ, OP("fadd", rest, y), rest);
        return SELECT(OP("fcmp oeq", rest, zero), INTRINSIC("copysign", zero, y), moved);
    }
    differ = bti_llvm_op(w, "and", BTI_LLVM_I1, differ, OP("fcmp une", rest, zero));
    bti_temp quotient = OP("fdiv", OP("fsub", x, rest), y), plain = OP("fdiv", x, y);
    quotient = SELECT(differ, REAL("fsub", quotient, 1), quotient);
    bti_temp whole = to_whole(w, type, BTI_OP_floor, quotient);
    whole = SELECT(REAL("fcmp ogt", OP("fsub", quotient, whole), 0.5), REAL("fadd", whole, 1), whole);
    whole = SELECT(OP("fcmp oeq", quotient, zero), INTRINSIC("copysign", zero, plain), whole);
    return SELECT(OP("fcmp oeq", y, zero), plain, whole);
}

static bti_temp float_quotient(bti_llvm *w, bti_llvm_type narrow, bti_temp x, bti_temp y) {
    const bti_llvm_type type = BTI_LLVM_F64, i1 = BTI_LLVM_I1;
    if (narrow == type) return float_modulus(w, type, x, y, true);
    x = bti_llvm_convert(w, "fpext", narrow, x, type);
    y = bti_llvm_convert(w, "fpext", narrow, y, type);
    bti_temp quotient = OP("fdiv", x, y), whole = to_whole(w, type, BTI_OP_floor, quotient);
    bti_temp differ = bti_llvm_op(w, "xor", i1, REAL("fcmp olt", x, 0), REAL("fcmp olt", y, 0));
    bti_temp none = bti_llvm_op(w, "and", i1, REAL("fcmp oeq", quotient, 0), REAL("fcmp une", x, 0));
    whole = SELECT(bti_llvm_op(w, "and", i1, none, differ), bti_llvm_real(w, type, -1), whole);
    bti_temp infinite = REAL("fcmp oeq", INTRINSIC("fabs", x), (double)INFINITY);
    infinite = bti_llvm_op(w, "and", i1, infinite, REAL("fcmp une", y, 0));
    return bti_llvm_convert(w, "fptrunc", type, SELECT(infinite, OP("fsub", x, x), whole), narrow);
}

static bti_temp float_call(bti_llvm *w, bti_llvm_type type, bti_op op, bti_temp x, bti_temp y) {
    switch (op) {
#define BTI_VECTOR_FUNCTION(name, arity) \
    case BTI_OP_##name:                  \
        return bti_llvm_call_vector(w, BTI_CALL_##name##_f32, type, arity, (bti_temp[]){x, y});
#define BTI_SCALAR_FUNCTION(name, ...)
#include "launch/functions.def"
    default: return BTI_NO_TEMP;
    }
}

static bti_temp float_value(bti_llvm *w, bti_llvm_type type, bti_op op, bti_temp x, bti_temp y) {
    bti_temp one;
    switch (op) {
    case BTI_OP_neg: {
        bti_temp result = bti_llvm_new(w);
        bti_llvm_line(w, "%%t%d = fneg %s %%t%d", result, bti_llvm_name(type, w->lanes), x);
        return result;
    }
    case BTI_OP_abs: return INTRINSIC("fabs", x);
    case BTI_OP_sign: return float_sign(w, type, x);
    case BTI_OP_floor:
    case BTI_OP_ceil:
    case BTI_OP_round:
    case BTI_OP_trunc: return to_whole(w, type, op, x);
    case BTI_OP_sqrt: return INTRINSIC("sqrt", x);
    case BTI_OP_rsqrt: one = bti_llvm_real(w, type, 1); return OP("fdiv", one, INTRINSIC("sqrt", x));
    case BTI_OP_sigmoid: {
        bti_temp below = REAL("fcmp olt", x, 0);
        one = bti_llvm_real(w, type, 1);
        x = SELECT(below, x, float_value(w, type, BTI_OP_neg, x, x));
        x = float_call(w, type, BTI_OP_exp, x, BTI_NO_TEMP);
        return OP("fdiv", SELECT(below, x, one), OP("fadd", one, x));
    }
    case BTI_OP_add: return OP("fadd", x, y);
    case BTI_OP_sub: return OP("fsub", x, y);
    case BTI_OP_mul: return OP("fmul", x, y);
    case BTI_OP_div: return OP("fdiv", x, y);
    case BTI_OP_floor_div: return float_quotient(w, type, x, y);
    case BTI_OP_mod: return float_modulus(w, type, x, y, false);
    case BTI_OP_maximum: return SELECT(OP("fcmp uno", x, x), x, SELECT(OP("fcmp ogt", x, y), x, y));
    case BTI_OP_minimum: return SELECT(OP("fcmp uno", x, x), x, SELECT(OP("fcmp olt", x, y), x, y));
    default: return float_call(w, type, op, x, y);
    }
}

/* --- integers ----------------------------------------------------------------------------------------------------- */

/* x / y toward zero, y neither 0 nor -1. Up to 32 bits by the quotient of floats, which is exact enough to be truncated. */
static bti_temp whole_quotient(bti_llvm *w, bti_llvm_type type, bool is_signed, bti_temp x, bti_temp y) {
    if (type == BTI_LLVM_I64) return OP(is_signed ? "sdiv" : "udiv", x, y);
    bti_llvm_type real = type == BTI_LLVM_I32 ? BTI_LLVM_F64 : BTI_LLVM_F32;
    const char *to = is_signed ? "sitofp" : "uitofp", *from = is_signed ? "fptosi" : "fptoui";
    bti_temp divided =
        bti_llvm_op(w, "fdiv", real, bti_llvm_convert(w, to, type, x, real), bti_llvm_convert(w, to, type, y, real));
    return bti_llvm_convert(w, from, real, divided, type);
}

static bti_temp whole_modulus(bti_llvm *w, bti_llvm_type type, bool is_signed, bti_op op, bti_temp x, bti_temp y) {
    const bti_llvm_type i1 = BTI_LLVM_I1;
    bti_temp zero = WHOLE(0), none = OP("icmp eq", y, zero), minus = BTI_NO_TEMP, avoid = none;
    if (is_signed) {
        minus = INT("icmp eq", y, -1);
        avoid = bti_llvm_op(w, "or", i1, none, minus);
    }
    bti_temp q = whole_quotient(w, type, is_signed, x, SELECT(avoid, WHOLE(1), y));
    bti_temp rest = OP("sub", x, OP("mul", q, y)), result = op == BTI_OP_mod ? rest : q;
    if (!is_signed) return SELECT(none, zero, result);
    bti_temp differ = bti_llvm_op(w, "xor", i1, OP("icmp slt", rest, zero), OP("icmp slt", y, zero));
    differ = bti_llvm_op(w, "and", i1, differ, OP("icmp ne", rest, zero));
    if (op == BTI_OP_mod) return SELECT(avoid, zero, SELECT(differ, OP("add", rest, y), rest));
    result = SELECT(minus, OP("sub", zero, x), SELECT(differ, INT("sub", q, 1), q));
    return SELECT(none, zero, result);
}

static bti_temp whole_power(bti_llvm *w, bti_llvm_type type, bool is_signed, bti_temp x, bti_temp y) {
    const bti_llvm_type i64 = BTI_LLVM_I64;
    bti_temp wide[2] = {bti_llvm_resize(w, type, x, i64, is_signed), bti_llvm_resize(w, type, y, i64, is_signed)};
    bti_temp power = bti_llvm_call_scalar(w, BTI_CALL_ipow, i64, 2, wide);
    power = bti_llvm_resize(w, i64, power, type, false);
    if (!is_signed) return power;
    bti_temp odd = INT("icmp ne", INT("and", y, 1), 0), one = WHOLE(1), minus = WHOLE(-1);
    bti_temp inverse = SELECT(INT("icmp eq", x, -1), SELECT(odd, minus, one), WHOLE(0));
    inverse = SELECT(OP("icmp eq", x, one), one, inverse);
    return SELECT(INT("icmp slt", y, 0), inverse, power);
}

static bti_temp whole_shift(bti_llvm *w, bti_llvm_type type, bool is_signed, bti_op op, bti_temp x, bti_temp y) {
    int bits = bti_llvm_bits(type);
    bti_temp inside = INT("icmp ult", y, bits), by = SELECT(inside, y, WHOLE(0)), past = WHOLE(0);
    if (op == BTI_OP_shl) return SELECT(inside, OP("shl", x, by), past);
    if (!is_signed) return SELECT(inside, OP("lshr", x, by), past);
    return OP("ashr", x, SELECT(inside, y, WHOLE(bits - 1)));
}

static bti_temp whole_value(bti_llvm *w, bti_llvm_type type, bool is_signed, bti_op op, bti_temp x, bti_temp y) {
    bti_temp zero;
    switch (op) {
    case BTI_OP_neg: zero = WHOLE(0); return OP("sub", zero, x);
    case BTI_OP_abs:
        if (!is_signed) return x;
        zero = WHOLE(0);
        return SELECT(OP("icmp slt", x, zero), OP("sub", zero, x), x);
    case BTI_OP_sign:
        zero = bti_llvm_convert(w, "zext", BTI_LLVM_I1, INT("icmp ne", x, 0), type);
        return is_signed ? OP("or", INT("ashr", x, bti_llvm_bits(type) - 1), zero) : zero;
    case BTI_OP_not: return INT("xor", x, -1);
    case BTI_OP_add: return OP("add", x, y);
    case BTI_OP_sub: return OP("sub", x, y);
    case BTI_OP_mul: return OP("mul", x, y);
    case BTI_OP_floor_div:
    case BTI_OP_mod: return whole_modulus(w, type, is_signed, op, x, y);
    case BTI_OP_pow: return whole_power(w, type, is_signed, x, y);
    case BTI_OP_maximum: return SELECT(OP(is_signed ? "icmp sgt" : "icmp ugt", x, y), x, y);
    case BTI_OP_minimum: return SELECT(OP(is_signed ? "icmp slt" : "icmp ult", x, y), x, y);
    case BTI_OP_and: return OP("and", x, y);
    case BTI_OP_or: return OP("or", x, y);
    case BTI_OP_xor: return OP("xor", x, y);
    case BTI_OP_shl:
    case BTI_OP_shr: return whole_shift(w, type, is_signed, op, x, y);
    default: return BTI_NO_TEMP;
    }
}

static bti_temp bool_value(bti_llvm *w, bti_op op, bti_temp x, bti_temp y) {
    const bti_llvm_type type = BTI_LLVM_I1;
    switch (op) {
    case BTI_OP_abs: return x;
    case BTI_OP_not: return INT("xor", x, 1);
    case BTI_OP_add:
    case BTI_OP_maximum:
    case BTI_OP_or: return OP("or", x, y);
    case BTI_OP_mul:
    case BTI_OP_minimum:
    case BTI_OP_and: return OP("and", x, y);
    case BTI_OP_xor: return OP("xor", x, y);
    case BTI_OP_shl:
    case BTI_OP_shr: return OP("and", x, INT("xor", y, 1));
    default: return BTI_NO_TEMP;
    }
}

/* --- random words: Threefry-2x32-20 as straight integer code, as ir/threefry.h ---------------------------------------- */

#define OP32(operation, x, y) bti_llvm_op(w, operation, BTI_LLVM_I32, x, y)
#define INT32(operation, x, y) bti_llvm_op_int(w, operation, BTI_LLVM_I32, x, y)
#define SELECT32(condition, x, y) bti_llvm_select(w, BTI_LLVM_I32, condition, x, y)

static bti_temp rotated_left(bti_llvm *w, bti_temp x, int by) {
    return bti_llvm_intrinsic(w, "fshl", BTI_LLVM_I32, 3, (bti_temp[]){x, x, bti_llvm_int(w, BTI_LLVM_I32, by)});
}

static void threefry_block(bti_llvm *w, const bti_instr *instr, bti_temp a, bti_temp b, bti_temp words[2]) {
    static const int rotation[2][4] = {{13, 15, 26, 6}, {17, 29, 16, 24}};
    bti_temp key[3] = {bti_llvm_held(w, instr->arg[0]), bti_llvm_held(w, instr->arg[1])};
    key[2] = INT32("xor", OP32("xor", key[0], key[1]), 0x1BD11BDA);
    a = OP32("add", a, key[0]);
    b = OP32("add", b, key[1]);
    for (int group = 0; group < 5; group++) {
        for (int round = 0; round < 4; round++) {
            a = OP32("add", a, b);
            b = OP32("xor", rotated_left(w, b, rotation[group % 2][round]), a);
        }
        a = OP32("add", a, key[(group + 1) % 3]);
        b = OP32("add", b, INT32("add", key[(group + 2) % 3], group + 1));
    }
    words[0] = a;
    words[1] = b;
}

static bti_temp threefry_value(bti_llvm *w, const bti_instr *instr) {
    bti_temp words[2];
    threefry_block(w, instr, bti_llvm_held(w, instr->arg[2]), bti_llvm_held(w, instr->arg[3]), words);
    return words[instr->attr];
}

static bti_temp random_word_value(bti_llvm *w, const bti_instr *instr) {
    bti_temp number = bti_llvm_held(w, instr->arg[2]), count = bti_llvm_held(w, instr->arg[3]), words[2];
    bti_temp half = OP32("add", INT32("lshr", count, 1), INT32("and", count, 1));
    bti_temp first = OP32("icmp ult", number, half);
    bti_temp i = SELECT32(first, number, OP32("sub", number, half));
    bti_temp paired = OP32("icmp ult", i, OP32("sub", count, half));
    bti_temp second = SELECT32(paired, OP32("add", half, i), bti_llvm_int(w, BTI_LLVM_I32, 0));
    threefry_block(w, instr, i, second, words);
    return SELECT32(first, words[0], words[1]);
}

/* --- all operations ---------------------------------------------------------------------------------------------------------- */

static bti_temp comparison(bti_llvm *w, bti_op op, bt_dtype dtype, bti_temp x, bti_temp y) {
    static const char *const names[][3] = {[BTI_OP_eq] = {"fcmp oeq", "icmp eq", "icmp eq"},
                                           [BTI_OP_ne] = {"fcmp une", "icmp ne", "icmp ne"},
                                           [BTI_OP_lt] = {"fcmp olt", "icmp slt", "icmp ult"},
                                           [BTI_OP_le] = {"fcmp ole", "icmp sle", "icmp ule"}};
    int column = bti_dtype_is_float(dtype) ? 0 : bti_dtype_is_signed(dtype) ? 1 : 2;
    return bti_llvm_op(w, names[op][column], bti_llvm_wide(dtype), x, y);
}

static bti_temp same_bits(bti_llvm *w, bt_dtype from, bti_temp x, bt_dtype to) {
    if (from == to) return x;
    if (from == BT_BOOL) return bti_llvm_convert(w, "zext", BTI_LLVM_I1, x, bti_llvm_own(to));
    if (to == BT_BOOL) return bti_llvm_op_int(w, "icmp ne", bti_llvm_own(from), x, 0);
    return bti_llvm_convert(w, "bitcast", bti_llvm_own(from), x, bti_llvm_own(to));
}

static bti_temp computed_value(bti_llvm *w, const bti_instr *instr, bt_dtype dtype) {
    bti_op op = (bti_op)instr->op;
    bti_temp x = bti_llvm_operand(w, instr->arg[0]);
    bti_temp y = bti_op_info(op)->arity == 2 ? bti_llvm_operand(w, instr->arg[1]) : BTI_NO_TEMP;
    if (bti_op_info(op)->dtype_rule == BTI_COMPARE) return comparison(w, op, dtype, x, y);
    bti_llvm_type type = bti_llvm_wide(dtype);
    if (bti_llvm_is_float(type)) return float_value(w, type, op, x, y);
    if (type == BTI_LLVM_I1) return bool_value(w, op, x, y);
    return whole_value(w, type, bti_dtype_is_signed(dtype), op, x, y);
}

/* The numbers are held as integers of their bits: <8 x i64> is <16 x float>. */
static bti_temp convert_numbers(bti_llvm *w, bt_dtype dtype, bti_temp x, bool to_parts) {
    bti_llvm_type whole = bti_llvm_own(dtype), part = bti_llvm_own(bti_dtype_of_part(dtype));
    const char *numbers = bti_llvm_name(whole, w->lanes), *parts = bti_llvm_name(part, 2 * w->lanes);
    bti_temp result = bti_llvm_new(w);
    bti_llvm_line(w, "%%t%d = bitcast %s %%t%d to %s", result, to_parts ? numbers : parts, x,
                  to_parts ? parts : numbers);
    return result;
}

static bti_temp part_value(bti_llvm *w, bt_dtype from, bti_temp x, bool imaginary) {
    return bti_llvm_every_other(w, bti_llvm_own(bti_dtype_of_part(from)), convert_numbers(w, from, x, true), imaginary);
}

static bti_temp complex_value(bti_llvm *w, const bti_instr *instr) {
    bt_dtype dtype = (bt_dtype)instr->dtype;
    bti_temp parts[2] = {bti_llvm_held(w, instr->arg[0]), bti_llvm_held(w, instr->arg[1])};
    bti_temp joined = bti_llvm_interleaved(w, bti_llvm_own(bti_dtype_of_part(dtype)), parts[0], parts[1]);
    return convert_numbers(w, dtype, joined, false);
}

void bti_llvm_elementwise(bti_llvm *w, int number) {
    const bti_instr *instr = &w->kernel->instrs[number];
    bt_dtype in = (bt_dtype)w->kernel->instrs[instr->arg[0]].dtype, out = (bt_dtype)instr->dtype;
    bti_temp x = bti_llvm_held(w, instr->arg[0]);
    switch (instr->op) {
    case BTI_OP_where:
        bti_llvm_set(
            w, number,
            bti_llvm_select(w, bti_llvm_own(out), x, bti_llvm_held(w, instr->arg[1]), bti_llvm_held(w, instr->arg[2])));
        return;
    case BTI_OP_cast:
        bti_llvm_set(w, number, in == out ? x : bti_llvm_cast(w, in, bti_llvm_operand(w, instr->arg[0]), out));
        return;
    case BTI_OP_bitcast: bti_llvm_set(w, number, same_bits(w, in, x, out)); return;
    case BTI_OP_threefry: bti_llvm_set(w, number, threefry_value(w, instr)); return;
    case BTI_OP_random_word: bti_llvm_set(w, number, random_word_value(w, instr)); return;
    case BTI_OP_complex: bti_llvm_set(w, number, complex_value(w, instr)); return;
    case BTI_OP_real:
    case BTI_OP_imag: bti_llvm_set(w, number, part_value(w, in, x, instr->op == BTI_OP_imag)); return;
    default: bti_llvm_set_wide(w, number, computed_value(w, instr, in));
    }
}
