/* What the public functions of tasks share (front.c, remote.c, references.c): handles, the engine that runs, and who is inside of it. */
#ifndef BTI_TASK_HANDLES_H
#define BTI_TASK_HANDLES_H

#include <stdatomic.h>

#include "array/handle.h"
#include "task/engine.h"

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
extern bt_ref bti_no_ref; /* where memory is short */

extern const bti_engine *bti_engine_now; /* NULL: no runtime */
extern uint64_t bti_runtime_now;         /* counts those that this process began */

/* A forked process is of no engine before it joins one, as the engine's own workers do. */
void bti_engine_join(const bti_engine *engine);
bool bti_engine_is_joined(void);

/* A call that is inside of the engine, which is closed after the last. `thorough`: the engine may take some time to tell whether it is whole. */
typedef struct bti_visit {
    bool inside;
} bti_visit;
bti_visit bti_visit_begin(bool thorough);
void bti_visit_end(const bti_visit *visit);
#define BTI_VISIT_AS(v, thorough) __attribute__((cleanup(bti_visit_end))) const bti_visit v = bti_visit_begin(thorough)
#define BTI_VISIT(v) BTI_VISIT_AS(v, true)

/* The end of an engine: no call begins from now on (false: another thread has closed it already); those inside have left; calls may begin again. */
bool bti_visits_close(void);
void bti_visits_await(void);
void bti_visits_open(void);

/* The error of a call outside of a runtime; of one that failed: the end of the engine comes first. */
bt_status bti_no_runtime(void);
bt_status bti_cause(bt_status status);

/* What a handle stands for. Inside of the engine. NULL with the cause in the error record. */
void *bti_held_by(const void *handle, const char *what);
/* Handles of the innermost scope, of what the engine gave; poisoned by the error record when that is NULL. */
bt_ref *bti_ref_handle(void *held);
bt_actor *bti_actor_handle(void *held);
bt_group *bti_group_handle(void *held);
/* A reference or an actor that can be passed on. what: "reference". */
bt_status bti_check_handle(const void *handle, const char *what);

/* Gives a reference that the caller holds, and that no scope lists, to the innermost scope. NULL: one that is poisoned by what the error record
 * says. */
bt_ref *bti_ref_give(bt_ref *ref);

/* What stands for a reference or an actor in packed values: not poisoned, of the runtime that runs. */
uint64_t bti_ref_id(const bt_ref *ref);
uint64_t bti_actor_id(const bt_actor *actor);
/* Another handle of the innermost scope; NULL with the cause in the error record. */
bt_ref *bti_ref_from(uint64_t id);
bt_actor *bti_actor_from(uint64_t id);
bt_array *bti_array_from(void *owner, bool is_argument, const void *data, uint64_t bytes, bt_dtype dtype,
                         bt_shape shape);

#endif
