// timeout: 600
/* Attention of more queries, keys and depths than a group of a GPU takes at once, and its gradients, beside products and a softmax in float64 on the CPU; the same bits each time. On
 * the CPU, an OpenCL device, and GPUs of BERTH_TEST_DEVICES. */
#include "support/support.h"

#include <math.h>

typedef struct attention {
    const char *what;
    int64_t batch, heads, shared, rows, keys, depth, value_depth;
    bool causal, from_end, lengths, permuted; /* permuted: they lie as [batch, L, heads, depth] */
    int mask;                                 /* 0: none; 1: bool; 2: added */
    bool gradients;
} attention;

static const attention attentions[] = {
    {"tiles that are not full", 1, 2, 1, 130, 70, 64, 64, .gradients = true},
    {"causal, heads that share keys", 1, 1, 2, 70, 150, 64, 64, .causal = true, .gradients = true},
    {"one query", 2, 1, 1, 1, 300, 64, 64, .causal = true, .from_end = true, .lengths = true},
    {"three queries", 1, 2, 3, 1, 200, 32, 40, .causal = true, .from_end = true, .lengths = true, .mask = 1},
    {"forty queries of heads that share keys", 1, 1, 8, 5, 700, 64, 64, .causal = true, .from_end = true,
     .lengths = true},
    {"keys in parts", 1, 1, 1, 70, 1100, 64, 20, .mask = 0},
    {"keys in parts, rows that are not whole", 1, 1, 1, 80, 600, 33, 65, .causal = true, .from_end = true, .mask = 2},
    {"a mask that is added", 1, 1, 1, 140, 140, 16, 24, .causal = true, .mask = 2, .gradients = true},
    {"odd depths", 1, 1, 1, 66, 66, 100, 131, .permuted = true, .gradients = true},
    {"permuted", 1, 2, 1, 80, 90, 64, 64, .causal = true, .permuted = true, .gradients = true},
    {"more queries than keys, few of them", 1, 1, 1, 200, 33, 33, 7, .causal = true, .from_end = true, .mask = 2,
     .gradients = true},
    {"depth 128", 1, 1, 1, 90, 64, 128, 128, .permuted = true, .mask = 1, .gradients = true},
    {"depth 140 and 260", 1, 1, 1, 70, 40, 140, 260, .causal = true, .gradients = true},
    {"one query, depth 140", 1, 1, 2, 1, 40, 140, 140, .causal = true, .from_end = true},
    {"many heads", 2, 66, 1, 65, 10, 4, 4, .causal = true, .lengths = true, .gradients = true},
};
enum { Q, K, V, SLOPE, MASK, LENGTHS, INPUTS, RESULTS = 4 };

static bt_shape shape_of(const attention *of, int input) {
    int64_t heads = of->heads * of->shared;
    switch (input) {
    case Q: return BT_SHAPE(of->batch, heads, of->rows, of->depth);
    case K: return BT_SHAPE(of->batch, of->heads, of->keys, of->depth);
    case V: return BT_SHAPE(of->batch, of->heads, of->keys, of->value_depth);
    case SLOPE: return BT_SHAPE(of->batch, heads, of->rows, of->value_depth);
    default: return BT_SHAPE(of->batch, heads, of->rows, of->mask ? of->keys : 1);
    }
}

static bt_array *drawn(const attention *of, int input, bt_dtype dtype) {
    bt_shape shape = shape_of(of, input), lies = shape;
    bool permuted = of->permuted && input <= SLOPE;
    if (permuted) lies.size[1] = shape.size[2], lies.size[2] = shape.size[1];
    bt_array *x = bt_uniform_shape(bt_key((uint64_t)input), -2, 2, BT_F32, lies);
    if (permuted) x = bt_permute(x, 0, 2, 1, 3);
    return input == MASK && of->mask == 1 ? bt_gt(x, -1) : bt_cast(x, dtype);
}

static void draw_inputs(const attention *of, bt_dtype dtype, bt_array **x) {
    int32_t lengths[4];
    for (int i = 0; i < 4; i++) lengths[i] = (int32_t)(of->lengths ? of->keys - 3 * i - of->keys / 5 : of->keys);
    for (int i = Q; i <= MASK; i++) x[i] = drawn(of, i, dtype);
    x[LENGTHS] = bt_from(lengths, BT_I32, BT_SHAPE(of->batch));
    OK(bt_eval_all(x, INPUTS));
}

static bt_array *attended(const attention *of, bt_array *const *x) {
    bt_attention_options options = *BT_ATTENTION(.causal = of->causal, .from_end = of->from_end);
    if (of->mask) options.mask = x[MASK];
    if (of->lengths) options.lengths = x[LENGTHS];
    return (bt_attention)(x[Q], x[K], x[V], &options);
}

/* Which query reads which key, but for the mask. */
static bt_array *reads(const attention *of, bt_array *lengths) {
    bt_array *key = bt_reshape(bt_arange(0, (double)of->keys, 1, BT_F64), 1, 1, of->keys);
    bt_array *query = bt_reshape(bt_arange(0, (double)of->rows, 1, BT_F64), 1, of->rows, 1);
    bt_array *length = bt_reshape(bt_cast(lengths, BT_F64), of->batch, 1, 1);
    bt_array *reach = length;
    if (of->causal) reach = bt_add(query, 1);
    if (of->from_end) reach = bt_add(bt_sub(length, (double)of->rows), bt_add(query, 1));
    return bt_expand_dims(bt_lt(key, bt_minimum(reach, length)), 1);
}

static bt_array *composed(const attention *of, bt_array *const *x) {
    int64_t heads = of->heads * of->shared;
    bt_array *joined[2];
    for (int i = 0; i < 2; i++) {
        bt_array *y = x[K + i];
        int64_t depth = i ? of->value_depth : of->depth;
        y = bt_broadcast_to(bt_reshape(y, of->batch, of->heads, 1, of->keys, depth), of->batch, of->heads, of->shared,
                            of->keys, depth);
        joined[i] = bt_reshape(y, of->batch, heads, of->keys, depth);
    }
    bt_array *scores = bt_mul(bt_matmul(x[Q], bt_permute(joined[0], 0, 1, 3, 2)), 1 / sqrt((double)of->depth));
    bt_array *read = reads(of, x[LENGTHS]);
    if (of->mask == 1) read = bt_logical_and(read, x[MASK]);
    if (of->mask == 2) scores = bt_add(scores, x[MASK]);
    bt_array *weights = bt_softmax(bt_where(read, scores, bt_f64(-1e30)), -1); /* all alike where nothing is read */
    return bt_matmul(bt_mul(weights, bt_cast(read, BT_F64)), joined[1]);
}

/* out and, where they are asked for, the gradients of q, k and v. */
static int results_of(const attention *of, bt_array *(*function)(const attention *, bt_array *const *),
                      bt_array *const *x, bt_array **results) {
    results[0] = function(of, x);
    if (!of->gradients) return 1;
    OK(bt_grad(bt_sum(bt_mul(results[0], x[SLOPE])), (bt_array **)x, 3, results + 1));
    return RESULTS;
}

static double read_number(bt_array *x) {
    double number = NAN;
    OK(bt_read(bt_cast(x, BT_F64), &number, sizeof number));
    return number;
}

static const char *place = "cpu:0";

static void expect_results(const attention *of, bt_dtype dtype) {
    BT_SCOPE {
        bt_array *x[INPUTS], *wide[INPUTS], *got[RESULTS], *again[RESULTS], *want[RESULTS];
        int count = 0;
        BT_ON(place) {
            draw_inputs(of, dtype, x);
            results_of(of, attended, x, again);
            OK(bt_eval_all(again, of->gradients ? RESULTS : 1));
            count = results_of(of, attended, x, got);
        }
        BT_ON("cpu:0") {
            draw_inputs(of, BT_F64, wide);
            results_of(of, composed, wide, want);
        }
        for (int r = 0; r < count; r++) {
            bt_array *error = bt_abs(bt_sub(bt_cast(bt_to(got[r], "cpu:0"), BT_F64), want[r]));
            double most = read_number(bt_max(error)), size = read_number(bt_max(bt_abs(want[r])));
            double limit = (dtype == BT_F64 ? 1e-13 : 4e-6) * (size + 1);
            if (!(most <= limit))
                fail_msg("%s on %s, %s, result %d: off by %g of %g", of->what, place, bt_dtype_name(dtype), r, most,
                         size);
            if (read_number(bt_all(bt_eq(got[r], again[r]))) != 1)
                fail_msg("%s on %s, %s, result %d: other bits the second time", of->what, place, bt_dtype_name(dtype),
                         r);
        }
    }
}

static void on_place(const char *name) {
    place = name;
    for (int i = 0; i < COUNT(attentions); i++) {
        expect_results(&attentions[i], BT_F32);
        if (getenv("BERTH_TEST_LONG") || i % 4 == 1) expect_results(&attentions[i], BT_F64);
    }
}

static void on_the_cpu(void **state) {
    fresh("");
    on_place("cpu:0");
}

static void on_opencl(void **state) {
    fresh("");
    if (on_cuda() || bt_device_find("opencl0:0", &(bt_device *){NULL}) != BT_OK) skip();
    on_place("opencl0:0");
}

static void on_gpus(void **state) {
    if (!on_cuda()) skip();
    fresh("");
    on_place("gpu:0");
}

int main(void) {
    restart_emulated();
    const struct CMUnitTest tests[] = {cmocka_unit_test(on_the_cpu), cmocka_unit_test(on_opencl),
                                       cmocka_unit_test(on_gpus)};
    return cmocka_run_group_tests_name("attention", tests, NULL, fresh_end);
}
