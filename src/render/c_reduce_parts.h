/* What whole rows and columns (c_rows.c) and their parts (c_part.c) are written from (c_reduce.c). */
#ifndef BTI_RENDER_C_REDUCE_PARTS_H
#define BTI_RENDER_C_REDUCE_PARTS_H

#include "render/c_parts.h"

int bti_c_last_reduced(const bti_c *w);
unsigned bti_c_kept_axes(const bti_kernel *kernel);
unsigned bti_c_line_axes(const bti_kernel *kernel); /* the reduced axes but the last */
static inline int bti_c_chunk_points(const bti_c *w) { return w->kernel->inner ? BTI_COLUMN_CHUNK : BTI_ROW_CHUNK; }

/* Whether the sweep folds a reduction; all that it folds. */
bool bti_c_folds(const bti_c *w, int instr, int sweep);
#define EACH_FOLDED(i, sweep)                        \
    for (int i = 0; i < w->kernel->instr_count; i++) \
        if (bti_c_folds(w, i, sweep))

/* Declares the accumulators `prefix`<reduction>; folds them of 32 lanes into the first; gives all lanes that. */
void bti_c_begin(bti_c *w, int sweep, char prefix);
void bti_c_halve(bti_c *w, int reduction, char prefix);
void bti_c_from_first(bti_c *w, int reduction, char prefix);
/* The points of "begin" to "end" of the line at l<operand> into p<reduction>; what the sweep stores. */
void bti_c_chunk(bti_c *w, int sweep);
void bti_c_row_values(bti_c *w, int stage);
void bti_c_row_outputs(bti_c *w);

void bti_c_rows(bti_c *w, bti_entry entry);
void bti_c_in_parts(bti_c *w);

#endif
