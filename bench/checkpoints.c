/* What checkpoints cost: seconds of a step of a training run without checkpoints, and with one every so many steps, in pairs that take turns; the median of the pairs.
 *
 *     checkpoints [EVERY [WIDTH [PAIRS]]]      one each EVERY steps [100]; layers of WIDTH [1024]; so many pairs [7]
 *
 * Dense layers 784, WIDTH, WIDTH, 10, Adam, batches of 128: the checkpoint holds the parameters and two states of each. */
#include <berth.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { ROWS = 128 * 60, BATCH = 128, EPOCHS = 5, STEPS = EPOCHS * ROWS / BATCH, MOST_PAIRS = 101 };

static double seconds_now(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

typedef struct run {
    const char *folder; /* NULL: no checkpoints */
    int64_t every, width;
    double warm; /* when the first steps were over */
} run;

/* The first epoch warms up. */
static bt_status note_time(bt_fit_event *event, void *data) {
    run *r = data;
    if (event->epoch == 0) r->warm = seconds_now();
    return BT_OK;
}

/* Seconds of a step; negative: it failed. */
static double time_step(run *r, bt_array *x, bt_array *y) {
    double seconds = -1;
    BT_SCOPE {
        bt_layer *model =
            bt_chain(bt_dense(784, r->width, bt_relu, bt_key(1)), bt_dense(r->width, r->width, bt_relu, bt_key(2)),
                     bt_dense(r->width, 10, NULL, bt_key(3)));
        bt_status status = bt_fit(model, bt_adam(1e-3), x, y,
                                  BT_FIT_OPTIONS(.epochs = EPOCHS + 1, .batch = BATCH, .quiet = true, .fresh = true,
                                                 .checkpoints = r->folder, .checkpoint_steps = r->folder ? r->every : 0,
                                                 .callback = note_time, .callback_data = r),
                                  NULL);
        if (status == BT_OK)
            seconds = (seconds_now() - r->warm) / STEPS;
        else
            fprintf(stderr, "%s\n", bt_error_text());
    }
    return seconds;
}

static int compare(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}
static double median(double *list, int count) {
    qsort(list, (size_t)count, sizeof *list, compare);
    return count % 2 ? list[count / 2] : (list[count / 2 - 1] + list[count / 2]) / 2;
}

static int64_t argument(int count, char **arguments, int i, int64_t usual) {
    return i < count ? atoll(arguments[i]) : usual;
}

int main(int count, char **arguments) {
    char folder[] = "berth-checkpoints-XXXXXX", line[100];
    run without = {NULL, argument(count, arguments, 1, 100), argument(count, arguments, 2, 1024), 0}, with = without;
    int pairs = (int)argument(count, arguments, 3, 7);
    if (without.every < 1 || without.width < 1 || pairs < 1 || pairs > MOST_PAIRS) return 2;
    if (!mkdtemp(folder)) return 1;
    with.folder = folder;
    double plain[MOST_PAIRS], saving[MOST_PAIRS], more[MOST_PAIRS];
    bool failed = false;
    BT_SCOPE {
        bt_array *x = bt_normal(bt_key(4), BT_F32, ROWS, 784), *y = bt_randint(bt_key(5), 0, 10, BT_I32, ROWS);
        for (int p = 0; p < pairs && !failed; p++) {
            bool first = p % 2;
            if (first) saving[p] = time_step(&with, x, y);
            plain[p] = time_step(&without, x, y);
            if (!first) saving[p] = time_step(&with, x, y);
            failed = plain[p] < 0 || saving[p] < 0;
            more[p] = 100 * (saving[p] / plain[p] - 1);
        }
    }
    snprintf(line, sizeof line, "rm -rf %s", folder);
    failed = system(line) || failed;
    if (failed) return 1;
    double parameters = (double)without.width * (784 + 1 + (double)without.width + 1 + 10) + 10;
    double slowest = median(more, pairs);
    printf("%.1f MB each %lld steps: %.3f ms a step, %.3f without; %+.1f %% (%+.1f to %+.1f)\n", 12e-6 * parameters,
           (long long)without.every, 1e3 * median(saving, pairs), 1e3 * median(plain, pairs), slowest, more[0],
           more[pairs - 1]);
    return 0;
}
