/* berth/view.h: what will run where and why, and how long it took. */
#ifndef BERTH_VIEW_H
#define BERTH_VIEW_H

#include <berth/function.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What computing the arrays would do now, as text: each kernel and operation in order with what was fused
 * into it, its device and the rule that chose it, why what it stores is in memory, each copy with its bytes, the bytes read and
 * written against the least possible, the memory per device. Computes nothing. Yours: bt_free; NULL with the cause in the error record. */
BT_API char *bt_explain_all(bt_array *const *arrays, int count);
#define bt_explain_all(...) BTI_AT(char *, bt_explain_all(__VA_ARGS__))
BT_API char *bt_explain(bt_array *x);
#define bt_explain(...) BTI_AT(char *, bt_explain(__VA_ARGS__))
/* The same in another form: text, one JSON object on one line ("steps", "memory_bytes", "bytes_read", "bytes_written",
 * "bytes_least"), or a graph in Graphviz's language. INVALID_ARGUMENT: no such form. */
typedef enum bt_explain_form { BT_EXPLAIN_TEXT, BT_EXPLAIN_JSON, BT_EXPLAIN_DOT } bt_explain_form;
BT_API char *bt_explain_as(bt_array *const *arrays, int count, bt_explain_form form);
#define bt_explain_as(...) BTI_AT(char *, bt_explain_as(__VA_ARGS__))
/* The same for a function called with arguments of these shapes (taken from arrays). */
BT_API char *bt_explain_function(bt_function *function, bt_array *const *arguments, int argument_count);
#define bt_explain_function(...) BTI_AT(char *, bt_explain_function(__VA_ARGS__))
BT_API char *bt_explain_function_as(bt_function *function, bt_array *const *arguments, int argument_count,
                                    bt_explain_form form);
#define bt_explain_function_as(...) BTI_AT(char *, bt_explain_function_as(__VA_ARGS__))

/* --- whether it fits, before it runs ------------------------------------------------------------------------------- */

/* The most memory of a device that something takes, with what is in use before it: bt_memory's `used` and `peak`. */
typedef struct bt_peak {
    bt_device *device;
    size_t in_use; /* now, bytes */
    size_t peak;
} bt_peak;

/* Of computing the arrays now (and this thread's pending sets, which would be computed with them). Fills peaks[], for each device
 * that has something in use or gets something, the CPU too; *peak_count: how many fit into it, then how many there are. Runs
 * nothing, takes no device memory; what other threads take meanwhile is not foreseen. Errors: INVALID_ARGUMENT, an array's own,
 * FAILED_PRECONDITION (depends on a function's input). */
BT_API BT_MUST_USE bt_status bt_peak_all(bt_array *const *arrays, int count, bt_peak *peaks, int *peak_count);
#define bt_peak_all(...) BTI_AT_MUST(bt_peak_all(__VA_ARGS__))
/* Of one call of the function with its updates: a variable's old value stays beside its new one. Where arguments[i] is NULL,
 * shapes[i] stands for an argument that is still to be made, on the input's device, which counts in the peak (shapes may be NULL
 * when no argument is). Updates nothing. Further errors: those of bt_call. */
BT_API BT_MUST_USE bt_status bt_peak_call(bt_function *function, bt_array *const *arguments, const bt_shape *shapes,
                                          int argument_count, bt_peak *peaks, int *peak_count);
#define bt_peak_call(...) BTI_AT_MUST(bt_peak_call(__VA_ARGS__))
/* "GPU:0: 1.5 GiB, of which 1 GiB in use now", a line a device. Yours: bt_free. */
BT_API char *bt_peak_text(const bt_peak *peaks, int count);
#define bt_peak_text(...) BTI_AT(char *, bt_peak_text(__VA_ARGS__))

/* The largest batch with which one call stays within `limit` bytes on the device (NULL: on each); limit 0: the device's own limit,
 * else what is free of it; some of it (1 MiB and more) is left for what lies
 * unused between small arrays. The batch is the unknown leading size of the inputs whose arguments[i] is NULL; their other sizes must
 * be known (INVALID_ARGUMENT). *batch: 0 when not even one row fits; 2^40 when there is no bound up to there. Found by planning
 * alone, some 2 log2(batch) times; supposes that a larger batch takes no less. */
BT_API BT_MUST_USE bt_status bt_largest_batch(bt_function *function, bt_array *const *arguments, int argument_count,
                                              const bt_device *device, size_t limit, int64_t *batch);
#define bt_largest_batch(...) BTI_AT_MUST(bt_largest_batch(__VA_ARGS__))

/* --- times ---------------------------------------------------------------------------------------------------------- */

/* Seconds that fn(data) took, its work on all devices included: waits for pending work before and after. NaN on errors. */
typedef void bt_timed_fn(void *data);
BT_API double bt_time(bt_timed_fn *fn, void *data);
#define bt_time(...) BTI_AT_DOUBLE(bt_time(__VA_ARGS__))

/* Runs fn `runs` times `loops` (0: as many as make 0.2 s) loops, waits included, after one run that is not counted; the text is
 * "186 ms ± 33.1 ms per loop (mean ± std. dev. of 3 runs, 1 loop each)". Yours: bt_free. seconds (may be NULL): the mean. */
BT_API char *bt_timeit(bt_timed_fn *fn, void *data, int runs, int64_t loops, double *seconds);
#define bt_timeit(...) BTI_AT(char *, bt_timeit(__VA_ARGS__))

/* A profile: what ran between its start and its stop, on any thread. Both wait for pending work, so that it counts the work and
 * not the asking for it. Device times are those of the kernels and copies themselves; host times (planning, preparing, submitting, waiting)
 * stand apart, and waiting does not count the kernels that the waiting thread ran itself.
 *
 * NULL with the cause in the error record. Several may run at once; any thread may stop one. One that is never stopped keeps
 * recording: bounded memory (about 35 MB), what finds no room is counted and told. */
typedef struct bt_profile bt_profile;
BT_API bt_profile *bt_profile_start(void);
#define bt_profile_start(...) BTI_AT(bt_profile *, bt_profile_start(__VA_ARGS__))

/* Ends it and lets it go, in any case. *text (text may be NULL): tables of kernels (calls, total, mean, share of all kernel time,
 * bytes per second with the operation and line that asked for them), devices (busy for which share of the time), copies, and the
 * host; yours: bt_free. trace_file (may be NULL): a Chrome trace is written there, which chrome://tracing, Perfetto and
 * `berth trace FILE` open. Errors: INVALID_ARGUMENT, RESOURCE_EXHAUSTED, NOT_FOUND and UNKNOWN (the file cannot be written). */
BT_API BT_MUST_USE bt_status bt_profile_stop(bt_profile *profile, const char *trace_file, char **text);
#define bt_profile_stop(...) BTI_AT_MUST(bt_profile_stop(__VA_ARGS__))

/* Writes a page from a Chrome trace that berth recorded (bt_profile_stop, flag "trace"): one HTML file that needs nothing else.
 * DATA_LOSS when the file is not such a trace. Does not touch devices. */
BT_API BT_MUST_USE bt_status bt_trace_page(const char *trace_file, const char *html_file);
#define bt_trace_page(...) BTI_AT_MUST(bt_trace_page(__VA_ARGS__))

/* Waits until all recorded and submitted work of this thread's arrays, and all queues, are done. */
BT_API void bt_synchronize(void);
#define bt_synchronize(...) BTI_AT_VOID(bt_synchronize(__VA_ARGS__))

/* --- how kernels of the CPU are compiled --------------------------------------------------------------------------- */

/* What this process compiled so far, and what it did it with. Fill `size` by BT_COMPILER_INFO_INIT; texts are cut to fit. LLVM is
 * opened when a kernel is worth compiling and not in the disk cache; without it everything works, more slowly. */
typedef struct bt_compiler_info {
    size_t size BTI_INITIALLY(sizeof(bt_compiler_info));
    const char *vector; /* "avx512": the instructions that kernels are compiled for */
    char library[96];   /* "libLLVM-16.so.1, 16.0.6"; "" when none is open */
    char library_reason
        [1024];       /* why not: what was tried, what the loader said, what to install; "" when nothing is wrong */
    char cache[1024]; /* the folder of compiled kernels; "" when there is none */
    char cache_reason[400];   /* why it is not used, or not written to; "" when nothing is wrong */
    uint64_t open_ns;         /* what opening LLVM took */
    uint64_t trial_ns;        /* what compiling the trial's function took; 0 without a trial */
    uint64_t kernels;         /* compiled by LLVM */
    uint64_t compile_ns;      /* what that took in all, the opening left out */
    uint64_t hits, misses;    /* kernels that the cache had, and had not */
    uint64_t stores, refused; /* kernels written to it; damaged files in it, which were deleted */
    uint64_t files, bytes;    /* that the cache holds; 0 without a trial */
} bt_compiler_info;
#define BT_COMPILER_INFO_INIT BTI_INFO_INIT(bt_compiler_info)
/* `trial`: opens LLVM, compiles a small function and runs it, makes the cache's folder and tries to write there: what does not
 * work is told in the reasons. Otherwise nothing is opened. Any thread; a trial blocks for some 20 ms. INVALID_ARGUMENT: no
 * info. */
BT_API BT_MUST_USE bt_status bt_compiler(bool trial, bt_compiler_info *info);
#define bt_compiler(...) BTI_AT_MUST(bt_compiler(__VA_ARGS__))

/* --- the libraries that products are left to ------------------------------------------------------------------------- */

/* oneDNN multiplies float32 and bfloat16, OpenBLAS float64; each is opened when a product first needs it. Without them our own
 * loops do it, more slowly. Fill `size` by BT_LIBRARY_INFO_INIT; texts are cut to fit. */
typedef struct bt_library_info {
    size_t size BTI_INITIALLY(sizeof(bt_library_info));
    const char *name;  /* "oneDNN" */
    char library[160]; /* "libdnnl.so.2, 2.6.3"; "" when it is not open */
    char reason[600];  /* why not: what was tried, what the loader said, what to install; "" when nothing is wrong */
    uint64_t open_ns;  /* what opening it took */
    uint64_t kept;     /* of what is made per shape (bfloat16 products): there now, */
    uint64_t made, found, evicted; /* made so far, found again, given up for others: at most 64 are kept */
} bt_library_info;
#define BT_LIBRARY_INFO_INIT BTI_INFO_INIT(bt_library_info)
/* Library `index`, 0 to bt_library_count() - 1; OUT_OF_RANGE past that. `trial`: opens it now. Any thread; a trial blocks for some
 * milliseconds. */
BT_API int bt_library_count(void);
BT_API BT_MUST_USE bt_status bt_library_describe(int index, bool trial, bt_library_info *info);
#define bt_library_describe(...) BTI_AT_MUST(bt_library_describe(__VA_ARGS__))

/* --- the operations there are --------------------------------------------------------------------------------------- */

/* What is known of primitive `index`, 0 to bt_primitive_count() - 1; OUT_OF_RANGE past that. Everything that a plan holds is made
 * of primitives. Fill `size` by BT_PRIMITIVE_INFO_INIT; the texts are berth's and stay. Any thread; does not block. */
typedef struct bt_primitive_info {
    size_t size BTI_INITIALLY(sizeof(bt_primitive_info));
    const char *name;     /* "add" */
    const char *family;   /* "source", "elementwise", "reduce", "scan", "movement", "gather", "heavy", "effect" */
    int inputs;           /* -1: one or more */
    const char *dtypes;   /* "any", "number", "float", "bits", "any to bool", "any to int32"; "own": doc says */
    const char *gradient; /* the name of its rule; "none" */
    const char *doc;
} bt_primitive_info;
#define BT_PRIMITIVE_INFO_INIT BTI_INFO_INIT(bt_primitive_info)
BT_API int bt_primitive_count(void);
BT_API BT_MUST_USE bt_status bt_primitive_describe(int index, bt_primitive_info *info);
#define bt_primitive_describe(...) BTI_AT_MUST(bt_primitive_describe(__VA_ARGS__))

/* Public operation `index`, 0 to bt_operation_count() - 1, in alphabetical order: "bt_matmul", and in *log_name (which may be NULL)
 * what the placement log calls it, "MatMul". NULL past the last. Any thread; does not block. */
BT_API int bt_operation_count(void);
BT_API const char *bt_operation_name(int index, const char **log_name);

#ifdef __cplusplus
}
#endif
#endif
