// timeout: 300
/* The texts of some kernels as they are stored in tests/render/ (BERTH_RENDER_WRITE=1 writes them anew), and many drawn
 * ones through LLVM's assembler and, for every target, its code generator: nothing outside may be called. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include <cmocka.h>

#include "support/render_kernels.h"
#include "support/golden_texts.h"

static const struct {
    const char *name;
    void (*make)(bti_kernel *kernel);
    bti_target target;
    bti_cpu_text variant;
} texts[] = {{"map_avx512", map_kernel, BTI_LLVM_AVX512, BTI_TEXT_STREAM},
             {"map_sse2", map_kernel, BTI_LLVM_SSE2, BTI_TEXT_PLAIN},
             {"softmax_avx512", softmax_kernel, BTI_LLVM_AVX512, BTI_TEXT_PLAIN},
             {"softmax_turned_avx512", softmax_kernel, BTI_LLVM_AVX512, BTI_TEXT_TURNED},
             {"layer_norm_avx2", layer_norm_kernel, BTI_LLVM_AVX2, BTI_TEXT_PLAIN},
             {"column_sum_avx512", column_sum_kernel, BTI_LLVM_AVX512, BTI_TEXT_PLAIN},
             {"small_floats_sse2", small_floats_kernel, BTI_LLVM_SSE2, BTI_TEXT_PLAIN},
             {"small_floats_neon", small_floats_kernel, BTI_LLVM_NEON, BTI_TEXT_PLAIN},
             {"random_avx512", random_kernel, BTI_LLVM_AVX512, BTI_TEXT_PLAIN},
             {"take_avx512", take_kernel, BTI_LLVM_AVX512, BTI_TEXT_PLAIN},
             {"lookup_avx2", lookup_kernel, BTI_LLVM_AVX2, BTI_TEXT_PLAIN}};

static void stored_texts(void **state) {
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        char name[64];
        static bti_kernel kernel;
        bti_str text = {0};
        snprintf(name, sizeof name, "%s.ll", texts[i].name);
        texts[i].make(&kernel);
        assert_null(bti_kernel_verify(&kernel));
        assert_true(bti_render_llvm(&text, &kernel, texts[i].target, texts[i].variant));
        assert_stored("render", name, &text);
        bti_str_free(&text);
    }
}

/* A kernel whose text has parts for all there is: the order of instructions does not depend on what was written before. */
static void same_text_again(void **state) {
    static bti_kernel kernel;
    bti_str first = {0}, second = {0};
    softmax_kernel(&kernel);
    assert_true(bti_render_llvm(&first, &kernel, BTI_LLVM_AVX2, BTI_TEXT_PLAIN));
    random_kernel(&kernel);
    assert_true(bti_render_llvm(&second, &kernel, BTI_LLVM_AVX2, BTI_TEXT_PLAIN));
    bti_str_free(&second);
    softmax_kernel(&kernel);
    assert_true(bti_render_llvm(&second, &kernel, BTI_LLVM_AVX2, BTI_TEXT_PLAIN));
    assert_string_equal(first.text, second.text);
    bti_str_free(&first);
    bti_str_free(&second);
}

static void short_of_memory(void **state) {
    static bti_kernel kernel;
    softmax_kernel(&kernel);
    bti_str text = {.failed = true};
    assert_false(bti_render_llvm(&text, &kernel, BTI_LLVM_AVX512, BTI_TEXT_PLAIN));
    bti_str_free(&text);
}

static void assert_command(const char *format, const char *folder) {
    char command[512];
    snprintf(command, sizeof command, format, folder, folder, folder);
    if (system(command) != 0) fail_msg("%s", command);
}

static void accepted_by_llvm(void **state) {
    if (system("llc-16 --version >/dev/null 2>&1 && opt-16 --version >/dev/null 2>&1") != 0) {
        print_message("llc-16 and opt-16 are not installed\n");
        skip();
    }
    char folder[] = "/tmp/berth-text-XXXXXX", path[64];
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/k.ll", folder);
    for (uint64_t seed = 0; seed < 60; seed++) {
        static bti_kernel kernel;
        bti_str text = {0};
        uint64_t random = seed * 104729 + 1;
        draw_kernel(&kernel, &random);
        assert_true(
            bti_render_llvm(&text, &kernel, (bti_target)(seed % 4), kernel.reduced ? BTI_TEXT_PLAIN : BTI_TEXT_STREAM));
        write_file(path, &text);
        bti_str_free(&text);
        assert_command("opt-16 -passes=verify -disable-output %s/k.ll", folder);
        assert_command("llc-16 -O2 -filetype=obj %s/k.ll -o %s/k.o && "
                       "! readelf -sW %s/k.o | grep -E 'GLOBAL.*UND'",
                       folder);
    }
    assert_command("rm -r %s", folder);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(stored_texts),
        cmocka_unit_test(same_text_again),
        cmocka_unit_test(short_of_memory),
        cmocka_unit_test(accepted_by_llvm),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
