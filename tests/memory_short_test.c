// timeout: 300
/* Address space that runs out before and within the libraries that compile and multiply: the process lives on, what is computed is right
 * or an error, and with room again everything works. */
#include <setjmp.h>
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

#include <berth.h>

#define MIB ((size_t)1 << 20)
#define SIDE 200

static size_t mapped(void) {
    size_t pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    if (!file || fscanf(file, "%zu", &pages) != 1) pages = 0;
    if (file) fclose(file);
    return pages * (size_t)sysconf(_SC_PAGESIZE);
}

/* Each gives a status, and a number that is known. */
static bt_status kernel(double *result) {
    static int longer; /* another kernel each time */
    bt_status status = BT_OK;
    float values[64];
    BT_SCOPE {
        bt_array *x = bt_add(bt_arange(0, 64, 1, BT_F32), bt_num(1));
        bt_array *y = bt_floor(bt_sqrt(bt_mul(x, x)));
        for (int i = 0; i < longer; i++) y = bt_abs(bt_sub(y, bt_num(0)));
        longer++;
        status = bt_read(y, values, sizeof values);
    }
    *result = values[63] - 64;
    return status;
}

static bt_status product_of(bt_dtype dtype, double *result) {
    bt_status status = BT_OK;
    double sum;
    BT_SCOPE {
        bt_array *ones = bt_full(1, dtype, SIDE, SIDE);
        status = bt_read(bt_cast(bt_sum(bt_matmul(ones, ones), BT_ALL, false), BT_F64), &sum, sizeof sum);
    }
    *result = sum - (double)SIDE * SIDE * SIDE;
    return status;
}
static bt_status product_f32(double *result) { return product_of(BT_F32, result); }
static bt_status product_f64(double *result) { return product_of(BT_F64, result); }
static bt_status product_bf16(double *result) {
    bt_status status = product_of(BT_BF16, result);
    *result = 0; /* rounded */
    return status;
}

/* PoCL's compiler, where it is installed. */
static bt_status kernel_by_opencl(double *result) {
    bt_status status = BT_OK;
    *result = 0;
    if (bt_device_count(BT_ACC))
        BT_ON("acc:0") status = kernel(result);
    return status;
}

typedef bt_status work(double *result);

static const char *check(work *run, bool may_fail) {
    double result = 1;
    bt_status status = run(&result);
    if (status == BT_OK) return result == 0 ? NULL : "a wrong result";
    return may_fail && status == BT_RESOURCE_EXHAUSTED ? NULL : bt_error_text();
}

/* There is room for arrays: what cannot be compiled runs all the same, and the ledger says why it was not. */
static const char *check_kernel(size_t left) {
    static char text[1200];
    bt_compiler_info info = BT_COMPILER_INFO_INIT;
    const char *wrong = check(kernel, false);
    if (wrong || left > 40 * MIB) return wrong;
    if (bt_compiler(false, &info) != BT_OK) return bt_error_text();
    snprintf(text, sizeof text, "the ledger says \"%s\"", info.library_reason);
    return strstr(info.library_reason, "address space") ? NULL : text;
}

/* A stack that cannot grow ends a process whatever the library does. */
static __attribute__((noinline)) void grow_stack(void) {
    volatile char deep[2 * 1024 * 1024];
    for (size_t i = 0; i < sizeof deep; i += 1024) deep[i] = 1;
}

/* In a process of its own: so many bytes are left, before the library is opened or after. */
static const char *within(work *run, size_t left, bool opened) {
    const char *wrong = NULL;
    struct rlimit limit;
    double unused;
    (void)bt_default_device();
    grow_stack();
    if (opened && run(&unused) != BT_OK) return bt_error_text();
    if (getrlimit(RLIMIT_AS, &limit)) return "getrlimit";
    limit.rlim_cur = mapped() + left;
    if (setrlimit(RLIMIT_AS, &limit)) return "setrlimit";
    wrong = check(run, true);
    if (!wrong) wrong = check(product_bf16, true);
    if (!wrong) wrong = check(kernel, true);
    if (!wrong && run == kernel && left >= 12 * MIB) wrong = check_kernel(left);
    limit.rlim_cur = limit.rlim_max;
    if (setrlimit(RLIMIT_AS, &limit)) return "setrlimit";
    if (!wrong) wrong = check(run, false);
    return wrong;
}

static void try_some(work *run, bool opened, size_t step) {
    static const int left[] = {0, 1, 2, 4, 8, 12, 24, 40, 56, 72, 96, 128, 200, 300, 420, 600}; /* MiB */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    skip(); /* their shadows take all address space */
#endif
    for (size_t i = 0; i < sizeof left / sizeof *left; i += step) {
        int status;
        fflush(NULL);
        pid_t child = fork();
        assert_true(child >= 0);
        if (!child) {
            alarm(60); /* not to be waited for */
            const char *wrong = within(run, (size_t)left[i] * MIB, opened);
            if (wrong) fprintf(stderr, "%d MiB left: %s\n", left[i], wrong);
            fflush(NULL);
            _exit(wrong ? 1 : 0);
        }
        assert_int_equal(waitpid(child, &status, 0), child);
        if (WIFSIGNALED(status)) fail_msg("%d MiB left: it ended by %s", left[i], strsignal(WTERMSIG(status)));
        if (status) fail_msg("%d MiB left: it exits with %d", left[i], WEXITSTATUS(status));
    }
}

static void try_all(work *run, bool opened) { try_some(run, opened, 1); }

static void compiling(void **state) {
    (void)state;
    try_all(kernel, false);
    try_all(kernel, true);
}
static void products_of_float32(void **state) {
    (void)state;
    try_all(product_f32, false);
    try_all(product_f32, true);
}
static void products_of_float64(void **state) {
    (void)state;
    try_all(product_f64, false);
}

static void compiling_by_opencl(void **state) {
    (void)state;
    try_some(kernel_by_opencl, false, 4);
    try_some(kernel_by_opencl, true, 4);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(compiling),
        cmocka_unit_test(products_of_float32),
        cmocka_unit_test(products_of_float64),
        cmocka_unit_test(compiling_by_opencl),
    };
    setenv("BERTH_FLAGS", "kernels=compiled,cache=off", 1);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
