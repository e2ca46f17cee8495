/* The rules of ir/ops.def as tables, and the gradients and tangents of no family. */
#include "ops/rules.h"

#include "array/move.h"

#define bti_gradient_none NULL
bti_gradient_rule *bti_gradient_rule_of(bti_op op) {
    static bti_gradient_rule *const rules[] = {
#define BTI_OP(name, class, arity, attr, dtype_rule, shape_rule, gradient, ...) \
    [BTI_OP_##name] = bti_gradient_##gradient,
#include "ir/ops.def"
#undef BTI_OP
    };
    return rules[op];
}

#define bti_tangent_none NULL
bti_transform_rule *bti_tangent_rule_of(bti_op op) {
    static bti_transform_rule *const rules[] = {
#define BTI_OP(name, class, arity, attr, dtype_rule, shape_rule, gradient, tangent, ...) \
    [BTI_OP_##name] = bti_tangent_##tangent,
#include "ir/ops.def"
#undef BTI_OP
    };
    return rules[op];
}

#define bti_batch_none NULL
bti_transform_rule *bti_batch_rule_of(bti_op op) {
    static bti_transform_rule *const rules[] = {
#define BTI_OP(name, class, arity, attr, dtype_rule, shape_rule, gradient, tangent, batch, ...) \
    [BTI_OP_##name] = bti_batch_##batch,
#include "ir/ops.def"
#undef BTI_OP
    };
    return rules[op];
}

/* --- gradients and tangents of no family ------------------------------------------------------------------------------------------ */

/* Of operations that are constant everywhere. */
void bti_gradient_zero(bti_backward *b) { (void)b; }
void bti_tangent_zero(bti_application *a) { (void)a; }

BTI_GRADIENT_1(copy, bti_move(g, bti_node_of(x)->device, false))
void bti_tangent_copy(bti_application *a) { a->made[0] = bti_move(a->image[0], a->node->device, false); }

BTI_GRADIENT_1(barrier, g)

static bt_array *barrier(bt_array *x, bt_array *after) {
    return bti_record_by_rules(BTI_OP_barrier, (bt_array *[]){x, after}, 2, NULL);
}
void bti_tangent_barrier(bti_application *a) {
    if (a->image[0]) a->made[0] = barrier(a->image[0], a->x[1]);
}
void bti_batch_barrier(bti_application *a) {
    a->made[0] = barrier(bti_batched(a, 0), a->image[1] ? a->image[1] : a->x[1]);
}

/* The gradient of input i alone that y's gradient `g` gives. */
static bt_array *gradient_by(const bti_application *a, int i, bt_array *g) {
    enum { MOST = 4 };
    bt_array *gradients[MOST] = {0};
    bool wanted[MOST] = {0};
    wanted[i] = true;
    bti_backward b = {
        .g = g, .y = a->y, .x = a->x, .count = a->count, .wanted = wanted, .attr = a->node->attr, .gx = gradients};
    bti_gradient_rule_of((bti_op)a->node->op)(&b);
    return gradients[i];
}

/* Where each element of y is made of one of each input, a gradient and a tangent are multiplied by the same numbers. */
void bti_tangent_diagonal(bti_application *a) {
    for (int i = 0; i < a->count; i++) {
        bt_array *part = a->image[i] ? gradient_by(a, i, a->image[i]) : NULL;
        if (part) a->made[0] = a->made[0] ? bt_add(a->made[0], part) : part;
    }
}

/* Reductions: the sum of what each element of the row contributes. */
void bti_tangent_reduce(bti_application *a) {
    bt_array *slopes = gradient_by(a, 0, bt_ones_like(a->y));
    a->made[0] = bti_reduce(BTI_OP_sum, bt_mul(a->image[0], slopes), a->node->attr->fold.axes);
}

static bt_array *tangent_or_input(const bti_application *a, int i) {
    if (a->image[i]) return a->image[i];
    return bti_dtype_has_gradient(bti_dtype(a->x[i])) ? bt_zeros_like(a->x[i]) : a->x[i];
}

/* Operations that are linear in their floats (all of them at once): the same of the tangents; indices and conditions stay. */
void bti_tangent_linear(bti_application *a) {
    a->made[0] = bti_record_again(a, tangent_or_input, a->node->rank, a->node->shape, a->node->attr);
}
