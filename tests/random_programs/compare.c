#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "random_programs/program.h"

static double half_to_double(uint16_t bits) {
    int exponent = bits >> 10 & 31, fraction = bits & 1023;
    double x = exponent == 31  ? (fraction ? (double)NAN : (double)INFINITY)
               : exponent == 0 ? ldexp(fraction, -24)
                               : ldexp(1024 + fraction, exponent - 25);
    return bits >> 15 ? -x : x;
}

/* Element i as a number; whole numbers past 2**53 do not occur. */
static double element(const outcome *o, int64_t i) {
    float wide;
    uint32_t bits;
    switch (o->dtype) {
    case BT_F16: return half_to_double(((const uint16_t *)o->data)[i]);
    case BT_BF16:
        bits = (uint32_t)((const uint16_t *)o->data)[i] << 16;
        memcpy(&wide, &bits, sizeof wide);
        return (double)wide;
    case BT_F32: return (double)((const float *)o->data)[i];
    case BT_F64: return ((const double *)o->data)[i];
    case BT_I8: return ((const int8_t *)o->data)[i];
    case BT_I16: return ((const int16_t *)o->data)[i];
    case BT_I32: return ((const int32_t *)o->data)[i];
    case BT_I64: return (double)((const int64_t *)o->data)[i];
    case BT_U16: return ((const uint16_t *)o->data)[i];
    case BT_U32: return ((const uint32_t *)o->data)[i];
    case BT_U64: return (double)((const uint64_t *)o->data)[i];
    default: return ((const uint8_t *)o->data)[i];
    }
}

static double tolerance(bt_dtype dtype) {
    return dtype == BT_BF16  ? 0.1
           : dtype == BT_F16 ? 0.02
           : dtype == BT_F32 ? 2e-4
                             : 2e-4; /* float64 may come of float32 */
}

static const char *elements_differ(const outcome *a, const outcome *b, bool to_the_bit) {
    size_t size = bt_dtype_size(a->dtype);
    int64_t count = (int64_t)(a->bytes / size);
    double largest = 1;
    for (int64_t i = 0; i < count && !to_the_bit; i++) {
        double x = fabs(element(a, i));
        if (isfinite(x) && x > largest) largest = x;
    }
    for (int64_t i = 0; i < count; i++) {
        if (!memcmp((const char *)a->data + (size_t)i * size, (const char *)b->data + (size_t)i * size, size)) continue;
        double x = element(a, i), y = element(b, i);
        if (isnan(x) && isnan(y)) continue;
        if (to_the_bit) return "other bits";
        if (x == y) continue;
        if (a->exact) return "other numbers where all is exact";
        if (!(fabs(x - y) <= tolerance(a->dtype) * largest)) return "numbers too far apart";
    }
    return NULL;
}

const char *differ(const outcomes *a, const outcomes *b, bool to_the_bit) {
    if (a->count != b->count) return "another number of results";
    for (int i = 0; i < a->count; i++) {
        const outcome *x = &a->of[i], *y = &b->of[i];
        if (x->status != y->status) return "another status";
        if (x->status != BT_OK) continue;
        if (x->dtype != y->dtype || x->rank != y->rank ||
            memcmp(x->shape, y->shape, (size_t)x->rank * sizeof *x->shape))
            return "another dtype or shape";
        const char *what = elements_differ(x, y, to_the_bit);
        if (what) return what;
    }
    return NULL;
}
