/* Names of the program's own layers. */
#ifndef BTI_NN_REGISTRY_H
#define BTI_NN_REGISTRY_H

#include <berth/nn.h>

typedef struct bti_named_maker {
    const char *name;
    bt_layer_maker *make;
    void *data;
} bti_named_maker;
/* What bt_layer_register has for a name; false: nothing. */
bool bti_maker_find(const char *name, bti_named_maker *maker);

#endif
