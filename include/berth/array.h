/* berth/array.h: arrays: how they are made, who owns them, where they are, how they are read.
 *
 * An array is a value: it never changes. Operations record what to do and return at once. Work starts when an array is
 * read, when bt_eval is called, or when much has been recorded (flags `flush_nodes`, `flush_bytes`), and runs
 * asynchronously. A call that starts work waits while earlier work keeps more of a device's memory than the flag
 * `ahead_bytes` says, in results that nobody holds, temporaries and replaced values of variables.
 *
 * Ownership. Every function that returns a `bt_array *` gives it to the calling thread's innermost scope (BT_SCOPE),
 * which releases it when it ends. Outside of any scope an array belongs to the thread's outermost scope, which ends
 * with bt_shutdown or with the thread. Straight code releases nothing by hand. bt_keep moves an array to the enclosing
 * scope; bt_retain and bt_release, or bt_assign, are for arrays that live longer than scopes.
 *
 * A released array must not be used. A call that is given one (bt_release and bt_retain too) fails with
 * INVALID_ARGUMENT, and the text names the line that made the array and the line of the scope, or of the bt_release,
 * that released it. This holds for the last 65,536 released arrays; the address of an older one may be that of a new
 * array.
 *
 * Errors. A call that fails returns a poisoned array that carries the first cause; never NULL. See status.h.
 *
 * Threads. All calls may be made from any thread. Scopes, device blocks and the error record are per thread. Arrays may
 * be shared between threads while one of them owns them.
 */
#ifndef BERTH_ARRAY_H
#define BERTH_ARRAY_H

#include <berth/device.h>
#include <berth/dtype.h>

#ifdef __cplusplus
#include <complex>
#include <initializer_list>
#include <type_traits>
extern "C" {
#endif

#define BT_MAX_RANK 8

typedef struct bt_array bt_array;

/* A shape by value: `BT_SHAPE(2, 3)`; `BT_SHAPE()` is the shape of a scalar. A rank above 8 is kept in `rank`, so that
 * the call that gets the shape can refuse it with a message. */
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

/* A block that runs once; its guard is undone however the block is left. It has no condition, so that compilers see
 * that the body runs, and that nothing follows a body that returns (GCC: with optimisation). The `break` leaves the
 * switch in GCC, the loop in Clang. */
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
#define BTI_GUARD_(type, guard, end, begin) type guard __attribute__((cleanup(end), unused)) = begin
#define BTI_GUARD(kind, begin) BTI_GUARD_(bti_##kind##_guard, BTI_CAT(bti_guard_, __COUNTER__), bti_##kind##_end, begin)

/* `BT_SCOPE { ... }`: arrays made inside are released when the block ends, however it is left (`return`, `break`,
 * `goto`). Pending work keeps the arrays that it needs, so leaving a scope never waits. `break` and `continue` inside
 * leave the scope only, not a loop around it. */
#ifdef BERTH_BUILDING
#define BT_SCOPE BTI_BLOCK(scope, bti_scope_begin(NULL, 0))
#else
#define BT_SCOPE BTI_BLOCK(scope, bti_scope_begin(__FILE__, __LINE__))
#endif

/* `BT_SCOPED;` as a declaration: the same to the end of the C block that it stands in, so that `break`, `continue` and
 * `return` mean what they mean without it. As with any declaration that something depends on, no `case` label and no
 * `goto` may lead past it into its block (compilers of C do not say so). */
#ifdef BERTH_BUILDING
#define BT_SCOPED BTI_GUARD(scope, bti_scope_begin(NULL, 0))
#else
#define BT_SCOPED BTI_GUARD(scope, bti_scope_begin(__FILE__, __LINE__))
#endif

/* Moves an array from the innermost scope to the enclosing one, and returns it. */
BT_API bt_array *bt_keep(bt_array *array);
#define bt_keep(...) BTI_AT(bt_array *, bt_keep(__VA_ARGS__))

/* Adds an owner outside of all scopes; each bt_retain needs one bt_release. NULL is accepted. A retained array is a
 * long-lived value: gradients end at it (bt_grad fails where that would cut a gradient off), and once computed it no
 * longer keeps the operations that made it. */
BT_API bt_array *bt_retain(bt_array *array);
#define bt_retain(...) BTI_AT(bt_array *, bt_retain(__VA_ARGS__))
BT_API void bt_release(bt_array *array);
#define bt_release(...) BTI_AT_VOID(bt_release(__VA_ARGS__))

/* *slot = value, for variables that outlive scopes: retains the new array and releases the old one. Call `bt_assign(&x,
 * NULL)` at the end. Not atomic: one thread per slot. Gradients end at the new array, as at a retained one: from the
 * end of the scope that made it, or, if the slot was empty, from now on. A log line is written when the history that is
 * kept this way passes 10,000 operations. */
BT_API void bt_assign(bt_array **slot, bt_array *value);
#define bt_assign(...) BTI_AT_VOID(bt_assign(__VA_ARGS__))

/* How many arrays exist in this process. */
BT_API uint64_t bt_live_arrays(void);

/* --- devices -------------------------------------------------------------------------------------------------------- */

typedef struct bti_on_guard {
    bool marked;
} bti_on_guard;
BT_API bti_on_guard bti_on_begin(const char *device, const char *file, int line);
BT_API void bti_on_end(bti_on_guard *guard);

/* `BT_ON("/device:GPU:2") { a = ...; c = bt_matmul(a, b); }`: what this thread records inside runs on that device and
 * is committed to it. The device is a name or a bt_device *. Blocks nest. Leaving the block in any way (`return` too) restores the device before it; `break`
 * and `continue` leave the block only. An unknown device poisons what is recorded inside, unless the flag
 * `soft_placement` chooses another device. */
#define BT_ON(device) BTI_BLOCK(on, bti_on_begin(BTI_DEVICE(device), BTI_SITE))

typedef struct bti_default_guard {
    int before;
    void *refused; /* why the block outside has no device */
} bti_default_guard;
BT_API bti_default_guard bti_default_begin(const char *device);
BT_API void bti_default_end(bti_default_guard *guard);

/* `BT_DEFAULT("gpu:1") { ... }`: the default device of this thread inside, as JAX's default_device: what nothing else
 * places goes there, and is not committed to it. BT_ON is stronger, inside or outside. An unknown device poisons
 * what would go there. A function keeps the devices of its inputs and of what its body makes. */
#define BT_DEFAULT(device) BTI_BLOCK(default, bti_default_begin(BTI_DEVICE(device)))

typedef enum bt_transfers {
    BT_TRANSFERS_COPY, /* copies are inserted, counted, and shown by bt_explain */
    BT_TRANSFERS_LOG,  /* the same, with one log line per copy */
    /* No committed array is copied to another device unless the program asks for it (bt_to, bt_gpu, bt_cpu, a target
     * argument, bt_all_reduce, a strategy, the batches of a training loop). Refused are: an operation on committed
     * arrays of several devices, or in a BT_ON block or on a default device (placement=tensorflow) that is not the
     * device of its input; a value for a variable on another device; an argument for an input on another device; a
     * gradient that would cross devices. Uncommitted arrays may move, and the host may read any array. */
    BT_TRANSFERS_ERROR
} bt_transfers;

typedef struct bti_transfers_guard {
    int before;
} bti_transfers_guard;
BT_API bti_transfers_guard bti_transfers_begin(bt_transfers policy);
BT_API void bti_transfers_end(bti_transfers_guard *guard);

/* `BT_TRANSFERS(BT_TRANSFERS_ERROR) { ... }`: sets the policy of this thread inside the block; outside, the flag
 * `transfers` applies. */
#define BT_TRANSFERS(policy) BTI_BLOCK(transfers, bti_transfers_begin(policy))

typedef struct bti_named_guard {
    const char *before;
} bti_named_guard;
BT_API bti_named_guard bti_named_begin(const char *format, ...) BT_PRINTF(1, 2);
BT_API void bti_named_end(bti_named_guard *guard);

/* `BT_NAMED("block %d", i) { ... }`: a label on what this thread records inside, and on its gradients: explain, profiles, traces, memory reports and
 * the placement log show it. Blocks nest: "encoder/block 2". A function's operations have the labels that they were recorded with. Labels, of up to 199
 * bytes, stay to the end of the process; after 65,536 different ones new ones are "...". */
#define BT_NAMED(...) BTI_BLOCK(named, bti_named_begin(__VA_ARGS__))
/* Labels the operation that x is the result of, inside of the label of the block, and returns x: `y = bt_name(bt_matmul(x, w), "logits")`. No other
 * thread may use x during the call. A name that is NULL or "" poisons the result. */
BT_API bt_array *bt_name(bt_array *x, const char *name);
#define bt_name(...) BTI_AT(bt_array *, bt_name(__VA_ARGS__))

/* x on that device, a name or a bt_device *, committed to it: a copy, recorded like any operation. If x is there already, nothing is copied: a
 * committed x is returned itself; for an uncommitted x the result is another array, committed, with the same elements,
 * and x stays uncommitted. Works on symbolic inputs (bt_input) too. */
BT_API bt_array *bt_to(bt_array *x, const char *device);
#define bt_to(x, device) BTI_AT(bt_array *, bt_to(x, BTI_DEVICE(device)))
/* Moves x to the lowest GPU and returns x itself when there is no GPU. Otherwise as bt_to. */
BT_API bt_array *bt_gpu(bt_array *x);
#define bt_gpu(...) BTI_AT(bt_array *, bt_gpu(__VA_ARGS__))
/* Moves x to the CPU. Otherwise as bt_to. */
BT_API bt_array *bt_cpu(bt_array *x);
#define bt_cpu(...) BTI_AT(bt_array *, bt_cpu(__VA_ARGS__))

/* The device that an array is or will be computed on; NULL for a poisoned array. Borrowed (device.h). */
BT_API bt_device *bt_device_of(const bt_array *x);
/* "{GpuDevice(id=0)}": the set of the array's devices as JAX prints it. The caller owns the text: bt_free. */
BT_API char *bt_devices_text(const bt_array *x);
#define bt_devices_text(...) BTI_AT(char *, bt_devices_text(__VA_ARGS__))

/* --- making arrays --------------------------------------------------------------------------------------------------
 * A new array is on the device of the BT_ON block, committed to it; outside of such blocks it is on the default device
 * and uncommitted: operations may move it to another device. */

/* Copies row-major elements from `data` (bt_dtype_size(dtype) bytes each); `data` may be NULL if the shape has no
 * elements. For BT_BOOL any byte except 0 becomes 1. Errors: INVALID_ARGUMENT (dtype, rank, a negative or overflowing
 * size), RESOURCE_EXHAUSTED. */
BT_API bt_array *bt_from(const void *data, bt_dtype dtype, bt_shape shape);
#define bt_from(...) BTI_AT(bt_array *, bt_from(__VA_ARGS__))

/* bt_from without a copy where that can be: on a device whose memory is the host's (the CPU) the array lies in `data`
 * itself, if that is aligned to 64 bytes and holds no bool other than 0 and 1; elsewhere the elements are copied.
 *
 * `end(lender)` (end may be NULL) is called exactly once. If the elements were copied, or the array is poisoned: before
 * this returns. Else when the array, what is a view of it (a product with 1 is one, too), and all work that reads it are
 * gone: from any thread, maybe of the library, so that end must not call the library or wait for it. Until then nobody
 * may write or free `data`. Errors: as bt_from. A forked child must not use such arrays, as others. */
typedef void bt_lent_end_fn(void *lender);
BT_API bt_array *bt_from_lent(const void *data, bt_dtype dtype, bt_shape shape, bt_lent_end_fn *end, void *lender);
#define bt_from_lent(...) BTI_AT(bt_array *, bt_from_lent(__VA_ARGS__))

/* `BT_ARRAY(float, (2, 3), 1, 2, 3, 4, 5, 6)`: elements of a C type, in a shape. The number of elements must be that of
 * the shape (INVALID_ARGUMENT). */
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
BTI_DTYPE_OF_(std::complex<float>, BT_C64)
BTI_DTYPE_OF_(std::complex<double>, BT_C128)
template <class T> static inline bt_array *bti_from_list(std::initializer_list<T> data, bt_shape shape) {
    return bti_from_literal(data.begin(), data.size(), bti_dtype_of<T>::value, shape);
}
extern "C" {
#define BT_ARRAY(type, shape, ...) BTI_AT(bt_array *, bti_from_list<type>({__VA_ARGS__}, BT_SHAPE shape))
#else
#define BT_DTYPE_OF(type)              \
    _Generic((type){0}, bool           \
             : BT_BOOL, uint8_t        \
             : BT_U8, uint16_t         \
             : BT_U16, uint32_t        \
             : BT_U32, uint64_t        \
             : BT_U64, int8_t          \
             : BT_I8, int16_t          \
             : BT_I16, int32_t         \
             : BT_I32, int64_t         \
             : BT_I64, float           \
             : BT_F32, double          \
             : BT_F64, float _Complex  \
             : BT_C64, double _Complex \
             : BT_C128)
#define BT_ARRAY(type, shape, ...)                                                                           \
    BTI_AT(bt_array *,                                                                                       \
           bti_from_literal((const type[]){__VA_ARGS__}, sizeof((const type[]){__VA_ARGS__}) / sizeof(type), \
                            BT_DTYPE_OF(type), BT_SHAPE shape))
#endif

/* All elements `value`, converted to dtype: `bt_full(0.5, BT_F32, 2, 3)`. A scalar is `bt_full(0.5, BT_F32, )`; the comma
 * is needed with -Wpedantic. */
BT_API bt_array *bt_full_shape(double value, bt_dtype dtype, bt_shape shape);
#define bt_full(value, dtype, ...) BTI_AT(bt_array *, bt_full_shape(value, dtype, BT_SHAPE(__VA_ARGS__)))
BT_API bt_array *bti_full_as(const char *name, double value, bt_dtype dtype, bt_shape shape);
/* All elements 0: `bt_zeros(BT_F32, 2, 3)`; a scalar: `bt_zeros(BT_F32, )`. */
#define bt_zeros(dtype, ...) BTI_AT(bt_array *, bti_full_as("bt_zeros", 0, dtype, BT_SHAPE(__VA_ARGS__)))
/* All elements 1. */
#define bt_ones(dtype, ...) BTI_AT(bt_array *, bti_full_as("bt_ones", 1, dtype, BT_SHAPE(__VA_ARGS__)))

/* start, start + step, ... up to but not including stop: ceil((stop - start) / step) elements. INVALID_ARGUMENT for
 * step 0. */
BT_API bt_array *bt_arange(double start, double stop, double step, bt_dtype dtype);
#define bt_arange(...) BTI_AT(bt_array *, bt_arange(__VA_ARGS__))
/* `count` evenly spaced elements from start to stop, both included; a dtype of floats (INVALID_ARGUMENT otherwise). */
BT_API bt_array *bt_linspace(double start, double stop, int64_t count, bt_dtype dtype);
#define bt_linspace(...) BTI_AT(bt_array *, bt_linspace(__VA_ARGS__))
/* [rows, columns], 1 on the main diagonal and 0 elsewhere. */
BT_API bt_array *bt_eye(int64_t rows, int64_t columns, bt_dtype dtype);
#define bt_eye(...) BTI_AT(bt_array *, bt_eye(__VA_ARGS__))
/* Zeros with the shape and dtype of x. */
BT_API bt_array *bt_zeros_like(bt_array *x);
#define bt_zeros_like(...) BTI_AT(bt_array *, bt_zeros_like(__VA_ARGS__))
/* Ones with the shape and dtype of x. */
BT_API bt_array *bt_ones_like(bt_array *x);
#define bt_ones_like(...) BTI_AT(bt_array *, bt_ones_like(__VA_ARGS__))

/* Scalars. bt_num has a weak dtype: it takes the dtype of the arrays that it is combined with (float64 with integers);
 * the others have the dtype of their name. */
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

/* Numbers where operands of operations are expected: `bt_mul(x, 0.5)`, `bt_add(n, 1)`, `bt_lt(0, x)`. A real number is
 * bt_num(x). An integer is weaker still: it takes the dtype of the arrays that it is combined with, of integers too, and is
 * int64 with bool or alone; one that does not fit the dtype (300 with uint8) is INVALID_ARGUMENT. A complex number (<complex.h>, std::complex) is as weak as a real one (complex.h). A bool is an array
 * of bool; in C before C23 `true` is no bool but the integer 1. An unsigned number above INT64_MAX is refused. The names of the functions themselves, `(bt_mul)(x, y)`, take arrays alone. */
BT_API bt_array *bti_num_of_integer(int64_t value);
BT_API bt_array *bti_num_of_unsigned(uint64_t value);
BT_API bt_array *bti_num_of_real(double value);
BT_API bt_array *bti_num_of_bool(bool value);
BT_API bt_array *bti_num_of_complex(double real, double imag);
#ifdef BERTH_BUILDING
#define BTI_OPERAND(x) x
#elif defined __cplusplus
}
static inline bt_array *bti_operand(bt_array *x) { return x; }
template <class T, typename std::enable_if<std::is_same<T, bool>::value, int>::type = 0>
static inline bt_array *bti_operand(T x) {
    return bti_num_of_bool(x);
}
bt_array *bti_operand(const volatile void *) = delete; /* another pointer is no operand */
bt_array *bti_operand(const bt_array *) = delete;
static inline bt_array *bti_operand(decltype(nullptr)) { return nullptr; }
template <class T, typename std::enable_if<std::is_floating_point<T>::value, int>::type = 0>
static inline bt_array *bti_operand(T x) {
    return bti_num_of_real(static_cast<double>(x));
}
template <class T> static inline bt_array *bti_operand(const std::complex<T> &x) {
    return bti_num_of_complex(static_cast<double>(x.real()), static_cast<double>(x.imag()));
}
template <class T,
          typename std::enable_if<
              (std::is_integral<T>::value && !std::is_same<T, bool>::value) || std::is_enum<T>::value, int>::type = 0>
static inline bt_array *bti_operand(T x) {
    if (x > T()) return bti_num_of_unsigned(static_cast<uint64_t>(x));
    return bti_num_of_integer(static_cast<int64_t>(x));
}
extern "C" {
#define BTI_OPERAND(x) bti_operand(x)
#else
static inline bt_array *bti_operand_itself(bt_array *x) { return x; }
static inline bt_array *bti_num_of_double_complex(double _Complex x) {
    return bti_num_of_complex(__extension__ __real__ x, __extension__ __imag__ x);
}
static inline bt_array *bti_num_of_long_double(long double x) { return bti_num_of_real((double)x); }
/* x is written once, so that nested calls do not grow. */
#define BTI_OPERAND_(x, once)                                                                                    \
    __extension__({                                                                                              \
        __auto_type once = (x);                                                                                  \
        _Generic(once, bt_array * : bti_operand_itself, void * : bti_operand_itself, bool : bti_num_of_bool,   \
                 float : bti_num_of_real, double : bti_num_of_real, long double : bti_num_of_long_double,             \
                 char : bti_num_of_integer, signed char : bti_num_of_integer, short : bti_num_of_integer,      \
                 int : bti_num_of_integer, long : bti_num_of_integer, long long : bti_num_of_integer,          \
                 unsigned char : bti_num_of_unsigned, unsigned short : bti_num_of_unsigned,                    \
                 unsigned : bti_num_of_unsigned, unsigned long : bti_num_of_unsigned,                          \
                 unsigned long long : bti_num_of_unsigned, float _Complex : bti_num_of_double_complex,      \
                 double _Complex : bti_num_of_double_complex)(once); \
    })
#define BTI_OPERAND(x) BTI_OPERAND_(x, BTI_CAT(bti_operand_, __COUNTER__))
#endif

/* --- properties ---------------------------------------------------------------------------------------------------- */

/* These never block. An array that was poisoned when it was recorded answers as a float32 scalar (rank 0, 1 element), so that a program need not ask
 * at each step: bt_peek_status tells. One whose work failed keeps its dtype and shape. NULL and released arrays: BT_DTYPE_COUNT, rank -1, a shape of rank 0, -1 elements. */
BT_API bt_dtype bt_dtype_of(const bt_array *x);
BT_API int bt_rank(const bt_array *x);
BT_API bt_shape bt_shape_of(const bt_array *x);
/* Size of an axis (a negative axis counts from the end); -1 when there is no such axis or its size is symbolic. */
BT_API int64_t bt_size(const bt_array *x, int axis);
BT_API int64_t bt_count(const bt_array *x); /* number of elements; -1 if a size is symbolic */
/* The status that a read would return now, without waiting: BT_OK while the work is pending. */
BT_API bt_status bt_peek_status(const bt_array *x);

/* --- computing and reading ----------------------------------------------------------------------------------------- */

/* Starts the work that the arrays need, without waiting for it. The status is that of planning (out of memory, say);
 * errors of the running work are reported by reads. NULL entries are skipped. */
BT_API BT_MUST_USE bt_status bt_eval_all(bt_array *const *arrays, int count);
#define bt_eval_all(...) BTI_AT_MUST(bt_eval_all(__VA_ARGS__))
BT_API BT_MUST_USE bt_status bt_eval(bt_array *x);
#define bt_eval(...) BTI_AT_MUST(bt_eval(__VA_ARGS__))
/* Starts the work, waits until the array is computed (JAX's block_until_ready), and returns its status. */
BT_API BT_MUST_USE bt_status bt_block(bt_array *x);
#define bt_block(...) BTI_AT_MUST(bt_block(__VA_ARGS__))

/* Computes the array, waits for it, and copies all elements, row-major, to `data`. `bytes` must be exactly the size of
 * the array (INVALID_ARGUMENT otherwise). A poisoned array returns its first cause. */
BT_API BT_MUST_USE bt_status bt_read(bt_array *x, void *data, size_t bytes);
#define bt_read(...) BTI_AT_MUST(bt_read(__VA_ARGS__))

/* One element as a double; `index` has as many entries as x has axes. FAILED_PRECONDITION for an array with more than
 * one element that is not on the CPU, unless the flag `allow_scalar` is on; then the first use logs a warning with its
 * line. Computes and waits. */
BT_API BT_MUST_USE bt_status bt_item_at(bt_array *x, const int64_t *index, double *value);
#define bt_item_at(...) BTI_AT_MUST(bt_item_at(__VA_ARGS__))
/* The element of an array that has exactly one, as a double. On errors NaN, with the cause in the error record.
 * Computes and waits. */
BT_API double bt_item(bt_array *x);
#define bt_item(...) BTI_AT_DOUBLE(bt_item(__VA_ARGS__))

/* Replaces all elements of x by `bytes` bytes of row-major `data` (bools as for bt_from). Work that was recorded before
 * reads the old elements, work recorded later the new ones. No other thread may use x during the call. */
BT_API BT_MUST_USE bt_status bt_write(bt_array *x, const void *data, size_t bytes);
#define bt_write(...) BTI_AT_MUST(bt_write(__VA_ARGS__))

/* A pointer to the computed elements, row-major, for reading. It points to the array's own memory if that is host
 * memory in row-major order, else to a host copy that the first call makes. Borrowed: valid until the array is released
 * or written (bt_write). NULL with the cause in the error record. Computes and waits. */
BT_API const void *bt_map(bt_array *x);
#define bt_map(...) BTI_AT(const void *, bt_map(__VA_ARGS__))

/* --- printing ------------------------------------------------------------------------------------------------------ */

/* The elements as NumPy's str and repr print them. The caller owns the text: bt_free. NULL with the cause in the error
 * record. Computes and waits. */
BT_API char *bt_to_text(bt_array *x);
#define bt_to_text(...) BTI_AT(char *, bt_to_text(__VA_ARGS__))
BT_API char *bt_repr(bt_array *x);
#define bt_repr(...) BTI_AT(char *, bt_repr(__VA_ARGS__))
/* Writes `bt_array(` ... `, shape=(2, 2), dtype=float32)` and a newline to standard output; with the flag
 * `print_device` also `, device=GPU:0`. For a poisoned array it writes the cause to standard error instead and sets the
 * error record. Computes and waits. */
BT_API void bt_print(bt_array *x);
#define bt_print(...) BTI_AT_VOID(bt_print(__VA_ARGS__))

/* --- the end ------------------------------------------------------------------------------------------------------- */

/* Waits for all work, frees everything that the calling thread's scopes hold, ends queues and closes devices. Optional:
 * a program may just exit. Device pointers must not be used afterwards; a later call opens devices again.
 * FAILED_PRECONDITION, and nothing is closed, inside of a BT_ON or BT_DEFAULT block, while other threads have scopes, while arrays, shared variables or
 * functions are retained, or while memory of bt_pinned is not freed. */
BT_API BT_MUST_USE bt_status bt_shutdown(void);
#define bt_shutdown(...) BTI_AT_MUST(bt_shutdown(__VA_ARGS__))

#ifdef __cplusplus
}
#endif
#endif
