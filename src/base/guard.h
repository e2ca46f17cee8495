/* Guards calls of libraries that abort the process, or never return, when memory is short: LLVM and oneDNN throw C++ exceptions, OpenBLAS
 * retries forever.
 *
 * A reserve of unused address space is held back from the first guarded call on. When `operator new` fails within a call, on its
 * thread, the reserve is returned to the system and the call continues. Then no call begins until the reserve is restored. Memory
 * that is allocated in other ways, or in large amounts, is checked before the call. */
#ifndef BTI_BASE_GUARD_H
#define BTI_BASE_GUARD_H

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"

/* Whether so much address space is available now; else RESOURCE_EXHAUSTED, with `whom` in the message. */
bt_status bti_guard_room(size_t bytes, const char *whom);

/* Call it after opening a library that loads the C++ runtime: finds the handlers of `operator new` in it. */
void bti_guard_watch(void *library);

/* Around a call, on its thread, that allocates at most `room` bytes of address space. `give_up` is called when the reserve is spent and
 * memory still fails; it must not return (NULL: the process aborts then). RESOURCE_EXHAUSTED: there is not enough address space beside
 * the reserve, and nothing has begun. */
bt_status bti_guard_begin(const char *whom, size_t room, void (*give_up)(const char *reason));
void bti_guard_end(void);

#endif
