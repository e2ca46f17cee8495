/* The runner of reference files: what its parts share. The rules are in README.md. */
#ifndef BERTH_TESTS_GOLDEN_GOLDEN_H
#define BERTH_TESTS_GOLDEN_GOLDEN_H

#include <berth.h>
#include <jansson.h>
#include <stdio.h>

typedef struct tally {
    int passed, failed, skipped;
} tally;

/* Each prints one line that begins with "FAILED" or "SKIPPED" and the case's name. */
void golden_failed(tally *t, const char *name, const char *format, ...) BT_PRINTF(3, 4);
void golden_skipped(tally *t, const char *name, const char *format, ...) BT_PRINTF(3, 4);
void golden_passed(tally *t, const char *name); /* prints with --verbose only */
/* The file cannot be used: a message, and exit code 2 at the end. Always false. */
bool golden_unusable(const char *path, const char *format, ...) BT_PRINTF(2, 3);

/* A text of Python's json module, NaN and Infinity (as texts of that name) included. NULL with the reason in `why`. */
json_t *golden_json(const char *text, size_t length, char *why, size_t why_size);

/* Whether ours agrees with theirs: dtype, shape, elements within atol + rtol * |theirs|. If not, `why` tells the first difference.
 * `label` is what the message calls it: "result". */
bool golden_agrees(const char *label, bt_array *ours, bt_array *theirs, double rtol, double atol, char *why,
                   size_t why_size);

/* Of operations one case in `every` is run; `number`, from 0, says which. */
typedef struct golden_draw {
    int every, number;
} golden_draw;

/* Of a case that asks for gradients: by which inputs, and for which gradient of the result. */
enum { GOLDEN_MAX_TENSORS = 64 };
typedef struct golden_gradient {
    int count, of[GOLDEN_MAX_TENSORS];
    bt_array *cotangent;
} golden_gradient;

/* One file each; false: golden_unusable. */
bool golden_operations(const char *path, bt_tensors *tensors, golden_draw draw, tally *t);
bool golden_training(const char *path, bt_tensors *tensors, bool mirrored, tally *t);
bool golden_printing(const char *path, const json_t *root, tally *t);

/* --- operations ------------------------------------------------------------------------------------------------------ */

enum { GOLDEN_MAX_ATTRS = 24 };

/* One call of an operation: what the case says. */
typedef struct call {
    const json_t *attrs;
    bt_array *const *in;
    int in_count;
    bt_dtype out_dtype;
    const char *asked[GOLDEN_MAX_ATTRS]; /* attributes that the mapping has looked at */
    int asked_count;
    char refusal[160]; /* why the public API cannot do it; "" when it can */
} call;

/* Makes the call. NULL: there is no such operation, or refusal says why it cannot be called so. */
bt_array *golden_call(const char *op, call *c);
bt_array *golden_random(const char *op, call *c);  /* the random_ ones of it */
bt_array *golden_complex(const char *op, call *c); /* parts of complex numbers, and Fourier transforms */
/* A complex number is a pair of reals along the last axis: [..., 2]. */
bt_array *golden_of_pairs(bt_array *pairs);
bt_array *golden_pairs_of(bt_array *numbers);
/* numbers[]: the inputs, those that `pairs` lists as complex numbers. */
bool golden_numbers_of(const json_t *pairs, bt_array *const *in, int in_count, bt_array **numbers);
/* Writes the case as a function (export.h). False with the reason. */
bool golden_export_case(const char *stem, const char *op, call *made, bt_array *const *in, int in_count,
                        const golden_gradient *gradient, bool gives_pairs, const json_t *pairs, char *why,
                        size_t why_size);
extern const char *golden_export_folder; /* NULL: nothing is exported */
/* The first attribute of the case that the mapping did not look at; NULL when there is none. */
const char *golden_unknown_attr(const call *c);

/* Attributes with their defaults. Axes: a number, a list, or null for all. */
const json_t *attr(call *c, const char *name); /* NULL when absent or null */
int64_t attr_int(call *c, const char *name, int64_t otherwise);
double attr_double(call *c, const char *name, double otherwise);
bool attr_bool(call *c, const char *name, bool otherwise);
bt_dtype attr_dtype(call *c, const char *name, bt_dtype otherwise);
bt_axes attr_axes(call *c);
bt_shape attr_shape(call *c, const char *name);
double json_double(const json_t *value);
/* The numbers of a list, or a number `capacity` times; false when absent or too many. */
bool attr_list(call *c, const char *name, int64_t *numbers, int capacity);
/* Notes that the public API cannot do this; returns NULL. */
bt_array *refuse(call *c, const char *format, ...) BT_PRINTF(2, 3);

#endif
