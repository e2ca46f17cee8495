/* Arrays, scopes, and the public calls that are running. */
#include "array/handle.h"

#include <limits.h>
#include <pthread.h>
#include <string.h>

#include "array/graph.h"
#include "base/flags.h"
#include "base/lock.h"
#include "base/libraries.h"
#include "base/log.h"
#include "base/thread.h"
#include "exec/exec.h"
#include "ir/sequence.h"

/* --- poison -------------------------------------------------------------------------------------------------------- */

static bti_node no_memory_node = {
    .refs = 1u << 30, .handles = 1, .state = BTI_FAILED, .dtype = BT_F32, .device = -1, .error = &bti_no_memory_error};
static bt_array no_memory = {.head.word = 1, .node = &no_memory_node};
/* The node of all released arrays. It is FAILED, so bti_array_error meets it where it meets poison: live arrays pay nothing for the check. */
static bti_node released_node = {.refs = 1u << 30, .handles = 1, .state = BTI_FAILED, .dtype = BT_F32, .device = -1};

static bt_array *poison_without_memory(void) {
    bti_error_tell(&bti_no_memory_error);
    return &no_memory;
}

bt_array *bti_poison(bti_error *error) {
    bti_node *node = bti_node_new(BTI_OP_leaf, BT_F32, 0, NULL, 0, NULL, NULL);
    if (!node) {
        bti_error_release(error);
        return poison_without_memory();
    }
    node->error = error;
    node->device = -1;
    node->place = bti_call_place();
    atomic_store(&node->state, BTI_FAILED);
    return bti_array_new(node);
}

bt_array *bti_poisonf(bt_status status, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    bti_str text = {0};
    bti_str_addv(&text, format, arguments);
    va_end(arguments);
    bt_array *array = bti_poison(bti_error_new(status, "%s", bti_str_text(&text)));
    bti_str_free(&text);
    return array;
}

static bti_error *missing_array_error(int argument) {
    bti_error *known = bti_misuse_known(&no_memory);
    if (known) return known;
    return argument ? bti_misuse_new(&no_memory, "array argument %d is NULL", argument)
                    : bti_misuse_new(&no_memory, "an array argument is NULL");
}

bti_error *bti_array_error(const bt_array *x) {
    if (!x) return missing_array_error(0);
    const bti_node *node = bti_node_of(x);
    if (atomic_load(&node->state) == BTI_FAILED)
        return node == &released_node ? bti_owned_released(&x->head) : node->error;
    if (node->gate && !node->symbolic && bti_gate_error(node->gate)) return node->gate->cause;
    return atomic_load(&node->state) == BTI_DONE ? bti_buffer_error(node->buffer) : NULL;
}

bt_array *bti_poisoned_by(bt_array *const *arrays, int count) {
    for (int i = 0; i < count; i++) {
        bti_error *error = arrays[i] ? bti_array_error(arrays[i]) : missing_array_error(i + 1);
        if (error) return bti_poison(bti_error_retain(error));
    }
    return NULL;
}

/* --- scopes --------------------------------------------------------------------------------------------------------- */

typedef struct owned {
    bti_owned *object;
    const bti_handle_class *class;
} owned;

typedef struct scope_start {
    size_t held, owned;
    uint64_t scope; /* its number */
    bti_site site;
} scope_start;

typedef struct scopes {
    BTI_VEC(bt_array *) held;    /* of all scopes, the outermost first */
    BTI_VEC(owned) owned;        /* what else they release */
    BTI_VEC(scope_start) starts; /* where each begins in both */
    size_t visited;              /* of held: bti_each_new_held has visited so many of the first */
    uint64_t thread;             /* the number of what stands outside of any scope; those of scopes follow */
    uint64_t scope_count;
    bool noticed, noticed_history;
    bool registered;
    int nesting;    /* public calls that are running */
    int autocast;   /* array/autocast.h */
    uint64_t calls; /* outermost ones that began */
} scopes;

static _Thread_local scopes own_scopes;
static atomic_int threads_with_scopes;
static bti_counter live_arrays;
static pthread_key_t scopes_key;
static pthread_once_t thread_end_once = PTHREAD_ONCE_INIT;

/* The last owner is gone. */
static void end_array(bt_array *array, bti_end how, bti_site site) {
    bti_node *node = bti_node_of(array);
    bti_free(array->mapped);
    bti_node_release(array->donated);
    array->mapped = NULL;
    array->donated = NULL;
    atomic_store_explicit(&array->node, &released_node, memory_order_release);
    bti_owned_end(&array->head, offsetof(bt_array, mapped), how, site);
    atomic_fetch_sub(&node->handles, 1);
    bti_node_release(node);
    bti_counter_add(&live_arrays, -1);
}

static atomic_uint_fast64_t held_visits;
uint64_t bti_held_visits(void) { return atomic_load(&held_visits); }

static void visit_again_from(scopes *own, size_t first) {
    if (own->visited > first) own->visited = first;
}

static void release_arrays_from(size_t first, bti_end how, bti_site site) {
    scopes *own = BTI_THREAD_OWN(own_scopes);
    while (own->held.count > first) {
        bt_array *array = own->held.items[--own->held.count];
        if (!bti_owned_is_released(&array->head) && array->ends_history) bti_history_end_noted(bti_node_of(array));
        if (bti_owned_drop_held(&array->head) == BTI_DROPPED_LAST) end_array(array, how, site);
    }
    visit_again_from(own, first);
}

/* How the object that is being freed now was released: objects that it owns are released in the same way. */
static _Thread_local struct {
    bti_end how;
    bti_site site;
} ending;

static void end_object(bti_owned *object, const bti_handle_class *class, bti_end how, bti_site site) {
    bool outermost = !ending.how;
    if (outermost) ending.how = how, ending.site = site;
    class->clear(object);
    bti_error_release(object->error);
    bti_owned_end(object, sizeof *object, ending.how, ending.site);
    if (outermost) ending.how = BTI_END_NONE;
}

static void release_objects_from(size_t first, bti_end how, bti_site site) {
    scopes *own = BTI_THREAD_OWN(own_scopes);
    while (own->owned.count > first) {
        owned last = own->owned.items[--own->owned.count];
        if (bti_owned_drop_held(last.object) == BTI_DROPPED_LAST) end_object(last.object, last.class, how, site);
    }
}

static void leave_scopes_of_thread(void *unused) {
    scopes *own = BTI_THREAD_OWN(own_scopes);
    (void)unused;
    release_objects_from(0, BTI_END_THREAD, (bti_site){0});
    release_arrays_from(0, BTI_END_THREAD, (bti_site){0});
    bti_vec_free(&own->held);
    bti_vec_free(&own->owned);
    bti_vec_free(&own->starts);
    own->registered = false;
    atomic_fetch_sub(&threads_with_scopes, 1);
}
static void make_thread_end(void) { pthread_key_create(&scopes_key, leave_scopes_of_thread); }

bool bti_thread_has_scopes(void) { return own_scopes.registered; }

void bti_leave_thread(void) {
    if (!own_scopes.registered) return;
    leave_scopes_of_thread(NULL);
    pthread_setspecific(scopes_key, NULL);
}

void bti_release_thread(void) {
    scopes *own = BTI_THREAD_OWN(own_scopes);
    release_objects_from(0, BTI_END_SHUTDOWN, bti_here());
    release_arrays_from(0, BTI_END_SHUTDOWN, bti_here());
    bti_vec_free(&own->held);
    bti_vec_free(&own->owned);
    for (size_t i = 0; i < own->starts.count; i++)
        own->starts.items[i] = (scope_start){.scope = own->starts.items[i].scope};
    own->noticed = false;
}
uint64_t bti_held_elsewhere(void) {
    scopes *own = BTI_THREAD_OWN(own_scopes);
    uint64_t count = bt_live_arrays();
    for (size_t i = 0; i < own->held.count; i++)
        count -= atomic_load(&own->held.items[i]->head.word) == (BTI_WORD_HELD | 1);
    return own->owned.count ? 0 : count;
}
int bti_threads_with_scopes(void) { return atomic_load(&threads_with_scopes); }

static void notice_forgotten_scope(scopes *own) {
    size_t first = own->starts.count ? own->starts.items[own->starts.count - 1].held : 0;
    size_t limit = (size_t)bti_flag_int(BTI_FLAG_scope_notice);
    if (own->noticed || !limit || own->held.count - first < limit) return;
    own->noticed = true;
    bti_place place = bti_call_place();
    bti_log(
        "berth: %zu arrays are held by one scope, the last made by %s at %s:%d; is a BT_SCOPE missing around the body "
        "of a loop?",
        own->held.count - first, place.name && *place.name ? place.name : "a call", bti_site_file(place.site),
        place.site.line);
}

static void register_thread_with_scopes(scopes *own) {
    if (own->registered) return;
    pthread_once(&thread_end_once, make_thread_end);
    pthread_setspecific(scopes_key, own);
    own->registered = true;
    own->thread = (uint64_t)bti_thread_number() << 40;
    atomic_fetch_add(&threads_with_scopes, 1);
    bti_libraries_watch_thread();
}

/* The number of the innermost scope but `outer`. */
static uint64_t scope_now(const scopes *own, size_t outer) {
    return own->starts.count > outer ? own->starts.items[own->starts.count - 1 - outer].scope : own->thread;
}

static bool is_scope_open(uint64_t scope) {
    scopes *own = BTI_THREAD_OWN(own_scopes);
    for (size_t i = own->starts.count; i-- > 0;)
        if (own->starts.items[i].scope == scope) return true;
    return scope == own->thread;
}

static bool hold_in_scope(scopes *own, bt_array *array) {
    if (!bti_vec_push(&own->held, array)) return false;
    array->scope = scope_now(own, 0);
    atomic_store_explicit(&array->head.word, BTI_WORD_HELD | 1, memory_order_relaxed);
    notice_forgotten_scope(own);
    return true;
}

bt_array *bti_array_new(bti_node *node) {
    bt_array *array = node ? bti_owned_new(BTI_OWNED_ARRAY, sizeof *array) : NULL;
    if (!array) {
        bti_node_release(node);
        return poison_without_memory();
    }
    atomic_init(&array->node, node);
    atomic_fetch_add(&node->handles, 1);
    scopes *own = BTI_THREAD_OWN(own_scopes);
    register_thread_with_scopes(own);
    bti_counter_add(&live_arrays, 1);
    if (hold_in_scope(own, array)) return array;
    (bt_release)(array);
    return poison_without_memory();
}

bt_array *bti_array_on(bti_node *node) { return bti_array_new(bti_node_retain(node)); }

bti_scope_guard bti_scope_begin(const char *file, int line) {
    scopes *own = BTI_THREAD_OWN(own_scopes);
    register_thread_with_scopes(own);
    scope_start begins = {own->held.count, own->owned.count, own->thread + ++own->scope_count,
                          file ? (bti_site){file, line} : bti_here()};
    return (bti_scope_guard){.marked = bti_vec_push(&own->starts, begins)};
}

void bti_scope_end(bti_scope_guard *guard) {
    scopes *own = BTI_THREAD_OWN(own_scopes);
    if (!guard->marked) return; /* there was no memory for the mark: its arrays fall to the scope outside */
    scope_start first = own->starts.items[--own->starts.count];
    release_objects_from(first.owned, BTI_END_SCOPE, first.site);
    release_arrays_from(first.held, BTI_END_SCOPE, first.site);
    own->noticed = own->noticed_history = false;
}

/* For calls that are made for what they do to the handle. */
static bti_error *note_misuse(const char *name, const bt_array *array) {
    BTI_PUBLIC(name);
    bti_error *error = bti_owned_released(&array->head);
    (void)!bti_fail_with(error);
    return error;
}

bt_array *bt_keep(bt_array *array) {
    scopes *own = BTI_THREAD_OWN(own_scopes);
    if (array && bti_owned_is_released(&array->head)) (void)!note_misuse("bt_keep", array);
    if (!array || !own->starts.count) return array;
    size_t *first = &own->starts.items[own->starts.count - 1].held;
    for (size_t i = own->held.count; i-- > *first;) {
        if (own->held.items[i] != array) continue;
        own->held.items[i] = own->held.items[*first];
        own->held.items[*first] = array;
        visit_again_from(own, *first);
        array->scope = scope_now(own, 1);
        ++*first;
        break;
    }
    return array;
}

/* With one owner more; NULL and no_memory have none. */
static bt_array *retain_array(bt_array *array, const char *name, bool *retained) {
    *retained = array && array != &no_memory && bti_owned_retain(&array->head);
    if (*retained || !array || array == &no_memory) return array;
    BTI_PUBLIC(name); /* what the caller goes on with says so for as long as it is held */
    return bt_retain(bti_poison(bti_error_retain(note_misuse(name, array))));
}

static void release_array(bt_array *array, bti_end how, const char *name) {
    if (!array || array == &no_memory) return;
    bti_dropped dropped = bti_owned_drop(&array->head);
    if (dropped == BTI_DROPPED_LAST) end_array(array, how, bti_here());
    if (dropped == BTI_DROPPED_NONE) (void)!note_misuse(name, array);
}

bt_array *bt_retain(bt_array *array) {
    bool retained;
    array = retain_array(array, "bt_retain", &retained);
    if (retained) bti_history_end(bti_node_of(array), "bt_retain");
    return array;
}

void bt_release(bt_array *array) { release_array(array, BTI_END_RELEASE, "bt_release"); }

#define LONG_HISTORY 10000 /* operations */

static void notice_long_history(const bt_array *value) {
    scopes *own = BTI_THREAD_OWN(own_scopes);
    if (own->noticed_history || value->history <= LONG_HISTORY) return;
    own->noticed_history = true;
    bti_site site = bti_here();
    bti_log("berth: bt_assign at %s:%d keeps a history of more than %d operations, which ends with the scope that made "
            "the array; put "
            "a BT_SCOPE around the body of the loop, or cut it by bt_stop_gradient",
            bti_site_file(site), site.line, LONG_HISTORY);
}

/* Gradients of what a scope computes step by step: history stays until that scope ends. The first step may start at a state of an
 * outer scope, or of one that has ended. */
static bool keeps_history(const bt_array *old, const bt_array *value) {
    return old && !bti_owned_is_released(&old->head) && is_scope_open(value->scope);
}

static void keep_or_end_history(const bt_array *old, bt_array *value) {
    bti_node *node = bti_node_of(value);
    if (!keeps_history(old, value)) {
        bti_history_end(node, "bt_assign");
        return;
    }
    if (node->forget) return;
    bti_history_note_end(node, "bt_assign");
    value->ends_history = true;
    if (old->scope == value->scope)
        value->history = old->history + bti_history_length(node, bti_node_of(old)->sequence);
    notice_long_history(value);
}

void bt_assign(bt_array **slot, bt_array *value) {
    if (!slot) {
        (void)!bti_fail(BT_INVALID_ARGUMENT, "bt_assign: the slot is NULL");
        return;
    }
    bt_array *old = *slot;
    bool retained;
    *slot = retain_array(value, "bt_assign", &retained);
    if (retained) keep_or_end_history(old, value);
    release_array(old, BTI_END_ASSIGN, "bt_assign");
}

/* --- other objects --------------------------------------------------------------------------------------------------- */

static void *new_poisoned_object(const bti_handle_class *class, bti_error *error) {
    bti_owned *object = bti_owned_new(class->kind, class->bytes);
    if (!object) return class->no_memory;
    object->error = bti_error_retain(error);
    return object;
}

static void *poisoned_by_record(const bti_handle_class *class) {
    bti_error *error = bti_error_last();
    void *object = new_poisoned_object(class, error ? error : &bti_no_memory_error);
    bti_error_release(error);
    return object;
}

void *bti_scope_own(const bti_handle_class *class, void *made) {
    bti_owned *object = made ? made : poisoned_by_record(class);
    if (object == class->no_memory) return object;
    scopes *own = BTI_THREAD_OWN(own_scopes);
    register_thread_with_scopes(own);
    atomic_fetch_or_explicit(&object->word, BTI_WORD_HELD, memory_order_relaxed);
    if (bti_vec_push(&own->owned, ((owned){object, class}))) return object;
    (void)!bti_no_memory();
    if (bti_owned_drop_held(object) == BTI_DROPPED_LAST) end_object(object, class, BTI_END_CALL, bti_here());
    return class->no_memory;
}

void *bti_handle_retain(const bti_handle_class *class, void *object, const char *name) {
    if (!object || object == class->no_memory || bti_owned_retain(object)) return object;
    bti_error *error = bti_handle_misuse(class->kind, object, name);
    (void)!bti_fail_with(error);
    return new_poisoned_object(class, error);
}

void bti_handle_release(const bti_handle_class *class, void *object, const char *name) {
    if (!object || object == class->no_memory) return;
    bti_dropped dropped = bti_owned_drop(object);
    if (dropped == BTI_DROPPED_LAST) end_object(object, class, BTI_END_RELEASE, bti_here());
    if (dropped == BTI_DROPPED_NONE) (void)!bti_handle_check(class->kind, object, name);
}

bti_error *bti_handle_misuse(bti_owned_kind kind, const void *object, const char *name) {
    BTI_PUBLIC(name);
    return bti_owned_error(object, kind);
}

bt_status bti_handle_check(bti_owned_kind kind, const void *object, const char *name) {
    return bti_fail_with(bti_handle_error(kind, object, name));
}

uint64_t bt_live_arrays(void) {
    int64_t live = bti_counter_sum(&live_arrays); /* threads may make and release arrays meanwhile */
    return live > 0 ? (uint64_t)live : 0;
}

void bti_each_new_held(void (*fn)(bt_array *array, void *data), void *data) {
    scopes *own = BTI_THREAD_OWN(own_scopes);
    atomic_fetch_add_explicit(&held_visits, own->held.count - own->visited, memory_order_relaxed);
    while (own->visited < own->held.count) fn(own->held.items[own->visited++], data);
}

/* --- public calls --------------------------------------------------------------------------------------------------- */

/* Field by field: a guard that is copied is read in wider pieces than it was written in, which costs more than all the rest. */
void bti_public_begin(bti_public *guard, const char *name) {
    scopes *own = BTI_THREAD_OWN(own_scopes);
    guard->name = name;
    guard->depth = bti_call_begin(name);
    guard->nesting = own->nesting++;
    guard->scope = own->held.count;
    guard->scopes = own;
    guard->autocast = own->autocast;
    bti_sequence_last(&guard->since);
    if (guard->nesting > 0) return;
    guard->modes = bti_modes_begin();
    own->calls++;
}

int bti_autocast_state(void) { return own_scopes.autocast; }
int bti_autocast_set(int state) {
    int before = own_scopes.autocast;
    own_scopes.autocast = state;
    return before;
}

int bti_public_nesting(void) { return own_scopes.nesting; }
uint64_t bti_public_calls(void) { return own_scopes.calls; }

void bti_public_end(bti_public *guard) {
    scopes *own = guard->scopes;
    if (guard->depth < 0) return;
    if (own->held.count > guard->scope) release_arrays_from(guard->scope, BTI_END_CALL, bti_here());
    bti_call_end(guard->depth);
    own->nesting = guard->nesting;
    own->autocast = guard->autocast;
    if (guard->nesting == 0) bti_modes_end(&guard->modes);
    guard->depth = -1;
}

bt_array *bti_public_keep(bti_public *guard, bt_array *result) {
    scopes *own = guard->scopes;
    for (size_t i = guard->scope; i < own->held.count; i++) {
        if (own->held.items[i] != result) continue;
        own->held.items[i] = own->held.items[guard->scope];
        visit_again_from(own, guard->scope);
        own->held.items[guard->scope++] = result;
        break;
    }
    return result;
}

void bti_array_swap(bt_array *a, bt_array *b) {
    bti_node *node = bti_node_of(a);
    atomic_store_explicit(&a->node, bti_node_of(b), memory_order_release);
    atomic_store_explicit(&b->node, node, memory_order_release);
    void *mapped = a->mapped;
    a->mapped = b->mapped;
    b->mapped = mapped;
}

void bti_array_donate(bt_array *x, bti_node *error) {
    bti_node *node = bti_node_of(x);
    atomic_fetch_add(&error->handles, 1);
    if (atomic_load(&node->state) == BTI_FAILED || !atomic_compare_exchange_strong(&x->node, &node, error)) {
        bti_node_release(error);
        return;
    }
    x->donated = node;
    atomic_fetch_sub(&node->handles, 1);
}
