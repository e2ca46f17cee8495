/* The devices that are known, by number; and what every file of this folder asks about the process. */
#include "device/table.h"

#include <string.h>
#include <unistd.h>

#include "base/lock.h"
#include "base/alloc.h"

static bt_device table[BTI_MAX_DEVICES];
static atomic_int total;      /* entries of the table in use */
static atomic_bool forked;    /* this is the child of a process with open devices */
static atomic_int open_count; /* devices */
static atomic_long opened_by; /* process */
static pthread_once_t fork_once = PTHREAD_ONCE_INIT;
typedef struct copies {
    _Alignas(BTI_LINE) _Atomic uint64_t bytes[BTI_MAX_DEVICES + 1][BTI_MAX_DEVICES + 1]; /* [from + 1][to + 1] */
} copies;
static copies copied[BTI_SHARDS];

/* --- entries -------------------------------------------------------------------------------------------------------- */

int bti_registry_total(void) { return atomic_load_explicit(&total, memory_order_acquire); }
bt_device *bti_registry_at(int id) { return id >= 0 && id < bti_registry_total() ? &table[id] : NULL; }

bt_device *bti_registry_find(bt_kind kind, int index) {
    for (int id = 0, n = bti_registry_total(); id < n; id++)
        if (table[id].kind == kind && table[id].index == index && !table[id].twin && !atomic_load(&table[id].retired))
            return &table[id];
    return NULL;
}

bt_device *bti_registry_new(void) {
    int id = bti_registry_total();
    if (id == BTI_MAX_DEVICES) return NULL;
    memset(&table[id], 0, sizeof table[id]);
    table[id].id = id;
    bti_lock_init(&table[id].lock, BTI_LOCK_device);
    return &table[id];
}

void bti_registry_publish(bt_device *device) { atomic_store_explicit(&total, device->id + 1, memory_order_release); }

void bti_registry_clear(void) {
    for (int id = bti_registry_total() - 1; id >= 0; id--) {
        bti_lock_destroy(&table[id].lock);
        bti_free(table[id].details);
    }
    atomic_store(&total, 0);
}

/* --- forks ---------------------------------------------------------------------------------------------------------- */

static void note_fork(void) {
    if (atomic_load(&open_count)) atomic_store(&forked, true);
}
static void watch_forks(void) { pthread_atfork(NULL, NULL, note_fork); }

bool bti_device_forked(void) { return atomic_load_explicit(&forked, memory_order_relaxed); }

bt_status bti_device_check_fork(void) {
    if (!bti_device_forked()) return BT_OK;
    return bti_fail(BT_UNAVAILABLE,
                    "this process was forked after a device was opened (by process %ld) and cannot use devices: fork "
                    "before the first use, or start a program anew",
                    atomic_load(&opened_by));
}

void bti_device_note_opened(int change) {
    pthread_once(&fork_once, watch_forks);
    if (change > 0) atomic_store(&opened_by, getpid());
    atomic_fetch_add(&open_count, change);
}

/* --- bytes copied --------------------------------------------------------------------------------------------------- */

void bti_device_count_copy(int from, int to, size_t bytes) {
    if (from < -1 || to < -1 || from >= BTI_MAX_DEVICES || to >= BTI_MAX_DEVICES) return;
    atomic_fetch_add_explicit(&copied[bti_shard()].bytes[from + 1][to + 1], bytes, memory_order_relaxed);
}

uint64_t bti_device_copied(int from, int to) {
    if (from < -1 || to < -1 || from >= BTI_MAX_DEVICES || to >= BTI_MAX_DEVICES) return 0;
    uint64_t bytes = 0;
    for (int i = 0; i < BTI_SHARDS; i++)
        bytes += atomic_load_explicit(&copied[i].bytes[from + 1][to + 1], memory_order_relaxed);
    return bytes;
}

void bti_device_forget_copied(int id) {
    for (int i = 0; i < BTI_SHARDS; i++)
        for (int other = 0; other <= BTI_MAX_DEVICES; other++) {
            atomic_store(&copied[i].bytes[id + 1][other], 0);
            atomic_store(&copied[i].bytes[other][id + 1], 0);
        }
}
