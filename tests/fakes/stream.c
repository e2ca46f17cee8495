#include "fakes/stream.h"

#include <stdlib.h>
#include <stdio.h>
#include <string.h>

static fake_stream *all_streams;
static uint64_t random_state;
static bool late; /* seed 0 */

/* --- the seed ------------------------------------------------------------------------------------------------------- */

uint64_t fake_seed(void) {
    const char *seed = getenv("BERTH_FAKE_SEED");
    return seed ? strtoull(seed, NULL, 10) : 1;
}

static void read_seed(void) {
    uint64_t value = fake_seed();
    late = !value;
    random_state = value * UINT64_C(0x9e3779b97f4a7c15) | 1;
}

uint64_t fake_random(void) {
    if (!random_state) read_seed();
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return random_state * UINT64_C(2685821657736338717) >> 11;
}

/* --- operations ----------------------------------------------------------------------------------------------------- */

static fake_operation *new_operation(size_t bytes) {
    fake_operation *operation = calloc(1, sizeof *operation + bytes);
    if (!operation) abort();
    operation->bytes = bytes;
    return operation;
}

static void free_operation(fake_operation *operation) {
    fake_clock_free(&operation->clock);
    free(operation);
}

static void append(fake_stream *stream, fake_operation *operation) {
    fake_operation ***end = stream->capture ? &stream->capture->end : &stream->end;
    operation->after_ns = stream->after_ns;
    **end = operation;
    *end = &operation->next;
    if (stream->capture)
        stream->capture->count++;
    else
        stream->pending++;
}

void fake_stream_init(fake_stream *stream, int device) {
    *stream = (fake_stream){.device = device, .number = fake_order_stream(), .next = all_streams};
    stream->end = &stream->first;
    all_streams = stream;
}

static void enter_order(fake_stream *stream, fake_operation *operation, const char *name) {
    operation->op = fake_order_add(stream->number, &stream->clock, name, stream->device);
    fake_clock_join(&operation->clock, &stream->clock);
}

void fake_stream_add_work(fake_stream *stream, const fake_work *work, const void *data, size_t bytes) {
    fake_operation *operation = new_operation(bytes);
    operation->work = *work;
    memcpy(operation->data, data, bytes);
    if (!stream->capture) enter_order(stream, operation, work->name);
    append(stream, operation);
}

void fake_stream_add(fake_stream *stream, void (*run)(void *data), const void *data, size_t bytes) {
    fake_stream_add_work(stream, &(fake_work){.name = "work of a library", .run = run}, data, bytes);
}

void fake_stream_record(fake_stream *stream, fake_event *event) {
    fake_operation *operation = new_operation(0);
    operation->event = event;
    operation->number = ++event->recorded;
    event->stream = stream;
    fake_clock_join(&stream->clock, fake_order_host());
    fake_clock_free(&event->clock);
    fake_clock_join(&event->clock, &stream->clock);
    append(stream, operation);
}

void fake_stream_record_in_graph(fake_stream *stream, fake_event *event) {
    fake_operation *operation = new_operation(0);
    operation->event = event;
    append(stream, operation);
}

void fake_stream_wait(fake_stream *stream, fake_event *event) {
    fake_clock_join(&stream->clock, &event->clock);
    if (fake_event_is_complete(event)) {
        if (event->reached_ns > stream->after_ns) stream->after_ns = event->reached_ns;
        return;
    }
    fake_operation *operation = new_operation(0);
    operation->event = event;
    operation->number = event->recorded;
    operation->waits = true;
    append(stream, operation);
}

/* The last of the streams joins the clocks of all; the meeting runs as its operation. */
void fake_stream_meet(fake_stream *stream, fake_meeting *meeting) {
    fake_operation *operation = new_operation(0);
    operation->meeting = meeting;
    enter_order(stream, operation, "a reduction over devices");
    append(stream, operation);
    if (stream != meeting->streams[meeting->count - 1]) return;
    for (int i = 0; i < meeting->count; i++) fake_clock_join(&operation->clock, &meeting->streams[i]->clock);
    for (int i = 0; i < meeting->count; i++) fake_clock_join(&meeting->streams[i]->clock, &operation->clock);
}

/* --- running -------------------------------------------------------------------------------------------------------- */

static bool all_meet(const fake_meeting *meeting) {
    for (int i = 0; i < meeting->count; i++)
        if (!meeting->streams[i]->first || meeting->streams[i]->first->meeting != meeting) return false;
    return true;
}

static bool may_run(const fake_stream *stream) {
    const fake_operation *operation = stream->first;
    if (!operation || fake_hangs(stream->device)) return false;
    if (operation->waits) return operation->event->reached >= operation->number;
    return !operation->meeting || operation->meeting->done || all_meet(operation->meeting);
}

static void run_work(const fake_operation *operation, int device, void (*run)(void *data), void *data) {
    if (fake()->devices[device].sticky) return;
    fake_order_begin(operation->op, &operation->clock);
    run(data);
    fake_order_end();
}

static uint64_t work_ns(void) {
    const char *ns = getenv("BERTH_FAKE_WORK_NS");
    return ns ? strtoull(ns, NULL, 10) : 10000;
}

static void come_after(fake_stream *stream, uint64_t ns) {
    if (ns > stream->now_ns) stream->now_ns = ns;
}

/* All end at once. */
static void meet_in_time(const fake_meeting *meeting) {
    uint64_t ns = 0;
    for (int i = 0; i < meeting->count; i++) come_after(meeting->streams[i], meeting->streams[i]->first->after_ns);
    for (int i = 0; i < meeting->count; i++)
        if (meeting->streams[i]->now_ns > ns) ns = meeting->streams[i]->now_ns;
    for (int i = 0; i < meeting->count; i++) meeting->streams[i]->now_ns = ns + work_ns();
}

static void meet(fake_meeting *meeting) {
    if (meeting->done) return;
    meet_in_time(meeting);
    const fake_stream *last = meeting->streams[meeting->count - 1];
    meeting->done = true;
    run_work(last->first, last->device, meeting->run, meeting->data);
}

/* Takes the first operation, which may run, from its stream and runs it. */
static void run_first(fake_stream *stream) {
    fake_operation *operation = stream->first;
    if (operation->meeting) meet(operation->meeting);
    come_after(stream, operation->after_ns);
    if (operation->waits) come_after(stream, operation->event->reached_ns);
    if (operation->work.run) stream->now_ns += work_ns();
    stream->first = operation->next;
    stream->pending--;
    if (!stream->first) stream->end = &stream->first;
    if (operation->event && !operation->waits && operation->event->reached < operation->number)
        operation->event->reached = operation->number, operation->event->reached_ns = stream->now_ns;
    if (operation->meeting && !--operation->meeting->left) free(operation->meeting);
    if (operation->work.run) run_work(operation, stream->device, operation->work.run, operation->data);
    free_operation(operation);
}

void fake_stream_run_drawn(void) {
    uint64_t count = 0;
    for (const fake_stream *s = all_streams; s; s = s->next) count += may_run(s);
    if (!count) return;
    uint64_t chosen = fake_random() % count;
    for (fake_stream *s = all_streams; s; s = s->next)
        if (may_run(s) && !chosen--) {
            run_first(s);
            return;
        }
}

static bool is_stuck(void) {
    for (const fake_stream *s = all_streams; s; s = s->next)
        if (may_run(s)) return false;
    return true;
}

/* As late as possible: the first operation of a stream, after those that it waits for. */
static void run_first_late(fake_stream *stream) {
    fake_operation *operation = stream->first;
    if (operation->waits)
        while (operation->event->reached < operation->number && operation->event->stream->first)
            run_first_late(operation->event->stream);
    for (int i = 0; operation->meeting && !operation->meeting->done && i < operation->meeting->count; i++) {
        fake_stream *other = operation->meeting->streams[i];
        while (other->first && other->first->meeting != operation->meeting) run_first_late(other);
    }
    if (stream->first == operation) run_first(stream);
}

void fake_stream_run_one(fake_stream *stream) {
    if (!random_state) read_seed();
    if (!late)
        fake_stream_run_drawn();
    else if (stream->first)
        run_first_late(stream);
}

void fake_stream_run_below(fake_stream *stream, size_t pending) {
    while (stream->pending >= pending && !is_stuck()) fake_stream_run_one(stream);
}

void fake_stream_run(fake_stream *stream) { fake_stream_run_below(stream, 1); }

void fake_stream_synchronise(fake_stream *stream) {
    fake_stream_run(stream);
    fake_clock_join(fake_order_host(), &stream->clock);
}

static void run_event(fake_event *event) {
    const uint64_t number = event->recorded;
    while (event->reached < number && event->stream && event->stream->first && !is_stuck())
        fake_stream_run_one(event->stream);
}

void fake_event_synchronise(fake_event *event) {
    run_event(event);
    fake_clock_join(fake_order_host(), &event->clock);
}

bool fake_event_is_complete(const fake_event *event) { return event->reached == event->recorded; }

/* A query runs work only if the program asks for that: else the order of the work would depend on the moments at which a thread happens to look. */
bool fake_event_query(fake_event *event) {
    bool done = fake_event_is_complete(event);
    const char *progress = getenv("BERTH_FAKE_PROGRESS");
    if (done)
        fake_clock_join(fake_order_host(), &event->clock);
    else if (progress && !strcmp(progress, "on"))
        fake_stream_run_one(event->stream);
    return done;
}

void fake_event_drop(fake_event *event) { fake_clock_free(&event->clock); }

static const char *find_use(const fake_operation *first, const void *thing) {
    for (const fake_operation *o = first; o; o = o->next)
        if (o->work.uses == thing || o->work.graph == thing) return o->work.name;
    return NULL;
}

const char *fake_stream_uses(const void *thing) {
    const char *name = NULL;
    for (const fake_stream *s = all_streams; s && !name; s = s->next) name = find_use(s->first, thing);
    return name;
}

const char *fake_graph_uses(const fake_graph *graph, const void *thing) { return find_use(graph->first, thing); }

void fake_stream_drop(fake_stream *stream) {
    for (fake_operation *next, *at = stream->first; at; at = next) {
        next = at->next;
        if (at->meeting && !--at->meeting->left) free(at->meeting);
        free_operation(at);
    }
    stream->first = NULL;
    stream->pending = 0;
    stream->end = &stream->first;
    fake_clock_free(&stream->clock);
    for (fake_stream **at = &all_streams; *at; at = &(*at)->next)
        if (*at == stream) {
            *at = stream->next;
            break;
        }
}

void fake_stream_new_machine(void) {
    while (all_streams) fake_stream_drop(all_streams);
    random_state = 0;
}

/* --- graphs --------------------------------------------------------------------------------------------------------- */

void fake_graph_add(const fake_graph *graph, fake_stream *stream) {
    for (const fake_operation *at = graph->first; at; at = at->next) {
        if (at->event) {
            fake_stream_record(stream, at->event);
            continue;
        }
        fake_work work = at->work;
        work.graph = graph;
        fake_stream_add_work(stream, &work, at->data, at->bytes);
    }
}

void fake_graph_drop(fake_graph *graph) {
    for (fake_operation *next, *at = graph->first; at; at = next) {
        next = at->next;
        free_operation(at);
    }
    *graph = (fake_graph){0};
}
