/* take, gather_axis and update_slice over dense arrays [outer][length][inner]; E is an element, or 16 bytes of them, I an index.
 *     bti_take        y[o][i][n] = x[o][index[i]][n];        memories y, x, index; words: units, count, inner, length, missing
 *     bti_take_wide   the same, inner counted in 16 bytes, missing in its 4 bytes four times
 *     bti_gather      y[o][i][n] = x[o][index[o][i][n]][n];  the same words
 *     bti_update      y[o][start + i][n] = x[o][i][n], start = index[0] moved into range;  memories y, index, x; words: units, count,
 *                     inner, length
 *     bti_update_wide the same, inner counted in 16 bytes
 * What place_of finds no place for is `missing`. A unit: an element of y; of updates, of x. */
#define EACH_UNIT for (i64 unit = (i64)GROUP * THREADS + THREAD; unit < W(units_word); unit += (i64)GROUPS * THREADS)

#ifdef TAKE
struct words8 {
    i64 at[8];
};
#define W(number) words.at[number]
enum { units_word = 3 };

#define TAKES(name, E, missing)                                                                                     \
    KERNEL(256) name(MEMORY(0) MEMORY(1) MEMORY(2) const struct words8 words) {                                     \
        GLOBAL E *y = (GLOBAL E *)ADDRESS(0, 0);                                                                    \
        GLOBAL E *x = (GLOBAL E *)ADDRESS(1, 1);                                                                    \
        GLOBAL I *index = (GLOBAL I *)ADDRESS(2, 2);                                                                \
        EACH_UNIT {                                                                                                 \
            const i64 row = divided(unit, W(5)), n = unit - row * W(5), o = divided(row, W(4)), i = row - o * W(4); \
            const i64 from = place_of(index[i], W(6));                                                              \
            if (from >= 0)                                                                                          \
                y[unit] = x[(o * W(6) + from) * W(5) + n];                                                          \
            else                                                                                                    \
                missing;                                                                                            \
        }                                                                                                           \
    }
TAKES(bti_take, E, y[unit] = (E)W(7))
#define MISSING_WIDE                               \
    do {                                           \
        uint4 all;                                 \
        all.x = all.y = all.z = all.w = (u32)W(7); \
        y[unit] = all;                             \
    } while (0)
TAKES(bti_take_wide, uint4, MISSING_WIDE)
#endif

#ifdef GATHER
struct words8 {
    i64 at[8];
};
#define W(number) words.at[number]
enum { units_word = 3 };

KERNEL(256) bti_gather(MEMORY(0) MEMORY(1) MEMORY(2) const struct words8 words) {
    GLOBAL E *y = (GLOBAL E *)ADDRESS(0, 0);
    GLOBAL E *x = (GLOBAL E *)ADDRESS(1, 1);
    GLOBAL I *index = (GLOBAL I *)ADDRESS(2, 2);
    EACH_UNIT {
        const i64 row = divided(unit, W(5)), n = unit - row * W(5), o = divided(row, W(4));
        const i64 from = place_of(index[unit], W(6));
        y[unit] = from < 0 ? (E)W(7) : x[(o * W(6) + from) * W(5) + n];
    }
}
#endif

#ifdef UPDATE
struct words7 {
    i64 at[7];
};
#define W(number) words.at[number]
enum { units_word = 3 };

FUNCTION i64 start_of(i64 index, i64 last) { return index > last ? last : index < 0 ? 0 : index; }

#define UPDATES(name, E)                                                                                            \
    KERNEL(256) name(MEMORY(0) MEMORY(1) MEMORY(2) const struct words7 words) {                                     \
        GLOBAL E *y = (GLOBAL E *)ADDRESS(0, 0);                                                                    \
        GLOBAL I *index = (GLOBAL I *)ADDRESS(1, 1);                                                                \
        GLOBAL E *x = (GLOBAL E *)ADDRESS(2, 2);                                                                    \
        const i64 start = start_of(index[0], W(6) - W(4));                                                          \
        EACH_UNIT {                                                                                                 \
            const i64 row = divided(unit, W(5)), n = unit - row * W(5), o = divided(row, W(4)), i = row - o * W(4); \
            y[(o * W(6) + start + i) * W(5) + n] = x[unit];                                                         \
        }                                                                                                           \
    }
UPDATES(bti_update, E)
UPDATES(bti_update_wide, uint4)
#endif
