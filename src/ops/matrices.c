/* Triangles, diagonals and products of other kinds, of what there is: positions of rows and columns, products of matrices. */
#include "ops/primitive.h"

/* --- triangles and diagonals ---------------------------------------------------------------------------------------- */

static bt_array *needs_matrices(const bt_array *x) {
    if (bti_rank(x) >= 2) return NULL;
    return bti_poisonf(BT_INVALID_ARGUMENT,
                       "x has shape %s; it needs two axes or more, of which the last two are matrices",
                       bti_shape_string(x).text);
}

/* Row minus column of each element of the last two axes: int64 [M, N]. */
static bt_array *below_diagonal(const bt_array *x) {
    int rank = bti_rank(x);
    bt_array *rows = bti_iota(bti_shape(x)[rank - 2], BT_I64), *columns = bti_iota(bti_shape(x)[rank - 1], BT_I64);
    return bti_binary(BTI_OP_sub, bti_new_axis(rows, 1), bti_new_axis(columns, 0));
}

static bt_array *triangle(bt_array *x, int64_t k, bool lower) {
    bt_array *poison = needs_matrices(x);
    if (poison) return poison;
    bt_array *below = below_diagonal(x), *limit = bti_scalar_bits((uint64_t)(k == INT64_MIN ? INT64_MAX : -k), BT_I64);
    bt_array *kept = lower ? bti_binary(BTI_OP_le, limit, below) : bti_binary(BTI_OP_le, below, limit);
    return bti_where(kept, x, bti_scalar_like(0, x));
}

bt_array *bt_tril(bt_array *x, int64_t k) {
    BTI_PUBLIC("bt_tril");
    BTI_NEED(x);
    BTI_RETURN(triangle(x, k, true));
}

bt_array *bt_triu(bt_array *x, int64_t k) {
    BTI_PUBLIC("bt_triu");
    BTI_NEED(x);
    BTI_RETURN(triangle(x, k, false));
}

/* [..., M, N] -> [..., L]: each element of the diagonal lies N + 1 behind the one before. */
static bt_array *diagonal(bt_array *x, int64_t k) {
    bt_array *poison = needs_matrices(x);
    int rank = bti_rank(x);
    if (poison) return poison;
    const int64_t *shape = bti_shape(x);
    int64_t m = shape[rank - 2], n = shape[rank - 1], joined[BTI_MAX_RANK];
    if (bti_size_is_symbolic(m) || bti_size_is_symbolic(n))
        return bti_poisonf(BT_UNIMPLEMENTED, "the last two axes of shape %s have no known sizes here",
                           bti_shape_string(x).text);
    int64_t row = k < 0 && k > -m ? -k : 0, column = k > 0 && k < n ? k : 0;
    int64_t length = k <= -m || k >= n ? 0 : m - row < n - column ? m - row : n - column;
    for (int i = 0; i < rank - 2; i++) joined[i] = shape[i];
    joined[rank - 2] = bti_size_mul(m, n);
    x = bti_reshape(x, rank - 1, joined);
    return bti_array_error(x) ? x : bti_slice_part(x, rank - 2, length ? row * n + column : 0, n + 1, length);
}

bt_array *bt_diagonal(bt_array *x, int64_t k) {
    BTI_PUBLIC("bt_diagonal");
    BTI_NEED(x);
    BTI_RETURN(diagonal(x, k));
}

bt_array *bt_trace(bt_array *x) {
    BTI_PUBLIC("bt_trace");
    BTI_NEED(x);
    x = diagonal(x, 0);
    if (bti_array_error(x)) BTI_RETURN(x);
    BTI_RETURN(bt_sum(x, BT_AXES(-1), false));
}

/* Row i of the matrix is x[i] in each column, of which the one on the diagonal is kept. */
bt_array *bt_diag(bt_array *x, int64_t k) {
    BTI_PUBLIC("bt_diag");
    BTI_NEED(x);
    if (bti_rank(x) == 0 || bti_rank(x) == BTI_MAX_RANK || k == INT64_MIN)
        BTI_RETURN(
            bti_poisonf(BT_INVALID_ARGUMENT,
                        "x has shape %s, k is %lld; it needs one to %d axes, of which the last one becomes a diagonal",
                        bti_shape_string(x).text, (long long)k, BTI_MAX_RANK - 1));
    int rank = bti_rank(x);
    int64_t low[BTI_MAX_RANK] = {0}, high[BTI_MAX_RANK] = {0}, shape[BTI_MAX_RANK];
    int64_t side = bti_size_add(bti_shape(x)[rank - 1], k < 0 ? -k : k);
    *(k < 0 ? &low[rank - 1] : &high[rank - 1]) = k < 0 ? -k : k;
    x = bti_pad(x, low, high, bti_scalar(0, bti_dtype(x)));
    if (bti_array_error(x)) BTI_RETURN(x);
    for (int i = 0; i < rank; i++) shape[i] = bti_shape(x)[i];
    shape[rank] = side;
    x = bti_expand(bti_new_axis(x, rank), rank + 1, shape);
    if (bti_array_error(x)) BTI_RETURN(x);
    bt_array *kept = bti_binary(BTI_OP_eq, below_diagonal(x), bti_scalar_bits((uint64_t)-k, BT_I64));
    BTI_RETURN(bti_where(kept, x, bti_scalar_like(0, x)));
}

/* --- products ----------------------------------------------------------------------------------------------------------- */

bt_array *bt_outer(bt_array *a, bt_array *b) {
    BTI_PUBLIC("bt_outer");
    BTI_NEED(a, b);
    a = bti_reshape(a, 2, (int64_t[]){bti_size_of(a), 1});
    BTI_RETURN(bti_binary(BTI_OP_mul, a, bti_reshape(b, 2, (int64_t[]){1, bti_size_of(b)})));
}

/* Axis i of the result has the places of a's axis, in each of which are those of b's. */
bt_array *bt_kron(bt_array *a, bt_array *b) {
    BTI_PUBLIC("bt_kron");
    BTI_NEED(a, b);
    int rank = bti_rank(a) > bti_rank(b) ? bti_rank(a) : bti_rank(b);
    int64_t of_a[BTI_MAX_RANK], of_b[BTI_MAX_RANK], joined[BTI_MAX_RANK];
    if (2 * rank > BTI_MAX_RANK)
        BTI_RETURN(bti_poisonf(BT_INVALID_ARGUMENT, "a has shape %s and b %s; they can have up to %d axes",
                               bti_shape_string(a).text, bti_shape_string(b).text, BTI_MAX_RANK / 2));
    for (int i = 0; i < rank; i++) {
        int in_a = i - (rank - bti_rank(a)), in_b = i - (rank - bti_rank(b));
        of_a[2 * i] = in_a < 0 ? 1 : bti_shape(a)[in_a], of_a[2 * i + 1] = 1;
        of_b[2 * i + 1] = in_b < 0 ? 1 : bti_shape(b)[in_b], of_b[2 * i] = 1;
        joined[i] = bti_size_mul(of_a[2 * i], of_b[2 * i + 1]);
    }
    bt_array *product = bti_binary(BTI_OP_mul, bti_reshape(a, 2 * rank, of_a), bti_reshape(b, 2 * rank, of_b));
    BTI_RETURN(bti_reshape(product, rank, joined));
}

/* What an operand of a tensordot is as a matrix: the axes that stay, and those that are summed over, in the order that the call says. */
typedef struct side {
    int order[BTI_MAX_RANK], kept; /* axes, those that stay first */
    int64_t shape[BTI_MAX_RANK], rows, summed;
} side;

static bool take_side(bt_array *x, const bt_axes *axes, side *s, bt_array **poison) {
    uint32_t mask;
    *s = (side){.rows = 1, .summed = 1};
    if (!bti_axes_mask(x, *axes, &mask, poison)) return false;
    for (int i = 0; i < bti_rank(x); i++) {
        if (mask >> i & 1) continue;
        s->shape[s->kept] = bti_shape(x)[i];
        s->rows = bti_size_mul(s->rows, bti_shape(x)[i]);
        s->order[s->kept++] = i;
    }
    for (int i = 0; i < bti_rank(x) - s->kept; i++) {
        int axis = i;
        if (axes->count > 0 && !bti_axis(x, axes->axis[i], &axis, poison)) return false;
        s->summed = bti_size_mul(s->summed, bti_shape(x)[axis]);
        s->order[s->kept + i] = axis;
    }
    return true;
}

static bool sides_agree(const bt_array *a, const bt_array *b, const side *of_a, const side *of_b) {
    int count = bti_rank(a) - of_a->kept;
    bool agree = count == bti_rank(b) - of_b->kept && of_a->kept + of_b->kept <= BTI_MAX_RANK;
    for (int i = 0; i < count && agree; i++)
        agree = bti_may_equal(bti_shape(a)[of_a->order[of_a->kept + i]], bti_shape(b)[of_b->order[of_b->kept + i]]);
    return agree;
}

bt_array *bt_tensordot(bt_array *a, bt_array *b, bt_axes axes_a, bt_axes axes_b) {
    BTI_PUBLIC("bt_tensordot");
    BTI_NEED(a, b);
    side left, right;
    bt_array *poison;
    if (!take_side(a, &axes_a, &left, &poison) || !take_side(b, &axes_b, &right, &poison)) BTI_RETURN(poison);
    if (!sides_agree(a, b, &left, &right))
        BTI_RETURN(bti_poisonf(BT_INVALID_ARGUMENT,
                               "a has shape %s and b %s; the axes of a that are summed over must be as many and as "
                               "long as those of b, and up to %d axes may be left",
                               bti_shape_string(a).text, bti_shape_string(b).text, BTI_MAX_RANK));
    bt_array *first = bti_reshape(bti_permute(a, left.order), 2, (int64_t[]){left.rows, left.summed}),
             *second = bti_reshape(bti_permute(b, right.order), 2, (int64_t[]){right.rows, right.summed});
    bt_array *product = bt_matmul_t(first, second, false, true);
    for (int i = 0; i < right.kept; i++) left.shape[left.kept + i] = right.shape[i];
    BTI_RETURN(bti_array_error(product) ? product : bti_reshape(product, left.kept + right.kept, left.shape));
}
