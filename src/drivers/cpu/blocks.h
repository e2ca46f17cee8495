/* The block machine: runs fused kernels with nothing compiled, instruction by instruction over blocks of points of the line.
 * What runs when a kernel is small, or there is no compiler; compiled code gives the same bits. */
#ifndef BTI_DRIVERS_BLOCKS_H
#define BTI_DRIVERS_BLOCKS_H

#include <berth/status.h>

#include "launch/functions.h"

typedef struct bti_blocks bti_blocks;

/* The kernel made ready for a target that this CPU has. RESOURCE_EXHAUSTED when memory is short. */
bt_status bti_blocks_make(const bti_kernel *kernel, bti_target target, bti_blocks **blocks);
void bti_blocks_free(bti_blocks *blocks); /* NULL is fine */

/* As functions.h says of compiled kernels, on the calling thread; any number of threads at once. They take no memory. */
void bti_blocks_run(const bti_blocks *blocks, const bti_box *box);
void bti_blocks_part(const bti_blocks *blocks, const bti_box *box, uint64_t *parts);
void bti_blocks_finish(const bti_blocks *blocks, const bti_box *box, const uint64_t *parts, int64_t count);

/* About how long a run of that many points of the nest takes on one core, in nanoseconds: for choosing, not for reporting. */
double bti_blocks_cost(const bti_blocks *blocks, double points);

#endif
