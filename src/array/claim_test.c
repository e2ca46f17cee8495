// labels: threads
/* Threads plan overlapping parts of one graph, while others end histories, take gradients, explain, and memory is short: the values are those
 * of one thread, and what could not be planned is computed by whoever asks again. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include <berth.h>

#include "array/claim.h"
#include "array/handle.h"
#include "base/flags.h"

enum { THREADS = 8, NODES = 160, SIDE = 8, BYTES = SIDE * SIDE * 4, ROUNDS = 6, READS = 60 };

static void begin(const char *flags) {
    assert_int_equal(bt_shutdown(), BT_OK);
    setenv("BERTH_FLAGS", flags, 1);
    bti_flags_reset();
    bt_error_clear();
}

static int finish(void **state) {
    (void)state;
    bti_alloc_fail_at(0, false);
    begin("");
    return 0;
}

static uint64_t draw(uint64_t *seed) {
    *seed = *seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return *seed >> 33;
}

/* --- one graph for all ---------------------------------------------------------------------------------------------- */

typedef struct graph {
    bt_array *nodes[NODES];
    unsigned char values[NODES][BYTES]; /* by one thread */
    pthread_barrier_t start;
    bool devices, short_of_memory;
    atomic_int failures; /* evaluations that failed and were asked for again */
} graph;

static bt_array *scan_step(bt_array *x) {
    bt_array *half = bt_mul(x, bt_num(0.5));
    return bt_add(half, bt_cumsum(half, 1, false));
}

/* Small numbers, so that sums of many stay exact or finite; what counts are equal bits. */
static bt_array *make_node(bt_array *const *before, int count, uint64_t *seed) {
    bt_array *x = before[draw(seed) % (uint64_t)count], *y = before[draw(seed) % (uint64_t)count];
    switch (draw(seed) % 9) {
    case 0: return bt_add(x, y);
    case 1: return bt_sub(x, bt_mul(y, bt_num(0.25)));
    case 2: return bt_tanh(bt_matmul(x, y));
    case 3: return bt_maximum(bt_transpose(x), y);
    case 4: return bt_tanh(bt_add(x, bt_sum(y, BT_AXES(0), true)));
    case 5: return bt_sort(x, 1);
    case 6: return scan_step(bt_tanh(x));
    case 7: return bt_softmax(bt_add(x, y), 1);
    default: return bt_where(bt_lt(x, y), x, bt_num(0.125));
    }
}

static void make_graph(graph *g, uint64_t seed) {
    for (int i = 0; i < NODES; i++) {
        if (i < 4) {
            float data[SIDE * SIDE];
            for (int k = 0; k < SIDE * SIDE; k++) data[k] = (float)(draw(&seed) % 1000) / 1000 - 0.5f;
            g->nodes[i] = bt_from(data, BT_F32, BT_SHAPE(SIDE, SIDE));
            continue;
        }
        const char *device = g->devices && draw(&seed) % 3 == 0 ? "gpu:1" : "gpu:0";
        BT_ON(g->devices ? device : "cpu") g->nodes[i] = make_node(g->nodes, i, &seed);
    }
}

static void read_by_one(graph *g, uint64_t seed) {
    BT_SCOPE {
        make_graph(g, seed);
        for (int i = 0; i < NODES; i++) assert_int_equal(bt_read(g->nodes[i], g->values[i], BYTES), BT_OK);
    }
}

typedef struct worker {
    graph *graph;
    int number;
    const char *failure;
} worker;

/* Whether it has the value that one thread computed; tried again while memory is short. An operation that found no memory while it ran keeps its
 * error. */
static bool read_one(graph *g, int at) {
    unsigned char value[BYTES];
    for (int attempt = 0; attempt < 1000; attempt++) {
        bt_status status = bt_read(g->nodes[at], value, BYTES);
        if (status == BT_OK) return !memcmp(value, g->values[at], BYTES);
        if (status != BT_RESOURCE_EXHAUSTED || !g->short_of_memory) break;
        atomic_fetch_add(&g->failures, 1);
        if (bt_peek_status(g->nodes[at]) == status) return true;
    }
    fprintf(stderr, "node %d: %s\n", at, bt_error_text());
    return false;
}

/* Gradients through what others compute meanwhile, and forget; it may be cut off, and then says so. */
static bool take_gradient(graph *g, int at, int by) {
    bool good = true;
    BT_SCOPE {
        bt_array *loss = bt_sum(bt_mul(g->nodes[at], g->nodes[at]), BT_ALL, false), *gradient;
        bt_status status = bt_grad(loss, &g->nodes[by], 1, &gradient);
        float value[SIDE * SIDE];
        if (status == BT_OK) status = bt_read(gradient, value, sizeof value);
        good = status == BT_OK || status == BT_FAILED_PRECONDITION || status == BT_INVALID_ARGUMENT ||
               (status == BT_RESOURCE_EXHAUSTED && g->short_of_memory);
        if (!good) fprintf(stderr, "gradient of %d by %d: %s\n", at, by, bt_error_text());
    }
    return good;
}

static const char *use(graph *g, int at, uint64_t what, uint64_t *seed) {
    switch (what) {
    case 0: {
        bt_array *mine = bt_retain(g->nodes[at]);
        bt_release(mine);
        return NULL;
    }
    case 1: return take_gradient(g, at, (int)(draw(seed) % 4)) ? NULL : "a gradient";
    case 2: {
        char *text = bt_explain(g->nodes[at]);
        bool good = text || g->short_of_memory;
        bt_free(text);
        return good ? NULL : "an explanation";
    }
    case 3: return bt_eval(g->nodes[at]) == BT_OK || g->short_of_memory ? NULL : "an evaluation";
    default: return read_one(g, at) ? NULL : "a value";
    }
}

static void *work(void *argument) {
    worker *my = argument;
    uint64_t seed = (uint64_t)my->number + 1;
    pthread_barrier_wait(&my->graph->start);
    for (int i = 0; i < READS && !my->failure; i++) {
        if (my->graph->short_of_memory && i % 4 == 0) bti_alloc_fail_at(draw(&seed) % 400 + 1, false);
        BT_SCOPE
            my->failure = use(my->graph, (int)(draw(&seed) % NODES), draw(&seed) % 12, &seed);
    }
    return NULL;
}

static void together(graph *g, uint64_t seed) {
    pthread_t threads[THREADS];
    worker workers[THREADS];
    BT_SCOPE {
        make_graph(g, seed);
        pthread_barrier_init(&g->start, NULL, THREADS);
        for (int i = 0; i < THREADS; i++) {
            workers[i] = (worker){g, i, NULL};
            assert_int_equal(pthread_create(&threads[i], NULL, work, &workers[i]), 0);
        }
        for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
        bti_alloc_fail_at(0, false);
        pthread_barrier_destroy(&g->start);
        for (int i = 0; i < THREADS; i++)
            if (workers[i].failure) fail_msg("seed %d, thread %d: %s", (int)seed, i, workers[i].failure);
        for (int i = 0; i < NODES; i++) assert_true(read_one(g, i));
    }
}

static void compare(graph *g, const char *flags) {
    for (uint64_t seed = 1; seed <= ROUNDS; seed++) {
        begin(flags);
        read_by_one(g, seed);
        together(g, seed);
        assert_int_equal(bt_live_arrays(), 0);
    }
}

static void threads_share_a_graph(void **state) {
    (void)state;
    static graph g;
    compare(&g, "");
}

static void threads_share_a_graph_of_two_devices(void **state) {
    (void)state;
    static graph g = {.devices = true};
    compare(&g, "devices=sim:gpu*2@64M");
}

static void what_fails_for_want_of_memory_is_asked_for_again(void **state) {
    (void)state;
    static graph g = {.short_of_memory = true};
    compare(&g, "");
    assert_true(atomic_load(&g.failures) > 0);
}

/* --- claims --------------------------------------------------------------------------------------------------------- */

typedef struct waiter {
    bt_array *array;
    atomic_bool done;
    bt_status status;
} waiter;

static void *read_claimed(void *argument) {
    waiter *my = argument;
    float value[4];
    my->status = bt_read(my->array, value, sizeof value);
    atomic_store(&my->done, true);
    return NULL;
}

/* Another thread's graph does not wait, one that overlaps does, until the claim ends without a result. */
static void a_claim_holds_up_only_what_it_is_for(void **state) {
    (void)state;
    begin("");
    BT_SCOPE {
        bt_array *shared = bt_add(bt_ones(BT_F32, 4), bt_ones(BT_F32, 4));
        bt_array *mine = bt_mul(shared, shared), *others = bt_add(shared, bt_ones(BT_F32, 4)),
                 *apart = bt_sub(bt_ones(BT_F32, 4), bt_num(3));
        bti_node *wanted = bti_node_of(mine);
        bti_order order;
        assert_int_equal(bti_claim(&wanted, 1, &order), BT_OK);
        assert_true(bti_is_claimed(bti_node_of(shared), &order));
        waiter free_one = {.array = apart}, held_up = {.array = others};
        pthread_t thread;
        assert_int_equal(pthread_create(&thread, NULL, read_claimed, &free_one), 0);
        pthread_join(thread, NULL);
        assert_int_equal(free_one.status, BT_OK);
        assert_int_equal(pthread_create(&thread, NULL, read_claimed, &held_up), 0);
        struct timespec rest = {0, 50000000};
        nanosleep(&rest, NULL);
        assert_false(atomic_load(&held_up.done));
        bti_claim_end(&order);
        pthread_join(thread, NULL);
        assert_int_equal(held_up.status, BT_OK);
        assert_int_equal(atomic_load(&wanted->state), BTI_PENDING);
    }
}

/* A constant that somebody else has claimed is made where it is read. */
static void a_claimed_constant_holds_up_nobody(void **state) {
    (void)state;
    begin("");
    BT_SCOPE {
        bt_array *number = bt_f32(2), *mine = bt_mul(bt_ones(BT_F32, 4), number),
                 *others = bt_add(bt_ones(BT_F32, 4), number);
        bti_node *wanted[] = {bti_node_of(mine)};
        assert_int_equal(bti_node_of(number)->op, BTI_OP_const);
        bti_order order, beside;
        assert_int_equal(bti_claim(wanted, 1, &order), BT_OK);
        assert_true(bti_is_claimed(bti_node_of(number), &order));
        wanted[0] = bti_node_of(others);
        assert_int_equal(bti_claim(wanted, 1, &beside), BT_OK);
        assert_int_equal(beside.others.count, 1);
        bti_claim_end(&beside);
        float value[4];
        assert_int_equal(bt_read(others, value, sizeof value), BT_OK);
        assert_float_equal(value[3], 3, 0);
        bti_claim_end(&order);
        assert_int_equal(bt_read(mine, value, sizeof value), BT_OK);
        assert_float_equal(value[3], 2, 0);
    }
}

/* --- what others do while a plan is made -------------------------------------------------------------------------------- */

enum { VIEWS = 40, LONG = 600 };

typedef struct meanwhile {
    bt_array *constant;
    pthread_barrier_t start;
} meanwhile;

static bt_array *add_often(double value, int count) {
    bt_array *x = bt_arange(0, 8, 1, BT_F32), *one = bt_full(value, BT_F32, 8);
    for (int i = 0; i < count; i++) x = bt_add(x, one);
    return x;
}

static void *compute_constant(void *data) {
    meanwhile *m = data;
    for (int r = 0; r < 40; r++) {
        BT_SCOPE {
            bt_array *both[] = {m->constant, add_often(2, r * LONG / 40)};
            pthread_barrier_wait(&m->start);
            if (bt_eval_all(both, 2) != BT_OK) fprintf(stderr, "%s\n", bt_error_text());
        }
        pthread_barrier_wait(&m->start); /* the next one is there */
        pthread_barrier_wait(&m->start);
    }
    return NULL;
}

/* A plan that reads a constant through movements, while the thread that has claimed the constant computes it. */
static void read_constant(meanwhile *m) {
    BT_SCOPE {
        bt_array *all[VIEWS + 1];
        for (int i = 0; i < VIEWS; i++) {
            bt_array *view = bt_broadcast_shape(m->constant, BT_SHAPE(8, i + 1));
            all[i] = bt_mul(view, view);
        }
        all[VIEWS] = add_often(1, LONG);
        pthread_barrier_wait(&m->start);
        assert_int_equal(bt_eval_all(all, VIEWS + 1), BT_OK);
        for (int i = 0; i < VIEWS; i++) assert_true(bt_item(bt_max(all[i], BT_ALL, false)) == 9);
    }
}

static bt_array *new_constant(void) {
    bt_array *constant = NULL;
    BT_SCOPE {
        constant = bt_retain(bt_full_shape(3, BT_F32, BT_SHAPE()));
    }
    return constant;
}

static void a_constant_is_computed_meanwhile(void **state) {
    (void)state;
    begin("");
    pthread_t thread;
    meanwhile m = {.constant = new_constant()};
    pthread_barrier_init(&m.start, NULL, 2);
    assert_int_equal(pthread_create(&thread, NULL, compute_constant, &m), 0);
    for (int r = 0; r < 40; r++) {
        read_constant(&m);
        pthread_barrier_wait(&m.start);
        bt_release(m.constant);
        m.constant = new_constant();
        pthread_barrier_wait(&m.start);
    }
    pthread_join(thread, NULL);
    bt_release(m.constant);
    pthread_barrier_destroy(&m.start);
}

static int handled;
static void read_in_handler(bt_status status, const char *message, void *data) {
    (void)status, (void)message;
    handled++;
    float values[4];
    assert_int_equal(bt_read(data, values, sizeof values), BT_OK);
    assert_true(values[3] == 6);
}

/* What it reads was claimed by the evaluation that failed. */
static void an_error_handler_evaluates(void **state) {
    (void)state;
    begin("strict=on");
    BT_SCOPE {
        bt_array *x = bt_arange(0, 4, 1, BT_F32), *twice = bt_add(x, x);
        bt_set_error_handler(read_in_handler, twice);
        handled = 0;
        float values[4];
        assert_int_equal(bt_read(bt_add(twice, bt_input(BT_F32, 4)), values, sizeof values), BT_FAILED_PRECONDITION);
        assert_true(handled > 0);
        bt_set_error_handler(NULL, NULL);
    }
}

typedef struct cancelled {
    bt_function *add; /* adds its argument to a variable */
    bt_array *shared;
} cancelled;

static void *call_and_flush(void *data) {
    const cancelled *c = data;
    for (bool goes_on = true; goes_on;) {
        pthread_testcancel();
        BT_SCOPE {
            bt_array *one = bt_full(1, BT_F32, 50), *sum, *x = one;
            if (bt_call(c->add, &one, 1, &sum, 1) != BT_OK) fprintf(stderr, "%s\n", bt_error_text());
            for (int i = 0; i < 30; i++) x = bt_add(x, i % 10 ? x : c->shared);
        }
    }
    return NULL;
}

/* Locks, marks of variables and claims. */
static void cancelled_threads_leave_nothing_taken(void **state) {
    (void)state;
    begin("devices=sim:gpu*1,flush_nodes=6");
    uint64_t seed = 1;
    BT_SCOPE {
        bt_shared *variable = bt_shared_new(bt_full(0, BT_F32, 50), NULL);
        bt_array *input = bt_input(BT_F32, 50);
        bt_update update = {variable, bt_add(bt_value(variable), input)};
        cancelled c = {.add = bt_function_new(&input, 1, &update.value, 1, &update, 1)};
        for (int r = 0; r < 10; r++) {
            bt_array *x = bt_arange(0, 50, 1, BT_F32);
            c.shared = bt_mul(bt_add(x, x), x);
            pthread_t threads[4];
            for (int i = 0; i < 4; i++) assert_int_equal(pthread_create(&threads[i], NULL, call_and_flush, &c), 0);
            nanosleep(&(struct timespec){.tv_nsec = (long)(draw(&seed) % 3000000)}, NULL);
            for (int i = 0; i < 4; i++) pthread_cancel(threads[i]);
            for (int i = 0; i < 4; i++) pthread_join(threads[i], NULL);
            bt_array *one = bt_full(1, BT_F32, 50), *sum;
            assert_int_equal(bt_call(c.add, &one, 1, &sum, 1), BT_OK);
            assert_int_equal(bt_block(sum), BT_OK);
            assert_int_equal(bt_block(c.shared), BT_OK);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_claim_holds_up_only_what_it_is_for),
        cmocka_unit_test(a_claimed_constant_holds_up_nobody),
        cmocka_unit_test(a_constant_is_computed_meanwhile),
        cmocka_unit_test(an_error_handler_evaluates),
        cmocka_unit_test(cancelled_threads_leave_nothing_taken),
        cmocka_unit_test(threads_share_a_graph),
        cmocka_unit_test(threads_share_a_graph_of_two_devices),
        cmocka_unit_test(what_fails_for_want_of_memory_is_asked_for_again),
    };
    return cmocka_run_group_tests_name("claim", tests, NULL, finish);
}
