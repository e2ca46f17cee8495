/* berth/status.h: statuses, the error record of a thread, and the place of a call in the caller's source.
 *
 * Calls that can fail return a `bt_status`; most compilers warn when it is ignored. The detail (which shapes, which
 * device, which line of the program) is in the calling thread's error record: `bt_error_text()`.
 *
 * Calls that make arrays never return NULL. When one fails, it returns a *poisoned* array that carries the first cause.
 * Operations on a poisoned array are poisoned too, and every read reports the first cause. In strict mode (flag
 * `strict`) the error handler is called at once.
 */
#ifndef BERTH_STATUS_H
#define BERTH_STATUS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define BT_API __attribute__((visibility("default")))
#define BT_MUST_USE __attribute__((warn_unused_result))
#if defined __clang__ || \
    (!defined __cplusplus && __GNUC__ < 10) /* a cast to void tells GCC that a status is not wanted */
#define BTI_NOT_IGNORED BT_MUST_USE
#elif defined __cplusplus
#define BTI_NOT_IGNORED [[nodiscard]]
#else
#define BTI_NOT_IGNORED __extension__ [[nodiscard]]
#endif
#define BT_PRINTF(format_index, first_argument) __attribute__((format(printf, format_index, first_argument)))

/* The numbers are those of absl::StatusCode and of PJRT, so that a plugin's codes pass through unchanged. */
typedef enum bt_status {
    BT_OK = 0,
    BT_CANCELLED = 1,
    BT_UNKNOWN = 2,
    BT_INVALID_ARGUMENT = 3,
    BT_DEADLINE_EXCEEDED = 4,
    BT_NOT_FOUND = 5,
    BT_ALREADY_EXISTS = 6,
    BT_PERMISSION_DENIED = 7,
    BT_RESOURCE_EXHAUSTED = 8,  /* out of memory, or past a limit */
    BT_FAILED_PRECONDITION = 9, /* a valid call, but not in this state */
    BT_ABORTED = 10,
    BT_OUT_OF_RANGE = 11,
    BT_UNIMPLEMENTED = 12,
    BT_INTERNAL = 13,
    BT_UNAVAILABLE = 14, /* a device or a library that cannot be used now */
    BT_DATA_LOSS = 15,   /* a damaged file */
    BT_UNAUTHENTICATED = 16
} bt_status;

/* The name of a status, `"INVALID_ARGUMENT"`; never NULL. Any thread; does not block. */
BT_API const char *bt_status_name(bt_status status);

/* The calling thread's last error as one text, "main.c:12: bt_matmul: ..."; "" when there was none. Owned by the
 * thread: the two texts that were returned to it last stay valid. */
BT_API const char *bt_error_text(void);

/* The status that belongs to `bt_error_text()`; BT_OK when there was none. */
BT_API bt_status bt_error_status(void);

/* Clears the calling thread's error record. */
BT_API void bt_error_clear(void);

/* A callback for each error, in strict mode only (flag `strict`). It is called when the error is made, on the thread
 * that makes it. NULL removes it. `text` is valid during the call. The handler may longjmp only within its own frames;
 * it is meant for logging, or for stopping in a debugger. */
typedef void bt_error_handler(bt_status status, const char *text, void *data);
BT_API void bt_set_error_handler(bt_error_handler *handler, void *data);

/* Log lines (placement, transfers, mappings, notices) go to standard error, or to the sink that is set; NULL restores
 * standard error. `line` has no newline at its end and is valid during the call. The sink may be called from any
 * thread, one thread at a time, also in the middle of an evaluation: it must not compute or read arrays. */
typedef void bt_log_sink(const char *line, void *data);
BT_API void bt_set_log_sink(bt_log_sink *sink, void *data);

/* --- the place of a call ----------------------------------------------------------------------------------------
 * Public functions that record work or can fail are also macros of the same name. The macro notes the caller's file and
 * line before the arguments are evaluated and clears it afterwards, so errors, logs and plans name the line in the
 * caller's program. `(bt_matmul)(a, b)`, or the bare name as a function pointer, is the function itself and notes no
 * place. */
BT_API void bti_enter(const char *file, int line);
BT_API void *bti_leave(const void *result);
BT_API bt_status bti_leave_status(bt_status status);
BTI_NOT_IGNORED BT_API bt_status bti_leave_must(bt_status status);
BT_API double bti_leave_double(double result);
BT_API void bti_leave_void(void);
#ifdef BERTH_BUILDING
#define BTI_SITE NULL, 0
#else
#define BTI_SITE __FILE__, __LINE__
#endif
#ifdef BERTH_BUILDING /* inside the library: the place of the user's call is kept, and definitions are written plainly */
#define BTI_AT(type, call) call
#define BTI_AT_STATUS(call) call
#define BTI_AT_MUST(call) call
#define BTI_AT_DOUBLE(call) call
#define BTI_AT_VOID(call) call
#elif defined __cplusplus /* the place is also cleared when an exception leaves the arguments */
}
#define BTI_INLINE __attribute__((always_inline)) inline /* so that bti_enter sees the frame of the caller */
class bti_noted {
    bool left = false;

  public:
    BTI_INLINE bti_noted(const char *file, int line) { bti_enter(file, line); }
    bti_noted(const bti_noted &) = delete;
    BTI_INLINE ~bti_noted() {
        if (!left) bti_leave_void();
    }
    template <class T> BTI_INLINE T leave(T result) {
        left = true;
        bti_leave_void();
        return result;
    }
    BTI_NOT_IGNORED BTI_INLINE bt_status leave_must(bt_status status) { return leave(status); }
};
extern "C" {
#define BTI_AT(type, call) (bti_noted(__FILE__, __LINE__).leave<type>((call)))
#define BTI_AT_STATUS(call) bti_noted(__FILE__, __LINE__).leave<bt_status>((call))
#define BTI_AT_MUST(call) bti_noted(__FILE__, __LINE__).leave_must((call))
#define BTI_AT_DOUBLE(call) bti_noted(__FILE__, __LINE__).leave<double>((call))
#define BTI_AT_VOID(call) ((void)bti_noted(__FILE__, __LINE__).leave(((call), 0)))
#else
#define BTI_AT(type, call) ((type)bti_leave((bti_enter(__FILE__, __LINE__), (call))))
#define BTI_AT_STATUS(call) bti_leave_status((bti_enter(__FILE__, __LINE__), (call)))
#define BTI_AT_MUST(call) bti_leave_must((bti_enter(__FILE__, __LINE__), (call)))
#define BTI_AT_DOUBLE(call) bti_leave_double((bti_enter(__FILE__, __LINE__), (call)))
#define BTI_AT_VOID(call) (bti_enter(__FILE__, __LINE__), (call), bti_leave_void())
#endif

/* --- structures that begin with their size -------------------------------------------------------------------------
 * Options are made by a macro, `BT_FIT_OPTIONS(.epochs = 5)`; a structure that receives information is made by its
 * initialiser, `bt_memory_info info = BT_MEMORY_INFO_INIT;`. Both set the size, which tells berth which members the
 * caller's header has. A structure without its size, or whose size ends inside a member, is INVALID_ARGUMENT. A larger
 * one is accepted while the part that this version of berth does not know is 0. In C++ the members are given in the
 * order of the structure, and a macro's options live to the end of the full expression; in C they live to the end of
 * the block. */
#ifdef __cplusplus
}
template <class T> static inline const T *bti_address(const T &value) { return &value; }
extern "C" {
#define BTI_INITIALLY(...) = __VA_ARGS__
#define BTI_INFO_INIT(type) \
    {}
#define BTI_LITERAL(type) type
#define BTI_DECLARED(type) __extension__ type
#define BTI_OVERRIDDEN(type, ...) bti_address<type>(__extension__ type{__VA_ARGS__})
#define BTI_OPTIONS(type, ...) BTI_OVERRIDDEN(type, __VA_ARGS__)
#define BTI_QUIET
#define BTI_LOUD
#else
#define BTI_INITIALLY(...)
#define BTI_INFO_INIT(type) \
    { .size = sizeof(type) }
#define BTI_LITERAL(type) (type)
/* The first members of the literal are defaults, which the caller's members override. */
#define BTI_QUIET _Pragma("GCC diagnostic push") _Pragma("GCC diagnostic ignored \"-Woverride-init\"")
#define BTI_LOUD _Pragma("GCC diagnostic pop")
#define BTI_DECLARED(type)
/* The literal is in no block of its own: arrays and structures that the caller's members point to live as long as it does. */
#define BTI_OVERRIDDEN(type, ...) \
    (__extension__({ BTI_QUIET 0; }) + (const type[1]){{__VA_ARGS__}} + __extension__({ BTI_LOUD 0; }))
#define BTI_OPTIONS(type, ...) ((const type[1]){{.size = sizeof(type), __VA_ARGS__}})
#endif

/* Marks a member that was not set, so that one that was set to 0 differs from it. Filled in by the macros. */
#define BTI_UNSET_REAL (-1.5e-301)

/* Options by their names at the end of a call: `bt_conv(x, w, .stride = {2, 2})`; all or none of them may be there. The name of the
 * function itself takes a pointer to such a structure, or NULL: `(bt_conv)(x, w, &options)`. */
#ifdef __cplusplus
#define BTI_START
#define BTI_VALUE(type, ...) (__extension__ type{__VA_ARGS__})
#else
#define BTI_START char start; /* so that what follows in a literal may be nothing */
#define BTI_VALUE(type, ...) ((type){.start = 0, __VA_ARGS__})
#endif
/* Stands where a value without a name would go: no type but its own does. */
#define BTI_BY_NAME struct bti_by_name *by_name BTI_INITIALLY(NULL);

#ifdef __cplusplus
}
#endif
#endif
