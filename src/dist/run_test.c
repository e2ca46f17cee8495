// env: BERTH_FLAGS=devices=sim:gpu*8
// labels: threads
/* Steps of the program's own over parts of a batch: the bits of bt_train_step, on any number of devices in exact mode. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include <berth.h>

#define OK(call)                                                         \
    do {                                                                 \
        if ((call) != BT_OK) fail_msg("%s: %s", #call, bt_error_text()); \
    } while (0)

static void expect_cause(bt_status status, const char *part, int line) {
    if (bt_error_status() != status || !strstr(bt_error_text(), part))
        fail_msg("line %d: %s \"%s\" does not say \"%s\"", line, bt_status_name(bt_error_status()), bt_error_text(),
                 part);
    bt_error_clear();
}
#define FAILS(call, status, part)             \
    do {                                      \
        assert_int_equal(call, status);       \
        expect_cause(status, part, __LINE__); \
    } while (0)

static const char *const names[] = {"gpu:0", "gpu:1", "gpu:2", "gpu:3", "gpu:4", "gpu:5", "gpu:6", "gpu:7"};

enum { PARAMETERS = 6, STATES = 8, STEPS = 4, MOST = 512 };

/* Dropout and batch norm: masks and means of the whole batch. */
static bt_layer *make_model(void) {
    return bt_chain(bt_dense(5, 8, NULL, bt_key(1)), bt_batch_norm_layer(8), bt_lambda("tanh", bt_tanh),
                    bt_dropout_layer(0.25, bt_key(2)), bt_dense(8, 3, NULL, bt_key(3)));
}

typedef struct own {
    bt_layer *model;
    bt_shared *parameters[PARAMETERS];
    int calls, rows_seen;
} own;

static bt_status own_step(const bt_part *part, bt_array *const *inputs, bt_array **outputs, void *data) {
    own *o = data;
    assert_true(bt_is_training());
    assert_int_equal(bt_size(inputs[0], 0), part->rows);
    o->calls++;
    o->rows_seen += (int)part->rows;
    bt_array *guess = bt_apply(o->model, inputs[0]);
    outputs[0] = bt_cross_entropy(guess, inputs[1]);
    outputs[1] = bt_sum(bt_eq(bt_argmax(guess, 1), inputs[1]), BT_ALL, false);
    return bt_part_gradients(outputs[0], o->parameters, PARAMETERS, outputs + 2);
}

static bt_array *loss_of(bt_layer *model, bt_array *x, bt_array *y, void *data) {
    (void)data;
    return bt_cross_entropy(bt_apply(model, x), y);
}

typedef struct outcome {
    double losses[STEPS];
    float values[MOST];
    int count;
} outcome;

static void read_model(bt_strategy *s, bt_layer *model, outcome *out) {
    bt_shared *all[PARAMETERS + STATES];
    int count = bt_parameters(model, all, PARAMETERS);
    count += bt_states(model, all + count, STATES);
    out->count = 0;
    for (int i = 0; i < count; i++)
        BT_SCOPE {
            bt_array *first = bt_cast(bt_cpu(bt_value(all[i])), BT_F32);
            OK(bt_read(first, out->values + out->count, (size_t)bt_count(first) * sizeof(float)));
            for (int r = 1; s && r < bt_strategy_count(s); r++) {
                bt_array *other = NULL;
                BT_REPLICA(s, r) other = bt_value(all[i]);
                assert_int_equal(bt_item(bt_all(bt_eq(first, bt_cast(bt_cpu(other), BT_F32)), BT_ALL, false)), 1);
            }
            out->count += (int)bt_count(first);
        }
}

/* by_hand: the program's own loop. */
static void train(bt_strategy *s, bool by_hand, int64_t rows, outcome *out, own *o) {
    BT_SCOPE {
        BT_STRATEGY(s) o->model = make_model();
        assert_int_equal(bt_parameters(o->model, o->parameters, PARAMETERS), PARAMETERS);
        bt_optimizer *adam = bt_adam(0.05);
        bt_array *x = bt_normal(bt_key(4), BT_F32, rows, 5), *y = bt_randint(bt_key(5), 0, 3, BT_I32, rows);
        for (int i = 0; i < STEPS; i++)
            BT_SCOPE {
                bt_array *loss;
                if (by_hand) {
                    bt_parts *parts = bt_strategy_run(s, own_step, o, (bt_array *[]){x, y}, 2, 2 + PARAMETERS);
                    OK(bt_parts_status(parts));
                    loss = bt_parts_reduce(parts, BT_REDUCE_MEAN, 0);
                    OK(bt_parts_update(parts, adam, o->parameters, PARAMETERS, 2));
                } else
                    loss = bt_train_step(s, o->model, adam, loss_of, NULL, x, y);
                OK(bt_block(loss));
                out->losses[i] = bt_item(loss);
            }
        read_model(s, o->model, out);
    }
}

static void expect_same(const outcome *a, const outcome *b) {
    assert_memory_equal(a->losses, b->losses, sizeof a->losses);
    assert_int_equal(a->count, b->count);
    assert_memory_equal(a->values, b->values, (size_t)a->count * sizeof(float));
}

static void is_what_train_step_does(void **state) {
    (void)state;
    static const int64_t rows[] = {16, 13, 3};
    for (int r = 0; r < 3; r++)
        for (int count = 0; count <= 4; count += 2)
            BT_SCOPE {
                bt_strategy *s = count ? bt_mirrored(names, count) : NULL;
                if (count == 4) OK(bt_strategy_set_shares(s, (const double[]){4, 1, 2, 1}, 4));
                outcome step, hand;
                own o = {.calls = 0};
                train(s, false, rows[r], &step, &o);
                train(s, true, rows[r], &hand, &o);
                expect_same(&step, &hand);
                assert_int_equal(o.rows_seen, STEPS * rows[r]);
                assert_true(hand.losses[STEPS - 1] < hand.losses[0]);
            }
}

static void the_same_bits_on_any_number(void **state) {
    (void)state;
    static const int64_t rows[] = {64, 21, 5};
    for (int r = 0; r < 3; r++) {
        outcome one, more;
        for (int count = 1; count <= 8; count *= 2)
            BT_SCOPE {
                bt_strategy *s = bt_mirrored(names, count);
                OK(bt_strategy_set_exact(s, true));
                own o = {.calls = 0};
                train(s, true, rows[r], count == 1 ? &one : &more, &o);
                assert_int_equal(o.calls, STEPS * (rows[r] < 8 ? rows[r] : 8));
                if (count > 1) expect_same(&one, &more);
            }
    }
}

/* --- values of parts -------------------------------------------------------------------------------------------------- */

static bt_status sums_of_rows(const bt_part *part, bt_array *const *inputs, bt_array **outputs, void *data) {
    (void)data;
    outputs[0] = bt_mean(inputs[0], BT_ALL, false);
    outputs[1] = bt_sum(inputs[0], BT_ALL, false);
    outputs[2] = bt_f32((float)part->replica);
    return BT_OK;
}

static void parts_are_reduced_or_looked_at(void **state) {
    (void)state;
    BT_SCOPE {
        bt_strategy *s = bt_mirrored(names, 3);
        OK(bt_strategy_set_shares(s, (const double[]){5, 0.01, 3}, 3)); /* the second one has no rows */
        bt_array *x = BT_ARRAY(float, (8), 1, 2, 3, 4, 5, 6, 7, 8);
        bt_parts *parts = bt_strategy_run(s, sums_of_rows, NULL, &x, 1, 3);
        assert_int_equal(bt_parts_count(parts), 2);
        assert_true(bt_item(bt_parts_reduce(parts, BT_REDUCE_MEAN, 0)) == 4.5);
        assert_true(bt_item(bt_parts_reduce(parts, BT_REDUCE_SUM, 1)) == 36);
        assert_true(bt_item(bt_parts_reduce(parts, BT_REDUCE_SUM, 1)) == 36); /* again */
        bt_part second = bt_parts_part(parts, 1);
        assert_int_equal(second.replica, 2);
        assert_int_equal(second.first_row, 5);
        assert_int_equal(second.rows, 3);
        assert_int_equal(second.all_rows, 8);
        assert_int_equal(second.count, 2);
        bt_array *there = bt_parts_value(parts, 1, 1);
        assert_string_equal(bt_device_name(bt_device_of(there)), "GPU:2");
        assert_true(bt_item(there) == 6 + 7 + 8 && bt_item(bt_parts_value(parts, 2, 1)) == 2);
    }
}

/* --- two losses that share means ---------------------------------------------------------------------------------------- */

typedef struct pair {
    bt_shared *weights[2];
} pair;

/* m, a mean over the batch, is in both losses; the second one has a mean of its own. */
static bt_status two_losses(const bt_part *part, bt_array *const *inputs, bt_array **outputs, void *data) {
    pair *p = data;
    (void)part;
    bt_array *a = bt_mul(inputs[0], bt_value(p->weights[0]));
    bt_array *m = bt_batch_mean(bt_mean(a, BT_ALL, false));
    outputs[0] = bt_mean(bt_square(bt_sub(a, m)), BT_ALL, false);
    BT_SCOPE {
        OK(bt_part_gradients(outputs[0], p->weights, 1, outputs + 1));
        (void)bt_keep(outputs[1]);
    }
    bt_array *b = bt_mul(bt_sub(a, bt_mul(m, m)), bt_value(p->weights[1]));
    bt_array *n = bt_batch_mean(bt_mean(bt_square(b), BT_ALL, false));
    outputs[2] = bt_mul(n, bt_mean(bt_sin(b), BT_ALL, false));
    return bt_part_gradients(outputs[2], p->weights, 2, outputs + 3);
}

static void gradients_go_through_means(void **state) {
    (void)state;
    BT_SCOPE {
        double expected[5];
        for (int count = 0; count <= 4; count += 2) {
            bt_strategy *s = count ? bt_mirrored(names, count) : NULL;
            pair p = {{NULL, NULL}};
            BT_STRATEGY(s)
                for (int i = 0; i < 2; i++) p.weights[i] = bt_shared_new(bt_f32(i ? 0.7f : 1.3f), NULL);
            bt_array *x = bt_normal(bt_key(7), BT_F32, 11);
            bt_parts *parts = bt_strategy_run(s, two_losses, &p, &x, 1, 5);
            OK(bt_parts_status(parts));
            for (int k = 0; k < 5; k++) {
                bool is_loss = k == 0 || k == 2;
                double got = bt_item(bt_parts_reduce(parts, is_loss ? BT_REDUCE_MEAN : BT_REDUCE_SUM, k));
                if (!count) expected[k] = got;
                if (!(fabs(got - expected[k]) <= 2e-6 * (1 + fabs(expected[k]))))
                    fail_msg("%d devices, output %d: %.9g, not %.9g", count, k, got, expected[k]);
            }
        }
    }
}

/* --- refusals --------------------------------------------------------------------------------------------------------- */

static bt_status gives_nothing(const bt_part *part, bt_array *const *inputs, bt_array **outputs, void *data) {
    (void)part, (void)inputs, (void)outputs, (void)data;
    return BT_OK;
}
static bt_status says_no(const bt_part *part, bt_array *const *inputs, bt_array **outputs, void *data) {
    (void)inputs, (void)outputs, (void)data;
    return part->index == 1 ? BT_CANCELLED : BT_OK;
}
static bt_status runs_within(const bt_part *part, bt_array *const *inputs, bt_array **outputs, void *data) {
    (void)part, (void)outputs;
    return bt_parts_status(bt_strategy_run(data, sums_of_rows, NULL, inputs, 1, 3));
}
static bt_status other_means(const bt_part *part, bt_array *const *inputs, bt_array **outputs, void *data) {
    (void)data;
    bt_array *m = bt_mean(inputs[0], BT_ALL, false);
    outputs[0] = part->index ? bt_batch_mean(m) : m;
    return BT_OK;
}

static void refused_runs(void **state) {
    (void)state;
    BT_SCOPE {
        bt_strategy *s = bt_mirrored(names, 2);
        bt_array *x = bt_ones(BT_F32, 4, 1), *few = bt_ones(BT_F32, 3), *none = bt_zeros(BT_F32, 0, 2);
#define RUN(fn, inputs, count, outputs) bt_parts_status(bt_strategy_run(s, fn, s, inputs, count, outputs))
        FAILS(RUN(NULL, &x, 1, 1), BT_INVALID_ARGUMENT, "the function is NULL");
        FAILS(bt_parts_status(bt_strategy_run(bt_pipelined(2), says_no, s, &x, 1, 1)), BT_INVALID_ARGUMENT,
              "a run needs replicas");
        FAILS(bt_strategy_set_sharded(bt_pipelined(2), true), BT_INVALID_ARGUMENT, "has no replicas");
        FAILS(bt_part_gradients(x, NULL, 1, NULL), BT_INVALID_ARGUMENT, "the list of parameters is NULL");
        FAILS(RUN(says_no, NULL, 1, 0), BT_INVALID_ARGUMENT, "the list of inputs is NULL");
        FAILS(RUN(says_no, &x, 0, 0), BT_INVALID_ARGUMENT, "at least one input");
        FAILS(RUN(says_no, ((bt_array *[]){x, few}), 2, 0), BT_INVALID_ARGUMENT,
              "input 1 has 3 rows and the first one 4");
        FAILS(RUN(says_no, &none, 1, 0), BT_INVALID_ARGUMENT, "at least one");
        FAILS(RUN(says_no, &x, 1, 0), BT_CANCELLED, "bt_strategy_run: the function ended the run");
        FAILS(RUN(gives_nothing, &x, 1, 1), BT_INVALID_ARGUMENT, "output 0 of the function is NULL");
        FAILS(RUN(runs_within, &x, 1, 0), BT_FAILED_PRECONDITION, "in the function of another run");
        FAILS(RUN(other_means, &x, 1, 1), BT_INVALID_ARGUMENT, "bt_strategy_run: bt_batch_mean was called with other");
        bt_array *bad = bt_reshape(x, 3);
        FAILS(RUN(says_no, &bad, 1, 0), BT_INVALID_ARGUMENT, "bt_reshape");

        bt_parts *parts = bt_strategy_run(s, sums_of_rows, NULL, &x, 1, 3),
                 *poisoned = bt_strategy_run(s, NULL, s, &x, 1, 3);
        bt_error_clear();
        FAILS(bt_block(bt_parts_reduce(parts, BT_REDUCE_NONE, 0)), BT_INVALID_ARGUMENT, "bt_parts_value");
        FAILS(bt_block(bt_parts_reduce(parts, BT_REDUCE_SUM, 3)), BT_OUT_OF_RANGE, "output 3 of 3");
        FAILS(bt_block(bt_parts_value(parts, 0, 2)), BT_OUT_OF_RANGE, "part 2 of 2");
        FAILS(bt_block(bt_parts_reduce(poisoned, BT_REDUCE_SUM, 0)), BT_INVALID_ARGUMENT, "the function is NULL");
        assert_int_equal(bt_parts_count(poisoned), 0);
        assert_int_equal(bt_parts_part(parts, -1).rows, 0);
        bt_error_clear();
        bt_shared *w = bt_shared_new(bt_f32(1), NULL);
        FAILS(bt_parts_update(parts, bt_sgd(1), &w, 1, 3), BT_OUT_OF_RANGE, "1 outputs from output 3 on");
        FAILS(bt_parts_update(parts, NULL, &w, 1, 0), BT_INVALID_ARGUMENT, "optimiser is NULL");
        FAILS(bt_parts_update(NULL, bt_sgd(1), &w, 1, 0), BT_INVALID_ARGUMENT, "NULL");
    }
    assert_int_equal(bt_live_arrays(), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(is_what_train_step_does),
        cmocka_unit_test(the_same_bits_on_any_number),
        cmocka_unit_test(parts_are_reduced_or_looked_at),
        cmocka_unit_test(gradients_go_through_means),
        cmocka_unit_test(refused_runs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
