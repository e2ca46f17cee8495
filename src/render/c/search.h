/* argmax and argmin over dense arrays [outer][length][inner]: the first of the greatest keys. `lanes` threads (a power of two) search a
 * chunk of a line; one thread does where lines lie side by side.
 *     bti_best      memories keys (K), places (i32), x; words: units (outer x chunks x inner), length, inner, points of a chunk, chunks,
 *                   lanes. A line of one chunk has its result in places, and no key is written
 *     bti_best_of   memories y (i32), keys, places: of [outer][chunks][inner]; words: units (lines), inner, chunks, lanes */
#define EACH 8 /* elements that a thread loads before it uses the first */
struct words9 {
    i64 at[9];
};
struct words7 {
    i64 at[7];
};
#define W(number) words.at[number]
#define NOWHERE 2147483647
#define BEST_BEGIN(first_word, lanes_word) \
    LOCAL_ARRAY K keys_of[256];            \
    LOCAL_ARRAY i32 places_of[256];        \
    const i64 units = W(first_word);       \
    const i32 lanes = (i32)W(lanes_word), lane = (i32)THREAD % lanes, at_once = 256 / lanes
/* The last threads repeat the last unit, and store nothing. */
#define EACH_UNIT for (i64 first = (i64)GROUP * at_once; first < units; first += (i64)GROUPS * at_once)
#define UNIT_BEGIN                               \
    const i64 own = first + (i32)THREAD / lanes; \
    const i64 unit = least(own, units - 1);      \
    K best = 0;                                  \
    i32 place = NOWHERE
/* Places come in ascending order. */
#define CONSIDER(of, at)                                                \
    {                                                                   \
        const K key = of;                                               \
        const i32 better = key > best || place == NOWHERE;              \
        best = better ? key : best, place = better ? (i32)(at) : place; \
    }
/* LOAD(e, i) for each i of the lane, EACH at a time, then USE(e, i). */
#define EACH_OF_LANE(LOAD, USE)                                                                  \
    i32 i = lane;                                                                                \
    for (; i + (EACH - 1) * lanes <= last; i += EACH * lanes) {                                  \
        UNROLL for (i32 e = 0; e < EACH; e++) LOAD(e, i + e * lanes);                            \
        UNROLL for (i32 e = 0; e < EACH; e++) USE(e, i + e * lanes);                             \
    }                                                                                            \
    UNROLL for (i32 e = 0; e < EACH - 1; e++) if (i + e * lanes <= last) LOAD(e, i + e * lanes); \
    UNROLL for (i32 e = 0; e < EACH - 1; e++) if (i + e * lanes <= last) USE(e, i + e * lanes)
/* The first lane has the best of its lanes. */
#define BEST_OF_LANES                                                                                  \
    for (i32 by = lanes / 2; by; by /= 2) {                                                            \
        keys_of[THREAD] = best, places_of[THREAD] = place;                                             \
        BARRIER();                                                                                     \
        const K other = keys_of[(THREAD + (u32)by) & 255];                                             \
        const i32 other_place = places_of[(THREAD + (u32)by) & 255];                                   \
        BARRIER();                                                                                     \
        if (other > best || (other == best && other_place < place)) best = other, place = other_place; \
    }

FUNCTION K order_of(T x) {
    const K key = KEY(x);
#ifdef LEAST
    return key == (K)LAST_KEY && IS_REAL ? key : (K)LAST_KEY - IS_REAL - key;
#else
    return key;
#endif
}

KERNEL(256) bti_best(MEMORY(0) MEMORY(1) MEMORY(2) const struct words9 words) {
    BEST_BEGIN(3, 8);
    GLOBAL K *keys = (GLOBAL K *)ADDRESS(0, 0);
    GLOBAL i32 *places = (GLOBAL i32 *)ADDRESS(1, 1);
    GLOBAL T *x = (GLOBAL T *)ADDRESS(2, 2);
    const i64 length = W(4), inner = W(5), chunk = W(6), chunks = W(7);
    EACH_UNIT {
        UNIT_BEGIN;
        const i64 row = divided(unit, inner), n = unit - row * inner, o = divided(row, chunks),
                  begin = (row - o * chunks) * chunk;
        const i32 last = (i32)(least(chunk, length - begin) - 1);
        GLOBAL T *from = x + (o * length + begin) * inner + n;
        T next[EACH];
#define LOAD_ELEMENT(e, i) next[e] = from[(i)*inner]
#define USE_ELEMENT(e, i) CONSIDER(order_of(next[e]), i)
        EACH_OF_LANE(LOAD_ELEMENT, USE_ELEMENT);
        BEST_OF_LANES
        if (lane == 0 && own < units) {
            if (chunks > 1) keys[unit] = best;
            places[unit] = (i32)begin + place;
        }
    }
}

KERNEL(256) bti_best_of(MEMORY(0) MEMORY(1) MEMORY(2) const struct words7 words) {
    BEST_BEGIN(3, 6);
    GLOBAL i32 *y = (GLOBAL i32 *)ADDRESS(0, 0);
    GLOBAL K *keys = (GLOBAL K *)ADDRESS(1, 1);
    GLOBAL i32 *places = (GLOBAL i32 *)ADDRESS(2, 2);
    const i64 inner = W(4);
    const i32 last = (i32)W(5) - 1;
    EACH_UNIT {
        UNIT_BEGIN;
        const i64 o = divided(unit, inner), from = o * last * inner + unit; /* o * chunks * inner + n */
        K next[EACH];
        i32 next_place[EACH];
#define LOAD_PAIR(e, i) next[e] = keys[from + (i)*inner], next_place[e] = places[from + (i)*inner]
#define USE_PAIR(e, i) CONSIDER(next[e], next_place[e])
        EACH_OF_LANE(LOAD_PAIR, USE_PAIR);
        BEST_OF_LANES
        if (lane == 0 && own < units) y[unit] = place;
    }
}
