// timeout: 300
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/test_depth.h"
#include "drivers/cpu/blocks.h"
#include "support/kernel_cases.h"
#include "support/kernel_parts.h"
#include "support/kernel_plain.h"
#include "drivers/cpu/target.h"

static void fail_case(const bti_kernel_case *c, uint64_t seed, const char *what, int output) {
    bti_str text = {0};
    bti_kernel_text(&text, &c->kernel);
    for (int axis = 0; axis < bti_kernel_axes(&c->kernel); axis++) print_error("extent %d\n", (int)c->box.extent[axis]);
    fail_msg("seed %d, %s: operand %d differs\n%s", (int)seed, what, output, bti_str_text(&text));
}

static bti_blocks *made(const bti_kernel *kernel, bti_target target) {
    bti_blocks *blocks = NULL;
    assert_int_equal(bti_blocks_make(kernel, target, &blocks), BT_OK);
    return blocks;
}

static void as_the_contract_says(void **state) {
    for (uint64_t seed = 1; seed <= (test_is_long() ? 700 : test_is_short() ? 60 : 250); seed++) {
        bti_kernel_case c;
        bti_random_kernel(seed, &c);
        const char *wrong = bti_kernel_verify(&c.kernel);
        if (wrong) fail_case(&c, seed, wrong, -1);
        bti_plain_run(&c.kernel, &c.box);
        char *expected = bti_case_take(&c);
        for (bti_target target = BTI_LLVM_SSE2; target <= BTI_LLVM_NEON; target++) {
            if (!bti_cpu_has(target)) continue;
            bti_blocks *blocks = made(&c.kernel, target);
            bti_case_reset(&c);
            bti_blocks_run(blocks, &c.box);
            int differs = bti_case_differs(&c, expected);
            if (differs != -1) fail_case(&c, seed, bti_target_name(target), differs);
            bti_blocks_free(blocks);
        }
        free(expected);
        bti_case_free(&c);
    }
}

static void part(const void *code, const bti_box *box, uint64_t *parts) { bti_blocks_part(code, box, parts); }
static void finish(const void *code, const bti_box *box, const uint64_t *parts, int64_t count) {
    bti_blocks_finish(code, box, parts, count);
}

static void parts_and_finish(void **state) {
    int tried = 0;
    for (uint64_t seed = 1; seed <= (test_is_long() ? 2000 : 800); seed++) {
        bti_kernel_case c;
        bti_random_kernel(seed, &c);
        if (bti_has_parts(&c.kernel)) {
            bti_blocks *blocks = made(&c.kernel, bti_cpu_target());
            bti_blocks_run(blocks, &c.box);
            char *expected = bti_case_take(&c);
            bti_run_in_parts(&(bti_runner){&c.kernel, blocks, NULL, part, finish, 0}, &c.box);
            int differs = bti_case_differs(&c, expected);
            if (differs != -1) fail_case(&c, seed, "in parts", differs);
            bti_blocks_free(blocks);
            free(expected);
            tried++;
        }
        bti_case_free(&c);
    }
    assert_true(tried > 100);
}

static void no_memory(void **state) {
    bti_kernel_case c;
    bti_random_kernel(5, &c);
    bti_blocks *blocks;
    for (uint64_t nth = 1; nth <= 6; nth++) {
        bti_alloc_fail_at(nth, false);
        assert_int_equal(bti_blocks_make(&c.kernel, bti_cpu_target(), &blocks), BT_RESOURCE_EXHAUSTED);
        bti_alloc_fail_at(0, false);
    }
    bti_case_free(&c);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(as_the_contract_says),
        cmocka_unit_test(parts_and_finish),
        cmocka_unit_test(no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
