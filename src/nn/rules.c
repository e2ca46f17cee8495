/* Rules of optimisers: from a parameter, its gradient and its states to the new ones. */
#include "nn/optimizer.h"

static bt_array *scale_array(bt_array *x, double factor) { return bt_mul(x, bt_num(factor)); }

/* beta * mean + (1 - beta) * x */
static bt_array *mix(bt_array *mean, bt_array *x, double beta) {
    return bt_add(scale_array(mean, beta), scale_array(x, 1 - beta));
}

/* g + decay * p */
static bt_array *decayed_grad(const bti_rule_step *s) {
    return s->decay == 0 ? s->grad : bt_add(s->grad, scale_array(s->parameter, s->decay));
}

static bt_array *moved(const bti_rule_step *s, bt_array *direction) {
    return bt_sub(s->parameter, bt_mul(direction, s->rate));
}

static bt_array *update_sgd(const bt_optimizer_options *numbers, bti_rule_step *s) {
    (void)numbers;
    return moved(s, decayed_grad(s));
}

static bt_array *update_momentum(const bt_optimizer_options *numbers, bti_rule_step *s) {
    s->states[0] = bt_add(scale_array(s->states[0], numbers->momentum), decayed_grad(s));
    return moved(s, s->states[0]);
}

static bt_array *update_nesterov(const bt_optimizer_options *numbers, bti_rule_step *s) {
    bt_array *grad = decayed_grad(s);
    s->states[0] = bt_add(scale_array(s->states[0], numbers->momentum), grad);
    return moved(s, bt_add(grad, scale_array(s->states[0], numbers->momentum)));
}

/* 1 - beta**step, in float64: in float32 the first steps would be off by 1e-5. */
static bt_array *correction(double beta, bt_array *step, bt_dtype dtype) {
    return bt_cast(bt_sub(bt_num(1), bt_pow(bt_num(beta), step)), dtype);
}

static void adam_corrections(const bt_optimizer_options *numbers, bt_array *steps, bt_dtype dtype,
                             bt_array *corrections[2]) {
    corrections[0] = correction(numbers->beta1, steps, dtype);
    corrections[1] = correction(numbers->beta2, steps, dtype);
}

/* The states of Adam after a gradient; returns what the mean is divided by: the corrected root and epsilon. */
static bt_array *adam_states(const bt_optimizer_options *numbers, bti_rule_step *s, bt_array *grad,
                             bt_array **mean_hat) {
    bt_array *mean = mix(s->states[0], grad, numbers->beta1);
    bt_array *square = mix(s->states[1], bt_square(grad), numbers->beta2);
    *mean_hat = bt_div(mean, s->corrections[0]);
    bt_array *square_hat = bt_div(square, s->corrections[1]);
    s->states[0] = mean;
    s->states[1] = square;
    return bt_add(bt_sqrt(square_hat), bt_num(numbers->epsilon));
}

static bt_array *update_adam(const bt_optimizer_options *numbers, bti_rule_step *s) {
    bt_array *mean_hat, *root = adam_states(numbers, s, decayed_grad(s), &mean_hat);
    return bt_sub(s->parameter, bt_div(bt_mul(mean_hat, s->rate), root));
}

static bt_array *update_adamw(const bt_optimizer_options *numbers, bti_rule_step *s) {
    bt_array *mean_hat, *root = adam_states(numbers, s, s->grad, &mean_hat), *direction = bt_div(mean_hat, root);
    if (s->decay != 0) direction = bt_add(direction, scale_array(s->parameter, s->decay));
    return moved(s, direction);
}

static bt_array *update_rmsprop(const bt_optimizer_options *numbers, bti_rule_step *s) {
    bt_array *grad = decayed_grad(s), *square = mix(s->states[0], bt_square(grad), numbers->alpha), *root = square;
    if (numbers->centered) {
        s->states[1] = mix(s->states[1], grad, numbers->alpha);
        root = bt_sub(square, bt_square(s->states[1]));
    }
    s->states[0] = square;
    bt_array *direction = bt_div(grad, bt_add(bt_sqrt(root), bt_num(numbers->epsilon)));
    if (s->states[2]) direction = s->states[2] = bt_add(scale_array(s->states[2], numbers->momentum), direction);
    return moved(s, direction);
}

static bt_array *update_adagrad(const bt_optimizer_options *numbers, bti_rule_step *s) {
    bt_array *grad = decayed_grad(s);
    s->states[0] = bt_add(s->states[0], bt_square(grad));
    return moved(s, bt_div(grad, bt_add(bt_sqrt(s->states[0]), bt_num(numbers->epsilon))));
}

static bt_array *update_lion(const bt_optimizer_options *numbers, bti_rule_step *s) {
    bt_array *direction = bt_sign(mix(s->states[0], s->grad, numbers->beta1));
    if (s->decay != 0) direction = bt_add(direction, scale_array(s->parameter, s->decay));
    s->states[0] = mix(s->states[0], s->grad, numbers->beta2);
    return moved(s, direction);
}

const bti_optimizer_rule bti_optimizer_rules[BTI_RULES] = {
    [BTI_SGD] = {.name = "sgd", .call = "bt_sgd", .update = update_sgd},
    [BTI_MOMENTUM_RULE] = {.name = "momentum",
                           .call = "bt_momentum",
                           .options = BTI_KNOWS_MOMENTUM,
                           .states = {"velocity"},
                           .update = update_momentum},
    [BTI_NESTEROV] = {.name = "nesterov",
                      .call = "bt_nesterov",
                      .options = BTI_KNOWS_MOMENTUM,
                      .states = {"velocity"},
                      .update = update_nesterov},
    [BTI_ADAM_RULE] = {.name = "adam",
                       .call = "bt_adam",
                       .options = BTI_KNOWS_BETAS | BTI_KNOWS_EPSILON,
                       .states = {"mean", "square", [BTI_STEP] = "step"},
                       .beta2 = 0.999,
                       .epsilon = 1e-8,
                       .correct = adam_corrections,
                       .update = update_adam},
    [BTI_ADAMW] = {.name = "adamw",
                   .call = "bt_adamw",
                   .options = BTI_KNOWS_BETAS | BTI_KNOWS_EPSILON,
                   .states = {"mean", "square", [BTI_STEP] = "step"},
                   .beta2 = 0.999,
                   .epsilon = 1e-8,
                   .decay = 0.01,
                   .correct = adam_corrections,
                   .update = update_adamw},
    [BTI_RMSPROP] = {.name = "rmsprop",
                     .call = "bt_rmsprop",
                     .options = BTI_KNOWS_EPSILON | BTI_KNOWS_RMSPROP | BTI_KNOWS_MOMENTUM,
                     .states = {"square", "mean", "velocity"},
                     .epsilon = 1e-8,
                     .update = update_rmsprop},
    [BTI_ADAGRAD] = {.name = "adagrad",
                     .call = "bt_adagrad",
                     .options = BTI_KNOWS_EPSILON,
                     .states = {"square"},
                     .epsilon = 1e-10,
                     .update = update_adagrad},
    [BTI_LION] = {.name = "lion",
                  .call = "bt_lion",
                  .options = BTI_KNOWS_BETAS,
                  .states = {"mean"},
                  .beta2 = 0.99,
                  .update = update_lion},
};

bool bti_optimizer_rule_uses(const bti_optimizer_rule *rule, const bt_optimizer_options *numbers, int k) {
    if (!rule->states[k]) return false;
    if (rule != &bti_optimizer_rules[BTI_RMSPROP] || k == 0) return true;
    return k == 1 ? numbers->centered : numbers->momentum > 0;
}
