/* The calls of LAPACK for one type: T, its parts R, OF(name), CALL(name), CALL_CBLAS(name), COMPLEX_TYPE (0 or 1). LAPACK's matrices lie by columns: a row-major matrix is its transpose. A failed
 * matrix returns false. */

static void OF(transpose)(T *to, const T *from, int rows, int columns) {
    for (int i = 0; i < rows; i++)
        for (int k = 0; k < columns; k++) to[(int64_t)k * rows + i] = from[(int64_t)i * columns + k];
}

static bool OF(is_finite)(const T *x, int64_t count) {
    const R *parts = (const R *)x;
    bool finite = true;
    for (int64_t i = 0; i < count * (1 + COMPLEX_TYPE); i++) finite = finite && isfinite(parts[i]);
    return finite;
}

static bool OF(cholesky)(T *l, int n) {
    int info;
    CALL(potrf_)("U", &n, l, &n, &info, 1);
    for (int i = 0; i < n; i++)
        for (int k = i + 1; k < n; k++) l[(int64_t)i * n + k] = 0;
    for (int i = 0; i < n; i++) { /* not all versions notice it */
        T own = l[(int64_t)i * n + i];
        if (own != own) return false;
    }
    return info == 0;
}

static void OF(triangular_solve)(bti_triangle how, const T *a, T *x, int n, int m) {
#if COMPLEX_TYPE
    const T one = 1, *alpha = &one;
#else
    const T alpha = 1;
#endif
    CALL_CBLAS(trsm)
    (ROW_MAJOR, LEFT, how.upper ? UPPER : LOWER, how.transposed ? TRANSPOSED : PLAIN, how.unit ? UNIT : NOT_UNIT, n, m,
     alpha, a, n, x, m);
}

/* room: n * n and n * m elements. */
static void OF(solve)(const T *a, const T *b, T *x, T *room, int *pivots, int n, int m) {
    int info;
    T *right = room + (int64_t)n * n;
    memcpy(room, a, (size_t)n * (size_t)n * sizeof *a);
    OF(transpose)(right, b, n, m);
    CALL(getrf_)(&n, &n, room, &n, pivots, &info);
    CALL(getrs_)("T", &n, &m, room, &n, pivots, right, &n, &info, 1);
    OF(transpose)(x, right, m, n);
}

/* The diagonal of U of a = P L U, the first element negated where P is odd. */
static void OF(pivots_of)(const T *a, T *diagonal, T *room, int *pivots, int n) {
    int info;
    memcpy(room, a, (size_t)n * (size_t)n * sizeof *a);
    CALL(getrf_)(&n, &n, room, &n, pivots, &info);
    for (int i = 0; i < n; i++) diagonal[i] = room[(int64_t)i * n + i];
    for (int i = 0; i < n; i++)
        if (pivots[i] != i + 1) diagonal[0] = -diagonal[0];
}

/* room: m * n + m * k elements, k of tau, and `most` for LAPACK. */
static bool OF(qr)(const T *a, T *q, T *r, T *room, int m, int n, int most) {
    int k = m < n ? m : n, info;
    T *by_columns = room, *tau = room + (int64_t)m * n, *work = tau + k;
    OF(transpose)(by_columns, a, m, n);
    CALL(geqrf_)(&m, &n, by_columns, &m, tau, work, &most, &info);
    if (info) return false;
    for (int i = 0; i < k; i++)
        for (int j = 0; j < n; j++) r[(int64_t)i * n + j] = j < i ? 0 : by_columns[(int64_t)j * m + i];
#if COMPLEX_TYPE
    CALL(ungqr_)(&m, &k, &k, by_columns, &m, tau, work, &most, &info);
#else
    CALL(orgqr_)(&m, &k, &k, by_columns, &m, tau, work, &most, &info);
#endif
    OF(transpose)(q, by_columns, k, m);
    return info == 0;
}

/* What lies by columns is the conjugate of a, and so are its vectors. */
static bool OF(eigh)(const T *a, R *values, T *vectors, T *room, int *whole, int n, int most, int most_whole) {
    int info;
    T *by_columns = room, *work = room + (int64_t)n * n;
    memcpy(by_columns, a, (size_t)n * (size_t)n * sizeof *a);
    if (!OF(is_finite)(a, (int64_t)n * n)) return false;
#if COMPLEX_TYPE
    int most_rest = 1 + 5 * n + 2 * n * n;
    CALL(heevd_)
    ("V", "U", &n, by_columns, &n, values, work, &most, (R *)(work + most), &most_rest, whole, &most_whole, &info, 1,
     1);
    for (int64_t i = 0; i < (int64_t)n * n; i++) by_columns[i] = (T)conj(by_columns[i]);
#else
    CALL(syevd_)("V", "U", &n, by_columns, &n, values, work, &most, whole, &most_whole, &info, 1, 1);
#endif
    OF(transpose)(vectors, by_columns, n, n);
    return info == 0;
}

/* a = U S V, of which V is the adjoint of what is often called so: by columns a is V^T S U^T. */
static bool OF(svd)(const T *a, T *u, R *values, T *v, T *room, int *whole, int m, int n, int most) {
    int k = m < n ? m : n, info;
    T *by_columns = room, *work = room + (int64_t)m * n;
    memcpy(by_columns, a, (size_t)m * (size_t)n * sizeof *a);
    if (!OF(is_finite)(a, (int64_t)m * n)) return false;
#if COMPLEX_TYPE
    CALL(gesdd_)
    ("S", &n, &m, by_columns, &n, values, v, &n, u, &k, work, &most, (R *)(work + most), whole, &info, 1);
#else
    CALL(gesdd_)("S", &n, &m, by_columns, &n, values, v, &n, u, &k, work, &most, whole, &info, 1);
#endif
    return info == 0;
}
