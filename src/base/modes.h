/* The floating-point modes of a thread: rounding, flushing of subnormal numbers, unmasked exceptions. Numbers are computed, printed and
 * parsed in the default modes, whatever the caller's are; new threads inherit the modes of the thread that makes them. */
#ifndef BTI_BASE_MODES_H
#define BTI_BASE_MODES_H

#include <fenv.h>
#include <stdbool.h>
#include <stdint.h>

#if defined __x86_64__
typedef struct bti_modes {
    uint32_t sse; /* MXCSR, with its sticky flags */
    uint16_t x87; /* the control word */
    bool changed;
} bti_modes;
enum { BTI_SSE_FLAGS = 0x3f, BTI_SSE_DEFAULT = 0x1f80, BTI_X87_DEFAULT = 0x37f, BTI_X87_MASKS = 0x3f };

static inline bti_modes bti_modes_begin(void) {
    bti_modes caller = {.sse = __builtin_ia32_stmxcsr()};
    __asm__ volatile("fnstcw %0" : "=m"(caller.x87));
    caller.changed = (caller.sse & ~(uint32_t)BTI_SSE_FLAGS) != BTI_SSE_DEFAULT || caller.x87 != BTI_X87_DEFAULT;
    if (__builtin_expect(caller.changed, 0)) {
        uint16_t x87 = BTI_X87_DEFAULT;
        __builtin_ia32_ldmxcsr(BTI_SSE_DEFAULT);
        __asm__ volatile("fldcw %0" : : "m"(x87));
    }
    return caller;
}

static inline void bti_modes_end(const bti_modes *caller) {
    if (__builtin_expect(!caller->changed, 1)) return;
    if ((caller->x87 & BTI_X87_MASKS) != BTI_X87_MASKS) __asm__ volatile("fnclex"); /* else fldcw makes them a signal */
    __asm__ volatile("fldcw %0" : : "m"(caller->x87));
    __builtin_ia32_ldmxcsr(caller->sse);
}

/* As bti_modes_end; the sticky exception flags are the caller's again too. */
static inline void bti_modes_end_all(const bti_modes *caller) {
    bti_modes_end(caller);
    if (__builtin_ia32_stmxcsr() != caller->sse) __builtin_ia32_ldmxcsr(caller->sse);
}

#elif defined __aarch64__
typedef struct bti_modes {
    uint64_t control, flags; /* FPCR, FPSR */
    bool changed;
} bti_modes;

static inline bti_modes bti_modes_begin(void) {
    bti_modes caller = {0};
    __asm__ volatile("mrs %0, fpcr" : "=r"(caller.control));
    __asm__ volatile("mrs %0, fpsr" : "=r"(caller.flags));
    caller.changed = caller.control != 0;
    if (__builtin_expect(caller.changed, 0)) __asm__ volatile("msr fpcr, %0" : : "r"(UINT64_C(0)));
    return caller;
}

static inline void bti_modes_end(const bti_modes *caller) {
    if (__builtin_expect(caller->changed, 0)) __asm__ volatile("msr fpcr, %0" : : "r"(caller->control));
}

static inline void bti_modes_end_all(const bti_modes *caller) {
    __asm__ volatile("msr fpsr, %0" : : "r"(caller->flags));
    bti_modes_end(caller);
}

#else
typedef struct bti_modes {
    fenv_t all;
} bti_modes;

static inline bti_modes bti_modes_begin(void) {
    bti_modes caller;
    fegetenv(&caller.all);
    fesetenv(FE_DFL_ENV);
    return caller;
}
static inline void bti_modes_end(const bti_modes *caller) { fesetenv(&caller->all); }
static inline void bti_modes_end_all(const bti_modes *caller) { fesetenv(&caller->all); }
#endif

#endif
