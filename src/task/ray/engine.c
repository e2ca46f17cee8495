/* The engine ray: calls run on the machines of a Ray cluster. The table of the program and that of workers differ in how they begin. */
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/flags.h"
#include "base/vec.h"
#include "task/handles.h"
#include "task/options.h"
#include "task/ray/bridge.h"
#include "task/ray/calls.h"
#include "task/ray/engine.h"
#include "task/worker_engine.h"

enum { LEAST_LENT = 16 << 10 }; /* copying fewer bytes is faster than lending them */
enum { STOP_SECONDS = 10 };

/* --- the runtime --------------------------------------------------------------------------------------------------------- */

static bt_status check_options(const bt_runtime_options *o, const char *address) {
    static const char not_here[] = "%s is not used by the engine ray: %s";
    if (o->spill_folder || o->spill_bytes)
        return bti_fail(BT_UNIMPLEMENTED, not_here, ".spill_folder and .spill_bytes",
                        "Ray spills where it was told to (ray start)");
    if (o->gpu_wait_seconds > 0 || o->gpu_wait_seconds < 0)
        return bti_fail(BT_UNIMPLEMENTED, not_here, ".gpu_wait_seconds", "the GPUs are those of the cluster");
    if (o->max_processes) return bti_fail(BT_UNIMPLEMENTED, not_here, ".max_processes", "Ray starts the processes");
    if (o->gpu_memory > 0 || o->accelerator)
        return bti_fail(BT_UNIMPLEMENTED, not_here, ".gpu_memory and .accelerator",
                        "the nodes of the cluster say what they have");
    if (o->store_bytes && strcmp(address, "local") != 0)
        return bti_fail(BT_UNIMPLEMENTED, not_here, ".store_bytes", "the cluster has its store already");
    return BT_OK;
}

/* What session.py reads. */
static void write_start(bti_str *f, uint64_t request, const bt_runtime_options *o, const char *address) {
    char program[PATH_MAX] = "";
    ssize_t length = readlink("/proc/self/exe", program, sizeof program - 1);
    program[length > 0 ? length : 0] = 0;
    bti_ray_begin(f, BTI_RAY_START, request);
    bti_ray_add_text(f, address);
    bti_ray_add_real(f, bti_is_set(o->num_cpus) ? o->num_cpus : (double)NAN);
    bti_ray_add32(f, (uint32_t)o->num_gpus);
    bti_ray_add64(f, o->store_bytes);
    bti_ray_add_resources(f, o->resources);
    bti_ray_add_text(f, program);
    bti_ray_add_real(f, bti_flag_float(BTI_FLAG_ray_start_seconds));
}

static bt_status start_at(const bt_runtime_options *options, const char *address) {
    bti_str frame = {0};
    bti_ray_answer answer;
    double seconds = bti_flag_float(BTI_FLAG_ray_start_seconds);
    BTI_TRY(check_options(options, address));
    bti_ray_entries_begin();
    BTI_TRY(bti_ray_bridge_start());
    bti_ray_ask_begin(&answer);
    write_start(&frame, answer.request, options, address);
    bt_status status = bti_ray_ask(&frame, &answer, seconds);
    bti_free(answer.text);
    if (status == BT_OK) return BT_OK;
    if (status == BT_DEADLINE_EXCEEDED)
        status = bti_fail(status,
                          "Ray at \"%s\" did not answer within %g seconds: is it running (ray status), and does the "
                          "port fit? The flag "
                          "ray_start_seconds sets the limit",
                          address, seconds);
    bti_error *why = bti_error_last();
    bti_ray_bridge_stop(0.2);
    bti_ray_side_now = NULL;
    bti_error_put_back(why);
    return status;
}

static bt_status ray_start(const bt_runtime_options *options) {
    char *flag = bti_flag_text(BTI_FLAG_task_address);
    const char *address = options->address ? options->address : flag && *flag ? flag : "auto";
    bt_status status = start_at(options, address);
    bti_free(flag);
    return status;
}

static bt_status ray_stop(void) {
    bti_str frame = {0};
    bti_ray_answer answer;
    if (bti_ray_lost() == BT_OK) {
        bti_ray_ask_begin(&answer);
        bti_ray_begin(&frame, BTI_RAY_STOP, answer.request);
        bti_errors_aside aside = bti_errors_aside_begin();
        (void)bti_ray_ask(&frame, &answer, STOP_SECONDS);
        bti_errors_aside_end(aside);
        bti_free(answer.text);
    }
    bti_ray_bridge_stop(STOP_SECONDS);
    return BT_OK;
}

static void ray_close(void) {
    bti_ray_side_now = NULL;
    bti_ray_calls_end();
    bti_ray_entries_end();
}

static bt_status ray_fault(bool thorough) {
    (void)thorough;
    return bti_ray_side_now ? bti_ray_lost() : BT_OK;
}

/* --- results ------------------------------------------------------------------------------------------------------------- */

static bt_status ray_wait(void *const *held, int count, int wanted, double seconds) {
    BTI_VEC(uint64_t) pending = {0};
    uint64_t ahead[BTI_RAY_MOST_AHEAD];
    bool has_memory = true;
    for (int i = 0; i < count && has_memory; i++) {
        const bti_ray_entry *e = held[i];
        if (bti_ray_entry_state(e) == BTI_RAY_PENDING)
            has_memory = bti_vec_push(&pending, e->id);
        else
            wanted--;
    }
    if (!has_memory || wanted <= 0) return bti_vec_free(&pending), has_memory ? BT_OK : bti_no_memory();
    int ahead_count = count == 1 ? bti_ray_entries_ahead(held[0], ahead) : 0;
    bti_str frame = {0};
    bti_ray_answer answer;
    bti_ray_ask_begin(&answer);
    bti_ray_begin(&frame, BTI_RAY_WAIT, answer.request);
    bti_ray_add32(&frame, (uint32_t)pending.count);
    bti_ray_add32(&frame, (uint32_t)wanted);
    bti_ray_add_real(&frame, seconds >= 0 && seconds < 1e9 ? seconds : -1);
    bti_ray_add32(&frame, (uint32_t)ahead_count);
    bti_str_add_bytes(&frame, pending.items, pending.count * sizeof *pending.items);
    bti_str_add_bytes(&frame, ahead, (size_t)ahead_count * sizeof *ahead);
    bti_vec_free(&pending);
    bt_status status = bti_ray_ask(&frame, &answer, seconds >= 0 ? seconds + BTI_RAY_ANSWER_SECONDS : -1);
    bti_free(answer.text);
    return status;
}

static bool ray_is_done(void *held) { return bti_ray_entry_state(held) != BTI_RAY_PENDING; }

static bt_failure ray_failure(void *held) {
    const bti_ray_entry *e = held;
    return bti_ray_entry_state(e) == BTI_RAY_FAILED ? e->failure : BT_FAILURE_NONE;
}

/* A large value, which Python has. */
static bt_status fetch_value(bti_ray_entry *e) {
    bti_str frame = {0};
    bti_ray_answer answer;
    bti_ray_ask_begin(&answer);
    bti_ray_begin(&frame, BTI_RAY_FETCH, answer.request);
    bti_ray_add64(&frame, e->id);
    bt_status status = bti_ray_ask(&frame, &answer, -1);
    bti_free(answer.text);
    BTI_TRY(status);
    if (!(answer.real >= 1 && answer.real < 0x1p62))
        return bti_fail(BT_UNAVAILABLE, "the bridge to Ray answers with a value of %g bytes, which is none",
                        answer.real);
    bti_ray_block *block = bti_ray_block_new(0);
    if (!block) return bti_no_memory();
    status = bti_ray_side_now->map(answer.number, (uint64_t)answer.real, &block->shown);
    if (status != BT_OK) return bti_ray_block_release(block), status;
    block->unmap = bti_ray_side_now->unmap;
    block->packed = block->shown.memory;
    block->bytes = block->shown.bytes;
    return bti_ray_entry_settle(e, block), BT_OK;
}

static bt_status ray_read(void *held, bti_reading *reading) {
    bti_ray_entry *e = held;
    bti_ray_state state = bti_ray_entry_state(e);
    if (state == BTI_RAY_FAILED) return bti_ray_entry_fail(e);
    if (state == BTI_RAY_REMOTE) BTI_TRY(fetch_value(e));
    bti_ray_block_retain(e->block);
    *reading = (bti_reading){e->block->packed, e->block->bytes, e->block, e->block};
    return BT_OK;
}

static bt_array *ray_array_in(void *owner, bool is_argument, const void *data, uint64_t bytes, bt_dtype dtype,
                              bt_shape shape) {
    (void)is_argument;
    if (bytes < LEAST_LENT) return bt_from(data, dtype, shape);
    bti_ray_block_retain(owner);
    return bt_from_lent(data, dtype, shape, bti_ray_block_release, owner);
}

static uint64_t ray_id(const void *held) { return ((const bti_ray_entry *)held)->id; }
static void *ray_hold(uint64_t id) { return bti_ray_entry_hold(id); }
static void ray_release(void *held) { bti_ray_entry_release(held); }

static void *ray_result(void *held, int index) { return bti_ray_entry_result(held, index); }

/* --- requests about one -------------------------------------------------------------------------------------------------- */

static bt_status ask_about(bti_ray_kind kind, const bti_ray_entry *e, unsigned how, bti_ray_answer *answer) {
    bti_str frame = {0};
    bti_ray_ask_begin(answer);
    bti_ray_begin(&frame, kind, answer->request);
    bti_ray_add64(&frame, e->id);
    bti_ray_add32(&frame, how);
    bt_status status = bti_ray_ask(&frame, answer, BTI_RAY_ANSWER_SECONDS);
    bti_free(answer->text);
    return status;
}

static bt_status ray_cancel(void *held, unsigned how) {
    bti_ray_answer answer;
    return ray_is_done(held) ? BT_OK : ask_about(BTI_RAY_CANCEL, held, how, &answer);
}

static bt_status ray_actor_kill(void *held) {
    bti_ray_answer answer;
    return ask_about(BTI_RAY_KILL, held, 0, &answer);
}

static bt_status ray_actor_status(void *held) {
    bti_ray_answer answer;
    if (ray_is_done(held)) return bti_ray_entry_fail(held);
    BTI_TRY(ask_about(BTI_RAY_STATUS, held, 0, &answer));
    return ray_is_done(held) ? bti_ray_entry_fail(held) : BT_OK;
}

/* A request about a name; its text, if it is wanted, is the caller's to bti_free. */
static bt_status ask_name(bti_ray_kind kind, const char *name, bool flag, bti_ray_answer *answer, char **text) {
    bti_str frame = {0};
    bti_ray_ask_begin(answer);
    bti_ray_begin(&frame, kind, answer->request);
    bti_ray_add_text(&frame, name);
    bti_ray_add32(&frame, flag);
    bt_status status = bti_ray_ask(&frame, answer, BTI_RAY_ANSWER_SECONDS);
    if (text && status == BT_OK)
        *text = answer->text;
    else
        bti_free(answer->text);
    return status;
}

static void *ray_actor_find(const char *name) {
    bti_ray_answer answer;
    if (ask_name(BTI_RAY_FIND, name, false, &answer, NULL) != BT_OK) return NULL;
    bti_ray_entry *e = bti_ray_entry_hold(answer.number);
    if (e) e->is_actor = true;
    return e;
}

static double ray_resource(const char *name, bool only_free) {
    bti_ray_answer answer;
    return ask_name(BTI_RAY_RESOURCE, name, only_free, &answer, NULL) == BT_OK ? answer.real : (double)NAN;
}

static char *ray_view(const char *what) {
    bti_ray_answer answer;
    char *text = NULL;
    return ask_name(BTI_RAY_VIEW, what, false, &answer, &text) == BT_OK ? text : NULL;
}

/* Only workers have GPUs. */
static int ray_gpus(int *ids, int capacity) {
    (void)ids;
    (void)capacity;
    return 0;
}

/* --- the tables ---------------------------------------------------------------------------------------------------------- */

const bti_engine bti_engine_ray = {
    .name = "ray",
    .start = ray_start,
    .stop = ray_stop,
    .close = ray_close,
    .submit = bti_ray_submit,
    .put = bti_ray_put,
    .result = ray_result,
    .read = ray_read,
    .unpin = bti_ray_block_release,
    .wait = ray_wait,
    .is_done = ray_is_done,
    .failure = ray_failure,
    .cancel = ray_cancel,
    .release = ray_release,
    .actor_status = ray_actor_status,
    .actor_find = ray_actor_find,
    .actor_kill = ray_actor_kill,
    .group = bti_ray_group,
    .resource = ray_resource,
    .gpus = ray_gpus,
    .id = ray_id,
    .hold = ray_hold,
    .array_in = ray_array_in,
    .view = ray_view,
    .fault = ray_fault,
    .detaches = true,
};

/* A worker neither starts nor ends a runtime, here as on one machine. */
void bti_ray_engine_join(int (*gpus)(int *ids, int capacity)) {
    static bti_engine worker;
    worker = bti_engine_ray;
    worker.name = "ray worker";
    worker.start = bti_engine_worker.start;
    worker.stop = bti_engine_worker.stop;
    worker.close = bti_engine_worker.close;
    worker.gpus = gpus;
    bti_engine_join(&worker);
}
