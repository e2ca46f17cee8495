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
    LOCAL_ARRAY f32 tile0[4160];
    const i32 crossed0 = W(4) != 4;
    const i32 slow = (i32)(THREAD / 64), fast = (i32)(THREAD & 63);
    const i64 down = (W(0) + 63) / 64, across = (W(1) + 63) / 64;
    const i32 mirrored = down == across && (W(2) == W(5));
    const i64 units = down * across * 1;
    for (i64 unit = GROUP; unit < units; unit += GROUPS) {
        i64 rest = unit;
        const i64 above = divided(rest, across);
        i64 tile_across = rest - above * across;
        rest = divided(above, down);
        i64 tile_down = above - rest * down;
        if (mirrored) {
            const i64 number = tile_down * across + tile_across;
            i64 larger = (i64)sqrt((f32)number);
            for (; larger * larger > number;) larger--;
            for (; (larger + 1) * (larger + 1) <= number;) larger++;
            const i64 of = number - larger * larger;
            tile_down = of & 1 ? of >> 1 : larger, tile_across = of & 1 ? larger : of >> 1;
        }
        const i64 c1 = tile_across * 64, c0 = tile_down * 64;
        const i32 rows = (i32)least(64, W(0) - c0), columns = (i32)least(64, W(1) - c1);
        GLOBAL u8 *a0 = ADDRESS(0, 2) + c0 * W(3) + c1 * W(4);
        GLOBAL u8 *a1 = ADDRESS(1, 5) + c0 * W(6) + c1 * 4;
        GLOBAL u8 *a2 = ADDRESS(2, 8) + c0 * W(9) + c1 * 4;
        {
            const i64 fast_stride = crossed0 ? W(3) : W(4), slow_stride = crossed0 ? W(4) : W(3);
            const i32 at = crossed0 ? slow * 65 + fast : fast * 65 + slow, step = crossed0 ? 260 : 4;
            const i32 extent = crossed0 ? columns : rows, inside = fast < (crossed0 ? rows : columns);
            const i32 end = inside ? extent - slow : 0;
            GLOBAL u8 *p = a0 + fast * fast_stride + slow * slow_stride;
            f32 x[16];
            UNROLL
            for (i32 k = 0; k < 16; k++) {
                x[k] = 4 * k < end ? *(GLOBAL f32 *)(p + k * (4 * slow_stride)) : 0;
            }
            UNROLL
            for (i32 k = 0; k < 16; k++) {
                tile0[at + k * step] = x[k];
            }
        }
        const i32 end = fast < columns ? rows - slow : 0;
        GLOBAL u8 *d1 = a1 + slow * W(6) + fast * W(7);
        const i64 s1 = 4 * W(6);
        GLOBAL u8 *d2 = a2 + slow * W(9) + fast * W(10);
        const i64 s2 = 4 * W(9);
        const i32 first = 0;
        f32 x1[16];
        UNROLL
        for (i32 k = 0; k < 16; k++) {
            if (4 * (first + k) >= end) continue;
            GLOBAL u8 *e1 = d1 + (first + k) * s1;
            x1[k] = *(GLOBAL f32 *)e1;
        }
        BARRIER();
        UNROLL
        for (i32 k = 0; k < 16; k++) {
            if (4 * (first + k) >= end) continue;
            GLOBAL u8 *e2 = d2 + (first + k) * s2;
            const f32 v0 = tile0[fast * 65 + slow + 4 * (first + k)];
            const f32 v1 = x1[k];
            const f32 v2 = add_f32(v0, v1);
            *(GLOBAL f32 *)e2 = v2;
        }
        BARRIER();
    }
}
