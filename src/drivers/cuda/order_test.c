/* What waits for what on the streams of a fake machine's devices (fakes/machine.h), which run as late as possible: copies, launches, events,
 * peers. */
#include "support/cuda_device.h"

/* Several times the staging, with the host's memory changed as soon as it may be. */
static void staging_is_used_again_when_it_may_be(void **state) {
    (void)state;
    const size_t count = (BTI_CUDA_STAGING / 4) * (2 * BTI_CUDA_STAGINGS + 1) + 77, bytes = count * 4;
    float *values = malloc(bytes);
    uint64_t first, second;
    machine("{" TWO_CARDS "}", NULL);
    bti_cuda_device *b = open_one(B);
    OK(bti_driver_cuda.alloc(b, bytes, &first));
    OK(bti_driver_cuda.alloc(b, bytes, &second));
    fill_floats(values, count, 1);
    OK(bti_driver_cuda.upload(b, first, values, bytes));
    fill_floats(values, count, 5);
    OK(bti_driver_cuda.upload(b, second, values, bytes));
    memset(values, 0, bytes);
    OK(bti_driver_cuda.copy(b, first + 400, second + 400, 4000));
    finish(b);
    OK(bti_driver_cuda.download(b, values, first, bytes));
    check_floats(values, 100, 1);
    for (size_t i = 100; i < 1100; i++) assert_true(values[i] == 5 + (float)(i % 1000));
    OK(bti_driver_cuda.download(b, values, second, bytes));
    check_floats(values, count, 5);
    bti_driver_cuda.free(b, first, bytes);
    bti_driver_cuda.free(b, second, bytes);
    free(values);
    close_all(b, NULL);
}

/* Small uploads wait for nothing: none of them was carried out when the last has returned. */
static void small_uploads_do_not_wait(void **state) {
    (void)state;
    uint64_t address;
    machine("{" TWO_CARDS "}", NULL);
    bti_cuda_device *b = open_one(B);
    OK(bti_driver_cuda.alloc(b, 4000, &address));
    for (int i = 0; i < 100; i++) OK(bti_driver_cuda.upload(b, address, &i, sizeof i));
    assert_int_equal(count_of("copy up"), 0);
    int last;
    OK(bti_driver_cuda.download(b, &last, address, sizeof last));
    assert_int_equal(last, 99);
    bti_driver_cuda.free(b, address, 4000);
    close_all(b, NULL);
}

/* Uploads that nobody waited for use the pinned memory that closing frees. */
static void closing_waits_for_uploads(void **state) {
    (void)state;
    uint64_t address;
    int value = 5;
    machine("{" TWO_CARDS "}", NULL);
    bti_cuda_device *b = open_one(B);
    OK(bti_driver_cuda.alloc(b, 4000, &address));
    OK(bti_driver_cuda.upload(b, address, &value, sizeof value));
    close_all(b, NULL);
}

/* While a part goes up, those after it are copied into the other buffers: nobody waits before there is none left. */
static void copying_overlaps_the_bus(void **state) {
    (void)state;
    const size_t bytes = (size_t)BTI_CUDA_STAGING * BTI_CUDA_STAGINGS * 2;
    char *values = calloc(1, bytes);
    uint64_t address;
    machine("{" TWO_CARDS "}", NULL);
    bti_cuda_device *b = open_one(B);
    OK(bti_driver_cuda.alloc(b, bytes, &address));
    OK(bti_driver_cuda.upload(b, address, values, bytes));
    assert_int_equal(count_of("copy up"), BTI_CUDA_STAGINGS);
    OK(bti_driver_cuda.sync(b));
    assert_int_equal(count_of("copy up"), 2 * BTI_CUDA_STAGINGS);
    bti_driver_cuda.free(b, address, bytes);
    free(values);
    close_all(b, NULL);
}

/* Up and down, where the nth pinned buffer is not to be had. Without one, libcuda copies from and to the program's memory. */
static void copy_without_buffer(size_t nth, size_t up, size_t down) {
    const size_t count = (BTI_CUDA_STAGING / 4) * (BTI_CUDA_STAGINGS + 2) + 77, bytes = count * 4;
    float *values = malloc(bytes);
    uint64_t address;
    char json[1200];
    snprintf(json, sizeof json, "{\"fail\": {\"cuMemHostAlloc\": [%zu, 2]}, " TWO_CARDS "}", nth);
    machine(json, NULL);
    bti_cuda_device *b = open_one(B);
    OK(bti_driver_cuda.alloc(b, bytes, &address));
    fill_floats(values, count, 3);
    OK(bti_driver_cuda.upload(b, address, values, bytes));
    memset(values, 0, bytes);
    OK(bti_driver_cuda.download(b, values, address, bytes));
    check_floats(values, count, 3);
    for (size_t i = 0; i < BTI_CUDA_STAGINGS; i++) {
        assert_int_equal(b->up.staging[i] != NULL, i < up);
        assert_int_equal(b->down.staging[i] != NULL, i < down);
    }
    fill_floats(values, count, 7);
    OK(bti_driver_cuda.upload(b, address, values, bytes));
    OK(bti_driver_cuda.download(b, values, address, bytes));
    check_floats(values, count, 7);
    bti_driver_cuda.free(b, address, bytes);
    free(values);
    close_all(b, NULL);
}

static void pinned_memory_may_be_short(void **state) {
    (void)state;
    for (size_t i = 0; i < BTI_CUDA_STAGINGS; i++) {
        copy_without_buffer(i + 1, i, BTI_CUDA_STAGINGS);
        copy_without_buffer(BTI_CUDA_STAGINGS + i + 1, BTI_CUDA_STAGINGS, i);
    }
}

static void launches_come_between_copies(void **state) {
    (void)state;
    float values[500];
    uint64_t address;
    void *module;
    bti_gpu_function add, more;
    machine("{" TWO_CARDS "}", NULL);
    bti_cuda_device *b = open_one(B);
    OK(build(b, add_text, &module));
    OK(bti_cuda_find_function(b, module, "fake_add", &add));
    OK(bti_cuda_find_function(b, module, "fake_add_more", &more));
    assert_int_equal(add.threads, 512);
    assert_int_equal(add.groups, 4 * 2048 / BTI_GROUP);
    expect_error(bti_cuda_find_function(b, module, "bti_none", &more), BT_INTERNAL, "cuModuleGetFunction");
    OK(bti_cuda_find_function(b, module, "fake_add_more", &more));
    OK(bti_driver_cuda.alloc(b, sizeof values, &address));
    fill_floats(values, 500, 1);
    OK(bti_driver_cuda.upload(b, address, values, sizeof values));
    for (uint64_t i = 0; i < 200; i++) /* more than there are slots */
        OK(launch_add(b, &more, address, 500, 1 + i % 3, false));
    OK(launch_add(b, &add, address, 500, 3, true));
    finish(b);
    memset(values, 0, sizeof values);
    OK(bti_driver_cuda.download(b, values, address, sizeof values));
    check_floats(values, 500, 1 + 399 + 3);
    expect_text(fake.log(), "compile add.cu --gpu-architecture=sm_90");
    expect_text(fake.log(), "launch fake_add 2 64 128:");
    bti_driver_cuda.free(b, address, sizeof values);
    bti_cuda_held_release(b, module);
    close_all(b, NULL);
}

static void events_are_in_order(void **state) {
    (void)state;
    uint64_t address;
    bti_event first, event;
    bool done;
    machine("{" TWO_CARDS "}", NULL);
    bti_cuda_device *b = open_one(B);
    OK(bti_driver_cuda.alloc(b, 4000, &address));
    OK(bti_driver_cuda.record(b, &first));
    OK(bti_driver_cuda.fill(b, address, 1, 4000));
    OK(bti_driver_cuda.record(b, &event));
    OK(bti_driver_cuda.wait(b, first));
    assert_int_equal(count_of("fill"), 0);
    OK(bti_driver_cuda.query(b, event, &done));
    assert_false(done);
    OK(bti_driver_cuda.wait(b, event));
    assert_int_equal(count_of("fill"), 1);
    OK(bti_driver_cuda.query(b, event, &done));
    assert_true(done);
    for (int i = 0; i < 2 * BTI_CUDA_EVENTS; i++) OK(bti_driver_cuda.record(b, &event));
    OK(bti_driver_cuda.wait(b, first)); /* overwritten: a later one is waited for */
    bti_driver_cuda.free(b, address, 4000);
    close_all(b, NULL);
}

/* A copy from all that is launched on `from` so far, which nobody has waited for. */
static bti_event send(bti_cuda_device *to, uint64_t target, const bti_event *idle, bti_cuda_device *from,
                      uint64_t source, size_t bytes) {
    bti_event made;
    bti_work_end end;
    OK(bti_driver_cuda.record(from, &made));
    OK(bti_driver_cuda.send(to, target, idle, from, source, &made, bytes, &end));
    return end.event;
}

static void copies_between_peers_run_beside_launches(void **state) {
    (void)state;
    float values[64];
    uint64_t on_a, on_b, other;
    void *module_a, *module_b;
    bti_gpu_function add_a, add_b;
    bti_event idle;
    bool done;
    machine("{" TWO_CARDS "}", NULL);
    bti_cuda_device *b = open_one(B), *a = open_one(A);
    OK(build(a, add_text, &module_a));
    OK(build(b, add_text, &module_b));
    OK(bti_cuda_find_function(a, module_a, "fake_add", &add_a));
    OK(bti_cuda_find_function(b, module_b, "fake_add", &add_b));
    OK(bti_driver_cuda.alloc(a, sizeof values, &on_a));
    OK(bti_driver_cuda.alloc(b, sizeof values, &on_b));
    OK(bti_driver_cuda.alloc(b, sizeof values, &other));
    fill_floats(values, 64, 1);
    OK(bti_driver_cuda.upload(a, on_a, values, sizeof values));
    OK(launch_add(a, &add_a, on_a, 64, 10, true));
    OK(bti_driver_cuda.fill(b, on_b, 0, sizeof values));
    OK(bti_driver_cuda.copy(b, other, on_b, sizeof values)); /* reads what was there before */
    OK(bti_driver_cuda.record(b, &idle));
    bti_event end = send(b, on_b, &idle, a, on_a, sizeof values);
    OK(bti_driver_cuda.follow(b, end));
    OK(launch_add(b, &add_b, on_b, 64, 100, true)); /* after it has arrived */
    assert_int_equal(count_of("copy peer") + count_of("copy within") + count_of("launch "), 0);
    OK(bti_driver_cuda.query(b, end, &done));
    assert_false(done);
    OK(bti_driver_cuda.wait(b, end));
    assert_int_equal(count_of("copy peer"), 1);
    OK(launch_add(a, &add_a, on_a, 64, 1000, true)); /* after it has left */
    finish(a);
    finish(b);
    OK(bti_driver_cuda.download(b, values, on_b, sizeof values));
    check_floats(values, 64, 111);
    OK(bti_driver_cuda.download(b, values, other, sizeof values));
    assert_true(values[5] == 0);
    OK(bti_driver_cuda.download(a, values, on_a, sizeof values));
    check_floats(values, 64, 1011);
    bti_driver_cuda.free(a, on_a, sizeof values);
    bti_driver_cuda.free(b, on_b, sizeof values);
    bti_driver_cuda.free(b, other, sizeof values);
    bti_cuda_held_release(a, module_a);
    bti_cuda_held_release(b, module_b);
    close_all(a, b);
}

/* Uploads return before they are complete: that of what is copied, and one to where it is copied. */
static void copies_between_peers_come_after_uploads(void **state) {
    (void)state;
    float values[64];
    uint64_t on_a, on_b;
    machine("{" TWO_CARDS "}", NULL);
    bti_cuda_device *b = open_one(B), *a = open_one(A);
    OK(bti_driver_cuda.alloc(a, sizeof values, &on_a));
    OK(bti_driver_cuda.alloc(b, sizeof values, &on_b));
    fill_floats(values, 64, 3);
    OK(bti_driver_cuda.upload(a, on_a, values, sizeof values));
    fill_floats(values, 64, 7);
    OK(bti_driver_cuda.upload(b, on_b, values, sizeof values));
    OK(bti_driver_cuda.wait(b, send(b, on_b, NULL, a, on_a, sizeof values)));
    OK(bti_driver_cuda.sync(b));
    OK(bti_driver_cuda.download(b, values, on_b, sizeof values));
    check_floats(values, 64, 3);
    send(b, on_b, NULL, a, on_a, sizeof values); /* closing waits for it */
    close_all(b, a);
}

/* A device that was closed has a new context when it is opened again. */
static void access_to_a_peer_lasts_as_long_as_it_is_open(void **state) {
    (void)state;
    uint64_t on_a, on_b;
    machine("{" TWO_CARDS "}", NULL);
    bti_cuda_device *b = open_one(B);
    OK(bti_driver_cuda.alloc(b, 256, &on_b));
    for (int times = 1; times <= 3; times++) {
        bti_cuda_device *a = open_one(A);
        OK(bti_driver_cuda.alloc(a, 256, &on_a));
        OK(bti_driver_cuda.fill(a, on_a, 0, 256));
        finish(a);
        for (int i = 0; i < 2; i++) send(b, on_b, NULL, a, on_a, 256);
        OK(bti_driver_cuda.sync(b));
        assert_int_equal(count_of("peer 1 0") + count_of("peer 0 1"), times);
        bti_driver_cuda.free(a, on_a, 256);
        bti_driver_cuda.close(a);
    }
    bti_driver_cuda.free(b, on_b, 256);
    close_all(b, NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(staging_is_used_again_when_it_may_be),
        cmocka_unit_test(small_uploads_do_not_wait),
        cmocka_unit_test(closing_waits_for_uploads),
        cmocka_unit_test(copying_overlaps_the_bus),
        cmocka_unit_test(pinned_memory_may_be_short),
        cmocka_unit_test(launches_come_between_copies),
        cmocka_unit_test(events_are_in_order),
        cmocka_unit_test(copies_between_peers_run_beside_launches),
        cmocka_unit_test(copies_between_peers_come_after_uploads),
        cmocka_unit_test(access_to_a_peer_lasts_as_long_as_it_is_open),
    };
    return cmocka_run_group_tests(tests, NULL, no_machine);
}
