#include "base/error.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "base/alloc.h"
#include "base/lock.h"
#include "base/str.h"
#include "base/thread.h"

struct bti_error {
    atomic_uint refs;
    bt_status status;
    char *message;
};

/* A public call that is being made: bti_enter was called, bti_leave not yet. A longjmp or an exception out of its arguments skips
 * bti_leave, so entries can be stale. */
typedef struct public_call {
    bti_site site;
    int index;         /* of how many this was the next: a slot is used by many */
    const char *frame; /* the stack pointer of the function that calls */
    const void *from;  /* where in that function */
} public_call;

/* Of nested calls the outermost and the innermost keep their places; those between are without one. */
enum { OUTERMOST = 32, INNERMOST = 32 };

/* Bytes. A stack pointer moves a little within one function (arguments that are passed on the stack), and what is further away than a
 * stack is large is on another stack (a signal's, a coroutine's). */
enum { WITHIN_FRAME = 256, WITHIN_STACK = 8 << 20 };

typedef struct thread_state {
    bti_error *last;
    bti_error *told[2]; /* the errors whose texts bt_error_text returned last */
    public_call places[OUTERMOST + INNERMOST];
    int depth;
    const char *call_name; /* outermost public operation that is running */
    bti_site call_site;    /* where it was called: stands until it returns */
    const char *label;
    int call_depth;
    bool quiet;    /* the error handler is not called */
    bool deferred; /* the handler is called later, with `deferred_error` */
    bti_error *deferred_error;
    uint64_t calls; /* public calls begun */
    bti_error *misuse;
    const void *misused;
    uint64_t misused_in; /* which call */
} thread_state;

static _Thread_local thread_state own_state;
bti_error bti_no_memory_error = {1, BT_RESOURCE_EXHAUSTED, (char *)"out of host memory"};

static pthread_once_t key_once = PTHREAD_ONCE_INIT;
static pthread_key_t key;
static void forget_thread(void *unused) {
    (void)unused;
    bti_error_release(own_state.last);
    bti_error_release(own_state.misuse);
    for (int i = 0; i < 2; i++) bti_error_release(own_state.told[i]);
    own_state.last = own_state.misuse = own_state.told[0] = own_state.told[1] = NULL;
}
static void make_key(void) { pthread_key_create(&key, forget_thread); }

static atomic_bool strict; /* the handler hears of every error */
BTI_STATIC_LOCK(handler_lock, error_handler)
static bt_error_handler *handler;
static void *handler_data;

static const char *const status_names[] = {
    "OK",        "CANCELLED",      "UNKNOWN",           "INVALID_ARGUMENT",   "DEADLINE_EXCEEDED",
    "NOT_FOUND", "ALREADY_EXISTS", "PERMISSION_DENIED", "RESOURCE_EXHAUSTED", "FAILED_PRECONDITION",
    "ABORTED",   "OUT_OF_RANGE",   "UNIMPLEMENTED",     "INTERNAL",           "UNAVAILABLE",
    "DATA_LOSS", "UNAUTHENTICATED"};

const char *bt_status_name(bt_status status) {
    return bti_is_status((int64_t)status) ? status_names[status] : "UNKNOWN";
}

bool bti_is_status(int64_t number) {
    return number >= 0 && (size_t)number < sizeof status_names / sizeof *status_names;
}

/* --- places ------------------------------------------------------------------------------------------------------- */

static public_call *place_of(thread_state *s, int index) {
    return &s->places[index < OUTERMOST ? index : OUTERMOST + (index - OUTERMOST) % INNERMOST];
}

/* A function that has returned, or was left: its frame is below that of a function which runs now. */
static bool has_returned(const char *frame, const char *now) {
    return now - frame > WITHIN_FRAME && now - frame < WITHIN_STACK;
}

/* How many of the places are not stale, as seen from a function that runs. */
static __attribute__((noinline)) int live_depth(thread_state *s, const char *now) {
    int depth = s->depth;
    if (depth > OUTERMOST && has_returned(place_of(s, OUTERMOST - 1)->frame, now)) depth = OUTERMOST;
    for (; depth; depth--) {
        const public_call *p = place_of(s, depth - 1);
        if (p->index != depth - 1 || !has_returned(p->frame, now)) break;
    }
    return depth;
}

/* The same call of the same function cannot be inside of itself: it was left by a longjmp. */
static int without_itself(thread_state *s, int depth, const char *now, const void *from) {
    for (int i = depth - 1; i >= 0; i--) {
        const public_call *p = place_of(s, i);
        if (p->index != i || now - p->frame > WITHIN_FRAME || p->frame - now > WITHIN_FRAME) break;
        if (p->from == from && p->frame <= now) return i;
    }
    return depth;
}

/* Never inlined into a program: what counts is the frame that calls. */
#define OWN_FRAME __attribute__((noinline))

OWN_FRAME void bti_enter(const char *file, int line) {
    thread_state *s = BTI_THREAD_OWN(own_state);
    const char *now = __builtin_frame_address(0);
    const void *from = __builtin_return_address(0);
    int depth = s->depth ? without_itself(s, live_depth(s, now), now, from) : 0;
    *place_of(s, depth) = (public_call){{file, line}, depth, now, from};
    s->depth = depth + 1;
    s->calls++;
}

static inline void leave(const char *now) {
    thread_state *s = BTI_THREAD_OWN(own_state);
    int depth = s->depth;
    if (depth < 1 || depth > OUTERMOST || s->places[depth - 1].frame != now) depth = live_depth(s, now); /* rare */
    s->depth = depth ? depth - 1 : 0;
}
OWN_FRAME void *bti_leave(const void *result) {
    leave(__builtin_frame_address(0));
    return (void *)(uintptr_t)result;
}
OWN_FRAME bt_status bti_leave_status(bt_status status) {
    leave(__builtin_frame_address(0));
    return status;
}
OWN_FRAME bt_status bti_leave_must(bt_status status) {
    leave(__builtin_frame_address(0));
    return status;
}
OWN_FRAME double bti_leave_double(double result) {
    leave(__builtin_frame_address(0));
    return result;
}
OWN_FRAME void bti_leave_void(void) { leave(__builtin_frame_address(0)); }

static bti_site here(thread_state *s) {
    if (s->call_depth) return s->call_site;
    const public_call *p = s->depth ? place_of(s, s->depth - 1) : NULL;
    return p && p->index == s->depth - 1 ? p->site : (bti_site){0};
}
bti_site bti_here(void) { return here(BTI_THREAD_OWN(own_state)); }

int bti_call_begin(const char *name) {
    thread_state *s = BTI_THREAD_OWN(own_state);
    if (s->call_depth == 0) {
        s->call_site = here(s);
        s->call_name = name;
        if (!s->depth) s->calls++; /* else bti_enter has counted it */
    }
    return s->call_depth++;
}
void bti_call_end(int depth) {
    thread_state *s = BTI_THREAD_OWN(own_state);
    s->call_depth = depth;
    if (depth == 0) s->call_name = NULL;
}
void bti_calls_forget(void) {
    bti_call_end(0);
    own_state.depth = 0;
}
static const char *call_name(const thread_state *s) { return s->call_name ? s->call_name : ""; }
const char *bti_call_name(void) { return call_name(BTI_THREAD_OWN(own_state)); }
bti_place bti_call_place(void) {
    thread_state *s = BTI_THREAD_OWN(own_state);
    return (bti_place){here(s), call_name(s), s->label};
}
bti_place bti_call_set_place(bti_place place) {
    thread_state *s = BTI_THREAD_OWN(own_state);
    bti_place before = {s->call_site, s->call_name, s->label};
    s->call_site = place.site;
    s->call_name = place.name;
    s->label = place.label;
    return before;
}
const char *bti_call_set_label(const char *label) {
    const char *before = own_state.label;
    own_state.label = label;
    return before;
}
bti_user_calls bti_user_calls_begin(void) {
    bti_user_calls calls = {.depth = own_state.call_depth};
    calls.before = bti_call_set_place((bti_place){.label = own_state.label});
    own_state.call_depth = 0;
    return calls;
}
void bti_user_calls_end(bti_user_calls calls) {
    bti_call_end(calls.depth);
    bti_call_set_place(calls.before);
}
bti_without_site bti_without_site_begin(void) {
    bti_without_site without_site = {.depth = bti_call_begin("")};
    without_site.before = bti_call_set_place((bti_place){.label = own_state.label});
    return without_site;
}
void bti_without_site_end(bti_without_site without_site) {
    bti_call_set_place(without_site.before);
    bti_call_end(without_site.depth);
}

/* --- errors ------------------------------------------------------------------------------------------------------- */

const char *bti_site_file(bti_site site) {
    const char *slash = site.file ? strrchr(site.file, '/') : NULL;
    return slash ? slash + 1 : site.file ? site.file : "?";
}

static bti_error *make_error(bti_place place, bt_status status, const char *format, va_list arguments) {
    bti_str text = {0};
    if (place.site.file) bti_str_addf(&text, "%s:%d: ", bti_site_file(place.site), place.site.line);
    if (place.name && *place.name) bti_str_addf(&text, "%s: ", place.name);
    bti_str_addv(&text, format, arguments);
    bti_error *error = bti_alloc(sizeof *error);
    char *message = bti_str_take(&text);
    if (!error || !message) {
        bti_free(error);
        bti_free(message);
        return &bti_no_memory_error;
    }
    *error = (bti_error){1, status, message};
    return error;
}

bool bti_errors_quiet(bool quiet) {
    bool before = own_state.quiet;
    own_state.quiet = quiet;
    return before;
}

void bti_errors_set_strict(bool on) { atomic_store(&strict, on); }

void bti_error_tell(const bti_error *error) {
    if (own_state.quiet || !error || !atomic_load_explicit(&strict, memory_order_relaxed)) return;
    if (own_state.deferred) {
        bti_error_release(own_state.deferred_error);
        own_state.deferred_error = bti_error_retain((bti_error *)error);
        return;
    }
    bti_lock_take(&handler_lock);
    bt_error_handler *call = handler;
    void *data = handler_data;
    bti_lock_give(&handler_lock);
    if (!call) return;
    bti_lock_user_begin();
    call(error->status, error->message, data);
    bti_lock_user_end();
}

bool bti_errors_defer(void) {
    bool before = own_state.deferred;
    own_state.deferred = true;
    return before;
}

void bti_errors_tell_deferred(bool before) {
    if (before) return;
    bti_error *deferred_error = own_state.deferred_error;
    own_state.deferred_error = NULL;
    own_state.deferred = false;
    bti_error_tell(deferred_error);
    bti_error_release(deferred_error);
}

bti_error *bti_error_at(bti_place place, bt_status status, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    bti_error *error = make_error(place, status, format, arguments);
    va_end(arguments);
    bti_error_tell(error);
    return error;
}

bti_error *bti_error_new(bt_status status, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    bti_error *error = make_error(bti_call_place(), status, format, arguments);
    va_end(arguments);
    bti_error_tell(error);
    return error;
}

bti_error *bti_error_retain(bti_error *error) {
    if (error && error != &bti_no_memory_error) atomic_fetch_add_explicit(&error->refs, 1, memory_order_relaxed);
    return error;
}

void bti_error_stick(_Atomic(bti_error *) *there, bti_error *error) {
    bti_error *none = NULL;
    bti_error_retain(error);
    if (!atomic_compare_exchange_strong(there, &none, error)) bti_error_release(error);
}

void bti_error_release(bti_error *error) {
    if (!error || error == &bti_no_memory_error) return;
    if (atomic_fetch_sub_explicit(&error->refs, 1, memory_order_acq_rel) != 1) return;
    bti_free(error->message);
    bti_free(error);
}

bt_status bti_error_code(const bti_error *error) { return error ? error->status : BT_OK; }
const char *bti_error_message(const bti_error *error) { return error ? error->message : ""; }

/* --- the thread's record ------------------------------------------------------------------------------------------ */

static void watch_thread(void) {
    pthread_once(&key_once, make_key);
    pthread_setspecific(key, &own_state); /* only so that forget_thread runs */
}

bt_status bti_fail_with(bti_error *error) {
    if (!error) return BT_OK;
    watch_thread();
    bti_error *old = own_state.last;
    own_state.last = bti_error_retain(error);
    bti_error_release(old);
    return error->status;
}

static const char no_memory[] = "out of host memory";
bt_status bti_no_memory(void) { return bti_fail(BT_RESOURCE_EXHAUSTED, "%s", no_memory); }
bti_error *bti_no_memory_new(void) { return bti_error_new(BT_RESOURCE_EXHAUSTED, "%s", no_memory); }

bt_status bti_fail(bt_status status, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    bti_error *error = make_error(bti_call_place(), status, format, arguments);
    va_end(arguments);
    bti_error_tell(error);
    bti_fail_with(error);
    status = error->status;
    bti_error_release(error);
    return status;
}

bti_error *bti_misuse_known(const void *what) {
    return own_state.misuse && own_state.misused == what && own_state.misused_in == own_state.calls ? own_state.misuse
                                                                                                    : NULL;
}

bti_error *bti_misuse_new(const void *what, const char *format, ...) {
    watch_thread();
    va_list arguments;
    va_start(arguments, format);
    bti_error *error = make_error(bti_call_place(), BT_INVALID_ARGUMENT, format, arguments);
    va_end(arguments);
    bti_error_release(own_state.misuse);
    own_state.misuse = error;
    own_state.misused = what;
    own_state.misused_in = own_state.calls;
    bti_error_tell(error);
    return error;
}

bt_status bti_check_list(const void *list, int count, const char *what) {
    if (count < 0) return bti_fail(BT_INVALID_ARGUMENT, "a count is negative: %d %s", count, what);
    if (count > 0 && !list) return bti_fail(BT_INVALID_ARGUMENT, "the list of %s is NULL, its count %d", what, count);
    return BT_OK;
}

bti_error *bti_error_last(void) { return bti_error_retain(own_state.last); }

/* In `printf("%g %s", bt_item(x), bt_error_text())` the text may be asked for before the call that fails. */
const char *bt_error_text(void) {
    thread_state *s = &own_state;
    if (s->last && s->last != s->told[0]) {
        bti_error_release(s->told[1]);
        s->told[1] = s->told[0];
        s->told[0] = bti_error_retain(s->last);
    }
    return bti_error_message(s->last);
}
bt_status bt_error_status(void) { return bti_error_code(own_state.last); }

void bt_error_clear(void) {
    bti_error_release(own_state.last);
    own_state.last = NULL;
}

void bti_error_put_back(bti_error *before) {
    bt_error_clear();
    (void)!bti_fail_with(before);
    bti_error_release(before);
}

bti_errors_aside bti_errors_aside_begin(void) {
    return (bti_errors_aside){
        .before = bti_error_last(), .without_site = bti_without_site_begin(), .quiet = bti_errors_quiet(true)};
}

void bti_errors_aside_end(bti_errors_aside aside) {
    bti_error_put_back(aside.before);
    bti_without_site_end(aside.without_site);
    bti_errors_quiet(aside.quiet);
}

void bt_set_error_handler(bt_error_handler *new_handler, void *data) {
    bti_lock_take(&handler_lock);
    handler = new_handler;
    handler_data = data;
    bti_lock_give(&handler_lock);
}
