#include "fakes/ptx/watch_block.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* One thread's access, as it enters a cell. */
typedef struct access {
    ptx_access kind;
    bool writes, strong; /* strong: ordered by the hardware against others of its kind (atomics, volatile) */
    uint32_t op, thread, when, line, bytes;
    uint32_t ordered; /* accesses of its warp since the last barrier that are ordered before it: lower half of `when` */
    uint64_t address;
    watch_launch *launch;
    char **problem;
} access;

static void *fake_need(void *memory) {
    if (!memory) abort();
    return memory;
}

/* --- messages ------------------------------------------------------------------------------------------------------- */

static __attribute__((format(printf, 2, 3))) bool refuse(const access *a, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    if (vasprintf(a->problem, format, arguments) < 0) abort();
    va_end(arguments);
    return false;
}

static bool is_shared(const access *a) { return a->op != a->launch->op; }

static const char *verb(const access *a) { return a->kind == PTX_ATOMIC ? "changes" : a->writes ? "writes" : "reads"; }

static const char *where_of(const access *a, char *text, size_t bytes) {
    if (is_shared(a))
        snprintf(text, bytes, "shared offset %llu", (unsigned long long)a->address);
    else
        fake_describe_address(a->address, a->bytes, text, bytes);
    return text;
}

static bool refuse_never_written(const access *a) {
    char where[200];
    return refuse(a, "reads memory that was never written: %u bytes at %s", a->bytes, where_of(a, where, sizeof where));
}

/* `did`: what the earlier access did. */
static bool refuse_race(const access *a, const fake_cell *earlier, const char *did, const char *missing) {
    char where[200], others[60] = "";
    if (earlier->what & (FAKE_CELL_MANY_WARP | FAKE_CELL_MANY_BLOCK | FAKE_CELL_MANY_GRID))
        snprintf(others, sizeof others, " and others");
    return refuse(a, "race: %s %u bytes at %s, which line %u (block %u, thread %u%s) %s with %s between", verb(a),
                  a->bytes, where_of(a, where, sizeof where), earlier->what >> 12, earlier->thread >> WATCH_THREAD_BITS,
                  earlier->thread & 1023, others, did, missing);
}

static bool refuse_in_launch(const access *a, const fake_cell *earlier, const char *did) {
    bool one_block = earlier->thread >> WATCH_THREAD_BITS == a->thread >> WATCH_THREAD_BITS;
    return refuse_race(a, earlier, did,
                       one_block && !(earlier->what & FAKE_CELL_MANY_GRID) ? "no barrier"
                                                                           : "nothing that orders blocks");
}

static bool refuse_operation(const access *a, const fake_cell *earlier, uint32_t other, const char *did) {
    char where[200], line[60] = "";
    if (earlier->what >> 12) snprintf(line, sizeof line, ", line %u", earlier->what >> 12);
    return refuse(a,
                  "race: %s %u bytes at %s, which %s%s in stream %u %s; nothing orders it and this launch in stream %u",
                  verb(a), a->bytes, where_of(a, where, sizeof where), fake_order_name(other), line,
                  fake_order_stream_of(other), did, fake_order_stream_of(a->launch->op));
}

/* --- the rules ------------------------------------------------------------------------------------------------------ */

static bool same_warp(const fake_cell *c, const access *a) { return (c->thread ^ a->thread) >> 5 == 0; }
static bool same_block(const fake_cell *c, const access *a) {
    return (c->thread ^ a->thread) >> WATCH_THREAD_BITS == 0;
}

static bool before_warp_sync(const fake_cell *c, const access *a) {
    return same_warp(c, a) && (c->when & WATCH_LAST_SYNC) < a->ordered;
}

/* Whether the access of one thread in this launch is ordered before this one. */
static inline bool ordered_within(const fake_cell *c, const access *a) {
    if (c->thread == a->thread) return true;
    if (same_block(c, a) && ((c->when ^ a->when) >> 16 || before_warp_sync(c, a))) return true;
    return a->launch->sync && watch_sync_ordered(a->launch->sync, c, a->thread);
}

static bool check_write_before(const fake_cell *w, const access *a) {
    uint32_t other;
    if (w->op == a->op) {
        if (w->what & FAKE_CELL_ASYNC)
            return refuse_race(a, w, "writes by cp.async",
                               w->thread == a->thread ? "no wait for it" : "no wait for it and no barrier");
        if (ordered_within(w, a) || (a->strong && w->what & FAKE_CELL_ATOMIC)) return true;
        return refuse_in_launch(a, w, "writes");
    }
    if (is_shared(a) || !w->op || w->op == a->launch->write_before) return true;
    if (!fake_ordered(w->op, &other)) return refuse_operation(a, w, other, "writes");
    a->launch->write_before = w->op;
    return true;
}

/* Whether all the reads that the cell stands for are ordered before this write. */
static bool reads_ordered(const fake_cell *r, const access *a) {
    if (r->what & FAKE_CELL_MANY_GRID) return watch_sync_knows(a->launch->sync, a->thread);
    if (!(r->what & (FAKE_CELL_MANY_WARP | FAKE_CELL_MANY_BLOCK))) return ordered_within(r, a);
    if (same_block(r, a))
        return (r->when ^ a->when) >> 16 || (r->what & FAKE_CELL_MANY_WARP && before_warp_sync(r, a)) ||
               watch_sync_may_know(a->launch->sync, r, a->thread);
    return watch_sync_knows(a->launch->sync, a->thread);
}

static bool check_reads_before(const fake_cell *r, const access *a) {
    uint32_t other;
    if (!r->op) return true;
    if ((r->op == a->op) || (!is_shared(a) && fake_order_last(r->op) == a->op)) {
        if (r->what & FAKE_CELL_NC) return refuse_race(a, r, "reads by ld.global.nc", "a launch");
        if (!(a->strong && r->what & FAKE_CELL_ATOMIC) && !reads_ordered(r, a)) return refuse_in_launch(a, r, "reads");
        if (r->op == a->op) return true;
    }
    if (is_shared(a) || r->op == a->launch->read_before) return true;
    if (!fake_ordered(r->op, &other)) return refuse_operation(a, r, other, "reads");
    if (fake_order_last(r->op) != a->op) a->launch->read_before = r->op;
    return true;
}

static uint32_t flags_of(const access *a) {
    return a->line << 12 | (a->strong ? FAKE_CELL_ATOMIC : 0) | (a->kind == PTX_READ_NC ? FAKE_CELL_NC : 0) |
           (a->kind == PTX_ASYNC_WRITE ? FAKE_CELL_ASYNC : 0);
}

/* Which reads a cell stands for after one more in the same launch: those that are ordered before the new one need not be kept. */
static void add_read(fake_cell *r, const access *a) {
    uint32_t kept = r->what & (FAKE_CELL_NC | FAKE_CELL_MANY_GRID), many = 0;
    uint32_t strong = r->what & FAKE_CELL_ATOMIC;
    if (!same_block(r, a)) {
        many = FAKE_CELL_MANY_GRID;
    } else if (r->when >> 16 == a->when >> 16) {
        many = r->what & (FAKE_CELL_MANY_WARP | FAKE_CELL_MANY_BLOCK);
        if (!same_warp(r, a))
            many = FAKE_CELL_MANY_BLOCK;
        else if (many != FAKE_CELL_MANY_BLOCK && before_warp_sync(r, a))
            many = 0;
        else if (!many && r->thread != a->thread)
            many = FAKE_CELL_MANY_WARP;
    }
    uint32_t what = flags_of(a);
    if (many && !strong) what &= ~(uint32_t)FAKE_CELL_ATOMIC;
    *r = (fake_cell){a->op, a->thread, a->when, what | kept | many};
}

static bool read_granule(fake_granule *g, const access *a) {
    const fake_cell *w = &g->write;
    if (is_shared(a) ? w->op != a->op : !w->op && fake_memory_tracked()) return refuse_never_written(a);
    if (w->op != a->launch->write_before || w->what & FAKE_CELL_UNWRITTEN) {
        if (!check_write_before(w, a)) return false;
        if (w->what & FAKE_CELL_UNWRITTEN && fake_memory_tracked()) return refuse_never_written(a);
        if (a->kind == PTX_READ_NC && w->op == a->op)
            return refuse_race(a, w, "writes", "a launch (ld.global.nc reads what the launch does not write)");
    }
    fake_cell *r = &g->read;
    if (r->op == a->op) {
        if (r->thread != a->thread || r->when != a->when) add_read(r, a);
    } else if (is_shared(a) || !r->op || r->op == a->launch->read_before) {
        *r = (fake_cell){a->op, a->thread, a->when, flags_of(a)};
    } else if (fake_order_last(r->op) == a->op) {
        uint32_t set = r->op;
        add_read(r, a);
        r->op = set;
    } else {
        *r = (fake_cell){fake_order_add_reader(r->op), a->thread, a->when, flags_of(a)};
    }
    return true;
}

static bool write_granule(fake_granule *g, const access *a) {
    if (!check_write_before(&g->write, a) || !check_reads_before(&g->read, a)) return false;
    g->write = (fake_cell){a->op, a->thread, a->when, flags_of(a)};
    g->read.op = 0;
    return true;
}

/* An atomic reads and writes. */
static bool touch_granule(fake_granule *g, const access *a) {
    if (a->kind == PTX_ATOMIC && (is_shared(a) ? g->write.op != a->op : !g->write.op && fake_memory_tracked()))
        return refuse_never_written(a);
    return a->writes ? write_granule(g, a) : read_granule(g, a);
}

/* All granules of an access, which lies within a page since it is aligned. */
static bool touch_bytes(fake_page *page, uint32_t offset, const access *a) {
    if (!page->granules || page->shift > 2 || a->bytes < 1u << page->shift)
        (void)fake_page_granule(page, offset, a->bytes < 4 ? a->bytes : 4);
    uint32_t end = (offset + a->bytes - 1) >> page->shift;
    for (uint32_t i = offset >> page->shift; i <= end; i++)
        if (!touch_granule(&page->granules[i], a)) return false;
    return true;
}

/* --- launches and blocks -------------------------------------------------------------------------------------------- */

static bool is_switched_off(void) {
    const char *watch = getenv("BERTH_FAKE_WATCH");
    return watch && !strcmp(watch, "off");
}

watch_launch *watch_launch_begin(const ptx_launch *launch) {
    watch_launch *made = fake_need(calloc(1, sizeof *made));
    made->op = fake_order_now();
    made->unwatched = launch->sample || is_switched_off();
    if (made->unwatched) fake_memory_lost_track();
    made->generations = made->op + 1;
    if (made->op) return made;
    made->op = fake_order_add(fake_order_stream(), &made->own_clock,
                              launch->function ? launch->function->name : "a launch", 0);
    made->generations = made->op + 1;
    fake_order_begin(made->op, &made->own_clock);
    return made;
}

static void free_blocks(watch_block *first) {
    for (watch_block *next; first; first = next) {
        next = first->next;
        for (uint32_t i = 0; i < first->shared_pages; i++) fake_page_free(&first->shared[i]);
        free(first->shared);
        free(first->async);
        free(first);
    }
}

void watch_launch_end(watch_launch *watched) {
    if (watched->own_clock.count) {
        fake_clock_join(fake_order_host(), &watched->own_clock);
        fake_order_end();
        fake_clock_free(&watched->own_clock);
    }
    free_blocks(watched->blocks);
    free_blocks(watched->spare);
    watch_sync_free(watched->sync);
    free(watched);
}

watch_block *watch_block_of(watch_launch *watched, uint32_t number) {
    if (watched->current && watched->current->number == number) return watched->current;
    for (watch_block *b = watched->blocks; b; b = b->next)
        if (b->number == number) return watched->current = b;
    abort();
}

void watch_block_begin(watch_launch *watched, uint32_t block, uint32_t threads, uint32_t shared_bytes) {
    if (watched->unwatched) return;
    watch_block *b = watched->spare;
    if (b)
        watched->spare = b->next;
    else
        b = fake_need(calloc(1, sizeof *b));
    uint32_t pages = (shared_bytes + FAKE_PAGE - 1) / FAKE_PAGE;
    if (pages > b->shared_pages) {
        b->shared = fake_need(realloc(b->shared, pages * sizeof *b->shared));
        memset(b->shared + b->shared_pages, 0, (pages - b->shared_pages) * sizeof *b->shared);
        b->shared_pages = pages;
    }
    b->number = block, b->threads = threads;
    b->barriers = b->async_count = 0;
    b->generation = ++watched->generations;
    memset(b->warp_syncs, 0, sizeof b->warp_syncs);
    memset(b->whole_syncs, 0, sizeof b->whole_syncs);
    memset(b->groups, 0, sizeof b->groups);
    b->next = watched->blocks;
    watched->blocks = watched->current = b;
}

void watch_block_end(watch_launch *watched, uint32_t block) {
    if (watched->unwatched) return;
    watch_block *b = watch_block_of(watched, block);
    for (watch_block **at = &watched->blocks; *at; at = &(*at)->next)
        if (*at == b) {
            *at = b->next;
            break;
        }
    b->next = watched->spare;
    watched->spare = b;
    watched->current = NULL;
}

/* --- requests ------------------------------------------------------------------------------------------------------- */

static access begin_access(watch_launch *watched, const watch_request *request, char **problem) {
    const ptx_instruction *i = request->instruction;
    bool strong = request->access == PTX_ATOMIC || (i && i->order != PTX_WEAK);
    return (access){.kind = request->access,
                    .writes = request->access != PTX_READ && request->access != PTX_READ_NC,
                    .strong = strong,
                    .line = i ? i->line : 0,
                    .bytes = request->bytes,
                    .launch = watched,
                    .problem = problem};
}

static bool find_host(watch_launch *watched, access *a, unsigned char **host) {
    fake_allocation *m = watched->last;
    uint64_t address = a->address;
    char where[200];
    if (!m || address - m->address > m->bytes || a->bytes > m->bytes - (address - m->address)) {
        m = fake_allocation_at(address);
        if (!m || !m->host || address - m->address > m->bytes || a->bytes > m->bytes - (address - m->address))
            return refuse(a, "%s %u bytes" WATCH_OUTSIDE "%s", verb(a), a->bytes, where_of(a, where, sizeof where));
        watched->last = m;
        fake_allocation_use(m);
    }
    *host = (unsigned char *)m->host + (address - m->address);
    return true;
}

bool watch_global(watch_launch *watched, const watch_request *request, unsigned char **host, int *lane,
                  char **problem) {
    access a = begin_access(watched, request, problem);
    watch_block *b = watched->unwatched ? NULL : watch_block_of(watched, request->block);
    a.op = watched->op;
    if (b) a.when = watch_when(b, request->first_thread);
    if (b) a.ordered = b->whole_syncs[request->first_thread / PTX_WARP % WATCH_WARPS];
    for (uint32_t left = request->mask; left; left &= left - 1) {
        int l = __builtin_ctz(left);
        *lane = l;
        a.address = request->address[l];
        if (!find_host(watched, &a, &host[l])) return false;
        if (!b) continue;
        uint64_t offset = a.address - watched->last->address;
        a.thread = request->block << WATCH_THREAD_BITS | (request->first_thread + (uint32_t)l);
        if (!touch_bytes(&watched->last->pages[offset / FAKE_PAGE], (uint32_t)(offset % FAKE_PAGE), &a)) return false;
    }
    return true;
}

static void add_async(watch_block *b, const access *a) {
    uint32_t thread = a->thread & 1023;
    if (b->async_count == b->async_room) {
        b->async_room = b->async_room ? b->async_room * 2 : 256;
        b->async = fake_need(realloc(b->async, b->async_room * sizeof *b->async));
    }
    b->async[b->async_count++] = (async_write){thread, b->groups[thread], (uint32_t)a->address, a->bytes};
}

bool watch_shared(watch_launch *watched, const watch_request *request, int *lane, char **problem) {
    if (watched->unwatched) return true;
    access a = begin_access(watched, request, problem);
    watch_block *b = watch_block_of(watched, request->block);
    a.op = b->generation;
    a.when = watch_when(b, request->first_thread);
    a.ordered = b->whole_syncs[request->first_thread / PTX_WARP % WATCH_WARPS];
    for (uint32_t left = request->mask; left; left &= left - 1) {
        int l = __builtin_ctz(left);
        *lane = l;
        a.address = request->address[l];
        a.thread = request->block << WATCH_THREAD_BITS | (request->first_thread + (uint32_t)l);
        if (!touch_bytes(&b->shared[a.address / FAKE_PAGE], (uint32_t)(a.address % FAKE_PAGE), &a)) return false;
        if (a.kind == PTX_ASYNC_WRITE) add_async(b, &a);
    }
    return true;
}
