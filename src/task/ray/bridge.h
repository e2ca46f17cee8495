/* The bridge: a process of Python that the program starts, and that is a client of the Ray cluster. It ends when the program does. */
#ifndef BTI_TASK_RAY_BRIDGE_H
#define BTI_TASK_RAY_BRIDGE_H

#include "base/error.h"

/* Starts it, and makes it this process's side. Its first frame is the caller's to send. */
bt_status bti_ray_bridge_start(void);
/* Ends it: waits for it at most `seconds`, then kills it. */
void bti_ray_bridge_stop(double seconds);

#endif
