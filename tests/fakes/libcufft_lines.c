/* The transforms of the fake cuFFT, in double precision, by the smallest factors of the number of points. What the documentation calls undefined is spoilt: the workspace, what a transform to
 * real numbers has read, and results of half lines whose ends are not real. */
#include <complex.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "fakes/libcuda.h"
#include "fakes/libcufft.h"
#include "fakes/memory.h"

#define POISON 0xa5

typedef double _Complex number;

static int64_t smallest_factor(int64_t n) {
    for (int64_t p = 2; p * p <= n; p++)
        if (n % p == 0) return p;
    return n;
}

/* to[k] = the sum of from[j * step] e**(sign 2 pi i j k / n). */
static void transform(const number *from, int64_t step, int64_t n, int sign, number *to) {
    if (n == 1) {
        to[0] = from[0];
        return;
    }
    int64_t p = smallest_factor(n), m = n / p;
    number *parts = malloc((size_t)n * sizeof *parts);
    if (!parts) abort();
    for (int64_t r = 0; r < p; r++) transform(from + r * step, step * p, m, sign, parts + r * m);
    for (int64_t k = 0; k < n; k++) {
        number sum = 0;
        for (int64_t r = 0; r < p; r++)
            sum += parts[r * m + k % m] * cexp(sign * 2 * M_PI * I * (double)(r * k % n) / (double)n);
        to[k] = sum;
    }
    free(parts);
}

static number element_at(const fake_fft_plan *plan, const void *memory, int64_t i) {
    bool wide = fake_fft_is_wide(plan->type), real = fake_fft_is_real(plan->type, 0);
    const float *narrow = memory;
    const double *doubles = memory;
    if (real) return wide ? doubles[i] : (double)narrow[i];
    return wide ? doubles[2 * i] + I * doubles[2 * i + 1] : (double)narrow[2 * i] + I * (double)narrow[2 * i + 1];
}

static void store_at(const fake_fft_plan *plan, void *memory, int64_t i, number value) {
    bool wide = fake_fft_is_wide(plan->type), real = fake_fft_is_real(plan->type, 1);
    float *narrow = memory;
    double *doubles = memory;
    for (int part = 0; part < (real ? 1 : 2); part++) {
        double x = part ? cimag(value) : creal(value);
        int64_t at = real ? i : 2 * i + part;
        if (wide)
            doubles[at] = x;
        else
            narrow[at] = (float)x;
    }
}

/* A whole line of points from what is read of it. */
static void gather(const fake_fft_plan *plan, const void *memory, int64_t line, number *points) {
    int64_t read = fake_fft_points(plan, 0), n = plan->n;
    for (int64_t k = 0; k < read; k++) points[k] = element_at(plan, memory, line * plan->apart[0] + k * plan->step[0]);
    if (read == n && !fake_fft_is_real(plan->type, 1)) return;
    if (!fake_fft_is_real(plan->type, 1)) return;
    for (int64_t k = read; k < n; k++) points[k] = conj(points[n - k]);
    points[0] += cimag(points[0]);
    if (n % 2 == 0) points[n / 2] -= cimag(points[n / 2]);
}

static void note(const fake_fft_plan *plan) {
    double points = (double)plan->n * (double)plan->lines;
    fake_note_product((uint64_t)(points * 2 * log2((double)plan->n + 1)),
                      fake_fft_bytes(plan, 0) + fake_fft_bytes(plan, 1), fake_fft_is_wide(plan->type) ? "f64" : "f32");
}

/* In parts that are read and written by line, since columns lie between each other. */
static void make_lines(const fake_fft *fft, const void *from, void *to) {
    const fake_fft_plan *plan = &fft->plan;
    bool forward =
        fake_fft_is_real(plan->type, 0) || (!fake_fft_is_real(plan->type, 1) && fft->direction == CUFFT_FORWARD);
    int64_t written = fake_fft_points(plan, 1);
    number *points = malloc((size_t)plan->n * 2 * sizeof *points), *made = points + plan->n;
    if (!points) abort();
    for (int64_t line = 0; line < plan->lines; line++) {
        gather(plan, from, line, points);
        transform(points, 1, plan->n, forward ? -1 : 1, made);
        for (int64_t k = 0; k < written; k++) store_at(plan, to, line * plan->apart[1] + k * plan->step[1], made[k]);
    }
    free(points);
}

void fake_run_fft(void *data) {
    const fake_fft *fft = data;
    const fake_fft_plan *plan = &fft->plan;
    uint64_t read = fake_fft_bytes(plan, 0), written = fake_fft_bytes(plan, 1);
    note(plan);
    if (fake_sample_of(UINT64_MAX)) { /* a sample of the results is wanted, for its counts */
        (void)fake_write_memory(fft->address[1], written);
        return;
    }
    void *workspace = plan->workspace_bytes ? fake_write_memory(plan->workspace, plan->workspace_bytes) : NULL;
    if (workspace) memset(workspace, POISON, plan->workspace_bytes);
    const void *from = fake_read_memory(fft->address[0], read);
    void *to = from ? fake_write_memory(fft->address[1], written) : NULL;
    if (!to) return;
    char *copy = malloc(read);
    if (!copy) abort();
    memcpy(copy, from, read);
    make_lines(fft, copy, to);
    free(copy);
    void *spoilt = fake_fft_is_real(plan->type, 1) ? fake_write_memory(fft->address[0], read) : NULL;
    if (spoilt) memset(spoilt, POISON, read);
    fake_log("fft %d %lld %lld", plan->type, (long long)plan->n, (long long)plan->lines);
}
