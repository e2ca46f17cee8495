/* Parts of arrays by their places: one row, a text of slices, elements turned around an axis, differences of neighbours. */
#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "ops/primitive.h"

/* --- along an axis ---------------------------------------------------------------------------------------------------- */

static bool known_axis(bt_array *x, int64_t given, int *axis, bt_array **poison) {
    if (!bti_axis(x, given, axis, poison)) return false;
    if (!bti_size_is_symbolic(bti_shape(x)[*axis])) return true;
    *poison =
        bti_poisonf(BT_UNIMPLEMENTED, "axis %d of shape %s has no known size here", *axis, bti_shape_string(x).text);
    return false;
}

bt_array *bt_index(bt_array *x, int axis, int64_t index) {
    BTI_PUBLIC("bt_index");
    BTI_NEED(x);
    bt_array *poison;
    if (!known_axis(x, axis, &axis, &poison)) BTI_RETURN(poison);
    int64_t size = bti_shape(x)[axis];
    if (index < -size || index >= size)
        BTI_RETURN(bti_poisonf(BT_OUT_OF_RANGE, "index %lld on axis %d of shape %s; it can be %lld to %lld",
                               (long long)index, axis, bti_shape_string(x).text, (long long)-size,
                               (long long)(size - 1)));
    x = bti_slice_part(x, axis, index < 0 ? index + size : index, 1, 1);
    BTI_RETURN(bti_array_error(x) ? x : bti_drop_axes(x, UINT32_C(1) << axis));
}

bt_array *bt_roll(bt_array *x, int64_t shift, int axis) {
    BTI_PUBLIC("bt_roll");
    BTI_NEED(x);
    bt_array *poison;
    if (!known_axis(x, axis, &axis, &poison)) BTI_RETURN(poison);
    int64_t size = bti_shape(x)[axis], by = size ? shift % size : 0;
    if (by < 0) by += size;
    if (!by) BTI_RETURN(x);
    BTI_RETURN(bti_concat(
        (bt_array *[]){bti_slice_part(x, axis, size - by, 1, by), bti_slice_part(x, axis, 0, 1, size - by)}, 2, axis));
}

bt_array *bt_diff(bt_array *x, int axis) {
    BTI_PUBLIC("bt_diff");
    BTI_NEED(x);
    bt_array *poison;
    if (!known_axis(x, axis, &axis, &poison)) BTI_RETURN(poison);
    int64_t count = bti_shape(x)[axis] ? bti_shape(x)[axis] - 1 : 0;
    bt_array *after = bti_slice_part(x, axis, count ? 1 : 0, 1, count), *before = bti_slice_part(x, axis, 0, 1, count);
    BTI_RETURN(bti_dtype(x) == BT_BOOL ? bti_binary(BTI_OP_ne, after, before) : bti_binary(BTI_OP_sub, after, before));
}

/* --- by a text ---------------------------------------------------------------------------------------------------------- */

/* What a text says of x: a slice of each axis, axes that go, and axes of size 1 that come. */
typedef struct places {
    int64_t start[BTI_MAX_RANK], step[BTI_MAX_RANK], count[BTI_MAX_RANK];
    int axis;        /* of x, that comes next */
    uint32_t single; /* axes of x of which one place is taken: they go */
    uint32_t added;  /* of the result with these axes: new ones */
    int rank;        /* so far, of the result with those that go */
} places;

/* A number, or none; false: it does not fit into 64 bits. */
static bool read_number(const char **at, int64_t *number, bool *there) {
    char *end;
    errno = 0;
    *number = strtoll(*at, &end, 10);
    *there = end != *at;
    *at = end;
    return !errno;
}

static void skip_spaces(const char **at) {
    while (isspace((unsigned char)**at)) ++*at;
}

/* A slice as Python's, of numbers that are there or not. */
static const char *set_range(const bt_array *x, places *p, const int64_t *number, const bool *there) {
    int64_t size = bti_shape(x)[p->axis], step = there[2] ? number[2] : 1;
    if (!step) return "a step is 0";
    int64_t first = step > 0 ? 0 : INT64_MAX, end = step > 0 ? INT64_MAX : INT64_MIN;
    bti_range range = bti_range_of(size, there[0] ? number[0] : first, there[1] ? number[1] : end, step);
    p->start[p->axis] = range.start, p->step[p->axis] = range.step, p->count[p->axis] = range.count;
    return NULL;
}

/* One entry between commas. */
static const char *read_entry(const bt_array *x, const char **at, places *p) {
    int64_t number[3] = {0};
    bool there[3] = {false};
    int part = 0;
    if (p->axis >= bti_rank(x)) return "it has more entries than x has axes";
    int64_t size = bti_shape(x)[p->axis];
    if (!read_number(at, &number[0], &there[0])) return "a number does not fit into 64 bits";
    for (skip_spaces(at); **at == ':' && part < 2; skip_spaces(at)) {
        ++*at;
        skip_spaces(at);
        if (!read_number(at, &number[part + 1], &there[part + 1])) return "a number does not fit into 64 bits";
        part++;
    }
    if (!part && !there[0]) return "an entry is a number, a slice like 1:-1 or ::2, ... or None";
    if (bti_size_is_symbolic(size)) {
        if (there[0] || there[1] || there[2]) return "an axis of unknown size can be taken whole alone (:)";
        p->count[p->axis] = size, p->step[p->axis] = 1;
    } else if (part) {
        const char *why = set_range(x, p, number, there);
        if (why) return why;
    } else {
        if (number[0] < -size || number[0] >= size) return "an index is out of range";
        p->start[p->axis] = number[0] < 0 ? number[0] + size : number[0];
        p->count[p->axis] = p->step[p->axis] = 1;
        p->single |= UINT32_C(1) << p->axis;
    }
    p->axis++, p->rank++;
    return NULL;
}

static void take_whole(const bt_array *x, places *p, int axes) {
    for (; axes > 0; axes--, p->axis++, p->rank++) p->count[p->axis] = bti_shape(x)[p->axis], p->step[p->axis] = 1;
}

/* How many axes of x the entries behind a "..." take. */
static int entries_behind(const char *at) {
    int count = 0;
    for (bool in_entry = false; *at; at++) {
        if (*at == ',')
            in_entry = false;
        else if (!isspace((unsigned char)*at) && !in_entry)
            in_entry = true, count += strncmp(at, "None", 4) != 0;
    }
    return count;
}

static const char *read_places(const bt_array *x, const char *text, places *p) {
    bool whole = false;
    const char *why = NULL;
    memset(p, 0, sizeof *p);
    for (const char *at = text; !why;) {
        skip_spaces(&at);
        if (!strncmp(at, "...", 3)) {
            at += 3;
            int behind = entries_behind(at);
            if (whole || p->axis + behind > bti_rank(x))
                return whole ? "... stands twice" : "it has more entries than x has axes";
            take_whole(x, p, bti_rank(x) - p->axis - behind);
            whole = true;
        } else if (!strncmp(at, "None", 4)) {
            at += 4;
            if (bti_rank(x) + __builtin_popcount(p->added) >= BTI_MAX_RANK) return "the result has too many axes";
            p->added |= UINT32_C(1) << p->rank++;
        } else {
            why = read_entry(x, &at, p);
        }
        skip_spaces(&at);
        if (why || !*at) break;
        if (*at++ != ',') return "entries stand between commas";
        skip_spaces(&at);
        if (!*at) break; /* "0," is "0" */
    }
    if (!why) take_whole(x, p, bti_rank(x) - p->axis);
    return why;
}

static bool places_fit(const bt_array *x, const char *text, places *p, bt_array **poison) {
    const char *why = text ? read_places(x, text, p) : "there is none";
    if (why)
        *poison = bti_poisonf(BT_INVALID_ARGUMENT, "places \"%s\" of x of shape %s: %s", text ? text : "",
                              bti_shape_string(x).text, why);
    return !why;
}

/* The shape of the part as the program sees it. */
static int shape_of_part(const bt_array *x, const places *p, int64_t *shape) {
    int rank = 0;
    for (int axis = 0, i = 0; i < bti_rank(x) + __builtin_popcount(p->added); i++) {
        if (p->added >> i & 1)
            shape[rank++] = 1;
        else if (!(p->single >> axis++ & 1))
            shape[rank++] = p->count[axis - 1];
    }
    return rank;
}

bt_array *bt_at(bt_array *x, const char *text) {
    BTI_PUBLIC("bt_at");
    BTI_NEED(x);
    places p;
    bt_array *poison;
    int64_t shape[BTI_MAX_RANK];
    if (!places_fit(x, text, &p, &poison)) BTI_RETURN(poison);
    int rank = shape_of_part(x, &p, shape);
    x = bti_slice(x, p.start, p.step, p.count);
    BTI_RETURN(bti_array_error(x) ? x : bti_reshape(x, rank, shape));
}

/* Imaginary parts are not dropped unasked. */
static bt_array *cast_values(const bt_array *x, bt_array *values) {
    if (bti_is_complex(values) && !bti_is_complex(x))
        return bti_poisonf(BT_INVALID_ARGUMENT, "values are %s and x is %s; bt_cast one of them first",
                           bt_dtype_name(bti_dtype(values)), bt_dtype_name(bti_dtype(x)));
    return bt_cast(values, bti_dtype(x));
}

static bool is_whole(const bt_array *x, const places *p, int axis) {
    return p->step[axis] == 1 && p->count[axis] == bti_shape(x)[axis];
}

/* values have the shape of the part. Along an axis with a step other than 1 the part is first set in the slices that it lies in, which are scattered then. */
static bt_array *set_part(bt_array *x, const places *p, bt_array *values) {
    int rank = bti_rank(x), axis = 0, partial = 0;
    while (axis < rank && (p->step[axis] == 1 || p->count[axis] <= 1)) axis++;
    if (!rank) return values;
    if (axis == rank) return bt_update_slice(x, values, bt_from(p->start, BT_I64, (bt_shape){1, {rank}}));
    int64_t start = p->start[axis], step = p->step[axis], count = p->count[axis];
    for (int i = 0; i < rank; i++) partial += i != axis && !is_whole(x, p, i);
    if (partial) {
        places within = *p;
        within.start[axis] = 0, within.step[axis] = 1;
        values = set_part(bti_slice_part(x, axis, start, step, count), &within, values);
    }
    bt_array *indices = bt_arange((double)start, (double)(start + step * count), (double)step, BT_I64);
    return bt_scatter_set(x, indices, values, axis);
}

bt_array *bt_set_at(bt_array *x, const char *text, bt_array *values) {
    BTI_PUBLIC("bt_set_at");
    BTI_NEED(x, values);
    places p;
    bt_array *poison;
    int64_t shape[BTI_MAX_RANK];
    if (!places_fit(x, text, &p, &poison)) BTI_RETURN(poison);
    values = bti_expand(cast_values(x, values), shape_of_part(x, &p, shape), shape);
    if (bti_array_error(values)) BTI_RETURN(values);
    values = bti_reshape(values, bti_rank(x), p.count);
    BTI_RETURN(set_part(x, &p, values));
}
