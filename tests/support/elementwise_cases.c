/* Elementwise rows against plain C in double. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "support/conformance.h"

/* --- one input ------------------------------------------------------------------------------------------------------------ */

static double neg(double x) { return -x; }
static double sign(double x) { return (x > 0) - (x < 0); }
static double round_even(double x) { return rint(x); }
static double rsqrt_(double x) { return 1 / sqrt(x); }
static double sigmoid(double x) { return 1 / (1 + exp(-x)); }
static double erfinv(double y) { /* Newton from a rough start */
    double x = 0;
    if (fabs(y) >= 1) return copysign(INFINITY, y);
    for (int i = 0; i < 60; i++) x -= (erf(x) - y) / (2 / sqrt(M_PI) * exp(-x * x));
    return x;
}

typedef struct unary {
    const char *name;
    bt_array *(*run)(bt_array *x);
    double (*expect)(double x);
} unary;

static const unary unaries[] = {
    {"neg", bt_neg, neg},          {"abs", bt_abs, fabs},
    {"sign", bt_sign, sign},       {"floor", bt_floor, floor},
    {"ceil", bt_ceil, ceil},       {"round", bt_round, round_even},
    {"trunc", bt_trunc, trunc},    {"exp", bt_exp, exp},
    {"exp2", bt_exp2, exp2},       {"expm1", bt_expm1, expm1},
    {"log", bt_log, log},          {"log2", bt_log2, log2},
    {"log10", bt_log10, log10},    {"log1p", bt_log1p, log1p},
    {"sqrt", bt_sqrt, sqrt},       {"rsqrt", bt_rsqrt, rsqrt_},
    {"sin", bt_sin, sin},          {"cos", bt_cos, cos},
    {"tan", bt_tan, tan},          {"asin", bt_asin, asin},
    {"acos", bt_acos, acos},       {"atan", bt_atan, atan},
    {"sinh", bt_sinh, sinh},       {"cosh", bt_cosh, cosh},
    {"tanh", bt_tanh, tanh},       {"sigmoid", bt_sigmoid, sigmoid},
    {"erf", bt_erf, erf},          {"erfc", bt_erfc, erfc},
    {"erfinv", bt_erfinv, erfinv},
};

static bt_dtype float_of(bt_dtype dtype) {
    if (dtype_is_float(dtype)) return dtype;
    return dtype == BT_I64 || dtype == BT_U64 ? BT_F64 : BT_F32;
}

static void run_unary(const row *of) {
    const unary *u = unaries;
    while (strcmp(u->name, of->name)) u++;
    bt_dtype dtypes[BT_DTYPE_COUNT];
    unsigned seed = 1;
    int count = dtypes_of(of, dtypes);
    for (int d = 0; d < count; d++)
        for (int s = 0; s < edge_shape_count; s++)
            for (int lies = 0; lies < LAYOUT_COUNT; lies++) {
                if (!case_begin("%s/%s/%s %s", of->name, bt_dtype_name(dtypes[d]), layout_names[lies],
                                shape_text(edge_shapes[s])))
                    continue;
                host x = host_draw(dtypes[d], edge_shapes[s], of->low, of->high, (layout)lies, &seed);
                host want = host_new(!strcmp(of->rule, "BTI_FLOAT") ? float_of(dtypes[d]) : dtypes[d], edge_shapes[s]);
                for (int64_t i = 0; i < x.count; i++) want.at[i] = u->expect(x.at[i]);
                BT_SCOPE
                    case_end(u->run(host_place(&x, (layout)lies)), &want, of->tolerance);
            }
}

static void run_not(const row *of) {
    bt_dtype dtypes[BT_DTYPE_COUNT];
    unsigned seed = 2;
    int count = dtypes_of(of, dtypes);
    for (int d = 0; d < count; d++)
        for (int s = 0; s < edge_shape_count; s++) {
            if (!case_begin("not/%s %s", bt_dtype_name(dtypes[d]), shape_text(edge_shapes[s]))) continue;
            host x = host_draw(dtypes[d], edge_shapes[s], of->low, of->high, DENSE, &seed), want = x;
            for (int64_t i = 0; i < x.count; i++) want.at[i] = dtypes[d] == BT_BOOL ? x.at[i] == 0 : -x.at[i] - 1;
            if (dtypes[d] == BT_U64) continue; /* past what a double holds; below */
            BT_SCOPE
                case_end(bt_bit_not(host_place(&x, FLIPPED)), &want, 0);
        }
    if (!case_begin("not/uint64 of 0, back and forth")) return;
    host zero = host_new(BT_U64, BT_SHAPE(3)), one = host_new(BT_BOOL, BT_SHAPE(3));
    for (int i = 0; i < 3; i++) one.at[i] = 1;
    BT_SCOPE {
        bt_array *x = host_place(&zero, DENSE), *all = bt_bit_not(x);
        case_end(bt_logical_and(bt_eq(bt_bit_not(all), x),
                                bt_eq(bt_shift_right(all, bt_full(63, BT_U64, 3)), bt_full(1, BT_U64, 3))),
                 &one, 0);
    }
}

/* --- two inputs ----------------------------------------------------------------------------------------------------------- */

static double add(double x, double y) { return x + y; }
static double sub(double x, double y) { return x - y; }
static double mul(double x, double y) { return x * y; }
static double divide(double x, double y) { return x / y; }
static double floor_div(double x, double y) { return y == 0 ? 0 : floor(x / y); }
static double mod(double x, double y) { return y == 0 ? 0 : x - floor(x / y) * y; }
static double and (double x, double y) { return (double)((int64_t)x & (int64_t)y); }
static double or (double x, double y) { return (double)((int64_t)x | (int64_t)y); }
static double xor
    (double x, double y) { return (double)((int64_t)x ^ (int64_t)y); } static double shl(double x, double y) {
    return x * exp2(y);
} /* wrapped by the dtype */
static double shr(double x, double y) { return floor(x / exp2(y)); }
static double eq(double x, double y) { return x == y; }
static double ne(double x, double y) { return x != y; }
static double lt(double x, double y) { return x < y; }
static double le(double x, double y) { return x <= y; }

typedef struct binary {
    const char *name;
    bt_array *(*run)(bt_array *x, bt_array *y);
    double (*expect)(double x, double y);
} binary;

static const binary binaries[] = {
    {"add", bt_add, add},
    {"sub", bt_sub, sub},
    {"mul", bt_mul, mul},
    {"div", bt_div, divide},
    {"floor_div", bt_floor_div, floor_div},
    {"mod", bt_mod, mod},
    {"pow", bt_pow, pow},
    {"atan2", bt_atan2, atan2},
    {"maximum", bt_maximum, fmax},
    {"minimum", bt_minimum, fmin},
    {"and", bt_bit_and, and},
    {"or", bt_bit_or, or },
    {"xor", bt_bit_xor, xor},
    {"shl", bt_shift_left, shl},
    {"shr", bt_shift_right, shr},
    {"eq", bt_eq, eq},
    {"ne", bt_ne, ne},
    {"lt", bt_lt, lt},
    {"le", bt_le, le},
};

/* Shapes that meet; the third is what comes out. */
static const bt_shape meetings[][3] = {
    {{0}, {0}, {0}},
    {{1, {5}}, {1, {5}}, {1, {5}}},
    {{2, {2, 3}}, {1, {3}}, {2, {2, 3}}},
    {{2, {2, 1}}, {2, {1, 3}}, {2, {2, 3}}},
    {{0}, {3, {2, 2, 2}}, {3, {2, 2, 2}}},
    {{2, {0, 3}}, {1, {3}}, {2, {0, 3}}},
    {{2, {4, 1}}, {2, {1, 0}}, {2, {4, 0}}},
    {{8, {1, 2, 1, 2, 1, 2, 1, 2}}, {8, {2, 1, 2, 1, 2, 1, 2, 1}}, {8, {2, 2, 2, 2, 2, 2, 2, 2}}},
};

static double at_broadcast(const host *h, bt_shape shape, const int64_t *index) {
    int64_t own[BT_MAX_RANK], skip = shape.rank - h->shape.rank;
    for (int i = 0; i < h->shape.rank; i++) own[i] = h->shape.size[i] == 1 ? 0 : index[i + skip];
    return h->at[host_offset(h->shape, own)];
}

static host meet(const host *x, const host *y, bt_dtype dtype, bt_shape shape, double (*expect)(double, double)) {
    host want = host_new(dtype, shape);
    int64_t index[BT_MAX_RANK] = {0};
    if (want.count) do
            want.at[host_offset(shape, index)] = expect(at_broadcast(x, shape, index), at_broadcast(y, shape, index));
        while (host_next(shape, index));
    return want;
}

static void run_binary(const row *of) {
    const binary *b = binaries;
    while (strcmp(b->name, of->name)) b++;
    bt_dtype dtypes[BT_DTYPE_COUNT];
    unsigned seed = 3;
    int count = dtypes_of(of, dtypes);
    bool compares = !strcmp(of->rule, "BTI_COMPARE"), floats = !strcmp(of->rule, "BTI_FLOAT");
    for (int d = 0; d < count; d++)
        for (size_t m = 0; m < sizeof meetings / sizeof *meetings; m++)
            for (int lies = 0; lies < LAYOUT_COUNT; lies++) {
                const bt_shape *s = meetings[m];
                if (!case_begin("%s/%s/%s %s with %s", of->name, bt_dtype_name(dtypes[d]), layout_names[lies],
                                shape_text(s[0]), shape_text(s[1])))
                    continue;
                layout other = (layout)((lies + 2) % LAYOUT_COUNT);
                host x = host_draw(dtypes[d], s[0], of->low, of->high, (layout)lies, &seed);
                host y = host_draw(dtypes[d], s[1], of->low, of->high, other, &seed);
                host want = meet(&x, &y,
                                 compares ? BT_BOOL
                                 : floats ? float_of(dtypes[d])
                                          : dtypes[d],
                                 s[2], b->expect);
                for (int64_t i = 0; i < want.count && dtypes[d] == BT_BOOL && b->expect == shl; i++)
                    want.at[i] = fmod(want.at[i], 2);
                BT_SCOPE
                    case_end(b->run(host_place(&x, (layout)lies), host_place(&y, other)), &want, of->tolerance);
            }
    if (compares || !strcmp(of->rule, "BTI_BITS")) return;
    if (!case_begin("%s/int32 with a weak scalar and float16", of->name)) return; /* promotion, once */
    host x = host_draw(BT_I32, BT_SHAPE(4), 1, 3, DENSE, &seed), y = host_new(BT_F16, BT_SHAPE(4));
    for (int i = 0; i < 4; i++) y.at[i] = 2;
    host want = meet(&x, &y, BT_F16, BT_SHAPE(4), b->expect);
    BT_SCOPE
        case_end(b->run(host_place(&x, DENSE), bt_mul(host_place(&y, DENSE), bt_num(1))), &want, of->tolerance);
}

/* --- the rest ------------------------------------------------------------------------------------------------------------- */

static void run_where(const row *of) {
    unsigned seed = 4;
    for (bt_dtype dtype = BT_BOOL; dtype < COMPUTED_DTYPES; dtype++)
        for (size_t m = 0; m < sizeof meetings / sizeof *meetings; m++)
            for (int lies = 0; lies < LAYOUT_COUNT; lies++) {
                const bt_shape *s = meetings[m];
                if (!case_begin("where/%s/%s %s with %s", bt_dtype_name(dtype), layout_names[lies], shape_text(s[0]),
                                shape_text(s[1])))
                    continue;
                host c = host_draw(BT_BOOL, s[2], 0, 1, (layout)lies, &seed);
                host x = host_draw(dtype, s[0], of->low, of->high, (layout)lies, &seed),
                     y = host_draw(dtype, s[1], of->low, of->high, DENSE, &seed);
                host xs = meet(&x, &x, dtype, s[2], fmax), want = meet(&y, &y, dtype, s[2], fmax);
                for (int64_t i = 0; i < want.count; i++) want.at[i] = c.at[i] != 0 ? xs.at[i] : want.at[i];
                BT_SCOPE
                    case_end(
                        bt_where(host_place(&c, (layout)lies), host_place(&x, (layout)lies), host_place(&y, DENSE)),
                        &want, 0);
            }
}

static double cast_value(double value, bt_dtype from, bt_dtype to) {
    if (to == BT_BOOL) return value != 0;
    if (dtype_is_float(to) || !dtype_is_float(from)) return value; /* rounded or wrapped by the dtype */
    bool is_signed = to >= BT_I8;
    int bits = (int)bt_dtype_size(to) * 8;
    double most = exp2(bits - is_signed) - 1, least = is_signed ? -exp2(bits - 1) : 0;
    return value != value ? 0 : fmin(fmax(trunc(value), least), most);
}

static void run_cast(const row *of) {
    (void)of;
    unsigned seed = 5;
    for (bt_dtype from = BT_BOOL; from < COMPUTED_DTYPES; from++)
        for (bt_dtype to = BT_BOOL; to < COMPUTED_DTYPES; to++)
            for (int lies = 0; lies < LAYOUT_COUNT; lies++) {
                if (!case_begin("cast/%s to %s/%s", bt_dtype_name(from), bt_dtype_name(to), layout_names[lies]))
                    continue;
                host x = host_draw(from, BT_SHAPE(3, 4), -4, 120, (layout)lies, &seed);
                if (lies == DENSE && dtype_is_float(from))
                    x.at[0] = -INFINITY, x.at[1] = NAN, x.at[2] = 448, x.at[3] = -0.5;
                if (lies == DENSE && dtype_is_float(from) && to >= BT_U64 && to < BT_F16)
                    x.at[0] = -4; /* 64 bits' edge is no double */
                host want = host_new(to, BT_SHAPE(3, 4));
                for (int64_t i = 0; i < x.count; i++) want.at[i] = cast_value(x.at[i], from, to);
                BT_SCOPE
                    case_end(bt_cast(host_place(&x, (layout)lies), to), &want, 0);
            }
}

static void run_bitcast(const row *of) {
    (void)of;
    static const struct {
        bt_dtype from, to;
        double value, bits;
    } pairs[] = {{BT_F32, BT_I32, 1, 0x3f800000}, {BT_F32, BT_U32, -2, 0xc0000000u},       {BT_F16, BT_U16, 1, 0x3c00},
                 {BT_BF16, BT_I16, 1, 0x3f80},    {BT_F64, BT_I64, 2, 0x4000000000000000}, {BT_U8, BT_I8, 255, -1},
                 {BT_I32, BT_F32, 0x40000000, 2}};
    for (size_t p = 0; p < sizeof pairs / sizeof *pairs; p++)
        for (int s = 0; s < edge_shape_count; s++) {
            if (!case_begin("bitcast/%s to %s %s", bt_dtype_name(pairs[p].from), bt_dtype_name(pairs[p].to),
                            shape_text(edge_shapes[s])))
                continue;
            host x = host_new(pairs[p].from, edge_shapes[s]), want = host_new(pairs[p].to, edge_shapes[s]);
            for (int64_t i = 0; i < x.count; i++) x.at[i] = pairs[p].value, want.at[i] = pairs[p].bits;
            BT_SCOPE
                case_end(bt_bitcast(host_place(&x, TRANSPOSED), pairs[p].to), &want, 0);
        }
}

/* Numbers that are read back by their parts. */
static bt_array *numbers_of(const host *re, const host *im, layout lies) {
    return bt_complex(host_place(re, lies), host_place(im, lies));
}

static void run_parts_of(const row *of, bt_dtype dtype, bt_shape shape, layout lies) {
    host re = host_new(dtype, shape), im = host_new(dtype, shape), want = host_new(dtype, shape);
    for (int64_t i = 0; i < re.count; i++) re.at[i] = (double)(i % 7) - 3, im.at[i] = (double)(i % 5) * 0.5;
    bool imaginary = !strcmp(of->name, "imag"), both = !strcmp(of->name, "complex");
    for (int64_t i = 0; i < re.count; i++)
        want.at[i] = both ? re.at[i] * re.at[i] - im.at[i] * im.at[i] : imaginary ? im.at[i] : re.at[i];
    BT_SCOPE {
        bt_array *z = numbers_of(&re, &im, lies);
        if (bt_block(z) != BT_OK) bt_error_clear(); /* in memory from here on */
        case_end(both ? bt_real(bt_mul(z, z)) : imaginary ? bt_imag(z) : bt_real(z), &want, 0);
    }
}

static void run_parts(const row *of) {
    static const bt_dtype parts[] = {BT_F32, BT_F64};
    for (int d = 0; d < 2; d++)
        for (int s = 0; s < edge_shape_count; s++)
            for (int lies = 0; lies < EXPANDED; lies++)
                if (case_begin("%s/%s/%s %s", of->name, bt_dtype_name(parts[d]), layout_names[lies],
                               shape_text(edge_shapes[s])))
                    run_parts_of(of, parts[d], edge_shapes[s], (layout)lies);
}

/* Of the key (0, seed), by Threefry-2x32-20. */
static uint32_t word_of(uint32_t seed, uint32_t number, uint32_t count) {
    static const int turns[8] = {13, 15, 26, 6, 17, 29, 16, 24};
    const uint32_t key[3] = {0, seed, seed ^ 0x1bd11bda}, half = count / 2 + count % 2;
    const uint32_t block = number % half, other = half + block;
    uint32_t a = block + key[0], b = (other < count ? other : 0) + key[1];
    for (int round = 0; round < 20; round++) {
        a += b;
        b = (b << turns[round % 8] | b >> (32 - turns[round % 8])) ^ a;
        if (round % 4 != 3) continue;
        uint32_t group = (uint32_t)round / 4 + 1;
        a += key[group % 3], b += key[(group + 1) % 3] + group;
    }
    return number < half ? a : b;
}

/* Words of two keys and a row, so that there are two axes, of which one may be odd. */
static void run_random_words(bt_shape shape) {
    if (!case_begin("random_word/rows %s", shape_text(shape))) return;
    host added = host_new(BT_U32, BT_SHAPE(shape.size[1])), want = host_new(BT_U32, shape);
    for (int64_t i = 0; i < added.count; i++) added.at[i] = (double)(3 * i + 1);
    for (int64_t i = 0; i < want.count; i++) {
        uint32_t count = (uint32_t)want.count, number = (uint32_t)i;
        uint32_t word = word_of(5, number, count) ^ word_of(9, number, count);
        want.at[i] = (uint32_t)(word + (uint32_t)added.at[i % added.count]);
    }
    BT_SCOPE {
        bt_array *words = bt_bit_xor(bt_bits_shape(bt_key(5), BT_U32, shape), bt_bits_shape(bt_key(9), BT_U32, shape));
        case_end(bt_add(words, host_place(&added, DENSE)), &want, 0);
    }
}

/* JAX's own numbers. */
static void run_random_word(const row *of) {
    (void)of;
    host keys = host_new(BT_U32, BT_SHAPE(2, 2)), uniform = host_new(BT_F32, BT_SHAPE(2, 3)),
         none = host_new(BT_U32, BT_SHAPE(0, 2));
    const double split[] = {4146024105, 967050713, 2718843009, 1272950319};
    const double drawn[] = {0.57450044f, 0.09968603f, 0.7419659f, 0.8941783f, 0.59656656f, 0.45325184f};
    memcpy(keys.at, split, sizeof split);
    memcpy(uniform.at, drawn, sizeof drawn);
    if (case_begin("random_word/split"))
        BT_SCOPE
            case_end(bt_split(bt_key(0), 2), &keys, 0);
    if (case_begin("random_word/uniform"))
        BT_SCOPE
            case_end(bt_uniform(bt_key(0), BT_F32, 2, 3), &uniform, 0);
    if (case_begin("random_word/none"))
        BT_SCOPE
            case_end(bt_bits(bt_key(0), BT_U32, 0, 2), &none, 0);
    run_random_words(BT_SHAPE(6, 5));
    run_random_words(BT_SHAPE(5, 6));
    run_random_words(BT_SHAPE(7, 3));
    run_random_words(BT_SHAPE(16, 3));
}

/* The first block of Random123's known answers for Threefry-2x32-20: key and counter 0. */
static void run_threefry(const row *of) {
    (void)of;
    host folded = host_new(BT_U32, BT_SHAPE(2));
    const double words[] = {0x6b200159, 0x99ba4efe};
    memcpy(folded.at, words, sizeof words);
    if (case_begin("threefry/fold_in"))
        BT_SCOPE
            case_end(bt_fold_in(bt_key(0), 0), &folded, 0);
}

#define UNARY(name) \
    { name, run_unary }
#define BINARY(name) \
    { name, run_binary }
const cases elementwise_cases[] = {
    UNARY("neg"),
    UNARY("abs"),
    UNARY("sign"),
    UNARY("floor"),
    UNARY("ceil"),
    UNARY("round"),
    UNARY("trunc"),
    UNARY("exp"),
    UNARY("exp2"),
    UNARY("expm1"),
    UNARY("log"),
    UNARY("log2"),
    UNARY("log10"),
    UNARY("log1p"),
    UNARY("sqrt"),
    UNARY("rsqrt"),
    UNARY("sin"),
    UNARY("cos"),
    UNARY("tan"),
    UNARY("asin"),
    UNARY("acos"),
    UNARY("atan"),
    UNARY("sinh"),
    UNARY("cosh"),
    UNARY("tanh"),
    UNARY("sigmoid"),
    UNARY("erf"),
    UNARY("erfc"),
    UNARY("erfinv"),
    {"not", run_not},
    BINARY("add"),
    BINARY("sub"),
    BINARY("mul"),
    BINARY("div"),
    BINARY("floor_div"),
    BINARY("mod"),
    BINARY("pow"),
    BINARY("atan2"),
    BINARY("maximum"),
    BINARY("minimum"),
    BINARY("and"),
    BINARY("or"),
    BINARY("xor"),
    BINARY("shl"),
    BINARY("shr"),
    BINARY("eq"),
    BINARY("ne"),
    BINARY("lt"),
    BINARY("le"),
    {"where", run_where},
    {"cast", run_cast},
    {"bitcast", run_bitcast},
    {"threefry", run_threefry},
    {"random_word", run_random_word},
    {"complex", run_parts},
    {"real", run_parts},
    {"imag", run_parts},
    {NULL, NULL},
};
