/* Loops over blocks of values, and the functions of launch/functions.def. vector_functions.h and vector_loops.h are their source; each
 * vector_*.c compiles it for one target, with that target's compiler flags (CMakeLists.txt), into one table. All targets give the same
 * bits. */
#ifndef BTI_DRIVERS_CPU_VECTOR_VECTOR_H
#define BTI_DRIVERS_CPU_VECTOR_VECTOR_H

#include "launch/functions.h"

/* The types that loops process. Other dtypes are widened before and narrowed after: integers of 8 and 16 bits to I64 or U64, float16 and
 * bfloat16 to F32. */
typedef enum bti_plain {
    BTI_PLAIN_F32,
    BTI_PLAIN_F64,
    BTI_PLAIN_I32,
    BTI_PLAIN_U32,
    BTI_PLAIN_I64,
    BTI_PLAIN_U64,
    BTI_PLAIN_BOOL,
    BTI_PLAIN_COUNT
} bti_plain;

/* Computes out[i] from x[i], y[i]..., for i < count. Arguments that the operation does not have are any readable address. `out` may be one
 * of the inputs. `number`: the width of the dtype in bits (for shifts); of threefry, which word. */
typedef void bti_loop(int count, unsigned number, void *out, const void *x, const void *y, const void *z,
                      const void *w);

/* The folds of ir/kernel.h. The accumulator has the type of the values; for sum and prod of float32 it is float64. */
typedef struct bti_fold_loops {
    void (*line)(int count, void *lanes, const void *x); /* x[i] into lane i % BTI_LANES */
    void (*tree)(void *lanes);                           /* lanes into lane 0 */
    void (*each)(int count, void *a, const void *x);     /* x[i] into a[i] */
} bti_fold_loops;
typedef enum bti_fold_op { BTI_FOLD_SUM, BTI_FOLD_PROD, BTI_FOLD_MAX, BTI_FOLD_MIN, BTI_FOLD_COUNT } bti_fold_op;

/* How elements become keys: unsigned numbers that have the order of the elements. Of floats NaN is the greatest, and -0 and 0 are one key. */
typedef struct bti_key_form {
    bool is_float;
    uint64_t sign;     /* the highest bit */
    uint64_t infinity; /* its bits */
    uint64_t flip;     /* of all keys: descending orders, signed integers */
} bti_key_form;

#define BTI_SIDE_BY_SIDE 16
#define BTI_KEY_GROUPS 32
typedef struct bti_key_loops {
    void (*keys)(void *words, int64_t count, const bti_key_form *form); /* of the bits of elements, in place */
    void (*elements)(void *words, int64_t count,
                     const bti_key_form *form); /* and back; all zeros become 0, all NaN one */
    bool (*alike)(const void *bits, int64_t count,
                  const bti_key_form *form); /* whether there is a zero or NaN among floats */
    void (*least)(const void *words, int64_t count,
                  void *least); /* of words i, i + BTI_KEY_GROUPS ..., for each i below that */
    bool (*below)(const void *words, int64_t count, uint64_t limit);         /* whether a key is smaller */
    bool (*finds)(const void *words, int64_t count, uint64_t a, uint64_t b); /* whether a key is one of the two */
    void (*network)(void *words,
                    int64_t count); /* sorts BTI_SIDE_BY_SIDE lines of `count` words, neighbours of one place */
} bti_key_loops;

/* What a scatter does with an element where it goes to: BTI_OP_scatter_axis and the rows after it. */
typedef enum bti_scatter_kind {
    BTI_SCATTER_ADD,
    BTI_SCATTER_SET,
    BTI_SCATTER_MAX,
    BTI_SCATTER_MIN,
    BTI_SCATTER_COUNT
} bti_scatter_kind;

/* Rows that lie contiguous, in order: `width` elements at from + of[k] are combined with those at out + to[k], for k < count. */
typedef struct bti_row_scatter {
    char *out;
    const char *from;
    const int64_t *to, *of; /* bytes */
    int64_t count, width;
} bti_row_scatter;

/* Elements, in order: for i < count the one at from + i * from_step is combined with that at out + i * out_step + place * place_step, where
 * place is the index at y + i * y_step; a negative one counts from the end, one out of range is left out. Steps are in bytes. */
typedef struct bti_place_scatter {
    char *out;
    const char *from, *y;
    int64_t out_step, from_step, y_step, place_step;
    int64_t count, places;
    bool wide; /* indices of 64 bits, not 32 */
} bti_place_scatter;

typedef struct bti_scatter_loops {
    void (*rows)(const bti_row_scatter *scatter);
    void (*places)(const bti_place_scatter *scatter);
} bti_scatter_loops;

/* out[i] = the sum of m[i, k] * x[k] over k < depth, for i < count. m lies in lines of one contiguous axis, which are `line` bytes apart: of
 * `along` that axis is k, of `across` i. x and out have the type that is computed in: of float16 and bfloat16 that is float32, of integers the
 * unsigned one. Any alignment. */
typedef struct bti_line_product {
    const char *matrix;
    int64_t line, count, depth;
    const void *x;
    void *out;
} bti_line_product;

typedef struct bti_line_loops {
    void (*along)(const bti_line_product *product);
    void (*across)(const bti_line_product *product);
} bti_line_loops;

/* Of rows of scores, float32 or float64: contiguous, of any alignment. */
#define BTI_ROW_SUMS 16
typedef struct bti_row_loops {
    double (*greatest)(const void *row, int64_t count); /* -inf of none; NaN is passed over */
    /* x[i] = exp(x[i] * scale - top); gives their sum. */
    double (*weigh)(void *row, int64_t count, double scale, double top);
    double (*dot)(const void *a, const void *b, int64_t count);
    void (*scale)(void *row, int64_t count, double by);
    /* x[i] = (x[i] - mean) * weights[i] * scale */
    void (*slope)(void *row, const void *weights, int64_t count, double mean, double scale);
} bti_row_loops;

/* A transposed copy of elements of 32 bits: element j of row i of `to` is element i of column j of `from`. Rows of `to` and columns of `from` are contiguous; steps are in bytes. */
typedef void bti_turn_loop(char *to, int64_t to_row, const char *from, int64_t from_column, int64_t rows,
                           int64_t columns);

typedef struct bti_vector_code {
    const void *functions[BTI_CALL_COUNT];
    bti_loop *elementwise[BTI_OP_COUNT][BTI_PLAIN_COUNT]; /* by the inputs' type; where, cast, bitcast: not here */
    bti_loop *cast[BTI_PLAIN_COUNT][BTI_PLAIN_COUNT];     /* from, to; NULL where they are the same */
    bti_loop *widen[2], *narrow[2];                       /* float16, bfloat16: to and from float32 */
    bti_loop *where[4];                                   /* this and the next: by the logarithm of the size in bytes */
    bti_loop *fill[5];                                    /* x[0] everywhere */
    bti_loop *gather[5], *scatter[5]; /* from x, or to out, y[0] (int64) bytes from one to the next */
    bti_loop *count;                  /* uint64: x[0] + i * y[0] */
    bti_fold_loops folds[BTI_FOLD_COUNT][BTI_PLAIN_COUNT]; /* by the values' type */
    bti_key_loops keys[2];                                 /* of 4 bytes, of 8 */
    bti_scatter_loops scatters[BTI_SCATTER_COUNT][BT_DTYPE_COUNT];
    bti_line_loops lines[BT_DTYPE_COUNT]; /* NULLs: bool, integers of 8 and 16 bits */
    bti_row_loops rows[2];                /* float32, float64 */
    bti_turn_loop *turn;
} bti_vector_code;

extern const bti_vector_code bti_vector_base; /* NEON; on x86-64, SSE2 for CPUs without FMA */
#if defined(__x86_64__)
extern const bti_vector_code bti_vector_sse2, bti_vector_avx2, bti_vector_avx512;
#endif
const bti_vector_code *bti_vector_code_of(bti_target target);

#endif
