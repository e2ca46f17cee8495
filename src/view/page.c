/* The HTML page of a trace: a template with the trace inserted. */
#include <berth/view.h>
#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "array/handle.h"
#include "base/files.h"

static const unsigned char page_bytes[] = {
#include "page.inc"
    0};
static const char mark[] = "/*{trace}*/";

/* --- checking the trace ---------------------------------------------------------------------------------------------- */

enum { PROCESSES = 256 };

typedef struct trace_checker {
    bool processes[PROCESSES]; /* named so far */
} trace_checker;

static bool is_number(json_t *value) { return json_is_number(value) && json_number_value(value) >= 0; }
static bool all_numbers(json_t *object, const char *const *keys) {
    for (; *keys; keys++)
        if (!is_number(json_object_get(object, *keys))) return false;
    return true;
}
static bool all_texts(json_t *object, const char *const *keys) {
    for (; *keys; keys++)
        if (!json_is_string(json_object_get(object, *keys))) return false;
    return true;
}
#define LIST(...) ((const char *const[]){__VA_ARGS__, NULL})

static bool check_slice(json_t *event, json_t *arguments) {
    if (!all_numbers(event, LIST("ts", "dur")) || !all_texts(event, LIST("name", "cat"))) return false;
    const char *category = json_string_value(json_object_get(event, "cat"));
    if (!strcmp(category, "kernel")) return all_numbers(arguments, LIST("elements", "read_bytes", "written_bytes"));
    if (!strcmp(category, "collective")) return all_numbers(arguments, LIST("bytes"));
    if (!strcmp(category, "copy") || !strcmp(category, "arrival"))
        return all_numbers(arguments, LIST("copy", "bytes")) && all_texts(arguments, LIST("from", "to"));
    return (!strcmp(category, "host") || !strcmp(category, "first")) && all_texts(arguments, LIST("of"));
}

static bool check_event(trace_checker *c, json_t *event) {
    const char *phase = json_string_value(json_object_get(event, "ph"));
    json_t *process = json_object_get(event, "pid"), *arguments = json_object_get(event, "args");
    if (!phase || strlen(phase) != 1 || !json_is_integer(process)) return false;
    json_int_t number = json_integer_value(process);
    if (number < 0 || number >= PROCESSES) return false;
    if (*phase == 'M') {
        const char *name = json_string_value(json_object_get(event, "name"));
        if (!name) return false;
        if (!strcmp(name, "process_name")) c->processes[number] = true;
        return strcmp(name, "process_name") && strcmp(name, "thread_name") ? true : all_texts(arguments, LIST("name"));
    }
    if (!c->processes[number]) return false;
    if (*phase == 'X') return check_slice(event, arguments);
    if (*phase == 'C') return is_number(json_object_get(event, "ts")) && all_numbers(arguments, LIST("in use"));
    return true;
}

static bt_status check_trace(json_t *trace, const char *path) {
    json_t *about = json_object_get(trace, "otherData"), *events = json_object_get(trace, "traceEvents");
    const char *producer = json_string_value(json_object_get(about, "producer"));
    if (!producer || strcmp(producer, "berth") || !json_is_array(events) ||
        !all_texts(about, LIST("program", "version")) || !all_numbers(about, LIST("dropped", "length_us")))
        return bti_fail(BT_DATA_LOSS, "%s is not a trace recorded by berth", path);
    trace_checker c = {0};
    for (size_t i = 0; i < json_array_size(events); i++)
        if (!check_event(&c, json_array_get(events, i)))
            return bti_fail(BT_DATA_LOSS, "%s: event %zu is not one that berth records", path, i);
    return BT_OK;
}

/* --- writing -------------------------------------------------------------------------------------------------------- */

/* A script element may not contain "<". In JSON it occurs only in strings, where it can be escaped. */
static int put_escaped(const char *bytes, size_t count, void *data) {
    for (size_t i = 0; i < count; i++)
        if (bytes[i] == '<')
            fputs("\\u003c", data);
        else
            putc(bytes[i], data);
    return 0;
}

static bt_status write_page(json_t *trace, const char *path) {
    BTI_WRITES;
    FILE *file = fopen(path, "we");
    if (!file) return bti_fail(BT_NOT_FOUND, "%s cannot be written: %s", path, strerror(errno));
    const char *page = (const char *)page_bytes, *place = strstr(page, mark), *rest = place + strlen(mark);
    fwrite(page, 1, (size_t)(place - page), file);
    bool failed = json_dump_callback(trace, put_escaped, file, JSON_COMPACT | JSON_REAL_PRECISION(15)) != 0;
    fputs(rest, file);
    failed = fflush(file) || ferror(file) || failed;
    int cause = errno;
    failed = fclose(file) || failed;
    return failed ? bti_fail(BT_UNKNOWN, "%s cannot be written: %s", path, strerror(cause)) : BT_OK;
}

bt_status bt_trace_page(const char *trace_file, const char *html_file) {
    BTI_PUBLIC("bt_trace_page");
    if (!trace_file || !html_file) return bti_fail(BT_INVALID_ARGUMENT, "the name of a file is NULL");
    json_error_t fault;
    if (access(trace_file, R_OK)) return bti_fail(BT_NOT_FOUND, "%s cannot be read: %s", trace_file, strerror(errno));
    json_t *trace = json_load_file(trace_file, 0, &fault);
    if (!trace) return bti_fail(BT_DATA_LOSS, "%s: line %d: %s", trace_file, fault.line, fault.text);
    bt_status status = check_trace(trace, trace_file);
    if (status == BT_OK) status = write_page(trace, html_file);
    json_decref(trace);
    return status;
}
