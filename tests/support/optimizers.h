/* What the tests of optimisers share: a small model, and an optimiser with every part. */
#ifndef BERTH_TESTS_SUPPORT_OPTIMIZERS_H
#define BERTH_TESTS_SUPPORT_OPTIMIZERS_H

#include "support/support.h"

#define F32(shape, ...) BT_ARRAY(float, shape, __VA_ARGS__)
enum { ROWS = 12, IN = 5, HIDDEN = 4, OUT = 3, PARAMETERS = 4, MOST_STATES = 40 };

static inline bt_layer *new_model(void) {
    return bt_chain(bt_dense(IN, HIDDEN, bt_tanh, bt_key(1)), bt_dense(HIDDEN, OUT, NULL, bt_key(2)));
}

static inline bt_array *squares(bt_layer *model, bt_array *x, bt_array *y, void *data) {
    (void)data;
    return bt_mse(bt_apply(model, x), y);
}

static inline bt_array *inputs(void) { return bt_uniform(bt_key(3), BT_F32, ROWS, IN); }
static inline bt_array *targets(void) { return bt_uniform(bt_key(4), BT_F32, ROWS, OUT); }

static inline bt_optimizer *full_optimizer(bt_layer *model) {
    bt_optimizer *o = bt_adamw(0.05, .decay = 0.1, .clip_norm = 0.2, .accumulate = 2, .average = 0.5, .loss_scale = 64,
                               .scale_interval = 3);
    bt_shared *p[PARAMETERS];
    OK(bt_optimizer_schedule(o, BT_SCHEDULE_COSINE, .steps = 8, .warmup = 2, .first = 0.5));
    assert_int_equal(bt_parameters(model, p, PARAMETERS), PARAMETERS);
    OK(bt_optimizer_group(o, (bt_shared *[]){p[1], p[3]}, 2, .decay = 0));
    return o;
}

static inline void read_all(bt_layer *model, float *values) {
    bt_shared *p[PARAMETERS];
    bt_parameters(model, p, PARAMETERS);
    for (int i = 0; i < PARAMETERS; i++) {
        size_t count = (size_t)bt_count(bt_value(p[i]));
        OK(bt_read(bt_value(p[i]), values, count * sizeof *values));
        values += count;
    }
}
enum { VALUES = IN * HIDDEN + HIDDEN + HIDDEN * OUT + OUT };

static inline void expect_near(const float *a, const float *b, float tolerance, const char *what) {
    for (int i = 0; i < VALUES; i++)
        if (!(fabsf(a[i] - b[i]) <= tolerance))
            fail_msg("%s: element %d is %.9g, not %.9g", what, i, (double)a[i], (double)b[i]);
}

static inline void train_steps(bt_strategy *strategy, bt_layer *model, bt_optimizer *o, int steps) {
    for (int i = 0; i < steps; i++)
        BT_SCOPE
            OK(bt_block(bt_train_step(strategy, model, o, squares, NULL, inputs(), targets())));
}

#endif
