/* The simulated driver, called through its table: separate memories, faults, transfer times. */
#include "drivers/sim/sim_flags.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/flags.h"

extern const bti_driver bti_driver_sim;
#define SIM (&bti_driver_sim)

static void *gpu[2];

#define OK(call)                                              \
    do {                                                      \
        if ((call) != BT_OK) fail_msg("%s", bt_error_text()); \
    } while (0)

static int open_two(void **state) {
    (void)state;
    bti_sim_spec spec = {0};
    bti_flags_reset();
    if (bti_sim_spec_parse("sim:gpu*2@1M", &spec) != BT_OK) return -1;
    bti_sim_configure(&spec);
    for (int i = 0; i < 2; i++)
        if (SIM->open(BT_GPU * BTI_SIM_MAX + i, &(bti_allocator){.device = i}, &gpu[i]) != BT_OK) return -1;
    return 0;
}

static int close_two(void **state) {
    (void)state;
    for (int i = 0; i < 2; i++) SIM->close(gpu[i]);
    bti_flags_reset();
    bt_error_clear();
    return 0;
}

/* Runs it in a child. In debug builds it must abort and say so; in release builds it must be INTERNAL with that text. */
static void expect_stray(bt_status (*use)(uint64_t address), uint64_t address, const char *text) {
    int pipe_ends[2];
    assert_int_equal(pipe(pipe_ends), 0);
    pid_t child = fork();
    if (!child) {
        setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
        signal(SIGABRT, SIG_DFL);
        dup2(pipe_ends[1], 2);
        bt_status status = use(address);
        dprintf(2, "%s", bt_error_text());
        _exit((int)status);
    }
    close(pipe_ends[1]);
    char said[1000] = "";
    size_t length = 0;
    for (ssize_t got; (got = read(pipe_ends[0], said + length, sizeof said - 1 - length)) > 0;) length += (size_t)got;
    close(pipe_ends[0]);
    int code;
    waitpid(child, &code, 0);
#ifdef BTI_DEBUG
    assert_true(WIFSIGNALED(code) && WTERMSIG(code) == SIGABRT);
#else
    assert_true(WIFEXITED(code) && WEXITSTATUS(code) == BT_INTERNAL);
#endif
    if (!strstr(said, text)) fail_msg("\"%s\" does not say \"%s\"", said, text);
}

static bt_status download_from_0(uint64_t address) {
    char host[64];
    return SIM->download(gpu[0], host, address, sizeof host);
}
static bt_status launch_on_0(uint64_t address) {
    uint64_t own;
    if (SIM->alloc(gpu[0], 64, &own) != BT_OK) return BT_UNKNOWN;
    bti_operand input = {address, BT_F32, 1, {16}, {1}}, output = {own, BT_F32, 1, {16}, {1}};
    return SIM->launch(gpu[0], NULL,
                       &(bti_work){.op = BTI_OP_neg, .input_count = 1, .inputs = &input, .output = output});
}
static bt_status launch_with_negative_stride(uint64_t address) {
    uint64_t own;
    if (SIM->alloc(gpu[0], 64, &own) != BT_OK) return BT_UNKNOWN;
    bti_operand input = {address, BT_F32, 1, {16}, {-1}}, output = {own, BT_F32, 1, {16}, {1}};
    return SIM->launch(gpu[0], NULL,
                       &(bti_work){.op = BTI_OP_neg, .input_count = 1, .inputs = &input, .output = output});
}

static void memories_are_separate(void **state) {
    (void)state;
    uint64_t a, b;
    OK(SIM->alloc(gpu[0], 64, &a));
    OK(SIM->alloc(gpu[1], 64, &b));
    assert_true(a % 64 == 0 && b % 64 == 0 && a != b);
    assert_true(a >> 47 != 0 && a >> 47 != 0x1ffff); /* no pointer on x86-64: the host faults on it */
    OK(download_from_0(a));
    expect_stray(download_from_0, b, "download on GPU:0 touches 64 bytes");
    expect_stray(download_from_0, b, "which is memory of GPU:1; copy it first");
    expect_stray(launch_on_0, b, "neg on GPU:0 touches 64 bytes");
    expect_stray(launch_on_0, b, "which is memory of GPU:1; copy it first");
    expect_stray(download_from_0, a + 4, "which is not within one live allocation");
    expect_stray(download_from_0, a - 64, "which is not within one live allocation");
    expect_stray(download_from_0, (uint64_t)(uintptr_t)&a, "which is memory of no simulated device");
    expect_stray(download_from_0, 0, "which is memory of no simulated device");
    expect_stray(launch_with_negative_stride, a, "which is not within one live allocation");
    OK(launch_with_negative_stride(a + 60));
    SIM->free(gpu[0], a, 64);
    expect_stray(download_from_0, a, "which is not within one live allocation"); /* addresses are not used again */
    SIM->free(gpu[1], b, 64);
}

static void the_host_faults_on_an_address(void **state) {
    (void)state;
    uint64_t a;
    OK(SIM->alloc(gpu[0], 64, &a));
    pid_t child = fork();
    if (!child) {
        setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
        signal(SIGSEGV, SIG_DFL);
        signal(SIGBUS, SIG_DFL);
        close(2);
        _exit(*(volatile char *)(uintptr_t)a ? 0 : 0);
    }
    int code;
    waitpid(child, &code, 0);
    assert_true(WIFSIGNALED(code) || WEXITSTATUS(code) != 0);
}

static void the_byte_limit_holds(void **state) {
    (void)state;
    uint64_t a, b;
    size_t free_bytes, total;
    OK(SIM->alloc(gpu[0], 1 << 20, &a));
    assert_int_equal(SIM->alloc(gpu[0], 1, &b), BT_RESOURCE_EXHAUSTED);
    assert_non_null(strstr(bt_error_text(), "GPU:0: 1 bytes asked for, 0 of 1048576 are free"));
    assert_int_equal(SIM->alloc(gpu[0], SIZE_MAX, &b), BT_RESOURCE_EXHAUSTED);
    OK(SIM->memory(gpu[0], &free_bytes, &total));
    assert_int_equal(free_bytes, 0);
    assert_int_equal(total, 1 << 20);
    OK(SIM->alloc(gpu[1], 1 << 20, &b));
    SIM->free(gpu[0], a, 1 << 20);
    OK(SIM->alloc(gpu[0], 1 << 20, &a));
}

static void transfers_and_launches(void **state) {
    (void)state;
    uint64_t a, b, c;
    float host[16], back[16];
    for (int i = 0; i < 16; i++) host[i] = (float)i;
    OK(SIM->alloc(gpu[0], 64, &a));
    OK(SIM->alloc(gpu[0], 64, &b));
    OK(SIM->alloc(gpu[1], 64, &c));
    OK(SIM->upload(gpu[0], a, host, 64));
    OK(SIM->copy(gpu[0], b, a, 64));
    /* b = a[3::-1] + b[:4], through strides */
    bti_operand inputs[2] = {{a + 12, BT_F32, 1, {4}, {-1}}, {b, BT_F32, 1, {4}, {1}}};
    bti_operand output = {b, BT_F32, 1, {4}, {1}};
    bti_program_source source = {.op = BTI_OP_add, .dtype_count = 3, .dtypes = {BT_F32, BT_F32, BT_F32}};
    void *program;
    OK(SIM->program_load(gpu[0], &source, &program));
    assert_non_null(program);
    OK(SIM->launch(gpu[0], program,
                   &(bti_work){.op = BTI_OP_add, .input_count = 2, .inputs = inputs, .output = output}));
    OK(SIM->peer_copy(gpu[1], c, gpu[0], b, 64));
    OK(SIM->download(gpu[1], back, c, 64));
    for (int i = 0; i < 16; i++) assert_true(back[i] == (i < 4 ? 3.0F : (float)i));
    OK(SIM->fill(gpu[1], c, 0, 64));
    OK(SIM->download(gpu[1], back, c, 64));
    assert_true(back[15] == 0.0F);
    /* no element: the address is not looked at */
    bti_operand none = {0, BT_F32, 1, {0}, {1}};
    OK(SIM->launch(gpu[0], program, &(bti_work){.op = BTI_OP_neg, .input_count = 1, .inputs = &none, .output = none}));
    bti_operand wild = {a, BT_F32, 2, {INT64_MAX, 2}, {INT64_MAX, 1}};
    assert_int_equal(SIM->launch(gpu[0], program,
                                 &(bti_work){.op = BTI_OP_neg, .input_count = 1, .inputs = &wild, .output = output}),
                     BT_INTERNAL);
    bti_event event;
    bool done = false;
    OK(SIM->record(gpu[0], &event));
    OK(SIM->query(gpu[0], event, &done));
    assert_false(done); /* not before somebody waits, as on real devices */
    OK(SIM->wait(gpu[0], event));
    OK(SIM->query(gpu[0], event, &done));
    assert_true(done);
    OK(SIM->sync(gpu[0]));
}

static void injected_faults(void **state) {
    (void)state;
    uint64_t a;
    bti_event event;
    OK(bt_set_flag("sim_fault", "record:3; gpu1/alloc:2+ ;sync:1"));
    for (int call = 1; call <= 5; call++)
        assert_int_equal(SIM->record(gpu[call % 2], &event), call == 3 ? BT_INTERNAL : BT_OK);
    assert_non_null(strstr(bt_error_text(), "injected fault: call 3 of record on GPU:1 (flag sim_fault)"));
    for (int call = 1; call <= 4; call++) {
        OK(SIM->alloc(gpu[0], 64, &a));
        assert_int_equal(SIM->alloc(gpu[1], 64, &a), call >= 2 ? BT_RESOURCE_EXHAUSTED : BT_OK);
    }
    assert_int_equal(SIM->sync(gpu[0]), BT_INTERNAL);
    OK(SIM->sync(gpu[0]));
    OK(bt_set_flag("sim_fault", "sync:2")); /* counts begin again */
    OK(SIM->sync(gpu[0]));
    assert_int_equal(SIM->sync(gpu[0]), BT_INTERNAL);
    OK(bt_set_flag("sim_fault", ""));
    OK(SIM->sync(gpu[0]));
    static const char *const bad[] = {
        "launch",       "launch:",        "launch:0",   "launch:x",  "lunch:1",  "gpu1/", "gpux/launch:1",
        "gpu/launch:1", "gpu99/launch:1", "launch:1++", "/launch:1", "launch:+", ":1"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        if (bti_sim_fault_check(bad[i]) != BT_INVALID_ARGUMENT) fail_msg("%s is accepted", bad[i]);
        OK(bt_set_flag("sim_fault", bad[i]));
        assert_int_equal(SIM->sync(gpu[0]), BT_INVALID_ARGUMENT); /* set late, it is told by the first call */
    }
    OK(bti_sim_fault_check("gpu:1/launch:1;tpu0/download:2+"));
    OK(bt_set_flag("sim_fault", ""));
}

static double seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static void transfers_cost_time(void **state) {
    (void)state;
    uint64_t a;
    static char host[1 << 19];
    OK(SIM->alloc(gpu[0], sizeof host, &a));
    OK(bt_set_flag("sim_bandwidth", "16M")); /* half a MiB: 31 ms */
    OK(bt_set_flag("sim_latency_us", "5000"));
    double start = seconds();
    OK(SIM->upload(gpu[0], a, host, sizeof host));
    assert_true(seconds() - start >= 0.036);
    start = seconds();
    OK(SIM->download(gpu[0], host, a, 1));
    assert_true(seconds() - start >= 0.005);
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, open_two, close_two)
    const struct CMUnitTest tests[] = {
        TEST(memories_are_separate), TEST(the_host_faults_on_an_address),
        TEST(the_byte_limit_holds),  TEST(transfers_and_launches),
        TEST(injected_faults),       TEST(transfers_cost_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
