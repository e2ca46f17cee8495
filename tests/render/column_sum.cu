
struct bti_run_words { i64 at[7]; };
#define W(number) words.at[number]
KERNEL(256) bti_run(MEMORY(0) MEMORY(1) const struct bti_run_words words) {
    const i64 lines = 1;
    i64 chunk = 128 * ((W(0) + 1048575) / 1048576);
    if (W(0) > 64) {
        while (chunk > 16 && 1 * ((W(0) + chunk - 1) / chunk) * W(1) < 65536) chunk >>= 1;
    }
    const i64 units = W(1);
    for (i64 unit = (i64)GROUP * THREADS + THREAD; unit < units; unit += (i64)GROUPS * THREADS) {
        i64 rest = unit;
        const i64 c1 = rest;
        GLOBAL u8 *a0 = ADDRESS(0, 2) + c1 * 4;
        GLOBAL u8 *a1 = ADDRESS(1, 5) + c1 * 4;
        f64 t1 = 0;
        for (i64 number = 0, set = 0; number < lines; number++) {
            GLOBAL u8 *l0 = a0;
            GLOBAL u8 *l1 = a1;
            for (i64 begin = 0; begin < W(0); begin += chunk, set++) {
                const i64 end = least(W(0), begin + chunk);
                f64 p1 = 0;
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
                        p1 = p1 + (f64)v0;
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
                        p1 = p1 + (f64)v0;
                    }
                }
                t1 = t1 + (f64)p1;
            }
        }
        const f32 v1 = (f32)t1;
        *(GLOBAL f32 *)a1 = v1;
    }
}

struct bti_part_words { i64 at[8]; };
KERNEL(256) bti_part(MEMORY(0) MEMORY(1) MEMORY(2) const struct bti_part_words words) {
    GLOBAL u8 *parts = ADDRESS(2, 7);
    i64 chunk = 128 * ((W(0) + 1048575) / 1048576);
    if (W(0) > 64) {
        while (chunk > 16 && 1 * ((W(0) + chunk - 1) / chunk) * W(1) < 65536) chunk >>= 1;
    }
    const i64 chunks = divided(W(0) + chunk - 1, chunk), sets = chunks * 1;
    const i64 kept_points = W(1);
    const i64 units = sets * kept_points;
    for (i64 unit = (i64)GROUP * THREADS + THREAD; unit < units; unit += (i64)GROUPS * THREADS) {
        i64 rest = unit;
        const i64 set = divided(unit, kept_points), point = unit - set * kept_points;
        const i64 number = divided(set, chunks), begin = (set - number * chunks) * chunk;
        const i64 end = least(W(0), begin + chunk);
        rest = point;
        const i64 c1 = rest;
        GLOBAL u8 *a0 = ADDRESS(0, 2) + c1 * 4;
        GLOBAL u8 *a1 = ADDRESS(1, 5) + c1 * 4;
        rest = number;
        GLOBAL u8 *l0 = a0;
        GLOBAL u8 *l1 = a1;
        f64 p1 = 0;
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
                p1 = p1 + (f64)v0;
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
                p1 = p1 + (f64)v0;
            }
        }
        *(GLOBAL f64 *)(parts + ((set * 1 + 0) * kept_points + point) * 8) = p1;
    }
}

struct bti_finish_words { i64 at[8]; };
KERNEL(256) bti_finish(MEMORY(0) MEMORY(1) MEMORY(2) const struct bti_finish_words words) {
    EXCHANGE_OF_GROUP_BEGIN
    GLOBAL u8 *parts = ADDRESS(2, 7);
    i64 chunk = 128 * ((W(0) + 1048575) / 1048576);
    if (W(0) > 64) {
        while (chunk > 16 && 1 * ((W(0) + chunk - 1) / chunk) * W(1) < 65536) chunk >>= 1;
    }
    const i64 chunks = divided(W(0) + chunk - 1, chunk), sets = chunks * 1;
    const i64 kept_points = W(1);
    const i64 units = kept_points;
    const i32 across = units < 4 ? 1 : units < 4096 ? 4 : 32;
    const i32 lanes = (i32)THREADS / across, lane = (i32)THREAD / across;
    for (i64 first = (i64)GROUP * across; first < units; first += (i64)GROUPS * across) {
        const i64 own = first + (i32)THREAD % across, unit = least(own, units - 1);
        const i32 active = own == unit;
        i64 rest = unit;
        f64 t1 = 0;
        for (i64 first_set = lane; first_set < sets; first_set += lanes * 8) {
            f64 x1[8];
            UNROLL
            for (i32 k = 0; k < 8; k++) {
                const i64 set = first_set + lanes * k;
                if (set >= sets) continue;
                x1[k] = *(GLOBAL f64 *)(parts + ((set * 1 + 0) * kept_points + unit) * 8);
            }
            UNROLL
            for (i32 k = 0; k < 8; k++) {
                const i64 set = first_set + lanes * k;
                if (set >= sets) continue;
                t1 = t1 + (f64)x1[k];
            }
        }
        for (i32 by = (i32)THREADS / 2; by >= 32; by /= 2) {
            FROM_FURTHER_OF_GROUP(f64, other, t1, by);
            t1 = t1 + (f64)other;
        }
        for (i32 by = 16; by >= across; by /= 2) {
            FROM_FURTHER(f64, other, t1, by);
            t1 = t1 + (f64)other;
        }
        const f32 v1 = (f32)t1;
        const i64 c1 = rest;
        GLOBAL u8 *a0 = ADDRESS(0, 2) + c1 * 4;
        GLOBAL u8 *a1 = ADDRESS(1, 5) + c1 * 4;
        if (active && lane == 0) {
            *(GLOBAL f32 *)a1 = v1;
        }
    }
}
