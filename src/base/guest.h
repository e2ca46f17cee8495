/* The state of threads while the library works: floating-point modes, signals, stack, cancellation.
 *
 * A kernel of a third-party library may point the stack pointer into the heap (oneDNN's sgemm does). A signal handler that ran then would write
 * its frame into that memory. So asynchronous signals are blocked on a user's thread while such a kernel runs, and always on threads of this
 * library and on those that third-party libraries make. Faults (SIGSEGV, SIGFPE, ...) are never blocked. */
#ifndef BTI_BASE_GUEST_H
#define BTI_BASE_GUEST_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/modes.h"

/* Between begin and end a user's thread has the default floating-point modes. The outermost end restores the user's modes and unblocks the signals
 * that bti_hold_signals blocked. */
typedef struct bti_guest {
    bti_modes modes;
    bool outermost;
} bti_guest;
bti_guest bti_guest_begin(void);
void bti_guest_end(const bti_guest *guest);
/* Between begin and end: blocks asynchronous signals until the outermost end. The first call is a system call, later ones cost nothing. */
void bti_hold_signals(void);
bool bti_signals_held(void);

/* Blocks asynchronous signals on this thread until end. Threads that are made in between inherit the mask and keep it. */
typedef struct bti_calm {
    uint64_t before;
} bti_calm;
bti_calm bti_calm_begin(void);
void bti_calm_end(const bti_calm *calm);

/* Starts a thread of the library: asynchronous signals blocked, default floating-point modes, at least `stack` bytes of stack. False on failure. */
enum { BTI_STACK_WORK = 2 << 20, BTI_STACK_LIBRARY = 1 << 20 /* what compilers and drivers may take */ };
bool bti_thread_start(pthread_t *thread, size_t stack, void *(*body)(void *argument), void *argument);

/* Bytes of stack that the calling thread has left; SIZE_MAX if the system does not report it. */
size_t bti_stack_left(void);
/* Runs body(context), which needs `stack` bytes of stack: on the calling thread if it has as much, else on a new thread; returns when body has.
 * False: no thread can be made. */
bool bti_with_stack(size_t stack, void (*body)(void *context), void *context);

/* Disables pthread_cancel until the end of the block, since the thread may hold locks. */
int bti_cancel_off(void);
void bti_cancel_restore(const int *before);
#define BTI_NO_CANCEL int bti_cancel_ __attribute__((cleanup(bti_cancel_restore), unused)) = bti_cancel_off()

#endif
