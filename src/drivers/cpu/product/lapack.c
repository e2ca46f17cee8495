#include "drivers/cpu/product/lapack.h"

#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/libraries.h"
#include "drivers/cpu/product/openblas.h"
#include "ir/dtype.h"

enum {
    ROW_MAJOR = 101,
    PLAIN = 111,
    TRANSPOSED = 112,
    UPPER = 121,
    LOWER = 122,
    NOT_UNIT = 131,
    UNIT = 132,
    LEFT = 141
};

#define ENTRIES_OF(ENTRY, p, type)                                                                                   \
    ENTRY(void, p##potrf_, (const char *half, const int *n, type *a, const int *lda, int *info, size_t length))      \
    ENTRY(void, p##getrf_, (const int *m, const int *n, type *a, const int *lda, int *pivots, int *info))            \
    ENTRY(void, p##getrs_,                                                                                           \
          (const char *trans, const int *n, const int *m, const type *a, const int *lda, const int *pivots, type *b, \
           const int *ldb, int *info, size_t length))                                                                \
    ENTRY(void, p##geqrf_,                                                                                           \
          (const int *m, const int *n, type *a, const int *lda, type *tau, type *work, const int *most, int *info))  \
    ENTRY(void, p##orgqr_,                                                                                           \
          (const int *m, const int *n, const int *k, type *a, const int *lda, const type *tau, type *work,           \
           const int *most, int *info))                                                                              \
    ENTRY(void, p##syevd_,                                                                                           \
          (const char *what, const char *half, const int *n, type *a, const int *lda, type *values, type *work,      \
           const int *most, int *whole, const int *most_whole, int *info, size_t length, size_t other))              \
    ENTRY(void, p##gesdd_,                                                                                           \
          (const char *what, const int *m, const int *n, type *a, const int *lda, type *values, type *u,             \
           const int *ldu, type *v, const int *ldv, type *work, const int *most, int *whole, int *info,              \
           size_t length))                                                                                           \
    ENTRY(void, cblas_##p##trsm,                                                                                     \
          (int order, int side, int half, int trans, int unit, int m, int n, type alpha, const type *a, int lda,     \
           type *b, int ldb))
#define LAPACK_ENTRIES(ENTRY) ENTRIES_OF(ENTRY, s, float) ENTRIES_OF(ENTRY, d, double)

#define FIELD(result, name, arguments) result(*name) arguments;
static struct { LAPACK_ENTRIES(FIELD) } lapack;

static bool resolve_lapack(void *handle, bti_library_state *now, bti_str *reason) {
#define NAME(result, name, arguments) {#name, (void **)&lapack.name},
    static const bti_library_symbol symbols[] = {LAPACK_ENTRIES(NAME)};
    const char *missing = BTI_LIBRARY_RESOLVE(handle, symbols);
    if (missing) bti_str_addf(reason, "%s: has no %s; ", now->library, missing);
    return !missing;
}

static bti_product_library lapack_library = {
    bti_openblas_names, resolve_lapack, "install OpenBLAS (on Debian the package libopenblas0-openmp)", 0, {0}};

#define T float
#define OF(name) name##_f32
#define CALL(name) lapack.s##name
#define CALL_CBLAS(name) lapack.cblas_s##name
#include "drivers/cpu/product/lapack_type.h"
#undef T
#undef OF
#undef CALL
#undef CALL_CBLAS
#define T double
#define OF(name) name##_f64
#define CALL(name) lapack.d##name
#define CALL_CBLAS(name) lapack.cblas_d##name
#include "drivers/cpu/product/lapack_type.h"

/* --- around calls --------------------------------------------------------------------------------------------------- */

/* A visit of the library by one operation, and memory for it. */
typedef struct visit {
    bti_guest guest;
    int threads;
    size_t bytes; /* of an element */
    char *room;
    int *whole;
} visit;

static bt_status begin_visit(visit *v, bti_lapack_shape s, int64_t elements, int64_t integers) {
    static bti_library_calls calls;
    size_t bytes;
    *v = (visit){.bytes = bt_dtype_size(s.dtype)};
    if (s.m > INT32_MAX / 2 || s.n > INT32_MAX / 2)
        return bti_fail(BT_INVALID_ARGUMENT, "matrices of %lld x %lld are too large", (long long)s.m, (long long)s.n);
    bool open = bti_openblas_available();
    if (!open || !bti_product_library_open(&lapack_library)) {
        bti_library_state state;
        if (open)
            bti_product_library_state(&lapack_library, &state);
        else
            bti_openblas_state(&state);
        return bti_fail(BT_UNIMPLEMENTED, "needs LAPACK, which is in OpenBLAS: %s", state.reason);
    }
    if (!bti_mul_size((size_t)elements, v->bytes, &bytes) || !(v->room = bti_alloc(bytes + 1)) ||
        !(v->whole = bti_alloc(((size_t)integers + 1) * sizeof *v->whole))) {
        bti_free(v->room);
        return bti_no_memory();
    }
    bt_status status = BT_OK;
    if (!bti_library_visit(&calls, &v->guest))
        status = bti_fail(BT_CANCELLED, "the process is ending");
    else if ((status = bti_openblas_begin(&v->threads)) != BT_OK)
        bti_library_part(&v->guest);
    if (status == BT_OK) return BT_OK;
    bti_free(v->room), bti_free(v->whole);
    return status;
}

static void end_visit(visit *v) {
    bti_openblas_end(v->threads);
    bti_library_part(&v->guest);
    bti_free(v->room);
    bti_free(v->whole);
}

static void fill_nan(bt_dtype dtype, void *x, int64_t count) {
    for (int64_t i = 0; i < count; i++) {
        if (dtype == BT_F64)
            ((double *)x)[i] = (double)NAN;
        else
            ((float *)x)[i] = NAN;
    }
}

#define BY_TYPE(s, call) ((s).dtype == BT_F64 ? (call(f64, double)) : (call(f32, float)))

/* --- operations ------------------------------------------------------------------------------------------------------ */

bt_status bti_lapack_cholesky(bti_lapack_shape s, const void *a, void *l) {
    visit v;
    int64_t each = s.n * s.n;
    BTI_TRY(begin_visit(&v, s, 0, 0));
    memcpy(l, a, (size_t)(s.batch * each) * v.bytes);
    for (int64_t i = 0; i < s.batch; i++) {
        char *to = (char *)l + (size_t)(i * each) * v.bytes;
#define RUN(suffix, type) cholesky_##suffix((type *)(void *)to, (int)s.n)
        if (!BY_TYPE(s, RUN)) fill_nan(s.dtype, to, each);
#undef RUN
    }
    end_visit(&v);
    return BT_OK;
}

bt_status bti_lapack_triangular_solve(bti_lapack_shape s, bti_triangle how, const void *a, const void *b, void *x) {
    visit v;
    BTI_TRY(begin_visit(&v, s, 0, 0));
    memcpy(x, b, (size_t)(s.batch * s.n * s.m) * v.bytes);
    for (int64_t i = 0; i < s.batch; i++) {
        const char *from = (const char *)a + (size_t)(i * s.n * s.n) * v.bytes;
        char *to = (char *)x + (size_t)(i * s.n * s.m) * v.bytes;
#define RUN(suffix, type) \
    triangular_solve_##suffix(how, (const type *)(const void *)from, (type *)(void *)to, (int)s.n, (int)s.m)
        BY_TYPE(s, RUN);
#undef RUN
    }
    end_visit(&v);
    return BT_OK;
}

bt_status bti_lapack_solve(bti_lapack_shape s, const void *a, const void *b, void *x) {
    visit v;
    BTI_TRY(begin_visit(&v, s, s.n * (s.n + s.m), s.n));
    for (int64_t i = 0; i < s.batch; i++) {
        size_t at = (size_t)(i * s.n * s.m) * v.bytes;
        const char *from = (const char *)a + (size_t)(i * s.n * s.n) * v.bytes;
#define RUN(suffix, type)                                                                                \
    solve_##suffix((const type *)(const void *)from, (const type *)(const void *)((const char *)b + at), \
                   (type *)(void *)((char *)x + at), (type *)(void *)v.room, v.whole, (int)s.n, (int)s.m)
        BY_TYPE(s, RUN);
#undef RUN
    }
    end_visit(&v);
    return BT_OK;
}

/* Calls fold with the diagonal of each matrix, as doubles. */
static bt_status each_diagonal(bti_lapack_shape s, const void *a,
                               void (*fold)(bti_lapack_shape s, int64_t i, const double *diagonal, void *const *to),
                               void *const *to) {
    visit v;
    double *diagonal = bti_alloc(((size_t)s.n + 1) * sizeof *diagonal);
    if (!diagonal) return bti_no_memory();
    bt_status status = begin_visit(&v, s, s.n * s.n + s.n, s.n);
    for (int64_t i = 0; i < s.batch && status == BT_OK; i++) {
        const char *from = (const char *)a + (size_t)(i * s.n * s.n) * v.bytes;
        char *made = v.room + (size_t)(s.n * s.n) * v.bytes;
#define RUN(suffix, type)                                                                                       \
    pivots_of_##suffix((const type *)(const void *)from, (type *)(void *)made, (type *)(void *)v.room, v.whole, \
                       (int)s.n)
        if (s.n) BY_TYPE(s, RUN);
#undef RUN
        for (int64_t k = 0; k < s.n; k++)
            diagonal[k] = s.dtype == BT_F64 ? ((double *)(void *)made)[k] : (double)((float *)(void *)made)[k];
        fold(s, i, diagonal, to);
    }
    if (status == BT_OK) end_visit(&v);
    bti_free(diagonal);
    return status;
}

static void put(bti_lapack_shape s, void *to, int64_t i, double value) {
    if (s.dtype == BT_F64)
        ((double *)to)[i] = value;
    else
        ((float *)to)[i] = (float)value;
}

static void multiply(bti_lapack_shape s, int64_t i, const double *diagonal, void *const *to) {
    double product = 1;
    for (int64_t k = 0; k < s.n; k++) product *= diagonal[k];
    put(s, to[0], i, product);
}

static void add_logarithms(bti_lapack_shape s, int64_t i, const double *diagonal, void *const *to) {
    double sign = 1, sum = 0;
    for (int64_t k = 0; k < s.n; k++) {
        sign = diagonal[k] != diagonal[k] ? diagonal[k] : diagonal[k] < 0 ? -sign : diagonal[k] > 0 ? sign : 0;
        sum += log(fabs(diagonal[k]));
    }
    put(s, to[0], i, sign);
    put(s, to[1], i, sum);
}

bt_status bti_lapack_determinant(bti_lapack_shape s, const void *a, void *determinant) {
    return each_diagonal(s, a, multiply, (void *[]){determinant});
}

bt_status bti_lapack_log_determinant(bti_lapack_shape s, const void *a, void *sign, void *logarithm) {
    return each_diagonal(s, a, add_logarithms, (void *[]){sign, logarithm});
}

bt_status bti_lapack_qr(bti_lapack_shape s, const void *a, void *q, void *r) {
    enum { BLOCK = 64 };
    visit v;
    int64_t k = s.m < s.n ? s.m : s.n, most = (s.n > s.m ? s.n : s.m) * BLOCK;
    BTI_TRY(begin_visit(&v, s, s.m * s.n + k + most, 0));
    for (int64_t i = 0; i < s.batch; i++) {
        const char *from = (const char *)a + (size_t)(i * s.m * s.n) * v.bytes;
        char *to_q = (char *)q + (size_t)(i * s.m * k) * v.bytes, *to_r = (char *)r + (size_t)(i * k * s.n) * v.bytes;
#define RUN(suffix, type)                                                                                             \
    qr_##suffix((const type *)(const void *)from, (type *)(void *)to_q, (type *)(void *)to_r, (type *)(void *)v.room, \
                (int)s.m, (int)s.n, (int)most)
        if (!BY_TYPE(s, RUN)) fill_nan(s.dtype, to_q, s.m * k), fill_nan(s.dtype, to_r, k * s.n);
#undef RUN
    }
    end_visit(&v);
    return BT_OK;
}

bt_status bti_lapack_eigh(bti_lapack_shape s, const void *a, void *values, void *vectors) {
    visit v;
    int64_t most = 1 + 6 * s.n + 2 * s.n * s.n, most_whole = 3 + 5 * s.n;
    if (most > INT32_MAX) return bti_fail(BT_INVALID_ARGUMENT, "matrices of %lld rows are too large", (long long)s.n);
    BTI_TRY(begin_visit(&v, s, s.n * s.n + most, most_whole));
    for (int64_t i = 0; i < s.batch; i++) {
        size_t at = (size_t)(i * s.n * s.n) * v.bytes;
        char *to = (char *)values + (size_t)(i * s.n) * v.bytes, *of = (char *)vectors + at;
#define RUN(suffix, type)                                                                                     \
    eigh_##suffix((const type *)(const void *)((const char *)a + at), (type *)(void *)to, (type *)(void *)of, \
                  (type *)(void *)v.room, v.whole, (int)s.n, (int)most, (int)most_whole)
        if (!BY_TYPE(s, RUN)) fill_nan(s.dtype, to, s.n), fill_nan(s.dtype, of, s.n * s.n);
#undef RUN
    }
    end_visit(&v);
    return BT_OK;
}

bt_status bti_lapack_svd(bti_lapack_shape s, const void *a, void *u, void *values, void *vt) {
    visit v;
    int64_t k = s.m < s.n ? s.m : s.n, longer = s.m < s.n ? s.n : s.m;
    int64_t most = 4 * k * k + 7 * k + (longer > k * (3 * k + 4) ? longer : 0) + longer * 64 + 3 * k * k;
    if (most > INT32_MAX)
        return bti_fail(BT_INVALID_ARGUMENT, "matrices of %lld x %lld are too large", (long long)s.m, (long long)s.n);
    BTI_TRY(begin_visit(&v, s, s.m * s.n + most, 8 * k));
    for (int64_t i = 0; i < s.batch; i++) {
        char *to_u = (char *)u + (size_t)(i * s.m * k) * v.bytes, *to = (char *)values + (size_t)(i * k) * v.bytes,
             *to_v = (char *)vt + (size_t)(i * k * s.n) * v.bytes;
        const char *from = (const char *)a + (size_t)(i * s.m * s.n) * v.bytes;
#define RUN(suffix, type)                                                                                          \
    svd_##suffix((const type *)(const void *)from, (type *)(void *)to_u, (type *)(void *)to, (type *)(void *)to_v, \
                 (type *)(void *)v.room, v.whole, (int)s.m, (int)s.n, (int)most)
        if (!BY_TYPE(s, RUN))
            fill_nan(s.dtype, to_u, s.m * k), fill_nan(s.dtype, to, k), fill_nan(s.dtype, to_v, k * s.n);
#undef RUN
    }
    end_visit(&v);
    return BT_OK;
}
