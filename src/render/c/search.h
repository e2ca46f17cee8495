/* argmax and argmin over dense arrays [outer][length][inner]: the first of the greatest keys, by 32 lanes for each chunk.
 *     bti_best      memories x, keys (u64), places (i64), a pair per line and chunk; words: units (lines x chunks), length,
 *                   inner, points of a chunk, chunks
 *     bti_best_of   memories y (i32), keys, places; words: units (lines), chunks */
struct words8 {
    i64 at[8];
};
struct words5 {
    i64 at[5];
};
#define W(number) words.at[number]
#define LANES_BEGIN const i32 lane = (i32)(THREAD & 31);
#define EACH_UNIT \
    for (i64 unit = (i64)GROUP * (THREADS / 32) + THREAD / 32; unit < W(3); unit += (i64)GROUPS * (THREADS / 32))
#define BEST_OF_LANES                                                                                  \
    for (i32 by = 16; by; by /= 2) {                                                                   \
        FROM_FURTHER(u64, other, best, by);                                                            \
        FROM_FURTHER(i64, other_place, place, by);                                                     \
        if (other > best || (other == best && other_place < place)) best = other, place = other_place; \
    }
#define NOWHERE 9223372036854775807l

KERNEL(LANE_THREADS) bti_best(MEMORY(0) MEMORY(1) MEMORY(2) const struct words8 words) {
    EXCHANGE_BEGIN
    LANES_BEGIN
    GLOBAL T *x = (GLOBAL T *)ADDRESS(0, 0);
    GLOBAL u64 *keys = (GLOBAL u64 *)ADDRESS(1, 1);
    GLOBAL i64 *places = (GLOBAL i64 *)ADDRESS(2, 2);
    EACH_UNIT {
        const i64 line = divided(unit, W(7)), begin = (unit - line * W(7)) * W(6), end = least(begin + W(6), W(4));
        const i64 o = divided(line, W(5)), n = line - o * W(5);
        u64 best = 0;
        i64 place = NOWHERE;
        for (i64 i = begin + lane; i < end; i += 32) {
            u64 key = KEY(x[(o * W(4) + i) * W(5) + n]);
#ifdef LEAST
            key = key == LAST_KEY && IS_REAL ? key : LAST_KEY - IS_REAL - key;
#endif
            if (key > best || place == NOWHERE) best = key, place = i;
        }
        BEST_OF_LANES
        if (lane == 0) keys[unit] = best, places[unit] = place;
    }
}

KERNEL(LANE_THREADS) bti_best_of(MEMORY(0) MEMORY(1) MEMORY(2) const struct words5 words) {
    EXCHANGE_BEGIN
    LANES_BEGIN
    GLOBAL i32 *y = (GLOBAL i32 *)ADDRESS(0, 0);
    GLOBAL u64 *keys = (GLOBAL u64 *)ADDRESS(1, 1);
    GLOBAL i64 *places = (GLOBAL i64 *)ADDRESS(2, 2);
    EACH_UNIT {
        u64 best = 0;
        i64 place = NOWHERE;
        for (i64 c = lane; c < W(4); c += 32) {
            const u64 key = keys[unit * W(4) + c];
            if (key > best || place == NOWHERE) best = key, place = places[unit * W(4) + c];
        }
        BEST_OF_LANES
        if (lane == 0) y[unit] = (i32)place;
    }
}
