/* A kernel run in every way that this CPU has: the bits must be equal. For the flag check_kernels and for tests. */
#ifndef BTI_DRIVERS_CHECK_H
#define BTI_DRIVERS_CHECK_H

#include <berth/status.h>

#include "launch/functions.h"

typedef struct bti_check bti_check;

/* The kernel made ready: in blocks and, unless `render` is NULL or there is no LLVM, compiled, for each target that the CPU
 * has. RESOURCE_EXHAUSTED; or why a compilation failed. */
bt_status bti_check_make(const bti_kernel *kernel, bti_render_function *render, bti_check **check);
void bti_check_free(bti_check *check); /* NULL is fine */

/* Runs the box at once, and over one core and over two, in all these ways. `streams`: in compiled code whose outputs go around
 * the cache too, for which bti_launch_can_stream must hold. Afterwards all memory is as before. INTERNAL where two ways
 * give different bits (all NaN are one), with the kernel's text. Any number of threads at once, of boxes of their own. */
bt_status bti_check_run(bti_check *check, const bti_box *box, bool streams);

#endif
