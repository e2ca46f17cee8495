FUNCTION u32 shr_u32(u32 x, u32 y) {
    typedef i32 INT; typedef u32 UINT; enum { BITS = 32 };
    return (u32)(y < BITS ? x >> y : 0);
}
FUNCTION u32 or_u32(u32 x, u32 y) {
    typedef i32 INT; typedef u32 UINT; enum { BITS = 32 };
    return (u32)(x | y);
}
FUNCTION f32 sub_f32(f32 x, f32 y) {
    typedef f32 REAL;
    return (f32)(x - y);
}

struct bti_run_words { i64 at[11]; };
#define W(number) words.at[number]
KERNEL(256) bti_run(MEMORY(0) MEMORY(1) MEMORY(2) const struct bti_run_words words) {
    const u32 v3 = (u32)(W(7));
    const u32 v4 = (u32)(W(8));
    const u32 v5 = (u32)(W(9));
    const f32 v6 = f32_of_bits((u32)(W(10)));
    const i64 units = W(0);
    for (i64 unit = (i64)GROUP * THREADS + THREAD; unit < units; unit += (i64)GROUPS * THREADS) {
        i64 rest = unit;
        const i64 c0 = rest;
        const i64 a0 = W(1) + c0 * 1;
        GLOBAL u8 *a1 = ADDRESS(0, 3);
        GLOBAL u8 *a2 = ADDRESS(1, 4);
        GLOBAL u8 *a3 = ADDRESS(2, 5) + c0 * 4;
        const u32 v0 = (u32)(i64)(a0);
        const u32 v1 = *(GLOBAL u32 *)a1;
        const u32 v2 = *(GLOBAL u32 *)a2;
        const u32 v7 = random_word(v1, v2, v0, v3);
        const u32 v8 = shr_u32(v7, v4);
        const u32 v9 = or_u32(v8, v5);
        const f32 v10 = f32_of_bits((u32)(v9));
        const f32 v11 = sub_f32(v10, v6);
        *(GLOBAL f32 *)a3 = v11;
    }
}

struct bti_run_wide_words { i64 at[11]; };
KERNEL(256) bti_run_wide(MEMORY(0) MEMORY(1) MEMORY(2) const struct bti_run_wide_words words) {
    const u32 v3 = (u32)(W(7));
    const u32 v4 = (u32)(W(8));
    const u32 v5 = (u32)(W(9));
    const f32 v6 = f32_of_bits((u32)(W(10)));
    const i64 pieces = (W(0) + 3) / 4;
    const i64 units = pieces * 1;
    for (i64 unit = (i64)GROUP * THREADS + THREAD; unit < units; unit += (i64)GROUPS * THREADS) {
        i64 rest = unit;
        const i64 c0 = rest * 4;
        const i32 count = (i32)least(4, W(0) - c0), full = count == 4;
        const i64 a0 = W(1) + c0 * 1;
        GLOBAL u8 *a1 = ADDRESS(0, 3);
        GLOBAL u8 *a2 = ADDRESS(1, 4);
        GLOBAL u8 *a3 = ADDRESS(2, 5) + c0 * 4;
        const u32 x1 = *(GLOBAL u32 *)a1;
        const u32 x2 = *(GLOBAL u32 *)a2;
        union { uint4 all; f32 at[4]; } y3;
        UNROLL
        for (i32 k = 0; k < 4; k++) {
            const u32 v0 = (u32)(i64)(a0 + (k) * W(2));
            const u32 v1 = x1;
            const u32 v2 = x2;
            const u32 v7 = random_word(v1, v2, v0, v3);
            const u32 v8 = shr_u32(v7, v4);
            const u32 v9 = or_u32(v8, v5);
            const f32 v10 = f32_of_bits((u32)(v9));
            const f32 v11 = sub_f32(v10, v6);
            y3.at[k] = v11;
        }
        if (full)
            *(GLOBAL uint4 *)a3 = y3.all;
        else
            UNROLL for (i32 k = 0; k < 4; k++) if (k < count) ((GLOBAL f32 *)a3)[k] = y3.at[k];
    }
}
