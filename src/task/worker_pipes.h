/* What workers write to their standard error and, when lines get a prefix, to their standard output. The end of standard error is kept for
 * what is said when they die; all is passed on to the program's. Where that takes no more, workers wait as they would if it were theirs;
 * the nest does not.
 *
 *     prefix   "(square pid=1234) " before each line: its function, or the one that made the actor, and the process. Lines of workers are
 *              never mixed: one is passed on when its end has come. What is longer than 8 KiB is passed on in parts, each a line of its own.
 *              Which function it is a worker says in the same pipe, by a line that begins with BTI_OUTPUT_NAME (output.h). */
#ifndef BTI_TASK_WORKER_PIPES_H
#define BTI_TASK_WORKER_PIPES_H

#include <stdbool.h>
#include <uv.h>

#include "task/state.h"

typedef struct bti_worker_pipes bti_worker_pipes;

/* Comes before all other functions; false: no memory, or no files. */
bool bti_worker_pipes_begin(uv_loop_t *loop, bool prefixes);

/* The ends that a worker writes to; -1: it writes where the program writes. */
typedef struct bti_worker_pipe_ends {
    int output, errors;
} bti_worker_pipe_ends;
/* Pipes for one worker, which gets the writing ends; `read` counts what is read from its standard error. NULL: no memory, or no files. */
bti_worker_pipes *bti_worker_pipes_open(bti_errors_read *read, bti_worker_pipe_ends *worker_ends);
/* The worker has died: passes on what is left in the pipes. */
void bti_worker_pipes_finish(bti_worker_pipes *errors);
/* The end of its standard error as text, without the first `mark` bytes that it wrote. */
const char *bti_worker_pipes_tail(const bti_worker_pipes *errors, uint64_t mark);
void bti_worker_pipes_close(bti_worker_pipes *errors); /* NULL is fine */

/* All workers have died, and the nest is about to end: passes on what they left, as long as somebody reads it. Blocks: for a second when
 * nobody does, at most for ten. */
void bti_worker_pipes_end(void);

#endif
