/* Julia's values written as BSON.jl lays them out, through libbson. All of a document is put twice into a writer: first its bytes are counted, then a document of that size is
 * filled, so that nothing grows. */
#ifndef BTI_FILE_JULIA_WRITE_H
#define BTI_FILE_JULIA_WRITE_H

#include <berth/function.h>
#include <bson/bson.h>

#include "base/str.h"
#include "base/vec.h"
#include "file/julia.h"

typedef struct bti_julia_writer {
    bson_t *at; /* the innermost document; NULL while bytes are counted */
    uint64_t bytes;
    bool failed; /* libbson refused */
    bt_status status;
    bti_str path;                      /* of the layer, for errors */
    BTI_VEC(bt_shared *) seen, shared; /* variables so far; those that are met again, in the order of _backrefs */
    int visits;
} bti_julia_writer;

/* UNIMPLEMENTED: "layer 0.1 is ...". The first one stays. */
bt_status bti_put_refuse(bti_julia_writer *w, const char *what);

/* --- BSON ----------------------------------------------------------------------------------------------------------- */

void bti_put_text(bti_julia_writer *w, const char *key, const char *text);
void bti_put_integer(bti_julia_writer *w, const char *key, int64_t integer);
void bti_put_real(bti_julia_writer *w, const char *key, double real);
void bti_put_bool(bti_julia_writer *w, const char *key, bool value);
void bti_put_nothing(bti_julia_writer *w, const char *key);

/* A document or array inside of another; it stays where it is until its end. */
typedef struct bti_put_level {
    bson_t own, *above;
    int items; /* of an array, so far */
} bti_put_level;
void bti_put_begin(bti_julia_writer *w, bti_put_level *level, const char *key, bool array);
void bti_put_end(bti_julia_writer *w, bti_put_level *level);
/* The key of an array's next item: "0", "1"... */
typedef struct bti_put_item {
    char text[16];
} bti_put_item;
bti_put_item bti_put_key(bti_put_level *level);

/* --- types ---------------------------------------------------------------------------------------------------------- */

/* {tag: "datatype", name: [module, name], params: [...]}, up to its parameters. */
void bti_put_begin_type(bti_julia_writer *w, bti_put_level *type, bti_put_level *parameters, const char *key,
                        const char *module, const char *name);
void bti_put_end_type(bti_julia_writer *w, bti_put_level *type, bti_put_level *parameters);
void bti_put_type(bti_julia_writer *w, const char *key, const char *module, const char *name);
void bti_put_array_type(bti_julia_writer *w, const char *key, bt_dtype dtype, int rank);

/* --- values --------------------------------------------------------------------------------------------------------- */

/* {tag: "struct", type: ..., data: []} of a type without parameters and fields. */
void bti_put_singleton(bti_julia_writer *w, const char *key, const char *module, const char *name);
void bti_put_float32(bti_julia_writer *w, const char *key, double real);
/* Sizes in Julia's order, which is the opposite one, each `repeats` times; `unless` in the place of 0. */
void bti_put_tuple(bti_julia_writer *w, const char *key, bt_shape sizes, int repeats, int64_t unless);
/* {tag: "array", type: ..., size: [...], data: ...}. Arrays of three axes and more are kernels, which are flipped. */
void bti_put_array(bti_julia_writer *w, const char *key, bt_array *value);

#endif
