/* The fake CUDA driver itself: kernels in PTX on streams; wrong accesses, and what may not end before its work. */
#include <sys/wait.h>

#include "fakes/ptx/cuda_test.h"

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

/* As on a card. Between seeds they differ, so that nothing relies on one card's errors. */
static void approximate_results_are_the_same_in_each_launch(void **state) {
    (void)state;
    static float of[SEEDS][2][COUNT];
    for (int seed = 1; seed < SEEDS; seed++) {
        begin(seed);
        for (int i = 0; i < 2; i++) {
            CU(launch(sines, a, x, y, COUNT));
            CU(cu.cuMemcpyDtoHAsync(down, y, BYTES, a));
            CU(cu.cuStreamSynchronize(a));
            memcpy(of[seed][i], down, BYTES);
        }
        assert_memory_equal(of[seed][0], of[seed][1], BYTES);
        end(NULL, NULL);
    }
    assert_memory_not_equal(of[1][0], of[2][0], BYTES);
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

/* --- what is in flight ---------------------------------------------------------------------------------------------- */

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
        cmocka_unit_test(approximate_results_are_the_same_in_each_launch),
        cmocka_unit_test(launches_are_checked),
        cmocka_unit_test(accesses_outside_break_the_context),
        cmocka_unit_test(reads_of_what_nobody_wrote),
        cmocka_unit_test(device_memory_lasts),
        cmocka_unit_test(modules_last),
        cmocka_unit_test(graphs_keep_modules),
        cmocka_unit_test(streams_are_not_destroyed_in_flight),
        cmocka_unit_test(findings_that_nobody_reports_end_the_process),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
