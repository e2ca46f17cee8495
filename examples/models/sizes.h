/* What a file says of its tensors' sizes, before a model is made of it. */
#ifndef MODELS_SIZES_H
#define MODELS_SIZES_H

#include <berth.h>
#include <string.h>

/* The sizes of a tensor; rank -1: there is no such tensor, or the file cannot tell. */
static inline bt_shape shape_in_file(const bt_tensors *file, const char *name) {
    for (int i = 0; i < bt_tensors_count(file); i++) {
        bt_tensor_info info = BT_TENSOR_INFO_INIT;
        if (strcmp(bt_tensors_name(file, i), name)) continue;
        return bt_tensors_describe(file, i, &info) == BT_OK && info.rank <= BT_MAX_RANK ? info.shape
                                                                                        : (bt_shape){.rank = -1};
    }
    return (bt_shape){.rank = -1};
}

#endif
