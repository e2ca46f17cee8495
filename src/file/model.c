/* A model's parameters and states, and an optimiser's states, in files, each under its name. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "array/handle.h"
#include "base/alloc.h"
#include "base/quote.h"
#include "base/str.h"
#include "file/safetensors.h"
#include "file/tensors.h"
#include "file/variables.h"
#include "ir/dtype.h"
#include "nn/optimizer.h"

typedef struct model {
    const char *what;      /* "model", or "optimiser" */
    const char *beside;    /* what the names of others' tensors in the file begin with; NULL: there are none */
    bt_shared **variables; /* the parameters, then the states */
    const char **names;
    bt_array **values; /* their present values */
    int count, parameter_count;
} model;

static void model_free(model *m) {
    bti_free(m->variables);
    bti_free(m->names);
    bti_free(m->values);
}

static bt_status make_lists(model *m, int count) {
    size_t room = (size_t)count + 1;
    m->count = count;
    m->variables = bti_calloc(room, sizeof *m->variables);
    m->names = bti_calloc(room, sizeof *m->names);
    m->values = bti_calloc(room, sizeof *m->values);
    return m->variables && m->names && m->values ? BT_OK : bti_no_memory();
}

static bt_status model_open(model *m, const bt_layer *layer) {
    *m = (model){.what = "model"};
    BTI_TRY(bt_layer_status(layer));
    m->parameter_count = bt_parameters(layer, NULL, 0);
    BTI_TRY(make_lists(m, m->parameter_count + bt_states(layer, NULL, 0)));
    bt_parameters(layer, m->variables, m->parameter_count);
    bt_states(layer, m->variables + m->parameter_count, m->count - m->parameter_count);
    for (int i = 0; i < m->count; i++) {
        m->names[i] = bt_shared_name(m->variables[i]);
        m->values[i] = bt_value(m->variables[i]);
        BTI_TRY(bti_fail_with(bti_array_error(m->values[i])));
        if (!m->names[i] || !*m->names[i])
            return bti_fail(BT_FAILED_PRECONDITION,
                            "parameter %d of the model has no name; bt_shared_set_name gives it one", i);
    }
    return BT_OK;
}

bt_status bt_save_model(const char *path, const bt_layer *layer) {
    BTI_PUBLIC("bt_save_model");
    model m;
    bt_status status = model_open(&m, layer);
    if (status == BT_OK) status = bt_save(path, m.names, m.values, m.count, NULL);
    model_free(&m);
    return status;
}

/* --- differences ---------------------------------------------------------------------------------------------------- */

enum { SHOWN = 20 }; /* how many differences are named; more are counted */

static void add_shape(bti_str *text, const char *dtype, int rank, bt_shape shape) {
    bti_str_addf(text, "%s[", dtype);
    for (int i = 0; i < rank && i < BT_MAX_RANK; i++)
        bti_str_addf(text, "%s%lld", i ? ", " : "", (long long)shape.size[i]);
    bti_str_add(text, rank > BT_MAX_RANK ? ", ...]" : "]");
}

static bool tensor_fits(const bti_tensor *tensor, bt_array *value) {
    bt_shape shape = bt_shape_of(value);
    return tensor->dtype == bt_dtype_of(value) && tensor->rank == shape.rank &&
           !memcmp(tensor->shape.size, shape.size, (size_t)shape.rank * sizeof *shape.size);
}

static bool is_variable(const model *m, const char *name) {
    for (int i = 0; i < m->count; i++)
        if (!strcmp(m->names[i], name)) return true;
    return false;
}

static bool is_beside(const model *m, const char *name) {
    return m->beside && !strncmp(name, m->beside, strlen(m->beside));
}

/* A file may lack a state of integers, such as a count or a key: it keeps its value. */
static bool may_be_missing(const model *m, int i) {
    return i >= m->parameter_count && !bti_dtype_is_float(bt_dtype_of(m->values[i]));
}

/* Adds "; missing: a, b" and the like; returns how many differences there are. */
static int list_missing(const model *m, const bt_tensors *file, bti_str *text) {
    int found = 0;
    for (int i = 0; i < m->count; i++)
        if (bti_names_find(&file->names, m->names[i]) < 0 && !may_be_missing(m, i) && found++ < SHOWN)
            bti_str_addf(text, "%s\"%s\"", found == 1 ? "; missing in the file: " : ", ", bti_quote(m->names[i]).text);
    if (found > SHOWN) bti_str_addf(text, " and %d more", found - SHOWN);
    return found;
}

static int list_extra(const model *m, const bt_tensors *file, bti_str *text) {
    int found = 0;
    char not_in[40];
    snprintf(not_in, sizeof not_in, "; not in the %s: ", m->what);
    for (int i = 0; i < file->names.count; i++)
        if (!is_variable(m, file->names.names[i]) && !is_beside(m, file->names.names[i]) && found++ < SHOWN)
            bti_str_addf(text, "%s\"%s\"", found == 1 ? not_in : ", ", bti_quote(file->names.names[i]).text);
    if (found > SHOWN) bti_str_addf(text, " and %d more", found - SHOWN);
    return found;
}

static bt_status list_misshaped(const model *m, const bt_tensors *file, bti_str *text, int *all) {
    int found = 0;
    for (int i = 0; i < m->count; i++) {
        int index = bti_names_find(&file->names, m->names[i]);
        bti_tensor tensor;
        if (index < 0) continue;
        BTI_TRY(file->format->describe(file, index, &tensor));
        if (tensor_fits(&tensor, m->values[i]) || found++ >= SHOWN) continue;
        bt_dtype dtype = bt_dtype_of(m->values[i]);
        const bti_tensor_dtype *known = bti_tensor_dtype_of(dtype);
        bti_str_addf(text, "%s\"%s\" is ", found == 1 ? "; different: " : ", ", bti_quote(m->names[i]).text);
        add_shape(text, tensor.dtype_name, tensor.rank, tensor.shape);
        bti_str_add(text, " in the file and ");
        add_shape(text, known ? known->name : "?", bt_rank(m->values[i]), bt_shape_of(m->values[i]));
        bti_str_addf(text, " in the %s", m->what);
    }
    if (found > SHOWN) bti_str_addf(text, " and %d more", found - SHOWN);
    *all += found;
    return BT_OK;
}

static bt_status compare_with_file(const model *m, const bt_tensors *file) {
    bti_str text = {0};
    int found = list_missing(m, file, &text) + list_extra(m, file, &text);
    bt_status status = list_misshaped(m, file, &text, &found);
    if (status == BT_OK && found)
        status = bti_fail(BT_INVALID_ARGUMENT, "%s does not fit the %s (nothing was changed)%s", file->file.path,
                          m->what, bti_str_text(&text));
    bti_str_free(&text);
    return status;
}

/* --- loading -------------------------------------------------------------------------------------------------------- */

static bt_status read_values(model *m, const bt_tensors *file) {
    BTI_TRY(compare_with_file(m, file));
    for (int i = 0; i < m->count; i++) {
        int index = bti_names_find(&file->names, m->names[i]);
        if (index < 0) continue;
        BT_ON(bt_device_long_name(bt_device_of(m->values[i]))) m->values[i] = file->format->read(file, index);
        BTI_TRY(bt_block(m->values[i]));
    }
    return BT_OK;
}

bt_status bt_load_model(const char *path, bt_layer *layer) {
    BTI_PUBLIC("bt_load_model");
    model m;
    bt_tensors *file = NULL;
    bt_status status = model_open(&m, layer);
    if (status == BT_OK) status = bt_tensors_open(path, &file);
    if (status == BT_OK) status = read_values(&m, file);
    if (status == BT_OK) status = bt_set_all(m.variables, m.values, m.count);
    bt_tensors_close(file);
    model_free(&m);
    return status;
}

bt_status bti_variables_load(const bt_tensors *file, const char *what, bt_shared *const *variables,
                             const char *const *names, int count, const char *beside) {
    model m = {.what = what, .beside = beside};
    bt_status status = make_lists(&m, count);
    m.parameter_count = count;
    for (int i = 0; i < count && status == BT_OK; i++) {
        m.variables[i] = variables[i];
        m.names[i] = names[i];
        m.values[i] = bt_value(variables[i]);
    }
    if (status == BT_OK) status = read_values(&m, file);
    if (status == BT_OK) status = bt_set_all(m.variables, m.values, m.count);
    model_free(&m);
    return status;
}

/* --- optimisers ------------------------------------------------------------------------------------------------------- */

static const char rule_key[] = "optimizer", rate_key[] = "rate";

static bt_status states_open(model *m, const bt_optimizer *optimizer) {
    *m = (model){.what = "optimiser"};
    BTI_TRY(bt_optimizer_status(optimizer));
    BTI_TRY(make_lists(m, bt_optimizer_states(optimizer, NULL, 0)));
    int listed = bt_optimizer_states(optimizer, m->variables, m->count); /* other threads may make more */
    if (listed < m->count) m->count = listed;
    m->parameter_count = m->count;
    for (int i = 0; i < m->count; i++) {
        m->names[i] = bt_shared_name(m->variables[i]);
        m->values[i] = bt_value(m->variables[i]);
        BTI_TRY(bti_fail_with(bti_array_error(m->values[i])));
    }
    return BT_OK;
}

bt_status bt_save_optimizer(const char *path, const bt_optimizer *optimizer) {
    BTI_PUBLIC("bt_save_optimizer");
    model m;
    bt_status status = states_open(&m, optimizer);
    if (status == BT_OK) {
        char rate[32];
        snprintf(rate, sizeof rate, "%.17g", bt_optimizer_rate(optimizer));
        const char *metadata[] = {rule_key, bt_optimizer_name(optimizer), rate_key, rate, NULL};
        status = bt_save(path, m.names, m.values, m.count, metadata);
    }
    model_free(&m);
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

static bt_status load_states(const char *path, bt_optimizer *optimizer, model *m) {
    bt_tensors *file = NULL;
    double rate = NAN;
    bt_status status = bt_tensors_open(path, &file);
    if (status == BT_OK) status = check_rule(file, optimizer, &rate);
    if (status == BT_OK) status = read_values(m, file);
    if (isnan(rate)) rate = bt_optimizer_rate(optimizer);
    if (status == BT_OK) status = bti_optimizer_restore(optimizer, m->variables, m->values, m->count, rate);
    bt_tensors_close(file);
    return status;
}

bt_status bt_load_optimizer(const char *path, bt_optimizer *optimizer, bt_shared *const *parameters, int count) {
    BTI_PUBLIC("bt_load_optimizer");
    BTI_TRY(bt_optimizer_prepare(optimizer, parameters, count));
    model m;
    bt_status status = states_open(&m, optimizer);
    if (status == BT_OK) status = load_states(path, optimizer, &m);
    model_free(&m);
    return status;
}
