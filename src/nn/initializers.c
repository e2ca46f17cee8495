/* What weights begin with. */
#include <math.h>

#include <berth/linalg.h>
#include <berth/matrices.h>
#include <berth/random.h>

#include "nn/layer.h"
#include "ops/primitive.h"

/* Sizes that do not fit are left to the operation that draws. */
typedef struct fans {
    double in, out;
} fans;

static fans fans_of(bt_shape shape) {
    if (shape.rank < 1 || shape.rank > BT_MAX_RANK) return (fans){1, 1};
    double first = (double)shape.size[0], second = shape.rank > 1 ? (double)shape.size[1] : first, rest = 1;
    for (int i = 2; i < shape.rank; i++) rest *= (double)shape.size[i];
    fans both = shape.rank > 2 ? (fans){second * rest, first * rest} : (fans){first, second};
    return (fans){both.in > 0 ? both.in : 1, both.out > 0 ? both.out : 1};
}

static bt_array *draw_uniform(bt_array *key, double bound, bt_dtype dtype, bt_shape shape) {
    return bt_uniform_shape(key, -bound, bound, dtype, shape);
}

static bt_array *draw_normal(bt_array *key, double deviation, bt_dtype dtype, bt_shape shape) {
    return bt_mul(bt_normal_shape(key, dtype, shape), bt_num(deviation));
}

bt_array *bt_init_glorot_uniform(bt_array *key, bt_dtype dtype, bt_shape shape) {
    BTI_PUBLIC("bt_init_glorot_uniform");
    fans f = fans_of(shape);
    BTI_RETURN(draw_uniform(key, sqrt(6 / (f.in + f.out)), dtype, shape));
}

bt_array *bt_init_glorot_normal(bt_array *key, bt_dtype dtype, bt_shape shape) {
    BTI_PUBLIC("bt_init_glorot_normal");
    fans f = fans_of(shape);
    BTI_RETURN(draw_normal(key, sqrt(2 / (f.in + f.out)), dtype, shape));
}

bt_array *bt_init_he_uniform(bt_array *key, bt_dtype dtype, bt_shape shape) {
    BTI_PUBLIC("bt_init_he_uniform");
    BTI_RETURN(draw_uniform(key, sqrt(6 / fans_of(shape).in), dtype, shape));
}

bt_array *bt_init_he_normal(bt_array *key, bt_dtype dtype, bt_shape shape) {
    BTI_PUBLIC("bt_init_he_normal");
    BTI_RETURN(draw_normal(key, sqrt(2 / fans_of(shape).in), dtype, shape));
}

bt_array *bt_init_lecun_uniform(bt_array *key, bt_dtype dtype, bt_shape shape) {
    BTI_PUBLIC("bt_init_lecun_uniform");
    BTI_RETURN(draw_uniform(key, sqrt(3 / fans_of(shape).in), dtype, shape));
}

bt_array *bt_init_lecun_normal(bt_array *key, bt_dtype dtype, bt_shape shape) {
    BTI_PUBLIC("bt_init_lecun_normal");
    BTI_RETURN(draw_normal(key, sqrt(1 / fans_of(shape).in), dtype, shape));
}

bt_array *bt_init_truncated_normal(bt_array *key, bt_dtype dtype, bt_shape shape) {
    BTI_PUBLIC("bt_init_truncated_normal");
    double bound = erf(sqrt(2)); /* so that sqrt(2) * erfinv(bound) is 2 */
    bt_array *part = bt_erfinv(draw_uniform(key, bound, dtype, shape));
    BTI_RETURN(bt_mul(part, bt_num(0.02 * sqrt(2))));
}

bt_array *bt_init_orthogonal(bt_array *key, bt_dtype dtype, bt_shape shape) {
    BTI_PUBLIC("bt_init_orthogonal");
    int64_t count;
    bool fits = shape.rank >= 2 && shape.rank <= BT_MAX_RANK && bti_shape_count(shape.rank, shape.size, &count) &&
                count > 0 && (dtype == BT_F32 || dtype == BT_F64);
    if (!fits)
        BTI_RETURN(
            bti_poisonf(BT_INVALID_ARGUMENT,
                        "needs float32 or float64, and a shape of two axes or more, none of size 0; not %s and %d axes",
                        bt_dtype_name(dtype), shape.rank));
    int64_t rows = shape.size[0], columns = count / rows;
    bool wide = rows < columns;
    bt_array *a = bt_normal_shape(key, dtype, wide ? BT_SHAPE(columns, rows) : BT_SHAPE(rows, columns)), *parts[2];
    if (bt_qr(a, parts) != BT_OK) BTI_RETURN(parts[0]);
    bt_array *diagonal = bt_diagonal(parts[1], 0);
    /* without the signs, Q would not be uniform over all orthogonal matrices (Mezzadri 2007) */
    bt_array *q = bt_mul(parts[0], bt_where(bt_lt(diagonal, bt_num(0)), bt_num(-1), bt_num(1)));
    BTI_RETURN(bt_reshape_to(wide ? bt_transpose(q) : q, shape));
}

bt_array *bt_init_zeros(bt_array *key, bt_dtype dtype, bt_shape shape) {
    (void)key;
    return bti_full_as("bt_init_zeros", 0, dtype, shape);
}

bt_array *bt_init_ones(bt_array *key, bt_dtype dtype, bt_shape shape) {
    (void)key;
    return bti_full_as("bt_init_ones", 1, dtype, shape);
}
