/* berth/check.h: what programs do with errors, in one word. The library itself never prints or exits; these macros are code of the program.
 */
#ifndef BERTH_CHECK_H
#define BERTH_CHECK_H

#include <berth/custom.h>
#include <berth/dist.h>

#include <stdio.h>
#include <stdlib.h>

/* `BT_TRY(bt_read(x, data, bytes));` in a function that returns a bt_status: returns the status if it is not BT_OK. The error record tells
 * the rest. */
#define BT_TRY(call)                                                   \
    do {                                                               \
        bt_status bti_tried = (call);                                  \
        if (__builtin_expect(bti_tried != BT_OK, 0)) return bti_tried; \
    } while (0)

/* `BT_CHECK(bt_eval(x));`, `y = BT_CHECK(bt_matmul(a, b));`: the value of the call; if that is an error, its text is written to standard error
 * and the program ends by exit(EXIT_FAILURE). The call gives a bt_status, or a bt_array *, bt_shared *, bt_function *, bt_layer *,
 * bt_optimizer *, bt_strategy *, bt_custom * or bt_device *, which is an error if it is NULL or poisoned; work that is pending is not waited for: bt_eval and bt_block are calls of their own. */
static inline void bti_end_unless(bt_status status, const char *file, int line) {
    if (__builtin_expect(status == BT_OK, 1)) return;
    const char *text = bt_error_text();
    if (*text)
        (void)fprintf(stderr, "%s\n", text);
    else
        (void)fprintf(stderr, "%s:%d: %s\n", file, line, bt_status_name(status));
    exit(EXIT_FAILURE);
}
/* Of a poisoned array bt_eval puts the cause into the record, and waits for nothing. */
static inline bt_status bti_status_of_array(bt_array *x) { return bt_peek_status(x) == BT_OK ? BT_OK : (bt_eval)(x); }
static inline bt_status bti_status_of_device(bt_device *device) {
    return device ? BT_OK : bt_error_status() ? bt_error_status() : BT_NOT_FOUND;
}
#ifdef __cplusplus
static inline bt_status bti_status_of(bt_strategy *x) { return bt_strategy_status(x); }
static inline bt_status bti_status_of(bt_custom *x) { return bt_custom_status(x); }
static inline bt_status bti_status_of(bt_device *x) { return bti_status_of_device(x); }
static inline bt_status bti_status_of(bt_status status) { return status; }
static inline bt_status bti_status_of(bt_array *x) { return bti_status_of_array(x); }
static inline bt_status bti_status_of(bt_shared *x) { return bt_shared_status(x); }
static inline bt_status bti_status_of(bt_function *x) { return bt_function_status(x); }
static inline bt_status bti_status_of(bt_layer *x) { return bt_layer_status(x); }
static inline bt_status bti_status_of(bt_optimizer *x) { return bt_optimizer_status(x); }
template <class T> static inline T bti_checked(T value, const char *file, int line) {
    bti_end_unless(bti_status_of(value), file, line);
    return value;
}
#define BT_CHECK(...) bti_checked((__VA_ARGS__), __FILE__, __LINE__)
#else
static inline bt_status bti_itself(bt_status status) { return status; }
#define BTI_CHECK(once, ...)                                         \
    __extension__({                                                  \
        __auto_type once = (__VA_ARGS__);                            \
        bti_end_unless(_Generic(once, bt_status                      \
                                : bti_itself, bt_array *             \
                                : bti_status_of_array, bt_shared *   \
                                : bt_shared_status, bt_function *    \
                                : bt_function_status, bt_layer *     \
                                : bt_layer_status, bt_optimizer *    \
                                : bt_optimizer_status, bt_strategy * \
                                : bt_strategy_status, bt_custom *    \
                                : bt_custom_status, bt_device *      \
                                : bti_status_of_device)(once),       \
                       __FILE__, __LINE__);                          \
        once;                                                        \
    })
#define BT_CHECK(...) BTI_CHECK(BTI_CAT(bti_checked_, __COUNTER__), __VA_ARGS__)
#endif

#endif
