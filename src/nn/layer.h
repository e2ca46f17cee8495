/* A layer is a node of a tree. */
#ifndef BTI_NN_LAYER_H
#define BTI_NN_LAYER_H

#include <berth/nn.h>

#include "array/handle.h"

#define BTI_LAYER_DEPTH 200
#define BTI_LAYER_PARAMETERS 2 /* of its own, at most */

struct bt_layer {
    bti_owned head;
    const char *kind; /* "Dense", "Chain", ... */
    char *name;       /* of a function given by the user; else NULL */
    bt_array *(*apply)(bt_layer *layer, bt_array *x);
    bt_activation *activation;            /* NULL: none */
    bt_shared *own[BTI_LAYER_PARAMETERS]; /* in the order of names; NULL: not there */
    const char *own_names[BTI_LAYER_PARAMETERS];
    bt_layer **children;
    int child_count;
    int depth; /* levels below it; at most BTI_LAYER_DEPTH: walks over the tree recurse */
};

/* A layer without children, with one reference, the caller's; NULL when memory is short (in the error record). */
bt_layer *bti_layer_new(const char *kind, bt_array *(*apply)(bt_layer *, bt_array *));
/* Moves the caller's reference to the innermost scope; returns the layer. NULL: a layer poisoned by the thread's last error. */
bt_layer *bti_layer_own(bt_layer *layer);
/* The devices of a model's input and, as far as its parameters tell, of its output. */
typedef struct bti_layer_ends {
    int first, last; /* devices of the first and the last parameter */
    bool several;    /* the parameters are on several devices */
    bool any;        /* it has parameters */
} bti_layer_ends;
bti_layer_ends bti_layer_ends_of(const bt_layer *layer);
/* bti_bring x to the device of another array. */
bt_array *bti_bring_beside(bt_array *x, const bt_array *beside);
/* bti_bring x to the device of the model's first parameter; returns x if there is none. */
bt_array *bti_bring_batch(bt_array *x, const bt_layer *model);

/* "relu" for bt_relu, ...; "function" for one that berth does not know; "" for NULL. */
const char *bti_activation_name(bt_activation *activation);

#endif
