/* Loads, stores and counting along the line. Strided operands are read and written element by element (measured faster than
 * AVX-512's gather), and so are vectors that are not full where the target has no masks. */
#include <stdio.h>

#include "ir/dtype.h"
#include "render/llvm_writer.h"

enum { HELPER_COPY = 6 }; /* + log2 of the bytes: bits of `helpers`, after those of llvm_text.c */

static bool has_masks(const bti_llvm *w, bti_llvm_type type) {
    return w->target == BTI_LLVM_AVX512 || (w->target == BTI_LLVM_AVX2 && bti_llvm_bits(type) >= 32);
}

/* Through the mask of the vector; a load gives 0 in lanes that are off. */
static void masked_name(bti_llvm *w, bti_llvm_type type, const char *operation, char name[static 64]) {
    snprintf(name, 64, "@llvm.masked.%s.v%d%c%d.p0", operation, w->lanes, bti_llvm_is_float(type) ? 'f' : 'i',
             bti_llvm_bits(type));
}

static bti_temp masked_load(bti_llvm *w, bti_llvm_type type, bti_temp pointer) {
    const char *name = bti_llvm_name(type, w->lanes), *flags = bti_llvm_name(BTI_LLVM_I1, w->lanes);
    char function[64], declaration[160];
    masked_name(w, type, "load", function);
    snprintf(declaration, sizeof declaration, "%s %s(ptr, i32, %s, %s)", name, function, flags, name);
    bti_llvm_declare(w, declaration);
    bti_temp result = bti_llvm_new(w);
    bti_llvm_line(w, "%%t%d = call %s %s(ptr %%t%d, i32 %d, %s %%t%d, %s zeroinitializer)", result, name, function,
                  pointer, bti_llvm_bits(type) / 8, flags, w->mask, name);
    return result;
}

static void masked_store(bti_llvm *w, bti_llvm_type type, bti_temp value, bti_temp pointer) {
    const char *name = bti_llvm_name(type, w->lanes), *flags = bti_llvm_name(BTI_LLVM_I1, w->lanes);
    char function[64], declaration[160];
    masked_name(w, type, "store", function);
    snprintf(declaration, sizeof declaration, "void %s(%s, ptr, i32, %s)", function, name, flags);
    bti_llvm_declare(w, declaration);
    bti_llvm_line(w, "call void %s(%s %%t%d, ptr %%t%d, i32 %d, %s %%t%d)", function, name, value, pointer,
                  bti_llvm_bits(type) / 8, flags, w->mask);
}

/* --- through a scratch vector ------------------------------------------------------------------------------------- */

/* Without `stride` (BTI_NO_TEMP): contiguous elements. */
static void call_copy_helper(bti_llvm *w, bti_llvm_type type, bool in, bti_temp pointer, bti_temp stride) {
    int bytes = bti_llvm_bits(type) / 8;
    char step[24];
    w->helpers |= 1u << (HELPER_COPY + __builtin_ctz((unsigned)bytes));
    if (stride == BTI_NO_TEMP)
        snprintf(step, sizeof step, "%d", bytes);
    else
        snprintf(step, sizeof step, "%%t%d", stride);
    if (in)
        bti_llvm_line(w, "call void @copy_%d(ptr %%scratch, i64 %d, ptr %%t%d, i64 %s, i64 %%t%d)", bytes, bytes,
                      pointer, step, w->rest);
    else
        bti_llvm_line(w, "call void @copy_%d(ptr %%t%d, i64 %s, ptr %%scratch, i64 %d, i64 %%t%d)", bytes, pointer,
                      step, bytes, w->rest);
}

static bti_temp load_by_copy(bti_llvm *w, bti_llvm_type type, bti_temp pointer, bti_temp stride) {
    const char *name = bti_llvm_name(type, w->lanes);
    bti_temp result = bti_llvm_new(w);
    bti_llvm_line(w, "store %s zeroinitializer, ptr %%scratch, align 64", name);
    call_copy_helper(w, type, true, pointer, stride);
    bti_llvm_line(w, "%%t%d = load %s, ptr %%scratch, align 64", result, name);
    return result;
}

static void store_by_copy(bti_llvm *w, bti_llvm_type type, bti_temp value, bti_temp pointer, bti_temp stride) {
    bti_llvm_line(w, "store %s %%t%d, ptr %%scratch, align 64", bti_llvm_name(type, w->lanes), value);
    call_copy_helper(w, type, false, pointer, stride);
}

void bti_llvm_memory_helpers(bti_llvm *w) {
    for (int log = 0; log < 4; log++) {
        if (!(w->helpers >> (HELPER_COPY + log) & 1)) continue;
        bti_str_addf(
            w->text,
            "\ndefine internal void @copy_%d(ptr %%to, i64 %%to_step, ptr %%from, i64 %%from_step, i64 %%count) "
            "#0 {\nstart:\n  br label %%loop\nloop:\n",
            1 << log);
        bti_llvm_line(w, "%%i = phi i64 [ 0, %%start ], [ %%next, %%loop ]");
        bti_llvm_line(w, "%%from_offset = mul i64 %%i, %%from_step");
        bti_llvm_line(w, "%%from_at = getelementptr i8, ptr %%from, i64 %%from_offset");
        bti_llvm_line(w, "%%element = load i%d, ptr %%from_at", 8 << log);
        bti_llvm_line(w, "%%to_offset = mul i64 %%i, %%to_step");
        bti_llvm_line(w, "%%to_at = getelementptr i8, ptr %%to, i64 %%to_offset");
        bti_llvm_line(w, "store i%d %%element, ptr %%to_at", 8 << log);
        bti_llvm_line(w, "%%next = add nuw nsw i64 %%i, 1");
        bti_llvm_line(w, "%%more = icmp slt i64 %%next, %%count");
        bti_llvm_line(w, "br i1 %%more, label %%loop, label %%end");
        bti_str_add(w->text, "end:\n  ret void\n}\n");
    }
}

/* --- contiguous elements ---------------------------------------------------------------------------------- */

bti_temp bti_llvm_load_row(bti_llvm *w, bti_llvm_type type, bti_temp pointer) {
    if (w->mask == BTI_NO_TEMP) return bti_llvm_load(w, type, pointer, bti_llvm_bits(type) / 8);
    if (has_masks(w, type)) return masked_load(w, type, pointer);
    return load_by_copy(w, type, pointer, BTI_NO_TEMP);
}

void bti_llvm_store_row(bti_llvm *w, bti_llvm_type type, bti_temp value, bti_temp pointer, bool stream) {
    int bytes = bti_llvm_bits(type) / 8, whole = bytes * w->lanes;
    if (w->mask != BTI_NO_TEMP && has_masks(w, type))
        masked_store(w, type, value, pointer);
    else if (w->mask != BTI_NO_TEMP)
        store_by_copy(w, type, value, pointer, BTI_NO_TEMP);
    else if (stream)
        bti_llvm_line(w, "store %s %%t%d, ptr %%t%d, align %d, !nontemporal !0", bti_llvm_name(type, w->lanes), value,
                      pointer, whole < 64 ? whole : 64);
    else
        bti_llvm_store(w, type, value, pointer, bytes);
}

/* --- strided ------------------------------------------------------------------------------------------------------ */

/* In scalar arithmetic, for any number of current lanes. */
static bti_temp strided_offset(bti_llvm *w, bti_temp index, bti_temp stride) {
    int lanes = w->lanes;
    w->lanes = 1;
    bti_temp offset = bti_llvm_op(w, "mul", BTI_LLVM_I64, index, stride);
    w->lanes = lanes;
    return offset;
}

static bti_temp load_strided(bti_llvm *w, bti_llvm_type type, bti_temp first, bti_temp stride) {
    if (w->mask != BTI_NO_TEMP) return load_by_copy(w, type, first, stride);
    bti_temp result = BTI_NO_TEMP, at = first;
    for (int lane = 0; lane < w->lanes; lane++) {
        bti_temp element = bti_llvm_new(w), before = result;
        const char *name = bti_llvm_name(type, 1), *vector = bti_llvm_name(type, w->lanes);
        if (lane) at = bti_llvm_element(w, BTI_LLVM_I8, at, stride);
        bti_llvm_line(w, "%%t%d = load %s, ptr %%t%d", element, name, at);
        result = bti_llvm_new(w);
        if (lane)
            bti_llvm_line(w, "%%t%d = insertelement %s %%t%d, %s %%t%d, i64 %d", result, vector, before, name, element,
                          lane);
        else
            bti_llvm_line(w, "%%t%d = insertelement %s poison, %s %%t%d, i64 0", result, vector, name, element);
    }
    return result;
}

static void store_strided(bti_llvm *w, bti_llvm_type type, bti_temp value, bti_temp first, bti_temp stride) {
    if (w->mask != BTI_NO_TEMP) {
        store_by_copy(w, type, value, first, stride);
        return;
    }
    for (int lane = 0; lane < w->lanes; lane++) {
        bti_temp element = bti_llvm_slice(w, type, value, w->lanes, lane, 1);
        if (lane) first = bti_llvm_element(w, BTI_LLVM_I8, first, stride);
        bti_llvm_line(w, "store %s %%t%d, ptr %%t%d", bti_llvm_name(type, 1), element, first);
    }
}

/* --- instructions ------------------------------------------------------------------------------------------------- */

static bti_temp line_stride(const bti_llvm *w, int operand) {
    return w->stride[operand][bti_kernel_axes(w->kernel) - 1];
}

void bti_llvm_leaf(bti_llvm *w, int instr) { bti_llvm_read_back(w, w->kernel->instrs[instr].arg[0], instr); }

void bti_llvm_read_back(bti_llvm *w, int operand, int instr) {
    bt_dtype dtype = (bt_dtype)w->kernel->operands[operand].dtype;
    bti_llvm_type type = bti_llvm_stored(dtype);
    bti_temp at = w->at[operand], value;
    if (w->lanes == 1)
        value = bti_llvm_load(w, type, at, bti_llvm_bits(type) / 8);
    else if (w->kernel->operands[operand].unit)
        value = bti_llvm_load_row(w, type, bti_llvm_element(w, type, at, w->index));
    else {
        bti_temp stride = line_stride(w, operand);
        value =
            load_strided(w, type, bti_llvm_element(w, BTI_LLVM_I8, at, strided_offset(w, w->index, stride)), stride);
    }
    if (dtype == BT_BOOL) value = bti_llvm_op_int(w, "icmp ne", BTI_LLVM_I8, value, 0);
    bti_llvm_set(w, instr, value);
}

/* Computed in the width of the dtype if it is an integer: the result wraps as that of 64 bits does. */
void bti_llvm_iota(bti_llvm *w, int instr) {
    const bti_instr *iota = &w->kernel->instrs[instr];
    bt_dtype dtype = (bt_dtype)iota->dtype;
    bti_llvm_type type = bti_dtype_is_int(dtype) ? bti_llvm_own(dtype) : BTI_LLVM_I64;
    bti_temp number = w->at[iota->arg[0]], unit = BTI_NO_TEMP;
    int lanes = w->lanes;
    w->lanes = 1;
    if (lanes > 1) {
        bti_temp stride = line_stride(w, iota->arg[0]), moved = w->index;
        if (stride != BTI_NO_TEMP) {
            unit = bti_llvm_resize(w, BTI_LLVM_I64, stride, type, false);
            moved = bti_llvm_op(w, "mul", BTI_LLVM_I64, moved, stride);
        }
        number = bti_llvm_op(w, "add", BTI_LLVM_I64, number, moved);
    }
    number = bti_llvm_resize(w, BTI_LLVM_I64, number, type, false);
    w->lanes = lanes;
    if (lanes > 1) {
        bti_temp steps = bti_llvm_count(w, type);
        if (unit != BTI_NO_TEMP) steps = bti_llvm_op(w, "mul", type, steps, bti_llvm_splat(w, type, unit, lanes));
        number = bti_llvm_op(w, "add", type, bti_llvm_splat(w, type, number, lanes), steps);
    }
    bti_llvm_set(w, instr, bti_dtype_is_int(dtype) ? number : bti_llvm_cast(w, BT_I64, number, dtype));
}

void bti_llvm_output(bti_llvm *w, int operand, int instr) {
    const bti_kernel_operand *output = &w->kernel->operands[operand];
    bti_llvm_type type = bti_llvm_stored((bt_dtype)output->dtype);
    bti_temp value = bti_llvm_held(w, instr), at = w->at[operand];
    if (output->dtype == BT_BOOL) value = bti_llvm_convert(w, "zext", BTI_LLVM_I1, value, BTI_LLVM_I8);
    if (w->lanes == 1)
        bti_llvm_store(w, type, value, at, bti_llvm_bits(type) / 8);
    else if (output->unit)
        bti_llvm_store_row(w, type, value, bti_llvm_element(w, type, at, w->index), w->stream);
    else {
        bti_temp stride = line_stride(w, operand);
        at = bti_llvm_element(w, BTI_LLVM_I8, at, strided_offset(w, w->index, stride));
        store_strided(w, type, value, at, stride);
    }
}
