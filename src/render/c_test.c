/* The texts of some kernels as they are stored in tests/render/, without the words in front (BERTH_RENDER_WRITE=1 writes them
 * anew); CUDA C and OpenCL C differ in few words. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "render/c.h"
#include "render/render.h"
#include "support/render_kernels.h"
#include "support/golden_texts.h"

static const struct {
    const char *name;
    void (*make)(bti_kernel *kernel);
    bti_target target;
} texts[] = {{"map.cu", map_kernel, BTI_CUDA_C},
             {"softmax.cu", softmax_kernel, BTI_CUDA_C},
             {"layer_norm.cu", layer_norm_kernel, BTI_CUDA_C},
             {"column_sum.cu", column_sum_kernel, BTI_CUDA_C},
             {"small_floats.cu", small_floats_kernel, BTI_CUDA_C},
             {"transpose_add.cu", transpose_add_kernel, BTI_CUDA_C},
             {"random.cu", random_kernel, BTI_CUDA_C},
             {"random_halves.cu", halved_kernel, BTI_CUDA_C},
             {"take.cu", take_kernel, BTI_CUDA_C},
             {"take_rows.cu", take_rows_kernel, BTI_CUDA_C},
             {"softmax.cl", softmax_kernel, BTI_OPENCL_C},
             {"column_sum_f32.cl", column_sum_kernel, BTI_OPENCL_C_F32}};

static void stored_texts(void **state) {
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        static bti_kernel kernel;
        bti_str text = {0};
        texts[i].make(&kernel);
        assert_null(bti_kernel_verify(&kernel));
        assert_true(bti_render_c_body(&text, &kernel, texts[i].target));
        assert_stored("render", texts[i].name, &text);
        bti_str_free(&text);
    }
}

/* A map's text for several boxes, behind the words. */
static void texts_of_boxes(void **state) {
    static bti_kernel kernel;
    bti_str words = {0}, whole = {0}, body = {0};
    map_kernel(&kernel);
    bti_render_c_words(&words, BTI_CUDA_C);
    assert_true(bti_render_c(&whole, &kernel, BTI_ENTRY_BOXES, BTI_CUDA_C));
    assert_memory_equal(whole.text, words.text, words.length);
    bti_str_add(&body, bti_str_text(&whole) + words.length);
    assert_stored("render", "map_boxes.cu", &body);
    bti_str_free(&words);
    bti_str_free(&whole);
    bti_str_free(&body);
}

/* A product and its epilogue, behind the words. */
static void texts_of_products(void **state) {
    static const struct {
        const char *name;
        bt_dtype dtype;
        bti_target target;
    } products[] = {{"product.cu", BT_F32, BTI_CUDA_C}, {"product.cl", BT_F32, BTI_OPENCL_C_F32}};
    static bti_kernel kernel;
    map_kernel(&kernel);
    for (int i = 0; i < 2; i++) {
        bti_str words = {0}, whole = {0}, body = {0};
        bti_render_c_words(&words, products[i].target);
        assert_true(bti_render_product(&whole, &kernel, 0, products[i].dtype, products[i].target));
        assert_memory_equal(whole.text, words.text, words.length);
        bti_str_add(&body, bti_str_text(&whole) + words.length);
        assert_stored("render", products[i].name, &body);
        bti_str_free(&words);
        bti_str_free(&whole);
        bti_str_free(&body);
    }
}

/* Words, then body; by target. */
static void whole_texts(void **state) {
    static bti_kernel kernel;
    softmax_kernel(&kernel);
    for (bti_target target = BTI_CUDA_C; target <= BTI_OPENCL_C_F32; target++) {
        bti_str whole = {0}, words = {0};
        bti_render_c_words(&words, target);
        assert_true(bti_render_c_body(&words, &kernel, target));
        assert_true(bti_render_c(&whole, &kernel, BTI_ENTRY_END, target));
        assert_string_equal(whole.text, words.text);
        assert_int_equal(strstr(whole.text, "#define HAS_F64\n") != NULL, target != BTI_OPENCL_C_F32);
        bti_str_free(&whole);
        bti_str_free(&words);
    }
    bti_str llvm = {0};
    assert_true(bti_render(&llvm, &kernel, BTI_LLVM_SSE2, 0));
    assert_non_null(strstr(llvm.text, "target triple"));
    bti_str_free(&llvm);
}

static void short_of_memory(void **state) {
    static bti_kernel kernel;
    softmax_kernel(&kernel);
    bti_str text = {.failed = true};
    assert_false(bti_render_c(&text, &kernel, BTI_ENTRY_END, BTI_CUDA_C));
    bti_str_free(&text);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(stored_texts), cmocka_unit_test(texts_of_boxes),  cmocka_unit_test(texts_of_products),
        cmocka_unit_test(whole_texts),  cmocka_unit_test(short_of_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
