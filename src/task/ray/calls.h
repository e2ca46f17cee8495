/* Calls of the engine ray, from options and values to frames. What calls of one function with the same options have in common is a *profile*, which
 * Python is told of once, and checks: whether the cluster has what it asks for. */
#ifndef BTI_TASK_RAY_CALLS_H
#define BTI_TASK_RAY_CALLS_H

#include "task/ray/entries.h"

/* How long Ray may take to answer what it answers at once. */
enum { BTI_RAY_ANSWER_SECONDS = 60 };

/* What goes to the worker that runs a call begins so; then the text of the module's key, that of the function, zeros up to a multiple of 16, and the packed
 * arguments, unless these are large. As in worker.py. */
typedef struct bti_ray_call_head {
    uint64_t content; /* of the module; 0: the program */
    uint32_t flags;   /* bti_ray_call_flag */
    uint32_t num_returns, direct, nested;
    double cpus, gpus; /* negative: not set */
} bti_ray_call_head;
typedef enum bti_ray_call_flag {
    BTI_RAY_HIDES_GPUS = 1,
    BTI_RAY_MAKES_ACTOR = 2,
    BTI_RAY_HAS_LARGE = 4,
    BTI_RAY_HAS_GPUS = 8
} bti_ray_call_flag;

/* The entry of its result, or of its actor. NULL with the cause in the error record. */
void *bti_ray_submit(const bti_engine_call *call);
void *bti_ray_put(const bti_values *value);
void *bti_ray_group(const bt_task_options *bundles, int count);
/* In what Python is told when it starts, too. */
void bti_ray_add_resources(bti_str *frame, const bt_resource *resources);
/* Python forgets all profiles with its process. */
void bti_ray_calls_end(void);

#endif
