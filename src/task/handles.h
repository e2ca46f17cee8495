/* What the public functions of tasks share (lifetime.c, front.c, references.c): handles, the engine of this process, and the count of calls inside it. */
#ifndef BTI_TASK_HANDLES_H
#define BTI_TASK_HANDLES_H

#include <stdatomic.h>

#include "array/handle.h"
#include "task/engine.h"

struct bt_ref {
    bti_owned head;
    uint64_t runtime;    /* the runtime that it belongs to (bti_runtime_now) */
    void *held;          /* NULL: poisoned */
    _Atomic(void *) pin; /* keeps the value in place: texts and bytes that were read from it point into it */
    bool ended;          /* of a stream: bt_stream_next has given all items */
    uint32_t failure;    /* of a reference that the end of its actor has poisoned: bt_failure */
};
struct bt_actor {
    bt_ref ref;
};
struct bt_group {
    bt_ref ref;
};
extern bt_ref bti_no_ref; /* given when memory is short */

extern const bti_engine *bti_engine_now; /* NULL: no runtime */
extern uint64_t bti_runtime_now;         /* counts the runtimes that this process began */
extern int bti_default_retries;          /* of calls (bt_runtime_options) */

/* A forked process has no engine until it joins one, as workers do. */
void bti_engine_join(const bti_engine *engine);
bool bti_engine_is_joined(void);

/* A public call that is inside the engine: bt_runtime_shutdown waits for all of them. `thorough`: the engine checks its memory in full,
 * which takes longer. */
typedef struct bti_visit {
    bool inside;
} bti_visit;
bti_visit bti_visit_begin(bool thorough);
void bti_visit_end(const bti_visit *visit);
#define BTI_VISIT_AS(v, thorough) __attribute__((cleanup(bti_visit_end))) const bti_visit v = bti_visit_begin(thorough)
#define BTI_VISIT(v) BTI_VISIT_AS(v, true)

/* Shutdown: no call begins from now on (false: another thread shuts down already); waits until all calls have left; lets calls begin again. */
bool bti_visits_close(void);
void bti_visits_await(void);
void bti_visits_open(void);

/* The error of a call that is made without a runtime; and of a call that failed, where the engine's own failure takes precedence. */
bt_status bti_no_runtime(void);
bt_status bti_cause(bt_status status);

/* What the engine gave for this handle. Only inside the engine (bti_visit_begin). NULL with the cause in the error record. */
void *bti_held_by(const void *handle, const char *what);
/* Handles of the innermost scope for what the engine gave; poisoned by the thread's last error when that is NULL. */
bt_ref *bti_ref_handle(void *held);
bt_actor *bti_actor_handle(void *held);
bt_group *bti_group_handle(void *held);
/* A reference or an actor that can be passed on. what: "reference". */
bt_status bti_check_handle(const void *handle, const char *what);

/* Moves a reference that the caller holds, and that no scope lists, to the innermost scope. NULL: a reference poisoned by the thread's last
 * error. */
bt_ref *bti_ref_give(bt_ref *ref);

/* The id of a reference or an actor in packed values. The handle is not poisoned and belongs to the present runtime. */
uint64_t bti_ref_id(const bt_ref *ref);
uint64_t bti_actor_id(const bt_actor *actor);
/* A new handle, of the innermost scope, for an id; NULL with the cause in the error record. */
bt_ref *bti_ref_from(uint64_t id);
bt_actor *bti_actor_from(uint64_t id);
bt_array *bti_array_from(void *owner, bool is_argument, const void *data, uint64_t bytes, bt_dtype dtype,
                         bt_shape shape);

#endif
