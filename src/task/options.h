/* Options of calls and runtimes, checked, and the amounts of resources that they ask for. */
#ifndef BTI_TASK_OPTIONS_H
#define BTI_TASK_OPTIONS_H

#include "task/state.h"

/* Whether num_cpus, num_gpus or the like was set, even to 0. */
bool bti_is_set(double member);
/* The options of one call: those of `given` (may be NULL), then those that its function was declared with. num_cpus, num_gpus and priority
 * stay unset where neither sets them; the other members get their defaults; INT_MAX retries or restarts mean no limit. INVALID_ARGUMENT for
 * a structure with no size or a wrong size. `call`: named in the error. */
bt_status bti_task_options_merge(const char *call, const bt_remote_entry *entry, const bt_task_options *given,
                                 int default_retries, bt_task_options *whole);
/* Bundle `index` of an array of which each begins with its size. */
bt_status bti_bundle_take(const bt_task_options *bundles, int index, bt_task_options *bundle);
bt_status bti_runtime_options_take(const bt_runtime_options *given, bt_runtime_options *known);
/* The amounts of resources that options ask for; `cpus`: if num_cpus is unset. INVALID_ARGUMENT for what is no amount, NOT_FOUND for a
 * resource that does not exist. */
bt_status bti_amounts_of(const bti_state *state, const bt_task_options *options, double cpus, bti_amounts *amounts);
/* RESOURCE_EXHAUSTED, with both numbers, when the supply can never have so much. `owner`: "the runtime has". */
bt_status bti_amounts_check(const bti_state *state, const bti_amounts *amounts, const bti_supply *supply,
                            const char *who, const char *owner);
/* Amounts are whole numbers of 1/BTI_UNIT. */
double bti_amount(int64_t units);
bt_status bti_units(double amount, const char *what, int64_t *units);
/* The index of a resource; -1: there is none. */
int bti_resource_of(const bti_state *state, const char *name);

#endif
