/* Memory of the machine as this process may have it. The system hands out more than it has and ends the process that then uses
 * it; so whoever is about to take much asks here first. */
#ifndef BTI_BASE_HOST_MEMORY_H
#define BTI_BASE_HOST_MEMORY_H

#include <stdbool.h>
#include <stddef.h>

typedef struct bti_host_memory {
    size_t total, left; /* bytes; 0 and SIZE_MAX: they cannot be told */
    char source[160];   /* what sets `total`: "the machine's memory", a file of a cgroup, "RLIMIT_AS" ... */
} bti_host_memory;

/* The least of the machine's memory, the limits of the process's cgroups (versions 1 and 2), RLIMIT_AS and RLIMIT_DATA. Reads some
 * files: tens of microseconds. */
void bti_host_memory_read(bti_host_memory *memory);

#define BTI_HOST_MEMORY_ASK ((size_t)64 << 20) /* bytes; taking less is not worth the question */

/* Whether the system has so many bytes beside those that were taken here and not used yet. True where it cannot be told. */
bool bti_host_memory_has(size_t bytes);

/* For memory of devices, which is used some time after it is allocated: the bytes count as taken until bti_host_memory_unclaim. False: the
 * system does not have them, and nothing is counted. */
bool bti_host_memory_claim(size_t bytes);
void bti_host_memory_unclaim(size_t bytes);

/* For an error message: how much was asked for, and how much is left of what. */
typedef struct bti_host_shortage {
    char text[320];
} bti_host_shortage;
bti_host_shortage bti_host_memory_shortage(size_t bytes);

#endif
