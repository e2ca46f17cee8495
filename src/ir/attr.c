#include "ir/attr.h"

#include <string.h>

/* Of each kind its bytes, and how many sizes stand at its beginning. */
#define KIND(name, sizes) [BTI_ATTR_##name] = {sizeof((bti_attr *)0)->name, sizes}
static const struct {
    size_t bytes;
    int sizes;
} kinds[] = {
    [BTI_ATTR_none] = {0, 0},
    KIND(constant, 0),
    KIND(size, 1),
    KIND(word, 0),
    KIND(fold, 0),
    KIND(axis, 0),
    KIND(running, 0),
    KIND(top, 0),
    KIND(permute, 0),
    KIND(slice, 2 * BTI_MAX_RANK),
    KIND(pad, BTI_MAX_RANK),
    KIND(window, 1),
    KIND(attention, 0),
    KIND(scan, 1),
    KIND(loop, 1),
    KIND(result, 0),
    KIND(value, 0),
    KIND(custom, 0),
};
#undef KIND

size_t bti_attr_bytes(bti_op op) { return kinds[bti_op_info(op)->attr].bytes; }

bool bti_attr_equal(bti_op op, const bti_attr *a, const bti_attr *b) {
    size_t bytes = bti_attr_bytes(op);
    return !bytes || !memcmp(a, b, bytes);
}

uint64_t bti_attr_hash(bti_op op, const bti_attr *attr) {
    uint64_t hash = 0;
    for (size_t i = 0, bytes = bti_attr_bytes(op); i < bytes; i += sizeof(uint32_t)) {
        uint32_t word;
        memcpy(&word, (const char *)attr + i, sizeof word);
        hash = (hash ^ word) * 0x9E3779B97F4A7C15u;
    }
    return hash;
}

bool bti_attr_is_unknown(bti_op op, const bti_attr *attr) {
    const int64_t *sizes = (const int64_t *)attr;
    for (int i = 0; i < kinds[bti_op_info(op)->attr].sizes; i++)
        if (bti_size_is_symbolic(sizes[i])) return true;
    return false;
}

bool bti_attr_bind(bti_op op, const bti_binding *binding, bti_attr *attr) {
    int64_t *sizes = (int64_t *)attr;
    for (int i = 0; i < kinds[bti_op_info(op)->attr].sizes; i++)
        if (bti_size_is_symbolic(sizes[i]) && !bti_size_bind(sizes[i], binding, &sizes[i])) return false;
    return true;
}
