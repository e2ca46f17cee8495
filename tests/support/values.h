/* Arrays of the host, as doubles, and their way to a device in every layout: what operations are held against. */
#ifndef BERTH_TESTS_SUPPORT_VALUES_H
#define BERTH_TESTS_SUPPORT_VALUES_H

#include <berth.h>

#define VALUES_MAX 512

typedef struct host {
    bt_dtype dtype;
    bt_shape shape;
    int64_t count;
    double at[VALUES_MAX]; /* row-major; of a dtype's own values */
} host;

/* How an array lies in memory. */
typedef enum layout { DENSE, TRANSPOSED, FLIPPED, STEPPED, EXPANDED, LAYOUT_COUNT } layout;
extern const char *const layout_names[];

/* Zeros. */
host host_new(bt_dtype dtype, bt_shape shape);
/* Values in [low, high] that every float dtype holds exactly; those of an EXPANDED one repeat along its first axis. */
host host_draw(bt_dtype dtype, bt_shape shape, double low, double high, layout lies, unsigned *seed);
/* The value as the dtype holds it: rounded, or wrapped. */
double host_round(bt_dtype dtype, double value);

/* A copy on the block's device that lies like that. */
bt_array *host_place(const host *h, layout lies);
/* Back again. */
bt_status host_read(bt_array *x, host *h);

/* The place of an element from its index, and on to the next index; false at the end. */
int64_t host_offset(bt_shape shape, const int64_t *index);
bool host_next(bt_shape shape, int64_t *index);

/* Whether x has h's dtype, shape and elements, floats within `tolerance` (relative) and a rounding of their dtype. What differs
 * goes to `why`. */
bool host_same(bt_array *x, const host *h, double tolerance, char *why, size_t size);

bool dtype_is_float(bt_dtype dtype);
bool dtype_is_unsigned(bt_dtype dtype); /* bool is not */

#endif
