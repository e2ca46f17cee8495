/* Rows of two arrays, as training and judging take them. */
#ifndef BTI_TRAIN_ROWS_H
#define BTI_TRAIN_ROWS_H

#include <berth/data.h>

/* INVALID_ARGUMENT: NULL, not as many rows, none; a poisoned array: its first cause. what: "" or "validation ". */
bt_status bti_rows_check(const char *what, bt_array *x, bt_array *y);
/* A loader of them, of the innermost scope; key NULL: in their own order. */
bt_loader *bti_rows_loader(bt_array *x, bt_array *y, int64_t batch, const uint32_t *key);

#endif
