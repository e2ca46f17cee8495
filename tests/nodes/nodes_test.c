// labels: threads
/* What nodes have and one machine has not: replies that overtake each other, nodes that are lost with what ran and lay there, frames that are damaged. A
 * failing run is repeated with BERTH_NODES_SEED. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include <cmocka.h>

#include <berth.h>

#include "nodes/nodes.h"
#include "support/soon.h"

#define OK(call) expect((call), BT_OK, "", #call, __LINE__)
#define FAILS(call, status, text) expect((call), status, text, #call, __LINE__)

static void expect(bt_status got, bt_status wanted, const char *text, const char *what, int line) {
    if (got == wanted && (got == BT_OK || strstr(bt_error_text(), text))) return;
    const char *seed = getenv("BERTH_NODES_SEED");
    print_error("line %d: %s is %s: %s (BERTH_NODES_SEED=%s)\n", line, what, bt_status_name(got), bt_error_text(),
                seed ? seed : "1");
    fail();
}

#define SAYS(text) assert_non_null(strstr(bt_error_text(), text))

/* What tasks tell while they run. */
static struct told { atomic_int node, runs, go; } * told;

static void sleep_ms(int64_t ms) { nanosleep(&(struct timespec){ms / 1000, ms % 1000 * 1000000}, NULL); }

static int await_node(void) {
    for (int i = 0; i < 20000 && !atomic_load(&told->node); i++) sleep_ms(1);
    int node = atomic_load(&told->node);
    assert_in_range(node, 1, NODES_COUNT);
    return node;
}

static int begin(void **state) {
    (void)state;
    memset(told, 0, sizeof *told);
    return bt_runtime_init(.num_cpus = 4, .store_bytes = 64 << 20, .resources = {{"seat", 2}}) != BT_OK;
}
static int end(void **state) {
    (void)state;
    return bt_runtime_shutdown() != BT_OK;
}

/* --- functions --------------------------------------------------------------------------------------------------------- */

static bt_status add(bt_task *task) {
    int64_t a, b;
    bt_status status = bt_arguments(task, &a, &b);
    return status == BT_OK ? bt_return(task, a + b) : status;
}
BT_REMOTE(add);

/* Tells its node and runs until it may end; the node is its result. */
static bt_status stay(bt_task *task) {
    atomic_fetch_add(&told->runs, 1);
    atomic_store(&told->node, nodes_here());
    while (!atomic_load(&told->go)) sleep_ms(1);
    return bt_return(task, nodes_here());
}
BT_REMOTE(stay);

enum { LARGE = 1 << 20 };
static bt_status make(bt_task *task) {
    char *bytes = calloc(1, LARGE);
    atomic_fetch_add(&told->runs, 1);
    atomic_store(&told->node, nodes_here());
    bytes[LARGE - 1] = 7;
    bt_status status = bt_return(task, ((bt_bytes){bytes, LARGE}));
    free(bytes);
    return status;
}
BT_REMOTE(make);

static bt_status last_of(bt_task *task) {
    bt_bytes bytes;
    bt_status status = bt_arguments(task, &bytes);
    return status == BT_OK ? bt_return(task, ((const char *)bytes.data)[bytes.size - 1]) : status;
}
BT_REMOTE(last_of);

static bt_status make_two(bt_task *task) {
    static char bytes[LARGE];
    atomic_fetch_add(&told->runs, 1);
    atomic_store(&told->node, nodes_here());
    bytes[LARGE - 1] = 9;
    return bt_return(task, 5, ((bt_bytes){bytes, LARGE}));
}
BT_REMOTE(make_two, .num_returns = 2);

static bt_status give(bt_task *task) {
    bt_status status = BT_OK;
    for (int i = 0; i < 5 && status == BT_OK; i++) {
        status = bt_yield(task, i);
        if (i == 2 && !atomic_load(&told->go)) atomic_store(&told->node, nodes_here());
        while (i == 2 && status == BT_OK && !atomic_load(&told->go)) sleep_ms(1);
    }
    return status;
}
BT_REMOTE(give);

/* Calls another, on whatever node. */
static bt_status outer(bt_task *task) {
    int64_t retries, node;
    bt_status status = bt_arguments(task, &retries);
    if (status == BT_OK) status = bt_get(bt_remote_with(BT_OPTIONS(.max_retries = (int)retries), stay), &node);
    return status == BT_OK ? bt_return(task, node) : status;
}
BT_REMOTE(outer, .num_cpus = 0);

static bt_status counter_new(bt_task *task) {
    bt_set_state(task, calloc(1, sizeof(int64_t)), free);
    return BT_OK;
}
BT_REMOTE(counter_new);

static bt_status count_up(bt_task *task) { return bt_return(task, ++*(int64_t *)bt_state(task)); }
BT_REMOTE(count_up);

static bt_status where(bt_task *task) { return bt_return(task, nodes_here()); }
BT_REMOTE(where);

/* --- the network ------------------------------------------------------------------------------------------------------- */

static void run_many(void) {
    enum { CALLS = 100 };
    bt_ref *refs[CALLS];
    BT_SCOPE {
        uint64_t frames = nodes_frames();
        for (int i = 0; i < CALLS; i++) refs[i] = bt_remote(add, i, i);
        for (int done = 1; done <= CALLS; done++) assert_true(bt_wait_refs(refs, CALLS, done, NULL, -1) >= done);
        for (int64_t i = 0, n; i < CALLS; i++) {
            OK(bt_get(refs[i], &n));
            assert_int_equal(n, 2 * i);
        }
        assert_true(nodes_frames() - frames >= CALLS);
    }
}

/* Delays are drawn: sooner or later one reply is seen before another whose call was done earlier. */
static void replies_overtake_each_other(void **state) {
    (void)state;
    for (int i = 0; i < 200 && !nodes_reordered(); i++) run_many();
    assert_true(nodes_reordered() > 0);
}

static void calls_run_on_all_nodes(void **state) {
    bool seen[NODES_COUNT + 1] = {false};
    (void)state;
    BT_SCOPE {
        bt_actor *actors[2 * NODES_COUNT];
        int64_t node;
        for (int i = 0; i < 2 * NODES_COUNT; i++) actors[i] = bt_actor_new(counter_new);
        for (int i = 0; i < 2 * NODES_COUNT; i++) {
            OK(bt_get(bt_method(actors[i], where), &node));
            assert_in_range(node, 1, NODES_COUNT);
            seen[node] = true;
        }
        for (int n = 1; n <= NODES_COUNT; n++) assert_true(seen[n]);
        assert_int_equal(nodes_here(), 0);
    }
}

/* --- lost nodes -------------------------------------------------------------------------------------------------------- */

static void what_ran_there_fails(void **state) {
    (void)state;
    BT_SCOPE {
        char text[64];
        int64_t n;
        bt_ref *lost = bt_remote(stay), *other = bt_remote(add, lost, 1);
        int node = await_node();
        assert_true(nodes_lose(node));
        assert_false(nodes_lose(node));
        snprintf(text, sizeof text, "node %d was lost, which ran stay", node);
        FAILS(bt_get(lost, NULL), BT_ABORTED, text);
        assert_int_equal(bt_ref_failure(lost), BT_FAILURE_NODE_DIED);
        FAILS(bt_get(other, NULL), BT_ABORTED, "lost");
        assert_int_equal(bt_ref_failure(other), BT_FAILURE_NODE_DIED);
        assert_true(bt_failure_is_retryable(bt_ref_failure(lost)));
        OK(bt_get(bt_remote(add, 1, 2), &n)); /* the others go on */
        assert_int_equal(n, 3);
    }
}

static void what_ran_there_is_run_again(void **state) {
    (void)state;
    BT_SCOPE {
        int64_t n;
        bt_ref *ref = bt_remote_with(BT_OPTIONS(.max_retries = 2), stay);
        int first = await_node();
        atomic_store(&told->node, 0);
        assert_true(nodes_lose(first));
        int second = await_node();
        assert_int_not_equal(second, first);
        assert_true(nodes_return(first));
        atomic_store(&told->node, 0);
        assert_true(nodes_lose(second)); /* once more */
        int third = await_node();
        assert_int_not_equal(third, second);
        atomic_store(&told->go, 1);
        OK(bt_get(ref, &n));
        assert_int_equal(n, third);
        assert_int_equal(atomic_load(&told->runs), 3);
    }
}

static void lost_more_often_than_it_is_retried(void **state) {
    (void)state;
    BT_SCOPE {
        bt_ref *ref = bt_remote_with(BT_OPTIONS(.max_retries = 1), stay);
        int first = await_node();
        atomic_store(&told->node, 0);
        assert_true(nodes_lose(first));
        assert_true(nodes_lose(await_node()));
        FAILS(bt_get(ref, NULL), BT_ABORTED, "was lost");
        assert_int_equal(bt_ref_failure(ref), BT_FAILURE_NODE_DIED);
        assert_int_equal(atomic_load(&told->runs), 2);
    }
}

static void actors_come_back_elsewhere(void **state) {
    (void)state;
    BT_SCOPE {
        int64_t n, node, other;
        bt_actor *actor = bt_actor_new_with(BT_OPTIONS(.max_restarts = 1), counter_new), *mortal;
        OK(bt_get(bt_method(actor, count_up), &n));
        OK(bt_get(bt_method(actor, count_up), &n));
        assert_int_equal(n, 2);
        OK(bt_get(bt_method(actor, where), &node));
        assert_true(nodes_lose((int)node));
        OK(bt_get(bt_method(actor, count_up), &n));
        assert_int_equal(n, 1); /* made anew */
        OK(bt_get(bt_method(actor, where), &other));
        assert_int_not_equal(other, node);
        assert_true(nodes_return((int)node));
        mortal = bt_actor_new(counter_new);
        OK(bt_get(bt_method(mortal, where), &node));
        bt_ref *running = bt_method(mortal, stay);
        (void)await_node();
        assert_true(nodes_lose((int)node));
        FAILS(bt_get(running, NULL), BT_ABORTED, "was lost");
        assert_int_equal(bt_ref_failure(running), BT_FAILURE_NODE_DIED);
        bt_ref *late = bt_method(mortal, count_up);
        assert_true(bt_get(late, NULL) != BT_OK);
        assert_int_equal(bt_ref_failure(late), BT_FAILURE_NODE_DIED);
        FAILS(bt_actor_status(mortal), BT_ABORTED, "was lost");
    }
}

static void wait_for(bt_ref *ref) { assert_int_equal(bt_wait_refs(&ref, 1, 1, NULL, SOON), 1); }

static void values_are_made_again(void **state) {
    (void)state;
    BT_SCOPE {
        bt_bytes bytes;
        int n;
        bt_ref *ref = bt_remote_with(BT_OPTIONS(.max_retries = 3), make), *sum;
        wait_for(ref);
        assert_true(nodes_lose(atomic_load(&told->node)));
        OK(bt_get(ref, &bytes));
        assert_int_equal(((const char *)bytes.data)[LARGE - 1], 7);
        assert_int_equal(atomic_load(&told->runs), 2);
        for (int k = 1; k <= NODES_COUNT; k++) (void)nodes_return(k);

        ref = bt_remote_with(BT_OPTIONS(.max_retries = 3), make); /* as an argument */
        wait_for(ref);
        assert_true(nodes_lose(atomic_load(&told->node)));
        sum = bt_remote(last_of, ref);
        OK(bt_get(sum, &n));
        assert_int_equal(n, 7);
        assert_int_equal(atomic_load(&told->runs), 4);
    }
}

static void several_results_are_made_again(void **state) {
    (void)state;
    BT_SCOPE {
        bt_bytes bytes;
        int n;
        bt_ref *first = bt_remote_with(BT_OPTIONS(.max_retries = 3), make_two), *second = bt_result(first, 1);
        wait_for(first);
        wait_for(second);
        assert_true(nodes_lose(atomic_load(&told->node)));
        OK(bt_get(second, &bytes));
        assert_int_equal(((const char *)bytes.data)[LARGE - 1], 9);
        OK(bt_get(first, &n));
        assert_int_equal(n, 5);
        assert_int_equal(atomic_load(&told->runs), 2);
    }
}

/* The items that were given stay; the call goes on after them on another node. */
static void streams_go_on_elsewhere(void **state) {
    (void)state;
    BT_SCOPE {
        int n, count = 0;
        bt_ref *stream = bt_remote_with(BT_OPTIONS(.max_retries = 1), give);
        int first = await_node();
        atomic_store(&told->node, 0);
        assert_true(nodes_lose(first));
        assert_int_not_equal(await_node(), first);
        atomic_store(&told->go, 1);
        for (bt_ref *item; (item = bt_stream_next(&stream, -1)) != NULL; count++) {
            OK(bt_get(item, &n));
            assert_int_equal(n, count);
        }
        assert_int_equal(count, 5);
    }
}

static void values_are_lost(void **state) {
    (void)state;
    BT_SCOPE {
        char text[64];
        bt_bytes bytes;
        int n;
        bt_ref *ref = bt_remote(make);
        wait_for(ref);
        int node = atomic_load(&told->node);
        bt_ref *copied = bt_remote(make), *small = bt_remote(add, 1, 2);
        OK(bt_get(copied, &bytes)); /* it is here now */
        OK(bt_get(small, &n));
        assert_true(nodes_lose(node));
        snprintf(text, sizeof text, "the value of make is lost with node %d", node);
        FAILS(bt_get(ref, &bytes), BT_DATA_LOSS, text);
        assert_int_equal(bt_ref_failure(ref), BT_FAILURE_OBJECT_LOST);
        bt_ref *user = bt_remote(last_of, ref);
        FAILS(bt_get(user, NULL), BT_DATA_LOSS, "lost");
        assert_int_equal(bt_ref_failure(user), BT_FAILURE_OBJECT_LOST);
        for (int k = 1; k <= NODES_COUNT; k++) { /* whichever has made the others */
            (void)nodes_return(k % NODES_COUNT + 1);
            (void)nodes_lose(k);
        }
        OK(bt_get(bt_remote(last_of, copied), &n));
        assert_int_equal(n, 7);
        OK(bt_get(small, &n));
    }
}

static void nested_calls(void **state) {
    (void)state;
    BT_SCOPE {
        int64_t n;
        bt_ref *ref = bt_remote_with(BT_OPTIONS(.max_retries = 3), outer, 3);
        int first = await_node();
        atomic_store(&told->node, 0);
        assert_true(nodes_lose(first)); /* with the inner one, or with both */
        int second = await_node();
        assert_int_not_equal(second, first);
        atomic_store(&told->go, 1);
        OK(bt_get(ref, &n));
        assert_in_range(n, 1, NODES_COUNT);
        assert_int_not_equal(n, first);
    }
}

static void all_but_one(void **state) {
    (void)state;
    BT_SCOPE {
        int64_t n;
        assert_true(nodes_lose(1));
        assert_true(nodes_lose(3));
        assert_false(nodes_lose(2));
        for (int i = 0; i < 10; i++) {
            OK(bt_get(bt_remote(where), &n));
            assert_int_equal(n, 2);
        }
        assert_true(nodes_return(1));
        assert_true(nodes_lose(2));
        OK(bt_get(bt_remote(where), &n));
        assert_int_equal(n, 1);
        assert_false(nodes_lose(4));
        assert_false(nodes_return(0));
    }
}

/* --- damaged frames ---------------------------------------------------------------------------------------------------- */

static uint64_t draw(void) {
    static uint64_t x = 88172645463325252u;
    x ^= x << 13, x ^= x >> 7, x ^= x << 17;
    return x;
}

static void damaged_frames_are_refused(void **state) {
    enum { ROUNDS = 3000 };
    static char frame[1 << 16], damaged[1 << 16];
    (void)state;
    BT_SCOPE {
        int64_t n;
        bt_ref *one = bt_remote(add, 1, 0);
        OK(bt_get(bt_remote_with(BT_OPTIONS(.resources = {{"seat", 1}}, .max_retries = 1), add, one, 2), &n));
        size_t size = nodes_sample(frame, sizeof frame);
        assert_in_range(size, 100, sizeof frame);
        assert_true(nodes_receive(frame, size));
        for (size_t less = 0; less < size; less++) assert_false(nodes_receive(frame, less));
        for (int i = 0; i < ROUNDS; i++) {
            memcpy(damaged, frame, size);
            for (uint64_t k = draw() % 4 + 1; k; k--) damaged[draw() % size] = (char)draw();
            (void)nodes_receive(damaged, size); /* some are calls still, of other functions or with other numbers */
        }
        for (int i = 0; i < ROUNDS; i++) {
            size_t some = draw() % 600;
            for (size_t k = 0; k < some; k++) damaged[k] = (char)draw();
            assert_false(nodes_receive(damaged, some));
        }
        OK(bt_get(bt_remote(add, 3, 4), &n));
        assert_int_equal(n, 7);
    }
}

/* An argument's id is one of another reference, or of none. */
static void ids_of_nothing_are_refused(void **state) {
    static char frame[1 << 16];
    (void)state;
    BT_SCOPE {
        int64_t n;
        OK(bt_get(bt_remote(add, bt_remote(add, 1, 0), 2), &n));
        size_t size = nodes_sample(frame, sizeof frame), at = 0;
        uint64_t id, first = 0;
        for (size_t i = 0; i + sizeof id <= size; i += 8) {
            memcpy(&id, frame + i, sizeof id);
            if (id >> 48 == 0x6e0d && first) at = i;
            if (id >> 48 == 0x6e0d && !first) first = id; /* of the call's result; the last one is the argument's */
        }
        assert_int_not_equal(at, 0);
        memcpy(&id, frame + at, sizeof id);
        assert_true(nodes_receive(frame, size));
        memcpy(frame + at, &(uint64_t){id ^ (uint64_t)1 << 33}, sizeof id); /* of an earlier one in its place */
        assert_false(nodes_receive(frame, size));
        SAYS("of a reference that was released");
        memcpy(frame + at, &(uint64_t){id | 0xffffffff}, sizeof id);
        assert_false(nodes_receive(frame, size));
        SAYS("of no reference");
        memcpy(frame + at, &(uint64_t){64}, sizeof id); /* as those of the inner engine look */
        assert_false(nodes_receive(frame, size));
        SAYS("of no reference");
    }
}

int main(void) {
    static const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)
        TEST(replies_overtake_each_other),
        TEST(calls_run_on_all_nodes),
        TEST(what_ran_there_fails),
        TEST(what_ran_there_is_run_again),
        TEST(lost_more_often_than_it_is_retried),
        TEST(actors_come_back_elsewhere),
        TEST(values_are_made_again),
        TEST(several_results_are_made_again),
        TEST(streams_go_on_elsewhere),
        TEST(values_are_lost),
        TEST(nested_calls),
        TEST(all_but_one),
        TEST(damaged_frames_are_refused),
        TEST(ids_of_nothing_are_refused),
    };
    told = mmap(NULL, sizeof *told, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    setenv("BERTH_FLAGS", "task_engine=nodes", 1);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
