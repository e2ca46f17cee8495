/* What launches ask of cores, as drivers/cpu/ makes them. */
#include "drivers/sim/sim_cores.h"

#include <math.h>

#include "drivers/cpu/copy.h"
#include "drivers/cpu/launch.h"
#include "ir/dtype.h"
#include "launch/entry.h"
#include "reference/attention.h"
#include "reference/conv.h"

enum {
    LINE = 64,                    /* bytes of a line of the caches */
    NEAR_BYTES = 256 << 10,       /* in a core's own cache: what is gone over again there costs loads alone */
    PIECE_INSTRUCTIONS = 1 << 20, /* that are worth a core; of products, multiplications (cpu/launch.c, product.c) */
    PIECE_BYTES = 128 << 10,      /* of a copy (cpu/copy.h) */
    OWN_PRODUCT = 16384,          /* multiplications: no library is called for fewer */
    TILE_ROWS = 4,                /* of a library's product in registers; what is short of them is computed too */
    TILE_COLUMNS = 8,
    FORESEEN = 4,     /* elements apart by the same step, of which so many are waited for as if they were one */
    MOST_PASSES = 5,  /* of wide keys the upper bytes are sorted by, and little is left to do */
    SORT_LINE = 1024, /* elements of a line that a network sorts; of longer ones each byte of a key is a pass */
    EXCHANGE = 3      /* instructions of an element in a stage of the network: half of 2 loads, 2 stores, min and max */
};

/* Clocks of a core, for an element of... */
enum {
    INTERPRETED_CLOCKS = 110,     /* what the interpreter moves, or adds to another (reference/gather.c) */
    INTERPRETED_ROW_CLOCKS = 280, /* a row, or a part of one, that it adds to another: for the row */
    SUMMED_CLOCKS = 4,            /* a running sum: the addition's latency */
    LINE_CLOCKS = 40,             /* a line that is gone along, however short: for the line */
    PASS_CLOCKS = 6,              /* a pass of a sort: its digit is counted, and it is moved */
    KEY_CLOCKS = 4                /* what is made a key, or the other way round */
};

/* --- fused kernels -------------------------------------------------------------------------------------------------------- */

/* Whether an output is in the place of an input, whose lines are read anyway. */
static bool is_in_place(const bti_kernel *kernel, const bti_box *box, int output) {
    for (int i = 0; i < kernel->input_count; i++)
        if (!kernel->operands[i].index && box->address[i] == box->address[output]) return true;
    return false;
}

/* Of an operand that rows are taken from: what lies side by side of a row. */
static double row_bytes(const bti_sim_nest *nest, int operand) {
    bool unit = nest->kernel->operands[operand].unit;
    int64_t size = (int64_t)bt_dtype_size((bt_dtype)nest->kernel->operands[operand].dtype);
    return (double)(unit ? size * nest->box->extent[bti_kernel_line(nest->kernel)] : size);
}

/* A line that is written is read first, and later given back, unless it bypasses the caches; each of them is work for the last cache. */
static void count_written(bti_sim_demand *d, double bytes, bool in_place) {
    if (!in_place) d->bytes += bytes;
    d->asked += (in_place ? 1 : 2) * bytes;
}

static void count_operands(bti_sim_demand *d, const bti_sim_nest *nest) {
    const bti_kernel *kernel = nest->kernel;
    bool streams = bti_launch_streams(kernel, nest->box);
    for (int o = 0; o < bti_kernel_operands(kernel); o++) {
        const bti_kernel_operand *operand = &kernel->operands[o];
        if (operand->index) continue;
        double bytes = bti_sim_operand_bytes(nest, o, LINE);
        d->bytes += bytes;
        d->asked += bytes;
        if (operand->taken)
            d->waits += bytes / fmax(LINE, row_bytes(nest, o)); /* nothing foresees a row, but its lines follow */
        if (o < kernel->input_count) continue;
        d->written += bytes;
        d->instructions += bytes / 4;
        if (streams)
            d->streamed += bytes;
        else
            count_written(d, bytes, is_in_place(kernel, nest->box, o));
    }
    if (d->bytes <= NEAR_BYTES) d->asked = 0;
}

/* Cores that have a piece each, of which each waits for some loads at once. */
static double warps_of(const bti_sim_model *model, double pieces) { return fmax(1, floor(pieces)) * model->warps; }

bti_sim_demand bti_sim_cores_kernel(const bti_sim_model *model, const bti_kernel *kernel, const bti_box *box) {
    bti_sim_demand d = {.kernels = 1};
    bti_sim_nest nest = bti_sim_nest_of(kernel, box);
    double again;
    count_operands(&d, &nest);
    bti_sim_count_sweeps(&d, model, &nest, &again);
    if (again / nest.rows > NEAR_BYTES) d.asked += again;
    d.warps = warps_of(model, nest.points * kernel->instr_count / PIECE_INSTRUCTIONS);
    return d;
}

/* --- moves and products ------------------------------------------------------------------------------------------------------------ */

bti_sim_demand bti_sim_cores_move(const bti_sim_model *model, double read_bytes, double written_bytes) {
    double bytes = read_bytes + written_bytes;
    bti_sim_demand d = {.kernels = 1,
                        .bytes = bytes,
                        .written = written_bytes,
                        .asked = bytes,
                        .instructions = bytes / 4,
                        .warps = warps_of(model, bytes / PIECE_BYTES)};
    count_written(&d, written_bytes, false);
    if (d.bytes <= NEAR_BYTES) d.asked = 0;
    return d;
}

static bti_sim_demand demand_of_product(const bti_sim_model *model, const bti_work *work, int precision) {
    const bti_operand *left = &work->inputs[0], *right = &work->inputs[1], *out = &work->output;
    double rows = (double)out->shape[out->rank - 2], columns = (double)out->shape[out->rank - 1];
    double inner = (double)left->shape[left->rank - 1], products = bti_sim_elements_of(out) / fmax(1, rows * columns);
    double read = bti_sim_bytes_of(left) + bti_sim_bytes_of(right), written = bti_sim_bytes_of(out);
    bti_sim_demand d = bti_sim_cores_move(model, read, written);
    d.rate = bti_sim_rate_of(out->dtype, precision);
    d.operations = 2 * products * rows * columns * inner;
    d.warps = warps_of(model, d.operations / 2 / PIECE_INSTRUCTIONS);
    if (rows * columns * inner <= OWN_PRODUCT || d.rate == BTI_SIM_NO_LIBRARY) {
        d.rate = BTI_SIM_NO_LIBRARY;
        return d;
    }
    d.operations *= TILE_ROWS * bti_sim_ceiling(rows, TILE_ROWS) / rows * TILE_COLUMNS *
                    bti_sim_ceiling(columns, TILE_COLUMNS) / columns;
    d.calls = products;
    return d;
}

/* Images are brought into the library's layout, and out of it; each is a call. */
static bti_sim_demand demand_of_conv(const bti_sim_model *model, const bti_work *work, int precision) {
    bti_conv c = bti_conv_of(work);
    bti_conv_product p = bti_conv_product_of(&c);
    double read = bti_sim_bytes_of(&work->inputs[0]) + bti_sim_bytes_of(&work->inputs[1]);
    bti_sim_demand d = bti_sim_cores_move(model, 2 * read, 2 * bti_sim_bytes_of(&work->output));
    d.rate = bti_sim_rate_of(work->output.dtype, precision);
    d.operations = 2 * (double)c.groups * (double)p.rows * (double)p.columns * (double)p.depth;
    d.warps = warps_of(model, d.operations / 2 / PIECE_INSTRUCTIONS);
    d.calls = d.rate == BTI_SIM_NO_LIBRARY ? 0 : (double)c.images;
    return d;
}

/* Blocks by the library: two products, of gradients five. */
static bti_sim_demand demand_of_attention(const bti_sim_model *model, const bti_work *work, int precision) {
    bti_attention a = bti_attention_of(work);
    double read = 0, made = 0, scores = (double)a.batch * (double)a.heads * (double)a.rows * (double)a.keys;
    for (int i = 0; i < work->input_count; i++) read += bti_sim_bytes_of(&work->inputs[i]);
    for (int i = 0; i < 3; i++) made += bti_sim_bytes_of(&a.made[i]);
    if (a.reads != BTI_READS_ALL && a.rows > 1) scores /= 2;
    bti_sim_demand d = bti_sim_cores_move(model, read, made);
    d.rate = bti_sim_rate_of(a.in[0].dtype, precision);
    d.operations = (a.is_gradient ? 10 : 4) * scores * (double)a.depth;
    d.warps = warps_of(model, d.operations / 2 / PIECE_INSTRUCTIONS);
    return d;
}

/* --- other primitives -------------------------------------------------------------------------------------------------------- */

/* So many clocks for each element, beside what is moved. */
static bti_sim_demand demand_of_moved(const bti_sim_model *model, const bti_work *work, double read_bytes,
                                      double elements, double clocks) {
    bti_sim_demand d = bti_sim_cores_move(model, read_bytes, bti_sim_bytes_of(&work->output));
    d.instructions = elements * clocks * model->lanes;
    return d;
}

static bti_sim_demand demand_of_sort(const bti_sim_model *model, const bti_work *work) {
    const bti_operand *x = &work->inputs[0];
    double elements = bti_sim_elements_of(x), bytes = bti_sim_bytes_of(x), line = bti_sim_length_of_axis(work, x);
    double length = ceil(log2(fmax(2, line))), stages = length * (length + 1) / 2;
    double passes = fmin((double)bt_dtype_size(x->dtype), MOST_PASSES);
    if (work->op == BTI_OP_top_k) return demand_of_moved(model, work, bytes, elements, KEY_CLOCKS);
    bool by_network = line <= SORT_LINE && elements > line;
    bti_sim_demand d =
        demand_of_moved(model, work, bytes, elements, 2 * KEY_CLOCKS + (by_network ? 0 : passes * PASS_CLOCKS));
    if (by_network)
        d.instructions += elements * EXCHANGE * stages;
    else
        d.asked += passes * 3 * bytes;
    return d;
}

/* The step from an element of the axis to the next, of elements that the operation goes along. */
static bool goes_apart(const bti_work *work, const bti_operand *operand) {
    int axis = work->attr ? bti_attr_axis(work->op, work->attr) : 0;
    return axis < operand->rank && operand->stride[axis] != 1;
}

/* Down columns each element is in a line of its own. */
static bti_sim_demand demand_of_cumsum(const bti_sim_model *model, const bti_work *work) {
    double elements = bti_sim_elements_of(&work->output), line = bti_sim_length_of_axis(work, &work->output);
    bti_sim_demand d = demand_of_moved(model, work, bti_sim_bytes_of(&work->inputs[0]), elements, SUMMED_CLOCKS);
    d.instructions += elements / fmax(1, line) * LINE_CLOCKS * model->lanes;
    if (goes_apart(work, &work->output)) d.waits = 2 * elements / FORESEEN;
    return d;
}

/* The interpreter adds rows, or along an axis elements, one after the other. Rows are cut into parts that are worth a core, each of which goes over all indices: where
 * a column of them is that much, each element is a part, whose line nothing foresees and which is waited for before the next one. */
static bti_sim_demand demand_of_scatter(const bti_sim_model *model, const bti_work *work) {
    const bti_operand *added = &work->inputs[2];
    double elements = bti_sim_elements_of(added), indices = bti_sim_elements_of(&work->inputs[1]);
    double read = bti_sim_bytes_of(&work->inputs[0]) + bti_sim_bytes_of(added) + bti_sim_bytes_of(&work->inputs[1]);
    bti_sim_demand d =
        demand_of_moved(model, work, read, elements, bti_op_scatters_along(work->op) ? INTERPRETED_CLOCKS : 1);
    if (bti_op_scatters_along(work->op)) return d;
    double columns = fmax(1, elements / fmax(1, indices)),
           column = fmax(bti_sim_elements_of(&work->output), elements) / columns * 4;
    double parts = fmin(columns, bti_sim_ceiling(columns, (double)bti_copy_grain((int64_t)column)));
    d.waits = indices * parts * model->warps;
    d.later = indices * parts * INTERPRETED_ROW_CLOCKS * model->lanes;
    d.instructions += d.later;
    return d;
}

/* Of x only the rows that are taken, whose lines nothing foresees. */
static bti_sim_demand demand_of_take(const bti_sim_model *model, const bti_work *work) {
    const bti_operand *x = &work->inputs[0], *out = &work->output;
    double elements = bti_sim_elements_of(out), bytes = bti_sim_bytes_of(out),
           indices = bti_sim_bytes_of(&work->inputs[1]);
    double rows = bti_sim_elements_of(&work->inputs[1]);
    bti_sim_demand d = demand_of_moved(model, work, indices + fmin(bytes, bti_sim_bytes_of(x)), 0, 0);
    bool is_take = work->op == BTI_OP_take;
    d.instructions = is_take ? bytes / 2 + rows * LINE_CLOCKS : elements * INTERPRETED_CLOCKS * model->lanes;
    d.waits = is_take ? rows : elements;
    return d;
}

bti_sim_demand bti_sim_cores_work(const bti_sim_model *model, const bti_work *work, int precision) {
    double read = 0;
    bti_kernel kernel;
    bti_box box;
    uint64_t scalar;
    switch (work->op) {
    case BTI_OP_matmul: return demand_of_product(model, work, precision);
    case BTI_OP_conv:
    case BTI_OP_conv_data:
    case BTI_OP_conv_weights: return demand_of_conv(model, work, precision);
    case BTI_OP_attention:
    case BTI_OP_attention_gradient: return demand_of_attention(model, work, precision);
    case BTI_OP_take:
    case BTI_OP_gather_axis: return demand_of_take(model, work);
    case BTI_OP_sort:
    case BTI_OP_top_k: return demand_of_sort(model, work);
    case BTI_OP_scatter_add:
    case BTI_OP_scatter_axis:
    case BTI_OP_scatter_set:
    case BTI_OP_scatter_max:
    case BTI_OP_scatter_min: return demand_of_scatter(model, work);
    case BTI_OP_cumsum:
    case BTI_OP_cumprod:
    case BTI_OP_cummax:
    case BTI_OP_cummin: return demand_of_cumsum(model, work);
    default: break;
    }
    if (bti_kernel_of_work(work, &kernel, &box, &scalar)) return bti_sim_cores_kernel(model, &kernel, &box);
    for (int i = 0; i < work->input_count; i++) read += bti_sim_bytes_of(&work->inputs[i]);
    return bti_sim_cores_move(model, read, bti_sim_bytes_of(&work->output));
}
