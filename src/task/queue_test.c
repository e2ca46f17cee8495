/* Queues of a runtime that stands in memory alone: their order, what fits, many kinds. */
#include "task/queue.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "task/fair.h"

enum { MANY = 20000 };

static bti_state *state;

static int set_up(void **unused) {
    bti_arena *arena;
    (void)unused;
    if (bti_arena_open((uint64_t)1 << 30, &arena) != BT_OK ||
        bti_arena_room(arena, sizeof *state, (void **)&state) != BT_OK)
        return -1;
    state->arena = arena;
    if (bti_arena_reserve(arena, BTI_TASKS, sizeof(bti_task_record), MANY + 10) != BT_OK ||
        bti_arena_reserve(arena, BTI_QUEUES, sizeof(bti_queue), MANY + 10) != BT_OK || bti_queues_open(state) != BT_OK)
        return -1;
    state->resource_count = 3;
    state->gpu_count = 2;
    state->machine.total = (bti_amounts){.of = {4 * BTI_UNIT, 2 * BTI_UNIT, 1000 * BTI_UNIT}};
    state->machine.free = state->machine.total;
    for (int g = 0; g < 2; g++) state->machine.gpu_free[g] = BTI_UNIT;
    return 0;
}

static int tear_down(void **unused) {
    (void)unused;
    bti_arena_close(state->arena);
    return 0;
}

static bti_task_record *add(bti_amounts amounts, int priority, uint32_t depth) {
    bti_task_record *task = bti_record_new(state->arena, BTI_TASKS);
    assert_non_null(task);
    task->sequence = state->sequence++;
    task->priority = priority;
    task->depth = depth;
    task->queue = bti_queue_of(state, &amounts, NULL, 0);
    assert_non_null(task->queue);
    task->queue->users++;
    bti_queue_add(state, task);
    bti_arena_commit(state->arena);
    return task;
}

static uint32_t taken(bti_queue *queue) {
    bti_task_record *task = bti_queue_take(state, queue);
    task->queue->users--;
    bti_arena_commit(state->arena);
    return (uint32_t)task->sequence;
}

/* Higher priority, then deeper, then earlier; over queues as within one. */
static void tasks_come_in_order(void **unused) {
    (void)unused;
    static const uint32_t order[] = {5, 1, 6, 4, 3, 0, 2};
    const bti_amounts one = {.of = {BTI_UNIT}}, two = {.of = {2 * BTI_UNIT}};
    add(one, 0, 0);
    add(two, 3, 0);
    add(two, 0, 0);
    add(one, 0, 1);
    add(two, 0, 2);
    add(one, 3, 1);
    add(one, 3, 0);
    for (size_t i = 0; i < sizeof order / sizeof *order; i++)
        assert_int_equal(taken(bti_waiting_first(&state->machine)), order[i]);
    assert_null(bti_waiting_first(&state->machine));
}

/* The first that fits is found as a look at all of them finds it, whatever comes and goes. */
static void the_first_that_fits_is_found(void **unused) {
    (void)unused;
    enum { KINDS = 200, STEPS = 20000 };
    static bti_queue *listed[KINDS + 1];
    unsigned seed = 1;
    int count = 0;
    for (int step = 0; step < STEPS; step++) {
        int kind = rand_r(&seed) % KINDS;
        if (count < 300 && rand_r(&seed) % 2) {
            bti_amounts amounts = {.of = {kind % 50 * 1000, kind % 3 * BTI_UNIT, kind / 50 * BTI_UNIT}};
            add(amounts, rand_r(&seed) % 3, (uint32_t)rand_r(&seed) % 2);
            count++;
        }
        for (int r = 0; r < 3; r++) state->machine.free.of[r] = rand_r(&seed) % 5 * BTI_UNIT;
        for (int g = 0; g < 2; g++) state->machine.gpu_free[g] = rand_r(&seed) % 2 * BTI_UNIT;
        int queues = bti_waiting_list(&state->machine, listed, KINDS + 1);
        bti_queue *expected = NULL, *found = bti_waiting_fit(state, &state->machine, &state->machine);
        for (int i = 0; i < queues; i++) {
            assert_true(!i || bti_task_goes_before(listed[i - 1]->first, listed[i]->first));
            bool fits = bti_supply_fits(state, &state->machine, &listed[i]->amounts);
            if (fits && !expected) expected = listed[i];
        }
        assert_ptr_equal(found, expected);
        if (!found) continue;
        bti_task_record *first = found->first;
        (void)taken(found);
        bti_record_free(state->arena, BTI_TASKS, first);
        bti_arena_commit(state->arena);
        count--;
    }
}

/* So many different amounts wait at once; when they are gone their records serve others. */
static void kinds_are_many(void **unused) {
    (void)unused;
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < MANY; i++) add((bti_amounts){.of = {1 + i + round * MANY}}, 0, 0);
        for (int i = 0; i < MANY; i++) {
            bti_queue *queue = bti_waiting_fit(state, &state->machine, &state->machine);
            if (!queue) break;
            bti_record_free(state->arena, BTI_TASKS, queue->first);
            (void)taken(queue);
        }
        while (state->machine.waiting) { /* those that never fit */
            bti_record_free(state->arena, BTI_TASKS, state->machine.waiting->first);
            (void)taken(state->machine.waiting);
        }
    }
    assert_in_range(state->arena->records[BTI_QUEUES].used, MANY, MANY + 10);
}

static void expect_kept(double waited, bool for_tasks, double left) {
    uint64_t now = (uint64_t)1 << 40, until = 0, ns = (uint64_t)(waited * 1e9);
    assert_int_equal(bti_keeps_at(now, now - ns, for_tasks, &until), left > 0);
    if (left > 0) assert_in_range(until, now + (uint64_t)(left * 1e9) - 1000, now + (uint64_t)(left * 1e9) + 1000);
}

static void what_is_kept_is_open_now_and_then(void **unused) {
    (void)unused;
    for (int for_tasks = 0; for_tasks < 2; for_tasks++) {
        expect_kept(0, for_tasks, 0);
        expect_kept(0.9, for_tasks, 0);
        expect_kept(1.1, for_tasks, 1.9);
        expect_kept(2.9, for_tasks, 0.1);
        expect_kept(3.1, for_tasks, 0);
        expect_kept(4.9, for_tasks, 0);
    }
    expect_kept(5.5, true, 3.5);
    expect_kept(8.5, true, 0.5);
    expect_kept(9.5, true, 0);
    expect_kept(12.5, true, 0);
    expect_kept(13.5, true, 7.5);
    expect_kept(5.5, false, 1.5);
    expect_kept(8.5, false, 0);
    expect_kept(9.5, false, 1.5);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(tasks_come_in_order, set_up, tear_down),
        cmocka_unit_test_setup_teardown(the_first_that_fits_is_found, set_up, tear_down),
        cmocka_unit_test_setup_teardown(kinds_are_many, set_up, tear_down),
        cmocka_unit_test(what_is_kept_is_open_now_and_then),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
