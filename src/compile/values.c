/* Values, views, constants and steps of a plan, and value numbering: what was planned before is not planned again. */
#include "compile/planner.h"

/* --- value numbering ------------------------------------------------------------------------------------------------ */

static uint64_t mix_hash(uint64_t hash, uint64_t word) {
    hash = (hash ^ word) * 0x9E3779B97F4A7C15u;
    return hash ^ (hash >> 29);
}

static uint64_t hash_kernel(const bti_planner *planner, const bti_step *step, const int32_t *inputs,
                            const bti_value *like) {
    uint64_t hash = mix_hash((uint64_t)step->op + 1, (uint64_t)step->device << 8 | (uint64_t)(like ? like->dtype : 0));
    for (int i = 0; like && i < like->rank; i++) hash = mix_hash(hash, (uint64_t)like->shape[i]);
    for (int i = 0; i < step->input_count; i++) hash = mix_hash(hash, (uint64_t)inputs[i]);
    if (step->op == BTI_OP_const)
        hash = mix_hash(hash, planner->plan->scalars.items[step->first_scalar]);
    else if (step->op == step->node->op)
        hash = mix_hash(hash, bti_attr_hash((bti_op)step->op, step->node->attr));
    return hash;
}

static bool same_kernel(bti_planner *planner, const bti_step *a, const bti_step *b, const int32_t *inputs,
                        const bti_value *like) {
    if (a->op != b->op || a->device != b->device || a->input_count != b->input_count) return false;
    const bti_value *value = bti_plan_value(planner, planner->plan->operands.items[a->first_operand + a->input_count]);
    if (like && (value->dtype != like->dtype || !bti_shape_equal(value->rank, value->shape, like->rank, like->shape)))
        return false;
    for (int i = 0; i < a->input_count; i++)
        if (planner->plan->operands.items[a->first_operand + i] != inputs[i]) return false;
    if (a->op == BTI_OP_const)
        return planner->plan->scalars.items[a->first_scalar] == planner->plan->scalars.items[b->first_scalar];
    if (a->op != a->node->op || b->op != b->node->op) return true; /* made dense: the node's attributes do not matter */
    const bti_host_function *host = a->node->host;
    if (host != b->node->host || (host && host->impure)) return false;
    return bti_attr_equal((bti_op)a->op, a->node->attr, b->node->attr);
}

int32_t bti_find_kernel(bti_planner *planner, const bti_step *step, const int32_t *inputs, const bti_value *like,
                        uint64_t *hash) {
    *hash = hash_kernel(planner, step, inputs, like) | 1;
    for (size_t i = *hash; planner->known.count; i++) {
        const bti_known *known = &planner->known.items[i & (planner->known.count - 1)];
        if (!known->hash) break;
        if (known->hash == *hash && known->step >= 0 &&
            same_kernel(planner, &planner->plan->steps.items[known->step], step, inputs, like))
            return known->value;
    }
    return -1;
}

int32_t bti_find_copy(bti_planner *planner, int32_t value, int device, uint64_t *hash) {
    *hash = mix_hash(mix_hash(7, (uint64_t)value), (uint64_t)device) | 1;
    for (size_t i = *hash; planner->known.count; i++) {
        const bti_known *known = &planner->known.items[i & (planner->known.count - 1)];
        if (!known->hash) break;
        if (known->hash == *hash && known->step == -1 && known->from == value &&
            bti_value_device(planner, known->value) == device)
            return known->value;
    }
    return -1;
}

int32_t bti_find_fused(bti_planner *planner, const bti_kernel *kernel, uint64_t *hash) {
    *hash = bti_kernel_hash(kernel) | 1;
    for (size_t i = *hash; planner->known.count; i++) {
        const bti_known *known = &planner->known.items[i & (planner->known.count - 1)];
        if (!known->hash) break;
        if (known->hash == *hash && known->step == -2 &&
            bti_kernel_equal(planner->plan->kernels.items[known->value], kernel))
            return known->value;
    }
    return -1;
}

static void insert_known(bti_planner *planner, bti_known known) {
    size_t i = known.hash;
    while (planner->known.items[i & (planner->known.count - 1)].hash) i++;
    planner->known.items[i & (planner->known.count - 1)] = known;
}

void bti_remember_value(bti_planner *planner, bti_known known) {
    if ((planner->known_used + 1) * 2 > planner->known.count) {
        size_t count = planner->known.count ? planner->known.count * 2 : 64, old_count = planner->known.count;
        bti_known *old = planner->known.items, *table = bti_calloc(count, sizeof *table);
        if (!table) return; /* a value not remembered is only planned again */
        planner->known.items = table;
        planner->known.count = planner->known.capacity = count;
        for (size_t i = 0; i < old_count; i++)
            if (old[i].hash) insert_known(planner, old[i]);
        bti_free(old);
    }
    insert_known(planner, known);
    planner->known_used++;
}

/* --- values and steps ----------------------------------------------------------------------------------------------- */

static int32_t add_storage(bti_planner *planner, const bti_node *node, int device, int64_t bytes) {
    bti_storage storage = {.device = device,
                           .bytes = bytes,
                           .node = node,
                           .value = (int32_t)planner->plan->values.count, /* which is added next */
                           .first_step = -1,
                           .last_step = -1,
                           .offset = -1};
    if (!bti_vec_push(&planner->plan->storages, storage)) planner->failed = true;
    return (int32_t)planner->plan->storages.count - 1;
}

int32_t bti_add_value(bti_planner *planner, const bti_node *node, int device, int32_t storage, bt_dtype dtype, int rank,
                      const int64_t *shape, const bti_layout *layout) {
    bti_value value = {.storage = storage, .dtype = dtype, .rank = rank};
    int64_t count = 1;
    for (int i = 0; i < rank; i++) value.shape[i] = shape[i], count *= shape[i];
    if (storage < 0) value.storage = add_storage(planner, node, device, count * (int64_t)bt_dtype_size(dtype));
    if (layout)
        value.layout = *layout;
    else
        bti_layout_dense(rank, shape, &value.layout);
    if (planner->failed || !bti_vec_push(&planner->plan->values, value) || !bti_vec_push(&planner->copied_from, -1) ||
        !bti_vec_push(&planner->after, -1)) {
        planner->failed = true;
        return 0;
    }
    return (int32_t)planner->plan->values.count - 1;
}

void bti_note_planned(bti_planner *planner, const bti_node *node, int32_t value) {
    if (bti_is_in_order(planner, node))
        planner->planned[node->claimed] = value;
    else if (!bti_number_put(&planner->numbers, node, value))
        planner->failed = true;
}

int32_t bti_add_nothing(bti_planner *planner, const bti_node *node) {
    const int64_t none = 0;
    return bti_add_value(planner, node, bti_device_of(planner, node), -1, BT_U8, 1, &none, NULL);
}

int32_t bti_value_of_result(bti_planner *planner, const bti_node *tuple, int index) {
    if (planner->failed) return 0;
    int32_t number = bti_planned(planner, tuple);
    const bti_step *step = &planner->plan->steps.items[number];
    const bti_type *type = bti_tuple_type(tuple->tuple, index);
    size_t operand = (size_t)(step->first_operand + step->input_count + index);
    int32_t value = planner->plan->operands.items[operand];
    const bti_value *known = bti_plan_value(planner, value);
    if (known->dtype == type->dtype && bti_shape_equal(known->rank, known->shape, type->rank, type->shape))
        return value;
    value = bti_add_value(planner, tuple, tuple->device, -1, type->dtype, type->rank, type->shape, NULL);
    if (planner->failed) return 0;
    planner->plan->operands.items[operand] = value;
    planner->plan->storages.items[bti_plan_value(planner, value)->storage].first_step = number;
    return value;
}

int32_t bti_add_view(bti_planner *planner, int32_t value, int rank, const int64_t *shape, const bti_layout *layout) {
    if (planner->failed) return 0;
    const bti_value base = *bti_plan_value(planner, value);
    int32_t after = planner->after.items[value];
    int32_t view = bti_add_value(planner, NULL, 0, base.storage, base.dtype, rank, shape, layout);
    if (!planner->failed) planner->after.items[view] = after;
    return view;
}

int32_t bti_add_barrier(bti_planner *planner, int32_t value, int32_t after) {
    if (planner->failed) return 0;
    const bti_value base = *bti_plan_value(planner, value);
    int32_t again = bti_add_view(planner, value, base.rank, base.shape, &base.layout);
    if (!planner->failed) planner->after.items[again] = after >= 0 ? after : value;
    return again;
}

void bti_add_step_of_many(bti_planner *planner, bti_step step, const int32_t *inputs, const int32_t *outputs) {
    bti_plan *plan = planner->plan;
    step.first_operand = (int32_t)plan->operands.count;
    if (!bti_vec_reserve(&plan->operands, (size_t)step.input_count + (size_t)step.output_count) ||
        !bti_vec_reserve(&plan->steps, 1)) {
        planner->failed = true;
        return;
    }
    for (int i = 0; i < step.input_count; i++) plan->operands.items[plan->operands.count++] = inputs[i];
    for (int o = 0; o < step.output_count; o++) {
        plan->operands.items[plan->operands.count++] = outputs[o];
        plan->storages.items[bti_plan_value(planner, outputs[o])->storage].first_step = (int32_t)plan->steps.count;
    }
    plan->steps.items[plan->steps.count++] = step;
}

void bti_add_step(bti_planner *planner, bti_step step, const int32_t *inputs, int32_t output) {
    step.output_count = 1;
    bti_add_step_of_many(planner, step, inputs, &output);
}

int32_t bti_add_const(bti_planner *planner, const bti_node *node, int device, bt_dtype dtype, uint64_t bits) {
    if (planner->failed) return 0;
    bti_plan *plan = planner->plan;
    bti_value like = {.dtype = dtype};
    bti_step step = {.op = BTI_OP_const, .device = device, .node = node, .first_scalar = (int32_t)plan->scalars.count};
    uint64_t hash;
    if (!bti_vec_push(&plan->scalars, bits)) {
        planner->failed = true;
        return 0;
    }
    int32_t known = bti_find_kernel(planner, &step, NULL, &like, &hash);
    if (known >= 0) {
        plan->scalars.count--;
        return known;
    }
    int32_t output = bti_add_value(planner, node, device, -1, dtype, 0, NULL, NULL);
    if (planner->failed) return 0;
    bti_remember_value(planner, (bti_known){.hash = hash, .step = (int32_t)plan->steps.count, .value = output});
    bti_add_step(planner, step, NULL, output);
    return output;
}

bool bti_is_const(bti_planner *planner, int32_t value, uint64_t *bits) {
    const bti_plan *plan = planner->plan;
    int32_t maker = plan->storages.items[bti_plan_value(planner, value)->storage].first_step;
    if (maker < 0 || plan->steps.items[maker].op != BTI_OP_const) return false;
    *bits = plan->scalars.items[plan->steps.items[maker].first_scalar];
    return true;
}
