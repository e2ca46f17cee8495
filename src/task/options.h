/* What calls take, read from their options. */
#ifndef BTI_TASK_OPTIONS_H
#define BTI_TASK_OPTIONS_H

#include "task/state.h"

/* Was this option written, be it as 0? */
bool bti_written(const bt_task_options *options, const char *option);
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
