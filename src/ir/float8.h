/* 8-bit floats (OCP: E4M3 without infinity, E5M2) on the host: what ops/cast.c makes of arrays, of one number. */
#ifndef BTI_IR_FLOAT8_H
#define BTI_IR_FLOAT8_H

#include <berth/dtype.h>
#include <math.h>

#include "ir/half.h"

static inline float bti_f32_from_f8(bt_dtype dtype, uint8_t bits) {
    if (dtype == BT_F8E5M2) return bti_f32_from_f16((uint16_t)(bits << 8));
    int exponent = bits >> 3 & 15, fraction = bits & 7;
    float magnitude = (bits & 0x7F) == 0x7F ? NAN
                      : exponent            ? ldexpf((float)(8 + fraction), exponent - 10)
                                            : ldexpf((float)fraction, -9);
    return bits & 0x80 ? -magnitude : magnitude;
}

static inline uint8_t bti_f8_from_f32(bt_dtype dtype, float value) {
    bool wide = dtype == BT_F8E4M3; /* its fraction */
    int digits = wide ? 3 : 2, least = wide ? -6 : -14, sign = signbit(value) ? 0x80 : 0, exponent;
    float magnitude = fabsf(value);
    if (isnan(value)) return (uint8_t)(sign | (wide ? 0x7F : 0x7E));
    if (isinf(value)) return (uint8_t)(sign | (wide ? 0x7F : 0x7C));
    if (magnitude == 0) return (uint8_t)sign;
    frexpf(magnitude, &exponent);
    if (exponent - 1 < least) exponent = least + 1; /* subnormal numbers have the spacing of the least normal one */
    int bits = (int)nearbyintf(
        ldexpf(magnitude, digits + 1 - exponent)); /* in units of the last digit: 2^digits and more if normal */
    bits += (exponent - 1 - least) << digits;
    int greatest = wide ? 0x7F : 0x7C;
    return (uint8_t)(sign | (bits < greatest ? bits : greatest));
}

#endif
