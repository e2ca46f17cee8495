/* Running plans: one ordered queue per device, buffers that know when they are filled, copies between devices. */
#ifndef BTI_EXEC_EXEC_H
#define BTI_EXEC_EXEC_H

#include "device/device.h"
#include "ir/plan.h"

/* Borrowed memory: `end` is called when it is no longer used. */
typedef struct bti_loan {
    void (*end)(void *lender); /* from any thread; NULL: no loan */
    void *lender;
} bti_loan;

/* Memory on a device with what it holds. Its block goes back to the pool with the last reference that is not a submitted run's: what later
 * work of the device's queue writes there comes after the runs that use it; copies to other devices do not, and hold it until they are complete. A plan's temporaries go back as soon as the plan's order
 * allows. */
struct bti_buffer {
    atomic_uint_fast64_t
        refs; /* from bit 48 on: of copies to other devices; from bit 32 on: of submitted runs; below: all others */
    int device;
    size_t bytes;
    uint64_t address;
    bti_block *block; /* NULL once given back, for 0 bytes, or when the memory is lent */
    bti_loan loan;
    uint64_t ready;             /* number on its device's queue after which it is filled */
    uint64_t used_until;        /* the same of the last run on that queue that uses it */
    _Atomic(bti_error *) error; /* first cause, if filling it failed */
    bool listed;                /* among the live arrays (for reports and counters) */
    uint8_t list;               /* in which of their lists */
    bool pending;               /* only runs still use it */
    atomic_bool mapped;         /* the program reads it in place: its memory stays */
    atomic_bool taken;          /* its memory was given up to a run: who has not begun to use it cannot */
    bti_place taken_by;         /* when taken: the call that gave it up */
    bti_place place;
    bt_dtype dtype;
    int rank;
    int64_t shape[BTI_MAX_RANK];
    bti_buffer *previous, *next; /* live arrays of the device */
    struct bti_packed *packed;   /* packed.h; under its lock */
};

/* A buffer without memory; NULL when the host's memory is short. */
bti_buffer *bti_buffer_new(int device, size_t bytes, const bti_node *node);
bti_buffer *bti_buffer_retain(bti_buffer *buffer);
void bti_buffer_release(bti_buffer *buffer); /* NULL is fine */
/* The same as retain for who is going to use the memory. Its memory was given up: the error says by which call, and nothing is retained. */
bt_status bti_buffer_use(bti_buffer *buffer);
/* The program reads it in place from now on, as long as it lives. */
bt_status bti_buffer_map(bti_buffer *buffer);

/* A buffer filled from host memory (copied before it returns). `node` names it in reports. Out of memory: the full report. */
bt_status bti_buffer_from_host(const bti_node *node, const void *data, bti_buffer **buffer);
/* A buffer that lies in host memory, which nobody writes before the loan ends; on a device that has host memory. When it fails the loan has
 * not begun. */
bt_status bti_buffer_lent(const bti_node *node, const void *data, bti_loan loan, bti_buffer **buffer);
/* Blocks until it is filled; its error otherwise (into the thread's record). */
bt_status bti_buffer_wait(bti_buffer *buffer);
/* Without waiting: whether it is filled or has failed. */
bool bti_buffer_done(const bti_buffer *buffer);
/* Waits, then copies `bytes` from `offset` to the host, counted as a transfer. */
bt_status bti_buffer_read(bti_buffer *buffer, size_t offset, void *host, size_t bytes);
/* Without waiting: its error as known now (borrowed), or NULL. */
bti_error *bti_buffer_error(bti_buffer *buffer);

/* A plan made ready: programs and operands, once for all its runs. `prepared` takes over the plan's contents (on failure they are
 * freed). Nodes that it names must live until its last run is submitted, unless they are stand-ins. */
typedef struct bti_prepared bti_prepared;
bt_status bti_exec_prepare(bti_plan *plan, bti_prepared **prepared);
bti_prepared *bti_prepared_retain(bti_prepared *prepared);
void bti_prepared_release(bti_prepared *prepared); /* NULL is fine; runs in flight go on */
const bti_plan *bti_prepared_plan(const bti_prepared *prepared);
size_t bti_prepared_bytes(const bti_prepared *prepared); /* of host memory, about */
/* From now on the plan names stand-ins, which it owns, so that it outlives the nodes that it was made of: each run gives `count`
 * nodes of its own. `number` tells the place of a node among those (-1: it has none). False: one has none, or memory is short, and nothing has
 * changed. Before its first run. */
bool bti_prepared_stand_in(bti_prepared *prepared, size_t count,
                           int64_t (*number)(const bti_node *node, const void *context), const void *context);

/* Reserves all memory of a run, then enqueues it; on return every result's node is DONE with its buffer and layout. All or
 * nothing: when memory is short nothing was enqueued and nodes are as they were; *error then holds the cause (retained).
 * nodes: by number, where the plan names stand-ins; else NULL. `behind`: the thread of each queue starts on it now; else bti_buffer_wait
 * runs it. Call it with a claim on the nodes: it changes their states. *submitted is for bti_exec_begin_submitted, which starts the work, as it
 * may run in it, when the claim has ended. */
typedef struct bti_submitted {
    bti_prepared *prepared; /* retained; NULL: nothing was submitted */
    uint64_t end;
    bool begin;
} bti_submitted;
bt_status bti_exec_submit(bti_prepared *prepared, bti_node *const *nodes, bool behind, bti_submitted *submitted,
                          bti_error **error);
void bti_exec_begin_submitted(bti_submitted *submitted);

/* One run of it, in steps. begin: NULL when memory is short. give: replaces the buffer of an external storage (without it: the
 * plan's own); what is in it lies `moved` bytes further than in the plan's. donate: the caller gives up what it gave, which one reference besides holds; the run uses the memory
 * as the plan's donations say, unless others hold it too. reserve: takes all memory, and does everything that can fail; on failure the run is freed and *error is the cause
 * (retained). result: the buffer of the plan's result (borrowed, until start), and how the result lies in it. start: enqueues the run, or runs it, if it waits for nothing and its caller would wait for it; frees it; returns the number of its last
 * submission, 0: it is complete. dispatch: starts that work now, on this thread if it is short. throttle: waits while too much
 * memory is kept by work that is submitted and not complete (flag ahead_bytes), or too many tasks are. No lock
 * is needed; call dispatch and throttle without one, since work may run in them. */
typedef struct bti_run bti_run;
bti_run *bti_exec_begin(bti_prepared *prepared);
void bti_exec_give(bti_run *run, int32_t storage, bti_buffer *buffer, int64_t moved);
void bti_exec_donate(bti_run *run, int32_t storage);
bt_status bti_exec_reserve(bti_run *run, bti_error **error);
bti_buffer *bti_exec_result(bti_run *run, size_t result);
bti_layout bti_exec_result_layout(const bti_run *run, size_t result);
void bti_exec_abandon(bti_run *run);
uint64_t bti_exec_start(bti_run *run);
void bti_exec_dispatch(bti_prepared *prepared, uint64_t end);
void bti_exec_throttle(void);

/* How many buffers exist. */
uint64_t bti_buffers_alive(void);
/* Waits for everything submitted. */
void bti_exec_finish(void);
/* Lets queue threads start on everything submitted. */
void bti_exec_kick(void);
/* function: drops what is kept in case that work fails, where that work is now known to have succeeded. It is called when memory is
 * short, before that is reported, and after waiting for everything; locks of any kind that come before `versions` may be held. */
void bti_exec_set_settle(void (*function)(void));
/* Ends the queue threads after all work; for shutdown. Buffers stay. */
void bti_exec_shutdown(void);

/* Told of each reservation of memory, for a run or for what the host uploads, before and after (taken or refused). Between the two the
 * thread reserves memory and calls nothing else of the library. One observer at a time; NULL: none. */
typedef struct bti_reserve_observer {
    void (*begin_run)(const bti_plan *plan);
    void (*begin_upload)(const bti_buffer *buffer);
    void (*end)(bool reserved);
} bti_reserve_observer;
void bti_exec_observe_reserve(const bti_reserve_observer *observer);

/* The report of an allocation that failed, of what the node makes of this type; why: the pool's own words. */
bti_error *bti_out_of_memory(int device, int64_t bytes, const bti_node *node, const bti_type *type,
                             const bti_node *reader, const char *why);

#endif
