/* The table of the engine "nodes", in the program and in workers: what the public functions ask goes over the network (net.h), or to what has come. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "array/handle.h"
#include "base/alloc.h"
#include "base/vec.h"
#include "nodes/held.h"
#include "nodes/net.h"
#include "nodes/wrap.h"
#include "task/run.h"

enum { MOST_RESULTS = 100, SMALL_FRAME = 2 << 10, SLICE_NS = 200000 };

static atomic_bool ending;
static _Atomic uint64_t reordered, latest_done_ns;
static pthread_mutex_t sample_lock = PTHREAD_MUTEX_INITIALIZER;
static char *sample;
static uint64_t sample_bytes;

static held *held_of(void *any) { return any; }

static uint64_t until(double seconds) {
    if (!(seconds >= 0) || seconds > 1e9) return 0;
    uint64_t at = net_now_ns() + (uint64_t)(seconds * 1e9);
    return at ? at : 1;
}
static double left(uint64_t until_ns) {
    uint64_t now = net_now_ns();
    return !until_ns ? -1 : until_ns > now ? (double)(until_ns - now) * 1e-9 : 0;
}

/* --- requests ---------------------------------------------------------------------------------------------------------- */

/* A frame on its way, and what the other side says to it. */
typedef struct request {
    net_parcel parcel;
    char *bytes;
    uint64_t size;
    held *of;        /* a user of it; NULL: none */
    bti_place place; /* who asks: for errors */
    held **with;     /* what it refers to stays until it has come; users */
    int with_count;
    bool waits;    /* somebody waits for the answer, and frees this */
    bool answered; /* with the lock of held.h */
    void *made;
    bt_status status;
    bti_error *error;
} request;

static bt_status about(const frame *f) {
    held *h = held_find(f->id);
    if (!h) return table_at(f->id) ? bti_fail(BT_INTERNAL, "nodes: it is another process's") : bt_error_status();
    bt_status status = BT_OK;
    if (h->state == HELD_HERE)
        status = f->kind == FRAME_KILL ? held_inner->actor_kill(h->inner) : held_inner->cancel(h->inner, f->how);
    held_release(h);
    return status;
}

/* What a frame asks; only its bytes are known here. NULL: the status tells. */
static void *serve(const char *bytes, uint64_t size, bt_status *status) {
    frame f;
    void *made = NULL;
    *status = BT_OK;
    if (atomic_load(&ending)) return *status = bti_fail(BT_CANCELLED, "the runtime has ended"), NULL;
    if (!frame_read(bytes, size, &f)) return *status = bt_error_status(), NULL;
    switch (f.kind) {
    case FRAME_CALL: made = held_make(&f); break;
    case FRAME_FIND: made = held_inner->actor_find(f.name); break;
    case FRAME_GROUP: made = held_inner->group(f.options, f.count); break;
    default: *status = about(&f); break;
    }
    if (!made && (f.kind == FRAME_CALL || f.kind == FRAME_FIND || f.kind == FRAME_GROUP)) *status = bt_error_status();
    frame_end(&f);
    return made;
}

static bt_failure failure_of_refusal(const request *r, const held *h) {
    held *actor = h->actor ? held_find(h->actor) : NULL;
    bt_failure kind = BT_FAILURE_REFUSED;
    if (actor && actor->inner && held_inner->is_done(actor->inner)) kind = held_inner->failure(actor->inner);
    if (actor && held_died_with_node(actor)) kind = BT_FAILURE_NODE_DIED;
    if (actor) held_release(actor);
    for (int i = 0; i < h->argument_count && kind == BT_FAILURE_REFUSED; i++) {
        held *of = held_find(h->arguments[i]);
        if (of && of->state == HELD_REFUSED) kind = of->failure;
        if (of) held_release(of);
    }
    (void)r;
    return kind;
}

static void settle(request *r, held *h) {
    bt_failure kind = r->made ? BT_FAILURE_NONE : failure_of_refusal(r, h);
    pthread_mutex_lock(&held_lock);
    h->inner = r->made;
    h->failure = kind;
    h->error = r->made ? NULL : bti_error_retain(r->error);
    h->state = r->made ? HELD_HERE : HELD_REFUSED;
    if (!r->made) atomic_fetch_or(&h->entry->flags, ENTRY_REFUSED);
    pthread_mutex_unlock(&held_lock);
}

static void free_request(request *r) {
    for (int i = 0; i < r->with_count; i++) held_release(r->with[i]);
    bti_free(r->with);
    if (r->of) held_release(r->of);
    bti_error_release(r->error);
    bti_free(r->bytes);
    bti_free(r);
}

static void come(net_parcel *parcel) {
    request *r = (request *)(void *)parcel;
    bti_error *before = bti_error_last();
    int depth = bti_call_begin(r->place.name ? r->place.name : "");
    bti_place own = bti_call_set_place(r->place);
    bool quiet = bti_errors_quiet(true);
    r->made = serve(r->bytes, r->size, &r->status);
    r->error = r->status == BT_OK ? NULL : bti_error_last();
    bti_errors_quiet(quiet);
    (void)bti_call_set_place(own);
    bti_call_end(depth);
    bti_error_put_back(before);
    held *h = r->of;
    if (h && h->state == HELD_SENT) {
        if (r->made && !h->is_group) atomic_store(&h->entry->inner, held_inner->id(r->made));
        if (r->made && h->is_group) atomic_store(&h->entry->copies, 1);
        settle(r, h);
    }
    pthread_mutex_lock(&held_lock);
    bool waits = r->waits;
    r->answered = true;
    pthread_cond_broadcast(&held_changed);
    pthread_mutex_unlock(&held_lock);
    if (!waits) free_request(r);
}

static request *new_request(const frame *f, uint64_t bytes, char **room, held *of) {
    request *r = bti_calloc(1, sizeof *r);
    char *unused;
    if (r) r->bytes = frame_write(f, bytes, &r->size, room ? room : &unused);
    if (!r || !r->bytes) return bti_free(r), (void)bti_fail(BT_RESOURCE_EXHAUSTED, "out of host memory"), NULL;
    r->parcel.come = come;
    r->place = bti_call_place();
    r->of = of;
    if (of) held_retain(of);
    return r;
}

/* Sent, and answered: what it made is the caller's; the request too (free_request). */
static void ask(request *r, bool at_once) {
    r->waits = true;
    if (at_once) { /* what takes long does not hold up others */
        net_drain();
        come(&r->parcel);
    } else {
        net_send(&r->parcel);
    }
    pthread_mutex_lock(&held_lock);
    while (!r->answered) pthread_cond_wait(&held_changed, &held_lock);
    pthread_mutex_unlock(&held_lock);
    if (r->status != BT_OK) {
        (void)bti_fail_with(r->error);
        bti_error_tell(r->error);
    }
}

static bt_status tell(frame_kind kind, held *h, unsigned how) {
    frame f = {.kind = kind, .id = h->id, .how = how};
    request *r = new_request(&f, 0, NULL, h);
    if (!r) return bt_error_status();
    ask(r, false);
    bt_status status = r->status;
    free_request(r);
    return status;
}

/* --- calls ------------------------------------------------------------------------------------------------------------- */

/* Who makes an actor is told at once when it can never be. */
static bool is_answered(const bti_engine_call *call, uint64_t size) {
    const bt_task_options *o = call->options;
    return size > SMALL_FRAME || call->kind == BTI_CALL_ACTOR || o->num_returns != 1;
}

static void keep_sample(const request *r) {
    pthread_mutex_lock(&sample_lock);
    bti_free(sample);
    if ((sample = bti_alloc(r->size))) memcpy(sample, r->bytes, sample_bytes = r->size);
    pthread_mutex_unlock(&sample_lock);
}

/* What the call refers to stays until it has come. */
static bool keep_with(request *r, const held *h, const bti_engine_call *call) {
    r->with = bti_calloc((size_t)h->argument_count + 2, sizeof(held *));
    if (!r->with) return false;
    for (int i = 0; i < h->argument_count; i++)
        if ((r->with[r->with_count] = held_find(h->arguments[i]))) r->with_count++;
    if (call->actor) held_retain(r->with[r->with_count++] = call->actor);
    if (call->group) held_retain(r->with[r->with_count++] = call->group);
    return true;
}

/* Its frame, to be made again when its value is lost. */
static bool keep_call(held *h, const request *r, const bti_engine_call *call, const char *packed) {
    if (call->kind != BTI_CALL_ACTOR && call->options->max_retries > 0) {
        if (!(h->frame = bti_alloc(r->size))) return false;
        memcpy(h->frame, r->bytes, h->size = r->size);
        h->retries = call->options->max_retries;
    }
    return held_set_arguments(h, packed);
}

static void *submit(const bti_engine_call *call) {
    int results =
        call->options->num_returns > 1 && call->options->num_returns <= MOST_RESULTS ? call->options->num_returns : 1;
    held *h = held_new(0, results, NULL);
    char *room;
    if (!h) return NULL;
    snprintf(h->name, sizeof h->name, "%s", call->function);
    if (call->kind == BTI_CALL_ACTOR) atomic_fetch_or(&h->entry->flags, ENTRY_ACTOR);
    frame f = {.kind = FRAME_CALL,
               .call = call->kind,
               .id = h->id,
               .actor = h->actor = call->actor ? held_of(call->actor)->id : 0,
               .group = call->group ? held_of(call->group)->id : 0,
               .module = call->module,
               .name = call->function,
               .options = call->options,
               .count = 1};
    request *r = new_request(&f, bti_values_bytes(&call->arguments), &room, h);
    bt_status status = r ? bti_values_pack(&call->arguments, room) : bt_error_status();
    if (status == BT_OK && !(keep_call(h, r, call, room) && keep_with(r, h, call)))
        status = bti_fail(BT_RESOURCE_EXHAUSTED, "out of host memory");
    if (status != BT_OK) {
        if (r) free_request(r);
        return held_release(h), NULL;
    }
    if (call->kind == BTI_CALL_TASK) keep_sample(r);
    if (!is_answered(call, r->size)) return net_send(&r->parcel), h;
    ask(r, r->size > SMALL_FRAME);
    bool made = r->made;
    free_request(r);
    if (made) return h;
    held_release(h);
    return NULL;
}

/* Who made it may have released it, and its id, while it runs still. */
static held *found(void *inner) {
    uint64_t inner_id = held_inner->id(inner), of = table_of_inner(inner_id);
    held *h = held_new(of, 1, inner);
    if (!h) return held_inner->release(inner), NULL;
    atomic_fetch_or(&h->entry->flags, ENTRY_ACTOR | ENTRY_EXPORTED); /* several processes have it */
    atomic_store(&h->entry->inner, inner_id);
    return h;
}

static void *actor_find(const char *name) {
    frame f = {.kind = FRAME_FIND, .name = name};
    request *r = new_request(&f, 0, NULL, NULL);
    if (!r) return NULL;
    ask(r, false);
    void *inner = r->made;
    free_request(r);
    return inner ? found(inner) : NULL;
}

static void *group(const bt_task_options *bundles, int count) {
    held *h = held_new(0, 1, NULL);
    if (!h) return NULL;
    h->is_group = true;
    frame f = {.kind = FRAME_GROUP, .id = h->id, .options = bundles, .count = count};
    request *r = new_request(&f, 0, NULL, h);
    if (r) ask(r, false);
    bool made = r && r->made;
    if (r) free_request(r);
    if (made) return h;
    held_release(h);
    return NULL;
}

static bt_status cancel(void *any, unsigned how) { return tell(FRAME_CANCEL, held_of(any), how); }
static bt_status actor_kill(void *any) { return tell(FRAME_KILL, held_of(any), 0); }
static void release(void *any) { held_release(any); }

/* The value stays where it was put, and is not on its way. */
static void *put(const bti_values *value) {
    wrap_shape s;
    held *h = held_new(0, 1, NULL);
    char *list = h ? held_wrap(value, h->id, &s) : NULL;
    void *inner =
        list ? held_inner->put(&(bti_values){.count = 1, .packed = list, .bytes = wrap_value_bytes(&s)}) : NULL;
    bti_free(list);
    if (!h) return NULL;
    if (!inner) return held_release(h), NULL;
    pthread_mutex_lock(&held_lock);
    h->inner = inner;
    h->arrived = true;
    h->state = HELD_HERE;
    pthread_mutex_unlock(&held_lock);
    atomic_store(&h->entry->node, (unsigned)nodes_here());
    atomic_store(&h->entry->copies, 1u << nodes_here());
    atomic_store(&h->entry->bytes, s.bytes);
    atomic_store(&h->entry->inner, held_inner->id(inner));
    return h;
}

/* --- results ----------------------------------------------------------------------------------------------------------- */

static void note_order(uint64_t done_ns) {
    uint64_t before = atomic_load(&latest_done_ns);
    while (done_ns > before && !atomic_compare_exchange_weak(&latest_done_ns, &before, done_ns)) continue;
    if (done_ns < before) atomic_fetch_add(&reordered, 1);
}

/* With the lock. */
static bool looks_here(held *h, uint64_t now_ns) {
    bool before = h->arrived;
    if (!held_is_here(h, now_ns)) return false;
    if (!before && h->done_ns) note_order(h->done_ns);
    return true;
}

static bool is_done(void *any) {
    held *h = any;
    pthread_mutex_lock(&held_lock);
    bool is = looks_here(h, net_now_ns());
    pthread_mutex_unlock(&held_lock);
    return is;
}

/* What a wait sees of its objects. */
typedef struct look {
    int here, coming, sent;
    uint64_t next_ns;        /* the first reply comes then */
    BTI_VEC(void *) pending; /* the inner engine's of those that have not come; kept by their handles */
} look;

static bt_status look_at(void *const *all, int count, look *l) {
    uint64_t now = net_now_ns();
    bool has_memory = true;
    pthread_mutex_lock(&held_lock);
    for (int i = 0; i < count; i++) {
        held *h = held_of(all[i]);
        if (looks_here(h, now)) {
            l->here++;
        } else if (h->state == HELD_SENT) {
            l->sent++;
        } else {
            if (h->arrives_ns) l->coming++;
            if (h->arrives_ns && (!l->next_ns || h->arrives_ns < l->next_ns)) l->next_ns = h->arrives_ns;
            has_memory = has_memory && bti_vec_push(&l->pending, h->inner);
        }
    }
    pthread_mutex_unlock(&held_lock);
    return has_memory ? BT_OK : bti_fail(BT_RESOURCE_EXHAUSTED, "out of host memory");
}

static void sleep_until(uint64_t ns, uint64_t until_ns) {
    uint64_t now = net_now_ns(), most = now + SLICE_NS;
    if (until_ns && until_ns < most) most = until_ns;
    if (ns && ns < most) most = ns;
    if (most > now) net_sleep_ns(most - now);
}

static bt_status wait_for(void *const *all, int count, int wanted, double seconds) {
    uint64_t until_ns = until(seconds);
    for (;;) {
        look l = {0};
        bt_status status = look_at(all, count, &l);
        bool over = until_ns && net_now_ns() >= until_ns, ready = l.here >= wanted;
        int missing = wanted - l.here;
        if (status == BT_OK && !ready && !over) {
            if (atomic_load(&ending))
                status = bti_fail(BT_CANCELLED, "the runtime has ended");
            else if (l.sent || l.coming >= missing)
                sleep_until(l.next_ns, until_ns);
            else
                status = held_inner->wait(l.pending.items, (int)l.pending.count, missing, left(until_ns));
        }
        bti_vec_free(&l.pending);
        if (status != BT_OK || ready || over) return status;
    }
}

/* The failure that stands for that of the inner engine. */
static bt_failure failure(void *any) {
    held *h = any;
    pthread_mutex_lock(&held_lock);
    bool refused = h->state == HELD_REFUSED;
    bt_failure kind = h->failure;
    pthread_mutex_unlock(&held_lock);
    if (refused) return kind;
    kind = held_inner->failure(h->inner);
    if (kind != BT_FAILURE_NONE && atomic_load(&h->entry->flags) & ENTRY_NEEDS_LOST) return BT_FAILURE_OBJECT_LOST;
    return held_died_with_node(h) ? BT_FAILURE_NODE_DIED : kind;
}

static bt_status tell_node(const held *h) {
    const table_entry *e = h->entry;
    if (!atomic_load(&e->node) && h->actor && table_at(h->actor)) e = table_at(h->actor);
    unsigned node = atomic_load(&e->node);
    if (node) return bti_fail(BT_ABORTED, "node %u was lost, which ran %s", node, *h->name ? h->name : "it");
    return bti_fail(BT_ABORTED, "a node was lost, which ran the call of an argument");
}

/* The item and what follows it are references of this process, as long as the link is held. */
static bt_status read_link(held *h, const bti_reading *inner, bti_reading *reading) {
    bti_stream_link link;
    bti_unpacked_value value = bti_unpack(inner->packed, 0);
    memcpy(&link, value.data, sizeof link);
    if (inner->pin) held_inner->unpin(inner->pin);
    if (!h->link_item && !(h->link_item = held_other(link.item))) return bt_error_status();
    if (!h->link_next && !(h->link_next = held_other(link.next))) return bt_error_status();
    bti_pack_stream((bti_stream_link){h->link_item->id, h->link_next->id}, h->link);
    *reading = (bti_reading){h->link, sizeof h->link, NULL, NULL};
    return BT_OK;
}

/* Of one that is made again, it is not done any more. */
static bt_status read_value(void *any, bti_reading *reading) {
    held *h = any;
    uint64_t length;
    wrap_head head;
    if (h->state == HELD_HERE && !h->is_group && held_mend(h)) return bti_fail(BT_UNAVAILABLE, "it is made again");
    if (h->state == HELD_REFUSED) return bti_fail_with(h->error);
    if (failure(h) == BT_FAILURE_NODE_DIED) return tell_node(h);
    bti_reading inner;
    BTI_TRY(held_inner->read(h->inner, &inner));
    bool whole = inner.packed && bti_packed_is_whole(inner.packed, inner.bytes);
    if (whole && bti_unpack(inner.packed, 0).head.type == BT_STREAM_VALUE) return read_link(h, &inner, reading);
    const char *packed = whole ? wrap_value_read(inner.packed, &length, &head)
                               : ((void)bti_fail(BT_INTERNAL, "the value of this reference is damaged"), NULL);
    if (!packed) {
        if (inner.pin) held_inner->unpin(inner.pin);
        return bt_error_status();
    }
    atomic_fetch_or(&h->entry->copies, 1u << nodes_here()); /* it is fetched */
    *reading = (bti_reading){packed, length, inner.owner, inner.pin};
    return BT_OK;
}

static void unpin(void *pin) { held_inner->unpin(pin); }

static void *result(void *any, int index) {
    held *of = any;
    pthread_mutex_lock(&held_lock);
    while (of->state == HELD_SENT && !atomic_load(&ending)) pthread_cond_wait(&held_changed, &held_lock);
    bool here = of->state == HELD_HERE;
    bti_error *why = here ? NULL : of->error;
    pthread_mutex_unlock(&held_lock);
    if (!here) return (void)bti_fail_with(why), NULL;
    void *inner = held_inner->result(of->inner, index);
    if (!inner) return NULL;
    held *h = held_new(table_result(of->id, index), 1, inner);
    if (!h) return held_inner->release(inner), NULL;
    atomic_store(&h->entry->inner, held_inner->id(inner));
    h->result = index;
    memcpy(h->name, of->name, sizeof h->name);
    return h;
}

static bt_status actor_status(void *any) {
    held *h = any;
    if (h->state == HELD_REFUSED) return bti_fail_with(h->error);
    bt_status status = held_inner->actor_status(h->inner);
    return status != BT_OK && failure(h) == BT_FAILURE_NODE_DIED ? tell_node(h) : status;
}

/* --- values ------------------------------------------------------------------------------------------------------------ */

static uint64_t id(const void *any) {
    const held *h = any;
    atomic_fetch_or(&h->entry->flags, ENTRY_EXPORTED);
    return h->id;
}

static void *hold(uint64_t of) {
    table_entry *entry = table_at(of);
    if (!entry) return NULL;
    held *here = held_find(of);
    if (here) return here;
    void *inner = held_inner->hold(atomic_load(&entry->inner));
    held *h = inner ? held_new(of, 1, inner) : NULL;
    if (inner && !h) held_inner->release(inner);
    return h;
}

/* What keeps a value is the inner engine's. */
static bt_array *array_in(void *owner, bool is_argument, const void *data, uint64_t bytes, bt_dtype dtype,
                          bt_shape shape) {
    return held_inner->array_in(owner, is_argument, data, bytes, dtype, shape);
}

/* --- the rest ---------------------------------------------------------------------------------------------------------- */

static double resource(const char *name, bool only_free) {
    net_drain();
    return held_inner->resource(name, only_free);
}
static int gpus(int *ids, int capacity) { return held_inner->gpus(ids, capacity); }
static char *view(const char *what) {
    net_drain(); /* it comes after what was asked before */
    return held_inner->view(what);
}
static bt_status fault(bool thorough) { return held_inner->fault ? held_inner->fault(thorough) : BT_OK; }

static bt_status start(const bt_runtime_options *options) {
    held_inner = &bti_engine_local;
    atomic_store(&ending, false);
    if (!table_make()) return bt_error_status();
    bt_status status = held_inner->start(options);
    if (status == BT_OK && !net_begin()) {
        (void)held_inner->stop();
        held_inner->close();
        status = bti_fail(BT_RESOURCE_EXHAUSTED, "nodes: no thread");
    }
    if (status != BT_OK) table_leave();
    return status;
}

static bt_status stop(void) {
    atomic_store(&ending, true);
    bt_status status = held_inner->stop();
    if (status == BT_OK) net_end();
    return status;
}

static void close_all(void) {
    held_inner->close();
    held_forget();
    table_leave();
}

static bt_status start_worker(const bt_runtime_options *options) { return held_inner->start(options); }
static bt_status stop_worker(void) { return held_inner->stop(); }

#define ENTRIES                                                                                                       \
    .submit = submit, .put = put, .result = result, .read = read_value, .unpin = unpin, .wait = wait_for,             \
    .is_done = is_done, .failure = failure, .cancel = cancel, .release = release, .actor_status = actor_status,       \
    .actor_find = actor_find, .actor_kill = actor_kill, .group = group, .resource = resource, .gpus = gpus, .id = id, \
    .hold = hold, .array_in = array_in, .view = view, .fault = fault
static const bti_engine program_engine = {.name = "nodes", .start = start, .stop = stop, .close = close_all, ENTRIES};
static const bti_engine worker_engine = {
    .name = "nodes", .start = start_worker, .stop = stop_worker, .close = close_all, ENTRIES};

__attribute__((constructor)) static void know(void) { bti_engine_add(&program_engine); }

/* A worker of the inner engine joins it: it becomes one of nodes. */
void __real_bti_engine_join(const bti_engine *engine);
void __wrap_bti_engine_join(const bti_engine *engine);
void __wrap_bti_engine_join(const bti_engine *engine) {
    if (!table_join()) return __real_bti_engine_join(engine);
    held_inner = engine;
    held_forget();
    table_register();
    __real_bti_engine_join(&worker_engine);
}

/* --- for tests --------------------------------------------------------------------------------------------------------- */

uint64_t nodes_frames(void) { return net_come_count(); }
uint64_t nodes_reordered(void) { return atomic_load(&reordered); }

bool nodes_receive(const void *bytes, size_t size) {
    bt_status status;
    char *copy = bti_alloc(size + 1);
    if (!copy) return false;
    memcpy(copy, bytes, size);
    void *made = serve(copy, size, &status);
    bti_free(copy);
    if (made) held_inner->release(made);
    return status == BT_OK;
}

size_t nodes_sample(void *bytes, size_t size) {
    pthread_mutex_lock(&sample_lock);
    size_t all = sample ? sample_bytes : 0;
    if (all && all <= size) memcpy(bytes, sample, all);
    pthread_mutex_unlock(&sample_lock);
    return all;
}
