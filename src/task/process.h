/* What this process is in a runtime: the program, or a worker; whether the runtime is there still, and how its nest is called. */
#ifndef BTI_TASK_PROCESS_H
#define BTI_TASK_PROCESS_H

#include <sys/types.h>

#include "base/clock.h"
#include "task/state.h"

typedef struct bti_process {
    bti_state *state; /* NULL: no runtime */
    bti_client *me;
    uint64_t runtime; /* counts the runtimes that this process began */
} bti_process;
extern bti_process bti_process_now;

/* --- whether the runtime is there --- */
/* The nest holds a robust lock of the shared memory, which the kernel gives back when the nest ends, however it ends. So this needs no
 * file, no process number and no right to send signals. */
bool bti_nest_lives(bti_state *state);
/* ABORTED when the nest, which starts workers and tells of their ends, is gone; INTERNAL when the memory is damaged. */
bt_status bti_check_runs(bti_state *state);
/* The error of a runtime that ends. */
bt_status bti_runtime_over(const bti_state *state);
/* From now on bti_arena_check looks at the heads of the state's lists too; `wait`: arena.h. NULL: no longer. */
void bti_state_watch(bti_state *state, void (*wait)(void));
/* INTERNAL with the cause when the memory of the runtime of this process is damaged; `thorough`: looks at the heads of lists too. */
bt_status bti_state_fault(bool thorough);

/* One user less of the mapped memory (state.h); the last one unmaps it. */
void bti_state_release(bti_state *state);

/* --- calling the nest --- */
/* The nest looks at what there is to do. Any process of the runtime, also one that may not send signals to it. */
void bti_nest_call(void);
/* In the program and in the nest: how this process, and those that it forks, call the nest: by a signal, or else by a byte in this pipe. */
void bti_nest_reach(pid_t nest, int pipe);
/* In the program, after the nest has ended: closes the pipe. */
void bti_nest_leave(void);
int bti_nest_pipe(void);

/* --- files --- */
/* A program may close files that it does not know (closefrom), and open others under their numbers. */
typedef struct bti_file_identity {
    int number;
    dev_t device;
    ino_t inode;
} bti_file_identity;
bool bti_file_know(bti_file_identity *file, int number);
bool bti_file_is_same(const bti_file_identity *file);
/* Closes all files but the standard ones, the pipe (-1: none) and those of the runtime (NULL: none): where values are spilled, and lock
 * files of leases. */
void bti_files_keep(const bti_state *kept, int pipe);

#endif
