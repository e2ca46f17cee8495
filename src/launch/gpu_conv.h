/* The launch of convolutions: by the driver's library (driver->conv), or by the engine's own text (render/c/conv.h). */
#ifndef BTI_LAUNCH_GPU_CONV_H
#define BTI_LAUNCH_GPU_CONV_H

#include "base/error.h"

struct bti_gpu_job;
/* UNIMPLEMENTED: the matrices that the text makes of it have 2**31 rows or columns. */
bt_status bti_gpu_launch_conv(struct bti_gpu_job *job);

#endif
