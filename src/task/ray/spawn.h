/* Starts a program that is no child of this process, so that wait in the program does not see it. */
#ifndef BTI_TASK_RAY_SPAWN_H
#define BTI_TASK_RAY_SPAWN_H

#include <sys/types.h>

#include "base/error.h"

/* arguments[0] is looked for on PATH; `file` becomes its file 3. */
bt_status bti_ray_spawn(const char *const *arguments, int file, pid_t *pid);

#endif
