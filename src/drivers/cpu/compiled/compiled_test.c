// labels: threads
#include "drivers/cpu/compiled/compiled.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <berth/flags.h>
#include <cmocka.h>

#include "base/alloc.h"
#include "base/flags.h"
#include "support/llvm_texts.h"

/* As bti_render of render/render.h. */
typedef bool write_function(bti_str *text, const bti_kernel *kernel, bti_target target, bti_cpu_text variant);

enum { THREADS = 4 };

static char folder[64];
static const char *const no_libraries[] = {"libLLVM-no-such.so", NULL};
static const bti_kernel kernel; /* what is rendered does not come from it */

static int start(void **state) {
    snprintf(folder, sizeof folder, "/tmp/berth-compiled-test-XXXXXX");
    bti_flags_reset();
    bti_compiled_reset();
    bti_llvm_use(NULL);
    return !mkdtemp(folder) || bt_set_flag("cache", folder) != BT_OK;
}
static int end(void **state) {
    char line[100];
    snprintf(line, sizeof line, "rm -rf %s", folder);
    bti_flags_reset();
    bti_compiled_reset();
    return system(line);
}

static bool render_five(bti_str *text, const bti_kernel *of, bti_target target, bti_cpu_text variant) {
    ir_five_operations(text, target);
    return !text->failed;
}
static bool render_two(bti_str *text, const bti_kernel *of, bti_target target, bti_cpu_text variant) {
    bti_str_add(text, ir_relocations);
    return !text->failed;
}
static bool render_nonsense(bti_str *text, const bti_kernel *of, bti_target target, bti_cpu_text variant) {
    bti_str_add(text, "nonsense");
    return !text->failed;
}
static bool render_nothing(bti_str *text, const bti_kernel *of, bti_target target, bti_cpu_text variant) {
    return false;
}

static bti_compiled_ledger look(bool attempt) {
    static _Thread_local bti_compiled_ledger ledger;
    bti_compiled_look(&ledger, attempt);
    return ledger;
}

static bt_status compile_text(write_function *render, bti_target target, bti_compiled **compiled) {
    bti_str text = {0};
    text.failed = !render(&text, &kernel, target, BTI_TEXT_PLAIN) || text.failed;
    bt_status status = bti_compiled_get(&kernel, &text, target, compiled);
    bti_str_free(&text);
    return status;
}

static bti_compiled *get(write_function *render) {
    bti_compiled *compiled = NULL;
    bt_status status = compile_text(render, bti_cpu_target(), &compiled);
    if (status == BT_UNAVAILABLE && look(false).llvm.library[0] == '\0') {
        print_message("skipped: %s\n", bt_error_text());
        skip();
    }
    if (status != BT_OK) fail_msg("%s", bt_error_text());
    return compiled;
}

static bool five_operations_work(const bti_compiled *compiled) {
    float a[5] = {1, 2, 3, 4, 5}, b[5] = {3, 2, 1, 0, 8}, c[5];
    uint64_t address[] = {(uintptr_t)a, (uintptr_t)b, (uintptr_t)c};
    int64_t extent = 5;
    compiled->run(&extent, NULL, address, NULL, NULL);
    for (int i = 0; i < 5; i++)
        if (c[i] != __builtin_sqrtf(__builtin_fabsf((a[i] + b[i]) * a[i] - b[i]))) return false;
    return true;
}

static void kernels_are_compiled_once_and_then_found(void **state) {
    bti_compiled *first = get(render_five), *other = get(render_two);
    bti_compiled_ledger ledger = look(false);
    assert_true(five_operations_work(first));
    assert_true(first->run && !first->part && !first->finish);
    assert_true(other->run && other->part && !other->finish);
    assert_int_equal(ledger.kernels, 2);
    assert_true(ledger.compile_ns > 0);
    assert_int_equal(ledger.cache.misses, 2);
    assert_int_equal(ledger.cache.stores, 2);
    assert_string_equal(ledger.cache.reason, "");
    bti_llvm_use(no_libraries); /* from here on there is no LLVM */
    bti_compiled *again = get(render_five);
    assert_true(five_operations_work(again));
    ledger = look(false);
    assert_int_equal(ledger.kernels, 2);
    assert_int_equal(ledger.cache.hits, 1);
    assert_string_equal(ledger.llvm.reason, ""); /* it was not even looked for */
    bti_compiled_free(first);
    bti_compiled_free(other);
    assert_true(five_operations_work(again));
    bti_compiled_free(again);
    bti_compiled_free(NULL);
}

static void without_a_cache_everything_is_compiled(void **state) {
    assert_int_equal(bt_set_flag("cache", "off"), BT_OK);
    for (int i = 0; i < 2; i++) {
        bti_compiled *compiled = get(render_five);
        assert_true(five_operations_work(compiled));
        bti_compiled_free(compiled);
    }
    assert_int_equal(look(false).kernels, 2);
    assert_int_equal(look(false).cache.hits + look(false).cache.stores, 0);
}

/* Sound by its hash, but not an object, or one that cannot be placed. */
static void a_kept_object_that_is_no_good_is_replaced(void **state) {
    bti_compiled_free(get(render_five));
    bti_str text = {0}, object = {0};
    render_five(&text, &kernel, bti_cpu_target(), BTI_TEXT_PLAIN);
    bti_cache_key key = bti_cache_key_of(&text, bti_cpu_target(), "");
    bti_str_add(&object, "this is not an object, but its hash is right");
    bti_cache_store(key, &object, (const unsigned[]){16, 0, 0});
    bti_compiled *compiled = get(render_five);
    assert_true(five_operations_work(compiled));
    bti_compiled_free(compiled);
    assert_int_equal(look(false).kernels, 2);
    assert_int_equal(look(false).cache.refused, 1);
    bti_compiled_free(get(render_five));
    assert_int_equal(look(false).kernels, 2);
    bti_str_free(&text);
    bti_str_free(&object);
}

static void expect(bt_status expected, write_function *render, bti_target target, const char *text) {
    bti_compiled *compiled = NULL;
    bt_status status = compile_text(render, target, &compiled);
    if (status != expected) fail_msg("%s: %s", bt_status_name(status), bt_error_text());
    if (!strstr(bt_error_text(), text)) fail_msg("\"%s\" does not say \"%s\"", bt_error_text(), text);
    assert_null(compiled);
}

static void failures_are_told_and_nothing_is_kept(void **state) {
    bti_target other = bti_cpu_has(BTI_LLVM_NEON) ? BTI_LLVM_SSE2 : BTI_LLVM_NEON;
    bti_compiled_free(get(render_two));
    expect(BT_UNIMPLEMENTED, render_five, other, "this CPU does not run code for");
    expect(BT_RESOURCE_EXHAUSTED, render_nothing, bti_cpu_target(), "out of host memory");
    expect(BT_INTERNAL, render_nonsense, bti_cpu_target(), "does not parse");
    bti_llvm_use(no_libraries);
    expect(BT_UNAVAILABLE, render_five, bti_cpu_target(), "libllvm16");
    assert_int_equal(look(false).cache.stores, 1);
}

static void short_memory_is_told(void **state) {
    bti_compiled_free(get(render_two));
    for (int cached = 0; cached < 2; cached++) {
        for (uint64_t n = 1; n < 200; n++) {
            bti_compiled *compiled = NULL;
            bti_alloc_fail_at(n, false);
            bt_status status = compile_text(render_two, bti_cpu_target(), &compiled);
            uint64_t asked = bti_alloc_count();
            bti_alloc_fail_at(0, false);
            assert_true(status == BT_OK || status == BT_RESOURCE_EXHAUSTED);
            assert_true(!compiled == (status != BT_OK));
            bti_compiled_free(compiled);
            if (asked < n) break;
            assert_in_range(n, 1, 198);
        }
        assert_int_equal(bt_set_flag("cache", "off"), BT_OK);
    }
}

static void the_trial_says_what_works(void **state) {
    bti_compiled_free(get(render_five));
    bti_compiled_ledger ledger = look(true);
    assert_string_equal(ledger.trial_reason, "");
    assert_true(ledger.trial_ns > 0);
    assert_int_equal(ledger.kernels, 1); /* the trial is none */
    assert_int_equal(ledger.cache.files, 1);
    bti_llvm_use(no_libraries);
    ledger = look(true);
    assert_int_equal(ledger.trial_ns, 0);
    assert_non_null(strstr(ledger.trial_reason, "libLLVM-no-such.so"));
}

static void *get_five(void *good) {
    for (int i = 0; i < 5; i++) {
        bti_compiled *compiled;
        if (compile_text(render_five, bti_cpu_target(), &compiled) != BT_OK) return NULL;
        bool works = five_operations_work(compiled);
        bti_compiled_free(compiled);
        if (!works) return NULL;
    }
    *(bool *)good = true;
    return NULL;
}
static void threads_may_want_one_kernel(void **state) {
    bti_compiled_free(get(render_two));
    pthread_t threads[THREADS];
    bool good[THREADS] = {false};
    for (int i = 0; i < THREADS; i++) assert_int_equal(pthread_create(&threads[i], NULL, get_five, &good[i]), 0);
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
        assert_true(good[i]);
    }
    assert_in_range(look(false).kernels, 2, 1 + THREADS);
}

/* --- targets ------------------------------------------------------------------------------------------------------ */

static char log_text[1000];
static void keep_line(const char *line, void *data) { snprintf(log_text, sizeof log_text, "%s", line); }

static void the_flag_chooses_what_the_cpu_has(void **state) {
    bti_target widest = bti_cpu_target();
    assert_true(bti_cpu_has(widest));
    bt_set_log_sink(keep_line, NULL);
    for (bti_target target = BTI_LLVM_SSE2; target <= BTI_LLVM_NEON; target++) {
        log_text[0] = '\0';
        assert_int_equal(bt_set_flag("vector", bti_target_name(target)), BT_OK);
        assert_int_equal(bti_cpu_target(), bti_cpu_has(target) ? target : widest);
        assert_int_equal(!strstr(log_text, "kernels are compiled for"), bti_cpu_has(target));
        log_text[0] = '\0';
        (void)bti_cpu_target(); /* told once */
        assert_string_equal(log_text, "");
    }
    bt_set_log_sink(NULL, NULL);
}

int main(void) {
#define CASE(name) cmocka_unit_test_setup_teardown(name, start, end)
    const struct CMUnitTest tests[] = {
        CASE(kernels_are_compiled_once_and_then_found),
        CASE(without_a_cache_everything_is_compiled),
        CASE(a_kept_object_that_is_no_good_is_replaced),
        CASE(failures_are_told_and_nothing_is_kept),
        CASE(short_memory_is_told),
        CASE(the_trial_says_what_works),
        CASE(threads_may_want_one_kernel),
        CASE(the_flag_chooses_what_the_cpu_has),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
