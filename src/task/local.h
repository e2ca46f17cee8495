/* The entries of the local engine that have files of their own. */
#ifndef BTI_TASK_LOCAL_H
#define BTI_TASK_LOCAL_H

#include "task/engine.h"
#include "task/process.h"

/* --- local.c --- */
/* The list as the value of a new object, pending, that this process holds; NULL with the cause in the error record. */
bti_hold *bti_pack_object(const bti_values *values, uint64_t bytes);
uint64_t bti_local_id(const void *held);
bt_failure bti_local_failure(void *held);
double bti_local_resource(const char *name, bool only_free);

/* --- runtime.c --- */
bt_status bti_local_start(const bt_runtime_options *options);
bt_status bti_local_stop(void);
void bti_local_close(void);

/* --- call.c --- */
void *bti_local_submit(const bti_call *call);
bt_status bti_local_cancel(void *held, unsigned how);
bt_status bti_local_actor_status(void *held);
void *bti_local_actor_find(const char *name);
bt_status bti_local_actor_kill(void *held);
void *bti_local_group(const bt_task_options *bundles, int count);

/* --- view.c --- */
char *bti_local_view(const char *what);

#endif
