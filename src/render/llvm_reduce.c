/* Folding, as ir/kernel.h defines it. */
#include "ir/dtype.h"
#include "render/llvm_parts.h"

static bool sums(const bti_instr *reduction) { return reduction->op == BTI_OP_sum || reduction->op == BTI_OP_prod; }

bti_llvm_type bti_llvm_accumulator(const bti_instr *reduction) {
    bt_dtype dtype = (bt_dtype)reduction->dtype;
    return sums(reduction) && bti_dtype_is_float(dtype) ? BTI_LLVM_F64 : bti_llvm_wide(dtype);
}

bti_temp bti_llvm_start(bti_llvm *w, const bti_instr *reduction) {
    bti_llvm_type type = bti_llvm_accumulator(reduction);
    bool is_signed = bti_dtype_is_signed((bt_dtype)reduction->dtype), one = reduction->op == BTI_OP_prod;
    if (sums(reduction)) return bti_llvm_is_float(type) ? bti_llvm_real(w, type, one) : bti_llvm_int(w, type, one);
    bool most = reduction->op == BTI_OP_max;
    if (bti_llvm_is_float(type)) return bti_llvm_real(w, type, most ? -__builtin_inf() : __builtin_inf());
    uint64_t greatest = UINT64_MAX >> (64 - bti_llvm_bits(type) + is_signed);
    return bti_llvm_int(w, type, (int64_t)(!most ? greatest : is_signed ? ~greatest : 0));
}

bti_temp bti_llvm_fold(bti_llvm *w, const bti_instr *reduction, bti_temp total, bti_temp x) {
    bti_llvm_type type = bti_llvm_accumulator(reduction);
    bool real = bti_llvm_is_float(type), is_signed = bti_dtype_is_signed((bt_dtype)reduction->dtype);
    bool most = reduction->op == BTI_OP_max;
    if (reduction->op == BTI_OP_sum) return bti_llvm_op(w, real ? "fadd" : "add", type, total, x);
    if (reduction->op == BTI_OP_prod) return bti_llvm_op(w, real ? "fmul" : "mul", type, total, x);
    if (type == BTI_LLVM_I1) return bti_llvm_op(w, most ? "or" : "and", type, total, x);
    const char *comparison = real        ? (most ? "fcmp ogt" : "fcmp olt")
                             : is_signed ? (most ? "icmp sgt" : "icmp slt")
                                         : (most ? "icmp ugt" : "icmp ult");
    bti_temp better = bti_llvm_select(w, type, bti_llvm_op(w, comparison, type, total, x), total, x);
    if (!real) return better;
    return bti_llvm_select(w, type, bti_llvm_op(w, "fcmp uno", type, total, total), total, better);
}

bti_temp bti_llvm_folded(bti_llvm *w, const bti_instr *reduction) {
    bti_temp x = bti_llvm_operand(w, reduction->arg[0]);
    bti_llvm_type from = bti_llvm_wide((bt_dtype)reduction->dtype), to = bti_llvm_accumulator(reduction);
    return from == to ? x : bti_llvm_convert(w, "fpext", from, x, to);
}

bti_temp bti_llvm_tree(bti_llvm *w, const bti_instr *reduction, bti_temp lanes) {
    bti_llvm_type type = bti_llvm_accumulator(reduction);
    int count = w->lanes;
    while (w->lanes > 1) {
        bti_temp low = bti_llvm_slice(w, type, lanes, w->lanes, 0, w->lanes / 2);
        bti_temp high = bti_llvm_slice(w, type, lanes, w->lanes, w->lanes / 2, w->lanes / 2);
        w->lanes /= 2;
        lanes = bti_llvm_fold(w, reduction, low, high);
    }
    w->lanes = count;
    return lanes;
}

bti_temp bti_llvm_part_bits(bti_llvm *w, const bti_instr *reduction, bti_temp part) {
    bti_llvm_type type = bti_llvm_accumulator(reduction);
    static const bti_llvm_type whole[] = {[BTI_LLVM_F32] = BTI_LLVM_I32, [BTI_LLVM_F64] = BTI_LLVM_I64};
    if (bti_llvm_is_small((bt_dtype)reduction->dtype) && type == BTI_LLVM_F32) {
        part = bti_llvm_small_of(w, (bt_dtype)reduction->dtype, type, part);
        type = BTI_LLVM_I16;
    } else if (bti_llvm_is_float(type)) {
        part = bti_llvm_convert(w, "bitcast", type, part, whole[type]);
        type = whole[type];
    }
    return bti_llvm_resize(w, type, part, BTI_LLVM_I64, false);
}

bti_temp bti_llvm_part_of_bits(bti_llvm *w, const bti_instr *reduction, bti_temp bits) {
    bti_llvm_type type = bti_llvm_accumulator(reduction);
    const bti_llvm_type i64 = BTI_LLVM_I64;
    if (bti_llvm_is_small((bt_dtype)reduction->dtype) && type == BTI_LLVM_F32)
        return bti_llvm_f32_of(w, (bt_dtype)reduction->dtype, bti_llvm_resize(w, i64, bits, BTI_LLVM_I16, false));
    if (type == BTI_LLVM_F64) return bti_llvm_convert(w, "bitcast", i64, bits, type);
    if (type == BTI_LLVM_F32)
        return bti_llvm_convert(w, "bitcast", BTI_LLVM_I32, bti_llvm_resize(w, i64, bits, BTI_LLVM_I32, false), type);
    return bti_llvm_resize(w, i64, bits, type, false);
}

void bti_llvm_set_total(bti_llvm *w, int instr, bti_temp total) {
    const bti_instr *reduction = &w->kernel->instrs[instr];
    bti_llvm_type type = bti_llvm_accumulator(reduction);
    if (type == BTI_LLVM_F64 && sums(reduction))
        bti_llvm_set(w, instr, bti_llvm_rounded(w, total, (bt_dtype)reduction->dtype));
    else
        bti_llvm_set_wide(w, instr, total);
}

bti_temp bti_llvm_part_address(bti_llvm *w, int r, bti_temp set, bti_temp point) {
    const bti_llvm_type i64 = BTI_LLVM_I64;
    int lanes = w->lanes, reductions = 0;
    for (int i = 0; i < w->kernel->instr_count; i++) reductions += bti_llvm_reduces(&w->kernel->instrs[i]);
    w->lanes = 1;
    bti_temp row = bti_llvm_int(w, i64, r), result = bti_llvm_new(w);
    if (set != BTI_NO_TEMP) row = bti_llvm_op(w, "add", i64, bti_llvm_op_int(w, "mul", i64, set, reductions), row);
    bti_temp index = bti_llvm_op(w, "add", i64, bti_llvm_op(w, "mul", i64, row, w->points), point);
    bti_llvm_line(w, "%%t%d = getelementptr i64, ptr %%parts, i64 %%t%d", result, index);
    w->lanes = lanes;
    return result;
}

void bti_llvm_fold_sets(bti_llvm *w, const int *reductions, bti_llvm_carry *totals, bti_temp point) {
    int lanes = w->lanes;
    bti_llvm_if branch;
    bti_llvm_loop loop;
    w->lanes = 1;
    bti_temp count = bti_llvm_new(w);
    bti_llvm_line(w, "%%t%d = add i64 %%sets, 0", count);
    bti_temp zero = bti_llvm_int(w, BTI_LLVM_I64, 0);
    bti_llvm_if_begin(w, &branch, bti_llvm_op(w, "icmp sgt", BTI_LLVM_I64, count, zero), totals);
    bti_llvm_loop_begin(w, &loop, zero, count, 1, totals);
    w->lanes = lanes;
    for (int r = 0; r < totals->count; r++) {
        const bti_instr *reduction = &w->kernel->instrs[reductions[r]];
        bti_temp bits = bti_llvm_load_row(w, BTI_LLVM_I64, bti_llvm_part_address(w, r, loop.index, point));
        totals->value[r] = bti_llvm_fold(w, reduction, totals->value[r], bti_llvm_part_of_bits(w, reduction, bits));
    }
    bti_llvm_loop_end(w, &loop);
    bti_llvm_if_end(w, &branch);
}
