/* What the parts of planning share. */
#ifndef BTI_COMPILE_PLANNER_H
#define BTI_COMPILE_PLANNER_H

#include "compile/compile.h"

/* Known values by what they are: a kernel's step, or a value's copy on a device. */
typedef struct bti_known {
    uint64_t hash;
    int32_t step;  /* of an operation: its step; -1: a copy; -2: a fused kernel */
    int32_t from;  /* of a copy: the value copied */
    int32_t value; /* the result */
} bti_known;

/* For whom a tuple is computed. */
typedef struct bti_tuple_use {
    bool *read;  /* by result: it is computed for somebody */
    int reached; /* results that the plan is for */
    bool held;   /* one of them stays in memory */
} bti_tuple_use;

struct bti_planner;
/* Plans region number `which` of a tuple. read: by output, whether it is computed; NULL: all are. given: by input, its layout; NULL: all are dense. */
typedef bt_status bti_region_planner(const struct bti_planner *outer, const bti_node *tuple, int which,
                                     const bool *read, const bti_layout *given, bti_plan *plan);

typedef struct bti_planner {
    bti_plan *plan;
    const bti_planning *how;
    const bti_order *order;
    bti_node *const *wanted;
    size_t wanted_count;
    const bti_region *region; /* instead of order and wanted */
    const bool *read;         /* of the region's outputs; NULL: all */
    const bti_layout *given;  /* of the region's inputs; NULL: all are dense */
    int device;               /* of all that is in the region: that of the step that runs it */
    int32_t *planned;         /* by node of the order: its value, or the step of a tuple; -1: not yet */
    bti_numbers numbers;      /* the same of other nodes: those of a region, and what is done */
    BTI_VEC(bti_tuple_use) tuples;
    bti_numbers tuple_numbers; /* which of them */
    bti_region_planner *plan_region;
    const char *title; /* of its texts: "", or which region it is */
    bti_str *inner;    /* texts of the regions that it plans: they follow its own */
    struct bti_fuser *fuser;
    const bti_node *now;      /* being planned */
    bool failed;              /* for want of memory */
    BTI_VEC(bti_known) known; /* open addressing; capacity a power of two */
    size_t known_used;
    BTI_VEC(int32_t) copied_from; /* value -> the value it is a copy of, or -1 */
    /* value -> -1; of a barrier's result, and of views of it: the value that must be there before anything reads it. It is read from
     * memory: no kernel makes both what is in it and what is computed of it. */
    BTI_VEC(int32_t) after;
    int32_t last_callback; /* what stands for the last callback; -1: none. The next one waits for it */
} bti_planner;

/* Where a node runs: wherever what is in a region was recorded. */
static inline int bti_device_of(const bti_planner *planner, const bti_node *node) {
    return planner->region ? planner->device : node->device;
}
/* Its arrays are dense: views are operations as others. */
static inline bool bti_loads_graphs(const bti_planner *planner, int device) {
    return planner->how->target(device)->graphs;
}
/* Whether the step is a part of a segment: what such a device does by itself. */
static inline bool bti_step_is_inner(const bti_planner *planner, const bti_step *step) {
    if (step->kind != BTI_STEP_WORK || !bti_loads_graphs(planner, step->device)) return false;
    return !bti_step_is_host(step) || step->node->host->in_graphs;
}
static inline bti_value *bti_plan_value(bti_planner *planner, int32_t value) {
    return &planner->plan->values.items[value];
}
static inline int bti_value_device(const bti_planner *planner, int32_t value) {
    return planner->plan->storages.items[planner->plan->values.items[value].storage].device;
}

/* A new value; with its own storage if `storage` is -1. Returns its number (0 when memory is short: `failed` is set). */
int32_t bti_add_value(bti_planner *planner, const bti_node *node, int device, int32_t storage, bt_dtype dtype, int rank,
                      const int64_t *shape, const bti_layout *layout);
/* A value without elements, in the place of a result that nobody reads. */
int32_t bti_add_nothing(bti_planner *planner, const bti_node *node);
/* The result `index` of a tuple that has a step. */
int32_t bti_value_of_result(bti_planner *planner, const bti_node *tuple, int index);
/* A view of a value under another shape and layout. */
int32_t bti_add_view(bti_planner *planner, int32_t value, int rank, const int64_t *shape, const bti_layout *layout);
/* The same value under another number, for readers that are not to be joined with those of `value`: they wait for `after` (-1: for nothing
 * but the value itself). */
int32_t bti_add_barrier(bti_planner *planner, int32_t value, int32_t after);
/* Appends the step with its operands; with one output, or with as many as the step says. */
void bti_add_step(bti_planner *planner, bti_step step, const int32_t *inputs, int32_t output);
void bti_add_step_of_many(bti_planner *planner, bti_step step, const int32_t *inputs, const int32_t *outputs);
/* A kernel's result: the one that is known already, else a new step. */
int32_t bti_add_kernel(bti_planner *planner, const bti_node *node, bti_op op, int device, bt_dtype dtype, int rank,
                       const int64_t *shape, const int32_t *inputs, int input_count);
/* A scalar whose 64 bits are an int64, uint64 or double by dtype. */
int32_t bti_add_const(bti_planner *planner, const bti_node *node, int device, bt_dtype dtype, uint64_t bits);
bool bti_is_const(bti_planner *planner, int32_t value, uint64_t *bits);
/* simplify.c: true when the operation was replaced by others, or computed; *simple is then its value. */
bool bti_simplify(bti_planner *planner, const bti_node *node, bti_op op, int device, bt_dtype dtype, int rank,
                  const int64_t *shape, const int32_t *inputs, int input_count, int32_t *simple);
/* The claimer's order has a number for each node; other nodes may be in several plans at a time. */
static inline bool bti_is_in_order(const bti_planner *planner, const bti_node *node) {
    return planner->order && bti_is_claimed(node, planner->order);
}
/* What a node was planned as, a value, or the step of a tuple; -1: it was not planned, or is done. values.c notes that; `failed` when memory is
 * short. */
static inline int32_t bti_planned(const bti_planner *planner, const bti_node *node) {
    return bti_is_in_order(planner, node) ? planner->planned[node->claimed]
                                          : (int32_t)bti_number_of(&planner->numbers, node);
}
void bti_note_planned(bti_planner *planner, const bti_node *node, int32_t value);
/* Of a tuple that has a place in the plan. */
static inline bti_tuple_use *bti_use_of(const bti_planner *planner, const bti_node *tuple) {
    return &planner->tuples.items[bti_number_of(&planner->tuple_numbers, tuple)];
}
/* nodes.c: the value of a node; that of one planned before, or done; the same on a device. */
int32_t bti_plan_node(bti_planner *planner, bti_node *node);
int32_t bti_value_of(bti_planner *planner, bti_node *node);
int32_t bti_value_on(bti_planner *planner, bti_node *input, int device);
/* tuples.c: a step for a tuple. */
void bti_plan_tuple(bti_planner *planner, bti_node *node);
/* control.c: a step with the plans of the tuple's regions; custom.c: one for an operation of the program's. */
void bti_plan_control(bti_planner *planner, bti_node *node);
void bti_plan_custom(bti_planner *planner, bti_node *node);
/* The value of a movement operation: a view where strides can say it. */
int32_t bti_add_movement(bti_planner *planner, const bti_node *node, int32_t input);
/* The value laid out densely, row-major. */
int32_t bti_add_dense(bti_planner *planner, const bti_node *node, int32_t value);
/* A constant, or one that was only moved or cast: it is recomputed on the device that reads it instead of copied. */
bool bti_is_rematerializable(const bti_node *node);
int32_t bti_rematerialize(bti_planner *planner, const bti_node *node, int device);
/* The value on a device: itself, a known copy, or a new one. `node`: what it is the result of. */
int32_t bti_add_copy(bti_planner *planner, const bti_node *node, int32_t value, int device);

/* memory.c: whether the step, a map or an update, may write the output over that storage, which it reads. */
bool bti_writes_over(const bti_plan *plan, const bti_step *step, int output, int32_t storage);
/* donate.c: whether the output, a result of the plan, may lie where a given storage does. */
bool bti_passes_on(const bti_plan *plan, int32_t given, int32_t output);

/* A step in which the host is told the elements of the value. */
void bti_add_callback(bti_planner *planner, const bti_node *node, int32_t value);

/* The passes, in order (passes.c); each has a file of its name. They set `failed` when memory is short. */
void bti_pass_place(bti_planner *planner);
bool bti_has_images(const bti_planner *planner);
void bti_pass_layouts(bti_planner *planner);
void bti_pass_choose(bti_planner *planner);
void bti_pass_fuse(bti_planner *planner); /* and join.c, domain.c, split.c */
bool bti_has_recomputable(const bti_planner *planner);
void bti_pass_recompute(bti_planner *planner);
void bti_pass_schedule(bti_planner *planner); /* and write.c */
bool bti_has_collectives(const bti_planner *planner);
void bti_pass_buckets(bti_planner *planner);
void bti_pass_combine(bti_planner *planner);
void bti_pass_epilogues(bti_planner *planner);
bool bti_has_graphs(const bti_planner *planner);
void bti_pass_segments(bti_planner *planner);
void bti_pass_memory(bti_planner *planner); /* memory.c */

/* Value numbering: the value of an equal step (of an equal copy, of an equal fused kernel; of an equal tuple its step), or -1 and the hash
 * to remember it by. `like`: NULL of a tuple. */
int32_t bti_find_kernel(bti_planner *planner, const bti_step *step, const int32_t *inputs, const bti_value *like,
                        uint64_t *hash);
int32_t bti_find_copy(bti_planner *planner, int32_t value, int device, uint64_t *hash);
int32_t bti_find_fused(bti_planner *planner, const bti_kernel *kernel, uint64_t *hash);
void bti_remember_value(bti_planner *planner, bti_known known);

#endif
