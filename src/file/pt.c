/* .pt: a zip archive by torch.save: FOLDER/data.pkl says what there is, FOLDER/data/KEY are the storages. Only read: PyTorch
 * reads safetensors and .npz. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <berth/complex.h>

#include "base/alloc.h"
#include "base/quote.h"
#include "base/str.h"
#include "file/pickle.h"
#include "file/entries.h"
#include "file/safetensors.h"
#include "file/strides.h"
#include "file/tensors.h"

typedef struct content {
    bti_file pickled;
    bti_pickle pickle;
    char *folder; /* "archive/" */
    bti_entries entries;
} content;

/* --- names ----------------------------------------------------------------------------------------------------------- */

enum { MOST_DEPTH = 100, LONGEST_NAME = 4096, MOST_VISITS = 1000 /* of a small pickle */ };

typedef struct walk {
    content *c;
    bti_str path;
    uint64_t visits; /* bounded: dicts that stand in several places multiply */
} walk;

static bt_status is_damaged(const walk *w, const char *reason) {
    return bti_file_damaged(&w->c->pickled, 0, "%s", reason);
}

/* Takes `value` over. */
static bt_status add_entry(walk *w, int tensor, char *value) {
    BTI_TRY(bti_entries_add(&w->c->entries, &w->path, tensor, value));
    if (w->c->entries.text_bytes <= 16 * w->c->pickled.size + (1 << 20)) return BT_OK;
    return is_damaged(w, "its names and texts are much longer than itself");
}

/* The shortest decimal that is this number, with a point in all locales. */
static void add_real(bti_str *text, double real) {
    char digits[40];
    for (int precision = 15; precision <= 17; precision++) {
        snprintf(digits, sizeof digits, "%.*g", precision, real);
        if (strtod(digits, NULL) == real) break;
    }
    for (char *at = digits; *at; at++)
        if (*at == ',') *at = '.';
    bti_str_add(text, digits);
}

static bt_status add_metadata(walk *w, const bti_pickle_value *v) {
    bti_str text = {0};
    if (v->kind == BTI_PICKLE_BOOL)
        bti_str_add(&text, v->integer ? "true" : "false");
    else if (v->kind == BTI_PICKLE_INT)
        bti_str_addf(&text, "%" PRId64, v->integer);
    else if (v->kind == BTI_PICKLE_REAL)
        add_real(&text, v->real);
    else
        bti_str_add_bytes(&text, v->text, v->length);
    bt_status status = text.failed ? bti_no_memory() : add_entry(w, -1, bti_strdup(bti_str_text(&text)));
    bti_str_free(&text);
    return status;
}

static bt_status visit(walk *w, int value, int depth);

/* Visits `value` under the path and ".NAME". */
static bt_status visit_named(walk *w, const char *name, size_t length, int value, int depth) {
    size_t before = w->path.length;
    if (memchr(name, 0, length)) return is_damaged(w, "a key has a byte of 0");
    if (before + length + 1 > LONGEST_NAME) return is_damaged(w, "a name of more than 4096 bytes");
    if (depth > 1) bti_str_add(&w->path, ".");
    bti_str_add_bytes(&w->path, name, length);
    if (w->path.failed) return bti_no_memory();
    bt_status status = visit(w, value, depth);
    w->path.length = before;
    if (w->path.text) w->path.text[before] = '\0';
    return status;
}

static bt_status visit_dict(walk *w, const bti_pickle_value *dict, int depth) {
    const bti_pickle *p = &w->c->pickle;
    for (int cell = dict->first, next; cell >= 0; cell = p->cells.items[next].next) {
        const bti_pickle_value *key = &p->values.items[p->cells.items[cell].value];
        char number[24];
        const char *name = number;
        size_t length = key->length;
        next = p->cells.items[cell].next;
        if (key->kind == BTI_PICKLE_TEXT)
            name = key->text;
        else if (key->kind == BTI_PICKLE_INT)
            length = (size_t)snprintf(number, sizeof number, "%" PRId64, key->integer);
        else
            return bti_fail(BT_UNIMPLEMENTED,
                            "%s: \"%s\" is a dict with a key that is neither a text nor a whole number",
                            w->c->pickled.path, bti_quote(bti_str_text(&w->path)).text);
        BTI_TRY(visit_named(w, name, length, p->cells.items[next].value, depth + 1));
    }
    return BT_OK;
}

static bt_status visit_list(walk *w, const bti_pickle_value *list, int depth) {
    const bti_pickle *p = &w->c->pickle;
    int i = 0;
    for (int cell = list->first; cell >= 0; cell = p->cells.items[cell].next) {
        char number[24];
        size_t length = (size_t)snprintf(number, sizeof number, "%d", i++);
        BTI_TRY(visit_named(w, number, length, p->cells.items[cell].value, depth + 1));
    }
    return BT_OK;
}

static bt_status visit(walk *w, int value, int depth) {
    const bti_pickle_value v = w->c->pickle.values.items[value];
    if (depth > MOST_DEPTH) return is_damaged(w, "dicts and lists are nested more than 100 deep, or hold themselves");
    if (w->visits++ > 16 * (uint64_t)w->c->pickle.cells.count + MOST_VISITS)
        return is_damaged(w, "the same dicts and lists stand in it too often");
    switch (v.kind) {
    case BTI_PICKLE_TENSOR: return add_entry(w, (int)v.integer, NULL);
    case BTI_PICKLE_DICT: return visit_dict(w, &v, depth);
    case BTI_PICKLE_TUPLE:
    case BTI_PICKLE_LIST: return visit_list(w, &v, depth);
    case BTI_PICKLE_BOOL:
    case BTI_PICKLE_INT:
    case BTI_PICKLE_REAL: return add_metadata(w, &v);
    case BTI_PICKLE_TEXT: return v.length && memchr(v.text, 0, v.length) ? BT_OK : add_metadata(w, &v);
    default: return BT_OK;
    }
}

static bt_status list_names(const content *c, const bti_archive_entry_list *of, bti_names *names) {
    const char *twice;
    BTI_TRY(bti_entries_list(of, names, &twice));
    return twice ? bti_file_damaged(&c->pickled, 0, "the name \"%s\" stands for two values", bti_quote(twice).text)
                 : BT_OK;
}

static bt_status name_tensors(bt_tensors *t, content *c) {
    walk w = {.c = c};
    bt_status status = visit(&w, c->pickle.root, 0);
    bti_str_free(&w.path);
    if (status == BT_OK) status = list_names(c, &c->entries.tensors, &t->names);
    if (status == BT_OK) status = list_names(c, &c->entries.metadata, &c->entries.keys);
    return status;
}

/* --- elements -------------------------------------------------------------------------------------------------------- */

static const bti_pickle_tensor *tensor_at(const bt_tensors *t, int index) {
    const content *c = t->content;
    return &c->pickle.tensors.items[c->entries.tensors.items[index].number];
}

static bt_status describe_tensor(const bt_tensors *t, int index, bti_tensor *described) {
    const bti_pickle_tensor *of = tensor_at(t, index);
    *described = (bti_tensor){bti_tensor_dtype_of(of->dtype)->name, of->dtype, of->rank, of->shape};
    return BT_OK;
}

static bt_status find_storage(const bt_tensors *t, const bti_pickle_tensor *of, int *member) {
    const content *c = t->content;
    const bti_pickle_value *storage = &c->pickle.values.items[of->storage];
    bti_str name = {0};
    bti_str_add(&name, c->folder);
    bti_str_add(&name, "data/");
    bti_str_add_bytes(&name, storage->text, storage->length);
    *member = name.failed ? -1 : bti_names_find(&t->zip.names, name.text);
    bt_status status = BT_OK;
    if (name.failed)
        status = bti_no_memory();
    else if (*member < 0)
        status = bti_file_damaged(&c->pickled, 0, "the archive has no storage \"%s\"", bti_quote(name.text).text);
    bti_str_free(&name);
    return status;
}

/* What is to be read of a storage: `count` different elements, from element `begin` on, in `span` elements. Axes along which an element
 * repeats (stride 0) have a size of 1 in `stored`. */
typedef struct extent {
    bt_shape stored;
    int64_t count, span;
    bool repeats;
} extent;

/* False: sizes and strides overflow. */
static bool measure(const bti_pickle_tensor *of, extent *e) {
    *e = (extent){of->shape, 1, 1, false};
    for (int d = 0; d < of->rank; d++) {
        int64_t size = of->shape.size[d], reach;
        if (of->stride[d] == 0 && size > 1) e->repeats = true, size = 1;
        e->stored.size[d] = size;
        if (__builtin_mul_overflow(e->count, size, &e->count)) return false;
        if (size < 2) continue;
        if (__builtin_mul_overflow(size - 1, of->stride[d], &reach) || __builtin_add_overflow(e->span, reach, &e->span))
            return false;
    }
    return true;
}

/* The different elements, dense; the caller frees *data. */
static bt_status read_elements(const bt_tensors *t, const bti_pickle_tensor *of, const extent *e, void **data) {
    size_t element = bt_dtype_size(of->dtype);
    int member;
    uint64_t end, end_bytes;
    *data = NULL;
    BTI_TRY(find_storage(t, of, &member));
    if (__builtin_add_overflow((uint64_t)of->offset, (uint64_t)e->span, &end) ||
        __builtin_mul_overflow(end, (uint64_t)element, &end_bytes) || end_bytes > t->zip.members[member].bytes)
        return bti_file_damaged(&((const content *)t->content)->pickled, 0,
                                "a tensor reaches past the %" PRIu64 " bytes of its storage \"%s\"",
                                t->zip.members[member].bytes, bti_quote(t->zip.names.names[member]).text);
    if (e->count > e->span)
        return bti_fail(BT_UNIMPLEMENTED, "%s: a tensor whose elements overlap in its storage", t->file.path);
    size_t span_bytes = (size_t)e->span * element;
    bool dense = bti_is_dense(e->stored, of->stride);
    void *span = bti_alloc(span_bytes), *gathered = dense ? NULL : bti_alloc((size_t)e->count * element);
    bt_status status = BT_OK;
    if (!span || (!dense && !gathered))
        status = bti_fail(BT_RESOURCE_EXHAUSTED, "out of host memory: %zu bytes of a tensor", span_bytes);
    if (status == BT_OK) status = bti_zip_read(&t->zip, member, (uint64_t)of->offset * element, span, span_bytes);
    if (status == BT_OK && !dense) bti_gather_strided(span, gathered, e->stored, of->stride, element);
    if (dense && status == BT_OK)
        gathered = span;
    else
        bti_free(span);
    if (status != BT_OK) bti_free(gathered);
    *data = status == BT_OK ? gathered : NULL;
    return status;
}

static bt_array *read_tensor(const bt_tensors *t, int index) {
    const bti_pickle_tensor *of = tensor_at(t, index);
    const char *name = t->names.names[index];
    extent e;
    if (of->rank > BT_MAX_RANK)
        return bti_poisonf(BT_UNIMPLEMENTED, "%s: tensor \"%s\" has %d dimensions; berth has up to %d", t->file.path,
                           bti_quote(name).text, of->rank, BT_MAX_RANK);
    for (int d = 0; d < of->rank; d++)
        if (!of->shape.size[d]) return bt_from(NULL, of->dtype, of->shape);
    if (!measure(of, &e))
        return bti_poisonf(BT_DATA_LOSS, "%s: the shape of tensor \"%s\" overflows", t->file.path,
                           bti_quote(name).text);
    void *data;
    if (read_elements(t, of, &e, &data) != BT_OK) return bti_file_poison();
    bt_array *array = bt_from(data, of->dtype, e.stored);
    bti_free(data);
    if (of->conj) array = bt_conj(array);
    if (of->neg) array = bt_neg(array);
    return e.repeats ? bt_broadcast_shape(array, of->shape) : array;
}

/* --- the format ------------------------------------------------------------------------------------------------------ */

static const char *find_metadata(const bt_tensors *t, const char *key) {
    const content *c = t->content;
    return bti_entries_value(&c->entries, key);
}

static const char *pickled_metadata_name(const bt_tensors *t, int index) {
    const content *c = t->content;
    return bti_entries_key(&c->entries, index);
}

static void clear_content(void *object) {
    content *c = object;
    bti_entries_free(&c->entries);
    bti_free(c->folder);
    bti_pickle_free(&c->pickle);
    bti_file_close(&c->pickled);
    bti_free(c);
}

/* Files of machines whose numbers begin with the highest byte say so. */
static bt_status check_byte_order(const bt_tensors *t, const content *c) {
    bti_str name = {0};
    char order[6] = "little";
    bti_str_add(&name, c->folder);
    bti_str_add(&name, "byteorder");
    if (name.failed) return bti_str_free(&name), bti_no_memory();
    int member = bti_names_find(&t->zip.names, name.text);
    bti_str_free(&name);
    if (member < 0) return BT_OK;
    if (t->zip.members[member].bytes == sizeof order) BTI_TRY(bti_zip_read(&t->zip, member, 0, order, sizeof order));
    return t->zip.members[member].bytes == sizeof order && !memcmp(order, "little", sizeof order)
               ? BT_OK
               : bti_fail(BT_UNIMPLEMENTED, "%s: its numbers are big-endian", t->file.path);
}

bt_status bti_open_pt(bt_tensors *t, int pickle_member) {
    static const bti_archive_format pt = {"PyTorch .pt", describe_tensor,       read_tensor,
                                          find_metadata, pickled_metadata_name, clear_content};
    content *c = t->content = bti_calloc(1, sizeof *c);
    if (!c) return bti_no_memory();
    c->pickled.fd = -1;
    t->format = &pt;
    c->folder = bti_strdup(t->zip.names.names[pickle_member]);
    if (!c->folder) return bti_no_memory();
    c->folder[strlen(c->folder) - strlen("data.pkl")] = '\0';
    BTI_TRY(check_byte_order(t, c));
    BTI_TRY(bti_zip_extract(&t->zip, pickle_member, &c->pickled));
    BTI_TRY(bti_pickle_load(&c->pickle, &c->pickled));
    return name_tensors(t, c);
}
