/* What ran, summed up, while the flag `summary` names a file: how long a step takes, how busy devices are, which copies hide behind kernels, the most memory. */
#include <errno.h>
#include <jansson.h>
#include <string.h>

#include "base/alloc.h"
#include "base/files.h"
#include "base/flags.h"
#include "view/trace.h"

/* --- spans of time -------------------------------------------------------------------------------------------------- */

typedef struct span {
    uint64_t start, end;
} span;
typedef BTI_VEC(span) span_list; /* by start, apart from each other */

/* One that begins no earlier than the last one. */
static bool add_span(span_list *list, uint64_t start, uint64_t end) {
    span *last = list->count ? &list->items[list->count - 1] : NULL;
    if (!last || start > last->end) return bti_vec_push(list, ((span){start, end}));
    if (end > last->end) last->end = end;
    return true;
}

static uint64_t overlap(span a, span b) {
    uint64_t start = a.start > b.start ? a.start : b.start, end = a.end < b.end ? a.end : b.end;
    return end > start ? end - start : 0;
}

static uint64_t time_within(const span_list *list, span window) {
    uint64_t ns = 0;
    for (size_t i = 0; i < list->count; i++) ns += overlap(list->items[i], window);
    return ns;
}

/* Of both at once. */
static uint64_t time_of_both(const span_list *a, const span_list *b, span window) {
    uint64_t ns = 0;
    for (size_t i = 0, k = 0; i < a->count && k < b->count;) {
        span both = {a->items[i].start > b->items[k].start ? a->items[i].start : b->items[k].start,
                     a->items[i].end < b->items[k].end ? a->items[i].end : b->items[k].end};
        if (both.end > both.start) ns += overlap(both, window);
        if (a->items[i].end < b->items[k].end)
            i++;
        else
            k++;
    }
    return ns;
}

/* --- steps ---------------------------------------------------------------------------------------------------------- */

/* A submission, and when what it did on devices was complete. */
typedef struct run {
    const bti_trace_event *submitted;
    uint64_t end;
} run;

/* The plan that is run again and again; of several the one that ran the most. */
typedef struct steps {
    BTI_VEC(run) runs;            /* of all plans, by number */
    BTI_VEC(uint64_t) ends;       /* of the steps, in order */
    const bti_trace_event *first; /* NULL: there is none */
    uint64_t between;             /* two steps, the median; of one step its own length */
    span window;                  /* of the steps after the first; of one step, of all that ran */
} steps;

static int by_run(const void *left, const void *right) {
    uint32_t a = ((const run *)left)->submitted->run, b = ((const run *)right)->submitted->run;
    return (a > b) - (a < b);
}
static int by_size(const void *left, const void *right) {
    uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;
    return (a > b) - (a < b);
}

/* Copies, and collectives: both hide behind kernels, or do not. */
static bool moves(const bti_trace_event *event) {
    return event->kind == BTI_TRACE_COPY || event->kind == BTI_TRACE_COLLECTIVE;
}
static bool is_work(const bti_trace_event *event) { return event->kind == BTI_TRACE_KERNEL || moves(event); }

static bool list_runs(const bti_trace_log *log, steps *of) {
    for (size_t i = 0; i < log->events.count; i++) {
        const bti_trace_event *event = &log->events.items[i];
        if (event->kind == BTI_TRACE_SUBMIT && !bti_vec_push(&of->runs, ((run){event, event->end_ns}))) return false;
    }
    if (of->runs.count) qsort(of->runs.items, of->runs.count, sizeof *of->runs.items, by_run);
    for (size_t i = 0; i < log->events.count && of->runs.count; i++) {
        const bti_trace_event *event = &log->events.items[i], key = {.run = event->run};
        if (!is_work(event) || !event->run) continue;
        run *found = bsearch(&(run){.submitted = &key}, of->runs.items, of->runs.count, sizeof(run), by_run);
        if (found && event->end_ns > found->end) found->end = event->end_ns;
    }
    return true;
}

static bool are_alike(const bti_trace_event *a, const bti_trace_event *b) {
    return a->plan == b->plan && a->file == b->file && a->line == b->line;
}

static size_t count_alike(const steps *of, const bti_trace_event *submitted) {
    size_t count = 0;
    for (size_t i = 0; i < of->runs.count; i++) count += are_alike(of->runs.items[i].submitted, submitted);
    return count;
}

static const bti_trace_event *most_alike(const steps *of) {
    const bti_trace_event *best = NULL;
    size_t most = 0, seen = 0;
    for (size_t i = 0; i < of->runs.count && seen < of->runs.count; i++) {
        const bti_trace_event *submitted = of->runs.items[i].submitted;
        bool earlier = false;
        for (size_t k = 0; k < i && !earlier; k++) earlier = are_alike(of->runs.items[k].submitted, submitted);
        size_t count = earlier ? 0 : count_alike(of, submitted);
        seen += count;
        if (count > most) most = count, best = submitted;
    }
    return best;
}

static bool time_steps(const bti_trace_log *log, steps *of) {
    if (!list_runs(log, of)) return false;
    of->window = (span){log->begun_ns, log->ended_ns};
    of->first = most_alike(of);
    if (!of->first) return true;
    for (size_t i = 0; i < of->runs.count; i++)
        if (are_alike(of->runs.items[i].submitted, of->first) && !bti_vec_push(&of->ends, of->runs.items[i].end))
            return false;
    size_t count = of->ends.count;
    of->between = of->ends.items[0] - of->first->start_ns;
    if (count < 2) return true;
    of->window = (span){of->ends.items[0], of->ends.items[count - 1]};
    uint64_t *each = bti_alloc((count - 1) * sizeof *each);
    if (!each) return false;
    for (size_t i = 1; i < count; i++)
        each[i - 1] = of->ends.items[i] > of->ends.items[i - 1] ? of->ends.items[i] - of->ends.items[i - 1] : 0;
    qsort(each, count - 1, sizeof *each, by_size);
    of->between = each[(count - 1) / 2];
    bti_free(each);
    return true;
}

/* --- as JSON -------------------------------------------------------------------------------------------------------- */

static json_t *seconds(uint64_t ns) { return json_real((double)ns * 1e-9); }
static json_t *integer(uint64_t number) { return json_integer((json_int_t)number); }

static void add_place(json_t *to, const bti_trace_event *event) {
    const char *call = event->operations[0];
    json_object_set_new(to, "call", json_string(call ? call : ""));
    if (event->label) json_object_set_new(to, "label", json_string(event->label));
    json_object_set_new(to, "file",
                        json_string(event->file ? bti_site_file((bti_site){event->file, event->line}) : ""));
    json_object_set_new(to, "line", json_integer(event->file ? event->line : 0));
}

static json_t *steps_json(const steps *of) {
    json_t *told = json_object();
    json_object_set_new(told, "count", integer(of->ends.count));
    json_object_set_new(told, "seconds", seconds(of->between));
    if (of->first) add_place(told, of->first);
    json_object_set_new(told, "submissions", integer(of->runs.count));
    return told;
}

static json_t *device_json(const bti_trace_log *log, int device, const steps *of) {
    span_list kernels = {0}, copies = {0};
    uint64_t moved = 0, peak = 0, launches = 0;
    bool fits = true, used = false;
    for (size_t i = 0; i < log->events.count && fits; i++) {
        const bti_trace_event *event = &log->events.items[i];
        bool sends = event->device == device, receives = event->to == device;
        if (!sends && !receives) continue;
        if (event->kind == BTI_TRACE_MEMORY && event->written_bytes > peak) peak = event->written_bytes;
        if (moves(event)) fits = add_span(&copies, event->start_ns, event->end_ns);
        if (event->kind == BTI_TRACE_KERNEL) fits = add_span(&kernels, event->start_ns, event->end_ns);
        used = used || event->kind == BTI_TRACE_MEMORY || is_work(event);
        launches += event->kind == BTI_TRACE_KERNEL;
        moved += moves(event) ? event->written_bytes : 0;
    }
    json_t *told = used ? json_object() : NULL;
    if (told) {
        uint64_t copied = time_within(&copies, of->window), hidden = time_of_both(&kernels, &copies, of->window);
        uint64_t whole = of->window.end - of->window.start, busy = time_within(&kernels, of->window);
        size_t count = of->ends.count > 1 ? of->ends.count - 1 : 1;
        json_object_set_new(told, "device", json_string(bti_trace_place_name(log, device)));
        json_object_set_new(told, "utilization", json_real(whole ? (double)busy / (double)whole : 0));
        json_object_set_new(told, "kernel_seconds", seconds(busy / count));
        json_object_set_new(told, "hidden_copy_seconds", seconds(hidden / count));
        json_object_set_new(told, "exposed_copy_seconds", seconds((copied - hidden) / count));
        json_object_set_new(told, "launches", integer(launches));
        json_object_set_new(told, "copied_bytes", integer(moved));
        json_object_set_new(told, "peak_bytes", integer(peak));
    }
    bti_vec_free(&kernels);
    bti_vec_free(&copies);
    return told;
}

static json_t *waits_json(const bti_trace_log *log, span window) {
    uint64_t ns = 0, count = 0;
    for (size_t i = 0; i < log->events.count; i++) {
        const bti_trace_event *event = &log->events.items[i];
        if (event->kind != BTI_TRACE_WAIT) continue;
        ns += overlap((span){event->start_ns, event->end_ns}, window);
        count++;
    }
    json_t *told = json_object();
    json_object_set_new(told, "count", integer(count));
    json_object_set_new(told, "seconds", seconds(ns));
    return told;
}

/* What the host was given for data that no device held, by the place that asked. */
typedef struct reader {
    const bti_trace_event *first;
    uint64_t times, bytes;
} reader;
typedef BTI_VEC(reader) reader_list;

static bool add_reader(reader_list *list, const bti_trace_event *event) {
    size_t i = 0;
    for (; i < list->count; i++) {
        const bti_trace_event *first = list->items[i].first;
        if (first->file == event->file && first->line == event->line && first->operations[0] == event->operations[0])
            break;
    }
    if (i == list->count && !bti_vec_push(list, ((reader){.first = event}))) return false;
    list->items[i].times++;
    list->items[i].bytes += event->read_bytes;
    return true;
}

static json_t *zeros_json(const bti_trace_log *log) {
    reader_list readers = {0};
    json_t *list = json_array();
    for (size_t i = 0; i < log->events.count; i++)
        if (log->events.items[i].kind == BTI_TRACE_ZEROS && !add_reader(&readers, &log->events.items[i])) break;
    for (size_t i = 0; i < readers.count; i++) {
        json_t *told = json_object();
        add_place(told, readers.items[i].first);
        json_object_set_new(told, "times", integer(readers.items[i].times));
        json_object_set_new(told, "bytes", integer(readers.items[i].bytes));
        json_array_append_new(list, told);
    }
    bti_vec_free(&readers);
    return list;
}

static json_t *summary_json(const bti_trace_log *log, const steps *of) {
    json_t *root = json_object(), *devices = json_array();
    for (int d = 0; d < BTI_TRACE_DEVICES; d++) {
        json_t *told = device_json(log, d, of);
        if (told) json_array_append_new(devices, told);
    }
    json_object_set_new(root, "clock", json_string(log->is_virtual ? "virtual" : "wall"));
    json_object_set_new(root, "seconds", seconds(log->ended_ns - log->begun_ns));
    json_object_set_new(root, "steps", steps_json(of));
    json_object_set_new(root, "devices", devices);
    json_object_set_new(root, "waits", waits_json(log, (span){log->begun_ns, log->ended_ns}));
    json_object_set_new(root, "read_without_data", zeros_json(log));
    json_object_set_new(root, "dropped", integer(log->dropped));
    return root;
}

static bt_status write_summary(const bti_trace_log *log, const char *path) {
    BTI_WRITES;
    steps of = {0};
    bt_status status = BT_OK;
    if (!time_steps(log, &of))
        status = bti_no_memory();
    else {
        json_t *root = summary_json(log, &of);
        if (!root || json_dump_file(root, path, JSON_COMPACT))
            status = bti_fail(BT_UNKNOWN, "%s cannot be written: %s", path, strerror(errno));
        json_decref(root);
    }
    bti_vec_free(&of.runs);
    bti_vec_free(&of.ends);
    return status;
}

static void follow_flag(void) {
    char *path = bti_flag_text(BTI_FLAG_summary);
    if (path) bti_trace_record_into(BTI_SUMMARY_FILE, path, write_summary);
    bti_free(path);
}
__attribute__((constructor)) static void watch_flag(void) { bti_flag_watch(BTI_FLAG_summary, follow_flag); }
