/* The layers of berth/layers.h by name, made of options as text. */
#ifndef BTI_NN_KINDS_H
#define BTI_NN_KINDS_H

#include "nn/layer.h"

typedef struct bti_layer_making {
    const bti_layer_plan *plan;
    bt_status status; /* of the first option that is missing or does not fit */
} bti_layer_making;

typedef struct bti_layer_kind {
    const char *name;
    bt_layer *(*make)(bti_layer_making *a);
    enum { BTI_NO_CHILDREN, BTI_MAKES_CHILDREN, BTI_TAKES_CHILDREN } children;
} bti_layer_kind;

const bti_layer_kind *bti_layer_kind_find(const char *name);
/* Its layer of the options, with weights of zero; NULL, or a poisoned one: the error is in the record. */
bt_layer *bti_layer_kind_make(const bti_layer_kind *kind, bti_layer_making *a);
/* The function that an option names; NULL: none, or an error. */
bt_activation *bti_again_activation(bti_layer_making *a, const char *name);

#endif
