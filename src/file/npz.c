/* .npz: a zip archive of .npy files, as NumPy's savez and savez_compressed write it. */
#include <stdatomic.h>
#include <string.h>

#include "base/alloc.h"
#include "base/quote.h"
#include "base/str.h"
#include "file/npy.h"
#include "file/safetensors.h"
#include "file/tensors.h"

#define SUFFIX ".npy"
enum { SUFFIX_LENGTH = sizeof SUFFIX - 1 };

/* --- reading -------------------------------------------------------------------------------------------------------- */

typedef struct content {
    char *texts;           /* of the names */
    char *_Atomic *dtypes; /* by member: a dtype that berth has not, set by the first that describes it */
    int count;
} content; /* members and names have the same indices */

static bt_status keep_dtype(const content *c, int index, const char *name, const char **kept) {
    char *known = atomic_load(&c->dtypes[index]);
    if (!known) {
        char *mine = bti_strdup(name);
        if (!mine) return bti_no_memory();
        if (atomic_compare_exchange_strong(&c->dtypes[index], &known, mine))
            known = mine;
        else
            bti_free(mine); /* another thread was first */
    }
    *kept = known;
    return BT_OK;
}

static bt_status describe_member(const bt_tensors *t, int index, bti_tensor *tensor) {
    bti_file member;
    bti_npy npy;
    BTI_TRY(bti_zip_extract(&t->zip, index, &member));
    bt_status status = bti_npy_read_any_header(&npy, &member);
    bti_file_close(&member);
    if (status != BT_OK) return status;
    *tensor = (bti_tensor){NULL, npy.dtype, npy.shape.rank, npy.shape};
    if (npy.dtype == BT_DTYPE_COUNT) return keep_dtype(t->content, index, npy.descr.text, &tensor->dtype_name);
    tensor->dtype_name = bti_tensor_dtype_of(npy.dtype)->name;
    return BT_OK;
}

static bt_array *read_member(const bt_tensors *t, int index) {
    bti_file member;
    bti_npy npy;
    if (bti_zip_extract(&t->zip, index, &member) != BT_OK) return bti_file_poison();
    bt_array *array = bti_npy_read_header(&npy, &member) == BT_OK ? bti_npy_read(&npy) : bti_file_poison();
    bti_file_close(&member);
    return array;
}

static void clear_members(void *object) {
    content *c = object;
    for (int i = 0; c->dtypes && i < c->count; i++) bti_free(atomic_load(&c->dtypes[i]));
    bti_free(c->dtypes);
    bti_free(c->texts);
    bti_free(c);
}

/* *bytes: of the names without the suffix, each with its 0. */
static bt_status check_members(const bt_tensors *t, size_t *bytes) {
    const bti_names *members = &t->zip.names;
    *bytes = 1;
    for (int i = 0; i < members->count; i++) {
        size_t length = strlen(members->names[i]);
        if (length < SUFFIX_LENGTH || strcmp(members->names[i] + length - SUFFIX_LENGTH, SUFFIX))
            return bti_file_damaged(&t->file, t->zip.members[i].header,
                                    "a zip archive with a member \"%s\", so neither a .npz, which has only .npy files, "
                                    "nor a .pt of PyTorch, which has a data.pkl in a folder",
                                    bti_quote(members->names[i]).text);
        *bytes += length + 1;
    }
    return BT_OK;
}

bt_status bti_open_npz(bt_tensors *t) {
    static const bti_archive_format npz = {"NumPy .npz",    describe_member,      read_member,
                                           bti_no_metadata, bti_no_metadata_name, clear_members};
    const bti_names *members = &t->zip.names;
    size_t bytes;
    BTI_TRY(check_members(t, &bytes));
    content *c = t->content = bti_calloc(1, sizeof *c);
    if (!c) return bti_no_memory();
    t->format = &npz;
    c->count = members->count;
    c->texts = bti_alloc(bytes);
    c->dtypes = bti_calloc((size_t)members->count + 1, sizeof *c->dtypes);
    if (!c->texts || !c->dtypes || !bti_names_make(&t->names, members->count)) return bti_no_memory();
    char *text = c->texts;
    for (int i = 0; i < members->count; i++) {
        size_t length = strlen(members->names[i]) - SUFFIX_LENGTH;
        memcpy(text, members->names[i], length);
        text[length] = '\0';
        t->names.names[i] = text;
        text += length + 1;
    }
    (void)bti_names_sort(&t->names); /* members have different names */
    return BT_OK;
}

/* --- writing -------------------------------------------------------------------------------------------------------- */

static bt_status check_arrays(const char *const *names, bt_array *const *arrays, int count) {
    if (count < 0 || (count && (!names || !arrays)))
        return bti_fail(BT_INVALID_ARGUMENT, "%d arrays, names %s, arrays %s", count, names ? "given" : "NULL",
                        arrays ? "given" : "NULL");
    bti_names all = {0};
    bt_status status = BT_OK;
    for (int i = 0; i < count && status == BT_OK; i++) {
        if (!names[i]) return bti_fail(BT_INVALID_ARGUMENT, "name %d of %d is NULL", i + 1, count);
        if (!arrays[i]) return bti_fail(BT_INVALID_ARGUMENT, "the array of \"%s\" is NULL", bti_quote(names[i]).text);
        if (strlen(names[i]) > UINT16_MAX - SUFFIX_LENGTH)
            return bti_fail(BT_INVALID_ARGUMENT, "the name \"%s\" has more than 65531 bytes", bti_quote(names[i]).text);
    }
    if (!bti_names_make(&all, count)) status = bti_no_memory();
    for (int i = 0; i < count && status == BT_OK; i++) all.names[i] = names[i];
    const char *twice = status == BT_OK ? bti_names_sort(&all) : NULL;
    if (twice) status = bti_fail(BT_INVALID_ARGUMENT, "the name \"%s\" is given twice", bti_quote(twice).text);
    bti_names_free(&all);
    return status;
}

static bt_status write_elements(bti_zip_writer *zip, bt_array *array) {
    size_t bytes = (size_t)bt_count(array) * bt_dtype_size(bt_dtype_of(array));
    void *data = bti_alloc(bytes);
    if (!data) return bti_fail(BT_RESOURCE_EXHAUSTED, "out of host memory: %zu bytes to write an array", bytes);
    bt_status status = bt_read(array, data, bytes);
    if (status == BT_OK) status = bti_zip_writer_add(zip, data, bytes);
    bti_free(data);
    return status;
}

static bt_status write_member(bti_zip_writer *zip, const char *name, bt_array *array, bool compressed) {
    bti_str file = {0}, header = {0};
    bti_str_add(&file, name);
    bti_str_add(&file, SUFFIX);
    bt_status status = file.failed ? bti_no_memory() : bti_zip_writer_begin(zip, file.text, compressed);
    if (status == BT_OK) status = bti_npy_header(bt_dtype_of(array), bt_shape_of(array), &header);
    if (status == BT_OK) status = bti_zip_writer_add(zip, header.text, header.length);
    if (status == BT_OK) status = write_elements(zip, array);
    if (status == BT_OK) status = bti_zip_writer_end(zip);
    bti_str_free(&file);
    bti_str_free(&header);
    return status;
}

bt_status bt_save_npz(const char *path, const char *const *names, bt_array *const *arrays, int count, bool compressed) {
    BTI_PUBLIC("bt_save_npz");
    BTI_TRY(check_arrays(names, arrays, count));
    BTI_TRY(bt_eval_all(arrays, count));
    for (int i = 0; i < count; i++) BTI_TRY(bt_block(arrays[i]));
    bti_writer writer;
    bt_status status = bti_writer_open(&writer, path);
    bti_zip_writer *zip = status == BT_OK ? bti_zip_writer_new(&writer) : NULL;
    if (status == BT_OK && !zip) status = bti_no_memory();
    for (int i = 0; i < count && status == BT_OK; i++) status = write_member(zip, names[i], arrays[i], compressed);
    if (zip) status = bti_zip_writer_finish(zip, status);
    if (status == BT_OK) status = bti_writer_commit(&writer);
    bti_writer_discard(&writer);
    return status;
}
