/* Inside an optimiser: its rule, its states, its schedule. */
#ifndef BTI_NN_OPTIMIZER_H
#define BTI_NN_OPTIMIZER_H

#include <berth/optimizers.h>

#include "array/handle.h"

/* --- rules ------------------------------------------------------------------------------------------------------------ */

#define BTI_RULE_STATES 3 /* per parameter, at most */
#define BTI_STEP 2        /* the state of a rule that corrects: float64, how many updates there were */

/* One parameter in one step. All arrays have the dtype that the step computes in; rate is a scalar. */
typedef struct bti_rule_step {
    bt_array *parameter, *grad, *rate;
    bt_array *states[BTI_RULE_STATES]; /* replaced by the new ones; NULL: not used */
    bt_array *corrections[2];          /* of a rule that corrects */
    double decay;
} bti_rule_step;

typedef struct bti_optimizer_rule {
    const char *name, *call; /* "adam", "bt_adam" */
    unsigned options;        /* BTI_KNOWS_... */
    const char
        *states[BTI_RULE_STATES]; /* their names; "step" is a float64 scalar, the others are like the parameter */
    double beta2, epsilon, decay; /* defaults that differ between rules */
    /* (optional) What the rule needs of the number of the step, its state BTI_STEP, which is one more by now: for several parameters at once, steps [N] -> corrections [N] each; or of one parameter, []. */
    void (*correct)(const bt_optimizer_options *numbers, bt_array *steps, bt_dtype dtype, bt_array *corrections[2]);
    bt_array *(*update)(const bt_optimizer_options *numbers, bti_rule_step *step); /* the new parameter */
} bti_optimizer_rule;

enum { BTI_KNOWS_BETAS = 1, BTI_KNOWS_EPSILON = 2, BTI_KNOWS_RMSPROP = 4, BTI_KNOWS_MOMENTUM = 8 };
typedef enum bti_rule_kind {
    BTI_SGD,
    BTI_MOMENTUM_RULE,
    BTI_NESTEROV,
    BTI_ADAM_RULE,
    BTI_ADAMW,
    BTI_RMSPROP,
    BTI_ADAGRAD,
    BTI_LION,
    BTI_RULES
} bti_rule_kind;
extern const bti_optimizer_rule bti_optimizer_rules[BTI_RULES];
/* Whether the rule uses its state k with these options. */
bool bti_optimizer_rule_uses(const bti_optimizer_rule *rule, const bt_optimizer_options *numbers, int k);

/* --- states ----------------------------------------------------------------------------------------------------------- */

/* What parameters on the same devices have in common: scalars. Each is made when it is first needed; NULL until then. */
typedef enum bti_common_value {
    BTI_COUNT,       /* float64: updates, for the schedule */
    BTI_ACCUMULATED, /* float64: steps since the last update */
    BTI_SCALE,       /* float64: of the loss */
    BTI_FINITE,      /* float64: finite updates since the scale changed */
    BTI_NORM,        /* float64: of the gradients at the last update */
    BTI_RATE_F32,
    BTI_RATE_F64,
    BTI_COMMON_VALUES
} bti_common_value;

typedef struct bti_common {
    struct bti_common *next;
    const bt_shared *beside; /* a parameter on these devices, which an entry retains */
    int number;              /* 0: the first */
    _Atomic(bt_shared *) values[BTI_COMMON_VALUES];
} bti_common;

#define BTI_EVERY_REPLICA -1
#define BTI_NO_REPLICA -2 /* the states were on a device that failed */

/* What belongs to a parameter. Made with all its states, released with the optimiser. */
typedef struct bti_optimizer_entry {
    struct bti_optimizer_entry *next;
    _Atomic(struct bti_optimizer_entry *) follower; /* the entry that was looked up after this one */
    bt_shared *parameter;                           /* retained, so that no other parameter can get its address */
    _Atomic(bti_common *) common;
    bt_dtype dtype; /* that the step computes in, and of the states */
    atomic_int
        home; /* the replica of the parameter that alone has the states and computes the update, which all get; BTI_EVERY_REPLICA */
    bt_shared *states[BTI_RULE_STATES];
    bt_shared *accumulated, *average; /* NULL without those options */
    _Atomic double decay, rate;       /* of its group */
} bti_optimizer_entry;

typedef struct bti_schedule_made {
    struct bti_schedule_made *previous; /* replaced by this one; steps of other threads may still read it */
    bt_schedule kind;
    bt_schedule_options numbers;
    bt_custom *own;
} bti_schedule_made;

typedef enum bti_gradients {
    BTI_GRADIENTS_WARN,   /* writes a line to the log */
    BTI_GRADIENTS_NEEDED, /* fails */
    BTI_GRADIENTS_KNOWN   /* nothing: a step has looked at them */
} bti_gradients;

struct bt_optimizer {
    bti_owned head;
    const bti_optimizer_rule *rule;
    bt_optimizer_options numbers; /* all of them set */
    _Atomic double rate;
    _Atomic(bti_schedule_made *) schedule; /* NULL: constant */
    /* lists that only grow at their heads, so any thread may read them meanwhile */
    _Atomic(bti_optimizer_entry *) entries;
    _Atomic(bti_common *) commons;
    atomic_int names;                 /* entries without a name of the parameter's */
    atomic_int gradients;             /* bti_gradients: what a training step does with a parameter without one */
    _Atomic(const char *) trained_by; /* the call that trains with it, for messages: "bt_fit"; NULL: bt_train_step */
};

/* INVALID_ARGUMENT for an optimiser or a parameter that cannot be used, or a list that cannot be. */
bt_status bti_optimizer_check(const bt_optimizer *optimizer, bt_shared *const *parameters, int count, const char *call);
/* Makes the entries of thawed parameters, and the common values that a step needs. */
bt_status bti_optimizer_prepare(bt_optimizer *optimizer, bt_shared *const *parameters, int count);
/* The same, with the states of parameter i beside its replica homes[i] only; homes NULL: beside every replica. States that are elsewhere move. Not while another
 * thread uses the optimiser. */
bt_status bti_optimizer_place(bt_optimizer *optimizer, bt_shared *const *parameters, const int *homes, int count);
/* Takes replicas on a device out of the states and their parameters, as bti_shared_drop_replica does. Sharded states that were there are lost: steps refuse their parameter until bt_optimizer_prepare has made new ones. */
void bti_optimizer_drop_device(bt_optimizer *optimizer, int device);
bool bti_optimizer_has_lost(const bt_optimizer *optimizer);
/* previous: the entry looked up before, or NULL. NULL: there is none. */
bti_optimizer_entry *bti_entry_find(const bt_optimizer *optimizer, const bt_shared *parameter,
                                    bti_optimizer_entry *previous);
/* Those of the first parameters; NULL: there are none yet. */
bti_common *bti_common_first(const bt_optimizer *optimizer);
/* INVALID_ARGUMENT unless it is finite. */
bt_status bti_rate_check(double rate);
/* A scalar on a device: elements, not a constant, since a constant is a part of the plan. */
bt_array *bti_rate_array(double rate, bt_dtype dtype, bt_device *device);
/* Sets a variable of the rate, on all its replicas. */
bt_status bti_rate_set(bt_shared *variable, double rate);
/* Sets states and the rate in one step. */
bt_status bti_optimizer_restore(bt_optimizer *optimizer, bt_shared *const *states, bt_array *const *values, int count,
                                double rate);
void bti_optimizer_clear_states(bt_optimizer *optimizer);

/* --- parts of a step -------------------------------------------------------------------------------------------------- */

/* The factor at a count, a float64 scalar. */
bt_array *bti_schedule_factor(const bti_schedule_made *schedule, bt_array *count);
void bti_schedule_free(bti_schedule_made *schedule);
/* The same scalar on the device of another array. */
bt_array *bti_scalar_beside(bt_array *scalar, bt_array *beside);
/* min(1, limit / (norm + 1e-6)), float64. */
bt_array *bti_clip_factor(bt_array *norm, double limit);
/* For a training step: the loss to differentiate; makes the states if it is to be scaled. */
bt_array *bti_optimizer_scaled(bt_optimizer *optimizer, bt_shared *const *parameters, int count, bt_array *loss);

#endif
