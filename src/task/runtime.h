/* Starting and ending a runtime of this machine, in the program. */
#ifndef BTI_TASK_RUNTIME_H
#define BTI_TASK_RUNTIME_H

#include <berth/task.h>

bt_status bti_local_start(const bt_runtime_options *options);
bt_status bti_local_stop(void);
void bti_local_close(void);

#endif
