/* What the CPU driver asks the system. */
#ifndef BTI_DRIVERS_CPU_H
#define BTI_DRIVERS_CPU_H

#include <stddef.h>

/* "AMD EPYC 9654 96-Core Processor"; "CPU" where it cannot be told. */
void bti_cpu_model(char *text, size_t size);

#endif
