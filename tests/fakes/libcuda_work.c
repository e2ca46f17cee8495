/* Launches of the fake libcuda. */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fakes/findings.h"
#include "fakes/libcuda.h"
#include "fakes/memory.h"
#include "fakes/ptx/watch.h"

#define MOST_STEPS UINT64_C(4000000000)

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

/* A launch that is checked, as work with its data. */
typedef struct checked_launch {
    fake_work work;
    void *data; /* the caller's to free */
    size_t bytes;
} checked_launch;

static CUresult check_fake(CUfunction function, const unsigned *grid, const unsigned *block, unsigned local,
                           void **parameters, checked_launch *checked) {
    if (grid[1] != 1 || grid[2] != 1 || block[1] != 1 || block[2] != 1) return 1;
    run_of *r = calloc(1, sizeof *r);
    if (!r) return 2;
    *r = (run_of){.groups = grid[0], .threads = block[0], .local = local, .count = function->words};
    memcpy(r->name, function->name, sizeof r->name);
    if (r->count)
        memcpy(r->words, parameters[0], (size_t)r->count * 8);
    else
        memcpy(&r->pointer, parameters[0], 8);
    *checked = (checked_launch){{.run = run_fake_launch, .uses = function->module}, r, sizeof *r};
    snprintf(checked->work.name, sizeof checked->work.name, "kernel %s", r->name);
    return 0;
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

static CUresult check_ptx(CUfunction function, const unsigned *grid, const unsigned *block, unsigned dynamic_bytes,
                          void **parameters, checked_launch *checked) {
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
    *checked = (checked_launch){{.run = run_kernel, .uses = function->module}, r, sizeof *r + f->parameter_bytes};
    snprintf(checked->work.name, sizeof checked->work.name, "kernel %s%s%s", f->name,
             *function->module->ptx->file ? " of " : "", function->module->ptx->file);
    return 0;
}

static CUresult check_launch(const char *call, const fake_launch *l, int device, checked_launch *checked) {
    if (!l->grid[0] || !l->grid[1] || !l->grid[2] || l->grid[0] > INT_MAX || l->extra) return 1;
    if (!l->block[0] || l->block[0] > 1024 || !l->block[1] || !l->block[2]) return 1;
    if (l->function->unloaded) {
        fake_find(device, FAKE_LAUNCH_FAILED, "%s launches %s, whose module was unloaded", call, l->function->name);
        return 400;
    }
    if (device != l->function->module->device) return 400;
    return (l->function->ptx ? check_ptx : check_fake)(l->function, l->grid, l->block, l->local, l->parameters,
                                                       checked);
}

bool fake_is_kernel(const fake_work *work) { return work->run == run_fake_launch || work->run == run_kernel; }

/* Of the same function, in a grid of the same size. */
static bool is_same_launch(const fake_operation *was, const checked_launch *is) {
    if (was->work.run != is->work.run || was->bytes != is->bytes) return false;
    if (is->work.run == run_kernel) {
        const kernel_run *a = (const void *)was->data, *b = is->data;
        return a->function == b->function && !memcmp(a->grid, b->grid, sizeof a->grid) &&
               !memcmp(a->block, b->block, sizeof a->block) && a->dynamic_bytes == b->dynamic_bytes;
    }
    const run_of *a = (const void *)was->data, *b = is->data;
    return was->work.uses == is->work.uses && !strcmp(a->name, b->name) && a->groups == b->groups &&
           a->threads == b->threads && a->local == b->local;
}

CUresult fake_replace_launch(const char *call, fake_operation *operation, const fake_launch *launch) {
    checked_launch checked;
    CUresult result = check_launch(call, launch, fake_current()->device, &checked);
    if (result) return result;
    bool same = is_same_launch(operation, &checked);
    if (same) memcpy(operation->data, checked.data, checked.bytes);
    free(checked.data);
    return same ? 0 : 1;
}

FAKE_API CUresult cuLaunchKernel(CUfunction function, unsigned x, unsigned y, unsigned z, unsigned threads,
                                 unsigned block_y, unsigned block_z, unsigned local, CUstream stream, void **parameters,
                                 void **extra) {
    ENTER_IN_CONTEXT(cuLaunchKernel);
    stream = fake_enter_stream(stream);
    const fake_launch launch = {function, {x, y, z}, {threads, block_y, block_z}, local, parameters, extra};
    checked_launch checked;
    CUresult result = check_launch("cuLaunchKernel", &launch, stream->stream.device, &checked);
    if (result) return result;
    result = fake_add(stream, &checked.work, checked.data, checked.bytes);
    free(checked.data);
    return result;
}
