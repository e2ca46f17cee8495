/* Whoever runs a task may be waiting for something else: its errors are kept from it. */
#ifndef BTI_EXEC_ASIDE_H
#define BTI_EXEC_ASIDE_H

#include "base/error.h"

typedef struct bti_aside {
    bti_error *before;
    bool quiet;
    bti_place waiting;
    int depth;
} bti_aside;

bti_aside bti_step_aside(void);
void bti_come_back(bti_aside from);

#endif
