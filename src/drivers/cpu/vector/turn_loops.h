/* Transposed copies of elements of 32 bits for one target: squares of as many elements a side as a vector has. */

#if defined(__AVX512F__)
enum { TURN_LANES = 16 };
typedef uint32_t turn_vector __attribute__((vector_size(64)));
#define TURN_LOW 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23
#define TURN_HIGH 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31
#elif defined(__AVX2__)
enum { TURN_LANES = 8 };
typedef uint32_t turn_vector __attribute__((vector_size(32)));
#define TURN_LOW 0, 8, 1, 9, 2, 10, 3, 11
#define TURN_HIGH 4, 12, 5, 13, 6, 14, 7, 15
#else
enum { TURN_LANES = 4 };
typedef uint32_t turn_vector __attribute__((vector_size(16)));
#define TURN_LOW 0, 4, 1, 5
#define TURN_HIGH 2, 6, 3, 7
#endif

/* Each round interleaves the upper half of the rows with the lower half. */
static inline __attribute__((always_inline)) void turn_square(char *to, int64_t to_row, const char *from,
                                                              int64_t from_column) {
    turn_vector rows[TURN_LANES], mixed[TURN_LANES];
    _Pragma("GCC unroll 16") for (int i = 0; i < TURN_LANES; i++)
        memcpy(&rows[i], from + i * from_column, sizeof rows[i]);
    _Pragma("GCC unroll 4") for (int round = 1; round < TURN_LANES; round *= 2) {
        _Pragma("GCC unroll 8") for (int i = 0; i < TURN_LANES / 2; i++) {
            mixed[2 * i] = __builtin_shufflevector(rows[i], rows[i + TURN_LANES / 2], TURN_LOW);
            mixed[2 * i + 1] = __builtin_shufflevector(rows[i], rows[i + TURN_LANES / 2], TURN_HIGH);
        }
        _Pragma("GCC unroll 16") for (int i = 0; i < TURN_LANES; i++) rows[i] = mixed[i];
    }
    _Pragma("GCC unroll 16") for (int i = 0; i < TURN_LANES; i++) memcpy(to + i * to_row, &rows[i], sizeof rows[i]);
}

static void turn(char *to, int64_t to_row, const char *from, int64_t from_column, int64_t rows, int64_t columns) {
    int64_t i = 0, whole = columns - columns % TURN_LANES;
    for (; i + TURN_LANES <= rows; i += TURN_LANES) {
        for (int64_t j = 0; j < whole; j += TURN_LANES)
            turn_square(to + i * to_row + j * 4, to_row, from + j * from_column + i * 4, from_column);
        for (int64_t j = whole; j < columns; j++)
            for (int64_t r = i; r < i + TURN_LANES; r++)
                memcpy(to + r * to_row + j * 4, from + j * from_column + r * 4, 4);
    }
    for (; i < rows; i++)
        for (int64_t j = 0; j < columns; j++) memcpy(to + i * to_row + j * 4, from + j * from_column + i * 4, 4);
}
