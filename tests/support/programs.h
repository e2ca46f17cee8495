/* Programs that a test runs in processes of their own, under deadlines, and after which nothing may be left: no process, no file in
 * $TMPDIR, no shared memory with a name, no socket. */
#ifndef BERTH_TESTS_SUPPORT_PROGRAMS_H
#define BERTH_TESTS_SUPPORT_PROGRAMS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>

#include "support/check.h"
#include "support/soon.h"

typedef struct test_program {
    const char *name;
    int (*run)(void);       /* 0: it was right; -1: skipped */
    void (*drive)(int pid); /* what the test does to it once it is ready; NULL: nothing */
    int ends_by;            /* the signal that ends it; 0: none */
    int times;              /* [1] */
    double seconds;         /* it has to end [SOON, more with sanitizers] */
} test_program;

/* main of such a test: runs all, or, told a name, is that program. */
int run_test_programs(int argc, char **argv, const test_program *programs, int count);

/* In the program: the test may begin; it is told a number. */
void tell_ready(int number);
/* In the test: that number; what it does is wrong. */
int told_number(void);
void fail_drive(const char *text);

/* The call fails with that status, and says that. */
#define CHECK_FAILS(call, status, text)                                                                      \
    do {                                                                                                     \
        bt_status got = (call);                                                                              \
        if (got != (status) || !strstr(bt_error_text(), text)) {                                             \
            fprintf(stderr, "line %d: %s: %s: %s\n", __LINE__, #call, bt_status_name(got), bt_error_text()); \
            return 1;                                                                                        \
        }                                                                                                    \
    } while (0)

/* The children of a process, as /proc tells: up to `most` into `pids`. */
int children_of(pid_t pid, pid_t *pids, int most);
bool process_lives(pid_t pid); /* and is no zombie */
/* A child with that name, or one of berth's keeper (the nest), waited for so long; 0. */
pid_t process_named(pid_t parent, const char *name, double seconds);
/* Forks a process that sleeps in a session of its own, for who looks whether it is ended when its parent is gone. */
pid_t leave_process(void);
bool comes_true(bool (*condition)(int number), int number, double seconds);
void sleep_seconds(double seconds);
double seconds_now(void);
bool is_slow(void); /* under a sanitizer */

#endif
