// labels: threads
/* Loops and branches on little stack, from many threads, nested deeply, interrupted by signals and beside a fork. */
#include <berth.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/programs.h"

/* --- a loop with everything in it ------------------------------------------------------------------------------------------ */

static bt_array *is_small(bt_array *const *carry, void *data) { return bt_lt(carry[0], bt_num(100)); }
static void grow(bt_array **carry, void *two) { carry[0] = bt_mul(carry[0], two); }
static void grow_much(bt_array *const *args, bt_array **results, void *two) {
    results[0] = args[0];
    (void)bt_while(is_small, grow, two, 8, results, 1);
}
static void negate(bt_array *const *args, bt_array **results, void *two) { results[0] = bt_neg(args[0]); }
static void step(bt_array **carry, bt_array *const *x, bt_array **y, void *two) {
    bt_array *sum = bt_add(carry[0], x[0]);
    (void)bt_cond(is_small(&sum, NULL), grow_much, negate, two, &sum, 1, carry, 1);
    y[0] = sum;
}

/* xs = 1, 2, 3: 1 -> 128 -> 130 -> -130 -> -127 -> -127 * 2^8, as the loop ends after eight steps */
#define LAST (-127.0f * 256)
#define GRADIENT (-256.0f) /* of the first row: -1 by the second step, 256 by the third; times the 128 of the first */

static bool record(bt_array **xs, bt_array **results) {
    bt_array *carry = bt_f32(0), *rows;
    if (bt_scan(step, bt_f32(2), BT_ALL_ROWS, &carry, 1, xs, 1, &rows, 1) != BT_OK) return false;
    results[0] = carry;
    return bt_grad(carry, xs, 1, &results[1]) == BT_OK;
}

static bool is_right(bt_array **results) {
    float last, gradient[3];
    if (bt_read(results[0], &last, sizeof last) == BT_OK && last == LAST &&
        bt_read(results[1], gradient, sizeof gradient) == BT_OK && gradient[0] == 128 * GRADIENT &&
        gradient[1] == GRADIENT && gradient[2] == 256)
        return true;
    fprintf(stderr, "wrong: %s\n", bt_error_text());
    return false;
}

static bool works(void) {
    bool right = false;
    BT_SCOPE {
        bt_array *xs = BT_ARRAY(float, (3), 1, 2, 3), *results[2];
        right = record(&xs, results) && is_right(results);
    }
    return right;
}

static bt_function *new_function(void) {
    bt_array *xs = bt_input(BT_F32, -1), *results[2];
    return record(&xs, results) ? bt_function_new(&xs, 1, results, 2, NULL, 0) : NULL;
}

static bool calls(bt_function *f) {
    bool right = false;
    BT_SCOPE {
        bt_array *xs = BT_ARRAY(float, (3), 1, 2, 3), *results[2];
        right = bt_call(f, &xs, 1, results, 2) == BT_OK && is_right(results);
    }
    return right;
}

/* --- threads ------------------------------------------------------------------------------------------------------------------ */

#if defined __SANITIZE_ADDRESS__ || defined __SANITIZE_THREAD__
enum { LITTLE = 512, MANY = 50 }; /* frames are larger */
#else
enum { LITTLE = 64, MANY = 500 };
#endif

static void *work_alone(void *unused) { return works() ? &calls : unused; }
static void *call_shared(void *f) {
    for (int i = 0; i < 3; i++)
        if (!calls(f)) return NULL;
    return f;
}

static int in_threads(int count, size_t kib, void *(*run)(void *), void *data) {
    static pthread_t threads[MANY];
    pthread_attr_t attr;
    bool right = true;
    CHECK(!pthread_attr_init(&attr) && !pthread_attr_setstacksize(&attr, kib << 10));
    for (int i = 0; i < count; i++) CHECK(!pthread_create(&threads[i], &attr, run, data));
    for (int i = 0; i < count; i++) {
        void *result;
        CHECK(!pthread_join(threads[i], &result));
        right = right && result;
    }
    CHECK(right);
    return 0;
}

static int little_stack(void) { return in_threads(1, LITTLE, work_alone, NULL); }
static int each_its_own(void) { return in_threads(MANY / 10, 4 * (size_t)LITTLE, work_alone, NULL); }
static int one_function(const char *devices) {
    CHECK(bt_set_flag("devices", devices) == BT_OK);
    int code = 1;
    BT_SCOPE {
        bt_function *f = new_function();
        CHECK(f && bt_function_status(f) == BT_OK);
        code = in_threads(MANY, 4 * (size_t)LITTLE, call_shared, f);
    }
    CHECK(bt_live_arrays() == 0);
    return code;
}
static int one_function_on_the_cpu(void) { return one_function(""); }
static int one_function_on_a_gpu(void) { return one_function("sim:gpu*1"); }

/* One scan that is pending, differentiated and read by several threads at once: it gets more results while it may already run. */
typedef struct shared_loss {
    bt_array *xs, *loss;
} shared_loss;

static void smooth(bt_array **carry, bt_array *const *x, bt_array **y, void *data) {
    carry[0] = y[0] = bt_tanh(bt_add(bt_mul(carry[0], carry[0]), x[0]));
}
static void *differentiate(void *data) {
    static atomic_int turn;
    const shared_loss *shared = data;
    float first = 0, gradient[3];
    bool right = false;
    BT_SCOPE {
        bt_array *by = shared->xs, *grad;
        right = (atomic_fetch_add(&turn, 1) % 3 || bt_read(shared->loss, &first, sizeof first) == BT_OK) &&
                bt_grad(shared->loss, &by, 1, &grad) == BT_OK && bt_read(grad, gradient, sizeof gradient) == BT_OK &&
                gradient[0] > 0 && gradient[2] > 0;
    }
    return right ? data : NULL;
}
static int differentiated_at_once(void) {
    for (int round = 0; round < 20; round++)
        BT_SCOPE {
            bt_array *xs = BT_ARRAY(float, (3), 0.25f, 0.5f, 0.75f), *carry = bt_f32(0), *rows;
            CHECK(bt_scan(smooth, NULL, BT_ALL_ROWS, &carry, 1, &xs, 1, &rows, 1) == BT_OK);
            shared_loss shared = {xs, bt_sum(bt_mul(rows, rows), BT_ALL, false)};
            CHECK(!in_threads(8, 4 * (size_t)LITTLE, differentiate, &shared));
        }
    CHECK(bt_live_arrays() == 0);
    return 0;
}

/* --- depth -------------------------------------------------------------------------------------------------------------------- */

enum { LEVELS = 50 };

/* Level n of data: a scan of one step around a branch around level n - 1; each level adds 1. */
static void nest(bt_array **carry, bt_array *const *x, bt_array **y, void *level);
static void go_deeper(bt_array *const *args, bt_array **results, void *level) {
    results[0] = args[0];
    if (*(int *)level > 0) {
        int next = *(int *)level - 1;
        (void)bt_scan(nest, &next, 1, results, 1, NULL, 0, NULL, 0);
    }
}
static void nest(bt_array **carry, bt_array *const *x, bt_array **y, void *level) {
    bt_array *sum = bt_add(carry[0], bt_num(1));
    (void)bt_cond(bt_gt(sum, bt_num(0)), go_deeper, negate, level, &sum, 1, carry, 1);
}

static void *nest_deeply(void *unused) {
    float got = 0;
    BT_SCOPE {
        int level = LEVELS - 1;
        bt_array *carry = bt_f32(0);
        if (bt_scan(nest, &level, 1, &carry, 1, NULL, 0, NULL, 0) != BT_OK || bt_read(carry, &got, sizeof got) != BT_OK)
            fprintf(stderr, "%s\n", bt_error_text());
    }
    return got == LEVELS ? &calls : unused;
}
static int nested_deeply(void) { return in_threads(1, 8 << 10, nest_deeply, NULL); }
static int nested_on_little_stack(void) { return in_threads(1, 4 * (size_t)LITTLE, nest_deeply, NULL); }

/* --- signals ------------------------------------------------------------------------------------------------------------------- */

static atomic_int ticks;
static void tick(int signal) { atomic_fetch_add(&ticks, 1); }

static int interrupted(void) {
    struct sigaction action = {.sa_handler = tick};
    struct itimerval often = {{0, 500}, {0, 500}}, never = {{0, 0}, {0, 0}};
    CHECK(!sigaction(SIGALRM, &action, NULL) && !setitimer(ITIMER_REAL, &often, NULL));
    while (atomic_load(&ticks) < 50) CHECK(works());
    CHECK(!setitimer(ITIMER_REAL, &never, NULL));
    return 0;
}

/* --- fork ---------------------------------------------------------------------------------------------------------------------- */

static void decay(bt_array **carry, bt_array *const *x, bt_array **y, void *data) {
    carry[0] = bt_add(bt_mul(carry[0], bt_num(0.5)), bt_num(1));
}

/* The child of a process whose scan is queued gets an error, never a hang; the parent's is right. */
static int beside_a_fork(void) {
    for (int i = 0; i < 5; i++) {
        bt_array *carry = NULL;
        BT_SCOPE {
            bt_array *x = bt_zeros(BT_F32, 64);
            CHECK(bt_scan(decay, NULL, 200000, &x, 1, NULL, 0, NULL, 0) == BT_OK);
            bt_assign(&carry, x);
        }
        if (i % 2) CHECK(bt_eval(carry) == BT_OK);
        pid_t child = fork();
        CHECK(child >= 0);
        if (!child) {
            float values[64];
            alarm(SOON);
            bt_status status = bt_read(carry, values, sizeof values);
            _exit(status == BT_UNAVAILABLE || (status == BT_OK && !i)
                      ? 0
                      : 1); /* the first may be the first use of a device */
        }
        int status;
        float values[64];
        CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && !WEXITSTATUS(status));
        CHECK(bt_read(carry, values, sizeof values) == BT_OK && values[0] == 2 && values[63] == 2);
        bt_release(carry);
    }
    return 0;
}

/* --- the end -------------------------------------------------------------------------------------------------------------------- */

/* A process may end while a scan runs. */
static int ends_in_the_midst(void) {
    BT_SCOPE {
        bt_array *x = bt_zeros(BT_F32, 64);
        CHECK(bt_scan(decay, NULL, 100000000, &x, 1, NULL, 0, NULL, 0) == BT_OK);
        CHECK(bt_eval(x) == BT_OK);
        usleep(20000);
        _exit(0);
    }
    return 1;
}

int main(int argc, char **argv) {
    static const test_program programs[] = {
        {"little_stack", little_stack, NULL, 0, 1, 60},
        {"each_its_own", each_its_own, NULL, 0, 1, 60},
        {"one_function_on_the_cpu", one_function_on_the_cpu, NULL, 0, 1, 60},
        {"one_function_on_a_gpu", one_function_on_a_gpu, NULL, 0, 1, 60},
        {"differentiated_at_once", differentiated_at_once, NULL, 0, 1, 60},
        {"nested_deeply", nested_deeply, NULL, 0, 1, 60},
        {"nested_on_little_stack", nested_on_little_stack, NULL, 0, 1, 60},
        {"interrupted", interrupted, NULL, 0, 1, 60},
        {"beside_a_fork", beside_a_fork, NULL, 0, 1, 60},
        {"ends_in_the_midst", ends_in_the_midst, NULL, 0, 1, 60},
    };
    return run_test_programs(argc, argv, programs, sizeof programs / sizeof *programs);
}
