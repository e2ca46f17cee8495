// env: BERTH_FLAGS=devices=sim:gpu*2,default_device=cpu
// labels: valgrind threads
/* Layers, trees, summaries, optimisers. */
#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <berth.h>

#include "nn/layer.h"

#define F32(shape, ...) BT_ARRAY(float, shape, __VA_ARGS__)
#define OK(call) assert_int_equal(call, BT_OK)

#define READS(x, ...)                                                                                                \
    expect_elements(x, (const double[]){__VA_ARGS__}, (int)(sizeof((const double[]){__VA_ARGS__}) / sizeof(double)), \
                    __LINE__)
static void expect_elements(bt_array *x, const double *expected, int count, int line) {
    double got[64];
    if (bt_count(x) != count) fail_msg("line %d: %lld elements, not %d", line, (long long)bt_count(x), count);
    if (bt_read(bt_cast(x, BT_F64), got, (size_t)count * sizeof *got) != BT_OK)
        fail_msg("line %d: %s", line, bt_error_text());
    for (int i = 0; i < count; i++)
        if (!(fabs(got[i] - expected[i]) <= 1e-6 * fmax(1, fabs(expected[i]))))
            fail_msg("line %d: element %d is %.9g, not %.9g", line, i, got[i], expected[i]);
}

static void expect_cause(bt_status status, const char *part, int line) {
    if (bt_error_status() != status || !strstr(bt_error_text(), part))
        fail_msg("line %d: %s \"%s\" does not say \"%s\"", line, bt_status_name(bt_error_status()), bt_error_text(),
                 part);
    bt_error_clear();
}
#define CAUSE(status, part) expect_cause(status, part, __LINE__)
#define POISON(x, status, part)                        \
    do {                                               \
        bt_array *poisoned_ = (x);                     \
        assert_non_null(poisoned_);                    \
        assert_int_equal(bt_block(poisoned_), status); \
        CAUSE(status, part);                           \
    } while (0)

/* --- layers ---------------------------------------------------------------------------------------------------------- */

static void dense(void **state) {
    BT_SCOPE {
        bt_layer *layer = bt_dense_from(F32((2, 3), 1, 2, 3, 4, 5, 6), F32((3), 10, 20, -100), bt_relu);
        READS(bt_apply(layer, F32((1, 2), 1, 1)), 15, 27, 0);
        READS(bt_apply(layer, F32((2), 1, 0)), 11, 22, 0);
        assert_int_equal(bt_rank(bt_apply(layer, bt_ones(BT_F32, 4, 5, 2))), 3);
        READS(bt_apply(bt_dense_from(F32((1, 1), 3), NULL, NULL), F32((1, 1), 2)), 6);
        assert_int_equal(bt_parameters(bt_dense_from(F32((1, 1), 3), NULL, NULL), NULL, 0), 1);
    }
}

static void dense_starts_by_glorot(void **state) {
    BT_SCOPE {
        bt_layer *layer = bt_dense(300, 200, NULL, bt_key(1));
        bt_shared *parameters[2];
        assert_int_equal(bt_parameters(layer, parameters, 2), 2);
        bt_array *weight = bt_value(parameters[0]);
        double bound = sqrt(6.0 / 500), greatest = bt_item(bt_max(bt_abs(weight), BT_ALL, false));
        assert_true(greatest <= bound && greatest > 0.99 * bound);
        assert_true(fabs(bt_item(bt_mean(weight, BT_ALL, false))) < 0.01 * bound);
        assert_int_equal(bt_item(bt_all(bt_eq(bt_value(parameters[1]), bt_num(0)), BT_ALL, false)), 1);
        assert_int_equal(bt_parameter_count(layer), 300 * 200 + 200);
    }
}

static bt_array *twice(bt_array *x) { return bt_add(x, x); }
static bt_array *nothing(bt_array *x) { return NULL; }

static void chains(void **state) {
    BT_SCOPE {
        bt_layer *inner = bt_chain(bt_dense(4, 3, bt_tanh, bt_key(0)), bt_lambda("twice", twice));
        bt_layer *model = bt_chain(bt_flatten_layer(), inner, bt_dense(3, 2, NULL, bt_key(1)));
        bt_array *x = bt_ones(BT_F32, 5, 2, 2);
        uint64_t before = bt_live_arrays();
        bt_array *y = bt_apply(model, x);
        assert_int_equal(bt_live_arrays(), before + 1);
        assert_int_equal(bt_size(y, 0), 5);
        assert_int_equal(bt_size(y, 1), 2);
        bt_shared *p[4];
        static const char *const names[] = {"1.0.weight", "1.0.bias", "2.weight", "2.bias"};
        assert_int_equal(bt_parameters(model, p, 4), 4);
        for (int i = 0; i < 4; i++) assert_string_equal(bt_shared_name(p[i]), names[i]);
        assert_int_equal(bt_parameter_count(model), 15 + 8);
        bt_array *by_hand = bt_tanh(bt_add(bt_matmul(bt_ones(BT_F32, 5, 4), bt_value(p[0])), bt_value(p[1])));
        by_hand = bt_add(bt_matmul(bt_add(by_hand, by_hand), bt_value(p[2])), bt_value(p[3]));
        READS(bt_max(bt_abs(bt_sub(y, by_hand)), BT_ALL, false), 0);
        bt_array *itself = bt_apply(bt_lambda("same", bt_identity), x);
        assert_int_equal(bt_size(itself, 2), 2);
    }
}

static void refusals(void **state) {
    BT_SCOPE {
        bt_array *x = F32((1, 2), 1, 2);
        POISON(bt_apply(NULL, x), BT_INVALID_ARGUMENT, "the layer is NULL");
        POISON(bt_apply(bt_dense(3, 2, NULL, bt_key(0)), x), BT_INVALID_ARGUMENT, "(1, 2)");
        POISON(bt_apply(bt_dense(2, 2, NULL, bt_key(0)), NULL), BT_INVALID_ARGUMENT, "NULL");
        assert_int_not_equal(bt_layer_status(bt_dense(2, -1, NULL, bt_key(0))), BT_OK);
        CAUSE(BT_INVALID_ARGUMENT, "-1");
        assert_int_not_equal(bt_layer_status(bt_dense(2, 2, NULL, bt_f32(1))), BT_OK);
        CAUSE(BT_INVALID_ARGUMENT, "key");
        assert_int_not_equal(bt_layer_status(bt_dense_from(F32((3), 1, 2, 3), NULL, NULL)), BT_OK);
        CAUSE(BT_INVALID_ARGUMENT, "[in, out]");
        assert_int_not_equal(bt_layer_status(bt_dense_from(F32((2, 1), 1, 2), F32((1, 1), 1), NULL)), BT_OK);
        CAUSE(BT_INVALID_ARGUMENT, "out is 1");
        assert_int_not_equal(bt_layer_status(bt_dense_from(F32((2, 1), 1, 2), bt_reshape(bt_f32(1), 5), NULL)), BT_OK);
        CAUSE(BT_INVALID_ARGUMENT, "bt_reshape");
        assert_int_not_equal(bt_layer_status(bt_dense_from(NULL, NULL, NULL)), BT_OK);
        CAUSE(BT_INVALID_ARGUMENT, "NULL");
        assert_int_not_equal(bt_layer_status(bt_lambda("none", NULL)), BT_OK);
        CAUSE(BT_INVALID_ARGUMENT, "NULL");
        assert_int_not_equal(bt_layer_status(bt_chain(bt_flatten_layer(), NULL)), BT_OK);
        CAUSE(BT_INVALID_ARGUMENT, "NULL");
        assert_int_not_equal(bt_layer_status(bt_fmap(NULL, NULL, bt_flatten_layer())), BT_OK);
        CAUSE(BT_INVALID_ARGUMENT, "NULL");
        assert_int_not_equal(bt_layer_status(bt_fmap(NULL, NULL, NULL)), BT_OK);
        CAUSE(BT_INVALID_ARGUMENT, "NULL");
        assert_int_not_equal(bt_layer_status(bt_layer_to(bt_dense(2, 2, NULL, bt_key(0)), "gpu:7")), BT_OK);
        CAUSE(BT_NOT_FOUND, "unknown device");
        assert_null(bt_summary(NULL));
        CAUSE(BT_INVALID_ARGUMENT, "NULL");
        assert_int_equal(bt_parameters(NULL, NULL, 0), 0);
        assert_int_equal(bt_parameters(bt_dense(2, 2, NULL, bt_key(0)), NULL, 5), 2);
        CAUSE(BT_INVALID_ARGUMENT, "bt_parameters: the list for 5 parameters is NULL");
        assert_int_not_equal(bt_layer_status(bt_chain_of(NULL, 2)), BT_OK);
        CAUSE(BT_INVALID_ARGUMENT, "the list of layers is NULL, its count 2");
        assert_int_not_equal(bt_layer_status(bt_chain_of(NULL, -2)), BT_OK);
        CAUSE(BT_INVALID_ARGUMENT, "-2 layers");
        assert_int_equal(bt_parameters(bt_chain_of(NULL, 0), NULL, 0), 0);
        assert_int_equal(bt_parameter_count(NULL), 0);
        bt_layer_release(NULL);
        bt_optimizer_release(NULL);
        bt_array *y = bt_apply(bt_lambda("nothing", nothing), x);
        POISON(y, BT_INVALID_ARGUMENT, "NULL");
    }
}

/* --- trees ----------------------------------------------------------------------------------------------------------- */

static bt_array *negated(bt_array *value, void *calls) {
    ++*(int *)calls;
    return bt_neg(value);
}
static bt_array *fails_second(bt_array *value, void *calls) {
    return ++*(int *)calls == 2 ? bt_reshape(value, 77) : value;
}

static void mapped(void **state) {
    BT_SCOPE {
        bt_layer *layer = bt_chain(bt_dense_from(F32((1, 1), 3), F32((1), 4), NULL), bt_lambda("twice", twice));
        int calls = 0;
        bt_layer *map = bt_fmap(negated, &calls, layer);
        assert_int_equal(calls, 2);
        READS(bt_apply(layer, F32((1, 1), 1)), 14);
        READS(bt_apply(map, F32((1, 1), 1)), -14);
        bt_shared *p[2];
        bt_parameters(map, p, 2);
        assert_string_equal(bt_shared_name(p[1]), "0.bias");
        OK(bt_set(p[0], F32((1, 1), 0)));
        READS(bt_apply(layer, F32((1, 1), 1)), 14);
        calls = 0;
        assert_int_not_equal(bt_layer_status(bt_fmap(fails_second, &calls, layer)), BT_OK);
        CAUSE(BT_INVALID_ARGUMENT, "bt_reshape");
    }
}

/* A layer that a model uses twice is one layer, with one set of parameters. */
static void tied(void **state) {
    BT_SCOPE {
        bt_layer *d = bt_dense_from(F32((1, 1), 3), F32((1), 4), NULL);
        bt_layer *model = bt_chain(bt_chain(bt_lambda("twice", twice), d), d);
        bt_shared *p[4], *q[4];
        assert_int_equal(bt_parameters(model, p, 4), 2);
        assert_int_equal(bt_parameter_count(model), 2);
        assert_string_equal(bt_shared_name(p[0]), "0.1.weight");
        assert_string_equal(bt_shared_name(p[1]), "0.1.bias");
        READS(bt_apply(model, F32((1, 1), 1)), 34);
        OK(bt_save_model(BERTH_BUILD_DIR "/tests/tied.safetensors", model));

        int calls = 0;
        bt_layer *map = bt_fmap(negated, &calls, model);
        assert_int_equal(calls, 2);
        assert_int_equal(bt_parameters(map, q, 4), 2);
        assert_string_equal(bt_shared_name(q[1]), "0.1.bias");
        OK(bt_set(q[0], F32((1, 1), 1)));
        READS(bt_apply(map, F32((1, 1), 1)), -6);
        assert_int_equal(bt_parameters(bt_layer_to(model, "gpu:1"), NULL, 0), 2);
        OK(bt_load_model(BERTH_BUILD_DIR "/tests/tied.safetensors", map));
        READS(bt_apply(map, F32((1, 1), 1)), 34);

        bt_array *grads[2];
        OK(bt_grad_shared(bt_sum(bt_apply(model, F32((1, 1), 1)), BT_ALL, false), p, 2, grads));
        READS(grads[0], 16); /* w(2wx + b) + b by w */
        READS(grads[1], 4);
        calls = 0;
        assert_int_not_equal(bt_layer_status(bt_fmap(fails_second, &calls, model)), BT_OK);
        CAUSE(BT_INVALID_ARGUMENT, "bt_reshape");
    }
}

static void expect_device(bt_layer *layer, const char *name) {
    bt_shared *p[8];
    int count = bt_parameters(layer, p, 8);
    for (int i = 0; i < count; i++) assert_string_equal(bt_device_name(bt_device_of(bt_value(p[i]))), name);
}

static void moved(void **state) {
    BT_SCOPE {
        bt_layer *layer = bt_chain(bt_dense(2, 2, NULL, bt_key(0)), bt_dense(2, 1, NULL, bt_key(1))), *there;
        expect_device(layer, "CPU:0");
        expect_device(there = bt_layer_to(layer, "cuda:1"), "GPU:1");
        expect_device(bt_layer_gpu(layer), "GPU:0");
        expect_device(bt_layer_cpu(there), "CPU:0");
        BT_ON("gpu:1") expect_device(bt_dense(2, 2, NULL, bt_key(0)), "GPU:1");
        bt_array *x = F32((1, 2), 1, 2), *y = bt_apply(there, x);
        assert_string_equal(bt_device_name(bt_device_of(y)), "GPU:1");
        READS(bt_sub(bt_cpu(y), bt_apply(layer, x)), 0);
    }
}

static void tuples(void **state) {
    BT_SCOPE {
        bt_array *pair[2] = {F32((1), 1), BT_ARRAY(int32_t, (2), 1, 2)}, *first = pair[0];
        bt_to_all(pair, 2, "gpu:1");
        for (int i = 0; i < 2; i++) assert_string_equal(bt_device_name(bt_device_of(pair[i])), "GPU:1");
        bt_cpu_all(pair, 2);
        READS(pair[1], 1, 2);
        pair[0] = first;
        bt_cpu_all(pair, 1);
        first = pair[0]; /* committed now */
        bt_cpu_all(pair, 1);
        assert_ptr_equal(pair[0], first);
        bt_gpu_all(pair, 2);
        for (int i = 0; i < 2; i++) assert_string_equal(bt_device_name(bt_device_of(pair[i])), "GPU:0");
    }
}

static void expect_summary(bt_layer *layer, const char *expected) {
    char *text = bt_summary(layer);
    assert_non_null(text);
    assert_string_equal(text, expected);
    bt_free(text);
}

static void summaries(void **state) {
    BT_SCOPE {
        char *text = bt_summary(bt_dense(10, 5, NULL, bt_key(0)));
        assert_non_null(strstr(text, "Dense(10 => 5) "));
        assert_non_null(strstr(text, "# 55 parameters"));
        bt_free(text);
        bt_layer *model =
            bt_chain(bt_flatten_layer(), bt_dense(10, 5, bt_sigmoid, bt_key(0)),
                     bt_dense_from(bt_ones(BT_F32, 5, 2), NULL, twice), bt_lambda("softmax", bt_softmax_last));
        expect_summary(model, "Chain(\n"
                              "  Flatten(),\n"
                              "  Dense(10 => 5, sigmoid),      # 55 parameters\n"
                              "  Dense(5 => 2, function; bias=false), # 10 parameters\n"
                              "  softmax,\n"
                              ")                               # 65 parameters in all\n");
    }
}

/* What a file needs to make a layer again. */
static const char *option(const bt_layer *layer, const char *name) {
    const bti_layer_option *options;
    int count = bti_layer_options(layer, &options);
    for (int i = 0; i < count; i++)
        if (!strcmp(options[i].name, name)) return options[i].value;
    return "";
}

static void options_are_noted(void **state) {
    BT_SCOPE {
        bt_layer *conv = bt_layer_cpu(bt_conv_layer(2, 4, BT_SHAPE(3, 5), bt_tanh, bt_key(1), .stride = {2, 1}));
        assert_string_equal(option(conv, "kernel"), "(3, 5)");
        assert_string_equal(option(conv, "stride"), "(2, 1)");
        assert_string_equal(option(conv, "activation"), "tanh");
        assert_string_equal(option(bt_dropout_layer(0.25, bt_key(1)), "rate"), "0.25");
        assert_string_equal(option(bt_batch_norm_layer(3), "eps"), "1.0000000000000001e-05");
    }
}

/* --- optimisers ------------------------------------------------------------------------------------------------------ */

/* Three steps with gradients 1, 2, -1 and -0.5, by hand. */
static void expect_steps(bt_optimizer *optimizer, void by_hand(double *p, double *v, double *m, double g, int t),
                         int line) {
    assert_non_null(optimizer);
    static const double gradients[] = {1, 2, -1, -0.5};
    bt_shared *p = bt_shared_new(bt_f32(3), NULL), *other = bt_shared_new(F32((2), 1, 1), NULL);
    double expected = 3, v = 0, m = 0;
    for (int t = 0; t < 4; t++)
        BT_SCOPE {
            bt_array *grads[2] = {bt_f32((float)gradients[t]), F32((2), 0, 0)};
            bt_status status = bt_optimizer_step(optimizer, (bt_shared *[]){p, other}, grads, 2);
            if (status != BT_OK) fail_msg("line %d: %s", line, bt_error_text());
            by_hand(&expected, &v, &m, gradients[t], t + 1);
            double got = bt_item(bt_value(p));
            if (!(fabs(got - expected) < 2e-5))
                fail_msg("line %d: %.9g after step %d, not %.9g", line, got, t, expected);
            READS(bt_value(other), 1, 1);
        }
}

static void sgd_by_hand(double *p, double *v, double *m, double g, int t) { *p -= 0.1 * g; }
static void momentum_by_hand(double *p, double *v, double *m, double g, int t) {
    *v = 0.9 * *v + g;
    *p -= 0.1 * *v;
}
static void adam_by_hand(double *p, double *v, double *m, double g, int t) {
    *m = 0.9 * *m + 0.1 * g;
    *v = 0.999 * *v + 0.001 * g * g;
    *p -= 0.1 * (*m / (1 - pow(0.9, t))) / (sqrt(*v / (1 - pow(0.999, t))) + 1e-8);
}

static void optimisers(void **state) {
    BT_SCOPE {
        expect_steps(bt_sgd(0.1), sgd_by_hand, __LINE__);
        expect_steps(bt_momentum(0.1, 0.9), momentum_by_hand, __LINE__);
        expect_steps(bt_adam(0.1, 0.9, 0.999, 1e-8), adam_by_hand, __LINE__);
    }
}

/* A step that cannot be made changes no parameter and no state. */
static void failed_steps(void **state) {
    BT_SCOPE {
        bt_optimizer *optimizer = bt_momentum(0.5, 0.5);
        bt_shared *p[2] = {bt_shared_new(bt_f32(1), NULL), bt_shared_new(F32((2), 1, 1), NULL)};
        bt_array *good[2] = {bt_f32(1), F32((2), 1, 1)}, *bad[2] = {bt_f32(1), F32((3), 1, 1, 1)};
        OK(bt_optimizer_step(optimizer, p, good, 2));
        assert_int_equal(bt_optimizer_step(optimizer, p, bad, 2), BT_INVALID_ARGUMENT);
        CAUSE(BT_INVALID_ARGUMENT, "(3,)");
        bad[1] = bt_reshape(bt_f32(1), 7);
        assert_int_equal(bt_optimizer_step(optimizer, p, bad, 2), BT_INVALID_ARGUMENT);
        CAUSE(BT_INVALID_ARGUMENT, "bt_reshape");
        assert_int_equal(bt_optimizer_step(optimizer, (bt_shared *[]){NULL}, good, 1), BT_INVALID_ARGUMENT);
        CAUSE(BT_INVALID_ARGUMENT, "NULL");
        assert_int_equal(bt_optimizer_step(NULL, p, good, 2), BT_INVALID_ARGUMENT);
        CAUSE(BT_INVALID_ARGUMENT, "NULL");
        assert_int_equal(bt_optimizer_step(optimizer, NULL, good, 2), BT_INVALID_ARGUMENT);
        CAUSE(BT_INVALID_ARGUMENT, "the list of parameters is NULL");
        assert_int_equal(bt_optimizer_step(optimizer, p, NULL, 2), BT_INVALID_ARGUMENT);
        CAUSE(BT_INVALID_ARGUMENT, "the list of gradients is NULL");
        assert_int_equal(bt_optimizer_step(optimizer, p, good, -1), BT_INVALID_ARGUMENT);
        CAUSE(BT_INVALID_ARGUMENT, "-1 parameters");
        OK(bt_optimizer_step(optimizer, NULL, NULL, 0));
        READS(bt_value(p[0]), 0.5);
        OK(bt_optimizer_step(optimizer, p, good, 2));
        READS(bt_value(p[0]), -0.25);
        READS(bt_value(p[1]), -0.25, -0.25);
    }
}

static void states_live_with_their_parameters(void **state) {
    BT_SCOPE {
        bt_optimizer *optimizer = bt_adam(0.1, 0.9, 0.999, 1e-8);
        bt_layer *layer = bt_layer_to(bt_dense(2, 2, NULL, bt_key(0)), "gpu:1");
        bt_shared *p[2];
        bt_parameters(layer, p, 2);
        for (int i = 0; i < 3; i++) {
            bt_array *grads[2], *loss = bt_sum(bt_square(bt_apply(layer, bt_gpu(F32((1, 2), 1, 2)))), BT_ALL, false);
            OK(bt_grad_shared(loss, p, 2, grads));
            OK(bt_optimizer_step(optimizer, p, grads, 2));
        }
        expect_device(layer, "GPU:1");
        OK(bt_block(bt_value(p[0])));
        for (int i = 0; i < 20; i++)
            BT_SCOPE { /* no state is taken for that of one released before */
                bt_shared *passing = bt_shared_new(i % 2 ? F32((2), 1, 1) : bt_f32(1), NULL);
                bt_array *grad = i % 2 ? F32((2), 1, 1) : bt_f32(1);
                OK(bt_optimizer_step(optimizer, &passing, &grad, 1));
                if (i % 2) READS(bt_value(passing), 0.9, 0.9);
            }
    }
}

/* Eight threads, each with models of its own, one optimiser: its states are made by all of them at once. */
static void *train_alone(void *optimizer) {
    const char *failure = NULL;
    for (int round = 0; round < 5 && !failure; round++)
        BT_SCOPE {
            bt_shared *p[8], *all[8];
            bt_array *grads[8];
            for (int i = 0; i < 8; i++) {
                all[i] = p[i] = bt_shared_new(F32((2), 1, 1), NULL);
                grads[i] = F32((2), 1, 2);
            }
            for (int step = 0; step < 3; step++)
                if (bt_optimizer_step(optimizer, p, grads, 8) != BT_OK) failure = "a step failed";
            for (int i = 0; i < 8 && !failure; i++) {
                float got[2] = {0};
                if (bt_read(bt_value(all[i]), got, sizeof got) != BT_OK) failure = "a value cannot be read";
                /* v = 1, 1.5, 1.75; p = 1 - 0.5 (1 + 1.5 + 1.75) */
                if (got[0] != -1.125f || got[1] != -3.25f) failure = "a wrong value";
            }
        }
    return (void *)failure;
}

static void *train_the_same(void *arguments) {
    void **given = arguments;
    const char *failure = NULL;
    for (int i = 0; i < 10; i++)
        BT_SCOPE {
            bt_array *grad = bt_f32(1);
            if (bt_optimizer_step(given[0], (bt_shared *const *)&given[1], &grad, 1) != BT_OK)
                failure = "a step failed";
        }
    return (void *)failure;
}

static void in_threads(void *(*run)(void *), void *argument) {
    pthread_t threads[8];
    for (int i = 0; i < 8; i++) assert_int_equal(pthread_create(&threads[i], NULL, run, argument), 0);
    for (int i = 0; i < 8; i++) {
        void *failure;
        pthread_join(threads[i], &failure);
        if (failure) fail_msg("thread %d: %s", i, (const char *)failure);
    }
}

static void threads_share_an_optimiser(void **state) {
    BT_SCOPE {
        in_threads(train_alone, bt_momentum(0.5, 0.5));
        in_threads(train_the_same, (void *[]){bt_adam(0.1, 0.9, 0.999, 1e-8), bt_shared_new(bt_f32(1), NULL)});
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(dense),
        cmocka_unit_test(dense_starts_by_glorot),
        cmocka_unit_test(chains),
        cmocka_unit_test(refusals),
        cmocka_unit_test(mapped),
        cmocka_unit_test(tied),
        cmocka_unit_test(moved),
        cmocka_unit_test(tuples),
        cmocka_unit_test(summaries),
        cmocka_unit_test(options_are_noted),
        cmocka_unit_test(optimisers),
        cmocka_unit_test(failed_steps),
        cmocka_unit_test(states_live_with_their_parameters),
        cmocka_unit_test(threads_share_an_optimiser),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
