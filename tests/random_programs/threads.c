/* Eight threads run one program at once: they read the same recorded graph, each from another value on; record it again over the same leaves, changed in ways that their plans
 * share or do not; and call one function that sets a variable. Each gets the bits that one thread gets alone, and no update is lost.
 * On TPUs only nearly these bits: what other threads have computed by then is cut from the segments, and XLA rounds another program otherwise. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "random_programs/program.h"

enum { THREADS = 8, ROUNDS = 2 };

typedef struct team {
    uint64_t seed;
    int count;
    bt_array *graph[MOST_INSTRUCTIONS]; /* recorded, not evaluated */
    bool exact[MOST_INSTRUCTIONS];
    leaves given;
    bt_function *function;
    outcomes wanted[VARIANTS]; /* the first: of the program as it is */
    pthread_barrier_t start;
    _Atomic(const char *) what;
} team;

typedef struct member {
    team *team;
    int number;
    pthread_t thread;
} member;

static void expect(team *t, const char *what) {
    const char *nothing = NULL;
    if (what) atomic_compare_exchange_strong(&t->what, &nothing, what);
}

static void expect_results(team *t, bt_array *const *results) {
    outcomes out;
    keep_results(results, t->exact, t->count, &out);
    expect(t, differ(&t->wanted[0], &out, !moves_to_tpus));
    free_outcomes(&out);
}

static void read_graph(team *t, int number) {
    for (int i = 0; i < t->count; i++) (void)!bt_eval(t->graph[(number * t->count / THREADS + i) % t->count]);
    expect_results(t, t->graph);
}

static void record_again(team *t, int number) {
    for (int round = 0; round < ROUNDS; round++) {
        outcomes out;
        int variant = (number / 2 + round * 3) % VARIANTS; /* two threads at a time have the same */
        run_variant(t->seed, variant, t->given.leaf, &out);
        expect(t, differ(&t->wanted[variant], &out, !moves_to_tpus));
        free_outcomes(&out);
    }
}

static void call(team *t, int number) {
    bt_array *arguments[MOST_INSTRUCTIONS], *results[MOST_INSTRUCTIONS];
    for (int i = 0; i < t->given.count; i++)
        arguments[i] = number % 2 ? move_in_memory(t->given.leaf[i], 1 + number) : t->given.leaf[i];
    for (int round = 0; round < ROUNDS; round++) {
        if (bt_call(t->function, arguments, t->given.count, results, t->count) == BT_OK)
            expect_results(t, results);
        else
            expect(t, "a call failed");
    }
}

static void *run_member(void *of) {
    const member *m = of;
    pthread_barrier_wait(&m->team->start);
    BT_SCOPE {
        read_graph(m->team, m->number);
        record_again(m->team, m->number);
        call(m->team, m->number);
    }
    bt_error_clear();
    return NULL;
}

static void run_all(team *t) {
    member members[THREADS];
    pthread_barrier_init(&t->start, NULL, THREADS);
    for (int i = 0; i < THREADS; i++) members[i] = (member){.team = t, .number = i};
    for (int i = 1; i < THREADS; i++)
        if (pthread_create(&members[i].thread, NULL, run_member, &members[i])) abort();
    run_member(&members[0]);
    for (int i = 1; i < THREADS; i++) pthread_join(members[i].thread, NULL);
    pthread_barrier_destroy(&t->start);
}

/* The program as a function, which counts its calls in a variable. */
static void make_function(team *t, bt_shared *calls) {
    leaves *inputs = calloc(1, sizeof *inputs);
    bt_array *results[MOST_INSTRUCTIONS];
    bool exact[MOST_INSTRUCTIONS];
    inputs->how = LEAVES_ARE_INPUTS;
    int count = record_pure(t->seed, inputs, results, exact);
    bt_update update = {calls, bt_add(bt_value(calls), bt_i32(1))};
    if (count != t->count)
        expect(t, "the function has other values");
    else
        t->function = bt_function_new(inputs->input, inputs->count, results, count, &update, 1);
    free(inputs);
}

const char *check_threads(uint64_t seed) {
    team *t = calloc(1, sizeof *t);
    t->seed = seed;
    BT_SCOPE {
        bt_shared *calls = bt_shared_new(bt_i32(0), NULL);
        t->count = record_pure(seed, &t->given, t->graph, t->exact);
        expect(t, bt_set_flag("plan_cache", "0") == BT_OK ? NULL : "the flag plan_cache is refused");
        for (int v = 0; v < VARIANTS; v++) run_variant(seed, v, NULL, &t->wanted[v]);
        expect(t, bt_set_flag("plan_cache", "64M") == BT_OK ? NULL : "the flag plan_cache is refused");
        if (t->count) make_function(t, calls);
        if (t->function) run_all(t);
        int32_t counted = -1;
        if (t->function && (bt_read(bt_value(calls), &counted, sizeof counted) != BT_OK || counted != THREADS * ROUNDS))
            expect(t, "an update was lost");
        for (int v = 0; v < VARIANTS; v++) free_outcomes(&t->wanted[v]);
    }
    bt_error_clear();
    const char *what = atomic_load(&t->what);
    free(t);
    return what;
}
