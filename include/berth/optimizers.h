/* berth/optimizers.h: optimisers, schedules of their rates, clipping, loss scaling, averages.
 *
 * An optimiser has a rule, a learning rate and states: variables beside each parameter, on its devices, with a replica on
 * each of a mirrored one (dist.h). One step updates the parameters and all states together (bt_set_all): a step that
 * fails, at once or later, changes none of them. Frozen parameters are passed over (bt_freeze).
 *
 * The order of a step: unscale, average over the accumulated steps, clip by value, clip by norm, the rule with its decay,
 * the average of the parameters. Parameters of float16 and bfloat16 have states of float32 and are updated in float32,
 * then rounded; float64 stays float64.
 *
 * Like arrays, optimisers belong to the innermost scope of the thread that makes them and may be used from any thread;
 * bt_optimizer_retain and bt_optimizer_release are for those that live longer. Threads that step different parameters
 * with one optimiser at the same time are fine, unless it counts its steps (a schedule, accumulation, loss scaling, the
 * norm): then use one optimiser for each.
 *
 * Errors. An optimiser that cannot be made is poisoned, like an array; it is never NULL. It carries the first cause,
 * which is also put into the error record, and each use fails with that cause. bt_optimizer_status reports it at once. A
 * released one is refused with INVALID_ARGUMENT; the text names the line that made it and the line that released it.
 */
#ifndef BERTH_OPTIMIZERS_H
#define BERTH_OPTIMIZERS_H

#include <berth/nn.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct bt_optimizer bt_optimizer;

/* Options of optimisers by name, `bt_adamw(1e-3, .beta2 = 0.95, .clip_norm = 1)`; what is not said has the default in
 * brackets. An option that the rule does not have is INVALID_ARGUMENT. */
typedef struct bt_optimizer_options {
    size_t size BTI_INITIALLY(sizeof(bt_optimizer_options)); /* set by the macro */
    double beta1 BTI_INITIALLY(BTI_UNSET_REAL);   /* adam, adamw, lion: of the mean of gradients, 0 to below 1 [0.9] */
    double beta2 BTI_INITIALLY(BTI_UNSET_REAL);   /* of the mean of squares, 0 to below 1 [0.999; lion: 0.99] */
    double epsilon BTI_INITIALLY(BTI_UNSET_REAL); /* adam, adamw, rmsprop, adagrad [1e-8; adagrad: 1e-10] */
    BTI_BY_NAME
    double alpha BTI_INITIALLY(BTI_UNSET_REAL);    /* rmsprop: of the mean of squares, 0 to below 1 [0.99] */
    double momentum BTI_INITIALLY(BTI_UNSET_REAL); /* rmsprop: of its velocity, 0 or more [0: none] */
    bool centered BTI_INITIALLY(false);         /* rmsprop: by the variance in the place of the mean square [false] */
    double decay BTI_INITIALLY(BTI_UNSET_REAL); /* weight decay, 0 or more; bt_optimizer_group [0; adamw: 0.01] */
    double clip_value BTI_INITIALLY(0);         /* limits each element of a gradient to +-clip_value [0: does not] */
    double clip_norm BTI_INITIALLY(
        0); /* limits the norm of all gradients of a step together (bt_clip_by_global_norm) [0: does not] */
    int64_t
        accumulate BTI_INITIALLY(0); /* updates at each accumulate-th step, by the mean of the gradients since [1] */
    double average BTI_INITIALLY(
        0); /* keeps averages of the parameters with this factor, below 1: bt_optimizer_average [0: none] */
    double loss_scale
        BTI_INITIALLY(0); /* the first scale of the loss, for float16: bt_optimizer_scale_loss [0: no scaling] */
    double scale_growth BTI_INITIALLY(0);    /* with loss_scale: above 1 [2] */
    double scale_backoff BTI_INITIALLY(0);   /* with loss_scale: above 0 and below 1 [0.5] */
    int64_t scale_interval BTI_INITIALLY(0); /* with loss_scale: finite updates before it grows [2000] */
} bt_optimizer_options;
#ifdef __cplusplus
#define BTI_OPTIMIZER_UNSET
#else /* a value without a name would be the next member: by_name, which takes none */
#define BTI_OPTIMIZER_UNSET                                                                    \
    .size = sizeof(bt_optimizer_options), .alpha = BTI_UNSET_REAL, .momentum = BTI_UNSET_REAL, \
    .decay = BTI_UNSET_REAL, .beta1 = BTI_UNSET_REAL, .beta2 = BTI_UNSET_REAL, .epsilon = BTI_UNSET_REAL,
#endif
#define BT_OPTIMIZER(...) BTI_OVERRIDDEN(bt_optimizer_options, BTI_OPTIMIZER_UNSET __VA_ARGS__)

/* --- rules ------------------------------------------------------------------------------------------------------------
 * p: the parameter; g: its gradient, to which all rules but adamw and lion first add decay * p; rate: the learning rate, a finite number. Definitions and
 * defaults are PyTorch's (torch.optim), lion is that of Chen et al. 2023. Of the functions themselves NULL means the defaults. */

/* p -= rate * g */
BT_API bt_optimizer *bt_sgd(double rate, const bt_optimizer_options *options);
/* v = momentum * v + g; p -= rate * v. momentum: 0 or more. */
BT_API bt_optimizer *bt_momentum(double rate, double momentum, const bt_optimizer_options *options);
/* v = momentum * v + g; p -= rate * (g + momentum * v) (Nesterov, after Sutskever et al. 2013) */
BT_API bt_optimizer *bt_nesterov(double rate, double momentum, const bt_optimizer_options *options);
/* m = beta1 * m + (1 - beta1) * g; s = beta2 * s + (1 - beta2) * g**2;
 * p -= rate * (m / (1 - beta1**t)) / (sqrt(s / (1 - beta2**t)) + epsilon), t = 1, 2, ... counting the updates of p (Kingma & Ba 2015).
 * Also by position: `bt_adam(rate, beta1, beta2, epsilon)`. */
BT_API bt_optimizer *bt_adam(double rate, const bt_optimizer_options *options);
/* As bt_adam with p -= rate * decay * p beside it (Loshchilov & Hutter 2019). */
BT_API bt_optimizer *bt_adamw(double rate, const bt_optimizer_options *options);
/* s = alpha * s + (1 - alpha) * g**2; p -= rate * g / (sqrt(s) + epsilon). With `centered`: a = alpha * a + (1 - alpha) * g, and s - a**2 stands
 * under the root. With `momentum`: v = momentum * v + g / (...); p -= rate * v. */
BT_API bt_optimizer *bt_rmsprop(double rate, const bt_optimizer_options *options);
/* s = s + g**2; p -= rate * g / (sqrt(s) + epsilon) (Duchi et al. 2011) */
BT_API bt_optimizer *bt_adagrad(double rate, const bt_optimizer_options *options);
/* u = sign(beta1 * m + (1 - beta1) * g); m = beta2 * m + (1 - beta2) * g; p -= rate * (u + decay * p) (Chen et al. 2023, algorithm 2) */
BT_API bt_optimizer *bt_lion(double rate, const bt_optimizer_options *options);

#ifndef BERTH_BUILDING
#define BTI_RULE(rule, rate, ...) rule(rate, BT_OPTIMIZER(__VA_ARGS__))
#define BTI_MOMENTUM(rule, rate, momentum, ...) rule(rate, momentum, BT_OPTIMIZER(__VA_ARGS__))
#define bt_sgd(...) BTI_AT(bt_optimizer *, BTI_RULE(bt_sgd, __VA_ARGS__, ))
#define bt_momentum(...) BTI_AT(bt_optimizer *, BTI_MOMENTUM(bt_momentum, __VA_ARGS__, ))
#define bt_nesterov(...) BTI_AT(bt_optimizer *, BTI_MOMENTUM(bt_nesterov, __VA_ARGS__, ))
#define bt_adam(...) BTI_AT(bt_optimizer *, BTI_ADAM(__VA_ARGS__, ))
#define bt_adamw(...) BTI_AT(bt_optimizer *, BTI_RULE(bt_adamw, __VA_ARGS__, ))
#define bt_rmsprop(...) BTI_AT(bt_optimizer *, BTI_RULE(bt_rmsprop, __VA_ARGS__, ))
#define bt_adagrad(...) BTI_AT(bt_optimizer *, BTI_RULE(bt_adagrad, __VA_ARGS__, ))
#define bt_lion(...) BTI_AT(bt_optimizer *, BTI_RULE(bt_lion, __VA_ARGS__, ))
#endif
/* The options of bt_adam, with the values by position first. */
#ifdef __cplusplus
struct bti_adam_options {
    double beta1 = BTI_UNSET_REAL, beta2 = BTI_UNSET_REAL, epsilon = BTI_UNSET_REAL;
    BTI_BY_NAME
    double decay = BTI_UNSET_REAL, clip_value = 0, clip_norm = 0;
    int64_t accumulate = 0;
    double average = 0, loss_scale = 0, scale_growth = 0, scale_backoff = 0;
    int64_t scale_interval = 0;
    operator bt_optimizer_options() const {
        bt_optimizer_options all;
        all.beta1 = beta1, all.beta2 = beta2, all.epsilon = epsilon, all.decay = decay;
        all.clip_value = clip_value, all.clip_norm = clip_norm, all.accumulate = accumulate, all.average = average;
        all.loss_scale = loss_scale, all.scale_growth = scale_growth;
        all.scale_backoff = scale_backoff, all.scale_interval = scale_interval;
        return all;
    }
};
#define BTI_ADAM(rate, ...) \
    bt_adam(rate, bti_address<bt_optimizer_options>(__extension__ bti_adam_options{__VA_ARGS__}))
#else
#define BTI_ADAM(rate, ...) bt_adam(rate, BT_OPTIMIZER(.size = sizeof(bt_optimizer_options), __VA_ARGS__))
#endif

/* An additional owner, outside of all scopes; each bt_optimizer_retain needs one bt_optimizer_release. */
BT_API bt_optimizer *bt_optimizer_retain(bt_optimizer *optimizer);
#define bt_optimizer_retain(...) BTI_AT(bt_optimizer *, bt_optimizer_retain(__VA_ARGS__))
BT_API void bt_optimizer_release(bt_optimizer *optimizer); /* NULL is accepted; also frees its states */
#define bt_optimizer_release(...) BTI_AT_VOID(bt_optimizer_release(__VA_ARGS__))
/* BT_OK when it can be used; else its error, with the cause in the error record. */
BT_API bt_status bt_optimizer_status(const bt_optimizer *optimizer);
#define bt_optimizer_status(...) BTI_AT_STATUS(bt_optimizer_status(__VA_ARGS__))

/* --- steps ----------------------------------------------------------------------------------------------------------- */

/* One step: updates parameters[i] with grads[i], which has its shape. The first step of a parameter makes its states. In a
 * BT_REPLICA block it updates the replica of that block. Lazy: the new values are computed with the next read or step.
 * INVALID_ARGUMENT: NULL, poisoned or released ones, another shape, a negative count; FAILED_PRECONDITION while a
 * function is recorded (bt_optimizer_updates). */
BT_API bt_status bt_optimizer_step(bt_optimizer *optimizer, bt_shared *const *parameters, bt_array *const *grads,
                                   int count);
#define bt_optimizer_step(...) BTI_AT_STATUS(bt_optimizer_step(__VA_ARGS__))

/* The same step as updates of a function: writes those of parameters and states to updates[] (arrays of the innermost
 * scope) and returns how many they are. With updates NULL and capacity 0 it only counts them, and grads may be NULL. Rate,
 * counts and scales are read at each call of the function; options, groups, the schedule and what is frozen hold as
 * they are now. On an error, also if the capacity is too small, it returns -1, which bt_function_new refuses; the cause is
 * in the error record.
 *
 *     bt_update updates[16];
 *     int count = bt_optimizer_updates(adam, parameters, grads, 4, updates, 16);
 *     bt_function *step = bt_function_new((bt_array *[]){x, y}, 2, &loss, 1, updates, count);
 */
BT_API int bt_optimizer_updates(bt_optimizer *optimizer, bt_shared *const *parameters, bt_array *const *grads,
                                int count, bt_update *updates, int capacity);
/* Makes the states of the parameters now, where the first step would. Blocks. Errors: those of bt_optimizer_step. */
BT_API bt_status bt_optimizer_prepare(bt_optimizer *optimizer, bt_shared *const *parameters, int count);
#define bt_optimizer_prepare(...) BTI_AT_STATUS(bt_optimizer_prepare(__VA_ARGS__))

/* Parameters with a decay and a rate of their own. */
typedef struct bt_optimizer_group_options {
    size_t size BTI_INITIALLY(sizeof(bt_optimizer_group_options)); /* set by the macro */
    bt_shared *const *parameters BTI_INITIALLY(NULL);
    int count BTI_INITIALLY(0);
    BTI_BY_NAME
    double decay BTI_INITIALLY(BTI_UNSET_REAL); /* weight decay, 0 or more [the optimiser's] */
    double rate BTI_INITIALLY(BTI_UNSET_REAL);  /* a factor of the learning rate, a finite number [1] */
} bt_optimizer_group_options;
#ifdef __cplusplus
#define BTI_GROUP_UNSET
#else /* the parameters and their number come next, without names */
#define BTI_GROUP_UNSET .decay = BTI_UNSET_REAL, .rate = BTI_UNSET_REAL, .size = sizeof(bt_optimizer_group_options),
#endif
#define BT_OPTIMIZER_GROUP(...) BTI_OVERRIDDEN(bt_optimizer_group_options, BTI_GROUP_UNSET __VA_ARGS__)
/* From the next step on these parameters have a decay and a rate of their own: `bt_optimizer_group(o, biases, 2, .decay = 0)`. A later call for
 * a parameter takes the place of the earlier one. Makes their states. Blocks. Of the function itself:
 * `(bt_optimizer_group)(o, BT_OPTIMIZER_GROUP(.parameters = biases, .count = 2, .decay = 0))`. */
BT_API bt_status bt_optimizer_group(bt_optimizer *optimizer, const bt_optimizer_group_options *group);
#ifdef __cplusplus
}
static inline bt_optimizer_group_options bti_group_of(bt_shared *const *parameters, int count,
                                                      bt_optimizer_group_options group) {
    group.parameters = parameters, group.count = count;
    return group;
}
extern "C" {
#define BTI_GROUP(optimizer, parameters, count, ...)                                    \
    bt_optimizer_group(optimizer, bti_address<bt_optimizer_group_options>(bti_group_of( \
                                      parameters, count, __extension__ bt_optimizer_group_options{__VA_ARGS__})))
#define bt_optimizer_group(...) BTI_AT_STATUS(BTI_GROUP(__VA_ARGS__, ))
#elif !defined BERTH_BUILDING /* a list that is written in the call has commas */
#define bt_optimizer_group(optimizer, ...) BTI_AT_STATUS(bt_optimizer_group(optimizer, BT_OPTIMIZER_GROUP(__VA_ARGS__)))
#endif

/* --- the learning rate ------------------------------------------------------------------------------------------------
 * The rate of a step is the optimiser's rate, times the schedule's factor, times the group's. It is a value of the step, read from a variable: changing it
 * neither plans nor compiles, in steps and in functions. */

/* A finite number, from the next step or call on. Any thread; does not block. */
BT_API bt_status bt_optimizer_set_rate(bt_optimizer *optimizer, double rate);
#define bt_optimizer_set_rate(...) BTI_AT_STATUS(bt_optimizer_set_rate(__VA_ARGS__))
/* As it was given or set; NaN for one that cannot be used. */
BT_API double bt_optimizer_rate(const bt_optimizer *optimizer);

/* The factor of the rate at step t = 0, 1, ... of `steps`, u = t - warmup counting the steps behind the warm-up. */
typedef enum bt_schedule {
    BT_SCHEDULE_CONSTANT, /* 1 */
    BT_SCHEDULE_LINEAR,   /* from 1 to `last` in a line */
    BT_SCHEDULE_COSINE,   /* last + (1 - last) * (1 + cos(pi * u / (steps - warmup))) / 2 (Loshchilov & Hutter 2017) */
    BT_SCHEDULE_STEP,     /* gamma**floor(u / every) */
    BT_SCHEDULE_EXPONENTIAL, /* gamma**u */
    BT_SCHEDULE_ONE_CYCLE, /* up from `first` to 1 in the part `rise` of the steps, down to `last`, both by half cosines (Smith & Topin 2018, as PyTorch's OneCycleLR) */
    BT_SCHEDULE_OWN        /* own(u, data) */
} bt_schedule;

/* A schedule of the program's: the factor at a step. It must give equal numbers for equal steps, and may be called on any thread of the library, where it
 * must not wait for work (custom.h). */
typedef double bt_schedule_fn(int64_t step, void *data);

/* Options of schedules by name, `bt_optimizer_schedule(o, BT_SCHEDULE_COSINE, .steps = 1000, .warmup = 100)`. */
typedef struct bt_schedule_options {
    size_t size BTI_INITIALLY(sizeof(bt_schedule_options)); /* set by the macro */
    BTI_BY_NAME
    int64_t steps BTI_INITIALLY(
        0); /* linear, cosine, one-cycle: of all, the warm-up among them; the last factor holds afterwards [needed] */
    int64_t warmup BTI_INITIALLY(
        0); /* so many steps first that go from `first` towards 1 in a line: first + (1 - first) * t / warmup; not one-cycle [0] */
    double first
        BTI_INITIALLY(BTI_UNSET_REAL); /* the factor at step 0, of a warm-up or of one-cycle [0; one-cycle: 1/25] */
    double last BTI_INITIALLY(
        BTI_UNSET_REAL); /* the factor at the end of linear, cosine and one-cycle [0; one-cycle: first / 1e4] */
    int64_t every BTI_INITIALLY(0);             /* step: 1 or more [needed] */
    double gamma BTI_INITIALLY(BTI_UNSET_REAL); /* step, exponential: above 0 [0.1; exponential: needed] */
    double rise BTI_INITIALLY(BTI_UNSET_REAL);  /* one-cycle: above 0 and below 1 [0.3] */
    bt_schedule_fn *own BTI_INITIALLY(NULL);    /* own: the function [needed] */
    void *data BTI_INITIALLY(NULL); /* own: must live as long as the optimiser and functions with its updates */
} bt_schedule_options;
#ifdef __cplusplus
#define BTI_SCHEDULE_UNSET
#else
#define BTI_SCHEDULE_UNSET                                                                            \
    .first = BTI_UNSET_REAL, .last = BTI_UNSET_REAL, .gamma = BTI_UNSET_REAL, .rise = BTI_UNSET_REAL, \
    .size = sizeof(bt_schedule_options),
#endif
#define BT_SCHEDULE(...) BTI_OVERRIDDEN(bt_schedule_options, BTI_SCHEDULE_UNSET __VA_ARGS__)
/* Sets the schedule; the count of steps, a state, begins at 0 with the first one and goes on with later ones. It counts updates:
 * not steps that only accumulate, nor those that loss scaling passes over. Built-in schedules are computed on the devices of the parameters; one of the
 * program's is called on the host, so that on a GPU each step fetches the count. Errors: INVALID_ARGUMENT, with the option. */
BT_API bt_status bt_optimizer_schedule(bt_optimizer *optimizer, bt_schedule schedule,
                                       const bt_schedule_options *options);
#ifndef BERTH_BUILDING
#define BTI_SCHEDULE_OF(optimizer, schedule, ...) bt_optimizer_schedule(optimizer, schedule, BT_SCHEDULE(__VA_ARGS__))
#define bt_optimizer_schedule(...) BTI_AT_STATUS(BTI_SCHEDULE_OF(__VA_ARGS__, ))
#endif
/* The rate of the next step, the schedule's factor included: a lazy scalar, float64. */
BT_API bt_array *bt_optimizer_next_rate(const bt_optimizer *optimizer);
#define bt_optimizer_next_rate(...) BTI_AT(bt_array *, bt_optimizer_next_rate(__VA_ARGS__))

/* --- clipping -------------------------------------------------------------------------------------------------------- */

/* sqrt of the sum of all squares of the arrays (floats, on any devices): a lazy scalar, float64, where the first one is. */
BT_API bt_array *bt_global_norm(bt_array *const *arrays, int count);
#define bt_global_norm(...) BTI_AT(bt_array *, bt_global_norm(__VA_ARGS__))
/* Replaces each of arrays[] by arrays[i] * min(1, limit / (norm + 1e-6)), as torch.nn.utils.clip_grad_norm_ does; limit: 0 or more. Returns the norm before. On an
 * error the norm is poisoned and arrays[] stay. */
BT_API bt_array *bt_clip_by_global_norm(bt_array **arrays, int count, double limit);
#define bt_clip_by_global_norm(...) BTI_AT(bt_array *, bt_clip_by_global_norm(__VA_ARGS__))
/* Replaces each of arrays[] by its elements limited to [-limit, limit]; limit: 0 or more. On an error they stay. */
BT_API bt_status bt_clip_by_value(bt_array **arrays, int count, double limit);
#define bt_clip_by_value(...) BTI_AT_STATUS(bt_clip_by_value(__VA_ARGS__))
/* The norm that an optimiser with .clip_norm found at its last update, before clipping (0 before the first): a lazy scalar, float64.
 * FAILED_PRECONDITION without .clip_norm, or before there are states. */
BT_API bt_array *bt_optimizer_norm(const bt_optimizer *optimizer);
#define bt_optimizer_norm(...) BTI_AT(bt_array *, bt_optimizer_norm(__VA_ARGS__))

/* --- loss scaling -----------------------------------------------------------------------------------------------------
 * Small gradients of float16 vanish unless the loss is scaled up. With .loss_scale bt_train_step and bt_fit do that; a step by hand differentiates
 * bt_optimizer_scale_loss(o, loss). Gradients are divided by the scale. If one of them is not finite, that update changes no parameter and no state,
 * and the scale is multiplied by .scale_backoff; after .scale_interval finite updates in a row it is multiplied by .scale_growth (torch.amp.GradScaler). */

/* loss * scale (lazy; float16 and bfloat16 become float32); without .loss_scale the loss itself. FAILED_PRECONDITION before there are states
 * (bt_optimizer_prepare). */
BT_API bt_array *bt_optimizer_scale_loss(bt_optimizer *optimizer, bt_array *loss);
#define bt_optimizer_scale_loss(...) BTI_AT(bt_array *, bt_optimizer_scale_loss(__VA_ARGS__))
/* The scale now: a lazy scalar, float64; 1 without .loss_scale. */
BT_API bt_array *bt_optimizer_loss_scale(const bt_optimizer *optimizer);
#define bt_optimizer_loss_scale(...) BTI_AT(bt_array *, bt_optimizer_loss_scale(__VA_ARGS__))

/* --- averages of parameters -------------------------------------------------------------------------------------------
 * With .average = d each update sets a = d * a + (1 - d) * p, where a begins as p is when its states are made (Polyak & Juditsky 1992). */

/* The average of a parameter now (lazy), in the dtype of its states. FAILED_PRECONDITION without .average, or before it has states. */
BT_API bt_array *bt_optimizer_average(const bt_optimizer *optimizer, bt_shared *parameter);
#define bt_optimizer_average(...) BTI_AT(bt_array *, bt_optimizer_average(__VA_ARGS__))
/* A copy of the model with the averages of now in the place of the parameters that have one, for evaluation:
 * `bt_apply(bt_optimizer_averaged(o, model), x)`. The model is as it was. Blocks. Poisoned as bt_fmap's, and without .average. */
BT_API bt_layer *bt_optimizer_averaged(const bt_optimizer *optimizer, const bt_layer *model);
#define bt_optimizer_averaged(...) BTI_AT(bt_layer *, bt_optimizer_averaged(__VA_ARGS__))

/* --- states ---------------------------------------------------------------------------------------------------------- */

/* The states, in the order in which their parameters came: "adam.mean.0.weight", "adam.square.0.weight", "adam.step.0.weight", ..., then those of the
 * optimiser ("adam.count", of the schedule; of parameters on other devices "adam.count.1"). A parameter without a name counts: "#0" is the first. Writes up to
 * `capacity` of them (borrowed) and returns how many there are, as bt_parameters does. The rate is no state. Files: bt_save_optimizer (file.h). */
BT_API int bt_optimizer_states(const bt_optimizer *optimizer, bt_shared **states, int capacity);
/* The name of the rule: "adam". NULL for one that cannot be used. */
BT_API const char *bt_optimizer_name(const bt_optimizer *optimizer);

#ifdef __cplusplus
}
#endif
#endif
