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

enum {
    PATIENCE_MS = 10000
}; /* the longest wait: a call in progress may itself wait for the thread that ends the process */

static atomic_int inside, opening; /* threads in calls of libraries, and in openings */
static atomic_int forking;         /* threads in fork(): no opening begins */
static atomic_bool closed;         /* the process is ending */
enum { SETTLERS = 4 };
static _Atomic(void (*)(void)) settle_at_end[SETTLERS];
static _Thread_local int depth;     /* nested calls of enter */
static _Thread_local int opened_at; /* depth of the outermost opening; 0: none */
static _Thread_local bool ending, watched;

static void wait_for_others(atomic_int *count, int own) {
    for (int ms = 0; atomic_load(count) > own && ms < PATIENCE_MS; ms++)
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
}

static void at_exit(void) {
    ending = true; /* on this thread even nested calls are refused */
    atomic_store(&closed, true);
    wait_for_others(&inside, depth > 0);
    for (int i = 0; i < SETTLERS; i++) {
        void (*settle)(void) = atomic_exchange(&settle_at_end[i], NULL);
        if (settle) settle();
    }
}

void bti_libraries_at_end(void (*settle)(void)) {
    for (int i = 0; i < SETTLERS; i++) {
        void (*there)(void) = NULL;
        if (atomic_compare_exchange_strong(&settle_at_end[i], &there, settle) || there == settle) return;
    }
}

static bool enter(void) {
    if (ending) return false;
    if (!depth) {
        atomic_fetch_add(&inside, 1);
        if (atomic_load(&closed)) {
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

/* In a child that is forked while another thread opens a library or registers an exit handler, the lock of the loader or of the C library would stay
 * locked forever. So fork() waits for openings, and openings wait for fork(). */
static void before_fork(void) {
    atomic_fetch_add(&forking, 1);
    wait_for_others(&opening, opened_at > 0);
}

static void after_fork(void) { atomic_fetch_sub(&forking, 1); }

void bti_libraries_leave(void) {
    if (opened_at == depth) {
        atexit(at_exit); /* if that fails for lack of memory, the previous registration remains */
        opened_at = 0;
        atomic_fetch_sub(&opening, 1);
    }
    if (--depth == 0) atomic_fetch_sub(&inside, 1);
}

/* A forked child has no other thread. */
static void forget_other_threads(void) {
    atomic_store(&forking, 0);
    for (int i = 0; i < SETTLERS; i++) atomic_store(&settle_at_end[i], NULL);
    atomic_store(&inside, depth > 0);
    atomic_store(&opening, opened_at > 0);
}

/* Keeps this library mapped after dlclose: its threads and exit handlers run in it. */
static void stay_mapped(void) {
    Dl_info self;
    if (dladdr((void *)(uintptr_t)at_exit, &self) && self.dli_fname)
        (void)dlopen(self.dli_fname, RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE);
    pthread_atfork(before_fork, after_fork, forget_other_threads);
}

enum {
    FRESH_ALL = 64,
    FRESH = 4096
}; /* these calls of a kind count as openings: the first FRESH_ALL, then each FRESH_ALL-th up to FRESH */
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
    pthread_once(&stay_once, stay_mapped); /* within the opening: the process does not end before this is done */
    of->calm = bti_calm_begin();
    of->modes = bti_modes_begin();
    return true;
}

void bti_opening_end(const bti_opening *of) {
    bti_libraries_leave();
    bti_modes_end(&of->modes);
    bti_calm_end(&of->calm);
}

/* --- calls that need stack ------------------------------------------------------------------------------------------- */

typedef struct call {
    bt_status (*body)(void *context);
    void *context;
    bti_place place;
    bt_status status;
    bti_error *error;
} call;

static void run_on_new_thread(void *context) {
    call *of = context;
    int calls = bti_call_begin(NULL);
    bti_place before = bti_call_set_place(of->place);
    bool quiet = bti_errors_quiet(true); /* the caller's thread reports the error */
    of->status = of->body(of->context);
    of->error = of->status == BT_OK ? NULL : bti_error_last();
    bti_errors_quiet(quiet);
    bti_call_set_place(before);
    bti_call_end(calls);
}

static bt_status with_stack(bt_status (*body)(void *context), void *context) {
    call of = {body, context, bti_call_place(), BT_OK, NULL};
    if (bti_stack_left() >= BTI_STACK_LIBRARY) return body(context);
    if (!bti_with_stack(BTI_STACK_LIBRARY, run_on_new_thread, &of))
        return bti_fail(BT_RESOURCE_EXHAUSTED,
                        "the calling thread has less stack than a library needs, and no other thread can be made");
    if (of.status != BT_OK) bti_fail_with(of.error);
    bti_error_tell(of.error);
    bti_error_release(of.error);
    return of.status;
}

bt_status bti_libraries_open(bt_status (*body)(void *context), void *context) {
    bti_opening begun;
    if (!bti_opening_begin(&begun))
        return bti_fail(BT_UNAVAILABLE,
                        "the process is ending, and the library that this call needs is closed already; "
                        "an exit handler that uses a device must be registered after the first use of the device");
    bt_status status = with_stack(body, context);
    bti_opening_end(&begun);
    return status;
}

/* --- threads that end the process ---------------------------------------------------------------------------------- */

/* A library registers its handlers while it is opened, and ours is registered again only after that. If another thread calls exit in between, ours
 * would run too late. Destructors of thread-local variables, as C++ has them, run before every exit handler: this one waits for the opening. They
 * also run when a thread ends; it then waits only for openings in progress. */
extern int __cxa_thread_atexit_impl(void (*destroy)(void *object), void *object, void *library) __attribute__((weak));
extern void *__dso_handle __attribute__((visibility("hidden")));

static void at_thread_exit(void *unused) {
    (void)unused;
    wait_for_others(&opening, opened_at > 0);
}

void bti_libraries_watch_thread(void) {
    if (watched || !__cxa_thread_atexit_impl) return;
    watched = true;
    __lsan_disable(); /* the C library never frees the entry of the main thread if that ends by pthread_exit */
    __cxa_thread_atexit_impl(at_thread_exit, NULL, &__dso_handle);
    __lsan_enable();
}

__attribute__((constructor)) static void watch_process(void) {
    bti_libraries_watch_thread();
    atexit(at_exit); /* for a process that ends before its first opening */
}
