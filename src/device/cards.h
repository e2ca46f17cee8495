/* The GPUs that processes are given by a mask (CUDA_VISIBLE_DEVICES or its counterpart): NVIDIA's or simulated ones, or AMD's on a machine without
 * NVIDIA's driver. They are listed without the registry and, by bti_cards_ask, in a child process, so that the caller's process opens no library. */
#ifndef BTI_DEVICE_CARDS_H
#define BTI_DEVICE_CARDS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "base/str.h"
#include "device/vendor.h"

typedef struct bti_card {
    char name[64];         /* the same in every process: its UUID, else its PCI address, else driver and number */
    char model[64];        /* "NVIDIA H200"; "": not known */
    uint64_t memory_bytes; /* 0: not known */
    uint64_t linked;       /* bit i: it has a fast link (NVLink) to card i of the list */
    bti_vendor vendor;
    bool simulated;
} bti_card;

/* The vendor whose GPUs masks choose from, by settings and files alone. */
bti_vendor bti_cards_vendor(void);

/* Lists the GPUs that the mask of the environment shows, in its order: writes up to `capacity`, *count is how many there are. A child process asks,
 * so this process opens no library. Blocks until the child has ended. INVALID_ARGUMENT when the settings are faulty; UNAVAILABLE when the child
 * crashes, or gives no answer within the flag probe_seconds. */
bt_status bti_cards_ask(bti_card *cards, int capacity, int *count);

/* Whether any of them is a MIG instance. Masks then name all of them by UUID. */
bool bti_cards_are_split(const bti_card *cards, int count);

/* Whether there may be GPUs that are not simulated, by settings and files alone. */
bool bti_cards_likely(void);

/* Whether a driver may list the processes that hold memory of the GPUs (bti_cards_users), by settings and files alone. */
bool bti_cards_list_users(void);

/* The processes that hold memory of the GPUs that the mask shows; one may be listed several times. Writes up to `capacity`. Opens libraries.
 * UNIMPLEMENTED when the driver cannot list them. */
bt_status bti_cards_users(int *pids, int capacity, int *count);

/* Whether a driver may tell the energy of the GPUs (bti_cards_energy), by settings and files alone. */
bool bti_cards_have_energy(void);

/* The energy counters (driver.h) of the GPUs that the mask shows, in its order: writes up to `capacity`, *count is how many there are. Opens libraries. */
typedef struct bti_card_energy {
    double joules;
    char why[256]; /* they are not known; else "" */
} bti_card_energy;
void bti_cards_energy(bti_card_energy *cards, int capacity, int *count);

#endif
