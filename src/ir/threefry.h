/* Threefry-2x32, 20 rounds: Salmon et al., "Parallel random numbers: as easy as 1, 2, 3" (SC 2011). Without branches and
 * unrolled, so that loops over it become vectors. */
#ifndef BTI_IR_THREEFRY_H
#define BTI_IR_THREEFRY_H

#include <stdint.h>

static inline uint32_t bti_rotated(uint32_t x, int by) { return x << by | x >> (32 - by); }

/* Words a and b of key (k0, k1), counter (c0, c1). */
static inline __attribute__((always_inline)) void bti_threefry_words(uint32_t k0, uint32_t k1, uint32_t c0, uint32_t c1,
                                                                     uint32_t *word0, uint32_t *word1) {
    const int rotation[2][4] = {{13, 15, 26, 6}, {17, 29, 16, 24}};
    const uint32_t k[3] = {k0, k1, k0 ^ k1 ^ 0x1BD11BDA};
    uint32_t a = c0 + k[0], b = c1 + k[1];
#pragma GCC unroll 5
    for (uint32_t group = 0; group < 5; group++) {
#pragma GCC unroll 4
        for (int round = 0; round < 4; round++) {
            a += b;
            b = bti_rotated(b, rotation[group % 2][round]) ^ a;
        }
        a += k[(group + 1) % 3];
        b += k[(group + 2) % 3] + group + 1;
    }
    *word0 = a;
    *word1 = b;
}

/* The operation random_word: see its row in ops.def. */
static inline __attribute__((always_inline)) uint32_t bti_threefry_word(uint32_t k0, uint32_t k1, uint32_t number,
                                                                        uint32_t count) {
    uint32_t half = count / 2 + count % 2, i = number < half ? number : number - half, word0, word1;
    uint32_t second = i < count - half ? half + i : 0; /* of an odd count the last block lacks its second counter */
    bti_threefry_words(k0, k1, i, second, &word0, &word1);
    return number < half ? word0 : word1;
}

#endif
