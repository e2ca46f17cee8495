#include "nodes/table.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/shm.h>
#include <time.h>
#include <unistd.h>

#include "base/error.h"

enum { MOST_ENTRIES = 1 << 21, LEAST_ENTRIES = 1 << 14, MOST_PROCESSES = 1 << 14, MOST_FREE = 4096 };
#define TAG ((uint64_t)0x6e0d << 48)

typedef struct table_process {
    atomic_int pid; /* 0: free */
    atomic_int node;
    _Atomic uint64_t started; /* as /proc tells: a number may be another process's by now */
} table_process;

typedef struct table {
    atomic_bool lost[NODES_COUNT + 1];
    atomic_uint next_node, used;
    uint32_t most;
    _Atomic uint64_t serial;
    table_process processes[MOST_PROCESSES];
    table_entry entries[];
} table;

static table *shared;
static int node_here;
static atomic_uint free_count; /* of ids that this process gives again */
static uint32_t free_ids[MOST_FREE];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of these */

static void forget(void) {
    lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
    atomic_store(&free_count, 0);
}
__attribute__((constructor)) static void watch_forks(void) { pthread_atfork(NULL, NULL, forget); }

bool table_make(void) {
    char text[32];
    void *memory = (void *)-1;
    uint32_t most = MOST_ENTRIES;
    int id = -1;
    for (; memory == (void *)-1 && most >= LEAST_ENTRIES; most /= 2) { /* addresses may be few */
        id = shmget(IPC_PRIVATE, sizeof *shared + most * sizeof *shared->entries, IPC_CREAT | 0666); /* of any user */
        if (id < 0) break;
        memory = shmat(id, NULL, 0);
        shmctl(id, IPC_RMID, NULL); /* it goes with the last process that has it */
        if (memory != (void *)-1) ((table *)memory)->most = most;
    }
    if (memory == (void *)-1)
        return (void)bti_fail(BT_RESOURCE_EXHAUSTED, "nodes: no memory: %s", strerror(errno)), false;
    shared = memory;
    forget();
    snprintf(text, sizeof text, "%d", id);
    setenv("BERTH_NODES_TABLE", text, 1);
    return true;
}

bool table_join(void) {
    const char *told = getenv("BERTH_NODES_TABLE");
    if (shared) return true;
    void *memory = told ? shmat(atoi(told), NULL, 0) : (void *)-1;
    if (memory == (void *)-1) return false;
    shared = memory;
    return true;
}

void table_leave(void) {
    if (shared) shmdt(shared);
    shared = NULL;
    unsetenv("BERTH_NODES_TABLE");
}

bool table_is_there(void) { return shared != NULL; }

/* --- ids --------------------------------------------------------------------------------------------------------------- */

static uint64_t id_of(uint32_t index) {
    return TAG | (uint64_t)(atomic_load(&shared->entries[index].generation) & 0xffff) << 32 | index;
}

static uint32_t take_free(void) {
    pthread_mutex_lock(&lock);
    unsigned count = atomic_load(&free_count);
    uint32_t index = count ? free_ids[count - 1] : UINT32_MAX;
    if (count) atomic_store(&free_count, count - 1);
    pthread_mutex_unlock(&lock);
    return index;
}

static void begin_entry(table_entry *e, uint32_t index, bool is_one) {
    atomic_store(&e->flags, is_one ? 0 : ENTRY_EXPORTED);
    atomic_store(&e->node, 0);
    atomic_store(&e->copies, 0);
    atomic_store(&e->inner, 0);
    atomic_store(&e->bytes, 0);
    atomic_store(&e->serial, atomic_fetch_add(&shared->serial, 1));
    e->index = index;
    atomic_fetch_add(&e->generation, 1);
}

uint64_t table_new(int count) {
    uint32_t first = count == 1 ? take_free() : UINT32_MAX;
    if (first == UINT32_MAX &&
        (first = atomic_fetch_add(&shared->used, (unsigned)count)) > shared->most - (uint32_t)count) {
        atomic_fetch_sub(&shared->used, (unsigned)count);
        return (void)bti_fail(BT_RESOURCE_EXHAUSTED, "too many references"), 0;
    }
    for (int i = 0; i < count; i++) begin_entry(&shared->entries[first + (uint32_t)i], (uint32_t)i, count == 1);
    return id_of(first);
}

uint64_t table_result(uint64_t id, int index) {
    uint32_t at = (uint32_t)id, first = at - shared->entries[at].index;
    return id_of(first + (uint32_t)index);
}

table_entry *table_at(uint64_t id) {
    uint32_t index = (uint32_t)id;
    bool known = shared && id >> 48 == TAG >> 48 && index < atomic_load(&shared->used);
    if (known && id == id_of(index) && id >> 32 & 1) return &shared->entries[index];
    return (void)bti_fail(BT_INTERNAL, "the id %llx is %s", (unsigned long long)id,
                          known ? "of a reference that was released" : "of no reference"),
           NULL;
}

uint64_t table_of_inner(uint64_t inner) {
    uint32_t used = atomic_load(&shared->used), latest = UINT32_MAX;
    for (uint32_t i = 0; i < used && i < shared->most; i++) {
        const table_entry *e = &shared->entries[i];
        bool is =
            atomic_load(&e->generation) & 1 && atomic_load(&e->inner) == inner && atomic_load(&e->flags) & ENTRY_ACTOR;
        if (is && (latest == UINT32_MAX || atomic_load(&e->serial) > atomic_load(&shared->entries[latest].serial)))
            latest = i;
    }
    return latest != UINT32_MAX ? id_of(latest) : 0;
}

void table_free(uint64_t id) {
    table_entry *e = &shared->entries[(uint32_t)id];
    if (atomic_load(&e->flags) & ENTRY_EXPORTED) return;
    atomic_fetch_add(&e->generation, 1);
    pthread_mutex_lock(&lock);
    unsigned count = atomic_load(&free_count);
    if (count < MOST_FREE) free_ids[count] = (uint32_t)id, atomic_store(&free_count, count + 1);
    pthread_mutex_unlock(&lock);
}

/* --- nodes ------------------------------------------------------------------------------------------------------------- */

/* When a process began; 0: there is none. */
static uint64_t start_of(int pid) {
    char path[64], text[1024];
    unsigned long long started = 0;
    snprintf(path, sizeof path, "/proc/%d/stat", pid);
    FILE *file = fopen(path, "re");
    size_t length = file ? fread(text, 1, sizeof text - 1, file) : 0;
    if (file) fclose(file);
    text[length] = 0;
    const char *end = strrchr(text, ')');
    if (!end || end[2] == 'Z' || end[2] == 'X') return 0;
    for (int field = 0; end && field < 20; field++) end = strchr(end + 1, ' ');
    if (end) sscanf(end, "%llu", &started);
    return started;
}

bool table_is_lost(int node) { return shared && node > 0 && atomic_load(&shared->lost[node]); }

void table_register(void) {
    int node = 0, pid = getpid();
    do node = (int)(atomic_fetch_add(&shared->next_node, 1) % NODES_COUNT) + 1;
    while (table_is_lost(node));
    uint64_t started = start_of(pid);
    for (uint32_t i = 0;; i++) {
        table_process *p = &shared->processes[i % MOST_PROCESSES];
        int was = atomic_load(&p->pid);
        bool gone = was && (i >= MOST_PROCESSES || was == pid) && start_of(was) != atomic_load(&p->started);
        if (was && !gone) continue;
        if (!atomic_compare_exchange_strong(&p->pid, &was, pid)) continue;
        atomic_store(&p->started, started);
        atomic_store(&p->node, node);
        break;
    }
    node_here = node;
    if (table_is_lost(node)) _exit(1); /* it was lost meanwhile */
}

int nodes_here(void) { return node_here; }

static void mark_lost(int node) {
    uint32_t used = atomic_load(&shared->used);
    for (uint32_t i = 0; i < used && i < shared->most; i++) {
        table_entry *e = &shared->entries[i];
        if (atomic_load(&e->node) == (unsigned)node) atomic_fetch_or(&e->flags, ENTRY_LOST);
        atomic_fetch_and(&e->copies, ~(1u << node));
    }
}

/* How many of its processes live; all are killed. */
static int kill_all(int node) {
    int count = 0;
    for (int i = 0; i < MOST_PROCESSES && atomic_load(&shared->processes[i].pid); i++) {
        table_process *p = &shared->processes[i];
        int pid = atomic_load(&p->pid);
        uint64_t started = pid > 0 && atomic_load(&p->node) == node ? start_of(pid) : 0;
        if (!started || started != atomic_load(&p->started)) continue;
        kill(pid, SIGKILL);
        count++;
    }
    return count;
}

bool nodes_lose(int node) {
    int left = 0;
    if (!shared || node < 1 || node > NODES_COUNT || table_is_lost(node)) return false;
    for (int n = 1; n <= NODES_COUNT; n++) left += !table_is_lost(n);
    if (left == 1) return false;
    atomic_store(&shared->lost[node], true);
    mark_lost(node); /* before anybody sees the ends of its calls, and after its processes have written their last */
    while (kill_all(node)) nanosleep(&(struct timespec){.tv_nsec = 200000}, NULL);
    mark_lost(node);
    return true;
}

bool nodes_return(int node) {
    if (!shared || node < 1 || node > NODES_COUNT || !table_is_lost(node)) return false;
    atomic_store(&shared->lost[node], false);
    return true;
}
