#include "file/strides.h"

#include <string.h>

/* A row of the last axis. */
static void gather_row(const char *from, char *to, int64_t count, int64_t step, size_t element) {
    if (step == (int64_t)element) {
        memcpy(to, from, (size_t)count * element);
        return;
    }
    for (int64_t i = 0; i < count; i++, from += step, to += element)
        switch (element) { /* a copy of known size is one instruction */
        case 1: memcpy(to, from, 1); break;
        case 2: memcpy(to, from, 2); break;
        case 4: memcpy(to, from, 4); break;
        case 8: memcpy(to, from, 8); break;
        default: memcpy(to, from, element); break;
        }
}

void bti_gather_strided(const void *from, void *to, bt_shape shape, const int64_t *stride, size_t element) {
    int64_t index[BT_MAX_RANK] = {0};
    int last = shape.rank - 1;
    for (int d = 0; d < shape.rank; d++)
        if (!shape.size[d]) return;
    if (last < 0) {
        memcpy(to, from, element);
        return;
    }
    const char *at = from;
    char *row = to;
    for (;;) {
        gather_row(at, row, shape.size[last], stride[last] * (int64_t)element, element);
        row += (size_t)shape.size[last] * element;
        int d = last - 1;
        for (; d >= 0; d--) {
            at += stride[d] * (int64_t)element;
            if (++index[d] < shape.size[d]) break;
            at -= index[d] * stride[d] * (int64_t)element;
            index[d] = 0;
        }
        if (d < 0) return;
    }
}

bool bti_is_dense(bt_shape shape, const int64_t *stride) {
    int64_t dense = 1;
    bool fits = true;
    for (int d = shape.rank - 1; d >= 0; d--) {
        if (!shape.size[d]) return true;
        if (shape.size[d] > 1 && stride[d] != dense) fits = false;
        dense *= shape.size[d];
    }
    return fits;
}
