#include "task/ray/worker.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/lock.h"
#include "base/vec.h"
#include "device/device.h"
#include "task/modules.h"
#include "task/output.h"
#include "task/ray/calls.h"
#include "task/ray/engine.h"
#include "task/run.h"
#include "task/surroundings.h"

/* --- Python's side -------------------------------------------------------------------------------------------------------- */

static bti_ray_send_fn *send_to_python;

/* protects the tokens: memory is given back from threads that must not wait for Python */
BTI_STATIC_LOCK(unmap_lock, task_ray_link)
static BTI_VEC(uint64_t) unmapped;

static void send_unmapped(void) {
    bti_str frame = {0};
    bti_ray_begin(&frame, BTI_RAY_UNMAP, 0);
    bti_lock_take(&unmap_lock);
    size_t count = unmapped.count;
    if (count) bti_str_add_bytes(&frame, unmapped.items, count * sizeof *unmapped.items);
    unmapped.count = 0;
    bti_lock_give(&unmap_lock);
    if (count && bti_ray_finish(&frame)) send_to_python(frame.text, frame.length);
    bti_str_free(&frame);
}

static bt_status worker_send(const char *frame, uint64_t bytes) {
    send_to_python(frame, bytes);
    return BT_OK;
}

static bt_status worker_share(uint64_t bytes, bti_ray_shared *room) {
    void *memory = bti_alloc_aligned(64, (bytes + 63) / 64 * 64);
    if (!memory) return bti_no_memory();
    *room = (bti_ray_shared){memory, bytes, (uint64_t)(uintptr_t)memory, -1};
    return BT_OK;
}
static void worker_unshare(bti_ray_shared *room) { bti_free(room->memory); }

/* Python's number is where the value lies: the address, and the token. */
static bt_status worker_map(uint64_t number, uint64_t bytes, bti_ray_shared *shown) {
    *shown = (bti_ray_shared){(void *)(uintptr_t)number, bytes, number, -1};
    return BT_OK;
}
static void worker_unmap(bti_ray_shared *shown) {
    bti_lock_take(&unmap_lock);
    (void)bti_vec_push(&unmapped, shown->number);
    bti_lock_give(&unmap_lock);
}

static const bti_ray_side worker_side = {worker_send, worker_share, worker_unshare, worker_map, worker_unmap, true};

/* --- a call ---------------------------------------------------------------------------------------------------------------- */

typedef BTI_VEC(uint64_t) ids;

/* Of this thread, until its next call. */
static _Thread_local bti_run_result results;
static _Thread_local ids result_ids;

typedef struct running {
    bti_ray_job *job;
    bti_ray_call_head head;
    const char *arguments;
    bti_ray_block *large;   /* keeps the arguments; NULL: they are small */
    bti_ray_block **values; /* keeps large values; NULL: that one is small */
    ids references;         /* among the arguments, in order */
    void *rooms[BTI_RAY_MOST_RESULTS];
    uint64_t room_bytes[BTI_RAY_MOST_RESULTS];
    size_t ids_from[BTI_RAY_MOST_RESULTS + 1]; /* in `result_ids` */
    int index;
} running;

static bt_status resolve(void *call, const bti_packed_value *reference, const char **packed, void **owner) {
    const running *r = call;
    for (size_t i = 0; i < r->references.count; i++) {
        if (r->references.items[i] != reference->as.id) continue;
        if (!bti_packed_is_whole(r->job->values[i], r->job->value_bytes[i]))
            return bti_fail(BT_INTERNAL, "the value of argument %zu is damaged", i + 1);
        *packed = r->job->values[i];
        *owner = r->values[i];
        return BT_OK;
    }
    return bti_fail(BT_INTERNAL, "an argument is a reference that Ray has not resolved");
}

static bt_status room(void *call, int index, uint64_t bytes, uint64_t left, char **room_of) {
    running *r = call;
    if (index >= BTI_RAY_MOST_RESULTS) return bti_fail(BT_INTERNAL, "result %d", index);
    r->index = index;
    if (index == 0) result_ids.count = 0;
    r->ids_from[index] = r->ids_from[index + 1] = result_ids.count;
    bti_free(r->rooms[index]);
    r->rooms[index] = *room_of = NULL;
    if (bytes <= left) return BT_OK;
    if (!(r->rooms[index] = bti_alloc_aligned(64, (bytes + 63) / 64 * 64))) return bti_no_memory();
    r->room_bytes[index] = bytes;
    *room_of = r->rooms[index];
    return BT_OK;
}

static void seal(void *call, char *room_of, uint64_t bytes) {
    (void)call;
    (void)room_of;
    (void)bytes;
}

static bool is_cancelled(const void *call) {
    bti_str frame = {0};
    bti_ray_answer answer;
    (void)call;
    bti_errors_aside aside = bti_errors_aside_begin();
    bti_ray_ask_begin(&answer);
    bti_ray_begin(&frame, BTI_RAY_CANCELLED, answer.request);
    bt_status status = bti_ray_ask(&frame, &answer, -1);
    bti_errors_aside_end(aside);
    bti_free(answer.text);
    return status == BT_OK && answer.number;
}

/* The function's own references are gone before Python has the result: Python holds them. */
static bool keep_id(void *data, const bti_packed_value *head, bool in_list) {
    bti_str frame = {0};
    uint64_t id = head->as.id;
    (void)in_list;
    if (!bti_vec_push(&result_ids, id)) return *(bool *)data = false;
    bti_ray_begin(&frame, BTI_RAY_HOLD, 0);
    bti_ray_add64(&frame, id);
    return *(bool *)data = bti_ray_send(&frame) == BT_OK;
}

static bt_status keep_ids(void *call, const char *packed) {
    running *r = call;
    bool good = true;
    (void)bti_packed_each(packed, keep_id, &good);
    r->ids_from[r->index + 1] = result_ids.count;
    return good ? BT_OK : bti_no_memory();
}

static bt_status yield(void *call, const bti_values *value) {
    (void)call;
    (void)value;
    return bti_fail(BT_UNIMPLEMENTED,
                    "bt_yield: the engine ray has no streams; return a list (BT_LIST), or give each item to an actor");
}

static const bti_run_table run_table = {resolve, room, seal, is_cancelled, keep_ids, yield};

static bool add_reference(void *data, const bti_packed_value *head, bool in_list) {
    running *r = data;
    uint64_t id = head->as.id;
    return in_list || head->type != BT_REFERENCE || bti_vec_push(&r->references, id);
}

static bti_ray_block *block_of(const char *memory, uint64_t bytes, uint64_t token) {
    bti_ray_block *b = token ? bti_ray_block_new(0) : NULL;
    if (!b) return NULL;
    b->packed = memory;
    b->bytes = bytes;
    b->shown = (bti_ray_shared){NULL, bytes, token, -1};
    b->unmap = worker_unmap;
    return b;
}

static char *copy_of(const char *text, uint32_t bytes) {
    char *copy = bti_alloc((size_t)bytes + 1);
    if (copy) memcpy(copy, text, bytes), copy[bytes] = 0;
    return copy;
}

/* Reads what Python was sent, into *run; its module and function are the caller's to free. */
static bt_status read_call(running *r, bti_call_run *run, char **module, char **function) {
    bti_ray_job *job = r->job;
    bti_ray_reader reader = {job->call, job->call_bytes, false};
    uint32_t module_bytes, function_bytes;
    if (job->call_bytes < sizeof r->head) return bti_fail(BT_INTERNAL, "the call is damaged");
    memcpy(&r->head, job->call, sizeof r->head);
    reader.at += sizeof r->head;
    reader.left -= sizeof r->head;
    const char *key = bti_ray_read_text(&reader, &module_bytes);
    const char *name = bti_ray_read_text(&reader, &function_bytes);
    uint64_t at = ((uint64_t)(reader.at - job->call) + 15) / 16 * 16;
    if (reader.is_short || at > job->call_bytes || r->head.num_returns > BTI_RAY_MOST_RESULTS)
        return bti_fail(BT_INTERNAL, "the call is damaged");
    *module = copy_of(key, module_bytes);
    *function = copy_of(name, function_bytes);
    bool is_large = r->head.flags & BTI_RAY_HAS_LARGE;
    r->arguments = is_large ? job->large : job->call + at;
    run->bytes = is_large ? job->large_bytes : job->call_bytes - at;
    if (is_large) r->large = block_of(job->large, job->large_bytes, job->tokens[0]);
    r->values = bti_calloc(job->value_count + 1, sizeof *r->values);
    if (!*module || !*function || !r->values) return bti_no_memory();
    for (uint32_t i = 0; i < job->value_count; i++)
        r->values[i] = block_of(job->values[i], job->value_bytes[i], job->tokens[1 + i]);
    if (!bti_packed_is_whole(r->arguments, run->bytes)) return bti_fail(BT_INTERNAL, "the arguments are damaged");
    if (!bti_packed_each(r->arguments, add_reference, r)) return bti_no_memory();
    return r->references.count == job->value_count ? BT_OK : bti_fail(BT_INTERNAL, "the call has other references");
}

/* Where the results lie. */
static void tell_outputs(running *r) {
    bti_ray_job *job = r->job;
    uint64_t from = 0, bytes;
    uint32_t count = r->head.flags & BTI_RAY_MAKES_ACTOR ? 0 : r->head.num_returns;
    for (uint32_t i = 0; i < count && from + sizeof bytes <= results.bytes; i++) {
        memcpy(&bytes, results.small + from, sizeof bytes);
        from += sizeof bytes;
        job->outputs[i] = (bti_ray_output){.data = results.small + from, .bytes = bytes};
        if (!bytes && r->rooms[i]) {
            job->outputs[i] = (bti_ray_output){.data = r->rooms[i], .bytes = r->room_bytes[i], .is_room = 1};
            r->rooms[i] = NULL;
        }
        job->outputs[i].ids = result_ids.items + r->ids_from[i];
        job->outputs[i].id_count = r->ids_from[i + 1] - r->ids_from[i];
        from += bytes;
        job->output_count++;
    }
}

static void free_running(running *r) {
    for (int i = 0; i < BTI_RAY_MOST_RESULTS; i++) bti_free(r->rooms[i]);
    for (uint32_t i = 0; r->values && i < r->job->value_count; i++) bti_ray_block_release(r->values[i]);
    bti_free(r->values);
    bti_ray_block_release(r->large);
    bti_vec_free(&r->references);
}

/* --- GPUs ------------------------------------------------------------------------------------------------------------------ */

static int32_t gpu_ids[256];
static atomic_uint gpu_count;

static int worker_gpus(int *ids_to, int capacity) {
    int count = (int)atomic_load(&gpu_count);
    for (int i = 0; ids_to && i < count && i < capacity; i++) ids_to[i] = gpu_ids[i];
    return count;
}

/* All calls of a process that run at once have the same. */
static void know_gpus(const bti_ray_job *job) {
    uint32_t count = job->gpu_count < 256 ? job->gpu_count : 256;
    memcpy(gpu_ids, job->gpus, count * sizeof *gpu_ids);
    atomic_store(&gpu_count, count);
}

/* --- what Python calls ------------------------------------------------------------------------------------------------------- */

void bti_ray_run(bti_ray_job *job) {
    running r = {.job = job};
    bti_call_run run = {.table = &run_table, .call = &r};
    char *module = NULL, *function = NULL;
    job->output_count = 0;
    job->text[0] = 0;
    result_ids.count = 0;
    results.bytes = 0;
    bt_error_clear();
    know_gpus(job);
    bt_status status = read_call(&r, &run, &module, &function);
    if (status == BT_OK) {
        run.module = module;
        run.function = function;
        run.makes_actor = r.head.flags & BTI_RAY_MAKES_ACTOR;
        run.arguments = r.arguments;
        run.num_returns = (int)r.head.num_returns;
        run.owner = r.large;
        if (r.head.cpus >= 0) bti_surroundings_cpus((int64_t)(r.head.cpus * BTI_UNIT));
        if (r.head.gpus > 0 && r.head.gpus < 1) bti_memory_share(r.head.gpus);
        status = bti_run_call(&run, &results);
    }
    if (status == BT_OK) tell_outputs(&r);
    if (status != BT_OK)
        snprintf(job->text, sizeof job->text, "%s", *bt_error_text() ? bt_error_text() : bt_status_name(status));
    job->status = (int32_t)status;
    bti_output_flush();
    free_running(&r);
    send_unmapped();
    bti_free(module);
    bti_free(function);
}

int bti_ray_worker_begin(bti_ray_send_fn *send) {
    if (bti_ray_side_now && !bti_ray_side_now->in_worker) return 0;
    send_to_python = send;
    bti_ray_entries_begin();
    bti_ray_side_now = &worker_side;
    bti_ray_engine_join(worker_gpus);
    return 1;
}

int bti_ray_receive(const char *frame, uint64_t bytes) {
    return bti_ray_frame_bytes(frame, bytes) == (int64_t)bytes && bti_ray_receive_frame(frame, bytes);
}

static int tell_status(bt_status status, char *text) {
    if (status != BT_OK) snprintf(text, BTI_RAY_MOST_TEXT, "%s", bt_error_text());
    return (int)status;
}

int bti_ray_module(uint64_t content, const char *path, char *text) {
    return tell_status(bti_module_provide(content, path), text);
}
int bti_ray_program(const char *path, char *text) { return tell_status(bti_module_open_program(path), text); }
void bti_ray_free(void *memory) { bti_free(memory); }
void bti_ray_worker_end(void) { bti_run_end(); }
