/* The block interpreter runs fused kernels without compiling anything: instruction by instruction, over blocks of points of the
 * innermost axis (the line). It runs small kernels, and all kernels where there is no compiler. Compiled code gives the same bits.
 * blocks_make.c translates a kernel into steps (block_program.h), blocks.c runs them. */
#ifndef BTI_DRIVERS_CPU_BLOCKS_H
#define BTI_DRIVERS_CPU_BLOCKS_H

#include <berth/status.h>

#include "launch/functions.h"

typedef struct bti_blocks bti_blocks;

/* Translates the kernel for a target that this CPU has. RESOURCE_EXHAUSTED when memory is short. */
bt_status bti_blocks_make(const bti_kernel *kernel, bti_target target, bti_blocks **blocks);
void bti_blocks_free(bti_blocks *blocks); /* NULL is fine */

/* As launch/functions.h defines the functions of compiled kernels; on the calling thread, any number of threads at once. They
 * allocate nothing. */
void bti_blocks_run(const bti_blocks *blocks, const bti_box *box);
void bti_blocks_part(const bti_blocks *blocks, const bti_box *box, uint64_t *parts);
void bti_blocks_finish(const bti_blocks *blocks, const bti_box *box, const uint64_t *parts, int64_t count);

/* The estimated time of a run of that many points on one core, in nanoseconds. */
double bti_blocks_cost(const bti_blocks *blocks, double points);

#endif
