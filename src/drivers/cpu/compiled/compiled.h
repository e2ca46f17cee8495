/* Kernels as compiled functions: from the disk cache, or compiled by LLVM. */
#ifndef BTI_DRIVERS_CPU_COMPILED_COMPILED_H
#define BTI_DRIVERS_CPU_COMPILED_COMPILED_H

#include "cache/cache.h"
#include "drivers/cpu/compiled/llvm.h"
#include "drivers/cpu/compiled/object.h"

typedef struct bti_compiled {
    bti_run_function *run; /* NULL where the text has no such function */
    bti_part_function *part;
    bti_finish_function *finish;
    bti_code_object object;
} bti_compiled;

/* The functions of a text for the target (`failed`: memory was short); `kernel` names it. The caller owns *compiled. Takes milliseconds and opens
 * LLVM, unless the disk cache has the kernel. UNIMPLEMENTED: this CPU does not have the target; other errors are those of
 * bti_llvm_compile and bti_object_load. Any thread. */
bt_status bti_compiled_get(const bti_kernel *kernel, const bti_str *text, bti_target target, bti_compiled **compiled);
/* None of its functions may be running. NULL is fine. */
void bti_compiled_free(bti_compiled *compiled);

/* What this process has compiled and found so far. */
typedef struct bti_compiled_ledger {
    bti_llvm_state llvm;
    bti_cache_state cache;
    uint64_t kernels, compile_ns; /* compiled by LLVM; their total time, without that of opening LLVM */
    uint64_t trial_ns;            /* the compilation time of the trial; 0: no trial, or it failed */
    char trial_reason[512];       /* why it failed, truncated to fit; else "" */
} bti_compiled_ledger;

/* `attempt`: opens LLVM, compiles a small function and runs it, and tries the cache's folder. */
void bti_compiled_look(bti_compiled_ledger *ledger, bool attempt);

/* For tests: all counters at 0. */
void bti_compiled_reset(void);

#endif
