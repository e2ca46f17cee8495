#include "drivers/sim/sim_estimate.h"

#include <math.h>

#include "base/flags.h"
#include "ir/dtype.h"
#include "launch/entry.h"

enum {
    WARP = 32,
    LANES_OF_UNIT = 128,   /* threads whose instructions a multiprocessor begins in a clock */
    BYTES_OF_UNIT = 64,    /* that it takes from the cache in a clock */
    WARPS_OF_GROUP = 8,    /* so that few warps leave multiprocessors idle */
    WARPS_TO_FILL = 16,    /* for each multiprocessor: with fewer rows than that, rows are cut into parts */
    LOADS_AHEAD = 4,       /* of a thread that goes along a row, before it waits */
    TILE = 128,            /* sides of the tile of a product that a multiprocessor computes */
    LEAST_INNER = 256,     /* of a product whose few tiles are split along the inner axis */
    DIGIT = 8,             /* bits of a key that a pass of a sort goes by */
    SORTED_IN_GROUP = 4096 /* elements of a line that a group sorts by itself */
};

/* --- instructions ------------------------------------------------------------------------------------------------------- */

/* Of a thread, for one element: about as many as the text's are compiled to, counted by the emulated GPU (bench/results/emulated.md). */
static double instructions_of(bti_op op) {
    switch (op) {
    case BTI_OP_const: return 0;
    case BTI_OP_iota: return 4;
    case BTI_OP_take: return 8;
    case BTI_OP_exp:
    case BTI_OP_exp2: return 10;
    case BTI_OP_div:
    case BTI_OP_sqrt:
    case BTI_OP_rsqrt: return 10;
    case BTI_OP_log:
    case BTI_OP_log2:
    case BTI_OP_log10: return 20;
    case BTI_OP_expm1:
    case BTI_OP_log1p:
    case BTI_OP_tanh:
    case BTI_OP_sigmoid:
    case BTI_OP_atan:
    case BTI_OP_asin:
    case BTI_OP_acos:
    case BTI_OP_sinh:
    case BTI_OP_cosh:
    case BTI_OP_erf: return 25;
    case BTI_OP_floor_div:
    case BTI_OP_mod:
    case BTI_OP_sin:
    case BTI_OP_cos:
    case BTI_OP_tan:
    case BTI_OP_atan2:
    case BTI_OP_erfc:
    case BTI_OP_erfinv: return 40;
    case BTI_OP_pow: return 50;
    case BTI_OP_threefry:
    case BTI_OP_random_word: return 85;
    default: return 1;
    }
}

static bool is_wide(bt_dtype dtype) { return dtype == BT_F64 || dtype == BT_I64 || dtype == BT_U64; }

/* Adds an instruction for so many points. */
static void count_instr(bti_sim_demand *d, const bti_kernel *kernel, const bti_instr *instr, double points) {
    bt_dtype dtype = (bt_dtype)instr->dtype;
    if (instr->op == BTI_OP_leaf) { /* 16 bytes at once where elements are side by side */
        const bti_kernel_operand *operand = &kernel->operands[instr->arg[0]];
        double each = operand->unit ? (double)bt_dtype_size(dtype) / 8 : operand->moves ? 3 : 0;
        d->instructions += points * each;
        return;
    }
    bool other_word = instr->op == BTI_OP_threefry && instr->again; /* of the same block of random bits */
    double count = points * (other_word ? 2 : instructions_of((bti_op)instr->op));
    if (bti_instr_reduces(instr) && (instr->op == BTI_OP_sum || instr->op == BTI_OP_prod) &&
        bti_dtype_is_float(dtype)) {
        d->instructions += 2 * count; /* converted, then added, in float64 */
        d->doubles += 2 * count;
        return;
    }
    d->instructions += is_wide(dtype) && dtype != BT_F64 ? 2 * count : count;
    if (dtype == BT_F64) d->doubles += count;
    if (dtype == BT_F16 || dtype == BT_BF16) d->instructions += points; /* rounded */
}

/* --- fused kernels -------------------------------------------------------------------------------------------------------- */

/* Bytes of a sector by those of an element, where no axis has elements side by side. */
static double spread(const bti_kernel_operand *operand, const int64_t *stride, const bti_box *box, int axes) {
    int64_t size = (int64_t)bt_dtype_size((bt_dtype)operand->dtype), least = 0;
    for (int axis = 0; axis < axes; axis++) {
        int64_t step = stride[axis] < 0 ? -stride[axis] : stride[axis];
        if (operand->moves >> axis & 1 && box->extent[axis] > 1 && (!least || step < least)) least = step;
    }
    if (operand->taken && !operand->unit) return 32 / (double)size; /* rows lie apart */
    return least <= size ? 1 : fmin(32, (double)least) / (double)size;
}

static void count_operands(bti_sim_demand *d, const bti_kernel *kernel, int made, const bti_box *box, double points) {
    int axes = bti_kernel_axes(kernel);
    for (int o = 0; o < bti_kernel_operands(kernel); o++) {
        const bti_kernel_operand *operand = &kernel->operands[o];
        if (operand->index || o == made) continue;
        double bytes =
            (double)bti_kernel_operand_bytes(kernel, o, box->extent) * spread(operand, box->stride[o], box, axes);
        d->bytes += bytes;
        /* A group of 32 x 128 points or so reads what does not move once. */
        d->asked += bytes + (o < kernel->input_count && operand->moves && operand->moves != bti_kernel_all_axes(kernel)
                                 ? points * (double)bt_dtype_size((bt_dtype)operand->dtype) / WARP
                                 : 0);
        if (o < kernel->input_count) continue;
        double stored = bytes / (double)bt_dtype_size((bt_dtype)operand->dtype);
        d->instructions += stored * (operand->unit ? (double)bt_dtype_size((bt_dtype)operand->dtype) / 8 : 3);
    }
}

/* What is loaded again in a later sweep comes from local memory if the row has room there, else from the cache. */
static void count_sweeps(bti_sim_demand *d, const bti_kernel *kernel, const bti_box *box, double points, double rows) {
    int sweeps = bti_kernel_sweeps(kernel);
    bool needed[BTI_KERNEL_INSTRS];
    size_t row = sweeps > 1 && bti_entry_exists(kernel, BTI_ENTRY_KEPT) ? bti_entry_local(kernel, box) : 0;
    bool kept = row && row <= 48 << 10;
    for (int sweep = 0; sweep < sweeps; sweep++) {
        bti_kernel_needs(kernel, sweep, -1, needed);
        for (int i = 0; i < kernel->instr_count; i++) {
            const bti_instr *instr = &kernel->instrs[i];
            bool folds = bti_instr_reduces(instr);
            if (folds ? instr->stage != sweep + 1 : !needed[i]) continue;
            double count = instr->level == BTI_POINT || folds ? points : rows;
            count_instr(d, kernel, instr, count);
            if (sweep && instr->op == BTI_OP_leaf && instr->level == BTI_POINT && !kept)
                d->asked += (double)bti_kernel_operand_bytes(kernel, instr->arg[0], box->extent);
        }
    }
}

static double ceiling(double value, double by) { return fmax(1, ceil(value / by)); }

/* How a reduction is cut over warps, as launch/gpu_kernel.c does it. */
static void cut_reduction(bti_sim_demand *d, const bti_kernel *kernel, const bti_box *box, double units, double points,
                          double rows) {
    double chunks = (double)bti_entry_sets(kernel, box, bti_entry_chunk(kernel, BTI_CUDA_C, box)), row = points / rows;
    bool in_parts = bti_entry_exists(kernel, BTI_ENTRY_PART) && chunks > 1 &&
                    (kernel->inner || rows < units * WARPS_TO_FILL || bti_entry_has_long_rows(kernel, box));
    double threads = kernel->inner ? 1 : WARP; /* of a kept point */
    if (in_parts) {
        double parts = 8 * chunks * rows * bti_entry_reductions(kernel);
        d->kernels++;
        d->bytes += 2 * parts;
        d->asked += 2 * parts;
        d->warps = ceiling(rows * chunks * threads, WARP);
        d->waits = d->warps * ceiling(row / chunks, threads * LOADS_AHEAD) + ceiling(rows * WARP, WARP);
    } else {
        d->warps = ceiling(rows * threads, WARP);
        d->waits = d->warps * ceiling(row, threads * LOADS_AHEAD * (kernel->inner ? 1 : 4));
    }
}

bti_sim_demand bti_sim_demand_of_kernel(const bti_kernel *kernel, int made, const bti_box *box, double units) {
    bti_sim_demand d = {.kernels = 1};
    int axes = bti_kernel_axes(kernel);
    double points = (double)bti_box_points(box, 0, axes), rows = points;
    for (int axis = kernel->outer; axis < kernel->outer + kernel->reduced; axis++) rows /= (double)box->extent[axis];
    count_operands(&d, kernel, made, box, points);
    count_sweeps(&d, kernel, box, points, rows);
    if (kernel->reduced) {
        cut_reduction(&d, kernel, box, units, points, rows);
        return d;
    }
    double width = bti_entry_exists(kernel, BTI_ENTRY_WIDE) ? bti_entry_width(kernel) : 1;
    d.instructions += points * 8 / width; /* where a thread's points are */
    d.warps = ceiling(points, WARP * width);
    d.waits = kernel->input_count ? d.warps : 0;
    return d;
}

/* --- primitives ------------------------------------------------------------------------------------------------------------ */

static double elements_of(const bti_operand *operand) {
    double count = 1;
    for (int axis = 0; axis < operand->rank; axis++) count *= (double)operand->shape[axis];
    return count;
}

/* In memory: an axis that stands still counts once. */
static double bytes_of(const bti_operand *operand) {
    double bytes = (double)bt_dtype_size(operand->dtype);
    for (int axis = 0; axis < operand->rank; axis++)
        if (operand->stride[axis]) bytes *= (double)operand->shape[axis];
    return bytes;
}

bti_sim_demand bti_sim_demand_of_move(double read_bytes, double written_bytes) {
    double bytes = read_bytes + written_bytes, warps = ceiling(written_bytes, 16 * WARP);
    return (bti_sim_demand){.kernels = 1,
                            .bytes = bytes,
                            .asked = bytes,
                            .instructions = bytes / 4 * 6,
                            .warps = warps,
                            .waits = read_bytes > 0 ? warps : 0};
}

static bti_sim_rate rate_of(bt_dtype dtype, int precision) {
    switch (dtype) {
    case BT_F64: return BTI_SIM_F64;
    case BT_F16:
    case BT_BF16: return BTI_SIM_BF16;
    case BT_F32:
        return precision == BTI_MATMUL_TF32 ? BTI_SIM_TF32 : precision == BTI_MATMUL_BF16 ? BTI_SIM_BF16 : BTI_SIM_F32;
    default: return BTI_SIM_NO_LIBRARY;
    }
}

bti_sim_demand bti_sim_demand_of_product(const bti_work *work, int precision, bool written) {
    const bti_operand *left = &work->inputs[0], *out = &work->output;
    double rows = (double)out->shape[out->rank - 2], columns = (double)out->shape[out->rank - 1];
    double inner = (double)left->shape[left->rank - 1], products = elements_of(out) / fmax(1, rows * columns);
    bti_sim_demand d = {.kernels = 1, .rate = rate_of(out->dtype, precision)};
    d.bytes = d.asked = bytes_of(left) + bytes_of(&work->inputs[1]) + (written ? bytes_of(out) : 0);
    d.operations = 2 * elements_of(out) * inner;
    d.tiles = products * ceiling(rows, TILE) * ceiling(columns, TILE) * ceiling(inner, LEAST_INNER);
    return d;
}

static double length_of_axis(const bti_work *work, const bti_operand *operand) {
    int axis = work->attr ? bti_attr_axis(work->op, work->attr) : 0;
    return axis < operand->rank ? (double)operand->shape[axis] : 1;
}

/* A pass counts digits, sums the counts and moves what it sorts, and waits for what it reads of each; lines that a group sorts by itself need one kernel, and one that unpacks. */
static bti_sim_demand demand_of_sort(double elements, double line, double key_bytes) {
    bool in_group = line <= SORTED_IN_GROUP;
    double passes = in_group ? 1 : ceiling(key_bytes * 8, DIGIT), moved = elements * (key_bytes + 4) * 2;
    return (bti_sim_demand){.kernels = in_group ? 2 : 1 + 3 * passes,
                            .bytes = passes * moved,
                            .asked = passes * (moved + elements * key_bytes),
                            .instructions = elements * (in_group ? 480 : 140 * passes),
                            .warps = ceiling(elements, WARP),
                            .waits = 4 * passes * ceiling(elements, WARP)};
}

/* The indices are sorted, then rows that meet are added in pieces, an element by a thread, which waits for the index, the row and the sum. */
static bti_sim_demand demand_of_scatter(const bti_work *work) {
    double indices = elements_of(&work->inputs[1]), added = elements_of(&work->inputs[2]);
    bti_sim_demand d = demand_of_sort(indices, fmax(indices, SORTED_IN_GROUP + 1), 4);
    bti_sim_demand copy = bti_sim_demand_of_move(bytes_of(&work->inputs[0]), bytes_of(&work->output));
    bti_sim_demand add = bti_sim_demand_of_move(bytes_of(&work->inputs[2]), 2 * bytes_of(&work->inputs[2]));
    bti_sim_demand_add(&d, &copy);
    add.instructions = 120 * added;
    add.waits = 3 * ceiling(added, WARP);
    bti_sim_demand_add(&d, &add);
    d.kernels += 2;
    return d;
}

/* Results and what they are made of, moved once, with so many instructions for each element that is read. */
static bti_sim_demand demand_of_moved(const bti_work *work, double read_bytes, double elements, double instructions) {
    bti_sim_demand d = bti_sim_demand_of_move(read_bytes, bytes_of(&work->output));
    d.instructions = elements * instructions;
    d.warps = d.waits = ceiling(elements, WARP * 4);
    return d;
}

static bti_sim_demand demand_of_cumsum(const bti_work *work) {
    double bytes = bytes_of(&work->inputs[0]), elements = elements_of(&work->output);
    bool short_lines = length_of_axis(work, &work->output) <= SORTED_IN_GROUP;
    bti_sim_demand d = demand_of_moved(work, short_lines ? bytes : 2 * bytes, elements, 70);
    d.kernels = short_lines ? 1 : 3;
    return d;
}

bti_sim_demand bti_sim_demand_of_work(const bti_work *work, double units, int precision) {
    const bti_operand *out = &work->output;
    double read = 0;
    for (int i = 0; i < work->input_count; i++) read += bytes_of(&work->inputs[i]);
    switch (work->op) {
    case BTI_OP_matmul: return bti_sim_demand_of_product(work, precision, true);
    case BTI_OP_take:
    case BTI_OP_gather_axis: { /* of x only the rows that are taken */
        double indices = bytes_of(&work->inputs[1]);
        return demand_of_moved(work, indices + bytes_of(out), elements_of(out), 12);
    }
    case BTI_OP_sort:
    case BTI_OP_top_k:
        return demand_of_sort(elements_of(&work->inputs[0]), length_of_axis(work, &work->inputs[0]),
                              (double)bt_dtype_size(work->inputs[0].dtype));
    case BTI_OP_scatter_add:
    case BTI_OP_scatter_axis: return demand_of_scatter(work);
    case BTI_OP_cumsum: return demand_of_cumsum(work);
    default: break;
    }
    bti_kernel kernel;
    bti_box box;
    uint64_t scalar;
    if (bti_kernel_of_work(work, &kernel, &box, &scalar)) return bti_sim_demand_of_kernel(&kernel, -1, &box, units);
    return bti_sim_demand_of_move(read, bytes_of(out));
}

/* --- time ---------------------------------------------------------------------------------------------------------------- */

void bti_sim_demand_add(bti_sim_demand *to, const bti_sim_demand *other) {
    to->bytes += other->bytes;
    to->asked += other->asked;
    to->instructions += other->instructions;
    to->doubles += other->doubles;
    to->warps += other->warps;
    to->waits += other->waits;
}

static double seconds_of_product(const bti_sim_model *model, const bti_sim_demand *d) {
    const double rates[] = {[BTI_SIM_F64] = model->f64,
                            [BTI_SIM_F32] = model->f32,
                            [BTI_SIM_TF32] = model->tf32,
                            [BTI_SIM_BF16] = model->bf16,
                            [BTI_SIM_NO_LIBRARY] = model->f32 / 4};
    if (d->operations <= 0) return 0;
    double waves = ceil(d->tiles / model->units), full = d->tiles / (waves * model->units);
    return d->operations / (rates[d->rate] * 1e12 * full);
}

double bti_sim_nanoseconds(const bti_sim_model *model, const bti_sim_demand *d) {
    double busy = fmax(1, fmin(model->units, ceil(d->warps / WARPS_OF_GROUP))), hertz = model->clock * 1e9;
    double at_once = fmax(1, fmin(d->warps, model->units * model->warps));
    double issued = d->instructions + d->doubles * (model->f64_slowdown - 1);
    double seconds = d->bytes / (model->bandwidth * 1e9);
    if (d->operations <= 0) seconds = fmax(seconds, d->asked / (busy * BYTES_OF_UNIT * hertz));
    seconds = fmax(seconds, d->asked / (model->cache_bandwidth * 1e9));
    seconds = fmax(seconds, issued / (busy * LANES_OF_UNIT * hertz));
    seconds = fmax(seconds, d->waits * model->load_ns * 1e-9 / at_once);
    seconds = fmax(seconds, seconds_of_product(model, d));
    return d->kernels * model->start_ns + seconds * 1e9;
}
