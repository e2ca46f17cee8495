/* Streams of the fake machine: lists of operations that run when the host waits. Then the streams' operations run in an order that is
 * drawn by BERTH_FAKE_SEED (default 1) among all streams whose next operation may run, until what is waited for is reached; with seed 0
 * they run as late as possible: only what is waited for, and what that waits for.
 *
 * Times are a model: each piece of work takes 10 us (BERTH_FAKE_WORK_NS) of its stream, from the end of what it comes after. So they do not depend on the order that was drawn, nor on
 * the host. */
#ifndef BERTH_TESTS_FAKES_STREAM_H
#define BERTH_TESTS_FAKES_STREAM_H

#include "fakes/machine.h"
#include "fakes/order.h"

#define FAKE_QUEUE 1024 /* operations of a stream; a launch beyond waits */

typedef struct fake_event fake_event;
typedef struct fake_stream fake_stream;
typedef struct fake_operation fake_operation;
typedef struct fake_meeting fake_meeting;

/* `run` gets the operation's own copy of the data. */
typedef struct fake_work {
    char name[96];
    void (*run)(void *data);
    const void *uses;  /* the module or host memory that must last until it has run; or NULL */
    const void *graph; /* that it was launched by; or NULL */
} fake_work;

struct fake_operation {
    fake_operation *next;
    fake_event *event; /* that it records or waits for */
    uint64_t number;   /* of the recording */
    bool waits;
    fake_meeting *meeting; /* runs when all its streams have reached it */
    uint32_t op;           /* of order.h */
    fake_clock clock;
    uint64_t after_ns; /* of events that were complete when it was added and that it comes after */
    fake_work work;
    size_t bytes;
    _Alignas(16) char data[];
};

struct fake_event {
    fake_stream *stream; /* of the latest recording */
    uint64_t recorded, reached;
    uint64_t reached_ns;
    fake_clock clock; /* at the latest recording */
};

typedef struct fake_graph {
    fake_operation *first, **end;
    int count;
} fake_graph;

struct fake_stream {
    int device;
    uint32_t number; /* of order.h */
    fake_clock clock;
    uint64_t now_ns, after_ns; /* after_ns: of what is added next */
    size_t pending;
    fake_stream *next; /* list of all streams */
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
FAKE_API void fake_stream_add_work(fake_stream *stream, const fake_work *work, const void *data, size_t bytes);
FAKE_API void fake_stream_record(fake_stream *stream, fake_event *event);
/* Of a stream that is captured: each launch of the graph records the event. */
FAKE_API void fake_stream_record_in_graph(fake_stream *stream, fake_event *event);
FAKE_API void fake_stream_wait(fake_stream *stream, fake_event *event);
/* Once for each of the meeting's streams, without other work between. */
FAKE_API void fake_stream_meet(fake_stream *stream, fake_meeting *meeting);
FAKE_API void fake_stream_run(fake_stream *stream); /* all operations, and those that they wait for */
FAKE_API void fake_stream_run_one(fake_stream *stream);
FAKE_API void fake_stream_run_below(fake_stream *stream, size_t pending);
FAKE_API void fake_stream_run_drawn(void); /* one operation of any stream, if there is one */
/* The host waits: what it enqueues from now on comes after. */
FAKE_API void fake_stream_synchronise(fake_stream *stream);
FAKE_API void fake_event_synchronise(fake_event *event);
FAKE_API bool fake_event_is_complete(const fake_event *event);
FAKE_API bool fake_event_query(fake_event *event);
FAKE_API void fake_event_drop(fake_event *event);
FAKE_API void fake_stream_drop(fake_stream *stream); /* the remaining operations never run */
/* The name of an operation of any stream that has not run and uses the thing; NULL: there is none. */
FAKE_API const char *fake_stream_uses(const void *thing);
FAKE_API const char *fake_graph_uses(const fake_graph *graph, const void *thing);
FAKE_API uint64_t fake_random(void);
FAKE_API uint64_t fake_seed(void); /* BERTH_FAKE_SEED */
FAKE_API void fake_graph_add(const fake_graph *graph, fake_stream *stream);
FAKE_API void fake_graph_drop(fake_graph *graph);

#endif
