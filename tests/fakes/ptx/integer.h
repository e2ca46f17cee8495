/* Functions for each width of integers: integer.c and bits.c. */
#ifndef BERTH_TESTS_FAKES_PTX_INTEGER_H
#define BERTH_TESTS_FAKES_PTX_INTEGER_H

#include "fakes/ptx/lanes.h"

/* name_BITS computes an expression over X, Y, Z (unsigned) and SX, SY (signed), which are 64 bits wide, cut to U. */
#define X ((uint64_t)(U)a[i])
#define Y ((uint64_t)(U)b[i])
#define Z ((uint64_t)(U)c[i])
#define SX ((int64_t)(S)a[i])
#define SY ((int64_t)(S)b[i])
#define ONE(name, bits, ...)                               \
    PTX_COMPUTE(name##_##bits) {                           \
        typedef uint##bits##_t U PTX_UNUSED;               \
        typedef int##bits##_t S PTX_UNUSED;                \
        enum { BITS PTX_UNUSED = bits };                   \
        PTX_EACH_LANE(to[i] = (uint64_t)(U)(__VA_ARGS__)); \
    }
#define EACH(name, ...)        \
    ONE(name, 16, __VA_ARGS__) \
    ONE(name, 32, __VA_ARGS__) \
    ONE(name, 64, __VA_ARGS__)
#define PICK(name) (bits == 16 ? name##_16 : bits == 32 ? name##_32 : bits == 64 ? name##_64 : NULL)

#endif
