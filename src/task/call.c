#include "task/call.h"

#include <stdio.h>

#include "base/clock.h"
#include "task/dispatch.h"
#include "task/group.h"
#include "task/modules.h"
#include "task/options.h"
#include "task/value.h"

/* --- what it is -------------------------------------------------------------------------------------------------------- */

static bt_status check_call_amounts(const bti_state *state, const bti_engine_call *asked, bti_call_order *order) {
    const bt_task_options *o = asked->options;
    const char *name = asked->function;
    const bti_supply *supply = &state->machine;
    if (asked->group) {
        order->group = bti_held_object(asked->group);
        const bti_group_record *group = order->group->group;
        if (o->bundle < 0 || o->bundle >= group->count)
            return bti_fail(BT_OUT_OF_RANGE, "%s: bundle %d of a group of %d", name, o->bundle, group->count);
        supply = &group->bundles[o->bundle];
    }
    double cpus =
        asked->group && !supply->total.of[0] ? 0 : 1; /* a call in a bundle without CPUs takes none by default */
    BTI_TRY(bti_amounts_of(state, o, cpus, &order->amounts));
    uint64_t wanted = order->amounts.gpu_only, only = supply->total.gpu_only;
    if (asked->group && wanted && (!only || only & ~wanted))
        return bti_fail(BT_INVALID_ARGUMENT,
                        "%s: accelerator is \"%s\", but its bundle may have other GPUs: "
                        "BT_BUNDLE(.accelerator) chooses them",
                        name, o->accelerator);
    return bti_amounts_check(state, &order->amounts, supply, name, asked->group ? "its bundle has" : "the runtime has");
}

static bt_status check_call_options(const bti_engine_call *asked) {
    const bt_task_options *o = asked->options;
    const bti_function_record *f = NULL;
    if (!(o->deadline_seconds >= 0))
        return bti_fail(BT_INVALID_ARGUMENT, "%s: deadline_seconds is %g: the time is over before it begins",
                        asked->function, o->deadline_seconds);
    if (o->max_retries < 0 || o->max_restarts < 0)
        return bti_fail(BT_INVALID_ARGUMENT, "%s: max_retries is %d, max_restarts %d; -1 is without limit",
                        asked->function, o->max_retries, o->max_restarts);
    if (o->num_returns < 1 || o->num_returns > BTI_MOST_RETURNS)
        return bti_fail(BT_INVALID_ARGUMENT, "%s: num_returns is %d; it is 1 to %d", asked->function, o->num_returns,
                        BTI_MOST_RETURNS);
    if (o->num_returns > 1 && asked->kind == BTI_CALL_ACTOR)
        return bti_fail(BT_INVALID_ARGUMENT, "%s: num_returns is %d; what makes an actor returns nothing",
                        asked->function, o->num_returns);
    if (o->max_concurrency < 1 || o->max_concurrency > BTI_MOST_AT_ONCE)
        return bti_fail(BT_INVALID_ARGUMENT, "%s: max_concurrency is %d; an actor runs 1 to %d methods at once",
                        asked->function, o->max_concurrency, BTI_MOST_AT_ONCE);
    if (o->max_calls < 0)
        return bti_fail(BT_INVALID_ARGUMENT, "%s: max_calls is %d; it cannot be below 0", asked->function,
                        o->max_calls);
    if (strlen(asked->function) >= sizeof f->name || strlen(asked->module) >= sizeof f->module)
        return bti_fail(BT_INVALID_ARGUMENT,
                        "%s of module %.*s: names of functions have at most %zu bytes, whole paths of modules %zu",
                        asked->function, (int)strcspn(asked->module, "\n"), asked->module, sizeof f->name - 1,
                        sizeof f->module - 1 - BTI_KEY_END);
    if (asked->kind == BTI_CALL_ACTOR && o->name && strlen(o->name) > 63)
        return bti_fail(BT_INVALID_ARGUMENT, "an actor's name has at most 63 bytes");
    return BT_OK;
}

bt_status bti_order_of(bti_state *state, const bti_engine_call *asked, bti_call_order *order, char *small,
                       uint64_t most) {
    const bt_task_options *o = asked->options;
    BTI_TRY(check_call_options(asked));
    *order = (bti_call_order){.kind = asked->kind,
                              .priority = o->priority,
                              .max_retries = o->max_retries,
                              .max_restarts = o->max_restarts,
                              .retry_failures = o->retry_failures,
                              .bundle = o->bundle,
                              .max_calls = o->max_calls,
                              .num_returns = (uint32_t)o->num_returns,
                              .max_concurrency = o->max_concurrency,
                              .call = BTI_NO_CALL,
                              .deadline_seconds = o->deadline_seconds,
                              .made_ns = bti_now_ns()};
    if (asked->kind == BTI_CALL_METHOD)
        order->actor = bti_held_object(asked->actor);
    else
        BTI_TRY(check_call_amounts(state, asked, order));
    order->hides_gpus = asked->kind != BTI_CALL_METHOD && !order->amounts.of[1] && bti_is_set(o->num_gpus);
    order->frees_cpus = asked->kind == BTI_CALL_ACTOR && !bti_is_set(o->num_cpus);
    snprintf(order->function, sizeof order->function, "%s", asked->function);
    snprintf(order->module, sizeof order->module, "%s", asked->module);
    if (asked->kind == BTI_CALL_ACTOR && o->name) snprintf(order->actor_name, sizeof order->actor_name, "%s", o->name);
    order->bytes = bti_values_bytes(&asked->arguments);
    return order->bytes <= most ? bti_values_pack(&asked->arguments, small) : BT_OK;
}

static bt_status read_strategy(int strategy, bti_amounts *first) {
    if (strategy != BTI_UNSET_INT && (strategy < BT_GROUP_PACK || strategy > BT_GROUP_STRICT_SPREAD))
        return bti_fail(BT_INVALID_ARGUMENT, "bt_group_new: strategy is %d; it is a bt_group_strategy", strategy);
    first->strategy = strategy == BTI_UNSET_INT ? BT_GROUP_PACK : strategy;
    return BT_OK;
}

bt_status bti_group_read(const bti_state *state, const bt_task_options *bundles, int count, bti_supply *supplies) {
    bti_amounts sum = {0};
    if (count < 1 || count > BTI_MOST_BUNDLES)
        return bti_fail(BT_INVALID_ARGUMENT, "bt_group_new: %d bundles; 1 to %d", count, BTI_MOST_BUNDLES);
    for (int i = 0; i < count; i++) {
        BTI_TRY(bti_amounts_of(state, &bundles[i], 0, &supplies[i].total));
        supplies[i].free = supplies[i].total;
        for (int r = 0; r < state->resource_count; r++) sum.of[r] += supplies[i].total.of[r];
    }
    BTI_TRY(bti_amounts_check(state, &sum, &state->machine, "the group", "the runtime has"));
    BTI_TRY(read_strategy(bundles[0].strategy, &supplies[0].total));
    return bti_bundles_check(state, supplies, count);
}
