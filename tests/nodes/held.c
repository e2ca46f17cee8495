#include "nodes/held.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "nodes/net.h"
#include "nodes/wrap.h"
#include "task/run.h"

enum { BUCKETS = 1 << 14 };
pthread_mutex_t held_lock = PTHREAD_MUTEX_INITIALIZER;
pthread_cond_t held_changed = PTHREAD_COND_INITIALIZER;
const bti_engine *held_inner;
static held *buckets[BUCKETS];

static void forget(void) { /* a forked process has none */
    held_lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
    held_changed = (pthread_cond_t)PTHREAD_COND_INITIALIZER;
    memset(buckets, 0, sizeof buckets);
}
__attribute__((constructor)) static void watch_forks(void) { pthread_atfork(NULL, NULL, forget); }

static held **bucket_of(uint64_t id) { return &buckets[(uint32_t)id % BUCKETS]; }

held *held_new(uint64_t id, int count, void *inner) {
    held *h = bti_calloc(1, sizeof *h);
    bool is_new = !id;
    if (!h) return (void)bti_fail(BT_RESOURCE_EXHAUSTED, "out of host memory"), NULL;
    if (is_new) id = table_new(count);
    if (!id || !(h->entry = table_at(id))) return bti_free(h), NULL;
    h->id = id;
    h->inner = inner;
    h->state = inner ? HELD_HERE : HELD_SENT;
    atomic_init(&h->users, 1);
    pthread_mutex_lock(&held_lock);
    h->next = *bucket_of(id);
    *bucket_of(id) = h;
    pthread_mutex_unlock(&held_lock);
    return h;
}

held *held_find(uint64_t id) {
    pthread_mutex_lock(&held_lock);
    held *h = *bucket_of(id);
    while (h && h->id != id) h = h->next;
    if (h) atomic_fetch_add(&h->users, 1);
    pthread_mutex_unlock(&held_lock);
    return h;
}

void held_retain(held *h) { atomic_fetch_add(&h->users, 1); }

static void drop_frame(held *h) {
    for (int i = 0; h->kept && i < h->argument_count; i++)
        if (h->kept[i]) held_release(h->kept[i]);
    bti_free(h->kept);
    bti_free(h->frame);
    h->kept = NULL;
    h->frame = NULL;
}

void held_release(held *h) {
    pthread_mutex_lock(&held_lock);
    bool last = atomic_fetch_sub(&h->users, 1) == 1;
    if (last) {
        held **at = bucket_of(h->id);
        while (*at && *at != h) at = &(*at)->next;
        if (*at) *at = h->next;
    }
    bool alone = last;
    for (held *other = last ? *bucket_of(h->id) : NULL; other; other = other->next) alone = alone && other->id != h->id;
    pthread_mutex_unlock(&held_lock);
    if (!last) return;
    if (h->inner) held_inner->release(h->inner);
    for (held *o = h->older, *next; o; o = next) {
        next = o->older;
        held_inner->release(o->inner);
        bti_free(o);
    }
    if (alone) table_free(h->id);
    if (h->link_item) held_release(h->link_item);
    if (h->link_next) held_release(h->link_next);
    drop_frame(h);
    bti_error_release(h->error);
    bti_free(h->arguments);
    bti_free(h);
}

static bool add_argument(void *data, const bti_packed_value *head, bool in_list) {
    held *h = data;
    (void)in_list;
    if (h->kept) h->kept[h->argument_count] = held_find(head->as.id);
    h->arguments[h->argument_count++] = head->as.id;
    return true;
}

bool held_set_arguments(held *h, const char *packed) {
    wrap_shape s = wrap_shape_of(packed, 0);
    size_t count = (size_t)(s.direct + s.listed);
    if (!count) return true;
    if (!(h->arguments = bti_calloc(count, sizeof *h->arguments))) return false;
    if (h->frame && !(h->kept = bti_calloc(count, sizeof(held *)))) return false;
    return bti_packed_each(packed, add_argument, h);
}

/* The inner engine is gone. */
void held_forget(void) {
    for (int b = 0; b < BUCKETS; b++)
        for (held *h = buckets[b], *next; h; h = next) {
            next = h->next;
            for (held *o = h->older, *after; o; o = after) after = o->older, bti_free(o);
            bti_error_release(h->error);
            bti_free(h->kept);
            bti_free(h->frame);
            bti_free(h->arguments);
            bti_free(h);
        }
    memset(buckets, 0, sizeof buckets);
}

/* --- replies ----------------------------------------------------------------------------------------------------------- */

/* A reply that comes brings a small value along; others are fetched when they are read. */
static void arrive(held *h) {
    h->arrived = true;
    bool comes = atomic_load(&h->entry->bytes) <= BTI_RUN_SMALL && !table_is_lost((int)atomic_load(&h->entry->node));
    if (comes && held_inner->failure(h->inner) == BT_FAILURE_NONE) atomic_fetch_or(&h->entry->copies, 1);
}

bool held_is_here(held *h, uint64_t now_ns) {
    if (h->state == HELD_REFUSED) return h->arrived = true;
    if (h->state == HELD_SENT || h->arrived) return h->arrived;
    if (!h->arrives_ns) {
        if (!held_inner->is_done(h->inner)) return false;
        h->done_ns = now_ns;
        h->arrives_ns = now_ns + net_delay_ns();
    }
    if (h->arrives_ns <= now_ns) arrive(h);
    return h->arrived;
}

/* --- making calls ------------------------------------------------------------------------------------------------------ */

/* The inner engine's hold of an actor or a group; *other: of a hold that is to be released. */
static void *inner_of(uint64_t id, held **mine, void **other) {
    const table_entry *entry = table_at(id);
    if (!entry) return NULL;
    *mine = held_find(id);
    if (*mine && (*mine)->state == HELD_REFUSED) return (void)bti_fail_with((*mine)->error), NULL;
    if (*mine && (*mine)->inner) return (*mine)->inner;
    return *other = held_inner->hold(atomic_load(&entry->inner));
}

/* What a call refers to, as the inner engine knows it. */
uint64_t held_inner_id(uint64_t id) {
    table_entry *entry = table_at(id);
    if (!entry) return 0;
    held *h = held_find(id);
    uint64_t inner = 0;
    bool refused = false;
    if (h) {
        pthread_mutex_lock(&held_lock);
        while (h->state == HELD_SENT) pthread_cond_wait(&held_changed, &held_lock); /* it was sent before */
        bool here = h->state == HELD_HERE && held_inner->is_done(h->inner);
        pthread_mutex_unlock(&held_lock);
        if (here) (void)held_mend(h);
        refused = h->state == HELD_REFUSED;
        if (refused) (void)bti_fail_with(h->error);
        held_release(h);
    }
    if (!refused && !(inner = atomic_load(&entry->inner)))
        (void)bti_fail(BT_INTERNAL, "nodes: a reference whose call was refused elsewhere");
    return inner;
}

held *held_other(uint64_t of) {
    void *inner = held_inner->hold(of);
    held *h = inner ? held_new(0, 1, inner) : NULL;
    if (inner && !h) held_inner->release(inner);
    if (!h) return NULL;
    atomic_store(&h->entry->copies, 1);
    atomic_store(&h->entry->inner, of);
    return h;
}

/* The values stand in *list, behind room for a head; what they refer to gets its place. */
static bt_status add_references(char **list, wrap_shape *s, uint64_t of) {
    const char *packed = *list + wrap_lead(s) + wrap_at(s);
    wrap_shape whole = wrap_shape_of(packed, s->bytes);
    if (whole.direct || whole.listed) {
        char *other = bti_alloc(wrap_value_bytes(&whole));
        if (!other) return bti_fail(BT_RESOURCE_EXHAUSTED, "out of host memory");
        memcpy(other + wrap_lead(&whole) + wrap_at(&whole), packed, s->bytes);
        bti_free(*list);
        *list = other;
        *s = whole;
    }
    wrap_value_begin(*list, s, of);
    return wrap_refer(*list + wrap_lead(s), s, held_inner_id) ? BT_OK : bt_error_status();
}

char *held_wrap(const bti_values *value, uint64_t of, wrap_shape *s) {
    *s = (wrap_shape){bti_values_bytes(value), 0, 0};
    char *list = bti_alloc(wrap_value_bytes(s));
    if (!list) return (void)bti_fail(BT_RESOURCE_EXHAUSTED, "out of host memory"), NULL;
    if (bti_values_pack(value, list + wrap_lead(s) + wrap_at(s)) == BT_OK && add_references(&list, s, of) == BT_OK)
        return list;
    return bti_free(list), NULL;
}

static char *wrap_call(const frame *f, uint64_t *bytes) {
    wrap_shape s = wrap_shape_of(f->packed, f->bytes);
    char *list = bti_alloc(*bytes = wrap_bytes(&s));
    if (!list) return (void)bti_fail(BT_RESOURCE_EXHAUSTED, "out of host memory"), NULL;
    wrap_begin(list, &s, f->id);
    memcpy(list + wrap_at(&s), f->packed, f->bytes);
    if (wrap_refer(list, &s, held_inner_id)) return list;
    return bti_free(list), NULL;
}

void *held_make(const frame *f) {
    held *actor = NULL, *group = NULL;
    void *actor_other = NULL, *group_other = NULL, *made = NULL;
    bti_engine_call call = {.kind = f->call, .module = f->module, .function = f->name, .options = f->options};
    char *list = NULL;
    if (f->call == BTI_CALL_METHOD && !(call.actor = inner_of(f->actor, &actor, &actor_other))) goto done;
    if (f->group && !(call.group = inner_of(f->group, &group, &group_other))) goto done;
    if (!(list = wrap_call(f, &call.arguments.bytes))) goto done;
    call.arguments.packed = list;
    call.arguments.count = bti_packed_count(list);
    made = held_inner->submit(&call);
done:
    bti_free(list);
    if (actor_other) held_inner->release(actor_other);
    if (group_other) held_inner->release(group_other);
    if (actor) held_release(actor);
    if (group) held_release(group);
    return made;
}

/* --- what nodes took with them ----------------------------------------------------------------------------------------- */

static uint32_t version_of_arguments(const held *h) {
    uint32_t sum = 0;
    for (int i = 0; h->kept && i < h->argument_count; i++) sum += h->kept[i] ? h->kept[i]->version : 0;
    return sum;
}

static void lose(held *h, const char *why) {
    bti_error *error = bti_error_new(BT_DATA_LOSS, "%s", why);
    pthread_mutex_lock(&held_lock);
    bti_error_release(h->error);
    h->error = error;
    h->failure = BT_FAILURE_OBJECT_LOST;
    h->state = HELD_REFUSED;
    pthread_mutex_unlock(&held_lock);
}

/* A hold of a new call of it; the old one stays for who reads it. */
static void exchange(held *h, held *old, void *inner) {
    pthread_mutex_lock(&held_lock);
    old->inner = h->inner;
    old->older = h->older;
    h->older = old;
    h->inner = inner;
    h->arrived = false;
    h->arrives_ns = 0;
    h->version++;
    atomic_store(&h->entry->copies, 0);
    atomic_fetch_and(&h->entry->flags, ~(unsigned)(ENTRY_LOST | ENTRY_NEEDS_LOST | ENTRY_MADE));
    atomic_store(&h->entry->node, 0);
    atomic_store(&h->entry->inner, held_inner->id(inner));
    pthread_mutex_unlock(&held_lock);
}

/* The call of this held one, of its first result, once more. */
static bool call_again(held *h) {
    frame f;
    if (!h->frame || h->retries <= 0 || h->state != HELD_HERE) return false;
    held *old = bti_calloc(1, sizeof *old);
    if (!old || !frame_read(h->frame, h->size, &f)) return bti_free(old), false;
    if (h->retries != INT32_MAX) h->retries--;
    h->arguments_version = version_of_arguments(h);
    void *inner = held_make(&f);
    frame_end(&f);
    if (!inner) return bti_free(old), false;
    return exchange(h, old, inner), true;
}

/* The call of another result: somebody may have its first one still. */
static bool make_again(held *h) {
    if (!h->result) return call_again(h);
    held *first = held_find(table_result(h->id, 0)), *old = bti_calloc(1, sizeof *old);
    bool made = first && old && call_again(first);
    void *inner = made ? held_inner->result(first->inner, h->result) : NULL;
    if (inner)
        exchange(h, old, inner);
    else
        bti_free(old);
    if (first) held_release(first);
    return inner;
}

static bool mend_arguments(held *h) {
    for (int i = 0; h->kept && i < h->argument_count; i++)
        if (h->kept[i] && h->kept[i]->state == HELD_HERE && held_inner->is_done(h->kept[i]->inner))
            (void)held_mend(h->kept[i]);
    return version_of_arguments(h) != h->arguments_version;
}

static bool began(const held *h) { return atomic_load(&h->entry->node) != 0; }

bool held_mend(held *h) {
    if (h->is_group || atomic_load(&h->entry->flags) & ENTRY_ACTOR) return false;
    char why[400];
    static pthread_mutex_t one_at_a_time = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
    pthread_mutex_lock(&one_at_a_time);
    unsigned flags = atomic_load(&h->entry->flags);
    bool made = false, failed = h->state == HELD_HERE && held_inner->failure(h->inner) != BT_FAILURE_NONE;
    bool lost = h->state == HELD_HERE && !failed && !atomic_load(&h->entry->copies);
    bool needs = failed && (flags & ENTRY_NEEDS_LOST || !began(h));
    if (needs) needs = mend_arguments(h) || flags & ENTRY_NEEDS_LOST;
    if (lost || needs) made = make_again(h);
    if (lost && !made) {
        snprintf(why, sizeof why, "the value of %s is lost with node %u%s", *h->name ? h->name : "bt_put",
                 atomic_load(&h->entry->node), h->frame ? "; its call was made as often as .max_retries allows" : "");
        lose(h, why);
    }
    pthread_mutex_unlock(&one_at_a_time);
    return made;
}

static bool entry_died(const table_entry *e) {
    unsigned node = atomic_load(&e->node);
    return node && (atomic_load(&e->flags) & ENTRY_LOST || table_is_lost((int)node));
}

bool held_died_with_node(held *h) {
    if (held_inner->failure(h->inner) != BT_FAILURE_PROCESS_DIED) return false;
    if (began(h)) return entry_died(h->entry);
    const table_entry *actor = h->actor ? table_at(h->actor) : NULL;
    if (actor && entry_died(actor)) return true;
    for (int i = 0; i < h->argument_count; i++) {
        held *of = held_find(h->arguments[i]);
        const table_entry *e = table_at(h->arguments[i]);
        bool died = e && entry_died(e);
        if (of) {
            died = of->state == HELD_HERE && held_inner->is_done(of->inner) && held_died_with_node(of);
            held_release(of);
        }
        if (died) return true;
    }
    return false;
}
