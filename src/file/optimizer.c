/* An optimiser's states in files, each under its name. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "array/handle.h"
#include "base/alloc.h"
#include "base/quote.h"
#include "file/tensors.h"
#include "file/variables.h"
#include "nn/optimizer.h"

static const char rule_key[] = "optimizer", rate_key[] = "rate";

typedef struct states {
    bt_shared **variables;
    const char **names;
    bt_array **values;
    int count;
} states;

static void states_free(states *s) {
    bti_free(s->variables);
    bti_free(s->names);
    bti_free(s->values);
}

static bt_status states_list(states *s, const bt_optimizer *optimizer) {
    *s = (states){0};
    BTI_TRY(bt_optimizer_status(optimizer));
    int count = bt_optimizer_states(optimizer, NULL, 0);
    size_t room = (size_t)count + 1;
    s->variables = bti_calloc(room, sizeof *s->variables);
    s->names = bti_calloc(room, sizeof *s->names);
    s->values = bti_calloc(room, sizeof *s->values);
    if (!s->variables || !s->names || !s->values) return bti_no_memory();
    int listed = bt_optimizer_states(optimizer, s->variables, count); /* other threads may make more */
    s->count = listed < count ? listed : count;
    for (int i = 0; i < s->count; i++) {
        s->names[i] = bt_shared_name(s->variables[i]);
        s->values[i] = bt_value(s->variables[i]);
        BTI_TRY(bti_fail_with(bti_array_error(s->values[i])));
    }
    return BT_OK;
}

bt_status bt_save_optimizer(const char *path, const bt_optimizer *optimizer) {
    BTI_PUBLIC("bt_save_optimizer");
    states s;
    bt_status status = states_list(&s, optimizer);
    if (status == BT_OK) {
        char rate[32];
        snprintf(rate, sizeof rate, "%.17g", bt_optimizer_rate(optimizer));
        const char *metadata[] = {rule_key, bt_optimizer_name(optimizer), rate_key, rate, NULL};
        status = bt_save(path, s.names, s.values, s.count, metadata);
    }
    states_free(&s);
    return status;
}

/* rate: NaN when the file, of another program, has none. */
static bt_status check_rule(const bt_tensors *file, const bt_optimizer *optimizer, double *rate) {
    const char *rule = bt_tensors_metadata(file, rule_key), *text = bt_tensors_metadata(file, rate_key);
    char *end = NULL;
    *rate = text ? strtod(text, &end) : NAN;
    if (rule && strcmp(rule, bt_optimizer_name(optimizer)) != 0)
        return bti_fail(BT_INVALID_ARGUMENT, "%s has the states of \"%s\", the optimiser is %s (nothing was changed)",
                        file->file.path, bti_quote(rule).text, bt_optimizer_name(optimizer));
    if (text && (*end || !isfinite(*rate)))
        return bti_fail(BT_DATA_LOSS, "%s: the rate \"%s\" is no finite number", file->file.path, bti_quote(text).text);
    return BT_OK;
}

static bt_status load_states(const char *path, bt_optimizer *optimizer, states *s) {
    bt_tensors *file = NULL;
    double rate = NAN;
    bt_status status = bt_tensors_open(path, &file);
    if (status == BT_OK) status = check_rule(file, optimizer, &rate);
    if (status == BT_OK)
        status = bti_variables_read(file, "optimiser", NULL, s->variables, s->names, s->count, NULL, s->values);
    if (isnan(rate)) rate = bt_optimizer_rate(optimizer);
    if (status == BT_OK) status = bti_optimizer_restore(optimizer, s->variables, s->values, s->count, rate);
    bt_tensors_close(file);
    return status;
}

bt_status bt_load_optimizer(const char *path, bt_optimizer *optimizer, bt_shared *const *parameters, int count) {
    BTI_PUBLIC("bt_load_optimizer");
    BTI_TRY(bt_optimizer_prepare(optimizer, parameters, count));
    states s;
    bt_status status = states_list(&s, optimizer);
    if (status == BT_OK) status = load_states(path, optimizer, &s);
    states_free(&s);
    return status;
}
