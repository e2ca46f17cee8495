/* The oracle: every operation in plain C, no cleverness. Drivers cpu and sim run it; faster kernels are held against it. */
#ifndef BTI_REFERENCE_INTERP_H
#define BTI_REFERENCE_INTERP_H

#include "ir/work.h"

/* Runs the work on the calling thread; addresses are pointers of this process. Operands have the shapes and dtypes that
 * ops.def demands (the recorder checked them). Fails only for want of memory (argsort's scratch). */
bt_status bti_interpret(const bti_work *work);

#endif
