/* What this process is in a runtime (the program or a worker), whether the runtime still exists, and how to call its nest. */
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
/* The nest holds a robust lock in the shared memory, which the kernel releases when the nest ends, however it ends. So this needs no file,
 * no process number and no right to send signals. */
bool bti_nest_lives(bti_state *state);
/* ABORTED when the nest, which starts workers and tells of their ends, is gone; INTERNAL when the memory is damaged. */
bt_status bti_check_runs(bti_state *state);
/* The error of a runtime that ends. */
bt_status bti_runtime_over(const bti_state *state);
/* From now on bti_arena_check also checks the heads of the state's lists; `wait`: arena.h. state NULL: no longer. */
void bti_state_watch(bti_state *state, void (*wait)(void));
/* INTERNAL with the cause when the memory of this process's runtime is damaged; `thorough`: checks the heads of lists too. */
bt_status bti_state_fault(bool thorough);

/* One user less of the mapped memory (bti_state.users); the last one unmaps it. */
void bti_state_release(bti_state *state);

/* --- calling the nest --- */
/* Wakes the nest, which then looks for work. From any process of the runtime, also one that may not send signals to the nest. */
void bti_nest_call(void);
/* In the program and in the nest: sets how bti_nest_call works here and in forked processes: by a signal, or by a byte in `pipe` where
 * signals are not permitted. */
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
/* Closes all files but the standard ones, the pipe (-1: none) and the files of the runtime (kept NULL: none): the spill file and the lock
 * files of leases. */
void bti_files_keep(const bti_state *kept, int pipe);

#endif
