/* The figures of a model of a CPU (docs/simulated-devices.md), each measured by itself: what one kind of work takes that little else is part of. None is fitted to
 * a row of `berth bench`. */
#include "cli/bench_figures.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "cli/bench_inputs.h"
#include "cli/bench_measure.h"
#include "cli/cli.h"

#define MOST_SECONDS 0.15 /* for one measurement */
enum {
    LEAST_TIMES = 5,
    MOST_TIMES = 300,
    LANES = 16,   /* of the model: two vectors of AVX2 in a clock; what more or fewer do is part of the clock */
    WAITS = 4,    /* of the model: loads that a core waits for at once */
    CALL_NS = 30, /* of the model: part of what a launch takes */
    HOST_NS = 50, /* of the model */
    KERNELS = 100,
    RECORDED = 1000,
    LINES = 32768, /* elements that stay in a core's own cache */
    MEMORY_BYTES = 64 << 20,
    CACHED_BYTES = 1 << 20,
    MOST_CACHED_BYTES = 64 << 20,
    ROW = 16, /* floats of a line of the caches */
    ROWS = 200000
};

typedef struct work {
    bt_function *function;
    bt_array *inputs[2];
    int count;
} work;

typedef struct moment {
    double wall, used; /* used: by the process's threads together */
} moment;

static moment now(bool begins) {
    moment m = {0};
    if (!begins) m.wall = bti_now_seconds();
    m.used = bench_processor_seconds();
    if (begins) m.wall = bti_now_seconds();
    return m;
}

/* With one core the processor's time, if it is less: other processes do not lengthen it by running in between. */
static double seconds_since(const moment *start) {
    moment end = now(false);
    double wall = end.wall - start->wall;
    return bench_cores() > 1 ? wall : fmin(wall, end.used - start->used);
}

static double time_once(const work *w) {
    double seconds = INFINITY;
    BT_SCOPE {
        moment start = now(true);
        bt_array *result = bt_call1(w->function, w->inputs, w->count);
        if (bt_block(result) == BT_OK) seconds = seconds_since(&start);
    }
    return seconds;
}

/* The least of many repetitions, in seconds: what comes between makes the others longer. INFINITY: it failed. */
static double least_of(bt_array *const *inputs, bt_array *output, bt_array *const *values, int count) {
    work w = {.count = count};
    bt_array *results[] = {output};
    double least = INFINITY, begun = bti_now_seconds();
    for (int i = 0; i < count; i++)
        if (bt_block(w.inputs[i] = values[i]) != BT_OK) return INFINITY;
    w.function = bt_function_new(inputs, count, results, 1, NULL, 0);
    for (int i = 0; w.function && i < MOST_TIMES; i++) {
        if (i >= LEAST_TIMES && bti_now_seconds() - begun > MOST_SECONDS) break;
        least = fmin(least, time_once(&w));
    }
    return least;
}

/* --- the host and launches --------------------------------------------------------------------------------------------- */

/* Of a call of `kernels` small kernels. */
static double time_of_kernels(int kernels) {
    double seconds = INFINITY;
    BT_SCOPE {
        bt_array *x = bt_input(BT_F32, 4), *y = x, *value = bench_floats(1, -1, 1, BT_SHAPE(4));
        for (int i = 0; i < kernels; i++) y = bt_add(y, bt_num(1));
        seconds = least_of(&x, y, &value, 1);
    }
    return seconds;
}

static double time_of_recording(void) {
    double least = INFINITY;
    for (int times = 0; times < 20; times++) {
        BT_SCOPE {
            bt_array *x = bench_floats(1, -1, 1, BT_SHAPE(4)), *y = bench_floats(2, -1, 1, BT_SHAPE(4));
            moment start = now(true);
            for (int i = 0; i < RECORDED; i++) x = bt_add(x, y);
            if (bt_block(x) == BT_OK) least = fmin(least, seconds_since(&start));
        }
    }
    return least / RECORDED;
}

/* --- computing --------------------------------------------------------------------------------------------------------- */

static double time_of_chain(int steps) {
    double seconds = INFINITY;
    BT_SCOPE {
        bt_array *x = bt_input(BT_F32, LINES), *y = x, *value = bench_floats(1, 0, 0.5, BT_SHAPE(LINES));
        for (int i = 0; i < steps; i++) y = bt_add(bt_mul(y, x), x);
        seconds = least_of(&x, y, &value, 1);
    }
    return seconds;
}

static double time_of_product(bt_dtype dtype, int64_t side) {
    double seconds = INFINITY;
    BT_SCOPE {
        bt_array *inputs[2], *values[2];
        for (uint32_t i = 0; i < 2; i++) {
            inputs[i] = bt_input(dtype, side, side);
            values[i] = bt_cast(bench_floats(i + 1, -1, 1, BT_SHAPE(side, side)), dtype);
        }
        seconds = least_of(inputs, bt_matmul(inputs[0], inputs[1]), values, 2);
    }
    return seconds;
}

/* In TFLOP/s. */
static double rate_of_product(bt_dtype dtype, int64_t side) {
    return 2e-12 * (double)side * (double)side * (double)side / time_of_product(dtype, side);
}

/* --- memory ------------------------------------------------------------------------------------------------------------ */

/* Bytes in a nanosecond of a kernel that reads so many, and writes as many if `writes`. */
static double rate_of_memory(int64_t bytes, bool writes, double overhead) {
    double seconds = INFINITY;
    BT_SCOPE {
        bt_array *x = bt_input(BT_F32, -1), *value = bench_repeated_floats(1, -1, 1, BT_SHAPE(bytes / 4));
        seconds = least_of(&x, writes ? bt_neg(x) : bt_max(x, BT_ALL, false), &value, 1);
    }
    return (writes ? 2 : 1) * (double)bytes * 1e-9 / (seconds - overhead);
}

/* The most bytes that are read at a rate nearer to the cache's than to the memory's. */
static int64_t size_of_cache(double cached, double memory, double overhead) {
    int64_t bytes = CACHED_BYTES;
    while (bytes < MOST_CACHED_BYTES && rate_of_memory(2 * bytes, false, overhead) > (cached + memory) / 2) bytes *= 2;
    return bytes;
}

/* Of one line of many, at random, while others are waited for. */
static double time_of_line(double overhead) {
    double seconds = INFINITY;
    const int64_t lines = MEMORY_BYTES / (4 * ROW);
    BT_SCOPE {
        bt_array *inputs[2] = {bt_input(BT_F32, lines, ROW), bt_input(BT_I32, ROWS)};
        bt_array *values[2] = {bench_repeated_floats(1, -1, 1, BT_SHAPE(lines, ROW)),
                               bench_integers(2, (uint32_t)lines, BT_SHAPE(ROWS))};
        seconds = least_of(inputs, bt_take(inputs[0], inputs[1], 0), values, 2);
    }
    return (seconds - overhead) / ROWS;
}

static double rate_of_host(void) {
    double least = INFINITY;
    float *memory = calloc(MEMORY_BYTES, 1);
    for (int times = 0; memory && times < 2 * LEAST_TIMES; times++) {
        BT_SCOPE {
            moment start = now(true);
            if (bt_block(bt_from(memory, BT_F32, BT_SHAPE(MEMORY_BYTES / 4))) == BT_OK)
                least = fmin(least, seconds_since(&start));
        }
    }
    free(memory);
    return MEMORY_BYTES * 1e-9 / least;
}

/* --- all --------------------------------------------------------------------------------------------------------------- */

/* Of a kernel of a plan: a launch more. */
static double time_of_launch(double launch) {
    if (bt_set_flag("fuse", "off") != BT_OK) return INFINITY;
    double seconds = (time_of_kernels(1 + KERNELS) - launch) / KERNELS;
    return bt_set_flag("fuse", "on") == BT_OK ? seconds : INFINITY;
}

/* In the order of sim_model.def. */
enum { FIGURES = 18 };
typedef struct figure {
    const char *name;
    double value;
} figure;

static void measure(figure *figures) {
    const double cores = bench_cores(), launch = time_of_kernels(1), kernel = time_of_launch(launch);
    const double chain = (time_of_chain(10) - time_of_chain(2)) / (2 * 8);
    const double memory = rate_of_memory(MEMORY_BYTES, false, launch),
                 cached = rate_of_memory(CACHED_BYTES, false, launch);
    const double f32 = rate_of_product(BT_F32, 640), small = 2e-12 * 32 * 32 * 32 / f32;
    const figure measured[FIGURES] = {{"units", cores},
                                      {"clock", LINES / chain / LANES / cores * 1e-9},
                                      {"bandwidth", rate_of_memory(MEMORY_BYTES, true, launch)},
                                      {"unit_bandwidth", memory / cores},
                                      {"cache", (double)size_of_cache(cached, memory, launch) * 1e-6},
                                      {"cache_bandwidth", cached},
                                      {"f64", rate_of_product(BT_F64, 512)},
                                      {"f32", f32},
                                      {"tf32", f32},
                                      {"bf16", rate_of_product(BT_BF16, 512)},
                                      {"load_ns", time_of_line(launch) * WAITS * 1e9},
                                      {"start_ns", kernel * 1e9 - CALL_NS},
                                      {"product_ns", (time_of_product(BT_F32, 32) - launch - small) * 1e9},
                                      {"call_ns", CALL_NS},
                                      {"record_ns", time_of_recording() * 1e9},
                                      {"submit_ns", (launch - kernel) * 1e9},
                                      {"host", rate_of_host()},
                                      {"host_ns", HOST_NS}};
    memcpy(figures, measured, sizeof measured);
}

int bench_figures(char **argv) {
    figure figures[FIGURES];
    if (bt_set_flag("cache", "off") != BT_OK || bt_set_flag("kernels", "compiled") != BT_OK)
        return cli_error(argv, "nothing measured");
    measure(figures);
    for (int f = 0; f < FIGURES; f++)
        if (!isfinite(figures[f].value)) return cli_error(argv, figures[f].name);
    for (int f = 0; f < FIGURES; f++) /* what is too short to be measured is no less than the model takes */
        printf("%s%s=%.3g", f ? "/" : "zen3{", figures[f].name, fmax(0.001, figures[f].value));
    puts("}");
    return CLI_OK;
}
