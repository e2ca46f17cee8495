#include "fakes/stream.h"

#include <stdlib.h>
#include <string.h>

static fake_operation *new_operation(size_t bytes) {
    fake_operation *operation = calloc(1, sizeof *operation + bytes);
    if (!operation) abort();
    operation->bytes = bytes;
    return operation;
}

static void append(fake_stream *stream, fake_operation *operation) {
    fake_operation ***end = stream->capture ? &stream->capture->end : &stream->end;
    **end = operation;
    *end = &operation->next;
    if (stream->capture) stream->capture->count++;
}

void fake_stream_init(fake_stream *stream, int device) {
    *stream = (fake_stream){.device = device};
    stream->end = &stream->first;
}

void fake_stream_add(fake_stream *stream, void (*run)(void *data), const void *data, size_t bytes) {
    fake_operation *operation = new_operation(bytes);
    operation->run = run;
    memcpy(operation->data, data, bytes);
    append(stream, operation);
}

void fake_stream_record(fake_stream *stream, fake_event *event) {
    fake_operation *operation = new_operation(0);
    operation->event = event;
    operation->number = ++event->recorded;
    event->stream = stream;
    append(stream, operation);
}

void fake_stream_wait(fake_stream *stream, fake_event *event) {
    if (event->reached == event->recorded) return;
    fake_operation *operation = new_operation(0);
    operation->event = event;
    operation->number = event->recorded;
    operation->waits = true;
    append(stream, operation);
}

void fake_stream_meet(fake_stream *stream, fake_meeting *meeting) {
    fake_operation *operation = new_operation(0);
    operation->meeting = meeting;
    append(stream, operation);
}

static void run_until(fake_event *event, uint64_t number) {
    while (event->reached < number && event->stream && event->stream->first) fake_stream_run_one(event->stream);
}

/* Runs each stream up to the meeting, then the meeting. */
static void meet(fake_meeting *meeting) {
    if (meeting->done) return;
    meeting->done = true;
    for (int i = 0; i < meeting->count; i++)
        while (meeting->streams[i]->first && meeting->streams[i]->first->meeting != meeting)
            fake_stream_run_one(meeting->streams[i]);
    meeting->run(meeting->data);
}

void fake_stream_run_one(fake_stream *stream) {
    fake_operation *operation = stream->first;
    if (!operation) return;
    if (operation->waits) run_until(operation->event, operation->number);
    if (operation->meeting) meet(operation->meeting);
    if (stream->first != operation) return; /* it has run meanwhile */
    stream->first = operation->next;
    if (!stream->first) stream->end = &stream->first;
    if (operation->event && !operation->waits && operation->event->reached < operation->number)
        operation->event->reached = operation->number;
    if (operation->meeting && !--operation->meeting->left) free(operation->meeting);
    if (operation->run) operation->run(operation->data);
    free(operation);
}

void fake_stream_run(fake_stream *stream) {
    while (stream->first) fake_stream_run_one(stream);
}

void fake_event_run(fake_event *event) { run_until(event, event->recorded); }

void fake_stream_drop(fake_stream *stream) {
    for (fake_operation *next, *at = stream->first; at; at = next) {
        next = at->next;
        if (at->meeting && !--at->meeting->left) free(at->meeting);
        free(at);
    }
    stream->first = NULL;
    stream->end = &stream->first;
}

void fake_graph_add(const fake_graph *graph, fake_stream *stream) {
    for (const fake_operation *at = graph->first; at; at = at->next)
        fake_stream_add(stream, at->run, at->data, at->bytes);
}

void fake_graph_drop(fake_graph *graph) {
    for (fake_operation *next, *at = graph->first; at; at = next) {
        next = at->next;
        free(at);
    }
}
