/* For the tests of this folder: the registry read anew with given settings, and expectations. Included once, by a test. */
#ifndef BTI_DEVICE_TEST_SUPPORT_H
#define BTI_DEVICE_TEST_SUPPORT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/flags.h"
#include "device/memory.h"
#include "device/name.h"
#include "device/pool.h"
#include "device/registry.h"
#include "support/expect.h"

#define MIB ((size_t)1 << 20)

static char log_text[4000];
static inline void keep_line(const char *line, void *data) {
    (void)data;
    if (strlen(log_text) + strlen(line) + 2 < sizeof log_text) strcat(strcat(log_text, line), "\n");
}

static inline void begin(const char *flags, const char *mask) {
    bti_device_shutdown();
    if (flags)
        setenv("BERTH_FLAGS", flags, 1);
    else
        unsetenv("BERTH_FLAGS");
    if (mask)
        setenv("CUDA_VISIBLE_DEVICES", mask, 1);
    else
        unsetenv("CUDA_VISIBLE_DEVICES");
    bti_flags_reset();
    log_text[0] = '\0';
    bt_set_log_sink(keep_line, NULL);
    bt_error_clear();
}

static int end(void **state) {
    (void)state;
    begin(NULL, NULL);
    bt_set_log_sink(NULL, NULL);
    return 0;
}

#define OK(call)                                              \
    do {                                                      \
        if ((call) != BT_OK) fail_msg("%s", bt_error_text()); \
    } while (0)

static inline void expect_find(const char *name, const char *device_name) {
    bt_device *device;
    if (bt_device_find(name, &device) != BT_OK) fail_msg("%s", bt_error_text());
    assert_string_equal(bt_device_name(device), device_name);
}

#endif
