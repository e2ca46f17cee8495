/* The order of locks is checked in debug builds: an inversion ends the process, and both places are named. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/lock.h"

BTI_STATIC_LOCK(outer, test_outer)
BTI_STATIC_LOCK(inner, test_inner)
BTI_STATIC_LOCK(last, test_last)
BTI_STATIC_LOCK(of_memory, owned)
BTI_STATIC_LOCK_RECURSIVE(again, test_outer)

static void in_order(void) {
    bti_lock_take(&outer);
    bti_lock_take(&inner);
    bti_lock_give(&outer); /* in any order */
    bti_lock_give(&inner);
    bti_lock_take(&again);
    bti_lock_take(&inner);
    bti_lock_take(&of_memory); /* under a leaf too */
    bti_lock_give(&of_memory);
    bti_lock_take(&again);
    bti_lock_give(&again);
    bti_lock_give(&inner);
    bti_lock_give(&again);
}

/* The function of the user's takes what it wants. */
static void under_a_call_of_the_user(void) {
    bti_lock_take(&inner);
    bti_lock_user_begin();
    bti_lock_take(&outer);
    bti_lock_give(&outer);
    bti_lock_user_end();
    bti_lock_give(&inner);
}

#ifdef BTI_DEBUG
static void inverted(void) {
    bti_lock_take(&inner);
    bti_lock_take(&outer);
}
static void of_one_class(void) {
    bti_lock other;
    bti_lock_init(&other, BTI_LOCK_test_outer);
    bti_lock_take(&outer);
    bti_lock_take(&other);
}
static void inverted_in_the_call(void) {
    bti_lock_user_begin();
    inverted();
}
static void under_a_leaf(void) {
    bti_lock_take(&inner);
    bti_lock_take(&last);
}
static void not_held(void) {
    bti_lock_take(&outer);
    bti_lock_give(&inner);
}
#endif

/* In a child: how it ends, and what it says. */
static int status_of(void (*body)(void), char *said, size_t size) {
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    pid_t child = fork();
    assert_true(child >= 0);
    if (!child) {
        setrlimit(RLIMIT_CORE, &(struct rlimit){0});
        dup2(ends[1], STDERR_FILENO);
        body();
        _exit(0);
    }
    close(ends[1]);
    size_t length = 0;
    for (ssize_t count; length < size - 1 && (count = read(ends[0], said + length, size - 1 - length)) > 0;)
        length += (size_t)count;
    said[length] = '\0';
    close(ends[0]);
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    return status;
}

static void what_is_in_order_goes_on(void **state) {
    (void)state;
    char said[4096];
    assert_int_equal(status_of(in_order, said, sizeof said), 0);
    assert_int_equal(status_of(under_a_call_of_the_user, said, sizeof said), 0);
    assert_string_equal(said, "");
}

static void an_inversion_is_found(void **state) {
    (void)state;
#ifdef BTI_DEBUG
    static const struct {
        void (*body)(void);
        const char *words[3];
    } cases[] = {
        {inverted, {"test_outer (", "is taken under test_inner (", "lock_test.c:"}},
        {of_one_class, {"test_outer (", "is taken under test_outer (", "lock_test.c:"}},
        {inverted_in_the_call, {"test_outer (", "is taken under test_inner (", "lock_test.c:"}},
        {under_a_leaf, {"test_last (", "is taken under a leaf, test_inner (", "lock_test.c:"}},
        {not_held, {"test_inner (", "is given back and not held", "locks.def"}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char said[4096];
        int status = status_of(cases[i].body, said, sizeof said);
        assert_true(WIFSIGNALED(status) ? WTERMSIG(status) == SIGABRT : WEXITSTATUS(status) != 0);
        for (int w = 0; w < 3; w++)
            if (!strstr(said, cases[i].words[w])) fail_msg("case %zu says: %s", i, said);
    }
#else
    skip();
#endif
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_in_order_goes_on),
        cmocka_unit_test(an_inversion_is_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
