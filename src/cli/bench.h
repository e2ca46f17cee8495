/* The parts of `berth bench`. bench/README.md says what the rows are; bench/peers.py does the same with other libraries. */
#ifndef BTI_CLI_BENCH_H
#define BTI_CLI_BENCH_H

#include "base/clock.h"
#include "cli/cli.h"

enum { BENCH_INPUTS = 3, BENCH_PARAMETERS = 6, BENCH_SMALL_STEPS = 200, BENCH_MEDIUM_STEPS = 10 };

/* Where rows run and how large they are. */
typedef struct bench_target {
    const char *device;
    const char *mixed[2]; /* of random100m_mixed: the outer parts, the middle */
    int shrink;           /* what large rows are divided by; 1: nothing */
} bench_target;

/* What a row keeps between its repetitions; arrays, functions and variables are of the scope around the row. */
typedef struct bench_work {
    const bench_target *target;
    bt_array *inputs[BENCH_INPUTS];
    bt_function *function;
    bt_shared *parameters[BENCH_PARAMETERS];
    int64_t repetition; /* counts up; rows that do something new each time take it from here */
} bench_work;

typedef struct bench_row {
    const char *name, *does;
    /* Makes what is ready before the clock starts. False with the cause in the error record; NULL: nothing to make. */
    bool (*prepare)(bench_work *work);
    /* One repetition: the array to wait for; may be poisoned. */
    bt_array *(*run)(bench_work *work);
    /* What is compared with other libraries; NULL: what `run` returned. */
    bt_array *(*check)(bench_work *work);
    double bytes; /* least that a repetition reads and writes in memory; 0: no measure of this row */
    double flops; /* of one step; 0 likewise */
    int steps;    /* in a repetition, whose time is divided by it; 0: one */
    int shrinks; /* large: shrink goes to this power into bytes and flops, and a part of the result is compared; 0: not large */
} bench_row;

double bench_bytes(const bench_row *row, const bench_target *target);
double bench_flops(const bench_row *row, const bench_target *target);

/* --- the rows (bench_rows.c, bench_large.c, bench_launch.c) ----------------------------------------------------------- */

/* Every row; those that are meant for devices stand last, bench_row_common() come before. */
int bench_row_common(void);
int bench_row_count(void);
const bench_row *bench_row_at(int index);
/* NULL, after it said which row is nearest, when there is none of that name. */
const bench_row *bench_row_find(char **argv, const char *name);

/* --- inputs that other libraries can make alike (bench_inputs.c) ------------------------------------------------------ */

/* [shape] float32 in [low, high), computed: element i of seed s is low + (high - low) * (fmix32(i + s * 0x9E3779B9) >> 8) / 2^24,
 * fmix32 being the last step of MurmurHash3. bench_integers: int32, fmix32 % limit. */
bt_array *bench_floats(uint32_t seed, float low, float high, bt_shape shape);
bt_array *bench_integers(uint32_t seed, uint32_t limit, bt_shape shape);
/* Their first 1,000,003 elements over and over, which takes less time to make. */
bt_array *bench_repeated_floats(uint32_t seed, float low, float high, bt_shape shape);
bt_array *bench_repeated_integers(uint32_t seed, uint32_t limit, bt_shape shape);

/* --- rows that are large enough for a GPU, and those of launches ------------------------------------------------------ */

extern const bench_row bench_large_rows[], bench_launch_rows[];
extern const int bench_large_count, bench_launch_count;

/* --- training steps (bench_steps.c) and rows about the start of things (bench_start.c) -------------------------------- */

bool bench_prepare_small(bench_work *work);
bt_array *bench_run_small(bench_work *work);
bt_array *bench_check_small(bench_work *work);
bool bench_prepare_medium(bench_work *work);
bt_array *bench_run_medium(bench_work *work);
bt_array *bench_check_medium(bench_work *work);
bool bench_prepare_large(bench_work *work);
bt_array *bench_run_large(bench_work *work);
bt_array *bench_check_large(bench_work *work);

bool bench_prepare_compile(bench_work *work);
bt_array *bench_run_compile(bench_work *work);
/* A process of its own, `berth bench --startup-probe`, from its start to its end; and what that one does. device: NULL for the
 * default. With `ledger`, what took how long. */
bt_array *bench_run_startup(bench_work *work);
int bench_startup_probe(char **argv, const char *device, bool ledger);

/* --- timing (bench_time.c) -------------------------------------------------------------------------------------------- */

typedef struct bench_sample {
    double seconds;   /* of one step */
    uint64_t kernels; /* that were compiled meanwhile */
} bench_sample;

/* Runs the row once. `file` (may be NULL): where what is to be compared is saved, as .npy, after the clock has stopped. False with
 * the cause in the error record. */
bool bench_once(const bench_row *row, bench_work *work, const char *file, bench_sample *sample);
/* Prepares the row and runs it until nothing is done for the first time any more. */
bool bench_warm_up(const bench_row *row, bench_work *work);

double bench_median(double *seconds, int count); /* sorts them */
/* Bytes per second, read and written, of a copy: on the CPU of 128 MiB on as many threads as kernels may use, on devices of 256 MiB
 * (bench_copy.c), by CUDA itself or else by a kernel. 0: could not be measured. */
double bench_copy_rate(const bench_target *target);
double bench_device_copy_rate(const bench_target *target);

/* Rows by their names from standard input (bench_interactive.c). */
int bench_interactive(char **argv, const bench_target *target);

#endif
