/* A fused kernel as LLVM IR text, for LLVM 16 to 19: what the CPU drivers compile. Pure: no LLVM is needed to write it.
 *
 * The module defines the functions of launch/functions.h and refers to nothing outside: mathematics goes through the table of
 * functions, and intrinsics are only used where they become instructions of the target. The module contains the triple but no
 * data layout, which differs between versions of LLVM: the compiler driver sets that of the target machine. */
#ifndef BTI_RENDER_LLVM_H
#define BTI_RENDER_LLVM_H

#include "launch/functions.h"

bool bti_render_llvm(bti_str *text, const bti_kernel *kernel, bti_target target, bti_cpu_text variant); /* render.h */

#endif
