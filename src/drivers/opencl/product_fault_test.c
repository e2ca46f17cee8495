/* A CLBlast that fails: our own kernel computes the product, and CLBlast is not called again after a permanent failure. */
#include <dlfcn.h>

#include "support/opencl_product.h"

static bti_cl_device *device;
static int *status, *calls;

static void ask(bt_dtype dtype, int64_t batch) {
    matrices p = {.batch = batch, .m = 4, .k = 5, .n = 6, .dtype = dtype};
    assert_false(multiply(device, &p));
    free_matrices(device, &p);
}

static void short_memory_passes(void **state) {
    *calls = 0;
    *status = CL_MEM_OBJECT_ALLOCATION_FAILURE;
    ask(BT_F32, 1);
    ask(BT_F32, 2);
    assert_int_equal(*calls, 2);
}

static void other_failures_stay(void **state) {
    *calls = 0;
    *status = CL_BUILD_PROGRAM_FAILURE;
    ask(BT_F32, 1);
    ask(BT_F32, 1);
    assert_int_equal(*calls, 1);
    ask(BT_F64, 3);
    ask(BT_F64, 1);
    assert_int_equal(*calls, 2);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(short_memory_passes), cmocka_unit_test(other_failures_stay)};
    /* It is found by its name once it is open. */
    void *fake = dlopen(BERTH_BUILD_DIR "/fakes/libclblast.so.1", RTLD_NOW | RTLD_LOCAL);
    status = fake ? dlsym(fake, "clblast_status") : NULL;
    calls = fake ? dlsym(fake, "clblast_calls") : NULL;
    if (!status || !calls || bt_set_flag("clblast", "on") != BT_OK) return 1;
    device = open_first();
    if (!device) return 77;
    int rc = cmocka_run_group_tests(tests, NULL, NULL);
    bti_driver_opencl.close(device);
    return rc;
}
