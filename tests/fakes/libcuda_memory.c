/* Memory and copies of the fake libcuda. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fakes/findings.h"
#include "fakes/libcuda.h"
#include "fakes/memory.h"

#define POISON 0xa5

typedef struct pinned {
    struct pinned *next;
    char *memory;
    size_t bytes;
} pinned;

static pinned *all_pinned;

/* --- memory --------------------------------------------------------------------------------------------------------- */

FAKE_API CUresult cuMemGetInfo_v2(size_t *free_bytes, size_t *total_bytes) {
    ENTER_IN_CONTEXT(cuMemGetInfo_v2);
    const fake_device *d = &fake()->devices[fake_current()->device];
    *free_bytes = d->memory - d->used;
    *total_bytes = d->memory;
    return 0;
}
FAKE_API CUresult cuMemAlloc_v2(CUdeviceptr *address, size_t bytes) {
    uint64_t found;
    ENTER_IN_CONTEXT(cuMemAlloc_v2);
    fake_may_run_device(fake_current()->device, "cuMemAlloc");
    int code = bytes ? fake_alloc(fake_current()->device, bytes, &found) : 1;
    if (!code) *address = found;
    return code;
}
FAKE_API CUresult cuMemFree_v2(CUdeviceptr address) {
    int code = fake_call("cuMemFree_v2", true);
    fake_lock();
    if (fake_current()) fake_run_device(fake_current()->device, "cuMemFree");
    const char *user = fake_allocation_user(address);
    if (user && fake_current() && fake_may_find(fake_current()->device))
        fake_find(fake_current()->device, FAKE_LAUNCH_FAILED,
                  "cuMemFree frees memory before the host has waited for the work that uses it: %s", user);
    bool known = fake_free(address);
    fake_unlock();
    return known ? code : 1;
}

static void drop_pinned(void *thing) {
    for (pinned **at = &all_pinned, *found; (found = *at); at = &found->next) {
        if (found->memory != thing) continue;
        *at = found->next;
        free(found);
        break;
    }
    free(thing);
}

FAKE_API CUresult cuMemHostAlloc(void **memory, size_t bytes, unsigned flags) {
    (void)flags;
    ENTER_IN_CONTEXT(cuMemHostAlloc);
    fake_may_run_device(fake_current()->device, "cuMemHostAlloc");
    pinned *made = calloc(1, sizeof *made);
    /* as much again behind it: what the host writes past its end is found when it is copied, and does not crash */
    if (!made || posix_memalign((void **)&made->memory, FAKE_PAGE, 2 * bytes) || !fake_own(made->memory, drop_pinned))
        abort();
    made->bytes = bytes;
    fake_lock();
    made->next = all_pinned;
    all_pinned = made;
    fake_unlock();
    *memory = made->memory;
    return 0;
}
FAKE_API CUresult cuMemFreeHost(void *memory) {
    int code = fake_call("cuMemFreeHost", true), device = fake_current() ? fake_current()->device : 0;
    fake_lock();
    const char *user = fake_stream_uses(memory);
    if (user && fake_may_find(device))
        fake_find(device, FAKE_LAUNCH_FAILED, "cuMemFreeHost frees memory before the work that uses it has run: %s",
                  user);
    if (fake_current()) fake_run_device(device, "cuMemFreeHost");
    fake_release(memory);
    fake_unlock();
    return code;
}

/* The pinned allocation in which the bytes begin; NULL: they are pageable. */
static const pinned *find_pinned(const void *memory) {
    const char *from = memory;
    for (const pinned *p = all_pinned; p; p = p->next)
        if (from >= p->memory && from < p->memory + p->bytes) return p;
    return NULL;
}

/* The bytes are all pinned or all pageable (CUDA driver API, cuMemcpyAsync: CUDA_ERROR_INVALID_VALUE). */
static bool lies_well(const char *name, const void *memory, size_t bytes) {
    const pinned *p = find_pinned(memory);
    size_t room = p ? (size_t)(p->memory + p->bytes - (const char *)memory) : bytes;
    if (bytes <= room) return true;
    fake_find(fake_current()->device, FAKE_LAUNCH_FAILED,
              "%s of %zu bytes goes %zu bytes past the end of pinned memory of %zu bytes", name, bytes, bytes - room,
              p->bytes);
    return false;
}

/* --- copies --------------------------------------------------------------------------------------------------------- */

typedef struct move {
    uint64_t to, from, bytes, hash;
    const char *what;
    unsigned char byte;
    bool hashed;
} move;

static uint64_t hash_bytes(const void *memory, size_t bytes) {
    uint64_t hash = bytes, word;
    const char *from = memory;
    for (; bytes >= 8; from += 8, bytes -= 8) {
        memcpy(&word, from, 8);
        hash = (hash ^ word) * UINT64_C(0x9fb21c651e98df25);
        hash ^= hash >> 32;
    }
    for (; bytes; from++, bytes--) hash = (hash ^ (unsigned char)*from) * UINT64_C(0x9fb21c651e98df25);
    return hash;
}

static void run_up(void *data) {
    const move *m = data;
    const void *from = (const void *)(uintptr_t)m->from;
    if (m->hashed && hash_bytes(from, m->bytes) != m->hash)
        fake_find(fake_order_device(fake_order_now()), FAKE_LAUNCH_FAILED,
                  "the host changed the source of %s in stream %u before it had run", fake_order_name(fake_order_now()),
                  fake_order_stream_of(fake_order_now()));
    void *to = fake_write_memory(m->to, m->bytes);
    if (to) memcpy(to, from, m->bytes);
    fake_log("copy up %llu", (unsigned long long)m->bytes);
}
static void run_down(void *data) {
    const move *m = data;
    const void *from = fake_read_memory(m->from, m->bytes);
    if (from) memcpy((void *)(uintptr_t)m->to, from, m->bytes);
    fake_log("copy down %llu", (unsigned long long)m->bytes);
}
static void run_across(void *data) {
    const move *m = data;
    if (m->to < m->from + m->bytes && m->from < m->to + m->bytes)
        fake_find(fake_order_device(fake_order_now()), FAKE_LAUNCH_FAILED,
                  "%s in stream %u copies between ranges that overlap", fake_order_name(fake_order_now()),
                  fake_order_stream_of(fake_order_now()));
    const void *from = fake_read_for_copy(m->from, m->bytes);
    void *to = from ? fake_write_memory(m->to, m->bytes) : NULL;
    if (to) {
        memmove(to, from, m->bytes);
        fake_copy_unwritten(m->to, m->from, m->bytes);
    }
    fake_log("%s %llu", m->what, (unsigned long long)m->bytes);
}
static void run_fill(void *data) {
    const move *m = data;
    void *to = fake_write_memory(m->to, m->bytes);
    if (to) memset(to, m->byte, m->bytes);
    fake_log("fill %llu", (unsigned long long)m->bytes);
}

static CUresult add_move(CUstream stream, const char *name, void (*run)(void *), const move *m, const void *uses) {
    fake_work work = {.run = run, .uses = uses};
    snprintf(work.name, sizeof work.name, "%s of %llu bytes", name, (unsigned long long)m->bytes);
    return fake_add(stream, &work, m, sizeof *m);
}

/* A copy from or to pageable memory may wait for its stream and may not (CUDA driver API, "API synchronization behavior"): it is counted,
 * and runs as late as all others. */
static CUresult add_host_move(CUstream stream, const char *name, void (*run)(void *), const move *m, const void *host) {
    const pinned *p = find_pinned(host);
    if (!p) fake_count_wait("a copy of pageable memory");
    return add_move(stream, name, run, m, p ? p->memory : NULL);
}

FAKE_API CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void *from, size_t bytes, CUstream stream) {
    ENTER_IN_CONTEXT(cuMemcpyHtoDAsync_v2);
    stream = fake_enter_stream(stream);
    if (!fake_memory_exists(to, bytes) || !lies_well("copy up", from, bytes)) return 1;
    move m = {.to = to, .from = (uint64_t)(uintptr_t)from, .bytes = bytes, .hashed = !stream->stream.capture};
    if (m.hashed) m.hash = hash_bytes(from, bytes);
    return add_host_move(stream, "copy up", run_up, &m, from);
}
/* Whoever reads the destination too early reads the pattern. */
FAKE_API CUresult cuMemcpyDtoHAsync_v2(void *to, CUdeviceptr from, size_t bytes, CUstream stream) {
    ENTER_IN_CONTEXT(cuMemcpyDtoHAsync_v2);
    stream = fake_enter_stream(stream);
    if (!fake_memory_exists(from, bytes) || !lies_well("copy down", to, bytes)) return 1;
    const move m = {.to = (uint64_t)(uintptr_t)to, .from = from, .bytes = bytes};
    memset(to, POISON, bytes);
    return add_host_move(stream, "copy down", run_down, &m, to);
}
FAKE_API CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream) {
    ENTER_IN_CONTEXT(cuMemcpyDtoDAsync_v2);
    stream = fake_enter_stream(stream);
    if (!fake_memory_exists(to, bytes) || !fake_memory_exists(from, bytes)) return 1;
    const move m = {.to = to, .from = from, .bytes = bytes, .what = "copy within"};
    return add_move(stream, m.what, run_across, &m, NULL);
}
FAKE_API CUresult cuMemcpyPeerAsync(CUdeviceptr to, CUcontext to_context, CUdeviceptr from, CUcontext from_context,
                                    size_t bytes, CUstream stream) {
    ENTER_IN_CONTEXT(cuMemcpyPeerAsync);
    stream = fake_enter_stream(stream);
    if (!fake_memory_exists(to, bytes) || !fake_memory_exists(from, bytes) || to_context == from_context) return 1;
    const move m = {.to = to, .from = from, .bytes = bytes, .what = "copy peer"};
    return add_move(stream, m.what, run_across, &m, NULL);
}
FAKE_API CUresult cuMemsetD8Async(CUdeviceptr to, unsigned char byte, size_t bytes, CUstream stream) {
    ENTER_IN_CONTEXT(cuMemsetD8Async);
    stream = fake_enter_stream(stream);
    if (!fake_memory_exists(to, bytes)) return 1;
    const move m = {.to = to, .bytes = bytes, .byte = byte};
    return add_move(stream, "fill", run_fill, &m, NULL);
}

/* --- operations of graphs --------------------------------------------------------------------------------------------- */

CUresult fake_replace_copy(fake_operation *operation, CUdeviceptr to, CUdeviceptr from, size_t bytes) {
    move *m = (void *)operation->data;
    if (operation->work.run != run_across || m->bytes != bytes) return 1;
    if (!fake_memory_exists(to, bytes) || !fake_memory_exists(from, bytes)) return 1;
    m->to = to, m->from = from;
    return 0;
}

CUresult fake_replace_fill(fake_operation *operation, CUdeviceptr to, unsigned char byte, size_t bytes) {
    move *m = (void *)operation->data;
    if (operation->work.run != run_fill || m->bytes != bytes || !fake_memory_exists(to, bytes)) return 1;
    m->to = to, m->byte = byte;
    return 0;
}
