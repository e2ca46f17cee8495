/* Calls through the table of functions (launch/functions.h). */
#include "render/llvm_parts.h"

enum { EACH_F32 = 0, EACH_F64 = 2, EACH_I64 = 4 }; /* + arguments - 1: bits of `helpers` */

static bti_temp function_at(bti_llvm *w, int number) {
    return bti_llvm_parameter(w, "functions", BTI_LLVM_PTR, number);
}

static bti_temp call(bti_llvm *w, bti_temp function, const char *type, int count, const bti_temp *x) {
    bti_temp result = bti_llvm_new(w);
    bti_str_addf(w->text, "  %%t%d = call %s %%t%d(", result, type, function);
    for (int i = 0; i < count; i++) bti_str_addf(w->text, "%s%s %%t%d", i ? ", " : "", type, x[i]);
    bti_str_add(w->text, ")\n");
    return result;
}

static int helper_of(bti_llvm_type type, int count) {
    return (type == BTI_LLVM_F32 ? EACH_F32 : type == BTI_LLVM_F64 ? EACH_F64 : EACH_I64) + count - 1;
}

bti_temp bti_llvm_call_scalar(bti_llvm *w, int number, bti_llvm_type type, int count, const bti_temp *x) {
    bti_temp function = function_at(w, number), result;
    if (w->lanes == 1) return call(w, function, bti_llvm_name(type, 1), count, x);
    w->helpers |= 1u << helper_of(type, count);
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
    bti_temp function = function_at(w, number), parts[BTI_LANES], pieces[2];
    const char *name = bti_llvm_name(type, piece);
    if (lanes == 1) {
        for (int i = 0; i < count; i++) pieces[i] = bti_llvm_splat(w, type, x[i], piece);
        return bti_llvm_slice(w, type, call(w, function, name, count, pieces), piece, 0, 1);
    }
    int parts_count = 0;
    for (int from = 0; from < lanes; from += piece) {
        for (int i = 0; i < count; i++) pieces[i] = bti_llvm_slice(w, type, x[i], lanes, from, piece);
        parts[parts_count++] = call(w, function, name, count, pieces);
    }
    for (; parts_count > 1; parts_count /= 2, piece *= 2)
        for (int i = 0; i < parts_count / 2; i++)
            parts[i] = bti_llvm_join(w, type, parts[2 * i], parts[2 * i + 1], piece);
    return parts[0];
}

/* A scalar function for every lane, in a loop over memory. */
static void write_each(bti_llvm *w, bti_llvm_type type, int count) {
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
        if (w->helpers >> i & 1) write_each(w, types[i / 2], i % 2 + 1);
}
