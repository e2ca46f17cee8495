#include "data/loader.h"

#include <berth/ops.h>
#include <berth/random.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/quote.h"
#include "base/sized.h"

#define MOST_WORKERS 256
#define AHEAD_BYTES ((uint64_t)64 << 20)

/* --- the handle ------------------------------------------------------------------------------------------------------- */

static void clear_loader(void *object) {
    bt_loader *l = object;
    if (l->process && l->process != getpid())
        return; /* a forked child: the workers are not there, and may have held locks */
    bti_made_release(&l->current);
    bti_free(l->handed);
    bti_example_maker_free(&l->maker);
    if (l->workers) {
        bti_workers_end(l->workers);
    } else if (l->batcher) {
        bti_batcher_close(l->batcher);
        bti_free(l->batcher);
    }
    bti_error_release(atomic_exchange(&l->error, NULL));
    l->workers = NULL;
    l->batcher = NULL;
}

static bt_loader loader_without_memory = {.head = BTI_NO_MEMORY};
static const bti_handle_class loader_class = {BTI_OWNED_LOADER, sizeof(bt_loader), clear_loader,
                                              &loader_without_memory};

bt_loader *bt_loader_retain(bt_loader *loader) { return bti_handle_retain(&loader_class, loader, "bt_loader_retain"); }
void bt_loader_release(bt_loader *loader) { bti_handle_release(&loader_class, loader, "bt_loader_release"); }

bt_status bt_loader_status(const bt_loader *loader) {
    BTI_TRY(bti_handle_check(BTI_OWNED_LOADER, loader, "bt_loader_status"));
    bti_error *error = atomic_load(&((bt_loader *)(uintptr_t)loader)->error);
    return error ? bti_fail_with(error) : BT_OK;
}

int64_t bt_loader_batches(const bt_loader *loader) {
    return bti_handle_check(BTI_OWNED_LOADER, loader, "bt_loader_batches") == BT_OK ? loader->batcher->batches : -1;
}

int bti_loader_columns(const bt_loader *l) { return l->batcher->dataset->count; }

/* --- making ----------------------------------------------------------------------------------------------------------- */

#define MEMBER(name) BTI_MEMBER(bt_loader_options, name)
static const bti_member loader_option_members[] = {MEMBER(size),    MEMBER(by_name),    MEMBER(batch),
                                                   MEMBER(shuffle), MEMBER(drop_last),  MEMBER(workers),
                                                   MEMBER(device),  MEMBER(ahead_bytes)};
#undef MEMBER
static const bti_sized_type loader_options_layout =
    BTI_SIZED_TYPE(bt_loader_options, "options", "BT_LOADER(.batch = 64)", loader_option_members, NULL);

static bt_status read_key(bt_array *key, uint32_t words[2]) {
    BTI_TRY(bt_peek_status(key) == BT_OK ? BT_OK : bt_block(key));
    if (bt_dtype_of(key) != BT_U32 || bt_rank(key) != 1 || bt_size(key, 0) != 2)
        return bti_fail(BT_INVALID_ARGUMENT, "shuffle is no key: bt_key makes one");
    return bt_read(key, words, 2 * sizeof *words);
}

static bt_status check_options(const bt_loader_options *o, int64_t rows) {
    if (o->batch < 0) return bti_fail(BT_INVALID_ARGUMENT, "batch is %lld", (long long)o->batch);
    if (o->workers < 0 || o->workers > MOST_WORKERS)
        return bti_fail(BT_INVALID_ARGUMENT, "workers is %d; there may be 0 to %d", o->workers, MOST_WORKERS);
    if (rows < 1) return bti_fail(BT_INVALID_ARGUMENT, "the data set has no examples");
    if (o->drop_last && o->batch > rows)
        return bti_fail(BT_INVALID_ARGUMENT,
                        "no batch would come: batch is %lld, the data set has %lld examples, and drop_last leaves out "
                        "a smaller batch",
                        (long long)o->batch, (long long)rows);
    if (o->shuffle && rows > INT32_MAX)
        return bti_fail(BT_OUT_OF_RANGE, "%lld examples; at most 2^31 - 1 can be shuffled", (long long)rows);
    return BT_OK;
}

/* What batches are made of and how. bt_fit, which gives the words of its key, has them recorded: its steps read them where they are made. */
static bt_status make_batcher(bt_loader *l, bt_dataset *dataset, const bt_loader_options *o, const uint32_t *key) {
    bti_batcher *b = l->batcher = bti_calloc(1, sizeof *b);
    if (!b) return bti_no_memory();
    b->dataset = bt_dataset_retain(dataset);
    b->batch = o->batch < dataset->rows ? o->batch : dataset->rows;
    b->batches = o->drop_last ? dataset->rows / b->batch : (dataset->rows - 1) / b->batch + 1;
    b->shuffled = o->shuffle || key;
    if (key) memcpy(b->key, key, sizeof b->key);
    if (o->shuffle) BTI_TRY(read_key(o->shuffle, b->key));
    if (o->device) BTI_TRY(bt_device_find(o->device, &b->device));
    if (b->device && bti_batcher_is_on(dataset, b->device)) b->device = NULL;
    bool in_order = !b->shuffled && dataset->kind == BTI_DATASET_ARRAYS;
    b->recorded = bti_batcher_can_record(dataset) && (key || in_order || !bti_batcher_is_on_host(dataset));
    b->starts = b->device || !b->recorded;
    return bti_batcher_open(b, o->ahead_bytes);
}

static bt_status make_loader(bt_loader *l, bt_dataset *dataset, const bt_loader_options *options, const uint32_t *key) {
    bt_loader_options o = {0};
    BTI_TRY(bti_handle_check(BTI_OWNED_DATASET, dataset, "bt_loader_new"));
    if (options) BTI_TRY(bti_options_take(&loader_options_layout, "bt_loader_new", options, &o));
    if (!o.batch) o.batch = 32;
    if (!o.ahead_bytes) o.ahead_bytes = AHEAD_BYTES;
    BTI_TRY(check_options(&o, dataset->rows));
    l->drop_last = o.drop_last;
    l->process = getpid();
    l->handed = bti_calloc(2 * (size_t)dataset->count, sizeof *l->handed);
    if (!l->handed) return bti_no_memory();
    BTI_TRY(make_batcher(l, dataset, &o, key));
    if (!o.workers && l->batcher->device) o.workers = 1; /* a copy occupies the thread that starts it */
    if (!o.workers || !l->batcher->starts) return BT_OK;
    l->workers = bti_workers_new(l->batcher, o.workers, o.ahead_bytes);
    return l->workers ? BT_OK : BT_RESOURCE_EXHAUSTED;
}

bt_loader *bti_loader_new_by_words(bt_dataset *dataset, const bt_loader_options *options, const uint32_t key[2]) {
    BTI_CALL("bt_loader_new");
    bt_loader *l = bti_owned_new(BTI_OWNED_LOADER, sizeof *l);
    bt_status status = l ? make_loader(l, dataset, options, key) : bti_no_memory();
    if (status != BT_OK) {
        bt_loader_release(l);
        l = NULL;
    }
    return bti_scope_own(&loader_class, l);
}

bt_loader *bt_loader_new(bt_dataset *dataset, const bt_loader_options *options) {
    return bti_loader_new_by_words(dataset, options, NULL);
}

/* --- where it is -------------------------------------------------------------------------------------------------------- */

bt_status bti_loader_enter(bt_loader *l, const char *name) {
    BTI_TRY(bti_handle_check(BTI_OWNED_LOADER, l, name));
    if (l->process != getpid())
        return bti_fail(BT_FAILED_PRECONDITION, "the loader was made by the process that this one was forked from");
    if (l->workers && bti_workers_are_calling(l->workers))
        return bti_fail(BT_FAILED_PRECONDITION,
                        "a function that makes the loader's examples cannot ask it for batches");
    if (atomic_flag_test_and_set(&l->busy))
        return bti_fail(BT_FAILED_PRECONDITION, "another call uses the loader; it serves one at a time");
    return BT_OK;
}

void bti_loader_leave(bt_loader *l) { atomic_flag_clear(&l->busy); }

void bti_loader_go(bt_loader *l, int64_t epoch, int64_t next) {
    if (l->workers) bti_workers_stop(l->workers);
    bti_made_release(&l->current);
    bti_error_release(atomic_exchange(&l->error, NULL));
    l->epoch = epoch;
    l->next = next;
    l->over = l->begun = false;
}

bt_status bt_loader_start(bt_loader *loader, int64_t epoch) {
    BTI_CALL("bt_loader_start");
    BTI_TRY(bti_loader_enter(loader, "bt_loader_start"));
    bt_status status = BT_OK;
    if (epoch < 0 || epoch > UINT32_MAX)
        status = bti_fail(BT_INVALID_ARGUMENT, "epoch is %lld; it must be 0 to 2^32 - 1", (long long)epoch);
    else
        bti_loader_go(loader, epoch, 0);
    bti_loader_leave(loader);
    return status;
}

/* --- batches ------------------------------------------------------------------------------------------------------------ */

static bt_status begin_epoch(bt_loader *l) {
    if (l->begun) return BT_OK;
    BTI_TRY(bti_batcher_order(l->batcher, l->epoch));
    if (l->workers) bti_workers_begin(l->workers, l->next, l->batcher->batches);
    l->begun = true;
    return BT_OK;
}

static bt_status take_next(bt_loader *l) {
    if (l->workers)
        bti_workers_take(l->workers, &l->current);
    else
        bti_batcher_make(l->batcher, &l->maker, l->next, &l->current);
    if (l->current.error) return bti_fail_with(l->current.error);
    l->next++;
    return BT_OK;
}

#define MEMBER(name) BTI_MEMBER(bt_batch, name)
static const bti_member batch_members[] = {MEMBER(size),    MEMBER(epoch),  MEMBER(number), MEMBER(rows),
                                           MEMBER(columns), MEMBER(arrays), MEMBER(sizes),  MEMBER(column)};
#undef MEMBER
static const bti_sized_type batch_layout = BTI_SIZED_TYPE(bt_batch, "batch", "BT_BATCH_INIT", batch_members, NULL);

static void describe_batch(const bt_loader *l, bt_batch *batch) {
    const bt_dataset *d = l->batcher->dataset;
    memcpy(l->handed, l->current.arrays, 2 * (size_t)d->count * sizeof *l->handed);
    bt_batch known = {.epoch = l->epoch,
                      .number = l->current.number,
                      .rows = l->current.rows,
                      .columns = d->count,
                      .arrays = l->handed,
                      .sizes = l->handed + d->count,
                      .column = d->columns};
    bti_info_give(&batch_layout, &known, batch);
}

/* Whether there is a batch; an error ends the epoch and stays. */
static bool next_batch(bt_loader *l, bt_batch *batch) {
    if (atomic_load(&l->error)) return bti_fail_with(atomic_load(&l->error)), false;
    bt_status status = bti_sized_check(&batch_layout, "bt_loader_next", batch);
    if (status == BT_OK && l->over) bti_loader_go(l, (int64_t)(uint32_t)(l->epoch + 1), 0);
    bti_made_release(&l->current);
    if (status == BT_OK && l->next >= l->batcher->batches) {
        l->over = true;
        return false;
    }
    if (status == BT_OK) status = begin_epoch(l);
    if (status == BT_OK) status = take_next(l);
    if (status == BT_OK) {
        describe_batch(l, batch);
        return true;
    }
    bti_error *error = bti_error_last();
    if (l->workers) bti_workers_stop(l->workers);
    bti_made_release(&l->current);
    bti_error_stick(&l->error, error);
    bti_error_release(error);
    return false;
}

bool bt_loader_next(bt_loader *loader, bt_batch *batch) {
    BTI_CALL("bt_loader_next");
    if (bti_loader_enter(loader, "bt_loader_next") != BT_OK) return false;
    bool any = next_batch(loader, batch);
    bti_loader_leave(loader);
    return any;
}

bt_array *bt_batch_array(const bt_batch *batch, const char *name) {
    BTI_PUBLIC("bt_batch_array");
    if (!batch || batch->size < sizeof *batch || !name)
        BTI_RETURN(bti_poisonf(BT_INVALID_ARGUMENT, "the %s is NULL or has no size", batch ? "name" : "batch"));
    for (int c = 0; c < batch->columns; c++)
        if (!strcmp(batch->column[c].name, name)) return batch->arrays[c];
    BTI_RETURN(bti_poisonf(BT_NOT_FOUND, "the batch has no array \"%s\"; it has %d others", bti_quote(name).text,
                           batch->columns));
}
