// timeout: 300
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/alloc.h"
#include "base/error.h"
#include "drivers/cpu/blocks.h"
#include "support/kernel_cases.h"
#include "drivers/cpu/launch.h"
#include "drivers/cpu/target.h"

static bti_blocks *blocks;
static atomic_int runs, parts, finishes;

static void run(const void *code, const bti_box *box) {
    atomic_fetch_add(&runs, 1);
    bti_blocks_run(code, box);
}
static void part(const void *code, const bti_box *box, uint64_t *sets) {
    atomic_fetch_add(&parts, 1);
    bti_blocks_part(code, box, sets);
}
static void finish(const void *code, const bti_box *box, const uint64_t *sets, int64_t count) {
    atomic_fetch_add(&finishes, 1);
    assert_int_equal(count, parts);
    bti_blocks_finish(code, box, sets, count);
}

static bt_status launch(const bti_kernel *kernel, const bti_box *box) {
    runs = parts = finishes = 0;
    return bti_launch(&(bti_runner){kernel, blocks, run, part, finish, 0}, box);
}

static void make(const bti_kernel *kernel) {
    assert_int_equal(bti_blocks_make(kernel, bti_cpu_target(), &blocks), BT_OK);
}

static void split_as_unsplit(void **state) {
    int cut = 0, in_parts = 0;
    for (uint64_t seed = 1; seed <= 600; seed++) {
        bti_kernel_case c;
        bti_random_large_kernel(seed, &c);
        make(&c.kernel);
        bti_blocks_run(blocks, &c.box);
        char *expected = bti_case_take(&c);
        assert_int_equal(launch(&c.kernel, &c.box), BT_OK);
        cut += runs > 1;
        in_parts += parts > 0;
        int differs = bti_case_differs(&c, expected);
        if (differs != -1) fail_msg("seed %d: operand %d differs", (int)seed, differs);
        bti_blocks_free(blocks);
        free(expected);
        bti_case_free(&c);
    }
    assert_true(cut > 50);
    assert_true(in_parts > 5);
}

/* One input, one output, float32: a sum over `reduced` axes, or a copy. */
static bti_kernel kernel_of(int outer, int reduced, int inner) {
    bti_kernel k = {.outer = (uint8_t)outer, .reduced = (uint8_t)reduced, .inner = (uint8_t)inner};
    unsigned all = (1u << (outer + reduced + inner)) - 1, gone = ((1u << reduced) - 1) << outer;
    k.input_count = k.output_count = 1;
    k.instr_count = reduced ? 2 : 1;
    k.instrs[0] = (bti_instr){.op = BTI_OP_leaf, .dtype = BT_F32};
    k.instrs[1] = (bti_instr){.op = reduced ? BTI_OP_sum : 0, .dtype = reduced ? BT_F32 : 0};
    k.operands[0] = (bti_kernel_operand){.dtype = BT_F32, .moves = (uint8_t)all, .unit = 1};
    k.operands[1] = (bti_kernel_operand){
        .dtype = BT_F32, .moves = (uint8_t)(all & ~gone), .unit = (uint8_t)inner, .value = reduced != 0};
    bti_kernel_set_stages(&k);
    assert_null(bti_kernel_verify(&k));
    return k;
}

static void where_it_is_cut(void **state) {
    float *x = malloc(4000000), *y = aligned_alloc(64, 4000000);
    memset(x, 0, 4000000);
    bti_kernel map = kernel_of(0, 0, 1), rows = kernel_of(1, 1, 0), columns = kernel_of(0, 1, 1);
    bti_box box = {.address = {(uint64_t)(uintptr_t)x, (uint64_t)(uintptr_t)y}};

    make(&map); /* small: at once; large: along the line */
    box.stride[0][0] = box.stride[1][0] = 4;
    box.extent[0] = 1000;
    launch(&map, &box);
    assert_int_equal(runs, 1);
    box.extent[0] = 1000000;
    launch(&map, &box);
    assert_int_equal(runs, 8);
    assert_false(bti_launch_streams(&map, &box));
    box.extent[0] = 1 << 22;
    assert_true(bti_launch_streams(&map, &box));
    bti_kernel slow = map; /* its operations take longer than memory */
    slow.instrs[slow.instr_count++] = (bti_instr){.op = BTI_OP_exp, .dtype = BT_F32};
    assert_false(bti_launch_streams(&slow, &box));
    box.address[1] += 4;
    assert_false(bti_launch_streams(&map, &box));
    box.address[1] = box.address[0];
    assert_false(bti_launch_streams(&map, &box));
    box.address[1] = (uint64_t)(uintptr_t)y;
    bti_blocks_free(blocks);

    make(&rows); /* many rows: by rows; few long ones: in parts */
    box.extent[0] = 10000, box.extent[1] = 100;
    box.stride[0][0] = 400, box.stride[0][1] = 4, box.stride[1][0] = 4, box.stride[1][1] = 0;
    launch(&rows, &box);
    assert_int_equal(runs, 8);
    assert_int_equal(parts, 0);
    box.extent[0] = 2, box.extent[1] = 500000, box.stride[0][0] = 2000000;
    launch(&rows, &box);
    assert_int_equal(parts, 31);
    assert_int_equal(finishes, 1);
    bti_blocks_free(blocks);

    make(&columns); /* wide: by columns; tall: in parts */
    box.extent[0] = 100, box.extent[1] = 10000;
    box.stride[0][0] = 40000, box.stride[0][1] = 4, box.stride[1][0] = 0, box.stride[1][1] = 4;
    launch(&columns, &box);
    assert_int_equal(runs, 10);
    box.extent[0] = 10000, box.extent[1] = 100, box.stride[0][0] = 400;
    launch(&columns, &box);
    assert_int_equal(parts, 10);
    bti_alloc_fail_at(1, false); /* 1000 words of parts are not on the stack */
    assert_int_equal(launch(&columns, &box), BT_RESOURCE_EXHAUSTED);
    bti_alloc_fail_at(0, false);
    bti_blocks_free(blocks);
    free(x);
    free(y);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(split_as_unsplit), cmocka_unit_test(where_it_is_cut)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
