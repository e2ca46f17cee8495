/* berth/view.h: what will run on which device and why, how much memory it needs, and how long it took. */
#ifndef BERTH_VIEW_H
#define BERTH_VIEW_H

#include <berth/function.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What computing the arrays would do now, as text: each kernel and operation in order, with what was fused into it, its
 * device and the rule that chose the device, why its result is stored, each copy with its bytes, the operations (as in
 * bt_cost), the bytes read and
 * written next to the least possible, and the memory per device. Computes nothing. The caller owns the text: bt_free.
 * NULL with the cause in the error record. */
BT_API char *bt_explain_all(bt_array *const *arrays, int count);
#define bt_explain_all(...) BTI_AT(char *, bt_explain_all(__VA_ARGS__))
BT_API char *bt_explain(bt_array *x);
#define bt_explain(...) BTI_AT(char *, bt_explain(__VA_ARGS__))
/* The same in one of these formats: text, one JSON object on one line ("steps", "memory_bytes", "operations", "bytes_read",
 * "bytes_written", "bytes_least"), a graph in Graphviz's DOT language, or the plan after each pass of the planner as text
 * (for those who work on the planner: which operation went where, what was fused, where memory lies). INVALID_ARGUMENT: no such
 * format. */
typedef enum bt_explain_form { BT_EXPLAIN_TEXT, BT_EXPLAIN_JSON, BT_EXPLAIN_DOT, BT_EXPLAIN_PASSES } bt_explain_form;
BT_API char *bt_explain_as(bt_array *const *arrays, int count, bt_explain_form form);
#define bt_explain_as(...) BTI_AT(char *, bt_explain_as(__VA_ARGS__))
/* The same for a call of a function with arguments of these shapes (taken from arrays). */
BT_API char *bt_explain_function(bt_function *function, bt_array *const *arguments, int argument_count);
#define bt_explain_function(...) BTI_AT(char *, bt_explain_function(__VA_ARGS__))
BT_API char *bt_explain_function_as(bt_function *function, bt_array *const *arguments, int argument_count,
                                    bt_explain_form form);
#define bt_explain_function_as(...) BTI_AT(char *, bt_explain_function_as(__VA_ARGS__))

/* --- forecast of memory -------------------------------------------------------------------------------------------- */

/* The largest memory of one device during some work, in bytes, together with what is in use before it: comparable with
 * `used` and `peak` of bt_memory. */
typedef struct bt_peak {
    bt_device *device;
    size_t in_use; /* now, bytes */
    size_t peak;
} bt_peak;

/* The peaks of computing the arrays now, together with this thread's pending sets, which would be computed with them.
 * Fills peaks[] for each device that has memory in use or gets some, the CPU too. *peak_count: on entry how many
 * peaks[] can hold, on return how many there are. Runs nothing and takes no device memory; memory that other threads
 * take meanwhile is not included. Errors: INVALID_ARGUMENT, the error of an array, FAILED_PRECONDITION (an array
 * depends on an input of a function). */
BT_API BT_MUST_USE bt_status bt_peak_all(bt_array *const *arrays, int count, bt_peak *peaks, int *peak_count);
#define bt_peak_all(...) BTI_AT_MUST(bt_peak_all(__VA_ARGS__))
/* The peaks of one call of the function with its updates; a variable's old value exists beside its new one. If
 * arguments[i] is NULL, shapes[i] is the shape of an argument that will be made on the input's device, and its memory
 * is included (shapes may be NULL when no argument is NULL). Updates nothing. Errors: also those of bt_call. */
BT_API BT_MUST_USE bt_status bt_peak_call(bt_function *function, bt_array *const *arguments, const bt_shape *shapes,
                                          int argument_count, bt_peak *peaks, int *peak_count);
#define bt_peak_call(...) BTI_AT_MUST(bt_peak_call(__VA_ARGS__))
/* "GPU:0: 1.5 GiB, of which 1 GiB in use now", one line per device. The caller owns the text: bt_free. */
BT_API char *bt_peak_text(const bt_peak *peaks, int count);
#define bt_peak_text(...) BTI_AT(char *, bt_peak_text(__VA_ARGS__))

/* The largest batch with which one call stays within `limit` bytes on the device (NULL: on each device). limit 0: the
 * device's own limit, else its free memory; 1 MiB or more of it is kept for gaps between small arrays. The batch is the
 * unknown leading size of the inputs whose arguments[i] is NULL; their other sizes must be known (INVALID_ARGUMENT).
 * *batch: 0 when not even one row fits; 2^40 when there is no bound up to there. The search only plans, about 2
 * log2(batch) times, and assumes that a larger batch needs no less memory. */
BT_API BT_MUST_USE bt_status bt_largest_batch(bt_function *function, bt_array *const *arguments, int argument_count,
                                              const bt_device *device, size_t limit, int64_t *batch);
#define bt_largest_batch(...) BTI_AT_MUST(bt_largest_batch(__VA_ARGS__))

/* --- cost ------------------------------------------------------------------------------------------------------------ */

/* What one call of a function takes, counted in its plan. Initialise it with BT_COST_INIT. */
typedef struct bt_cost {
    size_t size BTI_INITIALLY(sizeof(bt_cost));
    /* Operations on numbers, also of integers: one for each element of an element-wise operation (an exponential and a
     * random number too; casts and copies: none) and of a running sum, one for each element that a reduction folds, two
     * for each multiplication and addition of a matrix product. A bt_scan counts all its steps, a bt_while one, a bt_cond
     * its dearer branch. Operations of the program's own count as none. */
    double operations;
    int64_t bytes_read, bytes_written; /* by kernels, between memory and cores */
    int64_t bytes_least;  /* the least possible: what is read of what is given, once; what is kept, written once */
    int64_t bytes_copied; /* between devices */
    int64_t memory_bytes; /* for results and temporaries at once, of all devices; bt_peak_call: with what is in use */
    int64_t kernels, copies; /* launches; copies between devices */
} bt_cost;
#define BT_COST_INIT BTI_INFO_INIT(bt_cost)
/* The cost of one call of the function with its updates, for such arguments; as in bt_peak_call, a NULL argument stands for
 * one of shapes[i]. Arguments that are pending are not computed, nor counted. Runs nothing and takes no device memory.
 * Errors: INVALID_ARGUMENT (cost is NULL, too), those of bt_call. */
BT_API BT_MUST_USE bt_status bt_function_cost(bt_function *function, bt_array *const *arguments, const bt_shape *shapes,
                                              int argument_count, bt_cost *cost);
#define bt_function_cost(...) BTI_AT_MUST(bt_function_cost(__VA_ARGS__))

/* --- times ---------------------------------------------------------------------------------------------------------- */

/* Times are those of the wall, or, while devices are simulated by a model (flag devices, "sim:h200*8"), virtual: what the model says, the same
 * on each run of a program with one thread (docs/simulated-devices.md). Texts say so. */

/* The seconds that fn(data) took, including its work on all devices: waits for pending work before and after. NaN on
 * errors. */
typedef void bt_timed_fn(void *data);
BT_API double bt_time(bt_timed_fn *fn, void *data);
#define bt_time(...) BTI_AT_DOUBLE(bt_time(__VA_ARGS__))

/* Runs fn once without counting it, then `runs` times `loops` loops (0: as many loops as take 0.2 s; in virtual time one), waits included.
 * The text is "186 ms ± 33.1 ms per loop (mean ± std. dev. of 3 runs, 1 loop each)"; the caller owns it: bt_free.
 * seconds (may be NULL) receives the mean. */
BT_API char *bt_timeit(bt_timed_fn *fn, void *data, int runs, int64_t loops, double *seconds);
#define bt_timeit(...) BTI_AT(char *, bt_timeit(__VA_ARGS__))

/* A profile of what ran between its start and its stop, on all threads. Both wait for pending work, so a profile
 * contains complete work. Device times are those of the kernels and copies themselves, by the device's own clock where
 * it computes beside the host; copies from and to the host take as long as the host worked for them. Host times
 * (planning, preparing, submitting, waiting) are listed separately, and waiting does not include kernels that the waiting
 * thread ran itself. Kernels on devices may take up to some microseconds longer while a profile is recorded.
 *
 * NULL with the cause in the error record. Several profiles may run at once, and any thread may stop one. A profile
 * that is never stopped goes on recording, in bounded memory (about 35 MB); events beyond that are counted, and the
 * tables say how many. */
typedef struct bt_profile bt_profile;
BT_API bt_profile *bt_profile_start(void);
#define bt_profile_start(...) BTI_AT(bt_profile *, bt_profile_start(__VA_ARGS__))

/* Ends and frees the profile, also on errors. *text (text may be NULL) receives tables of kernels (calls, total, mean,
 * share of all kernel time, bytes per second, with the operation and line that recorded them), of devices (the fraction
 * of time that they were busy), of copies, and of the host; the caller owns it: bt_free. trace_file (may be NULL) names
 * a file for a Chrome trace, which chrome://tracing, Perfetto and `berth trace FILE` open. Errors: INVALID_ARGUMENT,
 * RESOURCE_EXHAUSTED, NOT_FOUND and UNKNOWN (the file cannot be written). */
BT_API BT_MUST_USE bt_status bt_profile_stop(bt_profile *profile, const char *trace_file, char **text);
#define bt_profile_stop(...) BTI_AT_MUST(bt_profile_stop(__VA_ARGS__))

/* Makes an HTML page from a Chrome trace that berth recorded (bt_profile_stop, flag "trace"): one file that needs no
 * other. DATA_LOSS when the file is no such trace. Uses no devices. */
BT_API BT_MUST_USE bt_status bt_trace_page(const char *trace_file, const char *html_file);
#define bt_trace_page(...) BTI_AT_MUST(bt_trace_page(__VA_ARGS__))

/* Starts the recorded work of this thread's arrays and waits until it and all queues of all devices are done. */
BT_API void bt_synchronize(void);
#define bt_synchronize(...) BTI_AT_VOID(bt_synchronize(__VA_ARGS__))

/* --- the compiler of CPU kernels ----------------------------------------------------------------------------------- */

/* What this process has compiled so far, and with what. Initialise it with BT_COMPILER_INFO_INIT; texts are cut to fit.
 * LLVM is opened when a kernel is worth compiling and is not in the disk cache; without LLVM everything works, more
 * slowly. */
typedef struct bt_compiler_info {
    size_t size BTI_INITIALLY(sizeof(bt_compiler_info));
    const char *vector; /* "avx512": the instructions that kernels are compiled for */
    char library[96];   /* "libLLVM-16.so.1, 16.0.6"; "" when none is open */
    /* Why LLVM is not open: what was tried, what the loader said, what to install; "" without an error. */
    char library_reason[1024];
    char cache[1024];         /* the folder of compiled kernels; "" when there is none */
    char cache_reason[400];   /* why the folder is not used or not written to; "" without an error */
    uint64_t open_ns;         /* time to open LLVM */
    uint64_t trial_ns;        /* time to compile the function of the trial; 0 without a trial */
    uint64_t kernels;         /* number of kernels that LLVM compiled */
    uint64_t compile_ns;      /* total time of compiling them, without open_ns */
    uint64_t hits, misses;    /* look-ups of kernels in the cache */
    uint64_t stores, refused; /* kernels written to the cache; damaged files in it, which were deleted */
    uint64_t files, bytes;    /* content of the cache; 0 without a trial */
} bt_compiler_info;
#define BT_COMPILER_INFO_INIT BTI_INFO_INIT(bt_compiler_info)
/* `trial`: opens LLVM, compiles a small function and runs it, makes the folder of the cache and tries to write to it;
 * the reasons say what failed. Without it nothing is opened. Any thread; a trial blocks for about 20 ms.
 * INVALID_ARGUMENT: no info. */
BT_API BT_MUST_USE bt_status bt_compiler(bool trial, bt_compiler_info *info);
#define bt_compiler(...) BTI_AT_MUST(bt_compiler(__VA_ARGS__))

/* --- the libraries of the CPU -------------------------------------------------------------------------------- */

/* oneDNN computes matrix products of float32 and bfloat16, OpenBLAS those of float64; each is opened when a product
 * first needs it. Without them berth's own loops are used, which are slower. FFTW computes Fourier transforms, of float32 and
 * of float64; without it they are UNIMPLEMENTED. Initialise it with BT_LIBRARY_INFO_INIT;
 * texts are cut to fit. */
typedef struct bt_library_info {
    size_t size BTI_INITIALLY(sizeof(bt_library_info));
    const char *name;  /* "oneDNN" */
    char library[160]; /* "libdnnl.so.2, 2.6.3"; "" when it is not open */
    char reason[600]; /* why it is not open: what was tried, the loader's error, what to install; "" without an error */
    uint64_t open_ns; /* time to open it */
    uint64_t kept;    /* oneDNN primitives (one per shape of bfloat16 products) in the cache now; at most 64 */
    uint64_t made, found, evicted; /* such primitives made, found in the cache, and evicted from it so far */
} bt_library_info;
#define BT_LIBRARY_INFO_INIT BTI_INFO_INIT(bt_library_info)
/* Library `index`, 0 to bt_library_count() - 1; OUT_OF_RANGE past that. `trial`: opens it now. Any thread; a trial
 * blocks for some milliseconds. */
BT_API int bt_library_count(void);
BT_API BT_MUST_USE bt_status bt_library_describe(int index, bool trial, bt_library_info *info);
#define bt_library_describe(...) BTI_AT_MUST(bt_library_describe(__VA_ARGS__))

/* --- operations ----------------------------------------------------------------------------------------------------- */

/* What is known of primitive `index`, 0 to bt_primitive_count() - 1; OUT_OF_RANGE past that. Plans consist of
 * primitives only. Initialise it with BT_PRIMITIVE_INFO_INIT; the texts are constants of the library. Any thread; does
 * not block. */
typedef struct bt_primitive_info {
    size_t size BTI_INITIALLY(sizeof(bt_primitive_info));
    const char *name;     /* "add" */
    const char *family;   /* "source", "elementwise", "reduce", "scan", "movement", "gather", "heavy", "host",
                           * "effect" */
    int inputs;           /* -1: one or more */
    const char *dtypes;   /* "any", "number", "float", "bits", "any to bool", "any to int32"; "own": see doc */
    const char *gradient; /* the name of its gradient rule; "none" */
    const char *doc;
} bt_primitive_info;
#define BT_PRIMITIVE_INFO_INIT BTI_INFO_INIT(bt_primitive_info)
BT_API int bt_primitive_count(void);
BT_API BT_MUST_USE bt_status bt_primitive_describe(int index, bt_primitive_info *info);
#define bt_primitive_describe(...) BTI_AT_MUST(bt_primitive_describe(__VA_ARGS__))

/* The name of public operation `index`, 0 to bt_operation_count() - 1, in alphabetical order: "bt_matmul". *log_name
 * (log_name may be NULL) receives its name in the placement log, "MatMul". NULL past the last. Any thread; does not
 * block. */
BT_API int bt_operation_count(void);
BT_API const char *bt_operation_name(int index, const char **log_name);

#ifdef __cplusplus
}
#endif
#endif
