/* LLVM as a compiler of text: opened when it is first needed, used through its C API. Any thread; several compile at once. */
#ifndef BTI_DRIVERS_LLVM_H
#define BTI_DRIVERS_LLVM_H

#include "base/error.h"
#include "base/str.h"
#include "launch/functions.h"

/* Compiles LLVM IR text into an ELF object, whose bytes are added to `object`. The text is ours: it is parsed, but verified in
 * debug builds only. UNAVAILABLE: there is no LLVM (the detail says what was tried, in the loader's words, and which package
 * to install), it lacks the target, or it failed for good before. INTERNAL: the text is refused, with LLVM's words. */
bt_status bti_llvm_compile(const bti_str *text, bti_target target, bti_str *object);

typedef struct bti_llvm_state {
    bool opened;
    char library[64]; /* "libLLVM-16.so.1"; "" when none is open */
    unsigned version[3];
    uint64_t open_ns; /* what opening took */
    char reason
        [1024]; /* why there is none, or why it did not compile the last time, cut to fit; "" when nothing is wrong */
} bti_llvm_state;

/* How things stand. Opens nothing. */
void bti_llvm_look(bti_llvm_state *state);

/* For tests: closes nothing, forgets what is open, and tries these libraries from now on (a NULL ends them; NULL alone: the
 * usual ones). No other thread may be compiling. */
void bti_llvm_use(const char *const *libraries);

#endif
