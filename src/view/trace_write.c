#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <unistd.h>

#include "view/trace.h"

enum { HOST = 0, QUEUE = 1, COPIES_OUT = 2, COPIES_IN = 10 }; /* a process; lanes of a device's */

typedef struct output {
    FILE *file;
    const bti_trace_log *log;
    bool begun;
} output;

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

/* A JSON text; what is no UTF-8 becomes "?". */
static void put_text(output *out, const char *text) {
    json_t *value = json_string(text);
    if (!value || json_dumpf(value, out->file, JSON_ENCODE_ANY)) fputs("\"?\"", out->file);
    json_decref(value);
}

static void put_pair(output *out, const char *key, const char *text) {
    fprintf(out->file, ",\"%s\":", key);
    put_text(out, text);
}

static void put_microseconds(output *out, const char *key, uint64_t ns) {
    fprintf(out->file, ",\"%s\":%" PRIu64 ".%03u", key, ns / 1000, (unsigned)(ns % 1000));
}

static void begin_event(output *out, char phase, int process, int lane) {
    fprintf(out->file, "%s{\"ph\":\"%c\",\"pid\":%d,\"tid\":%d", out->begun ? ",\n" : "\n", phase, process, lane);
    out->begun = true;
}

static void begin_slice(output *out, const bti_trace_event *event, int process, int lane, const char *category) {
    begin_event(out, 'X', process, lane);
    put_microseconds(out, "ts", event->start_ns - out->log->begun_ns);
    put_microseconds(out, "dur", event->end_ns - event->start_ns);
    fprintf(out->file, ",\"cat\":\"%s\"", category);
}

/* The user's place and the thread: the last of the arguments. */
static void end_slice(output *out, const bti_trace_event *event) {
    fprintf(out->file, ",\"thread\":%" PRIu32, event->thread);
    char names[256];
    if (*bti_trace_operations(event, names, sizeof names)) put_pair(out, "operation", names);
    if (event->file) {
        put_pair(out, "file", bti_site_file((bti_site){event->file, event->line}));
        fprintf(out->file, ",\"line\":%" PRId32, event->line);
    }
    fputs("}}", out->file);
}

/* --- lanes ---------------------------------------------------------------------------------------------------------- */

static void put_name(output *out, const char *what, int process, int lane, const char *name) {
    begin_event(out, 'M', process, lane);
    put_pair(out, "name", what);
    fputs(",\"args\":{\"name\":", out->file);
    put_text(out, name);
    fputs("}}", out->file);
}

static void put_process(output *out, int process, const char *name) {
    put_name(out, "process_name", process, 0, name);
    begin_event(out, 'M', process, 0);
    fprintf(out->file, ",\"name\":\"process_sort_index\",\"args\":{\"sort_index\":%d}}", process);
}

static void put_threads(output *out) {
    for (size_t i = 0; i < out->log->threads.count; i++) {
        const bti_trace_thread *thread = &out->log->threads.items[i];
        char name[64];
        if (thread->main)
            snprintf(name, sizeof name, "main thread");
        else if (thread->serves >= 0)
            snprintf(name, sizeof name, "queue thread of %s", bti_trace_place_name(out->log, thread->serves));
        else
            snprintf(name, sizeof name, "thread %" PRIu32, thread->number);
        put_name(out, "thread_name", HOST, (int)thread->number + 1, name);
    }
}

static void put_lanes(output *out) {
    bool used[BTI_TRACE_DEVICES] = {0}, sends[BTI_TRACE_DEVICES] = {0};
    bool reached[BTI_TRACE_DEVICES][BTI_TRACE_DEVICES + 1] = {{0}};
    for (size_t i = 0; i < out->log->events.count; i++) {
        const bti_trace_event *event = &out->log->events.items[i];
        if (event->device >= 0) used[event->device] = true;
        if (event->kind != BTI_TRACE_COPY) continue;
        if (event->device >= 0) sends[event->device] = true;
        if (event->to >= 0) used[event->to] = reached[event->to][event->device + 1] = true;
    }
    put_process(out, HOST, "host");
    put_threads(out);
    for (int d = 0; d < BTI_TRACE_DEVICES; d++) {
        if (!used[d]) continue;
        put_process(out, d + 1, bti_trace_place_name(out->log, d));
        put_name(out, "thread_name", d + 1, QUEUE, "queue");
        if (sends[d]) put_name(out, "thread_name", d + 1, COPIES_OUT, "copies out");
        for (int from = -1; from < BTI_TRACE_DEVICES; from++) {
            char name[64];
            if (!reached[d][from + 1]) continue;
            snprintf(name, sizeof name, "copies from %s", bti_trace_place_name(out->log, from));
            put_name(out, "thread_name", d + 1, COPIES_IN + from + 1, name);
        }
    }
}

/* --- events --------------------------------------------------------------------------------------------------------- */

static void put_kernel(output *out, const bti_trace_event *event) {
    begin_slice(out, event, event->device + 1, QUEUE, "kernel");
    put_pair(out, "name", event->name);
    fprintf(out->file, ",\"args\":{\"elements\":%" PRIu64 ",\"read_bytes\":%" PRIu64 ",\"written_bytes\":%" PRIu64,
            event->elements, event->read_bytes, event->written_bytes);
    end_slice(out, event);
}

static void put_arrow(output *out, char phase, int process, int lane, uint64_t ns, size_t number) {
    begin_event(out, phase, process, lane);
    put_microseconds(out, "ts", ns - out->log->begun_ns);
    fprintf(out->file, "%s,\"cat\":\"copy\",\"name\":\"copy\",\"id\":%zu}", phase == 'f' ? ",\"bp\":\"e\"" : "",
            number);
}

/* Both ends, and the arrow. */
static void put_copy(output *out, const bti_trace_event *event, size_t number) {
    int thread_lane = (int)event->thread + 1;
    int process[2] = {event->device + 1, event->to + 1};
    int lane[2] = {event->device < 0 ? thread_lane : COPIES_OUT,
                   event->to < 0 ? thread_lane : COPIES_IN + event->device + 1};
    for (int end = 0; end < 2; end++) {
        begin_slice(out, event, process[end], lane[end], end ? "arrival" : "copy");
        fprintf(out->file, ",\"name\":\"copy\",\"args\":{\"copy\":%zu,\"bytes\":%" PRIu64, number,
                event->written_bytes);
        put_pair(out, "from", bti_trace_place_name(out->log, event->device));
        put_pair(out, "to", bti_trace_place_name(out->log, event->to));
        end_slice(out, event);
    }
    put_arrow(out, 's', process[0], lane[0], event->start_ns, number);
    put_arrow(out, 'f', process[1], lane[1], event->start_ns + (event->end_ns - event->start_ns) / 2, number);
}

static void put_memory(output *out, const bti_trace_event *event) {
    begin_event(out, 'C', event->device + 1, 0);
    put_microseconds(out, "ts", event->start_ns - out->log->begun_ns);
    fprintf(out->file, ",\"name\":\"memory\",\"args\":{\"in use\":%" PRIu64 "}}", event->written_bytes);
}

static void put_span(output *out, const bti_trace_event *event) {
    static const char *const what[BTI_TRACE_KINDS] = {
        [BTI_TRACE_PLAN] = "plan",       [BTI_TRACE_PREPARE] = "prepare", [BTI_TRACE_SUBMIT] = "submit",
        [BTI_TRACE_WAIT] = "wait",       [BTI_TRACE_OPEN] = "open",       [BTI_TRACE_LIBRARY] = "library",
        [BTI_TRACE_COMPILE] = "compile", [BTI_TRACE_CACHE] = "cache",     [BTI_TRACE_LOAD] = "load"};
    begin_slice(out, event, HOST, (int)event->thread + 1, event->kind >= BTI_TRACE_OPEN ? "first" : "host");
    put_pair(out, "name", what[event->kind]);
    fputs(",\"args\":{\"of\":", out->file);
    put_text(out, event->name);
    end_slice(out, event);
}

static void put_head(output *out) {
    fputs("{\"displayTimeUnit\":\"ns\",\"otherData\":{\"producer\":\"berth\",\"version\":\"" BERTH_VERSION "\"",
          out->file);
    put_pair(out, "program", program_invocation_short_name);
    fprintf(out->file, ",\"process\":%ld,\"dropped\":%" PRIu64, (long)getpid(), out->log->dropped);
    put_microseconds(out, "length_us", out->log->ended_ns - out->log->begun_ns);
    fputs("},\n\"traceEvents\":[", out->file);
}

bt_status bti_trace_write(const bti_trace_log *log, const char *path) {
    output out = {.file = fopen(path, "we"), .log = log};
    if (!out.file) return bti_fail(BT_NOT_FOUND, "%s cannot be written: %s", path, strerror(errno));
    put_head(&out);
    put_lanes(&out);
    for (size_t i = 0; i < log->events.count; i++) {
        const bti_trace_event *event = &log->events.items[i];
        switch (event->kind) {
        case BTI_TRACE_KERNEL: put_kernel(&out, event); break;
        case BTI_TRACE_COPY: put_copy(&out, event, i); break;
        case BTI_TRACE_MEMORY: put_memory(&out, event); break;
        default: put_span(&out, event);
        }
    }
    fputs("\n]}\n", out.file);
    bool failed = fflush(out.file) || ferror(out.file);
    int cause = errno;
    failed = fclose(out.file) || failed;
    return failed ? bti_fail(BT_UNKNOWN, "%s cannot be written: %s", path, strerror(cause)) : BT_OK;
}

__attribute__((constructor)) static void tell_below(void) { bti_trace_set_writer(bti_trace_write); }
