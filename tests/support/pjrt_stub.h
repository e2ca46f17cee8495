/* The stub plugin (tests/fakes/libpjrt_stub.h), opened by the driver, and what a test says to it. Included once, by a test. */
#ifndef BERTH_TESTS_SUPPORT_PJRT_STUB_H
#define BERTH_TESTS_SUPPORT_PJRT_STUB_H

#include <dlfcn.h>
#include <unistd.h>

#include "fakes/libpjrt_stub.h"
#include "support/pjrt.h"

#define STUB BERTH_BUILD_DIR "/fakes/libpjrt_stub.so"

static void (*stub_set)(const char *json);
static stub_counts (*stub_count)(void);
static const char *(*stub_misuse)(void);

/* Before any device: how the stub behaves when it is opened. */
static inline void reach_stub(void) {
    void *library = dlopen(STUB, RTLD_NOW | RTLD_LOCAL);
    if (!library) fail_msg("%s", dlerror());
    *(void **)&stub_set = dlsym(library, "pjrt_stub_set");
    *(void **)&stub_count = dlsym(library, "pjrt_stub_counts");
    *(void **)&stub_misuse = dlsym(library, "pjrt_stub_misuse");
}

/* Devices of the stub with these settings. The plugin's number, in ordinals, is that of the first one that the process named. */
static inline int open_stub(const char *settings, bti_pjrt_device **devices, int count) {
    static probed found;
    setenv("BERTH_FAKE_PJRT", settings, 1);
    if (!stub_set) reach_stub();
    stub_set(settings);
    set_plugins("tpu:" STUB);
    probe_devices(&found);
    if (found.count < count) fail_msg("%s", bti_str_text(&found.reason));
    for (int d = 0; d < count; d++) devices[d] = open_device(found.facts[d].ordinal);
    bti_str_free(&found.reason);
    return found.count;
}

/* Nothing was used wrongly, and nothing is left. */
static inline void close_stub(bti_pjrt_device **devices, int count) {
    stub_set("{}");
    for (int d = 0; d < count; d++) pjrt->close(devices[d]);
    stub_counts counts = stub_count();
    if (counts.misused) fail_msg("%s", stub_misuse());
    for (int kind = 0; kind < STUB_KINDS; kind++)
        if (counts.live[kind]) fail_msg("%d objects of kind %d are left", counts.live[kind], kind);
    assert_int_equal(counts.lent, 0);
    assert_int_equal(counts.pending, 0);
}

static const char stub_add[] = "// stub: add\n";
static const char stub_add_in_place[] = "// stub: add\n// gives: 0\n";
static const char stub_copy[] = "// stub: copy\n";

static const float one[] = {1, 2, 3, 4}, ten[] = {10, 20, 30, 40}, sum[] = {11, 22, 33, 44}, more[] = {21, 42, 63, 84};
enum { BYTES = sizeof one };
#define ADD_TYPES ((bti_type[]){FLOATS(4), FLOATS(4), FLOATS(4)})

static inline void *load_add(bti_pjrt_device *device, bool in_place) {
    void *program;
    OK(load_segment(device, in_place ? stub_add_in_place : stub_add, 2, 1, ADD_TYPES, in_place ? (int[]){0, -1} : NULL,
                    &program));
    return program;
}

#endif
