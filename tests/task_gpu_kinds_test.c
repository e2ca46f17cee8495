/* GPUs by bytes of memory, by type and by what they are linked to: on simulated GPUs, and on the fake machine of the tests of the cuda driver. */
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/check.h"
#include "support/support.h"

/* A runtime begins in a process that has opened no device. */
static void in_process(int (*fn)(void)) {
    fflush(NULL);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        alarm(2 * SOON);
        _exit(fn());
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

#undef OK
#define OK(call) CHECK((call) == BT_OK)
#define REFUSED(call, status, text) CHECK((call) == (status) && says(text))

static bool says(const char *part) {
    if (strstr(bt_error_text(), part)) return true;
    fprintf(stderr, "\"%s\" does not say \"%s\"\n", bt_error_text(), part);
    return false;
}

/* Its GPUs as bits. */
static bt_status which(bt_task *task) {
    int ids[64], count = bt_get_gpu_ids(ids, 64);
    int64_t gpus = 0;
    for (int i = 0; i < count; i++) gpus |= (int64_t)1 << ids[i];
    return bt_return(task, gpus);
}
BT_REMOTE(which);

/* An array of so many MiB on its GPU, then one that is too large. */
static bt_status fill(bt_task *task) {
    int64_t fits, over;
    bt_array *x = NULL, *y = NULL;
    if (bt_arguments(task, &fits, &over) != BT_OK) return bt_error_status();
    BT_ON("gpu:0") x = bt_arange(0, (double)(fits << 18), 1, BT_F32);
    bt_status status = bt_eval(x);
    if (status != BT_OK) return status;
    BT_ON("gpu:0") y = bt_arange(1, (double)(over << 18), 1, BT_F32);
    status = bt_eval(y);
    if (status != BT_RESOURCE_EXHAUSTED) return bt_task_fail(task, BT_INTERNAL, "%s", bt_status_name(status));
    bt_error_clear();
    return bt_return(task, 1);
}
BT_REMOTE(fill);

static bt_status nap(bt_task *task) {
    (void)task;
    usleep(100000);
    return BT_OK;
}
BT_REMOTE(nap);

static bt_status hold(bt_task *task) {
    (void)task;
    pause();
    return BT_OK;
}
BT_REMOTE(hold);

static bt_status with_bytes(bt_task *task) { return which(task); }
BT_REMOTE(with_bytes, .gpu_memory = 16 << 20);

static bool has(bt_ref *ref, int64_t expected) {
    int64_t got = -1;
    if (bt_get(ref, &got) != BT_OK) return fprintf(stderr, "%s\n", bt_error_text()), false;
    if (got != expected) fprintf(stderr, "%lx, not %lx\n", (long)got, (long)expected);
    return got == expected;
}

/* The processes of those before are gone. */
static bool all_free(void) {
    for (int i = 0; i < 20000 && bt_resource_free("GPU") < bt_resource_total("GPU"); i++) usleep(1000);
    return bt_resource_free("GPU") >= bt_resource_total("GPU");
}

/* --- bytes ------------------------------------------------------------------------------------------------------------------- */

/* Two GPUs of 64 MiB. */
static int shares_in_bytes(void) {
    setenv("BERTH_FLAGS", "devices=sim:gpu*2@64M", 1);
    OK(bt_runtime_init(.num_cpus = 8, .num_gpus = BT_DETECT));
    BT_SCOPE {
        bt_ref *held[3];
        CHECK(has(bt_remote_with(BT_OPTIONS(.gpu_memory = 16 << 20), fill, 12, 8), 1));
        CHECK(has(bt_remote_with(BT_OPTIONS(.gpu_memory = 48 << 20, .num_gpus = 1), fill, 40, 16), 1));
        CHECK(all_free());
        for (int i = 0; i < 3; i++) held[i] = bt_remote_with(BT_OPTIONS(.gpu_memory = 20 << 20), hold);
        CHECK(has(bt_remote(with_bytes), 2)); /* the first has 4 MiB left */
        CHECK(has(bt_remote_with(BT_OPTIONS(.gpu_memory = 4 << 20), which), 1));
        CHECK(bt_resource_free("GPU") < 2);
        CHECK(has(bt_remote_with(BT_OPTIONS(.num_gpus = 1), with_bytes), 2)); /* all of one, not its bytes */
        for (int i = 0; i < 3; i++) OK(bt_cancel(held[i], true));
        REFUSED(bt_get(bt_remote_with(BT_OPTIONS(.gpu_memory = 65 << 20), which), NULL), BT_RESOURCE_EXHAUSTED,
                "the largest that the runtime has has 6.71089e+07");
        REFUSED(bt_get(bt_remote_with(BT_OPTIONS(.gpu_memory = 1e6, .num_gpus = 0.5), which), NULL),
                BT_INVALID_ARGUMENT, "num_gpus is not set, or 1, and not 0.5");
        REFUSED(bt_get(bt_remote_with(BT_OPTIONS(.gpu_memory = -1), which), NULL), BT_INVALID_ARGUMENT,
                "gpu_memory is -1");
    }
    return bt_runtime_shutdown() != BT_OK;
}

static int bytes_of_gpus_that_are_counted(void) {
    OK(bt_runtime_init(.num_cpus = 2, .num_gpus = 2));
    REFUSED(bt_get(bt_remote_with(BT_OPTIONS(.gpu_memory = 1e6), which), NULL), BT_FAILED_PRECONDITION,
            "the memory of the GPUs is not known");
    OK(bt_runtime_shutdown());
    OK(bt_runtime_init(.num_cpus = 2, .num_gpus = 2, .gpu_memory = 80e9, .accelerator = "NVIDIA H100"));
    CHECK(has(bt_remote_with(BT_OPTIONS(.gpu_memory = 8e9, .accelerator = "h100"), which), 1));
    OK(bt_runtime_shutdown());
    REFUSED(bt_runtime_init(.gpu_memory = -1), BT_INVALID_ARGUMENT, "gpu_memory is -1");
    return 0;
}

static void shares_may_be_bytes(void **state) {
    in_process(shares_in_bytes);
    in_process(bytes_of_gpus_that_are_counted);
}

/* --- calls of a process -------------------------------------------------------------------------------------------------------- */

static bt_status process_of(bt_task *task) { return bt_return(task, getpid()); }
BT_REMOTE(process_of);

/* How many processes ran so many calls at one time, each in its place. */
static int processes(const bt_task_options *options, int calls) {
    int64_t pids[64], count = 0;
    BT_SCOPE {
        bt_ref *busy = bt_remote_with(BT_OPTIONS(.num_gpus = 1), nap), *refs[64];
        for (int i = 0; i < calls; i++) refs[i] = bt_remote_with(options, process_of);
        if (bt_get(busy, NULL) != BT_OK) return -1;
        for (int64_t i = 0, known = 0; i < calls; i++, known = 0) {
            if (bt_get(refs[i], &pids[count]) != BT_OK) return -1;
            for (int64_t k = 0; k < count; k++) known |= pids[k] == pids[count];
            count += !known;
        }
    }
    return (int)count;
}

static int calls_of_processes(void) {
    OK(bt_runtime_init(.num_cpus = 1, .num_gpus = 1));
    CHECK(processes(BT_OPTIONS(.num_gpus = 1), 4) == 4);
    CHECK(processes(BT_OPTIONS(.num_gpus = 1, .max_calls = 3), 12) == 4);
    CHECK(processes(BT_OPTIONS(.num_gpus = 1, .max_calls = 100), 12) == 1);
    CHECK(processes(BT_OPTIONS(.num_gpus = 0.5, .max_calls = 100), 12) <= 2);
    CHECK(processes(BT_OPTIONS(.max_calls = 2), 12) == 6);
    CHECK(processes(NULL, 12) == 1);
    REFUSED(bt_get(bt_remote_with(BT_OPTIONS(.max_calls = -1), process_of), NULL), BT_INVALID_ARGUMENT,
            "max_calls is -1");
    CHECK(all_free());
    return bt_runtime_shutdown() != BT_OK;
}

static void processes_run_several_calls(void **state) { in_process(calls_of_processes); }

/* --- types and links ------------------------------------------------------------------------------------------------------------ */

/* Six GPUs: 0, 2 and 4 are linked, so are 1, 3 and 5; the last two are of another type, with half of the memory. */
static int start_machine(char *folder) {
    char path[300], flags[400];
    CHECK(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/machine.json", folder);
    FILE *file = fopen(path, "w");
    CHECK(file);
    fprintf(file, "{\"devices\": [");
    for (int g = 0; g < 6; g++)
        fprintf(file,
                "%s{\"name\": \"NVIDIA %s\", \"uuid\": \"GPU-aaaaaaaa-0000-0000-0000-00000000000%d\", \"pci\": "
                "\"0000:%02x:00.0\", \"memory\": %d, \"island\": %d}",
                g ? ", " : "", g < 4 ? "H100 80GB HBM3" : "A100-SXM4-40GB", g, 16 + g, (g < 4 ? 64 : 32) << 20,
                1 + g % 2);
    fprintf(file, "]}");
    fclose(file);
    snprintf(flags, sizeof flags, "cuda_path=%s/fakes,probe=direct,cache=off,gpu_free_seconds=0", BERTH_BUILD_DIR);
    setenv("BERTH_FLAGS", flags, 1);
    setenv("BERTH_FAKE_MACHINE", path, 1);
    setenv("BERTH_LEASES", folder, 1);
    unsetenv("CUDA_VISIBLE_DEVICES");
    OK(bt_runtime_init(.num_cpus = 8, .num_gpus = BT_DETECT));
    CHECK(bt_resource_total("GPU") == 6);
    return 0;
}

static int end_machine(const char *folder) {
    char line[100];
    OK(bt_runtime_shutdown());
    snprintf(line, sizeof line, "rm -rf --one-file-system '%s'", folder);
    return system(line);
}

static int types(void) {
    char folder[] = "/tmp/berth-gpu-kinds-XXXXXX";
    if (start_machine(folder)) return 1;
    BT_SCOPE {
        CHECK(has(bt_remote_with(BT_OPTIONS(.num_gpus = 1, .accelerator = "A100"), which), 0x10));
        CHECK(all_free());
        CHECK(has(bt_remote_with(BT_OPTIONS(.num_gpus = 2, .accelerator = "a100-sxm4"), which), 0x30));
        CHECK(all_free());
        CHECK(has(bt_remote_with(BT_OPTIONS(.num_gpus = 0.5, .accelerator = "H100"), which), 0x01));
        CHECK(all_free());
        CHECK(has(bt_remote_with(BT_OPTIONS(.gpu_memory = 30 << 20, .accelerator = "NVIDIA A100"), which), 0x10));
        CHECK(all_free());
        REFUSED(bt_get(bt_remote_with(BT_OPTIONS(.num_gpus = 3, .accelerator = "A100"), which), NULL),
                BT_RESOURCE_EXHAUSTED, "asks for 3 GPU of type \"A100\"; the runtime has 2");
        REFUSED(bt_get(bt_remote_with(BT_OPTIONS(.num_gpus = 1, .accelerator = "A10"), which), NULL),
                BT_RESOURCE_EXHAUSTED, "the runtime has 0 (the first GPU is NVIDIA H100 80GB HBM3)");
        REFUSED(bt_get(bt_remote_with(BT_OPTIONS(.gpu_memory = 40 << 20, .accelerator = "A100"), which), NULL),
                BT_RESOURCE_EXHAUSTED, "of type \"A100\"; the runtime has 0");
        REFUSED(bt_get(bt_remote_with(BT_OPTIONS(.accelerator = "A100"), which), NULL), BT_INVALID_ARGUMENT,
                "no GPU is asked for");
        bt_group *group = bt_group_new(
            (bt_task_options[]){BT_BUNDLE(.num_gpus = 1, .accelerator = "A100"), BT_BUNDLE(.num_gpus = 1)}, 2);
        OK(bt_group_wait(group, SOON));
        CHECK(has(bt_remote_with(BT_OPTIONS(.num_gpus = 1, .group = group, .accelerator = "A100"), which), 0x10));
        REFUSED(
            bt_get(bt_remote_with(BT_OPTIONS(.num_gpus = 1, .group = group, .bundle = 1, .accelerator = "A100"), which),
                   NULL),
            BT_INVALID_ARGUMENT, "its bundle may have other GPUs");
    }
    return end_machine(folder);
}

static int64_t bundle_has(bt_group *group, int bundle, double gpus) {
    int64_t got = -1;
    (void)!bt_get(bt_remote_with(BT_OPTIONS(.num_gpus = gpus, .group = group, .bundle = bundle), which), &got);
    return got;
}

static bt_group *two(int strategy, double first, double second) {
    return bt_group_new(
        (bt_task_options[]){BT_BUNDLE(.num_gpus = first, .strategy = strategy), BT_BUNDLE(.num_gpus = second)}, 2);
}

static bt_status status_of(bt_group *group) { return bt_group_wait(group, SOON); }

static int links(void) {
    char folder[] = "/tmp/berth-gpu-kinds-XXXXXX";
    if (start_machine(folder)) return 1;
    BT_SCOPE {
        CHECK(has(bt_remote_with(BT_OPTIONS(.num_gpus = 2), which), 0x05));
        CHECK(all_free());
        CHECK(has(bt_remote_with(BT_OPTIONS(.num_gpus = 3), which), 0x15));
        CHECK(all_free());
        BT_SCOPE {
            bt_group *packed = two(BT_GROUP_STRICT_PACK, 1, 2);
            OK(status_of(packed));
            CHECK(bundle_has(packed, 0, 1) == 0x01 && bundle_has(packed, 1, 2) == 0x14);
        }
        CHECK(all_free());
        BT_SCOPE {
            bt_group *spread = two(BT_GROUP_STRICT_SPREAD, 1, 3);
            OK(status_of(spread));
            int64_t one = bundle_has(spread, 0, 1), three = bundle_has(spread, 1, 3);
            CHECK((three == 0x15 && (one & 0x2a)) || (three == 0x2a && (one & 0x15)));
        }
        REFUSED(status_of(two(BT_GROUP_STRICT_PACK, 2, 2)), BT_RESOURCE_EXHAUSTED,
                "do not fit into one set of GPUs with fast links");
        REFUSED(status_of(two(BT_GROUP_STRICT_SPREAD, 1, 4)), BT_RESOURCE_EXHAUSTED,
                "do not fit into different sets of GPUs");
        REFUSED(status_of(two(9, 1, 1)), BT_INVALID_ARGUMENT, "strategy is 9");
        OK(status_of(two(BT_GROUP_PACK, 2, 2)));
    }
    return end_machine(folder);
}

static void types_are_chosen(void **state) { in_process(types); }
static void linked_gpus_are_chosen(void **state) { in_process(links); }

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shares_may_be_bytes),
        cmocka_unit_test(processes_run_several_calls),
        cmocka_unit_test(types_are_chosen),
        cmocka_unit_test(linked_gpus_are_chosen),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
