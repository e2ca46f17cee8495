/* Streams of the fake machine: lists of operations that run when somebody waits for them. */
#ifndef BERTH_TESTS_FAKES_STREAM_H
#define BERTH_TESTS_FAKES_STREAM_H

#include "fakes/machine.h"

typedef struct fake_event fake_event;
typedef struct fake_stream fake_stream;
typedef struct fake_operation fake_operation;
typedef struct fake_meeting fake_meeting;

/* `run` gets the operation's own copy of the data. */
struct fake_operation {
    fake_operation *next;
    fake_event *event; /* that it records or waits for */
    uint64_t number;   /* of the recording */
    bool waits;
    fake_meeting *meeting; /* runs when all its streams have reached it */
    void (*run)(void *data);
    size_t bytes;
    _Alignas(16) char data[];
};

struct fake_event {
    fake_stream *stream; /* of the latest recording */
    uint64_t recorded, reached;
};

typedef struct fake_graph {
    fake_operation *first, **end;
    int count;
} fake_graph;

struct fake_stream {
    int device;
    fake_operation *first, **end;
    fake_graph *capture; /* if set, operations are added there */
};

struct fake_meeting {
    int count, left; /* operations that refer to it */
    bool done;
    fake_stream *streams[FAKE_MOST];
    void (*run)(void *data);
    _Alignas(16) char data[1024];
};

/* All are called under fake_lock. */
FAKE_API void fake_stream_init(fake_stream *stream, int device);
FAKE_API void fake_stream_add(fake_stream *stream, void (*run)(void *data), const void *data, size_t bytes);
FAKE_API void fake_stream_record(fake_stream *stream, fake_event *event);
FAKE_API void fake_stream_wait(fake_stream *stream, fake_event *event);
FAKE_API void fake_stream_meet(fake_stream *stream, fake_meeting *meeting);
FAKE_API void fake_stream_run(fake_stream *stream); /* all operations, and those that it waits for */
FAKE_API void fake_stream_run_one(fake_stream *stream);
FAKE_API void fake_event_run(fake_event *event);
FAKE_API void fake_stream_drop(fake_stream *stream); /* the remaining operations never run */
FAKE_API void fake_graph_add(const fake_graph *graph, fake_stream *stream);
FAKE_API void fake_graph_drop(fake_graph *graph);

#endif
