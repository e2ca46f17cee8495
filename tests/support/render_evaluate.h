/* A launch of a kernel with drawn sizes and data, and the plain evaluation of what ir/kernel.h says: one instruction after
 * the other, over all points of the nest, by the interpreter. For tests with cmocka. */
#ifndef BERTH_TESTS_SUPPORT_RENDER_EVALUATE_H
#define BERTH_TESTS_SUPPORT_RENDER_EVALUATE_H

#include <math.h>
#include <stdlib.h>

#include "reference/interp.h"
#include "ir/work.h"
#include "reference/operand.h"
#include "support/attr.h"
#include "support/render_kernels.h"

enum { MOST_POINTS = 1 << 17 };

/* --- a launch: memory for the operands of a kernel ---------------------------------------------------------------- */

typedef struct launch {
    const bti_kernel *kernel;
    int64_t points, kept;
    bool parts_in_lanes;   /* folded as launch/entry.h says, not one by one */
    bool f32_accumulators; /* of floats */
    bti_box box;
    uint64_t scalars[BTI_KERNEL_INSTRS];
    char *memory[BTI_KERNEL_OPERANDS]; /* NULL of indices */
    size_t bytes[BTI_KERNEL_OPERANDS];
    void *values[BTI_KERNEL_INSTRS]; /* of the plain evaluation: for all points, row-major */
} launch;

static inline bool is_reduced(const bti_kernel *kernel, int axis) {
    return axis >= kernel->outer && axis < kernel->outer + kernel->reduced;
}

static inline double some_real(uint64_t *state) {
    static const double special[] = {0, -0.0, 1, -1, 0.5, 1e30, -1e30, 1e-40, 3e9, 65519.99, 0.49999997, 2147483648.0};
    if (draw(state, 8) == 0) return special[draw(state, 12)];
    if (draw(state, 40) == 0) return draw(state, 2) ? NAN : draw(state, 2) ? INFINITY : -INFINITY;
    return (draw(state, 80001) - 40000.0) / 10000.0;
}

static inline void convert(bt_dtype from, const void *x, bt_dtype to, void *y) {
    bti_work work = {.op = BTI_OP_cast, .input_count = 1, .output = {.address = (uintptr_t)y, .dtype = to}};
    work.inputs = &(bti_operand){.address = (uintptr_t)x, .dtype = from};
    assert_int_equal(bti_interpret(&work), BT_OK);
}

static inline void fill(char *memory, size_t bytes, bt_dtype dtype, uint64_t *state) {
    size_t size = bt_dtype_size(dtype);
    for (size_t i = 0; i + size <= bytes; i += size) {
        int64_t whole = (int64_t)draw(state, 20) - 8;
        if (draw(state, 6) == 0)
            for (int k = 0; k < 3; k++) whole = (int64_t)((uint64_t)whole << 22 ^ draw(state, 1u << 30));
        double real = some_real(state);
        if (bti_dtype_is_float(dtype))
            convert(BT_F64, &real, dtype, memory + i);
        else
            convert(BT_I64, &whole, dtype, memory + i);
    }
}

/* The scalars of what takes from the operand: so many rows of `reach` bytes. `reach` is then that of all. */
static inline void set_rows(launch *l, int operand, int64_t rows, int64_t *reach) {
    for (int i = 0; i < l->kernel->instr_count; i++) {
        const bti_instr *take = &l->kernel->instrs[i];
        if (take->op != BTI_OP_take || take->attr != operand) continue;
        l->scalars[l->kernel->instrs[take->arg[1]].arg[0]] = (uint64_t)rows;
        l->scalars[l->kernel->instrs[take->arg[2]].arg[0]] = (uint64_t)*reach;
    }
    *reach *= rows;
}

static inline void place_operand(launch *l, int operand, uint64_t *state) {
    const bti_kernel_operand *o = &l->kernel->operands[operand];
    int axes = bti_kernel_axes(l->kernel);
    int64_t step = o->index ? 1 : (int64_t)bt_dtype_size((bt_dtype)o->dtype), reach = step;
    for (int axis = axes - 1; axis >= 0; axis--) {
        if (!(o->moves >> axis & 1)) continue;
        int64_t stride = reach;
        if (axis == axes - 1 && !o->unit) stride = step * (1 + (int64_t)draw(state, 3));
        l->box.stride[operand][axis] = stride;
        reach = stride * l->box.extent[axis] + step * (int64_t)draw(state, 3);
    }
    if (o->index) {
        l->box.address[operand] = draw(state, 3) ? 0 : draw(state, 1000) - 500u;
        return;
    }
    if (o->taken) {
        if (draw(state, 2)) reach = (reach + 15) / 16 * 16; /* 16 bytes may be loaded at once */
        set_rows(l, operand, 1 + (int64_t)draw(state, 5), &reach);
    }
    l->bytes[operand] = (size_t)(reach + 2 * step);
    l->memory[operand] = calloc(1, l->bytes[operand]);
    assert_non_null(l->memory[operand]);
    l->box.address[operand] = (uintptr_t)l->memory[operand];
    fill(l->memory[operand], l->bytes[operand], (bt_dtype)o->dtype, state);
}

static inline void prepare(launch *l, const bti_kernel *kernel, uint64_t *state) {
    static const int64_t lengths[] = {1, 2, 3, 7, 15, 16, 17, 31, 32, 33, 64, 65, 100, 1029, 2050};
    *l = (launch){.kernel = kernel, .points = 1, .kept = 1};
    int axes = bti_kernel_axes(kernel);
    for (int axis = axes - 1; axis >= 0; axis--) {
        int64_t most = axis == axes - 1 ? 15 : 6;
        if (is_reduced(kernel, axis) && draw(state, 4) == 0) most = 15;
        int64_t extent = lengths[draw(state, (uint32_t)most)];
        if (axis == axes - 1 && is_reduced(kernel, axis) && draw(state, 12) == 0) extent = 16384 + 40;
        if (l->points * extent > MOST_POINTS) extent = 2;
        l->box.extent[axis] = extent;
        l->points *= extent;
        if (!is_reduced(kernel, axis)) l->kept *= extent;
    }
    for (int i = 0; i < kernel->instr_count; i++) {
        const bti_instr *instr = &kernel->instrs[i];
        if (instr->op != BTI_OP_const) continue;
        double real = some_real(state);
        int64_t whole = draw(state, 2) ? (int64_t)draw(state, 100) : (int64_t)draw(state, UINT32_MAX) << 20;
        memcpy(&l->scalars[instr->arg[0]], bti_dtype_is_float((bt_dtype)instr->dtype) ? (void *)&real : (void *)&whole,
               8);
    }
    l->box.scalars = l->scalars;
    for (int o = 0; o < bti_kernel_operands(kernel); o++) place_operand(l, o, state);
}

static inline void clean(launch *l) {
    for (int o = 0; o < BTI_KERNEL_OPERANDS; o++) free(l->memory[o]);
    for (int i = 0; i < BTI_KERNEL_INSTRS; i++) free(l->values[i]);
    memset(l->memory, 0, sizeof l->memory);
    memset(l->values, 0, sizeof l->values);
}

/* --- the plain evaluation ----------------------------------------------------------------------------------------- */

static inline void coordinates(const launch *l, int64_t point, int64_t *at) {
    for (int axis = bti_kernel_axes(l->kernel) - 1; axis >= 0; axis--) {
        at[axis] = point % l->box.extent[axis];
        point /= l->box.extent[axis];
    }
}

static inline int64_t offset(const launch *l, int operand, int64_t point) {
    int64_t at[BTI_MAX_RANK], sum = 0;
    coordinates(l, point, at);
    for (int axis = 0; axis < bti_kernel_axes(l->kernel); axis++) sum += at[axis] * l->box.stride[operand][axis];
    return sum;
}

static inline bti_operand dense(const launch *l, const void *values, bt_dtype dtype) {
    return (bti_operand){.address = (uintptr_t)values, .dtype = dtype, .rank = 1, .shape = {l->points}, .stride = {1}};
}

static inline void interpret(const launch *l, bti_op op, int attr, bt_dtype out, void *to, int count,
                             const bti_operand *inputs) {
    bti_work work = {.op = op, .input_count = count, .inputs = inputs, .output = dense(l, to, out)};
    bti_attr its = attr_of(op, 1, &(int64_t){attr});
    work.attr = &its;
    assert_int_equal(bti_interpret(&work), BT_OK);
}

typedef union number {
    double f;
    int64_t i;
    uint64_t u;
} number;
enum { REAL, REAL_F32, SIGNED, UNSIGNED };

static inline number fold(bti_op op, int kind, number a, number x) {
#define FOLD(member)                                                            \
    op == BTI_OP_sum    ? (number){.member = a.member + x.member}               \
    : op == BTI_OP_prod ? (number){.member = a.member * x.member}               \
    : op == BTI_OP_max  ? (a.member > x.member || a.member != a.member ? a : x) \
                        : (a.member < x.member || a.member != a.member ? a : x)
    if (kind == REAL) return FOLD(f);
    if (kind == REAL_F32) {
        number result = FOLD(f);
        return (number){.f = (float)result.f};
    }
    if (kind == UNSIGNED || op == BTI_OP_sum || op == BTI_OP_prod) return FOLD(u);
    return FOLD(i);
}

static inline number start(bti_op op, int kind) {
    int one = op == BTI_OP_prod;
    bool most = op == BTI_OP_max;
    if (op == BTI_OP_sum || one) return kind <= REAL_F32 ? (number){.f = one} : (number){.i = one};
    if (kind <= REAL_F32) return (number){.f = most ? -INFINITY : INFINITY};
    if (kind == SIGNED) return (number){.i = most ? INT64_MIN : INT64_MAX};
    return (number){.u = most ? 0 : UINT64_MAX};
}

static inline void halve(bti_op op, int kind, number *lanes) {
    for (int width = BTI_LANES / 2; width; width /= 2)
        for (int lane = 0; lane < width; lane++) lanes[lane] = fold(op, kind, lanes[lane], lanes[lane + width]);
}

static inline number part_of(const launch *l, bti_op op, int kind, const number *x, int64_t count, int64_t step) {
    number lanes[BTI_LANES], all = start(op, kind);
    if (l->kernel->inner) {
        for (int64_t i = 0; i < count; i++) all = fold(op, kind, all, x[i * step]);
        return all;
    }
    for (int lane = 0; lane < BTI_LANES; lane++) lanes[lane] = all;
    for (int64_t i = 0; i < count; i++) lanes[i % BTI_LANES] = fold(op, kind, lanes[i % BTI_LANES], x[i * step]);
    halve(op, kind, lanes);
    return lanes[0];
}

/* Points that differ along reduced axes only: for each outer one, `reduced` x `inner` of them lie together. */
static inline void reduce(const launch *l, const bti_instr *instr, const void *values, void *to) {
    const bti_kernel *kernel = l->kernel;
    bt_dtype dtype = (bt_dtype)instr->dtype;
    int kind = bti_dtype_is_float(dtype) ? REAL : bti_dtype_is_signed(dtype) ? SIGNED : UNSIGNED;
    if (kind == REAL && l->f32_accumulators) kind = REAL_F32;
    bt_dtype wide = kind <= REAL_F32 ? BT_F64 : kind == SIGNED ? BT_I64 : BT_U64;
    number *x = malloc((size_t)l->points * sizeof *x);
    assert_non_null(x);
    interpret(l, BTI_OP_cast, 0, wide, x, 1, (bti_operand[]){dense(l, values, dtype)});
    int last = kernel->outer + kernel->reduced - 1;
    int64_t inner = kernel->inner ? l->box.extent[last + 1] : 1, length = l->box.extent[last], rows = l->points / inner;
    int64_t lines = 1, most = kernel->inner ? BTI_COLUMN_CHUNK : BTI_ROW_CHUNK;
    for (int axis = kernel->outer; axis < last; axis++) lines *= l->box.extent[axis];
    for (int64_t row = 0; row < rows; row += lines * length)
        for (int64_t column = 0; column < inner; column++) {
            number totals[BTI_LANES];
            for (int lane = 0; lane < BTI_LANES; lane++) totals[lane] = start((bti_op)instr->op, kind);
            int64_t set = 0;
            for (int64_t line = 0; line < lines; line++)
                for (int64_t chunk = 0; chunk < length; chunk += most, set++) {
                    const number *at = x + (row + line * length + chunk) * inner + column;
                    int64_t count = length - chunk < most ? length - chunk : most;
                    number *total = &totals[l->parts_in_lanes ? set % BTI_LANES : 0];
                    *total =
                        fold((bti_op)instr->op, kind, *total, part_of(l, (bti_op)instr->op, kind, at, count, inner));
                }
            if (l->parts_in_lanes) halve((bti_op)instr->op, kind, totals);
            for (int64_t i = 0; i < lines * length; i++) x[(row + i) * inner + column] = *totals;
        }
    interpret(l, BTI_OP_cast, 0, dtype, to, 1, (bti_operand[]){dense(l, x, wide)});
    free(x);
}

static inline void take(const launch *l, const bti_instr *instr, int64_t point, char *to) {
    const bti_kernel *kernel = l->kernel;
    const void *numbers = l->values[instr->arg[0]];
    bool wide = kernel->instrs[instr->arg[0]].dtype == BT_I64;
    int64_t row = wide ? ((const int64_t *)numbers)[point] : ((const int32_t *)numbers)[point];
    int64_t rows = (int64_t)l->scalars[kernel->instrs[instr->arg[1]].arg[0]];
    int64_t bytes = (int64_t)l->scalars[kernel->instrs[instr->arg[2]].arg[0]];
    uint64_t missing = bti_missing((bt_dtype)instr->dtype);
    if (row < 0) row += rows;
    const char *from = l->memory[instr->attr] + offset(l, instr->attr, point) + row * bytes;
    memcpy(to, row < 0 || row >= rows ? (const char *)&missing : from, bt_dtype_size((bt_dtype)instr->dtype));
}

static inline void evaluate(launch *l) {
    const bti_kernel *kernel = l->kernel;
    for (int i = 0; i < kernel->instr_count; i++) {
        const bti_instr *instr = &kernel->instrs[i];
        bt_dtype dtype = (bt_dtype)instr->dtype;
        size_t size = bt_dtype_size(dtype);
        char *to = l->values[i] = malloc((size_t)l->points * size);
        bti_operand inputs[4];
        assert_non_null(to);
        for (int a = 0; a < 4; a++)
            inputs[a] = dense(l, l->values[instr->arg[a]], (bt_dtype)kernel->instrs[instr->arg[a]].dtype);
        for (int64_t p = 0; p < l->points; p++) {
            int64_t counted = (int64_t)l->box.address[instr->arg[0] % BTI_KERNEL_OPERANDS];
            bool real = bti_dtype_is_float(dtype);
            if (instr->op == BTI_OP_leaf)
                memcpy(to + (size_t)p * size, l->memory[instr->arg[0]] + offset(l, instr->arg[0], p), size);
            else if (instr->op == BTI_OP_iota)
                counted += offset(l, instr->arg[0], p), convert(BT_I64, &counted, dtype, to + (size_t)p * size);
            else if (instr->op == BTI_OP_const)
                convert(real ? BT_F64 : BT_I64, &l->scalars[instr->arg[0]], dtype, to + (size_t)p * size);
        }
        if (instr->op == BTI_OP_leaf || instr->op == BTI_OP_iota || instr->op == BTI_OP_const) continue;
        if (instr->op == BTI_OP_take) {
            for (int64_t p = 0; p < l->points; p++) take(l, instr, p, to + (size_t)p * size);
            continue;
        }
        if (bti_op_info((bti_op)instr->op)->class == BTI_REDUCE)
            reduce(l, instr, l->values[instr->arg[0]], to);
        else
            interpret(l, (bti_op)instr->op, instr->attr, dtype, to, bti_op_info((bti_op)instr->op)->arity, inputs);
    }
}

static inline bool same_element(bt_dtype dtype, const char *x, const char *y) {
    double a, b;
    if (memcmp(x, y, bt_dtype_size(dtype)) == 0) return true;
    if (!bti_dtype_is_float(dtype)) return false;
    convert(dtype, x, BT_F64, &a);
    convert(dtype, y, BT_F64, &b);
    return isnan(a) && isnan(b);
}

static inline int64_t differences(const launch *l, char *const *memory, int64_t *first) {
    const bti_kernel *kernel = l->kernel;
    int64_t count = 0;
    for (int o = kernel->input_count; o < bti_kernel_operands(kernel); o++)
        for (int64_t p = 0; p < l->points; p++) {
            bt_dtype dtype = (bt_dtype)kernel->operands[o].dtype;
            const char *expected = (char *)l->values[kernel->operands[o].value] + (size_t)p * bt_dtype_size(dtype);
            if (!same_element(dtype, expected, memory[o] + offset(l, o, p)) && !count++) *first = p;
        }
    return count;
}

#endif
