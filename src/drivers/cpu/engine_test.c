// labels: threads
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/alloc.h"
#include "base/flags.h"
#include "drivers/cpu/engine.h"

/* As bti_render of render/render.h. */
typedef bool write_function(bti_str *text, const bti_kernel *kernel, bti_target target, bool variant);

static atomic_int rendered;

/* Text that no compiler takes: the kernel goes on in blocks. */
static bool nonsense(bti_str *text, const bti_kernel *kernel, bti_target target, bool stream) {
    atomic_fetch_add(&rendered, 1);
    bti_str_add(text, "this is no kernel");
    return true;
}

/* Not the kernel's own: to see which code runs. */
static bool store_7(bti_str *text, const bti_kernel *kernel, bti_target target, bool stream) {
    atomic_fetch_add(&rendered, 1);
    bti_str_add(text, "define void @bti_run(ptr %extent, ptr %scalars, ptr %address, ptr %stride, ptr %functions) {\n"
                      "  %slot = getelementptr i64, ptr %address, i64 1\n"
                      "  %number = load i64, ptr %slot\n"
                      "  %to = inttoptr i64 %number to ptr\n"
                      "  store float 7.0, ptr %to\n"
                      "  ret void\n}\n");
    return true;
}

/* out = in + in */
static bti_kernel doubling(void) {
    bti_kernel k = {.inner = 1, .input_count = 1, .output_count = 1, .instr_count = 2};
    k.instrs[0] = (bti_instr){.op = BTI_OP_leaf, .dtype = BT_F32};
    k.instrs[1] = (bti_instr){.op = BTI_OP_add, .dtype = BT_F32};
    k.operands[0] = (bti_kernel_operand){.dtype = BT_F32, .moves = 1, .unit = 1};
    k.operands[1] = (bti_kernel_operand){.dtype = BT_F32, .moves = 1, .unit = 1, .value = 1};
    return k;
}

static write_function *write_text; /* gives what launches want */

static float run_once(void *loaded) {
    float x[4] = {1, 2, 3, 4}, y[4] = {0};
    bti_box box = {.extent = {4}, .address = {(uint64_t)(uintptr_t)x, (uint64_t)(uintptr_t)y}, .stride = {{4}, {4}}};
    bti_text_wanted wanted;
    bt_status status = bti_cpu_launch_kernel(NULL, loaded, &box);
    while (status != BT_OK && bti_cpu_text_lacked(NULL, loaded, &wanted)) {
        bti_str text = {0};
        text.failed = !write_text || !write_text(&text, wanted.kernel, wanted.target, wanted.variant) || text.failed;
        assert_int_equal(bti_cpu_text_give(NULL, loaded, &wanted, &text), BT_OK);
        bti_str_free(&text);
        status = bti_cpu_launch_kernel(NULL, loaded, &box);
    }
    assert_int_equal(status, BT_OK);
    return y[0];
}

static bt_status load(const bti_kernel *kernel, void **loaded) {
    return bti_cpu_program_load(NULL, &(bti_program_source){.kernel = kernel}, loaded);
}

static void free_program(void *loaded) {
    bti_cpu_program_free(NULL, &(bti_program_source){.kernel = bti_cpu_program_kernel(loaded)}, loaded);
}

static void *loaded_with(write_function *render) {
    void *loaded;
    bti_kernel kernel = doubling();
    rendered = 0;
    write_text = render;
    assert_int_equal(load(&kernel, &loaded), BT_OK);
    assert_true(bti_kernel_equal(bti_cpu_program_kernel(loaded), &kernel));
    return loaded;
}

static void set(const char *flag, const char *value) { assert_int_equal(bt_set_flag(flag, value), BT_OK); }

static void blocks_until_compiling_pays(void **state) {
    set("cache", "off");
    set("kernels", "auto");
    void *loaded = loaded_with(store_7);
    assert_true(run_once(loaded) == 2);
    assert_int_equal(rendered, 0);
    float y = 2;
    for (int i = 0; i < 200000 && y == 2 && !rendered; i++) y = run_once(loaded);
    assert_int_equal(rendered, 1);
    assert_true(y == 7 || y == 2); /* 2: there is no compiler here */
    free_program(loaded);
}

static void as_the_flag_says(void **state) {
    set("cache", "off");
    set("kernels", "blocks");
    void *loaded = loaded_with(store_7);
    for (int i = 0; i < 200000; i++) assert_true(run_once(loaded) == 2);
    set("kernels", "compiled");
    run_once(loaded);
    assert_int_equal(rendered, 1);
    set("kernels", "interpreter");
    assert_true(run_once(loaded) == 2);
    free_program(loaded);

    set("kernels", "compiled"); /* what does not compile is tried once, and what has no text */
    loaded = loaded_with(nonsense);
    for (int i = 0; i < 10; i++) assert_true(run_once(loaded) == 2);
    assert_int_equal(rendered, 1);
    free_program(loaded);
    loaded = loaded_with(NULL);
    assert_true(run_once(loaded) == 2);
    free_program(loaded);
    set("kernels", "auto");
}

static void *many_runs(void *loaded) {
    for (int i = 0; i < 20000; i++) {
        float y = run_once(loaded);
        if (y != 2 && y != 7) return loaded;
    }
    return NULL;
}

static void several_threads(void **state) {
    set("cache", "off");
    void *loaded = loaded_with(store_7);
    pthread_t threads[4];
    for (int t = 0; t < 4; t++) assert_int_equal(pthread_create(&threads[t], NULL, many_runs, loaded), 0);
    for (int t = 0; t < 4; t++) {
        void *wrong;
        pthread_join(threads[t], &wrong);
        assert_null(wrong);
    }
    assert_true(rendered <= 1);
    free_program(loaded);
}

static void no_memory(void **state) {
    bti_kernel kernel = doubling();
    void *loaded;
    for (uint64_t nth = 1; nth <= 7; nth++) {
        bti_alloc_fail_at(nth, false);
        assert_int_equal(load(&kernel, &loaded), BT_RESOURCE_EXHAUSTED);
        bti_alloc_fail_at(0, false);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(blocks_until_compiling_pays),
        cmocka_unit_test(as_the_flag_says),
        cmocka_unit_test(several_threads),
        cmocka_unit_test(no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
