#include "drivers/cpu/functions.h"

#include "drivers/cpu/target.h"
#include "drivers/cpu/vector/vector.h"

const bti_vector_code *bti_vector_code_of(bti_target target) {
#if defined(__x86_64__)
    if (target == BTI_LLVM_AVX512) return &bti_vector_avx512;
    if (target == BTI_LLVM_AVX2) return &bti_vector_avx2;
    if (bti_cpu_has(BTI_LLVM_AVX2)) return &bti_vector_sse2;
#endif
    (void)target;
    return &bti_vector_base;
}

const void *const *bti_functions_of(bti_target target) { return bti_vector_code_of(target)->functions; }
