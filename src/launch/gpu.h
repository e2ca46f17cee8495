/* The engine that drivers share whose devices load text of the C family (cuda, opencl). It turns programs and boxes into launches.
 * The first member of a driver's device is a bti_gpu, which it fills in when it opens the device. The functions below, and
 * bti_gpu_trim, then stand in the driver's table: the device is their bti_gpu. gpu_engine.h lists the files of the engine.
 *
 * The results of a device do not depend on the number of groups or on which vendor's libraries are installed, except for matrix
 * products, convolutions, Fourier transforms and linear algebra (the drivers document theirs). */
#ifndef BTI_LAUNCH_GPU_H
#define BTI_LAUNCH_GPU_H

#include "launch/gpu_driver.h"

/* Scratch memory needs no freeing when the device is closed: its pool is closed before. */
bt_status bti_gpu_load(void *device, const bti_program_source *source, void **program);
bool bti_gpu_text_wanted(void *device, void *program, const bti_box *box, int count, bti_text_wanted *wanted);
bool bti_gpu_text_lacked(void *device, void *program, bti_text_wanted *wanted);
bt_status bti_gpu_text_give(void *device, void *program, const bti_text_wanted *wanted, const bti_str *text);
void bti_gpu_unload(void *device, const bti_program_source *source, void *program);
bt_status bti_gpu_launch_work(void *device, void *program, const bti_work *work);
bt_status bti_gpu_launch_kernel(void *device, void *program, const bti_box *box);
bt_status bti_gpu_launch_product(void *device, void *program, const bti_work *product, const bti_box *box);
bt_status bti_gpu_launch_boxes(void *device, void *program, const bti_box *boxes, int count); /* CUDA C */
bt_status bti_gpu_launch_custom(void *device, void *program, const bti_custom_launch *launch);
bt_status bti_gpu_launch_library(void *device, void *program, const uint64_t *addresses);

#endif
