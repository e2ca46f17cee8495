#include "drivers/sim/sim_memory.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/host_memory.h"
#include "base/compare.h"
#include "drivers/sim/sim_flags.h"

/* An address: bits 56..63 the tag (not canonical on x86-64), 48..55 the device's ordinal + 1, 0..47 the offset. */
#define TAG UINT64_C(0xb5)
#define OFFSET_MAX (UINT64_C(1) << 48)
#define GUARD_BYTES UINT64_C(4096) /* never handed out, between two allocations */

void bti_sim_memory_init(bti_sim_memory *memory, int ordinal, size_t limit) {
    *memory = (bti_sim_memory){
        .kind = (bt_kind)(ordinal / BTI_SIM_MAX), .index = ordinal % BTI_SIM_MAX, .ordinal = ordinal, .limit = limit};
    pthread_rwlock_init(&memory->lock, NULL);
}

static void free_host(const bti_sim_block *block) {
    if (block->host) bti_free_claimed(block->host, block->bytes);
}

void bti_sim_memory_free(bti_sim_memory *memory) {
    for (size_t i = 0; i < memory->blocks.count; i++) free_host(&memory->blocks.items[i]);
    bti_vec_free(&memory->blocks);
    pthread_rwlock_destroy(&memory->lock);
}

void bti_sim_memory_sizes(bti_sim_memory *memory, size_t *free_bytes, size_t *total_bytes) {
    pthread_rwlock_rdlock(&memory->lock);
    *free_bytes = memory->limit - memory->used;
    *total_bytes = memory->limit;
    pthread_rwlock_unlock(&memory->lock);
}

/* --- allocations -------------------------------------------------------------------------------------------------- */

/* The number of blocks that begin at or before an offset. Under the lock. */
static size_t blocks_up_to(const bti_sim_memory *memory, uint64_t offset) {
    return bti_items_up_to(memory->blocks.items, memory->blocks.count, sizeof *memory->blocks.items, offset);
}

static uint64_t round_up_to_alignment(uint64_t bytes) {
    return (bytes + BTI_MEMORY_ALIGN - 1) & ~(uint64_t)(BTI_MEMORY_ALIGN - 1);
}

/* Addresses are reused only when all were used once, so that a stale one does not hit a later allocation. */
static bool find_free_range(bti_sim_memory *memory, uint64_t bytes, uint64_t *offset, size_t *at) {
    uint64_t span = round_up_to_alignment(bytes) + GUARD_BYTES;
    if (span < OFFSET_MAX - GUARD_BYTES - memory->next) {
        *offset = memory->next + GUARD_BYTES;
        *at = memory->blocks.count;
        if (*at) *at = blocks_up_to(memory, *offset);
        memory->next += span;
        return true;
    }
    uint64_t end = GUARD_BYTES;
    for (*at = 0; *at <= memory->blocks.count; ++*at) {
        uint64_t begin = *at < memory->blocks.count ? memory->blocks.items[*at].offset : OFFSET_MAX;
        if (begin > end && begin - end > span) return *offset = end, true;
        if (*at < memory->blocks.count)
            end = begin + round_up_to_alignment(memory->blocks.items[*at].bytes) + GUARD_BYTES;
    }
    return false;
}

bt_status bti_sim_memory_alloc(bti_sim_memory *memory, size_t bytes, uint64_t *address) {
    uint64_t offset = 0;
    size_t at = 0;
    bt_status status = BT_OK;
    pthread_rwlock_wrlock(&memory->lock);
    size_t left = memory->limit - memory->used;
    bool room = bytes <= left && bti_vec_reserve(&memory->blocks, 1);
    char *host = room && !memory->without_data ? bti_alloc_claimed(BTI_MEMORY_ALIGN, bytes) : NULL;
    room = room && (host || memory->without_data);
    if (!room || !find_free_range(memory, bytes, &offset, &at)) {
        if (host) bti_free_claimed(host, bytes);
        status = bytes <= left && !room
                     ? bti_fail(BT_RESOURCE_EXHAUSTED, "simulated device: %s", bti_host_memory_shortage(bytes).text)
                     : bti_fail(BT_RESOURCE_EXHAUSTED, "%s:%d: %zu bytes asked for, %zu of %zu are free",
                                bti_kind_name(memory->kind), memory->index, bytes, left, memory->limit);
    } else {
        bti_sim_block *items = memory->blocks.items;
        memmove(items + at + 1, items + at, (memory->blocks.count - at) * sizeof *items);
        items[at] = (bti_sim_block){offset, bytes, host};
        memory->blocks.count++;
        memory->used += bytes;
        *address = TAG << 56 | (uint64_t)(memory->ordinal + 1) << 48 | offset;
    }
    pthread_rwlock_unlock(&memory->lock);
    return status;
}

void bti_sim_memory_release(bti_sim_memory *memory, uint64_t address) {
    uint64_t offset = address & (OFFSET_MAX - 1);
    pthread_rwlock_wrlock(&memory->lock);
    size_t at = blocks_up_to(memory, offset);
    if (at && memory->blocks.items[at - 1].offset == offset) {
        bti_sim_block *p = &memory->blocks.items[at - 1];
        free_host(p);
        memory->used -= p->bytes;
        memmove(p, p + 1, (memory->blocks.count - at) * sizeof *p);
        memory->blocks.count--;
    }
    pthread_rwlock_unlock(&memory->lock);
}

/* An access that a real device would fault on. */
static bt_status fail_stray_access(const bti_sim_memory *memory, const char *what, uint64_t address, uint64_t bytes) {
    char why[160];
    unsigned tag = (unsigned)(address >> 56);
    int owner = (int)(address >> 48 & 0xff) - 1;
    if (tag != TAG || owner < 0)
        snprintf(why, sizeof why, "which is memory of no simulated device");
    else if (owner != memory->ordinal)
        snprintf(why, sizeof why, "which is memory of %s:%d; copy it first",
                 bti_kind_name((bt_kind)(owner / BTI_SIM_MAX)), owner % BTI_SIM_MAX);
    else
        snprintf(why, sizeof why, "which is not within one live allocation");
#ifdef BTI_DEBUG
    fprintf(stderr, "berth: %s on %s:%d touches %" PRIu64 " bytes at %#" PRIx64 ", %s\n", what,
            bti_kind_name(memory->kind), memory->index, bytes, address, why);
    abort();
#endif
    return bti_fail(BT_INTERNAL, "%s on %s:%d touches %" PRIu64 " bytes at %#" PRIx64 ", %s", what,
                    bti_kind_name(memory->kind), memory->index, bytes, address, why);
}

bt_status bti_sim_memory_translate(bti_sim_memory *memory, const char *what, uint64_t address, uint64_t bytes,
                                   char **host) {
    uint64_t offset = address & (OFFSET_MAX - 1);
    bool inside = false;
    if (address >> 48 == (TAG << 8 | (uint64_t)(memory->ordinal + 1))) {
        pthread_rwlock_rdlock(&memory->lock);
        size_t at = blocks_up_to(memory, offset);
        if (at) {
            const bti_sim_block *p = &memory->blocks.items[at - 1];
            uint64_t into = offset - p->offset;
            inside = into <= p->bytes && bytes <= p->bytes - into;
            *host = p->host && inside ? p->host + into : p->host;
        }
        pthread_rwlock_unlock(&memory->lock);
    }
    return inside ? BT_OK : fail_stray_access(memory, what, address, bytes);
}
