/* Columns of narrow matrices on CPUs, [n, 4] over the first axis. A vector holds all columns of a row, and a sum down one chunk of rows waits for itself at each row. So a text of its own
 * (BTI_TEXT_NARROW) folds several chunks side by side; each has its own accumulators, as ir/kernel.h says, so the bits are the same. */
#ifndef BTI_LAUNCH_NARROW_H
#define BTI_LAUNCH_NARROW_H

#include "ir/kernel.h"

#define BTI_NARROW_CHUNKS 4     /* side by side */
#define BTI_NARROW_MOST 16      /* columns: of a vector */
#define BTI_NARROW_REDUCTIONS 2 /* of more, accumulators do not fit into the registers */

/* Whether the kernel has such a text, and it is for such boxes. */
bool bti_box_is_narrow(const bti_kernel *kernel, const bti_box *box);

#endif
