/* What a plan depends on: two evaluations with equal keys have the same plan, but for the nodes that it names. docs/decisions/0032 lists what
 * is in it and what is not. */
#ifndef BTI_ARRAY_PLAN_KEY_H
#define BTI_ARRAY_PLAN_KEY_H

#include "compile/compile.h"

typedef struct bti_plan_key {
    bti_node **nodes; /* borrowed: those of the order by their numbers there, then what they read, as it was met */
    size_t node_count;
    uint64_t *words;
    size_t word_count;
    uint64_t hash;
    bool hosted;      /* the plan calls functions of the program's */
    uint64_t ended;   /* how many of these the program had let go of */
    bool logs_copies; /* copies of the plan are logged, for each run */
} bti_plan_key;

/* The key of what is claimed. False: it is planned each time, or memory is short; *key is empty then. To be freed. */
bool bti_plan_key_write(const bti_order *order, bti_node *const *wanted, size_t count, bti_plan_key *key);
void bti_plan_key_free(bti_plan_key *key);

/* The program lets go of a function: from now on no key names it, and those that may do so already are not current. */
void bti_plan_key_end_host(bti_host_function *function);
bool bti_plan_key_is_current(const bti_plan_key *key);

#endif
