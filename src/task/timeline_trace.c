#include "task/timeline_trace.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/chrome.h"
#include "base/clock.h"
#include "base/vec.h"
#include "base/files.h"
#include "task/given.h"
#include "task/mailbox.h"
#include "task/object.h"
#include "task/proc.h"
#include "task/tasks.h"

enum { CHUNK = 1024, WORKERS = 1, WAITING = 2 };

typedef BTI_VEC(bti_span) span_list;

/* --- copying --------------------------------------------------------------------------------------------------------- */

/* The oldest span of a full ring is left out: a process that died may have overwritten half of it. */
static uint64_t first_of(const bti_timeline *timeline) {
    return timeline->count < BTI_TIMELINE_SPANS ? 0 : timeline->count - BTI_TIMELINE_SPANS + 1;
}

static size_t count_running(bti_state *state) {
    size_t count = 0;
    bti_arena_lock(state->arena);
    for (const bti_client *c = state->clients; c; c = c->next) count += bti_given_running(c) + 2;
    bti_arena_unlock(state->arena);
    return count;
}

static void add_running_spans(const bti_state *state, span_list *spans) {
    for (const bti_client *c = state->clients; c && spans->count + 1 < spans->capacity; c = c->next) {
        const bti_task_record *making = c->actor ? c->actor->maker : NULL, *task;
        uint32_t next = 0;
        while ((task = bti_given_next(c, &next)) != NULL && spans->count + 1 < spans->capacity)
            if (bti_task_runs(task) || task->state == BTI_TASK_KEPT) spans->items[spans->count++] = bti_span_of(task);
        if (making && making->state == BTI_TASK_KEPT) spans->items[spans->count++] = bti_span_of(making);
    }
}

/* Running tasks are copied under the same lock as the last ended ones, so that no task is missing or there twice. */
static bool copy_spans(bti_state *state, span_list *spans, uint64_t *lost) {
    bti_timeline *timeline = state->timeline;
    size_t running = count_running(state);
    bool all = false;
    for (uint64_t at = *lost = 0; !all;) {
        if (!bti_vec_reserve(spans, 2 * CHUNK + running)) return false;
        bti_arena_lock(state->arena);
        uint64_t first = first_of(timeline);
        if (at < first) *lost += first - at, at = first;
        for (int i = 0; i < CHUNK && at < timeline->count; i++, at++)
            spans->items[spans->count++] = timeline->spans[at % BTI_TIMELINE_SPANS];
        all = at == timeline->count;
        if (all) add_running_spans(state, spans);
        bti_arena_unlock(state->arena);
    }
    return true;
}

/* --- writing --------------------------------------------------------------------------------------------------------- */

static int compare_lanes(const void *a, const void *b) {
    const bti_span *x = a, *y = b;
    if (x->worker != y->worker) return x->worker < y->worker ? -1 : 1;
    if (x->thread != y->thread) return x->thread < y->thread ? -1 : 1;
    return x->begun_ns < y->begun_ns ? -1 : x->begun_ns > y->begun_ns;
}

static void put_lane(bti_chrome *out, const bti_span *span, int lane) {
    char name[160], thread[32] = "";
    const char *actor = *span->actor ? span->actor : span->is_actor ? span->function->name : NULL;
    if (span->thread) snprintf(thread, sizeof thread, ", thread %d", (int)span->thread);
    if (actor)
        snprintf(name, sizeof name, "actor %s (process %" PRId32 "%s)", actor, span->pid, thread);
    else
        snprintf(name, sizeof name, "worker %" PRIu32 " (process %" PRId32 ")", span->worker, span->pid);
    bti_chrome_name(out, "thread_name", WORKERS, lane, name);
}

/* "0,2": those of a mask. */
static const char *gpu_numbers(const bti_state *state, uint64_t gpus, char *text, size_t size) {
    size_t length = 0;
    *text = '\0';
    for (int g = 0; g < state->gpu_count && length < size; g++)
        if (gpus >> g & 1)
            length +=
                (size_t)snprintf(text + length, size - length, "%s%d", length ? "," : "", (int)state->gpu_number[g]);
    return text;
}

static void put_run(bti_chrome *out, const bti_state *state, const bti_span *span, int lane, uint64_t now) {
    char gpus[BTI_MOST_GPUS * 8];
    bti_chrome_begin_slice(out, WORKERS, lane, span->begun_ns, span->ended_ns ? span->ended_ns : now,
                           span->is_actor ? "actor" : "task");
    bti_chrome_pair(out, "name", span->function->name);
    fprintf(out->file, ",\"args\":{\"task\":%" PRIu64, span->task);
    bti_chrome_microseconds(out, "waited_us", span->begun_ns - span->submitted_ns);
    bti_chrome_pair(out, "status", span->ended_ns ? bt_status_name((bt_status)span->status) : "running");
    bti_chrome_pair(out, "gpus", gpu_numbers(state, span->gpus, gpus, sizeof gpus));
    fputs("}}", out->file);
}

static void put_wait(bti_chrome *out, const bti_span *span) {
    for (int end = 0; end < 2; end++) {
        uint64_t begun = span->begun_ns ? span->begun_ns : span->ended_ns;
        bti_chrome_begin_at(out, end ? 'e' : 'b', WAITING, 0, end ? begun : span->submitted_ns);
        fprintf(out->file, ",\"cat\":\"waiting\",\"id\":%" PRIu64, span->task);
        bti_chrome_pair(out, "name", span->function->name);
        fputs("}", out->file);
    }
}

typedef struct change {
    uint64_t at_ns;
    int waiting, running;
} change;

static int compare_changes(const void *a, const void *b) {
    const change *x = a, *y = b;
    return x->at_ns < y->at_ns ? -1 : x->at_ns > y->at_ns;
}

static bool put_counter(bti_chrome *out, const span_list *spans) {
    BTI_VEC(change) changes = {0};
    if (!bti_vec_reserve(&changes, spans->count * 3 + 1)) return false;
    for (size_t i = 0; i < spans->count; i++) {
        const bti_span *span = &spans->items[i];
        changes.items[changes.count++] = (change){span->submitted_ns, 1, 0};
        if (span->begun_ns) changes.items[changes.count++] = (change){span->begun_ns, -1, 1};
        if (span->ended_ns)
            changes.items[changes.count++] = (change){span->ended_ns, span->begun_ns ? 0 : -1, span->begun_ns ? -1 : 0};
    }
    if (changes.count) qsort(changes.items, changes.count, sizeof *changes.items, compare_changes);
    int waiting = 0, running = 0;
    for (size_t i = 0; i < changes.count; i++) {
        waiting += changes.items[i].waiting, running += changes.items[i].running;
        bti_chrome_begin_at(out, 'C', WAITING, 0, changes.items[i].at_ns);
        fprintf(out->file, ",\"name\":\"tasks\",\"args\":{\"waiting\":%d,\"running\":%d}}", waiting, running);
    }
    bti_vec_free(&changes);
    return true;
}

static bool print_trace(bti_chrome *out, const bti_state *state, span_list *spans, uint64_t lost) {
    uint64_t now = bti_now_ns();
    char program[64];
    if (spans->count) qsort(spans->items, spans->count, sizeof *spans->items, compare_lanes);
    bti_chrome_head(out, bti_proc_name(state->program->pid, program, sizeof program), state->program->pid, lost, now);
    bti_chrome_events(out);
    bti_chrome_process(out, WORKERS, "workers");
    bti_chrome_process(out, WAITING, "waiting");
    const bti_span *before = NULL;
    int lane = 0;
    for (size_t i = 0; i < spans->count; i++) {
        const bti_span *span = &spans->items[i];
        if (span->begun_ns) {
            if (!before || before->worker != span->worker || before->thread != span->thread)
                put_lane(out, span, ++lane);
            put_run(out, state, before = span, lane, now);
        }
        put_wait(out, span);
    }
    bool done = put_counter(out, spans);
    bti_chrome_end(out);
    return done;
}

bool bti_timeline_print(bti_state *state, FILE *file) {
    span_list spans = {0};
    uint64_t lost;
    bti_chrome out = {.file = file, .begun_ns = state->started_ns};
    bool done = copy_spans(state, &spans, &lost) && print_trace(&out, state, &spans, lost);
    bti_vec_free(&spans);
    return done;
}

bt_status bti_timeline_write(const char *path, char *text) {
    BTI_WRITES;
    FILE *file = fopen(path, "we");
    bool opened = file != NULL, failed = !file || fputs(text, file) < 0 || fflush(file) || ferror(file);
    int cause = errno;
    failed = (file && fclose(file)) || failed;
    bti_free(text);
    return failed ? bti_fail(opened ? BT_UNKNOWN : BT_NOT_FOUND, "%s cannot be written: %s", path, strerror(cause))
                  : BT_OK;
}
