/* Memory of bt_pinned with the cards of a fake machine, whose streams run as late as possible. */
#include "support/cuda_machine.h"

#include <berth.h>

#include "device/pinned_list.h"

#define TWO "\"order\": [0, 1], \"devices\": [" CARD_A "," CARD_B "]"
#define COUNT ((size_t)(BTI_CUDA_STAGING / 4) * 2 + 1000) /* floats */

static void begin(const char *json) {
    OK(bt_shutdown());
    machine(json, NULL);
}

static int end(void **state) {
    OK(bt_shutdown());
    return no_machine(state);
}

static bt_device *gpu(int index) { return bt_device_get(BT_GPU, index); }

static size_t pinned_of(int index) {
    bt_memory_info info = BT_MEMORY_INFO_INIT;
    OK(bt_memory(gpu(index), &info));
    return info.pinned;
}

static int copies_of(const char *what, size_t bytes) {
    char line[64];
    int count = 0;
    snprintf(line, sizeof line, "copy %s %zu\n", what, bytes);
    for (const char *at = fake.log(); (at = strstr(at, line)); at++) count++;
    return count;
}

/* Up from `from` and down to `to`; each is changed as soon as it may be. */
static void round_trip(int index, float *from, float *to, size_t count, float first) {
    char name[16];
    snprintf(name, sizeof name, "gpu:%d", index);
    for (size_t i = 0; i < count; i++) from[i] = first + (float)(i % 1000);
    BT_SCOPE
        BT_ON(name) {
            bt_array *x = bt_from(from, BT_F32, BT_SHAPE((int64_t)count));
            memset(from, 0xff, count * sizeof *from);
            OK(bt_read(x, to, count * sizeof *to));
        }
    for (size_t i = 0; i < count; i++)
        if (to[i] != first + (float)(i % 1000)) fail_msg("value %zu is %g", i, (double)to[i]);
}

static void copies_are_direct(void **state) {
    (void)state;
    begin("{" TWO "}");
    float *memory = bt_pinned(gpu(0), COUNT * sizeof *memory), *ordinary = malloc(COUNT * sizeof *memory);
    assert_non_null(memory);
    assert_int_equal((uintptr_t)memory % BTI_MEMORY_ALIGN, 0);
    assert_true(bt_is_pinned(memory) && bt_is_pinned((char *)(memory + COUNT) - 1));
    assert_false(bt_is_pinned(memory + COUNT) || bt_is_pinned(ordinary) || bt_is_pinned(NULL));
    assert_int_equal(pinned_of(0), COUNT * sizeof *memory);
    assert_int_equal(pinned_of(1), 0);
    round_trip(0, memory, memory, COUNT, 1);
    assert_int_equal(copies_of("up", COUNT * 4), 1);
    assert_int_equal(copies_of("down", COUNT * 4), 1);
    round_trip(1, memory + 9, memory + 9, COUNT - 9, 5); /* of another card, at an offset */
    assert_int_equal(copies_of("up", (COUNT - 9) * 4), 1);
    assert_int_equal(copies_of("down", (COUNT - 9) * 4), 1);
    round_trip(0, memory, ordinary, COUNT, 7);
    assert_int_equal(copies_of("up", COUNT * 4), 2);
    assert_int_equal(copies_of("down", COUNT * 4), 1);
    round_trip(0, ordinary, memory, COUNT, 9);
    assert_int_equal(copies_of("up", COUNT * 4), 2);
    assert_int_equal(copies_of("down", COUNT * 4), 2);
    round_trip(0, memory, memory, 100, 11); /* small */
    expect_error(bt_shutdown(), BT_FAILED_PRECONDITION, "1 blocks of bt_pinned are still held");
    bt_pinned_free(memory);
    assert_int_equal(pinned_of(0), 0);
    free(ordinary);
}

/* Bytes that go past the end of the block are copied through pinned buffers. */
static void what_is_partly_pinned_is_staged(void **state) {
    (void)state;
    begin("{" TWO "}");
    char *memory = bt_pinned(gpu(0), COUNT * sizeof(float));
    assert_non_null(memory);
    const bti_driver *driver = &bti_driver_cuda;
    bti_pinned *all = bti_pinned_use(driver, memory, COUNT * sizeof(float));
    assert_non_null(all);
    bti_pinned_leave(all);
    assert_null(bti_pinned_use(driver, memory, COUNT * sizeof(float) + 1));
    assert_null(bti_pinned_use(driver, memory + 8, COUNT * sizeof(float) - 7));
    assert_null(bti_pinned_use(driver, memory - 1, 2));
    assert_null(bti_pinned_use(driver, memory + COUNT * sizeof(float), 1));
    assert_null(bti_pinned_use(driver, memory + 8, SIZE_MAX));
    bt_pinned_free(memory);
    assert_null(bti_pinned_use(driver, memory, 1));
}

static void it_lasts_as_long_as_a_copy_uses_it(void **state) {
    (void)state;
    begin("{" TWO "}");
    char *memory = bt_pinned(gpu(0), 1000);
    assert_non_null(memory);
    int before = fake.alive();
    bti_pinned *first = bti_pinned_use(&bti_driver_cuda, memory, 1000);
    bti_pinned *second = bti_pinned_use(&bti_driver_cuda, memory + 500, 10);
    assert_true(first && first == second);
    bt_pinned_free(memory);
    assert_false(bt_is_pinned(memory));
    memset(memory, 1, 1000);
    bti_pinned_leave(first);
    assert_int_equal(fake.alive(), before);
    assert_int_equal(pinned_of(0), 1000);
    expect_error(bt_shutdown(), BT_FAILED_PRECONDITION, "1 blocks of bt_pinned");
    bti_pinned_leave(second);
    assert_int_equal(fake.alive(), before - 1);
    assert_int_equal(pinned_of(0), 0);
}

static void failures_leave_nothing(void **state) {
    (void)state;
    begin("{\"fail\": {\"cuMemHostAlloc\": [1, 2]}, " TWO "}");
    assert_null(bt_pinned(gpu(0), 3 << 20));
    expect_error(bt_error_status(), BT_RESOURCE_EXHAUSTED,
                 "NVIDIA B: cuMemHostAlloc cannot page-lock 3 MiB of the host's memory");
    int alive = fake.alive();
    uint64_t n = 1;
    for (bool failed = true; failed; n++) {
        bti_alloc_fail_at(n, false);
        void *memory = bt_pinned(gpu(0), 1000);
        bti_alloc_fail_at(0, false);
        failed = !memory;
        bt_pinned_free(memory);
        assert_int_equal(fake.alive(), alive);
        assert_int_equal(pinned_of(0), 0);
    }
    assert_true(n > 2);
    assert_int_equal(bti_pinned_alive(), 0);
}

/* What was begun of a copy that fails does not touch the memory later. */
static void a_copy_that_fails_is_over(void **state) {
    static const char *const calls[] = {"cuMemcpyHtoDAsync_v2", "cuMemcpyDtoHAsync_v2", "cuEventRecord",
                                        "cuEventSynchronize", "cuStreamWaitEvent"};
    (void)state;
    for (size_t c = 0; c < sizeof calls / sizeof *calls; c++) {
        for (int nth = 1; nth <= 4; nth++) {
            char json[1200];
            snprintf(json, sizeof json, "{\"fail\": {\"%s\": [%d, 1]}, " TWO "}", calls[c], nth);
            begin(json);
            float *memory = bt_pinned(gpu(0), COUNT * sizeof *memory);
            assert_non_null(memory);
            BT_SCOPE
                BT_ON("gpu:0") {
                    memset(memory, 0, COUNT * sizeof *memory);
                    bt_array *x = bt_from(memory, BT_F32, BT_SHAPE((int64_t)COUNT));
                    if (bt_peek_status(x) == BT_OK) (void)!bt_read(x, memory, COUNT * sizeof *memory);
                }
            memset(memory, 0xff, COUNT * sizeof *memory);
            bt_pinned_free(memory);
            assert_int_equal(pinned_of(0), 0);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(copies_are_direct),
        cmocka_unit_test(what_is_partly_pinned_is_staged),
        cmocka_unit_test(it_lasts_as_long_as_a_copy_uses_it),
        cmocka_unit_test(failures_leave_nothing),
        cmocka_unit_test(a_copy_that_fails_is_over),
    };
    return cmocka_run_group_tests(tests, NULL, end);
}
