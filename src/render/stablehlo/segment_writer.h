/* A segment that is written: what its files share.
 *
 *     given.c         numbers that the text leaves open, sizes among them
 *     padded_parts.c  parts of arrays along an axis: filled up, cut, masked; operations as they are
 *     padded_moves.c  views, pads, rows by index and scatters of arrays that are longer than their sizes say
 *     padded.c        all operations on such arrays
 *     segment.c       the steps, one after the other */
#ifndef BTI_RENDER_STABLEHLO_SEGMENT_WRITER_H
#define BTI_RENDER_STABLEHLO_SEGMENT_WRITER_H

#include "render/stablehlo.h"
#include "render/stablehlo/writer.h"

typedef struct bti_hlo_made {
    bti_hlo_value value; /* rank -1: there is none */
    void *elements;      /* of what no input goes into, and is small; else NULL */
    bool is_repeated;    /* they are one element, repeated */
    bool is_argument;
    bool is_exponent;
    int sizes[BTI_MAX_RANK]; /* by axis that varies: the name of its size, int32; 0: not written yet */
} bti_hlo_made;

typedef struct bti_hlo_segment {
    bti_hlo w;
    const bti_plan *plan;
    const bti_hlo_varying *varying; /* NULL: nothing does */
    bti_hlo_made *of;               /* by storage */
    bti_hlo_numbers *numbers;       /* NULL: all of them stand in the text */
    bti_hlo_value given;            /* the argument with these */
} bti_hlo_segment;

static inline int32_t bti_hlo_value_number(const bti_hlo_segment *s, const bti_step *step, int operand) {
    return s->plan->operands.items[step->first_operand + operand];
}
static inline bti_hlo_made *bti_hlo_made_of(const bti_hlo_segment *s, const bti_step *step, int operand) {
    return &s->of[bti_plan_operand(s->plan, step, operand)->storage];
}
/* A mask of its axes that vary. */
static inline uint32_t bti_hlo_axes(const bti_hlo_segment *s, const bti_step *step, int operand) {
    return s->varying ? s->varying->axes[bti_hlo_value_number(s, step, operand)] : 0;
}
static inline bti_type bti_hlo_operand_type(const bti_hlo_segment *s, const bti_step *step, int operand) {
    return bti_hlo_padded_type(bti_plan_operand(s->plan, step, operand), bti_hlo_axes(s, step, operand));
}

/* --- given.c ----------------------------------------------------------------------------------------------------------- */

/* The next number of the argument, in this dtype; rank 0. */
bti_hlo_value bti_hlo_give(bti_hlo_segment *s, bt_dtype dtype, uint64_t bits);
/* The size of an operand's axis, int32: given if it varies. */
bti_hlo_value bti_hlo_size(bti_hlo_segment *s, const bti_step *step, int operand, int axis);

/* --- padded_parts.c ---------------------------------------------------------------------------------------------------- */

bti_hlo_value bti_hlo_zero(bti_hlo *w, bt_dtype dtype);                  /* rank 0; of any dtype */
bti_hlo_value bti_hlo_i32(bti_hlo *w, int64_t number);                   /* rank 0 */
bti_hlo_value bti_hlo_splat(bti_hlo *w, bti_hlo_value x, bti_type type); /* x of rank 0, everywhere; of x's dtype */
/* The first `extent` elements along the axis; zeros follow where there are fewer. */
bti_hlo_value bti_hlo_fit(bti_hlo *w, bti_hlo_value x, int axis, int64_t extent);
/* `extent` elements from `start`, int32; all of them are there. */
bti_hlo_value bti_hlo_part(bti_hlo *w, bti_hlo_value x, int axis, bti_hlo_value start, int64_t extent);
/* x with y from `start` on, where it fits. */
bti_hlo_value bti_hlo_put(bti_hlo *w, bti_hlo_value x, bti_hlo_value y, int axis, bti_hlo_value start);
/* Elements along the axis at indices, int32 [n], all of them within. */
bti_hlo_value bti_hlo_pick(bti_hlo *w, bti_hlo_value x, int axis, bti_hlo_value index);
/* x below the size along the axis, `fill` of rank 0 from there on. */
bti_hlo_value bti_hlo_masked(bti_hlo *w, bti_hlo_value x, int axis, bti_hlo_value size, bti_hlo_value fill);

/* One inner step, some of whose arrays are longer than their sizes say, or begin elsewhere each time. */
typedef struct bti_hlo_padded {
    bti_hlo_segment *s;
    const bti_step *step;
    uint32_t begins;   /* numbers[] of bti_hlo_varying */
    bti_hlo_value *in; /* room for one more than the step has */
    bti_node node;     /* the step's, of padded sizes */
    bti_attr attr;     /* its own */
} bti_hlo_padded;
/* The operation as it is, on in[]. */
bti_hlo_value bti_hlo_padded_plain(bti_hlo_padded *p);
void bti_hlo_padded_refuse(bti_hlo_padded *p);

/* --- padded_moves.c, padded.c ------------------------------------------------------------------------------------------ */

/* The value of a step of class movement or gather. */
bti_hlo_value bti_hlo_padded_move(bti_hlo_padded *p);
/* All outputs of the step, and their sizes. in: of the operands, with room for one more. */
void bti_hlo_padded_step(bti_hlo_segment *s, const bti_step *step, uint32_t begins, bti_hlo_value *in);

#endif
