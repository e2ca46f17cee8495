/* Value numbering: what was planned before is not planned again. */
#include "compile/planner.h"

static uint64_t mix(uint64_t hash, uint64_t word) {
    hash = (hash ^ word) * 0x9E3779B97F4A7C15u;
    return hash ^ (hash >> 29);
}

static uint64_t hash_kernel(const bti_planner *planner, const bti_step *step, const int32_t *inputs,
                            const bti_value *like) {
    uint64_t hash = mix((uint64_t)step->op + 1, (uint64_t)step->device << 8 | (uint64_t)like->dtype);
    for (int i = 0; i < like->rank; i++) hash = mix(hash, (uint64_t)like->shape[i]);
    for (int i = 0; i < step->input_count; i++) hash = mix(hash, (uint64_t)inputs[i]);
    if (step->op == BTI_OP_const)
        hash = mix(hash, planner->plan->scalars.items[step->first_scalar]);
    else if (step->op == step->node->op)
        for (int i = 0; i < step->node->attr_count; i++) hash = mix(hash, (uint64_t)step->node->attr[i]);
    return hash;
}

static bool same_kernel(bti_planner *planner, const bti_step *a, const bti_step *b, const int32_t *inputs,
                        const bti_value *like) {
    if (a->op != b->op || a->device != b->device || a->input_count != b->input_count) return false;
    const bti_value *value = bti_plan_value(planner, planner->plan->operands.items[a->first_operand + a->input_count]);
    if (value->dtype != like->dtype || !bti_shape_equal(value->rank, value->shape, like->rank, like->shape))
        return false;
    for (int i = 0; i < a->input_count; i++)
        if (planner->plan->operands.items[a->first_operand + i] != inputs[i]) return false;
    if (a->op == BTI_OP_const)
        return planner->plan->scalars.items[a->first_scalar] == planner->plan->scalars.items[b->first_scalar];
    if (a->op != a->node->op || b->op != b->node->op) return true; /* made dense: the node's attributes do not matter */
    if (a->node->attr_count != b->node->attr_count) return false;
    for (int i = 0; i < a->node->attr_count; i++)
        if (a->node->attr[i] != b->node->attr[i]) return false;
    return true;
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
    *hash = mix(mix(7, (uint64_t)value), (uint64_t)device) | 1;
    for (size_t i = *hash; planner->known.count; i++) {
        const bti_known *known = &planner->known.items[i & (planner->known.count - 1)];
        if (!known->hash) break;
        if (known->hash == *hash && known->step == -1 && known->from == value &&
            bti_value_device(planner, known->value) == device)
            return known->value;
    }
    return -1;
}

int32_t bti_find_same(bti_planner *planner, const bti_kernel *kernel, uint64_t *hash) {
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

static void insert(bti_planner *planner, bti_known known) {
    size_t i = known.hash;
    while (planner->known.items[i & (planner->known.count - 1)].hash) i++;
    planner->known.items[i & (planner->known.count - 1)] = known;
}

void bti_remember(bti_planner *planner, bti_known known) {
    if ((planner->known_used + 1) * 2 > planner->known.count) {
        size_t count = planner->known.count ? planner->known.count * 2 : 64, old_count = planner->known.count;
        bti_known *old = planner->known.items, *table = bti_calloc(count, sizeof *table);
        if (!table) return; /* a value not remembered is only planned again */
        planner->known.items = table;
        planner->known.count = planner->known.capacity = count;
        for (size_t i = 0; i < old_count; i++)
            if (old[i].hash) insert(planner, old[i]);
        bti_free(old);
    }
    insert(planner, known);
    planner->known_used++;
}
