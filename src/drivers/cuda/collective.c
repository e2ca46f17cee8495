/* All-reduce by NCCL. The communicators of a set of devices are kept until one of the devices is closed. */
#include <string.h>

#include "base/alloc.h"
#include "base/lock.h"
#include "drivers/cuda/device.h"

#define SETS 8
#define MOST 64

typedef struct device_set {
    int count;
    bti_cuda_device *devices[MOST];
    ncclComm_t communicators[MOST];
} device_set;

BTI_STATIC_LOCK(lock, cuda_communicators) /* of `sets`, and held while NCCL starts a group */
static device_set sets[SETS];

static bt_status check_nccl(ncclResult_t result, const char *call) {
    if (result == ncclSuccess || result == ncclInProgress) return BT_OK;
    return bti_fail(BT_INTERNAL, "%s: %s", call, bti_nccl.ncclGetErrorString(result));
}

static int nccl_type(bt_dtype dtype) {
    switch (dtype) {
    case BT_F16: return ncclFloat16;
    case BT_BF16: return ncclBfloat16;
    case BT_F32: return ncclFloat32;
    case BT_F64: return ncclFloat64;
    case BT_I8: return ncclInt8;
    case BT_I32: return ncclInt32;
    case BT_I64: return ncclInt64;
    case BT_U8: return ncclUint8;
    case BT_U32: return ncclUint32;
    case BT_U64: return ncclUint64;
    default: return -1;
    }
}

static int nccl_operation(bti_op op) {
    switch (op) {
    case BTI_OP_sum: return ncclSum;
    case BTI_OP_prod: return ncclProd;
    case BTI_OP_max: return ncclMax;
    case BTI_OP_min: return ncclMin;
    default: return -1;
    }
}

/* The peers of a lost device may wait for it forever, so its communicators are aborted, and no peer is waited for. */
static void drop_communicators(device_set *s) {
    bool lost = false;
    for (int i = 0; i < s->count; i++) lost = lost || atomic_load(&s->devices[i]->lost);
    for (int i = 0; i < s->count && !lost; i++) lost = bti_cuda_sync(s->devices[i]) != BT_OK;
    for (int i = 0; i < s->count; i++)
        (void)(atomic_load(&s->devices[i]->lost) ? bti_nccl.ncclCommAbort(s->communicators[i])
                                                 : bti_nccl.ncclCommDestroy(s->communicators[i]));
    s->count = 0;
}

void bti_cuda_communicators_free(const bti_cuda_device *device) {
    bti_lock_take(&lock);
    for (int i = 0; i < SETS; i++)
        for (int d = 0; d < sets[i].count; d++)
            if (sets[i].devices[d] == device) drop_communicators(&sets[i]);
    bti_lock_give(&lock);
}

static bt_status make_communicators(device_set *s, bti_cuda_device *const *devices, int count) {
    int ordinals[MOST];
    drop_communicators(s);
    for (int i = 0; i < count; i++) ordinals[i] = devices[i]->cuda_ordinal;
    BTI_TRY(check_nccl(bti_nccl.ncclCommInitAll(s->communicators, count, ordinals), "ncclCommInitAll"));
    for (int i = 0; i < count; i++) s->devices[i] = devices[i];
    s->count = count;
    return BT_OK;
}

static bt_status find_communicators(bti_cuda_device *const *devices, int count, device_set **found) {
    static int next;
    device_set *free_one = &sets[next % SETS];
    for (int i = 0; i < SETS; i++) {
        if (sets[i].count == count && !memcmp(sets[i].devices, devices, (size_t)count * sizeof *devices)) {
            *found = &sets[i];
            return BT_OK;
        }
        if (!sets[i].count) free_one = &sets[i];
    }
    if (free_one->count) next++;
    *found = free_one;
    return make_communicators(free_one, devices, count);
}

static bt_status enqueue_all_reduce(const device_set *s, bti_cuda_device *const *devices, const uint64_t *addresses,
                                    int type, int operation, size_t elements) {
    bt_status status = check_nccl(bti_nccl.ncclGroupStart(), "ncclGroupStart");
    if (status != BT_OK) return status;
    for (int i = 0; i < s->count && status == BT_OK; i++) {
        void *memory = (void *)(uintptr_t)addresses[i];
        status = bti_cuda_enter(devices[i]);
        if (status != BT_OK) break;
        status = check_nccl(
            bti_nccl.ncclAllReduce(memory, memory, elements, type, operation, s->communicators[i], devices[i]->compute),
            "ncclAllReduce");
        (void)bti_cuda_leave(status);
    }
    bt_status ended = check_nccl(bti_nccl.ncclGroupEnd(), "ncclGroupEnd");
    return status == BT_OK ? ended : status;
}

bt_status bti_cuda_all_reduce(void *const *opened, int count, const uint64_t *addresses, bt_dtype dtype, bti_op op,
                              size_t elements) {
    bti_cuda_device *devices[MOST];
    int type = nccl_type(dtype), operation = nccl_operation(op);
    if (type < 0 || operation < 0 || count > MOST || !bti_cuda_has(BTI_CUDA_NCCL))
        return bti_fail(BT_UNIMPLEMENTED, "NCCL does not fold %s by %s here%s%s", bt_dtype_name(dtype),
                        bti_op_info(op)->name, bti_cuda_has(BTI_CUDA_NCCL) ? "" : ": ",
                        bti_cuda_library_look(BTI_CUDA_NCCL)->reason);
    for (int i = 0; i < count; i++) devices[i] = opened[i];
    for (int i = 0; i < count; i++) {
        BTI_TRY(bti_cuda_enter(devices[i])); /* fails if it is lost */
        (void)bti_cuda_leave(BT_OK);
    }
    device_set *s;
    bti_lock_take(&lock);
    bt_status status = find_communicators(devices, count, &s);
    if (status == BT_OK && addresses) status = enqueue_all_reduce(s, devices, addresses, type, operation, elements);
    bti_lock_give(&lock);
    return status;
}
