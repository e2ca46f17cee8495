/* Products: matmul in NumPy's forms. */
#include <string.h>

#include "ops/application.h"
#include "ops/complex.h"

/* --- matmul --------------------------------------------------------------------------------------------------------- */

static bt_array *matmul_of_any_rank(bt_array *a, bt_array *b, bool transpose_a, bool transpose_b, bt_dtype asked);

/* Products of real matrices: four, or two where one side is real. */
static bt_array *product_by_parts(bt_array *a, bt_array *b, bool transpose_a, bool transpose_b, bt_dtype dtype) {
    bt_dtype part = bti_dtype_of_part(dtype);
    bti_parts x = bti_parts_of(a, part), y = bti_parts_of(b, part), made = {NULL, NULL};
#define PRODUCT(first, second) matmul_of_any_rank(first, second, transpose_a, transpose_b, part)
    bt_array *poison = bti_poisoned_by((bt_array *[]){x.re, y.re}, 2);
    if (poison || bti_array_error(made.re = PRODUCT(x.re, y.re))) return poison ? poison : made.re;
    if (x.im && y.im) made.re = bti_binary(BTI_OP_sub, made.re, PRODUCT(x.im, y.im));
    bt_array *first = y.im ? PRODUCT(x.re, y.im) : NULL, *second = x.im ? PRODUCT(x.im, y.re) : NULL;
#undef PRODUCT
    made.im = first && second ? bti_binary(BTI_OP_add, first, second) : first ? first : second;
    return bti_complex(made, false);
}

bt_array *bti_record_matmul(bt_array *a, bt_array *b) {
    bt_array *inputs[2] = {a, b};
    bt_array *poison = bti_poisoned_by(inputs, 2);
    if (poison) return poison;
    if (bti_is_complex(a)) return product_by_parts(a, b, false, false, bti_dtype(a));
    return bti_record_by_rules(BTI_OP_matmul, inputs, 2, NULL);
}

static bool is_byte(bt_dtype dtype) { return dtype == BT_I8 || dtype == BT_U8; }

/* A product of the inputs' own dtype, or of two of bytes in int32. */
static bt_array *record_product(bt_array *a, bt_array *b, bt_dtype dtype) {
    bt_array *inputs[2] = {a, b};
    if (bti_poisoned_by(inputs, 2) || bti_dtype(a) == dtype) return bti_record_matmul(a, b);
    return bti_record(BTI_OP_matmul, dtype, false, inputs, 2, NULL);
}

static bt_array *shapes_do_not_fit(const bt_array *a, const bt_array *b, const char *why) {
    return bti_poisonf(BT_INVALID_ARGUMENT, "shapes %s and %s do not fit: %s", bti_shape_string(a).text,
                       bti_shape_string(b).text, why);
}

/* What a and b are contracted over must agree. */
static bool inner_sizes_agree(const bt_array *a, const bt_array *b, bt_array **poison) {
    int64_t last = bti_shape(a)[bti_rank(a) - 1], second = bti_shape(b)[bti_rank(b) > 1 ? bti_rank(b) - 2 : 0];
    if (bti_may_equal(last, second)) return true;
    bti_str sizes[2] = {{0}, {0}};
    bti_size_text(&sizes[0], last);
    bti_size_text(&sizes[1], second);
    *poison = bti_poisonf(BT_INVALID_ARGUMENT,
                          "shapes %s and %s do not fit: the last axis of a (%s) must equal the %s of b (%s)",
                          bti_shape_string(a).text, bti_shape_string(b).text, bti_str_text(&sizes[0]),
                          bti_rank(b) > 1 ? "second to last" : "only one", bti_str_text(&sizes[1]));
    bti_str_free(&sizes[0]);
    bti_str_free(&sizes[1]);
    return false;
}

/* The leading axes (all but the last two) of a and b, broadcast; their number, or -1 when they do not fit. */
static int leading_axes(const bt_array *a, const bt_array *b, int64_t *leading) {
    int count_a = bti_rank(a) - 2, count_b = bti_rank(b) - 2, count = count_a > count_b ? count_a : count_b;
    for (int i = 0; i < count; i++) {
        int at_a = i - (count - count_a), at_b = i - (count - count_b);
        int64_t size_a = at_a < 0 ? 1 : bti_shape(a)[at_a], size_b = at_b < 0 ? 1 : bti_shape(b)[at_b];
        if (size_a != 1 && size_b != 1 && !bti_may_equal(size_a, size_b)) return -1;
        leading[i] = bti_size_broadcast(size_a, size_b);
    }
    return count;
}

static bt_array *with_leading(bt_array *x, int count, int64_t *shape) {
    shape[count] = bti_shape(x)[bti_rank(x) - 2];
    shape[count + 1] = bti_shape(x)[bti_rank(x) - 1];
    return bti_expand(x, count + 2, shape);
}

/* [..., M, K] x [K, N]: one product of all rows. */
static bt_array *rows_times_matrix(bt_array *a, bt_array *b, bt_dtype dtype) {
    bt_array *poison = bti_poisoned_by((bt_array *[]){a, b}, 2);
    if (poison) return poison;
    int rank = bti_rank(a);
    int64_t shape[BTI_MAX_RANK];
    for (int i = 0; i < rank - 1; i++) shape[i] = bti_shape(a)[i];
    shape[rank - 1] = bti_shape(b)[1];
    int64_t rows = bti_size_of_axes(a, (UINT32_C(1) << (rank - 1)) - 1);
    a = bti_reshape(a, 2, (int64_t[]){rows, bti_shape(a)[rank - 1]});
    return bti_reshape(record_product(a, b, dtype), rank, shape);
}

/* Both have rank 2 or more; `flatten`: a's rows lie one after the other, so leading axes may join them. */
static bt_array *matrices(bt_array *a, bt_array *b, bt_dtype dtype, bool flatten) {
    int64_t leading[BTI_MAX_RANK];
    int count = leading_axes(a, b, leading);
    if (count < 0) return shapes_do_not_fit(a, b, "leading axes must be equal or 1");
    if (flatten && bti_rank(a) > 2 && bti_rank(b) == 2) return rows_times_matrix(a, b, dtype);
    a = with_leading(a, count, leading);
    return record_product(a, with_leading(b, count, leading), dtype);
}

/* In a dtype; BT_DTYPE_COUNT: the one that a and b meet at. */
static bt_array *matmul_of_any_rank(bt_array *a, bt_array *b, bool transpose_a, bool transpose_b, bt_dtype asked) {
    if (bti_rank(a) == 0 || bti_rank(b) == 0)
        return shapes_do_not_fit(a, b, "a scalar has no axis to multiply along; use bt_mul");
    bool weak, row = bti_rank(a) == 1, column = bti_rank(b) == 1;
    bt_dtype dtype = asked == BT_DTYPE_COUNT ? bti_meet((bt_array *[]){a, b}, 2, &weak) : asked;
    if (bti_dtype_is_complex(dtype)) return product_by_parts(a, b, transpose_a, transpose_b, dtype);
    bool of_bytes = asked == BT_I32 && is_byte(bti_dtype(a)) && is_byte(bti_dtype(b));
    if (transpose_a) a = bti_transpose(a);
    if (transpose_b) b = bti_transpose(b);
    if (!of_bytes) a = bti_cast(a, dtype), b = bti_cast(b, dtype);
    bt_array *poison = bti_poisoned_by((bt_array *[]){a, b}, 2);
    if (poison || !inner_sizes_agree(a, b, &poison)) return poison;
    bt_array *result = matrices(row ? bti_new_axis(a, 0) : a, column ? bti_new_axis(b, 1) : b, dtype, !transpose_a);
    if (bti_array_error(result)) return result;
    uint32_t rank = (uint32_t)bti_rank(result);
    return bti_drop_axes(result, (row ? UINT32_C(1) << (rank - 2) : 0) | (column ? UINT32_C(1) << (rank - 1) : 0));
}

bt_array *bt_matmul(bt_array *a, bt_array *b) {
    BTI_PUBLIC("bt_matmul");
    BTI_NEED(a, b);
    BTI_RETURN(matmul_of_any_rank(a, b, false, false, BT_DTYPE_COUNT));
}

bt_array *bt_matmul_as(bt_array *a, bt_array *b, bt_dtype dtype) {
    BTI_PUBLIC("bt_matmul_as");
    BTI_NEED(a, b);
    bt_array *poison;
    if (!bti_dtype_fits(dtype, &poison)) BTI_RETURN(poison);
    BTI_RETURN(matmul_of_any_rank(a, b, false, false, dtype));
}

bt_array *bt_matmul_t(bt_array *a, bt_array *b, bool transpose_a, bool transpose_b) {
    BTI_PUBLIC("bt_matmul_t");
    BTI_NEED(a, b);
    BTI_RETURN(matmul_of_any_rank(a, b, transpose_a, transpose_b, BT_DTYPE_COUNT));
}

BTI_GRADIENT_2(matmul, bt_matmul_t(g, x1, false, true), bt_matmul_t(x0, g, true, false))

void bti_tangent_matmul(bti_application *a) {
    bt_array *first = a->image[0] ? bti_record_matmul(a->image[0], a->x[1]) : NULL;
    bt_array *second = a->image[1] ? bti_record_matmul(a->x[0], a->image[1]) : NULL;
    a->made[0] = first && second ? bti_binary(BTI_OP_add, first, second) : first ? first : second;
}

/* [B, ..., M, K] x [B, ..., K, N]. Products of columns and rows, and of rows and columns, need no product of matrices, and what is made
 * of them fuses. */
static bt_array *products_of_pairs(bt_array *a, bt_array *b, bt_dtype dtype) {
    int rank = bti_rank(a);
    int64_t rows = bti_shape(a)[rank - 2], columns = bti_shape(b)[rank - 1];
    if (bti_shape(a)[rank - 1] == 1 && bti_shape(b)[rank - 2] == 1)
        return bti_binary(BTI_OP_mul, bti_cast(a, dtype), bti_cast(b, dtype));
    if (rows != 1 || columns != 1) return record_product(a, b, dtype);
    a = bti_cast(a, dtype), b = bti_cast(b, dtype);
    if (bti_array_error(a) || bti_array_error(b)) return bti_array_error(a) ? a : b;
    return bti_reduce(BTI_OP_sum, bti_binary(BTI_OP_mul, a, bti_transpose(b)), UINT32_C(1) << (rank - 1));
}

/* With a shared right side the batch joins the rows of the left one: one large product. With a shared left side it does where the others are
 * columns, as rows; joining the columns of matrices would move every element twice, which takes longer than a product for each. */
void bti_batch_matmul(bti_application *a) {
    bt_array *x = a->image[0], *y = a->image[1];
    bt_dtype dtype = (bt_dtype)a->node->dtype;
    if (x && y)
        a->made[0] = products_of_pairs(x, y, dtype);
    else if (x && a->node->rank == 2)
        a->made[0] = rows_times_matrix(x, a->x[1], dtype);
    else if (y && a->node->rank == 2 && a->node->shape[1] == 1)
        a->made[0] = bti_transpose(rows_times_matrix(bti_transpose(y), bti_transpose(a->x[0]), dtype));
    else
        a->made[0] = record_product(bti_batched(a, 0), bti_batched(a, 1), dtype);
}
