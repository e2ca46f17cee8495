// labels: threads
// timeout: 120
/* Calls that yield. */
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include "support/programs.h"
#include <berth.h>

enum { LARGE = 300000 };

static bt_status count_up(bt_task *task) {
    int n;
    bt_status status = bt_arguments(task, &n);
    for (int i = 0; i < n && status == BT_OK; i++) status = bt_yield(task, i);
    return status;
}
BT_REMOTE(count_up);

/* Each item is given before the next is begun: it waits for a file in between. */
static bt_status two_with_file(bt_task *task) {
    const char *path;
    bt_status status = bt_arguments(task, &path);
    if (status == BT_OK) status = bt_yield(task, "first");
    while (status == BT_OK && access(path, F_OK) != 0) usleep(1000);
    return status == BT_OK ? bt_yield(task, "second") : status;
}
BT_REMOTE(two_with_file);

static bt_status fails_after(bt_task *task) {
    int n;
    bt_status status = bt_arguments(task, &n);
    for (int i = 0; i < n && status == BT_OK; i++) status = bt_yield(task, i);
    return status == BT_OK ? bt_task_fail(task, BT_DATA_LOSS, "no more than %d", n) : status;
}
BT_REMOTE(fails_after);

static bt_status dies_after(bt_task *task) {
    int n;
    const char *path;
    bt_status status = bt_arguments(task, &n, &path);
    bool again = access(path, F_OK) == 0;
    for (int i = 0; i < n && status == BT_OK; i++) status = bt_yield(task, i);
    if (status == BT_OK && !again) {
        FILE *file = fopen(path, "w");
        if (file) fclose(file);
        usleep(20000); /* what it gave is there, or is given once more */
        raise(SIGKILL);
    }
    for (int i = n; i < 2 * n && status == BT_OK; i++) status = bt_yield(task, i);
    return status;
}
BT_REMOTE(dies_after);

static bt_status large_items(bt_task *task) {
    int n;
    static char large[LARGE];
    bt_status status = bt_arguments(task, &n);
    for (int i = 0; i < n && status == BT_OK; i++) {
        memset(large, i, sizeof large);
        bt_bytes bytes = {large, sizeof large};
        status = bt_yield(task, BT_LIST(bytes, bt_put(i)));
    }
    return status;
}
BT_REMOTE(large_items);

static bt_status forever(bt_task *task) {
    bt_status status = BT_OK;
    for (int i = 0; status == BT_OK; i++) {
        status = bt_yield(task, i);
        usleep(1000);
    }
    return status;
}
BT_REMOTE(forever);

static bt_status returns_five(bt_task *task) { return bt_return(task, 5); }
BT_REMOTE(returns_five);

static bt_status both(bt_task *task) {
    if (bt_yield(task, 1) != BT_OK) return bt_error_status();
    bt_status status = bt_return(task, 2);
    if (status != BT_INVALID_ARGUMENT || !strstr(bt_error_text(), "has yielded"))
        return bt_task_fail(task, BT_INTERNAL, "return");
    return BT_OK;
}
BT_REMOTE(both);

static bt_status both_again(bt_task *task) {
    if (bt_return(task, 2) != BT_OK) return bt_error_status();
    bt_status status = bt_yield(task, 1);
    if (status != BT_INVALID_ARGUMENT || !strstr(bt_error_text(), "has returned a value"))
        return bt_task_fail(task, BT_INTERNAL, "yield");
    return BT_OK;
}
BT_REMOTE(both_again);

/* Reads a stream that it gets in a list, or as an argument. */
static bt_status sum_of(bt_task *task) {
    bt_list list;
    bt_ref *stream;
    int64_t sum = 0, x;
    bt_status status =
        bt_argument_type(task, 0) == BT_STREAM_VALUE ? bt_argument(task, 0, &stream) : bt_argument(task, 0, &list);
    if (status == BT_OK && bt_argument_type(task, 0) == BT_LIST_VALUE) status = bt_list_get(list, 0, &stream);
    if (status != BT_OK) return status;
    for (bt_ref *item; (item = bt_stream_next(&stream, 30)) != NULL; sum += x)
        if ((status = bt_get(item, &x)) != BT_OK) return status;
    return bt_return(task, sum);
}
BT_REMOTE(sum_of);

static bt_status actor_new(bt_task *task) {
    bt_set_state(task, NULL, NULL);
    return BT_OK;
}
BT_REMOTE(actor_new);

/* --- programs ------------------------------------------------------------------------------------------------------------ */

static int count_items(bt_ref *stream) {
    int count = 0, x;
    for (bt_ref *item; (item = bt_stream_next(&stream, 30)) != NULL; count++)
        if (bt_get(item, &x) != BT_OK || x != count) return fprintf(stderr, "%d: %s\n", count, bt_error_text()), -1;
    return bt_stream_next(&stream, 30) == NULL ? count : -2;
}

static int streams(void) {
    char path[] = "/tmp/berth-streams-XXXXXX";
    int file = mkstemp(path);
    if (file < 0 || unlink(path) != 0 || bt_runtime_init(.num_cpus = 3) != BT_OK) return 1;
    BT_SCOPE {
        const char *text;
        int x;
        int64_t sum;
        if (count_items(bt_remote(count_up, 5)) != 5 || count_items(bt_remote(count_up, 0)) != 0) return 2;
        if (count_items(bt_remote(count_up, 3000)) != 3000) return 3;
        bt_ref *stream = bt_remote(two_with_file, path), *item = bt_stream_next(&stream, 30);
        if (bt_get(item, &text) != BT_OK || strcmp(text, "first") != 0)
            return fprintf(stderr, "%s\n", bt_error_text()), 4;
        CHECK_FAILS(bt_get(bt_stream_next(&stream, 0.05), NULL), BT_DEADLINE_EXCEEDED, "no item within 0.05 seconds");
        FILE *made = fopen(path, "w");
        if (!made || fclose(made) != 0) return 5;
        bt_ref *second = bt_stream_next(&stream, 30);
        if (bt_get(second, &text) != BT_OK || strcmp(text, "second") != 0) return 6;
        if (bt_get(item, &text) != BT_OK || strcmp(text, "first") != 0) return 7;
        if (bt_stream_next(&stream, 30) != NULL || bt_stream_next(&stream, 0) != NULL) return 8;
        /* what a stream is */
        stream = bt_remote(count_up, 3);
        CHECK_FAILS(bt_get(stream, &x), BT_INVALID_ARGUMENT, "the result is a stream (bt_stream_next), not an integer");
        stream = bt_remote(returns_five);
        CHECK_FAILS(bt_get(bt_stream_next(&stream, 30), NULL), BT_INVALID_ARGUMENT, "no stream");
        if (bt_stream_next(&stream, 30) != NULL || bt_get(stream, &x) != BT_OK || x != 5) return 9;
        stream = bt_remote(both);
        if (bt_get(bt_stream_next(&stream, 30), &x) != BT_OK || x != 1 || bt_stream_next(&stream, 30) != NULL)
            return 11;
        if (bt_get(bt_remote(both_again), &x) != BT_OK || x != 2) return 12;
        /* passed on, and read twice */
        stream = bt_remote(count_up, 10);
        bt_ref *sums[] = {bt_remote(sum_of, BT_LIST(stream)), bt_remote(sum_of, BT_LIST(stream)),
                          bt_remote(sum_of, stream)};
        if (count_items(stream) != 10) return 13;
        for (int i = 0; i < 3; i++)
            if (bt_get_within(sums[i], SOON, &sum) != BT_OK || sum != 45)
                return fprintf(stderr, "%d: %s\n", i, bt_error_text()), 14;
        bt_actor *actor = bt_actor_new(actor_new);
        if (count_items(bt_method(actor, count_up, 7)) != 7) return 15;
        /* The scope of an item may end before the stream's. */
        stream = bt_remote(count_up, 100);
        int count = 0;
        for (bool more = true; more;)
            BT_SCOPE {
                bt_ref *one = bt_stream_next(&stream, 30);
                more = one != NULL;
                if (more && (bt_get(one, &x) != BT_OK || x != count++)) return 16;
            }
        if (count != 100) return 17;
    }
    unlink(path);
    return bt_runtime_shutdown() != BT_OK;
}

static int failures(void) {
    if (bt_runtime_init(.num_cpus = 2) != BT_OK) return 1;
    BT_SCOPE {
        int x;
        bt_ref *stream = bt_remote(fails_after, 2), *item;
        for (int i = 0; i < 2; i++)
            if (bt_get(bt_stream_next(&stream, 30), &x) != BT_OK || x != i) return 2;
        item = bt_stream_next(&stream, 30);
        CHECK_FAILS(bt_get(item, &x), BT_DATA_LOSS, "no more than 2");
        if (bt_stream_next(&stream, 30) != NULL || bt_stream_next(&stream, 30) != NULL) return 3;
        /* one that cannot even begin */
        stream = bt_remote_with(BT_OPTIONS(.num_gpus = 100), count_up, 3);
        CHECK_FAILS(bt_get(bt_stream_next(&stream, 30), &x), BT_RESOURCE_EXHAUSTED, "100");
        if (bt_stream_next(&stream, 30) != NULL) return 4;
        CHECK_FAILS((bt_stream_next(NULL, 30), bt_error_status()), BT_INVALID_ARGUMENT, "the stream is NULL");
        stream = NULL;
        if (bt_stream_next(&stream, 30) != NULL) return 5;
        stream = bt_remote_with(BT_OPTIONS(.num_returns = 2), count_up, 3);
        CHECK_FAILS(bt_get(bt_stream_next(&stream, 30), &x), BT_INVALID_ARGUMENT, "has several results");
        /* cancelled where it is, and ended by its deadline */
        for (int how = 0; how < 3; how++) {
            stream = bt_remote_with(BT_OPTIONS(.deadline_seconds = how == 2 ? 0.3 : 100), forever);
            int count = 0;
            bt_status status;
            while ((status = bt_get(item = bt_stream_next(&stream, 30), &x)) == BT_OK && x == count)
                if (++count == 10 && how < 2 && bt_cancel(stream, how) != BT_OK) return 6;
            if (status != (how == 2 ? BT_DEADLINE_EXCEEDED : BT_CANCELLED) || bt_stream_next(&stream, 30) != NULL)
                return fprintf(stderr, "%d: %d, %s\n", how, count, bt_error_text()), 7;
        }
        /* also when its reader stands far behind */
        stream = bt_remote(forever);
        if (bt_get(bt_stream_next(&stream, 30), &x) != BT_OK) return 8;
        sleep_seconds(0.2);
        if (bt_cancel(stream, true) != BT_OK) return 9;
        while (bt_get(bt_stream_next(&stream, 30), &x) == BT_OK) continue;
        if (bt_error_status() != BT_CANCELLED) return 10;
    }
    return bt_runtime_shutdown() != BT_OK;
}

static int retried(void) {
    char path[] = "/tmp/berth-streams-XXXXXX";
    int file = mkstemp(path);
    if (file < 0 || unlink(path) != 0 || bt_runtime_init(.num_cpus = 2) != BT_OK) return 1;
    BT_SCOPE {
        if (count_items(bt_remote_with(BT_OPTIONS(.max_retries = 1), dies_after, 20, path)) != 40) return 2;
        unlink(path);
        int x;
        bt_ref *stream = bt_remote(dies_after, 3, path);
        for (int i = 0; i < 3; i++)
            if (bt_get(bt_stream_next(&stream, 30), &x) != BT_OK || x != i) return 3;
        CHECK_FAILS(bt_get(bt_stream_next(&stream, 30), NULL), BT_ABORTED, "signal 9");
        if (bt_stream_next(&stream, 30) != NULL) return 4;
    }
    unlink(path);
    return bt_runtime_shutdown() != BT_OK;
}

/* What was read is freed; what nobody reads goes to disk, and is freed with the stream. */
static int large(void) {
    enum { MANY = 40 };
    if (bt_runtime_init(.num_cpus = 2, .store_bytes = 4 << 20, .spill_bytes = MANY * (LARGE + 20000)) != BT_OK)
        return 1;
    for (int round = 0; round < 3; round++)
        BT_SCOPE {
            bt_ref *stream = bt_remote(large_items, MANY);
            for (int i = 0; i < (round == 2 ? 3 : MANY); i++)
                BT_SCOPE {
                    bt_list list;
                    bt_bytes bytes;
                    bt_ref *ref;
                    int x;
                    bt_ref *item = bt_stream_next(&stream, 30);
                    if (bt_get(item, &list) != BT_OK || bt_list_get(list, 0, &bytes) != BT_OK ||
                        bt_list_get(list, 1, &ref) != BT_OK || bt_get(ref, &x) != BT_OK)
                        return fprintf(stderr, "%d: %s\n", i, bt_error_text()), 2;
                    if (x != i || bytes.size != LARGE || ((const char *)bytes.data)[LARGE - 1] != i) return 3;
                }
        }
    BT_SCOPE
        for (int round = 0; round < 10; round++) /* dropped at once: all fit only one after the other */
            BT_SCOPE
                if (count_items(bt_remote(count_up, 10)) != 10 || !bt_remote(large_items, MANY)) return 4;
    return bt_runtime_shutdown() != BT_OK;
}

static bt_status without_end(bt_task *task) {
    bt_status status = BT_OK;
    for (int i = 0; status == BT_OK; i++) status = bt_yield(task, i);
    return status;
}
BT_REMOTE(without_end);

/* Nobody reads it: it is told before there is no room for the calls of others. Few addresses, few items. */
static int unread(void) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    return 77; /* they take addresses without end */
#endif
    struct rlimit limit = {(rlim_t)5 << 28, (rlim_t)5 << 28};
    int last = -1, x;
    if (setrlimit(RLIMIT_AS, &limit) != 0 || bt_runtime_init(.num_cpus = 1) != BT_OK) return 1;
    BT_SCOPE {
        bt_ref *stream = bt_remote(without_end), *next = bt_remote(count_up, 0);
        if (bt_get_within(next, 60, NULL) != BT_OK) return fprintf(stderr, "%s\n", bt_error_text()), 2;
        if (bt_get(bt_put(5), &x) != BT_OK || x != 5) return 3;
        for (bool goes_on = true; goes_on;)
            BT_SCOPE {
                bt_ref *item = bt_stream_next(&stream, 30);
                goes_on = item && bt_ref_failure(item) == BT_FAILURE_NONE;
                if (goes_on && (bt_get(item, &x) != BT_OK || x != ++last)) return 4;
                if (!goes_on) CHECK_FAILS(bt_get(item, NULL), BT_RESOURCE_EXHAUSTED, "more items than can be kept");
            }
        if (last < 1000) return 5;
    }
    return bt_runtime_shutdown() != BT_OK;
}

static const test_program programs[] = {
    {.name = "streams", .run = streams}, {.name = "failures", .run = failures}, {.name = "retried", .run = retried},
    {.name = "large", .run = large},     {.name = "unread", .run = unread},
};

int main(int argc, char **argv) {
    return run_test_programs(argc, argv, programs, (int)(sizeof programs / sizeof *programs));
}
