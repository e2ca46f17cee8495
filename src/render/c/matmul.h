/* Matrix products [batch][M][K] x [batch][K][N]: a group has a tile of 64 x 64 of the output and goes along K in steps of 16;
 * a thread has 4 x 4 elements. Sums of a step are added to the totals, so errors grow with 16 + K / 16; M, N and K alone decide
 * the order. Strides count elements.
 *     bti_matmul   memories a, b; words: their addresses, units (tiles), batch, M, N, K, strides of a (batch, row, column), b; then what STORE_TILE
 *                  needs, which stores the tile's totals, and MEMORIES, WORDS and W; T is an element, SUM what sums are held in. A unit: a
 *                  tile, for a group */
#define SIDE 64
#define STEP 16
#define EACH 4

/* Alone: a thread keeps 16 sums and the 8 numbers that it loads ahead; with half the registers it would spill them. */
KERNEL_ALONE(256) bti_matmul(MEMORY(0) MEMORY(1) MEMORIES WORDS) {
    LOCAL_ARRAY SUM a[STEP][SIDE + 1];
    LOCAL_ARRAY SUM b[STEP][SIDE + 1];
    const i64 rows = W(4), columns = W(5), depth = W(6);
    const i64 across = (columns + SIDE - 1) / SIDE, down = (rows + SIDE - 1) / SIDE;
    const i32 thread = (i32)THREAD, row = thread / 16 * EACH, column = thread % 16;
    for (i64 unit = GROUP; unit < W(2); unit += GROUPS) {
        const i64 matrix = unit / (across * down), tile = unit - matrix * across * down;
        const i64 i0 = tile / across * SIDE, j0 = tile % across * SIDE;
        GLOBAL T *from_a = (GLOBAL T *)ADDRESS(0, 0) + matrix * W(7);
        GLOBAL T *from_b = (GLOBAL T *)ADDRESS(1, 1) + matrix * W(10);
        SUM total[EACH][EACH];
        UNROLL
        for (i32 i = 0; i < EACH; i++)
            for (i32 j = 0; j < EACH; j++) total[i][j] = 0;
        for (i64 k0 = 0; k0 < depth; k0 += STEP) {
            UNROLL
            for (i32 part = 0; part < SIDE * STEP / 256; part++) {
                const i32 at = thread + part * 256;
                const u32 a_is_deep = W(9) == 1; /* its elements lie one after the other along K */
                const i32 ai = a_is_deep ? at / STEP : at % SIDE, ak = a_is_deep ? at % STEP : at / SIDE;
                const u32 b_is_deep = W(11) == 1;
                const i32 bj = b_is_deep ? at / STEP : at % SIDE, bk = b_is_deep ? at % STEP : at / SIDE;
                const u32 a_inside = i0 + ai < rows && k0 + ak < depth, b_inside = j0 + bj < columns && k0 + bk < depth;
                a[ak][ai] = a_inside ? VALUE(from_a[(i0 + ai) * W(8) + (k0 + ak) * W(9)]) : 0;
                b[bk][bj] = b_inside ? VALUE(from_b[(k0 + bk) * W(11) + (j0 + bj) * W(12)]) : 0;
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
        STORE_TILE;
    }
}
