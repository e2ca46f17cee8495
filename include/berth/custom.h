/* berth/custom.h: the program's own code in a graph: what it prints and is told while work runs, and operations of its own.
 *
 * Functions of the program that run in a graph are called on the thread that runs the device's work: a thread of the
 * library, or one that waits for a result. They get arrays as elements in the host's memory, dense and row-major,
 * which are valid during the call. On a device whose memory is not the host's, elements are copied to the host first;
 * the call that submits the work does not wait for that.
 *
 * Inside of such a function no call may wait for work or submit any, as the device goes on when the function has returned.
 * Calls that read, compute, make or set elements, that plan, measure or end something (bt_read, bt_eval, bt_block, bt_map,
 * bt_from, bt_write, bt_shared_new, bt_set, bt_call of a function with updates, bt_optimizer_step, bt_explain, bt_peak_all,
 * bt_memory_trim, bt_time, bt_profile_start, bt_synchronize, bt_shutdown...) fail with FAILED_PRECONDITION at once, on
 * every thread, and change nothing; those without a status leave it in the error record. Where the elements of an array
 * are there already, bt_read may give them. Recording is fine, and so is asking about arrays: operations, gradients,
 * loops and calls of functions without updates are recorded, and run when a call outside of the function computes them.
 * To set a variable by what a function is told, keep that (in `data`) and set it after bt_synchronize, or make it the
 * result of an operation (bt_custom_call) and list it with the updates of the function that is called.
 */
#ifndef BERTH_CUSTOM_H
#define BERTH_CUSTOM_H

#include <berth/array.h>

#ifdef __cplusplus
extern "C" {
#endif

/* An array as such a function gets it. NULL data: no elements. */
typedef struct bt_elements {
    void *data; /* [shape], row-major; inputs must not be written */
    bt_dtype dtype;
    bt_shape shape;
} bt_elements;

/* --- printing and callbacks ------------------------------------------------------------------------------------------ */

/* Both return x: the same elements, and the way by which the call becomes a part of the graph. What is computed from the
 * result, or the result itself when it is computed, brings the call about; one whose result is not used has no effect.
 * So write `h = bt_debug_print("h = {}", h);`, in a function or outside.
 *
 * The call happens once each time that the value is computed: in each run of a function; not when a gradient computes
 * operations again (bt_checkpoint, or the history of a function's result), so where nothing but the gradient through a checkpoint block is asked for there is no call. Calls on one device happen in the order of
 * recording, on a thread of the library at the latest; bt_synchronize waits for them. If the computation of x fails, there is no call. No result changes by a bit, and gradients pass. Any shape
 * and dtype; symbolic sizes too. What the function may call: see above. In bt_vmap the call is told all values of the batch, stacked along a first axis. Recording does not block. */

/* Prints the line `format`, in which the elements (as bt_to_text gives them) stand for each `{}`, to standard error, or
 * appends it to the file that the flag `debug_file` names. The format is copied. INVALID_ARGUMENT: it is NULL. */
BT_API bt_array *bt_debug_print(const char *format, bt_array *x);
#define bt_debug_print(...) BTI_AT(bt_array *, bt_debug_print(__VA_ARGS__))

/* Calls fn(elements of x, data). `data` must live as long as x's result and the functions that it is a part of, and until
 * their work is done (bt_synchronize). INVALID_ARGUMENT: fn is NULL. */
typedef void bt_debug_fn(const bt_elements *value, void *data);
BT_API bt_array *bt_debug_callback(bt_debug_fn *fn, void *data, bt_array *x);
#define bt_debug_callback(...) BTI_AT(bt_array *, bt_debug_callback(__VA_ARGS__))

/* --- the program's own operations -------------------------------------------------------------------------------------- */

/* An operation that code of the program's computes: one result or several of one or more inputs. Calls of it are recorded as those of any
 * operation: lazily, in functions, loops and branches; equal calls (of one operation, with equal inputs and attributes) are computed once. On a device that
 * takes texts in C (GPUs of NVIDIA's, OpenCL) a kernel of the program's runs, if there is a text for it; on every other device, and without a text, a C
 * function, on the host. Errors, logs and profiles call it by its name. Two operations may have the same name. The guide is docs/own-operations.md. */
typedef struct bt_custom bt_custom;

#define BT_MAX_CUSTOM_ATTRIBUTES 16
#define BT_MAX_CUSTOM_RESULTS 16

/* What each function of an operation is told besides arrays. Valid during the call. Where a function gets `outputs`, they are as many as the
 * options say: of an operation with one result outputs[0] alone, or *outputs. */
typedef struct bt_custom_args {
    const int64_t *attributes; /* as bt_custom_call was given them */
    int attribute_count;
    void *data; /* of the options */
} bt_custom_args;

/* Computes outputs[i].data, whose dtype and shape the shape rule gave, from the inputs, which it must not write; of a bool output any byte but 0
 * becomes 1. It must give equal results for equal inputs and attributes, unless the operation is `impure`. Not called when no output has elements.
 * Another status than BT_OK poisons the results. May be called by several threads at once, for devices of their own. */
typedef bt_status bt_custom_run_fn(const bt_elements *inputs, int count, const bt_elements *outputs,
                                   const bt_custom_args *args);

/* Says in outputs[i].dtype and outputs[i].shape what comes of such inputs, or refuses them with a status; each holds those of the first input
 * when it is called. No data. In functions sizes may be unknown: such a size is a negative number that stands for it, and can only be passed on,
 * as it is, as a size of an output. A call of the function asks again, with its sizes. It must give equal answers to equal questions and must not
 * call the library. */
typedef bt_status bt_custom_shape_fn(const bt_elements *inputs, int count, bt_elements *outputs,
                                     const bt_custom_args *args);

/* The groups of threads of a kernel: `groups` of `threads` each, numbered along one axis. */
typedef struct bt_custom_grid {
    int64_t groups; /* 1 to 2^31 - 1 */
    int threads;    /* 1 to what the device takes for that kernel; 256 everywhere that it may use so many */
} bt_custom_grid;

/* Sets the grid of the kernel for such operands, all sizes of which are known; it holds one thread per element of outputs[0], in groups of 256, when it
 * is called. No data. Another status than BT_OK refuses. Asked when work is made ready, not for each launch; it must not call the library. */
typedef bt_status bt_custom_grid_fn(const bt_elements *inputs, int count, const bt_elements *outputs,
                                    bt_custom_grid *grid, const bt_custom_args *args);

/* The following record with berth's operations, as the body of a loop does: what they make is released when they return but for what they
 * hand back. Inputs may be symbolic.
 *
 * Sets gradients[i] to the gradient of inputs[i], of its shape, given those of the outputs (NULL: zero; not all of them are); NULL (as before the call):
 * zero. Those of integer inputs are ignored. */
typedef void bt_custom_gradient_fn(bt_array *const *inputs, int count, bt_array *const *outputs,
                                   bt_array *const *cotangents, bt_array **gradients, const bt_custom_args *args);
/* Forward: sets made[i] to the derivative of outputs[i] in the direction in which inputs[k] changes by tangents[k] (NULL: not at all; not all of them
 * are); NULL (as before the call): zero. Those of integer outputs are ignored. */
typedef void bt_custom_tangent_fn(bt_array *const *inputs, int count, bt_array *const *outputs,
                                  bt_array *const *tangents, bt_array **made, const bt_custom_args *args);
/* Sets outputs[] to those of a batch, stacked along a new first axis; so are the inputs i for which batched[i]. The others are the same for all. */
typedef void bt_custom_batch_fn(bt_array *const *inputs, const bool *batched, int count, bt_array **outputs,
                                const bt_custom_args *args);

typedef struct bt_custom_options {
    size_t size BTI_INITIALLY(sizeof(bt_custom_options));
    const char *name BTI_INITIALLY(NULL); /* needed: 1 to 63 letters, digits and _ . : - ; copied */
    bt_custom_run_fn *
        run BTI_INITIALLY(NULL); /* needed unless there is a kernel: calls on other devices are UNIMPLEMENTED then */
    bt_custom_shape_fn *shape BTI_INITIALLY(NULL);       /* needed */
    int results BTI_INITIALLY(0);                        /* [0: one] 1 to BT_MAX_CUSTOM_RESULTS */
    bt_custom_gradient_fn *gradient BTI_INITIALLY(NULL); /* [gradients through it are UNIMPLEMENTED] */
    bt_custom_tangent_fn *tangent BTI_INITIALLY(NULL);   /* [forward derivatives through it are UNIMPLEMENTED] */
    bt_custom_batch_fn *batch BTI_INITIALLY(NULL);       /* [bt_vmap calls it for each row: a bt_scan] */
    void *data BTI_INITIALLY(NULL);
    /* [nothing] called once with `data`, when the operation and all that calls of it are a part of are gone, or at once if it cannot be made:
     * from any thread, so that it must not call the library. */
    void (*release)(void *data) BTI_INITIALLY(NULL);
    bool impure BTI_INITIALLY(false); /* [false] equal calls are computed apart; a call may still be computed
        again for a gradient (bt_checkpoint) */
    /* A kernel as text, in CUDA C and in OpenCL C [no kernel]; one text in the words that both have may be given as both. KERNEL(entry) begins it:
     *     KERNEL(scale) {
     *         if (INDEX < OUTPUT_COUNT(0)) OUTPUT(0)[INDEX] = INPUT(0)[INDEX] * ATTRIBUTE(0);
     *     }
     * Texts are copied, compiled when the work is made ready (INVALID_ARGUMENT with the compiler's words), and cached as berth's own are. A kernel computes
     * all outputs, in the order of the device's work; it must not write inputs, and store 0 or 1 as bools. Not run when no output has elements. */
    const char *cuda BTI_INITIALLY(NULL);
    const char *opencl BTI_INITIALLY(NULL);
    const char *entry BTI_INITIALLY(NULL);       /* [name] the kernel's: a C identifier of up to 63 letters; copied */
    bt_custom_grid_fn *grid BTI_INITIALLY(NULL); /* [one thread per element of outputs[0], in groups of 256] */
} bt_custom_options;
#define BT_CUSTOM(...) BTI_OPTIONS(bt_custom_options, __VA_ARGS__)

/* An operation: `bt_custom_new(BT_CUSTOM(.name = "norm", .run = norm, .shape = norm_shape))`. It belongs to the innermost scope; recorded calls
 * need it no longer. One that cannot be made (INVALID_ARGUMENT: no or a bad name or entry, no shape function, neither a run function nor a kernel, a wrong number of results) is poisoned: its calls are, and
 * bt_custom_status says why. Any thread; does not block. */
BT_API bt_custom *bt_custom_new(const bt_custom_options *options);
#define bt_custom_new(...) BTI_AT(bt_custom *, bt_custom_new(__VA_ARGS__))
BT_API bt_custom *bt_custom_retain(bt_custom *op);
#define bt_custom_retain(...) BTI_AT(bt_custom *, bt_custom_retain(__VA_ARGS__))
BT_API void bt_custom_release(bt_custom *op); /* NULL is accepted */
#define bt_custom_release(...) BTI_AT_VOID(bt_custom_release(__VA_ARGS__))
BT_API bt_status bt_custom_status(const bt_custom *op);
#define bt_custom_status(...) BTI_AT_STATUS(bt_custom_status(__VA_ARGS__))

/* Records a call of an operation with one result, of 1 or more inputs (any shapes and dtypes) and up to BT_MAX_CUSTOM_ATTRIBUTES numbers (copied), that
 * are known when it is recorded; a kernel can be given 64 arrays. The result lies where that of another operation of the inputs would. Any thread; does not block. INVALID_ARGUMENT: the
 * operation is NULL, released or poisoned, an input is, a count is wrong, or the shape rule gives what no array can be. UNIMPLEMENTED: the device can run
 * neither a kernel nor a C function of it. What the shape rule refuses has its status. */
BT_API bt_array *bt_custom_call(bt_custom *op, bt_array *const *inputs, int count, const int64_t *attributes,
                                int attribute_count);
#define bt_custom_call(...) BTI_AT(bt_array *, bt_custom_call(__VA_ARGS__))
/* bt_custom_call with any number of results: sets results[], arrays of the innermost scope, as many as the operation has. On an error they are
 * poisoned and the status is the error; INVALID_ARGUMENT also if result_count is another number, or results is NULL. */
BT_API bt_status bt_custom_call_all(bt_custom *op, bt_array *const *inputs, int count, const int64_t *attributes,
                                    int attribute_count, bt_array **results, int result_count);
#define bt_custom_call_all(...) BTI_AT_STATUS(bt_custom_call_all(__VA_ARGS__))

#ifdef __cplusplus
}
#endif
#endif
