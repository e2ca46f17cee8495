/* The fake CUDA driver itself: kernels in PTX on streams, what orders them, and each mistake between operations, which it finds for any
 * seed; correct programs pass for all seeds. */
#include <dlfcn.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "drivers/cuda/driver_api.h"
#include "fakes/findings.h"

#define COUNT 256
#define BYTES (COUNT * sizeof(float))
#define SEEDS 8
#define WAITS_TEXT 2000

static bti_cuda_driver_api cu;
static void *library;
static CUcontext contexts[2];
static CUstream a, b;
static CUevent event;
static CUdeviceptr x, y;
static float *up, *down; /* pinned */
static CUmodule module;
static CUfunction add, shared_sum, outside, unaligned;

/* add(x, y): y[i] = x[i] + y[i] for 256 threads; outside(x): a read 8 bytes behind 256 floats; unaligned(x): a read at x + 2;
 * shared_sum(x): x[0] = all bytes of dynamic shared memory that thread 0 wrote. */
#define ENTRY(name)         \
    ".visible .entry " name \
    "(.param .u64 p0, .param .u64 p1)\n{\n.reg .b32 %r<9>;\n.reg .b64 %rd<9>;\n.reg .f32 %f<9>;\n"
static const char text[] =
    ".version 8.0\n.target sm_80\n.address_size 64\n.extern .shared .align 16 .b8 dynamic[];\n" ENTRY(
        "add") "ld.param.u64 %rd1, [p0];\nld.param.u64 %rd2, [p1];\nmov.u32 %r1, %tid.x;\nmul.wide.u32 %rd3, %r1, 4;\n"
               "add.s64 %rd4, %rd1, %rd3;\nadd.s64 %rd5, %rd2, %rd3;\nld.global.f32 %f1, [%rd4];\nld.global.f32 %f2, "
               "[%rd5];\n"
               "add.f32 %f3, %f1, %f2;\nst.global.f32 [%rd5], %f3;\nret;\n}\n" ENTRY(
                   "outside") "ld.param.u64 %rd1, [p0];\nld.global.f32 %f1, [%rd1+1032];\nst.global.f32 [%rd1], "
                              "%f1;\nret;\n}\n" ENTRY("unaligned") "ld.param.u64 %rd1, [p0];\nld.global.f32 %f1, "
                                                                   "[%rd1+2];\nst.global.f32 [%rd1], "
                                                                   "%f1;\nret;\n}\n" ENTRY("shared_sum") "ld.param.u64 "
                                                                                                         "%rd1, "
                                                                                                         "[p0];\nmov."
                                                                                                         "u32 %r1, "
                                                                                                         "dynamic;"
                                                                                                         "\nmov.u32 "
                                                                                                         "%r2, "
                                                                                                         "7;\nst."
                                                                                                         "shared.u32 "
                                                                                                         "[%r1], %r2;\n"
                                                                                                         "ld.shared."
                                                                                                         "u32 %r3, "
                                                                                                         "[%r1];\nst."
                                                                                                         "global.u32 "
                                                                                                         "[%rd1], "
                                                                                                         "%r3;\nret;\n}"
                                                                                                         "\n";

#define CU(call)                                                            \
    do {                                                                    \
        CUresult result_ = (call);                                          \
        if (result_) fail_msg("line %d: %s: %d", __LINE__, #call, result_); \
    } while (0)

static void open_library(void) {
    library = dlopen(BERTH_BUILD_DIR "/fakes/libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!library) fail_msg("%s", dlerror());
#define BTI_SYMBOL(result, name, symbol, arguments)      \
    *(void **)(void *)&cu.name = dlsym(library, symbol); \
    assert_non_null(cu.name);
#include "drivers/cuda/driver_api.def"
#undef BTI_SYMBOL
}

/* A machine with two devices, the first one's context current, two streams, and x (0, 1, 2...) and y (zeros) written. */
static void begin(int seed) {
    char number[20], path[] = "/tmp/fake-machine-XXXXXX";
    snprintf(number, sizeof number, "%d", seed);
    setenv("BERTH_FAKE_SEED", number, 1);
    int file = mkstemp(path);
    dprintf(file, "{\"devices\": [{\"memory\": 16777216}, {\"memory\": 16777216, \"pci\": \"0000:02:00.0\"}]}");
    close(file);
    setenv("BERTH_FAKE_MACHINE", path, 1);
    fake_reset();
    open_library();
    CU(cu.cuInit(0));
    unlink(path);
    for (int d = 0; d < 2; d++) CU(cu.cuDevicePrimaryCtxRetain(&contexts[d], d));
    CU(cu.cuCtxPushCurrent(contexts[0]));
    CU(cu.cuStreamCreate(&a, CU_STREAM_NON_BLOCKING));
    CU(cu.cuStreamCreate(&b, CU_STREAM_NON_BLOCKING));
    CU(cu.cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    CU(cu.cuMemAlloc(&x, BYTES));
    CU(cu.cuMemAlloc(&y, BYTES));
    CU(cu.cuMemHostAlloc((void **)&up, BYTES, 0));
    CU(cu.cuMemHostAlloc((void **)&down, BYTES, 0));
    CU(cu.cuModuleLoadData(&module, text));
    CU(cu.cuModuleGetFunction(&add, module, "add"));
    CU(cu.cuModuleGetFunction(&outside, module, "outside"));
    CU(cu.cuModuleGetFunction(&unaligned, module, "unaligned"));
    CU(cu.cuModuleGetFunction(&shared_sum, module, "shared_sum"));
    for (int i = 0; i < COUNT; i++) up[i] = (float)i;
    CU(cu.cuMemcpyHtoDAsync(x, up, BYTES, a));
    CU(cu.cuMemsetD8Async(y, 0, BYTES, a));
    CU(cu.cuStreamSynchronize(a));
}

static void release_contexts(void) {
    CUcontext unused;
    (void)cu.cuCtxPopCurrent(&unused);
    for (int d = 0; d < 2; d++) (void)cu.cuDevicePrimaryCtxRelease(d);
}

/* What was found says all the parts; without parts nothing was found. */
static void end(const char *part, const char *other) {
    const char *found;
    int count = fake_findings(&found);
    if (!part && count) fail_msg("%s", found);
    if (part && !strstr(found, part)) fail_msg("\"%s\" does not say \"%s\"", found, part);
    if (other && !strstr(found, other)) fail_msg("\"%s\" does not say \"%s\"", found, other);
    release_contexts();
    fake_findings_clear();
    dlclose(library);
}

static CUresult launch(CUfunction function, CUstream stream, CUdeviceptr from, CUdeviceptr to, unsigned threads) {
    void *arguments[] = {&from, &to};
    return cu.cuLaunchKernel(function, 1, 1, 1, threads, 1, 1, 0, stream, arguments, NULL);
}

static void expect_sums(float times) {
    for (int i = 0; i < COUNT; i++)
        if (down[i] != times * (float)i) fail_msg("value %d is %g", i, (double)down[i]);
}

/* --- kernels -------------------------------------------------------------------------------------------------------- */

static void kernels_run(void **state) {
    (void)state;
    begin(1);
    for (int i = 0; i < 3; i++)
        CU(launch(add, a, x, y, COUNT)); /* the arguments are copied: `from` and `to` are gone */
    CU(cu.cuMemcpyDtoHAsync(down, y, BYTES, a));
    assert_true(down[1] != down[1] || down[1] != 3); /* not yet */
    CU(cu.cuStreamSynchronize(a));
    expect_sums(3);
    end(NULL, NULL);
}

static void launches_are_checked(void **state) {
    (void)state;
    begin(1);
    void *arguments[] = {&x, &y};
    assert_int_equal(cu.cuLaunchKernel(add, 0, 1, 1, 32, 1, 1, 0, a, arguments, NULL), 1);
    assert_int_equal(cu.cuLaunchKernel(add, 1, 65536, 1, 32, 1, 1, 0, a, arguments, NULL), 1);
    assert_int_equal(cu.cuLaunchKernel(add, 1, 1, 1, 1025, 1, 1, 0, a, arguments, NULL), 1);
    assert_int_equal(cu.cuLaunchKernel(add, 1, 1, 1, 32, 1, 128, 0, a, arguments, NULL), 1);
    assert_int_equal(cu.cuLaunchKernel(shared_sum, 1, 1, 1, 1, 1, 1, 49156, a, arguments, NULL), 1);
    assert_int_equal(cu.cuFuncSetAttribute(shared_sum, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 300000), 1);
    CU(cu.cuFuncSetAttribute(shared_sum, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 65536));
    CU(cu.cuLaunchKernel(shared_sum, 1, 1, 1, 1, 1, 1, 65536, a, arguments, NULL));
    CU(cu.cuStreamSynchronize(a));
    end(NULL, NULL);
}

static void expect_broken(CUresult code, const char *part) {
    const char *told;
    assert_int_equal(cu.cuStreamSynchronize(a), code);
    assert_int_equal(cu.cuMemsetD8Async(x, 0, 4, a), code); /* for good */
    CU(cu.cuGetErrorString(code, &told));
    if (!strstr(told, part)) fail_msg("\"%s\" does not say \"%s\"", told, part);
}

static void accesses_outside_break_the_context(void **state) {
    (void)state;
    begin(1);
    CU(launch(outside, a, x, y, 1));
    expect_broken(700, "8 bytes after the end of the allocation of 1024 bytes");
    end("outside", "outside of all allocations");
    begin(1);
    CU(launch(unaligned, a, x, y, 1));
    expect_broken(716, "which is not a multiple of 4");
    end("unaligned", NULL);
    begin(1);
    CU(cu.cuMemFree(x));
    CU(launch(add, a, x, y, COUNT));
    expect_broken(700, "freed allocation of 1024 bytes");
    end("add: ", NULL);
}

static void reads_of_what_nobody_wrote(void **state) {
    (void)state;
    CUdeviceptr other, third;
    begin(1);
    CU(cu.cuMemAlloc(&other, BYTES));
    CU(launch(add, a, other, y, COUNT));
    expect_broken(719, "never written");
    end("reads memory that was never written", NULL);
    begin(1);
    CU(cu.cuMemAlloc(&other, BYTES));
    CU(cu.cuMemcpyDtoHAsync(down, other, BYTES, a));
    expect_broken(719, "never written");
    end("copy down of 1024 bytes", NULL);
    begin(1);
    CU(cu.cuMemAlloc(&other, BYTES));
    CU(cu.cuMemAlloc(&third, BYTES));
    CU(cu.cuMemsetD8Async(other, 0, 500, a));
    CU(cu.cuMemcpyDtoDAsync(third, other, BYTES, a)); /* copies may contain such bytes */
    CU(cu.cuMemcpyDtoHAsync(down, third, 500, a));
    CU(cu.cuStreamSynchronize(a));
    CU(cu.cuMemcpyDtoHAsync(down, third, 501, a));
    expect_broken(719, "never written");
    end("500 bytes into the allocation", NULL);
}

/* --- order ---------------------------------------------------------------------------------------------------------- */

static void streams_without_an_event_race(void **state) {
    (void)state;
    for (int seed = 0; seed < SEEDS; seed++) {
        begin(seed);
        CU(cu.cuMemsetD8Async(y, 0, BYTES, a));
        CU(launch(add, b, x, y, COUNT));
        (void)cu.cuStreamSynchronize(b);
        assert_int_equal(cu.cuStreamSynchronize(a), 719);
        end("fill of 1024 bytes", "add");
    }
}

static void readers_do_not_race(void **state) {
    (void)state;
    for (int seed = 0; seed < SEEDS; seed++) {
        begin(seed);
        CUdeviceptr other;
        CU(cu.cuMemAlloc(&other, BYTES));
        CU(cu.cuMemsetD8Async(other, 0, BYTES, a));
        CU(launch(add, a, x, other, COUNT));
        CU(launch(add, b, x, y, COUNT));
        CU(cu.cuStreamSynchronize(a));
        CU(cu.cuStreamSynchronize(b));
        end(NULL, NULL);
    }
}

static void a_write_after_reads_of_two_streams(void **state) {
    (void)state;
    for (int seed = 0; seed < SEEDS; seed++) {
        begin(seed);
        CU(cu.cuMemcpyDtoHAsync(down, x, BYTES, a));
        CU(cu.cuMemcpyDtoHAsync(up, x, BYTES / 2, b));
        CU(cu.cuEventRecord(event, a)); /* not of b */
        CU(cu.cuStreamSynchronize(a));
        CU(cu.cuMemsetD8Async(x, 0, BYTES, a));
        (void)cu.cuStreamSynchronize(a);
        assert_int_equal(cu.cuStreamSynchronize(b), 719);
        end("fill of 1024 bytes", "copy down of 512 bytes");
    }
}

static void events_order_streams(void **state) {
    (void)state;
    for (int seed = 0; seed < SEEDS; seed++) {
        begin(seed);
        for (int i = 0; i < 3; i++) {
            CU(launch(add, a, x, y, COUNT));
            CU(cu.cuEventRecord(event, a));
            CU(cu.cuStreamWaitEvent(b, event, 0));
            CU(launch(add, b, x, y, COUNT));
            CU(cu.cuEventRecord(event, b)); /* recorded again while it is waited for */
            CU(cu.cuStreamWaitEvent(a, event, 0));
        }
        CU(cu.cuMemcpyDtoHAsync(down, y, BYTES, a));
        CU(cu.cuStreamSynchronize(a));
        expect_sums(6);
        end(NULL, NULL);
    }
}

static void an_event_covers_what_came_before_it(void **state) {
    (void)state;
    for (int seed = 0; seed < SEEDS; seed++) {
        begin(seed);
        CU(cu.cuEventRecord(event, a));
        CU(launch(add, a, x, y, COUNT)); /* after the recording */
        CU(cu.cuStreamWaitEvent(b, event, 0));
        CU(launch(add, b, x, y, COUNT));
        (void)cu.cuStreamSynchronize(a);
        assert_int_equal(cu.cuStreamSynchronize(b), 719);
        end("race", "add");
    }
}

static void the_host_orders_streams(void **state) {
    (void)state;
    for (int seed = 0; seed < SEEDS; seed++) {
        begin(seed);
        CU(launch(add, a, x, y, COUNT));
        CU(cu.cuStreamSynchronize(a));
        CU(launch(add, b, x, y, COUNT));
        CU(cu.cuEventRecord(event, b));
        CU(cu.cuEventSynchronize(event));
        CU(launch(add, a, x, y, COUNT));
        CU(cu.cuEventRecord(event, a));
        while (cu.cuEventQuery(event) == CUDA_ERROR_NOT_READY) {
        }
        CU(cu.cuMemcpyDtoHAsync(down, y, BYTES, b));
        CU(cu.cuStreamSynchronize(b));
        expect_sums(3);
        end(NULL, NULL);
    }
}

static void waits_that_nobody_promises_order_nothing(void **state) {
    (void)state;
    begin(1);
    CUdeviceptr other;
    CU(cu.cuMemAlloc(&other, 4));
    CU(launch(add, a, x, y, COUNT));
    CU(cu.cuMemFree(other));
    CU(launch(add, b, x, y, COUNT));
    assert_int_equal(cu.cuStreamSynchronize(b), 719);
    assert_non_null(strstr(fake_waits_text(), "cuMemFree "));
    end("race", "add");
}

static void peers_need_order_too(void **state) {
    (void)state;
    for (int with = 0; with < 2; with++)
        for (int seed = 0; seed < SEEDS; seed++) {
            begin(seed);
            CUdeviceptr other;
            CUstream c;
            CU(cu.cuCtxPushCurrent(contexts[1]));
            CU(cu.cuMemAlloc(&other, BYTES));
            CU(cu.cuStreamCreate(&c, CU_STREAM_NON_BLOCKING));
            CU(launch(add, a, x, y, COUNT));
            CU(cu.cuEventRecord(event, a));
            if (with) CU(cu.cuStreamWaitEvent(c, event, 0));
            CU(cu.cuMemcpyPeerAsync(other, contexts[1], y, contexts[0], BYTES, c));
            CU(cu.cuMemcpyDtoHAsync(down, other, BYTES, c));
            CUresult result = cu.cuStreamSynchronize(c), sender = cu.cuStreamSynchronize(a);
            assert_true(with ? !result && !sender : result || sender);
            if (with) expect_sums(1);
            CUcontext unused;
            CU(cu.cuCtxPopCurrent(&unused));
            end(with ? NULL : "copy peer", with ? NULL : "add");
        }
}

static const char *order_of(int seed) {
    static char log[SEEDS + 1][WAITS_TEXT];
    begin(seed);
    CUdeviceptr other;
    CU(cu.cuMemAlloc(&other, BYTES));
    for (int i = 0; i < 6; i++) {
        CU(cu.cuMemsetD8Async(other, 1, 4, a));
        CU(cu.cuMemsetD8Async(y, 1, 8, b));
    }
    CU(cu.cuStreamSynchronize(a));
    CU(cu.cuStreamSynchronize(b));
    snprintf(log[seed], sizeof *log, "%s", fake_log_text());
    end(NULL, NULL);
    return log[seed];
}

static void seeds_draw_the_order(void **state) {
    (void)state;
    char first[WAITS_TEXT];
    int different = 0;
    snprintf(first, sizeof first, "%s", order_of(1));
    assert_string_equal(first, order_of(1));
    for (int seed = 2; seed < SEEDS; seed++) different += strcmp(first, order_of(seed)) != 0;
    assert_true(different > 3);
}

/* --- host memory ---------------------------------------------------------------------------------------------------- */

static void the_host_leaves_sources_alone(void **state) {
    (void)state;
    begin(1);
    CU(cu.cuMemcpyHtoDAsync(x, up, BYTES, a));
    up[17] = 5;
    assert_int_equal(cu.cuStreamSynchronize(a), 719);
    end("the host changed the source of copy up of 1024 bytes", NULL);
    begin(1);
    CU(cu.cuMemcpyHtoDAsync(x, up, BYTES, a));
    CU(cu.cuStreamSynchronize(a));
    up[17] = 5;
    end(NULL, NULL);
}

static void downloads_are_waited_for(void **state) {
    (void)state;
    begin(0);
    down[3] = 3;
    CU(cu.cuMemcpyDtoHAsync(down, x, BYTES, a));
    assert_true(down[3] != 3);
    CU(cu.cuStreamSynchronize(a));
    expect_sums(1);
    end(NULL, NULL);
}

static void pinned_memory_lasts(void **state) {
    (void)state;
    begin(1);
    CU(cu.cuMemcpyDtoHAsync(down, x, BYTES, a));
    (void)cu.cuMemFreeHost(down);
    end("cuMemFreeHost frees memory before the work that uses it has run: copy down of 1024 bytes", NULL);
    begin(1);
    CU(cu.cuMemcpyDtoHAsync(down, x, BYTES, a));
    CU(cu.cuStreamSynchronize(a));
    CU(cu.cuMemFreeHost(down));
    end(NULL, NULL);
}

static void device_memory_lasts(void **state) {
    (void)state;
    for (int waits = 0; waits < 2; waits++) {
        begin(1);
        CU(launch(add, a, x, y, COUNT));
        if (waits) CU(cu.cuStreamSynchronize(a));
        CU(cu.cuMemFree(y));
        end(waits ? NULL : "cuMemFree frees memory before the host has waited for the work that uses it: kernel add",
            NULL);
    }
}

/* --- what is in flight ---------------------------------------------------------------------------------------------- */

static void modules_last(void **state) {
    (void)state;
    begin(1);
    CU(launch(add, a, x, y, COUNT));
    (void)cu.cuModuleUnload(module);
    end("cuModuleUnload unloads kernel add", "whose launch has not run");
    begin(1);
    CU(launch(add, a, x, y, COUNT));
    CU(cu.cuStreamSynchronize(a));
    CU(cu.cuModuleUnload(module));
    assert_int_equal(launch(add, a, x, y, COUNT), 400);
    end("cuLaunchKernel launches add, whose module was unloaded", NULL);
}

static CUgraphExec record_add(void) {
    CUgraph graph;
    CUgraphExec executable;
    CU(cu.cuStreamBeginCapture(b, CU_STREAM_CAPTURE_MODE_RELAXED));
    CU(launch(add, b, x, y, COUNT));
    CU(cu.cuStreamEndCapture(b, &graph));
    CU(cu.cuGraphInstantiateWithFlags(&executable, graph, 0));
    CU(cu.cuGraphDestroy(graph));
    return executable;
}

static void graphs_keep_modules(void **state) {
    (void)state;
    begin(1);
    CUgraphExec executable = record_add();
    CU(cu.cuGraphLaunch(executable, a));
    CU(cu.cuGraphLaunch(executable, a));
    CU(cu.cuMemcpyDtoHAsync(down, y, BYTES, a));
    CU(cu.cuStreamSynchronize(a));
    expect_sums(2);
    (void)cu.cuModuleUnload(module);
    end("which a graph may launch again", NULL);
    begin(1);
    executable = record_add();
    CU(cu.cuGraphLaunch(executable, a));
    CU(cu.cuGraphExecDestroy(executable)); /* allowed: it is freed when it has run */
    CU(cu.cuStreamSynchronize(a));
    CU(cu.cuModuleUnload(module));
    assert_non_null(strstr(fake_waits_text(), "cuGraphExecDestroy of a graph in flight"));
    end(NULL, NULL);
}

static void streams_are_not_destroyed_in_flight(void **state) {
    (void)state;
    begin(1);
    CU(launch(add, a, x, y, COUNT));
    (void)cu.cuStreamDestroy(a);
    end("is destroyed before its work has run: kernel add", NULL);
    begin(1);
    CU(launch(add, a, x, y, COUNT));
    CU(cu.cuEventRecord(event, a));
    CU(cu.cuEventDestroy(event)); /* allowed */
    CU(cu.cuStreamSynchronize(a));
    CU(cu.cuStreamDestroy(a));
    end(NULL, NULL);
}

static void a_full_queue_waits(void **state) {
    (void)state;
    begin(1);
    for (int i = 0; i < 1200; i++) CU(launch(add, a, x, y, 32));
    assert_non_null(strstr(fake_waits_text(), "a full queue of launches "));
    CU(cu.cuStreamSynchronize(a));
    end(NULL, NULL);
}

/* --- the end of the process ----------------------------------------------------------------------------------------- */

static int exit_code_of(bool reported) {
    fflush(NULL);
    pid_t child = fork();
    if (!child) {
        const char *told;
        (void)!freopen("/dev/null", "w", stderr);
        begin(1);
        CU(launch(outside, a, x, y, 1));
        CUresult code = cu.cuStreamSynchronize(a);
        if (reported) (void)cu.cuGetErrorString(code, &told);
        release_contexts();
        exit(0);
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void findings_that_nobody_reports_end_the_process(void **state) {
    (void)state;
    assert_int_equal(exit_code_of(false), 99);
    assert_int_equal(exit_code_of(true), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(kernels_run),
        cmocka_unit_test(launches_are_checked),
        cmocka_unit_test(accesses_outside_break_the_context),
        cmocka_unit_test(reads_of_what_nobody_wrote),
        cmocka_unit_test(streams_without_an_event_race),
        cmocka_unit_test(readers_do_not_race),
        cmocka_unit_test(a_write_after_reads_of_two_streams),
        cmocka_unit_test(events_order_streams),
        cmocka_unit_test(an_event_covers_what_came_before_it),
        cmocka_unit_test(the_host_orders_streams),
        cmocka_unit_test(waits_that_nobody_promises_order_nothing),
        cmocka_unit_test(peers_need_order_too),
        cmocka_unit_test(seeds_draw_the_order),
        cmocka_unit_test(the_host_leaves_sources_alone),
        cmocka_unit_test(downloads_are_waited_for),
        cmocka_unit_test(pinned_memory_lasts),
        cmocka_unit_test(device_memory_lasts),
        cmocka_unit_test(modules_last),
        cmocka_unit_test(graphs_keep_modules),
        cmocka_unit_test(streams_are_not_destroyed_in_flight),
        cmocka_unit_test(a_full_queue_waits),
        cmocka_unit_test(findings_that_nobody_reports_end_the_process),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
