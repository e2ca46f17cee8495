// labels: threads
/* The programs of a device: each is made once, by one thread and without a lock, and whoever wants it meanwhile waits for it alone. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/error.h"
#include "device/program.h"

enum { THREADS = 8 };

static atomic_int loads, frees, failures_left;
static pthread_barrier_t *meeting; /* of threads that load at the same time; NULL: none is wanted */

static bt_status load(void *device, const bti_program_source *source, void **program) {
    (void)device, (void)source;
    atomic_fetch_add(&loads, 1);
    if (meeting) pthread_barrier_wait(meeting);
    struct timespec rest = {0, 2000000};
    nanosleep(&rest, NULL);
    if (atomic_fetch_sub(&failures_left, 1) > 0) return bti_fail(BT_RESOURCE_EXHAUSTED, "it is to fail");
    *program = &loads;
    return BT_OK;
}

static void unload(void *device, const bti_program_source *source, void *program) {
    (void)device, (void)source, (void)program;
    atomic_fetch_add(&frees, 1);
}

static const bti_driver driver = {.name = "counting", .program_load = load, .program_free = unload};
static bt_device device = {.driver = &driver};

static int begin(void **state) {
    (void)state;
    atomic_store(&loads, 0);
    atomic_store(&frees, 0);
    atomic_store(&failures_left, 0);
    meeting = NULL;
    device.programs = bti_programs_new();
    return device.programs ? 0 : 1;
}

static int end(void **state) {
    (void)state;
    if (device.programs) bti_programs_delete(&device);
    return 0;
}

typedef struct asker {
    bti_program_source source;
    bti_program *program;
    bt_status status, of_texts;
} asker;

static void *ask(void *argument) {
    asker *my = argument;
    bool made;
    my->status = bti_programs_get(&device, &my->source, &my->program, &made);
    if (my->status == BT_OK && !made) bti_program_made(my->program, my->of_texts);
    return NULL;
}

static void together(asker *askers, int count) {
    pthread_t threads[THREADS];
    for (int i = 0; i < count; i++) assert_int_equal(pthread_create(&threads[i], NULL, ask, &askers[i]), 0);
    for (int i = 0; i < count; i++) pthread_join(threads[i], NULL);
}

static bti_program_source source_of(bti_op op) { return (bti_program_source){.op = op, .dtype_count = 1}; }

static void one_thread_makes_what_all_want(void **state) {
    (void)state;
    asker askers[THREADS];
    for (int i = 0; i < THREADS; i++) askers[i] = (asker){.source = source_of(BTI_OP_add)};
    together(askers, THREADS);
    assert_int_equal(atomic_load(&loads), 1);
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(askers[i].status, BT_OK);
        assert_ptr_equal(askers[i].program, askers[0].program);
    }
    for (int i = 0; i < THREADS; i++) bti_program_release(askers[i].program);
}

/* Each waits in its load for the other's: under a lock neither would come. */
static void different_ones_are_made_at_the_same_time(void **state) {
    (void)state;
    pthread_barrier_t two;
    pthread_barrier_init(&two, NULL, 2);
    meeting = &two;
    asker askers[] = {{.source = source_of(BTI_OP_add)}, {.source = source_of(BTI_OP_mul)}};
    together(askers, 2);
    for (int i = 0; i < 2; i++) assert_int_equal(askers[i].status, BT_OK);
    assert_ptr_not_equal(askers[0].program, askers[1].program);
    for (int i = 0; i < 2; i++) bti_program_release(askers[i].program);
    pthread_barrier_destroy(&two);
}

/* Who waited tries it again, and gets the status of his own attempt. */
static void a_failure_is_told_to_the_thread_that_made_it(void **state) {
    (void)state;
    atomic_store(&failures_left, 3);
    asker askers[THREADS];
    for (int i = 0; i < THREADS; i++) askers[i] = (asker){.source = source_of(BTI_OP_add)};
    together(askers, THREADS);
    int failed = 0;
    for (int i = 0; i < THREADS; i++) {
        failed += askers[i].status == BT_RESOURCE_EXHAUSTED;
        assert_true((askers[i].status == BT_OK) == (askers[i].program != NULL));
    }
    assert_int_equal(failed, 3);
    assert_int_equal(atomic_load(&loads), 4);
    for (int i = 0; i < THREADS; i++) bti_program_release(askers[i].program);
}

static void one_whose_texts_failed_is_made_again(void **state) {
    (void)state;
    asker first = {.source = source_of(BTI_OP_add), .of_texts = BT_INTERNAL}, second = {.source = first.source};
    together(&first, 1);
    bti_program_release(first.program);
    assert_int_equal(atomic_load(&frees), 1);
    together(&second, 1);
    assert_int_equal(atomic_load(&loads), 2);
    bti_program_release(second.program);
    assert_int_equal(atomic_load(&frees), 1); /* it is kept */
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(one_thread_makes_what_all_want, begin, end),
        cmocka_unit_test_setup_teardown(different_ones_are_made_at_the_same_time, begin, end),
        cmocka_unit_test_setup_teardown(a_failure_is_told_to_the_thread_that_made_it, begin, end),
        cmocka_unit_test_setup_teardown(one_whose_texts_failed_is_made_again, begin, end),
    };
    return cmocka_run_group_tests_name("programs", tests, NULL, NULL);
}
