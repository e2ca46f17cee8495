/* Scatters over dense arrays [outer][length][inner]: y is x at first. Sums are written here; those that set elements, or keep the greatest or
 * the smallest, combine in the same way (COMBINED).
 *     bti_scatter   y[o][index[o][i][n]][n] += z[o][i][n], for each column (o, n) in the order of i: memories y, index, z; words:
 *                   units (columns), count, inner, length. For few indices in a column
 *     bti_fold_pieces      the same with the order of c/sort.h: of the lines (o, n) of scatters with an index for each element (LINES), or of the one line of scatter_add,
 *                   whose z is [outer][count][inner]. A unit: an item of a line, for each (o, n). The items of equal keys are summed in
 *                   pieces, which end at multiples of PIECE: the first piece is added to y, the others are parts, the items of the next
 *                   launch. An item that begins a piece stands for all. Memories y, new parts, keys, order, z or parts; words: units,
 *                   items of a line, inner, count, length, elements of an item (1, of z; else PIECE to a power), and two distances: an
 *                   item is a part if the key before it by `lead` and one more is the same, and not the first piece if that before
 *                   it by `reach` and one more is
 *     bti_fold_values   as bti_fold_pieces of items that are elements, of scatter_axis if inner is 1, with values of 4 bytes in the
 *                   order of their keys: memories y, new parts, keys, values; words: units, items of a line, length, pieces of a line */
#define PIECE 64

#ifdef LINES
struct words7 {
    i64 at[7];
};
KERNEL(256) bti_scatter(MEMORY(0) MEMORY(1) MEMORY(2) const struct words7 words) {
    GLOBAL T *y = (GLOBAL T *)ADDRESS(0, 0);
    GLOBAL I *index = (GLOBAL I *)ADDRESS(1, 1);
    GLOBAL T *z = (GLOBAL T *)ADDRESS(2, 2);
    for (i64 unit = (i64)GROUP * THREADS + THREAD; unit < W(3); unit += (i64)GROUPS * THREADS) {
        const i64 o = divided(unit, W(5)), n = unit - o * W(5);
        for (i64 i = 0; i < W(4); i++) {
            i64 to = index[(o * W(4) + i) * W(5) + n];
            if (to < 0) to += W(6);
            if (to < 0 || to >= W(6)) continue;
            GLOBAL T *at = y + (o * W(6) + to) * W(5) + n;
            *at = COMBINED(*at, z[(o * W(4) + i) * W(5) + n]);
        }
    }
}
#endif

#ifdef LINES
struct words8 {
    i64 at[8];
};
KERNEL(256) bti_fold_values(MEMORY(0) MEMORY(1) MEMORY(2) MEMORY(3) const struct words8 words) {
    LOCAL_ARRAY K near_keys[256 + PIECE];
    LOCAL_ARRAY T near_values[256 + PIECE];
    GLOBAL T *y = (GLOBAL T *)ADDRESS(0, 0);
    GLOBAL T *new_parts = (GLOBAL T *)ADDRESS(1, 1);
    GLOBAL K *keys = (GLOBAL K *)ADDRESS(2, 2);
    GLOBAL T *values = (GLOBAL T *)ADDRESS(3, 3);
    const i64 units = W(4), items = W(5), length = W(6), pieces = W(7);
    for (i64 from = (i64)GROUP * 256; from < units; from += (i64)GROUPS * 256) {
        const i64 unit = from + THREAD, line = divided(unit, items), item = unit - line * items;
        for (u32 k = THREAD; k < 256 + PIECE && from + k < units; k += 256)
            near_keys[k] = keys[from + k], near_values[k] = values[from + k];
        BARRIER();
        const K key = unit < units ? near_keys[THREAD] : (K)length;
        if (key < (K)length) {
            const u32 begins = item == 0 || (THREAD ? near_keys[THREAD - 1] : keys[unit - 1]) != key;
            const u32 end = THREAD + (u32)(least(items, (item / PIECE + 1) * PIECE) - item);
            if (begins || item % PIECE == 0) {
                GLOBAL T *to = begins ? y + line * length + (i64)key : new_parts + line * pieces + item / PIECE;
                T total = near_values[THREAD];
                if (begins) total = COMBINED(*to, total);
                for (u32 k = THREAD + 1; k < end && near_keys[k] == key; k++) total = COMBINED(total, near_values[k]);
                *to = total;
            }
        }
        BARRIER();
    }
}
#endif

struct words13 {
    i64 at[13];
};

KERNEL(256) bti_fold_pieces(MEMORY(0) MEMORY(1) MEMORY(2) MEMORY(3) MEMORY(4) const struct words13 words) {
    GLOBAL T *y = (GLOBAL T *)ADDRESS(0, 0);
    GLOBAL T *new_parts = (GLOBAL T *)ADDRESS(1, 1);
    GLOBAL K *keys = (GLOBAL K *)ADDRESS(2, 2);
    GLOBAL i32 *order = (GLOBAL i32 *)ADDRESS(3, 3);
    GLOBAL T *z = (GLOBAL T *)ADDRESS(4, 4);
    const i64 items = W(6), inner = W(7), count = W(8), length = W(9), step = W(10), lead = W(11), reach = W(12);
    for (i64 unit = (i64)GROUP * THREADS + THREAD; unit < W(5); unit += (i64)GROUPS * THREADS) {
#ifdef LINES
        const i64 set = divided(unit, items), item = unit - set * items, o = divided(set, inner), n = set - o * inner;
        const i64 first = set * count, apart = 1;
#else
        const i64 row = divided(unit, inner), n = unit - row * inner, o = divided(row, items), item = row - o * items;
        const i64 first = 0, apart = inner;
#endif
        const i64 at = item * step;
        const K key = keys[first + at];
        const u32 is_part = step == 1 || (at > lead && keys[first + at - lead - 1] == key);
        const u32 begins = at <= reach || keys[first + at - reach - 1] != key;
        if (key >= (K)length || !is_part || (!begins && item % PIECE)) continue;
        const i64 to = (o * length + (i64)key) * inner + n, end = least(items, (item / PIECE + 1) * PIECE);
        T total = step > 1 ? z[unit] : z[(o * count + order[first + at]) * inner + n];
        if (begins) total = COMBINED(y[to], total);
        for (i64 i = item + 1; i < end && keys[first + i * step] == key; i++)
            total = COMBINED(total,
                             step > 1 ? z[unit + (i - item) * apart] : z[(o * count + order[first + i]) * inner + n]);
        if (begins)
            y[to] = total;
        else
#ifdef LINES
            new_parts[set * ((items + PIECE - 1) / PIECE) + item / PIECE] = total;
#else
            new_parts[(o * ((items + PIECE - 1) / PIECE) + item / PIECE) * inner + n] = total;
#endif
    }
}
