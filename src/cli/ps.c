/* `berth ps` and `berth top`: the runtimes of this user, printed once or drawn every second. */
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <termios.h>
#include <unistd.h>

#include "cli/cli.h"

static int print_runtimes(char **argv, int pid, bool json) {
    char *text = bt_runtimes_text(pid, json);
    if (!text) return cli_error(argv, "no runtime can be shown");
    fputs(text, stdout);
    bt_free(text);
    return CLI_OK;
}

static int write_timeline(char **argv, int pid, const char *path) {
    if (bt_runtimes_timeline(pid, path) != BT_OK) return cli_error(argv, "the timeline cannot be written");
    fprintf(stderr, "%s: wrote %s\n", argv[0], path);
    return CLI_OK;
}

int cli_ps(int argc, char **argv) {
    static const struct option options[] = {
        {"json", no_argument, NULL, 'j'}, {"timeline", required_argument, NULL, 't'}, {0}};
    const char *timeline = NULL;
    bool json = false;
    int pid;
    for (int option; (option = cli_option(argc, argv, options)) != -1;) {
        if (option == '?') return CLI_USAGE;
        if (option == 'j') json = true;
        if (option == 't') timeline = optarg;
    }
    if (!cli_process(argc, argv, &pid)) return CLI_USAGE;
    return timeline ? write_timeline(argv, pid, timeline) : print_runtimes(argv, pid, json);
}

/* --- berth top ------------------------------------------------------------------------------------------------------ */

#define ENTER_SCREEN "\033[?1049h\033[?25l" /* the alternate screen, no cursor */
#define LEAVE_SCREEN "\033[?25h\033[?1049l"

typedef struct window_size {
    int rows, columns;
} window_size;

static window_size window_size_of(int terminal) {
    struct winsize size;
    if (ioctl(terminal, TIOCGWINSZ, &size) || !size.ws_row || !size.ws_col) return (window_size){24, 80};
    return (window_size){size.ws_row, size.ws_col};
}

/* The bytes of a line that fit into the columns; a character may have several bytes (UTF-8). */
static size_t bytes_that_fit(const char *line, size_t length, int columns) {
    size_t at = 0;
    while (at < length && ((line[at] & 0xc0) == 0x80 || columns-- > 0)) at++;
    return at;
}

static void draw_line(FILE *out, const char *line, size_t length, int columns, bool heading) {
    fprintf(out, "%s%.*s%s\033[K", heading ? cli_begin(stdout, CLI_BOLD) : "",
            (int)bytes_that_fit(line, length, columns), line, heading ? cli_end(stdout) : "");
}

/* A line after an empty line is a heading. */
static void draw_lines(FILE *out, const char *text, window_size w) {
    bool heading = true;
    for (int row = 1; *text && row < w.rows; row++) {
        size_t length = strcspn(text, "\n");
        fputs("\r\n", out);
        draw_line(out, text, length, w.columns, heading);
        heading = !length;
        text += length + (text[length] == '\n');
    }
}

static bool draw_frame(char **argv, int pid) {
    char *text = bt_runtimes_text(pid, false), *frame = NULL;
    size_t size = 0;
    window_size w = window_size_of(STDOUT_FILENO);
    FILE *out = text ? open_memstream(&frame, &size) : NULL;
    if (out) {
        fputs("\033[H", out);
        char title[80];
        int length = snprintf(title, sizeof title, "%s    refreshed every second; q quits", argv[0]);
        draw_line(out, title, (size_t)length, w.columns, false);
        draw_lines(out, text, w);
        fputs("\033[J", out);
    }
    bool drawn = out && !fclose(out) && fwrite(frame, 1, size, stdout) == size && !fflush(stdout);
    free(frame);
    bt_free(text);
    return drawn;
}

/* Waits for a second, a key, a signal or a new window size. False: the command ends. */
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

/* Keys are read one by one and not echoed. Ctrl-Z is disabled, because it would leave the terminal in this mode. */
static bool set_terminal_mode(struct termios *before) {
    if (tcgetattr(STDIN_FILENO, before)) return false;
    struct termios mine = *before;
    mine.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
    mine.c_cc[VSUSP] = _POSIX_VDISABLE;
    mine.c_cc[VMIN] = 1;
    mine.c_cc[VTIME] = 0;
    return !tcsetattr(STDIN_FILENO, TCSAFLUSH, &mine);
}

static int draw_repeatedly(char **argv, int pid) {
    struct termios before;
    sigset_t ends;
    static const int numbers[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGWINCH};
    sigemptyset(&ends);
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) sigaddset(&ends, numbers[i]);
    sigprocmask(SIG_BLOCK, &ends, NULL);
    int signals = signalfd(-1, &ends, SFD_CLOEXEC);
    bool keys = isatty(STDIN_FILENO) && set_terminal_mode(&before);
    fputs(ENTER_SCREEN, stdout);
    bool drawn;
    while ((drawn = draw_frame(argv, pid)) && wait_for_next(signals)) continue;
    fputs(LEAVE_SCREEN, stdout);
    fflush(stdout);
    if (keys) tcsetattr(STDIN_FILENO, TCSAFLUSH, &before);
    if (signals >= 0) close(signals);
    return drawn ? CLI_OK : cli_error(argv, "no runtime can be shown");
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
    return once ? print_runtimes(argv, pid, false) : draw_repeatedly(argv, pid);
}
