/* The launch of attention by the engine's own text (render/c/attention.h). */
#ifndef BTI_LAUNCH_GPU_ATTENTION_H
#define BTI_LAUNCH_GPU_ATTENTION_H

#include "launch/gpu_job.h"

/* Either operation of ir/attention.h, from operands as they were asked for. */
bt_status bti_gpu_launch_attention(bti_gpu_job *job);

#endif
