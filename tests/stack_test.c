// labels: threads
/* Threads with little stack, and threads that are cancelled. */
#include <berth.h>
#include <limits.h>
#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/programs.h"

/* --- little stack ------------------------------------------------------------------------------------------------------ */

static bool sums_to(bt_array *x, double wanted) {
    bt_array *sum = bt_cast(bt_sum(bt_cast(x, BT_F64), BT_ALL, false), BT_F64);
    double got = 0;
    if (bt_read(sum, &got, sizeof got) == BT_OK && fabs(got - wanted) <= 1e-6 * fabs(wanted)) return true;
    fprintf(stderr, "%.17g for %.17g: %s\n", got, wanted, bt_error_text());
    return false;
}

static bool products(void) {
    static const bt_dtype dtypes[] = {BT_F32, BT_F16, BT_BF16, BT_F64};
    for (int d = 0; d < 4; d++) {
        bt_array *x = bt_ones(dtypes[d], 128, 128);
        if (!sums_to(bt_matmul(x, x), 128.0 * 128 * 128)) return false;
    }
    return true;
}

static bool kernels(void) {
    bt_array *x = bt_ones(BT_F32, 100, 100), *y = x;
    for (int i = 0; i < 300; i++) y = bt_add(y, bt_num(1));
    return sums_to(bt_softmax(bt_exp(bt_sin(x)), 1), 100) && sums_to(y, 301e4);
}

static bool training(void) {
    bt_array *w = bt_ones(BT_F32, 64, 32), *x = bt_ones(BT_F32, 16, 64), *y = bt_tanh(bt_matmul(x, w));
    return sums_to(bt_grad1(bt_sum(bt_mul(y, y), BT_ALL, false), w), 0) || bt_error_status() == BT_OK;
}

static bool files(void) {
    const char *folder = getenv("TMPDIR");
    char path[300];
    snprintf(path, sizeof path, "%s/stack.safetensors", folder ? folder : "/tmp");
    bt_array *x = bt_ones(BT_F32, 3, 3);
    bool right = bt_save(path, (const char *const[]){"x"}, &x, 1, NULL) == BT_OK;
    unlink(path);
    bt_print(x);
    return right;
}

static bool errors(void) {
    bt_array *wrong = bt_add(bt_ones(BT_F32, 2), bt_ones(BT_F32, 3));
    return bt_block(wrong) == BT_INVALID_ARGUMENT && strstr(bt_error_text(), "broadcast");
}

static void *work(void *unused) {
    bool right = true;
    BT_SCOPE {
        right = products() && kernels() && training() && files() && errors();
    }
    if (!right) fprintf(stderr, "%s\n", bt_error_text());
    return right ? &sums_to : unused;
}

/* The driver compiles, and is opened first, in a process of its own, too. */
static void *work_on_opencl(void *unused) {
    bool right = false;
    BT_SCOPE {
        bt_array *x = bt_to(bt_ones(BT_F32, 1000), "opencl0:0");
        right = sums_to(bt_add(x, x), 2000);
    }
    return right ? &sums_to : unused;
}

static int in_a_thread_of(size_t kib, const char *how, void *(*body)(void *)) {
    pthread_attr_t attr;
    pthread_t thread;
    void *result;
    CHECK(bt_set_flag("kernels", how) == BT_OK && bt_set_flag("cache", "off") == BT_OK);
    CHECK(!pthread_attr_init(&attr) && !pthread_attr_setstacksize(&attr, kib << 10));
    CHECK(!pthread_create(&thread, &attr, body, NULL) && !pthread_join(thread, &result));
    CHECK(result);
    return 0;
}
#if defined __SANITIZE_ADDRESS__ || defined __SANITIZE_THREAD__
enum { LITTLE = 512 }; /* frames are larger */
#else
enum { LITTLE = 64 };
#endif
static int little_compiled(void) { return in_a_thread_of(LITTLE, "compiled", work); }
static int little_blocks(void) { return in_a_thread_of(LITTLE, "blocks", work); }
static int some_compiled(void) { return in_a_thread_of(2 * LITTLE, "auto", work); }
static int little_for_opencl(void) {
    if (is_slow())
        return -1; /* TSan has no threads in a child, ASan ends threads on which LLVM has set a signal stack */
    const char *first = "opencl0:0";
    bt_device *found;
    pid_t child = fork(); /* whether there is one: what asks first is to be the little thread */
    if (!child) _exit(bt_device_find(first, &found) != BT_OK);
    int status = 1;
    if (child < 0 || waitpid(child, &status, 0) != child || status) return -1;
    return in_a_thread_of(LITTLE, "auto", work_on_opencl);
}

/* New threads have what the program says, but ours have enough. */
static int little_by_default(void) {
    if (is_slow()) return -1; /* threads of sanitizers need more */
    pthread_attr_t attr;
    CHECK(!pthread_attr_init(&attr) && !pthread_attr_setstacksize(&attr, LITTLE << 10));
    CHECK(!pthread_setattr_default_np(&attr));
    CHECK(bt_set_flag("threads", "4") == BT_OK);
    pthread_t thread;
    void *result;
    CHECK(!pthread_create(&thread, NULL, work, NULL) && !pthread_join(thread, &result));
    CHECK(result);
    BT_SCOPE {
        bt_array *x = bt_ones(BT_F32, 700, 700);
        CHECK(bt_eval(bt_matmul(bt_matmul(x, x), x)) == BT_OK);
        CHECK(sums_to(bt_matmul(x, x), 700.0 * 700 * 700));
    }
    return 0;
}

/* --- cancelled --------------------------------------------------------------------------------------------------------- */

static atomic_int rounds;

static void *compute(void *unused) {
    for (;;) {
        BT_SCOPE {
            bt_array *x = bt_ones(BT_F32, 120 + atomic_load(&rounds) % 3, 120 + atomic_load(&rounds) % 3);
            (void)!bt_eval(bt_matmul(x, x));
            (void)!bt_block(bt_exp(bt_matmul(x, x)));
        }
        atomic_fetch_add(&rounds, 1);
    }
    return unused;
}

static int cancelled_at_any_time(void) {
    for (int i = 0; i < 60; i++) {
        pthread_t thread;
        void *result;
        int before = atomic_load(&rounds);
        CHECK(!pthread_create(&thread, NULL, compute, NULL));
        if (i % 4)
            while (atomic_load(&rounds) < before + i % 4) sched_yield();
        usleep((useconds_t)(i * 37 % 500));
        CHECK(!pthread_cancel(thread) && !pthread_join(thread, &result));
        CHECK(result == PTHREAD_CANCELED);
        BT_SCOPE
            CHECK(sums_to(bt_matmul(bt_ones(BT_F32, 100, 100), bt_ones(BT_F32, 100, 100)), 1e6));
    }
    CHECK(bt_live_arrays() == 0);
    CHECK(bt_shutdown() == BT_OK);
    return 0;
}

int main(int argc, char **argv) {
    static const test_program programs[] = {
        {"little_compiled", little_compiled, NULL, 0, 1, 60},
        {"little_blocks", little_blocks, NULL, 0, 1, 60},
        {"some_compiled", some_compiled, NULL, 0, 1, 60},
        {"little_for_opencl", little_for_opencl, NULL, 0, 1, 60},
        {"little_by_default", little_by_default, NULL, 0, 1, 60},
        {"cancelled_at_any_time", cancelled_at_any_time, NULL, 0, 1, 30},
    };
    return run_test_programs(argc, argv, programs, sizeof programs / sizeof *programs);
}
