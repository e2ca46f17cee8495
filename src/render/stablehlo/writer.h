/* How a StableHLO module is written: values, types and lines in MLIR's generic form, which has changed least over XLA's versions. */
#ifndef BTI_RENDER_STABLEHLO_WRITER_H
#define BTI_RENDER_STABLEHLO_WRITER_H

#include "base/str.h"
#include "base/vec.h"
#include "ir/walk.h"

/* A value of the text: %id, or %id#of where its line makes several. */
typedef struct bti_hlo_value {
    int id, of; /* of: -1 where it is the only one */
    bti_type type;
} bti_hlo_value;

typedef BTI_VEC(bti_hlo_value) bti_hlo_values;

typedef struct bti_hlo {
    bti_str text, attributes; /* attributes: of the line that is written or ended next */
    int next;                 /* the next id */
    int depth;                /* of regions: how far lines are indented */
    bti_numbers numbers;      /* of a node: where in `values` its results begin */
    bti_hlo_values values;    /* grows; values of tuples lie one after the other */
    bool highest;             /* products of float32 are exact */
    bool divides_by_number;   /* the node that is written next */
    const bti_hlo_value *
        steps; /* of the scan that is written next, int64, where its attributes say the most; NULL: they say how many */
    void (*write_nodes)(struct bti_hlo *w, bti_node *const *nodes,
                        int count); /* those of a region, whose inputs have values */
    bt_status status;               /* the first failure; its cause is in the error record */
} bti_hlo;

/* --- types ------------------------------------------------------------------------------------------------------------- */

void bti_hlo_add_type(bti_str *text, const bti_type *type); /* tensor<2x3xf32> */
void bti_hlo_add_value(bti_str *text, bti_hlo_value value);
bti_type bti_hlo_like(const bti_type *type, bt_dtype dtype); /* the shape of another dtype */
bti_type bti_hlo_scalar(bt_dtype dtype);

/* --- attributes: of the line that is written next, or of the one with regions that is ended next ---------------------------- */

/* "NAME = "; its value is added to the text that is returned. */
bti_str *bti_hlo_attribute(bti_hlo *w, const char *name);
void bti_hlo_attribute_list(bti_hlo *w, const char *name, const int64_t *numbers, int count); /* array<i64: 1, 2> */
void bti_hlo_attribute_pairs(bti_hlo *w, const char *name, const int64_t (*pairs)[2], int count);

/* --- lines ------------------------------------------------------------------------------------------------------------- */

/* One line of one result: %7 = "stablehlo.NAME"(%1, %2) {ATTRIBUTES} : (types) -> type. */
bti_hlo_value bti_hlo_line(bti_hlo *w, const char *name, bti_type type, int count, const bti_hlo_value *inputs);
/* A line of several results, or with regions: begin, then each region to its return, then end, which writes attributes and types. made[] come with their types and get
 * their names. */
int bti_hlo_begin(bti_hlo *w, const char *name, int results, int count, const bti_hlo_value *inputs);
void bti_hlo_region(bti_hlo *w, int count, bti_hlo_value *arguments); /* of the types that they have; gives them ids */
void bti_hlo_return(bti_hlo *w, int count, const bti_hlo_value *values); /* ends the region */
void bti_hlo_end(bti_hlo *w, int count, const bti_hlo_value *inputs, int results, bti_hlo_value *made, int id);
void bti_hlo_indent(bti_hlo *w);

/* --- what most operations are made of ---------------------------------------------------------------------------------- */

bti_hlo_value bti_hlo_unary(bti_hlo *w, const char *name, bti_hlo_value x);
bti_hlo_value bti_hlo_binary(bti_hlo *w, const char *name, bti_hlo_value x, bti_hlo_value y);
bti_hlo_value bti_hlo_compare(bti_hlo *w, const char *direction, bti_hlo_value x, bti_hlo_value y); /* "LT" */
bti_hlo_value bti_hlo_select(bti_hlo *w, bti_hlo_value condition, bti_hlo_value x, bti_hlo_value y);
bti_hlo_value bti_hlo_convert(bti_hlo *w, bti_hlo_value x,
                              bt_dtype dtype);                          /* as StableHLO's does; none when it is of it */
bti_hlo_value bti_hlo_number(bti_hlo *w, bti_type type, double number); /* everywhere; whole of integers, exact */
bti_hlo_value bti_hlo_bits(bti_hlo *w, bti_type type, uint64_t bits);   /* everywhere, by the bits of the dtype */
bti_hlo_value bti_hlo_reshape(bti_hlo *w, bti_hlo_value x, int rank, const int64_t *shape);
bti_hlo_value bti_hlo_permute(bti_hlo *w, bti_hlo_value x, const int *axes); /* axis i of the result is axes[i] of x */
/* x's axis i is axis dims[i] of the result; axes of one element are repeated. */
bti_hlo_value bti_hlo_broadcast(bti_hlo *w, bti_hlo_value x, const int64_t *dims, bti_type type);
bti_hlo_value bti_hlo_iota(bti_hlo *w, bti_type type, int axis);
bti_hlo_value bti_hlo_reverse(bti_hlo *w, bti_hlo_value x, uint32_t axes); /* a mask */
/* The elements of x from starts up to before ends. type: the result's. */
bti_hlo_value bti_hlo_slice(bti_hlo *w, bti_hlo_value x, bti_type type, const int64_t *starts, const int64_t *ends,
                            const int64_t *steps);
/* Folds axes of a mask away. name: "add", "maximum"... */
bti_hlo_value bti_hlo_reduce(bti_hlo *w, const char *name, bti_hlo_value x, bti_hlo_value start, uint32_t axes);
/* The region of two scalars of a dtype that are combined: of reductions and scatters. */
void bti_hlo_combine(bti_hlo *w, const char *name, bt_dtype dtype);

/* The value of a node's result. */
bti_hlo_value bti_hlo_of(bti_hlo *w, const bti_node *node);
/* It has it: one, or those of a tuple in order. */
void bti_hlo_set(bti_hlo *w, const bti_node *node, int count, const bti_hlo_value *values);
/* Cannot be said in StableHLO: names the operation and the line that recorded it. */
void bti_hlo_refuse(bti_hlo *w, const bti_node *node, const char *why);

/* --- modules: stablehlo.c ------------------------------------------------------------------------------------------------ */

void bti_hlo_begin_module(bti_hlo *w, const char *name); /* up to the arguments */
void bti_hlo_argument(bti_hlo *w, bool first, bti_hlo_value argument, int alias);
void bti_hlo_result_type(bti_hlo *w, bool first, bti_type type);
void bti_hlo_result(bti_hlo *w, bool first, bti_hlo_value result);
/* Behind the types of the results. The text is added to `text`, or given up. */
bt_status bti_hlo_end_module(bti_hlo *w, bti_str *text);
bti_hlo_value bti_hlo_data(bti_hlo *w, bti_type type, const void *elements); /* dense, row-major */
bti_hlo_value bti_hlo_constant(bti_hlo *w, bti_type type, uint64_t bits);    /* as nodes have them */
void bti_hlo_node(bti_hlo *w, const bti_node *node, const bti_hlo_value *in);
void bti_hlo_nodes(bti_hlo *w, bti_node *const *nodes, int count);

/* --- operations: by files ---------------------------------------------------------------------------------------------- */

bti_hlo_value bti_hlo_elementwise(bti_hlo *w, const bti_node *node, const bti_hlo_value *in);
bti_hlo_value bti_hlo_cast(bti_hlo *w, bti_hlo_value x, bt_dtype dtype); /* the meaning of berth's */
/* erf, erfc and erfinv, by polynomials. */
bti_hlo_value bti_hlo_error_function(bti_hlo *w, bti_op op, bti_hlo_value x);
bti_hlo_value bti_hlo_random(bti_hlo *w, const bti_node *node, const bti_hlo_value *in);
bti_hlo_value bti_hlo_fold(bti_hlo *w, const bti_node *node, bti_hlo_value x);
bti_hlo_value bti_hlo_start(bti_hlo *w, bti_op op, bt_dtype dtype); /* what folding starts from: it changes nothing */
bti_hlo_value bti_hlo_running(bti_hlo *w, const bti_node *node, bti_hlo_value x);
bti_hlo_value bti_hlo_move(bti_hlo *w, const bti_node *node, bti_hlo_value x);
bti_hlo_value bti_hlo_gather(bti_hlo *w, const bti_node *node, const bti_hlo_value *in);
void bti_hlo_order(bti_hlo *w, const bti_node *node, bti_hlo_value x);
bti_hlo_value bti_hlo_product(bti_hlo *w, bti_hlo_value a, bti_hlo_value b, bti_type type);
bti_hlo_value bti_hlo_conv(bti_hlo *w, const bti_node *node, const bti_hlo_value *in);
void bti_hlo_attention(bti_hlo *w, const bti_node *node, const bti_hlo_value *in);
/* Of a function of the host's; false: StableHLO does not have it. */
bool bti_hlo_library(bti_hlo *w, const bti_node *node, const bti_hlo_value *in);
void bti_hlo_control(bti_hlo *w, const bti_node *node, const bti_hlo_value *in);

#endif
