/* Errors: a shared, immutable record of one first cause; the calling thread's record; and the stack of public calls that
 * tells where in the user's source an error, a node or a log line comes from. */
#ifndef BTI_BASE_ERROR_H
#define BTI_BASE_ERROR_H

#include <berth/status.h>
#include <stdarg.h>

typedef struct bti_site {
    const char *file; /* the caller's __FILE__, a literal; NULL when the call came without a place */
    int line;
} bti_site;

typedef struct bti_error bti_error;
/* What stands in when there is no memory for an error. */
extern bti_error bti_no_memory_error;

/* The innermost place of the calling thread. */
bti_site bti_here(void);
/* The file of a place without its folders; "?" when there is none. */
const char *bti_site_file(bti_site site);

/* A public operation is being called: names the operation for errors and logs. Nested public calls (one public
 * operation composed of others) keep the outermost name. Returns the depth before; give it back to bti_call_end. */
int bti_call_begin(const char *name);
void bti_call_end(int depth);
/* In a process that was forked inside of a call and never returns from it: what goes wrong from here on is not that call's. */
void bti_calls_forget(void);
static inline void bti_call_guard_end(const int *depth) { bti_call_end(*depth); }
/* At the head of a public function that records nothing, or of the part of one that checks: errors name it. Operations that it
 * calls are operations of their own to the placement log. */
#define BTI_CALL(name) const int bti_call_ __attribute__((cleanup(bti_call_guard_end), unused)) = bti_call_begin(name)
const char *bti_call_name(void); /* outermost running public operation, "" outside of any */

typedef struct bti_place {
    bti_site site;
    const char *name;
    const char *label; /* the program's (label.h); NULL: none */
} bti_place;

bti_place bti_call_place(void); /* of the running call */
/* Inside a running call: stands in for its place; returns what stood there, to be set again. */
bti_place bti_call_set_place(bti_place place);
/* What the calls of this thread are labelled with from now on; returns what they were labelled with. */
const char *bti_call_set_label(const char *label);

/* Between these two a function of the user's runs inside of a call: calls that it makes name themselves, with places of their own. */
typedef struct bti_user_calls {
    int depth;
    bti_place before;
} bti_user_calls;
bti_user_calls bti_user_calls_begin(void);
void bti_user_calls_end(bti_user_calls calls);

/* Errors made between these two carry no source line: the settings caused them, or the caller reports them with a line of its own. */
typedef struct bti_without_site {
    int depth;
    bti_place before;
} bti_without_site;
bti_without_site bti_without_site_begin(void);
void bti_without_site_end(bti_without_site without_site);

/* A new error, with the calling thread's place and operation in front of the message. Never NULL: when memory is short,
 * a static out-of-memory error stands in. In strict mode the handler hears of it. */
bti_error *bti_error_new(bt_status status, const char *format, ...) BT_PRINTF(2, 3);
bti_error *bti_error_at(bti_place place, bt_status status, const char *format, ...) BT_PRINTF(3, 4);
bti_error *bti_error_retain(bti_error *error);
void bti_error_release(bti_error *error); /* NULL is fine */
/* Retains it there, unless an error is there already. */
void bti_error_stick(_Atomic(bti_error *) *there, bti_error *error);
bt_status bti_error_code(const bti_error *error);
const char *bti_error_message(const bti_error *error); /* with place and operation in front */

/* While quiet, this thread tells the handler of nothing: what fails may yet be put right. Returns what held before. */
bool bti_errors_quiet(bool quiet);
/* Strict mode (the flag `strict`): the handler is told of every error when it is made. */
void bti_errors_set_strict(bool on);
/* Whether the number is one of bt_status. */
bool bti_is_status(int64_t number);
/* Between these the handler is called for no error of this thread: a lock or a claim is held that it could want. The latest one is told at the end. They nest:
 * the second one is given what the first one returned. */
bool bti_errors_defer(void);
void bti_errors_tell_deferred(bool before);
/* Tells the handler, in strict mode, of an error made in quiet. */
void bti_error_tell(const bti_error *error);

/* Makes an error, puts it into the thread's record, returns its status: `return bti_fail(BT_NOT_FOUND, ...)`. */
bt_status bti_fail(bt_status status, const char *format, ...) BT_PRINTF(2, 3);
bt_status bti_no_memory(void);      /* RESOURCE_EXHAUSTED: out of host memory */
bti_error *bti_no_memory_new(void); /* the same as an error that is not put there */
/* Misuse of an argument (NULL, released): INVALID_ARGUMENT, borrowed until the calling thread's next one. `what` tells arguments
 * apart: the running call's error about the same one, or NULL. */
bti_error *bti_misuse_known(const void *what);
bti_error *bti_misuse_new(const void *what, const char *format, ...) BT_PRINTF(2, 3);
/* `count` things of a caller's list: INVALID_ARGUMENT when it is negative, or positive and the list NULL. */
bt_status bti_check_list(const void *list, int count, const char *what);
/* Puts an existing error (retained) into the thread's record; returns its status. NULL: BT_OK, the record stays. */
bt_status bti_fail_with(bti_error *error);
/* The thread's record as an error of one's own (retained), to make it stick to an array or an event. NULL if none. */
bti_error *bti_error_last(void);
/* The record as it was: what bti_error_last gave then, which it takes over. Nobody hears of what failed since. */
void bti_error_put_back(bti_error *before);

/* Between these two errors are of no concern to the thread: its record is as before afterwards, the handler hears of none, and none names a line. */
typedef struct bti_errors_aside {
    bti_error *before;
    bti_without_site without_site;
    bool quiet;
} bti_errors_aside;
bti_errors_aside bti_errors_aside_begin(void);
void bti_errors_aside_end(bti_errors_aside aside);

/* `BTI_TRY(call)`: returns the status if it is not BT_OK. `BTI_TRY_OR(call, label)`: goes to label, `status` holds it. */
#define BTI_TRY(call)                                         \
    do {                                                      \
        bt_status bti_try_status_ = (call);                   \
        if (bti_try_status_ != BT_OK) return bti_try_status_; \
    } while (0)
#define BTI_TRY_OR(call, label)          \
    do {                                 \
        status = (call);                 \
        if (status != BT_OK) goto label; \
    } while (0)

#endif
