/* What the cgroups of this process (version 1 or 2) allow it. */
#ifndef BTI_BASE_CGROUP_H
#define BTI_BASE_CGROUP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct bti_cgroup {
    char cpu_folder[1200], memory_folder[1200]; /* where the limits were looked for; "" when there is no such group */
    double cpus;                                /* CPUs' worth of time; 0: no limit */
    size_t memory_bytes, memory_free_bytes;     /* the limit, and what is left of the tightest; SIZE_MAX: no limit */
    char memory_file[1240];                     /* that says the limit; "" when there is none */
    size_t processes_left;                      /* that may be started yet; SIZE_MAX: no limit */
    uint64_t oom_kills; /* processes of the group (and below) that the kernel has ended for want of memory */
} bti_cgroup;

/* The tightest of the limits from the process's group up to the root. Reads some files: tens of microseconds. */
void bti_cgroup_read(bti_cgroup *group);
/* For tests: files in the place of /proc/self/cgroup and the folder /sys/fs/cgroup, kept by the caller; NULL: those again. */
void bti_cgroup_look_at(const char *groups, const char *root);

#endif
