#include "data/mapped.h"

#include <errno.h>
#include <inttypes.h>
#include <sys/mman.h>
#include <sys/stat.h>

static bt_status check_layout(const bti_npy *n) {
    if (n->shape.rank < 1) return bti_fail(BT_INVALID_ARGUMENT, "%s: a scalar has no examples", n->file->path);
    if (n->big_endian)
        return bti_fail(BT_UNIMPLEMENTED, "%s: its numbers are big-endian and cannot be mapped; bt_load_npy reads them",
                        n->file->path);
    if (n->fortran_order && n->shape.rank > 1)
        return bti_fail(BT_UNIMPLEMENTED,
                        "%s: column-major (fortran_order), so that no example lies in one piece; "
                        "bt_load_npy reads it, or save numpy.ascontiguousarray of it",
                        n->file->path);
    return BT_OK;
}

static bt_status check_bytes(const bti_npy *n) {
    uint64_t bytes = bt_dtype_size(n->dtype);
    for (int d = 0; d < n->shape.rank; d++)
        if (__builtin_mul_overflow(bytes, (uint64_t)n->shape.size[d], &bytes))
            return bti_file_damaged(n->file, 8, "the shape overflows");
    if (bytes == n->file->size - n->data_begin) return BT_OK;
    return bti_file_damaged(n->file, n->data_begin, "dtype and shape take %" PRIu64 " bytes, the file holds %" PRIu64,
                            bytes, n->file->size - n->data_begin);
}

bt_status bti_mapped_open(const char *path, bti_mapped *mapped) {
    bti_npy n;
    *mapped = (bti_mapped){0};
    BTI_TRY(bti_file_open(path, &mapped->file));
    BTI_TRY(bti_npy_read_header(&n, &mapped->file));
    BTI_TRY(check_layout(&n));
    BTI_TRY(check_bytes(&n));
    mapped->dtype = n.dtype;
    mapped->shape = n.shape;
    void *memory = mmap(NULL, (size_t)mapped->file.size, PROT_READ, MAP_PRIVATE, mapped->file.fd, 0);
    if (memory == MAP_FAILED)
        return bti_fail(errno == ENOMEM ? BT_RESOURCE_EXHAUSTED : BT_UNAVAILABLE,
                        "%s: its %" PRIu64 " bytes cannot be mapped", path, mapped->file.size);
    mapped->memory = memory;
    mapped->elements = (const unsigned char *)memory + n.data_begin;
    return BT_OK;
}

void bti_mapped_close(bti_mapped *mapped) {
    if (mapped->memory) munmap(mapped->memory, (size_t)mapped->file.size);
    if (mapped->file.path) bti_file_close(&mapped->file);
    *mapped = (bti_mapped){0};
}

bt_status bti_mapped_check(const bti_mapped *mapped) {
    struct stat now;
    if (!fstat(mapped->file.fd, &now) && (uint64_t)now.st_size >= mapped->file.size) return BT_OK;
    return bti_file_damaged(&mapped->file, 0, "the file had %" PRIu64 " bytes when it was opened and has fewer now",
                            mapped->file.size);
}
