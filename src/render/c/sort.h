/* argsort over dense arrays [outer][length][inner], by merging ever longer runs, and scatter_add with the order it gives.
 * A line is number o * inner + n; keys and orders of lines lie one after the other.
 *     bti_keys    memories x, keys (u64), order (i32); words: units (elements), length, inner
 *     bti_merge   runs of `width` two by two: memories keys, order, new keys, new order; words: units, length, width
 *     bti_order   memories y (i32), order; words: units, length, inner
 *     bti_rows    keys are the indices (I) of rows, those out of range last: memories index, keys, order; words: units, rows
 *     bti_add     y[o][row][n] += z[o][order[j]][n] for the j whose key is row, in order: memories y, z, keys, order;
 *                 words: units (elements of y), rows, inner, count of indices */
#define EACH_UNIT for (i64 unit = (i64)GROUP * THREADS + THREAD; unit < W(units_word); unit += (i64)GROUPS * THREADS)
#define W(number) words.at[number]

struct words5 {
    i64 at[5];
};
struct words6 {
    i64 at[6];
};
struct words7 {
    i64 at[7];
};
struct words8 {
    i64 at[8];
};

/* How many of keys[0..count - 1], which ascend, are below a key; or, with equals, at most it. */
FUNCTION i64 count_below(GLOBAL u64 *keys, i64 count, u64 key, u32 equals) {
    i64 low = 0;
    while (low < count) {
        const i64 middle = (low + count) / 2;
        const u64 other = keys[middle];
        if (other < key || (equals && other == key))
            low = middle + 1;
        else
            count = middle;
    }
    return low;
}

#define units_word 4
KERNEL(256) bti_merge(MEMORY(0) MEMORY(1) MEMORY(2) MEMORY(3) const struct words7 words) {
    GLOBAL u64 *keys = (GLOBAL u64 *)ADDRESS(0, 0);
    GLOBAL i32 *order = (GLOBAL i32 *)ADDRESS(1, 1);
    GLOBAL u64 *new_keys = (GLOBAL u64 *)ADDRESS(2, 2);
    GLOBAL i32 *new_order = (GLOBAL i32 *)ADDRESS(3, 3);
    EACH_UNIT {
        const i64 line = divided(unit, W(5)), i = unit - line * W(5), first = line * W(5), width = W(6);
        const i64 begin = divided(i, 2 * width) * (2 * width), middle = least(begin + width, W(5));
        const i64 end = least(begin + 2 * width, W(5));
        const u64 key = keys[unit];
        const i64 to =
            first + (i < middle ? i + count_below(keys + first + middle, end - middle, key, 0)
                                : i - middle + begin + count_below(keys + first + begin, middle - begin, key, 1));
        new_keys[to] = key;
        new_order[to] = order[unit];
    }
}
#undef units_word

#ifdef SORT
#define units_word 3
KERNEL(256) bti_keys(MEMORY(0) MEMORY(1) MEMORY(2) const struct words6 words) {
    GLOBAL T *x = (GLOBAL T *)ADDRESS(0, 0);
    GLOBAL u64 *keys = (GLOBAL u64 *)ADDRESS(1, 1);
    GLOBAL i32 *order = (GLOBAL i32 *)ADDRESS(2, 2);
    EACH_UNIT {
        const i64 line = divided(unit, W(4)), i = unit - line * W(4), o = divided(line, W(5)), n = line - o * W(5);
        keys[unit] = KEY(x[(o * W(4) + i) * W(5) + n]);
        order[unit] = (i32)i;
    }
}
#undef units_word

#define units_word 2
KERNEL(256) bti_order(MEMORY(0) MEMORY(1) const struct words5 words) {
    GLOBAL i32 *y = (GLOBAL i32 *)ADDRESS(0, 0);
    GLOBAL i32 *order = (GLOBAL i32 *)ADDRESS(1, 1);
    EACH_UNIT {
        const i64 line = divided(unit, W(3)), i = unit - line * W(3), o = divided(line, W(4)), n = line - o * W(4);
        y[(o * W(3) + i) * W(4) + n] = order[unit];
    }
}
#undef units_word
#endif

#ifdef ADD
#define units_word 3
KERNEL(256) bti_rows(MEMORY(0) MEMORY(1) MEMORY(2) const struct words5 words) {
    GLOBAL I *index = (GLOBAL I *)ADDRESS(0, 0);
    GLOBAL u64 *keys = (GLOBAL u64 *)ADDRESS(1, 1);
    GLOBAL i32 *order = (GLOBAL i32 *)ADDRESS(2, 2);
    EACH_UNIT {
        i64 row = index[unit];
        if (row < 0) row += W(4);
        keys[unit] = row >= 0 && row < W(4) ? (u64)row : (u64)W(4);
        order[unit] = (i32)unit;
    }
}
#undef units_word

#define units_word 4
KERNEL(256) bti_add(MEMORY(0) MEMORY(1) MEMORY(2) MEMORY(3) const struct words8 words) {
    GLOBAL T *y = (GLOBAL T *)ADDRESS(0, 0);
    GLOBAL T *z = (GLOBAL T *)ADDRESS(1, 1);
    GLOBAL u64 *keys = (GLOBAL u64 *)ADDRESS(2, 2);
    GLOBAL i32 *order = (GLOBAL i32 *)ADDRESS(3, 3);
    EACH_UNIT {
        const i64 line = divided(unit, W(6)), n = unit - line * W(6), o = divided(line, W(5)), row = line - o * W(5);
        i64 j = count_below(keys, W(7), (u64)row, 0);
        if (j >= W(7) || keys[j] != (u64)row) continue;
        T total = y[unit];
        for (; j < W(7) && keys[j] == (u64)row; j++) total = ADDED(total, z[(o * W(7) + order[j]) * W(6) + n]);
        y[unit] = total;
    }
}
#undef units_word
#endif
