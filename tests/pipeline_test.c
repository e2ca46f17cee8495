// labels: threads
// timeout: 600
/* Micro-batches through a model whose layers lie on several devices: the numbers of the whole batch, the same bits wherever layers lie, memory, the bubble in virtual time. */
#include <math.h>
#include <unistd.h>

#include <jansson.h>

#include "support/support.h"

enum { ROWS = 37, WIDTH = 12, NUMBERS = 4096 };

static char trace_path[64];

static int start(void **state) {
    fresh("devices=sim:gpu*4");
    snprintf(trace_path, sizeof trace_path, "/tmp/berth-pipeline-%d.json", (int)getpid());
    return 0;
}

static const char *gpu(int number) {
    static const char *const names[] = {"gpu:0", "gpu:1", "gpu:2", "gpu:3"};
    return names[number];
}

static bt_array *squared(bt_layer *model, bt_array *x, bt_array *y, void *unused) {
    return bt_mse(bt_apply(model, x), y);
}

/* --- the numbers --------------------------------------------------------------------------------------------------------- */

/* Layers with and without parameters, with states and random bits, and a slope that is had from the input. */
static bt_layer *mixed_model(void) {
    return bt_chain(bt_dense(WIDTH, 16, bt_gelu, bt_key(1)), bt_dropout_layer(0.25, bt_key(2)),
                    bt_dense(16, 16, bt_tanh, bt_key(3)), bt_layer_norm_layer(16),
                    bt_skip(bt_dense(16, 16, bt_relu, bt_key(4)), NULL), bt_lambda("silu", bt_silu),
                    bt_dense(16, 16, bt_sigmoid, bt_key(5)), bt_dense(16, 3, NULL, bt_key(6)));
}

/* Parameters, then states. */
static int numbers_of(bt_layer *model, float *numbers) {
    bt_shared *all[64];
    int count = bt_parameters(model, all, 64), total = 0;
    count += bt_states(model, all + count, 64 - count);
    for (int i = 0; i < count; i++)
        BT_SCOPE {
            bt_array *value = bt_cast(bt_value(all[i]), BT_F32);
            assert_true(total + bt_count(value) <= NUMBERS);
            OK(bt_read(value, numbers + total, (size_t)bt_count(value) * sizeof *numbers));
            total += (int)bt_count(value);
        }
    return total;
}

/* Some steps, with an optimiser that has states; the last loss and what the model then has. */
static double train(bt_layer *model, bt_strategy *strategy, int64_t rows, float *numbers) {
    double loss = NAN;
    BT_SCOPE {
        bt_optimizer *adam = bt_adam(0.01, .clip_norm = 1);
        bt_array *x = bt_normal(bt_key(7), BT_F32, rows, WIDTH), *y = bt_normal(bt_key(8), BT_F32, rows, 3);
        for (int i = 0; i < 3; i++)
            BT_SCOPE
                loss = bt_item(bt_train_step(strategy, model, adam, squared, NULL, x, y));
        assert_int_equal(bt_error_status(), BT_OK);
        numbers_of(model, numbers);
    }
    return loss;
}

static void numbers_are_those_of_the_whole_batch(void **state) {
    static const int batches[] = {1, 2, 5, 8, 1000};
    BT_SCOPE {
        static float whole[NUMBERS], parts[NUMBERS];
        double loss = train(mixed_model(), NULL, ROWS, whole);
        int count = numbers_of(mixed_model(), parts);
        for (int i = 0; i < COUNT(batches); i++) {
            assert_true(fabs(train(mixed_model(), bt_pipelined(batches[i]), ROWS, parts) - loss) < 1e-5);
            for (int k = 0; k < count; k++)
                if (!(fabsf(parts[k] - whole[k]) <= 2e-4f))
                    fail_msg("%d micro-batches: number %d is %g, not %g", batches[i], k, parts[k], whole[k]);
        }
    }
}

/* By hand, and by how many parameters they have. */
static void bits_do_not_depend_on_the_devices(void **state) {
    static float one[NUMBERS], some[NUMBERS];
    BT_SCOPE {
        bt_strategy *five = bt_pipelined(5);
        double loss = train(mixed_model(), five, ROWS, one);
        int count = numbers_of(mixed_model(), some);
        for (int devices = 1; devices <= 4; devices++) {
            bt_layer *model =
                bt_layer_to_stages(mixed_model(), (const char *[]){gpu(0), gpu(1), gpu(2), gpu(3)}, devices, NULL);
            assert_true(train(model, five, ROWS, some) == loss);
            assert_memory_equal(one, some, (size_t)count * sizeof *one);
        }
        bt_layer *mixed = mixed_model();
        bt_layer *back = bt_chain(bt_layer_to(mixed, gpu(1)), bt_dense(3, 3, NULL, bt_key(9))); /* B, then A */
        bt_layer *same = bt_chain(mixed_model(), bt_dense(3, 3, NULL, bt_key(9)));
        loss = train(same, five, ROWS, one);
        assert_true(train(back, five, ROWS, some) == loss);
        assert_memory_equal(one, some, (size_t)count * sizeof *one);
    }
}

/* A device between two stages of another one: A, B, A; and one layer alone. */
static void a_device_has_several_stages(void **state) {
    static float one[NUMBERS], some[NUMBERS];
    BT_SCOPE {
        bt_layer *layers[2][3];
        for (int i = 0; i < 3; i++) {
            layers[0][i] = bt_dense(i ? 8 : WIDTH, i == 2 ? 3 : 8, bt_tanh, bt_key((uint64_t)i));
            layers[1][i] = bt_layer_to(layers[0][i], gpu(i % 2));
        }
        bt_strategy *four = bt_pipelined(4);
        double loss = train(bt_chain_of(layers[0], 3), four, ROWS, one);
        assert_true(train(bt_chain_of(layers[1], 3), four, ROWS, some) == loss);
        assert_memory_equal(one, some, (size_t)numbers_of(bt_chain_of(layers[0], 3), some) * sizeof *one);
        bt_layer *lone = bt_dense(WIDTH, 3, NULL, bt_key(1));
        loss = train(lone, four, ROWS, one);
        assert_true(train(bt_layer_to_stages(bt_dense(WIDTH, 3, NULL, bt_key(1)), NULL, 0, NULL), four, ROWS, some) ==
                    loss);
    }
}

/* The last layer is the first one's weight, which is on another device. */
static bt_array *tied_forward(bt_layer *layer, bt_array *x, void *unused) {
    bt_array *w = bt_layer_parameter(layer, "w");
    bt_array *hidden = bt_to(bt_tanh(bt_matmul(x, w)), gpu(1));
    return bt_matmul(hidden, bt_transpose(bt_to(w, gpu(1))));
}
static bt_array *own_loss(bt_layer *model, bt_array *x, bt_array *y, void *unused) {
    bt_array *out = bt_apply(model, x);
    return bt_add(bt_mean(bt_square(bt_sub(out, bt_to(x, gpu(1))))), bt_mean(bt_square(bt_to(y, gpu(1)))));
}

static void layers_of_ones_own(void **state) {
    BT_SCOPE {
        float got[2][WIDTH * 8];
        for (int way = 0; way < 2; way++) {
            bt_array *w = bt_to(bt_normal(bt_key(1), BT_F32, WIDTH, 8), gpu(0));
            bt_layer *tied = bt_layer_new("Tied", tied_forward, .parameters = {{"w", w}});
            bt_array *x = bt_normal(bt_key(2), BT_F32, 16, WIDTH);
            bt_optimizer *sgd = bt_sgd(0.1);
            for (int i = 0; i < 3; i++)
                OK(bt_block(bt_train_step(way ? bt_pipelined(4) : NULL, tied, sgd, own_loss, NULL, x, x)));
            OK(bt_read(bt_layer_parameter(tied, "w"), got[way], sizeof got[way]));
        }
        for (int k = 0; k < WIDTH * 8; k++) assert_true(fabsf(got[0][k] - got[1][k]) < 1e-5f);
    }
}

/* Loops, attention, rows that are taken, and a block that is computed again: three stages beside one, and beside the whole batch. */
static bt_array *again(bt_array *x) {
    bt_array *y = NULL;
    BT_CHECKPOINT y = bt_tanh(bt_mul(bt_tanh(x), x));
    return y;
}

static bt_layer *sequence_model(int devices) {
    bt_layer *layers[] = {bt_embedding_layer(20, 8, bt_key(1)),
                          bt_skip(bt_attention_layer(8, 2, bt_key(2), .causal = true), NULL),
                          bt_lambda("again", again),
                          bt_lstm_layer(8, 6, bt_key(3)),
                          bt_skip(bt_gru_layer(6, 6, bt_key(4)), NULL),
                          bt_flatten_layer(),
                          bt_dense(5 * 6, 3, NULL, bt_key(5))};
    for (int i = 0; i < COUNT(layers); i++) layers[i] = bt_layer_to(layers[i], gpu(i * devices / COUNT(layers)));
    return bt_chain_of(layers, COUNT(layers));
}

static bt_layer *image_model(int devices) {
    bt_layer *layers[] = {bt_conv_layer(2, 6, BT_SHAPE(3, 3), bt_relu, bt_key(1), .pad = {1, 1}),
                          bt_group_norm_layer(2, 6),
                          bt_max_pool_layer(BT_SHAPE(2, 2)),
                          bt_conv_layer(6, 4, BT_SHAPE(3, 3), bt_gelu, bt_key(2)),
                          bt_global_avg_pool_layer(),
                          bt_flatten_layer(),
                          bt_dense(4, 3, NULL, bt_key(3))};
    for (int i = 0; i < COUNT(layers); i++) layers[i] = bt_layer_to(layers[i], gpu(i * devices / COUNT(layers)));
    return bt_chain_of(layers, COUNT(layers));
}

static void expect_as_whole(bt_layer *make(int), bt_array *x) {
    static float numbers[3][NUMBERS];
    int count = 0;
    for (int way = 0; way < 3; way++)
        BT_SCOPE {
            bt_layer *model = make(way == 2 ? 3 : 1);
            bt_strategy *strategy = way ? bt_pipelined(4) : NULL;
            bt_array *y = bt_normal(bt_key(9), BT_F32, bt_size(x, 0), 3);
            bt_optimizer *momentum = bt_momentum(0.05, 0.9);
            for (int i = 0; i < 3; i++) OK(bt_block(bt_train_step(strategy, model, momentum, squared, NULL, x, y)));
            count = numbers_of(model, numbers[way]);
        }
    assert_memory_equal(numbers[1], numbers[2], (size_t)count * sizeof(float));
    for (int k = 0; k < count; k++)
        if (!(fabsf(numbers[0][k] - numbers[1][k]) < 1e-5f))
            fail_msg("number %d is %g, not %g", k, numbers[1][k], numbers[0][k]);
}

static void layers_of_all_kinds(void **state) {
    BT_SCOPE {
        expect_as_whole(sequence_model, bt_randint(bt_key(8), 0, 20, BT_I32, 11, 5));
        expect_as_whole(image_model, bt_normal(bt_key(8), BT_F32, 10, 2, 8, 8));
    }
}

/* Layers of a random kind, each on a random device. */
typedef struct draw {
    uint64_t state;
} draw;
static int below(draw *d, int most) {
    d->state = d->state * 6364136223846793005u + 1442695040888963407u;
    return (int)((d->state >> 33) % (uint64_t)most);
}

static bt_layer *random_layer(draw *d, int place) {
    static bt_activation *const functions[] = {bt_tanh, bt_relu, bt_gelu, bt_silu, NULL};
    bt_array *key = bt_key((uint64_t)place);
    bt_activation *function = functions[below(d, COUNT(functions))];
    switch (below(d, 6)) {
    case 0: return bt_dropout_layer(0.3, key);
    case 1: return bt_layer_norm_layer(WIDTH);
    case 2: return bt_skip(bt_dense(WIDTH, WIDTH, function, key), NULL);
    case 3: return bt_lambda("silu", bt_silu);
    default: return bt_dense(WIDTH, WIDTH, function, key);
    }
}

static bt_layer *random_model(uint64_t seed, bool places) {
    draw kinds = {seed}, devices = {seed + 1000}, frozen = {seed + 2000};
    bt_layer *layers[8];
    int count = 2 + below(&kinds, 5);
    for (int i = 0; i < count; i++) {
        layers[i] = random_layer(&kinds, i);
        if (!below(&frozen, 5)) OK(bt_freeze(layers[i]));
        int on = below(&devices, 4);
        layers[i] = bt_layer_to(layers[i], gpu(places ? on : 0));
    }
    layers[count] = bt_layer_to(bt_dense(WIDTH, 3, NULL, bt_key(9)), gpu(places ? below(&devices, 4) : 0));
    return bt_chain_of(layers, count + 1);
}

static void random_models_on_random_devices(void **state) {
    static float one[NUMBERS], some[NUMBERS];
    int seeds = getenv("BERTH_TEST_LONG") ? 400 : 25;
    for (int seed = 0; seed < seeds; seed++)
        BT_SCOPE {
            draw d = {(uint64_t)seed + 3000};
            bt_strategy *strategy = bt_pipelined(1 + below(&d, 9));
            int64_t rows = 1 + below(&d, 30);
            bt_layer *model = random_model((uint64_t)seed, false);
            double loss = train(model, strategy, rows, one);
            int count = numbers_of(model, some);
            double same = train(random_model((uint64_t)seed, true), strategy, rows, some);
            if (loss != same || memcmp(one, some, (size_t)count * sizeof *one))
                fail_msg("seed %d: loss %.9g on one device, %.9g on several", seed, loss, same);
        }
}

/* --- hooks and callbacks ------------------------------------------------------------------------------------------------- */

static int forward_calls, gradient_calls, told;

static bt_array *count_forward(bt_layer *layer, bt_array *output, void *unused) {
    forward_calls++;
    return output;
}
static bt_array *count_gradient(bt_layer *layer, const char *name, bt_array *gradient, void *unused) {
    gradient_calls++;
    return gradient;
}
static void tell(const bt_elements *value, void *unused) { told++; }
static bt_array *tells(bt_array *x) { return bt_debug_callback(tell, NULL, x); }

/* Once for each micro-batch; gradients once, summed. */
static void hooks_and_callbacks_are_called(void **state) {
    BT_SCOPE {
        bt_layer *first = bt_dense(WIDTH, 8, bt_tanh, bt_key(1));
        bt_layer *model = bt_chain(bt_layer_to(first, gpu(0)), bt_lambda("tells", tells),
                                   bt_layer_to(bt_dense(8, 3, NULL, bt_key(2)), gpu(1)));
        bt_array *x = bt_ones(BT_F32, 8, WIDTH), *y = bt_ones(BT_F32, 8, 3);
        OK(bt_layer_hook(model, count_forward, NULL));
        OK(bt_layer_gradient_hook(model, count_gradient, NULL));
        forward_calls = gradient_calls = told = 0;
        OK(bt_block(bt_train_step(bt_pipelined(4), model, bt_sgd(0.1), squared, NULL, x, y)));
        bt_synchronize();
        assert_int_equal(forward_calls, 4 + 1); /* and once to find where the output is */
        assert_int_equal(gradient_calls, 4);
        assert_int_equal(told, 4);
    }
}

/* --- states --------------------------------------------------------------------------------------------------------------- */

static bt_array *tracking(bt_layer *layer, bt_array *x, void *sometimes) {
    bool sets = !sometimes || bt_size(x, 0) == 3;
    if (bt_is_training() && sets) {
        bt_array *mean = bt_mean(x, .axes = BT_AXES(0)), *steps = bt_layer_state(layer, "steps");
        OK(bt_layer_set_state(layer, "mean", bt_add(bt_mul(bt_layer_state(layer, "mean"), 0.5), bt_mul(mean, 0.5))));
        OK(bt_layer_set_state(layer, "steps", bt_add(steps, 1)));
    }
    return x;
}

static bt_layer *tracker(void *sometimes) {
    return bt_layer_new("Tracker", tracking, .data = sometimes,
                        .state = {{"mean", bt_zeros(BT_F32, 8)}, {"steps", bt_zeros(BT_I32, )}});
}

/* Floats are means weighted by rows, which for a mean over rows is that of the whole batch; integers are set once. */
static void states_are_those_of_the_whole_batch(void **state) {
    float got[2][8];
    BT_SCOPE {
        bt_array *x = bt_normal(bt_key(1), BT_F32, 11, WIDTH), *y = bt_ones(BT_F32, 11, 3);
        for (int way = 0; way < 2; way++) {
            bt_layer *tracked = bt_layer_to(tracker(NULL), gpu(way));
            bt_layer *model = bt_chain(bt_layer_to(bt_dense(WIDTH, 8, bt_tanh, bt_key(1)), gpu(0)), tracked,
                                       bt_layer_to(bt_dense(8, 3, NULL, bt_key(2)), gpu(way)));
            bt_optimizer *sgd = bt_sgd(0.1);
            bt_strategy *four = way ? bt_pipelined(4) : NULL;
            for (int i = 0; i < 3; i++) OK(bt_block(bt_train_step(four, model, sgd, squared, NULL, x, y)));
            OK(bt_read(bt_layer_state(tracked, "mean"), got[way], sizeof *got));
            assert_true(bt_item(bt_layer_state(tracked, "steps")) == 3);
            assert_string_equal(bt_device_name(bt_device_of(bt_layer_state(tracked, "mean"))), way ? "GPU:1" : "GPU:0");
        }
        for (int k = 0; k < 8; k++) assert_true(fabsf(got[0][k] - got[1][k]) < 1e-5f);
        bt_layer *now_and_then =
            bt_chain(bt_dense(WIDTH, 8, NULL, bt_key(1)), tracker(&got), bt_dense(8, 3, NULL, bt_key(2)));
        POISONED(bt_train_step(bt_pipelined(4), now_and_then, bt_sgd(0.1), squared, NULL, x, y), BT_INVALID_ARGUMENT,
                 "was set in a part of the batch and not in another");
    }
}

/* --- the loop ------------------------------------------------------------------------------------------------------------- */

static void the_fit_loop_takes_it(void **state) {
    static float one[NUMBERS], some[NUMBERS];
    int count = 0;
    BT_SCOPE {
        bt_array *x = bt_normal(bt_key(7), BT_F32, ROWS, WIDTH), *y = bt_normal(bt_key(8), BT_F32, ROWS, 3);
        for (int devices = 1; devices <= 4; devices += 3) {
            bt_layer *model = bt_layer_to_stages(mixed_model(), NULL, 0, NULL);
            if (devices == 1) model = bt_layer_to(model, gpu(0));
            bt_fit_report report;
            OK(bt_fit(
                model, bt_sgd(0.05), x, y,
                BT_FIT_OPTIONS(.epochs = 4, .batch = 16, .quiet = true, .strategy = bt_pipelined(8), .loss = squared),
                &report)); /* the last batch has five rows */
            assert_true(report.last_loss < report.first_loss);
            count = numbers_of(model, devices == 1 ? one : some);
        }
        assert_memory_equal(one, some, (size_t)count * sizeof *one);
    }
}

/* --- placing ---------------------------------------------------------------------------------------------------------------- */

static void expect_devices(bt_layer *model, const char *expected) {
    bt_shared *all[64];
    char text[65] = "";
    int count = bt_parameters(model, all, 64);
    for (int i = 0; i < count; i += 2) text[i / 2] = (char)('0' + bt_device_index(bt_device_of(bt_value(all[i]))));
    assert_string_equal(text, expected);
}

static void layers_are_placed_in_equal_runs(void **state) {
    BT_SCOPE {
        bt_layer *inner = bt_chain(bt_dense(4, 4, NULL, bt_key(1)), bt_dense(4, 4, NULL, bt_key(2)));
        bt_layer *model = bt_chain(bt_dense(4, 4, NULL, bt_key(0)), inner, bt_dense(4, 4, NULL, bt_key(3)),
                                   bt_dense(4, 12, NULL, bt_key(4)), bt_dense(12, 4, NULL, bt_key(5)));
        expect_devices(bt_layer_to_stages(model, NULL, 0, NULL), "000123"); /* 20, 20, 20, 20, 60, 52 */
        expect_devices(bt_layer_to_stages(model, (const char *[]){gpu(3), gpu(1)}, 2, NULL), "333311");
        expect_devices(bt_layer_to_stages(inner, NULL, 0, NULL), "01");
        expect_devices(bt_layer_to_stages(bt_dense(4, 4, NULL, bt_key(0)), NULL, 0, NULL), "0");
        bt_layer *copy = bt_layer_to_stages(model, NULL, 0, NULL);
        bt_shared *all[16];
        (void)bt_parameters(copy, all, 16);
        assert_string_equal(bt_shared_name(all[2]), "1.0.weight");
        assert_string_equal(bt_device_name(bt_device_of(bt_apply(copy, bt_ones(BT_F32, 2, 4)))), "GPU:3");
    }
}

/* In virtual time: convolutions have few parameters and take long. */
static void layers_are_placed_by_time(void **state) {
    fresh("devices=sim:h200*2,sim_data=off");
    BT_SCOPE {
        bt_shape window = BT_SHAPE(3, 3);
        bt_layer *model = bt_chain(bt_conv_layer(8, 8, window, NULL, bt_key(0), .pad = {1, 1}),
                                   bt_conv_layer(8, 8, window, NULL, bt_key(1), .pad = {1, 1}),
                                   bt_conv_layer(8, 8, window, NULL, bt_key(2), .pad = {1, 1}), bt_flatten_layer(),
                                   bt_dense(8 * 64 * 64, 2, NULL, bt_key(3)));
        expect_devices(bt_layer_to_stages(model, NULL, 0, NULL), "0001");
        expect_devices(bt_layer_to_stages(model, NULL, 0, bt_ones(BT_F32, 64, 8, 64, 64)), "0011");
        assert_int_equal(bt_error_status(), BT_OK);
    }
    start(NULL);
}

/* --- memory ----------------------------------------------------------------------------------------------------------------- */

enum { WIDE = 64, PART = 256, DEEP = 8 };

/* A parameter that is added before the first product, so that each product has both gradients. */
static bt_array *shift_forward(bt_layer *layer, bt_array *x, void *unused) {
    return bt_add(x, bt_layer_parameter(layer, "shift"));
}

/* Stages of equal work. */
static bt_layer *even_model(int width, int stages, int layers_each) {
    bt_layer *layers[1 + 4 * DEEP];
    BT_ON(gpu(0)) layers[0] = bt_layer_new("Shift", shift_forward, .parameters = {{"shift", bt_zeros(BT_F32, width)}});
    for (int i = 0; i < stages * layers_each; i++)
        BT_ON(gpu(i / layers_each)) layers[1 + i] = bt_dense(width, width, bt_tanh, bt_key((uint64_t)i));
    return bt_chain_of(layers, 1 + stages * layers_each);
}

/* The most that a device has in a step beyond what it has before it, by device, in micro-batches of one activation. */
static void measure_memory(int stages, int micro_batches, double *activations) {
    BT_SCOPE {
        bt_layer *model = even_model(WIDE, stages, DEEP);
        bt_array *x = NULL, *loss;
        BT_ON(gpu(0)) x = bt_normal(bt_key(1), BT_F32, (int64_t)PART * micro_batches, WIDE);
        OK(bt_block(x));
        bt_strategy *strategy = bt_pipelined(micro_batches);
        bt_optimizer *sgd = bt_sgd(0.01);
        OK(bt_block(bt_train_step(strategy, model, sgd, squared, NULL, x, x)));
        bt_synchronize();
        size_t before[4];
        for (int d = 0; d < stages; d++) {
            bt_memory_reset_peak(device(gpu(d)));
            before[d] = memory(gpu(d)).used;
        }
        OK(bt_block(loss = bt_train_step(strategy, model, sgd, squared, NULL, x, x)));
        for (int d = 0; d < stages; d++)
            activations[d] = (double)(memory(gpu(d)).peak - before[d]) / (PART * WIDE * sizeof(float));
    }
}

/* A stage keeps one array for each of its layers, and what it is sent, of as many micro-batches as are under way: S - s of them. What else it needs, for one
 * micro-batch and for gradients, is no more than is needed without stages. */
static void memory_does_not_grow_with_the_number(void **state) {
    double lone[4], few[4], many[4];
    measure_memory(1, 4, lone);
    for (int stages = 2; stages <= 4; stages++) {
        measure_memory(stages, 2 * stages, few);
        measure_memory(stages, 8 * stages, many);
        for (int s = 0; s < stages; s++) {
            double labels = s == stages - 1 ? stages : 0; /* of micro-batches under way */
            double most = (DEEP + 1) * (stages - s) + labels + lone[0] - DEEP + 4;
            if (many[s] > few[s] || many[s] > most)
                fail_msg("%d stages: %d of %.1f activations, %.1f with fewer micro-batches; %.1f are allowed", stages,
                         s, many[s], few[s], most);
        }
    }
}

/* A batch that is too large for a device goes through it in parts. */
static void parts_fit_where_the_batch_does_not(void **state) {
    fresh("devices=sim:gpu*1@4M");
    BT_SCOPE {
        static float before[NUMBERS * 8], after[NUMBERS * 8];
        bt_layer *model = even_model(WIDE, 1, DEEP);
        bt_shared *weight[3];
        (void)bt_parameters(model, weight, 3);
        bt_array *x = bt_normal(bt_key(1), BT_F32, 8 * PART, WIDE);
        bt_optimizer *sgd = bt_sgd(0.01);
        OK(bt_read(bt_value(weight[1]), before, WIDE * WIDE * sizeof *before));
        POISONED(bt_train_step(bt_pipelined(1), model, sgd, squared, NULL, x, x), BT_RESOURCE_EXHAUSTED, "GPU:0");
        OK(bt_read(bt_value(weight[1]), after, WIDE * WIDE * sizeof *after));
        assert_memory_equal(before, after, WIDE * WIDE * sizeof *before);
        OK(bt_block(bt_train_step(bt_pipelined(8), model, sgd, squared, NULL, x, x)));
        OK(bt_read(bt_value(weight[1]), after, WIDE * WIDE * sizeof *after));
        assert_memory_not_equal(before, after, WIDE * WIDE * sizeof *before);
    }
    start(NULL);
}

/* --- the bubble ------------------------------------------------------------------------------------------------------------- */

/* The part of the time that the devices of a trace compute nothing, from the first kernel to the last one's end. */
static double idle_part(const char *trace_file, int devices) {
    json_t *trace = json_load_file(trace_file, 0, NULL), *event;
    double begin = INFINITY, end = 0, busy = 0;
    size_t i;
    json_array_foreach(json_object_get(trace, "traceEvents"), i, event) {
        const char *category = json_string_value(json_object_get(event, "cat"));
        if (!category || strcmp(category, "kernel")) continue;
        double from = json_number_value(json_object_get(event, "ts"));
        double took = json_number_value(json_object_get(event, "dur"));
        busy += took;
        if (from < begin) begin = from;
        if (from + took > end) end = from + took;
    }
    json_decref(trace);
    return 1 - busy / (devices * (end - begin));
}

static double measure_idle_part(int stages, int micro_batches) {
    double idle = NAN;
    BT_SCOPE {
        bt_layer *model = even_model(4096, stages, 2);
        bt_array *x = NULL;
        BT_ON(gpu(0)) x = bt_normal(bt_key(1), BT_F32, 4096 * (int64_t)micro_batches, 4096);
        bt_strategy *strategy = bt_pipelined(micro_batches);
        bt_optimizer *sgd = bt_sgd(0.01);
        for (int i = 0; i < 2; i++) { /* the first time memory is taken */
            OK(bt_block(x));
            bt_synchronize();
            bt_profile *profile = bt_profile_start();
            OK(bt_block(bt_train_step(strategy, model, sgd, squared, NULL, x, x)));
            bt_synchronize();
            OK(bt_profile_stop(profile, trace_path, NULL));
        }
        idle = idle_part(trace_path, stages);
    }
    unlink(trace_path);
    return idle;
}

/* (S - 1) / (M + S - 1) of each device's time, on cards whose links are no hindrance. */
static void the_bubble_is_that_of_theory(void **state) {
    static const int numbers[] = {1, 2, 4, 8, 16, 32};
    fresh("devices=sim:h200{link=20000/link_ns=10}*4,sim_data=off");
    for (int stages = 1; stages <= 4; stages++)
        for (int i = 0; i < COUNT(numbers); i++) {
            double theory = (stages - 1.0) / (numbers[i] + stages - 1), idle = measure_idle_part(stages, numbers[i]);
            if (!(fabs(idle - theory) < 0.005))
                fail_msg("%d stages, %d micro-batches: idle for %.4f of the time, not %.4f", stages, numbers[i], idle,
                         theory);
        }
    start(NULL);
}

static int count_events(const char *trace_file, const char *name) {
    json_t *trace = json_load_file(trace_file, 0, NULL), *event;
    int count = 0;
    size_t i;
    json_array_foreach(json_object_get(trace, "traceEvents"), i, event) count +=
        !strcmp(json_string_value(json_object_get(event, "name")), name);
    json_decref(trace);
    return count;
}

/* Plans of units are kept: those of micro-batches of equal rows are the same ones, whatever their number. */
static void later_steps_make_no_plans(void **state) {
    int first[2];
    for (int way = 0; way < 3; way++)
        BT_SCOPE {
            bool drops = way == 2;
            bt_layer *model = bt_layer_to_stages(drops ? mixed_model() : even_model(WIDE, 4, 1), NULL, 0, NULL);
            bt_array *x = bt_ones(BT_F32, 64, drops ? WIDTH : WIDE), *y = bt_ones(BT_F32, 64, drops ? 3 : WIDE);
            bt_strategy *strategy = bt_pipelined(way ? 16 : 4);
            bt_optimizer *sgd = bt_sgd(0.01);
            int plans = -1, units = 0;
            for (int i = 0; i < 6; i++) {
                bt_profile *profile = bt_profile_start();
                OK(bt_block(bt_train_step(strategy, model, sgd, squared, NULL, x, y)));
                OK(bt_profile_stop(profile, trace_path, NULL));
                plans = count_events(trace_path, "plan");
                units = count_events(trace_path, "submit");
                if (!i && way < 2) first[way] = plans;
            }
            assert_int_equal(plans, 0);
            assert_true(units >= (way ? 16 : 4) * (2 * 4 - 1));
        }
    assert_int_equal(first[0], first[1]);
    unlink(trace_path);
}

/* --- refusals --------------------------------------------------------------------------------------------------------------- */

static bt_array *no_loss(bt_layer *model, bt_array *x, bt_array *y, void *unused) { return NULL; }

static void what_cannot_be_is_refused(void **state) {
    BT_SCOPE {
        bt_layer *model = mixed_model(), *norm = bt_chain(bt_dense(WIDTH, 3, NULL, bt_key(1)), bt_batch_norm_layer(3));
        bt_optimizer *sgd = bt_sgd(0.1);
        bt_array *x = bt_ones(BT_F32, 8, WIDTH), *y = bt_ones(BT_F32, 8, 3);
        bt_strategy *four = bt_pipelined(4), *none = bt_pipelined(0);
        FAILS(bt_strategy_status(none), BT_INVALID_ARGUMENT, "0 micro-batches; there must be one or more");
        FAILS(bt_strategy_status(bt_pipelined(-3)), BT_INVALID_ARGUMENT, "-3 micro-batches");
        POISONED(bt_train_step(none, model, sgd, squared, NULL, x, y), BT_INVALID_ARGUMENT, "0 micro-batches");
        POISONED(bt_train_step(four, model, sgd, squared, NULL, x, bt_ones(BT_F32, 7, 3)), BT_INVALID_ARGUMENT,
                 "x has 8 rows and y 7");
        POISONED(bt_train_step(four, model, sgd, squared, NULL, bt_ones(BT_F32, 0, WIDTH), bt_ones(BT_F32, 0, 3)),
                 BT_INVALID_ARGUMENT, "at least one");
        POISONED(bt_train_step(four, model, sgd, squared, NULL, bt_ones(BT_F32, 8, WIDTH + 1), y), BT_INVALID_ARGUMENT,
                 "13");
        POISONED(bt_train_step(four, model, sgd, no_loss, NULL, x, y), BT_INVALID_ARGUMENT, "the loss gave NULL");
        float before[NUMBERS], after[NUMBERS];
        int count = numbers_of(norm, before);
        POISONED(bt_train_step(four, norm, sgd, squared, NULL, x, y), BT_FAILED_PRECONDITION,
                 "a mean over the whole batch", "batch norm");
        (void)numbers_of(norm, after);
        assert_memory_equal(before, after, (size_t)count * sizeof *before);
        OK(bt_block(bt_train_step(bt_pipelined(1), norm, sgd, squared, NULL, x, y)));
        FAILS(bt_strategy_set_exact(four, true), BT_FAILED_PRECONDITION, "exact mode is of mirrored strategies");
        FAILS(bt_strategy_set_shares(four, (const double[]){1}, 1), BT_INVALID_ARGUMENT, "1 shares for 0 devices");
        assert_int_equal(bt_strategy_count(four), 0);
        assert_null(bt_strategy_device(four, 0));
        bt_all_reduce(four, &x);
        assert_int_equal(bt_error_status(), BT_INVALID_ARGUMENT);
        SAYS(bt_error_text(), "no replicas");
        BT_REPLICA(four, 0) POISONED(bt_ones(BT_F32, 1), BT_INVALID_ARGUMENT, "replica 0");
        BT_STRATEGY(four) OK(bt_layer_status(bt_dense(2, 2, NULL, bt_key(0))));
    }
}

static void placing_that_cannot_be_is_refused(void **state) {
    BT_SCOPE {
        bt_layer *model = mixed_model();
        const char *twice[] = {gpu(0), gpu(0)}, *unknown[] = {gpu(0), "gpu:7"};
        FAILS(bt_layer_status(bt_layer_to_stages(model, twice, 2, NULL)), BT_INVALID_ARGUMENT, "the same device");
        FAILS(bt_layer_status(bt_layer_to_stages(model, unknown, 2, NULL)), BT_NOT_FOUND, "gpu:7");
        FAILS(bt_layer_status(bt_layer_to_stages(NULL, NULL, 0, NULL)), BT_INVALID_ARGUMENT, "NULL");
        FAILS(bt_layer_status(bt_layer_to_stages(model, NULL, 0, bt_ones(BT_F32, 4, WIDTH + 1))), BT_INVALID_ARGUMENT,
              "13");
    }
}

/* A device fails in the midst of a step: the step tells, and nothing is updated. */
static void a_failing_device_fails_the_step(void **state) {
    static const char *const faults[] = {"gpu1/launch:3", "gpu0/launch:9", "gpu2/launch:5", "gpu3/launch:2"};
    for (int f = 0; f < COUNT(faults); f++) {
        fresh("devices=sim:gpu*4");
        BT_SCOPE {
            static float before[NUMBERS], after[NUMBERS];
            bt_layer *model = bt_layer_to_stages(mixed_model(), NULL, 0, NULL);
            bt_array *x = bt_ones(BT_F32, 8, WIDTH), *y = bt_ones(BT_F32, 8, 3);
            bt_optimizer *sgd = bt_sgd(0.1);
            int count = numbers_of(model, before);
            OK(bt_set_flag("sim_fault", faults[f]));
            bt_array *loss = bt_train_step(bt_pipelined(4), model, sgd, squared, NULL, x, y);
            bt_synchronize();
            OK(bt_set_flag("sim_fault", ""));
            (void)!bt_block(loss); /* it may be there: what failed later is told by the next update */
            (void)numbers_of(model, after);
            assert_memory_equal(before, after, (size_t)count * sizeof *before);
            assert_int_not_equal(bt_error_status(), BT_OK);
            bt_error_clear();
            OK(bt_block(bt_train_step(bt_pipelined(4), model, sgd, squared, NULL, x, y)));
            (void)numbers_of(model, after);
            assert_memory_not_equal(before, after, (size_t)count * sizeof *before);
        }
    }
    start(NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_are_those_of_the_whole_batch),
        cmocka_unit_test(bits_do_not_depend_on_the_devices),
        cmocka_unit_test(a_device_has_several_stages),
        cmocka_unit_test(layers_of_ones_own),
        cmocka_unit_test(the_fit_loop_takes_it),
        cmocka_unit_test(layers_are_placed_in_equal_runs),
        cmocka_unit_test(layers_are_placed_by_time),
        cmocka_unit_test(memory_does_not_grow_with_the_number),
        cmocka_unit_test(the_bubble_is_that_of_theory),
        cmocka_unit_test(what_cannot_be_is_refused),
        cmocka_unit_test(placing_that_cannot_be_is_refused),
        cmocka_unit_test(a_failing_device_fails_the_step),
        cmocka_unit_test(random_models_on_random_devices),
        cmocka_unit_test(hooks_and_callbacks_are_called),
        cmocka_unit_test(states_are_those_of_the_whole_batch),
        cmocka_unit_test(later_steps_make_no_plans),
        cmocka_unit_test(layers_of_all_kinds),
        cmocka_unit_test(parts_fit_where_the_batch_does_not),
    };
    return cmocka_run_group_tests(tests, start, NULL);
}
