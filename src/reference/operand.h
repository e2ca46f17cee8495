/* Operands in the memory of this process, for the interpreter and the CPU driver.
 *
 * A *walk* visits all positions of several strided operands, line by line: a line is the innermost axis, after axes were
 * collapsed. A *block* is a short array of elements in one of five plain types, the *lane* types, in which all arithmetic is done:
 * elements of any dtype are read into blocks and written back, rounded or cut to the dtype. */
#ifndef BTI_REFERENCE_OPERAND_H
#define BTI_REFERENCE_OPERAND_H

#include <string.h>

#include "ir/work.h"

/* --- operands and walks ----------------------------------------------------------------------------------------  */

#define BTI_WALK_OPERANDS 5

/* Visits all positions of a shape in row-major order, a line at a time, after axes were collapsed:
 *     for (bti_walk_start(&walk, ...); walk.more; bti_walk_next(&walk)) { elements walk.at[k] + i * walk.step[k] } */
typedef struct bti_walk {
    bool more, empty;
    int count, axes;                 /* operands; axes around the line */
    int64_t length;                  /* elements of a line */
    int64_t step[BTI_WALK_OPERANDS]; /* bytes from one element of a line to the next */
    char *at[BTI_WALK_OPERANDS];     /* the line's first element */
    int64_t shape[BTI_MAX_RANK], index[BTI_MAX_RANK], stride[BTI_WALK_OPERANDS][BTI_MAX_RANK]; /* bytes */
} bti_walk;

/* The shapes of the operands themselves are ignored. */
void bti_walk_start(bti_walk *walk, int rank, const int64_t *shape, int count, const bti_operand *const *operands);
void bti_walk_next(bti_walk *walk);
void bti_walk_restart(bti_walk *walk, char *const *at); /* the same walk from other first elements */
/* Of a walk that has just started: the number of its positions, and where each operand has one of them. */
int64_t bti_walk_positions(const bti_walk *walk);
void bti_walk_at(const bti_walk *walk, int64_t position, char **at);

/* The shape of an operand with some axes (a mask) set to 1. */
void bti_shape_without(const bti_operand *operand, uint64_t axes, int64_t *shape);
static inline char *bti_address(const bti_operand *operand) { return (char *)(uintptr_t)operand->address; }
static inline int64_t bti_axis_step(const bti_operand *operand, int axis) { /* bytes */
    return operand->stride[axis] * (int64_t)bt_dtype_size(operand->dtype);
}

int64_t bti_operand_count(const bti_operand *operand); /* elements */
bool bti_operand_is_dense(const bti_operand *operand); /* row-major, without gaps; one without elements is */
/* What lies at one position of the axes up to this one is. */
bool bti_operand_is_dense_after(const bti_operand *operand, int axis);
void bti_operand_make_dense(bti_operand *operand); /* its strides */
/* An operand's part along an axis: `length` positions from `from`. */
bti_operand bti_operand_part(const bti_operand *operand, int axis, int64_t from, int64_t length);
/* The int32 or int64 index at `at`; a negative one counts from the end; -1 when out of range. */
static inline int64_t bti_index_in(const bti_operand *indices, const char *at, int64_t length) {
    int64_t i = indices->dtype == BT_I32 ? *(const int32_t *)(const void *)at : *(const int64_t *)(const void *)at;
    if (i < 0) i += length;
    return i >= 0 && i < length ? i : -1;
}
/* The `count` rows along an axis from the one index on, moved so that all are within. */
bti_operand bti_operand_part_at(const bti_operand *whole, int axis, const bti_operand *index, int64_t count);
/* The bits of the element that stands for a missing value: NaN; 0 for integers. */
uint64_t bti_missing(bt_dtype dtype);

/* Elements one by one; steps in bytes. The ranges are the same or do not overlap. */
void bti_copy_line(char *to, int64_t to_step, const char *from, int64_t from_step, int64_t count, size_t size);
void bti_copy_operand(const bti_operand *to, const bti_operand *from); /* same shape, same size of elements */

/* --- blocks ---------------------------------------------------------------------------------------------------- */

#define BTI_BLOCK 256

typedef enum bti_lane { BTI_LANE_F32, BTI_LANE_F64, BTI_LANE_I64, BTI_LANE_U64, BTI_LANE_BOOL } bti_lane;
typedef union bti_lane_block {
    float f32[BTI_BLOCK]; /* float16, bfloat16, float32 */
    double f64[BTI_BLOCK];
    int64_t i64[BTI_BLOCK];
    uint64_t u64[BTI_BLOCK];
    uint8_t boolean[BTI_BLOCK];
} bti_lane_block;

bti_lane bti_lane_of(bt_dtype dtype);
/* `count` (at most BTI_BLOCK) elements as the dtype's lane type: read into the block, or the elements in place where they have that type. */
const void *bti_lane_block_read(bti_lane_block *block, bt_dtype dtype, const char *at, int64_t step, int count);
/* Writes values of a lane type as any dtype, by the rules of `cast`. From the dtype's own lane type they are only rounded or truncated. */
void bti_lane_block_write(bti_lane lane, const void *values, bt_dtype dtype, char *at, int64_t step, int count);

static inline int bti_lane_block_count(int64_t left) { return left < BTI_BLOCK ? (int)left : BTI_BLOCK; }

#endif
