/* The recorder behind profiles and traces: what ran when, noted by whoever does it, kept per thread until somebody collects
 * it. Off, a note costs one relaxed atomic load. Times are the process's clock (base/clock.h), of the host: of a driver whose launches only
 * enqueue they are the times of launching, unless it has marks (drivers/driver.h): then they are the device's. Plain numbers and
 * texts: exec/ and view/ know what they mean. */
#ifndef BTI_BASE_TRACE_H
#define BTI_BASE_TRACE_H

#include "base/error.h"
#include "base/vec.h"
#include <stdatomic.h>

#define BTI_TRACE_DEVICES 64
#define BTI_TRACE_HOST (-1)
#define BTI_TRACE_OPERATIONS 4

typedef enum bti_trace_kind {
    BTI_TRACE_KERNEL,     /* ran on `device` */
    BTI_TRACE_COLLECTIVE, /* ran on `device` and others, beside kernels; written_bytes: of what was reduced there */
    BTI_TRACE_COPY,       /* `device` to `to`, one of which may be the host; written_bytes: what was moved */
    BTI_TRACE_MEMORY,     /* written_bytes: in use on `device` from start_ns on */
    BTI_TRACE_ZEROS,      /* read_bytes of zeros given to the host for data that `device` does not hold */
    BTI_TRACE_PLAN,       /* the host: from nodes to a plan */
    BTI_TRACE_PREPARE,    /* programs found or made, operands bound */
    BTI_TRACE_SUBMIT,     /* memory reserved, tasks queued; `plan` and `run` are set */
    BTI_TRACE_WAIT,       /* for a result; the thread may run kernels itself meanwhile */
    /* what happens once: the ledger of first calls */
    BTI_TRACE_OPEN,    /* a device */
    BTI_TRACE_LIBRARY, /* a shared library loaded */
    BTI_TRACE_COMPILE, /* a kernel compiled */
    BTI_TRACE_CACHE,   /* a kernel read from the disk cache or written to it */
    BTI_TRACE_LOAD,    /* a program made ready by its driver: what it compiles or reads lies within */
    BTI_TRACE_KINDS
} bti_trace_kind;

/* Whether events of the kind happen once and have names: the ledger of first calls. */
static inline bool bti_trace_is_first(bti_trace_kind kind) {
    static const bool first[BTI_TRACE_KINDS] = {[BTI_TRACE_OPEN] = true,
                                                [BTI_TRACE_LIBRARY] = true,
                                                [BTI_TRACE_COMPILE] = true,
                                                [BTI_TRACE_CACHE] = true,
                                                [BTI_TRACE_LOAD] = true};
    return first[kind];
}

typedef struct bti_trace_event {
    uint64_t start_ns, end_ns;
    uint64_t elements, read_bytes, written_bytes;
    const char *operations[BTI_TRACE_OPERATIONS]; /* public ones that it was asked for by: literals; then NULL */
    const char *label;                            /* of a place (error.h); NULL: none */
    const char *file;                             /* the user's: a literal; NULL where there is none */
    int32_t line;
    uint32_t thread; /* number of the recording thread, set by bti_trace_add */
    uint32_t run;    /* the submission that it belongs to, set by bti_trace_add (bti_trace_in_run); 0: none */
    uint64_t plan;   /* of a submission: equal for equal plans */
    int16_t device, to;
    uint8_t kind;
    bool on_device; /* the times are the device's: it ran beside all threads */
    char name[50];  /* of the kernel, the library, ... */
} bti_trace_event;

/* --- noting: any thread; never fails, what finds no room is counted ------------------------------------------------- */

extern atomic_bool bti_trace_on_; /* not for direct use */
static inline bool bti_trace_on(void) { return atomic_load_explicit(&bti_trace_on_, memory_order_relaxed); }
uint64_t bti_trace_now(void); /* ns, never 0 */
/* The start of something, or 0 while nothing is recorded: then whatever is noted with it is passed over. */
static inline uint64_t bti_trace_begin(void) { return bti_trace_on() ? bti_trace_now() : 0; }

/* Keeps a copy, unless start_ns is 0 or nothing is recorded. */
void bti_trace_add(const bti_trace_event *event);
/* Something that the host did for `name` (copied, cut to fit), from start_ns (of bti_trace_begin) to end_ns. */
void bti_trace_span(bti_trace_kind kind, const char *name, uint64_t start_ns, uint64_t end_ns);
static inline void bti_trace_end(bti_trace_kind kind, const char *name, uint64_t start_ns) {
    if (start_ns) bti_trace_span(kind, name, start_ns, bti_trace_now());
}
/* Bytes moved in that time, for the running public call; BTI_TRACE_HOST for the host. */
void bti_trace_copy(uint64_t start_ns, uint64_t end_ns, int from, int to, uint64_t bytes);
/* The same without its times, to be added later. */
void bti_trace_describe_copy(bti_trace_event *event, int from, int to, uint64_t bytes);
void bti_trace_memory(int device, uint64_t in_use);
void bti_trace_zeros(int device, uint64_t bytes);
/* A submission, from start_ns until now, of that plan. */
void bti_trace_submission(uint64_t start_ns, uint32_t run, uint64_t plan);
/* A number for a submission, never 0; what the calling thread notes from now on belongs to that one. Returns the one before. */
uint32_t bti_trace_new_run(void);
uint32_t bti_trace_in_run(uint32_t run);

/* Names for lanes, kept whether or not anything is recorded. */
void bti_trace_name_device(int device, const char *name);
void bti_trace_serve(int device); /* the calling thread is that device's queue */

/* --- collecting ----------------------------------------------------------------------------------------------------- */

typedef struct bti_trace_thread {
    uint32_t number;
    int serves; /* device, or -1 */
    bool main;
} bti_trace_thread;

typedef struct bti_trace_log {
    BTI_VEC(bti_trace_event) events; /* by start */
    BTI_VEC(bti_trace_thread) threads;
    char devices[BTI_TRACE_DEVICES][24]; /* "" where none has that number */
    uint64_t begun_ns, ended_ns;
    uint64_t dropped; /* events that found no room */
    bool is_virtual;  /* the clock is */
} bti_trace_log;

/* Recording lasts from the first start to the matching last stop, which forgets everything. */
void bti_trace_start(void);
void bti_trace_stop(void);
/* Copies what started at `since` or later; false when memory is short (the log is empty then). */
bool bti_trace_collect(uint64_t since, bti_trace_log *log);
void bti_trace_log_free(bti_trace_log *log);

/* The flags that name files of what is recorded. */
typedef enum bti_trace_file { BTI_TRACE_FILE, BTI_SUMMARY_FILE, BTI_TRACE_FILES } bti_trace_file;
typedef bt_status bti_trace_writer(const bti_trace_log *log, const char *path);
/* Writes the file that was recorded for on behalf of this flag, and records for `path` ("": none) until the next call or the end of the process, when
 * `write` writes that file. A failure is logged. */
void bti_trace_record_into(bti_trace_file file, const char *path, bti_trace_writer *write);

/* For tests: the most events kept at once; 0: as at the start. */
void bti_trace_set_most(size_t events);

#endif
