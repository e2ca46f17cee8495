/* A PJRT plugin that is not there to compute: a table as real plugins have it, whose calls fail as they are told, whose work is complete in an order that is drawn, and
 * which notes how it is misused. The JSON text of the environment's BERTH_FAKE_PJRT, or of pjrt_stub_set later, says what it is:
 *
 *     {"major": 0, "minor": 81, "entries": 118, "missing": ["PJRT_Event_OnReady"],     the table; read by GetPjrtApi, the rest at any time
 *      "platform": "stub", "devices": 2, "kind": "Stub v1", "limit": 1000, "used": 10,  limit 0: MemoryStats is UNIMPLEMENTED
 *      "hang": "start", "abort": "client",           in Plugin_Initialize (start) or Client_Create (client)
 *      "fail": {"PJRT_Client_Compile": [3, 8]},      the third call from now returns error 8
 *      "fail_any": [17, 13],                         the 17th call from now of any function that does not destroy
 *      "late": [2, 13],                              the second run from now fails when it is complete
 *      "late_upload": [1, 8],                        likewise
 *      "lost_after": 5,                              from the fifth run on each call returns UNAVAILABLE
 *      "seed": 7,                                    work is complete later, in an order drawn from it; 0: at once
 *      "portable": "compile",                        programs for any device are refused by the compiler, or by the "run"; else they are taken
 *      "copies": "memory",                           between devices by CopyToMemory alone, or by "none"
 *      "uses_up": true,                              a run that is refused has deleted the inputs that it was given
 *      "listed": 1000000, "results": 3, "no_results": true}     more devices, more results than there are, none
 *
 * A program says what it computes by comments: "// stub: add" (of float32), "// stub: copy"; "// results: 2" (of copy), "// gives: 0" (the input that gives its memory). */
#ifndef BERTH_TESTS_FAKES_LIBPJRT_STUB_H
#define BERTH_TESTS_FAKES_LIBPJRT_STUB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "drivers/pjrt/api.h"

#define STUB_API __attribute__((visibility("default")))
enum { STUB_RANK = 16, STUB_INPUTS = 64, STUB_DEVICES = 64 };

typedef enum stub_kind {
    STUB_CLIENT,
    STUB_BUFFER,
    STUB_EVENT,
    STUB_PROGRAM,
    STUB_UNLOADED,
    STUB_ERROR,
    STUB_KINDS
} stub_kind;

/* What tests reach by dlsym. */
typedef struct stub_counts {
    int live[STUB_KINDS];
    int calls, runs, compilations;
    int given;   /* inputs that gave their memory */
    int lent;    /* bytes of the host that a buffer still reads */
    int misused; /* times, the first of which is told by pjrt_stub_misuse */
    int pending; /* work that is not complete */
} stub_counts;
STUB_API void pjrt_stub_set(const char *json);
STUB_API stub_counts pjrt_stub_counts(void);
STUB_API const char *pjrt_stub_misuse(void);

/* --- between its files -------------------------------------------------------------------------------------------------- */

/* Objects stay as tombstones when they are destroyed, so that a later use is noticed. */
typedef struct stub_object {
    uint32_t magic;
    stub_kind kind;
    bool alive;
    struct stub_object *next;
} stub_object;

typedef struct stub_error {
    stub_object object;
    int code;
    char *message; /* until the error is destroyed */
} stub_error;

typedef struct stub_device {
    int index;
} stub_device;

typedef struct stub_settings {
    char platform[32], description[64], misuse[300];
    int devices, listed, results;
    int64_t limit, used;
    int fail_any[2], late[2], late_upload[2], lost_after;
    bool uses_up, no_results, refuses_compile, refuses_run, no_device_copy, no_memory_copy;
    unsigned seed;
} stub_settings;
extern stub_settings stub;
extern stub_counts stub_counted;

void *stub_new(stub_kind kind, size_t bytes);
/* Whether it is a live one; else that is misuse. */
bool stub_is(const void *object, stub_kind kind, const char *where);
void stub_end(void *object);
void stub_misused(const char *format, ...) __attribute__((format(printf, 1, 2)));
bti_pjrt_error *stub_fail(int code, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* At the head of a function: takes the lock, checks the size, counts, and fails where that is set. */
bti_pjrt_error *stub_enter(const char *name, size_t size, size_t least);
void stub_leave(void);

/* Work that is not complete: libpjrt_stub_work.c. All under the lock. */
typedef struct stub_data {
    int users;
    size_t bytes;
    char *at;                 /* NULL: not yet */
    const char *host;         /* zero copy */
    uint64_t hash;            /* of those bytes */
    struct stub_event *until; /* likewise: ready when nobody reads them */
    int failed;               /* the code of the error that the bytes stand for */
    struct stub_work *maker;  /* NULL: they are there */
} stub_data;

typedef struct stub_event {
    stub_object object;
    bool ready;
    int failed;
    struct stub_work *of;
    void (*call)(bti_pjrt_error *error, void *data);
    void *data;
} stub_event;

typedef struct stub_program {
    stub_object object;
    char rule[16];
    int results, gives;
    bool portable;
    int device;
} stub_program;

typedef struct stub_buffer {
    stub_object object;
    stub_data *data;
    int type, device;
    size_t rank;
    int64_t shape[STUB_RANK];
    bool deleted;
} stub_buffer;

/* Runs callbacks of what has become ready, without the lock. */
void stub_call_back(void);
void stub_drop_data(stub_data *data);
void stub_draw(void); /* some of the work, drawn */
void stub_finish(const stub_event *event);
void stub_finish_all(void);

bti_pjrt_error *stub_event_destroy(bti_pjrt_one *args);
bti_pjrt_error *stub_event_is_ready(bti_pjrt_bool *args);
bti_pjrt_error *stub_event_await(bti_pjrt_one *args);
bti_pjrt_error *stub_event_on_ready(bti_pjrt_on_ready *args);
bti_pjrt_error *stub_buffer_from_host(bti_pjrt_from_host *args);
bti_pjrt_error *stub_execute(bti_pjrt_execute *args);
bti_pjrt_error *stub_buffer_destroy(bti_pjrt_one *args);
bti_pjrt_error *stub_buffer_is_deleted(bti_pjrt_bool *args);
bti_pjrt_error *stub_buffer_to_device(bti_pjrt_copy_to *args);
bti_pjrt_error *stub_buffer_to_host(bti_pjrt_to_host *args);
bti_pjrt_error *stub_buffer_ready(bti_pjrt_get *args);
bti_pjrt_error *stub_buffer_to_memory(bti_pjrt_copy_to *args);
extern stub_device stub_devices[STUB_DEVICES];

#endif
