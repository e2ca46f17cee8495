/* Values of Julia in BSON, as BSON.jl lays them out: documents with a `tag`, an object that is met twice in `_backrefs` of the root. */
#ifndef BTI_FILE_JULIA_H
#define BTI_FILE_JULIA_H

#include "base/str.h"
#include "file/bson.h"

typedef enum bti_julia_kind {
    BTI_JULIA_PLAIN,  /* nothing, Bool, Int, Float64, String: the node itself */
    BTI_JULIA_NUMBER, /* of a type that BSON has not: integer or real is set */
    BTI_JULIA_SYMBOL,
    BTI_JULIA_LIST, /* a vector of anything */
    BTI_JULIA_TUPLE,
    BTI_JULIA_DICT,   /* with symbols as keys: a plain document */
    BTI_JULIA_TYPE,   /* and a module */
    BTI_JULIA_ARRAY,  /* of numbers */
    BTI_JULIA_STRUCT, /* a named function too: one without fields */
    BTI_JULIA_OTHER,  /* anything else with a tag */
} bti_julia_kind;

typedef struct bti_julia_value {
    bti_julia_kind kind;
    int node;  /* behind references */
    int items; /* LIST, TUPLE, DICT, STRUCT: the array or document of the items */
    int type;  /* STRUCT, ARRAY: the type's document */
    char name
        [128]; /* TYPE, STRUCT, ARRAY (of its elements): "Flux.Dense", without "Main."; SYMBOL, OTHER: its name, its tag */
    bt_dtype dtype;    /* ARRAY; BT_DTYPE_COUNT: berth has no such dtype */
    int rank;          /* maybe above 8 */
    bt_shape shape;    /* the first 8 of Julia's sizes */
    const char *bytes; /* column-major */
    size_t length;
    int64_t integer; /* NUMBER, and PLAIN of INT and BOOL */
    double real;     /* the same as a real; NAN: no number */
} bti_julia_value;

typedef struct bti_julia {
    bti_bson bson;
    BTI_VEC(int) references; /* nodes of _backrefs, in order */
} bti_julia;

/* As bti_bson_read. */
bt_status bti_julia_read(bti_julia *julia, const bti_file *file);
void bti_julia_free(bti_julia *julia);
/* What a node is. DATA_LOSS: a document with a tag lacks what belongs to it, sizes do not fit the bytes, a reference leads nowhere. */
bt_status bti_julia_look(const bti_julia *julia, int node, bti_julia_value *value);
/* Item i of a struct, tuple or list; -1: none. */
int bti_julia_item(const bti_julia *julia, const bti_julia_value *of, int i);
/* Whether a type's last name is this: "Dense" of "Flux.Dense". */
bool bti_julia_is(const bti_julia_value *value, const char *name);
/* The elements of an array with the indices that they have in Julia, row-major: `to` has value->length bytes. rank at most 8. */
void bti_julia_copy_rows(const bti_julia_value *array, void *to);

/* --- names of Julia's types, for writing too ---------------------------------------------------------------------------- */

/* "Float32"; NULL: Julia has no such numbers. */
const char *bti_julia_dtype_name(bt_dtype dtype);

#endif
