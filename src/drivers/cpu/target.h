/* Which of the targets of kernel text this machine has. */
#ifndef BTI_DRIVERS_TARGET_H
#define BTI_DRIVERS_TARGET_H

#include "launch/functions.h"

/* What kernels are compiled for: what the flag `vector` says; where the CPU has less, the widest that it has, and the first time a
 * log line. */
bti_target bti_cpu_target(void);
bool bti_cpu_has(bti_target target);
const char *bti_target_name(bti_target target); /* as the flag calls it: "avx512" */

#endif
