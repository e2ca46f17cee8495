#include "launch/gpu_sort.h"

#include "ir/dtype.h"
#include "reference/operand.h"

#define TILE_BYTES 16384 /* of keys of 4 or 8 bytes: render/c/sort.h */
#define MOST_CHUNKS 1024 /* of a line */
#define DIGITS 256
#define OFFSET_DIGITS 8 /* of which a group sums up the counts */
#define MOST_LINES 256  /* that a group sorts at once */
#define PIECE 64        /* render/c/scatter.h */
#define ALIGN 256       /* bytes between arrays in one slot */

/* What is sorted, and where. What passes carry are elements of x; of scatters keys. */
typedef struct sort_task {
    int64_t lines, length, rows; /* rows: of the keys of scatters */
    int64_t kept;                /* of each line: the first in the order */
    uint64_t source;             /* x, or the indices */
    int key_bytes, bits;         /* of keys; those that differ */
    int carried_bytes;
    bool wants_sorted, wants_order;
    uint64_t sorted, order; /* the results; 0: in scratch memory, which is named here then */
    uint64_t counts;
    uint64_t values; /* of 4 bytes, which are sorted in place of the order; 0: none */
} sort_task;

static bt_status reserve_two(bti_gpu *gpu, int slot, int64_t elements, int bytes, uint64_t addresses[2]) {
    size_t each = ((size_t)elements * (size_t)bytes + ALIGN - 1) / ALIGN * ALIGN;
    BTI_TRY(bti_gpu_scratch(gpu, slot, each * 2, &addresses[0]));
    addresses[1] = addresses[0] + each;
    return BT_OK;
}

/* --- sorts -------------------------------------------------------------------------------------------------------- */

/* Bits a pass: the same in all, 8 at most. */
static int bits_of_pass(const sort_task *task) {
    int passes = (task->bits + 7) / 8;
    return (task->bits + passes - 1) / passes;
}

/* Elements that a group sorts at once. */
static int64_t tile_length(const bti_gpu_job *job, const sort_task *task) {
    return TILE_BYTES / task->key_bytes / (job->gpu->is_cpu ? 2 : 1);
}

static bool sorts_short_lines(const bti_gpu_job *job, const sort_task *task) {
    return task->length <= tile_length(job, task);
}

/* Lines in as many pieces, each at most a tile; `given`: the numbers of the elements of the source, or 0. Of a result that is not wanted any address
 * will do. */
static bt_status sort_pieces(bti_gpu_job *job, const sort_task *task, int64_t pieces, uint64_t given) {
    int64_t fit = pieces > 1 ? 1 : tile_length(job, task) / task->length, at_once = fit < MOST_LINES ? fit : MOST_LINES;
    bti_gpu_text_entry groups = {0, "bti_sort_lines", (int)at_once}, threads = {5, "bti_serial_lines", (int)at_once};
    BTI_GPU_ADDRESSES(job, task->wants_order ? task->order : task->source, task->source,
                      task->wants_sorted ? task->sorted : task->source, given ? given : task->source);
    BTI_GPU_NUMBERS(job, task->lines * pieces, task->length, at_once, task->rows, task->bits, bits_of_pass(task),
                    task->kept, pieces, task->wants_order, task->wants_sorted, given != 0);
    return bti_gpu_job_launch(job, job->gpu->is_cpu ? threads : groups, task->lines * pieces);
}

typedef struct sort_pass {
    int64_t chunk, chunks;
    int shift, bits;
    uint64_t keys, order, new_keys, new_order; /* the keys of the first pass are the source */
} sort_pass;

/* The functions that count digits and that sort by them. */
typedef struct pass_entries {
    bti_gpu_text_entry count, sort;
} pass_entries;

static pass_entries choose_pass_entries(const bti_gpu *gpu) {
    if (gpu->is_cpu) return (pass_entries){{6, "bti_serial_count", 1}, {7, "bti_serial_sort", 1}};
    return (pass_entries){{1, "bti_count", 1}, {3, "bti_sort_tiles", 1}};
}

static bt_status sort_by_digit(bti_gpu_job *job, const sort_task *task, const sort_pass *pass) {
    pass_entries entries = choose_pass_entries(job->gpu);
    static const bti_gpu_text_entry offsets = {2, "bti_digit_offsets", 1};
    int64_t units = task->lines * pass->chunks, offset_units = task->lines * (DIGITS / OFFSET_DIGITS);
    bool last = pass->shift + pass->bits >= task->bits;
    BTI_GPU_ADDRESSES(job, task->counts, pass->keys);
    BTI_GPU_NUMBERS(job, units, task->length, pass->chunks, pass->chunk, pass->shift, pass->bits, !pass->shift,
                    task->rows);
    BTI_TRY(bti_gpu_job_launch(job, entries.count, units));
    BTI_GPU_ADDRESSES(job, task->counts);
    BTI_GPU_NUMBERS(job, offset_units, pass->chunks);
    BTI_TRY(bti_gpu_job_launch(job, offsets, offset_units));
    BTI_GPU_ADDRESSES(job, pass->new_keys, pass->new_order, task->counts, pass->keys, pass->order);
    BTI_GPU_NUMBERS(job, units, task->length, pass->chunks, pass->chunk, pass->shift, pass->bits, !pass->shift,
                    task->rows, task->wants_sorted || !last, !pass->shift && !task->values, task->wants_order,
                    last ? task->kept : task->length);
    return bti_gpu_job_launch(job, entries.sort, units);
}

static bt_status sort_long_lines(bti_gpu_job *job, sort_task *task) {
    int64_t elements = task->lines * task->length, tile = tile_length(job, task);
    sort_pass pass = {.chunk = tile * bti_pieces_of(task->length, tile * MOST_CHUNKS),
                      .bits = bits_of_pass(task),
                      .keys = task->source};
    pass.chunks = bti_pieces_of(task->length, pass.chunk);
    uint64_t two_keys[2], two_orders[2];
    BTI_TRY(reserve_two(job->gpu, BTI_GPU_KEYS, elements, task->carried_bytes, two_keys));
    two_orders[0] = two_orders[1] = two_keys[0]; /* any address, where no order is wanted */
    if (task->wants_order) BTI_TRY(reserve_two(job->gpu, BTI_GPU_ORDERS, elements, 4, two_orders));
    BTI_TRY(bti_gpu_scratch(job->gpu, BTI_GPU_COUNTS, (size_t)(task->lines * (pass.chunks + 1)) * DIGITS * 4,
                            &task->counts));
    pass.order = task->values ? task->values : two_orders[1];
    for (int number = 0; pass.shift < task->bits; number++, pass.shift += pass.bits) {
        bool last = pass.shift + pass.bits >= task->bits;
        pass.new_keys = last && task->sorted ? task->sorted : two_keys[number % 2];
        pass.new_order = last && task->order ? task->order : two_orders[number % 2];
        BTI_TRY(sort_by_digit(job, task, &pass));
        pass.keys = pass.new_keys, pass.order = pass.new_order;
    }
    task->sorted = pass.keys, task->order = pass.order;
    return BT_OK;
}

/* The first of long lines: those of each piece, then the first of these. Pieces have as many at least, and their lengths differ by one at most. */
static bool selects(const bti_gpu_job *job, const sort_task *task) {
    return !sorts_short_lines(job, task) && task->kept <= tile_length(job, task) / 4;
}

static bt_status select_first(bti_gpu_job *job, const sort_task *asked) {
    int64_t tile = tile_length(job, asked), pieces = bti_pieces_of(asked->length, tile);
    uint64_t found[2], numbers[2], given = 0;
    BTI_TRY(reserve_two(job->gpu, BTI_GPU_KEYS, asked->lines * pieces * asked->kept, asked->carried_bytes, found));
    BTI_TRY(reserve_two(job->gpu, BTI_GPU_ORDERS, asked->lines * pieces * asked->kept, 4, numbers));
    sort_task task = *asked;
    task.wants_sorted = task.wants_order = true;
    for (int level = 0; !sorts_short_lines(job, &task); level++) {
        pieces = bti_pieces_of(task.length, tile);
        task.sorted = found[level % 2], task.order = numbers[level % 2];
        BTI_TRY(sort_pieces(job, &task, pieces, given));
        task.length = pieces * task.kept;
        task.source = task.sorted, given = task.order;
    }
    task.wants_sorted = asked->wants_sorted, task.wants_order = asked->wants_order;
    task.sorted = asked->sorted, task.order = asked->order;
    return sort_pieces(job, &task, 1, given);
}

/* A result of an order: dense, with the axis last; where it is written. */
typedef struct order_result {
    bti_operand asked, dense;
    bool wanted;
} order_result;

static bt_status begin_result(bti_gpu_job *job, const bti_operand *asked, int slot, order_result *result) {
    *result = (order_result){.asked = *asked, .wanted = bti_operand_count(asked) > 0};
    if (!result->wanted) return BT_OK;
    bti_gpu_job_move_axis_last(&result->asked, bti_attr_axis(job->asked->op, job->asked->attr));
    result->dense = result->asked;
    bti_operand_make_dense(&result->dense);
    if (bti_operand_is_dense(&result->asked)) return BT_OK;
    size_t bytes = (size_t)bti_operand_count(asked) * bt_dtype_size(asked->dtype);
    return bti_gpu_scratch(job->gpu, slot, bytes, &result->dense.address);
}

static bt_status end_result(bti_gpu_job *job, const order_result *result) {
    if (!result->wanted || bti_operand_is_dense(&result->asked)) return BT_OK;
    return bti_gpu_work_copy(job->gpu, job->work, &result->dense, &result->asked);
}

bt_status bti_gpu_launch_order(bti_gpu_job *job) {
    const bti_work *asked = job->asked;
    int axis = bti_attr_axis(asked->op, asked->attr), bytes = (int)bt_dtype_size(asked->inputs[0].dtype);
    order_result values, indices;
    job->given[0] = asked->inputs[0];
    bti_gpu_job_move_axis_last(&job->given[0], axis);
    bti_gpu_job_split_axes(job, &job->given[0], job->given[0].rank - 1);
    BTI_TRY(begin_result(job, &asked->output, BTI_GPU_OUTPUT, &values));
    BTI_TRY(begin_result(job, asked->others, BTI_GPU_INDICES, &indices));
    if (!values.wanted && !indices.wanted) return BT_OK;
    BTI_TRY(bti_gpu_job_make_dense_input(job, 0));
    sort_task task = {.lines = job->outer,
                      .length = job->length,
                      .kept = asked->op == BTI_OP_top_k ? asked->attr->top.k : job->length,
                      .source = job->input[0].address,
                      .key_bytes = bytes == 8 ? 8 : 4,
                      .carried_bytes = bytes,
                      .bits = bytes * 8,
                      .wants_sorted = values.wanted,
                      .wants_order = indices.wanted,
                      .sorted = values.wanted ? values.dense.address : 0,
                      .order = indices.wanted ? indices.dense.address : 0};
    BTI_TRY(sorts_short_lines(job, &task) ? sort_pieces(job, &task, 1, 0)
            : selects(job, &task)         ? select_first(job, &task)
                                          : sort_long_lines(job, &task));
    BTI_TRY(end_result(job, &values));
    return end_result(job, &indices);
}

/* --- scatters ----------------------------------------------------------------------------------------------------- */

bool bti_gpu_scatters_columns(const bti_gpu_job *job, int64_t count) { return count <= PIECE || job->gpu->is_cpu; }

static bt_status scatter_columns(bti_gpu_job *job, int64_t count) {
    static const bti_gpu_text_entry scatter = {8, "bti_scatter", BTI_GROUP};
    BTI_GPU_ADDRESSES(job, job->output.address, bti_gpu_job_input(job, 1), bti_gpu_job_input(job, 2));
    BTI_GPU_NUMBERS(job, job->outer * job->inner, count, job->inner, job->length);
    return bti_gpu_job_launch(job, scatter, job->outer * job->inner);
}

/* Folds items, then the parts that this left, until no line has two. */
static bt_status fold_in_order(bti_gpu_job *job, const sort_task *task, int64_t sets) {
    static const bti_gpu_text_entry fold = {4, "bti_fold_pieces", BTI_GROUP},
                                    values = {9, "bti_fold_values", BTI_GROUP};
    int64_t items = task->length, step = 1, lead = 0, reach = 0;
    int64_t parts_count = sets * bti_pieces_of(items, PIECE);
    uint64_t parts[2], from = bti_gpu_job_input(job, 2);
    BTI_TRY(reserve_two(job->gpu, BTI_GPU_COUNTS, parts_count, (int)bt_dtype_size(job->output.dtype), parts));
    for (int level = 0; level == 0 || items > 1; level++) {
        if (task->values && level == 0) {
            BTI_GPU_ADDRESSES(job, job->output.address, parts[0], task->sorted, task->order);
            BTI_GPU_NUMBERS(job, sets * items, items, task->rows, bti_pieces_of(items, PIECE));
            BTI_TRY(bti_gpu_job_launch(job, values, sets * items));
        } else {
            BTI_GPU_ADDRESSES(job, job->output.address, parts[level % 2], task->sorted, task->order, from);
            BTI_GPU_NUMBERS(job, sets * items, items, job->inner, task->length, task->rows, step, lead, reach);
            BTI_TRY(bti_gpu_job_launch(job, fold, sets * items));
        }
        from = parts[level % 2];
        items = bti_pieces_of(items, PIECE);
        step *= PIECE;
        lead = reach;
        reach = lead + step;
    }
    return BT_OK;
}

static bt_status sort_indices(bti_gpu_job *job, sort_task *task) {
    if (!sorts_short_lines(job, task)) return sort_long_lines(job, task);
    int64_t elements = task->lines * task->length;
    BTI_TRY(bti_gpu_scratch(job->gpu, BTI_GPU_KEYS, (size_t)elements * (size_t)task->key_bytes, &task->sorted));
    BTI_TRY(bti_gpu_scratch(job->gpu, BTI_GPU_ORDERS, (size_t)elements * 4, &task->order));
    return sort_pieces(job, task, 1, 0);
}

static bt_status check_index_range(bti_gpu_job *job, int64_t count) {
    bool wide = job->given[1].dtype == BT_I64;
    if (count > INT32_MAX)
        return bti_fail(BT_UNIMPLEMENTED, "%s adds at most %d elements by index along an axis, not %lld",
                        job->gpu->name, INT32_MAX, (long long)count);
    if (!wide && job->length > UINT32_MAX)
        return bti_fail(BT_UNIMPLEMENTED, "%s needs int64 indices for an axis of %lld", job->gpu->name,
                        (long long)job->length);
    return BT_OK;
}

bt_status bti_gpu_launch_scatter(bti_gpu_job *job) {
    bool in_lines = bti_op_scatters_along(job->asked->op);
    int64_t columns = job->outer * job->inner, count = job->asked->inputs[1].shape[in_lines ? job->axis : 0];
    sort_task task = {.lines = in_lines ? columns : 1,
                      .length = count,
                      .kept = count,
                      .rows = job->length,
                      .source = bti_gpu_job_input(job, 1),
                      .key_bytes = (int)bt_dtype_size(job->given[1].dtype),
                      .bits = 64 - __builtin_clzll((unsigned long long)job->length),
                      .wants_sorted = true,
                      .wants_order = true};
    task.carried_bytes = task.key_bytes;
    BTI_TRY(bti_gpu_job_begin_update(job));
    if (!count) return BT_OK;
    if (in_lines && bti_gpu_scatters_columns(job, count)) return scatter_columns(job, count);
    BTI_TRY(check_index_range(job, count));
    if (in_lines && job->inner == 1 && bt_dtype_size(job->output.dtype) == 4 && !sorts_short_lines(job, &task))
        task.values = bti_gpu_job_input(job, 2);
    BTI_TRY(sort_indices(job, &task));
    return fold_in_order(job, &task, columns);
}
