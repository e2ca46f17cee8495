#include "task/handles.h"

#include <pthread.h>
#include <stdatomic.h>
#include <time.h>

const bti_engine *bti_engine_now;
uint64_t bti_runtime_now;

void bti_engine_join(const bti_engine *of) { bti_engine_now = of; }
bool bti_engine_is_joined(void) { return bti_engine_now != NULL; }

static atomic_int visitors;
static atomic_bool ending;

/* False: the engine has failed, and its error is the thread's last error. */
static bool engine_is_sound(bool thorough) {
    return !bti_engine_now->fault || bti_engine_now->fault(thorough) == BT_OK;
}

bt_status bti_cause(bt_status status) {
    return status == BT_OK || !bti_engine_now || engine_is_sound(true) ? status : bt_error_status();
}

bti_visit bti_visit_begin(bool thorough) {
    atomic_fetch_add(&visitors, 1);
    if (!atomic_load(&ending) && bti_engine_now && engine_is_sound(thorough))
        return (bti_visit){
            true}; /* `visitors` is counted before `ending` is read, so a shutdown that did not see this visitor is seen here */
    atomic_fetch_sub(&visitors, 1);
    return (bti_visit){false};
}

void bti_visit_end(const bti_visit *v) {
    if (v->inside) atomic_fetch_sub(&visitors, 1);
}

bool bti_visits_close(void) { return !atomic_exchange(&ending, true); }

void bti_visits_await(void) {
    while (atomic_load(&visitors)) nanosleep(&(struct timespec){.tv_nsec = 100000}, NULL);
}

void bti_visits_open(void) { atomic_store(&ending, false); }

/* A child that the program or a task forks does not belong to the runtime. */
static void forget_engine(void) {
    bti_engine_now = NULL;
    bti_runtime_now++;
    atomic_store(&visitors, 0);
    atomic_store(&ending, false);
}
__attribute__((constructor)) static void watch_forks(void) { pthread_atfork(NULL, NULL, forget_engine); }

bt_status bti_no_runtime(void) {
    if (bti_engine_now && !engine_is_sound(true)) return bt_error_status();
    return bti_fail(BT_FAILED_PRECONDITION, "no runtime: bt_runtime_init comes first");
}

/* --- handles ----------------------------------------------------------------------------------------------------------- */

static void clear_handle(void *handle) {
    const bt_ref *ref = handle;
    BTI_VISIT(v);
    if (!ref->held || !v.inside || ref->runtime != bti_runtime_now) return;
    void *pin = atomic_load(&ref->pin);
    if (pin) bti_engine_now->unpin(pin);
    bti_engine_now->release(ref->held);
}

bt_ref bti_no_ref = {.head = BTI_NO_MEMORY};
static bt_actor no_actor = {.ref.head = BTI_NO_MEMORY};
static bt_group no_group = {.ref.head = BTI_NO_MEMORY};
static const bti_handle_class ref_class = {BTI_OWNED_REF, sizeof(bt_ref), clear_handle, &bti_no_ref};
static const bti_handle_class actor_class = {BTI_OWNED_ACTOR, sizeof(bt_actor), clear_handle, &no_actor};
static const bti_handle_class group_class = {BTI_OWNED_GROUP, sizeof(bt_group), clear_handle, &no_group};

/* A handle of what the engine gave; if that is NULL, a handle poisoned by the thread's last error. */
static void *make_task_handle(const bti_handle_class *class, void *held) {
    if (!held) (void)!bti_cause(BT_INTERNAL);
    bt_ref *ref = held ? bti_owned_new(class->kind, class->bytes) : NULL;
    if (ref) {
        ref->runtime = bti_runtime_now;
        ref->held = held;
    } else if (held) {
        bti_engine_now->release(held);
        (void)!bti_no_memory();
    }
    return bti_scope_own(class, ref);
}

bt_ref *bti_ref_handle(void *held) { return make_task_handle(&ref_class, held); }
bt_actor *bti_actor_handle(void *held) { return make_task_handle(&actor_class, held); }
bt_group *bti_group_handle(void *held) { return make_task_handle(&group_class, held); }

void *bti_held_by(const void *handle, const char *what) {
    const bt_ref *ref = handle;
    if (!ref) return (void)bti_fail(BT_INVALID_ARGUMENT, "the %s is NULL", what), NULL;
    if (bti_fail_with(bti_owned_error(&ref->head, (bti_owned_kind)ref->head.kind)) != BT_OK) return NULL;
    if (bti_engine_now && !engine_is_sound(false)) return NULL;
    if (bti_engine_now && ref->runtime == bti_runtime_now && !atomic_load(&ending)) return ref->held;
    return (void)bti_fail(BT_FAILED_PRECONDITION, "the runtime of this %s was shut down", what), NULL;
}

bt_status bti_check_handle(const void *handle, const char *what) {
    return bti_held_by(handle, what) ? BT_OK : bt_error_status();
}

bt_ref *bt_ref_retain(bt_ref *ref) { return bti_handle_retain(&ref_class, ref, "bt_ref_retain"); }
void bt_ref_release(bt_ref *ref) { bti_handle_release(&ref_class, ref, "bt_ref_release"); }
bt_actor *bt_actor_retain(bt_actor *actor) { return bti_handle_retain(&actor_class, actor, "bt_actor_retain"); }
void bt_actor_release(bt_actor *actor) { bti_handle_release(&actor_class, actor, "bt_actor_release"); }
bt_group *bt_group_retain(bt_group *group) { return bti_handle_retain(&group_class, group, "bt_group_retain"); }
void bt_group_release(bt_group *group) { bti_handle_release(&group_class, group, "bt_group_release"); }

bt_ref *bti_ref_give(bt_ref *ref) { return bti_scope_own(&ref_class, ref); }

uint64_t bti_ref_id(const bt_ref *ref) { return bti_engine_now->id(ref->held); }
uint64_t bti_actor_id(const bt_actor *actor) { return bti_engine_now->id(actor->ref.held); }

static void *hold_of_id(uint64_t id) {
    return bti_engine_now ? bti_engine_now->hold(id) : ((void)bti_no_runtime(), NULL);
}

bt_ref *bti_ref_from(uint64_t id) {
    void *held = hold_of_id(id);
    return held ? bti_ref_handle(held) : NULL;
}

bt_actor *bti_actor_from(uint64_t id) {
    void *held = hold_of_id(id);
    return held ? bti_actor_handle(held) : NULL;
}

bt_array *bti_array_from(void *owner, bool is_argument, const void *data, uint64_t bytes, bt_dtype dtype,
                         bt_shape shape) {
    if (!bti_engine_now || !owner) return bt_from(data, dtype, shape);
    return bti_engine_now->array_in(owner, is_argument, data, bytes, dtype, shape);
}
