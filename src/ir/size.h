/* Symbolic sizes: sizes that are not known yet.
 *
 * In a function the sizes of inputs may be unknown. Such a size is a number below BTI_SYMBOL_LIMIT that names an
 * expression in a table: a symbol, or a sum, product, quotient (rounded up) of others. It is put in where a size stands,
 * and given its number at the call. Equal expressions have equal names. The table is process-wide, grows, is locked. */
#ifndef BTI_IR_SIZE_H
#define BTI_IR_SIZE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/str.h"

#define BTI_SYMBOL_LIMIT (INT64_MIN / 2)
static inline bool bti_size_is_symbolic(int64_t size) { return size < BTI_SYMBOL_LIMIT; }

bool bti_size_exists(int64_t size); /* whether the symbolic size was made here: a caller may pass any number */
/* An input of a function holds its symbols; a symbol without holders is reused. No-ops for other sizes. */
void bti_symbol_hold(int64_t size);
void bti_symbol_let_go(int64_t size);
int64_t bti_symbol_new(void); /* 0 when memory is short (then every later size is wrong: callers check) */
/* Of two numbers that overflow, a sum or product is INT64_MAX: more than any shape may hold. Division by 0 gives 0. */
int64_t bti_size_add(int64_t a, int64_t b);
int64_t bti_size_mul(int64_t a, int64_t b);
int64_t bti_size_ceil_div(int64_t a, int64_t b);  /* b > 0 known */
int64_t bti_size_exact_div(int64_t a, int64_t b); /* cancels factors where it can */

/* The size that two sizes broadcast to: where both are numbers they are equal or one is 1. Of a number (not 1) and a symbolic size,
 * the number. Bound, both must be equal or one of them 1. */
int64_t bti_size_broadcast(int64_t a, int64_t b);
/* How often an axis of size a is repeated in one of `size`: once when they are equal, else a must be 1. */
int64_t bti_size_repeats(int64_t a, int64_t size);

/* Numbers for symbols: value[i] belongs to symbol[i]. */
typedef struct bti_binding {
    const int64_t *symbol;
    const int64_t *value;
    int count;
} bti_binding;
/* The size under a binding; false when a symbol has no number, a division does not come out even, or it overflows. */
bool bti_size_bind(int64_t size, const bti_binding *binding, int64_t *out);
/* "?1 * 2": for messages. */
void bti_size_text(bti_str *text, int64_t size);

#endif
