#include "task/ray/calls.h"

#include <math.h>
#include <xxhash.h>

#include "base/alloc.h"
#include "base/lock.h"
#include "base/vec.h"
#include "task/modules.h"
#include "task/options.h"
#include "task/value.h"

enum { MOST_PROFILES = 1024, MOST_RESULTS = 100, ALIGNMENT = 16 };

/* --- profiles ------------------------------------------------------------------------------------------------------------ */

typedef struct profile {
    uint64_t hash;
    uint32_t number;
} profile;

/* protects the profiles; nothing is called under it */
BTI_STATIC_LOCK(profiles_lock, task_ray_profiles)
static profile profiles[MOST_PROFILES];
static uint32_t profile_count, profiles_ever;

static double real_or_nan(double amount) { return bti_is_set(amount) ? amount : (double)NAN; }
static uint32_t limit_of(int count) { return count == INT_MAX ? UINT32_MAX : (uint32_t)count; }

void bti_ray_add_resources(bti_str *frame, const bt_resource *resources) {
    uint32_t count = 0;
    while (count < 8 && resources[count].name) count++;
    bti_ray_add32(frame, count);
    for (uint32_t i = 0; i < count; i++) {
        bti_ray_add_text(frame, resources[i].name);
        bti_ray_add_real(frame, resources[i].amount);
    }
}

static bt_status check_amounts(const char *function, const bt_task_options *o) {
    int64_t units = 0;
    if (bti_is_set(o->num_cpus)) BTI_TRY(bti_units(o->num_cpus, "CPUs", &units));
    if (bti_is_set(o->num_gpus)) BTI_TRY(bti_units(o->num_gpus, "GPUs", &units));
    if (bti_is_set(o->num_gpus) && o->num_gpus > 1 && o->num_gpus > floor(o->num_gpus))
        return bti_fail(BT_INVALID_ARGUMENT, "%g GPUs: several GPUs are whole ones, a share is below 1", o->num_gpus);
    for (int i = 0; i < 8 && o->resources[i].name; i++)
        BTI_TRY(bti_units(o->resources[i].amount, o->resources[i].name, &units));
    if (bti_is_set(o->gpu_memory))
        return bti_fail(BT_UNIMPLEMENTED,
                        "%s: gpu_memory is set; Ray does not know the memory of GPUs: ask for a share, .num_gpus = 0.5",
                        function);
    return BT_OK;
}

static bt_status check_call(const bti_engine_call *call) {
    const bt_task_options *o = call->options;
    BTI_TRY(check_amounts(call->function, o));
    if (o->priority != BTI_UNSET_INT && o->priority)
        return bti_fail(BT_UNIMPLEMENTED, "%s: priority is %d; Ray has no priorities of calls", call->function,
                        o->priority);
    if (call->kind != BTI_CALL_METHOD && o->max_concurrency < 1)
        return bti_fail(BT_INVALID_ARGUMENT, "%s: max_concurrency is %d", call->function, o->max_concurrency);
    if (call->kind == BTI_CALL_ACTOR && bti_is_set(o->deadline_seconds) && o->deadline_seconds > 0)
        return bti_fail(BT_UNIMPLEMENTED,
                        "%s: deadline_seconds is %g; on Ray calls have deadlines, and actors have none", call->function,
                        o->deadline_seconds);
    if (call->kind == BTI_CALL_ACTOR && o->num_returns != 1)
        return bti_fail(BT_INVALID_ARGUMENT, "%s makes an actor, and so it has no results: num_returns is %d",
                        call->function, o->num_returns);
    if (o->num_returns < 1 || o->num_returns > MOST_RESULTS)
        return bti_fail(BT_INVALID_ARGUMENT, "%s: num_returns is %d; a call has 1 to %d results", call->function,
                        o->num_returns, MOST_RESULTS);
    return BT_OK;
}

static bool hides_gpus(const bt_task_options *o) { return bti_is_set(o->num_gpus) && !(o->num_gpus > 0); }

/* As session.py reads it. */
static void add_profile(bti_str *f, const bti_engine_call *call) {
    const bt_task_options *o = call->options;
    const bti_ray_entry *group = call->group;
    bti_ray_add32(f, call->kind);
    bti_ray_add_text(f, call->module);
    bti_ray_add_text(f, call->function);
    bti_ray_add_real(f, real_or_nan(o->num_cpus));
    bti_ray_add_real(f, real_or_nan(o->num_gpus));
    bti_ray_add32(f, limit_of(o->max_retries));
    bti_ray_add32(f, limit_of(o->max_restarts));
    bti_ray_add32(f, o->retry_failures);
    bti_ray_add32(f, (uint32_t)o->num_returns);
    bti_ray_add32(f, (uint32_t)o->max_concurrency);
    bti_ray_add32(f, (uint32_t)o->max_calls);
    bti_ray_add32(f, o->detached);
    bti_ray_add_real(f, o->deadline_seconds);
    bti_ray_add64(f, group ? group->id : 0);
    bti_ray_add32(f, (uint32_t)o->bundle);
    bti_ray_add_text(f, o->name);
    bti_ray_add_text(f, o->accelerator);
    bti_ray_add_resources(f, o->resources);
}

static uint32_t find_profile(uint64_t hash) {
    uint32_t number = 0;
    bti_lock_take(&profiles_lock);
    for (uint32_t i = 0; i < profile_count && !number; i++)
        if (profiles[i].hash == hash) number = profiles[i].number;
    bti_lock_give(&profiles_lock);
    return number;
}

static void keep_profile(uint64_t hash, uint32_t number) {
    bti_lock_take(&profiles_lock);
    if (profile_count == MOST_PROFILES) profile_count = 0; /* Python keeps the last so many, too */
    profiles[profile_count++] = (profile){hash, number};
    bti_lock_give(&profiles_lock);
}

/* Of calls like this one; Python is asked about the first. */
static bt_status profile_of(const bti_engine_call *call, uint32_t *number) {
    bti_str frame = {0};
    bti_ray_answer answer;
    bti_ray_ask_begin(&answer);
    bti_ray_begin(&frame, BTI_RAY_PROFILE, answer.request);
    size_t from = frame.length + sizeof(uint32_t);
    bti_ray_add32(&frame, 0);
    add_profile(&frame, call);
    if (frame.failed) return bti_str_free(&frame), bti_no_memory();
    uint64_t hash = XXH3_64bits(frame.text + from, frame.length - from);
    if ((*number = find_profile(hash)) != 0) return bti_str_free(&frame), BT_OK;
    bti_lock_take(&profiles_lock);
    *number = ++profiles_ever;
    bti_lock_give(&profiles_lock);
    memcpy(frame.text + from - sizeof *number, number, sizeof *number);
    bt_status status = bti_ray_ask(&frame, &answer, BTI_RAY_ANSWER_SECONDS);
    bti_free(answer.text);
    if (status == BT_OK) keep_profile(hash, *number);
    return status;
}

void bti_ray_calls_end(void) {
    bti_lock_take(&profiles_lock);
    profile_count = 0;
    bti_lock_give(&profiles_lock);
}

/* --- values ------------------------------------------------------------------------------------------------------------- */

/* What packed values refer to: references that a call waits for, and all others. */
typedef BTI_VEC(uint64_t) ids;
typedef struct referred {
    ids direct, nested;
    bool has_memory;
} referred;

static bool add_referred(void *data, const bti_packed_value *head, bool in_list) {
    referred *r = data;
    uint64_t id = head->as.id;
    ids *to = !in_list && head->type == BT_REFERENCE ? &r->direct : &r->nested;
    return r->has_memory = bti_vec_push(to, id);
}

static bt_status find_referred(const char *packed, referred *r) {
    *r = (referred){.has_memory = true};
    (void)bti_packed_each(packed, add_referred, r);
    return r->has_memory ? BT_OK : bti_no_memory();
}

static void free_referred(referred *r) {
    bti_vec_free(&r->direct);
    bti_vec_free(&r->nested);
}

static void add_ids(bti_str *frame, const ids *of) {
    bti_str_add_bytes(frame, of->items ? (const void *)of->items : "", of->count * sizeof *of->items);
}

/* Values on their way: in a block, or, if they are large, in shared memory. */
typedef struct parcel {
    char *packed;
    uint64_t bytes;
    bti_ray_block *block;
    bti_ray_shared shared;
    bool is_large;
    referred refers;
} parcel;

static void free_parcel(parcel *p) {
    bti_ray_block_release(p->block);
    if (p->is_large) bti_ray_side_now->unshare(&p->shared);
    free_referred(&p->refers);
}

static bt_status pack_parcel(const bti_values *values, parcel *p) {
    *p = (parcel){.bytes = bti_values_bytes(values)};
    if (p->bytes > BTI_RAY_LARGE) {
        BTI_TRY(bti_ray_side_now->share(p->bytes, &p->shared));
        p->is_large = true;
        p->packed = p->shared.memory;
    } else {
        if (!(p->block = bti_ray_block_new(p->bytes))) return bti_no_memory();
        p->packed = p->block->own;
    }
    bt_status status = bti_values_pack(values, p->packed);
    if (status == BT_OK) status = find_referred(p->packed, &p->refers);
    if (status != BT_OK) free_parcel(p);
    return status;
}

/* --- calls -------------------------------------------------------------------------------------------------------------- */

static void add_zeros(bti_str *frame, size_t from) {
    static const char zeros[ALIGNMENT] = {0};
    bti_str_add_bytes(frame, zeros, (ALIGNMENT - (frame->length - from) % ALIGNMENT) % ALIGNMENT);
}

/* What the worker gets. */
static void add_call(bti_str *f, const bti_engine_call *call, const parcel *p) {
    const bt_task_options *o = call->options;
    size_t from = f->length;
    bti_ray_call_head head = {.num_returns = (uint32_t)o->num_returns,
                              .direct = (uint32_t)p->refers.direct.count,
                              .nested = (uint32_t)p->refers.nested.count,
                              .cpus = bti_is_set(o->num_cpus) ? o->num_cpus : -1,
                              .gpus = bti_is_set(o->num_gpus) ? o->num_gpus : -1};
    (void)bti_module_content(call->module, &head.content);
    if (hides_gpus(o)) head.flags |= BTI_RAY_HIDES_GPUS;
    if (bti_is_set(o->num_gpus) && o->num_gpus > 0) head.flags |= BTI_RAY_HAS_GPUS;
    if (call->kind == BTI_CALL_ACTOR) head.flags |= BTI_RAY_MAKES_ACTOR;
    if (p->is_large) head.flags |= BTI_RAY_HAS_LARGE;
    bti_str_add_bytes(f, &head, sizeof head);
    bti_ray_add_text(f, call->module);
    bti_ray_add_text(f, call->function);
    add_zeros(f, from);
    if (!p->is_large) bti_str_add_bytes(f, p->packed, p->bytes);
}

/* Of a call with these results. */
static void write_call(bti_str *f, uint64_t request, uint32_t number, const bti_engine_call *call, const parcel *p,
                       uint64_t first) {
    const bti_ray_entry *actor = call->actor;
    int results = call->options->num_returns;
    bti_ray_begin(f, BTI_RAY_CALL, request);
    bti_ray_add32(f, number);
    bti_ray_add32(f, (uint32_t)results);
    bti_ray_add32(f, (uint32_t)p->refers.direct.count);
    bti_ray_add32(f, (uint32_t)p->refers.nested.count);
    bti_ray_add64(f, actor ? actor->id : 0);
    bti_ray_add64(f, p->is_large ? p->shared.number : 0);
    bti_ray_add64(f, p->is_large ? p->bytes : 0);
    for (int i = 0; i < results; i++) bti_ray_add64(f, bti_ray_id_of(first, i));
    add_ids(f, &p->refers.direct);
    add_ids(f, &p->refers.nested);
    add_call(f, call, p);
}

static bool add_results(bti_ray_entry *e, uint64_t first, int count) {
    if (count == 1) return true;
    if (!(e->results = bti_calloc(1, sizeof *e->results))) return (void)bti_no_memory(), false;
    *e->results = (bti_ray_results){.users = 1, .count = count, .first = first, .taken = {true}};
    return true;
}

void *bti_ray_submit(const bti_engine_call *call) {
    uint32_t number = 0;
    parcel p;
    bti_ray_answer answer = {0};
    bti_str frame = {0};
    if (check_call(call) != BT_OK || profile_of(call, &number) != BT_OK) return NULL;
    if (pack_parcel(&call->arguments, &p) != BT_OK) return NULL;
    uint64_t first = bti_ray_ids_new(call->options->num_returns);
    bool is_actor = call->kind == BTI_CALL_ACTOR;
    bti_ray_entry *e = bti_ray_entry_new(bti_ray_id_of(first, 0), !is_actor);
    bt_status status = e && add_results(e, first, call->options->num_returns) ? BT_OK : bt_error_status();
    if (status == BT_OK) {
        e->is_actor = is_actor;
        e->is_method = call->kind == BTI_CALL_METHOD;
        bool answered = is_actor || p.is_large;
        if (answered) bti_ray_ask_begin(&answer);
        write_call(&frame, answer.request, number, call, &p, first);
        status = answered ? bti_ray_ask(&frame, &answer, BTI_RAY_ANSWER_SECONDS) : bti_ray_send(&frame);
        bti_free(answer.text);
    }
    free_parcel(&p);
    if (status == BT_OK) return e;
    if (e) bti_ray_entry_release(e);
    return NULL;
}

/* The value as a block; the parcel no longer has it. NULL: out of memory, or there is none. */
static bti_ray_block *block_of_parcel(parcel *p) {
    bti_ray_block *block = p->is_large ? bti_ray_block_new(0) : p->block;
    if (block && p->is_large) {
        block->packed = p->packed;
        block->bytes = p->bytes;
        block->shown = p->shared;
        block->unmap = bti_ray_side_now->unshare;
        p->is_large = false;
    }
    p->block = NULL;
    return block;
}

/* The value is known here too. */
void *bti_ray_put(const bti_values *value) {
    parcel p;
    bti_ray_answer answer = {0};
    bti_str frame = {0};
    if (pack_parcel(value, &p) != BT_OK) return NULL;
    bti_ray_entry *e = bti_ray_entry_new(bti_ray_id_of(bti_ray_ids_new(1), 0), false);
    if (!e) return free_parcel(&p), NULL;
    if (p.refers.direct.count) /* of a value that is put they are not waited for */
        for (size_t i = 0; i < p.refers.direct.count; i++)
            (void)bti_vec_push(&p.refers.nested, p.refers.direct.items[i]);
    if (p.is_large) bti_ray_ask_begin(&answer);
    bti_ray_begin(&frame, BTI_RAY_PUT, answer.request);
    bti_ray_add64(&frame, e->id);
    bti_ray_add32(&frame, (uint32_t)p.refers.nested.count);
    bti_ray_add64(&frame, p.is_large ? p.shared.number : 0);
    bti_ray_add64(&frame, p.is_large ? p.bytes : 0);
    add_ids(&frame, &p.refers.nested);
    if (!p.is_large) bti_str_add_bytes(&frame, p.packed, p.bytes);
    bt_status status = p.is_large ? bti_ray_ask(&frame, &answer, BTI_RAY_ANSWER_SECONDS) : bti_ray_send(&frame);
    bti_free(answer.text);
    bti_ray_block *block = status == BT_OK ? block_of_parcel(&p) : NULL;
    if (block) bti_ray_entry_settle(e, block);
    free_parcel(&p);
    if (status == BT_OK) return e;
    bti_ray_entry_release(e);
    return NULL;
}

/* --- groups -------------------------------------------------------------------------------------------------------------- */

void *bti_ray_group(const bt_task_options *bundles, int count) {
    bti_ray_answer answer;
    bti_str frame = {0};
    int strategy = count && bundles[0].strategy != BTI_UNSET_INT ? bundles[0].strategy : BT_GROUP_PACK;
    if (count < 1) return (void)bti_fail(BT_INVALID_ARGUMENT, "a group has at least one bundle"), NULL;
    if (strategy < BT_GROUP_PACK || strategy > BT_GROUP_STRICT_SPREAD)
        return (void)bti_fail(BT_INVALID_ARGUMENT, "strategy is %d, which is none", strategy), NULL;
    for (int i = 0; i < count; i++)
        if (check_amounts("bt_group_new", &bundles[i]) != BT_OK) return NULL;
    bti_ray_entry *e = bti_ray_entry_new(bti_ray_id_of(bti_ray_ids_new(1), 0), false);
    if (!e) return NULL;
    e->is_group = true;
    bti_ray_ask_begin(&answer);
    bti_ray_begin(&frame, BTI_RAY_GROUP, answer.request);
    bti_ray_add64(&frame, e->id);
    bti_ray_add32(&frame, (uint32_t)strategy);
    bti_ray_add32(&frame, (uint32_t)count);
    for (int i = 0; i < count; i++) {
        bti_ray_add_real(&frame, real_or_nan(bundles[i].num_cpus));
        bti_ray_add_real(&frame, real_or_nan(bundles[i].num_gpus));
        bti_ray_add_text(&frame, bundles[i].accelerator);
        bti_ray_add_resources(&frame, bundles[i].resources);
    }
    bt_status status = bti_ray_ask(&frame, &answer, BTI_RAY_ANSWER_SECONDS);
    bti_free(answer.text);
    if (status == BT_OK) return e;
    bti_ray_entry_release(e);
    return NULL;
}
