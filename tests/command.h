/* For tests of commands: what a line of the shell prints, and what that says. Included once, by a test. */
#ifndef BERTH_TESTS_COMMAND_H
#define BERTH_TESTS_COMMAND_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

#include <cmocka.h>

static char output[1 << 18];

/* What it prints, errors only where the line says so, is in `output`. Its exit code. */
__attribute__((format(printf, 1, 2))) static int run_line(const char *format, ...) {
    char line[2000];
    va_list list;
    va_start(list, format);
    vsnprintf(line, sizeof line, format, list);
    va_end(list);
    FILE *pipe = popen(line, "r");
    assert_non_null(pipe);
    output[fread(output, 1, sizeof output - 1, pipe)] = '\0';
    int status = pclose(pipe);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static inline void assert_says(const char *text) {
    if (!strstr(output, text)) fail_msg("no \"%s\" in:\n%s", text, output);
}

static inline void assert_silent_on(const char *text) {
    if (strstr(output, text)) fail_msg("\"%s\" in:\n%s", text, output);
}

static inline int count_said(const char *text) {
    int count = 0;
    for (const char *at = output; (at = strstr(at, text)); at += strlen(text)) count++;
    return count;
}

#endif
