/* Products by lines: the bits of the sums that line.h describes, on all targets, for both contiguous axes, at any alignment and in any part. */
#include "drivers/cpu/product/line.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "drivers/cpu/target.h"
#include "reference/operand.h"

static const bt_dtype dtypes[] = {BT_F32, BT_F64, BT_F16, BT_BF16, BT_I32, BT_U32, BT_I64, BT_U64};
enum { DTYPES = sizeof dtypes / sizeof *dtypes, ROOM = 64 };

static uint64_t random_state = 5;
static uint64_t random_bits(void) {
    return (random_state = random_state * 6364136223846793005u + 1442695040888963407u) >> 20;
}

/* Elements at an address that is a multiple of their size and of nothing else. */
static char *make(bt_dtype dtype, int64_t count, char **memory) {
    int64_t size = (int64_t)bt_dtype_size(dtype);
    *memory = bti_alloc_aligned(64, (size_t)((count + ROOM) * size));
    assert_non_null(*memory);
    char *at = *memory + size * (int64_t)(1 + random_bits() % 7);
    for (int64_t i = 0; i < count; i++) {
        double number = (double)(random_bits() % 4001) / 7 - 285;
        bti_lane_block_write(BTI_LANE_F64, &number, dtype, at + i * size, 0, 1);
    }
    return at;
}

/* One element as it should be. */
static void sum_of(const bti_line_task *t, int64_t vector, int64_t i, char *to) {
    bool is_f64 = t->dtype == BT_F64, wide = bt_dtype_size(t->dtype) == 8;
    float s32[8] = {0};
    double s64[8] = {0};
    uint64_t whole = 0;
    for (int64_t k = 0; k < t->depth; k++) {
        uint64_t m[1] = {0}, x[1] = {0};
        bti_tile_read(t->target, t->dtype, (char *)m, 8, t->matrix.at + i * t->matrix.row + k * t->matrix.column, 0, 1);
        bti_tile_read(t->target, t->dtype, (char *)x, 8, t->x.at + vector * t->x.row + k * t->x.column, 0, 1);
        float a, b;
        double c, d;
        memcpy(&a, m, 4), memcpy(&b, x, 4), memcpy(&c, m, 8), memcpy(&d, x, 8);
        if (is_f64)
            s64[k % 8] += c * d;
        else
            s32[k % 8] += a * b;
        whole += *m * *x;
    }
    for (int w = 4; w; w /= 2)
        for (int r = 0; r < w; r++) s32[r] += s32[r + w], s64[r] += s64[r + w];
    bool is_whole = t->dtype != BT_F16 && t->dtype != BT_BF16 && t->dtype != BT_F32 && !is_f64;
    uint32_t low = (uint32_t)whole;
    const void *from = is_whole ? wide ? (void *)&whole : (void *)&low : is_f64 ? (void *)s64 : (void *)s32;
    bti_tile_write(t->dtype, to, 8, from, 1);
}

static void check(const bti_line_task *t, const char *what) {
    int64_t size = (int64_t)bt_dtype_size(t->dtype);
    for (int64_t v = 0; v < t->vectors; v++)
        for (int64_t i = 0; i < t->count; i++) {
            uint64_t should[1] = {0};
            sum_of(t, v, i, (char *)should);
            if (memcmp(t->out.at + v * t->out.row + i * t->out.column, should, (size_t)size))
                fail_msg("%s: %s, %ld vectors, %ld x %ld: [%ld, %ld] differs", what, bt_dtype_name(t->dtype),
                         (long)t->vectors, (long)t->count, (long)t->depth, (long)v, (long)i);
        }
}

/* In one piece, then in two: without the first of the elements. */
static void run(bti_line_task *t, const char *what) {
    static const bti_target targets[] = {BTI_LLVM_SSE2, BTI_LLVM_AVX2, BTI_LLVM_AVX512, BTI_LLVM_NEON};
    for (int i = 0; i < 4; i++) {
        if (!bti_cpu_has(targets[i])) continue;
        t->target = targets[i];
        assert_int_equal(bti_line_multiply(t), BT_OK);
        check(t, what);
        if (t->count < 2) continue;
        bti_line_task part = *t;
        part.count--, part.matrix.at += t->matrix.row, part.out.at += t->out.column;
        assert_int_equal(bti_line_multiply(&part), BT_OK);
        check(t, "a part");
    }
}

static void all(void **state) {
    static const int64_t sides[][2] = {{1, 1},     {3, 1},   {9, 2},    {5, 3},    {130, 4},  {6, 5},
                                       {33, 6},    {7, 7},   {8, 8},    {21, 17},  {4, 100},  {600, 9},
                                       {1100, 16}, {2, 900}, {515, 13}, {200, 40}, {1100, 65}};
    for (int d = 0; d < DTYPES; d++)
        for (int s = 0; s < 17; s++)
            for (int64_t vectors = 1; vectors <= 3; vectors += 2) {
                int64_t count = sides[s][0], depth = sides[s][1], size = (int64_t)bt_dtype_size(dtypes[d]);
                char *memory[3];
                bti_line_task t = {.dtype = dtypes[d], .vectors = vectors, .count = count, .depth = depth};
                t.matrix = (bti_matrix){make(t.dtype, (count + 1) * (depth + 1), &memory[0]), depth * size, size};
                t.x = (bti_matrix){make(t.dtype, vectors * depth, &memory[1]), depth * size, size};
                t.out = (bti_matrix){make(t.dtype, vectors * count, &memory[2]), count * size, size};
                assert_true(bti_line_is_readable(&t));
                run(&t, "along");
                t.matrix.row = (depth + 1) * size;
                t.x.row = size, t.x.column = vectors * size;
                t.out.row = size, t.out.column = vectors * size;
                run(&t, "along, with gaps, turned vectors and results");
                t.matrix.row = size, t.matrix.column = (count + 1) * size;
                assert_true(bti_line_is_readable(&t));
                run(&t, "across");
                t.matrix.at += (depth - 1) * t.matrix.column, t.matrix.column = -t.matrix.column;
                run(&t, "across, backwards");
                for (int i = 0; i < 3; i++) bti_free(memory[i]);
            }
}

static void readable(void **state) {
    bti_line_task t = {.dtype = BT_F32, .vectors = 1, .count = 5, .depth = 6, .matrix = {NULL, 80, 8}};
    assert_false(bti_line_is_readable(&t));
    t.count = 1;
    assert_true(bti_line_is_readable(&t));
    t.count = 5, t.depth = 1;
    assert_true(bti_line_is_readable(&t));
    assert_true(bti_line_has(BT_BF16) && bti_line_has(BT_I64) && !bti_line_has(BT_I8) && !bti_line_has(BT_BOOL));
}

/* Halves and vectors with gaps need scratch: on the stack, or allocated. */
static void memory_short(void **state) {
    char *memory[3];
    bti_line_task t = {.target = bti_cpu_target(), .dtype = BT_BF16, .vectors = 2, .count = 10, .depth = 5000};
    t.matrix = (bti_matrix){make(BT_BF16, 50000, &memory[0]), 10000, 2};
    t.x = (bti_matrix){make(BT_BF16, 10000, &memory[1]), 10000, 2};
    t.out = (bti_matrix){make(BT_BF16, 20, &memory[2]), 20, 2};
    bti_alloc_fail_at(1, false);
    assert_int_equal(bti_line_multiply(&t), BT_RESOURCE_EXHAUSTED);
    bti_alloc_fail_at(0, false);
    assert_int_equal(bti_line_multiply(&t), BT_OK);
    check(&t, "scratch");
    for (int i = 0; i < 3; i++) bti_free(memory[i]);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(all), cmocka_unit_test(readable),
                                       cmocka_unit_test(memory_short)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
