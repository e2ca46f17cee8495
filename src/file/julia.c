#include "file/julia.h"

#include <math.h>
#include <stdio.h>

#include "base/quote.h"
#include "file/strides.h"
#include "ir/dtype.h"

/* --- types ---------------------------------------------------------------------------------------------------------------------- */

static const struct {
    const char *name;
    bt_dtype dtype;
    size_t bytes;
} numbers[] = {
    {"Float32", BT_F32, 4}, {"Float64", BT_F64, 8},         {"Float16", BT_F16, 2},         {"BFloat16", BT_BF16, 2},
    {"Int8", BT_I8, 1},     {"Int16", BT_I16, 2},           {"Int32", BT_I32, 4},           {"Int64", BT_I64, 8},
    {"UInt8", BT_U8, 1},    {"UInt16", BT_U16, 2},          {"UInt32", BT_U32, 4},          {"UInt64", BT_U64, 8},
    {"Bool", BT_BOOL, 1},   {"Int128", BT_DTYPE_COUNT, 16}, {"UInt128", BT_DTYPE_COUNT, 16}};
enum { NUMBERS = sizeof numbers / sizeof *numbers };

const char *bti_julia_dtype_name(bt_dtype dtype) {
    for (int i = 0; i < NUMBERS; i++)
        if (numbers[i].dtype == dtype && dtype != BT_BF16) return numbers[i].name;
    return NULL;
}

bool bti_julia_is(const bti_julia_value *value, const char *name) {
    const char *last = strrchr(value->name, '.');
    return !strcmp(last && last > value->name ? last + 1 : value->name, name);
}

static int find_number(const char *type) {
    bti_julia_value v;
    snprintf(v.name, sizeof v.name, "%s", type);
    for (int i = 0; i < NUMBERS; i++)
        if (bti_julia_is(&v, numbers[i].name)) return i;
    return -1;
}

/* --- parts of documents ------------------------------------------------------------------------------------------------------- */

static const bti_bson_node *node_at(const bti_julia *j, int node) { return bti_bson_at(&j->bson, node); }

static bt_status find_part(const bti_julia *j, int document, const char *key, bti_bson_kind kind, int *part) {
    static const char *const names[] = {"nothing", "a bool", "a whole number", "a real",
                                        "a text",  "binary", "an array",       "a document"};
    *part = bti_bson_find(&j->bson, document, key);
    if (*part >= 0 && node_at(j, *part)->kind == kind) return BT_OK;
    return bti_bson_fail(&j->bson, BT_DATA_LOSS, document, "\"%s\" has no \"%s\" that is %s",
                         bti_quote(node_at(j, document)->key).text, key, names[kind]);
}

/* Follows references to what they are of. */
static bt_status follow(const bti_julia *j, int *node) {
    for (int hops = 0;; hops++) {
        int tag = bti_bson_find(&j->bson, *node, "tag"), ref;
        if (tag < 0 || node_at(j, tag)->kind != BTI_BSON_TEXT || strcmp(node_at(j, tag)->bytes, "backref"))
            return BT_OK;
        BTI_TRY(find_part(j, *node, "ref", BTI_BSON_INT, &ref));
        int64_t number = node_at(j, ref)->integer;
        if (number < 1 || (uint64_t)number > j->references.count || hops > 8)
            return bti_bson_fail(&j->bson, BT_DATA_LOSS, ref, "reference %lld leads nowhere", (long long)number);
        *node = j->references.items[number - 1];
    }
}

/* "Flux.Dense" of a datatype's path ["Flux", "Dense"]. */
static bt_status take_name(const bti_julia *j, int document, const char *key, char name[128]) {
    int path;
    BTI_TRY(find_part(j, document, key, BTI_BSON_ARRAY, &path));
    size_t length = 0;
    name[0] = '\0';
    for (int i = node_at(j, path)->first; i >= 0; i = node_at(j, i)->next) {
        const bti_bson_node *part = node_at(j, i);
        if (part->kind != BTI_BSON_TEXT)
            return bti_bson_fail(&j->bson, BT_DATA_LOSS, i, "a name of a type that is no text");
        if (i == node_at(j, path)->first && part->next >= 0 && !strcmp(part->bytes, "Main")) continue;
        int more = snprintf(name + length, 128 - length, "%s%s", length ? "." : "", part->bytes);
        if (more >= (int)(128 - length))
            return bti_bson_fail(&j->bson, BT_UNIMPLEMENTED, i, "the name of a type has more than 127 bytes");
        length += (size_t)more;
    }
    if (!length) return bti_bson_fail(&j->bson, BT_DATA_LOSS, path, "a type without a name");
    return BT_OK;
}

static bt_status take_type(const bti_julia *j, int document, bti_julia_value *v) {
    BTI_TRY(find_part(j, document, "type", BTI_BSON_DOCUMENT, &v->type));
    BTI_TRY(follow(j, &v->type));
    return take_name(j, v->type, "name", v->name);
}

/* --- arrays and numbers ------------------------------------------------------------------------------------------------------- */

static bt_status take_sizes(const bti_julia *j, int document, bti_julia_value *v, uint64_t *count) {
    int sizes;
    BTI_TRY(find_part(j, document, "size", BTI_BSON_ARRAY, &sizes));
    *count = 1;
    bool none = false, overflows = false;
    for (int i = node_at(j, sizes)->first; i >= 0; i = node_at(j, i)->next) {
        const bti_bson_node *size = node_at(j, i);
        if (size->kind != BTI_BSON_INT || size->integer < 0)
            return bti_bson_fail(&j->bson, BT_DATA_LOSS, i, "a size that is no whole number >= 0");
        none = none || !size->integer;
        overflows = overflows || __builtin_mul_overflow(*count, (uint64_t)size->integer, count);
        if (v->rank < BT_MAX_RANK) v->shape.size[v->rank] = size->integer;
        v->rank++;
    }
    v->shape.rank = v->rank < BT_MAX_RANK ? v->rank : BT_MAX_RANK;
    if (none) *count = 0;
    return overflows && !none ? bti_bson_fail(&j->bson, BT_DATA_LOSS, sizes, "the sizes overflow") : BT_OK;
}

/* Arrays of other things have their items in an array: a list, whatever its sizes are. */
static bt_status take_array(const bti_julia *j, bti_julia_value *v) {
    BTI_TRY(take_type(j, v->node, v));
    v->items = bti_bson_find(&j->bson, v->node, "data");
    if (v->items >= 0 && node_at(j, v->items)->kind == BTI_BSON_ARRAY) return v->kind = BTI_JULIA_LIST, BT_OK;
    int data, number = find_number(v->name);
    uint64_t count, bytes;
    BTI_TRY(find_part(j, v->node, "data", BTI_BSON_BYTES, &data));
    BTI_TRY(take_sizes(j, v->node, v, &count));
    v->kind = BTI_JULIA_ARRAY;
    v->items = -1;
    v->bytes = node_at(j, data)->bytes;
    v->length = node_at(j, data)->length;
    v->dtype = number < 0 ? BT_DTYPE_COUNT : numbers[number].dtype;
    if (number < 0) return BT_OK;
    if (__builtin_mul_overflow(count, (uint64_t)numbers[number].bytes, &bytes) || bytes != v->length)
        return bti_bson_fail(&j->bson, BT_DATA_LOSS, data, "the sizes and %s take another number of bytes than %zu",
                             v->name, v->length);
    for (size_t i = 0; v->dtype == BT_BOOL && i < v->length; i++)
        if ((unsigned char)v->bytes[i] > 1)
            return bti_bson_fail(&j->bson, BT_DATA_LOSS, data, "a bool is 0 or 1, not %d", (unsigned char)v->bytes[i]);
    return BT_OK;
}

/* A number of a type that BSON has not: its bytes. */
static void take_number(const bti_bson_node *data, bti_julia_value *v) {
    int number = find_number(v->name);
    if (number < 0 || numbers[number].bytes != data->length) return;
    int64_t integer = 0;
    float f;
    double d;
    switch (numbers[number].dtype) {
    case BT_F32: memcpy(&f, data->bytes, sizeof f), v->real = (double)f; break;
    case BT_F64: memcpy(&d, data->bytes, sizeof d), v->real = d; break;
    case BT_I8: integer = (int8_t)*data->bytes, v->real = (double)integer; break;
    case BT_U8:
    case BT_BOOL: integer = (uint8_t)*data->bytes, v->real = (double)integer; break;
    case BT_U16:
    case BT_U32:
    case BT_I64:
    case BT_U64: memcpy(&integer, data->bytes, data->length), v->real = (double)integer; break;
    case BT_I16: {
        int16_t s;
        memcpy(&s, data->bytes, sizeof s), integer = s, v->real = (double)s;
        break;
    }
    case BT_I32: {
        int32_t s;
        memcpy(&s, data->bytes, sizeof s), integer = s, v->real = (double)s;
        break;
    }
    default: return;
    }
    v->integer = integer;
    v->kind = BTI_JULIA_NUMBER;
}

static bt_status take_struct(const bti_julia *j, bti_julia_value *v) {
    BTI_TRY(take_type(j, v->node, v));
    int data = bti_bson_find(&j->bson, v->node, "data");
    v->kind = BTI_JULIA_STRUCT;
    v->items = data >= 0 && node_at(j, data)->kind == BTI_BSON_ARRAY ? data : -1;
    if (data >= 0 && node_at(j, data)->kind == BTI_BSON_BYTES) take_number(node_at(j, data), v);
    if (v->items < 0 && (data < 0 || node_at(j, data)->kind != BTI_BSON_BYTES))
        return bti_bson_fail(&j->bson, BT_DATA_LOSS, v->node, "a struct without data");
    return BT_OK;
}

/* --- what a node is ------------------------------------------------------------------------------------------------------------ */

static void take_plain(const bti_bson_node *node, bti_julia_value *v) {
    v->kind = BTI_JULIA_PLAIN;
    if (node->kind == BTI_BSON_INT || node->kind == BTI_BSON_BOOL) {
        v->integer = node->integer;
        v->real = (double)node->integer;
    } else if (node->kind == BTI_BSON_REAL)
        v->real = node->real;
}

/* Vector{UInt8} is plain binary. */
static void take_binary(const bti_bson_node *node, bti_julia_value *v) {
    v->kind = BTI_JULIA_ARRAY;
    v->dtype = BT_U8;
    snprintf(v->name, sizeof v->name, "Core.UInt8");
    v->rank = v->shape.rank = 1;
    v->shape.size[0] = (int64_t)node->length;
    v->bytes = node->bytes;
    v->length = node->length;
}

static bt_status take_tagged(const bti_julia *j, const char *tag, bti_julia_value *v) {
    int name;
    if (!strcmp(tag, "struct")) return take_struct(j, v);
    if (!strcmp(tag, "array")) return take_array(j, v);
    if (!strcmp(tag, "tuple")) {
        v->kind = BTI_JULIA_TUPLE;
        return find_part(j, v->node, "data", BTI_BSON_ARRAY, &v->items);
    }
    if (!strcmp(tag, "symbol")) {
        BTI_TRY(find_part(j, v->node, "name", BTI_BSON_TEXT, &name));
        v->kind = BTI_JULIA_SYMBOL;
        snprintf(v->name, sizeof v->name, "%s", node_at(j, name)->bytes);
        return BT_OK;
    }
    v->kind = BTI_JULIA_TYPE;
    if (!strcmp(tag, "datatype")) return take_name(j, v->node, "name", v->name);
    if (!strcmp(tag, "ref")) return take_name(j, v->node, "path", v->name);
    v->kind = BTI_JULIA_OTHER;
    snprintf(v->name, sizeof v->name, "%s", tag);
    return BT_OK;
}

bt_status bti_julia_look(const bti_julia *j, int node, bti_julia_value *v) {
    *v = (bti_julia_value){.items = -1, .type = -1, .real = NAN};
    BTI_TRY(follow(j, &node));
    v->node = node;
    const bti_bson_node *at = node_at(j, node);
    if (at->kind == BTI_BSON_BYTES)
        take_binary(at, v);
    else if (at->kind == BTI_BSON_ARRAY)
        v->kind = BTI_JULIA_LIST, v->items = node;
    else if (at->kind != BTI_BSON_DOCUMENT)
        take_plain(at, v);
    else {
        int tag = bti_bson_find(&j->bson, node, "tag");
        if (tag >= 0 && node_at(j, tag)->kind == BTI_BSON_TEXT) return take_tagged(j, node_at(j, tag)->bytes, v);
        v->kind = BTI_JULIA_DICT;
        v->items = node;
    }
    return BT_OK;
}

int bti_julia_item(const bti_julia *j, const bti_julia_value *of, int i) {
    int item = of->items < 0 ? -1 : node_at(j, of->items)->first;
    while (item >= 0 && i-- > 0) item = node_at(j, item)->next;
    return item;
}

void bti_julia_copy_rows(const bti_julia_value *array, void *to) {
    int64_t stride[BT_MAX_RANK], count = 1;
    for (int d = 0; d < array->shape.rank; d++) {
        stride[d] = count;
        count *= array->shape.size[d];
    }
    bti_gather_strided(array->bytes, to, array->shape, stride, bt_dtype_size(array->dtype));
}

/* --- the file ------------------------------------------------------------------------------------------------------------------- */

bt_status bti_julia_read(bti_julia *j, const bti_file *file) {
    BTI_TRY(bti_bson_read(&j->bson, file));
    int refs = bti_bson_find(&j->bson, 0, "_backrefs");
    if (refs < 0) return BT_OK;
    if (node_at(j, refs)->kind != BTI_BSON_ARRAY)
        return bti_bson_fail(&j->bson, BT_DATA_LOSS, refs, "\"_backrefs\" is no array");
    for (int i = node_at(j, refs)->first; i >= 0; i = node_at(j, i)->next)
        if (!bti_vec_push(&j->references, i)) return bti_no_memory();
    return BT_OK;
}

void bti_julia_free(bti_julia *j) {
    bti_vec_free(&j->references);
    bti_bson_free(&j->bson);
}
