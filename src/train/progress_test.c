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
#include <sys/ioctl.h>
#include <unistd.h>

#include <cmocka.h>

#include "train/progress.h"

static char shown[4096];

static const char *judged = "  accuracy 0.5000";

/* What a run of 2 epochs of 4 steps writes to standard error, which is `to`, up to the end of the line; read from `from`. */
static void run(int to, int from, bool quiet, double loss, int wait_ms) {
    int before = dup(STDERR_FILENO);
    dup2(to, STDERR_FILENO);
    bti_progress progress;
    bti_progress_begin(&progress, 2, 4, 0, quiet);
    for (int step = 0; step < 8; step++) {
        bti_progress_step(&progress, step, loss);
        if (step % 4 == 3) bti_progress_epoch(&progress, step / 4, loss, judged);
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

/* A terminal of so many columns (0: unknown), as the program sees it; *end: what it shows is read from there. */
static int open_terminal(int columns, int *end) {
    *end = posix_openpt(O_RDWR | O_NOCTTY);
    if (*end < 0 || grantpt(*end) || unlockpt(*end)) skip();
    int side = open(ptsname(*end), O_RDWR | O_NOCTTY);
    assert_true(side >= 0);
    struct winsize size = {.ws_row = 24, .ws_col = (unsigned short)columns};
    assert_int_equal(ioctl(side, TIOCSWINSZ, &size), 0);
    return side;
}

static void on_a_terminal(void **state) {
    int terminal, side = open_terminal(200, &terminal);
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

/* The last line that a terminal of so many columns shows. */
static const char *last_line(int columns) {
    int terminal, side = open_terminal(columns, &terminal);
    run(side, terminal, false, 0.25, 10000);
    close(side);
    close(terminal);
    char *from = strrchr(shown, '\r');
    assert_non_null(from);
    if (from[1] == '\n') { /* a terminal makes "\r\n" of a newline */
        *from = '\0';
        from = strrchr(shown, '\r');
        assert_non_null(from);
    }
    char *end = strstr(from, "\033[K");
    assert_non_null(end);
    *end = '\0';
    return from + 1;
}

static void as_wide_as_the_terminal(void **state) {
    judged = "  validation loss 0.1234  accuracy 0.5000  precision 0.6000  recall 0.7000";
    for (int columns = 1; columns < 200; columns++) assert_true(strlen(last_line(columns)) < (size_t)columns);
    assert_string_equal(last_line(0), "epoch 2/2 4/4  loss 0.2500  validation loss 0.1234  accuracy 0.5000");
    assert_non_null(strstr(last_line(110), "recall 0.7000"));
    assert_null(strchr(last_line(110), '['));
    assert_string_equal(last_line(50), "epoch 2/2 4/4  loss 0.2500");
    assert_string_equal(last_line(14), "epoch 2/2 4/4");
    assert_string_equal(last_line(6), "epoch");
    judged = "  accuracy 0.5000";
    assert_non_null(strstr(last_line(80), "accuracy 0.5000"));
    assert_non_null(strstr(last_line(80), "0:00 left"));
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
    const struct CMUnitTest tests[] = {cmocka_unit_test(on_a_terminal), cmocka_unit_test(as_wide_as_the_terminal),
                                       cmocka_unit_test(into_a_pipe)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
