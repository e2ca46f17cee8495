#include "render/llvm.h"

#include "base/alloc.h"
#include "render/llvm_parts.h"

#define X86_COMMON "+cx8,+fxsr,+mmx,+sse,+sse2,+x87"
#define X86_AVX2 X86_COMMON ",+sse3,+ssse3,+sse4.1,+sse4.2,+popcnt,+avx,+avx2,+bmi,+bmi2,+f16c,+fma,+lzcnt,+movbe"

static const struct {
    const char *triple, *attributes;
} targets[] = {
    [BTI_LLVM_SSE2] = {"x86_64-unknown-linux-gnu", "\"target-cpu\"=\"x86-64\" \"target-features\"=\"" X86_COMMON "\""},
    [BTI_LLVM_AVX2] = {"x86_64-unknown-linux-gnu",
                       "\"target-cpu\"=\"x86-64-v3\" \"target-features\"=\"" X86_AVX2 "\" "
                       "\"prefer-vector-width\"=\"256\" \"min-legal-vector-width\"=\"256\""},
    [BTI_LLVM_AVX512] = {"x86_64-unknown-linux-gnu",
                         "\"target-cpu\"=\"x86-64-v4\" \"target-features\"=\"" X86_AVX2
                         ",+avx512f,+avx512cd,+avx512bw,+avx512dq,+avx512vl\" "
                         "\"prefer-vector-width\"=\"512\" \"min-legal-vector-width\"=\"512\""},
    [BTI_LLVM_NEON] = {"aarch64-unknown-linux-gnu", "\"target-features\"=\"+neon,+fp-armv8\""},
};

/* Points that a vector of a kernel's line has: what the definition of reductions wants; else a float32 register of the
 * widest target. */
static int lanes_of(const bti_kernel *kernel) { return kernel->reduced && !kernel->inner ? BTI_LANES : 16; }

static bool in_parts(const bti_kernel *kernel) {
    bool reduces = false;
    for (int i = 0; i < kernel->instr_count; i++) reduces = reduces || bti_llvm_reduces(&kernel->instrs[i]);
    return reduces && bti_kernel_sweeps(kernel) == 1;
}

bool bti_render_llvm(bti_str *text, const bti_kernel *kernel, bti_target target) {
    bti_llvm *w = bti_calloc(1, sizeof *w);
    if (!w) return false;
    w->text = text;
    w->kernel = kernel;
    w->target = target;
    w->vector = lanes_of(kernel);
    bti_str_addf(text, "target triple = \"%s\"\n", targets[target].triple);
    bti_llvm_function(w, BTI_LLVM_RUN);
    if (bti_kernel_pairs(kernel)) bti_llvm_function(w, BTI_LLVM_PAIR);
    if (in_parts(kernel)) {
        bti_llvm_function(w, BTI_LLVM_PART);
        bti_llvm_function(w, BTI_LLVM_FINISH);
    }
    bti_llvm_call_helpers(w);
    bti_llvm_memory_helpers(w);
    bti_str_addf(text, "\n%s\nattributes #0 = { nounwind \"no-builtins\" %s }\n", bti_str_text(&w->declared),
                 targets[target].attributes);
    if (kernel->stream) bti_str_add(text, "\n!0 = !{i32 1}\n");
    bool written = !text->failed && !w->declared.failed;
    bti_str_free(&w->declared);
    bti_free(w);
    return written;
}
