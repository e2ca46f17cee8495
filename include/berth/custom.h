/* berth/custom.h: the program's own code in a graph: what it prints and is told while work runs.
 *
 * Functions of the program that run in a graph are called on the thread that runs the device's work: a thread of the
 * library, or one that waits for a result. They get arrays as elements in the host's memory, dense and row-major,
 * which are valid during the call. On a device whose memory is not the host's, elements are copied to the host first;
 * the call that submits the work does not wait for that.
 *
 * Inside of such a function no call may wait for work: those that would (bt_read, bt_eval, bt_block, bt_map, bt_from,
 * bt_write) fail with FAILED_PRECONDITION, bt_synchronize does nothing. Asking about arrays is fine.
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
 * operations again (bt_checkpoint, or the history of a function's result). Calls on one device happen in the order of
 * recording, on a thread of the library at the latest; bt_synchronize waits for them. If the computation of x fails, there is no call. No result changes by a bit, and gradients pass. Any shape
 * and dtype; symbolic sizes too. In bt_vmap the call is told all values of the batch, stacked along a first axis. Recording does not block. */

/* Prints the line `format`, in which the elements (as bt_to_text gives them) stand for each `{}`, to standard error, or
 * appends it to the file that the flag `debug_file` names. The format is copied. INVALID_ARGUMENT: it is NULL. */
BT_API bt_array *bt_debug_print(const char *format, bt_array *x);
#define bt_debug_print(...) BTI_AT(bt_array *, bt_debug_print(__VA_ARGS__))

/* Calls fn(elements of x, data). `data` must live as long as x's result and the functions that it is a part of, and until
 * their work is done (bt_synchronize). INVALID_ARGUMENT: fn is NULL. */
typedef void bt_debug_fn(const bt_elements *value, void *data);
BT_API bt_array *bt_debug_callback(bt_debug_fn *fn, void *data, bt_array *x);
#define bt_debug_callback(...) BTI_AT(bt_array *, bt_debug_callback(__VA_ARGS__))

#ifdef __cplusplus
}
#endif
#endif
