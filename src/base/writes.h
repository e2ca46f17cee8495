/* Writes that cannot end the process: past RLIMIT_FSIZE the kernel sends SIGXFSZ, at a pipe or a socket that nobody reads SIGPIPE,
 * both to the thread that writes. Between begin and end these signals are blocked, and those that came meanwhile are taken; the write
 * fails with EFBIG or EPIPE. A handler of the program's does not run for them. */
#ifndef BTI_BASE_WRITES_H
#define BTI_BASE_WRITES_H

#include <signal.h>

typedef struct bti_writes {
    sigset_t before;
    int pending; /* bits: SIGXFSZ, SIGPIPE were pending before; negative: nothing was blocked */
} bti_writes;

bti_writes bti_writes_begin(void);
void bti_writes_end(bti_writes *writes); /* errno stays */

/* To the end of the block. */
#define BTI_WRITES __attribute__((cleanup(bti_writes_end), unused)) bti_writes bti_writes_here = bti_writes_begin()

#endif
