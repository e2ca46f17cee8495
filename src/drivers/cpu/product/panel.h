/* The innermost loops of our own products, one for each type and target. */
#ifndef BTI_DRIVERS_PRODUCT_PANEL_H
#define BTI_DRIVERS_PRODUCT_PANEL_H

#include "drivers/cpu/product/tile.h"

/* `rows` (at most .rows) x `columns` (at most the panel's width) of the result: over `depth`, a's elements at a + i * a_row +
 * k * a_column, b's rows of a whole panel's width at b + k * b_row; `add`: to what stands at to + i * to_row. Bytes all. */
typedef struct bti_panel {
    int64_t depth;
    const char *a, *b;
    int64_t a_row, a_column, b_row;
    char *to;
    int64_t to_row;
    int rows, columns;
    bool add;
} bti_panel;

typedef struct bti_panel_kernel {
    void (*narrow)(const bti_panel *panel); /* a vector wide */
    void (*wide)(const bti_panel *panel);   /* two */
    int rows, vector;                       /* rows of a panel; elements of a vector */
} bti_panel_kernel;

const bti_panel_kernel *bti_panel_kernel_of(bti_target target, bti_tile_type type);

#endif
