// timeout: 600
// labels: slow
/* Kernels in blocks and compiled, for each target that this CPU has, at once and over one core and two, cut into parts, in
 * halves and around the cache: equal bits. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/error.h"
#include "base/flags.h"
#include "base/test_depth.h"
#include "drivers/cpu/check.h"
#include "drivers/cpu/launch.h"
#include "support/kernel_cases.h"
#include "support/kernel_parts.h"
#include "drivers/cpu/target.h"
#include "launch/narrow.h"
#include "launch/turned.h"
#include "render/llvm.h"
#include "support/render_kernels.h"

/* As bti_render of render/render.h. */
typedef bool write_function(bti_str *text, const bti_kernel *kernel, bti_target target, bti_cpu_text variant);

static int start(void **state) {
    bti_flags_reset();
    return bt_set_flag("threads", "2") != BT_OK;
}

/* Gives the check all texts that it wants. */
static bt_status run_check(bti_check *check, write_function *render, const bti_kernel *kernel, const bti_box *box,
                           unsigned variants) {
    bti_target target;
    bti_cpu_text variant;
    while (bti_check_wants(check, variants, &target, &variant)) {
        bti_str text = {0};
        text.failed = !render(&text, kernel, target, variant) || text.failed;
        bt_status status = bti_check_give(check, target, variant, &text);
        bti_str_free(&text);
        if (status != BT_OK) return status;
    }
    return bti_check_run(check, box, variants);
}

static int turned, narrow; /* boxes so far */

static unsigned variants_of(const bti_kernel *kernel, const bti_box *box) {
    bool streams = bti_launch_can_stream(kernel, box), turns = bti_box_turns(kernel, box);
    turned += turns;
    narrow += bti_box_is_narrow(kernel, box);
    return 1u << BTI_TEXT_PLAIN | (unsigned)streams << BTI_TEXT_STREAM | (unsigned)turns << BTI_TEXT_TURNED |
           (unsigned)bti_box_is_narrow(kernel, box) << BTI_TEXT_NARROW;
}

static void every_way(const bti_kernel *kernel, const bti_box *box, const char *name, uint64_t seed) {
    bti_check *check;
    assert_null(bti_kernel_verify(kernel));
    if (bti_check_make(kernel, &check) != BT_OK ||
        run_check(check, bti_render_llvm, kernel, box, variants_of(kernel, box)) != BT_OK)
        fail_msg("%s, seed %d: %s", name, (int)seed, bt_error_text());
    bti_check_free(check);
}

/* --- at random ---------------------------------------------------------------------------------------------------- */

static bool is_compiled(const bti_kernel *kernel, bti_target target, bti_compiled **compiled) {
    *compiled = NULL;
    bti_str text = {0};
    bt_status status = bti_cpu_has(target) && bti_render_llvm(&text, kernel, target, BTI_TEXT_PLAIN)
                           ? bti_compiled_get(kernel, &text, target, compiled)
                           : BT_UNAVAILABLE;
    bti_str_free(&text);
    if (status != BT_OK && status != BT_UNAVAILABLE) fail_msg("%s", bt_error_text());
    return status == BT_OK;
}

static void in_parts(bti_kernel_case *c, uint64_t seed) {
    bti_blocks *blocks;
    assert_int_equal(bti_blocks_make(&c->kernel, BTI_LLVM_SSE2, &blocks), BT_OK);
    bti_blocks_run(blocks, &c->box);
    bti_blocks_free(blocks);
    char *expected = bti_case_take(c);
    for (bti_target target = BTI_LLVM_SSE2; target <= BTI_LLVM_NEON; target++) {
        bti_compiled *compiled;
        if (!is_compiled(&c->kernel, target, &compiled)) continue;
        bti_code code = {compiled, bti_functions_of(target), BTI_TEXT_PLAIN};
        bti_runner runner = bti_compiled_runner(&c->kernel, &code);
        bti_case_reset(c);
        bti_run_in_parts(&runner, &c->box);
        int differs = bti_case_differs(c, expected);
        if (differs != -1) fail_msg("seed %d in parts for %s: operand %d", (int)seed, bti_target_name(target), differs);
        bti_compiled_free(compiled);
    }
    bti_case_reset(c);
    free(expected);
}

static void small_ones(void **state) {
    int tried = 0;
    for (uint64_t seed = 1; seed <= (test_is_long() ? 150 : 30); seed++) {
        bti_kernel_case c;
        bti_random_kernel(seed, &c);
        every_way(&c.kernel, &c.box, "random", seed);
        assert_int_equal(bti_case_differs(&c, c.original), -1);
        if (bti_has_parts(&c.kernel)) in_parts(&c, seed), tried++;
        bti_case_free(&c);
    }
    assert_true(tried > 5);
}

static void large_ones(void **state) {
    for (uint64_t seed = 1; seed <= (test_is_long() ? 100 : 15); seed++) {
        bti_kernel_case c;
        bti_random_large_kernel(seed, &c);
        every_way(&c.kernel, &c.box, "large", seed);
        bti_case_free(&c);
    }
}

static void short_lines(void **state) {
    turned = 0;
    for (uint64_t seed = 1; seed <= (test_is_long() ? 200 : 40); seed++) {
        bti_kernel_case c;
        bti_random_short_kernel(seed, &c);
        every_way(&c.kernel, &c.box, "short", seed);
        bti_case_free(&c);
    }
    print_message("%d turned\n", turned);
    assert_true(turned > 10);
}

/* --- by hand ------------------------------------------------------------------------------------------------------ */

/* Operands of one's own, one after the other, each on 64 bytes, of small numbers. */
static char *laid_out(const bti_kernel *kernel, bti_box *box, int64_t align) {
    int axes = bti_kernel_axes(kernel);
    size_t bytes[BTI_KERNEL_OPERANDS], total = 0;
    for (int o = 0; o < bti_kernel_operands(kernel); o++) {
        int64_t stride = kernel->operands[o].index ? 1 : (int64_t)bt_dtype_size((bt_dtype)kernel->operands[o].dtype);
        for (int axis = axes - 1; axis >= 0; axis--) {
            if (!(kernel->operands[o].moves >> axis & 1)) continue;
            box->stride[o][axis] = stride;
            stride *= box->extent[axis];
            if (!kernel->operands[o].index) stride = (stride + align - 1) / align * align;
        }
        bytes[o] = ((size_t)stride + 127) / 64 * 64;
        if (!kernel->operands[o].index) total += bytes[o];
    }
    char *memory = aligned_alloc(64, total), *at = memory;
    uint64_t state = 7;
    memset(memory, 0, total);
    for (int o = 0; o < bti_kernel_operands(kernel); o++) {
        if (kernel->operands[o].index) continue;
        box->address[o] = (uint64_t)(uintptr_t)at;
        bt_dtype dtype = (bt_dtype)kernel->operands[o].dtype;
        size_t size = bt_dtype_size(dtype);
        for (size_t i = 0; i + size <= bytes[o] && o < kernel->input_count; i += size) {
            uint64_t bits = draw(&state, 1 << 20);
            double number = (double)bits / (1 << 18) - 2;
            if (dtype == BT_BOOL) bits &= 1;
            if (dtype == BT_F64) bits = bti_f64_bits(number);
            if (dtype == BT_F32) bits = bti_f32_bits((float)number);
            if (dtype == BT_F16) bits = bti_f16_from_f64(number);
            if (dtype == BT_BF16) bits = bti_bf16_from_f64(number);
            memcpy(at + i, &bits, size);
        }
        at += bytes[o];
    }
    return memory;
}

typedef void kernel_function(bti_kernel *kernel);

static void typical(kernel_function *make, const char *name, const uint64_t *scalars, int64_t outer, int64_t length) {
    bti_kernel kernel;
    make(&kernel);
    for (int64_t align = 1; align <= 64; align += 63) {
        bti_box box = {.extent = {outer, length}, .scalars = scalars};
        if (bti_kernel_axes(&kernel) == 1) box.extent[0] = length;
        char *memory = laid_out(&kernel, &box, align);
        every_way(&kernel, &box, name, (uint64_t)length);
        free(memory);
    }
}

static const int64_t lengths[] = {1,  2,  3,  7,  8,   9,   15,  16,  17,  31,  32,
                                  33, 63, 64, 65, 127, 128, 129, 255, 256, 257, 1000};

static void typical_ones(void **state) {
    uint64_t scalars[2] = {bti_f64_bits(1. / 64), bti_f64_bits(1e-5)};
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        if (test_is_drawn(3)) typical(map_kernel, "map", scalars, 3, lengths[i]);
        if (test_is_drawn(3)) typical(softmax_kernel, "softmax", scalars, 3, lengths[i]);
        if (test_is_drawn(3)) typical(layer_norm_kernel, "layer norm", scalars, 3, lengths[i]);
        if (test_is_drawn(3)) typical(column_sum_kernel, "column sum", scalars, 37, lengths[i]);
        if (test_is_drawn(3)) typical(small_floats_kernel, "small floats", scalars, 1, lengths[i]);
    }
    for (int64_t length = 1; length <= 16; length += 5) {
        typical(map_kernel, "map", scalars, 67, length);
        typical(softmax_kernel, "softmax", scalars, 67, length);
        typical(layer_norm_kernel, "layer norm", scalars, 67, length);
    }
    typical(softmax_kernel, "softmax", scalars, 300, 1000);
    typical(layer_norm_kernel, "layer norm", scalars, 3, 100001);
    typical(column_sum_kernel, "column sum", scalars, 10007, 33);
    typical(column_sum_kernel, "column sum", scalars, 5, 100003);
    typical(map_kernel, "map", scalars, 3, 1 << 18);
    if (!test_is_long()) return;
    typical(column_sum_kernel, "column sum", scalars, 3000, 3001);
    typical(map_kernel, "map", scalars, 3, 1 << 20);
    typical(small_floats_kernel, "small floats", scalars, 1, (1 << 22) + 5);
}

static void row_sums_kernel(bti_kernel *kernel) {
    *kernel = (bti_kernel){.outer = 1, .reduced = 1};
    int x = add_input(kernel, BT_F16, 3, true, false);
    int wide = add_instr(kernel, BTI_OP_cast, BT_F32, x, 0, 0, 0);
    int sum = add_instr(kernel, BTI_OP_sum, BT_F16, x, 0, 0, 0),
        most = add_instr(kernel, BTI_OP_max, BT_F16, x, 0, 0, 0);
    int product = add_instr(kernel, BTI_OP_prod, BT_F32, wide, 0, 0, 0);
    add_output(kernel, add_instr(kernel, BTI_OP_div, BT_F16, sum, most, 0, 0), false);
    add_output(kernel, product, false);
    add_output(kernel, wide, true);
}

/* Two columns' folds of what is loaded, and of what differs by row alone; a point is stored too. */
static void narrow_kernel(bti_kernel *kernel) {
    *kernel = (bti_kernel){.reduced = 1, .inner = 1};
    int x = add_input(kernel, BT_F16, 3, true, false), y = add_input(kernel, BT_F32, 1, false, false);
    int wide = add_instr(kernel, BTI_OP_cast, BT_F32, x, 0, 0, 0);
    int both = add_instr(kernel, BTI_OP_mul, BT_F32, wide, y, 0, 0);
    int most = add_instr(kernel, BTI_OP_max, BT_F16, x, 0, 0, 0);
    add_output(kernel, add_instr(kernel, BTI_OP_sum, BT_F32, both, 0, 0, 0), true);
    add_output(kernel, most, false);
    add_output(kernel, both, true);
}

static void all_kernel(bti_kernel *kernel) {
    *kernel = (bti_kernel){.reduced = 1, .inner = 1};
    int x = add_input(kernel, BT_BOOL, 3, true, false);
    add_output(kernel, add_instr(kernel, BTI_OP_min, BT_BOOL, x, 0, 0, 0), true);
}

/* Around whole groups of chunks. */
static void narrow_columns(void **state) {
    static const int64_t more[] = {0, 1, BTI_COLUMN_CHUNK - 1, 5 * BTI_COLUMN_CHUNK, 7 * BTI_COLUMN_CHUNK + 13};
    const int64_t least = 6 * BTI_NARROW_CHUNKS * BTI_COLUMN_CHUNK; /* more than a piece */
    narrow = 0;
    for (int i = 0; i < 5; i++)
        for (int64_t columns = 1; columns <= BTI_NARROW_MOST; columns += 5) {
            if (test_is_drawn(2)) typical(column_sum_kernel, "narrow sum", NULL, least + more[i], columns);
            if (test_is_drawn(2)) typical(narrow_kernel, "narrow", NULL, least + more[i], columns);
            if (test_is_drawn(4)) typical(all_kernel, "narrow all", NULL, least + more[i], columns);
        }
    assert_true(narrow > 0);
}

static void long_rows(void **state) {
    static const int64_t around[] = {-33, -1, 0, 1, 32};
    for (int i = 0; i < 5; i++) {
        typical(row_sums_kernel, "row sums", NULL, 1, 4 * BTI_ROW_CHUNK + around[i]);
        if (test_is_drawn(3)) typical(row_sums_kernel, "row sums", NULL, 3, 17 * BTI_ROW_CHUNK + around[i]);
    }
}

/* As a line whose halves are drawn side by side. */
static void random_words(void **state) {
    static const int64_t more[] = {4096, 4097, 65536, 65537, (1 << 18) - 1, 1 << 20, (1 << 20) + 1, 1 << 22};
    uint64_t scalars[] = {0, 9, 0x3F800000, bti_f64_bits(1)};
    for (int i = 0; i < (int)(sizeof lengths / sizeof *lengths + sizeof more / sizeof *more); i++) {
        int count = (int)(sizeof lengths / sizeof *lengths);
        int64_t length = i < count ? lengths[i] : more[i - count];
        if (length > 1 << 18 && !test_is_long()) continue;
        typical(halved_kernel, "random", scalars, 1, length);
    }
}

/* A kernel whose code and blocks differ: that is told, and memory stays as it was. */
static bool render_other(bti_str *text, const bti_kernel *kernel, bti_target target, bti_cpu_text variant) {
    bti_kernel other = *kernel;
    for (int i = 0; i < other.instr_count; i++)
        if (other.instrs[i].op == BTI_OP_max) other.instrs[i].op = BTI_OP_min;
    return bti_render_llvm(text, &other, target, variant);
}

static void differences_are_told(void **state) {
    bti_kernel kernel;
    bti_compiled *compiled;
    bti_check *check;
    row_sums_kernel(&kernel);
    if (!is_compiled(&kernel, bti_cpu_target(), &compiled)) skip();
    bti_compiled_free(compiled);
    bti_box box = {.extent = {2, 100}};
    char *memory = laid_out(&kernel, &box, 1);
    uint16_t *output = (void *)(uintptr_t)box.address[1];
    *output = 1234;
    assert_int_equal(bti_check_make(&kernel, &check), BT_OK);
    assert_int_equal(run_check(check, render_other, &kernel, &box, 1u << BTI_TEXT_PLAIN), BT_INTERNAL);
    assert_int_equal(*output, 1234);
    assert_non_null(strstr(bt_error_text(), "check_kernels"));
    assert_non_null(strstr(bt_error_text(), "max"));
    bti_check_free(check);
    free(memory);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(differences_are_told), cmocka_unit_test(typical_ones),
        cmocka_unit_test(narrow_columns),       cmocka_unit_test(long_rows),
        cmocka_unit_test(random_words),         cmocka_unit_test(small_ones),
        cmocka_unit_test(large_ones),           cmocka_unit_test(short_lines),
    };
    return cmocka_run_group_tests(tests, start, NULL);
}
