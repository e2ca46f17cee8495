/* Primitives of oneDNN, one for each size of product, kept for the next of that size. */
#ifndef BTI_DRIVERS_PRIMITIVE_CACHE_H
#define BTI_DRIVERS_PRIMITIVE_CACHE_H

#include "drivers/cpu/product/library.h"

#define BTI_PRIMITIVES 64 /* kept at most */

/* Fills in what is counted. */
void bti_primitives_look(bti_product_state *state);
/* Gives all up, and counts from 0. No product may be running. */
void bti_primitives_drop(void);

#endif
