/* Sums across the threads of a group, in an order that the numbers of the threads alone decide; SUM is their type.
 * SUM_BEFORE declares `before`: the sum of the values of the threads before this one, among `lanes` neighbours (a power of two, at most
 * 256). SUM_OF_GROUP is then the sum of all. They are sums of blocks of threads: of 32 that step together, else of 16, whose values meet
 * in local memory. Macros, because PoCL fails at functions with barriers.
 *     bti_offsets   the sums before each chunk, in place: memories sums [outer][chunk][inner]; words: units (outer x inner), inner,
 *                   chunks, lanes */
#define W(number) words.at[number]
struct words5 {
    i64 at[5];
};

#ifdef FROM_BEFORE
#define BLOCK 32
#define SUMS_OF_GROUP LOCAL_ARRAY SUM block_sums[256 / BLOCK]
#define SUM_BEFORE(before, value, lanes)                                  \
    SUM before = sum_up_to(value, lanes);                                 \
    BARRIER();                                                            \
    if (THREAD % BLOCK == BLOCK - 1) block_sums[THREAD / BLOCK] = before; \
    BARRIER();                                                            \
    {                                                                     \
        FROM_BEFORE(SUM, up_to_last, before, 1);                          \
        before = THREAD % BLOCK & ((lanes)-1) ? up_to_last : 0;           \
    }                                                                     \
    before += sum_of_blocks(block_sums, (THREAD & ~((lanes)-1)) / BLOCK, THREAD / BLOCK)

/* Of the threads of a block up to this one, among `lanes`. */
FUNCTION SUM sum_up_to(SUM sum, u32 lanes) {
    const u32 lane = THREAD % BLOCK & (lanes - 1);
    UNROLL
    for (u32 by = 1; by < BLOCK; by *= 2) {
        FROM_BEFORE(SUM, other, sum, by);
        if (lane >= by) sum += other;
    }
    return sum;
}

#else
#define BLOCK 16
#define SUMS_OF_GROUP                \
    LOCAL_ARRAY SUM value_sums[256]; \
    LOCAL_ARRAY SUM block_sums[256 / BLOCK]
#define SUM_BEFORE(before, value, lanes)                                                                     \
    value_sums[THREAD] = (value);                                                                            \
    BARRIER();                                                                                               \
    SUM before = sum_in_block(value_sums, lanes);                                                            \
    if (THREAD % BLOCK == BLOCK - 1) block_sums[THREAD / BLOCK] = sum_in_block(value_sums, BLOCK) + (value); \
    BARRIER();                                                                                               \
    before += sum_of_blocks(block_sums, (THREAD & ~((lanes)-1)) / BLOCK, THREAD / BLOCK)

FUNCTION SUM sum_in_block(LOCAL SUM *values, u32 lanes) {
    const u32 first = THREAD & ~(lanes - 1), block = THREAD & ~(u32)(BLOCK - 1);
    SUM sum = 0;
    for (u32 i = first > block ? first : block; i < THREAD; i++) sum += values[i];
    return sum;
}
#endif
#define SUM_OF_GROUP sum_of_blocks(block_sums, 0, 256 / BLOCK)

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
