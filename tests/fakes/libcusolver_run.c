/* The work of the fake cuSOLVER and cuBLAS: elements of device memory become numbers of double precision and back. What the documentation leaves open is spoilt: workspaces, halves that are not read, the
 * matrix of which singular values are made, factors of matrices without a result. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "fakes/findings.h"
#include "fakes/libcuda.h"
#include "fakes/libcusolver.h"
#include "fakes/memory.h"

#define POISON 0xa5

typedef fake_number number;

static bool is_wide(int type) { return type == CUDA_R_64F || type == CUDA_C_64F; }
static bool is_complex(int type) { return type == CUDA_C_32F || type == CUDA_C_64F; }

static double part_at(bool wide, const void *memory, int64_t i) {
    return wide ? ((const double *)memory)[i] : (double)((const float *)memory)[i];
}
static void store_part(bool wide, void *memory, int64_t i, double x) {
    if (wide)
        ((double *)memory)[i] = x;
    else
        ((float *)memory)[i] = (float)x;
}

/* NULL after a finding. */
static number *load(int type, uint64_t address, int64_t count) {
    const void *memory = fake_read_memory(address, (uint64_t)count * fake_factor_bytes(type));
    number *numbers = memory ? malloc((size_t)count * sizeof *numbers) : NULL;
    int64_t parts = is_complex(type) ? 2 : 1;
    for (int64_t i = 0; i < count && numbers; i++)
        numbers[i] = CMPLX(part_at(is_wide(type), memory, i * parts),
                           parts == 2 ? part_at(is_wide(type), memory, i * parts + 1) : 0);
    return numbers;
}

static void store(int type, uint64_t address, int64_t count, const number *numbers) {
    void *memory = fake_write_memory(address, (uint64_t)count * fake_factor_bytes(type));
    int64_t parts = is_complex(type) ? 2 : 1;
    for (int64_t i = 0; i < count && memory; i++) {
        store_part(is_wide(type), memory, i * parts, creal(numbers[i]));
        if (parts == 2) store_part(is_wide(type), memory, i * parts + 1, cimag(numbers[i]));
    }
}

static void store_values(int type, uint64_t address, int64_t count, const double *values) {
    void *memory = fake_write_memory(address, (uint64_t)count * (is_wide(type) ? 8 : 4));
    for (int64_t i = 0; i < count && memory; i++) store_part(is_wide(type), memory, i, values[i]);
}

static void spoil(uint64_t address, uint64_t bytes) {
    void *memory = bytes ? fake_write_memory(address, bytes) : NULL;
    if (memory) memset(memory, POISON, bytes);
}

static void *room(int64_t count, size_t bytes) {
    void *made = calloc((size_t)count, bytes);
    if (!made) abort();
    return made;
}

/* Of matrices that are not finite the library may never end. */
static bool is_finite(const fake_factor *f, const number *a) {
    bool finite = true;
    for (int64_t i = 0; i < f->m * f->n; i++) finite = finite && isfinite(creal(a[i])) && isfinite(cimag(a[i]));
    if (!finite) fake_find(f->device, FAKE_LAUNCH_FAILED, "cuSOLVER got elements that are not finite");
    return finite;
}

static int run_eigenvalues(const fake_factor *f, number *a) {
    double *values = room(f->n, sizeof *values);
    if (is_finite(f, a)) fake_syevd(f->n, a, values);
    store_values(f->type, f->values, f->n, values);
    free(values);
    return 0;
}

static int run_singular_values(const fake_factor *f, number *a) {
    double *values = room(f->n, sizeof *values);
    number *u = room(f->m * f->n, sizeof *u), *v = room(f->n * f->n, sizeof *v);
    if (is_finite(f, a)) fake_gesvd(f->m, f->n, a, values, u, v);
    store_values(f->type, f->values, f->n, values);
    store(f->type, f->u, f->m * f->n, u);
    store(f->type, f->v, f->n * f->n, v);
    memset(a, POISON, (size_t)(f->m * f->n) * sizeof *a);
    free(values), free(u), free(v);
    return 0;
}

static int run_cholesky(const fake_factor *f, number *a) {
    int info = fake_potrf(f->n, a);
    for (int64_t j = 0; j < f->n; j++)
        for (int64_t i = info ? 0 : j + 1; i < f->n; i++) a[i + j * f->n] = 1e30;
    return info;
}

static int run_lu(const fake_factor *f, number *a) {
    int64_t *made = room(f->n, sizeof *made);
    int info = fake_getrf(f->n, a, made);
    void *pivots = fake_write_memory(f->pivots, (uint64_t)f->n * (f->batch ? sizeof(int) : sizeof *made));
    for (int64_t i = 0; i < f->n && pivots; i++) {
        if (f->batch)
            ((int *)pivots)[i] = (int)made[i];
        else
            ((int64_t *)pivots)[i] = made[i];
    }
    free(made);
    return info;
}

static int run_solve(const fake_factor *f, const number *a) {
    int64_t count = f->n * f->columns;
    int64_t *pivots = room(f->n, sizeof *pivots);
    const void *given = fake_read_memory(f->pivots, (uint64_t)f->n * (f->batch ? sizeof(int) : sizeof *pivots));
    for (int64_t i = 0; i < f->n && given; i++)
        pivots[i] = f->batch ? ((const int *)given)[i] : ((const int64_t *)given)[i];
    number *b = given ? load(f->type, f->b, count) : NULL;
    if (b) fake_getrs_transposed(f->n, f->columns, a, pivots, b), store(f->type, f->b, count, b);
    free(b), free(pivots);
    return 0;
}

static int run_reflections(const fake_factor *f, number *a) {
    int64_t k = f->m < f->n ? f->m : f->n;
    number *tau = f->kind == FAKE_ORGQR ? load(f->type, f->values, k) : room(k, sizeof *tau);
    if (tau && f->kind == FAKE_ORGQR) fake_orgqr(f->m, f->n, a, tau);
    if (tau && f->kind == FAKE_GEQRF) fake_geqrf(f->m, f->n, a, tau), store(f->type, f->values, k, tau);
    free(tau);
    return 0;
}

static int run_triangle(const fake_factor *f, const number *a) {
    number *b = load(f->type, f->b, f->m * f->n);
    if (b) fake_trsm_right(f, a, b), store(f->type, f->b, f->m * f->n, b);
    free(b);
    return 0;
}

static int run_one(const fake_factor *f, number *a) {
    switch (f->kind) {
    case FAKE_POTRF: return run_cholesky(f, a);
    case FAKE_GETRF: return run_lu(f, a);
    case FAKE_GETRS: return run_solve(f, a);
    case FAKE_SYEVD: return run_eigenvalues(f, a);
    case FAKE_GESVD: return run_singular_values(f, a);
    case FAKE_TRSM: return run_triangle(f, a);
    default: return run_reflections(f, a);
    }
}

static void run_matrix(const fake_factor *f) {
    int64_t count = f->kind == FAKE_TRSM ? f->n * f->n : f->m * f->n;
    bool reads_only = f->kind == FAKE_TRSM || f->kind == FAKE_GETRS;

    fake_note_product((uint64_t)(count * f->n), (uint64_t)count * fake_factor_bytes(f->type),
                      is_wide(f->type) ? "f64" : "f32");
    number *a = load(f->type, f->a, count);
    int info = a ? run_one(f, a) : 0;
    if (a && !reads_only) store(f->type, f->a, count, a);
    int *told = f->info ? fake_write_memory(f->info, sizeof *told) : NULL;
    if (told) *told = info;
    free(a);
}

/* A matrix of a batch. */
static bool find_matrix(const fake_factor *f, int64_t i, fake_factor *one) {
    const uint64_t *a = f->a_pointers ? fake_read_memory(f->a_pointers, (uint64_t)f->batch * sizeof *a) : NULL;
    const uint64_t *b = f->b_pointers ? fake_read_memory(f->b_pointers, (uint64_t)f->batch * sizeof *b) : NULL;
    uint64_t bytes = fake_factor_bytes(f->type), n = (uint64_t)f->n, at = (uint64_t)i;
    if ((f->a_pointers && !a) || (f->b_pointers && !b)) return false;
    *one = *f;
    one->a = a ? a[i] : f->a + at * n * n * bytes;
    if (b) one->b = b[i];
    if (f->values) one->values += at * n * (is_wide(f->type) ? 8 : 4);
    if (f->pivots) one->pivots += at * n * sizeof(int);
    if (f->info) one->info += at * sizeof(int);
    return true;
}

void fake_run_factor(void *data) {
    const fake_factor *f = data;
    fake_factor one;
    spoil(f->workspace, f->workspace_bytes);
    if (f->host_bytes) memset(f->host_workspace, POISON, f->host_bytes);
    if (!f->batch) run_matrix(f);
    for (int64_t i = 0; i < f->batch && find_matrix(f, i, &one); i++) run_matrix(&one);
    fake_log("factor %d %lld %lld", f->kind, (long long)f->m, (long long)f->n);
}
