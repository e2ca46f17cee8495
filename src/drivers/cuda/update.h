/* Recordings of launches, and the nodes that get other arguments. graph.c makes, runs and frees them. */
#ifndef BTI_DRIVERS_CUDA_UPDATE_H
#define BTI_DRIVERS_CUDA_UPDATE_H

#include "drivers/cuda/device.h"

typedef BTI_VEC(bti_cuda_held *) bti_cuda_holds;
typedef BTI_VEC(CUgraphNode) bti_cuda_marks;

/* A recorded launch, fill or copy: what it is, but for its words, which are in a list of those of all. */
typedef struct bti_cuda_node {
    CUgraphNode node;
    bti_cuda_launched what;
    size_t first_word;
} bti_cuda_node;

typedef struct bti_cuda_nodes {
    BTI_VEC(bti_cuda_node) items;
    BTI_VEC(uint64_t) words;
    bool fixed; /* there are others beside these, whose arguments are not known */
} bti_cuda_nodes;

typedef struct bti_cuda_graph {
    bti_cuda_retired retired; /* first */
    CUgraphExec executable;
    CUgraph recorded;     /* that the nodes belong to; NULL: there are none */
    bti_cuda_holds holds; /* modules and plans that it uses */
    bti_cuda_nodes nodes;
    bti_cuda_marks marks;
    bti_mark unset; /* what the nodes of marks record until they are set; its value is 0 where there are none */
    uint64_t
        scratch_moves; /* of the device when it was recorded; if it changed since, the graph uses freed scratch memory */
} bti_cuda_graph;

/* A thread that records launches, or changes a recording. */
struct bti_cuda_capture {
    bti_cuda_graph *updated; /* that is changed; NULL: one is recorded */
    size_t matched;          /* of its launches */
    CUstream stream;
    bti_cuda_holds holds; /* of what was recorded so far */
    bti_cuda_nodes nodes; /* likewise; with `updated` its words alone, which are the new ones */
    bti_cuda_marks marks;
    bti_mark unset;
    pthread_t thread;
    bool refused; /* an operation cannot be in a graph, or is not what was recorded */
    uint64_t scratch_moves;
};

/* The calling thread's; NULL: it records nothing. */
struct bti_cuda_capture *bti_cuda_own_capture(const bti_cuda_device *device);
/* The last node of the stream that is recorded. */
bt_status bti_cuda_last_node(bti_cuda_device *device, const struct bti_cuda_capture *capture, CUgraphNode *node);
void bti_cuda_nodes_free(bti_cuda_nodes *nodes);
/* The end of a change; with the context current. *changed NULL: it is not the same, and as it was. */
bt_status bti_cuda_end_update(bti_cuda_device *device, void **changed);

#endif
