#include "support/values.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

const char *const layout_names[] = {"dense", "transposed", "flipped", "stepped", "expanded"};

bool dtype_is_float(bt_dtype dtype) { return dtype >= BT_F16 && dtype <= BT_F64; }
bool dtype_is_unsigned(bt_dtype dtype) { return dtype >= BT_U8 && dtype <= BT_U64; }

/* --- one element ---------------------------------------------------------------------------------------------------------- */

static uint64_t float_bits(double value, int exponent_bits, int mantissa_bits) { /* of f16, bf16: to nearest even */
    uint64_t sign = signbit(value) ? UINT64_C(1) << (exponent_bits + mantissa_bits) : 0;
    int bias = (1 << (exponent_bits - 1)) - 1, exponent;
    uint64_t infinity = ((UINT64_C(1) << exponent_bits) - 1) << mantissa_bits;
    if (value != value) return sign | infinity | (UINT64_C(1) << (mantissa_bits - 1));
    double size = fabs(value);
    if (isinf(size)) return sign | infinity;
    if (size == 0) return sign;
    (void)frexp(size, &exponent); /* size is in [2**(exponent-1), 2**exponent) */
    if (exponent - 1 < 1 - bias) exponent = 2 - bias;
    double units = rint(ldexp(size, mantissa_bits - (exponent - 1)));
    int64_t bits = (int64_t)units + ((int64_t)(exponent - 1 + bias - 1) << mantissa_bits);
    return sign | (bits > (int64_t)infinity ? infinity : (uint64_t)bits);
}

static double float_value(uint64_t bits, int exponent_bits, int mantissa_bits) {
    int bias = (1 << (exponent_bits - 1)) - 1, exponent = (int)(bits >> mantissa_bits) & ((1 << exponent_bits) - 1);
    double mantissa = (double)(bits & ((UINT64_C(1) << mantissa_bits) - 1));
    bool negative = bits >> (exponent_bits + mantissa_bits) & 1;
    double size = exponent == (1 << exponent_bits) - 1 ? (mantissa != 0 ? NAN : INFINITY)
                  : exponent ? ldexp(mantissa + ldexp(1, mantissa_bits), exponent - bias - mantissa_bits)
                             : ldexp(mantissa, 1 - bias - mantissa_bits);
    return negative ? -size : size;
}

static void encode(bt_dtype dtype, double value, void *to) {
    uint64_t bits;
    float narrow = (float)value;
    switch (dtype) {
    case BT_BOOL: bits = value != 0; break;
    case BT_F16: bits = float_bits(value, 5, 10); break;
    case BT_BF16: bits = float_bits(value, 8, 7); break;
    case BT_F32: memcpy(to, &narrow, 4); return;
    case BT_F64: memcpy(to, &value, 8); return;
    default: bits = value < 0 ? (uint64_t)(int64_t)value : (uint64_t)value;
    }
    memcpy(to, &bits, bt_dtype_size(dtype)); /* wrapped; little-endian */
}

static double decode(bt_dtype dtype, const void *from) {
    uint64_t bits = 0;
    float narrow;
    double value;
    memcpy(&bits, from, bt_dtype_size(dtype));
    switch (dtype) {
    case BT_F16: return float_value(bits, 5, 10);
    case BT_BF16: return float_value(bits, 8, 7);
    case BT_F32: return memcpy(&narrow, from, 4), (double)narrow;
    case BT_F64: return memcpy(&value, from, 8), value;
    case BT_I8: return (int8_t)bits;
    case BT_I16: return (int16_t)bits;
    case BT_I32: return (int32_t)bits;
    case BT_I64: return (double)(int64_t)bits;
    default: return (double)bits;
    }
}

double host_round(bt_dtype dtype, double value) {
    char bytes[8];
    encode(dtype, value, bytes);
    return decode(dtype, bytes);
}

/* --- arrays --------------------------------------------------------------------------------------------------------------- */

host host_new(bt_dtype dtype, bt_shape shape) {
    host h = {.dtype = dtype, .shape = shape, .count = 1};
    for (int i = 0; i < shape.rank; i++) h.count *= shape.size[i];
    return h;
}

int64_t host_offset(bt_shape shape, const int64_t *index) {
    int64_t offset = 0;
    for (int i = 0; i < shape.rank; i++) offset = offset * shape.size[i] + index[i];
    return offset;
}

bool host_next(bt_shape shape, int64_t *index) {
    for (int i = shape.rank - 1; i >= 0; i--) {
        if (++index[i] < shape.size[i]) return true;
        index[i] = 0;
    }
    return false;
}

host host_draw(bt_dtype dtype, bt_shape shape, double low, double high, layout lies, unsigned *seed) {
    host h = host_new(dtype, shape);
    double unit = dtype_is_float(dtype) ? 0.125 : 1;
    if (dtype_is_unsigned(dtype) && low < 0) low = 0;
    if (dtype == BT_BOOL) low = 0, high = 1;
    double first = ceil(low / unit), choices = floor(high / unit) - first + 1;
    for (int64_t i = 0; i < h.count; i++) {
        *seed = *seed * 1664525u + 1013904223u;
        h.at[i] = host_round(dtype, (first + floor((double)(*seed >> 8 & 0xffff) / 65536 * choices)) * unit);
    }
    if (lies == EXPANDED && shape.rank && h.count) {
        int64_t row = h.count / shape.size[0];
        for (int64_t i = row; i < h.count; i++) h.at[i] = h.at[i - row];
    }
    return h;
}

static bt_array *upload(const host *h) {
    char bytes[2 * VALUES_MAX * 8 + 8];
    size_t size = bt_dtype_size(h->dtype);
    for (int64_t i = 0; i < h->count; i++) encode(h->dtype, h->at[i], bytes + (size_t)i * size);
    return bt_from(bytes, h->dtype, h->shape);
}

static bt_array *place_transposed(const host *h) {
    bt_shape turned = h->shape;
    int64_t index[BT_MAX_RANK] = {0}, other[BT_MAX_RANK];
    bt_axes axes = {.count = h->shape.rank};
    for (int i = 0; i < turned.rank; i++) {
        turned.size[i] = h->shape.size[turned.rank - 1 - i];
        axes.axis[i] = turned.rank - 1 - i;
    }
    host t = host_new(h->dtype, turned);
    if (h->count) do {
            for (int i = 0; i < turned.rank; i++) other[i] = index[turned.rank - 1 - i];
            t.at[host_offset(turned, other)] = h->at[host_offset(h->shape, index)];
        } while (host_next(h->shape, index));
    return bt_permute_axes(upload(&t), axes);
}

static bt_array *place_stepped(const host *h) {
    static host wide; /* 9 9 x0 9 x1 9 ... */
    int last = h->shape.rank - 1;
    int64_t n = h->shape.size[last], each = 2 * n + 2;
    char bytes[8];
    encode(h->dtype, 1, bytes);
    bt_shape shape = h->shape;
    shape.size[last] = each;
    wide = host_new(h->dtype, shape);
    if (wide.count > VALUES_MAX) return upload(h);
    for (int64_t i = 0; i < wide.count; i++) wide.at[i] = 1;
    for (int64_t i = 0; i < h->count; i++) wide.at[i / n * each + 2 + i % n * 2] = h->at[i];
    return bt_slice_axis(upload(&wide), last, 2, INT64_MAX, 2);
}

bt_array *host_place(const host *h, layout lies) {
    if (h->shape.rank == 0 || h->count == 0) return upload(h);
    host other = *h;
    switch (lies) {
    case TRANSPOSED: return place_transposed(h);
    case FLIPPED:
        for (int64_t i = 0; i < h->count; i++) other.at[i] = h->at[h->count - 1 - i];
        return bt_flip(upload(&other), BT_ALL);
    case STEPPED: return place_stepped(h);
    case EXPANDED:
        other.count /= other.shape.size[0];
        other.shape.size[0] = 1;
        return bt_broadcast_shape(upload(&other), h->shape);
    default: return upload(h);
    }
}

bt_status host_read(bt_array *x, host *h) {
    char bytes[VALUES_MAX * 8];
    *h = host_new(bt_dtype_of(x), bt_shape_of(x));
    size_t size = bt_dtype_size(h->dtype);
    if (h->count > VALUES_MAX) return BT_OUT_OF_RANGE;
    bt_status status = bt_read(x, bytes, (size_t)h->count * size);
    for (int64_t i = 0; i < h->count && status == BT_OK; i++) h->at[i] = decode(h->dtype, bytes + (size_t)i * size);
    return status;
}

/* --- comparing ------------------------------------------------------------------------------------------------------------ */

static double rounding_of(bt_dtype dtype) {
    return dtype == BT_F16    ? 0x1p-10
           : dtype == BT_BF16 ? 0x1p-7
           : dtype == BT_F32  ? 0x1p-23
           : dtype == BT_F64  ? 0x1p-50
                              : 0;
}

bool host_same(bt_array *x, const host *h, double tolerance, char *why, size_t size) {
    host got;
    if (host_read(x, &got) != BT_OK) return snprintf(why, size, "%s", bt_error_text()), false;
    bool fits = got.dtype == h->dtype && got.shape.rank == h->shape.rank;
    for (int i = 0; i < got.shape.rank && fits; i++) fits = got.shape.size[i] == h->shape.size[i];
    if (!fits) {
        snprintf(why, size, "%s of rank %d and %lld elements, not %s of rank %d and %lld", bt_dtype_name(got.dtype),
                 got.shape.rank, (long long)got.count, bt_dtype_name(h->dtype), h->shape.rank, (long long)h->count);
        return false;
    }
    if (h->dtype == BT_F64 && tolerance > 1e-12) tolerance = 1e-12; /* tables give that of float32 */
    double allowed = tolerance + rounding_of(h->dtype);
    for (int64_t i = 0; i < h->count; i++) {
        double want = host_round(h->dtype, h->at[i]), off = fabs(got.at[i] - want);
        if (got.at[i] == want || (got.at[i] != got.at[i] && want != want) || off <= allowed * fmax(fabs(want), 0x1p-10))
            continue;
        snprintf(why, size, "element %lld is %.9g, not %.9g", (long long)i, got.at[i], want);
        return false;
    }
    return true;
}
