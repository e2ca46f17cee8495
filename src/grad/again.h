/* What a backward walk computes again: copies of operations that were recorded in checkpoint blocks (grad.h: BT_CHECKPOINT). */
#ifndef BTI_GRAD_AGAIN_H
#define BTI_GRAD_AGAIN_H

#include "base/vec.h"
#include "ir/node.h"

/* A node as the rules of a block see it. Inside of the block: the operation recorded once more, on its inputs as the block sees them. From
 * outside, or in memory already: a barrier on the node as the blocks around see it. */
typedef struct bti_again_entry {
    bti_node *node;        /* retained */
    bti_checkpoint *block; /* held by the operation whose rule asked */
    int depth;             /* of the block */
    bool inside;
    size_t first_input; /* into `inputs` */
    bti_node *again;    /* NULL: not recorded yet */
} bti_again_entry;

/* All that one walk computes again: each node once per block. {0}: nothing yet. */
typedef struct bti_again {
    BTI_VEC(bti_again_entry) entries;
    BTI_VEC(bti_node *) inputs; /* of entries inside; retained, since a node that is done forgets them */
    BTI_VEC(int32_t) table;     /* open addressing: entry + 1; a power of two */
} bti_again;

/* `node` (user itself, or an input of it) as the gradient rule of `user` is to see it: itself, or what stands for it in the innermost block
 * that both are in. What is computed again waits for `cotangent`, the gradient of user's result. Borrowed, until the end; NULL when memory
 * is short. */
bti_node *bti_again_for(bti_again *again, const bti_node *user, bti_node *node, bti_node *cotangent);
void bti_again_end(bti_again *again);

#endif
