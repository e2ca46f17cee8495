// labels: threads slow-tsan
// timeout: 300
/* Tasks that are handed GPUs: the table of docs/tasks-gpus.md, simulated GPUs behind the mask, shares, and that none is handed on too early. */
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <jansson.h>

#include "support/check.h"
#include "support/programs.h"
#include "support/support.h"

/* Seen by all processes of a test. */
static struct shared { atomic_int arrived, pid, now[64], shares[64], most_together, failures; } * shared;

/* Each test is a process of its own: a runtime begins in one that has opened no device. */
static void in_process(int (*fn)(void *data), void *data) {
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(shared != MAP_FAILED);
    fflush(NULL);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        alarm(200);
        _exit(fn(data));
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    munmap(shared, sizeof *shared);
}

#undef OK
#define OK(call) CHECK((call) == BT_OK)
#define TRY(call)                             \
    do {                                      \
        bt_status status_ = (call);           \
        if (status_ != BT_OK) return status_; \
    } while (0)

static bool says(const char *part) {
    if (strstr(bt_error_text(), part)) return true;
    fprintf(stderr, "\"%s\" does not say \"%s\"\n", bt_error_text(), part);
    return false;
}

static void nap(void) { usleep(1000); }

/* --- the table -------------------------------------------------------------------------------------------------------- */

/* "VARIABLE|IDS" */
static bt_status see(bt_task *task) {
    const char *mask = getenv("CUDA_VISIBLE_DEVICES");
    char text[1024], *at = text + sprintf(text, "%s|", mask ? mask : "unset");
    int ids[64], count = bt_get_gpu_ids(ids, 64);
    for (int i = 0; i < count; i++) at += sprintf(at, "%s%d", i ? " " : "", ids[i]);
    if (!count) strcpy(at, "none");
    return bt_return(task, (const char *)text);
}
BT_REMOTE(see);

static bt_status see_nothing(bt_task *task) { return see(task); }
BT_REMOTE(see_nothing, .num_gpus = 0);

static bt_status make_seer(bt_task *task) { return bt_set_state(task, NULL, NULL), BT_OK; }
BT_REMOTE(make_seer);

typedef struct row {
    char program[256], runtime[32], task[32], worker[256], ids[64];
    bool by_actor;
} row;

static bt_status start(const char *num_gpus) {
    if (!strcmp(num_gpus, "not said")) return bt_runtime_init(.num_cpus = 2);
    return bt_runtime_init(.num_cpus = 2, .num_gpus = !strcmp(num_gpus, "BT_DETECT") ? BT_DETECT : atoi(num_gpus));
}

static bt_status ask_task(const char *num_gpus, const char **text) {
    bt_ref *ref = !strcmp(num_gpus, "not said") ? bt_remote(see)
                  : !strcmp(num_gpus, "0")      ? bt_remote_with(BT_OPTIONS(.num_gpus = 0), see)
                                                : bt_remote_with(BT_OPTIONS(.num_gpus = atof(num_gpus)), see);
    return bt_get(ref, text);
}

static bt_status ask_actor(const char *num_gpus, const char **text) {
    bt_actor *actor = !strcmp(num_gpus, "not said") ? bt_actor_new(make_seer)
                      : !strcmp(num_gpus, "0")      ? bt_actor_new_with(BT_OPTIONS(.num_gpus = 0), make_seer)
                                               : bt_actor_new_with(BT_OPTIONS(.num_gpus = atof(num_gpus)), make_seer);
    TRY(bt_actor_status(actor)); /* what can never be is told at once */
    TRY(bt_get(bt_method(actor, see), text));
    return bt_get(bt_method(actor, see), text);
}

static int run_row(void *data) {
    const row *r = data;
    const char *error = strncmp(r->worker, "error: ", 7) ? NULL : r->worker + 7, *text;
    char expected[400];
    setenv("BERTH_FLAGS", "devices=sim:gpu*8", 1);
    if (strcmp(r->program, "unset"))
        setenv("CUDA_VISIBLE_DEVICES", r->program, 1);
    else
        unsetenv("CUDA_VISIBLE_DEVICES");
    bt_status status = start(r->runtime);
    if (error && !*r->task) return status != BT_INVALID_ARGUMENT || !says(error);
    OK(status);
    BT_SCOPE {
        status = r->by_actor ? ask_actor(r->task, &text) : ask_task(r->task, &text);
        if (error) CHECK((status == BT_RESOURCE_EXHAUSTED || status == BT_INVALID_ARGUMENT) && says(error));
        if (error) continue;
        OK(status);
        snprintf(expected, sizeof expected, "%s|%s", r->worker, r->ids);
        if (strcmp(text, expected)) return fprintf(stderr, "sees %s, not %s\n", text, expected), 1;
        OK(bt_get(bt_remote(see_nothing), &text));
        CHECK(!strcmp(text, "|none"));
    }
    return bt_runtime_shutdown() != BT_OK;
}

/* The cell without blanks and backquotes; where the next begins. */
static char *take_cell(char *at, char *cell) {
    char *end = strchr(at, '|');
    assert_non_null(end);
    while (*at == ' ') at++;
    char *last = end;
    while (last > at && last[-1] == ' ') last--;
    if (last - at >= 2 && *at == '`') at++, last--;
    memcpy(cell, at, (size_t)(last - at));
    cell[last - at] = '\0';
    return end + 1;
}

static int comes_after(void *data) {
    (void)data;
    setenv("BERTH_FLAGS", "devices=sim:gpu*2", 1);
    CHECK(bt_device_count(BT_GPU) == 2);
    CHECK(bt_runtime_init(.num_cpus = 1) == BT_OK && bt_runtime_shutdown() == BT_OK);
    return 0;
}

static void it_may_come_after_devices(void **state) { in_process(comes_after, NULL); }

/* data: what NVIDIA's library does as soon as it is opened. */
static int counts_none(void *data) {
    char flags[300];
    snprintf(flags, sizeof flags, "cuda_path=%s/fakes/hostile,probe_seconds=0.5", BERTH_BUILD_DIR);
    setenv("BERTH_FLAGS", flags, 1);
    setenv("BERTH_FAKE_HOSTILE", data, 1);
    unsetenv("CUDA_VISIBLE_DEVICES");
    OK(bt_runtime_init(.num_cpus = 1, .num_gpus = BT_DETECT));
    BT_SCOPE
        CHECK(bt_get(bt_remote_with(BT_OPTIONS(.num_gpus = 1), see), NULL) == BT_RESOURCE_EXHAUSTED &&
              says("the runtime has 0"));
    const char *text;
    BT_SCOPE
        OK(bt_get(bt_remote(see), &text));
    return bt_runtime_shutdown() != BT_OK;
}

static void hostile_libraries_cost_no_more_than_a_wait(void **state) {
    (void)state;
    in_process(counts_none, "crash");
    in_process(counts_none, "exit");
    in_process(counts_none, "hang");
}

static void table_of_cases(void **state) {
    (void)state;
    FILE *file = fopen(BERTH_SOURCE_DIR "/docs/tasks-gpus.md", "r");
    assert_non_null(file);
    char line[1024];
    int rows = 0;
    while (fgets(line, sizeof line, file)) {
        row r;
        if (strncmp(line, "| `", 3) && strncmp(line, "| unset", 7)) continue;
        char *at = take_cell(line + 1, r.program);
        at = take_cell(at, r.runtime);
        at = take_cell(at, r.task);
        at = take_cell(at, r.worker);
        take_cell(at, r.ids);
        print_message("%s", line);
        for (int i = 0; i < 2; i++) {
            r.by_actor = i;
            in_process(run_row, &r);
        }
        rows++;
    }
    fclose(file);
    assert_true(rows >= 35);
}

/* --- simulated GPUs ---------------------------------------------------------------------------------------------------- */

/* On "its" GPU 0, which is the only one: the sum of 1, ..., n; the UUID tells which it is. */
static bt_status compute(bt_task *task) {
    int64_t n;
    float sum;
    TRY(bt_argument(task, 0, &n));
    bt_device_info info = BT_DEVICE_INFO_INIT;
    if (bt_device_count(BT_GPU) != 1) return bt_task_fail(task, BT_INTERNAL, "%d GPUs", bt_device_count(BT_GPU));
    bt_array *x = NULL;
    BT_ON("gpu:0") x = bt_sum(bt_arange(1, (double)n + 1, 1, BT_F32), BT_ALL, false);
    if (bt_device_index(bt_device_of(x)) != 0) return bt_task_fail(task, BT_INTERNAL, "it is elsewhere");
    bt_status status = bt_read(x, &sum, sizeof sum);
    if (status == BT_OK) status = bt_device_describe(bt_device_get(BT_GPU, 0), &info);
    if (status != BT_OK) return status;
    char text[128];
    snprintf(text, sizeof text, "%g %s", (double)sum, info.uuid);
    return bt_return(task, (const char *)text);
}
BT_REMOTE(compute, .num_gpus = 1);

static int computes_behind_the_mask(void *data) {
    (void)data;
    const char *text;
    setenv("BERTH_FLAGS", "devices=sim:gpu*8", 1);
    setenv("CUDA_VISIBLE_DEVICES", "6,2", 1);
    OK(bt_runtime_init(.num_cpus = 4, .num_gpus = BT_DETECT));
    BT_SCOPE {
        bt_ref *refs[8];
        int seen[2] = {0};
        for (int i = 0; i < 8; i++) refs[i] = bt_remote(compute, 100 + i);
        for (int i = 0; i < 8; i++) {
            char expected[2][128];
            OK(bt_get(refs[i], &text));
            for (int g = 0; g < 2; g++) {
                snprintf(expected[g], 128, "%d GPU-51000000-0000-0000-0000-00000000000%d", (100 + i) * (101 + i) / 2,
                         g ? 2 : 6);
                seen[g] += !strcmp(text, expected[g]);
            }
        }
        CHECK(seen[0] + seen[1] == 8 && seen[0]);
        /* the program has its devices as usual */
        float sum;
        CHECK(bt_device_count(BT_GPU) == 2);
        bt_array *x = NULL;
        BT_ON("gpu:1") x = bt_sum(bt_ones(BT_F32, 5), BT_ALL, false);
        OK(bt_read(x, &sum, sizeof sum));
        CHECK(sum == 5);
        OK(bt_get(bt_remote(compute, 10), &text));
        CHECK(!strncmp(text, "55 ", 3));
    }
    return bt_runtime_shutdown() != BT_OK;
}

static void simulated_gpus_obey_the_mask(void **state) { in_process(computes_behind_the_mask, NULL); }

/* Takes `fits` MiB of its GPU and not `over`; two of them at once. */
static bt_status take_share(bt_task *task) {
    int64_t fits, over, together;
    TRY(bt_argument(task, 0, &fits));
    TRY(bt_argument(task, 1, &over));
    TRY(bt_argument(task, 2, &together));
    int id = -1;
    if (bt_get_gpu_ids(&id, 1) != 1) return bt_task_fail(task, BT_INTERNAL, "no GPU");
    bt_array *x = NULL, *y = NULL;
    BT_ON("gpu:0") x = bt_arange(0, (double)(fits << 18), 1, BT_F32);
    bt_status status = bt_eval(x);
    if (status != BT_OK) return status;
    atomic_fetch_add(&shared->arrived, 1);
    while (atomic_load(&shared->arrived) < together) nap();
    BT_ON("gpu:0") y = bt_arange(1, (double)(over << 18), 1, BT_F32);
    status = bt_eval(y);
    if (status != BT_RESOURCE_EXHAUSTED)
        return bt_task_fail(task, BT_INTERNAL, "over the share: %s", bt_status_name(status));
    bt_error_clear();
    return bt_return(task, id);
}
BT_REMOTE(take_share, .num_gpus = 0.5);

static int shares_of_one(void *flags) {
    int a = -1, b = -1, c = -1;
    setenv("BERTH_FLAGS", flags, 1);
    bool part = strstr(flags, "memory_fraction");
    OK(bt_runtime_init(.num_cpus = 4, .num_gpus = 2));
    BT_SCOPE {
        int fits = part ? 12 : 28, over = part ? 8 : 8; /* of 64 MiB each */
        bt_ref *first = bt_remote(take_share, fits, over, 2), *second = bt_remote(take_share, fits, over, 2);
        OK(bt_get(first, &a));
        OK(bt_get(second, &b));
        OK(bt_get(bt_remote_with(BT_OPTIONS(.num_gpus = 0.25), take_share, part ? 6 : 12, 8, 0), &c));
        CHECK(a == b);
    }
    return bt_runtime_shutdown() != BT_OK;
}

static void shares_carry_memory(void **state) {
    in_process(shares_of_one, "devices=sim:gpu*2@64M");
    in_process(shares_of_one, "devices=sim:gpu*2@64M,memory_fraction=0.5");
}

/* --- not too early ------------------------------------------------------------------------------------------------------ */

/* Large, so that its end takes a while. */
static bt_status leave_slowly(bt_task *task) {
    size_t bytes = (size_t)64 << 20;
    char *memory = malloc(bytes);
    if (!memory) return bt_task_fail(task, BT_RESOURCE_EXHAUSTED, "no memory");
    memset(memory, 1, bytes);
    atomic_store(&shared->pid, getpid());
    return bt_return(task, memory[bytes / 2]);
}
BT_REMOTE(leave_slowly, .num_gpus = 1);

static bt_status follow(bt_task *task) {
    return bt_return(task, kill(atomic_load(&shared->pid), 0) != 0 ? getpid() != atomic_load(&shared->pid) : 0);
}
BT_REMOTE(follow, .num_gpus = 1);

static int follows(void *data) {
    (void)data;
    int gone = 0;
    OK(bt_runtime_init(.num_cpus = 4, .num_gpus = 1));
    for (int i = 0; i < 20; i++)
        BT_SCOPE {
            bt_ref *first = bt_remote(leave_slowly), *second = bt_remote(follow);
            OK(bt_get(second, &gone));
            CHECK(gone);
            OK(bt_get(first, NULL));
        }
    return bt_runtime_shutdown() != BT_OK;
}

static void after_the_process_is_gone(void **state) { in_process(follows, NULL); }

/* --- with NVML: after its memory is free -------------------------------------------------------------------------------- */

static char machine_path[200];

/* Two GPUs; a process holds memory of the second. */
static void write_machine(int pid) {
    char temporary[220];
    snprintf(temporary, sizeof temporary, "%s.new", machine_path);
    FILE *file = fopen(temporary, "w");
    if (!file) return;
    fprintf(file,
            "{\"live\": true, \"devices\": ["
            "{\"uuid\": \"GPU-aaaaaaaa-0000-0000-0000-000000000001\", \"pci\": \"0000:3b:00.0\", \"memory\": 67108864},"
            "{\"uuid\": \"GPU-bbbbbbbb-0000-0000-0000-000000000002\", \"pci\": \"0000:81:00.0\", \"memory\": 67108864,"
            " \"processes\": [{\"pid\": %d, \"bytes\": 1000000}]}]}",
            pid);
    fclose(file);
    rename(temporary, machine_path);
}

static bt_status hold_memory(bt_task *task) {
    write_machine(getpid());
    return bt_return(task, getpid());
}
BT_REMOTE(hold_memory, .num_gpus = 1);

static bt_status pass(bt_task *task) { return bt_return(task, 1); }
BT_REMOTE(pass, .num_gpus = 1);

static bt_status crash_with_memory(bt_task *task) {
    write_machine(getpid());
    abort();
}
BT_REMOTE(crash_with_memory, .num_gpus = 1);

typedef struct holder {
    enum { TASK, CRASH, ACTOR } kind;
    const char *gpu_free_seconds;
    bool stop_watch; /* the process that waits for the memory is stopped */
} holder;

static int stop_watch(void) {
    pid_t nest = process_named(getpid(), "berth nest", SOON);
    pid_t watch = nest > 0 ? process_named(nest, "berth watch", SOON) : 0;
    CHECK(watch > 0 && kill(watch, SIGSTOP) == 0);
    return 0;
}

/* Somebody has ended who had the GPU. */
static int let_hold(const holder *h) {
    if (h->kind == TASK) OK(bt_get(bt_remote(hold_memory), NULL));
    if (h->kind == CRASH) CHECK(bt_get_within(bt_remote(crash_with_memory), 0.5, NULL) != BT_OK);
    if (h->kind == ACTOR) {
        bt_actor *actor = bt_actor_new_with(BT_OPTIONS(.num_gpus = 1), make_seer);
        OK(bt_get(bt_method(actor, hold_memory), NULL));
        OK(bt_actor_kill(actor));
    }
    return 0;
}

static int waits_for_memory(void *data) {
    const holder *h = data;
    char flags[400];
    snprintf(flags, sizeof flags, "cuda_path=%s/fakes,probe=direct,cache=off,gpu_free_seconds=%s", BERTH_BUILD_DIR,
             h->gpu_free_seconds);
    snprintf(machine_path, sizeof machine_path, "%s/task_gpu_machine.%d.json", BERTH_BUILD_DIR, (int)getpid());
    char leases[] = "/tmp/berth-task-gpu-XXXXXX", line[100];
    CHECK(mkdtemp(leases));
    write_machine(1);
    setenv("BERTH_FLAGS", flags, 1);
    setenv("BERTH_FAKE_MACHINE", machine_path, 1);
    setenv("BERTH_LEASES", leases, 1);
    setenv("CUDA_VISIBLE_DEVICES", "1", 1);
    OK(bt_runtime_init(.num_cpus = 4, .num_gpus = BT_DETECT));
    BT_SCOPE {
        CHECK(bt_get(bt_remote_with(BT_OPTIONS(.num_gpus = 2), pass), NULL) == BT_RESOURCE_EXHAUSTED &&
              says("the runtime has 1"));
        CHECK(!let_hold(h));
        bt_ref *next = bt_remote(pass);
        if (h->stop_watch) CHECK(!stop_watch());
        if (!h->stop_watch && atof(h->gpu_free_seconds) > 1) {
            CHECK(bt_get_within(next, 0.5, NULL) == BT_DEADLINE_EXCEEDED);
            CHECK(bt_resource_free("GPU") == 0);
            write_machine(1);
        }
        OK(bt_get_within(next, SOON, NULL));
    }
    unlink(machine_path);
    OK(bt_runtime_shutdown());
    snprintf(line, sizeof line, "rm -rf --one-file-system '%s'", leases);
    return system(line);
}

static void after_its_memory_is_free(void **state) {
    (void)state;
    for (int kind = TASK; kind <= ACTOR; kind++) in_process(waits_for_memory, &(holder){kind, "100", false});
    in_process(waits_for_memory, &(holder){TASK, "0.2", false}); /* it never is */
    in_process(waits_for_memory, &(holder){TASK, "1.5", true});
}

/* --- energy --------------------------------------------------------------------------------------------------------------- */

static bt_status hold_until_told(bt_task *task) {
    atomic_fetch_add(&shared->arrived, 1);
    while (!atomic_load(&shared->now[0])) nap();
    return bt_return(task, 1);
}
BT_REMOTE(hold_until_told, .num_gpus = 1);

/* The runtime's view as soon as it says all of these; NULL: it does not. */
static char *view_that_says(const char *const *parts) {
    for (int tries = 0; tries < (int)(SOON * 100); tries++) {
        char *text = bt_runtime_text(true);
        bool all = text;
        for (int i = 0; all && parts[i]; i++) all = strstr(text, parts[i]);
        if (all) return text;
        if (tries == (int)(SOON * 100) - 1) fprintf(stderr, "%s\n", text);
        bt_free(text);
        usleep(10000);
    }
    return NULL;
}

/* The running task that has so much of GPUs. */
static json_t *running_with(const json_t *runtime, double gpus) {
    size_t index;
    json_t *one;
    json_array_foreach(json_object_get(runtime, "running"), index, one) {
        if (json_number_value(json_object_get(json_object_get(one, "resources"), "GPU")) == gpus) return one;
    }
    return NULL;
}

static double joules_of(const json_t *of) { return json_number_value(json_object_get(of, "joules")); }

/* A task with a whole GPU, and two with shares of the other: theirs are the parts of what it used. */
static int task_energy(void) {
    static const char *const parts[] = {"\"joules_divided\": true", NULL};
    int whole = -1;
    bt_ref *refs[3];
    refs[0] = bt_remote(hold_until_told);
    while (!atomic_load(&shared->arrived)) nap();
    refs[1] = bt_remote_with(BT_OPTIONS(.num_gpus = 0.25), hold_until_told);
    refs[2] = bt_remote_with(BT_OPTIONS(.num_gpus = 0.75), hold_until_told);
    while (atomic_load(&shared->arrived) < 3) nap();
    for (double now = 0; now < 6;) { /* the second GPU's joules */
        char *text = view_that_says(parts);
        CHECK(text);
        json_t *view = json_loads(text, 0, NULL);
        bt_free(text);
        now = joules_of(json_array_get(json_object_get(view, "gpus"), 1));
        if (now >= 6) {
            json_t *quarter = running_with(view, 0.25), *rest = running_with(view, 0.75), *all = running_with(view, 1);
            CHECK(all && quarter && rest && joules_of(all) > 0);
            whole = json_is_false(json_object_get(all, "joules_divided")) &&
                    json_is_true(json_object_get(rest, "joules_divided"));
            CHECK(joules_of(quarter) > 0 && joules_of(quarter) + joules_of(rest) <= now + 1e-9);
            CHECK(joules_of(rest) > 1.5 * joules_of(quarter)); /* they began at different times */
        }
        json_decref(view);
        usleep(20000);
    }
    CHECK(whole == 1);
    atomic_store(&shared->now[0], 1);
    for (int i = 0; i < 3; i++) OK(bt_get_within(refs[i], SOON, NULL));
    return 0;
}

/* NVML loses the GPU at a reading to come. */
static int lost_energy(void) {
    static const char *const parts[] = {"\"joules\": null",
                                        "NVML does not report the energy of NVIDIA Fake: GPU is lost", NULL};
    bt_ref *ref = bt_remote(hold_until_told);
    char *text = view_that_says(parts);
    CHECK(text);
    bt_free(text);
    atomic_store(&shared->now[0], 1);
    OK(bt_get_within(ref, SOON, NULL));
    return 0;
}

static int with_counters(void *is_lost) {
    char flags[400], leases[] = "/tmp/berth-task-gpu-XXXXXX", line[100];
    snprintf(flags, sizeof flags, "cuda_path=%s/fakes,probe=direct,cache=off", BERTH_BUILD_DIR);
    snprintf(machine_path, sizeof machine_path, "%s/task_gpu_machine.%d.json", BERTH_BUILD_DIR, (int)getpid());
    CHECK(mkdtemp(leases));
    FILE *file = fopen(machine_path, "w");
    CHECK(file);
    fprintf(file,
            "{\"devices\": [{\"pci\": \"0000:3b:00.0\", \"uuid\": \"GPU-aaaaaaaa-0000-0000-0000-000000000001\", "
            "\"memory\": 67108864, \"millijoules\": [9000, 500]}, {\"pci\": \"0000:81:00.0\", "
            "\"uuid\": \"GPU-bbbbbbbb-0000-0000-0000-000000000002\", \"memory\": 67108864, "
            "\"millijoules\": [7000, 2000]}]%s}",
            is_lost ? ", \"fail\": {\"nvmlDeviceGetTotalEnergyConsumption\": [3, 15]}" : "");
    fclose(file);
    setenv("BERTH_FLAGS", flags, 1);
    setenv("BERTH_FAKE_MACHINE", machine_path, 1);
    setenv("BERTH_LEASES", leases, 1);
    unsetenv("CUDA_VISIBLE_DEVICES");
    OK(bt_runtime_init(.num_cpus = 4, .num_gpus = BT_DETECT));
    BT_SCOPE
        CHECK(!(is_lost ? lost_energy() : task_energy()));
    OK(bt_runtime_shutdown());
    unlink(machine_path);
    snprintf(line, sizeof line, "rm -rf --one-file-system '%s'", leases);
    return system(line);
}

static void energy_of_tasks(void **state) {
    (void)state;
    in_process(with_counters, NULL);
    in_process(with_counters, (void *)1);
}

/* --- none to two ---------------------------------------------------------------------------------------------------------- */

enum { GPUS = 8, WHOLE = 10000 };

/* Notes its part of each of its GPUs for a while: no more than the whole of one may be noted. */
static bt_status occupy(bt_task *task) {
    int64_t part, nanoseconds;
    TRY(bt_argument(task, 0, &part));
    TRY(bt_argument(task, 1, &nanoseconds));
    int ids[GPUS], count = bt_get_gpu_ids(ids, GPUS), total = 0, over = 0;
    for (int i = 0; i < count; i++) over += atomic_fetch_add(&shared->now[ids[i]], (int)part) + (int)part > WHOLE;
    for (int g = 0; g < GPUS; g++) total += atomic_load(&shared->now[g]) > 0;
    if (total > atomic_load(&shared->most_together)) atomic_store(&shared->most_together, total);
    nanosleep(&(struct timespec){0, nanoseconds}, NULL);
    for (int i = 0; i < count; i++) atomic_fetch_sub(&shared->now[ids[i]], (int)part);
    if (over) atomic_fetch_add(&shared->failures, 1);
    return bt_return(task, count);
}
BT_REMOTE(occupy);

static int many(void *data) {
    enum { TASKS = 400 };
    static const double sizes[] = {1, 2, 3, 8, 0.5, 0.25, 0.3};
    int tasks = TASKS, count;
    (void)data;
    unsetenv("CUDA_VISIBLE_DEVICES");
    OK(bt_runtime_init(.num_cpus = 100, .num_gpus = GPUS));
    unsigned random = 12345;
    BT_SCOPE {
        bt_ref *refs[TASKS];
        double asked[TASKS];
        for (int i = 0; i < tasks; i++) {
            random = random * 1103515245u + 12345u;
            asked[i] = sizes[(random >> 16) % 7];
            int part = asked[i] < 1 ? (int)(asked[i] * WHOLE) : WHOLE;
            refs[i] =
                bt_remote_with(BT_OPTIONS(.num_gpus = asked[i], .num_cpus = 1), occupy, part, (random >> 8) % 3000000);
        }
        for (int i = 0; i < tasks; i++) {
            OK(bt_get(refs[i], &count));
            CHECK(count == (asked[i] < 1 ? 1 : (int)asked[i]));
        }
        OK(bt_get(bt_remote_with(BT_OPTIONS(.num_gpus = GPUS), occupy, WHOLE, 0), &count)); /* all came back */
        CHECK(count == GPUS);
    }
    CHECK(atomic_load(&shared->failures) == 0);
    CHECK(atomic_load(&shared->most_together) > 1);
    return bt_runtime_shutdown() != BT_OK;
}

static void ids_are_never_doubled(void **state) { in_process(many, NULL); }

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(table_of_cases),
        cmocka_unit_test(it_may_come_after_devices),
        cmocka_unit_test(hostile_libraries_cost_no_more_than_a_wait),
        cmocka_unit_test(simulated_gpus_obey_the_mask),
        cmocka_unit_test(shares_carry_memory),
        cmocka_unit_test(after_the_process_is_gone),
        cmocka_unit_test(after_its_memory_is_free),
        cmocka_unit_test(energy_of_tasks),
        cmocka_unit_test(ids_are_never_doubled),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
