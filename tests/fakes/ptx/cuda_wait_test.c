/* The fake CUDA driver: calls that wait for work without a promise, and the null stream. */
#include "fakes/ptx/cuda_test.h"

static long waits_of(const char *call) {
    char line[80];
    snprintf(line, sizeof line, "\n%s ", call);
    char *all = NULL;
    if (asprintf(&all, "\n%s", fake_waits_text()) < 0) abort();
    const char *at = strstr(all, line);
    long count = at ? atol(at + strlen(line)) : 0;
    free(all);
    return count;
}

/* --- calls that may wait ---------------------------------------------------------------------------------------------- */

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

static void a_full_queue_waits(void **state) {
    (void)state;
    begin(1);
    for (int i = 0; i < 1200; i++) CU(launch(add, a, x, y, 32));
    assert_non_null(strstr(fake_waits_text(), "a full queue of launches "));
    CU(cu.cuStreamSynchronize(a));
    end(NULL, NULL);
}

typedef void call(void);

static void allocate(void) {
    CUdeviceptr other;
    CU(cu.cuMemAlloc(&other, 4));
}

static void allocate_pinned(void) {
    void *other;
    CU(cu.cuMemHostAlloc(&other, 4, 0));
}

static void load(void) {
    CUmodule other;
    CU(cu.cuModuleLoadData(&other, text));
}

static void unload(void) {
    CUmodule other;
    CU(cu.cuModuleLoadData(&other, text));
    CU(cu.cuModuleUnload(other));
}

/* Each is counted where there is work to wait for; what may wait does so for some seeds, and never orders anything. */
static void waits_are_counted(void **state) {
    (void)state;
    static const struct {
        const char *name;
        call *make;
        bool always;
    } calls[] = {{"cuMemAlloc", allocate, false},
                 {"cuMemHostAlloc", allocate_pinned, false},
                 {"cuModuleLoadData", load, false},
                 {"cuModuleUnload", unload, true}};
    for (size_t c = 0; c < sizeof calls / sizeof *calls; c++) {
        int waited = 0, seeds = 32;
        for (int seed = 1; seed <= seeds; seed++) {
            begin(seed);
            long before = waits_of(calls[c].name);
            calls[c].make();
            assert_int_equal(waits_of(calls[c].name), before); /* nothing to wait for */
            CU(cu.cuMemcpyDtoHAsync(down, x, BYTES, a));
            calls[c].make();
            /* a call that waited before this one left nothing to wait for */
            if (waits_of(calls[c].name) != before + 1) assert_string_equal(calls[c].name, "cuModuleUnload");
            waited += down[1] == 1;
            CU(cu.cuStreamSynchronize(a));
            end(NULL, NULL);
        }
        if (calls[c].always ? waited != seeds : waited == 0 || waited == seeds)
            fail_msg("%s waited for %d of %d seeds", calls[c].name, waited, seeds);
    }
}

static void pageable_copies_are_counted(void **state) {
    (void)state;
    static float pageable[COUNT], source[1] = {7};
    begin(1);
    long before = waits_of("a copy of pageable memory");
    CU(cu.cuMemcpyDtoHAsync(down, x, BYTES, a));
    assert_int_equal(waits_of("a copy of pageable memory"), before);
    CU(cu.cuMemcpyDtoHAsync(pageable, x, BYTES, a));
    CU(cu.cuMemcpyHtoDAsync(y, source, 4, b));
    assert_int_equal(waits_of("a copy of pageable memory"), before + 2);
    assert_true(pageable[1] != 1);
    CU(cu.cuStreamSynchronize(a));
    CU(cu.cuStreamSynchronize(b));
    end(NULL, NULL);
}

/* --- the null stream -------------------------------------------------------------------------------------------------- */

/* Both of our streams are non-blocking: nothing orders the null stream and them. */
static void the_null_stream_is_a_stream(void **state) {
    (void)state;
    for (int seed = 0; seed < SEEDS; seed++) {
        begin(seed);
        for (int i = 0; i < 3; i++) CU(launch(add, NULL, x, y, COUNT));
        CU(cu.cuEventRecord(event, NULL));
        CU(cu.cuStreamWaitEvent(a, event, 0));
        CU(cu.cuMemcpyDtoHAsync(down, y, BYTES, a));
        CU(cu.cuStreamSynchronize(a));
        expect_sums(3);
        CU(cu.cuMemsetD8Async(y, 0, BYTES, NULL));
        CU(launch(add, NULL, x, y, COUNT));
        CU(cu.cuMemcpyDtoHAsync(down, y, BYTES, NULL));
        CU(cu.cuStreamSynchronize(NULL));
        expect_sums(1);
        assert_int_equal(cu.cuStreamDestroy(NULL), 400);
        assert_int_equal(cu.cuStreamBeginCapture(NULL, CU_STREAM_CAPTURE_MODE_RELAXED), 900);
        end(NULL, NULL);
        begin(seed);
        CU(launch(add, a, x, y, COUNT));
        CU(launch(add, NULL, x, y, COUNT));
        (void)cu.cuStreamSynchronize(NULL);
        (void)cu.cuStreamSynchronize(a);
        end("race: ", "kernel add");
    }
}

static void the_null_stream_orders_blocking_streams(void **state) {
    (void)state;
    for (int seed = 0; seed < SEEDS; seed++) {
        CUstream c, d;
        begin(seed);
        CU(cu.cuStreamCreate(&c, 0));
        CU(cu.cuStreamCreate(&d, 0));
        CU(launch(add, c, x, y, COUNT));
        CU(launch(add, NULL, x, y, COUNT));
        CU(launch(add, d, x, y, COUNT));
        CU(launch(add, NULL, x, y, COUNT));
        CU(cu.cuMemcpyDtoHAsync(down, y, BYTES, c));
        CU(cu.cuStreamSynchronize(c));
        expect_sums(4);
        end(NULL, NULL);
        begin(seed);
        CU(cu.cuStreamCreate(&c, 0));
        CU(cu.cuStreamCreate(&d, 0));
        CU(launch(add, c, x, y, COUNT));
        CU(launch(add, d, x, y, COUNT)); /* no work of the null stream is between them */
        (void)cu.cuStreamSynchronize(c);
        (void)cu.cuStreamSynchronize(d);
        end("race: ", "kernel add");
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(waits_that_nobody_promises_order_nothing),
        cmocka_unit_test(a_full_queue_waits),
        cmocka_unit_test(waits_are_counted),
        cmocka_unit_test(pageable_copies_are_counted),
        cmocka_unit_test(the_null_stream_is_a_stream),
        cmocka_unit_test(the_null_stream_orders_blocking_streams),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
