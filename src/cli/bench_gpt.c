/* A training step of a small GPT in the form of GPT-2: forward, backward and update as one function, in float32 or in bfloat16 by BT_AUTOCAST. */
#include "cli/bench_gpt.h"

#include "cli/bench_inputs.h"
#include "cli/bench_training.h"

enum {
    BATCH = 4,
    PLACES = 256,
    WIDTH = 384,
    HEADS = 6,
    LAYERS = 4,
    WORDS = 8192,
    OF_LAYER = 12, /* parameters */
    PARAMETERS = 2 + OF_LAYER * LAYERS + 2
};
_Static_assert((int)PARAMETERS <= (int)BENCH_PARAMETERS, "parameters do not fit");

/* Of all tokens with their places: the embedding of words, which the logits share, that of places, the layers, the last norm. */
static const int64_t layer_shapes[OF_LAYER][2] = {
    {WIDTH, 0}, {WIDTH, 0}, {WIDTH, 3 * WIDTH}, {3 * WIDTH, 0}, {WIDTH, WIDTH},     {WIDTH, 0},
    {WIDTH, 0}, {WIDTH, 0}, {WIDTH, 4 * WIDTH}, {4 * WIDTH, 0}, {4 * WIDTH, WIDTH}, {WIDTH, 0}};

/* Matrices in a small uniform range; scales of norms 1, biases 0. */
static bt_array *initial_parameter(int number) {
    if (number < 2)
        return bench_floats(10 + (uint32_t)number, -0.05f, 0.05f,
                            number ? BT_SHAPE(PLACES, WIDTH) : BT_SHAPE(WORDS, WIDTH));
    int place = number - 2 < OF_LAYER * LAYERS ? (number - 2) % OF_LAYER : (number - 2) % 2;
    const int64_t *shape = layer_shapes[place];
    if (!shape[1]) return place == 0 || place == 6 ? bt_ones(BT_F32, shape[0]) : bt_zeros(BT_F32, shape[0]);
    return bench_floats(10 + (uint32_t)number, -0.05f, 0.05f, BT_SHAPE(shape[0], shape[1]));
}

/* A linear layer of PyTorch's: its bias has the dtype of its product. */
static bt_array *linear(bt_array *x, bt_array *const *p) {
    return bt_add(bt_matmul(x, p[0]), bt_cast(p[1], bt_autocast_dtype()));
}

/* [B, T, 3 * WIDTH] -> q, k, v [B, HEADS, T, WIDTH / HEADS] -> [B, T, WIDTH]. */
static bt_array *attend_heads(bt_array *qkv) {
    bt_array *parts[3];
    qkv = bt_permute(bt_reshape(qkv, BATCH, PLACES, 3, HEADS, WIDTH / HEADS), 2, 0, 3, 1, 4);
    for (int i = 0; i < 3; i++) parts[i] = bt_index(qkv, 0, i);
    bt_array *out = bt_attention(parts[0], parts[1], parts[2], .causal = true);
    return bt_reshape(bt_permute(out, 0, 2, 1, 3), BATCH, PLACES, WIDTH);
}

static bt_array *layer(bt_array *x, bt_array *const *p) {
    x = bt_add(x, linear(attend_heads(linear(bt_layer_norm(x, p[0], p[1], 1e-5), p + 2)), p + 4));
    return bt_add(x, linear(bt_gelu(linear(bt_layer_norm(x, p[6], p[7], 1e-5), p + 8)), p + 10));
}

static bt_array *loss_of(bt_array *const *p, bt_array *const *inputs) {
    bt_array *x = bt_add(bt_take(p[0], inputs[0], 0), p[1]);
    for (int i = 0; i < LAYERS; i++) x = layer(x, p + 2 + OF_LAYER * i);
    x = bt_layer_norm(x, p[PARAMETERS - 2], p[PARAMETERS - 1], 1e-5);
    return bt_cross_entropy(bt_matmul_t(x, p[0], false, true), inputs[1]);
}

static const bench_trained gpt = {PARAMETERS, initial_parameter, loss_of, 0.1};

/* Words, and those that follow. */
static bool prepare_gpt(bench_work *work, bt_dtype dtype) {
    for (uint32_t i = 0; i < 2; i++) work->inputs[i] = bench_integers(i + 1, WORDS, BT_SHAPE(BATCH, PLACES));
    return bench_prepare_training(work, &gpt, dtype);
}
static bool prepare_f32(bench_work *work) { return prepare_gpt(work, BT_F32); }
static bool prepare_bf16(bench_work *work) { return prepare_gpt(work, BT_BF16); }
static bt_array *check(bench_work *work) { return bench_first_losses(work, &gpt); }

#define TOKENS (1.0 * BATCH * PLACES)
/* Products of the layers and the logits, forward and both gradients. */
#define FLOPS (6 * TOKENS * (12.0 * WIDTH * WIDTH * LAYERS + 1.0 * WIDTH * WORDS))

const bench_row bench_gpt_rows[BENCH_GPT_ROWS] = {
    {"gpt_step", "training step of a GPT of 4 layers of 384, 1,024 tokens", prepare_f32, bench_train, check,
     .flops = FLOPS},
    {"gpt_step_bf16", "the same in a BT_AUTOCAST(BT_BF16) block", prepare_bf16, bench_train, check, .flops = FLOPS},
};
