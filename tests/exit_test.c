// labels: threads
/* Programs that end while work is under way, in every way that a program can end. */
#include <berth.h>
#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/programs.h"

enum { SIDE = 300 };

/* A product and a kernel that is compiled, by now or later; its first element. */
static bt_status compute(bt_dtype dtype, float *value) {
    bt_status status = BT_OK;
    BT_SCOPE {
        bt_array *x = bt_ones(dtype, SIDE, SIDE), *y = bt_matmul(x, x);
        bt_array *z = bt_sum(bt_exp(bt_sin(bt_zeros(BT_F32, 1 << 20))), BT_ALL, false);
        float sum = 0;
        status = bt_read(bt_cast(bt_max(y, BT_ALL, false), BT_F32), value, sizeof *value);
        if (status == BT_OK) status = bt_read(z, &sum, sizeof sum);
        if (status == BT_OK && sum != 1 << 20) *value = 0;
    }
    return status;
}

static bool computes(bt_dtype dtype) {
    float value = 0;
    return compute(dtype, &value) == BT_OK && value == SIDE;
}

static void *keep_computing(void *unused) {
    for (int i = 0;; i++)
        if (!computes(i % 2 ? BT_F64 : BT_F32)) _exit(50); /* it goes on as before until the process is gone */
    return unused;
}

static bool start(void *(*body)(void *)) {
    pthread_t thread;
    return !pthread_create(&thread, NULL, body, NULL);
}

/* Moments of the first products and compiles, as the process's number has it: opening a library takes about 20 ms. */
static void wait_a_while(void) { usleep((useconds_t)(getpid() * 7919 % 60) * 1000); }

/* --- queued products --------------------------------------------------------------------------------------------------- */

static bt_status queue_products(void) {
    bt_array *x = bt_ones(BT_F32, 400, 400);
    for (int i = 0; i < 6; i++) x = bt_matmul(x, x);
    return bt_eval(x);
}
static int queued_at_return(void) {
    CHECK(queue_products() == BT_OK);
    return 0;
}
static int queued_at_exit(void) {
    CHECK(queue_products() == BT_OK);
    wait_a_while();
    exit(0);
}
static int queued_at_quick_exit(void) {
    CHECK(queue_products() == BT_OK);
    wait_a_while();
    quick_exit(0);
}

/* Threads of an OpenCL on the CPU (PoCL) compile a kernel when they run it: without its cache, when main has returned. */
static int queued_on_opencl(void) {
    setenv("POCL_KERNEL_CACHE", "0", 1);
    CHECK(bt_set_flag("opencl_cpu", "gpu") == BT_OK);
    BT_SCOPE
        BT_ON("gpu:0") {
            bt_array *(*const kernels[])(bt_array *) = {(bt_sin), (bt_exp), (bt_tanh), (bt_sqrt), (bt_log), (bt_cos)};
            bt_array *x = bt_arange(0, 1 << 20, 1, BT_F32);
            for (int i = 0; i < 6; i++)
                if (bt_eval(x = kernels[i](x)) != BT_OK) return -1; /* there is none */
        }
    return 0;
}

/* --- threads that compute ---------------------------------------------------------------------------------------------- */

static int threads_at_return(void) {
    CHECK(start(keep_computing) && start(keep_computing));
    wait_a_while();
    return 0;
}

static void *leave(void *unused) {
    if (!computes(BT_F32)) _exit(51);
    wait_a_while();
    exit(0);
    return unused;
}
static int exit_of_a_worker(void) {
    CHECK(start(keep_computing) && start(leave));
    for (;;) pause();
}

static void leave_by_signal(int signal) { exit(signal == SIGUSR1 ? 0 : 1); }
static int exit_of_a_handler(void) {
#ifdef __SANITIZE_THREAD__
    return -1; /* it tells that handlers must not do that */
#endif
    CHECK(computes(BT_F32));
    signal(SIGUSR1, leave_by_signal);
    CHECK(start(keep_computing));
    pthread_t self = pthread_self();
    wait_a_while();
    pthread_kill(self, SIGUSR1);
    return 1;
}

/* --- exit handlers that compute ---------------------------------------------------------------------------------------- */

static void compute_at_exit(void) {
    for (int i = 0; i < 2; i++)
        if (!computes(BT_F32) || !computes(BT_F64) || !computes(BT_F16) || !computes(BT_BF16)) {
            fprintf(stderr, "at exit: %s\n", bt_error_text());
            _exit(52);
        }
}
static int handler_of_the_program(void) { /* it runs after those of the libraries */
    atexit(compute_at_exit);
    CHECK(computes(BT_F32) && computes(BT_F64));
    return 0;
}
static int handler_made_late(void) {
    CHECK(computes(BT_F32) && computes(BT_F64));
    atexit(compute_at_exit);
    return 0;
}
static int handler_alone(void) {
    atexit(compute_at_exit);
    return 0;
}

static bt_array *left;
static void read_at_exit(void) {
    float *values = malloc(sizeof(float) * 400 * 400);
    bool right = values && bt_read(left, values, sizeof(float) * 400 * 400) == BT_OK && values[7] == 400.0f * 400;
    free(values);
    bt_release(left);
    if (!right || bt_shutdown() != BT_OK) _exit(53);
}
static int handler_reads_what_was_queued(void) {
    atexit(read_at_exit);
    BT_SCOPE {
        bt_array *x = bt_ones(BT_F32, 400, 400);
        bt_assign(&left, bt_matmul(bt_matmul(x, x), x));
        CHECK(bt_eval(left) == BT_OK);
    }
    return 0;
}

static int handler_beside_threads(void) {
    atexit(compute_at_exit);
    CHECK(start(keep_computing));
    CHECK(computes(BT_F32));
    return 0;
}

/* --- children ---------------------------------------------------------------------------------------------------------- */

static int exit_of_a_child(void) {
#ifdef __SANITIZE_ADDRESS__
    return -1; /* what threads of the parent hold leaks in the child */
#endif
    CHECK(computes(BT_F32));
    CHECK(start(keep_computing));
    for (int i = 0; i < 10; i++) {
        int status = 0;
        fflush(NULL);
        pid_t child = fork();
        CHECK(child >= 0);
        if (!child) {
            alarm(SOON);
            exit(0);
        }
        CHECK(waitpid(child, &status, 0) == child && status == 0);
    }
    return 0;
}

int main(int argc, char **argv) {
    static const test_program programs[] = {
        {.name = "queued_at_return", .run = queued_at_return, .times = 4},
        {.name = "queued_at_exit", .run = queued_at_exit, .times = 6},
        {.name = "queued_at_quick_exit", .run = queued_at_quick_exit, .times = 2},
        {.name = "queued_on_opencl", .run = queued_on_opencl, .times = 4},
        {.name = "threads_at_return", .run = threads_at_return, .times = 6},
        {.name = "exit_of_a_worker", .run = exit_of_a_worker, .times = 4},
        {.name = "exit_of_a_handler", .run = exit_of_a_handler, .times = 2},
        {.name = "handler_of_the_program", .run = handler_of_the_program},
        {.name = "handler_made_late", .run = handler_made_late},
        {.name = "handler_alone", .run = handler_alone},
        {.name = "handler_reads_what_was_queued", .run = handler_reads_what_was_queued, .times = 3},
        {.name = "handler_beside_threads", .run = handler_beside_threads, .times = 2},
        {.name = "exit_of_a_child", .run = exit_of_a_child},
    };
    return run_test_programs(argc, argv, programs, sizeof programs / sizeof *programs);
}
