/* Tasks that wait for objects, in a runtime that stands in memory alone: when they are queued, and when they fail. */
#include "task/ready.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "task/object.h"
#include "task/queue.h"
#include "task/settle.h"
#include "task/store.h"
#include "task/tasks.h"
#include "task/value.h"

enum { MANY = 50000 };

static bti_state *state;
static bti_wakes wakes;

static int set_up(void **unused) {
    static const struct {
        size_t bytes;
        uint32_t most;
    } kinds[] = {[BTI_OBJECTS] = {sizeof(bti_object), MANY + 10},
                 [BTI_TASKS] = {sizeof(bti_task_record), MANY + 10},
                 [BTI_QUEUES] = {sizeof(bti_queue), 10},
                 [BTI_FUNCTIONS] = {sizeof(bti_function_record), 10},
                 [BTI_LINKS] = {sizeof(bti_link), MANY + 10}};
    bti_arena *arena;
    (void)unused;
    if (bti_arena_open((uint64_t)1 << 30, &arena) != BT_OK ||
        bti_arena_room(arena, sizeof *state, (void **)&state) != BT_OK)
        return -1;
    state->arena = arena;
    for (int kind = 0; kind < (int)(sizeof kinds / sizeof *kinds); kind++)
        if (kinds[kind].most && bti_arena_reserve(arena, kind, kinds[kind].bytes, kinds[kind].most) != BT_OK) return -1;
    if (bti_queues_open(state) != BT_OK ||
        bti_arena_room(state->arena, sizeof *state->timeline, (void **)&state->timeline) != BT_OK ||
        bti_arena_room(arena, sizeof *state->store, (void **)&state->store) != BT_OK)
        return -1;
    state->resource_count = 2;
    state->sequence = 1;
    return 0;
}

static int tear_down(void **unused) {
    (void)unused;
    bti_arena_close(state->arena);
    return 0;
}

/* A task that takes the object (NULL: nothing); its result is held by the test too. */
static bti_task_record *submit_taking(bti_object *object) {
    const bti_amounts amounts = {.of = {BTI_UNIT}};
    const struct {
        int64_t count;
        bti_packed_value value;
    } list = {object != NULL, {.type = BT_REFERENCE, .as.id = object ? bti_object_id(state, object) : 0}};
    bti_task_record *task = bti_record_new(state->arena, BTI_TASKS);
    assert_non_null(task);
    memcpy(task->small_arguments, &list, sizeof list);
    task->sequence = state->sequence++;
    task->queue = bti_queue_of(state, &amounts, NULL, 0);
    task->queue->users++;
    task->result = bti_object_new(state);
    bti_object_retain(state, task->result);
    task->result->maker = task;
    assert_true(bti_task_await(state, task, &wakes));
    bti_arena_commit(state->arena);
    return task;
}

static void test_all_that_wait_are_queued_at_once(void **unused) {
    (void)unused;
    bti_object *object = bti_object_new(state);
    bti_task_record *first = submit_taking(object), *second = submit_taking(object), *none = submit_taking(NULL);
    bti_queue *queue = first->queue;
    assert_int_equal(queue->length, 1);
    bti_object_settle(state, object, BTI_OBJECT_READY, &wakes);
    assert_int_equal(queue->length, 1); /* the scheduler has not looked yet */
    bti_schedule_pending(state, &wakes);
    assert_int_equal(queue->length, 3);
    assert_null(state->arrived);
    assert_ptr_equal(bti_queue_take(state, queue), first);
    assert_ptr_equal(bti_queue_take(state, queue), second);
    assert_ptr_equal(bti_queue_take(state, queue), none);
}

static void test_what_was_taken_back_did_not_arrive(void **unused) {
    (void)unused;
    bti_object *object = bti_object_new(state);
    const bti_task_record *task = submit_taking(object);
    bti_object_settle(state, object, BTI_OBJECT_READY, &wakes);
    bti_schedule_pending(state, &wakes);
    bti_arena_take_back(state->arena); /* as when the process dies with the lock */
    assert_int_equal(atomic_load(&object->state), BTI_OBJECT_PENDING);
    assert_int_equal(task->missing, 1);
    assert_null(state->arrived);
    assert_non_null(object->links);
    bti_object_settle(state, object, BTI_OBJECT_READY, &wakes);
    bti_schedule_pending(state, &wakes);
    assert_ptr_equal(task->queue->first, task);
}

/* Each takes the result of the one before it: the failure of the first one passes through all of them, however many there are. */
static void test_a_failure_passes_through_a_long_chain(void **unused) {
    (void)unused;
    bti_object *first = bti_object_new(state), *last = first;
    for (int i = 0; i < MANY; i++) last = submit_taking(last)->result;
    const uint32_t live = state->arena->records[BTI_TASKS].live;
    bti_object_fail(state, first, BT_CANCELLED, "x", &wakes);
    bti_schedule_pending(state, &wakes);
    assert_int_equal(atomic_load(&last->state), BTI_OBJECT_FAILED);
    assert_int_equal(last->status, BT_CANCELLED);
    assert_string_equal(bti_object_failure_text(last), "x");
    assert_int_equal(live, MANY);
    assert_int_equal(state->arena->records[BTI_TASKS].live, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_all_that_wait_are_queued_at_once, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_what_was_taken_back_did_not_arrive, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_failure_passes_through_a_long_chain, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
