/* What was predicted of each device's memory before work began, and what was measured: kept while flag `fit` names a file, and
 * written there. */
#ifndef BTI_BASE_FIT_H
#define BTI_BASE_FIT_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

#define BTI_FIT_DEVICES 64

extern atomic_bool bti_fit_on_; /* not for direct use */
static inline bool bti_fit_on(void) { return atomic_load_explicit(&bti_fit_on_, memory_order_relaxed); }

/* A step that is about to take memory of a device. */
typedef struct bti_fit_step {
    const char *device; /* its name; copied */
    uint64_t in_use;    /* before it */
    uint64_t added;     /* that it takes */
    uint64_t largest;   /* of the pieces that it takes ... */
    bti_place place;    /* ... what for */
} bti_fit_step;

/* The step got its memory, or (reserved is false) not: then it tells of what was wanted, not of what was taken. Any thread. */
void bti_fit_predict(int device, const bti_fit_step *step, bool reserved);
/* So much is in use now. */
void bti_fit_note_memory(int device, uint64_t in_use);
static inline void bti_fit_memory(int device, uint64_t in_use) {
    if (bti_fit_on()) bti_fit_note_memory(device, in_use);
}

/* The file from now on ("": none); what was noted for the one before is written. At the end of the process the same. */
void bti_fit_record_into(const char *path);

#endif
