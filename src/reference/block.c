#include <string.h>

#include "ir/dtype.h"
#include "ir/half.h"
#include "reference/interp_parts.h"
#include "ir/scalar.h"

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

const void *bti_block_read(bti_block *block, bt_dtype dtype, const char *at, int64_t step, int count) {
    if (same_type(bti_lane_of(dtype), dtype) && step == (int64_t)bt_dtype_size(dtype)) return at;
    switch (dtype) {
    case BT_BOOL: READ(boolean, uint8_t, x);
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
    case BT_DTYPE_COUNT: break;
    }
}

/* For one rounding to bfloat16: 64 bits in a double's 53, the bits that go marked in the last that stays. (float16 needs
 * no such care: what has more than 53 bits is infinite there.) */
static double sticky(bool negative, uint64_t magnitude) {
    if (magnitude >> 53) magnitude = (magnitude >> 11 | ((magnitude & 0x7FF) != 0)) << 11;
    return negative ? -(double)magnitude : (double)magnitude;
}

#define WRITE_WHOLE(x, negative, magnitude)                                        \
    switch (dtype) {                                                               \
    case BT_BOOL: WRITE(uint8_t, x[i] != 0);                                       \
    case BT_U8: WRITE(uint8_t, x[i]);                                              \
    case BT_U16: WRITE(uint16_t, x[i]);                                            \
    case BT_U32: WRITE(uint32_t, x[i]);                                            \
    case BT_U64: WRITE(uint64_t, x[i]);                                            \
    case BT_I8: WRITE(int8_t, x[i]);                                               \
    case BT_I16: WRITE(int16_t, x[i]);                                             \
    case BT_I32: WRITE(int32_t, x[i]);                                             \
    case BT_I64: WRITE(int64_t, x[i]);                                             \
    case BT_F16: WRITE(uint16_t, bti_f16_from_f64((double)x[i]));                  \
    case BT_BF16: WRITE(uint16_t, bti_bf16_from_f64(sticky(negative, magnitude))); \
    case BT_F32: WRITE(float, x[i]);                                               \
    case BT_F64: WRITE(double, x[i]);                                              \
    case BT_DTYPE_COUNT: break;                                                    \
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

void bti_block_write(bti_lane lane, const void *values, bt_dtype dtype, char *at, int64_t step, int count) {
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
