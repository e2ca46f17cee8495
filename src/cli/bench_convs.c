#include "cli/bench_convs.h"

#include "cli/bench_calls.h"
#include "cli/bench_inputs.h"

enum { IMAGES = 8, RESULTS = 3 };

static bool prepare(bench_work *work, int64_t channels, int64_t size, int64_t outputs, int64_t groups, int64_t kernel) {
    work->inputs[0] = bench_floats(1, -1, 1, BT_SHAPE(IMAGES, channels, size, size));
    work->inputs[1] = bench_floats(2, -1, 1, BT_SHAPE(outputs, channels / groups, kernel, kernel));
    return true;
}

static bool prepare_3x3(bench_work *work) { return prepare(work, 64, 56, 64, 1, 3); }
static bool prepare_7x7(bench_work *work) { return prepare(work, 3, 224, 64, 1, 7); }
static bool prepare_1x1(bench_work *work) { return prepare(work, 256, 56, 64, 1, 1); }
static bool prepare_depthwise(bench_work *work) { return prepare(work, 128, 28, 128, 128, 3); }

#define PADDED .pad_low = {1, 1}, .pad_high = {1, 1}
static bt_array *run_3x3(bench_work *work) { return bt_conv(work->inputs[0], work->inputs[1], PADDED); }
static bt_array *run_1x1(bench_work *work) { return bt_conv(work->inputs[0], work->inputs[1]); }
static bt_array *run_7x7(bench_work *work) {
    return bt_conv(work->inputs[0], work->inputs[1], .stride = {2, 2}, .pad_low = {3, 3}, .pad_high = {3, 3});
}
static bt_array *run_depthwise(bench_work *work) {
    return bt_conv(work->inputs[0], work->inputs[1], PADDED, .groups = 128);
}

/* The result, and what flows into it as d flows back to x and w. */
static bool prepare_gradients(bench_work *work) {
    bt_array *inputs[3] = {bt_input(BT_F32, IMAGES, 64, 56, 56), bt_input(BT_F32, 64, 64, 3, 3),
                           bt_input(BT_F32, IMAGES, 64, 56, 56)};
    bt_array *outputs[RESULTS] = {bt_conv(inputs[0], inputs[1], PADDED)};
    bt_array *loss = bt_sum(bt_mul(outputs[0], inputs[2]), BT_ALL, false);
    if (bt_grad(loss, inputs, 2, outputs + 1) != BT_OK) return false;
    work->function = bt_function_new(inputs, 3, outputs, RESULTS, NULL, 0);
    prepare_3x3(work);
    work->inputs[2] = bench_floats(3, -1, 1, BT_SHAPE(IMAGES, 64, 56, 56));
    return bt_function_status(work->function) == BT_OK;
}

static bt_array *run_gradients(bench_work *work) {
    bt_array *results[RESULTS];
    return bench_call(work, 3, results, RESULTS);
}

static bt_array *check_gradients(bench_work *work) { return bench_call_joined(work, 3, RESULTS); }

/* --- ResNet-18 --------------------------------------------------------------------------------------------------------- */

/* Takes its weights one after the other out of one array. */
typedef struct network {
    bt_array *weights;
    int64_t at;
} network;

static bt_array *take_weights(network *net, bt_shape shape) {
    int64_t count = 1;
    for (int i = 0; i < shape.rank; i++) count *= shape.size[i];
    net->at += count;
    return bt_reshape_to(bt_slice_axis(net->weights, 0, net->at - count, net->at, 1), shape);
}

/* A convolution with "same" padding, and what a batch norm is at inference. */
static bt_array *add_conv(network *net, bt_array *x, int64_t outputs, int64_t kernel, int64_t stride) {
    int64_t pad = kernel / 2;
    bt_array *w = take_weights(net, BT_SHAPE(outputs, bt_size(x, 1), kernel, kernel)),
             *scale = bt_add(take_weights(net, BT_SHAPE(1, outputs, 1, 1)), bt_num(1)),
             *bias = take_weights(net, BT_SHAPE(1, outputs, 1, 1));
    x = bt_conv(x, w, .stride = {stride, stride}, .pad_low = {pad, pad}, .pad_high = {pad, pad});
    return bt_add(bt_mul(x, scale), bias);
}

static bt_array *add_block(network *net, bt_array *x, int64_t outputs, int64_t stride) {
    bt_array *beside = bt_size(x, 1) == outputs ? x : add_conv(net, x, outputs, 1, stride);
    bt_array *inner = bt_relu(add_conv(net, x, outputs, 3, stride));
    return bt_relu(bt_add(add_conv(net, inner, outputs, 3, 1), beside));
}

static bt_array *resnet18(bt_array *x, bt_array *weights) {
    network net = {.weights = weights};
    x = bt_relu(add_conv(&net, x, 64, 7, 2));
    x = bt_max_pool(x, .window = {3, 3}, .stride = {2, 2}, PADDED);
    for (int block = 0; block < 8; block++)
        x = add_block(&net, x, INT64_C(64) << block / 2, block && block % 2 == 0 ? 2 : 1);
    return bt_matmul(bt_mean(x, BT_AXES(2, 3), false), take_weights(&net, BT_SHAPE(512, 1000)));
}

enum { RESNET_WEIGHTS = 11688512 }; /* what it takes */

static bool prepare_resnet_of(bench_work *work, int64_t images) {
    bt_array *inputs[2] = {bt_input(BT_F32, images, 3, 224, 224), bt_input(BT_F32, RESNET_WEIGHTS)};
    bt_array *logits = resnet18(inputs[0], inputs[1]);
    work->function = bt_function_new(inputs, 2, &logits, 1, NULL, 0);
    work->inputs[0] = bench_floats(1, -1, 1, BT_SHAPE(images, 3, 224, 224));
    work->inputs[1] = bench_floats(2, -0.05f, 0.05f, BT_SHAPE(RESNET_WEIGHTS));
    return bt_function_status(work->function) == BT_OK;
}

static bool prepare_resnet(bench_work *work) { return prepare_resnet_of(work, IMAGES); }
static bool prepare_resnet_one(bench_work *work) { return prepare_resnet_of(work, 1); }

static bt_array *run_resnet(bench_work *work) { return bt_call1(work->function, work->inputs, 2); }

/* --- the rows ---------------------------------------------------------------------------------------------------------- */

#define FLOPS(places, outputs, weights) (2.0 * IMAGES * (places) * (outputs) * (weights))
const bench_row bench_conv_rows[BENCH_CONV_ROWS] = {
    {"conv3x3", "3 x 3 of 64 channels, [8, 64, 56, 56]", prepare_3x3, run_3x3, .flops = FLOPS(56 * 56, 64, 64 * 9)},
    {"conv7x7s2", "7 x 7 of 3 channels by stride 2, [8, 3, 224, 224]", prepare_7x7, run_7x7,
     .flops = FLOPS(112 * 112, 64, 3 * 49)},
    {"conv1x1", "1 x 1 of 256 channels, [8, 256, 56, 56]", prepare_1x1, run_1x1, .flops = FLOPS(56 * 56, 64, 256)},
    {"conv_depthwise", "3 x 3 of each of 128 channels, [8, 128, 28, 28]", prepare_depthwise, run_depthwise,
     .flops = FLOPS(28 * 28, 128, 9)},
    {"conv_grad", "conv3x3 and its two gradients", prepare_gradients, run_gradients, check_gradients,
     .flops = 3 * FLOPS(56 * 56, 64, 64 * 9)},
    {"resnet18", "ResNet-18 of 8 images of 224 x 224, forward", prepare_resnet, run_resnet,
     .flops = 2 * IMAGES * 1.81e9},
    {"resnet18_one", "the same of one image", prepare_resnet_one, run_resnet, .flops = 2 * 1.81e9},
};
