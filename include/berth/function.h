/* berth/function.h: shared variables, and functions that are recorded once and called often.
 *
 * A shared variable holds a value between steps: weights, states, counters. `bt_value(w)` is its current value, as an
 * array; `bt_set(w, x)` gives it a new one. A set is lazy, like any operation: the calls that follow see the new value,
 * and it is computed with the next read or the next set of the same variable. If computing it fails (out of memory, a
 * lost device), the variable, and all others that were set in the same step, keep the values that they had before the
 * step. The failure is logged, and the next set of such a variable returns the cause, once, and sets nothing.
 *
 * Errors. A variable or a function that cannot be made is poisoned, like an array; it is never NULL. It carries the
 * first cause, which is also put into the error record, and each use (bt_value, bt_set, bt_call, ...) reports that
 * cause. bt_shared_status and bt_function_status report it at once. A released one is refused with INVALID_ARGUMENT;
 * the text names the line that made it and the line that released it.
 */
#ifndef BERTH_FUNCTION_H
#define BERTH_FUNCTION_H

#include <berth/array.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct bt_shared bt_shared;
typedef struct bt_function bt_function;

/* A variable with the initial value `value`; its dtype and shape are fixed. It is on a device ("dev0", "gpu"; NULL: the
 * device of `value`); inside a mirrored strategy (dist.h) it gets one replica per device. Belongs to the innermost
 * scope; bt_shared_retain and bt_shared_release are for variables that live longer. Blocks: the value is computed now.
 * Poisoned if `value` is poisoned or cannot be computed, or if there is no such device. */
BT_API bt_shared *bt_shared_new(bt_array *value, const char *device);
#define bt_shared_new(value, device) BTI_AT(bt_shared *, bt_shared_new(value, BTI_DEVICE(device)))
/* A variable on the same devices as another, with as many replicas: the state of an optimiser for a parameter. */
BT_API bt_shared *bt_shared_new_beside(const bt_shared *beside, bt_array *value);
#define bt_shared_new_beside(...) BTI_AT(bt_shared *, bt_shared_new_beside(__VA_ARGS__))
BT_API bt_shared *bt_shared_retain(bt_shared *shared);
#define bt_shared_retain(...) BTI_AT(bt_shared *, bt_shared_retain(__VA_ARGS__))
BT_API void bt_shared_release(bt_shared *shared); /* NULL is accepted */
#define bt_shared_release(...) BTI_AT_VOID(bt_shared_release(__VA_ARGS__))
/* BT_OK when it can be used; else its error, with the cause in the error record. */
BT_API bt_status bt_shared_status(const bt_shared *shared);
#define bt_shared_status(...) BTI_AT_STATUS(bt_shared_status(__VA_ARGS__))
/* Optimisers pass a frozen variable over (bt_freeze, nn.h). bt_shared_is_frozen: false for a poisoned or released one. */
BT_API bt_status bt_shared_freeze(bt_shared *shared, bool frozen);
#define bt_shared_freeze(...) BTI_AT_STATUS(bt_shared_freeze(__VA_ARGS__))
BT_API bool bt_shared_is_frozen(const bt_shared *shared);
/* The name that messages and files use; copied. */
BT_API void bt_shared_set_name(bt_shared *shared, const char *name);
BT_API const char *bt_shared_name(const bt_shared *shared);

/* The current value, of the calling thread's replica. It belongs to the innermost scope. Until the next set all calls
 * return handles of the same value. */
BT_API bt_array *bt_value(bt_shared *shared);
#define bt_value(...) BTI_AT(bt_array *, bt_value(__VA_ARGS__))

/* Sets a new value with the variable's dtype and shape; it is copied to the variable's device if it is elsewhere. A
 * poisoned value, or one of another shape or dtype, is refused, and the variable keeps its value. bt_set_all sets
 * several variables in one step: all or none. */
BT_API bt_status bt_set(bt_shared *shared, bt_array *value);
#define bt_set(...) BTI_AT_STATUS(bt_set(__VA_ARGS__))
BT_API bt_status bt_set_all(bt_shared *const *shared, bt_array *const *values, int count);
#define bt_set_all(...) BTI_AT_STATUS(bt_set_all(__VA_ARGS__))

/* --- functions ------------------------------------------------------------------------------------------------------ */

/* An input of a function: an array without a value. Sizes may be -1: unknown, and independent of each other. An input
 * that is made inside a BT_ON block moves its argument to that device. Operations on an input record; reading it is
 * FAILED_PRECONDITION.
 *
 * When two unknown sizes meet (x + y, matrix products, concatenations), each call checks them as the eager operation
 * would: where shapes broadcast they must be equal or one of them 1, elsewhere they must be equal; otherwise the call
 * is INVALID_ARGUMENT. When an unknown size meets a known size other than 1, the result has the known size, and in each
 * call the unknown one must be equal to it or 1. */
BT_API bt_array *bt_input_shape(bt_dtype dtype, bt_shape shape);
#define bt_input(dtype, ...) BTI_AT(bt_array *, bt_input_shape(dtype, BT_SHAPE(__VA_ARGS__)))

/* An update: after each call, `shared` holds `value`. All updates of a call are applied together, after all of them
 * were computed. A call with updates reads and sets its variables atomically: concurrent calls lose no update. Such a
 * function cannot be called while another function is being recorded (FAILED_PRECONDITION). */
typedef struct bt_update {
    bt_shared *shared;
    bt_array *value;
} bt_update;

/* A function: outputs and updates, from inputs. Its parts may be on several devices, which then work at the same time.
 * An input that no output needs is accepted; an input that is needed but not listed is INVALID_ARGUMENT. Shared
 * variables are read at each call; other arrays are constants of the function. Belongs to the innermost scope, like a
 * shared variable. */
BT_API bt_function *bt_function_new(bt_array *const *inputs, int input_count, bt_array *const *outputs,
                                    int output_count, const bt_update *updates, int update_count);
#define bt_function_new(...) BTI_AT(bt_function *, bt_function_new(__VA_ARGS__))
BT_API bt_function *bt_function_retain(bt_function *function);
#define bt_function_retain(...) BTI_AT(bt_function *, bt_function_retain(__VA_ARGS__))
BT_API void bt_function_release(bt_function *function); /* NULL is accepted */
#define bt_function_release(...) BTI_AT_VOID(bt_function_release(__VA_ARGS__))
/* As bt_shared_status. */
BT_API bt_status bt_function_status(const bt_function *function);
#define bt_function_status(...) BTI_AT_STATUS(bt_function_status(__VA_ARGS__))

/* From now on each call takes argument `input` (0: the first) away from its caller: a result may be written into
 * the argument's memory: the state of a loop then needs its memory once. To be said before the function's first call
 * (later: FAILED_PRECONDITION; a number that no input has: OUT_OF_RANGE).
 *
 *     bt_function_donate(step, 0);
 *     BT_SCOPE {
 *         bt_array *next = bt_call1(step, (bt_array *[]){state, batch}, 2);
 *         bt_assign(&state, next);
 *     }
 *
 * After a call that returned BT_OK the array cannot be used: every use of the handle, by any of its owners, is
 * INVALID_ARGUMENT and names the call. The handle is released as always. All else keeps the value: work that was
 * recorded or submitted before, views, other handles on the value, variables that were set to it. (An operation that
 * changes nothing, as a reshape to the same shape, returns its argument: that is the same handle.) While any of these
 * needs the memory, the call uses other memory, as without donation. So it does after bt_map, for memory of the
 * program's (bt_from_lent), and where no result of as many bytes is written after the argument was read for the last
 * time; in the last case the memory is free once the call's work is done.
 *
 * A call that fails (any status but BT_OK) leaves the array as it was. If its work fails later (a lost device), the
 * results carry the error, and the array is gone; variables that the call updates keep their values, as always.
 *
 * The results have no history: a gradient through them is the error of a cut, which names the call (as after
 * bt_retain). An array that is donated and is another argument too is INVALID_ARGUMENT. A call with an argument that
 * has no value, while another function is recorded, donates nothing. */
BT_API bt_status bt_function_donate(bt_function *function, int input);
#define bt_function_donate(...) BTI_AT_STATUS(bt_function_donate(__VA_ARGS__))

/* Calls the function. There must be as many arguments as inputs, with the dtypes of the inputs and shapes that match
 * (otherwise INVALID_ARGUMENT: the outputs are poisoned and nothing is updated). Fills outputs[] with arrays of the
 * innermost scope. Lazy and asynchronous, like any operation. */
BT_API bt_status bt_call(bt_function *function, bt_array *const *arguments, int argument_count, bt_array **outputs,
                         int output_count);
#define bt_call(...) BTI_AT_STATUS(bt_call(__VA_ARGS__))
/* For functions with one output. */
BT_API bt_array *bt_call1(bt_function *function, bt_array *const *arguments, int argument_count);
#define bt_call1(...) BTI_AT(bt_array *, bt_call1(__VA_ARGS__))

#ifdef __cplusplus
}
#endif
#endif
