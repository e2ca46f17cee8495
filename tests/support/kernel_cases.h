/* Random kernels with boxes and data, for tests.
 *
 *     bti_kernel_case c;
 *     bti_random_kernel(seed, &c);            the same seed, the same case; of some thousand points
 *     bti_random_large_kernel(seed, &c);      or that: enough points to be cut into pieces
 *     bti_random_short_kernel(seed, &c);      or that: short lines, many along the axis before
 *     run c.box; char *first = bti_case_take(&c);
 *     run c.box another way; bti_case_differs(&c, first) tells
 *     bti_case_free(&c); free(first); */
#ifndef BERTH_TESTS_SUPPORT_KERNEL_CASES_H
#define BERTH_TESTS_SUPPORT_KERNEL_CASES_H

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "ir/dtype.h"
#include "ir/half.h"
#include "ir/kernel.h"

typedef struct bti_kernel_case {
    bti_kernel kernel;
    bti_box box;
    uint64_t scalars[16];
    char *memory, *original; /* of all operands; as it was before any run */
    size_t bytes;
    uint64_t random;
    bool large, one_sweep, short_lines;
    int64_t rows[BTI_KERNEL_OPERANDS], row_bytes[BTI_KERNEL_OPERANDS]; /* of operands that are taken from */
    int64_t numbers[BTI_KERNEL_OPERANDS]; /* of operands with row numbers: of how many rows */
} bti_kernel_case;

static inline uint64_t case_random(bti_kernel_case *c, uint64_t below) {
    uint64_t z = c->random += UINT64_C(0x9E3779B97F4A7C15);
    z = (z ^ z >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ z >> 27) * UINT64_C(0x94D049BB133111EB);
    return (z ^ z >> 31) % below;
}
static inline bool case_chance(bti_kernel_case *c, int percent) { return case_random(c, 100) < (uint64_t)percent; }

/* --- extents ------------------------------------------------------------------------------------------------------ */

static inline int64_t case_near(bti_kernel_case *c, int64_t size) { return size - 2 + (int64_t)case_random(c, 5); }

static inline void case_extents(bti_kernel_case *c) {
    bti_kernel *k = &c->kernel;
    int axes = bti_kernel_axes(k), line = axes - 1;
    int64_t points = 1, most = 3000;
    for (int axis = 0; axis < axes; axis++) c->box.extent[axis] = 1 + (int64_t)case_random(c, c->large ? 200 : 4);
    int64_t *length = &c->box.extent[line];
    *length = case_chance(c, 70) ? 1 + (int64_t)case_random(c, 70) : case_near(c, 256 << case_random(c, 3));
    if (k->reduced && case_chance(c, 25)) {
        c->box.extent[line - k->inner] = k->inner ? case_near(c, BTI_COLUMN_CHUNK) : case_near(c, BTI_ROW_CHUNK);
        if (k->inner) *length = 1 + (int64_t)case_random(c, 40);
        most = 50000;
    }
    if (c->large) {
        if (case_chance(c, 30)) *length = 1 + (int64_t)case_random(c, 100000);
        most = 200000;
    }
    if (c->short_lines && axes > 1) {
        *length = 1 + (int64_t)case_random(c, k->reduced ? 17 : 7);
        c->box.extent[line - 1] = 64 + (int64_t)case_random(c, 300);
        if (axes > 2 && case_chance(c, 50)) c->box.extent[line - 2] = 2;
        return;
    }
    for (int axis = 0; axis < axes; axis++) points *= c->box.extent[axis];
    for (int axis = 0; axis < axes && points > most; axis++) {
        if (axis == line - (k->reduced && k->inner)) continue;
        points /= c->box.extent[axis];
        c->box.extent[axis] = 1;
    }
}

/* --- operands ----------------------------------------------------------------------------------------------------- */

/* Strides in memory of one's own, elements in any order of axes, with gaps and backwards at times; the bytes that takes. */
static inline size_t case_lay_out(bti_kernel_case *c, int operand, int64_t *first) {
    bti_kernel_operand *o = &c->kernel.operands[operand];
    int axes = bti_kernel_axes(&c->kernel), order[BTI_MAX_RANK];
    bool plain = case_chance(c, 60);
    int64_t stride = (int64_t)bt_dtype_size((bt_dtype)o->dtype), size = stride;
    for (int a = 0; a < axes; a++) order[a] = axes - 1 - a;
    for (int a = axes - 1; a > 0 && !plain; a--) {
        int other = (int)case_random(c, (uint64_t)a + 1), swapped = order[a];
        order[a] = order[other], order[other] = swapped;
    }
    *first = 0;
    for (int a = 0; a < axes; a++) {
        int axis = order[a];
        if (!(o->moves >> axis & 1)) continue;
        if (!plain && case_chance(c, 20)) stride += size * (int64_t)case_random(c, 3);
        bool back = !plain && case_chance(c, 20);
        c->box.stride[operand][axis] = back ? -stride : stride;
        if (back) *first += stride * (c->box.extent[axis] - 1);
        stride *= c->box.extent[axis];
    }
    o->unit = c->box.stride[operand][axes - 1] == size && o->moves >> (axes - 1) & 1 && case_chance(c, 90);
    return (size_t)stride;
}

static inline void case_place(bti_kernel_case *c, int operand) {
    int64_t first;
    c->bytes = (c->bytes + 63) / 64 * 64;
    size_t bytes = case_lay_out(c, operand, &first);
    c->box.address[operand] = c->bytes + (uint64_t)first; /* an offset as yet */
    c->bytes += bytes;
}

static inline void case_index(bti_kernel_case *c, int operand) {
    bool large = case_chance(c, 20);
    c->kernel.operands[operand].index = 1;
    c->kernel.operands[operand].dtype = BT_I64;
    c->box.address[operand] = large ? case_random(c, UINT64_MAX) : case_random(c, 300) - 100;
    for (int axis = 0; axis < bti_kernel_axes(&c->kernel); axis++)
        if (c->kernel.operands[operand].moves >> axis & 1)
            c->box.stride[operand][axis] = large ? (int64_t)case_random(c, UINT64_MAX) : (int64_t)case_random(c, 9) - 4;
}

/* Rows one after the other, or the last one first; and an operand with their numbers, of which some are too large. */
static inline void case_rows(bti_kernel_case *c, int operand, int numbers) {
    bti_kernel *k = &c->kernel;
    size_t before = c->bytes;
    k->operands[operand].taken = 1;
    case_place(c, operand);
    int64_t bytes = (int64_t)((c->bytes - before + 7) / 8 * 8);
    c->rows[operand] = 1 + (int64_t)case_random(c, 5);
    c->row_bytes[operand] = case_chance(c, 80) ? bytes : -bytes;
    if (c->row_bytes[operand] < 0) c->box.address[operand] += (uint64_t)((c->rows[operand] - 1) * bytes);
    c->bytes = before + (size_t)(c->rows[operand] * bytes) + 8;
    k->operands[numbers].dtype = case_chance(c, 50) ? BT_I32 : BT_I64;
    c->numbers[numbers] = c->rows[operand];
    case_place(c, numbers);
}

static inline void case_inputs(bti_kernel_case *c) {
    static const uint8_t usual[] = {BT_F32, BT_F32, BT_F64, BT_I32, BT_U32, BT_BOOL};
    bti_kernel *k = &c->kernel;
    k->input_count = (uint16_t)(1 + case_random(c, 5));
    unsigned all = (1u << bti_kernel_axes(k)) - 1;
    for (int o = 0; o < k->input_count; o++) {
        k->operands[o].moves = (uint8_t)(case_chance(c, 60) ? all : case_random(c, all + 1));
        k->operands[o].dtype =
            case_chance(c, 50) ? usual[case_random(c, 6)] : (uint8_t)case_random(c, BTI_COMPUTED_DTYPES);
        if (o + 1 < k->input_count && case_chance(c, 15)) {
            k->operands[o + 1].moves = (uint8_t)(case_chance(c, 40) ? all : case_random(c, all + 1));
            case_rows(c, o, o + 1);
            o++;
        } else if (case_chance(c, 15))
            case_index(c, o);
        else
            case_place(c, o);
    }
}

/* --- the program -------------------------------------------------------------------------------------------------- */

/* Whether an operation takes a value of the dtype first. */
static inline bool case_takes(int op, bt_dtype dtype) {
    if (op == BTI_OP_where) return dtype == BT_BOOL;
    if (op == BTI_OP_threefry || op == BTI_OP_random_word) return dtype == BT_U32;
    switch (bti_op_info((bti_op)op)->dtype_rule) {
    case BTI_NUMBER: return dtype != BT_BOOL;
    case BTI_FLOAT: return bti_dtype_is_float(dtype);
    case BTI_BITS: return !bti_dtype_is_float(dtype);
    default: return true;
    }
}

/* An earlier value of the dtype, any for BT_DTYPE_COUNT; -1 when there is none. */
static inline int case_value(bti_kernel_case *c, bt_dtype dtype) {
    int count = c->kernel.instr_count, from = (int)case_random(c, (uint64_t)count);
    for (int i = 0; i < count; i++) {
        int at = (from + i) % count;
        if (dtype == BT_DTYPE_COUNT || c->kernel.instrs[at].dtype == dtype) return at;
    }
    return -1;
}

/* Another operation, unless no values suit it or the form forbids its stage. */
static inline void case_operation(bti_kernel_case *c) {
    bti_kernel *k = &c->kernel;
    bti_instr instr = {0};
    bool reduce = k->reduced && case_chance(c, 20);
    instr.op = (uint8_t)(reduce ? (uint64_t)BTI_OP_sum + case_random(c, 4)
                                : (uint64_t)BTI_OP_neg + case_random(c, BTI_OP_random_word - BTI_OP_neg + 1));
    const bti_op_row *info = bti_op_info((bti_op)instr.op);
    int arg = case_value(c, instr.op == BTI_OP_where ? BT_BOOL : BT_DTYPE_COUNT);
    if (arg < 0) return;
    bt_dtype dtype = (bt_dtype)k->instrs[arg].dtype;
    if (!case_takes(instr.op, dtype)) return;
    instr.arg[0] = (uint16_t)arg;
    if (instr.op == BTI_OP_where) dtype = (bt_dtype)k->instrs[case_value(c, BT_DTYPE_COUNT)].dtype;
    for (int a = 1; a < info->arity; a++) instr.arg[a] = (uint16_t)case_value(c, dtype);
    instr.dtype = (uint8_t)(info->dtype_rule == BTI_COMPARE ? BT_BOOL : dtype);
    if (instr.op == BTI_OP_cast) instr.dtype = (uint8_t)case_random(c, BTI_COMPUTED_DTYPES);
    if (instr.op == BTI_OP_bitcast) { /* which NaN a computed one is, nobody promises */
        if (bti_dtype_is_float(dtype) && k->instrs[arg].op != BTI_OP_leaf) return;
        instr.dtype = (uint8_t)case_random(c, BTI_COMPUTED_DTYPES);
        if (bt_dtype_size((bt_dtype)instr.dtype) != bt_dtype_size(dtype) || instr.dtype == BT_BOOL) return;
    }
    if (instr.op == BTI_OP_threefry) instr.attr = (uint8_t)case_random(c, 2);
    k->instrs[k->instr_count++] = instr;
    bti_kernel_set_stages(k);
    const bti_instr *added = &k->instrs[k->instr_count - 1];
    int limit = k->inner && k->reduced ? added->level == BTI_ROW ? 1 : 0
                : c->one_sweep         ? added->level == BTI_ROW ? 1 : 0
                                       : 3;
    if (added->stage > limit) memset(&k->instrs[--k->instr_count], 0, sizeof *k->instrs);
}

static inline int case_number(bti_kernel_case *c, int64_t number) {
    bti_kernel *k = &c->kernel;
    c->scalars[k->scalar_count] = (uint64_t)number;
    k->instrs[k->instr_count] = (bti_instr){.op = BTI_OP_const, .dtype = BT_I64, .arg[0] = k->scalar_count++};
    return k->instr_count++;
}

/* By the numbers in the operand behind it. */
static inline void case_take(bti_kernel_case *c, int operand) {
    bti_kernel *k = &c->kernel;
    bti_instr take = {.op = BTI_OP_take, .dtype = k->operands[operand].dtype, .attr = (uint8_t)operand};
    while (k->instrs[take.arg[0]].op != BTI_OP_leaf || k->instrs[take.arg[0]].arg[0] != operand + 1) take.arg[0]++;
    take.arg[1] = (uint16_t)case_number(c, c->rows[operand]);
    take.arg[2] = (uint16_t)case_number(c, c->row_bytes[operand]);
    k->instrs[k->instr_count++] = take;
}

static inline void case_program(bti_kernel_case *c) {
    bti_kernel *k = &c->kernel;
    for (int o = 0; o < k->input_count; o++) {
        if (k->operands[o].taken) continue;
        bti_instr *instr = &k->instrs[k->instr_count++];
        instr->op = k->operands[o].index ? BTI_OP_iota : BTI_OP_leaf;
        instr->dtype =
            k->operands[o].index ? (uint8_t)case_random(c, BTI_COMPUTED_DTYPES) : (uint8_t)k->operands[o].dtype;
        if (instr->dtype == BT_BOOL && k->operands[o].index) instr->dtype = BT_I32;
        instr->arg[0] = (uint16_t)o;
    }
    k->scalar_count = (uint16_t)case_random(c, 4);
    for (int s = 0; s < k->scalar_count; s++) {
        bti_instr *instr = &k->instrs[k->instr_count++];
        *instr = (bti_instr){.op = BTI_OP_const, .arg[0] = (uint16_t)s};
        instr->dtype = (uint8_t)(case_chance(c, 50) ? k->instrs[0].dtype : case_random(c, BTI_COMPUTED_DTYPES));
        double number = (double)(int64_t)(case_random(c, 4000) - 2000) / 256;
        c->scalars[s] = bti_dtype_is_float((bt_dtype)instr->dtype) ? bti_f64_bits(number) : (uint64_t)(int64_t)number;
        if (instr->dtype == BT_BOOL) c->scalars[s] &= 1;
    }
    for (int o = 0; o < k->input_count; o++)
        if (k->operands[o].taken) case_take(c, o);
    bti_kernel_set_stages(k);
    uint64_t tries = 1 + case_random(c, 8) * case_random(c, 12);
    for (uint64_t t = 0; t < tries; t++) case_operation(c);
}

/* --- outputs ------------------------------------------------------------------------------------------------------ */

static inline bool case_in_place(bti_kernel_case *c, int output) {
    bti_kernel *k = &c->kernel;
    if (bti_kernel_sweeps(k) > 1) return false;
    for (int o = 0; o < k->input_count; o++) {
        bool taken = k->operands[o].index || k->operands[o].taken ||
                     k->operands[o].dtype != k->operands[output].dtype ||
                     k->operands[o].moves != k->operands[output].moves;
        for (int other = 0; other < output && !taken; other++)
            taken = other != o && c->box.address[other] == c->box.address[o];
        if (taken) continue;
        k->operands[output].unit = k->operands[o].unit;
        c->box.address[output] = c->box.address[o];
        memcpy(c->box.stride[output], c->box.stride[o], sizeof c->box.stride[o]);
        return true;
    }
    return false;
}

static inline void case_outputs(bti_kernel_case *c) {
    bti_kernel *k = &c->kernel;
    unsigned all = (1u << bti_kernel_axes(k)) - 1, reduced = ((1u << k->reduced) - 1) << k->outer;
    int count = 1 + (int)case_random(c, 3);
    for (int n = 0; n < count; n++) {
        int o = k->input_count + n;
        uint16_t value = (uint16_t)(k->instr_count - 1 - (n ? case_random(c, k->instr_count) : 0));
        k->operands[o].value = value;
        k->operands[o].dtype = k->instrs[value].dtype;
        k->operands[o].moves = (uint8_t)(k->instrs[value].level == BTI_POINT ? all : all & ~reduced);
        k->output_count++;
        if (!case_chance(c, 30) || !case_in_place(c, o)) case_place(c, o);
    }
}

/* --- data --------------------------------------------------------------------------------------------------------- */

static inline void case_fill(bti_kernel_case *c, int operand) {
    static const double special[] = {0,     -0.0, 1,     -1,       1e-310,    1e308, -1e308,
                                     1e-40, 3e38, 70000, INFINITY, -INFINITY, NAN};
    bt_dtype dtype = (bt_dtype)c->kernel.operands[operand].dtype;
    size_t size = bt_dtype_size(dtype), begin = c->box.address[operand], end = c->bytes;
    int64_t last = 0;
    for (int axis = 0; axis < bti_kernel_axes(&c->kernel); axis++) {
        int64_t far = c->box.stride[operand][axis] * (c->box.extent[axis] - 1);
        if (far < 0)
            begin += (size_t)far;
        else
            last += far;
    }
    int64_t reach = c->rows[operand] ? (c->rows[operand] - 1) * c->row_bytes[operand] : 0;
    begin += (size_t)(reach < 0 ? reach : 0);
    last += reach > 0 ? reach : 0;
    end = c->box.address[operand] + (size_t)last + size;
    bool wild = case_chance(c, 30);
    for (size_t at = begin; at < end; at += size) {
        double number = (double)(int64_t)(case_random(c, 1 << 20) - (1 << 19)) * 0x1p-17;
        uint64_t bits = case_random(c, UINT64_MAX);
        if (wild && case_chance(c, 20)) number = special[case_random(c, sizeof special / sizeof *special)];
        if (!wild && bti_dtype_is_int(dtype)) bits = (uint64_t)(int64_t)(number * 20);
        if (dtype == BT_BOOL) bits &= 1;
        if (c->numbers[operand])
            bits = case_random(c, (uint64_t)(2 * c->numbers[operand] + 3)) - (uint64_t)c->numbers[operand] - 1;
        if (dtype == BT_F64) bits = bti_f64_bits(number);
        if (dtype == BT_F32) bits = bti_f32_bits((float)number);
        if (dtype == BT_F16) bits = bti_f16_from_f64(number);
        if (dtype == BT_BF16) bits = bti_bf16_from_f64(number);
        memcpy(c->memory + at, &bits, size);
    }
}

/* The memory as it was before any run. */
static inline void bti_case_reset(bti_kernel_case *c) { memcpy(c->memory, c->original, c->bytes); }

static inline void case_make(bti_kernel_case *c) {
    int form = (int)case_random(c, 3);
    c->one_sweep = case_chance(c, 50);
    c->kernel.outer = (uint8_t)case_random(c, 3);
    c->kernel.reduced = (uint8_t)(form ? 1 + case_random(c, 2) : 0);
    c->kernel.inner = form != 1;
    case_extents(c);
    case_inputs(c);
    case_program(c);
    case_outputs(c);
    c->bytes += 64;
    c->memory = aligned_alloc(64, c->bytes / 64 * 64 + 64);
    c->original = malloc(c->bytes);
    memset(c->memory, 0x55, c->bytes);
    for (int o = 0; o < bti_kernel_operands(&c->kernel); o++) {
        if (c->kernel.operands[o].index) continue;
        if (o < c->kernel.input_count) case_fill(c, o);
    }
    for (int o = 0; o < bti_kernel_operands(&c->kernel); o++)
        if (!c->kernel.operands[o].index) c->box.address[o] += (uint64_t)(uintptr_t)c->memory;
    memcpy(c->original, c->memory, c->bytes);
    c->box.scalars = c->scalars;
}

static inline void bti_random_kernel(uint64_t seed, bti_kernel_case *c) {
    *c = (bti_kernel_case){.random = seed * 77777};
    case_make(c);
}
static inline void bti_random_large_kernel(uint64_t seed, bti_kernel_case *c) {
    *c = (bti_kernel_case){.random = seed * 99991, .large = true};
    case_make(c);
}

static inline void bti_random_short_kernel(uint64_t seed, bti_kernel_case *c) {
    *c = (bti_kernel_case){.random = seed * 88883, .short_lines = true};
    case_make(c);
}

static inline void bti_case_free(bti_kernel_case *c) {
    free(c->memory);
    free(c->original);
}

/* A copy of the memory, for free; and the memory as it was. */
static inline char *bti_case_take(bti_kernel_case *c) {
    char *copy = malloc(c->bytes);
    memcpy(copy, c->memory, c->bytes);
    bti_case_reset(c);
    return copy;
}

static inline bool case_is_nan(bt_dtype dtype, const char *at) {
    uint64_t bits = 0;
    memcpy(&bits, at, bt_dtype_size(dtype));
    switch (dtype) {
    case BT_F16: return (bits & 0x7FFF) > 0x7C00;
    case BT_BF16: return (bits & 0x7FFF) > 0x7F80;
    case BT_F32: return (bits & 0x7FFFFFFF) > 0x7F800000;
    case BT_F64: return (bits & UINT64_MAX >> 1) > (uint64_t)0x7FF << 52;
    default: return false;
    }
}

/* The first output that is not as in `other`, bit for bit (all NaN are one), or -1; bytes outside of outputs too: -2. */
static inline int bti_case_differs(bti_kernel_case *c, const char *other) {
    const bti_kernel *k = &c->kernel;
    char *rest = malloc(c->bytes);
    memcpy(rest, other, c->bytes);
    int differs = -1;
    for (int o = k->input_count; o < bti_kernel_operands(k); o++) {
        bt_dtype dtype = (bt_dtype)k->operands[o].dtype;
        size_t size = bt_dtype_size(dtype);
        int64_t index[BTI_MAX_RANK] = {0};
        for (int axis = 0; axis >= 0;) {
            size_t at = c->box.address[o] - (uint64_t)(uintptr_t)c->memory;
            for (int a = 0; a < bti_kernel_axes(k); a++) at += (size_t)(index[a] * c->box.stride[o][a]);
            bool same = memcmp(c->memory + at, other + at, size) == 0 ||
                        (case_is_nan(dtype, c->memory + at) && case_is_nan(dtype, other + at));
            if (!same && differs < 0) differs = o;
            memcpy(rest + at, c->memory + at, size);
            for (axis = bti_kernel_axes(k) - 1; axis >= 0; index[axis--] = 0) {
                if (!(k->operands[o].moves >> axis & 1)) continue;
                if (++index[axis] < c->box.extent[axis]) break;
            }
        }
    }
    if (differs < 0 && memcmp(rest, c->memory, c->bytes) != 0) differs = -2;
    free(rest);
    return differs;
}

#endif
