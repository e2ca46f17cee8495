FUNCTION f32 mul_f32(f32 x, f32 y) {
    typedef f32 REAL;
    return (f32)(x * y);
}

struct bti_run_words { i64 at[9]; };
#define W(number) words.at[number]
KERNEL(256) bti_run(MEMORY(0) MEMORY(1) MEMORY(2) MEMORY(3) const struct bti_run_words words) {
    const i64 units = W(0);
    for (i64 unit = (i64)GROUP * THREADS + THREAD; unit < units; unit += (i64)GROUPS * THREADS) {
        i64 rest = unit;
        const i64 c0 = rest;
        GLOBAL u8 *a0 = ADDRESS(0, 1) + c0 * 2;
        GLOBAL u8 *a1 = ADDRESS(1, 3) + c0 * W(4);
        GLOBAL u8 *a2 = ADDRESS(2, 5) + c0 * 2;
        GLOBAL u8 *a3 = ADDRESS(3, 7) + c0 * W(8);
        const f32 v0 = f32_of_f16(*(GLOBAL u16 *)a0);
        const f32 v1 = f32_of_bf16(*(GLOBAL u16 *)a1);
        const f32 v2 = rounded_f16(mul_f32(v0, v0));
        const f64 v3 = (f64)v1;
        const f32 v4 = rounded_bf16(odd_of_f64(v3));
        *(GLOBAL u16 *)a2 = f16_of_f32(v2);
        *(GLOBAL u16 *)a3 = bf16_of_f32(v4);
    }
}
