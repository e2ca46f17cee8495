// labels: threads
// timeout: 120
/* Calls with several results. */
#include <signal.h>
#include <unistd.h>

#include "support/programs.h"
#include <berth.h>

enum { LARGE = 300000 };

static bt_status divide(bt_task *task) {
    int64_t a, b;
    bt_status status = bt_arguments(task, &a, &b);
    if (status != BT_OK) return status;
    if (!b) return bt_task_fail(task, BT_INVALID_ARGUMENT, "division by zero");
    return bt_return(task, a / b, a % b, "text");
}
BT_REMOTE(divide, .num_returns = 3);

static bt_status twice(bt_task *task) {
    int64_t n;
    bt_status status = bt_argument(task, 0, &n);
    return status == BT_OK ? bt_return(task, 2 * n) : status;
}
BT_REMOTE(twice);

/* A small one, large ones, nothing that fits together into a message. */
static bt_status sizes(bt_task *task) {
    static char large[LARGE], middle[3000];
    memset(large, 1, sizeof large);
    memset(middle, 2, sizeof middle);
    bt_bytes l = {large, sizeof large}, m = {middle, sizeof middle};
    if (bt_return(task, l, l, l, l, l) != BT_OK) return bt_error_status(); /* the last one counts */
    return bt_return(task, 7, l, m, m, bt_full(3.0, BT_F32, 100000));
}
BT_REMOTE(sizes, .num_returns = 5);

static bt_status hundred(bt_task *task) {
    bt_item_value items[100];
    for (int i = 0; i < 100; i++) items[i] = BT_ITEM(i);
    return bti_return(task, items, 100);
}
BT_REMOTE(hundred, .num_returns = 100);

static bt_status wrong_number(bt_task *task) {
    int n;
    bt_status status = bt_argument(task, 0, &n);
    if (status != BT_OK) return status;
    return n == 0 ? BT_OK : n == 1 ? bt_return(task, 1) : bt_return(task, 1, 2, 3);
}
BT_REMOTE(wrong_number, .num_returns = 2);

static bt_status sleep_long(bt_task *task) {
    sleep(60);
    return bt_return(task, 1, 2);
}
BT_REMOTE(sleep_long, .num_returns = 2);

/* Its process dies the first time. */
static bt_status die_once(bt_task *task) {
    const char *path;
    bt_status status = bt_argument(task, 0, &path);
    if (status != BT_OK) return status;
    static char large[LARGE];
    bt_bytes bytes = {large, sizeof large};
    FILE *file = fopen(path, "r");
    memset(large, file ? 2 : 1, sizeof large);
    status = bt_return(task, bytes, file ? 2 : 1);
    if (file) return fclose(file), status;
    file = fopen(path, "w");
    if (file) fclose(file);
    raise(SIGKILL);
    return status;
}
BT_REMOTE(die_once, .num_returns = 2, .max_retries = 1);

/* In a task: the caller has one of them at the end, and gives it. */
static bt_status second_of(bt_task *task) {
    bt_ref *first = bt_remote(divide, 17, 5), *second = bt_result(first, 1);
    int64_t remainder;
    bt_status status = bt_get(second, &remainder);
    if (status == BT_OK && remainder != 2) return bt_task_fail(task, BT_INTERNAL, "remainder");
    if (bt_get(bt_result(second, 7), NULL) != BT_OUT_OF_RANGE) return bt_task_fail(task, BT_INTERNAL, "past the last");
    return status == BT_OK ? bt_return(task, bt_result(first, 2)) : status;
}
BT_REMOTE(second_of);

static bt_status actor_new(bt_task *task) {
    bt_set_state(task, NULL, NULL);
    return BT_OK;
}
BT_REMOTE(actor_new);

/* --- programs ------------------------------------------------------------------------------------------------------------ */

static int several(void) {
    if (bt_runtime_init(.num_cpus = 3) != BT_OK) return 1;
    BT_SCOPE {
        int64_t q, r, n;
        const char *text;
        bt_ref *first = bt_remote(divide, 17, 5), *inner;
        if (bt_get(bt_result(first, 1), &r) != BT_OK || r != 2) return fprintf(stderr, "%s\n", bt_error_text()), 2;
        if (bt_get(first, &q) != BT_OK || q != 3 || bt_get(bt_result(first, 0), &q) != BT_OK || q != 3) return 3;
        if (bt_get(bt_result(first, 2), &text) != BT_OK || strcmp(text, "text") != 0) return 4;
        /* passed on, and waited for, alone */
        bt_ref *more = bt_remote(divide, 100, 7);
        if (bt_get(bt_remote(twice, bt_result(more, 1)), &n) != BT_OK || n != 4) return 5;
        bt_ref *both[] = {bt_result(more, 0), bt_result(more, 1)};
        if (bt_wait_refs(both, 2, 2, NULL, SOON) != 2) return 6;
        CHECK_FAILS(bt_get(bt_result(first, 3), NULL), BT_OUT_OF_RANGE, "result 3 of a call that has 3");
        CHECK_FAILS(bt_get(bt_result(first, -1), NULL), BT_OUT_OF_RANGE, "the first is 0");
        CHECK_FAILS(bt_get(bt_result(bt_put(1), 1), NULL), BT_OUT_OF_RANGE, "a call that has 1");
        CHECK_FAILS(bt_get(bt_result(NULL, 1), NULL), BT_INVALID_ARGUMENT, "NULL");
        /* a failure is that of all */
        bt_ref *failed = bt_remote(divide, 1, 0);
        for (int i = 0; i < 3; i++)
            CHECK_FAILS(bt_get(bt_result(failed, i), NULL), BT_INVALID_ARGUMENT, "division by zero");
        for (int i = 0; i < 2; i++) {
            bt_ref *wrong = bt_remote(wrong_number, i);
            CHECK_FAILS(bt_get(bt_result(wrong, 1), NULL), BT_INVALID_ARGUMENT,
                        i ? "returns 1 value; the call has 2" : "returned nothing");
        }
        CHECK_FAILS(bt_get(bt_remote(wrong_number, 2), NULL), BT_INVALID_ARGUMENT,
                    "returns 3 values; the call has 2 results");
        CHECK_FAILS(bt_get(bt_remote_with(BT_OPTIONS(.num_returns = 2), twice, 1), NULL), BT_INVALID_ARGUMENT,
                    "returns 1 value; the call has 2 results");
        CHECK_FAILS(bt_get(bt_remote_with(BT_OPTIONS(.num_returns = 101), twice, 1), NULL), BT_INVALID_ARGUMENT,
                    "1 to 100");
        CHECK_FAILS(bt_get(bt_remote_with(BT_OPTIONS(.num_returns = 0), twice, 1), NULL), BT_INVALID_ARGUMENT,
                    "1 to 100");
        /* in a task */
        if (bt_get(bt_remote(second_of), &inner) != BT_OK || bt_get(inner, &text) != BT_OK || strcmp(text, "text") != 0)
            return fprintf(stderr, "%s\n", bt_error_text()), 7;
        /* of methods */
        bt_actor *actor = bt_actor_new(actor_new);
        bt_ref *method = bt_method(actor, divide, 9, 4);
        if (bt_get(bt_result(method, 1), &r) != BT_OK || r != 1) return 8;
        CHECK_FAILS(bt_actor_status(bt_actor_new_with(BT_OPTIONS(.num_returns = 2), actor_new)), BT_INVALID_ARGUMENT,
                    "makes an actor");
        bt_ref *all = bt_remote(hundred);
        for (int i = 99; i >= 0; i--)
            if (bt_get(bt_result(all, i), &n) != BT_OK || n != i) return fprintf(stderr, "%s\n", bt_error_text()), 9;
    }
    return bt_runtime_shutdown() != BT_OK;
}

/* Each lives as long as somebody has it. */
static int lives(void) {
    if (bt_runtime_init(.num_cpus = 2, .store_bytes = 4 << 20, .spill_bytes = 1) != BT_OK) return 1;
    for (int round = 0; round < 20; round++)
        BT_SCOPE {
            bt_bytes large, middle;
            bt_array *array;
            int n;
            bt_ref *first = bt_remote(sizes), *second = bt_result(first, 1), *fifth = bt_result(first, 4);
            if (bt_get(first, &n) != BT_OK || n != 7) return fprintf(stderr, "%s\n", bt_error_text()), 2;
            if (bt_get(bt_result(first, 3), &middle) != BT_OK || middle.size != 3000) return 3;
            bt_ref_release(first); /* and the third with it */
            if (bt_get(second, &large) != BT_OK || large.size != LARGE || ((const char *)large.data)[LARGE - 1] != 1)
                return 4;
            CHECK_FAILS(bt_get(bt_result(second, 2), NULL), BT_NOT_FOUND, "nobody has result 2 any more");
            CHECK_FAILS(bt_get(bt_result(second, 0), NULL), BT_NOT_FOUND, "nobody has result 0 any more");
            bt_ref_release(second);
            if (bt_get(fifth, &array) != BT_OK || bt_item(bt_mean(array, BT_ALL, false)) != 3) return 5;
        }
    /* What was given is freed alone: the store holds only the first. */
    BT_SCOPE {
        bt_ref *kept[10];
        for (int i = 0; i < 10; i++) {
            kept[i] = bt_remote(sizes);
            for (int r = 1; r < 5; r++)
                BT_SCOPE
                    if (bt_get(bt_result(kept[i], r), NULL) != BT_OK)
                        return fprintf(stderr, "%d: %s\n", i, bt_error_text()), 6;
        }
        CHECK_FAILS(bt_get(bt_result(kept[0], 1), NULL), BT_NOT_FOUND, "nobody has result 1");
    }
    return bt_runtime_shutdown() != BT_OK;
}

static int cancelled(void) {
    if (bt_runtime_init(.num_cpus = 2) != BT_OK) return 1;
    BT_SCOPE {
        bt_ref *first = bt_remote(sleep_long), *second = bt_result(first, 1);
        if (bt_get_within(second, 0.2, NULL) != BT_DEADLINE_EXCEEDED || bt_cancel(second, true) != BT_OK) return 2;
        CHECK_FAILS(bt_get_within(first, SOON, NULL), BT_CANCELLED, "cancelled");
        CHECK_FAILS(bt_get_within(second, SOON, NULL), BT_CANCELLED, "cancelled");
        bt_ref *late = bt_remote_with(BT_OPTIONS(.deadline_seconds = 0.2), sleep_long);
        CHECK_FAILS(bt_get_within(bt_result(late, 1), SOON, NULL), BT_DEADLINE_EXCEEDED, "deadline has passed");
        CHECK_FAILS(bt_get_within(late, SOON, NULL), BT_DEADLINE_EXCEEDED, "deadline has passed");
    }
    return bt_runtime_shutdown() != BT_OK;
}

static int retried(void) {
    char path[] = "/tmp/berth-results-XXXXXX";
    int file = mkstemp(path);
    if (file < 0 || unlink(path) != 0 || bt_runtime_init(.num_cpus = 2) != BT_OK) return 1;
    BT_SCOPE {
        int n;
        bt_bytes large;
        bt_ref *first = bt_remote(die_once, path);
        if (bt_get_within(bt_result(first, 1), SOON, &n) != BT_OK || n != 2)
            return fprintf(stderr, "%s\n", bt_error_text()), 2;
        if (bt_get(first, &large) != BT_OK || ((const char *)large.data)[0] != 2) return 3;
        unlink(path);
        bt_ref *once = bt_remote_with(BT_OPTIONS(.max_retries = 0), die_once, path);
        CHECK_FAILS(bt_get_within(bt_result(once, 1), SOON, NULL), BT_ABORTED, "signal 9");
        CHECK_FAILS(bt_get_within(once, SOON, NULL), BT_ABORTED, "signal 9");
    }
    unlink(path);
    return bt_runtime_shutdown() != BT_OK;
}

static int errors_handled;

/* Asks the runtime, which takes the lock of its records. */
static void handle_error(bt_status status, const char *text, void *data) {
    (void)text, (void)data;
    if (status == BT_OUT_OF_RANGE && bt_resource_free("CPU") >= 0) errors_handled++;
}

/* An error handler may call the runtime, wherever the error was made. */
static int handled(void) {
    if (bt_runtime_init(.num_cpus = 1) != BT_OK || bt_set_flag("strict", "on") != BT_OK) return 1;
    bt_set_error_handler(handle_error, NULL);
    BT_SCOPE {
        bt_ref *ref = bt_remote(twice, 4);
        CHECK_FAILS(bt_get(bt_result(ref, 99), NULL), BT_OUT_OF_RANGE, "result 99 of a call that has 1");
    }
    bt_set_error_handler(NULL, NULL);
    if (errors_handled < 1) return 2;
    return bt_runtime_shutdown() != BT_OK;
}

static const test_program programs[] = {
    {.name = "several", .run = several}, {.name = "lives", .run = lives},     {.name = "cancelled", .run = cancelled},
    {.name = "retried", .run = retried}, {.name = "handled", .run = handled},
};

int main(int argc, char **argv) {
    return run_test_programs(argc, argv, programs, (int)(sizeof programs / sizeof *programs));
}
