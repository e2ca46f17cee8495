#include "data/examples.h"

#include <stdarg.h>
#include <string.h>

#include "array/eval.h"
#include "base/alloc.h"
#include "base/lock.h"
#include "base/quote.h"
#include "base/str.h"

/* --- memory of a thread ----------------------------------------------------------------------------------------------- */

#define ALIGN 64
#define LEAST_CHUNK ((size_t)256 << 10)

struct bti_arena_chunk {
    _Alignas(ALIGN) bti_arena_chunk *next;
    size_t bytes, used; /* behind this header */
};

static void *scratch_take(bti_scratch *scratch, size_t bytes) {
    bti_arena_chunk *chunk = scratch->last;
    if (bytes > PTRDIFF_MAX / 2) return NULL;
    size_t room = (bytes + ALIGN - 1) / ALIGN * ALIGN;
    if (!chunk || chunk->bytes - chunk->used < room) {
        size_t size = room > LEAST_CHUNK ? room : LEAST_CHUNK;
        chunk = bti_alloc_aligned(ALIGN, sizeof *chunk + size);
        if (!chunk) return NULL;
        *chunk = (bti_arena_chunk){.bytes = size};
        *(scratch->last ? &scratch->last->next : &scratch->first) = chunk;
        scratch->last = chunk;
    }
    void *taken = (char *)(chunk + 1) + chunk->used;
    chunk->used += room;
    return taken;
}

static void free_chunks(bti_arena_chunk *chunk) {
    while (chunk) {
        bti_arena_chunk *next = chunk->next;
        bti_free(chunk);
        chunk = next;
    }
}
void bti_scratch_reset(bti_scratch *scratch) {
    if (!scratch->first) return;
    free_chunks(scratch->first->next);
    scratch->first->next = NULL;
    scratch->first->used = 0;
    scratch->last = scratch->first;
}
static void free_scratch(bti_scratch *scratch) {
    free_chunks(scratch->first);
    *scratch = (bti_scratch){0};
}
void bti_example_maker_free(bti_example_maker *maker) {
    free_scratch(&maker->of_example);
    free_scratch(&maker->of_batch);
}

/* --- the leaf --------------------------------------------------------------------------------------------------------- */

static bt_status open_array(bt_array *x, const unsigned char **base, bt_array **holder) {
    static const unsigned char nothing[1];
    bt_status status = BT_OK;
    *base = nothing;
    if (bt_count(x) == 0) return BT_OK;
    BT_SCOPE {
        bt_array *held = NULL;
        status = bt_block(x);
        const void *elements = status == BT_OK ? bti_array_in_place(x, &held) : NULL;
        if (status == BT_OK && !elements) { /* a copy of its own, as a map of x lives no longer than x's elements */
            held = bt_identity(bt_cpu(x));
            elements = bt_map(held);
            if (!elements) status = bt_error_status();
        }
        if (status == BT_OK) *holder = bt_retain(held);
        *base = elements;
    }
    return status;
}

bt_status bti_leaf_open(bt_dataset *dataset, bti_leaf *leaf) {
    *leaf = (bti_leaf){.dataset = dataset};
    while (leaf->dataset->of) leaf->dataset = leaf->dataset->of;
    const bt_dataset *d = leaf->dataset;
    for (int i = 0; i < d->count && d->kind == BTI_DATASET_FILES; i++) leaf->base[i] = d->mapped[i].elements;
    for (int i = 0; i < d->count && d->kind == BTI_DATASET_ARRAYS; i++)
        BTI_TRY(open_array(d->arrays[i], &leaf->base[i], &leaf->holder[i]));
    return BT_OK;
}

void bti_leaf_close(bti_leaf *leaf) {
    for (int i = 0; i < BT_MAX_COLUMNS; i++) bt_release(leaf->holder[i]);
    *leaf = (bti_leaf){0};
}

/* --- functions of the program's ------------------------------------------------------------------------------------------ */

/* An example that a function makes. */
typedef struct making {
    bt_example head; /* what the function is given */
    const bt_dataset *dataset;
    bti_scratch *memory; /* of ragged columns */
    void **data;
    bt_shape *shape;
    struct making *outer;
} making;
static _Thread_local making *making_now; /* the innermost of this thread */

void *bt_example_resize(bt_example *example, int column, int64_t size) {
    BTI_CALL("bt_example_resize");
    making *m = making_now;
    if (!m || example != &m->head)
        return (void)!bti_fail(BT_INVALID_ARGUMENT, "this is not the example that the calling function makes"), NULL;
    int axis = column >= 0 && column < m->dataset->count ? bti_column_ragged_axis(&m->dataset->columns[column]) : -1;
    if (axis < 0 || size < 0) {
        (void)!bti_fail(BT_INVALID_ARGUMENT,
                        axis < 0 ? "column %d (size %lld) is not a ragged one" : "column %d: the size is %lld", column,
                        (long long)size);
        return NULL;
    }
    size_t bytes = bt_dtype_size(m->dataset->columns[column].dtype);
    bt_shape shape = m->dataset->columns[column].shape;
    shape.size[axis] = size;
    bool fits = true;
    for (int d = 0; d < shape.rank; d++) fits = fits && bti_mul_size(bytes, (size_t)shape.size[d], &bytes);
    void *memory = fits ? scratch_take(m->memory, bytes) : NULL;
    if (!memory) {
        (void)!bti_fail(BT_RESOURCE_EXHAUSTED, "out of host memory for column %d of size %lld", column,
                        (long long)size);
        return NULL;
    }
    m->shape[column] = shape;
    m->data[column] = memory;
    return memory;
}

bt_status bt_example_fail(bt_example *example, bt_status status, const char *format, ...) {
    bti_str text = {0};
    (void)example;
    va_list arguments;
    va_start(arguments, format);
    if (format) bti_str_addv(&text, format, arguments);
    va_end(arguments);
    if (status == BT_OK || !bti_is_status(status)) status = BT_UNKNOWN;
    bti_without_site without_site = bti_without_site_begin(); /* the loader's error has a place */
    status = bti_fail(status, "%s", bti_str_text(&text));
    bti_without_site_end(without_site);
    bti_str_free(&text);
    return status;
}

/* `before`: the error record when the function was called. */
static bt_status example_failed(int64_t index, bt_status status, const bti_error *before) {
    bti_error *last = bti_error_last();
    bool said = last && last != before && bti_error_code(last) == status;
    bt_status known = bti_is_status(status) ? status : BT_UNKNOWN;
    if (bti_is_status(status))
        (void)!bti_fail(known, "example %lld: its function fails with %s%s%s", (long long)index, bt_status_name(status),
                        said ? ": " : "", said ? bti_error_message(last) : "");
    else
        (void)!bti_fail(known, "example %lld: its function returns %d, which is no status", (long long)index,
                        (int)status);
    bti_error_release(last);
    return known;
}

static bt_status check_sizes(const making *m) {
    for (int c = 0; c < m->dataset->count; c++)
        if (!m->data[c])
            return bti_fail(BT_INVALID_ARGUMENT,
                            "example %lld: its function gave the ragged column \"%s\" no size (bt_example_resize)",
                            (long long)m->head.index, bti_quote(m->dataset->columns[c].name).text);
    return BT_OK;
}

static bt_status call_function(making *m, const bt_example *from) {
    bti_error *before = bti_error_last();
    bool had_scopes = bti_thread_has_scopes();
    bt_status status = BT_OK;
    m->outer = making_now;
    making_now = m;
    bti_user_calls calls = bti_user_calls_begin();
    bti_lock_user_begin();
    BT_SCOPE
        status =
            from ? m->dataset->map(from, &m->head, m->dataset->data) : m->dataset->make(&m->head, m->dataset->data);
    bti_lock_user_end();
    bti_user_calls_end(calls);
    making_now = m->outer;
    if (status != BT_OK) status = example_failed(m->head.index, status, before);
    bti_error_release(before);
    if (!had_scopes) bti_leave_thread();
    return status == BT_OK ? check_sizes(m) : status;
}

static bt_status fill_example(bti_example_maker *maker, const bt_dataset *d, int64_t index, void **data,
                              bt_shape *shape, bti_scratch *memory) {
    void *from_data[BT_MAX_COLUMNS];
    bt_shape from_shape[BT_MAX_COLUMNS];
    bt_example from = {index, 0, from_data, from_shape};
    making m = {{index, d->count, data, shape}, d, memory, data, shape, NULL};
    for (int c = 0; c < d->count; c++) shape[c] = d->columns[c].shape;
    if (d->kind == BTI_DATASET_CALLBACK) return call_function(&m, NULL);
    from.columns = d->of->count;
    BTI_TRY(bti_example_view(maker, d->of, index, from_data, from_shape));
    return call_function(&m, &from);
}

bt_status bti_example_fill(bti_example_maker *maker, const bt_dataset *dataset, int64_t index, void **data,
                           bt_shape *shape) {
    bti_scratch_reset(&maker->of_example);
    return fill_example(maker, dataset, index, data, shape, &maker->of_batch);
}

bt_status bti_example_view(bti_example_maker *maker, const bt_dataset *d, int64_t index, void **data, bt_shape *shape) {
    if (d->kind == BTI_DATASET_SELECT) return bti_example_view(maker, d->of, d->selected[index], data, shape);
    bool made = d->kind == BTI_DATASET_CALLBACK || d->kind == BTI_DATASET_MAP;
    for (int c = 0; c < d->count; c++) {
        size_t bytes = bti_column_ragged_axis(&d->columns[c]) < 0 ? bti_column_bytes(&d->columns[c]) : 0;
        shape[c] = d->columns[c].shape;
        data[c] = NULL;
        if (!made) data[c] = (void *)(uintptr_t)(maker->leaf->base[c] + (size_t)index * bytes);
        if (!made || bti_column_ragged_axis(&d->columns[c]) >= 0) continue;
        if (!(data[c] = scratch_take(&maker->of_example, bytes))) return bti_no_memory();
    }
    return made ? fill_example(maker, d, index, data, shape, &maker->of_example) : BT_OK;
}
