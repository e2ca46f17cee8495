/* What workers write to their standard error: its end is kept for what is said when they die, all of it is passed on to the program's. Where
 * that takes no more, workers wait as they would if it were theirs; the nest does not. */
#ifndef BTI_TASK_ERRORS_H
#define BTI_TASK_ERRORS_H

#include <stdbool.h>
#include <uv.h>

typedef struct bti_errors bti_errors;

/* Before the first; false: no memory, or no files. */
bool bti_errors_begin(uv_loop_t *loop);

/* Of one worker, which gets the writing end; NULL: no memory, or no files. */
bti_errors *bti_errors_open(int *worker_end);
/* The worker has died: what is still there. */
void bti_errors_finish(bti_errors *errors);
/* The last of it, as text. */
const char *bti_errors_tail(const bti_errors *errors);
void bti_errors_close(bti_errors *errors); /* NULL is fine */

#endif
