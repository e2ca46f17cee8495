// labels: threads
/* Memory of bt_pinned on devices that lock no pages: ordinary memory, and what programs do wrong with it. */
#include "device/test_support.h"

#include <berth.h>
#include <pthread.h>

#include "device/pinned_list.h"

static bt_device *device(const char *name) {
    bt_device *found;
    OK(bt_device_find(name, &found));
    return found;
}

static void it_is_ordinary_memory(void **state) {
    static const char *const names[] = {"cpu", "gpu:0", "gpu:1"};
    (void)state;
    begin("devices=sim:gpu*2", NULL);
    for (int i = 0; i < 3; i++) {
        enum { COUNT = 300000 };
        bt_memory_info info = BT_MEMORY_INFO_INIT;
        float *memory = bt_pinned(device(names[i]), COUNT * sizeof(float)), sum = 0;
        assert_non_null(memory);
        assert_int_equal((uintptr_t)memory % BTI_MEMORY_ALIGN, 0);
        assert_false(bt_is_pinned(memory));
        OK(bt_memory(device(names[i]), &info));
        assert_int_equal(info.pinned, 0);
        for (int k = 0; k < COUNT; k++) memory[k] = (float)(k % 10);
        BT_SCOPE
            BT_ON(names[i]) {
                bt_array *x = bt_from(memory, BT_F32, BT_SHAPE(COUNT));
                OK(bt_read(bt_neg(x), memory, COUNT * sizeof(float)));
            }
        for (int k = 0; k < COUNT; k++) sum += memory[k] + (float)(k % 10);
        assert_true(sum == 0);
        bt_pinned_free(memory);
    }
    assert_int_equal(bti_pinned_alive(), 0);
    OK(bt_shutdown());
}

static void wrong_sizes_are_refused(void **state) {
    static const size_t huge[] = {SIZE_MAX, SIZE_MAX - 63, (size_t)PTRDIFF_MAX + 1, PTRDIFF_MAX, SIZE_MAX / 4};
    (void)state;
    begin("devices=sim:gpu*1", NULL);
    for (int i = 0; i < 2; i++) {
        bt_device *on = device(i ? "gpu:0" : "cpu");
        assert_null(bt_pinned(on, 0));
        expect_error(bt_error_status(), BT_INVALID_ARGUMENT, "at least one byte");
        for (size_t k = 0; k < sizeof huge / sizeof *huge; k++) {
            assert_null(bt_pinned(on, huge[k]));
            assert_int_equal(bt_error_status(), BT_RESOURCE_EXHAUSTED);
        }
    }
    assert_null(bt_pinned(NULL, 10));
    assert_int_equal(bt_error_status(), BT_INVALID_ARGUMENT);
    assert_int_equal(bti_pinned_alive(), 0);
    OK(bt_shutdown());
}

static void expect_refused(void *memory, const char *text) {
    bt_error_clear();
    bt_pinned_free(memory);
    expect_error(bt_error_status(), BT_INVALID_ARGUMENT, text);
}

static void wrong_pointers_are_refused(void **state) {
    (void)state;
    begin(NULL, NULL);
    char *memory = bt_pinned(device("cpu"), 1000), local;
    assert_non_null(memory);
    bt_error_clear();
    bt_pinned_free(NULL);
    assert_int_equal(bt_error_status(), BT_OK);
    expect_refused(memory + 1, "is 1 bytes after the beginning of memory of bt_pinned");
    expect_refused(memory + 999, "is 999 bytes after");
    expect_refused(memory + 1000, "is no memory of bt_pinned");
    expect_refused(memory - 1, "is no memory of bt_pinned");
    expect_refused(&local, "is no memory of bt_pinned");
    expect_error(bt_shutdown(), BT_FAILED_PRECONDITION, "1 blocks of bt_pinned are still held");
    memset(memory, 1, 1000);
    bt_pinned_free(memory);
    expect_refused(memory, "or was freed before");
    assert_false(bt_is_pinned(memory));
    OK(bt_shutdown());
}

static void each_allocation_may_fail(void **state) {
    (void)state;
    begin(NULL, NULL);
    bt_pinned_free(bt_pinned(device("cpu"), 1)); /* opened */
    uint64_t n = 1;
    for (bool failed = true; failed; n++) {
        bti_alloc_fail_at(n, false);
        void *memory = bt_pinned(device("cpu"), 1000);
        bti_alloc_fail_at(0, false);
        failed = !memory;
        if (failed) assert_int_equal(bt_error_status(), BT_RESOURCE_EXHAUSTED);
        assert_int_equal(bti_pinned_alive(), failed ? 0 : 1);
        bt_pinned_free(memory);
    }
    assert_true(n > 3);
    OK(bt_shutdown());
}

/* Blocks of several threads, freed in another order than they were made. */
static void *make_and_free(void *argument) {
    enum { BLOCKS = 40 };
    unsigned char *blocks[BLOCKS], tag = *(unsigned char *)argument;
    for (int i = 0; i < BLOCKS; i++) {
        blocks[i] = bt_pinned(bt_device_get(BT_CPU, 0), 1 + (size_t)i * 37);
        if (blocks[i]) memset(blocks[i], tag + i, 1 + (size_t)i * 37);
    }
    for (int k = 0; k < BLOCKS; k++) {
        int i = k * 7 % BLOCKS;
        if (!blocks[i] || blocks[i][i * 37] != (unsigned char)(tag + i)) return argument;
        bt_pinned_free(blocks[i]);
    }
    return NULL;
}

static void threads_share_the_list(void **state) {
    (void)state;
    pthread_t threads[4];
    unsigned char tags[4] = {0, 60, 120, 180};
    begin(NULL, NULL);
    for (int t = 0; t < 4; t++) assert_int_equal(pthread_create(&threads[t], NULL, make_and_free, &tags[t]), 0);
    for (int t = 0; t < 4; t++) {
        void *failed;
        assert_int_equal(pthread_join(threads[t], &failed), 0);
        assert_null(failed);
    }
    assert_int_equal(bti_pinned_alive(), 0);
    OK(bt_shutdown());
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_is_ordinary_memory),      cmocka_unit_test(wrong_sizes_are_refused),
        cmocka_unit_test(wrong_pointers_are_refused), cmocka_unit_test(each_allocation_may_fail),
        cmocka_unit_test(threads_share_the_list),
    };
    return cmocka_run_group_tests(tests, NULL, end);
}
