/* Linear algebra by a fake cuSOLVER: how the driver calls it, and what is left to the host. */
#include <complex.h>
#include <math.h>

#include "ir/dtype.h"
#include "support/cuda_library.h"

#define MACHINE "{\"devices\": [" CARD_A "," CARD_B "]}"
#define MOST (1 << 15) /* bytes of an array */
#define MOST_BATCH 100

/* --- one problem -------------------------------------------------------------------------------------------------- */

typedef double _Complex number;
enum { A, B, U, V, VALUES, PIVOTS, FLAGS, POINTERS, ARRAYS };

typedef struct problem {
    bti_factor of;
    bti_cuda_device *device;
    void *factor; /* NULL: cuSOLVER does not have it */
    bool by_pointers;
    _Alignas(16) char from[2][MOST];      /* a and b, which were uploaded */
    _Alignas(16) char made[ARRAYS][MOST]; /* what is on the device */
    uint64_t memory[ARRAYS];
} problem;

static number number_at(const problem *p, const void *memory, int64_t i) {
    const float *narrow = memory;
    const double *wide = memory;
    switch (p->of.of.dtype) {
    case BT_F32: return (double)narrow[i];
    case BT_F64: return wide[i];
    case BT_C64: return CMPLX((double)narrow[2 * i], (double)narrow[2 * i + 1]);
    default: return CMPLX(wide[2 * i], wide[2 * i + 1]);
    }
}
static void put(const problem *p, void *memory, int64_t i, number x) {
    bool is_complex = bti_dtype_is_complex(p->of.of.dtype);
    for (int part = 0; part < (is_complex ? 2 : 1); part++) {
        double value = part ? cimag(x) : creal(x);
        int64_t at = is_complex ? 2 * i + part : i;
        if (bti_dtype_of_part(p->of.of.dtype) == BT_F64)
            ((double *)memory)[at] = value;
        else
            ((float *)memory)[at] = (float)value;
    }
}
static double value_of(const problem *p, int64_t i) {
    const void *values = p->made[VALUES];
    return bti_dtype_of_part(p->of.of.dtype) == BT_F64 ? ((const double *)values)[i]
                                                       : (double)((const float *)values)[i];
}

/* By columns: Hermitian and positive definite where that is needed. */
static void fill_matrices(problem *p) {
    const bti_matrices *s = &p->of.of;
    bool hermitian = p->of.kind == BTI_FACTOR_CHOLESKY || p->of.kind == BTI_FACTOR_EIGH;
    bool has_b = p->of.kind == BTI_FACTOR_SOLVE || p->of.kind == BTI_FACTOR_TRIANGLE;
    int64_t m = has_b ? s->n : s->m, n = s->n;
    if (p->of.kind == BTI_FACTOR_SVD && m < n) m = s->n, n = s->m; /* as long as it is wanted */
    for (int64_t i = 0; i < s->batch; i++)
        for (int64_t column = 0; column < n; column++)
            for (int64_t row = 0; row < m; row++) {
                int64_t low = row < column ? row : column, high = row < column ? column : row;
                number x = CMPLX(sin(1 + 0.37 * (double)(low + 7 * high + 50 * i)), cos((double)(low - 3 * high)) / 4);
                if (!hermitian) x *= 1 + 0.1 * (double)(row - column);
                if (hermitian && row > column) x = conj(x);
                if (row == column) x = 3 + (double)n + creal(x);
                put(p, p->from[A], (i * n + column) * m + row, x);
            }
    for (int64_t i = 0; has_b && i < s->batch * s->n * s->m; i++)
        put(p, p->from[B], i, CMPLX(cos(0.7 * (double)i), sin((double)i)));
}

static bt_status make(problem *p, bti_cuda_device *device, bti_factor of) {
    memset(p, 0, sizeof *p);
    p->of = of, p->device = device;
    for (int i = 0; i < ARRAYS; i++) OK(bti_driver_cuda.alloc(device, MOST, &p->memory[i]));
    fill_matrices(p);
    bti_lock_take(&device->gpu.lock);
    bt_status status = bti_cuda_factor_new(device, &of, &p->factor, &p->by_pointers);
    bti_lock_give(&device->gpu.lock);
    return status;
}

static void upload(const problem *p) {
    const bti_matrices *s = &p->of.of;
    uint64_t pointers[2 * MOST_BATCH], bytes = bt_dtype_size(s->dtype);
    for (int i = 0; i < 2; i++) OK(bti_driver_cuda.upload(p->device, p->memory[i], p->from[i], MOST));
    for (int64_t i = 0; i < s->batch; i++) {
        pointers[i] = p->memory[A] + (uint64_t)(i * s->n * s->n) * bytes;
        pointers[s->batch + i] = p->memory[B] + (uint64_t)(i * s->n * s->m) * bytes;
    }
    OK(bti_driver_cuda.upload(p->device, p->memory[POINTERS], pointers, (size_t)(2 * s->batch) * 8));
}

static bt_status run(problem *p, bool second) {
    bool right = p->of.kind == BTI_FACTOR_SOLVE || p->of.kind == BTI_FACTOR_TRIANGLE,
         svd = p->of.kind == BTI_FACTOR_SVD;
    const bti_gpu_factor_arrays at = {.a = p->memory[A],
                                      .b = right ? p->memory[B] : 0,
                                      .u = svd ? p->memory[U] : 0,
                                      .v = svd ? p->memory[V] : 0,
                                      .values = p->memory[VALUES],
                                      .pivots = p->memory[PIVOTS],
                                      .flags = p->memory[FLAGS],
                                      .a_pointers = p->memory[POINTERS],
                                      .b_pointers = p->memory[POINTERS] + (uint64_t)p->of.of.batch * 8};
    bti_lock_take(&p->device->gpu.lock);
    bt_status status = bti_cuda_factor(p->device, p->factor, &at, second);
    bti_lock_give(&p->device->gpu.lock);
    return status;
}

static void download(problem *p, int array, size_t elements) {
    OK(bti_driver_cuda.download(p->device, p->made[array], p->memory[array], elements * bt_dtype_size(p->of.of.dtype)));
}

static void drop(problem *p) {
    if (p->factor) bti_cuda_held_release(p->device, p->factor);
    for (int i = 0; i < ARRAYS; i++) bti_driver_cuda.free(p->device, p->memory[i], MOST);
}

/* --- what it should be ---------------------------------------------------------------------------------------------- */

typedef struct grid {
    const void *memory;
    int64_t rows, first;
} grid;
#define AT(p, g, row, column) number_at(p, (g).memory, (g).first + (column) * (g).rows + (row))

/* The largest difference of matrix i; 1e9 where it has no result. */
static double of_matrix(const problem *p, int64_t i, const char *r) {
    const bti_matrices *s = &p->of.of;
    int64_t n = s->n, m = s->m, k = bti_matrices_smaller_side(s), longer = m > n ? m : n;
    double most = 0;
    if (p->of.kind == BTI_FACTOR_SOLVE || p->of.kind == BTI_FACTOR_TRIANGLE) {
        grid a = {p->from[A], n, i * n * n}, b = {p->from[B], n, i * n * m}, x = {p->made[B], n, i * n * m};
        bool triangle = p->of.kind == BTI_FACTOR_TRIANGLE;
        if (triangle) b.rows = x.rows = m; /* x^T and b^T */
        for (int64_t row = 0; row < n; row++)
            for (int64_t column = 0; column < m; column++) {
                number sum = 0;
                for (int64_t j = 0; j < n; j++) {
                    bool turned = p->of.triangle.transposed && triangle;
                    int64_t from = turned ? j : row, to = turned ? row : j;
                    number of_a = AT(p, a, to, from); /* the row-major one at [from, to] */
                    if (triangle && from != to && (from < to) != p->of.triangle.upper) of_a = 0;
                    if (triangle && from == to && p->of.triangle.unit) of_a = 1;
                    sum += of_a * (triangle ? AT(p, x, column, j) : AT(p, x, j, column));
                }
                most = fmax(most, cabs(sum - (triangle ? AT(p, b, column, row) : AT(p, b, row, column))));
            }
        return most;
    }
    grid a = {p->from[A], p->of.kind == BTI_FACTOR_SVD ? longer : m, i * m * n}, made = {p->made[A], m, i * m * n};
    grid u = {p->made[U], longer, i * longer * k}, v = {p->made[V], k, i * k * k}, of_r = {r, m, i * m * n};
    for (int64_t row = 0; row < a.rows; row++)
        for (int64_t column = 0; column < m * n / a.rows; column++) {
            number sum = 0, want = AT(p, a, row, column);
            for (int64_t j = 0; j < k; j++) {
                if (p->of.kind == BTI_FACTOR_CHOLESKY && j <= row && j <= column)
                    sum += conj(AT(p, made, j, row)) * AT(p, made, j, column);
                if (p->of.kind == BTI_FACTOR_EIGH)
                    sum += AT(p, made, row, j) * value_of(p, i * k + j) * conj(AT(p, made, column, j));
                if (p->of.kind == BTI_FACTOR_SVD)
                    sum += AT(p, u, row, j) * value_of(p, i * k + j) * AT(p, v, j, column);
                if (p->of.kind == BTI_FACTOR_QR && j <= column) sum += AT(p, made, row, j) * AT(p, of_r, j, column);
            }
            most = fmax(most, cabs(sum - want));
        }
    return most;
}

/* When it is complete. */
static double difference(problem *p) {
    static _Alignas(16) char r[MOST];
    const bti_matrices *s = &p->of.of;
    size_t all = (size_t)(s->batch * s->m * s->n), k = (size_t)(s->batch * bti_matrices_smaller_side(s));
    bool right = p->of.kind == BTI_FACTOR_SOLVE || p->of.kind == BTI_FACTOR_TRIANGLE, qr = p->of.kind == BTI_FACTOR_QR;
    OK(bti_driver_cuda.sync(p->device));
    if (qr) {
        download(p, A, all);
        memcpy(r, p->made[A], sizeof r);
        OK(run(p, true));
        OK(bti_driver_cuda.sync(p->device));
    }
    if (right)
        download(p, B, all);
    else
        download(p, A, all);
    if (p->of.kind == BTI_FACTOR_SVD) {
        download(p, U, all);
        download(p, V, k * (size_t)bti_matrices_smaller_side(s));
    }
    if (p->of.kind == BTI_FACTOR_SVD || p->of.kind == BTI_FACTOR_EIGH)
        OK(bti_driver_cuda.download(p->device, p->made[VALUES], p->memory[VALUES],
                                    k * bt_dtype_size(bti_dtype_of_part(s->dtype))));
    double most = 0;
    for (int64_t i = 0; i < s->batch; i++) most = fmax(most, of_matrix(p, i, r));
    return most;
}

/* --- numbers ------------------------------------------------------------------------------------------------------ */

static const bt_dtype dtypes[] = {BT_F32, BT_F64, BT_C64, BT_C128};
static const bti_factor_kind kinds[] = {BTI_FACTOR_CHOLESKY, BTI_FACTOR_SOLVE, BTI_FACTOR_TRIANGLE,
                                        BTI_FACTOR_QR,       BTI_FACTOR_EIGH,  BTI_FACTOR_SVD};

static void any_size(void) { OK(bt_set_flag("cusolver_rows", "1")); }

static void matrices_of_every_kind(void **state) {
    static const int64_t sizes[][3] = {{1, 1, 1}, {3, 1, 1}, {2, 7, 7}, {1, 12, 5}, {2, 5, 12}, {1, 1, 9}, {3, 20, 20}};
    (void)state;
    int done = 0, refused = 0;
    for (int seed = 1; seed < 4; seed++) {
        char text[16];
        snprintf(text, sizeof text, "%d", seed);
        setenv("BERTH_FAKE_SEED", text, 1);
        machine(MACHINE, NULL);
        any_size();
        bti_cuda_device *d = open_one(0);
        for (size_t which = 0; which < 24 * sizeof sizes / sizeof *sizes; which++) {
            const int64_t *s = sizes[which / 24];
            bti_factor of = {kinds[which % 6],
                             {dtypes[which / 6 % 4], s[0], s[1], s[2]},
                             {which % 5 < 2, which % 3 < 2, which % 7 < 2}};
            if (of.kind == BTI_FACTOR_CHOLESKY || of.kind == BTI_FACTOR_EIGH) of.of.m = of.of.n;
            static problem p;
            bt_status status = make(&p, d, of);
            if (status == BT_OK) {
                upload(&p);
                OK(run(&p, false));
                double most = difference(&p);
                if (!(most < (bti_dtype_of_part(of.of.dtype) == BT_F64 ? 1e-9 : 2e-3)))
                    fail_msg("seed %d, number %zu: %g", seed, which, most);
            } else
                expect_error(status, BT_UNIMPLEMENTED, "its status is 9");
            done += status == BT_OK, refused += status != BT_OK;
            drop(&p);
        }
        close_one(d);
    }
    unsetenv("BERTH_FAKE_SEED");
    assert_true(done > 4 * refused);
    assert_true(refused > 0); /* the fake has none of some */
}

/* Small ones by one call. */
static void batches_of_many(void **state) {
    (void)state;
    int together = 0;
    machine(MACHINE, NULL);
    bti_cuda_device *d = open_one(0);
    for (int which = 0; which < 72; which++) {
        int64_t n = 1 + which / 24 * 2;
        bti_factor of = {
            kinds[which % 6], {dtypes[which / 6 % 4], 40, n, n}, {which % 5 < 2, which % 3 < 2, which % 7 < 2}};
        bool has_batches = of.kind != BTI_FACTOR_QR && of.kind != BTI_FACTOR_SVD;
        static problem p;
        int before = count_of("factor ");
        bt_status status = make(&p, d, of);
        assert_true(status == BT_UNIMPLEMENTED || (status == BT_OK && has_batches));
        if (status == BT_OK) {
            assert_int_equal(p.by_pointers, of.kind != BTI_FACTOR_EIGH);
            upload(&p);
            OK(run(&p, false));
            assert_true(difference(&p) < (bti_dtype_of_part(of.of.dtype) == BT_F64 ? 1e-9 : 2e-3));
            assert_int_equal(count_of("factor ") - before, of.kind == BTI_FACTOR_SOLVE ? 2 : 1);
            together++;
        }
        drop(&p);
    }
    assert_true(together > 36);
    close_one(d);
}

static const bti_factor usual = {BTI_FACTOR_CHOLESKY, {BT_F32, 2, 20, 20}, {0}};

/* Which matrices are the host's: small ones, and all where cuSOLVER is not there. */
static void what_the_host_computes(void **state) {
    (void)state;
    static problem p;
    bti_factor of = usual;
    machine(MACHINE, "cusolver");
    any_size();
    bti_cuda_device *d = open_one(0);
    expect_error(make(&p, d, usual), BT_UNIMPLEMENTED, "there is no cuSOLVER");
    drop(&p);
    close_one(d);
    machine(MACHINE, NULL);
    d = open_one(0);
    for (int large = 0; large < 2; large++)
        for (int i = 0; i < 6; i++) {
            void *made = NULL;
            bool by_pointers;
            int64_t n = (kinds[i] == BTI_FACTOR_SVD ? 512 : 256) - !large;
            of = (bti_factor){kinds[i], {BT_F64, 31, n, n}, {0}};
            bti_lock_take(&d->gpu.lock);
            bt_status status = bti_cuda_factor_new(d, &of, &made, &by_pointers);
            bti_lock_give(&d->gpu.lock);
            assert_int_equal(status, large ? BT_OK : BT_UNIMPLEMENTED);
            if (made) bti_cuda_held_release(d, made);
        }
    close_one(d);
}

/* The status tells which matrix has no result. */
static void matrices_without_a_result(void **state) {
    (void)state;
    static problem p;
    int flags[2];
    machine(MACHINE, NULL);
    any_size();
    bti_cuda_device *d = open_one(0);
    OK(make(&p, d, usual));
    put(&p, p.from[A], 20 * 20 + 21, -1);
    upload(&p);
    OK(run(&p, false));
    OK(bti_driver_cuda.sync(d));
    OK(bti_driver_cuda.download(d, flags, p.memory[FLAGS], sizeof flags));
    assert_int_equal(flags[0], 0);
    assert_int_equal(flags[1], 2);
    drop(&p);
    close_one(d);
}

/* --- in use ------------------------------------------------------------------------------------------------------- */

static void plans_outlive_their_work(void **state) {
    (void)state;
    static problem p;
    machine(MACHINE, NULL);
    any_size();
    bti_cuda_device *d = open_one(0);
    for (int64_t side = 20; side < 28; side++) {
        bti_factor of = usual;
        of.of.m = of.of.n = side;
        if (make(&p, d, of) != BT_OK) continue;
        upload(&p);
        OK(run(&p, false));
        bti_cuda_held_release(d, p.factor); /* with its host's workspace */
        p.factor = NULL;
        OK(bti_driver_cuda.sync(d));
        assert_true(difference(&p) < 1e-3);
        drop(&p);
    }
    close_one(d);
}

/* Those of triangles are, and go to the stream of launches again after it. */
static void triangles_are_recorded(void **state) {
    (void)state;
    static problem p;
    void *graph;
    bool stale;
    for (int triangle = 0; triangle < 2; triangle++) {
        bti_factor of = {triangle ? BTI_FACTOR_TRIANGLE : BTI_FACTOR_CHOLESKY, {BT_F32, 2, 6, 6}, {0}};
        machine(MACHINE, NULL);
        any_size();
        bti_cuda_device *d = open_one(0);
        OK(make(&p, d, of));
        upload(&p);
        OK(run(&p, false)); /* the workspace is there */
        OK(bti_driver_cuda.sync(d));
        OK(bti_driver_cuda.graph_begin(d));
        OK(run(&p, false));
        OK(bti_driver_cuda.graph_end(d, &graph));
        assert_int_equal(graph != NULL, triangle);
        for (int i = 0; i < 3 && graph; i++) {
            upload(&p);
            OK(bti_driver_cuda.graph_run(d, graph, NULL, &stale));
            assert_false(stale);
            OK(bti_driver_cuda.sync(d));
            assert_true(difference(&p) < 1e-3);
        }
        if (graph) bti_driver_cuda.graph_free(d, graph);
        upload(&p);
        OK(run(&p, false));
        assert_true(difference(&p) < 1e-3);
        drop(&p);
        close_one(d);
    }
}

/* --- faults ------------------------------------------------------------------------------------------------------- */

static void json_with_fault(char *json, size_t size, const char *call, int n, int code) {
    snprintf(json, size, "{\"fail\": {\"%s\": [%d, %d]}, \"devices\": [" CARD_A "," CARD_B "]}", call, n, code);
}

typedef struct fault {
    const char *call;
    bti_factor_kind kind;
    bool plans, of_blas;
} fault;

/* For want of memory, and by a failure inside. What cannot be planned is the host's, also later where cuSOLVER did not start. */
static void every_call_may_fail(void **state) {
    static const fault faults[] = {{"cusolverDnCreate", BTI_FACTOR_CHOLESKY, true, false},
                                   {"cusolverDnCreateParams", BTI_FACTOR_CHOLESKY, true, false},
                                   {"cusolverDnSetDeterministicMode", BTI_FACTOR_CHOLESKY, true, false},
                                   {"cusolverDnSetStream", BTI_FACTOR_CHOLESKY, true, false},
                                   {"cublasCreate_v2", BTI_FACTOR_CHOLESKY, true, true},
                                   {"cusolverDnXpotrf_bufferSize", BTI_FACTOR_CHOLESKY, true, false},
                                   {"cusolverDnXgetrf_bufferSize", BTI_FACTOR_SOLVE, true, false},
                                   {"cusolverDnXgeqrf_bufferSize", BTI_FACTOR_QR, true, false},
                                   {"cusolverDnXorgqr_bufferSize", BTI_FACTOR_QR, true, false},
                                   {"cusolverDnXsyevd_bufferSize", BTI_FACTOR_EIGH, true, false},
                                   {"cusolverDnXgesvd_bufferSize", BTI_FACTOR_SVD, true, false},
                                   {"cusolverDnXpotrf", BTI_FACTOR_CHOLESKY, false, false},
                                   {"cusolverDnXgetrf", BTI_FACTOR_SOLVE, false, false},
                                   {"cusolverDnXgetrs", BTI_FACTOR_SOLVE, false, false},
                                   {"cusolverDnXgeqrf", BTI_FACTOR_QR, false, false},
                                   {"cusolverDnXsyevd", BTI_FACTOR_EIGH, false, false},
                                   {"cusolverDnXgesvd", BTI_FACTOR_SVD, false, false},
                                   {"cublasSetStream_v2", BTI_FACTOR_TRIANGLE, false, true},
                                   {"cublasSetWorkspace_v2", BTI_FACTOR_TRIANGLE, false, true},
                                   {"cublasStrsm_v2", BTI_FACTOR_TRIANGLE, false, true}};
    (void)state;
    for (size_t i = 0; i < 2 * sizeof faults / sizeof *faults; i++) {
        const fault *f = &faults[i / 2];
        bool no_memory = i % 2;
        char json[1200];
        static problem p;
        int code = f->of_blas  ? no_memory ? CUBLAS_STATUS_ALLOC_FAILED : CUBLAS_STATUS_INTERNAL_ERROR
                   : no_memory ? CUSOLVER_STATUS_ALLOC_FAILED
                               : CUSOLVER_STATUS_INTERNAL_ERROR;
        json_with_fault(json, sizeof json, f->call, 1, code);
        machine(json, NULL);
        any_size();
        bti_cuda_device *d = open_one(0);
        bt_status status = make(&p, d, (bti_factor){f->kind, {BT_F32, 1, 70, 70}, {0}});
        upload(&p);
        if (!f->plans) {
            OK(status);
            status = run(&p, false);
        }
        expect_error(status,
                     no_memory  ? BT_RESOURCE_EXHAUSTED
                     : f->plans ? BT_UNIMPLEMENTED
                                : BT_INTERNAL,
                     "its status is");
        bool starts = i / 2 < 5;
        if (f->plans) { /* nothing of the failure is kept, but a cuSOLVER that does not start */
            bti_lock_take(&d->gpu.lock);
            status = bti_cuda_factor_new(d, &p.of, &p.factor, &p.by_pointers);
            bti_lock_give(&d->gpu.lock);
            assert_int_equal(status, starts && !no_memory ? BT_UNIMPLEMENTED : BT_OK);
        }
        if (p.factor) {
            OK(bti_driver_cuda.sync(d));
            upload(&p);
            OK(run(&p, false));
            assert_true(difference(&p) < 2e-2);
        }
        drop(&p);
        close_one(d);
    }
}

static void doctors_try_it(void **state) {
    (void)state;
    char json[1200];
    for (int fails = 0; fails < 2; fails++) {
        bti_str text = {0};
        json_with_fault(json, sizeof json, "cusolverDnCreate", fails ? 1 : 99, CUSOLVER_STATUS_NOT_INITIALIZED);
        machine(json, NULL);
        bti_cuda_device *d = open_one(0);
        bti_driver_cuda.describe(d, &text);
        expect_text(text.text, "cuSOLVER 12.0.1 (linear algebra): ");
        static const char told[] = "cuSOLVER does not work, and the host computes linear algebra: ";
        assert_true((strstr(text.text, told) != NULL) == fails);
        if (fails) expect_text(text.text, "cusolverDnCreate: its status is 1");
        bti_str_free(&text);
        close_one(d);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(matrices_of_every_kind),    cmocka_unit_test(what_the_host_computes),
        cmocka_unit_test(matrices_without_a_result), cmocka_unit_test(batches_of_many),
        cmocka_unit_test(plans_outlive_their_work),  cmocka_unit_test(triangles_are_recorded),
        cmocka_unit_test(every_call_may_fail),       cmocka_unit_test(doctors_try_it),
    };
    return cmocka_run_group_tests(tests, NULL, no_machine);
}
