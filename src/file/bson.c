#include "file/bson.h"

#include <bson/bson.h>
#include <stdarg.h>

#include "base/alloc.h"
#include "base/quote.h"
#include "base/str.h"

enum { MOST_DEPTH = 1000, MOST_NODES = 1 << 22, LEAST_BYTES = 5 };

void bti_bson_free(bti_bson *bson) {
    bti_vec_free(&bson->nodes);
    bti_free(bson->bytes);
    bson->bytes = NULL;
}

bt_status bti_bson_fail(const bti_bson *bson, bt_status status, int node, const char *format, ...) {
    bti_str text = {0};
    va_list arguments;
    va_start(arguments, format);
    bti_str_addv(&text, format, arguments);
    va_end(arguments);
    status = bti_fail(status, "%s: byte %llu: %s", bson->file->path,
                      (unsigned long long)bti_bson_at(bson, node)->offset, bti_str_text(&text));
    bti_str_free(&text);
    return status;
}

int bti_bson_find(const bti_bson *bson, int document, const char *key) {
    if (bti_bson_at(bson, document)->kind != BTI_BSON_DOCUMENT) return -1;
    for (int i = bti_bson_at(bson, document)->first; i >= 0; i = bti_bson_at(bson, i)->next)
        if (!strcmp(bti_bson_at(bson, i)->key, key)) return i;
    return -1;
}

/* --- elements ---------------------------------------------------------------------------------------------------------------- */

typedef struct level {
    bson_iter_t iter;
    const uint8_t *bytes; /* of the document */
    int node, last;       /* its node; the last of its elements */
} level;

static uint64_t offset_of(const bti_bson *b, const level *l) {
    return (uint64_t)(l->bytes - (const uint8_t *)b->bytes) + bson_iter_offset((bson_iter_t *)&l->iter);
}

static bt_status take_bytes(const bti_bson *b, const level *l, bti_bson_node *node) {
    if (BSON_ITER_HOLDS_UTF8(&l->iter)) {
        uint32_t length;
        node->kind = BTI_BSON_TEXT;
        node->bytes = bson_iter_utf8(&l->iter, &length);
        node->length = length;
        return strlen(node->bytes) == length ? BT_OK
                                             : bti_file_damaged(b->file, node->offset, "a text has a byte of 0");
    }
    uint32_t length;
    const uint8_t *bytes = NULL;
    bson_subtype_t subtype;
    bson_iter_binary(&l->iter, &subtype, &length, &bytes);
    if (!bytes) return bti_file_damaged(b->file, node->offset, "binary data reach past their document");
    node->kind = BTI_BSON_BYTES;
    node->bytes = (const char *)bytes;
    node->length = length;
    return BT_OK;
}

static bt_status take_value(const bti_bson *b, const level *l, bti_bson_node *node) {
    const bson_iter_t *iter = &l->iter;
    switch (bson_iter_type(iter)) {
    case BSON_TYPE_NULL:
    case BSON_TYPE_UNDEFINED: node->kind = BTI_BSON_NULL; return BT_OK;
    case BSON_TYPE_BOOL: node->kind = BTI_BSON_BOOL, node->integer = bson_iter_bool(iter); return BT_OK;
    case BSON_TYPE_INT32: node->kind = BTI_BSON_INT, node->integer = bson_iter_int32(iter); return BT_OK;
    case BSON_TYPE_INT64: node->kind = BTI_BSON_INT, node->integer = bson_iter_int64(iter); return BT_OK;
    case BSON_TYPE_DOUBLE: node->kind = BTI_BSON_REAL, node->real = bson_iter_double(iter); return BT_OK;
    case BSON_TYPE_UTF8:
    case BSON_TYPE_BINARY: return take_bytes(b, l, node);
    case BSON_TYPE_DOCUMENT: node->kind = BTI_BSON_DOCUMENT; return BT_OK;
    case BSON_TYPE_ARRAY: node->kind = BTI_BSON_ARRAY; return BT_OK;
    default:
        return bti_fail(BT_UNIMPLEMENTED, "%s: byte %llu: \"%s\" has BSON's type 0x%02x, which models have not",
                        b->file->path, (unsigned long long)node->offset, bti_quote(node->key).text,
                        (unsigned)bson_iter_type(iter));
    }
}

/* Begins a document of these bytes. */
static bt_status enter(const bti_bson *b, level *l, int node, const uint8_t *bytes, size_t length) {
    *l = (level){.bytes = bytes, .node = node, .last = -1};
    if (bytes && bson_iter_init_from_data(&l->iter, bytes, length)) return BT_OK;
    return bti_file_damaged(b->file, bytes ? (uint64_t)(bytes - (const uint8_t *)b->bytes) : 0,
                            "the length of a document is not that of its bytes");
}

/* The next element of the innermost document; it becomes the innermost one if it is a document. */
static bt_status take_element(bti_bson *b, level *levels, int *depth) {
    level *l = &levels[*depth];
    bti_bson_node node = {.first = -1, .next = -1, .offset = offset_of(b, l), .key = bson_iter_key(&l->iter)};
    BTI_TRY(take_value(b, l, &node));
    if (b->nodes.count == MOST_NODES)
        return bti_fail(BT_UNIMPLEMENTED, "%s: more than %d elements", b->file->path, MOST_NODES);
    int index = (int)b->nodes.count;
    if (!bti_vec_push(&b->nodes, node)) return bti_no_memory();
    bti_bson_node *nodes = b->nodes.items;
    *(l->last < 0 ? &nodes[l->node].first : &nodes[l->last].next) = index;
    l->last = index;
    nodes[l->node].count++;
    if (node.kind < BTI_BSON_ARRAY) return BT_OK;
    if (++*depth == MOST_DEPTH)
        return bti_file_damaged(b->file, node.offset, "documents are nested more than %d deep", MOST_DEPTH - 1);
    uint32_t length = 0;
    const uint8_t *bytes = NULL;
    if (node.kind == BTI_BSON_ARRAY)
        bson_iter_array(&l->iter, &length, &bytes);
    else
        bson_iter_document(&l->iter, &length, &bytes);
    return enter(b, l + 1, index, bytes, length);
}

static bt_status take_document(bti_bson *b, level *levels) {
    bti_bson_node root = {.kind = BTI_BSON_DOCUMENT, .first = -1, .next = -1, .key = ""};
    if (!bti_vec_push(&b->nodes, root)) return bti_no_memory();
    int depth = 0;
    BTI_TRY(enter(b, &levels[0], 0, (const uint8_t *)b->bytes, (size_t)b->file->size));
    while (depth >= 0) {
        level *l = &levels[depth];
        if (bson_iter_next(&l->iter)) {
            BTI_TRY(take_element(b, levels, &depth));
            continue;
        }
        if (l->iter.err_off)
            return bti_file_damaged(b->file, (uint64_t)(l->bytes - (const uint8_t *)b->bytes) + l->iter.err_off,
                                    "an element that is no BSON, or reaches past its document");
        depth--;
    }
    return BT_OK;
}

/* --- the file ------------------------------------------------------------------------------------------------------------------ */

bt_status bti_bson_read(bti_bson *b, const bti_file *file) {
    *b = (bti_bson){.file = file};
    unsigned char start[4];
    BTI_TRY(bti_file_read_start(file, start, sizeof start));
    uint32_t length =
        (uint32_t)start[0] | (uint32_t)start[1] << 8 | (uint32_t)start[2] << 16 | (uint32_t)start[3] << 24;
    if (length != file->size || length < LEAST_BYTES || length > INT32_MAX)
        return bti_file_damaged(file, 0, "a document of %u bytes in a file of %llu", length,
                                (unsigned long long)file->size);
    b->bytes = bti_alloc(length);
    char *room = bti_alloc((MOST_DEPTH + 1) * sizeof(level));
    level *levels = (level *)(((uintptr_t)room + _Alignof(level) - 1) / _Alignof(level) * _Alignof(level));
    bt_status status = b->bytes && room
                           ? bti_file_read(file, 0, b->bytes, length)
                           : bti_fail(BT_RESOURCE_EXHAUSTED, "out of host memory: %s has %u bytes", file->path, length);
    if (status == BT_OK) status = take_document(b, levels);
    bti_free(room);
    return status;
}
