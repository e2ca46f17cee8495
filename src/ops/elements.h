/* Elements of an evaluated array on the host, and where they are no numbers. */
#ifndef BTI_OPS_ELEMENTS_H
#define BTI_OPS_ELEMENTS_H

#include "ir/node.h"

typedef struct bti_elements {
    void *data; /* NULL: there are none */
    bt_dtype dtype;
    int64_t count; /* of parts: a complex number has two */
} bti_elements;

/* Computes the node and waits. The caller frees e->data, also after a failure. */
bt_status bti_elements_read(bti_node *node, bti_elements *e);
double bti_element_at(const bti_elements *e, int64_t i);
/* The first element of the node that is NaN, or infinite if `infinities`; -1: none is. */
bt_status bti_find_bad(bti_node *node, bool infinities, int64_t *at);

#endif
