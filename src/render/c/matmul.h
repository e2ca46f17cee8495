/* Matrix products [batch][M][K] x [batch][K][N]: a group has a tile of 64 x 64 of the output and goes along K in steps of 16;
 * a thread has 4 x 4 elements. Sums of a step are added to the totals, so errors grow with 16 + K / 16; M, N and K alone decide
 * the order. Strides count elements.
 *     bti_matmul   memories y, a, b; words: units (tiles), batch, M, N, K, strides of y (batch, row, column), a, b; T is an
 *                  element, SUM what sums are held in. A unit: a tile, for a group */
struct words17 {
    i64 at[17];
};
#define W(number) words.at[number]
#define SIDE 64
#define STEP 16
#define EACH 4

/* Alone: a thread keeps 16 sums and the 8 numbers that it loads ahead; with half the registers it would spill them. */
KERNEL_ALONE(256) bti_matmul(MEMORY(0) MEMORY(1) MEMORY(2) const struct words17 words) {
    LOCAL_ARRAY SUM a[STEP][SIDE + 1];
    LOCAL_ARRAY SUM b[STEP][SIDE + 1];
    const i64 rows = W(5), columns = W(6), depth = W(7);
    const i64 across = (columns + SIDE - 1) / SIDE, down = (rows + SIDE - 1) / SIDE;
    const i32 thread = (i32)THREAD, row = thread / 16 * EACH, column = thread % 16;
    for (i64 unit = GROUP; unit < W(3); unit += GROUPS) {
        const i64 matrix = unit / (across * down), tile = unit - matrix * across * down;
        const i64 i0 = tile / across * SIDE, j0 = tile % across * SIDE;
        GLOBAL T *y = (GLOBAL T *)ADDRESS(0, 0) + matrix * W(8);
        GLOBAL T *from_a = (GLOBAL T *)ADDRESS(1, 1) + matrix * W(11);
        GLOBAL T *from_b = (GLOBAL T *)ADDRESS(2, 2) + matrix * W(14);
        SUM total[EACH][EACH];
        UNROLL
        for (i32 i = 0; i < EACH; i++)
            for (i32 j = 0; j < EACH; j++) total[i][j] = 0;
        for (i64 k0 = 0; k0 < depth; k0 += STEP) {
            UNROLL
            for (i32 part = 0; part < SIDE * STEP / 256; part++) {
                const i32 at = thread + part * 256;
                const u32 a_is_deep = W(13) == 1; /* its elements lie one after the other along K */
                const i32 ai = a_is_deep ? at / STEP : at % SIDE, ak = a_is_deep ? at % STEP : at / SIDE;
                const u32 b_is_deep = W(15) == 1;
                const i32 bj = b_is_deep ? at / STEP : at % SIDE, bk = b_is_deep ? at % STEP : at / SIDE;
                const u32 a_inside = i0 + ai < rows && k0 + ak < depth, b_inside = j0 + bj < columns && k0 + bk < depth;
                a[ak][ai] = a_inside ? VALUE(from_a[(i0 + ai) * W(12) + (k0 + ak) * W(13)]) : 0;
                b[bk][bj] = b_inside ? VALUE(from_b[(k0 + bk) * W(15) + (j0 + bj) * W(16)]) : 0;
            }
            BARRIER();
            SUM sum[EACH][EACH];
            UNROLL
            for (i32 i = 0; i < EACH; i++)
                for (i32 j = 0; j < EACH; j++) sum[i][j] = 0;
            UNROLL
            for (i32 k = 0; k < STEP; k++)
                for (i32 i = 0; i < EACH; i++)
                    for (i32 j = 0; j < EACH; j++) sum[i][j] = MADE(sum[i][j], a[k][row + i], b[k][column + 16 * j]);
            UNROLL
            for (i32 i = 0; i < EACH; i++)
                for (i32 j = 0; j < EACH; j++) total[i][j] += sum[i][j];
            BARRIER();
        }
        UNROLL
        for (i32 i = 0; i < EACH; i++)
            for (i32 j = 0; j < EACH; j++) {
                const i64 at_row = i0 + row + i, at_column = j0 + column + 16 * j;
                if (at_row < rows && at_column < columns) y[at_row * W(9) + at_column * W(10)] = STORED(total[i][j]);
            }
    }
}
