/* A BSON file of Julia as an archive of named arrays: "model.layers.0.weight". Arrays have the sizes and indices that they have in Julia. */
#include <inttypes.h>
#include <stdio.h>

#include "base/alloc.h"
#include "base/quote.h"
#include "base/str.h"
#include "file/entries.h"
#include "file/julia.h"
#include "file/safetensors.h"
#include "file/tensors.h"

typedef struct content {
    bti_julia julia;
    bti_entries entries;
} content;

/* --- names of fields ------------------------------------------------------------------------------------------------------------ */

static const struct {
    const char *type, *fields[12];
} structs[] = {
    {"Chain", {"layers"}},
    {"Dense", {"weight", "bias", "σ"}},
    {"Conv", {"σ", "weight", "bias", "stride", "pad", "dilation", "groups"}},
    {"ConvTranspose", {"σ", "weight", "bias", "stride", "pad", "dilation", "groups"}},
    {"BatchNorm", {"λ", "β", "γ", "μ", "σ²", "ϵ", "momentum", "affine", "track_stats", "active", "chs"}},
    {"GroupNorm", {"G", "λ", "β", "γ", "μ", "σ²", "ϵ", "momentum", "affine", "track_stats", "active", "chs"}},
    {"LayerNorm", {"λ", "diag", "ϵ", "size", "affine"}},
    {"Scale", {"scale", "bias", "σ"}},
    {"Embedding", {"weight"}},
    {"Dropout", {"p", "dims", "active", "rng"}},
    {"Parallel", {"connection", "layers"}},
    {"SkipConnection", {"layers", "connection"}},
    {"MaxPool", {"k", "pad", "stride"}},
    {"MeanPool", {"k", "pad", "stride"}},
};

/* The name of a struct's field; its number where the type is not Flux's. */
static const char *field_name(const bti_julia_value *of, int i, char number[24]) {
    snprintf(number, 24, "%d", i);
    if (of->kind != BTI_JULIA_STRUCT || strncmp(of->name, "Flux.", 5)) return number;
    for (size_t s = 0; s < sizeof structs / sizeof *structs; s++)
        if (bti_julia_is(of, structs[s].type)) return i < 12 && structs[s].fields[i] ? structs[s].fields[i] : number;
    return number;
}

/* --- the walk -------------------------------------------------------------------------------------------------------------------- */

enum { MOST_DEPTH = 500, LONGEST_NAME = 4096, MOST_VISITS = 1000 };

typedef struct walk {
    content *c;
    bti_str path;
    uint64_t visits; /* bounded: what is referred to several times multiplies */
} walk;

static bt_status is_damaged(const walk *w, int node, const char *reason) {
    return bti_bson_fail(&w->c->julia.bson, BT_DATA_LOSS, node, "%s", reason);
}

/* Takes `value` over. */
static bt_status add_entry(walk *w, int at, int array, char *value) {
    BTI_TRY(bti_entries_add(&w->c->entries, &w->path, array, value));
    if (w->c->entries.text_bytes <= 16 * w->c->julia.bson.file->size + (1 << 20)) return BT_OK;
    return is_damaged(w, at, "its names and texts are much longer than itself");
}

static bt_status visit(walk *w, int node, int depth);

static bt_status visit_named(walk *w, const char *name, int node, int depth) {
    size_t before = w->path.length;
    if (before + strlen(name) + 1 > LONGEST_NAME) return is_damaged(w, node, "a name of more than 4096 bytes");
    if (before) bti_str_add(&w->path, ".");
    bti_str_add(&w->path, name);
    if (w->path.failed) return bti_no_memory();
    bt_status status = visit(w, node, depth + 1);
    w->path.length = before;
    if (w->path.text) w->path.text[before] = '\0';
    return status;
}

/* The names of a NamedTuple's fields: the first parameter of its type, a tuple of symbols. *symbols: its value, or no kind of use. */
static bt_status find_symbols(walk *w, const bti_julia_value *of, bti_julia_value *symbols) {
    symbols->items = -1;
    if (of->kind != BTI_JULIA_STRUCT || !bti_julia_is(of, "NamedTuple")) return BT_OK;
    const bti_bson *b = &w->c->julia.bson;
    int parameters = bti_bson_find(b, of->type, "params");
    if (parameters < 0 || bti_bson_at(b, parameters)->first < 0) return BT_OK;
    return bti_julia_look(&w->c->julia, bti_bson_at(b, parameters)->first, symbols);
}

static bt_status visit_items(walk *w, const bti_julia_value *of, int depth) {
    const bti_bson *b = &w->c->julia.bson;
    bti_julia_value symbols, symbol;
    BTI_TRY(find_symbols(w, of, &symbols));
    int name = symbols.items < 0 ? -1 : bti_bson_at(b, symbols.items)->first, i = 0;
    for (int item = bti_bson_at(b, of->items)->first; item >= 0; item = bti_bson_at(b, item)->next, i++) {
        char number[24];
        const char *text = field_name(of, i, number);
        if (of->kind == BTI_JULIA_DICT) text = bti_bson_at(b, item)->key;
        if (name >= 0) {
            BTI_TRY(bti_julia_look(&w->c->julia, name, &symbol));
            if (symbol.kind == BTI_JULIA_SYMBOL) text = symbol.name;
            name = bti_bson_at(b, name)->next;
        }
        if (depth || strcmp(text, "_backrefs")) BTI_TRY(visit_named(w, text, item, depth));
    }
    return BT_OK;
}

/* --- metadata -------------------------------------------------------------------------------------------------------------------- */

/* Numbers, texts and names of types and functions; NULL: out of memory. */
static char *describe_value(const bti_julia_value *v, const bti_bson_node *node) {
    bti_str text = {0};
    if (v->kind != BTI_JULIA_PLAIN && v->kind != BTI_JULIA_NUMBER)
        bti_str_add(&text, v->name);
    else if (v->kind == BTI_JULIA_PLAIN && node->kind == BTI_BSON_NULL)
        bti_str_add(&text, "nothing");
    else if (v->kind == BTI_JULIA_PLAIN && node->kind == BTI_BSON_TEXT)
        bti_str_add_bytes(&text, node->bytes, node->length);
    else if (v->kind == BTI_JULIA_PLAIN && node->kind == BTI_BSON_BOOL)
        bti_str_add(&text, node->integer ? "true" : "false");
    else if (v->kind == BTI_JULIA_PLAIN ? node->kind == BTI_BSON_INT : !v->real || v->integer)
        bti_str_addf(&text, "%" PRId64, v->integer);
    else
        bti_str_addf(&text, "%.9g", v->real);
    char *copy = text.failed ? NULL : bti_strdup(bti_str_text(&text));
    bti_str_free(&text);
    return copy;
}

static bt_status visit_array(walk *w, const bti_julia_value *v) {
    char *unknown = NULL;
    if (v->dtype == BT_DTYPE_COUNT && !(unknown = bti_strdup(v->name))) return bti_no_memory();
    return add_entry(w, v->node, v->node, unknown);
}

static bt_status visit(walk *w, int node, int depth) {
    bti_julia_value v;
    if (depth > MOST_DEPTH) return is_damaged(w, node, "values are nested more than 500 deep, or hold themselves");
    if (w->visits++ > 16 * (uint64_t)w->c->julia.bson.nodes.count + MOST_VISITS)
        return is_damaged(w, node, "the same values are referred to too often");
    BTI_TRY(bti_julia_look(&w->c->julia, node, &v));
    if (v.kind == BTI_JULIA_ARRAY) return visit_array(w, &v);
    bool is_struct = v.kind == BTI_JULIA_STRUCT && !bti_julia_is(&v, "NamedTuple");
    bool has_text = v.kind == BTI_JULIA_PLAIN || v.kind == BTI_JULIA_NUMBER || v.kind == BTI_JULIA_SYMBOL || is_struct;
    if (has_text) BTI_TRY(add_entry(w, node, -1, describe_value(&v, bti_bson_at(&w->c->julia.bson, v.node))));
    return v.items < 0 ? BT_OK : visit_items(w, &v, depth);
}

/* --- the format ------------------------------------------------------------------------------------------------------------------ */

static bt_status list_names(const content *c, const bti_archive_entry_list *of, bti_names *names) {
    const char *twice;
    BTI_TRY(bti_entries_list(of, names, &twice));
    return twice ? bti_bson_fail(&c->julia.bson, BT_DATA_LOSS, 0, "the name \"%s\" is of two values",
                                 bti_quote(twice).text)
                 : BT_OK;
}

static bt_status describe_tensor(const bt_tensors *t, int index, bti_tensor *described) {
    const content *c = t->content;
    const bti_archive_entry *e = &c->entries.tensors.items[index];
    bti_julia_value v;
    BTI_TRY(bti_julia_look(&c->julia, e->number, &v));
    *described = (bti_tensor){e->value ? e->value : bti_tensor_dtype_of(v.dtype)->name, v.dtype, v.rank, v.shape};
    return BT_OK;
}

static bt_array *read_tensor(const bt_tensors *t, int index) {
    const content *c = t->content;
    const bti_archive_entry *e = &c->entries.tensors.items[index];
    bti_julia_value v;
    if (bti_julia_look(&c->julia, e->number, &v) != BT_OK) return bti_file_poison();
    if (v.dtype == BT_DTYPE_COUNT || v.rank > BT_MAX_RANK)
        return bti_poisonf(BT_UNIMPLEMENTED, "%s: array \"%s\" has elements of %s and %d dimensions; berth has %s",
                           t->file.path, bti_quote(e->name).text, v.name, v.rank,
                           v.rank > BT_MAX_RANK ? "up to 8" : "no such dtype");
    void *rows = bti_alloc(v.length);
    if (!rows) return bti_poisonf(BT_RESOURCE_EXHAUSTED, "out of host memory: %zu bytes of an array", v.length);
    bti_julia_copy_rows(&v, rows);
    bt_array *array = bt_from(rows, v.dtype, v.shape);
    bti_free(rows);
    return array;
}

static const char *find_bson_metadata(const bt_tensors *t, const char *key) {
    const content *c = t->content;
    return bti_entries_value(&c->entries, key);
}

static const char *bson_metadata_name(const bt_tensors *t, int index) {
    const content *c = t->content;
    return bti_entries_key(&c->entries, index);
}

static void clear_bson(void *object) {
    content *c = object;
    bti_entries_free(&c->entries);
    bti_julia_free(&c->julia);
    bti_free(c);
}

bt_status bti_open_bson(bt_tensors *t) {
    static const bti_archive_format bson = {
        "BSON", describe_tensor, read_tensor, find_bson_metadata, bson_metadata_name, clear_bson};
    content *c = t->content = bti_calloc(1, sizeof *c);
    if (!c) return bti_no_memory();
    t->format = &bson;
    BTI_TRY(bti_julia_read(&c->julia, &t->file));
    walk w = {.c = c};
    bt_status status = visit(&w, 0, 0);
    bti_str_free(&w.path);
    if (status == BT_OK) status = list_names(c, &c->entries.tensors, &t->names);
    if (status == BT_OK) status = list_names(c, &c->entries.metadata, &c->entries.keys);
    return status;
}

const struct bti_julia *bti_bson_content(const bt_tensors *t) {
    return t->format && t->format->clear == clear_bson ? &((const content *)t->content)->julia : NULL;
}
