/* Kernels for tests of render/: written by hand, and drawn at random. */
#ifndef BERTH_TESTS_SUPPORT_RENDER_KERNELS_H
#define BERTH_TESTS_SUPPORT_RENDER_KERNELS_H

#include <string.h>

#include "ir/dtype.h"
#include "ir/halves.h"
#include "render/llvm.h"

static inline uint32_t draw(uint64_t *state, uint32_t below) {
    *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)((*state >> 33) % below);
}

/* --- by hand ------------------------------------------------------------------------------------------------------ */

static inline uint16_t add_instr(bti_kernel *kernel, bti_op op, bt_dtype dtype, int a, int b, int c, int d) {
    kernel->instrs[kernel->instr_count] = (bti_instr){
        .op = (uint8_t)op, .dtype = (uint8_t)dtype, .arg = {(uint16_t)a, (uint16_t)b, (uint16_t)c, (uint16_t)d}};
    return kernel->instr_count++;
}

/* An input that moves along a mask of axes; a leaf of it, or (index) an iota of the dtype. */
static inline uint16_t add_input(bti_kernel *kernel, bt_dtype dtype, unsigned moves, bool unit, bool index) {
    kernel->operands[kernel->input_count] = (bti_kernel_operand){
        .dtype = (uint8_t)(index ? BT_I64 : dtype), .moves = (uint8_t)moves, .unit = unit, .index = index};
    return add_instr(kernel, index ? BTI_OP_iota : BTI_OP_leaf, dtype, kernel->input_count++, 0, 0, 0);
}

static inline uint16_t add_scalar(bti_kernel *kernel, bt_dtype dtype) {
    return add_instr(kernel, BTI_OP_const, dtype, kernel->scalar_count++, 0, 0, 0);
}

/* What is taken, by the row numbers of an instruction, from an input that moves along a mask of axes. */
static inline uint16_t add_take(bti_kernel *kernel, bt_dtype dtype, unsigned moves, bool unit, int number) {
    int count = add_scalar(kernel, BT_I64), bytes = add_scalar(kernel, BT_I64);
    uint16_t take = add_instr(kernel, BTI_OP_take, dtype, number, count, bytes, 0);
    kernel->instrs[take].attr = (uint8_t)kernel->input_count;
    kernel->operands[kernel->input_count++] =
        (bti_kernel_operand){.dtype = (uint8_t)dtype, .moves = (uint8_t)moves, .unit = unit, .taken = true};
    return take;
}

/* After all inputs and instructions. */
static inline void add_output(bti_kernel *kernel, int value, bool unit) {
    bti_kernel_set_stages(kernel);
    unsigned all = (1u << bti_kernel_axes(kernel)) - 1, reduced = ((1u << kernel->reduced) - 1) << kernel->outer;
    unsigned moves = kernel->instrs[value].level == BTI_ROW ? all & ~reduced : all;
    kernel->operands[bti_kernel_operands(kernel)] =
        (bti_kernel_operand){.dtype = kernel->instrs[value].dtype,
                             .moves = (uint8_t)moves,
                             .unit = unit && moves >> (bti_kernel_axes(kernel) - 1) & 1,
                             .value = (uint16_t)value};
    kernel->output_count++;
}

/* With bool, small floats, mathematics and an operand that stands still along the line. */
static inline void map_kernel(bti_kernel *kernel) {
    *kernel = (bti_kernel){.outer = 1, .inner = 1};
    int x = add_input(kernel, BT_F32, 3, true, false), row = add_input(kernel, BT_F32, 1, false, false);
    int flag = add_input(kernel, BT_BOOL, 2, true, false), scale = add_scalar(kernel, BT_F32);
    int root = add_instr(kernel, BTI_OP_sqrt, BT_F32, add_instr(kernel, BTI_OP_abs, BT_F32, x, 0, 0, 0), 0, 0, 0);
    int log = add_instr(kernel, BTI_OP_log, BT_F32, add_instr(kernel, BTI_OP_mul, BT_F32, row, scale, 0, 0), 0, 0, 0);
    int difference = add_instr(kernel, BTI_OP_sub, BT_F32, root, log, 0, 0);
    add_output(kernel, add_instr(kernel, BTI_OP_where, BT_F32, flag, difference, x, 0), true);
}

static inline void softmax_kernel(bti_kernel *kernel) {
    *kernel = (bti_kernel){.outer = 1, .reduced = 1};
    int x = add_input(kernel, BT_F32, 3, true, false), most = add_instr(kernel, BTI_OP_max, BT_F32, x, 0, 0, 0);
    int power = add_instr(kernel, BTI_OP_exp, BT_F32, add_instr(kernel, BTI_OP_sub, BT_F32, x, most, 0, 0), 0, 0, 0);
    int sum = add_instr(kernel, BTI_OP_sum, BT_F32, power, 0, 0, 0);
    add_output(kernel, add_instr(kernel, BTI_OP_div, BT_F32, power, sum, 0, 0), true);
}

static inline void layer_norm_kernel(bti_kernel *kernel) {
    *kernel = (bti_kernel){.outer = 1, .reduced = 1};
    int x = add_input(kernel, BT_F32, 3, true, false), gain = add_input(kernel, BT_F32, 2, true, false);
    int part = add_scalar(kernel, BT_F32), epsilon = add_scalar(kernel, BT_F32);
    int sum = add_instr(kernel, BTI_OP_sum, BT_F32, x, 0, 0, 0);
    int away = add_instr(kernel, BTI_OP_sub, BT_F32, x, add_instr(kernel, BTI_OP_mul, BT_F32, sum, part, 0, 0), 0, 0);
    int squares =
        add_instr(kernel, BTI_OP_sum, BT_F32, add_instr(kernel, BTI_OP_mul, BT_F32, away, away, 0, 0), 0, 0, 0);
    int variance = add_instr(kernel, BTI_OP_mul, BT_F32, squares, part, 0, 0);
    variance = add_instr(kernel, BTI_OP_add, BT_F32, variance, epsilon, 0, 0);
    int scale = add_instr(kernel, BTI_OP_rsqrt, BT_F32, variance, 0, 0, 0);
    int even = add_instr(kernel, BTI_OP_mul, BT_F32, away, scale, 0, 0);
    add_output(kernel, add_instr(kernel, BTI_OP_mul, BT_F32, even, gain, 0, 0), true);
}

static inline void column_sum_kernel(bti_kernel *kernel) {
    *kernel = (bti_kernel){.reduced = 1, .inner = 1};
    int x = add_input(kernel, BT_F32, 3, true, false);
    add_output(kernel, add_instr(kernel, BTI_OP_sum, BT_F32, x, 0, 0, 0), true);
}

static inline void small_floats_kernel(bti_kernel *kernel) {
    *kernel = (bti_kernel){.inner = 1};
    int x = add_input(kernel, BT_F16, 1, true, false), y = add_input(kernel, BT_BF16, 1, false, false);
    int product = add_instr(kernel, BTI_OP_mul, BT_F16, x, x, 0, 0);
    int wide = add_instr(kernel, BTI_OP_cast, BT_F64, y, 0, 0, 0);
    add_output(kernel, product, true);
    add_output(kernel, add_instr(kernel, BTI_OP_cast, BT_BF16, wide, 0, 0, 0), false);
}

/* The first of them may leap along the line: a transposed one. */
static inline void transpose_add_kernel(bti_kernel *kernel) {
    *kernel = (bti_kernel){.outer = 1, .inner = 1};
    int x = add_input(kernel, BT_F32, 3, false, false), y = add_input(kernel, BT_F32, 3, true, false);
    add_output(kernel, add_instr(kernel, BTI_OP_add, BT_F32, x, y, 0, 0), true);
}

/* Uniform numbers; the key is loaded, scalars: how many, 9, 0x3F800000, 1. */
static inline void random_kernel(bti_kernel *kernel) {
    *kernel = (bti_kernel){.inner = 1};
    int number = add_input(kernel, BT_U32, 1, true, true);
    int key[2] = {add_input(kernel, BT_U32, 0, false, false), add_input(kernel, BT_U32, 0, false, false)};
    int count = add_scalar(kernel, BT_U32), nine = add_scalar(kernel, BT_U32), exponent = add_scalar(kernel, BT_U32);
    int one = add_scalar(kernel, BT_F32);
    int word = add_instr(kernel, BTI_OP_random_word, BT_U32, key[0], key[1], number, count);
    int bits = add_instr(kernel, BTI_OP_shr, BT_U32, word, nine, 0, 0);
    bits = add_instr(kernel, BTI_OP_or, BT_U32, bits, exponent, 0, 0);
    int real = add_instr(kernel, BTI_OP_bitcast, BT_F32, bits, 0, 0, 0);
    add_output(kernel, add_instr(kernel, BTI_OP_sub, BT_F32, real, one, 0, 0), true);
}

/* The same in halves of a line. */
static inline void halved_kernel(bti_kernel *kernel) {
    static bti_kernel whole;
    random_kernel(&whole);
    bti_halves_kernel(&whole, 0, kernel);
}

/* An embedding and a position. */
static inline void take_kernel(bti_kernel *kernel) {
    *kernel = (bti_kernel){.outer = 1, .inner = 1};
    int number = add_input(kernel, BT_I32, 1, false, false), position = add_input(kernel, BT_F32, 3, true, false);
    int row = add_take(kernel, BT_F32, 2, true, number);
    add_output(kernel, add_instr(kernel, BTI_OP_add, BT_F32, row, position, 0, 0), true);
}

/* Elements from anywhere, by numbers that are computed. */
static inline void lookup_kernel(bti_kernel *kernel) {
    *kernel = (bti_kernel){.inner = 1};
    int number = add_input(kernel, BT_I64, 1, true, false);
    number = add_instr(kernel, BTI_OP_add, BT_I64, number, number, 0, 0);
    add_output(kernel, add_take(kernel, BT_F16, 0, false, number), true);
}

/* Rows that are gone over again: those of each row's number. */
static inline void take_rows_kernel(bti_kernel *kernel) {
    *kernel = (bti_kernel){.outer = 1, .reduced = 1};
    int row = add_take(kernel, BT_F32, 2, true, add_input(kernel, BT_I64, 1, false, false));
    int most = add_instr(kernel, BTI_OP_max, BT_F32, row, 0, 0, 0);
    add_output(kernel, add_instr(kernel, BTI_OP_sub, BT_F32, row, most, 0, 0), true);
}

/* The sum of rows. */
static inline void take_columns_kernel(bti_kernel *kernel) {
    *kernel = (bti_kernel){.reduced = 1, .inner = 1};
    int row = add_take(kernel, BT_F32, 2, true, add_input(kernel, BT_I32, 1, false, false));
    add_output(kernel, add_instr(kernel, BTI_OP_sum, BT_F32, row, 0, 0, 0), true);
}

static void (*const kernels_by_hand[])(bti_kernel *kernel) = {
    map_kernel,    softmax_kernel, layer_norm_kernel, column_sum_kernel, small_floats_kernel, transpose_add_kernel,
    random_kernel, halved_kernel,  take_kernel,       lookup_kernel,     take_rows_kernel,    take_columns_kernel};
enum { KERNELS_BY_HAND = sizeof kernels_by_hand / sizeof *kernels_by_hand };

/* --- at random ---------------------------------------------------------------------------------------------------- */

static inline bool takes(bti_op op, bt_dtype dtype) {
    switch (bti_op_info(op)->dtype_rule) {
    case BTI_ANY:
    case BTI_COMPARE: return true;
    case BTI_NUMBER: return dtype != BT_BOOL;
    case BTI_FLOAT: return bti_dtype_is_float(dtype);
    case BTI_BITS: return !bti_dtype_is_float(dtype);
    default: return false;
    }
}

/* An instruction of the dtype: one that is there, or a cast of any. */
static inline uint16_t some_value(bti_kernel *kernel, bt_dtype dtype, uint64_t *state) {
    int from = (int)draw(state, kernel->instr_count);
    for (int i = 0; i < kernel->instr_count; i++) {
        int at = (from + i) % kernel->instr_count;
        if (kernel->instrs[at].dtype == dtype) return (uint16_t)at;
    }
    return add_instr(kernel, BTI_OP_cast, dtype, from, 0, 0, 0);
}

static inline void add_bitcast(bti_kernel *kernel, uint64_t *state) {
    static const bt_dtype by_size[4][3] = {
        {BT_U8, BT_I8, BT_BOOL}, {BT_U16, BT_I16, BT_F16}, {BT_U32, BT_I32, BT_F32}, {BT_U64, BT_I64, BT_F64}};
    uint32_t size = draw(state, 4);
    bt_dtype from = by_size[size][draw(state, 2)], to = by_size[size][size ? draw(state, 3) : draw(state, 2)];
    add_instr(kernel, BTI_OP_bitcast, to, some_value(kernel, from, state), 0, 0, 0);
}

static inline void add_random_words(bti_kernel *kernel, uint64_t *state) {
    uint16_t x[4];
    for (int i = 0; i < 4; i++) x[i] = some_value(kernel, BT_U32, state);
    bool threefry = draw(state, 2);
    uint16_t made = add_instr(kernel, threefry ? BTI_OP_threefry : BTI_OP_random_word, BT_U32, x[0], x[1], x[2], x[3]);
    if (threefry) kernel->instrs[made].attr = (uint8_t)draw(state, 2);
}

static inline void add_any(bti_kernel *kernel, bt_dtype favourite, uint64_t *state) {
    bt_dtype dtype = draw(state, 4) ? favourite : (bt_dtype)draw(state, BTI_COMPUTED_DTYPES);
    bti_op op = (bti_op)(BTI_OP_neg + draw(state, BTI_OP_random_word - BTI_OP_neg + 1));
    if (kernel->reduced && draw(state, 4) == 0) {
        static const bti_op folds[] = {BTI_OP_sum, BTI_OP_prod, BTI_OP_max, BTI_OP_min};
        bti_op fold = folds[draw(state, 4)];
        if (dtype == BT_BOOL && fold <= BTI_OP_prod) fold = BTI_OP_max;
        add_instr(kernel, fold, dtype, some_value(kernel, dtype, state), 0, 0, 0);
    } else if (op == BTI_OP_bitcast)
        add_bitcast(kernel, state);
    else if (op == BTI_OP_threefry || op == BTI_OP_random_word)
        add_random_words(kernel, state);
    else if (op == BTI_OP_cast)
        add_instr(kernel, op, dtype, (int)draw(state, kernel->instr_count), 0, 0, 0);
    else if (op == BTI_OP_where) {
        uint16_t condition = some_value(kernel, BT_BOOL, state), x = some_value(kernel, dtype, state);
        add_instr(kernel, op, dtype, condition, x, some_value(kernel, dtype, state), 0);
    } else if (takes(op, dtype)) {
        uint16_t x = some_value(kernel, dtype, state), y = some_value(kernel, dtype, state);
        bool compares = bti_op_info(op)->dtype_rule == BTI_COMPARE;
        add_instr(kernel, op, compares ? BT_BOOL : dtype, x, bti_op_info(op)->arity == 2 ? y : 0, 0, 0);
    }
}

static inline void draw_inputs(bti_kernel *kernel, bt_dtype favourite, uint64_t *state) {
    int axes = bti_kernel_axes(kernel), count = 1 + (int)draw(state, 4);
    for (int i = 0; i < count; i++) {
        unsigned all = (1u << axes) - 1, moves = draw(state, 2) ? all : draw(state, all + 1);
        bt_dtype dtype = draw(state, 2) ? favourite : (bt_dtype)draw(state, BTI_COMPUTED_DTYPES);
        add_input(kernel, dtype, moves, moves >> (axes - 1) && draw(state, 3), draw(state, 5) == 0);
    }
    if (draw(state, 4) == 0) {
        unsigned all = (1u << axes) - 1, moves = draw(state, all + 1), number_moves = draw(state, all + 1);
        bt_dtype number = draw(state, 2) ? BT_I32 : BT_I64;
        int numbers = add_input(kernel, number, number_moves, number_moves >> (axes - 1) && draw(state, 2), false);
        add_take(kernel, draw(state, 2) ? favourite : (bt_dtype)draw(state, BTI_COMPUTED_DTYPES), moves,
                 moves >> (axes - 1) && draw(state, 3), numbers);
    }
    for (uint32_t i = draw(state, 3); i > 0; i--) add_scalar(kernel, draw(state, 2) ? favourite : BT_U32);
}

/* A kernel that bti_kernel_verify is content with. */
static inline void draw_kernel(bti_kernel *kernel, uint64_t *state) {
    do {
        memset(kernel, 0, sizeof *kernel);
        uint32_t form = draw(state, 3);
        kernel->outer = (uint8_t)draw(state, 3);
        kernel->reduced = (uint8_t)(form ? 1 + draw(state, 2) : 0);
        kernel->inner = form != 1;
        bt_dtype favourite = (bt_dtype)draw(state, BTI_COMPUTED_DTYPES);
        draw_inputs(kernel, favourite, state);
        for (uint32_t i = 2 + draw(state, 10); i > 0; i--) add_any(kernel, favourite, state);
        add_output(kernel, kernel->instr_count - 1, draw(state, 3));
        if (draw(state, 2)) add_output(kernel, (int)draw(state, kernel->instr_count), draw(state, 3));
        bti_kernel_set_stages(kernel);
    } while (bti_kernel_verify(kernel) || (kernel->inner && bti_kernel_sweeps(kernel) > 1));
}

#endif
