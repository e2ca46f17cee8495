/* cumsum over dense arrays [outer][length][inner], in chunks of 256 by size alone; SUM is what sums are held in.
 *     bti_sums      the sum of each chunk: memories x, sums [line][chunk]; words: units (lines x chunks), length, inner, chunks,
 *                   whether it goes from the end
 *     bti_offsets   the sums before each chunk, in place: memories sums; words: units (lines), chunks
 *     bti_running   memories y, x, sums; words as bti_sums */
struct words3 {
    i64 at[3];
};
struct words7 {
    i64 at[7];
};
struct words8 {
    i64 at[8];
};
#define W(number) words.at[number]
#define CHUNK 256
#define EACH_UNIT(word) for (i64 unit = (i64)GROUP * THREADS + THREAD; unit < W(word); unit += (i64)GROUPS * THREADS)
#define CHUNK_BEGIN(first_word)                                                                  \
    const i64 length = W(first_word + 1), inner = W(first_word + 2), chunks = W(first_word + 3); \
    const i64 line = divided(unit, chunks), begin = (unit - line * chunks) * CHUNK,              \
              end = least(begin + CHUNK, length);                                                \
    const i64 o = divided(line, inner), n = line - o * inner
#define PLACE(first_word) ((o * length + (W(first_word + 4) ? length - 1 - i : i)) * inner + n)

KERNEL(256) bti_sums(MEMORY(0) MEMORY(1) const struct words7 words) {
    GLOBAL T *x = (GLOBAL T *)ADDRESS(0, 0);
    GLOBAL SUM *sums = (GLOBAL SUM *)ADDRESS(1, 1);
    EACH_UNIT(2) {
        CHUNK_BEGIN(2);
        SUM sum = 0;
        for (i64 i = begin; i < end; i++) sum += VALUE(x[PLACE(2)]);
        sums[unit] = sum;
    }
}

KERNEL(256) bti_offsets(MEMORY(0) const struct words3 words) {
    GLOBAL SUM *sums = (GLOBAL SUM *)ADDRESS(0, 0);
    EACH_UNIT(1) {
        SUM before = 0;
        for (i64 c = unit * W(2); c < (unit + 1) * W(2); c++) {
            const SUM sum = sums[c];
            sums[c] = before;
            before += sum;
        }
    }
}

KERNEL(256) bti_running(MEMORY(0) MEMORY(1) MEMORY(2) const struct words8 words) {
    GLOBAL T *y = (GLOBAL T *)ADDRESS(0, 0);
    GLOBAL T *x = (GLOBAL T *)ADDRESS(1, 1);
    GLOBAL SUM *sums = (GLOBAL SUM *)ADDRESS(2, 2);
    EACH_UNIT(3) {
        CHUNK_BEGIN(3);
        SUM sum = sums[unit];
        for (i64 i = begin; i < end; i++) {
            sum += VALUE(x[PLACE(3)]);
            y[PLACE(3)] = STORED(sum);
        }
    }
}
