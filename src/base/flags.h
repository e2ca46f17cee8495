/* Flags: the table of flags.def with the values that hold now. BERTH_FLAGS is read at the first use of any of them. */
#ifndef BTI_BASE_FLAGS_H
#define BTI_BASE_FLAGS_H

#include <berth/flags.h>
#include <stdatomic.h>
#include <string.h>

#include "base/error.h"

typedef enum bti_flag {
#define BTI_FLAG(name, ...) BTI_FLAG_##name,
#include "base/flags.def"
#undef BTI_FLAG
    BTI_FLAG_COUNT
} bti_flag;

/* Values of the flags that choose, in the order of their rows. */
enum { BTI_PROBE_AUTO, BTI_PROBE_DIRECT, BTI_PROBE_CHILD, BTI_PROBE_OPEN };
enum { BTI_PLACEMENT_BERTH, BTI_PLACEMENT_TENSORFLOW };
enum { BTI_TRANSFERS_COPY, BTI_TRANSFERS_LOG, BTI_TRANSFERS_ERROR };
enum { BTI_EXPLAIN_OFF, BTI_EXPLAIN_TEXT, BTI_EXPLAIN_JSON, BTI_EXPLAIN_DOT, BTI_EXPLAIN_PASSES };
enum { BTI_CHECK_OFF, BTI_CHECK_NANS, BTI_CHECK_INFINITIES };
enum { BTI_KERNELS_AUTO, BTI_KERNELS_COMPILED, BTI_KERNELS_BLOCKS, BTI_KERNELS_INTERPRETER };
enum { BTI_COLLECTIVES_AUTO, BTI_COLLECTIVES_DRIVER, BTI_COLLECTIVES_COPIES };
enum { BTI_MATMUL_HIGHEST, BTI_MATMUL_TF32, BTI_MATMUL_BF16 };
enum { BTI_RANDOM_ORIGINAL, BTI_RANDOM_PARTITIONABLE };

typedef enum bti_flag_when { BTI_ANY_TIME, BTI_BEFORE_QUERY, BTI_BEFORE_OPEN } bti_flag_when;

/* Not for direct use. */
extern atomic_bool bti_flags_ready_;
extern _Atomic int64_t bti_flag_values_[];
void bti_flags_read_(void);

/* Cheap enough for every call: an atomic read. INT and BYTES (of a TEXT: 1 unless it is empty); a BOOL; the number of a
 * CHOICE; a FLOAT. Any thread. */
static inline int64_t bti_flag_int(bti_flag flag) {
    if (!atomic_load_explicit(&bti_flags_ready_, memory_order_acquire)) bti_flags_read_();
    return atomic_load_explicit(&bti_flag_values_[flag], memory_order_relaxed);
}
static inline bool bti_flag_bool(bti_flag flag) { return bti_flag_int(flag) != 0; }
static inline int bti_flag_choice(bti_flag flag) { return (int)bti_flag_int(flag); }
static inline size_t bti_flag_bytes(bti_flag flag) { return (size_t)bti_flag_int(flag); }
static inline double bti_flag_float(bti_flag flag) {
    int64_t bits = bti_flag_int(flag);
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* A TEXT flag's value (of any other, its value in words): a copy, yours to bti_free; NULL when memory is short. */
char *bti_flag_text(bti_flag flag);

/* How often the flag was set: who keeps something made of its value compares this. */
uint64_t bti_flag_changes(bti_flag flag);
uint64_t bti_flags_changes(void); /* how often any was */

/* Called by the thread that has read BERTH_FLAGS, and by each that has set the flag, afterwards and under no lock; it may be called when
 * nothing has changed. One per flag: the file that carries out what the flag says. Any time, by any thread. */
typedef void bti_flag_watcher(void);
void bti_flag_watch(bti_flag flag, bti_flag_watcher *watcher);
/* From now on flags that had to be set before that moment are refused; BTI_ANY_TIME opens both again (shutdown). */
void bti_flags_pass(bti_flag_when moment);

/* The fault in BERTH_FLAGS, retained; NULL when there is none. */
bti_error *bti_flags_fault(void);

/* For tests: everything as at the start; the environment is read again at the next use. */
void bti_flags_reset(void);

#endif
