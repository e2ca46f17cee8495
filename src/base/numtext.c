#include "base/numtext.h"

#include <inttypes.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"

enum { LINE_WIDTH = 75, PRECISION = 8, THRESHOLD = 1000, EDGE_ITEMS = 3, NO_LIMIT = 1000, WORD_BYTES = 128 };

static int max_int(int a, int b) { return a > b ? a : b; }

/* ---- Whole numbers wide enough for every double: at most about 1140 bits are needed, for 5e-324 ---- */

enum { LIMBS = 40 };

typedef struct {
    int used; /* limbs in use, the highest of them not zero */
    uint32_t limb[LIMBS];
} bignum;

static void big_trim(bignum *a) {
    while (a->used > 0 && a->limb[a->used - 1] == 0) a->used--;
}

static void big_set_shifted(bignum *a, uint64_t value, int shift_bits) {
    int word = shift_bits / 32, rest = shift_bits % 32;
    uint64_t low = value << rest;
    memset(a, 0, sizeof *a);
    a->limb[word] = (uint32_t)low;
    a->limb[word + 1] = (uint32_t)(low >> 32);
    a->limb[word + 2] = rest ? (uint32_t)(value >> (64 - rest)) : 0;
    a->used = word + 3;
    big_trim(a);
}

static void big_multiply(bignum *a, uint32_t factor) {
    uint64_t carry = 0;
    for (int i = 0; i < a->used; i++) {
        carry += (uint64_t)a->limb[i] * factor;
        a->limb[i] = (uint32_t)carry;
        carry >>= 32;
    }
    if (carry) a->limb[a->used++] = (uint32_t)carry;
}

static void big_multiply_pow10(bignum *a, int power) {
    for (; power >= 9; power -= 9) big_multiply(a, 1000000000);
    for (; power > 0; power--) big_multiply(a, 10);
}

static int big_compare(const bignum *a, const bignum *b) {
    if (a->used != b->used) return a->used < b->used ? -1 : 1;
    for (int i = a->used - 1; i >= 0; i--)
        if (a->limb[i] != b->limb[i]) return a->limb[i] < b->limb[i] ? -1 : 1;
    return 0;
}

static void big_subtract(bignum *a, const bignum *b) { /* a >= b */
    uint64_t borrow = 0;
    for (int i = 0; i < a->used; i++) {
        uint64_t difference = (uint64_t)a->limb[i] - b->limb[i] - borrow;
        a->limb[i] = (uint32_t)difference;
        borrow = difference >> 63;
    }
    big_trim(a);
}

/* ---- Floats: from bits to decimal digits ---- */

static const struct {
    int fraction_bits, exponent_bits;
    double large, small, spread; /* arrays are scientific if max >= large, min < small or max / min > spread */
    double scalar_large;         /* the str of a scalar from here, or below 1e-4 */
} float_formats[] = {
    [BTI_TEXT_F16] = {10, 5, 1e3, 1e-4, 1000.25, 1e3}, /* a ratio up to 1000.25 rounds to 1000 in float16 */
    [BTI_TEXT_F32] = {23, 8, 1e6, (double)0.0001F, 1000, 1e6},
    [BTI_TEXT_F64] = {52, 11, 1e8, 1e-4, 1000, 1e16},
};
static bool is_float_kind(bti_text_kind kind) {
    return kind == BTI_TEXT_F16 || kind == BTI_TEXT_F32 || kind == BTI_TEXT_F64;
}

typedef struct {
    bool negative, finite;
    bool closer_below; /* a power of two: the neighbour below is half as far away as the one above */
    uint64_t mantissa; /* magnitude = mantissa * 2^exponent; if not finite: 0 is infinity, the rest NaN */
    int exponent;
} number;

static number unpack(bti_text_kind kind, uint64_t bits) {
    int fraction_bits = float_formats[kind].fraction_bits, exponent_bits = float_formats[kind].exponent_bits;
    int highest = (1 << exponent_bits) - 1;
    int exponent = (int)(bits >> fraction_bits) & highest;
    uint64_t hidden = UINT64_C(1) << fraction_bits, fraction = bits & (hidden - 1);
    return (number){
        .negative = bits >> (fraction_bits + exponent_bits) & 1,
        .finite = exponent != highest,
        .closer_below = fraction == 0 && exponent > 1,
        .mantissa = exponent == 0 || exponent == highest ? fraction : fraction | hidden,
        .exponent = max_int(exponent, 1) - highest / 2 - fraction_bits,
    };
}

static double magnitude(number v) { return ldexp((double)v.mantissa, v.exponent); }

typedef struct {
    bool negative;
    int exponent; /* of ten, of the first digit */
    int count;    /* digits, without zeros at the end but for a lone 0 */
    char digit[24];
} decimal;

static char digit_at(const decimal *d, int place) { /* place 0 holds the ones, -1 the tenths */
    int index = d->exponent - place;
    return index >= 0 && index < d->count ? d->digit[index] : '0';
}

static int fraction_digits(const decimal *d) { return max_int(0, d->count - 1 - d->exponent); }

static void round_up(decimal *d) {
    while (d->count > 0 && d->digit[d->count - 1] == '9') d->count--;
    if (d->count > 0) {
        d->digit[d->count - 1]++;
    } else {
        d->digit[d->count++] = '1';
        d->exponent++;
    }
}

typedef struct {
    bool behind_point; /* digits are counted behind the decimal point, else behind the first digit */
    int at_least, at_most;
} digit_limits;

/* The shortest digits that no neighbour of `v` shares, or exact ones where `limits` wants more or fewer; the last
 * digit is rounded to nearest, ties to even. Burger & Dybvig, "Printing Floating-Point Numbers Quickly and Accurately"
 * (1996), figure 3: rest / scale is what remains of v, above / scale and below / scale are half the distances to its
 * neighbours, gap = scale - rest. */
static decimal to_decimal(number v, digit_limits limits) {
    decimal d = {.negative = v.negative, .count = 1, .digit = "0"};
    if (v.mantissa == 0) return d;

    int up = max_int(v.exponent, 0);
    bignum rest, scale, above, below, gap, tenfold;
    big_set_shifted(&rest, v.mantissa, up + 2);
    big_set_shifted(&scale, 4, max_int(-v.exponent, 0));
    big_set_shifted(&above, 2, up);
    big_set_shifted(&below, v.closer_below ? 1 : 2, up);

    int binary_exponent = 63 - __builtin_clzll(v.mantissa) + v.exponent;
    d.exponent = (int)floor(binary_exponent * 0.30102999566398120); /* right, or one too low */
    big_multiply_pow10(&scale, d.exponent);
    big_multiply_pow10(&rest, -d.exponent);
    big_multiply_pow10(&above, -d.exponent);
    big_multiply_pow10(&below, -d.exponent);
    tenfold = scale;
    big_multiply(&tenfold, 10);
    if (big_compare(&rest, &tenfold) >= 0) {
        scale = tenfold;
        d.exponent++;
    }

    int origin = limits.behind_point ? 0 : d.exponent;
    int even = v.mantissa % 2 == 0; /* then what lies midway to a neighbour reads as v */
    bool low, high;
    d.count = 0;
    for (int place = d.exponent;; place--) {
        char digit = '0';
        for (; big_compare(&rest, &scale) >= 0; digit++) big_subtract(&rest, &scale);
        d.digit[d.count++] = digit;
        gap = scale;
        big_subtract(&gap, &rest);
        low = big_compare(&rest, &below) < even;
        high = big_compare(&gap, &above) < even;
        if (((low || high) && place <= origin - limits.at_least) || place <= origin - limits.at_most) break;
        big_multiply(&rest, 10);
        big_multiply(&above, 10);
        big_multiply(&below, 10);
    }
    int odd = d.digit[d.count - 1] % 2;
    if (low == high ? big_compare(&rest, &gap) > -odd : high) round_up(&d);
    while (d.count > 1 && d.digit[d.count - 1] == '0') d.count--;
    return d;
}

/* ---- Words: one element each ---- */

static char *fill(char *at, char c, int count) {
    for (; count > 0; count--) *at++ = c;
    return at;
}

/* The columns of a sign: of imaginary parts (`plus`) positive numbers have one too. */
static bool has_sign(const decimal *d, bool plus) { return d->negative || plus; }
static char *write_sign(char *word, const decimal *d, bool plus) {
    return fill(word, d->negative ? '-' : '+', has_sign(d, plus));
}

/* `left` columns before the point (sign included), `fraction` digits behind it, filled up to `right` columns. */
static void write_positional(char *word, const decimal *d, bool plus, int left, int fraction, int right) {
    int highest = max_int(d->exponent, 0);
    word = fill(word, ' ', left - highest - 1 - has_sign(d, plus));
    word = write_sign(word, d, plus);
    for (int place = highest; place >= 0; place--) *word++ = digit_at(d, place);
    *word++ = '.';
    for (int place = -1; place >= -fraction; place--) *word++ = digit_at(d, place);
    *fill(word, ' ', right - fraction) = '\0';
}

static void write_scientific(char *word, const decimal *d, bool plus, int left, int fraction, bool point,
                             int exponent_digits) {
    word = fill(word, ' ', left - 1 - has_sign(d, plus));
    word = write_sign(word, d, plus);
    *word++ = d->digit[0];
    word = fill(word, '.', point);
    for (int i = 1; i <= fraction; i++) *word++ = digit_at(d, d->exponent - i);
    snprintf(word, 8, "e%c%0*d", d->exponent < 0 ? '-' : '+', exponent_digits, abs(d->exponent));
}

static const char *special_name(number v) { return v.mantissa ? "nan" : v.negative ? "-inf" : "inf"; }

static void write_special(char *word, number v, bool plus, int width) {
    char text[8];
    snprintf(text, sizeof text, "%s%s", plus && (v.mantissa || !v.negative) ? "+" : "", special_name(v));
    snprintf(word, WORD_BYTES, "%*s", width, text);
}

/* A scalar's str is not cut at 8 digits, and keeps one digit behind the point: "3.0", "2e+03". */
static void write_scalar(char *word, bti_text_kind kind, number v) {
    if (!v.finite) {
        write_special(word, v, false, 0);
        return;
    }
    decimal d = to_decimal(v, (digit_limits){.at_most = NO_LIMIT});
    double size = magnitude(v);
    if (size == 0 || (size >= 1e-4 && size < float_formats[kind].scalar_large))
        write_positional(word, &d, false, 0, max_int(1, fraction_digits(&d)), 0);
    else
        write_scientific(word, &d, false, 0, d.count - 1, d.count > 1, 2);
}

/* A part of a complex scalar keeps no digit behind the point that it does not have: "(1+2j)". */
static void write_scalar_part(char *word, bti_text_kind kind, number v, bool plus) {
    if (!v.finite) {
        write_special(word, v, plus, 0);
        return;
    }
    decimal d = to_decimal(v, (digit_limits){.at_most = NO_LIMIT});
    double size = magnitude(v);
    if (size != 0 && (size < 1e-4 || size >= float_formats[kind].scalar_large)) {
        write_scientific(word, &d, plus, 0, d.count - 1, d.count > 1, 2);
        return;
    }
    write_positional(word, &d, plus, 0, fraction_digits(&d), 0);
    size_t length = strlen(word);
    if (length && word[length - 1] == '.') word[length - 1] = '\0';
}

/* Without its real part where that is 0. */
static void write_complex_scalar(char *word, bti_text_kind part, number re, number im) {
    char parts[2][WORD_BYTES / 2 - 2];
    bool imaginary = re.finite && re.mantissa == 0 && !re.negative;
    write_scalar_part(parts[0], part, re, false);
    write_scalar_part(parts[1], part, im, !imaginary);
    if (imaginary)
        snprintf(word, WORD_BYTES, "%sj", parts[1]);
    else
        snprintf(word, WORD_BYTES, "(%s%sj)", parts[0], parts[1]);
}

/* ---- Arrays ---- */

typedef struct printer {
    const char *data;
    bti_text_kind kind;
    int size_bytes, rank;
    int step_bytes;              /* from an element to the next: of a part of complex numbers two of its elements */
    bool plus;                   /* positive numbers have a sign: imaginary parts */
    const struct printer *parts; /* two, of complex numbers; NULL of others */
    const int64_t *shape;
    int64_t count;
    bti_text_style style;

    /* How an element is laid out, learned from all that will be shown. */
    double largest, smallest; /* of the finite, non-zero magnitudes */
    bool has_special, has_negative_infinity, scientific;
    int left, right; /* columns before and behind the point; integers have only `left` */
    int fraction, exponent_digits;

    bti_str out;
    size_t line_start; /* in `out` */
} printer;

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "load_bits fills the low bytes");

static uint64_t load_bits(const printer *p, int64_t index) {
    uint64_t bits = 0;
    memcpy(&bits, p->data + (size_t)index * (size_t)p->step_bytes, (size_t)p->size_bytes);
    return bits;
}

static int write_integer(char *word, const printer *p, int64_t index) {
    uint64_t bits = load_bits(p, index);
    if (p->kind == BTI_TEXT_UINT) return snprintf(word, WORD_BYTES, "%*" PRIu64, p->left, bits);
    int unused = 64 - 8 * p->size_bytes;
    return snprintf(word, WORD_BYTES, "%*" PRId64, p->left, (int64_t)(bits << unused) >> unused);
}

static void write_element(char *word, const printer *p, int64_t index);

/* The j follows the digits: "1. +2.j", "1.5+0.j ". */
static void write_complex(char *word, const printer *p, int64_t index) {
    write_element(word, &p->parts[0], index);
    word += strlen(word);
    write_element(word, &p->parts[1], index);
    size_t length = strlen(word), end = length;
    while (end && word[end - 1] == ' ') end--;
    memmove(word + end + 1, word + end, length - end + 1);
    word[end] = 'j';
}

static void write_element(char *word, const printer *p, int64_t index) {
    if (p->parts) {
        write_complex(word, p, index);
        return;
    }
    if (p->kind == BTI_TEXT_BOOL) {
        snprintf(word, WORD_BYTES, "%s", !load_bits(p, index) ? "False" : p->rank > 0 ? " True" : "True");
        return;
    }
    if (!is_float_kind(p->kind)) {
        write_integer(word, p, index);
        return;
    }
    number v = unpack(p->kind, load_bits(p, index));
    if (!v.finite) {
        write_special(word, v, p->plus, p->left + 1 + p->right);
    } else if (p->scientific) {
        decimal d = to_decimal(v, (digit_limits){.at_least = p->fraction, .at_most = p->fraction});
        write_scientific(word, &d, p->plus, p->left, p->fraction, true, p->exponent_digits);
    } else {
        decimal d = to_decimal(v, (digit_limits){.behind_point = true, .at_most = PRECISION});
        write_positional(word, &d, p->plus, p->left, fraction_digits(&d), p->right);
    }
}

static bool is_shortened(const printer *p, int axis) { return p->count > THRESHOLD && p->shape[axis] > 2 * EDGE_ITEMS; }

static int64_t next_shown(const printer *p, int axis, int64_t i) {
    return is_shortened(p, axis) && i + 1 == EDGE_ITEMS ? p->shape[axis] - EDGE_ITEMS : i + 1;
}

static void for_each_shown(printer *p, int axis, int64_t index, void (*measure)(printer *, int64_t)) {
    if (axis == p->rank) {
        measure(p, index);
        return;
    }
    for (int64_t i = 0; i < p->shape[axis]; i = next_shown(p, axis, i))
        for_each_shown(p, axis + 1, index * p->shape[axis] + i, measure);
}

static void measure_integer(printer *p, int64_t index) {
    char word[WORD_BYTES];
    p->left = max_int(p->left, write_integer(word, p, index));
}

static void measure_range(printer *p, int64_t index) {
    number v = unpack(p->kind, load_bits(p, index));
    if (!v.finite) {
        p->has_special = true;
        p->has_negative_infinity |= p->plus || (v.negative && v.mantissa == 0);
    } else if (v.mantissa) {
        p->largest = fmax(p->largest, magnitude(v));
        p->smallest = fmin(p->smallest, magnitude(v));
    }
}

static void measure_digits(printer *p, int64_t index) {
    number v = unpack(p->kind, load_bits(p, index));
    if (!v.finite) return;
    decimal d = to_decimal(v, (digit_limits){.behind_point = !p->scientific, .at_most = PRECISION});
    if (p->scientific) {
        p->left = max_int(p->left, 1 + has_sign(&d, p->plus));
        p->fraction = max_int(p->fraction, d.count - 1);
        p->exponent_digits = max_int(p->exponent_digits, abs(d.exponent) > 99 ? 3 : 2);
        p->right = p->fraction + 2 + p->exponent_digits;
    } else {
        p->left = max_int(p->left, max_int(d.exponent, 0) + 1 + has_sign(&d, p->plus));
        p->right = max_int(p->right, fraction_digits(&d));
    }
}

static void measure_floats(printer *p) {
    p->smallest = INFINITY;
    for_each_shown(p, 0, 0, measure_range);
    if (p->largest > 0) { /* the ratio is taken in the precision of the elements */
        double ratio =
            p->kind == BTI_TEXT_F64 ? p->largest / p->smallest : (double)((float)p->largest / (float)p->smallest);
        p->scientific = p->largest >= float_formats[p->kind].large || p->smallest < float_formats[p->kind].small ||
                        ratio > float_formats[p->kind].spread;
    }
    for_each_shown(p, 0, 0, measure_digits);
    if (p->has_special) p->left = max_int(p->left, 3 + p->has_negative_infinity - p->right - 1);
}

static void put_lines(printer *p, int lines, int indent) {
    for (; lines > 0; lines--) bti_str_add(&p->out, "\n");
    p->line_start = p->out.length;
    for (; indent > 0; indent--) bti_str_add(&p->out, " ");
}

static size_t column(const printer *p) { return p->out.length - p->line_start; }

static void put_word(printer *p, const char *word, int width, int indent) {
    int start = (int)column(p);
    if (start + (int)strlen(word) > width && start > indent) {
        while (p->out.length > 0 && p->out.text[p->out.length - 1] == ' ') p->out.length--;
        put_lines(p, 1, indent);
    }
    bti_str_add(&p->out, word);
}

static void put_axis(printer *p, int axis, int64_t index);

/* The element or sub-array at `index` (-1: the dots that stand for what is left out), with what sets it off from the
 * one before. */
static void put_item(printer *p, int axis, int64_t index, bool is_first) {
    char word[WORD_BYTES] = "...";
    bool innermost = axis + 1 == p->rank, repr = p->style == BTI_TEXT_REPR;
    int indent = (repr ? (int)strlen("array([") : 1) + axis;
    int width = LINE_WIDTH - repr - axis - 1; /* leaves room for what closes the array */
    if (!is_first) {
        bti_str_add(&p->out, repr ? "," : "");
        if (innermost)
            bti_str_add(&p->out, " ");
        else
            put_lines(p, p->rank - axis - 1, indent);
    }
    if (index >= 0 && !innermost) {
        put_axis(p, axis + 1, index);
    } else {
        if (index >= 0) write_element(word, p, index);
        put_word(p, word, width, indent);
    }
}

static void put_axis(printer *p, int axis, int64_t index) {
    int64_t extent = p->shape[axis];
    bti_str_add(&p->out, "[");
    for (int64_t i = 0; i < extent; i = next_shown(p, axis, i)) {
        if (is_shortened(p, axis) && i == extent - EDGE_ITEMS) put_item(p, axis, -1, false);
        put_item(p, axis, index * extent + i, i == 0);
    }
    bti_str_add(&p->out, "]");
}

static void put_array(printer *p) {
    char word[WORD_BYTES];
    bool is_float = is_float_kind(p->kind);
    if (p->count == 0) {
        bti_str_add(&p->out, "[]");
        return;
    }
    if (is_float)
        measure_floats(p);
    else if (p->kind != BTI_TEXT_BOOL && !p->parts)
        for_each_shown(p, 0, 0, measure_integer);
    if (p->rank > 0) {
        put_axis(p, 0, 0);
    } else {
        if (p->parts && p->style == BTI_TEXT_STR)
            write_complex_scalar(word, p->parts[0].kind, unpack(p->parts[0].kind, load_bits(&p->parts[0], 0)),
                                 unpack(p->parts[1].kind, load_bits(&p->parts[1], 0)));
        else if (is_float && p->style == BTI_TEXT_STR)
            write_scalar(word, p->kind, unpack(p->kind, load_bits(p, 0)));
        else
            write_element(word, p, 0);
        bti_str_add(&p->out, word);
    }
}

/* ", shape=(2000,), dtype=float32", as far as the elements do not tell; on the next line when this one is too short. */
static void put_shape_and_dtype(printer *p, const char *dtype_name) {
    bool is_default = p->kind == BTI_TEXT_BOOL || p->kind == BTI_TEXT_F64 || p->kind == BTI_TEXT_C128 ||
                      (p->kind == BTI_TEXT_INT && p->size_bytes == 8);
    bool with_shape = (p->count == 0 && p->rank > 1) || p->count > THRESHOLD;
    bool with_dtype = !is_default || p->count == 0;
    bti_str extra = {0};
    if (with_shape) {
        bti_str_add(&extra, "shape=(");
        for (int axis = 0; axis < p->rank; axis++)
            bti_str_addf(&extra, "%s%" PRId64, axis > 0 ? ", " : "", p->shape[axis]);
        bti_str_add(&extra, p->rank == 1 ? ",)" : ")");
    }
    if (with_dtype) bti_str_addf(&extra, "%sdtype=%s", with_shape ? ", " : "", dtype_name);
    if (extra.length > 0) {
        bti_str_add(&p->out, ",");
        if (column(p) + strlen(" ") + extra.length + strlen(")") > LINE_WIDTH)
            put_lines(p, 1, (int)strlen("array("));
        else
            bti_str_add(&p->out, " ");
        bti_str_add_bytes(&p->out, extra.text, extra.length);
    }
    p->out.failed |= extra.failed;
    bti_str_free(&extra);
}

static printer new_printer(const void *data, bti_text_kind kind, int size_bytes, int rank, const int64_t *shape,
                           bti_text_style style) {
    printer p = {.data = data,
                 .kind = kind,
                 .size_bytes = size_bytes,
                 .step_bytes = size_bytes,
                 .rank = rank,
                 .shape = shape,
                 .count = 1,
                 .style = style};
    for (int axis = 0; axis < rank; axis++) p.count *= shape[axis];
    return p;
}

char *bti_array_text(const void *data, bti_text_kind kind, int size_bytes, int rank, const int64_t *shape,
                     const char *dtype_name, bti_text_style style) {
    printer p = new_printer(data, kind, size_bytes, rank, shape, style), parts[2];
    bool is_complex = kind == BTI_TEXT_C64 || kind == BTI_TEXT_C128;
    for (int i = 0; i < 2 && is_complex && p.count; i++) {
        bti_text_kind part = kind == BTI_TEXT_C64 ? BTI_TEXT_F32 : BTI_TEXT_F64;
        parts[i] = new_printer((const char *)data + i * size_bytes / 2, part, size_bytes / 2, rank, shape, style);
        parts[i].step_bytes = size_bytes;
        parts[i].plus = i == 1;
        measure_floats(&parts[i]);
    }
    if (is_complex && p.count) p.parts = parts;
    if (style == BTI_TEXT_REPR) bti_str_add(&p.out, "array(");
    put_array(&p);
    if (style == BTI_TEXT_REPR) {
        put_shape_and_dtype(&p, dtype_name);
        bti_str_add(&p.out, ")");
    }
    return bti_str_take(&p.out);
}
