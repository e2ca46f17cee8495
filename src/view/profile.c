/* Times of functions (bt_time, bt_timeit), and profiles: tables of what a recording contains (bt_profile_start). */
#include "base/str.h"
#include "base/trace.h"

#include <berth/view.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "array/handle.h"
#include "base/clock.h"
#include "device/device.h"
#include "exec/host.h"
#include "view/energy.h"
#include "view/trace.h"

#define ROWS_SHOWN 24

static double as_seconds(uint64_t ns) { return 1e-9 * (double)ns; }

/* --- times ---------------------------------------------------------------------------------------------------------- */

/* "186 ms": three digits and a unit. */
static void add_seconds(bti_str *text, double seconds) {
    static const struct {
        double scale;
        const char *unit;
    } units[] = {{1, "s"}, {1e3, "ms"}, {1e6, "µs"}, {1e9, "ns"}};
    int u = 0;
    while (u < 3 && seconds * units[u].scale < 1) u++;
    bti_str_addf(text, "%.3g %s", seconds * units[u].scale, units[u].unit);
}

static double time_loops(bt_timed_fn *fn, void *data, int64_t loops) {
    (void)bti_device_count(); /* which devices there are decides what the clock is */
    bt_synchronize();
    uint64_t start = bti_clock_ns();
    for (int64_t i = 0; i < loops; i++) fn(data);
    bt_synchronize();
    return as_seconds(bti_clock_ns() - start);
}

/* Whether the caller may wait for devices: not in a forked child, nor inside of a callback. The name of the call is set for this check only, because calls of fn have
 * their own names. */
static bool can_wait(const char *name) {
    int depth = bti_call_begin(name);
    bt_status status = bti_device_check_fork();
    if (status == BT_OK) status = bti_host_check();
    bti_call_end(depth);
    return status == BT_OK;
}

double bt_time(bt_timed_fn *fn, void *data) {
    if (fn && can_wait("bt_time")) return time_loops(fn, data, 1);
    if (!fn) (void)!bti_fail(BT_INVALID_ARGUMENT, "bt_time: the function is NULL");
    return NAN;
}

char *bt_timeit(bt_timed_fn *fn, void *data, int runs, int64_t loops, double *seconds) {
    if (!fn || runs < 1 || loops < 0) {
        (void)!(fn ? bti_fail(BT_INVALID_ARGUMENT, "bt_timeit: %d runs of %lld loops", runs, (long long)loops)
                   : bti_fail(BT_INVALID_ARGUMENT, "bt_timeit: the function is NULL"));
        return NULL;
    }
    if (!can_wait("bt_timeit")) return NULL;
    double once = time_loops(fn, data, 1);
    if (loops == 0)
        loops = bti_clock_is_virtual() || once >= 0.2 ? 1 : (int64_t)ceil(0.2 / (once > 1e-8 ? once : 1e-8));
    double sum = 0, squares = 0;
    for (int r = 0; r < runs; r++) {
        double per_loop = time_loops(fn, data, loops) / (double)loops;
        sum += per_loop;
        squares += per_loop * per_loop;
    }
    double mean = sum / runs, variance = squares / runs - mean * mean;
    if (seconds) *seconds = mean;
    bti_str text = {0};
    add_seconds(&text, mean);
    bti_str_add(&text, " ± ");
    add_seconds(&text, variance > 0 ? sqrt(variance) : 0);
    bti_str_addf(&text, " per loop (mean ± std. dev. of %d run%s, %lld loop%s each)", runs, runs == 1 ? "" : "s",
                 (long long)loops, loops == 1 ? "" : "s");
    char *taken = bti_str_take(&text);
    if (!taken) (void)!bti_no_memory();
    return taken;
}

/* --- profiles: cells of tables --------------------------------------------------------------------------------------- */

struct bt_profile {
    bti_owned head;
    uint64_t since;
    bti_energies energies;
};

typedef struct profile_row { /* events that a table shows as one row */
    const bti_trace_event *like;
    uint64_t calls, ns, bytes;
} profile_row;
typedef BTI_VEC(profile_row) row_list;

/* Pads the text that was added since `from` to `width` columns. */
static void pad_text(bti_str *text, size_t from, int width) {
    int used = (int)(text->length - from);
    if (used < width) bti_str_addf(text, "%*s", width - used, "");
}

/* Bytes of UTF-8 that continue a character ("µs") take no column. */
static void add_right(bti_str *text, int width, const char *cell) {
    for (const char *c = cell; *c; c++) width += ((unsigned char)*c & 0xc0) == 0x80;
    bti_str_addf(text, " %*s", width - 1, cell); /* a cell that is too wide keeps its distance */
}

static void add_time(bti_str *text, int width, uint64_t ns) {
    bti_str cell = {0};
    add_seconds(&cell, as_seconds(ns));
    add_right(text, width, bti_str_text(&cell));
    bti_str_free(&cell);
}

static void add_share(bti_str *text, uint64_t part, uint64_t whole) {
    char cell[16];
    snprintf(cell, sizeof cell, "%.1f %%", whole ? 100 * (double)part / (double)whole : 0);
    add_right(text, 9, cell);
}

static void add_speed(bti_str *text, uint64_t bytes, uint64_t ns) {
    char cell[32];
    snprintf(cell, sizeof cell, "%.3g GB/s", ns ? (double)bytes / (double)ns : 0);
    add_right(text, 13, cell);
}

/* --- rows ----------------------------------------------------------------------------------------------------------- */

static int compare_texts(const char *a, const char *b) { return strcmp(a ? a : "", b ? b : ""); }

static int compare_kernels(const bti_trace_event *a, const bti_trace_event *b) {
    int order = strcmp(a->name, b->name);
    for (int i = 0; i < BTI_TRACE_OPERATIONS && !order; i++) order = compare_texts(a->operations[i], b->operations[i]);
    if (!order) order = compare_texts(a->label, b->label);
    if (!order) order = compare_texts(a->file, b->file);
    return order ? order : a->line - b->line;
}

static int compare_copies(const bti_trace_event *a, const bti_trace_event *b) {
    return a->device != b->device ? a->device - b->device : a->to - b->to;
}

static int compare_spans(const bti_trace_event *a, const bti_trace_event *b) {
    return a->kind != b->kind || !bti_trace_is_first(a->kind) ? a->kind - b->kind : strcmp(a->name, b->name);
}

static int (*comparison(int kind))(const bti_trace_event *, const bti_trace_event *) {
    return kind <= BTI_TRACE_COLLECTIVE ? compare_kernels : kind == BTI_TRACE_COPY ? compare_copies : compare_spans;
}

static int compare_rows(const void *a, const void *b) {
    const profile_row *left = a, *right = b;
    return comparison(left->like->kind)(left->like, right->like);
}

static int compare_times(const void *a, const void *b) {
    const profile_row *left = a, *right = b;
    return (left->ns < right->ns) - (left->ns > right->ns);
}

/* One row for all equal events of these kinds, the longest total time first. */
static bool group_events(const bti_trace_log *log, int first_kind, int last_kind, row_list *rows) {
    for (size_t i = 0; i < log->events.count; i++) {
        const bti_trace_event *event = &log->events.items[i];
        if (event->kind < first_kind || event->kind > last_kind) continue;
        profile_row one = {event, 1, event->end_ns - event->start_ns, event->read_bytes + event->written_bytes};
        if (!bti_vec_push(rows, one)) return false;
    }
    if (!rows->count) return true;
    qsort(rows->items, rows->count, sizeof *rows->items, compare_rows);
    size_t last = 0;
    for (size_t i = 1; i < rows->count; i++) {
        profile_row *to = &rows->items[last], *from = &rows->items[i];
        if (compare_rows(to, from)) {
            rows->items[++last] = *from;
            continue;
        }
        to->calls += from->calls;
        to->ns += from->ns;
        to->bytes += from->bytes;
    }
    rows->count = last + 1;
    qsort(rows->items, rows->count, sizeof *rows->items, compare_times);
    return true;
}

/* --- tables --------------------------------------------------------------------------------------------------------- */

static void add_numbers(bti_str *text, const profile_row *r) {
    char calls[24];
    snprintf(calls, sizeof calls, "%llu", (unsigned long long)r->calls);
    add_right(text, 9, calls);
    add_time(text, 11, r->ns);
    add_time(text, 11, r->ns / r->calls);
}

static void add_kernels(bti_str *text, const row_list *rows) {
    char names[256];
    uint64_t total = 0;
    int width = 24; /* of the names */
    for (size_t i = 0; i < rows->count; i++) {
        int length = (int)strlen(rows->items[i].like->name) + 4;
        if (i < ROWS_SHOWN && length > width) width = length;
        total += rows->items[i].ns;
    }
    if (rows->count)
        bti_str_addf(text, "\n%-*s%9s%11s%11s%9s%13s  asked for by\n", width, "kernels", "calls", "total", "mean",
                     "share", "speed");
    for (size_t i = 0; i < rows->count && i < ROWS_SHOWN; i++) {
        const profile_row *r = &rows->items[i];
        bti_str_addf(text, "  %-*s", width - 2, r->like->name);
        add_numbers(text, r);
        add_share(text, r->ns, total);
        add_speed(text, r->bytes, r->ns);
        bti_str_addf(text, "  %s", bti_trace_operations(r->like, names, sizeof names));
        if (r->like->label) bti_str_addf(text, " as \"%s\"", r->like->label);
        if (r->like->file)
            bti_str_addf(text, " %s:%d", bti_site_file((bti_site){r->like->file, r->like->line}), r->like->line);
        bti_str_add(text, "\n");
    }
    if (rows->count > ROWS_SHOWN) bti_str_addf(text, "  and %zu more\n", rows->count - ROWS_SHOWN);
}

static void add_copies(bti_str *text, const bti_trace_log *log, const row_list *rows) {
    if (rows->count)
        bti_str_addf(text, "\n%-24s%9s%11s%11s%9s%13s\n", "copies", "calls", "total", "mean", "bytes", "speed");
    for (size_t i = 0; i < rows->count; i++) {
        const profile_row *r = &rows->items[i];
        bti_str bytes = {0};
        size_t from = text->length;
        bti_str_addf(text, "  %s -> %s", bti_trace_place_name(log, r->like->device),
                     bti_trace_place_name(log, r->like->to));
        pad_text(text, from, 24);
        add_numbers(text, r);
        bti_str_add_bytes_size(&bytes, r->bytes);
        add_right(text, 9, bti_str_text(&bytes));
        bti_str_free(&bytes);
        add_speed(text, r->bytes, r->ns);
        bti_str_add(text, "\n");
    }
}

/* A queue runs one task at a time: a kernel, or a copy that it sends. Collectives run beside. */
static void add_devices(bti_str *text, const bti_trace_log *log) {
    uint64_t length = log->ended_ns - log->begun_ns, busy[BTI_TRACE_DEVICES] = {0}, peak[BTI_TRACE_DEVICES] = {0};
    bool used[BTI_TRACE_DEVICES] = {0};
    for (size_t i = 0; i < log->events.count; i++) {
        const bti_trace_event *event = &log->events.items[i];
        if (event->device < 0) continue;
        used[event->device] = true;
        if (event->kind == BTI_TRACE_MEMORY) {
            if (event->written_bytes > peak[event->device]) peak[event->device] = event->written_bytes;
        } else if (event->kind != BTI_TRACE_COLLECTIVE)
            busy[event->device] += event->end_ns - event->start_ns;
    }
    bti_str_addf(text, "\n%-24s%9s%11s%9s%13s\n", "devices", "", "busy", "share", "most memory");
    for (int d = 0; d < BTI_TRACE_DEVICES; d++) {
        if (!used[d]) continue;
        bti_str memory = {0};
        size_t from = text->length;
        bti_str_addf(text, "  %s", bti_trace_place_name(log, d));
        pad_text(text, from, 33);
        add_time(text, 11, busy[d]);
        add_share(text, busy[d], length);
        bti_str_add_bytes_size(&memory, peak[d]);
        add_right(text, 13, peak[d] ? bti_str_text(&memory) : "-");
        bti_str_free(&memory);
        bti_str_add(text, "\n");
    }
}

/* Time in which waiting threads ran kernels and copies themselves, which does not count as waiting. Waits of a thread do not nest. */
static uint64_t time_in_waits(const bti_trace_log *log) {
    uint64_t ns = 0;
    if (log->is_virtual) return 0; /* kernels run beside the host */
    for (size_t w = 0; w < log->events.count; w++) {
        const bti_trace_event *wait = &log->events.items[w];
        if (wait->kind != BTI_TRACE_WAIT) continue;
        for (size_t i = w + 1; i < log->events.count && log->events.items[i].start_ns < wait->end_ns; i++) {
            const bti_trace_event *event = &log->events.items[i];
            if (event->thread == wait->thread && !event->on_device &&
                (event->kind == BTI_TRACE_KERNEL || event->kind == BTI_TRACE_COPY))
                ns += event->end_ns - event->start_ns;
        }
    }
    return ns;
}

static void add_host(bti_str *text, const bti_trace_log *log, const row_list *rows) {
    static const char *const words[BTI_TRACE_KINDS] = {
        [BTI_TRACE_PLAN] = "planning",     [BTI_TRACE_PREPARE] = "preparing",  [BTI_TRACE_SUBMIT] = "submitting",
        [BTI_TRACE_WAIT] = "waiting",      [BTI_TRACE_OPEN] = "opening",       [BTI_TRACE_LIBRARY] = "library",
        [BTI_TRACE_COMPILE] = "compiling", [BTI_TRACE_CACHE] = "kernel cache", [BTI_TRACE_LOAD] = "loading"};
    if (rows->count) bti_str_addf(text, "\n%-24s%9s%11s%11s\n", "host", "calls", "total", "mean");
    for (size_t i = 0; i < rows->count; i++) {
        profile_row r = rows->items[i];
        size_t from = text->length;
        if (r.like->kind == BTI_TRACE_WAIT) r.ns -= time_in_waits(log);
        bti_str_addf(text, "  %s", words[r.like->kind]);
        if (bti_trace_is_first(r.like->kind)) bti_str_addf(text, " %s", r.like->name);
        pad_text(text, from, 24);
        add_numbers(text, &r);
        bti_str_add(text, "\n");
    }
}

static void write_profile(bti_str *text, const bti_trace_log *log, const bti_str *energies) {
    row_list kernels = {0}, copies = {0}, host = {0};
    bti_str_add(text, "profile of ");
    add_seconds(text, as_seconds(log->ended_ns - log->begun_ns));
    if (log->is_virtual) bti_str_add(text, " of virtual time, which a model of the simulated devices makes");
    if (log->dropped)
        bti_str_addf(text, "; %llu events found no room and are missing", (unsigned long long)log->dropped);
    bti_str_add(text, "\n");
    bool fits = group_events(log, BTI_TRACE_KERNEL, BTI_TRACE_COLLECTIVE, &kernels) &&
                group_events(log, BTI_TRACE_COPY, BTI_TRACE_COPY, &copies) &&
                group_events(log, BTI_TRACE_PLAN, BTI_TRACE_KINDS - 1, &host);
    if (fits) {
        add_kernels(text, &kernels);
        add_devices(text, log);
        bti_str_add(text, bti_str_text(energies));
        text->failed |= energies->failed;
        add_copies(text, log, &copies);
        add_host(text, log, &host);
    } else
        text->failed = true;
    bti_vec_free(&kernels);
    bti_vec_free(&copies);
    bti_vec_free(&host);
}

/* --- public functions ----------------------------------------------------------------------------------------------- */

static void stop_recording(void *profile) {
    (void)profile;
    if (!bti_device_forked()) bti_trace_stop();
}
static const bti_handle_class profile_class = {BTI_OWNED_PROFILE, sizeof(bt_profile), stop_recording, NULL};

bt_profile *bt_profile_start(void) {
    BTI_PUBLIC("bt_profile_start");
    if (bti_device_check_fork() != BT_OK || bti_host_check() != BT_OK) return NULL;
    bt_profile *profile = bti_owned_new(BTI_OWNED_PROFILE, sizeof *profile);
    if (!profile) {
        (void)!bti_no_memory();
        return NULL;
    }
    (void)bti_device_count(); /* as above */
    bt_synchronize();
    bti_energies_read(&profile->energies);
    profile->since = bti_trace_now();
    bti_trace_start();
    for (int d = 0; d < bti_device_count(); d++) { /* the first values of the memory counters */
        bt_memory_info memory = BT_MEMORY_INFO_INIT;
        if (bt_memory(bti_device_at(d), &memory) == BT_OK && memory.used) bti_trace_memory(d, memory.used);
    }
    return profile;
}

bt_status bt_profile_stop(bt_profile *profile, const char *trace_file, char **text) {
    BTI_PUBLIC("bt_profile_stop");
    if (text) *text = NULL;
    BTI_TRY(bti_handle_check(BTI_OWNED_PROFILE, profile, "bt_profile_stop"));
    if (bti_device_forked()) bti_handle_release(&profile_class, profile, "bt_profile_stop");
    BTI_TRY(bti_device_check_fork());
    BTI_TRY(bti_host_check());
    bt_synchronize();
    bti_trace_log log;
    bti_str energies = {0};
    bool collected = bti_trace_collect(profile->since, &log);
    if (collected && text) bti_energies_describe(&profile->energies, &log, &energies);
    bti_handle_release(&profile_class, profile, "bt_profile_stop");
    if (!collected) return bti_no_memory();
    bt_status status = trace_file ? bti_trace_write(&log, trace_file) : BT_OK;
    if (text) {
        bti_str table = {0};
        write_profile(&table, &log, &energies);
        *text = bti_str_take(&table);
        if (!*text) status = bti_no_memory();
    }
    bti_str_free(&energies);
    bti_trace_log_free(&log);
    return status;
}
