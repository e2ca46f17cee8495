/* Expectations of errors. Included after cmocka.h. */
#ifndef BERTH_TESTS_SUPPORT_EXPECT_H
#define BERTH_TESTS_SUPPORT_EXPECT_H

#include <berth/status.h>
#include <string.h>

/* The call gave this status, and the thread's error says `text`. */
static inline void expect_error(bt_status got, bt_status status, const char *text) {
    if (got != status) fail_msg("%s, not %s: %s", bt_status_name(got), bt_status_name(status), bt_error_text());
    if (!strstr(bt_error_text(), text)) fail_msg("\"%s\" does not say \"%s\"", bt_error_text(), text);
}

#endif
