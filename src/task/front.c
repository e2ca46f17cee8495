/* The public functions: they check, find the engine, and own handles. */
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <time.h>

#include "array/handle.h"
#include "base/alloc.h"
#include "base/flags.h"
#include "base/vec.h"
#include "task/engine.h"
#include "task/options.h"
#include "task/process.h"
#include "task/timeline.h"
#include "task/value.h"
#include "task/view.h"

struct bt_ref {
    bti_owned head;
    uint64_t runtime;    /* the one that it is of */
    void *held;          /* NULL: poisoned */
    _Atomic(void *) pin; /* of the value, which texts and bytes that were read of it point into */
    bool ended;          /* of a stream: bt_stream_next has given all */
    uint32_t failure;    /* of one that is poisoned by the end of its actor: bt_failure */
};
struct bt_actor {
    bt_ref ref;
};
struct bt_group {
    bt_ref ref;
};

enum { MOST_ENGINES = 8 };
static const bti_engine *engines[MOST_ENGINES] = {&bti_engine_local};
static const bti_engine *engine;
static uint64_t runtime; /* counts those that this process began */
static int default_retries;

void bti_engine_join(const bti_engine *of) { engine = of; }
void bti_engine_add(const bti_engine *of) {
    int count = 0;
    while (count < MOST_ENGINES && engines[count] && engines[count] != of) count++;
    if (count < MOST_ENGINES) engines[count] = of;
}
bool bti_engine_is_joined(void) { return engine != NULL; }

/* A call that is inside of the engine, which is closed after the last. */
typedef struct visit {
    bool inside;
} visit;
static atomic_int visitors;
static atomic_bool ending;

/* What an engine says of its own end stays as the error of the call. */
static bool is_sound(bool thorough) { return !engine->fault || engine->fault(thorough) == BT_OK; }

/* Of a call that failed: the end of the engine comes first. */
static bt_status cause(bt_status status) {
    return status == BT_OK || !engine || is_sound(true) ? status : bt_error_status();
}

static visit enter(bool thorough) {
    atomic_fetch_add(&visitors, 1);
    if (!atomic_load(&ending) && engine && is_sound(thorough))
        return (visit){true}; /* in this order: the end is told after it is gone */
    atomic_fetch_sub(&visitors, 1);
    return (visit){false};
}

static void leave(const visit *v) {
    if (v->inside) atomic_fetch_sub(&visitors, 1);
}
#define VISIT(v) __attribute__((cleanup(leave))) const visit v = enter(true)

/* A child that the program or a task forks is no part of it. */
static void leave_runtime(void) {
    engine = NULL;
    runtime++;
    atomic_store(&visitors, 0);
    atomic_store(&ending, false);
}
__attribute__((constructor)) static void watch_forks(void) { pthread_atfork(NULL, NULL, leave_runtime); }

static bt_status no_runtime(void) {
    if (engine && !is_sound(true)) return bt_error_status();
    return bti_fail(BT_FAILED_PRECONDITION, "no runtime: bt_runtime_init comes first");
}

/* --- the runtime ------------------------------------------------------------------------------------------------------- */

static bt_status choose_engine(const char *asked) {
    char known[200] = "", *flag = asked ? NULL : bti_flag_text(BTI_FLAG_task_engine);
    const char *name = asked ? asked : flag && *flag ? flag : "local";
    for (int i = 0; i < MOST_ENGINES && engines[i] && !engine; i++) {
        size_t length = strlen(known);
        snprintf(known + length, sizeof known - length, "%s%s", length ? ", " : "", engines[i]->name);
        if (!strcmp(engines[i]->name, name)) engine = engines[i];
    }
    bt_status status = engine ? BT_OK : bti_fail(BT_NOT_FOUND, "there is no engine \"%s\"; known: %s", name, known);
    bti_free(flag);
    return status;
}

bt_status bt_runtime_start(const bt_runtime_options *options) {
    BTI_CALL("bt_runtime_init");
    bt_runtime_options known;
    BTI_TRY(bti_runtime_options_take(options, &known));
    if (engine) return bti_fail(BT_ALREADY_EXISTS, "a runtime is there already");
    BTI_TRY(choose_engine(known.engine));
    runtime++; /* before: workers begin inside */
    default_retries = known.max_retries;
    bt_status status = engine->start(&known);
    if (status != BT_OK) engine = NULL;
    return status;
}

bt_status(bt_runtime_shutdown)(void) {
    if (!engine) return BT_OK;
    if (atomic_exchange(&ending, true))
        return bti_fail(BT_FAILED_PRECONDITION, "bt_runtime_shutdown: another thread is at it");
    bt_status status = engine->stop();
    if (status == BT_OK) {
        while (atomic_load(&visitors)) nanosleep(&(struct timespec){.tv_nsec = 100000}, NULL);
        engine->close();
        engine = NULL;
    }
    atomic_store(&ending, false);
    return status;
}

static double resource(const char *name, bool only_free) {
    VISIT(v);
    return v.inside && name ? engine->resource(name, only_free) : NAN;
}
double bt_resource_total(const char *name) { return resource(name, false); }
double bt_resource_free(const char *name) { return resource(name, true); }

int bt_get_gpu_ids(int *ids, int capacity) { return engine ? engine->gpus(ids, capacity) : 0; }

/* --- handles ----------------------------------------------------------------------------------------------------------- */

static void clear(void *handle) {
    const bt_ref *ref = handle;
    VISIT(v);
    if (!ref->held || !v.inside || ref->runtime != runtime) return;
    void *pin = atomic_load(&ref->pin);
    if (pin) engine->unpin(pin);
    engine->release(ref->held);
}

static bt_ref no_ref = {.head = BTI_NO_MEMORY};
static bt_actor no_actor = {.ref.head = BTI_NO_MEMORY};
static bt_group no_group = {.ref.head = BTI_NO_MEMORY};
static const bti_handle_class ref_class = {BTI_OWNED_REF, sizeof(bt_ref), clear, &no_ref};
static const bti_handle_class actor_class = {BTI_OWNED_ACTOR, sizeof(bt_actor), clear, &no_actor};
static const bti_handle_class group_class = {BTI_OWNED_GROUP, sizeof(bt_group), clear, &no_group};

/* Of what the engine gave; poisoned by the error record when that is NULL. */
static void *own(const bti_handle_class *class, void *held) {
    if (!held) (void)!cause(BT_INTERNAL);
    bt_ref *ref = held ? bti_owned_new(class->kind, class->bytes) : NULL;
    if (ref) {
        ref->runtime = runtime;
        ref->held = held;
    } else if (held) {
        engine->release(held);
        (void)!bti_fail(BT_RESOURCE_EXHAUSTED, "out of host memory");
    }
    return bti_scope_own(class, ref);
}

static bt_ref *ref_of(void *held) { return own(&ref_class, held); }
static bt_actor *actor_of(void *held) { return own(&actor_class, held); }
static bt_group *handle_of(void *held) { return own(&group_class, held); }

/* Inside of the engine. NULL with the cause in the error record. */
static void *held_by(const void *handle, const char *what) {
    const bt_ref *ref = handle;
    if (!ref) return (void)bti_fail(BT_INVALID_ARGUMENT, "the %s is NULL", what), NULL;
    if (bti_fail_with(bti_owned_error(&ref->head, (bti_owned_kind)ref->head.kind)) != BT_OK) return NULL;
    if (engine && !is_sound(false)) return NULL;
    if (engine && ref->runtime == runtime && !atomic_load(&ending)) return ref->held;
    return (void)bti_fail(BT_FAILED_PRECONDITION, "the runtime of this %s was shut down", what), NULL;
}

bt_ref *bt_ref_retain(bt_ref *ref) { return bti_handle_retain(&ref_class, ref, "bt_ref_retain"); }
void bt_ref_release(bt_ref *ref) { bti_handle_release(&ref_class, ref, "bt_ref_release"); }
bt_actor *bt_actor_retain(bt_actor *actor) { return bti_handle_retain(&actor_class, actor, "bt_actor_retain"); }
void bt_actor_release(bt_actor *actor) { bti_handle_release(&actor_class, actor, "bt_actor_release"); }
bt_group *bt_group_retain(bt_group *group) { return bti_handle_retain(&group_class, group, "bt_group_retain"); }
void bt_group_release(bt_group *group) { bti_handle_release(&group_class, group, "bt_group_release"); }

bt_ref *bti_ref_give(bt_ref *ref) { return bti_scope_own(&ref_class, ref); }

uint64_t bti_ref_id(const bt_ref *ref) { return engine->id(ref->held); }
uint64_t bti_actor_id(const bt_actor *actor) { return engine->id(actor->ref.held); }

static void *hold_of_id(uint64_t id) { return engine ? engine->hold(id) : ((void)no_runtime(), NULL); }

bt_ref *bti_ref_from(uint64_t id) {
    void *held = hold_of_id(id);
    return held ? ref_of(held) : NULL;
}

bt_actor *bti_actor_from(uint64_t id) {
    void *held = hold_of_id(id);
    return held ? actor_of(held) : NULL;
}

bt_array *bti_array_from(void *owner, bool is_argument, const void *data, uint64_t bytes, bt_dtype dtype,
                         bt_shape shape) {
    if (!engine || !owner) return bt_from(data, dtype, shape);
    return engine->array_in(owner, is_argument, data, bytes, dtype, shape);
}

/* --- values ------------------------------------------------------------------------------------------------------------ */

bt_status bti_check_handle(const void *handle, const char *what) {
    return held_by(handle, what) ? BT_OK : bt_error_status();
}

bt_ref *bti_put(const bt_item_value *value) {
    BTI_CALL("bt_put");
    VISIT(v);
    if (!v.inside) return (void)no_runtime(), ref_of(NULL);
    return ref_of(bti_check_values("bt_put", value, 1) == BT_OK ? engine->put(&(bti_values){value, 1, NULL, 0}) : NULL);
}

/* --- calls ------------------------------------------------------------------------------------------------------------- */

/* The actor of that name; NULL without an error: there is none. */
static void *find_quietly(const char *name) {
    bti_errors_aside aside = bti_errors_aside_begin();
    void *held = engine->actor_find(name);
    return bti_errors_aside_end(aside), held;
}

/* Of several that make it at once all get the same: a call after the submission finds the one that came first. */
static void *get_or_submit(const bti_call *c) {
    const char *name = c->options->name;
    if (!name)
        return (void)bti_fail(BT_INVALID_ARGUMENT, "%s: .get_if_exists is set and .name is not", c->function), NULL;
    for (;;) {
        void *held = find_quietly(name);
        if (held) return held;
        bti_error *before = bti_error_last();
        bool quiet = bti_errors_quiet(true);
        held = engine->submit(c);
        bti_errors_quiet(quiet);
        bool comes_late = !held && bt_error_status() == BT_ALREADY_EXISTS;
        if (comes_late) {
            bti_error_put_back(before);
            continue;
        }
        bti_error_release(before);
        void *first = held ? find_quietly(name) : NULL;
        if (first) engine->release(held);
        if (!held) bti_error_tell(bti_error_last());
        return first ? first : held;
    }
}

static void *call(bti_call_kind kind, const bt_remote_entry *entry, const bt_task_options *options, bt_actor *actor,
                  const bt_item_value *arguments, int count) {
    static const char *const names[] = {[BTI_CALL_TASK] = "bt_remote_with",
                                        [BTI_CALL_ACTOR] = "bt_actor_new_with",
                                        [BTI_CALL_METHOD] = "bt_method_with"};
    if (!entry) return NULL;
    bt_task_options o;
    int retries = kind == BTI_CALL_TASK ? default_retries : 0;
    if (bti_task_options_merge(names[kind], entry, options, retries, &o) != BT_OK) return NULL;
    bti_call c = {.kind = kind,
                  .module = entry->module,
                  .function = entry->name,
                  .options = &o,
                  .arguments = {arguments, count, NULL, 0}};
    if (kind == BTI_CALL_METHOD && !(c.actor = held_by(actor, "actor"))) return NULL;
    if (o.group && !(c.group = held_by(o.group, "group"))) return NULL;
    if (bti_check_values(entry->name, arguments, count) != BT_OK) return NULL;
    if (kind != BTI_CALL_ACTOR) return engine->submit(&c);
    if (o.detached && !engine->detaches)
        return (void)bti_fail(BT_UNIMPLEMENTED,
                              "%s: a detached actor outlives its program; the engine \"%s\" ends all processes with it",
                              entry->name, engine->name),
               NULL;
    return o.get_if_exists ? get_or_submit(&c) : engine->submit(&c);
}

bt_ref *bti_remote(const bt_remote_entry *entry, const bt_task_options *options, const bt_item_value *arguments,
                   int count) {
    BTI_CALL((options ? "bt_remote_with" : "bt_remote"));
    VISIT(v);
    if (!v.inside) return (void)no_runtime(), ref_of(NULL);
    return ref_of(call(BTI_CALL_TASK, entry, options, NULL, arguments, count));
}

bt_actor *bti_actor(const bt_remote_entry *entry, const bt_task_options *options, const bt_item_value *arguments,
                    int count) {
    BTI_CALL((options ? "bt_actor_new_with" : "bt_actor_new"));
    VISIT(v);
    if (!v.inside) return (void)no_runtime(), actor_of(NULL);
    return actor_of(call(BTI_CALL_ACTOR, entry, options, NULL, arguments, count));
}

bt_ref *bti_method(bt_actor *actor, const bt_remote_entry *entry, const bt_task_options *options,
                   const bt_item_value *arguments, int count) {
    BTI_CALL((options ? "bt_method_with" : "bt_method"));
    VISIT(v);
    if (!v.inside) return (void)no_runtime(), ref_of(NULL);
    bt_ref *ref = ref_of(call(BTI_CALL_METHOD, entry, options, actor, arguments, count));
    bool is_dead = actor && !ref->held && ref != &no_ref && !bti_owned_is_released(&actor->ref.head) &&
                   actor->ref.held && actor->ref.runtime == runtime && engine->is_done(actor->ref.held);
    if (is_dead) ref->failure = engine->failure(actor->ref.held);
    return ref;
}

static const bt_remote_entry *entry_of(const char *module, const char *name) {
    const bt_remote_entry *entry = NULL;
    if (!name) (void)bti_fail(BT_INVALID_ARGUMENT, "the name of the function is NULL");
    if (!name || bti_module_find(module ? module : "", name, &entry) != BT_OK) return NULL;
    return entry;
}

bt_ref *bt_remote_named(const char *module, const char *name, const bt_task_options *options,
                        const bt_item_value *arguments, int count) {
    BTI_CALL("bt_remote_named");
    return bti_remote(entry_of(module, name), options, arguments, count);
}

bt_actor *bt_actor_named(const char *module, const char *name, const bt_task_options *options,
                         const bt_item_value *arguments, int count) {
    BTI_CALL("bt_actor_named");
    return bti_actor(entry_of(module, name), options, arguments, count);
}

bt_ref *bt_method_named(bt_actor *actor, const char *module, const char *name, const bt_task_options *options,
                        const bt_item_value *arguments, int count) {
    BTI_CALL("bt_method_named");
    return bti_method(actor, entry_of(module, name), options, arguments, count);
}

bt_ref *(bt_result)(bt_ref *ref, int index) {
    BTI_CALL("bt_result");
    VISIT(v);
    void *held = held_by(ref, "reference");
    if (held && index < 0) held = ((void)bti_fail(BT_OUT_OF_RANGE, "result %d; the first is 0", index), NULL);
    return ref_of(held && v.inside ? engine->result(held, index) : NULL);
}

/* --- results ----------------------------------------------------------------------------------------------------------- */

/* The reference keeps the value where it is, as long as it is held itself. */
static void keep_pinned(bt_ref *ref, void *pin) {
    void *none = NULL;
    if (pin && !atomic_compare_exchange_strong(&ref->pin, &none, pin)) engine->unpin(pin);
}

static bt_status read_value(bt_ref *ref, bt_value_type type, size_t bytes, void *out) {
    bti_reading reading = {0};
    if (type == BT_NOTHING && engine->failure(ref->held) == BT_FAILURE_NONE) return BT_OK;
    BTI_TRY(engine->read(ref->held, &reading));
    bt_status status = BT_OK;
    if (!reading.packed || !bti_packed_is_whole(reading.packed, reading.bytes))
        status = bti_fail(BT_INTERNAL, "the value of this reference is damaged");
    bti_unpacked_value value = bti_unpack(status == BT_OK ? reading.packed : NULL, 0);
    if (status == BT_OK) status = bti_value_to(&value, &(bti_value_place){.owner = reading.owner}, type, bytes, out);
    if (bti_points_into(type))
        keep_pinned(ref, reading.pin);
    else if (reading.pin)
        engine->unpin(reading.pin);
    return status;
}

bt_status bti_get(bt_ref *ref, bt_value_type type, size_t bytes, void *out, double seconds) {
    BTI_CALL((seconds < 0 ? "bt_get" : "bt_get_within"));
    __attribute__((cleanup(leave))) const visit v = enter(false); /* a value that is there is all that it looks at */
    void *held = held_by(ref, "reference");
    if (!held) return bt_error_status();
    for (;;) {
        bt_status status = engine->is_done(held) ? BT_OK : engine->wait(&held, 1, 1, seconds);
        if (status != BT_OK) return cause(status);
        if (!engine->is_done(held)) return bti_fail(BT_DEADLINE_EXCEEDED, "not done within %g seconds", seconds);
        status = read_value(ref, type, bytes, out);
        if (engine->is_done(held)) return cause(status);
    }
}

bt_failure bt_ref_failure(bt_ref *ref) {
    BTI_CALL("bt_ref_failure");
    VISIT(v);
    if (ref && !bti_owned_is_released(&ref->head) && ref->head.error)
        return ref->failure ? (bt_failure)ref->failure : BT_FAILURE_REFUSED;
    void *held = held_by(ref, "reference");
    if (!held) return BT_FAILURE_NONE;
    return engine->is_done(held) ? engine->failure(held) : BT_FAILURE_NONE;
}

bool bt_failure_is_retryable(bt_failure failure) {
    return failure >= BT_FAILURE_PROCESS_DIED && failure <= BT_FAILURE_NODE_DIED;
}

/* --- streams ----------------------------------------------------------------------------------------------------------- */

/* The reference stands for what follows the link from now on. */
static bt_ref *follow(bt_ref *stream, bti_stream_link link) {
    void *item = engine->hold(link.item), *next = item ? engine->hold(link.next) : NULL;
    if (item && !next) engine->release(item);
    if (!next) return ref_of(NULL);
    engine->release(stream->held);
    stream->held = next;
    return ref_of(item);
}

/* It is done. NULL: the end. */
static bt_ref *next_item(bt_ref *stream) {
    bti_reading reading = {0};
    bti_stream_link link = {0};
    bt_value_type type = BT_NOTHING;
    stream->ended = true;
    if (engine->read(stream->held, &reading) != BT_OK) /* another reference to the failure */
        return ref_of(engine->hold(engine->id(stream->held)));
    if (reading.packed && bti_packed_is_whole(reading.packed, reading.bytes)) {
        bti_unpacked_value value = bti_unpack(reading.packed, 0);
        type = (bt_value_type)value.head.type;
        if (type == BT_STREAM_VALUE) memcpy(&link, value.data, sizeof link);
    }
    if (reading.pin) engine->unpin(reading.pin);
    if (type == BT_NOTHING) return NULL;
    if (type != BT_STREAM_VALUE) {
        (void)bti_fail(BT_INVALID_ARGUMENT, "this is no stream: the call has returned a value, and yields nothing");
        return ref_of(NULL);
    }
    stream->ended = false;
    return follow(stream, link);
}

/* No more comes of it; a static one cannot be told. */
static bt_ref *give_up(bt_ref **stream) {
    if (bti_owned_is_released(&(*stream)->head) || *stream == &no_ref)
        *stream = NULL;
    else
        (*stream)->ended = true;
    return ref_of(NULL);
}

bt_ref *(bt_stream_next)(bt_ref **stream, double seconds) {
    BTI_CALL("bt_stream_next");
    VISIT(v);
    if (!stream) return (void)bti_fail(BT_INVALID_ARGUMENT, "the stream is NULL"), NULL;
    bt_ref *ref = *stream;
    if (!ref || (!bti_owned_is_released(&ref->head) && ref->ended)) return NULL;
    for (;;) {
        void *held = held_by(ref, "stream");
        if (!held || !v.inside) return give_up(stream);
        if (!engine->is_done(held) && cause(engine->wait(&held, 1, 1, seconds)) != BT_OK) return give_up(stream);
        if (!engine->is_done(held)) {
            (void)bti_fail(BT_DEADLINE_EXCEEDED, "no item within %g seconds", seconds);
            return ref_of(NULL);
        }
        bt_ref *item = next_item(ref);
        if (ref->held != held || engine->is_done(held)) return item;
        ref->ended = false; /* who was settling it has died in the middle */
    }
}

static int count_done(bt_ref *const *refs, int count, bool *ready) {
    int done = 0;
    for (int i = 0; i < count; i++) {
        bool is = refs[i]->head.error || engine->is_done(refs[i]->held);
        if (ready) ready[i] = is;
        done += is;
    }
    return done;
}

int bt_wait_refs(bt_ref *const *refs, int count, int wanted, bool *ready, double seconds) {
    BTI_VEC(void *) pending = {0};
    VISIT(v);
    if (bti_check_list(refs, count, "references") != BT_OK) return -1;
    if (!v.inside) return (void)no_runtime(), -1;
    if (wanted > count || wanted < 0)
        return (void)bti_fail(BT_INVALID_ARGUMENT, "bt_wait_refs: %d of %d references are wanted", wanted, count), -1;
    bt_status status = BT_OK;
    for (int i = 0; i < count && status == BT_OK; i++) {
        if (refs[i] && !bti_owned_is_released(&refs[i]->head) && refs[i]->head.error) continue; /* poisoned: done */
        if (!held_by(refs[i], "reference"))
            status = bt_error_status();
        else if (!engine->is_done(refs[i]->held) && !bti_vec_push(&pending, refs[i]->held))
            status = bti_fail(BT_RESOURCE_EXHAUSTED, "out of host memory");
    }
    int missing = wanted - (count - (int)pending.count);
    if (status == BT_OK && missing > 0) status = engine->wait(pending.items, (int)pending.count, missing, seconds);
    bti_vec_free(&pending);
    return status == BT_OK ? count_done(refs, count, ready) : -1;
}

bt_status bt_cancel(bt_ref *ref, bool force) {
    BTI_CALL("bt_cancel");
    VISIT(v);
    void *held = held_by(ref, "reference");
    return held ? engine->cancel(held, force ? BTI_CANCEL_FORCE : 0) : bt_error_status();
}

bt_status bt_cancel_all(bt_ref *ref, bool force) {
    BTI_CALL("bt_cancel_all");
    VISIT(v);
    void *held = held_by(ref, "reference");
    return held ? engine->cancel(held, BTI_CANCEL_MADE | (force ? BTI_CANCEL_FORCE : 0)) : bt_error_status();
}

/* --- actors and groups ------------------------------------------------------------------------------------------------- */

bt_status bt_actor_status(bt_actor *actor) {
    BTI_CALL("bt_actor_status");
    VISIT(v);
    void *held = held_by(actor, "actor");
    return held ? engine->actor_status(held) : bt_error_status();
}

bt_actor *bt_actor_find(const char *name) {
    BTI_CALL("bt_actor_find");
    if (!name || !*name) return (void)bti_fail(BT_INVALID_ARGUMENT, "the name is empty"), NULL;
    VISIT(v);
    if (!v.inside) return (void)no_runtime(), NULL;
    void *held = engine->actor_find(name);
    return held ? actor_of(held) : NULL;
}

bt_status bt_actor_kill(bt_actor *actor) {
    BTI_CALL("bt_actor_kill");
    VISIT(v);
    void *held = held_by(actor, "actor");
    return held ? engine->actor_kill(held) : bt_error_status();
}

static void *group(const bt_task_options *bundles, int count) {
    if (bti_check_list(bundles, count, "bundles") != BT_OK) return NULL;
    BTI_VEC(bt_task_options) known = {0};
    bt_status status = BT_OK;
    for (int i = 0; i < count && status == BT_OK; i++) {
        bt_task_options bundle;
        status = bti_bundle_take(bundles, i, &bundle);
        if (status == BT_OK && !bti_vec_push(&known, bundle))
            status = bti_fail(BT_RESOURCE_EXHAUSTED, "out of host memory");
    }
    void *held = status == BT_OK ? engine->group(known.items, count) : NULL;
    bti_vec_free(&known);
    return held;
}

bt_group *bt_group_new(const bt_task_options *bundles, int count) {
    BTI_CALL("bt_group_new");
    VISIT(v);
    if (!v.inside) return (void)no_runtime(), handle_of(NULL);
    return handle_of(group(bundles, count));
}

bt_status bt_group_wait(bt_group *group, double seconds) {
    BTI_CALL("bt_group_wait");
    VISIT(v);
    void *held = held_by(group, "group");
    if (!held) return bt_error_status();
    BTI_TRY(engine->wait(&held, 1, 1, seconds));
    if (engine->is_done(held)) return BT_OK;
    return bti_fail(BT_DEADLINE_EXCEEDED, "it does not have its resources within %g seconds", seconds);
}

/* --- views ------------------------------------------------------------------------------------------------------------- */

char *bt_runtime_text(bool json) {
    VISIT(v);
    if (!v.inside) return (void)no_runtime(), NULL;
    char *text = engine->view("json");
    return json || !text ? text : bti_view_tables_of(text);
}

bt_status bt_runtime_timeline(const char *path) {
    BTI_CALL("bt_runtime_timeline");
    VISIT(v);
    if (!v.inside) return no_runtime();
    if (!path) return bti_fail(BT_INVALID_ARGUMENT, "the path is NULL");
    char *text = engine->view("timeline");
    return text ? bti_timeline_write(path, text) : bt_error_status();
}
