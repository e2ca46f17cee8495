// labels: valgrind
/* DLPack without another library: both directions, who frees what and when, what is refused. tests/exchange has the real ones. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <berth.h>
#include <berth/dlpack.h>

#include "base/alloc.h"
#include "base/error.h"

#define OK(call)                                                         \
    do {                                                                 \
        if ((call) != BT_OK) fail_msg("%s: %s", #call, bt_error_text()); \
    } while (0)
#define EXPECT_ERROR(call, expected, text)                                            \
    do {                                                                              \
        bt_status got_ = (call);                                                      \
        if (got_ != (expected) || !strstr(bt_error_text(), text))                     \
            fail_msg("%s: %s, \"%s\"", #call, bt_status_name(got_), bt_error_text()); \
    } while (0)

static int ended;
static void end_plain(DLManagedTensor *tensor) { ended += tensor->manager_ctx == tensor; }
static void end_versioned(DLManagedTensorVersioned *tensor) { ended += tensor->manager_ctx == tensor; }

static _Alignas(64) float elements[24];
static int64_t shape[9] = {2, 3, 1, 1, 1, 1, 1, 1, 1};

static DLManagedTensorVersioned of_host(void) {
    for (int i = 0; i < 24; i++) elements[i] = (float)i;
    ended = 0;
    return (DLManagedTensorVersioned){
        .version = {1, 3},
        .deleter = end_versioned,
        .dl_tensor = {elements, {kDLCPU, 0}, 2, {kDLFloat, 32, 1}, shape, NULL, 0},
    };
}

static void expect_floats(bt_array *x, int rows, int columns, const float *expected) {
    float got[24];
    OK(bt_block(x));
    assert_int_equal(bt_dtype_of(x), BT_F32);
    assert_int_equal(bt_rank(x), 2);
    assert_int_equal(bt_size(x, 0), rows);
    assert_int_equal(bt_size(x, 1), columns);
    OK(bt_read(x, got, (size_t)(rows * columns) * sizeof *got));
    assert_memory_equal(got, expected, (size_t)(rows * columns) * sizeof *got);
}

/* --- taking ---------------------------------------------------------------------------------------------------------- */

static void aligned_elements_are_lent(void **state) {
    (void)state;
    DLManagedTensorVersioned tensor = of_host();
    tensor.manager_ctx = &tensor;
    BT_SCOPE {
        bt_array *x;
        BT_ON("cpu") x = bt_from_dlpack(&tensor);
        elements[0] = 9;
        expect_floats(x, 2, 3, (float[]){9, 1, 2, 3, 4, 5});
        assert_int_equal(ended, 0);
    }
    bt_synchronize();
    assert_int_equal(ended, 1);
}

static void tensors_without_a_version_are_taken(void **state) {
    (void)state;
    DLManagedTensorVersioned versioned = of_host();
    DLManagedTensor tensor = {.dl_tensor = versioned.dl_tensor, .deleter = end_plain};
    tensor.manager_ctx = &tensor;
    BT_SCOPE
        expect_floats(bt_from_dlpack_unversioned(&tensor), 2, 3, elements);
    bt_synchronize();
    assert_int_equal(ended, 1);
    tensor.deleter = NULL;
    BT_SCOPE
        expect_floats(bt_from_dlpack_unversioned(&tensor), 2, 3, elements);
}

static void strides_and_offsets_are_honoured(void **state) {
    (void)state;
    static const struct {
        int64_t strides[2];
        uint64_t offset;
        float expected[6];
    } cases[] = {
        {{3, 1}, 4, {1, 2, 3, 4, 5, 6}},  {{1, 2}, 0, {0, 2, 4, 1, 3, 5}},        {{6, 2}, 0, {0, 2, 4, 6, 8, 10}},
        {{0, 1}, 0, {0, 1, 2, 0, 1, 2}},  {{0, 0}, 40, {10, 10, 10, 10, 10, 10}}, {{-3, -1}, 20, {5, 4, 3, 2, 1, 0}},
        {{3, -1}, 8, {2, 1, 0, 5, 4, 3}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        DLManagedTensorVersioned tensor = of_host();
        int64_t own[2] = {cases[i].strides[0], cases[i].strides[1]};
        tensor.manager_ctx = &tensor;
        tensor.dl_tensor.strides = own;
        tensor.dl_tensor.byte_offset = cases[i].offset;
        BT_SCOPE {
            expect_floats(bt_from_dlpack(&tensor), 2, 3, cases[i].expected);
            assert_int_equal(ended, 1); /* they were copied */
        }
    }
}

static void empty_ones_and_single_elements_are_taken(void **state) {
    (void)state;
    DLManagedTensorVersioned tensor = of_host();
    int64_t none[2] = {0, 3};
    tensor.manager_ctx = &tensor;
    tensor.dl_tensor.shape = none;
    tensor.dl_tensor.data = NULL;
    BT_SCOPE
        expect_floats(bt_from_dlpack(&tensor), 0, 3, elements);
    tensor = of_host();
    tensor.manager_ctx = &tensor;
    tensor.dl_tensor.ndim = 0;
    tensor.dl_tensor.shape = NULL;
    tensor.dl_tensor.byte_offset = 8;
    BT_SCOPE
        assert_true(bt_item(bt_from_dlpack(&tensor)) == 2);
    bt_synchronize();
    assert_int_equal(ended, 1);
}

static void copies_go_to_devices_with_memory_of_their_own(void **state) {
    (void)state;
    DLManagedTensorVersioned tensor = of_host();
    tensor.manager_ctx = &tensor;
    BT_SCOPE {
        bt_array *x;
        BT_ON("gpu:0") x = bt_from_dlpack(&tensor);
        assert_int_equal(ended, 1);
        assert_int_equal(bt_device_kind(bt_device_of(x)), BT_GPU);
        expect_floats(x, 2, 3, elements);
    }
}

static void others_are_refused_and_let_go(void **state) {
    (void)state;
    static int64_t huge[2] = {INT64_MAX, 4}, negative[2] = {2, -3};
    static const struct {
        DLTensor tensor;
        bt_status status;
        const char *text;
    } cases[] = {
        {{elements, {kDLCUDA, 1}, 2, {kDLFloat, 32, 1}, shape, NULL, 0}, BT_UNIMPLEMENTED, "memory of CUDA device 1"},
        {{elements, {kDLROCM, 0}, 2, {kDLFloat, 32, 1}, shape, NULL, 0}, BT_UNIMPLEMENTED, "memory of ROCm device 0"},
        {{elements, {(DLDeviceType)99, 0}, 2, {kDLFloat, 32, 1}, shape, NULL, 0}, BT_UNIMPLEMENTED, "DLPack's type 99"},
        {{elements, {kDLCPU, 0}, 2, {kDLFloat, 32, 4}, shape, NULL, 0},
         BT_UNIMPLEMENTED,
         "a float of 32 bits in 4 lanes"},
        {{elements, {kDLCPU, 0}, 2, {kDLComplex, 32, 1}, shape, NULL, 0},
         BT_UNIMPLEMENTED,
         "a complex number of 32 bits"},
        {{elements, {kDLCPU, 0}, 2, {kDLInt, 4, 1}, shape, NULL, 0}, BT_UNIMPLEMENTED, "an integer of 4 bits"},
        {{elements, {kDLCPU, 0}, 2, {9, 8, 1}, shape, NULL, 0}, BT_UNIMPLEMENTED, "DLPack's type 9 (of 8 bits)"},
        {{elements, {kDLCPU, 0}, 9, {kDLFloat, 32, 1}, shape, NULL, 0}, BT_UNIMPLEMENTED, "9 dimensions"},
        {{elements, {kDLCPU, 0}, -1, {kDLFloat, 32, 1}, shape, NULL, 0}, BT_INVALID_ARGUMENT, "-1 dimensions"},
        {{elements, {kDLCPU, 0}, 2, {kDLFloat, 32, 1}, NULL, NULL, 0}, BT_INVALID_ARGUMENT, "shape NULL"},
        {{elements, {kDLCPU, 0}, 2, {kDLFloat, 32, 1}, negative, NULL, 0}, BT_INVALID_ARGUMENT, "size -3 of axis 1"},
        {{elements, {kDLCPU, 0}, 2, {kDLFloat, 32, 1}, huge, NULL, 0}, BT_INVALID_ARGUMENT, "the shape overflows"},
        {{NULL, {kDLCPU, 0}, 2, {kDLFloat, 32, 1}, shape, NULL, 0}, BT_INVALID_ARGUMENT, "the data are NULL"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        DLManagedTensorVersioned tensor = of_host();
        tensor.manager_ctx = &tensor;
        tensor.dl_tensor = cases[i].tensor;
        BT_SCOPE
            EXPECT_ERROR(bt_block(bt_from_dlpack(&tensor)), cases[i].status, cases[i].text);
        assert_int_equal(ended, 1);
    }
    DLManagedTensorVersioned tensor = of_host();
    tensor.manager_ctx = &tensor;
    tensor.version.major = 2;
    BT_SCOPE {
        EXPECT_ERROR(bt_block(bt_from_dlpack(&tensor)), BT_UNIMPLEMENTED, "a tensor of DLPack 2.3; berth knows 1.x");
        assert_int_equal(ended, 1);
        EXPECT_ERROR(bt_block(bt_from_dlpack(NULL)), BT_INVALID_ARGUMENT, "the tensor is NULL");
    }
}

/* --- giving ---------------------------------------------------------------------------------------------------------- */

static void elements_of_the_host_are_shared(void **state) {
    (void)state;
    uint64_t live = bt_live_arrays();
    DLManagedTensorVersioned *one, *two;
    BT_SCOPE {
        bt_array *x;
        BT_ON("cpu") x = bt_add(BT_ARRAY(float, (2, 2), 1, 2, 3, 4), BT_ARRAY(float, (2, 2), 1, 1, 1, 1));
        OK(bt_to_dlpack(x, false, &one));
        OK(bt_to_dlpack(x, false, &two));
        assert_ptr_equal(one->dl_tensor.data, two->dl_tensor.data);
        assert_ptr_equal(one->dl_tensor.data, bt_map(x));
        OK(bt_write(x, (float[]){7, 7, 7, 7}, 16)); /* a new version: theirs stays */
    }
    assert_int_equal(one->version.major, 1);
    assert_int_equal(one->flags, DLPACK_FLAG_BITMASK_READ_ONLY);
    assert_int_equal(one->dl_tensor.device.device_type, kDLCPU);
    assert_int_equal(one->dl_tensor.strides[0], 2);
    assert_memory_equal(two->dl_tensor.data, ((float[]){2, 3, 4, 5}), 16);
    one->deleter(one);
    assert_memory_equal(two->dl_tensor.data, ((float[]){2, 3, 4, 5}), 16);
    EXPECT_ERROR(bt_shutdown(), BT_FAILED_PRECONDITION, "array");
    two->deleter(two);
    assert_int_equal(bt_live_arrays(), live);
}

static void others_are_copied(void **state) {
    (void)state;
    BT_SCOPE {
        DLManagedTensorVersioned *tensor;
        DLManagedTensor *plain;
        bt_array *x, *there;
        BT_ON("cpu") x = BT_ARRAY(int16_t, (2, 3), 0, 1, 2, 3, 4, 5);
        BT_ON("gpu:0") there = bt_identity(BT_ARRAY(int16_t, (3, 2), 0, 3, 1, 4, 2, 5));
        bt_array *arrays[] = {bt_transpose(x), there, bt_zeros(BT_I16, 0, 2)};
        for (int i = 0; i < 3; i++) {
            OK(bt_to_dlpack(arrays[i], false, &tensor));
            assert_int_equal(tensor->flags, DLPACK_FLAG_BITMASK_IS_COPIED);
            assert_int_equal(tensor->dl_tensor.dtype.code, kDLInt);
            assert_int_equal((uintptr_t)tensor->dl_tensor.data % 64, 0);
            if (i < 2) assert_memory_equal(tensor->dl_tensor.data, ((int16_t[]){0, 3, 1, 4, 2, 5}), 12);
            tensor->deleter(tensor);
        }
        OK(bt_to_dlpack(x, true, &tensor));
        assert_ptr_not_equal(tensor->dl_tensor.data, bt_map(x));
        tensor->deleter(tensor);
        OK(bt_to_dlpack_unversioned(x, true, &plain));
        assert_int_equal(plain->dl_tensor.ndim, 2);
        ((int16_t *)plain->dl_tensor.data)[0] = 9;
        plain->deleter(plain);
        OK(bt_to_dlpack_unversioned(x, false, &plain));
        assert_ptr_equal(plain->dl_tensor.data, bt_map(x));
        plain->deleter(plain);
    }
}

static void what_is_given_is_taken_without_a_copy(void **state) {
    (void)state;
    static const bt_shape shapes[] = {{0, {0}}, {1, {5}}, {3, {2, 0, 3}}, {8, {1, 2, 1, 2, 1, 2, 1, 1}}};
    for (int dtype = 0; dtype < BT_DTYPE_COUNT; dtype++)
        for (int s = 0; s < 4; s++)
            BT_SCOPE {
                unsigned char bytes[128], back[128];
                for (size_t i = 0; i < sizeof bytes; i++) bytes[i] = (unsigned char)(dtype == BT_BOOL ? i % 2 : i);
                DLManagedTensorVersioned *tensor;
                bt_array *x, *y;
                BT_ON("cpu") x = bt_from(bytes, (bt_dtype)dtype, shapes[s]);
                OK(bt_to_dlpack(x, false, &tensor));
                BT_ON("cpu") y = bt_from_dlpack(tensor);
                OK(bt_block(y));
                assert_int_equal(bt_dtype_of(y), dtype);
                assert_int_equal(bt_rank(y), shapes[s].rank);
                size_t size = (size_t)bt_count(y) * bt_dtype_size((bt_dtype)dtype);
                assert_true(!size || bt_map(x) == bt_map(y));
                OK(bt_read(y, back, size));
                assert_memory_equal(back, bytes, size);
            }
}

static void shared_elements_are_not_written_over(void **state) {
    (void)state;
    BT_SCOPE {
        DLManagedTensorVersioned *tensor;
        bt_array *x;
        BT_ON("cpu") x = bt_add(bt_ones(BT_F32, 64), 1);
        OK(bt_to_dlpack(x, false, &tensor));
        for (int i = 0; i < 3; i++) bt_assign(&x, bt_add(x, 1));
        OK(bt_block(x));
        assert_true(((float *)tensor->dl_tensor.data)[63] == 2);
        tensor->deleter(tensor);
        bt_release(x); /* bt_assign retains it */
    }
}

static void bad_arguments_are_refused(void **state) {
    (void)state;
    BT_SCOPE {
        DLManagedTensorVersioned *tensor = (void *)&tensor;
        bt_array *bad = bt_reshape(bt_zeros(BT_F32, 2), 3), *gone = bt_ones(BT_F32, 1);
        EXPECT_ERROR(bt_to_dlpack(NULL, false, &tensor), BT_INVALID_ARGUMENT, "the array is NULL");
        assert_null(tensor);
        EXPECT_ERROR(bt_to_dlpack(bad, false, &tensor), BT_INVALID_ARGUMENT, "reshape");
        EXPECT_ERROR(bt_to_dlpack(bt_input(BT_F32, -1), false, &tensor), BT_FAILED_PRECONDITION, "function's input");
        EXPECT_ERROR(bt_to_dlpack(gone, false, NULL), BT_INVALID_ARGUMENT, "where to put the tensor");
        bt_release(gone);
        EXPECT_ERROR(bt_to_dlpack(gone, false, &tensor), BT_INVALID_ARGUMENT, "released");
    }
}

static void the_nth_allocation_fails(void **state) {
    (void)state;
    uint64_t live = bt_live_arrays();
    for (uint64_t n = 1; n < 60; n++)
        BT_SCOPE {
            DLManagedTensorVersioned tensor = of_host(), *given = NULL;
            int64_t turned[2] = {1, 2};
            tensor.manager_ctx = &tensor;
            if (n % 2) tensor.dl_tensor.strides = turned;
            bti_alloc_fail_at(n, false);
            bt_array *x;
            BT_ON("cpu") x = bt_from_dlpack(&tensor);
            bt_status status = bt_to_dlpack(x, n % 3 == 0, &given);
            bti_alloc_fail_at(0, false);
            if (status != BT_OK && (status != BT_RESOURCE_EXHAUSTED || !*bt_error_text()))
                fail_msg("allocation %d: %s: %s", (int)n, bt_status_name(status), bt_error_text());
            if (given) given->deleter(given);
            bt_release(x);
            bt_synchronize();
            assert_int_equal(ended, 1);
        }
    assert_int_equal(bt_live_arrays(), live);
}

static int begin(void **state) {
    (void)state;
    return bt_set_flag("devices", "sim:gpu*1") != BT_OK;
}
static int end(void **state) {
    (void)state;
    OK(bt_shutdown());
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(aligned_elements_are_lent),
        cmocka_unit_test(tensors_without_a_version_are_taken),
        cmocka_unit_test(strides_and_offsets_are_honoured),
        cmocka_unit_test(empty_ones_and_single_elements_are_taken),
        cmocka_unit_test(copies_go_to_devices_with_memory_of_their_own),
        cmocka_unit_test(others_are_refused_and_let_go),
        cmocka_unit_test(elements_of_the_host_are_shared),
        cmocka_unit_test(others_are_copied),
        cmocka_unit_test(what_is_given_is_taken_without_a_copy),
        cmocka_unit_test(shared_elements_are_not_written_over),
        cmocka_unit_test(bad_arguments_are_refused),
        cmocka_unit_test(the_nth_allocation_fails),
    };
    return cmocka_run_group_tests(tests, begin, end);
}
