#include "task/options.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/sized.h"

/* --- structures --------------------------------------------------------------------------------------------------------- */

#define MEMBER(name) BTI_MEMBER(bt_task_options, name)
static const bti_member task_members[] = {
    MEMBER(size),           MEMBER(zeros_set),   MEMBER(num_cpus),       MEMBER(num_gpus),         MEMBER(resources),
    MEMBER(priority),       MEMBER(max_retries), MEMBER(max_restarts),   MEMBER(deadline_seconds), MEMBER(name),
    MEMBER(group),          MEMBER(bundle),      MEMBER(retry_failures), MEMBER(get_if_exists),    MEMBER(detached),
    MEMBER(gpu_memory),     MEMBER(accelerator), MEMBER(strategy),       MEMBER(max_calls),        MEMBER(num_returns),

    MEMBER(max_concurrency)};
#undef MEMBER
static const bt_task_options no_task_options = {
    .num_cpus = BTI_UNSET_REAL,
    .num_gpus = BTI_UNSET_REAL,
    .priority = BTI_UNSET_INT,
    .max_retries = BTI_UNSET_INT,
    .max_restarts = BTI_UNSET_INT,
    .deadline_seconds = BTI_UNSET_REAL,
    .bundle = BTI_UNSET_INT,
    .gpu_memory = BTI_UNSET_REAL,
    .strategy = BTI_UNSET_INT,
    .max_calls = BTI_UNSET_INT,
    .num_returns = BTI_UNSET_INT,
    .max_concurrency = BTI_UNSET_INT,
};
static const bti_sized_type call_layout =
    BTI_SIZED_TYPE(bt_task_options, "options", "BT_OPTIONS(.num_gpus = 1)", task_members, &no_task_options);
static const bti_sized_type declared_layout = BTI_SIZED_TYPE(
    bt_task_options, "declared options", "BT_REMOTE(function, .num_gpus = 1)", task_members, &no_task_options);
static const bti_sized_type bundle_layout =
    BTI_SIZED_TYPE(bt_task_options, "options of a bundle", "BT_BUNDLE(.num_gpus = 1)", task_members, &no_task_options);

#define MEMBER(name) BTI_MEMBER(bt_runtime_options, name)
static const bti_member runtime_members[] = {
    MEMBER(size),          MEMBER(zeros_set),        MEMBER(num_cpus),     MEMBER(num_gpus),
    MEMBER(resources),     MEMBER(store_bytes),      MEMBER(spill_folder), MEMBER(spill_bytes),
    MEMBER(engine),        MEMBER(gpu_wait_seconds), MEMBER(max_retries),  MEMBER(prefix_output),
    MEMBER(max_processes), MEMBER(gpu_memory),       MEMBER(accelerator),  MEMBER(address)};
#undef MEMBER
static const bt_runtime_options no_runtime_options = {.num_cpus = BTI_UNSET_REAL};
static const bti_sized_type runtime_layout = BTI_SIZED_TYPE(
    bt_runtime_options, "options", "bt_runtime_init(.num_cpus = 4)", runtime_members, &no_runtime_options);

/* The unset values are constants that are copied, never computed with. */
bool bti_is_set(double member) { return !(member <= BTI_UNSET_REAL && member >= BTI_UNSET_REAL); }

static bt_status take_options(const bti_sized_type *layout, const char *call, const bt_task_options *given,
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
    if (!(fabs(known->gpu_memory) > 0)) known->gpu_memory = BTI_UNSET_REAL;
    if (!known->strategy) known->strategy = BTI_UNSET_INT;
    if (!known->max_calls) known->max_calls = BTI_UNSET_INT;
    if (!known->num_returns) known->num_returns = BTI_UNSET_INT;
    if (!known->max_concurrency) known->max_concurrency = BTI_UNSET_INT;
    return BT_OK;
}

static double merge_real(double given, double declared) { return bti_is_set(given) ? given : declared; }
static int merge_int(int given, int declared) {
    int value = given != BTI_UNSET_INT ? given : declared;
    return value != BTI_UNSET_INT ? value : 0;
}

/* -1 is without limit. */
static int merge_count(int count) { return count == -1 ? INT_MAX : count; }

/* num_gpus and gpu_memory replace each other: a call that sets one does not inherit the other from its function's declaration. */
static void set_gpus(bt_task_options *whole, const bt_task_options *own, const bt_task_options *declared) {
    if (bti_is_set(own->num_gpus) || bti_is_set(own->gpu_memory)) return;
    whole->num_gpus = declared->num_gpus;
    whole->gpu_memory = declared->gpu_memory;
}

bt_status bti_task_options_merge(const char *call, const bt_remote_entry *entry, const bt_task_options *given,
                                 int default_retries, bt_task_options *whole) {
    bt_task_options own = no_task_options, declared;
    BTI_TRY(take_options(&declared_layout, entry->name, entry->options, &declared));
    if (given) BTI_TRY(take_options(&call_layout, call, given, &own));
    *whole = own;
    whole->num_cpus = merge_real(own.num_cpus, declared.num_cpus);
    set_gpus(whole, &own, &declared);
    whole->max_calls = merge_int(own.max_calls, declared.max_calls);
    if (own.num_returns == BTI_UNSET_INT) whole->num_returns = declared.num_returns;
    if (whole->num_returns == BTI_UNSET_INT) whole->num_returns = 1;
    int concurrency = own.max_concurrency != BTI_UNSET_INT ? own.max_concurrency : declared.max_concurrency;
    whole->max_concurrency = concurrency != BTI_UNSET_INT ? concurrency : 1;
    if (!own.accelerator) whole->accelerator = declared.accelerator;
    whole->deadline_seconds = merge_real(own.deadline_seconds, declared.deadline_seconds);
    if (!bti_is_set(whole->deadline_seconds)) whole->deadline_seconds = 0;
    if (own.priority == BTI_UNSET_INT) whole->priority = declared.priority;
    int retries = own.max_retries != BTI_UNSET_INT ? own.max_retries : declared.max_retries;
    whole->max_retries = merge_count(retries != BTI_UNSET_INT ? retries : default_retries);
    whole->max_restarts = merge_count(merge_int(own.max_restarts, declared.max_restarts));
    if (!own.retry_failures) whole->retry_failures = declared.retry_failures;
    whole->get_if_exists = own.get_if_exists || declared.get_if_exists;
    whole->detached = own.detached || declared.detached;
    whole->bundle = merge_int(own.bundle, declared.bundle);
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
    BTI_TRY(take_options(&bundle_layout, "bt_group_new", at, bundle));
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

/* The share is relative to the largest GPU; on others it is more (bti_gpu_share). */
static bt_status add_gpu_memory(const bti_state *state, const bt_task_options *o, bti_amounts *amounts) {
    uint64_t most = 0;
    if (!bti_is_set(o->gpu_memory)) return BT_OK;
    if (!(o->gpu_memory > 0) || o->gpu_memory > 1e18)
        return bti_fail(BT_INVALID_ARGUMENT, "gpu_memory is %g bytes; it is a number above 0", o->gpu_memory);
    if (bti_is_set(o->num_gpus) && amounts->of[1] != BTI_UNIT)
        return bti_fail(BT_INVALID_ARGUMENT,
                        "gpu_memory is a share of one GPU; with it num_gpus is not set, or 1, and not %g", o->num_gpus);
    for (int g = 0; g < state->gpu_count; g++)
        if (state->gpu_bytes[g] > most) most = state->gpu_bytes[g];
    if (!most && state->gpu_count)
        return bti_fail(BT_FAILED_PRECONDITION,
                        "gpu_memory is %g, but the memory of the GPUs is not known: the runtime "
                        "only counts them (bt_runtime_init, .gpu_memory)",
                        o->gpu_memory);
    if (o->gpu_memory > (double)most)
        return bti_fail(BT_RESOURCE_EXHAUSTED,
                        "asks for %g bytes of a GPU's memory; the largest that the runtime has has %g", o->gpu_memory,
                        (double)most);
    amounts->gpu_bytes = (uint64_t)o->gpu_memory ? (uint64_t)o->gpu_memory : 1;
    amounts->of[1] = (int64_t)(((unsigned __int128)amounts->gpu_bytes * BTI_UNIT + most - 1) / most);
    return BT_OK;
}

/* Whether a name has these words: "H100" is in "NVIDIA H100 80GB", "A10" is not in "NVIDIA A100". */
static bool has_words(const char *name, const char *words) {
    size_t length = strlen(words);
    for (const char *at = name; (at = strcasestr(at, words)) != NULL; at++)
        if ((at == name || !isalnum((unsigned char)at[-1])) && !isalnum((unsigned char)at[length])) return true;
    return false;
}

static bt_status add_accelerator(const bti_state *state, const bt_task_options *o, bti_amounts *amounts) {
    const char *type = o->accelerator && *o->accelerator ? o->accelerator : NULL;
    uint64_t gpus = 0;
    int usable = 0;
    if (!type) return BT_OK;
    if (!amounts->of[1])
        return bti_fail(BT_INVALID_ARGUMENT, "accelerator is \"%s\", but no GPU is asked for (num_gpus, gpu_memory)",
                        type);
    for (int g = 0; g < state->gpu_count; g++) {
        if (!has_words(state->gpu_model[g], type)) continue;
        gpus |= (uint64_t)1 << g;
        usable += !amounts->gpu_bytes || amounts->gpu_bytes <= state->gpu_bytes[g];
    }
    if ((amounts->of[1] + BTI_UNIT - 1) / BTI_UNIT > usable) {
        const char *first = state->gpu_count ? state->gpu_model[0] : "";
        return bti_fail(BT_RESOURCE_EXHAUSTED, "asks for %g GPU of type \"%s\"; the runtime has %d%s%s%s",
                        bti_amount(amounts->of[1]), type, usable, *first ? " (the first GPU is " : "", first,
                        *first ? ")" : "");
    }
    amounts->gpu_only = gpus;
    return BT_OK;
}

bt_status bti_amounts_of(const bti_state *state, const bt_task_options *o, double cpus, bti_amounts *amounts) {
    *amounts = (bti_amounts){0};
    BTI_TRY(bti_units(bti_is_set(o->num_cpus) ? o->num_cpus : cpus, "CPUs", &amounts->of[0]));
    BTI_TRY(bti_units(bti_is_set(o->num_gpus) ? o->num_gpus : 0, "GPUs", &amounts->of[1]));
    if (amounts->of[1] > BTI_UNIT && amounts->of[1] % BTI_UNIT)
        return bti_fail(BT_INVALID_ARGUMENT, "%g GPUs: several GPUs are whole ones, a share is below 1", o->num_gpus);
    BTI_TRY(add_gpu_memory(state, o, amounts));
    BTI_TRY(add_accelerator(state, o, amounts));
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
