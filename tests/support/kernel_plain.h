/* For tests: a kernel point by point, as kernel.h says, by the interpreter's operations on single elements. Slow. Functions
 * of functions.def come from the loops of the plainest target. */
#ifndef BERTH_TESTS_SUPPORT_KERNEL_PLAIN_H
#define BERTH_TESTS_SUPPORT_KERNEL_PLAIN_H

#include <string.h>

#include "drivers/cpu/vector/vector.h"
#include "ir/dtype.h"
#include "reference/interp.h"
#include "reference/operand.h"
#include "support/attr.h"

typedef struct plain_run {
    const bti_kernel *kernel;
    const bti_box *box;
    const bti_vector_code *code;
    int64_t index[BTI_MAX_RANK];
    uint64_t value[BTI_KERNEL_INSTRS];
    uint64_t lane[BTI_KERNEL_INSTRS][BTI_LANES], total[BTI_KERNEL_INSTRS]; /* of reductions */
} plain_run;

/* Whether an operation is computed by a function of launch/functions.def, or by sigmoid. */
static inline bool plain_is_function(bti_op op, bt_dtype dtype) {
    switch (op) {
#define BTI_VECTOR_FUNCTION(name, arity) case BTI_OP_##name:
#define BTI_SCALAR_FUNCTION(name, ...)
#include "launch/functions.def"
    case BTI_OP_sigmoid: return bti_dtype_is_float(dtype);
    default: return false;
    }
}

static inline bt_dtype plain_accumulator(const bti_instr *i) {
    bool sums = i->op == BTI_OP_sum || i->op == BTI_OP_prod;
    return sums && bti_dtype_is_float((bt_dtype)i->dtype) ? BT_F64 : (bt_dtype)i->dtype;
}

static inline uint64_t plain_operation(bti_op op, int64_t attr, bt_dtype to, bt_dtype from, bt_dtype rest,
                                       const uint64_t *x, int count) {
    uint64_t result = 0;
    bti_operand in[4];
    for (int a = 0; a < count; a++)
        in[a] = (bti_operand){.address = (uint64_t)(uintptr_t)&x[a], .dtype = a ? rest : from};
    bti_attr its = attr_of(op, 1, &attr);
    bti_work work = {.op = op,
                     .input_count = count,
                     .inputs = in,
                     .output = {.address = (uint64_t)(uintptr_t)&result, .dtype = to},
                     .attr = &its};
    if (bti_interpret(&work) != BT_OK) abort();
    return result;
}

static inline uint64_t plain_cast(bt_dtype to, bt_dtype from, uint64_t x) {
    return plain_operation(BTI_OP_cast, 0, to, from, from, &x, 1);
}

static inline uint64_t plain_function(const bti_instr *i, bti_loop *loop, const uint64_t *x) {
    bt_dtype wide = i->dtype == BT_F64 ? BT_F64 : BT_F32;
    uint64_t in[2] = {0, 0}, out = 0;
    for (int a = 0; a < bti_op_info((bti_op)i->op)->arity; a++) in[a] = plain_cast(wide, (bt_dtype)i->dtype, x[a]);
    loop(1, 0, &out, &in[0], &in[1], &in[0], &in[0]);
    return plain_cast((bt_dtype)i->dtype, wide, out);
}

static inline uint64_t plain_address(const plain_run *p, int operand) {
    uint64_t at = p->box->address[operand];
    for (int axis = 0; axis < bti_kernel_axes(p->kernel); axis++)
        if (p->kernel->operands[operand].moves >> axis & 1)
            at += (uint64_t)p->index[axis] * (uint64_t)p->box->stride[operand][axis];
    return at;
}

static inline uint64_t plain_take(const plain_run *p, const bti_instr *i) {
    bool wide = p->kernel->instrs[i->arg[0]].dtype == BT_I64;
    int64_t row = wide ? (int64_t)p->value[i->arg[0]] : (int32_t)p->value[i->arg[0]];
    int64_t rows = (int64_t)p->value[i->arg[1]], bytes = (int64_t)p->value[i->arg[2]];
    uint64_t result = bti_missing((bt_dtype)i->dtype);
    if (row < 0) row += rows;
    if (row < 0 || row >= rows) return result;
    memcpy(&result, (const char *)(uintptr_t)(plain_address(p, i->attr) + (uint64_t)(row * bytes)),
           bt_dtype_size((bt_dtype)i->dtype));
    return result;
}

static inline uint64_t plain_instr(const plain_run *p, const bti_instr *i) {
    bt_dtype dtype = (bt_dtype)i->dtype;
    uint64_t x[4] = {0}, number, result = 0;
    switch (i->op) {
    case BTI_OP_leaf:
        memcpy(&result, (const char *)(uintptr_t)plain_address(p, i->arg[0]), bt_dtype_size(dtype));
        return result;
    case BTI_OP_iota: return plain_cast(dtype, BT_I64, plain_address(p, i->arg[0]));
    case BTI_OP_const:
        number = p->box->scalars[i->arg[0]];
        return plain_operation(BTI_OP_const, (int64_t)number, dtype, dtype, dtype, NULL, 0);
    case BTI_OP_take: return plain_take(p, i);
    default: break;
    }
    int count = bti_op_info((bti_op)i->op)->arity;
    for (int a = 0; a < count; a++) x[a] = p->value[i->arg[a]];
    bt_dtype from = (bt_dtype)p->kernel->instrs[i->arg[0]].dtype;
    bt_dtype rest = count > 1 ? (bt_dtype)p->kernel->instrs[i->arg[1]].dtype : from;
    if (plain_is_function((bti_op)i->op, dtype))
        return plain_function(i, p->code->elementwise[i->op][dtype == BT_F64], x);
    return plain_operation((bti_op)i->op, i->attr, dtype, from, rest, x, count);
}

static inline uint64_t plain_fold(const bti_instr *i, uint64_t a, bt_dtype dtype, uint64_t x) {
    static const bti_op by[BTI_OP_COUNT] = {[BTI_OP_sum] = BTI_OP_add,
                                            [BTI_OP_prod] = BTI_OP_mul,
                                            [BTI_OP_max] = BTI_OP_maximum,
                                            [BTI_OP_min] = BTI_OP_minimum};
    bt_dtype accumulator = plain_accumulator(i);
    uint64_t pair[2] = {a, plain_cast(accumulator, dtype, x)};
    return plain_operation(by[i->op], 0, accumulator, accumulator, accumulator, pair, 2);
}

/* What a reduction of nothing is. */
static inline uint64_t plain_start(const bti_instr *i) {
    uint64_t result = 0;
    bti_operand in = {.dtype = (bt_dtype)i->dtype, .rank = 1, .shape = {0}};
    bti_operand out = {.address = (uint64_t)(uintptr_t)&result, .dtype = (bt_dtype)i->dtype, .rank = 1, .shape = {1}};
    bti_work work = {
        .op = (bti_op)i->op, .input_count = 1, .inputs = &in, .output = out, .attr = &(bti_attr){.fold = {1}}};
    if (bti_interpret(&work) != BT_OK) abort();
    return plain_cast(plain_accumulator(i), (bt_dtype)i->dtype, result);
}

static inline void plain_store(plain_run *p, bti_level level, int stage) {
    for (int o = p->kernel->input_count; o < bti_kernel_operands(p->kernel); o++) {
        const bti_instr *i = &p->kernel->instrs[p->kernel->operands[o].value];
        if (i->level != level || (level == BTI_POINT && i->stage != stage)) continue;
        memcpy((char *)(uintptr_t)plain_address(p, o), &p->value[p->kernel->operands[o].value],
               bt_dtype_size((bt_dtype)i->dtype));
    }
}

static inline bool plain_next(plain_run *p, int first, int end) {
    for (int axis = end - 1; axis >= first; axis--) {
        if (++p->index[axis] < p->box->extent[axis]) return true;
        p->index[axis] = 0;
    }
    return false;
}

static inline void plain_compute(plain_run *p, bti_level level, int stage) {
    for (int n = 0; n < p->kernel->instr_count; n++) {
        const bti_instr *i = &p->kernel->instrs[n];
        if (i->level != level || (level == BTI_ROW ? i->stage != stage : i->stage > stage)) continue;
        p->value[n] = bti_instr_reduces(i) ? plain_cast((bt_dtype)i->dtype, plain_accumulator(i), p->total[n])
                                           : plain_instr(p, i);
    }
}

#define PLAIN_REDUCTIONS(p, n, stage_)                 \
    for (int n = 0; n < (p)->kernel->instr_count; n++) \
        if (bti_instr_reduces(&(p)->kernel->instrs[n]) && (p)->kernel->instrs[n].stage == (stage_))

static inline void plain_end_chunk(plain_run *p, int sweep, int lanes) {
    PLAIN_REDUCTIONS(p, n, sweep + 1) {
        const bti_instr *i = &p->kernel->instrs[n];
        bt_dtype accumulator = plain_accumulator(i);
        for (int w = lanes / 2; w; w /= 2)
            for (int k = 0; k < w; k++) p->lane[n][k] = plain_fold(i, p->lane[n][k], accumulator, p->lane[n][k + w]);
        p->total[n] = plain_fold(i, p->total[n], accumulator, p->lane[n][0]);
    }
}

/* All points of the reduced axes, for one kept point. Columns have one lane. */
static inline void plain_sweep(plain_run *p, int sweep) {
    const bti_kernel *k = p->kernel;
    int first = k->outer, end = k->outer + k->reduced, lanes = k->inner ? 1 : BTI_LANES;
    int64_t chunk = k->inner ? BTI_COLUMN_CHUNK : BTI_ROW_CHUNK;
    PLAIN_REDUCTIONS(p, n, sweep + 1) p->total[n] = plain_start(&k->instrs[n]);
    do {
        int64_t at = p->index[end - 1] % chunk;
        if (at == 0) PLAIN_REDUCTIONS(p, n, sweep + 1)
        for (int l = 0; l < lanes; l++) p->lane[n][l] = plain_start(&k->instrs[n]);
        plain_compute(p, BTI_POINT, sweep);
        PLAIN_REDUCTIONS(p, n, sweep + 1) {
            const bti_instr *i = &k->instrs[n];
            uint64_t *lane = &p->lane[n][at % lanes];
            *lane = plain_fold(i, *lane, (bt_dtype)i->dtype, p->value[i->arg[0]]);
        }
        plain_store(p, BTI_POINT, sweep);
        if (at == chunk - 1 || p->index[end - 1] == p->box->extent[end - 1] - 1) plain_end_chunk(p, sweep, lanes);
    } while (plain_next(p, first, end));
}

static inline void bti_plain_run(const bti_kernel *kernel, const bti_box *box) {
    plain_run p = {.kernel = kernel, .box = box, .code = bti_vector_code_of(BTI_LLVM_SSE2)};
    int axes = bti_kernel_axes(kernel), last = axes - 1;
    do {
        if (kernel->reduced) {
            for (int s = 0; s <= bti_kernel_sweeps(kernel); s++) {
                plain_compute(&p, BTI_ROW, s);
                if (s < bti_kernel_sweeps(kernel)) plain_sweep(&p, s);
            }
            plain_store(&p, BTI_ROW, 0);
        } else {
            plain_compute(&p, BTI_POINT, 0);
            plain_store(&p, BTI_POINT, 0);
        }
        if (kernel->inner && ++p.index[last] < box->extent[last]) continue;
        p.index[last] = kernel->inner ? 0 : p.index[last];
        if (!plain_next(&p, 0, kernel->outer)) break;
    } while (true);
}

#endif
