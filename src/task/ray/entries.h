/* What the engine ray knows of references, actors and groups: an *entry* each, known by an id that is the same in all processes of the cluster.
 * `held` (engine.h) is a pointer to one. Python keeps Ray's object for each id as long as the process has an entry of it.
 *
 * Requests wait for answers (frame.h), which settle entries. */
#ifndef BTI_TASK_RAY_ENTRIES_H
#define BTI_TASK_RAY_ENTRIES_H

#include <stdatomic.h>

#include "task/engine.h"
#include "task/ray/frame.h"
#include "task/ray/side.h"

typedef enum bti_ray_state {
    BTI_RAY_PENDING,
    BTI_RAY_VALUE,  /* `block` has it */
    BTI_RAY_REMOTE, /* done, and large: Python has the value until it is read */
    BTI_RAY_FAILED
} bti_ray_state;

/* The bytes of a value, as long as somebody counts on them. */
typedef struct bti_ray_block {
    atomic_uint users;
    const char *packed;
    uint64_t bytes;
    bti_ray_shared shown; /* where they lie, if `unmap` is there */
    void (*unmap)(bti_ray_shared *shown);
    _Alignas(64) char own[];
} bti_ray_block;
/* Own memory for so many bytes, with one user; NULL: out of memory. */
bti_ray_block *bti_ray_block_new(uint64_t bytes);
void bti_ray_block_retain(bti_ray_block *block);
void bti_ray_block_release(void *block);

/* The results of one call: consecutive ids, of which those that were not asked for belong to the first entry. */
typedef struct bti_ray_results {
    uint32_t users;
    int count;
    uint64_t first;
    bool taken[100];
} bti_ray_results;

typedef struct bti_ray_entry {
    uint64_t id;
    uint32_t users;
    bti_ray_state state;
    bool is_actor, is_group, is_method;
    bt_status status; /* of a failure */
    bt_failure failure;
    char *text;
    bti_ray_block *block;
    uint64_t bytes; /* of a value */
    bti_ray_results *results;
    struct bti_ray_entry *next;           /* of the same bucket */
    struct bti_ray_entry *before, *after; /* pending results, in the order of their calls */
    bool is_listed;
    uint64_t sequence;
} bti_ray_entry;

/* `count` ids that no other process uses, in a row; the first. */
uint64_t bti_ray_ids_new(int count);
uint64_t bti_ray_id_of(uint64_t first, int index);
/* A new entry with one user, pending, which Python is told of by the caller. NULL with the cause in the error record. `listed`: the result of
 * a call, which may be read ahead. */
bti_ray_entry *bti_ray_entry_new(uint64_t id, bool listed);
/* Another user of the entry of that id, which Python knows; it is made if there is none. */
bti_ray_entry *bti_ray_entry_hold(uint64_t id);
/* Another user of a further result of the same call; NULL: OUT_OF_RANGE, or NOT_FOUND once it was freed. */
bti_ray_entry *bti_ray_entry_result(bti_ray_entry *entry, int index);
void bti_ray_entry_release(bti_ray_entry *entry);
bti_ray_state bti_ray_entry_state(const bti_ray_entry *entry);
/* Its failure as the thread's error. */
bt_status bti_ray_entry_fail(const bti_ray_entry *entry);
/* The value is known here: takes the block over. */
void bti_ray_entry_settle(bti_ray_entry *entry, bti_ray_block *block);
/* Ids of pending results of the calls after `entry`'s, if results are read in the order of their calls; how many. */
enum { BTI_RAY_MOST_AHEAD = 256 };
int bti_ray_entries_ahead(const bti_ray_entry *entry, uint64_t ids[BTI_RAY_MOST_AHEAD]);
/* The runtime begins, and ends: everything is freed. */
void bti_ray_entries_begin(void);
/* In a forked child: it has ids of its own, and nobody waits. */
void bti_ray_entries_forget(void);
void bti_ray_entries_end(void);

/* --- requests --- */
typedef struct bti_ray_answer {
    uint64_t request; /* its number, for bti_ray_begin */
    atomic_uint answered;
    bt_status status;
    bt_failure failure;
    uint64_t number;
    double real;
    char *text; /* the caller's to bti_free */
    struct bti_ray_answer *next;
} bti_ray_answer;
/* Gives the answer its number. */
void bti_ray_ask_begin(bti_ray_answer *answer);
/* Sends the frame, frees it, and waits for the answer (seconds < 0: without a limit). The status of the answer, with its text as the thread's
 * error; DEADLINE_EXCEEDED; UNAVAILABLE: the side is gone. */
bt_status bti_ray_ask(bti_str *frame, bti_ray_answer *answer, double seconds);
/* Finishes, sends and frees a frame that wants no answer. */
bt_status bti_ray_send(bti_str *frame);
/* A whole frame from Python. False: it is none. */
bool bti_ray_receive_frame(const char *frame, uint64_t bytes);
/* The side is gone: all requests fail, now and from now on. */
void bti_ray_lose(bt_status status, const char *why);
/* OK, or why it is gone. */
bt_status bti_ray_lost(void);

#endif
