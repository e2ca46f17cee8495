// labels: threads
// timeout: 300
/* Devices that fail while work is in flight: they do not complete it (flag device_seconds), they are lost, they fail late, their memory is short. What fails and how, what goes
 * on, which memory is kept, and that variables have their old values or their new ones, on all replicas. One list over kinds of devices: simulated ones with and without a clock, and emulated
 * GPUs where BERTH_TEST_DEVICES names them. */
#include <dlfcn.h>
#include <pthread.h>

#include "support/support.h"

enum { REPLICAS = 2 };

typedef struct kind {
    const char *label, *settings, *limit, *within; /* limit: seconds; emulated work takes some of them */
    bool emulated;
} kind;
static const kind kinds[] = {
    {"sim", "devices=sim:gpu*3@64M", "0.1", "within 0.1 s of wall time", false},
    {"timed", "devices=sim:h200*3", "0.1", "within 0.1 s of its time", false},
    {"cuda-emulated", "", "2", "within 2 s of wall time", true},
};
static const kind *now;

/* Goes on in each kind that is asked for. */
#define EACH_KIND                                        \
    for (now = kinds; now < kinds + COUNT(kinds); now++) \
        if (is_asked_for())

static bool is_asked_for(void) {
    const char *told = getenv("BERTH_TEST_DEVICES");
    return now->emulated == (told && strstr(told, "cuda-emulated") != NULL);
}

static void begin(void) { fresh(now->settings); }

static void set_emulated_fault(const char *name, int device, long nth, int code) {
    void *machine = dlopen("libfake_machine.so", RTLD_NOW | RTLD_NOLOAD);
    void (*set)(const char *, int, long, int) = NULL;
    if (machine) *(void **)(void *)&set = dlsym(machine, "fake_set_fault");
    if (!set) fail_msg("the fake machine is not there: %s", dlerror());
    set(name, device, nth, code);
    dlclose(machine);
}

/* The nth piece of work from now on of the device is not completed, nor what comes after it; there is a limit to waits meanwhile. */
static void hang(int index, int nth) {
    char fault[40];
    OK(bt_set_flag("device_seconds", now->limit));
    snprintf(fault, sizeof fault, "gpu%d/hang:%d", index, nth);
    if (now->emulated)
        set_emulated_fault("hang", index, nth, 0);
    else
        OK(bt_set_flag("sim_fault", fault));
}

static bt_array *twice(const char *where, int count) {
    bt_array *sum = NULL;
    BT_ON(where) {
        bt_array *x = bt_arange(0, count, 1, BT_F32);
        sum = bt_add(x, x);
    }
    return sum;
}

/* Nothing fails any more: the work is completed after all, a little later. */
static void come(void) {
    OK(bt_set_flag("device_seconds", "0"));
    if (now->emulated)
        set_emulated_fault("", -1, 0, 0);
    else
        OK(bt_set_flag("sim_fault", ""));
    for (int i = 0; i < REPLICAS; i++) {
        bt_status status = BT_DEADLINE_EXCEEDED;
        for (int ms = 0; status == BT_DEADLINE_EXCEEDED && ms < SOON * 1000; ms++) {
            BT_SCOPE
                status = bt_block(twice(i ? "gpu:1" : "gpu:0", 3));
            bt_synchronize();
            if (status == BT_DEADLINE_EXCEEDED) sleep_ms(1);
        }
        OK(status);
    }
}

static void the_error_names_the_device_and_the_operation(void **state) {
    EACH_KIND {
        begin();
        BT_SCOPE {
            bt_array *x = NULL, *y = NULL;
            OK(bt_block(twice("gpu:0", 3))); /* what compiles, and what is opened, comes before */
            BT_ON("gpu:1") x = bt_arange(0, 4, 1, BT_F32);
            OK(bt_block(x));
            hang(1, 1);
            const char *here = HERE(1);
            BT_ON("gpu:1") y = bt_mul(x, x);
            FAILS(bt_block(y), BT_DEADLINE_EXCEEDED, here, "bt_mul: GPU:1 has not completed", now->within,
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
    EACH_KIND {
        size_t before = 0, cached = 0;
        begin();
        BT_SCOPE
            OK(bt_block(twice("gpu:1", 3)));
        BT_SCOPE {
            bt_synchronize();
            before = memory("gpu:1").used;
            hang(1, 1);
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

/* Nothing hangs: the work takes longer than the limit by the model, whatever the machine's time; what moves the clock brings it to the end. */
static void limits_go_by_the_clock_of_the_device(void **state) {
    fresh("devices=sim:h200*2,sim_data=off");
    BT_SCOPE {
        bt_array *x[2], *product = NULL;
        for (int i = 0; i < 2; i++)
            BT_ON(i ? "gpu:1" : "gpu:0") OK(bt_block(x[i] = bt_keep(bt_ones(BT_F32, 4096, 4096))));
        OK(bt_set_flag("device_seconds", "0.00001"));
        product = bt_matmul(x[1], x[1]);
        FAILS(bt_block(product), BT_DEADLINE_EXCEEDED, "GPU:1", "within 1e-05 s of its time");
        FAILS(bt_block(bt_add(x[1], x[1])), BT_DEADLINE_EXCEEDED, "bt_matmul");
        OK(bt_set_flag("device_seconds", "0"));
        OK(bt_block(bt_matmul(x[0], x[0])));
        OK(bt_block(bt_matmul(x[0], x[0])));
        OK(bt_block(bt_add(x[1], x[1])));
    }
}

static void without_a_limit_it_is_waited_for(void **state) {
    EACH_KIND {
        fresh(now->settings);
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
    EACH_KIND {
        begin();
        pthread_t threads[THREADS];
        bt_status statuses[THREADS];
        hang(1, 2);
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
    EACH_KIND {
        begin();
        BT_SCOPE {
            hang(1, 1);
            bt_array *copy = bt_to(twice("gpu:1", 3), "gpu:0");
            POISONED(copy, BT_DEADLINE_EXCEEDED, "GPU:1 has not completed");
            READS(twice("gpu:0", 3), 0, 2, 4);
            come();
        }
    }
}

/* --- variables ---------------------------------------------------------------------------------------------------------- */

enum { ROWS = 12, IN = 3, OUT = 2, VALUES = IN * OUT + OUT };

typedef struct training {
    bt_strategy *strategy;
    bt_layer *model;
    bt_optimizer *optimizer;
    bt_array *x, *y;
} training;

static training begin_training(void) {
    training t = {.strategy = bt_mirrored((const char *[]){"gpu:0", "gpu:1"}, REPLICAS), .optimizer = bt_sgd(0.1)};
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

static void read_replicas(const training *t, int replicas, float values[REPLICAS][VALUES]) {
    bt_shared *variables[2];
    assert_int_equal(bt_parameters(t->model, variables, 2), 2);
    for (int r = 0; r < replicas; r++)
        BT_SCOPE
            BT_REPLICA(t->strategy, r) {
                size_t first = (size_t)bt_count(bt_value(variables[0]));
                OK(bt_read(bt_value(variables[0]), values[r], first * sizeof(float)));
                OK(bt_read(bt_value(variables[1]), values[r] + first, (VALUES - first) * sizeof(float)));
            }
}

typedef struct fault {
    const char *kind; /* of sim_fault, or of fake_set_fault: a call of CUDA, or "hang" or "late" */
    int code;
    bt_status status;
} fault;
static const fault simulated_faults[] = {{"hang", 0, BT_DEADLINE_EXCEEDED}, {"launch", 0, BT_INTERNAL},
                                         {"record", 0, BT_INTERNAL},        {"wait", 0, BT_INTERNAL},
                                         {"all_reduce", 0, BT_INTERNAL},    {"upload", 0, BT_INTERNAL},
                                         {"query", 0, BT_INTERNAL},         {"alloc", 0, BT_RESOURCE_EXHAUSTED}},
                   emulated_faults[] = {{"hang", 0, BT_DEADLINE_EXCEEDED},
                                        {"cuLaunchKernel", 1, BT_INTERNAL},
                                        {"cuMemAlloc_v2", 2, BT_RESOURCE_EXHAUSTED},
                                        {"cuEventRecord", 1, BT_INTERNAL}};

static void set_fault(const fault *f, int index, int nth) {
    char text[40];
    snprintf(text, sizeof text, "gpu%d/%s:%d", index, f->kind, nth);
    if (f->status == BT_DEADLINE_EXCEEDED) OK(bt_set_flag("device_seconds", now->limit));
    if (now->emulated)
        set_emulated_fault(f->kind, f->code ? -1 : index, nth, f->code);
    else
        OK(bt_set_flag("sim_fault", text));
}

/* The values after two steps, of which the second has the fault; without: after so many steps. Whether no step failed. */
static bool values_after(int steps, const char *settings, const fault *f, int nth, float values[REPLICAS][VALUES]) {
    bt_status status = BT_OK;
    fresh(now->settings);
    if (*settings) OK(bt_set_flag(settings, "off"));
    BT_SCOPE {
        training t = begin_training();
        for (int i = 0; i < steps; i++) OK(step(&t));
        bt_synchronize();
        if (f) {
            set_fault(f, nth % REPLICAS, nth);
            status = step(&t);
            if (status != BT_OK && status != f->status) fail_msg("%s:%d: %s", f->kind, nth, bt_error_text());
            come();
            be_told(&t);
        }
        read_replicas(&t, REPLICAS, values);
        OK(step(&t));
    }
    return status == BT_OK;
}

/* Whatever fails, on whichever replica: all have the values of before, or all have those of the step. */
static void all_replicas_are_old_or_new(void **state) {
    float before[REPLICAS][VALUES], after[REPLICAS][VALUES], values[REPLICAS][VALUES];
    EACH_KIND {
        const fault *faults = now->emulated ? emulated_faults : simulated_faults;
        int count = now->emulated ? COUNT(emulated_faults) : COUNT(simulated_faults), failed = 0, kept = 0;
        assert_true(values_after(1, "", NULL, 0, before) && values_after(2, "", NULL, 0, after));
        for (int k = 0; k < count; k++)
            for (int n = 1; n <= (faults[k].status == BT_RESOURCE_EXHAUSTED ? 16 : 6); n++) {
                const char *settings = faults[k].status == BT_RESOURCE_EXHAUSTED ? "memory_pool" : "";
                failed += !values_after(1, settings, &faults[k], n, values);
                bool old = !memcmp(values, before, sizeof values);
                if (!old && memcmp(values, after, sizeof values))
                    fail_msg("%s, %s:%d: neither old nor new", now->label, faults[k].kind, n);
                kept += old;
            }
        print_message("%s: %d steps failed, %d changed nothing\n", now->label, failed, kept);
        assert_true(failed >= 6 && kept >= 6);
    }
}

/* It is lost while a step is in flight: the step changes nothing on the other one either, which goes on. */
static void a_lost_device_fails_alone(void **state) {
    float before[REPLICAS][VALUES], values[REPLICAS][VALUES];
    EACH_KIND {
        begin();
        BT_SCOPE {
            training t = begin_training();
            OK(step(&t));
            bt_synchronize();
            read_replicas(&t, REPLICAS, before);
            if (now->emulated)
                set_emulated_fault("late", 1, 1, 700);
            else
                OK(bt_set_flag("sim_fault", "gpu1/wait:1+"));
            bt_status status = step(&t);
            if (status !=
                BT_OK) { /* that of the work in flight, or of what was launched after it; both tell the cause */
                assert_true(status == BT_INTERNAL || (now->emulated && status == BT_UNAVAILABLE));
                SAYS(bt_error_text(), now->emulated ? "CUDA_ERROR_ILLEGAL_ADDRESS (700)" : "injected fault");
            }
            bt_synchronize();
            bt_error_clear();
            read_replicas(&t, 1, values);
            assert_memory_equal(values[0], before[0], sizeof before[0]);
            POISONED(twice("gpu:1", 3), now->emulated ? BT_UNAVAILABLE : BT_INTERNAL,
                     now->emulated ? "is lost to this process since" : "injected fault: call");
            READS(twice("gpu:0", 3), 0, 2, 4);
            if (now->emulated)
                set_emulated_fault("", -1, 0, 0);
            else
                OK(bt_set_flag("sim_fault", ""));
        }
    }
}

int main(void) {
    restart_emulated();
    setenv("BERTH_FAKE_PROGRESS", "on", 1); /* asking whether work is complete goes on with it */
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_error_names_the_device_and_the_operation),
        cmocka_unit_test(memory_is_kept_until_the_work_is_complete),
        cmocka_unit_test(limits_go_by_the_clock_of_the_device),
        cmocka_unit_test(without_a_limit_it_is_waited_for),
        cmocka_unit_test(every_waiting_thread_returns),
        cmocka_unit_test(copies_from_a_late_device_fail),
        cmocka_unit_test(all_replicas_are_old_or_new),
        cmocka_unit_test(a_lost_device_fails_alone),
    };
    return cmocka_run_group_tests(tests, NULL, fresh_end);
}
