#include "file/fill.h"

#include "array/handle.h"
#include "base/alloc.h"
#include "base/quote.h"
#include "base/vec.h"
#include "file/safetensors.h"
#include "ir/dtype.h"
#include "nn/layer.h"

/* --- differences ---------------------------------------------------------------------------------------------------- */

enum { SHOWN = 20 }; /* how many differences of a kind are named; more are counted */

static void add_difference(bti_str *text, int *count, const char *head, const char *name) {
    if ((*count)++ < SHOWN) bti_str_addf(text, "%s\"%s\"", *count == 1 ? head : ", ", bti_quote(name).text);
}

static const char *what_of(const bti_differences *d) { return d->what ? d->what : "model"; }

void bti_add_missing(bti_differences *d, const char *name) {
    add_difference(&d->missing, &d->missing_count, "; missing in the file: ", name);
}

void bti_add_extra(bti_differences *d, const char *name) {
    char lead[80];
    snprintf(lead, sizeof lead, "; not in the %s: ", what_of(d));
    add_difference(&d->extra, &d->extra_count, lead, name);
}

static void add_shape(bti_str *text, const char *dtype, int rank, bt_shape shape, bool turned) {
    bti_str_addf(text, "%s[", dtype);
    for (int i = 0; i < rank && i < BT_MAX_RANK; i++)
        bti_str_addf(text, "%s%lld", i ? ", " : "", (long long)shape.size[turned ? rank - 1 - i : i]);
    bti_str_add(text, rank > BT_MAX_RANK ? ", ...]" : "]");
}

bool bti_tensor_fits(const bti_tensor *tensor, bool turned, bool cast, bt_array *value) {
    bt_shape shape = bt_shape_of(value);
    bt_dtype dtype = bt_dtype_of(value);
    bool of_kind =
        cast && tensor->dtype < BT_DTYPE_COUNT && bti_dtype_is_float(tensor->dtype) && bti_dtype_is_float(dtype);
    bool fits = (of_kind || tensor->dtype == dtype) && tensor->rank == shape.rank;
    for (int d = 0; d < shape.rank && fits; d++)
        fits = shape.size[d] == tensor->shape.size[turned ? shape.rank - 1 - d : d];
    return fits;
}

void bti_add_different(bti_differences *d, const char *name, const bti_tensor *tensor, bool turned, bt_array *value) {
    add_difference(&d->different, &d->different_count, "; different: ", name);
    if (d->different_count > SHOWN) return;
    const bti_tensor_dtype *known = bti_tensor_dtype_of(bt_dtype_of(value));
    bti_str_add(&d->different, " is ");
    add_shape(&d->different, tensor->dtype_name, tensor->rank, tensor->shape, turned && tensor->rank <= BT_MAX_RANK);
    bti_str_addf(&d->different, "%s in the file and ", turned ? " (transposed)" : "");
    add_shape(&d->different, known ? known->name : "?", bt_rank(value), bt_shape_of(value), false);
    bti_str_addf(&d->different, " in the %s", what_of(d));
}

static void add_part(bti_str *all, bti_str *part, int count) {
    bti_str_add(all, bti_str_text(part));
    if (count > SHOWN) bti_str_addf(all, " and %d more", count - SHOWN);
    bti_str_free(part);
}

bt_status bti_differences_end(bti_differences *d, const char *path, bt_status before) {
    bti_str all = {0};
    add_part(&all, &d->missing, d->missing_count);
    add_part(&all, &d->extra, d->extra_count);
    add_part(&all, &d->different, d->different_count);
    bt_status status = before;
    if (before == BT_OK && d->missing_count + d->extra_count + d->different_count)
        status = bti_fail(BT_INVALID_ARGUMENT, "%s does not fit the %s (nothing was changed)%s%s%s", path, what_of(d),
                          bti_str_text(&all), d->mend ? "; " : "", d->mend ? d->mend : "");
    bti_str_free(&all);
    return status;
}

/* --- a new model ------------------------------------------------------------------------------------------------------ */

bt_status bti_most_elements(const bt_tensors *file, int64_t *most) {
    *most = 1;
    for (int i = 0; i < file->names.count; i++) {
        bti_tensor tensor;
        int64_t count = 1;
        BTI_TRY(file->format->describe(file, i, &tensor));
        for (int d = 0; d < tensor.rank && d < BT_MAX_RANK; d++)
            if (__builtin_mul_overflow(count, tensor.shape.size[d], &count)) count = 0;
        if (count > *most) *most = count;
    }
    return BT_OK;
}

typedef struct filling {
    const bt_tensors *file;
    const char *(*name)(void *data, const char *path);
    void *data;
    bti_str path;
    BTI_VEC(const bt_layer *) seen;
    bool *used;            /* by tensor */
    bt_shared **variables; /* by tensor: what was made of it */
    bti_differences differences;
    bool compares; /* the first walk compares, the second one sets */
} filling;

static bool was_seen(filling *f, const bt_layer *layer) {
    for (size_t i = 0; i < f->seen.count; i++)
        if (f->seen.items[i] == layer) return true;
    return false;
}

static bt_status compare_variable(filling *f, const char *name, int index, bt_array *value, bool may_lack) {
    if (index < 0) {
        if (!may_lack) bti_add_missing(&f->differences, name);
        return BT_OK;
    }
    bti_tensor tensor;
    BTI_TRY(bti_fail_with(bti_array_error(value)));
    BTI_TRY(f->file->format->describe(f->file, index, &tensor));
    f->used[index] = true;
    if (!bti_tensor_fits(&tensor, false, true, value)) /* weights may have been cast */
        bti_add_different(&f->differences, name, &tensor, false, value);
    return BT_OK;
}

/* The variable of a tensor, made at its first use. */
static bt_status variable_of(filling *f, int index, bt_shared **variable) {
    if (!f->variables[index]) {
        bt_array *value = f->file->format->read(f->file, index);
        f->variables[index] = bt_shared_new(value, NULL);
        BTI_TRY(bt_shared_status(f->variables[index]));
    }
    *variable = f->variables[index];
    return BT_OK;
}

static bt_status visit_variable(filling *f, bt_layer *layer, bti_variables kind, int i) {
    size_t length = f->path.length;
    bti_str_add(&f->path, layer->variables[kind][i].name);
    if (f->path.failed) return bti_no_memory();
    const char *name = f->name(f->data, f->path.text);
    int index = bti_names_find(&f->file->names, name);
    bt_status status = BT_OK;
    bt_shared *variable;
    if (f->compares) {
        bt_array *value = bt_value(layer->variables[kind][i].shared);
        bool may_lack = kind == BTI_STATES && !bti_dtype_is_float(bt_dtype_of(value));
        status = compare_variable(f, name, index, value, may_lack);
    } else if (index >= 0 && (status = variable_of(f, index, &variable)) == BT_OK)
        bti_layer_set_variable(layer, kind, i, variable);
    f->path.length = length;
    return status;
}

static bt_status visit_layer(filling *f, bt_layer *layer) {
    if (was_seen(f, layer)) return BT_OK;
    if (!bti_vec_push(&f->seen, layer)) return bti_no_memory();
    size_t length = f->path.length;
    for (int kind = 0; kind < BTI_VARIABLES; kind++)
        for (int i = 0; i < layer->variable_count[kind]; i++) BTI_TRY(visit_variable(f, layer, kind, i));
    for (int i = 0; i < layer->child_count; i++) {
        bti_str_addf(&f->path, "%s.", layer->child_names[i]);
        BTI_TRY(visit_layer(f, layer->children[i]));
        f->path.length = length;
    }
    return BT_OK;
}

static bt_status compare_model(filling *f, bt_layer *model) {
    f->compares = true;
    bt_status status = visit_layer(f, model);
    for (int i = 0; i < f->file->names.count && status == BT_OK; i++)
        if (!f->used[i]) bti_add_extra(&f->differences, f->file->names.names[i]);
    return bti_differences_end(&f->differences, f->file->file.path, status);
}

bt_status bti_fill_model(bt_layer *model, const bt_tensors *file, const char *(*name)(void *data, const char *path),
                         void *data) {
    filling f = {.file = file, .name = name, .data = data};
    size_t count = (size_t)file->names.count + 1;
    f.used = bti_calloc(count, sizeof *f.used);
    f.variables = bti_calloc(count, sizeof *f.variables);
    bt_status status = f.used && f.variables ? BT_OK : bti_no_memory();
    if (status == BT_OK) status = compare_model(&f, model);
    f.compares = false;
    f.seen.count = 0;
    f.path.length = 0;
    if (status == BT_OK) status = visit_layer(&f, model);
    if (status == BT_OK) status = bti_layer_name_variables(model);
    bti_free(f.used);
    bti_free(f.variables);
    bti_vec_free(&f.seen);
    bti_str_free(&f.path);
    return status;
}
