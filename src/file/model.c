/* A model's parameters and states in files, each under its name. */
#include <string.h>

#include "array/handle.h"
#include "base/alloc.h"
#include "base/quote.h"
#include "base/str.h"
#include "file/safetensors.h"
#include "file/tensors.h"
#include "ir/dtype.h"

typedef struct model {
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
    for (int i = 0; i < file->names.count; i++)
        if (!is_variable(m, file->names.names[i]) && found++ < SHOWN)
            bti_str_addf(text, "%s\"%s\"", found == 1 ? "; not in the model: " : ", ",
                         bti_quote(file->names.names[i]).text);
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
        bti_str_add(text, " in the model");
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
        status = bti_fail(BT_INVALID_ARGUMENT, "%s does not fit the model (nothing was changed)%s", file->file.path,
                          bti_str_text(&text));
    bti_str_free(&text);
    return status;
}

/* --- loading -------------------------------------------------------------------------------------------------------- */

static bt_status load_model_parameters(model *m, const bt_tensors *file) {
    BTI_TRY(compare_with_file(m, file));
    for (int i = 0; i < m->count; i++) {
        int index = bti_names_find(&file->names, m->names[i]);
        if (index < 0) continue;
        BT_ON(bt_device_long_name(bt_device_of(m->values[i]))) m->values[i] = file->format->read(file, index);
        BTI_TRY(bt_block(m->values[i]));
    }
    return bt_set_all(m->variables, m->values, m->count);
}

bt_status bt_load_model(const char *path, bt_layer *layer) {
    BTI_PUBLIC("bt_load_model");
    model m;
    bt_tensors *file = NULL;
    bt_status status = model_open(&m, layer);
    if (status == BT_OK) status = bt_tensors_open(path, &file);
    if (status == BT_OK) status = load_model_parameters(&m, file);
    bt_tensors_close(file);
    model_free(&m);
    return status;
}
