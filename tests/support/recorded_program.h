/* What the recording library writes: a program of the file after the other. */
#ifndef BERTH_TESTS_SUPPORT_RECORDED_PROGRAM_H
#define BERTH_TESTS_SUPPORT_RECORDED_PROGRAM_H

#include "drivers/driver.h"

typedef struct recorded_program {
    int32_t op, dtype_count;
    int32_t dtypes[BTI_SOURCE_DTYPES];
    int32_t is_kernel; /* else the rest is of a primitive that is run whole */
    int32_t made;      /* of a product's epilogue: the operand that is the product */
    bti_kernel kernel;
} recorded_program;

#endif
