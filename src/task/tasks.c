#include "task/tasks.h"

#include "base/clock.h"
#include "task/mailbox.h"
#include "task/object.h"
#include "task/placement.h"
#include "task/queue.h"
#include "task/settle.h"
#include "task/store.h"
#include "task/value.h"

/* --- arguments ----------------------------------------------------------------------------------------------------- */

const char *bti_arguments_of(const bti_task_record *task) {
    return task->pack ? bti_object_value(task->pack) : task->small_arguments;
}

bool bti_task_add_object(bti_state *state, bti_task_record *task, bti_object *object, bti_more **last) {
    uint32_t index = task->object_count;
    if (index < BTI_FIRST_OBJECTS) {
        task->objects[index] = object;
    } else {
        uint32_t at = (index - BTI_FIRST_OBJECTS) % BTI_MORE_OBJECTS;
        if (!at) {
            bti_more *more = bti_record_new(state->arena, BTI_MORE);
            if (!more) return false;
            *(*last ? &(*last)->next : &task->more) = more;
            *last = more;
        }
        (*last)->objects[at] = object;
    }
    task->object_count++;
    return true;
}

bti_object *bti_task_next_object(bti_objects_at *at) {
    if (at->index >= at->task->object_count) return NULL;
    if (at->index < BTI_FIRST_OBJECTS) return at->task->objects[at->index++];
    uint32_t place = (at->index - BTI_FIRST_OBJECTS) % BTI_MORE_OBJECTS;
    if (!place) at->more = at->index == BTI_FIRST_OBJECTS ? at->task->more : at->more->next;
    at->index++;
    return at->more->objects[place];
}

bti_object *bti_task_next_stored(bti_objects_at *at) {
    if (!at->has_pack) {
        at->has_pack = true;
        if (at->task->pack) return at->task->pack;
    }
    for (bti_object *object; (object = bti_task_next_object(at)) != NULL;)
        if (atomic_load(&object->state) == BTI_OBJECT_READY && object->bytes > sizeof object->small) return object;
    return NULL;
}

uint64_t bti_task_stored_bytes(const bti_task_record *task) {
    bti_objects_at at = {.task = task};
    uint64_t bytes = 0;
    for (const bti_object *object; (object = bti_task_next_stored(&at)) != NULL;) bytes += object->bytes;
    return bytes;
}

bool bti_task_pin_now(bti_state *state, bti_task_record *task) {
    bti_objects_at all = {.task = task}, at = all;
    bti_object *object = bti_task_next_stored(&at);
    if (task->pinned || !object) return true;
    for (; object; object = bti_task_next_stored(&at))
        if (!bti_object_value(object)) return false;
    for (at = all; (object = bti_task_next_stored(&at)) != NULL;) bti_object_pin(state, object);
    BTI_SET(state->arena, task->pinned, true);
    return true;
}

void bti_task_unpin(bti_state *state, bti_task_record *task) {
    if (task->needs_bytes) {
        BTI_SET(state->arena, state->needed_bytes, state->needed_bytes - task->needs_bytes);
        BTI_SET(state->arena, task->needs_bytes, 0);
        if (state->crowded) bti_queue_readmit(state);
    }
    bti_objects_at at = {.task = task};
    if (!task->pinned) return;
    for (bti_object *object; (object = bti_task_next_stored(&at)) != NULL;) bti_object_unpin(state, object);
    BTI_SET(state->arena, task->pinned, false);
}

/* --- results ------------------------------------------------------------------------------------------------------- */

void bti_task_fail_as(bti_state *state, const bti_task_record *task, bt_failure kind, bt_status status,
                      const char *text, bti_wakes *wakes) {
    for (uint32_t i = 0, count = bti_result_count(task); i < count; i++) {
        bti_object *result = bti_task_result(task, i);
        if (atomic_load(&result->state) == BTI_OBJECT_PENDING)
            bti_object_fail_as(state, result, kind, status, text, wakes);
    }
}

void bti_task_fail(bti_state *state, const bti_task_record *task, bt_status status, const char *text,
                   bti_wakes *wakes) {
    bti_task_fail_as(state, task, bti_failure_of(status), status, text, wakes);
}

void bti_task_fail_gone(bti_state *state, const bti_task_record *task, const char *why, bti_wakes *wakes) {
    if (task->cancelled)
        bti_task_fail(state, task, BT_CANCELLED, why, wakes);
    else
        bti_task_fail_as(state, task, bti_death_of(task->client), BT_ABORTED, why, wakes);
}

/* Items that are not read yet may use three quarters of the records. */
static bool too_many_objects(const bti_state *state) {
    const bti_records *objects = &state->arena->records[BTI_OBJECTS];
    return objects->live > objects->most / 4 * 3;
}

/* The call's result becomes a link: the item, and a new object, which is the call's result from now on. */
void bti_task_yield(bti_state *state, bti_task_record *task, bti_object *item, bti_wakes *wakes) {
    bti_arena *arena = state->arena;
    bti_object *link = task->result, *next;
    if (atomic_load(&link->state) != BTI_OBJECT_PENDING) return;
    if (too_many_objects(state) || !(next = bti_object_new(state))) {
        BTI_SET(arena, task->stream_refused, true);
        bti_task_fail(state, task, BT_RESOURCE_EXHAUSTED,
                      "the call has yielded more items than can be kept until they are read", wakes);
        return;
    }
    bti_object_leave_room(state, link);
    bti_object_empty(state, link);
    bti_pack_stream((bti_stream_link){bti_object_id(state, item), bti_object_id(state, next)}, link->small);
    BTI_SET(arena, link->bytes, BTI_STREAM_BYTES);
    (void)bti_contents_add(state, &link->contents, item); /* two always fit into the record */
    (void)bti_contents_add(state, &link->contents, next);
    BTI_SET(arena, link->yielder, task);
    BTI_SET(arena, link->yielder_sequence, task->sequence);
    BTI_SET(arena, next->maker, task);
    BTI_SET(arena, task->result, next);
    BTI_SET(arena, task->yielded, task->yielded + 1);
    bti_object_settle(state, link, BTI_OBJECT_READY, wakes);
    bti_object_drop(state, link, wakes);
}

bti_task_record *bti_maker_of(const bti_object *object) {
    if (!object->yielder) return object->maker;
    bool same = object->yielder->sequence == object->yielder_sequence && object->yielder->state != BTI_TASK_NONE;
    return same ? object->yielder : NULL;
}

/* --- the timeline -------------------------------------------------------------------------------------------------- */

bti_span bti_span_of(const bti_task_record *task) {
    bti_span span = {.submitted_ns = task->submitted_ns,
                     .begun_ns = bti_task_begun_ns(task),
                     .task = task->sequence,
                     .gpus = task->gpus,
                     .function = task->function,
                     .is_actor = task->makes_actor,
                     .thread = bti_task_thread(task),
                     .status = task->result ? task->result->status : BT_OK};
    if (task->actor) memcpy(span.actor, task->actor->name, sizeof span.actor);
    if (task->client) span.worker = task->client->number, span.pid = task->client->pid;
    return span;
}

void bti_timeline_note(bti_state *state, const bti_task_record *task) {
    bti_timeline *timeline = state->timeline;
    bti_span *span = &timeline->spans[timeline->count % BTI_TIMELINE_SPANS];
    *span = bti_span_of(task);
    span->ended_ns = bti_now_ns();
    BTI_SET(state->arena, timeline->count, timeline->count + 1);
}

/* --- the end ------------------------------------------------------------------------------------------------------- */

static void drop_arguments(bti_state *state, const bti_task_record *task, bti_wakes *wakes) {
    bti_objects_at at = {.task = task};
    for (bti_object *object; (object = bti_task_next_object(&at)) != NULL;) bti_object_drop(state, object, wakes);
    for (bti_more *next, *more = task->more; more; more = next) {
        next = more->next;
        bti_record_free(state->arena, BTI_MORE, more);
    }
}

void bti_task_end(bti_state *state, bti_task_record *task, bti_wakes *wakes) {
    bti_arena *arena = state->arena;
    bti_timeline_note(state, task);
    bti_task_unpin(state, task);
    if (task->client) bti_give_back(state, task);
    drop_arguments(state, task, wakes);
    bti_contents_drop(state, &task->inner, wakes);
    for (bti_left_room *next, *left = task->left_rooms; left; left = next) {
        next = left->next;
        bti_store_give(state, left->room, left->bytes);
        bti_record_free(arena, BTI_LEFT_ROOMS, left);
    }
    if (task->pack) bti_object_drop(state, task->pack, wakes);
    for (uint32_t i = bti_result_count(task); i-- > 0;) bti_object_drop(state, bti_task_result(task, i), wakes);
    if (task->queue) BTI_SET(arena, task->queue->users, task->queue->users - 1);
    if (task->queue && task->queue->group) BTI_SET(arena, task->queue->group->users, task->queue->group->users - 1);
    BTI_SET(arena, task->state, BTI_TASK_NONE);
    bti_record_free(arena, BTI_TASKS, task);
}
