// labels: threads
#include "drivers/cpu/compiled/llvm.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "support/llvm_texts.h"
#include "drivers/cpu/compiled/object.h"

static const char *const libraries[] = {"libLLVM-16.so.1", "libLLVM-17.so.1", "libLLVM-18.so.1", "libLLVM.so.18.1",
                                        "libLLVM.so.19.1"};
enum { LIBRARIES = sizeof libraries / sizeof *libraries, THREADS = 4, ROUNDS = 5 };

static bti_str text_of(const char *text) {
    bti_str str = {0};
    bti_str_add(&str, text);
    return str;
}

static bt_status compile(const char *text, bti_target target, bti_str *object) {
    bti_str str = text_of(text);
    bt_status status = bti_llvm_compile(&str, target, object);
    bti_str_free(&str);
    return status;
}

static void expect_said(const char *text) {
    if (!strstr(bt_error_text(), text)) fail_msg("\"%s\" does not say \"%s\"", bt_error_text(), text);
}

/* Skips the test where there is no LLVM. */
static void need_llvm(void) {
    bti_str object = {0};
    bt_status status = compile("", bti_cpu_target(), &object);
    bti_str_free(&object);
    if (status == BT_UNAVAILABLE) {
        print_message("skipped: %s\n", bt_error_text());
        skip();
    }
    assert_int_equal(status, BT_OK);
}

static int start(void **state) {
    (void)state;
    bti_llvm_use(NULL);
    return 0;
}

/* Compiles the five operations for this CPU, runs them, compares. */
static bool five_operations_work(bti_target target) {
    static const char *const name = "bti_run";
    bti_str text = {0}, object = {0};
    bti_code_object loaded;
    void *function;
    ir_five_operations(&text, target);
    bool good = bti_llvm_compile(&text, target, &object) == BT_OK &&
                bti_object_load(object.text, object.length, target, &name, 1, &function, &loaded) == BT_OK && function;
    float a[67], b[67], c[67];
    for (int i = 0; i < 67; i++) a[i] = (float)i / 3 - 9, b[i] = (float)(i * 7 % 11) - 4;
    if (good) {
        uint64_t address[] = {(uintptr_t)a, (uintptr_t)b, (uintptr_t)c};
        int64_t extent = 67;
        ((bti_run_function *)function)(&extent, NULL, address, NULL, NULL);
        for (int i = 0; i < 67; i++) {
            float d = (a[i] + b[i]) * a[i] - b[i];
            good = good && c[i] == __builtin_sqrtf(d < 0 ? -d : d);
        }
        bti_object_free(&loaded);
    }
    bti_str_free(&text);
    bti_str_free(&object);
    return good;
}

static void every_library_that_is_here_compiles(void **state) {
    int here = 0;
    for (int i = 0; i < LIBRARIES; i++) {
        const char *const only[] = {libraries[i], NULL};
        bti_str object = {0};
        bti_llvm_use(only);
        if (compile("", BTI_LLVM_SSE2, &object) == BT_UNAVAILABLE) {
            expect_said(libraries[i]);
        } else {
            bti_llvm_state now;
            bti_llvm_look(&now);
            assert_true(now.opened);
            assert_string_equal(now.library, libraries[i]);
            assert_in_range(now.version[0], 16, 19);
            assert_true(now.open_ns > 0);
            assert_string_equal(now.reason, "");
            for (bti_target target = BTI_LLVM_SSE2; target <= BTI_LLVM_NEON; target++)
                if (bti_cpu_has(target)) assert_true(five_operations_work(target));
            here++;
        }
        bti_str_free(&object);
    }
    if (!here) skip();
}

static void other_machines_are_compiled_for(void **state) {
    need_llvm();
    for (bti_target target = BTI_LLVM_SSE2; target <= BTI_LLVM_NEON; target++) {
        bti_str text = {0}, object = {0};
        ir_five_operations(&text, target);
        assert_int_equal(bti_llvm_compile(&text, target, &object), BT_OK);
        assert_true(object.length > 64 && !memcmp(object.text, "\177ELF", 4));
        bti_str_free(&text);
        bti_str_free(&object);
    }
}

static void what_does_not_parse_is_told(void **state) {
    need_llvm();
    bti_str object = {0};
    assert_int_equal(compile("define void @f() {\n  %x = nonsense\n}\n", BTI_LLVM_SSE2, &object), BT_INTERNAL);
    expect_said("the text does not parse: kernel:2:8: error: expected instruction opcode");
    assert_int_equal(compile("define i32 @f() { ret float 0.0 }", BTI_LLVM_SSE2, &object), BT_INTERNAL);
    assert_int_equal(object.length, 0);
    assert_int_equal(compile("", BTI_LLVM_SSE2, &object), BT_OK); /* and the next is compiled */
    bti_str_free(&object);
}

/* Errors that the back end reports through the context: without a handler LLVM would exit. */
static void what_cannot_be_code_is_told(void **state) {
    need_llvm();
    bti_str object = {0};
    bt_status status = compile("define i32 @f() {\n  %x = call i32 asm \"\", \"={nonsense}\"()\n  ret i32 %x\n}\n",
                               BTI_LLVM_SSE2, &object);
    assert_int_equal(status, BT_INTERNAL);
    expect_said("nonsense");
    assert_int_equal(object.length, 0);
    assert_int_equal(compile("", BTI_LLVM_SSE2, &object), BT_OK);
    bti_str_free(&object);
}

static void without_a_library_the_reason_tells_all(void **state) {
    static const char *const none[] = {"libLLVM-no-such-1.so", "libLLVM-no-such-2.so", NULL};
    static const char *const wrong[] = {"libc.so.6", NULL};
    bti_str object = {0};
    bti_llvm_state now;
    bti_llvm_use(none);
    for (int again = 0; again < 2; again++) {
        assert_int_equal(compile("", BTI_LLVM_SSE2, &object), BT_UNAVAILABLE);
        expect_said("libLLVM-no-such-1.so: cannot open shared object file");
        expect_said("libLLVM-no-such-2.so: cannot open shared object file");
        expect_said("libllvm16");
    }
    bti_llvm_look(&now);
    assert_false(now.opened);
    assert_non_null(strstr(now.reason, "libllvm19"));
    bti_llvm_use(wrong);
    assert_int_equal(compile("", BTI_LLVM_SSE2, &object), BT_UNAVAILABLE);
    expect_said("libc.so.6: has no LLVMGetVersion");
    bti_str_free(&object);
}

static void *compile_many(void *good) {
    for (int i = 0; i < ROUNDS; i++) {
        bti_str object = {0};
        if (!five_operations_work(bti_cpu_target())) *(bool *)good = false;
        if (compile("nonsense", BTI_LLVM_SSE2, &object) != BT_INTERNAL) *(bool *)good = false;
        bti_str_free(&object);
    }
    return NULL;
}

static void threads_compile_at_once(void **state) {
    need_llvm();
    bti_llvm_use(NULL); /* they open it, too */
    pthread_t threads[THREADS];
    bool good[THREADS];
    for (int i = 0; i < THREADS; i++) {
        good[i] = true;
        assert_int_equal(pthread_create(&threads[i], NULL, compile_many, &good[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
        assert_true(good[i]);
    }
}

/* An instruction that the target lacks: LLVM would end the process. It is left as it is, with what it holds, and nothing is
 * compiled after that. */
static bool survives_a_fatal_error(void) {
    bti_str object = {0};
    bt_status status =
        compile("declare <16 x float> @llvm.x86.avx512.rcp14.ps.512(<16 x float>, <16 x float>, i16)\n"
                "define <16 x float> @f(<16 x float> %x) {\n"
                "  %y = call <16 x float> @llvm.x86.avx512.rcp14.ps.512(<16 x float> %x, <16 x float> %x, i16 -1)\n"
                "  ret <16 x float> %y\n}\n",
                BTI_LLVM_SSE2, &object);
    bool told = status == BT_INTERNAL && strstr(bt_error_text(), "LLVM: Do not know how to split the result of this");
    status = compile("", BTI_LLVM_SSE2, &object);
    return told && status == BT_UNAVAILABLE && strstr(bt_error_text(), "failed and is not used any more: Do not know");
}
static void a_fatal_error_ends_llvm_and_not_the_process(void **state) {
    need_llvm();
    fflush(NULL);
    pid_t child = fork();
    assert_true(child >= 0);
    if (!child) _exit(survives_a_fatal_error() ? 0 : 1);
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(every_library_that_is_here_compiles, start),
        cmocka_unit_test_setup(other_machines_are_compiled_for, start),
        cmocka_unit_test_setup(what_does_not_parse_is_told, start),
        cmocka_unit_test_setup(what_cannot_be_code_is_told, start),
        cmocka_unit_test_setup(without_a_library_the_reason_tells_all, start),
        cmocka_unit_test_setup(threads_compile_at_once, start),
        cmocka_unit_test_setup(a_fatal_error_ends_llvm_and_not_the_process, start),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
