/* The progress line on a terminal, and a line for each epoch elsewhere. */
#include <fcntl.h>
#include <math.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "train/progress.h"

static char shown[4096];

/* What a run of 2 epochs of 4 steps writes to standard error, which is `to`, up to the end of the line; read from `from`. */
static void run(int to, int from, bool quiet, double loss, int wait_ms) {
    int before = dup(STDERR_FILENO);
    dup2(to, STDERR_FILENO);
    bti_progress progress;
    bti_progress_begin(&progress, 2, 4, 0, quiet);
    for (int step = 0; step < 8; step++) {
        bti_progress_step(&progress, step, loss);
        if (step % 4 == 3) bti_progress_epoch(&progress, step / 4, loss, "  accuracy 0.5000");
    }
    bti_progress_end(&progress);
    dup2(before, STDERR_FILENO);
    close(before);
    size_t length = 0; /* a terminal hands it over bit by bit */
    struct pollfd ready = {.fd = from, .events = POLLIN};
    while (!(length && shown[length - 1] == '\n' && wait_ms > 50) && poll(&ready, 1, wait_ms) > 0) {
        ssize_t got = read(from, shown + length, sizeof shown - 1 - length);
        if (got <= 0) break;
        length += (size_t)got;
    }
    shown[length] = '\0';
}

static void on_a_terminal(void **state) {
    int terminal = posix_openpt(O_RDWR | O_NOCTTY);
    if (terminal < 0 || grantpt(terminal) || unlockpt(terminal)) skip();
    int side = open(ptsname(terminal), O_RDWR | O_NOCTTY);
    assert_true(side >= 0);
    run(side, terminal, false, 0.25, 10000);
    assert_non_null(strstr(shown, "\repoch 1/2 [=====")); /* the first step */
    assert_non_null(strstr(shown, "\repoch 2/2 [========================] 4/4  loss 0.2500  accuracy 0.5000  "));
    assert_non_null(strstr(shown, " steps/s  0:00 left"));
    assert_non_null(strchr(shown, '\n'));
    run(side, terminal, false, NAN, 10000);
    assert_null(strstr(shown, "loss"));
    run(side, terminal, true, 0.25, 50);
    assert_string_equal(shown, "");
    close(side);
    close(terminal);
}

static void into_a_pipe(void **state) {
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    run(ends[1], ends[0], false, 0.25, 50);
    assert_non_null(strstr(shown, "epoch 1/2  loss 0.2500  accuracy 0.5000  "));
    assert_non_null(strstr(shown, "\nepoch 2/2  loss 0.2500  accuracy 0.5000  "));
    assert_null(strchr(shown, '\r'));
    run(ends[1], ends[0], true, 0.25, 50);
    assert_string_equal(shown, "");
    close(ends[0]);
    close(ends[1]);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(on_a_terminal), cmocka_unit_test(into_a_pipe)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
