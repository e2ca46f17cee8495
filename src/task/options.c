#include "task/options.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>

bool bti_written(const bt_task_options *options, const char *option) {
    size_t length = strlen(option);
    for (const char *at = options->written; at && (at = strstr(at, option)) != NULL; at += length)
        if (at > options->written && at[-1] == '.' && !isalnum((unsigned char)at[length]) && at[length] != '_')
            return true;
    return false;
}

double bti_amount(int64_t units) { return (double)units / BTI_UNIT; }

bt_status bti_units(double amount, const char *what, int64_t *units) {
    if (!(amount >= 0) || amount > 1e12) return bti_fail(BT_INVALID_ARGUMENT, "%g is no amount of %s", amount, what);
    *units = llround(amount * BTI_UNIT);
    if (amount > 0 && !*units)
        return bti_fail(BT_INVALID_ARGUMENT, "%g of %s is less than 1/%d", amount, what, BTI_UNIT);
    return BT_OK;
}

int bti_resource_of(const bti_state *state, const char *name) {
    for (int r = 0; r < state->resource_count; r++)
        if (!strcmp(state->names[r], name)) return r;
    return -1;
}

static bt_status add_named(const bti_state *state, const bt_resource *resource, bti_amounts *amounts) {
    int r = bti_resource_of(state, resource->name);
    if (r < 0)
        return bti_fail(BT_NOT_FOUND, "the runtime has no resource \"%s\" (bt_runtime_init, .resources)",
                        resource->name);
    if (r < 2)
        return bti_fail(BT_INVALID_ARGUMENT, "resource \"%s\" is asked for by .num_%s", resource->name,
                        r ? "gpus" : "cpus");
    return bti_units(resource->amount, resource->name, &amounts->of[r]);
}

bt_status bti_amounts_of(const bti_state *state, const bt_task_options *o, double cpus, bti_amounts *amounts) {
    *amounts = (bti_amounts){0};
    if (o->num_cpus != 0 || bti_written(o, "num_cpus")) cpus = o->num_cpus;
    BTI_TRY(bti_units(cpus, "CPUs", &amounts->of[0]));
    BTI_TRY(bti_units(o->num_gpus, "GPUs", &amounts->of[1]));
    if (amounts->of[1] > BTI_UNIT && amounts->of[1] % BTI_UNIT)
        return bti_fail(BT_INVALID_ARGUMENT, "%g GPUs: several GPUs are whole ones, a share is below 1", o->num_gpus);
    for (int i = 0; i < 8 && o->resources[i].name; i++) BTI_TRY(add_named(state, &o->resources[i], amounts));
    return BT_OK;
}

bt_status bti_amounts_check(const bti_state *state, const bti_amounts *amounts, const bti_supply *supply,
                            const char *who, const char *owner) {
    for (int r = 0; r < state->resource_count; r++)
        if (amounts->of[r] > supply->total.of[r])
            return bti_fail(BT_RESOURCE_EXHAUSTED, "%s asks for %g %s; %s %g", who, bti_amount(amounts->of[r]),
                            state->names[r], owner, bti_amount(supply->total.of[r]));
    return BT_OK;
}
