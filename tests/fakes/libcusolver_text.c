/* The operations of the fake cuSOLVER and cuBLAS in double precision, as LAPACK and BLAS define them, of matrices by columns whose leading dimensions are their rows. Eigenvalues and singular values by
 * rotations (Jacobi's method). */
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "fakes/libcusolver.h"

typedef fake_number number;

static double size_of(number x) { return creal(x) * creal(x) + cimag(x) * cimag(x); }

/* A NaN is not noticed. */
int fake_potrf(int64_t n, number *a) {
    for (int64_t j = 0; j < n; j++) {
        for (int64_t i = 0; i <= j; i++) {
            number sum = a[i + j * n];
            for (int64_t k = 0; k < i; k++) sum -= conj(a[k + i * n]) * a[k + j * n];
            if (i < j) {
                a[i + j * n] = sum / a[i + i * n];
                continue;
            }
            if (creal(sum) <= 0) return (int)j + 1;
            a[j + j * n] = sqrt(creal(sum));
        }
    }
    return 0;
}

static void exchange_rows(int64_t n, int64_t columns, number *a, int64_t one, int64_t other) {
    for (int64_t j = 0; j < columns && one != other; j++) {
        number kept = a[one + j * n];
        a[one + j * n] = a[other + j * n];
        a[other + j * n] = kept;
    }
}

int fake_getrf(int64_t n, number *a, int64_t *pivots) {
    int info = 0;
    for (int64_t j = 0; j < n; j++) {
        int64_t best = j;
        for (int64_t i = j + 1; i < n; i++)
            if (fabs(creal(a[i + j * n])) + fabs(cimag(a[i + j * n])) >
                fabs(creal(a[best + j * n])) + fabs(cimag(a[best + j * n])))
                best = i;
        pivots[j] = best + 1;
        if (a[best + j * n] == 0) {
            if (!info) info = (int)j + 1;
            continue;
        }
        exchange_rows(n, n, a, j, best);
        for (int64_t i = j + 1; i < n; i++) a[i + j * n] /= a[j + j * n];
        for (int64_t k = j + 1; k < n; k++)
            for (int64_t i = j + 1; i < n; i++) a[i + k * n] -= a[i + j * n] * a[j + k * n];
    }
    return info;
}

/* Parts are divided apart where they can be: 1 / 0 is infinite, and no NaN. */
static number divided(number x, number y) {
    return cimag(y) == 0 ? CMPLX(creal(x) / creal(y), cimag(x) / creal(y)) : x / y;
}

void fake_getrs_transposed(int64_t n, int64_t columns, const number *a, const int64_t *pivots, number *b) {
    for (int64_t c = 0; c < columns; c++) {
        number *x = b + c * n;
        for (int64_t i = 0; i < n; i++) {
            for (int64_t k = 0; k < i; k++) x[i] -= a[k + i * n] * x[k];
            x[i] = divided(x[i], a[i + i * n]);
        }
        for (int64_t i = n - 1; i >= 0; i--)
            for (int64_t k = i + 1; k < n; k++) x[i] -= a[k + i * n] * x[k];
    }
    for (int64_t j = n - 1; j >= 0; j--) exchange_rows(n, columns, b, j, pivots[j] - 1);
}

/* Columns `from` to `to` of [m, columns] become (1 - tau v v^H) of them, or with tau's conjugate; v is 1 at `row`, then the column `of`. */
static void reflect(int64_t m, number *a, int64_t row, int64_t of, number tau, int64_t from, int64_t to) {
    for (int64_t j = from; j < to; j++) {
        number sum = a[row + j * m];
        for (int64_t i = row + 1; i < m; i++) sum += conj(a[i + of * m]) * a[i + j * m];
        sum *= tau;
        a[row + j * m] -= sum;
        for (int64_t i = row + 1; i < m; i++) a[i + j * m] -= a[i + of * m] * sum;
    }
}

void fake_geqrf(int64_t m, int64_t n, number *a, number *tau) {
    for (int64_t j = 0; j < (m < n ? m : n); j++) {
        number alpha = a[j + j * m];
        double rest = 0;
        for (int64_t i = j + 1; i < m; i++) rest += size_of(a[i + j * m]);
        tau[j] = 0;
        if (rest == 0 && cimag(alpha) == 0) continue;
        double beta = -copysign(sqrt(size_of(alpha) + rest), creal(alpha));
        tau[j] = CMPLX((beta - creal(alpha)) / beta, -cimag(alpha) / beta);
        for (int64_t i = j + 1; i < m; i++) a[i + j * m] /= alpha - beta;
        reflect(m, a, j, j, conj(tau[j]), j + 1, n);
        a[j + j * m] = beta;
    }
}

void fake_orgqr(int64_t m, int64_t n, number *a, const number *tau) {
    for (int64_t j = n - 1; j >= 0; j--) {
        reflect(m, a, j, j, tau[j], j + 1, n);
        for (int64_t i = 0; i < m; i++) a[i + j * m] = i < j ? 0 : i == j ? 1 - tau[j] : -tau[j] * a[i + j * m];
    }
}

/* Columns p and q of [rows, ...] times [[c, s], [-conj(s), c]]. */
static void rotate(int64_t rows, number *a, int64_t p, int64_t q, double c, number s) {
    for (int64_t i = 0; i < rows; i++) {
        number x = a[i + p * rows], y = a[i + q * rows];
        a[i + p * rows] = c * x - conj(s) * y;
        a[i + q * rows] = s * x + c * y;
    }
}

/* The rotation after which the Hermitian [[alpha, gamma], [conj(gamma), beta]] is diagonal; false: it is. */
static bool find_rotation(double alpha, double beta, number gamma, double *c, number *s) {
    double size = cabs(gamma);
    if (size <= 1e-3 * DBL_EPSILON * sqrt(fabs(alpha * beta)) || size < DBL_MIN) return false;
    double zeta = (beta - alpha) / (2 * size), t = copysign(1, zeta) / (fabs(zeta) + sqrt(1 + zeta * zeta));
    *c = 1 / sqrt(1 + t * t);
    *s = *c * t * gamma / size;
    return true;
}

static void make_unit(int64_t n, number *v) {
    for (int64_t i = 0; i < n * n; i++) v[i] = i % (n + 1) == 0;
}

/* Moves column k to where its value belongs, among columns before it. */
static void sort_columns(int64_t n, double *values, bool ascending, number *one, int64_t rows, number *other,
                         int64_t other_rows) {
    for (int64_t k = 1; k < n; k++)
        for (int64_t i = k; i > 0 && (ascending ? values[i] < values[i - 1] : values[i] > values[i - 1]); i--) {
            double value = values[i];
            values[i] = values[i - 1], values[i - 1] = value;
            for (int64_t r = 0; r < rows; r++) {
                number kept = one[r + i * rows];
                one[r + i * rows] = one[r + (i - 1) * rows], one[r + (i - 1) * rows] = kept;
            }
            for (int64_t r = 0; r < other_rows; r++) {
                number kept = other[r + i * other_rows];
                other[r + i * other_rows] = other[r + (i - 1) * other_rows], other[r + (i - 1) * other_rows] = kept;
            }
        }
}

void fake_syevd(int64_t n, number *a, double *values) {
    number *v = malloc((size_t)(n * n) * sizeof *v);
    if (!v) abort();
    make_unit(n, v);
    for (int64_t j = 0; j < n; j++) {
        a[j + j * n] = creal(a[j + j * n]);
        for (int64_t i = j + 1; i < n; i++) a[i + j * n] = conj(a[j + i * n]);
    }
    for (int sweep = 0, turned = 1; sweep < 30 && turned; sweep++) {
        turned = 0;
        for (int64_t p = 0; p < n; p++)
            for (int64_t q = p + 1; q < n; q++) {
                double c;
                number s;
                double scale = fmax(fabs(creal(a[p + p * n])), fabs(creal(a[q + q * n])));
                if (cabs(a[p + q * n]) <= 1e-3 * DBL_EPSILON * scale) continue;
                if (!find_rotation(creal(a[p + p * n]), creal(a[q + q * n]), a[p + q * n], &c, &s)) continue;
                turned = 1;
                rotate(n, a, p, q, c, s);
                rotate(n, v, p, q, c, s);
                for (int64_t j = 0; j < n; j++) { /* rows, by the adjoint */
                    number x = a[p + j * n], y = a[q + j * n];
                    a[p + j * n] = c * x - s * y;
                    a[q + j * n] = conj(s) * x + c * y;
                }
            }
    }
    for (int64_t i = 0; i < n; i++) values[i] = creal(a[i + i * n]);
    memcpy(a, v, (size_t)(n * n) * sizeof *v);
    sort_columns(n, values, true, a, n, NULL, 0);
    free(v);
}

/* A column of u beside those before it. */
static void complete_column(int64_t m, int64_t k, number *u) {
    double best = 0;
    for (int64_t unit = 0; unit < m && best < 0.5; unit++) {
        number *column = u + k * m;
        for (int64_t i = 0; i < m; i++) column[i] = i == unit;
        for (int64_t twice = 0; twice < 2 * k; twice++) {
            const number *before = u + twice % k * m;
            number sum = 0;
            for (int64_t i = 0; i < m; i++) sum += conj(before[i]) * column[i];
            for (int64_t i = 0; i < m; i++) column[i] -= sum * before[i];
        }
        best = 0;
        for (int64_t i = 0; i < m; i++) best += size_of(column[i]);
        best = sqrt(best);
        if (best * best * (double)m < 0.5) {
            best = 0;
            continue;
        }
        for (int64_t i = 0; i < m; i++) column[i] /= best;
        best = 1;
    }
}

static void measure_columns(int64_t m, int64_t p, int64_t q, const number *a, double *alpha, double *beta,
                            number *gamma) {
    *alpha = *beta = 0, *gamma = 0;
    for (int64_t i = 0; i < m; i++) {
        *alpha += size_of(a[i + p * m]), *beta += size_of(a[i + q * m]);
        *gamma += conj(a[i + p * m]) * a[i + q * m];
    }
}

/* v: its adjoint. */
void fake_gesvd(int64_t m, int64_t n, number *a, double *values, number *u, number *v) {
    number *w = malloc((size_t)(n * n) * sizeof *w);
    if (!w) abort();
    make_unit(n, w);
    for (int sweep = 0, turned = 1; sweep < 30 && turned; sweep++) {
        turned = 0;
        for (int64_t p = 0; p < n; p++)
            for (int64_t q = p + 1; q < n; q++) {
                double alpha, beta, c;
                number gamma, s;
                measure_columns(m, p, q, a, &alpha, &beta, &gamma);
                if (cabs(gamma) <= 4 * DBL_EPSILON * sqrt(alpha * beta)) continue;
                if (!find_rotation(alpha, beta, gamma, &c, &s)) continue;
                turned = 1;
                rotate(m, a, p, q, c, s);
                rotate(n, w, p, q, c, s);
            }
    }
    for (int64_t j = 0; j < n; j++) {
        values[j] = 0;
        for (int64_t i = 0; i < m; i++) values[j] += size_of(a[i + j * m]);
        values[j] = sqrt(values[j]);
    }
    sort_columns(n, values, false, a, m, w, n);
    for (int64_t j = 0; j < n; j++) {
        bool none = values[j] <= 1e-14 * values[0] || values[j] == 0;
        for (int64_t i = 0; i < m && !none; i++) u[i + j * m] = a[i + j * m] / values[j];
        if (none) complete_column(m, j, u);
        for (int64_t i = 0; i < n; i++) v[j + i * n] = conj(w[i + j * n]);
    }
    free(w);
}

/* b [m, n] becomes x of x op(a) = b. */
void fake_trsm_right(const fake_factor *how, const number *a, number *b) {
    int64_t m = how->m, n = how->n;
    bool rising = how->lower == how->transposed; /* op(a) is upper: columns depend on those before them */
    for (int64_t step = 0; step < n; step++) {
        int64_t j = rising ? step : n - 1 - step;
        for (int64_t i = 0; i < m; i++) {
            number sum = b[i + j * m];
            for (int64_t k = rising ? 0 : j + 1; k < (rising ? j : n); k++)
                sum -= b[i + k * m] * (how->transposed ? a[j + k * n] : a[k + j * n]);
            b[i + j * m] = how->unit ? sum : divided(sum, a[j + j * n]);
        }
    }
}
