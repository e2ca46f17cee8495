/* What the programs of this folder have in common: each makes some usual mistakes, and writes what berth says of them to standard error. */
#ifndef BERTH_TESTS_MISTAKE_H
#define BERTH_TESTS_MISTAKE_H

#include <berth.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* Writes the error of a call; "no error" if there is none. */
#define TELL(call) (void)fprintf(stderr, "%s\n", (call) == BT_OK ? "no error" : bt_error_text())

/* What follows is a section of its own of docs/likely-mistakes.md. */
#define SECTION(name) (void)fprintf(stderr, "--- %s\n", name)

/* A small problem, and models for it. */
static inline bt_array *some_x(int64_t rows) { return bt_normal(bt_key(2), BT_F32, rows, 4); }
static inline bt_array *some_classes(int64_t rows) { return bt_randint(bt_key(3), 0, 3, BT_I32, rows); }
static inline bt_layer *some_model(int64_t width) {
    return bt_chain(bt_dense(4, width, bt_relu, bt_key(0)), bt_dense(width, 3, NULL, bt_key(1)));
}

#endif
