// env: BERTH_FLAGS=devices=sim:gpu*8
// labels: threads slow-tsan
/* Optimiser states that each device has a part of: the same training, less memory. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include <berth.h>

#define OK(call)                                                         \
    do {                                                                 \
        if ((call) != BT_OK) fail_msg("%s: %s", #call, bt_error_text()); \
    } while (0)

static const char *const names[] = {"gpu:0", "gpu:1", "gpu:2", "gpu:3", "gpu:4", "gpu:5", "gpu:6", "gpu:7"};

enum { PARAMETERS = 6, STATES = 8, STEPS = 6, MOST = 4096, MOST_STATES = 64 };

static bt_layer *make_model(void) {
    return bt_chain(bt_dense(6, 12, bt_tanh, bt_key(1)), bt_dense(12, 10, bt_tanh, bt_key(2)),
                    bt_dense(10, 3, NULL, bt_key(3)));
}

static bt_array *loss_of(bt_layer *model, bt_array *x, bt_array *y, void *data) {
    (void)data;
    return bt_cross_entropy(bt_apply(model, x), y);
}

static bt_strategy *new_strategy(int count, bool exact, bool sharded) {
    bt_strategy *s = bt_mirrored(names, count);
    OK(bt_strategy_set_exact(s, exact));
    OK(bt_strategy_set_sharded(s, sharded));
    return s;
}

static bt_optimizer *new_optimizer(int which) {
    bt_optimizer *o;
    switch (which) {
    case 0: return bt_sgd(0.5);
    case 1: return bt_momentum(0.2, 0.9, .clip_norm = 0.5);
    case 2: o = bt_adam(0.05, .clip_norm = 1, .average = 0.9); break;
    case 3: return bt_adamw(0.05, .accumulate = 2, .loss_scale = 1024, .clip_value = 0.1);
    default: return bt_rmsprop(0.01, .momentum = 0.5, .centered = true);
    }
    OK(bt_optimizer_schedule(o, BT_SCHEDULE_COSINE, .steps = 10, .warmup = 2));
    return o;
}
enum { OPTIMIZERS = 5 };

typedef struct run {
    bt_strategy *strategy;
    bt_layer *model;
    bt_optimizer *optimizer;
    bt_array *x, *y;
} run;

static run begin_run(bt_strategy *strategy, bt_optimizer *optimizer, int64_t rows) {
    run r = {.strategy = strategy, .optimizer = optimizer};
    BT_STRATEGY(strategy) r.model = make_model();
    r.x = bt_normal(bt_key(4), BT_F32, rows, 6);
    r.y = bt_randint(bt_key(5), 0, 3, BT_I32, rows);
    return r;
}

static void train(run *r, int steps, double *losses) {
    for (int i = 0; i < steps; i++)
        BT_SCOPE {
            bt_array *loss = bt_train_step(r->strategy, r->model, r->optimizer, loss_of, NULL, r->x, r->y);
            OK(bt_block(loss));
            losses[i] = bt_item(loss);
        }
}

/* Parameters, equal on all replicas, and states of the optimiser. */
static int read_all(const run *r, float *numbers) {
    bt_shared *all[PARAMETERS + MOST_STATES];
    int count = bt_parameters(r->model, all, PARAMETERS), total = 0;
    count += bt_optimizer_states(r->optimizer, all + count, MOST_STATES);
    for (int i = 0; i < count; i++)
        BT_SCOPE {
            bt_array *first = bt_cast(bt_cpu(bt_value(all[i])), BT_F32);
            OK(bt_read(first, numbers + total, (size_t)bt_count(first) * sizeof(float)));
            total += (int)bt_count(first);
            for (int k = 1; k < bt_strategy_count(r->strategy) && i < PARAMETERS; k++) {
                bt_array *other = NULL;
                BT_REPLICA(r->strategy, k) other = bt_value(all[i]);
                assert_string_equal(bt_device_name(bt_device_of(other)),
                                    bt_device_name(bt_strategy_device(r->strategy, k)));
                assert_int_equal(bt_item(bt_all(bt_eq(first, bt_cast(bt_cpu(other), BT_F32)), BT_ALL, false)), 1);
            }
        }
    return total;
}

/* --- the same training ------------------------------------------------------------------------------------------------ */

static void expect_same_run(int which, int count, bool exact, int64_t rows, bool to_the_bit) {
    BT_SCOPE {
        double whole[STEPS], part[STEPS];
        static float a[MOST], b[MOST];
        run one = begin_run(new_strategy(count, exact, false), new_optimizer(which), rows);
        run two = begin_run(new_strategy(count, exact, true), new_optimizer(which), rows);
        train(&one, STEPS, whole);
        train(&two, STEPS, part);
        int numbers = read_all(&one, a);
        assert_int_equal(read_all(&two, b), numbers);
        if (to_the_bit) {
            assert_memory_equal(whole, part, sizeof whole);
            for (int i = 0; i < numbers; i++)
                if (memcmp(&a[i], &b[i], sizeof(float)) != 0)
                    fail_msg("optimiser %d, %d devices: number %d is %.9g, not %.9g", which, count, i, b[i], a[i]);
        }
        for (int i = 0; i < STEPS; i++) assert_true(fabs(whole[i] - part[i]) <= 1e-5 * (1 + fabs(whole[i])));
        for (int i = 0; i < numbers; i++) assert_true(fabsf(a[i] - b[i]) <= 1e-4F * (1 + fabsf(a[i])));
    }
}

static void bits_of_exact_mode(void **state) {
    (void)state;
    int step = getenv("BERTH_TEST_SHORT") ? 4 : 2; /* under sanitizers each takes long */
    for (int which = 0; which < OPTIMIZERS; which++)
        for (int count = 2; count <= 8; count *= step) expect_same_run(which, count, true, 21, true);
    expect_same_run(0, 1, true, 21, true);
    expect_same_run(2, 8, true, 5, true); /* devices without rows */
}

static void without_exact_mode(void **state) {
    (void)state;
    for (int which = 0; which < OPTIMIZERS; which++) expect_same_run(which, 3, false, 22, false);
    OK(bt_set_flag("collectives", "copies"));
    for (int which = 0; which < OPTIMIZERS; which++) expect_same_run(which, 3, false, 22, true);
    OK(bt_set_flag("collectives", "auto"));
}

/* --- memory ----------------------------------------------------------------------------------------------------------- */

static size_t used_on(int device) {
    bt_memory_info info = BT_MEMORY_INFO_INIT;
    OK(bt_memory(bt_device_get(BT_GPU, device), &info));
    return info.used;
}

enum { WIDTH = 256, LAYERS = 8 };

static bt_array *squared(bt_layer *model, bt_array *x, bt_array *y, void *data) {
    (void)data;
    return bt_mse(bt_apply(model, x), y);
}

/* Bytes per device behind some steps; the peaks of one are foreseen. */
static void measure(int count, bool sharded, size_t *used) {
    BT_SCOPE {
        bt_layer *layers[LAYERS], *model = NULL;
        bt_strategy *s = new_strategy(count, false, sharded);
        BT_STRATEGY(s) {
            for (int i = 0; i < LAYERS; i++) layers[i] = bt_dense(WIDTH, WIDTH, bt_tanh, bt_key((uint64_t)i));
            model = bt_chain_of(layers, LAYERS);
        }
        bt_optimizer *adam = bt_adam(1e-3);
        bt_array *x = bt_normal(bt_key(9), BT_F32, 8 * count, WIDTH);
        for (int i = 0; i < 3; i++)
            BT_SCOPE {
                bt_array *loss = bt_train_step(s, model, adam, squared, NULL, x, x);
                bt_peak peaks[16];
                int peak_count = 16;
                if (i == 2) {
                    bt_synchronize();
                    OK(bt_peak_all(&loss, 1, peaks, &peak_count));
                    for (int d = 0; d < count; d++) bt_memory_reset_peak(bt_device_get(BT_GPU, d));
                }
                OK(bt_block(loss));
                bt_synchronize();
                for (int p = 0; i == 2 && p < peak_count; p++) {
                    if (bt_device_kind(peaks[p].device) != BT_GPU) continue;
                    bt_memory_info info = BT_MEMORY_INFO_INIT;
                    OK(bt_memory(peaks[p].device, &info));
                    double off = fabs((double)info.peak - (double)peaks[p].peak);
                    if (off > 0.05 * (double)info.peak)
                        fail_msg("%s: %zu bytes were foreseen, %zu used", bt_device_name(peaks[p].device),
                                 peaks[p].peak, info.peak);
                }
            }
        for (int d = 0; d < count; d++) used[d] = used_on(d);
    }
}

/* Adam has twice the bytes of the parameters: of them a device keeps its part. */
static void memory_is_shared(void **state) {
    (void)state;
    size_t whole[4], part[4];
    double parameters = LAYERS * (WIDTH + 1.0) * WIDTH * sizeof(float);
    measure(4, false, whole);
    measure(4, true, part);
    for (int d = 0; d < 4; d++) {
        double saved = (double)whole[d] - (double)part[d], expected = 2 * parameters * 3 / 4;
        if (fabs(saved - expected) > 0.05 * expected)
            fail_msg("GPU:%d: %.0f bytes less, not %.0f (%zu, %zu)", d, saved, expected, whole[d], part[d]);
    }
}

/* --- moving ----------------------------------------------------------------------------------------------------------- */

/* Sharded, whole, by hand, and sharded over other devices: always the training that goes on. */
static void states_move(void **state) {
    (void)state;
    BT_SCOPE {
        double straight[STEPS], moved[STEPS];
        static float a[MOST], b[MOST];
        run one = begin_run(new_strategy(4, true, false), new_optimizer(2), 24);
        run two = begin_run(new_strategy(4, true, true), new_optimizer(2), 24);
        train(&one, STEPS, straight);
        train(&two, 2, moved);
        OK(bt_strategy_set_sharded(two.strategy, false));
        train(&two, 2, moved + 2);
        OK(bt_strategy_set_sharded(two.strategy, true));
        train(&two, 2, moved + 4);
        assert_memory_equal(straight, moved, sizeof straight);
        int numbers = read_all(&one, a);
        assert_int_equal(read_all(&two, b), numbers);
        assert_memory_equal(a, b, (size_t)numbers * sizeof *a);
    }
}

/* A step by hand in replicas, after sharded ones, updates each replica's own states. */
static void steps_by_hand_after(void **state) {
    (void)state;
    BT_SCOPE {
        static float a[MOST], b[MOST];
        int numbers[2];
        for (int sharded = 0; sharded < 2; sharded++) {
            run r = begin_run(new_strategy(2, true, sharded), bt_momentum(0.1, 0.9), 8);
            train(&r, 2, (double[2]){0});
            bt_shared *p[PARAMETERS];
            bt_array *grads[PARAMETERS];
            bt_parameters(r.model, p, PARAMETERS);
            for (int step = 0; step < 2; step++)
                for (int k = 0; k < 2; k++)
                    BT_REPLICA(r.strategy, k) {
                        for (int i = 0; i < PARAMETERS; i++) grads[i] = bt_mul(bt_value(p[i]), 0.5);
                        OK(bt_optimizer_step(r.optimizer, p, grads, PARAMETERS));
                    }
            numbers[sharded] = read_all(&r, sharded ? b : a);
        }
        assert_int_equal(numbers[0], numbers[1]);
        assert_memory_equal(a, b, (size_t)numbers[0] * sizeof *a);
    }
}

static void files_are_the_same(void **state) {
    (void)state;
    char path[64];
    snprintf(path, sizeof path, "/tmp/sharded_test.%d.safetensors", (int)getpid());
    static const int counts[] = {1, 2, 4, 8};
    BT_SCOPE {
        double straight[STEPS];
        static float a[MOST], b[MOST];
        run one = begin_run(new_strategy(2, true, false), new_optimizer(2), 24);
        train(&one, STEPS, straight);
        int numbers = read_all(&one, a);
        for (int from = 0; from < 4; from++)
            BT_SCOPE {
                int to = (from + 1) % 4;
                double losses[STEPS];
                run first = begin_run(new_strategy(counts[from], true, from % 2), new_optimizer(2), 24);
                train(&first, 3, losses);
                OK(bt_save_optimizer(path, first.optimizer));
                run second = begin_run(new_strategy(counts[to], true, to % 2 == 0), new_optimizer(2), 24);
                bt_shared *p[PARAMETERS], *q[PARAMETERS];
                bt_parameters(first.model, p, PARAMETERS);
                bt_parameters(second.model, q, PARAMETERS);
                for (int i = 0; i < PARAMETERS; i++) OK(bt_set(q[i], bt_cpu(bt_value(p[i]))));
                for (int i = 0; i < PARAMETERS; i++) p[i] = q[PARAMETERS - 1 - i]; /* in the order of steps */
                OK(bt_load_optimizer(path, second.optimizer, p, PARAMETERS));
                train(&second, 3, losses + 3);
                assert_memory_equal(straight, losses, sizeof straight);
                assert_int_equal(read_all(&second, b), numbers);
                assert_memory_equal(a, b, (size_t)numbers * sizeof *a);
                /* an average is where its states are; a model with it is on one device */
                bt_layer *averaged = bt_optimizer_averaged(second.optimizer, second.model);
                OK(bt_block(bt_apply(averaged, second.x)));
            }
    }
    unlink(path);
    assert_int_equal(bt_live_arrays(), 0);
}

/* --- devices that leave ------------------------------------------------------------------------------------------------- */

static void expect_refused(bt_status status, bt_status expected, const char *part, int line) {
    if (status != expected || !strstr(bt_error_text(), part))
        fail_msg("line %d: %s \"%s\" does not say \"%s\"", line, bt_status_name(status), bt_error_text(), part);
    bt_error_clear();
}
#define REFUSED(call, expected, part) expect_refused(call, expected, part, __LINE__)

/* By hand: the training on the devices that are left is that of a strategy over them. */
static void devices_leave(void **state) {
    (void)state;
    BT_SCOPE {
        double straight[STEPS], left[STEPS];
        static float a[MOST], b[MOST];
        run one = begin_run(new_strategy(4, true, false), new_optimizer(2), 24);
        run two = begin_run(new_strategy(4, true, false), new_optimizer(2), 24);
        train(&one, STEPS, straight);
        train(&two, 3, left);
        OK(bt_strategy_drop(two.strategy, (const int[]){2, 0}, 2, two.model, two.optimizer));
        assert_int_equal(bt_strategy_count(two.strategy), 2);
        assert_string_equal(bt_device_name(bt_strategy_device(two.strategy, 0)), "GPU:1");
        assert_string_equal(bt_device_name(bt_strategy_device(two.strategy, 1)), "GPU:3");
        assert_true(bt_strategy_share(two.strategy, 1) == 0.5);
        train(&two, 3, left + 3);
        assert_memory_equal(straight, left, sizeof straight);
        int numbers = read_all(&one, a);
        assert_int_equal(read_all(&two, b), numbers);
        assert_memory_equal(a, b, (size_t)numbers * sizeof *a);
    }
}

/* States that were on a device that left are lost: steps say so until there are others. */
static void sharded_states_are_lost(void **state) {
    (void)state;
    char path[64];
    snprintf(path, sizeof path, "/tmp/sharded_test.%d.safetensors", (int)getpid());
    BT_SCOPE {
        double straight[STEPS], left[STEPS];
        run one = begin_run(new_strategy(2, true, false), new_optimizer(1), 24);
        run two = begin_run(new_strategy(2, true, true), new_optimizer(1), 24);
        train(&one, STEPS, straight);
        train(&two, 3, left);
        OK(bt_save_optimizer(path, two.optimizer));
        OK(bt_strategy_drop(two.strategy, &(int){1}, 1, two.model, two.optimizer));
        bt_array *loss = bt_train_step(two.strategy, two.model, two.optimizer, loss_of, NULL, two.x, two.y);
        REFUSED(bt_block(loss), BT_FAILED_PRECONDITION, "were on a device that failed");
        bt_shared *p[PARAMETERS];
        bt_parameters(two.model, p, PARAMETERS);
        OK(bt_load_optimizer(path, two.optimizer, p, PARAMETERS));
        train(&two, 3, left + 3);
        assert_memory_equal(straight, left, sizeof straight);
    }
    unlink(path);
}

static void devices_that_cannot_leave(void **state) {
    (void)state;
    BT_SCOPE {
        run r = begin_run(new_strategy(4, true, false), bt_adam(0.1), 24);
        bt_layer *elsewhere = bt_layer_to(r.model, "gpu:1");
        REFUSED(bt_strategy_drop(r.strategy, &(int){4}, 1, r.model, NULL), BT_INVALID_ARGUMENT,
                "replica 4 of a strategy over 4");
        REFUSED(bt_strategy_drop(r.strategy, NULL, 1, r.model, NULL), BT_INVALID_ARGUMENT, "NULL");
        REFUSED(bt_strategy_drop(r.strategy, &(int){1}, 1, r.model, NULL), BT_FAILED_PRECONDITION, "and 3 are left");
        REFUSED(bt_strategy_drop(r.strategy, (const int[]){0, 1, 2, 3}, 4, NULL, NULL), BT_FAILED_PRECONDITION,
                "no device");
        REFUSED(bt_strategy_drop(r.strategy, (const int[]){0, 1}, 2, elsewhere, NULL), BT_FAILED_PRECONDITION,
                "is on GPU:1 and on no device that is left");
        assert_int_equal(bt_strategy_count(r.strategy), 4);
        OK(bt_strategy_drop(r.strategy, NULL, 0, r.model, r.optimizer)); /* nobody */
        train(&r, 1, (double[1]){0});
    }
    assert_int_equal(bt_live_arrays(), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bits_of_exact_mode),
        cmocka_unit_test(without_exact_mode),
        cmocka_unit_test(memory_is_shared),
        cmocka_unit_test(states_move),
        cmocka_unit_test(steps_by_hand_after),
        cmocka_unit_test(files_are_the_same),
        cmocka_unit_test(devices_leave),
        cmocka_unit_test(sharded_states_are_lost),
        cmocka_unit_test(devices_that_cannot_leave),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
