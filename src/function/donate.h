/* Donated arguments: a call takes them away from its caller. */
#ifndef BTI_FUNCTION_DONATE_H
#define BTI_FUNCTION_DONATE_H

#include "function/function.h"
#include "function/origin.h"

/* What the donated arguments of a call are once it has succeeded: FAILED nodes, by input, NULL for the others. */
typedef struct bti_donated_call {
    bti_node **errors; /* NULL: the call donates nothing */
} bti_donated_call;

/* Before the call; on success `end` follows. Refuses an array that is donated and is another argument too. A call with an argument that has no value
 * is recorded into another function, and donates nothing. */
bt_status bti_donate_begin(const bt_function *function, bt_array *const *arguments, bti_donated_call *call);
/* After the call: the arguments become unusable if it succeeded; outputs made by it have no history then. */
void bti_donate_end(const bt_function *function, bt_array *const *arguments, bt_array *const *outputs, bool succeeded,
                    bti_donated_call *call);
/* Offers the run the memory of those that nobody else holds. given[] was given to it. */
void bti_donate_to_run(const bti_ready_call *ready, const bt_function *function, const bti_origin *origin,
                       bti_run *run);
/* The plan of calls made ready may use their memory, but for those that are an output, or a variable's new value, as they are. */
bool bti_donate_plan(const bti_ready_call *ready, const bt_function *function, bti_plan *plan);

#endif
