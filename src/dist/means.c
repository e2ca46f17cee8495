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

static bool reserve_cotangents(bti_batch_shard *shard, size_t count) {
    return bti_vec_reserve(&shard->cotangents, count) && bti_vec_reserve(&shard->own_cotangents, count) &&
           bti_vec_reserve(&shard->cotangent_means, count);
}

bt_status bti_grad_through_means(bti_batch_shard *shard, bt_array *loss, bt_shared *const *parameters, int count,
                                 bt_array **grads, bool *flows) {
    int means = (int)shard->means.own.count;
    bt_array **inputs = bti_alloc((size_t)means * sizeof *inputs), *total = loss;
    bt_array **both = bti_calloc((size_t)count + (size_t)means, sizeof(bt_array *));
    bool room = inputs && both && reserve_cotangents(shard, (size_t)means);
    bt_status status = room ? BT_OK : bti_no_memory();
    for (int k = 0; k < means && room; k++) {
        bt_array *cotangent = cotangent_input(shard->means.own.items[k]);
        shard->cotangents.items[shard->cotangents.count++] = bti_node_retain(bti_node_of(cotangent));
        shard->cotangent_means.items[shard->cotangent_means.count++] = k;
        total = bt_add(total, bt_sum(bt_mul(bti_array_on(shard->means.own.items[k]), cotangent), BT_ALL, false));
        inputs[k] = bti_array_on(shard->means.inputs.items[k]);
    }
    if (room) status = bti_grad_both(total, parameters, count, inputs, means, both, flows);
    for (int p = 0; p < count && room; p++) grads[p] = both[p];
    for (int k = 0; k < means && room; k++) /* poisoned ones too */
        shard->own_cotangents.items[shard->own_cotangents.count++] = bti_node_retain(bti_node_of(both[count + k]));
    bti_free(inputs);
    bti_free(both);
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

static bool has_same_means(const bti_batch_shard *a, const bti_batch_shard *b) {
    if (a->means.own.count != b->means.own.count || a->cotangents.count != b->cotangents.count) return false;
    for (size_t k = 0; k < a->means.own.count; k++) {
        const bti_node *x = a->means.own.items[k], *y = b->means.own.items[k];
        if (x->dtype != y->dtype || !bti_shape_equal(x->rank, x->shape, y->rank, y->shape)) return false;
    }
    for (size_t k = 0; k < a->cotangents.count; k++)
        if (a->cotangent_means.items[k] != b->cotangent_means.items[k]) return false;
    return true;
}

static bt_status check_same_means(const bt_parts *b) {
    for (int i = 1; i < b->shard_count; i++)
        if (!has_same_means(&b->shards[0], &b->shards[i]))
            return bti_fail(BT_INVALID_ARGUMENT,
                            "%s: bt_batch_mean was called with other arrays for a part of %lld rows than for one of "
                            "%lld; calls and shapes must be the same for all parts of a batch",
                            b->call, (long long)b->shards[i].part.rows, (long long)b->shards[0].part.rows);
    return BT_OK;
}

/* The inputs of mean k, or those of gradient k, are replaced by the sum of the shards' parts. */
static bt_status sum_mean(const bt_parts *b, replacement *r, size_t k, bool gradient) {
    bt_array *parts[BTI_MAX_REPLICAS], *sums[BTI_MAX_REPLICAS];
    for (int i = 0; i < b->shard_count; i++) {
        const bti_batch_shard *shard = &b->shards[i];
        parts[i] = bti_array_on(gradient ? shard->own_cotangents.items[k] : shard->means.own.items[k]);
    }
    bti_sum_everywhere(b, parts, sums);
    BTI_TRY(bti_check_arrays(sums, b->strategy->count));
    for (int i = 0; i < b->shard_count; i++) {
        const bti_batch_shard *shard = &b->shards[i];
        const bti_node *input = gradient ? shard->cotangents.items[k] : shard->means.inputs.items[k];
        if (!replace_input(r, input, sums[shard->part.replica])) return bti_no_memory();
    }
    return BT_OK;
}

static bt_status replace_all(bt_parts *b, replacement *r) {
    for (int i = 0; i < b->outputs * b->shard_count; i++) BTI_TRY(replace(r, &b->values[i]));
    for (int i = 0; i < b->shard_count; i++) {
        bti_states *states = &b->shards[i].states;
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

bt_status bti_put_means_in_place(bt_parts *b) {
    BTI_TRY(check_same_means(b));
    size_t count = b->shards[0].means.own.count, gradients = b->shards[0].cotangents.count;
    replacement r = {.numbers = {0}};
    bt_status status = BT_OK;
    for (size_t k = 0; k < count && status == BT_OK; k++) status = sum_mean(b, &r, k, false);
    for (size_t k = 0; k < gradients && status == BT_OK; k++) status = sum_mean(b, &r, k, true);
    if (status == BT_OK && count) status = replace_all(b, &r);
    free_replacement(&r);
    return status;
}
