/* What requests cost: 32-byte sectors of global memory, passes over the banks of shared memory. */
#include <stdlib.h>
#include <string.h>

#include "fakes/ptx/engine.h"

#define BANKS 32
#define PAGE_SECTORS 4096

/* --- sectors -------------------------------------------------------------------------------------------------------- */

static sector_page *page_slot(engine *e, uint64_t number) {
    size_t slot = (size_t)(number * UINT64_C(0x9E3779B97F4A7C15) >> 32) & (e->page_capacity - 1);
    while (e->pages[slot].number && e->pages[slot].number != number + 1) slot = (slot + 1) & (e->page_capacity - 1);
    return &e->pages[slot];
}

static void grow_pages(engine *e) {
    sector_page *old = e->pages;
    size_t capacity = e->page_capacity;
    e->page_capacity = capacity ? capacity * 2 : 64;
    e->pages = ptx_need(NULL, e->page_capacity, sizeof *e->pages);
    memset(e->pages, 0, e->page_capacity * sizeof *e->pages);
    for (size_t i = 0; i < capacity; i++)
        if (old[i].number) *page_slot(e, old[i].number - 1) = old[i];
    free(old);
    e->last_page = NULL;
}

static void touch_sector(engine *e, uint64_t sector) {
    uint64_t number = sector / PAGE_SECTORS, bit = UINT64_C(1) << sector % 64;
    sector_page *page = e->last_page;
    if (!page || page->number != number + 1) {
        if (e->page_count * 2 >= e->page_capacity) grow_pages(e);
        page = page_slot(e, number);
        if (!page->number) {
            page->number = number + 1;
            e->page_count++;
        }
        e->last_page = page;
    }
    uint64_t *word = &page->sectors[sector % PAGE_SECTORS / 64];
    if (*word & bit) return;
    *word |= bit;
    e->counts.sectors_distinct++;
}

static void sort_addresses(uint64_t *address, int count) {
    for (int i = 1; i < count; i++) {
        uint64_t moved = address[i];
        int at = i;
        for (; at && address[at - 1] > moved; at--) address[at] = address[at - 1];
        address[at] = moved;
    }
}

/* Whether all lanes access one after another: what most requests do. */
static bool follow_each_other(const uint64_t *address, uint32_t mask, uint32_t bytes) {
    uint64_t differ = 0;
    if (mask != UINT32_MAX) return false;
    for (uint32_t lane = 0; lane < PTX_WARP; lane++) differ |= address[lane] ^ (address[0] + lane * (uint64_t)bytes);
    return !differ;
}

static void count_sectors(engine *e, uint64_t first, uint64_t last) {
    e->counts.sectors += last - first + 1;
    for (uint64_t sector = first; sector <= last; sector++) touch_sector(e, sector);
}

/* Each lane's bytes are aligned to their number, so that two lanes share all of them or none. */
void ptx_count_global(engine *e, const uint64_t *address, uint32_t mask, uint32_t bytes) {
    uint64_t sorted[PTX_WARP], sector = UINT64_MAX, distinct = 0;
    int count = 0;
    bool in_order = true;
    e->counts.global_requests++;
    if (follow_each_other(address, mask, bytes)) {
        count_sectors(e, address[0] / 32, (address[PTX_WARP - 1] + bytes - 1) / 32);
        e->counts.sectors_needed += bytes;
        return;
    }
    EACH_LANE(lane, mask) {
        sorted[count] = address[lane];
        in_order &= !count || sorted[count - 1] <= sorted[count];
        count++;
    }
    if (!in_order) sort_addresses(sorted, count);
    for (int i = 0; i < count; i++) {
        if (!i || sorted[i] != sorted[i - 1]) distinct++;
        if (sorted[i] / 32 == sector) continue;
        sector = sorted[i] / 32;
        count_sectors(e, sector, sector);
    }
    e->counts.sectors_needed += (distinct * bytes + 31) / 32;
}

/* --- banks ---------------------------------------------------------------------------------------------------------- */

/* The most distinct words of one bank: the passes that these lanes take. */
static int passes(const uint64_t *address, uint32_t mask, uint32_t bytes) {
    uint64_t words[BANKS][PTX_WARP];
    uint8_t used[BANKS] = {0};
    int most = 0;
    EACH_LANE(lane, mask) {
        for (uint64_t word = address[lane] / 4; word <= (address[lane] + bytes - 1) / 4; word++) {
            uint32_t bank = word % BANKS;
            int i = 0;
            while (i < used[bank] && words[bank][i] != word) i++;
            if (i < used[bank]) continue;
            words[bank][used[bank]++] = word;
            if (used[bank] > most) most = used[bank];
        }
    }
    return most;
}

/* Full, half and quarter warps go one after another for up to 4, 8 and 16 bytes of a lane (CUDA C++ Programming Guide, "Shared Memory"). */
void ptx_count_shared(engine *e, const uint64_t *address, uint32_t mask, uint32_t bytes) {
    uint32_t lanes = bytes > 8 ? 8 : bytes > 4 ? 16 : 32;
    e->counts.shared_requests++;
    if (follow_each_other(address, mask, bytes)) return;
    for (uint32_t first = 0; first < PTX_WARP; first += lanes) {
        uint32_t part = mask & (uint32_t)(((UINT64_C(1) << lanes) - 1) << first);
        if (!part) continue;
        e->counts.bank_conflicts += (uint64_t)passes(address, part, bytes) - 1;
    }
}

/* --- waits ---------------------------------------------------------------------------------------------------------- */

/* Between branches a warp waits once: the assembler starts the loads there before it uses the first. */

static void wait_for(engine *e, warp *w, uint32_t load) {
    if (load <= w->arrived) return;
    w->arrived = w->loads; /* those that were started since arrive right after it */
    e->counts.load_waits += !w->waited;
    w->waited = true;
}

static void note_load(warp *w, const group *g, const ptx_instruction *in) {
    w->loads++;
    for (int k = 0; k < in->to_count; k++) {
        if (in->to[k].kind != PTX_REGISTER) continue;
        size_t at = (size_t)g->registers + in->to[k].number, capacity = w->load_capacity;
        if (at >= capacity) {
            w->load_capacity = at * 2 + 64;
            w->load_of = ptx_need(w->load_of, w->load_capacity, sizeof *w->load_of);
            memset(w->load_of + capacity, 0, (w->load_capacity - capacity) * sizeof *w->load_of);
        }
        w->load_of[at] = w->loads;
    }
}

void ptx_count_waits(engine *e, warp *w, const group *g, const ptx_instruction *in) {
    if (in->opcode == PTX_BRA || in->opcode == PTX_BAR_SYNC) w->waited = false;
    bool loads = in->opcode == PTX_LD || in->opcode == PTX_LDU || in->opcode == PTX_ATOM || in->opcode == PTX_CP_ASYNC;
    for (int k = 0; w->loads != w->arrived && k < in->from_count; k++) {
        size_t at = (size_t)g->registers + in->from[k].number;
        if (in->from[k].kind == PTX_REGISTER && at < w->load_capacity) wait_for(e, w, w->load_of[at]);
    }
    if (in->opcode == PTX_CP_ASYNC_WAIT) wait_for(e, w, w->loads);
    if (loads && (in->space == PTX_GLOBAL || in->opcode == PTX_CP_ASYNC)) note_load(w, g, in);
}
