/* NVRTC itself, where it is installed; it needs no GPU. */
#include "support/cuda_machine.h"

static const char good[] = "struct words { long w[2]; };\n"
                           "int twice(int x) { return 2 * x; }\n"
                           "extern \"C\" __global__ void bti_run(const words a) {\n"
                           "    ((float *)a.w[0])[twice((int)threadIdx.x)] = (float)a.w[1];\n"
                           "}\n";

static bt_status compile(int architecture, const char *text, bti_str *image) {
    bti_cuda_device device = {.architecture = architecture};
    bti_str str = {0};
    bti_str_add(&str, text);
    bti_str_free(image);
    bt_status status = bti_cuda_compile(&device, "add", &str, image);
    bti_str_free(&str);
    return status;
}

static void nvrtc_compiles(void **state) {
    (void)state;
    bti_str image = {0};
    setenv("BERTH_FLAGS", "cache=off", 1);
    bti_flags_reset();
    if (!bti_cuda_has(BTI_CUDA_NVRTC)) skip();
    OK(bti_cuda_compiler_check(90));
    OK(compile(80, good, &image));
    assert_memory_equal(image.text, "\177ELF", 4);
    OK(compile(90, good, &image));
    assert_memory_equal(image.text, "\177ELF", 4);
    OK(compile(999, good, &image)); /* a device that it does not know yet */
    expect_text(image.text, ".entry bti_run");
    expect_error(compile(90, "int one;\nint two = three;\nint four;\n", &image), BT_INTERNAL,
                 "NVRTC does not compile add.cu:");
    expect_text(bt_error_text(), "    2 | int two = three;\n");
    assert_null(strstr(bt_error_text(), "int four"));
    expect_error(bti_cuda_compiler_check(10), BT_UNAVAILABLE, "this device has 1.0");
    bti_str_free(&image);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(nvrtc_compiles)};
    return cmocka_run_group_tests(tests, NULL, NULL); /* NVRTC stays open: closed, it leaves memory behind */
}
