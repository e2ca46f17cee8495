/* Functions that StableHLO does not have: of errors, and random words. */
#include <math.h>

#include "ir/giles.h"
#include "render/stablehlo/errors.h"
#include "render/stablehlo/writer.h"

#define COUNT(list) ((int)(sizeof(list) / sizeof *(list)))

static bti_hlo_value plus(bti_hlo *w, bti_hlo_value x, double number) {
    return bti_hlo_binary(w, "add", x, bti_hlo_number(w, x.type, number));
}
static bti_hlo_value times(bti_hlo *w, bti_hlo_value x, double number) {
    return bti_hlo_binary(w, "multiply", x, bti_hlo_number(w, x.type, number));
}

static bti_hlo_value polynomial(bti_hlo *w, bti_hlo_value x, const double *c, int count) {
    bti_hlo_value p = bti_hlo_number(w, x.type, c[0]);
    for (int i = 1; i < count; i++) p = plus(w, bti_hlo_binary(w, "multiply", p, x), c[i]);
    return p;
}

static bti_hlo_value polynomial_f32(bti_hlo *w, bti_hlo_value x, const float *c, int count) {
    double wide[16];
    for (int i = 0; i < count; i++) wide[i] = (double)c[i];
    return polynomial(w, x, wide, count);
}

/* --- erf, erfc --------------------------------------------------------------------------------------------------------- */

/* e**(-x * x) without the rounding of x * x: x is split into a part of few digits, whose square is exact, and the rest. */
static bti_hlo_value exp_minus_square(bti_hlo *w, bti_hlo_value x) {
    bool wide = x.type.dtype == BT_F64;
    bti_type bits = bti_hlo_like(&x.type, wide ? BT_U64 : BT_U32);
    bti_hlo_value mask = bti_hlo_bits(w, bits, wide ? UINT64_MAX << 27 : UINT64_C(0xFFFFF000));
    bti_hlo_value high = bti_hlo_line(w, "bitcast_convert", bits, 1, &x);
    high = bti_hlo_binary(w, "and", high, mask);
    high = bti_hlo_line(w, "bitcast_convert", x.type, 1, &high);
    bti_hlo_value square = bti_hlo_binary(w, "multiply", high, high);
    bti_hlo_value rest =
        bti_hlo_binary(w, "multiply", bti_hlo_binary(w, "subtract", x, high), bti_hlo_binary(w, "add", x, high));
    return bti_hlo_binary(w, "multiply", bti_hlo_unary(w, "exponential", bti_hlo_unary(w, "negate", square)),
                          bti_hlo_unary(w, "exponential", bti_hlo_unary(w, "negate", rest)));
}

static bti_hlo_value erf_small(bti_hlo *w, bti_hlo_value x) {
    bti_hlo_value square = bti_hlo_binary(w, "multiply", x, x);
    bti_hlo_value p = x.type.dtype == BT_F64 ? polynomial(w, square, bti_erf_f64_small, COUNT(bti_erf_f64_small))
                                             : polynomial(w, square, bti_erf_f32_small, COUNT(bti_erf_f32_small));
    return bti_hlo_binary(w, "multiply", x, p);
}

/* erfc of x >= 1/2; past 100 as of 100, which is 0. */
static bti_hlo_value erfc_large(bti_hlo *w, bti_hlo_value x) {
    x = bti_hlo_binary(w, "minimum", x, bti_hlo_number(w, x.type, 100));
    bti_hlo_value t = bti_hlo_binary(w, "divide", plus(w, x, -2), plus(w, x, 2)), s = times(w, plus(w, t, -0.2), 1.25);
    bti_hlo_value p = x.type.dtype == BT_F64 ? polynomial(w, s, bti_erf_f64_large, COUNT(bti_erf_f64_large))
                                             : polynomial(w, s, bti_erf_f32_large, COUNT(bti_erf_f32_large));
    p = bti_hlo_binary(w, "divide", p, plus(w, times(w, x, 2), 1));
    return bti_hlo_binary(w, "multiply", p, exp_minus_square(w, x));
}

static bti_hlo_value erf_or_erfc(bti_hlo *w, bti_hlo_value x, bool complement) {
    bti_hlo_value size = bti_hlo_unary(w, "abs", x), one = bti_hlo_number(w, x.type, 1),
                  zero = bti_hlo_number(w, x.type, 0);
    bti_hlo_value small = erf_small(w, x), large = erfc_large(w, size);
    bti_hlo_value below = bti_hlo_compare(w, "LT", x, zero);
    if (complement) {
        small = bti_hlo_binary(w, "subtract", one, small);
        large = bti_hlo_select(w, below, bti_hlo_binary(w, "subtract", bti_hlo_number(w, x.type, 2), large), large);
    } else {
        large = bti_hlo_binary(w, "subtract", one, large);
        large = bti_hlo_select(w, below, bti_hlo_unary(w, "negate", large), large);
    }
    return bti_hlo_select(w, bti_hlo_compare(w, "LT", size, bti_hlo_number(w, x.type, 0.5)), small, large);
}

/* --- erfinv ------------------------------------------------------------------------------------------------------------ */

static bti_hlo_value erfinv_polynomial(bti_hlo *w, bti_hlo_value x, bti_hlo_value far) {
    bti_hlo_value root = bti_hlo_unary(w, "sqrt", far);
    if (x.type.dtype == BT_F64) {
        bti_hlo_value middle = polynomial(w, plus(w, far, -3.125), bti_giles_f64_middle, COUNT(bti_giles_f64_middle));
        bti_hlo_value outer = polynomial(w, plus(w, root, -3.25), bti_giles_f64_far, COUNT(bti_giles_f64_far));
        bti_hlo_value tail = polynomial(w, plus(w, root, -5), bti_giles_f64_tail, COUNT(bti_giles_f64_tail));
        outer = bti_hlo_select(w, bti_hlo_compare(w, "LT", far, bti_hlo_number(w, x.type, 16)), outer, tail);
        return bti_hlo_select(w, bti_hlo_compare(w, "LT", far, bti_hlo_number(w, x.type, 6.25)), middle, outer);
    }
    bti_hlo_value middle = polynomial_f32(w, plus(w, far, -2.5), bti_giles_f32_middle, COUNT(bti_giles_f32_middle));
    bti_hlo_value tail = polynomial_f32(w, plus(w, root, -3), bti_giles_f32_tail, COUNT(bti_giles_f32_tail));
    return bti_hlo_select(w, bti_hlo_compare(w, "LT", far, bti_hlo_number(w, x.type, 5)), middle, tail);
}

/* As reference/elementwise.c has it. */
static bti_hlo_value erfinv(bti_hlo *w, bti_hlo_value x) {
    bti_hlo_value far, one = bti_hlo_number(w, x.type, 1);
    if (x.type.dtype == BT_F64)
        far = bti_hlo_unary(
            w, "log",
            bti_hlo_binary(w, "multiply", bti_hlo_binary(w, "subtract", one, x), bti_hlo_binary(w, "add", one, x)));
    else
        far = bti_hlo_unary(w, "log_plus_one", bti_hlo_unary(w, "negate", bti_hlo_binary(w, "multiply", x, x)));
    bti_hlo_value p = erfinv_polynomial(w, x, bti_hlo_unary(w, "negate", far));
    p = bti_hlo_binary(w, "multiply", p, x);
    bti_hlo_value at_end = bti_hlo_compare(w, "EQ", bti_hlo_unary(w, "abs", x), one);
    return bti_hlo_select(w, at_end, bti_hlo_binary(w, "multiply", x, bti_hlo_number(w, x.type, (double)INFINITY)), p);
}

bti_hlo_value bti_hlo_error_function(bti_hlo *w, bti_op op, bti_hlo_value x) {
    return op == BTI_OP_erfinv ? erfinv(w, x) : erf_or_erfc(w, x, op == BTI_OP_erfc);
}

/* --- random words ------------------------------------------------------------------------------------------------------ */

static bti_hlo_value word(bti_hlo *w, bti_hlo_value like, uint32_t bits) { return bti_hlo_bits(w, like.type, bits); }

static bti_hlo_value rotated(bti_hlo *w, bti_hlo_value x, uint32_t by) {
    return bti_hlo_binary(w, "or", bti_hlo_binary(w, "shift_left", x, word(w, x, by)),
                          bti_hlo_binary(w, "shift_right_logical", x, word(w, x, 32 - by)));
}

/* ir/threefry.h: words[] of key and counter. */
static void threefry(bti_hlo *w, const bti_hlo_value *key, const bti_hlo_value *counter, bti_hlo_value *words) {
    static const uint32_t rotation[2][4] = {{13, 15, 26, 6}, {17, 29, 16, 24}};
    bti_hlo_value k[3] = {key[0], key[1], bti_hlo_binary(w, "xor", key[0], key[1])};
    k[2] = bti_hlo_binary(w, "xor", k[2], word(w, key[0], 0x1BD11BDA));
    bti_hlo_value a = bti_hlo_binary(w, "add", counter[0], k[0]), b = bti_hlo_binary(w, "add", counter[1], k[1]);
    for (uint32_t group = 0; group < 5; group++) {
        for (int round = 0; round < 4; round++) {
            a = bti_hlo_binary(w, "add", a, b);
            b = bti_hlo_binary(w, "xor", rotated(w, b, rotation[group % 2][round]), a);
        }
        a = bti_hlo_binary(w, "add", a, k[(group + 1) % 3]);
        b = bti_hlo_binary(w, "add", bti_hlo_binary(w, "add", b, k[(group + 2) % 3]), word(w, b, group + 1));
    }
    words[0] = a;
    words[1] = b;
}

bti_hlo_value bti_hlo_random(bti_hlo *w, const bti_node *node, const bti_hlo_value *in) {
    bti_hlo_value words[2];
    if (node->op == BTI_OP_threefry) {
        threefry(w, in, in + 2, words);
        return words[node->attr->word.index];
    }
    bti_hlo_value number = in[2], count = in[3], one = word(w, number, 1);
    bti_hlo_value half = bti_hlo_binary(w, "add", bti_hlo_binary(w, "shift_right_logical", count, one),
                                        bti_hlo_binary(w, "and", count, one));
    bti_hlo_value first = bti_hlo_compare(w, "LT", number, half);
    bti_hlo_value i = bti_hlo_select(w, first, number, bti_hlo_binary(w, "subtract", number, half));
    bti_hlo_value has_second = bti_hlo_compare(w, "LT", i, bti_hlo_binary(w, "subtract", count, half));
    bti_hlo_value second = bti_hlo_select(w, has_second, bti_hlo_binary(w, "add", half, i), word(w, number, 0));
    threefry(w, in, (bti_hlo_value[]){i, second}, words);
    return bti_hlo_select(w, first, words[0], words[1]);
}
