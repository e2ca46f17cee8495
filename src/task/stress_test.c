// labels: threads
// timeout: 200
/* Everything at once, by chance, with processes that are killed: results are right or tell why not, and in the end all records are free
 * again. BERTH_TEST_SEED repeats a run, BERTH_TEST_LONG makes it longer. */
#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include <berth.h>

#include "base/test_depth.h"
#include "task/object.h"
#include "task/process.h"
#include "task/store.h"

enum {
    REFS = 150,
    ACTORS = 8,
    CALLED = 4,
    GROUPS = 3,
    THREADS = 2,
    CPUS = 4,
    GPUS = 2,
    LARGE = 70000,
    MOST_SECONDS = 60
};

static pthread_barrier_t released;

/* --- functions --------------------------------------------------------------------------------------------------------- */

static bt_status twice(bt_task *task) {
    int64_t n;
    bt_status status = bt_argument(task, 0, &n);
    return status == BT_OK ? bt_return(task, 2 * n) : status;
}
BT_REMOTE(twice);

static bt_status nap(bt_task *task) {
    int64_t n;
    bt_status status = bt_argument(task, 0, &n);
    if (status == BT_OK) usleep((useconds_t)((uint64_t)n % 3000));
    return status == BT_OK ? bt_return(task, 2 * n) : status;
}
BT_REMOTE(nap);

static bt_status large(bt_task *task) {
    static char bytes[LARGE];
    int64_t n;
    bt_status status = bt_argument(task, 0, &n);
    memset(bytes, (int)(n & 0x7f), sizeof bytes);
    return status == BT_OK ? bt_return(task, ((bt_bytes){bytes, sizeof bytes})) : status;
}
BT_REMOTE(large);

static bt_status crash(bt_task *task) { return raise(SIGKILL), BT_OK; }
BT_REMOTE(crash);
static bt_status refuse(bt_task *task) { return bt_task_fail(task, BT_OUT_OF_RANGE, "refused"); }
BT_REMOTE(refuse);

/* Asks others, puts values, and leaves some of what it asked for to itself. */
static bt_status nested(bt_task *task);
BT_REMOTE(nested);
static bt_status nested(bt_task *task) {
    int64_t n, got = 0;
    bt_status status = bt_argument(task, 0, &n);
    if (status != BT_OK) return status;
    (void)bt_remote(nap, n);
    (void)bt_put(((bt_bytes){task, 0}));
    bt_ref *first = bt_remote(twice, n), *second = n % 3 || !n ? bt_remote(nap, first) : bt_remote(nested, n / 3);
    if (n % 3 || !n) return (status = bt_get(second, &got)) == BT_OK ? bt_return(task, got / 2) : status;
    return (status = bt_get(second, &got)) == BT_OK ? bt_return(task, 2 * n) : status;
}

static bt_status make(bt_task *task) {
    bt_set_state(task, malloc(10), free);
    return BT_OK;
}
BT_REMOTE(make);

static bt_status ask_actor(bt_task *task) {
    bt_actor *actor;
    int64_t n, got;
    bt_status status = bt_argument(task, 0, &n);
    if (status == BT_OK) status = bt_argument(task, 1, &actor);
    if (status == BT_OK) status = bt_get(bt_method(actor, twice, n), &got);
    return status == BT_OK ? bt_return(task, got) : status;
}
BT_REMOTE(ask_actor);

/* --- by chance --------------------------------------------------------------------------------------------------------- */

typedef struct player {
    uint64_t random;
    double until;
    bt_ref *refs[REFS];
    int64_t expected[REFS]; /* < 0: it is no number */
    bool alone[REFS];       /* its task waits for no other */
    bt_actor *actors[ACTORS];
    bt_group *groups[GROUPS];
    uint64_t calls, right, failed;
} player;

static double now(void) { return (double)bti_now_ns() * 1e-9; }

static uint64_t below(player *p, uint64_t limit) {
    p->random = p->random * 6364136223846793005u + 1442695040888963407u;
    return (p->random >> 33) % limit;
}

static bt_task_options chance(player *p) {
    bt_task_options o = *BT_OPTIONS();
    o.priority = (int)below(p, 3);
    o.max_retries = (int)below(p, 4);
    o.max_restarts = (int)below(p, 4);
    if (!below(p, 4)) o.num_cpus = (double)(1 + below(p, CPUS));
    if (!below(p, 10)) o.num_gpus = (double)below(p, 3);
    if (!below(p, 20)) o.num_gpus = 0.3;
    if (!below(p, 15)) o.deadline_seconds = (double)(1 + below(p, 30)) * 1e-3;
    if (!below(p, 20)) o.num_gpus = 0;
    return o;
}

/* In a group all is smaller. */
static void join_group(player *p, bt_task_options *o) {
    bt_group *group = p->groups[below(p, GROUPS)];
    if (!group || below(p, 5)) return;
    o->group = group;
    o->bundle = (int)below(p, 2);
    o->num_cpus = 0.5;
    o->num_gpus = BTI_UNSET_REAL;
}

static bool may_fail(bt_status status) {
    return status == BT_ABORTED || status == BT_CANCELLED || status == BT_DEADLINE_EXCEEDED ||
           status == BT_FAILED_PRECONDITION || status == BT_OUT_OF_RANGE || status == BT_INVALID_ARGUMENT ||
           status == BT_RESOURCE_EXHAUSTED;
}

static void forget(player *p, int i) {
    bt_ref_release(p->refs[i]);
    p->refs[i] = NULL;
}

static void look(player *p, int i, double seconds) {
    int64_t n = -1;
    bt_bytes bytes;
    if (!p->refs[i]) return;
    bt_status status =
        p->expected[i] >= 0 ? bt_get_within(p->refs[i], seconds, &n) : bt_get_within(p->refs[i], seconds, &bytes);
    if (status == BT_OK && p->expected[i] >= 0) assert_int_equal(n, p->expected[i]);
    if (status == BT_OK && p->expected[i] < 0) {
        const char *text = bytes.data;
        assert_int_equal(bytes.size, LARGE);
        assert_true(text[0] == -1 - p->expected[i] && text[LARGE - 1] == text[0]);
    }
    if (status != BT_OK && !may_fail(status)) fail_msg("%s: %s", bt_status_name(status), bt_error_text());
    if (status != BT_OK && seconds == MOST_SECONDS && strstr(bt_error_text(), "not done within"))
        fail_msg("it hangs: %s", bt_error_text());
    p->right += status == BT_OK;
    p->failed += status != BT_OK;
    forget(p, i);
}

/* Who holds something waits for nobody who may want it: in the end all of this can go on. */
static void call(player *p) {
    static const bt_remote_entry *const functions[] = {&bti_remote_twice, &bti_remote_nap,   &bti_remote_nested,
                                                       &bti_remote_large, &bti_remote_crash, &bti_remote_refuse};
    int i = (int)below(p, REFS), on = (int)below(p, REFS);
    uint64_t a = below(p, ACTORS);
    bt_actor *actor = below(p, 3) ? NULL : p->actors[a];
    int64_t n = (int64_t)below(p, 1000);
    bt_task_options o = chance(p);
    const bt_remote_entry *function = functions[below(p, below(p, 3) ? 4 : 6)];
    bt_item_value arguments[2] = {bti_of_integer(n)};
    forget(p, i);
    join_group(p, &o);
    if (function != &bti_remote_large && !below(p, 3) && !o.group && (!actor || (a < CALLED && p->alone[on])) &&
        p->refs[on] && p->expected[on] >= 0 && p->expected[on] < 1 << 20)
        n = p->expected[on], arguments[0] = bti_of_ref(p->refs[on]);
    p->expected[i] = function == &bti_remote_large ? -1 - (n & 0x7f) : 2 * n;
    bt_ref *ref;
    p->alone[i] = !actor && function != &bti_remote_nested && arguments[0].type == BT_INTEGER;
    if (actor && a < CALLED && !o.group && below(p, 2)) {
        arguments[1] = bti_of_actor(actor);
        p->expected[i] = 2 * n;
        o.num_gpus = BTI_UNSET_REAL;
        ref = bti_remote(&bti_remote_ask_actor, &o, arguments, 2);
    } else if (actor) {
        o = BT_BUNDLE(.max_retries = o.max_retries, .deadline_seconds = o.deadline_seconds);
        ref = bti_method(actor, function, &o, arguments, 1);
    } else {
        ref = bti_remote(function, &o, arguments, 1);
    }
    p->refs[i] = bt_ref_retain(ref);
    p->calls++;
}

static void change_actor(player *p) {
    uint64_t i = below(p, ACTORS);
    bt_actor **actor = &p->actors[i];
    if (*actor && below(p, 3) == 0 && bt_actor_kill(*actor) != BT_OK) assert_true(may_fail(bt_error_status()));
    bt_actor_release(*actor);
    *actor = NULL;
    if (!below(p, 3)) return;
    bt_task_options o = chance(p);
    if (i < CALLED) o = BT_BUNDLE(.max_restarts = o.max_restarts);
    o.deadline_seconds = below(p, 5) ? 0 : o.deadline_seconds;
    o.num_cpus = BTI_UNSET_REAL;
    *actor = bt_actor_retain(bt_actor_new_with(&o, make));
}

static void change_group(player *p) {
    bt_group **group = &p->groups[below(p, GROUPS)];
    bt_group_release(*group);
    *group = NULL;
    if (!below(p, 2)) return;
    bt_task_options bundles[2] = {BT_BUNDLE(.num_cpus = 1),
                                  BT_BUNDLE(.num_cpus = 0.5, .num_gpus = (double)below(p, 2))};
    *group = bt_group_retain(bt_group_new(bundles, 2));
}

static void put(player *p) {
    int i = (int)below(p, REFS);
    int64_t n = (int64_t)below(p, 0x7f);
    static _Thread_local char bytes[LARGE];
    memset(bytes, (int)n, sizeof bytes);
    forget(p, i);
    p->expected[i] = -1 - n;
    p->alone[i] = true;
    p->refs[i] = bt_ref_retain(bt_put(((bt_bytes){bytes, sizeof bytes})));
}

static void wait_for_some(player *p) {
    bt_ref *some[20];
    int count = 0;
    for (int i = (int)below(p, REFS); i < REFS && count < 20; i++)
        if (p->refs[i]) some[count++] = p->refs[i];
    assert_true(bt_wait_refs(some, count, count / 2, NULL, (double)below(p, 10) * 1e-3) >= 0);
}

/* Not with the lock: it is to be in the hands of who dies. */
static void kill_one(player *p) {
    bti_state *state = bti_process_now.state;
    pid_t pid = 0;
    bti_arena_lock(state->arena);
    uint64_t which = below(p, state->worker_count + 1u);
    for (const bti_client *c = state->clients; c && !pid; c = c->next)
        if (!c->is_program && c->pid && !which--) pid = c->pid;
    bti_arena_unlock(state->arena);
    for (uint64_t spin = below(p, 20000); spin; spin--) __asm__ volatile("");
    if (pid) kill(pid, SIGKILL);
}

static void *play(void *data) {
    player *p = data;
    while (now() < p->until)
        BT_SCOPE {
            uint64_t what = below(p, 100);
            int i = (int)below(p, REFS);
            if (what < 55)
                call(p);
            else if (what < 62)
                put(p);
            else if (what < 64)
                change_actor(p);
            else if (what < 65)
                change_group(p);
            else if (what < 70 && p->refs[i] && bt_cancel(p->refs[i], below(p, 2)) != BT_OK)
                assert_true(may_fail(bt_error_status()));
            else if (what < 72)
                wait_for_some(p);
            else if (what < 74)
                kill_one(p);
            else if (what < 80)
                forget(p, i);
            else
                look(p, i, (double)below(p, 30) * 1e-3);
        }
    for (int i = 0; i < ACTORS; i++) bt_actor_release(p->actors[i]); /* others wait for what they hold */
    for (int i = 0; i < GROUPS; i++) bt_group_release(p->groups[i]);
    pthread_barrier_wait(&released);
    for (int i = 0; i < REFS; i++)
        if (i % 2)
            look(p, i, MOST_SECONDS);
        else
            forget(p, i);
    return NULL;
}

/* --- what is left ------------------------------------------------------------------------------------------------------ */

static const char *const kind_names[] = {"clients", "objects",   "tasks", "queues", "actors",
                                         "groups",  "functions", "holds", "waits",  "links"};

/* Free blocks of a kind that keep their memory for the next values. */
static uint32_t warm_blocks(const bti_state *state, int kind) {
    uint32_t count = 0;
    if (kind < BTI_BLOCKS || kind - BTI_BLOCKS + BTI_SMALLEST_BLOCK >= BTI_ORDERS) return 0;
    const bti_store_block *block = state->store->warm[kind - BTI_BLOCKS + BTI_SMALLEST_BLOCK].newest;
    for (; block; block = block->older) count++;
    return count;
}

/* References that idle workers have for their next calls. */
static uint32_t stock(const bti_state *state) {
    uint32_t count = 0;
    for (const bti_client *c = state->clients; c; c = c->next) count += c->stock_left;
    return count;
}

/* The last that is not as in the beginning. */
static bool is_clean(char *text, size_t bytes) {
    bti_state *state = bti_process_now.state;
    const bti_arena *arena = state->arena;
    text[0] = 0;
    bti_arena_lock(state->arena);
    for (int kind = 0; kind < BTI_KINDS_OF_RECORDS; kind++) {
        uint32_t live = arena->records[kind].live - warm_blocks(state, kind);
        if (kind == BTI_OBJECTS || kind == BTI_HOLDS) live -= stock(state);
        if (kind == BTI_CLIENTS) live -= state->mover != NULL;
        bool stays = kind == BTI_QUEUES || kind == BTI_FUNCTIONS || kind == BTI_SLOTS; /* free ones wait in lists */
        bool right =
            kind == BTI_CLIENTS ? live == 1 + state->worker_count && state->worker_count == state->idle_count : !live;
        if (!right && !stays)
            snprintf(text, bytes, "%u %s are left; %u workers, %u idle", live,
                     kind <= BTI_LINKS ? kind_names[kind] : "blocks", state->worker_count, state->idle_count);
    }
    const bti_records *queues = &arena->records[BTI_QUEUES];
    for (uint32_t i = 0; i < queues->used; i++) {
        const bti_queue *q = (const bti_queue *)(const void *)(queues->first + i * queues->bytes);
        if (q->weight && (q->length || q->first || q->group)) snprintf(text, bytes, "a queue of %u", q->length);
    }
    if (state->busy_count) snprintf(text, bytes, "%u calls are busy", state->busy_count);
    if (state->machine.waiting || state->waiting || state->groups_waiting) snprintf(text, bytes, "something waits");
    for (int r = 0; r < state->resource_count; r++)
        if (state->machine.free.of[r] != state->machine.total.of[r])
            snprintf(text, bytes, "%lld of %s free, not %lld", (long long)state->machine.free.of[r], state->names[r],
                     (long long)state->machine.total.of[r]);
    for (int r = 0; r < state->resource_count; r++)
        if (state->machine.kept.of[r])
            snprintf(text, bytes, "%lld of %s kept", (long long)state->machine.kept.of[r], state->names[r]);
    for (int g = 0; g < state->gpu_count; g++)
        if (state->machine.gpu_free[g] != BTI_UNIT || state->machine.gpu_kept[g])
            snprintf(text, bytes, "GPU %d: %d free, %d kept", g, state->machine.gpu_free[g],
                     state->machine.gpu_kept[g]);
    if (state->spilled_bytes || state->spilled_count || state->store->moving_out)
        snprintf(text, bytes, "%u values are spilled", state->spilled_count);
    if (state->store_used) snprintf(text, bytes, "%llu bytes of the store", (unsigned long long)state->store_used);
    bti_arena_unlock(state->arena);
    return !text[0];
}

static void expect_clean(void) {
    char text[200];
    double until = now() + 30;
    while (!is_clean(text, sizeof text) && now() < until) usleep(2000);
    if (text[0]) fail_msg("%s", text);
}

static void all_is_free_in_the_end(void **state) {
    const char *told = getenv("BERTH_TEST_SEED");
    uint64_t seed = told ? strtoull(told, NULL, 10) : (uint64_t)time(NULL), recoveries = 0;
    int rounds = test_is_long() ? 100 : 3;
    assert_int_equal(pthread_barrier_init(&released, NULL, THREADS), 0);
    print_message("BERTH_TEST_SEED=%llu\n", (unsigned long long)seed);
    for (int round = 0; round < rounds; round++) {
        static player players[THREADS];
        pthread_t threads[THREADS];
        if (bt_runtime_init(.num_cpus = CPUS, .num_gpus = GPUS, .store_bytes = 64 << 20) != BT_OK)
            fail_msg("%s", bt_error_text());
        for (int t = 0; t < THREADS; t++) {
            players[t] = (player){.random = seed + (uint64_t)(round * THREADS + t) * 7919, .until = now() + 1};
            assert_int_equal(pthread_create(&threads[t], NULL, play, &players[t]), 0);
        }
        for (int t = 0; t < THREADS; t++) {
            pthread_join(threads[t], NULL);
            print_message("%llu calls: %llu right, %llu failed\n", (unsigned long long)players[t].calls,
                          (unsigned long long)players[t].right, (unsigned long long)players[t].failed);
            assert_true(players[t].right > 0);
        }
        expect_clean();
        recoveries += bti_process_now.state->arena->recoveries;
        assert_int_equal(bt_runtime_shutdown(), BT_OK);
    }
    print_message("%llu died with the lock\n", (unsigned long long)recoveries);
}

/* --- records run out --------------------------------------------------------------------------------------------------- */

static bt_status fill(bt_ref *late, bt_actor *actor) {
    bt_ref *refs[100];
    bt_status status = BT_OK;
    for (int i = 0; i < 100; i++)
        refs[i] = i % 2 ? bt_remote(twice, late) : bt_remote_with(BT_OPTIONS(.num_cpus = 0.01), twice, i);
    for (int i = 0; i < 20; i++) (void)bt_method(actor, twice, i);
    for (int i = 0; i < 20; i++) (void)bt_actor_status(bt_actor_new(make));
    for (int i = 0; i < 20; i++) (void)bt_group_new(BT_OPTIONS(.num_cpus = 0.01), 1);
    for (int i = 0; i < 20; i++) (void)bt_put(i);
    for (int i = 0; i < 100; i++) {
        bt_status one = bt_get(refs[i], NULL);
        if (one != BT_OK) status = one;
    }
    return status;
}

static void records_run_out(void **unused) {
    for (int kind = 0; kind <= BTI_LINKS; kind++) {
        if (kind == BTI_FUNCTIONS) continue;
        if (bt_runtime_init(.num_cpus = CPUS) != BT_OK) fail_msg("%s", bt_error_text());
        bti_records *records = &bti_process_now.state->arena->records[kind];
        bt_status status = BT_OK;
        BT_SCOPE {
            bt_actor *actor = bt_actor_new(make);
            assert_int_equal(bt_get(bt_method(actor, twice, 1), NULL), BT_OK);
            bt_ref *late = bt_remote(nap, 2999);
            uint32_t most = records->most;
            records->most = records->used + 3;
            status = fill(late, actor);
            records->most = most;
        }
        if (status != BT_OK && status != BT_RESOURCE_EXHAUSTED)
            fail_msg("%s: %s: %s", kind_names[kind], bt_status_name(status), bt_error_text());
        if (kind == BTI_TASKS || kind == BTI_OBJECTS || kind == BTI_HOLDS || kind == BTI_LINKS)
            assert_int_equal(status, BT_RESOURCE_EXHAUSTED);
        BT_SCOPE {
            int64_t n;
            assert_int_equal(bt_get(bt_remote(twice, 4), &n), BT_OK);
            assert_int_equal(n, 8);
        }
        expect_clean();
        assert_int_equal(bt_runtime_shutdown(), BT_OK);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(records_run_out), cmocka_unit_test(all_is_free_in_the_end)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
