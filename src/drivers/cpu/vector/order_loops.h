/* Loops over keys of sorts for one target (drivers/cpu/sort/keys.h). */

/* --- keys from bits and back, in place ---------------------------------------------------------------------------- */

#define KEYS(word)                                                                                    \
    static void keys_##word(void *words, int64_t count, const bti_key_form *form) {                   \
        word *x = words;                                                                              \
        const word sign = (word)form->sign, all = sign | (sign - 1), infinity = (word)form->infinity, \
                   flip = (word)form->flip;                                                           \
        if (!form->is_float) {                                                                        \
            for (int64_t i = 0; i < count; i++) x[i] ^= flip;                                         \
            return;                                                                                   \
        }                                                                                             \
        INDEPENDENT for (int64_t i = 0; i < count; i++) {                                             \
            const word bits = x[i], magnitude = bits & ~sign;                                         \
            const word of_number = magnitude ? bits ^ (bits & sign ? all : sign) : sign;              \
            x[i] = (magnitude > infinity ? all : of_number) ^ flip;                                   \
        }                                                                                             \
    }                                                                                                 \
    static void elements_##word(void *words, int64_t count, const bti_key_form *form) {               \
        word *x = words;                                                                              \
        const word sign = (word)form->sign, all = sign | (sign - 1), flip = (word)form->flip;         \
        const word negative = form->is_float ? all : 0, positive = form->is_float ? sign : 0;         \
        INDEPENDENT for (int64_t i = 0; i < count; i++) {                                             \
            const word key = x[i] ^ flip;                                                             \
            x[i] = key ^ (key & sign ? positive : negative);                                          \
        }                                                                                             \
    }                                                                                                 \
    static bool alike_##word(const void *bits, int64_t count, const bti_key_form *form) {             \
        const word *x = bits, magnitude = (word)~form->sign, infinity = (word)form->infinity;         \
        word found = 0;                                                                               \
        for (int64_t i = 0; i < count; i++) found |= (word)((x[i] & magnitude) - 1) >= infinity;      \
        return found;                                                                                 \
    }                                                                                                 \
    static bool below_##word(const void *words, int64_t count, uint64_t limit) {                      \
        const word *x = words, most = (word)limit;                                                    \
        word found = 0;                                                                               \
        for (int64_t i = 0; i < count; i++) found |= x[i] < most;                                     \
        return found;                                                                                 \
    }
KEYS(uint32_t)
KEYS(uint64_t)

#define LEAST(word)                                                                                  \
    static void least_##word(const void *words, int64_t count, void *least) {                        \
        const word *x = words;                                                                       \
        word own[BTI_KEY_GROUPS];                                                                    \
        memcpy(own, x, sizeof own);                                                                  \
        for (int64_t i = BTI_KEY_GROUPS; i + BTI_KEY_GROUPS <= count; i += BTI_KEY_GROUPS)           \
            for (int g = 0; g < BTI_KEY_GROUPS; g++) own[g] = x[i + g] < own[g] ? x[i + g] : own[g]; \
        memcpy(least, own, sizeof own);                                                              \
    }
LEAST(uint32_t)
LEAST(uint64_t)

#define FINDS(word)                                                                      \
    static bool finds_##word(const void *words, int64_t count, uint64_t a, uint64_t b) { \
        const word *x = words, first = (word)a, second = (word)b;                        \
        word found = 0;                                                                  \
        for (int64_t i = 0; i < count; i++) found |= (x[i] == first) | (x[i] == second); \
        return found;                                                                    \
    }
FINDS(uint32_t)
FINDS(uint64_t)

/* --- lines side by side ------------------------------------------------------------------------------------------- */

/* Puts two rows in order, position by position. */
#define NETWORK(word)                                                                                           \
    static inline __attribute__((always_inline)) void exchange_##word(word *restrict a, word *restrict b) {     \
        for (int l = 0; l < BTI_SIDE_BY_SIDE; l++) {                                                            \
            const word x = a[l], y = b[l];                                                                      \
            a[l] = x < y ? x : y;                                                                               \
            b[l] = x < y ? y : x;                                                                               \
        }                                                                                                       \
    }                                                                                                           \
    static void network_##word(void *words, int64_t count) {                                                    \
        word *rows = words;                                                                                     \
        int64_t most = 1;                                                                                       \
        while (most * 2 < count) most *= 2;                                                                     \
        for (int64_t p = most; p > 0 && count > 1; p /= 2)                                                      \
            for (int64_t q = most, offset = 0, distance = p; distance > 0;) {                                   \
                for (int64_t i = offset; i < count - distance; i += 2 * p)                                      \
                    for (int64_t j = i; j < i + p && j < count - distance; j++)                                 \
                        exchange_##word(rows + j * BTI_SIDE_BY_SIDE, rows + (j + distance) * BTI_SIDE_BY_SIDE); \
                distance = q > p ? q - p : 0;                                                                   \
                offset = p;                                                                                     \
                q /= 2;                                                                                         \
            }                                                                                                   \
    }
NETWORK(uint32_t)
NETWORK(uint64_t)
