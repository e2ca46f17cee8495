/* What this CPU is: the targets of kernel text that it runs, and the code that was compiled for each. */
#ifndef BTI_DRIVERS_CPU_TARGET_H
#define BTI_DRIVERS_CPU_TARGET_H

#include <stddef.h>

#include "launch/functions.h"

/* The target that kernels are compiled for: the one of the flag `vector`. If the CPU does not have it, the widest that it has, with a
 * log line the first time. */
bti_target bti_cpu_target(void);
bool bti_cpu_has(bti_target target);
const char *bti_target_name(bti_target target); /* as in the flag: "avx512" */

/* The functions that compiled kernels call, as launch/functions.def lists them, for a target that this CPU has. */
const void *const *bti_functions_of(bti_target target);

/* "AMD EPYC 9654 96-Core Processor"; "CPU" where the system does not name it. */
void bti_cpu_model(char *text, size_t size);

#endif
