/* Settings and counters of device memory; copies between devices. */
#include "device/test_support.h"

static void memory_settings_bind_and_come_first(void **state) {
    (void)state;
    bti_block *a, *b;
    bt_memory_info memory = BT_MEMORY_INFO_INIT;
    begin("devices=sim:gpu*4,memory_fraction=0.5,sim_memory=64M", NULL);
    bt_device *gpu[4];
    assert_int_equal(bt_device_list(BT_GPU, gpu, 4), 4);
    OK(bt_set_memory_limit(gpu[1], 8 * MIB));
    OK(bt_set_memory_growth(gpu[2], false));
    OK(bt_set_memory_preallocate(gpu[3], 4 * MIB));
    expect_error(bt_set_memory_fraction(gpu[0], 1.5), BT_INVALID_ARGUMENT, "above 0 and at most 1");
    OK(bt_memory(gpu[1], &memory));
    assert_int_equal(memory.limit, 8 * MIB);
    int id0 = bti_device_id(gpu[0]), id1 = bti_device_id(gpu[1]);
    OK(bti_block_alloc(id0, 32 * MIB, 0, false, &a));
    expect_error(bti_block_alloc(id0, 1, 0, false, &b), BT_RESOURCE_EXHAUSTED, "limit 32 MiB");
    bti_block_free(a, 0);
    OK(bti_block_alloc(id1, 8 * MIB, 0, false, &a));
    expect_error(bti_block_alloc(id1, 1, 0, false, &b), BT_RESOURCE_EXHAUSTED, "limit 8 MiB");
    OK(bt_memory(gpu[1], &memory));
    assert_int_equal(memory.used, 8 * MIB);
    assert_int_equal(memory.peak, 8 * MIB);
    assert_int_equal(memory.device_free, 56 * MIB);
    bti_block_free(a, 0);
    OK(bt_memory(gpu[1], &memory));
    assert_int_equal(memory.used, 0);
    assert_int_equal(memory.cached, 8 * MIB);
    assert_int_equal(bti_pool_trim(bti_device_id(gpu[1]), UINT64_MAX), 8 * MIB);
    bt_memory_reset_peak(gpu[1]);
    OK(bt_memory(gpu[1], &memory));
    assert_int_equal(memory.cached + memory.peak, 0);
    OK(bti_device_open(bti_device_id(gpu[2])));
    OK(bt_memory(gpu[2], &memory));
    assert_int_equal(memory.cached, 32 * MIB);
    assert_int_equal(memory.largest_free, 32 * MIB);
    OK(bti_device_open(bti_device_id(gpu[3])));
    OK(bt_memory(gpu[3], &memory));
    assert_int_equal(memory.cached, 4 * MIB);
    expect_error(bt_set_memory_limit(gpu[1], MIB), BT_FAILED_PRECONDITION, "must be set before the device is opened");
    expect_error(bt_set_memory_limit(NULL, MIB), BT_FAILED_PRECONDITION, "before the first use of a device");
    expect_error(bt_set_flag("memory_limit", "1M"), BT_FAILED_PRECONDITION, "before the first use of a device");
}

static void growth_off_takes_all(void **state) {
    (void)state;
    bt_memory_info memory = BT_MEMORY_INFO_INIT;
    begin("devices=sim:gpu*1,memory_growth=off,sim_memory=64M", NULL);
    bt_device *gpu = bt_device_get(BT_GPU, 0);
    OK(bti_device_open(bti_device_id(gpu)));
    OK(bt_memory(gpu, &memory));
    assert_int_equal(memory.cached, 64 * MIB);
    assert_int_equal(memory.device_free, 0);
    assert_int_equal(bti_pool_trim(bti_device_id(gpu), UINT64_MAX), 0);
    OK(bti_device_open(bti_cpu_device_id())); /* a CPU without a limit grows */
    OK(bt_memory(bt_device_get(BT_CPU, 0), &memory));
    assert_int_equal(memory.cached, 0);
    begin("devices=sim:gpu*1,memory_preallocate=8M,memory_limit=4M", NULL);
    expect_error(bti_device_open(bti_device_id(bt_device_get(BT_GPU, 0))), BT_INVALID_ARGUMENT, "more than the limit");
}

/* One allocation of a device of OpenCL may have a part of its memory only. */
static void large_takes_come_in_pieces(void **state) {
    (void)state;
    static const struct {
        const char *settings;
        size_t taken, segments;
    } cases[] = {{"memory_growth=off", 64 * MIB, 3},
                 {"memory_growth=off,memory_limit=30M", 30 * MIB, 2},
                 {"memory_preallocate=48M", 48 * MIB, 2},
                 {"memory_preallocate=24M", 24 * MIB, 1}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char flags[120];
        snprintf(flags, sizeof flags, "devices=sim:gpu*1@64M,%s", cases[i].settings);
        begin(flags, NULL);
        bt_device *gpu = bt_device_get(BT_GPU, 0);
        gpu->facts.largest_bytes = 24 * MIB;
        OK(bti_device_open(bti_device_id(gpu)));
        bti_pool_counters count = bti_pool_count(gpu->pool);
        assert_int_equal(count.cached, cases[i].taken);
        assert_int_equal(count.segments, cases[i].segments);
        assert_int_equal(bti_pool_trim(bti_device_id(gpu), UINT64_MAX), 0);
    }
}

/* Others hold some: near all of the rest is taken; when it is less than half, the device is not opened. */
static void growth_off_leaves_what_others_hold(void **state) {
    (void)state;
    begin("devices=sim:gpu*1@64M,memory_growth=off", NULL);
    bt_device *gpu = bt_device_get(BT_GPU, 0);
    gpu->facts.memory_bytes = 80 * MIB; /* 16 of them not to be had */
    OK(bti_device_open(bti_device_id(gpu)));
    bti_pool_counters count = bti_pool_count(gpu->pool);
    assert_true(count.cached > 58 * MIB && count.cached <= 64 * MIB);
    assert_int_equal(count.limit, count.cached);
    begin("devices=sim:gpu*1@64M,memory_growth=off", NULL);
    gpu = bt_device_get(BT_GPU, 0);
    gpu->facts.memory_bytes = 1000 * MIB;
    expect_error(bti_device_open(bti_device_id(gpu)), BT_RESOURCE_EXHAUSTED, "out of memory");
    gpu->facts.memory_bytes = 64 * MIB;
    OK(bti_device_open(bti_device_id(gpu)));
}

/* What a driver borrows is in use, and told apart. */
static void what_is_lent_is_counted(void **state) {
    (void)state;
    bt_memory_info memory = BT_MEMORY_INFO_INIT;
    uint64_t address;
    void *lent;
    begin("devices=sim:gpu*1@64M", NULL);
    bt_device *gpu = bt_device_get(BT_GPU, 0);
    OK(bti_device_open(bti_device_id(gpu)));
    OK(bti_memory_lend(bti_device_id(gpu), 3 * MIB, &address, &lent));
    OK(bt_memory(gpu, &memory));
    assert_int_equal(memory.used, 3 * MIB);
    assert_int_equal(memory.scratch, 3 * MIB);
    bti_memory_take_back(bti_device_id(gpu), lent);
    OK(bt_memory(gpu, &memory));
    assert_int_equal(memory.used + memory.scratch, 0);
}

/* The limits bind, sizes are forecast as they are counted, and nothing is taken ahead. */
static void without_a_pool_blocks_are_allocations(void **state) {
    (void)state;
    bt_memory_info memory = BT_MEMORY_INFO_INIT;
    bti_block *a, *b;
    begin("devices=sim:gpu*1@64M,memory_pool=off,memory_growth=off,memory_preallocate=1M,memory_limit=2M", NULL);
    bt_device *gpu = bt_device_get(BT_GPU, 0);
    int id = bti_device_id(gpu);
    OK(bti_block_alloc(id, 1000, 0, false, &a));
    OK(bt_memory(gpu, &memory));
    assert_int_equal(memory.used, bti_block_bytes(id, 1000));
    assert_int_equal(memory.cached, 0);
    expect_error(bti_block_alloc(id, 2 * MIB, 0, false, &b), BT_RESOURCE_EXHAUSTED, "limit 2 MiB");
    bti_block_free(a, 7);
    assert_int_equal(bti_pool_trim(id, 6), 0);
    OK(bti_block_alloc(id, 2 * MIB, 7, false, &b));
    bti_block_free(b, 0);
}

static void counters(void **state) {
    (void)state;
    begin("devices=sim:gpu*2", NULL);
    bt_memory_info memory = BT_MEMORY_INFO_INIT;
    bt_device *gpu = bt_device_get(BT_GPU, 1);
    int cpu = bti_cpu_device_id(), id0 = bti_device_id(bt_device_get(BT_GPU, 0)), id = bti_device_id(gpu);
    bti_device_count_arrays(id, 2);
    bti_device_count_arrays(id, -1);
    bti_block *a, *b, *c;
    static char host[10 << 20], back[10 << 20];
    for (size_t i = 0; i < sizeof host; i++) host[i] = (char)(i * 7 + i / 1000);
    OK(bti_block_alloc(id0, sizeof host, 0, false, &a));
    OK(bti_block_alloc(id, sizeof host, 0, false, &b));
    OK(bti_block_alloc(cpu, sizeof host, 0, false, &c));
    OK(bti_device_upload(id0, a->address, host, sizeof host));
    OK(bti_device_copy(id, b->address, id0, a->address, sizeof host));
    OK(bti_device_copy(cpu, c->address, id, b->address, sizeof host));
    OK(bti_device_download(cpu, back, c->address, sizeof host));
    assert_memory_equal(host, back, sizeof host);
    OK(bti_device_fill(id, b->address, 0, sizeof host));
    OK(bti_device_copy_over_host(bti_registry_at(id), b->address, bti_registry_at(id0), a->address, sizeof host - 3));
    memset(back, 1, sizeof back);
    OK(bti_device_download(id, back, b->address, sizeof host));
    assert_memory_equal(host, back, sizeof host - 3);
    assert_int_equal(back[sizeof host - 1], 0);
    OK(bt_memory(gpu, &memory));
    assert_int_equal(memory.live_arrays, 1);
    assert_int_equal(memory.copied_in, sizeof host);
    assert_int_equal(memory.copied_out, 2 * sizeof host);
    assert_int_equal(bti_device_copied(id0, id), sizeof host);
    assert_int_equal(bti_device_copied(-1, id0), sizeof host);
    OK(bti_device_copy(id, 0, id0, 0, 0)); /* nothing to do */
    bti_block_free(a, 0);
    bti_block_free(b, 0);
    bti_block_free(c, 0);
}

int main(void) {
#define TEST(name) cmocka_unit_test_teardown(name, end)
    const struct CMUnitTest tests[] = {
        TEST(memory_settings_bind_and_come_first),   TEST(growth_off_takes_all),    TEST(large_takes_come_in_pieces),
        TEST(growth_off_leaves_what_others_hold),    TEST(what_is_lent_is_counted), TEST(counters),
        TEST(without_a_pool_blocks_are_allocations),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
