// labels: threads
// env: BERTH_FLAGS=threads=2,kernels=auto
// timeout: 300
/* Convolutions on the cores compared with the interpreter: each way of computing them, each way of cutting them, any strides, and memory that is short. The same bits for
 * any number of cores. */
#include "drivers/cpu/conv/conv.h"

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
#include "base/flags.h"
#include "drivers/cpu/product/product.h"
#include "ir/conv.h"
#include "ir/dtype.h"
#include "reference/conv.h"
#include "reference/interp.h"
#include "reference/operand.h"
#include "support/operands.h"

/* Axes of places, images, channels and outputs of a group, groups, then of each axis size, kernel, stride, zeros before, dilation, places of y. */
typedef struct window {
    const char *name;
    int axes;
    int64_t images, channels, outputs, groups;
    int64_t size[3], kernel[3], stride[3], before[3], dilation[3], made[3];
} window;

static const window windows[] = {
    {"images", 2, 4, 16, 32, 1, {20, 20}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {20, 20}},
    {"outputs", 2, 1, 32, 128, 1, {14, 14}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {14, 14}},
    {"channels", 2, 1, 128, 32, 1, {14, 14}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {14, 14}},
    {"depthwise", 2, 1, 1, 1, 64, {40, 40}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {40, 40}},
    {"groups", 2, 1, 16, 32, 4, {20, 20}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {20, 20}},
    {"sums", 2, 6, 4, 16, 1, {30, 30}, {5, 5}, {1, 1}, {2, 2}, {1, 1}, {30, 30}},
    {"strides", 2, 2, 3, 16, 1, {33, 31}, {7, 5}, {2, 3}, {3, 0}, {1, 1}, {17, 9}},
    {"gaps", 2, 2, 8, 8, 1, {19, 17}, {3, 2}, {1, 2}, {2, 1}, {2, 3}, {19, 8}},
    {"one element", 2, 2, 24, 40, 1, {12, 13}, {1, 1}, {1, 1}, {0, 0}, {1, 1}, {12, 13}},
    {"line", 1, 3, 16, 16, 1, {200}, {4}, {2}, {1}, {1}, {100}},
    {"space", 3, 2, 4, 16, 1, {6, 7, 8}, {3, 2, 3}, {1, 1, 2}, {1, 0, 1}, {1, 1, 1}, {6, 6, 4}},
    {"left over", 2, 2, 8, 8, 1, {9, 9}, {2, 2}, {3, 3}, {0, 0}, {1, 1}, {2, 2}}, /* fewer places than there could be */
};
enum { WINDOWS = sizeof windows / sizeof *windows };
static const bti_op ops[] = {BTI_OP_conv, BTI_OP_conv_data, BTI_OP_conv_weights};
static const char *const nothing[] = {NULL};

static double number_of(bt_dtype dtype) { return bti_dtype_is_float(dtype) ? chance() : floor(chance() * 9); }
static bti_operand make(bt_dtype dtype, int rank, const int64_t *shape, bool apart) {
    return make_operand(dtype, rank, shape, apart, number_of);
}

typedef struct trial {
    bti_work work;
    bti_attr attr;
    bti_operand inputs[2];
    int64_t products; /* that an element is the sum of */
} trial;

static void begin(trial *t, const window *of, bti_op op, bt_dtype dtype, bool apart) {
    int rank = 2 + of->axes;
    int64_t shape[BTI_CONV_ARRAYS][5] = {[BTI_CONV_X] = {of->images, of->groups * of->channels},
                                         [BTI_CONV_W] = {of->groups * of->outputs, of->channels},
                                         [BTI_CONV_Y] = {of->images, of->groups * of->outputs}};
    memset(t, 0, sizeof *t);
    t->attr.window.groups = of->groups;
    int64_t kernel = 1, places = 1;
    for (int i = 0; i < BTI_CONV_AXES; i++) {
        bool there = i < of->axes;
        t->attr.window.stride[i] = there ? of->stride[i] : 1;
        t->attr.window.dilation[i] = there ? of->dilation[i] : 1;
        t->attr.window.before[i] = there ? of->before[i] : 0;
        if (!there) continue;
        shape[BTI_CONV_X][2 + i] = of->size[i], shape[BTI_CONV_W][2 + i] = of->kernel[i];
        shape[BTI_CONV_Y][2 + i] = of->made[i];
        kernel *= of->kernel[i], places *= of->made[i];
    }
    t->products =
        op == BTI_OP_conv_weights ? of->images * places : kernel * (op == BTI_OP_conv ? of->channels : of->outputs);
    for (int i = 0; i < 2; i++) t->inputs[i] = make(dtype, rank, shape[bti_conv_input(op, i)], apart);
    t->work = (bti_work){.op = op,
                         .input_count = 2,
                         .inputs = t->inputs,
                         .output = make(dtype, rank, shape[bti_conv_made(op)], apart),
                         .attr = &t->attr};
}

static void end(const trial *t) { drop(&t->inputs[0]), drop(&t->inputs[1]), drop(&t->work.output); }

static double element(const bti_operand *o, int64_t number) {
    int64_t at = 0;
    for (int i = o->rank - 1; i >= 0; number /= o->shape[i], i--) at += number % o->shape[i] * o->stride[i];
    bti_lane_block block;
    const char *from = bti_address(o) + at * (int64_t)bt_dtype_size(o->dtype);
    const void *value = bti_lane_block_read(&block, o->dtype, from, 0, 1);
    if (bti_lane_of(o->dtype) == BTI_LANE_F32) return (double)*(const float *)value;
    return bti_dtype_is_float(o->dtype) ? *(const double *)value : (double)*(const int64_t *)value;
}

static void expect_same(const bti_operand *got, const bti_operand *want, double most, const char *what) {
    for (int64_t i = 0; i < bti_operand_count(want); i++) {
        double a = element(got, i), b = element(want, i);
        if (!(fabs(a - b) <= most)) fail_msg("%s: element %lld is %.9g, not %.9g", what, (long long)i, a, b);
    }
}

/* What the cores make of it, with one core and with three, beside the interpreter. */
static void try(const window *of, bti_op op, bt_dtype dtype, bool apart) {
    trial t;
    char what[120];
    snprintf(what, sizeof what, "%s of %s, %s%s", bti_op_info(op)->name, bt_dtype_name(dtype), of->name,
             apart ? ", apart" : "");
    begin(&t, of, op, dtype, apart);
    bti_operand made[2], want = make(dtype, t.work.output.rank, t.work.output.shape, false);
    bti_work work = t.work;
    work.output = want;
    assert_int_equal(bti_interpret(&work), BT_OK);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(bt_set_flag("threads", i ? "3" : "1"), BT_OK);
        work.output = made[i] = make(dtype, t.work.output.rank, t.work.output.shape, apart);
        if (bti_cpu_conv(&work) != BT_OK) fail_msg("%s: %s", what, bt_error_text());
    }
    double unit = dtype == BT_F64 ? 0x1p-52 : dtype == BT_F32 ? 0x1p-23 : 0;
    expect_same(&made[0], &want, unit * (double)t.products, what);
    expect_same(&made[1], &made[0], 0, what);
    drop(&made[0]), drop(&made[1]), drop(&want);
    end(&t);
}

/* Of the windows one in `every`, from one on. */
static void try_some(bt_dtype dtype, bool apart, int first, int every) {
    for (int w = first; w < WINDOWS; w += every)
        for (int o = 0; o < 3; o++) try(&windows[w], ops[o], dtype, apart);
}

static void as_the_interpreter(void **state) {
    (void)state;
    try_some(BT_F32, false, 0, 1);
    try_some(BT_F64, false, 6, 2);
    try_some(BT_I16, false, 7, 2);
}

static void any_strides(void **state) {
    (void)state;
    try_some(BT_F32, true, 5, 2);
    try_some(BT_F64, true, 6, 4);
}

/* x and y, whichever of them, with their channels last: the same bits as of dense ones. w as the launch before left it, too. */
static void channels_last(void **state) {
    (void)state;
    for (int w = 0; w < WINDOWS; w++)
        for (int o = 0; o < 3 * 4; o++) {
            trial t;
            begin(&t, &windows[w], ops[o % 3], BT_F32, false);
            assert_int_equal(bti_cpu_conv(&t.work), BT_OK);
            bti_operand dense = t.work.output, made = dense, inputs[2] = {t.inputs[0], t.inputs[1]};
            size_t bytes = (size_t)bti_operand_count(&inputs[1]) * sizeof(float) + 64;
            void *room = bti_alloc_aligned(64, bytes);
            atomic_uint_fast64_t form = 0;
            bti_work_packed packed = {(uint64_t)(uintptr_t)room, bytes, &form};
            for (int i = 0; i < 2; i++)
                if (bti_conv_input(t.work.op, i) != BTI_CONV_W && o / 3 & 1) {
                    bti_conv_lay_last(&inputs[i]);
                    inputs[i].address = (uint64_t)(uintptr_t)bti_alloc_aligned(
                        64, (size_t)bti_operand_count(&inputs[i]) * sizeof(float));
                    bti_copy_operand(&inputs[i], &t.inputs[i]);
                }
            made.address =
                (uint64_t)(uintptr_t)bti_alloc_aligned(64, (size_t)bti_operand_count(&dense) * sizeof(float));
            if (bti_conv_made(t.work.op) != BTI_CONV_W && o / 3 & 2) bti_conv_lay_last(&made);
            bti_work work = {.op = t.work.op,
                             .input_count = 2,
                             .inputs = inputs,
                             .output = made,
                             .attr = &t.attr,
                             .packed = &packed};
            for (int again = 0; again < 3; again++) {
                memset(bti_address(&made), 0xff, (size_t)bti_operand_count(&made) * sizeof(float));
                assert_int_equal(bti_cpu_conv(&work), BT_OK);
                expect_same(&made, &dense, 0, windows[w].name);
                assert_int_not_equal(form, 1);
            }
            for (int i = 0; i < 2; i++)
                if (inputs[i].address != t.inputs[i].address) drop(&inputs[i]);
            drop(&made);
            bti_free(room);
            end(&t);
        }
}

static void without_libraries(void **state) {
    (void)state;
    bti_product_use(nothing, nothing);
    try_some(BT_F32, false, 4, 2);
    bti_product_use(NULL, NULL);
}

/* No memory at the nth request: it fails with that, or did without. */
static void short_of_memory(void **state) {
    (void)state;
    for (int w = 0; w < WINDOWS; w += 5)
        for (int o = 0; o < 3; o++) {
            trial t;
            begin(&t, &windows[w], ops[o], BT_F32, true);
            assert_int_equal(bti_cpu_conv(&t.work), BT_OK); /* primitives are there */
            uint64_t nth = 1, asked = 1;
            for (; nth <= asked; nth++) {
                bti_alloc_fail_at(nth, false);
                bt_status status = bti_cpu_conv(&t.work);
                asked = bti_alloc_count();
                bti_alloc_fail_at(0, false);
                assert_int_equal(status, nth <= asked ? BT_RESOURCE_EXHAUSTED : BT_OK);
                bt_error_clear();
            }
            assert_true(nth > 3); /* it did ask */
            end(&t);
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(as_the_interpreter), cmocka_unit_test(any_strides),
                                       cmocka_unit_test(channels_last), cmocka_unit_test(without_libraries),
                                       cmocka_unit_test(short_of_memory)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
