/* Where history ends: which arrays forget how they were made, and from when on. */
#ifndef BTI_ARRAY_GRAPH_H
#define BTI_ARRAY_GRAPH_H

#include "ir/node.h"

/* The node forgets how it was made, now or when it is computed. `name`: the public call that is to blame, "bt_retain". */
void bti_history_end(bti_node *node, const char *name);
/* The same later, by bti_history_end_noted; errors are going to name the call that runs now. */
void bti_history_note_end(bti_node *node, const char *name);
void bti_history_end_noted(bti_node *node);
/* How many operations it was made of that were recorded after `since` (a number in the order of recording). */
uint64_t bti_history_length(bti_node *node, uint64_t since);

/* A node without inputs ends history, by the call that runs now. Before others know it. */
void bti_history_cut(bti_node *node, const char *name);

/* The node has another number in the order of recording from now on. Before others know it. */
void bti_history_number(bti_node *node, uint64_t sequence);
/* A node without inputs was made of this one. Before others know it. */
void bti_history_derive(bti_node *node, const bti_node *from);

#endif
