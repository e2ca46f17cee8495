/* What a call may change and the next one of this process is not to see: working directory, umask, signal mask, environment. */
#ifndef BTI_TASK_SURROUNDINGS_H
#define BTI_TASK_SURROUNDINGS_H

#include <stdint.h>

void bti_surroundings_keep(void);
/* The next call has so many CPUs (in units): OMP_NUM_THREADS and OpenMP's number of threads, unless the program came with the variable. */
void bti_surroundings_cpus(int64_t units);
void bti_surroundings_put_back(void); /* nothing when they were not kept */

#endif
