/* Elementwise operations: the expressions of ir/scalar.def over blocks, and the operations that are written by hand. */
#include <tgmath.h>

#include "base/error.h"
#include "ir/dtype.h"
#include "reference/classes.h"
#include "reference/operand.h"
#include "ir/scalar.h"
#include "ir/threefry.h"

/* --- erfinv -------------------------------------------------------------------------------------------------------- */

/* Giles, "Approximating the erfinv function" (2010): polynomials in w = -log(1 - x*x), highest power first. In float32 the
 * square is rounded before it is subtracted, not fused: the reference random numbers carry that rounding in their tail. */
static const float f32_middle[] = {2.81022636e-08f, 3.43273939e-07f, -3.5233877e-06f, -4.39150654e-06f, 0.00021858087f,
                                   -0.00125372503f, -0.00417768164f, 0.246640727f,    1.50140941f};
static const float f32_tail[] = {-0.000200214257f, 0.000100950558f, 0.00134934322f, -0.00367342844f, 0.00573950773f,
                                 -0.0076224613f,   0.00943887047f,  1.00167406f,    2.83297682f};

static const double f64_middle[] = {
    -3.6444120640178196996e-21, -1.685059138182016589e-19,  1.2858480715256400167e-18,  1.115787767802518096e-17,
    -1.333171662854620906e-16,  2.0972767875968561637e-17,  6.6376381343583238325e-15,  -4.0545662729752068639e-14,
    -8.1519341976054721522e-14, 2.6335093153082322977e-12,  -1.2975133253453532498e-11, -5.4154120542946279317e-11,
    1.051212273321532285e-09,   -4.1126339803469836976e-09, -2.9070369957882005086e-08, 4.2347877827932403518e-07,
    -1.3654692000834678645e-06, -1.3882523362786468719e-05, 0.0001867342080340571352,   -0.00074070253416626697512,
    -0.0060336708714301490533,  0.24015818242558961693,     1.6536545626831027356};
static const double f64_far[] = {
    2.2137376921775787049e-09,  9.0756561938885390979e-08, -2.7517406297064545428e-07, 1.8239629214389227755e-08,
    1.5027403968909827627e-06,  -4.013867526981545969e-06, 2.9234449089955446044e-06,  1.2475304481671778723e-05,
    -4.7318229009055733981e-05, 6.8284851459573175448e-05, 2.4031110387097893999e-05,  -0.0003550375203628474796,
    0.00095328937973738049703,  -0.0016882755560235047313, 0.0024914420961078508066,   -0.0037512085075692412107,
    0.005370914553590063617,    1.0052589676941592334,     3.0838856104922207635};
static const double f64_tail[] = {-2.7109920616438573243e-11, -2.5556418169965252055e-10, 1.5076572693500548083e-09,
                                  -3.7894654401267369937e-09, 7.6157012080783393804e-09,  -1.4960026627149240478e-08,
                                  2.9147953450901080826e-08,  -6.7711997758452339498e-08, 2.2900482228026654717e-07,
                                  -9.9298272942317002539e-07, 4.5260625972231537039e-06,  -1.9681778105531670567e-05,
                                  7.5995277030017761139e-05,  -0.00021503011930044477347, -0.00013871931833623122026,
                                  1.0103004648645343977,      4.8499064014085844221};

#define COUNT(array) ((int)(sizeof(array) / sizeof *(array)))

static float horner_f32(const float *c, int count, float x) {
    float p = c[0];
    for (int i = 1; i < count; i++) p = p * x + c[i];
    return p;
}

static double horner_f64(const double *c, int count, double x) {
    double p = c[0];
    for (int i = 1; i < count; i++) p = p * x + c[i];
    return p;
}

float bti_erfinv_f32(float x) {
    if (fabsf(x) == 1) return x * INFINITY;
    float square = x * x, w = -log1pf(-square);
    float p = w < 5 ? horner_f32(f32_middle, COUNT(f32_middle), w - 2.5f)
                    : horner_f32(f32_tail, COUNT(f32_tail), sqrtf(w) - 3);
    return p * x;
}

double bti_erfinv_f64(double x) {
    if (fabs(x) == 1) return x * (double)INFINITY;
    double w = -log((1 - x) * (1 + x)); /* exact to the tail's end; no reference to agree with bit by bit */
    double p = w < 6.25 ? horner_f64(f64_middle, COUNT(f64_middle), w - 3.125)
               : w < 16 ? horner_f64(f64_far, COUNT(f64_far), sqrt(w) - 3.25)
                        : horner_f64(f64_tail, COUNT(f64_tail), sqrt(w) - 5);
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

void bti_add_line(bt_dtype dtype, char *to, int64_t to_step, const char *from, int64_t from_step, int64_t count) {
    line_plan line = {functions[BTI_OP_add][bti_lane_of(dtype)], 0, dtype, dtype, to_step, to_step, from_step};
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
    case BTI_OP_threefry:
    case BTI_OP_random_word: random_bits(work); break;
    default: return run_expression(work);
    }
    return BT_OK;
}
