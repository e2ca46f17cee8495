#include "base/clock.h"
#include "base/trace.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "base/lock.h"
#include "base/flags.h"
#include "base/log.h"

enum { CHUNK = 256, MOST = 250000 }; /* events */

typedef struct chunk chunk;
struct chunk {
    chunk *next;
    size_t count;
    bti_trace_event events[CHUNK];
};

/* One per thread that noted something. Its lock is contended by a collector alone. */
typedef struct writer writer;
struct writer {
    bti_lock lock;
    chunk *first, *last;
    bti_trace_thread thread;
    bool ended; /* its thread has */
    writer *next;
};

atomic_bool bti_trace_on_;
static atomic_size_t kept, most = MOST;
static atomic_uint_fast64_t dropped;

BTI_STATIC_LOCK(trace_lock, trace) /* of all below; before a writer's */
static writer *writers;
static uint32_t threads;
static int users;
static bool forked;
static char devices[BTI_TRACE_DEVICES][sizeof((bti_trace_log *)0)->devices[0]];

/* Before the other; a log sink may set flags. */
BTI_STATIC_LOCK_RECURSIVE(file_lock, trace_file)
static struct recorded_file {
    const char *flag;
    char *path; /* NULL: none is written */
    uint64_t since;
    bti_trace_writer *write;
} files[BTI_TRACE_FILES] = {[BTI_TRACE_FILE] = {.flag = "trace"}, [BTI_SUMMARY_FILE] = {.flag = "summary"}};

static _Thread_local writer *own_writer;
static _Thread_local int serves = -1;
static _Thread_local uint32_t own_run;
static atomic_uint_fast32_t runs;

uint64_t bti_trace_now(void) { return bti_clock_ns() + 1; }

/* --- threads -------------------------------------------------------------------------------------------------------- */

static pthread_once_t prepare_once = PTHREAD_ONCE_INIT;
static pthread_key_t key;

static void free_chunks(writer *w) {
    for (chunk *next; w->first; w->first = next) {
        next = w->first->next;
        bti_free(w->first);
    }
    w->last = NULL;
}

/* Under the lock. */
static void drop_ended(void) {
    for (writer **at = &writers; *at;) {
        writer *w = *at;
        if (!w->ended || w->first) {
            at = &w->next;
            continue;
        }
        *at = w->next;
        bti_lock_destroy(&w->lock);
        bti_free(w);
    }
}

static void end_thread(void *own) {
    bti_lock_take(&trace_lock);
    ((writer *)own)->ended = true;
    own_writer = NULL;
    drop_ended();
    bti_lock_give(&trace_lock);
}

/* The child of a process that records: the recording is its parent's. */
static void stop_in_forked_child(void) {
    forked = forked || users;
    atomic_store(&bti_trace_on_, false);
}

static void prepare(void) {
    pthread_key_create(&key, end_thread);
    pthread_atfork(NULL, NULL, stop_in_forked_child);
}

static writer *writer_of_thread(void) {
    if (own_writer) return own_writer;
    pthread_once(&prepare_once, prepare);
    writer *w = bti_calloc(1, sizeof *w);
    if (!w) return NULL;
    bti_lock_init(&w->lock, BTI_LOCK_trace_thread);
    bti_lock_take(&trace_lock);
    w->thread = (bti_trace_thread){.number = threads++, .serves = serves, .main = gettid() == getpid()};
    w->next = writers;
    writers = w;
    bti_lock_give(&trace_lock);
    pthread_setspecific(key, w);
    return own_writer = w;
}

/* --- noting --------------------------------------------------------------------------------------------------------- */

/* Under the writer's lock; NULL when there is no room. */
static bti_trace_event *room(writer *w) {
    if (atomic_fetch_add_explicit(&kept, 1, memory_order_relaxed) >=
        atomic_load_explicit(&most, memory_order_relaxed)) {
        atomic_fetch_sub_explicit(&kept, 1, memory_order_relaxed);
        return NULL;
    }
    if (!w->last || w->last->count == CHUNK) {
        chunk *added = bti_alloc(sizeof *added);
        if (!added) {
            atomic_fetch_sub_explicit(&kept, 1, memory_order_relaxed);
            return NULL;
        }
        added->next = NULL;
        added->count = 0;
        *(w->last ? &w->last->next : &w->first) = added;
        w->last = added;
    }
    return &w->last->events[w->last->count++];
}

void bti_trace_add(const bti_trace_event *event) {
    if (!event->start_ns || !bti_trace_on()) return;
    writer *w = writer_of_thread();
    bti_trace_event *slot = NULL;
    if (w) {
        bti_lock_take(&w->lock);
        if (bti_trace_on() && (slot = room(w))) {
            *slot = *event;
            slot->thread = w->thread.number;
            if (!slot->run) slot->run = own_run;
        }
        bti_lock_give(&w->lock);
    }
    if (!slot && bti_trace_on()) atomic_fetch_add_explicit(&dropped, 1, memory_order_relaxed);
}

static void describe(bti_trace_event *event, const char *name) {
    bti_place place = bti_call_place();
    event->file = place.site.file;
    event->line = place.site.line;
    event->operations[0] = place.name;
    event->label = place.label;
    snprintf(event->name, sizeof event->name, "%s", name);
}

static void note(bti_trace_event event, const char *name) {
    describe(&event, name);
    bti_trace_add(&event);
}

void bti_trace_span(bti_trace_kind kind, const char *name, uint64_t start_ns, uint64_t end_ns) {
    if (!start_ns) return;
    note((bti_trace_event){.kind = (uint8_t)kind,
                           .device = BTI_TRACE_HOST,
                           .to = BTI_TRACE_HOST,
                           .start_ns = start_ns,
                           .end_ns = end_ns},
         name);
}

void bti_trace_describe_copy(bti_trace_event *event, int from, int to, uint64_t bytes) {
    event->kind = BTI_TRACE_COPY;
    event->device = (int16_t)from;
    event->to = (int16_t)to;
    event->written_bytes = bytes;
    describe(event, "copy");
}

void bti_trace_copy(uint64_t start_ns, uint64_t end_ns, int from, int to, uint64_t bytes) {
    bti_trace_event event = {.start_ns = start_ns, .end_ns = end_ns};
    if (!start_ns) return;
    bti_trace_describe_copy(&event, from, to, bytes);
    bti_trace_add(&event);
}

void bti_trace_memory(int device, uint64_t in_use) {
    if (!bti_trace_on()) return;
    uint64_t now = bti_trace_now();
    bti_trace_add(&(bti_trace_event){.kind = BTI_TRACE_MEMORY,
                                     .device = (int16_t)device,
                                     .to = (int16_t)device,
                                     .start_ns = now,
                                     .end_ns = now,
                                     .written_bytes = in_use});
}

void bti_trace_zeros(int device, uint64_t bytes) {
    uint64_t now = bti_trace_begin();
    bti_trace_event event = {.kind = BTI_TRACE_ZEROS,
                             .device = (int16_t)device,
                             .to = BTI_TRACE_HOST,
                             .start_ns = now,
                             .end_ns = now,
                             .read_bytes = bytes};
    if (now) note(event, "zeros");
}

void bti_trace_submission(uint64_t start_ns, uint32_t run, uint64_t plan) {
    if (!start_ns) return;
    bti_trace_event event = {.kind = BTI_TRACE_SUBMIT,
                             .device = BTI_TRACE_HOST,
                             .to = BTI_TRACE_HOST,
                             .start_ns = start_ns,
                             .end_ns = bti_trace_now(),
                             .run = run,
                             .plan = plan};
    note(event, "submit");
}

uint32_t bti_trace_new_run(void) {
    uint32_t run = (uint32_t)atomic_fetch_add(&runs, 1) + 1;
    return run ? run : bti_trace_new_run();
}

uint32_t bti_trace_in_run(uint32_t run) {
    uint32_t before = own_run;
    own_run = run;
    return before;
}

void bti_trace_name_device(int device, const char *name) {
    if (device < 0 || device >= BTI_TRACE_DEVICES) return;
    bti_lock_take(&trace_lock);
    snprintf(devices[device], sizeof devices[device], "%s", name);
    bti_lock_give(&trace_lock);
}

void bti_trace_serve(int device) { serves = device; }

/* --- collecting ----------------------------------------------------------------------------------------------------- */

void bti_trace_start(void) {
    pthread_once(&prepare_once, prepare);
    bti_lock_take(&trace_lock);
    users++;
    if (!forked) atomic_store(&bti_trace_on_, true);
    bti_lock_give(&trace_lock);
}

void bti_trace_stop(void) {
    bti_lock_take(&trace_lock);
    if (--users == 0) {
        atomic_store(&bti_trace_on_, false);
        for (writer *w = forked ? NULL : writers; w; w = w->next) {
            bti_lock_take(&w->lock);
            free_chunks(w);
            bti_lock_give(&w->lock);
        }
        if (!forked) drop_ended();
        atomic_store(&kept, 0);
        atomic_store(&dropped, 0);
    }
    bti_lock_give(&trace_lock);
}

static int by_start(const void *left, const void *right) {
    const bti_trace_event *a = left, *b = right;
    if (a->start_ns != b->start_ns) return a->start_ns < b->start_ns ? -1 : 1;
    return (a->end_ns < b->end_ns) - (a->end_ns > b->end_ns); /* what lies around comes first */
}

static bool copy_events(writer *w, uint64_t since, bti_trace_log *log) {
    bool fits = true;
    bti_lock_take(&w->lock);
    for (const chunk *c = w->first; c && fits; c = c->next) {
        fits = bti_vec_reserve(&log->events, c->count);
        for (size_t i = 0; i < c->count && fits; i++)
            if (c->events[i].start_ns >= since) log->events.items[log->events.count++] = c->events[i];
    }
    bti_lock_give(&w->lock);
    return fits;
}

bool bti_trace_collect(uint64_t since, bti_trace_log *log) {
    uint64_t origin = bti_clock_origin() + 1; /* what was noted before has times of another clock */
    if (since < origin) since = origin;
    *log = (bti_trace_log){.begun_ns = since, .ended_ns = bti_trace_now(), .is_virtual = bti_clock_is_virtual()};
    if (log->begun_ns > log->ended_ns) log->begun_ns = log->ended_ns;
    bool fits = true;
    bti_lock_take(&trace_lock);
    for (writer *w = forked ? NULL : writers; w && fits; w = w->next)
        fits = bti_vec_push(&log->threads, w->thread) && copy_events(w, since, log);
    memcpy(log->devices, devices, sizeof devices);
    log->dropped = atomic_load(&dropped);
    bti_lock_give(&trace_lock);
    if (!fits)
        bti_trace_log_free(log);
    else if (log->events.count)
        qsort(log->events.items, log->events.count, sizeof *log->events.items, by_start);
    return fits;
}

void bti_trace_log_free(bti_trace_log *log) {
    bti_vec_free(&log->events);
    bti_vec_free(&log->threads);
}

/* --- the files of flags --------------------------------------------------------------------------------------------- */

static void write_recorded(const struct recorded_file *file, const char *path) {
    bti_trace_log log;
    bti_error *before = bti_error_last();
    if (!bti_trace_collect(file->since, &log))
        bti_log("flag \"%s\": %s could not be written: out of host memory", file->flag, path);
    else {
        if (file->write(&log, path) != BT_OK) bti_log("flag \"%s\": %s", file->flag, bt_error_text());
        bti_trace_log_free(&log);
    }
    bti_error_put_back(before);
}

static void at_end(void) {
    for (int f = 0; f < BTI_TRACE_FILES; f++) bti_trace_record_into((bti_trace_file)f, "", NULL);
}
static void watch_end(void) { atexit(at_end); }

void bti_trace_record_into(bti_trace_file number, const char *path, bti_trace_writer *write) {
    static pthread_once_t watched = PTHREAD_ONCE_INIT;
    struct recorded_file *file = &files[number];
    bti_lock_take(&file_lock);
    if (forked || !strcmp(path, file->path ? file->path : "")) {
        bti_lock_give(&file_lock);
        return;
    }
    char *written = file->path;
    file->path = *path ? bti_strdup(path) : NULL;
    if (*path && !file->path) bti_log("flag \"%s\": out of host memory", file->flag);
    if (written) {
        write_recorded(file, written);
        bti_trace_stop();
        bti_free(written);
    }
    if (file->path) {
        pthread_once(&watched, watch_end);
        file->write = write;
        file->since = bti_trace_now();
        bti_trace_start();
    }
    bti_lock_give(&file_lock);
}

void bti_trace_set_most(size_t events) { atomic_store(&most, events ? events : (size_t)MOST); }
