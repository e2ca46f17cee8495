/* Graphs of the fake libcuda: recorded, launched, and given other arguments. */
#include <stdlib.h>
#include <string.h>

#include "fakes/findings.h"
#include "fakes/libcuda.h"
#include "fakes/memory.h"

struct CUgraph_st {
    fake_graph graph;
};
struct CUgraphExec_st {
    fake_graph graph;
    CUgraph from; /* whose nodes its operations are; NULL: it was destroyed */
    CUgraphExec next;
};

static CUgraphExec executables;

static void drop_graph(void *thing) {
    struct CUgraph_st *graph = thing;
    fake_graph_drop(&graph->graph);
    free(graph);
}
static void drop_executable(void *thing) {
    CUgraphExec executable = thing;
    for (CUgraphExec *at = &executables; *at; at = &(*at)->next)
        if (*at == executable) {
            *at = executable->next;
            break;
        }
    fake_graph_drop(&executable->graph);
    free(executable);
}

const char *fake_executables_use(const void *thing) {
    const char *name = NULL;
    for (CUgraphExec e = executables; e && !name; e = e->next) name = fake_graph_uses(&e->graph, thing);
    return name;
}

FAKE_API CUresult cuStreamBeginCapture_v2(CUstream stream, int mode) {
    ENTER_IN_CONTEXT(cuStreamBeginCapture_v2);
    if (!stream) return 900; /* the null stream cannot be captured */
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
/* The last node, as there are no others without successors. */
FAKE_API CUresult cuStreamGetCaptureInfo_v2(CUstream stream, int *state, uint64_t *id, CUgraph *graph,
                                            const CUgraphNode **after, size_t *count) {
    ENTER_IN_CONTEXT(cuStreamGetCaptureInfo_v2);
    if (!stream || !stream->stream.capture || id || graph) return 1;
    fake_lock();
    const fake_operation *last = stream->stream.capture->first;
    while (last && last->next) last = last->next;
    stream->last = (CUgraphNode)(uintptr_t)last;
    fake_unlock();
    *state = 1; /* active */
    *after = &stream->last;
    *count = last ? 1 : 0;
    return 0;
}
FAKE_API CUresult cuGraphDestroy(CUgraph graph) {
    fake_lock();
    for (CUgraphExec e = executables; e; e = e->next)
        if (e->from == graph) e->from = NULL;
    fake_unlock();
    fake_release(graph);
    return fake_call("cuGraphDestroy", true);
}
FAKE_API CUresult cuGraphInstantiateWithFlags(CUgraphExec *executable, CUgraph graph, unsigned long long flags) {
    ENTER_IN_CONTEXT(cuGraphInstantiateWithFlags);
    CUgraphExec made = flags ? NULL : calloc(1, sizeof *made);
    if (!made) return 1;
    made->graph = graph->graph; /* takes what was recorded */
    made->from = graph;
    graph->graph = (fake_graph){0};
    if (!fake_own(made, drop_executable)) return 2;
    fake_lock();
    made->next = executables;
    executables = made;
    fake_unlock();
    *executable = made;
    return 0;
}
FAKE_API CUresult cuGraphLaunch(CUgraphExec executable, CUstream stream) {
    ENTER_IN_CONTEXT(cuGraphLaunch);
    stream = fake_enter_stream(stream);
    fake_lock();
    fake_log("graph %d", executable->graph.count);
    fake_graph_add(&executable->graph, &stream->stream);
    fake_unlock();
    return 0;
}
/* The executable's own operation: NULL where the node is not of the graph that it was made from, or that graph was destroyed. Launches so far have copies. */
static fake_operation *find_node(CUgraphExec executable, CUgraphNode node) {
    fake_operation *at = executable->from ? executable->graph.first : NULL;
    while (at && (CUgraphNode)(void *)at != node) at = at->next;
    return at;
}

FAKE_API CUresult cuGraphExecEventRecordNodeSetEvent(CUgraphExec executable, CUgraphNode node, CUevent event) {
    ENTER_IN_CONTEXT(cuGraphExecEventRecordNodeSetEvent);
    if (!event->open) return 1;
    fake_lock();
    fake_operation *at = find_node(executable, node);
    bool records = at && at->event;
    if (records) at->event = &event->event;
    fake_unlock();
    return records ? 0 : 1;
}
/* Stricter than CUDA, which lets the grid and the function change. */
FAKE_API CUresult cuGraphExecKernelNodeSetParams(CUgraphExec executable, CUgraphNode node,
                                                 const CUDA_KERNEL_NODE_PARAMS *p) {
    ENTER_IN_CONTEXT(cuGraphExecKernelNodeSetParams);
    const fake_launch launch = {p->func,
                                {p->gridDimX, p->gridDimY, p->gridDimZ},
                                {p->blockDimX, p->blockDimY, p->blockDimZ},
                                p->sharedMemBytes,
                                p->kernelParams,
                                p->extra};
    fake_lock();
    fake_operation *at = find_node(executable, node);
    CUresult result =
        at && fake_is_kernel(&at->work) ? fake_replace_launch("cuGraphExecKernelNodeSetParams", at, &launch) : 1;
    if (!result) fake_log("update kernel");
    fake_unlock();
    return result;
}
/* Of one dimension, between memories of the device. */
FAKE_API CUresult cuGraphExecMemcpyNodeSetParams(CUgraphExec executable, CUgraphNode node, const CUDA_MEMCPY3D *p,
                                                 CUcontext context) {
    ENTER_IN_CONTEXT(cuGraphExecMemcpyNodeSetParams);
    const CUDA_MEMCPY3D plain = {.srcMemoryType = CU_MEMORYTYPE_DEVICE,
                                 .srcDevice = p->srcDevice,
                                 .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                                 .dstDevice = p->dstDevice,
                                 .WidthInBytes = p->WidthInBytes,
                                 .Height = 1,
                                 .Depth = 1};
    if (memcmp(&plain, p, sizeof plain) != 0 || context != fake_current()) return 1;
    fake_lock();
    fake_operation *at = find_node(executable, node);
    CUresult result = at ? fake_replace_copy(at, p->dstDevice, p->srcDevice, p->WidthInBytes) : 1;
    if (!result) fake_log("update copy");
    fake_unlock();
    return result;
}
FAKE_API CUresult cuGraphExecMemsetNodeSetParams(CUgraphExec executable, CUgraphNode node,
                                                 const CUDA_MEMSET_NODE_PARAMS *p, CUcontext context) {
    ENTER_IN_CONTEXT(cuGraphExecMemsetNodeSetParams);
    if (p->elementSize != 1 || p->height != 1 || p->value > 255 || context != fake_current()) return 1;
    fake_lock();
    fake_operation *at = find_node(executable, node);
    CUresult result = at ? fake_replace_fill(at, p->dst, (unsigned char)p->value, p->width) : 1;
    if (!result) fake_log("update fill");
    fake_unlock();
    return result;
}
/* CUDA allows it while the graph runs: its work is not ended, and it is freed when that is complete. It is counted. */
FAKE_API CUresult cuGraphExecDestroy(CUgraphExec executable) {
    fake_log("destroy recording");
    fake_lock();
    if (fake_stream_uses(&executable->graph)) fake_count_wait("cuGraphExecDestroy of a graph in flight");
    fake_release(executable);
    fake_unlock();
    return fake_call("cuGraphExecDestroy", true);
}
