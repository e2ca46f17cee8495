/* What checkpoints cost: the time of a step of a training run without checkpoints, and with one every so many steps, in pairs that take turns; the medians, by
 * the clock and of all CPUs (which other programs of the machine disturb less).
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

typedef struct times {
    double clock, cpus; /* seconds; of a step, negative: it failed */
} times;

static double seconds_of(clockid_t clock) {
    struct timespec now;
    clock_gettime(clock, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}
static times times_now(void) { return (times){seconds_of(CLOCK_MONOTONIC), seconds_of(CLOCK_PROCESS_CPUTIME_ID)}; }

typedef struct run {
    const char *folder; /* NULL: no checkpoints */
    int64_t every, width;
    times warm; /* when the first steps were over */
} run;

/* The first epoch warms up. */
static bt_status note_time(bt_fit_event *event, void *data) {
    run *r = data;
    if (event->epoch == 0) r->warm = times_now();
    return BT_OK;
}

static times time_step(run *r, bt_array *x, bt_array *y) {
    times step = {-1, -1};
    BT_SCOPE {
        bt_layer *model =
            bt_chain(bt_dense(784, r->width, bt_relu, bt_key(1)), bt_dense(r->width, r->width, bt_relu, bt_key(2)),
                     bt_dense(r->width, 10, NULL, bt_key(3)));
        bt_status status = bt_fit(model, bt_adam(1e-3), x, y,
                                  BT_FIT_OPTIONS(.epochs = EPOCHS + 1, .batch = BATCH, .quiet = true, .fresh = true,
                                                 .checkpoints = r->folder, .checkpoint_steps = r->folder ? r->every : 0,
                                                 .callback = note_time, .callback_data = r),
                                  NULL);
        times now = times_now();
        if (status == BT_OK)
            step = (times){(now.clock - r->warm.clock) / STEPS, (now.cpus - r->warm.cpus) / STEPS};
        else
            fprintf(stderr, "%s\n", bt_error_text());
    }
    return step;
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
    run without = {NULL, argument(count, arguments, 1, 100), argument(count, arguments, 2, 1024), {0, 0}},
        with = without;
    int pairs = (int)argument(count, arguments, 3, 7);
    if (without.every < 1 || without.width < 1 || pairs < 1 || pairs > MOST_PAIRS) return 2;
    if (!mkdtemp(folder)) return 1;
    with.folder = folder;
    double plain[MOST_PAIRS], saving[MOST_PAIRS], more_clock[MOST_PAIRS], more_cpus[MOST_PAIRS];
    bool failed = false;
    BT_SCOPE {
        bt_array *x = bt_normal(bt_key(4), BT_F32, ROWS, 784), *y = bt_randint(bt_key(5), 0, 10, BT_I32, ROWS);
        for (int p = 0; p < pairs && !failed; p++) {
            times own[2];
            for (int turn = 0; turn < 2; turn++)
                own[(turn + p) % 2] = time_step((turn + p) % 2 ? &with : &without, x, y);
            failed = own[0].clock < 0 || own[1].clock < 0;
            plain[p] = own[0].clock;
            saving[p] = own[1].clock;
            more_clock[p] = 100 * (own[1].clock / own[0].clock - 1);
            more_cpus[p] = 100 * (own[1].cpus / own[0].cpus - 1);
        }
    }
    snprintf(line, sizeof line, "rm -rf %s", folder);
    failed = system(line) || failed;
    if (failed) return 1;
    double parameters = (double)without.width * (784 + 1 + (double)without.width + 1 + 10) + 10;
    printf("%.1f MB each %lld steps: %.3f ms a step, %.3f without: %+.1f %% by the clock, %+.1f %% of the CPUs\n",
           12e-6 * parameters, (long long)without.every, 1e3 * median(saving, pairs), 1e3 * median(plain, pairs),
           median(more_clock, pairs), median(more_cpus, pairs));
    return 0;
}
