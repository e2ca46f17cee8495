/* The vendor of the machine's GPUs, and the environment variable that chooses which of them a process sees. docs/visibility.md has the rules. */
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

/* Lists AMD's GPUs that can compute, in ROCm's order, from the kernel's files under `root` ("" except in tests): writes up to `capacity`, returns
 * how many there are. Opens no library. */
int bti_amd_list(const char *root, bti_amd_gpu *gpus, int capacity);
/* Whether there is an Intel GPU; with `discrete`, one that is not part of the processor. */
bool bti_intel_find(const char *root, bool discrete);

/* The variable that chooses among a vendor's GPUs. */
typedef struct bti_mask {
    bti_vendor vendor;
    const char *variable; /* "CUDA_VISIBLE_DEVICES" */
    const char *prefix;   /* of its value, before the list: "" or "level_zero:" */
    const char *list;     /* its current list, in the environment's memory; NULL: not set */
} bti_mask;

/* Several variables may be set: the vendor's library applies one after the other, so this is the one that is applied last. If none is set, it is the
 * one that most libraries read. */
bti_mask bti_mask_of(bti_vendor vendor);

/* Makes this process see only the GPUs of `list` ("": none). Call it before the process opens libraries. */
void bti_mask_set(const bti_mask *mask, const char *list);
/* Makes this process see no GPU of the vendor. */
void bti_mask_hide(bti_vendor vendor);

/* Prefix of the kernel's files that are read; tests change it. */
extern const char *bti_vendor_root;

#endif
