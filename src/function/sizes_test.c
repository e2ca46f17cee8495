/* Functions whose inputs have unknown sizes beside the same operations called eagerly, for sizes 0 to 3: the same shape and elements, or an
 * error in both. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <berth.h>

#define COUNT(array) (int)(sizeof(array) / sizeof *(array))

/* --- bodies: of x, and of y where the row says so --------------------------------------------------------------------- */

typedef bt_array *body(bt_array *x, bt_array *y);
#define BODY(name, ...) \
    static bt_array *name(bt_array *x, bt_array *y) { return (void)x, (void)y, __VA_ARGS__; }

BODY(add, bt_add(x, y))
BODY(add_thrice, bt_add(bt_add(x, y), bt_add(y, x)))
BODY(ones_like_sum, bt_ones_like(bt_add(x, y)))
BODY(zeros_like_sum, bt_zeros_like(bt_mul(x, y)))
BODY(where_less, bt_where(bt_lt(x, y), x, y))
BODY(sub_mean, bt_sub(x, bt_mean(y, BT_AXES(-1), true)))
BODY(mse, bt_mse(x, y))
BODY(concat0, bt_concat(((bt_array *[]){x, y}), 2, 0))
BODY(concat_last, bt_concat(((bt_array *[]){x, y}), 2, -1))
BODY(stack, bt_stack(((bt_array *[]){x, y}), 2, 0))
BODY(matmul, bt_matmul(x, y))
BODY(matmul_t, bt_matmul_t(x, y, false, true))
BODY(outer, bt_mul(bt_expand_dims(x, -1), bt_expand_dims(y, 0)))
BODY(maximum, bt_maximum(x, y))
BODY(with_three, bt_add(x, BT_ARRAY(float, (3), 1, 2, 3)))
BODY(softmax, bt_softmax(x, -1))
BODY(softmax0, bt_softmax(x, 0))
BODY(log_softmax, bt_log_softmax(x, -1))
BODY(logsumexp, bt_logsumexp(x, BT_AXES(-1), false))
BODY(logsumexp_all, bt_logsumexp(x, BT_ALL, false))
BODY(all, bt_cast(bt_all(x, BT_AXES(-1), false), BT_F32))
BODY(any, bt_cast(bt_any(x, BT_ALL, true), BT_F32))
BODY(sum, bt_sum(x, BT_AXES(0), false))
BODY(prod, bt_prod(x, BT_ALL, false))
BODY(mean, bt_mean(x, BT_AXES(-1), false))
BODY(var, bt_var(x, BT_AXES(-1), true, 0))
BODY(std_dev, bt_std(x, BT_ALL, false, 1))
BODY(norm, bt_norm(x, BT_ALL, false))
BODY(max, bt_max(x, BT_AXES(-1), false))
BODY(min, bt_min(x, BT_ALL, false))
BODY(argmax, bt_cast(bt_argmax(x, -1), BT_F32))
BODY(cumsum, bt_cumsum(x, -1, true))
BODY(flip, bt_flip(x, BT_ALL))
BODY(sort, bt_sort(x, -1))
BODY(argsort, bt_cast(bt_argsort(x, 0), BT_F32))
BODY(flatten, bt_flatten(x, 0))
BODY(transpose, bt_transpose(x))
BODY(layer_norm, bt_layer_norm(x, NULL, NULL, 1e-5))
BODY(relu, bt_relu(x))
BODY(square_plus_one, bt_add(bt_square(x), bt_num(1)))
BODY(padded, bt_pad(bt_flatten(x, 0), (int64_t[]){1}, (int64_t[]){2}, 5))
BODY(first_two, bt_slice_axis(bt_flatten(x, 0), 0, 0, 2, 1))
BODY(to_pairs, bt_reshape(x, -1, 2))
BODY(take, bt_take(x, BT_ARRAY(int32_t, (2), 0, -1), 0))

typedef struct row {
    const char *name;
    body *run;
    int rank_x, rank_y; /* rank_y 0: it takes x alone */
    bool
        differs; /* unknown sizes are documented to differ: an error of the function is fine where the eager call has none */
} row;
#define ROW(name, ...) \
    { #name, name, __VA_ARGS__, false }
static const row rows[] = {
    ROW(add, 1, 1),
    ROW(add, 2, 2),
    ROW(add, 2, 1),
    ROW(add_thrice, 1, 1),
    ROW(ones_like_sum, 1, 1),
    ROW(ones_like_sum, 2, 1),
    ROW(zeros_like_sum, 1, 2),
    ROW(where_less, 1, 1),
    ROW(sub_mean, 1, 2),
    ROW(sub_mean, 2, 2),
    ROW(mse, 1, 1),
    ROW(concat0, 1, 1),
    ROW(concat0, 2, 2),
    ROW(concat_last, 2, 2),
    ROW(stack, 1, 1),
    ROW(matmul, 1, 1),
    ROW(matmul, 2, 1),
    ROW(matmul, 1, 2),
    ROW(matmul, 2, 2),
    ROW(matmul_t, 2, 2),
    ROW(outer, 1, 1),
    ROW(maximum, 1, 1),
    ROW(with_three, 1, 0),
    ROW(with_three, 2, 0),
    ROW(softmax, 1, 0),
    ROW(softmax, 2, 0),
    ROW(softmax0, 2, 0),
    ROW(log_softmax, 2, 0),
    ROW(logsumexp, 1, 0),
    ROW(logsumexp, 2, 0),
    ROW(logsumexp_all, 2, 0),
    ROW(all, 1, 0),
    ROW(all, 2, 0),
    ROW(any, 2, 0),
    ROW(sum, 1, 0),
    ROW(sum, 2, 0),
    ROW(prod, 2, 0),
    ROW(mean, 1, 0),
    ROW(mean, 2, 0),
    ROW(var, 2, 0),
    ROW(std_dev, 2, 0),
    ROW(norm, 2, 0),
    ROW(max, 1, 0),
    ROW(max, 2, 0),
    ROW(min, 2, 0),
    ROW(argmax, 1, 0),
    ROW(argmax, 2, 0),
    ROW(cumsum, 2, 0),
    ROW(flip, 2, 0),
    ROW(sort, 2, 0),
    ROW(argsort, 2, 0),
    ROW(flatten, 2, 0),
    ROW(transpose, 2, 0),
    ROW(layer_norm, 2, 0),
    ROW(relu, 2, 0),
    ROW(square_plus_one, 2, 0),
    ROW(padded, 2, 0),
    {"first_two", first_two, 2, 0, true},
    ROW(to_pairs, 2, 0),
    {"take", take, 2, 0, true},
};

/* --- comparing -------------------------------------------------------------------------------------------------------- */

static bt_array *filled(bt_shape shape, float first) {
    float data[16];
    for (int i = 0; i < 16; i++) data[i] = first + (float)((i * 7) % 5) * .5f;
    return bt_from(data, BT_F32, shape);
}

static bt_shape shape_of(int rank, int64_t a, int64_t b) { return rank == 1 ? BT_SHAPE(a) : BT_SHAPE(a, b); }

typedef struct outcome {
    bt_status status;
    bt_shape shape;
    float data[64];
    char text[400];
} outcome;

static void look(bt_array *x, outcome *out) {
    memset(out, 0, sizeof *out);
    bt_error_clear();
    out->status = bt_block(x);
    if (out->status == BT_OK) {
        out->shape = bt_shape_of(x);
        int64_t count = bt_count(x);
        out->status = count <= 64 ? bt_read(x, out->data, (size_t)count * sizeof(float)) : BT_INTERNAL;
    }
    if (out->status != BT_OK) snprintf(out->text, sizeof out->text, "%s", bt_error_text());
}

static bool same(const outcome *eager, const outcome *function) {
    if (eager->status != function->status) return false;
    if (eager->status != BT_OK) return true;
    if (eager->shape.rank != function->shape.rank) return false;
    for (int i = 0; i < eager->shape.rank; i++)
        if (eager->shape.size[i] != function->shape.size[i]) return false;
    for (int i = 0; i < 64; i++) {
        float a = eager->data[i], b = function->data[i], away = a > b ? a - b : b - a;
        if (!(a == b || (a != a && b != b) || away <= 1e-6f * (1 + (a < 0 ? -a : a)))) return false;
    }
    return true;
}

static int failures;
static void compare(const row *r, const char *what, const outcome *eager, const outcome *function, bt_shape x,
                    bt_shape y) {
    if (same(eager, function) || (r->differs && function->status != BT_OK)) return;
    failures++;
    print_error(
        "%s%s of (%d, %d)[%d] and (%d, %d)[%d]: eager %s rank %d (%d, %d) %g %s; function %s rank %d (%d, %d) %g %s\n",
        what, r->name, (int)x.size[0], (int)x.size[1], x.rank, (int)y.size[0], (int)y.size[1], y.rank,
        bt_status_name(eager->status), eager->shape.rank, (int)eager->shape.size[0], (int)eager->shape.size[1],
        (double)eager->data[0], eager->text, bt_status_name(function->status), function->shape.rank,
        (int)function->shape.size[0], (int)function->shape.size[1], (double)function->data[0], function->text);
}

/* --- functions -------------------------------------------------------------------------------------------------------- */

static bt_shape unknown(int rank) { return rank == 1 ? BT_SHAPE(-1) : BT_SHAPE(-1, -1); }

typedef struct functions {
    bt_function *value, *gradient; /* the gradient of the result's total by x */
} functions;

static bt_array *gradient(const row *r, bt_array *x, bt_array *y) {
    bt_array *result = r->run(x, y);
    return bt_grad1(bt_sum(bt_mul(result, result), BT_ALL, false), x);
}

static functions make(const row *r) {
    bt_array *inputs[2] = {bt_input_shape(BT_F32, unknown(r->rank_x)), NULL}, *out;
    int count = r->rank_y ? 2 : 1;
    if (count == 2) inputs[1] = bt_input_shape(BT_F32, unknown(r->rank_y));
    out = r->run(inputs[0], inputs[1]);
    functions f = {bt_function_new(inputs, count, &out, 1, NULL, 0), NULL};
    if (!f.value && !r->differs) fail_msg("%s: %s", r->name, bt_error_text());
    out = gradient(r, inputs[0], inputs[1]);
    if (bt_peek_status(out) == BT_OK) f.gradient = bt_function_new(inputs, count, &out, 1, NULL, 0);
    return f;
}

static void compare_at(const row *r, functions f, bt_shape sx, bt_shape sy) {
    BT_SCOPE {
        int count = r->rank_y ? 2 : 1;
        bt_array *arguments[2] = {filled(sx, 1), count == 2 ? filled(sy, 2) : NULL};
        outcome eager, function;
        look(r->run(arguments[0], arguments[1]), &eager);
        bool fine = eager.status == BT_OK;
        if (f.value) {
            look(bt_call1(f.value, arguments, count), &function);
            compare(r, "", &eager, &function, sx, sy);
        }
        if (fine && f.gradient) {
            look(gradient(r, arguments[0], arguments[1]), &eager);
            look(bt_call1(f.gradient, arguments, count), &function);
            compare(r, "gradient of ", &eager, &function, sx, sy);
        }
    }
}

static void functions_are_as_eager_calls(void **state) {
    (void)state;
    for (int i = 0; i < COUNT(rows); i++)
        BT_SCOPE {
            functions f = make(&rows[i]);
            for (int64_t a = 0; a <= 3; a++)
                for (int64_t b = 0; b <= (rows[i].rank_x == 2 ? 3 : 0); b++)
                    for (int64_t c = 0; c <= (rows[i].rank_y ? 3 : 0); c++)
                        for (int64_t d = 0; d <= (rows[i].rank_y == 2 ? 3 : 0); d++)
                            compare_at(&rows[i], f, shape_of(rows[i].rank_x, a, b),
                                       shape_of(rows[i].rank_y ? rows[i].rank_y : 1, c, d));
        }
    assert_int_equal(failures, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(functions_are_as_eager_calls)};
    setenv("BERTH_FLAGS", "kernels=interpreter", 1);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
