/* Loops of scatters for one target (drivers/cpu/scatter.h): elements are combined at places that repeat, in order, each sum rounded to the
 * dtype. */
#if defined(__F16C__)
#include <immintrin.h>
#endif

/* --- one element -------------------------------------------------------------------------------------------------- */

/* Of x, which was there, and y. */
#define COMBINED(name, type, expression) \
    static inline __attribute__((always_inline)) type combined_##name(type x, type y) { return (type)(expression); }
#if defined(__F16C__)
#define OF_F16(x) _cvtsh_ss(x)
#define TO_F16(x) _cvtss_sh(x, _MM_FROUND_TO_NEAREST_INT)
#else
#define OF_F16(x) bti_f32_from_f16(x)
#define TO_F16(x) bti_f16_from_f32(x)
#endif
#define OF_BF16(x) bti_f32_from_bf16(x)
COMBINED(or, uint8_t, x | y)
COMBINED(u8, uint8_t, x + y)
COMBINED(u16, uint16_t, x + y)
COMBINED(u32, uint32_t, x + y)
COMBINED(u64, uint64_t, x + y)
COMBINED(f32, float, x + y)
COMBINED(f64, double, x + y)
COMBINED(bf16, uint16_t, bti_bf16_from_f32(OF_BF16(x) + OF_BF16(y)))
COMBINED(f16, uint16_t, TO_F16(OF_F16(x) + OF_F16(y)))
#define SET(name, type) COMBINED(set_##name, type, ((void)x, y))
SET(8, uint8_t)
SET(16, uint16_t)
SET(32, uint32_t)
SET(64, uint64_t)
/* The greater or the smaller; NaN wins. */
#define EXTREMES(name, type)                  \
    COMBINED(max_##name, type, x > y ? x : y) \
    COMBINED(min_##name, type, x < y ? x : y)
#define FLOAT_EXTREMES(name, type, of)                                     \
    COMBINED(max_##name, type, of(x) != of(x) ? x : of(x) > of(y) ? x : y) \
    COMBINED(min_##name, type, of(x) != of(x) ? x : of(x) < of(y) ? x : y)
EXTREMES(u8, uint8_t)
EXTREMES(i8, int8_t)
EXTREMES(u16, uint16_t)
EXTREMES(i16, int16_t)
EXTREMES(u32, uint32_t)
EXTREMES(i32, int32_t)
EXTREMES(u64, uint64_t)
EXTREMES(i64, int64_t)
/* By their bits: which one it is follows no pattern, so that jumps would be foreseen badly. */
#define BY_BITS(name, type, bits, expression)                                           \
    static inline __attribute__((always_inline)) type combined_##name(type x, type y) { \
        bits of_x, of_y, first = (bits)0 - (bits)(expression);                          \
        memcpy(&of_x, &x, sizeof x);                                                    \
        memcpy(&of_y, &y, sizeof y);                                                    \
        of_y ^= (of_x ^ of_y) & first;                                                  \
        memcpy(&y, &of_y, sizeof y);                                                    \
        return y;                                                                       \
    }
BY_BITS(max_f32, float, uint32_t, (x > y) | (x != x))
BY_BITS(min_f32, float, uint32_t, (x < y) | (x != x))
BY_BITS(max_f64, double, uint64_t, (x > y) | (x != x))
BY_BITS(min_f64, double, uint64_t, (x < y) | (x != x))
FLOAT_EXTREMES(f16, uint16_t, OF_F16)
FLOAT_EXTREMES(bf16, uint16_t, OF_BF16)

/* --- one row ------------------------------------------------------------------------------------------------------ */

#define COMBINE_ROW(name, type)                                                                                        \
    static inline __attribute__((always_inline)) void combine_row_##name(type *restrict to, const type *restrict from, \
                                                                         int64_t width) {                              \
        INDEPENDENT for (int64_t i = 0; i < width; i++) to[i] = combined_##name(to[i], from[i]);                       \
    }
COMBINE_ROW(or, uint8_t)
COMBINE_ROW(u8, uint8_t)
COMBINE_ROW(u16, uint16_t)
COMBINE_ROW(u32, uint32_t)
COMBINE_ROW(u64, uint64_t)
COMBINE_ROW(f32, float)
COMBINE_ROW(f64, double)
COMBINE_ROW(bf16, uint16_t)
#if defined(__F16C__)
static inline __attribute__((always_inline)) void combine_row_f16(uint16_t *restrict to, const uint16_t *restrict from,
                                                                  int64_t width) {
    int64_t i = 0;
    for (; i + 8 <= width; i += 8) {
        __m128i x = _mm_loadu_si128((const __m128i_u *)(const void *)(to + i)),
                y = _mm_loadu_si128((const __m128i_u *)(const void *)(from + i));
        __m256 sum = _mm256_add_ps(_mm256_cvtph_ps(x), _mm256_cvtph_ps(y));
        _mm_storeu_si128((__m128i_u *)(void *)(to + i), _mm256_cvtps_ph(sum, _MM_FROUND_TO_NEAREST_INT));
    }
    for (; i < width; i++) to[i] = combined_f16(to[i], from[i]);
}
#else
COMBINE_ROW(f16, uint16_t)
#endif
COMBINE_ROW(set_8, uint8_t)
COMBINE_ROW(set_16, uint16_t)
COMBINE_ROW(set_32, uint32_t)
COMBINE_ROW(set_64, uint64_t)
#define EXTREME_ROWS(name, type)  \
    COMBINE_ROW(max_##name, type) \
    COMBINE_ROW(min_##name, type)
EXTREME_ROWS(u8, uint8_t)
EXTREME_ROWS(i8, int8_t)
EXTREME_ROWS(u16, uint16_t)
EXTREME_ROWS(i16, int16_t)
EXTREME_ROWS(u32, uint32_t)
EXTREME_ROWS(i32, int32_t)
EXTREME_ROWS(u64, uint64_t)
EXTREME_ROWS(i64, int64_t)
EXTREME_ROWS(f32, float)
EXTREME_ROWS(f64, double)
EXTREME_ROWS(f16, uint16_t)
EXTREME_ROWS(bf16, uint16_t)

/* --- rows and places ---------------------------------------------------------------------------------------------- */

enum { ROWS_AHEAD = 12, PLACES_AHEAD = 32, LINES_AHEAD = 4, FIRST_CACHE = 32 << 10 };

static inline __attribute__((always_inline)) void fetch_row(const char *row, int64_t bytes) {
    if (bytes > LINES_AHEAD * 64) bytes = LINES_AHEAD * 64;
    for (int64_t at = 0; at < bytes; at += 64) __builtin_prefetch(row + at, 1);
}

#define ROWS_OF(name, type, columns)                                                                                 \
    for (int64_t k = 0; k < a->count; k++) {                                                                         \
        if (k + ROWS_AHEAD < a->count) fetch_row(a->out + a->to[k + ROWS_AHEAD], (columns) * (int64_t)sizeof(type)); \
        combine_row_##name((type *)(void *)(a->out + a->to[k]), (const type *)(const void *)(a->from + a->of[k]),    \
                           columns);                                                                                 \
    }                                                                                                                \
    break

/* The place of an index that is not checked yet: fetching from an address that is none does nothing. */
static inline __attribute__((always_inline)) void fetch_place(const char *out, int64_t index, int64_t step) {
    __builtin_prefetch((const void *)((uintptr_t)out + (uintptr_t)index * (uintptr_t)step), 1);
}

/* With the steps as constants where elements and indices are contiguous. */
#define PLACES_OF(name, type, index, steps_of_y, steps_of_from, steps_of_out, steps_of_places)                         \
    do {                                                                                                               \
        const int64_t y_step = steps_of_y, from_step = steps_of_from, out_step = steps_of_out, step = steps_of_places; \
        for (int64_t i = 0; i < count; i++) {                                                                          \
            int64_t place = *(const index *)(const void *)(y + i * y_step);                                            \
            if (i < fetched) fetch_place(out, *(const index *)(const void *)(y + (i + PLACES_AHEAD) * y_step), step);  \
            if (place < 0) place += places;                                                                            \
            if ((uint64_t)place >= (uint64_t)places) continue;                                                         \
            type *to = (type *)(void *)(out + i * out_step + place * step);                                            \
            *to = combined_##name(*to, *(const type *)(const void *)(from + i * from_step));                           \
        }                                                                                                              \
    } while (0)
#define PLACES(name, type, index)                                                                    \
    do {                                                                                             \
        enum { INDEX = sizeof(index), SIZE = sizeof(type) };                                         \
        if (a->y_step == INDEX && a->from_step == SIZE && a->out_step == 0 && a->place_step == SIZE) \
            PLACES_OF(name, type, index, INDEX, SIZE, 0, SIZE);                                      \
        else                                                                                         \
            PLACES_OF(name, type, index, a->y_step, a->from_step, a->out_step, a->place_step);       \
    } while (0)
#define SCATTERS(name, type)                                                                        \
    static void rows_##name(const bti_row_scatter *a) {                                             \
        switch (a->width) {                                                                         \
        case 2: ROWS_OF(name, type, 2);                                                             \
        case 3: ROWS_OF(name, type, 3);                                                             \
        case 4: ROWS_OF(name, type, 4);                                                             \
        case 8: ROWS_OF(name, type, 8);                                                             \
        case 16: ROWS_OF(name, type, 16);                                                           \
        case 32: ROWS_OF(name, type, 32);                                                           \
        default: ROWS_OF(name, type, a->width);                                                     \
        }                                                                                           \
    }                                                                                               \
    static void places_##name(const bti_place_scatter *a) {                                         \
        const char *y = a->y, *from = a->from;                                                      \
        char *out = a->out;                                                                         \
        const int64_t count = a->count, places = a->places, bytes = places * (int64_t)sizeof(type); \
        const int64_t fetched = bytes > FIRST_CACHE ? count - PLACES_AHEAD : 0;                     \
        if (a->wide)                                                                                \
            PLACES(name, type, int64_t);                                                            \
        else                                                                                        \
            PLACES(name, type, int32_t);                                                            \
    }
SCATTERS(or, uint8_t)
SCATTERS(u8, uint8_t)
SCATTERS(u16, uint16_t)
SCATTERS(u32, uint32_t)
SCATTERS(u64, uint64_t)
SCATTERS(f32, float)
SCATTERS(f64, double)
SCATTERS(bf16, uint16_t)
SCATTERS(f16, uint16_t)
SCATTERS(set_8, uint8_t)
SCATTERS(set_16, uint16_t)
SCATTERS(set_32, uint32_t)
SCATTERS(set_64, uint64_t)
#define EXTREME_SCATTERS(name, type) \
    SCATTERS(max_##name, type)       \
    SCATTERS(min_##name, type)
EXTREME_SCATTERS(u8, uint8_t)
EXTREME_SCATTERS(i8, int8_t)
EXTREME_SCATTERS(u16, uint16_t)
EXTREME_SCATTERS(i16, int16_t)
EXTREME_SCATTERS(u32, uint32_t)
EXTREME_SCATTERS(i32, int32_t)
EXTREME_SCATTERS(u64, uint64_t)
EXTREME_SCATTERS(i64, int64_t)
EXTREME_SCATTERS(f32, float)
EXTREME_SCATTERS(f64, double)
EXTREME_SCATTERS(f16, uint16_t)
EXTREME_SCATTERS(bf16, uint16_t)
