/* Taking GPUs among programs, and giving them back. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "array/handle.h"
#include "base/alloc.h"
#include "base/log.h"
#include "base/quote.h"
#include "base/sized.h"
#include "task/lease.h"

enum { LOOK_MS = 20, GATE_MS = 1, GATE_PATIENCE_S = 10, TELL_AFTER_S = 1 };

typedef struct leased {
    int id;
    bti_lease_file file;
} leased;

struct bt_lease {
    bti_owned head;
    pid_t owner;
    int count;
    leased *gpus; /* apart: the memory of a released lease is kept for a while */
    bti_str mask;
};

static void clear(void *object) {
    bt_lease *lease = object;
    bool own = lease->owner == getpid();
    for (int i = 0; i < lease->count; i++) {
        if (own)
            bti_lease_file_close(&lease->gpus[i].file);
        else
            close(lease->gpus[i].file.file);
    }
    bti_free(lease->gpus);
    bti_str_free(&lease->mask);
}
static const bti_handle_class lease_class = {BTI_OWNED_LEASE, sizeof(bt_lease), clear, NULL};

typedef struct taking {
    int wanted;
    uint64_t share; /* bytes on each; 0: whole GPUs */
    bool wait;
    double started, deadline; /* seconds; 0: none */
    bti_lease_record record;
    int folder, count;
    char path[256];
    bti_lease_gpu gpus[BTI_LEASE_MOST_GPUS];
    bti_lease_file files[BTI_LEASE_MOST_GPUS];
    int usable, by_name[BTI_LEASE_MOST_GPUS]; /* which could be taken, in the order of their files' names */
    bool chosen[BTI_LEASE_MOST_GPUS];
} taking;

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void sleep_ms(int ms) { nanosleep(&(struct timespec){.tv_nsec = ms * 1000000L}, NULL); }

static bool is_late(const taking *t) { return t->deadline > 0 && now() >= t->deadline; }

/* "2 GPUs with 1 GiB each" */
static void add_wish(bti_str *text, const taking *t) {
    bti_str_addf(text, "%d GPU%s", t->wanted, t->wanted == 1 ? "" : "s");
    if (!t->share) return;
    bti_str_add(text, " with ");
    bti_str_add_bytes_size(text, t->share);
    if (t->wanted > 1) bti_str_add(text, " each");
}

/* --- what could be taken ---------------------------------------------------------------------------------------------- */

static bt_status fail_for_ever(const taking *t) {
    bti_str wish = {0};
    int large = 0;
    add_wish(&wish, t);
    for (int i = 0; i < t->count; i++) large += t->gpus[i].memory_bytes >= t->share;
    const char *mask = getenv("CUDA_VISIBLE_DEVICES");
    bt_status status = t->count < t->wanted
                           ? bti_fail(BT_NOT_FOUND, "%s asked for, and there %s %d%s%s%s", bti_str_text(&wish),
                                      t->count == 1 ? "is" : "are", t->count, mask ? " (CUDA_VISIBLE_DEVICES=\"" : "",
                                      mask ? bti_quote(mask).text : "", mask ? "\")" : "")
                           : bti_fail(BT_NOT_FOUND, "%s asked for, and of %d only %d %s so much memory",
                                      bti_str_text(&wish), t->count, large, large == 1 ? "has" : "have");
    bti_str_free(&wish);
    return status;
}

static bt_status find_usable(taking *t) {
    int large = 0, broken = -1;
    BTI_TRY(bti_lease_list_gpus(t->gpus, &t->count));
    for (int i = 0; i < t->count; i++) large += t->gpus[i].memory_bytes >= t->share;
    if (large < t->wanted) return fail_for_ever(t);
    BTI_TRY(bti_lease_folder_open(&t->folder, t->path));
    for (int i = 0; i < t->count; i++) {
        bti_lease_file *f = &t->files[i];
        f->file = -1;
        if (t->gpus[i].memory_bytes < t->share) continue;
        bti_lease_file_open(f, t->folder, t->gpus[i].name);
        if (f->file < 0 && broken < 0) broken = i;
        if (f->file < 0) continue;
        int at = t->usable++;
        for (; at && strcmp(t->files[t->by_name[at - 1]].name, f->name) > 0; at--) t->by_name[at] = t->by_name[at - 1];
        t->by_name[at] = i;
    }
    if (t->usable >= t->wanted) return BT_OK;
    return bti_fail(BT_UNAVAILABLE, "GPU %d cannot be leased: its lock file %s/%s: %s", t->gpus[broken].id, t->path,
                    t->files[broken].name, bti_lease_file_fault(&t->files[broken]));
}

/* --- the queue --------------------------------------------------------------------------------------------------------- */

static void open_gates(const taking *t, int count) {
    for (int k = 0; k < count; k++) bti_lease_gate_open(&t->files[t->by_name[k]]);
}

static bt_status pass_gates(taking *t) {
    double patience = t->wait ? t->deadline : now() + GATE_PATIENCE_S;
    for (int k = 0; k < t->usable;) {
        if (bti_lease_gate_try(&t->files[t->by_name[k]])) {
            k++;
        } else if (patience > 0 && now() >= patience) {
            open_gates(t, k);
            return bti_fail(t->wait ? BT_DEADLINE_EXCEEDED : BT_RESOURCE_EXHAUSTED,
                            "the queue for GPU %d does not move: who draws a ticket there has stopped",
                            t->gpus[t->by_name[k]].id);
        } else {
            sleep_ms(GATE_MS);
        }
    }
    return BT_OK;
}

static bt_status draw_tickets(taking *t) {
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

/* Of GPUs that are free for it, whole ones from the lowest on; shares where the least is left, so that others stay whole. */
static bool choose(taking *t) {
    uint64_t room[BTI_LEASE_MOST_GPUS] = {0};
    memset(t->chosen, 0, sizeof t->chosen);
    for (int k = 0; k < t->usable; k++) {
        int i = t->by_name[k];
        if (t->share)
            room[i] = bti_lease_free_bytes(&t->files[i], t->gpus[i].memory_bytes);
        else
            room[i] = bti_lease_is_free(&t->files[i]);
    }
    uint64_t least = t->share ? t->share : 1;
    for (int found = 0; found < t->wanted; found++) {
        int best = -1;
        for (int i = 0; i < t->count; i++)
            if (!t->chosen[i] && room[i] >= least && (best < 0 || room[i] < room[best])) best = i;
        if (best < 0) return false;
        t->chosen[best] = true;
    }
    return true;
}

static bool hold_chosen(taking *t) {
    for (int i = 0; i < t->count; i++) {
        if (!t->chosen[i] || bti_lease_hold(&t->files[i], t->share, t->gpus[i].memory_bytes)) continue;
        while (--i >= 0)
            if (t->chosen[i]) bti_lease_let_go(&t->files[i]);
        return false;
    }
    return true;
}

static bt_status try(taking *t, bool *taken) {
    for (int k = 0; k < t->usable; k++) {
        bti_lease_file *f = &t->files[t->by_name[k]];
        if (bti_lease_is_behind(f)) return BT_OK;
        if (!bti_lease_file_stands(f))
            return bti_fail(BT_UNAVAILABLE, "the lock file %s/%s was deleted or replaced", t->path, f->name);
    }
    *taken = choose(t) && hold_chosen(t);
    return BT_OK;
}

/* --- waiting ----------------------------------------------------------------------------------------------------------- */

/* ": GPU 0 is held by process 7 ..." */
static void add_reasons(bti_str *text, const taking *t) {
    bti_str holders = {0};
    bti_lease_add_holders(&holders, t->gpus, t->files, t->count);
    if (holders.length > 2) bti_str_addf(text, ": %s", bti_str_text(&holders) + 2);
    bti_str_free(&holders);
}

static bt_status fail_for_now(const taking *t) {
    bti_str text = {0};
    bti_str_add(&text, "there are no ");
    add_wish(&text, t);
    bti_str_add(&text, " free");
    if (t->wait) bti_str_addf(&text, " after %.3g seconds", now() - t->started);
    add_reasons(&text, t);
    bt_status status = bti_fail(t->wait ? BT_DEADLINE_EXCEEDED : BT_RESOURCE_EXHAUSTED, "%s", bti_str_text(&text));
    bti_str_free(&text);
    return status;
}

static void log_wait(const taking *t) {
    bti_str text = {0};
    bti_str_add(&text, "waiting for ");
    add_wish(&text, t);
    add_reasons(&text, t);
    bti_log("%s", bti_str_text(&text));
    bti_str_free(&text);
}

static void tell(taking *t, bool waits) {
    t->record.waits = waits;
    t->record.since = (int64_t)time(NULL);
    for (int k = 0; k < t->usable; k++)
        if (waits || t->chosen[t->by_name[k]]) bti_lease_tell(&t->files[t->by_name[k]], &t->record);
}

static bt_status wait_for_turn(taking *t) {
    bool taken = false, told = false;
    tell(t, true);
    while (!taken) {
        if (is_late(t)) return fail_for_now(t);
        sleep_ms(LOOK_MS);
        BTI_TRY(try(t, &taken));
        if (!taken && !told && now() - t->started > TELL_AFTER_S) told = true, log_wait(t);
    }
    return BT_OK;
}

static bt_status take(taking *t) {
    bool taken = false;
    BTI_TRY(find_usable(t));
    BTI_TRY(pass_gates(t));
    bt_status status = draw_tickets(t);
    if (status == BT_OK) status = try(t, &taken); /* behind the gates: who asks next finds it done */
    if (taken) tell(t, false);
    if (status == BT_OK && !taken && !t->wait) status = fail_for_now(t);
    open_gates(t, t->usable);
    if (status != BT_OK || taken) return status;
    BTI_TRY(wait_for_turn(t));
    tell(t, false);
    return BT_OK;
}

/* --- the lease --------------------------------------------------------------------------------------------------------- */

static void read_command_line(char *text, size_t size) {
    int file = open("/proc/self/cmdline", O_RDONLY | O_CLOEXEC);
    ssize_t length = file >= 0 ? read(file, text, size - 1) : 0;
    if (file >= 0) close(file);
    if (length < 0) length = 0;
    while (length && !text[length - 1]) length--;
    for (ssize_t i = 0; i < length; i++)
        if (!text[i]) text[i] = ' ';
    text[length] = '\0';
}

#define MEMBER(name) BTI_MEMBER(bt_lease_options, name)
static const bti_member members[] = {MEMBER(size),   MEMBER(num_gpus),        MEMBER(memory_bytes),
                                     MEMBER(wait),   MEMBER(timeout_seconds), MEMBER(command),
                                     MEMBER(inherit)};
#undef MEMBER
static const bti_sized_type layout =
    BTI_SIZED_TYPE(bt_lease_options, "options", "BT_LEASE(.num_gpus = 1)", members, NULL);

static bt_status read_options(taking *t, const bt_lease_options *o) {
    char line[256];
    t->folder = -1;
    if (o->num_gpus < 0 || o->num_gpus > BTI_LEASE_MOST_GPUS)
        return bti_fail(BT_INVALID_ARGUMENT, "bt_lease_take: %d GPUs; it can be 1 to %d", o->num_gpus,
                        BTI_LEASE_MOST_GPUS);
    if (o->memory_bytes > (uint64_t)1 << 60)
        return bti_fail(BT_INVALID_ARGUMENT, "bt_lease_take: a share of more than an exbibyte");
    read_command_line(line, sizeof line);
    t->wanted = o->num_gpus ? o->num_gpus : 1;
    t->share = o->memory_bytes;
    t->wait = o->wait;
    t->started = now();
    t->deadline = o->wait && o->timeout_seconds > 0 ? t->started + o->timeout_seconds : 0;
    t->record = (bti_lease_record){.pid = getpid(), .memory_bytes = t->share, .num_gpus = t->wanted};
    memcpy(t->record.command, bti_quote(o->command ? o->command : line).text, sizeof t->record.command);
    return BT_OK;
}

static void move_into(bt_lease *lease, taking *t, bool inherit) {
    lease->owner = getpid();
    for (int i = 0; i < t->count; i++) {
        if (!t->chosen[i]) continue;
        bti_lease_drop_ticket(&t->files[i]);
        if (inherit) fcntl(t->files[i].file, F_SETFD, 0);
        bti_str_addf(&lease->mask, "%s%s", lease->count ? "," : "", t->gpus[i].entry);
        lease->gpus[lease->count++] = (leased){t->gpus[i].id, t->files[i]};
        t->files[i].file = -1;
    }
}

static void end_taking(taking *t) {
    for (int i = 0; t->folder >= 0 && i < t->count; i++) bti_lease_file_close(&t->files[i]);
    if (t->folder >= 0) close(t->folder);
    bti_free(t);
}

bt_lease *(bt_lease_take)(const bt_lease_options *options) {
    bt_lease_options known;
    if (bti_options_take(&layout, "bt_lease_take", options, &known) != BT_OK) return NULL;
    taking *t = bti_calloc(1, sizeof *t);
    bt_lease *lease = bti_owned_new(BTI_OWNED_LEASE, sizeof *lease);
    if (lease) lease->gpus = bti_calloc(BTI_LEASE_MOST_GPUS, sizeof *lease->gpus);
    bt_status status =
        t && lease && lease->gpus ? read_options(t, &known) : bti_fail(BT_RESOURCE_EXHAUSTED, "out of host memory");
    if (t && status == BT_OK) status = take(t);
    if (t && status == BT_OK) {
        move_into(lease, t, known.inherit);
        if (lease->mask.failed) status = bti_fail(BT_RESOURCE_EXHAUSTED, "out of host memory");
    }
    if (t) end_taking(t);
    if (status == BT_OK) return lease;
    bt_lease_release(lease);
    return NULL;
}

int bt_lease_gpus(const bt_lease *lease, int *ids, int capacity) {
    if (!lease || bti_handle_check(BTI_OWNED_LEASE, lease, "bt_lease_gpus") != BT_OK) return 0;
    for (int i = 0; ids && i < lease->count && i < capacity; i++) ids[i] = lease->gpus[i].id;
    return lease->count;
}

const char *bt_lease_mask(const bt_lease *lease) {
    if (!lease || bti_handle_check(BTI_OWNED_LEASE, lease, "bt_lease_mask") != BT_OK) return "";
    return bti_str_text(&lease->mask);
}

void bt_lease_release(bt_lease *lease) { bti_handle_release(&lease_class, lease, "bt_lease_release"); }
