/* The interpreter: every operation in simple C. It is the reference that tests compare faster kernels with; the drivers cpu and sim run it. */
#ifndef BTI_REFERENCE_INTERP_H
#define BTI_REFERENCE_INTERP_H

#include "ir/work.h"

/* Runs the work on the calling thread; addresses are pointers of this process. Operands have the shapes and dtypes that
 * ops.def demands (the recorder checked them). Fails only when memory is short (the scratch of orders). */
bt_status bti_interpret(const bti_work *work);

#endif
