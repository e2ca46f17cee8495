/* Whose GPUs the machine has, and which variable of the environment says which of them a process sees. The rules are docs/visibility.md. */
#ifndef BTI_DEVICE_VENDOR_H
#define BTI_DEVICE_VENDOR_H

#include <stdbool.h>
#include <stdint.h>

typedef enum bti_vendor { BTI_NVIDIA, BTI_AMD, BTI_INTEL, BTI_UNKNOWN_VENDOR } bti_vendor;

typedef struct bti_amd_gpu {
    char uuid[24]; /* "GPU-" and 16 digits, as ROCR_VISIBLE_DEVICES takes it; "" when it has none */
    char place[24];
    uint64_t memory_bytes;
} bti_amd_gpu;

/* AMD's GPUs that can compute, in the order in which ROCm numbers them, as files of the kernel under `root` tell ("" in programs): up to
 * `capacity`; returns how many there are. No library is opened. */
int bti_amd_list(const char *root, bti_amd_gpu *gpus, int capacity);
/* Whether there is a GPU of Intel; `discrete`: one that is not a part of the processor. */
bool bti_intel_find(const char *root, bool discrete);

/* Which variable chooses among a vendor's GPUs. */
typedef struct bti_mask {
    bti_vendor vendor;
    const char *variable; /* "CUDA_VISIBLE_DEVICES" */
    const char *prefix;   /* of its value, before the list: "" or "level_zero:" */
    const char *list;     /* what it lists now; NULL: it is not set. Of the environment */
} bti_mask;

/* Of a vendor, in this environment: the variable that is read last of those that are set, since it counts among what the others leave; when none
 * is set, the one that most libraries read. */
bti_mask bti_mask_of(bti_vendor vendor);

/* In a process that is to see GPUs of `mask` alone, as its list (with *list empty: no GPU), before it opens libraries. */
void bti_mask_set(const bti_mask *mask, const char *list);
/* In one that is to see none of a vendor's. */
void bti_mask_hide(bti_vendor vendor);

/* Root of the files above; tests change it. */
extern const char *bti_vendor_root;

#endif
