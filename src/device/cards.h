/* The GPUs that are handed to processes by a mask: NVIDIA's, or simulated ones in their place; on a machine without NVIDIA's driver AMD's. Asked
 * past the registry, by a process that is made for it and ends, so that the one that wants to know has opened no library. */
#ifndef BTI_DEVICE_CARDS_H
#define BTI_DEVICE_CARDS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "base/str.h"
#include "device/vendor.h"

typedef struct bti_card {
    char name
        [64]; /* of the device itself, the same in every process: its UUID, else its PCI place, else driver and number */
    char model[64];        /* "NVIDIA H200"; "": not known */
    uint64_t memory_bytes; /* 0: not known */
    uint64_t linked;       /* bit per place in the list: cards that it has fast links to (NVLink) */
    bti_vendor vendor;
    bool simulated;
} bti_card;

/* Whose GPUs a mask is of, by a look at settings and files. */
bti_vendor bti_cards_vendor(void);

/* The same, asked in a child: no library is opened in this process. UNAVAILABLE when the child crashes, or gives no answer in the time that the
 * flag probe_seconds gives. */
bt_status bti_cards_ask(bti_card *cards, int capacity, int *count);

/* Whether there are MIG instances among them, which masks name by UUID, and the GPUs beside them too. */
bool bti_cards_are_split(const bti_card *cards, int count);

/* A look at settings and files: whether there may be GPUs that are not simulated. */
bool bti_cards_likely(void);

/* A look at settings and files: whether anybody might tell which processes hold memory of them. */
bool bti_cards_tell(void);

/* Which processes hold memory of those that the mask shows, some perhaps several times: up to `capacity`; opens libraries. UNIMPLEMENTED when
 * that cannot be told. */
bt_status bti_cards_users(int *pids, int capacity, int *count);

#endif
