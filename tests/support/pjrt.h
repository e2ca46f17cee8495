/* Devices of a PJRT plugin, and segments on them, for tests of the driver. Included once, by a test. */
#ifndef BERTH_TESTS_SUPPORT_PJRT_H
#define BERTH_TESTS_SUPPORT_PJRT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <xxhash.h>

#include "base/flags.h"
#include "base/libraries.h"
#include "drivers/pjrt/device.h"

extern const bti_driver bti_driver_pjrt;
static const bti_driver *const pjrt = &bti_driver_pjrt;

#define OK(call)                                                         \
    do {                                                                 \
        if ((call) != BT_OK) fail_msg("%s: %s", #call, bt_error_text()); \
    } while (0)

/* Fails with this status and words in its text. */
#define FAILS(call, status, words)                                                                   \
    do {                                                                                             \
        bt_status got_ = (call);                                                                     \
        if (got_ != (status) || !strstr(bt_error_text(), (words)))                                   \
            fail_msg("%s: %s, \"%s\"; not %s, \"%s\"", #call, bt_status_name(got_), bt_error_text(), \
                     bt_status_name(status), (words));                                               \
    } while (0)

static inline void set_plugins(const char *value) {
    static char flags[2 * BTI_PJRT_PATH];
    snprintf(flags, sizeof flags, "pjrt_plugins=%s", value);
    setenv("BERTH_FLAGS", flags, 1);
    bti_flags_reset();
}

typedef struct probed {
    bti_device_facts facts[BTI_PJRT_DEVICES];
    int count;
    bti_str reason;
} probed;

static inline bt_status probe_in_opening(void *context) {
    probed *of = context;
    return pjrt->probe(1u << BT_TPU | 1u << BT_ACC, of->facts, BTI_PJRT_DEVICES, &of->count, &of->reason);
}

/* Of the plugins that the flag names; the reason is printed if there is none. */
static inline int probe_devices(probed *of) {
    *of = (probed){0};
    OK(bti_libraries_open(probe_in_opening, of));
    return of->count;
}

static inline bti_pjrt_device *open_device(int ordinal) {
    static const bti_allocator none;
    void *device = NULL;
    OK(pjrt->open(ordinal, &none, &device));
    return device;
}

/* --- memory ------------------------------------------------------------------------------------------------------------ */

static inline uint64_t new_memory(bti_pjrt_device *device, size_t bytes) {
    uint64_t address;
    OK(pjrt->alloc(device, bytes, &address));
    return address;
}

static inline uint64_t new_array(bti_pjrt_device *device, const void *values, size_t bytes) {
    uint64_t address = new_memory(device, bytes);
    OK(pjrt->upload(device, address, values, bytes));
    return address;
}

static inline void expect_floats(bti_pjrt_device *device, uint64_t address, const float *values, size_t count) {
    float *got = malloc(count * sizeof *got);
    OK(pjrt->download(device, got, address, count * sizeof *got));
    for (size_t i = 0; i < count; i++)
        if (got[i] != values[i]) fail_msg("element %zu is %g, not %g", i, got[i], values[i]);
    free(got);
}

static inline void finish(bti_pjrt_device *device) {
    bti_event event;
    OK(pjrt->record(device, &event));
    OK(pjrt->wait(device, event));
}

/* --- segments ---------------------------------------------------------------------------------------------------------- */

static inline bti_type type_of(bt_dtype dtype, int rank, const int64_t *shape) {
    bti_type type = {.dtype = dtype, .rank = rank};
    for (int a = 0; a < rank; a++) type.shape[a] = shape[a];
    return type;
}
#define FLOATS(...) type_of(BT_F32, sizeof((int64_t[]){__VA_ARGS__}) / 8, (int64_t[]){__VA_ARGS__})

typedef struct loading {
    bti_pjrt_device *device;
    bti_program_source source;
    void *program;
} loading;

static inline bt_status load_in_opening(void *context) {
    loading *of = context;
    return pjrt->program_load(of->device, &of->source, &of->program);
}

/* types: of inputs, then of outputs; aliases: by input, NULL: none. */
static inline bt_status load_segment(bti_pjrt_device *device, const char *text, int input_count, int output_count,
                                     const bti_type *types, const int *aliases, void **program) {
    static const int none[64] = {-1, -1, -1, -1, -1, -1, -1, -1};
    bti_segment_source segment = {.hash = {XXH3_64bits(text, strlen(text))},
                                  .text = text,
                                  .bytes = strlen(text),
                                  .input_count = input_count,
                                  .output_count = output_count,
                                  .types = types,
                                  .aliases = aliases ? aliases : none};
    loading of = {device, {.segment = &segment}, NULL};
    bt_status status = bti_libraries_open(load_in_opening, &of);
    *program = of.program;
    return status;
}

#endif
