/* The smaller and the larger of two numbers. */
#ifndef BTI_BASE_COMPARE_H
#define BTI_BASE_COMPARE_H

#include <stdint.h>

static inline int64_t bti_smaller_of(int64_t a, int64_t b) { return a < b ? a : b; }
static inline int64_t bti_larger_of(int64_t a, int64_t b) { return a > b ? a : b; }

#endif
