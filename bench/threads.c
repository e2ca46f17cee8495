/* What threads get done side by side: threads KIND COUNT [SECONDS]. Rounds, of a second each, of one thread and of COUNT threads alternate, so that what else the
 * machine does meets both. Writes a line of JSON: steps per second of one thread and of all, medians over the rounds, and how many times one
 * all did, the median, lower and upper quartile over the pairs. Kinds: small (40 operations of 16 elements recorded and one result
 * read), product (96x96, read), call (a function of 8 operations, read), step (a function that sets a variable of the thread's own). */
#include <berth.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MOST_THREADS = 64, ROUNDS = 15, OPERATIONS = 40, SMALL = 16, SIDE = 96 };

typedef struct worker {
    _Alignas(128) bt_array *x; /* in lines of memory of its own */
    bt_array *y;
    bt_function *function;
    bt_shared *variable;
    atomic_long steps;
    atomic_bool failed;
} worker;

typedef struct kind {
    const char *name;
    bool (*prepare)(worker *w);
    bt_status (*step)(worker *w);
} kind;

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

/* --- kinds ---------------------------------------------------------------------------------------------------------- */

static bool have_arrays(worker *w) {
    return bt_block(w->x) == BT_OK && bt_block(w->y) == BT_OK && bt_peek_status(w->x) == BT_OK;
}

static bool prepare_small(worker *w) {
    w->x = bt_full(0.5, BT_F32, SMALL);
    w->y = bt_full(0.25, BT_F32, SMALL);
    return have_arrays(w);
}

static bt_status step_small(worker *w) {
    float result[SMALL];
    bt_array *x = w->x;
    for (int i = 0; i < OPERATIONS / 2; i++) x = bt_sub(bt_add(x, w->y), w->y);
    return bt_read(x, result, sizeof result);
}

static bool prepare_product(worker *w) {
    w->x = bt_full(0.5, BT_F32, SIDE, SIDE);
    w->y = bt_full(0.25, BT_F32, SIDE, SIDE);
    return have_arrays(w);
}

static bt_status step_product(worker *w) {
    static _Thread_local float result[SIDE * SIDE];
    return bt_read(bt_matmul(w->x, w->y), result, sizeof result);
}

static bt_array *body(bt_array *x, bt_array *y) {
    for (int i = 0; i < 4; i++) x = bt_mul(bt_add(x, y), bt_num(0.5));
    return x;
}

static bool prepare_call(worker *w) {
    if (!prepare_small(w)) return false;
    bt_array *in[] = {bt_input(BT_F32, SMALL), bt_input(BT_F32, SMALL)}, *out[] = {body(in[0], in[1])};
    w->function = bt_function_new(in, 2, out, 1, NULL, 0);
    return bt_function_status(w->function) == BT_OK;
}

static bt_status step_call(worker *w) {
    float result[SMALL];
    return bt_read(bt_call1(w->function, (bt_array *[]){w->x, w->y}, 2), result, sizeof result);
}

static bool prepare_step(worker *w) {
    if (!prepare_small(w)) return false;
    w->variable = bt_shared_new(w->x, NULL);
    bt_array *in[] = {bt_input(BT_F32, SMALL)}, *value = body(bt_value(w->variable), in[0]), *out[] = {value};
    w->function = bt_function_new(in, 1, out, 1, (bt_update[]){{w->variable, value}}, 1);
    return bt_function_status(w->function) == BT_OK;
}

static bt_status step_step(worker *w) {
    float result[SMALL];
    return bt_read(bt_call1(w->function, (bt_array *[]){w->y}, 1), result, sizeof result);
}

static const kind kinds[] = {{"small", prepare_small, step_small},
                             {"product", prepare_product, step_product},
                             {"call", prepare_call, step_call},
                             {"step", prepare_step, step_step}};

/* --- measuring ------------------------------------------------------------------------------------------------------ */

static const kind *chosen;
static atomic_int begun;
static atomic_bool begin, end;

static void *work(void *argument) {
    worker *w = argument;
    BT_SCOPE {
        bool good = chosen->prepare(w);
        for (int i = 0; i < 50 && good; i++)
            BT_SCOPE
                good = chosen->step(w) == BT_OK; /* plans and kernels are there then */
        atomic_fetch_add(&begun, 1);
        while (!atomic_load(&begin)) {
        }
        while (good && !atomic_load_explicit(&end, memory_order_relaxed)) {
            BT_SCOPE
                good = chosen->step(w) == BT_OK;
            atomic_fetch_add_explicit(&w->steps, 1, memory_order_relaxed);
        }
        if (!good) {
            fprintf(stderr, "%s\n", bt_error_text());
            atomic_store(&w->failed, true);
        }
    }
    return NULL;
}

/* Steps per second of all threads together; 0: one failed. */
static double measure(int count, double seconds) {
    static worker workers[MOST_THREADS];
    pthread_t threads[MOST_THREADS];
    memset(workers, 0, sizeof workers);
    atomic_store(&begun, 0);
    atomic_store(&begin, false);
    atomic_store(&end, false);
    for (int i = 0; i < count; i++)
        if (pthread_create(&threads[i], NULL, work, &workers[i])) exit(1);
    while (atomic_load(&begun) < count) {
    }
    double start = now();
    atomic_store(&begin, true);
    struct timespec rest = {(time_t)seconds, (long)((seconds - (double)(time_t)seconds) * 1e9)};
    nanosleep(&rest, NULL);
    atomic_store(&end, true);
    long steps = 0;
    bool good = true;
    for (int i = 0; i < count; i++) steps += atomic_load(&workers[i].steps);
    double passed = now() - start;
    for (int i = 0; i < count; i++) {
        pthread_join(threads[i], NULL);
        good = good && !atomic_load(&workers[i].failed);
    }
    return good ? (double)steps / passed : 0;
}

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

int main(int argc, char **argv) {
    int count = argc > 2 ? atoi(argv[2]) : 0;
    double seconds = argc > 3 ? atof(argv[3]) : 1;
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++)
        if (argc > 1 && !strcmp(argv[1], kinds[k].name)) chosen = &kinds[k];
    if (!chosen || count < 1 || count > MOST_THREADS || seconds <= 0) {
        fprintf(stderr, "usage: threads small|product|call|step COUNT [SECONDS]; COUNT from 1 to %d\n", MOST_THREADS);
        return 2;
    }
    double one[ROUNDS], all[ROUNDS], times[ROUNDS];
    for (int r = 0; r < ROUNDS; r++) {
        one[r] = measure(1, seconds);
        all[r] = measure(count, seconds);
        if (one[r] <= 0 || all[r] <= 0) return 1;
        times[r] = all[r] / one[r];
    }
    qsort(one, ROUNDS, sizeof *one, by_value);
    qsort(all, ROUNDS, sizeof *all, by_value);
    qsort(times, ROUNDS, sizeof *times, by_value);
    printf("{\"kind\": \"%s\", \"threads\": %d, \"one_per_s\": %.0f, \"all_per_s\": %.0f, \"times\": %.2f, "
           "\"times_lower\": %.2f, \"times_upper\": %.2f}\n",
           chosen->name, count, one[ROUNDS / 2], all[ROUNDS / 2], times[ROUNDS / 2], times[ROUNDS / 4],
           times[3 * ROUNDS / 4]);
    return 0;
}
