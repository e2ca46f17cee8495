// labels: threads slow-asan slow-tsan
// timeout: 600
/* bt_fit over devices that fail or stall, with sharded states, and resumed on another number of devices. */
#include <math.h>
#include <sys/stat.h>
#include <unistd.h>

#include "support/support.h"

enum { ROWS = 96, INPUTS = 6, CLASSES = 3, BATCH = 10, EPOCHS = 3, STEPS = EPOCHS * 10, MOST = 4096 };

static const char *const names[] = {"gpu:0", "gpu:1", "gpu:2", "gpu:3", "gpu:4", "gpu:5", "gpu:6", "gpu:7"};
static char folder[64];

static int rounds(int of) { return getenv("BERTH_TEST_SHORT") ? of / 2 : of; } /* under sanitizers each takes long */

static void works_again(void) {
    OK(bt_set_flag("sim_fault", ""));
    OK(bt_set_flag("device_seconds", "0"));
    bt_synchronize();
    bt_error_clear();
}

static int start(void **state) {
    fresh("devices=sim:gpu*8");
    snprintf(folder, sizeof folder, "/tmp/berth-devices-test-XXXXXX");
    return !mkdtemp(folder);
}
static int end(void **state) {
    char line[100];
    works_again();
    snprintf(line, sizeof line, "rm -rf %s", folder);
    return system(line);
}

typedef struct problem {
    bt_array *x, *y;
    bt_strategy *strategy;
    bt_layer *model;
    bt_optimizer *optimizer;
} problem;

static bt_layer *make_model(void) {
    return bt_chain(bt_dense(INPUTS, 8, bt_relu, bt_key(3)), bt_batch_norm_layer(8), bt_dropout_layer(0.25, bt_key(4)),
                    bt_dense(8, CLASSES, NULL, bt_key(5)));
}

/* Rows on the default device, GPU:0, which is the strategy's first. */
static problem begin(const int *devices, int count, bool exact, bool sharded) {
    problem p;
    const char *chosen[8];
    for (int i = 0; i < count; i++) chosen[i] = names[devices ? devices[i] : i];
    p.strategy = bt_mirrored(chosen, count);
    OK(bt_strategy_set_exact(p.strategy, exact));
    OK(bt_strategy_set_sharded(p.strategy, sharded));
    p.x = bt_normal(bt_key(1), BT_F32, ROWS, INPUTS);
    p.y = bt_cast(bt_argmax(bt_matmul(p.x, bt_normal(bt_key(2), BT_F32, INPUTS, CLASSES)), 1), BT_I32);
    OK(bt_block(p.y));
    BT_STRATEGY(p.strategy) p.model = make_model();
    p.optimizer = bt_adamw(0.02, .clip_norm = 1);
    OK(bt_optimizer_schedule(p.optimizer, BT_SCHEDULE_COSINE, .steps = 40, .warmup = 4));
    return p;
}

/* Faults begin in a step. */
typedef struct trail {
    int epochs, steps;
    double losses[EPOCHS], judged[EPOCHS];
    int64_t fault_at, stop_at;
    const char *fault;
} trail;

static bt_status follow(bt_fit_event *event, void *data) {
    trail *t = data;
    if (event->kind == BT_FIT_STEP) {
        t->steps++;
        if (t->fault && event->steps == t->fault_at) {
            OK(bt_set_flag("sim_fault", t->fault));
            t->fault = NULL;
        }
        if (event->steps == t->stop_at) event->stop = true;
        return BT_OK;
    }
    t->losses[event->epoch] = event->loss;
    t->judged[event->epoch] = event->validation_loss;
    t->epochs++;
    return BT_OK;
}

static bt_status fit(const problem *p, trail *t, bool checkpoints, bt_fit_report *report) {
    bt_fit_options options = {BT_FIT_INIT,
                              .epochs = EPOCHS,
                              .batch = BATCH,
                              .strategy = p->strategy,
                              .validation_x = p->x,
                              .validation_y = p->y,
                              .checkpoints = checkpoints ? folder : NULL,
                              .checkpoint_steps = checkpoints ? 4 : 0,
                              .keep_best = true,
                              .quiet = true,
                              .callback = follow,
                              .callback_data = t,
                              .each_step = true};
    return bt_fit(p->model, p->optimizer, p->x, p->y, &options, report);
}

static int by_name(const void *a, const void *b) {
    return strcmp(bt_shared_name(*(bt_shared *const *)a), bt_shared_name(*(bt_shared *const *)b));
}

static int read_all(const problem *p, float *numbers) {
    bt_shared *all[64];
    int count = bt_parameters(p->model, all, 64), total = 0;
    count += bt_states(p->model, all + count, 64 - count);
    count += bt_optimizer_states(p->optimizer, all + count, 64 - count);
    qsort(all, (size_t)count, sizeof *all, by_name);
    for (int i = 0; i < count; i++)
        BT_SCOPE {
            bt_array *value = bt_cast(bt_to(bt_value(all[i]), "cpu"), BT_F32);
            OK(bt_read(value, numbers + total, (size_t)bt_count(value) * sizeof(float)));
            total += (int)bt_count(value);
        }
    return total;
}

/* How it is without a fault, in exact mode. */
static double expected_losses[EPOCHS], expected_judged[EPOCHS];
static float expected[MOST];
static int expected_count;

static void run_straight(void) {
    if (expected_count) return;
    BT_SCOPE {
        problem p = begin(NULL, 2, true, false);
        trail t = {.epochs = 0};
        OK(fit(&p, &t, false, NULL));
        assert_int_equal(t.steps, STEPS);
        memcpy(expected_losses, t.losses, sizeof t.losses);
        memcpy(expected_judged, t.judged, sizeof t.judged);
        expected_count = read_all(&p, expected);
    }
}

static void expect_straight(const problem *p, const trail *t) {
    static float numbers[MOST];
    for (int e = 0; e < EPOCHS; e++)
        if (t->losses[e] != expected_losses[e] || t->judged[e] != expected_judged[e])
            fail_msg("epoch %d: losses %.17g and %.17g, not %.17g and %.17g", e, t->losses[e], t->judged[e],
                     expected_losses[e], expected_judged[e]);
    assert_int_equal(read_all(p, numbers), expected_count);
    assert_memory_equal(numbers, expected, (size_t)expected_count * sizeof *numbers);
}

static void expect_near(const trail *t) {
    for (int e = 0; e < EPOCHS; e++)
        if (!(fabs(t->losses[e] - expected_losses[e]) < 1e-4) || !(fabs(t->judged[e] - expected_judged[e]) < 1e-4))
            fail_msg("epoch %d: losses %.9g and %.9g, not %.9g and %.9g", e, t->losses[e], t->judged[e],
                     expected_losses[e], expected_judged[e]);
}

#define LOGGED(part) SAYS(log_text(), part)

/* --- mirrored --------------------------------------------------------------------------------------------------------- */

/* In exact mode the run on the device that is left has the bits of one without a fault. */
static void goes_on_with_the_same_bits(void **state) {
    run_straight();
    for (int i = 0; i < rounds(16); i++)
        BT_SCOPE {
            char fault[40];
            problem p = begin(NULL, 2, true, false);
            trail t = {.fault_at = 1 + i * 7 % (STEPS - 1), .fault = fault};
            bt_fit_report report;
            snprintf(fault, sizeof fault, "gpu%d/%s:%d+", i % 2, i % 3 == 2 ? "peer_copy" : "launch", 1 + i * 13 % 50);
            log_forget();
            if (fit(&p, &t, i % 4 == 0, &report) != BT_OK) fail_msg("%s: %s", fault, bt_error_text());
            if (i % 3 != 2) { /* a device may copy nothing to others */
                assert_int_equal(report.devices_lost, 1);
                assert_int_equal(bt_strategy_count(p.strategy), 1);
                assert_string_equal(bt_device_name(bt_strategy_device(p.strategy, 0)), i % 2 ? "GPU:0" : "GPU:1");
                LOGGED(i % 2 ? "berth: bt_fit: GPU:1 failed in step " : "berth: bt_fit: GPU:0 failed in step ");
                LOGGED("the run goes on over 1 device from the step before it");
            }
            works_again();
            assert_int_equal(t.steps, STEPS);
            assert_int_equal(report.steps, STEPS);
            expect_straight(&p, &t);
            char line[100];
            snprintf(line, sizeof line, "rm -f %s/*", folder);
            assert_int_equal(system(line), 0);
        }
}

static void goes_on_without_exact_mode(void **state) {
    run_straight();
    for (int i = 0; i < rounds(6); i++)
        BT_SCOPE {
            char fault[80];
            problem p = begin(NULL, 4, false, false);
            OK(bt_strategy_set_shares(p.strategy, (const double[]){1, 1, 2, 4}, 4));
            trail t = {.fault_at = 3 + 4 * i, .fault = fault};
            bt_fit_report report;
            if (i < 3) /* two in turn */
                snprintf(fault, sizeof fault, "gpu%d/launch:%d+;gpu%d/launch:%d+", i, 1 + i, i + 1, 60 + i);
            else /* at once, the first among them */
                snprintf(fault, sizeof fault, "gpu0/launch:%d+;gpu2/launch:%d+", i, i);
            log_forget();
            if (fit(&p, &t, false, &report) != BT_OK) fail_msg("%s: %s", fault, bt_error_text());
            assert_int_equal(report.devices_lost, 2);
            assert_int_equal(bt_strategy_count(p.strategy), 2);
            double shares = bt_strategy_share(p.strategy, 0) + bt_strategy_share(p.strategy, 1);
            assert_true(fabs(shares - 1) < 1e-12);
            works_again();
            expect_near(&t);
        }
}

static void stalls_are_noticed(void **state) {
    run_straight();
    for (int i = 0; i < rounds(4); i++)
        BT_SCOPE {
            char fault[40];
            problem p = begin(NULL, 2, true, false);
            trail t = {.fault_at = 2 + 5 * i, .fault = fault};
            bt_fit_report report;
            snprintf(fault, sizeof fault, "gpu%d/hang:%d", i % 2, 1 + 11 * i);
            OK(bt_set_flag("device_seconds", "0.2"));
            log_forget();
            if (fit(&p, &t, false, &report) != BT_OK) fail_msg("%s: %s", fault, bt_error_text());
            assert_int_equal(report.devices_lost, 1);
            LOGGED(i % 2 ? "GPU:1 failed in step " : "GPU:0 failed in step ");
            LOGGED("has not completed the work");
            works_again();
            expect_straight(&p, &t);
        }
}

/* A call that fails once: the step is made again, on all devices. */
static void accidents_are_repeated(void **state) {
    run_straight();
    BT_SCOPE {
        problem p = begin(NULL, 2, true, false);
        trail t = {.fault_at = 7, .fault = "gpu1/launch:9"};
        bt_fit_report report;
        log_forget();
        OK(fit(&p, &t, false, &report));
        assert_int_equal(report.devices_lost, 0);
        assert_int_equal(bt_strategy_count(p.strategy), 2);
        LOGGED("all devices work; it is made again");
        expect_straight(&p, &t);
    }
}

static void where_it_cannot_go_on(void **state) {
    BT_SCOPE { /* three are left */
        problem p = begin(NULL, 4, true, false);
        trail t = {.fault_at = 5, .fault = "gpu2/launch:3+"};
        assert_int_equal(fit(&p, &t, false, NULL), BT_INTERNAL);
        SAYS(bt_error_text(), "GPU:2 failed in step ");
        SAYS(bt_error_text(), "exact mode needs 1, 2, 4 or 8 devices, and 3 are left");
        works_again();
        assert_int_equal(bt_strategy_count(p.strategy), 4);
        OK(bt_block(bt_apply(p.model, p.x)));
    }
    BT_SCOPE { /* none is left */
        problem p = begin(NULL, 2, false, false);
        trail t = {.fault_at = 5, .fault = "gpu0/launch:1+;gpu1/launch:1+"};
        assert_int_equal(fit(&p, &t, false, NULL), BT_INTERNAL);
        SAYS(bt_error_text(), "GPU:0 and GPU:1 failed in step ");
        SAYS(bt_error_text(), "no device of the strategy is left");
        works_again();
    }
}

/* --- sharded ---------------------------------------------------------------------------------------------------------- */

static void resumes_on_another_number(void **state) {
    run_straight();
    static const int counts[] = {1, 2, 4, 8};
    for (int i = 0; i < rounds(4); i++)
        BT_SCOPE {
            char line[100];
            problem first = begin(NULL, counts[i], true, i != 2),
                    second = begin(NULL, counts[(i + 1) % 4], true, i != 1);
            trail before = {.stop_at = 13 + i}, after = {.epochs = 0};
            OK(fit(&first, &before, true, NULL));
            memcpy(after.losses, before.losses, sizeof after.losses);
            memcpy(after.judged, before.judged, sizeof after.judged);
            OK(fit(&second, &after, true, NULL));
            assert_int_equal(before.steps + after.steps, STEPS);
            expect_straight(&second, &after);
            snprintf(line, sizeof line, "rm -f %s/*", folder);
            assert_int_equal(system(line), 0);
        }
}

static void sharded_goes_on_from_a_checkpoint(void **state) {
    run_straight();
    for (int i = 0; i < rounds(8); i++)
        BT_SCOPE {
            char fault[40], line[100];
            problem p = begin(NULL, 2, true, true);
            trail t = {.fault_at = 6 + 3 * i, .fault = fault};
            bt_fit_report report;
            snprintf(fault, sizeof fault, i % 4 == 3 ? "gpu%d/hang:%d" : "gpu%d/launch:%d+", i % 2, 1 + 9 * i);
            OK(bt_set_flag("device_seconds", "0.2"));
            log_forget();
            if (fit(&p, &t, true, &report) != BT_OK) fail_msg("%s: %s", fault, bt_error_text());
            assert_int_equal(report.devices_lost, 1);
            LOGGED("the run goes on over 1 device from the last checkpoint");
            works_again();
            assert_true(t.steps >= STEPS);
            assert_int_equal(report.steps, STEPS);
            expect_straight(&p, &t);
            snprintf(line, sizeof line, "rm -f %s/*", folder);
            assert_int_equal(system(line), 0);
        }
}

static void sharded_without_a_checkpoint(void **state) {
    BT_SCOPE {
        problem p = begin(NULL, 2, true, true);
        trail t = {.fault_at = 5, .fault = "gpu1/launch:3+"};
        assert_int_equal(fit(&p, &t, false, NULL), BT_FAILED_PRECONDITION);
        SAYS(bt_error_text(), "there is no checkpoint to go on from");
        works_again();
        /* what is lost is not taken for new */
        bt_array *x = bt_to(p.x, "gpu:0"), *y = bt_to(p.y, "gpu:0");
        assert_int_equal(fit(&(problem){x, y, p.strategy, p.model, p.optimizer}, &t, false, NULL),
                         BT_FAILED_PRECONDITION);
        SAYS(bt_error_text(), "were on a device that failed");
    }
}

/* --- the report --------------------------------------------------------------------------------------------------------- */

static void the_page_says_so(void **state) {
    char path[100], page[65536] = "";
    snprintf(path, sizeof path, "%s/run.html", folder);
    BT_SCOPE {
        problem p = begin((const int[]){3, 1, 5}, 3, false, false);
        trail t = {.fault_at = 9, .fault = "gpu5/launch:3+"};
        OK(bt_fit(p.model, p.optimizer, p.x, p.y,
                  BT_FIT_OPTIONS(.batch = BATCH, .strategy = p.strategy, .quiet = true, .callback = follow,
                                 .callback_data = &t, .each_step = true, .report = path),
                  NULL));
    }
    works_again();
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    page[fread(page, 1, sizeof page - 1, file)] = 0;
    fclose(file);
    SAYS(page, "Devices that failed");
    SAYS(page, "GPU:5 failed in step ");
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, start, end)
    const struct CMUnitTest tests[] = {
        TEST(goes_on_with_the_same_bits),
        TEST(goes_on_without_exact_mode),
        TEST(stalls_are_noticed),
        TEST(accidents_are_repeated),
        TEST(where_it_cannot_go_on),
        TEST(resumes_on_another_number),
        TEST(the_page_says_so),
        TEST(sharded_goes_on_from_a_checkpoint),
        TEST(sharded_without_a_checkpoint),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
