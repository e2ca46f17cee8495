FUNCTION f32 abs_f32(f32 x) {
    typedef f32 REAL;
    return (f32)(fabs(x));
}
FUNCTION f32 sqrt_f32(f32 x) {
    typedef f32 REAL;
    return (f32)(sqrt(x));
}
FUNCTION f32 mul_f32(f32 x, f32 y) {
    typedef f32 REAL;
    return (f32)(x * y);
}
FUNCTION f32 log_f32(f32 x) {
    typedef f32 REAL;
    return (f32)(log(x));
}
FUNCTION f32 sub_f32(f32 x, f32 y) {
    typedef f32 REAL;
    return (f32)(x - y);
}

struct bti_run_boxes_words { i64 at[500]; };
#define W(number) words.at[of_box + (number)]
KERNEL(256) bti_run_boxes(MEMORY(0) MEMORY(1) MEMORY(2) MEMORY(3) const struct bti_run_boxes_words words) {
    i32 box = 0;
    while ((i64)GROUP >= words.at[box]) box++;
    const i64 before_box = box ? words.at[box - 1] : 0, group = GROUP - before_box;
    const i64 groups = words.at[box] - before_box;
    const i32 of_box = 35 + box * 13;
    const f32 v3 = f32_of_bits((u32)(W(12)));
    const i64 units = W(0) * W(1);
    for (i64 unit = group * THREADS + THREAD; unit < units; unit += groups * THREADS) {
        i64 rest = unit;
        const i64 r1 = divided(rest, W(1)), c1 = rest - r1 * W(1);
        rest = r1;
        const i64 c0 = rest;
        GLOBAL u8 *a0 = ADDRESS(0, 2) + c0 * W(3) + c1 * 4;
        GLOBAL u8 *a1 = ADDRESS(1, 5) + c0 * W(6);
        GLOBAL u8 *a2 = ADDRESS(2, 7) + c1 * 1;
        GLOBAL u8 *a3 = ADDRESS(3, 9) + c0 * W(10) + c1 * 4;
        const f32 v0 = *(GLOBAL f32 *)a0;
        const f32 v1 = *(GLOBAL f32 *)a1;
        const u8 v2 = *(GLOBAL u8 *)a2;
        const f32 v4 = abs_f32(v0);
        const f32 v5 = sqrt_f32(v4);
        const f32 v6 = mul_f32(v1, v3);
        const f32 v7 = log_f32(v6);
        const f32 v8 = sub_f32(v5, v7);
        const f32 v9 = v2 ? v8 : v0;
        *(GLOBAL f32 *)a3 = v9;
    }
}

struct bti_run_boxes_wide_words { i64 at[500]; };
KERNEL(256) bti_run_boxes_wide(MEMORY(0) MEMORY(1) MEMORY(2) MEMORY(3) const struct bti_run_boxes_wide_words words) {
    i32 box = 0;
    while ((i64)GROUP >= words.at[box]) box++;
    const i64 before_box = box ? words.at[box - 1] : 0, group = GROUP - before_box;
    const i64 groups = words.at[box] - before_box;
    const i32 of_box = 35 + box * 13;
    const f32 v3 = f32_of_bits((u32)(W(12)));
    const i64 pieces = (W(1) + 3) / 4;
    const i64 units = pieces * W(0);
    for (i64 unit = group * THREADS + THREAD; unit < units; unit += groups * THREADS) {
        i64 rest = unit;
        const i64 before = divided(rest, pieces), c1 = (rest - before * pieces) * 4;
        rest = before;
        const i64 c0 = rest;
        const i32 count = (i32)least(4, W(1) - c1), full = count == 4;
        GLOBAL u8 *a0 = ADDRESS(0, 2) + c0 * W(3) + c1 * 4;
        GLOBAL u8 *a1 = ADDRESS(1, 5) + c0 * W(6);
        GLOBAL u8 *a2 = ADDRESS(2, 7) + c1 * 1;
        GLOBAL u8 *a3 = ADDRESS(3, 9) + c0 * W(10) + c1 * 4;
        union { uint4 all; f32 at[4]; } x0;
        if (full)
            x0.all = *(GLOBAL uint4 *)a0;
        else
            UNROLL for (i32 k = 0; k < 4; k++) x0.at[k] = k < count ? ((GLOBAL f32 *)a0)[k] : 0;
        const f32 x1 = *(GLOBAL f32 *)a1;
        union { u32 all; u8 at[4]; } x2;
        if (full)
            x2.all = *(GLOBAL u32 *)a2;
        else
            UNROLL for (i32 k = 0; k < 4; k++) x2.at[k] = k < count ? ((GLOBAL u8 *)a2)[k] : 0;
        union { uint4 all; f32 at[4]; } y3;
        UNROLL
        for (i32 k = 0; k < 4; k++) {
            const f32 v0 = x0.at[k];
            const f32 v1 = x1;
            const u8 v2 = x2.at[k];
            const f32 v4 = abs_f32(v0);
            const f32 v5 = sqrt_f32(v4);
            const f32 v6 = mul_f32(v1, v3);
            const f32 v7 = log_f32(v6);
            const f32 v8 = sub_f32(v5, v7);
            const f32 v9 = v2 ? v8 : v0;
            y3.at[k] = v9;
        }
        if (full)
            *(GLOBAL uint4 *)a3 = y3.all;
        else
            UNROLL for (i32 k = 0; k < 4; k++) if (k < count) ((GLOBAL f32 *)a3)[k] = y3.at[k];
    }
}
