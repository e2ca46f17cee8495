/* Settings of every kind from hostile text: BERTH_FLAGS, values, simulated devices, faults, context maps, the mask. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/flags.h"
#include "device/registry.h"
#include "device/visibility.h"
#include "drivers/sim/sim_flags.h"

static void no_log(const char *line, void *data) { (void)line, (void)data; }

static void check(const char *text) {
    static const char *const uuids[3] = {"GPU-aa10", "GPU-ab20", ""};
    int visible[3];
    int shown = bti_visible_devices(text, uuids, 3, visible);
    if (shown < 0 || shown > 3) abort();
    for (int i = 0; i < shown; i++)
        if (visible[i] < 0 || visible[i] > 2) abort();
    bti_sim_spec spec = {0};
    if (bti_sim_spec_parse(text, &spec) == BT_OK)
        for (int kind = 0; kind < BT_KIND_COUNT; kind++)
            if (spec.count[kind] < 0 || spec.count[kind] > BTI_SIM_MAX) abort();
    (void)!bti_sim_fault_check(text);
    (void)!bt_set_contexts(text);
    for (int flag = 0; flag < BTI_FLAG_COUNT; flag++) {
        bt_flag_info info = BT_FLAG_INFO_INIT;
        char written[4096];
        if (bt_flag_describe(flag, &info) != BT_OK) abort();
        bool is_file = flag == BTI_FLAG_trace || flag == BTI_FLAG_memory_forecast || flag == BTI_FLAG_summary;
        if (is_file) continue; /* it writes one of that name */
        if (bt_set_flag(info.name, text) != BT_OK) continue;
        if (bt_get_flag(info.name, written, sizeof written) != BT_OK) abort();
        if (bt_set_flag(info.name, written) != BT_OK) abort(); /* what is written is read */
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char text[2048];
    if (size >= sizeof text || memmem(data, size, "trace", 5) || memmem(data, size, "fit", 3) ||
        memmem(data, size, "summary", 7))
        return 0;
    memcpy(text, data, size);
    text[size] = '\0';
    bt_set_log_sink(no_log, NULL);
    setenv("BERTH_FLAGS", text, 1);
    bti_flags_reset();
    bt_device *device;
    (void)!bt_device_find("cpu", &device);
    (void)!bt_check_flags();
    (void)bt_default_device();
    bti_device_shutdown();
    unsetenv("BERTH_FLAGS");
    bti_flags_reset();
    check(text);
    bti_device_shutdown();
    bt_error_clear();
    return 0;
}
