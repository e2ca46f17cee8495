// timeout: 240
/* Quotients as Python's, activations and losses to a few units in the last place wherever their value is a number, shifts by any count.
 * The CPU's kernels are checked against each other at every width of vectors. */
#include <float.h>
#include <math.h>

#include "support/support.h"

enum { SOME = 4096 };
static float xs[SOME], ys[SOME], got[SOME];

static uint64_t seed = 1;
static uint64_t word(void) {
    seed ^= seed << 13, seed ^= seed >> 7;
    return seed ^= seed << 17;
}
static double unit(void) { return (double)(word() >> 11) * 0x1p-53; }

/* --- quotients ------------------------------------------------------------------------------------------------------------ */

/* Python's rule, as CPython writes it, in float64. */
static double python_floor_div(double x, double y) {
    double rest = fmod(x, y), quotient = (x - rest) / y;
    if (rest != 0 && (y < 0) != (rest < 0)) quotient -= 1;
    if (quotient == 0) return copysign(0, x / y);
    double whole = floor(quotient);
    return quotient - whole > 0.5 ? whole + 1 : whole;
}
static double python_mod(double x, double y) {
    double rest = fmod(x, y);
    if (rest == 0) return copysign(0, y);
    return (y < 0) != (rest < 0) ? rest + y : rest;
}

static bool same(double a, double b) { return (isnan(a) && isnan(b)) || (a == b && signbit(a) == signbit(b)); }

/* What Python's own // and % give: x, y, x // y, x % y. */
static const double pythons[][4] = {
    {0x0.0p+0, 0x1.0000000000000p+0, 0x0.0p+0, 0x0.0p+0},
    {0x0.0p+0, -0x1.8000000000000p+1, -0x0.0p+0, -0x0.0p+0},
    {0x0.0p+0, 0x1.999999999999ap-4, 0x0.0p+0, 0x0.0p+0},
    {0x0.0p+0, -0x1.999999999999ap-4, -0x0.0p+0, -0x0.0p+0},
    {0x0.0p+0, INFINITY, 0x0.0p+0, 0x0.0p+0},
    {0x0.0p+0, -INFINITY, -0x0.0p+0, -0x0.0p+0},
    {0x0.0p+0, 0x0.0000000000001p-1022, 0x0.0p+0, 0x0.0p+0},
    {-0x0.0p+0, 0x1.0000000000000p+0, -0x0.0p+0, 0x0.0p+0},
    {-0x0.0p+0, -0x1.8000000000000p+1, 0x0.0p+0, -0x0.0p+0},
    {-0x0.0p+0, 0x1.999999999999ap-4, -0x0.0p+0, 0x0.0p+0},
    {-0x0.0p+0, -0x1.999999999999ap-4, 0x0.0p+0, -0x0.0p+0},
    {-0x0.0p+0, INFINITY, -0x0.0p+0, 0x0.0p+0},
    {-0x0.0p+0, -INFINITY, 0x0.0p+0, -0x0.0p+0},
    {-0x0.0p+0, 0x0.0000000000001p-1022, -0x0.0p+0, 0x0.0p+0},
    {0x1.0000000000000p+0, 0x1.0000000000000p+0, 0x1.0000000000000p+0, 0x0.0p+0},
    {0x1.0000000000000p+0, -0x1.8000000000000p+1, -0x1.0000000000000p+0, -0x1.0000000000000p+1},
    {0x1.0000000000000p+0, 0x1.999999999999ap-4, 0x1.2000000000000p+3, 0x1.9999999999996p-4},
    {0x1.0000000000000p+0, -0x1.999999999999ap-4, -0x1.4000000000000p+3, -0x1.0000000000000p-54},
    {0x1.0000000000000p+0, INFINITY, 0x0.0p+0, 0x1.0000000000000p+0},
    {0x1.0000000000000p+0, -INFINITY, -0x1.0000000000000p+0, -INFINITY},
    {-0x1.4000000000000p+2, 0x1.0000000000000p+0, -0x1.4000000000000p+2, 0x0.0p+0},
    {-0x1.4000000000000p+2, -0x1.8000000000000p+1, 0x1.0000000000000p+0, -0x1.0000000000000p+1},
    {-0x1.4000000000000p+2, 0x1.999999999999ap-4, -0x1.9000000000000p+5, 0x1.4000000000000p-52},
    {-0x1.4000000000000p+2, -0x1.999999999999ap-4, 0x1.8800000000000p+5, -0x1.9999999999986p-4},
    {-0x1.4000000000000p+2, INFINITY, -0x1.0000000000000p+0, INFINITY},
    {-0x1.4000000000000p+2, -INFINITY, 0x0.0p+0, -0x1.4000000000000p+2},
    {0x1.999999999999ap-4, 0x1.0000000000000p+0, 0x0.0p+0, 0x1.999999999999ap-4},
    {0x1.999999999999ap-4, -0x1.8000000000000p+1, -0x1.0000000000000p+0, -0x1.7333333333333p+1},
    {0x1.999999999999ap-4, 0x1.999999999999ap-4, 0x1.0000000000000p+0, 0x0.0p+0},
    {0x1.999999999999ap-4, -0x1.999999999999ap-4, -0x1.0000000000000p+0, -0x0.0p+0},
    {0x1.999999999999ap-4, INFINITY, 0x0.0p+0, 0x1.999999999999ap-4},
    {0x1.999999999999ap-4, -INFINITY, -0x1.0000000000000p+0, -INFINITY},
    {0x1.1ccf385ebc8a0p+1023, 0x1.0000000000000p+0, 0x1.1ccf385ebc8a0p+1023, 0x0.0p+0},
    {0x1.1ccf385ebc8a0p+1023, -0x1.8000000000000p+1, -0x1.7bbef5d3a60d5p+1021, -0x1.0000000000000p+0},
    {0x1.1ccf385ebc8a0p+1023, INFINITY, 0x0.0p+0, 0x1.1ccf385ebc8a0p+1023},
    {0x1.1ccf385ebc8a0p+1023, -INFINITY, -0x1.0000000000000p+0, -INFINITY},
    {-0x0.0000000000001p-1022, 0x1.0000000000000p+0, -0x1.0000000000000p+0, 0x1.0000000000000p+0},
    {-0x0.0000000000001p-1022, -0x1.8000000000000p+1, 0x0.0p+0, -0x0.0000000000001p-1022},
    {-0x0.0000000000001p-1022, 0x1.999999999999ap-4, -0x1.0000000000000p+0, 0x1.999999999999ap-4},
    {-0x0.0000000000001p-1022, -0x1.999999999999ap-4, 0x0.0p+0, -0x0.0000000000001p-1022},
    {-0x0.0000000000001p-1022, INFINITY, -0x1.0000000000000p+0, INFINITY},
    {-0x0.0000000000001p-1022, -INFINITY, 0x0.0p+0, -0x0.0000000000001p-1022},
    {-0x0.0000000000001p-1022, 0x0.0000000000001p-1022, -0x1.0000000000000p+0, 0x0.0p+0},
    {-0x1.908ed3aed6262p+51, 0x1.999999999999ap-4, -0x1.f4b2889a8bafap+54, 0x1.87840dc412b2ap-4},
    {-0x1.21315f862c42cp+50, 0x1.3333333333333p-2, -0x1.e1fcf48a49c4ap+51, 0x1.b19c092af82f8p-5},
    {-0x1.d14e30d043e8bp+52, 0x1.8000000000000p+1, -0x1.3634208ad7f08p+51, 0x1.0000000000000p+0},
    {-0x1.814e70d62f257p+52, 0x1.3333333333333p-2, -0x1.4116b35d2749ep+54, 0x1.fe421437c1236p-3},
    {-0x1.01bce769160e5p+53, -0x1.8000000000000p+0, 0x1.57a689e172bdcp+52, -0x0.0p+0},
    {0x1.a1caf76d92200p+0, 0x1.999999999999ap-4, 0x1.0000000000000p+4, 0x1.062bba7f10cc0p-5},
    {0x1.f8a8234b9b5dfp+52, 0x1.8000000000000p+0, 0x1.50701787bce94p+52, 0x1.0000000000000p+0},
    {0x1.85171e6749918p+50, 0x1.3333333333333p-2, 0x1.443deeab67f94p+52, 0x1.0364beef86610p-4},
    {-0x1.db60356ec2c7bp+52, 0x1.8000000000000p+0, -0x1.3ceace49d72fdp+52, 0x1.0000000000000p-1},
    {-0x1.9178b50de0fa4p+51, 0x1.8000000000000p+1, -0x1.0ba5ce0940a70p+50, 0x1.0000000000000p+1},
    {0x1.051c1a2ff3594p+51, -0x1.8000000000000p+0, -0x1.5c25783fef21cp+50, -0x1.0000000000000p-1},
    {0x1.5186eff1c360ep+52, 0x1.8000000000000p+1, 0x1.c2093fed04810p+50, 0x1.0000000000000p+1},
    {0x1.1548987dba046p+2, 0x1.8000000000000p+0, 0x1.0000000000000p+1, 0x1.552261f6e8118p+0},
    {-0x1.48a2f605360f0p+51, 0x1.3333333333333p-2, -0x1.11dd2259ad0c8p+53, 0x1.8b4f17b8425c6p-3},
    {0x1.20aa365dc9f50p+52, 0x1.8000000000000p+0, 0x1.80e2f327b7f14p+51, 0x1.0000000000000p+0},
    {0x1.d1a6c66d982f8p+49, 0x1.8000000000000p+0, 0x1.366f2ef3baca0p+49, 0x1.0000000000000p+0},
    {0x1.0430a82261b68p+53, 0x1.999999999999ap-4, 0x1.453cd22afa242p+56, 0x1.781458868be5cp-4},
    {-0x1.1186be53f1840p+48, -0x1.8000000000000p+0, 0x1.6cb3a86fecb00p+47, -0x0.0p+0},
    {0x1.21fb906a0a10ep+3, -0x1.8000000000000p+0, -0x1.c000000000000p+2, -0x1.70237cafaf790p+0},
    {-0x1.bbf7e18099060p-1, 0x1.8000000000000p+0, -0x1.0000000000000p+0, 0x1.44081e7f66fa0p-1},
    {-0x1.2bf4b9b1af353p+52, 0x1.999999999999ap-4, -0x1.76f1e81e1b027p+55, 0x1.7c9fb39389a18p-4},
    {-0x1.f34ab16997671p+2, 0x1.999999999999ap-4, -0x1.3c00000000000p+6, 0x1.93ba0c008ca46p-4},
    {0x1.1f53c3bd16bb2p+3, -0x1.2fadef4a5fefep+2, -0x1.0000000000000p+1, -0x1.05a2b8d4934c0p-1},
    {-0x1.9f8993f5edd6cp+51, 0x1.8000000000000p+0, -0x1.150662a3f3e48p+51, 0x0.0p+0},
    {0x1.e7903d953ee26p+52, -0x1.6666666666666p-1, -0x1.5c427521760f6p+53, -0x1.c97a24ba18d40p-5},
    {-0x1.d6cb6d0e13490p+52, 0x1.3333333333333p-2, -0x1.8854303665678p+54, 0x1.2c897307aee06p-2},
    {-0x1.c45947b196d50p+2, 0x1.090da52229d48p+2, -0x1.0000000000000p+1, 0x1.37080a4af3500p+0},
    {-0x1.459c422fd216ep+52, 0x1.3333333333333p-2, -0x1.0f578c7d2f131p+54, 0x1.688171a29c8fcp-4},
    {0x1.5d4a94875f92cp+1, 0x1.8ebc015e24d54p+1, 0x0.0p+0, 0x1.5d4a94875f92cp+1},
    {0x1.977756c01c080p+2, 0x1.3333333333333p-2, 0x1.5000000000000p+4, 0x1.1108e33a35344p-4},
    {-0x1.3441bea1044dap+2, -0x1.6666666666666p-1, 0x1.8000000000000p+2, -0x1.3ba78ea1bc06cp-1},
    {0x1.97a1ff9e01fd8p+51, 0x1.999999999999ap-4, 0x1.fd8a7f85827cep+54, 0x1.f799fb979c200p-11},
    {-0x1.7a66efb2c6857p+2, -0x1.8000000000000p+0, 0x1.8000000000000p+1, -0x1.699bbecb1a15cp+0},
    {0x1.8307c7572b684p+52, 0x1.999999999999ap-4, 0x1.e3c9b92cf6425p+55, 0x1.691d2426e3160p-6},
    {0x1.d1dcd7e6abc5cp+52, 0x1.8000000000000p+1, 0x1.36933a99c7d92p+51, 0x1.0000000000000p+0},
    {-0x1.7ccfd205282b4p+51, 0x1.3333333333333p-2, -0x1.3d57d9aef6cecp+53, 0x1.1aa9a8ed36e08p-2},
    {-0x1.94e31f1e51deep+51, 0x1.3333333333333p-2, -0x1.5167ef43eee48p+53, 0x1.12a339e4d3a4ap-2},
    {-0x1.b86e9dc836e28p+2, 0x1.999999999999ap-4, -0x1.1400000000000p+6, 0x1.2afbd162b7208p-6},
    {0x1.54545b6dd68e2p+52, 0x1.3333333333333p-2, 0x1.1b9ba18632cbdp+54, 0x1.6161ad1c23ca0p-6},
    {0x1.7cbce67c7e400p-6, -0x1.8000000000000p+0, -0x1.0000000000000p+0, -0x1.7a0d0c660e070p+0},
};
enum { PYTHONS = COUNT(pythons) };

static void float64_is_pythons(void **state) {
    fresh("check_kernels=on");
    double x[PYTHONS], y[PYTHONS], quotient[PYTHONS], rest[PYTHONS];
    for (int i = 0; i < PYTHONS; i++) x[i] = pythons[i][0], y[i] = pythons[i][1];
    BT_SCOPE {
        bt_array *a = bt_from(x, BT_F64, BT_SHAPE(PYTHONS)), *b = bt_from(y, BT_F64, BT_SHAPE(PYTHONS));
        OK(bt_read(bt_floor_div(a, b), quotient, sizeof quotient));
        OK(bt_read(bt_mod(a, b), rest, sizeof rest));
    }
    for (int i = 0; i < PYTHONS; i++)
        if (!same(quotient[i], pythons[i][2]) || !same(rest[i], pythons[i][3]))
            fail_msg("%a // %a is %a, not %a; %% is %a, not %a", x[i], y[i], quotient[i], pythons[i][2], rest[i],
                     pythons[i][3]);
}

static void choose_pair(int i) {
    static const float edges[] = {0,       -0.0f,    1,         -1,   INFINITY, -INFINITY, NAN,
                                  FLT_MAX, -FLT_MIN, 0x1p-149f, 1.5f, -1.5f,    10817537};
    enum { EDGES = COUNT(edges) };
    xs[i] = (float)((unit() - 0.5) * exp2((double)(word() % 60) - 20));
    ys[i] = (float)((unit() - 0.5) * exp2((double)(word() % 24) - 12));
    if (i < EDGES * EDGES) xs[i] = edges[i % EDGES], ys[i] = edges[i / EDGES];
    if (i % 3 == 1 && i >= EDGES * EDGES) { /* large quotients of short numbers, some of them whole */
        xs[i] = (float)(int32_t)(word() >> 39) * (word() & 1 ? 1.0f : -0.25f);
        ys[i] = (float)(word() % 63 + 1) / 8 * (word() & 1 ? 1.0f : -1.0f);
    }
}

static void quotients_of(bt_dtype dtype) {
    for (int i = 0; i < SOME; i++) choose_pair(i);
    BT_SCOPE {
        bt_array *x = bt_cast(bt_from(xs, BT_F32, BT_SHAPE(SOME)), dtype),
                 *y = bt_cast(bt_from(ys, BT_F32, BT_SHAPE(SOME)), dtype);
        float x_is[SOME], y_is[SOME], rest[SOME], expected[SOME], wanted[SOME], wanted_rest[SOME];
        OK(bt_read(bt_cast(x, BT_F32), x_is, sizeof x_is));
        OK(bt_read(bt_cast(y, BT_F32), y_is, sizeof y_is));
        OK(bt_read(bt_cast(bt_floor_div(x, y), BT_F32), got, sizeof got));
        OK(bt_read(bt_cast(bt_mod(x, y), BT_F32), rest, sizeof rest));
        for (int i = 0; i < SOME; i++) {
            double a = (double)x_is[i], b = (double)y_is[i];
            expected[i] = (float)(b == 0 ? a / b : python_floor_div(a, b));
            wanted_rest[i] = (float)python_mod(a, b);
        }
        OK(bt_read(bt_cast(bt_cast(bt_from(expected, BT_F32, BT_SHAPE(SOME)), dtype), BT_F32), wanted, sizeof wanted));
        OK(bt_read(bt_cast(bt_cast(bt_from(wanted_rest, BT_F32, BT_SHAPE(SOME)), dtype), BT_F32), wanted_rest,
                   sizeof wanted_rest));
        for (int i = 0; i < SOME; i++) {
            if (!same((double)got[i], (double)wanted[i]))
                fail_msg("%s: %a // %a is %a, not %a", bt_dtype_name(dtype), (double)x_is[i], (double)y_is[i],
                         (double)got[i], (double)wanted[i]);
            if (!same((double)rest[i], (double)wanted_rest[i]))
                fail_msg("%s: %a %% %a is %a, not %a", bt_dtype_name(dtype), (double)x_is[i], (double)y_is[i],
                         (double)rest[i], (double)wanted_rest[i]);
        }
    }
}

/* The settings that tests of kernels run under; under the last one OpenCL has the work, where it is there. */
static const char *const settings[] = {"check_kernels=on", "devices=sim:gpu*1", ""};

static bool begin(int setting) {
    bt_device *found;
    fresh(settings[setting]);
    if (*settings[setting]) return true;
    bool there = bt_device_find("opencl0:0", &found) == BT_OK;
    if (there)
        OK(bt_set_default_device("opencl0:0"));
    else
        print_message("skipped: %s\n", bt_error_text());
    bt_error_clear();
    return there;
}

static void small_floats_are_pythons(void **state) {
    for (int s = 0; s < COUNT(settings); s++) {
        if (!begin(s)) continue;
        BT_SCOPE
            READS(bt_floor_div(bt_f32(10817537), bt_f32(-1.5f)), -7211692);
        quotients_of(BT_F32);
        quotients_of(BT_F16);
        quotients_of(BT_BF16);
    }
}

static void integers_at_their_edges(void **state) {
    fresh("check_kernels=on");
    BT_SCOPE {
        bt_array *x = BT_ARRAY(int32_t, (6), INT32_MIN, INT32_MIN, INT32_MAX, -7, 7, 7),
                 *y = BT_ARRAY(int32_t, (6), -1, 0, 0, 2, -2, INT32_MIN);
        READS(bt_floor_div(x, y), INT32_MIN, 0, 0, -4, -4, -1);
        READS(bt_mod(x, y), 0, 0, 0, 1, -1, 7 + (double)INT32_MIN);
        bt_array *a = BT_ARRAY(int8_t, (4), -128, -128, 127, 0), *b = BT_ARRAY(int8_t, (4), -1, 0, -128, -1);
        READS(bt_floor_div(a, b), -128, 0, -1, 0);
        READS(bt_mod(a, b), 0, 0, -1, 0);
        bt_array *wide = BT_ARRAY(int64_t, (2), INT64_MIN, INT64_MIN), *by = BT_ARRAY(int64_t, (2), -1, 0);
        READS(bt_floor_div(wide, by), (double)INT64_MIN, 0);
        READS(bt_mod(wide, by), 0, 0);
    }
}

/* --- shifts ----------------------------------------------------------------------------------------------------------------- */

static void shifts_by_any_count(void **state) {
    for (int s = 0; s < COUNT(settings); s++) {
        if (!begin(s)) continue;
        BT_SCOPE {
            bt_array *x = BT_ARRAY(int8_t, (8), 1, -1, -128, 127, 3, -3, 1, -1),
                     *by = BT_ARRAY(int8_t, (8), 7, 7, 8, 8, -1, -128, 127, 1);
            READS(bt_shift_left(x, by), -128, -128, 0, 0, 0, 0, 0, -2);
            READS(bt_shift_right(x, by), 0, -1, -1, 0, 0, -1, 0, -1);
            bt_array *u = BT_ARRAY(uint16_t, (4), 1, 65535, 65535, 7),
                     *count = BT_ARRAY(uint16_t, (4), 15, 16, 65535, 1);
            READS(bt_shift_left(u, count), 32768, 0, 0, 14);
            READS(bt_shift_right(u, count), 0, 0, 0, 3);
            bt_array *w = BT_ARRAY(int64_t, (3), 1, -1, INT64_MIN), *far = BT_ARRAY(int64_t, (3), 63, 64, INT64_MIN);
            READS(bt_shift_left(w, far), (double)INT64_MIN, 0, 0);
            READS(bt_shift_right(w, far), 0, -1, -1);
            bt_array *d = BT_ARRAY(uint32_t, (3), 1, UINT32_MAX, UINT32_MAX),
                     *n = BT_ARRAY(uint32_t, (3), 31, 32, UINT32_MAX);
            READS(bt_shift_left(d, n), 2147483648.0, 0, 0);
            READS(bt_shift_right(d, n), 0, 0, 0);
            bt_array *t = BT_ARRAY(bool, (4), 0, 0, 1, 1), *f = BT_ARRAY(bool, (4), 0, 1, 0, 1);
            READS(bt_shift_left(t, f), 0, 0, 1, 0);
            READS(bt_shift_right(t, f), 0, 0, 1, 0);
            bt_array *inputs[2] = {bt_input(BT_I8, -1), bt_input(BT_I8, -1)},
                     *out = bt_shift_right(inputs[0], inputs[1]);
            bt_function *shift = bt_function_new(inputs, 2, &out, 1, NULL, 0);
            READS(bt_call1(shift, ((bt_array *[]){x, by}), 2), 0, -1, -1, 0, 0, -1, 0, -1);
        }
    }
}

/* --- activations -------------------------------------------------------------------------------------------------------------- */

typedef struct activation {
    const char *name;
    bt_array *(*of)(bt_array *x);
    long double (*exact)(long double x);
    long double (*slope)(long double x);
    double low, high, ulps, slope_ulps; /* 0: not looked at */
} activation;

static long double exact_sigmoid(long double x) { return 1 / (1 + expl(-x)); }
static long double exact_silu(long double x) { return x / (1 + expl(-x)); }
static long double silu_slope(long double x) { return exact_sigmoid(x) * (1 + x * exact_sigmoid(-x)); }
static long double exact_gelu(long double x) { return x / 2 * erfcl(-x * sqrtl(0.5L)); }
static long double gelu_slope(long double x) {
    return erfcl(-x * sqrtl(0.5L)) / 2 + x * expl(-x * x / 2) / sqrtl(2 * 3.14159265358979323846264338327950288L);
}
static long double exact_gelu_tanh(long double x) {
    return x / (1 + expl(-2 * sqrtl(2 / 3.14159265358979323846264338327950288L) * (x + 0.044715L * x * x * x)));
}
static long double exact_softplus(long double x) { return x > 0 ? x + log1pl(expl(-x)) : log1pl(expl(x)); }
static long double exact_elu(long double x) { return x > 0 ? x : expm1l(x); }
static long double elu_slope(long double x) { return x > 0 ? 1 : expl(x); }
static bt_array *elu(bt_array *x) { return bt_elu(x, 1); }

/* Where the argument is rounded on its way to an exponential, its error grows with the exponent: 2 * 25 for gelu at -7. */
static const activation activations[] = {
    {"sigmoid", (bt_sigmoid), exact_sigmoid, NULL, -103, 30, 3, 0},
    {"silu", (bt_silu), exact_silu, silu_slope, -87, 30, 4, 0},
    {"silu of subnormals", (bt_silu), exact_silu, silu_slope, -103, -87, 64, 0},
    {"gelu near", (bt_gelu), exact_gelu, NULL, -3, 8, 12, 0},
    {"gelu", (bt_gelu), exact_gelu, gelu_slope, -12.9, -3, 256, 400},
    {"gelu_tanh near", (bt_gelu_tanh), exact_gelu_tanh, NULL, -3, 8, 16, 0},
    {"gelu_tanh", (bt_gelu_tanh), exact_gelu_tanh, NULL, -9, -3, 256, 0},
    {"softplus", (bt_softplus), exact_softplus, exact_sigmoid, -103, 30, 4, 4},
    {"elu", elu, exact_elu, elu_slope, -50, 5, 2, 4},
    {"tanh", (bt_tanh), tanhl, NULL, -10, 10, 2, 0},
    {"expm1", (bt_expm1), expm1l, NULL, -80, 80, 2, 0},
    {"log1p", (bt_log1p), log1pl, NULL, -0.999, 1e6, 2, 0},
    {"erf", (bt_erf), erfl, NULL, -5, 5, 2, 0},
    {"erfc", (bt_erfc), erfcl, NULL, -4, 10, 4, 0},
};

/* In units of float32's last place at the exact value; below the least normal number, in its last place. */
static double error_of(float value, long double exact) {
    int exponent;
    (void)frexpl(exact, &exponent);
    long double unit_there = ldexpl(1, (exponent > -125 ? exponent : -125) - 24);
    return (double)(fabsl((long double)value - exact) / unit_there);
}

static void measure(const activation *a, bool slope) {
    for (int i = 0; i < SOME; i++) xs[i] = (float)(a->low + (a->high - a->low) * i / (SOME - 1));
    BT_SCOPE {
        bt_array *x = bt_from(xs, BT_F32, BT_SHAPE(SOME)), *y = a->of(x), *read = y;
        if (slope) OK(bt_grad(bt_sum(y, BT_ALL, false), &x, 1, &read));
        OK(bt_read(read, got, sizeof got));
    }
    double worst = 0, most = slope ? a->slope_ulps : a->ulps;
    float where = 0;
    for (int i = 0; i < SOME; i++) {
        double error = error_of(got[i], slope ? a->slope((long double)xs[i]) : a->exact((long double)xs[i]));
        if (!(error <= worst)) worst = error, where = xs[i];
    }
    print_message("%s%s: %.2f ulp at %.9g\n", a->name, slope ? "'s gradient" : "", worst, (double)where);
    if (!(worst <= most))
        fail_msg("%s: %.2f units in the last place at %.9g; %.2f at most", a->name, worst, (double)where, most);
}

static void activations_keep_their_digits(void **state) {
    fresh("check_kernels=on");
    for (int i = 0; i < COUNT(activations); i++) {
        measure(&activations[i], false);
        if (activations[i].slope && activations[i].slope_ulps > 0) measure(&activations[i], true);
    }
}

static void relative(double value, double exact, double most) {
    if (!(fabs(value - exact) <= most * fabs(exact))) fail_msg("%.9g, not %.9g", value, exact);
}

static void tails(void **state) {
    fresh("");
    BT_SCOPE {
        relative(bt_item(bt_gelu(bt_f32(-5))), -1.4332576e-06, 2e-6);
        relative(bt_item(bt_gelu(bt_f32(-9))), -1.015729565e-18, 2e-5);
        relative(bt_item(bt_gelu(bt_f64(-5))), -1.4332578593959731e-06, 1e-13);
        relative(bt_item(bt_silu(bt_f32(-90))), -90 * exp(-90.0), 1e-6);
        relative(bt_item(bt_silu(bt_f64(-720))), -720 * exp(-720.0), 1e-6);
        relative(bt_item(bt_sigmoid(bt_f32(-95))), exp(-95.0), 2e-5); /* subnormal */
        READS(bt_sigmoid(BT_ARRAY(float, (4), 0, INFINITY, -INFINITY, 200)), 0.5, 1, 0, 1);
        assert_true(isnan(bt_item(bt_sigmoid(bt_f32(NAN)))));
        bt_array *logits = BT_ARRAY(float, (1), 25), *sure = BT_ARRAY(float, (1), 1), *gradient = NULL;
        relative(bt_item(bt_binary_cross_entropy(logits, sure)), log1p(exp(-25.0)), 1e-6);
        relative(bt_item(bt_binary_cross_entropy(bt_neg(logits), bt_zeros(BT_F32, 1))), log1p(exp(-25.0)), 1e-6);
        relative(bt_item(bt_binary_cross_entropy(bt_neg(logits), sure)), 25 + log1p(exp(-25.0)), 1e-6);
        OK(bt_grad(bt_binary_cross_entropy(bt_neg(logits), sure), &logits, 1, &gradient));
        relative(bt_item(gradient), 1, 1e-6);
        bt_array *x = bt_f32(-6), *slope = NULL;
        OK(bt_grad(bt_gelu(x), &x, 1, &slope));
        relative(bt_item(slope), -3.5468709e-08, 2e-5);
    }
}

/* --- products of float32 with matmul_precision=bf16: large ones by rounding their inputs before ------------------------------ */

enum { SIDE = 1600, INNER = 256 };

static bt_array *factor_of(double step, int64_t rows, int64_t columns) {
    bt_array *numbers = bt_reshape(bt_arange(0, (double)(rows * columns), 1, BT_F32), rows, columns);
    return bt_sin(bt_mul(numbers, bt_num(step)));
}

/* how: 0 as they lie, 1 a transposed, 2 a batch of two that share b, 3 with an epilogue. */
static bt_array *product_of(int how, bool rounded, const char *device) {
    bt_array *a = how == 1 ? bt_transpose(factor_of(0.37, INNER, SIDE)) : factor_of(0.37, SIDE, INNER);
    bt_array *b = factor_of(0.11, INNER, SIDE);
    if (rounded) a = bt_cast(bt_cast(a, BT_BF16), BT_F32), b = bt_cast(bt_cast(b, BT_BF16), BT_F32);
    a = bt_to(a, device), b = bt_to(b, device);
    if (how == 2) a = bt_stack((bt_array *[]){a, bt_neg(a)}, 2, 0);
    bt_array *product = bt_matmul(a, b);
    return how == 3 ? bt_relu(bt_add(product, bt_num(0.5))) : product;
}

static double largest_difference(bt_array *x, bt_array *y) {
    return bt_item(bt_max(bt_abs(bt_sub(bt_to(x, "cpu:0"), bt_to(y, "cpu:0"))), BT_ALL, false));
}

static void large_products_round_their_inputs(void **state) {
    if (!on_cuda()) skip();
    for (int how = 0; how < 4; how++) {
        fresh("matmul_precision=bf16");
        BT_SCOPE {
            bt_array *product = product_of(how, false, "cuda");
            double of_rounded = largest_difference(product, product_of(how, true, "cpu:0"));
            double of_exact = largest_difference(product, product_of(how, false, "cpu:0"));
            if (!(of_rounded < 1e-4 && of_exact > 1e-3))
                fail_msg("kind %d: %g from that of rounded inputs, %g from that of exact ones", how, of_rounded,
                         of_exact);
        }
    }
}

int main(void) {
    restart_emulated();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(float64_is_pythons),
        cmocka_unit_test(small_floats_are_pythons),
        cmocka_unit_test(integers_at_their_edges),
        cmocka_unit_test(shifts_by_any_count),
        cmocka_unit_test(activations_keep_their_digits),
        cmocka_unit_test(tails),
        cmocka_unit_test(large_products_round_their_inputs),
    };
    return cmocka_run_group_tests(tests, NULL, fresh_end);
}
