/* LLVM as a compiler of text, through its C API. It is opened at first use. Any thread; several threads may compile at once. */
#ifndef BTI_DRIVERS_CPU_COMPILED_LLVM_H
#define BTI_DRIVERS_CPU_COMPILED_LLVM_H

#include "base/error.h"
#include "base/str.h"
#include "launch/functions.h"

/* Compiles LLVM IR text to an ELF object, which is appended to `object`. The text is trusted: only debug builds verify it. UNAVAILABLE:
 * there is no LLVM (the detail has the loader's errors and the package to install), it lacks the target, or it had a fatal error
 * before. INTERNAL: LLVM refuses the text; the detail is LLVM's error. */
bt_status bti_llvm_compile(const bti_str *text, bti_target target, bti_str *object);

typedef struct bti_llvm_state {
    bool opened;
    char library[64]; /* "libLLVM-16.so.1"; "" if none is open */
    unsigned version[3];
    uint64_t open_ns;  /* the time that opening took */
    char reason[1024]; /* why there is none, or why the last compilation failed, cut to fit; "" without an error */
} bti_llvm_state;

/* The current state. Opens nothing. */
void bti_llvm_look(bti_llvm_state *state);

/* For tests: forgets the open library, without closing it, and tries these names from now on, up to a NULL (NULL: the usual names). No
 * other thread may be compiling. */
void bti_llvm_use(const char *const *libraries);

#endif
