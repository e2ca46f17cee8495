FUNCTION f32 add_f32(f32 x, f32 y) {
    typedef f32 REAL;
    return (f32)(x + y);
}

struct bti_run_words { i64 at[14]; };
#define W(number) words.at[number]
KERNEL(256) bti_run(MEMORY(0) MEMORY(1) MEMORY(2) MEMORY(3) const struct bti_run_words words) {
    const i64 v2 = (i64)(W(12));
    const i64 v3 = (i64)(W(13));
    const i64 units = W(0) * W(1);
    for (i64 unit = (i64)GROUP * THREADS + THREAD; unit < units; unit += (i64)GROUPS * THREADS) {
        i64 rest = unit;
        const i64 r1 = divided(rest, W(1)), c1 = rest - r1 * W(1);
        rest = r1;
        const i64 c0 = rest;
        GLOBAL u8 *a0 = ADDRESS(0, 2) + c0 * W(3);
        GLOBAL u8 *a1 = ADDRESS(1, 4) + c0 * W(5) + c1 * 4;
        GLOBAL u8 *a2 = ADDRESS(2, 7) + c1 * 4;
        GLOBAL u8 *a3 = ADDRESS(3, 9) + c0 * W(10) + c1 * 4;
        const i32 v0 = *(GLOBAL i32 *)a0;
        const f32 v1 = *(GLOBAL f32 *)a1;
        const i64 row4 = place_of(v0, v2);
        const f32 v4 = (row4 < 0 ? (f32)f32_of_bits(0x7fc00000) : *(GLOBAL f32 *)(a2 + row4 * v3));
        const f32 v5 = add_f32(v4, v1);
        *(GLOBAL f32 *)a3 = v5;
    }
}

struct bti_run_wide_words { i64 at[14]; };
KERNEL(256) bti_run_wide(MEMORY(0) MEMORY(1) MEMORY(2) MEMORY(3) const struct bti_run_wide_words words) {
    const i64 v2 = (i64)(W(12));
    const i64 v3 = (i64)(W(13));
    const i64 pieces = (W(1) + 3) / 4;
    const i64 units = pieces * W(0);
    for (i64 unit = (i64)GROUP * THREADS + THREAD; unit < units; unit += (i64)GROUPS * THREADS) {
        i64 rest = unit;
        const i64 before = divided(rest, pieces), c1 = (rest - before * pieces) * 4;
        rest = before;
        const i64 c0 = rest;
        const i32 count = (i32)least(4, W(1) - c1), full = count == 4;
        GLOBAL u8 *a0 = ADDRESS(0, 2) + c0 * W(3);
        GLOBAL u8 *a1 = ADDRESS(1, 4) + c0 * W(5) + c1 * 4;
        GLOBAL u8 *a2 = ADDRESS(2, 7) + c1 * 4;
        GLOBAL u8 *a3 = ADDRESS(3, 9) + c0 * W(10) + c1 * 4;
        const i32 x0 = *(GLOBAL i32 *)a0;
        union { uint4 all; f32 at[4]; } x1;
        if (full)
            x1.all = *(GLOBAL uint4 *)a1;
        else
            UNROLL for (i32 k = 0; k < 4; k++) x1.at[k] = k < count ? ((GLOBAL f32 *)a1)[k] : 0;
        const i64 row4 = place_of(x0, v2);
        union { uint4 all; f32 at[4]; } x4;
        if (full && row4 >= 0)
            x4.all = *(GLOBAL uint4 *)(a2 + row4 * v3);
        else
            UNROLL for (i32 k = 0; k < 4; k++) x4.at[k] = k < count ? (row4 < 0 ? (f32)f32_of_bits(0x7fc00000) : ((GLOBAL f32 *)(a2 + row4 * v3))[k]) : 0;
        union { uint4 all; f32 at[4]; } y3;
        UNROLL
        for (i32 k = 0; k < 4; k++) {
            const i32 v0 = x0;
            const f32 v1 = x1.at[k];
            const f32 v4 = x4.at[k];
            const f32 v5 = add_f32(v4, v1);
            y3.at[k] = v5;
        }
        if (full)
            *(GLOBAL uint4 *)a3 = y3.all;
        else
            UNROLL for (i32 k = 0; k < 4; k++) if (k < count) ((GLOBAL f32 *)a3)[k] = y3.at[k];
    }
}
