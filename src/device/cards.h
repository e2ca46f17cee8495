/* The GPUs that CUDA_VISIBLE_DEVICES speaks of (NVIDIA's or simulated ones, not OpenCL's), asked past the registry: by a process
 * that is made for it and ends, so that the one that wants to know has opened no library. */
#ifndef BTI_DEVICE_CARDS_H
#define BTI_DEVICE_CARDS_H

#include "base/error.h"
#include "base/str.h"

/* How many the mask of the environment shows; opens libraries. What was tried where there are none goes to `reason`. */
int bti_cards_count(bti_str *reason);

/* A look at settings and files: whether anybody might tell which processes hold memory of them. */
bool bti_cards_tell(void);

/* Whether a process holds memory of one that the mask shows; opens libraries. UNIMPLEMENTED when that cannot be told. */
bt_status bti_cards_held(int pid, bool *held);

#endif
