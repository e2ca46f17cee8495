/* The flag memory_fill: memory that holds nothing any more is NaN: of arrays, of temporaries, and of arguments that no result took. */
#include "support/settings.h"

#include "array/handle.h"
#include "device/device.h"
#include "exec/exec.h"

enum { N = 64, BYTES = N * N * 4 };
static const char on_cpu[] = "default_device=cpu:0,memory_fill=on";

static const unsigned char *memory_of(bt_array *x) {
    OK(bt_block(x));
    return (const unsigned char *)(uintptr_t)bti_node_of(x)->buffer->address;
}

static void is_nothing(const unsigned char *memory) {
    for (int i = 0; i < BYTES; i++)
        if (memory[i] != 0xff) fail_msg("byte %d is %02x", i, memory[i]);
}

static bt_array *matrix(void) { return bt_add(bt_eye(N, N, BT_F32), bt_num(1)); }

static void released_arrays(void **state) {
    (void)state;
    const unsigned char *memory = NULL;
    begin(on_cpu);
    BT_SCOPE {
        memory = memory_of(matrix());
        assert_int_equal(memory[3], 0x40); /* the first element is 2.0 */
    }
    is_nothing(memory);
}

/* Between two products a matrix is in memory: in a block of that size that is free again. */
static void temporaries(void **state) {
    (void)state;
    bti_block *blocks[4];
    begin(on_cpu);
    BT_SCOPE {
        bt_array *x = matrix(), *input = bt_input(BT_F32, N, N), *y = bt_matmul(bt_matmul(input, input), input);
        bt_function *f = bt_function_new(&input, 1, &y, 1, NULL, 0);
        OK(bt_block(bt_call1(f, &x, 1)));
        int device = bti_node_of(x)->device, found = 0;
        for (int i = 0; i < 4; i++) {
            OK(bti_block_alloc(device, BYTES, UINT64_MAX, false, &blocks[i]));
            found += *(const uint32_t *)(uintptr_t)blocks[i]->address == UINT32_MAX;
        }
        assert_true(found > 0); /* memory that is new is 0 */
        for (int i = 0; i < 4; i++) bti_block_free(blocks[i], 0);
    }
}

static void donated_arguments(void **state) {
    (void)state;
    begin(on_cpu);
    BT_SCOPE {
        bt_array *input = bt_input(BT_F32, N, N), *sum = bt_sum(input, BT_ALL, false);
        bt_function *f = bt_function_new(&input, 1, &sum, 1, NULL, 0);
        OK(bt_function_donate(f, 0));
        for (int i = 0; i < 3; i++) {
            bt_array *x = matrix();
            const unsigned char *memory = memory_of(x);
            OK(bt_block(bt_call1(f, &x, 1)));
            if (i) is_nothing(memory); /* the first call is not ready */
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(released_arrays, end),
        cmocka_unit_test_teardown(temporaries, end),
        cmocka_unit_test_teardown(donated_arguments, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
