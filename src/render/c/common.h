/* Functions that the text of kernels calls, in the words of cuda.h or opencl.h. */
/* The float32 next to a wider number that is odd where the number is none: rounding it once more rounds once. */
FUNCTION f32 odd_of_i64(u64 magnitude, u32 negative) {
    i32 shifted = 0;
    for (; magnitude >> 31; shifted++) magnitude = magnitude >> 1 | (magnitude & 1);
    u32 most = (u32)magnitude, sticky = 0;
    for (; most >> 24; shifted++) sticky |= most & 1, most >>= 1;
    f32 x = (f32)(most | sticky);
    for (; shifted; shifted--) x *= 2;
    return negative ? -x : x;
}
FUNCTION f32 odd_of_whole(i64 x) { return odd_of_i64(x < 0 ? 0 - (u64)x : (u64)x, x < 0); }
FUNCTION f32 odd_of_unsigned(u64 x) { return odd_of_i64(x, 0); }
#ifdef HAS_F64
FUNCTION f32 odd_of_f64(f64 x) {
    f32 near = (f32)x;
    if (near != near || (f64)near == x) return near;
    u32 bits = bits_of_f32(near);
    f64 magnitude = x < 0 ? -x : x;
    if ((f64)f32_of_bits(bits & 0x7fffffff) > magnitude) bits--;
    return f32_of_bits(bits | 1);
}
#endif

FUNCTION u64 c64_of(f32 x, f32 y) { return (u64)bits_of_f32(y) << 32 | bits_of_f32(x); }
#ifdef HAS_F64
FUNCTION two_u64 c128_of(f64 x, f64 y) {
    two_u64 z;
    z.x = bits_of_f64(x);
    z.y = bits_of_f64(y);
    return z;
}
#endif

/* Toward zero, saturating, NaN to 0. */
#define WHOLE_OF(type, least, greatest, x) \
    ((x) != (x) ? (type)0 : (x) <= (least) ? (type)(least) : (x) >= (greatest) ? (type)(greatest) : (type)(x))
#define i8_of_real(x) WHOLE_OF(i8, -128, 127, x)
#define u8_of_real(x) WHOLE_OF(u8, 0, 255, x)
#define i16_of_real(x) WHOLE_OF(i16, -32768, 32767, x)
#define u16_of_real(x) WHOLE_OF(u16, 0, 65535, x)
#define i32_of_real(x) WHOLE_OF(i32, -2147483647 - 1, 2147483647, x)
#define u32_of_real(x) WHOLE_OF(u32, 0, 4294967295u, x)
#define i64_of_real(x) WHOLE_OF(i64, -9223372036854775807l - 1, 9223372036854775807l, x)
#define u64_of_real(x) WHOLE_OF(u64, 0, 18446744073709551615ul, x)

FUNCTION u64 ipow(u64 x, u64 y) {
    u64 power = 1;
    for (; y; y >>= 1, x *= x)
        if (y & 1) power *= x;
    return power;
}

/* Negative indices count from the end; below 0: out of range. */
FUNCTION i64 place_of(i64 index, i64 length) {
    if (index < 0) index += length;
    return index < length ? index : -1;
}

/* Without the slow division of 64 bits where numbers are small. */
FUNCTION i64 divided(i64 x, i64 y) { return (u64)(x | y) >> 32 ? x / y : (i64)((u32)x / (u32)y); }
FUNCTION i64 least(i64 x, i64 y) { return x < y ? x : y; }

/* Threefry-2x32-20. */
#define TURN(by) a += b, b = (b << (by) | b >> (32 - (by))) ^ a
#define TURNS_EVEN() TURN(13), TURN(15), TURN(26), TURN(6)
#define TURNS_ODD() TURN(17), TURN(29), TURN(16), TURN(24)
FUNCTION u64 threefry(u32 key0, u32 key1, u32 a, u32 b) {
    u32 key2 = key0 ^ key1 ^ 0x1bd11bda;
    a += key0, b += key1;
    TURNS_EVEN(), a += key1, b += key2 + 1;
    TURNS_ODD(), a += key2, b += key0 + 2;
    TURNS_EVEN(), a += key0, b += key1 + 3;
    TURNS_ODD(), a += key1, b += key2 + 4;
    TURNS_EVEN(), a += key2, b += key0 + 5;
    return (u64)b << 32 | a;
}
FUNCTION u32 random_word(u32 key0, u32 key1, u32 number, u32 count) {
    u32 half_count = (count >> 1) + (count & 1), i = number < half_count ? number : number - half_count;
    u32 counter = i < count - half_count ? half_count + i : 0;
    return (u32)(threefry(key0, key1, i, counter) >> (number < half_count ? 0 : 32));
}

/* ir/scalar.h. */
FUNCTION f32 sigmoid_of_f32(f32 x) {
    f32 e = exp(-fabs(x));
    return (x < 0 ? e : 1) / (1 + e);
}
#ifdef HAS_F64
FUNCTION f64 sigmoid_of_f64(f64 x) {
    f64 e = exp(-fabs(x));
    return (x < 0 ? e : 1) / (1 + e);
}
FUNCTION f32 whole_quotient_f32(f32 x, f32 y) {
    f64 quotient = (f64)x / (f64)y, whole = floor(quotient);
    if (quotient == 0 && x != 0 && (x < 0) != (y < 0)) whole = -1;
    return fabs(x) == f32_of_bits(0x7f800000) && y != 0 ? x - x : (f32)whole;
}
FUNCTION f64 whole_quotient_f64(f64 x, f64 y) {
    f64 rest = fmod(x, y), quotient = (x - rest) / y;
    if (rest != 0 && (rest < 0) != (y < 0)) quotient -= 1;
    f64 whole = floor(quotient);
    if (quotient - whole > 0.5) whole += 1;
    if (quotient == 0) whole = copysign((f64)0, x / y);
    return y == 0 ? x / y : whole;
}
#else /* the quotient, mended by what is missing to the remainder: exact below 2**24 */
FUNCTION f32 whole_quotient_f32(f32 x, f32 y) {
    f32 rest = fmod(x, y), whole = rint((x - rest) / y);
    if (whole != 0 && fabs(whole) < 16777216) whole += rint((fma(-whole, y, x) - rest) / y);
    if (rest != 0 && (rest < 0) != (y < 0)) whole -= 1;
    if (whole == 0) whole = copysign((f32)0, x / y);
    return y == 0 ? x / y : whole;
}
#endif

/* Giles, "Approximating the erfinv function" (2010): reference/elementwise.c. */
CONSTANTS f32 giles_f32_middle[9] = {2.81022636e-08f,  3.43273939e-07f, -3.5233877e-06f,
                                     -4.39150654e-06f, 0.00021858087f,  -0.00125372503f,
                                     -0.00417768164f,  0.246640727f,    1.50140941f};
CONSTANTS f32 giles_f32_tail[9] = {-0.000200214257f, 0.000100950558f, 0.00134934322f, -0.00367342844f, 0.00573950773f,
                                   -0.0076224613f,   0.00943887047f,  1.00167406f,    2.83297682f};
FUNCTION f32 giles_f32(f32 x) {
    if (x == 1 || x == -1) return x * f32_of_bits(0x7f800000);
    f32 square = x * x, w = -log1p(-square);
    u32 middle = w < 5;
    f32 by = middle ? w - 2.5f : sqrt(w) - 3, p = middle ? giles_f32_middle[0] : giles_f32_tail[0];
    UNROLL
    for (i32 i = 1; i < 9; i++) p = p * by + (middle ? giles_f32_middle[i] : giles_f32_tail[i]);
    return p * x;
}
#ifdef HAS_F64
CONSTANTS f64 giles_f64_middle[23] = {
    -3.6444120640178196996e-21, -1.685059138182016589e-19,  1.2858480715256400167e-18,  1.115787767802518096e-17,
    -1.333171662854620906e-16,  2.0972767875968561637e-17,  6.6376381343583238325e-15,  -4.0545662729752068639e-14,
    -8.1519341976054721522e-14, 2.6335093153082322977e-12,  -1.2975133253453532498e-11, -5.4154120542946279317e-11,
    1.051212273321532285e-09,   -4.1126339803469836976e-09, -2.9070369957882005086e-08, 4.2347877827932403518e-07,
    -1.3654692000834678645e-06, -1.3882523362786468719e-05, 0.0001867342080340571352,   -0.00074070253416626697512,
    -0.0060336708714301490533,  0.24015818242558961693,     1.6536545626831027356};
CONSTANTS f64 giles_f64_far[19] = {
    2.2137376921775787049e-09,  9.0756561938885390979e-08, -2.7517406297064545428e-07, 1.8239629214389227755e-08,
    1.5027403968909827627e-06,  -4.013867526981545969e-06, 2.9234449089955446044e-06,  1.2475304481671778723e-05,
    -4.7318229009055733981e-05, 6.8284851459573175448e-05, 2.4031110387097893999e-05,  -0.0003550375203628474796,
    0.00095328937973738049703,  -0.0016882755560235047313, 0.0024914420961078508066,   -0.0037512085075692412107,
    0.005370914553590063617,    1.0052589676941592334,     3.0838856104922207635};
CONSTANTS f64 giles_f64_tail[17] = {-2.7109920616438573243e-11, -2.5556418169965252055e-10, 1.5076572693500548083e-09,
                                    -3.7894654401267369937e-09, 7.6157012080783393804e-09,  -1.4960026627149240478e-08,
                                    2.9147953450901080826e-08,  -6.7711997758452339498e-08, 2.2900482228026654717e-07,
                                    -9.9298272942317002539e-07, 4.5260625972231537039e-06,  -1.9681778105531670567e-05,
                                    7.5995277030017761139e-05,  -0.00021503011930044477347, -0.00013871931833623122026,
                                    1.0103004648645343977,      4.8499064014085844221};
FUNCTION f64 giles_f64(f64 x) {
    if (x == 1 || x == -1) return x * f64_of_bits(0x7ff0000000000000ul);
    f64 w = -log((1 - x) * (1 + x)), p = 0;
    if (w < 6.25)
        for (i32 i = 0; i < 23; i++) p = p * (w - 3.125) + giles_f64_middle[i];
    else if (w < 16)
        for (i32 i = 0; i < 19; i++) p = p * (sqrt(w) - 3.25) + giles_f64_far[i];
    else
        for (i32 i = 0; i < 17; i++) p = p * (sqrt(w) - 5) + giles_f64_tail[i];
    return p * x;
}
#endif
