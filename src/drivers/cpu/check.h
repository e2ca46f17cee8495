/* Runs a kernel by every variant of code that this CPU has and compares the bits. For the flag check_kernels and for tests. */
#ifndef BTI_DRIVERS_CPU_CHECK_H
#define BTI_DRIVERS_CPU_CHECK_H

#include <berth/status.h>

#include "launch/functions.h"

typedef struct bti_check bti_check;

/* Prepares the kernel for each target that the CPU has: for the block interpreter and, unless `render` is NULL or there is no LLVM, as
 * compiled code. RESOURCE_EXHAUSTED, or the error of a compilation. */
bt_status bti_check_make(const bti_kernel *kernel, bti_render_function *render, bti_check **check);
void bti_check_free(bti_check *check); /* NULL is fine */

/* Runs the box with all of them: whole, on one core and on two cores. `streams`: also with compiled code whose outputs bypass the cache,
 * for which bti_launch_can_stream must hold. Restores all memory. INTERNAL, with the kernel's text, if two variants give different
 * bits (all NaN count as equal). Any number of threads at once, with boxes of their own. */
bt_status bti_check_run(bti_check *check, const bti_box *box, bool streams);

#endif
