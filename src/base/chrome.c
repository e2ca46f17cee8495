#include "base/chrome.h"

#include <inttypes.h>
#include <jansson.h>

void bti_chrome_text(bti_chrome *out, const char *text) {
    json_t *value = json_string(text);
    if (!value || json_dumpf(value, out->file, JSON_ENCODE_ANY)) fputs("\"?\"", out->file);
    json_decref(value);
}

void bti_chrome_pair(bti_chrome *out, const char *key, const char *text) {
    fprintf(out->file, ",\"%s\":", key);
    bti_chrome_text(out, text);
}

void bti_chrome_microseconds(bti_chrome *out, const char *key, uint64_t ns) {
    fprintf(out->file, ",\"%s\":%" PRIu64 ".%03u", key, ns / 1000, (unsigned)(ns % 1000));
}

static void begin_object(bti_chrome *out, char phase, int process, int lane) {
    fprintf(out->file, "%s{\"ph\":\"%c\",\"pid\":%d,\"tid\":%d", out->begun ? ",\n" : "\n", phase, process, lane);
    out->begun = true;
}

void bti_chrome_begin_at(bti_chrome *out, char phase, int process, int lane, uint64_t at_ns) {
    begin_object(out, phase, process, lane);
    bti_chrome_microseconds(out, "ts", at_ns > out->begun_ns ? at_ns - out->begun_ns : 0);
}

void bti_chrome_begin_slice(bti_chrome *out, int process, int lane, uint64_t start_ns, uint64_t end_ns,
                            const char *category) {
    bti_chrome_begin_at(out, 'X', process, lane, start_ns);
    bti_chrome_microseconds(out, "dur", end_ns - start_ns);
    fprintf(out->file, ",\"cat\":\"%s\"", category);
}

void bti_chrome_name(bti_chrome *out, const char *what, int process, int lane, const char *name) {
    begin_object(out, 'M', process, lane);
    bti_chrome_pair(out, "name", what);
    fputs(",\"args\":{\"name\":", out->file);
    bti_chrome_text(out, name);
    fputs("}}", out->file);
}

void bti_chrome_process(bti_chrome *out, int process, const char *name) {
    bti_chrome_name(out, "process_name", process, 0, name);
    begin_object(out, 'M', process, 0);
    fprintf(out->file, ",\"name\":\"process_sort_index\",\"args\":{\"sort_index\":%d}}", process);
}

void bti_chrome_head(bti_chrome *out, const char *program, int64_t process, uint64_t dropped, uint64_t ended_ns) {
    fputs("{\"displayTimeUnit\":\"ns\",\"otherData\":{\"producer\":\"berth\",\"version\":\"" BERTH_VERSION "\"",
          out->file);
    bti_chrome_pair(out, "program", program);
    fprintf(out->file, ",\"process\":%" PRId64 ",\"dropped\":%" PRIu64, process, dropped);
    bti_chrome_microseconds(out, "length_us", ended_ns - out->begun_ns);
}

void bti_chrome_events(bti_chrome *out) { fputs("},\n\"traceEvents\":[", out->file); }
void bti_chrome_end(bti_chrome *out) { fputs("\n]}\n", out->file); }
