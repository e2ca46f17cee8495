#include "drivers/cpu/product/lapack.h"

#include <complex.h>
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

/* Of all types; then what differs between real and complex ones. */
#define ENTRIES_OF_ALL(ENTRY, p, type)                                                                               \
    ENTRY(void, p##potrf_, (const char *half, const int *n, type *a, const int *lda, int *info, size_t length))      \
    ENTRY(void, p##getrf_, (const int *m, const int *n, type *a, const int *lda, int *pivots, int *info))            \
    ENTRY(void, p##getrs_,                                                                                           \
          (const char *trans, const int *n, const int *m, const type *a, const int *lda, const int *pivots, type *b, \
           const int *ldb, int *info, size_t length))                                                                \
    ENTRY(void, p##geqrf_,                                                                                           \
          (const int *m, const int *n, type *a, const int *lda, type *tau, type *work, const int *most, int *info))
#define FORM_Q(ENTRY, name, type)                                                                          \
    ENTRY(void, name,                                                                                      \
          (const int *m, const int *n, const int *k, type *a, const int *lda, const type *tau, type *work, \
           const int *most, int *info))
#define REAL_ENTRIES(ENTRY, p, type)                                                                             \
    ENTRIES_OF_ALL(ENTRY, p, type)                                                                               \
    FORM_Q(ENTRY, p##orgqr_, type)                                                                               \
    ENTRY(void, p##syevd_,                                                                                       \
          (const char *what, const char *half, const int *n, type *a, const int *lda, type *values, type *work,  \
           const int *most, int *whole, const int *most_whole, int *info, size_t length, size_t other))          \
    ENTRY(void, p##gesdd_,                                                                                       \
          (const char *what, const int *m, const int *n, type *a, const int *lda, type *values, type *u,         \
           const int *ldu, type *v, const int *ldv, type *work, const int *most, int *whole, int *info,          \
           size_t length))                                                                                       \
    ENTRY(void, cblas_##p##trsm,                                                                                 \
          (int order, int side, int half, int trans, int unit, int m, int n, type alpha, const type *a, int lda, \
           type *b, int ldb))
#define COMPLEX_ENTRIES(ENTRY, p, type, real)                                                                       \
    ENTRIES_OF_ALL(ENTRY, p, type)                                                                                  \
    FORM_Q(ENTRY, p##ungqr_, type)                                                                                  \
    ENTRY(void, p##heevd_,                                                                                          \
          (const char *what, const char *half, const int *n, type *a, const int *lda, real *values, type *work,     \
           const int *most, real *rest, const int *most_rest, int *whole, const int *most_whole, int *info,         \
           size_t length, size_t other))                                                                            \
    ENTRY(void, p##gesdd_,                                                                                          \
          (const char *what, const int *m, const int *n, type *a, const int *lda, real *values, type *u,            \
           const int *ldu, type *v, const int *ldv, type *work, const int *most, real *rest, int *whole, int *info, \
           size_t length))                                                                                          \
    ENTRY(void, cblas_##p##trsm,                                                                                    \
          (int order, int side, int half, int trans, int unit, int m, int n, const type *alpha, const type *a,      \
           int lda, type *b, int ldb))
typedef float _Complex c64;
typedef double _Complex c128;
#define LAPACK_ENTRIES(ENTRY)     \
    REAL_ENTRIES(ENTRY, s, float) \
    REAL_ENTRIES(ENTRY, d, double) COMPLEX_ENTRIES(ENTRY, c, c64, float) COMPLEX_ENTRIES(ENTRY, z, c128, double)

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

/* Elements of the second workspace of complex types, which is of reals; those of work are in front of it. */
static int64_t rest_of_eigh(int64_t n) { return (1 + 5 * n + 2 * n * n + 1) / 2; }
static int64_t rest_of_svd(int64_t k, int64_t longer) { return (7 * k * k + 6 * k + 2 * longer * k + 1) / 2; }

#define COMPLEX_TYPE 0
#define T float
#define R float
#define OF(name) name##_f32
#define CALL(name) lapack.s##name
#define CALL_CBLAS(name) lapack.cblas_s##name
#include "drivers/cpu/product/lapack_type.h"
#undef T
#undef R
#undef OF
#undef CALL
#undef CALL_CBLAS
#define T double
#define R double
#define OF(name) name##_f64
#define CALL(name) lapack.d##name
#define CALL_CBLAS(name) lapack.cblas_d##name
#include "drivers/cpu/product/lapack_type.h"
#undef T
#undef R
#undef OF
#undef CALL
#undef CALL_CBLAS
#undef COMPLEX_TYPE
#define COMPLEX_TYPE 1
#define T c64
#define R float
#define OF(name) name##_c64
#define CALL(name) lapack.c##name
#define CALL_CBLAS(name) lapack.cblas_c##name
#include "drivers/cpu/product/lapack_type.h"
#undef T
#undef R
#undef OF
#undef CALL
#undef CALL_CBLAS
#define T c128
#define R double
#define OF(name) name##_c128
#define CALL(name) lapack.z##name
#define CALL_CBLAS(name) lapack.cblas_z##name
#include "drivers/cpu/product/lapack_type.h"
#undef T
#undef R
#undef OF
#undef CALL
#undef CALL_CBLAS

/* --- around calls --------------------------------------------------------------------------------------------------- */

/* A visit of the library by one operation, and memory for it. */
typedef struct visit {
    bti_guest guest;
    int threads;
    size_t bytes; /* of an element */
    char *room;
    int *whole;
} visit;

static bt_status begin_visit(visit *v, bti_matrices s, int64_t elements, int64_t integers) {
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
    if (bti_dtype_is_complex(dtype)) count *= 2;
    for (int64_t i = 0; i < count; i++) {
        if (bti_dtype_of_part(dtype) == BT_F64)
            ((double *)x)[i] = (double)NAN;
        else
            ((float *)x)[i] = NAN;
    }
}

/* call(suffix of its functions, type, type of its parts). */
#define BY_TYPE(s, call)                                  \
    ((s).dtype == BT_F64    ? (call(f64, double, double)) \
     : (s).dtype == BT_F32  ? (call(f32, float, float))   \
     : (s).dtype == BT_C128 ? (call(c128, c128, double))  \
                            : (call(c64, c64, float)))

/* --- operations ------------------------------------------------------------------------------------------------------ */

bt_status bti_lapack_cholesky(bti_matrices s, const void *a, void *l) {
    visit v;
    int64_t each = s.n * s.n;
    BTI_TRY(begin_visit(&v, s, 0, 0));
    memcpy(l, a, (size_t)(s.batch * each) * v.bytes);
    for (int64_t i = 0; i < s.batch; i++) {
        char *to = (char *)l + (size_t)(i * each) * v.bytes;
#define RUN(suffix, type, real) cholesky_##suffix((type *)(void *)to, (int)s.n)
        if (!BY_TYPE(s, RUN)) fill_nan(s.dtype, to, each);
#undef RUN
    }
    end_visit(&v);
    return BT_OK;
}

bt_status bti_lapack_triangular_solve(bti_matrices s, bti_triangle how, const void *a, const void *b, void *x) {
    visit v;
    BTI_TRY(begin_visit(&v, s, 0, 0));
    memcpy(x, b, (size_t)(s.batch * s.n * s.m) * v.bytes);
    for (int64_t i = 0; i < s.batch; i++) {
        const char *from = (const char *)a + (size_t)(i * s.n * s.n) * v.bytes;
        char *to = (char *)x + (size_t)(i * s.n * s.m) * v.bytes;
#define RUN(suffix, type, real) \
    triangular_solve_##suffix(how, (const type *)(const void *)from, (type *)(void *)to, (int)s.n, (int)s.m)
        BY_TYPE(s, RUN);
#undef RUN
    }
    end_visit(&v);
    return BT_OK;
}

bt_status bti_lapack_solve(bti_matrices s, const void *a, const void *b, void *x) {
    visit v;
    BTI_TRY(begin_visit(&v, s, s.n * (s.n + s.m), s.n));
    for (int64_t i = 0; i < s.batch; i++) {
        size_t at = (size_t)(i * s.n * s.m) * v.bytes;
        const char *from = (const char *)a + (size_t)(i * s.n * s.n) * v.bytes;
#define RUN(suffix, type, real)                                                                          \
    solve_##suffix((const type *)(const void *)from, (const type *)(const void *)((const char *)b + at), \
                   (type *)(void *)((char *)x + at), (type *)(void *)v.room, v.whole, (int)s.n, (int)s.m)
        BY_TYPE(s, RUN);
#undef RUN
    }
    end_visit(&v);
    return BT_OK;
}

static c128 element_of(bt_dtype dtype, const void *x, int64_t i) {
    switch (dtype) {
    case BT_F64: return ((const double *)x)[i];
    case BT_C64: return ((const c64 *)x)[i];
    case BT_C128: return ((const c128 *)x)[i];
    default: return (double)((const float *)x)[i];
    }
}

static void put(bt_dtype dtype, void *to, int64_t i, c128 value) {
    switch (dtype) {
    case BT_F64: ((double *)to)[i] = creal(value); break;
    case BT_C64: ((c64 *)to)[i] = (c64)value; break;
    case BT_C128: ((c128 *)to)[i] = value; break;
    default: ((float *)to)[i] = (float)creal(value); break;
    }
}

/* Calls fold with the diagonal of each matrix, of s.dtype. */
typedef void diagonal_fold(bti_matrices s, int64_t i, const void *diagonal, void *const *to);
static bt_status each_diagonal(bti_matrices s, const void *a, diagonal_fold *fold, void *const *to) {
    visit v;
    BTI_TRY(begin_visit(&v, s, s.n * s.n + s.n, s.n));
    for (int64_t i = 0; i < s.batch; i++) {
        const char *from = (const char *)a + (size_t)(i * s.n * s.n) * v.bytes;
        char *made = v.room + (size_t)(s.n * s.n) * v.bytes;
#define RUN(suffix, type, real)                                                                                 \
    pivots_of_##suffix((const type *)(const void *)from, (type *)(void *)made, (type *)(void *)v.room, v.whole, \
                       (int)s.n)
        if (s.n) BY_TYPE(s, RUN);
#undef RUN
        fold(s, i, made, to);
    }
    end_visit(&v);
    return BT_OK;
}

static void multiply(bti_matrices s, int64_t i, const void *diagonal, void *const *to) {
    double product = 1;
    c128 of_complex = 1;
    bool is_complex = bti_dtype_is_complex(s.dtype);
    for (int64_t k = 0; k < s.n && !is_complex; k++) product *= creal(element_of(s.dtype, diagonal, k));
    for (int64_t k = 0; k < s.n && is_complex; k++) of_complex *= element_of(s.dtype, diagonal, k);
    put(s.dtype, to[0], i, is_complex ? of_complex : product);
}

static double next_sign(double sign, double x) { return x != x ? x : x < 0 ? -sign : x > 0 ? sign : 0; }
static c128 next_phase(c128 phase, c128 x) { return x == 0 ? 0 : phase * (x / cabs(x)); }

static void add_logarithms(bti_matrices s, int64_t i, const void *diagonal, void *const *to) {
    double sign = 1, sum = 0;
    c128 phase = 1;
    for (int64_t k = 0; k < s.n; k++) {
        c128 x = element_of(s.dtype, diagonal, k);
        sign = next_sign(sign, creal(x));
        phase = next_phase(phase, x);
        sum += log(cabs(x));
    }
    put(s.dtype, to[0], i, bti_dtype_is_complex(s.dtype) ? phase : sign);
    put(bti_dtype_of_part(s.dtype), to[1], i, sum);
}

bt_status bti_lapack_determinant(bti_matrices s, const void *a, void *determinant) {
    return each_diagonal(s, a, multiply, (void *[]){determinant});
}

bt_status bti_lapack_log_determinant(bti_matrices s, const void *a, void *sign, void *logarithm) {
    return each_diagonal(s, a, add_logarithms, (void *[]){sign, logarithm});
}

bt_status bti_lapack_qr(bti_matrices s, const void *a, void *q, void *r) {
    enum { BLOCK = 64 };
    visit v;
    int64_t k = s.m < s.n ? s.m : s.n, most = (s.n > s.m ? s.n : s.m) * BLOCK;
    BTI_TRY(begin_visit(&v, s, s.m * s.n + k + most, 0));
    for (int64_t i = 0; i < s.batch; i++) {
        const char *from = (const char *)a + (size_t)(i * s.m * s.n) * v.bytes;
        char *to_q = (char *)q + (size_t)(i * s.m * k) * v.bytes, *to_r = (char *)r + (size_t)(i * k * s.n) * v.bytes;
#define RUN(suffix, type, real)                                                                                       \
    qr_##suffix((const type *)(const void *)from, (type *)(void *)to_q, (type *)(void *)to_r, (type *)(void *)v.room, \
                (int)s.m, (int)s.n, (int)most)
        if (!BY_TYPE(s, RUN)) fill_nan(s.dtype, to_q, s.m * k), fill_nan(s.dtype, to_r, k * s.n);
#undef RUN
    }
    end_visit(&v);
    return BT_OK;
}

bt_status bti_lapack_eigh(bti_matrices s, const void *a, void *values, void *vectors) {
    visit v;
    int64_t most = 1 + 6 * s.n + 2 * s.n * s.n, most_whole = 3 + 5 * s.n;
    int64_t rest = bti_dtype_is_complex(s.dtype) ? rest_of_eigh(s.n) : 0;
    bt_dtype part = bti_dtype_of_part(s.dtype);
    if (most > INT32_MAX) return bti_fail(BT_INVALID_ARGUMENT, "matrices of %lld rows are too large", (long long)s.n);
    BTI_TRY(begin_visit(&v, s, s.n * s.n + most + rest, most_whole));
    for (int64_t i = 0; i < s.batch; i++) {
        size_t at = (size_t)(i * s.n * s.n) * v.bytes;
        char *to = (char *)values + (size_t)(i * s.n) * bt_dtype_size(part), *of = (char *)vectors + at;
#define RUN(suffix, type, real)                                                                               \
    eigh_##suffix((const type *)(const void *)((const char *)a + at), (real *)(void *)to, (type *)(void *)of, \
                  (type *)(void *)v.room, v.whole, (int)s.n, (int)most, (int)most_whole)
        if (!BY_TYPE(s, RUN)) fill_nan(part, to, s.n), fill_nan(s.dtype, of, s.n * s.n);
#undef RUN
    }
    end_visit(&v);
    return BT_OK;
}

bt_status bti_lapack_svd(bti_matrices s, const void *a, void *u, void *values, void *vt) {
    visit v;
    int64_t k = s.m < s.n ? s.m : s.n, longer = s.m < s.n ? s.n : s.m;
    int64_t rest = bti_dtype_is_complex(s.dtype) ? rest_of_svd(k, longer) : 0;
    bt_dtype part = bti_dtype_of_part(s.dtype);
    int64_t most = 4 * k * k + 7 * k + (longer > k * (3 * k + 4) ? longer : 0) + longer * 64 + 3 * k * k;
    if (most > INT32_MAX)
        return bti_fail(BT_INVALID_ARGUMENT, "matrices of %lld x %lld are too large", (long long)s.m, (long long)s.n);
    BTI_TRY(begin_visit(&v, s, s.m * s.n + most + rest, 8 * k));
    for (int64_t i = 0; i < s.batch; i++) {
        char *to_u = (char *)u + (size_t)(i * s.m * k) * v.bytes,
             *to = (char *)values + (size_t)(i * k) * bt_dtype_size(part),
             *to_v = (char *)vt + (size_t)(i * k * s.n) * v.bytes;
        const char *from = (const char *)a + (size_t)(i * s.m * s.n) * v.bytes;
#define RUN(suffix, type, real)                                                                                    \
    svd_##suffix((const type *)(const void *)from, (type *)(void *)to_u, (real *)(void *)to, (type *)(void *)to_v, \
                 (type *)(void *)v.room, v.whole, (int)s.m, (int)s.n, (int)most)
        if (!BY_TYPE(s, RUN)) fill_nan(s.dtype, to_u, s.m * k), fill_nan(part, to, k), fill_nan(s.dtype, to_v, k * s.n);
#undef RUN
    }
    end_visit(&v);
    return BT_OK;
}
