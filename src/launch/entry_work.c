/* Primitives that are run whole, as kernels of one instruction. */
#include <string.h>

#include "ir/dtype.h"
#include "launch/entry.h"
#include "ir/half.h"
#include "reference/operand.h"

/* A nest over operands: the inputs, then the output. Strides in bytes. */
typedef struct nest {
    int axes, operand_count;
    int64_t extent[BTI_MAX_RANK + 1];
    const bti_operand *operand[5];
    uint64_t address[5];
    int64_t stride[5][BTI_MAX_RANK + 1];
} nest;

static void add_nest_operand(nest *n, const bti_operand *operand) {
    int o = n->operand_count++;
    n->operand[o] = operand;
    n->address[o] = operand->address;
    for (int axis = 0; axis < n->axes; axis++)
        n->stride[o][axis] = operand->stride[axis] * (int64_t)bt_dtype_size(operand->dtype);
}

/* The strides of a dense operand as if it had the nest's extents. */
static void add_reshaped(nest *n, const bti_operand *operand) {
    int64_t dense = (int64_t)bt_dtype_size(operand->dtype);
    add_nest_operand(n, operand);
    for (int axis = n->axes - 1; axis >= 0; axis--) {
        n->stride[n->operand_count - 1][axis] = dense;
        dense *= n->extent[axis];
    }
}

static bool same_shape(const bti_operand *a, const bti_operand *b) {
    return a->rank == b->rank && !memcmp(a->shape, b->shape, (size_t)a->rank * sizeof *a->shape);
}

static void begin_nest(nest *n, const bti_operand *shape) {
    n->axes = shape->rank;
    n->operand_count = 0;
    memcpy(n->extent, shape->shape, (size_t)shape->rank * sizeof *n->extent);
}

/* Input and output of a copy, in the shape of one of them. */
static bool begin_copy(nest *n, const bti_operand *in, const bti_operand *out) {
    bool by_output = bti_operand_is_dense(in) || same_shape(in, out);
    begin_nest(n, by_output ? out : in);
    if (same_shape(in, out)) {
        add_nest_operand(n, in);
        add_nest_operand(n, out);
    } else if (by_output) {
        add_reshaped(n, in);
        add_nest_operand(n, out);
    } else if (bti_operand_is_dense(out)) {
        add_nest_operand(n, in);
        add_reshaped(n, out);
    } else
        return false;
    return true;
}

/* Axes first..end - 1; returns how many are left. */
static int collapse_nest(nest *n, int first, int end) {
    int64_t *stride[5];
    for (int o = 0; o < n->operand_count; o++) stride[o] = n->stride[o];
    int left = bti_axes_collapse(first, end, n->axes, n->extent, n->operand_count, stride);
    n->axes -= end - first - left;
    return left;
}

static void add_axis(nest *n) {
    n->extent[n->axes] = 1;
    for (int o = 0; o < n->operand_count; o++) n->stride[o][n->axes] = 0;
    n->axes++;
}

/* --- to a kernel ---------------------------------------------------------------------------------------------------- */

static uint16_t add_instr(bti_kernel *kernel, bti_op op, bt_dtype dtype, int attr) {
    bti_instr *instr = &kernel->instrs[kernel->instr_count];
    *instr = (bti_instr){.op = (uint8_t)op, .dtype = (uint8_t)dtype, .attr = (uint8_t)attr};
    return kernel->instr_count++;
}

static void fill_operands(const nest *n, bti_kernel *kernel, bti_box *box) {
    memcpy(box->extent, n->extent, (size_t)n->axes * sizeof *n->extent);
    for (int o = 0; o < n->operand_count; o++) {
        bti_kernel_operand *operand = &kernel->operands[o];
        operand->dtype = (uint8_t)n->operand[o]->dtype;
        for (int axis = 0; axis < n->axes; axis++) {
            if (n->stride[o][axis]) operand->moves |= (uint8_t)(1u << axis);
            box->stride[o][axis] = n->stride[o][axis];
        }
        operand->unit = n->stride[o][n->axes - 1] == (int64_t)bt_dtype_size(n->operand[o]->dtype);
        box->address[o] = n->address[o];
    }
}

static void add_inputs(const nest *n, bti_kernel *kernel) {
    for (int i = 0; i + 1 < n->operand_count; i++)
        kernel->instrs[add_instr(kernel, BTI_OP_leaf, n->operand[i]->dtype, 0)].arg[0] = (uint16_t)i;
    kernel->input_count = (uint16_t)(n->operand_count - 1);
    kernel->output_count = 1;
}

static void end_kernel(const nest *n, int value, bti_kernel *kernel, bti_box *box) {
    fill_operands(n, kernel, box);
    kernel->operands[n->operand_count - 1].value = (uint16_t)value;
    bti_kernel_set_stages(kernel);
}

static void write_map(nest *n, bti_op op, int attr, bti_kernel *kernel, bti_box *box) {
    collapse_nest(n, 0, n->axes);
    if (!n->axes) add_axis(n);
    *kernel = (bti_kernel){.outer = (uint8_t)(n->axes - 1), .inner = 1};
    add_inputs(n, kernel);
    int value = kernel->instr_count - 1;
    if (op != BTI_OP_copy) {
        value = add_instr(kernel, op, n->operand[n->operand_count - 1]->dtype, attr);
        for (int i = 0; i < kernel->input_count; i++) kernel->instrs[value].arg[i] = (uint16_t)i;
    }
    end_kernel(n, value, kernel, box);
}

/* A scalar at every point of an operand. */
static void write_fill(const bti_operand *out, const uint64_t *scalar, bti_kernel *kernel, bti_box *box) {
    nest n;
    begin_nest(&n, out);
    add_nest_operand(&n, out);
    collapse_nest(&n, 0, n.axes);
    if (!n.axes) add_axis(&n);
    *kernel = (bti_kernel){.outer = (uint8_t)(n.axes - 1), .inner = 1, .scalar_count = 1, .output_count = 1};
    box->scalars = scalar;
    end_kernel(&n, add_instr(kernel, BTI_OP_const, out->dtype, 0), kernel, box);
}

static void write_iota(const bti_operand *out, bti_kernel *kernel, bti_box *box) {
    *kernel = (bti_kernel){.inner = 1, .input_count = 1, .output_count = 1};
    int64_t size = (int64_t)bt_dtype_size(out->dtype), step = out->stride[0] * size;
    int value = add_instr(kernel, BTI_OP_iota, out->dtype, 0);
    kernel->operands[0] = (bti_kernel_operand){.dtype = BT_I64, .moves = 1, .unit = 1, .index = 1};
    kernel->operands[1] = (bti_kernel_operand){
        .dtype = (uint8_t)out->dtype, .moves = step != 0, .unit = step == size, .value = (uint16_t)value};
    bti_kernel_set_stages(kernel);
    box->extent[0] = out->shape[0];
    box->address[0] = 0;
    box->stride[0][0] = 1;
    box->address[1] = out->address;
    box->stride[1][0] = step;
}

/* --- reductions ----------------------------------------------------------------------------------------------------- */

static uint64_t start_of(bti_op op, bt_dtype dtype) {
    int bits = bti_dtype_bits(dtype);
    bool is_max = op == BTI_OP_max;
    if (op == BTI_OP_sum || op == BTI_OP_prod) {
        if (bti_dtype_is_float(dtype)) return bti_f64_bits(op == BTI_OP_prod);
        return op == BTI_OP_prod;
    }
    if (bti_dtype_is_float(dtype)) return bti_f64_bits(is_max ? -__builtin_inf() : __builtin_inf());
    if (dtype == BT_BOOL) return !is_max;
    if (!bti_dtype_is_signed(dtype)) return is_max ? 0 : UINT64_MAX >> (64 - bits);
    uint64_t greatest = UINT64_MAX >> (65 - bits);
    return is_max ? ~greatest : greatest;
}

/* Kept axes first, then the reduced ones: rows. */
static void write_reduction(const bti_work *work, bti_kernel *kernel, bti_box *box) {
    const bti_operand *in = work->inputs, *out = &work->output;
    nest n = {.operand_count = 2, .operand = {in, out}, .address = {in->address, out->address}};
    int kept = 0;
    for (uint32_t reduced = 0; reduced < 2; reduced++) {
        for (int axis = 0; axis < in->rank; axis++) {
            if ((work->attr->fold.axes >> axis & 1) != reduced) continue;
            n.extent[n.axes] = in->shape[axis];
            n.stride[0][n.axes] = in->stride[axis] * (int64_t)bt_dtype_size(in->dtype);
            n.stride[1][n.axes] = reduced ? 0 : out->stride[axis] * (int64_t)bt_dtype_size(out->dtype);
            n.axes++;
        }
        if (!reduced) kept = n.axes;
    }
    kept = collapse_nest(&n, 0, kept);
    if (!collapse_nest(&n, kept, n.axes)) add_axis(&n);
    *kernel = (bti_kernel){.outer = (uint8_t)kept, .reduced = (uint8_t)(n.axes - kept)};
    add_inputs(&n, kernel);
    end_kernel(&n, add_instr(kernel, work->op, out->dtype, 0), kernel, box);
}

static bool is_empty(const bti_operand *operand) {
    for (int axis = 0; axis < operand->rank; axis++)
        if (!operand->shape[axis]) return true;
    return false;
}

bool bti_kernel_of_work(const bti_work *work, bti_kernel *kernel, bti_box *box, uint64_t *scalar) {
    nest n;
    switch (bti_op_info(work->op)->class) {
    case BTI_SOURCE:
        if (work->op == BTI_OP_iota) return write_iota(&work->output, kernel, box), true;
        *scalar = work->attr->constant.bits;
        return write_fill(&work->output, scalar, kernel, box), true;
    case BTI_MOVEMENT:
    case BTI_EFFECT:
        if (!begin_copy(&n, work->inputs, &work->output)) return false;
        return write_map(&n, BTI_OP_copy, 0, kernel, box), true;
    case BTI_ELEMENTWISE:
        begin_nest(&n, &work->output);
        for (int i = 0; i < work->input_count; i++) add_nest_operand(&n, &work->inputs[i]);
        add_nest_operand(&n, &work->output);
        return write_map(&n, work->op, work->op == BTI_OP_threefry ? work->attr->word.index : 0, kernel, box), true;
    case BTI_REDUCE:
        *scalar = start_of(work->op, work->output.dtype);
        if (is_empty(work->inputs)) return write_fill(&work->output, scalar, kernel, box), true;
        return write_reduction(work, kernel, box), true;
    default: return false;
    }
}
