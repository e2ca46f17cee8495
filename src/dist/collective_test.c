// env: BERTH_FLAGS=devices=sim:gpu*4
// labels: threads valgrind
// timeout: 120
/* Sums over devices by their driver: what they give, and what happens when it fails. */
#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include <berth.h>

#include "device/device.h"

#define OK(call)                                              \
    do {                                                      \
        if ((call) != BT_OK) fail_msg("%s", bt_error_text()); \
    } while (0)
#define ERROR(status, part)                                                               \
    do {                                                                                  \
        assert_int_equal(bt_error_status(), status);                                      \
        if (!strstr(bt_error_text(), part)) fail_msg("\"%s\" lacks it", bt_error_text()); \
        bt_error_clear();                                                                 \
    } while (0)

static void use(const char *way) { OK(bt_set_flag("collectives", way)); }

/* Bytes that went from the first GPU to the others, which is how sums are spread by copies. */
static uint64_t spread(void) {
    uint64_t bytes = 0;
    int first = bti_device_id(bt_device_get(BT_GPU, 0));
    for (int i = 1; i < 4; i++) bytes += bti_device_copied(first, bti_device_id(bt_device_get(BT_GPU, i)));
    return bytes;
}

/* Bytes in arrays of all GPUs. */
static size_t used(void) {
    size_t bytes = 0;
    for (int i = 0; i < 4; i++) {
        bt_memory_info info = BT_MEMORY_INFO_INIT;
        OK(bt_memory(bt_device_get(BT_GPU, i), &info));
        bytes += info.used;
    }
    return bytes;
}

/* One part per replica, some values apart; the second one's layout has gaps in its order. */
static void make_parts(bt_strategy *s, bt_dtype dtype, int64_t rows, int64_t columns, bt_array **parts) {
    for (int r = 0; r < bt_strategy_count(s); r++)
        BT_REPLICA(s, r) {
            bt_array *x = bt_cast(bt_normal(bt_key(r), BT_F32, columns, rows), dtype);
            parts[r] = r == 1 ? bt_transpose(x) : bt_reshape(x, rows, columns);
        }
}

static void same_sums(void **state) {
    static const bt_dtype dtypes[] = {BT_F32, BT_F64, BT_F16, BT_BF16, BT_I32};
    static const double tolerance[] = {1e-6, 1e-12, 5e-3, 5e-2, 0};
    (void)state;
    for (int d = 0; d < 5; d++)
        for (int64_t rows = 0; rows < 40; rows += 13)
            BT_SCOPE {
                bt_strategy *s = bt_mirrored(NULL, 0);
                bt_array *parts[2][4];
                uint64_t copied = 0;
                for (int way = 0; way < 2; way++) {
                    use(way ? "driver" : "copies");
                    make_parts(s, dtypes[d], rows, 5, parts[way]);
                    copied = spread();
                    bt_all_reduce(s, parts[way]);
                    for (int r = 0; r < 4; r++) OK(bt_block(parts[way][r]));
                    assert_true(way || !rows ? copied == spread() : copied < spread());
                }
                for (int r = 0; r < 4; r++) {
                    double a[40 * 5], b[40 * 5];
                    size_t bytes = (size_t)(rows * 5) * sizeof *a;
                    assert_ptr_equal(bt_device_of(parts[1][r]), bt_strategy_device(s, r));
                    OK(bt_read(bt_cast(parts[0][r], BT_F64), a, bytes));
                    OK(bt_read(bt_cast(parts[1][r], BT_F64), b, bytes));
                    for (int64_t i = 0; i < rows * 5; i++)
                        if (!(fabs(a[i] - b[i]) <= tolerance[d] * (1 + fabs(a[i]))))
                            fail_msg("%s: %g, not %g", bt_dtype_name(dtypes[d]), b[i], a[i]);
                }
            }
}

static void parts_stay_as_they_were(void **state) {
    (void)state;
    use("driver");
    BT_SCOPE {
        bt_strategy *s = bt_mirrored(NULL, 0);
        bt_array *parts[4], *sums[4];
        for (int r = 0; r < 4; r++)
            BT_REPLICA(s, r) sums[r] = parts[r] = bt_add(bt_f32((float)r), bt_f32(1));
        bt_all_reduce(s, sums);
        for (int r = 0; r < 4; r++) {
            assert_true(bt_item(sums[r]) == 10);
            assert_true(bt_item(parts[r]) == r + 1);
        }
    }
}

/* d/dx of (x + 2 x + 3 x + 4 x) squared: through the sum, which is done by then. */
static void gradients_go_through_it(void **state) {
    (void)state;
    use("driver");
    BT_SCOPE {
        bt_strategy *s = bt_mirrored(NULL, 0);
        bt_array *x = bt_f32(3), *parts[4];
        for (int r = 0; r < 4; r++)
            BT_REPLICA(s, r) parts[r] = bt_mul(x, bt_num(r + 1));
        bt_all_reduce(s, parts);
        assert_true(bt_item(bt_grad1(bt_square(parts[2]), x)) == 600);
    }
}

/* --- training ----------------------------------------------------------------------------------------------------------- */

static bt_array *loss_of(bt_layer *model, bt_array *x, bt_array *y, void *data) {
    (void)data;
    return bt_cross_entropy(bt_apply(model, x), y);
}

enum { STEPS = 5, PARAMETERS = 4 };

typedef struct training {
    bt_strategy *strategy;
    bt_layer *model;
    bt_optimizer *optimizer;
    bt_array *x, *y;
} training;

static training begin_training(int which) {
    training t = {.strategy = bt_mirrored(NULL, 0)};
    BT_STRATEGY(t.strategy) t.model = bt_chain(bt_dense(5, 4, bt_tanh, bt_key(1)), bt_dense(4, 3, NULL, bt_key(2)));
    t.optimizer = which == 0 ? bt_sgd(0.5) : which == 1 ? bt_momentum(0.2, 0.9) : bt_adam(0.05, 0.9, 0.999, 1e-8);
    t.x = bt_normal(bt_key(3), BT_F32, 10, 5);
    t.y = bt_randint(bt_key(4), 0, 3, BT_I32, 10);
    return t;
}

static bt_array *step(const training *t) {
    return bt_train_step(t->strategy, t->model, t->optimizer, loss_of, NULL, t->x, t->y);
}

/* The sum of squares of each parameter, the same on all replicas. */
static void look(const training *t, double *sums) {
    bt_shared *p[PARAMETERS];
    bt_parameters(t->model, p, PARAMETERS);
    for (int i = 0; i < PARAMETERS; i++)
        for (int r = 0; r < 4; r++)
            BT_SCOPE {
                double here = NAN;
                BT_REPLICA(t->strategy, r) here = bt_item(bt_sum(bt_square(bt_value(p[i])), BT_ALL, false));
                if (isnan(here)) fail_msg("%s", bt_error_text());
                if (r)
                    assert_true(here == sums[i]);
                else
                    sums[i] = here;
            }
}

static void same_training(void **state) {
    (void)state;
    for (int which = 0; which < 3; which++) {
        double losses[2][STEPS], sums[2][PARAMETERS];
        for (int way = 0; way < 2; way++)
            BT_SCOPE {
                use(way ? "driver" : "copies");
                training t = begin_training(which);
                for (int i = 0; i < STEPS; i++)
                    BT_SCOPE
                        losses[way][i] = bt_item(step(&t));
                look(&t, sums[way]);
            }
        for (int i = 0; i < STEPS; i++) assert_true(fabs(losses[0][i] - losses[1][i]) <= 2e-6 * fabs(losses[0][i]));
        for (int i = 0; i < PARAMETERS; i++) assert_true(fabs(sums[0][i] - sums[1][i]) <= 1e-4 * (1 + sums[0][i]));
    }
}

/* How often the host did it, by a profile. */
static int calls_of(const char *profile, const char *what) {
    const char *line = strstr(profile, what);
    int calls = 0;
    if (line && sscanf(line + strlen(what), "%d", &calls) != 1) fail_msg("no number in: %s", line);
    return calls;
}

static bool file_says(const char *path, const char *word) {
    char line[4096];
    bool found = false;
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    while (!found && fgets(line, sizeof line, file)) found = strstr(line, word);
    fclose(file);
    return found;
}

/* Losses, gradients, their sums and all updates. */
static void a_step_is_one_plan(void **state) {
    (void)state;
    char file[64];
    snprintf(file, sizeof file, "/tmp/berth-collective-%d.json", (int)getpid());
    use("driver");
    for (int which = 0; which < 3; which++)
        BT_SCOPE {
            training t = begin_training(which);
            for (int i = 0; i < 2; i++)
                BT_SCOPE
                    OK(bt_block(step(&t)));
            bt_synchronize();
            bt_profile *profile = bt_profile_start();
            BT_SCOPE
                OK(bt_block(step(&t)));
            bt_synchronize(); /* the sums and updates come after the loss */
            char *text = NULL;
            OK(bt_profile_stop(profile, file, &text));
            assert_int_equal(calls_of(text, "  planning "), 1);
            assert_int_equal(calls_of(text, "  submitting "), 1);
            bt_free(text);
            assert_true(file_says(file, "\"all_reduce\"")); /* the table has the longest ones alone */
            unlink(file);
        }
}

/* Each of them: the step fails, every replica is as before, nothing stays behind, the next step goes on. */
static void failed_folds(void **state) {
    static const char *const faults[] = {
        "all_reduce:1",   "all_reduce:2",   "gpu3/all_reduce:1",
        "all_reduce:4",   "gpu3/record:1",  "gpu3/record:2+",
        "gpu2/wait:1+",   "gpu0/wait:2",    "gpu1/launch:1+",
        "gpu2/launch:2+", "gpu0/launch:1+", "gpu1/record:1+;gpu1/launch:1+;gpu1/wait:1+;gpu1/query:1+"};
    (void)state;
    use("driver");
    size_t used_before = used();
    for (int which = 0; which < 3; which += 2) {
        BT_SCOPE {
            training t = begin_training(which);
            double before[PARAMETERS], after[PARAMETERS];
            BT_SCOPE(void) !bt_block(step(&t));
            look(&t, before);
            for (size_t f = 0; f < sizeof faults / sizeof *faults; f++) {
                bt_shared *p[PARAMETERS];
                bt_parameters(t.model, p, PARAMETERS);
                OK(bt_set_flag("sim_fault", faults[f]));
                bool told = false;
                BT_SCOPE
                    told = bt_block(step(&t)) != BT_OK;
                bt_synchronize();
                OK(bt_set_flag("sim_fault", ""));
                bt_error_clear();
                look(&t, after);
                for (int i = 0; i < PARAMETERS; i++)
                    if (before[i] != after[i]) fail_msg("after %s parameter %d has changed", faults[f], i);
                for (int i = 0; i < PARAMETERS; i++)
                    BT_SCOPE
                        told |= bt_set(p[i], bt_value(p[i])) != BT_OK; /* the first set after tells */
                if (!told) fail_msg("%s was not told", faults[f]);
                bt_error_clear();
                look(&t, after);
                bt_synchronize();
            }
            BT_SCOPE
                OK(bt_block(step(&t)));
            look(&t, after);
            for (int i = 0; i < PARAMETERS; i++) assert_true(before[i] != after[i]);
        }
        bt_synchronize();
        assert_int_equal(used(), used_before);
    }
}

static void a_failed_sum_says_why(void **state) {
    (void)state;
    use("driver");
    BT_SCOPE {
        bt_strategy *s = bt_mirrored(NULL, 0);
        bt_array *parts[4];
        make_parts(s, BT_F32, 3, 3, parts);
        OK(bt_set_flag("sim_fault", "gpu2/all_reduce:1"));
        bt_all_reduce(s, parts);
        for (int r = 0; r < 4; r++) {
            assert_int_equal(bt_block(parts[r]), BT_INTERNAL);
            ERROR(BT_INTERNAL, "call 1 of all_reduce on GPU:2");
        }
        OK(bt_set_flag("sim_fault", ""));
        make_parts(s, BT_F32, 3, 3, parts); /* a part that cannot be had is the cause for all */
        OK(bt_set_flag("sim_fault", "gpu3/launch:1+"));
        bt_all_reduce(s, parts);
        for (int r = 0; r < 4; r++) {
            assert_int_equal(bt_block(parts[r]), BT_INTERNAL);
            ERROR(BT_INTERNAL, "launch on GPU:3");
        }
        OK(bt_set_flag("sim_fault", ""));
    }
}

/* --- which way ----------------------------------------------------------------------------------------------------------- */

static void ways(void **state) {
    (void)state;
    BT_SCOPE {
        bt_strategy *unlike = bt_mirrored((const char *[]){"gpu:0", "cpu"}, 2), *like = bt_mirrored(NULL, 0);
        bt_array *parts[4];
        use("driver");
        make_parts(unlike, BT_F32, 2, 2, parts);
        bt_all_reduce(unlike, parts);
        assert_int_equal(bt_block(parts[1]), BT_FAILED_PRECONDITION);
        ERROR(BT_FAILED_PRECONDITION,
              "\"collectives\" is driver, but GPU:0 and CPU:0 are of different drivers, sim and cpu");
        use("auto");
        make_parts(unlike, BT_F32, 2, 2, parts);
        bt_all_reduce(unlike, parts);
        for (int r = 0; r < 2; r++) OK(bt_block(parts[r]));
        assert_int_equal(bt_error_status(), BT_OK);
        OK(bt_set_flag("sim_fault", "all_reduce:1+"));
        make_parts(like, BT_F32, 2, 2, parts);
        bt_all_reduce(like, parts);
        assert_int_equal(bt_block(parts[0]), BT_INTERNAL); /* the driver's way it was */
        bt_error_clear();
        make_parts(like, BT_BOOL, 2, 2,
                   parts); /* what it cannot fold is summed by copies, or refused by the sum itself */
        bt_all_reduce(like, parts);
        bt_error_clear();
        OK(bt_strategy_set_exact(like, true));
        bt_layer *model = NULL;
        BT_STRATEGY(like) model = bt_dense(2, 1, NULL, bt_key(1));
        OK(bt_block(
            bt_train_step(like, model, bt_sgd(0.1), loss_of, NULL, bt_ones(BT_F32, 8, 2), bt_zeros(BT_I32, 8))));
        OK(bt_set_flag("sim_fault", ""));
    }
}

/* --- at the same time ------------------------------------------------------------------------------------------------------ */

static void *fold_often(void *data) {
    const char *const *names = data;
    BT_SCOPE {
        bt_strategy *s = bt_mirrored(names, 3);
        bt_array *parts[3];
        for (int round = 0; round < 40; round++)
            BT_SCOPE {
                for (int r = 0; r < 3; r++)
                    BT_REPLICA(s, r) parts[r] = bt_full(r + round, BT_F32, 50);
                for (int again = 0; again < 3; again++) bt_all_reduce(s, parts);
                double expected = 9 * (3.0 * round + 3);
                for (int r = 0; r < 3; r++)
                    if (bt_item(bt_max(parts[r], BT_ALL, false)) != expected) return "another sum";
            }
    }
    return NULL;
}

/* Over the same devices in other orders: each queue is waited for by the others. */
static void many_at_once(void **state) {
    static const char *const orders[3][3] = {
        {"gpu:0", "gpu:1", "gpu:2"}, {"gpu:2", "gpu:1", "gpu:0"}, {"gpu:1", "gpu:3", "gpu:2"}};
    pthread_t threads[3];
    (void)state;
    use("driver");
    for (int i = 0; i < 3; i++) assert_int_equal(pthread_create(&threads[i], NULL, fold_often, (void *)orders[i]), 0);
    for (int i = 0; i < 3; i++) {
        void *wrong;
        pthread_join(threads[i], &wrong);
        if (wrong) fail_msg("%s", (const char *)wrong);
    }
}

static int back(void **state) {
    (void)state;
    use("auto");
    return bt_set_flag("sim_fault", "") != BT_OK;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(same_sums, back),
        cmocka_unit_test_teardown(parts_stay_as_they_were, back),
        cmocka_unit_test_teardown(gradients_go_through_it, back),
        cmocka_unit_test_teardown(same_training, back),
        cmocka_unit_test_teardown(a_step_is_one_plan, back),
        cmocka_unit_test_teardown(failed_folds, back),
        cmocka_unit_test_teardown(a_failed_sum_says_why, back),
        cmocka_unit_test_teardown(ways, back),
        cmocka_unit_test_teardown(many_at_once, back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
