/* Launches and graphs of the fake libcuda. */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fakes/findings.h"
#include "fakes/libcuda.h"
#include "fakes/memory.h"
#include "fakes/ptx/watch.h"

#define MOST_STEPS UINT64_C(4000000000)

struct CUgraph_st {
    fake_graph graph;
};
struct CUgraphExec_st {
    fake_graph graph;
    CUgraph from; /* whose nodes its operations are; NULL: it was destroyed */
    CUgraphExec next;
};

static CUgraphExec executables;

/* --- launches -------------------------------------------------------------------------------------------------------- */

/* Of a text of the fake NVRTC. */
typedef struct run_of {
    char name[64];
    unsigned groups, threads, local;
    int count;
    uint64_t pointer, words[1024];
} run_of;

/* The kernel "fake_add" (words: address, count, by) adds `by` to floats in memory. */
static void run_fake_launch(void *data) {
    run_of *r = data;
    char words[400] = "";
    size_t length = 0;
    const void *pointed = r->count || !fake_memory_exists(r->pointer, 64) ? NULL : fake_memory(r->pointer, 64);
    if (pointed) memcpy(r->words, pointed, 64);
    for (int i = 0; i < (r->count ? r->count : 8) && length < sizeof words - 24; i++)
        length += (size_t)snprintf(words + length, sizeof words - length, " %llu", (unsigned long long)r->words[i]);
    fake_log("launch %s %u %u %u:%s", r->name, r->groups, r->threads, r->local, words);
    if (strncmp(r->name, "fake_add", 8)) {
        fake_memory_lost_track();
        return;
    }
    if (!fake_read_memory(r->words[0], r->words[1] * sizeof(float))) return;
    float *memory = fake_write_memory(r->words[0], r->words[1] * sizeof *memory);
    for (uint64_t i = 0; memory && i < r->words[1]; i++) memory[i] += (float)r->words[2];
}

static CUresult launch_fake(CUfunction function, const unsigned *grid, const unsigned *block, unsigned local,
                            CUstream stream, void **parameters) {
    if (grid[1] != 1 || grid[2] != 1 || block[1] != 1 || block[2] != 1) return 1;
    run_of r = {.groups = grid[0], .threads = block[0], .local = local, .count = function->words};
    memcpy(r.name, function->name, sizeof r.name);
    if (r.count)
        memcpy(r.words, parameters[0], (size_t)r.count * 8);
    else
        memcpy(&r.pointer, parameters[0], 8);
    fake_work work = {.run = run_fake_launch, .uses = function->module};
    snprintf(work.name, sizeof work.name, "kernel %s", r.name);
    return fake_add(stream, &work, &r, sizeof r);
}

/* Of a module in PTX. */
typedef struct kernel_run {
    CUfunction function;
    unsigned grid[3], block[3], dynamic_bytes;
    uint64_t seed;
    _Alignas(16) unsigned char arguments[];
} kernel_run;

static void run_kernel(void *data) {
    const kernel_run *r = data;
    const ptx_function *f = r->function->ptx;
    char *problem = NULL;
    ptx_counts counts;
    const fake_launch_size size = {fake_order_device(fake_order_now()), (uint64_t)r->grid[0] * r->grid[1] * r->grid[2],
                                   r->block[0] * r->block[1] * r->block[2], r->dynamic_bytes};
    if (r->function->unloaded) return; /* that its module was unloaded is a finding already */
    ptx_launch launch = {.module = r->function->module->ptx,
                         .function = f,
                         .dynamic_bytes = r->dynamic_bytes,
                         .arguments = r->arguments,
                         .seed = r->seed,
                         .error_seed = fake_seed(),
                         .sample = fake_sample_of(size.blocks),
                         .most_steps = MOST_STEPS};
    memcpy(launch.grid, r->grid, sizeof r->grid);
    memcpy(launch.block, r->block, sizeof r->block);
    fake_log("launch %s %llu %u %u", f->name, (unsigned long long)size.blocks, size.threads, r->dynamic_bytes);
    if (ptx_run(&launch, fake_counts_path() ? &counts : NULL, &problem)) {
        if (fake_counts_path()) fake_note_counts(&size, r->function, &counts);
        return;
    }
    int code = problem && strstr(problem, "not a multiple of") ? FAKE_MISALIGNED
               : problem && strstr(problem, WATCH_OUTSIDE)     ? FAKE_ILLEGAL_ADDRESS
                                                               : FAKE_LAUNCH_FAILED;
    fake_find(fake_order_device(fake_order_now()), code, "%s (stream %u)", problem ? problem : f->name,
              fake_order_stream_of(fake_order_now()));
    free(problem);
}

static CUresult launch_ptx(CUfunction function, const unsigned *grid, const unsigned *block, unsigned dynamic_bytes,
                           CUstream stream, void **parameters) {
    const ptx_function *f = function->ptx;
    uint64_t threads = (uint64_t)block[0] * block[1] * block[2];
    if (grid[1] > 65535 || grid[2] > 65535 || block[2] > 64 || threads > 1024) return 1;
    if (threads > fake_most_threads(function)) return 701;
    if (dynamic_bytes > (unsigned)function->dynamic_bytes && dynamic_bytes + f->shared_bytes > FAKE_SHARED) return 1;
    kernel_run *r = calloc(1, sizeof *r + f->parameter_bytes);
    if (!r) return 2;
    r->function = function;
    memcpy(r->grid, grid, sizeof r->grid);
    memcpy(r->block, block, sizeof r->block);
    r->dynamic_bytes = dynamic_bytes;
    r->seed = fake_random();
    for (int i = 0; i < f->parameter_count; i++)
        memcpy(r->arguments + f->parameters[i].offset, parameters[i], f->parameters[i].bytes);
    fake_work work = {.run = run_kernel, .uses = function->module};
    snprintf(work.name, sizeof work.name, "kernel %s%s%s", f->name, *function->module->ptx->file ? " of " : "",
             function->module->ptx->file);
    CUresult result = fake_add(stream, &work, r, sizeof *r + f->parameter_bytes);
    free(r);
    return result;
}

FAKE_API CUresult cuLaunchKernel(CUfunction function, unsigned x, unsigned y, unsigned z, unsigned threads,
                                 unsigned block_y, unsigned block_z, unsigned local, CUstream stream, void **parameters,
                                 void **extra) {
    ENTER_IN_CONTEXT(cuLaunchKernel);
    stream = fake_enter_stream(stream);
    const unsigned grid[] = {x, y, z}, block[] = {threads, block_y, block_z};
    if (!x || !y || !z || x > INT_MAX || !threads || threads > 1024 || !block_y || !block_z || extra) return 1;
    if (function->unloaded) {
        fake_find(fake_current()->device, FAKE_LAUNCH_FAILED, "cuLaunchKernel launches %s, whose module was unloaded",
                  function->name);
        return 400;
    }
    if (stream->stream.device != function->module->device) return 400;
    return (function->ptx ? launch_ptx : launch_fake)(function, grid, block, local, stream, parameters);
}

/* --- graphs --------------------------------------------------------------------------------------------------------- */

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
/* Launches so far keep the event that they had. */
FAKE_API CUresult cuGraphExecEventRecordNodeSetEvent(CUgraphExec executable, CUgraphNode node, CUevent event) {
    ENTER_IN_CONTEXT(cuGraphExecEventRecordNodeSetEvent);
    if (!executable->from || !event->open) return 1;
    fake_lock();
    fake_operation *at = executable->graph.first;
    while (at && (CUgraphNode)(void *)at != node) at = at->next;
    bool records = at && at->event;
    if (records) at->event = &event->event;
    fake_unlock();
    return records ? 0 : 1;
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
