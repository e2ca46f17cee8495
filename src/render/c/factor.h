/* Around linear algebra by a library of CUDA's. Numbers are of the type R; an element is one, or two of complex ones (`parts`). Two flags of each matrix, flags[b] and flags[batch + b], say
 * that it has no result.
 *     bti_factor_check        flags[batch + b] is set where one of `count` numbers of x, `step` apart, is NaN, or, if `finite`, infinite: memories flags, x; words: units (batch x
 *                             count), batch, count, step, numbers from one matrix to the next, finite
 *     bti_factor_store        y [batch, rows, columns] of elements of x: memories y, x, flags; words: units, batch, rows, columns, steps of rows, columns and matrices, parts,
 *                             half (1: above the diagonal, 2: below it there are zeros), what matrices without a result become (0: zeros, 1: NaN), whether elements are conjugated.
 *                             y may be x, with its steps
 *     bti_factor_determinant  of a = P L U, of which the diagonal of U and P are read: memories y, logarithm, lu, pivots; words: units (matrices), n, parts, whether the sign and the
 *                             logarithm are wanted, whether pivots have 32 bits. As drivers/cpu/product/lapack.c does it
 *     bti_factor_pointers     of each matrix of a and b the address: memories pointers, a, b; words: units (matrices), bytes from one matrix of a to the next, and of b */
#define W(number) words.at[number]
struct words6 {
    i64 at[6];
};
struct words8 {
    i64 at[8];
};
struct words9 {
    i64 at[9];
};
struct words14 {
    i64 at[14];
};
#define EACH_UNIT(count) for (i64 unit = (i64)GROUP * THREADS + THREAD; unit < (count); unit += (i64)GROUPS * THREADS)

KERNEL(256) bti_factor_check(const struct words8 words) {
    u32 *flags = (u32 *)ADDRESS(0, 0);
    const R *x = (const R *)ADDRESS(1, 1);
    EACH_UNIT(W(2)) {
        const i64 matrix = divided(unit, W(4)), number = unit - matrix * W(4);
        const R value = x[matrix * W(6) + number * W(5)];
        if (value != value || (W(7) && value - value != 0)) atomicOr(&flags[W(3) + matrix], 1u);
    }
}

KERNEL(256) bti_factor_store(const struct words14 words) {
    R *y = (R *)ADDRESS(0, 0);
    const R *x = (const R *)ADDRESS(1, 1);
    const u32 *flags = (const u32 *)ADDRESS(2, 2);
    EACH_UNIT(W(3)) {
        const i64 line = divided(unit, W(6)), column = unit - line * W(6), matrix = divided(line, W(5)),
                  row = line - matrix * W(5);
        const i64 from = matrix * W(9) + row * W(7) + column * W(8), parts = W(10);
        const u32 failed = flags[matrix] | flags[W(4) + matrix];
        const u32 zero = (W(11) == 1 && column > row) || (W(11) == 2 && column < row) || (failed && !W(12));
        if (!failed && !zero && y == x && !W(13)) continue;
        for (i64 part = 0; part < parts; part++) {
            R value = 0;
            if (failed && W(12))
                value = (R)NOT_A_NUMBER;
            else if (!zero)
                value = x[from * parts + part];
            y[unit * parts + part] = part && W(13) ? -value : value;
        }
    }
}

FUNCTION f64 next_sign(f64 sign, f64 x) { return x != x ? x : x < 0 ? -sign : x > 0 ? sign : 0; }

KERNEL(256) bti_factor_determinant(const struct words9 words) {
    R *y = (R *)ADDRESS(0, 0);
    R *logarithm = (R *)ADDRESS(1, 1);
    const R *lu = (const R *)ADDRESS(2, 2);
    const i64 *pivots = (const i64 *)ADDRESS(3, 3);
    const i32 *short_pivots = (const i32 *)pivots;
    const i64 n = W(5), parts = W(6);
    EACH_UNIT(W(4)) {
        f64 re = 1, im = 0, sum = 0;
        u32 odd = 0;
        for (i64 k = 0; k < n; k++) odd ^= (W(8) ? short_pivots[unit * n + k] : pivots[unit * n + k]) != k + 1;
        for (i64 k = 0; k < n; k++) {
            const R *at = lu + (unit * n + k) * n * parts + k * parts;
            f64 x = at[0], z = parts == 2 ? at[1] : 0;
            if (odd && !k) x = -x, z = -z;
            if (!W(7) && parts == 1) {
                re *= x;
                continue;
            }
            if (W(7)) {
                const f64 size = parts == 2 ? hypot(x, z) : fabs(x);
                sum += log(size);
                if (parts == 1) {
                    re = next_sign(re, x);
                    continue;
                }
                if (size != 0) x /= size, z /= size;
            }
            const f64 old = re;
            re = old * x - im * z, im = old * z + im * x;
        }
        y[unit * parts] = (R)re;
        if (parts == 2) y[unit * parts + 1] = (R)im;
        if (W(7)) logarithm[unit] = (R)sum;
    }
}

KERNEL(256) bti_factor_pointers(const struct words6 words) {
    u64 *pointers = (u64 *)ADDRESS(0, 0);
    EACH_UNIT(W(3)) {
        pointers[unit] = (u64)(ADDRESS(1, 1) + unit * W(4));
        pointers[W(3) + unit] = (u64)(ADDRESS(2, 2) + unit * W(5));
    }
}
