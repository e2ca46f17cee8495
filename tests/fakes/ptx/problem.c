/* Messages of launches that fail, and the emulator's own memory and random numbers. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fakes/ptx/engine.h"

void *ptx_need(void *memory, size_t count, size_t bytes) {
    size_t all;
    if (__builtin_mul_overflow(count, bytes, &all)) abort();
    memory = realloc(memory, all ? all : 1);
    if (!memory) abort();
    return memory;
}

/* splitmix64 */
uint64_t ptx_draw(engine *e) {
    uint64_t x = e->random += UINT64_C(0x9E3779B97F4A7C15);
    x = (x ^ x >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
    x = (x ^ x >> 27) * UINT64_C(0x94D049BB133111EB);
    return x ^ x >> 31;
}

/* "line 41 of mul+add.cu", or nothing. */
static void write_line(const engine *e, const ptx_instruction *in, char *text, size_t bytes) {
    const char *file = e->launch->module->file;
    text[0] = 0;
    if (in && in->line) snprintf(text, bytes, ", line %u of %s", in->line, file && *file ? file : "its text");
}

static void write_block(const engine *e, char *text, size_t bytes) {
    if (e->launch->grid[1] == 1 && e->launch->grid[2] == 1) {
        snprintf(text, bytes, "block %u", e->block);
    } else {
        snprintf(text, bytes, "block (%u, %u, %u)", e->block_at[0], e->block_at[1], e->block_at[2]);
    }
}

static void write_thread(const engine *e, uint32_t thread, char *text, size_t bytes) {
    const uint32_t *n = e->launch->block;
    if (n[1] == 1 && n[2] == 1) {
        snprintf(text, bytes, ", thread %u", thread);
    } else {
        snprintf(text, bytes, ", thread (%u, %u, %u)", thread % n[0], thread / n[0] % n[1], thread / n[0] / n[1]);
    }
}

bool ptx_fail(engine *e, const warp *w, const ptx_instruction *in, int lane, const char *format, ...) {
    char said[1024], line[300], block[80], thread[80] = "", text[300] = "";
    if (e->problem) return false;
    va_list rest;
    va_start(rest, format);
    vsnprintf(said, sizeof said, format, rest);
    va_end(rest);
    write_line(e, in, line, sizeof line);
    write_block(e, block, sizeof block);
    if (w && lane >= 0) write_thread(e, w->first_thread + (uint32_t)lane, thread, sizeof thread);
    if (in) ptx_text(e->launch->module, in, text, sizeof text);
    size_t bytes = strlen(said) + strlen(line) + strlen(text) + 300;
    e->problem = ptx_need(NULL, bytes, 1);
    snprintf(e->problem, bytes, "%.100s%s: %s%s%s%s; %s%s", e->launch->function->name, line, said, in ? ": `" : "",
             text, in ? "`" : "", block, thread);
    return false;
}

/* --- a block that is stuck ------------------------------------------------------------------------------------------ */

static void add_text(char *text, size_t bytes, const char *format, ...) __attribute__((format(printf, 3, 4)));
static void add_text(char *text, size_t bytes, const char *format, ...) {
    size_t used = strlen(text);
    va_list rest;
    va_start(rest, format);
    if (used + 1 < bytes) vsnprintf(text + used, bytes - used, format, rest);
    va_end(rest);
}

/* "0-31, 40": at most 6 ranges. */
static void add_threads(char *text, size_t bytes, const uint32_t *lanes, uint32_t warps) {
    int ranges = 0;
    uint32_t end = warps * PTX_WARP;
    for (uint32_t t = 0; t < end; t++) {
        if (!(lanes[t / PTX_WARP] >> t % PTX_WARP & 1)) continue;
        uint32_t first = t;
        while (t + 1 < end && (lanes[(t + 1) / PTX_WARP] >> (t + 1) % PTX_WARP & 1)) t++;
        if (++ranges > 6) {
            add_text(text, bytes, ", ...");
            return;
        }
        add_text(text, bytes, "%s%u", ranges > 1 ? ", " : "", first);
        if (t > first) add_text(text, bytes, "-%u", t);
    }
}

/* The lanes that wait at one instruction, in all warps; they are taken out of `left`. */
static const ptx_instruction *take_place(engine *e, uint32_t *left, uint32_t *lanes) {
    const ptx_instruction *at = NULL;
    memset(lanes, 0, ENGINE_WARPS * sizeof *lanes);
    for (uint32_t i = 0; i < e->warp_count; i++) {
        for (const group *g = e->warps[i].groups; g < e->warps[i].groups + e->warps[i].slot_count; g++) {
            if (!(g->mask & left[i])) continue;
            const ptx_instruction *in = e->codes[g->function].steps[g->pc].in;
            if (!at) at = in;
            if (in != at) continue;
            lanes[i] |= g->mask;
            left[i] &= ~g->mask;
        }
    }
    return at;
}

bool ptx_fail_stuck(engine *e) {
    char said[1000] = "";
    uint32_t left[ENGINE_WARPS] = {0}, lanes[ENGINE_WARPS], ended = 0;
    const ptx_instruction *first = NULL, *at;
    for (uint32_t i = 0; i < e->warp_count; i++) left[i] = e->warps[i].live;
    for (int places = 0; places < 5 && (at = take_place(e, left, lanes)); places++) {
        char text[120], line[300];
        ptx_text(e->launch->module, at, text, sizeof text);
        write_line(e, at, line, sizeof line);
        add_text(said, sizeof said, "%sthreads ", places ? "; " : "");
        add_threads(said, sizeof said, lanes, e->warp_count);
        add_text(said, sizeof said, " wait for ever at `%s`%s", text, line);
        if (!first) first = at;
    }
    for (uint32_t i = 0; i < e->warp_count; i++) ended |= lanes[i] = e->warps[i].started & ~e->warps[i].live;
    if (ended) {
        add_text(said, sizeof said, "; threads ");
        add_threads(said, sizeof said, lanes, e->warp_count);
        add_text(said, sizeof said, " have ended");
    }
    return ptx_fail(e, NULL, first, -1, "not all threads reach a barrier: %s", said);
}
