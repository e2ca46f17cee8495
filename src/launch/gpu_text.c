/* Primitives with texts of their own (render/c/). The texts take dense arrays [outer][length][inner]; other operands are copied to
 * scratch memory first. */
#include <string.h>

#include "base/error.h"
#include "launch/gpu_engine.h"
#include "reference/operand.h"

/* Slots of scratch memory. */
enum { PARTS, INPUT, OUTPUT = INPUT + 3, KEYS, ORDERS, MORE };

#define CHUNK 256          /* of cumsum: render/c/running.h */
#define SEARCH_CHUNK 16384 /* of argmax */
#define SIDE 64            /* of a tile of a product: render/c/matmul.h */
#define SMALL_ALIGN 256    /* bytes between arrays in one slot */

typedef struct text_job {
    bti_gpu *gpu;
    bti_gpu_work *work;
    bti_gpu_module *module;
    const bti_work *asked;
    bti_operand input[3], output; /* dense */
    int64_t outer, length, inner; /* of the first input, by the axis */
    bti_words words;
} text_job;

static size_t bytes_of(const bti_operand *operand) {
    return (size_t)bti_operand_count(operand) * bt_dtype_size(operand->dtype);
}

static bt_status make_dense_input(text_job *j, int number) {
    const bti_operand *given = &j->asked->inputs[number];
    j->input[number] = *given;
    bti_operand_make_dense(&j->input[number]);
    if (bti_operand_is_dense(given) || !bti_operand_count(given)) return BT_OK;
    BTI_TRY(bti_gpu_scratch(j->gpu, INPUT + number, bytes_of(given), &j->input[number].address));
    return bti_gpu_work_copy(j->gpu, j->work, given, &j->input[number]);
}

static bt_status make_dense_output(text_job *j) {
    j->output = j->asked->output;
    bti_operand_make_dense(&j->output);
    if (bti_operand_is_dense(&j->asked->output)) return BT_OK;
    return bti_gpu_scratch(j->gpu, OUTPUT, bytes_of(&j->output), &j->output.address);
}

static bt_status store_output(text_job *j) {
    if (bti_operand_is_dense(&j->asked->output)) return BT_OK;
    return bti_gpu_work_copy(j->gpu, j->work, &j->output, &j->asked->output);
}

static void split_axes(text_job *j, const bti_operand *operand, int axis) {
    j->outer = j->inner = 1;
    for (int a = 0; a < axis; a++) j->outer *= operand->shape[a];
    for (int a = axis + 1; a < operand->rank; a++) j->inner *= operand->shape[a];
    j->length = operand->rank ? operand->shape[axis] : 1;
}

/* --- launching ---------------------------------------------------------------------------------------------------- */

static void begin_words(text_job *j) { j->words.count = j->words.address_count = 0; }
static void add_address(text_job *j, uint64_t address) { bti_words_add_address(&j->words, address); }
/* An input without elements has no memory; any address will do, because nothing is read. */
static void add_input(text_job *j, int number) {
    add_address(j, bti_operand_count(&j->input[number]) ? j->input[number].address : j->output.address);
}
static void add_word(text_job *j, int64_t word) { bti_words_add(&j->words, (uint64_t)word); }

typedef struct text_entry {
    int number;
    const char *name;
    enum { THREAD_EACH, LANES_EACH, GROUP_EACH } unit;
} text_entry;

static bt_status launch_units(text_job *j, text_entry e, int64_t units) {
    int threads = e.unit == LANES_EACH && j->gpu->target != BTI_CUDA_C ? 32 : BTI_GROUP;
    int at_once = e.unit == GROUP_EACH ? 1 : e.unit == LANES_EACH ? threads / 32 : threads;
    bti_gpu_grid grid = {.number = e.number, .name = e.name, .units = units, .at_once = at_once, .threads = threads};
    return bti_gpu_module_launch(j->gpu, j->module, &grid, &j->words);
}

/* --- gathers ------------------------------------------------------------------------------------------------------ */

/* The value for an index out of range, repeated over 32 bits, for rows that are copied 16 bytes at a time. Its two halves differ in
 * elements of 8 bytes, unless it is 0. */
static bool missing_value_repeats(bt_dtype dtype, uint64_t *part) {
    size_t size = bt_dtype_size(dtype);
    *part = bti_missing(dtype);
    if (size == 2) *part |= *part << 16;
    return size < 8 || !*part;
}

static bt_status launch_take(text_job *j) {
    static const text_entry plain = {0, "bti_take", THREAD_EACH}, wide = {1, "bti_take_wide", THREAD_EACH};
    const bti_operand *x = &j->input[0], *index = &j->input[1];
    size_t size = bt_dtype_size(x->dtype), row = (size_t)j->inner * size;
    uint64_t part;
    bool is_wide =
        missing_value_repeats(x->dtype, &part) && row % 16 == 0 && (x->address | j->output.address) % 16 == 0;
    int64_t inner = is_wide ? (int64_t)(row / 16) : j->inner, count = index->shape[0], units = j->outer * count * inner;
    begin_words(j);
    add_address(j, j->output.address);
    add_input(j, 0);
    add_input(j, 1);
    add_word(j, units);
    add_word(j, count);
    add_word(j, inner);
    add_word(j, j->length);
    add_word(j, (int64_t)(is_wide ? part : bti_missing(x->dtype)));
    return launch_units(j, is_wide ? wide : plain, units);
}

static bt_status launch_gather_axis(text_job *j) {
    static const text_entry gather = {0, "bti_gather", THREAD_EACH};
    int64_t units = bti_operand_count(&j->output);
    begin_words(j);
    add_address(j, j->output.address);
    add_input(j, 0);
    add_input(j, 1);
    add_word(j, units);
    add_word(j, j->output.shape[j->asked->attr[0]]);
    add_word(j, j->inner);
    add_word(j, j->length);
    add_word(j, (int64_t)bti_missing(j->input[0].dtype));
    return launch_units(j, gather, units);
}

static bt_status launch_scatter_axis(text_job *j) {
    static const text_entry scatter = {0, "bti_scatter", THREAD_EACH};
    BTI_TRY(bti_gpu_work_copy(j->gpu, j->work, &j->asked->inputs[0], &j->output));
    begin_words(j);
    add_address(j, j->output.address);
    add_input(j, 1);
    add_input(j, 2);
    add_word(j, j->outer * j->inner);
    add_word(j, j->input[1].shape[j->asked->attr[0]]);
    add_word(j, j->inner);
    add_word(j, j->length);
    return launch_units(j, scatter, j->outer * j->inner);
}

/* --- sorting ------------------------------------------------------------------------------------------------------ */

/* Keys and orders of all lines, twice: each merge reads one pair and writes the other. */
typedef struct sort_buffers {
    uint64_t keys, order, new_keys, new_order;
} sort_buffers;

static bt_status reserve_sort_buffers(text_job *j, int64_t elements, sort_buffers *s) {
    size_t keys = ((size_t)elements * 8 + SMALL_ALIGN - 1) / SMALL_ALIGN * SMALL_ALIGN;
    size_t orders = ((size_t)elements * 4 + SMALL_ALIGN - 1) / SMALL_ALIGN * SMALL_ALIGN;
    BTI_TRY(bti_gpu_scratch(j->gpu, KEYS, keys * 2, &s->keys));
    BTI_TRY(bti_gpu_scratch(j->gpu, ORDERS, orders * 2, &s->order));
    s->new_keys = s->keys + keys;
    s->new_order = s->order + orders;
    return BT_OK;
}

static bt_status merge_sorted_runs(text_job *j, int64_t elements, int64_t length, sort_buffers *s) {
    static const text_entry merge_runs = {0, "bti_merge", THREAD_EACH};
    for (int64_t width = 1; width < length; width *= 2) {
        begin_words(j);
        add_address(j, s->keys);
        add_address(j, s->order);
        add_address(j, s->new_keys);
        add_address(j, s->new_order);
        add_word(j, elements);
        add_word(j, length);
        add_word(j, width);
        BTI_TRY(launch_units(j, merge_runs, elements));
        *s = (sort_buffers){s->new_keys, s->new_order, s->keys, s->order};
    }
    return BT_OK;
}

static bt_status launch_argsort(text_job *j) {
    static const text_entry keys = {1, "bti_keys", THREAD_EACH}, order = {2, "bti_order", THREAD_EACH};
    int64_t elements = j->outer * j->length * j->inner;
    sort_buffers s;
    BTI_TRY(reserve_sort_buffers(j, elements, &s));
    begin_words(j);
    add_input(j, 0);
    add_address(j, s.keys);
    add_address(j, s.order);
    add_word(j, elements);
    add_word(j, j->length);
    add_word(j, j->inner);
    BTI_TRY(launch_units(j, keys, elements));
    BTI_TRY(merge_sorted_runs(j, elements, j->length, &s));
    begin_words(j);
    add_address(j, j->output.address);
    add_address(j, s.order);
    add_word(j, elements);
    add_word(j, j->length);
    add_word(j, j->inner);
    return launch_units(j, order, elements);
}

static bt_status launch_scatter_add(text_job *j) {
    static const text_entry rows = {3, "bti_rows", THREAD_EACH}, add = {4, "bti_add", THREAD_EACH};
    int64_t count = j->input[1].shape[0], units = bti_operand_count(&j->output);
    sort_buffers s;
    BTI_TRY(bti_gpu_work_copy(j->gpu, j->work, &j->asked->inputs[0], &j->output));
    if (!count) return BT_OK;
    BTI_TRY(reserve_sort_buffers(j, count, &s));
    begin_words(j);
    add_input(j, 1);
    add_address(j, s.keys);
    add_address(j, s.order);
    add_word(j, count);
    add_word(j, j->length);
    BTI_TRY(launch_units(j, rows, count));
    BTI_TRY(merge_sorted_runs(j, count, count, &s));
    begin_words(j);
    add_address(j, j->output.address);
    add_input(j, 2);
    add_address(j, s.keys);
    add_address(j, s.order);
    add_word(j, units);
    add_word(j, j->length);
    add_word(j, j->inner);
    add_word(j, count);
    return launch_units(j, add, units);
}

/* --- searches and running sums ------------------------------------------------------------------------------------ */

static bt_status launch_argbest(text_job *j) {
    static const text_entry best = {0, "bti_best", LANES_EACH}, best_of = {1, "bti_best_of", LANES_EACH};
    int64_t lines = j->outer * j->inner, chunks = (j->length + SEARCH_CHUNK - 1) / SEARCH_CHUNK;
    uint64_t keys, places;
    BTI_TRY(bti_gpu_scratch(j->gpu, KEYS, (size_t)(lines * chunks) * 8, &keys));
    BTI_TRY(bti_gpu_scratch(j->gpu, ORDERS, (size_t)(lines * chunks) * 8, &places));
    begin_words(j);
    add_input(j, 0);
    add_address(j, keys);
    add_address(j, places);
    add_word(j, lines * chunks);
    add_word(j, j->length);
    add_word(j, j->inner);
    add_word(j, SEARCH_CHUNK);
    add_word(j, chunks);
    BTI_TRY(launch_units(j, best, lines * chunks));
    begin_words(j);
    add_address(j, j->output.address);
    add_address(j, keys);
    add_address(j, places);
    add_word(j, lines);
    add_word(j, chunks);
    return launch_units(j, best_of, lines);
}

static void add_running_words(text_job *j, int64_t units, int64_t chunks) {
    add_word(j, units);
    add_word(j, j->length);
    add_word(j, j->inner);
    add_word(j, chunks);
    add_word(j, j->asked->attr[1]);
}

static bt_status launch_cumsum(text_job *j) {
    static const text_entry sums = {0, "bti_sums", THREAD_EACH}, offsets = {1, "bti_offsets", THREAD_EACH},
                            running = {2, "bti_running", THREAD_EACH};
    int64_t lines = j->outer * j->inner, chunks = (j->length + CHUNK - 1) / CHUNK;
    uint64_t at;
    BTI_TRY(bti_gpu_scratch(j->gpu, KEYS, (size_t)(lines * chunks) * 8, &at));
    begin_words(j);
    add_input(j, 0);
    add_address(j, at);
    add_running_words(j, lines * chunks, chunks);
    BTI_TRY(launch_units(j, sums, lines * chunks));
    begin_words(j);
    add_address(j, at);
    add_word(j, lines);
    add_word(j, chunks);
    BTI_TRY(launch_units(j, offsets, lines));
    begin_words(j);
    add_address(j, j->output.address);
    add_input(j, 0);
    add_address(j, at);
    add_running_words(j, lines * chunks, chunks);
    return launch_units(j, running, lines * chunks);
}

/* --- products ----------------------------------------------------------------------------------------------------- */

/* The one stride of all leading axes; false: they have none in common. */
static bool batch_stride(const bti_operand *operand, int64_t *stride) {
    int64_t expected = 0;
    bool found = false;
    *stride = 0;
    for (int axis = operand->rank - 3; axis >= 0; axis--) {
        if (operand->shape[axis] == 1) continue;
        if (found && operand->stride[axis] != expected) return false;
        if (!found) *stride = operand->stride[axis];
        found = true;
        expected = operand->stride[axis] * operand->shape[axis];
    }
    return true;
}

static bt_status read_matrices(text_job *j, int number, int64_t *stride) {
    j->input[number] = j->asked->inputs[number];
    if (batch_stride(&j->input[number], stride)) return BT_OK;
    BTI_TRY(make_dense_input(j, number));
    batch_stride(&j->input[number], stride);
    return BT_OK;
}

static void add_matrix(text_job *j, const bti_operand *operand, int64_t stride) {
    add_word(j, stride);
    add_word(j, operand->stride[operand->rank - 2]);
    add_word(j, operand->stride[operand->rank - 1]);
}

static bt_status launch_matmul(text_job *j) {
    static const text_entry product = {0, "bti_matmul", GROUP_EACH};
    bool done = false;
    if (j->gpu->driver->product) BTI_TRY(j->gpu->driver->product(j->gpu->device, j->asked, &done));
    if (done) return BT_OK;
    int64_t strides[3], batch = 1;
    BTI_TRY(bti_gpu_work_module(j->gpu, j->work, &j->module));
    BTI_TRY(read_matrices(j, 0, &strides[0]));
    BTI_TRY(read_matrices(j, 1, &strides[1]));
    BTI_TRY(make_dense_output(j));
    batch_stride(&j->output, &strides[2]);
    int rank = j->output.rank;
    for (int axis = 0; axis < rank - 2; axis++) batch *= j->output.shape[axis];
    int64_t rows = j->output.shape[rank - 2], columns = j->output.shape[rank - 1];
    int64_t tiles = batch * ((rows + SIDE - 1) / SIDE) * ((columns + SIDE - 1) / SIDE);
    begin_words(j);
    add_address(j, j->output.address);
    add_input(j, 0);
    add_input(j, 1);
    add_word(j, tiles);
    add_word(j, batch);
    add_word(j, rows);
    add_word(j, columns);
    add_word(j, j->input[0].shape[j->input[0].rank - 1]);
    add_matrix(j, &j->output, strides[2]);
    add_matrix(j, &j->input[0], strides[0]);
    add_matrix(j, &j->input[1], strides[1]);
    BTI_TRY(launch_units(j, product, tiles));
    return store_output(j);
}

/* --- all ---------------------------------------------------------------------------------------------------------- */

static bt_status launch_by_op(text_job *j) {
    int axis = (int)j->asked->attr[0];
    switch (j->asked->op) {
    case BTI_OP_take: split_axes(j, &j->input[0], axis); return launch_take(j);
    case BTI_OP_gather_axis: split_axes(j, &j->input[0], axis); return launch_gather_axis(j);
    case BTI_OP_scatter_axis: split_axes(j, &j->output, axis); return launch_scatter_axis(j);
    case BTI_OP_scatter_add: split_axes(j, &j->output, axis); return launch_scatter_add(j);
    case BTI_OP_argsort: split_axes(j, &j->input[0], axis); return launch_argsort(j);
    case BTI_OP_cumsum: split_axes(j, &j->input[0], axis); return launch_cumsum(j);
    default:
        split_axes(j, &j->input[0], __builtin_ctzll((unsigned long long)j->asked->attr[0]));
        return launch_argbest(j);
    }
}

bt_status bti_gpu_text_launch(bti_gpu *gpu, bti_gpu_work *work, const bti_work *asked) {
    text_job j = {.gpu = gpu, .work = work, .asked = asked};
    if (!bti_operand_count(&asked->output)) return BT_OK;
    if (asked->op == BTI_OP_matmul) return launch_matmul(&j);
    BTI_TRY(bti_gpu_work_module(gpu, work, &j.module));
    int first =
        asked->op == BTI_OP_scatter_add || asked->op == BTI_OP_scatter_axis; /* the first is copied to the output */
    for (int i = first; i < asked->input_count; i++) BTI_TRY(make_dense_input(&j, i));
    BTI_TRY(make_dense_output(&j));
    BTI_TRY(launch_by_op(&j));
    return store_output(&j);
}
