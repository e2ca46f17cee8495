/* What a driver made of an input for itself: kernels of a convolution in the layout of its library. It stays with the input's memory, for later launches of the same work on the
 * same elements, and goes with it: a new version of a variable has memory of its own. The first time that the work meets an input it is only noted. It is made of the device's pool, and
 * goes as well when memory is short. For devices whose launches are complete when they return. */
#ifndef BTI_EXEC_PACKED_H
#define BTI_EXEC_PACKED_H

#include "exec/exec.h"
#include "ir/work.h"

/* All that the layout may depend on. Compared byte by byte: begin with zeros. */
typedef struct bti_packed_key {
    bti_attr attr;
    int64_t op, offset; /* bytes from the begin of the memory to the input */
    int64_t shape[3][BTI_MAX_RANK], stride[BTI_MAX_RANK];
} bti_packed_key;

typedef struct bti_packed bti_packed;
/* Room for what is made of the source, retained; NULL: it is met for the first time, or there is no room. */
bti_packed *bti_packed_find(bti_buffer *source, const bti_packed_key *key, size_t bytes);
bti_work_packed bti_packed_memory(bti_packed *layout);
void bti_packed_release(bti_packed *layout); /* NULL is fine */

/* Whether there is any; another thread may free it meanwhile. */
static inline bool bti_packed_is_any(const bti_buffer *source) {
    return __atomic_load_n(&source->packed, __ATOMIC_ACQUIRE) != NULL;
}
/* All that was made of the source: its elements go. */
void bti_packed_drop(bti_buffer *source);
/* All on the device, but what is in use. */
void bti_packed_trim(int device);

#endif
