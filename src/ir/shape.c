#include "ir/shape.h"

bool bti_shape_count(int rank, const int64_t *shape, int64_t *count) {
    int64_t product = 1;
    bool empty = false, fits = true;
    for (int axis = 0; axis < rank; axis++) {
        if (shape[axis] < 0) return false;
        empty |= shape[axis] == 0;
        fits = fits && !__builtin_mul_overflow(product, shape[axis], &product);
    }
    *count = empty ? 0 : product;
    return empty || fits;
}

bool bti_shape_equal(int rank_a, const int64_t *a, int rank_b, const int64_t *b) {
    if (rank_a != rank_b) return false;
    for (int axis = 0; axis < rank_a; axis++)
        if (a[axis] != b[axis]) return false;
    return true;
}

void bti_shape_text(bti_str *text, int rank, const int64_t *shape) {
    bti_str_add(text, "(");
    for (int axis = 0; axis < rank; axis++) {
        if (axis) bti_str_add(text, ", ");
        bti_size_text(text, shape[axis]);
    }
    bti_str_add(text, rank == 1 ? ",)" : ")");
}

/* --- layouts ------------------------------------------------------------------------------------------------------ */

/* The strides of an array without elements do not matter: sizes of 0 count as 1, so that nothing overflows. */
static int64_t extent_or_one(int64_t size) { return size > 1 ? size : 1; }

void bti_layout_dense(int rank, const int64_t *shape, bti_layout *layout) {
    int64_t stride = 1;
    *layout = (bti_layout){0};
    for (int axis = rank - 1; axis >= 0; axis--) {
        layout->stride[axis] = stride;
        if (__builtin_mul_overflow(stride, extent_or_one(shape[axis]), &stride))
            stride = 0; /* only where there is a size 0 */
    }
}

bool bti_layout_is_dense(int rank, const int64_t *shape, const bti_layout *layout) {
    int64_t stride = 1;
    bool dense = true;
    for (int axis = rank - 1; axis >= 0; axis--) {
        if (shape[axis] == 0) return true;
        if (shape[axis] == 1) continue;
        dense = dense && layout->stride[axis] == stride;
        if (__builtin_mul_overflow(stride, shape[axis], &stride)) dense = false;
    }
    return dense;
}

/* Axes of `shape` from *axis on, as few as hold a whole number of the new ones from *new_axis on; both advance past them.
 * The new strides are those of a row-major walk through the group, if the group is one evenly spaced run. */
static bool reshape_group(int rank, const int64_t *shape, const int64_t *stride, int *axis, int new_rank,
                          const int64_t *new_shape, int64_t *new_stride, int *new_axis) {
    int first = *new_axis;
    int64_t old_count = shape[*axis], new_count = new_shape[*new_axis];
    ++*axis, ++*new_axis;
    while (old_count != new_count) {
        if (old_count < new_count) {
            if (*axis == rank || stride[*axis - 1] != stride[*axis] * shape[*axis]) return false;
            old_count *= shape[(*axis)++];
        } else {
            if (*new_axis == new_rank) return false;
            new_count *= new_shape[(*new_axis)++];
        }
    }
    int64_t step = stride[*axis - 1];
    for (int i = *new_axis - 1; i >= first; i--) {
        new_stride[i] = step;
        step *= new_shape[i];
    }
    return true;
}

bool bti_layout_reshape(int rank, const int64_t *shape, const bti_layout *layout, int new_rank,
                        const int64_t *new_shape, bti_layout *out) {
    int64_t count, new_count, kept_shape[BTI_MAX_RANK], kept_stride[BTI_MAX_RANK];
    if (!bti_shape_count(rank, shape, &count) || !bti_shape_count(new_rank, new_shape, &new_count)) return false;
    if (count != new_count) return false;
    bti_layout_dense(new_rank, new_shape, out);
    out->offset = layout->offset;
    if (count == 0) return true;

    int kept = 0, axis = 0, new_axis = 0;
    for (int i = 0; i < rank; i++) { /* an axis of size 1 has no say */
        if (shape[i] == 1) continue;
        kept_shape[kept] = shape[i];
        kept_stride[kept++] = layout->stride[i];
    }
    while (axis < kept && new_axis < new_rank)
        if (!reshape_group(kept, kept_shape, kept_stride, &axis, new_rank, new_shape, out->stride, &new_axis))
            return false;
    return axis == kept;
}

int bti_axes_collapse(int first, int end, int axes, int64_t *extent, int operands, int64_t *const *stride) {
    int kept = first;
    for (int axis = first; axis < end; axis++) {
        if (extent[axis] == 1) continue;
        bool joins = kept > first;
        for (int o = 0; o < operands && joins; o++) joins = stride[o][kept - 1] == stride[o][axis] * extent[axis];
        int at = joins ? kept - 1 : kept++;
        extent[at] = joins ? extent[at] * extent[axis] : extent[axis];
        for (int o = 0; o < operands; o++) stride[o][at] = stride[o][axis];
    }
    for (int axis = end; axis < axes; axis++) {
        int to = axis - (end - kept);
        extent[to] = extent[axis];
        for (int o = 0; o < operands; o++) stride[o][to] = stride[o][axis];
    }
    return kept - first;
}
