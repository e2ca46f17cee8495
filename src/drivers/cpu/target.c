/* What this CPU is: the targets that it runs, the code that was compiled for each, its name. */
#include "drivers/cpu/target.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#ifdef __x86_64__
#include <cpuid.h>
#endif

#include "base/flags.h"
#include "base/log.h"
#include "drivers/cpu/vector/vector.h"

static const char *const names[] = {
    [BTI_LLVM_SSE2] = "sse2", [BTI_LLVM_AVX2] = "avx2", [BTI_LLVM_AVX512] = "avx512", [BTI_LLVM_NEON] = "neon"};

const char *bti_target_name(bti_target target) { return names[target]; }

#ifdef __x86_64__
/* cpuid is executed once: under a hypervisor it traps, which takes as long as ten thousand other instructions. */
static bool has_f16c(void) {
    static atomic_int known; /* 1: no, 2: yes */
    int has = atomic_load_explicit(&known, memory_order_relaxed);
    if (!has) {
        unsigned a, b, c, d;
        has = __get_cpuid(1, &a, &b, &c, &d) && c & bit_F16C ? 2 : 1;
        atomic_store_explicit(&known, has, memory_order_relaxed);
    }
    return has == 2;
}
static bool has_avx2(void) { return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && has_f16c(); }
static bool has_avx512(void) {
    return has_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512cd") &&
           __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
           __builtin_cpu_supports("avx512vl");
}
bool bti_cpu_has(bti_target target) {
    __builtin_cpu_init();
    return target == BTI_LLVM_SSE2 || (target == BTI_LLVM_AVX2 && has_avx2()) ||
           (target == BTI_LLVM_AVX512 && has_avx512());
}
#elif defined __aarch64__
bool bti_cpu_has(bti_target target) { return target == BTI_LLVM_NEON; }
#else
bool bti_cpu_has(bti_target target) {
    (void)target;
    return false;
}
#endif

static bti_target widest_target(void) {
    static const bti_target from_widest[] = {BTI_LLVM_AVX512, BTI_LLVM_AVX2, BTI_LLVM_NEON};
    for (int i = 0; i < 3; i++)
        if (bti_cpu_has(from_widest[i])) return from_widest[i];
    return BTI_LLVM_SSE2;
}

bti_target bti_cpu_target(void) {
    enum { AUTO, AVX512, AVX2, SSE2, NEON };
    static const bti_target wishes[] = {
        [AVX512] = BTI_LLVM_AVX512, [AVX2] = BTI_LLVM_AVX2, [SSE2] = BTI_LLVM_SSE2, [NEON] = BTI_LLVM_NEON};
    static atomic_uint_fast64_t logged; /* 1 + the flag's changes at the last log line */
    int wish = bti_flag_choice(BTI_FLAG_vector);
    if (wish != AUTO && bti_cpu_has(wishes[wish])) return wishes[wish];
    bti_target has = widest_target();
    uint64_t changes = bti_flag_changes(BTI_FLAG_vector) + 1;
    if (wish != AUTO && atomic_exchange(&logged, changes) != changes)
        bti_log("the flag vector asks for %s, which this CPU does not have: kernels are compiled for %s",
                names[wishes[wish]], names[has]);
    return has;
}

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

void bti_cpu_model(char *text, size_t size) {
    char line[512];
    snprintf(text, size, "CPU");
    FILE *file = fopen("/proc/cpuinfo", "re");
    while (file && fgets(line, sizeof line, file)) {
        char *colon = strchr(line, ':');
        if (strncmp(line, "model name", 10) || !colon) continue;
        colon += 1 + strspn(colon + 1, " \t");
        colon[strcspn(colon, "\n")] = '\0';
        if (*colon) snprintf(text, size, "%s", colon);
        break;
    }
    if (file) fclose(file);
}
