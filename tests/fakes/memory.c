#include "fakes/memory.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fakes/findings.h"
#include "fakes/order.h"

#define TAG UINT64_C(0xcd)
#define FIRST_ADDRESS (TAG << 56 | 4096)
#define POISON 0xff                        /* floats: NaN */
#define MOST_POISONED ((uint64_t)16 << 20) /* the rest of large allocations is left as the system gives it */

static fake_allocation **allocations; /* by address; freed ones stay */
static size_t allocation_count, allocation_room;
static uint64_t next_address = FIRST_ADDRESS;
static bool lost_track;

void fake_memory_lost_track(void) { lost_track = true; }
bool fake_memory_tracked(void) { return !lost_track; }

/* --- allocations ---------------------------------------------------------------------------------------------------- */

static size_t page_count(uint64_t bytes) { return (size_t)((bytes + FAKE_PAGE - 1) / FAKE_PAGE); }

static void free_pages(fake_allocation *a) {
    for (size_t i = 0; a->pages && i < page_count(a->bytes); i++) fake_page_free(&a->pages[i]);
    free(a->pages);
    a->pages = NULL;
}

static fake_allocation *add_allocation(int device, uint64_t bytes) {
    if (allocation_count == allocation_room) {
        allocation_room = allocation_room ? allocation_room * 2 : 64;
        allocations = realloc(allocations, allocation_room * sizeof *allocations);
        if (!allocations) abort();
    }
    fake_allocation *a = calloc(1, sizeof *a);
    if (!a) abort();
    *a = (fake_allocation){.address = next_address, .bytes = bytes, .device = device};
    a->host = calloc(1, bytes ? bytes : 1);
    a->pages = calloc(page_count(bytes) + 1, sizeof *a->pages);
    if (!a->host || !a->pages) abort();
    memset(a->host, POISON, bytes < MOST_POISONED ? bytes : MOST_POISONED);
    next_address += (bytes + 4096 + 511) & ~UINT64_C(511);
    return allocations[allocation_count++] = a;
}

int fake_alloc(int device, uint64_t bytes, uint64_t *address) {
    int code = 2;
    fake_lock();
    fake_device *d = &fake()->devices[device];
    if (bytes <= d->memory - d->used) {
        *address = add_allocation(device, bytes)->address;
        d->used += bytes;
        fake_live(1);
        code = 0;
    }
    fake_unlock();
    return code;
}

uint64_t fake_alloc_variable(int device, uint64_t bytes) {
    fake_allocation *a = add_allocation(device, bytes);
    a->variable = true;
    return a->address;
}

static void end_allocation(fake_allocation *a) {
    free(a->host);
    free(a->last_ops);
    a->host = NULL;
    a->last_ops = NULL;
    a->stream_count = 0;
    free_pages(a);
    if (a->variable) return;
    fake()->devices[a->device].used -= a->bytes;
    fake_live(-1);
}

bool fake_free(uint64_t address) {
    fake_lock();
    fake_allocation *a = fake_allocation_at(address);
    bool found = a && a->host && a->address == address;
    if (found) end_allocation(a);
    fake_unlock();
    return found;
}

void fake_free_all(int device) {
    fake_lock();
    for (size_t i = 0; i < allocation_count; i++)
        if (allocations[i]->host && allocations[i]->device == device) end_allocation(allocations[i]);
    fake_unlock();
}

void fake_memory_reset(void) {
    for (size_t i = 0; i < allocation_count; i++) {
        free(allocations[i]->host);
        free(allocations[i]->last_ops);
        free_pages(allocations[i]);
        free(allocations[i]);
    }
    free(allocations);
    allocations = NULL;
    allocation_count = allocation_room = 0;
    next_address = FIRST_ADDRESS;
    lost_track = false;
}

fake_allocation *fake_allocation_at(uint64_t address) {
    size_t low = 0, high = allocation_count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (allocations[middle]->address <= address)
            low = middle + 1;
        else
            high = middle;
    }
    return low ? allocations[low - 1] : NULL;
}

void fake_allocation_use(fake_allocation *a) {
    uint32_t now = fake_order_now(), stream = fake_order_stream_of(now);
    if (!now) return;
    if (stream >= a->stream_count) {
        a->last_ops = realloc(a->last_ops, (stream + 1) * sizeof *a->last_ops);
        if (!a->last_ops) abort();
        memset(a->last_ops + a->stream_count, 0, (stream + 1 - a->stream_count) * sizeof *a->last_ops);
        a->stream_count = stream + 1;
    }
    a->last_ops[stream] = now;
}

const char *fake_allocation_user(uint64_t address) {
    const fake_allocation *a = fake_allocation_at(address);
    for (uint32_t s = 0; a && s < a->stream_count; s++)
        if (a->last_ops[s] && !fake_order_host_knows(a->last_ops[s])) return fake_order_name(a->last_ops[s]);
    return NULL;
}

static bool holds(const fake_allocation *a, uint64_t address, uint64_t bytes) {
    return a && address - a->address <= a->bytes && bytes <= a->bytes - (address - a->address);
}

void fake_describe_address(uint64_t address, uint64_t bytes, char *text, size_t text_bytes) {
    const fake_allocation *a = fake_allocation_at(address);
    const char *state = a && a->host ? "" : "freed ";
    unsigned long long at = address;
    if (!a)
        snprintf(text, text_bytes, "0x%llx, below all allocations", at);
    else if (holds(a, address, bytes))
        snprintf(text, text_bytes, "0x%llx, %llu bytes into the %sallocation of %llu bytes at 0x%llx", at,
                 (unsigned long long)(address - a->address), state, (unsigned long long)a->bytes,
                 (unsigned long long)a->address);
    else
        snprintf(text, text_bytes, "0x%llx, %lld bytes after the end of the %sallocation of %llu bytes at 0x%llx", at,
                 (long long)(address - a->address - a->bytes), state, (unsigned long long)a->bytes,
                 (unsigned long long)a->address);
}

bool fake_memory_exists(uint64_t address, uint64_t bytes) {
    fake_lock();
    const fake_allocation *a = fake_allocation_at(address);
    bool found = holds(a, address, bytes) && a->host;
    fake_unlock();
    return found;
}

/* --- pages of shadow memory ----------------------------------------------------------------------------------------- */

void fake_page_free(fake_page *page) {
    free(page->granules);
    *page = (fake_page){0};
}

void fake_page_split(fake_page *page, int shift) {
    size_t count = (size_t)FAKE_PAGE >> shift;
    fake_granule *finer = calloc(count, sizeof *finer);
    if (!finer) abort();
    for (size_t i = 0; page->granules && i < count; i++) finer[i] = page->granules[i >> (page->shift - shift)];
    free(page->granules);
    *page = (fake_page){shift, finer};
}

/* Kernels access most pages by 4 bytes or more; splitting to 4 at once saves splits in steps. */
fake_granule *fake_page_granule(fake_page *page, uint32_t offset, uint32_t bytes) {
    int shift = __builtin_ctz(bytes);
    if (!page->granules || page->shift > shift) fake_page_split(page, shift > 2 && shift < FAKE_WHOLE_PAGE ? 2 : shift);
    return &page->granules[offset >> page->shift];
}

/* --- accesses of operations ----------------------------------------------------------------------------------------- */

typedef enum range_access { RANGE_READ, RANGE_READ_FOR_COPY, RANGE_WRITE, RANGE_SET } range_access;

static void find_race(const fake_cell *earlier, uint32_t other, const char *did, uint64_t address, bool write) {
    char where[200], place[120] = "";
    uint32_t now = fake_order_now();
    fake_describe_address(address, 1, where, sizeof where);
    if (earlier->what >> 12)
        snprintf(place, sizeof place, ", line %u (block %u, thread %u)", earlier->what >> 12, earlier->thread >> 10,
                 earlier->thread & 1023);
    fake_find(fake_order_device(now), FAKE_LAUNCH_FAILED,
              "race: %s in stream %u %s 0x%s, which %s%s in stream %u %s, and nothing orders them",
              fake_order_name(now), fake_order_stream_of(now), write ? "writes" : "reads", where + 2,
              fake_order_name(other), place, fake_order_stream_of(other), did);
}

/* One granule of an operation's range; false after a finding. */
static bool touch(fake_granule *g, range_access access, uint64_t address) {
    uint32_t now = fake_order_now(), other;
    if (access == RANGE_SET) {
        *g = (fake_granule){.write = {.op = now ? now : FAKE_LOADER}};
        return true;
    }
    if (g->write.op && !fake_ordered(g->write.op, &other))
        return find_race(&g->write, other, "writes", address, access == RANGE_WRITE), false;
    if (access == RANGE_WRITE) {
        if (g->read.op && !fake_ordered(g->read.op, &other))
            return find_race(&g->read, other, "reads", address, true), false;
        *g = (fake_granule){.write = {.op = now}};
        return true;
    }
    if (access == RANGE_READ && !lost_track && (!g->write.op || g->write.what & FAKE_CELL_UNWRITTEN)) {
        char where[200];
        fake_describe_address(address, 1, where, sizeof where);
        fake_find(fake_order_device(now), FAKE_LAUNCH_FAILED, "%s in stream %u reads memory that was never written: %s",
                  fake_order_name(now), fake_order_stream_of(now), where);
        return false;
    }
    g->read = (fake_cell){.op = g->read.op ? fake_order_add_reader(g->read.op) : now};
    return true;
}

/* The largest power of two that divides what is left of a page's range and where it begins. */
static uint32_t step_of(uint32_t offset, uint32_t bytes) {
    uint32_t step = offset ? offset & -offset : FAKE_PAGE;
    while (step > bytes) step /= 2;
    return step;
}

static bool touch_page(fake_page *page, uint32_t offset, uint32_t bytes, range_access access, uint64_t address) {
    uint32_t end = offset + bytes;
    if (access == RANGE_SET && bytes == FAKE_PAGE) fake_page_free(page);
    while (offset < end) {
        fake_granule *g = fake_page_granule(page, offset, step_of(offset, end - offset));
        if (!touch(g, access, address)) return false;
        uint32_t step = 1u << page->shift;
        offset += step, address += step;
    }
    if (access == RANGE_WRITE && bytes == FAKE_PAGE && page->shift < FAKE_WHOLE_PAGE) {
        fake_granule whole = page->granules[0];
        fake_page_free(page);
        *fake_page_granule(page, 0, FAKE_PAGE) = whole;
    }
    return true;
}

static void *touch_range(uint64_t address, uint64_t bytes, range_access access) {
    char *host = NULL;
    fake_lock();
    fake_allocation *a = fake_allocation_at(address);
    if (holds(a, address, bytes) && a->host) {
        uint64_t offset = address - a->address;
        host = a->host + offset;
        fake_allocation_use(a);
        while (bytes && host) {
            uint32_t at = (uint32_t)(offset % FAKE_PAGE);
            uint32_t part = bytes < FAKE_PAGE - at ? (uint32_t)bytes : FAKE_PAGE - at;
            if (!touch_page(&a->pages[offset / FAKE_PAGE], at, part, access, a->address + offset)) host = NULL;
            offset += part, bytes -= part;
        }
    } else if (fake_order_now()) {
        char where[200];
        fake_describe_address(address, bytes, where, sizeof where);
        fake_find(fake_order_device(fake_order_now()), FAKE_ILLEGAL_ADDRESS, "%s in stream %u %s %llu bytes at %s",
                  fake_order_name(fake_order_now()), fake_order_stream_of(fake_order_now()),
                  access >= RANGE_WRITE ? "writes" : "reads", (unsigned long long)bytes, where);
    }
    fake_unlock();
    return host;
}

void *fake_memory(uint64_t address, uint64_t bytes) {
    return fake_memory_exists(address, bytes) ? touch_range(address, bytes, RANGE_SET) : NULL;
}
void *fake_read_memory(uint64_t address, uint64_t bytes) { return touch_range(address, bytes, RANGE_READ); }
void *fake_read_for_copy(uint64_t address, uint64_t bytes) { return touch_range(address, bytes, RANGE_READ_FOR_COPY); }
void *fake_write_memory(uint64_t address, uint64_t bytes) { return touch_range(address, bytes, RANGE_WRITE); }

/* --- bytes never written that are copied ---------------------------------------------------------------------------- */

bool fake_is_unwritten(uint64_t address, uint64_t *run) {
    const fake_allocation *a = fake_allocation_at(address);
    uint64_t offset = address - a->address;
    const fake_page *page = &a->pages[offset / FAKE_PAGE];
    uint64_t step = page->granules ? UINT64_C(1) << page->shift : FAKE_PAGE;
    *run = step - offset % step;
    if (!page->granules) return true;
    const fake_cell *write = &page->granules[offset % FAKE_PAGE >> page->shift].write;
    return !write->op || write->what & FAKE_CELL_UNWRITTEN;
}

void fake_mark_unwritten(uint64_t address, uint64_t bytes) {
    const fake_allocation *a = fake_allocation_at(address);
    for (uint64_t offset = address - a->address; bytes; offset++, bytes--)
        fake_page_granule(&a->pages[offset / FAKE_PAGE], (uint32_t)(offset % FAKE_PAGE), 1)->write.what |=
            FAKE_CELL_UNWRITTEN;
}

void fake_copy_unwritten(uint64_t to, uint64_t from, uint64_t bytes) {
    for (uint64_t at = 0, run; at < bytes; at += run) {
        bool unwritten = fake_is_unwritten(from + at, &run);
        if (run > bytes - at) run = bytes - at;
        if (unwritten) fake_mark_unwritten(to + at, run);
    }
}
