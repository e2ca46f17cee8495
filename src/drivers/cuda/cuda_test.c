/* A device of a fake machine (fakes/machine.h): opened, used and broken in every way. Its streams run as late as possible, so that
 * missing synchronisation gives wrong results. */
#include "support/cuda_device.h"

/* --- opening ------------------------------------------------------------------------------------------------------ */

static void opens_the_card_that_was_listed(void **state) {
    (void)state;
    size_t free_bytes, total;
    machine("{" TWO_CARDS "}", NULL);
    bti_cuda_device *b = open_one(B), *a = open_one(A);
    OK(bti_driver_cuda.memory(b, &free_bytes, &total));
    assert_int_equal(total, 134217728);
    assert_int_equal(free_bytes, 134217728 - 3145728);
    OK(bti_driver_cuda.memory(a, &free_bytes, &total));
    assert_int_equal(total, 67108864);
    assert_string_equal(b->name, "NVIDIA B");
    assert_int_equal(b->architecture, 90);
    assert_int_equal(b->gpu.units, 4);
    assert_int_equal(b->gpu.local_bytes, 232448);
    assert_int_equal(fake.contexts_made(), 2);
    bti_str text = {0};
    bti_driver_cuda.describe(b, &text);
    expect_text(text.text, "NVIDIA B: compute capability 9.0, 4 multiprocessors");
    expect_text(text.text, "NVRTC 13.0 (compiles kernels): ");
    expect_text(text.text, "cuBLASLt 13.0.2");
    expect_text(text.text, "NCCL 2.28.3");
    expect_text(text.text, "cuDNN 9.13.2 (convolutions): ");
    bti_str_free(&text);
    close_all(a, b);
}

static void without_nvrtc_it_says_what_to_install(void **state) {
    (void)state;
    void *device;
    machine("{" TWO_CARDS "}", "nvrtc");
    expect_error(bti_driver_cuda.open(B, &allocator, &device), BT_UNAVAILABLE, "NVRTC is not available");
    expect_error(bti_driver_cuda.open(B, &allocator, &device), BT_UNAVAILABLE, "cuda-nvrtc-13-0");
    assert_int_equal(fake.contexts_made(), 0);
    close_all(NULL, NULL);
}

static void what_cannot_be_opened_says_why(void **state) {
    (void)state;
    void *device;
    machine("{\"cuda\": 11080, " TWO_CARDS "}", NULL);
    expect_error(bti_driver_cuda.open(B, &allocator, &device), BT_UNAVAILABLE, "the driver is too old");
    machine("{\"devices\": [{\"name\": \"NVIDIA old\", \"memory\": 1000, \"capability\": [6, 1]}]}", NULL);
    expect_error(bti_driver_cuda.open(0, &allocator, &device), BT_UNAVAILABLE,
                 "compiles for compute capability 7.5 and up, and this device has 6.1: install NVRTC 12");
    machine("{" TWO_CARDS ", \"fail\": {\"cuDevicePrimaryCtxRetain\": [1, 46]}}", NULL);
    expect_error(bti_driver_cuda.open(B, &allocator, &device), BT_UNAVAILABLE, "has the device for itself");
    machine("{" TWO_CARDS ", \"fail\": {\"cuInit\": [1, 304]}}", NULL);
    expect_error(bti_driver_cuda.open(B, &allocator, &device), BT_UNAVAILABLE, "may this user open /dev/nvidia*?");
    machine("{" TWO_CARDS "}", NULL);
    expect_error(bti_driver_cuda.open(7, &allocator, &device), BT_UNAVAILABLE, "GPU 7 no longer exists");
    close_all(NULL, NULL);
}

/* --- memory ------------------------------------------------------------------------------------------------------- */

static void out_of_memory_says_what_is_free(void **state) {
    (void)state;
    uint64_t address, other;
    machine("{" TWO_CARDS "}", NULL);
    bti_cuda_device *b = open_one(B);
    OK(bti_driver_cuda.alloc(b, 100 << 20, &address));
    expect_error(bti_driver_cuda.alloc(b, 64 << 20, &other), BT_RESOURCE_EXHAUSTED, "25 MiB of 128 MiB are free");
    bti_driver_cuda.free(b, address, 100 << 20);
    OK(bti_driver_cuda.alloc(b, 64 << 20, &other));
    bti_driver_cuda.free(b, other, 64 << 20);
    close_all(b, NULL);
}

/* An upload from a thread beside the queue's runs while launches do. */
static void uploads_overlap_launches(void **state) {
    (void)state;
    uint64_t address, other;
    int value = 5;
    setenv("BERTH_FAKE_SEED", "0", 1); /* only what is waited for runs */
    machine("{" TWO_CARDS "}", NULL);
    bti_cuda_device *b = open_one(B);
    OK(bti_driver_cuda.alloc(b, 4000, &address));
    OK(bti_driver_cuda.alloc(b, 4000, &other));
    OK(bti_driver_cuda.fill(b, address, 1, 4000));
    OK(bti_driver_cuda.upload(b, other, &value, sizeof value));
    value = 0;
    OK(bti_driver_cuda.download(b, &value, other, sizeof value));
    assert_int_equal(value, 5);
    assert_null(strstr(fake.log(), "fill")); /* it has not even begun */
    unsetenv("BERTH_FAKE_SEED");
    OK(bti_driver_cuda.sync(b));
    bti_driver_cuda.free(b, address, 4000);
    bti_driver_cuda.free(b, other, 4000);
    close_all(b, NULL);
}

/* --- programs ----------------------------------------------------------------------------------------------------- */

static void a_text_that_does_not_compile_is_shown(void **state) {
    (void)state;
    void *module;
    machine("{" TWO_CARDS "}", NULL);
    bti_cuda_device *b = open_one(B);
    expect_error(build(b, "int one;\n#error no\nint three;\n", &module), BT_INTERNAL, "NVRTC does not compile add.cu:");
    expect_text(bt_error_text(), "add.cu(2): error");
    expect_text(bt_error_text(), "    2 | #error no\n");
    assert_null(strstr(bt_error_text(), "three"));
    close_all(b, NULL);
}

static void code_that_the_driver_does_not_take(void **state) {
    (void)state;
    void *module;
    machine("{\"cuda\": 12040, " TWO_CARDS "}", NULL); /* there is no NVRTC 12 */
    bti_cuda_device *b = open_one(B);
    expect_error(build(b, add_text, &module), BT_UNAVAILABLE,
                 "the driver (of CUDA 12.4) does not take add as NVRTC 13.0 compiled it");
    expect_text(bt_error_text(), "install a newer driver, or the NVRTC of the driver's CUDA");
    close_all(b, NULL);
}

static void a_younger_device_gets_ptx(void **state) {
    (void)state;
    void *module;
    machine("{\"devices\": [{\"name\": \"NVIDIA C\", \"memory\": 67108864, \"capability\": [9, 9]}]}", NULL);
    bti_cuda_device *c = open_one(0);
    OK(build(c, add_text, &module));
    expect_text(fake.log(), "compile add.cu --gpu-architecture=compute_90");
    bti_cuda_held_release(c, module);
    close_all(c, NULL);
}

/* --- graphs ------------------------------------------------------------------------------------------------------- */

static void graphs_run_again(void **state) {
    (void)state;
    float values[64] = {0};
    uint64_t address;
    void *module, *graph;
    bti_gpu_function add, more;
    bool stale;
    machine("{" TWO_CARDS "}", NULL);
    bti_cuda_device *b = open_one(B);
    OK(build(b, add_text, &module));
    OK(bti_cuda_find_function(b, module, "fake_add", &add));
    OK(bti_cuda_find_function(b, module, "fake_add_more", &more));
    OK(bti_driver_cuda.alloc(b, sizeof values, &address));
    OK(bti_driver_cuda.graph_begin(b));
    expect_error(bti_driver_cuda.graph_begin(b), BT_FAILED_PRECONDITION, "recorded already");
    OK(launch_add(b, &add, address, 64, 2, true));
    OK(bti_driver_cuda.upload(b, address, values, sizeof values)); /* no part of it */
    OK(launch_add(b, &add, address, 64, 3, true));
    OK(bti_driver_cuda.graph_end(b, &graph));
    assert_non_null(graph);
    OK(bti_driver_cuda.sync(b));
    assert_int_equal(count_of("launch"), 0);
    fill_floats(values, 64, 1);
    OK(bti_driver_cuda.upload(b, address, values, sizeof values));
    for (int i = 0; i < 4; i++) {
        OK(bti_driver_cuda.graph_run(b, graph, NULL, &stale));
        assert_false(stale);
    }
    finish(b);
    OK(bti_driver_cuda.download(b, values, address, sizeof values));
    check_floats(values, 64, 21);
    assert_int_equal(count_of("graph 2"), 4);
    b->gpu.scratch_moves++;
    OK(bti_driver_cuda.graph_run(b, graph, NULL, &stale));
    assert_true(stale);
    bti_driver_cuda.graph_free(b, graph);
    OK(bti_driver_cuda.graph_begin(b));
    OK(launch_add(b, &add, address, 64, 2, true));
    b->gpu.scratch_moves++; /* what is recorded already has the old address */
    OK(bti_driver_cuda.graph_end(b, &graph));
    OK(bti_driver_cuda.graph_run(b, graph, NULL, &stale));
    assert_true(stale);
    bti_driver_cuda.graph_free(b, graph);
    OK(bti_driver_cuda.graph_begin(b));
    OK(launch_add(b, &more, address, 64, 2, false)); /* its words would have to stay where they are */
    OK(bti_driver_cuda.graph_end(b, &graph));
    assert_null(graph);
    bti_driver_cuda.free(b, address, sizeof values);
    bti_cuda_held_release(b, module);
    close_all(b, NULL);
}

/* --- marks -------------------------------------------------------------------------------------------------------- */

#define WORK_NS 10000 /* of the fake card, for each launch */

static uint64_t between(bti_cuda_device *device, bti_mark begin, bti_mark end) {
    uint64_t begin_ns = bti_driver_cuda.read_mark(device, begin), end_ns = bti_driver_cuda.read_mark(device, end);
    assert_true(begin_ns && end_ns);
    return end_ns - begin_ns;
}

static void marks_tell_when_work_ran(void **state) {
    (void)state;
    uint64_t address;
    bti_mark marks[6];
    machine("{" TWO_CARDS "}", NULL);
    bti_cuda_device *b = open_one(B);
    OK(bti_driver_cuda.alloc(b, 4000, &address));
    OK(bti_driver_cuda.mark(b, true, &marks[0]));
    OK(bti_driver_cuda.fill(b, address, 0, 4000));
    OK(bti_driver_cuda.mark(b, false, &marks[1]));
    assert_int_equal(bti_driver_cuda.read_mark(b, marks[0]), 0); /* it was not passed yet */
    OK(bti_driver_cuda.mark(b, true, &marks[0]));
    for (int i = 0; i < 3; i++) OK(bti_driver_cuda.fill(b, address, 0, 4000));
    OK(bti_driver_cuda.mark(b, false, &marks[2]));
    finish(b);
    uint64_t first = bti_driver_cuda.read_mark(b, marks[1]);
    assert_int_equal(between(b, marks[0], marks[2]), 3 * WORK_NS);
    for (int i = 0; i < 6; i++) OK(bti_driver_cuda.mark(b, true, &marks[i])); /* events are used again */
    finish(b);
    for (int i = 0; i < 6; i++) assert_int_equal(bti_driver_cuda.read_mark(b, marks[i]) - first, 3 * WORK_NS);
    bti_driver_cuda.free(b, address, 4000);
    close_all(b, NULL);
}

/* Times are counted from a reference that is renewed, so that they stay exact. */
static void marks_are_exact_after_long(void **state) {
    (void)state;
    enum { LAUNCHES = 600 };
    const uint64_t work_ns = 333333337;
    uint64_t address, before = 0;
    setenv("BERTH_FAKE_WORK_NS", "333333337", 1);
    machine("{" TWO_CARDS "}", NULL);
    bti_cuda_device *b = open_one(B);
    OK(bti_driver_cuda.alloc(b, 4000, &address));
    for (int i = 0; i < LAUNCHES; i++) {
        bti_mark mark;
        OK(bti_driver_cuda.fill(b, address, 0, 4));
        OK(bti_driver_cuda.mark(b, true, &mark));
        finish(b);
        uint64_t now = bti_driver_cuda.read_mark(b, mark), took = now - before;
        if (before && (took < work_ns - 200 || took > work_ns + 200)) fail_msg("%llu ns", (unsigned long long)took);
        before = now;
    }
    unsetenv("BERTH_FAKE_WORK_NS");
    bti_driver_cuda.free(b, address, 4000);
    close_all(b, NULL);
}

/* Each run has marks of its own, also while the one before is in flight. */
static void marks_of_recordings(void **state) {
    (void)state;
    enum { RUNS = 3 };
    float values[64] = {0};
    uint64_t address, ns[RUNS];
    bti_mark marks[RUNS][4], unset = {77};
    void *module, *graph;
    bti_gpu_function add;
    bool stale;
    machine("{" TWO_CARDS "}", NULL);
    bti_cuda_device *b = open_one(B);
    OK(build(b, add_text, &module));
    OK(bti_cuda_find_function(b, module, "fake_add", &add));
    OK(bti_driver_cuda.alloc(b, sizeof values, &address));
    OK(bti_driver_cuda.upload(b, address, values, sizeof values));
    OK(bti_driver_cuda.graph_begin(b));
    for (int i = 1; i <= 2; i++) {
        OK(bti_driver_cuda.mark(b, true, &unset));
        for (int k = 0; k < i; k++) OK(launch_add(b, &add, address, 64, 2, true));
        OK(bti_driver_cuda.mark(b, false, &unset));
    }
    OK(bti_driver_cuda.graph_end(b, &graph));
    assert_int_equal(unset.value, 77);
    for (int r = 0; r < RUNS; r++) {
        OK(bti_driver_cuda.graph_run(b, graph, marks[r], &stale));
        assert_false(stale);
    }
    bti_driver_cuda.graph_free(b, graph); /* in flight */
    finish(b);
    for (int r = 0; r < RUNS; r++) {
        ns[r] = bti_driver_cuda.read_mark(b, marks[r][0]);
        assert_int_equal(bti_driver_cuda.read_mark(b, marks[r][1]) - ns[r], WORK_NS);
        assert_int_equal(between(b, marks[r][2], marks[r][3]), 2 * WORK_NS);
        if (r) assert_int_equal(ns[r] - ns[r - 1], 3 * WORK_NS);
    }
    OK(bti_driver_cuda.download(b, values, address, sizeof values));
    assert_true(values[63] == RUNS * 6);
    bti_driver_cuda.free(b, address, sizeof values);
    bti_cuda_held_release(b, module);
    close_all(b, NULL);
}

/* --- what is in flight -------------------------------------------------------------------------------------------- */

/* `later` is in the log, and nothing of it before the last `earlier`. */
static void expect_order(const char *earlier, const char *later) {
    const char *first = strstr(fake.log(), later);
    if (!first) fail_msg("no %s in: %s", later, fake.log());
    if (strstr(first, earlier)) fail_msg("%s before %s in: %s", later, earlier, fake.log());
}

static void modules_outlive_their_launches(void **state) {
    (void)state;
    float values[64] = {0};
    uint64_t address;
    void *module;
    bti_gpu_function add;
    machine("{" TWO_CARDS "}", NULL);
    bti_cuda_device *b = open_one(B);
    OK(build(b, add_text, &module));
    OK(bti_cuda_find_function(b, module, "fake_add", &add));
    OK(bti_driver_cuda.alloc(b, sizeof values, &address));
    OK(bti_driver_cuda.upload(b, address, values, sizeof values));
    for (int i = 0; i < 5; i++) OK(launch_add(b, &add, address, 64, 2, true));
    bti_cuda_held_release(b, module);
    assert_int_equal(count_of("unload"), 0);
    OK(bti_driver_cuda.sync(b));
    assert_int_equal(count_of("launch fake_add"), 5);
    assert_int_equal(count_of("unload"), 1);
    expect_order("launch", "unload");
    bti_driver_cuda.free(b, address, sizeof values);
    close_all(b, NULL);
}

/* The 17th-oldest kernel of a primitive is evicted while a recording contains it. */
static void recordings_keep_their_modules(void **state) {
    (void)state;
    float values[64] = {0};
    uint64_t address;
    void *module, *graph;
    bti_gpu_function add;
    bool stale;
    machine("{" TWO_CARDS "}", NULL);
    bti_cuda_device *b = open_one(B);
    OK(build(b, add_text, &module));
    OK(bti_cuda_find_function(b, module, "fake_add", &add));
    OK(bti_driver_cuda.alloc(b, sizeof values, &address));
    OK(bti_driver_cuda.upload(b, address, values, sizeof values));
    OK(bti_driver_cuda.graph_begin(b));
    for (int i = 0; i < 2; i++) OK(launch_add(b, &add, address, 64, 2, true));
    bti_cuda_held_release(b, module); /* while it is recorded */
    OK(bti_driver_cuda.graph_end(b, &graph));
    OK(bti_driver_cuda.sync(b));
    assert_int_equal(count_of("unload"), 0);
    for (int i = 0; i < 3; i++) {
        OK(bti_driver_cuda.graph_run(b, graph, NULL, &stale));
        assert_false(stale);
    }
    bti_driver_cuda.graph_free(b, graph);
    assert_int_equal(count_of("destroy recording"), 0);
    OK(bti_driver_cuda.sync(b));
    assert_int_equal(count_of("launch fake_add"), 6);
    expect_order("launch", "destroy recording");
    expect_order("destroy recording", "unload");
    OK(bti_driver_cuda.download(b, values, address, sizeof values));
    assert_true(values[63] == 12);
    bti_driver_cuda.free(b, address, sizeof values);
    close_all(b, NULL);
}

/* Without an event, the work is waited for. */
static void what_is_retired_without_an_event_waits(void **state) {
    static const char *const calls[] = {"cuEventCreate", "cuEventRecord"};
    (void)state;
    for (int c = 0; c < 2; c++) {
        char json[1200];
        uint64_t address;
        void *module;
        bti_gpu_function add;
        snprintf(json, sizeof json, "{\"fail\": {\"%s\": [%d, 2]}, " TWO_CARDS "}", calls[c],
                 c ? 1 : 2 * (1 + BTI_CUDA_STAGINGS) + 3 * BTI_CUDA_EVENTS + 1);
        machine(json, NULL);
        bti_cuda_device *b = open_one(B);
        OK(build(b, add_text, &module));
        OK(bti_cuda_find_function(b, module, "fake_add", &add));
        OK(bti_driver_cuda.alloc(b, 256, &address));
        OK(bti_driver_cuda.fill(b, address, 0, 256));
        OK(launch_add(b, &add, address, 64, 2, true));
        bti_cuda_held_release(b, module);
        assert_int_equal(count_of("unload"), 1);
        expect_order("launch", "unload");
        bti_driver_cuda.free(b, address, 256);
        close_all(b, NULL);
    }
}

/* The memory of an upload that fails serves others: what was begun of it comes before them. */
static void an_upload_that_fails_is_ordered(void **state) {
    (void)state;
    const size_t bytes = BTI_CUDA_STAGING * 2;
    char *values = malloc(bytes);
    uint64_t address;
    memset(values, 7, bytes);
    machine("{\"fail\": {\"cuMemcpyHtoDAsync_v2\": [2, 1]}, " TWO_CARDS "}", NULL);
    bti_cuda_device *b = open_one(B);
    OK(bti_driver_cuda.alloc(b, bytes, &address));
    expect_error(bti_driver_cuda.upload(b, address, values, bytes), BT_INTERNAL, "cuMemcpyHtoDAsync");
    OK(bti_driver_cuda.fill(b, address, 1, bytes));
    finish(b);
    OK(bti_driver_cuda.sync(b));
    OK(bti_driver_cuda.download(b, values, address, bytes));
    assert_int_equal(values[0], 1);
    bti_driver_cuda.free(b, address, bytes);
    free(values);
    close_all(b, NULL);
}

/* The memory of work without an event serves others. */
static void a_record_that_fails_waits(void **state) {
    (void)state;
    for (int beside = 0; beside < 2; beside++) {
        uint64_t on_a, on_b;
        bti_event event, made;
        bti_work_end end;
        char json[1200];
        snprintf(json, sizeof json, "{\"fail\": {\"cuEventRecord\": [%d, 1]}, " TWO_CARDS "}", beside ? 2 : 1);
        machine(json, NULL);
        bti_cuda_device *b = open_one(B), *a = open_one(A);
        OK(bti_driver_cuda.alloc(a, 4000, &on_a));
        OK(bti_driver_cuda.alloc(b, 4000, &on_b));
        OK(bti_driver_cuda.fill(a, on_a, 1, 4000));
        if (beside) {
            OK(bti_driver_cuda.record(a, &made));
            expect_error(bti_driver_cuda.send(b, on_b, NULL, a, on_a, &made, 4000, &end), BT_INTERNAL, "cuEventRecord");
            assert_int_equal(count_of("copy peer"), 1);
        } else
            expect_error(bti_driver_cuda.record(a, &event), BT_INTERNAL, "cuEventRecord");
        assert_int_equal(count_of("fill"), 1);
        bti_driver_cuda.free(a, on_a, 4000);
        bti_driver_cuda.free(b, on_b, 4000);
        close_all(a, b);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(opens_the_card_that_was_listed),
        cmocka_unit_test(without_nvrtc_it_says_what_to_install),
        cmocka_unit_test(what_cannot_be_opened_says_why),
        cmocka_unit_test(out_of_memory_says_what_is_free),
        cmocka_unit_test(uploads_overlap_launches),
        cmocka_unit_test(a_text_that_does_not_compile_is_shown),
        cmocka_unit_test(code_that_the_driver_does_not_take),
        cmocka_unit_test(a_younger_device_gets_ptx),
        cmocka_unit_test(graphs_run_again),
        cmocka_unit_test(marks_tell_when_work_ran),
        cmocka_unit_test(marks_are_exact_after_long),
        cmocka_unit_test(marks_of_recordings),
        cmocka_unit_test(modules_outlive_their_launches),
        cmocka_unit_test(recordings_keep_their_modules),
        cmocka_unit_test(what_is_retired_without_an_event_waits),
        cmocka_unit_test(an_upload_that_fails_is_ordered),
        cmocka_unit_test(a_record_that_fails_waits),
    };
    return cmocka_run_group_tests(tests, NULL, no_machine);
}
