// timeout: 900
/* A training run that is killed (SIGKILL) at random moments, half of them while a checkpoint is written, and goes on each time: the same losses and weights, bit for bit, as without
 * the kills, and each checkpoint is whole or absent. 200 kills in a long check. And a disk that is full. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <spawn.h>
#include <sys/inotify.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "support/support.h"

enum {
    ROWS = 160,
    INPUTS = 48,
    HIDDEN = 96,
    CLASSES = 4,
    BATCH = 16,
    EPOCHS = 12,
    STEPS = EPOCHS * ROWS / BATCH,
    EVERY = 7
};

extern char **environ;
static char folder[64];

static int start(void **state) {
    fresh("");
    snprintf(folder, sizeof folder, "/tmp/berth-kills-test-XXXXXX");
    return !mkdtemp(folder);
}
static int end(void **state) {
    char line[100];
    snprintf(line, sizeof line, "rm -rf %s", folder);
    return system(line);
}

/* --- the run: a process of its own ---------------------------------------------------------------------------------------- */

/* What a run comes to: the loss of each step, by epoch both losses, and the weights at the end. Appended to a file, a record at a time. */
typedef struct record {
    int64_t kind,
        number; /* 'b' a process begins; 'l' the next step's loss, 's' which step is over, 'e' an epoch, 'w' the weights */
    double loss, judged;
} record;

static int log_file;
static int64_t full_at; /* steps after which no file may grow; 0: never */
/* It is so by now: libraries that make code in files of memory cannot either, and what takes their place may have other bits. */
static atomic_bool is_full;

static void write_record(record r) {
    if (write(log_file, &r, sizeof r) != sizeof r) _exit(9);
}

static void tell_loss(const bt_elements *value, void *data) {
    if (!is_full) write_record((record){'l', 0, (double)*(const float *)value->data, 0});
}
static bt_array *told_loss(bt_layer *model, bt_array *x, bt_array *y, void *data) {
    bt_array *loss = bt_cross_entropy(bt_apply(model, x), y);
    return bt_is_training() ? bt_debug_callback(tell_loss, NULL, loss) : loss;
}

static bt_status follow(bt_fit_event *event, void *data) {
    bool step = event->kind == BT_FIT_STEP;
    if (!is_full || step)
        write_record(
            (record){step ? 's' : 'e', step ? event->steps : event->epoch, event->loss, event->validation_loss});
    if (step && full_at && event->steps == full_at) {
        struct rlimit limit = {16 << 10, RLIM_INFINITY};
        if (setrlimit(RLIMIT_FSIZE, &limit)) _exit(9);
        is_full = true;
    }
    return BT_OK;
}

static bt_layer *make_model(void) {
    bt_array *keys = bt_split(bt_key(3), 3);
    return bt_chain(bt_dense(INPUTS, HIDDEN, bt_relu, bt_split_at(keys, 0)), bt_batch_norm_layer(HIDDEN),
                    bt_dropout_layer(0.25, bt_split_at(keys, 1)),
                    bt_dense(HIDDEN, CLASSES, NULL, bt_split_at(keys, 2)));
}

/* The sum of all bits of the parameters, which any other bit changes. */
static double digest(const bt_layer *model) {
    bt_shared *parameters[16];
    int count = bt_parameters(model, parameters, 16);
    double sum = 0;
    for (int p = 0; p < count; p++) {
        const uint32_t *bits = bt_map(bt_value(parameters[p]));
        for (int64_t i = 0; bits && i < bt_count(bt_value(parameters[p])); i++) sum = fmod(sum * 31 + bits[i], 1e15);
    }
    return sum;
}

/* FOLDER LOG FULL_AT; 0, 3: it failed, 4: as is expected of a full disk */
static int run_child(char **arguments) {
    log_file = open(arguments[1], O_WRONLY | O_APPEND | O_CREAT, 0600);
    full_at = atoi(arguments[2]);
    write_record((record){.kind = 'b'});
    bt_status status = BT_OK;
    BT_SCOPE {
        bt_array *x = bt_normal(bt_key(1), BT_F32, ROWS, INPUTS);
        bt_array *y = bt_cast(bt_argmax(bt_matmul(x, bt_normal(bt_key(2), BT_F32, INPUTS, CLASSES)), 1), BT_I32);
        bt_layer *model = make_model();
        bt_optimizer *adam = bt_adamw(0.01, .clip_norm = 1);
        status = bt_optimizer_schedule(adam, BT_SCHEDULE_COSINE, .steps = STEPS, .warmup = 9);
        if (status == BT_OK)
            status = bt_fit(model, adam, x, y,
                            BT_FIT_OPTIONS(.loss = told_loss, .epochs = EPOCHS, .batch = BATCH, .quiet = true,
                                           .checkpoints = arguments[0], .checkpoint_steps = EVERY, .callback = follow,
                                           .each_step = true, .validation_x = x, .validation_y = y),
                            NULL);
        if (status == BT_OK) write_record((record){'w', 0, digest(model), 0});
    }
    if (status == BT_OK) return 0;
    if (full_at && strstr(bt_error_text(), "File too large")) return 4;
    fprintf(stderr, "%s\n", bt_error_text());
    return 3;
}

static const char *path_in(const char *name) {
    static char paths[4][160];
    static int next;
    char *path = paths[next++ % 4];
    snprintf(path, sizeof paths[0], "%s/%s", folder, name);
    return path;
}

static pid_t start_child(const char *into, const char *log, int full) {
    char number[16], *arguments[] = {(char *)"run", (char *)into, (char *)log, number, NULL};
    pid_t child;
    snprintf(number, sizeof number, "%d", full);
    assert_int_equal(posix_spawn(&child, "/proc/self/exe", NULL, NULL, arguments, environ), 0);
    return child;
}

/* Its exit status; -1: it was killed. */
static int wait_for(pid_t child) {
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* --- what it came to ------------------------------------------------------------------------------------------------------ */

typedef struct outcome {
    double steps[STEPS + 1], epochs[EPOCHS], judged[EPOCHS], weights;
} outcome;

static void expect_same(double *known, double fresh, const char *what, int64_t number) {
    if (isnan(*known)) *known = fresh;
    if (*known != fresh) fail_msg("%s %lld: %.17g, not %.17g", what, (long long)number, fresh, *known);
}

/* The losses of one process, which began behind a step: -1: it was killed before it told which. */
static void check_losses(const double *losses, int count, int64_t behind, outcome *o) {
    for (int i = 0; i < count && behind >= 0; i++) {
        assert_true(behind + i + 1 <= STEPS);
        expect_same(&o->steps[behind + i + 1], losses[i], "the loss of step", behind + i + 1);
    }
}

/* All records of the log agree with each other, and with what was known. */
static void read_log(const char *log, outcome *o) {
    FILE *file = fopen(log, "r");
    assert_non_null(file);
    double losses[STEPS + 1];
    int count = 0;
    int64_t behind = -1;
    for (record r; fread(&r, sizeof r, 1, file) == 1;) {
        if (r.kind == 'b') {
            check_losses(losses, count, behind, o);
            count = 0;
            behind = -1;
        }
        if (r.kind == 'l') losses[count++] = r.loss;
        if (r.kind == 's' && behind < 0) behind = r.number - 1;
        if (r.kind == 'e') expect_same(&o->epochs[r.number], r.loss, "the loss of epoch", r.number);
        if (r.kind == 'e') expect_same(&o->judged[r.number], r.judged, "the validation loss of epoch", r.number);
        if (r.kind == 'w') expect_same(&o->weights, r.loss, "the weights", 0);
    }
    check_losses(losses, count, behind, o);
    fclose(file);
}

static void make_reference(outcome *o) {
    double *all = (double *)o;
    for (size_t i = 0; i < sizeof *o / sizeof *all; i++) all[i] = NAN;
    assert_int_equal(wait_for(start_child(path_in("whole"), path_in("whole.log"), 0)), 0);
    read_log(path_in("whole.log"), o);
    assert_false(isnan(o->weights) || isnan(o->epochs[EPOCHS - 1]) || isnan(o->steps[1]) || isnan(o->steps[STEPS]));
}

/* Each file by its name is whole: all its tensors can be read. Returns how many there are. */
static int check_files(const char *inside) {
    DIR *directory = opendir(inside);
    int whole = 0;
    if (!directory) return 0; /* killed before it was made */
    for (struct dirent *entry; (entry = readdir(directory));) {
        if (entry->d_name[0] == '.') continue; /* an unfinished one, which the next run removes */
        char path[600];
        snprintf(path, sizeof path, "%s/%s", inside, entry->d_name);
        bt_tensors *file;
        OK(bt_tensors_open(path, &file));
        for (int i = 0; i < bt_tensors_count(file); i++)
            BT_SCOPE
                OK(bt_block(bt_tensors_get(file, bt_tensors_name(file, i))));
        bt_tensors_close(file);
        whole++;
    }
    closedir(directory);
    return whole;
}

static int count_unfinished(const char *inside) {
    DIR *directory = opendir(inside);
    int count = 0;
    for (struct dirent *entry; directory && (entry = readdir(directory));)
        count += !strncmp(entry->d_name, ".berth-", strlen(".berth-"));
    if (directory) closedir(directory);
    return count;
}

/* --- kills ---------------------------------------------------------------------------------------------------------------- */

static uint64_t seed = 88172645463325252u;
static double draw(void) {
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return (double)(seed >> 11) * 0x1p-53;
}

static double seconds_now(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}
static void wait_seconds(double seconds) {
    nanosleep(&(struct timespec){(time_t)seconds, (long)(fmod(seconds, 1) * 1e9)}, NULL);
}

/* Until so many files have been begun, and a moment more; or the process has ended. */
static void wait_for_files(pid_t child, int watch, int files) {
    char events[4096];
    siginfo_t ended = {.si_pid = 0};
    while (files > 0 && waitid(P_PID, (id_t)child, &ended, WEXITED | WNOHANG | WNOWAIT) == 0 && !ended.si_pid) {
        if (poll(&(struct pollfd){.fd = watch, .events = POLLIN}, 1, 20) < 1) continue;
        ssize_t bytes = read(watch, events, sizeof events);
        for (ssize_t at = 0; at < bytes; files--)
            at += (ssize_t)sizeof(struct inotify_event) + ((struct inotify_event *)(events + at))->len;
    }
    wait_seconds(0.001 * draw());
}

/* Starts it, and kills it at random; whether it had ended before. */
static bool run_and_kill(const char *into, const char *log, double usual, bool in_a_file) {
    int watch = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
    (void)mkdir(into, 0700);
    assert_true(watch >= 0 && inotify_add_watch(watch, into, IN_CREATE | IN_MOVED_TO) >= 0);
    pid_t child = start_child(into, log, 0);
    if (in_a_file)
        wait_for_files(child, watch, 1 + (int)(12 * draw()));
    else
        wait_seconds(usual * draw());
    kill(child, SIGKILL);
    int status = wait_for(child);
    close(watch);
    if (status > 0) fail_msg("the run ended with %d", status);
    return status == 0;
}

static void killed_and_resumed(void **state) {
    static outcome o;
    int kills = getenv("BERTH_TEST_LONG")    ? 200
                : getenv("BERTH_TEST_SHORT") ? 4
                                             : 16,
        killed = 0, runs = 0, unfinished = 0;
    double began = seconds_now();
    make_reference(&o);
    double usual = seconds_now() - began;
    while (killed < kills || !runs) {
        char name[32], log[40];
        bool over = false;
        snprintf(name, sizeof name, "run-%d", runs);
        snprintf(log, sizeof log, "%s.log", name);
        while (!over && killed < kills) {
            over = run_and_kill(path_in(name), path_in(log), usual, killed % 2);
            killed += !over;
            check_files(path_in(name));
            unfinished += count_unfinished(path_in(name));
        }
        if (!over) assert_int_equal(wait_for(start_child(path_in(name), path_in(log), 0)), 0);
        read_log(path_in(log), &o);
        assert_true(check_files(path_in(name)) >= 2);
        assert_int_equal(count_unfinished(path_in(name)), 0);
        runs++;
    }
    print_message("%d kills, %d runs; %d times a file was unfinished\n", killed, runs, unfinished);
    if (kills >= 16) assert_true(unfinished > 0);
}

/* --- a full disk ---------------------------------------------------------------------------------------------------------- */

static void full_disk(void **state) {
    static outcome o;
    make_reference(&o);
    for (int at = 3; at < STEPS; at += 40) { /* before the first checkpoint, and between others */
        char name[32], log[40];
        snprintf(name, sizeof name, "full-%d", at);
        snprintf(log, sizeof log, "%s.log", name);
        assert_int_equal(wait_for(start_child(path_in(name), path_in(log), at)), 4);
        int whole = check_files(path_in(name));
        assert_int_equal(whole > 0, at > EVERY);
        assert_int_equal(count_unfinished(path_in(name)), 0);
        assert_int_equal(wait_for(start_child(path_in(name), path_in(log), 0)), 0); /* there is room again */
        read_log(path_in(log), &o);
    }
}

int main(int count, char **arguments) {
    if (count == 4 && !strcmp(arguments[0], "run")) return run_child(arguments + 1);
    const struct CMUnitTest tests[] = {cmocka_unit_test(killed_and_resumed), cmocka_unit_test(full_disk)};
    return cmocka_run_group_tests(tests, start, end);
}
