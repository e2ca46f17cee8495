/* Shared by the files of the fake libcusolver. */
#ifndef BERTH_TESTS_FAKES_LIBCUSOLVER_H
#define BERTH_TESTS_FAKES_LIBCUSOLVER_H

#include <complex.h>
#include <stdbool.h>

#include "drivers/cuda/cusolver.h"
#include "fakes/stream.h"

typedef enum fake_factor_kind {
    FAKE_POTRF,
    FAKE_GETRF,
    FAKE_GETRS,
    FAKE_GEQRF,
    FAKE_ORGQR,
    FAKE_SYEVD,
    FAKE_GESVD,
    FAKE_TRSM
} fake_factor_kind;

/* One call, as an operation of a stream gets it. Leading dimensions are the rows: a [m, n], of getrs b [n, columns], of trsm b [m, n] and a [n, n], of gesvd u [m, n] and v [n, n]. */
typedef struct fake_factor {
    fake_factor_kind kind;
    int device, type;             /* type: cudaDataType */
    int64_t m, n, columns, batch; /* batch 0: one matrix */
    bool lower, transposed, unit; /* of trsm */
    uint64_t a, b, u, v;
    uint64_t values;                 /* or what QR keeps */
    uint64_t a_pointers, b_pointers; /* of a batch: arrays of addresses; 0: matrices one behind the other */
    uint64_t pivots, info;           /* pivots of a batch have 32 bits */
    uint64_t workspace, workspace_bytes;
    void *host_workspace;
    size_t host_bytes;
} fake_factor;

typedef double _Complex fake_number;

/* libcusolver_text.c: the operations in double precision, of matrices by columns. What it returns is the status of the matrix (info). */
int fake_potrf(int64_t n, fake_number *a);
int fake_getrf(int64_t n, fake_number *a, int64_t *pivots);
void fake_getrs_transposed(int64_t n, int64_t columns, const fake_number *a, const int64_t *pivots, fake_number *b);
void fake_geqrf(int64_t m, int64_t n, fake_number *a, fake_number *tau);
void fake_orgqr(int64_t m, int64_t n, fake_number *a, const fake_number *tau);
void fake_syevd(int64_t n, fake_number *a, double *values);
void fake_gesvd(int64_t m, int64_t n, fake_number *a, double *values, fake_number *u, fake_number *v);
void fake_trsm_right(const fake_factor *how, const fake_number *a, fake_number *b);

void fake_run_factor(void *factor); /* libcusolver_run.c */
uint64_t fake_factor_bytes(int type);

#endif
