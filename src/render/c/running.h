/* cumsum over dense arrays [outer][length][inner], in chunks that sizes alone decide; SUM is what sums are held in.
 * Rows (inner is 1): 8 elements a thread; `lanes` threads have a line of one chunk, a group has a chunk of others, and goes along it
 * in tiles. Columns: a thread has a chunk.
 *     bti_sums      rows: the sum of each chunk: memories sums [line][chunk], x; words: units (lines x chunks), length, chunks, elements
 *                   of a chunk, lanes, whether it goes from the end
 *     bti_rows      memories y, sums (those before each chunk), x; the same words. Sums are read if there are several chunks
 *     bti_column_sums, bti_columns   as bti_sums and bti_rows, with inner in place of lanes; sums [outer][chunk][inner] */
/* Where threads of a group run one after the other (SERIAL), a thread has a chunk of a row, and adds in the same order:
 *     bti_serial_sums, bti_serial_rows   as bti_sums and bti_rows
 */
#define EACH 8
#define TILE (EACH * 256)
#define SLOT(i) ((i) + (i) / EACH) /* threads that have EACH elements one after the other meet no bank twice */

struct words8 {
    i64 at[8];
};
struct words9 {
    i64 at[9];
};

#define RUNNING_WORDS(first_word)                                                            \
    const i64 units = W(first_word), length = W(first_word + 1), chunks = W(first_word + 2), \
              chunk = W(first_word + 3);                                                     \
    const u32 backwards = W(first_word + 5) != 0
#define IN_LINE(i) (backwards ? length - 1 - (i) : (i))
/* Where `count` elements of a line from number `begin` on lie in memory. */
#define FIRST_IN_LINE(begin, count) (backwards ? length - (begin) - (count) : (begin))
#define EACH_OF_THREAD UNROLL for (u32 e = 0; e < EACH; e++)

/* --- rows ----------------------------------------------------------------------------------------------------------- */

KERNEL(256) bti_sums(MEMORY(0) MEMORY(1) const struct words8 words) {
    SUMS_OF_GROUP;
    GLOBAL SUM *sums = (GLOBAL SUM *)ADDRESS(0, 0);
    GLOBAL T *x = (GLOBAL T *)ADDRESS(1, 1);
    RUNNING_WORDS(2);
    for (i64 unit = GROUP; unit < units; unit += GROUPS) {
        const i64 line = divided(unit, chunks), begin = (unit - line * chunks) * chunk, way = backwards ? -1 : 1;
        const u32 count = (u32)least(chunk, length - begin);
        GLOBAL T *from = x + line * length + IN_LINE(begin);
        SUM sum = 0;
        for (u32 i = THREAD; i < count; i += TILE) {
            T next[EACH];
            EACH_OF_THREAD if (i + e * 256 < count) next[e] = from[way * (i + e * 256)];
            EACH_OF_THREAD if (i + e * 256 < count) sum += VALUE(next[e]);
        }
        SUM_BEFORE(before, sum, 256);
        if (THREAD == 255) sums[unit] = SUM_OF_GROUP;
    }
}

/* A tile is one line, or `count` whole lines that follow one another. Thread t takes its elements t, t + 256... to and from local memory,
 * where each line begins at its first lane, and thread t has elements t * EACH, t * EACH + 1... */
KERNEL(256) bti_rows(MEMORY(0) MEMORY(1) MEMORY(2) const struct words9 words) {
    SUMS_OF_GROUP;
    LOCAL_ARRAY T tile[TILE + TILE / EACH];
    GLOBAL T *y = (GLOBAL T *)ADDRESS(0, 0);
    GLOBAL SUM *sums = (GLOBAL SUM *)ADDRESS(1, 1);
    GLOBAL T *x = (GLOBAL T *)ADDRESS(2, 2);
    RUNNING_WORDS(3);
    const u32 lanes = (u32)W(7), at_once = 256 / lanes, own = THREAD / lanes, lane = THREAD % lanes;
    for (i64 first = (i64)GROUP * at_once; first < units; first += (i64)GROUPS * at_once) {
        const u32 count = (u32)least(at_once, units - first);
        const i64 line = divided(first, chunks), begin = (first - line * chunks) * chunk,
                  end = least(begin + chunk, length);
        SUM carry = chunks > 1 ? sums[first] : 0;
        for (i64 from = begin; from < end; from += TILE) {
            const u32 extent = (u32)least(TILE, end - from), elements = count * extent; /* of a line, of all */
            const u32 mine = own < count && lane * EACH < extent ? extent - lane * EACH : 0;
            const i64 at = line * length + FIRST_IN_LINE(from, extent) + THREAD;
            u32 slot[EACH];
            T next[EACH];
            SUM part[EACH], sum = 0;
            EACH_OF_THREAD if (THREAD + e * 256 < elements) next[e] = x[at + e * 256];
            u32 l = THREAD / extent, i = THREAD % extent; /* line and element of the line */
            EACH_OF_THREAD {
                slot[e] = SLOT(l * lanes * EACH + (backwards ? extent - 1 - i : i));
                if (THREAD + e * 256 < elements) tile[slot[e]] = next[e];
                i += 256 % extent, l += 256 / extent + (i >= extent);
                if (i >= extent) i -= extent;
            }
            BARRIER();
            EACH_OF_THREAD {
                if (e < mine) sum += VALUE(tile[SLOT(THREAD * EACH) + e]);
                part[e] = sum;
            }
            SUM_BEFORE(before, sum, lanes);
            before += carry;
            EACH_OF_THREAD if (e < mine) tile[SLOT(THREAD * EACH) + e] = STORED(before + part[e]);
            carry += SUM_OF_GROUP;
            BARRIER();
            EACH_OF_THREAD if (THREAD + e * 256 < elements) y[at + e * 256] = tile[slot[e]];
            BARRIER();
        }
    }
}

#ifdef SERIAL
#define EACH_SERIAL_CHUNK for (i64 unit = (i64)GROUP * THREADS + THREAD; unit < units; unit += (i64)GROUPS * THREADS)
#define SERIAL_CHUNK_BEGIN                                                          \
    const i64 line = divided(unit, chunks), begin = (unit - line * chunks) * chunk; \
    const i64 end = least(begin + chunk, length), way = backwards ? -1 : 1;         \
    GLOBAL T *from = x + line * length + (backwards ? length - 1 : 0)

KERNEL(256) bti_serial_sums(MEMORY(0) MEMORY(1) const struct words8 words) {
    GLOBAL SUM *sums = (GLOBAL SUM *)ADDRESS(0, 0);
    GLOBAL T *x = (GLOBAL T *)ADDRESS(1, 1);
    RUNNING_WORDS(2);
    EACH_SERIAL_CHUNK {
        SERIAL_CHUNK_BEGIN;
        SUM of_thread[256], all = 0;
        for (i32 t = 0; t < 256; t++) of_thread[t] = 0;
        for (i64 i = begin; i < end; i += 256) {
            const i32 count = (i32)least(256, end - i);
            for (i32 t = 0; t < count; t++) of_thread[t] += VALUE(from[(i + t) * way]);
        }
        for (i32 block = 0; block < 256; block += 16) {
            SUM sum = 0;
            for (i32 t = 0; t < 16; t++) sum += of_thread[block + t];
            all += sum;
        }
        sums[unit] = all;
    }
}

KERNEL(256) bti_serial_rows(MEMORY(0) MEMORY(1) MEMORY(2) const struct words9 words) {
    GLOBAL T *y = (GLOBAL T *)ADDRESS(0, 0);
    GLOBAL SUM *sums = (GLOBAL SUM *)ADDRESS(1, 1);
    GLOBAL T *x = (GLOBAL T *)ADDRESS(2, 2);
    RUNNING_WORDS(3);
    EACH_SERIAL_CHUNK {
        SERIAL_CHUNK_BEGIN;
        GLOBAL T *to = y + (from - x);
        SUM carry = chunks > 1 ? sums[unit] : 0, blocks = 0, in_block = 0;
        for (i64 i = begin; i < end; i += EACH) {
            const i32 count = (i32)least(EACH, end - i);
            const SUM before = in_block + blocks + carry;
            SUM part = 0;
            for (i32 e = 0; e < count; e++) {
                part += VALUE(from[(i + e) * way]);
                to[(i + e) * way] = STORED(before + part);
            }
            in_block += part;
            if ((i - begin + EACH) % (16 * EACH) == 0) blocks += in_block, in_block = 0;
            if ((i - begin + EACH) % TILE == 0) carry += blocks, blocks = 0;
        }
    }
}
#endif

/* --- columns -------------------------------------------------------------------------------------------------------- */

#define EACH_CHUNK(first_word)           \
    RUNNING_WORDS(first_word);           \
    const i64 inner = W(first_word + 4); \
    for (i64 unit = (i64)GROUP * THREADS + THREAD; unit < units; unit += (i64)GROUPS * THREADS)
#define CHUNK_BEGIN                                                                         \
    const i64 row = divided(unit, inner), n = unit - row * inner, o = divided(row, chunks); \
    const i64 begin = (row - o * chunks) * chunk, end = least(begin + chunk, length)
#define IN_COLUMN(i) ((o * length + IN_LINE(i)) * inner + n)

KERNEL(256) bti_column_sums(MEMORY(0) MEMORY(1) const struct words8 words) {
    GLOBAL SUM *sums = (GLOBAL SUM *)ADDRESS(0, 0);
    GLOBAL T *x = (GLOBAL T *)ADDRESS(1, 1);
    EACH_CHUNK(2) {
        CHUNK_BEGIN;
        SUM sum = 0;
        UNROLL_8
        for (i64 i = begin; i < end; i++) sum += VALUE(x[IN_COLUMN(i)]);
        sums[unit] = sum;
    }
}

KERNEL(256) bti_columns(MEMORY(0) MEMORY(1) MEMORY(2) const struct words9 words) {
    GLOBAL T *y = (GLOBAL T *)ADDRESS(0, 0);
    GLOBAL SUM *sums = (GLOBAL SUM *)ADDRESS(1, 1);
    GLOBAL T *x = (GLOBAL T *)ADDRESS(2, 2);
    EACH_CHUNK(3) {
        CHUNK_BEGIN;
        SUM sum = chunks > 1 ? sums[unit] : 0;
        for (i64 i = begin; i < end; i += EACH) { /* loads first: a store might change what is loaded after it */
            T next[EACH];
            UNROLL
            for (u32 e = 0; e < EACH; e++)
                if (i + e < end) next[e] = x[IN_COLUMN(i + e)];
            UNROLL
            for (u32 e = 0; e < EACH; e++)
                if (i + e < end) sum += VALUE(next[e]), y[IN_COLUMN(i + e)] = STORED(sum);
        }
    }
}
