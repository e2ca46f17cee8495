/* Running products and extremes over dense arrays [outer][length][inner], in chunks that sizes alone decide; SUM is what totals are held in. A
 * thread has a chunk of a line.
 *     bti_chunk_totals    the total of each chunk: memories totals [line][chunk], x; words: units (lines x chunks), length, chunks,
 *                         elements of a chunk, inner, whether it goes from the end
 *     bti_chunk_offsets   totals of the chunks before each, in place: memories totals; words: units (lines), chunks
 *     bti_running_lines   memories y, totals (of the chunks before; read if there are several chunks), x; the words of the first */
#define W(number) words.at[number]
struct words3 {
    i64 at[3];
};
struct words8 {
    i64 at[8];
};
struct words9 {
    i64 at[9];
};

#define EACH_UNIT(count) for (i64 unit = (i64)GROUP * THREADS + THREAD; unit < (count); unit += (i64)GROUPS * THREADS)
#define CHUNK_WORDS(first_word)                                                              \
    const i64 units = W(first_word), length = W(first_word + 1), chunks = W(first_word + 2), \
              chunk = W(first_word + 3), inner = W(first_word + 4);                          \
    const u32 backwards = W(first_word + 5) != 0
#define CHUNK_BEGIN                                                                                \
    const i64 line = divided(unit, chunks), part = unit - line * chunks, o = divided(line, inner), \
              n = line - o * inner;                                                                \
    const i64 begin = part * chunk, end = least(begin + chunk, length)
#define PLACE(i) ((o * length + (backwards ? length - 1 - (i) : (i))) * inner + n)

KERNEL(256) bti_chunk_totals(MEMORY(0) MEMORY(1) const struct words8 words) {
    GLOBAL SUM *totals = (GLOBAL SUM *)ADDRESS(0, 0);
    GLOBAL T *x = (GLOBAL T *)ADDRESS(1, 1);
    CHUNK_WORDS(2);
    EACH_UNIT(units) {
        CHUNK_BEGIN;
        SUM total = VALUE(x[PLACE(begin)]);
        for (i64 i = begin + 1; i < end; i++) {
            const SUM next = VALUE(x[PLACE(i)]);
            total = COMBINED(total, next);
        }
        totals[unit] = total;
    }
}

KERNEL(256) bti_chunk_offsets(MEMORY(0) const struct words3 words) {
    GLOBAL SUM *totals = (GLOBAL SUM *)ADDRESS(0, 0);
    EACH_UNIT(W(1)) {
        GLOBAL SUM *of_line = totals + unit * W(2);
        SUM before = of_line[0];
        for (i64 i = 1; i < W(2); i++) {
            const SUM own = of_line[i];
            of_line[i] = before;
            before = COMBINED(before, own);
        }
    }
}

KERNEL(256) bti_running_lines(MEMORY(0) MEMORY(1) MEMORY(2) const struct words9 words) {
    GLOBAL T *y = (GLOBAL T *)ADDRESS(0, 0);
    GLOBAL SUM *totals = (GLOBAL SUM *)ADDRESS(1, 1);
    GLOBAL T *x = (GLOBAL T *)ADDRESS(2, 2);
    CHUNK_WORDS(3);
    EACH_UNIT(units) {
        CHUNK_BEGIN;
        SUM total = VALUE(x[PLACE(begin)]);
        if (part) total = COMBINED(totals[unit], total);
        y[PLACE(begin)] = STORED(total);
        for (i64 i = begin + 1; i < end; i++) {
            const SUM next = VALUE(x[PLACE(i)]);
            total = COMBINED(total, next);
            y[PLACE(i)] = STORED(total);
        }
    }
}
