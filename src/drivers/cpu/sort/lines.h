/* The lines of an order: what sorts and selections share. */
#ifndef BTI_DRIVERS_CPU_SORT_LINES_H
#define BTI_DRIVERS_CPU_SORT_LINES_H

#include <stdatomic.h>

#include "drivers/cpu/sort/keys.h"
#include "ir/work.h"

enum { BTI_ORDER_VALUES, BTI_ORDER_INDICES, BTI_ORDER_INPUT, BTI_ORDER_OPERANDS };

/* The lines of a work along its axis. */
typedef struct bti_order_lines {
    bti_words_form form;
    int64_t count, length, kept;      /* lines; elements of one, and of its results */
    bool wants[2];                    /* values, indices */
    int64_t step[BTI_ORDER_OPERANDS]; /* bytes from one element of a line to the next */
    int axes;                         /* the others, and where they lead */
    int64_t shape[BTI_MAX_RANK], stride[BTI_ORDER_OPERANDS][BTI_MAX_RANK];
    char *first[BTI_ORDER_OPERANDS];
    atomic_bool out_of_memory;
} bti_order_lines;

void bti_order_lines_begin(bti_order_lines *lines, const bti_work *work);
/* Where the operands of a line begin; of results that nobody reads anything. */
void bti_order_line_at(const bti_order_lines *lines, int64_t line, char *at[BTI_ORDER_OPERANDS]);

#endif
