#include "task/ready.h"

#include "task/actor.h"
#include "task/given.h"
#include "task/object.h"
#include "task/queue.h"
#include "task/tasks.h"
#include "task/value.h"

/* A task that waits in no queue any more fails (nothing when it is done already), and ends. */
static void refuse_task(bti_state *state, bti_task_record *task, bt_failure kind, bt_status status, const char *why,
                        bti_wakes *wakes) {
    if (task->makes_actor && task->actor) {
        bti_actor_die(state, task->actor, kind, status, why, wakes); /* drops the task from its actor */
    } else {
        bti_task_fail_as(state, task, kind, status, why, wakes);
    }
    bti_task_end(state, task, wakes);
}

/* The first argument that has failed; NULL: none has. */
static const bti_object *failed_argument(const bti_task_record *task) {
    bti_objects_at at = {.task = task};
    for (const bti_object *object; (object = bti_task_next_object(&at)) != NULL;)
        if (!object->actor && atomic_load(&object->state) == BTI_OBJECT_FAILED) return object;
    return NULL;
}

/* All arguments are there: queues the task. A method stands in its actor's line already. */
static void schedule_task(bti_state *state, bti_task_record *task, bti_wakes *wakes) {
    const bti_object *failed = failed_argument(task);
    if (!task->queue && !task->actor) { /* its actor died meanwhile */
        bti_task_end(state, task, wakes);
    } else if (failed && task->queue && !task->cancelled) {
        refuse_task(state, task, (bt_failure)failed->failure, (bt_status)failed->status,
                    bti_object_failure_text(failed), wakes);
    } else if (!task->actor || task->makes_actor) {
        bti_task_enqueue(state, task);
    } else if (task->actor->first == task) {
        bti_actor_feed(state, task->actor, wakes);
    }
}

/* --- new tasks ----------------------------------------------------------------------------------------------------- */

typedef struct awaiting {
    bti_state *state;
    bti_task_record *task;
    bti_more *last;
} awaiting;

/* References inside of lists are held, but not waited for. */
static bool await_object(void *data, const bti_packed_value *head, bool nested) {
    awaiting *a = data;
    bti_state *state = a->state;
    bti_task_record *task = a->task;
    bti_object *object = bti_object_of(state, head->as.id);
    if (nested) return bti_contents_add(state, &task->inner, object);
    if (!bti_task_add_object(state, task, object, &a->last)) return false;
    bti_object_retain(state, object);
    if (object->actor || atomic_load(&object->state) != BTI_OBJECT_PENDING) return true;
    bti_link *link = bti_record_new(state->arena, BTI_LINKS);
    if (!link) return false;
    link->task = task;
    link->next = object->links;
    BTI_SET(state->arena, object->links, link);
    BTI_SET(state->arena, task->missing, task->missing + 1);
    return true;
}

bool bti_task_await(bti_state *state, bti_task_record *task, bti_wakes *wakes) {
    awaiting a = {.state = state, .task = task};
    if (!bti_packed_each(bti_arguments_of(task), await_object, &a))
        return false; /* what was done so far is taken back with the task */
    if (task->missing) {
        BTI_SET(state->arena, task->state, BTI_TASK_ARGUMENTS);
    }
    if (task->actor && !task->makes_actor) bti_actor_add(state, task, wakes);
    if (!task->missing) schedule_task(state, task, wakes);
    return true;
}

/* --- what objects have left ---------------------------------------------------------------------------------------- */

/* A task waits for one object less. */
static void count_arrival(bti_state *state, bti_link *link, bti_wakes *wakes) {
    bti_task_record *task = link->task;
    BTI_SET(state->arena, state->arrived, link->next);
    bti_record_free(state->arena, BTI_LINKS, link);
    BTI_SET(state->arena, task->missing, task->missing - 1);
    if (!task->missing) schedule_task(state, task, wakes);
}

void bti_schedule_pending(bti_state *state, bti_wakes *wakes) {
    while (state->arrived || state->unheld_actors)
        if (state->arrived)
            count_arrival(state, state->arrived, wakes);
        else
            bti_actor_end_unheld(state, wakes);
}

void bti_task_ready(bti_state *state, bti_task_record *task, bti_wakes *wakes) {
    schedule_task(state, task, wakes);
    bti_schedule_pending(state, wakes);
}

bool bti_queue_clean(bti_state *state, bti_queue *queue, bti_wakes *wakes) {
    bool refused = false;
    while (queue->first && (queue->first->cancelled || (queue->group && queue->group->released))) {
        bti_task_record *task = bti_queue_take(state, queue);
        refuse_task(state, task, BT_FAILURE_REFUSED, BT_FAILED_PRECONDITION, "its group was released before it began",
                    wakes);
        refused = true;
    }
    if (refused) bti_schedule_pending(state, wakes);
    return refused;
}
