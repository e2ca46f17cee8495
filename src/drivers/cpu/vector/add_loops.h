/* Loops of scatters for one target (drivers/cpu/scatter.h): additions at places that repeat, in order, each rounded to the dtype. */
#if defined(__F16C__)
#include <immintrin.h>
#endif

/* --- one element -------------------------------------------------------------------------------------------------- */

#define ADDED(name, type, expression) \
    static inline __attribute__((always_inline)) type added_##name(type x, type y) { return (type)(expression); }
ADDED(or, uint8_t, x | y)
ADDED(u8, uint8_t, x + y)
ADDED(u16, uint16_t, x + y)
ADDED(u32, uint32_t, x + y)
ADDED(u64, uint64_t, x + y)
ADDED(f32, float, x + y)
ADDED(f64, double, x + y)
ADDED(bf16, uint16_t, bti_bf16_from_f32(bti_f32_from_bf16(x) + bti_f32_from_bf16(y)))
#if defined(__F16C__)
ADDED(f16, uint16_t, _cvtss_sh(_cvtsh_ss(x) + _cvtsh_ss(y), _MM_FROUND_TO_NEAREST_INT))
#else
ADDED(f16, uint16_t, bti_f16_from_f32(bti_f32_from_f16(x) + bti_f32_from_f16(y)))
#endif

/* --- one row ------------------------------------------------------------------------------------------------------ */

#define ADD_ROW(name, type)                                                                                        \
    static inline __attribute__((always_inline)) void add_row_##name(type *restrict to, const type *restrict from, \
                                                                     int64_t width) {                              \
        INDEPENDENT for (int64_t i = 0; i < width; i++) to[i] = added_##name(to[i], from[i]);                      \
    }
ADD_ROW(or, uint8_t)
ADD_ROW(u8, uint8_t)
ADD_ROW(u16, uint16_t)
ADD_ROW(u32, uint32_t)
ADD_ROW(u64, uint64_t)
ADD_ROW(f32, float)
ADD_ROW(f64, double)
ADD_ROW(bf16, uint16_t)
#if defined(__F16C__)
static inline __attribute__((always_inline)) void add_row_f16(uint16_t *restrict to, const uint16_t *restrict from,
                                                              int64_t width) {
    int64_t i = 0;
    for (; i + 8 <= width; i += 8) {
        __m128i x = _mm_loadu_si128((const __m128i_u *)(const void *)(to + i)),
                y = _mm_loadu_si128((const __m128i_u *)(const void *)(from + i));
        __m256 sum = _mm256_add_ps(_mm256_cvtph_ps(x), _mm256_cvtph_ps(y));
        _mm_storeu_si128((__m128i_u *)(void *)(to + i), _mm256_cvtps_ph(sum, _MM_FROUND_TO_NEAREST_INT));
    }
    for (; i < width; i++) to[i] = added_f16(to[i], from[i]);
}
#else
ADD_ROW(f16, uint16_t)
#endif

/* --- rows and places ---------------------------------------------------------------------------------------------- */

enum { ROWS_AHEAD = 12, PLACES_AHEAD = 32, LINES_AHEAD = 4, FIRST_CACHE = 32 << 10 };

static inline __attribute__((always_inline)) void fetch_row(const char *row, int64_t bytes) {
    if (bytes > LINES_AHEAD * 64) bytes = LINES_AHEAD * 64;
    for (int64_t at = 0; at < bytes; at += 64) __builtin_prefetch(row + at, 1);
}

#define ADD_ROWS_OF(name, type, columns)                                                                             \
    for (int64_t k = 0; k < a->count; k++) {                                                                         \
        if (k + ROWS_AHEAD < a->count) fetch_row(a->out + a->to[k + ROWS_AHEAD], (columns) * (int64_t)sizeof(type)); \
        add_row_##name((type *)(void *)(a->out + a->to[k]), (const type *)(const void *)(a->from + a->of[k]),        \
                       columns);                                                                                     \
    }                                                                                                                \
    break

/* The place of an index that is not checked yet: fetching from an address that is none does nothing. */
static inline __attribute__((always_inline)) void fetch_place(const char *out, int64_t index, int64_t step) {
    __builtin_prefetch((const void *)((uintptr_t)out + (uintptr_t)index * (uintptr_t)step), 1);
}

/* With the steps as constants where elements and indices are contiguous. */
#define ADD_PLACES_OF(name, type, index, steps_of_y, steps_of_from, steps_of_out, steps_of_places)                     \
    do {                                                                                                               \
        const int64_t y_step = steps_of_y, from_step = steps_of_from, out_step = steps_of_out, step = steps_of_places; \
        for (int64_t i = 0; i < count; i++) {                                                                          \
            int64_t place = *(const index *)(const void *)(y + i * y_step);                                            \
            if (i < fetched) fetch_place(out, *(const index *)(const void *)(y + (i + PLACES_AHEAD) * y_step), step);  \
            if (place < 0) place += places;                                                                            \
            if ((uint64_t)place >= (uint64_t)places) continue;                                                         \
            type *to = (type *)(void *)(out + i * out_step + place * step);                                            \
            *to = added_##name(*to, *(const type *)(const void *)(from + i * from_step));                              \
        }                                                                                                              \
    } while (0)
#define ADD_PLACES(name, type, index)                                                                \
    do {                                                                                             \
        enum { INDEX = sizeof(index), SIZE = sizeof(type) };                                         \
        if (a->y_step == INDEX && a->from_step == SIZE && a->out_step == 0 && a->place_step == SIZE) \
            ADD_PLACES_OF(name, type, index, INDEX, SIZE, 0, SIZE);                                  \
        else                                                                                         \
            ADD_PLACES_OF(name, type, index, a->y_step, a->from_step, a->out_step, a->place_step);   \
    } while (0)
#define ADDS(name, type)                                                                            \
    static void add_rows_##name(const bti_row_adds *a) {                                            \
        switch (a->width) {                                                                         \
        case 2: ADD_ROWS_OF(name, type, 2);                                                         \
        case 3: ADD_ROWS_OF(name, type, 3);                                                         \
        case 4: ADD_ROWS_OF(name, type, 4);                                                         \
        case 8: ADD_ROWS_OF(name, type, 8);                                                         \
        case 16: ADD_ROWS_OF(name, type, 16);                                                       \
        case 32: ADD_ROWS_OF(name, type, 32);                                                       \
        default: ADD_ROWS_OF(name, type, a->width);                                                 \
        }                                                                                           \
    }                                                                                               \
    static void add_places_##name(const bti_place_adds *a) {                                        \
        const char *y = a->y, *from = a->from;                                                      \
        char *out = a->out;                                                                         \
        const int64_t count = a->count, places = a->places, bytes = places * (int64_t)sizeof(type); \
        const int64_t fetched = bytes > FIRST_CACHE ? count - PLACES_AHEAD : 0;                     \
        if (a->wide)                                                                                \
            ADD_PLACES(name, type, int64_t);                                                        \
        else                                                                                        \
            ADD_PLACES(name, type, int32_t);                                                        \
    }
ADDS(or, uint8_t)
ADDS(u8, uint8_t)
ADDS(u16, uint16_t)
ADDS(u32, uint32_t)
ADDS(u64, uint64_t)
ADDS(f32, float)
ADDS(f64, double)
ADDS(bf16, uint16_t)
ADDS(f16, uint16_t)
