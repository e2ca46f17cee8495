/* Launches of fused kernels on the cores of this process: a box is cut into pieces, each piece runs in the block interpreter
 * (blocks.h) or as compiled code (compiled/compiled.h). */
#ifndef BTI_DRIVERS_CPU_LAUNCH_H
#define BTI_DRIVERS_CPU_LAUNCH_H

#include <berth/status.h>

#include "drivers/cpu/blocks.h"
#include "drivers/cpu/compiled/compiled.h"
#include "launch/functions.h"

/* The code of a kernel: functions as launch/functions.h defines them, which run on the calling thread. `part` and `finish` may be
 * NULL. */
typedef struct bti_runner {
    const bti_kernel *kernel;
    const void *code;
    void (*run)(const void *code, const bti_box *box);
    void (*part)(const void *code, const bti_box *box, uint64_t *parts);
    void (*finish)(const void *code, const bti_box *box, const uint64_t *parts, int64_t count);
    int64_t chunks; /* that `part` takes at once, whose parts follow one another; 0: one */
} bti_runner;

typedef struct bti_code {
    const bti_compiled *compiled;
    const void *const *functions; /* of its target */
    bti_cpu_text variant;
} bti_code;

bti_runner bti_blocks_runner(const bti_kernel *kernel, const bti_blocks *blocks);
bti_runner bti_compiled_runner(const bti_kernel *kernel, const bti_code *code); /* both must outlive it */

/* Runs the box on the idle cores. Where it is cut depends only on the kernel, the extents and the strides, never on the number of
 * cores. RESOURCE_EXHAUSTED when there is no memory for parts of rows. */
bt_status bti_launch(const bti_runner *runner, const bti_box *box);
/* bti_launch with one of the runners above. */
bt_status bti_launch_blocks(const bti_kernel *kernel, const bti_blocks *blocks, const bti_box *box);
bt_status bti_launch_compiled(const bti_kernel *kernel, const bti_code *code, const bti_box *box);

/* Whether the outputs of a map can bypass the cache: all are stored and cut at multiples of 64 bytes. bti_launch_streams: whether
 * they should, because they are large, and memory is what takes the time, too. */
bool bti_launch_can_stream(const bti_kernel *kernel, const bti_box *box);
bool bti_launch_streams(const bti_kernel *kernel, const bti_box *box);

/* Whether compiled code runs the box turned (launch/turned.h). */
bool bti_launch_turns(const bti_kernel *kernel, const bti_box *box);

/* Whether it runs as columns of a narrow matrix (launch/narrow.h). */
bool bti_launch_is_narrow(const bti_kernel *kernel, const bti_box *box);

/* Whether the box runs by one call on the calling thread, and its outputs do not bypass the cache. */
bool bti_launch_is_whole(const bti_kernel *kernel, const bti_box *box);

/* The number of points of the box. */
double bti_launch_points(const bti_kernel *kernel, const bti_box *box);

#endif
