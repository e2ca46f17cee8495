/* Who is inside a library that was opened at run time, and the end of the process.
 *
 * Such a library has exit handlers, which run while other threads of the process still compute. So a handler of ours runs before them:
 * from then on nobody enters a library, and those who are inside are waited for. The process goes on without: products by our own loops,
 * kernels without a compiler, devices that need a library with an error. */
#ifndef BTI_BASE_LIBRARIES_H
#define BTI_BASE_LIBRARIES_H

#include <berth/status.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "base/guest.h"

/* Whether the caller may call libraries until leave, which follows exactly if it may. They nest. `calls` counts calls of one kind: the
 * first ones are treated as an opening, without its guest, since libraries make some of their exit handlers when they are used. */
typedef struct bti_library_calls {
    atomic_uint count;
} bti_library_calls;
bool bti_libraries_enter(bti_library_calls *calls);
void bti_libraries_leave(void);

/* The same around what registers exit handlers of a library: opening it, a compiler. Exit handlers run in reverse order, so ours is
 * registered anew at the end; a thread that is about to end the process waits until then. No asynchronous signal reaches
 * threads that the library makes in between, and they begin in the default floating-point modes. */
typedef struct bti_opening {
    bti_modes modes;
    bti_calm calm;
} bti_opening;
bool bti_opening_begin(bti_opening *opening);
void bti_opening_end(const bti_opening *opening);
/* body(context) in an opening, with a stack that compilers need: on a thread of its own if the caller has less; its error is the
 * caller's. UNAVAILABLE when the process is ending. */
bt_status bti_libraries_open(bt_status (*body)(void *context), void *context);

/* This thread, should it call exit, waits as said; called once or more by threads that use the library. */
void bti_libraries_watch_thread(void);

#endif
