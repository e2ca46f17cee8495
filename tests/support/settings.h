/* Unit tests of what stands above the devices: each test begins with settings of its own. */
#ifndef BERTH_TESTS_SUPPORT_SETTINGS_H
#define BERTH_TESTS_SUPPORT_SETTINGS_H

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdlib.h>

#include <cmocka.h>

#include <berth.h>

#include "base/flags.h"

#define OK(call)                                                         \
    do {                                                                 \
        if ((call) != BT_OK) fail_msg("%s: %s", #call, bt_error_text()); \
    } while (0)

/* Closes everything, then opens it with these flags. */
static void begin(const char *flags) {
    OK(bt_shutdown());
    setenv("BERTH_FLAGS", flags, 1);
    bti_flags_reset();
    bt_error_clear();
}

static int end(void **state) {
    (void)state;
    begin("");
    unsetenv("BERTH_FLAGS");
    return 0;
}

#endif
