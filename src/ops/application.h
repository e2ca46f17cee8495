/* One operation as the transformations of programs see it, and their rules: one function per name in the tangent and batching columns of
 * ir/ops.def, defined in the file of the operation's family. ops/gradient.h has those of gradients. */
#ifndef BTI_OPS_APPLICATION_H
#define BTI_OPS_APPLICATION_H

#include "ops/gradient.h"
#include "ops/primitive.h"

/* The same transformation of other arrays: what the ys become, as made[] (NULL: they do not depend on the leaves), when the leaves become
 * their images. All may be nodes of a region. */
struct bti_application;
typedef bt_status bti_transformer(const struct bti_application *of, bt_array *const *ys, int y_count,
                                  bt_array *const *leaves, bt_array *const *images, int leaf_count, bt_array **made);

/* One operation of a recorded program, y = op(x[0], x[1], ...), and what a transformation made of its inputs. All arrays live for the call,
 * none is poisoned; what the rule makes belongs to the innermost scope. */
typedef struct bti_application {
    bti_node *node; /* the operation, its attributes, its result's dtype */
    int count, results;
    bt_array **x, *y; /* y: NULL of a tuple */
    bt_array **image; /* of x; at least one is not NULL */
    bti_node *const
        *known; /* of a tuple: by result the node that stands for it; NULL: it does not matter and need not be made */
    bt_array **made; /* out: of y, or of the results of the tuple */
    int64_t size;    /* of the batch */
    bti_transformer *transform;
} bti_application;

typedef void bti_transform_rule(bti_application *a);

/* Tangents. image[i]: the derivative of x[i] in some direction, with its shape and dtype; NULL: it is zero, as those of integers always are.
 * made[i]: the derivative of result i, NULL (as before the call) where it is zero. */
#define BTI_OP(name, class, arity, attr, dtype_rule, shape_rule, gradient, tangent, ...) \
    bti_transform_rule bti_tangent_##tangent;
#include "ir/ops.def"
#undef BTI_OP

/* Batches. image[i]: `size` values of x[i] stacked along a new first axis; NULL: x[i] is the same for all of them. made[i]: the
 * values of result i stacked in the same way; never NULL. */
#define BTI_OP(name, class, arity, attr, dtype_rule, shape_rule, gradient, tangent, batch, ...) \
    bti_transform_rule bti_batch_##batch;
#include "ir/ops.def"
#undef BTI_OP

/* --- what rules are made of (application.c) --------------------------------------------------------------------------------- */

/* The operation once more, of what `input` gives for each of its inputs. */
bt_array *bti_record_again(const bti_application *a, bt_array *(*input)(const bti_application *a, int i), int rank,
                           const int64_t *shape, const bti_attr *attr);
/* x repeated along a new first axis: a view. */
bt_array *bti_repeated(bt_array *x, int64_t size);
/* Input i as a stack: its image, or a view that repeats it. */
bt_array *bti_batched(const bti_application *a, int i);
/* The operation for stacks: the batch goes before y's axes. */
bt_array *bti_record_batched(const bti_application *a, bt_array *const *inputs, const bti_attr *attr);

#endif
