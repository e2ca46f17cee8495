/* berth/array.h: arrays: how they are made, who owns them, where they are, how they are read.
 *
 * An array is a value: it never changes. Operations record what to do and return at once; work starts when somebody reads,
 * calls bt_eval, or when much has been recorded, and runs behind the caller.
 *
 * Ownership. Every function that returns a `bt_array *` gives it to the calling thread's innermost scope (BT_SCOPE), which
 * releases it at its end; outside of any scope it belongs to the thread's outermost one, which ends with bt_shutdown or the
 * thread. Nothing is released by hand in straight code. bt_keep moves an array to the scope outside; bt_retain and
 * bt_release, or bt_assign, are for arrays that live longer than scopes.
 *
 * A released array is not to be used. A call that is given one (bt_release and bt_retain too) fails with INVALID_ARGUMENT, and
 * the text names the line that made it and the line of the scope, or of the bt_release, that released it. The last 65,536
 * released arrays are told apart from living ones; the address of an older one may be that of a new array.
 *
 * Errors. A call that cannot be made returns a poisoned array that carries the first cause; never NULL. See status.h.
 *
 * Threads. All calls may be made from any thread; scopes, device blocks and the error record are per thread. Arrays may be
 * shared between threads as long as someone holds them.
 */
#ifndef BERTH_ARRAY_H
#define BERTH_ARRAY_H

#include <berth/device.h>
#include <berth/dtype.h>

#ifdef __cplusplus
#include <initializer_list>
extern "C" {
#endif

#define BT_MAX_RANK 8

typedef struct bt_array bt_array;

/* A shape by value: `BT_SHAPE(2, 3)`; `BT_SHAPE()` is that of a scalar. A rank above 8 is kept, to be refused by name. */
typedef struct bt_shape {
    int rank;
    int64_t size[BT_MAX_RANK];
} bt_shape;

static inline bt_shape bti_shape_of(const int64_t *size, size_t count) {
    bt_shape shape = {(int)count, {0}};
    for (size_t i = 0; i < count && i < BT_MAX_RANK; i++) shape.size[i] = size[i];
    return shape;
}
#ifdef __cplusplus
}
static inline bt_shape bti_shape_list(std::initializer_list<int64_t> size) {
    return bti_shape_of(size.begin(), size.size());
}
extern "C" {
#define BT_SHAPE(...) bti_shape_list({__VA_ARGS__})
#else
#define BT_SHAPE(...) \
    bti_shape_of((const int64_t[]){0, __VA_ARGS__} + 1, sizeof((const int64_t[]){0, __VA_ARGS__}) / sizeof(int64_t) - 1)
#endif

/* --- scopes --------------------------------------------------------------------------------------------------------- */

#define BTI_CAT_(a, b) a##b
#define BTI_CAT(a, b) BTI_CAT_(a, b)

typedef struct bti_scope_guard {
    bool marked;
} bti_scope_guard;
BT_API bti_scope_guard bti_scope_begin(const char *file, int line);
BT_API void bti_scope_end(bti_scope_guard *guard);

/* A block that runs once; its guard is undone however it is left. Without a condition, so that compilers see that the body runs, and that
 * nothing comes after a body that returns (GCC: with optimisation). The `break` leaves the switch in GCC, the loop in Clang. */
#ifdef __clang__
#define BTI_BREAK                                                                                \
    _Pragma("clang diagnostic push") _Pragma("clang diagnostic ignored \"-Wgcc-compat\"") break; \
    _Pragma("clang diagnostic pop")
#else
#define BTI_BREAK break;
#endif
#define BTI_BLOCK_(type, guard, end, begin) \
    switch (0)                              \
    default:                                \
        for (type guard __attribute__((cleanup(end), unused)) = begin;; __extension__({BTI_BREAK}))
#define BTI_BLOCK(kind, begin) BTI_BLOCK_(bti_##kind##_guard, BTI_CAT(bti_guard_, __COUNTER__), bti_##kind##_end, begin)

/* `BT_SCOPE { ... }`: arrays made inside are released at its end, however it is left (`return`, `break`, `goto`); pending
 * work that needs them keeps what it needs, so leaving never waits. `break` and `continue` leave the scope only. */
#ifdef BERTH_BUILDING
#define BT_SCOPE BTI_BLOCK(scope, bti_scope_begin(NULL, 0))
#else
#define BT_SCOPE BTI_BLOCK(scope, bti_scope_begin(__FILE__, __LINE__))
#endif

/* Moves an array from the innermost scope to the one outside of it; returns it. */
BT_API bt_array *bt_keep(bt_array *array);
#define bt_keep(...) BTI_AT(bt_array *, bt_keep(__VA_ARGS__))

/* One more owner, outside of all scopes; each bt_retain wants one bt_release. NULL is fine. A retained array is a long-lived
 * value: gradients end at it (bt_grad fails where that would cut a gradient off), and once computed it forgets how it was made. */
BT_API bt_array *bt_retain(bt_array *array);
#define bt_retain(...) BTI_AT(bt_array *, bt_retain(__VA_ARGS__))
BT_API void bt_release(bt_array *array);
#define bt_release(...) BTI_AT_VOID(bt_release(__VA_ARGS__))

/* *slot = value, for variables that outlive scopes: retains the new array, releases the old one. `bt_assign(&x, NULL)` at
 * the end. Not atomic: one thread per slot. Gradients end at the new array as at a retained one: when the scope that made it ends,
 * or, where the slot was empty, from now on. A log line says when the history that is kept so passes 10,000 operations. */
BT_API void bt_assign(bt_array **slot, bt_array *value);
#define bt_assign(...) BTI_AT_VOID(bt_assign(__VA_ARGS__))

/* Arrays alive in this process. */
BT_API uint64_t bt_live_arrays(void);

/* --- which device --------------------------------------------------------------------------------------------------- */

typedef struct bti_on_guard {
    bool marked;
} bti_on_guard;
BT_API bti_on_guard bti_on_begin(const char *device, const char *file, int line);
BT_API void bti_on_end(bti_on_guard *guard);

/* `BT_ON("/device:GPU:2") { a = ...; c = bt_matmul(a, b); }`: what is recorded inside, on this thread, goes to that device and
 * is committed to it. Blocks nest; leaving by `return` restores too; `break` and `continue` leave the block only. An unknown device
 * poisons what is recorded inside, or, under soft placement, gives way. */
#define BT_ON(device) BTI_BLOCK(on, bti_on_begin(device, BTI_SITE))

typedef enum bt_transfers {
    BT_TRANSFERS_COPY, /* copies are inserted, counted, and shown by explain */
    BT_TRANSFERS_LOG,  /* and one line each in the log */
    /* No committed array is copied to another device unless the program says so (bt_to, bt_gpu, bt_cpu, a target argument,
     * bt_all_reduce, a strategy, a training loop's batches). An operation on committed arrays of several devices, or in a block
     * or a default place (placement=tensorflow) away from its input, is refused; so are a value for a variable on another
     * device, an argument for an input there, and a gradient that would cross. Uncommitted arrays and reads by the host are
     * free. */
    BT_TRANSFERS_ERROR
} bt_transfers;

typedef struct bti_transfers_guard {
    int before;
} bti_transfers_guard;
BT_API bti_transfers_guard bti_transfers_begin(bt_transfers policy);
BT_API void bti_transfers_end(bti_transfers_guard *guard);

/* `BT_TRANSFERS(BT_TRANSFERS_ERROR) { ... }`: the policy of this thread inside the block; outside the flag `transfers` holds. */
#define BT_TRANSFERS(policy) BTI_BLOCK(transfers, bti_transfers_begin(policy))

/* x on that device, committed to it: a copy, recorded like any operation. When x is there already nothing is copied: an array that
 * is committed is returned itself; of one that is not, another array on the same elements is, and x stays uncommitted. Works on
 * symbolic inputs too. */
BT_API bt_array *bt_to(bt_array *x, const char *device);
#define bt_to(...) BTI_AT(bt_array *, bt_to(__VA_ARGS__))
/* To the lowest GPU: x itself when there is none. To the CPU. Otherwise as bt_to. */
BT_API bt_array *bt_gpu(bt_array *x);
#define bt_gpu(...) BTI_AT(bt_array *, bt_gpu(__VA_ARGS__))
BT_API bt_array *bt_cpu(bt_array *x);
#define bt_cpu(...) BTI_AT(bt_array *, bt_cpu(__VA_ARGS__))

/* Where an array is or will be computed; NULL for a poisoned one. */
BT_API bt_device *bt_device_of(const bt_array *x);
/* "{GpuDevice(id=0)}": the set of its devices as JAX prints it. Yours: bt_free. */
BT_API char *bt_devices_text(const bt_array *x);
#define bt_devices_text(...) BTI_AT(char *, bt_devices_text(__VA_ARGS__))

/* --- making arrays --------------------------------------------------------------------------------------------------
 * On the block's device, else the default device (then uncommitted: operations may take them elsewhere). */

/* Copies row-major elements of `data` (bt_dtype_size(dtype) bytes each). NULL is fine when there are none. Of BT_BOOL any byte
 * but 0 becomes 1. Errors:
 * INVALID_ARGUMENT (dtype, rank, negative or overflowing size), RESOURCE_EXHAUSTED. */
BT_API bt_array *bt_from(const void *data, bt_dtype dtype, bt_shape shape);
#define bt_from(...) BTI_AT(bt_array *, bt_from(__VA_ARGS__))

/* `BT_ARRAY(float, (2, 3), 1, 2, 3, 4, 5, 6)`: elements of a C type, in a shape. `count` elements must fill it. */
BT_API bt_array *bti_from_literal(const void *data, size_t count, bt_dtype dtype, bt_shape shape);
#ifdef __cplusplus
}
template <class T> struct bti_dtype_of;
#define BTI_DTYPE_OF_(type, dtype) \
    template <> struct bti_dtype_of<type> { static const bt_dtype value = dtype; };
BTI_DTYPE_OF_(bool, BT_BOOL)
BTI_DTYPE_OF_(uint8_t, BT_U8)
BTI_DTYPE_OF_(uint16_t, BT_U16)
BTI_DTYPE_OF_(uint32_t, BT_U32)
BTI_DTYPE_OF_(uint64_t, BT_U64)
BTI_DTYPE_OF_(int8_t, BT_I8)
BTI_DTYPE_OF_(int16_t, BT_I16)
BTI_DTYPE_OF_(int32_t, BT_I32)
BTI_DTYPE_OF_(int64_t, BT_I64)
BTI_DTYPE_OF_(float, BT_F32)
BTI_DTYPE_OF_(double, BT_F64)
template <class T> static inline bt_array *bti_from_list(std::initializer_list<T> data, bt_shape shape) {
    return bti_from_literal(data.begin(), data.size(), bti_dtype_of<T>::value, shape);
}
extern "C" {
#define BT_ARRAY(type, shape, ...) BTI_AT(bt_array *, bti_from_list<type>({__VA_ARGS__}, BT_SHAPE shape))
#else
#define BT_DTYPE_OF(type)       \
    _Generic((type){0}, bool    \
             : BT_BOOL, uint8_t \
             : BT_U8, uint16_t  \
             : BT_U16, uint32_t \
             : BT_U32, uint64_t \
             : BT_U64, int8_t   \
             : BT_I8, int16_t   \
             : BT_I16, int32_t  \
             : BT_I32, int64_t  \
             : BT_I64, float    \
             : BT_F32, double   \
             : BT_F64)
#define BT_ARRAY(type, shape, ...)                                                                           \
    BTI_AT(bt_array *,                                                                                       \
           bti_from_literal((const type[]){__VA_ARGS__}, sizeof((const type[]){__VA_ARGS__}) / sizeof(type), \
                            BT_DTYPE_OF(type), BT_SHAPE shape))
#endif

/* All elements 0, 1, or `value` (converted to dtype). `bt_zeros(BT_F32, 2, 3)`. A scalar: `bt_zeros(BT_F32, )` where -Wpedantic
 * asks for the comma. */
BT_API bt_array *bt_full_shape(double value, bt_dtype dtype, bt_shape shape);
BT_API bt_array *bti_full_as(const char *name, double value, bt_dtype dtype, bt_shape shape);
#define bt_zeros(dtype, ...) BTI_AT(bt_array *, bti_full_as("bt_zeros", 0, dtype, BT_SHAPE(__VA_ARGS__)))
#define bt_ones(dtype, ...) BTI_AT(bt_array *, bti_full_as("bt_ones", 1, dtype, BT_SHAPE(__VA_ARGS__)))
#define bt_full(value, dtype, ...) BTI_AT(bt_array *, bt_full_shape(value, dtype, BT_SHAPE(__VA_ARGS__)))

/* start, start + step, ... below stop: ceil((stop - start) / step) elements. Step 0: INVALID_ARGUMENT. */
BT_API bt_array *bt_arange(double start, double stop, double step, bt_dtype dtype);
#define bt_arange(...) BTI_AT(bt_array *, bt_arange(__VA_ARGS__))
/* `count` floats from start to stop, both included. */
BT_API bt_array *bt_linspace(double start, double stop, int64_t count, bt_dtype dtype);
#define bt_linspace(...) BTI_AT(bt_array *, bt_linspace(__VA_ARGS__))
/* [rows, columns], ones on the diagonal. */
BT_API bt_array *bt_eye(int64_t rows, int64_t columns, bt_dtype dtype);
#define bt_eye(...) BTI_AT(bt_array *, bt_eye(__VA_ARGS__))
/* Like x: its shape and dtype. */
BT_API bt_array *bt_zeros_like(bt_array *x);
#define bt_zeros_like(...) BTI_AT(bt_array *, bt_zeros_like(__VA_ARGS__))
BT_API bt_array *bt_ones_like(bt_array *x);
#define bt_ones_like(...) BTI_AT(bt_array *, bt_ones_like(__VA_ARGS__))

/* Scalars. bt_num is weak: it takes the dtype of what it meets (with integers: float64); the others are strong. */
BT_API bt_array *bt_num(double value);
#define bt_num(...) BTI_AT(bt_array *, bt_num(__VA_ARGS__))
BT_API bt_array *bt_f32(float value);
#define bt_f32(...) BTI_AT(bt_array *, bt_f32(__VA_ARGS__))
BT_API bt_array *bt_f64(double value);
#define bt_f64(...) BTI_AT(bt_array *, bt_f64(__VA_ARGS__))
BT_API bt_array *bt_i32(int32_t value);
#define bt_i32(...) BTI_AT(bt_array *, bt_i32(__VA_ARGS__))
BT_API bt_array *bt_i64(int64_t value);
#define bt_i64(...) BTI_AT(bt_array *, bt_i64(__VA_ARGS__))

/* --- asking -------------------------------------------------------------------------------------------------------- */

BT_API bt_dtype bt_dtype_of(const bt_array *x);
BT_API int bt_rank(const bt_array *x);
BT_API bt_shape bt_shape_of(const bt_array *x);
/* Size of an axis (negative counts from the end); -1 when there is no such axis or it is symbolic. */
BT_API int64_t bt_size(const bt_array *x, int axis);
BT_API int64_t bt_count(const bt_array *x); /* elements */
/* The status that a read would give, without waiting: BT_OK while pending. */
BT_API bt_status bt_peek_status(const bt_array *x);

/* --- computing and reading ----------------------------------------------------------------------------------------- */

/* Starts what the array needs, without waiting. The status is that of planning (out of memory); errors of running show at
 * reads. NULL entries are skipped. */
BT_API BT_MUST_USE bt_status bt_eval_all(bt_array *const *arrays, int count);
#define bt_eval_all(...) BTI_AT_MUST(bt_eval_all(__VA_ARGS__))
BT_API BT_MUST_USE bt_status bt_eval(bt_array *x);
#define bt_eval(...) BTI_AT_MUST(bt_eval(__VA_ARGS__))
/* Starts, waits until it is computed (JAX's block_until_ready); returns its status. */
BT_API BT_MUST_USE bt_status bt_block(bt_array *x);
#define bt_block(...) BTI_AT_MUST(bt_block(__VA_ARGS__))

/* Computes, waits, copies all elements, row-major, to `data` of `bytes` bytes, which must be the array's size exactly
 * (INVALID_ARGUMENT otherwise). A poisoned array gives its first cause. */
BT_API BT_MUST_USE bt_status bt_read(bt_array *x, void *data, size_t bytes);
#define bt_read(...) BTI_AT_MUST(bt_read(__VA_ARGS__))

/* Element `index` (x's rank of them) as a double. Refused (FAILED_PRECONDITION) for an array with more than one element that
 * is not on the CPU, unless the flag `allow_scalar` is on; the first use then warns with its line. */
BT_API BT_MUST_USE bt_status bt_item_at(bt_array *x, const int64_t *index, double *value);
#define bt_item_at(...) BTI_AT_MUST(bt_item_at(__VA_ARGS__))
/* The one element of a one-element array, as a double; NaN on errors, with the cause in the error record. */
BT_API double bt_item(bt_array *x);
#define bt_item(...) BTI_AT_DOUBLE(bt_item(__VA_ARGS__))

/* Other elements for the same array, row-major, all `bytes` of them (bools as for bt_from): x stands for the new ones from here on; what was recorded
 * before reads the old ones. Not while another thread uses x. */
BT_API BT_MUST_USE bt_status bt_write(bt_array *x, const void *data, size_t bytes);
#define bt_write(...) BTI_AT_MUST(bt_write(__VA_ARGS__))

/* A pointer to the computed elements, row-major, for reading: where they lie, when that is the host's memory and they lie so, else a host copy
 * made at the first call; borrowed until the array is released or written (bt_write); NULL with the cause in the error record. Computes and
 * waits. */
BT_API const void *bt_map(bt_array *x);
#define bt_map(...) BTI_AT(const void *, bt_map(__VA_ARGS__))

/* --- printing ------------------------------------------------------------------------------------------------------ */

/* NumPy's str and repr of the elements. Yours: bt_free. NULL with the cause in the error record. Computes and waits. */
BT_API char *bt_to_text(bt_array *x);
#define bt_to_text(...) BTI_AT(char *, bt_to_text(__VA_ARGS__))
BT_API char *bt_repr(bt_array *x);
#define bt_repr(...) BTI_AT(char *, bt_repr(__VA_ARGS__))
/* Writes `bt_array(` ... `, shape=(2, 2), dtype=float32)` and a newline to standard output; with the flag `print_device` also
 * `, device=GPU:0`. For a poisoned array the cause is written
 * to standard error instead, and goes to the error record. */
BT_API void bt_print(bt_array *x);
#define bt_print(...) BTI_AT_VOID(bt_print(__VA_ARGS__))

/* --- the end ------------------------------------------------------------------------------------------------------- */

/* Waits for all work, frees everything that the calling thread's scopes hold, ends queues, closes devices. Optional: a program
 * may just exit. Devices must not be used after; a later call starts afresh. FAILED_PRECONDITION, and nothing closed, while
 * other threads hold scopes, or arrays, shared variables or functions are still held. */
BT_API BT_MUST_USE bt_status bt_shutdown(void);
#define bt_shutdown(...) BTI_AT_MUST(bt_shutdown(__VA_ARGS__))

#ifdef __cplusplus
}
#endif
#endif
