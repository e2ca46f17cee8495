/* The side of a call that runs: what its function asks and gives (bt_argument, bt_return, bt_get_gpu_ids, ...), whatever engine has started it. The
 * process that runs a call fills in a table and a bti_call_run; values are packed bytes (value.h), references in them ids. */
#ifndef BTI_TASK_RUN_H
#define BTI_TASK_RUN_H

#include <stdatomic.h>

#include "task/engine.h"
#include "task/value.h"

/* `call` is the engine's. Entries that fail leave the cause in the error record. Any thread of the process may call them while the call
 * runs. */
typedef struct bti_run_table {
    /* The value that an argument refers to: it is done, and stays in memory until the call has ended. Or its failure. `owner` keeps the
     * value. */
    bt_status (*resolve)(void *call, const bti_packed_value *reference, const char **packed, void **owner);
    /* Room for result `index` (from 0); room that was given for it before is given up. *room NULL: the result goes with the message that
     * ends the call, which has `left` bytes for it. The caller fills the room, then calls seal. */
    bt_status (*room)(void *call, int index, uint64_t bytes, uint64_t left, char **room);
    void (*seal)(void *call, char *room, uint64_t bytes);
    bool (*is_cancelled)(const void *call);
    /* A packed result, before the function returns: the objects that it refers to live on after the function's references are released. */
    bt_status (*keep)(void *call, const char *packed);
    /* Gives the next item of the call's stream. */
    bt_status (*yield)(void *call, const bti_values *value);
} bti_run_table;

typedef struct bti_call_run {
    const bti_run_table *table;
    void *call;
    const char *module, *function; /* its key (modules.c), "" for the program; its name there */
    bool makes_actor;
    const char *arguments; /* packed, of so many bytes; checked before they are used */
    uint64_t bytes;
    int num_returns;
    uint64_t yielded; /* items that an earlier, failed run of this call has given */
    void *owner;      /* keeps the arguments; NULL: they are freed with the call */
} bti_call_run;

/* The results: for each of them 8 bytes with its size, then its bytes; size 0: it lies in the room that was given for it. */
enum { BTI_RUN_SMALL = 4 << 10 };
typedef struct bti_run_result {
    uint64_t bytes;             /* of all */
    atomic_ullong yielded_here; /* items that this run gave, or skipped because an earlier run gave them */
    char small[BTI_RUN_SMALL];
} bti_run_result;

/* Runs the function. A failure is in the error record: that of an argument, of the arguments' bytes, of the function's name, or what it returned. */
bt_status bti_run_call(const bti_call_run *run, bti_run_result *result);

/* The end of the process: the state of its actor is released. */
void bti_run_end(void);

#endif
