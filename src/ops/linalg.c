/* Linear algebra: operations that the host computes by LAPACK, as operations of a program's are (ops/custom.h), and what is composed of them. */
#include <berth/complex.h>
#include <berth/linalg.h>

#include <pthread.h>

#include "drivers/cpu/product/lapack.h"
#include "ops/application.h"
#include "ops/complex.h"
#include "ops/custom.h"

/* --- shapes and calls ----------------------------------------------------------------------------------------------- */

/* Attributes of a triangle are upper, transposed, unit. */
static bti_matrices shape_of(const bt_elements *a, const bt_elements *b) {
    const bt_elements *of = b ? b : a;
    int rank = of->shape.rank;
    bti_matrices s = {a->dtype, 1, of->shape.size[rank - 2], of->shape.size[rank - 1]};
    for (int i = 0; i < rank - 2; i++) s.batch *= of->shape.size[i];
    if (b) s.n = s.m, s.m = b->shape.size[rank - 1];
    return s;
}

static bti_triangle triangle_of_attributes(const int64_t *given) {
    return (bti_triangle){given[0] != 0, given[1] != 0, given[2] != 0};
}

/* Of x: without its last axes, and with others instead. */
static bt_shape with_axes(const bt_elements *x, int count, int64_t first, int64_t second) {
    bt_shape shape = x->shape;
    shape.rank += count - 2;
    if (count > 0) shape.size[shape.rank - count] = first;
    if (count > 1) shape.size[shape.rank - 1] = second;
    return shape;
}

static int64_t smaller_side(const bt_elements *x) {
    int64_t m = x->shape.size[x->shape.rank - 2], n = x->shape.size[x->shape.rank - 1];
    return m < n ? m : n;
}

#define RUN(name, call)                                                                   \
    static bt_status run_##name(const bt_elements *in, int count, const bt_elements *out, \
                                const bt_custom_args *args) {                             \
        (void)count, (void)args;                                                          \
        return call;                                                                      \
    }
#define SHAPE(name, ...)                                                                                            \
    static bt_status shape_##name(const bt_elements *in, int count, bt_elements *out, const bt_custom_args *args) { \
        (void)in, (void)count, (void)args;                                                                          \
        __VA_ARGS__;                                                                                                \
        return BT_OK;                                                                                               \
    }
RUN(cholesky, bti_lapack_cholesky(shape_of(in, NULL), in->data, out->data))
RUN(solve, bti_lapack_solve(shape_of(in, in + 1), in->data, in[1].data, out->data))
RUN(triangle, bti_lapack_triangular_solve(shape_of(in, in + 1), triangle_of_attributes(args->attributes), in->data,
                                          in[1].data, out->data))
RUN(determinant, bti_lapack_determinant(shape_of(in, NULL), in->data, out->data))
RUN(log_determinant, bti_lapack_log_determinant(shape_of(in, NULL), in->data, out->data, out[1].data))
RUN(qr, bti_lapack_qr(shape_of(in, NULL), in->data, out->data, out[1].data))
RUN(eigh, bti_lapack_eigh(shape_of(in, NULL), in->data, out->data, out[1].data))
RUN(svd, bti_lapack_svd(shape_of(in, NULL), in->data, out->data, out[1].data, out[2].data))
SHAPE(same, (void)out)
SHAPE(of_right, out->shape = in[1].shape)
SHAPE(determinant, out->shape = with_axes(in, 0, 0, 0))
SHAPE(log_determinant, out[0].shape = out[1].shape = with_axes(in, 0, 0, 0);
      out[1].dtype = bti_dtype_of_part(in->dtype))
SHAPE(qr, int64_t k = smaller_side(in); out[0].shape.size[in->shape.rank - 1] = k;
      out[1].shape.size[in->shape.rank - 2] = k)
SHAPE(eigh, out[0].shape = with_axes(in, 1, smaller_side(in), 0); out[0].dtype = bti_dtype_of_part(in->dtype))
SHAPE(svd, int64_t k = smaller_side(in); out[0].shape.size[in->shape.rank - 1] = k;
      out[1].shape = with_axes(in, 1, k, 0); out[1].dtype = bti_dtype_of_part(in->dtype);
      out[2].shape.size[in->shape.rank - 2] = k)

static bt_custom_gradient_fn gradient_cholesky, gradient_solve, gradient_triangle, gradient_determinant,
    gradient_log_determinant, gradient_qr, gradient_eigh, gradient_svd;
static bt_custom_tangent_fn tangent_cholesky, tangent_solve, tangent_triangle, tangent_determinant,
    tangent_log_determinant, tangent_qr, tangent_eigh, tangent_svd;
static bt_custom_batch_fn batch_all;
static void keep(bti_host_function *function) { (void)function; /* they are static */ }
#define ROW(title, count, which, shape_rule, graph)                                                             \
    {                                                                                                           \
        .head = {.refs = 1, .free = keep, .name = title, .factor = tell_factor, .in_graphs = graph}, .given = { \
            .name = title,                                                                                      \
            .results = count,                                                                                   \
            .run = run_##which,                                                                                 \
            .shape = shape_##shape_rule,                                                                        \
            .gradient = gradient_##which,                                                                       \
            .tangent = tangent_##which,                                                                         \
            .batch = batch_all                                                                                  \
        }                                                                                                       \
    }
static void tell_factor(const bti_host_function *function, const bt_elements *inputs, int count, const bti_attr *attr,
                        bti_factor *factor);
static bti_custom_operation operations[BTI_FACTOR_KINDS] = {
    [BTI_FACTOR_CHOLESKY] = ROW("cholesky", 1, cholesky, same, true),
    [BTI_FACTOR_SOLVE] = ROW("solve", 1, solve, of_right, false),
    [BTI_FACTOR_TRIANGLE] = ROW("triangular_solve", 1, triangle, of_right, true),
    [BTI_FACTOR_DETERMINANT] = ROW("det", 1, determinant, determinant, false),
    [BTI_FACTOR_LOG_DETERMINANT] = ROW("slogdet", 2, log_determinant, log_determinant, false),
    [BTI_FACTOR_QR] = ROW("qr", 2, qr, qr, false),
    [BTI_FACTOR_EIGH] = ROW("eigh", 2, eigh, eigh, false),
    [BTI_FACTOR_SVD] = ROW("svd", 3, svd, svd, false),
};

static void tell_factor(const bti_host_function *function, const bt_elements *inputs, int count, const bti_attr *attr,
                        bti_factor *factor) {
    const bti_custom_operation *of = (const bti_custom_operation *)function; /* its first member */
    *factor =
        (bti_factor){.kind = (bti_factor_kind)(of - operations), .of = shape_of(inputs, count > 1 ? inputs + 1 : NULL)};
    if (factor->kind == BTI_FACTOR_TRIANGLE) factor->triangle = triangle_of_attributes(attr->custom.number);
}

static void fill_operations(void) {
    for (int i = 0; i < BTI_FACTOR_KINDS; i++) {
        operations[i].given.data = &operations[i];
        bti_custom_fill(&operations[i]);
    }
}

/* Inputs that fit, none of them poisoned. */
static bt_status record_all(bti_factor_kind which, bt_array *const *inputs, int count, const bti_attr *attr,
                            bt_array **results) {
    static pthread_once_t filled = PTHREAD_ONCE_INIT;
    static const bti_attr none = {.custom = {0}};
    pthread_once(&filled, fill_operations);
    return bti_record_custom(&operations[which], inputs, count, attr ? attr : &none, results);
}

static bt_array *record(bti_factor_kind which, bt_array *a, bt_array *b, const bti_attr *attr) {
    bt_array *inputs[2] = {a, b}, *result;
    bt_array *poison = bti_poisoned_by(inputs, b ? 2 : 1);
    if (poison) return poison;
    (void)!record_all(which, inputs, b ? 2 : 1, attr, &result);
    return result;
}

/* --- checks --------------------------------------------------------------------------------------------------------- */

static bt_dtype linear_dtype(bt_dtype dtype) { return bti_dtype_is_complex(dtype) ? dtype : bti_float_of(dtype); }

/* a as float32, float64 or complex; poisoned when it is no matrices, or, if `square`, none of as many rows as columns. */
static bt_array *as_matrices(bt_array *a, bool square) {
    if (bti_array_error(a)) return a;
    int rank = bti_rank(a);
    if (rank < 2)
        return bti_poisonf(BT_INVALID_ARGUMENT,
                           "a has shape %s; it needs two axes or more, of which the last two are matrices",
                           bti_shape_string(a).text);
    int64_t m = bti_shape(a)[rank - 2], n = bti_shape(a)[rank - 1];
    if (bti_size_is_symbolic(m) || bti_size_is_symbolic(n))
        return bti_poisonf(BT_UNIMPLEMENTED, "the last two axes of shape %s have no known sizes here",
                           bti_shape_string(a).text);
    if (square && m != n)
        return bti_poisonf(BT_INVALID_ARGUMENT, "a has shape %s; its matrices must be square",
                           bti_shape_string(a).text);
    return bti_is_complex(a) ? a : bti_widen(bti_float(a));
}

/* Both with the batch that they broadcast to. */
static bool same_batch(bt_array **a, bt_array **b, bt_array **poison) {
    int of_a = bti_rank(*a) - 2, of_b = bti_rank(*b) - 2, count = of_a > of_b ? of_a : of_b;
    int64_t shape[2][BTI_MAX_RANK];
    for (int i = 0; i < count; i++) {
        int64_t left = i < count - of_a ? 1 : bti_shape(*a)[i - (count - of_a)],
                right = i < count - of_b ? 1 : bti_shape(*b)[i - (count - of_b)];
        if (left != 1 && right != 1 && !bti_may_equal(left, right)) {
            *poison = bti_poisonf(BT_INVALID_ARGUMENT,
                                  "shapes %s and %s do not fit: axes before the last two must be equal or 1",
                                  bti_shape_string(*a).text, bti_shape_string(*b).text);
            return false;
        }
        shape[0][i] = shape[1][i] = bti_size_broadcast(left, right);
    }
    for (int i = 0; i < 2; i++) {
        bt_array **x = i ? b : a;
        shape[i][count] = bti_shape(*x)[bti_rank(*x) - 2], shape[i][count + 1] = bti_shape(*x)[bti_rank(*x) - 1];
        *x = bti_expand(*x, count + 2, shape[i]);
        if (bti_array_error(*x)) return *poison = *x, false;
    }
    return true;
}

typedef bt_array *right_sided(bt_array *a, bt_array *b, const bti_attr *attr);

/* By `solve`, of matrices or of a vector b; a of any sides if not `square`. */
static bt_array *for_right_side(bt_array *a, bt_array *b, bool square, right_sided *solve, const bti_attr *attr) {
    bt_array *given[2] = {a, b}, *poison = NULL;
    bool weak, vector = bti_rank(b) == 1;
    bt_dtype dtype = linear_dtype(bti_meet(given, 2, &weak));
    a = as_matrices(bti_cast(a, dtype), square);
    if (bti_array_error(a)) return a;
    if (vector) b = bti_new_axis(b, 1);
    b = bti_cast(b, bti_dtype(a));
    if (bti_array_error(b) || bti_rank(b) < 2 || bti_shape(b)[bti_rank(b) - 2] != bti_shape(a)[bti_rank(a) - 2])
        return bti_array_error(b)
                   ? b
                   : bti_poisonf(BT_INVALID_ARGUMENT, "a has shape %s and b %s; b must have a row for each row of a",
                                 bti_shape_string(a).text, bti_shape_string(given[1]).text);
    if (!same_batch(&a, &b, &poison)) return poison;
    bt_array *x = solve(a, b, attr);
    if (vector && !bti_array_error(x)) x = bti_drop_axes(x, UINT32_C(1) << (bti_rank(x) - 1));
    return bti_array_error(x) ? x : bti_narrow(x, dtype);
}

static bt_array *solve_square(bt_array *a, bt_array *b, const bti_attr *attr) {
    return record(BTI_FACTOR_SOLVE, a, b, attr);
}
static bt_array *solve_triangle(bt_array *a, bt_array *b, const bti_attr *attr) {
    return record(BTI_FACTOR_TRIANGLE, a, b, attr);
}
static bt_array *triangle_of(bt_array *a, bt_array *b, bool upper, bool transposed) {
    return record(BTI_FACTOR_TRIANGLE, a, b, &(bti_attr){.custom = {3, {upper, transposed, false}}});
}
/* With the adjoint of the triangle, which is its transpose where it is real. */
static bt_array *triangle_of_adjoint(bt_array *a, bt_array *b, bool upper) {
    return triangle_of(bt_conj(a), b, upper, true);
}
static bt_array *adjoint(bt_array *x) { return bt_conj(bti_transpose(x)); }
static bt_array *times_adjoint(bt_array *a, bt_array *b) { return bt_matmul_t(a, bt_conj(b), false, true); }
static bt_array *adjoint_times(bt_array *a, bt_array *b) { return bt_matmul_t(bt_conj(a), b, true, false); }

/* The unit matrix like a, of side n. */
static bt_array *unit_matrices(bt_array *a, int64_t n) {
    int64_t shape[BTI_MAX_RANK];
    int rank = bti_rank(a);
    for (int i = 0; i < rank; i++) shape[i] = i < rank - 2 ? bti_shape(a)[i] : n;
    bt_array *rows = bti_new_axis(bti_iota(n, BT_I64), 1), *columns = bti_new_axis(bti_iota(n, BT_I64), 0);
    return bti_expand(bti_cast(bti_binary(BTI_OP_eq, rows, columns), bti_dtype(a)), rank, shape);
}

/* --- public operations ---------------------------------------------------------------------------------------------- */

bt_array *bt_cholesky(bt_array *a) {
    BTI_PUBLIC("bt_cholesky");
    BTI_NEED(a);
    bt_dtype dtype = linear_dtype(bti_dtype(a));
    a = as_matrices(a, true);
    BTI_RETURN(bti_array_error(a) ? a : bti_narrow(record(BTI_FACTOR_CHOLESKY, a, NULL, NULL), dtype));
}

bt_array *bt_solve(bt_array *a, bt_array *b) {
    BTI_PUBLIC("bt_solve");
    BTI_NEED(a, b);
    BTI_RETURN(for_right_side(a, b, true, solve_square, NULL));
}

bt_array *bt_triangular_solve(bt_array *a, bt_array *b, bool upper, bool transposed, bool unit) {
    BTI_PUBLIC("bt_triangular_solve");
    BTI_NEED(a, b);
    BTI_RETURN(for_right_side(a, b, true, solve_triangle, &(bti_attr){.custom = {3, {upper, transposed, unit}}}));
}

bt_array *bt_inv(bt_array *a) {
    BTI_PUBLIC("bt_inv");
    BTI_NEED(a);
    bt_dtype dtype = linear_dtype(bti_dtype(a));
    a = as_matrices(a, true);
    if (bti_array_error(a)) BTI_RETURN(a);
    BTI_RETURN(bti_narrow(record(BTI_FACTOR_SOLVE, a, unit_matrices(a, bti_shape(a)[bti_rank(a) - 1]), NULL), dtype));
}

bt_array *bt_det(bt_array *a) {
    BTI_PUBLIC("bt_det");
    BTI_NEED(a);
    bt_dtype dtype = linear_dtype(bti_dtype(a));
    a = as_matrices(a, true);
    BTI_RETURN(bti_array_error(a) ? a : bti_narrow(record(BTI_FACTOR_DETERMINANT, a, NULL, NULL), dtype));
}

/* An operation with several results, into `parts`. */
static bt_status parts_of(bti_public *call, bti_factor_kind which, bt_array *a, bool square, bt_array **parts) {
    int count = operations[which].given.results;
    if (!parts) return bti_fail(BT_INVALID_ARGUMENT, "parts is NULL");
    bt_array *poison = bti_poisoned_by(&a, 1);
    bt_dtype dtype = poison ? BT_F32 : linear_dtype(bti_dtype(a));
    if (!poison && bti_array_error(a = as_matrices(a, square))) poison = a;
    bt_status status = poison ? bti_fail_with(bti_array_error(poison)) : record_all(which, &a, 1, NULL, parts);
    for (int i = 0; i < count; i++) {
        if (status != BT_OK)
            parts[i] = bti_poison(bti_error_last());
        else
            parts[i] = bti_narrow(parts[i], dtype);
        bti_public_keep(call, parts[i]);
    }
    return status;
}

bt_status bt_slogdet(bt_array *a, bt_array *parts[2]) {
    BTI_PUBLIC("bt_slogdet");
    BTI_AUTOCAST(a);
    return parts_of(&bti_public_, BTI_FACTOR_LOG_DETERMINANT, a, true, parts);
}

bt_status bt_qr(bt_array *a, bt_array *parts[2]) {
    BTI_PUBLIC("bt_qr");
    BTI_AUTOCAST(a);
    return parts_of(&bti_public_, BTI_FACTOR_QR, a, false, parts);
}

bt_status bt_eigh(bt_array *a, bt_array *parts[2]) {
    BTI_PUBLIC("bt_eigh");
    BTI_AUTOCAST(a);
    return parts_of(&bti_public_, BTI_FACTOR_EIGH, a, true, parts);
}

bt_status bt_svd(bt_array *a, bt_array *parts[3]) {
    BTI_PUBLIC("bt_svd");
    BTI_AUTOCAST(a);
    return parts_of(&bti_public_, BTI_FACTOR_SVD, a, false, parts);
}

/* a = q r: x = r^-1 q^H b. Of a wide one, a^H = q r: x = q r^-H b. */
static bt_array *least_squares(bt_array *a, bt_array *b, const bti_attr *attr) {
    int rank = bti_rank(a);
    bool wide = bti_shape(a)[rank - 2] < bti_shape(a)[rank - 1];
    bt_array *parts[2], *of = wide ? adjoint(a) : a;
    (void)attr;
    if (bti_array_error(of)) return of;
    if (record_all(BTI_FACTOR_QR, &of, 1, NULL, parts) != BT_OK) return parts[0];
    if (wide) return bt_matmul(parts[0], triangle_of_adjoint(parts[1], b, true));
    return triangle_of(parts[1], adjoint_times(parts[0], b), true, false);
}

bt_array *bt_lstsq(bt_array *a, bt_array *b) {
    BTI_PUBLIC("bt_lstsq");
    BTI_NEED(a, b);
    BTI_RETURN(for_right_side(a, b, false, least_squares, NULL));
}

/* --- derivatives ---------------------------------------------------------------------------------------------------- */

/* The gradient of a complex x is dL/d(real x) + i dL/d(imag x) (decision 0062): where a rule of real matrices transposes, that of complex ones takes the adjoint. */

static bt_array *symmetric(bt_array *x) { return bt_mul(bt_add(x, adjoint(x)), bt_num(0.5)); }
static bt_array *side_of(bt_array *x) {
    return bti_array_error(x) ? x : unit_matrices(x, bti_shape(x)[bti_rank(x) - 1]);
}
/* b r^-1, or b r^-T, of a triangle r. */
static bt_array *divide_right(bt_array *b, bt_array *r, bool upper, bool transposed) {
    return bti_transpose(triangle_of(r, bti_transpose(b), upper, !transposed));
}
/* A number for each matrix, beside these. */
static bt_array *for_each_matrix(bt_array *x) { return bt_expand_dims(bt_expand_dims(x, -1), -1); }
static bt_array *zeros_unless(bt_array *given, bt_array *like) { return given ? given : bt_zeros_like(like); }
/* The lower half, with half of the diagonal. */
static bt_array *lower_half(bt_array *x) { return bt_sub(bt_tril(x, 0), bt_mul(bt_mul(x, side_of(x)), bt_num(0.5))); }

#define GRADIENT(name)                                                                                                \
    static void gradient_##name(bt_array *const *x, int count, bt_array *const *y, bt_array *const *g, bt_array **gx, \
                                const bt_custom_args *args)
#define TANGENT(name)                                                                                                  \
    static void tangent_##name(bt_array *const *x, int count, bt_array *const *y, bt_array *const *t, bt_array **made, \
                               const bt_custom_args *args)
#define NOT_USED (void)x, (void)count, (void)y, (void)args

GRADIENT(cholesky) {
    NOT_USED;
    bt_array *half = lower_half(adjoint_times(y[0], g[0]));
    gx[0] = symmetric(divide_right(triangle_of_adjoint(y[0], half, false), y[0], false, false));
}
TANGENT(cholesky) {
    NOT_USED;
    bt_array *inside = divide_right(triangle_of(y[0], symmetric(t[0]), false, false), bt_conj(y[0]), false, true);
    made[0] = bt_matmul(y[0], lower_half(inside));
}

GRADIENT(solve) {
    NOT_USED;
    gx[1] = record(BTI_FACTOR_SOLVE, adjoint(x[0]), g[0], NULL);
    gx[0] = bt_neg(times_adjoint(gx[1], y[0]));
}
TANGENT(solve) {
    NOT_USED;
    bt_array *change = zeros_unless(t[1], x[1]);
    if (t[0]) change = bt_sub(change, bt_matmul(t[0], y[0]));
    made[0] = record(BTI_FACTOR_SOLVE, x[0], change, NULL);
}

/* Of changes of a those of the half that is read. */
static bt_array *half_of(bt_array *x, const bt_custom_args *args) {
    int64_t beside = args->attributes[2] ? 1 : 0;
    return args->attributes[0] ? bt_triu(x, beside) : bt_tril(x, -beside);
}
static bt_array *triangle_by(bt_array *a, bt_array *b, const bt_custom_args *args, bool turned) {
    bool transposed = (args->attributes[1] != 0) != turned;
    return record(BTI_FACTOR_TRIANGLE, a, b,
                  &(bti_attr){.custom = {3, {args->attributes[0], transposed, args->attributes[2]}}});
}
GRADIENT(triangle) {
    NOT_USED;
    gx[1] = triangle_by(bt_conj(x[0]), g[0], args, true);
    bt_array *product = times_adjoint(gx[1], y[0]);
    if (args->attributes[1]) product = bti_transpose(product);
    gx[0] = bt_neg(half_of(product, args));
}
TANGENT(triangle) {
    NOT_USED;
    bt_array *change = zeros_unless(t[1], x[1]);
    if (t[0]) change = bt_sub(change, bt_matmul_t(half_of(t[0], args), y[0], args->attributes[1] != 0, false));
    made[0] = triangle_by(x[0], change, args, false);
}

/* What each element of matrices [..., n, n], n up to 3, is multiplied by in the determinant: also where that is 0. */
static bt_array *cofactors(bt_array *a) {
    int64_t n = bti_shape(a)[bti_rank(a) - 1];
    if (n == 1) return bt_ones_like(a);
    bt_array *below = bt_roll(a, -1, -2), *right = bt_roll(below, -1, -1);
    if (n == 2) return bt_mul(right, bt_sub(bt_mul(side_of(a), bt_num(2)), bt_num(1)));
    bt_array *farther = bt_roll(below, -1, -2);
    return bt_sub(bt_mul(right, bt_roll(farther, -2, -1)), bt_mul(bt_roll(below, -2, -1), bt_roll(farther, -1, -1)));
}
static bool has_cofactors(bt_array *a) {
    return bti_shape(a)[bti_rank(a) - 1] >= 1 && bti_shape(a)[bti_rank(a) - 1] <= 3;
}

static bt_array *inverse_adjoint(bt_array *a) { return record(BTI_FACTOR_SOLVE, adjoint(a), side_of(a), NULL); }
GRADIENT(determinant) {
    NOT_USED;
    if (has_cofactors(x[0]))
        gx[0] = bt_mul(for_each_matrix(g[0]), bt_conj(cofactors(x[0])));
    else
        gx[0] = bt_mul(for_each_matrix(bt_mul(g[0], bt_conj(y[0]))), inverse_adjoint(x[0]));
}
TANGENT(determinant) {
    NOT_USED;
    if (has_cofactors(x[0]))
        made[0] = bt_sum(bt_mul(t[0], cofactors(x[0])), BT_AXES(-2, -1), false);
    else
        made[0] = bt_mul(y[0], bt_trace(record(BTI_FACTOR_SOLVE, x[0], t[0], NULL)));
}
GRADIENT(log_determinant) {
    NOT_USED;
    bt_array *by = g[1];
    if (g[0] && bti_is_complex(x[0])) /* the sign turns by what the logarithm's imaginary part would be */
        by = bt_complex(zeros_unless(by, y[1]), bt_imag(bt_mul(g[0], bt_conj(y[0]))));
    if (by) gx[0] = bt_mul(for_each_matrix(by), inverse_adjoint(x[0]));
}
TANGENT(log_determinant) {
    NOT_USED;
    bt_array *change = bt_trace(record(BTI_FACTOR_SOLVE, x[0], t[0], NULL));
    made[1] = bt_real(change);
    if (bti_is_complex(x[0])) made[0] = bt_mul(y[0], bt_complex(bt_num(0), bt_imag(change)));
}

/* Forward mode of factors: they have none. */
static void no_tangents(const char *call, int count, bt_array **made) {
    for (int i = 0; i < count; i++)
        made[i] = bti_poisonf(BT_UNIMPLEMENTED,
                              "%s has gradients (bt_grad), but no forward-mode rule, which bt_jvp, bt_hvp and "
                              "bt_hessian take; bt_stop_gradient ends it",
                              call);
}
#define NO_TANGENT(name, call, results)   \
    TANGENT(name) {                       \
        NOT_USED;                         \
        (void)t;                          \
        no_tangents(call, results, made); \
    }
NO_TANGENT(qr, "bt_qr, by which bt_lstsq is computed,", 2)
NO_TANGENT(eigh, "bt_eigh", 2)
NO_TANGENT(svd, "bt_svd", 3)

GRADIENT(qr) {
    NOT_USED;
    bt_array *of_q = zeros_unless(g[0], y[0]), *of_r = zeros_unless(g[1], y[1]);
    if (bti_shape(y[1])[bti_rank(y[1]) - 1] != bti_shape(y[1])[bti_rank(y[1]) - 2]) {
        gx[0] = bti_poisonf(BT_UNIMPLEMENTED,
                            "the gradient of a BTI_FACTOR_QR of matrices with fewer rows than columns, %s",
                            bti_shape_string(x[0]).text);
        return;
    }
    bt_array *m = bt_sub(times_adjoint(y[1], of_r), adjoint_times(of_q, y[0]));
    bt_array *mirrored = bt_add(bt_tril(m, -1), adjoint(bt_tril(m, -1)));
    mirrored = bt_add(mirrored, bt_mul(bt_real(m), side_of(bt_real(m)))); /* the diagonal of R is real */
    gx[0] = divide_right(bt_add(of_q, bt_matmul(y[0], mirrored)), bt_conj(y[1]), true, true);
}

/* values[j] - values[i], at [i, j]; 1 on the diagonal. */
static bt_array *differences(bt_array *values) {
    bt_array *d = bt_sub(bt_expand_dims(values, -2), bt_expand_dims(values, -1));
    return bt_add(d, side_of(d));
}
static bt_array *beside_diagonal(bt_array *x) { return bt_mul(x, bt_sub(bt_num(1), bt_real(side_of(x)))); }
GRADIENT(eigh) {
    NOT_USED;
    bt_array *inside = g[0] ? bt_diag(g[0], 0) : NULL;
    if (g[1]) {
        bt_array *turned = adjoint_times(y[1], g[1]);
        turned = bt_div(beside_diagonal(turned), differences(y[0]));
        inside = inside ? bt_add(inside, turned) : turned;
    }
    gx[0] = symmetric(bt_matmul(y[1], times_adjoint(inside, y[1])));
}

static bt_array *skew(bt_array *x) { return bt_sub(x, adjoint(x)); }
/* Complex vectors may be turned by a number of size 1 for each value, u and v together: a loss does not depend on that, or has no gradient. */
static bt_array *turns_of(bt_array *skewed, bt_array *row) {
    return bt_div(bt_mul(skewed, side_of(bt_real(skewed))), bt_mul(row, bt_num(2)));
}
GRADIENT(svd) {
    NOT_USED;
    bt_array *u = y[0], *s = y[1], *v = y[2], *column = bt_expand_dims(s, -1), *row = bt_expand_dims(s, -2);
    bt_array *apart = differences(bt_square(s)), *inside = bt_diag(zeros_unless(g[1], s), 0);
    int64_t k = bti_shape(s)[bti_rank(s) - 1];
    bt_array *of_u = g[0] ? skew(adjoint_times(u, g[0])) : NULL;
    if (g[0]) inside = bt_add(inside, bt_mul(bt_div(beside_diagonal(of_u), apart), row));
    if (g[2]) inside = bt_add(inside, bt_mul(column, bt_div(beside_diagonal(skew(times_adjoint(v, g[2]))), apart)));
    if (g[0] && bti_is_complex(u)) inside = bt_add(inside, turns_of(of_u, row));
    bt_array *made = bt_matmul(u, bt_matmul(inside, v));
    if (g[0] && bti_shape(x[0])[bti_rank(x[0]) - 2] > k) {
        bt_array *beside = bt_sub(g[0], bt_matmul(u, adjoint_times(u, g[0])));
        made = bt_add(made, bt_matmul(bt_div(beside, row), v));
    }
    if (g[2] && bti_shape(x[0])[bti_rank(x[0]) - 1] > k) {
        bt_array *beside = bt_sub(g[2], bt_matmul(times_adjoint(g[2], v), v));
        made = bt_add(made, bt_matmul(u, bt_div(beside, column)));
    }
    gx[0] = made;
}

/* --- batches -------------------------------------------------------------------------------------------------------- */

/* Leading axes are a batch already. */
static void batch_all(bt_array *const *inputs, const bool *batched, int count, bt_array **outputs,
                      const bt_custom_args *args) {
    bt_array *given[2];
    bti_attr attr = {.custom = {args->attribute_count, {0}}};
    for (int i = 0; i < args->attribute_count; i++) attr.custom.number[i] = args->attributes[i];
    for (int i = 0; i < count; i++)
        given[i] = batched[i] ? inputs[i] : bti_repeated(inputs[i], bti_shape(inputs[1 - i])[0]);
    bti_custom_operation *of = args->data;
    bt_array *poison = bti_poisoned_by(given, count);
    if (!poison)
        (void)!bti_record_custom(of, given, count, &attr, outputs);
    else
        for (int i = 0; i < of->given.results; i++) outputs[i] = poison;
}
