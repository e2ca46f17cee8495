/* A kernel's box cut into pieces that are run by cores. */
#ifndef BTI_DRIVERS_LAUNCH_H
#define BTI_DRIVERS_LAUNCH_H

#include <berth/status.h>

#include "launch/functions.h"

/* How a kernel is run: by the block machine or as compiled code, on the calling thread. As functions.h says. `part` and
 * `finish` may be NULL. */
typedef struct bti_runner {
    const bti_kernel *kernel;
    const void *code;
    void (*run)(const void *code, const bti_box *box);
    void (*part)(const void *code, const bti_box *box, uint64_t *parts);
    void (*finish)(const void *code, const bti_box *box, const uint64_t *parts, int64_t count);
} bti_runner;

/* Runs the box: a small one at once, a large one in pieces, over idle cores. Where it is cut depends on the kernel, extents
 * and strides alone. RESOURCE_EXHAUSTED when there is no memory for parts of rows. */
bt_status bti_launch(const bti_runner *runner, const bti_box *box);

/* Whether outputs can go around the cache: those of a map, all of which lie and are cut on 64 bytes. Whether they should: they
 * are large, too. */
bool bti_launch_can_stream(const bti_kernel *kernel, const bti_box *box);
bool bti_launch_streams(const bti_kernel *kernel, const bti_box *box);

/* Points of the nest. */
double bti_launch_points(const bti_kernel *kernel, const bti_box *box);

#endif
