/* Layers of a chain on several devices, in runs that are as equal as possible. */
#include <math.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "dist/strategy.h"
#include "grad/grad.h"
#include "nn/layer.h"

typedef struct stage_layer {
    const bt_layer *layer;
    double cost;
    int stage;
} stage_layer;

typedef struct placed_variable {
    const bt_shared *shared;
    int stage;
} placed_variable;

typedef struct placement {
    BTI_VEC(stage_layer) layers;
    BTI_VEC(placed_variable) variables;
    bt_strategy *devices; /* a list of them, checked as any */
} placement;

static bt_status collect_layers(placement *p, const bt_layer *layer) {
    if (strcmp(layer->name, "Chain") || !layer->child_count)
        return bti_vec_push(&p->layers, ((stage_layer){.layer = layer})) ? BT_OK : bti_no_memory();
    for (int i = 0; i < layer->child_count; i++) BTI_TRY(collect_layers(p, layer->children[i]));
    return BT_OK;
}

/* --- costs -------------------------------------------------------------------------------------------------------------- */

/* A layer that is timed, and what it needs for that. */
typedef struct timed_layer {
    bt_layer *layer;
    bt_shared **parameters;
    bt_update *states;
    bt_array **gradients; /* of the parameters, and of the input */
    int parameter_count, state_count;
} timed_layer;

static bt_status record_passes(timed_layer *t, bt_array *x, bt_array **y) {
    bt_state_updates states = {.list = t->states, .capacity = t->state_count};
    BT_TRAINING(true)
    BT_STATE_UPDATES(&states) *y = bt_apply(t->layer, x);
    BTI_TRY(bti_fail_with(bti_array_error(*y)));
    int inputs = bti_dtype_has_gradient(bt_dtype_of(x)), count = t->parameter_count + inputs;
    if (!count || !bti_dtype_has_gradient(bt_dtype_of(*y))) return bt_block(*y);
    BTI_TRY(
        bti_grad_both(bt_sum(*y, BT_ALL, false), t->parameters, t->parameter_count, &x, inputs, t->gradients, NULL));
    BTI_TRY(bt_eval_all(t->gradients, count));
    for (int i = 0; i < count; i++) BTI_TRY(bt_block(t->gradients[i]));
    return bt_block(*y);
}

/* The second time counts: what it runs is compiled by then. *x becomes the layer's output. */
static bt_status time_passes(timed_layer *t, bt_array **x, double *seconds) {
    bt_status status = BT_OK;
    for (int round = 0; round < 2 && status == BT_OK; round++) {
        uint64_t from = bti_clock_ns();
        BT_SCOPE {
            bt_array *y = NULL;
            status = record_passes(t, *x, &y);
            *seconds = 1e-9 * (double)(bti_clock_ns() - from);
            if (status == BT_OK && round) bt_assign(x, y);
        }
    }
    return status;
}

static bt_status time_layer(const bt_layer *layer, const char *device, bt_array **x, double *seconds) {
    timed_layer t = {.layer = bt_layer_to(layer, device),
                     .parameter_count = bt_parameters(layer, NULL, 0),
                     .state_count = bt_states(layer, NULL, 0)};
    BTI_TRY(bt_layer_status(t.layer));
    size_t count = (size_t)t.parameter_count + 1;
    t.parameters = bti_calloc(count, sizeof *t.parameters);
    t.gradients = bti_calloc(count, sizeof *t.gradients);
    t.states = bti_calloc((size_t)t.state_count + 1, sizeof *t.states);
    bt_status status = t.parameters && t.gradients && t.states ? BT_OK : bti_no_memory();
    if (status == BT_OK) {
        (void)bt_parameters(t.layer, t.parameters, t.parameter_count);
        status = time_passes(&t, x, seconds);
    }
    bti_free(t.parameters);
    bti_free(t.gradients);
    bti_free(t.states);
    return status;
}

/* Layer by layer, so that the device need not have room for all. */
static bt_status measure_times(placement *p, bt_array *sample) {
    const char *device = bt_device_long_name(bt_strategy_device(p->devices, 0));
    bt_array *x = NULL;
    bt_assign(&x, bt_to(sample, device));
    bt_status status = bt_block(x);
    for (size_t i = 0; i < p->layers.count && status == BT_OK; i++)
        BT_SCOPE
            status = time_layer(p->layers.items[i].layer, device, &x, &p->layers.items[i].cost);
    bt_assign(&x, NULL);
    return status;
}

static bt_status find_costs(placement *p, bt_array *sample) {
    if (sample) return measure_times(p, sample);
    for (size_t i = 0; i < p->layers.count; i++)
        p->layers.items[i].cost = (double)bt_parameter_count(p->layers.items[i].layer);
    return BT_OK;
}

/* --- runs --------------------------------------------------------------------------------------------------------------- */

/* Whether runs of at most this cost are enough; with `count` layers left for as many stages, each gets one. */
static bool runs_suffice(placement *p, int stages, double most) {
    double sum = 0;
    int stage = 0;
    size_t of_stage = 0;
    for (size_t i = 0; i < p->layers.count; i++) {
        stage_layer *own = &p->layers.items[i];
        bool is_last = p->layers.count - i <= (size_t)(stages - 1 - stage);
        if (of_stage && (sum + own->cost > most || is_last)) {
            if (++stage == stages) return false;
            sum = 0;
            of_stage = 0;
        }
        sum += own->cost;
        if (sum > most) return false;
        own->stage = stage;
        of_stage++;
    }
    return true;
}

/* The heaviest run is one of the sums of neighbours: the least of them that suffices. */
static void find_runs(placement *p, int stages) {
    double least = INFINITY;
    for (size_t from = 0; from < p->layers.count; from++) {
        double sum = 0;
        for (size_t to = from; to < p->layers.count; to++) {
            sum += p->layers.items[to].cost;
            if (sum < least && runs_suffice(p, stages, sum)) least = sum;
        }
    }
    (void)runs_suffice(p, stages, least);
}

/* --- moving ------------------------------------------------------------------------------------------------------------- */

static bt_status add_variables(placement *p, const stage_layer *of, int (*list)(const bt_layer *, bt_shared **, int)) {
    int count = list(of->layer, NULL, 0);
    bt_shared **variables = bti_calloc((size_t)count + 1, sizeof(bt_shared *));
    bt_status status = variables ? BT_OK : bti_no_memory();
    if (variables) (void)list(of->layer, variables, count);
    for (int i = 0; i < count && status == BT_OK; i++)
        if (!bti_vec_push(&p->variables, ((placed_variable){variables[i], of->stage}))) status = bti_no_memory();
    bti_free(variables);
    return status;
}

/* What several stages share lies where the first one is. */
static bt_array *move_to_stage(bt_array *value, void *placed) {
    const placement *p = placed;
    const void *shared = bti_node_of(value)->extra;
    int stage = 0;
    for (size_t i = p->variables.count; i-- > 0;)
        if (p->variables.items[i].shared == shared) stage = p->variables.items[i].stage;
    return bt_to(value, bt_device_long_name(bt_strategy_device(p->devices, stage)));
}

static bt_status place_layers(placement *p, const bt_layer *model, bt_array *sample, bt_layer **copy) {
    BTI_TRY(bt_strategy_status(p->devices));
    BTI_TRY(collect_layers(p, model));
    BTI_TRY(find_costs(p, sample));
    find_runs(p, bt_strategy_count(p->devices));
    for (size_t i = 0; i < p->layers.count; i++) {
        BTI_TRY(add_variables(p, &p->layers.items[i], bt_parameters));
        BTI_TRY(add_variables(p, &p->layers.items[i], bt_states));
    }
    *copy = bt_fmap(move_to_stage, p, model);
    return bt_layer_status(*copy);
}

bt_layer *bt_layer_to_stages(const bt_layer *model, const char *const *devices, int count, bt_array *sample) {
    BTI_CALL("bt_layer_to_stages");
    bt_layer *copy = NULL;
    BT_SCOPE {
        placement p = {.devices = bt_mirrored(devices, count)};
        bt_status status = bti_handle_check(BTI_OWNED_LAYER, model, "bt_layer_to_stages");
        if (status == BT_OK) status = place_layers(&p, model, sample, &copy);
        copy = status == BT_OK ? bt_layer_retain(copy) : NULL;
        bti_vec_free(&p.layers);
        bti_vec_free(&p.variables);
    }
    return bti_layer_own(copy);
}
