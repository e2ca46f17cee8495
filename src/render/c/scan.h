/* Sums across the threads of a group, in an order that the numbers of the threads alone decide; SUM is their type.
 * SUM_BEFORE declares `before`: the sum of the values of the threads before this one, among `lanes` neighbours (a power of two, at most
 * 256). It reads at most 15 values of its block of 16 threads, and at most 15 sums of blocks, in SUMS_OF_GROUP; sum_of_blocks adds up
 * the latter. A macro, because PoCL fails at functions with barriers.
 *     bti_offsets   the sums before each chunk, in place: memories sums [outer][chunk][inner]; words: units (outer x inner), inner,
 *                   chunks, lanes */
#define W(number) words.at[number]
struct words5 {
    i64 at[5];
};

#define SUMS_OF_GROUP                \
    LOCAL_ARRAY SUM value_sums[256]; \
    LOCAL_ARRAY SUM block_sums[16]
#define SUM_BEFORE(before, value, lanes)                                                       \
    value_sums[THREAD] = (value);                                                              \
    BARRIER();                                                                                 \
    SUM before = sum_in_block(value_sums, lanes);                                              \
    if ((THREAD & 15) == 15) block_sums[THREAD / 16] = sum_in_block(value_sums, 16) + (value); \
    BARRIER();                                                                                 \
    before += sum_of_blocks(block_sums, (THREAD & ~((lanes)-1)) / 16, THREAD / 16)

FUNCTION SUM sum_in_block(LOCAL SUM *values, u32 lanes) {
    const u32 first = THREAD & ~(lanes - 1), block = THREAD & ~15u;
    SUM sum = 0;
    for (u32 i = first > block ? first : block; i < THREAD; i++) sum += values[i];
    return sum;
}

FUNCTION SUM sum_of_blocks(LOCAL SUM *blocks, u32 begin, u32 end) {
    SUM sum = 0;
    for (u32 i = begin; i < end; i++) sum += blocks[i];
    return sum;
}

KERNEL(256) bti_offsets(MEMORY(0) const struct words5 words) {
    SUMS_OF_GROUP;
    GLOBAL SUM *sums = (GLOBAL SUM *)ADDRESS(0, 0);
    const i64 units = W(1), inner = W(2), chunks = W(3);
    const u32 lanes = (u32)W(4), at_once = 256 / lanes, each = (u32)(chunks + lanes - 1) / lanes;
    for (i64 first = (i64)GROUP * at_once; first < units; first += (i64)GROUPS * at_once) {
        const i64 unit = first + THREAD / lanes, o = divided(unit, inner), from = o * chunks * inner + unit - o * inner;
        const i64 begin = (i64)(THREAD % lanes) * each, end = unit < units ? least(begin + each, chunks) : 0;
        SUM sum = 0;
        for (i64 c = begin; c < end; c++) sum += sums[from + c * inner];
        SUM_BEFORE(before, sum, lanes);
        for (i64 c = begin; c < end; c++) {
            const SUM own = sums[from + c * inner];
            sums[from + c * inner] = before;
            before += own;
        }
    }
}
