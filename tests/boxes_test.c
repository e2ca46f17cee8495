/* Kernels of one text over several boxes: the bits of each alone, on simulated and emulated GPUs. */
#include "support/support.h"

enum { PARAMETERS = 30, STEPS = 3, ROOM = 1 << 16 };

static int64_t length_of(int i) { return 5 + 61 * i + i % 3; }

/* The parameters after some steps of an optimiser, one behind the other. */
static void train(const char *flags, bool adam, float *all) {
    char settings[200];
    snprintf(settings, sizeof settings, "%s%s", on_cuda() ? "" : "devices=sim:gpu*1,", flags);
    fresh(settings);
    BT_SCOPE {
        bt_optimizer *optimizer = adam ? bt_adam(0.01, 0.9, 0.999, 1e-8) : bt_sgd(0.1);
        bt_shared *parameters[PARAMETERS];
        bt_array *grads[PARAMETERS], *values[PARAMETERS];
        for (int i = 0; i < PARAMETERS; i++)
            parameters[i] = bt_shared_new(bt_sin(bt_arange(i, i + (double)length_of(i), 1, BT_F32)), NULL);
        for (int step = 0; step < STEPS; step++)
            BT_SCOPE {
                for (int i = 0; i < PARAMETERS; i++) grads[i] = bt_cos(bt_mul(bt_value(parameters[i]), bt_num(i)));
                OK(bt_optimizer_step(optimizer, parameters, grads, PARAMETERS));
                for (int i = 0; i < PARAMETERS; i++) values[i] = bt_value(parameters[i]);
                OK(bt_eval_all(values, PARAMETERS));
            }
        for (int i = 0; i < PARAMETERS; i++) {
            OK(bt_read(bt_value(parameters[i]), all, (size_t)length_of(i) * sizeof *all));
            all += length_of(i);
        }
    }
}

static void updates_have_the_bits_of_single_kernels(void **state) {
    static float together[ROOM], apart[ROOM];
    for (int adam = 0; adam < 2; adam++) {
        memset(together, 0, sizeof together);
        memset(apart, 0, sizeof apart);
        train("fuse=on", adam, together);
        train("fuse=off", adam, apart);
        assert_memory_equal(together, apart, sizeof together);
    }
}

/* Boxes of two axes whose operands lie in all ways: dense, from the middle of others, transposed, reversed. */
static void views_have_the_bits_of_single_kernels(void **state) {
    enum { VIEWS = 12, ROWS = 30, COLUMNS = 70 };
    static float results[2][VIEWS][ROWS * COLUMNS];
    memset(results, 0, sizeof results);
    for (int fused = 0; fused < 2; fused++) {
        char settings[100];
        snprintf(settings, sizeof settings, "%sfuse=%s", on_cuda() ? "" : "devices=sim:gpu*1,", fused ? "on" : "off");
        fresh(settings);
        BT_SCOPE {
            bt_array *made[VIEWS];
            for (int i = 0; i < VIEWS; i++) {
                int64_t rows = ROWS - i, columns = COLUMNS - 3 * i;
                bt_array *x = bt_reshape(bt_arange(i, i + 100.0 * 100, 1, BT_F32), 100, 100);
                OK(bt_eval(x));
                if (i % 4 == 1) x = bt_transpose(x);
                if (i % 4 == 2) x = bt_flip(x, BT_AXES(1));
                x = bt_slice_axis(bt_slice_axis(x, 0, i % 3, i % 3 + rows, 1), 1, i % 5, i % 5 + columns, 1);
                made[i] = bt_add(bt_sin(x), bt_num(i));
            }
            OK(bt_eval_all(made, VIEWS));
            for (int i = 0; i < VIEWS; i++)
                OK(bt_read(made[i], results[fused][i], (size_t)bt_count(made[i]) * sizeof(float)));
        }
    }
    assert_memory_equal(results[0], results[1], sizeof results[0]);
}

/* Each box in the place of what it reads last, in blocks and compiled; and where compiling pays at one of the boxes. */
static void boxes_in_place_run_once(void **state) {
    enum { BOXES = 6, SIDE = 240, CALLS = 4 };
    static float results[3][CALLS][BOXES][SIDE * SIDE];
    static const char *const ways[3] = {"fuse=off", "fuse=on,graphs=off", "fuse=on,kernels=compiled"};
    for (int way = 0; way < 3; way++) {
        char settings[100];
        snprintf(settings, sizeof settings, "%s%s", on_cuda() ? "" : "devices=sim:gpu*1,", ways[way]);
        fresh(settings);
        BT_SCOPE {
            bt_array *given = bt_reshape(bt_sin(bt_arange(0, SIDE * SIDE, 1, BT_F32)), SIDE, SIDE);
            bt_array *w = bt_input(BT_F32, SIDE, SIDE), *m[BOXES], *y[BOXES], *got[BOXES];
            for (int i = 0; i < BOXES; i++) m[i] = bt_matmul(bt_mul(w, bt_num(i)), w);
            for (int i = 0; i < BOXES; i++)
                y[i] = bt_matmul(bt_tanh(bt_sin(bt_exp(bt_sin(bt_tanh(bt_exp(bt_sin(m[i]))))))), w);
            bt_function *f = bt_function_new(&w, 1, y, BOXES, NULL, 0);
            for (int call = 0; call < CALLS; call++) {
                OK(bt_call(f, &given, 1, got, BOXES));
                for (int i = 0; i < BOXES; i++) OK(bt_read(got[i], results[way][call][i], sizeof results[0][0][0]));
            }
        }
        assert_memory_equal(results[0], results[way], sizeof results[0]);
    }
}

/* What reads an array that failed fails, and nothing beside it. */
static void only_what_reads_a_failure_fails(void **state) {
    if (on_cuda()) skip(); /* the fault is a flag of simulated devices */
    fresh("devices=sim:gpu*1");
    BT_SCOPE {
        bt_array *x[4], *y[4];
        for (int i = 0; i < 4; i++) x[i] = bt_exp(bt_full(0.25 * i, BT_F32, 100 + i));
        float got[104];
        for (int i = 0; i < 2; i++) OK(bt_read(x[i], got, (size_t)bt_count(x[i]) * sizeof *got));
        OK(bt_set_flag("sim_fault", "launch:1")); /* of x[2], which is known when the roots are launched */
        OK(bt_eval(x[2]));
        OK(bt_eval(x[3]));
        for (int i = 0; i < 4; i++) y[i] = bt_sqrt(x[i]);
        FAILS(bt_eval_all(y, 4), BT_INTERNAL, "injected fault");
        for (int i = 0; i < 4; i++) {
            if (i == 2)
                POISONED(y[i], BT_INTERNAL, "injected fault");
            else
                OK(bt_read(y[i], got, (size_t)bt_count(y[i]) * sizeof *got));
        }
    }
}

int main(void) {
    restart_emulated();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(updates_have_the_bits_of_single_kernels),
        cmocka_unit_test(views_have_the_bits_of_single_kernels),
        cmocka_unit_test(boxes_in_place_run_once),
        cmocka_unit_test(only_what_reads_a_failure_fails),
    };
    return cmocka_run_group_tests(tests, NULL, fresh_end);
}
