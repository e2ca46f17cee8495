// labels: slow-asan
// timeout: 600
/* Products by CLBlast, which is used on a CPU by its flag only. */
#include <dlfcn.h>

#include "base/test_depth.h"
#include "reference/interp.h"
#include "support/opencl_product.h"

static bti_cl_device *device;

static void set_flag(const char *value) { assert_int_equal(bt_set_flag("clblast", value), BT_OK); }

static void expect_exact(matrices p) {
    bti_operand inputs[2];
    assert_true(multiply(device, &p));
    void *got = malloc(p.bytes[2]);
    assert_int_equal(bti_driver_opencl.sync(device), BT_OK);
    assert_int_equal(bti_cl_download(device, got, p.address[2], p.bytes[2]), BT_OK);
    for (int i = 0; i < 2; i++) inputs[i] = matrix_operand(&p, i, (uint64_t)(uintptr_t)p.host[i]);
    bti_work work = {.op = BTI_OP_matmul,
                     .input_count = 2,
                     .inputs = inputs,
                     .output = matrix_operand(&p, 2, (uint64_t)(uintptr_t)p.host[2])};
    assert_int_equal(bti_interpret(&work), BT_OK);
    assert_memory_equal(got, p.host[2], p.bytes[2]);
    free(got);
    free_matrices(device, &p);
}

static bool is_installed(void) {
    void *library = dlopen("libclblast.so.1", RTLD_NOW | RTLD_LOCAL);
    if (library) dlclose(library);
    return library;
}

static void products_are_exact(void **state) {
    if (!is_installed()) skip();
    set_flag("on");
    expect_exact((matrices){.batch = 1, .m = 33, .k = 17, .n = 65, .dtype = BT_F32});
    if (!test_is_long()) return; /* the compiler takes seconds for each of the library's kernels */
    expect_exact((matrices){.batch = 3, .m = 8, .k = 9, .n = 10, .dtype = BT_F32, .turned = {true, true}});
    expect_exact((matrices){.batch = 1, .m = 20, .k = 30, .n = 10, .dtype = BT_F32, .turned = {true, false}});
    expect_exact((matrices){.batch = 1, .m = 20, .k = 30, .n = 10, .dtype = BT_F32, .turned = {false, true}});
    expect_exact((matrices){.batch = 3, .m = 8, .k = 9, .n = 10, .dtype = BT_F32, .shared = true});
    expect_exact((matrices){.batch = 1, .m = 1, .k = 40, .n = 1, .dtype = BT_F32});
    expect_exact((matrices){.batch = 1, .m = 300, .k = 200, .n = 250, .dtype = BT_F32});
    if (device->gpu.target == BTI_OPENCL_C)
        expect_exact((matrices){.batch = 1, .m = 12, .k = 13, .n = 14, .dtype = BT_F64});
}

static void expect_none(matrices p) {
    assert_false(multiply(device, &p));
    free_matrices(device, &p);
}

static void the_flag_says_where(void **state) {
    matrices p = {.batch = 1, .m = 4, .k = 4, .n = 4, .dtype = BT_F32};
    set_flag("off");
    expect_none(p);
    set_flag("auto");
    if (!device->is_gpu) expect_none(p);
    set_flag("on");
    p.dtype = BT_I32;
    expect_none(p);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(products_are_exact), cmocka_unit_test(the_flag_says_where)};
    device = open_first();
    if (!device) return 77;
    int rc = cmocka_run_group_tests(tests, NULL, NULL);
    bti_driver_opencl.close(device);
    return rc;
}
