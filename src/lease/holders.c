#include "lease/holders.h"

#include <inttypes.h>
#include <jansson.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <berth/task.h>

#include "base/alloc.h"
#include "device/cards.h"

enum { MOST_NAMED = 3 }; /* how many holders of one GPU a message names */

/* --- which GPUs there are -------------------------------------------------------------------------------------------- */

/* The mask shows the devices of its entries up to the first entry that is no device (docs/visibility.md). */
static void number_gpus(bti_lease_gpu *gpus, int count, const char *mask) {
    for (int i = 0; i < count; i++) {
        char *end;
        gpus[i].id = i;
        snprintf(gpus[i].entry, sizeof gpus[i].entry, "%d", i);
        if (!mask) continue;
        mask += strspn(mask, " \t\n\v\f\r");
        snprintf(gpus[i].entry, sizeof gpus[i].entry, "%.*s", (int)strcspn(mask, ","), mask);
        long id = strtol(mask, &end, 10);
        if (end > mask) {
            gpus[i].id = (int)id;
            snprintf(gpus[i].entry, sizeof gpus[i].entry, "%ld", id);
        }
        mask += strcspn(mask, ",");
        mask += *mask == ',';
    }
}

bt_status bti_lease_list_gpus(bti_lease_gpu *gpus, int *count) {
    bti_card *cards = bti_calloc(BTI_LEASE_MOST_GPUS, sizeof *cards);
    *count = 0;
    if (!cards) return bti_no_memory();
    bt_status status = bti_cards_ask(cards, BTI_LEASE_MOST_GPUS, count);
    if (*count > BTI_LEASE_MOST_GPUS) *count = BTI_LEASE_MOST_GPUS;
    bti_mask mask = bti_mask_of(*count ? cards[0].vendor : BTI_NVIDIA);
    for (int i = 0; i < *count; i++) {
        gpus[i] = (bti_lease_gpu){.memory_bytes = cards[i].memory_bytes, .variable = mask.variable};
        memcpy(gpus[i].name, cards[i].name, sizeof gpus[i].name);
    }
    number_gpus(gpus, *count, mask.list);
    for (int i = 0; i < *count && !mask.list && bti_cards_are_split(cards, *count); i++)
        snprintf(gpus[i].entry, sizeof gpus[i].entry, "%s", cards[i].name);
    bti_free(cards);
    return status;
}

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
static void add_record(bti_str *text, const bti_lease_record *r) {
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

/* The next record of another process. A process that hands out its own lease has two records: only one is returned. */
static bool next_distinct_record(const bti_lease_file *f, int *at, bti_lease_record *r) {
    while (bti_lease_next_record(f, at, r)) {
        bti_lease_record before = {0};
        bool repeated = false;
        for (int earlier = 0; !repeated && bti_lease_next_record(f, &earlier, &before) && earlier < *at;)
            repeated = before.readable && r->readable && before.pid == r->pid && before.waits == r->waits;
        if (!repeated) return true;
    }
    return false;
}

/* Adds those that hold (or wait), each after `before`, up to `most`; returns how many there are. */
static int add_records(bti_str *text, const bti_lease_file *f, bool waits, const char *before, int most) {
    bti_lease_record r;
    int count = 0;
    for (int at = 0; next_distinct_record(f, &at, &r);) {
        if (r.waits != waits || ++count > most) continue;
        bti_str_add(text, before);
        add_record(text, &r);
    }
    if (count > most) bti_str_addf(text, "%s%d others", before, count - most);
    return count;
}

void bti_lease_add_holders(bti_str *text, const bti_lease_gpu *gpus, const bti_lease_file *files, int count) {
    for (int i = 0; i < count; i++) {
        char before[48];
        if (files[i].file < 0) continue;
        snprintf(before, sizeof before, ", GPU %d is held by ", gpus[i].id);
        if (!add_records(text, &files[i], false, before, MOST_NAMED) && !bti_lease_is_free(&files[i]))
            bti_str_addf(text, "%sa process that has not told of itself", before);
        snprintf(before, sizeof before, ", GPU %d is waited for by ", gpus[i].id);
        add_records(text, &files[i], true, before, 1);
    }
}

static void add_gpu_lines(bti_str *text, const bti_lease_gpu *gpu, const bti_lease_file *f) {
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
    add_records(text, f, false, "\n  held by ", INT_MAX);
    add_records(text, f, true, "\n  waited for by ", INT_MAX);
    bti_str_add(text, "\n");
}

/* --- as JSON ----------------------------------------------------------------------------------------------------------- */

static json_t *record_json(const bti_lease_record *r) {
    if (!r->readable) return json_pack("{s:n}", "pid");
    return json_pack("{s:I, s:I, s:i, s:o, s:s}", "pid", (json_int_t)r->pid, "since", (json_int_t)r->since, "num_gpus",
                     r->num_gpus, "bytes", r->memory_bytes ? json_integer((json_int_t)r->memory_bytes) : json_null(),
                     "command", r->command);
}

static json_t *lease_gpu_json(const bti_lease_gpu *gpu, const bti_lease_file *f) {
    json_t *holders = json_array(), *waiters = json_array();
    bti_lease_record r;
    for (int at = 0; f->file >= 0 && next_distinct_record(f, &at, &r);)
        json_array_append_new(r.waits ? waiters : holders, record_json(&r));
    uint64_t left = f->file < 0 ? 0 : bti_lease_free_bytes(f, gpu->memory_bytes);
    return json_pack("{s:i, s:s, s:I, s:I, s:b, s:o, s:o, s:o}", "gpu", gpu->id, "uuid", gpu->name, "bytes",
                     (json_int_t)gpu->memory_bytes, "free_bytes", (json_int_t)left, "free",
                     f->file >= 0 && bti_lease_is_free(f), "fault",
                     f->file < 0 ? json_string(bti_lease_file_fault(f)) : json_null(), "holders", holders, "waiters",
                     waiters);
}

static char *holders_json(const bti_lease_gpu *gpus, const bti_lease_file *files, int count, const char *path) {
    json_t *list = json_array();
    for (int i = 0; i < count; i++) json_array_append_new(list, lease_gpu_json(&gpus[i], &files[i]));
    json_t *all = json_pack("{s:s, s:o}", "folder", path, "gpus", list);
    char *written = all ? json_dumps(all, JSON_INDENT(2)) : NULL;
    char *text = written ? bti_strdup(written) : NULL;
    free(written);
    json_decref(all);
    return text;
}

static char *holders_lines(const bti_lease_gpu *gpus, const bti_lease_file *files, int count, const char *path) {
    bti_str text = {0};
    for (int i = 0; i < count; i++) add_gpu_lines(&text, &gpus[i], &files[i]);
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
    char *text = (json ? holders_json : holders_lines)(gpus, files, count, path);
    for (int i = 0; i < count; i++) bti_lease_file_close(&files[i]);
    close(folder);
    if (!text) (void)!bti_no_memory();
    return text;
}
