/* What launches ask of a card, as launch/gpu_kernel.c and launch/gpu_work.c make them. */
#include "drivers/sim/sim_card.h"

#include <math.h>

#include "launch/entry.h"
#include "reference/attention.h"
#include "reference/conv.h"

enum {
    SECTOR = 32, /* bytes */
    WARP = 32,
    WARPS_TO_FILL = 16,    /* for each multiprocessor: with fewer rows than that, rows are cut into parts */
    LOADS_AHEAD = 4,       /* of a thread that goes along a row, before it waits */
    TILE = 128,            /* sides of the tile of a product that a multiprocessor computes */
    LEAST_INNER = 256,     /* of a product whose few tiles are split along the inner axis */
    DIGIT = 8,             /* bits of a key that a pass of a sort goes by */
    SORTED_IN_GROUP = 4096 /* elements of a line that a group sorts by itself */
};

/* --- fused kernels -------------------------------------------------------------------------------------------------------- */

static void count_operands(bti_sim_demand *d, const bti_sim_nest *nest, int made) {
    const bti_kernel *kernel = nest->kernel;
    for (int o = 0; o < bti_kernel_operands(kernel); o++) {
        const bti_kernel_operand *operand = &kernel->operands[o];
        if (operand->index || o == made) continue;
        double bytes = bti_sim_operand_bytes(nest, o, SECTOR), size = (double)bt_dtype_size((bt_dtype)operand->dtype);
        d->bytes += bytes;
        /* A group of 32 x 128 points or so reads what does not move once. */
        d->asked += bytes + (o < kernel->input_count && operand->moves && operand->moves != bti_kernel_all_axes(kernel)
                                 ? nest->points * size / WARP
                                 : 0);
        if (o < kernel->input_count) continue;
        d->written += bytes;
        d->instructions += bytes / size * (operand->unit ? size / 8 : 3);
    }
}

/* How a reduction is cut over warps, as launch/gpu_kernel.c does it. */
static void cut_reduction(bti_sim_demand *d, const bti_sim_nest *nest, double units) {
    const bti_kernel *kernel = nest->kernel;
    const bti_box *box = nest->box;
    double points = nest->points, rows = nest->rows;
    double chunks = (double)bti_entry_sets(kernel, box, bti_entry_chunk(kernel, BTI_CUDA_C, box)), row = points / rows;
    bool in_parts = bti_entry_exists(kernel, BTI_ENTRY_PART) && chunks > 1 &&
                    (kernel->inner || rows < units * WARPS_TO_FILL || bti_entry_has_long_rows(kernel, box));
    double threads = kernel->inner ? 1 : WARP; /* of a kept point */
    if (in_parts) {
        double parts = 8 * chunks * rows * bti_entry_reductions(kernel);
        d->kernels++;
        d->bytes += 2 * parts;
        d->asked += 2 * parts;
        d->warps = bti_sim_ceiling(rows * chunks * threads, WARP);
        d->waits = d->warps * bti_sim_ceiling(row / chunks, threads * LOADS_AHEAD) + bti_sim_ceiling(rows * WARP, WARP);
    } else {
        d->warps = bti_sim_ceiling(rows * threads, WARP);
        d->waits = d->warps * bti_sim_ceiling(row, threads * LOADS_AHEAD * (kernel->inner ? 1 : 4));
    }
}

bti_sim_demand bti_sim_card_kernel(const bti_sim_model *model, const bti_kernel *kernel, int made, const bti_box *box) {
    bti_sim_demand d = {.kernels = 1};
    bti_sim_nest nest = bti_sim_nest_of(kernel, box);
    double again;
    count_operands(&d, &nest, made);
    bti_sim_count_sweeps(&d, model, &nest, &again);
    d.asked += again;
    if (kernel->reduced) {
        cut_reduction(&d, &nest, model->units);
        return d;
    }
    double width = bti_entry_exists(kernel, BTI_ENTRY_WIDE) ? bti_entry_width(kernel) : 1;
    d.instructions += nest.points * 8 / width; /* where a thread's points are */
    d.warps = bti_sim_ceiling(nest.points, WARP * width);
    d.waits = kernel->input_count ? d.warps : 0;
    return d;
}

/* --- primitives ------------------------------------------------------------------------------------------------------------ */

bti_sim_demand bti_sim_card_move(double read_bytes, double written_bytes) {
    double bytes = read_bytes + written_bytes, warps = bti_sim_ceiling(written_bytes, 16 * WARP);
    return (bti_sim_demand){.kernels = 1,
                            .bytes = bytes,
                            .written = written_bytes,
                            .asked = bytes,
                            .instructions = bytes / 4 * 6,
                            .warps = warps,
                            .waits = read_bytes > 0 ? warps : 0};
}

bti_sim_demand bti_sim_card_product(const bti_work *work, int precision, bool written) {
    const bti_operand *left = &work->inputs[0], *out = &work->output;
    double rows = (double)out->shape[out->rank - 2], columns = (double)out->shape[out->rank - 1];
    double inner = (double)left->shape[left->rank - 1], elements = bti_sim_elements_of(out);
    bti_sim_demand d = {.kernels = 1, .rate = bti_sim_rate_of(out->dtype, precision)};
    d.written = written ? bti_sim_bytes_of(out) : 0;
    d.bytes = d.asked = bti_sim_bytes_of(left) + bti_sim_bytes_of(&work->inputs[1]) + d.written;
    d.operations = 2 * elements * inner;
    d.tiles = elements / fmax(1, rows * columns) * bti_sim_ceiling(rows, TILE) * bti_sim_ceiling(columns, TILE) *
              bti_sim_ceiling(inner, LEAST_INNER);
    return d;
}

/* By our own text, which knows no tensor cores. */
static bti_sim_demand demand_of_conv(const bti_work *work) {
    bti_conv c = bti_conv_of(work);
    bti_conv_product p = bti_conv_product_of(&c);
    double rows = (double)p.rows, columns = (double)p.columns, depth = (double)p.depth, groups = (double)c.groups;
    bti_sim_demand d = {.kernels = 1, .rate = work->output.dtype == BT_F64 ? BTI_SIM_F64 : BTI_SIM_F32};
    d.written = bti_sim_bytes_of(&work->output);
    d.bytes = d.asked = bti_sim_bytes_of(&work->inputs[0]) + bti_sim_bytes_of(&work->inputs[1]) + d.written;
    d.operations = 2 * groups * rows * columns * depth;
    d.tiles =
        groups * bti_sim_ceiling(rows, TILE) * bti_sim_ceiling(columns, TILE) * bti_sim_ceiling(depth, LEAST_INNER);
    return d;
}

/* By our own text: two products of queries and keys, of gradients seven, of which what lies beyond the last key of a causal query is half. */
static bti_sim_demand demand_of_attention(const bti_work *work) {
    bti_attention a = bti_attention_of(work);
    double products = a.is_gradient ? 7 : 2, heads = (double)a.batch * (double)a.heads;
    bti_sim_demand d = {.kernels = a.is_gradient ? 3 : 1, .rate = a.in[0].dtype == BT_F64 ? BTI_SIM_F64 : BTI_SIM_F32};
    for (int i = 0; i < work->input_count; i++) d.bytes += bti_sim_bytes_of(&work->inputs[i]);
    for (int i = 0; i < 3; i++) d.written += bti_sim_bytes_of(&a.made[i]);
    d.bytes += d.written, d.asked = d.bytes;
    d.operations = products * 2 * heads * (double)a.rows * (double)a.keys * (double)a.depth;
    if (a.reads != BTI_READS_ALL && a.rows > 1) d.operations /= 2;
    d.tiles = products * heads * bti_sim_ceiling((double)a.rows, TILE) * bti_sim_ceiling((double)a.keys, TILE) *
              bti_sim_ceiling((double)a.depth, LEAST_INNER);
    return d;
}

/* A pass counts digits, sums the counts and moves what it sorts, and waits for what it reads of each; lines that a group sorts by itself need one kernel, and one that unpacks. */
static bti_sim_demand demand_of_sort(double elements, double line, double key_bytes) {
    bool in_group = line <= SORTED_IN_GROUP;
    double passes = in_group ? 1 : bti_sim_ceiling(key_bytes * 8, DIGIT), moved = elements * (key_bytes + 4) * 2;
    return (bti_sim_demand){.kernels = in_group ? 2 : 1 + 3 * passes,
                            .bytes = passes * moved,
                            .asked = passes * (moved + elements * key_bytes),
                            .instructions = elements * (in_group ? 480 : 140 * passes),
                            .warps = bti_sim_ceiling(elements, WARP),
                            .waits = 4 * passes * bti_sim_ceiling(elements, WARP)};
}

/* The indices are sorted, then rows that meet are added in pieces, an element by a thread, which waits for the index, the row and the sum. */
static bti_sim_demand demand_of_scatter(const bti_work *work) {
    double indices = bti_sim_elements_of(&work->inputs[1]), added = bti_sim_elements_of(&work->inputs[2]);
    bti_sim_demand d = demand_of_sort(indices, fmax(indices, SORTED_IN_GROUP + 1), 4);
    bti_sim_demand copy = bti_sim_card_move(bti_sim_bytes_of(&work->inputs[0]), bti_sim_bytes_of(&work->output));
    bti_sim_demand add = bti_sim_card_move(bti_sim_bytes_of(&work->inputs[2]), 2 * bti_sim_bytes_of(&work->inputs[2]));
    bti_sim_demand_add(&d, &copy);
    add.instructions = 120 * added;
    add.waits = 3 * bti_sim_ceiling(added, WARP);
    bti_sim_demand_add(&d, &add);
    d.kernels += 2;
    return d;
}

/* Results and what they are made of, moved once, with so many instructions for each element that is read. */
static bti_sim_demand demand_of_moved(const bti_work *work, double read_bytes, double elements, double instructions) {
    bti_sim_demand d = bti_sim_card_move(read_bytes, bti_sim_bytes_of(&work->output));
    d.instructions = elements * instructions;
    d.warps = d.waits = bti_sim_ceiling(elements, WARP * 4);
    return d;
}

static bti_sim_demand demand_of_cumsum(const bti_work *work) {
    double bytes = bti_sim_bytes_of(&work->inputs[0]), elements = bti_sim_elements_of(&work->output);
    bool short_lines = bti_sim_length_of_axis(work, &work->output) <= SORTED_IN_GROUP;
    bti_sim_demand d = demand_of_moved(work, short_lines ? bytes : 2 * bytes, elements, 70);
    d.kernels = short_lines ? 1 : 3;
    return d;
}

bti_sim_demand bti_sim_card_work(const bti_sim_model *model, const bti_work *work, int precision) {
    const bti_operand *out = &work->output;
    double read = 0;
    for (int i = 0; i < work->input_count; i++) read += bti_sim_bytes_of(&work->inputs[i]);
    switch (work->op) {
    case BTI_OP_matmul: return bti_sim_card_product(work, precision, true);
    case BTI_OP_conv:
    case BTI_OP_conv_data:
    case BTI_OP_conv_weights: return demand_of_conv(work);
    case BTI_OP_attention:
    case BTI_OP_attention_gradient: return demand_of_attention(work);
    case BTI_OP_take:
    case BTI_OP_gather_axis: { /* of x only the rows that are taken */
        double indices = bti_sim_bytes_of(&work->inputs[1]);
        return demand_of_moved(work, indices + bti_sim_bytes_of(out), bti_sim_elements_of(out), 12);
    }
    case BTI_OP_sort:
    case BTI_OP_top_k:
        return demand_of_sort(bti_sim_elements_of(&work->inputs[0]), bti_sim_length_of_axis(work, &work->inputs[0]),
                              (double)bt_dtype_size(work->inputs[0].dtype));
    case BTI_OP_scatter_add:
    case BTI_OP_scatter_axis:
    case BTI_OP_scatter_set:
    case BTI_OP_scatter_max:
    case BTI_OP_scatter_min: return demand_of_scatter(work);
    case BTI_OP_cumsum:
    case BTI_OP_cumprod:
    case BTI_OP_cummax:
    case BTI_OP_cummin: return demand_of_cumsum(work);
    default: break;
    }
    bti_kernel kernel;
    bti_box box;
    uint64_t scalar;
    if (bti_kernel_of_work(work, &kernel, &box, &scalar)) return bti_sim_card_kernel(model, &kernel, -1, &box);
    return bti_sim_card_move(read, bti_sim_bytes_of(out));
}
