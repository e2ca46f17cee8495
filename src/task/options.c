#include "task/options.h"

#include <math.h>
#include <stdio.h>

#include "base/sized.h"

/* --- structures --------------------------------------------------------------------------------------------------------- */

#define MEMBER(name) BTI_MEMBER(bt_task_options, name)
static const bti_member task_members[] = {
    MEMBER(size),     MEMBER(zeros_set),   MEMBER(num_cpus),       MEMBER(num_gpus),         MEMBER(resources),
    MEMBER(priority), MEMBER(max_retries), MEMBER(max_restarts),   MEMBER(deadline_seconds), MEMBER(name),
    MEMBER(group),    MEMBER(bundle),      MEMBER(retry_failures), MEMBER(get_if_exists),    MEMBER(detached)};
#undef MEMBER
static const bt_task_options no_task_options = {
    .num_cpus = BTI_UNSET_REAL,
    .num_gpus = BTI_UNSET_REAL,
    .priority = BTI_UNSET_INT,
    .max_retries = BTI_UNSET_INT,
    .max_restarts = BTI_UNSET_INT,
    .deadline_seconds = BTI_UNSET_REAL,
    .bundle = BTI_UNSET_INT,
};
static const bti_sized_type call_layout =
    BTI_SIZED_TYPE(bt_task_options, "options", "BT_OPTIONS(.num_gpus = 1)", task_members, &no_task_options);
static const bti_sized_type declared_layout = BTI_SIZED_TYPE(
    bt_task_options, "declared options", "BT_REMOTE(function, .num_gpus = 1)", task_members, &no_task_options);
static const bti_sized_type bundle_layout =
    BTI_SIZED_TYPE(bt_task_options, "options of a bundle", "BT_BUNDLE(.num_gpus = 1)", task_members, &no_task_options);

#define MEMBER(name) BTI_MEMBER(bt_runtime_options, name)
static const bti_member runtime_members[] = {
    MEMBER(size),        MEMBER(zeros_set),     MEMBER(num_cpus),     MEMBER(num_gpus), MEMBER(resources),
    MEMBER(store_bytes), MEMBER(spill_folder),  MEMBER(spill_bytes),  MEMBER(engine),   MEMBER(gpu_wait_seconds),
    MEMBER(max_retries), MEMBER(prefix_output), MEMBER(max_processes)};
#undef MEMBER
static const bt_runtime_options no_runtime_options = {.num_cpus = BTI_UNSET_REAL};
static const bti_sized_type runtime_layout = BTI_SIZED_TYPE(
    bt_runtime_options, "options", "bt_runtime_init(.num_cpus = 4)", runtime_members, &no_runtime_options);

/* The unset values are constants that are copied, never computed with. */
bool bti_is_set(double member) { return !(member <= BTI_UNSET_REAL && member >= BTI_UNSET_REAL); }

static bt_status take(const bti_sized_type *layout, const char *call, const bt_task_options *given,
                      bt_task_options *known) {
    BTI_TRY(bti_options_take(layout, call, given, known));
    if (known->zeros_set) return BT_OK;
    if (!(fabs(known->num_cpus) > 0)) known->num_cpus = BTI_UNSET_REAL;
    if (!(fabs(known->num_gpus) > 0)) known->num_gpus = BTI_UNSET_REAL;
    if (!(fabs(known->deadline_seconds) > 0)) known->deadline_seconds = BTI_UNSET_REAL;
    if (!known->priority) known->priority = BTI_UNSET_INT;
    if (!known->max_retries) known->max_retries = BTI_UNSET_INT;
    if (!known->max_restarts) known->max_restarts = BTI_UNSET_INT;
    if (!known->bundle) known->bundle = BTI_UNSET_INT;
    return BT_OK;
}

static double real_of(double given, double declared) { return bti_is_set(given) ? given : declared; }
static int int_of(int given, int declared) {
    int value = given != BTI_UNSET_INT ? given : declared;
    return value != BTI_UNSET_INT ? value : 0;
}

/* -1 is without limit. */
static int count_of(int count) { return count == -1 ? INT_MAX : count; }

bt_status bti_task_options_merge(const char *call, const bt_remote_entry *entry, const bt_task_options *given,
                                 int default_retries, bt_task_options *whole) {
    bt_task_options own = no_task_options, declared;
    BTI_TRY(take(&declared_layout, entry->name, entry->options, &declared));
    if (given) BTI_TRY(take(&call_layout, call, given, &own));
    *whole = own;
    whole->num_cpus = real_of(own.num_cpus, declared.num_cpus);
    whole->num_gpus = real_of(own.num_gpus, declared.num_gpus);
    whole->deadline_seconds = real_of(own.deadline_seconds, declared.deadline_seconds);
    if (!bti_is_set(whole->deadline_seconds)) whole->deadline_seconds = 0;
    if (own.priority == BTI_UNSET_INT) whole->priority = declared.priority;
    int retries = own.max_retries != BTI_UNSET_INT ? own.max_retries : declared.max_retries;
    whole->max_retries = count_of(retries != BTI_UNSET_INT ? retries : default_retries);
    whole->max_restarts = count_of(int_of(own.max_restarts, declared.max_restarts));
    if (!own.retry_failures) whole->retry_failures = declared.retry_failures;
    whole->get_if_exists = own.get_if_exists || declared.get_if_exists;
    whole->detached = own.detached || declared.detached;
    whole->bundle = int_of(own.bundle, declared.bundle);
    if (!own.resources[0].name) memcpy(whole->resources, declared.resources, sizeof declared.resources);
    if (!own.name) whole->name = declared.name;
    if (whole->name && !*whole->name) whole->name = NULL;
    if (!own.group) whole->group = declared.group;
    return BT_OK;
}

bt_status bti_bundle_take(const bt_task_options *bundles, int index, bt_task_options *bundle) {
    const char *first = (const char *)bundles;
    BTI_TRY(bti_sized_check(&bundle_layout, "bt_group_new", bundles));
    const bt_task_options *at = (const void *)(first + (size_t)index * bundles->size);
    BTI_TRY(take(&bundle_layout, "bt_group_new", at, bundle));
    if (at->size == bundles->size) return BT_OK;
    return bti_fail(BT_INVALID_ARGUMENT, "bundle %d has another size than the first: use BT_BUNDLE for all", index);
}

bt_status bti_runtime_options_take(const bt_runtime_options *given, bt_runtime_options *known) {
    BTI_TRY(bti_options_take(&runtime_layout, "bt_runtime_init", given, known));
    if (!known->zeros_set && !(fabs(known->num_cpus) > 0)) known->num_cpus = BTI_UNSET_REAL;
    if (known->max_retries < -1)
        return bti_fail(BT_INVALID_ARGUMENT, "max_retries is %d; -1 is without limit", known->max_retries);
    return BT_OK;
}

/* --- amounts -------------------------------------------------------------------------------------------------------------- */

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
    BTI_TRY(bti_units(bti_is_set(o->num_cpus) ? o->num_cpus : cpus, "CPUs", &amounts->of[0]));
    BTI_TRY(bti_units(bti_is_set(o->num_gpus) ? o->num_gpus : 0, "GPUs", &amounts->of[1]));
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
