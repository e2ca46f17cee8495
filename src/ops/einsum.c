/* einsum: letters stand for axes. Operands are contracted two at a time, in the order that keeps what is between small. */
#include <ctype.h>
#include <string.h>

#include "ops/primitive.h"

enum { MOST_OPERANDS = 64, UNKNOWN_SIZE = 64 /* what an unknown size counts as */ };

/* Axes by letters; those that "..." stands for are '0' (the last one), '1'... */
typedef struct letters {
    int count;
    char name[2 * BTI_MAX_RANK + 1];
    int rest; /* where "..." stands; -1: nowhere */
} letters;

typedef struct operand {
    bt_array *x;
    letters of;
} operand;

typedef struct einsum {
    int count;
    operand operand[MOST_OPERANDS];
    letters output;
} einsum;

static int find_letter(const letters *in, char letter) {
    const char *at = letter ? memchr(in->name, letter, (size_t)in->count) : NULL;
    return at ? (int)(at - in->name) : -1;
}

static void remove_letter(letters *of, int at) {
    memmove(of->name + at, of->name + at + 1, (size_t)(of->count - at));
    of->count--;
}

/* --- the text ------------------------------------------------------------------------------------------------------- */

/* Reads letters up to the next ',', '-' or the end; false at anything else, or more than 8. */
static bool read_letters(const char **at, letters *out, const char **why) {
    *out = (letters){.rest = -1};
    for (; **at && **at != ',' && **at != '-'; ++*at) {
        if (**at == ' ') continue;
        if (!strncmp(*at, "...", 3)) {
            if (out->rest >= 0) return *why = "... stands twice in one operand", false;
            out->rest = out->count;
            *at += 2;
            continue;
        }
        if (!isalpha((unsigned char)**at)) return *why = "only letters, \"...\", ',' and \"->\" are known", false;
        if (out->count == BTI_MAX_RANK) return *why = "more than 8 letters stand together", false;
        out->name[out->count++] = **at;
    }
    return true;
}

/* Without "->": what "..." stands for, then the letters that stand once, in alphabetical order. */
static bool implied_output(einsum *e, const char **why) {
    e->output = (letters){.rest = 0};
    for (char c = 'A'; c <= 'z'; c++) {
        int times = 0;
        for (int i = 0; i < e->count; i++)
            for (int k = 0; k < e->operand[i].of.count; k++) times += e->operand[i].of.name[k] == c;
        if (times != 1) continue;
        if (e->output.count == BTI_MAX_RANK) return *why = "the result has more than 8 letters", false;
        e->output.name[e->output.count++] = c;
    }
    return true;
}

static bool is_in_operands(const einsum *e, char letter) {
    for (int i = 0; i < e->count; i++)
        if (find_letter(&e->operand[i].of, letter) >= 0) return true;
    return false;
}

static bool parse_einsum(const char *spec, einsum *e, const char **why) {
    const char *at = spec;
    e->count = 0;
    do {
        if (e->count == MOST_OPERANDS) return *why = "there are more than 64 operands", false;
        if (!read_letters(&at, &e->operand[e->count++].of, why)) return false;
    } while (*at == ',' && at++);
    if (!*at) return implied_output(e, why);
    if (at[1] != '>') return *why = "only letters, \"...\", ',' and \"->\" are known", false;
    at += 2;
    if (!read_letters(&at, &e->output, why)) return false;
    if (*at) return *why = "something follows the result", false;
    for (int i = 0; i < e->output.count; i++) {
        if (find_letter(&e->output, e->output.name[i]) != i) return *why = "a letter stands twice in the result", false;
        if (!is_in_operands(e, e->output.name[i])) return *why = "a letter of the result stands in no operand", false;
    }
    return true;
}

/* --- letters and axes ----------------------------------------------------------------------------------------------- */

/* Puts names of `count` axes where "..." stands. */
static bool name_rest(letters *of, int count) {
    if (of->rest < 0 || of->count + count > BTI_MAX_RANK) return of->rest < 0;
    memmove(of->name + of->rest + count, of->name + of->rest, (size_t)(of->count - of->rest));
    for (int i = 0; i < count; i++) of->name[of->rest + i] = (char)('0' + count - 1 - i);
    of->count += count;
    return true;
}

static bool name_axes(einsum *e, bt_array *const *arrays, const char *spec, bt_array **poison) {
    int most = 0;
    for (int i = 0; i < e->count; i++) {
        letters *of = &e->operand[i].of;
        int rest = bti_rank(arrays[i]) - of->count;
        e->operand[i].x = arrays[i];
        if (rest < 0 || (rest > 0 && of->rest < 0)) {
            *poison = bti_poisonf(BT_INVALID_ARGUMENT, "operand %d of \"%s\" has %d letters and shape %s", i, spec,
                                  of->count, bti_shape_string(arrays[i]).text);
            return false;
        }
        if (of->rest >= 0 && rest > most) most = rest;
        (void)name_rest(of, rest);
    }
    if (name_rest(&e->output, most)) return true;
    *poison = bti_poisonf(BT_INVALID_ARGUMENT, "the result of \"%s\" has more than %d axes", spec, BTI_MAX_RANK);
    return false;
}

/* An axis that "..." stands for, of size 1, is dropped where another operand has more of it. What failed, or NULL. */
static bt_array *drop_repeated(einsum *e) {
    for (int i = 0; i < e->count; i++) {
        operand *o = &e->operand[i];
        for (int k = o->of.count - 1; k >= 0; k--) {
            char name = o->of.name[k];
            bool more = false;
            for (int other = 0; isdigit((unsigned char)name) && other < e->count; other++) {
                int at = find_letter(&e->operand[other].of, name);
                more = more || (at >= 0 && bti_shape(e->operand[other].x)[at] != 1);
            }
            if (!more || bti_shape(o->x)[k] != 1) continue;
            o->x = bti_drop_axes(o->x, UINT32_C(1) << k);
            if (bti_array_error(o->x)) return o->x;
            remove_letter(&o->of, k);
        }
    }
    return NULL;
}

static const operand *first_with(const einsum *e, char name) {
    const operand *first = e->operand;
    while (find_letter(&first->of, name) < 0) first++;
    return first;
}

static int64_t size_of_letter(const einsum *e, char name) {
    const operand *first = first_with(e, name);
    return bti_shape(first->x)[find_letter(&first->of, name)];
}

static bool letters_fit(const einsum *e, const char *spec, bt_array **poison) {
    for (int i = 0; i < e->count; i++)
        for (int k = 0; k < e->operand[i].of.count; k++) {
            char name = e->operand[i].of.name[k];
            if (bti_may_equal(size_of_letter(e, name), bti_shape(e->operand[i].x)[k])) continue;
            *poison =
                bti_poisonf(BT_INVALID_ARGUMENT, "%s%c%s of \"%s\" has two sizes in shapes %s and %s",
                            isdigit((unsigned char)name) ? "an axis of ... (" : "'", name,
                            isdigit((unsigned char)name) ? " from the last)" : "'", spec,
                            bti_shape_string(first_with(e, name)->x).text, bti_shape_string(e->operand[i].x).text);
            return false;
        }
    return true;
}

/* Where it is not known that a letter's sizes are equal, calls check it. What failed, or NULL. */
static bt_array *equal_sizes(einsum *e) {
    for (int i = 0; i < e->count; i++) {
        operand *o = &e->operand[i];
        int64_t shape[BTI_MAX_RANK];
        for (int k = 0; k < o->of.count; k++) shape[k] = size_of_letter(e, o->of.name[k]);
        o->x = bti_reshape(o->x, o->of.count, shape);
        if (bti_array_error(o->x)) return o->x;
    }
    return NULL;
}

/* A letter that stands twice: the diagonal, which becomes the last axis. */
static void take_diagonals(operand *o) {
    for (int k = o->of.count - 1; k > 0 && !bti_array_error(o->x); k--) {
        int first = find_letter(&o->of, o->of.name[k]), last = o->of.count - 1;
        if (first == k) continue;
        char name = o->of.name[k];
        o->x = bt_diagonal(bti_move_axis(bti_move_axis(o->x, k, last), first, last), 0);
        remove_letter(&o->of, k);
        remove_letter(&o->of, first);
        o->of.name[o->of.count++] = name;
        k = o->of.count;
    }
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
static bt_array *contract_letters(const operand *first, const operand *second, const letters *output) {
    const letters *of_a = &first->of, *of_b = &second->of;
    bt_array *a = first->x, *b = second->x;
    letters batch = {0}, left = {0}, right = {0}, summed = {0}, all;
    pick_letters(&batch, of_a, of_b, true, output, true);
    pick_letters(&left, of_a, of_b, false, output, true);
    pick_letters(&right, of_b, of_a, false, output, true);
    pick_letters(&summed, of_a, of_b, true, output, false);
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
    return arrange_letters(bti_reshape(bti_record_matmul(a, b), all.count, shape), &all, output);
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

/* --- contraction ---------------------------------------------------------------------------------------------------- */

/* Sums away the letters that stand nowhere else. */
static void sum_alone(operand *o, const letters *other, const letters *output) {
    uint32_t mask = 0;
    for (int i = o->of.count - 1; i >= 0; i--) {
        char c = o->of.name[i];
        if (find_letter(output, c) >= 0 || (other && find_letter(other, c) >= 0)) continue;
        mask |= UINT32_C(1) << i;
        remove_letter(&o->of, i);
    }
    if (mask) o->x = bti_drop_axes(bti_reduce(BTI_OP_sum, o->x, mask), mask);
}

static bt_array *product_of_two(operand a, operand b, const letters *output) {
    sum_alone(&a, &b.of, output);
    sum_alone(&b, &a.of, output);
    bt_array *poison = bti_poisoned_by((bt_array *[]){a.x, b.x}, 2);
    if (poison) return poison;
    letters summed = {0};
    pick_letters(&summed, &a.of, &b.of, true, output, false);
    if (summed.count) return contract_letters(&a, &b, output);
    return bti_binary(BTI_OP_mul, align_letters(a.x, &a.of, output), align_letters(b.x, &b.of, output));
}

static double size_of_letters(const operand *o, const letters *among) {
    double size = 1;
    for (int i = 0; i < o->of.count; i++) {
        int64_t of_axis = bti_shape(o->x)[i];
        if (!among || find_letter(among, o->of.name[i]) >= 0)
            size *= bti_size_is_symbolic(of_axis) ? UNKNOWN_SIZE : (double)of_axis;
    }
    return size;
}

/* The letters of operands i and k that stand in the result or in another operand, and the size of their product; -1: they are too many. */
static double letters_of_pair(const einsum *e, int i, int k, letters *left) {
    letters alone = {0};
    *left = (letters){0};
    for (int side = 0; side < 2; side++) {
        const letters *of = &e->operand[side ? k : i].of;
        for (int n = 0; n < of->count; n++) {
            bool stays = find_letter(&e->output, of->name[n]) >= 0;
            for (int o = 0; o < e->count && !stays; o++)
                stays = o != i && o != k && find_letter(&e->operand[o].of, of->name[n]) >= 0;
            if (!stays || find_letter(left, of->name[n]) >= 0) continue;
            left->name[left->count++] = of->name[n];
            if (side) alone.name[alone.count++] = of->name[n];
        }
    }
    if (left->count > BTI_MAX_RANK) return -1;
    letters of_first = *left;
    for (int n = of_first.count - 1; n >= 0; n--)
        if (find_letter(&alone, of_first.name[n]) >= 0) remove_letter(&of_first, n);
    return size_of_letters(&e->operand[i], &of_first) * size_of_letters(&e->operand[k], &alone);
}

/* The two whose product is smallest beside what they are; false: each has too many axes. */
static bool choose_pair(const einsum *e, int *first, int *second, letters *left) {
    bool found = false;
    double least = 0;
    for (int i = 0; i < e->count; i++)
        for (int k = i + 1; k < e->count; k++) {
            letters of;
            double size = letters_of_pair(e, i, k, &of);
            double grown = size - size_of_letters(&e->operand[i], NULL) - size_of_letters(&e->operand[k], NULL);
            if (size < 0 || (found && grown >= least)) continue;
            found = true, least = grown;
            *first = i, *second = k, *left = of;
        }
    return found;
}

static bt_array *contract(einsum *e) {
    while (e->count > 2) {
        int i, k;
        letters left;
        if (!choose_pair(e, &i, &k, &left))
            return bti_poisonf(BT_INVALID_ARGUMENT,
                               "each product of two operands has more than %d axes; sum some of them in a call before",
                               BTI_MAX_RANK);
        e->operand[i].x = product_of_two(e->operand[i], e->operand[k], &left);
        if (bti_array_error(e->operand[i].x)) return e->operand[i].x;
        e->operand[i].of = left;
        e->operand[k] = e->operand[--e->count];
    }
    if (e->count == 2) return product_of_two(e->operand[0], e->operand[1], &e->output);
    sum_alone(&e->operand[0], NULL, &e->output);
    return arrange_letters(e->operand[0].x, &e->operand[0].of, &e->output);
}

bt_array *bt_einsum(const char *spec, bt_array *const *arrays, int count) {
    BTI_PUBLIC("bt_einsum");
    if (!spec || !arrays || count < 1)
        BTI_RETURN(bti_poisonf(BT_INVALID_ARGUMENT,
                               "takes a text such as \"ij,jk->ik\" and an array for each operand (count %d)", count));
    einsum e;
    const char *why = "";
    if (!parse_einsum(spec, &e, &why)) BTI_RETURN(bti_poisonf(BT_INVALID_ARGUMENT, "\"%s\": %s", spec, why));
    if (e.count != count)
        BTI_RETURN(bti_poisonf(BT_INVALID_ARGUMENT, "\"%s\" has %d operands; count is %d", spec, e.count, count));
    bt_array *given[MOST_OPERANDS], *poison;
    bool weak;
    for (int i = 0; i < count; i++) {
        given[i] = arrays[i];
        BTI_AUTOCAST(given[i]);
    }
    if ((poison = bti_poisoned_by(given, count))) BTI_RETURN(poison);
    if (!name_axes(&e, given, spec, &poison)) BTI_RETURN(poison);
    if ((poison = drop_repeated(&e))) BTI_RETURN(poison);
    if (!letters_fit(&e, spec, &poison)) BTI_RETURN(poison);
    if ((poison = equal_sizes(&e))) BTI_RETURN(poison);
    bt_dtype dtype = bti_meet(given, count, &weak);
    for (int i = 0; i < count; i++) {
        if (count > 1) e.operand[i].x = bti_cast(e.operand[i].x, dtype);
        if (!bti_array_error(e.operand[i].x)) take_diagonals(&e.operand[i]);
        if (bti_array_error(e.operand[i].x)) BTI_RETURN(e.operand[i].x);
    }
    BTI_RETURN(contract(&e));
}
