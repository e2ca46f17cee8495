/* Lines of C, and values: the scalar meaning of operations, printed from ir/scalar.def. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "ir/dtype.h"
#include "render/c_writer.h"

/* --- lines ---------------------------------------------------------------------------------------------------------- */

static void write_indented(bti_c *w, const char *format, va_list arguments) {
    for (int i = 0; i < w->depth; i++) bti_str_add(w->text, "    ");
    bti_str_addv(w->text, format, arguments);
}

void bti_c_line(bti_c *w, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    write_indented(w, format, arguments);
    va_end(arguments);
    bti_str_add(w->text, "\n");
}

void bti_c_open(bti_c *w, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    write_indented(w, format, arguments);
    va_end(arguments);
    bti_str_add(w->text, " {\n");
    w->depth++;
}

void bti_c_close(bti_c *w) {
    w->depth--;
    bti_c_line(w, "}");
}

/* --- dtypes --------------------------------------------------------------------------------------------------------- */

static const char *const value_types[] = {
    [BT_F16] = "f32", [BT_BF16] = "f32",  [BT_F32] = "f32",   [BT_F64] = "f64", [BT_I8] = "i8",       [BT_I16] = "i16",
    [BT_I32] = "i32", [BT_I64] = "i64",   [BT_U8] = "u8",     [BT_U16] = "u16", [BT_U32] = "u32",     [BT_U64] = "u64",
    [BT_BOOL] = "u8", [BT_F8E4M3] = "u8", [BT_F8E5M2] = "u8", [BT_C64] = "u64", [BT_C128] = "two_u64"};

/* Of a value: small floats as f32, bool as u8. */
static const char *value_type(bt_dtype dtype) { return value_types[dtype]; }
const char *bti_c_stored_type(bt_dtype dtype) { return bti_c_is_small(dtype) ? "u16" : value_types[dtype]; }

const char *bti_c_small_name(bt_dtype dtype) { return dtype == BT_F16 ? "f16" : "bf16"; }

/* --- functions of operations --------------------------------------------------------------------------------------- */

/* Columns: floats, signed, unsigned, bool. Rows of the MATH kinds go through a second macro, which expands macros in them: only
 * sigmoid() of scalar.h is one, and expression_of_c_function() replaces it. */
static const char *const expressions[BTI_OP_COUNT][4] = {
#define BTI_SCALAR_FLOAT(name, real) [BTI_OP_##name] = {#real},
#define BTI_SCALAR_NUMBER(name, real, whole, natural) [BTI_OP_##name] = {#real, #whole, #natural},
#define BTI_SCALAR_ANY(name, real, whole, natural, boolean) [BTI_OP_##name] = {#real, #whole, #natural, #boolean},
#define BTI_SCALAR_BITS(name, whole, natural, boolean) [BTI_OP_##name] = {NULL, #whole, #natural, #boolean},
#define BTI_SCALAR_COMPARE(name, expression) [BTI_OP_##name] = {#expression, #expression, #expression, #expression},
#include "ir/scalar.def"
};

/* Whether scalar.def has an expression for the operation: all elementwise ones but those that are written by hand. */
static bool has_expression(int op) { return expressions[op][0] || expressions[op][1]; }

/* The dtype that an operation's function is written for: float32 for the small floats. */
static bt_dtype computed_dtype(bt_dtype dtype) { return bti_c_is_small(dtype) ? BT_F32 : dtype; }

static int expression_column(bt_dtype dtype) {
    if (dtype == BT_BOOL) return 3;
    return bti_dtype_is_float(dtype) ? 0 : bti_dtype_is_signed(dtype) ? 1 : 2;
}

static const char *function_suffix(bt_dtype dtype) { return dtype == BT_BOOL ? "bool" : value_types[dtype]; }

/* The functions of floats of scalar.h are written in c/common.h, float32 ones that CUDA has less accurate in c/accurate.h. */
static const char *expression_of_c_function(const bti_c *w, bti_op op, bool wide) {
    bool accurate = w->target == BTI_CUDA_C && !wide;
    switch (op) {
    case BTI_OP_exp: return accurate ? "exp_accurate(x)" : NULL;
    case BTI_OP_tanh: return accurate ? "tanh_accurate(x)" : NULL;
    case BTI_OP_tan: return accurate ? "tan_accurate(x)" : NULL;
    case BTI_OP_asin: return accurate ? "asin_accurate(x)" : NULL;
    case BTI_OP_erfc: return accurate ? "erfc_accurate(x)" : NULL;
    case BTI_OP_pow: return accurate ? "pow_accurate(x, y)" : NULL;
    case BTI_OP_erfinv: return wide ? "giles_f64(x)" : "giles_f32(x)";
    case BTI_OP_sigmoid: return accurate ? "sigmoid_accurate(x)" : wide ? "sigmoid_of_f64(x)" : "sigmoid_of_f32(x)";
    case BTI_OP_floor_div: return wide ? "whole_quotient_f64(x, y)" : "whole_quotient_f32(x, y)";
    default: return NULL;
    }
}

static void write_function(bti_c *w, bti_op op, bt_dtype dtype) {
    int column = expression_column(dtype), bits = bti_dtype_bits(dtype);
    bool wide = bits == 64, two = bti_op_info(op)->arity == 2;
    const char *whole = wide ? "i64" : "i32", *natural = wide ? "u64" : "u32", *type = value_type(dtype);
    const char *given = column == 1 ? whole : column == 2 ? natural : type;
    const char *result = bti_op_info(op)->dtype_rule == BTI_COMPARE ? "u8" : type;
    const char *expression = expressions[op][column], *own = column == 0 ? expression_of_c_function(w, op, wide) : NULL;
    if (own) expression = own;
    bti_c_open(w, "FUNCTION %s %s_%s(%s x%s%s%s)", result, bti_op_info(op)->name, function_suffix(dtype), given,
               two ? ", " : "", two ? given : "", two ? " y" : "");
    if (column == 0)
        bti_c_line(w, "typedef %s REAL;", type);
    else
        bti_c_line(w, "typedef %s INT; typedef %s UINT; enum { BITS = %d };", whole, natural, bits);
    bti_c_line(w, "return (%s)(%s);", result, expression);
    bti_c_close(w);
}

void bti_c_functions(bti_c *w) {
    bool written[BTI_OP_COUNT][BT_DTYPE_COUNT] = {{false}};
    for (int i = 0; i < w->kernel->instr_count; i++) {
        const bti_instr *instr = &w->kernel->instrs[i];
        int op = instr->op;
        if (op == BTI_OP_max || op == BTI_OP_min) op = op == BTI_OP_max ? BTI_OP_maximum : BTI_OP_minimum;
        if (!has_expression(op)) continue;
        bt_dtype dtype = computed_dtype(bti_c_dtype(w, instr->arg[0]));
        if (!written[op][dtype]) write_function(w, (bti_op)op, dtype);
        written[op][dtype] = true;
    }
}

/* --- casts --------------------------------------------------------------------------------------------------------- */

static void cast_real(bt_dtype from, const char *x, bt_dtype to, char *text, size_t size) {
    if (to == BT_BOOL)
        snprintf(text, size, "(u8)(%s != 0)", x);
    else if (bti_c_is_small(to))
        snprintf(text, size, from == BT_F64 ? "rounded_%s(odd_of_f64(%s))" : "rounded_%s(%s)", bti_c_small_name(to), x);
    else if (bti_dtype_is_float(to))
        snprintf(text, size, "(%s)%s", value_type(to), x);
    else
        snprintf(text, size, "%s_of_real(%s)", value_type(to), x);
}

static void cast_whole(bt_dtype from, const char *x, bt_dtype to, char *text, size_t size) {
    if (to == BT_BOOL)
        snprintf(text, size, "(u8)(%s != 0)", x);
    else if (bti_c_is_small(to) && bti_dtype_bits(from) > 16)
        snprintf(text, size, "rounded_%s(%s(%s))", bti_c_small_name(to),
                 bti_dtype_is_signed(from) ? "odd_of_whole" : "odd_of_unsigned", x);
    else if (bti_c_is_small(to))
        snprintf(text, size, "rounded_%s((f32)%s)", bti_c_small_name(to), x);
    else
        snprintf(text, size, "(%s)%s", value_type(to), x);
}

static void cast_value(bt_dtype from, const char *x, bt_dtype to, char *text, size_t size) {
    if (from == to)
        snprintf(text, size, "%s", x);
    else if (bti_dtype_is_float(from))
        cast_real(from, x, to, text, size);
    else
        cast_whole(from, x, to, text, size);
}

static void stored_form(bt_dtype dtype, const char *x, char *text, size_t size) {
    if (bti_c_is_small(dtype))
        snprintf(text, size, "%s_of_f32(%s)", bti_c_small_name(dtype), x);
    else
        snprintf(text, size, "%s", x);
}

/* The value of the dtype that has these bits. */
static void value_of_bits(bt_dtype dtype, const char *bits, char *text, size_t size) {
    if (bti_c_is_small(dtype))
        snprintf(text, size, "f32_of_%s((u16)(%s))", bti_c_small_name(dtype), bits);
    else if (bti_dtype_is_float(dtype))
        snprintf(text, size, dtype == BT_F64 ? "f64_of_bits((u64)(%s))" : "f32_of_bits((u32)(%s))", bits);
    else if (dtype == BT_BOOL)
        snprintf(text, size, "(u8)((%s) != 0)", bits);
    else
        snprintf(text, size, "(%s)(%s)", value_type(dtype), bits);
}

static void bits_of_value(bt_dtype dtype, const char *x, char *text, size_t size) {
    if (bti_c_is_small(dtype))
        stored_form(dtype, x, text, size);
    else if (bti_dtype_is_float(dtype))
        snprintf(text, size, "bits_of_%s(%s)", value_type(dtype), x);
    else
        snprintf(text, size, "%s", x);
}

/* --- instructions -------------------------------------------------------------------------------------------------- */

static void define_value(bti_c *w, int number, const char *expression) {
    bti_c_line(w, "const %s v%d = %s;", value_type(bti_c_dtype(w, number)), number, expression);
}

void bti_c_constant(bti_c *w, int number) {
    char word[32], text[96];
    snprintf(word, sizeof word, "W(%d)", w->places.constant[number]);
    value_of_bits(bti_c_dtype(w, number), word, text, sizeof text);
    define_value(w, number, text);
}

void bti_c_loaded(bti_c *w, int number, const char *expression) {
    char text[320];
    bt_dtype dtype = bti_c_dtype(w, number);
    if (bti_c_is_small(dtype))
        snprintf(text, sizeof text, "f32_of_%s(%s)", bti_c_small_name(dtype), expression);
    else
        snprintf(text, sizeof text, "%s", expression);
    define_value(w, number, text);
}

void bti_c_counted(bti_c *w, int number, const char *index) {
    char whole[160], text[256];
    snprintf(whole, sizeof whole, "(i64)(%s)", index);
    cast_value(BT_I64, whole, bti_c_dtype(w, number), text, sizeof text);
    define_value(w, number, text);
}

void bti_c_stored(const bti_c *w, int number, char *expression, size_t size) {
    char value[16];
    snprintf(value, sizeof value, "v%d", number);
    stored_form(bti_c_dtype(w, number), value, expression, size);
}

/* A complex number is the bits of its parts: one word of 64 bits, or two. */
static void write_parts(const bti_c *w, const bti_instr *instr, char *text, size_t size) {
    int a = instr->arg[0], b = instr->arg[1];
    bool imaginary = instr->op == BTI_OP_imag;
    if (instr->op == BTI_OP_complex)
        snprintf(text, size, instr->dtype == BT_C64 ? "c64_of(v%d, v%d)" : "c128_of(v%d, v%d)", a, b);
    else if (bti_c_dtype(w, a) == BT_C64)
        snprintf(text, size, "f32_of_bits((u32)%sv%d%s)", imaginary ? "(" : "", a, imaginary ? " >> 32)" : "");
    else
        snprintf(text, size, "f64_of_bits(v%d.%c)", a, imaginary ? 'y' : 'x');
}

static void write_own_expression(bti_c *w, const bti_instr *instr, char *text, size_t size) {
    const uint16_t *a = instr->arg;
    bt_dtype from = bti_c_dtype(w, a[0]), to = (bt_dtype)instr->dtype;
    char x[16], bits[64];
    snprintf(x, sizeof x, "v%d", a[0]);
    if (instr->op == BTI_OP_complex || instr->op == BTI_OP_real || instr->op == BTI_OP_imag) {
        write_parts(w, instr, text, size);
        return;
    }
    switch (instr->op) {
    case BTI_OP_where: snprintf(text, size, "v%d ? v%d : v%d", a[0], a[1], a[2]); return;
    case BTI_OP_cast: cast_value(from, x, to, text, size); return;
    case BTI_OP_bitcast:
        bits_of_value(from, x, bits, sizeof bits);
        value_of_bits(to, bits, text, size);
        return;
    case BTI_OP_threefry:
        snprintf(text, size, "(u32)(threefry(v%d, v%d, v%d, v%d)%s)", a[0], a[1], a[2], a[3],
                 instr->attr ? " >> 32" : "");
        return;
    default: snprintf(text, size, "random_word(v%d, v%d, v%d, v%d)", a[0], a[1], a[2], a[3]);
    }
}

void bti_c_value(bti_c *w, int number) {
    const bti_instr *instr = &w->kernel->instrs[number];
    char text[256], call[128];
    if (!has_expression(instr->op)) {
        write_own_expression(w, instr, text, sizeof text);
        define_value(w, number, text);
        return;
    }
    bt_dtype dtype = bti_c_dtype(w, instr->arg[0]);
    int length = snprintf(call, sizeof call, "%s_%s(v%d", bti_op_info((bti_op)instr->op)->name,
                          function_suffix(computed_dtype(dtype)), instr->arg[0]);
    if (bti_op_info((bti_op)instr->op)->arity == 2)
        length += snprintf(call + length, sizeof call - (size_t)length, ", v%d", instr->arg[1]);
    snprintf(call + length, sizeof call - (size_t)length, ")");
    if (bti_c_is_small((bt_dtype)instr->dtype))
        snprintf(text, sizeof text, "rounded_%s(%s)", bti_c_small_name((bt_dtype)instr->dtype), call);
    else
        snprintf(text, sizeof text, "%s", call);
    define_value(w, number, text);
}

/* --- reductions ---------------------------------------------------------------------------------------------------- */

static bool is_sum_or_product(const bti_instr *reduction) {
    return reduction->op == BTI_OP_sum || reduction->op == BTI_OP_prod;
}

const char *bti_c_accumulator(const bti_c *w, const bti_instr *reduction) {
    bt_dtype dtype = (bt_dtype)reduction->dtype;
    if (!is_sum_or_product(reduction) || !bti_dtype_is_float(dtype)) return value_type(dtype);
    return w->target == BTI_OPENCL_C_F32 ? "f32" : "f64";
}

const char *bti_c_start(const bti_c *w, int reduction) {
    static const char *const least[] = {[BT_F16] = "f32_of_bits(0xff800000u)",
                                        [BT_BF16] = "f32_of_bits(0xff800000u)",
                                        [BT_F32] = "f32_of_bits(0xff800000u)",
                                        [BT_F64] = "f64_of_bits(0xfff0000000000000ul)",
                                        [BT_I8] = "-128",
                                        [BT_I16] = "-32768",
                                        [BT_I32] = "-2147483647 - 1",
                                        [BT_I64] = "-9223372036854775807l - 1",
                                        [BT_U8] = "0",
                                        [BT_U16] = "0",
                                        [BT_U32] = "0",
                                        [BT_U64] = "0",
                                        [BT_BOOL] = "0"};
    static const char *const greatest[] = {[BT_F16] = "f32_of_bits(0x7f800000u)",
                                           [BT_BF16] = "f32_of_bits(0x7f800000u)",
                                           [BT_F32] = "f32_of_bits(0x7f800000u)",
                                           [BT_F64] = "f64_of_bits(0x7ff0000000000000ul)",
                                           [BT_I8] = "127",
                                           [BT_I16] = "32767",
                                           [BT_I32] = "2147483647",
                                           [BT_I64] = "9223372036854775807l",
                                           [BT_U8] = "255",
                                           [BT_U16] = "65535",
                                           [BT_U32] = "4294967295u",
                                           [BT_U64] = "18446744073709551615ul",
                                           [BT_BOOL] = "1"};
    const bti_instr *instr = &w->kernel->instrs[reduction];
    switch (instr->op) {
    case BTI_OP_sum: return "0";
    case BTI_OP_prod: return "1";
    case BTI_OP_max: return least[instr->dtype];
    default: return greatest[instr->dtype];
    }
}

void bti_c_fold(bti_c *w, int reduction, const char *to, const char *x) {
    const bti_instr *instr = &w->kernel->instrs[reduction];
    bt_dtype dtype = (bt_dtype)instr->dtype;
    const char *type = bti_c_accumulator(w, instr), sign = instr->op == BTI_OP_prod ? '*' : '+';
    if (!is_sum_or_product(instr))
        bti_c_line(w, "%s = %s_%s(%s, %s);", to, instr->op == BTI_OP_max ? "maximum" : "minimum",
                   function_suffix(computed_dtype(dtype)), to, x);
    else if (bti_dtype_is_float(dtype))
        bti_c_line(w, "%s = %s %c (%s)%s;", to, to, sign, type, x);
    else {
        const char *natural = bti_dtype_bits(dtype) == 64 ? "u64" : "u32";
        bti_c_line(w, "%s = (%s)((%s)%s %c (%s)%s);", to, type, natural, to, sign, natural, x);
    }
}

void bti_c_total(bti_c *w, int reduction) {
    const bti_instr *instr = &w->kernel->instrs[reduction];
    bt_dtype dtype = (bt_dtype)instr->dtype;
    char total[16], text[96];
    snprintf(total, sizeof total, "t%d", reduction);
    bool real = is_sum_or_product(instr) && bti_dtype_is_float(dtype);
    if (real)
        cast_value(w->target == BTI_OPENCL_C_F32 ? BT_F32 : BT_F64, total, dtype, text, sizeof text);
    else
        snprintf(text, sizeof text, "%s", total);
    define_value(w, reduction, text);
}
