/* What schedulers do with messages, without processes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#include <cmocka.h>

#include "task/object.h"
#include "task/server.h"
#include "task/settle.h"

enum { WAITS = 20, WAITERS = 2, OBJECTS = 40, SLOT = 3, OTHER_SLOT = 4 };

static bti_state *shared;
static bti_client *worker;
static bti_hold *holds[OBJECTS]; /* of objects that are pending */

static void *room(uint64_t bytes) {
    void *at = NULL;
    assert_int_equal(bti_arena_room(shared->arena, bytes, &at), BT_OK);
    return at;
}

static int begin(void **unused) {
    static const struct {
        size_t bytes;
        uint32_t most;
    } kinds[] = {[BTI_CLIENTS] = {sizeof(bti_client), 4},
                 [BTI_OBJECTS] = {sizeof(bti_object), OBJECTS},
                 [BTI_HOLDS] = {sizeof(bti_hold), OBJECTS},
                 [BTI_WAITS] = {sizeof(bti_wait), WAITS},
                 [BTI_WAITERS] = {sizeof(bti_waiter), WAITERS}};
    bti_arena *arena;
    bti_wakes wakes = {0};
    if (bti_arena_open((uint64_t)64 << 20, &arena) != BT_OK) return -1;
    if (bti_arena_room(arena, sizeof *shared, (void **)&shared) != BT_OK) return -1;
    shared->arena = arena;
    for (int kind = 0; kind < (int)(sizeof kinds / sizeof *kinds); kind++)
        if (kinds[kind].most)
            assert_int_equal(bti_arena_reserve(arena, kind, kinds[kind].bytes, kinds[kind].most), BT_OK);
    shared->bells = room(sizeof *shared->bells);
    shared->listening = room(sizeof *shared->listening);
    shared->mailboxes = room(4 * sizeof *shared->mailboxes);
    bti_arena_lock(arena);
    shared->clients = worker = bti_record_new(arena, BTI_CLIENTS);
    bti_mail_open(shared, worker);
    for (int i = 0; i < OBJECTS; i++) {
        bti_object *object = bti_object_new(shared);
        holds[i] = bti_hold_new(shared, worker, object);
        bti_object_drop(shared, object, &wakes);
    }
    bti_arena_unlock(arena);
    return 0;
}

static int end(void **unused) {
    bti_arena_close(shared->arena);
    return 0;
}

static void serve(void) {
    bti_wakes wakes = {0};
    bti_arena_lock(shared->arena);
    bti_serve_client(shared, worker, &wakes);
    bti_arena_unlock(shared->arena);
    assert_false(worker->insane);
}

/* A part of a wait for `sum` objects in all. */
static void ask(bti_message_kind kind, uint16_t slot, int from, int count, int sum) {
    bti_message m = {.kind = (uint16_t)kind,
                     .slot = slot,
                     .count = (uint64_t)sum,
                     .status = (uint32_t)sum,
                     .length = (uint64_t)count * sizeof *holds};
    bti_mail_send(shared, worker, &m, holds + from, NULL);
    serve();
}

static const bti_reply *reply(uint16_t slot) { return &worker->mail->replies[slot]; }
static uint64_t live(int kind) { return shared->arena->records[kind].live; }

static void settle(int from, int count) {
    bti_wakes wakes = {0};
    bti_arena_lock(shared->arena);
    for (int i = from; i < from + count; i++) bti_object_settle(shared, holds[i]->object, BTI_OBJECT_READY, &wakes);
    bti_arena_unlock(shared->arena);
}

static void is_refused(uint16_t slot) {
    assert_int_equal(atomic_load(&reply(slot)->word), 1);
    assert_int_equal(reply(slot)->status, BT_RESOURCE_EXHAUSTED);
    assert_string_equal(reply(slot)->text, "too many waits");
    assert_null(worker->waiters);
    assert_int_equal(live(BTI_WAITS) + live(BTI_WAITERS), 0);
}

static void a_wait_in_parts_is_for_all_of_them(void **unused) {
    ask(BTI_ASKS_WAIT_MORE, SLOT, 0, 6, 12);
    settle(3, 2);
    ask(BTI_ASKS_WAIT, SLOT, 6, 6, 12);
    settle(0, 3);
    settle(5, 6);
    assert_int_equal(atomic_load(&reply(SLOT)->word), 0);
    settle(11, 1);
    assert_int_equal(atomic_load(&reply(SLOT)->word), 1);
    assert_int_equal(reply(SLOT)->status, BT_OK);
    assert_int_equal(live(BTI_WAITS) + live(BTI_WAITERS), 0);
}

/* The records that a part lacks are there again before the last part comes. */
static void a_wait_that_lacked_records_fails(void **unused) {
    ask(BTI_ASKS_WAIT, OTHER_SLOT, 0, WAITS - 2, WAITS - 2);
    ask(BTI_ASKS_WAIT_MORE, SLOT, 20, 5, 10);
    settle(0, WAITS - 2);
    assert_int_equal(reply(OTHER_SLOT)->status, BT_OK);
    ask(BTI_ASKS_WAIT, SLOT, 25, 5, 10);
    is_refused(SLOT);
}

static void a_wait_that_lacked_a_waiter_fails(void **unused) {
    ask(BTI_ASKS_WAIT, OTHER_SLOT, 0, 1, 1);
    ask(BTI_ASKS_WAIT, OTHER_SLOT + 1, 1, 1, 1);
    ask(BTI_ASKS_WAIT_MORE, SLOT, 20, 5, 10);
    settle(0, 2);
    ask(BTI_ASKS_WAIT, SLOT, 25, 5, 10);
    is_refused(SLOT);
}

static void a_wait_that_lacks_records_in_its_last_part_fails(void **unused) {
    ask(BTI_ASKS_WAIT_MORE, SLOT, 0, 15, 30);
    ask(BTI_ASKS_WAIT, SLOT, 15, 15, 30);
    is_refused(SLOT);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_wait_in_parts_is_for_all_of_them, begin, end),
        cmocka_unit_test_setup_teardown(a_wait_that_lacked_records_fails, begin, end),
        cmocka_unit_test_setup_teardown(a_wait_that_lacked_a_waiter_fails, begin, end),
        cmocka_unit_test_setup_teardown(a_wait_that_lacks_records_in_its_last_part_fails, begin, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
