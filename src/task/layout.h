/* How the shared memory of a runtime is divided: records, mailboxes, values. */
#ifndef BTI_TASK_LAYOUT_H
#define BTI_TASK_LAYOUT_H

#include "task/state.h"

/* Maps the memory and lays it out, in the program, before there is a second process; `*file` is what it lies in, to be closed. Where the address
 * space is limited (RLIMIT_AS) there are fewer records, and a store whose size the options do not set is smaller. RESOURCE_EXHAUSTED names the limit
 * and what is needed. After a failure `*state` is NULL and nothing is left. */
bt_status bti_layout_open(const bt_runtime_options *options, bti_state **state, int *file);

#endif
