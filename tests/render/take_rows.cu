FUNCTION f32 maximum_f32(f32 x, f32 y) {
    typedef f32 REAL;
    return (f32)(x > y || x != x ? x : y);
}
FUNCTION f32 sub_f32(f32 x, f32 y) {
    typedef f32 REAL;
    return (f32)(x - y);
}

struct bti_run_words { i64 at[11]; };
#define W(number) words.at[number]
KERNEL(256) bti_run(MEMORY(0) MEMORY(1) MEMORY(2) const struct bti_run_words words) {
    EXCHANGE_BEGIN
    const i64 v1 = (i64)(W(9));
    const i64 v2 = (i64)(W(10));
    const i64 lines = 1;
    const i64 chunk = 2048 * ((W(1) + 16777215) / 16777216);
    const i64 sets = lines * divided(W(1) + chunk - 1, chunk);
    const i64 units = W(0);
    const i32 lane = (i32)(THREAD & 31);
    const i64 step = (i64)GROUPS * (THREADS / 32);
    for (i64 unit = (i64)GROUP * (THREADS / 32) + THREAD / 32; unit < units; unit += step) {
        i64 rest = unit;
        const i64 c0 = rest;
        GLOBAL u8 *a0 = ADDRESS(0, 2) + c0 * W(3);
        GLOBAL u8 *a1 = ADDRESS(1, 4);
        GLOBAL u8 *a2 = ADDRESS(2, 6) + c0 * W(7);
        const i64 v0 = *(GLOBAL i64 *)a0;
        f32 t4 = f32_of_bits(0xff800000u);
        for (i64 number = 0, set = 0; number < lines; number++) {
            GLOBAL u8 *l0 = a0;
            GLOBAL u8 *l1 = a1;
            GLOBAL u8 *l2 = a2;
            for (i64 begin = 0; begin < W(1); begin += chunk, set++) {
                const i64 end = least(W(1), begin + chunk);
                f32 p4 = f32_of_bits(0xff800000u);
                i64 first = begin + lane;
                for (; first + 224 < end; first += 256) {
                    f32 x3[8];
                    UNROLL
                    for (i32 k = 0; k < 8; k++) {
                        const i64 i = first + 32 * k;
                        const i64 row3 = place_of(v0, v1);
                        x3[k] = (row3 < 0 ? (f32)f32_of_bits(0x7fc00000) : ((GLOBAL f32 *)(l1 + row3 * v2))[i]);
                    }
                    UNROLL
                    for (i32 k = 0; k < 8; k++) {
                        const i64 i = first + 32 * k;
                        const f32 v3 = x3[k];
                        p4 = maximum_f32(p4, v3);
                    }
                }
                for (; first < end; first += 32) {
                    f32 x3[1];
                    UNROLL
                    for (i32 k = 0; k < 1; k++) {
                        const i64 i = first + 32 * k;
                        const i64 row3 = place_of(v0, v1);
                        x3[k] = (row3 < 0 ? (f32)f32_of_bits(0x7fc00000) : ((GLOBAL f32 *)(l1 + row3 * v2))[i]);
                    }
                    UNROLL
                    for (i32 k = 0; k < 1; k++) {
                        const i64 i = first + 32 * k;
                        const f32 v3 = x3[k];
                        p4 = maximum_f32(p4, v3);
                    }
                }
                UNROLL
                for (i32 by = 16; by; by /= 2) {
                    FROM_FURTHER(f32, other, p4, by);
                    p4 = maximum_f32(p4, other);
                }
                FROM_FIRST(f32, p4);
                if (sets == 1) t4 = p4;
                else if ((set & 31) == lane) {
                    t4 = maximum_f32(t4, p4);
                }
            }
        }
        if (sets > 1) {
            UNROLL
            for (i32 by = 16; by; by /= 2) {
                FROM_FURTHER(f32, other, t4, by);
                t4 = maximum_f32(t4, other);
            }
            FROM_FIRST(f32, t4);
        }
        const f32 v4 = t4;
        for (i64 number = 0, set = 0; number < lines; number++) {
            GLOBAL u8 *l0 = a0;
            GLOBAL u8 *l1 = a1;
            GLOBAL u8 *l2 = a2;
            for (i64 begin = 0; begin < W(1); begin += chunk, set++) {
                const i64 end = least(W(1), begin + chunk);
                i64 first = begin + lane;
                for (; first + 224 < end; first += 256) {
                    f32 x3[8];
                    UNROLL
                    for (i32 k = 0; k < 8; k++) {
                        const i64 i = first + 32 * k;
                        const i64 row3 = place_of(v0, v1);
                        x3[k] = (row3 < 0 ? (f32)f32_of_bits(0x7fc00000) : ((GLOBAL f32 *)(l1 + row3 * v2))[i]);
                    }
                    UNROLL
                    for (i32 k = 0; k < 8; k++) {
                        const i64 i = first + 32 * k;
                        const f32 v3 = x3[k];
                        const f32 v5 = sub_f32(v3, v4);
                        ((GLOBAL f32 *)l2)[i] = v5;
                    }
                }
                for (; first < end; first += 32) {
                    f32 x3[1];
                    UNROLL
                    for (i32 k = 0; k < 1; k++) {
                        const i64 i = first + 32 * k;
                        const i64 row3 = place_of(v0, v1);
                        x3[k] = (row3 < 0 ? (f32)f32_of_bits(0x7fc00000) : ((GLOBAL f32 *)(l1 + row3 * v2))[i]);
                    }
                    UNROLL
                    for (i32 k = 0; k < 1; k++) {
                        const i64 i = first + 32 * k;
                        const f32 v3 = x3[k];
                        const f32 v5 = sub_f32(v3, v4);
                        ((GLOBAL f32 *)l2)[i] = v5;
                    }
                }
            }
        }
    }
}

struct bti_run_rows_words { i64 at[11]; };
KERNEL(256) bti_run_rows(MEMORY(0) MEMORY(1) MEMORY(2) const struct bti_run_rows_words words) {
    EXCHANGE_BEGIN
    const i64 v1 = (i64)(W(9));
    const i64 v2 = (i64)(W(10));
    const i64 lines = 1;
    const i64 chunk = 2048 * ((W(1) + 16777215) / 16777216);
    const i64 sets = lines * divided(W(1) + chunk - 1, chunk);
    const i64 units = W(0);
    const i32 lane = (i32)(THREAD & 15);
    const i64 step = (i64)GROUPS * (THREADS / 16);
    for (i64 before32 = (i64)GROUP * (THREADS / 16) + THREAD / 32 * 2; before32 < units; before32 += step) {
        const i64 unit = before32 + (THREAD & 31) / 16;
        const i32 active = unit < units;
        const i64 extent = active ? W(1) : 0;
        i64 rest = unit;
        const i64 c0 = rest;
        GLOBAL u8 *a0 = ADDRESS(0, 2) + c0 * W(3);
        GLOBAL u8 *a1 = ADDRESS(1, 4);
        GLOBAL u8 *a2 = ADDRESS(2, 6) + c0 * W(7);
        const i64 v0 = (active ? *(GLOBAL i64 *)a0 : 0);
        f32 t4 = f32_of_bits(0xff800000u);
        f32 h4[2] = {f32_of_bits(0xff800000u), f32_of_bits(0xff800000u)};
        for (i64 number = 0, set = 0; number < lines; number++) {
            GLOBAL u8 *l0 = a0;
            GLOBAL u8 *l1 = a1;
            GLOBAL u8 *l2 = a2;
            for (i64 begin = 0; begin < W(1); begin += chunk, set++) {
                const i64 end = least(extent, begin + chunk);
                f32 g4[2] = {f32_of_bits(0xff800000u), f32_of_bits(0xff800000u)};
                i64 first = begin + lane * 2;
                for (; first + 224 < end; first += 256) {
                    union { uint2 all; f32 at[2]; } x3[8];
                    UNROLL
                    for (i32 k = 0; k < 8; k++) {
                        const i64 piece = first + 32 * k;
                        const i64 row3 = place_of(v0, v1);
                        if (row3 >= 0)
                            x3[k].all = *(GLOBAL uint2 *)((GLOBAL f32 *)(l1 + row3 * v2) + piece);
                        else
                            UNROLL for (i32 c = 0; c < 2; c++) x3[k].at[c] = (f32)f32_of_bits(0x7fc00000);
                    }
                    UNROLL
                    for (i32 k = 0; k < 8; k++) {
                        const i64 piece = first + 32 * k;
                        UNROLL
                        for (i32 c = 0; c < 2; c++) {
                            const i64 i = piece + c;
                            const f32 v3 = x3[k].at[c];
                            g4[c] = maximum_f32(g4[c], v3);
                        }
                    }
                }
                for (; first < end; first += 32) {
                    union { uint2 all; f32 at[2]; } x3;
                    const i64 piece = first;
                    const i64 row3 = place_of(v0, v1);
                    if (row3 >= 0)
                        x3.all = *(GLOBAL uint2 *)((GLOBAL f32 *)(l1 + row3 * v2) + piece);
                    else
                        UNROLL for (i32 c = 0; c < 2; c++) x3.at[c] = (f32)f32_of_bits(0x7fc00000);
                    UNROLL
                    for (i32 c = 0; c < 2; c++) {
                        const i64 i = piece + c;
                        const f32 v3 = x3.at[c];
                        g4[c] = maximum_f32(g4[c], v3);
                    }
                }
                UNROLL
                for (i32 by = 8; by; by /= 2) {
                    UNROLL
                    for (i32 c = 0; c < 2; c++) {
                        FROM_FURTHER(f32, other, g4[c], by);
                        g4[c] = maximum_f32(g4[c], other);
                    }
                }
                g4[0] = maximum_f32(g4[0], g4[1]);
                FROM_FIRST_OF(f32, g4[0], 16);
                if (sets == 1) t4 = g4[0];
                else
                UNROLL
                for (i32 c = 0; c < 2; c++) {
                    if ((set & 31) == lane * 2 + c) {
                        h4[c] = maximum_f32(h4[c], g4[0]);
                    }
                }
            }
        }
        if (sets > 1) {
            UNROLL
            for (i32 by = 8; by; by /= 2) {
                UNROLL
                for (i32 c = 0; c < 2; c++) {
                    FROM_FURTHER(f32, other, h4[c], by);
                    h4[c] = maximum_f32(h4[c], other);
                }
            }
            h4[0] = maximum_f32(h4[0], h4[1]);
            FROM_FIRST_OF(f32, h4[0], 16);
            t4 = h4[0];
        }
        const f32 v4 = t4;
        for (i64 number = 0, set = 0; number < lines; number++) {
            GLOBAL u8 *l0 = a0;
            GLOBAL u8 *l1 = a1;
            GLOBAL u8 *l2 = a2;
            for (i64 begin = 0; begin < W(1); begin += chunk, set++) {
                const i64 end = least(extent, begin + chunk);
                i64 first = begin + lane * 2;
                for (; first + 224 < end; first += 256) {
                    union { uint2 all; f32 at[2]; } x3[8];
                    UNROLL
                    for (i32 k = 0; k < 8; k++) {
                        const i64 piece = first + 32 * k;
                        const i64 row3 = place_of(v0, v1);
                        if (row3 >= 0)
                            x3[k].all = *(GLOBAL uint2 *)((GLOBAL f32 *)(l1 + row3 * v2) + piece);
                        else
                            UNROLL for (i32 c = 0; c < 2; c++) x3[k].at[c] = (f32)f32_of_bits(0x7fc00000);
                    }
                    UNROLL
                    for (i32 k = 0; k < 8; k++) {
                        const i64 piece = first + 32 * k;
                        union { uint2 all; f32 at[2]; } y2;
                        UNROLL
                        for (i32 c = 0; c < 2; c++) {
                            const i64 i = piece + c;
                            const f32 v3 = x3[k].at[c];
                            const f32 v5 = sub_f32(v3, v4);
                            y2.at[c] = v5;
                        }
                        *(GLOBAL uint2 *)((GLOBAL f32 *)l2 + piece) = y2.all;
                    }
                }
                for (; first < end; first += 32) {
                    union { uint2 all; f32 at[2]; } x3;
                    const i64 piece = first;
                    const i64 row3 = place_of(v0, v1);
                    if (row3 >= 0)
                        x3.all = *(GLOBAL uint2 *)((GLOBAL f32 *)(l1 + row3 * v2) + piece);
                    else
                        UNROLL for (i32 c = 0; c < 2; c++) x3.at[c] = (f32)f32_of_bits(0x7fc00000);
                    union { uint2 all; f32 at[2]; } y2;
                    UNROLL
                    for (i32 c = 0; c < 2; c++) {
                        const i64 i = piece + c;
                        const f32 v3 = x3.at[c];
                        const f32 v5 = sub_f32(v3, v4);
                        y2.at[c] = v5;
                    }
                    *(GLOBAL uint2 *)((GLOBAL f32 *)l2 + piece) = y2.all;
                }
            }
        }
    }
}
