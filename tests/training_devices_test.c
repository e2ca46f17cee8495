/* Training goes on where the model is: batches travel to it, and nothing else crosses, as the devices' counters tell. */
#include <math.h>

#include "support/support.h"

enum { ROWS = 20, IN = 3, OUT = 2, BATCH = 8, EPOCHS = 2, STEPS = 3 * EPOCHS };
#define BYTES_X (EPOCHS * ROWS * IN * sizeof(float))
#define BYTES_Y (EPOCHS * ROWS * sizeof(int32_t))

static float data_x[ROWS * IN];
static int32_t data_y[ROWS];

static void fill_data(void) {
    for (int i = 0; i < ROWS * IN; i++) data_x[i] = (float)((i * 7 % 11) - 5) / 4;
    for (int i = 0; i < ROWS; i++) data_y[i] = data_x[i * IN] > 0;
}

static bt_array *data_on(const char *name, bool labels) {
    bt_array *data = NULL;
    BT_ON(name) data = labels ? bt_from(data_y, BT_I32, BT_SHAPE(ROWS)) : bt_from(data_x, BT_F32, BT_SHAPE(ROWS, IN));
    return data;
}

static bt_layer *small_model(void) {
    return bt_chain(bt_dense(IN, 4, bt_tanh, bt_key(1)), bt_dense(4, OUT, NULL, bt_key(2)));
}

typedef struct traffic {
    uint64_t in[3], out; /* of gpu:0, gpu:1 and the CPU; from the GPUs to anywhere */
} traffic;

static traffic look(void) {
    bt_synchronize();
    bt_memory_info a = memory("gpu:0"), b = memory("gpu:1"), c = memory("cpu");
    return (traffic){{a.copied_in, b.copied_in, c.copied_in}, a.copied_out + b.copied_out};
}

static traffic since(traffic before) {
    traffic now = look();
    for (int i = 0; i < 3; i++) now.in[i] -= before.in[i];
    now.out -= before.out;
    return now;
}

/* The last loss of training over that data; what it moved. */
static double train(bt_layer *model, bt_array *x, bt_array *y, bool in_order, bt_strategy *strategy, traffic *moved) {
    bt_fit_report report;
    OK(bt_block(x));
    OK(bt_block(y));
    traffic before = look();
    OK(bt_fit(model, bt_momentum(0.1, 0.9), x, y,
              &(bt_fit_options){BT_FIT_INIT, .epochs = EPOCHS, .batch = BATCH, .in_order = in_order, .quiet = true,
                                .strategy = strategy},
              &report));
    *moved = since(before);
    assert_int_equal(report.steps, STEPS);
    return report.last_loss;
}

static double loss_on_the_cpu(bool in_order) {
    double loss = NAN;
    fresh("devices=sim:gpu*2,default_device=cpu");
    BT_SCOPE {
        traffic moved;
        loss = train(small_model(), data_on("cpu", false), data_on("cpu", true), in_order, NULL, &moved);
    }
    return loss;
}

static void close_to(double a, double b) {
    if (!(fabs(a - b) <= 1e-5 * fabs(b))) fail_msg("%.9g, not %.9g", a, b);
}

static const char *const devices[3] = {"gpu:0", "gpu:1", "cpu"};
static const struct {
    const char *model, *x, *y; /* model NULL: made on the default device, and not committed */
    uint64_t in[3];            /* bytes that come to gpu:0, gpu:1, the CPU */
} places[] = {
    {"gpu:1", "cpu", "cpu", {0, BYTES_X + BYTES_Y, 0}},
    {"gpu:0", "cpu", "cpu", {BYTES_X + BYTES_Y, 0, 0}},
    {NULL, "cpu", "cpu", {BYTES_X + BYTES_Y, 0, 0}},
    {"cpu", "gpu:1", "gpu:1", {0, 0, BYTES_X + BYTES_Y}},
    {"gpu:1", "gpu:0", "gpu:0", {0, BYTES_X + BYTES_Y, 0}},
    {"gpu:1", "cpu", "gpu:1", {0, BYTES_X, 0}},
    {"gpu:1", "gpu:1", "gpu:1", {0, 0, 0}},
    {NULL, "gpu:0", "gpu:0", {0, 0, 0}},
    {"gpu:1", "gpu:1", "gpu:0", {0, BYTES_Y, 0}},
};

static void only_batches_cross(void **state) {
    double expected[2] = {loss_on_the_cpu(false), loss_on_the_cpu(true)};
    for (int i = 0; i < COUNT(places) * 4; i++) {
        int p = i / 4, in_order = i % 2, strict = i / 2 % 2;
        fresh("devices=sim:gpu*2");
        if (strict) OK(bt_set_flag("transfers", "error"));
        BT_SCOPE {
            bt_layer *model = places[p].model ? bt_layer_to(small_model(), places[p].model) : small_model();
            bt_array *x = data_on(places[p].x, false), *y = data_on(places[p].y, true);
            traffic moved;
            bt_shared *weight;
            bt_parameters(model, &weight, 1);
            bt_device *home = bt_device_of(bt_value(weight));
            close_to(train(model, x, y, in_order, NULL, &moved), expected[in_order]);
            for (int k = 0; k < 3; k++) { /* the key of an epoch's order is written where x is; the order goes to y */
                uint64_t expect = places[p].in[k];
                if (!in_order && !strcmp(places[p].x, devices[k])) expect += EPOCHS * 2 * sizeof(uint32_t);
                if (!in_order && strcmp(places[p].x, places[p].y) && !strcmp(places[p].y, devices[k]))
                    expect += EPOCHS * ROWS * sizeof(int32_t);
                const char *at = places[p].model ? places[p].model : "gpu:0"; /* where the sum of losses begins, at 0 */
                if (!strcmp(at, devices[k])) expect += EPOCHS * sizeof(float);
                if (moved.in[k] != expect)
                    fail_msg("case %d: %d bytes came to %s, not %d", i, (int)moved.in[k], devices[k], (int)expect);
            }
            assert_ptr_equal(bt_device_of(bt_value(weight)), home);
            traffic before = look();
            double part = bt_accuracy(model, x, y);
            if (!(part >= 0 && part <= 1)) fail_msg("case %d: %s", i, bt_error_text());
            moved = since(before);
            for (int k = 0; k < 3; k++)
                if (moved.in[k] > places[p].in[k] / EPOCHS) fail_msg("case %d: %d bytes", i, (int)moved.in[k]);
        }
    }
}

static bt_array *to_second(bt_array *x) { return bt_to(x, "gpu:1"); }

/* Layers on two devices: the batch to the first, labels to the second, activations from one to the other and their gradient back. */
static void a_model_over_two_devices(void **state) {
    double expected = loss_on_the_cpu(true);
    enum { BETWEEN = EPOCHS * ROWS * 4 * sizeof(float) };
    for (int way = 0; way < 3;
         way++) { /* by the policy; under transfers=error by a layer that moves; the output elsewhere */
        fresh("devices=sim:gpu*2");
        BT_SCOPE {
            bt_layer *first = bt_layer_to(bt_dense(IN, 4, bt_tanh, bt_key(1)), "gpu:0");
            bt_layer *second = bt_layer_to(bt_dense(4, OUT, NULL, bt_key(2)), "gpu:1");
            bt_layer *model =
                way == 0   ? bt_chain(first, second)
                : way == 1 ? bt_chain(first, bt_lambda("to gpu:1", to_second), second)
                           : bt_chain(first, bt_lambda("to gpu:1", to_second), second, bt_lambda("to cpu", bt_cpu));
            if (way) OK(bt_set_flag("transfers", "error"));
            traffic moved;
            close_to(train(model, data_on("cpu", false), data_on("cpu", true), true, NULL, &moved), expected);
            assert_int_equal(moved.in[0], BYTES_X + BETWEEN);
            if (way < 2) {
                assert_int_equal(moved.in[1], BETWEEN + BYTES_Y);
                assert_int_equal(moved.in[2], 0);
            } else {
                assert_int_equal(moved.in[1], BETWEEN + EPOCHS * ROWS * OUT * sizeof(float));
                assert_int_equal(moved.in[2], EPOCHS * ROWS * OUT * sizeof(float));
            }
            assert_true(isfinite(bt_accuracy(model, data_on("cpu", false), data_on("cpu", true))));
        }
    }
}

static void mirrored(void **state) {
    double expected = loss_on_the_cpu(true);
    fresh("devices=sim:gpu*2,transfers=error,collectives=copies");
    BT_SCOPE {
        bt_strategy *s = bt_mirrored(NULL, 0);
        bt_layer *model = NULL;
        traffic moved;
        BT_STRATEGY(s) model = small_model();
        close_to(train(model, data_on("cpu", false), data_on("cpu", true), true, s, &moved), expected);
        uint64_t parameters = (uint64_t)bt_parameter_count(model) * sizeof(float);
        /* half of the rows each; gradients to the first and their sum back; losses to the first, and each to the host */
        assert_int_equal(moved.in[0], (BYTES_X + BYTES_Y) / 2 + STEPS * (parameters + sizeof(float)));
        assert_int_equal(moved.in[1], (BYTES_X + BYTES_Y) / 2 + STEPS * parameters);
        assert_int_equal(moved.in[2], STEPS * sizeof(float) + (STEPS + 1) * sizeof(int64_t)); /* and counts of steps */
    }
}

static bt_array *squares(bt_layer *model, bt_array *x, bt_array *y, void *data) {
    return bt_mse(bt_apply(model, x), y);
}

static void a_step_by_hand(void **state) {
    fresh("devices=sim:gpu*2,transfers=error");
    BT_SCOPE {
        bt_layer *model = bt_layer_to(bt_dense(2, 2, NULL, bt_key(1)), "gpu:1");
        bt_array *x = bt_cpu(BT_ARRAY(float, (2, 2), 1, 2, 3, 4)), *loss;
        OK(bt_block(x));
        traffic before = look();
        loss = bt_train_step(NULL, model, bt_sgd(0.1), squares, NULL, x, x);
        OK(bt_block(loss));
        assert_ptr_equal(bt_device_of(loss), bt_device_get(BT_GPU, 1));
        traffic moved = since(before);
        assert_int_equal(moved.in[0], 0);
        assert_int_equal(moved.in[1], 16); /* once */
        assert_int_equal(moved.in[2] + moved.out, 0);
        BT_ON("gpu:0") loss = bt_train_step(NULL, model, bt_sgd(0.1), squares, NULL, x, x); /* a block decides */
        POISONED(loss, BT_FAILED_PRECONDITION, "in the block on GPU:0");
        BT_ON("gpu:1") {
            OK(bt_block(bt_train_step(NULL, model, bt_sgd(0.1), squares, NULL, x, x)));
            OK(bt_fit(model, bt_sgd(0.1), x, x, BT_FIT_OPTIONS(.loss = squares, .quiet = true), NULL));
            bt_array *classes = NULL;
            BT_ON("cpu") classes = BT_ARRAY(int32_t, (2), 0, 1);
            assert_false(isnan(bt_accuracy(model, x, classes)));
        }
        OK(bt_set_flag("default_device", "gpu:1"));
        OK(bt_set_flag("placement", "tensorflow"));
        OK(bt_block(bt_train_step(NULL, model, bt_sgd(0.1), squares, NULL, x, x)));
        OK(bt_set_flag("placement", "berth"));
        OK(bt_set_flag("default_device", ""));
    }
}

int main(void) {
    fill_data();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_batches_cross),
        cmocka_unit_test(a_model_over_two_devices),
        cmocka_unit_test(mirrored),
        cmocka_unit_test(a_step_by_hand),
    };
    return cmocka_run_group_tests(tests, NULL, fresh_end);
}
