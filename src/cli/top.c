/* `berth top`: the runtimes of this user, drawn once a second. */
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <termios.h>
#include <unistd.h>

#include "cli/cli.h"

#define BEGIN "\033[?1049h\033[?25l" /* another screen, no cursor */
#define END "\033[?25h\033[?1049l"

typedef struct window {
    int rows, columns;
} window;

static window window_of(int terminal) {
    struct winsize size;
    if (ioctl(terminal, TIOCGWINSZ, &size) || !size.ws_row || !size.ws_col) return (window){24, 80};
    return (window){size.ws_row, size.ws_col};
}

/* As much of a line as fits; characters may take several bytes. */
static size_t bytes_that_fit(const char *line, size_t length, int columns) {
    size_t at = 0;
    while (at < length && ((line[at] & 0xc0) == 0x80 || columns-- > 0)) at++;
    return at;
}

static void draw_line(FILE *out, const char *line, size_t length, int columns, bool heading) {
    fprintf(out, "%s%.*s%s\033[K", heading ? cli_begin(stdout, CLI_BOLD) : "",
            (int)bytes_that_fit(line, length, columns), line, heading ? cli_end(stdout) : "");
}

/* What follows an empty line is a heading. */
static void draw_lines(FILE *out, const char *text, window w) {
    bool heading = true;
    for (int row = 1; *text && row < w.rows; row++) {
        size_t length = strcspn(text, "\n");
        fputs("\r\n", out);
        draw_line(out, text, length, w.columns, heading);
        heading = !length;
        text += length + (text[length] == '\n');
    }
}

static bool draw(char **argv, int pid) {
    char *text = bt_runtimes_text(pid, false), *frame = NULL;
    size_t size = 0;
    window w = window_of(STDOUT_FILENO);
    FILE *out = text ? open_memstream(&frame, &size) : NULL;
    if (out) {
        fputs("\033[H", out);
        char title[80];
        int length = snprintf(title, sizeof title, "%s    every second; q ends", argv[0]);
        draw_line(out, title, (size_t)length, w.columns, false);
        draw_lines(out, text, w);
        fputs("\033[J", out);
    }
    bool drawn = out && !fclose(out) && fwrite(frame, 1, size, stdout) == size && !fflush(stdout);
    free(frame);
    bt_free(text);
    return drawn;
}

/* A second, or until a key, a signal or another size; false: it is to end. */
static bool wait_for_next(int signals) {
    struct pollfd from[2] = {{.fd = signals, .events = POLLIN}, {.fd = STDIN_FILENO, .events = POLLIN}};
    struct signalfd_siginfo signal;
    char key = 'q';
    int ready = poll(from, 2, 1000);
    if (ready <= 0) return true;
    if (from[0].revents && read(signals, &signal, sizeof signal) == sizeof signal && signal.ssi_signo != SIGWINCH)
        return false;
    if (!from[1].revents) return true;
    return read(STDIN_FILENO, &key, 1) == 1 && key != 'q' && key != 'Q' && key != 3;
}

/* Keys come one by one and are not shown; Ctrl-Z is nothing: it would leave the terminal as it is here. */
static bool take_keys(struct termios *before) {
    if (tcgetattr(STDIN_FILENO, before)) return false;
    struct termios mine = *before;
    mine.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
    mine.c_cc[VSUSP] = _POSIX_VDISABLE;
    mine.c_cc[VMIN] = 1;
    mine.c_cc[VTIME] = 0;
    return !tcsetattr(STDIN_FILENO, TCSAFLUSH, &mine);
}

static int run(char **argv, int pid) {
    struct termios before;
    sigset_t ends;
    static const int numbers[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGWINCH};
    sigemptyset(&ends);
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) sigaddset(&ends, numbers[i]);
    sigprocmask(SIG_BLOCK, &ends, NULL);
    int signals = signalfd(-1, &ends, SFD_CLOEXEC);
    bool keys = isatty(STDIN_FILENO) && take_keys(&before);
    fputs(BEGIN, stdout);
    bool drawn;
    while ((drawn = draw(argv, pid)) && wait_for_next(signals)) continue;
    fputs(END, stdout);
    fflush(stdout);
    if (keys) tcsetattr(STDIN_FILENO, TCSAFLUSH, &before);
    if (signals >= 0) close(signals);
    return drawn ? CLI_OK : cli_error(argv, "nothing can be shown");
}

static int print_once(char **argv, int pid) {
    char *text = bt_runtimes_text(pid, false);
    if (!text) return cli_error(argv, "nothing is known");
    fputs(text, stdout);
    bt_free(text);
    return CLI_OK;
}

int cli_top(int argc, char **argv) {
    static const struct option options[] = {{"once", no_argument, NULL, 'o'}, {0}};
    bool once = !isatty(STDOUT_FILENO);
    int pid;
    for (int option; (option = cli_option(argc, argv, options)) != -1;) {
        if (option == '?') return CLI_USAGE;
        once = true;
    }
    if (!cli_process(argc, argv, &pid)) return CLI_USAGE;
    return once ? print_once(argv, pid) : run(argv, pid);
}
