#include "base/guest.h"

#include <signal.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

/* --- signals ------------------------------------------------------------------------------------------------------ */

static _Thread_local struct {
    bool in, held;
    uint64_t before; /* the mask, as the kernel has it */
} mine;

#define BIT(signal) (UINT64_C(1) << ((signal)-1))
#define FAULTS (BIT(SIGSEGV) | BIT(SIGBUS) | BIT(SIGFPE) | BIT(SIGILL) | BIT(SIGTRAP) | BIT(SIGSYS))
/* The C library's own two, with which it cancels threads and changes their user: it waits for every thread, so they are held back for
 * the time of a kernel at most. Its functions leave them out of any mask: hence system calls. */
#define OF_THREADS (BIT(32) | BIT(33))

static uint64_t set_mask(int how, uint64_t mask) {
    uint64_t before = 0;
    syscall(SYS_rt_sigprocmask, how, &mask, &before, sizeof mask);
    return before;
}

bti_guest bti_guest_begin(void) {
    bti_guest guest = {.modes = bti_modes_begin(), .outermost = !mine.in};
    mine.in = true;
    return guest;
}

void bti_guest_end(const bti_guest *guest) {
    bti_modes_end_all(&guest->modes);
    if (!guest->outermost) return;
    mine.in = false;
    if (!mine.held) return;
    mine.held = false;
    set_mask(SIG_SETMASK, mine.before);
}

void bti_hold_signals(void) {
    if (mine.held || !mine.in) return;
    mine.before = set_mask(SIG_BLOCK, ~FAULTS);
    mine.held = true;
}

bool bti_signals_held(void) { return mine.held; }

bti_calm bti_calm_begin(void) { return (bti_calm){set_mask(SIG_SETMASK, ~(FAULTS | OF_THREADS))}; }
void bti_calm_end(const bti_calm *calm) { set_mask(SIG_SETMASK, calm->before); }

/* --- threads ------------------------------------------------------------------------------------------------------ */

bool bti_thread_start(pthread_t *thread, size_t stack, void *(*body)(void *argument), void *argument) {
    pthread_attr_t attr;
    size_t usual;
    if (pthread_attr_init(&attr)) return false;
    if (!pthread_attr_getstacksize(&attr, &usual) && usual < stack) pthread_attr_setstacksize(&attr, stack);
    bti_calm calm = bti_calm_begin();
    bti_modes modes = bti_modes_begin();
    bool made = !pthread_create(thread, &attr, body, argument);
    bti_modes_end(&modes);
    bti_calm_end(&calm);
    pthread_attr_destroy(&attr);
    return made;
}

/* --- stacks ------------------------------------------------------------------------------------------------------- */

static _Thread_local uintptr_t stack_end; /* its lowest byte; 0: not asked yet */

static void find_stack(void) {
    pthread_attr_t attr;
    void *lowest;
    size_t bytes, guard = 0;
    stack_end = 1;
    if (pthread_getattr_np(pthread_self(), &attr)) return;
    if (!pthread_attr_getstack(&attr, &lowest, &bytes)) {
        pthread_attr_getguardsize(&attr, &guard);
        stack_end = (uintptr_t)lowest + guard;
    }
    pthread_attr_destroy(&attr);
}

size_t bti_stack_left(void) {
    if (!stack_end) find_stack();
    uintptr_t here = (uintptr_t)__builtin_frame_address(0);
    return stack_end == 1 || here < stack_end ? SIZE_MAX
                                              : here - stack_end; /* below: on a stack of the program's own */
}

typedef struct moved {
    void (*body)(void *context);
    void *context;
} moved;

static void *run_moved(void *argument) {
    const moved *of = argument;
    of->body(of->context);
    return NULL;
}

bool bti_with_stack(size_t stack, void (*body)(void *context), void *context) {
    moved of = {body, context};
    pthread_t thread;
    if (bti_stack_left() >= stack) {
        body(context);
        return true;
    }
    if (!bti_thread_start(&thread, 8 * stack, run_moved, &of)) return false;
    pthread_join(thread, NULL);
    return true;
}

/* --- cancelling --------------------------------------------------------------------------------------------------- */

int bti_cancel_off(void) {
    int before = PTHREAD_CANCEL_ENABLE;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before);
    return before;
}

void bti_cancel_restore(const int *before) { pthread_setcancelstate(*before, NULL); }
