/* Gradients of parts of a view: parts of the array that it is a view of, where they are that. So a view that is recorded anew for each part costs as much as
 * one view: no array of its size is made for each. */
#include "ops/gradient.h"
#include "ops/primitive.h"

static bool through_permute(const bti_node *y, bti_part *part) {
    bti_part of_y = *part;
    bt_axes back = {.count = y->rank};
    for (int i = 0; i < y->rank; i++) {
        int axis = y->attr->permute.axis[i];
        back.axis[axis] = i;
        part->start[axis] = of_y.start[i], part->step[axis] = of_y.step[i];
    }
    if (part->indices) part->axis = y->attr->permute.axis[part->axis];
    part->g = bt_permute_axes(part->g, back);
    return true;
}

static bool through_slice(const bti_node *y, bti_part *part) {
    if (part->indices) return false; /* they count from the beginning or the end of the slice */
    for (int i = 0; i < y->rank; i++) {
        part->start[i] = y->attr->slice.start[i] + y->attr->slice.step[i] * part->start[i];
        part->step[i] *= y->attr->slice.step[i];
    }
    return true;
}

/* --- reshapes ------------------------------------------------------------------------------------------------------- */

/* Axes of x and of y that hold the same elements, without those of size 1. */
typedef struct group {
    int x[BT_MAX_RANK], y[BT_MAX_RANK];
    int x_count, y_count;
} group;

/* A part of x by axis, as it is found. */
typedef struct range {
    int64_t start[BT_MAX_RANK], step[BT_MAX_RANK], count[BT_MAX_RANK];
} range;

static int next_axis(const bti_node *node, int axis) {
    while (axis < node->rank && node->shape[axis] == 1) axis++;
    return axis;
}

/* The group that begins at the axes *i and *j, which come to be behind it. x and y have as many elements, and not none. */
static group next_group(const bti_node *x, const bti_node *y, int *i, int *j) {
    group g = {0};
    int64_t x_size = 1, y_size = 1;
    do {
        bool of_x = x_size <= y_size;
        if (of_x) {
            x_size *= x->shape[*i];
            g.x[g.x_count++] = *i;
            *i = next_axis(x, *i + 1);
        } else {
            y_size *= y->shape[*j];
            g.y[g.y_count++] = *j;
            *j = next_axis(y, *j + 1);
        }
    } while (x_size != y_size);
    return g;
}

/* The elements of the group that a part of y has, counted in order: whether they follow each other. */
static bool flatten(const group *g, const bti_node *y, const bti_part *part, int64_t *offset, int64_t *length) {
    int64_t size = 1; /* of the axes behind */
    *offset = 0, *length = 1;
    for (int k = g->y_count; k-- > 0;) {
        int axis = g->y[k];
        int64_t count = bt_shape_of(part->g).size[axis];
        bool whole_behind = *length == size;
        if (count != 1 && (!whole_behind || part->step[axis] != 1)) return false;
        *offset += part->start[axis] * size;
        if (whole_behind) *length = count * size;
        size *= y->shape[axis];
    }
    return true;
}

/* Whether that is a range of each axis of x. */
static bool unflatten(const group *g, const bti_node *x, int64_t offset, int64_t length, range *r) {
    for (int k = g->x_count; k-- > 0;) {
        int axis = g->x[k];
        int64_t size = x->shape[axis], start = offset % size;
        bool whole = start == 0 && length % size == 0;
        if (!whole && start + length > size) return false;
        r->start[axis] = start;
        r->count[axis] = whole ? size : length;
        length = whole ? length / size : 1;
        offset /= size;
    }
    return length == 1;
}

static bool part_of_group(const group *g, const bti_node *x, const bti_node *y, const bti_part *part, range *r) {
    int64_t offset, length;
    if (g->x_count == 1 && g->y_count == 1) {
        r->start[g->x[0]] = part->start[g->y[0]], r->step[g->x[0]] = part->step[g->y[0]];
        r->count[g->x[0]] = bt_shape_of(part->g).size[g->y[0]];
        return true;
    }
    return flatten(g, y, part, &offset, &length) && unflatten(g, x, offset, length, r);
}

/* The axis of x that is y's axis, with its rows; -1: none is. */
static int axis_of_rows(const group *g, int axis) {
    return g->x_count == 1 && g->y_count == 1 && g->y[0] == axis ? g->x[0] : -1;
}

static bool through_reshape(const bti_node *x, const bti_node *y, bti_part *part) {
    bt_shape shape = {.rank = x->rank};
    range r;
    int axis = -1;
    for (int i = 0; i < x->rank; i++) r.start[i] = 0, r.step[i] = 1, r.count[i] = x->shape[i];
    for (int i = next_axis(x, 0), j = next_axis(y, 0); i < x->rank;) {
        group g = next_group(x, y, &i, &j);
        if (part->indices && axis < 0) axis = axis_of_rows(&g, part->axis);
        if (!part->indices && !part_of_group(&g, x, y, part, &r)) return false;
    }
    if (part->indices) {
        if (axis < 0) return false;
        r.count[axis] = bt_shape_of(part->g).size[part->axis];
        part->axis = axis;
    }
    for (int i = 0; i < x->rank; i++) {
        part->start[i] = r.start[i], part->step[i] = r.step[i];
        shape.size[i] = r.count[i];
    }
    part->g = bt_reshape_to(part->g, shape);
    return true;
}

/* --- all of them ---------------------------------------------------------------------------------------------------- */

static bool is_known(const bti_node *node) {
    for (int i = 0; i < node->rank; i++)
        if (bti_size_is_symbolic(node->shape[i]) || node->shape[i] == 0) return false;
    return true;
}

bool bti_part_of_input(const bti_node *y, const bti_node *x, bti_part *part) {
    if (!is_known(x) || !is_known(y) || bti_node_count(bti_node_of(part->g)) == 0) return false;
    switch (y->op) {
    case BTI_OP_permute: return through_permute(y, part);
    case BTI_OP_slice: return through_slice(y, part);
    case BTI_OP_reshape: return through_reshape(x, y, part);
    default: return false;
    }
}
