// labels: valgrind threads
/* Examples that functions of the program's make, alone and by workers: padding, failures, nonsense, bounds, loaders that end early. */
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/support.h"

/* --- ragged columns ------------------------------------------------------------------------------------------------------- */

/* "text" [2, i % 4] of u16, all elements i; "n" [i % 3] of f32, all 0.5; "y" i. */
static bt_status make_ragged(bt_example *example, void *data) {
    int64_t i = example->index;
    assert_null(example->data[0]);
    assert_int_equal(example->columns, 3);
    uint16_t *text = bt_example_resize(example, 0, 100); /* a size may be set again */
    text = bt_example_resize(example, 0, i % 4);
    float *n = bt_example_resize(example, 1, i % 3);
    if (!text || !n) return bt_error_status();
    assert_ptr_equal(example->data[1], n);
    assert_int_equal(example->shape[0].size[1], i % 4);
    for (int64_t k = 0; k < 2 * (i % 4); k++) text[k] = (uint16_t)i;
    for (int64_t k = 0; k < i % 3; k++) n[k] = 0.5f;
    *(int64_t *)example->data[2] = i;
    return BT_OK;
}

static const bt_column *ragged_columns(void) {
    static bt_column columns[3];
    columns[0] = BT_COLUMN("text", BT_U16, 2, BT_RAGGED);
    columns[1] = BT_COLUMN("n", BT_F32, BT_RAGGED);
    columns[2] = BT_COLUMN("y", BT_I64, );
    columns[0].pad = 7;
    columns[1].pad = -1;
    return columns;
}

static bt_status count_elements(const bt_example *from, bt_example *made, void *data) {
    *(int32_t *)made->data[0] = (int32_t)(from->shape[0].size[1] + 10 * from->shape[1].size[0]);
    return BT_OK;
}

static void padding(void **state) {
    fresh("devices=sim:gpu*1,default_device=cpu");
    for (int workers = 0; workers < 4; workers += 3)
        BT_SCOPE {
            bt_dataset *data = bt_dataset_callback(6, ragged_columns(), 3, make_ragged, NULL);
            bt_loader *loader = bt_loader_new(data, .batch = 3, .workers = workers, .device = workers ? "gpu" : NULL);
            bt_batch batch = BT_BATCH_INIT;
            assert_true(bt_loader_next(loader, &batch));
            READS(batch.arrays[0], 7, 7, 7, 7, 1, 7, 1, 7, 2, 2, 2, 2);
            READS(batch.arrays[1], -1, -1, 0.5, -1, 0.5, 0.5);
            READS(batch.sizes[0], 0, 1, 2);
            READS(batch.sizes[1], 0, 1, 2);
            assert_null(batch.sizes[2]);
            assert_int_equal(bt_dtype_of(batch.sizes[0]), BT_I32);
            assert_string_equal(bt_device_name(bt_device_of(batch.sizes[0])), workers ? "GPU:0" : "CPU:0");
            assert_true(bt_loader_next(loader, &batch));
            READS(batch.sizes[0], 3, 0, 1);
            READS(batch.arrays[2], 3, 4, 5);
            bt_column count = BT_COLUMN("count", BT_I32, );
            loader = bt_loader_new(bt_dataset_map(data, &count, 1, count_elements, NULL), .workers = workers);
            assert_true(bt_loader_next(loader, &batch));
            READS(batch.arrays[0], 0, 11, 22, 3, 10, 21);
            loader = bt_loader_new(data, .batch = 1);
            assert_true(bt_loader_next(loader, &batch)); /* the longest is 0 */
            assert_int_equal(bt_count(batch.arrays[0]), 0);
        }
    OK(bt_shutdown());
}

/* --- failures ------------------------------------------------------------------------------------------------------------- */

enum { FAILING = 37 };
typedef enum failure {
    NOTHING,
    SAID,
    UNSAID,
    OF_A_CALL,
    NO_STATUS,
    SAID_OK,
    UNSIZED,
    NEGATIVE,
    HUGE_SIZE,
    NOT_RAGGED,
    NO_COLUMN,
    OTHER_EXAMPLE
} failure;

static bt_status misbehave(bt_example *example, failure how) {
    bt_example other = *example;
    switch (how) {
    case SAID: return bt_example_fail(example, BT_NOT_FOUND, "no file %d.png", 37);
    case UNSAID: return BT_ABORTED;
    case OF_A_CALL: return bt_block(bt_log(NULL));
    case NO_STATUS: return (bt_status)4711;
    case SAID_OK: return bt_example_fail(example, BT_OK, NULL);
    case NEGATIVE: return bt_example_resize(example, 0, -3) ? BT_OK : bt_error_status();
    case HUGE_SIZE: return bt_example_resize(example, 0, INT64_MAX / 2) ? BT_OK : bt_error_status();
    case NOT_RAGGED: return bt_example_resize(example, 1, 3) ? BT_OK : bt_error_status();
    case NO_COLUMN: return bt_example_resize(example, -1, 3) ? BT_OK : bt_error_status();
    case OTHER_EXAMPLE: return bt_example_resize(&other, 0, 3) ? BT_OK : bt_error_status();
    default: return BT_OK;
    }
}

static bt_status make_failing(bt_example *example, void *data) {
    *(int32_t *)example->data[1] = (int32_t)example->index;
    if (example->index == FAILING && *(failure *)data != NOTHING) return misbehave(example, *(failure *)data);
    float *x = bt_example_resize(example, 0, 2);
    if (!x) return bt_error_status();
    x[0] = x[1] = 0;
    return BT_OK;
}

static void failures_name_the_example(void **state) {
    static const struct {
        failure how;
        bt_status status;
        const char *text;
    } cases[] = {{SAID, BT_NOT_FOUND, "NOT_FOUND: no file 37.png"},
                 {UNSAID, BT_ABORTED, "fails with ABORTED"},
                 {OF_A_CALL, BT_INVALID_ARGUMENT, "bt_log: "},
                 {NO_STATUS, BT_UNKNOWN, "returns 4711, which is no status"},
                 {SAID_OK, BT_UNKNOWN, "fails with UNKNOWN"},
                 {UNSIZED, BT_INVALID_ARGUMENT, "gave the ragged column \"text\" no size"},
                 {NEGATIVE, BT_INVALID_ARGUMENT, "the size is -3"},
                 {HUGE_SIZE, BT_RESOURCE_EXHAUSTED, "of size 4611686018427387903"},
                 {NOT_RAGGED, BT_INVALID_ARGUMENT, "column 1 (size 3) is not a ragged one"},
                 {NO_COLUMN, BT_INVALID_ARGUMENT, "column -1"},
                 {OTHER_EXAMPLE, BT_INVALID_ARGUMENT, "not the example that the calling function makes"}};
    fresh("");
    bt_column columns[] = {BT_COLUMN("text", BT_I64, BT_RAGGED), BT_COLUMN("y", BT_I32, )};
    for (int c = 0; c < COUNT(cases); c++)
        for (int workers = 0; workers < 4; workers += 3)
            BT_SCOPE {
                failure how = cases[c].how;
                bt_dataset *data = bt_dataset_callback(100, columns, 2, make_failing, &how);
                bt_loader *loader = bt_loader_new(data, .batch = 10, .workers = workers);
                bt_batch batch = BT_BATCH_INIT;
                for (int i = 0; i < 3; i++) { /* the batches before it come */
                    assert_true(bt_loader_next(loader, &batch));
                    assert_true(bt_item(bt_min(batch.arrays[1])) == 10 * i);
                }
                assert_false(bt_loader_next(loader, &batch));
                FAILS(bt_loader_status(loader), cases[c].status, "example 37: its function ", cases[c].text);
                SAYS(bt_error_text(), "loader_workers_test.c:");
                assert_false(bt_loader_next(loader, &batch)); /* it stays */
                FAILS(bt_error_status(), cases[c].status, "example 37");
                how = NOTHING;
                OK(bt_loader_start(loader, 0));
                int count = 0;
                while (bt_loader_next(loader, &batch)) count++;
                assert_int_equal(count, 10);
                OK(bt_loader_status(loader));
            }
    bt_error_clear();
    assert_null(bt_example_resize(NULL, 0, 1));
    FAILS(bt_error_status(), BT_INVALID_ARGUMENT, HERE(-1));
    OK(bt_shutdown());
}

static void failures_end_training(void **state) {
    fresh("");
    BT_SCOPE {
        failure how = SAID;
        bt_column columns[] = {BT_COLUMN("x", BT_F32, BT_RAGGED), BT_COLUMN("y", BT_I32, )};
        bt_loader *loader =
            bt_loader_new(bt_dataset_callback(100, columns, 2, make_failing, &how), .batch = 2, .workers = 1);
        bt_layer *model = bt_dense(2, 100, NULL, bt_key(0));
        bt_fit_report report;
        FAILS(bt_fit_loader(model, bt_sgd(0.1), loader, BT_FIT_OPTIONS(.quiet = true), &report), BT_NOT_FOUND,
              "example 37", "no file 37.png");
        assert_int_equal(report.steps, 18);
    }
    OK(bt_shutdown());
}

/* --- bounds, order, threads ------------------------------------------------------------------------------------------------ */

static atomic_int begun, running, most_running;
static atomic_bool may_end;

static bt_status make_counted(bt_example *example, void *data) {
    int now = atomic_fetch_add(&running, 1) + 1;
    for (int most = atomic_load(&most_running);
         most < now && !atomic_compare_exchange_weak(&most_running, &most, now);) {
    }
    atomic_fetch_add(&begun, 1);
    if (data && example->index % 3 == 0) sleep_ms(3); /* later ones are ready before */
    memset(example->data[0], 1, 1000);
    *(uint16_t *)example->data[0] = (uint16_t)example->index;
    atomic_fetch_sub(&running, 1);
    return BT_OK;
}

static void bytes_ahead_are_bounded(void **state) {
    fresh("");
    bt_column column = BT_COLUMN("x", BT_U8, 1000);
    for (int i = 0; i < 2; i++)
        BT_SCOPE {
            atomic_store(&begun, 0);
            bt_dataset *data = bt_dataset_callback(200, &column, 1, make_counted, NULL);
            bt_loader *loader = bt_loader_new(data, .batch = 1, .workers = 3, .ahead_bytes = i ? 1 : 5500);
            bt_batch batch = BT_BATCH_INIT;
            for (int taken = 1; taken <= 10; taken++) {
                assert_true(bt_loader_next(loader, &batch));
                sleep_ms(5);
                assert_in_range(atomic_load(&begun), taken, taken + (i ? 1 : 5));
            }
            if (!i) assert_int_equal(atomic_load(&begun), 15); /* 5 of 1000 bytes fit into 5500 */
        }
    OK(bt_shutdown());
}

static void order_does_not_depend_on_who_is_ready(void **state) {
    fresh("");
    BT_SCOPE {
        bt_column column = BT_COLUMN("x", BT_U8, 1000);
        atomic_store(&most_running, 0);
        bt_dataset *data = bt_dataset_callback(60, &column, 1, make_counted, &begun);
        bt_loader *loader = bt_loader_new(data, .batch = 1, .workers = 4);
        bt_batch batch = BT_BATCH_INIT;
        for (int i = 0; i < 60; i++) {
            uint8_t x[1000];
            assert_true(bt_loader_next(loader, &batch));
            OK(bt_read(batch.arrays[0], x, sizeof x));
            assert_int_equal(x[0], i);
        }
        assert_false(bt_loader_next(loader, &batch));
        assert_in_range(atomic_load(&most_running), 2, 4);
    }
    OK(bt_shutdown());
}

static bt_status make_slowly(bt_example *example, void *data) {
    atomic_fetch_add(&begun, 1);
    while (!atomic_load(&may_end)) sleep_ms(1);
    *(int32_t *)example->data[0] = 1;
    return BT_OK;
}
static void *let_end(void *unused) {
    sleep_ms(20);
    atomic_store(&may_end, true);
    return NULL;
}

/* The last release waits for functions that run, and for nothing else. */
static void a_loader_ends_while_it_makes(void **state) {
    fresh("");
    bt_column column = BT_COLUMN("x", BT_I32, );
    for (int i = 0; i < 5; i++)
        BT_SCOPE {
            pthread_t helper;
            atomic_store(&may_end, false);
            atomic_store(&begun, 0);
            bt_dataset *data = bt_dataset_callback(1000, &column, 1, make_slowly, NULL);
            bt_loader *loader = bt_loader_new(data, .batch = 1, .workers = 2);
            bt_batch batch = BT_BATCH_INIT;
            if (i % 2) {
                assert_int_equal(pthread_create(&helper, NULL, let_end, NULL), 0);
                assert_true(bt_loader_next(loader, &batch));
                pthread_join(helper, NULL);
            }
        }
    OK(bt_shutdown());
}

static void five_hundred_loaders(void **state) {
    fresh("");
    bt_column column = BT_COLUMN("x", BT_U8, 1000);
    for (int i = 0; i < 500; i++)
        BT_SCOPE {
            bt_dataset *data = bt_dataset_callback(20, &column, 1, make_counted, NULL);
            bt_loader *loader = bt_loader_new(data, .batch = 3, .workers = 1 + i % 3, .shuffle = bt_key(i));
            bt_batch batch = BT_BATCH_INIT;
            for (int k = 0; k < i % 10; k++) (void)bt_loader_next(loader, &batch); /* all, some or no batches */
            if (i % 4 == 0) OK(bt_loader_start(loader, 3));
        }
    assert_int_equal(bt_live_arrays(), 0);
    OK(bt_shutdown());
}

/* --- misuse by functions of the program's ---------------------------------------------------------------------------------- */

static _Atomic(bt_loader *) own_loader;
static bool releases;

static bt_status make_with_its_loader(bt_example *example, void *data) {
    bt_batch batch = BT_BATCH_INIT;
    bt_loader *loader;
    while (!(loader = atomic_load(&own_loader))) sleep_ms(1);
    *(int32_t *)example->data[0] = 5;
    if (releases) {
        while (example->index == 3 && !atomic_load(&may_end)) sleep_ms(1);
        if (example->index == 3) bt_loader_release(loader);
        return BT_OK;
    }
    return bt_loader_next(loader, &batch) ? BT_OK : bt_error_status();
}

static void a_function_asks_its_own_loader(void **state) {
    fresh("");
    bt_column column = BT_COLUMN("x", BT_I32, );
    for (int workers = 0; workers < 2; workers++)
        BT_SCOPE {
            releases = false;
            atomic_store(&own_loader, NULL);
            bt_dataset *data = bt_dataset_callback(8, &column, 1, make_with_its_loader, NULL);
            bt_loader *loader = bt_loader_new(data, .batch = 2, .workers = workers);
            bt_batch batch = BT_BATCH_INIT;
            atomic_store(&own_loader, loader);
            assert_false(bt_loader_next(loader, &batch));
            FAILS(bt_loader_status(loader), BT_FAILED_PRECONDITION, "example 0",
                  workers ? "cannot ask it for batches" : "serves one at a time");
        }
    OK(bt_shutdown());
}

static void a_function_releases_its_own_loader(void **state) {
    fresh("");
    bt_column column = BT_COLUMN("x", BT_I32, );
    releases = true;
    atomic_store(&own_loader, NULL);
    BT_SCOPE {
        bt_dataset *data = bt_dataset_callback(8, &column, 1, make_with_its_loader, NULL);
        bt_loader *loader = bt_loader_retain(bt_loader_new(data, .batch = 1, .workers = 2));
        bt_batch batch = BT_BATCH_INIT;
        atomic_store(&may_end, false);
        atomic_store(&own_loader, loader);
        assert_true(bt_loader_next(loader, &batch));
    }
    atomic_store(&may_end, true); /* the release of the scope came first: that of the worker is the last */
    sleep_ms(100);
    for (int i = 0; i < 500 && bt_shutdown() != BT_OK; i++) sleep_ms(10);
    OK(bt_shutdown());
}

/* --- processes and signals --------------------------------------------------------------------------------------------------- */

static void a_forked_child(void **state) {
    fresh("");
    BT_SCOPE {
        bt_column column = BT_COLUMN("x", BT_U8, 1000);
        bt_dataset *data = bt_dataset_callback(50, &column, 1, make_counted, NULL);
        bt_loader *loader = bt_loader_new(data, .batch = 1, .workers = 2);
        bt_batch batch = BT_BATCH_INIT;
        assert_true(bt_loader_next(loader, &batch));
        pid_t child = fork();
        if (!child) {
            bool refused = !bt_loader_next(loader, &batch) && bt_error_status() == BT_FAILED_PRECONDITION &&
                           strstr(bt_error_text(), "forked");
            bt_loader_release(loader);
            execl("/bin/sh", "sh", "-c", refused ? "exit 0" : "exit 1",
                  NULL); /* memcheck would count what the workers had */
            _exit(2);
        }
        int ended;
        assert_int_equal(waitpid(child, &ended, 0), child);
        assert_true(WIFEXITED(ended) && WEXITSTATUS(ended) == 0);
        assert_true(bt_loader_next(loader, &batch));
    }
    OK(bt_shutdown());
}

static pthread_t main_thread;
static atomic_int signals_elsewhere;
static void note_signal(int number) {
    if (!pthread_equal(pthread_self(), main_thread)) atomic_fetch_add(&signals_elsewhere, 1);
}

static void signals_come_to_the_program(void **state) {
    fresh("");
    main_thread = pthread_self();
    signal(SIGUSR1, note_signal);
    BT_SCOPE {
        bt_column column = BT_COLUMN("x", BT_U8, 1000);
        bt_dataset *data = bt_dataset_callback(100, &column, 1, make_counted, NULL);
        bt_loader *loader = bt_loader_new(data, .batch = 1, .workers = 3);
        bt_batch batch = BT_BATCH_INIT;
        while (bt_loader_next(loader, &batch)) kill(getpid(), SIGUSR1);
        OK(bt_loader_status(loader));
    }
    assert_int_equal(atomic_load(&signals_elsewhere), 0);
    OK(bt_shutdown());
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(padding),
        cmocka_unit_test(failures_name_the_example),
        cmocka_unit_test(failures_end_training),
        cmocka_unit_test(bytes_ahead_are_bounded),
        cmocka_unit_test(order_does_not_depend_on_who_is_ready),
        cmocka_unit_test(a_loader_ends_while_it_makes),
        cmocka_unit_test(five_hundred_loaders),
        cmocka_unit_test(a_function_asks_its_own_loader),
        cmocka_unit_test(a_function_releases_its_own_loader),
        cmocka_unit_test(a_forked_child),
        cmocka_unit_test(signals_come_to_the_program),
    };
    return cmocka_run_group_tests(tests, NULL, fresh_end);
}
