/* berth/control.h: loops and branches that are operations.
 *
 * A body is a C function that records. It is called once (again where a number, bt_num(0), is carried: see below), with arrays that stand for what each step is going to be given; the loop is one
 * operation of the graph, and its memory does not grow with the number of steps unless rows or gradients are asked for. A body may read any array from
 * outside (a weight, a constant): it is given to every step as it is, and gradients reach it. A body cannot read elements (bt_read) of what
 * it was given, nor set shared variables by that; a bt_set of a value that does not depend on it happens once, when the body is recorded, and not in each step. A function that is
 * made in a body takes what the body is given as arguments: one whose outputs read it otherwise is INVALID_ARGUMENT. All of a body's operations run on the device of the loop. Scopes: what a body makes is released when it returns, but for
 * what it hands back.
 *
 * Numbers take part as in any operation: bt_num(0) as what is carried first, as an argument or as a result has no dtype of its own. If a body hands
 * back another floating dtype for it, as the sum of a number and float32 is, that is its dtype, and the body is called again with it, until all dtypes
 * are settled; a number that stays one is float64, also where an integer is handed back for it, which is an error: carry bt_i32(0) there. Of two branches one of which gives a number, the other says the dtype.
 *
 * All are lazy and asynchronous like any operation, differentiable, backward and forward, and may be nested in each other, in functions
 * (function.h) and in batches (transform.h). On an error (a NULL, a poisoned array, a body that hands back another shape) the results are
 * poisoned and the status is the error. Any thread may call them.
 */
#ifndef BERTH_CONTROL_H
#define BERTH_CONTROL_H

#include <berth/array.h>

#ifdef __cplusplus
extern "C" {
#endif

/* One step of a scan. carry[] holds what the step before made, and is given what the next one gets, of the same shapes and dtypes. x[i] is
 * a row of xs[i], without its first axis. y[] is filled with the rows of the results. */
typedef void bt_scan_fn(bt_array **carry, bt_array *const *x, bt_array **y, void *data);

#define BT_ALL_ROWS (-1)

/* Calls `body` as often as `length` says: for each row of xs, from the first to the last, which all have so many rows. BT_ALL_ROWS: as many as
 * xs[0] has. carry[] (any shapes and dtypes) holds the first step's, and afterwards what the last one left. ys[j] is an array of the innermost scope: all rows
 * y[j] behind each other along a new first axis. carry, xs or ys may be NULL when their count is 0.
 * What the body hands back as it got it costs as much as an array that it reads from outside.
 * What is carried is written over where a step reads it for the last time as it makes it anew, element for element or by bt_update_slice or bt_scatter_add, which then
 * write the part that they change alone. What a step reads later, or in another order, is kept in two places by turns.
 *
 * A gradient runs the steps backwards. What it needs of each step is stored by the forward run if both are pending at that time; simple arithmetic is done
 * again instead of stored. Of scans in scans each step is computed once more, whatever the depth; bt_checkpoint in a body takes less memory for more time. */
BT_API bt_status bt_scan(bt_scan_fn *body, void *data, int64_t length, bt_array **carry, int carry_count,
                         bt_array *const *xs, int x_count, bt_array **ys, int y_count);
#define bt_scan(...) BTI_AT_STATUS(bt_scan(__VA_ARGS__))
/* bt_scan from the last row to the first; rows of ys stand where those of xs stood. */
BT_API bt_status bt_scan_reverse(bt_scan_fn *body, void *data, int64_t length, bt_array **carry, int carry_count,
                                 bt_array *const *xs, int x_count, bt_array **ys, int y_count);
#define bt_scan_reverse(...) BTI_AT_STATUS(bt_scan_reverse(__VA_ARGS__))

/* Whether a loop goes on: a bool scalar. */
typedef bt_array *bt_while_test_fn(bt_array *const *carry, void *data);
/* One step of it: carry[] is given the next one's. */
typedef void bt_while_body_fn(bt_array **carry, void *data);

/* While `test` gives true, `body`; at most `most_steps` times (0: any number). The run waits for the device once per step, to read the test. A gradient
 * needs most_steps (else FAILED_PRECONDITION): it runs the loop as a scan of so many steps, of which those after the end do nothing. */
BT_API bt_status bt_while(bt_while_test_fn *test, bt_while_body_fn *body, void *data, int64_t most_steps,
                          bt_array **carry, int carry_count);
#define bt_while(...) BTI_AT_STATUS(bt_while(__VA_ARGS__))

/* One of two ways: fills results[] from args[]. */
typedef void bt_branch_fn(bt_array *const *args, bt_array **results, void *data);

/* results[] are those of `yes` where `predicate` (a bool scalar) is true, else those of `no`, which have the same shapes and dtypes. Only one
 * of the two runs; bt_where computes both and chooses by element. The run waits for the device once. */
BT_API bt_status bt_cond(bt_array *predicate, bt_branch_fn *yes, bt_branch_fn *no, void *data, bt_array *const *args,
                         int arg_count, bt_array **results, int result_count);
#define bt_cond(...) BTI_AT_STATUS(bt_cond(__VA_ARGS__))

#ifdef __cplusplus
}
#endif
#endif
