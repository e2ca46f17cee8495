/* The stable order of lines of unsigned keys (K, of K_BYTES) after c/scan.h, SUM being u32: of elements (SORT: argsort), or of indices
 * of rows (scatters, c/scatter.h), those out of range last. Lines are contiguous.
 *     bti_sort_lines   lines of at most TILE elements, several for a group, by merging ever longer runs in local memory: memories order,
 *                      x or index, sorted keys (scatters only); words: units (lines), length, lines at once, rows
 * Longer lines by radix, 8 bits a pass, in chunks of whole tiles that sizes alone decide:
 *     bti_keys         memories keys, x or index; words: units (elements), rows
 *     bti_count        how often each digit occurs: memories counts [line][chunk][digit], keys; words: units (lines x chunks), length,
 *                      chunks, elements of a chunk, shift. There is one more chunk, of zeros; bti_offsets of c/scan.h follows
 *     bti_sort_tiles         memories new keys, new order, counts, keys, order; words: the same, whether there is no order yet, whether new
 *                      keys are wanted. A group sorts a tile by digit in local memory, and writes it in runs of one digit each */
#define EACH (K_BYTES == 8 ? 4 : 8)
#define TILE (EACH * 256)
#define SLOT(i) ((i) + (i) / EACH)  /* threads that have EACH elements one after the other meet no bank twice */
#define COUNTER(i) ((i) + (i) / 16) /* likewise of 16 */
#define DIGIT(key) ((u32)((key) >> shift) & 255)
#define HALF_DIGIT(key, at_bit) ((u32)((key) >> (at_bit)) & 15)

struct words4 {
    i64 at[4];
};
struct words7 {
    i64 at[7];
};
struct words12 {
    i64 at[12];
};

#ifdef SORT
#define SOURCE T
#define KEY_AT(i, rows) KEY(x[i])
#else
#define SOURCE I
#define KEY_AT(i, rows) key_of_row(x[i], rows)
FUNCTION K key_of_row(i64 row, i64 rows) {
    if (row < 0) row += rows;
    return (K)(row >= 0 && row < rows ? row : rows);
}
#endif

/* --- short lines ---------------------------------------------------------------------------------------------------- */

/* How many of keys[0..count - 1], which ascend, are below a key; or, with equals, at most it. */
FUNCTION u32 count_below(LOCAL K *keys, u32 count, K key, u32 equals) {
    u32 low = 0;
    while (low < count) {
        const u32 middle = (low + count) / 2;
        const K other = keys[middle];
        if (other < key || (equals && other == key))
            low = middle + 1;
        else
            count = middle;
    }
    return low;
}

/* Where element i of a line goes when runs of `width` are merged two by two. */
FUNCTION u32 merged_place(LOCAL K *line, u32 i, u32 length, u32 width) {
    const u32 begin = i & ~(2 * width - 1), middle = (u32)least(begin + width, length);
    const u32 end = (u32)least(begin + 2 * width, length);
    return i < middle ? i + count_below(line + middle, end - middle, line[i], 0)
                      : i - middle + begin + count_below(line + begin, middle - begin, line[i], 1);
}

/* Where it goes when runs of RUN are sorted from nothing. */
#define RUN 16
FUNCTION u32 place_in_run(LOCAL K *line, u32 i, u32 length) {
    const u32 begin = i & ~(u32)(RUN - 1), end = (u32)least(begin + RUN, length);
    const K key = line[i];
    u32 place = begin;
    for (u32 k = begin; k < i; k++) place += line[k] <= key;
    for (u32 k = i + 1; k < end; k++) place += line[k] < key;
    return place;
}

#define EACH_PLACE(i) for (u32 e = 0, i = THREAD; e < EACH && i < count; e++, i += 256)

KERNEL(256) bti_sort_lines(MEMORY(0) MEMORY(1) MEMORY(2) const struct words7 words) {
    LOCAL_ARRAY K keys[TILE];
    LOCAL_ARRAY u16 from[TILE];
    GLOBAL i32 *order = (GLOBAL i32 *)ADDRESS(0, 0);
    GLOBAL SOURCE *x = (GLOBAL SOURCE *)ADDRESS(1, 1);
    const u32 length = (u32)W(4);
    for (i64 first = (i64)GROUP * W(5); first < W(3); first += (i64)GROUPS * W(5)) {
        const u32 count = (u32)least(W(5), W(3) - first) * length;
        K key[EACH];
        u32 to[EACH], line[EACH];
        u16 own[EACH];
        EACH_PLACE(i) {
            line[e] = i / length * length;
            keys[i] = KEY_AT(first * length + i, W(6));
            from[i] = (u16)(i - line[e]);
        }
        BARRIER();
        for (u32 width = RUN / 2; width < length || width < RUN; width *= 2) {
            EACH_PLACE(i) {
                LOCAL K *own_line = keys + line[e];
                key[e] = keys[i], own[e] = from[i];
                to[e] = line[e] + (width < RUN ? place_in_run(own_line, i - line[e], length)
                                               : merged_place(own_line, i - line[e], length, width));
            }
            BARRIER();
            EACH_PLACE(i) keys[to[e]] = key[e], from[to[e]] = own[e];
            BARRIER();
        }
        EACH_PLACE(i) order[first * length + i] = from[i];
#ifndef SORT
        GLOBAL K *sorted = (GLOBAL K *)ADDRESS(2, 2);
        EACH_PLACE(i) sorted[first * length + i] = keys[i];
#endif
        BARRIER();
    }
}

/* --- long lines ----------------------------------------------------------------------------------------------------- */

KERNEL(256) bti_keys(MEMORY(0) MEMORY(1) const struct words4 words) {
    GLOBAL K *keys = (GLOBAL K *)ADDRESS(0, 0);
    GLOBAL SOURCE *x = (GLOBAL SOURCE *)ADDRESS(1, 1);
    for (i64 i = (i64)GROUP * THREADS + THREAD; i < W(2); i += (i64)GROUPS * THREADS) keys[i] = KEY_AT(i, W(3));
}

#define SORT_WORDS(first_word)                                                               \
    const i64 units = W(first_word), length = W(first_word + 1), chunks = W(first_word + 2), \
              chunk = W(first_word + 3);                                                     \
    const u32 shift = (u32)W(first_word + 4)
#define CHUNK_BEGIN                                                                                          \
    const i64 line = divided(unit, chunks), c = unit - line * chunks, set = (line * (chunks + 1) + c) * 256; \
    const i64 begin = c * chunk, end = least(begin + chunk, length)

KERNEL(256) bti_count(MEMORY(0) MEMORY(1) const struct words7 words) {
    LOCAL_ARRAY u32 here[256];
    GLOBAL u32 *counts = (GLOBAL u32 *)ADDRESS(0, 0);
    GLOBAL K *keys = (GLOBAL K *)ADDRESS(1, 1);
    SORT_WORDS(2);
    for (i64 unit = GROUP; unit < units; unit += GROUPS) {
        CHUNK_BEGIN;
        here[THREAD] = 0;
        BARRIER();
        for (i64 i = begin + THREAD; i < end; i += 256) LOCAL_INCREMENT(&here[DIGIT(keys[line * length + i])]);
        BARRIER();
        counts[set + THREAD] = here[THREAD];
        if (c == 0) counts[set + chunks * 256 + THREAD] = 0;
        BARRIER();
    }
}

/* Sorts a tile by 4 bits of its keys. A thread has EACH elements one after the other, and a counter for each digit. */
#define SORT_TILE(at_bit)                                                                               \
    {                                                                                                   \
        K key[EACH];                                                                                    \
        i32 own_order[EACH];                                                                            \
        u32 rank[EACH], sum = 0;                                                                        \
        UNROLL                                                                                          \
        for (u32 d = 0; d < 16; d++) counter[COUNTER(d * 256 + THREAD)] = 0;                            \
        UNROLL                                                                                          \
        for (u32 e = 0; e < EACH; e++) {                                                                \
            key[e] = tile[SLOT(THREAD * EACH + e)], own_order[e] = tile_order[SLOT(THREAD * EACH + e)]; \
            rank[e] = counter[COUNTER(HALF_DIGIT(key[e], at_bit) * 256 + THREAD)]++;                    \
        }                                                                                               \
        BARRIER();                                                                                      \
        UNROLL                                                                                          \
        for (u32 d = 0; d < 16; d++) sum += counter[COUNTER(THREAD * 16 + d)];                          \
        SUM_BEFORE(before, sum, 256);                                                                   \
        UNROLL                                                                                          \
        for (u32 d = 0; d < 16; d++) {                                                                  \
            const u32 own = counter[COUNTER(THREAD * 16 + d)];                                          \
            counter[COUNTER(THREAD * 16 + d)] = (u16)before;                                            \
            before += own;                                                                              \
        }                                                                                               \
        BARRIER();                                                                                      \
        UNROLL                                                                                          \
        for (u32 e = 0; e < EACH; e++) {                                                                \
            const u32 to = counter[COUNTER(HALF_DIGIT(key[e], at_bit) * 256 + THREAD)] + rank[e];       \
            tile[SLOT(to)] = key[e], tile_order[SLOT(to)] = own_order[e];                               \
        }                                                                                               \
        BARRIER();                                                                                      \
    }

KERNEL(256) bti_sort_tiles(MEMORY(0) MEMORY(1) MEMORY(2) MEMORY(3) MEMORY(4) const struct words12 words) {
    SUMS_OF_GROUP;
    LOCAL_ARRAY K tile[TILE + TILE / EACH];
    LOCAL_ARRAY i32 tile_order[TILE + TILE / EACH];
    LOCAL_ARRAY u16 counter[4096 + 4096 / 16]; /* [4 bits of a digit][thread] */
    LOCAL_ARRAY u32 next[256];                 /* of each digit: where it goes on in the line */
    LOCAL_ARRAY u32 offset[256];               /* that minus its place in the tile */
    GLOBAL K *new_keys = (GLOBAL K *)ADDRESS(0, 0);
    GLOBAL i32 *new_order = (GLOBAL i32 *)ADDRESS(1, 1);
    GLOBAL u32 *counts = (GLOBAL u32 *)ADDRESS(2, 2);
    GLOBAL K *keys = (GLOBAL K *)ADDRESS(3, 3);
    GLOBAL i32 *order = (GLOBAL i32 *)ADDRESS(4, 4);
    SORT_WORDS(5);
    for (i64 unit = GROUP; unit < units; unit += GROUPS) {
        CHUNK_BEGIN;
        const u32 total = counts[set + (chunks - c) * 256 + THREAD];
        SUM_BEFORE(before, total, 256);
        next[THREAD] = before + counts[set + THREAD];
        for (i64 from = begin; from < end; from += TILE) {
            const u32 count = (u32)least(TILE, end - from);
            const i64 at = line * length + from;
            for (u32 i = THREAD; i < TILE; i += 256) { /* what is beyond the end stays the last */
                tile[SLOT(i)] = i < count ? keys[at + i] : (K)0 - 1;
                tile_order[SLOT(i)] = W(10) || i >= count ? (i32)(from + i) : order[at + i];
            }
            BARRIER();
            SORT_TILE(shift);
            SORT_TILE(shift + 4);
            for (u32 i = THREAD; i < count; i += 256) {
                const u32 digit = DIGIT(tile[SLOT(i)]);
                if (i == 0 || DIGIT(tile[SLOT(i - 1)]) != digit) offset[digit] = next[digit] - i;
            }
            BARRIER();
            for (u32 i = THREAD; i < count; i += 256) {
                const K key = tile[SLOT(i)];
                const u32 digit = DIGIT(key), to = offset[digit] + i;
                if (W(11)) new_keys[line * length + to] = key;
                new_order[line * length + to] = tile_order[SLOT(i)];
                if (i + 1 == count || DIGIT(tile[SLOT(i + 1)]) != digit) next[digit] = to + 1;
            }
            BARRIER();
        }
    }
}
