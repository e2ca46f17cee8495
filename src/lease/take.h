/* Taking GPUs among programs: all that are wanted at once, in the order of arrival (docs/leases.md). */
#ifndef BTI_LEASE_TAKE_H
#define BTI_LEASE_TAKE_H

#include "lease/holders.h"

typedef struct bti_taking {
    int wanted;
    uint64_t share; /* bytes of each GPU; 0: whole GPUs */
    bool runtime;   /* a runtime: it uses leases that this process has before it takes others */
    bool wait;
    double started, deadline; /* seconds; 0: none */
    bti_lease_record record;
    int folder, count;
    char path[256];
    bti_lease_gpu gpus[BTI_LEASE_MOST_GPUS];
    bti_lease_file files[BTI_LEASE_MOST_GPUS];
    int enclosing[BTI_LEASE_MOST_GPUS]; /* the lease of the GPU that this process has already; 0: none */
    int usable,
        by_name[BTI_LEASE_MOST_GPUS]; /* the other GPUs that could be taken, in the order of their files' names */
    bool chosen[BTI_LEASE_MOST_GPUS];
} bti_taking;

/* `seconds`: how long it waits; 0: not at all, below 0: without limit. command NULL: that of this process. Returns NULL when memory is
 * short. */
bti_taking *bti_taking_new(int wanted, double seconds, const char *command);
/* Takes `wanted` of gpus[0..count): chosen[i] says which; their files hold the locks. */
bt_status bti_taking_take(bti_taking *t);
/* Releases what is still in it. NULL is fine. */
void bti_taking_end(bti_taking *t);

/* Takes whole GPUs that a runtime will hand out: `wanted` of `count`, first those whose leases this process has. Fills in
 * chosen[BTI_LEASE_MOST_GPUS] and the lock file of each chosen GPU, in that order: the leases last as long as a process has these files
 * open. RESOURCE_EXHAUSTED (seconds 0) or DEADLINE_EXCEEDED names who holds them. */
bt_status bti_lease_take_for_runtime(const bti_lease_gpu *gpus, int count, int wanted, double seconds, bool *chosen,
                                     int *files);

#endif
