/* LLVM IR: types, instructions, loops and branches, calls. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "ir/dtype.h"
#include "ir/half.h"
#include "render/llvm_writer.h"

#define NAMES(type)                                                                                       \
    {                                                                                                     \
        type, "<2 x " type ">", "<4 x " type ">", "<8 x " type ">", "<16 x " type ">", "<32 x " type ">", \
            "<64 x " type ">"                                                                             \
    }
static const char *const type_names[][7] = {NAMES("i1"),  NAMES("i8"),    NAMES("i16"),    NAMES("i32"),
                                            NAMES("i64"), NAMES("float"), NAMES("double"), NAMES("half"),
                                            NAMES("ptr"), NAMES("i128")};

const char *bti_llvm_name(bti_llvm_type type, int lanes) { return type_names[type][__builtin_ctz((unsigned)lanes)]; }

int bti_llvm_bits(bti_llvm_type type) {
    static const uint8_t bits[] = {1, 8, 16, 32, 64, 32, 64, 16, 64, 128};
    return bits[type];
}

bti_llvm_type bti_llvm_own(bt_dtype dtype) {
    switch (dtype) {
    case BT_BOOL: return BTI_LLVM_I1;
    case BT_F32: return BTI_LLVM_F32;
    case BT_F64: return BTI_LLVM_F64;
    default: break;
    }
    static const uint8_t by_size[] = {
        [1] = BTI_LLVM_I8, [2] = BTI_LLVM_I16, [4] = BTI_LLVM_I32, [8] = BTI_LLVM_I64, [16] = BTI_LLVM_I128};
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

/* A constant as a temp; the bitcast costs nothing. */
static bti_temp constant_vector(bti_llvm *w, bti_llvm_type type, const char *(*text)(char *, int64_t), int64_t first,
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

static const char *decimal_text(char *text, int64_t number) {
    snprintf(text, 32, "%" PRId64, number);
    return text;
}

static const char *hexadecimal_text(char *text, int64_t bits) {
    snprintf(text, 32, "0x%016" PRIX64, bits);
    return text;
}

bti_temp bti_llvm_int(bti_llvm *w, bti_llvm_type type, int64_t number) {
    int unused = 64 - bti_llvm_bits(type);
    return constant_vector(w, type, decimal_text,
                           type == BTI_LLVM_I1 ? number & 1 : (int64_t)((uint64_t)number << unused) >> unused, 0);
}

bti_temp bti_llvm_real(bti_llvm *w, bti_llvm_type type, double number) {
    return constant_vector(w, type, hexadecimal_text, (int64_t)bti_f64_bits(number), 0);
}

bti_temp bti_llvm_count(bti_llvm *w, bti_llvm_type type) { return constant_vector(w, type, decimal_text, 0, 1); }

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

/* Two vectors of `lanes` each as one. */
static bti_temp join_vectors(bti_llvm *w, bti_llvm_type type, bti_temp x, bti_temp y, int lanes) {
    return shuffle(w, type, x, y, lanes, 0, 2 * lanes);
}

/* A vector of `count` elements of the two vectors, which are numbered one after the other. */
static bti_temp shuffle_by(bti_llvm *w, bti_llvm_type type, bti_temp x, bti_temp y, int lanes, int count,
                           int (*element)(int i, int lanes)) {
    bti_temp result = bti_llvm_new(w);
    const char *name = bti_llvm_name(type, lanes);
    bti_str_addf(w->text, "  %%t%d = shufflevector %s %%t%d, %s %%t%d, %s <", result, name, x, name, y,
                 bti_llvm_name(BTI_LLVM_I32, count));
    for (int i = 0; i < count; i++) bti_str_addf(w->text, "%si32 %d", i ? ", " : "", element(i, lanes));
    bti_str_add(w->text, ">\n");
    return result;
}

static int even_element(int i, int lanes) { return (void)lanes, 2 * i; }
static int odd_element(int i, int lanes) { return (void)lanes, 2 * i + 1; }
static int alternating_element(int i, int lanes) { return i / 2 + (i % 2 ? lanes : 0); }

bti_temp bti_llvm_every_other(bti_llvm *w, bti_llvm_type type, bti_temp x, bool odd) {
    if (w->lanes == 1) return bti_llvm_slice(w, type, x, 2, odd, 1);
    return shuffle_by(w, type, x, x, 2 * w->lanes, w->lanes, odd ? odd_element : even_element);
}

bti_temp bti_llvm_interleaved(bti_llvm *w, bti_llvm_type type, bti_temp even, bti_temp odd) {
    if (w->lanes > 1) return shuffle_by(w, type, even, odd, w->lanes, 2 * w->lanes, alternating_element);
    bti_temp first = bti_llvm_new(w), result = bti_llvm_new(w);
    const char *name = bti_llvm_name(type, 2), *one = bti_llvm_name(type, 1);
    bti_llvm_line(w, "%%t%d = insertelement %s poison, %s %%t%d, i64 0", first, name, one, even);
    bti_llvm_line(w, "%%t%d = insertelement %s %%t%d, %s %%t%d, i64 1", result, name, first, one, odd);
    return result;
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

/* --- loops and branches ----------------------------------------------------------------------------------------------- */

static int new_label(bti_llvm *w) { return w->labels++; }

static void begin_block(bti_llvm *w, int label) {
    bti_str_addf(w->text, "b%d:\n", label);
    w->block = label;
}

static void branch_to(bti_llvm *w, int label) { bti_llvm_line(w, "br label %%b%d", label); }

static void branch_if(bti_llvm *w, bti_temp condition, int yes, int no) {
    bti_llvm_line(w, "br i1 %%t%d, label %%b%d, label %%b%d", condition, yes, no);
}

static bti_temp write_phi(bti_llvm *w, const char *type, bti_temp a, int from_a, bti_temp b, int from_b) {
    bti_temp result = bti_llvm_new(w);
    bti_llvm_line(w, "%%t%d = phi %s [ %%t%d, %%b%d ], [ %%t%d, %%b%d ]", result, type, a, from_a, b, from_b);
    return result;
}

static const char *carried_type(const bti_llvm_carry *carry, int i) {
    return bti_llvm_name((bti_llvm_type)carry->type[i], carry->lanes);
}

void bti_llvm_loop_begin(bti_llvm *w, bti_llvm_loop *loop, bti_temp from, bti_temp bound, int64_t step,
                         bti_llvm_carry *carry) {
    int before = w->block;
    *loop = (bti_llvm_loop){.head = new_label(w), .latch = new_label(w), .bound = bound, .step = step, .carry = carry};
    loop->next = bti_llvm_new(w);
    loop->carried = w->temps; /* names for the values at the latch */
    if (carry) w->temps += carry->count;
    branch_to(w, loop->head);
    begin_block(w, loop->head);
    loop->index = write_phi(w, "i64", from, before, loop->next, loop->latch);
    for (int i = 0; carry && i < carry->count; i++)
        carry->value[i] = write_phi(w, carried_type(carry, i), carry->value[i], before, loop->carried + i, loop->latch);
}

void bti_llvm_loop_end(bti_llvm *w, bti_llvm_loop *loop) {
    bti_llvm_carry *carry = loop->carry;
    bti_temp more = bti_llvm_new(w);
    int end = new_label(w);
    branch_to(w, loop->latch);
    begin_block(w, loop->latch);
    for (int i = 0; carry && i < carry->count; i++) {
        bti_llvm_line(w, "%%t%d = bitcast %s %%t%d to %s", loop->carried + i, carried_type(carry, i), carry->value[i],
                      carried_type(carry, i));
        carry->value[i] = loop->carried + i;
    }
    bti_llvm_line(w, "%%t%d = add nsw i64 %%t%d, %lld", loop->next, loop->index, (long long)loop->step);
    bti_llvm_line(w, "%%t%d = icmp slt i64 %%t%d, %%t%d", more, loop->next, loop->bound);
    branch_if(w, more, loop->head, end);
    begin_block(w, end);
}

void bti_llvm_if_begin(bti_llvm *w, bti_llvm_if *branch, bti_temp condition, bti_llvm_carry *carry) {
    int yes = new_label(w);
    branch->before = w->block;
    branch->join = new_label(w);
    branch->carry = carry;
    if (carry) branch->saved = *carry;
    branch_if(w, condition, yes, branch->join);
    begin_block(w, yes);
}

void bti_llvm_if_end(bti_llvm *w, bti_llvm_if *branch) {
    int inside = w->block;
    bti_llvm_carry *carry = branch->carry;
    branch_to(w, branch->join);
    begin_block(w, branch->join);
    for (int i = 0; carry && i < carry->count; i++)
        carry->value[i] =
            write_phi(w, carried_type(carry, i), carry->value[i], inside, branch->saved.value[i], branch->before);
}

/* --- calls through the table of functions (launch/functions.h) -------------------------------------------------------- */

/* Bits of `helpers`; + arguments - 1. */
enum { EACH_F32 = 0, EACH_F64 = 2, EACH_I64 = 4 };

static bti_temp function_from_table(bti_llvm *w, int number) {
    return bti_llvm_parameter(w, "functions", BTI_LLVM_PTR, number);
}

static bti_temp write_call(bti_llvm *w, bti_temp function, const char *type, int count, const bti_temp *x) {
    bti_temp result = bti_llvm_new(w);
    bti_str_addf(w->text, "  %%t%d = call %s %%t%d(", result, type, function);
    for (int i = 0; i < count; i++) bti_str_addf(w->text, "%s%s %%t%d", i ? ", " : "", type, x[i]);
    bti_str_add(w->text, ")\n");
    return result;
}

static int helper_bit(bti_llvm_type type, int count) {
    return (type == BTI_LLVM_F32 ? EACH_F32 : type == BTI_LLVM_F64 ? EACH_F64 : EACH_I64) + count - 1;
}

bti_temp bti_llvm_call_scalar(bti_llvm *w, int number, bti_llvm_type type, int count, const bti_temp *x) {
    bti_temp function = function_from_table(w, number), result;
    if (w->lanes == 1) return write_call(w, function, bti_llvm_name(type, 1), count, x);
    w->helpers |= 1u << helper_bit(type, count);
    result = bti_llvm_new(w);
    const char *name = bti_llvm_name(type, w->lanes);
    bti_str_addf(w->text, "  %%t%d = call %s @each_%s_%d(ptr %%t%d", result, name, bti_llvm_name(type, 1), count,
                 function);
    for (int i = 0; i < count; i++) bti_str_addf(w->text, ", %s %%t%d", name, x[i]);
    bti_str_add(w->text, ")\n");
    return result;
}

bti_temp bti_llvm_call_vector(bti_llvm *w, int number, bti_llvm_type type, int count, const bti_temp *x) {
    bool f64 = type == BTI_LLVM_F64;
    int piece = bti_target_lanes(w->target, f64), lanes = w->lanes;
    number += f64;
    if (piece == 1) return bti_llvm_call_scalar(w, number, type, count, x);
    bti_temp function = function_from_table(w, number), parts[BTI_LANES], pieces[2];
    const char *name = bti_llvm_name(type, piece);
    if (lanes == 1) {
        for (int i = 0; i < count; i++) pieces[i] = bti_llvm_splat(w, type, x[i], piece);
        return bti_llvm_slice(w, type, write_call(w, function, name, count, pieces), piece, 0, 1);
    }
    int parts_count = 0;
    for (int from = 0; from < lanes; from += piece) {
        for (int i = 0; i < count; i++) pieces[i] = bti_llvm_slice(w, type, x[i], lanes, from, piece);
        parts[parts_count++] = write_call(w, function, name, count, pieces);
    }
    for (; parts_count > 1; parts_count /= 2, piece *= 2)
        for (int i = 0; i < parts_count / 2; i++)
            parts[i] = join_vectors(w, type, parts[2 * i], parts[2 * i + 1], piece);
    return parts[0];
}

/* Writes a helper that calls a scalar function for each lane, in a loop over memory. */
static void write_each_helper(bti_llvm *w, bti_llvm_type type, int count) {
    const char *one = bti_llvm_name(type, 1), *all = bti_llvm_name(type, w->vector);
    bti_str_addf(w->text, "\ndefine internal %s @each_%s_%d(ptr %%function", all, one, count);
    for (int i = 0; i < count; i++) bti_str_addf(w->text, ", %s %%x%d", all, i);
    bti_str_add(w->text, ") #0 {\nstart:\n");
    bti_llvm_line(w, "%%results = alloca %s", all);
    for (int i = 0; i < count; i++) {
        bti_llvm_line(w, "%%xs%d = alloca %s", i, all);
        bti_llvm_line(w, "store %s %%x%d, ptr %%xs%d", all, i, i);
    }
    bti_llvm_line(w, "br label %%loop");
    bti_str_add(w->text, "loop:\n");
    bti_llvm_line(w, "%%i = phi i64 [ 0, %%start ], [ %%next, %%loop ]");
    for (int i = 0; i < count; i++) {
        bti_llvm_line(w, "%%at%d = getelementptr %s, ptr %%xs%d, i64 %%i", i, one, i);
        bti_llvm_line(w, "%%one%d = load %s, ptr %%at%d", i, one, i);
    }
    bti_str_addf(w->text, "  %%result = call %s %%function(", one);
    for (int i = 0; i < count; i++) bti_str_addf(w->text, "%s%s %%one%d", i ? ", " : "", one, i);
    bti_str_add(w->text, ")\n");
    bti_llvm_line(w, "%%to = getelementptr %s, ptr %%results, i64 %%i", one);
    bti_llvm_line(w, "store %s %%result, ptr %%to", one);
    bti_llvm_line(w, "%%next = add nuw nsw i64 %%i, 1");
    bti_llvm_line(w, "%%more = icmp ult i64 %%next, %d", w->vector);
    bti_llvm_line(w, "br i1 %%more, label %%loop, label %%end");
    bti_str_add(w->text, "end:\n");
    bti_llvm_line(w, "%%all = load %s, ptr %%results", all);
    bti_llvm_line(w, "ret %s %%all", all);
    bti_str_add(w->text, "}\n");
}

void bti_llvm_call_helpers(bti_llvm *w) {
    static const bti_llvm_type types[] = {BTI_LLVM_F32, BTI_LLVM_F64, BTI_LLVM_I64};
    for (int i = 0; i < 6; i++)
        if (w->helpers >> i & 1) write_each_helper(w, types[i / 2], i % 2 + 1);
}
