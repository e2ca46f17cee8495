/* Launches and graphs of the fake libcuda. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fakes/libcuda.h"

struct CUgraph_st {
    fake_graph graph;
};
struct CUgraphExec_st {
    fake_graph graph;
};

/* --- launches -------------------------------------------------------------------------------------------------------- */

typedef struct run_of {
    char name[64];
    unsigned groups, threads, local;
    int count;
    uint64_t pointer, words[1024];
} run_of;

/* The kernel "fake_add" (words: address, count, by) adds `by` to floats in memory. */
static void run_launch(void *data) {
    run_of *r = data;
    char words[400] = "";
    size_t length = 0;
    if (!r->count && fake_memory(r->pointer, 64)) memcpy(r->words, fake_memory(r->pointer, 64), 64);
    for (int i = 0; i < (r->count ? r->count : 8) && length < sizeof words - 24; i++)
        length += (size_t)snprintf(words + length, sizeof words - length, " %llu", (unsigned long long)r->words[i]);
    fake_log("launch %s %u %u %u:%s", r->name, r->groups, r->threads, r->local, words);
    if (strncmp(r->name, "fake_add", 8)) return;
    float *memory = fake_memory(r->words[0], r->words[1] * sizeof *memory);
    for (uint64_t i = 0; memory && i < r->words[1]; i++) memory[i] += (float)r->words[2];
}

FAKE_API CUresult cuLaunchKernel(CUfunction function, unsigned x, unsigned y, unsigned z, unsigned threads,
                                 unsigned block_y, unsigned block_z, unsigned local, CUstream stream, void **parameters,
                                 void **extra) {
    ENTER_IN_CONTEXT(cuLaunchKernel);
    if (!x || y != 1 || z != 1 || !threads || threads > 1024 || block_y != 1 || block_z != 1 || extra) return 1;
    run_of *r = calloc(1, sizeof *r);
    if (!r) return 2;
    memcpy(r->name, function->name, sizeof r->name);
    r->groups = x, r->threads = threads, r->local = local, r->count = function->words;
    if (r->count)
        memcpy(r->words, parameters[0], (size_t)r->count * 8);
    else
        memcpy(&r->pointer, parameters[0], 8);
    int code = fake_add(stream, run_launch, r, sizeof *r);
    free(r);
    return code;
}

/* --- graphs --------------------------------------------------------------------------------------------------------- */

static void drop_graph(void *thing) {
    struct CUgraph_st *graph = thing;
    fake_graph_drop(&graph->graph);
    free(graph);
}
static void drop_executable(void *thing) {
    struct CUgraphExec_st *executable = thing;
    fake_graph_drop(&executable->graph);
    free(executable);
}

FAKE_API CUresult cuStreamBeginCapture_v2(CUstream stream, int mode) {
    ENTER_IN_CONTEXT(cuStreamBeginCapture_v2);
    if (mode != CU_STREAM_CAPTURE_MODE_RELAXED || stream->stream.capture) return 1;
    CUgraph made = calloc(1, sizeof *made);
    if (!made) return 2;
    if (!fake_own(made, drop_graph)) return 2;
    made->graph.end = &made->graph.first;
    stream->stream.capture = &made->graph;
    return 0;
}
FAKE_API CUresult cuStreamEndCapture(CUstream stream, CUgraph *graph) {
    if (!stream->stream.capture) return 903;
    CUgraph made = (CUgraph)(void *)stream->stream.capture;
    stream->stream.capture = NULL;
    *graph = made;
    int code = fake_call("cuStreamEndCapture", true);
    return code;
}
FAKE_API CUresult cuGraphDestroy(CUgraph graph) {
    fake_release(graph);
    return fake_call("cuGraphDestroy", true);
}
FAKE_API CUresult cuGraphInstantiateWithFlags(CUgraphExec *executable, CUgraph graph, unsigned long long flags) {
    ENTER_IN_CONTEXT(cuGraphInstantiateWithFlags);
    CUgraphExec made = flags ? NULL : calloc(1, sizeof *made);
    if (!made) return 1;
    made->graph = graph->graph; /* takes what was recorded */
    graph->graph = (fake_graph){0};
    if (!fake_own(made, drop_executable)) return 2;
    *executable = made;
    return 0;
}
FAKE_API CUresult cuGraphLaunch(CUgraphExec executable, CUstream stream) {
    ENTER_IN_CONTEXT(cuGraphLaunch);
    fake_lock();
    fake_log("graph %d", executable->graph.count);
    fake_graph_add(&executable->graph, &stream->stream);
    fake_unlock();
    return 0;
}
FAKE_API CUresult cuGraphExecDestroy(CUgraphExec executable) {
    fake_log("destroy recording");
    fake_release(executable);
    return fake_call("cuGraphExecDestroy", true);
}
