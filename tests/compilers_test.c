// labels: threads
// timeout: 300
/* Two compilers in one process: our LLVM for the CPU's kernels, and the one that OpenCL's platform brings, opened in either order,
 * each order in a process of its own; and both at once on two threads. */
#include <math.h>
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/support.h"

/* The same numbers, by a kernel that nobody has compiled before: `salt` makes it another. */
static void compute(const char *where, double salt, double *sum) {
    BT_SCOPE
        BT_ON(where) {
            bt_array *x = bt_arange(0, 3000, 1, BT_F64);
            bt_array *y = bt_add(bt_mul(bt_mul(x, x), bt_num(salt)), bt_num(salt));
            *sum = bt_item(bt_sum(y, BT_ALL, false));
        }
}

static double expected(double salt) { return salt * (2999.0 * 3000 * 5999 / 6 + 3000); }

static bool agrees(double sum, double salt) { return fabs(sum - expected(salt)) <= 1e-12 * expected(salt); }

static bool in_order(const char *first, const char *second) {
    double a = 0, b = 0, again = 0;
    compute(first, 0.5, &a);
    compute(second, 0.5, &b);
    compute(first, 0.25, &again);
    bt_compiler_info info = BT_COMPILER_INFO_INIT;
    return agrees(a, 0.5) && agrees(b, 0.5) && agrees(again, 0.25) && bt_compiler(false, &info) == BT_OK &&
           info.kernels > 0;
}

typedef struct work {
    const char *where;
    int wrong;
} work;

static void *compute_often(void *argument) {
    work *w = argument;
    for (int i = 1; i <= 4; i++) {
        double sum = 0;
        compute(w->where, 0.125 * i, &sum);
        w->wrong += !agrees(sum, 0.125 * i);
    }
    return NULL;
}

static bool at_once(const char *first, const char *second) {
    work works[2] = {{first, 0}, {second, 0}};
    pthread_t threads[2];
    for (int i = 0; i < 2; i++)
        if (pthread_create(&threads[i], NULL, compute_often, &works[i]) != 0) return false;
    for (int i = 0; i < 2; i++) pthread_join(threads[i], NULL);
    return works[0].wrong == 0 && works[1].wrong == 0;
}

/* The child; 77: there is no OpenCL here. */
static int run(bool (*part)(const char *first, const char *second), const char *first, const char *second) {
    bt_device *found;
    setenv("POCL_DEVICES", "pthread pthread", 1);
    fresh("kernels=compiled,cache=off");
    if (bt_device_find("opencl0:0", &found) != BT_OK) return 77;
    if (!part(first, second)) {
        fprintf(stderr, "%s, then %s: %s\n", first, second, bt_error_text());
        return 1;
    }
    return bt_shutdown() == BT_OK ? 0 : 2;
}

static void in_a_child(bool (*part)(const char *first, const char *second), const char *first, const char *second) {
    fflush(NULL);
    pid_t child = fork();
    assert_true(child >= 0);
    if (!child) _exit(run(part, first, second));
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    if (WEXITSTATUS(status) == 77) {
        print_message("skipped: no device of OpenCL's\n");
        skip();
    }
    assert_int_equal(WEXITSTATUS(status), 0);
}

static void ours_first(void **state) { in_a_child(in_order, "cpu", "opencl0:0"); }
static void theirs_first(void **state) { in_a_child(in_order, "opencl0:0", "cpu"); }
static void both_at_once(void **state) { in_a_child(at_once, "cpu", "opencl0:0"); }

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(ours_first), cmocka_unit_test(theirs_first),
                                       cmocka_unit_test(both_at_once)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
