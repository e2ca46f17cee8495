#include "lease/take.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/file_text.h"
#include "base/log.h"
#include "base/quote.h"

enum { LOOK_MS = 20, GATE_MS = 1, GATE_PATIENCE_S = 10, TELL_AFTER_S = 1 };

static void sleep_ms(int ms) { nanosleep(&(struct timespec){.tv_nsec = ms * 1000000L}, NULL); }

static bool is_late(const bti_taking *t) { return t->deadline > 0 && bti_now_seconds() >= t->deadline; }

static void add_memory_share(bti_str *text, const bti_taking *t) {
    if (!t->share) return;
    bti_str_add(text, " with ");
    bti_str_add_bytes_size(text, t->share);
    if (t->wanted > 1) bti_str_add(text, " each");
}

/* "2 GPUs with 1 GiB each" */
static void add_wish(bti_str *text, const bti_taking *t) {
    bti_str_addf(text, "%d GPU%s", t->wanted, t->wanted == 1 ? "" : "s");
    add_memory_share(text, t);
}

/* --- what could be taken ---------------------------------------------------------------------------------------------- */

static bt_status fail_impossible(const bti_taking *t) {
    bti_str wish = {0};
    int large = 0;
    add_wish(&wish, t);
    for (int i = 0; i < t->count; i++) large += t->gpus[i].memory_bytes >= t->share;
    const char *variable = t->count ? t->gpus[0].variable : "CUDA_VISIBLE_DEVICES", *mask = getenv(variable);
    bt_status status = t->count < t->wanted
                           ? bti_fail(BT_NOT_FOUND, "%s asked for, and there %s %d%s%s%s%s%s", bti_str_text(&wish),
                                      t->count == 1 ? "is" : "are", t->count, mask ? " (" : "", mask ? variable : "",
                                      mask ? "=\"" : "", mask ? bti_quote(mask).text : "", mask ? "\")" : "")
                           : bti_fail(BT_NOT_FOUND, "%s asked for, and of %d only %d %s so much memory",
                                      bti_str_text(&wish), t->count, large, large == 1 ? "has" : "have");
    bti_str_free(&wish);
    return status;
}

static void add_usable(bti_taking *t, int i) {
    int at = t->usable++;
    for (; at && strcmp(t->files[t->by_name[at - 1]].name, t->files[i].name) > 0; at--)
        t->by_name[at] = t->by_name[at - 1];
    t->by_name[at] = i;
}

/* With enough GPUs in leases that this process has already, it does not queue for others. */
static void close_other_files(bti_taking *t) {
    t->usable = 0;
    for (int i = 0; i < t->count; i++)
        if (!t->enclosing[i]) bti_lease_file_close(&t->files[i]);
}

static bt_status open_files(bti_taking *t) {
    int broken = -1, enclosed = 0, idle = 0, open_before[BTI_LEASE_MOST_GPUS];
    int open_count = t->runtime ? bti_lease_find_open(open_before, BTI_LEASE_MOST_GPUS) : 0;
    BTI_TRY(bti_lease_folder_open(&t->folder, t->path));
    for (int i = 0; i < t->count; i++) {
        bti_lease_file *f = &t->files[i];
        f->file = -1;
        if (t->gpus[i].memory_bytes < t->share) continue;
        bti_lease_file_open(f, t->folder, t->gpus[i].name);
        if (f->file < 0 && broken < 0) broken = i;
        if (f->file < 0) continue;
        t->enclosing[i] = bti_lease_find_enclosing(f, open_before, open_count);
        if (!t->enclosing[i]) {
            add_usable(t, i);
            continue;
        }
        enclosed++;
        idle += !bti_lease_is_adopted(f, t->enclosing[i]);
    }
    if (enclosed + t->usable < t->wanted)
        return bti_fail(BT_UNAVAILABLE,
                        "GPU %d cannot be leased: its lock file %s/%s: %s (BERTH_LEASES names another folder)",
                        t->gpus[broken].id, t->path, t->files[broken].name, bti_lease_file_fault(&t->files[broken]));
    if (idle >= t->wanted) close_other_files(t);
    return BT_OK;
}

static bt_status check_possible(const bti_taking *t) {
    int large = 0;
    for (int i = 0; i < t->count; i++) large += t->gpus[i].memory_bytes >= t->share;
    return large < t->wanted ? fail_impossible(t) : BT_OK;
}

/* --- the queue --------------------------------------------------------------------------------------------------------- */

static void open_gates(const bti_taking *t, int count) {
    for (int k = 0; k < count; k++) bti_lease_gate_open(&t->files[t->by_name[k]]);
}

static bt_status pass_gates(bti_taking *t) {
    double patience = t->wait ? t->deadline : bti_now_seconds() + GATE_PATIENCE_S;
    for (int k = 0; k < t->usable;) {
        if (bti_lease_gate_try(&t->files[t->by_name[k]])) {
            k++;
        } else if (patience > 0 && bti_now_seconds() >= patience) {
            open_gates(t, k);
            return bti_fail(t->wait ? BT_DEADLINE_EXCEEDED : BT_RESOURCE_EXHAUSTED,
                            "the queue for GPU %d does not move: the process that draws a ticket there has stopped",
                            t->gpus[t->by_name[k]].id);
        } else {
            sleep_ms(GATE_MS);
        }
    }
    return BT_OK;
}

static bt_status draw_tickets(bti_taking *t) {
    int64_t ticket = 0;
    for (int k = 0; k < t->usable; k++) {
        int64_t next = bti_lease_next_ticket(&t->files[t->by_name[k]]);
        if (next > ticket) ticket = next;
    }
    for (int k = 0; k < t->usable; k++)
        if (!bti_lease_draw_ticket(&t->files[t->by_name[k]], ticket))
            return bti_fail(BT_UNAVAILABLE, "the lock file %s/%s cannot be locked", t->path,
                            t->files[t->by_name[k]].name);
    return BT_OK;
}

/* How much of GPU i is free. Of several GPUs with enough the one with the least is chosen. */
static uint64_t room_of(const bti_taking *t, int i) {
    enum { OWN = 1, OTHERS = 2 };
    const bti_lease_file *f = &t->files[i];
    if (f->file < 0) return 0;
    if (t->enclosing[i]) return bti_lease_is_adopted(f, t->enclosing[i]) ? 0 : OWN;
    return t->share ? bti_lease_free_bytes(f, t->gpus[i].memory_bytes) : bti_lease_is_free(f) ? OTHERS : 0;
}

/* Whole GPUs from the lowest on; shares where the least is left, so that other GPUs stay whole. */
static bool choose_gpus(bti_taking *t) {
    uint64_t room[BTI_LEASE_MOST_GPUS], least = t->share ? t->share : 1;
    memset(t->chosen, 0, sizeof t->chosen);
    for (int i = 0; i < t->count; i++) room[i] = room_of(t, i);
    for (int found = 0; found < t->wanted; found++) {
        int best = -1;
        for (int i = 0; i < t->count; i++)
            if (!t->chosen[i] && room[i] >= least && (best < 0 || room[i] < room[best])) best = i;
        if (best < 0) return false;
        t->chosen[best] = true;
    }
    return true;
}

static bool hold_gpu(const bti_taking *t, int i) {
    if (t->enclosing[i]) return bti_lease_adopt(&t->files[i], t->enclosing[i]);
    return bti_lease_hold(&t->files[i], t->share, t->gpus[i].memory_bytes);
}

static bool hold_chosen(const bti_taking *t) {
    for (int i = 0; i < t->count; i++) {
        if (!t->chosen[i] || hold_gpu(t, i)) continue;
        while (--i >= 0)
            if (t->chosen[i]) bti_lease_let_go(&t->files[i]);
        return false;
    }
    return true;
}

static bt_status try_to_hold(bti_taking *t, bool *taken) {
    for (int k = 0; k < t->usable; k++) {
        bti_lease_file *f = &t->files[t->by_name[k]];
        if (bti_lease_is_behind(f)) return BT_OK;
        if (!bti_lease_file_stands(f))
            return bti_fail(BT_UNAVAILABLE, "the lock file %s/%s was deleted or replaced", t->path, f->name);
    }
    *taken = choose_gpus(t) && hold_chosen(t);
    return BT_OK;
}

/* --- waiting ----------------------------------------------------------------------------------------------------------- */

/* ": GPU 0 is held by process 7 ..." */
static void add_reasons(bti_str *text, const bti_taking *t) {
    bti_str holders = {0};
    bti_lease_add_holders(&holders, t->gpus, t->files, t->count);
    if (holders.length > 2) bti_str_addf(text, ": %s", bti_str_text(&holders) + 2);
    bti_str_free(&holders);
}

static bt_status fail_not_free(const bti_taking *t) {
    bti_str text = {0};
    if (t->wanted == 1)
        bti_str_add(&text, "there is no GPU");
    else
        bti_str_addf(&text, "there are no %d GPUs", t->wanted);
    add_memory_share(&text, t);
    bti_str_add(&text, " free");
    if (t->wait) bti_str_addf(&text, " after %.3g seconds", bti_now_seconds() - t->started);
    add_reasons(&text, t);
    if (t->runtime && !t->wait) bti_str_add(&text, " (.gpu_wait_seconds makes it wait)");
    bt_status status = bti_fail(t->wait ? BT_DEADLINE_EXCEEDED : BT_RESOURCE_EXHAUSTED, "%s", bti_str_text(&text));
    bti_str_free(&text);
    return status;
}

static void log_wait(const bti_taking *t) {
    bti_str text = {0};
    bti_str_add(&text, "waiting for ");
    add_wish(&text, t);
    add_reasons(&text, t);
    bti_log("%s", bti_str_text(&text));
    bti_str_free(&text);
}

static void write_lease_records(bti_taking *t, bool waits) {
    t->record.waits = waits;
    t->record.since = (int64_t)time(NULL);
    for (int i = 0; i < t->count; i++)
        if (t->files[i].file >= 0 && (waits || t->chosen[i])) bti_lease_tell(&t->files[i], &t->record);
}

static bt_status wait_for_turn(bti_taking *t) {
    bool taken = false, told = false;
    write_lease_records(t, true);
    while (!taken) {
        if (is_late(t)) return fail_not_free(t);
        sleep_ms(LOOK_MS);
        BTI_TRY(try_to_hold(t, &taken));
        if (!taken && !told && bti_now_seconds() - t->started > TELL_AFTER_S) told = true, log_wait(t);
    }
    return BT_OK;
}

/* Draws a ticket and tries to take, behind the gates, so that the next process sees the result. */
static bt_status take_turn(bti_taking *t, bool *taken) {
    BTI_TRY(pass_gates(t));
    bt_status status = draw_tickets(t);
    if (status == BT_OK) status = try_to_hold(t, taken);
    if (*taken) write_lease_records(t, false);
    if (status == BT_OK && !*taken && !t->wait) status = fail_not_free(t);
    open_gates(t, t->usable);
    return status;
}

bt_status bti_taking_take(bti_taking *t) {
    bool taken = false;
    BTI_TRY(check_possible(t));
    BTI_TRY(open_files(t));
    BTI_TRY(take_turn(t, &taken));
    if (!taken) {
        BTI_TRY(wait_for_turn(t));
        write_lease_records(t, false);
    }
    for (int i = 0; i < t->count; i++)
        if (t->chosen[i]) bti_lease_drop_ticket(&t->files[i]);
    return BT_OK;
}

/* --- its life ----------------------------------------------------------------------------------------------------------- */

static void read_command_line(char *text, size_t size) {
    size_t length = bti_file_text("/proc/self/cmdline", text, size);
    while (length && !text[length - 1]) length--;
    for (size_t i = 0; i < length; i++)
        if (!text[i]) text[i] = ' ';
    text[length] = '\0';
}

bti_taking *bti_taking_new(int wanted, double seconds, const char *command) {
    char line[256];
    bti_taking *t = bti_calloc(1, sizeof *t);
    if (!t) return (void)!bti_no_memory(), NULL;
    t->folder = -1;
    t->wanted = wanted;
    t->wait = !(seconds >= 0 && seconds <= 0);
    t->started = bti_now_seconds();
    t->deadline = seconds > 0 && seconds < 1e9 ? t->started + seconds : 0;
    read_command_line(line, sizeof line);
    t->record = (bti_lease_record){.pid = getpid(), .num_gpus = wanted};
    memcpy(t->record.command, bti_quote(command ? command : line).text, sizeof t->record.command);
    return t;
}

void bti_taking_end(bti_taking *t) {
    if (!t) return;
    for (int i = 0; t->folder >= 0 && i < t->count; i++) bti_lease_file_close(&t->files[i]);
    if (t->folder >= 0) close(t->folder);
    bti_free(t);
}

/* --- of a runtime ------------------------------------------------------------------------------------------------------- */

bt_status bti_lease_take_for_runtime(const bti_lease_gpu *gpus, int count, int wanted, double seconds, bool *chosen,
                                     int *files) {
    bti_taking *t = bti_taking_new(wanted, seconds, NULL);
    if (!t) return bt_error_status();
    t->runtime = true;
    t->count = count;
    memcpy(t->gpus, gpus, (size_t)count * sizeof *gpus);
    bt_status status = bti_taking_take(t);
    memcpy(chosen, t->chosen, sizeof t->chosen);
    for (int i = 0; status == BT_OK && i < count; i++) {
        if (!t->chosen[i]) continue;
        *files++ = t->files[i].file;
        t->files[i].file = -1;
    }
    bti_taking_end(t);
    return status;
}
