/* The stable order of lines by unsigned keys (K, of K_BYTES): of elements (SORT: sort and top_k), or of indices of rows (scatters, c/scatter.h), those
 * out of range last. What passes carry is the elements themselves (their bits), so that -0 and 0, whose keys are equal, stay what they are; of scatters, the
 * keys. Lines are contiguous. A group sorts a tile at a time by radix, up to 8 bits a pass, in local memory.
 *     bti_sort_lines   lines of at most TILE elements, up to 256 for a group; or pieces of longer ones, one for a group: memories order, x or index,
 *                      sorted (what is carried), given (the numbers of x's elements); words: units (lines x pieces), length, lines at once, rows, bits of
 *                      a key, bits a pass, elements that are kept of each unit, pieces of a line, whether the order is wanted, the sorted, whether there are
 *                      given numbers
 * Longer lines in chunks of whole tiles that sizes alone decide, each pass being these three:
 *     bti_count        how often each digit occurs: memories counts [line][chunk][digit], x, index or what is carried; words: units (lines x
 *                      chunks), length, chunks, elements of a chunk, shift, bits, whether keys are made of x or index (the first
 *                      pass), rows
 *     bti_digit_offsets   the counts before each chunk, in place; those of all chunks follow: memories counts; words: units (lines x
 *                      32), chunks
 *     bti_sort_tiles   memories sorted, new order, counts, x, index or what is carried, order; words: the same, whether the sorted are wanted,
 *                      whether elements are numbered (the first pass, except where it is handed values of 4 bytes that take the
 *                      place of the order), whether the order is wanted, elements that are kept of each line. A group writes a tile that it has sorted in
 *                      runs of one digit each
 * Where threads of a group run one after the other (SERIAL), one thread works for all:
 *     bti_serial_lines, bti_serial_count, bti_serial_sort   as bti_sort_lines, bti_count and bti_sort_tiles */
#define EACH (K_BYTES == 8 ? 8 : 16)
#define TILE (EACH * 256)
#define WARPS 8 /* 32 threads each */

#define W(number) words.at[number]
struct words3 {
    i64 at[3];
};
struct words10 {
    i64 at[10];
};
struct words15 {
    i64 at[15];
};
struct words17 {
    i64 at[17];
};

#ifdef SORT
#define SOURCE E
#define CARRIED E
#define FIRST(element) (element)
#define KEY_OF(carried) ((K)KEY_OF_BITS(carried))
#define OF_SOURCE 1
#else
#define SOURCE I
#define CARRIED K
#define FIRST(element) key_of_row(element, rows)
#define KEY_OF(carried) (carried)
#define LAST ((K)0 - 1)
#define OF_SOURCE is_first
FUNCTION K key_of_row(i64 row, i64 rows) {
    if (row < 0) row += rows;
    return (K)(row >= 0 && row < rows ? row : rows);
}
#endif

/* --- a tile --------------------------------------------------------------------------------------------------------- */

#define SORT_ARRAYS                                                                                               \
    LOCAL_ARRAY u32 sums[256];                                                                                    \
    LOCAL_ARRAY K tile[TILE];                                                                                     \
    LOCAL_ARRAY u16 counter[WARPS * 256];                           /* [warp][digit] */                           \
    LOCAL u32 *const peers = (LOCAL u32 *)tile + THREAD / 32 * 256; /* of each digit: the threads that have it */ \
    LOCAL u16 *const own_counter = counter + THREAD / 32 * 256;                                                   \
    const u32 own_bit = 1u << THREAD % 32
/* Elements 32 x each of a warp follow one another; a load of a warp, 32 of them. */
#define PLACE(e, each) (THREAD / 32 * 32 * (each) + (e)*32 + THREAD % 32)

/* What is carried of x from `at`; what is beyond `count` stays the last. All loads are first: a branch waits for what it needs. */
#define MAKE_CARRIED(at, count, each)                                                     \
    SOURCE element[EACH];                                                                 \
    FOR_EACH(e, each) element[e] = PLACE(e, each) < count ? x[(at) + PLACE(e, each)] : 0; \
    FOR_EACH(e, each) carried[e] = PLACE(e, each) < count ? FIRST(element[e]) : LAST
#define LOAD_CARRIED(at, count)        \
    if (OF_SOURCE) {                   \
        MAKE_CARRIED(at, count, EACH); \
    } else                             \
        FOR_EACH(e, EACH) carried[e] = PLACE(e, EACH) < count ? keys[(at) + PLACE(e, EACH)] : LAST

/* The sum of the counts of the threads before this one. */
#define COUNTS_BEFORE(before, count)                                 \
    sums[THREAD] = (count);                                          \
    for (u32 by = 1; by < 32; by *= 2) {                             \
        WARP_BARRIER();                                              \
        const u32 other = THREAD % 32 >= by ? sums[THREAD - by] : 0; \
        WARP_BARRIER();                                              \
        sums[THREAD] += other;                                       \
    }                                                                \
    BARRIER();                                                       \
    u32 before = sums[THREAD] - (count);                             \
    UNROLL                                                           \
    for (u32 w = 0; w < WARPS - 1; w++) before += w < THREAD / 32 ? sums[w * 32 + 31] : 0

/* rank[e]: the place in the sorted tile of the element with digit_of(e). `of_digit` elements have the digit THREAD, and `before` of
 * the tile are less. The tile's memory is used before all have passed the last barrier. */
#define RANK_TILE(each, digit_of)                                                                             \
    UNROLL                                                                                                    \
    for (u32 w = 0; w < WARPS; w++) ((LOCAL u32 *)tile)[w * 256 + THREAD] = 0, counter[w * 256 + THREAD] = 0; \
    BARRIER();                                                                                                \
    FOR_EACH(e, each) {                                                                                       \
        const u32 digit = digit_of(e);                                                                        \
        LOCAL_OR(&peers[digit], own_bit);                                                                     \
        WARP_BARRIER();                                                                                       \
        const u32 same = peers[digit], earlier = POPULATION(same & (own_bit - 1));                            \
        rank[e] = own_counter[digit] + earlier;                                                               \
        WARP_BARRIER();                                                                                       \
        if (!earlier) peers[digit] = 0, own_counter[digit] = (u16)(rank[e] + POPULATION(same));               \
        WARP_BARRIER();                                                                                       \
    }                                                                                                         \
    BARRIER();                                                                                                \
    u32 of_digit = 0;                                                                                         \
    UNROLL                                                                                                    \
    for (u32 w = 0; w < WARPS; w++) of_digit += counter[w * 256 + THREAD];                                    \
    COUNTS_BEFORE(before, of_digit);                                                                          \
    u32 of_warp = before;                                                                                     \
    UNROLL                                                                                                    \
    for (u32 w = 0; w < WARPS; w++) {                                                                         \
        const u32 own = counter[w * 256 + THREAD];                                                            \
        counter[w * 256 + THREAD] = (u16)of_warp;                                                             \
        of_warp += own;                                                                                       \
    }                                                                                                         \
    BARRIER();                                                                                                \
    FOR_EACH(e, each) rank[e] += own_counter[digit_of(e)]

/* Registers to the places of their ranks, and from there to registers. */
#define EXCHANGE(array, values, type, each)                      \
    FOR_EACH(e, each)(array)[rank[e]] = values[e];               \
    BARRIER();                                                   \
    FOR_EACH(e, each) values[e] = (type)(array)[PLACE(e, each)]; \
    BARRIER()

/* --- short lines, and pieces ---------------------------------------------------------------------------------------- */

#define LINES_WORDS                                                                                                  \
    GLOBAL i32 *order = (GLOBAL i32 *)ADDRESS(0, 0);                                                                 \
    GLOBAL SOURCE *x = (GLOBAL SOURCE *)ADDRESS(1, 1);                                                               \
    GLOBAL CARRIED *sorted = (GLOBAL CARRIED *)ADDRESS(2, 2);                                                        \
    GLOBAL i32 *given = (GLOBAL i32 *)ADDRESS(3, 3);                                                                 \
    const i64 units = W(4), length = W(5), rows = W(7), pieces = W(11);                                              \
    const u32 at_once = (u32)W(6), bits = (u32)W(8), width = (u32)W(9), kept = (u32)W(10), wants_order = W(12) != 0, \
              wants_sorted = W(13) != 0, has_given = W(14) != 0;                                                     \
    const u32 end = at_once > 1 ? bits + width : bits, mask = (1u << width) - 1
/* `count` elements from x[at] on, in lines of `span`; the first of a piece has the number `number`. */
#define UNITS_BEGIN                                                                      \
    const i64 line = divided(first, pieces), piece = first - line * pieces;              \
    const i64 number = pieces > 1 ? divided(piece * length, pieces) : 0;                 \
    const u32 count = pieces > 1 ? (u32)(divided((piece + 1) * length, pieces) - number) \
                                 : (u32)least(at_once, units - first) * (u32)length;     \
    const u32 span = pieces > 1 ? count : (u32)length;                                   \
    const i64 at = line * length + number
/* What is at the place i of the sorted tile came from the place `from`. */
#define STORE_SORTED(i, from, value)                                                            \
    {                                                                                           \
        const u32 of_line = (i) / span, place = (i)-of_line * span;                             \
        const i64 to = (first + of_line) * kept + place;                                        \
        if (place < kept && wants_order)                                                        \
            order[to] = has_given ? given[at + (from)] : (i32)(number + (from)-of_line * span); \
        if (place < kept && wants_sorted) sorted[to] = value;                                   \
    }
/* Of keys, and at last of lines. */
#define DIGIT_OF_LINES(e) \
    (!by_line ? (u32)(KEY_OF(carried[e]) >> shift) & mask : PLACE(e, each) < count ? from[e] / span : 255)

KERNEL(256) bti_sort_lines(MEMORY(0) MEMORY(1) MEMORY(2) MEMORY(3) const struct words15 words) {
    SORT_ARRAYS;
    LINES_WORDS;
    for (i64 first = (i64)GROUP * at_once; first < units; first += (i64)GROUPS * at_once) {
        UNITS_BEGIN;
        const u32 each = (count + 255) / 256;
        CARRIED carried[EACH];
        u32 rank[EACH];
        u16 from[EACH];
        MAKE_CARRIED(at, count, each);
        FOR_EACH(e, each) from[e] = (u16)PLACE(e, each);
        for (u32 shift = 0; shift < end; shift += width) {
            const u32 by_line = shift >= bits;
            RANK_TILE(each, DIGIT_OF_LINES);
            EXCHANGE(tile, carried, CARRIED, each);
            EXCHANGE((LOCAL u16 *)tile, from, u16, each);
        }
        FOR_EACH(e, each) {
            const u32 i = PLACE(e, each);
            if (i < count) STORE_SORTED(i, from[e], carried[e]);
        }
    }
}

/* --- long lines ----------------------------------------------------------------------------------------------------- */

#define SORT_WORDS(first_word)                                                               \
    const i64 units = W(first_word), length = W(first_word + 1), chunks = W(first_word + 2), \
              chunk = W(first_word + 3), rows = W(first_word + 7);                           \
    const u32 shift = (u32)W(first_word + 4), mask = (1u << W(first_word + 5)) - 1, is_first = W(first_word + 6) != 0
#define CARRIED_AT(i) (OF_SOURCE ? FIRST(x[i]) : keys[i])
#define DIGIT(carried) ((u32)(KEY_OF(carried) >> shift) & mask)
#define CHUNK_BEGIN                                                                                          \
    const i64 line = divided(unit, chunks), c = unit - line * chunks, set = (line * (chunks + 1) + c) * 256; \
    const i64 begin = c * chunk, end = least(begin + chunk, length)

KERNEL(256) bti_count(MEMORY(0) MEMORY(1) const struct words10 words) {
    LOCAL_ARRAY u32 here[256];
    GLOBAL u32 *counts = (GLOBAL u32 *)ADDRESS(0, 0);
    GLOBAL SOURCE *x = (GLOBAL SOURCE *)ADDRESS(1, 1);
    GLOBAL CARRIED *keys = (GLOBAL CARRIED *)ADDRESS(1, 1);
    SORT_WORDS(2);
    for (i64 unit = GROUP; unit < units; unit += GROUPS) {
        CHUNK_BEGIN;
        here[THREAD] = 0;
        BARRIER();
        for (i64 from = begin; from < end; from += TILE) {
            const u32 count = (u32)least(TILE, end - from);
            CARRIED carried[EACH];
            LOAD_CARRIED(line * length + from, count);
            FOR_EACH(e, EACH)
            if (PLACE(e, EACH) < count) LOCAL_INCREMENT(&here[DIGIT(carried[e])]);
        }
        BARRIER();
        counts[set + THREAD] = here[THREAD];
        BARRIER();
    }
}

/* 32 threads sum up the counts of 8 digits. */
KERNEL(256) bti_digit_offsets(MEMORY(0) const struct words3 words) {
    LOCAL_ARRAY u32 sums[256];
    GLOBAL u32 *counts = (GLOBAL u32 *)ADDRESS(0, 0);
    const i64 units = W(1), chunks = W(2), each = (chunks + 31) / 32;
    for (i64 unit = GROUP; unit < units; unit += GROUPS) {
        GLOBAL u32 *of_digit = counts + unit / 32 * (chunks + 1) * 256 + unit % 32 * 8 + THREAD % 8;
        const i64 begin = THREAD / 8 * each, end = least(begin + each, chunks);
        u32 sum = 0;
        for (i64 c = begin; c < end; c++) sum += of_digit[c * 256];
        u32 before = sum;
        for (u32 by = 8; by < 256; by *= 2) {
            sums[THREAD] = before;
            BARRIER();
            before += THREAD >= by ? sums[THREAD - by] : 0;
            BARRIER();
        }
        if (THREAD >= 248) of_digit[chunks * 256] = before;
        before -= sum;
        for (i64 c = begin; c < end; c++) {
            const u32 own = of_digit[c * 256];
            of_digit[c * 256] = before;
            before += own;
        }
    }
}

/* What is beyond the tile stays the last in each pass. */
#define DIGIT_OF(e) (PLACE(e, EACH) < count ? DIGIT(carried[e]) : mask)

#define TILES_WORDS                                           \
    GLOBAL CARRIED *sorted = (GLOBAL CARRIED *)ADDRESS(0, 0); \
    GLOBAL i32 *new_order = (GLOBAL i32 *)ADDRESS(1, 1);      \
    GLOBAL u32 *counts = (GLOBAL u32 *)ADDRESS(2, 2);         \
    GLOBAL SOURCE *x = (GLOBAL SOURCE *)ADDRESS(3, 3);        \
    GLOBAL CARRIED *keys = (GLOBAL CARRIED *)ADDRESS(3, 3);   \
    GLOBAL i32 *order = (GLOBAL i32 *)ADDRESS(4, 4);          \
    SORT_WORDS(5);                                            \
    const u32 wants_sorted = W(13) != 0, numbered = W(14) != 0, wants_order = W(15) != 0, kept = (u32)W(16)

KERNEL(256) bti_sort_tiles(MEMORY(0) MEMORY(1) MEMORY(2) MEMORY(3) MEMORY(4) const struct words17 words) {
    SORT_ARRAYS;
    LOCAL_ARRAY u32 offset[256]; /* of each digit: where it goes on in the line, minus its place in the tile */
    TILES_WORDS;
    for (i64 unit = GROUP; unit < units; unit += GROUPS) {
        CHUNK_BEGIN;
        const u32 total = counts[set + (chunks - c) * 256 + THREAD];
        COUNTS_BEFORE(less, total);
        u32 next = less + counts[set + THREAD]; /* where the digit THREAD goes on in the line */
        for (i64 from = begin; from < end; from += TILE) {
            const u32 count = (u32)least(TILE, end - from);
            const i64 at = line * length + from;
            CARRIED carried[EACH];
            i32 own_order[EACH];
            u32 rank[EACH], to[EACH];
            BARRIER();
            LOAD_CARRIED(at, count);
            FOR_EACH(e, EACH) {
                const u32 i = PLACE(e, EACH);
                own_order[e] = numbered || !wants_order || i >= count ? (i32)(from + i) : order[at + i];
            }
            RANK_TILE(EACH, DIGIT_OF);
            offset[THREAD] = next - before;
            next += of_digit;
            FOR_EACH(e, EACH) tile[rank[e]] = carried[e];
            BARRIER();
            FOR_EACH(e, EACH) {
                const u32 i = e * 256 + THREAD;
                const CARRIED own = (CARRIED)tile[i];
                to[e] = offset[DIGIT(own)] + i;
                if (wants_sorted && i < count && to[e] < kept) sorted[line * kept + to[e]] = own;
            }
            if (wants_order) {
                BARRIER();
                FOR_EACH(e, EACH)((LOCAL i32 *)tile)[rank[e]] = own_order[e];
                BARRIER();
                FOR_EACH(e, EACH) {
                    const u32 i = e * 256 + THREAD;
                    if (i < count && to[e] < kept) new_order[line * kept + to[e]] = ((LOCAL i32 *)tile)[i];
                }
            }
        }
    }
}

/* --- threads one after the other ------------------------------------------------------------------------------------ */

#ifdef SERIAL
#define SERIAL_TILE (TILE / 2)

KERNEL(256) bti_serial_lines(MEMORY(0) MEMORY(1) MEMORY(2) MEMORY(3) const struct words15 words) {
    LOCAL_ARRAY K tile[2 * SERIAL_TILE];
    LOCAL_ARRAY u16 places[2 * SERIAL_TILE];
    LINES_WORDS;
    for (i64 first = (i64)GROUP * at_once; THREAD == 0 && first < units; first += (i64)GROUPS * at_once) {
        UNITS_BEGIN;
        LOCAL K *own = tile, *new_own = tile + SERIAL_TILE; /* what is carried */
        LOCAL u16 *from = places, *new_from = places + SERIAL_TILE;
        for (u32 i = 0; i < count; i++) own[i] = FIRST(x[at + i]), from[i] = (u16)i;
        for (u32 shift = 0; shift < end; shift += width) {
            const u32 by_line = shift >= bits;
            u32 next[256], sum = 0;
            for (u32 d = 0; d < 256; d++) next[d] = 0;
            for (u32 i = 0; i < count; i++) next[by_line ? from[i] / span : DIGIT((CARRIED)own[i])]++;
            for (u32 d = 0; d < 256; d++) {
                const u32 of_digit = next[d];
                next[d] = sum;
                sum += of_digit;
            }
            for (u32 i = 0; i < count; i++) {
                const u32 to = next[by_line ? from[i] / span : DIGIT((CARRIED)own[i])]++;
                new_own[to] = own[i], new_from[to] = from[i];
            }
            LOCAL K *const old_own = own;
            LOCAL u16 *const old_from = from;
            own = new_own, from = new_from, new_own = old_own, new_from = old_from;
        }
        for (u32 i = 0; i < count; i++) STORE_SORTED(i, from[i], (CARRIED)own[i]);
    }
}

KERNEL(256) bti_serial_count(MEMORY(0) MEMORY(1) const struct words10 words) {
    GLOBAL u32 *counts = (GLOBAL u32 *)ADDRESS(0, 0);
    GLOBAL SOURCE *x = (GLOBAL SOURCE *)ADDRESS(1, 1);
    GLOBAL CARRIED *keys = (GLOBAL CARRIED *)ADDRESS(1, 1);
    SORT_WORDS(2);
    for (i64 unit = GROUP; THREAD == 0 && unit < units; unit += GROUPS) {
        CHUNK_BEGIN;
        u32 here[256];
        for (u32 d = 0; d < 256; d++) here[d] = 0;
        for (i64 i = line * length + begin; i < line * length + end; i++) here[DIGIT(CARRIED_AT(i))]++;
        for (u32 d = 0; d < 256; d++) counts[set + d] = here[d];
    }
}

KERNEL(256) bti_serial_sort(MEMORY(0) MEMORY(1) MEMORY(2) MEMORY(3) MEMORY(4) const struct words17 words) {
    TILES_WORDS;
    for (i64 unit = GROUP; THREAD == 0 && unit < units; unit += GROUPS) {
        CHUNK_BEGIN;
        const i64 at = line * length;
        u32 next[256], less = 0;
        for (u32 d = 0; d < 256; d++) {
            next[d] = less + counts[set + d];
            less += counts[set + (chunks - c) * 256 + d];
        }
        for (i64 i = begin; i < end; i++) {
            const CARRIED own = CARRIED_AT(at + i);
            const u32 to = next[DIGIT(own)]++;
            if (to >= kept) continue;
            if (wants_sorted) sorted[line * kept + to] = own;
            if (wants_order) new_order[line * kept + to] = numbered ? (i32)i : order[at + i];
        }
    }
}
#endif
