/* Fake machines (fakes/machine.h) for tests of the cuda driver. Included once by a test. */
#ifndef BERTH_TESTS_SUPPORT_CUDA_MACHINE_H
#define BERTH_TESTS_SUPPORT_CUDA_MACHINE_H

#include <dlfcn.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/flags.h"
#include "drivers/cuda/device.h"
#include "support/expect.h"

#define FOLDER BERTH_BUILD_DIR "/fakes"

#define CARD_A                                                                                                     \
    "{\"name\": \"NVIDIA A\", \"uuid\": \"GPU-aaaaaaaa-0000-0000-0000-000000000001\", \"pci\": \"0000:81:00.0\", " \
    "\"memory\": 67108864, \"capability\": [8, 0]}"
#define CARD_B                                                                                                     \
    "{\"name\": \"NVIDIA B\", \"uuid\": \"GPU-bbbbbbbb-0000-0000-0000-000000000002\", \"pci\": \"0000:3b:00.0\", " \
    "\"memory\": 134217728, \"capability\": [9, 0], \"processes\": [{\"pid\": 4711, \"bytes\": 3145728}]}"

static struct {
    void (*reset)(void);
    int (*contexts_made)(void);
    int (*alive)(void);
    int (*calls)(void);
    const char *(*log)(void);
    void *(*memory)(uint64_t address, uint64_t bytes);
} fake;

static char machine_folder[200], machine_path[240];

static inline void find_fake(void) {
    if (fake.reset) return;
    void *handle = dlopen(FOLDER "/libfake_machine.so", RTLD_NOW | RTLD_LOCAL);
    if (!handle) fail_msg("%s", dlerror());
    *(void **)&fake.reset = dlsym(handle, "fake_reset");
    *(void **)&fake.contexts_made = dlsym(handle, "fake_contexts_made");
    *(void **)&fake.alive = dlsym(handle, "fake_alive");
    *(void **)&fake.calls = dlsym(handle, "fake_calls");
    *(void **)&fake.log = dlsym(handle, "fake_log_text");
    *(void **)&fake.memory = dlsym(handle, "fake_memory");
}

static const char *const fake_names[] = {"libcuda.so.1",  "libnvidia-ml.so.1", "libnvrtc.so.13",    "libcublasLt.so.13",
                                         "libcudnn.so.9", "libcufft.so.12",    "libcusolver.so.12", "libnccl.so.2"};

static inline void drop_links(void) {
    char link[300];
    for (size_t i = 0; *machine_folder && i < sizeof fake_names / sizeof *fake_names; i++) {
        snprintf(link, sizeof link, "%s/%s", machine_folder, fake_names[i]);
        unlink(link);
    }
    if (*machine_path) unlink(machine_path);
    if (*machine_folder) rmdir(machine_folder);
    machine_folder[0] = machine_path[0] = '\0';
}

/* A machine as in machine.h, without the libraries whose names contain `without` (NULL: with all). */
static inline void machine(const char *json, const char *without) {
    char flags[400], link[300], target[300];
    find_fake();
    bti_cuda_reset();
    fake.reset();
    drop_links();
    snprintf(machine_folder, sizeof machine_folder, "%s/machine-XXXXXX", FOLDER);
    assert_non_null(mkdtemp(machine_folder));
    for (size_t i = 0; i < sizeof fake_names / sizeof *fake_names; i++) {
        if (without && strstr(fake_names[i], without)) continue;
        snprintf(link, sizeof link, "%s/%s", machine_folder, fake_names[i]);
        snprintf(target, sizeof target, "../%s", fake_names[i]);
        assert_int_equal(symlink(target, link), 0);
    }
    snprintf(machine_path, sizeof machine_path, "%s/machine.json", machine_folder);
    FILE *file = fopen(machine_path, "w");
    assert_non_null(file);
    fputs(json, file);
    fclose(file);
    setenv("BERTH_FAKE_MACHINE", machine_path, 1);
    snprintf(flags, sizeof flags, "probe=direct,cache=off,cuda_path=%s", machine_folder);
    setenv("BERTH_FLAGS", flags, 1);
    bti_flags_reset();
    bt_error_clear();
}

static inline int no_machine(void **state) {
    (void)state;
    bti_cuda_reset();
    if (fake.reset) fake.reset();
    drop_links();
    unsetenv("BERTH_FLAGS");
    bti_flags_reset();
    return 0;
}

#define OK(call)                                              \
    do {                                                      \
        if ((call) != BT_OK) fail_msg("%s", bt_error_text()); \
    } while (0)

static inline void expect_text(const char *text, const char *part) {
    if (!strstr(text, part)) fail_msg("\"%s\" does not say \"%s\"", text, part);
}

/* How often the fake machine's log says a word. */
static inline int count_of(const char *word) {
    int count = 0;
    for (const char *at = fake.log(); (at = strstr(at, word)); at++) count++;
    return count;
}

#endif
