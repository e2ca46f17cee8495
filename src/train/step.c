#include "train/step.h"

#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/flags.h"
#include "dist/flows.h"
#include "dist/strategy.h"
#include "grad/grad.h"
#include "nn/layer.h"
#include "nn/optimizer.h"
#include "nn/training.h"
#include "ops/check.h"

/* --- a step that is recorded once -------------------------------------------------------------------------------------- */

typedef struct recording {
    bt_shared **parameters; /* those that the step updates */
    bt_array **grads;
    bool *flows;        /* by parameter: whether a gradient comes to it */
    bt_update *updates; /* of parameters, states of the optimiser and of layers */
    int parameter_count, update_count, room;
} recording;

static void free_recording(recording *r) {
    bti_free(r->parameters);
    bti_free(r->grads);
    bti_free(r->flows);
    bti_free(r->updates);
}

static bt_status list_thawed(const bti_steps *s, recording *r) {
    int count = bt_parameters(s->model, NULL, 0);
    r->parameters = bti_calloc((size_t)count + 1, sizeof *r->parameters);
    r->grads = bti_calloc((size_t)count + 1, sizeof *r->grads);
    r->flows = bti_calloc((size_t)count + 1, sizeof *r->flows);
    if (!r->parameters || !r->grads || !r->flows) return bti_no_memory();
    r->parameter_count = bti_thawed_parameters(s->model, r->parameters, count);
    return BT_OK;
}

static bt_status begin_recording(const bti_steps *s, recording *r) {
    BTI_TRY(list_thawed(s, r));
    BTI_TRY(bt_optimizer_prepare(s->optimizer, r->parameters, r->parameter_count));
    int most = bt_optimizer_updates(s->optimizer, r->parameters, NULL, r->parameter_count, NULL, 0);
    if (most < 0) return bt_error_status();
    r->room = most + bt_states(s->model, NULL, 0);
    r->updates = bti_calloc((size_t)r->room + 1, sizeof *r->updates);
    return r->updates ? BT_OK : bti_no_memory();
}

static bt_array *record_loss(const bti_steps *s, recording *r, bt_array *x, bt_array *y) {
    bt_array *loss = NULL;
    bt_state_updates states = {.list = r->updates, .capacity = r->room};
    BT_TRAINING(true)
    BT_STATE_UPDATES(&states) loss = s->loss(s->model, x, y, s->data);
    r->update_count = states.count;
    if (states.count < 0) return bti_poison(bti_error_last());
    return loss ? loss : bti_poisonf(BT_INVALID_ARGUMENT, "the loss gave NULL");
}

/* x, y and sum are inputs. */
static bt_status record_updates(const bti_steps *s, recording *r, bt_array *loss) {
    BTI_TRY(bt_peek_status(loss));
    bt_array *scaled = bt_optimizer_scale_loss(s->optimizer, loss);
    BTI_TRY(bti_grad_both(scaled, r->parameters, r->parameter_count, NULL, 0, r->grads, r->flows));
    if (atomic_load(&s->optimizer->gradients) != BTI_GRADIENTS_KNOWN)
        BTI_TRY(bti_check_flows(s->optimizer, s->model, r->parameters, r->flows, r->parameter_count, loss));
    int count = bt_optimizer_updates(s->optimizer, r->parameters, r->grads, r->parameter_count,
                                     r->updates + r->update_count, r->room - r->update_count);
    if (count < 0) return bt_error_status();
    r->update_count += count;
    return BT_OK;
}

static bt_status make_function(const bti_steps *s, bti_step_shape *shape) {
    recording r = {0};
    bt_array *inputs[3] = {NULL}, *loss = NULL;
    bt_shared *first = NULL;
    (void)bt_parameters(s->model, &first, 1);
    const char *device = bt_device_long_name(bt_device_of(bt_value(first)));
    bt_status status = begin_recording(s, &r);
    if (status == BT_OK) {
        BT_ON(device)
            for (int i = 0; i < 2; i++) inputs[i] = bt_input_shape(shape->dtypes[i], shape->shapes[i]);
        loss = record_loss(s, &r, inputs[0], inputs[1]);
        status = record_updates(s, &r, loss);
    }
    if (status == BT_OK) {
        BT_ON(device) inputs[2] = bt_input_shape(bt_dtype_of(loss), (bt_shape){0});
        shape->sum_dtype = bt_dtype_of(loss);
        bt_array *sum = bt_add(inputs[2], bt_mul(loss, bt_num((double)shape->shapes[0].size[0])));
        shape->function =
            bt_function_retain(bt_function_new(inputs, 3, (bt_array *[]){loss, sum}, 2, r.updates, r.update_count));
        status = bt_function_status(shape->function);
    }
    free_recording(&r);
    return status;
}

static bool has_shape(const bti_step_shape *shape, bt_array *const *xy) {
    for (int i = 0; i < 2; i++) {
        bt_shape is = bt_shape_of(xy[i]);
        if (shape->dtypes[i] != bt_dtype_of(xy[i]) || shape->shapes[i].rank != is.rank ||
            memcmp(shape->shapes[i].size, is.size, (size_t)is.rank * sizeof *is.size) != 0)
            return false;
    }
    return true;
}

/* NULL: there is none, and the step is recorded. */
static bti_step_shape *find_shape(bti_steps *s, bt_array *const *xy) {
    for (int i = 0; i < s->count; i++)
        if (has_shape(&s->shapes[i], xy)) return &s->shapes[i];
    if (s->count == BTI_STEP_SHAPES) return NULL;
    bti_step_shape *fresh = &s->shapes[s->count];
    *fresh = (bti_step_shape){.function = NULL};
    for (int i = 0; i < 2; i++) {
        fresh->dtypes[i] = bt_dtype_of(xy[i]);
        fresh->shapes[i] = bt_shape_of(xy[i]);
    }
    bt_status status = BT_OK;
    bool quiet = bti_errors_quiet(true);
    bti_error *before = bti_error_last();
    BT_SCOPE
        status = make_function(s, fresh);
    bti_errors_quiet(quiet);
    if (status == BT_OK) {
        s->count++;
        bti_error_put_back(before);
        return fresh;
    }
    bti_error_put_back(before);
    bt_function_release(fresh->function);
    s->record_each = true; /* which reports what is wrong, or can do it: a loss that reads values */
    return NULL;
}

/* --- steps ------------------------------------------------------------------------------------------------------------ */

void bti_steps_begin(bti_steps *s) {
    bti_layer_ends ends = bti_layer_ends_of(s->model);
    s->survives = bt_strategy_count(s->strategy) > 1;
    if (s->strategy || !ends.any || ends.several || bti_has_hooks(s->model)) s->record_each = true;
    if (bti_flag_choice(BTI_FLAG_check_nan) != BTI_CHECK_OFF) s->record_each = true; /* and evaluated in it */
}

/* Also states that were lost with a device. */
bt_status bti_steps_prepare(const bti_steps *s) {
    recording r = {0};
    bt_status status = list_thawed(s, &r);
    if (status == BT_OK && bti_optimizer_has_lost(s->optimizer))
        status = bt_optimizer_prepare(s->optimizer, r.parameters, r.parameter_count);
    if (status == BT_OK) status = bti_strategy_place(s->strategy, s->optimizer, r.parameters, r.parameter_count);
    free_recording(&r);
    return status;
}

/* Evaluated with the update: later the forward pass would run a second time. */
static bt_status record_step(const bti_steps *s, bt_array *x, bt_array *y, bt_array **loss, bt_array **sum) {
    *loss = bt_train_step(s->strategy, s->model, s->optimizer, s->loss, s->data, x, y);
    bt_array *weighted = bt_mul(*loss, bt_num((double)bt_size(x, 0)));
    bt_assign(sum, *sum ? bt_add(*sum, weighted) : weighted);
    return bt_eval(*sum);
}

bool bti_steps_may_lose(const bti_steps *s, const bt_array *x) {
    for (int r = 0; s->survives && r < bt_strategy_count(s->strategy); r++)
        if (bt_strategy_device(s->strategy, r) == bt_device_of(x)) return true;
    return false;
}

static void keep_array(const bti_steps *s, bt_array **kept, bt_array *x) {
    if (*kept != x) bt_assign(kept, bti_steps_may_lose(s, x) ? bt_to(x, "cpu") : x);
}

/* Later the batch can be taken again. */
static bt_status count_step(bti_steps *s, bt_array *x, bt_array *y, bt_array **loss, bt_array **sum) {
    bool begins = !*sum;
    bti_counted_call call = {s->strategy, s->model, s->optimizer, s->loss, s->data, x, y, s->made + 1};
    BTI_TRY(bti_counted_step(&s->counted, &call, loss, sum));
    bti_step_batch *kept = &s->recent[s->made++ % BTI_STEPS_KEPT];
    keep_array(s, &kept->x, x);
    keep_array(s, &kept->y, y);
    kept->begins = begins;
    if (s->wanted < s->made) s->wanted = s->made;
    return bt_eval_all((bt_array *[]){*sum, kept->x, kept->y}, 3);
}

/* Batches are brought to the model, whatever the transfer policy, as bt_train_step does. */
static bt_status call_step(const bti_steps *s, const bti_step_shape *shape, bt_array *x, bt_array *y, bt_array **loss,
                           bt_array **sum) {
    bt_array *outputs[2] = {NULL, NULL}, *before = *sum;
    x = bti_bring_batch(x, s->model);
    y = bti_bring_batch(y, s->model);
    if (!before) {
        BT_ON(bt_device_long_name(bt_device_of(x))) before = bt_full_shape(0, shape->sum_dtype, (bt_shape){0});
    }
    BTI_TRY(bt_call(shape->function, (bt_array *[]){x, y, before}, 3, outputs, 2));
    *loss = outputs[0];
    bt_assign(sum, outputs[1]);
    return BT_OK;
}

bt_status bti_steps_run(bti_steps *s, bt_array *x, bt_array *y, bt_array **loss, bt_array **sum) {
    bt_array *xy[] = {x, y};
    if (s->survives) return count_step(s, x, y, loss, sum);
    bool usable = bt_peek_status(x) == BT_OK && bt_peek_status(y) == BT_OK && bt_rank(x) >= 1;
    const bti_step_shape *shape = s->record_each || !usable ? NULL : find_shape(s, xy);
    return shape ? call_step(s, shape, x, y, loss, sum) : record_step(s, x, y, loss, sum);
}

bt_status bti_steps_check(const bti_steps *s, bt_array *x, bt_array *y) {
    bti_states states = {0}; /* which nobody sets */
    bt_status status = BT_OK;
    BT_SCOPE {
        bt_array *loss = NULL;
        bti_states *before = bti_states_collect(&states);
        BT_TRAINING(true)
        loss = s->loss(s->model, bti_bring_batch(x, s->model), bti_bring_batch(y, s->model), s->data);
        bti_states_collect(before);
        if (loss && bt_peek_status(loss) == BT_OK) status = bti_check_indices(loss);
    }
    bti_states_free(&states);
    return status;
}

bt_status bti_steps_settle(const bti_steps *s) { return bti_layer_settle(s->model); }

/* --- steps that did not complete ---------------------------------------------------------------------------------------- */

bt_status bti_steps_missing(bti_steps *s, int64_t *missing, bt_array **sum) {
    int64_t done = 0;
    BTI_TRY(bti_counted_settle(&s->counted, &done, sum));
    if (s->wanted - done > BTI_STEPS_KEPT)
        return bti_fail(BT_INTERNAL, "%lld steps did not complete, and %d batches are kept",
                        (long long)(s->wanted - done), BTI_STEPS_KEPT);
    s->made = done;
    *missing = s->wanted - done;
    return BT_OK;
}

bt_status bti_steps_repeat(bti_steps *s, bt_array **sum) {
    bt_status status = BT_OK;
    while (s->made < s->wanted && status == BT_OK) {
        const bti_step_batch *kept = &s->recent[s->made % BTI_STEPS_KEPT];
        if (kept->begins) bt_assign(sum, NULL);
        BT_SCOPE {
            bt_array *loss = NULL;
            status = count_step(s, kept->x, kept->y, &loss, sum);
        }
    }
    return status;
}

void bti_steps_forget(bti_steps *s) {
    for (int i = 0; i < BTI_STEPS_KEPT; i++) {
        bt_assign(&s->recent[i].x, NULL);
        bt_assign(&s->recent[i].y, NULL);
    }
    bti_counted_end(&s->counted);
    s->made = s->wanted = 0;
}

void bti_steps_end(bti_steps *s) {
    for (int i = 0; i < s->count; i++) bt_function_release(s->shapes[i].function);
    s->count = 0;
}
