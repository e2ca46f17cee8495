/* Rows of tasks: tasks [DIVISOR]. Each line of standard input is the name of a row, which is run once and answered by a line of
 * JSON: "seconds" of one step, what else there is to say, or "error". Counts and sizes are divided by DIVISOR. */
#include <berth.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { CPUS = 2, TRIPS = 1000, BATCH = 10000, ACTORS = 1000, ELEMENTS = 25000000, PRIORITIES = 10 };

typedef struct sample {
    double seconds; /* of a step */
    double calls;   /* in a step */
    double bytes;   /* that it has to read and write */
    double submit, drain, release;
} sample;

static int divisor = 1;

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

static int divided(int count) { return count / divisor > 1 ? count / divisor : 2; }

/* --- what runs in workers ------------------------------------------------------------------------------------------- */

static bt_status next(bt_task *task) {
    int64_t n;
    if (bt_argument(task, 0, &n) != BT_OK) return bt_error_status();
    return bt_return(task, n + 1);
}
BT_REMOTE(next);

/* Runs until that file is gone. */
static bt_status gate(bt_task *task) {
    const char *path;
    if (bt_argument(task, 0, &path) != BT_OK) return bt_error_status();
    while (access(path, F_OK) == 0) nanosleep(&(struct timespec){.tv_nsec = 200000}, NULL);
    return BT_OK;
}
BT_REMOTE(gate, .num_cpus = CPUS);

static bt_status make(bt_task *task) {
    int64_t count;
    if (bt_argument(task, 0, &count) != BT_OK) return bt_error_status();
    return bt_return(task, bt_full(3, BT_F32, count));
}
BT_REMOTE(make);

static bt_status last(bt_task *task) {
    bt_array *x;
    double value;
    if (bt_argument(task, 0, &x) != BT_OK) return bt_error_status();
    if (bt_item_at(x, (int64_t[]){bt_count(x) - 1}, &value) != BT_OK) return bt_error_status();
    return bt_return(task, value);
}
BT_REMOTE(last);

static bt_status counter_new(bt_task *task) {
    int64_t start, *total = malloc(sizeof *total);
    if (!total) return bt_task_fail(task, BT_RESOURCE_EXHAUSTED, "out of host memory");
    bt_set_state(task, total, free);
    if (bt_argument(task, 0, &start) != BT_OK) return bt_error_status();
    *total = start;
    return BT_OK;
}
BT_REMOTE(counter_new);

static bt_status counter_add(bt_task *task) {
    int64_t n, *total = bt_state(task);
    if (bt_argument(task, 0, &n) != BT_OK) return bt_error_status();
    return bt_return(task, *total += n);
}
BT_REMOTE(counter_add);

/* --- calls ----------------------------------------------------------------------------------------------------------- */

static const char *fault; /* where the library has no error to tell */

static bool expect(bool good, const char *what) {
    if (!good) fault = what;
    return good;
}

static bool task_round_trip(sample *s) {
    int count = divided(TRIPS);
    double start = now();
    for (int64_t i = 0, n; i < count; i++) {
        BT_SCOPE
            if (bt_get(bt_remote(next, i), &n) != BT_OK || !expect(n == i + 1, "a task's result is wrong"))
                return false;
    }
    s->seconds = (now() - start) / count;
    s->calls = 1;
    return true;
}

static bool get_all(bt_ref *const *refs, int count) {
    for (int64_t i = 0, n; i < count; i++)
        if (bt_get(refs[i], &n) != BT_OK || !expect(n == i + 1, "a result of a batch is wrong")) return false;
    return true;
}

static bool task_batch(sample *s) {
    int count = divided(BATCH);
    bt_ref **refs = calloc((size_t)count, sizeof(bt_ref *));
    bool good = expect(refs, "out of memory");
    double start = now();
    if (good) {
        BT_SCOPE {
            for (int64_t i = 0; i < count; i++) refs[i] = bt_remote(next, i);
            good = get_all(refs, count);
            s->seconds = now() - start;
        }
    }
    s->calls = count;
    free(refs);
    return good;
}

/* So many tasks of several priorities wait at once; then all are run. */
static bool queue(sample *s, int count) {
    char path[] = "/tmp/berth-tasks-XXXXXX";
    int file = mkstemp(path);
    bt_ref **refs = calloc((size_t)count, sizeof(bt_ref *));
    bool good = expect(file >= 0 && refs, "no file or no memory for a queue");
    double begun = 0, submitted = 0, drained = 0;
    if (file >= 0) close(file);
    BT_SCOPE {
        bt_ref *closed = good ? bt_remote(gate, (const char *)path) : NULL;
        begun = now();
        for (int64_t i = 0; good && i < count; i++)
            refs[i] = bt_remote_with(BT_OPTIONS(.priority = (int)(i % PRIORITIES)), next, i);
        submitted = now();
        unlink(path);
        good = good && bt_get(closed, NULL) == BT_OK && get_all(refs, count);
        drained = now();
    }
    *s = (sample){.seconds = drained - begun,
                  .calls = count,
                  .submit = submitted - begun,
                  .drain = drained - submitted,
                  .release = now() - drained};
    free(refs);
    return good;
}

static bool queue_10000(sample *s) { return queue(s, divided(BATCH)); }
static bool queue_1000000(sample *s) { return queue(s, divided(100 * BATCH)); }

/* The runtime and its first task: what a program waits that begins with one. */
static bool started;

static bool start_runtime(void) {
    if (!started) started = bt_runtime_init(.num_cpus = CPUS, .resources = {{"gate", 1}}) == BT_OK;
    return started;
}

static bool first_task(sample *s) {
    if (!expect(!started, "the runtime is there already")) return false;
    double start = now();
    int64_t n = 0;
    bool good = start_runtime();
    BT_SCOPE
        good = good && bt_get(bt_remote(next, 41), &n) == BT_OK && expect(n == 42, "the first result is wrong");
    s->seconds = now() - start;
    return good;
}

/* --- actors ------------------------------------------------------------------------------------------------------------ */

static bool add(bt_actor *actor, int64_t wanted) {
    int64_t total;
    bool good = false;
    BT_SCOPE
        good =
            bt_get(bt_method(actor, counter_add, 1), &total) == BT_OK && expect(total == wanted, "a counter is wrong");
    return good;
}

static bool first_actor(sample *s) {
    bool good;
    BT_SCOPE {
        double start = now();
        good = add(bt_actor_new(counter_new, 5), 6);
        s->seconds = now() - start;
    }
    return good;
}

static bool actor_round_trip(sample *s) {
    int count = divided(TRIPS);
    bool good;
    BT_SCOPE {
        bt_actor *actor = bt_actor_new(counter_new, 0);
        good = add(actor, 1);
        double start = now();
        for (int i = 0; good && i < count; i++) good = add(actor, i + 2);
        s->seconds = (now() - start) / count;
    }
    s->calls = 1;
    return good;
}

static bool actor_batch(sample *s) {
    int count = divided(BATCH);
    bt_ref **refs = calloc((size_t)count, sizeof(bt_ref *));
    bool good = expect(refs, "out of memory");
    BT_SCOPE {
        bt_actor *actor = bt_actor_new(counter_new, 0);
        good = good && add(actor, 1) && add(actor, 2);
        double start = now();
        for (int i = 0; good && i < count; i++) refs[i] = bt_method(actor, counter_add, 1);
        for (int64_t i = 0, total; good && i < count; i++)
            good = bt_get(refs[i], &total) == BT_OK && expect(total == i + 3, "a result of a batch is wrong");
        s->seconds = now() - start;
    }
    s->calls = count;
    free(refs);
    return good;
}

/* The same of an actor that runs four methods at once. */
static bool actor_batch_4_threads(sample *s) {
    int count = divided(BATCH);
    bt_ref **refs = calloc((size_t)count, sizeof(bt_ref *));
    bool good = expect(refs, "out of memory");
    BT_SCOPE {
        bt_actor *actor = bt_actor_new_with(BT_OPTIONS(.max_concurrency = 4), counter_new, 0);
        good = good && add(actor, 1);
        double start = now();
        for (int64_t i = 0; good && i < count; i++) refs[i] = bt_method(actor, next, i);
        good = good && get_all(refs, count);
        s->seconds = now() - start;
    }
    s->calls = count;
    free(refs);
    return good;
}

/* So many live at once and have answered. */
static bool actors_1000(sample *s) {
    int count = divided(ACTORS);
    bt_actor **actors = calloc((size_t)count, sizeof(bt_actor *));
    bool good = expect(actors, "out of memory");
    BT_SCOPE {
        double start = now();
        for (int i = 0; good && i < count; i++) actors[i] = bt_actor_new(counter_new, i);
        for (int i = 0; good && i < count; i++) good = add(actors[i], i + 1);
        s->seconds = now() - start;
        for (int i = 0; good && i < count; i++) good = add(actors[i], i + 2);
    }
    s->calls = count;
    free(actors);
    return good;
}

/* --- round trips beside many that wait ----------------------------------------------------------------------------------- */

static bt_status held(bt_task *task) {
    const char *path;
    if (bt_argument(task, 0, &path) != BT_OK) return bt_error_status();
    while (access(path, F_OK) == 0) nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
    return BT_OK;
}
BT_REMOTE(held, .num_cpus = 0, .resources = {{"gate", 1}});

/* Waits inside for a call that waits for the gate. */
static bt_status blocked(bt_task *task) {
    const char *path;
    if (bt_argument(task, 0, &path) != BT_OK) return bt_error_status();
    return bt_get(bt_remote(held, path), NULL);
}
BT_REMOTE(blocked, .num_cpus = 0);

static bool trips(sample *s) {
    int count = divided(TRIPS);
    double start = now();
    for (int64_t i = 0, n; i < count; i++)
        BT_SCOPE
            if (bt_get(bt_remote(next, i), &n) != BT_OK || !expect(n == i + 1, "a round trip beside waits is wrong"))
                return false;
    s->seconds = (now() - start) / count;
    s->calls = 1;
    return true;
}

static int blocked_now(void) {
    char *text = bt_runtime_text(true), *at = text ? strstr(text, "\"blocked\": ") : NULL;
    int count = at ? atoi(at + strlen("\"blocked\": ")) : -1;
    bt_free(text);
    return count;
}

/* So many workers wait inside of their calls. */
static bool blocked_workers(sample *s, int count) {
    char path[] = "/tmp/berth-tasks-XXXXXX";
    int file = mkstemp(path);
    bt_ref **refs = calloc((size_t)count, sizeof(bt_ref *));
    bool good = expect(file >= 0 && refs, "no file or no memory for blocked workers");
    if (file >= 0) close(file);
    BT_SCOPE {
        for (int i = 0; good && i < count; i++) refs[i] = bt_remote(blocked, (const char *)path);
        while (good && blocked_now() < count) nanosleep(&(struct timespec){.tv_nsec = 50000000}, NULL);
        good = good && trips(s);
        unlink(path);
        for (int i = 0; good && i < count; i++) good = bt_get(refs[i], NULL) == BT_OK;
    }
    free(refs);
    return good;
}

static bool beside_blocked_50(sample *s) { return blocked_workers(s, divided(50)); }
static bool beside_blocked_2000(sample *s) { return blocked_workers(s, divided(2000)); }

static bool beside_actors_1000(sample *s) {
    int count = divided(ACTORS);
    bt_actor **actors = calloc((size_t)count, sizeof(bt_actor *));
    bool good = expect(actors, "out of memory");
    BT_SCOPE {
        for (int i = 0; good && i < count; i++) actors[i] = bt_actor_new(counter_new, i);
        for (int i = 0; good && i < count; i++) good = add(actors[i], i + 1);
        good = good && trips(s);
    }
    free(actors);
    return good;
}

typedef struct waited {
    bt_ref **refs;
    int count;
    bool good;
} waited;

static void *wait_for_all(void *of) {
    waited *w = of;
    w->good = bt_wait_refs(w->refs, w->count, w->count, NULL, -1) == w->count;
    return NULL;
}

/* Another thread waits for 10,000 references at once. */
static bool beside_waited_10000(sample *s) {
    int count = divided(BATCH);
    char path[] = "/tmp/berth-tasks-XXXXXX";
    int file = mkstemp(path);
    pthread_t thread;
    waited w = {calloc((size_t)count, sizeof(bt_ref *)), count, false};
    bool good = expect(file >= 0 && w.refs, "no file or no memory for references"), waits = false;
    if (file >= 0) close(file);
    BT_SCOPE {
        for (int i = 0; good && i < count; i++) w.refs[i] = bt_remote(held, (const char *)path);
        waits = good && pthread_create(&thread, NULL, wait_for_all, &w) == 0;
        nanosleep(&(struct timespec){.tv_nsec = 100000000}, NULL); /* until it waits */
        good = waits && trips(s);
        unlink(path);
        if (waits) pthread_join(thread, NULL);
        good = good && expect(w.good, "a wait for many is wrong");
    }
    free(w.refs);
    return good;
}

/* --- large values ------------------------------------------------------------------------------------------------------ */

static double array_bytes(void) { return 4.0 * divided(ELEMENTS); }

/* A task reads the last element of what another one has made. */
static bool ref_100mb(sample *s) {
    bool good;
    BT_SCOPE {
        double value = 0;
        bt_ref *made = bt_remote(make, divided(ELEMENTS));
        good = bt_get(made, NULL) == BT_OK;
        double start = now();
        good = good && bt_get(bt_remote(last, made), &value) == BT_OK && expect(value == 3, "a large result is wrong");
        s->seconds = now() - start;
    }
    return good;
}

static bt_array *given; /* to be put; the same one each time */

/* In memory, where a constant would be made anew whenever it is read. */
static bool give(void) {
    int count = divided(ELEMENTS);
    float *elements = given ? NULL : malloc((size_t)count * sizeof *elements);
    for (int i = 0; elements && i < count; i++) elements[i] = 3;
    if (elements) bt_assign(&given, bt_from(elements, BT_F32, BT_SHAPE(count)));
    free(elements);
    return expect(given, "out of memory") && bt_block(given) == BT_OK;
}

static bool put_100mb(sample *s) {
    bool good;
    BT_SCOPE {
        double value = 0;
        bt_array *y = NULL;
        good = give();
        double start = now();
        good = good && bt_get(bt_put(given), &y) == BT_OK && bt_item_at(y, (int64_t[]){-1}, &value) == BT_OK &&
               expect(value == 3, "a large value is wrong");
        s->seconds = now() - start;
    }
    s->bytes = 2 * array_bytes();
    return good;
}

/* 1 KiB put and read. */
static bool put_1kb(sample *s) {
    static char kilobyte[1 << 10];
    int count = divided(TRIPS);
    double start = now();
    for (int i = 0; i < count; i++) {
        bt_bytes bytes = {kilobyte, sizeof kilobyte};
        memset(kilobyte, i, sizeof kilobyte);
        BT_SCOPE {
            if (bt_get(bt_put(bytes), &bytes) != BT_OK ||
                !expect(((const char *)bytes.data)[1000] == (char)i, "a small value is wrong"))
                return false;
        }
    }
    s->seconds = (now() - start) / count;
    return true;
}

static bool copy(sample *s) {
    size_t bytes = (size_t)array_bytes();
    char *from = malloc(bytes), *to = malloc(bytes);
    bool good = expect(from && to, "out of memory");
    for (int i = 0; good && i < 4; i++) { /* the first ones take the memory */
        memset(from, i, bytes);
        double start = now();
        memcpy(to, from, bytes);
        s->seconds = now() - start;
        good = expect(to[bytes - 1] == i, "a copy is wrong");
    }
    s->bytes = 2 * array_bytes();
    free(from);
    free(to);
    return good;
}

/* --- answers ----------------------------------------------------------------------------------------------------------- */

static const struct {
    const char *name;
    bool (*run)(sample *s);
} rows[] = {{"first_task", first_task},
            {"task_round_trip", task_round_trip},
            {"task_batch", task_batch},
            {"queue_10000", queue_10000},
            {"queue_1000000", queue_1000000},
            {"first_actor", first_actor},
            {"actor_round_trip", actor_round_trip},
            {"actor_batch", actor_batch},
            {"actor_batch_4_threads", actor_batch_4_threads},
            {"actors_1000", actors_1000},
            {"beside_blocked_50", beside_blocked_50},
            {"beside_blocked_2000", beside_blocked_2000},
            {"beside_actors_1000", beside_actors_1000},
            {"beside_waited_10000", beside_waited_10000},
            {"put_1kb", put_1kb},
            {"put_100mb", put_100mb},
            {"ref_100mb", ref_100mb},
            {"copy", copy}};

static bool answer(const char *name) {
    sample s = {0};
    bool (*run)(sample * s) = NULL;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (!strcmp(name, rows[i].name)) run = rows[i].run;
    fault = run ? NULL : "unknown row";
    bt_error_clear();
    if (run && (run == first_task || start_runtime()) && run(&s)) {
        printf("{\"row\": \"%s\", \"seconds\": %.9f, \"calls\": %.0f, \"bytes\": %.0f, \"submit_s\": %.9f, "
               "\"drain_s\": %.9f, \"release_s\": %.9f}\n",
               name, s.seconds, s.calls, s.bytes, s.submit, s.drain, s.release);
        return true;
    }
    printf("{\"error\": \"%s\"}\n", fault ? fault : bt_status_name(bt_error_status()));
    if (!fault) fprintf(stderr, "tasks: %s: %s\n", name, bt_error_text());
    return false;
}

int main(int argc, char **argv) {
    char line[64];
    bool good = true;
    divisor = argc > 1 ? atoi(argv[1]) : 1;
    if (argc > 2 || divisor < 1) return fprintf(stderr, "usage: tasks [DIVISOR]\n"), 2;
    while (fgets(line, sizeof line, stdin)) {
        line[strcspn(line, "\n")] = '\0';
        good = answer(line) && good;
        fflush(stdout);
    }
    bt_assign(&given, NULL);
    return bt_runtime_shutdown() == BT_OK && good ? 0 : 1;
}
