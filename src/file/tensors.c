/* Archives of named arrays: the format is known by the content. */
#include "file/tensors.h"

#include <string.h>

#include "base/alloc.h"
#include "base/quote.h"

static void clear_tensors(void *object) {
    bt_tensors *t = object;
    if (t->format && t->content) t->format->clear(t->content);
    t->content = NULL;
    bti_names_free(&t->names);
    bti_zip_close(&t->zip);
    bti_file_close(&t->file);
}

static const bti_handle_class tensors_class = {BTI_OWNED_TENSORS, sizeof(bt_tensors), clear_tensors, NULL};

/* --- opening -------------------------------------------------------------------------------------------------------- */

/* A safetensors file begins with a length that has zeros in its upper bytes; a text has none. */
static bool begins_as_json(const unsigned char start[8]) {
    int at = 0;
    while (at < 7 && (start[at] == ' ' || start[at] == '\n' || start[at] == '\r' || start[at] == '\t')) at++;
    return start[at] == '{' && !memchr(start, 0, 8);
}

static bool begins_as_pickle(const unsigned char start[8]) {
    return start[0] == 0x80 && start[1] >= 2 && start[1] <= 5 && start[2] && start[3];
}

static bt_status open_zip(bt_tensors *t) {
    BTI_TRY(bti_zip_open(&t->zip, &t->file));
    for (int i = 0; i < t->zip.names.count; i++) {
        const char *slash = strchr(t->zip.names.names[i], '/');
        if (slash && !strcmp(slash, "/data.pkl")) return bti_open_pt(t, i);
    }
    return bti_open_npz(t);
}

static bt_status open_by_content(bt_tensors *t) {
    unsigned char start[8];
    BTI_TRY(bti_file_read_start(&t->file, start, sizeof start));
    if (!memcmp(start, "PK\3\4", 4) || !memcmp(start, "PK\5\6", 4)) return open_zip(t);
    if (begins_as_json(start)) return bti_open_shards(t);
    if (begins_as_pickle(start))
        return bti_file_damaged(&t->file, 0,
                                "this is a Python pickle, as PyTorch wrote .pt files before version 1.6; in Python, "
                                "torch.save(torch.load(old), new) writes one that can be read");
    if (!memcmp(start, "\x93NUMPY", 6))
        return bti_file_damaged(&t->file, 0, "this is a .npy file, which holds one array; bt_load_npy reads it");
    return bti_open_safetensors(t);
}

static bt_status open_archive(const char *path, bt_status (*open_file)(bt_tensors *), bt_tensors **tensors) {
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

bt_status bt_tensors_open(const char *path, bt_tensors **tensors) {
    BTI_PUBLIC("bt_tensors_open");
    if (!tensors) return bti_fail(BT_INVALID_ARGUMENT, "where to put the tensors is NULL");
    return open_archive(path, open_by_content, tensors);
}

bt_status bti_tensors_open_shard(const char *path, bt_tensors **tensors) {
    return open_archive(path, bti_open_safetensors, tensors);
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
