/* A node: one operation, its inputs, the shape and dtype of its result, its device, and the line of the user's source
 * that recorded it. There is one graph for eager calls, functions and gradients. The meaning of a node never changes;
 * its state goes from PENDING to DONE or FAILED once. */
#ifndef BTI_IR_NODE_H
#define BTI_IR_NODE_H

#include <stdatomic.h>

#include "base/error.h"
#include "base/vec.h"
#include "ir/attr.h"
#include "ir/sequence.h"
#include "ir/dtype.h"
#include "ir/host.h"
#include "ir/op.h"
#include "ir/shape.h"
#include "ir/type.h"

/* Why a node is on its device; the numbers are those of SPEC, which explain prints. */
typedef enum bti_rule {
    BTI_RULE_DEFAULT,   /* the default device */
    BTI_RULE_EXPLICIT,  /* a target argument or the innermost block */
    BTI_RULE_COMMITTED, /* all committed inputs are there */
    BTI_RULE_BYTES,     /* committed inputs on several devices: most of the bytes */
    BTI_RULE_SOFT,      /* soft placement: the named device is not there, or has no kernel */
    BTI_RULE_FORWARD    /* a gradient's operation, where its forward one ran */
} bti_rule;

typedef enum bti_node_state { BTI_PENDING, BTI_DONE, BTI_FAILED } bti_node_state;

typedef struct bti_buffer bti_buffer; /* exec's: memory on a device with its completion */

/* A gate stands for sets of shared variables that a result depends on and that may still fail; if they do, the result is invalid.
 * A node inherits the gates of its inputs. array/step.c makes and resolves gates. */
typedef enum bti_outcome { BTI_UNKNOWN, BTI_GOOD, BTI_BAD } bti_outcome;
typedef struct bti_gate bti_gate;
typedef struct bti_gate_functions {
    bti_gate *(*join)(bti_gate *a, bti_gate *b); /* one for both (retained); NULL: out of memory */
    void (*free)(bti_gate *gate);
} bti_gate_functions;
struct bti_gate {
    const bti_gate_functions *functions; /* the same for all gates */
    atomic_uint refs;
    atomic_int outcome; /* bti_outcome; changes once */
    bti_error *cause;   /* when BAD */
};

/* What a node with several results has besides. It has no elements itself: its results are nodes of the operation `result`, of which it is
 * the only input. While it is PENDING and in no region, whoever has claimed it may give it more results, behind those that it has. */
typedef struct bti_region bti_region;
#define BTI_MAX_REGIONS 2
typedef struct bti_tuple {
    atomic_int result_count;
    int region_count;
    bti_type *_Atomic types; /* by result; read by bti_tuple_type */
    bti_region *_Atomic regions[BTI_MAX_REGIONS];
    struct bti_tuple_before *before; /* types and region that it had with fewer results; others may still read them */
    bti_buffer **buffers;            /* by result, dense, when DONE: others than were asked for may be wanted later */
    atomic_int alive;                /* results that exist */
} bti_tuple;

struct bti_node;
/* A call that ran without recording: its arguments, so that it can be recorded when the history of a result is needed.
 * function/origin.c makes and reads it. */
typedef struct bti_origin bti_origin;
typedef struct bti_origin_functions {
    void (*unused)(bti_origin *origin);                                /* its last user is gone */
    void (*result_freed)(bti_origin *origin, struct bti_node *result); /* releases the origin */
} bti_origin_functions;
struct bti_origin {
    const bti_origin_functions *functions;
    atomic_uint refs;  /* its results that exist */
    atomic_uint users; /* results that have not forgotten it, and the thread that records it now */
    int given_count;
    struct bti_node **given; /* retained while there are users */
    bool donates;            /* some of it: its results have no history */
};

/* A block of operations whose results the backward pass computes again instead of keeping them (grad.h: BT_CHECKPOINT). Blocks are told
 * apart by address: their nodes and the blocks inside of them hold them. */
typedef struct bti_checkpoint {
    atomic_uint refs;
    struct bti_checkpoint *outer; /* retained; NULL: none */
} bti_checkpoint;
/* A new block, with one reference; NULL when memory is short. */
bti_checkpoint *bti_checkpoint_new(bti_checkpoint *outer);
static inline bti_checkpoint *bti_checkpoint_retain(bti_checkpoint *block) {
    if (block) atomic_fetch_add_explicit(&block->refs, 1, memory_order_relaxed);
    return block;
}
void bti_checkpoint_release(bti_checkpoint *block); /* NULL is fine */

/* Blocks that stand for others, where nodes of those are made again. {0}: none yet; freed by bti_stand_in_blocks_free, with a reference to each. */
typedef struct bti_stand_in_blocks {
    BTI_VEC(bti_checkpoint *) items; /* borrowed, each followed by the one that stands for it, retained */
} bti_stand_in_blocks;
bti_checkpoint *bti_stand_in_block(const bti_stand_in_blocks *blocks,
                                   const bti_checkpoint *block); /* NULL: there is none */
bti_checkpoint *bti_stand_in_block_new(bti_stand_in_blocks *blocks, bti_checkpoint *block,
                                       bti_checkpoint *outer); /* NULL: memory is short */
void bti_stand_in_blocks_free(bti_stand_in_blocks *blocks);

typedef struct bti_node {
    atomic_uint refs;
    atomic_uint handles; /* arrays that the user holds on it: such a node keeps its result */
    atomic_int state;    /* bti_node_state; DONE means submitted: the buffer knows when it is filled */
    uint8_t op;          /* bti_op */
    uint8_t dtype;       /* bt_dtype */
    uint8_t rank;
    bool weak;     /* a C double without a dtype of its own, or computed from such values alone */
    bool symbolic; /* depends on a function's input; cannot be read */
    atomic_bool committed;
    atomic_bool forget;      /* drops its inputs when it is done (a long-lived value) */
    atomic_bool in_gradient; /* recorded by the rule of a gradient, on behalf of the operation that `place` names */
    bool in_region;          /* it belongs to a region: shared by whoever runs that, and never changed */
    bool passed;             /* was computed for another result and not kept: the next time it is kept. The claimer's */
    bool log_copies;         /* copies made for it are logged: the policy when it was recorded */
    atomic_bool left_origin; /* has left the users of its origin */
    atomic_bool met_others;  /* another thread than the recorder has recorded on it */
    bool summed_by_step;     /* a part of a gradient: scans add it up step by step and keep no rows for it */
    bool reads;              /* a value of a variable, or computed from one, also where the history was dropped since */
    uint8_t rule;            /* bti_rule */
    int16_t device;          /* number in the registry */
    atomic_int input_count; /* 0 once the history was dropped; a result of a call gets an input when that is recorded */
    int32_t dropped;        /* inputs that are released when no walk is under way that may see them */
    uint32_t recorder;      /* the number of the thread that recorded it */
    uint64_t sequence;      /* inputs have smaller ones; of one recorder the order of recording (sequence.h) */
    /* What a gradient may pass through to this node, also where history was forgotten since: the smallest sequence, and a bit for each
     * shared variable (its number modulo 64). */
    uint64_t oldest, variables;
    /* The call that ended this node's history, or is going to; name NULL: none. */
    bti_place cut;
    bti_place place; /* public name ("MatMul") and caller's line */
    /* Of the last node of a public operation its name: one line in the placement log; else NULL. */
    _Atomic(const char *) logged;
    bti_error *error;           /* when FAILED */
    const void *extra;          /* of a value: its shared variable, to compare with only (attr->value has its number) */
    bti_host_function *host;    /* retained; of operations that the host calls a function for */
    bti_origin *origin;         /* of a prepared call's result */
    bti_tuple *tuple;           /* NULL: it has one result */
    bti_checkpoint *checkpoint; /* retained; the innermost block that it was recorded in; NULL: none */
    bti_gate
        *gate; /* retained; NULL: the result depends on no set that may fail. Never changes once others know the node */
    bti_buffer *buffer; /* when DONE; layout says where in it */
    bti_layout layout;
    int64_t shape[BTI_MAX_RANK];
    size_t bytes; /* of the node with what stands behind it */
    struct bti_node **inputs;
    bti_attr *attr; /* NULL: the operation has none */
    /* Who plans and computes it now; 0: nobody. Taken by compare and exchange while the node is PENDING (compile.h: bti_reach). While it is held,
     * nobody else changes the node's state, its result or its inputs. */
    _Atomic(uint64_t) claim;
    union {
        int64_t claimed;            /* its number in the claimer's order */
        struct bti_node *next_dead; /* while being freed, and while its inputs are */
    };
} bti_node;

static inline bool bti_node_has_gradient(const bti_node *node) { return bti_dtype_has_gradient((bt_dtype)node->dtype); }

/* A PENDING node with one reference, inputs retained, attr copied (NULL if the operation has none); NULL when memory is short. */
bti_node *bti_node_new(bti_op op, bt_dtype dtype, int rank, const int64_t *shape, int input_count,
                       bti_node *const *inputs, const bti_attr *attr);
/* A region: a piece of graph that an operation runs, as a loop runs its body. It stands alone: what it reads from outside is one of its
 * inputs. Its nodes are nobody else's, are never computed by themselves, and never change. */
struct bti_region {
    atomic_uint refs;
    int input_count, output_count, node_count;
    bti_node **inputs;  /* leaves, in recorded order */
    bti_node **outputs; /* may be inputs, and the same more than once */
    bti_node **nodes;   /* what the outputs are made of beside inputs, in recorded order */
};

/* All retained; NULL when memory is short. */
bti_region *bti_region_new(bti_node *const *inputs, int input_count, bti_node *const *outputs, int output_count,
                           bti_node *const *nodes, int node_count);
bti_region *bti_region_retain(bti_region *region);
void bti_region_release(bti_region *region); /* NULL is fine */

/* The same with several results; it retains the regions. Its dtype is float32 if a result is floating. */
bti_node *bti_node_new_tuple(bti_op op, int input_count, bti_node *const *inputs, const bti_attr *attr,
                             int result_count, const bti_type *types, int region_count, bti_region *const *regions);
/* Gives a tuple the types and the region of one that has more results behind its own. Only by the claimer, and if it is in no region. */
bool bti_node_extend(bti_node *tuple, int result_count, const bti_type *types, bti_region *region);
/* What a result is. (GCC 12 reads `tuple->types[i]` without atomicity.) Lives as long as the tuple. */
static inline const bti_type *bti_tuple_type(const bti_tuple *tuple, int result) {
    return atomic_load(&tuple->types) + result;
}
static inline bti_type bti_type_of(const bti_node *node) {
    bti_type type = {.dtype = (bt_dtype)node->dtype, .rank = node->rank};
    for (int i = 0; i < node->rank; i++) type.shape[i] = node->shape[i];
    return type;
}
/* Of an array of so many rows, given one; of a row, given the array. */
static inline bti_type bti_type_of_rows(const bti_node *row, int64_t count) {
    bti_type type = {.dtype = (bt_dtype)row->dtype, .rank = row->rank + 1, .shape = {count}};
    for (int i = 0; i < row->rank; i++) type.shape[i + 1] = row->shape[i];
    return type;
}
static inline bti_type bti_type_of_row(const bti_node *rows) {
    bti_type type = {.dtype = (bt_dtype)rows->dtype, .rank = rows->rank - 1};
    for (int i = 0; i < type.rank; i++) type.shape[i] = rows->shape[i + 1];
    return type;
}
bti_node *bti_node_retain(bti_node *node);
/* Frees in a loop, not by recursion: chains of any length are fine. NULL is fine. */
void bti_node_release(bti_node *node);
/* Drops the inputs and so the history of the node, if it has any. Nobody plans it: it is DONE and not claimed. */
void bti_node_forget(bti_node *node);
/* Between the two, what nodes drop stays alive: whoever retains a node may go from it to its inputs and on without a lock. */
int bti_walk_begin(void);
void bti_walk_end(int walk);

static inline bti_gate *bti_gate_retain(bti_gate *gate) {
    if (gate) atomic_fetch_add_explicit(&gate->refs, 1, memory_order_relaxed);
    return gate;
}
void bti_gate_release(bti_gate *gate); /* NULL is fine */
static inline bool bti_gate_matters(const bti_gate *gate) { return gate && atomic_load(&gate->outcome) != BTI_GOOD; }
/* The cause when it is known to have failed (borrowed), else NULL. Does not wait. */
static inline bti_error *bti_gate_error(const bti_gate *gate) {
    return gate && atomic_load(&gate->outcome) == BTI_BAD ? gate->cause : NULL;
}
/* *gate depends on `other` (borrowed; may be NULL) too; false when memory is short. */
bool bti_gate_join(bti_gate **gate, bti_gate *other);

/* How the buffer of a node is released. exec sets it before main: a pointer in each buffer would make each result larger. */
void bti_node_set_buffer_release(void (*release)(bti_buffer *buffer));
void bti_node_leave_origin(bti_node *node); /* releases the node's use of its origin, once */
bool bti_origin_use(
    bti_origin *origin); /* one use more, by something that is no node; false: it has no users any more */
void bti_origin_leave(bti_origin *origin); /* releases that */
/* A DONE node without inputs, and with room for one, on a buffer that it takes over; NULL when memory is short. */
bti_node *bti_node_done(bti_op op, bt_dtype dtype, int rank, const int64_t *shape, const bti_attr *attr,
                        bti_buffer *buffer, const bti_layout *layout);
/* Adds a reference unless the count is 0 already. */
bool bti_node_try_retain(bti_node *node);
/* `count` numbers for what reads these nodes. Where several threads record on one of them, or with `ordered`, they are greater than all that there were. */
bti_recorded bti_node_numbers(uint64_t count, bti_node *const *inputs, int input_count, bool ordered);
/* Whether the thread that got this from bti_sequence_last has recorded the node since then. */
static inline bool bti_node_is_since(const bti_node *node, const bti_recorded *since) {
    return node->recorder == since->recorder && node->sequence > since->sequence;
}

/* What two nodes share that stand for the same thing: device, placement, place in the source, the host's function. `to` is new. */
void bti_copy_marks(bti_node *to, const bti_node *from);

int64_t bti_node_count(const bti_node *node); /* elements */
int64_t bti_node_bytes(const bti_node *node);
/* Checked when the node is made; so both fit into 63 bits. */

#endif
