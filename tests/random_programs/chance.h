/* Where random programs come from. */
#ifndef BERTH_TESTS_RANDOM_PROGRAMS_CHANCE_H
#define BERTH_TESTS_RANDOM_PROGRAMS_CHANCE_H

#include <stdint.h>

typedef struct chance {
    uint64_t state;
} chance;

static inline uint64_t draw(chance *c) { /* splitmix64 */
    uint64_t z = c->state += UINT64_C(0x9E3779B97F4A7C15);
    z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
    return z ^ (z >> 31);
}
static inline int below(chance *c, int n) { return (int)(draw(c) % (uint64_t)n); }

#endif
