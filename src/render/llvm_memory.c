/* Loads, stores and counting along the line. Strided operands are read and written element by element (measured faster than
 * AVX-512's gather), and so are vectors that are not full where the target has no masks. */
#include <stdio.h>

#include "ir/dtype.h"
#include "reference/operand.h"
#include "render/llvm_writer.h"

enum { HELPER_COPY = 6 }; /* + log2 of the bytes: bits of `helpers`, after those of llvm_text.c */

static bool has_masks(const bti_llvm *w, bti_llvm_type type) {
    if (bti_llvm_bits(type) == 128) return false;
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
    for (int log = 0; log < 5; log++) {
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

/* The vector `before` with a lane from memory; the first lane of a new one. */
static bti_temp load_into_lane(bti_llvm *w, bti_llvm_type type, bti_temp at, bti_temp before, int lane) {
    bti_temp element = bti_llvm_new(w), result = bti_llvm_new(w);
    const char *name = bti_llvm_name(type, 1), *vector = bti_llvm_name(type, w->lanes);
    bti_llvm_line(w, "%%t%d = load %s, ptr %%t%d", element, name, at);
    if (lane)
        bti_llvm_line(w, "%%t%d = insertelement %s %%t%d, %s %%t%d, i64 %d", result, vector, before, name, element,
                      lane);
    else
        bti_llvm_line(w, "%%t%d = insertelement %s poison, %s %%t%d, i64 0", result, vector, name, element);
    return result;
}

static bti_temp load_strided(bti_llvm *w, bti_llvm_type type, bti_temp first, bti_temp stride) {
    if (w->mask != BTI_NO_TEMP) return load_by_copy(w, type, first, stride);
    bti_temp result = BTI_NO_TEMP, at = first;
    for (int lane = 0; lane < w->lanes; lane++) {
        if (lane) at = bti_llvm_element(w, BTI_LLVM_I8, at, stride);
        result = load_into_lane(w, type, at, result, lane);
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

/* As values are held, from the operand's position `at`. */
static bti_temp load_from(bti_llvm *w, int operand, bti_temp at) {
    bti_llvm_type type = bti_llvm_stored((bt_dtype)w->kernel->operands[operand].dtype);
    if (w->lanes == 1) return bti_llvm_load(w, type, at, bti_llvm_bits(type) / 8);
    if (w->kernel->operands[operand].unit) return bti_llvm_load_row(w, type, bti_llvm_element(w, type, at, w->index));
    bti_temp stride = line_stride(w, operand);
    return load_strided(w, type, bti_llvm_element(w, BTI_LLVM_I8, at, strided_offset(w, w->index, stride)), stride);
}

static bti_temp held_of_stored(bti_llvm *w, bt_dtype dtype, bti_temp stored) {
    return dtype == BT_BOOL ? bti_llvm_op_int(w, "icmp ne", BTI_LLVM_I8, stored, 0) : stored;
}

void bti_llvm_read_back(bti_llvm *w, int operand, int instr) {
    bti_temp stored = load_from(w, operand, w->at[operand]);
    bti_llvm_set(w, instr, held_of_stored(w, (bt_dtype)w->kernel->operands[operand].dtype, stored));
}

/* --- rows that are taken by number ---------------------------------------------------------------------------------- */

static bti_temp same_in_lanes(bti_llvm *w, bti_llvm_type type, bti_temp scalar) {
    return w->lanes == 1 ? scalar : bti_llvm_splat(w, type, scalar, w->lanes);
}

/* Of the rows of the current lanes: the bytes to them (to row 0 where there is none), and whether there is one. */
static bti_temp row_offset(bti_llvm *w, const bti_instr *take, bti_temp *inside) {
    const bti_llvm_type i64 = BTI_LLVM_I64;
    bti_llvm_type own = bti_llvm_own((bt_dtype)w->kernel->instrs[take->arg[0]].dtype);
    bti_temp row = bti_llvm_resize(w, own, bti_llvm_held(w, take->arg[0]), i64, true);
    bti_temp count = same_in_lanes(w, i64, w->value[take->arg[1]].own[0]);
    bti_temp bytes = same_in_lanes(w, i64, w->value[take->arg[2]].own[0]);
    bti_temp from_end = bti_llvm_op(w, "add", i64, row, count);
    row = bti_llvm_select(w, i64, bti_llvm_op_int(w, "icmp slt", i64, row, 0), from_end, row);
    *inside = bti_llvm_op(w, "icmp ult", i64, row, count);
    return bti_llvm_select(w, i64, *inside, bti_llvm_op(w, "mul", i64, row, bytes), bti_llvm_int(w, i64, 0));
}

/* Each lane from a row of its own; lanes that the mask leaves out read the first element. */
static bti_temp load_scattered(bti_llvm *w, int operand, bti_temp offset) {
    const bti_llvm_type i64 = BTI_LLVM_I64;
    const bti_kernel_operand *o = &w->kernel->operands[operand];
    bti_llvm_type type = bti_llvm_stored((bt_dtype)o->dtype);
    int lanes = w->lanes;
    if (o->moves >> bti_kernel_line(w->kernel) & 1) {
        w->lanes = 1;
        bti_temp stride = o->unit ? bti_llvm_int(w, i64, bti_llvm_bits(type) / 8) : line_stride(w, operand);
        bti_temp first = bti_llvm_op(w, "mul", i64, w->index, stride);
        w->lanes = lanes;
        bti_temp steps = bti_llvm_op(w, "mul", i64, bti_llvm_count(w, i64), bti_llvm_splat(w, i64, stride, lanes));
        offset = bti_llvm_op(w, "add", i64, offset, bti_llvm_splat(w, i64, first, lanes));
        offset = bti_llvm_op(w, "add", i64, offset, steps);
    }
    if (w->mask != BTI_NO_TEMP) offset = bti_llvm_select(w, i64, w->mask, offset, bti_llvm_int(w, i64, 0));
    bti_temp result = BTI_NO_TEMP;
    for (int lane = 0; lane < lanes; lane++) {
        bti_temp at = bti_llvm_element(w, BTI_LLVM_I8, w->at[operand], bti_llvm_slice(w, i64, offset, lanes, lane, 1));
        result = load_into_lane(w, type, at, result, lane);
    }
    return result;
}

/* bti_missing(dtype), as values are held. */
static bti_temp missing_value(bti_llvm *w, bt_dtype dtype) {
    bti_llvm_type own = bti_llvm_own(dtype);
    if (!bti_llvm_is_float(own)) return bti_llvm_int(w, own, (int64_t)bti_missing(dtype));
    bti_llvm_type whole = own == BTI_LLVM_F64 ? BTI_LLVM_I64 : BTI_LLVM_I32;
    return bti_llvm_convert(w, "bitcast", whole, bti_llvm_int(w, whole, (int64_t)bti_missing(dtype)), own);
}

void bti_llvm_take(bti_llvm *w, int number) {
    const bti_instr *take = &w->kernel->instrs[number];
    bt_dtype dtype = (bt_dtype)take->dtype;
    int lanes = w->lanes, operand = take->attr;
    bool each = w->along[take->arg[0]]; /* lane has a row of its own */
    bti_temp inside, stored;
    w->lanes = each ? lanes : 1;
    bti_temp offset = row_offset(w, take, &inside);
    w->lanes = lanes;
    if (each && lanes > 1)
        stored = load_scattered(w, operand, offset);
    else {
        stored = load_from(w, operand, bti_llvm_element(w, BTI_LLVM_I8, w->at[operand], offset));
        inside = same_in_lanes(w, BTI_LLVM_I1, inside);
    }
    bti_temp held = held_of_stored(w, dtype, stored);
    bti_llvm_set(w, number, bti_llvm_select(w, bti_llvm_own(dtype), inside, held, missing_value(w, dtype)));
}

/* --- counting and storing ------------------------------------------------------------------------------------------- */

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
