#include "cli/bench.h"

#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { COPY_BYTES = 128 << 20, COPIES = 7, MAX_THREADS = 64, LEAST_WARM_UP = 2, SAMPLE = 1 << 22 };
#define WARM_UP_SECONDS 0.5 /* kernels that run often enough are compiled by then */

static int ascending(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double bench_median(double *seconds, int count) {
    qsort(seconds, (size_t)count, sizeof *seconds, ascending);
    return (seconds[(count - 1) / 2] + seconds[count / 2]) / 2;
}

/* --- rows ----------------------------------------------------------------------------------------------------------- */

static uint64_t kernels_compiled(void) {
    bt_compiler_info info = BT_COMPILER_INFO_INIT;
    return bt_compiler(false, &info) == BT_OK ? info.kernels : 0;
}

/* Elements of a large result that are equally far apart, a few million at most. */
static bt_array *some_of(bt_array *x) {
    int64_t count = bt_count(x);
    return bt_slice_axis(bt_flatten(x, 0), 0, 0, count, count / SAMPLE + 1);
}

bool bench_once(const bench_row *row, bench_work *work, const char *file, bench_sample *sample) {
    bool done = false;
    uint64_t kernels = kernels_compiled();
    BT_SCOPE {
        double start = bti_now_seconds();
        bt_array *result = row->run(work);
        done = bt_block(result) == BT_OK;
        sample->seconds = (bti_now_seconds() - start) / (row->steps ? row->steps : 1);
        sample->kernels = kernels_compiled() - kernels;
        if (done && file) {
            bt_array *checked = row->check ? row->check(work) : result;
            done = bt_save_npy(file, row->shrinks ? some_of(checked) : checked) == BT_OK;
        }
    }
    work->repetition++;
    return done;
}

/* Repetitions of the warm-up count down from 0: those that are measured do something new. */
bool bench_warm_up(const bench_row *row, bench_work *work) {
    double start = bti_now_seconds();
    if (row->prepare && !row->prepare(work)) return false;
    for (int i = 0; i < LEAST_WARM_UP || bti_now_seconds() - start < WARM_UP_SECONDS; i++) {
        bench_sample sample;
        work->repetition = -1 - i;
        if (!bench_once(row, work, NULL, &sample)) return false;
    }
    work->repetition = 0;
    return true;
}

/* --- the memory's limit --------------------------------------------------------------------------------------------- */

typedef struct part {
    char *to;
    const char *from;
    size_t bytes;
} part;

static void *copy_part(void *data) {
    part *p = data;
    memcpy(p->to, p->from, p->bytes);
    return NULL;
}

static int thread_count(void) {
    char text[32];
    cpu_set_t cpus;
    int count = bt_get_flag("threads", text, sizeof text) == BT_OK ? atoi(text) : 0;
    if (!count) count = sched_getaffinity(0, sizeof cpus, &cpus) ? 1 : CPU_COUNT(&cpus);
    return count < MAX_THREADS ? count : MAX_THREADS;
}

static double copy_once(char *to, const char *from, int threads) {
    pthread_t others[MAX_THREADS];
    part parts[MAX_THREADS];
    bool started[MAX_THREADS] = {false};
    double start = bti_now_seconds();
    for (int i = threads - 1; i >= 0; i--) {
        size_t begin = (size_t)COPY_BYTES * (size_t)i / (size_t)threads;
        size_t end = (size_t)COPY_BYTES * (size_t)(i + 1) / (size_t)threads;
        parts[i] = (part){to + begin, from + begin, end - begin};
        started[i] = i && !pthread_create(&others[i], NULL, copy_part, &parts[i]);
        if (!started[i]) copy_part(&parts[i]);
    }
    for (int i = 1; i < threads; i++)
        if (started[i]) pthread_join(others[i], NULL);
    return bti_now_seconds() - start;
}

double bench_copy_rate(const bench_target *target) {
    if (strcmp(target->device, "cpu")) return bench_device_copy_rate(target);
    char *from = malloc(COPY_BYTES), *to = malloc(COPY_BYTES);
    double seconds[COPIES], rate = 0;
    int threads = thread_count();
    if (from && to) {
        memset(from, 1, COPY_BYTES);
        copy_once(to, from, threads);
        for (int i = 0; i < COPIES; i++) seconds[i] = copy_once(to, from, threads);
        rate = 2.0 * COPY_BYTES / bench_median(seconds, COPIES);
    }
    free(from);
    free(to);
    return rate;
}
