/* Where results of prepared calls come from: such a call records nothing, but remembers what it was given, as its results'
 * history would. Whoever needs the history has the call recorded then; each result becomes a copy of its recorded self, and
 * what is recorded stands in the order where it would have stood. */
#ifndef BTI_ARRAY_ORIGIN_H
#define BTI_ARRAY_ORIGIN_H

#include <berth/function.h>

#include "array/handle.h"
#include "base/vec.h"

/* For a call of a function, with room for what it is given: arguments, then variables' values (to be filled, retained). Yours
 * until drop; NULL when memory is short. */
bti_origin *bti_origin_new(bt_function *function);
void bti_origin_drop(bti_origin *origin);
/* Its numbers in the order of recording are taken now: what it was given has smaller ones. */
void bti_origin_number(bti_origin *origin);
/* The node is that output of the call. */
void bti_origin_add(bti_origin *origin, int output, bti_node *result);

/* Results whose calls are to be recorded. note: under the graph lock; true also for a node that has nothing to record. record:
 * records them all and empties the list; not under the graph lock. */
typedef BTI_VEC(bti_node *) bti_origins; /* retained */
bool bti_origins_note(bti_origins *origins, bti_node *node);
bt_status bti_origins_record(bti_origins *origins);
void bti_origins_free(bti_origins *origins);

#endif
