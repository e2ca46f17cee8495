/* The GPUs that a lease may be of, and who holds them, for people. */
#ifndef BTI_LEASE_HOLDERS_H
#define BTI_LEASE_HOLDERS_H

#include "base/str.h"
#include "lease/lock_file.h"

enum { BTI_LEASE_MOST_GPUS = 64 };

typedef struct bti_lease_gpu {
    uint64_t memory_bytes; /* 0: not known */
    char name[64];         /* its UUID, else its number: part of the lock file's name */
    char entry[64];        /* how the mask names it */
    const char *variable;  /* the mask: "CUDA_VISIBLE_DEVICES" */
    int id;                /* as bt_get_gpu_ids numbers it */
} bti_lease_gpu;

/* Lists the GPUs that the mask shows, in its order, in gpus[BTI_LEASE_MOST_GPUS]. A child process asks the driver; no library is opened
 * here. */
bt_status bti_lease_list_gpus(bti_lease_gpu *gpus, int *count);

/* Adds ", GPU 0 is held by process 7 since 12:00:00 (1 GiB, ./train)" for each GPU that others hold or wait for. */
void bti_lease_add_holders(bti_str *text, const bti_lease_gpu *gpus, const bti_lease_file *files, int count);

#endif
