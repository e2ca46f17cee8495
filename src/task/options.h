/* What calls take, read from their options. */
#ifndef BTI_TASK_OPTIONS_H
#define BTI_TASK_OPTIONS_H

#include "task/state.h"

/* Was num_cpus, num_gpus or the like set, be it to 0? */
bool bti_is_set(double member);
/* The options of one call, `given` (may be NULL), before those that its function was declared with: num_cpus, num_gpus and priority stay unset
 * where neither sets them, the other members get their defaults; INT_MAX retries or restarts are without limit. INVALID_ARGUMENT for a structure of
 * no or of a wrong size. `call`: for the text. */
bt_status bti_task_options_merge(const char *call, const bt_remote_entry *entry, const bt_task_options *given,
                                 int default_retries, bt_task_options *whole);
/* Bundle `index` of an array of which each begins with its size. */
bt_status bti_bundle_take(const bt_task_options *bundles, int index, bt_task_options *bundle);
bt_status bti_runtime_options_take(const bt_runtime_options *given, bt_runtime_options *known);
/* Amounts of resources; INVALID_ARGUMENT for what is no amount, NOT_FOUND for a resource that there is not. `cpus`: when none are written. */
bt_status bti_amounts_of(const bti_state *state, const bt_task_options *options, double cpus, bti_amounts *amounts);
/* RESOURCE_EXHAUSTED, naming both numbers, when a supply could never have so much. `owner`: "the runtime has". */
bt_status bti_amounts_check(const bti_state *state, const bti_amounts *amounts, const bti_supply *supply,
                            const char *who, const char *owner);
/* Amounts are whole numbers of 1/BTI_UNIT. */
double bti_amount(int64_t units);
bt_status bti_units(double amount, const char *what, int64_t *units);
/* The number of a resource; -1. */
int bti_resource_of(const bti_state *state, const char *name);

#endif
