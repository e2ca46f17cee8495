/* berth/function.h: shared variables, and functions that are recorded once and called often.
 *
 * A shared variable holds a value between steps: weights, states, counters. `bt_value(w)` is its value now, as an array;
 * `bt_set(w, x)` gives it another. A set is lazy like any operation: it takes effect for the calls that follow, and is
 * computed with the next read or the next set of the same variable. If what it would become fails (out of memory, a lost
 * device), the variable, and all others that were set in the same step, keep the values from before it; the log says so, and
 * the next set of such a variable returns the cause, once, and sets nothing.
 *
 * Errors. A variable or a function that cannot be made is poisoned, never NULL, as an array: it carries the first cause, which also
 * goes to the error record, and each use of it (bt_value, bt_set, bt_call, ...) gives that cause. bt_shared_status and
 * bt_function_status tell at once. A released one is refused with INVALID_ARGUMENT, which names what made and what released it.
 */
#ifndef BERTH_FUNCTION_H
#define BERTH_FUNCTION_H

#include <berth/array.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct bt_shared bt_shared;
typedef struct bt_function bt_function;

/* A variable with the value of `value` (its dtype and shape for good), on a device ("dev0", "gpu"; NULL: where value is). Inside
 * a mirrored strategy (dist.h) it gets one replica per device. Belongs to the innermost scope; bt_shared_retain and
 * bt_shared_release for longer lives. The value is computed now: blocks. Poisoned by a poisoned value, an unknown device, a failure of computing it. */
BT_API bt_shared *bt_shared_new(bt_array *value, const char *device);
#define bt_shared_new(...) BTI_AT(bt_shared *, bt_shared_new(__VA_ARGS__))
/* A variable on the same devices, in as many replicas, as another: an optimiser's state beside its parameter. */
BT_API bt_shared *bt_shared_new_beside(const bt_shared *beside, bt_array *value);
#define bt_shared_new_beside(...) BTI_AT(bt_shared *, bt_shared_new_beside(__VA_ARGS__))
BT_API bt_shared *bt_shared_retain(bt_shared *shared);
#define bt_shared_retain(...) BTI_AT(bt_shared *, bt_shared_retain(__VA_ARGS__))
BT_API void bt_shared_release(bt_shared *shared); /* NULL is fine */
#define bt_shared_release(...) BTI_AT_VOID(bt_shared_release(__VA_ARGS__))
/* BT_OK when it can be used; else why not, with the cause in the error record. */
BT_API bt_status bt_shared_status(const bt_shared *shared);
#define bt_shared_status(...) BTI_AT_STATUS(bt_shared_status(__VA_ARGS__))
/* For messages and files; copied. */
BT_API void bt_shared_set_name(bt_shared *shared, const char *name);
BT_API const char *bt_shared_name(const bt_shared *shared);

/* Its value now (of the calling thread's replica), the scope's: each call gives a handle on the same node until the next set. */
BT_API bt_array *bt_value(bt_shared *shared);
#define bt_value(...) BTI_AT(bt_array *, bt_value(__VA_ARGS__))

/* Gives it a new value of its dtype and shape; copied to its device if it is elsewhere. A poisoned or misshapen value is
 * refused, the variable keeps the old one. bt_set_all: several in one step, all or none. */
BT_API bt_status bt_set(bt_shared *shared, bt_array *value);
#define bt_set(...) BTI_AT_STATUS(bt_set(__VA_ARGS__))
BT_API bt_status bt_set_all(bt_shared *const *shared, bt_array *const *values, int count);
#define bt_set_all(...) BTI_AT_STATUS(bt_set_all(__VA_ARGS__))

/* --- functions ------------------------------------------------------------------------------------------------------ */

/* An input of a function: an array without a value. Sizes may be -1 (unknown; two inputs' unknown sizes are independent). Inside a
 * BT_ON block its argument is brought to that device. Operations on it record; reading is FAILED_PRECONDITION.
 *
 * Two unknown sizes that meet (x + y, matrix products, concatenations) must fit at each call as they would have to in the eager call: where
 * shapes are broadcast they are equal or one of them is 1, elsewhere they are equal; else the call is INVALID_ARGUMENT. An unknown
 * size that meets a number other than 1 gives that number, and must be equal to it or 1. */
BT_API bt_array *bt_input_shape(bt_dtype dtype, bt_shape shape);
#define bt_input(dtype, ...) BTI_AT(bt_array *, bt_input_shape(dtype, BT_SHAPE(__VA_ARGS__)))

/* An update: at each call, `shared` becomes `value`; all updates of a call together, after all were computed. A call with updates
 * reads the variables and sets them as one: concurrent calls lose none. Such a function cannot be called while another is
 * being recorded (FAILED_PRECONDITION). */
typedef struct bt_update {
    bt_shared *shared;
    bt_array *value;
} bt_update;

/* What a function does: outputs (and updates) from inputs. Its parts may stand on several devices, which then work at the
 * same time. Inputs that outputs do not need are fine; an input that is needed but not listed is INVALID_ARGUMENT. Shared
 * variables are read at each call; other arrays are constants of the function. Belongs to the innermost scope, like a shared
 * variable. */
BT_API bt_function *bt_function_new(bt_array *const *inputs, int input_count, bt_array *const *outputs,
                                    int output_count, const bt_update *updates, int update_count);
#define bt_function_new(...) BTI_AT(bt_function *, bt_function_new(__VA_ARGS__))
BT_API bt_function *bt_function_retain(bt_function *function);
#define bt_function_retain(...) BTI_AT(bt_function *, bt_function_retain(__VA_ARGS__))
BT_API void bt_function_release(bt_function *function); /* NULL is fine */
#define bt_function_release(...) BTI_AT_VOID(bt_function_release(__VA_ARGS__))
/* As bt_shared_status. */
BT_API bt_status bt_function_status(const bt_function *function);
#define bt_function_status(...) BTI_AT_STATUS(bt_function_status(__VA_ARGS__))

/* Calls it: arguments as many as inputs, with their dtypes, and shapes that fit (INVALID_ARGUMENT poisons the outputs and updates
 * nothing). Fills outputs[] with arrays of the innermost scope; lazy and asynchronous like any operation. */
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
