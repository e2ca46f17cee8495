FUNCTION f32 add_f32(f32 x, f32 y) {
    typedef f32 REAL;
    return (f32)(x + y);
}

struct bti_run_words { i64 at[11]; };
#define W(number) words.at[number]
KERNEL(256) bti_run(MEMORY(0) MEMORY(1) MEMORY(2) const struct bti_run_words words) {
    const i64 units = W(0) * W(1);
    for (i64 unit = (i64)GROUP * THREADS + THREAD; unit < units; unit += (i64)GROUPS * THREADS) {
        i64 rest = unit;
        const i64 r1 = divided(rest, W(1)), c1 = rest - r1 * W(1);
        rest = r1;
        const i64 c0 = rest;
        GLOBAL u8 *a0 = ADDRESS(0, 2) + c0 * W(3) + c1 * W(4);
        GLOBAL u8 *a1 = ADDRESS(1, 5) + c0 * W(6) + c1 * 4;
        GLOBAL u8 *a2 = ADDRESS(2, 8) + c0 * W(9) + c1 * 4;
        const f32 v0 = *(GLOBAL f32 *)a0;
        const f32 v1 = *(GLOBAL f32 *)a1;
        const f32 v2 = add_f32(v0, v1);
        *(GLOBAL f32 *)a2 = v2;
    }
}

struct bti_run_tiled_words { i64 at[11]; };
KERNEL(256) bti_run_tiled(MEMORY(0) MEMORY(1) MEMORY(2) const struct bti_run_tiled_words words) {
    LOCAL_ARRAY f32 tile0[1056];
    const i32 crossed0 = W(4) != 4;
    const i64 down = (W(0) + 31) / 32, across = (W(1) + 31) / 32;
    const i64 units = down * across * 1;
    for (i64 unit = GROUP; unit < units; unit += GROUPS) {
        i64 rest = unit;
        const i64 above = divided(rest, across), c1 = (rest - above * across) * 32;
        rest = divided(above, down);
        const i64 c0 = (above - rest * down) * 32;
        GLOBAL u8 *a0 = ADDRESS(0, 2) + c0 * W(3) + c1 * W(4);
        GLOBAL u8 *a1 = ADDRESS(1, 5) + c0 * W(6) + c1 * 4;
        GLOBAL u8 *a2 = ADDRESS(2, 8) + c0 * W(9) + c1 * 4;
        UNROLL
        for (i32 k = 0; k < 4; k++) {
            const i32 slow = (i32)(THREAD / 32) + 8 * k, fast = (i32)(THREAD & 31);
            const i32 row = crossed0 ? fast : slow, column = crossed0 ? slow : fast;
            if (c0 + row >= W(0) || c1 + column >= W(1)) continue;
            tile0[column * 33 + row] = *(GLOBAL f32 *)(a0 + row * W(3) + column * W(4));
        }
        BARRIER();
        UNROLL
        for (i32 k = 0; k < 4; k++) {
            const i32 row = (i32)(THREAD / 32) + 8 * k, column = (i32)(THREAD & 31);
            if (c0 + row >= W(0) || c1 + column >= W(1)) continue;
            GLOBAL u8 *e1 = a1 + row * W(6) + column * W(7);
            GLOBAL u8 *e2 = a2 + row * W(9) + column * W(10);
            const f32 v0 = tile0[column * 33 + row];
            const f32 v1 = *(GLOBAL f32 *)e1;
            const f32 v2 = add_f32(v0, v1);
            *(GLOBAL f32 *)e2 = v2;
        }
        BARRIER();
    }
}
