/* Runs a kernel by every variant of code that this CPU has and compares the bits. For the flag check_kernels and for tests. */
#ifndef BTI_DRIVERS_CPU_CHECK_H
#define BTI_DRIVERS_CPU_CHECK_H

#include <berth/status.h>

#include "base/str.h"
#include "launch/functions.h"

typedef struct bti_check bti_check;

/* Prepares the kernel for each target that the CPU has, for the block interpreter. RESOURCE_EXHAUSTED. */
bt_status bti_check_make(const bti_kernel *kernel, bti_check **check);
/* Whether a text was not given yet: which. `variants`: a bit for each bti_cpu_text that is asked for. */
bool bti_check_wants(bti_check *check, unsigned variants, bti_target *target, bti_cpu_text *variant);
/* Compiles it, if there is LLVM; a text that failed is left out. The error of the compilation. */
bt_status bti_check_give(bti_check *check, bti_target target, bti_cpu_text variant, const bti_str *text);
void bti_check_free(bti_check *check); /* NULL is fine */

/* Runs the box with all of them: whole, on one core and on two cores; compiled code in all `variants`. bti_launch_can_stream must hold for those
 * whose outputs bypass the cache, bti_box_turns for turned ones. Restores all memory. INTERNAL, with the kernel's text, if two variants give different
 * bits (all NaN count as equal). Any number of threads at once, with boxes of their own. */
bt_status bti_check_run(bti_check *check, const bti_box *box, unsigned variants);

#endif
