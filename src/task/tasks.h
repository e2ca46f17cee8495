/* The record of a call: its arguments, how far its worker is with it, its results, its end. All with the lock.
 *
 * These functions may leave work for the scheduler in the lists of ready.h. The caller runs bti_schedule_pending before it unlocks. */
#ifndef BTI_TASK_TASKS_H
#define BTI_TASK_TASKS_H

#include "task/mailbox.h"
#include "task/state.h"

/* --- arguments --- */
/* Its arguments as a packed list. */
const char *bti_arguments_of(const bti_task_record *task);
/* One more object among the arguments of a new task, which is to be held; `*last`: NULL at first. False: no record is left. */
bool bti_task_add_object(bti_state *state, bti_task_record *task, bti_object *object, bti_more **last);
/* The objects among its arguments, one after the other, from {.task = task} on; NULL: there are no more. */
typedef struct bti_objects_at {
    const bti_task_record *task;
    uint32_t index;
    const bti_more *more;
    bool has_pack;
} bti_objects_at;
bti_object *bti_task_next_object(bti_objects_at *at);
/* The same of the values that it reads from memory: its arguments as a list, and those among them that are large. */
bti_object *bti_task_next_stored(bti_objects_at *at);
/* Bytes of its arguments that are in the store. */
uint64_t bti_task_stored_bytes(const bti_task_record *task);
/* Its arguments stay in memory while it runs; false when some are on disk. */
bool bti_task_pin_now(bti_state *state, bti_task_record *task);
void bti_task_unpin(bti_state *state, bti_task_record *task);

/* --- results --- */
/* Those that are not done fail. */
void bti_task_fail(bti_state *state, const bti_task_record *task, bt_status status, const char *text, bti_wakes *wakes);
void bti_task_fail_as(bti_state *state, const bti_task_record *task, bt_failure kind, bt_status status,
                      const char *text, bti_wakes *wakes);
/* The same of a call that ran in a process that is gone. */
void bti_task_fail_gone(bti_state *state, const bti_task_record *task, const char *why, bti_wakes *wakes);
static inline bt_failure bti_death_of(const bti_client *client) {
    return client && client->out_of_memory ? BT_FAILURE_OUT_OF_MEMORY : BT_FAILURE_PROCESS_DIED;
}
/* The call yields an item. */
void bti_task_yield(bti_state *state, bti_task_record *task, bti_object *item, bti_wakes *wakes);
/* The call that will give this object, or what follows it in its stream; NULL: it has ended. */
bti_task_record *bti_maker_of(const bti_object *object);

/* --- the end --- */
/* It runs nowhere, or has ended: gives back what it had, drops what it holds, frees it. */
void bti_task_end(bti_state *state, bti_task_record *task, bti_wakes *wakes);

/* --- the timeline: a ring with the tasks that ended last --- */
enum { BTI_TIMELINE_SPANS = 1 << 15 };

typedef struct bti_span {
    uint64_t submitted_ns, begun_ns, ended_ns; /* begun 0: it never ran; ended 0: it runs */
    uint64_t task, gpus;
    const bti_function_record *function;
    int32_t pid;
    uint32_t worker, status;
    bool is_actor;  /* the life of an actor */
    uint8_t thread; /* of an actor that runs several methods at once, from 1; else 0 */
    char actor[64];
} bti_span;

typedef struct bti_timeline {
    uint64_t count; /* of all spans that were ever added */
    bti_span spans[BTI_TIMELINE_SPANS];
} bti_timeline;

/* Adds a task that ends. */
void bti_timeline_note(bti_state *state, const bti_task_record *task);
/* The span of a task that runs, or ends now. */
bti_span bti_span_of(const bti_task_record *task);

#endif
