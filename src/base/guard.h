/* Calls of libraries that end the process, or never return, when memory is short. LLVM and oneDNN throw where no C can catch, and
 * OpenBLAS tries again for ever.
 *
 * Address space that nobody uses is held back from the first such library on. When `operator new` fails within a call, on its
 * thread, the reserve goes back to the system and the call goes on; once it is spent, no call begins until it can be had
 * again. What takes memory in other ways, or much of it, is asked for beforehand. */
#ifndef BTI_BASE_GUARD_H
#define BTI_BASE_GUARD_H

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"

/* Whether so much address space can be had now; RESOURCE_EXHAUSTED says for whom there is not enough. */
bt_status bti_guard_room(size_t bytes, const char *whom);

/* After a library was opened that brings C++'s library along: its handler of failures is found there. */
void bti_guard_watch(void *library);

/* Around a call, on its thread, that takes at most `room` bytes of address space. `give_up`: called when the reserve is spent and memory still fails, must not return; NULL: the
 * process ends then. RESOURCE_EXHAUSTED: there is not so much beside the reserve, and nothing has begun. */
bt_status bti_guard_begin(const char *whom, size_t room, void (*give_up)(const char *reason));
void bti_guard_end(void);

#endif
