/* Attention (ir/attention.h): a group has ROWS queries, or keys, in local memory and goes through tiles of COLUMNS keys, or queries. A thread has EACH_ROWS x EACH_COLUMNS scores,
 * and of each of its rows the same share of what is made; ACROSS threads that step together have a row. What is fetched for the next tile is on its way meanwhile.
 * Sizes alone decide the order of sums. T is an element, VEC 16 bytes of VECTOR elements; GROUP_THREADS, ACROSS, EACH_ROWS,
 * EACH_COLUMNS, SPAN (elements of a depth that are in local memory), WIDTH (columns that a group makes; SPAN where there are gradients), SCALE, LEAST (-inf), LOG2E, LN2, EXP2, LOG, FMA and
 * which text is wanted are defined before.
 *     bti_attend          ATTEND: out and lse; a unit: ROWS queries of a head, a part of the keys, WIDTH columns of out. PACKED: rows are the queries of all heads that share keys
 *     bti_attend_join     JOIN: out and lse of those of the parts, which are lse and slope; a unit: an element of out, for a thread
 *     bti_attend_means    MEANS: by query, the mean of what values give by the weights: out . slope; a unit: one, for 16 threads
 *     bti_attend_queries  QUERIES_SLOPE: the gradient of q; a unit: ROWS queries of a head, and WIDTH columns
 *     bti_attend_keys     KEYS_SLOPE: those of k and v; a unit: ROWS keys of a head, and WIDTH columns of both
 * Words: 10 addresses (results 0 and 1, q, k, v, lengths, mask, lse, slope, means; of bti_attend_means result 0 is out); units, heads, heads that share keys, queries,
 * keys, depth, depth of values, scale, what is read (0 all, 1 from the start, 2 from the end), kind of mask (0 none, 1 bool, 2 added), whether there are lengths, which results
 * are wanted (bits); strides of results 0 and 1, q, k, v, lengths, mask, lse, slope; parts of the keys, keys of a part, from a part to the next of results 0 and 1 (of bti_attend_join: of slope and lse),
 * which operands have rows of whole VEC (bits, by the number of the address), the order of blocks (0 as they lie, 1 from the last, 2 those from the last first, then those from the first). */
struct words {
    i64 at[60];
};
#define W(number) words.at[number]
#define MEMORIES \
    MEMORY(0)    \
    MEMORY(1) MEMORY(2) MEMORY(3) MEMORY(4) MEMORY(5) MEMORY(6) MEMORY(7) MEMORY(8) MEMORY(9)
#define WORDS const struct words words
#define UNITS W(10)
#define HEADS W(11)
#define SHARED W(12)
#define QUERIES W(13)
#define KEYS W(14)
#define DEPTH W(15)
#define VALUE_DEPTH W(16)
#define WANTS(result) (W(21) >> (result)&1)
#define PARTS W(54)
#define PART_KEYS W(55)

/* Rows from i on of a head; the numbers of an operand's address and of its first stride. */
#define MADE_0 0, 22
#define MADE_1 1, 26
#define Q 2, 30
#define K 3, 34
#define V 4, 38
#define LSE 7, 47
#define SLOPE 8, 50
#define ROWS_AT(...) ROWS_AT_OF(__VA_ARGS__)
#define ROWS_AT_OF(address, stride, n, h, i) \
    ((GLOBAL T *)ADDRESS(address, address) + (n)*W(stride) + (h)*W(stride + 1) + (i)*W(stride + 2))
#define BESIDE(...) BESIDE_OF(__VA_ARGS__)
#define BESIDE_OF(address, stride) W(stride + 1)
#define DOWN(...) DOWN_OF(__VA_ARGS__)
#define DOWN_OF(address, stride) W(stride + 2)
#define ALONG(...) ALONG_OF(__VA_ARGS__)
#define ALONG_OF(address, stride) W(stride + 3)
#define IS_WIDE(...) IS_WIDE_OF(__VA_ARGS__)
#define IS_WIDE_OF(address, stride) (W(58) >> (address)&1)
#define MEANS_AT(n, h, i) ((GLOBAL T *)ADDRESS(9, 9))[((n)*HEADS + (h)) * QUERIES + (i)]

/* How many keys of a batch there are, and how many of them a query reads. */
#define LENGTH_OF(n) (W(20) ? within(((GLOBAL i32 *)ADDRESS(5, 5))[(n)*W(42)], KEYS) : KEYS)
#define REACH_OF(length, i) (W(18) == 0 ? (length) : within(W(18) == 1 ? (i) + 1 : (length)-QUERIES + (i) + 1, length))
FUNCTION i64 within(i64 x, i64 most) { return x < 0 ? 0 : x < most ? x : most; }
FUNCTION i64 pieces(i64 count, i64 of) { return divided(count + of - 1, of); }

#define FOR(i, count) \
    UNROLL            \
    for (i32 i = 0; i < (count); i++)

#if defined(JOIN)
KERNEL(256) bti_attend_join(MEMORIES WORDS) {
    for (i64 unit = (i64)GROUP * 256 + THREAD; unit < UNITS; unit += (i64)GROUPS * 256) {
        const i64 e = unit % VALUE_DEPTH, line = unit / VALUE_DEPTH, head = line / QUERIES, i = line - head * QUERIES;
        const i64 n = head / HEADS, h = head - n * HEADS;
        GLOBAL const T *lse = ROWS_AT(LSE, n, h, i);
        GLOBAL const T *out = ROWS_AT(SLOPE, n, h, i) + e;
        T most = LEAST, sum = 0, made = 0;
        UNROLL_8
        for (i64 part = 0; part < PARTS; part++) most = lse[part * W(57)] > most ? lse[part * W(57)] : most;
        const T below = most == LEAST ? 0 : most;
        UNROLL_8
        for (i64 part = 0; part < PARTS; part++) {
            const T share = EXP2((lse[part * W(57)] - below) * LOG2E);
            sum += share;
            made = FMA(share, out[part * W(56)], made);
        }
        if (WANTS(0)) ROWS_AT(MADE_0, n, h, i)[e * ALONG(MADE_0)] = sum == 0 ? 0 : made / sum;
        if (WANTS(1) && e == 0) *ROWS_AT(MADE_1, n, h, i) = sum == 0 ? 0 : most + LOG(sum);
    }
}
#elif defined(MEANS)
KERNEL(256) bti_attend_means(MEMORIES WORDS) {
    LOCAL_ARRAY T share[256];
    const i32 thread = (i32)THREAD, part = thread % 16;
    for (i64 first = (i64)GROUP * 16; first < UNITS; first += (i64)GROUPS * 16) {
        const i64 unit = first + thread / 16, head = unit / QUERIES, i = unit - head * QUERIES;
        const i64 n = head / HEADS, h = head - n * HEADS;
        T mean = 0;
        if (unit < UNITS) {
            GLOBAL const T *out = ROWS_AT(MADE_0, n, h, i);
            GLOBAL const T *slope = ROWS_AT(SLOPE, n, h, i);
            for (i64 e = part; e < VALUE_DEPTH; e += 16)
                mean = FMA(out[e * ALONG(MADE_0)], slope[e * ALONG(SLOPE)], mean);
        }
        share[thread] = mean;
        BARRIER();
        if (part == 0 && unit < UNITS) {
            mean = 0;
            for (i32 other = 0; other < 16; other++) mean += share[thread + other];
            ((GLOBAL T *)ADDRESS(9, 9))[unit] = mean;
        }
        BARRIER();
    }
}
#else

#define LINES (GROUP_THREADS / ACROSS) /* of threads */
#define ROWS (LINES * EACH_ROWS)
#define COLUMNS (ACROSS * EACH_COLUMNS)
#define OUTS (WIDTH / ACROSS / VECTOR) /* VEC that a thread makes of a row */
/* The rows and columns of a thread; elements from a line to the next, so that threads meet in no bank. */
#define ROW(i) (row + LINES * (i))
#define COLUMN(j) (column + ACROSS * (j))
#define OUT(h) ((column + ACROSS * (h)) * VECTOR)
#define PITCH (SPAN + VECTOR)
#define TILE_PITCH (COLUMNS + ACROSS)

#if VECTOR == 4
#define FETCH_ONE FETCH4
#define SPREAD_MORE(to, from) , (to)[2] = (from).z, (to)[3] = (from).w
#define GATHER_MORE(to, from) , (to).z = (from)[2], (to).w = (from)[3]
#else
#define FETCH_ONE FETCH8
#define SPREAD_MORE(to, from)
#define GATHER_MORE(to, from)
#endif
/* 16 bytes from local memory to an array of VECTOR; from one to memory. */
#define SPREAD(to, from)                                       \
    do {                                                       \
        const VEC all = *(const LOCAL VEC *)(from);            \
        (to)[0] = all.x, (to)[1] = all.y SPREAD_MORE(to, all); \
    } while (0)
#define STORE_VEC(to, from)                                          \
    do {                                                             \
        VEC all;                                                     \
        all.x = (from)[0], all.y = (from)[1] GATHER_MORE(all, from); \
        *(GLOBAL VEC *)(to) = all;                                   \
    } while (0)

#ifdef PACKED /* one warp alone fetches a tile */
#define FETCH_UNROLL UNROLL_4
#else
#define FETCH_UNROLL NO_UNROLL
#endif
/* Fetches `lines` lines of `across` elements to a tile, of which `count` lines and `width` elements are there, else 0. from: what line `r` of x begins with. */
#define FETCH_TILE(to, pitch, lines, across, from, operand, count, width)                                   \
    do {                                                                                                    \
        const i32 d = thread % ((across) / VECTOR) * VECTOR, there = (i32)within((width)-d, VECTOR);        \
        const i64 along = ALONG(operand);                                                                   \
        const u32 is_wide = IS_WIDE(operand) != 0;                                                          \
        FETCH_UNROLL                                                                                        \
        for (i32 r = thread / ((across) / VECTOR); r < (lines); r += GROUP_THREADS / ((across) / VECTOR)) { \
            const i32 inside = r < (count) ? there : 0;                                                     \
            LOCAL T *place = (to) + r * (pitch) + d;                                                        \
            GLOBAL const T *source = (from) + d * along;                                                    \
            if (is_wide && inside)                                                                          \
                FETCH16(place, source);                                                                     \
            else                                                                                            \
                for (i32 e = 0; e < VECTOR; e++) {                                                          \
                    if (e < inside)                                                                         \
                        FETCH_ONE(place + e, source + e * along);                                           \
                    else                                                                                    \
                        place[e] = 0;                                                                       \
                }                                                                                           \
        }                                                                                                   \
    } while (0)
/* What was fetched is there, for all threads; they are done with what they read before. */
#define MEET()       \
    do {             \
        FETCH_END(); \
        BARRIER();   \
    } while (0)

/* to[i][j] += the sum over d below width of left[ROW(i)][d] * right[COLUMN(j)][d]. */
#define ADD_PRODUCT(to, left, right, width)                                               \
    do {                                                                                  \
        for (i32 d = 0; d < (width); d += VECTOR) {                                       \
            T x[EACH_ROWS][VECTOR], y[VECTOR];                                            \
            FOR(i, EACH_ROWS) SPREAD(x[i], (left) + ROW(i) * PITCH + d);                  \
            FOR(j, EACH_COLUMNS) {                                                        \
                SPREAD(y, (right) + COLUMN(j) * PITCH + d);                               \
                FOR(e, VECTOR) FOR(i, EACH_ROWS) to[i][j] = FMA(x[i][e], y[e], to[i][j]); \
            }                                                                             \
        }                                                                                 \
    } while (0)
/* to[i][..] += the sum over c below count of tile[ROW(i)][c] * x[c][OUT(..)]. */
#define ADD_TILE(to, x, x_pitch, count)                                                                             \
    do {                                                                                                            \
        for (i32 c = 0; c < (count); c += VECTOR) {                                                                 \
            T w[EACH_ROWS][VECTOR], y[VECTOR];                                                                      \
            FOR(i, EACH_ROWS) SPREAD(w[i], tile + ROW(i) * TILE_PITCH + c);                                         \
            FOR(e, VECTOR) FOR(h, OUTS) {                                                                           \
                SPREAD(y, (x) + (c + e) * (x_pitch) + OUT(h));                                                      \
                FOR(f, VECTOR) FOR(i, EACH_ROWS) to[i][h * VECTOR + f] = FMA(w[i][e], y[f], to[i][h * VECTOR + f]); \
            }                                                                                                       \
        }                                                                                                           \
    } while (0)
/* Columns from e0 on of a row of what is made, which begins at `to`, times `by`. */
#define STORE_OUT(to, operand, made, by, e0, width)                                        \
    FOR(h, OUTS) {                                                                         \
        T values[VECTOR];                                                                  \
        const i64 e = (e0) + OUT(h);                                                       \
        FOR(f, VECTOR) values[f] = (made)[h * VECTOR + f] * (by);                          \
        if (IS_WIDE(operand)) {                                                            \
            if (e < (width)) STORE_VEC((to) + e, values);                                  \
        } else                                                                             \
            FOR(f, VECTOR) if (e + f < (width))(to)[(e + f) * ALONG(operand)] = values[f]; \
    }

/* What a mask does to scores, times log2(e), that are read: element by element, through the tile. head, query, key: of row i and column j. */
#define MASK_SCORES(score, head, query, key)                                                        \
    do {                                                                                            \
        FOR(i, EACH_ROWS) FOR(j, EACH_COLUMNS) tile[ROW(i) * TILE_PITCH + COLUMN(j)] = score[i][j]; \
        NO_UNROLL                                                                                   \
        for (i32 one = 0; one < EACH_ROWS * EACH_COLUMNS; one++) {                                  \
            const i32 i = one / EACH_COLUMNS, j = one % EACH_COLUMNS;                               \
            LOCAL T *at = tile + ROW(i) * TILE_PITCH + COLUMN(j);                                   \
            if (*at != LEAST)                                                                       \
                *at = masked(*at, (GLOBAL u8 *)ADDRESS(6, 6), W(19),                                \
                             n * W(43) + (head)*W(44) + (query)*W(45) + (key)*W(46));               \
        }                                                                                           \
        FOR(i, EACH_ROWS) FOR(j, EACH_COLUMNS) score[i][j] = tile[ROW(i) * TILE_PITCH + COLUMN(j)]; \
    } while (0)
FUNCTION T masked(T score, GLOBAL u8 *mask, i64 kind, i64 at) {
    if (kind == 1) return mask[at] ? score : LEAST;
    return FMA(((GLOBAL T *)mask)[at], LOG2E, score);
}
#define SCALE2 (SCALE * LOG2E)

/* Blocks of which the long ones come first: the number of one in that order. */
FUNCTION i64 block_of(i64 number, i64 blocks, i64 order) {
    const i64 middle = (blocks + 1) / 2;
    if (order == 0) return number;
    return order == 1 || number < middle ? blocks - 1 - number : number - middle;
}
#define CLEAR(to, columns) FOR(i, EACH_ROWS) FOR(j, columns) to[i][j] = 0
#define PLACE_OF_THREAD() const i32 thread = (i32)THREAD, row = thread / ACROSS, column = thread % ACROSS

#if defined(ATTEND)
#ifdef PACKED
#define HEAD(r) (h0 + divided(i0 + (r), QUERIES))
#define QUERY(r) ((i0 + (r)) % QUERIES)
#else
#define HEAD(r) h0
#define QUERY(r) (i0 + (r))
#endif
KERNEL_ALONE(GROUP_THREADS) bti_attend(MEMORIES DYNAMIC WORDS) {
    DYNAMIC_BEGIN
    LOCAL T *queries = (LOCAL T *)dynamic;
    LOCAL T *keys = queries + ROWS * PITCH;
    LOCAL T *values = keys + COLUMNS * PITCH;
    LOCAL T *tile = values + COLUMNS * WIDTH;
#ifdef PACKED
    const i64 lines = QUERIES * SHARED, heads = HEADS / SHARED;
#else
    const i64 lines = QUERIES, heads = HEADS;
#endif
    const i64 outs = VALUE_DEPTH > WIDTH ? pieces(VALUE_DEPTH, WIDTH) : 1, blocks = pieces(lines, ROWS);
    const i64 of_block = UNITS / blocks, all_heads = of_block / (outs * PARTS);
    PLACE_OF_THREAD();
    for (i64 unit = GROUP; unit < UNITS; unit += GROUPS) {
        const i64 number = divided(unit, of_block), i0 = block_of(number, blocks, W(59)) * ROWS;
        const i64 rest = unit - number * of_block, one = divided(rest, all_heads), head = rest - one * all_heads;
        const i64 part = divided(one, outs), e0 = (one - part * outs) * WIDTH;
        const i64 n = divided(head, heads), g = head - n * heads, length = LENGTH_OF(n);
        const i32 rows = (i32)least(lines - i0, ROWS);
#ifdef PACKED
        const i64 h0 = g * SHARED, last = QUERIES - 1, k_head = g;
#else
        const i64 h0 = g, last = i0 + rows - 1, k_head = divided(g, SHARED);
#endif
        const i64 begin = part * PART_KEYS, end = least(REACH_OF(length, last), begin + PART_KEYS);
#ifdef PACKED
        const i64 all_read = REACH_OF(length, 0); /* by each row */
#else
        const i64 all_read = REACH_OF(length, i0);
#endif
        GLOBAL const T *q = ROWS_AT(Q, n, 0, 0);
        GLOBAL const T *k = ROWS_AT(K, n, k_head, 0);
        GLOBAL const T *v = ROWS_AT(V, n, k_head, 0) + e0 * ALONG(V);
        T out[EACH_ROWS][OUTS * VECTOR], score[EACH_ROWS][EACH_COLUMNS], top[EACH_ROWS], sum[EACH_ROWS];
        CLEAR(out, OUTS * VECTOR);
        FOR(i, EACH_ROWS) top[i] = LEAST, sum[i] = 0;
#define FETCH_QUERIES(d0)                                                                                         \
    FETCH_TILE(queries, PITCH, ROWS, SPAN, q + HEAD(r) * BESIDE(Q) + QUERY(r) * DOWN(Q) + (d0)*ALONG(Q), Q, rows, \
               DEPTH - (d0))
#define FETCH_KEYS(j0, d0) \
    FETCH_TILE(keys, PITCH, COLUMNS, SPAN, k + ((j0) + r) * DOWN(K) + (d0)*ALONG(K), K, end - (j0), DEPTH - (d0))
        if (begin < end) {
            FETCH_KEYS(begin, 0);
            FETCH_QUERIES(0);
        }
        for (i64 j0 = begin; j0 < end; j0 += COLUMNS) {
            CLEAR(score, EACH_COLUMNS);
            for (i64 d0 = 0; d0 < DEPTH; d0 += SPAN) {
                MEET();
                if (d0 == 0)
                    FETCH_TILE(values, WIDTH, COLUMNS, WIDTH, v + (j0 + r) * DOWN(V), V, end - j0, VALUE_DEPTH - e0);
                ADD_PRODUCT(score, queries, keys, least(DEPTH - d0, SPAN));
                MEET();
                const i64 next_d = d0 + SPAN < DEPTH ? d0 + SPAN : 0, next_j = next_d ? j0 : j0 + COLUMNS;
                if (next_j < end) {
                    FETCH_KEYS(next_j, next_d);
                    if (DEPTH > SPAN) FETCH_QUERIES(next_d);
                }
            }
            if (W(19) == 0 && j0 + COLUMNS <= least(all_read, end))
                FOR(i, EACH_ROWS) FOR(j, EACH_COLUMNS) score[i][j] *= SCALE2;
            else
                FOR(i, EACH_ROWS) {
                    const i64 reach = REACH_OF(length, QUERY(ROW(i)));
                    const i32 ends = ROW(i) < rows ? (i32)within(least(reach, end) - j0, COLUMNS) : 0;
                    FOR(j, EACH_COLUMNS) score[i][j] = COLUMN(j) < ends ? score[i][j] * SCALE2 : LEAST;
                }
            WARP_BARRIER();
            if (W(19)) MASK_SCORES(score, HEAD(ROW(i)), QUERY(ROW(i)), j0 + COLUMN(j));
            FOR(i, EACH_ROWS) {
                T most = score[i][0];
                FOR(j, EACH_COLUMNS) most = score[i][j] > most ? score[i][j] : most;
                tile[ROW(i) * TILE_PITCH + column] = most;
            }
            WARP_BARRIER();
            FOR(i, EACH_ROWS) {
                T most = top[i], mosts[VECTOR];
                FOR(j, ACROSS / VECTOR) {
                    SPREAD(mosts, tile + ROW(i) * TILE_PITCH + j * VECTOR);
                    FOR(e, VECTOR) most = mosts[e] > most ? mosts[e] : most;
                }
                const T below = most == LEAST ? 0 : most, less = EXP2(top[i] - below);
                top[i] = most;
                sum[i] *= less;
                FOR(j, OUTS * VECTOR) out[i][j] *= less;
                FOR(j, EACH_COLUMNS) {
                    score[i][j] = EXP2(score[i][j] - below);
                    sum[i] += score[i][j];
                }
            }
            WARP_BARRIER();
            FOR(i, EACH_ROWS) FOR(j, EACH_COLUMNS) tile[ROW(i) * TILE_PITCH + COLUMN(j)] = score[i][j];
            WARP_BARRIER();
            ADD_TILE(out, values, WIDTH, least(end - j0, COLUMNS));
        }
        WARP_BARRIER();
        FOR(i, EACH_ROWS) tile[ROW(i) * TILE_PITCH + column] = sum[i];
        WARP_BARRIER();
        FOR(i, EACH_ROWS) {
            T all = 0, sums[VECTOR];
            FOR(j, ACROSS / VECTOR) {
                SPREAD(sums, tile + ROW(i) * TILE_PITCH + j * VECTOR);
                FOR(e, VECTOR) all += sums[e];
            }
            if (ROW(i) < rows) {
                const i64 h = HEAD(ROW(i)), at = QUERY(ROW(i));
                GLOBAL T *to = ROWS_AT(MADE_0, n, h, at) + part * W(56);
                const T by = all == 0 ? 0 : 1 / all;
                if (WANTS(0)) STORE_OUT(to, MADE_0, out[i], by, e0, VALUE_DEPTH);
                if (WANTS(1) && e0 == 0 && column == 0) {
                    GLOBAL T *lse = ROWS_AT(MADE_1, n, h, at) + part * W(57);
                    const T nothing = PARTS > 1 ? LEAST : 0;
                    *lse = all == 0 ? nothing : FMA(top[i], LN2, LOG(all));
                }
            }
        }
    }
}
#else

/* The two products of a tile: score of left and right, given of left_2 and right_2; then what scores become weights by, and what flows into q and k. */
#define SLOPE_OF(weight, given, mean) ((weight) * ((given) - (mean)) * SCALE)
#define LOCAL_TILES                                            \
    DYNAMIC_BEGIN                                              \
    LOCAL T *left = (LOCAL T *)dynamic;                        \
    LOCAL T *left_2 = left + ROWS * PITCH;                     \
    LOCAL T *right = left_2 + ROWS * PITCH;                    \
    LOCAL T *right_2 = right + COLUMNS * PITCH;                \
    LOCAL T *tile = right_2 + COLUMNS * PITCH;                 \
    const u32 is_whole = DEPTH <= SPAN && VALUE_DEPTH <= SPAN; \
    const i64 all_width = DEPTH > VALUE_DEPTH ? DEPTH : VALUE_DEPTH

#ifdef QUERIES_SLOPE
KERNEL_ALONE(GROUP_THREADS) bti_attend_queries(MEMORIES DYNAMIC WORDS) {
    LOCAL_TILES;
    const i64 outs = pieces(DEPTH, WIDTH), blocks = pieces(QUERIES, ROWS);
    const i64 of_block = UNITS / blocks, all_heads = of_block / outs;
    PLACE_OF_THREAD();
    for (i64 unit = GROUP; unit < UNITS; unit += GROUPS) {
        const i64 number = divided(unit, of_block), i0 = block_of(number, blocks, W(59)) * ROWS;
        const i64 rest = unit - number * of_block, part = divided(rest, all_heads), head = rest - part * all_heads;
        const i64 n = divided(head, HEADS), h = head - n * HEADS, length = LENGTH_OF(n), e0 = part * WIDTH;
        const i32 rows = (i32)least(QUERIES - i0, ROWS);
        const i64 reach = REACH_OF(length, i0 + rows - 1), all_read = REACH_OF(length, i0);
        GLOBAL const T *q = ROWS_AT(Q, n, h, i0);
        GLOBAL const T *slope = ROWS_AT(SLOPE, n, h, i0);
        GLOBAL const T *k = ROWS_AT(K, n, divided(h, SHARED), 0);
        GLOBAL const T *v = ROWS_AT(V, n, divided(h, SHARED), 0);
        T made[EACH_ROWS][OUTS * VECTOR], lse[EACH_ROWS], mean[EACH_ROWS];
        CLEAR(made, OUTS * VECTOR);
        FOR(i, EACH_ROWS) {
            const u32 inside = ROW(i) < rows;
            lse[i] = inside ? *ROWS_AT(LSE, n, h, i0 + ROW(i)) * LOG2E : 0;
            mean[i] = inside ? MEANS_AT(n, h, i0 + ROW(i)) : 0;
        }
#define FETCH_LEFT(d0) FETCH_TILE(left, PITCH, ROWS, SPAN, q + r * DOWN(Q) + (d0)*ALONG(Q), Q, rows, DEPTH - (d0))
#define FETCH_LEFT_2(d0) \
    FETCH_TILE(left_2, PITCH, ROWS, SPAN, slope + r * DOWN(SLOPE) + (d0)*ALONG(SLOPE), SLOPE, rows, VALUE_DEPTH - (d0))
#define FETCH_RIGHT(j0, d0) \
    FETCH_TILE(right, PITCH, COLUMNS, SPAN, k + ((j0) + r) * DOWN(K) + (d0)*ALONG(K), K, reach - (j0), DEPTH - (d0))
#define FETCH_RIGHT_2(j0, d0)                                                                            \
    FETCH_TILE(right_2, PITCH, COLUMNS, SPAN, v + ((j0) + r) * DOWN(V) + (d0)*ALONG(V), V, reach - (j0), \
               VALUE_DEPTH - (d0))
        BARRIER();
        if (is_whole && reach > 0) {
            FETCH_RIGHT(0, 0);
            FETCH_LEFT(0);
            FETCH_RIGHT_2(0, 0);
            FETCH_LEFT_2(0);
        }
        for (i64 j0 = 0; j0 < reach; j0 += COLUMNS) {
            const u32 fetches = is_whole && j0 + COLUMNS < reach;
            T score[EACH_ROWS][EACH_COLUMNS], given[EACH_ROWS][EACH_COLUMNS];
            CLEAR(score, EACH_COLUMNS);
            CLEAR(given, EACH_COLUMNS);
            MEET();
            for (i64 d0 = 0; d0 < all_width; d0 += SPAN) {
                if (!is_whole) {
                    FETCH_LEFT(d0);
                    FETCH_LEFT_2(d0);
                    FETCH_RIGHT(j0, d0);
                    FETCH_RIGHT_2(j0, d0);
                    MEET();
                }
                ADD_PRODUCT(score, left, right, least(DEPTH - d0, SPAN));
                ADD_PRODUCT(given, left_2, right_2, least(VALUE_DEPTH - d0, SPAN));
                BARRIER();
            }
            if (!is_whole) {
                FETCH_RIGHT(j0, e0);
                MEET();
            }
            if (fetches) FETCH_RIGHT_2(j0 + COLUMNS, 0);
            WARP_BARRIER();
            if (W(19) == 0 && j0 + COLUMNS <= all_read)
                FOR(i, EACH_ROWS) FOR(j, EACH_COLUMNS) score[i][j] = FMA(score[i][j], SCALE2, -lse[i]);
            else {
                FOR(i, EACH_ROWS) {
                    const i64 its_reach = REACH_OF(length, i0 + ROW(i));
                    const i32 ends = ROW(i) < rows ? (i32)within(its_reach - j0, COLUMNS) : 0;
                    FOR(j, EACH_COLUMNS) score[i][j] = COLUMN(j) < ends ? score[i][j] * SCALE2 : LEAST;
                }
                if (W(19)) MASK_SCORES(score, h, i0 + ROW(i), j0 + COLUMN(j));
                FOR(i, EACH_ROWS) FOR(j, EACH_COLUMNS) score[i][j] -= lse[i];
            }
            FOR(i, EACH_ROWS) FOR(j, EACH_COLUMNS) {
                const T change = SLOPE_OF(EXP2(score[i][j]), given[i][j], mean[i]);
                tile[ROW(i) * TILE_PITCH + COLUMN(j)] = change;
            }
            WARP_BARRIER();
            ADD_TILE(made, right, PITCH, least(reach - j0, COLUMNS));
            BARRIER();
            if (fetches) FETCH_RIGHT(j0 + COLUMNS, 0);
        }
        FOR(i, EACH_ROWS) {
            GLOBAL T *to = ROWS_AT(MADE_0, n, h, i0 + ROW(i));
            if (ROW(i) < rows) STORE_OUT(to, MADE_0, made[i], 1, e0, DEPTH);
        }
    }
}
#endif

#ifdef KEYS_SLOPE
KERNEL_ALONE(GROUP_THREADS) bti_attend_keys(MEMORIES DYNAMIC WORDS) {
    LOCAL_TILES;
    const i64 outs = pieces(all_width, WIDTH), blocks = pieces(KEYS, ROWS), of_keys = HEADS / SHARED;
    const i64 of_block = UNITS / blocks, all_heads = of_block / outs;
    PLACE_OF_THREAD();
    for (i64 unit = GROUP; unit < UNITS; unit += GROUPS) {
        const i64 number = divided(unit, of_block), j0 = number * ROWS;
        const i64 rest = unit - number * of_block, part = divided(rest, all_heads), head = rest - part * all_heads;
        const i64 n = divided(head, of_keys), g = head - n * of_keys, length = LENGTH_OF(n), e0 = part * WIDTH;
        const i32 keys = (i32)within(length - j0, ROWS);
        GLOBAL const T *k = ROWS_AT(K, n, g, j0);
        GLOBAL const T *v = ROWS_AT(V, n, g, j0);
        T of_k[EACH_ROWS][OUTS * VECTOR], of_v[EACH_ROWS][OUTS * VECTOR];
        CLEAR(of_k, OUTS * VECTOR);
        CLEAR(of_v, OUTS * VECTOR);
        i64 first = 0; /* queries before it read none of the keys */
        while (first < QUERIES && REACH_OF(length, least(first + COLUMNS, QUERIES) - 1) <= j0) first += COLUMNS;
#define FETCH_LEFT(d0) FETCH_TILE(left, PITCH, ROWS, SPAN, k + r * DOWN(K) + (d0)*ALONG(K), K, keys, DEPTH - (d0))
#define FETCH_LEFT_2(d0) \
    FETCH_TILE(left_2, PITCH, ROWS, SPAN, v + r * DOWN(V) + (d0)*ALONG(V), V, keys, VALUE_DEPTH - (d0))
#define FETCH_RIGHT(h, i0, d0) \
    FETCH_TILE(right, PITCH, COLUMNS, SPAN, ROWS_AT(Q, n, h, (i0) + r) + (d0)*ALONG(Q), Q, QUERIES - (i0), DEPTH - (d0))
#define FETCH_RIGHT_2(h, i0, d0)                                                                         \
    FETCH_TILE(right_2, PITCH, COLUMNS, SPAN, ROWS_AT(SLOPE, n, h, (i0) + r) + (d0)*ALONG(SLOPE), SLOPE, \
               QUERIES - (i0), VALUE_DEPTH - (d0))
        BARRIER();
        if (is_whole && first < QUERIES) {
            FETCH_RIGHT(g * SHARED, first, 0);
            FETCH_LEFT(0);
            FETCH_RIGHT_2(g * SHARED, first, 0);
            FETCH_LEFT_2(0);
        }
        for (i64 h = g * SHARED; h < (g + 1) * SHARED; h++)
            for (i64 i0 = first; i0 < QUERIES; i0 += COLUMNS) {
                const i64 next_i = i0 + COLUMNS < QUERIES ? i0 + COLUMNS : first, next_h = next_i > i0 ? h : h + 1;
                const u32 fetches = is_whole && next_h < (g + 1) * SHARED;
                T score[EACH_ROWS][EACH_COLUMNS], given[EACH_ROWS][EACH_COLUMNS], lse[EACH_COLUMNS], mean[EACH_COLUMNS];
                CLEAR(score, EACH_COLUMNS);
                CLEAR(given, EACH_COLUMNS);
                FOR(j, EACH_COLUMNS) {
                    const i64 at = i0 + COLUMN(j);
                    lse[j] = at < QUERIES ? *ROWS_AT(LSE, n, h, at) * LOG2E : 0;
                    mean[j] = at < QUERIES ? MEANS_AT(n, h, at) : 0;
                }
                MEET();
                for (i64 d0 = 0; d0 < all_width; d0 += SPAN) {
                    if (!is_whole) {
                        FETCH_LEFT(d0);
                        FETCH_LEFT_2(d0);
                        FETCH_RIGHT(h, i0, d0);
                        FETCH_RIGHT_2(h, i0, d0);
                        MEET();
                    }
                    ADD_PRODUCT(score, left, right, least(DEPTH - d0, SPAN));
                    ADD_PRODUCT(given, left_2, right_2, least(VALUE_DEPTH - d0, SPAN));
                    if (!is_whole) BARRIER();
                }
                if (!is_whole) {
                    FETCH_RIGHT(h, i0, e0);
                    FETCH_RIGHT_2(h, i0, e0);
                    MEET();
                }
                WARP_BARRIER();
                if (W(19) == 0 && i0 + COLUMNS <= QUERIES && j0 + ROWS <= REACH_OF(length, i0))
                    FOR(i, EACH_ROWS) FOR(j, EACH_COLUMNS) score[i][j] = FMA(score[i][j], SCALE2, -lse[j]);
                else {
                    FOR(j, EACH_COLUMNS) {
                        const i64 at = i0 + COLUMN(j);
                        const i32 ends = at < QUERIES ? (i32)within(REACH_OF(length, at) - j0, ROWS) : 0;
                        FOR(i, EACH_ROWS) score[i][j] = ROW(i) < ends ? score[i][j] * SCALE2 : LEAST;
                    }
                    if (W(19)) MASK_SCORES(score, h, i0 + COLUMN(j), j0 + ROW(i));
                    FOR(i, EACH_ROWS) FOR(j, EACH_COLUMNS) score[i][j] -= lse[j];
                }
                FOR(i, EACH_ROWS) FOR(j, EACH_COLUMNS) {
                    const T weight = EXP2(score[i][j]);
                    given[i][j] = SLOPE_OF(weight, given[i][j], mean[j]);
                    tile[ROW(i) * TILE_PITCH + COLUMN(j)] = weight;
                }
                WARP_BARRIER();
                ADD_TILE(of_v, right_2, PITCH, least(QUERIES - i0, COLUMNS));
                BARRIER();
                if (fetches) FETCH_RIGHT_2(next_h, next_i, 0);
                FOR(i, EACH_ROWS) FOR(j, EACH_COLUMNS) tile[ROW(i) * TILE_PITCH + COLUMN(j)] = given[i][j];
                WARP_BARRIER();
                ADD_TILE(of_k, right, PITCH, least(QUERIES - i0, COLUMNS));
                BARRIER();
                if (fetches) FETCH_RIGHT(next_h, next_i, 0);
            }
        FOR(i, EACH_ROWS) {
            GLOBAL T *to_k = ROWS_AT(MADE_0, n, g, j0 + ROW(i));
            GLOBAL T *to_v = ROWS_AT(MADE_1, n, g, j0 + ROW(i));
            if (WANTS(0) && j0 + ROW(i) < KEYS) STORE_OUT(to_k, MADE_0, of_k[i], 1, e0, DEPTH);
            if (WANTS(1) && j0 + ROW(i) < KEYS) STORE_OUT(to_v, MADE_1, of_v[i], 1, e0, VALUE_DEPTH);
        }
    }
}
#endif
#endif
#endif
