/* Batches of a loader beside a copy in memory: loader KIND [ROUNDS]. A round is an epoch of shuffled batches, and memcpy of as many bytes, one
 * batch after the other from one end of the data to the other, by one thread; they alternate, so that what else the machine does meets both.
 * Writes a line of JSON: bytes per second of both, medians, and the median of the quotients with its quartiles. Kinds: see below. */
#include <berth.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { MOST_ROUNDS = 101, COPIES = 8 /* destinations, used in turn */ };

typedef struct kind {
    const char *name;
    int64_t rows, columns, batch; /* float32 */
    bool in_order, mapped, mapped_function;
} kind;

static const kind kinds[] = {
    {"images", 60000, 784, 1024, false, false, false},  /* MNIST: 3 KiB a row, 3 MiB a batch */
    {"large", 512, 150528, 32, false, false, false},    /* 3 x 224 x 224: 588 KiB a row, 18 MiB a batch */
    {"small", 2000000, 16, 4096, false, false, false},  /* 64 bytes a row */
    {"file", 60000, 784, 1024, false, true, false},     /* "images" of a mapped .npy that the system has in memory */
    {"function", 60000, 784, 1024, false, false, true}, /* "images" copied by a function, row by row */
    {"ordered", 60000, 784, 1024, true, false, false},  /* in order: views, no copies */
};

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

static int give_up(void) { return fprintf(stderr, "%s\n", bt_error_text()), EXIT_FAILURE; }

static const kind *chosen;
static float *elements;

static bt_status copy_row(bt_example *example, void *data) {
    (void)data;
    size_t bytes = (size_t)chosen->columns * sizeof *elements;
    memcpy(example->data[0], elements + example->index * chosen->columns, bytes);
    return BT_OK;
}

static bt_dataset *open_data(bt_array *x, const char *path) {
    if (chosen->mapped)
        return bt_save_npy(path, x) == BT_OK ? bt_dataset_npy(NULL, &path, 1) : bt_dataset_npy(NULL, NULL, 1);
    bt_column column = BT_COLUMN("x", BT_F32, chosen->columns);
    if (chosen->mapped_function) return bt_dataset_callback(chosen->rows, &column, 1, copy_row, NULL);
    return bt_dataset_arrays(NULL, &x, 1);
}

/* Seconds of an epoch; negative: it failed. The batches are computed, and nothing is done with them. */
static double take_epoch(bt_loader *loader) {
    bt_batch batch = BT_BATCH_INIT;
    double start = now();
    while (bt_loader_next(loader, &batch))
        if (bt_block(batch.arrays[0]) != BT_OK) return -1;
    return bt_loader_status(loader) == BT_OK ? now() - start : -1;
}

static double copy_all(char *const *copies) {
    size_t row = (size_t)chosen->columns * sizeof *elements, batch = row * (size_t)chosen->batch;
    size_t all = row * (size_t)chosen->rows;
    double start = now();
    for (size_t at = 0, i = 0; at < all; at += batch, i++)
        memcpy(copies[i % COPIES], (const char *)elements + at, all - at < batch ? all - at : batch);
    return now() - start;
}

static int by_size(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}
static double quantile(double *sorted, int count, double part) {
    qsort(sorted, (size_t)count, sizeof *sorted, by_size);
    return sorted[(int)(part * (count - 1) + 0.5)];
}

static int measure(bt_dataset *data, int rounds, int workers) {
    double of_loader[MOST_ROUNDS], of_copy[MOST_ROUNDS], quotient[MOST_ROUNDS];
    double bytes = (double)chosen->rows * (double)chosen->columns * sizeof *elements;
    char *copies[COPIES];
    for (int i = 0; i < COPIES; i++) {
        copies[i] = malloc((size_t)(chosen->batch * chosen->columns) * sizeof *elements);
        if (!copies[i]) return EXIT_FAILURE;
    }
    bt_loader *loader =
        bt_loader_new(data, .batch = chosen->batch, .workers = workers, .shuffle = chosen->in_order ? NULL : bt_key(1));
    for (int i = -1; i < rounds; i++) { /* the first one warms up */
        double copied = copy_all(copies), taken = take_epoch(loader);
        if (taken < 0) return give_up();
        if (i < 0) continue;
        of_loader[i] = bytes / taken;
        of_copy[i] = bytes / copied;
        quotient[i] = copied / taken;
    }
    printf("{\"kind\": \"%s\", \"workers\": %d, \"loader\": %.4g, \"copy\": %.4g, \"quotient\": %.3f, \"quartiles\": "
           "[%.3f, %.3f]}\n",
           chosen->name, workers, quantile(of_loader, rounds, 0.5), quantile(of_copy, rounds, 0.5),
           quantile(quotient, rounds, 0.5), quantile(quotient, rounds, 0.25), quantile(quotient, rounds, 0.75));
    for (int i = 0; i < COPIES; i++) free(copies[i]);
    return EXIT_SUCCESS;
}

int main(int argc, char **argv) {
    char path[] = "/tmp/berth-bench-loader-XXXXXX";
    int rounds = argc > 2 ? atoi(argv[2]) : 15, status = EXIT_SUCCESS;
    for (size_t i = 0; argc > 1 && i < sizeof kinds / sizeof *kinds; i++)
        if (!strcmp(kinds[i].name, argv[1])) chosen = &kinds[i];
    if (!chosen || rounds < 1 || rounds > MOST_ROUNDS) {
        fprintf(stderr, "loader images|large|small|file|function|ordered [ROUNDS]\n");
        return EXIT_FAILURE;
    }
    int64_t count = chosen->rows * chosen->columns;
    elements = aligned_alloc(64, (size_t)count * sizeof *elements);
    if (!elements) return EXIT_FAILURE;
    for (int64_t i = 0; i < count; i++) elements[i] = (float)(i % 1009);
    BT_SCOPE {
        bt_array *x = bt_from_lent(elements, BT_F32, BT_SHAPE(chosen->rows, chosen->columns), NULL, NULL);
        if (chosen->mapped) close(mkstemp(path));
        bt_dataset *data = open_data(x, path);
        for (int workers = 0; workers < 3 && status == EXIT_SUCCESS; workers++)
            if (!chosen->in_order || !workers) status = measure(data, rounds, workers);
    }
    if (chosen->mapped) unlink(path);
    free(elements);
    return status;
}
