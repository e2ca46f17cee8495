// labels: threads
// timeout: 5400
/* Random programs in every way that this library can run them: the interpreter says what is right, the others must be near it and
 * equal to one another bit for bit. A program for which that fails is cut down to what still fails, and printed. */
#include <getopt.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "random_programs/loops.h"

typedef enum share { ALL, EVEN, ODD } share;

typedef struct mode {
    const char *name, *flags;
    bool oracle; /* computed by other functions: near, not equal */
    share runs;  /* modes that compile all run one half of the programs each, unless BERTH_TEST_LONG is set */
    int threads; /* run programs side by side */
} mode;

#define DEVICES "devices=sim:gpu*3@256M,"
#define CARDS "devices=sim:h200*3@256M," /* late: in virtual time */
static const mode simulated_modes[] = {
    {"interpreter", DEVICES "kernels=interpreter", true, ALL, 1},
    {"fused", DEVICES "kernels=auto", false, ALL, 1},
    {"unfused", DEVICES "fuse=off", false, ALL, 1},
    {"blocks", DEVICES "kernels=blocks", false, ALL, 1},
    {"compiled", DEVICES "kernels=compiled", false, EVEN, 1},
    {"one thread, one by one", DEVICES "threads=1,sync=on", false, ALL, 1},
    {"flushed often", DEVICES "flush_nodes=3,kernels=blocks", false, ALL, 1},
    {"avx2", DEVICES "vector=avx2,kernels=compiled", false, ODD, 1},
    {"sse2", DEVICES "vector=sse2", false, ALL, 1},
    {"eight threads", DEVICES "kernels=blocks,memory_fill=on", false, ALL, 8},
    {"the CPU", DEVICES "default_device=cpu:0,memory_fill=on", false, EVEN, 1},
    {"cards", CARDS "kernels=blocks,memory_fill=on", false, ALL, 1},
    {"cards, eight threads", CARDS "kernels=blocks,flush_nodes=5", false, ODD, 8},
};
/* With --gpus: on the GPUs of this machine, three of them where there are as many. */
static const mode gpu_modes[] = {
    {"interpreter", DEVICES "kernels=interpreter", true, ALL, 1},
    {"GPUs", "default_device=gpu:0", false, ALL, 1},
    {"GPUs, eight threads", "default_device=gpu:0,flush_nodes=5,memory_fill=on", false, ALL, 8},
    {"GPUs, unfused", "default_device=gpu:0,fuse=off", false, ODD, 1},
};

/* With --tpus: on those of the plugin that BERTH_FLAGS names. Each program is compiled. */
static const mode tpu_modes[] = {
    {"interpreter", "devices=sim:tpu*3@256M,kernels=interpreter", true, ALL, 1},
    {"TPUs", "default_device=tpu:0", false, ALL, 1},
    {"TPUs, flushed often", "default_device=tpu:0,flush_nodes=3", true, ODD, 1},
};

/* What is checked of a seed besides. */
typedef struct check {
    const char *name, *flags;
    share runs;
    const char *(*fails)(uint64_t seed);
} check;
static const check simulated_checks[] = {
    {"calls", DEVICES "kernels=blocks,memory_fill=on", EVEN, check_calls},
    {"calls on cards", CARDS "kernels=blocks", ODD, check_calls},
    {"plans", DEVICES "kernels=blocks,memory_fill=on", ODD, check_plans},
    {"plans on cards", CARDS "kernels=blocks", EVEN, check_plans},
    {"one program by eight threads", DEVICES "kernels=blocks", EVEN, check_threads},
    {"one program by eight threads on cards", CARDS "kernels=blocks,memory_fill=on", ODD, check_threads},
    {"faults", DEVICES "kernels=blocks,memory_fill=on,strict=on", EVEN, check_faults},
    {"faults on cards", CARDS "kernels=blocks,strict=on", ODD, check_faults},
};
static const check gpu_checks[] = {{"calls", "default_device=gpu:0", EVEN, check_calls},
                                   {"plans", "default_device=gpu:0,memory_fill=on", ODD, check_plans},
                                   {"one program by eight threads", "default_device=gpu:0", ODD, check_threads},
                                   {"faults", "default_device=gpu:0,strict=on", EVEN, check_faults}};
static const check tpu_checks[] = {{"calls", "default_device=tpu:0", EVEN, check_calls},
                                   {"plans", "default_device=tpu:0,memory_fill=on", ODD, check_plans},
                                   {"one program by eight threads", "default_device=tpu:0", ODD, check_threads}};
/* With --loops: programs of loops and branches. */
static const check loop_checks[] = {
    {"loops beside what they stand for", DEVICES "kernels=blocks,memory_fill=on", EVEN, check_loops},
    {"loops on cards beside what they stand for", CARDS "kernels=blocks,memory_fill=on", ODD, check_loops},
    {"plans of loops", DEVICES "kernels=blocks,memory_fill=on", ODD, check_loop_plans},
    {"plans of loops on cards", CARDS "kernels=blocks", EVEN, check_loop_plans},
};
static const check gpu_loop_checks[] = {
    {"loops beside what they stand for", "default_device=gpu:0,memory_fill=on", ALL, check_loops},
    {"plans of loops", "default_device=gpu:0,memory_fill=on", ODD, check_loop_plans}};

static const check tpu_loop_checks[] = {
    {"loops beside what they stand for", "default_device=tpu:0,memory_fill=on", ALL, check_loops},
    {"plans of loops", "default_device=tpu:0,memory_fill=on", ODD, check_loop_plans}};

enum { BATCH = 100 };
#define LENGTH(table) (int)(sizeof(table) / sizeof *(table))
static const mode *modes = simulated_modes;
static const check *checks = simulated_checks;
static int mode_count = LENGTH(simulated_modes), check_count = LENGTH(simulated_checks);

static void (*run_one)(uint64_t seed, const bool *skip, FILE *print, const char *perturb, outcomes *out) = run_program;
static const char *perturbed; /* of the mode "blocks", to test the search */
static double run_seconds;
static bool seeds_are_chosen; /* by an option: each in all modes */

static void must(bt_status status) {
    if (status == BT_OK) return;
    fprintf(stderr, "random_programs: %s\n", bt_error_text());
    exit(2);
}

static void begin(const char *flags) {
    must(bt_shutdown());
    for (int i = 0; i < bt_flag_count(); i++) {
        bt_flag_info info = BT_FLAG_INFO_INIT;
        must(bt_flag_describe(i, &info));
        if (strcmp(info.name, "cache") && strcmp(info.name, "cuda_path") && strcmp(info.name, "probe") &&
            strcmp(info.name, "pjrt_plugins"))
            must(bt_set_flag(info.name, info.default_value));
    }
    char copy[200], *rest = copy;
    snprintf(copy, sizeof copy, "%s", flags);
    for (char *one; (one = strsep(&rest, ","));) {
        char *value = strchr(one, '=');
        *value++ = 0;
        must(bt_set_flag(one, value));
    }
}

static void begin_mode(int m) { begin(modes[m].flags); }

static bool runs_for(share runs, uint64_t seed) {
    if (runs == ALL || seeds_are_chosen || getenv("BERTH_TEST_LONG")) return true;
    return runs == (seed % 2 ? ODD : EVEN);
}

static void run_in(int m, uint64_t seed, const bool *skip, FILE *print, outcomes *out) {
    bool perturb = perturbed && !strcmp(modes[m].name, "blocks");
    run_one(seed, skip, print, perturb ? perturbed : NULL, out);
}

static const char *compare(int m, const outcomes *oracle, const outcomes *fused, const outcomes *here) {
    const char *what = differ(oracle, here, false);
    return what || m == 1 ? what : differ(fused, here, true);
}

/* What is wrong with mode m for this program; NULL: nothing. */
static const char *try_program(int m, uint64_t seed, const bool *skip) {
    outcomes of[3];
    int which[3] = {0, 1, m};
    for (int i = 0; i < 3; i++) {
        begin_mode(which[i]);
        run_in(which[i], seed, skip, NULL, &of[i]);
    }
    const char *what = compare(m, &of[0], &of[1], &of[2]);
    for (int i = 0; i < 3; i++) free_outcomes(&of[i]);
    return what;
}

void cut_down(bool (*fails)(const bool *skip, void *data), void *data, bool *skip) {
    for (int round = 0; round < 2; round++)
        for (int i = MOST_INSTRUCTIONS - 1; i >= 0; i--) {
            if (skip[i]) continue;
            skip[i] = true;
            if (!fails(skip, data)) skip[i] = false;
        }
}

typedef struct failure {
    int mode;
    uint64_t seed;
} failure;

static bool still_fails(const bool *skip, void *data) {
    const failure *f = data;
    return try_program(f->mode, f->seed, skip) != NULL;
}

/* Prints what remains. */
static void shrink(int m, uint64_t seed) {
    bool skip[MOST_INSTRUCTIONS] = {false};
    cut_down(still_fails, &(failure){m, seed}, skip);
    const char *what = try_program(m, seed, skip);
    printf("seed %llu, mode \"%s\" (BERTH_FLAGS=%s): %s. What still fails:\n", (unsigned long long)seed, modes[m].name,
           modes[m].flags, what ? what : "nothing when it runs alone");
    outcomes out;
    begin_mode(m);
    run_in(m, seed, skip, stdout, &out);
    free_outcomes(&out);
}

static long results, refused; /* of the oracle */
static outcomes oracle[BATCH], fused[BATCH], here[BATCH];

/* Programs first + worker, first + worker + workers, ... of a batch, in a mode. */
typedef struct work {
    int mode, worker, workers, count;
    uint64_t first;
    outcomes *out;
} work;

static void *run_part(void *argument) {
    const work *part = argument;
    for (int i = part->worker; i < part->count; i += part->workers)
        if (runs_for(modes[part->mode].runs, part->first + (uint64_t)i))
            run_in(part->mode, part->first + (uint64_t)i, NULL, NULL, &part->out[i]);
    return NULL;
}

static void run_mode(int m, uint64_t first, int count, outcomes *out) {
    int workers = modes[m].threads;
    pthread_t threads[16];
    work parts[16];
    begin_mode(m);
    for (int w = 0; w < workers; w++) parts[w] = (work){m, w, workers, count, first, out};
    for (int w = 1; w < workers; w++)
        if (pthread_create(&threads[w], NULL, run_part, &parts[w])) exit(2);
    run_part(&parts[0]);
    for (int w = 1; w < workers; w++) pthread_join(threads[w], NULL);
}

/* Seeds first..first+count-1 in every mode; the number that fail. */
static int run_batch(uint64_t first, int count) {
    static int failed_mode[BATCH];
    int failures = 0;
    memset(failed_mode, 0, sizeof failed_mode);
    for (int m = 0; m < mode_count; m++) {
        outcomes *out = m == 0 ? oracle : m == 1 ? fused : here;
        run_mode(m, first, count, out);
        for (int i = 0; i < count; i++) {
            if (!runs_for(modes[m].runs, first + (uint64_t)i)) continue;
            for (int k = 0; k < out[i].count && m == 0; k++) *(out[i].of[k].status == BT_OK ? &results : &refused) += 1;
            if (m > 0 && !failed_mode[i] && compare(m, &oracle[i], &fused[i], &out[i])) failed_mode[i] = m;
            if (m > 1) free_outcomes(&out[i]);
        }
    }
    for (int i = 0; i < count; i++) {
        free_outcomes(&oracle[i]);
        free_outcomes(&fused[i]);
        if (!failed_mode[i]) continue;
        if (failures++ < 3) shrink(failed_mode[i], first + (uint64_t)i);
    }
    return failures;
}

static int run_checks(uint64_t first, int count) {
    int failures = 0;
    for (int c = 0; c < check_count; c++) {
        begin(checks[c].flags);
        for (int i = 0; i < count; i++) {
            uint64_t seed = first + (uint64_t)i;
            const char *what = runs_for(checks[c].runs, seed) ? checks[c].fails(seed) : NULL;
            if (what && failures++ < 10)
                printf("seed %llu, check \"%s\" (BERTH_FLAGS=%s): %s\n", (unsigned long long)seed, checks[c].name,
                       checks[c].flags, what);
        }
    }
    return failures;
}

static void ignore(const char *line, void *data) { (void)line, (void)data; }

static void write_summary(const char *path, uint64_t first, uint64_t last, int failures) {
    FILE *file = fopen(path, "w");
    if (!file) return;
    char date[32];
    time_t now = time(NULL);
    strftime(date, sizeof date, "%Y-%m-%d", gmtime(&now));
    fprintf(file, "# Random programs\n\n%s: seeds %llu to %llu, each in %d modes (", date, (unsigned long long)first,
            (unsigned long long)last, mode_count);
    for (int m = 0; m < mode_count; m++) fprintf(file, "%s%s", m ? "; " : "", modes[m].name);
    fprintf(
        file,
        "): **%d differences** in %.0f s. `build/release/tests/random_programs --seeds %llu..%llu` runs it again.\n",
        failures, run_seconds, (unsigned long long)first, (unsigned long long)last);
    fclose(file);
}

static unsigned long long usual_last(void) {
    bool loops = run_one == run_loops, convs = run_one == run_convs;
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    return loops ? 12 : convs ? 6 : 40;
#endif
    if (getenv("BERTH_TEST_LONG")) return loops ? 2000 : convs ? 1000 : 20000;
    return loops ? 150 : convs ? 30 : 500;
}

/* Few of the first 500, other ones for each draw; or a part of all. */
static void draw_seeds(unsigned long long *first, unsigned long long *last) {
    const char *draw = getenv("BERTH_TEST_DRAW");
    bool all = getenv("BERTH_TEST_LONG"), loops = run_one == run_loops; /* those have more kernels */
    *first = all ? 1 : 1 + 2 * (draw ? strtoull(draw, NULL, 10) % 250 : 0);
    *last = all ? (loops ? 60 : 200) : *first + (loops ? 0 : 1);
    printf("seeds %llu to %llu\n", *first, *last);
}

static void choose_checks(void) {
    bool loops = run_one == run_loops;
    if (modes == gpu_modes) {
        checks = loops ? gpu_loop_checks : gpu_checks;
        check_count = loops ? LENGTH(gpu_loop_checks) : LENGTH(gpu_checks);
    } else if (modes == tpu_modes) {
        checks = loops ? tpu_loop_checks : tpu_checks;
        check_count = loops ? LENGTH(tpu_loop_checks) : LENGTH(tpu_checks);
    } else {
        checks = loops ? loop_checks : simulated_checks;
        check_count = loops ? LENGTH(loop_checks) : LENGTH(simulated_checks);
    }
}

int main(int argc, char **argv) {
    static const struct option options[] = {{"seeds", required_argument, NULL, 's'},
                                            {"print", required_argument, NULL, 'p'},
                                            {"break", required_argument, NULL, 'b'},
                                            {"summary", required_argument, NULL, 'f'},
                                            {"gpus", no_argument, NULL, 'g'},
                                            {"tpus", no_argument, NULL, 't'},
                                            {"loops", no_argument, NULL, 'l'},
                                            {"convs", no_argument, NULL, 'c'},
                                            {0}};
    unsigned long long first = 1, last = 0, print = 0;
    const char *summary = NULL;
    for (int option; (option = getopt_long(argc, argv, "", options, NULL)) != -1;) {
        if (option == 'p') print = strtoull(optarg, NULL, 10);
        if (option == 'b') perturbed = optarg;
        if (option == 'f') summary = optarg;
        if (option == 's') seeds_are_chosen = true;
        if (option == 'g') modes = gpu_modes, mode_count = LENGTH(gpu_modes);
        if (option == 't') modes = tpu_modes, mode_count = LENGTH(tpu_modes), moves_to_tpus = true;
        if (option == 'l') run_one = run_loops;
        if (option == 'c') run_one = run_convs;
        if (option == '?' || (option == 's' && sscanf(optarg, "%llu..%llu", &first, &last) != 2)) {
            fprintf(stderr, "usage: random_programs [--loops | --convs] [--gpus | --tpus] [--seeds A..B] [--print "
                            "SEED] [--break NAME] "
                            "[--summary FILE]\n");
            return 2;
        }
    }
    choose_checks();
    if (!last) last = usual_last();
    if (modes != simulated_modes && !seeds_are_chosen) draw_seeds(&first, &last);
    bt_set_log_sink(ignore, NULL);
    if (print) {
        outcomes out;
        begin_mode(0);
        run_one(print, NULL, stdout, NULL, &out);
        free_outcomes(&out);
        return 0;
    }
    struct timespec start, end;
    clock_gettime(CLOCK_MONOTONIC, &start);
    int failures = 0;
    for (uint64_t seed = first; seed <= last; seed += BATCH) {
        int count = last - seed + 1 < BATCH ? (int)(last - seed + 1) : BATCH;
        failures += run_batch(seed, count);
        if (!perturbed && run_one != run_convs) failures += run_checks(seed, count);
    }
    clock_gettime(CLOCK_MONOTONIC, &end);
    run_seconds = (double)(end.tv_sec - start.tv_sec) + 1e-9 * (double)(end.tv_nsec - start.tv_nsec);
    printf("%llu programs, %ld results, %ld of them refused, %d modes, %d differences\n", last - first + 1,
           results + refused, refused, mode_count, failures);
    if (failures) printf("%d checks failed\n", failures);
    if (summary) write_summary(summary, first, last, failures);
    return failures ? 1 : 0;
}
