// labels: threads
// env: BERTH_FLAGS=threads=2,kernels=auto
// timeout: 300
/* Products compared with the interpreter for every way of computing them, and the same bits for any number of cores. */
#include "drivers/cpu/product/product.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <berth/flags.h>
#include <cmocka.h>

#include "base/alloc.h"
#include "base/cores.h"
#include "base/flags.h"
#include "base/test_depth.h"
#include "ir/dtype.h"
#include "reference/interp.h"
#include "reference/operand.h"

typedef enum layout { PLAIN, TRANSPOSED, REPEATED, GAPS, BACKWARDS, LAYOUTS } layout;
static const char *const layout_names[] = {"plain", "transposed", "repeated", "gaps", "backwards"};
static const char *const nothing[] = {NULL};
static const bt_dtype dtypes[] = {BT_F32, BT_F64, BT_F16, BT_BF16, BT_I8,  BT_I16,
                                  BT_I32, BT_I64, BT_U8,  BT_U16,  BT_U32, BT_U64};
enum { DTYPES = sizeof dtypes / sizeof *dtypes };

typedef struct matrices {
    bti_operand operand;
    char *memory;
} matrices;

static uint64_t random_state = 1;
static uint64_t random_bits(void) {
    return (random_state = random_state * 6364136223846793005u + 1442695040888963407u) >> 20;
}

static matrices make(bt_dtype dtype, int64_t batches, int64_t rows, int64_t columns, layout how) {
    matrices m = {.operand = {.dtype = dtype, .rank = 3, .shape = {batches, rows, columns}}};
    int64_t gap = how == GAPS ? 3 : 1, count = batches * rows * columns * gap + 64;
    int64_t size = (int64_t)bt_dtype_size(dtype);
    int64_t *stride = m.operand.stride;
    stride[0] = rows * columns * gap, stride[1] = columns * gap, stride[2] = gap;
    if (how == TRANSPOSED) stride[1] = 1, stride[2] = rows;
    if (how == REPEATED) stride[0] = 0;
    m.memory = bti_alloc_aligned(64, (size_t)(count * size));
    assert_non_null(m.memory);
    double values[BTI_BLOCK];
    int64_t whole[BTI_BLOCK];
    for (int64_t i = 0; i < count; i += BTI_BLOCK) {
        int n = bti_lane_block_count(count - i);
        for (int k = 0; k < n; k++) {
            whole[k] = (int64_t)(random_bits() << 24 ^ random_bits());
            values[k] = (double)(int64_t)(random_bits() % 2001) / 1000 - 1;
        }
        bool is_float = bti_dtype_is_float(dtype);
        bti_lane_block_write(is_float ? BTI_LANE_F64 : BTI_LANE_I64, is_float ? (void *)values : (void *)whole, dtype,
                             m.memory + i * size, size, n);
    }
    m.operand.address = (uint64_t)(uintptr_t)m.memory;
    if (how == BACKWARDS) {
        m.operand.address += (uint64_t)((rows - 1) * stride[1] * size);
        stride[1] = -stride[1];
    }
    return m;
}

static double value_at(const matrices *m, int64_t batch, int64_t row, int64_t column) {
    bti_lane_block block;
    const bti_operand *o = &m->operand;
    const char *at =
        bti_address(o) + batch * bti_axis_step(o, 0) + row * bti_axis_step(o, 1) + column * bti_axis_step(o, 2);
    const void *value = bti_lane_block_read(&block, o->dtype, at, 0, 1);
    return bti_lane_of(o->dtype) == BTI_LANE_F32 ? (double)*(const float *)value : *(const double *)value;
}

/* The unit in the last place of 1, and what the sum of k products may be off by in it. */
static double tolerance(bt_dtype dtype, int64_t k) {
    double units = 4 + sqrt((double)k) * 2;
    switch (dtype) {
    case BT_F64: return units * 0x1p-53;
    case BT_F16: return units * 0x1p-24 + 0x1p-10;
    case BT_BF16: return units * 0x1p-24 + 0x1p-7;
    default: return units * 0x1p-24;
    }
}

static void expect_same(const matrices *is, const matrices *should, int64_t k, const char *what) {
    const int64_t *shape = is->operand.shape;
    if (!bti_dtype_is_float(is->operand.dtype)) {
        for (int64_t b = 0; b < shape[0]; b++)
            for (int64_t i = 0; i < shape[1]; i++)
                for (int64_t j = 0; j < shape[2]; j++) {
                    int64_t at[2];
                    const matrices *both[] = {is, should};
                    for (int w = 0; w < 2; w++)
                        at[w] = b * bti_axis_step(&both[w]->operand, 0) + i * bti_axis_step(&both[w]->operand, 1) +
                                j * bti_axis_step(&both[w]->operand, 2);
                    if (memcmp(bti_address(&is->operand) + at[0], bti_address(&should->operand) + at[1],
                               bt_dtype_size(is->operand.dtype)))
                        fail_msg("%s: [%ld, %ld, %ld] differs", what, (long)b, (long)i, (long)j);
                }
        return;
    }
    double allowed = tolerance(is->operand.dtype, k) * (1 + sqrt((double)k));
    for (int64_t b = 0; b < shape[0]; b++)
        for (int64_t i = 0; i < shape[1]; i++)
            for (int64_t j = 0; j < shape[2]; j++) {
                double x = value_at(is, b, i, j), y = value_at(should, b, i, j);
                if (!(fabs(x - y) <= allowed))
                    fail_msg("%s: [%ld, %ld, %ld] is %.9g, should be %.9g", what, (long)b, (long)i, (long)j, x, y);
            }
}

static void expect_equal_bits(const matrices *a, const matrices *b, const char *what) {
    const int64_t *shape = a->operand.shape;
    size_t bytes = (size_t)(shape[0] * shape[1] * shape[2]) * bt_dtype_size(a->operand.dtype);
    if (memcmp(a->memory, b->memory, bytes)) fail_msg("%s: bits differ on one core", what);
}

static void try_product(bt_dtype dtype, int64_t batches, int64_t m, int64_t n, int64_t k, layout how_a, layout how_b,
                        layout how_out) {
    char what[160];
    snprintf(what, sizeof what, "%s %ld of %ld x %ld x %ld, %s by %s into %s", bt_dtype_name(dtype), (long)batches,
             (long)m, (long)k, (long)n, layout_names[how_a], layout_names[how_b], layout_names[how_out]);
    matrices a = make(dtype, batches, m, k, how_a), b = make(dtype, batches, k, n, how_b);
    matrices out = make(dtype, batches, m, n, how_out), should = make(dtype, batches, m, n, PLAIN);
    bti_operand inputs[] = {a.operand, b.operand};
    bti_work work = {.op = BTI_OP_matmul, .input_count = 2, .inputs = inputs, .output = should.operand};
    assert_int_equal(bti_interpret(&work), BT_OK);
    work.output = out.operand;
    assert_int_equal(bti_product(&work), BT_OK);
    expect_same(&out, &should, k, what);
    if (how_out == PLAIN) {
        matrices alone = make(dtype, batches, m, n, PLAIN);
        work.output = alone.operand;
        int before = bti_cores_limit(1);
        assert_int_equal(bti_product(&work), BT_OK);
        bti_cores_limit(before);
        expect_equal_bits(&out, &alone, what);
        bti_free(alone.memory);
    }
    bti_free(a.memory), bti_free(b.memory), bti_free(out.memory), bti_free(should.memory);
}

static void all_sizes(void) {
    static const int64_t sides[] = {1, 3, 8, 16, 17, 33};
    for (int d = 0; d < DTYPES; d++)
        for (int i = 0; i < 6; i++)
            for (int j = 0; j < 6; j++)
                for (int k = 0; k < 6; k++)
                    try_product(dtypes[d], 2, sides[i], sides[j], sides[k], PLAIN, PLAIN, PLAIN);
}

static void all_layouts(void) {
    static const int64_t sides[][3] = {{5, 7, 6}, {1, 40, 300}, {40, 1, 300}, {65, 40, 64}};
    for (int d = 0; d < DTYPES; d++)
        for (int s = 0; s < 4; s++)
            for (int a = 0; a < LAYOUTS; a++)
                for (int b = 0; b < LAYOUTS; b++)
                    for (int out = 0; out < LAYOUTS; out++)
                        if (out != REPEATED && test_is_drawn(7))
                            try_product(dtypes[d], 3, sides[s][0], sides[s][1], sides[s][2], (layout)a, (layout)b,
                                        (layout)out);
}

/* Around tiles of our own, runs over k, and where libraries' products are cut. */
static void large_ones(void) {
    static const int64_t sides[][3] = {{63, 255, 257}, {64, 256, 256}, {65, 257, 513}, {129, 129, 1030}, {300, 270, 50},
                                       {20, 500, 700}, {500, 20, 700}, {1, 3000, 600}, {3000, 1, 600},   {2, 900, 600},
                                       {900, 4, 600},  {1, 2, 9000},   {7, 800, 64}};
    for (int d = 0; d < DTYPES; d++)
        for (int s = 0; s < 13; s++) {
            if (!test_is_drawn(5)) continue;
            try_product(dtypes[d], 1, sides[s][0], sides[s][1], sides[s][2], PLAIN, PLAIN, PLAIN);
            try_product(dtypes[d], 1, sides[s][0], sides[s][1], sides[s][2], TRANSPOSED, TRANSPOSED, PLAIN);
        }
}

static void sizes(void **state) { all_sizes(); }
static void layouts(void **state) { all_layouts(); }
static void large(void **state) { large_ones(); }

static void without_libraries(void **state) {
    bti_product_use(nothing, nothing);
    bti_product_state now;
    bti_product_look(&now, true);
    assert_false(now.onednn.opened || now.openblas.opened);
    assert_non_null(strstr(now.onednn.reason, "libdnnl2"));
    assert_non_null(strstr(now.openblas.reason, "libopenblas0-openmp"));
    all_layouts();
    large_ones();
    bti_product_use(NULL, NULL);
}

static void libraries_that_lack_something(void **state) {
    static const char *const wrong[] = {"libno-such-thing.so.1", "libm.so.6", NULL};
    bti_product_use(wrong, wrong);
    bti_product_state now;
    bti_product_look(&now, true);
    assert_non_null(strstr(now.onednn.reason, "libno-such-thing.so.1"));
    assert_non_null(strstr(now.onednn.reason, "libm.so.6: has no dnnl_version"));
    assert_non_null(strstr(now.openblas.reason, "libm.so.6: has no cblas_dgemm"));
    try_product(BT_F32, 1, 100, 100, 100, PLAIN, PLAIN, PLAIN);
    bti_product_use(NULL, NULL);
}

/* Our own loops: equal bits for every width of vector. */
static void same_bits_on_all_targets(void **state) {
    static const char *const targets[] = {"sse2", "avx2", "avx512"};
    bti_product_use(nothing, nothing);
    for (int d = 0; d < DTYPES; d++) {
        matrices a = make(dtypes[d], 1, 37, 300, PLAIN), b = make(dtypes[d], 1, 300, 69, TRANSPOSED), out[3];
        bti_operand inputs[] = {a.operand, b.operand};
        for (int t = 0; t < 3; t++) {
            assert_int_equal(bt_set_flag("vector", targets[t]), BT_OK);
            out[t] = make(dtypes[d], 1, 37, 69, PLAIN);
            bti_work work = {.op = BTI_OP_matmul, .input_count = 2, .inputs = inputs, .output = out[t].operand};
            assert_int_equal(bti_product(&work), BT_OK);
            if (t) expect_equal_bits(&out[0], &out[t], targets[t]);
        }
        for (int t = 0; t < 3; t++) bti_free(out[t].memory);
        bti_free(a.memory), bti_free(b.memory);
    }
    assert_int_equal(bt_set_flag("vector", "auto"), BT_OK);
    bti_product_use(NULL, NULL);
}

/* A part of wider rows: `columns` of them, whose elements are those of `from`. */
static matrices widened(const matrices *from, int64_t columns) {
    const int64_t *shape = from->operand.shape;
    matrices wide = make(BT_F32, 1, shape[1], columns, PLAIN);
    wide.operand.shape[2] = shape[2];
    for (int64_t i = 0; i < shape[1]; i++)
        memcpy(wide.memory + i * columns * 4, from->memory + i * shape[2] * 4, (size_t)shape[2] * 4);
    return wide;
}

static matrices turned(matrices x) {
    bti_operand *o = &x.operand;
    const int64_t rows = o->shape[1], stride = o->stride[1];
    o->shape[1] = o->shape[2], o->shape[2] = rows;
    o->stride[1] = o->stride[2], o->stride[2] = stride;
    return x;
}

/* Operands whose rows are 4 KiB apart are moved before a library reads them: the same bits. */
static void strides_that_conflict(void **state) {
    assert_int_equal(bt_set_flag("vector", "avx2"), BT_OK);
    matrices a = make(BT_F32, 1, 200, 256, PLAIN), b = make(BT_F32, 1, 200, 300, PLAIN), out[2];
    for (int apart = 0; apart < 2; apart++) {
        matrices wide_a = widened(&a, apart ? 1024 : 1040), wide_b = widened(&b, apart ? 1024 : 1040);
        bti_operand inputs[] = {turned(wide_a).operand, wide_b.operand};
        out[apart] = make(BT_F32, 1, 256, 300, PLAIN);
        bti_work work = {.op = BTI_OP_matmul, .input_count = 2, .inputs = inputs, .output = out[apart].operand};
        assert_int_equal(bti_product(&work), BT_OK);
        bti_free(wide_a.memory), bti_free(wide_b.memory);
    }
    expect_equal_bits(&out[0], &out[1], "with other strides");
    for (int i = 0; i < 2; i++) bti_free(out[i].memory);
    bti_free(a.memory), bti_free(b.memory);
    assert_int_equal(bt_set_flag("vector", "auto"), BT_OK);
}

static void empty_ones(void **state) {
    for (int d = 0; d < DTYPES; d++) {
        try_product(dtypes[d], 2, 70, 300, 0, PLAIN, PLAIN, PLAIN); /* zeros */
        try_product(dtypes[d], 0, 4, 4, 4, PLAIN, PLAIN, PLAIN);
        try_product(dtypes[d], 2, 0, 4, 4, PLAIN, PLAIN, PLAIN);
        try_product(dtypes[d], 2, 4, 0, 4, PLAIN, PLAIN, PLAIN);
    }
}

static void more_batches(void **state) {
    try_product(BT_F32, 1000, 16, 16, 16, PLAIN, PLAIN, PLAIN);
    try_product(BT_F32, 64, 32, 48, 40, PLAIN, REPEATED, PLAIN); /* one product of 2048 rows */
    matrices a = make(BT_F32, 6, 9, 11, PLAIN), b = make(BT_F32, 3, 11, 5, PLAIN), out = make(BT_F32, 6, 9, 5, PLAIN),
             should = make(BT_F32, 6, 9, 5, PLAIN);
    /* [2, 3, 9, 11] x [1 repeated, 3, 11, 5] */
    bti_operand inputs[] = {{a.operand.address, BT_F32, 4, {2, 3, 9, 11}, {297, 99, 11, 1}},
                            {b.operand.address, BT_F32, 4, {2, 3, 11, 5}, {0, 55, 5, 1}}};
    bti_work work = {.op = BTI_OP_matmul,
                     .input_count = 2,
                     .inputs = inputs,
                     .output = {should.operand.address, BT_F32, 4, {2, 3, 9, 5}, {135, 45, 5, 1}}};
    assert_int_equal(bti_interpret(&work), BT_OK);
    work.output.address = out.operand.address;
    assert_int_equal(bti_product(&work), BT_OK);
    expect_same(&out, &should, 11, "rank 4");
    bti_free(a.memory), bti_free(b.memory), bti_free(out.memory), bti_free(should.memory);
}

static void primitives_are_bounded(void **state) {
    bti_product_state now;
    if (!bti_onednn_has_bf16()) skip();
    bti_product_use(NULL, NULL); /* counts from 0 */
    for (int round = 0; round < 2; round++)
        for (int i = 0; i < 10; i++) try_product(BT_BF16, 1, 40 + i, 40, 40, PLAIN, PLAIN, PLAIN);
    bti_product_look(&now, false);
    assert_int_equal(now.primitives.made, 10);
    assert_int_equal(now.primitives.kept, 10);
    assert_int_equal(now.primitives.evicted, 0);
    for (int i = 0; i < 2 * BTI_DNNL_PRIMITIVES; i++) try_product(BT_BF16, 1, 40 + i, 41, 40, PLAIN, PLAIN, PLAIN);
    bti_product_look(&now, false);
    assert_int_equal(now.primitives.kept, BTI_DNNL_PRIMITIVES);
    assert_int_equal(now.primitives.made, 10 + 2 * BTI_DNNL_PRIMITIVES);
    assert_int_equal(now.primitives.evicted, 10 + BTI_DNNL_PRIMITIVES);
}

static void memory_short(void **state) {
    static const bt_dtype some[] = {BT_F32, BT_BF16, BT_F16, BT_I16};
    for (int d = 0; d < 4; d++)
        for (int how = 0; how < 2; how++) {
            matrices a = make(some[d], 1, 100, 300, how ? BACKWARDS : PLAIN), b = make(some[d], 1, 300, 70, PLAIN),
                     out = make(some[d], 1, 100, 70, how ? GAPS : PLAIN);
            bti_operand inputs[] = {a.operand, b.operand};
            bti_work work = {.op = BTI_OP_matmul, .input_count = 2, .inputs = inputs, .output = out.operand};
            assert_int_equal(bti_product(&work), BT_OK);
            for (uint64_t nth = 1;; nth++) {
                bti_alloc_fail_at(nth, true);
                bt_status status = bti_product(&work);
                uint64_t asked = bti_alloc_count();
                bti_alloc_fail_at(0, false);
                if (asked < nth) break;
                assert_int_equal(status, BT_RESOURCE_EXHAUSTED);
            }
            bti_free(a.memory), bti_free(b.memory), bti_free(out.memory);
        }
}

static int end(void **state) {
    bti_product_use(NULL, NULL);
    bti_cores_shutdown();
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sizes),
        cmocka_unit_test(layouts),
        cmocka_unit_test(large),
        cmocka_unit_test(without_libraries),
        cmocka_unit_test(libraries_that_lack_something),
        cmocka_unit_test(same_bits_on_all_targets),
        cmocka_unit_test(strides_that_conflict),
        cmocka_unit_test(empty_ones),
        cmocka_unit_test(more_batches),
        cmocka_unit_test(primitives_are_bounded),
        cmocka_unit_test(memory_short),
    };
    return cmocka_run_group_tests(tests, NULL, end);
}
