/* Work on a thread that is the user's, and threads of our own.
 *
 * A kernel of a library may point the stack pointer into memory that is no stack (oneDNN's sgemm does): a signal that is delivered then
 * writes its frame there. So asynchronous signals are held back on a user's thread while such a kernel runs, and for good on our threads
 * and on those that libraries make. Faults (SIGSEGV, SIGFPE, ...) are never held back. */
#ifndef BTI_BASE_GUEST_H
#define BTI_BASE_GUEST_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/modes.h"

/* Between begin and end the thread is in the default floating-point modes; end restores the caller's, and lets the signals in that
 * bti_hold_signals held back since the outermost begin. */
typedef struct bti_guest {
    bti_modes modes;
    bool outermost;
} bti_guest;
bti_guest bti_guest_begin(void);
void bti_guest_end(const bti_guest *guest);
/* Inside of a guest: asynchronous signals wait until its end. A system call the first time, nothing after. */
void bti_hold_signals(void);
bool bti_signals_held(void);

/* Until end no asynchronous signal reaches this thread, nor threads that are made in between, for good. */
typedef struct bti_calm {
    uint64_t before;
} bti_calm;
bti_calm bti_calm_begin(void);
void bti_calm_end(const bti_calm *calm);

/* A thread of our own: no asynchronous signal reaches it, it begins in the default modes, and its stack has STACK bytes at least. */
enum { BTI_STACK_WORK = 2 << 20, BTI_STACK_LIBRARY = 1 << 20 /* what compilers and drivers may take */ };
bool bti_thread_start(pthread_t *thread, size_t stack, void *(*body)(void *argument), void *argument);

/* Bytes of stack that the calling thread has left; SIZE_MAX where the system does not tell. */
size_t bti_stack_left(void);
/* Runs body(context), which needs that much stack: here, or, if the thread has less, on a thread that is made for it, with plenty. False:
 * there is neither. */
bool bti_with_stack(size_t stack, void (*body)(void *context), void *context);

/* The thread cannot be cancelled while the variable lives: it may hold locks. */
int bti_cancel_off(void);
void bti_cancel_restore(const int *before);
#define BTI_NO_CANCEL int bti_cancel_ __attribute__((cleanup(bti_cancel_restore), unused)) = bti_cancel_off()

#endif
