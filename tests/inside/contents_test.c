// labels: threads
// timeout: 120
/* What lists, several results and streams leave behind: nothing, whoever dies. And what a worker says of them is checked. */
#include <signal.h>
#include <unistd.h>

#include "support/programs.h"
#include "task/object.h"
#include "task/process.h"
#include "task/mailbox.h"
#include "task/value.h"

enum { LARGE = 300000 };

/* --- functions --------------------------------------------------------------------------------------------------------- */

static bt_status twice(bt_task *task) {
    int64_t n;
    bt_status status = bt_argument(task, 0, &n);
    return status == BT_OK ? bt_return(task, 2 * n) : status;
}
BT_REMOTE(twice);

static void die_now_and_then(int how) {
    if (how) raise(SIGKILL);
}

/* References of all kinds, in small values and large ones. Dies before or after it has returned, or not at all. */
static bt_status give_much(bt_task *task) {
    static char large[LARGE];
    bt_ref *many[200];
    bt_bytes bytes = {large, sizeof large};
    int how;
    bt_status status = bt_argument(task, 0, &how);
    if (status != BT_OK) return status;
    for (int i = 0; i < 200; i++) many[i] = i % 2 ? bt_put(i) : bt_put(BT_LIST(i ? many[i - 1] : bt_put(1), bt_put(i)));
    die_now_and_then(how == 1);
    status = bt_return(task, BT_LIST(bytes, bt_list_of(many, 200)), bt_remote(twice, 4), bytes);
    die_now_and_then(how == 2);
    return how == 3 ? bt_task_fail(task, BT_INTERNAL, "it fails") : status;
}
BT_REMOTE(give_much, .num_returns = 3);

static bt_status yield_much(bt_task *task) {
    static char large[LARGE];
    bt_bytes bytes = {large, sizeof large};
    int how;
    bt_status status = bt_argument(task, 0, &how);
    for (int i = 0; i < 20 && status == BT_OK; i++) {
        status = bt_yield(task, BT_LIST(bytes, bt_put(BT_LIST(bt_put(i)))));
        die_now_and_then(how == 1 && i == 10);
    }
    return how == 2 ? bt_task_fail(task, BT_INTERNAL, "it fails") : status;
}
BT_REMOTE(yield_much);

static bt_status hold_list(bt_task *task) {
    bt_list list;
    bt_ref *ref;
    bt_status status = bt_argument(task, 0, &list);
    if (status == BT_OK) status = bt_list_get(list, 0, &ref);
    die_now_and_then(1);
    return status;
}
BT_REMOTE(hold_list);

/* --- what is left ---------------------------------------------------------------------------------------------------------- */

static bool nothing_left(int number) {
    bti_state *state = bti_process_now.state;
    uint32_t stocks = 0;
    (void)number;
    bti_arena_lock(state->arena);
    for (const bti_client *c = state->clients; c; c = c->next) stocks += c->stock_left;
    bool none = state->arena->records[BTI_OBJECTS].live == stocks && !state->arena->records[BTI_MORE].live &&
                !state->arena->records[BTI_RESULTS].live && !state->arena->records[BTI_LEFT_ROOMS].live &&
                !state->store_used && !state->spilled_count && !state->unheld;
    bti_arena_unlock(state->arena);
    return none;
}

static int tell_left(void) {
    const bti_state *state = bti_process_now.state;
    fprintf(stderr, "left: %u objects, %u of many, %u of results, %u rooms, %llu bytes\n",
            state->arena->records[BTI_OBJECTS].live, state->arena->records[BTI_MORE].live,
            state->arena->records[BTI_RESULTS].live, state->arena->records[BTI_LEFT_ROOMS].live,
            (unsigned long long)state->store_used);
    return 9;
}

static int leaves_nothing(void) {
    if (bt_runtime_init(.num_cpus = 2, .store_bytes = 8 << 20) != BT_OK) return 1;
    for (int how = 0; how < 4; how++)
        for (int taken = 0; taken < 3; taken++)
            BT_SCOPE {
                bt_ref *first = bt_remote(give_much, how), *kept = taken ? bt_result(first, taken) : NULL;
                bt_status status = bt_get_within(taken == 2 ? kept : first, SOON, NULL);
                if (status != (how == 0 ? BT_OK : how == 3 ? BT_INTERNAL : BT_ABORTED))
                    return fprintf(stderr, "%d: %s\n", how, bt_error_text()), 2;
            }
    if (!comes_true(nothing_left, 0, SOON)) return tell_left();
    for (int how = 0; how < 3; how++)
        for (int read = 0; read < 30; read += 7)
            BT_SCOPE {
                bt_ref *stream = bt_remote(yield_much, how), *item = NULL;
                for (int i = 0; i < read && (item = bt_stream_next(&stream, SOON)) != NULL; i++) continue;
                (void)bt_get_within(bt_remote(hold_list, BT_LIST(stream, bt_put(BT_LIST(stream)))), SOON, NULL);
            }
    if (!comes_true(nothing_left, 0, SOON)) return tell_left();
    return bt_runtime_shutdown() != BT_OK;
}

/* The program's holds on lists, of which some are on disk. */
static int spilled(void) {
    if (bt_runtime_init(.num_cpus = 2, .store_bytes = 4 << 20) != BT_OK) return 1;
    BT_SCOPE {
        bt_ref *results[8];
        for (int i = 0; i < 8; i++) results[i] = bt_remote(give_much, 0);
        for (int i = 0; i < 8; i++)
            if (bt_get_within(results[i], SOON, NULL) != BT_OK) return fprintf(stderr, "%s\n", bt_error_text()), 2;
    }
    if (!comes_true(nothing_left, 0, SOON)) return tell_left();
    return bt_runtime_shutdown() != BT_OK;
}

/* --- lies ------------------------------------------------------------------------------------------------------------------- */

typedef struct packed_list {
    int64_t count;
    bti_packed_value head;
    int64_t inner_count;
    bti_packed_value inner;
    uint64_t link[2];
} packed_list;

/* Puts, returns, yields or keeps what no worker may say. */
static bt_status lie(bt_task *task) {
    int which;
    if (bt_argument(task, 0, &which) != BT_OK) return bt_error_status();
    bti_state *state = bti_process_now.state;
    bti_client *me = bti_process_now.me;
    bti_message m = {.kind = BTI_SAYS_DONE, .number = me->task->number, .slot = BTI_NO_REPLY};
    packed_list packed = {
        .count = 1, .head = {.type = BT_LIST_VALUE, .as.bytes = 24}, .inner_count = 1, .inner = {.type = BT_REFERENCE}};
    m.length = 8 + 16 + 24;
    switch (which) {
    case 0: packed.inner.as.id = 1; break;                                              /* no object */
    case 1: packed.inner.as.id = bti_object_id(state, (bti_object *)(void *)me); break; /* a record of another kind */
    case 2: packed.inner_count = 2; break;                                              /* more than there are */
    case 3: packed.inner_count = -1; break;
    case 4: packed.head.as.bytes = UINT64_MAX - 7; break;
    case 5: packed.head.as.bytes = 1 << 20; break;
    case 6: packed.inner = (bti_packed_value){.type = BT_STREAM_VALUE, .as.bytes = 16}, m.length += 16; break;
    case 7: packed.inner = (bti_packed_value){.type = 77}; break;
    case 8: /* a stream that is none */
        packed.head = (bti_packed_value){.type = BT_STREAM_VALUE, .as.bytes = 16};
        break;
    case 9: m.kind = BTI_SAYS_KEEP, packed.count = 12345, m.length = 8; break;
    case 10: m.kind = BTI_SAYS_YIELD, m.hold = state->program->holds, m.length = 0; break;
    case 11: m.kind = BTI_SAYS_YIELD, m.hold = me->mail->stock[0], m.length = 0; break; /* nothing is there */
    case 12: m.kind = BTI_ASKS_ROOM, m.status = 3, m.count = 100, m.slot = 0, m.length = 0; break;
    case 13: m.kind = BTI_ASKS_RESULT, m.hold = (bti_hold *)(void *)me, m.slot = 0, m.length = 0; break;
    default: { /* deeper than lists go */
        static struct {
            int64_t count;
            bti_packed_value head;
        } deep[40];
        for (int i = 0; i < 40; i++) {
            deep[i].count = i < 39;
            deep[i].head = (bti_packed_value){.type = BT_LIST_VALUE, .as.bytes = (uint64_t)(39 - i) * sizeof *deep};
        }
        m.length = sizeof deep;
        bti_mail_send(state, me, &m, deep, NULL);
        for (;;) sleep(1);
    }
    }
    bti_mail_send(state, me, &m, &packed, NULL);
    for (;;) sleep(1);
}
BT_REMOTE(lie);

static int lies(void) {
    if (bt_runtime_init(.num_cpus = 2) != BT_OK) return 1;
    for (int which = 0; which < 15; which++)
        BT_SCOPE {
            int64_t four = 0;
            bt_ref *two = bt_put(2);
            bt_status status = bt_get_within(bt_remote(lie, which), SOON, NULL);
            if (status != BT_ABORTED)
                return fprintf(stderr, "%d: %s: %s\n", which, bt_status_name(status), bt_error_text()), 2;
            if (bt_get_within(bt_remote(twice, two), SOON, &four) != BT_OK || four != 4) return 3;
        }
    if (!comes_true(nothing_left, 0, SOON)) return tell_left();
    return bt_runtime_shutdown() != BT_OK;
}

static const test_program programs[] = {
    {.name = "leaves_nothing", .run = leaves_nothing},
    {.name = "spilled", .run = spilled},
    {.name = "lies", .run = lies},
};

int main(int argc, char **argv) {
    return run_test_programs(argc, argv, programs, (int)(sizeof programs / sizeof *programs));
}
