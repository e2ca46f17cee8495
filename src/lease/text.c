/* Who holds what, for people and as JSON. */
#include <inttypes.h>
#include <jansson.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "lease/lease.h"

enum { MOST_NAMED = 3 }; /* of one GPU, in a message */

/* --- in words --------------------------------------------------------------------------------------------------------- */

static void add_since(bti_str *text, int64_t since) {
    time_t then = (time_t)since, now = time(NULL);
    struct tm day;
    char written[40];
    if (!localtime_r(&then, &day)) return;
    bool recent = now - then < 12 * 3600 && then <= now;
    if (strftime(written, sizeof written, recent ? "%H:%M:%S" : "%Y-%m-%d %H:%M:%S", &day))
        bti_str_addf(text, " since %s", written);
}

/* "process 7 since 12:00:00 (1 GiB, ./train)" */
static void add_process(bti_str *text, const bti_lease_record *r) {
    if (!r->readable) {
        bti_str_add(text, "a process that has not told of itself");
        return;
    }
    bti_str_addf(text, "process %ld", r->pid);
    add_since(text, r->since);
    bti_str_add(text, " (");
    if (r->memory_bytes) bti_str_add_bytes_size(text, r->memory_bytes);
    if (r->waits)
        bti_str_addf(text, "%s%d GPU%s", r->memory_bytes ? " on " : "", r->num_gpus, r->num_gpus == 1 ? "" : "s");
    bti_str_addf(text, "%s%s)", r->memory_bytes || r->waits ? ", " : "", r->command);
}

/* Those of others that stand. A process that hands out its own lease has two records: one is told of. */
static bool next_process(const bti_lease_file *f, int *at, bti_lease_record *r) {
    while (bti_lease_next_record(f, at, r)) {
        bti_lease_record before = {0};
        bool repeated = false;
        for (int earlier = 0; !repeated && bti_lease_next_record(f, &earlier, &before) && earlier < *at;)
            repeated = before.readable && r->readable && before.pid == r->pid && before.waits == r->waits;
        if (!repeated) return true;
    }
    return false;
}

/* Each of those who hold (or wait), after `before`, up to so many; how many there are. */
static int add_processes(bti_str *text, const bti_lease_file *f, bool waits, const char *before, int most) {
    bti_lease_record r;
    int count = 0;
    for (int at = 0; next_process(f, &at, &r);) {
        if (r.waits != waits || ++count > most) continue;
        bti_str_add(text, before);
        add_process(text, &r);
    }
    if (count > most) bti_str_addf(text, "%s%d others", before, count - most);
    return count;
}

void bti_lease_add_holders(bti_str *text, const bti_lease_gpu *gpus, const bti_lease_file *files, int count) {
    for (int i = 0; i < count; i++) {
        char before[48];
        if (files[i].file < 0) continue;
        snprintf(before, sizeof before, ", GPU %d is held by ", gpus[i].id);
        if (!add_processes(text, &files[i], false, before, MOST_NAMED) && !bti_lease_is_free(&files[i]))
            bti_str_addf(text, "%sa process that has not told of itself", before);
        snprintf(before, sizeof before, ", GPU %d is waited for by ", gpus[i].id);
        add_processes(text, &files[i], true, before, 1);
    }
}

static void add_lines(bti_str *text, const bti_lease_gpu *gpu, const bti_lease_file *f) {
    bti_str_addf(text, "GPU %d", gpu->id);
    if (gpu->memory_bytes) bti_str_add(text, ", "), bti_str_add_bytes_size(text, gpu->memory_bytes);
    if (f->file < 0) {
        bti_str_addf(text, ": cannot be leased: %s: %s\n", f->name, bti_lease_file_fault(f));
        return;
    }
    if (bti_lease_is_free(f)) {
        bti_str_add(text, ": free");
    } else {
        uint64_t left = bti_lease_free_bytes(f, gpu->memory_bytes);
        bti_str_add(text, ": ");
        if (left) bti_str_add_bytes_size(text, left), bti_str_add(text, " free");
        if (!left) bti_str_add(text, "held");
    }
    add_processes(text, f, false, "\n  held by ", INT_MAX);
    add_processes(text, f, true, "\n  waited for by ", INT_MAX);
    bti_str_add(text, "\n");
}

/* --- as JSON ----------------------------------------------------------------------------------------------------------- */

static json_t *process_json(const bti_lease_record *r) {
    if (!r->readable) return json_pack("{s:n}", "pid");
    return json_pack("{s:I, s:I, s:i, s:o, s:s}", "pid", (json_int_t)r->pid, "since", (json_int_t)r->since, "num_gpus",
                     r->num_gpus, "bytes", r->memory_bytes ? json_integer((json_int_t)r->memory_bytes) : json_null(),
                     "command", r->command);
}

static json_t *gpu_json(const bti_lease_gpu *gpu, const bti_lease_file *f) {
    json_t *holders = json_array(), *waiters = json_array();
    bti_lease_record r;
    for (int at = 0; f->file >= 0 && next_process(f, &at, &r);)
        json_array_append_new(r.waits ? waiters : holders, process_json(&r));
    uint64_t left = f->file < 0 ? 0 : bti_lease_free_bytes(f, gpu->memory_bytes);
    return json_pack("{s:i, s:s, s:I, s:I, s:b, s:o, s:o, s:o}", "gpu", gpu->id, "uuid", gpu->name, "bytes",
                     (json_int_t)gpu->memory_bytes, "free_bytes", (json_int_t)left, "free",
                     f->file >= 0 && bti_lease_is_free(f), "fault",
                     f->file < 0 ? json_string(bti_lease_file_fault(f)) : json_null(), "holders", holders, "waiters",
                     waiters);
}

static char *as_json(const bti_lease_gpu *gpus, const bti_lease_file *files, int count, const char *path) {
    json_t *list = json_array();
    for (int i = 0; i < count; i++) json_array_append_new(list, gpu_json(&gpus[i], &files[i]));
    json_t *all = json_pack("{s:s, s:o}", "folder", path, "gpus", list);
    char *written = all ? json_dumps(all, JSON_INDENT(2)) : NULL;
    char *text = written ? bti_strdup(written) : NULL;
    free(written);
    json_decref(all);
    return text;
}

static char *as_lines(const bti_lease_gpu *gpus, const bti_lease_file *files, int count, const char *path) {
    bti_str text = {0};
    for (int i = 0; i < count; i++) add_lines(&text, &gpus[i], &files[i]);
    if (!count) bti_str_add(&text, "no GPU is visible (`berth doctor` says why)\n");
    bti_str_addf(&text, "lock files: %s\n", path);
    return bti_str_take(&text);
}

char *(bt_leases_text)(bool json) {
    bti_lease_gpu gpus[BTI_LEASE_MOST_GPUS];
    bti_lease_file files[BTI_LEASE_MOST_GPUS];
    char path[256];
    int count, folder;
    if (bti_lease_list_gpus(gpus, &count) != BT_OK || bti_lease_folder_open(&folder, path) != BT_OK) return NULL;
    for (int i = 0; i < count; i++) bti_lease_file_open(&files[i], folder, gpus[i].name);
    char *text = (json ? as_json : as_lines)(gpus, files, count, path);
    for (int i = 0; i < count; i++) bti_lease_file_close(&files[i]);
    close(folder);
    if (!text) (void)!bti_no_memory();
    return text;
}
