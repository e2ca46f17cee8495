/* The engine ray in a process that runs calls. */
#ifndef BTI_TASK_RAY_ENGINE_H
#define BTI_TASK_RAY_ENGINE_H

/* Makes it the process's engine; `gpus`: as of bti_engine. */
void bti_ray_engine_join(int (*gpus)(int *ids, int capacity));

#endif
