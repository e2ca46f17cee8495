/* Convolutions (ir/conv.h) as matrix products [groups][M][K] x [groups][K][N] of c/matmul.h. Arrays are dense; what lies beside x is 0:
 *     MAKES_Y   M: outputs; N: images by places of y; K: channels by the kernel; left w, right x
 *     MAKES_X   M: channels; N: images by places of x; K: outputs by the kernel; left w, right y
 *     MAKES_W   M: outputs; N: channels by the kernel; K: images by places of y; left y, right x
 * Words behind M, N and K: outputs and channels of a group; of three axes the places of x, of w and of y, strides, places before x, dilations; the address
 * of what is made. M, N and K are less than 2**31. */
#define OUTPUTS W(7)
#define CHANNELS W(8)
#define SIZE_X(axis) W(9 + (axis))
#define SIZE_W(axis) W(12 + (axis))
#define SIZE_Y(axis) W(15 + (axis))
#define STRIDE(axis) W(18 + (axis))
#define BEFORE(axis) W(21 + (axis))
#define DILATION(axis) W(24 + (axis))
#define ALL(sizes) (sizes(0) * sizes(1) * sizes(2))
#define GROUPS_OF_CONV W(3)

/* What number by places is, as name and name0, name1, name2. */
#define SPLIT(name, number, sizes)                                                                   \
    const u32 name##2 = (u32)(number) % (u32)sizes(2), name##_lines = (u32)(number) / (u32)sizes(2); \
    const u32 name##1 = name##_lines % (u32)sizes(1), name##_planes = name##_lines / (u32)sizes(1);  \
    const u32 name##0 = name##_planes % (u32)sizes(0);                                               \
    const i64 name = name##_planes / (u32)sizes(0);
/* An element of x and y, of the images' channel or output. */
#define AT_X(image, channel, p0, p1, p2)                                        \
    ((((image)*GROUPS_OF_CONV + matrix) * CHANNELS + (channel)) * ALL(SIZE_X) + \
     (((i64)(p0)*SIZE_X(1) + (p1)) * SIZE_X(2) + (p2)))
#define AT_Y(image, output, p0, p1, p2)                                       \
    ((((image)*GROUPS_OF_CONV + matrix) * OUTPUTS + (output)) * ALL(SIZE_Y) + \
     (((i64)(p0)*SIZE_Y(1) + (p1)) * SIZE_Y(2) + (p2)))
#define AT_W(output, channel, k) (((matrix * OUTPUTS + (output)) * CHANNELS + (channel)) * ALL(SIZE_W) + (k))
/* Where the kernel meets x, and whether that is in x. */
#define MET(axis, p, k) ((i64)(p)*STRIDE(axis) - BEFORE(axis) + (i64)(k)*DILATION(axis))
#define IN_X(at, axis) ((u64)(at) < (u64)SIZE_X(axis))

#define LEFT_BEGIN 0
#define RIGHT_BEGIN 0
#define LEFT_IS_DEEP 1

#ifdef MAKES_X
#define RIGHT_IS_DEEP 0
#define LOAD_LEFT(to, i, k, inside)                                                 \
    do {                                                                            \
        const u32 taps = (u32)ALL(SIZE_W), output = (u32)(k) / taps;                \
        to = (inside) ? VALUE(from_a[AT_W(output, i, (u32)(k)-output * taps)]) : 0; \
    } while (0)
#define LOAD_RIGHT(to, k, j, inside)                                                                            \
    do {                                                                                                        \
        SPLIT(n, j, SIZE_X)                                                                                     \
        SPLIT(o, k, SIZE_W)                                                                                     \
        const i64 at0 = n0 + BEFORE(0) - o0 * DILATION(0), at1 = n1 + BEFORE(1) - o1 * DILATION(1),             \
                  at2 = n2 + BEFORE(2) - o2 * DILATION(2);                                                      \
        const i64 p0 = at0 / STRIDE(0), p1 = at1 / STRIDE(1), p2 = at2 / STRIDE(2);                             \
        const u32 meets = at0 >= 0 && at1 >= 0 && at2 >= 0 && p0 * STRIDE(0) == at0 && p1 * STRIDE(1) == at1 && \
                          p2 * STRIDE(2) == at2 && p0 < SIZE_Y(0) && p1 < SIZE_Y(1) && p2 < SIZE_Y(2);          \
        to = (inside) && meets ? VALUE(from_b[AT_Y(n, o, p0, p1, p2)]) : 0;                                     \
    } while (0)
#define MADE_AT(i, j) made_at_places(i, j, ALL(SIZE_X), CHANNELS)
#else
#define LOAD_MET(to, image, channel, p, k, inside)                                              \
    do {                                                                                        \
        const i64 at0 = MET(0, p##0, k##0), at1 = MET(1, p##1, k##1), at2 = MET(2, p##2, k##2); \
        const u32 meets = IN_X(at0, 0) && IN_X(at1, 1) && IN_X(at2, 2);                         \
        to = (inside) && meets ? VALUE(from_b[AT_X(image, channel, at0, at1, at2)]) : 0;        \
    } while (0)
#endif

#ifdef MAKES_Y
#define RIGHT_IS_DEEP 0
#define LOAD_LEFT(to, i, k, inside) to = (inside) ? VALUE(from_a[(matrix * OUTPUTS + (i)) * depth + (k)]) : 0
#define LOAD_RIGHT(to, k, j, inside)      \
    do {                                  \
        SPLIT(n, j, SIZE_Y)               \
        SPLIT(c, k, SIZE_W)               \
        LOAD_MET(to, n, c, n, c, inside); \
    } while (0)
#define MADE_AT(i, j) made_at_places(i, j, ALL(SIZE_Y), OUTPUTS)
#endif

#ifdef MAKES_W
#define RIGHT_IS_DEEP 1
#define LOAD_LEFT(to, i, k, inside)                                                       \
    do {                                                                                  \
        const u32 places = (u32)ALL(SIZE_Y), image = (u32)(k) / places;                   \
        to = (inside) ? VALUE(from_a[AT_Y(image, i, 0, 0, (u32)(k)-image * places)]) : 0; \
    } while (0)
#define LOAD_RIGHT(to, k, j, inside)      \
    do {                                  \
        SPLIT(c, j, SIZE_W)               \
        SPLIT(n, k, SIZE_Y)               \
        LOAD_MET(to, n, c, n, c, inside); \
    } while (0)
#define MADE_AT(i, j) ((matrix * OUTPUTS + (i)) * columns + (j))
#endif

/* Column j is an image and a place. */
#define made_at_places(i, j, places, channels)                                                    \
    (((i64)((u32)(j) / (u32)(places)) * GROUPS_OF_CONV + matrix) * (channels) + (i)) * (places) + \
        (u32)(j) % (u32)(places)
