/* The functions that compiled kernels call. */
#ifndef BTI_DRIVERS_FUNCTIONS_H
#define BTI_DRIVERS_FUNCTIONS_H

#include "launch/functions.h"

/* The table of launch/functions.def for a target that this CPU has. */
const void *const *bti_functions_of(bti_target target);

#endif
