/* Text of an array in the words of NumPy 2.4: what str(a) and repr(a) give under its default print options (lines of 75
 * columns, 8 digits behind the point, more than 1000 elements shortened to 3 at each edge). A pure function of its
 * arguments: no locale, no state; safe from any thread. */
#ifndef BTI_BASE_NUMTEXT_H
#define BTI_BASE_NUMTEXT_H

#include <stdint.h>

/* What an element is. The width of a float decides how many digits tell it from its neighbours; a bfloat16 is passed
 * widened to BTI_TEXT_F32 under its own dtype name. A complex number is two floats, the real part first. */
typedef enum {
    BTI_TEXT_BOOL,
    BTI_TEXT_INT,
    BTI_TEXT_UINT,
    BTI_TEXT_F16,
    BTI_TEXT_F32,
    BTI_TEXT_F64,
    BTI_TEXT_C64,
    BTI_TEXT_C128
} bti_text_kind;

typedef enum {
    BTI_TEXT_STR, /* "[1. 2.]" */
    BTI_TEXT_REPR /* "array([1., 2.], dtype=float32)" */
} bti_text_style;

/* The text of the array `data`, yours to bti_free; NULL when memory is short.
 *   data        row-major, without gaps, `size_bytes` per element, in any alignment; of an array of more than 1000
 *               elements only the edges are read. May be NULL when the array is empty
 *   size_bytes  1, 2, 4, 8 or 16; it must fit the kind (BOOL 1, F16 2: the raw IEEE bits, F32 4, F64 and C64 8, C128 16)
 *   shape       `rank` extents, each >= 0, their product within int64; may be NULL when rank is 0
 *   dtype_name  what repr writes behind "dtype="; left out for bool, int64, float64 and complex128 unless the array is empty */
char *bti_array_text(const void *data, bti_text_kind kind, int size_bytes, int rank, const int64_t *shape,
                     const char *dtype_name, bti_text_style style);

#endif
