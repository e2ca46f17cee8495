/* Gradients of parts of one array: of slices, and of rows taken by index. Each is zero but in its part. The walk collects those of an
 * array and joins them once all are there, so that many parts cost as much as the array and not each as much as the array. */
#include <stdlib.h>
#include <string.h>

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

/* Those taken along one axis are added to the sum (NULL: to zeros) in one scatter. The parts that it adds have no g after it. */
static bt_array *scatter_rows(bt_array *x, bt_array *sum, bti_part *parts, int count, bt_array **room) {
    int axis = parts[0].axis, found = 0;
    for (int i = 0; i < count; i++) {
        if (!parts[i].indices || parts[i].axis != axis || !parts[i].g) continue;
        room[found] = parts[i].indices;
        room[count + found++] = parts[i].g;
        parts[i].g = NULL;
    }
    bt_array *indices = bt_concat(room, found, 0), *rows = bt_concat(room + count, found, axis);
    return bt_scatter_add(sum ? sum : bt_zeros_like(x), indices, rows, axis);
}

/* --- slices --------------------------------------------------------------------------------------------------------- */

/* A box of the array, with its gradient: axis i from low[i] up to high[i] before the end. Both are 0 where the size is not known. An axis
 * that is sliced in steps of s > 1 is two axes of the box, the first of them of places, s elements each: its elements stand in one column. So slices that
 * interleave are boxes side by side. */
typedef struct box {
    bt_array *g;
    int64_t step[BT_MAX_RANK]; /* of the array's axes, at least 1 */
    int64_t low[BT_MAX_RANK], high[BT_MAX_RANK];
    int axis;  /* along which boxes are being joined */
    int order; /* of recording */
} box;

/* Puts the elements of an axis back in an array of its size, by index. */
static bt_array *scatter_slice(bt_array *g, int axis, int64_t start, int64_t step, int64_t size) {
    bt_shape shape = bt_shape_of(g);
    bt_array *from = bt_add(bt_mul(bti_iota(shape.size[axis], BT_I64), bt_i64(step)), bt_i64(start));
    shape.size[axis] = size;
    return bt_scatter_add(bt_full_shape(0, bt_dtype_of(g), shape), from, g, axis);
}

/* Places an axis of the slice at the box's axis `at`, which is followed by one for the steps if there are any. room: how many axes may be added. */
static void place_axis(box *b, int axis, int at, int64_t start, int64_t step, int64_t size, int *room) {
    int64_t count = bt_shape_of(b->g).size[axis];
    b->step[axis] = 1;
    if (start == 0 && step == 1 && count == size) return;
    if (count <= 1) step = 1;
    if (bti_size_is_symbolic(size) || (step != 1 && step != -1 && !*room)) {
        b->g = scatter_slice(b->g, axis, start, step, size);
        return;
    }
    if (count == 0) start = 0;
    if (step < 0) {
        b->g = bt_flip(b->g, BT_AXES(axis));
        start += (count - 1) * step;
        step = -step;
    }
    b->step[axis] = step;
    b->low[at] = start / step;
    b->high[at] = (size + step - 1) / step - b->low[at] - count;
    if (step == 1) return;
    --*room;
    b->low[at + 1] = start % step;
    b->high[at + 1] = step - 1 - start % step;
}

static box box_of_slice(const bti_part *part, bt_shape whole, int order) {
    box b = {.g = part->g, .order = order};
    int room = BT_MAX_RANK - whole.rank;
    bt_shape shape = {0};
    for (int i = 0; i < whole.rank; i++) {
        place_axis(&b, i, shape.rank, part->start[i], part->step[i], whole.size[i], &room);
        shape.size[shape.rank++] = bt_shape_of(b.g).size[i];
        if (b.step[i] > 1) shape.size[shape.rank++] = 1;
    }
    if (shape.rank > whole.rank) b.g = bt_reshape_to(b.g, shape);
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

/* Boxes of the same range become one. */
static int add_equal(box *boxes, int count, int axis) {
    int left = 0;
    for (int i = 0; i < count; i++) boxes[i].axis = axis;
    qsort(boxes, (size_t)count, sizeof *boxes, compare_boxes);
    for (int i = 0; i < count; i++) {
        box *last = left ? &boxes[left - 1] : NULL;
        if (last && !compare_beside(last, &boxes[i]) && last->low[axis] == boxes[i].low[axis] &&
            last->high[axis] == boxes[i].high[axis])
            last->g = bt_add(last->g, boxes[i].g);
        else
            boxes[left++] = boxes[i];
    }
    return left;
}

static void pad_along(box *b, int axis) {
    int64_t low[BT_MAX_RANK] = {0}, high[BT_MAX_RANK] = {0};
    low[axis] = b->low[axis], high[axis] = b->high[axis];
    if (low[axis] || high[axis]) b->g = bt_pad(b->g, low, high, 0);
    b->low[axis] = b->high[axis] = 0;
}

/* Along an axis in steps: a column of elements is joined and filled up, which costs as much as the column, then columns are joined. */
static int join_steps(box *boxes, int count, int axis, const bt_shape *grid, bt_array **row) {
    count = join_along(boxes, count, axis, grid->size[axis], row);
    for (int i = 0; i < count; i++) pad_along(&boxes[i], axis);
    count = add_equal(boxes, count, axis + 1);
    return join_along(boxes, count, axis + 1, grid->size[axis + 1], row);
}

/* The shape of the array with its axes in steps as two, filled up to whole steps. */
static bt_shape grid_of(bt_shape whole, const int64_t *step) {
    bt_shape grid = {0};
    for (int i = 0; i < whole.rank; i++) {
        grid.size[grid.rank++] = step[i] > 1 ? (whole.size[i] + step[i] - 1) / step[i] : whole.size[i];
        if (step[i] > 1) grid.size[grid.rank++] = step[i];
    }
    return grid;
}

static bt_array *array_of_grid(bt_array *x, bt_shape whole, const int64_t *step) {
    bt_shape filled = whole;
    for (int i = 0; i < whole.rank; i++)
        if (step[i] > 1) filled.size[i] = (whole.size[i] + step[i] - 1) / step[i] * step[i];
    x = bt_reshape_to(x, filled);
    for (int i = 0; i < whole.rank; i++)
        if (filled.size[i] != whole.size[i]) x = bti_part_of_axis(x, i, 0, whole.size[i]);
    return x;
}

/* How much of the array it is. */
static double share_of(const box *b, const bt_shape *whole) {
    double share = 1;
    for (int i = 0; i < whole->rank; i++)
        if (b->low[i] || b->high[i]) share *= (double)bt_shape_of(b->g).size[i] / (double)whole->size[i];
    return share;
}

/* x with the box added from `axis` on: no more of x is made than the box's part along the first axis. */
static bt_array *add_box(bt_array *x, const box *b, int axis) {
    if (bti_array_error(x) || bti_array_error(b->g)) return bti_array_error(x) ? x : b->g;
    while (axis < bt_rank(x) && !b->low[axis] && !b->high[axis]) axis++;
    if (axis == bt_rank(x)) return bt_add(x, b->g);
    bt_array *part = bti_part_of_axis(x, axis, b->low[axis], bt_shape_of(b->g).size[axis]);
    return bt_update_slice_axis(x, add_box(part, b, axis + 1), bt_i64(b->low[axis]), axis);
}

/* What could not be joined, since it overlaps: one by one, each where its array is added up (docs/decisions/0046). */
static bt_array *add_boxes(const box *boxes, int count, const bt_shape *whole) {
    bt_array *sum = NULL;
    for (int i = 0; i < count; i++) {
        if (sum && share_of(&boxes[i], whole) <= 0.5) {
            sum = add_box(sum, &boxes[i], 0);
            continue;
        }
        bt_array *padded = bt_pad(boxes[i].g, boxes[i].low, boxes[i].high, 0);
        sum = sum ? bt_add(sum, padded) : padded;
    }
    return sum;
}

/* Whether boxes are added to a sum that there is one by one: they are ranges of all axes, and together at most half of the array. */
static bool are_few(const box *boxes, int count, const bt_shape *whole) {
    double share = 0;
    for (int i = 0; i < whole->rank; i++)
        if (boxes[0].step[i] > 1) return false;
    for (int i = 0; i < count; i++) share += share_of(&boxes[i], whole);
    return share <= 0.5;
}

/* Boxes of equal steps, as an array of the whole shape. */
static bt_array *join_boxes(box *boxes, int count, bt_shape whole, bt_array **row) {
    const int64_t *step = boxes[0].step;
    bt_shape grid = grid_of(whole, step);
    for (int i = whole.rank, axis = grid.rank; i-- > 0 && count > 1;) {
        axis -= 1 + (step[i] > 1);
        if (step[i] > 1)
            count = join_steps(boxes, count, axis, &grid, row);
        else if (!bti_size_is_symbolic(whole.size[i]))
            count = join_along(boxes, count, axis, whole.size[i], row);
    }
    bt_array *sum = add_boxes(boxes, count, &grid);
    return grid.rank > whole.rank ? array_of_grid(sum, whole, step) : sum;
}

/* Moves the boxes with the steps of the first one to the front; how many they are. */
static int gather_steps(box *boxes, int count) {
    int found = 1;
    for (int i = 1; i < count; i++) {
        if (memcmp(boxes[i].step, boxes[0].step, sizeof boxes[0].step)) continue;
        box moved = boxes[i];
        memmove(boxes + found + 1, boxes + found, (size_t)(i - found) * sizeof *boxes);
        boxes[found++] = moved;
    }
    return found;
}

/* --- parts ---------------------------------------------------------------------------------------------------------- */

/* sum (NULL: nothing) with boxes of equal steps. */
static bt_array *add_joined(bt_array *sum, box *boxes, int count, bt_shape whole, bt_array **row) {
    if (count > 1) count = add_equal(boxes, count, 0);
    bool few = sum && are_few(boxes, count, &whole);
    for (int i = 0; i < count && few; i++) sum = add_box(sum, &boxes[i], 0);
    if (few) return sum;
    bt_array *joined = join_boxes(boxes, count, whole, row);
    return sum ? bt_add(sum, joined) : joined;
}

bt_array *bti_join_parts(bt_array *x, bt_array *onto, bti_part *parts, int count) {
    if (bti_array_error(x)) return x;
    bt_shape whole = bt_shape_of(x);
    box *boxes = bti_calloc((size_t)count, sizeof *boxes);
    bt_array **room = bti_calloc(2 * (size_t)count + 1, sizeof(bt_array *)), *sum = onto;
    int slices = 0;
    for (int i = 0; i < count && boxes && room; i++) {
        if (!parts[i].g) continue; /* added by an earlier one */
        if (parts[i].indices) {
            sum = scatter_rows(x, sum, &parts[i], count - i, room);
            continue;
        }
        boxes[slices] = box_of_slice(&parts[i], whole, slices);
        slices++;
    }
    if (!boxes || !room) sum = bti_poison(bti_no_memory_new());
    for (int first = 0, found; boxes && room && first < slices; first += found) {
        found = gather_steps(boxes + first, slices - first);
        sum = add_joined(sum, boxes + first, found, whole, room);
    }
    bti_free(boxes);
    bti_free(room);
    return sum;
}
