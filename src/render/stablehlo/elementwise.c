/* Elementwise operations, with the meaning that ir/scalar.def gives them. */
#include <math.h>

#include "ir/dtype.h"
#include "render/stablehlo/writer.h"

static bti_hlo_value whole(bti_hlo *w, bti_hlo_value like, double number) {
    return bti_hlo_number(w, like.type, number);
}

static bti_hlo_value equals(bti_hlo *w, bti_hlo_value x, double number) {
    return bti_hlo_compare(w, "EQ", x, whole(w, x, number));
}
static bti_hlo_value is_below(bti_hlo *w, bti_hlo_value x, double number) {
    return bti_hlo_compare(w, "LT", x, whole(w, x, number));
}

/* --- casts ------------------------------------------------------------------------------------------------------------- */

static double least_of(bt_dtype dtype) {
    return bti_dtype_is_signed(dtype) ? -ldexp(1, 8 * (int)bt_dtype_size(dtype) - 1) : 0;
}
/* The power of two just past it. */
static double past(bt_dtype dtype) {
    return ldexp(1, 8 * (int)bt_dtype_size(dtype) - (bti_dtype_is_signed(dtype) ? 1 : 0));
}

/* Toward zero, saturating, NaN to 0. */
static bti_hlo_value to_whole(bti_hlo *w, bti_hlo_value x, bt_dtype dtype) {
    if (x.type.dtype == BT_F16 || x.type.dtype == BT_BF16) x = bti_hlo_convert(w, x, BT_F32);
    bti_type type = bti_hlo_like(&x.type, dtype);
    uint64_t top = UINT64_MAX >> (64 - 8 * (int)bt_dtype_size(dtype) + (bti_dtype_is_signed(dtype) ? 1 : 0));
    bti_hlo_value low = bti_hlo_number(w, x.type, least_of(dtype)), high = bti_hlo_number(w, x.type, past(dtype));
    bti_hlo_value zero = bti_hlo_number(w, x.type, 0);
    bti_hlo_value fits = bti_hlo_binary(w, "and", bti_hlo_compare(w, "GT", x, low), bti_hlo_compare(w, "LT", x, high));
    bti_hlo_value made = bti_hlo_convert(w, bti_hlo_select(w, fits, x, zero), dtype);
    made = bti_hlo_select(w, bti_hlo_compare(w, "LE", x, low), bti_hlo_number(w, type, least_of(dtype)), made);
    return bti_hlo_select(w, bti_hlo_compare(w, "GE", x, high), bti_hlo_bits(w, type, top), made);
}

bti_hlo_value bti_hlo_cast(bti_hlo *w, bti_hlo_value x, bt_dtype dtype) {
    bt_dtype from = x.type.dtype;
    if (from == dtype) return x;
    if (dtype == BT_BOOL) return bti_hlo_compare(w, "NE", x, whole(w, x, 0));
    if (bti_dtype_is_float(from) && bti_dtype_is_int(dtype)) return to_whole(w, x, dtype);
    return bti_hlo_convert(w, x, dtype);
}

/* --- integers ---------------------------------------------------------------------------------------------------------- */

/* x // y or x % y as Python has them; by 0: 0. XLA's own divisions of -2**31 by -1 and by 0 are not asked. */
static bti_hlo_value divide_whole(bti_hlo *w, bool remainder, bti_hlo_value x, bti_hlo_value y) {
    bti_hlo_value zero = whole(w, x, 0), by_zero = equals(w, y, 0), odd = by_zero, minus = zero;
    bool is_signed = bti_dtype_is_signed(x.type.dtype);
    if (is_signed) {
        bti_hlo_value by_minus_one = equals(w, y, -1);
        odd = bti_hlo_binary(w, "or", by_zero, by_minus_one);
        minus = bti_hlo_select(w, by_minus_one, bti_hlo_unary(w, "negate", x), zero);
    }
    bti_hlo_value divisor = bti_hlo_select(w, odd, whole(w, x, 1), y);
    bti_hlo_value rest = bti_hlo_binary(w, "remainder", x, divisor), made = rest;
    bti_hlo_value apart = bti_hlo_compare(w, "NE", rest, zero);
    if (is_signed)
        apart = bti_hlo_binary(w, "and", apart, bti_hlo_binary(w, "xor", is_below(w, x, 0), is_below(w, y, 0)));
    if (remainder) {
        if (is_signed) made = bti_hlo_select(w, apart, bti_hlo_binary(w, "add", rest, divisor), rest);
        return bti_hlo_select(w, odd, zero, made);
    }
    made = bti_hlo_binary(w, "divide", x, divisor);
    if (is_signed) made = bti_hlo_binary(w, "subtract", made, bti_hlo_convert(w, apart, x.type.dtype));
    return bti_hlo_select(w, odd, minus, made);
}

static bti_hlo_value pow_whole(bti_hlo *w, bti_hlo_value x, bti_hlo_value y) {
    if (!bti_dtype_is_signed(x.type.dtype)) return bti_hlo_binary(w, "power", x, y);
    bti_hlo_value zero = whole(w, x, 0), one = whole(w, x, 1);
    bti_hlo_value up = bti_hlo_binary(w, "power", x, bti_hlo_binary(w, "maximum", y, zero));
    bti_hlo_value is_odd = bti_hlo_compare(w, "NE", bti_hlo_binary(w, "and", y, one), zero);
    bti_hlo_value sign = bti_hlo_select(w, is_odd, whole(w, x, -1), one);
    bti_hlo_value down = bti_hlo_select(w, equals(w, x, -1), sign, zero);
    down = bti_hlo_select(w, equals(w, x, 1), one, down);
    return bti_hlo_select(w, is_below(w, y, 0), down, up);
}

/* --- floats ------------------------------------------------------------------------------------------------------------ */

static bti_hlo_value mod_float(bti_hlo *w, bti_hlo_value x, bti_hlo_value y) {
    bti_hlo_value rest = bti_hlo_binary(w, "remainder", x, y), zero = whole(w, x, 0);
    bti_hlo_value apart = bti_hlo_binary(w, "xor", is_below(w, rest, 0), is_below(w, y, 0));
    bti_hlo_value made = bti_hlo_select(w, apart, bti_hlo_binary(w, "add", rest, y), rest);
    bti_hlo_value of_y = bti_hlo_select(w, is_below(w, y, 0), bti_hlo_unary(w, "negate", zero), zero);
    return bti_hlo_select(w, equals(w, rest, 0), of_y, made);
}

/* ir/scalar.h: bti_floor_div_f64. */
static bti_hlo_value floor_div_float(bti_hlo *w, bti_hlo_value x, bti_hlo_value y) {
    bti_hlo_value rest = bti_hlo_binary(w, "remainder", x, y), plain = bti_hlo_binary(w, "divide", x, y);
    bti_hlo_value quotient = bti_hlo_binary(w, "divide", bti_hlo_binary(w, "subtract", x, rest), y),
                  one = whole(w, x, 1);
    bti_hlo_value apart = bti_hlo_binary(w, "and", bti_hlo_compare(w, "NE", rest, whole(w, x, 0)),
                                         bti_hlo_binary(w, "xor", is_below(w, rest, 0), is_below(w, y, 0)));
    quotient = bti_hlo_select(w, apart, bti_hlo_binary(w, "subtract", quotient, one), quotient);
    bti_hlo_value down = bti_hlo_unary(w, "floor", quotient);
    bti_hlo_value far = bti_hlo_compare(w, "GT", bti_hlo_binary(w, "subtract", quotient, down), whole(w, x, 0.5));
    down = bti_hlo_select(w, far, bti_hlo_binary(w, "add", down, one), down);
    bti_hlo_value zero = bti_hlo_binary(w, "multiply", plain, whole(w, x, 0)); /* of the quotient's sign */
    down = bti_hlo_select(w, equals(w, quotient, 0), zero, down);
    return bti_hlo_select(w, equals(w, y, 0), plain, down);
}

static bti_hlo_value truncate(bti_hlo *w, bti_hlo_value x) {
    return bti_hlo_select(w, is_below(w, x, 0), bti_hlo_unary(w, "ceil", x), bti_hlo_unary(w, "floor", x));
}

/* sqrt((1 - x)(1 + x)) */
static bti_hlo_value beside(bti_hlo *w, bti_hlo_value x) {
    bti_hlo_value one = whole(w, x, 1);
    return bti_hlo_unary(
        w, "sqrt",
        bti_hlo_binary(w, "multiply", bti_hlo_binary(w, "subtract", one, x), bti_hlo_binary(w, "add", one, x)));
}

/* sinh and cosh: half of e**x and e**-x, whose halves are taken in the exponent so that they overflow no earlier. */
static bti_hlo_value hyperbolic(bti_hlo *w, bool sine, bti_hlo_value x) {
    bti_hlo_value half = whole(w, x, 0.69314718055994530942);
    bti_hlo_value up = bti_hlo_unary(w, "exponential", bti_hlo_binary(w, "subtract", x, half));
    bti_hlo_value down = bti_hlo_unary(w, "exponential", bti_hlo_unary(w, "negate", bti_hlo_binary(w, "add", x, half)));
    if (!sine) return bti_hlo_binary(w, "add", up, down);
    bti_hlo_value less = bti_hlo_unary(w, "exponential_minus_one", x), one = whole(w, x, 1);
    bti_hlo_value near =
        bti_hlo_binary(w, "add", less, bti_hlo_binary(w, "divide", less, bti_hlo_binary(w, "add", less, one)));
    near = bti_hlo_binary(w, "multiply", near, whole(w, x, 0.5));
    return bti_hlo_select(w, is_below(w, bti_hlo_unary(w, "abs", x), 1), near, bti_hlo_binary(w, "subtract", up, down));
}

static bti_hlo_value scaled_log(bti_hlo *w, bti_hlo_value x, double base) {
    return bti_hlo_binary(w, "multiply", bti_hlo_unary(w, "log", x), whole(w, x, 1 / log(base)));
}

/* Operations of floats that StableHLO has by a name of its own. */
static const char *name_of_float(bti_op op) {
    switch (op) {
    case BTI_OP_floor: return "floor";
    case BTI_OP_ceil: return "ceil";
    case BTI_OP_round: return "round_nearest_even";
    case BTI_OP_exp: return "exponential";
    case BTI_OP_expm1: return "exponential_minus_one";
    case BTI_OP_log: return "log";
    case BTI_OP_log1p: return "log_plus_one";
    case BTI_OP_sqrt: return "sqrt";
    case BTI_OP_rsqrt: return "rsqrt";
    case BTI_OP_sin: return "sine";
    case BTI_OP_cos: return "cosine";
    case BTI_OP_tan: return "tan";
    case BTI_OP_tanh: return "tanh";
    case BTI_OP_sigmoid: return "logistic";
    case BTI_OP_div: return "divide";
    case BTI_OP_atan2: return "atan2";
    default: return NULL;
    }
}

static bti_hlo_value write_float(bti_hlo *w, bti_op op, const bti_hlo_value *in) {
    bti_hlo_value x = in[0];
    const char *name = name_of_float(op);
    if (name) return bti_op_info(op)->arity == 2 ? bti_hlo_binary(w, name, x, in[1]) : bti_hlo_unary(w, name, x);
    switch (op) {
    case BTI_OP_trunc: return truncate(w, x);
    case BTI_OP_exp2: return bti_hlo_binary(w, "power", whole(w, x, 2), x);
    case BTI_OP_log2: return scaled_log(w, x, 2);
    case BTI_OP_log10: return scaled_log(w, x, 10);
    case BTI_OP_asin: return bti_hlo_binary(w, "atan2", x, beside(w, x));
    case BTI_OP_acos: return bti_hlo_binary(w, "atan2", beside(w, x), x);
    case BTI_OP_atan: return bti_hlo_binary(w, "atan2", x, whole(w, x, 1));
    case BTI_OP_sinh:
    case BTI_OP_cosh: return hyperbolic(w, op == BTI_OP_sinh, x);
    default: return bti_hlo_error_function(w, op, x);
    }
}

/* --- numbers and bits -------------------------------------------------------------------------------------------------- */

static bti_hlo_value write_sign(bti_hlo *w, bti_hlo_value x) {
    if (bti_dtype_is_signed(x.type.dtype)) return bti_hlo_unary(w, "sign", x); /* floats too */
    return bti_hlo_convert(w, bti_hlo_compare(w, "NE", x, whole(w, x, 0)), x.type.dtype);
}

static bti_hlo_value write_number(bti_hlo *w, bti_op op, const bti_hlo_value *in) {
    bti_hlo_value x = in[0];
    bool is_float = bti_dtype_is_float(x.type.dtype), is_bool = x.type.dtype == BT_BOOL;
    switch (op) {
    case BTI_OP_neg: return bti_hlo_unary(w, "negate", x);
    case BTI_OP_abs: return bti_dtype_is_signed(x.type.dtype) ? bti_hlo_unary(w, "abs", x) : x;
    case BTI_OP_sign: return write_sign(w, x);
    case BTI_OP_add: return bti_hlo_binary(w, is_bool ? "or" : "add", x, in[1]);
    case BTI_OP_sub: return bti_hlo_binary(w, "subtract", x, in[1]);
    case BTI_OP_mul: return bti_hlo_binary(w, is_bool ? "and" : "multiply", x, in[1]);
    case BTI_OP_floor_div: return is_float ? floor_div_float(w, x, in[1]) : divide_whole(w, false, x, in[1]);
    case BTI_OP_mod: return is_float ? mod_float(w, x, in[1]) : divide_whole(w, true, x, in[1]);
    case BTI_OP_pow: return is_float ? bti_hlo_binary(w, "power", x, in[1]) : pow_whole(w, x, in[1]);
    case BTI_OP_maximum: return bti_hlo_binary(w, "maximum", x, in[1]);
    default: return bti_hlo_binary(w, "minimum", x, in[1]);
    }
}

/* A negative count is a great one, and StableHLO leaves counts of the width and more to the implementation. */
static bti_hlo_value write_shift(bti_hlo *w, bool left, bti_hlo_value x, bti_hlo_value y) {
    if (x.type.dtype == BT_BOOL) return bti_hlo_binary(w, "and", x, bti_hlo_unary(w, "not", y));
    bool is_signed = bti_dtype_is_signed(x.type.dtype);
    int bits = 8 * (int)bt_dtype_size(x.type.dtype);
    bti_hlo_value fits = is_below(w, y, bits), zero = whole(w, x, 0);
    if (is_signed) fits = bti_hlo_binary(w, "and", fits, bti_hlo_compare(w, "GE", y, zero));
    bti_hlo_value count = bti_hlo_select(w, fits, y, zero), empty = zero;
    if (!left && is_signed) empty = bti_hlo_select(w, is_below(w, x, 0), whole(w, x, -1), zero);
    const char *name = left ? "shift_left" : is_signed ? "shift_right_arithmetic" : "shift_right_logical";
    return bti_hlo_select(w, fits, bti_hlo_binary(w, name, x, count), empty);
}

static bti_hlo_value write_bits(bti_hlo *w, bti_op op, const bti_hlo_value *in) {
    switch (op) {
    case BTI_OP_not: return bti_hlo_unary(w, "not", in[0]);
    case BTI_OP_and: return bti_hlo_binary(w, "and", in[0], in[1]);
    case BTI_OP_or: return bti_hlo_binary(w, "or", in[0], in[1]);
    case BTI_OP_xor: return bti_hlo_binary(w, "xor", in[0], in[1]);
    default: return write_shift(w, op == BTI_OP_shl, in[0], in[1]);
    }
}

static const char *direction_of(bti_op op) {
    return op == BTI_OP_eq ? "EQ" : op == BTI_OP_ne ? "NE" : op == BTI_OP_lt ? "LT" : "LE";
}

static bti_hlo_value write_own(bti_hlo *w, const bti_node *node, const bti_hlo_value *in) {
    bti_type type = bti_type_of(node);
    switch (node->op) {
    case BTI_OP_where: return bti_hlo_select(w, in[0], in[1], in[2]);
    case BTI_OP_cast: return bti_hlo_cast(w, in[0], (bt_dtype)node->dtype);
    case BTI_OP_bitcast: return bti_hlo_line(w, "bitcast_convert", type, 1, in);
    case BTI_OP_complex: return bti_hlo_line(w, "complex", type, 2, in);
    case BTI_OP_real: return bti_hlo_line(w, "real", type, 1, in);
    case BTI_OP_imag: return bti_hlo_line(w, "imag", type, 1, in);
    default: return bti_hlo_random(w, node, in);
    }
}

/* Arithmetic of small floats is that of float32, rounded. */
static bool computes_wide(const bti_node *node, const bti_hlo_value *in) {
    bti_dtype_rule rule = bti_op_info((bti_op)node->op)->dtype_rule;
    bool is_small = in[0].type.dtype == BT_F16 || in[0].type.dtype == BT_BF16;
    return is_small && (rule == BTI_FLOAT || rule == BTI_NUMBER || node->op == BTI_OP_add || node->op == BTI_OP_mul);
}

enum { MOST_MOVES = 16 };

static bool is_number(const bti_node *node) {
    for (int moves = 0; moves < MOST_MOVES; moves++) {
        bti_class class = bti_op_info((bti_op)node->op)->class;
        if (class == BTI_SOURCE) return node->op != BTI_OP_leaf;
        if ((class != BTI_MOVEMENT && node->op != BTI_OP_cast) || !atomic_load(&node->input_count)) return false;
        node = node->inputs[0];
    }
    return false;
}

/* XLA multiplies by the rounded inverse of a number that it can see, so that 3 / 3 need not be 1. */
static bti_hlo_value hidden(bti_hlo *w, bti_hlo_value number) {
    int id = bti_hlo_begin(w, "optimization_barrier", 1, 1, &number);
    bti_hlo_value made = number;
    bti_hlo_end(w, 1, &number, 1, &made, id);
    return made;
}

bti_hlo_value bti_hlo_elementwise(bti_hlo *w, const bti_node *node, const bti_hlo_value *in) {
    bti_op op = (bti_op)node->op;
    bti_dtype_rule rule = bti_op_info(op)->dtype_rule;
    if (rule == BTI_COMPARE) return bti_hlo_compare(w, direction_of(op), in[0], in[1]);
    if (rule == BTI_OWN) return write_own(w, node, in);
    if (rule == BTI_BITS) return write_bits(w, op, in);
    bti_hlo_value wide[2] = {in[0], in[bti_op_info(op)->arity - 1]};
    bool widened = computes_wide(node, in);
    for (int i = 0; i < 2 && widened; i++) wide[i] = bti_hlo_convert(w, wide[i], BT_F32);
    if (op == BTI_OP_div && (w->divides_by_number || is_number(node->inputs[1]))) wide[1] = hidden(w, wide[1]);
    bti_hlo_value made = rule == BTI_FLOAT ? write_float(w, op, wide) : write_number(w, op, wide);
    return widened ? bti_hlo_convert(w, made, (bt_dtype)node->dtype) : made;
}
