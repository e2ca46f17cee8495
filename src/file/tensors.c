/* The handle of an open archive, whatever its format. */
#include "file/tensors.h"

#include "base/alloc.h"
#include "base/quote.h"
#include "base/sized.h"

static void clear_tensors(void *object) {
    bt_tensors *t = object;
    if (t->format && t->content) t->format->clear(t->content);
    t->content = NULL;
    bti_names_free(&t->names);
    bti_zip_close(&t->zip);
    bti_file_close(&t->file);
}

static const bti_handle_class tensors_class = {BTI_OWNED_TENSORS, sizeof(bt_tensors), clear_tensors, NULL};

bt_status bti_tensors_open_as(const char *path, bt_status (*open_file)(bt_tensors *), bt_tensors **tensors) {
    *tensors = NULL;
    bt_tensors *t = bti_owned_new(BTI_OWNED_TENSORS, sizeof *t);
    if (!t) return bti_no_memory();
    bt_status status = bti_file_open(path, &t->file);
    if (status == BT_OK) status = open_file(t);
    if (status != BT_OK) {
        bt_tensors_close(t);
        return status;
    }
    *tensors = t;
    return BT_OK;
}

void bt_tensors_close(bt_tensors *t) { bti_handle_release(&tensors_class, t, "bt_tensors_close"); }

/* --- asking --------------------------------------------------------------------------------------------------------- */

/* NULL gives no cause. */
static bool tensors_are_open(const bt_tensors *t, const char *name) {
    return t && bti_handle_check(BTI_OWNED_TENSORS, t, name) == BT_OK;
}

int bt_tensors_count(const bt_tensors *t) { return tensors_are_open(t, "bt_tensors_count") ? t->names.count : 0; }

const char *bt_tensors_name(const bt_tensors *t, int index) {
    return tensors_are_open(t, "bt_tensors_name") && index >= 0 && index < t->names.count ? t->names.names[index]
                                                                                          : NULL;
}

const char *bt_tensors_metadata(const bt_tensors *t, const char *key) {
    return key && tensors_are_open(t, "bt_tensors_metadata") ? t->format->metadata(t, key) : NULL;
}

const char *bt_tensors_metadata_name(const bt_tensors *t, int index) {
    return index >= 0 && tensors_are_open(t, "bt_tensors_metadata_name") ? t->format->metadata_name(t, index) : NULL;
}

const char *bt_tensors_format(const bt_tensors *t) {
    return tensors_are_open(t, "bt_tensors_format") ? t->format->name : NULL;
}

const char *bti_no_metadata(const bt_tensors *t, const char *key) { return (void)t, (void)key, NULL; }
const char *bti_no_metadata_name(const bt_tensors *t, int index) { return (void)t, (void)index, NULL; }

#define MEMBER(name) BTI_MEMBER(bt_tensor_info, name)
static const bti_member info_members[] = {MEMBER(size),  MEMBER(name), MEMBER(dtype_name),
                                          MEMBER(dtype), MEMBER(rank), MEMBER(shape)};
#undef MEMBER
static const bti_sized_type info_layout =
    BTI_SIZED_TYPE(bt_tensor_info, "contents of info", "bt_tensor_info info = BT_TENSOR_INFO_INIT", info_members, NULL);

bt_status bt_tensors_describe(const bt_tensors *t, int index, bt_tensor_info *info) {
    BTI_PUBLIC("bt_tensors_describe");
    BTI_TRY(bti_handle_check(BTI_OWNED_TENSORS, t, "bt_tensors_describe"));
    BTI_TRY(bti_sized_check(&info_layout, "bt_tensors_describe", info));
    if (index < 0 || index >= t->names.count)
        return bti_fail(BT_OUT_OF_RANGE, "%s holds %d tensors; there is no number %d", t->file.path, t->names.count,
                        index);
    bti_tensor tensor;
    BTI_TRY(t->format->describe(t, index, &tensor));
    bt_tensor_info known = {.size = sizeof known,
                            .name = t->names.names[index],
                            .dtype_name = tensor.dtype_name,
                            .dtype = tensor.dtype,
                            .rank = tensor.rank,
                            .shape = tensor.shape};
    bti_info_give(&info_layout, &known, info);
    return BT_OK;
}

bt_array *bt_tensors_get(bt_tensors *t, const char *name) {
    BTI_PUBLIC("bt_tensors_get");
    bti_error *error = bti_handle_error(BTI_OWNED_TENSORS, t, "bt_tensors_get");
    if (error) BTI_RETURN(bti_poison(bti_error_retain(error)));
    if (!name) BTI_RETURN(bti_poisonf(BT_INVALID_ARGUMENT, "the name is NULL"));
    int index = bti_names_find(&t->names, name);
    if (index < 0)
        BTI_RETURN(bti_poisonf(BT_NOT_FOUND, "%s holds no tensor \"%s\"; it holds %d others", t->file.path,
                               bti_quote(name).text, t->names.count));
    BTI_RETURN(t->format->read(t, index));
}
