// labels: threads
// timeout: 120
/* A graph that several threads record, one after another: what is made of it does not depend on which of them had recorded anything before. */
#include <pthread.h>
#include <semaphore.h>

#include "support/support.h"

/* --- another thread, which takes turns with this one ------------------------------------------------------------------------ */

typedef void turn_fn(void);
static sem_t begun, go, done;
static bool had_recorded; /* before its turn */
static turn_fn *turn;

static void *other_thread(void *unused) {
    (void)unused;
    if (had_recorded) (void)bt_ones(BT_F32, 2);
    sem_post(&begun);
    sem_wait(&go);
    turn();
    sem_post(&done);
    sem_wait(&go); /* its scopes are alive until the graph was used */
    return NULL;
}

static pthread_t begin_other(bool recorded, turn_fn *its_turn) {
    pthread_t thread;
    had_recorded = recorded;
    turn = its_turn;
    sem_init(&begun, 0, 0);
    sem_init(&go, 0, 0);
    sem_init(&done, 0, 0);
    assert_int_equal(pthread_create(&thread, NULL, other_thread, NULL), 0);
    sem_wait(&begun);
    return thread;
}
static void let_other(void) {
    sem_post(&go);
    sem_wait(&done);
}
static void end_other(pthread_t thread) {
    sem_post(&go);
    pthread_join(thread, NULL);
}

/* Enough to need numbers that the other thread's block lies before. */
static void record_much(void) {
    bt_array *x = bt_ones(BT_F32, 1);
    for (int i = 0; i < 1100; i++) x = bt_neg(x);
}

/* --- gradients of loops and branches -------------------------------------------------------------------------------------------- */

static bt_array *weight, *loss;
static float gradient;

static bt_array *layer(bt_array *x) { return bt_neg(bt_neg(bt_mul(bt_tanh(x), weight))); }
static void step(bt_array **carry, bt_array *const *x, bt_array **y, void *data) {
    (void)x, (void)y, (void)data;
    carry[0] = layer(carry[0]);
}
static void loop_step(bt_array **carry, void *data) {
    (void)data;
    carry[0] = layer(carry[0]);
}
static bt_array *goes_on(bt_array *const *carry, void *data) {
    (void)data;
    return bt_lt(bt_sum(carry[0], BT_ALL, false), bt_num(100));
}
static void way(bt_array *const *args, bt_array **results, void *data) {
    (void)data;
    results[0] = layer(args[0]);
}

static bt_array *record_scan(void) {
    bt_array *x = bt_ones(BT_F32, 3);
    OK(bt_scan(step, NULL, 4, &x, 1, NULL, 0, NULL, 0));
    return x;
}
static bt_array *record_while(void) {
    bt_array *x = bt_ones(BT_F32, 3);
    OK(bt_while(goes_on, loop_step, NULL, 4, &x, 1));
    return x;
}
static bt_array *record_cond(void) {
    bt_array *x = bt_ones(BT_F32, 3), *y;
    OK(bt_cond(bt_lt(bt_sum(x, BT_ALL, false), bt_num(100)), way, way, NULL, &x, 1, &y, 1));
    return y;
}

static void differentiate(void) {
    bt_array *g;
    gradient = 0;
    if (bt_grad(loss, &weight, 1, &g) == BT_OK) (void)bt_read(g, &gradient, sizeof gradient);
}

static void gradients_by_another_thread(void **state) {
    (void)state;
    static bt_array *(*const records[])(void) = {record_scan, record_while, record_cond};
    fresh("");
    for (int r = 0; r < COUNT(records); r++)
        for (int recorded = 0; recorded < 2; recorded++)
            BT_SCOPE {
                pthread_t thread = begin_other(recorded, differentiate);
                weight = bt_full(0.5, BT_F32);
                loss = bt_sum(records[r](), BT_ALL, false);
                let_other();
                float others = gradient;
                differentiate();
                if (others != gradient || gradient == 0)
                    fail_msg("%d, recorded %d: %g and %g: %s", r, recorded, (double)others, (double)gradient,
                             bt_error_text());
                end_other(thread);
            }
}

/* --- order ------------------------------------------------------------------------------------------------------------------------ */

static bt_array *parts[4];
static char told[64];

static void tell(const bt_elements *elements, void *word) {
    (void)elements;
    strcat(told, word);
}
static void record_second(void) {
    parts[2] = bt_mul(weight, bt_num(3e7));
    parts[3] = bt_debug_callback(tell, "second ", bt_mul(weight, bt_num(0.7)));
}

/* The parts of a gradient are added, and callbacks called, in the order of recording. */
static void order_of_recording(void **state) {
    (void)state;
    fresh("");
    float bits[2];
    for (int recorded = 0; recorded < 2; recorded++)
        BT_SCOPE {
            told[0] = 0;
            weight = bt_full(1, BT_F32);
            pthread_t thread = begin_other(recorded, record_second);
            record_much();
            parts[0] = bt_debug_callback(tell, "first ", bt_mul(weight, bt_num(1.3)));
            parts[1] = bt_mul(weight, bt_num(-3e7));
            let_other();
            bt_array *g;
            loss = bt_add(bt_add(bt_add(parts[0], parts[1]), parts[2]), parts[3]);
            OK(bt_block(loss));
            bt_synchronize();
            if (strcmp(told, "first second ")) fail_msg("told: %s", told);
            OK(bt_grad(loss, &weight, 1, &g));
            OK(bt_read(g, &bits[recorded], sizeof *bits));
            end_other(thread);
        }
    assert_memory_equal(&bits[0], &bits[1], sizeof *bits);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gradients_by_another_thread),
        cmocka_unit_test(order_of_recording),
    };
    return cmocka_run_group_tests_name("thread_orders", tests, NULL, fresh_end);
}
