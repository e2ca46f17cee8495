/* In a process of a test's own, where cmocka is not: complains and returns 1. */
#ifndef BERTH_TESTS_SUPPORT_CHECK_H
#define BERTH_TESTS_SUPPORT_CHECK_H

#include <stdio.h>

#include <berth.h>

#define CHECK(condition)                                                                 \
    do {                                                                                 \
        if (!(condition)) {                                                              \
            fprintf(stderr, "line %d: %s: %s\n", __LINE__, #condition, bt_error_text()); \
            return 1;                                                                    \
        }                                                                                \
    } while (0)

#endif
