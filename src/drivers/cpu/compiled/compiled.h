/* Kernels as functions that can be called: their text compiled, or found compiled in the disk cache. */
#ifndef BTI_DRIVERS_COMPILED_H
#define BTI_DRIVERS_COMPILED_H

#include "cache/cache.h"
#include "drivers/cpu/compiled/llvm.h"
#include "drivers/cpu/compiled/object.h"

typedef struct bti_compiled {
    bti_run_function *run; /* NULL where the text has no such function */
    bti_run_pair_function *run_pair;
    bti_part_function *part;
    bti_finish_function *finish;
    bti_code_object object;
} bti_compiled;

/* The kernel's functions for the target; `stream`: its outputs are stored around the cache. *compiled is yours to free, nothing of
 * it shares with another's. Takes milliseconds unless the disk cache has it; LLVM is opened only then. UNIMPLEMENTED: this CPU has
 * not that target; else as bti_llvm_compile and bti_object_load. Any thread. */
bt_status bti_compiled_get(const bti_kernel *kernel, bti_render_function *render, bti_target target, bool stream,
                           bti_compiled **compiled);
/* Nothing of it may be running. NULL is fine. */
void bti_compiled_free(bti_compiled *compiled);

/* What this process compiled and found so far. */
typedef struct bti_compiled_ledger {
    bti_llvm_state llvm;
    bti_cache_state cache;
    uint64_t kernels, compile_ns; /* compiled by LLVM, the time of all together without that of opening it */
    uint64_t trial_ns;            /* that the trial's compilation took; 0: none, or it failed */
    char trial_reason[512];       /* why it failed, cut to fit; "" */
} bti_compiled_ledger;

/* `attempt`: opens LLVM, compiles a small function and runs it, and tries the cache's folder. */
void bti_compiled_look(bti_compiled_ledger *ledger, bool attempt);

/* For tests: all counters at 0. */
void bti_compiled_reset(void);

#endif
