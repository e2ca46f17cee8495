/* One lock file with several holders, and leases while memory is short. */
#include <berth/task.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "lease/take.h"

static char folder_path[64];

static int set_up(void **state) {
    (void)state;
    snprintf(folder_path, sizeof folder_path, "/tmp/berth-lease-unit-XXXXXX");
    setenv("BERTH_FLAGS", "devices=sim:gpu*2@1G", 1);
    unsetenv("CUDA_VISIBLE_DEVICES");
    return !mkdtemp(folder_path) || setenv("BERTH_LEASES", folder_path, 1);
}

static int tear_down(void **state) {
    (void)state;
    char line[120];
    snprintf(line, sizeof line, "rm -rf --one-file-system '%s'", folder_path);
    return system(line);
}

static void open_several(bti_lease_file *files, int count) {
    int folder;
    char path[256];
    assert_int_equal(bti_lease_folder_open(&folder, path), BT_OK);
    for (int i = 0; i < count; i++) {
        bti_lease_file_open(&files[i], folder, "GPU/../x");
        assert_true(files[i].file >= 0);
        assert_string_equal(files[i].name, "berth-GPU_.._x.lock");
    }
    close(folder);
}

static void shares_fill_what_is_free(void **state) {
    (void)state;
    bti_lease_file f[4];
    open_several(f, 4);
    assert_true(bti_lease_hold(&f[0], 30, 100));
    assert_true(bti_lease_hold(&f[1], 30, 100));
    assert_true(bti_lease_hold(&f[2], 30, 100));
    assert_int_equal(bti_lease_free_bytes(&f[3], 100), 10);
    assert_false(bti_lease_hold(&f[3], 11, 100));
    assert_int_equal(bti_lease_free_bytes(&f[0], 100), 40); /* one's own counts as free */
    assert_false(bti_lease_hold(&f[3], 0, 100));
    bti_lease_let_go(&f[1]);
    assert_true(bti_lease_hold(&f[3], 35, 100)); /* 30 in the midst, 5 at the end */
    assert_int_equal(bti_lease_free_bytes(&f[1], 100), 5);
    bti_lease_let_go(&f[0]);
    assert_int_equal(bti_lease_free_bytes(&f[1], 100), 35);
    bti_lease_file_close(&f[2]);
    bti_lease_let_go(&f[3]);
    assert_true(bti_lease_is_free(&f[1]));
    assert_true(bti_lease_hold(&f[1], 0, 0));
    assert_false(bti_lease_hold(&f[0], 1, 100));
    assert_int_equal(bti_lease_free_bytes(&f[0], 100), 0);
    for (int i = 0; i < 4; i++) bti_lease_file_close(&f[i]);
}

static void tickets_are_in_order(void **state) {
    (void)state;
    bti_lease_file f[4];
    open_several(f, 4);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(bti_lease_next_ticket(&f[i]), i);
        assert_true(bti_lease_draw_ticket(&f[i], i));
        assert_int_equal(bti_lease_is_behind(&f[i]), i > 0);
    }
    assert_false(bti_lease_draw_ticket(&f[3], 1));
    bti_lease_file_close(&f[0]);
    assert_false(bti_lease_is_behind(&f[1]));
    bti_lease_drop_ticket(&f[1]);
    assert_false(bti_lease_is_behind(&f[2]));
    assert_int_equal(bti_lease_next_ticket(&f[3]), 3);
    assert_true(bti_lease_gate_try(&f[3]));
    assert_false(bti_lease_gate_try(&f[2]));
    bti_lease_gate_open(&f[3]);
    assert_true(bti_lease_gate_try(&f[2]));
    for (int i = 1; i < 4; i++) bti_lease_file_close(&f[i]);
}

static void records_stand_while_their_writers_do(void **state) {
    (void)state;
    enum { MANY = 100 };
    bti_lease_file f[MANY];
    bti_lease_record r = {.since = 5, .num_gpus = 1, .waits = true, .command = "a b"};
    int at = 0, count = 0;
    open_several(f, MANY);
    for (int i = 1; i < MANY; i++) r.pid = i, bti_lease_tell(&f[i], &r);
    for (int i = 1; i < MANY; i += 2) bti_lease_file_close(&f[i]);
    for (; bti_lease_next_record(&f[0], &at, &r); count++) {
        assert_true(r.readable && r.waits && r.since == 5 && r.num_gpus == 1);
        assert_int_equal(r.pid, 2 * count + 2);
        assert_string_equal(r.command, "a b");
    }
    assert_int_equal(count, MANY / 2 - 1);
    for (int i = 0; i < MANY; i += 2) bti_lease_file_close(&f[i]);
}

static void no_memory_no_lease(void **state) {
    (void)state;
    int taken = 0, listed = 0;
    for (uint64_t nth = 1; nth < 60; nth++) {
        bti_alloc_fail_at(nth, false);
        bt_lease *lease = bt_lease_take(BT_LEASE(.num_gpus = 2));
        bti_alloc_fail_at(0, false);
        if (!lease) assert_int_not_equal(bt_error_status(), BT_OK);
        taken += lease != NULL;
        bti_alloc_fail_at(nth, false);
        char *text = bt_leases_text(nth % 2);
        bti_alloc_fail_at(0, false);
        listed += text != NULL;
        bt_free(text);
        bt_lease_release(lease);
    }
    assert_in_range(taken, 1, 58);
    assert_in_range(listed, 1, 58);
    bt_lease *lease = bt_lease_take(BT_LEASE(.num_gpus = 2));
    assert_non_null(lease);
    bt_lease_release(lease);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(shares_fill_what_is_free, set_up, tear_down),
        cmocka_unit_test_setup_teardown(tickets_are_in_order, set_up, tear_down),
        cmocka_unit_test_setup_teardown(records_stand_while_their_writers_do, set_up, tear_down),
        cmocka_unit_test_setup_teardown(no_memory_no_lease, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
