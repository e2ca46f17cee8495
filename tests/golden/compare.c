/* When a result agrees. */
#include "golden/golden.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static double half(uint16_t bits) {
    int exponent = bits >> 10 & 31, fraction = bits & 1023;
    double size = exponent == 31  ? (fraction ? NAN : INFINITY)
                  : exponent == 0 ? ldexp(fraction, -24)
                                  : ldexp(fraction + 1024, exponent - 25);
    return bits >> 15 ? -size : size;
}

static double bfloat(uint16_t bits) {
    uint32_t wide = (uint32_t)bits << 16;
    float value;
    memcpy(&value, &wide, sizeof value);
    return (double)value;
}

/* E4M3 has no infinity; E5M2 is the upper half of a float16. */
static double byte_float(bt_dtype dtype, uint8_t bits) {
    if (dtype == BT_F8E5M2) return half((uint16_t)(bits << 8));
    int exponent = bits >> 3 & 15, fraction = bits & 7;
    double size = (bits & 127) == 127 ? NAN : exponent == 0 ? ldexp(fraction, -9) : ldexp(fraction + 8, exponent - 10);
    return bits >> 7 ? -size : size;
}

/* 64-bit integers are rounded: see agree. */
static double element(const void *data, bt_dtype dtype, int64_t i) {
    switch (dtype) {
    case BT_BOOL:
    case BT_U8: return ((const uint8_t *)data)[i];
    case BT_U16: return ((const uint16_t *)data)[i];
    case BT_U32: return ((const uint32_t *)data)[i];
    case BT_U64: return (double)((const uint64_t *)data)[i];
    case BT_I8: return ((const int8_t *)data)[i];
    case BT_I16: return ((const int16_t *)data)[i];
    case BT_I32: return ((const int32_t *)data)[i];
    case BT_I64: return (double)((const int64_t *)data)[i];
    case BT_F16: return half(((const uint16_t *)data)[i]);
    case BT_BF16: return bfloat(((const uint16_t *)data)[i]);
    case BT_F8E4M3:
    case BT_F8E5M2: return byte_float(dtype, ((const uint8_t *)data)[i]);
    case BT_F32: return ((const float *)data)[i];
    case BT_F64: return ((const double *)data)[i];
    default: return NAN;
    }
}

static bool agree(const char *ours, const char *theirs, bt_dtype dtype, int64_t i, double rtol, double atol) {
    size_t size = bt_dtype_size(dtype);
    if (!memcmp(ours + (size_t)i * size, theirs + (size_t)i * size, size)) return true;
    if (dtype < BT_F16 && rtol == 0 && atol == 0) return false;
    double x = element(ours, dtype, i), y = element(theirs, dtype, i);
    if (isnan(x) || isnan(y)) return isnan(x) && isnan(y);
    if (isinf(x) || isinf(y)) return x == y;
    return fabs(x - y) <= atol + rtol * fabs(y);
}

static void write_index(char *text, size_t size, bt_shape shape, int64_t i) {
    int64_t index[BT_MAX_RANK] = {0};
    for (int d = shape.rank - 1; d >= 0; d--) {
        index[d] = i % shape.size[d];
        i /= shape.size[d];
    }
    size_t at = 0;
    text[0] = '\0';
    for (int d = 0; d < shape.rank && at < size; d++)
        at += (size_t)snprintf(text + at, size - at, "%s%lld", d ? ", " : "", (long long)index[d]);
}

static void write_shape(char *text, size_t size, bt_array *x) {
    bt_shape shape = bt_shape_of(x);
    size_t at = (size_t)snprintf(text, size, "%s[", bt_dtype_name(bt_dtype_of(x)));
    for (int d = 0; d < shape.rank && at < size; d++)
        at += (size_t)snprintf(text + at, size - at, "%s%lld", d ? ", " : "", (long long)shape.size[d]);
    if (at < size) snprintf(text + at, size - at, "]");
}

static bool elements_agree(const char *label, const void *ours, const void *theirs, bt_array *like, double rtol,
                           double atol, char *why, size_t why_size) {
    bt_dtype dtype = bt_dtype_of(like);
    int64_t count = bt_count(like), first = -1, wrong = 0;
    if (count == 0 || !memcmp(ours, theirs, (size_t)count * bt_dtype_size(dtype))) return true;
    for (int64_t i = 0; i < count; i++) {
        if (agree(ours, theirs, dtype, i, rtol, atol)) continue;
        if (wrong++ == 0) first = i;
    }
    if (!wrong) return true;
    char index[128];
    write_index(index, sizeof index, bt_shape_of(like), first);
    double x = element(ours, dtype, first), y = element(theirs, dtype, first);
    int digits = dtype == BT_F32 ? 9 : 17;
    snprintf(why, why_size, "%s[%s] is %.*g, theirs %.*g (off by %.3g, allowed %.3g); %lld of %lld differ", label,
             index, digits, x, digits, y, fabs(x - y), atol + rtol * fabs(y), (long long)wrong, (long long)count);
    return false;
}

bool golden_agrees(const char *label, bt_array *ours, bt_array *theirs, double rtol, double atol, char *why,
                   size_t why_size) {
    if (bt_peek_status(ours) != BT_OK && bt_block(ours) != BT_OK) {
        snprintf(why, why_size, "%s: %s", label, bt_error_text());
        return false;
    }
    if (bt_peek_status(theirs) != BT_OK && bt_block(theirs) != BT_OK) {
        snprintf(why, why_size, "%s to compare with: %s", label, bt_error_text());
        return false;
    }
    bt_shape a = bt_shape_of(ours), b = bt_shape_of(theirs);
    if (bt_dtype_of(ours) != bt_dtype_of(theirs) || a.rank != b.rank ||
        memcmp(a.size, b.size, (size_t)a.rank * sizeof *a.size)) {
        char x[160], y[160];
        write_shape(x, sizeof x, ours);
        write_shape(y, sizeof y, theirs);
        snprintf(why, why_size, "%s is %s, theirs %s", label, x, y);
        return false;
    }
    size_t bytes = (size_t)bt_count(ours) * bt_dtype_size(bt_dtype_of(ours));
    void *x = malloc(bytes + 1), *y = malloc(bytes + 1);
    bool agrees = false;
    if (!x || !y)
        snprintf(why, why_size, "%s: out of memory", label);
    else if (bt_read(ours, x, bytes) != BT_OK || bt_read(theirs, y, bytes) != BT_OK)
        snprintf(why, why_size, "%s: %s", label, bt_error_text());
    else
        agrees = elements_agree(label, x, y, theirs, rtol, atol, why, why_size);
    free(x);
    free(y);
    return agrees;
}
