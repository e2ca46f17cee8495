/* What the tests share that compare transformations with JAX's: cases by name, whose inputs and results are in a file that
 * tools/transform_cases.py writes. */
#ifndef BERTH_TESTS_TRANSFORMS_CASES_H
#define BERTH_TESTS_TRANSFORMS_CASES_H

#include <berth.h>

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define LIST(...) ((bt_array *[]){__VA_ARGS__})
#define AXES(...) ((const int[]){__VA_ARGS__})
#define SIZES(...) ((const int64_t[]){__VA_ARGS__})
#define OK(call) expect_ok(call, __LINE__)
enum { NO = BT_NOT_BATCHED, MOST = 8 };

static void expect_ok(bt_status status, int line) {
    if (status != BT_OK) fail_msg("line %d: %s", line, bt_error_text());
}

static bt_array *tangent1(bt_array *y, bt_array *x, bt_array *v) {
    bt_array *tangent;
    OK(bt_jvp(&y, 1, &x, &v, 1, &tangent));
    return tangent;
}

/* An input like an argument, without the axis of the batch. */
static bt_array *input_for(bt_array *argument, int axis) {
    bt_shape shape = bt_shape_of(argument), without = {.rank = 0};
    for (int i = 0; i < shape.rank; i++)
        if (axis == NO || i != axis) without.size[without.rank++] = shape.size[i];
    return bt_input_shape(bt_dtype_of(argument), without);
}

/* out[] of in[]; the functions of batches are made and called here. */
typedef void case_fn(bt_array **in, bt_array **out);
typedef struct transform_case {
    const char *name;
    case_fn *run;
} transform_case;

static void call_batched(bt_array **x, bt_array **y, bt_array **in, int in_count, bt_array **out, int out_count,
                         const int *in_axes, const int *out_axes) {
    bt_function *f = bt_vmap(bt_function_new(x, in_count, y, out_count, NULL, 0), in_axes, out_axes);
    OK(bt_call(f, in, in_count, out, out_count));
}

/* --- comparing -------------------------------------------------------------------------------------------------------- */

static void expect_same(const char *name, int result, bt_array *ours, bt_array *theirs) {
    bt_shape a = bt_shape_of(ours), b = bt_shape_of(theirs);
    double x[1024], y[1024], room = bt_dtype_of(ours) == BT_F64 ? 1e-12 : bt_dtype_of(ours) == BT_F32 ? 2e-5 : 0;
    size_t count = (size_t)bt_count(theirs);
    if (bt_block(ours) != BT_OK) fail_msg("%s: %s", name, bt_error_text());
    assert_int_equal(bt_dtype_of(ours), bt_dtype_of(theirs));
    if (a.rank != b.rank || memcmp(a.size, b.size, (size_t)a.rank * sizeof *a.size))
        fail_msg("%s: result %d has another shape", name, result);
    assert_true(count > 0 && count <= sizeof x / sizeof *x);
    OK(bt_read(bt_cast(ours, BT_F64), x, count * sizeof *x));
    OK(bt_read(bt_cast(theirs, BT_F64), y, count * sizeof *y));
    for (size_t i = 0; i < count; i++)
        if (!(fabs(x[i] - y[i]) <= room * (1 + fabs(y[i]))) && !(isnan(x[i]) && isnan(y[i])))
            fail_msg("%s: result %d [%zu] is %.17g, JAX has %.17g", name, result, i, x[i], y[i]);
}

static bt_array *tensor(bt_tensors *file, const char *name, const char *kind, int index) {
    char key[96];
    snprintf(key, sizeof key, "%s.%s.%d", name, kind, index);
    for (int i = 0; i < bt_tensors_count(file); i++)
        if (!strcmp(bt_tensors_name(file, i), key)) return bt_tensors_get(file, key);
    return NULL;
}

static int run_case(bt_tensors *file, const transform_case *c) {
    int in_count = 0, out_count = 0;
    BT_SCOPE {
        bt_array *in[MOST], *theirs[MOST], *ours[MOST];
        while (in_count < MOST && (in[in_count] = tensor(file, c->name, "in", in_count))) in_count++;
        while (out_count < MOST && (theirs[out_count] = tensor(file, c->name, "out", out_count))) out_count++;
        if (!in_count || !out_count) fail_msg("the file has no case %s", c->name);
        c->run(in, ours);
        for (int i = 0; i < out_count; i++) expect_same(c->name, i, ours[i], theirs[i]);
    }
    return in_count + out_count;
}

static void run_cases(const char *path, const transform_case *cases, int count) {
    bt_tensors *file;
    int tensors = 0;
    OK(bt_tensors_open(path, &file));
    for (int c = 0; c < count; c++) tensors += run_case(file, &cases[c]);
    assert_int_equal(tensors, bt_tensors_count(file)); /* no case of the file is left out */
    bt_tensors_close(file);
}

#endif
