#include <string.h>

#include "reference/interp_parts.h"

static bool mergeable(const bti_walk *walk, int64_t length, const int64_t *step) {
    for (int k = 0; k < walk->count; k++)
        if (walk->stride[k][walk->axes - 1] != step[k] * length) return false;
    return true;
}

static void add_axis(bti_walk *walk, int64_t length, const int64_t *step) {
    if (walk->axes && mergeable(walk, length, step)) {
        length *= walk->shape[walk->axes - 1];
        walk->axes--;
    }
    walk->shape[walk->axes] = length;
    for (int k = 0; k < walk->count; k++) walk->stride[k][walk->axes] = step[k];
    walk->axes++;
}

void bti_walk_start(bti_walk *walk, int rank, const int64_t *shape, int count, const bti_operand *const *operands) {
    walk->count = count;
    walk->axes = 0;
    walk->length = 1;
    walk->empty = false;
    for (int axis = 0; axis < rank; axis++) {
        int64_t step[BTI_WALK_OPERANDS];
        walk->empty |= shape[axis] == 0;
        if (shape[axis] == 1) continue;
        for (int k = 0; k < count; k++) step[k] = bti_step(operands[k], axis);
        add_axis(walk, shape[axis], step);
    }
    for (int k = 0; k < count; k++) walk->step[k] = (int64_t)bt_dtype_size(operands[k]->dtype);
    if (walk->axes) {
        walk->axes--;
        walk->length = walk->shape[walk->axes];
        for (int k = 0; k < count; k++) walk->step[k] = walk->stride[k][walk->axes];
    }
    char *at[BTI_WALK_OPERANDS];
    for (int k = 0; k < count; k++) at[k] = bti_address(operands[k]);
    bti_walk_restart(walk, at);
}

void bti_walk_restart(bti_walk *walk, char *const *at) {
    for (int axis = 0; axis < walk->axes; axis++) walk->index[axis] = 0;
    for (int k = 0; k < walk->count; k++) walk->at[k] = at[k];
    walk->more = !walk->empty;
}

void bti_walk_next(bti_walk *walk) {
    for (int axis = walk->axes - 1; axis >= 0; axis--) {
        bool carry = ++walk->index[axis] == walk->shape[axis];
        int64_t by = carry ? 1 - walk->shape[axis] : 1;
        for (int k = 0; k < walk->count; k++) walk->at[k] += by * walk->stride[k][axis];
        if (!carry) return;
        walk->index[axis] = 0;
    }
    walk->more = false;
}

int64_t bti_operand_count(const bti_operand *operand) {
    int64_t count = 1;
    for (int axis = 0; axis < operand->rank; axis++) count *= operand->shape[axis];
    return count;
}

bool bti_operand_is_dense(const bti_operand *operand) {
    bti_layout layout = {0};
    memcpy(layout.stride, operand->stride, sizeof layout.stride);
    return bti_layout_is_dense(operand->rank, operand->shape, &layout);
}

void bti_operand_make_dense(bti_operand *operand) {
    bti_layout layout;
    bti_layout_dense(operand->rank, operand->shape, &layout);
    memcpy(operand->stride, layout.stride, sizeof layout.stride);
}

void bti_shape_without(const bti_operand *operand, uint64_t axes, int64_t *shape) {
    for (int axis = 0; axis < operand->rank; axis++) shape[axis] = axes >> axis & 1 ? 1 : operand->shape[axis];
}

#define COPY_ELEMENTS(size) \
    for (int64_t i = 0; i < count; i++) memcpy(to + i * to_step, from + i * from_step, size)

void bti_copy_line(char *to, int64_t to_step, const char *from, int64_t from_step, int64_t count, size_t size) {
    if (to_step == (int64_t)size && from_step == (int64_t)size) {
        memmove(to, from, (size_t)count * size);
        return;
    }
    switch (size) {
    case 1: COPY_ELEMENTS(1); break;
    case 2: COPY_ELEMENTS(2); break;
    case 4: COPY_ELEMENTS(4); break;
    default: COPY_ELEMENTS(8); break;
    }
}

void bti_copy_operand(const bti_operand *to, const bti_operand *from) {
    bti_walk walk;
    size_t size = bt_dtype_size(to->dtype);
    for (bti_walk_start(&walk, to->rank, to->shape, 2, (const bti_operand *[]){to, from}); walk.more;
         bti_walk_next(&walk))
        bti_copy_line(walk.at[0], walk.step[0], walk.at[1], walk.step[1], walk.length, size);
}
