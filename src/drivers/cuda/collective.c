/* All-reduce by NCCL. The communicators of a set of devices are kept until one of the devices is closed. */
#include <string.h>

#include "base/alloc.h"
#include "base/lock.h"
#include "base/trace.h"
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

/* The streams of reductions wait for what makes the arrays. */
static bt_status follow(bti_cuda_device *const *devices, int count, const bti_event *after) {
    for (int i = 0; i < count; i++) {
        BTI_TRY(bti_cuda_enter(devices[i]));
        CUevent event = bti_cuda_event(devices[i], after[i]);
        BTI_TRY(bti_cuda_leave(
            bti_cuda_check(devices[i], "cuStreamWaitEvent", bti_cu.cuStreamWaitEvent(devices[i]->reduce, event, 0))));
    }
    return BT_OK;
}

static bt_status reduce_array(const device_set *s, int device, const bti_reduction *what, size_t array, int type,
                              int operation) {
    size_t at = array * (size_t)s->count + (size_t)device;
    void *from = (void *)(uintptr_t)what->inputs[at], *to = (void *)(uintptr_t)what->outputs[at];
    if (!what->elements[array]) return BT_OK;
    return check_nccl(bti_nccl.ncclAllReduce(from, to, what->elements[array], type, operation, s->communicators[device],
                                             s->devices[device]->reduce),
                      "ncclAllReduce");
}

/* A group for each array: all devices call for one before any calls for the next. */
static bt_status enqueue_array(const device_set *s, const bti_reduction *what, size_t array, int type, int operation) {
    BTI_TRY(check_nccl(bti_nccl.ncclGroupStart(), "ncclGroupStart"));
    bt_status status = BT_OK;
    for (int i = 0; i < s->count && status == BT_OK; i++) {
        status = bti_cuda_enter(s->devices[i]);
        if (status != BT_OK) break;
        status = reduce_array(s, i, what, array, type, operation);
        (void)bti_cuda_leave(status);
    }
    bt_status ended = check_nccl(bti_nccl.ncclGroupEnd(), "ncclGroupEnd");
    return status == BT_OK ? ended : status;
}

static bt_status enqueue(const device_set *s, const bti_reduction *what, int type, int operation) {
    for (size_t a = 0; a < what->array_count; a++) BTI_TRY(enqueue_array(s, what, a, type, operation));
    return BT_OK;
}

/* Around what is enqueued in between, on the streams of reductions. */
static void mark_begins(const device_set *s, bti_work_end *ends) {
    for (int i = 0; i < s->count; i++) {
        ends[i] = (bti_work_end){0};
        if (!bti_trace_on() || bti_cuda_enter(s->devices[i]) != BT_OK) continue;
        bti_cuda_mark_begin(s->devices[i], s->devices[i]->reduce, &ends[i]);
        (void)bti_cuda_leave(BT_OK);
    }
}

static bt_status mark_ends(const device_set *s, bti_work_end *ends) {
    for (int i = 0; i < s->count; i++) {
        if (!ends[i].marked) continue;
        BTI_TRY(bti_cuda_enter(s->devices[i]));
        bti_cuda_mark_end(s->devices[i], s->devices[i]->reduce, &ends[i]);
        (void)bti_cuda_leave(BT_OK);
    }
    return BT_OK;
}

static bt_status record_ends(const device_set *s, bti_work_end *ends) {
    for (int i = 0; i < s->count; i++) {
        BTI_TRY(bti_cuda_enter(s->devices[i]));
        BTI_TRY(bti_cuda_leave(bti_cuda_record(s->devices[i], s->devices[i]->reduce, &s->devices[i]->reduced,
                                               BTI_CUDA_REDUCTION, &ends[i].event)));
    }
    return BT_OK;
}

/* After a failure: nobody can wait for what was enqueued, and its memory serves what comes next. Of a lost device nothing runs any more, and its peers might wait for it forever. */
static void wait_for_all(device_set *s) {
    bool lost = false;
    for (int i = 0; i < s->count; i++) lost = lost || atomic_load(&s->devices[i]->lost);
    for (int i = 0; i < s->count && !lost; i++) {
        if (bti_cuda_enter(s->devices[i]) != BT_OK) continue;
        (void)bti_cu.cuStreamSynchronize(s->devices[i]->reduce);
        (void)bti_cuda_leave(BT_OK);
    }
    if (lost) drop_communicators(s);
}

static bt_status reduce(device_set *s, const bti_reduction *what, int type, int operation, const bti_event *after,
                        bti_work_end *ends) {
    BTI_TRY(follow(s->devices, s->count, after));
    mark_begins(s, ends);
    bt_status status = enqueue(s, what, type, operation);
    if (status == BT_OK) status = mark_ends(s, ends);
    if (status == BT_OK) status = record_ends(s, ends);
    if (status == BT_OK) return BT_OK;
    for (int i = 0; i < s->count; i++) bti_cuda_drop_marks(s->devices[i], &ends[i]);
    bti_error *before = bti_error_last();
    wait_for_all(s);
    bti_error_put_back(before);
    return status;
}

bt_status bti_cuda_all_reduce(void *const *opened, int count, const bti_reduction *what, const bti_event *after,
                              bti_work_end *ends) {
    bti_cuda_device *devices[MOST];
    int type = nccl_type(what->dtype), operation = nccl_operation(what->op);
    if (type < 0 || operation < 0 || count > MOST || !bti_cuda_has(BTI_CUDA_NCCL))
        return bti_fail(BT_UNIMPLEMENTED, "NCCL does not fold %s by %s here%s%s", bt_dtype_name(what->dtype),
                        bti_op_info(what->op)->name, bti_cuda_has(BTI_CUDA_NCCL) ? "" : ": ",
                        bti_cuda_library_look(BTI_CUDA_NCCL)->reason);
    for (int i = 0; i < count; i++) devices[i] = opened[i];
    for (int i = 0; i < count; i++) {
        BTI_TRY(bti_cuda_enter(devices[i])); /* fails if it is lost */
        (void)bti_cuda_leave(BT_OK);
    }
    device_set *s;
    bti_lock_take(&lock);
    bt_status status = find_communicators(devices, count, &s);
    if (status == BT_OK && what->array_count) status = reduce(s, what, type, operation, after, ends);
    bti_lock_give(&lock);
    return status;
}
