#include "base/libraries.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>

#include "base/error.h"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/lsan_interface.h>
#else
#define __lsan_disable() ((void)0)
#define __lsan_enable() ((void)0)
#endif

enum { PATIENCE_MS = 10000 }; /* should who is inside wait for the thread that ends the process */

static atomic_int inside, opening; /* threads */
static atomic_int forking;         /* threads that are in fork(): no opening begins */
static atomic_bool gone;
static _Thread_local int depth;     /* of enters */
static _Thread_local int opened_at; /* the depth of the outermost opening; 0: none */
static _Thread_local bool ending, watched;

static void wait_for_others(atomic_int *count, int own) {
    for (int ms = 0; atomic_load(count) > own && ms < PATIENCE_MS; ms++)
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
}

static void at_exit(void) {
    ending = true; /* on this thread even what is under way is not gone on with */
    atomic_store(&gone, true);
    wait_for_others(&inside, depth > 0);
}

static bool enter(void) {
    if (ending) return false;
    if (!depth) {
        atomic_fetch_add(&inside, 1);
        if (atomic_load(&gone)) {
            atomic_fetch_sub(&inside, 1);
            return false;
        }
    }
    depth++;
    return true;
}

static void begin_opening(void) {
    if (opened_at) return;
    opened_at = depth;
    for (;;) {
        atomic_fetch_add(&opening, 1);
        if (!atomic_load(&forking)) return;
        atomic_fetch_sub(&opening, 1);
        wait_for_others(&forking, 0);
    }
}

/* A child that is forked while another thread opens a library, or registers an exit handler, would find the loader's or the C library's lock
 * taken for ever: fork() waits for openings, and openings wait for it. */
static void before_fork(void) {
    atomic_fetch_add(&forking, 1);
    wait_for_others(&opening, opened_at > 0);
}

static void after_fork(void) { atomic_fetch_sub(&forking, 1); }

void bti_libraries_leave(void) {
    if (opened_at == depth) {
        atexit(at_exit); /* if there is no memory for it, an older registration does nearly as well */
        opened_at = 0;
        atomic_fetch_sub(&opening, 1);
    }
    if (--depth == 0) atomic_fetch_sub(&inside, 1);
}

/* In a forked child nobody else is inside. */
static void forget_threads_inside(void) {
    atomic_store(&forking, 0);
    atomic_store(&inside, depth > 0);
    atomic_store(&opening, opened_at > 0);
}

/* Our code stays mapped, whatever is closed: threads of ours may run in it, and exit handlers are to. */
static void stay(void) {
    Dl_info self;
    if (dladdr((void *)(uintptr_t)at_exit, &self) && self.dli_fname)
        (void)dlopen(self.dli_fname, RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE);
    pthread_atfork(before_fork, after_fork, forget_threads_inside);
}

enum { FRESH_ALL = 64, FRESH = 4096 }; /* calls of a kind: the first ones, and each FRESH_ALL-th up to that */
static pthread_once_t stay_once = PTHREAD_ONCE_INIT;

bool bti_libraries_enter(bti_library_calls *calls) {
    if (!enter()) return false;
    if (atomic_load_explicit(&calls->count, memory_order_relaxed) < FRESH) {
        unsigned before = atomic_fetch_add_explicit(&calls->count, 1, memory_order_relaxed);
        if (before < FRESH_ALL || before % FRESH_ALL == 0) begin_opening();
    }
    return true;
}

bool bti_opening_begin(bti_opening *of) {
    if (!enter()) return false;
    begin_opening();
    pthread_once(&stay_once, stay); /* counted: a process that ends runs no destructor of ours before this is done */
    of->calm = bti_calm_begin();
    of->modes = bti_modes_begin();
    return true;
}

void bti_opening_end(const bti_opening *of) {
    bti_libraries_leave();
    bti_modes_end(&of->modes);
    bti_calm_end(&of->calm);
}

/* --- calls that need room ------------------------------------------------------------------------------------------- */

typedef struct call {
    bt_status (*body)(void *context);
    void *context;
    bti_place place;
    bt_status status;
    bti_error *error;
} call;

static void run_aside(void *context) {
    call *of = context;
    int calls = bti_call_begin(NULL);
    bti_place before = bti_call_set_place(of->place);
    bool quiet = bti_errors_quiet(true); /* the caller tells */
    of->status = of->body(of->context);
    of->error = of->status == BT_OK ? NULL : bti_error_last();
    bti_errors_quiet(quiet);
    bti_call_set_place(before);
    bti_call_end(calls);
}

static bt_status with_stack(bt_status (*body)(void *context), void *context) {
    call of = {body, context, bti_call_place(), BT_OK, NULL};
    if (bti_stack_left() >= BTI_STACK_LIBRARY) return body(context);
    if (!bti_with_stack(BTI_STACK_LIBRARY, run_aside, &of))
        return bti_fail(BT_RESOURCE_EXHAUSTED, "no thread with the stack that a library needs can be made");
    if (of.status != BT_OK) bti_fail_with(of.error);
    bti_error_tell(of.error);
    bti_error_release(of.error);
    return of.status;
}

bt_status bti_libraries_open(bt_status (*body)(void *context), void *context) {
    bti_opening begun;
    if (!bti_opening_begin(&begun))
        return bti_fail(BT_UNAVAILABLE, "the process is ending: exit handlers of the library that this needs run "
                                        "before this call; register the handler that "
                                        "makes it after the first use of the device, and it runs before them");
    bt_status status = with_stack(body, context);
    bti_opening_end(&begun);
    return status;
}

/* --- threads that end the process ---------------------------------------------------------------------------------- */

/* A library's own handlers are registered while it is opened, and ours only after: between the two nothing of ours would run first. What
 * runs before any exit handler are the destructors of the calling thread's variables, as C++ has them. They run when a thread ends, too,
 * which then waits for nothing but an opening. */
extern int __cxa_thread_atexit_impl(void (*destroy)(void *object), void *object, void *library) __attribute__((weak));
extern void *__dso_handle __attribute__((visibility("hidden")));

static void at_thread_exit(void *unused) {
    (void)unused;
    wait_for_others(&opening, opened_at > 0);
}

void bti_libraries_watch_thread(void) {
    if (watched || !__cxa_thread_atexit_impl) return;
    watched = true;
    __lsan_disable(); /* the C library never frees the entry of a first thread that ends by pthread_exit */
    __cxa_thread_atexit_impl(at_thread_exit, NULL, &__dso_handle);
    __lsan_enable();
}

__attribute__((constructor)) static void watch_process(void) {
    bti_libraries_watch_thread();
    atexit(at_exit); /* for a first opening that begins when the process ends already */
}
