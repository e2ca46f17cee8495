// labels: threads
/* Simulated cards, and CPUs, with a model: the same timeline on each run, times that the model's figures allow, and who is told that they are virtual. */
#include <fcntl.h>
#include <math.h>
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include <jansson.h>

#include "support/support.h"

/* --- the same each time ------------------------------------------------------------------------------------------------- */

enum { ROWS = 64, WIDTH = 96, STEPS = 4 };

static bt_array *loss_of(bt_array *x, bt_array *const *w, bt_array *y) {
    bt_array *hidden = bt_tanh(bt_matmul(x, w[0]));
    return bt_mean(bt_square(bt_sub(bt_matmul(hidden, w[1]), y)), BT_ALL, false);
}

/* Gradient descent without a function: what the host does is part of the timeline, and copies to the host's memory, which are read at the end. */
static void train(void *data) {
    (void)data;
    BT_SCOPE {
        bt_array *x = bt_normal(bt_key(1), BT_F32, ROWS, WIDTH), *y = bt_normal(bt_key(2), BT_F32, ROWS, 8);
        bt_array *w[2] = {bt_normal(bt_key(3), BT_F32, WIDTH, WIDTH), bt_normal(bt_key(4), BT_F32, WIDTH, 8)};
        bt_array *copies[STEPS];
        for (int i = 0; i < STEPS; i++) {
            bt_array *loss = loss_of(x, w, y), *gradients[2];
            OK(bt_grad(loss, w, 2, gradients));
            for (int k = 0; k < 2; k++) w[k] = bt_sub(w[k], bt_mul(gradients[k], bt_num(0.1)));
            OK(bt_eval(copies[i] = bt_to(w[0], "cpu")));
            assert_true(isfinite(bt_item(loss)));
        }
        for (int i = 0; i < STEPS; i++) OK(bt_block(copies[i]));
        OK(bt_block(w[0]));
    }
}

/* In a process of its own: a trace of the training, and how long it took, twice. */
static int record(const char *trace_file, const char *flags) {
    fresh(flags);
    bt_profile *profile = bt_profile_start();
    train(NULL);
    OK(bt_profile_stop(profile, trace_file, NULL));
    train(NULL); /* plans are kept the second time; recordings of their launches come then */
    double first = bt_time(train, NULL), second = bt_time(train, NULL);
    printf("%.12g\n", second);
    return first > 0 && first == second ? 0 : 1;
}

/* What it printed. */
static void record_apart(const char *trace_file, const char *flags, char *printed, size_t size) {
    int ends[2], code;
    assert_int_equal(pipe(ends), 0);
    pid_t child = fork();
    if (!child) {
        dup2(ends[1], 1);
        execl("/proc/self/exe", "timeline_test", trace_file, flags, (char *)NULL);
        _exit(1);
    }
    close(ends[1]);
    size_t length = 0;
    for (ssize_t got; (got = read(ends[0], printed + length, size - 1 - length)) > 0;) length += (size_t)got;
    printed[length] = '\0';
    close(ends[0]);
    assert_int_equal(waitpid(child, &code, 0), child);
    if (!WIFEXITED(code) || WEXITSTATUS(code)) fail_msg("the child ended with %d: %s", code, printed);
}

/* What happened on devices, a line each: process 0 is the host, on which also kernels are compiled or found in the cache. */
static char *device_events(const char *trace_file, size_t *count) {
    json_t *trace = json_load_file(trace_file, 0, NULL), *event;
    size_t i;
    json_t *kept = json_array();
    *count = 0;
    json_array_foreach(json_object_get(trace, "traceEvents"), i, event) {
        if (!json_integer_value(json_object_get(event, "pid"))) continue;
        json_array_append(kept, event);
        *count += !strcmp(json_string_value(json_object_get(event, "ph")), "X");
    }
    char *text = json_dumps(kept, JSON_COMPACT | JSON_SORT_KEYS);
    json_decref(kept);
    json_decref(trace);
    return text;
}

static void expect_the_same(const char *flags) {
    char files[2][64], seconds[2][64];
    char *events[2];
    size_t counts[2];
    for (int i = 0; i < 2; i++) {
        snprintf(files[i], sizeof files[i], "/tmp/berth-timeline-%d-%d.json", (int)getpid(), i);
        record_apart(files[i], flags, seconds[i], sizeof seconds[i]);
        events[i] = device_events(files[i], &counts[i]);
        unlink(files[i]);
        assert_non_null(events[i]);
    }
    assert_true(counts[0] > STEPS * 6);
    assert_string_equal(events[0], events[1]);
    assert_string_equal(seconds[0], seconds[1]);
    for (int i = 0; i < 2; i++) free(events[i]);
}

static void a_timeline_repeats(void **state) {
    expect_the_same("devices=sim:h200*1");
    expect_the_same("devices=sim:zen3");
}

/* --- what the figures allow ------------------------------------------------------------------------------------------------ */

#define MOST 4
static bt_array *held[MOST];

static void multiply(void *data) { OK(bt_block(bt_matmul(held[0], held[0]))); }
static void add(void *data) { OK(bt_block(bt_add(held[0], held[1]))); }
static void to_the_other(void *data) { OK(bt_block(bt_to(held[0], "gpu:1"))); }
static void chain(void *data) {
    bt_array *x = held[0];
    for (int i = 0; i < 10; i++) OK(bt_eval(x = bt_neg(x)));
    OK(bt_block(x));
}

#define TAKES(fn, seconds) expect_time(fn, seconds, #fn)
/* From as long as the figures say to 10 us more, for calls and starts. */
static void expect_time(bt_timed_fn *fn, double seconds, const char *what) {
    double took = 0;
    for (int i = 0; i < 2; i++) /* the first time memory is taken */
        BT_SCOPE
            took = bt_time(fn, NULL);
    if (!(took >= seconds * 0.999 && took < seconds + 10e-6)) fail_msg("%s took %g s, not %g", what, took, seconds);
}

static void times_are_those_of_the_model(void **state) {
    const int64_t count = 4 << 20;
    fresh("devices=sim:h200*2");
    BT_SCOPE {
        held[0] = bt_normal(bt_key(1), BT_F32, 1024, 1024);
        OK(bt_block(held[0]));
        TAKES(multiply, 2.0 * 1024 * 1024 * 1024 / 67e12);
        held[0] = bt_normal(bt_key(0), BT_F32, count);
        held[1] = bt_normal(bt_key(1), BT_F32, count);
        OK(bt_block(held[0]));
        OK(bt_block(held[1]));
        TAKES(add, 12.0 * (double)count / 4800e9);
        TAKES(to_the_other, 4.0 * (double)count / 450e9);
        TAKES(chain, 10 * 8.0 * (double)count / 4800e9 +
                         10 * 1e-6); /* of launches that follow each other, no host time is between */
    }
    fresh("devices=sim:rtx4090{bandwidth=100}*2@1G"); /* no link: through the host */
    BT_SCOPE {
        held[0] = bt_normal(bt_key(0), BT_F32, count);
        held[1] = bt_normal(bt_key(1), BT_F32, count);
        OK(bt_block(held[0]));
        OK(bt_block(held[1]));
        TAKES(add, 12.0 * (double)count / 100e9);
        TAKES(to_the_other, 4.0 * (double)count / 32e9);
    }
}

/* A CPU with a model: the host's own work takes its time too, and what is computed is computed by the host. */
static void times_are_those_of_the_cpu(void **state) {
    const int64_t count = 4 << 20;
    const double bandwidth = 10e9, each = 1000e-9 + 5000e-9 + 110e-9; /* recorded, submitted, launched */
    fresh("devices=sim:zen3{units=1/bandwidth=10/unit_bandwidth=0/cache=0/record_ns=1000/submit_ns=5000/start_ns=100/"
          "call_ns=10}");
    BT_SCOPE {
        held[0] = bt_normal(bt_key(0), BT_F32, count);
        held[1] = bt_normal(bt_key(1), BT_F32, count);
        OK(bt_block(held[0]));
        OK(bt_block(held[1]));
        TAKES(add, 12.0 * (double)count / bandwidth + each);
        TAKES(chain, 10 * (8.0 * (double)count / bandwidth + each));
    }
    fresh("devices=sim:zen3{units=1/clock=3/lanes=20/f32=0.05/product_ns=3000/cache=64}");
    BT_SCOPE {
        held[0] = bt_normal(bt_key(1), BT_F32, 1000, 1000); /* tiles are full, rows not a part of a page apart */
        OK(bt_block(held[0]));
        TAKES(multiply, 2.0 * 1000 * 1000 * 1000 / 50e9 + 3e-6 +
                            3.0 * 1000 * 1000 / (20 * 3e9)); /* and each element is moved once */
    }
}

/* --- several threads, several cards ------------------------------------------------------------------------------------------ */

static void *work_on(void *name) {
    for (int round = 0; round < 8; round++)
        BT_SCOPE
            BT_ON(name) {
                bt_array *x = bt_full(3, BT_F32, 40, 50), *sum = bt_sum(bt_matmul(x, bt_transpose(x)), BT_ALL, false);
                assert_true(bt_item(bt_to(sum, "gpu:0")) == 40 * 40 * 50 * 9.0);
            }
    return NULL;
}

static void threads_share_the_clock(void **state) {
    static char names[3][8] = {"gpu:0", "gpu:1", "gpu:1"};
    pthread_t threads[3];
    fresh("devices=sim:h200*1;sim:a100*1");
    for (int i = 0; i < 3; i++) assert_int_equal(pthread_create(&threads[i], NULL, work_on, names[i]), 0);
    for (int i = 0; i < 3; i++) pthread_join(threads[i], NULL);
}

/* Sums over cards: 2 * (2 - 1) steps of a ring, of half the bytes each. */
static void sums_over_cards(void **state) {
    fresh("devices=sim:h200*2");
    BT_SCOPE {
        const char *gpus[2] = {"gpu:0", "gpu:1"};
        bt_strategy *strategy = bt_mirrored(gpus, 2);
        bt_array *parts[2];
        for (int i = 0; i < 2; i++)
            BT_ON(gpus[i]) OK(bt_block(parts[i] = bt_full(i + 1, BT_F32, 1000)));
        bt_all_reduce(strategy, parts);
        assert_true(bt_item(bt_sum(parts[1], BT_ALL, false)) == 3000);
        bt_strategy_release(strategy);
    }
}

/* --- copies between cards -------------------------------------------------------------------------------------------------- */

enum { PARTS = 6, SIDE = 512 };

/* The first card works on one part, while the second one works on what it was sent of the part before. Or the host is sent all parts: w[1] is NULL. */
static void run_pipeline(bt_array *const *x, bt_array *const *w, bt_array **y) {
    for (int i = 0; i < PARTS; i++) {
        y[i] = bt_to(bt_matmul(x[i], w[0]), w[1] ? "gpu:1" : "cpu");
        if (w[1]) y[i] = bt_matmul(y[i], w[1]);
        OK(bt_eval(y[i]));
    }
    for (int i = 0; i < PARTS; i++) OK(bt_block(y[i]));
}

typedef struct span {
    double start, end;
} span;
typedef struct spans {
    int count;
    span items[4 * PARTS];
} spans;

static void note_span(spans *in, const json_t *event) {
    double start = json_number_value(json_object_get(event, "ts"));
    assert_true(in->count < COUNT(in->items));
    in->items[in->count++] = (span){start, start + json_number_value(json_object_get(event, "dur"))};
}

/* How many of them run while one of the others does. */
static int count_beside(const spans *these, const spans *others) {
    int beside = 0;
    for (int i = 0; i < these->count; i++)
        for (int k = 0; k < others->count; k++)
            if (these->items[i].start < others->items[k].end && others->items[k].start < these->items[i].end) {
                beside++;
                break;
            }
    return beside;
}

/* Kernels of both cards, copies, submissions and waits of the host. */
static void read_spans(const char *trace_file, spans *kernels, spans *copies, spans *submissions, spans *waits) {
    json_t *trace = json_load_file(trace_file, 0, NULL), *event;
    json_int_t first = 0;
    size_t i;
    json_array_foreach(json_object_get(trace, "traceEvents"), i, event) {
        const char *cat = json_string_value(json_object_get(event, "cat")),
                   *name = json_string_value(json_object_get(event, "name"));
        json_int_t process = json_integer_value(json_object_get(event, "pid"));
        if (strcmp(json_string_value(json_object_get(event, "ph")), "X") != 0) continue;
        if (!strcmp(cat, "kernel") && !first) first = process; /* nothing is to be done on the second one yet */
        if (!strcmp(cat, "kernel")) note_span(&kernels[process != first], event);
        if (!strcmp(cat, "copy")) note_span(copies, event);
        if (!strcmp(name, "submit")) note_span(submissions, event);
        if (!strcmp(name, "wait")) note_span(waits, event);
    }
    json_decref(trace);
}

/* Each card computes without a gap but those of the first part, and the host waits for none before it has submitted all. */
static void copies_run_beside_kernels_of_both_cards(void **state) {
    char file[64];
    spans kernels[2] = {{0}}, copies = {0}, submissions = {0}, waits = {0};
    snprintf(file, sizeof file, "/tmp/berth-pipeline-%d.json", (int)getpid());
    fresh("devices=sim:h200*2");
    BT_SCOPE {
        bt_array *x[PARTS], *w[2], *y[PARTS];
        for (int i = 0; i < PARTS; i++)
            BT_ON("gpu:0") OK(bt_block(x[i] = bt_full(i + 1, BT_F32, SIDE, SIDE)));
        BT_ON("gpu:0") OK(bt_block(w[0] = bt_full(0.5, BT_F32, SIDE, SIDE)));
        BT_ON("gpu:1") OK(bt_block(w[1] = bt_full(0.25, BT_F32, SIDE, SIDE)));
        run_pipeline(x, w, y);
        bt_synchronize();
        bt_profile *profile = bt_profile_start();
        run_pipeline(x, w, y);
        OK(bt_profile_stop(profile, file, NULL));
        for (int i = 0; i < PARTS; i++)
            assert_true(bt_item(bt_max(y[i], BT_ALL, false)) == (i + 1) * SIDE / 2.0 * SIDE / 4.0);
    }
    read_spans(file, kernels, &copies, &submissions, &waits);
    unlink(file);
    assert_int_equal(copies.count, PARTS);
    assert_int_equal(kernels[0].count, PARTS);
    assert_int_equal(kernels[1].count, PARTS);
    assert_int_equal(count_beside(&copies, &kernels[0]), PARTS - 1); /* the last one has nothing to run beside */
    assert_true(count_beside(&copies, &kernels[1]) >= PARTS - 2);
    assert_true(count_beside(&kernels[0], &kernels[1]) >= PARTS - 2);
    for (int i = 0; i < PARTS; i++) {
        assert_true(copies.items[i].start >= kernels[0].items[i].end - 1e-6);
        assert_true(kernels[1].items[i].start >= copies.items[i].end - 1e-6);
    }
    assert_int_equal(submissions.count, PARTS);
    assert_true(waits.count > 0 && submissions.items[PARTS - 1].start < waits.items[0].start);
    assert_true(submissions.items[PARTS - 1].start < kernels[0].items[PARTS - 1].start);
}

/* The card computes without a gap while parts are copied without one; the host waits for none before it has submitted all. */
static void copies_to_the_host_run_beside_kernels(void **state) {
    char file[64];
    spans kernels[2] = {{0}}, copies = {0}, submissions = {0}, waits = {0};
    snprintf(file, sizeof file, "/tmp/berth-fetches-%d.json", (int)getpid());
    fresh("devices=sim:h200*1");
    BT_SCOPE {
        bt_array *x[PARTS], *w[2] = {NULL, NULL}, *y[PARTS];
        for (int i = 0; i < PARTS; i++) OK(bt_block(x[i] = bt_full(i + 1, BT_F32, SIDE, SIDE)));
        OK(bt_block(w[0] = bt_full(0.5, BT_F32, SIDE, SIDE)));
        run_pipeline(x, w, y);
        bt_synchronize();
        bt_profile *profile = bt_profile_start();
        run_pipeline(x, w, y);
        OK(bt_profile_stop(profile, file, NULL));
        for (int i = 0; i < PARTS; i++) assert_true(bt_item(bt_max(y[i], BT_ALL, false)) == (i + 1) * SIDE / 2.0);
    }
    read_spans(file, kernels, &copies, &submissions, &waits);
    unlink(file);
    assert_int_equal(copies.count, PARTS);
    assert_int_equal(kernels[0].count, PARTS);
    for (int i = 0; i < PARTS; i++) assert_true(copies.items[i].start >= kernels[0].items[i].end - 1e-6);
    for (int i = 1; i < PARTS; i++) {
        assert_true(kernels[0].items[i].start <= kernels[0].items[i - 1].end + 1e-6);
        assert_true(copies.items[i].start <= copies.items[i - 1].end + 1e-6); /* it takes longer than a kernel */
    }
    assert_int_equal(submissions.count, PARTS);
    assert_true(waits.count > 0 && submissions.items[PARTS - 1].start < waits.items[0].start);
}

/* What is copied is forgotten at once, and its memory asked for again: by the card that made it, and by what arrives there. */
static void send_and_forget(const char *destination) {
    fresh("devices=sim:h200*2");
    BT_SCOPE {
        bt_array *back[8];
        for (int i = 0; i < COUNT(back); i++) {
            BT_SCOPE {
                bt_array *made = NULL;
                BT_ON("gpu:0") made = bt_add(bt_full(i, BT_F32, 1 << 20), bt_num(1));
                bt_array *there = bt_mul(bt_to(made, destination), bt_num(2));
                back[i] = bt_keep(bt_to(there, "gpu:0"));
                OK(bt_eval(back[i]));
            }
            BT_SCOPE
                BT_ON("gpu:0") OK(bt_eval(bt_full(-1, BT_F32, 1 << 20)));
        }
        for (int i = 0; i < COUNT(back); i++) {
            assert_true(bt_item(bt_max(back[i], BT_ALL, false)) == 2 * (i + 1));
            assert_true(bt_item(bt_max(bt_neg(back[i]), BT_ALL, false)) == -2 * (i + 1));
            bt_release(back[i]);
        }
    }
}

static void what_is_sent_is_not_overwritten(void **state) {
    send_and_forget("gpu:1");
    send_and_forget("cpu");
}

static int reports;
static void count_report(const char *line, void *data) {
    (void)data;
    reports += strstr(line, "injected fault") != NULL;
}

/* The copy, what it copies, or the wait of its reader: one error, with the line that made what is copied, and all else goes on. */
static void a_copy_that_fails_is_told_once(void **state) {
    static const char *const faults[] = {"gpu1/peer_copy:1", "gpu1/follow:1",   "gpu1/wait:1",
                                         "gpu0/launch:1",    "gpu0/download:1", "gpu0/launch:1"};
    for (int i = 0; i < COUNT(faults); i++) {
        const char *destination = i < 4 ? "gpu:1" : "cpu";
        fresh("devices=sim:h200*2");
        BT_SCOPE {
            bt_array *x = NULL, *other = NULL;
            float got[100];
            BT_ON("gpu:0") OK(bt_block(x = bt_full(3, BT_F32, 100)));
            OK(bt_set_flag("sim_fault", faults[i]));
            int line = __LINE__ + 1;
            bt_array *sent = bt_to(bt_neg(x), destination), *read = bt_mul(sent, bt_num(2));
            reports = 0;
            bt_set_log_sink(count_report, NULL);
            OK(bt_eval(read));
            char place[40];
            snprintf(place, sizeof place, "timeline_test.c:%d: bt_neg", line);
            FAILS(bt_read(read, got, sizeof got), BT_INTERNAL, "injected fault", place);
            FAILS(bt_block(sent), BT_INTERNAL, "injected fault", place);
            assert_true(reports <= 1);
            bt_set_log_sink(NULL, NULL);
            OK(bt_set_flag("sim_fault", ""));
            assert_true(bt_item(bt_max(x, BT_ALL, false)) == 3);
            other = bt_mul(bt_to(bt_neg(x), destination), bt_num(2));
            OK(bt_read(other, got, sizeof got));
            assert_true(got[99] == -6);
        }
    }
}

/* --- who is told --------------------------------------------------------------------------------------------------------------- */

static void devices_name_their_model(void **state) {
    fresh("devices=sim:h200*1;sim:a100{units=64}*1@2G");
    bt_device_info info = BT_DEVICE_INFO_INIT;
    OK(bt_device_describe(device("gpu:0"), &info));
    assert_string_equal(info.description, "Simulated NVIDIA H200 by a model");
    assert_true(info.memory_bytes == (size_t)141e9 && info.capability_major == 9);
    OK(bt_device_describe(device("gpu:1"), &info));
    assert_string_equal(info.description, "Simulated NVIDIA A100 by a model with units=64");
    assert_true(info.memory_bytes == (size_t)2 << 30 && info.capability_major == 8);
    fresh("devices=sim:zen3@1G;sim:h200*1");
    OK(bt_device_describe(device("cpu"), &info));
    assert_string_equal(info.description, "Simulated AMD EPYC (Zen 3) by a model");
    assert_string_equal(info.driver, "timed_cpu");
    assert_true(info.memory_bytes == (size_t)1 << 30 && bt_device_count(BT_GPU) == 1);
    fresh("");
    FAILS(bt_set_devices("sim:zen3;sim:cpu"), BT_INVALID_ARGUMENT, "either all simulated CPUs have a model");
    FAILS(bt_set_devices("sim:zen3{cores=3}"), BT_INVALID_ARGUMENT, "cores=3", "lanes");
    FAILS(bt_set_devices("sim:h200*1;sim:gpu*1"), BT_INVALID_ARGUMENT, "either all simulated GPUs have a model");
    FAILS(bt_set_devices("sim:h300*1"), BT_INVALID_ARGUMENT, "h200, a100 or rtx4090");
    FAILS(bt_set_devices("sim:h200{speed=3}*1"), BT_INVALID_ARGUMENT, "speed=3", "bandwidth");
    FAILS(bt_set_devices("sim:h200{units=3*1"), BT_INVALID_ARGUMENT, "no }");
    OK(bt_set_devices("sim:h200*1"));
    assert_string_equal(bt_device_driver(device("gpu:0")), "timed");
}

static void profiles_say_so(void **state) {
    fresh("devices=sim:h200*1");
    char *text;
    bt_profile *profile = bt_profile_start();
    train(NULL);
    OK(bt_profile_stop(profile, NULL, &text));
    SAYS(text, "of virtual time");
    bt_free(text);
    fresh("devices=sim:gpu*1"); /* the wall's clock again */
    profile = bt_profile_start();
    train(NULL);
    OK(bt_profile_stop(profile, NULL, &text));
    assert_null(strstr(text, "of virtual time"));
    bt_free(text);
    assert_true(bt_time(train, NULL) > 0);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_timeline_repeats),
        cmocka_unit_test(times_are_those_of_the_model),
        cmocka_unit_test(times_are_those_of_the_cpu),
        cmocka_unit_test(threads_share_the_clock),
        cmocka_unit_test(sums_over_cards),
        cmocka_unit_test(copies_run_beside_kernels_of_both_cards),
        cmocka_unit_test(copies_to_the_host_run_beside_kernels),
        cmocka_unit_test(what_is_sent_is_not_overwritten),
        cmocka_unit_test(a_copy_that_fails_is_told_once),
        cmocka_unit_test(devices_name_their_model),
        cmocka_unit_test(profiles_say_so),
    };
    return argc > 2 ? record(argv[1], argv[2]) : cmocka_run_group_tests(tests, NULL, fresh_end);
}
