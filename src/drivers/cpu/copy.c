#include "drivers/cpu/copy.h"

#include <string.h>

#include "base/compare.h"
#include "base/cores.h"
#include "drivers/cpu/target.h"
#include "drivers/cpu/vector/vector.h"
#include "ir/kernel.h"
#include "reference/operand.h"

enum { SQUARE = 64 }; /* elements along each side of a block */

/* A copy as nested axes, merged where both sides allow it; steps are in bytes. A piece is a range of units. */
typedef struct strided_copy {
    int axes; /* outer axes; there is a unit for each of their positions, of `across` and of `along` */
    int64_t shape[BTI_MAX_RANK], to_step[BTI_MAX_RANK], from_step[BTI_MAX_RANK];
    char *to, *from;
    size_t size;
    int64_t length, to_line, from_line; /* the line; it is cut into `along` parts of `part` elements */
    int64_t along, part;
    int64_t crossing, to_cross, from_cross; /* of a transposed copy: the axis along which the source is contiguous */
    int64_t across;
    bti_turn_loop *turn; /* of 4 bytes */
} strided_copy;

/* --- transposed --------------------------------------------------------------------------------------------------- */

/* Transposes a square of 16 x 16 bytes: each round interleaves the upper half of the rows with the lower half. */
#define TRANSPOSE(name, type, lanes, low, high)                                                              \
    static inline void name(char *to, int64_t to_step, const char *from, int64_t from_step) {                \
        typedef type vector __attribute__((vector_size(16)));                                                \
        vector rows[lanes], mixed[lanes];                                                                    \
        _Pragma("GCC unroll 16") for (int i = 0; i < lanes; i++) memcpy(&rows[i], from + i * from_step, 16); \
        _Pragma("GCC unroll 4") for (int round = 1; round < lanes; round *= 2) {                             \
            _Pragma("GCC unroll 8") for (int i = 0; i < lanes / 2; i++) {                                    \
                mixed[2 * i] = __builtin_shufflevector(rows[i], rows[i + lanes / 2], low);                   \
                mixed[2 * i + 1] = __builtin_shufflevector(rows[i], rows[i + lanes / 2], high);              \
            }                                                                                                \
            memcpy(rows, mixed, sizeof rows);                                                                \
        }                                                                                                    \
        _Pragma("GCC unroll 16") for (int i = 0; i < lanes; i++) memcpy(to + i * to_step, &rows[i], 16);     \
    }
#define LIST(...) __VA_ARGS__
TRANSPOSE(transpose_1, uint8_t, 16, LIST(0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23),
          LIST(8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31))
TRANSPOSE(transpose_2, uint16_t, 8, LIST(0, 8, 1, 9, 2, 10, 3, 11), LIST(4, 12, 5, 13, 6, 14, 7, 15))
TRANSPOSE(transpose_8, uint64_t, 2, LIST(0, 2), LIST(1, 3))

static void transpose(size_t size, char *to, int64_t to_step, const char *from, int64_t from_step) {
    switch (size) {
    case 1: transpose_1(to, to_step, from, from_step); break;
    case 2: transpose_2(to, to_step, from, from_step); break;
    default: transpose_8(to, to_step, from, from_step); break;
    }
}

/* rows x columns of the result: its rows are contiguous, in the source its columns are. */
static inline __attribute__((always_inline)) void copy_block(size_t size, char *to, int64_t to_row, const char *from,
                                                             int64_t from_column, int64_t rows, int64_t columns) {
    int64_t lanes = 16 / (int64_t)size, i = 0, side = (int64_t)size;
    for (; i + lanes <= rows; i += lanes) {
        int64_t j = 0;
        for (; j + lanes <= columns; j += lanes)
            transpose(size, to + i * to_row + j * side, to_row, from + j * from_column + i * side, from_column);
        for (int64_t r = i; r < i + lanes; r++)
            bti_copy_line(to + r * to_row + j * side, side, from + j * from_column + r * side, from_column, columns - j,
                          size);
    }
    for (; i < rows; i++) bti_copy_line(to + i * to_row, side, from + i * side, from_column, columns, size);
}

static void copy_square(const strided_copy *c, char *to, const char *from, int64_t rows, int64_t columns) {
    switch (c->size) {
    case 1: copy_block(1, to, c->to_cross, from, c->from_line, rows, columns); break;
    case 2: copy_block(2, to, c->to_cross, from, c->from_line, rows, columns); break;
    case 4: c->turn(to, c->to_cross, from, c->from_line, rows, columns); break;
    default: copy_block(8, to, c->to_cross, from, c->from_line, rows, columns); break;
    }
}

/* --- any copy ----------------------------------------------------------------------------------------------------- */

static void copy_unit(const strided_copy *c, int64_t unit) {
    int64_t start = unit % c->along * c->part, length = bti_smaller_of(c->length - start, c->part);
    int64_t cross = unit / c->along % c->across * SQUARE, position = unit / (c->along * c->across);
    char *to = c->to + start * c->to_line, *from = c->from + start * c->from_line;
    for (int axis = c->axes - 1; axis >= 0; position /= c->shape[axis--]) {
        int64_t i = position % c->shape[axis];
        to += i * c->to_step[axis], from += i * c->from_step[axis];
    }
    if (c->crossing)
        copy_square(c, to + cross * c->to_cross, from + cross * c->from_cross,
                    bti_smaller_of(c->crossing - cross, SQUARE), length);
    else
        bti_copy_line(to, c->to_line, from, c->from_line, length, c->size);
}

static void copy_units(void *context, int64_t begin, int64_t end) {
    for (int64_t unit = begin; unit < end; unit++) copy_unit(context, unit);
}

/* Removes the axis along which the source is contiguous from the outer axes, if it is not the line. */
static void find_transposed_axis(strided_copy *c) {
    int64_t size = (int64_t)c->size;
    if (c->to_line != size || c->from_line == size || c->from_line == 0) return;
    int axis = bti_contiguous_axis(c->shape, c->from_step, c->axes, size);
    if (axis < 0 || c->from_step[axis] != size) return;
    c->crossing = c->shape[axis], c->to_cross = c->to_step[axis], c->from_cross = size;
    for (int i = axis + 1; i < c->axes; i++)
        c->shape[i - 1] = c->shape[i], c->to_step[i - 1] = c->to_step[i], c->from_step[i - 1] = c->from_step[i];
    c->axes--;
}

/* Both with axes in the order in which `to` lies in memory. */
static void order_axes(bti_operand *to, bti_operand *from) {
    for (int i = 1; i < to->rank; i++)
        for (int j = i; j > 0 && to->stride[j - 1] < to->stride[j] && to->shape[j] > 1; j--)
            for (int k = 0; k < 2; k++) {
                bti_operand *of = k ? from : to;
                int64_t shape = of->shape[j], stride = of->stride[j];
                of->shape[j] = of->shape[j - 1], of->stride[j] = of->stride[j - 1];
                of->shape[j - 1] = shape, of->stride[j - 1] = stride;
            }
}

void bti_cpu_copy(const bti_operand *to, const bti_operand *from) {
    bti_operand ordered_to = *to, ordered_from = *from;
    order_axes(&ordered_to, &ordered_from);
    to = &ordered_to, from = &ordered_from;
    bti_walk walk;
    bti_walk_start(&walk, to->rank, to->shape, 2, (const bti_operand *[]){to, from});
    if (walk.empty) return;
    strided_copy c = {.axes = walk.axes,
                      .to = walk.at[0],
                      .from = walk.at[1],
                      .size = bt_dtype_size(to->dtype),
                      .length = walk.length,
                      .to_line = walk.step[0],
                      .from_line = walk.step[1],
                      .across = 1};
    for (int axis = 0; axis < c.axes; axis++)
        c.shape[axis] = walk.shape[axis], c.to_step[axis] = walk.stride[0][axis],
        c.from_step[axis] = walk.stride[1][axis];
    find_transposed_axis(&c);
    c.part = c.crossing ? SQUARE : BTI_COPY_PIECE / (int64_t)c.size;
    c.along = (c.length + c.part - 1) / c.part;
    if (c.crossing) c.across = (c.crossing + SQUARE - 1) / SQUARE, c.turn = bti_vector_code_of(bti_cpu_target())->turn;
    int64_t units = c.along * c.across;
    for (int axis = 0; axis < c.axes; axis++) units *= c.shape[axis];
    int64_t bytes =
        bti_smaller_of(c.length, c.part) * (c.crossing ? bti_smaller_of(c.crossing, SQUARE) : 1) * (int64_t)c.size;
    bti_parallel(units, bti_copy_grain(bytes), copy_units, &c);
}
