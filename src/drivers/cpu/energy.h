/* The energy of the processors and their memory, as they count it themselves (RAPL), from the kernel's powercap tree. */
#ifndef BTI_DRIVERS_CPU_ENERGY_H
#define BTI_DRIVERS_CPU_ENERGY_H

#include <stdbool.h>
#include <stdint.h>

#include "base/str.h"

/* energy of drivers/driver.h: of all packages and of memory that is counted apart, below the folder of the flag `powercap`. */
bool bti_cpu_energy(int ordinal, double *joules, uint64_t *since_ns, bti_str *reason);

/* For tests: reads with this time in the place of the clock's; 0: the clock's again. */
void bti_cpu_energy_set_time(uint64_t ns);

#endif
