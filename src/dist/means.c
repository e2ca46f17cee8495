/* Means over all parts of a batch (bt_batch_mean). The forward pass of each part is recorded on inputs that stand for the means m[k], and gives the
 * part's own summands a[k]. With L the part's loss and inputs c[k] that stand for the gradients of the whole loss by m[k], the gradients of L + sum
 * over k of <a[k], c[k]> are the part's of the whole loss; those by m[k], added over all parts, are c[k]. At the end everything that depends on an
 * input is recorded again, with the sums in the inputs' places: m[k] depends on earlier means only, c[k] on later ones and on means. */
#include "dist/batch.h"

#include "array/eval.h"
#include "array/place.h"
#include "base/alloc.h"
#include "function/function.h"
#include "grad/grad.h"
#include "ir/region.h"
#include "ir/walk.h"
#include "ops/primitive.h"

/* --- gradients of a part ------------------------------------------------------------------------------------------------------- */

static bt_array *cotangent_input(const bti_node *own) {
    bti_placement placement = {.device = own->device, .committed = true, .rule = BTI_RULE_EXPLICIT};
    return bti_input_on(placement, (bt_dtype)own->dtype, own->rank, own->shape);
}

bt_status bti_grad_through_means(const bti_train *s, bti_batch_shard *shard, bt_array *loss, bt_array **grads,
                                 bool *flows) {
    int count = (int)shard->means.own.count;
    bt_array **inputs = bti_alloc((size_t)count * sizeof *inputs), *total = loss;
    bool room = inputs && bti_vec_reserve(&shard->cotangents, (size_t)count) &&
                bti_vec_reserve(&shard->own_cotangents, (size_t)count);
    bt_status status = room ? BT_OK : bti_no_memory();
    for (int k = 0; k < count && room; k++) {
        bt_array *cotangent = cotangent_input(shard->means.own.items[k]);
        shard->cotangents.items[shard->cotangents.count++] = cotangent;
        total = bt_add(total, bt_sum(bt_mul(bti_array_on(shard->means.own.items[k]), cotangent), BT_ALL, false));
        inputs[k] = bti_array_on(shard->means.inputs.items[k]);
    }
    if (room) status = bti_grad_both(total, s->parameters, s->parameter_count, inputs, count, grads, flows);
    for (int k = 0; k < count && room; k++)
        shard->own_cotangents.items[shard->own_cotangents.count++] = grads[s->parameter_count + k];
    bti_free(inputs);
    return status;
}

/* --- recording again ------------------------------------------------------------------------------------------------------------ */

typedef struct visit {
    bti_node *node;
    int next; /* of its inputs */
} visit;

typedef struct replacement {
    bti_numbers numbers;      /* of nodes that depend on an input */
    BTI_VEC(bti_node *) made; /* by number: what stands for it, retained; NULL: not yet */
    bti_numbers inputs;       /* numbers of inputs */
    BTI_VEC(bti_node *) sums; /* by these; retained */
    BTI_VEC(visit) open;      /* from an output down to the node that is looked at */
} replacement;

static void free_replacement(replacement *r) {
    for (size_t i = 0; i < r->made.count; i++) bti_node_release(r->made.items[i]);
    for (size_t i = 0; i < r->sums.count; i++) bti_node_release(r->sums.items[i]);
    bti_numbers_free(&r->numbers);
    bti_numbers_free(&r->inputs);
    bti_vec_free(&r->made);
    bti_vec_free(&r->sums);
    bti_vec_free(&r->open);
}

static bool replace_input(replacement *r, const bti_node *input, const bt_array *sum) {
    bool room = bti_vec_reserve(&r->sums, 1) && bti_number_put(&r->inputs, input, (int64_t)r->sums.count);
    if (room) r->sums.items[r->sums.count++] = bti_node_retain(bti_node_of(sum));
    return room;
}

static bti_node *sum_for(const replacement *r, const bti_node *node) {
    int64_t number = node->op == BTI_OP_leaf ? bti_number_of(&r->inputs, node) : -1;
    return number < 0 ? NULL : r->sums.items[number];
}

/* Node i that must be there before this one; NULL: there are no more. */
static bti_node *needed_by(const replacement *r, const bti_node *node, int i) {
    bti_node *sum = sum_for(r, node);
    if (sum) return i ? NULL : sum;
    return i < node->input_count ? node->inputs[i] : NULL;
}

/* What stands for a node: the node itself, if it depends on no input. */
static bti_node *stand_in(const replacement *r, bti_node *node) {
    int64_t number = node->symbolic ? bti_number_of(&r->numbers, node) : -1;
    return number < 0 ? node : r->made.items[number];
}

static bt_status make_again(replacement *r, bti_node *node) {
    bti_node *sum = sum_for(r, node), *made = NULL;
    if (sum)
        made = bti_node_retain(stand_in(r, sum));
    else if (!node->input_count) /* an input of somebody else's, which whoever uses it refuses */
        made = bti_node_retain(node);
    else {
        bti_node **inputs = bti_alloc(((size_t)node->input_count + 1) * sizeof *inputs);
        if (!inputs) return bti_no_memory();
        for (int i = 0; i < node->input_count; i++) inputs[i] = stand_in(r, node->inputs[i]);
        bt_status status = bti_node_again_untold(node, inputs, NULL, &made);
        bti_free(inputs);
        if (status != BT_OK || !made) return bti_no_memory();
        bti_eval_recorded(made);
    }
    r->made.items[bti_number_of(&r->numbers, node)] = made;
    return BT_OK;
}

/* Opens a node that was not met before. */
static bt_status open_node(replacement *r, bti_node *node) {
    if (!node->symbolic || bti_number_of(&r->numbers, node) >= 0) return BT_OK;
    if (!bti_vec_reserve(&r->made, 1) || !bti_vec_reserve(&r->open, 1) ||
        !bti_number_put(&r->numbers, node, (int64_t)r->made.count))
        return bti_no_memory();
    r->made.items[r->made.count++] = NULL;
    r->open.items[r->open.count++] = (visit){node, 0};
    return BT_OK;
}

/* *array, and what it is made of, with the sums in place. */
static bt_status replace(replacement *r, bt_array **array) {
    bti_node *node = bti_node_of(*array);
    BTI_TRY(open_node(r, node));
    while (r->open.count) {
        visit *top = &r->open.items[r->open.count - 1];
        bti_node *needed = needed_by(r, top->node, top->next);
        if (needed) {
            top->next++;
            BTI_TRY(open_node(r, needed));
            continue;
        }
        BTI_TRY(make_again(r, top->node));
        r->open.count--;
    }
    if (node->symbolic) *array = bti_array_on(stand_in(r, node));
    return BT_OK;
}

/* --- all parts -------------------------------------------------------------------------------------------------------------------- */

static bt_status check_same_means(const bti_train *s) {
    const bti_means *first = &s->shards[0].means;
    for (int i = 1; i < s->shard_count; i++) {
        const bti_means *means = &s->shards[i].means;
        bool same = means->own.count == first->own.count;
        for (size_t k = 0; k < first->own.count && same; k++) {
            const bti_node *a = first->own.items[k], *b = means->own.items[k];
            same = a->dtype == b->dtype && bti_shape_equal(a->rank, a->shape, b->rank, b->shape);
        }
        if (!same)
            return bti_fail(BT_INVALID_ARGUMENT,
                            "bt_train_step: bt_batch_mean was called with other arrays for a part of %lld rows than "
                            "for one of %lld; "
                            "calls and shapes must be the same for all parts of a batch",
                            (long long)s->shards[i].rows, (long long)s->shards[0].rows);
    }
    return BT_OK;
}

/* The inputs of mean k, or those of its gradient, are replaced by the sum of the shards' parts. */
static bt_status sum_mean(const bti_train *s, replacement *r, size_t k, bool gradient) {
    bt_array *parts[BTI_MAX_REPLICAS], *sums[BTI_MAX_REPLICAS];
    for (int i = 0; i < s->shard_count; i++) {
        const bti_batch_shard *shard = &s->shards[i];
        parts[i] = gradient ? shard->own_cotangents.items[k] : bti_array_on(shard->means.own.items[k]);
    }
    bti_sum_everywhere(s, parts, sums);
    BTI_TRY(bti_check_arrays(sums, s->strategy->count));
    for (int i = 0; i < s->shard_count; i++) {
        const bti_batch_shard *shard = &s->shards[i];
        const bti_node *input = gradient ? bti_node_of(shard->cotangents.items[k]) : shard->means.inputs.items[k];
        if (!replace_input(r, input, sums[shard->replica])) return bti_no_memory();
    }
    return BT_OK;
}

static bt_status replace_all(bti_train *s, replacement *r) {
    for (int i = 0; i < s->parameter_count * s->shard_count; i++) BTI_TRY(replace(r, &s->grads[i]));
    for (int i = 0; i < s->shard_count; i++) {
        BTI_TRY(replace(r, &s->shards[i].loss));
        bti_states *states = &s->shards[i].states;
        for (size_t k = 0; k < states->values.count; k++) {
            bt_array *value = bti_array_on(states->values.items[k]);
            BTI_TRY(replace(r, &value));
            bti_node *before = states->values.items[k];
            states->values.items[k] = bti_node_retain(bti_node_of(value));
            bti_node_release(before);
        }
    }
    return BT_OK;
}

bt_status bti_put_means_in_place(bti_train *s) {
    BTI_TRY(check_same_means(s));
    size_t count = s->shards[0].means.own.count;
    replacement r = {.numbers = {0}};
    bt_status status = BT_OK;
    for (size_t k = 0; k < count && status == BT_OK; k++) status = sum_mean(s, &r, k, false);
    for (size_t k = 0; k < count && status == BT_OK; k++) status = sum_mean(s, &r, k, true);
    if (status == BT_OK && count) status = replace_all(s, &r);
    free_replacement(&r);
    return status;
}
