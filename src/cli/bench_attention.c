#include "cli/bench_attention.h"

#include "cli/bench_calls.h"
#include "cli/bench_inputs.h"

enum { RESULTS = 4 };

/* q, k and v, and what flows into the result. */
static bool draw_inputs(bench_work *work, int64_t batch, int64_t heads, int64_t length) {
    for (uint32_t i = 0; i < 4; i++) work->inputs[i] = bench_floats(1 + i, -1, 1, BT_SHAPE(batch, heads, length, 64));
    return true;
}

static bool prepare_batch(bench_work *work) { return draw_inputs(work, 8, 8, 512); }
static bool prepare_long(bench_work *work) { return draw_inputs(work, 1, 16, 2048); }
static bt_array *run_batch(bench_work *work) { return bt_attention(work->inputs[0], work->inputs[1], work->inputs[2]); }
static bt_array *run_causal(bench_work *work) {
    return bt_attention(work->inputs[0], work->inputs[1], work->inputs[2], .causal = true);
}

static bool prepare_gradients(bench_work *work) {
    bt_array *inputs[4], *outputs[RESULTS];
    for (int i = 0; i < 4; i++) inputs[i] = bt_input(BT_F32, 8, 8, 512, 64);
    outputs[0] = bt_attention(inputs[0], inputs[1], inputs[2], .causal = true);
    bt_array *loss = bt_sum(bt_mul(outputs[0], inputs[3]), BT_ALL, false);
    if (bt_grad(loss, inputs, 3, outputs + 1) != BT_OK) return false;
    work->function = bt_function_new(inputs, 4, outputs, RESULTS, NULL, 0);
    return prepare_batch(work) && bt_function_status(work->function) == BT_OK;
}
static bt_array *run_gradients(bench_work *work) {
    bt_array *results[RESULTS];
    return bench_call(work, 4, results, RESULTS);
}
static bt_array *check_gradients(bench_work *work) { return bench_call_joined(work, 4, RESULTS); }

/* --- a cache ------------------------------------------------------------------------------------------------------------ */

enum { TOKENS = 64, HEADS = 12, PLACES = 1024, BEFORE = PLACES - TOKENS, DEPTH = 64 };

/* carry: keys and values [1, heads, places, depth], how many are there; x: what a token gives of each, [1, heads, 1, depth]. */
static void add_token(bt_array **carry, bt_array *const *x, bt_array **y, void *data) {
    (void)data;
    for (int i = 0; i < 2; i++) carry[i] = bt_update_slice_axis(carry[i], x[1 + i], carry[2], 2);
    carry[2] = bt_add(carry[2], bt_i32(1));
    y[0] = bt_attention(x[0], carry[0], carry[1], .causal = true, .from_end = true, .lengths = carry[2]);
}

static bool prepare_cache(bench_work *work) {
    bt_array *inputs[5], *rows, *carry[3];
    for (uint32_t i = 0; i < 5; i++) {
        bt_shape shape = i < 3 ? BT_SHAPE(TOKENS, 1, HEADS, 1, DEPTH) : BT_SHAPE(1, HEADS, PLACES, DEPTH);
        work->inputs[i] = bench_floats(1 + i, -1, 1, shape);
        inputs[i] = bt_input_shape(BT_F32, shape);
    }
    carry[0] = inputs[3], carry[1] = inputs[4], carry[2] = bt_i32(BEFORE);
    if (bt_scan(add_token, NULL, BT_ALL_ROWS, carry, 3, inputs, 3, &rows, 1) != BT_OK) return false;
    work->function = bt_function_new(inputs, 5, &rows, 1, NULL, 0);
    return bt_function_status(work->function) == BT_OK;
}
static bt_array *run_cache(bench_work *work) { return bt_call1(work->function, work->inputs, 5); }

/* --- the rows ---------------------------------------------------------------------------------------------------------- */

#define FLOPS(heads, length) (4.0 * (heads) * (length) * (length)*64)
const bench_row bench_attention_rows[BENCH_ATTENTION_ROWS] = {
    {"attention", "8 x 8 heads of 512 queries and keys, depth 64", prepare_batch, run_batch, .flops = FLOPS(64, 512)},
    {"attention_causal", "16 heads of 2048 queries and keys, depth 64, causal", prepare_long, run_causal,
     .flops = FLOPS(16, 2048) / 2},
    {"attention_grad", "`attention`, causal, and its three gradients", prepare_gradients, run_gradients,
     check_gradients, .flops = 3.5 * FLOPS(64, 512) / 2},
    {"kv_cache", "one token of 12 heads by a cache of 1024 keys, depth 64", prepare_cache, run_cache,
     .bytes = 2.0 * HEADS * PLACES * DEPTH * sizeof(float), .steps = TOKENS},
};
