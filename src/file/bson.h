/* BSON (bsonspec.org): a document as a tree of nodes, read through libbson. Its texts and bytes stay where they were read. */
#ifndef BTI_FILE_BSON_H
#define BTI_FILE_BSON_H

#include "base/vec.h"
#include "file/io.h"

typedef enum bti_bson_kind {
    BTI_BSON_NULL,
    BTI_BSON_BOOL,
    BTI_BSON_INT, /* of 32 and 64 bits */
    BTI_BSON_REAL,
    BTI_BSON_TEXT,
    BTI_BSON_BYTES, /* binary, of any subtype */
    BTI_BSON_ARRAY,
    BTI_BSON_DOCUMENT,
} bti_bson_kind;

typedef struct bti_bson_node {
    bti_bson_kind kind;
    int first, next; /* indices of the first element, and of the next one in the same document; -1: none */
    int count;       /* elements of a document or array */
    uint64_t offset; /* where its element begins in the file */
    const char *key; /* ends with 0; of an element of an array its place, "0" */
    union {
        struct {
            const char *bytes; /* TEXT: ends with 0 and has no other */
            size_t length;
        };
        int64_t integer; /* BOOL, INT */
        double real;
    };
} bti_bson_node;

typedef struct bti_bson {
    const bti_file *file;
    char *bytes;                  /* of the file */
    BTI_VEC(bti_bson_node) nodes; /* 0 is the root */
} bti_bson;

/* Reads the file, which is one document, and must stay open. To be freed, also after an error. DATA_LOSS with the offset; UNIMPLEMENTED for types that are no data of a model (dates,
 * code...), and more than 4 million elements. */
bt_status bti_bson_read(bti_bson *bson, const bti_file *file);
void bti_bson_free(bti_bson *bson);
/* The element of a document with that key, or -1. */
int bti_bson_find(const bti_bson *bson, int document, const char *key);
static inline const bti_bson_node *bti_bson_at(const bti_bson *bson, int node) { return &bson->nodes.items[node]; }
/* DATA_LOSS or another status: "m.bson: byte 12: ..." */
bt_status bti_bson_fail(const bti_bson *bson, bt_status status, int node, const char *format, ...) BT_PRINTF(4, 5);

#endif
