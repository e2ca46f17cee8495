/* Walks over strided operands, and blocks of elements in one of five plain types. */
#include "reference/operand.h"

#include <string.h>

#include "ir/dtype.h"
#include "ir/half.h"
#include "ir/scalar.h"

/* --- operands ------------------------------------------------------------------------------------------------------ */

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

bool bti_operand_is_dense_after(const bti_operand *operand, int axis) {
    int64_t count = 1;
    for (int a = operand->rank - 1; a > axis; a--) {
        if (operand->shape[a] != 1 && operand->stride[a] != count) return false;
        count *= operand->shape[a];
    }
    return true;
}

void bti_operand_make_dense(bti_operand *operand) {
    bti_layout layout;
    bti_layout_dense(operand->rank, operand->shape, &layout);
    memcpy(operand->stride, layout.stride, sizeof layout.stride);
}

void bti_shape_without(const bti_operand *operand, uint64_t axes, int64_t *shape) {
    for (int axis = 0; axis < operand->rank; axis++) shape[axis] = axes >> axis & 1 ? 1 : operand->shape[axis];
}

bti_operand bti_operand_part_at(const bti_operand *whole, int axis, const bti_operand *index, int64_t count) {
    const void *at = bti_address(index);
    int64_t start = index->dtype == BT_I32 ? *(const int32_t *)at : *(const int64_t *)at,
            last = whole->shape[axis] - count;
    return bti_operand_part(whole, axis, start > last ? last : start < 0 ? 0 : start, count);
}

uint64_t bti_missing(bt_dtype dtype) {
    switch (dtype) {
    case BT_F8E4M3: return 0x7F;
    case BT_F8E5M2: return 0x7E;
    case BT_F16: return 0x7E00;
    case BT_BF16: return 0x7FC0;
    case BT_F32: return 0x7FC00000;
    case BT_C64: return UINT64_C(0x7FC000007FC00000); /* in both parts */
    case BT_F64: return UINT64_C(0x7FF8) << 48;
    default: return 0;
    }
}

bti_operand bti_operand_part(const bti_operand *operand, int axis, int64_t from, int64_t length) {
    bti_operand p = *operand;
    p.address += (uint64_t)(from * bti_axis_step(operand, axis));
    p.shape[axis] = length;
    return p;
}

/* --- walks --------------------------------------------------------------------------------------------------------- */

void bti_walk_start(bti_walk *walk, int rank, const int64_t *shape, int count, const bti_operand *const *operands) {
    int64_t *stride[BTI_WALK_OPERANDS];
    walk->count = count;
    walk->length = 1;
    walk->empty = false;
    for (int axis = 0; axis < rank; axis++) {
        walk->empty |= shape[axis] == 0;
        walk->shape[axis] = shape[axis];
        for (int k = 0; k < count; k++) walk->stride[k][axis] = bti_axis_step(operands[k], axis);
    }
    for (int k = 0; k < count; k++) stride[k] = walk->stride[k];
    walk->axes = bti_axes_collapse(0, rank, rank, walk->shape, count, stride);
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

int64_t bti_walk_positions(const bti_walk *walk) {
    int64_t count = walk->empty ? 0 : walk->length;
    for (int axis = 0; axis < walk->axes; axis++) count *= walk->shape[axis];
    return count;
}

void bti_walk_at(const bti_walk *walk, int64_t position, char **at) {
    for (int k = 0; k < walk->count; k++) at[k] = walk->at[k] + position % walk->length * walk->step[k];
    position /= walk->length;
    for (int axis = walk->axes - 1; axis >= 0; position /= walk->shape[axis--])
        for (int k = 0; k < walk->count; k++) at[k] += position % walk->shape[axis] * walk->stride[k][axis];
}

#define COPY_ELEMENTS(size) \
    for (int64_t i = 0; i < count; i++) memcpy(to + i * to_step, from + i * from_step, size)

/* One element everywhere: copies what is filled, in pieces that stay in the first cache. */
static void fill_line(char *to, const char *from, size_t bytes, size_t size) {
    enum { PIECE = 4096 };
    memcpy(to, from, size);
    for (size_t done = size, more; done < bytes; done += more) {
        more = done < PIECE ? done : PIECE;
        if (more > bytes - done) more = bytes - done;
        memcpy(to + done, to, more);
    }
}

void bti_copy_line(char *to, int64_t to_step, const char *from, int64_t from_step, int64_t count, size_t size) {
    if (to_step == (int64_t)size && from_step == (int64_t)size) {
        memmove(to, from, (size_t)count * size);
        return;
    }
    if (to_step == (int64_t)size && from_step == 0 && count > 0) {
        fill_line(to, from, (size_t)count * size, size);
        return;
    }
    switch (size) {
    case 1: COPY_ELEMENTS(1); break;
    case 2: COPY_ELEMENTS(2); break;
    case 4: COPY_ELEMENTS(4); break;
    case 16: COPY_ELEMENTS(16); break;
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

/* --- blocks -------------------------------------------------------------------------------------------------------- */

bti_lane bti_lane_of(bt_dtype dtype) {
    if (dtype == BT_BOOL) return BTI_LANE_BOOL;
    if (dtype == BT_F64) return BTI_LANE_F64;
    if (bti_dtype_is_float(dtype)) return BTI_LANE_F32;
    return bti_dtype_is_signed(dtype) ? BTI_LANE_I64 : BTI_LANE_U64;
}

static bool same_type(bti_lane lane, bt_dtype dtype) {
    static const uint8_t own[] = {BT_F32, BT_F64, BT_I64, BT_U64, BT_BOOL};
    return own[lane] == dtype;
}

#define READ(member, type, expression)                         \
    for (int i = 0; i < count; i++) {                          \
        type x = *(const type *)(const void *)(at + i * step); \
        block->member[i] = expression;                         \
    }                                                          \
    break

const void *bti_lane_block_read(bti_lane_block *block, bt_dtype dtype, const char *at, int64_t step, int count) {
    if (same_type(bti_lane_of(dtype), dtype) && step == (int64_t)bt_dtype_size(dtype)) return at;
    switch (dtype) {
    case BT_BOOL: READ(boolean, uint8_t, x);
    case BT_F8E4M3:
    case BT_F8E5M2: /* their bits */
    case BT_U8: READ(u64, uint8_t, x);
    case BT_U16: READ(u64, uint16_t, x);
    case BT_U32: READ(u64, uint32_t, x);
    case BT_U64: READ(u64, uint64_t, x);
    case BT_I8: READ(i64, int8_t, x);
    case BT_I16: READ(i64, int16_t, x);
    case BT_I32: READ(i64, int32_t, x);
    case BT_I64: READ(i64, int64_t, x);
    case BT_F16: READ(f32, uint16_t, bti_f32_from_f16(x));
    case BT_BF16: READ(f32, uint16_t, bti_f32_from_bf16(x));
    case BT_F32: READ(f32, float, x);
    case BT_F64: READ(f64, double, x);
    case BT_C64:
    case BT_C128:
    case BT_DTYPE_COUNT: break;
    }
    return block;
}

#define WRITE(type, expression)                                                            \
    for (int i = 0; i < count; i++) *(type *)(void *)(at + i * step) = (type)(expression); \
    break

#define WRITE_INT(type, low, high) WRITE(type, BTI_SATURATED(type, low, high, x[i]))

static void write_f64(const double *x, bt_dtype dtype, char *at, int64_t step, int count) {
    switch (dtype) {
    case BT_BOOL: WRITE(uint8_t, x[i] != 0);
    case BT_F8E4M3:
    case BT_F8E5M2:
    case BT_U8: WRITE_INT(uint8_t, 0, UINT8_MAX);
    case BT_U16: WRITE_INT(uint16_t, 0, UINT16_MAX);
    case BT_U32: WRITE_INT(uint32_t, 0, UINT32_MAX);
    case BT_U64: WRITE_INT(uint64_t, 0, UINT64_MAX);
    case BT_I8: WRITE_INT(int8_t, INT8_MIN, INT8_MAX);
    case BT_I16: WRITE_INT(int16_t, INT16_MIN, INT16_MAX);
    case BT_I32: WRITE_INT(int32_t, INT32_MIN, INT32_MAX);
    case BT_I64: WRITE_INT(int64_t, INT64_MIN, INT64_MAX);
    case BT_F16: WRITE(uint16_t, bti_f16_from_f64(x[i]));
    case BT_BF16: WRITE(uint16_t, bti_bf16_from_f64(x[i]));
    case BT_F32: WRITE(float, x[i]);
    case BT_F64: WRITE(double, x[i]);
    case BT_C64:
    case BT_C128:
    case BT_DTYPE_COUNT: break;
    }
}

/* A float64 that rounds to the same bfloat16 as the integer: dropped bits are marked in the last bit that is kept. (float16 needs no
 * mark: integers of more than 53 bits are infinite there.) */
static double odd_f64(bool negative, uint64_t magnitude) {
    if (magnitude >> 53) magnitude = (magnitude >> 11 | ((magnitude & 0x7FF) != 0)) << 11;
    return negative ? -(double)magnitude : (double)magnitude;
}

#define WRITE_WHOLE(x, negative, magnitude)                                         \
    switch (dtype) {                                                                \
    case BT_BOOL: WRITE(uint8_t, x[i] != 0);                                        \
    case BT_F8E4M3:                                                                 \
    case BT_F8E5M2:                                                                 \
    case BT_U8: WRITE(uint8_t, x[i]);                                               \
    case BT_U16: WRITE(uint16_t, x[i]);                                             \
    case BT_U32: WRITE(uint32_t, x[i]);                                             \
    case BT_U64: WRITE(uint64_t, x[i]);                                             \
    case BT_I8: WRITE(int8_t, x[i]);                                                \
    case BT_I16: WRITE(int16_t, x[i]);                                              \
    case BT_I32: WRITE(int32_t, x[i]);                                              \
    case BT_I64: WRITE(int64_t, x[i]);                                              \
    case BT_F16: WRITE(uint16_t, bti_f16_from_f64((double)x[i]));                   \
    case BT_BF16: WRITE(uint16_t, bti_bf16_from_f64(odd_f64(negative, magnitude))); \
    case BT_F32: WRITE(float, x[i]);                                                \
    case BT_F64: WRITE(double, x[i]);                                               \
    case BT_C64:                                                                    \
    case BT_C128:                                                                   \
    case BT_DTYPE_COUNT: break;                                                     \
    }

static void write_i64(const int64_t *x, bt_dtype dtype, char *at, int64_t step, int count) {
    WRITE_WHOLE(x, x[i] < 0, x[i] < 0 ? 0 - (uint64_t)x[i] : (uint64_t)x[i])
}

static void write_u64(const uint64_t *x, bt_dtype dtype, char *at, int64_t step, int count) {
    WRITE_WHOLE(x, false, x[i])
}

static void write_f32(const float *x, bt_dtype dtype, char *at, int64_t step, int count) {
    double wide[BTI_BLOCK];
    switch (dtype) {
    case BT_F16: WRITE(uint16_t, bti_f16_from_f32(x[i]));
    case BT_BF16: WRITE(uint16_t, bti_bf16_from_f32(x[i]));
    case BT_F32: WRITE(float, x[i]);
    default:
        for (int i = 0; i < count; i++) wide[i] = x[i];
        write_f64(wide, dtype, at, step, count);
    }
}

static void write_bool(const uint8_t *x, bt_dtype dtype, char *at, int64_t step, int count) {
    uint64_t wide[BTI_BLOCK];
    for (int i = 0; i < count; i++) wide[i] = x[i];
    write_u64(wide, dtype, at, step, count);
}

void bti_lane_block_write(bti_lane lane, const void *values, bt_dtype dtype, char *at, int64_t step, int count) {
    size_t size = bt_dtype_size(dtype);
    if (same_type(lane, dtype) && step == (int64_t)size) {
        memmove(at, values, (size_t)count * size);
        return;
    }
    switch (lane) {
    case BTI_LANE_F32: write_f32(values, dtype, at, step, count); break;
    case BTI_LANE_F64: write_f64(values, dtype, at, step, count); break;
    case BTI_LANE_I64: write_i64(values, dtype, at, step, count); break;
    case BTI_LANE_U64: write_u64(values, dtype, at, step, count); break;
    case BTI_LANE_BOOL: write_bool(values, dtype, at, step, count); break;
    }
}
