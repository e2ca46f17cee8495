/* How the program starts the nest, tells whether it lives, and waits for its end. */
#ifndef BTI_TASK_NEST_H
#define BTI_TASK_NEST_H

#include <sys/types.h>

#include "task/process.h"

/* Starts the nest and waits until it is there.
 *
 *     program -> keeper -> nest -> workers
 *
 * The keeper does nothing but wait for the nest. It is a child that sends no signal when it ends, so wait(2) does not see it: loops over
 * all children of the program come to an end, and its SIGCHLD handlers are not called. */
bt_status bti_nest_start(bti_state *state);
/* The same for a program that cannot be forked into a nest, because it has threads or uses devices: it is started again, with the memory in
 * `memory` (begin.c). There is no keeper then: the nest is nobody's child. */
bt_status bti_nest_start_again(bti_state *state, int memory);
/* In the program, after the nest has ended. */
void bti_nest_leave(void);

/* The nest holds a robust lock of the shared memory, which the kernel gives back when the nest ends, however it ends. So this needs no
 * file, no process number and no right to send signals. */
bool bti_nest_lives(bti_state *state);

/* The nest looks at what there is to do. Any process of the runtime, also one that may not send signals to it. */
void bti_nest_call(void);
/* In the nest: its number is known to the processes that it forks. */
void bti_nest_is_here(void);
/* In the nest: where such calls come in, and what workers need for them. */
bt_status bti_nest_call_open(void);
int bti_nest_call_file(void);
int bti_nest_worker_file(void);

/* In the nest. The program has the shared memory where it got it: it did not become another program. */
bool bti_program_has_memory(const bti_state *state);

/* Waits until the nest has ended; `closing` is set, or the arena is broken. */
void bti_nest_wait(void);

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

/* --- begin.c --- */
/* Starts the program again as a nest and waits until that is there; `*end` is to be kept open as long as the program lives. */
bt_status bti_nest_begin_again(bti_state *state, int memory, int *end);

/* --- whole.c --- */
/* From now on bti_arena_check looks at the heads of the state's lists too; `wait`: arena.h. NULL: no longer. */
void bti_state_watch(bti_state *state, void (*wait)(void));
/* INTERNAL with the cause when the memory of the runtime of this process is damaged; `thorough`: looks at the heads of lists too. */
bt_status bti_state_fault(bool thorough);

#endif
