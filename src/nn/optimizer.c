/* Optimisers: SGD, momentum and Adam. */
#include <berth/nn.h>

#include "function/shared.h"
#include "base/alloc.h"
#include "base/error.h"

#define STATES 3 /* per parameter, at most */

typedef enum rule { SGD, MOMENTUM, ADAM } rule;

/* The states of one parameter: made when it is first updated, released with the optimiser. */
typedef struct state {
    struct state *next;
    bt_shared *parameter; /* retained, so that no other parameter can get its address */
    bt_shared *shared[STATES];
} state;

struct bt_optimizer {
    bti_owned head;
    rule rule;
    double rate, beta1, beta2, epsilon; /* beta1 is momentum's */
    _Atomic(state *) states;            /* a list that only grows at its head, so any thread may read it meanwhile */
};

static void free_state(state *s) {
    for (int k = 0; k < STATES; k++) bt_shared_release(s->shared[k]);
    bt_shared_release(s->parameter);
    bti_free(s);
}

static void clear_optimizer(void *object) {
    bt_optimizer *optimizer = object;
    for (state *s = atomic_load(&optimizer->states), *next; s; s = next) {
        next = s->next;
        free_state(s);
    }
}

static bt_optimizer optimizer_without_memory = {.head = BTI_NO_MEMORY};
static const bti_handle_class optimizer_class = {BTI_OWNED_OPTIMIZER, sizeof(bt_optimizer), clear_optimizer,
                                                 &optimizer_without_memory};

static bt_optimizer *make_optimizer(rule r, double rate, double beta1, double beta2, double epsilon) {
    bt_optimizer *o = bti_owned_new(BTI_OWNED_OPTIMIZER, sizeof *o);
    if (o) {
        o->rule = r;
        o->rate = rate;
        o->beta1 = beta1;
        o->beta2 = beta2;
        o->epsilon = epsilon;
    } else
        (void)!bti_no_memory();
    return bti_scope_own(&optimizer_class, o);
}

bt_optimizer *bt_sgd(double rate) { return make_optimizer(SGD, rate, 0, 0, 0); }
bt_optimizer *bt_momentum(double rate, double momentum) { return make_optimizer(MOMENTUM, rate, momentum, 0, 0); }
bt_optimizer *bt_adam(double rate, double beta1, double beta2, double epsilon) {
    return make_optimizer(ADAM, rate, beta1, beta2, epsilon);
}

bt_optimizer *bt_optimizer_retain(bt_optimizer *optimizer) {
    return bti_handle_retain(&optimizer_class, optimizer, "bt_optimizer_retain");
}
void bt_optimizer_release(bt_optimizer *optimizer) {
    bti_handle_release(&optimizer_class, optimizer, "bt_optimizer_release");
}
bt_status bt_optimizer_status(const bt_optimizer *optimizer) {
    return bti_handle_check(BTI_OWNED_OPTIMIZER, optimizer, "bt_optimizer_status");
}

/* --- states ----------------------------------------------------------------------------------------------------------- */

static int states_of(rule r) { return r == SGD ? 0 : r == MOMENTUM ? 1 : 3; }

static state *find_state(state *first, const bt_shared *parameter) {
    while (first && first->parameter != parameter) first = first->next;
    return first;
}

/* States are zeros like the parameter; the third one counts steps. */
static bt_status add_state(bt_optimizer *optimizer, bt_shared *parameter) {
    state *s = bti_calloc(1, sizeof *s);
    if (!s) return bti_no_memory();
    s->parameter = bt_shared_retain(parameter);
    bool made = true;
    for (int k = 0; k < states_of(optimizer->rule) && made; k++) {
        BT_SCOPE
            s->shared[k] = bt_shared_retain(
                bt_shared_new_beside(parameter, k == 2 ? bt_zeros(BT_F64) : bt_zeros_like(bt_value(parameter))));
        made = bt_shared_status(s->shared[k]) == BT_OK;
    }
    s->next = atomic_load(&optimizer->states);
    while (made && !find_state(s->next, parameter)) /* another thread may have been faster */
        if (atomic_compare_exchange_weak(&optimizer->states, &s->next, s)) return BT_OK;
    free_state(s);
    return made ? BT_OK : bt_error_status();
}

/* --- updates ---------------------------------------------------------------------------------------------------------- */

/* The new values of a step, collected so that all are set at once. */
typedef struct update_list {
    bt_shared **shared;
    bt_array **values;
    int count;
} update_list;

static void add_update(update_list *list, bt_shared *shared, bt_array *value) {
    list->shared[list->count] = shared;
    list->values[list->count++] = value;
}

static bt_array *scale_array(bt_array *x, double factor) { return bt_mul(x, bt_num(factor)); }

static void update_sgd(const bt_optimizer *o, bt_shared *parameter, bt_array *grad, update_list *list) {
    add_update(list, parameter, bt_sub(bt_value(parameter), scale_array(grad, o->rate)));
}

static void update_momentum(const bt_optimizer *o, bt_shared *parameter, bt_array *grad, const state *s,
                            update_list *list) {
    bt_array *velocity = bt_add(scale_array(bt_value(s->shared[0]), o->beta1), grad);
    add_update(list, s->shared[0], velocity);
    add_update(list, parameter, bt_sub(bt_value(parameter), scale_array(velocity, o->rate)));
}

/* 1 - beta**step, in float64: in float32 the first steps would be off by 1e-5. */
static bt_array *correction(double beta, bt_array *step, bt_dtype dtype) {
    return bt_cast(bt_sub(bt_num(1), bt_pow(bt_num(beta), step)), dtype);
}

static void update_adam(const bt_optimizer *o, bt_shared *parameter, bt_array *grad, const state *s,
                        update_list *list) {
    bt_array *mean = bt_add(scale_array(bt_value(s->shared[0]), o->beta1), scale_array(grad, 1 - o->beta1));
    bt_array *square =
        bt_add(scale_array(bt_value(s->shared[1]), o->beta2), scale_array(bt_square(grad), 1 - o->beta2));
    bt_array *step = bt_add(bt_value(s->shared[2]), bt_num(1));
    bt_array *mean_hat = bt_div(mean, correction(o->beta1, step, bt_dtype_of(mean)));
    bt_array *square_hat = bt_div(square, correction(o->beta2, step, bt_dtype_of(square)));
    bt_array *move = bt_div(scale_array(mean_hat, o->rate), bt_add(bt_sqrt(square_hat), bt_num(o->epsilon)));
    add_update(list, s->shared[0], mean);
    add_update(list, s->shared[1], square);
    add_update(list, s->shared[2], step);
    add_update(list, parameter, bt_sub(bt_value(parameter), move));
}

static bt_status collect_updates(bt_optimizer *o, bt_shared *const *parameters, bt_array *const *grads, int count,
                                 update_list *list) {
    for (int i = 0; i < count; i++) {
        if (bt_shared_is_frozen(parameters[i])) continue;
        const state *s = find_state(atomic_load(&o->states), parameters[i]);
        switch (o->rule) {
        case SGD: update_sgd(o, parameters[i], grads[i], list); break;
        case MOMENTUM: update_momentum(o, parameters[i], grads[i], s, list); break;
        case ADAM: update_adam(o, parameters[i], grads[i], s, list); break;
        }
    }
    return bt_set_all(list->shared, list->values, list->count);
}

static bt_status check_step(const bt_optimizer *optimizer, bt_shared *const *parameters, bt_array *const *grads,
                            int count) {
    BTI_CALL("bt_optimizer_step");
    BTI_TRY(bti_handle_check(BTI_OWNED_OPTIMIZER, optimizer, "bt_optimizer_step"));
    if (count < 0) return bti_fail(BT_INVALID_ARGUMENT, "%d parameters", count);
    if (count && (!parameters || !grads))
        return bti_fail(BT_INVALID_ARGUMENT, "the list of %s is NULL", parameters ? "gradients" : "parameters");
    for (int i = 0; i < count; i++) {
        BTI_TRY(bti_handle_check(BTI_OWNED_SHARED, parameters[i], "bt_optimizer_step"));
        BTI_TRY(bti_shared_check_gradient(parameters[i], grads[i]));
        BTI_TRY(bti_shared_check_place(parameters[i], grads[i], "grad", "the gradient of"));
    }
    return BT_OK;
}

bt_status bt_optimizer_step(bt_optimizer *optimizer, bt_shared *const *parameters, bt_array *const *grads, int count) {
    BTI_TRY(check_step(optimizer, parameters, grads, count));
    for (int i = 0; i < count && states_of(optimizer->rule); i++)
        if (!bt_shared_is_frozen(parameters[i]) && !find_state(atomic_load(&optimizer->states), parameters[i]))
            BTI_TRY(add_state(optimizer, parameters[i]));
    size_t room = (size_t)count * (STATES + 1);
    update_list list = {bti_alloc(room * sizeof *list.shared), bti_alloc(room * sizeof *list.values), 0};
    bt_status status = list.shared && list.values ? BT_OK : bti_no_memory();
    BT_SCOPE
        if (status == BT_OK) status = collect_updates(optimizer, parameters, grads, count, &list);
    bti_free(list.shared);
    bti_free(list.values);
    return status;
}
