/* Radix sort of words, stable, by one byte of the key after the other. */
#ifndef BTI_DRIVERS_CPU_SORT_RADIX_H
#define BTI_DRIVERS_CPU_SORT_RADIX_H

#include "base/error.h"
#include "drivers/cpu/sort/keys.h"

/* Words of a chunk; a line is cut into so many chunks at most. Chunks are counted, and moved, side by side. */
#define BTI_RADIX_CHUNK ((int64_t)1 << 16)
#define BTI_RADIX_MOST_CHUNKS 32
static inline int64_t bti_radix_chunk(int64_t count) {
    int64_t most = BTI_RADIX_CHUNK * BTI_RADIX_MOST_CHUNKS;
    return BTI_RADIX_CHUNK * (count > most ? (count + most - 1) / most : 1);
}

/* Sorts `count` words, by as many cores as are there where there are many; `spare` has as much room. Which of the two has them then; NULL when memory is
 * short. `differ`: the bits of keys in which words differ, at least. */
char *bti_words_sort(const bti_words_form *form, char *words, char *spare, int64_t count, uint64_t differ);

#endif
