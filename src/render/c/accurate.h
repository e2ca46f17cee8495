/* float32 functions for devices whose own are less accurate than the tolerances of ir/ops.def: docs/decisions/0020. Products and sums are
 * rounded one by one: the compiler must not contract them. */

/* 2**h * 2**h * e**r for x = 2h log(2) + r: the last product alone is rounded to a subnormal number. From -104 down all is 0. */
FUNCTION f32 exp_accurate(f32 x) {
    x = x < -104 ? -104 : x;
    f32 t = fmin(fma(x, 0.72134752f, 12583039.0f), 12583104.0f), h = t - 12583039.0f; /* 1.5 * 2**23 + 127 */
    f32 r = fma(h, -2.85721364e-06f, fma(h, -1.3862915f, x)), p = 0.000196115942f;
    p = fma(p, r, 0.00141044736f), p = fma(p, r, 0.00833610327f), p = fma(p, r, 0.0416612682f);
    p = fma(p, r, 0.166666141f), p = fma(p, r, 0.500000346f), p = fma(p, r, 1.0f), p = fma(p, r, 1.0f);
    f32 scale = f32_of_bits(bits_of_f32(t) << 23);
    return p * scale * scale;
}

FUNCTION f32 sigmoid_accurate(f32 x) {
    f32 e = exp_accurate(-fabs(x));
    return (x < 0 ? e : 1) / (1 + e);
}

FUNCTION f32 tanh_accurate(f32 x) {
    f32 a = fabs(x), z = x * x, p = 0.0207959718f;
    p = fma(fma(-0.00589515826f, z, p), z, -0.0537838303f);
    p = fma(p, z, 0.133319241f), p = fma(p, z, -0.33333298f);
    return copysign(a < 0.6f ? fma(a * z, p, a) : 1 - 2 / (exp_accurate(2 * a) + 1), x);
}

FUNCTION f32 tan_accurate(f32 x) {
    if (!(fabs(x) < 100000)) return (f32)tan((f64)x);
    f64 turns = rint((f64)x * 0.63661977236758134), rest = fma(-turns, 1.5707963267948966, (f64)x);
    rest = fma(-turns, 6.123233995736766e-17, rest);
    f32 r = (f32)rest, s = r * r, p = 0.00436113619f;
    p = fma(p, s, 0.000120870223f), p = fma(p, s, 0.0108106921f), p = fma(p, s, 0.0212919484f);
    p = fma(p, s, 0.054058048f), p = fma(p, s, 0.133326789f), p = fma(p, s, 0.333333494f);
    f32 more = fma(r * s, p, (f32)(rest - (f64)r) * fma(r, r, 1.0f)), t = r + more;
    if (!((i32)turns & 1)) return r == 0 ? x : t;
    f32 inverse = -1 / t, left = fma(inverse, t, 1.0f) + inverse * ((r - t) + more);
    return fma(inverse, left, inverse);
}

FUNCTION f32 asin_accurate(f32 x) {
    f32 a = fabs(x), far = a > 0.5f, z = far ? (1 - a) * 0.5f : x * x, s = far ? sqrt(z) : a, p = 0.0374409987f;
    p = fma(p, z, 0.0144919721f), p = fma(p, z, 0.0317939191f), p = fma(p, z, 0.0445185239f);
    p = fma(p, z, 0.0750049693f), p = fma(p, z, 0.166666601f);
    f32 more = s * z * p;
    if (!far) return x == 0 ? x : copysign(s + more, x);
    if (s > 0) more += fma(-s, s, z) / (2 * s);
    return copysign(1.57079637f - (2 * s + (2 * more + 4.37113883e-08f)), x);
}

/* |x| ** y of finite numbers, not 0: the logarithm to base 2 in two float32, then the power of 2. */
FUNCTION f32 power_of_magnitude(f32 x, f32 y) {
    i32 exponent = 0;
    if (x < 1.17549435e-38f) x *= 16777216, exponent = -24;
    i32 bits = (i32)bits_of_f32(x), octave = (bits - 0x3f3504f3) >> 23;
    exponent += octave;
    f32 m = f32_of_bits((u32)(bits - octave * (1 << 23))), f = m - 1, g = m + 1, back = g - 1;
    f32 g_low = (m - back) + (1 - (g - back));
    f32 s = f / g, s_low = (fma(-s, g, f) - s * g_low) / g; /* log(m) is 2 atanh(s) */
    f32 z = s * s, z_low = fma(s, s, -z) + 2 * s * s_low, q = 0.0973797892f;
    q = fma(q, z, 0.110922421f), q = fma(q, z, 0.142859425f), q = fma(q, z, 0.199999991f);
    f32 p = z * 0.333333343f,
        p_low = fma(z, 0.333333343f, -p) + (z * -9.93410776e-09f + z_low * 0.333333343f) + z * z * q;
    f32 t = s * p, t_low = fma(s, p, -t) + s * p_low + s_low * (1 + p);
    f32 w = s + t, w_low = (s - w) + t + t_low;
    f32 v = w * 2.88539004f, v_low = fma(w, 2.88539004f, -v) + (w * 3.85192607e-08f + w_low * 2.88539004f);
    f32 whole = (f32)exponent, log = whole + v, log_low = exponent ? (whole - log) + v + v_low : v_low;
    f32 e = y * log;
    if (!(e < 130)) return f32_of_bits(0x7f800000);
    if (e < -152) return 0;
    f32 n = rint(e), rest = (e - n) + (fma(y, log, -e) + y * log_low), r = 1.51658112e-05f;
    r = fma(r, rest, 0.000154669181f), r = fma(r, rest, 0.00133340799f), r = fma(r, rest, 0.00961803752f);
    r = fma(r, rest, 0.0555041016f), r = fma(r, rest, 0.240226511f), r = fma(r, rest, 0.693147181f);
    i32 scale = (i32)n, half_scale = scale >> 1;
    return fma(r, rest, 1.0f) * f32_of_bits((u32)(127 + half_scale) << 23) *
           f32_of_bits((u32)(127 + scale - half_scale) << 23);
}

FUNCTION f32 pow_accurate(f32 x, f32 y) {
    const f32 infinity = f32_of_bits(0x7f800000), a = fabs(x), b = fabs(y);
    if (x == 1 || y == 0) return 1;
    if (x != x || y != y) return x + y;
    u32 whole = b >= 8388608 || rint(b) == b, odd = b < 16777216 && whole && ((i32)b & 1);
    f32 power;
    if (b == infinity)
        power = a == 1 ? 1 : (a > 1) == (y > 0) ? infinity : 0;
    else if (a == 0 || a == infinity)
        power = (a == 0) == (y > 0) ? 0 : infinity;
    else if (x < 0 && !whole)
        return (x - x) / 0.0f;
    else
        power = power_of_magnitude(a, y);
    return odd && bits_of_f32(x) >> 31 ? -power : power;
}

FUNCTION f32 erfc_accurate(f32 x) { return (f32)erfc((f64)x); }
