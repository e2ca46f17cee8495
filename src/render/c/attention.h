/* Attention (ir/attention.h): a group has SIDE queries, or keys, and goes through tiles of SIDE keys, or queries, whose weights are in local memory; a thread has
 * EACH x EACH elements. Sizes alone decide the order of sums. T is an element; SIDE, SCALE, LEAST (-inf), EXP and LOG are
 * defined before.
 *     bti_attend          out and lse; a unit: SIDE queries of a head, and SIDE columns of out. Lines in the order of places
 *     bti_attend_means    by query, the mean of what values give by the weights: out . slope; a unit: one, for a thread
 *     bti_attend_queries  the gradient of q; a unit: SIDE queries of a head, and SIDE columns
 *     bti_attend_keys     those of k and v; a unit: SIDE keys of a head, and SIDE columns of both
 * Words: 10 addresses (results 0 and 1, q, k, v, lengths, mask, lse, slope, means; of bti_attend_means result 0 is out); units, heads, heads that share keys, queries,
 * keys, depth, depth of values, scale, what is read (0 all, 1 from the start, 2 from the end), kind of mask (0 none, 1 bool, 2 added), whether there are lengths, which results
 * are wanted (bits); strides of results 0 and 1, q, k, v, lengths, mask, lse, slope. */
#define STEP 16
#define EACH (SIDE / 16)
#define LOADS (SIDE * STEP / 256)

struct words {
    i64 at[54];
};
#define W(number) words.at[number]
#define MEMORIES \
    MEMORY(0)    \
    MEMORY(1) MEMORY(2) MEMORY(3) MEMORY(4) MEMORY(5) MEMORY(6) MEMORY(7) MEMORY(8) MEMORY(9) const struct words words
#define UNITS W(10)
#define HEADS W(11)
#define SHARED W(12)
#define QUERIES W(13)
#define KEYS W(14)
#define DEPTH W(15)
#define VALUE_DEPTH W(16)
#define WANTS(result) (W(21) >> (result)&1)

/* Rows from i on of a head; the numbers of an operand's address and of its first stride. */
#define MADE_0 0, 22
#define MADE_1 1, 26
#define Q 2, 30
#define K 3, 34
#define V 4, 38
#define LSE 7, 47
#define SLOPE 8, 50
#define ROWS(...) ROWS_OF(__VA_ARGS__)
#define ROWS_OF(address, stride, n, h, i) \
    ((GLOBAL T *)ADDRESS(address, address) + (n)*W(stride) + (h)*W(stride + 1) + (i)*W(stride + 2))
#define DOWN(...) DOWN_OF(__VA_ARGS__)
#define DOWN_OF(address, stride) W(stride + 2)
#define ALONG(...) ALONG_OF(__VA_ARGS__)
#define ALONG_OF(address, stride) W(stride + 3)
#define MEANS ((GLOBAL T *)ADDRESS(9, 9))

#define FOR_ELEMENTS(i, j)         \
    UNROLL                         \
    for (i32 i = 0; i < EACH; i++) \
        for (i32 j = 0; j < EACH; j++)

/* How many keys of a batch there are, and how many of them a query reads. */
#define LENGTH_OF(n) (W(20) ? within(((GLOBAL i32 *)ADDRESS(5, 5))[(n)*W(42)], KEYS) : KEYS)
#define REACH_OF(length, i) (W(18) == 0 ? (length) : within(W(18) == 1 ? (i) + 1 : (length)-QUERIES + (i) + 1, length))
FUNCTION i64 within(i64 x, i64 most) { return x < 0 ? 0 : x < most ? x : most; }

/* to[i][j] = the sum over d of left[row + i][d] * right[column + 16 j][d], of rows below counts. */
#define PRODUCT(to, left, left_operand, left_count, right, right_operand, right_count, depth)                    \
    do {                                                                                                         \
        const i64 a_down = DOWN(left_operand), a_along = ALONG(left_operand), b_down = DOWN(right_operand),      \
                  b_along = ALONG(right_operand);                                                                \
        FOR_ELEMENTS(i, j) to[i][j] = 0;                                                                         \
        for (i64 d0 = 0; d0 < (depth); d0 += STEP) {                                                             \
            UNROLL                                                                                               \
            for (i32 part = 0; part < LOADS; part++) {                                                           \
                const i32 at = thread + part * 256, r = at / STEP, d = at % STEP;                                \
                a[d][r] = r < (left_count) && d0 + d < (depth) ? (left)[r * a_down + (d0 + d) * a_along] : 0;    \
                b[d][r] = r < (right_count) && d0 + d < (depth) ? (right)[r * b_down + (d0 + d) * b_along] : 0;  \
            }                                                                                                    \
            BARRIER();                                                                                           \
            for (i32 d = 0; d < STEP; d++) FOR_ELEMENTS(i, j) to[i][j] += a[d][row + i] * b[d][column + 16 * j]; \
            BARRIER();                                                                                           \
        }                                                                                                        \
    } while (0)

/* to[i][j] += the sum over c of tile[row + i][c] * x[c][column + 16 j], of rows below count and columns below width. */
#define ADD_TILE(to, x, operand, count, width)                                                    \
    do {                                                                                          \
        const i64 down = DOWN(operand), along = ALONG(operand);                                   \
        for (i32 c0 = 0; c0 < SIDE; c0 += STEP) {                                                 \
            UNROLL                                                                                \
            for (i32 part = 0; part < LOADS; part++) {                                            \
                const i32 at = thread + part * 256, c = at / SIDE, e = at % SIDE;                 \
                b[c][e] = c0 + c < (count) && e < (width) ? (x)[(c0 + c) * down + e * along] : 0; \
            }                                                                                     \
            BARRIER();                                                                            \
            for (i32 c = 0; c < STEP; c++)                                                        \
                FOR_ELEMENTS(i, j) to[i][j] += tile[row + i][c0 + c] * b[c][column + 16 * j];     \
            BARRIER();                                                                            \
        }                                                                                         \
    } while (0)

/* The score of a query and a key of which that is the product; -inf: it does not read the key. */
#define SCORE(product, n, h, i, j, reach)                                                                            \
    ((j) < (reach)                                                                                                   \
         ? masked((product)*SCALE, (GLOBAL u8 *)ADDRESS(6, 6), W(19), (n)*W(43) + (h)*W(44) + (i)*W(45) + (j)*W(46)) \
         : LEAST)
FUNCTION T masked(T score, GLOBAL u8 *mask, i64 kind, i64 at) {
    if (kind == 0) return score;
    if (kind == 1) return mask[at] ? score : LEAST;
    return score + ((GLOBAL T *)mask)[at];
}

#ifdef FORWARD
KERNEL_ALONE(256) bti_attend(MEMORIES) {
    LOCAL_ARRAY T a[STEP][SIDE + 1];
    LOCAL_ARRAY T b[STEP][SIDE + 1];
    LOCAL_ARRAY T tile[SIDE][SIDE + 1];
    LOCAL_ARRAY T top[SIDE];
    LOCAL_ARRAY T sum[SIDE];
    LOCAL_ARRAY T less[SIDE];
    const i64 blocks = (QUERIES + SIDE - 1) / SIDE, parts = VALUE_DEPTH > SIDE ? (VALUE_DEPTH + SIDE - 1) / SIDE : 1;
    const i32 thread = (i32)THREAD, row = thread / 16 * EACH, column = thread % 16;
    for (i64 unit = GROUP; unit < UNITS; unit += GROUPS) {
        const i64 part = unit % parts, block = unit / parts, head = block / blocks, i0 = (block - head * blocks) * SIDE;
        const i64 n = head / HEADS, h = head - n * HEADS, length = LENGTH_OF(n);
        const i64 rows = least(QUERIES - i0, SIDE), reach = REACH_OF(length, i0 + rows - 1), e0 = part * SIDE;
        GLOBAL T *q = ROWS(Q, n, h, i0);
        T out[EACH][EACH], score[EACH][EACH];
        FOR_ELEMENTS(i, j) out[i][j] = 0;
        if (thread < SIDE) top[thread] = LEAST, sum[thread] = 0;
        for (i64 j0 = 0; j0 < reach; j0 += SIDE) {
            GLOBAL T *k = ROWS(K, n, h / SHARED, j0);
            GLOBAL T *v = ROWS(V, n, h / SHARED, j0) + e0 * ALONG(V);
            const i64 keys = least(reach - j0, SIDE);
            PRODUCT(score, q, Q, rows, k, K, keys, DEPTH);
            FOR_ELEMENTS(i, j) {
                const i64 at = i0 + row + i, key = j0 + column + 16 * j;
                const i64 ends = row + i < rows ? REACH_OF(length, at) : 0;
                tile[row + i][column + 16 * j] = SCORE(score[i][j], n, h, at, key, ends);
            }
            BARRIER();
            if (thread < SIDE) {
                const T before = top[thread];
                T most = before, all = 0;
                for (i32 j = 0; j < SIDE; j++) most = tile[thread][j] > most ? tile[thread][j] : most;
                const T below = most == LEAST ? 0 : most;
                for (i32 j = 0; j < SIDE; j++) all += tile[thread][j] = EXP(tile[thread][j] - below);
                less[thread] = EXP(before - below);
                sum[thread] = sum[thread] * less[thread] + all;
                top[thread] = most;
            }
            BARRIER();
            FOR_ELEMENTS(i, j) out[i][j] *= less[row + i];
            ADD_TILE(out, v, V, keys, VALUE_DEPTH - e0);
        }
        BARRIER();
        FOR_ELEMENTS(i, j) {
            const i64 e = column + 16 * j;
            if (WANTS(0) && row + i < rows && e0 + e < VALUE_DEPTH) ROWS(MADE_0, n, h, i0 + row + i)
            [(e0 + e) * ALONG(MADE_0)] = sum[row + i] == 0 ? 0 : out[i][j] / sum[row + i];
        }
        if (WANTS(1) && !part && thread < rows)
            *ROWS(MADE_1, n, h, i0 + thread) = sum[thread] == 0 ? 0 : top[thread] + LOG(sum[thread]);
        BARRIER();
    }
}
#else
KERNEL(256) bti_attend_means(MEMORIES) {
    for (i64 unit = (i64)GROUP * 256 + THREAD; unit < UNITS; unit += (i64)GROUPS * 256) {
        const i64 head = unit / QUERIES, i = unit - head * QUERIES, n = head / HEADS, h = head - n * HEADS;
        GLOBAL T *out = ROWS(MADE_0, n, h, i);
        GLOBAL T *slope = ROWS(SLOPE, n, h, i);
        T mean = 0;
        for (i64 e = 0; e < VALUE_DEPTH; e++) mean += out[e * ALONG(MADE_0)] * slope[e * ALONG(SLOPE)];
        MEANS[unit] = mean;
    }
}

/* Weights of a tile of scores, and what flows into the products of q and k. */
#define WEIGHT(product, n, h, i, j, reach) EXP(SCORE(product, n, h, i, j, reach) - *ROWS(LSE, n, h, i))
#define SLOPE_OF(weight, given, n, h, i) ((weight) * ((given)-MEANS[((n)*HEADS + (h)) * QUERIES + (i)]) * SCALE)

KERNEL_ALONE(256) bti_attend_queries(MEMORIES) {
    LOCAL_ARRAY T a[STEP][SIDE + 1];
    LOCAL_ARRAY T b[STEP][SIDE + 1];
    LOCAL_ARRAY T tile[SIDE][SIDE + 1];
    const i64 blocks = (QUERIES + SIDE - 1) / SIDE, parts = (DEPTH + SIDE - 1) / SIDE;
    const i32 thread = (i32)THREAD, row = thread / 16 * EACH, column = thread % 16;
    for (i64 unit = GROUP; unit < UNITS; unit += GROUPS) {
        const i64 part = unit % parts, block = unit / parts, head = block / blocks, i0 = (block - head * blocks) * SIDE;
        const i64 n = head / HEADS, h = head - n * HEADS, length = LENGTH_OF(n);
        const i64 rows = least(QUERIES - i0, SIDE), reach = REACH_OF(length, i0 + rows - 1), e0 = part * SIDE;
        GLOBAL T *q = ROWS(Q, n, h, i0);
        GLOBAL T *slope = ROWS(SLOPE, n, h, i0);
        T made[EACH][EACH], score[EACH][EACH], given[EACH][EACH];
        FOR_ELEMENTS(i, j) made[i][j] = 0;
        for (i64 j0 = 0; j0 < reach; j0 += SIDE) {
            GLOBAL T *k = ROWS(K, n, h / SHARED, j0);
            GLOBAL T *v = ROWS(V, n, h / SHARED, j0);
            const i64 keys = least(reach - j0, SIDE);
            PRODUCT(score, q, Q, rows, k, K, keys, DEPTH);
            PRODUCT(given, slope, SLOPE, rows, v, V, keys, VALUE_DEPTH);
            FOR_ELEMENTS(i, j) {
                const i64 at = i0 + row + i, key = j0 + column + 16 * j;
                T weight = 0;
                if (row + i < rows && key < REACH_OF(length, at))
                    weight = SLOPE_OF(WEIGHT(score[i][j], n, h, at, key, key + 1), given[i][j], n, h, at);
                tile[row + i][column + 16 * j] = weight;
            }
            BARRIER();
            ADD_TILE(made, k + e0 * ALONG(K), K, keys, DEPTH - e0);
        }
        FOR_ELEMENTS(i, j) {
            const i64 e = e0 + column + 16 * j;
            if (row + i < rows && e < DEPTH) ROWS(MADE_0, n, h, i0 + row + i)[e * ALONG(MADE_0)] = made[i][j];
        }
    }
}

KERNEL_ALONE(256) bti_attend_keys(MEMORIES) {
    LOCAL_ARRAY T a[STEP][SIDE + 1];
    LOCAL_ARRAY T b[STEP][SIDE + 1];
    LOCAL_ARRAY T tile[SIDE][SIDE + 1];
    const i64 widest = DEPTH > VALUE_DEPTH ? DEPTH : VALUE_DEPTH, of_keys = HEADS / SHARED;
    const i64 blocks = (KEYS + SIDE - 1) / SIDE, parts = (widest + SIDE - 1) / SIDE;
    const i32 thread = (i32)THREAD, row = thread / 16 * EACH, column = thread % 16;
    for (i64 unit = GROUP; unit < UNITS; unit += GROUPS) {
        const i64 part = unit % parts, block = unit / parts, head = block / blocks, j0 = (block - head * blocks) * SIDE;
        const i64 n = head / of_keys, g = head - n * of_keys, length = LENGTH_OF(n);
        const i64 keys = least(length - j0, SIDE), e0 = part * SIDE;
        GLOBAL T *k = ROWS(K, n, g, j0);
        GLOBAL T *v = ROWS(V, n, g, j0);
        T of_k[EACH][EACH], of_v[EACH][EACH], score[EACH][EACH], given[EACH][EACH];
        FOR_ELEMENTS(i, j) of_k[i][j] = of_v[i][j] = 0;
        i64 first = 0; /* queries before it read none of the keys */
        while (first < QUERIES && REACH_OF(length, least(first + SIDE, QUERIES) - 1) <= j0) first += SIDE;
        for (i64 h = g * SHARED; h < (g + 1) * SHARED; h++)
            for (i64 i0 = first; i0 < QUERIES; i0 += SIDE) {
                GLOBAL T *q = ROWS(Q, n, h, i0);
                GLOBAL T *slope = ROWS(SLOPE, n, h, i0);
                const i64 rows = least(QUERIES - i0, SIDE);
                PRODUCT(score, k, K, keys, q, Q, rows, DEPTH);
                FOR_ELEMENTS(i, j) {
                    const i64 key = j0 + row + i, at = i0 + column + 16 * j;
                    T weight = 0;
                    if (column + 16 * j < rows && key < REACH_OF(length, at))
                        weight = WEIGHT(score[i][j], n, h, at, key, key + 1);
                    tile[row + i][column + 16 * j] = weight;
                }
                BARRIER();
                ADD_TILE(of_v, slope + e0 * ALONG(SLOPE), SLOPE, rows, VALUE_DEPTH - e0);
                PRODUCT(given, v, V, keys, slope, SLOPE, rows, VALUE_DEPTH);
                FOR_ELEMENTS(i, j) {
                    const i64 key = j0 + row + i, at = i0 + column + 16 * j;
                    T change = 0;
                    if (column + 16 * j < rows && key < REACH_OF(length, at))
                        change = SLOPE_OF(tile[row + i][column + 16 * j], given[i][j], n, h, at);
                    tile[row + i][column + 16 * j] = change;
                }
                BARRIER();
                ADD_TILE(of_k, q + e0 * ALONG(Q), Q, rows, DEPTH - e0);
            }
        FOR_ELEMENTS(i, j) {
            const i64 key = j0 + row + i, e = e0 + column + 16 * j;
            if (WANTS(0) && key < KEYS && e < DEPTH) ROWS(MADE_0, n, g, key)[e * ALONG(MADE_0)] = of_k[i][j];
            if (WANTS(1) && key < KEYS && e < VALUE_DEPTH) ROWS(MADE_1, n, g, key)[e * ALONG(MADE_1)] = of_v[i][j];
        }
    }
}
#endif
