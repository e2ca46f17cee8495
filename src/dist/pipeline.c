/* One step over micro-batches. Stages take turns so that each device has work as soon as it can be, and goes backward as soon as it may ("1F1B"): of stage s of S
 * at most S - s micro-batches are under way, whatever their number. */
#include "dist/pipeline.h"

#include "array/eval.h"
#include "array/move.h"
#include "base/alloc.h"
#include "device/device.h"
#include "dist/pipeline_units.h"
#include "ops/primitive.h"

/* Micro-batches that a stage has gone forward, and backward, with. */
typedef struct progress {
    int forward, backward;
} progress;

typedef struct pipeline {
    const bti_train *step;
    bt_parts *parts;   /* of one shard: the micro-batch that is recorded */
    int count, stages; /* stages: 0 before the first micro-batch is recorded */
    bt_array **x, **y; /* by micro-batch: its rows, where the batch lies */
    bti_layer_ends ends;
    int last_device;           /* of the model's output */
    bt_array *loss;            /* retained; the weighted sum over the micro-batches recorded so far */
    bt_array **gradients;      /* by parameter: the same */
    bti_states states;         /* floats: the same; others: of the first micro-batch */
    bt_array **results;        /* room for what is wanted of a micro-batch */
    bti_micro_batch *recorded; /* the one that is recorded now */
    bti_micro_units *units;    /* by micro-batch */
    progress *now, *before;    /* by stage; before the slot of time */
} pipeline;

/* --- recording ---------------------------------------------------------------------------------------------------------- */

static void add_to(bt_array **sum, bt_array *part) { bt_assign(sum, *sum ? bt_add(*sum, part) : part); }

static bt_array *weighted_state(bt_array *value, double weight) {
    bt_array *part = value;
    BT_ON(bt_device_long_name(bt_device_of(value))) part = bt_cast(bt_mul(value, bt_num(weight)), bt_dtype_of(value));
    return part;
}

static bt_status add_state(pipeline *p, const bti_states *own, size_t i, double weight) {
    bti_node *set = bti_states_find(own, p->states.shared.items[i]), *before = p->states.values.items[i];
    if (!set) return bti_fail_unset_state(p->parts, p->states.shared.items[i]);
    bt_array *value = bti_array_on(set);
    if (!bti_dtype_is_float(bt_dtype_of(value))) return BT_OK;
    value = weighted_state(value, weight);
    if (before != set) value = bt_add(bti_array_on(before), value);
    BTI_TRY(bti_fail_with(bti_array_error(value)));
    p->states.values.items[i] = bti_node_retain(bti_node_of(value));
    bti_node_release(before);
    return BT_OK;
}

static bt_status add_states(pipeline *p, bti_states *own, bool first, double weight) {
    if (first) {
        for (size_t i = 0; i < own->shared.count; i++) {
            if (!bti_vec_reserve(&p->states.shared, 1) || !bti_vec_push(&p->states.values, own->values.items[i]))
                return bti_no_memory();
            bti_node_retain(own->values.items[i]);
            p->states.shared.items[p->states.shared.count++] = bt_shared_retain(own->shared.items[i]);
        }
    }
    if (own->shared.count > p->states.shared.count)
        return bti_fail_unset_state(p->parts, own->shared.items[own->shared.count - 1]);
    for (size_t i = 0; i < p->states.shared.count; i++) BTI_TRY(add_state(p, own, i, weight));
    return BT_OK;
}

static bt_status check_means(const bti_batch_shard *own) {
    if (!own->means.own.count) return BT_OK;
    return bti_fail(
        BT_FAILED_PRECONDITION,
        "bt_train_step: a layer asks for a mean over the whole batch (bt_batch_mean; a batch norm in "
        "training does), but micro-batches go through the model one behind the other, and the first has left "
        "when the last comes; use group or layer norms, or one micro-batch");
}

/* outputs[]: the weighted loss of the micro-batch's rows, and its gradients. */
static bt_status record_part(const bt_part *part, bt_array *const *xy, bt_array **outputs, void *data) {
    const pipeline *p = data;
    bt_array *loss = bti_record_loss(p->step, xy[0], xy[1]);
    BTI_TRY(check_means(&p->parts->shards[0]));
    outputs[0] = bt_mul(loss, bt_num(bti_part_weight(part)));
    bti_sequence_last(&p->recorded->turned);
    return bti_record_gradients(p->step, part, loss, outputs + 1);
}

/* Loss and gradients of micro-batch m: only recorded. The labels are on their way at once. */
static bt_status record_rows(pipeline *p, int m) {
    const bti_train *s = p->step;
    bti_batch_shard *own = &p->parts->shards[0];
    bt_array *xy[2] = {p->x[m], p->y[m]};
    if (p->ends.any) xy[1] = bti_bring(xy[1], p->last_device);
    BTI_TRY(bt_eval(xy[1]));
    bti_sequence_last(&p->recorded->begun);
    if (p->ends.any) xy[0] = bti_bring(xy[0], p->ends.first);
    p->recorded->input = bti_node_of(p->x[m]);
    BTI_TRY(bti_parts_call(p->parts, 0, record_part, p, xy));
    for (int i = 0; i < s->parameter_count; i++) add_to(&p->gradients[i], p->parts->values[1 + i]);
    add_to(&p->loss, p->parts->values[0]);
    return add_states(p, &own->states, !m, bti_part_weight(&own->part));
}

static bt_status cut_into_units(pipeline *p, int m, bti_micro_batch *recorded) {
    int count = p->step->parameter_count;
    for (int i = 0; i < count; i++) p->results[i] = p->gradients[i];
    p->results[count++] = p->loss;
    for (size_t i = 0; i < p->states.values.count; i++) p->results[count++] = bti_array_on(p->states.values.items[i]);
    BTI_TRY(bti_check_arrays(p->results, count));
    recorded->results = p->results;
    recorded->result_count = count;
    return bti_units_cut(recorded, p->stages, &p->units[m]);
}

static bt_status record_micro_batch(pipeline *p, int m) {
    bt_part *part = &p->parts->shards[0].part;
    bti_micro_batch recorded = {.input = NULL};
    bt_status status = BT_OK;
    int64_t first = m ? part->first_row + part->rows : 0;
    *part = (bt_part){
        .index = m, .count = p->count, .first_row = first, .rows = bt_size(p->x[m], 0), .all_rows = p->parts->rows};
    p->recorded = &recorded;
    BT_SCOPE {
        status = record_rows(p, m);
        if (status == BT_OK) status = cut_into_units(p, m, &recorded);
    }
    p->recorded = NULL;
    p->stages = p->units[m].stages;
    return status;
}

/* --- the order ---------------------------------------------------------------------------------------------------------- */

static bt_status evaluate_unit(const pipeline *p, int m, int unit) {
    bti_unit *own = &p->units[m].units[unit];
    bt_status status = bti_eval_nodes(own->items, (int)own->count, true);
    for (size_t n = 0; n < own->count; n++) bti_node_release(own->items[n]);
    own->count = 0;
    return status;
}

/* The last stage goes forward when it goes backward. */
static bt_status go_forward(pipeline *p, int stage) {
    int m = p->now[stage].forward++;
    if (stage == 0 && m) BTI_TRY(record_micro_batch(p, m));
    return stage < p->stages - 1 ? evaluate_unit(p, m, stage) : BT_OK;
}

static bt_status go_backward(pipeline *p, int stage) {
    int m = p->now[stage].backward++;
    return evaluate_unit(p, m, 2 * (p->stages - 1) - stage);
}

/* What the stage is to do next, if what it needs was done before this slot of time. */
static bt_status take_turn(pipeline *p, int stage) {
    const progress *own = &p->now[stage];
    if (own->forward < p->count && own->forward - own->backward < p->stages - stage)
        return stage == 0 || p->before[stage - 1].forward > own->forward ? go_forward(p, stage) : BT_OK;
    int ready = stage == p->stages - 1 ? p->before[stage].forward : p->before[stage + 1].backward;
    return ready > own->backward ? go_backward(p, stage) : BT_OK;
}

static bt_status go_through(pipeline *p) {
    BTI_TRY(record_micro_batch(p, 0));
    p->now = bti_calloc(2 * (size_t)p->stages, sizeof *p->now);
    if (!p->now) return bti_no_memory();
    p->before = p->now + p->stages;
    while (p->now[0].backward < p->count) {
        memcpy(p->before, p->now, (size_t)p->stages * sizeof *p->now);
        for (int stage = p->stages - 1; stage >= 0; stage--) BTI_TRY(take_turn(p, stage));
    }
    return BT_OK;
}

/* --- the step ----------------------------------------------------------------------------------------------------------- */

static bt_status cut_batch(pipeline *p, bt_array *x, bt_array *y) {
    int64_t rows = p->parts->rows, first = 0;
    for (int m = 0; m < p->count; m++) {
        int64_t own = rows / p->count + (m < rows % p->count);
        p->x[m] = bti_rows_of(x, first, own);
        p->y[m] = bti_rows_of(y, first, own);
        first += own;
    }
    BTI_TRY(bti_check_arrays(p->x, 2 * p->count));
    return bt_eval_all(p->x, 2 * p->count); /* views: the same plans for all */
}

static bt_status allocate(pipeline *p) {
    size_t parameters = (size_t)p->step->parameter_count, count = (size_t)p->count;
    size_t results = parameters + 1 + (size_t)bt_states(p->step->model, NULL, 0);
    p->x = bti_calloc(2 * count, sizeof *p->x);
    p->gradients = bti_calloc(parameters + 1, sizeof *p->gradients);
    p->results = bti_calloc(results, sizeof *p->results);
    p->units = bti_calloc(count, sizeof *p->units);
    if (!p->x || !p->gradients || !p->results || !p->units) return bti_no_memory();
    p->y = p->x + count;
    return BT_OK;
}

/* The sums become what the only shard made, of the step's scope. */
static void hand_over(pipeline *p) {
    bti_states *states = &p->parts->shards[0].states;
    bti_states_free(states);
    *states = p->states;
    p->states = (bti_states){0};
    p->parts->values[0] = bti_array_on(bti_node_of(p->loss));
    for (int i = 0; i < p->step->parameter_count; i++)
        p->parts->values[1 + i] = bti_array_on(bti_node_of(p->gradients[i]));
}

static void free_pipeline(pipeline *p) {
    for (int i = 0; p->gradients && i < p->step->parameter_count; i++) bt_assign(&p->gradients[i], NULL);
    for (int m = 0; p->units && m < p->count; m++) bti_units_free(&p->units[m]);
    bt_assign(&p->loss, NULL);
    bti_states_free(&p->states);
    bti_free(p->x);
    bti_free(p->gradients);
    bti_free(p->results);
    bti_free(p->units);
    bti_free(p->now);
}

bt_status bti_pipeline_run(const bti_train *step, bt_parts *parts, int micro_batches, bt_array *x, bt_array *y) {
    int64_t rows = bt_size(x, 0);
    pipeline p = {.step = step, .parts = parts, .ends = bti_layer_ends_of(step->model)};
    p.count = micro_batches < rows ? micro_batches : (int)rows;
    bool flushes = bti_eval_hold(true);
    bt_status status = bti_parts_begin(parts, rows);
    if (status == BT_OK) status = allocate(&p);
    if (status == BT_OK) status = cut_batch(&p, x, y);
    if (status == BT_OK) {
        p.last_device = p.ends.any ? bti_output_device(step, p.ends, bti_bring(p.x[0], p.ends.first)) : 0;
        status = go_through(&p);
    }
    if (status == BT_OK) hand_over(&p);
    bti_eval_hold(flushes);
    free_pipeline(&p);
    return status;
}
