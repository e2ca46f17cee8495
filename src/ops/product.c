/* Products: matmul in NumPy's forms, and einsum. */
#include <ctype.h>
#include <string.h>

#include "ops/application.h"

/* --- matmul --------------------------------------------------------------------------------------------------------- */

bt_array *bti_record_matmul(bt_array *a, bt_array *b) {
    bt_array *inputs[2] = {a, b};
    bt_array *poison = bti_poisoned_by(inputs, 2);
    if (poison) return poison;
    return bti_record_by_rules(BTI_OP_matmul, inputs, 2, NULL);
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
static bt_array *rows_times_matrix(bt_array *a, bt_array *b) {
    bt_array *poison = bti_poisoned_by((bt_array *[]){a, b}, 2);
    if (poison) return poison;
    int rank = bti_rank(a);
    int64_t shape[BTI_MAX_RANK];
    for (int i = 0; i < rank - 1; i++) shape[i] = bti_shape(a)[i];
    shape[rank - 1] = bti_shape(b)[1];
    int64_t rows = bti_size_of_axes(a, (UINT32_C(1) << (rank - 1)) - 1);
    a = bti_reshape(a, 2, (int64_t[]){rows, bti_shape(a)[rank - 1]});
    return bti_reshape(bti_record_matmul(a, b), rank, shape);
}

/* Both have rank 2 or more; `flatten`: a's rows lie one after the other, so leading axes may join them. */
static bt_array *matrices(bt_array *a, bt_array *b, bool flatten) {
    int64_t leading[BTI_MAX_RANK];
    int count = leading_axes(a, b, leading);
    if (count < 0) return shapes_do_not_fit(a, b, "leading axes must be equal or 1");
    if (flatten && bti_rank(a) > 2 && bti_rank(b) == 2) return rows_times_matrix(a, b);
    a = with_leading(a, count, leading);
    return bti_record_matmul(a, with_leading(b, count, leading));
}

static bt_array *matmul_of_any_rank(bt_array *a, bt_array *b, bool transpose_a, bool transpose_b) {
    if (bti_rank(a) == 0 || bti_rank(b) == 0)
        return shapes_do_not_fit(a, b, "a scalar has no axis to multiply along; use bt_mul");
    bool weak, row = bti_rank(a) == 1, column = bti_rank(b) == 1;
    bt_dtype dtype = bti_meet((bt_array *[]){a, b}, 2, &weak);
    a = bti_cast(transpose_a ? bti_transpose(a) : a, dtype);
    b = bti_cast(transpose_b ? bti_transpose(b) : b, dtype);
    bt_array *poison = bti_poisoned_by((bt_array *[]){a, b}, 2);
    if (poison || !inner_sizes_agree(a, b, &poison)) return poison;
    bt_array *result = matrices(row ? bti_new_axis(a, 0) : a, column ? bti_new_axis(b, 1) : b, !transpose_a);
    if (bti_array_error(result)) return result;
    uint32_t rank = (uint32_t)bti_rank(result);
    return bti_drop_axes(result, (row ? UINT32_C(1) << (rank - 2) : 0) | (column ? UINT32_C(1) << (rank - 1) : 0));
}

bt_array *bt_matmul(bt_array *a, bt_array *b) {
    BTI_PUBLIC("bt_matmul");
    BTI_NEED(a, b);
    BTI_RETURN(matmul_of_any_rank(a, b, false, false));
}

bt_array *bt_matmul_t(bt_array *a, bt_array *b, bool transpose_a, bool transpose_b) {
    BTI_PUBLIC("bt_matmul_t");
    BTI_NEED(a, b);
    BTI_RETURN(matmul_of_any_rank(a, b, transpose_a, transpose_b));
}

BTI_GRADIENT_2(matmul, bt_matmul_t(g, x1, false, true), bt_matmul_t(x0, g, true, false))

void bti_tangent_matmul(bti_application *a) {
    bt_array *first = a->image[0] ? bti_record_matmul(a->image[0], a->x[1]) : NULL;
    bt_array *second = a->image[1] ? bti_record_matmul(a->x[0], a->image[1]) : NULL;
    a->made[0] = first && second ? bti_binary(BTI_OP_add, first, second) : first ? first : second;
}

/* [B, ..., M, K] x [B, ..., K, N]. Products of columns and rows, and of rows and columns, need no product of matrices, and what is made
 * of them fuses. */
static bt_array *products_of_pairs(bt_array *a, bt_array *b) {
    int rank = bti_rank(a);
    int64_t rows = bti_shape(a)[rank - 2], columns = bti_shape(b)[rank - 1];
    if (bti_shape(a)[rank - 1] == 1 && bti_shape(b)[rank - 2] == 1) return bti_binary(BTI_OP_mul, a, b);
    if (rows != 1 || columns != 1) return bti_record_matmul(a, b);
    return bti_reduce(BTI_OP_sum, bti_binary(BTI_OP_mul, a, bti_transpose(b)), UINT32_C(1) << (rank - 1));
}

/* With a shared right side the batch joins the rows of the left one: one large product. With a shared left side it does where the others are
 * columns, as rows; joining the columns of matrices would move every element twice, which takes longer than a product for each. */
void bti_batch_matmul(bti_application *a) {
    bt_array *x = a->image[0], *y = a->image[1];
    if (x && y)
        a->made[0] = products_of_pairs(x, y);
    else if (x && a->node->rank == 2)
        a->made[0] = rows_times_matrix(x, a->x[1]);
    else if (y && a->node->rank == 2 && a->node->shape[1] == 1)
        a->made[0] = bti_transpose(rows_times_matrix(bti_transpose(y), bti_transpose(a->x[0])));
    else
        a->made[0] = bti_record_matmul(bti_batched(a, 0), bti_batched(a, 1));
}

/* --- einsum --------------------------------------------------------------------------------------------------------- */

typedef struct letters {
    int count;
    char name[2 * BTI_MAX_RANK + 1];
} letters;

static int find_letter(const letters *in, char letter) {
    const char *at = letter ? memchr(in->name, letter, (size_t)in->count) : NULL;
    return at ? (int)(at - in->name) : -1;
}

typedef struct einsum {
    int count;
    letters operand[2], output;
} einsum;

/* Reads letters up to the next ',', '-' or the end; false at anything else, a repeated letter, or more than 8. */
static bool read_letters(const char **at, letters *out, const char **why) {
    out->count = 0;
    for (; **at && **at != ',' && **at != '-'; ++*at) {
        if (**at == ' ') continue;
        if (!isalpha((unsigned char)**at)) return *why = "only letters, ',' and \"->\" are known", false;
        if (find_letter(out, **at) >= 0) return *why = "a letter stands twice in one operand", false;
        if (out->count == BTI_MAX_RANK) return *why = "an operand has more than 8 letters", false;
        out->name[out->count++] = **at;
    }
    return true;
}

/* Without "->": the letters that stand once, in alphabetical order. */
static bool implied_output(einsum *e, const char **why) {
    e->output.count = 0;
    for (char c = 'A'; c <= 'z'; c++) {
        int times = (find_letter(&e->operand[0], c) >= 0) + (e->count > 1 && find_letter(&e->operand[1], c) >= 0);
        if (times != 1) continue;
        if (e->output.count == BTI_MAX_RANK) return *why = "the result has more than 8 letters", false;
        e->output.name[e->output.count++] = c;
    }
    return true;
}

static bool parse_einsum(const char *spec, einsum *e, const char **why) {
    const char *at = spec;
    e->count = 0;
    do {
        if (e->count == 2) return *why = "there are more than two operands", false;
        if (!read_letters(&at, &e->operand[e->count++], why)) return false;
    } while (*at == ',' && at++);
    if (!*at) return implied_output(e, why);
    if (at[1] != '>') return *why = "only letters, ',' and \"->\" are known", false;
    at += 2;
    if (!read_letters(&at, &e->output, why)) return false;
    if (*at) return *why = "something follows the result", false;
    for (int i = 0; i < e->output.count; i++)
        if (find_letter(&e->operand[0], e->output.name[i]) < 0 &&
            (e->count < 2 || find_letter(&e->operand[1], e->output.name[i]) < 0))
            return *why = "a letter of the result stands in no operand", false;
    return true;
}

/* Sums away the letters that stand nowhere else; x's letters become the others. */
static bt_array *sum_alone(bt_array *x, letters *of, const letters *other, const letters *output) {
    uint32_t mask = 0;
    letters left = {0};
    for (int i = 0; i < of->count; i++) {
        char c = of->name[i];
        if (find_letter(output, c) >= 0 || (other && find_letter(other, c) >= 0))
            left.name[left.count++] = c;
        else
            mask |= UINT32_C(1) << i;
    }
    *of = left;
    return mask ? bti_drop_axes(bti_reduce(BTI_OP_sum, x, mask), mask) : x;
}

/* x, whose axes are `of`, with its axes in the order of `wanted`, which has the same letters. */
static bt_array *arrange_letters(bt_array *x, const letters *of, const letters *wanted) {
    int order[BTI_MAX_RANK];
    for (int i = 0; i < wanted->count; i++) order[i] = find_letter(of, wanted->name[i]);
    return bti_permute(x, order);
}

/* Appends the letters of `from` that are (or are not) in `a` and in `b`. */
static void pick_letters(letters *to, const letters *from, const letters *a, bool in_a, const letters *b, bool in_b) {
    for (int i = 0; i < from->count; i++)
        if ((find_letter(a, from->name[i]) >= 0) == in_a && (find_letter(b, from->name[i]) >= 0) == in_b)
            to->name[to->count++] = from->name[i];
}

static int64_t size_from(const bt_array *x, const letters *of, const letters *part) {
    int64_t size = 1;
    for (int i = 0; i < part->count; i++) size = bti_size_mul(size, bti_shape(x)[find_letter(of, part->name[i])]);
    return size;
}

/* x with its letters joined into [first, second, third]. */
static bt_array *as_matrices(bt_array *x, const letters *of, const letters *const parts[3]) {
    letters order = {0};
    int64_t shape[3];
    for (int i = 0; i < 3; i++) {
        shape[i] = size_from(x, of, parts[i]);
        for (int k = 0; k < parts[i]->count; k++) order.name[order.count++] = parts[i]->name[k];
    }
    return bti_reshape(arrange_letters(x, of, &order), 3, shape);
}

/* Letters of both and the result are a batch, of both alone are summed: [batch, left, sum] x [batch, sum, right]. */
static bt_array *contract_letters(bt_array *a, bt_array *b, const einsum *e) {
    const letters *of_a = &e->operand[0], *of_b = &e->operand[1];
    letters batch = {0}, left = {0}, right = {0}, summed = {0}, all;
    pick_letters(&batch, of_a, of_b, true, &e->output, true);
    pick_letters(&left, of_a, of_b, false, &e->output, true);
    pick_letters(&right, of_b, of_a, false, &e->output, true);
    pick_letters(&summed, of_a, of_b, true, &e->output, false);
    int64_t shape[2 * BTI_MAX_RANK];
    all = batch;
    for (int i = 0; i < left.count; i++) all.name[all.count++] = left.name[i];
    for (int i = 0; i < right.count; i++) all.name[all.count++] = right.name[i];
    for (int i = 0; i < all.count; i++) {
        int in_a = find_letter(of_a, all.name[i]);
        shape[i] = in_a >= 0 ? bti_shape(a)[in_a] : bti_shape(b)[find_letter(of_b, all.name[i])];
    }
    a = as_matrices(a, of_a, (const letters *[]){&batch, &left, &summed});
    b = as_matrices(b, of_b, (const letters *[]){&batch, &summed, &right});
    return arrange_letters(bti_reshape(bti_record_matmul(a, b), all.count, shape), &all, &e->output);
}

/* x with axes of size 1 for the letters of the result that it has not, in the order of the result. */
static bt_array *align_letters(bt_array *x, const letters *of, const letters *output) {
    letters order = {0};
    int64_t shape[BTI_MAX_RANK];
    for (int i = 0; i < output->count; i++) {
        int at = find_letter(of, output->name[i]);
        shape[i] = at < 0 ? 1 : bti_shape(x)[at];
        if (at >= 0) order.name[order.count++] = output->name[i];
    }
    return bti_reshape(arrange_letters(x, of, &order), output->count, shape);
}

static bool letters_fit(const einsum *e, bt_array *const *arrays, const char *spec, bt_array **poison) {
    for (int i = 0; i < e->count; i++) {
        if (bti_rank(arrays[i]) == e->operand[i].count) continue;
        *poison = bti_poisonf(BT_INVALID_ARGUMENT, "operand %d of \"%s\" has %d letters and shape %s", i, spec,
                              e->operand[i].count, bti_shape_string(arrays[i]).text);
        return false;
    }
    for (int i = 0; e->count == 2 && i < e->operand[0].count; i++) {
        int other = find_letter(&e->operand[1], e->operand[0].name[i]);
        if (other < 0 || bti_may_equal(bti_shape(arrays[0])[i], bti_shape(arrays[1])[other])) continue;
        *poison =
            bti_poisonf(BT_INVALID_ARGUMENT, "'%c' of \"%s\" has two sizes in shapes %s and %s", e->operand[0].name[i],
                        spec, bti_shape_string(arrays[0]).text, bti_shape_string(arrays[1]).text);
        return false;
    }
    return true;
}

static bt_array *product_of_two(bt_array *a, bt_array *b, einsum *e) {
    bool weak;
    bt_dtype dtype = bti_meet((bt_array *[]){a, b}, 2, &weak);
    a = sum_alone(bti_cast(a, dtype), &e->operand[0], &e->operand[1], &e->output);
    b = sum_alone(bti_cast(b, dtype), &e->operand[1], &e->operand[0], &e->output);
    bt_array *poison = bti_poisoned_by((bt_array *[]){a, b}, 2);
    if (poison) return poison;
    letters summed = {0};
    pick_letters(&summed, &e->operand[0], &e->operand[1], true, &e->output, false);
    if (summed.count) return contract_letters(a, b, e);
    return bti_binary(BTI_OP_mul, align_letters(a, &e->operand[0], &e->output),
                      align_letters(b, &e->operand[1], &e->output));
}

bt_array *bt_einsum(const char *spec, bt_array *const *arrays, int count) {
    BTI_PUBLIC("bt_einsum");
    if (!spec || !arrays || count < 1 || count > 2)
        BTI_RETURN(bti_poisonf(BT_INVALID_ARGUMENT,
                               "takes a text such as \"ij,jk->ik\" and one or two arrays (count %d)", count));
    BTI_NEED_ALL(arrays, count);
    einsum e;
    const char *why = "";
    if (!parse_einsum(spec, &e, &why)) BTI_RETURN(bti_poisonf(BT_INVALID_ARGUMENT, "\"%s\": %s", spec, why));
    if (e.count != count)
        BTI_RETURN(bti_poisonf(BT_INVALID_ARGUMENT, "\"%s\" has %d operands; count is %d", spec, e.count, count));
    bt_array *poison;
    if (!letters_fit(&e, arrays, spec, &poison)) BTI_RETURN(poison);
    if (count == 2) BTI_RETURN(product_of_two(arrays[0], arrays[1], &e));
    bt_array *x = sum_alone(arrays[0], &e.operand[0], NULL, &e.output);
    BTI_RETURN(arrange_letters(x, &e.operand[0], &e.output));
}
