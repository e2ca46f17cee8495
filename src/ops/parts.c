/* Gradients of parts of one array: of slices, and of rows taken by index. Each is zero but in its part. The walk collects those of an
 * array and joins them once all are there, so that many parts cost as much as the array and not each as much as the array. */
#include <stdlib.h>

#include "base/alloc.h"
#include "ops/gradient.h"
#include "ops/primitive.h"

void bti_gradient_slice(bti_backward *b) {
    bti_part part = {.g = b->g};
    int rank = bt_rank(b->g);
    for (int i = 0; i < rank; i++) part.start[i] = b->attr->slice.start[i], part.step[i] = b->attr->slice.step[i];
    b->part = part;
}

void bti_gradient_take(bti_backward *b) {
    b->part = (bti_part){.g = b->g, .indices = b->x[1], .axis = b->attr->axis.axis};
}

/* --- rows ----------------------------------------------------------------------------------------------------------- */

/* Those taken along one axis, in one scatter. The parts that it adds have no g after it. */
static bt_array *scatter_rows(bt_array *x, bti_part *parts, int count, bt_array **room) {
    int axis = parts[0].axis, found = 0;
    for (int i = 0; i < count; i++) {
        if (!parts[i].indices || parts[i].axis != axis || !parts[i].g) continue;
        room[found] = parts[i].indices;
        room[count + found++] = parts[i].g;
        parts[i].g = NULL;
    }
    bt_array *indices = bt_concat(room, found, 0), *rows = bt_concat(room + count, found, axis);
    return bt_scatter_add(bt_zeros_like(x), indices, rows, axis);
}

/* --- slices --------------------------------------------------------------------------------------------------------- */

/* A box of the array, with its gradient: axis i from low[i] up to high[i] before the end. Both are 0 where the size is not known. */
typedef struct box {
    bt_array *g;
    int64_t low[BT_MAX_RANK], high[BT_MAX_RANK];
    int axis;  /* along which boxes are being joined */
    int order; /* of recording */
} box;

/* step - 1 zeros between the elements of an axis: [A, C, B] -> [A, (C - 1) * step + 1, B]. */
static bt_array *put_zeros_between(bt_array *x, int axis, int64_t step) {
    bt_shape shape = bt_shape_of(x);
    int64_t before = 1, after = 1, count = shape.size[axis];
    for (int i = 0; i < axis; i++) before = bti_size_mul(before, shape.size[i]);
    for (int i = axis + 1; i < shape.rank; i++) after = bti_size_mul(after, shape.size[i]);
    x = bt_pad(bt_reshape(x, before, count, 1, after), (int64_t[4]){0}, (int64_t[]){0, 0, step - 1, 0}, 0);
    shape.size[axis] = (count - 1) * step + 1;
    return bt_reshape_to(bti_part_of_axis(bt_reshape(x, before, count * step, after), 1, 0, shape.size[axis]), shape);
}

/* Where the elements of one axis of a slice came from: there, zeros elsewhere. Zeros before and after them are left to low and high. */
static bt_array *unslice(bt_array *g, int axis, int64_t start, int64_t step, int64_t size, int64_t *low,
                         int64_t *high) {
    bt_shape shape = bt_shape_of(g);
    int64_t count = shape.size[axis];
    if (start == 0 && step == 1 && count == size) return g;
    if (bti_size_is_symbolic(size)) {
        shape.size[axis] = size;
        bt_array *from = bt_add(bt_mul(bti_iota(count, BT_I64), bt_i64(step)), bt_i64(start));
        return bt_scatter_add(bt_full_shape(0, bt_dtype_of(g), shape), from, g, axis);
    }
    if (count <= 1) step = 1;
    if (count == 0) start = 0;
    if (step < 0) {
        g = bt_flip(g, BT_AXES(axis));
        start += (count - 1) * step;
        step = -step;
    }
    if (step > 1) g = put_zeros_between(g, axis, step);
    low[axis] = start;
    high[axis] = size - start - (count ? (count - 1) * step + 1 : 0);
    return g;
}

static box box_of_slice(const bti_part *part, bt_shape whole, int order) {
    box b = {.g = part->g, .order = order};
    for (int i = 0; i < whole.rank; i++)
        b.g = unslice(b.g, i, part->start[i], part->step[i], whole.size[i], b.low, b.high);
    return b;
}

static int compare_sizes(int64_t a, int64_t b) { return a < b ? -1 : a > b; }

/* By their ranges of all axes but one. */
static int compare_beside(const box *a, const box *b) {
    for (int i = 0; i < BT_MAX_RANK; i++) {
        if (i == a->axis) continue;
        if (a->low[i] != b->low[i]) return compare_sizes(a->low[i], b->low[i]);
        if (a->high[i] != b->high[i]) return compare_sizes(a->high[i], b->high[i]);
    }
    return 0;
}

static int compare_boxes(const void *x, const void *y) {
    const box *a = x, *b = y;
    int beside = compare_beside(a, b), along = compare_sizes(a->low[a->axis], b->low[a->axis]);
    return beside ? beside : along ? along : compare_sizes(a->order, b->order);
}

static bool is_whole_beside(const box *b) {
    for (int i = 0; i < BT_MAX_RANK; i++)
        if (i != b->axis && (b->low[i] || b->high[i])) return false;
    return true;
}

static void add_zeros(bt_array **row, int *length, bt_array *like, int axis, int64_t count) {
    bt_shape shape = bt_shape_of(like);
    shape.size[axis] = count;
    if (count > 0) row[(*length)++] = bt_full_shape(0, bt_dtype_of(like), shape);
}

/* Joins the first box with those after it that begin where the one before ended, or later, with zeros in the gaps; at both ends too where that
 * makes the whole array. Boxes that were joined have no g after it. row: room for 2 count + 1. */
static box join_row(box *boxes, int count, int64_t size, bt_array **row) {
    box joined = boxes[0];
    int axis = joined.axis, length = 0, members = 0;
    bool whole = is_whole_beside(&joined);
    int64_t end = whole ? 0 : joined.low[axis];
    for (int i = 0; i < count; i++) {
        if (!boxes[i].g || (members && boxes[i].low[axis] < end)) continue;
        add_zeros(row, &length, joined.g, axis, boxes[i].low[axis] - end);
        row[length++] = boxes[i].g;
        boxes[i].g = NULL;
        end = size - boxes[i].high[axis];
        members++;
    }
    if (members == 1) return joined;
    if (whole) add_zeros(row, &length, joined.g, axis, size - end);
    joined.g = bt_concat(row, length, axis);
    joined.low[axis] = whole ? 0 : joined.low[axis];
    joined.high[axis] = whole ? 0 : size - end;
    return joined;
}

/* Joins what it can along an axis; the number of boxes left. */
static int join_along(box *boxes, int count, int axis, int64_t size, bt_array **row) {
    int left = 0;
    for (int i = 0; i < count; i++) boxes[i].axis = axis;
    qsort(boxes, (size_t)count, sizeof *boxes, compare_boxes);
    for (int first = 0, end; first < count; first = end) {
        for (end = first + 1; end < count && !compare_beside(&boxes[first], &boxes[end]);) end++;
        for (int i = first; i < end; i++)
            if (boxes[i].g) boxes[left++] = join_row(&boxes[i], end - i, size, row);
    }
    return left;
}

static bt_array *join_boxes(box *boxes, int count, bt_shape whole, bt_array **row) {
    bt_array *sum = NULL;
    for (int axis = whole.rank; axis-- > 0 && count > 1;)
        if (!bti_size_is_symbolic(whole.size[axis])) count = join_along(boxes, count, axis, whole.size[axis], row);
    for (int i = 0; i < count; i++) {
        bt_array *padded = bt_pad(boxes[i].g, boxes[i].low, boxes[i].high, 0);
        sum = sum ? bt_add(sum, padded) : padded;
    }
    return sum;
}

bt_array *bti_join_parts(bt_array *x, bti_part *parts, int count) {
    bt_shape whole = bt_shape_of(x);
    box *boxes = bti_calloc((size_t)count, sizeof *boxes);
    bt_array **room = bti_calloc(2 * (size_t)count + 1, sizeof(bt_array *)), *sum = NULL;
    int slices = 0;
    for (int i = 0; i < count && boxes && room; i++) {
        if (!parts[i].g) continue; /* added by an earlier one */
        if (!parts[i].indices) {
            boxes[slices] = box_of_slice(&parts[i], whole, slices);
            slices++;
            continue;
        }
        bt_array *rows = scatter_rows(x, &parts[i], count - i, room);
        sum = sum ? bt_add(sum, rows) : rows;
    }
    if (!boxes || !room)
        sum = bti_poison(bti_no_memory_new());
    else if (slices) {
        bt_array *joined = join_boxes(boxes, slices, whole, room);
        sum = sum ? bt_add(sum, joined) : joined;
    }
    bti_free(boxes);
    bti_free(room);
    return sum;
}
