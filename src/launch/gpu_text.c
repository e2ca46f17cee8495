/* Primitives with texts of their own (render/c/). The texts take dense arrays [outer][length][inner]; other operands are copied to
 * scratch memory first. */
#include "base/compare.h"
#include "ir/attention.h"
#include "ir/conv.h"
#include "launch/gpu_attention.h"
#include "launch/gpu_conv.h"
#include "launch/gpu_product.h"
#include "launch/gpu_sort.h"
#include "reference/operand.h"

#define ROW_TILE 2048 /* of cumsum: render/c/running.h */
#define COLUMN_CHUNK 128
#define MOST_CHUNKS 1024 /* of a line */
#define SECTOR 32        /* bytes that are read together at least */

/* --- gathers ------------------------------------------------------------------------------------------------------ */

/* The value for an index out of range, repeated over 32 bits, for rows that are copied 16 bytes at a time. Its two halves differ in
 * elements of 8 bytes, unless it is 0. */
static bool missing_value_repeats(bt_dtype dtype, uint64_t *part) {
    size_t size = bt_dtype_size(dtype);
    *part = bti_missing(dtype);
    if (size == 2) *part |= *part << 16;
    return size < 8 || !*part;
}

static bt_status launch_take(bti_gpu_job *j) {
    static const bti_gpu_text_entry plain = {0, "bti_take", BTI_GROUP}, wide = {1, "bti_take_wide", BTI_GROUP};
    const bti_operand *x = &j->input[0], *index = &j->input[1];
    size_t size = bt_dtype_size(x->dtype), row = (size_t)j->inner * size;
    uint64_t part;
    bool is_wide =
        missing_value_repeats(x->dtype, &part) && row % 16 == 0 && (x->address | j->output.address) % 16 == 0;
    int64_t inner = is_wide ? (int64_t)(row / 16) : j->inner, count = index->shape[0], units = j->outer * count * inner;
    BTI_GPU_ADDRESSES(j, j->output.address, bti_gpu_job_input(j, 0), bti_gpu_job_input(j, 1));
    BTI_GPU_NUMBERS(j, units, count, inner, j->length, (int64_t)(is_wide ? part : bti_missing(x->dtype)));
    return bti_gpu_job_launch(j, is_wide ? wide : plain, units);
}

static bt_status launch_gather_axis(bti_gpu_job *j) {
    static const bti_gpu_text_entry gather = {0, "bti_gather", BTI_GROUP};
    int64_t units = bti_operand_count(&j->output);
    BTI_GPU_ADDRESSES(j, j->output.address, bti_gpu_job_input(j, 0), bti_gpu_job_input(j, 1));
    BTI_GPU_NUMBERS(j, units, j->output.shape[j->axis], j->inner, j->length, (int64_t)bti_missing(j->input[0].dtype));
    return bti_gpu_job_launch(j, gather, units);
}

static bt_status launch_update(bti_gpu_job *j) {
    static const bti_gpu_text_entry plain = {0, "bti_update", BTI_GROUP}, wide = {1, "bti_update_wide", BTI_GROUP};
    const bti_operand *update = &j->input[2];
    size_t row = (size_t)j->inner * bt_dtype_size(update->dtype);
    bool is_wide = row % 16 == 0 && (update->address | j->output.address) % 16 == 0;
    int64_t inner = is_wide ? (int64_t)(row / 16) : j->inner, count = update->shape[j->axis];
    BTI_TRY(bti_gpu_job_begin_update(j));
    if (!bti_operand_count(update)) return BT_OK;
    BTI_GPU_ADDRESSES(j, j->output.address, bti_gpu_job_input(j, 1), bti_gpu_job_input(j, 2));
    BTI_GPU_NUMBERS(j, j->outer * count * inner, count, inner, j->length);
    return bti_gpu_job_launch(j, is_wide ? wide : plain, j->outer * count * inner);
}

/* --- running sums ------------------------------------------------------------------------------------------------- */

/* The functions that sum chunks: of rows, by groups or by single threads; of columns. */
typedef struct running_entries {
    bti_gpu_text_entry sums, running;
} running_entries;

static running_entries choose_running_entries(const bti_gpu_job *j, int64_t lanes) {
    if (j->inner > 1) return (running_entries){{3, "bti_column_sums", BTI_GROUP}, {4, "bti_columns", BTI_GROUP}};
    if (j->gpu->is_cpu) return (running_entries){{5, "bti_serial_sums", BTI_GROUP}, {6, "bti_serial_rows", BTI_GROUP}};
    return (running_entries){{0, "bti_sums", 1}, {1, "bti_rows", (int)(BTI_GROUP / lanes)}};
}

/* Sums, offsets, running sums; the last alone where a line is one chunk. All sizes follow from the array's. */
static bt_status launch_cumsum(bti_gpu_job *j) {
    bool rows = j->inner == 1;
    int64_t least = rows ? ROW_TILE : COLUMN_CHUNK, chunk = least * bti_pieces_of(j->length, least * MOST_CHUNKS);
    int64_t chunks = bti_pieces_of(j->length, chunk), units = j->outer * chunks * j->inner;
    int64_t lanes = bti_gpu_lanes(chunks > 1 ? ROW_TILE : j->length, ROW_TILE / BTI_GROUP);
    running_entries entries = choose_running_entries(j, lanes);
    uint64_t x = bti_gpu_job_input(j, 0), at = x;
    if (chunks > 1) {
        int64_t threads = bti_gpu_lanes(chunks, 1);
        bti_gpu_text_entry offsets = {2, "bti_offsets", (int)(BTI_GROUP / threads)};
        BTI_TRY(bti_gpu_scratch(j->gpu, BTI_GPU_KEYS, (size_t)units * 8, &at));
        BTI_GPU_ADDRESSES(j, at, x);
        BTI_GPU_NUMBERS(j, units, j->length, chunks, chunk, rows ? lanes : j->inner, j->asked->attr->running.reverse);
        BTI_TRY(bti_gpu_job_launch(j, entries.sums, units));
        BTI_GPU_ADDRESSES(j, at);
        BTI_GPU_NUMBERS(j, j->outer * j->inner, j->inner, chunks, threads);
        BTI_TRY(bti_gpu_job_launch(j, offsets, j->outer * j->inner));
    }
    BTI_GPU_ADDRESSES(j, j->output.address, at, x);
    BTI_GPU_NUMBERS(j, units, j->length, chunks, chunk, rows ? lanes : j->inner, j->asked->attr->running.reverse);
    return bti_gpu_job_launch(j, entries.running, units);
}

/* Running products and extremes: totals of chunks, what is before each, and the lines; the last alone where a line is one chunk. */
static bt_status launch_running(bti_gpu_job *j) {
    static const bti_gpu_text_entry totals = {0, "bti_chunk_totals", BTI_GROUP},
                                    offsets = {1, "bti_chunk_offsets", BTI_GROUP},
                                    lines = {2, "bti_running_lines", BTI_GROUP};
    int64_t chunk = COLUMN_CHUNK * bti_pieces_of(j->length, COLUMN_CHUNK * MOST_CHUNKS);
    int64_t chunks = bti_pieces_of(j->length, chunk), count = j->outer * j->inner, units = count * chunks;
    int64_t reverse = j->asked->attr->running.reverse;
    uint64_t x = bti_gpu_job_input(j, 0), at = x;
    if (chunks > 1) {
        BTI_TRY(bti_gpu_scratch(j->gpu, BTI_GPU_KEYS, (size_t)units * 8, &at));
        BTI_GPU_ADDRESSES(j, at, x);
        BTI_GPU_NUMBERS(j, units, j->length, chunks, chunk, j->inner, reverse);
        BTI_TRY(bti_gpu_job_launch(j, totals, units));
        BTI_GPU_ADDRESSES(j, at);
        BTI_GPU_NUMBERS(j, count, chunks);
        BTI_TRY(bti_gpu_job_launch(j, offsets, count));
    }
    BTI_GPU_ADDRESSES(j, j->output.address, at, x);
    BTI_GPU_NUMBERS(j, units, j->length, chunks, chunk, j->inner, reverse);
    return bti_gpu_job_launch(j, lines, units);
}

/* --- all ---------------------------------------------------------------------------------------------------------- */

static bt_status launch_by_op(bti_gpu_job *j) {
    switch (j->asked->op) {
    case BTI_OP_take: return launch_take(j);
    case BTI_OP_gather_axis: return launch_gather_axis(j);
    case BTI_OP_update_slice: return launch_update(j);
    case BTI_OP_scatter_axis:
    case BTI_OP_scatter_set:
    case BTI_OP_scatter_max:
    case BTI_OP_scatter_min:
    case BTI_OP_scatter_add: return bti_gpu_launch_scatter(j);
    case BTI_OP_cumsum: return launch_cumsum(j);
    case BTI_OP_cumprod:
    case BTI_OP_cummax:
    case BTI_OP_cummin: return launch_running(j);
    default:
        return bti_fail(BT_INTERNAL, "%s: no launch of the text of %s", j->gpu->name, bti_op_info(j->asked->op)->name);
    }
}

/* Lines whose elements lie apart are made contiguous first; not those of cumsum that lie side by side, if they fill what memory is read
 * in. */
static void choose_axes(bti_gpu_job *j) {
    bti_op op = j->asked->op;
    int64_t inner_bytes = j->inner * (int64_t)bt_dtype_size(j->given[0].dtype);
    if (j->inner == 1 || (op == BTI_OP_cumsum && inner_bytes >= SECTOR)) return;
    if (bti_op_scatters_along(op) && !bti_gpu_scatters_columns(j, j->given[1].shape[j->axis]))
        bti_gpu_job_move_axis_last(&j->given[1], j->axis);
    if (op != BTI_OP_cumsum) return;
    bti_gpu_job_move_axis_last(&j->given[0], j->axis);
    bti_gpu_job_move_axis_last(&j->wanted, j->axis);
    j->axis = j->given[0].rank - 1;
    bti_gpu_job_split_axes(j, &j->given[0], j->axis);
}

/* Operands as asked for, and the axis. */
static void begin_job(bti_gpu_job *j) {
    bti_op op = j->asked->op;
    for (int i = 0; i < j->asked->input_count; i++) j->given[i] = j->asked->inputs[i];
    j->wanted = j->asked->output;
    if (bti_op_info(op)->class == BTI_HEAVY) return;
    j->scatters = bti_op_updates(op);
    j->axis = bti_attr_axis(op, j->asked->attr);
    bti_gpu_job_split_axes(j, j->scatters ? &j->wanted : &j->given[0], j->axis);
    choose_axes(j);
}

bt_status bti_gpu_text_launch(bti_gpu *gpu, bti_gpu_work *work, const bti_work *asked) {
    bti_gpu_job j = {.gpu = gpu, .work = work, .asked = asked};
    bool is_order = bti_op_info(asked->op)->class == BTI_ORDER;
    if (bti_op_is_attention(asked->op)) return bti_gpu_launch_attention(&j);
    if (!is_order && !bti_operand_count(&asked->output)) return BT_OK;
    if (!is_order) begin_job(&j);
    if (asked->op == BTI_OP_matmul) return bti_gpu_launch_matmul(&j);
    if (bti_op_is_conv(asked->op)) return bti_gpu_launch_conv(&j);
    BTI_TRY(bti_gpu_work_module(gpu, work, 0, &j.module));
    if (is_order) return bti_gpu_launch_order(&j);
    for (int i = j.scatters; i < asked->input_count; i++) /* their first is copied to the output */
        BTI_TRY(bti_gpu_job_make_dense_input(&j, i));
    BTI_TRY(bti_gpu_job_make_dense_output(&j));
    BTI_TRY(launch_by_op(&j));
    return bti_gpu_job_store_output(&j);
}
