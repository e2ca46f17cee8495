/* Calls of third-party libraries that are opened at run time, and the end of the process.
 *
 * Such a library has exit handlers, which run while other threads of the process may still compute. So an exit handler of ours runs before them: it
 * blocks new calls of libraries and waits for the calls in progress. What runs after it works without libraries: matrix products by our own loops,
 * kernels without a compiler; devices that need a library report an error. */
#ifndef BTI_BASE_LIBRARIES_H
#define BTI_BASE_LIBRARIES_H

#include <berth/status.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "base/guest.h"

/* Called around calls of libraries; they nest. False: the process is ending, so the caller makes no call and does not call leave. `calls` counts
 * calls of one kind: the first ones count as openings (below), because libraries register some exit handlers when they are first used. */
typedef struct bti_library_calls {
    atomic_uint count;
} bti_library_calls;
bool bti_libraries_enter(bti_library_calls *calls);
void bti_libraries_leave(void);

/* The same around calls that register exit handlers of a library, such as opening it or compiling. Exit handlers run in reverse order, so ours is
 * registered again at the end; a thread that is about to end the process waits until then. Threads that the library makes in between have
 * asynchronous signals blocked and begin with the default floating-point modes. */
typedef struct bti_opening {
    bti_modes modes;
    bti_calm calm;
} bti_opening;
bool bti_opening_begin(bti_opening *opening);
void bti_opening_end(const bti_opening *opening);
/* Runs body(context) as an opening, with the stack that compilers need: on a new thread if the caller has less. The error of body becomes the
 * caller's. UNAVAILABLE when the process is ending. */
bt_status bti_libraries_open(bt_status (*body)(void *context), void *context);

/* The exit handler calls it once, when calls are refused and none is in progress: for a library whose own threads may still be at work then (four such functions
 * at most). Not in a forked child, which has no other threads. */
void bti_libraries_at_end(void (*settle)(void));

/* Makes this thread wait for openings in progress if it calls exit. Threads that use the library call it, once or more often. */
void bti_libraries_watch_thread(void);

#endif
