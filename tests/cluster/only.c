/* In each program of tests of tasks: BERTH_TEST_ONLY names the one test that it runs, for tests/cluster/run.py. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

__attribute__((constructor)) static void choose_test(void) {
    const char *only = getenv("BERTH_TEST_ONLY");
    if (only) cmocka_set_test_filter(only);
}
