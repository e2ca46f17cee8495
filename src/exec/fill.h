/* For tests (flag memory_fill): memory of a run that holds nothing yet, or nothing any more, is filled with bytes of 0xff, which are NaN, in the order of the queue. Without
 * the flag they do nothing. */
#ifndef BTI_EXEC_FILL_H
#define BTI_EXEC_FILL_H

#include "exec/ready.h"

/* Before step s is launched: what it is the first to write. */
bt_status bti_fill_outputs(const bti_run *run, size_t s);
/* After the steps of a task are launched, if it is the run's last one on its device: temporaries, and arguments that were given up and that no result took. */
void bti_fill_freed(const bti_run_task *task);

#endif
