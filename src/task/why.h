/* Why something waits, in words. */
#ifndef BTI_TASK_WHY_H
#define BTI_TASK_WHY_H

#include "task/snapshot.h"

/* Why it waits: "waits for 2 GPU: 0 of 4 are free; held by tune (process 123, 2)". In `text`, which is returned. */
const char *bti_view_why(const bti_snapshot *view, const bti_view_task *task, char *text, size_t size);

/* The same of a group without its resources, and of the program. */
const char *bti_view_why_group(const bti_snapshot *view, const bti_view_group *group, char *text, size_t size);
const char *bti_view_why_program(const bti_snapshot *view, char *text, size_t size);

#endif
