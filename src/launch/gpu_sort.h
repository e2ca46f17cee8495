/* Sorts of lines, and scatters, which sort their indices.  */
#ifndef BTI_LAUNCH_GPU_SORT_H
#define BTI_LAUNCH_GPU_SORT_H

#include "launch/gpu_job.h"

/* sort and top_k, from operands as they were asked for. */
bt_status bti_gpu_launch_order(bti_gpu_job *job);
/* Whether a thread goes over all of a column of scatters with an index for each element; else its indices are sorted. */
bool bti_gpu_scatters_columns(const bti_gpu_job *job, int64_t count);
/* What bti_op_scatters; indices for each element, if they are sorted, are [outer][inner][count]. */
bt_status bti_gpu_launch_scatter(bti_gpu_job *job);

#endif
