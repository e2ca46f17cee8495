
struct bti_run_words { i64 at[7]; };
#define W(number) words.at[number]
KERNEL(256) bti_run(MEMORY(0) MEMORY(1) const struct bti_run_words words) {
    const i64 lines = 1;
    const i64 units = W(1);
    for (i64 unit = (i64)GROUP * THREADS + THREAD; unit < units; unit += (i64)GROUPS * THREADS) {
        i64 rest = unit;
        const i64 c1 = rest;
        GLOBAL u8 *a0 = ADDRESS(0, 2) + c1 * 4;
        GLOBAL u8 *a1 = ADDRESS(1, 5) + c1 * 4;
        f32 t1 = 0;
        for (i64 number = 0, set = 0; number < lines; number++) {
            GLOBAL u8 *l0 = a0;
            GLOBAL u8 *l1 = a1;
            for (i64 begin = 0; begin < W(0); begin += 1024, set++) {
                const i64 end = least(W(0), begin + 1024);
                f32 p1 = 0;
                i64 first = begin;
                for (; first + 7 < end; first += 8) {
                    f32 x0[8];
                    UNROLL
                    for (i32 k = 0; k < 8; k++) {
                        const i64 i = first + 1 * k;
                        x0[k] = *(GLOBAL f32 *)(l0 + (i) * W(3));
                    }
                    UNROLL
                    for (i32 k = 0; k < 8; k++) {
                        const i64 i = first + 1 * k;
                        const f32 v0 = x0[k];
                        p1 = p1 + (f32)v0;
                    }
                }
                if (first < end) {
                    f32 x0[8];
                    UNROLL
                    for (i32 k = 0; k < 8; k++) {
                        const i64 i = first + 1 * k;
                        if (i >= end) continue;
                        x0[k] = *(GLOBAL f32 *)(l0 + (i) * W(3));
                    }
                    UNROLL
                    for (i32 k = 0; k < 8; k++) {
                        const i64 i = first + 1 * k;
                        if (i >= end) continue;
                        const f32 v0 = x0[k];
                        p1 = p1 + (f32)v0;
                    }
                }
                t1 = t1 + (f32)p1;
            }
        }
        const f32 v1 = t1;
        *(GLOBAL f32 *)a1 = v1;
    }
}

struct bti_part_words { i64 at[8]; };
KERNEL(256) bti_part(MEMORY(0) MEMORY(1) MEMORY(2) const struct bti_part_words words) {
    GLOBAL u8 *parts = ADDRESS(2, 7);
    const i64 chunks = (W(0) + 1023) / 1024, sets = chunks * 1;
    const i64 kept_points = W(1);
    const i64 units = sets * kept_points;
    for (i64 unit = (i64)GROUP * THREADS + THREAD; unit < units; unit += (i64)GROUPS * THREADS) {
        i64 rest = unit;
        const i64 set = divided(unit, kept_points), point = unit - set * kept_points;
        const i64 number = divided(set, chunks), begin = (set - number * chunks) * 1024;
        const i64 end = least(W(0), begin + 1024);
        rest = point;
        const i64 c1 = rest;
        GLOBAL u8 *a0 = ADDRESS(0, 2) + c1 * 4;
        GLOBAL u8 *a1 = ADDRESS(1, 5) + c1 * 4;
        rest = number;
        GLOBAL u8 *l0 = a0;
        GLOBAL u8 *l1 = a1;
        f32 p1 = 0;
        i64 first = begin;
        for (; first + 15 < end; first += 16) {
            f32 x0[16];
            UNROLL
            for (i32 k = 0; k < 16; k++) {
                const i64 i = first + 1 * k;
                x0[k] = *(GLOBAL f32 *)(l0 + (i) * W(3));
            }
            UNROLL
            for (i32 k = 0; k < 16; k++) {
                const i64 i = first + 1 * k;
                const f32 v0 = x0[k];
                p1 = p1 + (f32)v0;
            }
        }
        if (first < end) {
            f32 x0[16];
            UNROLL
            for (i32 k = 0; k < 16; k++) {
                const i64 i = first + 1 * k;
                if (i >= end) continue;
                x0[k] = *(GLOBAL f32 *)(l0 + (i) * W(3));
            }
            UNROLL
            for (i32 k = 0; k < 16; k++) {
                const i64 i = first + 1 * k;
                if (i >= end) continue;
                const f32 v0 = x0[k];
                p1 = p1 + (f32)v0;
            }
        }
        *(GLOBAL f32 *)(parts + ((set * 1 + 0) * kept_points + point) * 8) = p1;
    }
}

struct bti_finish_words { i64 at[8]; };
KERNEL(32) bti_finish(MEMORY(0) MEMORY(1) MEMORY(2) const struct bti_finish_words words) {
    EXCHANGE_BEGIN
    GLOBAL u8 *parts = ADDRESS(2, 7);
    const i64 chunks = (W(0) + 1023) / 1024, sets = chunks * 1;
    const i64 kept_points = W(1);
    const i64 units = kept_points;
    const i32 lane = (i32)(THREAD & 31);
    const i64 step = (i64)GROUPS * (THREADS / 32);
    for (i64 unit = (i64)GROUP * (THREADS / 32) + THREAD / 32; unit < units; unit += step) {
        i64 rest = unit;
        f32 t1 = 0;
        for (i64 set = lane; set < sets; set += 32) {
            t1 = t1 + (f32)*(GLOBAL f32 *)(parts + ((set * 1 + 0) * kept_points + unit) * 8);
        }
        UNROLL
        for (i32 by = 16; by; by /= 2) {
            FROM_FURTHER(f32, other, t1, by);
            t1 = t1 + (f32)other;
        }
        FROM_FIRST(f32, t1);
        const f32 v1 = t1;
        const i64 c1 = rest;
        GLOBAL u8 *a0 = ADDRESS(0, 2) + c1 * 4;
        GLOBAL u8 *a1 = ADDRESS(1, 5) + c1 * 4;
        if (lane == 0) {
            *(GLOBAL f32 *)a1 = v1;
        }
    }
}
