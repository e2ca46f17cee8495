/* Programs that reference files do not have, exported as StableHLO: control flow, random numbers, training steps with variables. */
#include "golden/export.h"

#include <string.h>

static const double loose = 2e-4; /* of what adds up many numbers */

/* --- control flow ------------------------------------------------------------------------------------------------------ */

static void decay(bt_array **carry, bt_array *const *x, bt_array **y, void *data) {
    carry[0] = bt_add(bt_mul(carry[0], 0.5), bt_mul(x[0], *(bt_array **)data));
    carry[1] = bt_add(carry[1], 1);
    y[0] = bt_tanh(carry[0]);
    y[1] = carry[1];
}

static bool scans(golden_program *p, bool reverse) {
    bt_array *xs = golden_input(p, bt_uniform_in(bt_key(1), -1, 1, BT_F32, 6, 3)),
             *w = golden_input(p, bt_full(0.7, BT_F32, 3));
    bt_array *carry[2] = {bt_zeros(BT_F32, 3), bt_i32(0)}, *ys[2], *grads[2];
    bt_status status = reverse ? bt_scan_reverse(decay, &w, 6, carry, 2, &xs, 1, ys, 2)
                               : bt_scan(decay, &w, 6, carry, 2, &xs, 1, ys, 2);
    if (status != BT_OK || bt_grad(bt_sum(bt_mul(ys[0], ys[0])), (bt_array *[]){xs, w}, 2, grads) != BT_OK)
        return false;
    bt_array *outputs[] = {carry[0], carry[1], ys[0], ys[1], grads[0], grads[1]};
    return golden_outputs(p, outputs, 6);
}
static bool scan_forward(golden_program *p) { return scans(p, false); }
static bool scan_backward(golden_program *p) { return scans(p, true); }

static bt_array *is_small(bt_array *const *carry, void *data) {
    (void)data;
    return bt_lt(bt_sum(carry[0]), 1000);
}
static void double_up(bt_array **carry, void *data) {
    carry[0] = bt_add(bt_mul(carry[0], 2), *(bt_array **)data);
    carry[1] = bt_add(carry[1], 1);
}
static bool whiles(golden_program *p, int64_t most) {
    bt_array *more = golden_input(p, bt_full(0.25, BT_F32, 2));
    bt_array *carry[2] = {golden_input(p, bt_ones(BT_F32, 2)), bt_i64(0)};
    return bt_while(is_small, double_up, &more, most, carry, 2) == BT_OK && golden_outputs(p, carry, 2);
}
static bool while_any(golden_program *p) { return whiles(p, 0); }
static bool while_at_most(golden_program *p) { return whiles(p, 3); }

static void use_sine(bt_array *const *args, bt_array **results, void *data) {
    (void)data;
    results[0] = bt_sin(args[0]);
    results[1] = bt_i32(1);
}
static void use_square(bt_array *const *args, bt_array **results, void *data) {
    (void)data;
    results[0] = bt_mul(args[0], args[0]);
    results[1] = bt_i32(2);
}
static bool conds(golden_program *p, bool which) {
    bt_array *x = golden_input(p, bt_uniform_in(bt_key(2), -1, 1, BT_F32, 5)),
             *on = golden_input(p, bt_full(which, BT_BOOL)), *results[3];
    if (bt_cond(on, use_sine, use_square, NULL, &x, 1, results, 2) != BT_OK) return false;
    return bt_grad(bt_sum(results[0]), &x, 1, &results[2]) == BT_OK && golden_outputs(p, results, 3);
}
static bool cond_yes(golden_program *p) { return conds(p, true); }
static bool cond_no(golden_program *p) { return conds(p, false); }

/* --- random numbers ---------------------------------------------------------------------------------------------------- */

static bool random_numbers(golden_program *p) {
    bt_array *key = golden_input(p, bt_key(42));
    bt_array *outputs[] = {bt_uniform_in(key, -1, 1, BT_F32, 33), bt_normal(key, BT_F32, 40),
                           bt_randint(key, -5, 100, BT_I32, 17), bt_bernoulli(key, bt_f32(0.3f), 50),
                           bt_permutation(key, 24)};
    return golden_outputs(p, outputs, 5);
}

/* --- training ---------------------------------------------------------------------------------------------------------- */

/* A step with a rate of 0.001; the loss is a cross-entropy of classes. */
static bool trains(golden_program *p, bt_layer *model, bt_optimizer *optimizer, const char *rate, bt_array *x,
                   int64_t classes) {
    bt_shared *parameters[32];
    bt_array *grads[32], *loss, *scores;
    bt_update updates[128];
    bt_array *y = golden_input(p, bt_mod(bt_arange(0, (double)bt_size(x, 0), 1, BT_I32), bt_i32((int32_t)classes)));
    int count = bt_parameters(model, parameters, 32);
    scores = bt_apply(model, golden_input(p, x));
    loss = bt_cross_entropy(scores, y);
    if (bt_grad_shared(loss, parameters, count, grads) != BT_OK) return false;
    int updated = bt_optimizer_updates(optimizer, parameters, grads, count, updates, 128);
    p->read_name = rate;
    p->read_value = bt_f32(1e-3f);
    if (updated < 0 || !golden_updates(p, updates, updated)) return false;
    return golden_outputs(p, (bt_array *[]){loss, scores}, 2);
}

static bool conv_training(golden_program *p) {
    bt_array *k = bt_key(3);
    bt_layer *model =
        bt_chain(bt_conv_layer(1, 4, BT_SHAPE(3, 3), bt_relu, k, .same = true), bt_max_pool_layer(BT_SHAPE(2, 2)),
                 bt_conv_layer(4, 6, BT_SHAPE(3, 3), bt_gelu, k, .stride = {2, 2}, .groups = 2), bt_flatten_layer(),
                 bt_dense(24, 5, NULL, k));
    return trains(p, model, bt_adam(1e-3), "adam.rate", bt_uniform_in(k, -1, 1, BT_F32, 7, 1, 12, 12), 5);
}

static bool attention_training(golden_program *p) {
    bt_array *k = bt_key(4);
    bt_layer *model = bt_chain(bt_attention_layer(16, 4, k, .kv_heads = 2, .causal = true), bt_layer_norm_layer(16),
                               bt_flatten_layer(), bt_dense(96, 3, NULL, k));
    return trains(p, model, bt_sgd(1e-3), "sgd.rate", bt_normal(k, BT_F32, 5, 6, 16), 3);
}

static bool recurrent_training(golden_program *p) {
    bt_array *k = bt_key(5);
    bt_layer *model = bt_chain(bt_gru_layer(3, 8, k, .last = true), bt_dense(8, 4, NULL, k));
    return trains(p, model, bt_adam(1e-3), "adam.rate", bt_normal(k, BT_F32, 6, 5, 3), 4);
}

static bt_array *forget_inside(bt_array *x) {
    bt_array *h = x;
    BT_CHECKPOINT for (int i = 0; i < 3; i++) h = bt_tanh(bt_mul(h, 1.5));
    return h;
}
static bool computed_again(golden_program *p) {
    bt_array *x = golden_input(p, bt_uniform_in(bt_key(6), -1, 1, BT_F32, 4, 4)), *outputs[2] = {forget_inside(x)};
    return bt_grad(bt_sum(outputs[0]), &x, 1, &outputs[1]) == BT_OK && golden_outputs(p, outputs, 2);
}

static const struct {
    const char *name;
    bool (*record)(golden_program *p);
} programs[] = {{"scan", scan_forward},
                {"scan_reverse", scan_backward},
                {"while", while_any},
                {"while_at_most", while_at_most},
                {"cond_yes", cond_yes},
                {"cond_no", cond_no},
                {"random_numbers", random_numbers},
                {"conv_training", conv_training},
                {"attention_training", attention_training},
                {"recurrent_training", recurrent_training},
                {"checkpoint", computed_again}};

void golden_export_programs(tally *t) {
    for (size_t i = 0; i < sizeof programs / sizeof *programs; i++)
        BT_SCOPE {
            char stem[512], why[640] = "";
            golden_program p = {.name = programs[i].name};
            snprintf(stem, sizeof stem, "%s/%s", golden_export_folder, p.name);
            if (!programs[i].record(&p)) snprintf(why, sizeof why, "it cannot be recorded: %s", bt_error_text());
            if (*why || !golden_export_program(stem, &p, why, sizeof why))
                golden_failed(t, p.name, "%s", why);
            else {
                golden_passed(t, p.name);
                printf("EXPORTED %s yes %g %g %s\n", p.name, loose, loose, p.name);
            }
        }
}
