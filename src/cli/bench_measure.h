/* Measuring rows of `berth bench`, and the rate of a copy to compare them with. */
#ifndef BTI_CLI_BENCH_MEASURE_H
#define BTI_CLI_BENCH_MEASURE_H

#include "cli/bench_row.h"

typedef struct bench_sample {
    double seconds;           /* of one step */
    double processor_seconds; /* of the process's threads together, of one step */
    uint64_t kernels;         /* how many were compiled meanwhile */
} bench_sample;

/* Runs the row once. The result that is compared is saved as .npy to `file` (may be NULL) after the clock has stopped. False with the
 * cause in the error record. */
bool bench_run_once(const bench_row *row, bench_work *work, const char *file, bench_sample *sample);
/* Prepares the row and runs it until caches, compilers and pools no longer change its time. */
bool bench_warm_up(const bench_row *row, bench_work *work);

/* How many cores kernels may use; the time of the process's threads together on processors. */
int bench_cores(void);
double bench_processor_seconds(void);

double bench_median(double *seconds, int count); /* sorts them */

/* Bytes per second, read plus written, of a copy within the memory of the target's device: on the CPU of 128 MiB, by as many threads as
 * kernels may use; on other devices of 256 MiB, by CUDA itself or else by a kernel. 0: could not be measured. */
double bench_copy_rate(const bench_target *target);

#endif
