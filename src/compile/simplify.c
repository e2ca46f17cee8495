/* Operations that are computed while planning. */
#include <math.h>

#include "compile/planner.h"
#include "ir/dtype.h"
#include "reference/interp.h"

static uint64_t bits_of(double x) {
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

static bti_operand scalar_at(uint64_t *memory, bt_dtype dtype) {
    return (bti_operand){.address = (uint64_t)(uintptr_t)memory, .dtype = dtype};
}

/* What is computed. */
typedef struct shaped {
    bti_planner *planner;
    const bti_node *node;
    int device;
    bt_dtype dtype;
    int rank;
    const int64_t *shape;
} shaped;

/* All its elements are this number. */
static int32_t add_constant(const shaped *s, uint64_t bits) {
    int32_t value = bti_add_const(s->planner, s->node, s->device, s->dtype, bits);
    bti_layout still = {0};
    return s->rank == 0 || s->planner->failed ? value : bti_add_view(s->planner, value, s->rank, s->shape, &still);
}

/* --- of constants alone --------------------------------------------------------------------------------------------- */

#define MOST_INPUTS 3

static bool run(bti_op op, const bti_operand *inputs, int count, bti_operand output, uint64_t bits) {
    bti_attr attr = {.constant = {bits}};
    bti_work work = {.op = op, .input_count = count, .inputs = inputs, .output = output, .attr = &attr};
    return bti_interpret(&work) == BT_OK;
}

/* The bits of a scalar in memory as a constant has them. */
static bool widen(bti_operand scalar, uint64_t *bits) {
    bt_dtype wide = bti_dtype_is_float(scalar.dtype) ? BT_F64 : scalar.dtype == BT_U64 ? BT_U64 : BT_I64;
    *bits = 0;
    return run(BTI_OP_cast, &scalar, 1, scalar_at(bits, wide), 0);
}

/* Only what every engine computes to the same bit. */
static bool folds(bti_op op, int input_count) {
    const bti_op_row *info = bti_op_info(op);
    return info->class == BTI_ELEMENTWISE && info->tolerance == 0 && input_count <= MOST_INPUTS &&
           op != BTI_OP_bitcast && op != BTI_OP_complex;
}

/* Of more elements the result is an array as any other, with memory of its own. */
static bool has_one_element(const shaped *s) {
    for (int i = 0; i < s->rank; i++)
        if (s->shape[i] != 1) return false;
    return true;
}

static bool fold(const shaped *s, bti_op op, const int32_t *inputs, int input_count, int32_t *simple) {
    bti_planner *planner = s->planner;
    uint64_t bits, memory[MOST_INPUTS] = {0}, result = 0;
    bti_operand operands[MOST_INPUTS];
    for (int i = 0; i < input_count; i++) {
        if (!bti_is_const(planner, inputs[i], &bits)) return false;
        operands[i] = scalar_at(&memory[i], bti_plan_value(planner, inputs[i])->dtype);
        if (!run(BTI_OP_const, NULL, 0, operands[i], bits)) return false;
    }
    bti_operand output = scalar_at(&result, s->dtype);
    if (!run(op, operands, input_count, output, 0) || !widen(output, &bits)) return false;
    *simple = add_constant(s, bits);
    return true;
}

/* --- with a number that changes nothing ----------------------------------------------------------------------------- */

static bool is_number(bti_planner *planner, int32_t value, double number) {
    uint64_t bits;
    if (!bti_is_const(planner, value, &bits)) return false;
    return bits == (bti_dtype_is_float(bti_plan_value(planner, value)->dtype) ? bits_of(number) : (uint64_t)number);
}

/* Which input the result is, to the bit (-0 + 0 is not -0); -1: none. */
static int unchanged(bti_planner *planner, bti_op op, const int32_t *inputs) {
    switch (op) {
    case BTI_OP_mul:
        if (is_number(planner, inputs[1], 1)) return 0;
        return is_number(planner, inputs[0], 1) ? 1 : -1;
    case BTI_OP_div: return is_number(planner, inputs[1], 1) ? 0 : -1;
    case BTI_OP_sub: return is_number(planner, inputs[1], 0) ? 0 : -1;
    default: return -1;
    }
}

/* --- reductions of one element, and of none ------------------------------------------------------------------------------------------ */

/* Of a reduction: what it is of no elements. */
static uint64_t start_of(bti_op op, bt_dtype dtype) {
    bool real = bti_dtype_is_float(dtype), least = op == BTI_OP_max;
    if (op == BTI_OP_sum) return 0;
    if (op == BTI_OP_prod) return real ? bits_of(1) : 1;
    if (real) return bits_of(least ? -INFINITY : INFINITY);
    if (dtype == BT_BOOL) return !least;
    uint64_t all = UINT64_MAX >> (64 - bti_dtype_bits(dtype));
    if (bti_dtype_is_signed(dtype)) return least ? ~(all >> 1) : all >> 1;
    return least ? 0 : all;
}

static bool trivial_fold(const shaped *s, bti_op op, int32_t input, int32_t *simple) {
    const bti_value *in = bti_plan_value(s->planner, input);
    bool empty = false, folds_points = false;
    for (int i = 0; i < in->rank; i++) {
        empty = empty || in->shape[i] == 0;
        folds_points = folds_points || in->shape[i] != s->shape[i];
    }
    if (!folds_points && !empty) *simple = input; /* axes of one element */
    if (!empty) return !folds_points;
    *simple = add_constant(s, start_of(op, s->dtype));
    return true;
}

/* --- parts of complex numbers ------------------------------------------------------------------------------------------------- */

/* A part of a number that was made of it. */
static bool part_of_made(bti_planner *planner, bti_op op, int32_t input, int32_t *simple) {
    const bti_plan *plan = planner->plan;
    int32_t maker = plan->storages.items[bti_plan_value(planner, input)->storage].first_step;
    if (maker < 0) return false;
    const bti_step *step = &plan->steps.items[maker];
    if (step->op != BTI_OP_complex || plan->operands.items[step->first_operand + 2] != input) return false;
    *simple = plan->operands.items[step->first_operand + (op == BTI_OP_imag)];
    return true;
}

bool bti_simplify(bti_planner *planner, const bti_node *node, bti_op op, int device, bt_dtype dtype, int rank,
                  const int64_t *shape, const int32_t *inputs, int input_count, int32_t *simple) {
    shaped s = {planner, node, device, dtype, rank, shape};
    bool repeats = rank == 0 || !bti_loads_graphs(planner, device); /* a number may be seen as an array */
    if (op == BTI_OP_const || op == BTI_OP_size) {
        uint64_t bits = op == BTI_OP_const          ? node->attr->constant.bits
                        : bti_dtype_is_float(dtype) ? bits_of((double)node->attr->size.size)
                                                    : (uint64_t)node->attr->size.size;
        *simple = bti_add_const(planner, node, device, dtype, bits);
        return true;
    }
    if (op == BTI_OP_cast && bti_plan_value(planner, inputs[0])->dtype == dtype) {
        *simple = inputs[0];
        return true;
    }
    if (op == BTI_OP_where && inputs[1] == inputs[2]) { /* they differ in their gradients alone */
        *simple = inputs[1];
        return true;
    }
    if ((op == BTI_OP_real || op == BTI_OP_imag) && part_of_made(planner, op, inputs[0], simple)) return true;
    int same = unchanged(planner, op, inputs);
    if (same >= 0) {
        *simple = inputs[same];
        return true;
    }
    if (input_count && repeats && has_one_element(&s) && folds(op, input_count) &&
        fold(&s, op, inputs, input_count, simple))
        return true;
    return bti_op_info(op)->class == BTI_REDUCE && repeats && trivial_fold(&s, op, inputs[0], simple);
}
