/* Elementwise operations: the expressions of ir/scalar.def over blocks, and the operations that are written by hand. */
#include <tgmath.h>

#include "base/error.h"
#include "ir/dtype.h"
#include "ir/giles.h"
#include "ir/scalar.h"
#include "ir/threefry.h"
#include "reference/classes.h"
#include "reference/operand.h"

/* --- erfinv -------------------------------------------------------------------------------------------------------- */

static float horner_f32(const float *c, size_t count, float x) {
    float p = c[0];
    for (size_t i = 1; i < count; i++) p = p * x + c[i];
    return p;
}

static double horner_f64(const double *c, size_t count, double x) {
    double p = c[0];
    for (size_t i = 1; i < count; i++) p = p * x + c[i];
    return p;
}

#define HORNER_F32(coefficients, x) horner_f32(coefficients, sizeof(coefficients) / sizeof *(coefficients), x)
#define HORNER_F64(coefficients, x) horner_f64(coefficients, sizeof(coefficients) / sizeof *(coefficients), x)

float bti_erfinv_f32(float x) {
    if (fabsf(x) == 1) return x * INFINITY;
    float square = x * x, w = -log1pf(-square);
    float p = w < 5 ? HORNER_F32(bti_giles_f32_middle, w - 2.5f) : HORNER_F32(bti_giles_f32_tail, sqrtf(w) - 3);
    return p * x;
}

double bti_erfinv_f64(double x) {
    if (fabs(x) == 1) return x * (double)INFINITY;
    double w = -log((1 - x) * (1 + x)); /* exact to the tail's end; no reference to agree with bit by bit */
    double p = w < 6.25 ? HORNER_F64(bti_giles_f64_middle, w - 3.125)
               : w < 16 ? HORNER_F64(bti_giles_f64_far, sqrt(w) - 3.25)
                        : HORNER_F64(bti_giles_f64_tail, sqrt(w) - 5);
    return p * x;
}

/* --- expressions of scalar.def ------------------------------------------------------------------------------------- */

/* The words of scalar.def. */
#define INT int64_t
#define UINT uint64_t

/* One function per operation and lane type, over the elements of a block: out[i] from xs[i] and ys[i]. The compiler knows the
 * count of a full block and vectorizes that loop. */
typedef void block_function(int count, unsigned bits, void *out, const void *xs, const void *ys);

#define LOOP(function, type, real, result, expression)                                                      \
    static inline __attribute__((always_inline)) void function##_loop(                                      \
        int count, unsigned BITS, result *restrict out, const type *restrict xs, const type *restrict ys) { \
        typedef real REAL __attribute__((unused));                                                          \
        (void)BITS;                                                                                         \
        for (int i = 0; i < count; i++) {                                                                   \
            const type x = xs[i], y = ys[i];                                                                \
            (void)y;                                                                                        \
            out[i] = (result)(expression);                                                                  \
        }                                                                                                   \
    }                                                                                                       \
    static void function(int count, unsigned bits, void *out, const void *xs, const void *ys) {             \
        if (count == BTI_BLOCK)                                                                             \
            function##_loop(BTI_BLOCK, bits, out, xs, ys);                                                  \
        else                                                                                                \
            function##_loop(count, bits, out, xs, ys);                                                      \
    }

#define BTI_SCALAR_FLOAT(name, real)            \
    LOOP(name##_f32, float, float, float, real) \
    LOOP(name##_f64, double, double, double, real)
#define WHOLE(name, signed, unsigned)                  \
    LOOP(name##_i64, int64_t, double, int64_t, signed) \
    LOOP(name##_u64, uint64_t, double, uint64_t, unsigned)
#define BTI_SCALAR_NUMBER(name, real, signed, unsigned) BTI_SCALAR_FLOAT(name, real) WHOLE(name, signed, unsigned)
#define BTI_SCALAR_BITS(name, signed, unsigned, boolean) \
    WHOLE(name, signed, unsigned)                        \
    LOOP(name##_bool, uint8_t, double, uint8_t, boolean)
#define BTI_SCALAR_ANY(name, real, signed, unsigned, boolean) \
    BTI_SCALAR_FLOAT(name, real)                              \
    BTI_SCALAR_BITS(name, signed, unsigned, boolean)
#define BTI_SCALAR_COMPARE(name, expression)                \
    LOOP(name##_f32, float, float, uint8_t, expression)     \
    LOOP(name##_f64, double, double, uint8_t, expression)   \
    LOOP(name##_i64, int64_t, double, uint8_t, expression)  \
    LOOP(name##_u64, uint64_t, double, uint8_t, expression) \
    LOOP(name##_bool, uint8_t, double, uint8_t, expression)
#include "ir/scalar.def"

/* Indexed by operation, then by bti_lane. */
static block_function *const functions[BTI_OP_COUNT][5] = {
#define BTI_SCALAR_FLOAT(name, ...) [BTI_OP_##name] = {name##_f32, name##_f64},
#define BTI_SCALAR_NUMBER(name, ...) [BTI_OP_##name] = {name##_f32, name##_f64, name##_i64, name##_u64},
#define BTI_SCALAR_ANY(name, ...) [BTI_OP_##name] = {name##_f32, name##_f64, name##_i64, name##_u64, name##_bool},
#define BTI_SCALAR_BITS(name, ...) [BTI_OP_##name] = {NULL, NULL, name##_i64, name##_u64, name##_bool},
#define BTI_SCALAR_COMPARE BTI_SCALAR_ANY
#include "ir/scalar.def"
};

typedef struct line_plan {
    block_function *function;
    unsigned bits;
    bt_dtype in, out;
    int64_t out_step, x_step, y_step;
} line_plan;

/* `out` may be where x or y is: a block is read before it is written. */
static void run_line(const line_plan *line, char *out, const char *x, const char *y, int64_t count) {
    bti_lane_block xs, ys, result;
    for (int64_t i = 0; i < count; i += BTI_BLOCK) {
        int n = bti_lane_block_count(count - i);
        const void *a = bti_lane_block_read(&xs, line->in, x + i * line->x_step, line->x_step, n), *b = a;
        if (y) b = bti_lane_block_read(&ys, line->in, y + i * line->y_step, line->y_step, n);
        line->function(n, line->bits, &result, a, b);
        bti_lane_block_write(bti_lane_of(line->out), &result, line->out, out + i * line->out_step, line->out_step, n);
    }
}

static bt_status run_expression(const bti_work *work) {
    const bti_operand *out = &work->output, *x = work->inputs, *y = work->input_count == 2 ? x + 1 : x;
    line_plan line = {
        functions[work->op][bti_lane_of(x->dtype)], (unsigned)bti_dtype_bits(x->dtype), x->dtype, out->dtype, 0, 0, 0};
    if (!line.function) return bti_fail(BT_INTERNAL, "%s of %s", bti_op_info(work->op)->name, bt_dtype_name(x->dtype));
    bti_walk walk;
    bti_walk_start(&walk, out->rank, out->shape, 3, (const bti_operand *[]){out, x, y});
    line.out_step = walk.step[0], line.x_step = walk.step[1], line.y_step = walk.step[2];
    for (; walk.more; bti_walk_next(&walk))
        run_line(&line, walk.at[0], walk.at[1], y == x ? NULL : walk.at[2], walk.length);
    return BT_OK;
}

void bti_combine_line(bti_op op, bt_dtype dtype, char *to, int64_t to_step, const char *from, int64_t from_step,
                      int64_t count) {
    line_plan line = {functions[op][bti_lane_of(dtype)], 0, dtype, dtype, to_step, to_step, from_step};
    run_line(&line, to, to, from, count);
}

/* --- operations that are written by hand --------------------------------------------------------------------------- */

#define CHOOSE(type)                                                                                             \
    for (int64_t i = 0; i < w->length; i++)                                                                      \
        *(type *)(void *)(w->at[0] + i * w->step[0]) = w->at[1][i * w->step[1]]                                  \
                                                           ? *(const type *)(void *)(w->at[2] + i * w->step[2])  \
                                                           : *(const type *)(void *)(w->at[3] + i * w->step[3]); \
    break

static void choose_line(const bti_walk *w, size_t size) {
    switch (size) {
    case 1: CHOOSE(uint8_t);
    case 2: CHOOSE(uint16_t);
    case 4: CHOOSE(uint32_t);
    default: CHOOSE(uint64_t);
    }
}

static void choose_elements(const bti_work *work) {
    const bti_operand *out = &work->output, *in = work->inputs;
    bti_walk walk;
    for (bti_walk_start(&walk, out->rank, out->shape, 4, (const bti_operand *[]){out, in, in + 1, in + 2}); walk.more;
         bti_walk_next(&walk))
        choose_line(&walk, bt_dtype_size(out->dtype));
}

static void cast_line(bt_dtype to, char *out, int64_t out_step, bt_dtype from, const char *in, int64_t in_step,
                      int64_t count) {
    bti_lane_block block;
    for (int64_t i = 0; i < count; i += BTI_BLOCK) {
        int n = bti_lane_block_count(count - i);
        const void *values = bti_lane_block_read(&block, from, in + i * in_step, in_step, n);
        bti_lane_block_write(bti_lane_of(from), values, to, out + i * out_step, out_step, n);
    }
}

static void cast_elements(const bti_work *work) {
    const bti_operand *out = &work->output, *in = work->inputs;
    bti_walk walk;
    for (bti_walk_start(&walk, out->rank, out->shape, 2, (const bti_operand *[]){out, in}); walk.more;
         bti_walk_next(&walk))
        cast_line(out->dtype, walk.at[0], walk.step[0], in->dtype, walk.at[1], walk.step[1], walk.length);
}

static uint32_t random_operand(const bti_walk *walk, int operand, int64_t i) {
    return *(const uint32_t *)(const void *)(walk->at[operand] + i * walk->step[operand]);
}

static void random_bits(const bti_work *work) {
    const bti_operand *out = &work->output, *in = work->inputs;
    bti_walk walk;
    for (bti_walk_start(&walk, out->rank, out->shape, 5, (const bti_operand *[]){out, in, in + 1, in + 2, in + 3});
         walk.more; bti_walk_next(&walk))
        for (int64_t i = 0; i < walk.length; i++) {
            uint32_t key[2] = {random_operand(&walk, 1, i), random_operand(&walk, 2, i)}, words[2];
            uint32_t z = random_operand(&walk, 3, i), w = random_operand(&walk, 4, i),
                     *to = (void *)(walk.at[0] + i * walk.step[0]);
            if (work->op == BTI_OP_random_word)
                *to = bti_threefry_word(key[0], key[1], z, w);
            else {
                bti_threefry_words(key[0], key[1], z, w, &words[0], &words[1]);
                *to = words[work->attr->word.index];
            }
        }
}

/* Parts of complex numbers and complex numbers of parts: copies between operands of which one is a part of the other. */
static bti_operand part_operand(const bti_operand *numbers, bool imaginary) {
    bti_operand part = *numbers;
    part.dtype = bti_dtype_of_part(numbers->dtype);
    if (imaginary) part.address += bt_dtype_size(part.dtype);
    for (int axis = 0; axis < part.rank; axis++) part.stride[axis] *= 2;
    return part;
}

static void copy_parts(const bti_work *work) {
    if (work->op != BTI_OP_complex) {
        bti_operand part = part_operand(work->inputs, work->op == BTI_OP_imag);
        bti_copy_operand(&work->output, &part);
        return;
    }
    for (int i = 0; i < 2; i++) {
        bti_operand part = part_operand(&work->output, i);
        bti_copy_operand(&part, &work->inputs[i]);
    }
}

bt_status bti_interpret_elementwise(const bti_work *work) {
    switch (work->op) {
    case BTI_OP_where: choose_elements(work); break;
    case BTI_OP_cast:
        if (work->output.dtype == work->inputs->dtype)
            bti_copy_operand(&work->output, work->inputs);
        else
            cast_elements(work);
        break;
    case BTI_OP_bitcast: bti_copy_operand(&work->output, work->inputs); break;
    case BTI_OP_complex:
    case BTI_OP_real:
    case BTI_OP_imag: copy_parts(work); break;
    case BTI_OP_threefry:
    case BTI_OP_random_word: random_bits(work); break;
    default: return run_expression(work);
    }
    return BT_OK;
}
