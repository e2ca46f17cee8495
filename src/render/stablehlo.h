/* A graph as the text of a StableHLO module, for whatever loads that: plugins of PJRT, JAX, XLA's tools. Needs nothing but the graph. */
#ifndef BTI_RENDER_STABLEHLO_H
#define BTI_RENDER_STABLEHLO_H

#include "base/str.h"
#include "ir/plan.h"

typedef struct bti_hlo_graph {
    const char *name;
    bti_node *const *inputs; /* the arguments of @main, in this order */
    const int *aliases;      /* by input: the output whose memory may be its own; -1: none; NULL: none at all */
    int input_count;
    bti_node *const *constants; /* whose elements stand in the text */
    const void *const *data;    /* by constant: dense, row-major */
    int constant_count;
    bti_node *const *nodes; /* the rest, inputs before users */
    int node_count;
    bti_node *const *outputs; /* of @main */
    int output_count;
    bool highest; /* products of float32 are not rounded to less */
} bti_hlo_graph;

/* All sizes are numbers. UNIMPLEMENTED names an operation that StableHLO cannot say, and its line; RESOURCE_EXHAUSTED: memory is short. */
bt_status bti_stablehlo_text(const bti_hlo_graph *graph, bti_str *text);

/* What varies among the runs of a segment of a plan. Axes that do are written as long as the next power of two, and their true sizes are numbers that the text leaves open, so that it is the
 * same for all sizes up to there. What lies beyond a size is anything: operations that combine elements along such an axis pass it over. */
typedef struct bti_hlo_varying {
    const uint32_t *axes; /* by value of the plan: a mask */
    const uint32_t *
        numbers; /* by inner step of the segment: of a number, and of the steps of a scan, 1; where a slice or a pad begins: a mask of axes */
} bti_hlo_varying;
/* The type that a value has in such a text. Sizes are between 1 and 2^30. */
bti_type bti_hlo_padded_type(const bti_value *value, uint32_t axes);

/* The same of a segment of a plan: its inputs are the arguments, its outputs the results. aliases: by input, as above. numbers: NULL, or what the text leaves open is added: numbers, and where parts of inputs begin; they
 * are its last argument, if there are any: uint64 [n], the bits of each in its dtype. varying: NULL: nothing does; else `numbers` is there, and empty; UNIMPLEMENTED names an operation without a rule for it, too. */
typedef BTI_VEC(uint64_t) bti_hlo_numbers;
bt_status bti_stablehlo_segment(const bti_plan *plan, const bti_step *segment, const int *aliases, bool highest,
                                const bti_hlo_varying *varying, bti_hlo_numbers *numbers, bti_str *text);

#endif
