/* What orders the operations of the fake CUDA driver, with each other and with the host. Each mistake is found for any seed; correct programs
 * pass for all seeds. */
#include "fakes/ptx/cuda_test.h"

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
    setenv("BERTH_FAKE_PROGRESS", "on", 1);
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
    unsetenv("BERTH_FAKE_PROGRESS");
    begin(0);
    CU(launch(add, a, x, y, COUNT));
    CU(cu.cuEventRecord(event, a));
    for (int i = 0; i < 1000; i++) assert_int_equal(cu.cuEventQuery(event), CUDA_ERROR_NOT_READY);
    CU(cu.cuEventSynchronize(event));
    CU(cu.cuEventQuery(event));
    end(NULL, NULL);
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

static void pinned_memory_is_not_left(void **state) {
    (void)state;
    begin(1);
    assert_int_not_equal(cu.cuMemcpyHtoDAsync(x, up + 1, BYTES, a), 0);
    end("copy up of 1024 bytes goes 4 bytes past the end of pinned memory of 1024 bytes", NULL);
    begin(1);
    assert_int_not_equal(cu.cuMemcpyDtoHAsync(down + COUNT - 1, x, 8, a), 0);
    end("copy down of 8 bytes goes 4 bytes past the end of pinned memory of 1024 bytes", NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(streams_without_an_event_race),
        cmocka_unit_test(readers_do_not_race),
        cmocka_unit_test(a_write_after_reads_of_two_streams),
        cmocka_unit_test(events_order_streams),
        cmocka_unit_test(an_event_covers_what_came_before_it),
        cmocka_unit_test(the_host_orders_streams),
        cmocka_unit_test(peers_need_order_too),
        cmocka_unit_test(seeds_draw_the_order),
        cmocka_unit_test(the_host_leaves_sources_alone),
        cmocka_unit_test(downloads_are_waited_for),
        cmocka_unit_test(pinned_memory_lasts),
        cmocka_unit_test(pinned_memory_is_not_left),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
