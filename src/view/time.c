/* Times that count the work, not the asking for it. */
#include <berth/view.h>
#include <math.h>
#include <time.h>

#include "base/clock.h"
#include "base/error.h"
#include "device/device.h"
#include "view/trace.h"

static double time_loops(bt_timed_fn *fn, void *data, int64_t loops) {
    bt_synchronize();
    double start = bti_now_seconds();
    for (int64_t i = 0; i < loops; i++) fn(data);
    bt_synchronize();
    return bti_now_seconds() - start;
}

/* The name stands for this check only: what fn calls goes by its own. */
static bool may_wait(const char *name) {
    int depth = bti_call_begin(name);
    bt_status status = bti_device_check_fork();
    bti_call_end(depth);
    return status == BT_OK;
}

double bt_time(bt_timed_fn *fn, void *data) {
    if (fn && may_wait("bt_time")) return time_loops(fn, data, 1);
    if (!fn) (void)!bti_fail(BT_INVALID_ARGUMENT, "bt_time: the function is NULL");
    return NAN;
}

void bti_add_seconds(bti_str *text, double seconds) {
    static const struct {
        double scale;
        const char *unit;
    } units[] = {{1, "s"}, {1e3, "ms"}, {1e6, "µs"}, {1e9, "ns"}};
    int u = 0;
    while (u < 3 && seconds * units[u].scale < 1) u++;
    bti_str_addf(text, "%.3g %s", seconds * units[u].scale, units[u].unit);
}

char *bt_timeit(bt_timed_fn *fn, void *data, int runs, int64_t loops, double *seconds) {
    if (!fn || runs < 1 || loops < 0) {
        (void)!(fn ? bti_fail(BT_INVALID_ARGUMENT, "bt_timeit: %d runs of %lld loops", runs, (long long)loops)
                   : bti_fail(BT_INVALID_ARGUMENT, "bt_timeit: the function is NULL"));
        return NULL;
    }
    if (!may_wait("bt_timeit")) return NULL;
    double once = time_loops(fn, data, 1);
    if (loops == 0) loops = once >= 0.2 ? 1 : (int64_t)ceil(0.2 / (once > 1e-8 ? once : 1e-8));
    double sum = 0, squares = 0;
    for (int r = 0; r < runs; r++) {
        double per_loop = time_loops(fn, data, loops) / (double)loops;
        sum += per_loop;
        squares += per_loop * per_loop;
    }
    double mean = sum / runs, variance = squares / runs - mean * mean;
    if (seconds) *seconds = mean;
    bti_str text = {0};
    bti_add_seconds(&text, mean);
    bti_str_add(&text, " ± ");
    bti_add_seconds(&text, variance > 0 ? sqrt(variance) : 0);
    bti_str_addf(&text, " per loop (mean ± std. dev. of %d run%s, %lld loop%s each)", runs, runs == 1 ? "" : "s",
                 (long long)loops, loops == 1 ? "" : "s");
    char *taken = bti_str_take(&text);
    if (!taken) (void)!bti_no_memory();
    return taken;
}
