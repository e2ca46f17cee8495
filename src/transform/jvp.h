/* What the derivatives of this folder share. */
#ifndef BTI_TRANSFORM_JVP_H
#define BTI_TRANSFORM_JVP_H

#include "array/handle.h"

/* Writes poison with the thread's error to all results of a public call; returns the status. */
bt_status bti_poison_results(bti_public *call, bt_status status, int count, bt_array **results);
/* INVALID_ARGUMENT unless it is a floating-point array; `name` for errors. */
bt_status bti_check_float(const bt_array *x, const char *name);
/* Whether tangents are there for so many floating-point arrays, of their shapes and where they can be; both are named in errors. */
bt_status bti_check_tangents(bt_array *const *tangents, const char *name, bt_array *const *xs, const char *of_name,
                             int count);

#endif
