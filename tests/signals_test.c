// labels: threads
/* Signals that arrive during work: handlers run on a stack that is one, whatever kernels do with the stack pointer; threads of berth and of
 * its libraries take none; faults are told at once. */
#include <berth.h>
#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

#include "support/programs.h"

static atomic_int calls, strays, foreign;
static pthread_t the_thread;
static uintptr_t stack_low, stack_high;

static uintptr_t stack_pointer_of(const ucontext_t *context) {
#if defined __x86_64__
    return (uintptr_t)context->uc_mcontext.gregs[REG_RSP];
#elif defined __aarch64__
    return (uintptr_t)context->uc_mcontext.sp;
#else
    return stack_low;
#endif
}

/* Where the kernel would write its frame, had there been no other stack for it. */
static void look(int signal, siginfo_t *info, void *context) {
    uintptr_t at = stack_pointer_of(context);
    atomic_fetch_add(&calls, 1);
    if (!pthread_equal(pthread_self(), the_thread))
        atomic_fetch_add(&foreign, 1);
    else if (at < stack_low || at > stack_high)
        atomic_fetch_add(&strays, 1);
}

static bool begin(int signal, int flags) {
    static char other[64 << 10];
    pthread_attr_t attr;
    void *low;
    size_t bytes;
    stack_t stack = {.ss_sp = other, .ss_size = sizeof other};
    struct sigaction action = {.sa_sigaction = look, .sa_flags = SA_SIGINFO | SA_RESTART | flags};
    the_thread = pthread_self();
    if (pthread_getattr_np(the_thread, &attr) || pthread_attr_getstack(&attr, &low, &bytes)) return false;
    pthread_attr_destroy(&attr);
    stack_low = (uintptr_t)low;
    stack_high = stack_low + bytes;
    return !sigaltstack(&stack, NULL) && !sigaction(signal, &action, NULL);
}

static void set_timer(int microseconds) {
    setitimer(ITIMER_REAL, &(struct itimerval){{0, microseconds}, {0, microseconds}}, NULL);
}

static bt_status work(bt_dtype dtype, int64_t side, int kind) {
    bt_status status = BT_OK;
    BT_SCOPE {
        bt_array *x = bt_ones(dtype, side, side);
        status = bt_block(kind == 0 ? bt_matmul(x, x) : bt_softmax(bt_add(bt_sin(x), bt_num(kind)), 0));
    }
    return status;
}

/* --- programs ---------------------------------------------------------------------------------------------------------- */

/* The work that is to be looked at takes at least as long as a number of ticks. */
static int ticks_during(bt_dtype dtype, int64_t side, int kind) {
    CHECK(work(dtype, side, kind) == BT_OK);
    CHECK(begin(SIGALRM, SA_ONSTACK));
    set_timer(300);
    while (atomic_load(&calls) < 150) CHECK(work(dtype, side, kind) == BT_OK);
    set_timer(0);
    if (atomic_load(&strays))
        fprintf(stderr, "%d of %d where no stack is\n", atomic_load(&strays), atomic_load(&calls));
    CHECK(!atomic_load(&strays));
    CHECK(!atomic_load(&foreign));
    return 0;
}
static int during_f32(void) { return ticks_during(BT_F32, 200, 0); }
static int during_f16(void) { return ticks_during(BT_F16, 200, 0); }
static int during_bf16(void) { return ticks_during(BT_BF16, 200, 0); }
static int during_f64(void) { return ticks_during(BT_F64, 200, 0); }
static int during_kernels(void) { return ticks_during(BT_F32, 300, 1); }

/* Handlers on the stack of whom they interrupt, with locals that would overwrite a good deal of a heap. */
static atomic_int sum;
static void spend(int signal) {
    volatile char bytes[16 << 10];
    for (size_t i = 0; i < sizeof bytes; i += 64) bytes[i] = (char)signal;
    atomic_fetch_add(&sum, bytes[0] == signal);
}
static int plain_handlers(void) {
    struct sigaction action = {.sa_handler = spend, .sa_flags = SA_RESTART};
    CHECK(!sigaction(SIGALRM, &action, NULL) && !sigaction(SIGCHLD, &action, NULL));
    CHECK(work(BT_F32, 200, 0) == BT_OK);
    set_timer(2000);
    while (atomic_load(&sum) < 60) {
        pid_t child = fork();
        CHECK(child >= 0);
        if (!child) _exit(0);
        for (int i = 0; i < 5; i++) CHECK(work(i % 2 ? BT_F16 : BT_F32, 200, 0) == BT_OK);
        CHECK(waitpid(child, NULL, 0) == child);
    }
    set_timer(0);
    BT_SCOPE {
        float value;
        bt_array *x = bt_ones(BT_F32, 200, 200);
        CHECK(bt_read(bt_sum(bt_matmul(x, x), BT_ALL, false), &value, sizeof value) == BT_OK && value == 8e6f);
    }
    return 0;
}

/* A thread's blocked signals, by /proc; -1 when it is gone. */
static bool blocked_of(const char *task, uint64_t *blocked) {
    char path[300], line[200];
    unsigned long long mask;
    bool found = false;
    snprintf(path, sizeof path, "/proc/self/task/%s/status", task);
    FILE *file = fopen(path, "re");
    while (file && fgets(line, sizeof line, file))
        if (sscanf(line, "SigBlk: %llx", &mask) == 1) *blocked = mask, found = true;
    if (file) fclose(file);
    return found;
}

static int check_threads(const char *devices) {
    const int waiting[] = {SIGINT, SIGTERM, SIGALRM, SIGCHLD, SIGPROF, SIGUSR1},
              told[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL};
    CHECK(bt_set_flag("threads", "3") == BT_OK);
    BT_SCOPE {
        for (const char *name = devices; *name; name += strlen(name) + 1) {
            bt_array *x = bt_to(bt_ones(BT_F32, 600, 600), name);
            for (int i = 0; i < 3; i++) x = bt_mul(bt_matmul(x, x), bt_num(1e-3));
            CHECK(bt_eval(x) == BT_OK); /* by the queue's thread */
            CHECK(bt_block(bt_add(x, bt_num(1))) == BT_OK);
            CHECK(bt_block(bt_exp(bt_to(bt_full(2, BT_F64, 1 << 20), name))) == BT_OK);
        }
    }
    int others = 0;
    char own[32];
    snprintf(own, sizeof own, "%d", getpid());
    DIR *tasks = opendir("/proc/self/task");
    CHECK(tasks);
    for (struct dirent *row; (row = readdir(tasks)) != NULL;) {
        uint64_t mask;
        if (*row->d_name == '.' || !blocked_of(row->d_name, &mask)) continue;
        bool is_own = !strcmp(row->d_name, own);
        others += !is_own;
        for (size_t i = 0; i < sizeof waiting / sizeof *waiting; i++) CHECK((mask >> (waiting[i] - 1) & 1) == !is_own);
        for (size_t i = 0; i < sizeof told / sizeof *told; i++) CHECK(!(mask >> (told[i] - 1) & 1));
    }
    closedir(tasks);
    CHECK(others >= 2);
    return 0;
}
static int threads_take_none(void) {
#ifdef __SANITIZE_THREAD__
    return -1; /* it has a thread of its own */
#endif
    return check_threads("cpu\0");
}
static int opencl_threads_take_none(void) {
#ifdef __SANITIZE_THREAD__
    return -1;
#endif
    if (bt_device_find("opencl0:0", &(bt_device *){NULL}) != BT_OK) return -1;
    return check_threads("opencl0:0\0");
}

/* What pends when work ends is delivered then. */
static int held_back_not_lost(void) {
    CHECK(work(BT_F32, 200, 0) == BT_OK);
    CHECK(begin(SIGALRM, 0));
    for (int i = 0; i < 20; i++) {
        int before = atomic_load(&calls);
        setitimer(ITIMER_REAL, &(struct itimerval){.it_value = {0, 1 + i * 50}}, NULL);
        CHECK(work(BT_F32, 400, 0) == BT_OK);
        sigset_t mask;
        CHECK(!pthread_sigmask(SIG_SETMASK, NULL, &mask) && !sigismember(&mask, SIGALRM) &&
              !sigismember(&mask, SIGINT));
        while (atomic_load(&calls) == before) usleep(100);
    }
    return 0;
}

/* setuid tells all threads by a signal that the C library keeps for itself. */
static void *compute(void *unused) {
    for (int i = 0; i < 100; i++)
        if (work(BT_F32, 200, 0) != BT_OK) return unused;
    return &calls;
}
static int changing_the_user(void) {
    pthread_t thread;
    void *result;
    CHECK(!pthread_create(&thread, NULL, compute, NULL));
    for (int i = 0; i < 200; i++) {
        CHECK(!setuid(getuid()));
        usleep(200);
    }
    pthread_join(thread, &result);
    CHECK(result);
    return 0;
}

int main(int argc, char **argv) {
    static const test_program programs[] = {
        {"during_f32", during_f32, NULL, 0, 1, 20},
        {"during_f16", during_f16, NULL, 0, 1, 20},
        {"during_bf16", during_bf16, NULL, 0, 1, 20},
        {"during_f64", during_f64, NULL, 0, 1, 20},
        {"during_kernels", during_kernels, NULL, 0, 1, 20},
        {"plain_handlers", plain_handlers, NULL, 0, 1, 20},
        {"threads_take_none", threads_take_none, NULL, 0, 1, 20},
        {"opencl_threads_take_none", opencl_threads_take_none, NULL, 0, 1, 60},
        {"held_back_not_lost", held_back_not_lost, NULL, 0, 1, 20},
        {"changing_the_user", changing_the_user, NULL, 0, 1, 20},
    };
    return run_test_programs(argc, argv, programs, sizeof programs / sizeof *programs);
}
