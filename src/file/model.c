/* A model's parameters and states in files, each under its name. */
#include <stdlib.h>
#include <string.h>

#include "array/handle.h"
#include "base/alloc.h"
#include "base/quote.h"
#include "base/sized.h"
#include "base/str.h"
#include "file/fill.h"
#include "file/flux.h"
#include "file/rename.h"
#include "file/structure.h"
#include "file/tensors.h"
#include "ir/dtype.h"
#include "nn/layer.h"

typedef struct model {
    bt_shared **variables; /* the parameters, then the states */
    const char **names;
    bt_array **values; /* their present values */
    int count, parameter_count;
    bti_names by_name;
    int *tensors; /* of the file, by variable; -1: none */
    bool *turned; /* by variable: the tensor has its axes in the opposite order */
} model;

static void model_free(model *m) {
    bti_free(m->variables);
    bti_free(m->names);
    bti_free(m->values);
    bti_free(m->tensors);
    bti_free(m->turned);
    bti_names_free(&m->by_name);
}

static bt_status model_open(model *m, const bt_layer *layer) {
    *m = (model){0};
    BTI_TRY(bt_layer_status(layer));
    m->parameter_count = bt_parameters(layer, NULL, 0);
    m->count = m->parameter_count + bt_states(layer, NULL, 0);
    size_t room = (size_t)m->count + 1;
    m->variables = bti_calloc(room, sizeof *m->variables);
    m->names = bti_calloc(room, sizeof *m->names);
    m->values = bti_calloc(room, sizeof *m->values);
    if (!m->variables || !m->names || !m->values) return bti_no_memory();
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

/* --- options -------------------------------------------------------------------------------------------------------- */

#define MEMBER(name) BTI_MEMBER(bt_load_options, name)
static const bti_member load_members[] = {MEMBER(size),      MEMBER(by_name), MEMBER(rename),
                                          MEMBER(transpose), MEMBER(torch),   MEMBER(cast)};
#undef MEMBER
static const bti_sized_type load_layout =
    BTI_SIZED_TYPE(bt_load_options, "options", "BT_LOAD(.torch = true)", load_members, NULL);

#define MEMBER(name) BTI_MEMBER(bt_save_options, name)
static const bti_member save_members[] = {MEMBER(size), MEMBER(by_name), MEMBER(rename), MEMBER(transpose),
                                          MEMBER(torch)};
#undef MEMBER
static const bti_sized_type save_layout =
    BTI_SIZED_TYPE(bt_save_options, "options", "BT_SAVE(.torch = true)", save_members, NULL);

#define MEMBER(name) BTI_MEMBER(bt_model_options, name)
static const bti_member open_members[] = {MEMBER(size), MEMBER(by_name), MEMBER(key)};
#undef MEMBER
static const bti_sized_type open_layout =
    BTI_SIZED_TYPE(bt_model_options, "options", "BT_MODEL(.key = \"model\")", open_members, NULL);

/* --- the order of axes ---------------------------------------------------------------------------------------------- */

/* Weights of Dense layers. A layer that is used several times is visited as often. */
static void turn_dense(model *m, const bt_layer *layer) {
    for (int i = 0; i < layer->child_count; i++) turn_dense(m, layer->children[i]);
    if (strcmp(layer->name, "Dense") || !layer->option_count || !layer->variable_count[BTI_PARAMETERS]) return;
    for (int i = 0; i < m->parameter_count; i++)
        if (m->variables[i] == layer->variables[BTI_PARAMETERS][0].shared) m->turned[i] = true;
}

static bt_status turn_tensors(model *m, const bt_layer *layer, const char *transpose, bool torch) {
    bti_name_rules names;
    bt_status status = bti_name_rules_parse(&names, transpose, false, "transpose");
    if (status == BT_OK) status = bti_name_rules_check(&names, m->names, m->count, "transpose", "model", NULL);
    if (torch) turn_dense(m, layer);
    for (int i = 0; i < m->count && status == BT_OK; i++)
        if (bti_name_rules_match(&names, m->names[i])) m->turned[i] = true;
    bti_vec_free(&names);
    return status;
}

static bt_array *turned(bt_array *value) {
    bt_axes axes = BT_AXES(0);
    axes.count = bt_rank(value);
    for (int i = 0; i < axes.count; i++) axes.axis[i] = axes.count - 1 - i;
    return axes.count > 1 ? bt_permute_axes(value, axes) : value;
}

/* --- saving --------------------------------------------------------------------------------------------------------- */

static bt_status save_whole(const char *path, const bt_layer *layer, const model *m) {
    char *structure = NULL;
    bt_status status = bti_structure_write(layer, &structure);
    const char *const metadata[] = {BTI_STRUCTURE, structure, NULL};
    if (status == BT_OK) status = bt_save(path, m->names, m->values, m->count, metadata);
    free(structure);
    return status;
}

/* names[], values[]: what the file has, *count of them; names are freed by the caller. */
static bt_status rename_for_others(const model *m, const bti_name_rules *rename, char **names, bt_array **values,
                                   int *count) {
    for (int i = 0; i < m->count; i++) {
        bti_str name = {0};
        if (!bti_name_rules_rename(rename, m->names[i], &name)) {
            bti_str_free(&name);
            continue;
        }
        names[*count] = bti_str_take(&name);
        if (!names[*count]) return bti_no_memory();
        values[(*count)++] = m->turned[i] ? turned(m->values[i]) : m->values[i];
    }
    return BT_OK;
}

static bt_status save_for_others(const char *path, const bt_layer *layer, model *m, const bt_save_options *o) {
    static const char *const metadata[] = {"format", "pt", NULL};
    char **names = bti_calloc((size_t)m->count + 1, sizeof *names);
    bt_array **values = bti_calloc((size_t)m->count + 1, sizeof *values);
    bti_name_rules rename = {0};
    int count = 0;
    m->turned = bti_calloc((size_t)m->count + 1, sizeof *m->turned);
    bt_status status = names && values && m->turned ? BT_OK : bti_no_memory();
    if (status == BT_OK) status = bti_name_rules_parse(&rename, o->rename, true, "rename");
    if (status == BT_OK) status = bti_name_rules_check(&rename, m->names, m->count, "rename", "model", NULL);
    if (status == BT_OK) status = turn_tensors(m, layer, o->transpose, o->torch);
    if (status == BT_OK) status = rename_for_others(m, &rename, names, values, &count);
    if (status == BT_OK) status = bt_save(path, (const char *const *)names, values, count, metadata);
    for (int i = 0; i < count; i++) bti_free(names[i]);
    bti_vec_free(&rename);
    bti_free(names);
    bti_free(values);
    return status;
}

bt_status bt_save_model(const char *path, const bt_layer *layer, const bt_save_options *options) {
    BTI_PUBLIC("bt_save_model");
    model m;
    bt_save_options o = {.size = sizeof o};
    if (options) BTI_TRY(bti_options_take(&save_layout, "bt_save_model", options, &o));
    bt_status status = model_open(&m, layer);
    if (status == BT_OK)
        status =
            o.rename || o.transpose || o.torch ? save_for_others(path, layer, &m, &o) : save_whole(path, layer, &m);
    model_free(&m);
    return status;
}

/* --- which tensor is of which variable ------------------------------------------------------------------------------ */

static bt_status prepare_match(model *m) {
    m->tensors = bti_alloc(((size_t)m->count + 1) * sizeof *m->tensors);
    m->turned = bti_calloc((size_t)m->count + 1, sizeof *m->turned);
    if (!m->tensors || !m->turned || !bti_names_make(&m->by_name, m->count)) return bti_no_memory();
    for (int i = 0; i < m->count; i++) {
        m->tensors[i] = -1;
        m->by_name.names[i] = m->names[i];
    }
    const char *twice = bti_names_sort(&m->by_name);
    return twice ? bti_fail(BT_FAILED_PRECONDITION, "two parameters of the model have the name \"%s\"",
                            bti_quote(twice).text)
                 : BT_OK;
}

static bt_status match_tensors(model *m, const bt_tensors *file, const bti_name_rules *rename, bti_differences *d) {
    bti_str name = {0};
    bt_status status = BT_OK;
    for (int i = 0; i < file->names.count && status == BT_OK; i++) {
        bool kept = bti_name_rules_rename(rename, file->names.names[i], &name);
        if (name.failed) status = bti_no_memory();
        if (status != BT_OK || !kept) continue;
        int variable = bti_names_find(&m->by_name, bti_str_text(&name));
        if (variable < 0)
            bti_add_extra(d, bti_str_text(&name));
        else if (m->tensors[variable] >= 0)
            status = bti_fail(BT_INVALID_ARGUMENT, "`rename` gives \"%s\" and \"%s\" of %s the same name, \"%s\"",
                              bti_quote(file->names.names[m->tensors[variable]]).text,
                              bti_quote(file->names.names[i]).text, file->file.path, bti_quote(name.text).text);
        else
            m->tensors[variable] = i;
    }
    bti_str_free(&name);
    return status;
}

/* A file may lack a state of integers, such as a count or a key: it keeps its value. */
static bool may_be_missing(const model *m, int i) {
    return i >= m->parameter_count && !bti_dtype_is_float(bt_dtype_of(m->values[i]));
}

static bt_status compare_with_file(model *m, const bt_layer *layer, const bt_tensors *file, const bt_load_options *o) {
    bti_differences d = {0};
    bti_name_rules rename;
    bti_str idle = {0};
    bt_status status = bti_name_rules_parse(&rename, o->rename, true, "rename");
    if (status == BT_OK)
        status = bti_name_rules_check(&rename, file->names.names, file->names.count, "rename", "file", &idle);
    if (idle.length) d.mend = bti_str_text(&idle);
    if (status == BT_OK) status = prepare_match(m);
    if (status == BT_OK) status = match_tensors(m, file, &rename, &d);
    if (status == BT_OK) status = turn_tensors(m, layer, o->transpose, o->torch);
    for (int i = 0; i < m->count && status == BT_OK; i++) {
        bti_tensor tensor;
        if (m->tensors[i] < 0 && !may_be_missing(m, i)) bti_add_missing(&d, m->names[i]);
        if (m->tensors[i] < 0) continue;
        status = file->format->describe(file, m->tensors[i], &tensor);
        if (status == BT_OK && !bti_tensor_fits(&tensor, m->turned[i], o->cast, m->values[i]))
            bti_add_different(&d, m->names[i], &tensor, m->turned[i], m->values[i]);
    }
    bti_vec_free(&rename);
    status = bti_differences_end(&d, file->file.path, status);
    bti_str_free(&idle);
    return status;
}

/* --- loading -------------------------------------------------------------------------------------------------------- */

static bt_status load_values(model *m, const bt_tensors *file) {
    for (int i = 0; i < m->count; i++) {
        if (m->tensors[i] < 0) continue;
        BT_ON(bt_device_long_name(bt_device_of(m->values[i]))) {
            bt_array *value = file->format->read(file, m->tensors[i]);
            bt_dtype dtype = bt_dtype_of(m->values[i]); /* of the model: another one only with `cast` */
            m->values[i] = bt_cast(m->turned[i] ? turned(value) : value, dtype);
        }
        BTI_TRY(bt_block(m->values[i]));
    }
    return bt_set_all(m->variables, m->values, m->count);
}

static bt_status refuse_checkpoint(const bt_tensors *file, const bt_load_options *o) {
    if (o->rename || bti_names_find(&file->names, "fit.numbers") < 0) return BT_OK;
    return bti_fail(
        BT_INVALID_ARGUMENT,
        "%s is a checkpoint of bt_fit, whose names differ; .rename = \"model.*=*;*=\" loads the model from it",
        file->file.path);
}

bt_status bt_load_model(const char *path, bt_layer *layer, const bt_load_options *options) {
    BTI_PUBLIC("bt_load_model");
    model m;
    bt_tensors *file = NULL;
    bt_load_options o = {.size = sizeof o};
    if (options) BTI_TRY(bti_options_take(&load_layout, "bt_load_model", options, &o));
    bt_status status = model_open(&m, layer);
    if (status == BT_OK) status = bt_tensors_open(path, &file);
    if (status == BT_OK) status = refuse_checkpoint(file, &o);
    if (status == BT_OK) status = compare_with_file(&m, layer, file, &o);
    if (status == BT_OK) status = load_values(&m, file);
    bt_tensors_close(file);
    model_free(&m);
    return status;
}

/* --- opening --------------------------------------------------------------------------------------------------------- */

static bt_status make_model(const bt_tensors *file, const char *key, bt_layer **layer) {
    const struct bti_julia *julia = bti_bson_content(file);
    if (julia) return bti_flux_open(julia, key, layer);
    if (key) return bti_fail(BT_INVALID_ARGUMENT, "%s is %s; `key` is for BSON", file->file.path, file->format->name);
    const char *structure = file->format->metadata(file, BTI_STRUCTURE);
    if (structure) return bti_structure_open(file, structure, layer);
    return bti_fail(BT_FAILED_PRECONDITION,
                    "%s (%s) has no structure of a model, which bt_save_model writes; make the model, and "
                    "bt_load_model reads the file into it",
                    file->file.path, file->format->name);
}

bt_layer *bt_model_open(const char *path, const bt_model_options *options) {
    BTI_CALL("bt_model_open");
    bt_tensors *file = NULL;
    bt_layer *layer = NULL, *kept = NULL;
    bt_model_options o = {.size = sizeof o};
    if (options && bti_options_take(&open_layout, "bt_model_open", options, &o) != BT_OK) return bti_layer_own(NULL);
    BT_SCOPE {
        bt_status status = bt_tensors_open(path, &file);
        if (status == BT_OK) status = make_model(file, o.key, &layer);
        if (status == BT_OK) kept = bt_layer_retain(layer);
        bt_tensors_close(file);
    }
    return bti_layer_own(kept);
}
