#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "ir/dtype.h"
#include "ir/half.h"
#include "render/llvm_parts.h"

#define NAMES(type) \
    { type, "<2 x " type ">", "<4 x " type ">", "<8 x " type ">", "<16 x " type ">", "<32 x " type ">" }
static const char *const names[][6] = {NAMES("i1"),    NAMES("i8"),     NAMES("i16"),  NAMES("i32"), NAMES("i64"),
                                       NAMES("float"), NAMES("double"), NAMES("half"), NAMES("ptr")};

const char *bti_llvm_name(bti_llvm_type type, int lanes) { return names[type][__builtin_ctz((unsigned)lanes)]; }

int bti_llvm_bits(bti_llvm_type type) {
    static const uint8_t bits[] = {1, 8, 16, 32, 64, 32, 64, 16, 64};
    return bits[type];
}

bti_llvm_type bti_llvm_own(bt_dtype dtype) {
    switch (dtype) {
    case BT_BOOL: return BTI_LLVM_I1;
    case BT_F32: return BTI_LLVM_F32;
    case BT_F64: return BTI_LLVM_F64;
    default: break;
    }
    static const uint8_t by_size[] = {[1] = BTI_LLVM_I8, [2] = BTI_LLVM_I16, [4] = BTI_LLVM_I32, [8] = BTI_LLVM_I64};
    return by_size[bt_dtype_size(dtype)];
}

bti_llvm_type bti_llvm_wide(bt_dtype dtype) { return bti_llvm_is_small(dtype) ? BTI_LLVM_F32 : bti_llvm_own(dtype); }

void bti_llvm_line(bti_llvm *w, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    bti_str_add(w->text, "  ");
    bti_str_addv(w->text, format, arguments);
    bti_str_add(w->text, "\n");
    va_end(arguments);
}

bti_temp bti_llvm_new(bti_llvm *w) { return w->temps++; }

#define NAME(type) bti_llvm_name(type, w->lanes)

/* A constant given a name; the code generator sees through it. */
static bti_temp constant(bti_llvm *w, bti_llvm_type type, const char *(*text)(char *, int64_t), int64_t first,
                         int64_t step) {
    bti_temp result = bti_llvm_new(w);
    char number[32];
    bti_str_addf(w->text, "  %%t%d = bitcast %s ", result, NAME(type));
    if (w->lanes > 1) bti_str_add(w->text, "<");
    for (int lane = 0; lane < w->lanes; lane++) {
        if (w->lanes > 1) bti_str_addf(w->text, "%s%s ", lane ? ", " : "", bti_llvm_name(type, 1));
        bti_str_add(w->text, text(number, first + lane * step));
    }
    bti_str_addf(w->text, "%s to %s\n", w->lanes > 1 ? ">" : "", NAME(type));
    return result;
}

static const char *whole(char *text, int64_t number) {
    snprintf(text, 32, "%" PRId64, number);
    return text;
}

static const char *hexadecimal(char *text, int64_t bits) {
    snprintf(text, 32, "0x%016" PRIX64, bits);
    return text;
}

bti_temp bti_llvm_int(bti_llvm *w, bti_llvm_type type, int64_t number) {
    int unused = 64 - bti_llvm_bits(type);
    return constant(w, type, whole, type == BTI_LLVM_I1 ? number & 1 : (int64_t)((uint64_t)number << unused) >> unused,
                    0);
}

bti_temp bti_llvm_real(bti_llvm *w, bti_llvm_type type, double number) {
    return constant(w, type, hexadecimal, (int64_t)bti_f64_bits(number), 0);
}

bti_temp bti_llvm_count(bti_llvm *w, bti_llvm_type type) { return constant(w, type, whole, 0, 1); }

bti_temp bti_llvm_op(bti_llvm *w, const char *operation, bti_llvm_type type, bti_temp x, bti_temp y) {
    bti_temp result = bti_llvm_new(w);
    bti_llvm_line(w, "%%t%d = %s %s %%t%d, %%t%d", result, operation, NAME(type), x, y);
    return result;
}

bti_temp bti_llvm_op_int(bti_llvm *w, const char *operation, bti_llvm_type type, bti_temp x, int64_t y) {
    return bti_llvm_op(w, operation, type, x, bti_llvm_int(w, type, y));
}

bti_temp bti_llvm_op_real(bti_llvm *w, const char *operation, bti_llvm_type type, bti_temp x, double y) {
    return bti_llvm_op(w, operation, type, x, bti_llvm_real(w, type, y));
}

bti_temp bti_llvm_select(bti_llvm *w, bti_llvm_type type, bti_temp condition, bti_temp x, bti_temp y) {
    bti_temp result = bti_llvm_new(w);
    bti_llvm_line(w, "%%t%d = select %s %%t%d, %s %%t%d, %s %%t%d", result, NAME(BTI_LLVM_I1), condition, NAME(type), x,
                  NAME(type), y);
    return result;
}

bti_temp bti_llvm_convert(bti_llvm *w, const char *operation, bti_llvm_type from, bti_temp x, bti_llvm_type to) {
    bti_temp result = bti_llvm_new(w);
    bti_llvm_line(w, "%%t%d = %s %s %%t%d to %s", result, operation, NAME(from), x, NAME(to));
    return result;
}

bti_temp bti_llvm_resize(bti_llvm *w, bti_llvm_type from, bti_temp x, bti_llvm_type to, bool is_signed) {
    if (from == to) return x;
    bool shorter = bti_llvm_bits(to) < bti_llvm_bits(from);
    return bti_llvm_convert(w, shorter ? "trunc" : is_signed ? "sext" : "zext", from, x, to);
}

void bti_llvm_declare(bti_llvm *w, const char *declaration) {
    if (!strstr(bti_str_text(&w->declared), declaration)) bti_str_addf(&w->declared, "declare %s\n", declaration);
}

bti_temp bti_llvm_intrinsic(bti_llvm *w, const char *name, bti_llvm_type type, int count, const bti_temp *x) {
    char suffix[16], declaration[256], *end = declaration;
    const char *letter = bti_llvm_is_float(type) ? "f" : "i";
    if (w->lanes > 1)
        snprintf(suffix, sizeof suffix, "v%d%s%d", w->lanes, letter, bti_llvm_bits(type));
    else
        snprintf(suffix, sizeof suffix, "%s%d", letter, bti_llvm_bits(type));
    end += snprintf(end, 128, "%s @llvm.%s.%s(", NAME(type), name, suffix);
    for (int i = 0; i < count; i++) end += snprintf(end, 32, "%s%s", i ? ", " : "", NAME(type));
    snprintf(end, 8, ")");
    bti_llvm_declare(w, declaration);
    bti_temp result = bti_llvm_new(w);
    bti_str_addf(w->text, "  %%t%d = call %s @llvm.%s.%s(", result, NAME(type), name, suffix);
    for (int i = 0; i < count; i++) bti_str_addf(w->text, "%s%s %%t%d", i ? ", " : "", NAME(type), x[i]);
    bti_str_add(w->text, ")\n");
    return result;
}

/* --- vectors ------------------------------------------------------------------------------------------------------ */

bti_temp bti_llvm_splat(bti_llvm *w, bti_llvm_type type, bti_temp x, int lanes) {
    bti_temp first = bti_llvm_new(w), result = bti_llvm_new(w);
    const char *name = bti_llvm_name(type, lanes);
    bti_llvm_line(w, "%%t%d = insertelement %s poison, %s %%t%d, i64 0", first, name, bti_llvm_name(type, 1), x);
    bti_llvm_line(w, "%%t%d = shufflevector %s %%t%d, %s poison, %s zeroinitializer", result, name, first, name,
                  bti_llvm_name(BTI_LLVM_I32, lanes));
    return result;
}

static bti_temp shuffle(bti_llvm *w, bti_llvm_type type, bti_temp x, bti_temp y, int lanes, int from, int count) {
    bti_temp result = bti_llvm_new(w);
    const char *name = bti_llvm_name(type, lanes);
    bti_str_addf(w->text, "  %%t%d = shufflevector %s %%t%d, %s ", result, name, x, name);
    if (y == BTI_NO_TEMP)
        bti_str_add(w->text, "poison");
    else
        bti_str_addf(w->text, "%%t%d", y);
    bti_str_addf(w->text, ", %s <", bti_llvm_name(BTI_LLVM_I32, count));
    for (int i = 0; i < count; i++) bti_str_addf(w->text, "%si32 %d", i ? ", " : "", from + i);
    bti_str_add(w->text, ">\n");
    return result;
}

bti_temp bti_llvm_slice(bti_llvm *w, bti_llvm_type type, bti_temp x, int lanes, int from, int count) {
    if (count == lanes) return x;
    if (count > 1) return shuffle(w, type, x, BTI_NO_TEMP, lanes, from, count);
    bti_temp result = bti_llvm_new(w);
    bti_llvm_line(w, "%%t%d = extractelement %s %%t%d, i64 %d", result, bti_llvm_name(type, lanes), x, from);
    return result;
}

bti_temp bti_llvm_join(bti_llvm *w, bti_llvm_type type, bti_temp x, bti_temp y, int lanes) {
    return shuffle(w, type, x, y, lanes, 0, 2 * lanes);
}

/* --- memory ------------------------------------------------------------------------------------------------------- */

bti_temp bti_llvm_load(bti_llvm *w, bti_llvm_type type, bti_temp pointer, int align) {
    bti_temp result = bti_llvm_new(w);
    bti_llvm_line(w, "%%t%d = load %s, ptr %%t%d, align %d", result, NAME(type), pointer, align);
    return result;
}

void bti_llvm_store(bti_llvm *w, bti_llvm_type type, bti_temp value, bti_temp pointer, int align) {
    bti_llvm_line(w, "store %s %%t%d, ptr %%t%d, align %d", NAME(type), value, pointer, align);
}

bti_temp bti_llvm_element(bti_llvm *w, bti_llvm_type type, bti_temp pointer, bti_temp index) {
    bti_temp result = bti_llvm_new(w);
    bti_llvm_line(w, "%%t%d = getelementptr %s, ptr %%t%d, i64 %%t%d", result, bti_llvm_name(type, 1), pointer, index);
    return result;
}

bti_temp bti_llvm_parameter(bti_llvm *w, const char *array, bti_llvm_type type, int64_t index) {
    bti_temp pointer = bti_llvm_new(w), result = bti_llvm_new(w);
    bti_llvm_line(w, "%%t%d = getelementptr i64, ptr %%%s, i64 %" PRId64, pointer, array, index);
    bti_llvm_line(w, "%%t%d = load %s, ptr %%t%d, align 8", result, bti_llvm_name(type, 1), pointer);
    return result;
}
