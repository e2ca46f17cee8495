/* A call, as the process that makes it tells the scheduler of it: plain data, in memory of its own or in a message. */
#ifndef BTI_TASK_ORDER_H
#define BTI_TASK_ORDER_H

#include "task/engine.h"
#include "task/object.h"

typedef struct bti_call_order {
    uint32_t kind; /* bti_call_kind */
    int32_t priority, max_retries, max_restarts, bundle, max_calls, max_concurrency;
    bool hides_gpus, frees_cpus;
    double deadline_seconds; /* from when it was made; 0: none */
    uint64_t made_ns;
    uint32_t call; /* the number of the worker's call that makes it; BTI_NO_CALL */
    bti_amounts amounts;
    bti_object *actor; /* of a method */
    bti_object *group; /* or NULL */
    bti_hold *pack;    /* of arguments that were put into the store; NULL: they follow */
    uint64_t bytes;    /* of arguments */
    char actor_name[64];
    char function[96], module[512];
    uint32_t retry_failures; /* statuses as bits */
    uint32_t num_returns;
} bti_call_order;

/* With the lock: of a client, with the hold of the result (NULL: a new one of the client). NULL with the failure in the error record; what was
 * changed is taken back then. */
bti_hold *bti_order_submit(bti_state *state, bti_client *client, const bti_call_order *order, const char *arguments,
                           bti_hold *result, bti_wakes *wakes);

/* With the lock: cancels a call, kills an actor, finds an actor by its name (NULL: there is none). */
bt_status bti_order_cancel(bti_state *state, bti_object *object, unsigned how, bti_wakes *wakes);
void bti_order_kill(bti_state *state, bti_object *actor, bti_wakes *wakes);
bti_actor_record *bti_actor_named(const bti_state *state, const char *name);
/* A group of these bundles; NULL: there are too many. */
bti_hold *bti_group_submit(bti_state *state, bti_client *client, const bti_supply *bundles, int count,
                           bti_wakes *wakes);

#endif
