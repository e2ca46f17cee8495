/* Programs of the engine, and launching their functions. */
#ifndef BTI_LAUNCH_GPU_ENGINE_H
#define BTI_LAUNCH_GPU_ENGINE_H

#include "launch/gpu.h"

/* A text that is loaded, with its functions by number as they are asked for. */
typedef struct bti_gpu_module {
    void *handle; /* the driver's; NULL: not built yet */
    bti_gpu_function functions[16];
    bool found[16];
} bti_gpu_module;

bt_status bti_gpu_build(bti_gpu *gpu, const char *name, const bti_str *text, bti_gpu_module *module);
void bti_gpu_drop(bti_gpu *gpu, bti_gpu_module *module);
/* Function `number` of the module, called `name` there, over `units` units of work of which a group of `threads` threads takes
 * `at_once` at once. Local memory: 0 of bytes, none. */
typedef struct bti_gpu_grid {
    int number;
    const char *name;
    int64_t units, at_once;
    int threads;
    bool local;
    size_t local_bytes;
} bti_gpu_grid;
bt_status bti_gpu_start(bti_gpu *gpu, bti_gpu_module *module, const bti_gpu_grid *grid, bti_words *words);

/* kernel.c: fused kernels. */
typedef struct bti_gpu_kernel bti_gpu_kernel;
bt_status bti_gpu_kernel_load(bti_gpu *gpu, const bti_kernel *kernel, bti_render_function *render,
                              bti_gpu_kernel **loaded);
void bti_gpu_kernel_free(bti_gpu *gpu, bti_gpu_kernel *kernel);
bt_status bti_gpu_kernel_launch(bti_gpu *gpu, bti_gpu_kernel *kernel, const bti_box *box);

/* work.c: primitives that are run whole. */
typedef struct bti_gpu_work bti_gpu_work;
bt_status bti_gpu_work_load(bti_gpu *gpu, const bti_program_source *source, bti_gpu_work **loaded);
void bti_gpu_work_free(bti_gpu *gpu, bti_gpu_work *work);
bt_status bti_gpu_work_launch(bti_gpu *gpu, bti_gpu_work *loaded, const bti_work *work);

#endif
