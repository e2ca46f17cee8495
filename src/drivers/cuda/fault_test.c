/* A device of a fake machine, where any call fails: once, late, or for good. */
#include "support/cuda_device.h"

/* The recording adds elsewhere from now on. */
static bt_status change(bti_cuda_device *device, void *graph, const bti_gpu_function *add, uint64_t address) {
    bool can;
    bt_status status = bti_driver_cuda.graph_update(device, graph, &can);
    if (status != BT_OK || !can) return status;
    status = launch_add(device, add, address, 50, 1, true);
    bt_status ended = bti_driver_cuda.graph_end(device, &graph);
    return status == BT_OK ? ended : status;
}

/* Everything once; what was made is given back. */
static bt_status everything(bti_cuda_device *device) {
    const size_t bytes = (size_t)BTI_CUDA_STAGING * (BTI_CUDA_STAGINGS + 1);
    char *values = calloc(1, bytes);
    uint64_t address = 0;
    void *module = NULL, *graph = NULL, *pinned = NULL;
    bool stale;
    bti_gpu_function add, more;
    bti_event event;
    bti_mark marks[4];
    int marked = 0;
    bt_status status = bti_driver_cuda.alloc(device, bytes, &address);
    if (status == BT_OK) status = bti_driver_cuda.upload(device, address, values, bytes);
    if (status == BT_OK) status = bti_driver_cuda.host_alloc(device, BTI_CUDA_DIRECT, &pinned);
    if (status == BT_OK)
        status = bti_driver_cuda.upload_pinned(device, address, memset(pinned, 0, BTI_CUDA_DIRECT), BTI_CUDA_DIRECT);
    if (status == BT_OK) status = bti_driver_cuda.download_pinned(device, pinned, address, BTI_CUDA_DIRECT);
    if (pinned) bti_driver_cuda.host_free(device, pinned, BTI_CUDA_DIRECT);
    if (status == BT_OK) status = bti_driver_cuda.fill(device, address, 0, bytes);
    if (status == BT_OK) status = build(device, add_text, &module);
    if (status == BT_OK) status = bti_cuda_find_function(device, module, "fake_add", &add);
    if (status == BT_OK) status = bti_cuda_find_function(device, module, "fake_add_more", &more);
    if (status == BT_OK) status = launch_add(device, &more, address, 50, 2, false);
    if (status == BT_OK) {
        status = bti_driver_cuda.graph_begin(device);
        if (status == BT_OK) {
            status = bti_driver_cuda.mark(device, true, &marks[0]);
            if (status == BT_OK) status = launch_add(device, &add, address, 50, 1, true);
            if (status == BT_OK) status = bti_driver_cuda.mark(device, false, &marks[1]);
            bt_status ended = bti_driver_cuda.graph_end(device, &graph);
            if (status == BT_OK) status = ended;
        }
    }
    if (graph) {
        if (status == BT_OK) status = bti_driver_cuda.graph_run(device, graph, marks, &stale);
        if (status == BT_OK) marked = 2;
        if (status == BT_OK) status = change(device, graph, &add, address + 256);
        bti_driver_cuda.graph_free(device, graph);
    }
    if (status == BT_OK) status = bti_driver_cuda.copy(device, address, address + bytes / 2, 100);
    if (status == BT_OK) {
        status = bti_driver_cuda.mark(device, true, &marks[marked]);
        if (status == BT_OK) marked++;
    }
    if (status == BT_OK) status = bti_driver_cuda.record(device, &event);
    if (status == BT_OK) status = bti_driver_cuda.wait(device, event);
    for (int i = 0; i < marked; i++) (void)bti_driver_cuda.read_mark(device, marks[i]);
    if (status == BT_OK) status = bti_driver_cuda.download(device, values, address, bytes);
    if (status == BT_OK) status = bti_driver_cuda.sync(device);
    if (module) bti_cuda_held_release(device, module);
    if (address) bti_driver_cuda.free(device, address, bytes);
    free(values);
    return status;
}

/* Each call of libcuda fails in turn, by an error that passes and by one that stays. */
static void every_call_may_fail(void **state) {
    static const int codes[] = {1, 2, 700};
    (void)state;
    for (int c = 0; c < 3; c++) {
        int n = 1, failures = 0;
        for (bool failed = true; failed; n++) {
            char json[1200];
            void *device = NULL;
            snprintf(json, sizeof json, "{\"fail_any\": [%d, %d], " TWO_CARDS "}", n, codes[c]);
            machine(json, "nvidia-ml");
            bt_status status = bti_driver_cuda.open(B, &allocator, &device);
            if (status == BT_OK) status = everything(device);
            failed = fake.calls() >= n;
            failures += status != BT_OK;
            if (device) bti_driver_cuda.close(device);
            if (fake.alive()) fail_msg("%d: call %d leaves %d: %s", codes[c], n, fake.alive(), bt_error_text());
        }
        assert_true(n > 330);               /* there are so many calls */
        assert_true(failures > n * 9 / 10); /* a failed name, peer access and version are no failure */
    }
}

static void a_late_failure_loses_only_its_device(void **state) {
    (void)state;
    uint64_t on_a, on_b;
    bti_event event;
    bti_work_end end;
    bool done;
    char byte[100];
    machine("{\"late\": [1, 700], " TWO_CARDS "}", NULL);
    bti_cuda_device *b = open_one(B), *a = open_one(A);
    OK(bti_driver_cuda.alloc(a, 4000, &on_a));
    OK(bti_driver_cuda.alloc(b, 4000, &on_b));
    OK(bti_driver_cuda.fill(b, on_b, 1, 4000));
    OK(bti_driver_cuda.record(b, &event));
    expect_error(bti_driver_cuda.wait(b, event), BT_INTERNAL, "cuEventSynchronize: CUDA_ERROR_ILLEGAL_ADDRESS (700)");
    const char *cause = "NVIDIA B is lost to this process since cuEventSynchronize: CUDA_ERROR_ILLEGAL_ADDRESS";
    expect_error(bti_driver_cuda.fill(b, on_b, 1, 4000), BT_UNAVAILABLE, cause);
    expect_error(bti_driver_cuda.alloc(b, 4000, &on_b), BT_UNAVAILABLE, cause);
    expect_error(bti_driver_cuda.upload(b, on_b, byte, 100), BT_UNAVAILABLE, cause);
    expect_error(bti_driver_cuda.download(b, byte, on_b, 100), BT_UNAVAILABLE, cause);
    expect_error(bti_driver_cuda.record(b, &event), BT_UNAVAILABLE, cause);
    expect_error(bti_driver_cuda.wait(b, event), BT_UNAVAILABLE, cause);
    expect_error(bti_driver_cuda.query(b, event, &done), BT_UNAVAILABLE, cause);
    expect_error(bti_driver_cuda.sync(b), BT_UNAVAILABLE, cause);
    expect_error(bti_driver_cuda.follow(b, event), BT_UNAVAILABLE, cause);
    expect_error(bti_driver_cuda.send(a, on_a, NULL, b, on_b, &event, 100, &end), BT_UNAVAILABLE, cause);
    expect_error(bti_driver_cuda.send(b, on_b, NULL, a, on_a, &event, 100, &end), BT_UNAVAILABLE, cause);
    expect_error(bti_driver_cuda.graph_begin(b), BT_UNAVAILABLE, cause);
    OK(bti_driver_cuda.fill(a, on_a, 7, 4000));
    finish(a);
    OK(bti_driver_cuda.download(a, byte, on_a, 100));
    assert_int_equal(byte[99], 7);
    bti_driver_cuda.free(b, on_b, 4000);
    bti_driver_cuda.free(a, on_a, 4000);
    close_all(a, b);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_call_may_fail),
        cmocka_unit_test(a_late_failure_loses_only_its_device),
    };
    return cmocka_run_group_tests(tests, NULL, no_machine);
}
