/* Plans that evaluations run again: made ready once, found by their keys (plan_key.h), in the store of all plans (plan_store.h). */
#ifndef BTI_ARRAY_PLAN_CACHE_H
#define BTI_ARRAY_PLAN_CACHE_H

#include "array/plan_key.h"
#include "exec/exec.h"

/* The plan for this key, retained; NULL: it is not there. It names stand-ins: its runs are given key->nodes. */
bti_prepared *bti_plan_cache_find(const bti_plan_key *key);
/* Offers a new plan, before its first run; the second one with the same key is kept: most evaluations of a program that has no loop come once.
 * True: it is kept, and names stand-ins. */
bool bti_plan_cache_keep(const bti_plan_key *key, const bti_order *order, bti_prepared *prepared);
/* The program has let go of a function: plans do not keep it, and what it holds, any longer. Those that run go on. */
void bti_plan_cache_end_host(bti_host_function *function);
/* Drops all of evaluations; those in use live on. For shutdown. */
void bti_plan_cache_clear(void);

/* Since the start: how often an evaluation found its plan, how many plans were made, of evaluations and calls; what is kept now, of both. */
typedef struct bti_plan_cache_counts {
    uint64_t found, made;
    size_t plans, bytes;
} bti_plan_cache_counts;
bti_plan_cache_counts bti_plan_cache_count(void);

#endif
