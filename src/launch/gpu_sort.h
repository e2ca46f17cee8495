/* Sorts of lines, and scatters, which sort their indices.  */
#ifndef BTI_LAUNCH_GPU_SORT_H
#define BTI_LAUNCH_GPU_SORT_H

#include "launch/gpu_job.h"

/* sort and top_k, from operands as they were asked for. */
bt_status bti_gpu_launch_order(bti_gpu_job *job);
/* Whether a thread adds all of a column of scatter_axis; else its indices are sorted. */
bool bti_gpu_scatters_columns(const bti_gpu_job *job, int64_t count);
/* scatter_add and scatter_axis; the indices of the latter, if they are sorted, are [outer][inner][count]. */
bt_status bti_gpu_launch_scatter(bti_gpu_job *job);

#endif
