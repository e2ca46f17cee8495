/* The results of calls: one, several, a stream; and what becomes of them when a call fails. */
#include "task/object.h"
#include "task/value.h"

uint32_t bti_result_count(const bti_task_record *task) {
    if (!task->result) return 0;
    return task->result->results ? task->result->results->count : 1;
}

bti_object *bti_task_result(const bti_task_record *task, uint32_t index) {
    return index ? task->result->results->of[index] : task->result;
}

bool bti_results_new(bti_state *state, bti_task_record *task, uint32_t count) {
    bti_results *results = bti_record_new(state->arena, BTI_RESULTS);
    if (!results) return false;
    results->count = results->there = count;
    for (uint32_t i = 0; i < count; i++) {
        bti_object *object = i ? bti_object_new(state) : task->result; /* held by the first */
        if (!object) return false;
        results->of[i] = object;
        results->kept[i] = i > 0;
        BTI_SET(state->arena, object->results, results);
        BTI_SET(state->arena, object->result_index, i);
        BTI_SET(state->arena, object->maker, task);
        if (i) bti_object_retain(state, object); /* by the task, as the first one is */
    }
    return true;
}

bti_hold *bti_result_hold(bti_state *state, bti_client *client, bti_object *object, uint32_t index, bti_wakes *wakes) {
    bti_results *results = object->results;
    uint32_t count = results ? results->count : 1;
    if (!results && index && atomic_load(&object->state) == BTI_OBJECT_FAILED) /* the call was not even made */
        return (void)bti_object_failure(object), NULL;
    if (index >= count)
        return (void)bti_fail(BT_OUT_OF_RANGE, "result %u of a call that has %u (.num_returns)", index, count), NULL;
    bti_object *wanted = results ? results->of[index] : object;
    if (!wanted) return (void)bti_fail(BT_NOT_FOUND, "nobody has result %u any more: it was freed", index), NULL;
    bti_hold *hold = bti_hold_new(state, client, wanted);
    if (!hold) return (void)bti_fail(BT_RESOURCE_EXHAUSTED, "too many references"), NULL;
    if (results && results->kept[index]) {
        BTI_SET(state->arena, results->kept[index], false);
        bti_object_drop(state, wanted, wakes);
    }
    return hold;
}

void bti_results_forget(bti_state *state, const bti_object *object, bti_wakes *wakes) {
    bti_arena *arena = state->arena;
    bti_results *results = object->results;
    BTI_SET(arena, results->of[object->result_index], NULL);
    for (uint32_t i = 1; !object->result_index && i < results->count; i++) {
        if (!results->kept[i]) continue;
        BTI_SET(arena, results->kept[i], false);
        bti_object_drop(state, results->of[i], wakes);
    }
    BTI_SET(arena, results->there, results->there - 1);
    if (!results->there) bti_record_free(arena, BTI_RESULTS, results);
}

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

void bti_task_drop_results(bti_state *state, const bti_task_record *task, bti_wakes *wakes) {
    for (uint32_t i = bti_result_count(task); i-- > 0;) bti_object_drop(state, bti_task_result(task, i), wakes);
}

/* --- streams ---------------------------------------------------------------------------------------------------------------- */

/* Items that nobody reads leave a quarter of the records to others. */
static bool are_many(const bti_state *state) {
    const bti_records *objects = &state->arena->records[BTI_OBJECTS];
    return objects->live > objects->most / 4 * 3;
}

/* The call's result becomes a link: the item, and a new object, which is the call's result from now on. */
void bti_task_yield(bti_state *state, bti_task_record *task, bti_object *item, bti_wakes *wakes) {
    bti_arena *arena = state->arena;
    bti_object *link = task->result, *next;
    if (atomic_load(&link->state) != BTI_OBJECT_PENDING) return;
    if (are_many(state) || !(next = bti_object_new(state))) {
        BTI_SET(arena, task->stream_refused, true);
        bti_task_fail(state, task, BT_RESOURCE_EXHAUSTED,
                      "the call has yielded more items than can be kept until they are read", wakes);
        return;
    }
    bti_object_leave_room(state, link);
    bti_object_empty(state, link);
    bti_pack_stream((bti_stream_link){bti_object_id(state, item), bti_object_id(state, next)}, link->small);
    BTI_SET(arena, link->bytes, BTI_STREAM_BYTES);
    (void)bti_contents_add(state, &link->contents, item); /* there is room for two */
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
