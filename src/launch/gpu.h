/* The engine that drivers share whose devices load text of the C family (cuda, opencl). It turns programs and boxes into launches.
 * A driver fills in a bti_gpu when it opens a device, and forwards program_load, program_free, launch and launch_kernel of its
 * table to the four functions below. gpu_engine.h lists the files of the engine.
 *
 * The results of a device do not depend on the number of groups or on which vendor's libraries are installed, except for matrix
 * products (the drivers document theirs). */
#ifndef BTI_LAUNCH_GPU_H
#define BTI_LAUNCH_GPU_H

#include "launch/gpu_driver.h"

/* Scratch memory needs no freeing when the device is closed: its pool is closed before. */
bt_status bti_gpu_load(bti_gpu *gpu, const bti_program_source *source, void **program);
void bti_gpu_unload(bti_gpu *gpu, void *program);
bt_status bti_gpu_launch_work(bti_gpu *gpu, void *program, const bti_work *work);
bt_status bti_gpu_launch_kernel(bti_gpu *gpu, void *program, const bti_box *box);

#endif
