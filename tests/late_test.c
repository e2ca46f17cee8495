// labels: threads
// timeout: 120
/* Devices that do not complete their work (flag device_seconds), on simulated devices with and without a clock: what fails and how, what goes on, which memory is kept, and what
 * happens when the work is completed after all. */
#include <pthread.h>

#include "support/support.h"

static const char *const devices[] = {"devices=sim:gpu*3@64M", "devices=sim:h200*3"};
static const char *shown[] = {"within 0.05 s of wall time", "within 0.05 s of its time"};
#define EACH_DEVICE(d) for (int d = 0; d < COUNT(devices); d++)

static void begin(int d) {
    fresh(devices[d]);
    OK(bt_set_flag("device_seconds", "0.05"));
}

static void hang(const char *which) { OK(bt_set_flag("sim_fault", which)); }

/* The work is completed after all. */
static void come(void) {
    OK(bt_set_flag("sim_fault", ""));
    bt_synchronize();
}

static bt_array *twice(const char *where, int count) {
    bt_array *sum = NULL;
    BT_ON(where) {
        bt_array *x = bt_arange(0, count, 1, BT_F32);
        sum = bt_add(x, x);
    }
    return sum;
}

static void the_error_names_the_device_and_the_operation(void **state) {
    EACH_DEVICE(d) {
        begin(d);
        BT_SCOPE {
            bt_array *x = NULL, *y = NULL;
            BT_ON("gpu:1") x = bt_arange(0, 4, 1, BT_F32);
            OK(bt_block(x));
            hang("gpu1/hang:1");
            const char *here = HERE(1);
            BT_ON("gpu:1") y = bt_mul(x, x);
            FAILS(bt_block(y), BT_DEADLINE_EXCEEDED, here, "bt_mul: GPU:1 has not completed", shown[d],
                  "flag device_seconds");
            POISONED(bt_add(y, y), BT_DEADLINE_EXCEEDED, here, "bt_mul: GPU:1");      /* depends on it */
            POISONED(twice("gpu:1", 3), BT_DEADLINE_EXCEEDED, here, "bt_mul: GPU:1"); /* comes after it */
            POISONED(x, BT_DEADLINE_EXCEEDED, here);                                  /* lies there */
            READS(twice("gpu:0", 3), 0, 2, 4);
            READS(twice("cpu", 3), 0, 2, 4);
            come();
            READS(x, 0, 1, 2, 3);
            READS(twice("gpu:1", 3), 0, 2, 4);
            POISONED(y, BT_DEADLINE_EXCEEDED, here); /* what has failed stays so */
        }
    }
}

static void memory_is_kept_until_the_work_is_complete(void **state) {
    EACH_DEVICE(d) {
        size_t before = 0, cached = 0;
        begin(d);
        BT_SCOPE
            OK(bt_block(twice("gpu:1", 3)));
        BT_SCOPE {
            bt_synchronize();
            before = memory("gpu:1").used;
            hang("gpu1/hang:1");
            FAILS(bt_block(twice("gpu:1", 1000)), BT_DEADLINE_EXCEEDED);
            cached = memory("gpu:1").cached + memory("gpu:1").used;
        }
        assert_int_equal(bt_memory_trim(device("gpu:1")), 0);
        assert_int_equal(memory("gpu:1").cached + memory("gpu:1").used, cached);
        FAILS(bt_shutdown(), BT_DEADLINE_EXCEEDED, "GPU:1 has not completed");
        come();
        assert_int_equal(memory("gpu:1").used, before);
        assert_true(bt_memory_trim(device("gpu:1")) > 0);
    }
}

static void without_a_limit_it_is_waited_for(void **state) {
    EACH_DEVICE(d) {
        fresh(devices[d]);
        BT_SCOPE {
            OK(bt_set_flag("device_seconds", "3600"));
            READS(twice("gpu:1", 3), 0, 2, 4);
            OK(bt_set_flag("device_seconds", "0"));
            READS(twice("gpu:1", 3), 0, 2, 4);
        }
    }
}

/* --- several threads, several pieces of work -------------------------------------------------------------------------- */

static void *wait_for(void *waited) {
    bt_status *status = waited;
    BT_SCOPE
        *status = bt_block(twice("gpu:1", 64));
    return NULL;
}

static void every_waiting_thread_returns(void **state) {
    enum { THREADS = 6 };
    EACH_DEVICE(d) {
        begin(d);
        pthread_t threads[THREADS];
        bt_status statuses[THREADS];
        hang("gpu1/hang:2");
        for (int i = 0; i < THREADS; i++)
            assert_int_equal(pthread_create(&threads[i], NULL, wait_for, &statuses[i]), 0);
        int failed = 0;
        for (int i = 0; i < THREADS; i++) {
            pthread_join(threads[i], NULL);
            if (statuses[i] != BT_OK) assert_int_equal(statuses[i], BT_DEADLINE_EXCEEDED);
            failed += statuses[i] != BT_OK;
        }
        assert_true(failed > 0);
        come();
        BT_SCOPE
            READS(twice("gpu:1", 3), 0, 2, 4);
    }
}

static void copies_from_a_late_device_fail(void **state) {
    EACH_DEVICE(d) {
        begin(d);
        BT_SCOPE {
            hang("gpu1/hang:1");
            bt_array *copy = bt_to(twice("gpu:1", 3), "gpu:0");
            POISONED(copy, BT_DEADLINE_EXCEEDED, "GPU:1 has not completed");
            READS(twice("gpu:0", 3), 0, 2, 4);
            come();
        }
    }
}

/* --- variables ---------------------------------------------------------------------------------------------------------- */

enum { REPLICAS = 3, ROWS = 12, IN = 3, OUT = 2, VALUES = IN * OUT + OUT };

typedef struct training {
    bt_strategy *strategy;
    bt_layer *model;
    bt_optimizer *optimizer;
    bt_array *x, *y;
} training;

static training begin_training(void) {
    training t = {.strategy = bt_mirrored(NULL, 0), .optimizer = bt_sgd(0.1)};
    BT_STRATEGY(t.strategy) t.model = bt_dense(IN, OUT, NULL, bt_key(1));
    BT_ON("cpu") {
        t.x = bt_uniform(bt_key(2), BT_F32, ROWS, IN);
        t.y = bt_ones(BT_F32, ROWS, OUT);
    }
    return t;
}

static bt_array *loss_of(bt_layer *model, bt_array *x, bt_array *y, void *data) {
    return bt_mse(bt_apply(model, x), y);
}

static bt_status step(const training *t) {
    bt_status status = BT_OK;
    BT_SCOPE
        status = bt_block(bt_train_step(t->strategy, t->model, t->optimizer, loss_of, NULL, t->x, t->y));
    return status;
}

/* The first set after a failed step tells of it. */
static void be_told(const training *t) {
    bt_shared *variables[2];
    bt_parameters(t->model, variables, 2);
    for (int i = 0; i < 2; i++)
        BT_SCOPE(void) !bt_set(variables[i], bt_value(variables[i]));
    bt_error_clear();
}

static void read_replicas(const training *t, float values[REPLICAS][VALUES]) {
    bt_shared *variables[2];
    assert_int_equal(bt_parameters(t->model, variables, 2), 2);
    for (int r = 0; r < REPLICAS; r++)
        BT_SCOPE
            BT_REPLICA(t->strategy, r) {
                size_t first = (size_t)bt_count(bt_value(variables[0]));
                OK(bt_read(bt_value(variables[0]), values[r], first * sizeof(float)));
                OK(bt_read(bt_value(variables[1]), values[r] + first, (VALUES - first) * sizeof(float)));
            }
}

/* The values after `steps` steps; with a fault in the last one, which may fail with that status. */
static bool values_after(int d, int steps, const char *fault, bt_status expected, float values[REPLICAS][VALUES]) {
    bt_status status = BT_OK;
    begin(d);
    BT_SCOPE {
        training t = begin_training();
        for (int i = 0; i < steps - (fault != NULL); i++) OK(step(&t));
        bt_synchronize();
        if (fault) {
            hang(fault);
            status = step(&t);
            if (status != BT_OK && status != expected) fail_msg("%s: %s", fault, bt_error_text());
            come();
            be_told(&t);
        }
        read_replicas(&t, values);
        OK(step(&t));
    }
    return status == BT_OK;
}

/* Whatever fails, on whichever replica: all have the values of before, or all have those of the step. */
static void all_replicas_are_old_or_new(void **state) {
    static const struct {
        const char *kind;
        bt_status status;
    } kinds[] = {{"hang", BT_DEADLINE_EXCEEDED}, {"launch", BT_INTERNAL},         {"record", BT_INTERNAL},
                 {"wait", BT_INTERNAL},          {"all_reduce", BT_INTERNAL},     {"upload", BT_INTERNAL},
                 {"query", BT_INTERNAL},         {"alloc", BT_RESOURCE_EXHAUSTED}};
    float before[REPLICAS][VALUES], after[REPLICAS][VALUES], now[REPLICAS][VALUES];
    EACH_DEVICE(d) {
        int failed = 0, kept = 0;
        assert_true(values_after(d, 1, NULL, BT_OK, before) && values_after(d, 2, NULL, BT_OK, after));
        for (int k = 0; k < COUNT(kinds); k++)
            for (int n = 1; n <= 6; n++) {
                char fault[40];
                snprintf(fault, sizeof fault, "gpu%d/%s:%d", n % REPLICAS, kinds[k].kind, n);
                failed += !values_after(d, 2, fault, kinds[k].status, now);
                bool old = !memcmp(now, before, sizeof now);
                if (!old && memcmp(now, after, sizeof now)) fail_msg("%s: neither old nor new", fault);
                kept += old;
            }
        assert_true(failed >= 12 && kept >= 10);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_error_names_the_device_and_the_operation),
        cmocka_unit_test(memory_is_kept_until_the_work_is_complete),
        cmocka_unit_test(without_a_limit_it_is_waited_for),
        cmocka_unit_test(every_waiting_thread_returns),
        cmocka_unit_test(copies_from_a_late_device_fail),
        cmocka_unit_test(all_replicas_are_old_or_new),
    };
    return cmocka_run_group_tests(tests, NULL, fresh_end);
}
