// timeout: 1800
/* Primitives that devices which load C run whole, by the OpenCL that is installed, against the interpreter: every byte of
 * the output's memory. Sums are of quarters, so that they are exact in any order. BERTH_TEST_LONG: all
 * dtypes and shapes. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "base/test_depth.h"
#include "support/opencl_device.h"

/* Those that texts differ for most come first. */
static const bt_dtype dtypes[] = {BT_F32, BT_I8,  BT_F16, BT_U64, BT_BOOL, BT_BF16, BT_F64,
                                  BT_I16, BT_I32, BT_I64, BT_U8,  BT_U16,  BT_U32};
/* One of the first `count`; mostly the plain one, for each other one takes kernels that move elements, which are slow to compile. */
static layout any_layout(int count) {
    uint64_t bits = random_bits();
    return test_is_long() || bits % 8 == 0 ? (layout)(bits / 8 % (uint64_t)count) : DENSE;
}
static int dtype_count(void) { return test_is_long() ? 13 : 1; }
static int step(int wide) { return test_is_long() ? 1 : wide; }

/* --- along an axis -------------------------------------------------------------------------------------------------- */

static const int64_t line_shapes[][4] = {{1, 1, 1, 1},    {1, 1, 1, 7},    {2, 3, 5, 4},    {1, 1, 3, 300},
                                         {1, 2, 1, 2048}, {1, 1, 2, 2049}, {1, 1, 1, 5000}, {70, 1, 33, 2},
                                         {1, 0, 3, 2},    {40, 3, 1, 64},  {1, 1, 3, 9000}, {0, 1, 1, 1}};
enum { LINE_SHAPES = 12 };

static void running_of(bti_op op, bt_dtype dtype) {
    program p = load(op, 1, &dtype, dtype);
    for (int s = 0; s < LINE_SHAPES; s++)
        for (int axis = 0; axis < 4; axis++)
            for (int backwards = 0; backwards < 2; backwards++) {
                value x = make(dtype, 4, line_shapes[s], any_layout(LAYOUTS));
                fill(x.memory, x.bytes, dtype, false);
                value y = make(dtype, 4, line_shapes[s], any_layout(SPREAD));
                int64_t attr[2] = {axis, backwards};
                expect_the_same(&p, 1, &x, &y, attr, 2);
                drop(&x), drop(&y);
            }
    unload(&p);
}

static void orders_of(bti_op op, bt_dtype dtype) {
    program p = load(op, 1, &dtype, dtype);
    for (int s = 0; s < LINE_SHAPES; s++)
        for (int axis = 0; axis < 4; axis++) {
            value x = make(dtype, 4, line_shapes[s], any_layout(LAYOUTS));
            fill(x.memory, x.bytes, dtype, true);
            int64_t length = line_shapes[s][axis];
            expect_the_same_order(&p, &x, axis, length < 20 ? length : length / 7, (unsigned)(1 + (s + axis) % 3),
                                  any_layout(SPREAD));
            drop(&x);
        }
    unload(&p);
}

static void sorted(void **state) {
    for (int d = 0; d < dtype_count(); d++) orders_of(BTI_OP_sort, dtypes[d]), orders_of(BTI_OP_top_k, dtypes[d]);
}

static void summed(void **state) {
    for (int d = 0; d < dtype_count(); d++)
        if (dtypes[d] != BT_BOOL) running_of(BTI_OP_cumsum, dtypes[d]);
    running_of(BTI_OP_cumprod, BT_I16);
    running_of(BTI_OP_cummax, BT_BF16);
    running_of(BTI_OP_cummin, BT_BOOL);
}

/* --- by indices ----------------------------------------------------------------------------------------------------- */

static const int64_t shapes[][3] = {{20, 40, 50}, {7, 1, 9}, {100, 2, 64}, {1, 200, 5},
                                    {3000, 1, 1}, {3, 0, 2}, {5, 4, 16}};
enum { SHAPES = 7 };

static void rows(bti_op op, bt_dtype dtype, bt_dtype index) {
    program p = load(op, op == BTI_OP_take ? 2 : 3, (bt_dtype[]){dtype, index, dtype}, dtype);
    for (int s = 0; s < SHAPES; s += step(3))
        for (int axis = 0; axis < 3; axis++)
            for (int count = 0; count < 2500; count = count ? count * 17 : 1) {
                int64_t shape[3], indices = count;
                memcpy(shape, shapes[s], sizeof shape);
                value x = make(dtype, 3, shape, any_layout(LAYOUTS)), y, z;
                value i = make(index, 1, &indices, any_layout(SPREAD));
                fill_indices(&i, shape[axis], true);
                if (op == BTI_OP_take) {
                    shape[axis] = count;
                    y = make(dtype, 3, shape, any_layout(SPREAD));
                    expect_the_same(&p, 2, (value[]){x, i}, &y, (int64_t[]){axis}, 1);
                } else {
                    y = make(dtype, 3, shape, any_layout(SPREAD));
                    shape[axis] = count;
                    z = make(dtype, 3, shape, any_layout(LAYOUTS));
                    expect_the_same(&p, 3, (value[]){x, i, z}, &y, (int64_t[]){axis}, 1);
                    drop(&z);
                }
                drop(&x), drop(&i), drop(&y);
            }
    unload(&p);
}

static void places(bti_op op, bt_dtype dtype, bt_dtype index) {
    program p = load(op, op == BTI_OP_gather_axis ? 2 : 3, (bt_dtype[]){dtype, index, dtype}, dtype);
    for (int s = 0; s < SHAPES; s += step(3))
        for (int axis = 0; axis < 3; axis++)
            for (int count = 0; count < 200; count = count ? count * 13 : 1) {
                int64_t shape[3], at[3];
                memcpy(shape, shapes[s], sizeof shape);
                memcpy(at, shapes[s], sizeof at);
                at[axis] = count;
                value x = make(dtype, 3, shape, any_layout(LAYOUTS)), z;
                value i = make(index, 3, at, any_layout(LAYOUTS));
                value y = make(dtype, 3, op == BTI_OP_gather_axis ? at : shape, any_layout(SPREAD));
                fill_indices(&i, shape[axis], true);
                if (op == BTI_OP_gather_axis)
                    expect_the_same(&p, 2, (value[]){x, i}, &y, (int64_t[]){axis}, 1);
                else {
                    z = make(dtype, 3, at, any_layout(LAYOUTS));
                    expect_the_same(&p, 3, (value[]){x, i, z}, &y, (int64_t[]){axis}, 1);
                    drop(&z);
                }
                drop(&x), drop(&i), drop(&y);
            }
    unload(&p);
}

static void updates(bt_dtype dtype, bt_dtype index) {
    program p = load(BTI_OP_update_slice, 3, (bt_dtype[]){dtype, index, dtype}, dtype);
    for (int s = 0; s < SHAPES; s++)
        for (int axis = 0; axis < 3; axis++)
            for (int64_t count = 0; count <= shapes[s][axis]; count = count ? count * 5 : 1) {
                int64_t shape[3], one = 1;
                memcpy(shape, shapes[s], sizeof shape);
                value x = make(dtype, 3, shape, any_layout(LAYOUTS)), y = make(dtype, 3, shape, any_layout(SPREAD));
                value i = make(index, 1, &one, DENSE);
                fill_indices(&i, shape[axis], true);
                shape[axis] = count;
                value z = make(dtype, 3, shape, any_layout(LAYOUTS));
                expect_the_same(&p, 3, (value[]){x, i, z}, &y, (int64_t[]){axis}, 1);
                drop(&x), drop(&i), drop(&y), drop(&z);
            }
    unload(&p);
}

static void updated(void **state) {
    for (int d = 0; d < dtype_count(); d++) updates(dtypes[d], d % 2 ? BT_I64 : BT_I32);
}

static void taken(void **state) {
    for (int d = 0; d < dtype_count(); d++) rows(BTI_OP_take, dtypes[d], d % 2 ? BT_I64 : BT_I32);
    for (int d = 0; d < dtype_count(); d++) rows(BTI_OP_scatter_add, dtypes[d], d % 2 ? BT_I32 : BT_I64);
}

static void placed(void **state) {
    for (int d = 0; d < dtype_count(); d++) places(BTI_OP_gather_axis, dtypes[d], d % 2 ? BT_I64 : BT_I32);
    for (int d = 0; d < dtype_count(); d++) places(BTI_OP_scatter_axis, dtypes[d], d % 2 ? BT_I32 : BT_I64);
    for (int d = 0; d < dtype_count(); d++) places(BTI_OP_scatter_set, dtypes[d], d % 2 ? BT_I32 : BT_I64);
    places(BTI_OP_scatter_max, BT_F32, BT_I32);
    places(BTI_OP_scatter_min, BT_I8, BT_I64);
}

/* --- joined ---------------------------------------------------------------------------------------------------------- */

static void padded(void **state) {
    static const int64_t before[3] = {1, 0, 3}, after[3] = {0, 2, 5};
    for (int d = 0; d < dtype_count(); d++) {
        bt_dtype dtype = dtypes[d];
        program p = load(BTI_OP_pad, 2, (bt_dtype[]){dtype, dtype}, dtype);
        for (int s = 0; s < SHAPES; s++) {
            int64_t shape[3];
            for (int axis = 0; axis < 3; axis++) shape[axis] = before[axis] + shapes[s][axis] + after[axis];
            value x = make(dtype, 3, shapes[s], s % 2 ? GAPS : DENSE), scalar = make(dtype, 0, NULL, DENSE);
            value y = make(dtype, 3, shape, s % 3 ? DENSE : TURNED);
            expect_the_same(&p, 2, (value[]){x, scalar}, &y, before, 3);
            drop(&x), drop(&scalar), drop(&y);
        }
        unload(&p);
    }
}

static void joined(void **state) {
    for (int d = 0; d < dtype_count(); d++) {
        bt_dtype dtype = dtypes[d];
        program p = load(BTI_OP_concat, 3, (bt_dtype[]){dtype, dtype, dtype}, dtype);
        for (int s = 0; s < SHAPES; s++)
            for (int axis = 0; axis < 3; axis++) {
                int64_t shape[3], all = 0;
                value x[3];
                memcpy(shape, shapes[s], sizeof shape);
                for (int i = 0; i < 3; i++) {
                    all += shape[axis] = shapes[s][axis] * i + 1;
                    x[i] = make(dtype, 3, shape, i == 1 ? GAPS : DENSE);
                }
                shape[axis] = all;
                value y = make(dtype, 3, shape, s % 3 ? DENSE : BACKWARDS);
                expect_the_same(&p, 3, x, &y, (int64_t[]){axis}, 1);
                for (int i = 0; i < 3; i++) drop(&x[i]);
                drop(&y);
            }
        unload(&p);
    }
}

/* --- products -------------------------------------------------------------------------------------------------------- */

static void multiplied(void **state) {
    static const int64_t sizes[][5] = {/* leading axes, M, K, N */
                                       {1, 1, 1, 1, 1},       {1, 1, 64, 16, 64},  {2, 3, 5, 7, 9},
                                       {1, 1, 130, 70, 65},   {1, 1, 1, 300, 200}, {1, 1, 200, 300, 1},
                                       {1, 1, 3, 0, 4},       {4, 1, 33, 17, 129}, {1, 1, 2, 5000, 3},
                                       {1, 1, 128, 129, 256}, {0, 1, 2, 2, 2},     {1, 2, 257, 33, 140}};
    for (int d = 0; d < dtype_count(); d++) {
        bt_dtype dtype = dtypes[d];
        if (dtype == BT_BOOL) continue;
        program p = load(BTI_OP_matmul, 2, (bt_dtype[]){dtype, dtype}, dtype);
        for (int s = 0; s < 12; s++)
            for (int how = 0; how < 6; how++) {
                const int64_t *n = sizes[s], a[] = {n[0], n[1], n[2], n[3]}, b[] = {n[0], n[1], n[3], n[4]},
                              out[] = {n[0], n[1], n[2], n[4]};
                layout of_x = how < 2 ? (layout)how : any_layout(LAYOUTS);
                layout of_y = how == 3 ? TURNED : how < 2 ? DENSE : any_layout(LAYOUTS);
                value x = make(dtype, 4, a, of_x), y = make(dtype, 4, b, of_y);
                value z = make(dtype, 4, out, how < 2 ? DENSE : any_layout(SPREAD));
                expect_the_same(&p, 2, (value[]){x, y}, &z, NULL, 0);
                drop(&x), drop(&y), drop(&z);
            }
        unload(&p);
    }
}

/* --- kernels of one instruction -------------------------------------------------------------------------------------- */

static void one_by_one(void **state) {
    static const bti_op ops[] = {BTI_OP_add, BTI_OP_lt, BTI_OP_maximum};
    for (int o = 0; o < 3; o++) {
        bt_dtype in = o ? BT_F32 : BT_I16, out = o == 1 ? BT_BOOL : in;
        program p = load(ops[o], 2, (bt_dtype[]){in, in}, out);
        for (int s = 0; s < SHAPES; s += 2) {
            value x[2] = {make(in, 3, shapes[s], s % 4 ? GAPS : TURNED), make(in, 3, shapes[s], SPREAD)};
            value y = make(out, 3, shapes[s], s ? DENSE : BACKWARDS);
            fill(x[0].memory, x[0].bytes, in, true);
            expect_the_same(&p, 2, x, &y, NULL, 0);
            drop(&x[0]), drop(&x[1]), drop(&y);
        }
        unload(&p);
    }
}

static void folded(void **state) {
    static const bti_op ops[] = {BTI_OP_sum, BTI_OP_max, BTI_OP_prod, BTI_OP_min};
    static const bt_dtype of[] = {BT_F32, BT_F16, BT_I8, BT_U64};
    for (int o = 0; o < 4; o += step(2)) {
        program p = load(ops[o], 1, &of[o], of[o]);
        for (int s = 0; s < SHAPES; s += step(4))
            for (int64_t axes = 1 + o % 2; axes < 8; axes += 1 + step(3)) {
                int64_t kept[3];
                for (int axis = 0; axis < 3; axis++) kept[axis] = axes >> axis & 1 ? 1 : shapes[s][axis];
                value x = make(of[o], 3, shapes[s], s % 2 ? DENSE : TURNED), y = make(of[o], 3, kept, DENSE);
                expect_the_same(&p, 1, &x, &y, &axes, 1);
                drop(&x), drop(&y);
            }
        unload(&p);
    }
}

static void moved(void **state) {
    static const bt_dtype of[] = {BT_U8, BT_F16, BT_F32, BT_I64};
    static const int64_t long_shape[8] = {2, 1, 3, 2, 1, 2, 3, 2};
    for (int d = 0; d < 4; d += step(2)) {
        program p = load(BTI_OP_copy, 1, &of[d], of[d]);
        for (int how = 0; how < LAYOUTS; how++)
            for (int to = 0; to < SPREAD; to++) {
                if (!test_is_drawn(3)) continue;
                bool is_long = how == TURNED && to == GAPS;
                int rank = is_long ? 8 : 3;
                value x = make(of[d], rank, is_long ? long_shape : shapes[0], (layout)how);
                value y = make(of[d], rank, is_long ? long_shape : shapes[0], (layout)to);
                expect_the_same(&p, 1, &x, &y, NULL, 0);
                drop(&x), drop(&y);
            }
        unload(&p);
    }
}

static void out_of_nothing(void **state) {
    int64_t length = 1000, scalar = 0x4008000000000000;
    program count = load(BTI_OP_iota, 0, NULL, BT_I64), constant = load(BTI_OP_const, 0, NULL, BT_F16);
    for (int how = 0; how < SPREAD; how++) {
        value x = make(BT_I64, 1, &length, (layout)how), y = make(BT_F16, 0, NULL, DENSE);
        expect_the_same(&count, 0, NULL, &x, NULL, 0);
        expect_the_same(&constant, 0, NULL, &y, &scalar, 1);
        drop(&x), drop(&y);
    }
    unload(&count), unload(&constant);
}

/* --- devices without float64 ----------------------------------------------------------------------------------------- */

static void narrow(void **state) {
    without_f64(true);
    if (test_is_long()) {
        orders_of(BTI_OP_sort, BT_BF16);
        running_of(BTI_OP_cumsum, BT_I32);
        rows(BTI_OP_scatter_add, BT_F32, BT_I32);
        places(BTI_OP_scatter_axis, BT_BF16, BT_I32);
    }
    running_of(BTI_OP_cumsum, BT_F16);
    without_f64(false);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sorted),  cmocka_unit_test(summed),     cmocka_unit_test(taken),
        cmocka_unit_test(updated), cmocka_unit_test(placed),     cmocka_unit_test(padded),
        cmocka_unit_test(joined),  cmocka_unit_test(multiplied), cmocka_unit_test(one_by_one),
        cmocka_unit_test(folded),  cmocka_unit_test(moved),      cmocka_unit_test(out_of_nothing),
        cmocka_unit_test(narrow),
    };
    if (!open_first()) return 77;
    int rc = cmocka_run_group_tests(tests, NULL, NULL);
    close_first();
    return rc;
}
