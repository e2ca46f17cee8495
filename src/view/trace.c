/* Writing a recording as a Chrome trace. */
#include "view/trace.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/chrome.h"
#include "base/files.h"
#include "base/flags.h"

enum {
    HOST = 0,
    QUEUE = 1,
    COPIES_OUT = 2,
    COLLECTIVES = 3,
    COPIES_IN = 10
}; /* the process of the host; tracks of a device */

typedef struct trace_output {
    bti_chrome to;
    const bti_trace_log *log;
} trace_output;

const char *bti_trace_place_name(const bti_trace_log *log, int device) {
    static _Thread_local char ring[4][sizeof log->devices[0]];
    static _Thread_local unsigned next;
    if (device < 0) return "host";
    char *text = ring[next++ % 4];
    if (device < BTI_TRACE_DEVICES && *log->devices[device])
        snprintf(text, sizeof ring[0], "%s", log->devices[device]);
    else
        snprintf(text, sizeof ring[0], "device %d", device);
    return text;
}

const char *bti_trace_operations(const bti_trace_event *event, char *text, size_t size) {
    size_t length = 0;
    *text = '\0';
    for (int i = 0; i < BTI_TRACE_OPERATIONS && event->operations[i] && length < size; i++)
        length += (size_t)snprintf(text + length, size - length, "%s%s", length ? ", " : "", event->operations[i]);
    return text;
}

static void begin_slice(trace_output *out, const bti_trace_event *event, int process, int track, const char *category) {
    bti_chrome_begin_slice(&out->to, process, track, event->start_ns, event->end_ns, category);
}

/* Ends the arguments with the thread, the operation and its place in the user's source. */
static void end_slice(trace_output *out, const bti_trace_event *event) {
    fprintf(out->to.file, ",\"thread\":%" PRIu32, event->thread);
    char names[256];
    if (*bti_trace_operations(event, names, sizeof names)) bti_chrome_pair(&out->to, "operation", names);
    if (event->label) bti_chrome_pair(&out->to, "label", event->label);
    if (event->file) {
        bti_chrome_pair(&out->to, "file", bti_site_file((bti_site){event->file, event->line}));
        fprintf(out->to.file, ",\"line\":%" PRId32, event->line);
    }
    fputs("}}", out->to.file);
}

/* --- tracks --------------------------------------------------------------------------------------------------------- */

static void put_threads(trace_output *out) {
    for (size_t i = 0; i < out->log->threads.count; i++) {
        const bti_trace_thread *thread = &out->log->threads.items[i];
        char name[64];
        if (thread->main)
            snprintf(name, sizeof name, "main thread");
        else if (thread->serves >= 0)
            snprintf(name, sizeof name, "queue thread of %s", bti_trace_place_name(out->log, thread->serves));
        else
            snprintf(name, sizeof name, "thread %" PRIu32, thread->number);
        bti_chrome_name(&out->to, "thread_name", HOST, (int)thread->number + 1, name);
    }
}

static void put_tracks(trace_output *out) {
    bool used[BTI_TRACE_DEVICES] = {0}, sends[BTI_TRACE_DEVICES] = {0}, reduces[BTI_TRACE_DEVICES] = {0};
    bool reached[BTI_TRACE_DEVICES][BTI_TRACE_DEVICES + 1] = {{0}};
    for (size_t i = 0; i < out->log->events.count; i++) {
        const bti_trace_event *event = &out->log->events.items[i];
        if (event->device >= 0) used[event->device] = true;
        if (event->kind == BTI_TRACE_COLLECTIVE) reduces[event->device] = true;
        if (event->kind != BTI_TRACE_COPY) continue;
        if (event->device >= 0) sends[event->device] = true;
        if (event->to >= 0) used[event->to] = reached[event->to][event->device + 1] = true;
    }
    bti_chrome_process(&out->to, HOST, "host");
    put_threads(out);
    for (int d = 0; d < BTI_TRACE_DEVICES; d++) {
        if (!used[d]) continue;
        bti_chrome_process(&out->to, d + 1, bti_trace_place_name(out->log, d));
        bti_chrome_name(&out->to, "thread_name", d + 1, QUEUE, "queue");
        if (sends[d]) bti_chrome_name(&out->to, "thread_name", d + 1, COPIES_OUT, "copies out");
        if (reduces[d]) bti_chrome_name(&out->to, "thread_name", d + 1, COLLECTIVES, "collectives");
        for (int from = -1; from < BTI_TRACE_DEVICES; from++) {
            char name[64];
            if (!reached[d][from + 1]) continue;
            snprintf(name, sizeof name, "copies from %s", bti_trace_place_name(out->log, from));
            bti_chrome_name(&out->to, "thread_name", d + 1, COPIES_IN + from + 1, name);
        }
    }
}

/* --- events --------------------------------------------------------------------------------------------------------- */

static void put_kernel(trace_output *out, const bti_trace_event *event) {
    begin_slice(out, event, event->device + 1, QUEUE, "kernel");
    bti_chrome_pair(&out->to, "name", event->name);
    fprintf(out->to.file, ",\"args\":{\"elements\":%" PRIu64 ",\"read_bytes\":%" PRIu64 ",\"written_bytes\":%" PRIu64,
            event->elements, event->read_bytes, event->written_bytes);
    end_slice(out, event);
}

static void put_collective(trace_output *out, const bti_trace_event *event) {
    begin_slice(out, event, event->device + 1, COLLECTIVES, "collective");
    bti_chrome_pair(&out->to, "name", event->name);
    fprintf(out->to.file, ",\"args\":{\"bytes\":%" PRIu64, event->written_bytes);
    end_slice(out, event);
}

static void put_arrow(trace_output *out, char phase, int process, int track, uint64_t ns, size_t number) {
    bti_chrome_begin_at(&out->to, phase, process, track, ns);
    fprintf(out->to.file, "%s,\"cat\":\"copy\",\"name\":\"copy\",\"id\":%zu}", phase == 'f' ? ",\"bp\":\"e\"" : "",
            number);
}

/* Both ends, and the arrow. */
static void put_copy(trace_output *out, const bti_trace_event *event, size_t number) {
    int thread_lane = (int)event->thread + 1;
    int process[2] = {event->device + 1, event->to + 1};
    int track[2] = {event->device < 0 ? thread_lane : COPIES_OUT,
                    event->to < 0 ? thread_lane : COPIES_IN + event->device + 1};
    for (int end = 0; end < 2; end++) {
        begin_slice(out, event, process[end], track[end], end ? "arrival" : "copy");
        fprintf(out->to.file, ",\"name\":\"copy\",\"args\":{\"copy\":%zu,\"bytes\":%" PRIu64, number,
                event->written_bytes);
        bti_chrome_pair(&out->to, "from", bti_trace_place_name(out->log, event->device));
        bti_chrome_pair(&out->to, "to", bti_trace_place_name(out->log, event->to));
        end_slice(out, event);
    }
    put_arrow(out, 's', process[0], track[0], event->start_ns, number);
    put_arrow(out, 'f', process[1], track[1], event->start_ns + (event->end_ns - event->start_ns) / 2, number);
}

static void put_memory(trace_output *out, const bti_trace_event *event) {
    bti_chrome_begin_at(&out->to, 'C', event->device + 1, 0, event->start_ns);
    fprintf(out->to.file, ",\"name\":\"memory\",\"args\":{\"in use\":%" PRIu64 "}}", event->written_bytes);
}

static void put_span(trace_output *out, const bti_trace_event *event) {
    static const char *const what[BTI_TRACE_KINDS] = {
        [BTI_TRACE_PLAN] = "plan",       [BTI_TRACE_PREPARE] = "prepare", [BTI_TRACE_SUBMIT] = "submit",
        [BTI_TRACE_WAIT] = "wait",       [BTI_TRACE_OPEN] = "open",       [BTI_TRACE_LIBRARY] = "library",
        [BTI_TRACE_COMPILE] = "compile", [BTI_TRACE_CACHE] = "cache",     [BTI_TRACE_LOAD] = "load"};
    begin_slice(out, event, HOST, (int)event->thread + 1, bti_trace_is_first(event->kind) ? "first" : "host");
    bti_chrome_pair(&out->to, "name", what[event->kind]);
    fputs(",\"args\":{\"of\":", out->to.file);
    bti_chrome_text(&out->to, event->name);
    end_slice(out, event);
}

bt_status bti_trace_write(const bti_trace_log *log, const char *path) {
    BTI_WRITES;
    trace_output out = {.to = {.file = fopen(path, "we"), .begun_ns = log->begun_ns}, .log = log};
    if (!out.to.file) return bti_fail(BT_NOT_FOUND, "%s cannot be written: %s", path, strerror(errno));
    bti_chrome_head(&out.to, program_invocation_short_name, getpid(), log->dropped, log->ended_ns);
    bti_chrome_pair(&out.to, "clock", log->is_virtual ? "virtual" : "wall");
    bti_chrome_events(&out.to);
    put_tracks(&out);
    for (size_t i = 0; i < log->events.count; i++) {
        const bti_trace_event *event = &log->events.items[i];
        switch (event->kind) {
        case BTI_TRACE_KERNEL: put_kernel(&out, event); break;
        case BTI_TRACE_COLLECTIVE: put_collective(&out, event); break;
        case BTI_TRACE_COPY: put_copy(&out, event, i); break;
        case BTI_TRACE_MEMORY: put_memory(&out, event); break;
        case BTI_TRACE_ZEROS: break;
        default: put_span(&out, event);
        }
    }
    bti_chrome_end(&out.to);
    bool failed = fflush(out.to.file) || ferror(out.to.file);
    int cause = errno;
    failed = fclose(out.to.file) || failed;
    return failed ? bti_fail(BT_UNKNOWN, "%s cannot be written: %s", path, strerror(cause)) : BT_OK;
}

static void follow_flag(void) {
    char *path = bti_flag_text(BTI_FLAG_trace);
    if (path) bti_trace_record_into(BTI_TRACE_FILE, path, bti_trace_write);
    bti_free(path);
}
__attribute__((constructor)) static void watch_flag(void) { bti_flag_watch(BTI_FLAG_trace, follow_flag); }
