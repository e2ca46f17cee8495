/* What views say of a runtime that stands in memory alone: the ring of spans, reasons, short memory. */
#include "task/queue.h"
#include "task/view.h"

#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "task/object.h"
#include "task/process.h"
#include "task/tables.h"
#include "task/tasks.h"
#include "task/timeline_trace.h"
#include "task/why.h"

static bti_state *state;
static bti_function_record *function;

/* Four CPUs and two GPUs, of which one has a share of 0.5 taken. */
static int set_up(void **unused) {
    bti_arena *arena;
    static const struct {
        int kind;
        size_t bytes;
    } kinds[] = {{BTI_CLIENTS, sizeof(bti_client)},           {BTI_OBJECTS, sizeof(bti_object)},
                 {BTI_TASKS, sizeof(bti_task_record)},        {BTI_QUEUES, sizeof(bti_queue)},
                 {BTI_ACTORS, sizeof(bti_actor_record)},      {BTI_GROUPS, sizeof(bti_group_record)},
                 {BTI_FUNCTIONS, sizeof(bti_function_record)}};
    if (bti_arena_open((uint64_t)1 << 30, &arena) != BT_OK ||
        bti_arena_room(arena, sizeof *state, (void **)&state) != BT_OK)
        return -1;
    state->arena = arena;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (bti_arena_reserve(arena, kinds[i].kind, kinds[i].bytes, 1 << 10) != BT_OK) return -1;
    if (bti_queues_open(state) != BT_OK ||
        bti_arena_room(state->arena, sizeof *state->timeline, (void **)&state->timeline) != BT_OK ||
        bti_arena_room(state->arena, sizeof *state->energy, (void **)&state->energy) != BT_OK)
        return -1;
    strcpy(state->names[0], "CPU");
    strcpy(state->names[1], "GPU");
    state->resource_count = state->gpu_count = 2;
    state->gpu_number[1] = 5;
    state->machine = (bti_supply){.total.of = {4 * BTI_UNIT, 2 * BTI_UNIT},
                                  .free.of = {4 * BTI_UNIT, 3 * BTI_UNIT / 2},
                                  .gpu_free = {BTI_UNIT / 2, BTI_UNIT}};
    state->most_busy = state->most_workers = 100;
    state->started_ns = bti_now_ns();
    state->program = bti_record_new(arena, BTI_CLIENTS);
    state->program->is_program = true;
    state->clients = state->program;
    function = bti_record_new(arena, BTI_FUNCTIONS);
    strcpy(function->name, "tune");
    return 0;
}

static int tear_down(void **unused) {
    bti_arena_close(state->arena);
    return 0;
}

static bti_task_record *add_task(int64_t cpus, int64_t gpus, int priority) {
    bti_amounts amounts = {.of = {cpus, gpus}};
    bti_task_record *task = bti_record_new(state->arena, BTI_TASKS);
    task->function = function;
    task->sequence = state->sequence++;
    task->priority = priority;
    task->submitted_ns = bti_now_ns();
    task->queue = bti_queue_of(state, &amounts, NULL, 0);
    task->queue->users++;
    bti_queue_add(state, task);
    bti_arena_commit(state->arena);
    return task;
}

static void check_why(const bti_snapshot *view, size_t index, const char *expected) {
    char why[256];
    assert_string_equal(bti_view_why(view, &view->waiting.items[index], why, sizeof why), expected);
}

static void test_reasons(void **unused) {
    bti_snapshot view;
    add_task(BTI_UNIT, 0, 1);
    add_task(5 * BTI_UNIT, 0, 3);
    add_task(0, 2 * BTI_UNIT, 2);
    add_task(0, 3 * BTI_UNIT / 4, 0);
    add_task(0, BTI_UNIT, 9)->cancelled = true;
    assert_true(bti_view_take(state, &view));
    assert_int_equal(view.waiting.count, 4); /* by priority; the cancelled one is of no interest */
    assert_int_equal(view.count[BTI_VIEW_RESOURCES], 4);
    check_why(&view, 0, "waits for 5 CPU: 4 of 4 are free");
    check_why(&view, 1, "waits for 2 GPU: 1.5 of 2 are free");
    check_why(&view, 2, "waits for its turn");
    check_why(&view, 3, "waits for its turn");
    view.state.machine.gpu_free[1] = BTI_UNIT / 2;
    view.state.machine.free.of[1] = BTI_UNIT;
    check_why(&view, 3, "waits for 0.75 GPU: 1 of 2 are free, 0 whole");
    bti_view_free(&view);
}

/* More than are told of are counted, and told of in their order. */
static void test_many(void **unused) {
    bti_snapshot view;
    for (int i = 0; i < 1000; i++) add_task(BTI_UNIT * (1 + i % 7), 0, i * 37 % 1000);
    assert_true(bti_view_take(state, &view));
    assert_int_equal(view.waiting.count, BTI_VIEW_WAITING);
    assert_int_equal(view.count[BTI_VIEW_RESOURCES], 1000);
    for (int i = 0; i < BTI_VIEW_WAITING; i++) assert_int_equal(view.waiting.items[i].priority, 999 - i);
    assert_int_equal(view.functions.count, 1);
    assert_int_equal(view.functions.items[0].count[BTI_VIEW_RESOURCES], 1000);
    bti_view_free(&view);
}

/* Of more than fit the oldest are lost, and counted. */
static void test_ring(void **unused) {
    enum { MORE = 1000 };
    char *text = NULL;
    size_t size, index;
    bti_task_record *task = add_task(BTI_UNIT, 0, 0);
    task->begun_ns = task->submitted_ns + 1;
    for (int i = 0; i < BTI_TIMELINE_SPANS + MORE; i++) {
        task->sequence = (uint64_t)i;
        bti_timeline_note(state, task);
        bti_arena_commit(state->arena);
    }
    FILE *file = open_memstream(&text, &size);
    assert_true(bti_timeline_print(state, file));
    fclose(file);
    json_t *trace = json_loads(text, 0, NULL), *event;
    assert_non_null(trace);
    assert_int_equal(json_integer_value(json_object_get(json_object_get(trace, "otherData"), "dropped")), MORE + 1);
    int64_t first = INT64_MAX, count = 0;
    json_array_foreach(json_object_get(trace, "traceEvents"), index, event) {
        json_t *number = json_object_get(json_object_get(event, "args"), "task");
        if (!number) continue;
        count++;
        if (json_integer_value(number) < first) first = json_integer_value(number);
    }
    assert_int_equal(count, BTI_TIMELINE_SPANS - 1);
    assert_int_equal(first, MORE + 1);
    json_decref(trace);
    free(text);
}

/* --- energy ------------------------------------------------------------------------------------------------------------ */

/* A worker that runs a task which takes these GPUs. */
static bti_task_record *add_running(int64_t gpus, uint64_t bits) {
    bti_task_record *task = add_task(0, gpus, 0);
    bti_client *client = bti_record_new(state->arena, BTI_CLIENTS);
    task->state = BTI_TASK_GIVEN;
    task->gpus = bits;
    client->task = task;
    client->pid = (int32_t)getpid();
    client->at_once = 1;
    client->next = state->clients;
    state->clients = client;
    state->worker_count++;
    return task;
}

static char *tables(void) {
    char *text = bti_view_text(state, "json");
    assert_non_null(text);
    return bti_view_tables_of(text);
}

static void expect_shown(const char *part, bool is_there) {
    char *text = tables();
    if (!strstr(text, part) == is_there) fail_msg("\"%s\" in:\n%s", part, text);
    bt_free(text);
}

static void test_energy(void **unused) {
    bti_energy_board *board = state->energy;
    uint64_t whole = add_running(BTI_UNIT, 1)->sequence, part = add_running(BTI_UNIT / 4, 2)->sequence;
    state->machine.gpu_free[0] = 0;
    expect_shown("energy unknown: it has not been read yet: it is while a task has the GPU\n", true);
    board->read_ns = bti_now_ns();
    board->gpus[0] = (bti_gpu_energy){.known = true, .joules = 12500, .watts = 240.4};
    board->gpus[1] = (bti_gpu_energy){.known = true, .joules = 0.5};
    board->tasks[0] = (bti_task_energy){whole, 1250000, true};
    board->tasks[1] = (bti_task_energy){part, 0.25, true};
    board->task_count = 2;
    expect_shown("0    1     12.5 kJ  240 W", true);
    expect_shown("5    0     500 mJ   0 W", true);
    expect_shown("  1.25 MJ  ", true); /* of the whole GPU */
    expect_shown("  ~250 mJ  ", true); /* of a share: divided */
    expect_shown("unknown", false);
    board->tasks[1].known = false;
    expect_shown("  unknown  ", true);
    board->tasks[1].known = true;
    board->gpus[1] = (bti_gpu_energy){.why = "GPU is\x1b lost"};
    expect_shown("energy unknown: GPU is? lost\n", true);
    board->read_ns = bti_now_ns() - (uint64_t)60000000000;
    expect_shown("energy unknown: the driver has not answered for 60 s", true);
    board->read_ns = bti_now_ns();
    board->turn = 1; /* its writer was ended in between */
    expect_shown("ended while it wrote", true);
    board->turn = 2;
    strcpy(board->why, "no driver");
    expect_shown("energy unknown: no driver\n", true);
}

static void test_short_memory(void **unused) {
    static const char *const views[] = {"json", "json", "timeline"}; /* the second as tables */
    ;
    for (int i = 0; i < 20; i++) bti_timeline_note(state, add_task(BTI_UNIT, BTI_UNIT * (i % 3), i));
    for (int v = 0; v < 3; v++) {
        uint64_t n = 1;
        for (bool failed = true; failed; n++) {
            bti_alloc_fail_at(n, false);
            char *text = bti_view_text(state, views[v]);
            if (text && v == 1) text = bti_view_tables_of(text);
            bti_alloc_fail_at(0, false);
            failed = !text;
            bti_free(text);
        }
        assert_true(n > 2);
    }
    assert_null(bti_view_text(state, "nonsense"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_reasons, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_many, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_ring, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_energy, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_short_memory, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
