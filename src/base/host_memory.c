#include "base/host_memory.h"

#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/cgroup.h"
#include "base/file_text.h"

#define RESERVE_PART 64                  /* of the total: page tables, and what the process takes in small pieces */
#define RESERVE_MOST ((size_t)256 << 20) /* bytes */

static atomic_size_t taken;   /* by bti_host_memory_claim */
static atomic_size_t unasked; /* of it, since the system was last asked */

/* --- what there is ------------------------------------------------------------------------------------------------ */

/* "MemTotal:  123 kB" and the like; 0 when the line is not there. */
static size_t meminfo(const char *text, const char *key) {
    const char *at = strstr(text, key);
    return at ? (size_t)strtoull(at + strlen(key), NULL, 10) * 1024 : 0;
}

/* Of this process: address space, data, and what lies in memory but not in files. */
typedef struct extent {
    size_t mapped, data, resident;
} extent;

static bool read_extent(extent *e) {
    char text[256];
    unsigned long long mapped, resident, shared, code, library, data;
    if (!bti_file_text("/proc/self/statm", text, sizeof text)) return false;
    if (sscanf(text, "%llu %llu %llu %llu %llu %llu", &mapped, &resident, &shared, &code, &library, &data) != 6)
        return false;
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    *e = (extent){(size_t)mapped * page, (size_t)data * page, (size_t)(resident - shared) * page};
    return true;
}

static void hold(bti_host_memory *memory, size_t limit, size_t left, const char *source) {
    if (!memory->total || limit < memory->total) {
        memory->total = limit;
        snprintf(memory->source, sizeof memory->source, "%.159s", source);
    }
    if (left < memory->left) memory->left = left;
}

static void hold_resource(bti_host_memory *memory, int resource, size_t used, const char *name) {
    struct rlimit limit;
    if (getrlimit((__rlimit_resource_t)resource, &limit) || limit.rlim_cur == RLIM_INFINITY) return;
    size_t bytes = (size_t)limit.rlim_cur;
    hold(memory, bytes ? bytes : 1, bytes > used ? bytes - used : 0, name);
}

void bti_host_memory_read(bti_host_memory *memory) {
    char text[4096];
    bti_cgroup group;
    extent own = {0};
    *memory = (bti_host_memory){.left = SIZE_MAX};
    bti_file_text("/proc/meminfo", text, sizeof text);
    if (meminfo(text, "MemTotal:")) hold(memory, meminfo(text, "MemTotal:"), SIZE_MAX, "the machine's memory");
    if (meminfo(text, "MemAvailable:")) memory->left = meminfo(text, "MemAvailable:");
    bti_cgroup_read(&group);
    if (group.memory_bytes != SIZE_MAX)
        hold(memory, group.memory_bytes ? group.memory_bytes : 1, group.memory_free_bytes, group.memory_file);
    if (read_extent(&own)) {
        hold_resource(memory, RLIMIT_AS, own.mapped, "RLIMIT_AS");
        hold_resource(memory, RLIMIT_DATA, own.data, "RLIMIT_DATA");
    }
}

/* --- whether it is enough ----------------------------------------------------------------------------------------- */

/* What was taken and not used yet is not missing from what is left: at least so much of it is not in memory. */
static size_t unused(void) {
    extent own;
    size_t bytes = atomic_load(&taken);
    if (!read_extent(&own)) return 0;
    return bytes > own.resident ? bytes - own.resident : 0;
}

/* `bytes` more than what was taken. */
static bool fits(size_t bytes) {
    bti_host_memory memory;
    bti_host_memory_read(&memory);
    if (!memory.total || memory.left == SIZE_MAX) return true;
    size_t kept = memory.total / RESERVE_PART;
    if (kept > RESERVE_MOST) kept = RESERVE_MOST;
    kept += unused();
    return memory.left > kept && bytes <= memory.left - kept;
}

bool bti_host_memory_has(size_t bytes) { return bytes < BTI_HOST_MEMORY_ASK || fits(bytes); }

bool bti_host_memory_claim(size_t bytes) {
    size_t since = atomic_fetch_add(&unasked, bytes) + bytes;
    atomic_fetch_add(&taken, bytes); /* before the question, so that of two threads one gets it */
    if (since < BTI_HOST_MEMORY_ASK) return true;
    atomic_store(&unasked, 0);
    if (fits(0)) return true;
    bti_host_memory_unclaim(bytes);
    return false;
}

void bti_host_memory_unclaim(size_t bytes) { atomic_fetch_sub(&taken, bytes); }

bti_host_shortage bti_host_memory_shortage(size_t bytes) {
    bti_host_memory memory;
    bti_host_shortage shortage;
    bti_host_memory_read(&memory);
    if (!memory.total || memory.left == SIZE_MAX)
        snprintf(shortage.text, sizeof shortage.text, "the system refused %zu bytes", bytes);
    else
        snprintf(shortage.text, sizeof shortage.text, "%zu bytes asked for, %zu of %zu are free (%s)", bytes,
                 memory.left, memory.total, memory.source);
    return shortage;
}
