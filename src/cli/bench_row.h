/* A row of `berth bench`: one kind of work that is measured. bench/README.md describes the rows; bench/peers.py measures the same work
 * with other libraries. */
#ifndef BTI_CLI_BENCH_ROW_H
#define BTI_CLI_BENCH_ROW_H

#include <berth.h>

enum { BENCH_INPUTS = 5, BENCH_PARAMETERS = 52 };

/* The devices that rows run on, and how large the rows are. */
typedef struct bench_target {
    const char *device;
    const char *mixed[2]; /* of random100m_mixed: the device of the outer parts, and of the middle */
    int shrink;           /* large rows are divided by this; 1: full size */
    bool is_virtual;      /* a simulated card: times are those of its model */
} bench_target;

/* What a row keeps between repetitions. Arrays, functions and variables belong to the scope around the row. */
typedef struct bench_work {
    const bench_target *target;
    bt_array *inputs[BENCH_INPUTS];
    bt_function *function;
    bt_shared *parameters[BENCH_PARAMETERS];
    float *host;        /* memory of the host; `finish` frees it */
    void *reader;       /* of a text, the same */
    int64_t repetition; /* counts up; rows whose work must be new each time derive it from this number */
} bench_work;

typedef struct bench_row {
    const char *name, *does;
    /* Makes the inputs, before the clock starts. False with the cause in the error record; NULL: nothing to make. */
    bool (*prepare)(bench_work *work);
    /* One repetition: the array to wait for; may be poisoned. */
    bt_array *(*run)(bench_work *work);
    /* The result that is compared with other libraries; NULL: the array that `run` returned. */
    bt_array *(*check)(bench_work *work);
    /* Frees what does not belong to the scope around the row, also if `prepare` failed; NULL: nothing. */
    void (*finish)(bench_work *work);
    double bytes; /* the least that a repetition reads and writes in memory; 0: not a measure of this row */
    double flops; /* of one step; 0: not a measure of this row */
    int steps;    /* in a repetition, whose time is divided by it; 0: one */
    /* For large rows: bytes and flops are divided by shrink to this power, and a sample of the result is compared. 0: not large. */
    int shrinks;
} bench_row;

#endif
