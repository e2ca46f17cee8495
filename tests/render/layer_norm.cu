FUNCTION f32 mul_f32(f32 x, f32 y) {
    typedef f32 REAL;
    return (f32)(x * y);
}
FUNCTION f32 sub_f32(f32 x, f32 y) {
    typedef f32 REAL;
    return (f32)(x - y);
}
FUNCTION f32 add_f32(f32 x, f32 y) {
    typedef f32 REAL;
    return (f32)(x + y);
}
FUNCTION f32 rsqrt_f32(f32 x) {
    typedef f32 REAL;
    return (f32)(1 / sqrt(x));
}

struct bti_run_words { i64 at[12]; };
#define W(number) words.at[number]
KERNEL(256) bti_run(MEMORY(0) MEMORY(1) MEMORY(2) const struct bti_run_words words) {
    EXCHANGE_BEGIN
    const f32 v2 = f32_of_bits((u32)(W(10)));
    const f32 v3 = f32_of_bits((u32)(W(11)));
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
        GLOBAL u8 *a1 = ADDRESS(1, 5);
        GLOBAL u8 *a2 = ADDRESS(2, 7) + c0 * W(8);
        f64 t4 = 0;
        for (i64 number = 0, set = 0; number < lines; number++) {
            GLOBAL u8 *l0 = a0;
            GLOBAL u8 *l1 = a1;
            GLOBAL u8 *l2 = a2;
            for (i64 begin = 0; begin < W(1); begin += chunk, set++) {
                const i64 end = least(W(1), begin + chunk);
                f64 p4 = 0;
                i64 first = begin + lane;
                for (; first + 224 < end; first += 256) {
                    f32 x0[8];
                    UNROLL
                    for (i32 k = 0; k < 8; k++) {
                        const i64 i = first + 32 * k;
                        x0[k] = ((GLOBAL f32 *)l0)[i];
                    }
                    UNROLL
                    for (i32 k = 0; k < 8; k++) {
                        const i64 i = first + 32 * k;
                        const f32 v0 = x0[k];
                        p4 = p4 + (f64)v0;
                    }
                }
                for (; first < end; first += 32) {
                    f32 x0[1];
                    UNROLL
                    for (i32 k = 0; k < 1; k++) {
                        const i64 i = first + 32 * k;
                        x0[k] = ((GLOBAL f32 *)l0)[i];
                    }
                    UNROLL
                    for (i32 k = 0; k < 1; k++) {
                        const i64 i = first + 32 * k;
                        const f32 v0 = x0[k];
                        p4 = p4 + (f64)v0;
                    }
                }
                UNROLL
                for (i32 by = 16; by; by /= 2) {
                    FROM_FURTHER(f64, other, p4, by);
                    p4 = p4 + (f64)other;
                }
                FROM_FIRST(f64, p4);
                if (sets == 1) t4 = p4;
                else if ((set & 31) == lane) {
                    t4 = t4 + (f64)p4;
                }
            }
        }
        if (sets > 1) {
            UNROLL
            for (i32 by = 16; by; by /= 2) {
                FROM_FURTHER(f64, other, t4, by);
                t4 = t4 + (f64)other;
            }
            FROM_FIRST(f64, t4);
        }
        const f32 v4 = (f32)t4;
        const f32 v5 = mul_f32(v4, v2);
        f64 t8 = 0;
        for (i64 number = 0, set = 0; number < lines; number++) {
            GLOBAL u8 *l0 = a0;
            GLOBAL u8 *l1 = a1;
            GLOBAL u8 *l2 = a2;
            for (i64 begin = 0; begin < W(1); begin += chunk, set++) {
                const i64 end = least(W(1), begin + chunk);
                f64 p8 = 0;
                i64 first = begin + lane;
                for (; first + 224 < end; first += 256) {
                    f32 x0[8];
                    UNROLL
                    for (i32 k = 0; k < 8; k++) {
                        const i64 i = first + 32 * k;
                        x0[k] = ((GLOBAL f32 *)l0)[i];
                    }
                    UNROLL
                    for (i32 k = 0; k < 8; k++) {
                        const i64 i = first + 32 * k;
                        const f32 v0 = x0[k];
                        const f32 v6 = sub_f32(v0, v5);
                        const f32 v7 = mul_f32(v6, v6);
                        p8 = p8 + (f64)v7;
                    }
                }
                for (; first < end; first += 32) {
                    f32 x0[1];
                    UNROLL
                    for (i32 k = 0; k < 1; k++) {
                        const i64 i = first + 32 * k;
                        x0[k] = ((GLOBAL f32 *)l0)[i];
                    }
                    UNROLL
                    for (i32 k = 0; k < 1; k++) {
                        const i64 i = first + 32 * k;
                        const f32 v0 = x0[k];
                        const f32 v6 = sub_f32(v0, v5);
                        const f32 v7 = mul_f32(v6, v6);
                        p8 = p8 + (f64)v7;
                    }
                }
                UNROLL
                for (i32 by = 16; by; by /= 2) {
                    FROM_FURTHER(f64, other, p8, by);
                    p8 = p8 + (f64)other;
                }
                FROM_FIRST(f64, p8);
                if (sets == 1) t8 = p8;
                else if ((set & 31) == lane) {
                    t8 = t8 + (f64)p8;
                }
            }
        }
        if (sets > 1) {
            UNROLL
            for (i32 by = 16; by; by /= 2) {
                FROM_FURTHER(f64, other, t8, by);
                t8 = t8 + (f64)other;
            }
            FROM_FIRST(f64, t8);
        }
        const f32 v8 = (f32)t8;
        const f32 v9 = mul_f32(v8, v2);
        const f32 v10 = add_f32(v9, v3);
        const f32 v11 = rsqrt_f32(v10);
        for (i64 number = 0, set = 0; number < lines; number++) {
            GLOBAL u8 *l0 = a0;
            GLOBAL u8 *l1 = a1;
            GLOBAL u8 *l2 = a2;
            for (i64 begin = 0; begin < W(1); begin += chunk, set++) {
                const i64 end = least(W(1), begin + chunk);
                i64 first = begin + lane;
                for (; first + 224 < end; first += 256) {
                    f32 x0[8];
                    f32 x1[8];
                    UNROLL
                    for (i32 k = 0; k < 8; k++) {
                        const i64 i = first + 32 * k;
                        x0[k] = ((GLOBAL f32 *)l0)[i];
                        x1[k] = ((GLOBAL f32 *)l1)[i];
                    }
                    UNROLL
                    for (i32 k = 0; k < 8; k++) {
                        const i64 i = first + 32 * k;
                        const f32 v0 = x0[k];
                        const f32 v1 = x1[k];
                        const f32 v6 = sub_f32(v0, v5);
                        const f32 v12 = mul_f32(v6, v11);
                        const f32 v13 = mul_f32(v12, v1);
                        ((GLOBAL f32 *)l2)[i] = v13;
                    }
                }
                for (; first < end; first += 32) {
                    f32 x0[1];
                    f32 x1[1];
                    UNROLL
                    for (i32 k = 0; k < 1; k++) {
                        const i64 i = first + 32 * k;
                        x0[k] = ((GLOBAL f32 *)l0)[i];
                        x1[k] = ((GLOBAL f32 *)l1)[i];
                    }
                    UNROLL
                    for (i32 k = 0; k < 1; k++) {
                        const i64 i = first + 32 * k;
                        const f32 v0 = x0[k];
                        const f32 v1 = x1[k];
                        const f32 v6 = sub_f32(v0, v5);
                        const f32 v12 = mul_f32(v6, v11);
                        const f32 v13 = mul_f32(v12, v1);
                        ((GLOBAL f32 *)l2)[i] = v13;
                    }
                }
            }
        }
    }
}

struct bti_run_kept_words { i64 at[12]; };
KERNEL(256) bti_run_kept(MEMORY(0) MEMORY(1) MEMORY(2) DYNAMIC const struct bti_run_kept_words words) {
    DYNAMIC_BEGIN
    EXCHANGE_BEGIN
    const f32 v2 = f32_of_bits((u32)(W(10)));
    const f32 v3 = f32_of_bits((u32)(W(11)));
    const i64 lines = 1;
    const i64 chunk = 2048 * ((W(1) + 16777215) / 16777216);
    const i64 sets = lines * divided(W(1) + chunk - 1, chunk);
    const i64 points = W(1);
    const i64 at0 = 0;
    LOCAL u8 *kept = dynamic + (THREAD / 32) * (0 + ((points * 4 + 15) & ~(i64)15));
    LOCAL f32 *kept0 = (LOCAL f32 *)(kept + at0);
    const i64 units = W(0);
    const i32 lane = (i32)(THREAD & 31);
    const i64 step = (i64)GROUPS * (THREADS / 32);
    for (i64 unit = (i64)GROUP * (THREADS / 32) + THREAD / 32; unit < units; unit += step) {
        i64 rest = unit;
        const i64 c0 = rest;
        GLOBAL u8 *a0 = ADDRESS(0, 2) + c0 * W(3);
        GLOBAL u8 *a1 = ADDRESS(1, 5);
        GLOBAL u8 *a2 = ADDRESS(2, 7) + c0 * W(8);
        FETCH_BEGIN();
        for (i64 number = 0; number < lines; number++) {
            const i64 before = 0;
            GLOBAL u8 *l0 = a0;
            GLOBAL u8 *l1 = a1;
            GLOBAL u8 *l2 = a2;
            const i64 wide0 = ((u64)l0 | (u64)&kept0[before]) & 15 ? 0 : W(1) & ~(i64)3;
            UNROLL_8
            for (i64 i = lane * 4; i < wide0; i += 128)
                FETCH16(&kept0[before + i], l0 + i * 4);
            UNROLL_8
            for (i64 i = wide0 + lane; i < W(1); i += 32) {
                FETCH4(&kept0[before + i], l0 + i * 4);
            }
        }
        FETCH_END();
        f64 t4 = 0;
        for (i64 number = 0, set = 0; number < lines; number++) {
            const i64 before = 0;
            GLOBAL u8 *l0 = a0;
            GLOBAL u8 *l1 = a1;
            GLOBAL u8 *l2 = a2;
            for (i64 begin = 0; begin < W(1); begin += chunk, set++) {
                const i64 end = least(W(1), begin + chunk);
                f64 p4 = 0;
                i64 first = begin + lane;
                for (; first + 96 < end; first += 128) {
                    f32 x0[4];
                    UNROLL
                    for (i32 k = 0; k < 4; k++) {
                        const i64 i = first + 32 * k;
                        x0[k] = kept0[before + i];
                    }
                    UNROLL
                    for (i32 k = 0; k < 4; k++) {
                        const i64 i = first + 32 * k;
                        const f32 v0 = x0[k];
                        p4 = p4 + (f64)v0;
                    }
                }
                for (; first < end; first += 32) {
                    f32 x0[1];
                    UNROLL
                    for (i32 k = 0; k < 1; k++) {
                        const i64 i = first + 32 * k;
                        x0[k] = kept0[before + i];
                    }
                    UNROLL
                    for (i32 k = 0; k < 1; k++) {
                        const i64 i = first + 32 * k;
                        const f32 v0 = x0[k];
                        p4 = p4 + (f64)v0;
                    }
                }
                UNROLL
                for (i32 by = 16; by; by /= 2) {
                    FROM_FURTHER(f64, other, p4, by);
                    p4 = p4 + (f64)other;
                }
                FROM_FIRST(f64, p4);
                if (sets == 1) t4 = p4;
                else if ((set & 31) == lane) {
                    t4 = t4 + (f64)p4;
                }
            }
        }
        if (sets > 1) {
            UNROLL
            for (i32 by = 16; by; by /= 2) {
                FROM_FURTHER(f64, other, t4, by);
                t4 = t4 + (f64)other;
            }
            FROM_FIRST(f64, t4);
        }
        const f32 v4 = (f32)t4;
        const f32 v5 = mul_f32(v4, v2);
        f64 t8 = 0;
        for (i64 number = 0, set = 0; number < lines; number++) {
            const i64 before = 0;
            GLOBAL u8 *l0 = a0;
            GLOBAL u8 *l1 = a1;
            GLOBAL u8 *l2 = a2;
            for (i64 begin = 0; begin < W(1); begin += chunk, set++) {
                const i64 end = least(W(1), begin + chunk);
                f64 p8 = 0;
                i64 first = begin + lane;
                for (; first + 96 < end; first += 128) {
                    f32 x0[4];
                    UNROLL
                    for (i32 k = 0; k < 4; k++) {
                        const i64 i = first + 32 * k;
                        x0[k] = kept0[before + i];
                    }
                    UNROLL
                    for (i32 k = 0; k < 4; k++) {
                        const i64 i = first + 32 * k;
                        const f32 v0 = x0[k];
                        const f32 v6 = sub_f32(v0, v5);
                        const f32 v7 = mul_f32(v6, v6);
                        p8 = p8 + (f64)v7;
                    }
                }
                for (; first < end; first += 32) {
                    f32 x0[1];
                    UNROLL
                    for (i32 k = 0; k < 1; k++) {
                        const i64 i = first + 32 * k;
                        x0[k] = kept0[before + i];
                    }
                    UNROLL
                    for (i32 k = 0; k < 1; k++) {
                        const i64 i = first + 32 * k;
                        const f32 v0 = x0[k];
                        const f32 v6 = sub_f32(v0, v5);
                        const f32 v7 = mul_f32(v6, v6);
                        p8 = p8 + (f64)v7;
                    }
                }
                UNROLL
                for (i32 by = 16; by; by /= 2) {
                    FROM_FURTHER(f64, other, p8, by);
                    p8 = p8 + (f64)other;
                }
                FROM_FIRST(f64, p8);
                if (sets == 1) t8 = p8;
                else if ((set & 31) == lane) {
                    t8 = t8 + (f64)p8;
                }
            }
        }
        if (sets > 1) {
            UNROLL
            for (i32 by = 16; by; by /= 2) {
                FROM_FURTHER(f64, other, t8, by);
                t8 = t8 + (f64)other;
            }
            FROM_FIRST(f64, t8);
        }
        const f32 v8 = (f32)t8;
        const f32 v9 = mul_f32(v8, v2);
        const f32 v10 = add_f32(v9, v3);
        const f32 v11 = rsqrt_f32(v10);
        for (i64 number = 0, set = 0; number < lines; number++) {
            const i64 before = 0;
            GLOBAL u8 *l0 = a0;
            GLOBAL u8 *l1 = a1;
            GLOBAL u8 *l2 = a2;
            for (i64 begin = 0; begin < W(1); begin += chunk, set++) {
                const i64 end = least(W(1), begin + chunk);
                i64 first = begin + lane;
                for (; first + 224 < end; first += 256) {
                    f32 x0[8];
                    f32 x1[8];
                    UNROLL
                    for (i32 k = 0; k < 8; k++) {
                        const i64 i = first + 32 * k;
                        x0[k] = kept0[before + i];
                        x1[k] = ((GLOBAL f32 *)l1)[i];
                    }
                    UNROLL
                    for (i32 k = 0; k < 8; k++) {
                        const i64 i = first + 32 * k;
                        const f32 v0 = x0[k];
                        const f32 v1 = x1[k];
                        const f32 v6 = sub_f32(v0, v5);
                        const f32 v12 = mul_f32(v6, v11);
                        const f32 v13 = mul_f32(v12, v1);
                        ((GLOBAL f32 *)l2)[i] = v13;
                    }
                }
                for (; first < end; first += 32) {
                    f32 x0[1];
                    f32 x1[1];
                    UNROLL
                    for (i32 k = 0; k < 1; k++) {
                        const i64 i = first + 32 * k;
                        x0[k] = kept0[before + i];
                        x1[k] = ((GLOBAL f32 *)l1)[i];
                    }
                    UNROLL
                    for (i32 k = 0; k < 1; k++) {
                        const i64 i = first + 32 * k;
                        const f32 v0 = x0[k];
                        const f32 v1 = x1[k];
                        const f32 v6 = sub_f32(v0, v5);
                        const f32 v12 = mul_f32(v6, v11);
                        const f32 v13 = mul_f32(v12, v1);
                        ((GLOBAL f32 *)l2)[i] = v13;
                    }
                }
            }
        }
    }
}

struct bti_run_rows_words { i64 at[12]; };
KERNEL(256) bti_run_rows(MEMORY(0) MEMORY(1) MEMORY(2) DYNAMIC const struct bti_run_rows_words words) {
    DYNAMIC_BEGIN
    EXCHANGE_BEGIN
    const f32 v2 = f32_of_bits((u32)(W(10)));
    const f32 v3 = f32_of_bits((u32)(W(11)));
    const i64 lines = 1;
    const i64 chunk = 2048 * ((W(1) + 16777215) / 16777216);
    const i64 sets = lines * divided(W(1) + chunk - 1, chunk);
    const i64 points = W(1);
    const i64 at0 = 0;
    LOCAL u8 *kept = dynamic + (THREAD / 8) * (0 + ((points * 4 + 15) & ~(i64)15));
    LOCAL f32 *kept0 = (LOCAL f32 *)(kept + at0);
    const i64 units = W(0);
    const i32 lane = (i32)(THREAD & 7);
    const i64 step = (i64)GROUPS * (THREADS / 8);
    for (i64 before32 = (i64)GROUP * (THREADS / 8) + THREAD / 32 * 4; before32 < units; before32 += step) {
        const i64 unit = before32 + (THREAD & 31) / 8;
        const i32 active = unit < units;
        const i64 extent = active ? W(1) : 0;
        i64 rest = unit;
        const i64 c0 = rest;
        GLOBAL u8 *a0 = ADDRESS(0, 2) + c0 * W(3);
        GLOBAL u8 *a1 = ADDRESS(1, 5);
        GLOBAL u8 *a2 = ADDRESS(2, 7) + c0 * W(8);
        FETCH_BEGIN();
        for (i64 number = 0; number < lines; number++) {
            const i64 before = 0;
            GLOBAL u8 *l0 = a0;
            GLOBAL u8 *l1 = a1;
            GLOBAL u8 *l2 = a2;
            UNROLL_8
            for (i64 i = lane * 4; i < extent; i += 32)
                FETCH16(&kept0[before + i], l0 + i * 4);
        }
        FETCH_END();
        f64 t4 = 0;
        f64 h4[4] = {0, 0, 0, 0};
        for (i64 number = 0, set = 0; number < lines; number++) {
            const i64 before = 0;
            GLOBAL u8 *l0 = a0;
            GLOBAL u8 *l1 = a1;
            GLOBAL u8 *l2 = a2;
            for (i64 begin = 0; begin < W(1); begin += chunk, set++) {
                const i64 end = least(extent, begin + chunk);
                f64 g4[4] = {0, 0, 0, 0};
                i64 first = begin + lane * 4;
                for (; first < end; first += 32) {
                    union { uint4 all; f32 at[4]; } x0;
                    const i64 piece = first;
                    x0.all = *(LOCAL uint4 *)&kept0[before + piece];
                    UNROLL
                    for (i32 c = 0; c < 4; c++) {
                        const i64 i = piece + c;
                        const f32 v0 = x0.at[c];
                        g4[c] = g4[c] + (f64)v0;
                    }
                }
                UNROLL
                for (i32 by = 4; by; by /= 2) {
                    UNROLL
                    for (i32 c = 0; c < 4; c++) {
                        FROM_FURTHER(f64, other, g4[c], by);
                        g4[c] = g4[c] + (f64)other;
                    }
                }
                g4[0] = g4[0] + (f64)g4[2];
                g4[1] = g4[1] + (f64)g4[3];
                g4[0] = g4[0] + (f64)g4[1];
                FROM_FIRST_OF(f64, g4[0], 8);
                if (sets == 1) t4 = g4[0];
                else
                UNROLL
                for (i32 c = 0; c < 4; c++) {
                    if ((set & 31) == lane * 4 + c) {
                        h4[c] = h4[c] + (f64)g4[0];
                    }
                }
            }
        }
        if (sets > 1) {
            UNROLL
            for (i32 by = 4; by; by /= 2) {
                UNROLL
                for (i32 c = 0; c < 4; c++) {
                    FROM_FURTHER(f64, other, h4[c], by);
                    h4[c] = h4[c] + (f64)other;
                }
            }
            h4[0] = h4[0] + (f64)h4[2];
            h4[1] = h4[1] + (f64)h4[3];
            h4[0] = h4[0] + (f64)h4[1];
            FROM_FIRST_OF(f64, h4[0], 8);
            t4 = h4[0];
        }
        const f32 v4 = (f32)t4;
        const f32 v5 = mul_f32(v4, v2);
        f64 t8 = 0;
        f64 h8[4] = {0, 0, 0, 0};
        for (i64 number = 0, set = 0; number < lines; number++) {
            const i64 before = 0;
            GLOBAL u8 *l0 = a0;
            GLOBAL u8 *l1 = a1;
            GLOBAL u8 *l2 = a2;
            for (i64 begin = 0; begin < W(1); begin += chunk, set++) {
                const i64 end = least(extent, begin + chunk);
                f64 g8[4] = {0, 0, 0, 0};
                i64 first = begin + lane * 4;
                for (; first < end; first += 32) {
                    union { uint4 all; f32 at[4]; } x0;
                    const i64 piece = first;
                    x0.all = *(LOCAL uint4 *)&kept0[before + piece];
                    UNROLL
                    for (i32 c = 0; c < 4; c++) {
                        const i64 i = piece + c;
                        const f32 v0 = x0.at[c];
                        const f32 v6 = sub_f32(v0, v5);
                        const f32 v7 = mul_f32(v6, v6);
                        g8[c] = g8[c] + (f64)v7;
                    }
                }
                UNROLL
                for (i32 by = 4; by; by /= 2) {
                    UNROLL
                    for (i32 c = 0; c < 4; c++) {
                        FROM_FURTHER(f64, other, g8[c], by);
                        g8[c] = g8[c] + (f64)other;
                    }
                }
                g8[0] = g8[0] + (f64)g8[2];
                g8[1] = g8[1] + (f64)g8[3];
                g8[0] = g8[0] + (f64)g8[1];
                FROM_FIRST_OF(f64, g8[0], 8);
                if (sets == 1) t8 = g8[0];
                else
                UNROLL
                for (i32 c = 0; c < 4; c++) {
                    if ((set & 31) == lane * 4 + c) {
                        h8[c] = h8[c] + (f64)g8[0];
                    }
                }
            }
        }
        if (sets > 1) {
            UNROLL
            for (i32 by = 4; by; by /= 2) {
                UNROLL
                for (i32 c = 0; c < 4; c++) {
                    FROM_FURTHER(f64, other, h8[c], by);
                    h8[c] = h8[c] + (f64)other;
                }
            }
            h8[0] = h8[0] + (f64)h8[2];
            h8[1] = h8[1] + (f64)h8[3];
            h8[0] = h8[0] + (f64)h8[1];
            FROM_FIRST_OF(f64, h8[0], 8);
            t8 = h8[0];
        }
        const f32 v8 = (f32)t8;
        const f32 v9 = mul_f32(v8, v2);
        const f32 v10 = add_f32(v9, v3);
        const f32 v11 = rsqrt_f32(v10);
        for (i64 number = 0, set = 0; number < lines; number++) {
            const i64 before = 0;
            GLOBAL u8 *l0 = a0;
            GLOBAL u8 *l1 = a1;
            GLOBAL u8 *l2 = a2;
            for (i64 begin = 0; begin < W(1); begin += chunk, set++) {
                const i64 end = least(extent, begin + chunk);
                i64 first = begin + lane * 4;
                for (; first + 96 < end; first += 128) {
                    union { uint4 all; f32 at[4]; } x0[4];
                    union { uint4 all; f32 at[4]; } x1[4];
                    UNROLL
                    for (i32 k = 0; k < 4; k++) {
                        const i64 piece = first + 32 * k;
                        x0[k].all = *(LOCAL uint4 *)&kept0[before + piece];
                        x1[k].all = *(GLOBAL uint4 *)((GLOBAL f32 *)l1 + piece);
                    }
                    UNROLL
                    for (i32 k = 0; k < 4; k++) {
                        const i64 piece = first + 32 * k;
                        union { uint4 all; f32 at[4]; } y2;
                        UNROLL
                        for (i32 c = 0; c < 4; c++) {
                            const i64 i = piece + c;
                            const f32 v0 = x0[k].at[c];
                            const f32 v1 = x1[k].at[c];
                            const f32 v6 = sub_f32(v0, v5);
                            const f32 v12 = mul_f32(v6, v11);
                            const f32 v13 = mul_f32(v12, v1);
                            y2.at[c] = v13;
                        }
                        *(GLOBAL uint4 *)((GLOBAL f32 *)l2 + piece) = y2.all;
                    }
                }
                for (; first < end; first += 32) {
                    union { uint4 all; f32 at[4]; } x0;
                    union { uint4 all; f32 at[4]; } x1;
                    const i64 piece = first;
                    x0.all = *(LOCAL uint4 *)&kept0[before + piece];
                    x1.all = *(GLOBAL uint4 *)((GLOBAL f32 *)l1 + piece);
                    union { uint4 all; f32 at[4]; } y2;
                    UNROLL
                    for (i32 c = 0; c < 4; c++) {
                        const i64 i = piece + c;
                        const f32 v0 = x0.at[c];
                        const f32 v1 = x1.at[c];
                        const f32 v6 = sub_f32(v0, v5);
                        const f32 v12 = mul_f32(v6, v11);
                        const f32 v13 = mul_f32(v12, v1);
                        y2.at[c] = v13;
                    }
                    *(GLOBAL uint4 *)((GLOBAL f32 *)l2 + piece) = y2.all;
                }
            }
        }
    }
}
