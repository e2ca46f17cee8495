/* Training steps of a small convolutional network and of a variational autoencoder, as beginners' guides have them. */
#include "cli/bench_models.h"

#include <math.h>

#include "cli/bench_inputs.h"
#include "cli/bench_training.h"

/* W in Glorot's uniform range, of which a filter of an image is `places` elements; b zeros. */
static bt_array *weight(int number, int64_t in, int64_t out, int64_t places, bt_shape shape) {
    float range = (float)sqrt(6.0 / (double)((in + out) * places));
    return bench_floats(10 + (uint32_t)number, -range, range, shape);
}

static bt_array *dense(bt_array *x, bt_array *const *p) { return bt_add(bt_matmul(x, p[0]), p[1]); }

/* --- conv_step: images of 28 x 28, two convolutions of 3 x 3 with maxima over 2 x 2, two dense layers ------------------ */

enum { IMAGES = 64, SIDE = 28, FIRST = 32, SECOND = 64, FLAT = SECOND * 7 * 7, HIDDEN = 128, CLASSES = 10 };

static bt_array *initial_conv_parameter(int number) {
    static const int64_t sizes[4][3] = {{1, FIRST, 9}, {FIRST, SECOND, 9}, {FLAT, HIDDEN, 1}, {HIDDEN, CLASSES, 1}};
    int64_t in = sizes[number / 2][0], out = sizes[number / 2][1], places = sizes[number / 2][2];
    if (number % 2) return bt_zeros(BT_F32, out);
    return weight(number, in, out, places, places == 1 ? BT_SHAPE(in, out) : BT_SHAPE(out, in, 3, 3));
}

static bt_array *conv_block(bt_array *x, bt_array *const *p) {
    x = bt_conv(x, p[0], .pad_low = {1, 1}, .pad_high = {1, 1});
    x = bt_relu(bt_add(x, bt_reshape(p[1], bt_size(p[1], 0), 1, 1)));
    return bt_max_pool(x, .window = {2, 2});
}

static bt_array *conv_loss(bt_array *const *p, bt_array *const *inputs) {
    bt_array *x = bt_flatten(conv_block(conv_block(inputs[0], p), p + 2), 1);
    return bt_cross_entropy(dense(bt_relu(dense(x, p + 4)), p + 6), inputs[1]);
}

static const bench_trained conv_net = {8, initial_conv_parameter, conv_loss, 0.05};

static bool prepare_conv(bench_work *work) {
    work->inputs[0] = bench_floats(1, 0, 1, BT_SHAPE(IMAGES, 1, SIDE, SIDE));
    work->inputs[1] = bench_integers(2, CLASSES, BT_SHAPE(IMAGES));
    return bench_prepare_training(work, &conv_net, BT_F32);
}
static bt_array *check_conv(bench_work *work) { return bench_first_losses(work, &conv_net); }

/* --- vae_step: 784 - 400 - 2 x 20 - 400 - 784 ----------------------------------------------------------------------------- */

enum { ROWS = 128, PIXELS = SIDE * SIDE, INNER = 400, LATENT = 20 };

static bt_array *initial_vae_parameter(int number) {
    static const int64_t sizes[5][2] = {
        {PIXELS, INNER}, {INNER, LATENT}, {INNER, LATENT}, {LATENT, INNER}, {INNER, PIXELS}};
    int64_t in = sizes[number / 2][0], out = sizes[number / 2][1];
    return number % 2 ? bt_zeros(BT_F32, out) : weight(number, in, out, 1, BT_SHAPE(in, out));
}

/* The noise is an input, so that all libraries have the same. */
static bt_array *vae_loss(bt_array *const *p, bt_array *const *inputs) {
    bt_array *x = inputs[0], *h = bt_relu(dense(x, p)), *mean = dense(h, p + 2), *log_variance = dense(h, p + 4);
    bt_array *z = bt_add(mean, bt_mul(inputs[1], bt_exp(bt_mul(log_variance, 0.5))));
    bt_array *logits = dense(bt_relu(dense(z, p + 6)), p + 8);
    bt_array *pixels = bt_binary_cross_entropy(logits, x, .reduction = BT_REDUCE_SUM);
    bt_array *apart = bt_sub(bt_add(log_variance, 1), bt_add(bt_square(mean), bt_exp(log_variance)));
    return bt_div(bt_sub(pixels, bt_mul(bt_sum(apart), 0.5)), ROWS);
}

static const bench_trained vae = {10, initial_vae_parameter, vae_loss, 1e-3};

static bool prepare_vae(bench_work *work) {
    work->inputs[0] = bench_floats(1, 0, 1, BT_SHAPE(ROWS, PIXELS));
    work->inputs[1] = bench_floats(2, -1.7f, 1.7f, BT_SHAPE(ROWS, LATENT));
    return bench_prepare_training(work, &vae, BT_F32);
}
static bt_array *check_vae(bench_work *work) { return bench_first_losses(work, &vae); }

/* Of what no input of the step depends on, there is no gradient by x. */
#define CONV_FLOPS \
    (2.0 * IMAGES * (2 * 784 * 9 * FIRST + 3 * (196.0 * 9 * FIRST * SECOND + FLAT * HIDDEN + HIDDEN * CLASSES)))
#define VAE_FLOPS (2.0 * ROWS * (2 * PIXELS * INNER + 3 * (3.0 * INNER * LATENT + INNER * PIXELS)))

const bench_row bench_model_rows[BENCH_MODEL_ROWS] = {
    {"conv_step", "training step of two convolutions and two dense layers, 64 images of 28 x 28", prepare_conv,
     bench_train, check_conv, .flops = CONV_FLOPS},
    {"vae_step", "training step of a variational autoencoder 784-400-20, batch 128", prepare_vae, bench_train,
     check_vae, .flops = VAE_FLOPS},
};
